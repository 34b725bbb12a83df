//! Compaction: live data moves out of stripes full of holes into new full stripes.
//!
//! ```text
//!  victims            one scan of the map               new stripe            relocate records
//!  [a.][..][b.] ───>  who lies in a victim? ───> gather [a b c d e f][P] ──> flush ──> map
//!  [..][c.][d.]       (no reverse map in memory)                                └> victims die
//! ```
//! What a scan found is moved group by group, a group when space is short: so space is made as it
//! is needed and not in waves, and what dies meanwhile need not be moved. A plan may be old;
//! whatever of it does not lie any more where the scan saw it is left out.
//!
//! Pieces keep their page alignment where they have one, so that reading a page stays one
//! page; sub-page pieces are packed tightly, so that space is what `live` says it is.
//!
//! A relocation is compare-and-swap: what was overwritten meanwhile stays where it went.

mod pack;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use format::{CHUNK_ENTRIES, ClassId, Place, Record, SectorRange, StripeId, VolumeId};
use io::slice::{did, spend};
use io::{Buf, BufMut, Durability, Env, join_all};
use rustc_hash::FxHashMap;

use crate::api::RequestError;
use crate::attempt::Avoid;
use crate::geometry::Class;
use crate::limits::{
    COMPACT_BATCH, COMPACT_BYTES_MAX, COMPACT_GAIN_MIN, COMPACT_GROUP_GAIN, COMPACT_READS,
    LOOK_STEP, READ_WORK, RELOCATE_WORK, SCAN_STEP_BLOCKS, STRIPES_AT_ONCE,
};
use crate::map::{Deltas, Pieces, advance};
use crate::shard::{Claim, Shard, State};
use crate::sums::PageSums;
use crate::write::parity_in_turns;

use pack::{Packer, Planned, in_order_of_places};

pub use pack::Move;

/// A destination stripe as it was written: the sums of its data, and which pieces of each block
/// are in it.
#[derive(Default)]
struct Filled {
    sums: Vec<PageSums>,
    kept: Vec<Vec<bool>>,
}

/// Stripes that are emptied together, and what a scan found in them.
#[derive(Default)]
pub struct Group {
    victims: usize,
    pieces: Vec<Move>,
}

/// What is to be compacted of each class, the emptiest first.
pub type Plans = BTreeMap<ClassId, VecDeque<Group>>;

impl<E: Env> Shard<E> {
    /// Compacts some of the emptiest RAID stripes of a class. Returns the stripes gained.
    pub async fn compact_class(&self, class: &Rc<Class>) -> Result<usize, RequestError> {
        let planned = self.compaction.borrow_mut().get_mut(&class.id).and_then(VecDeque::pop_front);
        let group = match planned {
            Some(group) => group,
            None => {
                let mut groups = self.plan_compaction(class).await;
                let Some(first) = groups.pop_front() else { return Ok(0) };
                self.compaction.borrow_mut().insert(class.id, groups);
                first
            }
        };
        let victims = group.victims;
        let gained = self.compact_group(class, group, 1).await?;
        if gained > 0 {
            self.count(|counters| counters.compacted_stripes += victims as u64);
        } else {
            // The others of this plan have fewer holes.
            self.compaction.borrow_mut().remove(&class.id);
        }
        Ok(gained)
    }

    async fn plan_compaction(&self, class: &Rc<Class>) -> VecDeque<Group> {
        let groups = self.choose_victims(class).await;
        self.find_owners(&groups).await.into()
    }

    /// The emptiest stripes, in groups that each gain something and whose live data fits the free
    /// stripes there are; where these are too few for that, it is moved one after another.
    async fn choose_victims(&self, class: &Class) -> Vec<Vec<StripeId>> {
        let facts = self.facts(class.id);
        let stripe_sectors = class.data() as u64 * u64::from(self.geometry.block_sectors());
        let below = policy::background::worth_compacting(&facts, stripe_sectors);
        let found = self.emptiest(class, below as u32).await;
        let free = self.state.borrow().space.free_stripes(class.id);
        let room = free.saturating_sub(2) * stripe_sectors;
        // What one plan gains is enough when it lifts free space well above low.
        let mut wanted = policy::background::low(&facts) * 2;
        let (mut groups, mut group) = (Vec::new(), Vec::new());
        let (mut live, mut gained) = (0, 0);
        for (held, stripe) in found {
            group.push(stripe);
            live += u64::from(held);
            gained += stripe_sectors - u64::from(held).min(stripe_sectors);
            let enough = gained / stripe_sectors;
            let full = enough >= COMPACT_GAIN_MIN && live + stripe_sectors / 4 > room;
            if enough >= COMPACT_GROUP_GAIN || full {
                groups.push(std::mem::take(&mut group));
                (live, gained) = (0, 0);
                wanted = wanted.saturating_sub(enough);
                if wanted == 0 {
                    break;
                }
            }
        }
        // Rounding to whole blocks may take one of the stripes that are gained.
        if group.len() >= 2 && (groups.is_empty() || gained / stripe_sectors >= 2) {
            groups.push(group);
        }
        groups
    }

    /// RAID stripes of a class with fewer than `below` live sectors, fewest first.
    async fn emptiest(&self, class: &Class, below: u32) -> Vec<(u32, StripeId)> {
        let mut found = Vec::new();
        for zone in 0..self.geometry.zone_count {
            let mut first = 0;
            loop {
                spend(LOOK_STEP / 16).await;
                let looks = first..first + LOOK_STEP as u32;
                let more =
                    self.state.borrow().space.find_below(class.id, zone, looks, below, &mut found);
                if found.len() >= 2 * COMPACT_BATCH {
                    did(found.len() / 16);
                    found.select_nth_unstable(COMPACT_BATCH);
                    found.truncate(COMPACT_BATCH);
                }
                if !more {
                    break;
                }
                first += LOOK_STEP as u32;
            }
        }
        spend(found.len() / 4).await;
        found.sort_unstable();
        found.truncate(COMPACT_BATCH);
        found
    }

    /// Moves everything live out of `victims`. Each victim that dies frees `weight` stripes.
    pub async fn compact_stripes(
        &self,
        class: &Rc<Class>,
        victims: &[StripeId],
        weight: usize,
    ) -> Result<usize, RequestError> {
        let group = self.owners_in(victims).await;
        self.compact_group(class, group, weight).await
    }

    async fn compact_group(
        &self,
        class: &Rc<Class>,
        group: Group,
        weight: usize,
    ) -> Result<usize, RequestError> {
        let _turn = self.background_turn.lock().await;
        let Group { victims, pieces } = group;
        let pieces = self.still_there(pieces).await;
        let block_sectors = self.geometry.block_sectors();
        let stripes_of = |packer: &Packer| packer.blocks.len().div_ceil(class.data());
        let mut packer = Packer::pack(block_sectors, &pieces, false).await;
        let free = self.state.borrow().space.free_stripes(class.id);
        let room = stripes_of(&packer) as u64 <= free;
        if !room || stripes_of(&packer) >= victims * weight {
            // Victims one after another, so that those moved first make room for the next.
            let pieces = in_order_of_places(pieces).await;
            packer = Packer::pack(block_sectors, &pieces, true).await;
        }
        let stripes = stripes_of(&packer);
        if stripes >= victims * weight {
            return Ok(0);
        }
        // Without a free stripe nothing was moved, and trying again at once would not help.
        let empty = packer.blocks.is_empty();
        let moved = self.move_pieces(class, packer).await?;
        Ok(if moved > 0 || empty { victims * weight - stripes } else { 0 })
    }

    /// What of the pieces lies where it was found.
    async fn still_there(&self, pieces: Vec<Move>) -> Vec<Move> {
        let mut still = Vec::with_capacity(pieces.len());
        for some in pieces.chunks(LOOK_STEP / 8) {
            let looks: usize = some.iter().map(|piece| self.look_cost(*piece)).sum();
            spend(looks).await;
            let state = self.state.borrow();
            for &piece in some {
                let Move { volume, block, range, from } = piece;
                for part in state.map.still_at(volume, block, range, from) {
                    let from = advance(from, part.start - range.start);
                    still.push(Move { range: part, from, ..piece });
                }
            }
        }
        still
    }

    /// Of a look at where a piece lies, in units of work.
    fn look_cost(&self, piece: Move) -> usize {
        1 + self.state.borrow().map.patches_of(piece.volume, piece.block) / 16
    }

    /// Moves everything live out of stripes that have to go, gain or not.
    pub async fn vacate_stripes(
        &self,
        class: &Rc<Class>,
        victims: &[StripeId],
    ) -> Result<(), RequestError> {
        let _turn = self.background_turn.lock().await;
        let Group { pieces, .. } = self.owners_in(victims).await;
        let packer = Packer::pack(self.geometry.block_sectors(), &pieces, false).await;
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
            merged += packer.blocks.len();
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

    /// Everything of volumes that lies in these stripes.
    pub async fn pieces_in(&self, stripes: &[StripeId]) -> Vec<Move> {
        self.owners_in(stripes).await.pieces
    }

    async fn owners_in(&self, stripes: &[StripeId]) -> Group {
        self.find_owners(&[stripes.to_vec()]).await.pop().unwrap_or_default()
    }

    /// One scan of the map: every mapped piece that lies in one of the stripes, for each group of
    /// these.
    async fn find_owners(&self, groups: &[Vec<StripeId>]) -> Vec<Group> {
        let mut wanted = FxHashMap::default();
        let mut found = Vec::with_capacity(groups.len());
        for (at, stripes) in groups.iter().enumerate() {
            spend(stripes.len()).await;
            wanted.extend(stripes.iter().map(|&stripe| (stripe, at)));
            found.push(Group { victims: stripes.len(), pieces: Vec::new() });
        }
        if found.is_empty() {
            return found;
        }
        let chunks = self.state.borrow().map.chunk_list();
        for (volume, chunk) in chunks {
            for first in (0..CHUNK_ENTRIES).step_by(SCAN_STEP_BLOCKS) {
                spend(SCAN_STEP_BLOCKS / 8).await;
                let step = first..(first + SCAN_STEP_BLOCKS).min(CHUNK_ENTRIES);
                self.scan_for(&wanted, volume, chunk, step, &mut found);
            }
        }
        found
    }

    fn scan_for(
        &self,
        wanted: &FxHashMap<StripeId, usize>,
        volume: VolumeId,
        chunk: u32,
        step: Range<usize>,
        found: &mut [Group],
    ) {
        let state = self.state.borrow();
        let mut looks = 0;
        state.map.scan_entries(volume, chunk, step, &mut |block, range, place| {
            looks += 1;
            let zone = self.geometry.zone_of(place.flbn);
            let class = state.space.class_of_zone(zone).expect("mapped blocks lie in zones");
            let (stripe, _) = self.geometry.stripe_of(class, place.flbn);
            if let Some(&at) = wanted.get(&stripe) {
                found[at].pieces.push(Move { volume, block, range, from: place });
            }
        });
        did(looks / 4);
    }

    /// Carries out a packing plan, some stripes at a time. Returns how many blocks were moved.
    async fn move_pieces(&self, class: &Rc<Class>, packer: Packer) -> Result<usize, RequestError> {
        let blocks = packer.blocks;
        let mut first = 0;
        while first < blocks.len() {
            let left = (blocks.len() - first).div_ceil(class.data());
            let stripes = self.take_destinations(class, left.min(self.window(class))).await?;
            if stripes.is_empty() {
                // What was not moved stays where it is.
                break;
            }
            let end = (first + stripes.len() * class.data()).min(blocks.len());
            self.move_window(class, &blocks[first..end], &stripes).await?;
            first = end;
        }
        Ok(first)
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
        window: &[Vec<Planned>],
        stripes: &[StripeId],
    ) -> Result<(), RequestError> {
        // Until the map has changed no source may be reused: a block written anew at the very
        // same place would pass the compare-and-swap with older bytes.
        let guard = self.reads.enter();
        let plan: Vec<(StripeId, &[Vec<Planned>])> =
            stripes.iter().copied().zip(window.chunks(class.data())).collect();
        let mut done = Vec::with_capacity(stripes.len());
        for group in plan.chunks(STRIPES_AT_ONCE) {
            let fill = |&(stripe, blocks)| self.fill_stripe(class, stripe, blocks);
            let drives = || group.iter().flat_map(|&(stripe, _)| class.drives(stripe));
            let turn = self.pace(|| self.queue_of(drives())).await;
            turn.moved(group.len() * class.width() * self.geometry.block_size as usize);
            done.extend(join_all(group.iter().map(fill)).await);
            drop(turn);
            self.env.yield_now().await;
        }
        self.flush().await?;
        for ((stripe, blocks), done) in plan.into_iter().zip(done) {
            self.relocate(class, stripe, blocks, done.unwrap_or_default()).await;
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
        planned: &[Vec<Planned>],
    ) -> Result<Filled, RequestError> {
        let block_size = self.geometry.block_size as usize;
        let kib = block_size >> 10;
        let mut blocks: Vec<Buf> = Vec::with_capacity(class.width());
        let mut kept = Vec::with_capacity(planned.len());
        for (block, read) in join_all(planned.iter().map(|pieces| self.fill_block(pieces))).await {
            blocks.push(block);
            kept.push(read);
        }
        blocks.resize_with(class.data(), || Buf::zeroed(block_size));
        blocks.extend(parity_in_turns(class, &blocks, block_size).await);
        let write = |(position, block): (usize, &Buf)| {
            let (at, block) = (self.address(class, stripe, position), block.clone());
            async move {
                spend(kib).await;
                self.array.write(at.drive, at.offset, block, Durability::Cached).await
            }
        };
        let done = join_all(blocks.iter().enumerate().map(write)).await;
        if done.iter().filter(|done| done.is_err()).count() > class.parity() {
            return Err(RequestError::Io(format!("stripe {stripe} could not be written")));
        }
        let mut sums = Vec::with_capacity(class.data());
        for block in &blocks[..class.data()] {
            spend(kib).await;
            let pages = self.state.borrow().sums.measure(block).1;
            sums.extend((!pages.is_empty()).then_some(pages));
        }
        Ok(Filled { sums, kept })
    }

    /// The bytes of one destination block, and which pieces are in it: what can't be read stays
    /// where it is, and with it its stripe; what nobody has any more is not moved.
    async fn fill_block(&self, planned: &[Planned]) -> (Buf, Vec<bool>) {
        spend(self.geometry.block_size as usize >> 10).await;
        let mut block = BufMut::zeroed(self.geometry.block_size as usize);
        let mut kept = Vec::with_capacity(planned.len());
        for some in planned.chunks(COMPACT_READS) {
            let bytes = |piece: Move| usize::from(piece.range.len) * 512;
            let cost = |piece| self.look_cost(piece) + READ_WORK + bytes(piece) / 512;
            spend(some.iter().map(|planned| cost(planned.piece)).sum()).await;
            let read = |planned: &Planned| {
                let piece = planned.piece;
                // What was written anew since the plan was made may be free, and told of as such.
                let wanted = self.is_anybodys(piece);
                async move {
                    if !wanted {
                        return None;
                    }
                    self.read_place(piece.from, bytes(piece)).await.ok()
                }
            };
            let data = join_all(some.iter().map(read)).await;
            for (planned, data) in some.iter().zip(data) {
                kept.push(data.is_some());
                let Some(data) = data else { continue };
                let start = usize::from(planned.sector) * 512;
                block[start..start + data.len()].copy_from_slice(&data);
                self.count(|counters| counters.relocated_bytes += data.len() as u64);
            }
        }
        (block.freeze(), kept)
    }

    /// Some of it is where it was. Under a read guard it stays readable from then on.
    fn is_anybodys(&self, piece: Move) -> bool {
        let Move { volume, block, range, from } = piece;
        let state = self.state.borrow();
        let known = state.volumes.contains_key(&volume);
        known && !state.map.still_at(volume, block, range, from).is_empty()
    }

    /// The data is durable at its new place: records it and changes the map, piece after piece.
    /// Between two pieces others have their turn: each piece is recorded and moved in one go, and
    /// the stripe is nobody's choice to be emptied or freed before it counts as written. A stripe
    /// that nothing came to is dead.
    async fn relocate(
        &self,
        class: &Class,
        stripe: StripeId,
        planned: &[Vec<Planned>],
        filled: Filled,
    ) {
        let Filled { sums, kept } = filled;
        self.journal.reserve().await;
        if kept.iter().flatten().any(|&kept| kept) {
            self.record_stripe(class, stripe, &sums);
        }
        let mut recorded = 0;
        for (at, (block, kept)) in planned.iter().zip(kept).enumerate() {
            let flbn = self.geometry.flbn(class, stripe, at);
            for planned in block.iter().zip(kept).filter(|(_, kept)| *kept).map(|(piece, _)| piece)
            {
                spend(RELOCATE_WORK + 4 * self.look_cost(planned.piece)).await;
                recorded += 1;
                if recorded % LOOK_STEP == 0 {
                    self.journal.reserve().await;
                }
                let to = Place { flbn, replicated: false, sector: planned.sector };
                self.relocate_piece(&mut self.state.borrow_mut(), planned.piece, to);
            }
        }
        let mut state = self.state.borrow_mut();
        state.space.stripe_written(stripe, self.journal.latest(), self.reads.close());
    }

    fn record_stripe(&self, class: &Class, stripe: StripeId, sums: &[PageSums]) {
        did(sums.iter().map(|sums| sums.len()).sum::<usize>() / 8);
        self.state.borrow_mut().sums.set_stripe(class, stripe, sums);
        let mut records = self.stripe_sums(class, stripe, sums);
        // Says "RAID now" to recovery, with nothing left to verify.
        records.push(Record::Stripe { stripe, blocks: Vec::new(), crcs: Vec::new() });
        self.journal.append_all(&records);
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
