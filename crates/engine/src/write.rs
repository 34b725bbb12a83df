//! Writes: split, placed, journaled and sent in one round (FusionRAID §4.2).
//!
//! ```text
//!  lock ─ take place ─ append record ─┬─ p+1 copies (or k+p blocks) to the drives ─┬─ map ─ answer
//!                                     └─ FUA only: commit the journal block ───────┘
//! ```

use std::rc::Rc;

use format::{Flbn, Place, Record, SectorRange, StripeId, VolumeId};
use futures_util::future::join;
use io::slice;
use io::wait::{Wait, told};
use io::{Buf, BufMut, Drive, Durability, Env, Nanos, PAGE, join_all};
use policy::hedge::Cost;
use policy::scheme::fusion::{Part, Shape, split_write};
use smallvec::{SmallVec, smallvec};

use crate::api::RequestError;
use crate::array::Array;
use crate::attempt::{Attempt, Avoid, Sent, Slot, Slots, Taken};
use crate::geometry::{BlockAddress, Class};
use crate::hedge::Way;
use crate::limits::PARITY_STEP_BYTES;
use crate::map::{Deltas, Pieces};
use crate::monitor::Hedged;
use crate::planted::{self, Bug};
use crate::shard::{Claim, Shard, VolumeRecord};
use crate::sums::PageSums;

const SECTOR: u64 = 512;

/// What is to be stored in one slot, or as one block of a stripe.
struct Piece {
    volume: VolumeId,
    block: u64,
    range: SectorRange,
    /// Whole pages.
    data: Buf,
    crc: u32,
    sums: PageSums,
}

/// One part of a request on its way.
struct Target<'a> {
    volume: &'a VolumeRecord,
    class: Rc<Class>,
    block: u64,
    range: SectorRange,
}

impl<E: Env> Shard<E> {
    /// Writes `data` at byte `offset`. Done when every copy is on its drive, and with `fua`
    /// when it is durable.
    pub async fn write(
        &self,
        volume: &VolumeRecord,
        offset: u64,
        data: Buf,
        fua: bool,
    ) -> Result<(), RequestError> {
        self.check_usable()?;
        check_request(volume, offset, data.len() as u64)?;
        self.count(|counters| {
            counters.writes += 1;
            counters.write_bytes += data.len() as u64;
        });
        let class = self.class(volume.class);
        let shape = Shape {
            width: class.width() as u16,
            data: class.data() as u16,
            block_sectors: self.geometry.block_sectors(),
        };
        self.told(Wait::Space, self.throttle(&class)).await;
        let first = offset / SECTOR;
        let parts = split_write(shape, first, data.len() as u64 / SECTOR);
        if let [part] = parts[..] {
            self.write_part(volume, &class, part, first, &data, fua).await?;
        } else {
            let write = |&part| self.write_part(volume, &class, part, first, &data, fua);
            join_all(parts.iter().map(write)).await.into_iter().collect::<Result<(), _>>()?;
        }
        // A drive that missed some of this must not come back as if it had not.
        if fua { self.record_failures().await } else { Ok(()) }
    }

    async fn write_part(
        &self,
        volume: &VolumeRecord,
        class: &Rc<Class>,
        part: Part,
        first_sector: u64,
        data: &Buf,
        fua: bool,
    ) -> Result<(), RequestError> {
        let block_sectors = self.geometry.block_sectors();
        let bytes = |block: u64, start: u16, sectors: u64| {
            let from =
                (block * u64::from(block_sectors) + u64::from(start) - first_sector) * SECTOR;
            data.slice(from as usize..(from + sectors * SECTOR) as usize)
        };
        match part {
            Part::Stripe { first, count } => {
                let all = bytes(first, 0, u64::from(count) * u64::from(block_sectors));
                self.write_stripe(volume, class, first, count, all, fua).await
            }
            Part::Block { block } => {
                let range = SectorRange { start: 0, len: block_sectors };
                let target = Target { volume, class: class.clone(), block, range };
                self.write_replicated(target, bytes(block, 0, u64::from(block_sectors)), fua).await
            }
            Part::Patch { block, start, len } => {
                let target = Target {
                    volume,
                    class: class.clone(),
                    block,
                    range: SectorRange { start, len },
                };
                self.write_replicated(target, bytes(block, start, u64::from(len)), fua).await
            }
        }
    }

    // ---- replicated

    async fn write_replicated(
        &self,
        target: Target<'_>,
        data: Buf,
        fua: bool,
    ) -> Result<(), RequestError> {
        let Target { volume, class, block, range } = &target;
        let data = whole_pages(data, range.start);
        let (crc, sums) = self.state.borrow().sums.measure(&data);
        let piece = [Piece { volume: volume.id, block: *block, range: *range, data, crc, sums }];
        self.told(Wait::Journal, self.journal.reserve()).await;
        let lock = self.locks.lock(volume.id, *block, *range);
        let _lock = self.told(Wait::Lock, lock).await;
        let _admission = self.admit(volume.id, class, *block, *range)?;
        let take = |avoid: &Avoid| {
            let slot = self.take_slot_for(class, &piece[0], avoid)?;
            Some(Taken::Slots(smallvec![slot]))
        };
        let send = |taken: Taken| {
            let Taken::Slots(slots) = taken else { unreachable!("replicated writes take slots") };
            self.send(slots, &piece, fua)
        };
        let won = self.store(fua, take, send).await?;
        self.finish(&won.taken, class, &piece);
        // Only now: a checkpoint may forget the record once the map has what it says.
        self.settle(won);
        let whole = range.len == self.geometry.block_sectors();
        self.count(|counters| {
            counters.replicated_writes += u64::from(whole);
            counters.patch_writes += u64::from(!whole);
        });
        Ok(())
    }

    fn take_slot_for(&self, class: &Rc<Class>, piece: &Piece, avoid: &Avoid) -> Option<Slot> {
        let pages = (piece.data.len() / PAGE) as u16;
        let spot = self.take_spot(class, pages, piece.block, Claim::Foreground, avoid)?;
        let sector = spot.sector + piece.range.start % 8;
        let place = Place { flbn: spot.flbn, replicated: true, sector };
        Some(Slot { key: spot.key, place, targets: spot.targets })
    }

    /// The data has arrived: the map changes, space knows.
    fn finish(&self, taken: &Taken, class: &Class, pieces: &[Piece]) {
        let mut state = self.state.borrow_mut();
        let mut deltas = Deltas::default();
        for (at, piece) in pieces.iter().enumerate() {
            let place = match taken {
                Taken::Slots(slots) => slots[at].place,
                Taken::Stripe(stripe) => {
                    let flbn = self.geometry.flbn(class, *stripe, at);
                    Place { flbn, replicated: false, sector: 0 }
                }
            };
            state.sums.set_at(class, place.flbn, usize::from(place.sector / 8), &piece.sums);
            state.map.set(piece.volume, piece.block, piece.range, Some(place), &mut deltas);
        }
        self.apply_deltas(&mut state, &deltas);
        let (latest, generation) = (self.journal.latest(), self.reads.close());
        match taken {
            Taken::Slots(slots) => {
                for slot in slots {
                    state.space.touch(slot.key);
                    state.space.tuple_write_done(slot.key, latest, generation);
                }
            }
            Taken::Stripe(stripe) => state.space.stripe_written(*stripe, latest, generation),
        }
    }

    /// Sends each piece to the places of its slot; with `fua` the journal goes beside it.
    fn send(&self, slots: Slots, pieces: &[Piece], fua: bool) -> Attempt {
        let durability = durability(fua);
        let mut records: SmallVec<[Record; 1]> = SmallVec::new();
        for (slot, piece) in slots.iter().zip(pieces) {
            let Piece { volume, block, range, crc, .. } = *piece;
            // The sum of a single page follows from its CRC.
            if piece.sums.len() > 1 {
                records.push(sums_record(slot.place.flbn, slot.place.sector / 8, &piece.sums));
            }
            records.push(Record::Write { volume, block, range, place: slot.place, crc });
        }
        let sequence = self.journal.append_with_data(&records);
        let drives = slots.iter().flat_map(|slot| &slot.targets).map(|at| at.drive).collect();
        let copies = slots.iter().zip(pieces);
        let cost = copies.map(|(slot, piece)| Cost::of(slot.targets.len(), piece.data.len())).sum();
        let array = self.array.clone();
        let taken = Taken::Slots(slots.clone());
        let data: SmallVec<[Buf; 1]> = pieces.iter().map(|piece| piece.data.clone()).collect();
        let writes: Way<Sent> = Box::pin(async move {
            if let ([slot], [data]) = (&slots[..], &data[..]) {
                return send_copies(&array, &slot.targets, data, durability).await;
            }
            let send = |(slot, data)| send_copies(&array, slot, data, durability);
            let sent = join_all(slots.iter().map(|slot| &slot.targets[..]).zip(&data).map(send));
            sent.await.into_iter().max().expect("no write is empty")
        });
        let commit = self.commit_beside(sequence, fua);
        Attempt { number: 0, taken, drives, cost, records, sequence, writes, commit, sent: None }
    }

    fn commit_beside(&self, sequence: u64, fua: bool) -> Option<Way<bool>> {
        let (env, journal) = (self.env.clone(), self.journal.clone());
        let wanted = fua && !planted::is(Bug::AckFuaEarly);
        wanted.then(|| -> Way<bool> {
            Box::pin(async move { told(&env, Wait::Journal, journal.commit(sequence)).await })
        })
    }

    // ---- full stripes

    async fn write_stripe(
        &self,
        volume: &VolumeRecord,
        class: &Rc<Class>,
        first: u64,
        count: u16,
        data: Buf,
        fua: bool,
    ) -> Result<(), RequestError> {
        let block_size = self.geometry.block_size as usize;
        let whole = SectorRange { start: 0, len: self.geometry.block_sectors() };
        let data = whole_pages(data, 0);
        let mut blocks: Vec<Buf> = (0..usize::from(count))
            .map(|at| data.slice(at * block_size..(at + 1) * block_size))
            .collect();
        // FusionRAID §4.2: blocks the request doesn't touch are zero, nothing is read.
        blocks.resize_with(class.data(), || Buf::zeroed(block_size));
        blocks.extend(parity_of(class, &blocks, block_size));
        let (crcs, sums) = self.measure_blocks(&blocks, class.data());
        self.told(Wait::Journal, self.journal.reserve()).await;
        let mut locks = Vec::with_capacity(usize::from(count));
        for at in 0..u64::from(count) {
            let lock = self.locks.lock(volume.id, first + at, whole);
            locks.push(self.told(Wait::Lock, lock).await);
        }
        let mut admissions = Vec::with_capacity(usize::from(count));
        for at in 0..u64::from(count) {
            admissions.push(self.admit(volume.id, class, first + at, whole)?);
        }
        let owners: Vec<Option<(VolumeId, u64)>> = (0..class.data() as u64)
            .map(|at| (at < u64::from(count)).then_some((volume.id, first + at)))
            .collect();
        let piece = |at: usize| Piece {
            volume: volume.id,
            block: first + at as u64,
            range: whole,
            data: blocks[at].clone(),
            crc: crcs[at],
            sums: sums.get(at).cloned().unwrap_or_default(),
        };
        let pieces: Vec<Piece> = (0..usize::from(count)).map(piece).collect();
        let blocks: Rc<[Buf]> = blocks.into();
        let take = |avoid: &Avoid| self.take_for_stripe(class, &pieces, avoid);
        let send = |taken: Taken| match taken {
            Taken::Stripe(stripe) => {
                let record = Record::Stripe { stripe, blocks: owners.clone(), crcs: crcs.clone() };
                let mut records = self.stripe_sums(class, stripe, &sums);
                records.push(record);
                self.send_stripe(class, stripe, blocks.clone(), records, fua)
            }
            Taken::Slots(slots) => self.send(slots, &pieces, fua),
        };
        let won = self.store(fua, take, send).await?;
        if let Taken::Stripe(stripe) = won.taken {
            self.state.borrow_mut().sums.set_stripe(class, stripe, &sums);
        }
        self.finish(&won.taken, class, &pieces);
        let is_stripe = matches!(won.taken, Taken::Stripe(_));
        self.settle(won);
        self.count(|counters| {
            counters.stripe_writes += u64::from(is_stripe);
            counters.replicated_writes += if is_stripe { 0 } else { u64::from(count) };
        });
        Ok(())
    }

    /// A stripe without slow drives, or slots without them, or any stripe. Another attempt gets no
    /// stripe that is as slow as the first.
    fn take_for_stripe(&self, class: &Rc<Class>, pieces: &[Piece], avoid: &Avoid) -> Option<Taken> {
        if let Some(stripe) = self.take_stripe(class, Claim::Foreground, avoid, true) {
            return Some(Taken::Stripe(stripe));
        }
        if self.slow_drives(avoid) == 0 {
            return None;
        }
        let mut slots = Slots::new();
        for piece in pieces {
            let slot = self.take_slot_for(class, piece, avoid);
            let quick = slot.as_ref().is_some_and(|slot| {
                !slot.targets.iter().any(|at| self.is_shunned(at.drive, avoid))
            });
            slots.extend(slot);
            if !quick {
                self.give_up(&Taken::Slots(slots));
                if !avoid.is_empty() {
                    return None;
                }
                let any = self.take_stripe(class, Claim::Foreground, avoid, false);
                return any.map(Taken::Stripe);
            }
        }
        if avoid.is_empty() {
            self.pay_for_copies(class, pieces.len());
        }
        Some(Taken::Slots(slots))
    }

    /// Takes from the budget of second ways what copies of a stripe's blocks cost more than the
    /// stripe. They are never refused: on the slow drive the stripe would be late, and a second way
    /// would store copies beside it. Drives that are bypassed for longer than a spike cost nothing.
    fn pay_for_copies(&self, class: &Class, blocks: usize) {
        let monitor = &self.array.monitor;
        let lasts = |drive| monitor.watch(drive).borrow().sits_out() || monitor.is_mute(drive);
        if self.array.indexes().any(lasts) {
            return;
        }
        let cost = |operations| Cost::of(operations, self.geometry.block_size as usize);
        let more = cost(blocks * class.copies()).beyond(cost(class.width()));
        if let Some(spent) = monitor.spend(Hedged::Writes, u64::MAX, more) {
            monitor.settle(Hedged::Writes, spent, false);
        }
    }

    /// Writes all blocks of a stripe.
    fn send_stripe(
        &self,
        class: &Rc<Class>,
        stripe: StripeId,
        blocks: Rc<[Buf]>,
        records: SmallVec<[Record; 1]>,
        fua: bool,
    ) -> Attempt {
        let durability = durability(fua);
        let sequence = self.journal.append_with_data(&records);
        let gone_before = self.inactive_members(class, stripe);
        let address = |position| self.address(class, stripe, position);
        let targets: SmallVec<[BlockAddress; 8]> = (0..class.width()).map(address).collect();
        let drives = targets.iter().map(|at| at.drive).collect();
        let (array, parity) = (self.array.clone(), class.parity());
        let writes = Box::pin(async move {
            let write = |(at, block): (&BlockAddress, &Buf)| {
                array.write(at.drive, at.offset, block.clone(), durability)
            };
            let done = join_all(targets.iter().zip(blocks.iter()).map(write)).await;
            match done.iter().filter(|done| done.is_err()).count() {
                lost if lost > parity => Sent::Nothing,
                lost if lost > gone_before => Sent::Some,
                _ => Sent::All,
            }
        });
        let commit = self.commit_beside(sequence, fua);
        let taken = Taken::Stripe(stripe);
        let cost = Cost::of(class.width(), self.geometry.block_size as usize);
        Attempt { number: 0, taken, drives, cost, records, sequence, writes, commit, sent: None }
    }

    /// CRCs of the blocks of a stripe, and sums of its data.
    pub fn measure_blocks(&self, blocks: &[Buf], data: usize) -> (Vec<u32>, Vec<PageSums>) {
        let state = self.state.borrow();
        let (mut crcs, mut sums) = (Vec::with_capacity(blocks.len()), Vec::new());
        for (at, block) in blocks.iter().enumerate() {
            let (crc, pages) = match at < data {
                true => state.sums.measure(block),
                false => (io::crc::crc32c(block), PageSums::new()),
            };
            crcs.push(crc);
            sums.extend((!pages.is_empty()).then_some(pages));
        }
        (crcs, sums)
    }

    /// Records of the sums of a stripe's data; they come before the one that they are for.
    pub fn stripe_sums(
        &self,
        class: &Class,
        stripe: StripeId,
        sums: &[PageSums],
    ) -> SmallVec<[Record; 1]> {
        let record = |(at, sums): (usize, &PageSums)| {
            sums_record(self.geometry.flbn(class, stripe, at), 0, sums)
        };
        sums.iter().enumerate().map(record).collect()
    }

    pub(crate) fn inactive_members(&self, class: &Class, stripe: StripeId) -> usize {
        let drive = |position| self.address(class, stripe, position).drive;
        (0..class.width()).filter(|&position| !self.array.is_active(drive(position))).count()
    }

    // ---- admission

    /// Refuses a write that would map more data than the pool can hold as RAID stripes. What
    /// is admitted counts until it is mapped: many writes at once must not take more together
    /// than each could alone, or they would wait for space that nothing can free.
    fn admit(
        &self,
        volume: VolumeId,
        class: &Class,
        block: u64,
        range: SectorRange,
    ) -> Result<Admission<'_, E>, RequestError> {
        let mut state = self.state.borrow_mut();
        if !state.map.has_chunk(volume, block) && state.map.chunks() >= state.meta.chunks_max() {
            return Err(self.no_space());
        }
        let (live, _) = state.space.live_footprint();
        let taken = live + state.space.promised;
        // One stripe more than is promised, so that rounding up many small shares refuses nobody
        // who fills a pool to the last byte.
        let stripe = class.width() as u64 * u64::from(self.geometry.block_sectors());
        let limit = self.space_limit(&state, class) + stripe;
        let mut new = u64::from(range.len);
        // Far from the limit nothing has to be looked up.
        if taken + new * 2 >= limit / 2 {
            let mut pieces = Pieces::new();
            state.map.lookup(volume, block, range, &mut pieces);
            let holes = pieces.iter().filter(|piece| piece.place.is_none());
            new = holes.map(|piece| u64::from(piece.range.len)).sum();
        }
        let growth = (new * class.width() as u64).div_ceil(class.data() as u64);
        if growth > 0 && taken + growth > limit {
            return Err(self.no_space());
        }
        state.space.promised += growth;
        Ok(Admission { shard: self, growth })
    }

    fn no_space(&self) -> RequestError {
        self.count(|counters| counters.space_refusals += 1);
        RequestError::NoSpace
    }

    /// Slows writes in proportion to the shortage of free stripes, so that there is no cliff.
    async fn throttle(&self, class: &Class) {
        let facts = self.facts(class.id);
        if facts.free < policy::background::low(&facts) {
            self.work.notify_all();
            let delay = policy::background::write_delay(&facts);
            if delay > 0 {
                self.env.sleep_until(self.env.now() + Nanos(delay)).await;
            }
        }
        let over = |eighths: u64| {
            let state = self.state.borrow();
            state.map.patches() * 10 > state.settings.patch_budget / 8 * eighths
        };
        if over(8) {
            self.work.notify_all();
            self.env.sleep_until(self.env.now() + Nanos::from_micros(200)).await;
        }
        // The metadata area has room for the budget and not for much more.
        while over(9) && self.check_usable().is_ok() {
            self.work.notify_all();
            self.env.sleep_until(self.env.now() + Nanos::from_millis(1)).await;
        }
    }
}

/// Space that a write on its way may come to need.
struct Admission<'a, E: Env> {
    shard: &'a Shard<E>,
    growth: u64,
}

impl<E: Env> Drop for Admission<'_, E> {
    fn drop(&mut self) {
        self.shard.state.borrow_mut().space.promised -= self.growth;
    }
}

/// One buffer to several places.
async fn send_copies<D: Drive>(
    array: &Array<D>,
    targets: &[BlockAddress],
    data: &Buf,
    durability: Durability,
) -> Sent {
    let write = |at: &BlockAddress| array.write(at.drive, at.offset, data.clone(), durability);
    // A member that is gone already doesn't count: the write is as redundant as it can be.
    let wanted = targets.iter().filter(|at| array.is_active(at.drive)).count();
    let stored = if let [first, second] = targets {
        let (first, second) = join(write(first), write(second)).await;
        usize::from(first.is_ok()) + usize::from(second.is_ok())
    } else {
        join_all(targets.iter().map(write)).await.iter().filter(|done| done.is_ok()).count()
    };
    match stored {
        0 => Sent::Nothing,
        stored if stored >= wanted => Sent::All,
        _ => Sent::Some,
    }
}

fn sums_record(flbn: Flbn, first: u16, sums: &[u32]) -> Record {
    Record::Sums { flbn, first, sums: sums.to_vec() }
}

fn durability(fua: bool) -> Durability {
    if fua { Durability::Durable } else { Durability::Cached }
}

pub fn check_request(volume: &VolumeRecord, offset: u64, len: u64) -> Result<(), RequestError> {
    let aligned = offset.is_multiple_of(SECTOR) && len.is_multiple_of(SECTOR);
    let inside = offset.checked_add(len).is_some_and(|end| end <= volume.size);
    if aligned && inside { Ok(()) } else { Err(RequestError::OutOfRange) }
}

/// The data as whole device pages: itself if it is that already, else a copy with zeroes
/// around it. `start`: sector in the block.
fn whole_pages(data: Buf, start: u16) -> Buf {
    let lead = usize::from(start % 8) * SECTOR as usize;
    if lead == 0 && data.len().is_multiple_of(PAGE) && data.is_aligned(PAGE) {
        return data;
    }
    let mut padded = BufMut::zeroed((lead + data.len()).next_multiple_of(PAGE));
    padded[lead..lead + data.len()].copy_from_slice(&data);
    padded.freeze()
}

/// Parity blocks of a stripe's data blocks.
pub fn parity_of(class: &Class, blocks: &[Buf], block_size: usize) -> Vec<Buf> {
    let data: Vec<&[u8]> = blocks[..class.data()].iter().map(|block| &block[..]).collect();
    let mut parity: Vec<BufMut> =
        (0..class.parity()).map(|_| BufMut::with_len(block_size)).collect();
    let mut views: Vec<&mut [u8]> = parity.iter_mut().map(|block| &mut block[..]).collect();
    layout::parity::compute(&data, &mut views);
    parity.into_iter().map(BufMut::freeze).collect()
}

/// The same, a part of each block at a time, so that others have their turn between.
pub async fn parity_in_turns(class: &Class, blocks: &[Buf], block_size: usize) -> Vec<Buf> {
    let step = (PARITY_STEP_BYTES / class.data() / PAGE * PAGE).max(PAGE);
    let mut parity: Vec<BufMut> =
        (0..class.parity()).map(|_| BufMut::with_len(block_size)).collect();
    for start in (0..block_size).step_by(step) {
        let part = start..(start + step).min(block_size);
        slice::spend((part.len() * class.data()) >> 10).await;
        let data: Vec<&[u8]> =
            blocks[..class.data()].iter().map(|block| &block[part.clone()]).collect();
        let mut views: Vec<&mut [u8]> =
            parity.iter_mut().map(|block| &mut block[part.clone()]).collect();
        layout::parity::compute(&data, &mut views);
    }
    parity.into_iter().map(BufMut::freeze).collect()
}
