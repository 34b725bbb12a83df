//! Two mirrored drives as a cache before RAID5: roomy, and always full.

use classical::OpenOptions;
use io::virt::{VirtDrive, VirtEnv};
use schemes::StoreError;
use schemes::scheme::cached_raid5::{self, CachedRaid5, Spec};

use crate::battery::afflicted::{battery_afflicted, one_losing};
use crate::battery::hung::battery_hung;
use crate::battery::replaced::battery_replaced;
use crate::battery::rotten::battery_rotten;
use crate::battery::world::{CHUNK, Subject, battery, battery_variant};

#[derive(Clone, Copy)]
struct Cached {
    name: &'static str,
    parity_width: usize,
    drive: u64,
    destage_percent: u8,
}

impl Subject for Cached {
    type Store = CachedRaid5<VirtEnv>;

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn drives(&self) -> Vec<u64> {
        vec![self.drive; 2 + self.parity_width]
    }

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        let Cached { parity_width, destage_percent, .. } = *self;
        let spec = Spec {
            name: "tank".into(),
            parity_width,
            chunk: CHUNK,
            destage_percent,
            checksums: true,
        };
        cached_raid5::create(env, drives, &spec).await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<CachedRaid5<VirtEnv>, StoreError> {
        CachedRaid5::open(env, drives, OpenOptions::default()).await
    }

    fn survives(&self, lost: &[bool]) -> bool {
        let borne = |group: &[bool]| group.iter().filter(|lost| **lost).count() <= 1;
        let (cache, parity) = lost.split_at(2);
        borne(cache) && borne(parity)
    }

    fn by_parity(&self) -> bool {
        true
    }
}

/// Destaged at once.
#[test]
fn cached_raid5() {
    battery(Cached { name: "cached_raid5", parity_width: 3, drive: 6 << 20, destage_percent: 3 });
}

/// Sixty lines fit the cache, twice as many are written.
#[test]
fn cached_raid5_without_room() {
    battery_variant(Cached {
        name: "cached_raid5_without_room",
        parity_width: 5,
        drive: 5 << 20,
        destage_percent: 80,
    });
}

#[test]
fn cached_raid5_replaced() {
    let (name, parity_width, drive) = ("cached_raid5", 3, 6 << 20);
    battery_replaced(Cached { name, parity_width, drive, destage_percent: 3 });
}

const ROOMY: Cached =
    Cached { name: "cached_raid5", parity_width: 3, drive: 6 << 20, destage_percent: 3 };

#[test]
fn cached_raid5_rotten() {
    battery_rotten(ROOMY);
}

#[test]
fn cached_raid5_hung() {
    battery_hung(ROOMY);
}

#[test]
fn cached_raid5_afflicted() {
    battery_afflicted(ROOMY);
}

/// A write of a part of a line, past the cache that had all of it, failed where RAID5 had lost it.
#[test]
fn a_world_of_cached_raid5_that_failed_once() {
    one_losing(ROOMY, 506);
}
