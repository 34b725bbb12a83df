//! One replica: an array, at its beginning a log, at its end the page that says what it is.
//!
//! ```text
//!   array   [ log: anchors, records ... | kept | kept | data ............ | page | page ]
//! ```
//! The log holds data that was flushed and is not in place yet, and before something is brought to
//! its place the ranges that change: until all others have it, too, they may differ there.

use std::cell::RefCell;
use std::collections::VecDeque;

use classical::Array;
use format::Uuid;
use io::sync::{Permit, Turn};
use io::{Buf, BufMut, Env, join_all};

use super::cache::{Batch, Entry};
use super::kept::{self, Kept};
use super::page::Page;
use crate::log::record::PAGE;
use crate::log::{self, Log, Space};
use crate::part::PartEnv;
use crate::store::StoreError;

/// Kinds of entries of the log.
pub const DATA: u16 = 1;
pub const RANGES: u16 = 2;
/// A page at the edge of a batch, with the batch; told before its ranges.
pub const EDGE: u16 = 3;
/// Entries of one batch: their ranges fit into one small record.
pub const BATCH_MAX: usize = 64;
const RANGE: usize = 16;
/// Ranges of a batch, in whole sectors.
const RANGES_BYTES: usize = BATCH_MAX * RANGE;
/// Appended at once: more would be polled in any order, but records keep that of the entries.
const APPENDS: usize = 24;
/// Of the log, for ranges only: a batch must not wait for what batches free.
const KEPT: u64 = 16 * PAGE;
/// Pieces of a batch on their way at once.
const WRITES: usize = 32;

pub type Inside<E> = Array<PartEnv<E>>;

/// Bytes of the log for a cache: what is needed is at most twice the cache (entries, and those of
/// the cache before when the oldest came), and it is freed when half of it is used.
pub fn log_bytes(cache: u64) -> u64 {
    let least = 4 * cache + 4 * KEPT;
    least.next_multiple_of(64 << 10)
}

struct State {
    page: Page,
    /// Which of the two places holds it.
    place: u64,
    /// Every entry up to here is durable in the log, or was not needed there.
    logged: u64,
    /// Of what is in the log, in its order: sequence after which it is needless, and its record.
    /// As many as entries and batches of twice the cache.
    marks: VecDeque<(u64, u64)>,
    /// Of the data in the log that is not in place: sequence and position.
    data: VecDeque<(u64, u64)>,
}

pub struct Replica<E: Env> {
    pub array: Inside<E>,
    pub log: Log<Inside<E>>,
    pool: Uuid,
    log_turn: Turn,
    state: RefCell<State>,
}

/// Places of the pages in an array.
pub fn page_place(size: u64, place: u64) -> u64 {
    size / PAGE * PAGE - (place + 1) * PAGE
}

/// Places of the records of what lost replicas miss: before the data, which begins at `base`.
pub fn kept_place(base: u64, place: u64) -> u64 {
    base - (place + 1) * PAGE
}

/// Bytes of the log itself, in an array whose data begins at `base`.
pub fn log_space(base: u64, keeps: bool) -> u64 {
    if keeps { base - kept::BYTES } else { base }
}

pub fn encode_ranges(ranges: &[(u64, u64)]) -> Buf {
    let mut bytes = BufMut::with_len(RANGES_BYTES);
    bytes.fill(0);
    for (at, (start, len)) in ranges.iter().enumerate() {
        bytes[at * RANGE..][..8].copy_from_slice(&start.to_le_bytes());
        bytes[at * RANGE + 8..][..8].copy_from_slice(&len.to_le_bytes());
    }
    bytes.freeze()
}

pub fn decode_ranges(bytes: &[u8]) -> Vec<(u64, u64)> {
    let (all, _) = bytes.as_chunks::<RANGE>();
    let u64_of = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let ranges = all.iter().map(|range| (u64_of(&range[..8]), u64_of(&range[8..])));
    ranges.filter(|(_, len)| *len > 0).collect()
}

fn with_pieces(page: u64, old: &Buf, pieces: &[(u64, Buf)]) -> Buf {
    let mut bytes = BufMut::from_slice(old);
    for (start, data) in pieces {
        let (from, to) = (page.max(*start), (page + PAGE).min(start + data.len() as u64));
        if from < to {
            let new = &data[(from - start) as usize..(to - start) as usize];
            bytes[(from - page) as usize..(to - page) as usize].copy_from_slice(new);
        }
    }
    bytes.freeze()
}

impl<E: Env> Replica<E> {
    pub fn new(
        array: Inside<E>,
        log: Log<Inside<E>>,
        pool: Uuid,
        (page, place): (Page, u64),
    ) -> Replica<E> {
        // What it can't give another replica has.
        array.ask_elsewhere();
        let (marks, data) = (VecDeque::new(), VecDeque::new());
        let state = RefCell::new(State { page, place, logged: 0, marks, data });
        Replica { array, log, pool, log_turn: Turn::new(), state }
    }

    pub fn page(&self) -> Page {
        self.state.borrow().page
    }

    /// Whether every entry up to here survives a crash of this replica. Not while it is noted where
    /// replay begins.
    pub async fn has(&self, to: u64) -> bool {
        let _turn = self.log_turn.lock().await;
        self.state.borrow().logged >= to
    }

    /// Durable when this returns. One at a time.
    pub async fn write_page(&self, page: Page) -> Result<(), StoreError> {
        let place = 1 - self.state.borrow().place;
        let at = page_place(self.array.size(), place);
        self.array.write(at, Buf::from_slice(&page.encode(&self.pool)), true).await?;
        let mut state = self.state.borrow_mut();
        (state.page, state.place) = (page, place);
        Ok(())
    }

    /// A record of what lost replicas miss; durable in both places when this returns. One after
    /// the other: a crash leaves one of them whole.
    pub async fn keep(&self, record: &Kept) -> Result<(), StoreError> {
        let (base, bytes) = (log_bytes(self.page().cache), record.encode(&self.pool));
        for place in [0, 1] {
            self.array.write(kept_place(base, place), Buf::from_slice(&bytes), true).await?;
        }
        Ok(())
    }

    /// Everything up to here that is not in place is durable in the log. `None`: there is no room;
    /// else the bytes that were logged.
    pub async fn log_up_to(
        &self,
        to: u64,
        entries: impl FnOnce(u64) -> Vec<Entry>,
    ) -> Result<Option<u64>, StoreError> {
        let _turn = self.log_turn.lock().await;
        let logged = self.state.borrow().logged;
        if logged >= to {
            return Ok(Some(0));
        }
        let mut bytes = 0;
        for some in entries(logged).chunks(APPENDS) {
            let appends = some.iter().map(|Entry { offset, data, .. }| {
                let len = data.len() as u64;
                let entry = log::Entry { kind: DATA, address: *offset, len, data: data.clone() };
                self.log.append(entry, true, Space::Leave(KEPT))
            });
            let appended = join_all(appends).await;
            let mut full = false;
            for (entry, appended) in some.iter().zip(appended) {
                let Some(appended) = appended? else {
                    full = true;
                    continue;
                };
                let mut state = self.state.borrow_mut();
                state.marks.push_back((entry.sequence, appended.place.record));
                state.data.push_back((entry.sequence, appended.place.at));
                if !full {
                    state.logged = entry.sequence;
                }
                bytes += entry.data.len() as u64;
            }
            if full {
                return Ok(None);
            }
        }
        let mut state = self.state.borrow_mut();
        state.logged = state.logged.max(to);
        Ok(Some(bytes))
    }

    /// Says in the log, durably, what is about to change, by entries up to this one.
    pub async fn log_ranges(&self, to: u64, ranges: &[(u64, u64)]) -> Result<(), StoreError> {
        let _turn = self.log_turn.lock().await;
        let data = encode_ranges(ranges);
        let entry = log::Entry { kind: RANGES, address: 0, len: ranges.len() as u64, data };
        let appended = self.log.append(entry, true, Space::Leave(0)).await?;
        // Charges of the cache and the part that is kept see to it (`log_bytes`).
        let appended = appended.expect("there is always room for ranges");
        self.state.borrow_mut().marks.push_back((to, appended.place.record));
        Ok(())
    }

    /// Pages of which a batch changes a part, as they will be. Those of the last batch count at
    /// opening, below all data: nothing but a later batch changes what lies beside.
    pub async fn log_edges(&self, base: u64, batch: &Batch) -> Result<(), StoreError> {
        let ends = |(start, data): &(u64, Buf)| [*start, start + data.len() as u64];
        let ragged = batch.pieces.iter().flat_map(ends).filter(|at| !at.is_multiple_of(PAGE));
        let mut pages: Vec<u64> = ragged.map(|at| at / PAGE * PAGE).collect();
        pages.dedup();
        let _turn = self.log_turn.lock().await;
        for some in pages.chunks(APPENDS) {
            let reads = some.iter().map(|at| self.array.read(base + at, PAGE));
            let read = join_all(reads).await.into_iter().collect::<Result<Vec<Buf>, _>>()?;
            let appends = some.iter().zip(&read).map(|(at, old)| {
                let data = with_pieces(*at, old, &batch.pieces);
                let entry = log::Entry { kind: EDGE, address: *at, len: PAGE, data };
                self.log.append(entry, true, Space::Leave(0))
            });
            for appended in join_all(appends).await {
                let appended = appended?.expect("there is always room for edges");
                self.state.borrow_mut().marks.push_back((batch.to, appended.place.record));
            }
        }
        Ok(())
    }

    /// Brings pieces to their places; durable when this returns.
    pub async fn put(&self, base: u64, pieces: &[(u64, Buf)]) -> Result<(), StoreError> {
        for some in pieces.chunks(WRITES) {
            let writes =
                some.iter().map(|(at, data)| self.array.write(base + at, data.clone(), false));
            join_all(writes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        }
        Ok(self.array.flush().await?)
    }

    /// Everything up to here is in place: a crash must not bring older data back over it.
    /// Where replay is to begin, if that changes: the page says so before the turn is given back.
    /// A flush meanwhile would count on what is in place.
    pub async fn in_place(&self, to: u64) -> (Permit, Option<u64>) {
        let turn = self.log_turn.lock().await;
        let mut state = self.state.borrow_mut();
        state.logged = state.logged.max(to);
        let before = state.data.len();
        while state.data.front().is_some_and(|(sequence, _)| *sequence <= to) {
            state.data.pop_front();
        }
        // Nothing is being appended: what comes lies behind the end.
        let first = state.data.front().map(|(_, at)| *at);
        let changes = state.data.len() < before;
        (turn, changes.then(|| first.unwrap_or_else(|| self.log.end())))
    }

    /// Whether so much of the log is used that it is to be freed, or all of it is asked for.
    pub fn is_due(&self, all: bool) -> bool {
        let used = self.log.used();
        used > 0 && (all || used > self.log.capacity() / 2)
    }

    /// All living replicas have everything up to here. Frees what is needless, if it is due. True:
    /// it did. What lost ones miss of it is kept elsewhere.
    pub async fn free(&self, to: u64, all: bool) -> Result<bool, StoreError> {
        if !self.is_due(all) {
            return Ok(false);
        }
        let needed = || {
            let mut state = self.state.borrow_mut();
            while state.marks.front().is_some_and(|(sequence, _)| *sequence <= to) {
                state.marks.pop_front();
            }
            state.marks.front().map_or(u64::MAX, |(_, record)| *record)
        };
        self.log.free(needed).await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_as_they_were_told() {
        let ranges: Vec<(u64, u64)> = (0..BATCH_MAX as u64).map(|at| (at << 20, at + 1)).collect();
        for count in [0, 1, BATCH_MAX] {
            assert_eq!(decode_ranges(&encode_ranges(&ranges[..count])), ranges[..count]);
        }
    }
}
