//! GC-Steering: redirecting, reclaiming, crashes and losses meet, as drives become busy and idle
//! again all the time.

use std::cell::RefCell;
use std::collections::BTreeMap;

use classical::{Redundancy, WriteHole};
use io::rng::Rng;
use io::virt::{VirtDrive, VirtEnv};
use io::{Env, Nanos};
use schemes::scheme::steering::{Options, Spec, Staging, Steering, create, open};
use schemes::{Store, StoreError};

use crate::world::{CHUNK, Subject, battery, battery_variant, one};

#[derive(Clone, Copy)]
struct Steered {
    name: &'static str,
    redundancy: Redundancy,
    width: usize,
    groups: usize,
    staging: Staging,
}

impl Steered {
    fn tolerance(&self) -> usize {
        match self.redundancy {
            Redundancy::Mirror => self.width - 1,
            Redundancy::Parity(parity) => parity,
            Redundancy::ParityDrive => 1,
        }
    }
}

thread_local! {
    /// The most that each counter came to in any world.
    static SEEN: RefCell<BTreeMap<&'static str, u64>> = RefCell::default();
}

/// Small, so that lists run over and reclaiming has many steps.
const OPTIONS: Options = Options {
    write_hole: WriteHole::Closed,
    remembered: 60,
    popular: 2,
    hot_percent: 10,
    reclaim_bytes: 24 << 10,
};

/// So often at most drives become busy or idle: a store that waits for ever must be noticed.
const TURNS: usize = 400;

/// Any drive, for a while that is as long as some requests.
fn toggle(env: &VirtEnv, store: &Steering<VirtEnv>, drives: usize) {
    let (env, store) = (env.clone(), store.clone());
    let mut rng = Rng::new(env.random());
    env.clone().spawn(async move {
        for _ in 0..TURNS {
            store.set_busy(rng.index(drives), rng.chance(1, 2));
            SEEN.with_borrow_mut(|seen| {
                for (name, value) in store.counters() {
                    let most = seen.entry(name).or_default();
                    *most = value.max(*most);
                }
            });
            env.sleep_until(env.now() + Nanos(rng.below(3_000_000))).await;
        }
    });
}

impl Subject for Steered {
    type Store = Steering<VirtEnv>;

    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn drives(&self) -> Vec<u64> {
        let dedicated = usize::from(self.staging == Staging::Dedicated);
        vec![8 << 20; self.width * self.groups + dedicated]
    }

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        let Steered { redundancy, width, staging, .. } = *self;
        let spec = Spec { name: "tank".into(), redundancy, width, chunk: CHUNK, staging };
        create(env, drives, &spec).await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<Steering<VirtEnv>, StoreError> {
        let store = open(env, drives, OPTIONS).await?;
        toggle(env, &store, self.drives().len());
        Ok(store)
    }

    fn survives(&self, lost: &[bool]) -> bool {
        let gone = |group: &[bool]| group.iter().filter(|lost| **lost).count();
        let (array, staging) = lost.split_at(self.width * self.groups);
        // The dedicated drive counts as one of the group whose writes it holds.
        array.chunks(self.width).all(|group| gone(group) + gone(staging) <= self.tolerance())
    }

    fn by_parity(&self) -> bool {
        matches!(self.redundancy, Redundancy::Parity(1..))
    }
}

/// A world that never redirects proves nothing.
#[test]
fn steering_worlds_take_every_path() {
    let (redundancy, staging) = (Redundancy::Parity(1), RESERVED);
    let subject = Steered { name: "steering", redundancy, width: 4, groups: 1, staging };
    (0..10).for_each(|seed| one(subject, seed));
    SEEN.with_borrow(|seen| {
        let never: Vec<_> = seen.iter().filter(|(_, most)| **most == 0).collect();
        assert!(seen.len() > 10 && never.is_empty(), "never: {never:?} of {seen:?}");
    });
}

const RESERVED: Staging = Staging::Reserved { bytes: 1 << 20 };

#[test]
fn steering_raid5_reserved() {
    let (redundancy, staging) = (Redundancy::Parity(1), RESERVED);
    battery(Steered { name: "steering raid5", redundancy, width: 4, groups: 1, staging });
}

#[test]
fn steering_raid6_reserved() {
    let (redundancy, staging) = (Redundancy::Parity(2), RESERVED);
    battery_variant(Steered { name: "steering raid6", redundancy, width: 5, groups: 1, staging });
}

#[test]
fn steering_raid5_dedicated() {
    let (redundancy, staging) = (Redundancy::Parity(1), Staging::Dedicated);
    battery(Steered {
        name: "steering raid5, dedicated",
        redundancy,
        width: 4,
        groups: 1,
        staging,
    });
}

#[test]
fn steering_raid6_dedicated() {
    let (redundancy, staging) = (Redundancy::Parity(2), Staging::Dedicated);
    battery_variant(Steered {
        name: "steering raid6, dedicated",
        redundancy,
        width: 5,
        groups: 1,
        staging,
    });
}

#[test]
fn steering_raid1_dedicated() {
    let (redundancy, staging) = (Redundancy::Mirror, Staging::Dedicated);
    battery_variant(Steered {
        name: "steering raid1, dedicated",
        redundancy,
        width: 3,
        groups: 1,
        staging,
    });
}

#[test]
fn steering_raid10_reserved() {
    let (redundancy, staging) = (Redundancy::Mirror, RESERVED);
    battery_variant(Steered { name: "steering raid10", redundancy, width: 2, groups: 3, staging });
}

#[test]
fn steering_raid50_reserved() {
    let (redundancy, staging) = (Redundancy::Parity(1), RESERVED);
    battery_variant(Steered { name: "steering raid50", redundancy, width: 3, groups: 2, staging });
}
