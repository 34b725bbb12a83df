//! A log-structured store: blocks of 4 KiB are appended to segments, a map in memory says where
//! each lies, and segments that hold little are emptied and used again.
//!
//! ```text
//!   write ── whole blocks ── joins a head ── a record ── map ── answered
//!                                             │
//!   segment  [ head | record | record | ... ] │ full ── flush ── [ ... | summary ]
//!                                             ▼
//!   medium   mirrored places on drives, or an in-place array
//! ```
//! Nothing but segments is on the drives. Opening reads the summary of each, the records of those
//! that have none, and takes of every block the newest version. So there is one rule for space: a
//! segment whose place is begun anew holds nothing that is not newer, and durable, elsewhere.
//!
//! Records of a head are written one after the other, so that what opening finds of a segment ends
//! where the first record is missing; what comes meanwhile gathers in the next. Memory: 4 bytes a
//! block, 4 more if reads are held against sums, 12 more while opening, and 24 a segment.

pub mod bytes;
mod clean;
mod head;
pub mod medium;
mod recover;
mod scrub;
pub mod size;
pub mod table;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use classical::sums::passes;
use format::Uuid;
use io::sync::{Event, Turn};
use io::wait::{Wait, told};
use io::{Buf, BufMut, Env, join_all};

use self::bytes::{Head, Held, PAGE, Summary};
use self::head::{Full, LogHead, Ticket, Waiting};
use self::medium::Medium;
use self::size::Shape;
use self::table::{Place, Table};
use crate::locks::{Hold, RangeLocks};
use crate::store::{Counters, StoreError, check_range};

const BLOCK: usize = PAGE as usize;

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    records: u64,
    blocks: u64,
    again: u64,
    moved: u64,
    cleaned: u64,
    waits: u64,
}

/// Why a segment is not emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stuck {
    /// It could not be read.
    Unread,
    /// Nothing gives what still counts of it: the rest was moved.
    OnlyLost,
}

struct Inner<E: Env, M> {
    env: E,
    medium: M,
    pool: Uuid,
    shape: Shape,
    table: RefCell<Table>,
    /// Those of writers, and last the one of the cleaner.
    heads: Vec<RefCell<LogHead>>,
    next_head: Cell<usize>,
    sequence: Cell<u64>,
    locks: RangeLocks,
    /// Segments without a summary. Bounded by `CLOSING_MAX` and the heads.
    closing: RefCell<VecDeque<Full>>,
    close_turn: Turn,
    clean_turn: Turn,
    /// Not tried again until the log is opened anew, or they hold nothing.
    stuck: RefCell<BTreeMap<u32, Stuck>>,
    /// A place is free again.
    freed: Event,
    count: Cell<Count>,
}

/// A handle: clones name the same log.
pub struct SegmentLog<E: Env, M> {
    inner: Rc<Inner<E, M>>,
}

impl<E: Env, M> Clone for SegmentLog<E, M> {
    fn clone(&self) -> SegmentLog<E, M> {
        SegmentLog { inner: self.inner.clone() }
    }
}

/// A segment stays where it is until this is dropped.
pub struct Pin<E: Env, M: Medium> {
    inner: Rc<Inner<E, M>>,
    pub segment: u32,
}

impl<E: Env, M: Medium> Drop for Pin<E, M> {
    fn drop(&mut self) {
        let free = self.inner.table.borrow_mut().unpin(self.segment);
        if free {
            self.inner.give_back(&[self.segment]);
        }
    }
}

/// Blocks in a row that lie in a row, or were never written.
struct Run {
    place: Option<Place>,
    /// What each should be.
    sums: Vec<u32>,
}

impl<E: Env, M: Medium> SegmentLog<E, M> {
    /// Bytes it offers.
    pub fn size(&self) -> u64 {
        u64::from(self.inner.table.borrow().blocks()) * PAGE
    }

    pub fn medium(&self) -> &M {
        &self.inner.medium
    }

    pub fn env(&self) -> &E {
        &self.inner.env
    }

    pub async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        check_range(offset, len, self.size())?;
        let first = offset / PAGE;
        let blocks = (offset + len).div_ceil(PAGE) - first;
        let whole = self.inner.read_blocks(first as u32, blocks as u32).await?;
        let begin = (offset - first * PAGE) as usize;
        Ok(whole.slice(begin..begin + len as usize))
    }

    pub async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        check_range(offset, data.len() as u64, self.size())?;
        if data.is_empty() {
            return Ok(());
        }
        let end = offset + data.len() as u64;
        let (first, last) = (offset / PAGE, end.div_ceil(PAGE));
        // One writer of a block at a time: the later record is the newer.
        let lock = self.inner.locks.lock(first * PAGE..last * PAGE, Hold::InPlace);
        let _held = told(&self.inner.env, Wait::Lock, lock).await;
        let whole = self.inner.filled_up(first, last, offset, data).await?;
        let blocks = first as u32..last as u32;
        let waiting: Vec<Waiting> = blocks
            .zip(0..)
            .map(|(block, at)| Waiting {
                block,
                data: whole.slice(at * BLOCK..(at + 1) * BLOCK),
                moved: None,
                durable: fua,
            })
            .collect();
        let mut tickets = Vec::new();
        for some in waiting.chunks(self.inner.medium.record_blocks()) {
            tickets.push(self.inner.join(self.inner.turn(), some.to_vec()));
        }
        let mut flush = false;
        for ticket in tickets {
            let written = told(&self.inner.env, Wait::Journal, ticket.done()).await?;
            flush |= written == Ticket::TO_FLUSH;
        }
        if flush { self.flush().await } else { Ok(()) }
    }

    /// Everything answered before is durable when this returns.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.inner.flush().await
    }

    /// Writes all summaries, so that the next opening need not look at records. No request is under
    /// way.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.inner.fill_all();
        self.inner.close_all().await
    }

    /// One piece of what can wait: a summary, or a segment emptied.
    pub async fn work(&self) -> Result<bool, StoreError> {
        if !self.inner.closing.borrow().is_empty() {
            self.inner.close_all().await?;
            return Ok(true);
        }
        self.inner.work().await
    }

    pub fn counters(&self) -> Counters {
        let Count { records, blocks, again, moved, cleaned, waits } = self.inner.count.get();
        vec![
            ("records", records),
            ("blocks_appended", blocks),
            ("records_written_again", again),
            ("blocks_moved", moved),
            ("segments_cleaned", cleaned),
            ("waits_for_space", waits),
            ("blocks_mapped", self.inner.table.borrow().mapped()),
            ("segments_free", self.inner.medium.room().into()),
        ]
    }

    /// Those that are appended to and could have more copies are appended to no more, so that they
    /// are moved like the rest. One that is being written is left alone.
    pub fn fill_degraded(&self) {
        self.inner.fill_degraded();
    }

    /// Those segments that have their summary and of which this is true.
    pub fn pin_closed(&self, which: impl Fn(u32) -> bool) -> Vec<Pin<E, M>> {
        let all: Vec<u32> = self.inner.table.borrow().closed().map(|(at, _)| at).collect();
        all.into_iter().filter(|at| which(*at)).map(|at| self.inner.pin(at)).collect()
    }

    /// Segments with fewer copies than they could have.
    pub fn degraded(&self) -> u64 {
        self.inner.degraded_segments()
    }

    /// What contradicts itself: the table and summaries, and copies in this range. For tests.
    pub async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let mut wrong = self.inner.table.borrow().audit();
        let closed: Vec<u32> = self.inner.table.borrow().closed().map(|(at, _)| at).collect();
        for segment in closed {
            let summary = match self.inner.summary_of(segment).await {
                Ok(summary) => summary,
                Err(error) => {
                    wrong.push(error.to_string());
                    continue;
                }
            };
            let live = self.inner.live_in(segment, &summary).len() as u32;
            let counted = self.inner.table.borrow().live(segment);
            if live != counted {
                wrong.push(format!("segment {segment}: {counted} live, its summary has {live}"));
            }
        }
        for block in offset / PAGE..(offset + len).div_ceil(PAGE) {
            let place = self.inner.table.borrow().find(block as u32);
            let Some(Place { segment, page }) = place else { continue };
            let copies = self.inner.medium.read_copies(segment, u64::from(page) * PAGE, PAGE).await;
            let sum = self.inner.table.borrow().sum(block as u32);
            let right = |copies: &Vec<Buf>| {
                copies.iter().all(|copy| passes(sum, copy) && **copy == *copies[0])
            };
            if !copies.as_ref().is_ok_and(right) {
                wrong
                    .push(format!("block {block}: its copies differ, or are not what was written"));
            }
        }
        wrong
    }
}

impl<E: Env, M: Medium> Inner<E, M> {
    fn bump(&self, how: impl FnOnce(&mut Count)) {
        let mut count = self.count.get();
        how(&mut count);
        self.count.set(count);
    }

    fn give_back(&self, segments: &[u32]) {
        // Others may be begun there before its summary was ever written.
        self.closing.borrow_mut().retain(|full| !segments.contains(&full.head.number));
        for segment in segments {
            self.stuck.borrow_mut().remove(segment);
            self.medium.give_back(*segment);
        }
        if !segments.is_empty() {
            self.freed.notify_all();
        }
    }

    fn pin(self: &Rc<Self>, segment: u32) -> Pin<E, M> {
        self.table.borrow_mut().pin(segment);
        Pin { inner: self.clone(), segment }
    }

    /// Writers take the heads in turn.
    fn turn(&self) -> usize {
        let heads = self.heads.len() - 1;
        let head = self.next_head.get() % heads;
        self.next_head.set((head + 1) % heads);
        head
    }

    fn runs(&self, first: u32, blocks: u32) -> Vec<Run> {
        let table = self.table.borrow();
        let mut runs: Vec<Run> = Vec::new();
        for block in first..first + blocks {
            let place = table.find(block);
            let goes_on = runs.last_mut().filter(|run| {
                let next = |p: Place| Place { page: p.page + run.sums.len() as u32, ..p };
                run.place.map(next) == place
            });
            let sum = table.sum(block);
            match goes_on {
                Some(run) => run.sums.push(sum),
                None => runs.push(Run { place, sums: vec![sum] }),
            }
        }
        runs
    }

    async fn read_blocks(self: &Rc<Self>, first: u32, blocks: u32) -> Result<Buf, StoreError> {
        let runs = self.runs(first, blocks);
        let pins: Vec<Pin<E, M>> =
            runs.iter().flat_map(|run| run.place).map(|place| self.pin(place.segment)).collect();
        let reads = runs.iter().map(|run| async move {
            let len = run.sums.len() as u64 * PAGE;
            match run.place {
                Some(Place { segment, page }) => {
                    self.medium.read(segment, u64::from(page) * PAGE, len, &run.sums).await
                }
                None => Ok(Buf::zeroed(len as usize)),
            }
        });
        let mut read: Vec<Buf> = join_all(reads).await.into_iter().collect::<Result<_, _>>()?;
        drop(pins);
        if read.len() == 1 {
            return Ok(read.remove(0));
        }
        let (mut whole, mut at) = (BufMut::with_len(blocks as usize * BLOCK), 0);
        for part in read {
            whole[at..at + part.len()].copy_from_slice(&part);
            at += part.len();
        }
        Ok(whole.freeze())
    }

    /// The request's bytes with what is beside them in its first and last block.
    async fn filled_up(
        self: &Rc<Self>,
        first: u64,
        last: u64,
        offset: u64,
        data: Buf,
    ) -> Result<Buf, StoreError> {
        let (begin, end) = ((offset - first * PAGE) as usize, offset + data.len() as u64);
        let len = (last - first) as usize * BLOCK;
        if begin == 0 && data.len() == len {
            return Ok(data);
        }
        let mut whole = BufMut::with_len(len);
        if begin > 0 || last - first == 1 {
            whole[..BLOCK].copy_from_slice(&self.read_blocks(first as u32, 1).await?);
        }
        if !end.is_multiple_of(PAGE) && last - first > 1 {
            let tail = self.read_blocks(last as u32 - 1, 1).await?;
            whole[len - BLOCK..].copy_from_slice(&tail);
        }
        whole[begin..begin + data.len()].copy_from_slice(&data);
        Ok(whole.freeze())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let deaths = self.table.borrow().deaths();
        let ends: Vec<_> = self.heads.iter().map(|head| head.borrow().written()).collect();
        let full: Vec<u64> = self.closing.borrow().iter().map(|full| full.head.nonce).collect();
        self.medium.flush().await?;
        for (head, end) in self.heads.iter().zip(ends) {
            head.borrow_mut().note_durable(end);
        }
        for own in self.closing.borrow_mut().iter_mut() {
            own.durable |= full.contains(&own.head.nonce);
        }
        let free = self.table.borrow_mut().settle(deaths);
        self.give_back(&free);
        Ok(())
    }

    async fn summary_of(&self, segment: u32) -> Result<Summary, StoreError> {
        let damaged = |page: u32| StoreError::Damaged(format!("page {page} of segment {segment}"));
        let heads = self.medium.read_copies(segment, 0, PAGE).await?;
        let head = self.head_of(segment, heads.iter().map(|page| &page[..]));
        let (head, end) = (head.ok_or_else(|| damaged(0))?, self.shape.end());
        let (at, len) = (u64::from(end) * PAGE, u64::from(self.shape.pages - end) * PAGE);
        let decode = |bytes: &Buf| Summary::decode(&self.pool, &head, self.shape, bytes);
        if let Some(summary) = decode(&self.medium.read(segment, at, len, &[]).await?) {
            return Ok(summary);
        }
        let copies = self.medium.read_copies(segment, at, len).await?;
        copies.iter().find_map(decode).ok_or_else(|| damaged(end))
    }

    /// The head of a segment that is there, of its copies. A drive that lost writes may have that
    /// of one which had the place before, and all of that one.
    fn head_of<'a>(&self, segment: u32, copies: impl Iterator<Item = &'a [u8]>) -> Option<Head> {
        let heads = copies.filter_map(|page| Head::decode(&self.pool, page));
        heads.filter(|head| head.number == segment).max_by_key(|head| head.born)
    }

    /// Of a summary what counts, and its pages.
    fn live_in(&self, segment: u32, summary: &Summary) -> Vec<(u32, Held)> {
        let table = self.table.borrow();
        let is_live = |(page, held): &(u32, Held)| {
            let place = Place { segment, page: *page };
            held.block < table.blocks() && table.find(held.block) == Some(place)
        };
        summary.held().filter(is_live).collect()
    }
}
