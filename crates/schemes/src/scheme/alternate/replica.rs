//! One replica: an array, at its beginning a log, at its end the page that says what it is.
//!
//! ```text
//!   array   [ log: anchors, records ... | kept | kept | data ............ | page | page ]
//! ```
//! The log holds data that was flushed and is not in place yet, and before something is brought to
//! its place the ranges that change: until all others have it, too, they may differ there.
//!
//! ```text
//!   FLUSH of 7   [ 5 | 6 | 7 ]          data, each with its number    this one has all up to 7
//!   a batch      [ range | range ]      one record
//!   in place     [ done 7 ]             data before it is not replayed
//! ```
//! So each log says up to which entry its replica has everything, in the log or in place: all that
//! was flushed, at least, where no end of it rotted. Of a log that is emptied the last record stays
//! that says so. Entries are numbered by the session, above [`ENTRY_BITS`], and within it.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use classical::{Array, ArrayError};
use format::Uuid;
use io::sync::Turn;
use io::{Buf, BufMut, Env, join_all};

use super::cache::{Batch, Entry};
use super::kept::{self, Kept};
use super::page::Page;
use crate::log::record::{ENTRIES_MAX, PAGE};
use crate::log::{self, Log, Space};
use crate::part::PartEnv;
use crate::store::StoreError;

/// Kinds of entries of the log. Data of older software, which has no number.
pub const DATA: u16 = 1;
/// Ranges of a batch, of older software.
pub const RANGES: u16 = 2;
/// An edge of older software: its length is that of its bytes.
pub const EDGE: u16 = 3;
/// Data; its length is that of its bytes, in the place of the length is its number.
pub const NUMBERED: u16 = 4;
/// A range of a batch, without data.
pub const RANGE: u16 = 5;
/// All up to the entry with this number, which is in the place of the address, is in its place; all
/// up to the one in the place of the length is on every replica that was written to.
pub const DONE: u16 = 6;
/// A page that a batch changes, as it is with the batch; told before its ranges. In the place of
/// the length is the number up to which all was in place before.
pub const NUMBERED_EDGE: u16 = 7;

/// Numbers of entries count these low bits up; above them is the session.
pub const ENTRY_BITS: u32 = 40;
/// Entries of one batch: their ranges fit into one small record.
pub const BATCH_MAX: usize = 120;
// And up to which all is in place.
const _: () = assert!(BATCH_MAX < ENTRIES_MAX);
const OLD_RANGE: usize = 16;
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
    /// And every one up to here the log says to be.
    told: u64,
    /// Every entry up to here is in place; and as the log says, in which record.
    in_place: u64,
    done: u64,
    done_at: Option<u64>,
    /// Of what is in the log, in its order: sequence after which it is needless, and its record.
    /// As many as entries and batches of twice the cache.
    marks: VecDeque<(u64, u64)>,
    /// Of the data in the log that is not in place: sequence and position.
    data: VecDeque<(u64, u64)>,
    begun: Option<Begun>,
    /// How often the next batch was tried in vain.
    failed: u32,
}

/// A batch that the log tells of, in full or in part, and that is not in place. One that fails is
/// tried again as it was told, and no part of it is told twice: the log has room for it once.
#[derive(Default)]
struct Begun {
    /// Up to which entry.
    to: u64,
    /// Its pages that are in the log as a whole.
    edges: BTreeSet<u64>,
    /// What it changes is in the log.
    ranges: bool,
}

impl State {
    /// The first record of the log that counts.
    fn first_needed(&self) -> u64 {
        let first = self.marks.front().map(|(_, record)| *record);
        [first, self.done_at].into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}

pub struct Replica<E: Env> {
    pub array: Inside<E>,
    pub log: Log<Inside<E>>,
    uuid: Uuid,
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

/// Where data begins in an array of so many bytes, and how much of it there is.
pub fn divide(size: u64, cache: u64) -> Result<(u64, u64), StoreError> {
    let base = log_bytes(cache);
    let least = base + 3 * PAGE;
    match page_place(size.max(least), 1).checked_sub(base) {
        Some(data) if size >= least => Ok((base, data)),
        _ => Err(StoreError::Small { size, least }),
    }
}

/// Ranges as older software told them.
pub fn decode_ranges(bytes: &[u8]) -> Vec<(u64, u64)> {
    let (all, _) = bytes.as_chunks::<OLD_RANGE>();
    let u64_of = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let ranges = all.iter().map(|range| (u64_of(&range[..8]), u64_of(&range[8..])));
    ranges.filter(|(_, len)| *len > 0).collect()
}

/// Where pages begin of which the pieces change a part.
pub fn ragged(pieces: &[(u64, Buf)]) -> Vec<u64> {
    let ends = |(start, data): &(u64, Buf)| [*start, start + data.len() as u64];
    let ragged = pieces.iter().flat_map(ends).filter(|at| !at.is_multiple_of(PAGE));
    let mut pages: Vec<u64> = ragged.map(|at| at / PAGE * PAGE).collect();
    pages.dedup();
    pages
}

/// The page, if one piece has all of it.
pub fn whole_of(pieces: &[(u64, Buf)], page: u64) -> Option<Buf> {
    let after = pieces.partition_point(|(start, _)| *start <= page);
    let (start, data) = pieces[..after].last()?;
    let from = (page - start) as usize;
    (from + PAGE as usize <= data.len()).then(|| data.slice(from..from + PAGE as usize))
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
        uuid: Uuid,
        (page, place): (Page, u64),
    ) -> Replica<E> {
        let state = RefCell::new(State {
            page,
            place,
            logged: 0,
            told: 0,
            in_place: 0,
            done: 0,
            done_at: None,
            marks: VecDeque::new(),
            data: VecDeque::new(),
            begun: None,
            failed: 0,
        });
        Replica { array, log, uuid, log_turn: Turn::new(), state }
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
        self.array.write(at, Buf::from_slice(&page.encode(&self.uuid)), true).await?;
        let mut state = self.state.borrow_mut();
        (state.page, state.place) = (page, place);
        Ok(())
    }

    /// A record of what lost replicas miss; durable in both places when this returns. One after
    /// the other: a crash leaves one of them whole.
    pub async fn keep(&self, record: &Kept) -> Result<(), StoreError> {
        let (base, bytes) = (log_bytes(self.page().cache), record.encode(&self.uuid));
        for place in [0, 1] {
            self.array.write(kept_place(base, place), Buf::from_slice(&bytes), true).await?;
        }
        Ok(())
    }

    /// Everything up to here is in place when a session begins: the log says so, durably.
    pub async fn begin(&self, to: u64) -> Result<(), StoreError> {
        let _turn = self.log_turn.lock().await;
        {
            let mut state = self.state.borrow_mut();
            (state.logged, state.in_place) = (state.logged.max(to), state.in_place.max(to));
        }
        self.say_done().await
    }

    /// The log says up to where everything is in place. The turn for the log is held.
    async fn say_done(&self) -> Result<(), StoreError> {
        let to = {
            let state = self.state.borrow();
            if state.done >= state.in_place {
                return Ok(());
            }
            state.in_place
        };
        self.append_done(to).await
    }

    async fn append_done(&self, to: u64) -> Result<(), StoreError> {
        let entry = log::Entry { kind: DONE, address: to, len: 0, data: Buf::zeroed(0) };
        let appended = self.log.append(entry, true, Space::Leave(0)).await?;
        let appended = appended.expect("there is always room to say so");
        let mut state = self.state.borrow_mut();
        state.done_at = Some(appended.place.record);
        (state.done, state.told) = (to, state.told.max(to));
        Ok(())
    }

    /// Everything up to here that is not in place is durable in the log. `None`: there is no room;
    /// else the bytes that were logged. `says`: the log says that, also where it lacks nothing.
    pub async fn log_up_to(
        &self,
        to: u64,
        says: bool,
        entries: impl FnOnce(u64) -> Vec<Entry>,
    ) -> Result<Option<u64>, StoreError> {
        let _turn = self.log_turn.lock().await;
        let (logged, told) = {
            let state = self.state.borrow();
            (state.logged, state.told)
        };
        if logged >= to {
            // What it does not say is in place.
            if says && told < to {
                self.say_done().await?;
            }
            return Ok(Some(0));
        }
        let mut bytes = 0;
        for some in entries(logged).chunks(APPENDS) {
            let appends = some.iter().map(|Entry { sequence, offset, data, .. }| {
                let (address, len) = (*offset, *sequence);
                let entry = log::Entry { kind: NUMBERED, address, len, data: data.clone() };
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
                    (state.logged, state.told) = (entry.sequence, entry.sequence);
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

    /// Up to which entry the batch is told that is not in place.
    pub fn begun(&self) -> Option<u64> {
        self.state.borrow().begun.as_ref().map(|begun| begun.to)
    }

    /// Before a batch up to this entry is brought to its place the log tells of it: `pages` of it
    /// as a whole, and the ranges that change. `all` as in [`Replica::log_ranges`], `before` as in
    /// [`Replica::log_edges`].
    pub async fn tell_batch(
        &self,
        base: u64,
        (pages, batch): (&[u64], &Batch),
        (all, before): (u64, u64),
        ranges: &[(u64, u64)],
    ) -> Result<(), StoreError> {
        let untold: Vec<u64> = {
            let mut state = self.state.borrow_mut();
            let begun = state.begun.get_or_insert(Begun { to: batch.to, ..Begun::default() });
            assert_eq!(begun.to, batch.to, "one that failed is tried again");
            pages.iter().copied().filter(|page| !begun.edges.contains(page)).collect()
        };
        let logged = self.log_edges(base, &untold, &batch.pieces, (before, batch.to)).await?;
        // Charges of the cache see to it (`log_bytes`).
        assert!(logged, "there is always room for edges");
        if !self.state.borrow().begun.as_ref().is_some_and(|begun| begun.ranges) {
            self.log_ranges(batch.to, all, ranges).await?;
            self.change_begun(|begun| begun.ranges = true);
        }
        Ok(())
    }

    fn change_begun(&self, how: impl FnOnce(&mut Begun)) {
        if let Some(begun) = &mut self.state.borrow_mut().begun {
            how(begun);
        }
    }

    /// A batch could not be brought to its place: how often it was tried by now.
    pub fn note_failed(&self) -> u32 {
        let mut state = self.state.borrow_mut();
        state.failed += 1;
        state.failed
    }

    /// Says in the log, durably, what entries up to this one are about to change. Up to `all` every
    /// replica that is written to has everything in place: whose log rots may not know it any more.
    pub async fn log_ranges(
        &self,
        to: u64,
        all: u64,
        ranges: &[(u64, u64)],
    ) -> Result<(), StoreError> {
        let _turn = self.log_turn.lock().await;
        let empty = |kind, address, len| log::Entry { kind, address, len, data: Buf::zeroed(0) };
        let in_place = self.state.borrow().in_place;
        let mut entries = vec![empty(DONE, in_place, all)];
        entries.extend(ranges.iter().map(|&(address, len)| empty(RANGE, address, len)));
        let appended = self.log.append_all(entries, true, Space::Leave(0)).await?;
        // Charges of the cache and the part that is kept see to it (`log_bytes`).
        let appended = appended.expect("there is always room for ranges");
        let mut state = self.state.borrow_mut();
        state.marks.push_back((to, appended.place.record));
        (state.done, state.told) = (in_place, state.told.max(in_place));
        state.done_at = Some(appended.place.record);
        Ok(())
    }

    /// These pages as they will be when the pieces are in place, which need not be whole pages, and
    /// up to the entry `to`; all up to `before` is. Those of the last batch count at opening, below
    /// all data: nothing but a later batch changes what lies beside. False: there is no room.
    pub async fn log_edges(
        &self,
        base: u64,
        pages: &[u64],
        pieces: &[(u64, Buf)],
        (before, to): (u64, u64),
    ) -> Result<bool, StoreError> {
        let _turn = self.log_turn.lock().await;
        for some in pages.chunks(APPENDS) {
            let reads = some.iter().map(async |at| match whole_of(pieces, *at) {
                Some(new) => Ok(new),
                None => Ok(with_pieces(*at, &self.array.read(base + at, PAGE).await?, pieces)),
            });
            let read =
                join_all(reads).await.into_iter().collect::<Result<Vec<Buf>, StoreError>>()?;
            let appends = some.iter().zip(read).map(|(at, data)| {
                let entry = log::Entry { kind: NUMBERED_EDGE, address: *at, len: before, data };
                self.log.append(entry, true, Space::Leave(0))
            });
            for (at, appended) in some.iter().zip(join_all(appends).await) {
                let Some(appended) = appended? else { return Ok(false) };
                self.state.borrow_mut().marks.push_back((to, appended.place.record));
                self.change_begun(|begun| _ = begun.edges.insert(*at));
            }
        }
        Ok(true)
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

    /// The same, but for pages that are lost, and would be written in part only: where those begin.
    pub async fn put_what_goes(
        &self,
        base: u64,
        pieces: &[(u64, Buf)],
    ) -> Result<Vec<u64>, StoreError> {
        let mut lost = Vec::new();
        for some in pieces.chunks(WRITES) {
            let each = some.iter().map(|(at, data)| self.put_or_lose(base + at, data));
            for own in join_all(each).await {
                lost.extend(own?);
            }
        }
        self.array.flush().await?;
        Ok(lost)
    }

    async fn put_or_lose(&self, start: u64, data: &Buf) -> Result<Vec<u64>, StoreError> {
        let write = async |at, data| match self.array.write(at, data, false).await {
            Err(ArrayError::PageLost { .. }) => Ok(false),
            done => done.map(|()| true),
        };
        let (end, mut lost) = (start + data.len() as u64, Vec::new());
        if write(start, data.clone()).await? {
            return Ok(lost);
        }
        for page in (start / PAGE * PAGE..end).step_by(PAGE as usize) {
            let (from, to) = (page.max(start), (page + PAGE).min(end));
            let part = data.slice((from - start) as usize..(to - start) as usize);
            if !write(from, part).await? {
                lost.push(page);
            }
        }
        Ok(lost)
    }

    /// Everything up to here is in place. A crash must not bring older data back over it: if the
    /// log has any the log says so as well, before a flush counts on what is in place.
    pub async fn in_place(&self, to: u64) -> Result<(), StoreError> {
        let _turn = self.log_turn.lock().await;
        let replaced = {
            let mut state = self.state.borrow_mut();
            (state.logged, state.in_place) = (state.logged.max(to), state.in_place.max(to));
            (state.begun, state.failed) = (None, 0);
            let before = state.data.len();
            let old = state.data.partition_point(|(sequence, _)| *sequence <= to);
            state.data.drain(..old);
            state.data.len() < before
        };
        if replaced { self.say_done().await } else { Ok(()) }
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
        // Of several logs the one that says most is right after a crash: what it said stays.
        {
            let _turn = self.log_turn.lock().await;
            self.say_done().await?;
        }
        let needed = || {
            let mut state = self.state.borrow_mut();
            while state.marks.front().is_some_and(|(sequence, _)| *sequence <= to) {
                state.marks.pop_front();
            }
            state.first_needed()
        };
        self.log.free(needed).await?;
        Ok(true)
    }

    /// A page of the log can't be read any more. True: it can again. One that holds what is not in
    /// place can't before it is.
    pub async fn renew(&self, at: u64) -> Result<bool, StoreError> {
        let _turn = self.log_turn.lock().await;
        if self.log.renew(at).await? {
            return Ok(true);
        }
        let in_place = {
            let state = self.state.borrow();
            if !state.marks.is_empty() {
                return Ok(false);
            }
            state.in_place
        };
        // All there is says that all is in place: said again, further on.
        self.append_done(in_place).await?;
        self.log.free(|| self.state.borrow().first_needed()).await?;
        self.log.renew(at).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_older_software_are_found() {
        let mut told = vec![0; 64 * OLD_RANGE];
        for (at, range) in told.chunks_exact_mut(OLD_RANGE).take(3).enumerate() {
            range[..8].copy_from_slice(&((at as u64) << 20).to_le_bytes());
            range[8..].copy_from_slice(&(at as u64 + 1).to_le_bytes());
        }
        assert_eq!(decode_ranges(&told), [(0, 1), (1 << 20, 2), (2 << 20, 3)]);
        assert_eq!(decode_ranges(&told[3 * OLD_RANGE..]), []);
    }
}
