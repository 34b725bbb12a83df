//! The map against an oracle that keeps one place for every sector.

use std::collections::BTreeMap;

use format::{CHUNK_ENTRIES, ChunkObject, ChunkParts, Flbn, Place, SectorRange, VolumeId};
use proptest::prelude::*;

use super::*;

/// Small, so that random ranges often touch, and as large as the default block.
const BLOCKS: [u64; 8] = [0, 1, 5, 3262, 3263, 3264, 7000, 20_000];
const VOLUMES: [VolumeId; 3] = [VolumeId(1), VolumeId(2), VolumeId(9)];
const FLBNS: u64 = 12;

#[derive(Clone, Debug)]
enum Step {
    Set {
        at: At,
        flbn: u64,
        sector: u16,
    },
    Unmap {
        at: At,
    },
    /// Moves what lies at the place of the range's first sector, or (`stale`) at another.
    Relocate {
        at: At,
        flbn: u64,
        sector: u16,
        stale: bool,
    },
}

/// A range of a block; `len` is cut at the end of the block.
#[derive(Clone, Copy, Debug)]
struct At {
    volume: usize,
    block: usize,
    start: u16,
    len: u16,
}

impl At {
    fn range(self, sectors: u16) -> SectorRange {
        let start = self.start % sectors;
        SectorRange { start, len: (self.len % sectors + 1).min(sectors - start) }
    }

    fn name(self) -> (VolumeId, u64) {
        (VOLUMES[self.volume], BLOCKS[self.block])
    }
}

/// A physical block is replicated or not, but never both for different sectors.
fn place(flbn: u64, sector: u16, len: u16, sectors: u16) -> Place {
    let sector = if len == sectors { 0 } else { sector % (sectors - len + 1) };
    Place { flbn: Flbn(flbn), replicated: flbn.is_multiple_of(2), sector }
}

fn plus(place: Place, sectors: u16) -> Place {
    Place { sector: place.sector + sectors, ..place }
}

/// Every sector and where it lies.
#[derive(Clone, Debug, Default, PartialEq)]
struct Oracle {
    sectors: BTreeMap<(VolumeId, u64, u16), Place>,
}

impl Oracle {
    fn set(&mut self, (volume, block): (VolumeId, u64), range: SectorRange, place: Option<Place>) {
        for skip in 0..range.len {
            let key = (volume, block, range.start + skip);
            match place {
                Some(place) => self.sectors.insert(key, plus(place, skip)),
                None => self.sectors.remove(&key),
            };
        }
    }

    fn relocate(
        &mut self,
        (volume, block): (VolumeId, u64),
        range: SectorRange,
        from: Place,
        to: Place,
    ) {
        for skip in 0..range.len {
            let found = self.sectors.get_mut(&(volume, block, range.start + skip));
            if let Some(place) = found
                && (place.flbn, place.sector) == (from.flbn, from.sector + skip)
            {
                *place = plus(to, skip);
            }
        }
    }

    fn get(&self, (volume, block): (VolumeId, u64), sector: u16) -> Option<Place> {
        self.sectors.get(&(volume, block, sector)).copied()
    }

    fn live(&self) -> BTreeMap<Flbn, i64> {
        let mut live = BTreeMap::new();
        self.sectors.values().for_each(|place| *live.entry(place.flbn).or_default() += 1);
        live
    }

    fn blocks(&self, volume: VolumeId) -> Vec<u64> {
        let own = self.sectors.keys().filter(|key| key.0 == volume);
        let mut blocks: Vec<u64> = own.map(|key| key.1).collect();
        blocks.dedup();
        blocks
    }
}

fn apply(step: &Step, map: &mut BlockMap, oracle: &mut Oracle, deltas: &mut Deltas) {
    let sectors = map.block_sectors;
    match *step {
        Step::Set { at, flbn, sector } => {
            let (range, (volume, block)) = (at.range(sectors), at.name());
            let place = Some(place(flbn, sector, range.len, sectors));
            map.set(volume, block, range, place, deltas);
            oracle.set(at.name(), range, place);
        }
        Step::Unmap { at } => {
            let (range, (volume, block)) = (at.range(sectors), at.name());
            map.set(volume, block, range, None, deltas);
            oracle.set(at.name(), range, None);
        }
        Step::Relocate { at, flbn, sector, stale } => {
            let (range, (volume, block)) = (at.range(sectors), at.name());
            let stale = stale.then(|| place(flbn / 2, sector / 2, range.len, sectors));
            let Some(from) = stale.or_else(|| source(oracle, at, sectors)) else { return };
            let to = place(flbn, sector, range.len, sectors);
            map.relocate(volume, block, range, from, to, deltas);
            oracle.relocate(at.name(), range, from, to);
        }
    }
}

/// Where a range lies that is moved as one: where its first sector does.
fn source(oracle: &Oracle, at: At, sectors: u16) -> Option<Place> {
    let range = at.range(sectors);
    let first = oracle.get(at.name(), range.start)?;
    (first.sector + range.len <= sectors).then_some(first)
}

fn looked_up(map: &BlockMap, (volume, block): (VolumeId, u64), range: SectorRange) -> Pieces {
    let mut pieces = Pieces::new();
    map.lookup(volume, block, range, &mut pieces);
    pieces
}

/// A look-up covers what was asked exactly, and says of every sector what the oracle says.
fn check_lookup(map: &BlockMap, oracle: &Oracle, name: (VolumeId, u64), range: SectorRange) {
    let mut at = range.start;
    for piece in looked_up(map, name, range) {
        assert_eq!(piece.range.start, at, "pieces follow one another");
        assert!(piece.range.len > 0, "no piece is empty");
        for skip in 0..piece.range.len {
            let found = piece.place.map(|place| plus(place, skip));
            assert_eq!(found, oracle.get(name, at + skip), "sector {} of {name:?}", at + skip);
        }
        at += piece.range.len;
    }
    assert_eq!(at, range.start + range.len, "pieces cover the range");
}

fn check_block(map: &BlockMap, oracle: &Oracle, at: At) {
    let whole = SectorRange { start: 0, len: map.block_sectors };
    check_lookup(map, oracle, at.name(), whole);
    check_lookup(map, oracle, at.name(), at.range(map.block_sectors));
}

/// Everything else the map says.
fn check_reports(map: &BlockMap, oracle: &Oracle) {
    let chunk = CHUNK_ENTRIES as u64;
    for volume in VOLUMES {
        let blocks = oracle.blocks(volume);
        assert_eq!(map.mapped_blocks(volume), blocks.len() as u64);
        assert_eq!(map.last_mapped_block(volume), blocks.last().copied());
        for block in BLOCKS.into_iter().chain([2, 3265, 19_584, 100_000]) {
            assert_eq!(map.is_mapped(volume, block), blocks.contains(&block), "block {block}");
            let next = blocks.iter().find(|mapped| **mapped / chunk >= block / chunk);
            let next = next.map(|mapped| block.max(mapped / chunk * chunk));
            assert_eq!(map.next_present(volume, block), next, "next at or after {block}");
        }
    }
    let mut scanned = Oracle::default();
    let mut patches = 0;
    for (volume, number) in map.chunk_list() {
        map.scan_chunk(volume, number, &mut |block, range, place| {
            assert_eq!(block / chunk, u64::from(number));
            for skip in 0..range.len {
                let key = (volume, block, range.start + skip);
                let before = scanned.sectors.insert(key, plus(place, skip));
                assert_eq!(before, None, "{key:?} is visited once");
            }
        });
        let images = exported(map, volume, number).patches;
        patches += images.iter().map(|image| image.patches.len() as u64).sum::<u64>();
    }
    assert_eq!(&scanned, oracle, "a scan visits what is mapped");
    assert_eq!(map.patches(), patches);
    assert!(!oracle.sectors.is_empty() || patches == 0, "an empty map has no patches");
    assert_eq!(map.chunks(), map.chunk_list().len() as u64);
}

fn exported(map: &BlockMap, volume: VolumeId, chunk: u32) -> ChunkObject {
    let mut parts = ChunkParts::default();
    for first in (0..CHUNK_ENTRIES).step_by(1000) {
        let some = first..(first + 1000).min(CHUNK_ENTRIES);
        map.export_entries(volume, chunk, some, &mut parts).expect("listed chunks are there");
    }
    ChunkObject::decode(&parts.finish()).expect("what was encoded is decoded")
}

/// The same map after a journey through the bytes of checkpoint objects.
fn reloaded(map: &BlockMap) -> BlockMap {
    let mut copy = BlockMap::new(map.block_sectors, map.crowd);
    VOLUMES.into_iter().for_each(|volume| copy.volume_add(volume));
    for (volume, chunk) in map.chunk_list() {
        let object = exported(map, volume, chunk);
        copy.import_chunk(volume, chunk, object.entries, object.patches);
    }
    copy
}

fn check_reload(map: &BlockMap, oracle: &Oracle) {
    let mut copy = reloaded(map);
    check_reports(&copy, oracle);
    assert_eq!(copy.patches(), map.patches());
    assert_eq!(copy.chunk_list(), map.chunk_list());
    for volume in 0..VOLUMES.len() {
        for block in 0..BLOCKS.len() {
            check_block(&copy, oracle, At { volume, block, start: 3, len: 7 });
        }
    }
    // It can be written like any other.
    let mut oracle = oracle.clone();
    let at = At { volume: 0, block: 0, start: 1, len: 3 };
    let step = Step::Set { at, flbn: 1, sector: 2 };
    apply(&step, &mut copy, &mut oracle, &mut Deltas::default());
    check_reports(&copy, &oracle);
}

fn any_at() -> impl Strategy<Value = At> {
    let short = 0..9_u16;
    let any = 0..128_u16;
    (0..VOLUMES.len(), 0..BLOCKS.len(), 0..128_u16, prop_oneof![short, any])
        .prop_map(|(volume, block, start, len)| At { volume, block, start, len })
}

fn any_step() -> impl Strategy<Value = Step> {
    let whole = || any_at().prop_map(|at| At { start: 0, len: 127, ..at });
    let at = || prop_oneof![4 => any_at(), 1 => whole()];
    prop_oneof![
        5 => (at(), 0..FLBNS, 0..128_u16)
            .prop_map(|(at, flbn, sector)| Step::Set { at, flbn, sector }),
        2 => at().prop_map(|at| Step::Unmap { at }),
        2 => (at(), 0..FLBNS, 0..128_u16, prop::bool::weighted(0.2))
            .prop_map(|(at, flbn, sector, stale)| Step::Relocate { at, flbn, sector, stale }),
    ]
}

fn at_of(step: &Step) -> At {
    match *step {
        Step::Set { at, .. } | Step::Unmap { at } | Step::Relocate { at, .. } => at,
    }
}

fn empty(sectors: u16) -> BlockMap {
    let mut map = BlockMap::new(sectors, 8);
    VOLUMES.into_iter().for_each(|volume| map.volume_add(volume));
    map
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn the_map_says_what_the_oracle_says(
        sectors in prop_oneof![Just(8_u16), Just(16), Just(128)],
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let (mut map, mut oracle) = (empty(sectors), Oracle::default());
        let mut live: BTreeMap<Flbn, i64> = BTreeMap::new();
        for (number, step) in steps.iter().enumerate() {
            let mut deltas = Deltas::default();
            apply(step, &mut map, &mut oracle, &mut deltas);
            for &(flbn, sectors) in &deltas.0 {
                *live.entry(flbn).or_default() += i64::from(sectors);
            }
            live.retain(|_, sectors| *sectors != 0);
            prop_assert_eq!(&live, &oracle.live(), "after step {}", number);
            check_block(&map, &oracle, at_of(step));
        }
        check_reports(&map, &oracle);
        check_reload(&map, &oracle);
    }

    /// `ARCHITECTURE.md`, Durability: every chunk of the checkpoint may be of another moment,
    /// and the records from before all of them end in the same map. What is relocated is what
    /// lay there when the record was made.
    #[test]
    fn replay_on_any_later_checkpoint_ends_in_the_same_map(
        before in prop::collection::vec(any_step(), 0..30),
        suffix in prop::collection::vec(any_step(), 1..60),
        moments in prop::collection::vec(0..61_usize, 9),
    ) {
        let (mut map, mut oracle) = (empty(16), Oracle::default());
        for step in &before {
            apply(step, &mut map, &mut oracle, &mut Deltas::default());
        }
        let effective = |step: &Step| !matches!(step, Step::Relocate { stale: true, .. });
        let suffix: Vec<Step> = suffix.into_iter().filter(effective).collect();
        let mut records: Vec<Recorded> = Vec::new();
        let mut snapshots = vec![oracle.clone()];
        for step in &suffix {
            record(step, &map, &oracle, &mut records);
            apply(step, &mut map, &mut oracle, &mut Deltas::default());
            snapshots.push(oracle.clone());
        }
        // Each block as of its own moment: chunks are written some entries at a time.
        let mut mixed = empty(16);
        for (number, snapshot) in snapshots.iter().enumerate() {
            for (&(volume, block, sector), &place) in &snapshot.sectors {
                let moment = moments[block as usize % moments.len()].min(snapshots.len() - 1);
                if moment == number {
                    let range = SectorRange { start: sector, len: 1 };
                    mixed.set(volume, block, range, Some(place), &mut Deltas::default());
                }
            }
        }
        for _ in 0..2 {
            records.iter().for_each(|record| replay(record, &mut mixed));
            check_reports(&mixed, &oracle);
        }
    }
}

/// What the journal holds of a step: absolute, or compare-and-swap of what was there.
enum Recorded {
    Set((VolumeId, u64), SectorRange, Option<Place>),
    Relocate((VolumeId, u64), SectorRange, Place, Place),
}

fn record(step: &Step, map: &BlockMap, oracle: &Oracle, records: &mut Vec<Recorded>) {
    let sectors = map.block_sectors;
    let (name, range) = (at_of(step).name(), at_of(step).range(sectors));
    match *step {
        Step::Set { flbn, sector, .. } => {
            let place = place(flbn, sector, range.len, sectors);
            records.push(Recorded::Set(name, range, Some(place)));
        }
        Step::Unmap { .. } => records.push(Recorded::Set(name, range, None)),
        Step::Relocate { flbn, sector, .. } => {
            let to = place(flbn, sector, range.len, sectors);
            let Some(first) = source(oracle, at_of(step), sectors) else { return };
            for moved in map.still_at(name.0, name.1, range, first) {
                let skip = moved.start - range.start;
                let (from, to) = (plus(first, skip), plus(to, skip));
                records.push(Recorded::Relocate(name, moved, from, to));
            }
        }
    }
}

fn replay(record: &Recorded, map: &mut BlockMap) {
    let mut deltas = Deltas::default();
    match *record {
        Recorded::Set((volume, block), range, place) => {
            map.set(volume, block, range, place, &mut deltas);
        }
        Recorded::Relocate((volume, block), range, from, to) => {
            map.relocate(volume, block, range, from, to, &mut deltas);
        }
    }
}

#[test]
fn a_block_cut_into_many_pieces_is_reported_once_for_merging() {
    let mut map = empty(128);
    let name = (VOLUMES[0], 5);
    let whole = SectorRange { start: 0, len: 128 };
    let base = Some(Place { flbn: Flbn(1), replicated: false, sector: 0 });
    map.set(name.0, name.1, whole, base, &mut Deltas::default());
    // Each write in the middle of the base adds one piece to the list; one in the middle of a
    // patch adds two, and must not step over the limit unseen.
    for (at, len) in [(0, 8), (16, 8), (32, 8), (48, 8), (64, 8), (80, 8), (96, 8)] {
        let place = Place { flbn: Flbn(2), replicated: true, sector: at };
        let range = SectorRange { start: at, len };
        map.set(name.0, name.1, range, Some(place), &mut Deltas::default());
    }
    assert_eq!((map.patches(), map.crowded()), (7, 0));
    let inside = SectorRange { start: 82, len: 2 };
    let place = Some(Place { flbn: Flbn(3), replicated: true, sector: 0 });
    map.set(name.0, name.1, inside, place, &mut Deltas::default());
    assert_eq!(map.patches(), 9);
    assert_eq!(map.take_crowded(), [name]);
    assert_eq!(map.crowded(), 0);
}

/// World 31126: the place of a RAID block had been one of a tuple, with another part of the same
/// block, and records of both lives are replayed on a map that has the later.
#[test]
fn a_place_in_two_of_its_lives_keeps_what_it_is_in_each() {
    let mut map = empty(8);
    let (volume, block) = (VOLUMES[0], 11);
    let place = |replicated, sector| Some(Place { flbn: Flbn(7), replicated, sector });
    let (head, rest) = (SectorRange { start: 0, len: 3 }, SectorRange { start: 3, len: 5 });
    map.set(volume, block, rest, place(false, 3), &mut Deltas::default());
    map.set(volume, block, head, place(true, 0), &mut Deltas::default());
    let moved = Some(Place { flbn: Flbn(9), replicated: false, sector: 0 });
    map.set(volume, block, head, moved, &mut Deltas::default());
    let mut pieces = Pieces::new();
    map.lookup(volume, block, rest, &mut pieces);
    assert_eq!(pieces[..], [Piece { range: rest, place: place(false, 3) }]);
}

#[test]
fn a_removed_volume_leaves_nothing() {
    let mut map = empty(16);
    let whole = SectorRange { start: 0, len: 16 };
    let place = Some(Place { flbn: Flbn(1), replicated: false, sector: 0 });
    map.set(VOLUMES[0], 7000, whole, place, &mut Deltas::default());
    map.set(VOLUMES[1], 1, whole, place, &mut Deltas::default());
    map.set(VOLUMES[0], 7000, whole, None, &mut Deltas::default());
    map.volume_remove(VOLUMES[0]);
    assert_eq!(map.chunk_list(), [(VOLUMES[1], 0)]);
    assert_eq!(map.chunks(), 1);
    assert_eq!(map.take_dirty(), [(VOLUMES[1], 0)]);
    assert_eq!(map.last_mapped_block(VOLUMES[0]), None);
}
