//! Reads and writes of users: the paper's Request Redirector.
//!
//! ```text
//!  to the log      lock (append) ─ round up to pages ─ append ─ note where it lies ─ answer
//!  to the array    room for a void ─ lock (in place) ─ data and parity, durable ─ void, durable
//!                    ─ forget what the log had ─ answer
//! ```
//! The map knows whole pages only: a log write that begins or ends within one reads the rest of it
//! first. So destaging never writes a sector that is not in the log, and a crash with a drive lost
//! in the middle of it harms nothing. The order of the second line matters: a void that became
//! durable first would lose a flushed write of the log if the new data did not follow.

use std::ops::Range;
use std::rc::Rc;

use futures_util::future::try_join_all;
use io::wait::{Wait, told};
use io::{Buf, BufMut, Env, join_all};

use super::plan::{Mode, Part, To, pages, route};
use super::{DATA, Inner, VOID};
use crate::locks::Hold;
use crate::log::record::PAGE;
use crate::log::{Entry, Reservation, Space};
use crate::store::StoreError;

/// Up to so many bytes both edges are read at once.
const TOGETHER_MAX: u64 = 2 * PAGE;

/// A request is under way until this is dropped.
pub struct Request<E: Env> {
    inner: Rc<Inner<E>>,
}

impl<E: Env> Drop for Request<E> {
    fn drop(&mut self) {
        self.inner.requests.set(self.inner.requests.get() - 1);
        self.inner.last_request.set(self.inner.env.now());
    }
}

impl<E: Env> Inner<E> {
    pub fn request(self: &Rc<Self>) -> Request<E> {
        self.requests.set(self.requests.get() + 1);
        self.last_request.set(self.env.now());
        Request { inner: self.clone() }
    }

    pub async fn read(&self, range: Range<u64>) -> Result<Buf, StoreError> {
        let from_log = {
            let pieces = self.extents.borrow().find(range.clone());
            let first = pieces.into_iter().find(|piece| piece.place.is_some());
            first.map(|piece| piece.range.start / self.grid.stripe_bytes())
        };
        self.reads.borrow_mut().note(from_log);
        self.see(|seen| {
            seen.reads += 1;
            seen.log_reads += u64::from(from_log.is_some());
        });
        self.newest(range).await
    }

    /// What is in the log from there, the rest from the array. What the log has is pinned in the
    /// moment it is found.
    pub async fn newest(&self, range: Range<u64>) -> Result<Buf, StoreError> {
        let pieces = self.extents.borrow().find(range.clone());
        let pinned = pieces.into_iter().map(|piece| {
            let pin = piece.place.map(|place| (place.at, self.log.pin(place)));
            (piece.range, pin)
        });
        let pinned: Vec<_> = pinned.collect();
        let reads = pinned.iter().map(async |(piece, pin)| {
            let len = piece.end - piece.start;
            match pin {
                Some((at, _)) => self.log.read(*at, len).await,
                None => Ok(self.array.read(piece.start, len).await?),
            }
        });
        let mut read = try_join_all(reads).await?;
        if let [_] = &read[..] {
            return Ok(read.remove(0));
        }
        let mut whole = BufMut::with_len((range.end - range.start) as usize);
        for ((piece, _), bytes) in pinned.iter().zip(read) {
            let at = (piece.start - range.start) as usize;
            whole[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(whole.freeze())
    }

    pub async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        let range = offset..offset + data.len() as u64;
        let mode = self.mode();
        let parts = route(self.grid.stripe_bytes(), range, mode);
        let writes = parts.into_iter().map(|part| {
            let from = (part.range.start - offset) as usize;
            let bytes = data.slice(from..from + (part.range.end - part.range.start) as usize);
            self.write_part(part, bytes, mode, fua)
        });
        // All are done, also after an error: a lock that is given back early guards nothing.
        join_all(writes).await.into_iter().collect()
    }

    async fn write_part(
        &self,
        Part { range, to }: Part,
        data: Buf,
        mode: Mode,
        fua: bool,
    ) -> Result<(), StoreError> {
        if to == To::Log {
            if self.append(range.clone(), &data, fua).await? {
                self.see(|seen| {
                    seen.log_writes += 1;
                    seen.log_bytes += data.len() as u64;
                    seen.surrogate_writes += u64::from(mode == Mode::Surrogate);
                });
                return Ok(());
            }
            self.see(|seen| seen.direct_full += 1);
        }
        self.see(|seen| {
            seen.direct_writes += 1;
            seen.direct_degraded += u64::from(mode == Mode::Direct);
        });
        self.write_direct(range, data, fua).await
    }

    /// False: the log is full.
    async fn append(&self, range: Range<u64>, data: &Buf, fua: bool) -> Result<bool, StoreError> {
        let wide = pages(&range);
        let _lock = self.locks.lock(wide.clone(), Hold::Append).await;
        let data = self.widen(&range, data.clone(), &wide).await?;
        let len = wide.end - wide.start;
        let entry = Entry { kind: DATA, address: wide.start, len, data };
        let space = Space::Leave(self.kept_free());
        let append = told(&self.env, Wait::Journal, self.log.append(entry, fua, space));
        let Some(appended) = append.await? else {
            return Ok(false);
        };
        self.extents.borrow_mut().put(wide, appended.place);
        Ok(true)
    }

    /// The bytes of a wider range around new ones. The range is locked.
    async fn widen(
        &self,
        range: &Range<u64>,
        data: Buf,
        wide: &Range<u64>,
    ) -> Result<Buf, StoreError> {
        if wide == range {
            return Ok(data);
        }
        let mut whole = BufMut::with_len((wide.end - wide.start) as usize);
        let edges = match wide.end - wide.start <= TOGETHER_MAX {
            true => vec![wide.clone()],
            false => vec![wide.start..range.start, range.end..wide.end],
        };
        for edge in edges {
            if !edge.is_empty() {
                let bytes = self.newest(edge.clone()).await?;
                let at = (edge.start - wide.start) as usize;
                whole[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        let at = (range.start - wide.start) as usize;
        whole[at..at + data.len()].copy_from_slice(&data);
        Ok(whole.freeze())
    }

    /// Writes in place. Whatever the log has of these pages is void afterwards.
    async fn write_direct(
        &self,
        range: Range<u64>,
        data: Buf,
        fua: bool,
    ) -> Result<(), StoreError> {
        let room = self.room_for_void().await?;
        let all = pages(&range);
        let _lock = self.locks.lock(all.clone(), Hold::InPlace).await;
        // A page at an edge that the log has moves as a whole, as it is in the log as a whole.
        let wide = {
            let extents = self.extents.borrow();
            let start =
                if extents.touches(&(all.start..range.start)) { all.start } else { range.start };
            let end = if extents.touches(&(range.end..all.end)) { all.end } else { range.end };
            start..end
        };
        let logged = self.extents.borrow().touches(&wide);
        if wide != range {
            // With a crash and a lost drive the log has to tell what was not being written.
            let pieces = self.extents.borrow().find(wide.clone());
            self.keep(&pieces).await?;
        }
        let data = self.widen(&range, data, &wide).await?;
        self.array.write(wide.start, data, fua || logged).await?;
        if logged {
            self.void(wide, room).await?;
        }
        Ok(())
    }

    /// Nobody needs what is in whole stripes of the range.
    pub async fn discard(&self, range: Range<u64>) -> Result<(), StoreError> {
        let stripe = self.grid.stripe_bytes();
        let range = range.start.next_multiple_of(stripe)..range.end / stripe * stripe;
        if range.is_empty() {
            return Ok(());
        }
        let room = self.room_for_void().await?;
        let _lock = self.locks.lock(range.clone(), Hold::InPlace).await;
        self.array.discard(range.start, range.end - range.start).await?;
        let logged = self.extents.borrow().touches(&range);
        if logged { self.void(range, room).await } else { Ok(()) }
    }

    /// The range is newer in the array, durably, or nobody needs it; it is locked.
    async fn void(&self, range: Range<u64>, room: Reservation) -> Result<(), StoreError> {
        let len = range.end - range.start;
        let entry = Entry { kind: VOID, address: range.start, len, data: Buf::zeroed(0) };
        let done = self.log.append(entry, true, Space::Reserved(room)).await?;
        assert!(done.is_some(), "its room was reserved");
        self.extents.borrow_mut().remove(range);
        self.see(|seen| seen.voids += 1);
        Ok(())
    }

    /// Taken before any lock: who waits for room must not hold what emptying the log waits for.
    async fn room_for_void(&self) -> Result<Reservation, StoreError> {
        loop {
            if let Some(room) = self.log.reserve() {
                return Ok(room);
            }
            self.see(|seen| seen.waits += 1);
            self.reclaim().await?;
        }
    }
}
