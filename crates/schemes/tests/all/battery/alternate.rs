//! `alternate`: windows so short, and a cache so small, that roles change, writers wait and the log
//! goes round while power fails and drives die. Not in worlds that rot: a page that has rotted on
//! one replica, and its sum or the log on the other, is lost (`all/alternate_heal.rs` has what
//! heals).

use std::cell::RefCell;
use std::collections::BTreeMap;

use io::Drive;
use io::Nanos;
use io::virt::{VirtDrive, VirtEnv};
use schemes::scheme::alternate::{Alternate, FlushLog, Options, Spec, create};
use schemes::{Store, StoreError};

use crate::battery::afflicted::{
    battery_afflicted, one_afflicted, one_hurt, one_losing, one_mixed_up,
};
use crate::battery::hung::battery_hung;
use crate::battery::replaced::Replaced;
use crate::battery::world::{CHUNK, Subject, battery, battery_variant, worlds};

#[derive(Clone, Copy)]
pub struct Replicas {
    count: usize,
    drives: usize,
    parity: usize,
    /// Bytes of a drive, and by how many those of each replica are larger than those before it.
    drive: u64,
    more: u64,
    t_min: Nanos,
    /// No drive dies.
    spared: bool,
    flush_log: FlushLog,
    /// Drives that died are given back, and those that are lost replaced.
    replaced: bool,
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
        let Replicas { count, drives, parity, flush_log, .. } = self;
        format!("alternate, {count} replicas of {drives} drives, {parity} parity, {flush_log:?}")
    }

    fn drives(&self) -> Vec<u64> {
        let drive = |at| self.drive + (at / self.drives) as u64 * self.more;
        (0..self.count * self.drives).map(drive).collect()
    }

    fn begin(&self) {
        count(None);
    }

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        let Replicas { count: replicas, parity, flush_log, .. } = *self;
        let (cache, chunk) = (400 << 10, CHUNK);
        let own = Spec::new("tank", self.drives);
        let spec = Spec { replicas, parity, cache, chunk, flush_log, ..own };
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
        let mut lost = lost.to_vec();
        if self.replaced {
            // What came back holds nothing before it was filled.
            let known = LAST.with_borrow(|last| last.as_ref().map(Store::lost));
            known.into_iter().flatten().for_each(|drive| lost[drive] = true);
        }
        !self.spared && lost.chunks(self.drives).any(|replica| gone(replica) <= self.parity)
    }

    /// What is being written is in the log, or on the other replica.
    fn by_parity(&self) -> bool {
        false
    }

    async fn tend(&self, store: &Alternate<VirtEnv>, drives: Vec<VirtDrive>) {
        let lost = if self.replaced { store.lost() } else { Vec::new() };
        for place in lost {
            let name = format!("d{place}");
            if let Some(drive) = drives.iter().find(|drive| drive.name() == name) {
                // Refused while another one is filled, or while it does not answer.
                let _ = store.replace(place, drive.clone()).await;
            }
        }
    }

    fn hangs(&self) -> bool {
        self.replaced
    }
}

const SINGLE: Replicas = Replicas {
    count: 2,
    drives: 1,
    parity: 0,
    drive: 9 << 20,
    more: 0,
    t_min: Nanos::from_micros(700),
    spared: false,
    flush_log: FlushLog::All,
    replaced: false,
};
const STRIPES: Replicas =
    Replicas { drives: 2, drive: 8 << 20, t_min: Nanos::from_micros(200), ..SINGLE };
pub const PARITY: Replicas =
    Replicas { drives: 3, parity: 1, drive: 8 << 20, t_min: Nanos::from_millis(2), ..SINGLE };

const THREE: Replicas = Replicas { count: 3, ..SINGLE };
const ONE_LOG: Replicas = Replicas { flush_log: FlushLog::Writer, ..SINGLE };

/// Cut upon cut while all replicas are there, also while the pool is opened, then one with drives
/// lost: where replicas differed after a crash and were not made equal, the one that is left is
/// wrong.
fn cuts(subject: Replicas, seeds: u64) {
    worlds(Replicas { spared: true, ..subject }, seeds, |mut world| {
        for round in 0..6 {
            world.subject.spared = round < 5 || subject.spared;
            let limit = 1 + world.rng.below(90);
            if world.session(limit) {
                world.die(false);
            }
            if world.rng.chance(1, 3) {
                let limit = 1 + world.rng.below(30);
                world.cut_opening(limit);
            }
            world.check();
            world.check();
        }
    });
}

/// A world that never does a thing can't find it wrong. The log has room for all that waits.
fn counted(subject: Replicas, seldom: &[&str]) {
    count(None);
    let counted = COUNTED.with(RefCell::take);
    if std::env::var_os("SCHEME_SEEDS").is_none() {
        let none = |(name, count): &(&&str, &u64)| {
            let elsewhere = ["log_full", "healed_from_replicas"].contains(*name);
            **count == 0 && !elsewhere && !seldom.contains(name)
        };
        let never: Vec<_> = counted.iter().filter(none).collect();
        assert!(never.is_empty(), "never: {never:?} of {counted:?}");
    }
    eprintln!("{}: {counted:?}", subject.name());
}

const ONLY_REPLACED: [&str; 2] = ["fills", "filled_bytes"];
const NOT_IN_ALL: [&str; 3] = ["fills", "filled_bytes", "leads"];

fn all_of_it(subject: Replicas) {
    battery(subject);
    cuts(subject, 70);
    counted(subject, &NOT_IN_ALL);
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

/// Any two of three may be lost.
#[test]
fn alternate_of_three() {
    battery_variant(THREE);
    cuts(THREE, 20);
    counted(THREE, &NOT_IN_ALL);
}

/// One log: what was flushed survives the power, and it survives a drive; not both at once.
#[test]
fn alternate_with_one_log() {
    for subject in [ONE_LOG, Replicas { count: 3, ..ONE_LOG }] {
        let subject = Replicas { spared: true, ..subject };
        cuts(subject, 15);
        worlds(subject, 15, |mut world| {
            for _ in 0..2 {
                world.subject.spared = false;
                let within = 1 + world.rng.below(200);
                assert!(!world.session_until(within, u64::MAX));
                world.subject.spared = true;
                world.check();
                let limit = 1 + world.rng.below(200);
                if world.session(limit) {
                    world.die(false);
                }
                world.check();
                world.check();
            }
        });
    }
    counted(ONE_LOG, &ONLY_REPLACED);
}

/// Drives hang and come back, or others are put in their places, and are lost again, while the
/// replica is filled or after; power fails all the time.
#[test]
fn alternate_whose_drives_are_replaced() {
    let four = Replicas { count: 4, t_min: Nanos::from_micros(200), ..SINGLE };

    for (subject, seeds) in [(SINGLE, 40), (STRIPES, 20), (four, 20), (PARITY, 20)] {
        let subject = Replicas { replaced: true, ..subject };
        worlds(subject, seeds, |mut world| {
            for _ in 0..6 {
                let limit = 1 + world.rng.below(900);
                if world.session(limit) {
                    world.die(false);
                }
                world.check();
                if world.rng.chance(2, 3) {
                    world.restock();
                }
                world.check();
                if world.rng.chance(1, 2) {
                    let pieces = world.rng.below(60);
                    world.rest(pieces);
                }
                if world.rng.chance(1, 3) {
                    let limit = 1 + world.rng.below(30);
                    world.cut_opening(limit);
                    world.check();
                }
            }
        });
    }
    counted(SINGLE, &["leads"]);
}

/// A drive dies, the other replica with it, and the power in the middle of a batch whose first page
/// began with sectors of somebody else: these were known by parity only, and half was written.
/// Whole pages are logged since.
#[test]
fn what_lies_beside_a_batch_is_logged_too() {
    crate::battery::world::one(PARITY, 185);
}

#[test]
fn alternate_hung() {
    battery_hung(SINGLE);
}

#[test]
fn alternate_of_parity_hung() {
    battery_hung(PARITY);
}

#[test]
fn alternate_afflicted() {
    battery_afflicted(SINGLE);
}

#[test]
fn alternate_over_stripes_afflicted() {
    battery_afflicted(STRIPES);
}

#[test]
fn alternate_over_parity_afflicted() {
    battery_afflicted(PARITY);
}

#[test]
fn alternate_of_three_afflicted() {
    battery_afflicted(Replicas { more: 300 << 10, ..THREE });
}

/// Where a log had rotted nobody knew what a batch had changed, and replicas differed; a replica
/// with an image of a drive of before it was made anew was not opened; an opening that was cut
/// short took what had rotted for what was written (7 and 296).
#[test]
fn afflicted_worlds_that_failed_once() {
    [27, 59].into_iter().for_each(|seed| one_afflicted(STRIPES, seed));
    one_afflicted(SINGLE, 205);
    [7, 24, 123, 339].into_iter().for_each(|seed| one_afflicted(THREE, seed));
    [296, 507].into_iter().for_each(|seed| one_afflicted(PARITY, seed));
    one_afflicted(Replaced(THREE), 60);
    // A page that the other replica had and knew no checksum of was taken from the rotten one,
    // whose checksum said what the other's is.
    one_hurt(Replaced(SINGLE), 203);
    // What a replica had of the other's log passed for its own.
    one_mixed_up(SINGLE, 509);
    // The right log has a write as in place, the page is of before; the other log has its bytes.
    one_mixed_up(STRIPES, 1345);
    // The one that was right had lost the page, the other one had it in its log; both had doubts,
    // and the page of before passed by the checksum of before, which the other one had.
    one_losing(STRIPES, 1157);
    // Of one replica a drive was lost, one noise and one rotten: of the page of checksums that it
    // found there had been a newer one, and what that knew of counted as never written.
    one_hurt(PARITY, 1198);
    [22, 61].into_iter().for_each(|seed| one_afflicted(Replaced(PARITY), seed));
}
