//! The journal: what happened to the maps, in order, on p+1 drives or more.
//!
//! ```text
//!  append            seal                    write to J rings             flush of the data
//! ───────> open block ───> sealed, in flight ───────────────> written ──────────────────> durable
//!          (memory)         (at most a few)                                 (may be forgotten by
//!                                                                            the next checkpoint)
//! ```
//!
//! Records are appended when the data they describe is *issued* and carry its checksum, so that
//! journal and data travel side by side. A block counts as durable when it and all before it
//! are written, their data has arrived, and a flush that began after that is over.

mod ring;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use format::{BlockBuilder, JOURNAL_BLOCK_MAX, JournalHeader, Record, Uuid};
use futures_util::future::{Either, select};
use io::sync::Event;
use io::{Buf, Durability, Env, Nanos};
use layout::DriveIndex;

use crate::array::Array;
use crate::limits::{JOURNAL_RESERVE_BLOCKS, JOURNAL_WRITES_MAX};
use crate::planted::{self, Bug};
use ring::Ring;

/// Who writes this journal.
#[derive(Clone, Copy, Debug)]
pub struct JournalIdentity {
    pub pool: Uuid,
    pub shard: u16,
    pub epoch: u64,
    /// First byte and length of the ring on every drive.
    pub ring: format::Extent,
}

#[derive(Default)]
struct BlockState {
    /// Records whose data writes are not over.
    data_pending: u32,
    /// Newest block with a record that takes the place of one of this block, whose data may
    /// never arrive.
    superseded_by: u64,
    written: bool,
    /// What the block itself says to be durable.
    says_durable: u64,
}

struct State {
    builder: BlockBuilder,
    /// Sequence of the block that is being filled.
    open: u64,
    /// Blocks `first..=open`, those before are durable.
    blocks: VecDeque<BlockState>,
    first: u64,
    /// Replay would begin here.
    start: u64,
    /// All blocks up to here are written.
    written: u64,
    /// All blocks up to here are durable.
    durable: u64,
    /// All blocks up to here are durable, and a block on the drives says so: recovery will not
    /// look for their data any more.
    published: u64,
    rings: Vec<Ring>,
    copies: usize,
    rotor: usize,
    writes: usize,
    blocks_written: u64,
    bytes_written: u64,
}

pub struct Journal<E: Env> {
    env: E,
    array: Rc<Array<E::Drive>>,
    identity: JournalIdentity,
    /// A block is sealed when it reaches this size (bytes).
    block_soft_max: usize,
    state: RefCell<State>,
    progress: Event,
    room: Event,
    failed: Cell<bool>,
    /// No checkpoint makes room any more.
    given_up: Cell<bool>,
    /// Blocks that were sent to further drives because one was late.
    hedged: Cell<u64>,
}

/// The copies of one block on their way.
#[derive(Default)]
struct Copies {
    written: Cell<usize>,
    pending: Cell<usize>,
    changed: Event,
}

impl State {
    /// The newest block, `limit` at most, such that for all records up to it their data has
    /// arrived, or that of a record up to it that took their place.
    fn settled_upto(&self, limit: u64) -> u64 {
        let (mut settled, mut needed) = (self.first - 1, 0);
        for (block, number) in self.blocks.iter().zip(self.first..=limit) {
            if block.data_pending > 0 {
                break;
            }
            needed = needed.max(block.superseded_by);
            if needed <= number {
                settled = number;
            }
        }
        settled
    }
}

/// What became of the journal's blocks, for `status`.
#[derive(Clone, Copy, Debug, Default)]
pub struct JournalStats {
    pub blocks: u64,
    pub bytes: u64,
    pub fill_percent: u8,
    pub hedged: u64,
}

impl<E: Env> Journal<E> {
    /// An empty journal whose first block will be `next`.
    pub fn new(
        env: E,
        array: Rc<Array<E::Drive>>,
        identity: JournalIdentity,
        next: u64,
        copies: usize,
    ) -> Rc<Journal<E>> {
        let rings = array.indexes().map(|_| Ring::new(identity.ring.len)).collect();
        let state = State {
            builder: BlockBuilder::new(),
            open: next,
            blocks: VecDeque::from([BlockState::default()]),
            first: next,
            start: next,
            written: next - 1,
            durable: next - 1,
            published: next - 1,
            rings,
            copies,
            rotor: 0,
            writes: 0,
            blocks_written: 0,
            bytes_written: 0,
        };
        Rc::new(Journal {
            env,
            array,
            identity,
            block_soft_max: JOURNAL_BLOCK_MAX.min(identity.ring.len as usize / 16),
            state: RefCell::new(state),
            progress: Event::new(),
            room: Event::new(),
            failed: Cell::new(false),
            given_up: Cell::new(false),
            hedged: Cell::new(0),
        })
    }

    pub fn set_copies(&self, copies: usize) {
        let mut state = self.state.borrow_mut();
        state.copies = state.copies.max(copies);
    }

    pub fn copies(&self) -> usize {
        self.state.borrow().copies
    }

    /// True once no drive took a block: nothing can be promised any more.
    pub fn is_failed(&self) -> bool {
        self.failed.get()
    }

    // ---- appending

    /// Waits until the rings have room for what a request may append, or nobody makes any.
    pub async fn reserve(self: &Rc<Self>) {
        while !self.has_room() && !self.is_failed() && !self.given_up.get() {
            self.room.wait().await;
        }
    }

    fn has_room(&self) -> bool {
        let state = self.state.borrow();
        let (used, len) = self.usage(&state);
        let reserve = JOURNAL_RESERVE_BLOCKS * self.block_soft_max as u64 * state.copies as u64;
        // With no drive left there is nothing to wait for: the block will fail.
        len == 0 || used + reserve.min(len / 4) < len
    }

    fn usage(&self, state: &State) -> (u64, u64) {
        let active = self.array.active();
        let rings = active.iter().map(|index| &state.rings[usize::from(index.0)]);
        rings.fold((0, 0), |(used, len), ring| (used + ring.used(), len + ring.len()))
    }

    pub fn fill_percent(&self) -> u64 {
        self.fill_percent_of(&self.state.borrow()).into()
    }

    /// Appends a record whose effect needs no data on the drives.
    pub fn append(self: &Rc<Self>, record: &Record) -> u64 {
        self.append_all(std::slice::from_ref(record))
    }

    /// The same of records that count together, sums and what they are for: they lie in one block,
    /// or a checkpoint could begin between them, and a crash after it would find the second without
    /// the first. Returns the block.
    pub fn append_all(self: &Rc<Self>, records: &[Record]) -> u64 {
        self.push(records, 0)
    }

    /// The same of records whose data is being written; `data_done` must follow, once for all.
    pub fn append_with_data(self: &Rc<Self>, records: &[Record]) -> u64 {
        self.push(records, 1)
    }

    fn push(self: &Rc<Self>, records: &[Record], data: u32) -> u64 {
        if !self.push_whole(records) {
            self.seal();
            if !self.push_whole(records) {
                // Sums of stripes as wide as 249 blocks of 1 MiB take more than a block: of these
                // some lie in the blocks before.
                let (some, rest) = records.split_at(records.len() / 2);
                assert!(!some.is_empty(), "a record fits an empty block");
                self.push(some, 0);
                return self.push(rest, data);
            }
        }
        let mut state = self.state.borrow_mut();
        state.blocks.back_mut().expect("the open block").data_pending += data;
        state.open
    }

    /// All of these into the open block; false: none, as they don't fit.
    fn push_whole(&self, records: &[Record]) -> bool {
        let mut state = self.state.borrow_mut();
        let is_full = state.builder.len() >= self.block_soft_max;
        !is_full && state.builder.push_all(records)
    }

    /// The data of a record in block `sequence` has arrived (or will never be needed).
    pub fn data_done(&self, sequence: u64) {
        let mut state = self.state.borrow_mut();
        let at = (sequence - state.first) as usize;
        state.blocks[at].data_pending -= 1;
    }

    /// The data of a record in block `sequence` may never arrive; a later one, in block `by`, says
    /// the same of another place, and its data has arrived.
    pub fn data_superseded(&self, sequence: u64, by: u64) {
        self.data_done(sequence);
        let mut state = self.state.borrow_mut();
        let at = (sequence - state.first) as usize;
        let block = &mut state.blocks[at];
        block.superseded_by = block.superseded_by.max(by);
    }

    /// The newest block that holds a record; what dies now is dead once this is durable.
    pub fn latest(&self) -> u64 {
        let state = self.state.borrow();
        if state.builder.is_empty() { state.open - 1 } else { state.open }
    }

    pub fn durable(&self) -> u64 {
        self.state.borrow().durable
    }

    pub fn published(&self) -> u64 {
        self.state.borrow().published
    }

    /// True if something was appended that is not durable.
    pub fn is_dirty(&self) -> bool {
        self.latest() > self.durable()
    }

    // ---- writing

    /// Closes the open block if it holds anything and sends it off. Returns the newest sealed
    /// block.
    pub fn seal(self: &Rc<Self>) -> u64 {
        let newest = self.state.borrow().open - 1;
        if self.state.borrow().builder.is_empty() { newest } else { self.seal_any() }
    }

    /// Tells the drives what is durable, with an empty block if there is nothing else to say.
    /// False: the journal has failed.
    pub async fn publish(self: &Rc<Self>) -> bool {
        let news = {
            let state = self.state.borrow();
            state.durable > state.published
        };
        !news || self.commit(self.seal_any()).await
    }

    fn seal_any(self: &Rc<Self>) -> u64 {
        let (sequence, bytes) = {
            let mut state = self.state.borrow_mut();
            let header = JournalHeader {
                pool: self.identity.pool,
                shard: self.identity.shard,
                epoch: self.identity.epoch,
                sequence: state.open,
                durable: state.durable,
                copies: state.copies as u8,
                records: 0,
                len: 0,
            };
            let mut builder = std::mem::replace(&mut state.builder, BlockBuilder::new());
            let bytes = Buf::from_slice(&builder.finish(&header));
            let durable = state.durable;
            state.blocks.back_mut().expect("the open block").says_durable = durable;
            state.blocks.push_back(BlockState::default());
            state.open += 1;
            state.writes += 1;
            (state.open - 1, bytes)
        };
        let journal = self.clone();
        self.env.spawn(async move { journal.write_block(sequence, bytes).await });
        sequence
    }

    /// Writes the block to as many rings as it needs copies, and to further ones when a drive
    /// fails, or is late.
    async fn write_block(self: Rc<Self>, sequence: u64, bytes: Buf) {
        let copies = Rc::new(Copies::default());
        let mut tried: Vec<DriveIndex> = Vec::new();
        let mut wanted = self.copies();
        let patience = self.array.monitor.write_deadline();
        loop {
            let missing = wanted.saturating_sub(copies.written.get() + copies.pending.get());
            for (index, offset) in self.choose_rings(sequence, bytes.len() as u64, &tried, missing)
            {
                tried.push(index);
                self.write_copy(&copies, sequence, index, offset, bytes.clone());
            }
            let enough = self.copies().min(self.array.active().len()).max(1);
            if copies.written.get() >= enough || copies.pending.get() == 0 {
                break;
            }
            let changed = copies.changed.wait();
            let late = patience.map(|span| self.env.sleep_until(self.env.now() + Nanos(span)));
            let is_late = match late {
                Some(late) => {
                    matches!(select(changed, Box::pin(late)).await, Either::Right(_))
                }
                None => {
                    changed.await;
                    false
                }
            };
            let monitor = &self.array.monitor;
            let helps = || !monitor.is_loaded() || tried.iter().any(|&own| monitor.hangs(own));
            // Copies on their way to slow drives count no more; once for all of them.
            if is_late && wanted <= self.copies() && helps() {
                wanted += copies.pending.get();
                self.hedged.set(self.hedged.get() + 1);
            }
        }
        let count = copies.written.get();
        self.block_written(sequence, bytes.len() as u64 * count as u64, count);
    }

    fn write_copy(
        self: &Rc<Self>,
        copies: &Rc<Copies>,
        sequence: u64,
        index: DriveIndex,
        offset: u64,
        bytes: Buf,
    ) {
        let durability = match planted::is(Bug::CacheJournal) {
            true => Durability::Cached,
            false => Durability::Durable,
        };
        let (journal, copies) = (self.clone(), copies.clone());
        copies.pending.set(copies.pending.get() + 1);
        self.array.leftovers.leave(&self.env, async move {
            let done = journal.array.write(index, offset, bytes, durability).await;
            journal.state.borrow_mut().rings[usize::from(index.0)].over(sequence);
            copies.pending.set(copies.pending.get() - 1);
            copies.written.set(copies.written.get() + usize::from(done.is_ok()));
            copies.changed.notify_all();
            journal.room.notify_all();
        });
    }

    /// Rings for the copies of a block that are still missing: not of slow drives, the emptiest, in
    /// rotation.
    fn choose_rings(
        &self,
        sequence: u64,
        len: u64,
        tried: &[DriveIndex],
        missing: usize,
    ) -> Vec<(DriveIndex, u64)> {
        let mut state = self.state.borrow_mut();
        state.rotor += missing;
        let (rotor, count) = (state.rotor, self.array.len());
        let mut candidates: Vec<DriveIndex> =
            self.array.active().into_iter().filter(|index| !tried.contains(index)).collect();
        candidates.retain(|index| state.rings[usize::from(index.0)].fits(len));
        candidates.sort_by_key(|index| {
            let at = usize::from(index.0);
            let slow = self.array.is_slow(*index);
            // Usage in coarse steps, so that rotation decides among equals.
            (slow, state.rings[at].used() / (4 * len.max(1)), (at + count - rotor % count) % count)
        });
        let place = |index: DriveIndex| {
            let ring = &mut state.rings[usize::from(index.0)];
            (index, self.identity.ring.offset + ring.push(sequence, len))
        };
        candidates.into_iter().take(missing).map(place).collect()
    }

    fn block_written(self: &Rc<Self>, sequence: u64, bytes: u64, copies: usize) {
        let mut state = self.state.borrow_mut();
        state.writes -= 1;
        if copies == 0 {
            // Acknowledging anything from here on would be a lie.
            drop(state);
            self.failed.set(true);
            self.progress.notify_all();
            return self.room.notify_all();
        }
        state.blocks_written += 1;
        state.bytes_written += bytes;
        let at = (sequence - state.first) as usize;
        state.blocks[at].written = true;
        while state.written + 1 < state.open {
            let next = (state.written + 1 - state.first) as usize;
            if !state.blocks[next].written {
                break;
            }
            state.published = state.published.max(state.blocks[next].says_durable);
            state.written += 1;
        }
        drop(state);
        self.progress.notify_all();
    }

    /// Waits until block `sequence` and all before it are on their drives. False: the journal
    /// has failed.
    pub async fn commit(self: &Rc<Self>, sequence: u64) -> bool {
        loop {
            let (written, open, writes) = {
                let state = self.state.borrow();
                (state.written, state.open, state.writes)
            };
            if self.is_failed() {
                return false;
            }
            if written >= sequence {
                return true;
            }
            if sequence == open && writes < JOURNAL_WRITES_MAX {
                self.seal();
            }
            self.progress.wait().await;
        }
    }

    // ---- durability

    /// Start of a flush: the newest block such that the data of all records up to it has
    /// arrived.
    pub fn settled(&self) -> u64 {
        let state = self.state.borrow();
        state.settled_upto(state.open - 1)
    }

    /// End of a flush that began when `settled` was read.
    pub fn note_durable(&self, settled: u64) {
        let mut state = self.state.borrow_mut();
        let durable = state.settled_upto(settled.min(state.written));
        state.durable = state.durable.max(durable);
        while state.first <= state.durable {
            state.blocks.pop_front();
            state.first += 1;
        }
    }

    /// Whether replay will not come across a block any more.
    pub fn is_forgotten(&self, sequence: u64) -> bool {
        sequence < self.state.borrow().start
    }

    /// A checkpoint holds everything before block `start`: its space can be used again.
    pub fn forget_before(&self, start: u64) {
        let mut state = self.state.borrow_mut();
        state.start = state.start.max(start);
        state.rings.iter_mut().for_each(|ring| ring.forget_before(start));
        drop(state);
        self.room.notify_all();
    }

    /// The pool takes no more writes: nothing that is appended will be promised to anybody, and
    /// nobody waits for room. What may be needed is still not overwritten.
    pub fn give_up(&self) {
        self.given_up.set(true);
        self.room.notify_all();
        self.progress.notify_all();
    }

    pub fn stats(&self) -> JournalStats {
        let state = self.state.borrow();
        JournalStats {
            blocks: state.blocks_written,
            bytes: state.bytes_written,
            fill_percent: self.fill_percent_of(&state),
            hedged: self.hedged.get(),
        }
    }

    fn fill_percent_of(&self, state: &State) -> u8 {
        let (used, len) = self.usage(state);
        (used * 100).checked_div(len).unwrap_or(100) as u8
    }
}

#[cfg(test)]
mod tests;
