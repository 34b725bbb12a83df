//! One shard: maps, space and journal of a part of the pool, on one thread.
//!
//! All state sits in one `RefCell`, borrowed between awaits only. The verbs (`read`, `write`,
//! `trim`, `convert`, `compact`, `checkpoint`) are `impl` blocks in files of their own.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};

use format::{ClassId, StripeId, Superblock, VolumeId};
use io::sync::{Event, Turn};
use io::wait::{Wait, told};
use io::{Env, Nanos};
use smallvec::SmallVec;

use crate::api::{
    ConversionPolicy, Counters, CreateSpec, EventKind, RequestError, Severity, VolumeLimits,
};
use crate::array::Array;
use crate::checkpoint::slots::MetaSlots;
use crate::compact::Plans;
use crate::discard::Discards;
use crate::events::Events;
use crate::geometry::{BlockAddress, Class, PoolGeometry};
use crate::journal::Journal;
use crate::label::Labels;
use crate::limits::PATCH_BUDGET_BYTES;
use crate::locks::RangeLocks;
use crate::map::{BlockMap, Deltas};
use crate::mend::Mending;
use crate::pacer::Pacer;
use crate::planted::{self, Bug};
use crate::reads::ReadGenerations;
use crate::rebuild::Rebuild;
use crate::scrub::Scrub;
use crate::space::Space;
use crate::sums::Sums;
use crate::tuple::TupleKey;

/// A volume as the shard knows it.
#[derive(Clone, Debug)]
pub struct VolumeRecord {
    pub id: VolumeId,
    /// Shared, because every request takes a copy of the record.
    pub name: Rc<str>,
    pub size: u64,
    pub class: ClassId,
    pub limits: VolumeLimits,
}

/// A packed slot that still has room.
#[derive(Clone, Copy, Debug)]
pub struct PackedSlot {
    pub key: TupleKey,
    pub slot: usize,
    pub next_page: u16,
}

/// What a class has open for writing.
#[derive(Default)]
pub struct ClassOpen {
    /// Slots of built tuples that nobody has taken yet ("spare block pairs").
    pub spare: VecDeque<(TupleKey, usize)>,
    /// By lane; lanes that had none yet may be missing.
    pub packed: Vec<Option<PackedSlot>>,
}

/// Settings of the pool that the configuration object keeps.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub replicated_percent: u8,
    pub conversion: ConversionPolicy,
    pub patch_budget: u64,
    /// Zones are moved to all drives that have them.
    pub rebalance: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            replicated_percent: CreateSpec::REPLICATED_PERCENT_DEFAULT,
            conversion: ConversionPolicy::Lazy,
            patch_budget: PATCH_BUDGET_BYTES,
            rebalance: false,
        }
    }
}

pub struct State {
    pub map: BlockMap,
    pub space: Space,
    pub sums: Sums,
    pub volumes: BTreeMap<VolumeId, VolumeRecord>,
    pub next_volume: u32,
    pub settings: Settings,
    pub open: BTreeMap<ClassId, ClassOpen>,
    pub meta: MetaSlots,
    pub config_dirty: bool,
    /// Moving hand over patched blocks, for merging under memory pressure.
    pub merge_hand: usize,
}

/// Whom space is for: background work may use the reserve, since it frees more than it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    Foreground,
    Background,
}

pub struct Shard<E: Env> {
    pub env: E,
    pub geometry: PoolGeometry,
    pub array: Rc<Array<E::Drive>>,
    pub journal: Rc<Journal<E>>,
    pub labels: Labels,
    pub locks: RangeLocks,
    pub reads: ReadGenerations,
    pub state: RefCell<State>,
    /// Free stripes have appeared.
    pub space_freed: Event,
    /// Requests that wait for them.
    pub waiting: Cell<u32>,
    /// There may be background work.
    pub work: Event,
    pub checkpoint_turn: Turn,
    pub background_turn: Turn,
    pub failure_turn: Turn,
    /// When the load was told of, and of how many and how long (ns).
    pub load_told: Cell<(Nanos, (u64, u64))>,
    pub counters: Cell<Counters>,
    pub read_only: bool,
    pub closing: Cell<bool>,
    /// The background task that makes space has ended.
    pub space_over: Cell<bool>,
    pub closed: Event,
    /// Background tasks that are running.
    pub tasks: Cell<u32>,
    pub failure: RefCell<Option<String>>,
    /// So many lost drives an operator goes on without, whatever the volumes bear.
    pub given_up: Cell<usize>,
    pub events: Rc<Events>,
    /// The pool is closed, or dropped: drives need no more watching.
    pub released: Cell<bool>,
    /// For tasks that outlive the request that began them.
    pub me: Weak<Shard<E>>,
    pub pacer: Pacer,
    pub compaction: RefCell<Plans>,
    /// Rebalancing found no room, and looks again then.
    pub rebalance_after: Cell<io::Nanos>,
    pub discards: Discards,
    pub mending: Mending,
    pub scrub: Scrub,
    pub rebuild: Rebuild,
}

/// Where a replicated write goes.
pub struct Spot {
    pub key: TupleKey,
    pub sector: u16,
    pub flbn: format::Flbn,
    pub targets: SmallVec<[BlockAddress; 3]>,
}

/// Lost drives with which no volume lacks anything; without volumes, no class.
pub fn tolerated(space: &Space, volumes: &BTreeMap<VolumeId, VolumeRecord>) -> usize {
    let parity = |volume: &VolumeRecord| space.class(volume.class).parity();
    volumes.values().map(parity).min().or(space.least_parity()).unwrap_or(1)
}

impl<E: Env> Shard<E> {
    /// A handle for a task of its own.
    pub fn own(&self) -> Rc<Shard<E>> {
        self.me.upgrade().expect("whoever calls holds the shard")
    }

    pub fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Where a block of a stripe is: where the layout has it, or its substitute.
    pub fn address(&self, class: &Class, stripe: StripeId, position: usize) -> BlockAddress {
        self.state.borrow().space.address(class, stripe, position)
    }

    pub fn class(&self, id: ClassId) -> Rc<Class> {
        self.state.borrow().space.class(id).clone()
    }

    /// Applies what a map change did to space. Deaths are dated by the newest journal block.
    pub fn apply_deltas(&self, state: &mut State, deltas: &Deltas) {
        if deltas.0.is_empty() {
            return;
        }
        let limbo = state.space.limbo_len();
        state.space.apply(&deltas.0, self.journal.latest(), self.reads.close());
        if state.space.limbo_len() > limbo {
            self.work.notify_all();
        }
    }

    /// Waits until `take` finds what it wants. Fails only when waiting can't help.
    pub async fn wait_for_space<T>(
        &self,
        mut take: impl FnMut() -> Option<T>,
    ) -> Result<T, RequestError> {
        loop {
            if let Some(taken) = take() {
                return Ok(taken);
            }
            self.check_usable()?;
            self.count(|counters| counters.space_waits += 1);
            self.waiting.set(self.waiting.get() + 1);
            self.work.notify_all();
            self.pacer.wake();
            self.space_freed.wait().await;
            self.waiting.set(self.waiting.get() - 1);
        }
    }

    /// What a client's request waits for, told to the environment.
    pub fn told<T>(&self, wait: Wait, future: impl Future<Output = T>) -> impl Future<Output = T> {
        told(&self.env, wait, future)
    }

    /// What only memory knows and is of use to who comes after (`pool::grow`).
    pub fn inherit(&self, before: &Shard<E>) {
        let stats = before.journal.stats();
        let mut counters = before.counters.get();
        counters.journal_blocks += stats.blocks;
        counters.journal_bytes += stats.bytes;
        counters.hedged_journal_blocks += stats.hedged;
        self.counters.set(counters);
        self.array.inherit(&before.array);
        self.scrub.inherit(&before.scrub);
        self.mending.inherit(&before.mending);
        if before.rebuild_status().paused {
            self.rebuild_hold(true);
        }
    }

    // ---- failing

    pub fn check_usable(&self) -> Result<(), RequestError> {
        if let Some(reason) = &*self.failure.borrow() {
            return Err(RequestError::Io(reason.clone()));
        }
        if self.read_only {
            return Err(RequestError::ReadOnly);
        }
        Ok(())
    }

    /// The pool takes no more writes; reads go on as long as they can.
    pub fn fail(&self, reason: &str) -> RequestError {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            *failure = Some(reason.to_owned());
            let text = format!("{reason}; reads go on as far as they can");
            self.tell(None, (Severity::Error, EventKind::PoolFailed), text);
        }
        drop(failure);
        self.space_freed.notify_all();
        self.journal.give_up();
        RequestError::Io(reason.to_owned())
    }

    /// Changes what the labels say. They never write off more drives than the volumes bear, unless
    /// an operator says so: what is on these would be lost for good, also where they are only out
    /// of reach. Where that would have to be, the pool fails instead, and opened again it has all
    /// drives that are back.
    pub async fn write_labels(
        &self,
        change: impl FnOnce(&mut Superblock),
    ) -> Result<(), RequestError> {
        let bears = || self.tolerated().max(self.given_up.get());
        if self.labels.update(&self.array, bears, change).await {
            self.given_up.set(self.given_up.get().min(self.array.lost()));
            return Ok(());
        }
        let bears = self.tolerated();
        let lost = self.array.indexes().filter(|&index| self.array.is_missed(index));
        let lost: Vec<String> =
            lost.map(|index| format!("{} ({})", index.0, self.drive_name(index))).collect();
        Err(self.fail(&format!(
            "drives {} are lost, and the pool bears {bears}: nothing is written any more, so that \
             it has everything when it is opened again with them",
            lost.join(", ")
        )))
    }

    /// Lost drives with which the pool can be opened.
    pub fn tolerated(&self) -> usize {
        let state = self.state.borrow();
        tolerated(&state.space, &state.volumes)
    }

    /// After a drive failed: nothing that it missed is acknowledged before the other drives
    /// say that it must not be trusted any more.
    pub async fn record_failures(&self) -> Result<(), RequestError> {
        if !self.array.has_unrecorded() || planted::is(Bug::ForgetFailure) {
            return Ok(());
        }
        // Who comes second waits as well: the labels must be written, not just on their way.
        let _turn = self.failure_turn.lock().await;
        while self.array.has_unrecorded() {
            let known = self.array.failures();
            for index in self.array.indexes() {
                if self.array.is_active(index) {
                    continue;
                }
                let mut state = self.state.borrow_mut();
                let was = state.space.set_avoided(index, true);
                if !was {
                    state.space.spare_reopen();
                    drop(state);
                    self.tell_failed(index);
                }
            }
            if self.array.active().is_empty() {
                return Err(self.fail("no drive is left"));
            }
            self.write_labels(|_| {}).await?;
            self.array.note_recorded(known);
        }
        Ok(())
    }

    fn tell_failed(&self, index: layout::DriveIndex) {
        let reason = self.array.member(index).failure().unwrap_or_else(|| "it failed".into());
        let text = format!("drive {} is not used any more: {reason}", self.drive_name(index));
        self.tell(Some(index), (Severity::Error, EventKind::DriveFailed), text);
    }

    /// An event of now, about a drive if there is one. It is named as it is now: another may have
    /// its place when somebody asks.
    pub fn tell(
        &self,
        drive: Option<layout::DriveIndex>,
        what: (Severity, EventKind),
        text: String,
    ) {
        let drive = drive.map(|index| (index.0, self.drive_name(index)));
        self.events.push(self.env.now(), what, drive, text);
    }

    pub fn drive_name(&self, index: layout::DriveIndex) -> String {
        self.array.member(index).name()
    }
}
