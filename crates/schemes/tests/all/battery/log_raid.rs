//! `log-raid`: nearly full of live data, so that segments are emptied all the time.

use io::Buf;
use io::virt::{VirtDrive, VirtEnv};
use schemes::scheme::OpenOptions;
use schemes::scheme::log_raid::{LogRaid, Spec, create};
use schemes::{Store, StoreError};

use crate::battery::afflicted::battery_afflicted;
use crate::battery::hung::battery_hung;
use crate::battery::replaced::battery_replaced;
use crate::battery::rotten::battery_rotten;
use crate::battery::world::{CHUNK, Subject, battery, battery_variant};

const WIDTH: usize = 3;

#[derive(Clone, Copy)]
struct OneLog {
    groups: usize,
    drive: u64,
}

impl Subject for OneLog {
    type Store = LogRaid<VirtEnv>;

    fn name(&self) -> String {
        format!("log-raid of {} groups", self.groups)
    }

    fn drives(&self) -> Vec<u64> {
        vec![self.drive; WIDTH * self.groups]
    }

    /// Everything it offers is written once: from then on what is written needs cleaning.
    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        let spec = Spec {
            name: "tank".into(),
            width: WIDTH,
            chunk: CHUNK,
            segment: Some(64 << 10),
            checksums: true,
        };
        create(env, drives, &spec).await?;
        let store = LogRaid::open(env, drives.to_vec(), OpenOptions::default()).await?;
        store.write(0, Buf::zeroed(store.size() as usize), false).await?;
        store.close().await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<LogRaid<VirtEnv>, StoreError> {
        LogRaid::open(env, drives, OpenOptions::default()).await
    }

    fn survives(&self, lost: &[bool]) -> bool {
        lost.chunks(WIDTH).all(|group| group.iter().filter(|lost| **lost).count() <= 1)
    }

    /// An open segment's page that was being written (docs/concepts.md, 2).
    fn may_be_refused(&self) -> bool {
        true
    }

    /// What is written lies in stripes that nobody counts on yet.
    fn by_parity(&self) -> bool {
        false
    }
}

#[test]
fn log_raid() {
    battery(OneLog { groups: 2, drive: 6 << 20 });
}

#[test]
fn log_raid_of_one_group() {
    battery_variant(OneLog { groups: 1, drive: 7 << 20 });
}

#[test]
fn log_raid_replaced() {
    battery_replaced(OneLog { groups: 2, drive: 6 << 20 });
}

#[test]
fn log_raid_rotten() {
    battery_rotten(OneLog { groups: 1, drive: 7 << 20 });
}

#[test]
fn log_raid_hung() {
    battery_hung(OneLog { groups: 1, drive: 7 << 20 });
}

#[test]
fn log_raid_afflicted() {
    battery_afflicted(OneLog { groups: 1, drive: 7 << 20 });
}
