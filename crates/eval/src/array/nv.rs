//! `nv-raid`: a write buffer that outlives power cuts, above an array (FusionRAID §5.3, Comparison
//! with NV-RAID). Modelled: no memory here outlives anything.
//!
//! ```text
//!  write ── room? ── copied, 100 ns a cache line ── answered
//!             │          │
//!             waits      lines, by stripe, the longest dirty first
//!             ▲          │  when the buffer is half full, several stripes at once
//!             └── room ──┴── store.write of each run of bytes ──> raid50
//!  read  ── lines over what the array has
//! ```
//! What is written again before its stripe's turn is written to the array once, and neighbours
//! together. Room comes back when the array has answered.

mod bytes;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use io::sync::{Event, Turn};
use io::virt::VirtEnv;
use io::{Buf, BufMut, Env, Nanos, join_all};

use super::served::Served;
use super::{Answer, Array};
use bytes::Bytes;

/// A 512th of the drives. The paper's pool had 30 drives, of 240 GB if they were the smallest of
/// their kind, and buffers of 1 to 256 GB; this is as 14 GB there: more than the 8 GB that did not
/// suffice, less than the 64 GB at which it nearly caught up with FusionRAID.
pub const DRIVES_PART: u64 = 512;
/// Less has no room for a few of the largest requests.
pub const BYTES_MIN: u64 = 16 << 20;
/// FusionRAID §5.3: the delay of the flush of a cache line, and its bytes.
const LINE_NANOS: u64 = 100;
const LINE_BYTES: u64 = 64;
/// It is emptied when more than one part in so many is used: late, so that neighbours come
/// together, and early enough to take a burst meanwhile.
const FULL_PART: u64 = 2;
/// Stripes on their way to the array at a time: enough to keep 28 drives busy.
const AT_ONCE: usize = 32;

#[derive(Default)]
struct Stripe {
    dirty: Bytes,
    /// On its way to the array; what is dirty is newer.
    flushing: Option<Bytes>,
}

struct Inner {
    env: VirtEnv,
    array: Served,
    stripe_bytes: u64,
    capacity: u64,
    used: Cell<u64>,
    stripes: RefCell<BTreeMap<u64, Stripe>>,
    /// Stripes with something dirty and nothing on its way, the longest dirty first.
    queue: RefCell<VecDeque<u64>>,
    /// Who waits for room does so in order.
    room_turn: Turn,
    freed: Event,
    filled: Event,
    seen: Cell<Seen>,
}

/// What it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub written_bytes: u64,
    /// Overwritten before they were on their way to the array.
    pub merged_bytes: u64,
    pub flushed_bytes: u64,
    pub flushed_runs: u64,
    pub flushed_stripes: u64,
    /// Reads that the buffer answered alone.
    pub read_hits: u64,
    /// Writes that waited for room.
    pub waits: u64,
}

/// A handle: clones name the same.
#[derive(Clone)]
pub struct NvRaid {
    inner: Rc<Inner>,
}

impl NvRaid {
    pub fn over(env: &VirtEnv, array: Served, capacity: u64) -> NvRaid {
        let inner = Inner {
            env: env.clone(),
            stripe_bytes: array.unit(),
            array,
            capacity: capacity.max(BYTES_MIN),
            used: Cell::new(0),
            stripes: RefCell::default(),
            queue: RefCell::default(),
            room_turn: Turn::new(),
            freed: Event::new(),
            filled: Event::new(),
            seen: Cell::default(),
        };
        let nv = NvRaid { inner: Rc::new(inner) };
        for _ in 0..AT_ONCE {
            let inner = nv.inner.clone();
            env.spawn(async move { inner.empty().await });
        }
        nv
    }

    pub fn seen(&self) -> Seen {
        self.inner.seen.get()
    }
}

impl Inner {
    fn see(&self, note: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen.get();
        note(&mut seen);
        self.seen.set(seen);
    }

    fn is_full(&self) -> bool {
        self.used.get() > self.capacity / FULL_PART
    }

    async fn reserve(&self, len: u64) {
        assert!(len <= self.capacity / FULL_PART, "a request fits the buffer with room to spare");
        let _turn = self.room_turn.lock().await;
        if self.used.get() + len > self.capacity {
            self.see(|seen| seen.waits += 1);
        }
        while self.used.get() + len > self.capacity {
            self.freed.wait().await;
        }
        self.used.set(self.used.get() + len);
    }

    fn release(&self, len: u64) {
        self.used.set(self.used.get() - len);
        self.freed.notify_all();
    }

    async fn write(&self, offset: u64, data: Buf) {
        let len = data.len() as u64;
        self.reserve(len).await;
        let copied = Nanos(len.div_ceil(LINE_BYTES) * LINE_NANOS);
        self.env.sleep_until(self.env.now() + copied).await;
        self.see(|seen| seen.written_bytes += len);
        let mut at = offset;
        while at < offset + len {
            let end = ((at / self.stripe_bytes + 1) * self.stripe_bytes).min(offset + len);
            let part = data.slice((at - offset) as usize..(end - offset) as usize);
            self.put(at, part);
            at = end;
        }
        if self.is_full() {
            self.filled.notify_one();
        }
    }

    /// Bytes of one stripe, for which there is room.
    fn put(&self, at: u64, part: Buf) {
        let (number, len) = (at / self.stripe_bytes, part.len() as u64);
        let mut stripes = self.stripes.borrow_mut();
        let stripe = stripes.entry(number).or_default();
        let before = stripe.dirty.len();
        stripe.dirty.put(at, part);
        let merged = before + len - stripe.dirty.len();
        if before == 0 && stripe.flushing.is_none() {
            self.queue.borrow_mut().push_back(number);
        }
        drop(stripes);
        self.see(|seen| seen.merged_bytes += merged);
        self.release(merged);
    }

    /// Takes stripes to the array for ever.
    async fn empty(&self) {
        loop {
            let next = if self.is_full() { self.queue.borrow_mut().pop_front() } else { None };
            match next {
                Some(number) => {
                    // Another one takes the next.
                    self.filled.notify_one();
                    self.flush(number).await;
                }
                None => self.filled.wait().await,
            }
        }
    }

    async fn flush(&self, number: u64) {
        let runs = {
            let mut stripes = self.stripes.borrow_mut();
            let stripe = stripes.get_mut(&number).expect("it is in the queue");
            let taken = std::mem::take(&mut stripe.dirty);
            let runs = taken.runs();
            stripe.flushing = Some(taken);
            runs
        };
        let writes = runs.iter().map(|(at, data)| self.array.write(*at, data.clone()));
        for done in join_all(writes).await {
            done.expect("nothing is wrong with the array");
        }
        let flushed = {
            let mut stripes = self.stripes.borrow_mut();
            let stripe = stripes.get_mut(&number).expect("something of it was on its way");
            let flushed = stripe.flushing.take().map_or(0, |bytes| bytes.len());
            if stripe.dirty.len() == 0 {
                stripes.remove(&number);
            } else {
                self.queue.borrow_mut().push_back(number);
            }
            flushed
        };
        self.see(|seen| {
            seen.flushed_bytes += flushed;
            seen.flushed_runs += runs.len() as u64;
            seen.flushed_stripes += 1;
        });
        self.release(flushed);
    }

    /// What the buffer has of a range, the newest.
    fn held(&self, offset: u64, len: u64) -> Bytes {
        let (stripes, mut held) = (self.stripes.borrow(), Bytes::default());
        let last = (offset + len - 1) / self.stripe_bytes;
        for (_, stripe) in stripes.range(offset / self.stripe_bytes..=last) {
            for layer in stripe.flushing.iter().chain([&stripe.dirty]) {
                for (at, part) in layer.within(offset..offset + len) {
                    held.put(at, part);
                }
            }
        }
        held
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Vec<Buf>, String> {
        // As it is now: what is taken to the array meanwhile is as new.
        let held = self.held(offset, len);
        if held.len() == len {
            self.see(|seen| seen.read_hits += 1);
            return Ok(held.runs().into_iter().map(|(_, part)| part).collect());
        }
        let below = self.array.read(offset, len).await?;
        if held.len() == 0 {
            return Ok(below);
        }
        let mut whole = BufMut::with_len(len as usize);
        let mut at = 0;
        for piece in below {
            whole[at..at + piece.len()].copy_from_slice(&piece);
            at += piece.len();
        }
        for (at, part) in held.within(offset..offset + len) {
            let at = (at - offset) as usize;
            whole[at..at + part.len()].copy_from_slice(&part);
        }
        Ok(vec![whole.freeze()])
    }
}

impl Array for NvRaid {
    fn size(&self) -> u64 {
        self.inner.array.size()
    }

    fn read(&self, offset: u64, len: u64) -> Answer<'_, Vec<Buf>> {
        Box::pin(self.inner.read(offset, len))
    }

    fn write(&self, offset: u64, data: Buf) -> Answer<'_> {
        Box::pin(async move {
            self.inner.write(offset, data).await;
            Ok(())
        })
    }

    /// Its buffer outlives power cuts.
    fn flush(&self) -> Answer<'_> {
        Box::pin(async { Ok(()) })
    }
}
