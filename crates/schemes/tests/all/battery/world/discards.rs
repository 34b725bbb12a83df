//! Somebody beside the clients writes and discards what is nobody's, behind what they share. At its
//! beginning it has stripes in common with them: none of theirs may change.

use std::cell::Cell;

use io::rng::{Rng, mix};
use io::{Buf, Env, Nanos};
use schemes::Store;

use super::{Subject, World};
use crate::battery::client::{SECTOR, SPAN};

/// Sectors of nobody: several stripes of any scheme here.
const NOBODYS_MAX: u64 = 512;

/// A world in which somebody discards, to its end.
pub fn with_discards(mut world: World<impl Subject>) {
    world.nobodys = NOBODYS_MAX.min(world.behind);
    world.live();
}

impl<S: Subject> World<S> {
    pub async fn discard_beside(&self, store: &S::Store, seed: u64, done: &Cell<bool>) {
        let mut rng = Rng::new(mix(seed) ^ NOBODYS_MAX);
        while self.nobodys > 0 && !done.get() {
            let first = rng.below(self.nobodys);
            let count = 1 + rng.below(self.nobodys - first);
            let (offset, len) = ((self.base + SPAN + first) * SECTOR, count * SECTOR);
            let done = if rng.chance(1, 2) {
                let mut bytes = vec![0; len as usize];
                rng.fill(&mut bytes);
                store.write(offset, Buf::from_slice(&bytes), rng.chance(1, 4)).await
            } else {
                store.discard(offset, len).await
            };
            done.unwrap_or_else(|error| panic!("discard: {error}"));
            self.env.sleep_until(self.env.now() + Nanos(rng.below(1_000_000))).await;
        }
    }
}
