//! The script that is cut at every write.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use engine::{ConversionPolicy, CreateSpec, Pool, Volume};
use io::virt::VirtEnv;
use io::{Env, Nanos, join_all};

use crate::machine::Machine;
use crate::oracle::Oracle;
use crate::world::client::payload;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Four drives, 3+1.
    Raid5,
    /// Five drives, 3+2, and a volume of 2+1.
    Raid6,
}

pub struct ScenarioPlan {
    pub drives: usize,
    pub drive_bytes: u64,
    pub spec: CreateSpec,
}

impl Scenario {
    pub const ALL: [Scenario; 2] = [Scenario::Raid5, Scenario::Raid6];

    pub fn plan(self) -> ScenarioPlan {
        let mut spec = CreateSpec::new("cut");
        spec.block_size = 16 << 10;
        spec.conversion = ConversionPolicy::Eager;
        spec.replicated_percent = 12;
        let (drives, parity, width) = match self {
            Scenario::Raid5 => (4, 1, 4),
            Scenario::Raid6 => (5, 2, 5),
        };
        spec.parity = parity;
        spec.width = Some(width);
        ScenarioPlan { drives, drive_bytes: 28 * MIB, spec }
    }
}

/// How far a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Making,
    Present,
    Deleting,
}

#[derive(Default)]
pub struct Progress {
    made: Cell<bool>,
    volumes: RefCell<BTreeMap<String, Stage>>,
}

impl Progress {
    pub fn is_made(&self) -> bool {
        self.made.get()
    }

    pub fn made(&self) {
        self.made.set(true);
    }

    pub fn set(&self, name: &str, stage: Stage) {
        self.volumes.borrow_mut().insert(name.to_owned(), stage);
    }

    pub fn stage(&self, name: &str) -> Stage {
        self.volumes.borrow()[name]
    }
}

pub struct Script<'a> {
    pub scenario: Scenario,
    pub machine: &'a Machine,
    pub oracle: Rc<RefCell<Oracle>>,
    pub progress: Rc<Progress>,
}

/// A script has no plan for errors: without faults there are none.
const FINE: &str = "nothing fails here but the power";

impl Script<'_> {
    pub async fn play(&self) {
        self.machine.create(&self.scenario.plan().spec).await.expect(FINE);
        self.progress.made();
        let pool = self.machine.open().await.expect(FINE);
        self.make(&pool, "a", 640 * KIB, None).await;
        self.small_writes(&pool).await;
        self.make(&pool, "b", 256 * KIB + 512, Some((1, 3))).await;
        self.large_writes(&pool).await;
        pool.checkpoint().await.expect(FINE);
        self.churn(&pool).await;
        self.delete(&pool, "b").await;
        self.crowd(&pool).await;
        pool.close().await.expect(FINE);
        drop(pool);
        let pool = self.machine.open().await.expect(FINE);
        self.at_once(&pool).await;
        self.flush(&pool).await;
        pool.close().await.expect(FINE);
    }

    async fn small_writes(&self, pool: &Pool<VirtEnv>) {
        self.write(pool, "a", 0, 4 * KIB, false).await;
        self.write(pool, "a", 512, 512, true).await;
        self.write(pool, "a", 3 * KIB, 6 * KIB, false).await;
        self.flush(pool).await;
        for at in 0..6 {
            self.write(pool, "a", at * 20 * KIB, 4 * KIB + at * 512, at == 3).await;
        }
        self.trim(pool, "a", 2 * KIB, 5 * KIB, false).await;
        self.write(pool, "a", 16 * KIB, 16 * KIB, false).await;
        self.flush(pool).await;
        // Written again before it was flushed: old, newer or newest, but no mixture.
        self.write(pool, "a", 16 * KIB, 4 * KIB, false).await;
        self.write(pool, "a", 16 * KIB, 4 * KIB, false).await;
    }

    async fn large_writes(&self, pool: &Pool<VirtEnv>) {
        self.write(pool, "a", 96 * KIB, 48 * KIB, true).await;
        self.write(pool, "b", 0, 96 * KIB, false).await;
        self.write(pool, "a", 96 * KIB, 48 * KIB, false).await;
        self.write(pool, "b", 128 * KIB, 128 * KIB + 512, false).await;
        self.flush(pool).await;
        self.write(pool, "b", 16 * KIB, 32 * KIB, true).await;
    }

    /// Fills tuples and kills parts of them, so that some are converted and some emptied.
    async fn churn(&self, pool: &Pool<VirtEnv>) {
        for at in 0..18 {
            self.write(pool, "a", 192 * KIB + at * 16 * KIB, 16 * KIB, false).await;
        }
        self.flush(pool).await;
        self.pause(150).await;
        for at in (0..18).step_by(2) {
            self.write(pool, "a", 192 * KIB + at * 16 * KIB, 16 * KIB, at.is_multiple_of(3)).await;
        }
        self.pause(150).await;
        self.trim(pool, "a", 224 * KIB, 96 * KIB, true).await;
        self.zeroes(pool, "a", 300 * KIB, 20 * KIB).await;
        self.pause(1100).await;
    }

    /// Many pieces in one block, until they are merged.
    async fn crowd(&self, pool: &Pool<VirtEnv>) {
        for at in 0..12 {
            self.write(pool, "a", 48 * KIB + at * KIB, 512, at.is_multiple_of(5)).await;
        }
        self.pause(150).await;
        self.flush(pool).await;
    }

    /// Requests side by side, on each other and beside each other.
    async fn at_once(&self, pool: &Pool<VirtEnv>) {
        let write =
            |at: u64| self.write(pool, "a", (at % 3) * 4 * KIB, 8 * KIB, at.is_multiple_of(4));
        join_all((0..8).map(write)).await;
        let spread = |at: u64| self.write(pool, "a", at * 48 * KIB, 48 * KIB, at == 2);
        join_all((0..5).map(spread)).await;
    }

    async fn make(&self, pool: &Pool<VirtEnv>, name: &str, bytes: u64, shape: Option<(u8, u16)>) {
        self.oracle.borrow_mut().volume_add(name, bytes);
        self.progress.set(name, Stage::Making);
        let (parity, width) = shape.unzip();
        pool.volume_create(name, bytes, parity, width).await.expect(FINE);
        self.progress.set(name, Stage::Present);
    }

    async fn delete(&self, pool: &Pool<VirtEnv>, name: &str) {
        let bytes = self.oracle.borrow().volume(name).bytes();
        self.oracle.borrow_mut().write_begins(name, 0, bytes, true);
        self.progress.set(name, Stage::Deleting);
        pool.volume_delete(name).await.expect(FINE);
        self.oracle.borrow_mut().volume_remove(name);
    }

    fn volume(&self, pool: &Pool<VirtEnv>, name: &str) -> Volume<VirtEnv> {
        pool.volume(name).expect("the script made it")
    }

    async fn write(&self, pool: &Pool<VirtEnv>, name: &str, offset: u64, len: u64, fua: bool) {
        let write = self.oracle.borrow_mut().write_begins(name, offset, len, false);
        let bytes = self.oracle.borrow().bytes_of(name, write);
        let data = payload(&bytes, offset, true);
        self.volume(pool, name).write(offset, data, fua).await.expect(FINE);
        self.oracle.borrow_mut().write_ends(name, write, true, fua);
    }

    async fn trim(&self, pool: &Pool<VirtEnv>, name: &str, offset: u64, len: u64, fua: bool) {
        let write = self.oracle.borrow_mut().write_begins(name, offset, len, true);
        self.volume(pool, name).trim(offset, len, fua).await.expect(FINE);
        self.oracle.borrow_mut().write_ends(name, write, true, fua);
    }

    async fn zeroes(&self, pool: &Pool<VirtEnv>, name: &str, offset: u64, len: u64) {
        let write = self.oracle.borrow_mut().write_begins(name, offset, len, true);
        let volume = self.volume(pool, name);
        volume.write_zeroes(offset, len, false, false).await.expect(FINE);
        self.oracle.borrow_mut().write_ends(name, write, true, false);
    }

    async fn flush(&self, pool: &Pool<VirtEnv>) {
        let flush = self.oracle.borrow_mut().flush_begins();
        pool.flush().await.expect(FINE);
        self.oracle.borrow_mut().flush_ends(flush);
    }

    async fn pause(&self, millis: u64) {
        let env = &self.machine.env;
        env.sleep_until(env.now() + Nanos::from_millis(millis)).await;
    }
}
