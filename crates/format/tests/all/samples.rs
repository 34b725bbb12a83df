//! One of everything, and strategies for any of everything.

use format::*;
use proptest::prelude::*;

pub const POOL: Uuid = Uuid([0xa0; 16]);
pub const DRIVES: [Uuid; 3] = [Uuid([0xd0; 16]), Uuid([0xd1; 16]), Uuid([0xd2; 16])];
const MIB: u64 = 1 << 20;

pub fn claim() -> Claim {
    let holder = Holder {
        host: Uuid([1; 16]),
        boot: Uuid([2; 16]),
        process: 3,
        namespace: 4,
        started: 5,
        name: "alpha".to_owned(),
    };
    let (state, session) = (ClaimState::Held, Uuid([6; 16]));
    Claim { state, session, holder, beat: 7, seen_secs: 8 }
}

pub fn label() -> Superblock {
    let size = 64 * MIB;
    let states = [MemberState::Active, MemberState::Missing, MemberState::Failed];
    let member = |(drive, state)| Member { drive, state, size, round: 0, zones: 0 };
    Superblock {
        pool: POOL,
        drive: DRIVES[1],
        pool_name: "tank-0.main_pool".to_owned(),
        index: 1,
        generation: 0x1122_3344,
        epoch: 7,
        created_secs: 1_790_000_000,
        features: Features { compat: 1 << 63, incompat: 0 },
        clean: true,
        scheme: SCHEME_FUSION,
        group: 0,
        shards: 2,
        block_size: 65536,
        zone_bytes: 8 * MIB,
        zone_count: 6,
        drive_size: size,
        journal: Extent { offset: MIB, len: 4 * MIB },
        meta: Extent { offset: 5 * MIB, len: 3 * MIB },
        zones: Extent { offset: 8 * MIB, len: 48 * MIB },
        members: DRIVES.into_iter().zip(states).map(member).collect(),
        checkpoint: vec![
            CheckpointRoot { seq: 9, journal_start: 10, objects: 11, fingerprint: u64::MAX },
            CheckpointRoot { seq: 12, journal_start: 13, objects: 14, fingerprint: 15 },
        ],
        further: None,
        replaces: None,
    }
}

/// Of a pool of RAID6, and of a drive that waits for a place in it.
pub fn spare_label() -> Superblock {
    let mut label = label();
    label.features.incompat = INCOMPAT_GROUPS | INCOMPAT_SPARE;
    (label.scheme, label.group) = (SCHEME_PARITY2, label.members.len() as u16);
    (label.drive, label.index, label.generation) = (Uuid([0x5a; 16]), SPARE_INDEX, 0);
    label
}

/// A larger drive has joined, and has zones of its own.
pub fn listed_label() -> Superblock {
    let mut label = label();
    label.features.incompat = INCOMPAT_LISTS;
    (label.zone_count, label.zones.len) = (10, 80 * MIB);
    label.members.iter_mut().for_each(|member| member.zones = 6);
    label.members[2] = Member { size: 128 * MIB, round: 1, zones: 10, ..label.members[2] };
    label
}

pub fn journal_header() -> JournalHeader {
    JournalHeader {
        pool: POOL,
        shard: 1,
        epoch: 7,
        sequence: 0x0102_0304_0506,
        durable: 0x0102_0304_0500,
        copies: 3,
        records: 0,
        len: 0,
    }
}

pub fn slot_header() -> SlotHeader {
    SlotHeader {
        pool: POOL,
        shard: 1,
        key: ObjectKey::Chunk { volume: VolumeId(3), chunk: 5 },
        seq: 77,
        part: 1,
        parts: 2,
        len: 0,
        object_crc: 0xfeed_beef,
    }
}

/// One record of each kind.
pub fn records() -> Vec<Record> {
    let volume = VolumeId(7);
    let range = SectorRange { start: 2040, len: 8 };
    let from = Place { flbn: Flbn(0x11_2233_4455), replicated: true, sector: 16 };
    let to = Place { flbn: Flbn::MAX, replicated: false, sector: 2040 };
    let stripe = StripeId { zone: 3, index: 258 };
    let other = StripeId { zone: 3, index: 259 };
    vec![
        Record::Write { volume, block: 0x1_0000_0001, range, place: from, crc: 0xdead_beef },
        Record::Stripe {
            stripe,
            blocks: vec![Some((volume, 5)), None, Some((VolumeId(8), u64::MAX))],
            crcs: vec![1, 2, 3, 4],
        },
        Record::Tuple { stripes: vec![stripe, other], slots: vec![[1, 0], [0, 0], [2, 0]] },
        Record::Convert { stripe },
        Record::Relocate { volume, block: 5, range, from, to },
        Record::Unmap { volume, block: 5, range },
        Record::UnmapBlocks { volume, first: 5, count: 600 },
        Record::Zone { zone: 3, class: Some(ClassId(2)), round: 0 },
        Record::Zone { zone: 3, class: None, round: 0 },
        Record::Class {
            id: ClassId(2),
            width: 10,
            parity: 2,
            layout_kind: 1,
            layout_digest: 0x00c0_ffee,
        },
        Record::VolumeCreate { id: volume, name: "db".to_owned(), size: MIB, class: ClassId(2) },
        Record::VolumeResize { id: volume, size: 2 * MIB },
        Record::VolumeDelete { id: volume },
        Record::Setting { key: 4, value: 0x1_0000_0000 },
        Record::VolumeLimits { id: volume, iops: 500, bytes_per_sec: 64 * MIB },
        Record::Sums { flbn: Flbn(0x11_2233_4455), first: 2, sums: vec![0xdead_beef, 1] },
        Record::Zone { zone: 4, class: Some(ClassId(2)), round: 258 },
        Record::Substitutes { stripe, places: vec![(1, Flbn(0x11_2233_4455)), (4, Flbn::MAX)] },
        Record::Substitutes { stripe, places: Vec::new() },
    ]
}

/// A chunk with two patched blocks, as the engine holds it (P indices are its own).
pub fn chunk() -> ChunkObject {
    let mut entries = BmtEntry::UNMAPPED.to_bytes().repeat(CHUNK_ENTRIES);
    let mut set = |at: usize, entry: BmtEntry| {
        entries[at * ENTRY_LEN..][..ENTRY_LEN].copy_from_slice(&entry.to_bytes());
    };
    set(0, BmtEntry::base(Flbn(0x1234), true));
    set(1, BmtEntry::base(Flbn::MAX, false));
    set(2, BmtEntry::patched(99));
    set(CHUNK_ENTRIES - 1, BmtEntry::patched(12));
    let patch = |start, len, sector| Patch {
        range: SectorRange { start, len },
        place: Place { flbn: Flbn(0x2345), replicated: true, sector },
    };
    let base = BmtEntry::base(Flbn(0x77), false);
    let whole = vec![patch(0, 2048, 0)];
    ChunkObject {
        entries,
        patches: vec![
            PatchedBlock {
                entry_in_chunk: 2,
                base,
                patches: vec![patch(8, 8, 16), patch(3, 1, 24)],
            },
            PatchedBlock {
                entry_in_chunk: CHUNK_ENTRIES as u16 - 1,
                base: BmtEntry::UNMAPPED,
                patches: whole,
            },
        ],
    }
}

pub fn zone() -> ZoneObject {
    let stripes = |first| (first..first + 3).map(|index| StripeId { zone: 3, index }).collect();
    ZoneObject {
        class: Some(ClassId(2)),
        round: 0,
        tuples: vec![
            TupleImage { stripes: stripes(0), slots: vec![[0, 1], [1, 0]], filled: vec![16, 3] },
            TupleImage { stripes: stripes(4), slots: vec![[2, 2]], filled: vec![0] },
        ],
        substitutes: Vec::new(),
    }
}

/// The same on the drives of later rounds as well.
pub fn grown_zone() -> ZoneObject {
    ZoneObject { round: 258, tuples: Vec::new(), ..zone() }
}

/// The same with blocks that lie elsewhere.
pub fn substituted_zone() -> ZoneObject {
    let at = |index, position, place| SubstituteImage { index, position, place };
    let substitutes = vec![at(0, 1, Flbn(0x1234)), at(0, 2, Flbn::MAX), at(9, 0, Flbn(5))];
    ZoneObject { substitutes, ..zone() }
}

pub fn config() -> ConfigObject {
    let class = |id| ClassImage {
        id: ClassId(id),
        width: 10,
        parity: 2,
        layout_kind: 1,
        layout_digest: 0x00c0_ffee,
    };
    let volume =
        VolumeImage { id: VolumeId(7), name: "db".to_owned(), size: MIB, class: ClassId(2) };
    ConfigObject {
        classes: vec![class(1), class(2)],
        volumes: vec![volume],
        next_volume: 8,
        settings: vec![(1, 2), (3, u64::MAX)],
        limits: Vec::new(),
    }
}

pub fn sums() -> SumsObject {
    SumsObject { sums: vec![0xdead_beef, 0, 1, u32::MAX] }
}

/// That configuration with a limited volume.
pub fn limited_config() -> ConfigObject {
    let limits = LimitsImage { volume: VolumeId(7), iops: 500, bytes_per_sec: 64 * MIB };
    ConfigObject { limits: vec![limits], ..config() }
}

pub fn any_range() -> impl Strategy<Value = SectorRange> {
    (0u16..2048)
        .prop_flat_map(|start| (1..=2048 - start).prop_map(move |len| SectorRange { start, len }))
}

/// A place from which `len` sectors fit.
pub fn any_place(len: u16) -> impl Strategy<Value = Place> {
    (0..=Flbn::MAX.0, any::<bool>(), 0..=2048 - len).prop_map(|(flbn, replicated, sector)| Place {
        flbn: Flbn(flbn),
        replicated,
        sector,
    })
}

pub fn any_patch() -> impl Strategy<Value = Patch> {
    any_range()
        .prop_flat_map(|range| any_place(range.len).prop_map(move |place| Patch { range, place }))
}

fn any_stripe() -> impl Strategy<Value = StripeId> {
    (any::<u32>(), any::<u32>()).prop_map(|(zone, index)| StripeId { zone, index })
}

fn any_volume() -> impl Strategy<Value = VolumeId> {
    any::<u32>().prop_map(VolumeId)
}

fn any_sectors() -> impl Strategy<Value = (VolumeId, u64, SectorRange, Place, Place)> {
    any_range().prop_flat_map(|range| {
        let places = (any_place(range.len), any_place(range.len));
        (any_volume(), any::<u64>(), Just(range), places)
            .prop_map(|(volume, block, range, (from, to))| (volume, block, range, from, to))
    })
}

pub fn any_record() -> impl Strategy<Value = Record> {
    let class = || any::<u8>().prop_map(ClassId);
    let stripe = (1usize..=256).prop_flat_map(|width| {
        let owner = proptest::option::of((any_volume(), any::<u64>()));
        (
            any_stripe(),
            proptest::collection::vec(owner, 1..=width),
            proptest::collection::vec(any::<u32>(), width),
        )
            .prop_map(|(stripe, blocks, crcs)| Record::Stripe { stripe, blocks, crcs })
    });
    prop_oneof![
        (any_sectors(), any::<u32>()).prop_map(|((volume, block, range, place, _), crc)| {
            Record::Write { volume, block, range, place, crc }
        }),
        stripe,
        (
            proptest::collection::vec(any_stripe(), 2..=3),
            proptest::collection::vec(any::<[u8; 2]>(), 1..=256)
        )
            .prop_map(|(stripes, slots)| Record::Tuple { stripes, slots }),
        any_stripe().prop_map(|stripe| Record::Convert { stripe }),
        any_sectors().prop_map(|(volume, block, range, from, to)| Record::Relocate {
            volume,
            block,
            range,
            from,
            to
        }),
        any_sectors().prop_map(|(volume, block, range, ..)| Record::Unmap { volume, block, range }),
        (any_volume(), any::<u32>(), any::<u32>()).prop_map(|(volume, first, count)| {
            Record::UnmapBlocks { volume, first: first.into(), count: count.into() }
        }),
        (any::<u32>(), proptest::option::of((class(), any::<u16>()))).prop_map(|(zone, owner)| {
            let (class, round) = owner.map_or((None, 0), |(class, round)| (Some(class), round));
            Record::Zone { zone, class, round }
        }),
        (class(), 2u16..=256, any::<u8>(), any::<u32>()).prop_map(
            |(id, width, layout_kind, layout_digest)| {
                let parity = layout_kind % width.min(3) as u8;
                Record::Class { id, width, parity, layout_kind, layout_digest }
            }
        ),
        (any_volume(), "[A-Za-z0-9._-]{1,63}", any::<u64>(), class())
            .prop_map(|(id, name, size, class)| Record::VolumeCreate { id, name, size, class }),
        (any_volume(), any::<u64>()).prop_map(|(id, size)| Record::VolumeResize { id, size }),
        any_volume().prop_map(|id| Record::VolumeDelete { id }),
        (any::<u16>(), any::<u64>()).prop_map(|(key, value)| Record::Setting { key, value }),
        (any_volume(), any::<u64>(), any::<u64>())
            .prop_map(|(id, iops, bytes_per_sec)| Record::VolumeLimits { id, iops, bytes_per_sec }),
        (0..=Flbn::MAX.0, 0u16..128, proptest::collection::vec(1u32.., 1..=128))
            .prop_map(|(flbn, first, sums)| Record::Sums { flbn: Flbn(flbn), first, sums }),
        (any_stripe(), proptest::collection::btree_map(any::<u8>(), 0..=Flbn::MAX.0, 0..6))
            .prop_map(|(stripe, places)| {
                let places = places.into_iter().map(|(at, place)| (at, Flbn(place))).collect();
                Record::Substitutes { stripe, places }
            }),
    ]
}
