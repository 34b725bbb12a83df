//! Worlds in which a drive has what it held before when the machine starts again: a snapshot of it
//! was put back, or what has its name is a copy of long ago.
//!
//! What it holds then counts as lost until it is restored, so no other drive may be. Its labels
//! tell: between the image and its coming back the pool was opened at least once.

use engine::{Pool, ScrubState};
use io::rng::{Rng, mix};
use io::virt::{Disk, VirtEnv};

use super::World;
use crate::failure::{Check, Failure};

/// So many are kept.
const IMAGES_MAX: usize = 6;

/// What a drive held whenever the machine was off, with how often the pool had been opened by then.
#[derive(Default)]
pub(super) struct Images {
    opened: u64,
    kept: Vec<(u64, Disk)>,
}

impl Images {
    /// The pool was opened, and its labels told so.
    pub(super) fn opened(&mut self) {
        self.opened += 1;
    }
}

impl World {
    /// The machine is off.
    pub(super) fn put_back(&mut self) {
        let Some(drive) = self.plan.stale else { return };
        // Other worlds draw nothing for it.
        let mut rng = Rng::new(mix(self.plan.seed) ^ mix(self.session ^ 0x57a1e));
        let Images { opened, kept } = &mut self.images;
        let older = kept.iter().filter(|(when, _)| when < opened).count();
        kept.push((*opened, self.machine.disks[drive].fork()));
        if older > 0 && rng.chance(1, 2) {
            let (when, image) = &kept[rng.index(older)];
            self.machine.disks[drive] = image.fork();
            let ago = *opened - when;
            self.context.tell(|| format!("drive {drive} is as it was {ago} openings ago"));
        }
        kept.drain(..kept.len().saturating_sub(IMAGES_MAX));
    }

    /// The drive is whole again, and nothing on it is of before.
    pub(super) fn scrub_restored(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if self.plan.stale.is_none() {
            return Ok(());
        }
        self.until_whole(pool)?;
        let status = self.scrub(pool)?;
        let bad = status.bad_pages + status.repaired_parity + status.lost_pages;
        if status.state != ScrubState::Done || bad > 0 {
            return Err(Failure::new(Check::Audit, format!("not as it was written: {status:?}")));
        }
        Ok(())
    }
}
