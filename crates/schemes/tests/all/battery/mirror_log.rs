//! `mirror-log`: nearly full of live data, so that segments are emptied all the time.

use std::cell::RefCell;
use std::collections::BTreeMap;

use io::Buf;
use io::virt::{VirtDrive, VirtEnv};
use schemes::scheme::mirror_log::{MirrorLog, Spec, create};
use schemes::{Store, StoreError};

use crate::battery::afflicted::{battery_afflicted, one_mixed_up};
use crate::battery::hung::battery_hung;
use crate::battery::replaced::battery_replaced;
use crate::battery::rotten::battery_rotten;
use crate::battery::world::{CHUNK, Subject, battery, battery_variant};

#[derive(Clone, Copy)]
struct Logs {
    width: usize,
    groups: usize,
    drive: u64,
}

thread_local! {
    /// The store that was opened last, and what those before counted.
    static LAST: RefCell<Option<MirrorLog<VirtEnv>>> = const { RefCell::new(None) };
    static COUNTED: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

fn count(next: Option<MirrorLog<VirtEnv>>) {
    let last = LAST.with(|last| last.replace(next));
    for (name, value) in last.iter().flat_map(Store::counters) {
        COUNTED.with(|counted| *counted.borrow_mut().entry(name).or_default() += value);
    }
}

impl Subject for Logs {
    type Store = MirrorLog<VirtEnv>;

    fn name(&self) -> String {
        format!("mirror-log, {} groups of {}", self.groups, self.width)
    }

    fn drives(&self) -> Vec<u64> {
        vec![self.drive; self.width * self.groups]
    }

    /// Everything it offers is written once: from then on what is written needs cleaning.
    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        let (name, width) = ("tank".to_owned(), self.width);
        let spec = Spec { name, width, chunk: CHUNK, segment: Some(64 << 10), checksums: true };
        create(env, drives, &spec).await?;
        let store = MirrorLog::open(env, drives.to_vec()).await?;
        store.write(0, Buf::zeroed(store.size() as usize), false).await?;
        store.close().await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<MirrorLog<VirtEnv>, StoreError> {
        let store = MirrorLog::open(env, drives).await?;
        count(Some(store.clone()));
        Ok(store)
    }

    fn survives(&self, lost: &[bool]) -> bool {
        lost.chunks(self.width).all(|group| group.iter().filter(|lost| **lost).count() <= 1)
    }

    /// Nothing is written in place.
    fn by_parity(&self) -> bool {
        false
    }

    /// What a drive did not have is copied again by work that can wait.
    fn copies_later(&self) -> bool {
        true
    }
}

#[test]
fn mirror_log() {
    battery(Logs { width: 3, groups: 1, drive: 5 << 20 });
    count(None);
    // A world that never does a thing can't find it wrong.
    if std::env::var_os("SCHEME_SEEDS").is_none() {
        let counted = COUNTED.with(RefCell::take);
        let never: Vec<_> = counted.iter().filter(|(_, count)| **count == 0).collect();
        assert!(never.is_empty(), "never: {never:?} of {counted:?}");
    }
}

#[test]
fn mirror_log_of_groups() {
    battery_variant(Logs { width: 2, groups: 2, drive: 5 << 20 });
}

#[test]
fn mirror_log_of_many_drives() {
    battery_variant(Logs { width: 7, groups: 1, drive: 4 << 20 });
}

/// In groups of three everything is copied again without the drive; in groups of two it is needed.
#[test]
fn mirror_log_replaced() {
    battery_replaced(Logs { width: 3, groups: 1, drive: 5 << 20 });
    battery_replaced(Logs { width: 2, groups: 2, drive: 5 << 20 });
}

#[test]
fn mirror_log_rotten() {
    battery_rotten(Logs { width: 3, groups: 1, drive: 5 << 20 });
    battery_rotten(Logs { width: 2, groups: 2, drive: 5 << 20 });
}

#[test]
fn mirror_log_hung() {
    battery_hung(Logs { width: 3, groups: 1, drive: 5 << 20 });
}

#[test]
fn mirror_log_afflicted() {
    battery_afflicted(Logs { width: 3, groups: 1, drive: 5 << 20 });
    battery_afflicted(Logs { width: 2, groups: 2, drive: 5 << 20 });
}

/// What a drive of the other group has in the same place passed for segments, and flushed data was
/// what it had been before.
#[test]
fn mixed_up_worlds_of_mirror_log_that_failed_once() {
    let groups = Logs { width: 2, groups: 2, drive: 5 << 20 };
    [101, 102, 105, 106].into_iter().for_each(|seed| one_mixed_up(groups, seed));
}
