//! HybRAID: roomy and with mirrors that are always full.

use classical::OpenOptions;
use io::virt::{VirtDrive, VirtEnv};
use schemes::StoreError;
use schemes::scheme::hybrid::{self, Spec, Tuning};

use crate::battery::afflicted::{battery_afflicted, one_hurt};
use crate::battery::hung::battery_hung;
use crate::battery::replaced::{Replaced, battery_replaced};
use crate::battery::rotten::battery_rotten;
use crate::battery::world::{CHUNK, Subject, battery, battery_variant};

#[derive(Clone, Copy)]
struct Hybrid {
    name: &'static str,
    split: usize,
    parity_width: usize,
    drives: usize,
    drive: u64,
    tuning: Tuning,
}

impl Subject for Hybrid {
    type Store = hybrid::Hybrid<VirtEnv>;

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn drives(&self) -> Vec<u64> {
        vec![self.drive; self.drives]
    }

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        let Hybrid { split, parity_width, tuning, .. } = *self;
        let spec = Spec {
            name: "tank".into(),
            split,
            parity_width,
            chunk: CHUNK,
            tuning,
            checksums: true,
        };
        hybrid::create(env, drives, &spec).await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<hybrid::Hybrid<VirtEnv>, StoreError> {
        hybrid::Hybrid::open(env, drives, OpenOptions::default()).await
    }

    fn survives(&self, lost: &[bool]) -> bool {
        let borne = |group: &[bool]| group.iter().filter(|lost| **lost).count() <= 1;
        let (mirrors, parity) = lost.split_at(self.split);
        mirrors.chunks(2).all(borne) && parity.chunks(self.parity_width).all(borne)
    }

    fn by_parity(&self) -> bool {
        true
    }
}

/// Stripes move at the second write, and a tier is emptied when few stripes are in it.
const RESTLESS: Tuning = Tuning {
    online_threshold: 1,
    full_mirrors_percent: 20,
    full_parity_percent: 60,
    offline_batch: 3,
};

const TWO_TIERS: Hybrid = Hybrid {
    name: "hybrid",
    split: 2,
    parity_width: 3,
    drives: 5,
    drive: 6 << 20,
    tuning: RESTLESS,
};

#[test]
fn hybrid() {
    battery(TWO_TIERS);
}

#[test]
fn hybrid_of_groups() {
    battery_variant(Hybrid {
        name: "hybrid_of_groups",
        split: 4,
        parity_width: 3,
        drives: 10,
        drive: 6 << 20,
        tuning: Tuning { online_threshold: 2, ..RESTLESS },
    });
}

/// Nine stripes fit the mirrors, and more than twice as many are written; the paper's threshold.
#[test]
fn hybrid_without_room() {
    battery_variant(Hybrid {
        name: "hybrid_without_room",
        split: 2,
        parity_width: 4,
        drives: 6,
        drive: 5 << 20,
        tuning: Tuning { full_mirrors_percent: 90, full_parity_percent: 95, ..Tuning::default() },
    });
}

#[test]
fn hybrid_replaced() {
    battery_replaced(TWO_TIERS);
}

#[test]
fn hybrid_rotten() {
    battery_rotten(TWO_TIERS);
}

#[test]
fn hybrid_hung() {
    battery_hung(TWO_TIERS);
}

#[test]
fn hybrid_afflicted() {
    battery_afflicted(TWO_TIERS);
}

/// A page of the map that was being written when the machine stopped was on one drive, the copy on
/// the other rotted, and no checksum of it was known: it counted as lost, and the pool was refused.
#[test]
fn hurt_worlds_of_hybrid_that_failed_once() {
    [103, 201].into_iter().for_each(|seed| one_hurt(Replaced(TWO_TIERS), seed));
}
