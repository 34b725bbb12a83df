//! `log-mirror` and `hpda`: the log is smaller than what is written, so that it goes round, fills
//! and is destaged all the time.

use std::cell::RefCell;
use std::collections::BTreeMap;

use io::virt::{VirtDrive, VirtEnv};
use schemes::scheme::hpda;
use schemes::scheme::log_mirror::policy::Policy;
use schemes::scheme::log_mirror::{LogMirror, Options, Spec, create};
use schemes::{Store, StoreError};

use crate::world::{CHUNK, Subject, battery, battery_variant};

#[derive(Clone, Copy)]
struct Mirrored {
    /// HPDA: the log shares a drive with the parity.
    shared: bool,
    /// Of the array; shared, the last of them is that of the parity.
    members: usize,
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
            ..Spec::new("tank", self.members)
        }
    }
}

impl Subject for Mirrored {
    type Store = LogMirror<VirtEnv>;

    fn name(&self) -> String {
        let name = if self.shared { "hpda" } else { "log-mirror" };
        format!("{name} of an array of {}", self.members)
    }

    fn drives(&self) -> Vec<u64> {
        let mut drives = vec![DRIVE; self.members + 2 - usize::from(self.shared)];
        if self.shared {
            drives[self.members - 1] = DRIVE + SIDE;
        }
        drives
    }

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        if !self.shared {
            return create(env, drives, &self.spec()).await;
        }
        let Spec { chunk, log_bytes, .. } = self.spec();
        let side = Some(SIDE);
        let spec =
            hpda::Spec { chunk, log_chunk: CHUNK, log_bytes, side, ..hpda::Spec::new("tank") };
        hpda::create(env, drives, &spec).await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<LogMirror<VirtEnv>, StoreError> {
        let options = Options { policy: self.policy, ..Options::default() };
        let store = match self.shared {
            true => hpda::open(env, drives, options).await?,
            false => LogMirror::open(env, drives, options).await?,
        };
        count(Some(store.clone()));
        Ok(store)
    }

    fn survives(&self, lost: &[bool]) -> bool {
        let gone = |drives: &[bool]| drives.iter().filter(|lost| **lost).count();
        let (array, log) = (&lost[..self.members], &lost[lost.len() - 2..]);
        gone(array) <= self.parity && gone(log) <= 1
    }

    fn by_parity(&self) -> bool {
        true
    }
}

/// Of hpda, for the log; a mirror's labels and slots take most of it.
const SIDE: u64 = 3 << 20;
const DRIVE: u64 = 6 << 20;

const EAGER: Policy = Policy { high: 60, low: 40, reads: 20, window: 4 };

const LOG_MIRROR: Mirrored =
    Mirrored { shared: false, members: 4, parity: 1, log_bytes: 320 << 10, policy: EAGER };

#[test]
fn log_mirror() {
    takes_every_path(LOG_MIRROR);
}

fn takes_every_path(subject: Mirrored) {
    battery(subject);
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
    battery_variant(Mirrored { members: 5, parity: 2, log_bytes: 2 << 20, policy, ..LOG_MIRROR });
}

/// Three data drives, the parity drive, the buffer drive.
#[test]
fn hpda() {
    takes_every_path(Mirrored { shared: true, log_bytes: 240 << 10, ..LOG_MIRROR });
}
