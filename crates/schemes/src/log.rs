//! An append log on an array: what is appended is found again after a crash, in order, up to the
//! first that was not whole.
//!
//! ```text
//!   store   [ anchor | anchor |  ... free ... | record | record | record | ... free ... ]
//!                                             ▲ tail                     ▲ end
//!   append ── joins the record being gathered ── written when one of few turns is free ── answered
//! ```
//! A *position* counts the bytes ever appended; the byte lies at position modulo the area, and a
//! record names its position, so that one of the last time round is not taken for the next. Records
//! that were written out of order before a crash lie behind the gap it left: they are of an older
//! *epoch* than what is appended there after opening, and epochs never fall.
//!
//! Nothing is taken back before [`Log::free`] says so, and nothing that is pinned: by a read, or by
//! an append whose caller has not noted yet where it lies.

mod gather;
pub mod record;
mod scan;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use format::Uuid;
use io::sync::{Event, Semaphore, Turn};
use io::{Buf, BufMut};

use self::gather::{Gathering, Pending};
use self::record::{Anchor, PAGE};
use crate::store::{Store, StoreError};

/// Records on their way at once; what is appended meanwhile gathers in the next. Enough for SSDs to
/// overlap them; on disks the rest of the queue still becomes one long write.
const WRITES_MAX: usize = 4;
/// Data of a record that further entries may join: long enough to be sequential, short enough that
/// the first does not wait for the last.
const GATHERED_MAX: u64 = 256 << 10;
/// Data of one entry: callers divide longer ones. A record is built in memory.
pub const ENTRY_MAX: u64 = 1 << 20;
/// Two anchors before the records.
const AREA_BEGIN: u64 = 2 * PAGE;
/// Fewest bytes of a log: below it hardly a record fits beside what is reserved.
pub const LOG_MIN: u64 = AREA_BEGIN + 16 * PAGE;

/// What is appended: the meaning of kind, address and length is the caller's.
#[derive(Clone, Debug)]
pub struct Entry {
    pub kind: u16,
    pub address: u64,
    pub len: u64,
    pub data: Buf,
}

/// Where an entry lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Position of its record: what [`Log::free`] is told.
    pub record: u64,
    /// Position of its data: what [`Log::read`] is told. Of two entries the later has the higher.
    pub at: u64,
}

/// An entry that opening found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub kind: u16,
    pub address: u64,
    pub len: u64,
    /// Bytes of data.
    pub data: u64,
    pub place: Place,
}

/// Which part of the free space an entry may take.
pub enum Space {
    /// So many bytes stay free, beside what is reserved.
    Leave(u64),
    /// What was reserved for it.
    Reserved(Reservation),
}

struct State {
    epoch: u64,
    /// Of the oldest record that may be found.
    floor: u64,
    /// Where records of this epoch begin.
    begin: u64,
    sequence: u64,
    /// Nothing before is read any more.
    freed: u64,
    /// As the drives know it: space before is free.
    tail: u64,
    /// Where the next record begins.
    end: u64,
    /// Everything before is written.
    written: u64,
    /// Everything before would survive a crash.
    durable: u64,
    /// The last record of which an append was answered.
    answered: Option<u64>,
    /// Records not yet given to the drives, in order.
    gathering: VecDeque<Gathering>,
    /// Records between `written` and `end`.
    pending: BTreeMap<u64, Pending>,
    pins: BTreeMap<u64, u32>,
    /// Bytes promised to entries to come.
    reserved: u64,
}

struct Inner<S> {
    store: S,
    pool: Uuid,
    area: u64,
    state: RefCell<State>,
    turns: Semaphore,
    flush_turn: Turn,
    anchor_turn: Turn,
    progress: Event,
    /// Something is unpinned, or freed.
    released: Event,
    failed: Cell<bool>,
}

/// A handle: clones name the same log.
pub struct Log<S> {
    inner: Rc<Inner<S>>,
}

impl<S> Clone for Log<S> {
    fn clone(&self) -> Log<S> {
        Log { inner: self.inner.clone() }
    }
}

/// An entry is written (durable, if asked for), and is not freed before this is dropped.
pub struct Appended<S> {
    pub place: Place,
    _pin: Pin<S>,
}

/// Nothing from here on is freed.
pub struct Pin<S> {
    inner: Rc<Inner<S>>,
    record: u64,
}

impl<S> Drop for Pin<S> {
    fn drop(&mut self) {
        {
            let mut state = self.inner.state.borrow_mut();
            let count = state.pins.get_mut(&self.record).expect("it is pinned");
            *count -= 1;
            if *count == 0 {
                state.pins.remove(&self.record);
            }
        }
        self.inner.released.notify_all();
    }
}

/// Room for one entry without data, taken before locks are: who has it need not wait.
pub struct Reservation {
    give_back: Rc<dyn Fn()>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        (self.give_back)();
    }
}

impl<S: Store> Log<S> {
    /// Makes an empty log in the first `bytes` of the store. What is there is gone.
    pub async fn create(store: &S, pool: Uuid, bytes: u64) -> Result<(), StoreError> {
        Log::create_after(store, pool, bytes, 0).await
    }

    /// The same where a log of this pool may have been before: its records have no higher epoch
    /// than this, so that they are not taken for new ones.
    pub async fn create_after(
        store: &S,
        pool: Uuid,
        bytes: u64,
        epoch: u64,
    ) -> Result<(), StoreError> {
        let bytes = bytes.min(store.size()) / PAGE * PAGE;
        if bytes < LOG_MIN {
            return Err(StoreError::Shape {
                what: format!("a log of {bytes} bytes"),
                hint: "give the log drives at least 72 KiB beside labels",
            });
        }
        let (epoch, area) = (epoch + 1, bytes - AREA_BEGIN);
        let anchor = Anchor { epoch, sequence: 0, tail: 0, area, floor: epoch };
        for place in [0, PAGE] {
            store.write(place, Buf::from_slice(&anchor.encode(&pool)), true).await?;
        }
        Ok(())
    }

    /// Tells everything that is in the log, in order, and goes on behind it.
    pub async fn open(
        store: S,
        pool: Uuid,
        found: impl FnMut(Found),
    ) -> Result<Log<S>, StoreError> {
        let (anchor, lost) = scan::newest_anchor(&store, &pool).await?;
        let end = scan::scan(&store, &pool, &anchor, lost, found).await?;
        let state = State {
            epoch: anchor.epoch + 1,
            floor: anchor.floor,
            begin: end,
            sequence: anchor.sequence,
            freed: anchor.tail,
            tail: anchor.tail,
            end,
            written: end,
            durable: end,
            answered: None,
            gathering: VecDeque::new(),
            pending: BTreeMap::new(),
            pins: BTreeMap::new(),
            reserved: 0,
        };
        let inner = Inner {
            store,
            pool,
            area: anchor.area,
            state: RefCell::new(state),
            turns: Semaphore::new(WRITES_MAX),
            flush_turn: Turn::new(),
            anchor_turn: Turn::new(),
            progress: Event::new(),
            released: Event::new(),
            failed: Cell::new(false),
        };
        let log = Log { inner: Rc::new(inner) };
        // What is behind the end is void from now on. What was found is durable: arrays flush their
        // drives when they are opened.
        log.inner.write_anchor().await?;
        Ok(log)
    }

    /// Bytes of all records that fit.
    pub fn capacity(&self) -> u64 {
        self.inner.area
    }

    /// Bytes from the first record that counts to the end.
    pub fn used(&self) -> u64 {
        let state = self.inner.state.borrow();
        state.end - state.tail
    }

    /// Where the next record begins: everything appended before is before.
    pub fn end(&self) -> u64 {
        self.inner.state.borrow().end
    }

    /// The first position that is not free.
    pub fn tail(&self) -> u64 {
        self.inner.state.borrow().tail
    }

    /// Appends. `None`: the log is full. A durable entry is answered when it and all before it are
    /// durable. Data: multiples of 512 bytes, at most [`ENTRY_MAX`].
    pub async fn append(
        &self,
        entry: Entry,
        durable: bool,
        space: Space,
    ) -> Result<Option<Appended<S>>, StoreError> {
        self.append_all(vec![entry], durable, space).await
    }

    /// The same with several that lie in one record, one after the other: a crash leaves all of
    /// them or none. At most [`record::ENTRIES_MAX`]. Tells where the first lies.
    pub async fn append_all(
        &self,
        entries: Vec<Entry>,
        durable: bool,
        space: Space,
    ) -> Result<Option<Appended<S>>, StoreError> {
        let Some((place, leads)) = self.inner.join(entries, durable, space) else {
            return Ok(None);
        };
        let pin = self.pin(place);
        if leads {
            self.inner.write_next().await?;
        }
        self.inner.wait_for(place.record, durable).await?;
        Ok(Some(Appended { place, _pin: pin }))
    }

    /// Everything answered before is durable when this returns.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let answered = self.inner.state.borrow().answered;
        match answered {
            Some(record) => self.inner.make_durable(record).await,
            None => Ok(()),
        }
    }

    /// What lies there survives a crash when this returns, and all that was written before it.
    pub async fn keep(&self, place: Place) -> Result<(), StoreError> {
        self.inner.make_durable(place.record).await
    }

    /// Data of an entry, or a part of it. Pin it when you look up where it is.
    pub async fn read(&self, at: u64, len: u64) -> Result<Buf, StoreError> {
        let (at, area) = (at % self.inner.area, self.inner.area);
        let store = &self.inner.store;
        if at + len <= area {
            return store.read(AREA_BEGIN + at, len).await;
        }
        let first = area - at;
        let first = store.read(AREA_BEGIN + at, first).await?;
        let second = store.read(AREA_BEGIN, len - first.len() as u64).await?;
        let mut whole = BufMut::with_len(len as usize);
        whole[..first.len()].copy_from_slice(&first);
        whole[first.len()..].copy_from_slice(&second);
        Ok(whole.freeze())
    }

    pub fn pin(&self, place: Place) -> Pin<S> {
        let mut state = self.inner.state.borrow_mut();
        assert!(place.record >= state.freed, "what is freed is not looked for");
        *state.pins.entry(place.record).or_default() += 1;
        Pin { inner: self.inner.clone(), record: place.record }
    }

    /// Room for one entry without data, if there is any.
    pub fn reserve(&self) -> Option<Reservation> {
        let mut state = self.inner.state.borrow_mut();
        let used = state.end - state.tail;
        if used + state.reserved + PAGE > self.inner.area {
            return None;
        }
        state.reserved += PAGE;
        let inner = self.inner.clone();
        let give_back = move || {
            inner.state.borrow_mut().reserved -= PAGE;
            inner.released.notify_all();
        };
        Some(Reservation { give_back: Rc::new(give_back) })
    }

    /// Nothing before the record at `to` (or the end) is needed any more: its space is free when
    /// this returns. As far as nothing is pinned; says how far. `to` is asked when nothing can
    /// happen any more between the answer and the look at the pins: what is noted and unpinned
    /// while an earlier call is on its way must not be missed. What was answered is made durable
    /// first: an entry may be needless because of a later one, and must not go before that is safe.
    pub async fn free(&self, to: impl FnOnce() -> u64) -> Result<u64, StoreError> {
        let _turn = self.inner.anchor_turn.lock().await;
        {
            let to = to();
            let mut state = self.inner.state.borrow_mut();
            let pinned = state.pins.keys().next().copied().unwrap_or(u64::MAX);
            let to = to.min(state.written).min(pinned);
            if to <= state.freed {
                return Ok(state.tail);
            }
            state.freed = to;
        }
        self.flush().await?;
        self.inner.write_anchor_with_turn().await?;
        self.inner.released.notify_all();
        Ok(self.tail())
    }

    /// The page at `at` of the store can't be read any more. True: it can again, and no record that
    /// counts was in it. Nothing may be appended meanwhile.
    pub async fn renew(&self, at: u64) -> Result<bool, StoreError> {
        let inner = &self.inner;
        if at < AREA_BEGIN {
            // Each goes to the other place.
            inner.write_anchor().await?;
            inner.write_anchor().await?;
            return Ok(true);
        }
        let _turn = inner.anchor_turn.lock().await;
        let begin = at - AREA_BEGIN;
        if begin >= inner.area || self.counts(begin) {
            return Ok(false);
        }
        inner.store.write(at, Buf::zeroed(PAGE as usize), true).await?;
        Ok(true)
    }

    /// Whether some of the page that begins there in the area is of a record that is not free.
    fn counts(&self, begin: u64) -> bool {
        let (state, area) = (self.inner.state.borrow(), self.inner.area);
        let used = state.end - state.tail;
        let behind_tail = (begin + area - state.tail % area) % area;
        used > 0 && (behind_tail < used || behind_tail + PAGE > area)
    }

    /// Until something is unpinned or freed. Look again first, without an await between.
    pub fn released(&self) -> io::sync::EventWait {
        self.inner.released.wait()
    }
}

impl<S: Store> Inner<S> {
    async fn write_anchor(&self) -> Result<(), StoreError> {
        let _turn = self.anchor_turn.lock().await;
        self.write_anchor_with_turn().await
    }

    async fn write_anchor_with_turn(&self) -> Result<(), StoreError> {
        let anchor = {
            let mut state = self.state.borrow_mut();
            state.sequence += 1;
            if state.freed >= state.begin {
                state.floor = state.epoch;
            }
            let State { epoch, sequence, freed, floor, .. } = *state;
            Anchor { epoch, sequence, tail: freed, area: self.area, floor }
        };
        let place = anchor.sequence % 2 * PAGE;
        self.store.write(place, Buf::from_slice(&anchor.encode(&self.pool)), true).await?;
        let mut state = self.state.borrow_mut();
        state.tail = anchor.tail;
        state.durable = state.durable.max(anchor.tail);
        Ok(())
    }

    async fn make_durable(&self, record: u64) -> Result<(), StoreError> {
        self.wait_until(|state| state.written > record).await?;
        if self.state.borrow().durable > record {
            return Ok(());
        }
        let _turn = self.flush_turn.lock().await;
        let written = {
            let state = self.state.borrow();
            if state.durable > record {
                return Ok(());
            }
            state.written
        };
        self.store.flush().await?;
        let mut state = self.state.borrow_mut();
        state.durable = state.durable.max(written);
        Ok(())
    }

    async fn wait_until(&self, done: impl Fn(&State) -> bool) -> Result<(), StoreError> {
        loop {
            if done(&self.state.borrow()) {
                return Ok(());
            }
            if self.failed.get() {
                return Err(StoreError::Shape {
                    what: "the log could not be written".into(),
                    hint: "replace its drives",
                });
            }
            self.progress.wait().await;
        }
    }
}
