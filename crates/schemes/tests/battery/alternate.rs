//! `alternate`: windows so short, and a cache so small, that roles change, writers wait and the log
//! goes round while power fails and drives die.

use std::cell::RefCell;
use std::collections::BTreeMap;

use io::Nanos;
use io::virt::{VirtDrive, VirtEnv};
use schemes::scheme::alternate::{Alternate, Options, Spec, create};
use schemes::{Store, StoreError};

use crate::world::{CHUNK, Subject, World, battery, forget_strange};

#[derive(Clone, Copy)]
struct Replicas {
    drives: usize,
    parity: usize,
    /// Bytes of a drive.
    drive: u64,
    t_min: Nanos,
    /// No drive dies.
    spared: bool,
}

thread_local! {
    /// The store that was opened last, and what those before counted.
    static LAST: RefCell<Option<Alternate<VirtEnv>>> = const { RefCell::new(None) };
    static COUNTED: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

fn count(next: Option<Alternate<VirtEnv>>) {
    let last = LAST.with(|last| last.replace(next));
    for (name, value) in last.iter().flat_map(Store::counters) {
        COUNTED.with(|counted| *counted.borrow_mut().entry(name).or_default() += value);
    }
}

impl Subject for Replicas {
    type Store = Alternate<VirtEnv>;

    fn name(&self) -> String {
        format!("alternate, 2 replicas of {} drives, {} parity", self.drives, self.parity)
    }

    fn drives(&self) -> Vec<u64> {
        vec![self.drive; 2 * self.drives]
    }

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        let (parity, cache) = (self.parity, 400 << 10);
        let spec = Spec { parity, cache, chunk: CHUNK, ..Spec::new("tank", self.drives) };
        create(env, drives, &spec).await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<Alternate<VirtEnv>, StoreError> {
        let options = Options { t_min: self.t_min, ..Options::default() };
        let store = Alternate::open(env, drives, options).await?;
        count(Some(store.clone()));
        Ok(store)
    }

    fn survives(&self, lost: &[bool]) -> bool {
        let gone = |replica: &[bool]| replica.iter().filter(|lost| **lost).count();
        !self.spared && lost.chunks(self.drives).any(|replica| gone(replica) <= self.parity)
    }

    /// What is being written is in the log, or on the other replica.
    fn by_parity(&self) -> bool {
        false
    }
}

const SINGLE: Replicas = Replicas {
    drives: 1,
    parity: 0,
    drive: 9 << 20,
    t_min: Nanos::from_micros(700),
    spared: false,
};
const STRIPES: Replicas =
    Replicas { drives: 2, drive: 8 << 20, t_min: Nanos::from_micros(200), ..SINGLE };
const PARITY: Replicas =
    Replicas { drives: 3, parity: 1, drive: 8 << 20, t_min: Nanos::from_millis(2), ..SINGLE };

/// Cut upon cut while both replicas are there, then one with drives lost: where replicas differed
/// after a crash and were not made equal, the one that is left is wrong.
fn cuts(subject: Replicas) {
    let asked = std::env::var("SCHEME_SEEDS").ok();
    let seeds = asked.map_or(100, |count| count.parse().expect("SCHEME_SEEDS is a number"));
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(|| {
            forget_strange();
            let mut world = World::new(Replicas { spared: true, ..subject }, seed);
            world.make();
            for round in 0..6 {
                world.subject.spared = round < 5;
                let limit = 1 + world.rng.below(90);
                if world.session(limit) {
                    world.die(false);
                }
                world.check();
                world.check();
            }
        });
        if let Err(panic) = run {
            eprintln!("{}: cuts fail with seed {seed}", subject.name());
            std::panic::resume_unwind(panic);
        }
    }
}

/// A world that never does a thing can't find it wrong. The log has room for all that waits.
fn all_of_it(subject: Replicas) {
    battery(subject);
    cuts(subject);
    count(None);
    let counted = COUNTED.with(RefCell::take);
    if std::env::var_os("SCHEME_SEEDS").is_none() {
        let none = |(name, count): &(&&str, &u64)| **count == 0 && **name != "log_full";
        let never: Vec<_> = counted.iter().filter(none).collect();
        assert!(never.is_empty(), "never: {never:?} of {counted:?}");
    }
    eprintln!("{}: {counted:?}", subject.name());
}

#[test]
fn alternate() {
    all_of_it(SINGLE);
}

#[test]
fn alternate_over_four_drives() {
    all_of_it(STRIPES);
}

#[test]
fn alternate_over_parity_arrays() {
    all_of_it(PARITY);
}

/// A drive dies, the other replica with it, and the power in the middle of a batch whose first page
/// began with sectors of somebody else: these were known by parity only, and half was written.
/// Whole pages are logged since.
#[test]
fn what_lies_beside_a_batch_is_logged_too() {
    crate::world::one(PARITY, 185);
}
