//! Pools: made, opened, closed; and their volumes.

mod add;
mod create;
mod grow;
mod open;
mod replayed;
pub(crate) mod shapes;
mod status;
mod traffic;
mod volumes;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use format::Uuid;
use io::Env;
use io::gate::{Gate, Inside};

use crate::admission::Admissions;
use crate::api::{OpenOptions, RequestError, ScrubState, ScrubStatus};
use crate::geometry::{Class, PoolGeometry};
use crate::limits::{LEFTOVERS_PATIENCE, RESERVE_STRIPES};
use crate::pool::traffic::Traffic;
use crate::shard::Shard;

pub use add::{add_drives, plan_add};
pub use create::{create, plan_create};
pub use replayed::replayed;
pub use volumes::Volume;

/// An open pool. A handle: clones name the same pool.
pub struct Pool<E: Env> {
    inner: Rc<Inner<E>>,
}

struct Inner<E: Env> {
    env: E,
    /// Another one after drives were added.
    shard: RefCell<Rc<Shard<E>>>,
    recovery: crate::api::RecoveryReport,
    default_class: format::ClassId,
    /// Volume handles in use, by id; a volume in use is not deleted.
    handles: RefCell<BTreeMap<u32, u32>>,
    /// Of every volume that was ever held, by id.
    traffic: RefCell<BTreeMap<u32, Rc<Traffic>>>,
    admissions: Admissions,
    /// What the pool was opened with.
    options: OpenOptions,
    turn: io::sync::Turn,
    /// Whoever uses the shard for longer than a moment is inside: nobody is while it changes.
    gate: Gate,
    growing: io::sync::Turn,
}

impl<E: Env> Inner<E> {
    fn shard(&self) -> Rc<Shard<E>> {
        self.shard.borrow().clone()
    }
}

impl<E: Env> Drop for Inner<E> {
    /// A pool nobody holds does nothing more; what was acknowledged is in the journal or lost
    /// with the cache, as in a crash.
    fn drop(&mut self) {
        let shard = self.shard();
        shard.closing.set(true);
        shard.released.set(true);
        shard.work.notify_all();
        shard.pacer.wake();
    }
}

impl<E: Env> Clone for Pool<E> {
    fn clone(&self) -> Pool<E> {
        Pool { inner: self.inner.clone() }
    }
}

impl<E: Env> Shard<E> {
    /// Ends background work and makes the journal as short as it can be.
    async fn settle_down(&self) -> Result<(), RequestError> {
        self.stop_background().await;
        if self.read_only {
            return Ok(());
        }
        self.flush().await?;
        self.checkpoint(false).await
    }

    /// The checkpoint before made the journal's start the end, this one says so cleanly.
    async fn close_clean(&self) -> Result<(), RequestError> {
        if self.state.borrow().space.is_at_home() {
            // The last checkpoint speaks of no substitutes, nor will anything that is replayed.
            self.array.substituted.set(false);
        }
        let result = self.checkpoint(true).await;
        *self.failure.borrow_mut() = Some("the pool is closed".into());
        result
    }

    /// Lets go of the drives, as soon as what was left to itself is over.
    async fn release(&self) {
        self.array.release();
        let until = self.env.now() + LEFTOVERS_PATIENCE;
        while self.array.leftovers.count() > 0 && self.env.now() < until {
            let over = self.array.leftovers.one_over();
            let late = self.env.sleep_until(until);
            futures_util::future::select(over, Box::pin(late)).await;
        }
        self.released.set(true);
    }
}

impl<E: Env> Pool<E> {
    pub(crate) fn shard(&self) -> Rc<Shard<E>> {
        self.inner.shard()
    }

    /// The shard stays the same until this is dropped.
    pub(crate) async fn enter(&self) -> Inside {
        self.inner.gate.enter().await
    }

    /// For what takes no time but must not be lost when the shard changes.
    fn steady(&self) -> Result<Rc<Shard<E>>, RequestError> {
        if self.inner.gate.is_shut() {
            return Err(RequestError::Io("drives are being added just now: try again".into()));
        }
        Ok(self.shard())
    }

    pub fn name(&self) -> String {
        self.shard().labels.get().pool_name
    }

    pub fn uuid(&self) -> Uuid {
        self.shard().labels.pool()
    }

    /// Ends background work, checkpoints and marks the pool clean. Requests after this fail.
    pub async fn close(&self) -> Result<(), RequestError> {
        let _turn = self.inner.growing.lock().await;
        let shard = self.shard();
        shard.settle_down().await?;
        let result = if shard.read_only { Ok(()) } else { shard.close_clean().await };
        shard.release().await;
        result
    }

    /// Flushes everything that was acknowledged. For tests and tools; clients flush volumes.
    pub async fn flush(&self) -> Result<(), RequestError> {
        let _inside = self.enter().await;
        self.shard().flush_for_client().await
    }

    /// Begins to read everything and to put right what is wrong; one that is paused goes on.
    pub fn scrub_start(&self) -> Result<(), RequestError> {
        self.steady()?.scrub_start()
    }

    pub fn scrub_pause(&self) {
        self.shard().scrub_pause();
    }

    pub fn scrub_resume(&self) {
        self.shard().scrub_resume();
    }

    pub fn scrub_stop(&self) {
        self.shard().scrub_stop();
    }

    pub fn scrub_status(&self) -> ScrubStatus {
        let mut status = self.shard().scrub.status();
        if matches!(status.state, ScrubState::Running | ScrubState::Paused) {
            status.ended_nanos = self.shard().env.now().0;
        }
        status
    }

    /// Writes a checkpoint now. For tests and benchmarks; the engine does so by itself.
    pub async fn checkpoint(&self) -> Result<(), RequestError> {
        let _inside = self.enter().await;
        self.shard().checkpoint(false).await
    }
}

/// Sectors of drive space that live data may take as RAID stripes: all but the replicated
/// area, which is also the room that compaction works in.
pub fn footprint_max(geometry: &PoolGeometry, class: &Class, replicated_percent: u8) -> u64 {
    let width = class.width() as u64;
    usable_stripes(class.stripes(), replicated_percent)
        * width
        * u64::from(geometry.block_sectors())
}

/// Stripes, of all there are, that live data may take.
fn usable_stripes(stripes: u64, replicated_percent: u8) -> u64 {
    let room = (stripes * u64::from(replicated_percent)).div_ceil(100).max(4 * RESERVE_STRIPES);
    stripes.saturating_sub(room)
}

/// Bytes that volumes of this class can hold.
pub fn usable_bytes(geometry: &PoolGeometry, class: &Class, replicated_percent: u8) -> u64 {
    let sectors = footprint_max(geometry, class, replicated_percent);
    sectors / class.width() as u64 * class.data() as u64 * 512
}
