//! The block map (FusionRAID §4.4): BMT entries of five bytes, allocated by chunks, and patch
//! lists for blocks whose data lies in several places.
//!
//! ```text
//! entry (40 bits)   W P number(38)
//!   all ones        unmapped: reads as zeroes
//!   P=0             the whole block lies at FLBN `number`
//!   P=1             `number` names a patched block: base (or none) + sorted patches
//! ```
//!
//! Pure state: no I/O, no journal. Every change reports how many live sectors each physical
//! block gained or lost, so that `space` can count what is live without a reverse map.

mod chunk;
pub mod image;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use format::{BmtEntry, CHUNK_ENTRIES, Flbn, Patch, Place, SectorRange, VolumeId};
use smallvec::SmallVec;

use crate::planted::{self, Bug};

/// Patches with this place hide their base with zeroes.
pub const HOLE: Place = Place { flbn: Flbn::MAX, replicated: false, sector: 0 };
const ENTRY: usize = 5;

/// A part of a logical block and where it lies; `None` reads as zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub range: SectorRange,
    pub place: Option<Place>,
}

pub type Pieces = SmallVec<[Piece; 4]>;

/// Live sectors won (positive) or lost (negative) by physical blocks.
#[derive(Default, Debug)]
pub struct Deltas(pub SmallVec<[(Flbn, i32); 4]>);

impl Deltas {
    fn gain(&mut self, place: Place, sectors: u16) {
        if place.flbn != HOLE.flbn {
            self.0.push((place.flbn, i32::from(sectors)));
        }
    }

    fn lose(&mut self, place: Place, sectors: u16) {
        if place.flbn != HOLE.flbn {
            self.0.push((place.flbn, -i32::from(sectors)));
        }
    }
}

/// A block whose data lies in more than one place, or not at its natural offset.
#[derive(Clone, Debug)]
pub struct PatchedBlock {
    pub volume: VolumeId,
    pub block: u64,
    pub base: Option<Place>,
    patches: Vec<[u8; 10]>,
}

impl PatchedBlock {
    /// Of its list.
    fn memory(&self) -> u64 {
        (self.patches.capacity() * size_of::<[u8; 10]>()) as u64
    }
}

struct Chunk {
    entries: Box<[u8]>,
    mapped: u32,
}

impl Chunk {
    fn empty() -> Chunk {
        Chunk { entries: vec![0xff; CHUNK_ENTRIES * ENTRY].into(), mapped: 0 }
    }
}

pub struct BlockMap {
    block_sectors: u16,
    volumes: BTreeMap<VolumeId, Vec<Option<Chunk>>>,
    patched: Vec<Option<PatchedBlock>>,
    patched_free: Vec<u32>,
    patches: u64,
    /// Memory of all lists of patches.
    list_bytes: u64,
    chunks: u64,
    dirty: BTreeSet<(VolumeId, u32)>,
    /// Patched blocks longer than this are put into `crowded` for merging.
    crowd: usize,
    crowded: Vec<(VolumeId, u64)>,
}

/// `place` moved forward by `sectors`.
pub fn advance(place: Place, sectors: u16) -> Place {
    if place.flbn == HOLE.flbn {
        return place;
    }
    Place { sector: place.sector + sectors, ..place }
}

fn end(range: SectorRange) -> u16 {
    range.start + range.len
}

fn range(start: u16, end: u16) -> SectorRange {
    SectorRange { start, len: end - start }
}

/// The next patch continues this one both in the volume and on the drive. One is not replicated and
/// the other is where records are replayed on what comes after them: a place in two of its lives.
fn continues(first: &Patch, next: &Patch) -> bool {
    end(first.range) == next.range.start
        && first.place.flbn == next.place.flbn
        && first.place.replicated == next.place.replicated
        && (first.place.flbn == HOLE.flbn
            || first.place.sector + first.range.len == next.place.sector)
}

impl BlockMap {
    pub fn new(block_sectors: u16, crowd: usize) -> BlockMap {
        BlockMap {
            block_sectors,
            volumes: BTreeMap::new(),
            patched: Vec::new(),
            patched_free: Vec::new(),
            patches: 0,
            list_bytes: 0,
            chunks: 0,
            dirty: BTreeSet::new(),
            crowd,
            crowded: Vec::new(),
        }
    }

    pub fn volume_add(&mut self, volume: VolumeId) {
        self.volumes.entry(volume).or_default();
    }

    /// Forgets a volume whose blocks were unmapped before.
    pub fn volume_remove(&mut self, volume: VolumeId) {
        if let Some(chunks) = self.volumes.remove(&volume) {
            self.chunks -= chunks.iter().flatten().count() as u64;
        }
        self.dirty.retain(|&(owner, _)| owner != volume);
    }

    fn entry(&self, volume: VolumeId, block: u64) -> BmtEntry {
        let (chunk, slot) = (block / CHUNK_ENTRIES as u64, block % CHUNK_ENTRIES as u64);
        let Some(Some(chunk)) = self.volumes.get(&volume).and_then(|v| v.get(chunk as usize))
        else {
            return BmtEntry::UNMAPPED;
        };
        let at = slot as usize * ENTRY;
        BmtEntry::from_bytes(chunk.entries[at..at + ENTRY].try_into().expect("five bytes"))
    }

    fn set_entry(&mut self, volume: VolumeId, block: u64, entry: BmtEntry) {
        let (index, slot) =
            ((block / CHUNK_ENTRIES as u64) as usize, (block % CHUNK_ENTRIES as u64) as usize);
        let chunks = self.volumes.get_mut(&volume).expect("writes name a volume that exists");
        if chunks.len() <= index {
            chunks.resize_with(index + 1, || None);
        }
        if chunks[index].is_none() {
            if entry.is_unmapped() {
                return;
            }
            self.chunks += 1;
        }
        let chunk = chunks[index].get_or_insert_with(Chunk::empty);
        let at = slot * ENTRY;
        let old =
            BmtEntry::from_bytes(chunk.entries[at..at + ENTRY].try_into().expect("five bytes"));
        chunk.mapped += u32::from(old.is_unmapped());
        chunk.mapped -= u32::from(entry.is_unmapped());
        chunk.entries[at..at + ENTRY].copy_from_slice(&entry.to_bytes());
        self.dirty.insert((volume, index as u32));
    }

    fn base_place(entry: BmtEntry) -> Option<Place> {
        if entry.is_unmapped() {
            return None;
        }
        let (flbn, replicated) = (entry.flbn(), entry.replicated());
        Some(Place { flbn, replicated, sector: 0 })
    }

    /// Where the sectors of `wanted` lie, in order, without gaps.
    pub fn lookup(&self, volume: VolumeId, block: u64, wanted: SectorRange, out: &mut Pieces) {
        let entry = self.entry(volume, block);
        if !entry.is_patched() {
            let place = BlockMap::base_place(entry).map(|base| advance(base, wanted.start));
            out.push(Piece { range: wanted, place });
            return;
        }
        let block = self.patched_block(entry);
        let mut at = wanted.start;
        let first = block.patches.partition_point(|raw| end(Patch::unpack(raw).range) <= at);
        for raw in &block.patches[first..] {
            let patch = Patch::unpack(raw);
            if patch.range.start >= end(wanted) {
                break;
            }
            let start = patch.range.start.max(at);
            let stop = end(patch.range).min(end(wanted));
            push_base(out, block.base, at, start);
            let place = advance(patch.place, start - patch.range.start);
            let place = (place.flbn != HOLE.flbn).then_some(place);
            out.push(Piece { range: range(start, stop), place });
            at = stop;
        }
        push_base(out, block.base, at, end(wanted));
    }

    fn patched_block(&self, entry: BmtEntry) -> &PatchedBlock {
        self.patched[entry.index() as usize].as_ref().expect("P entries name a patched block")
    }

    /// The sectors `wanted` of a block now lie at `place` (`None`: nowhere, zeroes).
    pub fn set(
        &mut self,
        volume: VolumeId,
        block: u64,
        wanted: SectorRange,
        place: Option<Place>,
        deltas: &mut Deltas,
    ) {
        assert!(wanted.len > 0 && end(wanted) <= self.block_sectors, "range inside the block");
        let entry = self.entry(volume, block);
        if !entry.is_patched() && wanted.len == self.block_sectors {
            if let Some(old) = BlockMap::base_place(entry) {
                deltas.lose(old, self.block_sectors);
            }
            if place.is_none_or(|place| place.sector == 0) {
                if let Some(place) = place {
                    deltas.gain(place, self.block_sectors);
                }
                let new =
                    place.map_or(BmtEntry::UNMAPPED, |p| BmtEntry::base(p.flbn, p.replicated));
                return self.set_entry(volume, block, new);
            }
            self.set_entry(volume, block, BmtEntry::UNMAPPED);
        }
        let entry = self.entry(volume, block);
        let (index, mut patched) = self.take_patched(volume, block, entry);
        let before = patched.patches.len();
        overlay(&mut patched, self.block_sectors, wanted, place, deltas);
        self.put_patched(index, patched, before);
    }

    /// Takes the block out of the slab, or makes a fresh one from a plain entry.
    fn take_patched(
        &mut self,
        volume: VolumeId,
        block: u64,
        entry: BmtEntry,
    ) -> (Option<u32>, PatchedBlock) {
        if !entry.is_patched() {
            let base = BlockMap::base_place(entry);
            return (None, PatchedBlock { volume, block, base, patches: Vec::new() });
        }
        let index = entry.index() as u32;
        let patched = self.patched[index as usize].take().expect("P entries name a patched block");
        self.patches -= patched.patches.len() as u64;
        self.list_bytes -= patched.memory();
        (Some(index), patched)
    }

    /// Puts a block back in its simplest form. It had `before` patches.
    fn put_patched(&mut self, index: Option<u32>, patched: PatchedBlock, before: usize) {
        let (volume, block) = (patched.volume, patched.block);
        let plain = plain_entry(&patched, self.block_sectors);
        if let Some(entry) = plain {
            self.patched_free.extend(index);
            return self.set_entry(volume, block, entry);
        }
        let count = patched.patches.len();
        self.patches += count as u64;
        self.list_bytes += patched.memory();
        // A write inside a patch adds two at once.
        if before < self.crowd && count >= self.crowd {
            self.crowded.push((volume, block));
        }
        let index = index.or_else(|| self.patched_free.pop()).unwrap_or_else(|| {
            self.patched.push(None);
            (self.patched.len() - 1) as u32
        });
        self.patched[index as usize] = Some(patched);
        self.set_entry(volume, block, BmtEntry::patched(u64::from(index)));
    }

    /// Compare-and-swap: those sectors of `wanted` that still lie at `from` now lie at `to`.
    pub fn relocate(
        &mut self,
        volume: VolumeId,
        block: u64,
        wanted: SectorRange,
        from: Place,
        to: Place,
        deltas: &mut Deltas,
    ) {
        for still in self.still_at(volume, block, wanted, from) {
            let skip = still.start - wanted.start;
            self.set(volume, block, still, Some(advance(to, skip)), deltas);
        }
    }

    /// The parts of `wanted` that lie where they would if all of it began at `from`.
    pub fn still_at(
        &self,
        volume: VolumeId,
        block: u64,
        wanted: SectorRange,
        from: Place,
    ) -> SmallVec<[SectorRange; 4]> {
        let mut pieces = Pieces::new();
        self.lookup(volume, block, wanted, &mut pieces);
        let still = |piece: &Piece| {
            let expected = from.sector + (piece.range.start - wanted.start);
            let blindly = planted::is(Bug::RelocateBlindly);
            piece.place.is_some_and(|p| blindly || p.flbn == from.flbn && p.sector == expected)
        };
        pieces.iter().filter(|piece| still(piece)).map(|piece| piece.range).collect()
    }

    /// Calls `visit` for every mapped piece of one chunk.
    pub fn scan_chunk(
        &self,
        volume: VolumeId,
        chunk: u32,
        visit: &mut impl FnMut(u64, SectorRange, Place),
    ) {
        self.scan_entries(volume, chunk, 0..CHUNK_ENTRIES, visit);
    }

    /// The same for some entries of a chunk, so that a scan can be done in small steps.
    pub fn scan_entries(
        &self,
        volume: VolumeId,
        chunk: u32,
        slots: Range<usize>,
        visit: &mut impl FnMut(u64, SectorRange, Place),
    ) {
        let Some(Some(found)) = self.volumes.get(&volume).and_then(|v| v.get(chunk as usize))
        else {
            return;
        };
        let first = u64::from(chunk) * CHUNK_ENTRIES as u64;
        let whole = range(0, self.block_sectors);
        for slot in slots {
            let raw = &found.entries[slot * ENTRY..(slot + 1) * ENTRY];
            let entry = BmtEntry::from_bytes(raw.try_into().expect("five bytes"));
            let block = first + slot as u64;
            if entry.is_unmapped() {
                continue;
            }
            if !entry.is_patched() {
                let base = BlockMap::base_place(entry).expect("mapped");
                visit(block, whole, base);
                continue;
            }
            let mut pieces = Pieces::new();
            self.lookup(volume, block, whole, &mut pieces);
            for piece in pieces {
                if let Some(place) = piece.place {
                    visit(block, piece.range, place);
                }
            }
        }
    }

    /// Chunks that exist, in order.
    pub fn chunk_list(&self) -> Vec<(VolumeId, u32)> {
        let mut list = Vec::new();
        for (&volume, chunks) in &self.volumes {
            let present = chunks.iter().enumerate().filter(|(_, chunk)| chunk.is_some());
            list.extend(present.map(|(index, _)| (volume, index as u32)));
        }
        list
    }

    /// Mapped blocks of a volume at or after `first`, by range of blocks that have a chunk.
    pub fn last_mapped_block(&self, volume: VolumeId) -> Option<u64> {
        let chunks = self.volumes.get(&volume)?;
        let used = |chunk: &&Chunk| chunk.mapped > 0;
        let index = chunks.iter().rposition(|chunk| chunk.as_ref().filter(used).is_some())?;
        let entries = &chunks[index].as_ref()?.entries;
        let slot = entries.chunks_exact(ENTRY).rposition(|raw| raw != [0xff; ENTRY])?;
        Some(index as u64 * CHUNK_ENTRIES as u64 + slot as u64)
    }

    /// First block at or after `block` whose chunk exists; skips holes of sparse volumes.
    pub fn next_present(&self, volume: VolumeId, block: u64) -> Option<u64> {
        let chunks = self.volumes.get(&volume)?;
        let first = (block / CHUNK_ENTRIES as u64) as usize;
        let present = |chunk: &Option<Chunk>| chunk.as_ref().is_some_and(|c| c.mapped > 0);
        let found = first + chunks.get(first..)?.iter().position(present)?;
        Some(block.max(found as u64 * CHUNK_ENTRIES as u64))
    }

    /// In how many places beside its base a block lies.
    pub fn patches_of(&self, volume: VolumeId, block: u64) -> usize {
        let entry = self.entry(volume, block);
        if entry.is_patched() { self.patched_block(entry).patches.len() } else { 0 }
    }

    pub fn is_mapped(&self, volume: VolumeId, block: u64) -> bool {
        !self.entry(volume, block).is_unmapped()
    }

    pub fn mapped_blocks(&self, volume: VolumeId) -> u64 {
        let chunks = self.volumes.get(&volume).map_or(&[][..], |chunks| chunks);
        chunks.iter().flatten().map(|chunk| u64::from(chunk.mapped)).sum()
    }

    pub fn patches(&self) -> u64 {
        self.patches
    }

    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    pub fn has_chunk(&self, volume: VolumeId, block: u64) -> bool {
        let index = (block / CHUNK_ENTRIES as u64) as usize;
        self.volumes.get(&volume).and_then(|v| v.get(index)).is_some_and(Option::is_some)
    }

    /// Blocks whose patch list has grown too long, to be merged.
    pub fn take_crowded(&mut self) -> Vec<(VolumeId, u64)> {
        std::mem::take(&mut self.crowded)
    }

    pub fn crowded(&self) -> usize {
        self.crowded.len()
    }

    /// Some patched blocks, from a moving hand: victims when the patch budget is exceeded.
    pub fn patched_sample(&self, hand: &mut usize, count: usize) -> Vec<(VolumeId, u64, usize)> {
        let mut found = Vec::new();
        for _ in 0..self.patched.len() {
            if found.len() == count {
                break;
            }
            *hand = (*hand + 1) % self.patched.len();
            if let Some(block) = &self.patched[*hand] {
                found.push((block.volume, block.block, block.patches.len()));
            }
        }
        found
    }

    /// Memory of the table itself, and of the patch lists.
    pub fn memory(&self) -> (u64, u64) {
        let directory: usize = self.volumes.values().map(|v| v.capacity()).sum();
        let table = self.chunks * (CHUNK_ENTRIES * ENTRY) as u64
            + (directory * size_of::<Option<Chunk>>()) as u64;
        let slab = self.patched.capacity() * size_of::<Option<PatchedBlock>>();
        (table, self.list_bytes + slab as u64)
    }

    /// Chunks changed since the last call, to be written by a checkpoint.
    pub fn take_dirty(&mut self) -> Vec<(VolumeId, u32)> {
        std::mem::take(&mut self.dirty).into_iter().collect()
    }
}

fn push_base(out: &mut Pieces, base: Option<Place>, start: u16, stop: u16) {
    if start < stop {
        let place = base.map(|base| advance(base, start));
        out.push(Piece { range: range(start, stop), place });
    }
}

/// The plain entry that says the same as `patched`, if there is one.
fn plain_entry(patched: &PatchedBlock, block_sectors: u16) -> Option<BmtEntry> {
    if patched.patches.is_empty() {
        let base = patched.base;
        return Some(base.map_or(BmtEntry::UNMAPPED, |p| BmtEntry::base(p.flbn, p.replicated)));
    }
    let only = Patch::unpack(&patched.patches[0]);
    let whole = patched.patches.len() == 1 && only.range.len == block_sectors;
    (whole && patched.base.is_none() && only.place.sector == 0)
        .then(|| BmtEntry::base(only.place.flbn, only.place.replicated))
}

/// Lays `place` over the sectors `wanted` of a block and counts what that kills.
fn overlay(
    block: &mut PatchedBlock,
    block_sectors: u16,
    wanted: SectorRange,
    place: Option<Place>,
    deltas: &mut Deltas,
) {
    let old: Vec<Patch> = block.patches.iter().map(Patch::unpack).collect();
    let mut new: SmallVec<[Patch; 24]> = SmallVec::new();
    let mut tail: SmallVec<[Patch; 24]> = SmallVec::new();
    let mut covered = 0;
    for patch in old {
        let (start, stop) = (patch.range.start, end(patch.range));
        let (from, to) = (start.max(wanted.start), stop.min(end(wanted)));
        if from < to {
            covered += to - from;
            deltas.lose(patch.place, to - from);
        }
        if start < wanted.start {
            let kept = range(start, stop.min(wanted.start));
            new.push(Patch { range: kept, place: patch.place });
        }
        if stop > end(wanted) {
            let from = start.max(end(wanted));
            let kept = advance(patch.place, from - start);
            tail.push(Patch { range: range(from, stop), place: kept });
        }
    }
    if let Some(base) = block.base {
        deltas.lose(base, wanted.len - covered);
    }
    match place {
        Some(place) => {
            deltas.gain(place, wanted.len);
            new.push(Patch { range: wanted, place });
        }
        None if block.base.is_some() => new.push(Patch { range: wanted, place: HOLE }),
        None => {}
    }
    new.extend(tail);
    let all: u16 = new.iter().map(|patch| patch.range.len).sum();
    if all == block_sectors {
        block.base = None;
    }
    if block.base.is_none() {
        new.retain(|patch| patch.place.flbn != HOLE.flbn);
    }
    block.patches.clear();
    let mut last: Option<Patch> = None;
    for patch in new {
        match &mut last {
            Some(open) if continues(open, &patch) => open.range.len += patch.range.len,
            _ => block.patches.extend(last.replace(patch).map(|done| done.pack())),
        }
    }
    block.patches.extend(last.map(|done| done.pack()));
}

#[cfg(test)]
mod tests;
