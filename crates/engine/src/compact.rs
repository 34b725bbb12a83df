//! Compaction: live data moves out of stripes full of holes into new full stripes.
//!
//! ```text
//!  victims            one scan of the map               new stripe            relocate records
//!  [a.][..][b.] ───>  who lies in a victim? ───> gather [a b c d e f][P] ──> flush ──> map
//!  [..][c.][d.]       (no reverse map in memory)                                └> victims die
//! ```
//! Pieces keep their page alignment where they have one, so that reading a page stays one
//! page; sub-page pieces are packed tightly, so that space is what `live` says it is.
//!
//! A relocation is compare-and-swap: what was overwritten meanwhile stays where it went.

use std::ops::Range;
use std::rc::Rc;

use format::{CHUNK_ENTRIES, Place, Record, SectorRange, StripeId, VolumeId};
use io::{Buf, BufMut, Durability, Env, join_all};
use rustc_hash::FxHashSet;

use crate::api::RequestError;
use crate::attempt::Avoid;
use crate::geometry::Class;
use crate::limits::{
    COMPACT_BATCH, COMPACT_BYTES_MAX, COMPACT_GAIN_MIN, SCAN_STEP_BLOCKS, STRIPES_AT_ONCE,
};
use crate::map::{Deltas, Pieces, advance};
use crate::shard::{Claim, Shard, State};
use crate::sums::PageSums;
use crate::write::parity_of;

/// A piece to be moved. `at`: sector it must have in its block (merging), if any.
#[derive(Clone, Copy, Debug)]
struct Move {
    volume: VolumeId,
    block: u64,
    range: SectorRange,
    from: Place,
}

impl Move {
    fn cut(self, sectors: u16) -> (Move, Move) {
        let Move { range, from, .. } = self;
        let head = SectorRange { len: sectors, ..range };
        let rest = SectorRange { start: range.start + sectors, len: range.len - sectors };
        (Move { range: head, ..self }, Move { range: rest, from: advance(from, sectors), ..self })
    }
}

/// A piece with its new place in the destination: block of the plan, sector in that block.
struct Planned {
    piece: Move,
    block: usize,
    sector: u16,
}

/// A destination stripe as it was written: the sums of its data, and which of the planned pieces
/// are in it.
#[derive(Default)]
struct Filled {
    sums: Vec<PageSums>,
    kept: Vec<bool>,
}

/// Fills destination blocks with pieces.
struct Packer {
    block_sectors: u16,
    planned: Vec<Planned>,
    blocks: usize,
    /// (block, next sector) still open for page-aligned and for other pieces.
    aligned: Option<(usize, u16)>,
    tight: Option<(usize, u16)>,
}

impl Packer {
    fn new(block_sectors: u16) -> Packer {
        Packer { block_sectors, planned: Vec::new(), blocks: 0, aligned: None, tight: None }
    }

    /// All pieces, whole blocks in blocks of their own. `split`: where a piece does not fit what
    /// is left of a block it is cut in two, which costs a patch and wastes nothing.
    fn pack(block_sectors: u16, pieces: &[Move], split: bool) -> Packer {
        let mut packer = Packer::new(block_sectors);
        pieces.iter().for_each(|&piece| packer.push(piece, split));
        packer
    }

    fn push(&mut self, piece: Move, split: bool) {
        let whole_pages = piece.range.start.is_multiple_of(8) && piece.range.len.is_multiple_of(8);
        let full = self.block_sectors;
        if piece.range.len == full {
            self.planned.push(Planned { piece, block: self.blocks, sector: 0 });
            self.blocks += 1;
            return;
        }
        let lane = if whole_pages { &mut self.aligned } else { &mut self.tight };
        let room = lane.map_or(0, |(_, next)| full - next);
        if split && (1..piece.range.len).contains(&room) {
            let (head, rest) = piece.cut(room);
            self.push(head, split);
            return self.push(rest, split);
        }
        let (block, sector) = match *lane {
            Some((block, next)) if piece.range.len <= room => (block, next),
            _ => {
                self.blocks += 1;
                (self.blocks - 1, 0)
            }
        };
        *lane = Some((block, sector + piece.range.len));
        self.planned.push(Planned { piece, block, sector });
    }

    /// A logical block put together again: every piece at its natural place.
    fn push_merged(&mut self, pieces: &[Move]) {
        let block = self.blocks;
        self.blocks += 1;
        let natural = |&piece: &Move| Planned { piece, block, sector: piece.range.start };
        self.planned.extend(pieces.iter().map(natural));
    }
}

impl<E: Env> Shard<E> {
    /// Compacts the emptiest RAID stripes of a class. Returns the stripes gained.
    pub async fn compact_class(&self, class: &Rc<Class>) -> Result<usize, RequestError> {
        let victims = self.choose_victims(class);
        if victims.len() < 2 {
            return Ok(0);
        }
        let gained = self.compact_stripes(class, &victims, 1).await?;
        if gained > 0 {
            self.count(|counters| counters.compacted_stripes += victims.len() as u64);
        }
        Ok(gained)
    }

    /// The emptiest stripes whose live data fits the free stripes there are; where these are too
    /// few to gain anything, as many as make [`COMPACT_GAIN_MIN`] free, moved one after another.
    fn choose_victims(&self, class: &Class) -> Vec<StripeId> {
        let facts = self.facts(class.id);
        let stripe_sectors = class.data() as u64 * u64::from(self.geometry.block_sectors());
        let below = policy::background::worth_compacting(&facts, stripe_sectors);
        let state = self.state.borrow();
        let found = state.space.emptiest(class.id, below as u32, COMPACT_BATCH);
        let room = state.space.free_stripes(class.id).saturating_sub(2) * stripe_sectors;
        // What one pass gains is enough when it lifts free space well above low.
        let wanted = policy::background::low(&facts) * 2;
        let (mut live, mut gained) = (0, 0);
        let fits = |stripe: &StripeId| {
            live += u64::from(state.space.live(*stripe));
            let enough = gained / stripe_sectors;
            gained += stripe_sectors - u64::from(state.space.live(*stripe)).min(stripe_sectors);
            let roomy = live + stripe_sectors / 4 <= room && enough <= wanted;
            roomy || enough < COMPACT_GAIN_MIN
        };
        found.into_iter().take_while(fits).collect()
    }

    /// Moves everything live out of `victims`. Each victim that dies frees `weight` stripes.
    pub async fn compact_stripes(
        &self,
        class: &Rc<Class>,
        victims: &[StripeId],
        weight: usize,
    ) -> Result<usize, RequestError> {
        let _turn = self.background_turn.lock().await;
        let mut pieces = self.find_owners(victims).await;
        let block_sectors = self.geometry.block_sectors();
        let stripes_of = |packer: &Packer| packer.blocks.div_ceil(class.data());
        let mut packer = Packer::pack(block_sectors, &pieces, false);
        let free = self.state.borrow().space.free_stripes(class.id);
        let room = stripes_of(&packer) as u64 <= free;
        if !room || stripes_of(&packer) >= victims.len() * weight {
            // Victims one after another, so that those moved first make room for the next.
            pieces.sort_by_key(|piece| (piece.from.flbn, piece.from.sector));
            packer = Packer::pack(block_sectors, &pieces, true);
        }
        let stripes = stripes_of(&packer);
        if stripes >= victims.len() * weight {
            return Ok(0);
        }
        // Without a free stripe nothing was moved, and trying again at once would not help.
        let moved = self.move_pieces(class, packer).await?;
        Ok(if moved > 0 { victims.len() * weight - stripes } else { 0 })
    }

    /// Moves everything live out of stripes that have to go, gain or not.
    pub async fn vacate_stripes(
        &self,
        class: &Rc<Class>,
        victims: &[StripeId],
    ) -> Result<(), RequestError> {
        let _turn = self.background_turn.lock().await;
        let pieces = self.find_owners(victims).await;
        let packer = Packer::pack(self.geometry.block_sectors(), &pieces, false);
        self.move_pieces(class, packer).await?;
        Ok(())
    }

    /// Puts patched blocks together again, to save memory and scattered reads.
    pub async fn merge_blocks(&self, blocks: &[(VolumeId, u64)]) -> Result<usize, RequestError> {
        let _turn = self.background_turn.lock().await;
        let mut by_class: Vec<(Rc<Class>, Packer)> = Vec::new();
        for &(volume, block) in blocks {
            let Some((class, pieces)) = self.pieces_of(volume, block) else { continue };
            let at = by_class.iter().position(|(other, _)| other.id == class.id);
            let at = at.unwrap_or_else(|| {
                by_class.push((class, Packer::new(self.geometry.block_sectors())));
                by_class.len() - 1
            });
            by_class[at].1.push_merged(&pieces);
        }
        let mut merged = 0;
        for (class, packer) in by_class {
            merged += packer.blocks;
            self.move_pieces(&class, packer).await?;
        }
        self.count(|counters| counters.merged_blocks += merged as u64);
        Ok(merged)
    }

    fn pieces_of(&self, volume: VolumeId, block: u64) -> Option<(Rc<Class>, Vec<Move>)> {
        let state = self.state.borrow();
        let record = state.volumes.get(&volume)?;
        let class = state.space.class(record.class).clone();
        let mut pieces = Pieces::new();
        let whole = SectorRange { start: 0, len: self.geometry.block_sectors() };
        state.map.lookup(volume, block, whole, &mut pieces);
        let moves: Vec<Move> = pieces
            .iter()
            .filter_map(|p| Some(Move { volume, block, range: p.range, from: p.place? }))
            .collect();
        (moves.len() > 1).then_some((class, moves))
    }

    /// One scan of the map: every mapped piece that lies in one of the stripes.
    async fn find_owners(&self, stripes: &[StripeId]) -> Vec<Move> {
        let wanted: FxHashSet<StripeId> = stripes.iter().copied().collect();
        let chunks = self.state.borrow().map.chunk_list();
        let mut found = Vec::new();
        for (volume, chunk) in chunks {
            for first in (0..CHUNK_ENTRIES).step_by(SCAN_STEP_BLOCKS) {
                let step = first..(first + SCAN_STEP_BLOCKS).min(CHUNK_ENTRIES);
                self.scan_for(&wanted, volume, chunk, step, &mut found);
                self.env.yield_now().await;
            }
        }
        found
    }

    fn scan_for(
        &self,
        wanted: &FxHashSet<StripeId>,
        volume: VolumeId,
        chunk: u32,
        step: Range<usize>,
        found: &mut Vec<Move>,
    ) {
        let state = self.state.borrow();
        state.map.scan_entries(volume, chunk, step, &mut |block, range, place| {
            let zone = self.geometry.zone_of(place.flbn);
            let class = state.space.class_of_zone(zone).expect("mapped blocks lie in zones");
            let (stripe, _) = self.geometry.stripe_of(class, place.flbn);
            if wanted.contains(&stripe) {
                found.push(Move { volume, block, range, from: place });
            }
        });
    }

    /// Carries out a packing plan, some stripes at a time. Returns how many blocks were moved.
    async fn move_pieces(&self, class: &Rc<Class>, packer: Packer) -> Result<usize, RequestError> {
        let Packer { mut planned, blocks, .. } = packer;
        planned.sort_by_key(|planned| planned.block);
        let mut rest = &planned[..];
        let mut first = 0;
        while first < blocks {
            let left = (blocks - first).div_ceil(class.data());
            let stripes = self.take_destinations(class, left.min(self.window(class))).await?;
            if stripes.is_empty() {
                // What was not moved stays where it is.
                break;
            }
            let end = first + stripes.len() * class.data();
            let count = rest.partition_point(|planned| planned.block < end);
            let (window, later) = rest.split_at(count);
            rest = later;
            self.move_window(class, window, first, &stripes).await?;
            first = end;
        }
        Ok(first.min(blocks))
    }

    /// Up to `wanted` stripes, as many as there are. Waiting for space here would be waiting
    /// for ourselves.
    async fn take_destinations(
        &self,
        class: &Rc<Class>,
        wanted: usize,
    ) -> Result<Vec<StripeId>, RequestError> {
        let mut stripes = Vec::with_capacity(wanted);
        for flushed in [false, true] {
            while stripes.len() < wanted {
                let (claim, avoid) = (Claim::Background, Avoid::new());
                let Some(stripe) = self.take_stripe(class, claim, &avoid, false) else {
                    break;
                };
                stripes.push(stripe);
            }
            if !stripes.is_empty() || flushed {
                break;
            }
            self.flush_limbo().await?;
        }
        Ok(stripes)
    }

    /// Stripes in memory at once.
    fn window(&self, class: &Class) -> usize {
        (COMPACT_BYTES_MAX / (class.width() * self.geometry.block_size as usize)).clamp(1, 64)
    }

    async fn move_window(
        &self,
        class: &Rc<Class>,
        window: &[Planned],
        first_block: usize,
        stripes: &[StripeId],
    ) -> Result<(), RequestError> {
        // Until the map has changed no source may be reused: a block written anew at the very
        // same place would pass the compare-and-swap with older bytes.
        let guard = self.reads.enter();
        let plan = |at: usize| {
            let from = first_block + at * class.data();
            let start = window.partition_point(|p| p.block < from);
            let end = window.partition_point(|p| p.block < from + class.data());
            (stripes[at], from, &window[start..end])
        };
        let mut done = Vec::with_capacity(stripes.len());
        let order: Vec<usize> = (0..stripes.len()).collect();
        for group in order.chunks(STRIPES_AT_ONCE) {
            let fill = |&at: &usize| {
                let (stripe, from, planned) = plan(at);
                self.fill_stripe(class, stripe, planned, from)
            };
            let drives = || group.iter().flat_map(|&at| class.drives(stripes[at]));
            let turn = self.pace(|| self.queue_of(drives())).await;
            turn.moved(group.len() * class.width() * self.geometry.block_size as usize);
            done.extend(join_all(group.iter().map(fill)).await);
            drop(turn);
            self.env.yield_now().await;
        }
        self.flush().await?;
        for (at, done) in done.into_iter().enumerate() {
            self.journal.reserve().await;
            let (stripe, from, planned) = plan(at);
            let Filled { sums, kept } = done.unwrap_or_default();
            let planned: Vec<&Planned> =
                planned.iter().zip(kept).filter(|p| p.1).map(|p| p.0).collect();
            self.relocate(class, stripe, &planned, from, &sums);
            self.env.yield_now().await;
        }
        drop(guard);
        self.release_limbo();
        Ok(())
    }

    /// Reads the pieces of one destination stripe, computes parity and writes it all.
    async fn fill_stripe(
        &self,
        class: &Rc<Class>,
        stripe: StripeId,
        planned: &[Planned],
        first_block: usize,
    ) -> Result<Filled, RequestError> {
        let block_size = self.geometry.block_size as usize;
        let read = |planned: &Planned| {
            let Move { range, from, .. } = planned.piece;
            // What was written anew since the plan was made may be free, and told of as such.
            let wanted = self.is_anybodys(planned.piece);
            async move {
                if !wanted {
                    return None;
                }
                self.read_place(from, usize::from(range.len) * 512).await.ok()
            }
        };
        let data = join_all(planned.iter().map(read)).await;
        let mut blocks: Vec<BufMut> =
            (0..class.data()).map(|_| BufMut::zeroed(block_size)).collect();
        let mut kept = Vec::with_capacity(planned.len());
        for (planned, data) in planned.iter().zip(data) {
            // What can't be read stays where it is, and with it its stripe; what nobody has any
            // more is not moved.
            kept.push(data.is_some());
            let Some(data) = data else { continue };
            let start = usize::from(planned.sector) * 512;
            let block = &mut blocks[planned.block - first_block];
            block[start..start + data.len()].copy_from_slice(&data);
            self.count(|counters| counters.relocated_bytes += data.len() as u64);
        }
        let mut blocks: Vec<Buf> = blocks.into_iter().map(BufMut::freeze).collect();
        blocks.extend(parity_of(class, &blocks, block_size));
        let write = |(position, block): (usize, &Buf)| {
            let at = self.address(class, stripe, position);
            self.array.write(at.drive, at.offset, block.clone(), Durability::Cached)
        };
        let done = join_all(blocks.iter().enumerate().map(write)).await;
        if done.iter().filter(|done| done.is_err()).count() > class.parity() {
            return Err(RequestError::Io(format!("stripe {stripe} could not be written")));
        }
        Ok(Filled { sums: self.measure_blocks(&blocks, class.data()).1, kept })
    }

    /// Some of it is where it was. Under a read guard it stays readable from then on.
    fn is_anybodys(&self, piece: Move) -> bool {
        let Move { volume, block, range, from } = piece;
        let state = self.state.borrow();
        let known = state.volumes.contains_key(&volume);
        known && !state.map.still_at(volume, block, range, from).is_empty()
    }

    /// The data is durable at its new place: record it and change the map. A stripe that
    /// nothing came to is dead.
    fn relocate(
        &self,
        class: &Class,
        stripe: StripeId,
        planned: &[&Planned],
        first_block: usize,
        sums: &[PageSums],
    ) {
        let mut state = self.state.borrow_mut();
        if !planned.is_empty() {
            state.sums.set_stripe(class, stripe, sums);
            for record in self.stripe_sums(class, stripe, sums) {
                self.journal.append(&record);
            }
            // Says "RAID now" to recovery, with nothing left to verify.
            let record = Record::Stripe { stripe, blocks: Vec::new(), crcs: Vec::new() };
            self.journal.append(&record);
        }
        for planned in planned {
            let flbn = self.geometry.flbn(class, stripe, planned.block - first_block);
            let to = Place { flbn, replicated: false, sector: planned.sector };
            self.relocate_piece(&mut state, planned.piece, to);
        }
        state.space.stripe_written(stripe, self.journal.latest(), self.reads.close());
    }

    fn relocate_piece(&self, state: &mut State, piece: Move, to: Place) {
        let Move { volume, block, range, from } = piece;
        if !state.volumes.contains_key(&volume) {
            return;
        }
        // Only what is still there: replayed on a checkpoint that is later than the record, one
        // that never took effect could move what came to `from` after it.
        for still in state.map.still_at(volume, block, range, from) {
            let skip = still.start - range.start;
            let (from, to) = (advance(from, skip), advance(to, skip));
            self.journal.append(&Record::Relocate { volume, block, range: still, from, to });
            let mut deltas = Deltas::default();
            state.map.relocate(volume, block, still, from, to, &mut deltas);
            self.apply_deltas(state, &deltas);
        }
    }
}
