//! The drives of a pool, as the engine uses them: counted, flushed when dirty, failed once.
//!
//! A drive that fails a write or a flush is *failed* for good: what it holds can no longer be
//! trusted to be current. A failed read only counts; the bytes may be had elsewhere. Another drive
//! may take its place, and is *restored*: written like any other, and read where it holds what it
//! should.

mod discard;
mod missed;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use format::Uuid;
use io::awaited::Awaited;
use io::sync::{Event, EventWait};
use io::twin::{Twin, Writers};
use io::{Buf, Drive, DriveError, DriveErrorKind, Durability, Operation, PAGE, join_all};
use layout::DriveIndex;
use rustc_hash::FxHashSet;

use crate::api::{DriveCounters, DriveState, SpikeHandling};
use crate::hedge::Leftovers;
use crate::monitor::{Clock, Monitor};
use crate::planted::{self, Bug};

pub struct Member<D> {
    drive: RefCell<Option<D>>,
    /// What the drive that is here, or was, is called.
    name: RefCell<String>,
    uuid: Cell<Uuid>,
    size: Cell<u64>,
    state: Cell<DriveState>,
    /// Drives that have been in this place: what is said of the one before is not of this one.
    era: Cell<u32>,
    /// Why it failed since the pool was opened.
    failure: RefCell<Option<String>>,
    counters: Cell<DriveCounters>,
    /// Operations on their way; reads of replicated blocks prefer the drive with fewer.
    outstanding: Cell<u32>,
    /// Cached writes completed, and how many of them a completed flush covers.
    completed: Cell<u64>,
    flushed: Cell<u64>,
    /// `completed` at the start of the flush that is running.
    flushing: Cell<Option<u64>>,
    flush_done: Event,
    /// It has failed: whoever waits for an answer need not.
    gone: Event,
    /// Of a drive that is being restored: what it does not hold yet.
    awaited: RefCell<Option<Awaited>>,
    writers: Writers,
    /// What the drive is called that it is copied onto.
    copy_name: RefCell<String>,
}

pub struct Array<D> {
    members: Vec<Member<D>>,
    pub monitor: Monitor,
    /// Operations nobody waits for any more.
    pub leftovers: Leftovers,
    /// Failures so far, and those that the superblocks tell of.
    failures: Cell<u64>,
    recorded: Cell<u64>,
    pub failed_event: Event,
    /// A drive has ended a flush.
    pub flush_over: Event,
    /// Stripes that were given blocks on lost drives although these have substitutes else, and
    /// how many of these the rebuild has seen to: as long as they differ, a vacated drive counts
    /// as lost.
    exposures: Cell<u64>,
    covered: Cell<u64>,
    /// All drives are used: every write asks.
    all_active: Cell<bool>,
    /// The drive that is being emptied, and one that is vacated but not yet so for the labels.
    draining: Cell<Option<DriveIndex>>,
    vacating: Cell<Option<DriveIndex>>,
    /// The pool has substitutes, or may have, and the labels say so.
    pub substituted: Cell<bool>,
    /// Pages that a crash left older than they should be, and that may not be mended: nobody is
    /// given what lies there.
    stale: RefCell<FxHashSet<(DriveIndex, u64)>>,
}

impl<D: Drive> Array<D> {
    pub fn new(
        drives: Vec<(Uuid, u64, DriveState, Option<D>)>,
        spikes: SpikeHandling,
        clock: Clock,
    ) -> Array<D> {
        let is_disk = |drive: &Option<D>| drive.as_ref().is_some_and(|d| d.geometry().rotational);
        let all_active = drives.iter().all(|(_, _, state, _)| *state == DriveState::Active);
        let rotational: Vec<bool> = drives.iter().map(|(.., drive)| is_disk(drive)).collect();
        let member = |(uuid, size, state, drive): (Uuid, u64, DriveState, Option<D>)| Member {
            name: RefCell::new(drive.as_ref().map_or_else(String::new, Drive::name)),
            drive: RefCell::new(drive),
            uuid: Cell::new(uuid),
            size: Cell::new(size),
            state: Cell::new(state),
            era: Cell::new(0),
            failure: RefCell::default(),
            counters: Cell::default(),
            outstanding: Cell::new(0),
            // Whoever had the drive before us may have left something in its cache, and
            // recovery may have read it there: the first flush covers it.
            completed: Cell::new(1),
            flushed: Cell::new(0),
            flushing: Cell::new(None),
            flush_done: Event::new(),
            gone: Event::new(),
            awaited: RefCell::default(),
            writers: Writers::default(),
            copy_name: RefCell::default(),
        };
        Array {
            leftovers: Leftovers::default(),
            monitor: Monitor::new(spikes, clock, &rotational),
            members: drives.into_iter().map(member).collect(),
            failures: Cell::new(0),
            recorded: Cell::new(0),
            failed_event: Event::new(),
            flush_over: Event::new(),
            exposures: Cell::new(0),
            covered: Cell::new(0),
            all_active: Cell::new(all_active),
            draining: Cell::new(None),
            vacating: Cell::new(None),
            substituted: Cell::new(false),
            stale: RefCell::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn member(&self, index: DriveIndex) -> &Member<D> {
        &self.members[usize::from(index.0)]
    }

    pub fn indexes(&self) -> impl Iterator<Item = DriveIndex> + use<D> {
        (0..self.members.len() as u16).map(DriveIndex)
    }

    /// It takes requests.
    pub fn is_active(&self, index: DriveIndex) -> bool {
        self.member(index).is_active()
    }

    /// And it holds everything that it should.
    pub fn is_whole(&self, index: DriveIndex) -> bool {
        self.member(index).state.get() == DriveState::Active
    }

    /// Drives whose loss made the pool poorer: what is lost, or not restored yet.
    pub fn lost(&self) -> usize {
        self.indexes().filter(|&index| self.is_missed(index)).count()
    }

    /// Order of preference for reads: drives that are there, not slow, with few stragglers and
    /// little to do.
    pub fn rank(&self, index: DriveIndex) -> (bool, (bool, u32), u32) {
        let gone = !self.is_active(index);
        (gone, self.monitor.rank(index), self.member(index).outstanding())
    }

    /// Not to be written to if it can be helped.
    pub fn is_slow(&self, index: DriveIndex) -> bool {
        self.monitor.is_shunned(index)
    }

    pub fn active(&self) -> Vec<DriveIndex> {
        self.indexes().filter(|&index| self.is_active(index)).collect()
    }

    /// It lacks something of this machine, which is no fault of its own.
    pub fn is_short(&self, index: DriveIndex) -> bool {
        self.member(index).drive.borrow().as_ref().is_some_and(Drive::is_short)
    }

    fn handle(&self, index: DriveIndex, operation: Operation) -> Result<D, DriveError> {
        let member = self.member(index);
        if !member.is_active() {
            return Err(removed(operation));
        }
        member.drive.borrow().clone().ok_or(removed(operation))
    }

    /// What a drive answers, watched by the monitor; or that it has failed meanwhile.
    async fn answer<T>(
        &self,
        index: DriveIndex,
        operation: Operation,
        answer: impl Future<Output = Result<T, DriveError>>,
    ) -> Result<T, DriveError> {
        let member = self.member(index);
        member.outstanding.set(member.outstanding.get() + 1);
        let ticket = self.monitor.begin(index, operation);
        let era = member.era.get();
        let mut answer = pin!(answer);
        let mut gone: Option<EventWait> = None;
        let result = poll_fn(|context| {
            if let Poll::Ready(result) = answer.as_mut().poll(context) {
                return Poll::Ready(result);
            }
            let wait = gone.get_or_insert_with(|| member.gone.wait());
            let gone = Pin::new(wait).poll(context).is_ready();
            let failed = gone || !member.is_active() || member.era.get() != era;
            if failed { Poll::Ready(Err(removed(operation))) } else { Poll::Pending }
        });
        let result = result.await;
        self.monitor.end(index, ticket, operation);
        member.outstanding.set(member.outstanding.get() - 1);
        result
    }

    pub async fn read(
        &self,
        index: DriveIndex,
        offset: u64,
        len: usize,
    ) -> Result<Buf, DriveError> {
        let drive = self.handle(index, Operation::Read)?;
        if self.is_stale(index, offset, len) {
            let kind = DriveErrorKind::Stale;
            return Err(DriveError { operation: Operation::Read, offset, len: len as u64, kind });
        }
        let member = self.member(index);
        let result = self.answer(index, Operation::Read, drive.read(offset, len)).await;
        member.count(|counters| {
            counters.reads += 1;
            counters.read_bytes += len as u64;
            counters.read_errors += u64::from(result.is_err());
        });
        result
    }

    pub async fn write(
        &self,
        index: DriveIndex,
        offset: u64,
        data: Buf,
        durability: Durability,
    ) -> Result<(), DriveError> {
        let member = self.member(index);
        let len = data.len() as u64;
        let _writing = match planted::is(Bug::ForgetTwinWrites) {
            false => Some(member.writers.write(offset, len).await),
            true => None,
        };
        let drive = self.handle(index, Operation::Write)?;
        let era = member.era.get();
        let answer = drive.write(offset, data, durability);
        let result = self.answer(index, Operation::Write, answer).await;
        member.count(|counters| {
            counters.writes += 1;
            counters.write_bytes += len;
            counters.write_errors += u64::from(result.is_err());
        });
        if durability == Durability::Cached {
            member.completed.set(member.completed.get() + 1);
        }
        if let Err(error) = &result {
            self.fail_of(index, era, &error.to_string());
        }
        result
    }

    /// Pages that were not what was written, or refused, and how many of them are right again.
    pub fn count_bad(&self, index: DriveIndex, healed: u64) {
        let member = self.member(index);
        member.count(|counters| {
            counters.bad_pages += 1;
            counters.healed_pages += healed;
        });
    }

    /// Nobody is to read this: it is older than what was to be written there.
    pub fn distrust(&self, index: DriveIndex, offset: u64, len: usize) {
        self.stale.borrow_mut().extend(pages(offset, len).map(|page| (index, page)));
    }

    fn is_stale(&self, index: DriveIndex, offset: u64, len: usize) -> bool {
        let stale = self.stale.borrow();
        !stale.is_empty() && pages(offset, len).any(|page| stale.contains(&(index, page)))
            || self.is_awaited(index, offset, len) && !planted::is(Bug::TrustUnrestored)
    }

    /// A drive that is being restored does not hold all of this yet.
    pub fn is_awaited(&self, index: DriveIndex, offset: u64, len: usize) -> bool {
        let awaited = self.member(index).awaited.borrow();
        let awaits = |awaited: &Awaited| awaited.overlaps(offset, len as u64);
        awaited.as_ref().is_some_and(awaits)
    }

    /// It holds this block now, or nobody will read what was there.
    pub fn arrived(&self, index: DriveIndex, offset: u64) {
        let mut awaited = self.member(index).awaited.borrow_mut();
        awaited.iter_mut().for_each(|awaited| awaited.arrived(offset));
    }

    /// Blocks that a drive is still waiting for, and how many there were.
    pub fn awaited(&self, index: DriveIndex) -> Option<(u64, u64)> {
        let awaited = self.member(index).awaited.borrow();
        awaited.as_ref().map(|awaited| (awaited.left(), awaited.total()))
    }

    pub fn restoring(&self) -> impl Iterator<Item = DriveIndex> {
        self.indexes().filter(|&index| self.member(index).state.get() == DriveState::Restoring)
    }

    /// A drive in the place of a lost one, which holds nothing of what it should.
    pub fn adopt(&self, index: DriveIndex, (uuid, size, drive): (Uuid, u64, D), awaited: Awaited) {
        let member = self.member(index);
        assert!(!member.is_active(), "drive {index} is lost before another takes its place");
        self.install(index, (uuid, size, drive), Some(awaited), DriveState::Restoring);
    }

    /// Another drive that holds all that the member holds, durably, but what it awaits. Its
    /// label is out of date: like a failure, that is recorded before anything is promised.
    pub fn exchange(
        &self,
        index: DriveIndex,
        (uuid, size, drive): (Uuid, u64, D),
        awaited: Option<Awaited>,
    ) {
        let member = self.member(index);
        assert_eq!(member.state.get(), DriveState::Active, "drive {index} was copied");
        let state = if awaited.is_some() { DriveState::Restoring } else { DriveState::Active };
        self.install(index, (uuid, size, drive), awaited, state);
        if !planted::is(Bug::PromiseBeforeLabels) {
            self.failures.set(self.failures.get() + 1);
        }
    }

    fn install(
        &self,
        index: DriveIndex,
        (uuid, size, drive): (Uuid, u64, D),
        awaited: Option<Awaited>,
        state: DriveState,
    ) {
        let member = self.member(index);
        *member.name.borrow_mut() = drive.name();
        *member.drive.borrow_mut() = Some(drive);
        member.uuid.set(uuid);
        member.size.set(size);
        *member.failure.borrow_mut() = None;
        member.counters.set(DriveCounters::default());
        member.completed.set(member.completed.get() + 1);
        self.stale.borrow_mut().retain(|(drive, _)| *drive != index);
        *member.awaited.borrow_mut() = awaited;
        self.set_state(member, state);
        member.era.set(member.era.get() + 1);
        // Whoever waits for the drive before asks elsewhere.
        member.gone.notify_all();
    }

    /// A drive in the place of a vacated one: it holds all that it should, which is nothing.
    pub fn adopt_vacant(&self, index: DriveIndex, new: (Uuid, u64, D), awaited: Awaited) {
        assert_eq!(awaited.left(), 0, "drive {index} is vacated");
        self.adopt(index, new, awaited);
        self.restored(index);
    }

    /// What a drive that was being restored when the pool was closed does not hold.
    pub fn set_awaited(&self, index: DriveIndex, awaited: Awaited) {
        *self.member(index).awaited.borrow_mut() = Some(awaited);
    }

    /// The drive holds everything, durably. The labels are to say so, then `told_whole` follows.
    pub fn restored(&self, index: DriveIndex) {
        let member = self.member(index);
        let left = member.awaited.borrow().as_ref().map_or(0, Awaited::left);
        assert_eq!(left, 0, "drive {index} is said to be whole, and is not");
        assert_eq!(member.state.get(), DriveState::Restoring);
        self.set_state(member, DriveState::Active);
    }

    /// The labels say that the drive holds everything: before that nobody is told so.
    pub fn told_whole(&self, index: DriveIndex) {
        *self.member(index).awaited.borrow_mut() = None;
    }

    /// The drive is not used any more.
    pub fn fail(&self, index: DriveIndex, reason: &str) {
        let member = self.member(index);
        let active = member.is_active();
        self.set_state(member, DriveState::Failed);
        if self.draining.get() == Some(index) {
            self.draining.set(None);
        }
        if active {
            *member.awaited.borrow_mut() = None;
            // Whoever wants it back may have it, once what is under way on it is over.
            *member.drive.borrow_mut() = None;
            *member.failure.borrow_mut() = Some(reason.to_owned());
            self.failures.set(self.failures.get() + 1);
            member.gone.notify_all();
            self.failed_event.notify_all();
        }
    }

    /// The drive that was here then has failed.
    fn fail_of(&self, index: DriveIndex, era: u32, reason: &str) {
        if self.member(index).era.get() == era {
            self.fail(index, reason);
        }
    }

    /// What was counted of these drives while another array had them, and what was learned.
    pub fn inherit(&self, before: &Array<D>) {
        self.monitor.inherit(&before.monitor);
        for (own, before) in self.members.iter().zip(&before.members) {
            own.counters.set(before.counters.get());
        }
    }

    /// Handles on all drives, if they are there.
    pub fn drives(&self) -> Vec<D> {
        self.members.iter().filter_map(|member| member.drive.borrow().clone()).collect()
    }

    /// Lets go of all drives: a closed pool keeps nobody from opening them.
    pub fn release(&self) {
        self.members.iter().for_each(|member| *member.drive.borrow_mut() = None);
    }

    pub fn failures(&self) -> u64 {
        self.failures.get()
    }

    /// The superblocks tell of the first `count` failures.
    pub fn note_recorded(&self, count: u64) {
        self.recorded.set(count);
    }

    pub fn has_unrecorded(&self) -> bool {
        self.recorded.get() < self.failures.get()
    }

    /// Makes every cached write that has completed by now durable. A drive that can't flush
    /// fails; its copies are then the other drives' business.
    pub async fn flush_dirty(&self) {
        join_all(self.indexes().filter(|&index| self.is_dirty(index)).map(|i| self.flush(i))).await;
    }

    fn is_dirty(&self, index: DriveIndex) -> bool {
        let member = self.member(index);
        self.is_active(index) && member.flushed.get() < member.completed.get()
    }

    /// Drives with something in their caches, and how many cached writes a flush has to cover.
    pub fn dirty(&self) -> impl Iterator<Item = (DriveIndex, u64)> {
        let written = |index| (index, self.member(index).completed.get());
        self.indexes().filter(|&index| self.is_dirty(index)).map(written)
    }

    /// So many cached writes are durable, or the drive is gone.
    pub fn is_flushed(&self, index: DriveIndex, written: u64) -> bool {
        !self.is_active(index) || self.member(index).flushed.get() >= written
    }

    /// Flushes one drive, sharing a running flush where that covers what is asked.
    async fn flush(&self, index: DriveIndex) {
        let member = self.member(index);
        let target = member.completed.get();
        while !self.is_flushed(index, target) {
            match self.claim_flush(index) {
                Some(covered) => self.run_flush(index, covered).await,
                None => member.flush_done.wait().await,
            }
        }
    }

    /// The right to flush a drive, which must be used: `None` while somebody has it.
    pub fn claim_flush(&self, index: DriveIndex) -> Option<u64> {
        let member = self.member(index);
        if member.flushing.get().is_some() {
            return None;
        }
        let covered = member.completed.get();
        member.flushing.set(Some(covered));
        Some(covered)
    }

    pub async fn run_flush(&self, index: DriveIndex, covered: u64) {
        let member = self.member(index);
        let era = member.era.get();
        let result = match self.handle(index, Operation::Flush) {
            Ok(drive) => self.answer(index, Operation::Flush, drive.flush()).await,
            Err(error) => Err(error),
        };
        member.flushing.set(None);
        member.count(|counters| counters.flushes += 1);
        match result {
            Ok(()) => member.flushed.set(covered),
            Err(error) => self.fail_of(index, era, &error.to_string()),
        }
        member.flush_done.notify_all();
        self.flush_over.notify_all();
    }

    pub fn is_any_dirty(&self) -> bool {
        self.indexes().any(|index| self.is_dirty(index))
    }
}

fn pages(offset: u64, len: usize) -> Range<u64> {
    offset / PAGE as u64..(offset + len as u64).div_ceil(PAGE as u64)
}

fn removed(operation: Operation) -> DriveError {
    DriveError { operation, offset: 0, len: 0, kind: DriveErrorKind::Removed }
}

impl<D: Drive> Member<D> {
    pub fn state(&self) -> DriveState {
        self.state.get()
    }

    fn is_active(&self) -> bool {
        matches!(self.state.get(), DriveState::Active | DriveState::Restoring)
    }

    /// Another number for every drive in this place.
    pub fn era(&self) -> u32 {
        self.era.get()
    }

    pub fn uuid(&self) -> Uuid {
        self.uuid.get()
    }

    pub fn size(&self) -> u64 {
        self.size.get()
    }

    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    fn count(&self, how: impl FnOnce(&mut DriveCounters)) {
        let mut counters = self.counters.get();
        how(&mut counters);
        self.counters.set(counters);
    }

    pub fn takes_discards(&self) -> Option<bool> {
        self.drive.borrow().as_ref().map(|drive| drive.discard_granularity().is_some())
    }

    pub fn counters(&self) -> DriveCounters {
        self.counters.get()
    }

    pub fn outstanding(&self) -> u32 {
        self.outstanding.get()
    }

    pub fn name(&self) -> String {
        self.name.borrow().clone()
    }

    pub fn twin(&self) -> Option<Rc<Twin>> {
        self.writers.twin()
    }

    /// False if it has one already.
    pub fn set_twin(&self, name: &str, twin: &Rc<Twin>) -> bool {
        let free = self.twin().is_none();
        if free {
            self.copy_name.replace(name.to_owned());
            self.writers.set_twin(Some(twin.clone()));
        }
        free
    }

    /// Waits until writes are over that began before it had its twin.
    pub async fn settle_writes(&self) {
        self.writers.settle().await;
    }

    pub fn end_twin(&self) {
        self.writers.set_twin(None);
    }

    pub fn replacing(&self) -> Option<(String, u64, u64)> {
        let (left, total) = self.twin()?.left();
        Some((self.copy_name.borrow().clone(), left, total))
    }
}
