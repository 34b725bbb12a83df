//! `log-mirror`: the log is smaller than what is written, so that it goes round, fills and is
//! destaged all the time.

use std::cell::RefCell;
use std::collections::BTreeMap;

use io::virt::{VirtDrive, VirtEnv};
use schemes::scheme::log_mirror::policy::Policy;
use schemes::scheme::log_mirror::{LogMirror, Options, Spec, create};
use schemes::{Store, StoreError};

use crate::world::{CHUNK, Subject, battery, battery_variant};

#[derive(Clone, Copy)]
struct Mirrored {
    data_drives: usize,
    parity: usize,
    log_bytes: u64,
    policy: Policy,
}

thread_local! {
    /// The store that was opened last, and what those before counted.
    static LAST: RefCell<Option<LogMirror<VirtEnv>>> = const { RefCell::new(None) };
    static COUNTED: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

fn count(next: Option<LogMirror<VirtEnv>>) {
    let last = LAST.with(|last| last.replace(next));
    for (name, value) in last.iter().flat_map(Store::counters) {
        COUNTED.with(|counted| *counted.borrow_mut().entry(name).or_default() += value);
    }
}

impl Mirrored {
    fn spec(&self) -> Spec {
        Spec {
            parity: self.parity,
            chunk: CHUNK,
            log_chunk: 2 * CHUNK,
            log_bytes: Some(self.log_bytes),
            ..Spec::new("tank", self.data_drives)
        }
    }
}

impl Subject for Mirrored {
    type Store = LogMirror<VirtEnv>;

    fn name(&self) -> String {
        format!("log-mirror of {} data drives", self.data_drives)
    }

    fn drives(&self) -> Vec<u64> {
        vec![6 << 20; self.data_drives + 2]
    }

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        create(env, drives, &self.spec()).await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<LogMirror<VirtEnv>, StoreError> {
        let options = Options { policy: self.policy, ..Options::default() };
        let store = LogMirror::open(env, drives, options).await?;
        count(Some(store.clone()));
        Ok(store)
    }

    fn survives(&self, lost: &[bool]) -> bool {
        let (data, log) = lost.split_at(self.data_drives);
        let gone = |drives: &[bool]| drives.iter().filter(|lost| **lost).count();
        gone(data) <= self.parity && gone(log) <= 1
    }

    fn by_parity(&self) -> bool {
        true
    }
}

const EAGER: Policy = Policy { high: 60, low: 40, reads: 20, window: 4 };

#[test]
fn log_mirror() {
    battery(Mirrored { data_drives: 4, parity: 1, log_bytes: 320 << 10, policy: EAGER });
    count(None);
    // A world that never does a thing can't find it wrong.
    if std::env::var_os("SCHEME_SEEDS").is_none() {
        let counted = COUNTED.with(RefCell::take);
        let never: Vec<_> = counted.iter().filter(|(_, count)| **count == 0).collect();
        assert!(never.is_empty(), "never: {never:?} of {counted:?}");
    }
}

/// RAID6, and a log that has room for all that is written: it is destaged when idle, or not at all.
#[test]
fn log_mirror_of_two_parities() {
    let policy = Policy::default();
    battery_variant(Mirrored { data_drives: 5, parity: 2, log_bytes: 2 << 20, policy });
}
