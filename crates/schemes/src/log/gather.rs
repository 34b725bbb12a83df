//! Entries become records: who comes first sees to it that a record is written, who comes before it
//! is begun joins.

use io::{Buf, BufMut};

use super::record::{ENTRIES_MAX, HEADER, Header, Slot, record_bytes};
use super::{AREA_BEGIN, ENTRY_MAX, Entry, GATHERED_MAX, Inner, Place, Space, State};
use crate::store::{Store, StoreError};

/// A record that may still grow if it is the last.
pub struct Gathering {
    start: u64,
    slots: Vec<Slot>,
    data: Vec<Buf>,
    /// Bytes of the data.
    len: u64,
    durable: bool,
}

/// A record from its beginning until all before it are written, too.
pub struct Pending {
    end: u64,
    written: bool,
    durable: bool,
}

impl Gathering {
    fn may_join(&self, entries: usize, data: u64) -> bool {
        self.slots.len() + entries <= ENTRIES_MAX && self.len + data <= GATHERED_MAX
    }

    fn encode(&self, epoch: u64, durable: u64, pool: &format::Uuid) -> Buf {
        let bytes = record_bytes(self.len);
        let slots = self.slots.clone();
        let header = Header { epoch, position: self.start, bytes, durable, slots };
        let mut whole = BufMut::with_len(bytes as usize);
        whole[..HEADER as usize].copy_from_slice(&header.encode(pool));
        let mut at = HEADER as usize;
        for data in &self.data {
            whole[at..at + data.len()].copy_from_slice(data);
            at += data.len();
        }
        whole[at..].fill(0);
        whole.freeze()
    }
}

fn slot_of(entry: &Entry) -> Slot {
    let Entry { kind, address, len, ref data } = *entry;
    Slot { kind, crc: crc32c::crc32c(data), address, len, data: data.len() as u64 }
}

impl State {
    /// Everything before is written, or durable, if it is without a gap.
    fn advance(&mut self) {
        while let Some(first) = self.pending.first_entry() {
            let (start, pending) = (*first.key(), first.get());
            if !pending.written {
                return;
            }
            let (end, durable) = (pending.end, pending.durable);
            first.remove();
            self.written = end;
            if durable && self.durable == start {
                self.durable = end;
            }
        }
    }
}

impl<S: Store> Inner<S> {
    /// Gives entries places in one record; tells that of the first. True: the caller is the first
    /// of the record, and has one written.
    pub fn join(&self, entries: Vec<Entry>, durable: bool, space: Space) -> Option<(Place, bool)> {
        let fits = |entry: &Entry| {
            let data = entry.data.len() as u64;
            data <= ENTRY_MAX && data.is_multiple_of(512)
        };
        assert!(entries.iter().all(fits), "data of an entry is short, and whole sectors");
        assert!(entries.len() <= ENTRIES_MAX, "a record holds all of them");
        let data: u64 = entries.iter().map(|entry| entry.data.len() as u64).sum();
        let leave = match space {
            Space::Leave(bytes) => Some(bytes),
            Space::Reserved(room) => {
                assert!(data == 0, "room is reserved for entries without data");
                drop(room);
                None
            }
        };
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let last = state.gathering.back_mut().filter(|last| last.may_join(entries.len(), data));
        let (start, before, leads) = match &last {
            Some(last) => (last.start, last.len, false),
            None => (state.end, 0, true),
        };
        let end = start + record_bytes(before + data);
        let used = end - state.tail;
        let kept = leave.map_or(0, |leave| leave + state.reserved);
        if used + kept > self.area {
            assert!(leave.is_some(), "what was reserved is there");
            return None;
        }
        state.end = end;
        if leads {
            let (slots, data) = (Vec::new(), Vec::new());
            state.gathering.push_back(Gathering { start, slots, data, len: 0, durable });
        }
        let last = state.gathering.back_mut().expect("it is the last, or was just begun");
        last.slots.extend(entries.iter().map(slot_of));
        last.data.extend(entries.into_iter().map(|entry| entry.data));
        last.len += data;
        last.durable |= durable;
        state.pending.insert(start, Pending { end, written: false, durable: false });
        Some((Place { record: start, at: start + HEADER + before }, leads))
    }

    /// Writes the record that waits longest, when there is a turn; until then others join. It need
    /// not be the caller's: of two who were given turns at once, the later may run first.
    pub async fn write_next(&self) -> Result<(), StoreError> {
        let _turn = self.turns.acquire(1).await;
        let (start, bytes, durable) = {
            let mut state = self.state.borrow_mut();
            let record = state.gathering.pop_front().expect("there is one for everyone who leads");
            let bytes = record.encode(state.epoch, state.durable, &self.pool);
            (record.start, bytes, record.durable)
        };
        let done = self.put(start, bytes, durable).await;
        match &done {
            Ok(()) => {
                let mut state = self.state.borrow_mut();
                let pending = state.pending.get_mut(&start).expect("it is not written yet");
                pending.written = true;
                pending.durable = durable;
                state.advance();
            }
            Err(_) => self.failed.set(true),
        }
        self.progress.notify_all();
        done
    }

    async fn put(&self, start: u64, bytes: Buf, durable: bool) -> Result<(), StoreError> {
        let at = start % self.area;
        let first = bytes.len().min((self.area - at) as usize);
        let head = self.store.write(AREA_BEGIN + at, bytes.slice(0..first), durable);
        if first == bytes.len() {
            return head.await;
        }
        let rest = self.store.write(AREA_BEGIN, bytes.slice(first..bytes.len()), durable);
        let (head, rest) = futures_util::future::join(head, rest).await;
        head.and(rest)
    }

    /// Until the record is written; if it is to be durable, with all before it.
    pub async fn wait_for(&self, start: u64, durable: bool) -> Result<(), StoreError> {
        self.wait_until(|state| {
            state.written > start || state.pending.get(&start).is_some_and(|own| own.written)
        })
        .await?;
        {
            let mut state = self.state.borrow_mut();
            state.answered = state.answered.max(Some(start));
        }
        match durable {
            true => self.make_durable(start).await,
            false => Ok(()),
        }
    }
}
