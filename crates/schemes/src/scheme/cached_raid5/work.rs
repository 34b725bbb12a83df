//! Carries out reads, writes and destaging. Whoever writes or destages has the stripe alone.
//!
//! A line is destaged only after the map that says it is cached is durable: writing RAID5 in place
//! may harm, if a drive is lost with the power, what the line held there, and that must not be what
//! a crash would come back to.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use classical::{Array, ArrayError, Grid};
use futures_util::future::join;
use io::{Buf, BufMut, Env, join_all};

use super::lines::{Given, Lines, State};
use crate::key_locks::Locks;
use crate::page_map::{PageMap, region_bytes};
use crate::part::PartEnv;
use crate::store::StoreError;

/// Bytes of a line, the paper's.
pub const LINE: u64 = 4096;
/// Stripes destaged in one piece of work, at the same time.
const DESTAGE_AT_ONCE: usize = 4;
/// Slots that wait for a durable map, 4 MiB; then it is written even if nobody flushes.
const LIMBO_MAX: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Of the cache; the first begins at this byte.
    pub slots: u32,
    first_slot: u64,
    /// Lines of RAID5, and of one of its stripes.
    pub home: u32,
    pub stripe_lines: u32,
    pub chunk: u64,
}

impl Shape {
    pub fn of(cache: u64, grid: Grid) -> Option<Shape> {
        // The map has room for a few slots more than there are, and for the tuning.
        let first_slot = region_bytes(cache / LINE + 1);
        let slots = cache.checked_sub(first_slot)? / LINE;
        // A line plus one is an entry.
        let home = u32::try_from(grid.size() / LINE).ok().filter(|home| *home < u32::MAX)?;
        let stripe_lines = (grid.stripe_bytes() / LINE) as u32;
        let slots = u32::try_from(slots).ok().filter(|slots| *slots > 0)?;
        Some(Shape { slots, first_slot, home, stripe_lines, chunk: grid.chunk })
    }

    /// Those of the slots, and the percentage of the cache that is used before it is destaged.
    pub fn entries(&self) -> usize {
        self.slots as usize + 1
    }

    fn stripe(&self) -> u64 {
        u64::from(self.stripe_lines) * LINE
    }

    fn slot(&self, slot: u32) -> u64 {
        self.first_slot + u64::from(slot) * LINE
    }

    /// Parts of a request by stripes: where, which byte of the request, how long.
    pub fn split(&self, offset: u64, len: u64) -> Vec<(u64, u64, u64)> {
        let (mut parts, mut at) = (Vec::new(), 0);
        while at < len {
            let own = (self.stripe() - (offset + at) % self.stripe()).min(len - at);
            parts.push((offset + at, at, own));
            at += own;
        }
        parts
    }
}

/// Lines that a range touches.
fn touched(offset: u64, len: u64) -> Range<u32> {
    (offset / LINE) as u32..(offset + len).div_ceil(LINE) as u32
}

/// What of a range lies in a line: its first and its last byte of the range, and the byte of the
/// line where it begins.
fn piece(line: u32, offset: u64, len: u64) -> (Range<usize>, u64) {
    let first = u64::from(line) * LINE;
    let (from, to) = (offset.max(first), (offset + len).min(first + LINE));
    ((from - offset) as usize..(to - offset) as usize, from - first)
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub cached: u64,
    pub hits: u64,
    pub crowded: u64,
    pub large: u64,
    pub destaged: u64,
    pub overwritten: u64,
    pub read: u64,
}

pub struct Inner<E: Env> {
    pub cache: Array<PartEnv<E>>,
    pub parity: Array<PartEnv<E>>,
    pub shape: Shape,
    /// Slots in use from which on lines are destaged.
    full: u32,
    pub lines: RefCell<Lines>,
    pub map: PageMap<PartEnv<E>>,
    stripes: Locks,
    pub counts: Cell<Counts>,
}

/// Puts bytes that lie side by side together.
fn join_runs(pieces: Vec<(u64, Buf)>) -> Vec<(u64, Buf)> {
    let mut runs: Vec<(u64, Vec<Buf>)> = Vec::new();
    for (at, bytes) in pieces {
        let end = |(from, run): &(u64, Vec<Buf>)| {
            from + run.iter().map(|bytes| bytes.len() as u64).sum::<u64>()
        };
        match runs.last_mut().filter(|run| end(run) == at) {
            Some((_, run)) => run.push(bytes),
            None => runs.push((at, vec![bytes])),
        }
    }
    let joined = |run: Vec<Buf>| match &run[..] {
        [one] => one.clone(),
        more => {
            let mut whole = BufMut::with_len(more.iter().map(|bytes| bytes.len()).sum());
            let mut at = 0;
            for bytes in more {
                whole[at..at + bytes.len()].copy_from_slice(bytes);
                at += bytes.len();
            }
            whole.freeze()
        }
    };
    runs.into_iter().map(|(at, run)| (at, joined(run))).collect()
}

async fn write_runs<E: Env>(
    array: &Array<E>,
    pieces: Vec<(u64, Buf)>,
    fua: bool,
) -> Result<(), StoreError> {
    let runs = join_runs(pieces);
    let writes = runs.into_iter().map(|(at, bytes)| array.write(at, bytes, fua));
    join_all(writes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(())
}

impl<E: Env> Inner<E> {
    pub fn new(
        (cache, parity): (Array<PartEnv<E>>, Array<PartEnv<E>>),
        shape: Shape,
        percent: u32,
        lines: Lines,
        map: PageMap<PartEnv<E>>,
    ) -> Inner<E> {
        let full = (u64::from(shape.slots) * u64::from(percent) / 100).max(1) as u32;
        let lines = RefCell::new(lines);
        let (stripes, counts) = Default::default();
        Inner { cache, parity, shape, full, lines, map, stripes, counts }
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    pub async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        let lines = touched(offset, len);
        let slots: Vec<Option<u32>> = {
            let mut table = self.lines.borrow_mut();
            lines.clone().map(|line| table.begin_read(line)).collect()
        };
        // Bytes that lie side by side in one of the two arrays are read at once.
        let mut runs: Vec<(bool, u64, Range<usize>)> = Vec::new();
        for (line, slot) in lines.zip(&slots) {
            let (own, start) = piece(line, offset, len);
            let at = slot.map_or(u64::from(line) * LINE, |slot| self.shape.slot(slot)) + start;
            let cached = slot.is_some();
            match runs.last_mut() {
                Some((same, from, run)) if *same == cached && *from + run.len() as u64 == at => {
                    run.end = own.end;
                }
                _ => runs.push((cached, at, own)),
            }
        }
        let reads = runs.iter().map(|(cached, at, run)| {
            let array = if *cached { &self.cache } else { &self.parity };
            array.read(*at, run.len() as u64)
        });
        let read = join_all(reads).await;
        let cached = slots.iter().flatten().count() as u64;
        self.count(|counts| counts.read += cached);
        slots.into_iter().flatten().for_each(|slot| {
            self.lines.borrow_mut().places.end_read(slot);
        });
        let mut whole = BufMut::with_len(len as usize);
        for ((_, _, run), bytes) in runs.into_iter().zip(read) {
            whole[run].copy_from_slice(&bytes?);
        }
        Ok(whole.freeze())
    }

    /// What of a range of the cache holds nothing.
    pub fn free_slots(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.lines.borrow().places.free_within(range, (self.shape.first_slot, LINE))
    }

    /// What of a range of RAID5 is in the cache, so that nobody reads it: not after a crash either,
    /// as the drives know.
    pub fn cached(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let lines = self.lines.borrow();
        let cached = touched(range.start, range.end - range.start);
        let is_known = |slot| self.is_slot_known(slot);
        let cached = cached.filter(|line| lines.slot(*line).is_some_and(is_known));
        cached.map(|line| u64::from(line) * LINE..u64::from(line + 1) * LINE).collect()
    }

    /// Slots for all lines of a range, or for none.
    fn give(&self, wanted: Range<u32>) -> Option<Vec<(u32, Given)>> {
        let mut lines = self.lines.borrow_mut();
        let mut given = Vec::with_capacity(wanted.len());
        for line in wanted {
            match lines.give(line) {
                Some(one) => given.push((line, one)),
                None => {
                    given.into_iter().for_each(|(line, one)| lines.take_back(line, one));
                    return None;
                }
            }
        }
        Some(given)
    }

    /// Within one chunk: to the cache, if there is room.
    pub async fn write_small(&self, offset: u64, data: &Buf, fua: bool) -> Result<(), StoreError> {
        let len = data.len() as u64;
        let _held = self.stripes.lock(offset / self.shape.stripe()).await;
        let Some(given) = self.give(touched(offset, len)) else {
            self.count(|counts| counts.crowded += 1);
            return self.write_home(offset, data, fua).await;
        };
        let done = self.write_lines(&given, offset, data, fua).await;
        let mut lines = self.lines.borrow_mut();
        if done.is_err() {
            given.into_iter().for_each(|(line, one)| lines.take_back(line, one));
            return done;
        }
        let hit = given.iter().all(|(_, one)| one.state == State::Cached);
        for (line, one) in given {
            if lines.put(line, one) {
                self.map.touch(one.slot as usize);
            }
        }
        self.count(|counts| {
            counts.cached += 1;
            counts.hits += u64::from(hit);
        });
        Ok(())
    }

    /// Lines that were not in their slot are written as a whole, with the rest as it is at home.
    async fn write_lines(
        &self,
        given: &[(u32, Given)],
        offset: u64,
        data: &Buf,
        fua: bool,
    ) -> Result<(), StoreError> {
        let pieces = given.iter().map(async |&(line, Given { slot, state })| {
            let (own, start) = piece(line, offset, data.len() as u64);
            let bytes = data.slice(own.clone());
            if state == State::Cached || own.len() as u64 == LINE {
                return Ok((self.shape.slot(slot) + start, bytes));
            }
            let home = self.parity.read(u64::from(line) * LINE, LINE).await?;
            let mut whole = BufMut::from_slice(&home);
            whole[start as usize..start as usize + own.len()].copy_from_slice(&bytes);
            Ok((self.shape.slot(slot), whole.freeze()))
        });
        let pieces: Result<Vec<_>, StoreError> = join_all(pieces).await.into_iter().collect();
        write_runs(&self.cache, pieces?, fua).await
    }

    /// More than a chunk, of one stripe: to RAID5.
    pub async fn write_large(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        let _held = self.stripes.lock(offset / self.shape.stripe()).await;
        self.count(|counts| counts.large += 1);
        self.write_home(offset, &data, fua).await
    }

    /// In place. Lines in the cache that are covered leave it; others there are written there, too,
    /// because there they are read.
    async fn write_home(&self, offset: u64, data: &Buf, fua: bool) -> Result<(), StoreError> {
        let len = data.len() as u64;
        let cached: Vec<(u32, u32)> = {
            let lines = self.lines.borrow();
            touched(offset, len).filter_map(|line| Some((line, lines.slot(line)?))).collect()
        };
        let is_covered = |line: u32| piece(line, offset, len).0.len() as u64 == LINE;
        let edges: Vec<(u32, u32)> =
            cached.iter().filter(|(line, _)| !is_covered(*line)).copied().collect();
        let pieces = edges.iter().map(|(line, slot)| {
            let (own, start) = piece(*line, offset, len);
            (self.shape.slot(*slot) + start, data.slice(own))
        });
        let in_cache = write_runs(&self.cache, pieces.collect(), fua);
        let (home, in_cache) = join(self.parity.write(offset, data.clone(), fua), in_cache).await;
        in_cache?;
        match home {
            Err(ArrayError::PageLost { .. }) if !edges.is_empty() => {
                self.write_whole(&edges, offset, data, fua).await?;
            }
            home => home?,
        }
        let covered = cached.iter().filter(|(line, _)| is_covered(*line));
        let count = self.send_home(covered.map(|(line, _)| *line));
        self.count(|counts| counts.overwritten += count);
        Ok(())
    }

    /// The same, with all of the lines at its edges that are in the cache: what RAID5 had there is
    /// lost.
    async fn write_whole(
        &self,
        edges: &[(u32, u32)],
        offset: u64,
        data: &Buf,
        fua: bool,
    ) -> Result<(), StoreError> {
        let read = edges.iter().map(|(_, slot)| self.cache.read(self.shape.slot(*slot), LINE));
        let read = join_all(read).await.into_iter().collect::<Result<Vec<Buf>, _>>()?;
        let mut pieces = vec![(offset, data.clone())];
        for ((line, _), whole) in edges.iter().zip(read) {
            let (own, start) = piece(*line, offset, data.len() as u64);
            let (first, end) = (start as usize, start as usize + own.len());
            let at = u64::from(*line) * LINE;
            pieces.push((at, whole.slice(0..first)));
            pieces.push((at + end as u64, whole.slice(end..LINE as usize)));
        }
        pieces.retain(|(_, bytes)| !bytes.is_empty());
        pieces.sort_by_key(|(at, _)| *at);
        write_runs(&self.parity, pieces, fua).await
    }

    /// Nobody needs these bytes of one stripe. Lines that they cover leave the cache.
    pub async fn discard(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        let _held = self.stripes.lock(offset / self.shape.stripe()).await;
        self.parity.discard(offset, len).await?;
        let covered = |line: &u32| piece(*line, offset, len).0.len() as u64 == LINE;
        let count = self.send_home(touched(offset, len).filter(covered));
        self.count(|counts| counts.overwritten += count);
        Ok(())
    }

    fn send_home(&self, gone: impl Iterator<Item = u32>) -> u64 {
        let mut lines = self.lines.borrow_mut();
        let slots = gone.filter_map(|line| lines.send_home(line));
        slots.map(|slot| self.map.touch(slot as usize)).count() as u64
    }

    /// Whether the drives know which line is in a slot.
    fn is_slot_known(&self, slot: u32) -> bool {
        self.map.is_durable(slot as usize)
    }

    /// Whether the drives know where each line of a range is.
    pub fn is_known(&self, offset: u64, len: u64) -> bool {
        let (lines, range) = (self.lines.borrow(), touched(offset, len));
        let known = |slot| self.is_slot_known(slot);
        !lines.left_slots(range.clone())
            && range.into_iter().all(|line| lines.slot(line).is_none_or(known))
    }

    /// Everything answered before, and where it lies, is durable when this returns.
    pub async fn commit(&self) -> Result<(), StoreError> {
        let left = || self.lines.borrow().places.left();
        let take = |some: &[u32]| self.map.take(some, self.lines.borrow().entries());
        let done = self.map.commit(left, take, async || self.flush_tiers().await).await?;
        if let Some(left) = done {
            self.lines.borrow_mut().settle(left);
        }
        Ok(())
    }

    pub async fn flush_tiers(&self) -> Result<(), StoreError> {
        let (cache, parity) = join(self.cache.flush(), self.parity.flush()).await;
        cache?;
        Ok(parity?)
    }

    /// One piece of it. False: the cache has room.
    pub async fn destage(&self) -> Result<bool, StoreError> {
        let (oldest, limbo, wants_map) = {
            let lines = self.lines.borrow();
            let is_full = lines.places.used() >= self.full;
            let oldest = if is_full { lines.oldest(DESTAGE_AT_ONCE) } else { Vec::new() };
            let new = |stripe: &u32| {
                let own = lines.of_stripe(*stripe);
                own.iter().any(|(_, slot)| !self.is_slot_known(*slot))
            };
            let wants_map = oldest.iter().any(new);
            let limbo = lines.places.in_limbo();
            let short = limbo > 0 && !lines.places.has_room();
            (oldest, short || limbo >= LIMBO_MAX, wants_map)
        };
        if limbo || wants_map {
            self.commit().await?;
        }
        let stripes = oldest.iter().map(|stripe| self.destage_stripe(*stripe));
        join_all(stripes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(limbo || !oldest.is_empty())
    }

    async fn destage_stripe(&self, stripe: u32) -> Result<(), StoreError> {
        let _held = self.stripes.lock(stripe.into()).await;
        let mut own = self.lines.borrow().of_stripe(stripe);
        own.retain(|(_, slot)| self.is_slot_known(*slot));
        let read = own.iter().map(|(_, slot)| self.cache.read(self.shape.slot(*slot), LINE));
        let read: Result<Vec<Buf>, _> = join_all(read).await.into_iter().collect();
        let homes = own.iter().map(|(line, _)| u64::from(*line) * LINE);
        write_runs(&self.parity, homes.zip(read?).collect(), false).await?;
        let count = self.send_home(own.iter().map(|(line, _)| *line));
        self.count(|counts| counts.destaged += count);
        Ok(())
    }

    pub async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let (mut wrong, slots, entries) = {
            let lines = self.lines.borrow();
            let slots: Vec<u32> =
                touched(offset, len).filter_map(|line| lines.slot(line)).collect();
            (lines.audit(), slots, lines.entries().to_vec())
        };
        match self.map.differing(&entries).await {
            Ok(differing) => {
                wrong.extend(differing.iter().map(|at| format!("entry {at} is not on the drives")));
            }
            Err(error) => wrong.push(error.to_string()),
        }
        let home = self.parity.disagreeing(offset, len).await;
        wrong.extend(home.iter().map(|stripe| format!("stripe {stripe}: its drives disagree")));
        let mut cached = self.cache.disagreeing(0, self.shape.first_slot).await;
        for slot in slots {
            cached.extend(self.cache.disagreeing(self.shape.slot(slot), LINE).await);
        }
        wrong.extend(cached.iter().map(|chunk| format!("cache: drives disagree at {chunk}")));
        wrong
    }
}
