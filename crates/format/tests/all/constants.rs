//! Every number of the format. A change here is a change of the format: raise the version or take
//! a feature bit, and say so in docs/on-disk-format.md.

use format::*;

#[test]
fn numbers_of_the_format() {
    assert_eq!(VERSION, 1);
    assert_eq!((SECTOR, PAGE), (512, 4096));
    assert_eq!(MAX_BLOCK_SECTORS, 2048);
    assert_eq!(NAME_MAX, 63);
    assert_eq!((Flbn::BITS, Flbn::MAX), (38, Flbn(0x3f_ffff_ffff)));

    assert_eq!(&drive::LABEL_MAGIC, b"STDYRAID");
    assert_eq!(LABEL_LEN, 16384);
    assert_eq!(drive::LABEL_AREA, 1 << 20);
    assert_eq!((drive::MAX_MEMBERS, drive::MAX_SHARDS), (256, 16));
    assert_eq!((format::INCOMPAT_LIMITS, format::KNOWN_INCOMPAT), (1, 0x7fff));
    assert_eq!((INCOMPAT_SUMS, SUMS_ENTRIES, MAX_BLOCK_PAGES), (16, 4080, 256));
    assert_eq!(SCHEME_FUSION, 1);
    assert_eq!(format::INCOMPAT_SUBSTITUTES, 32);
    assert_eq!((INCOMPAT_SPARE, SPARE_INDEX), (256, 65535));
    assert_eq!(INCOMPAT_LOG_SUMS, 512);
    assert_eq!((INCOMPAT_FURTHER, ARRAYS_MAX), (1024, 16));
    assert_eq!((format::INCOMPAT_CHECKSUM_LOG, format::INCOMPAT_GROUP_LOGS), (8192, 16384));
    assert_eq!(format::COMPAT_BLANK_SLOTS, 1);
    assert_eq!((format::INCOMPAT_LEAVING, format::INCOMPAT_REPLACES), (2048, 4096));
    let states = [MemberState::Active, MemberState::Missing, MemberState::Failed];
    assert_eq!(states.map(|state| state as u8), [1, 2, 3]);
    let states = [MemberState::Restoring, MemberState::Vacated, MemberState::Leaving];
    assert_eq!(states.map(|state| state as u8), [4, 5, 6]);

    assert_eq!(&format::journal::JOURNAL_MAGIC, b"STDYJRNL");
    assert_eq!((JOURNAL_ALIGN, JOURNAL_BLOCK_MAX), (4096, 262_144));
    assert_eq!(JOURNAL_HEADER_LEN, 80);
    assert_eq!(record::RECORD_HEADER_LEN, 3);
    assert_eq!(record::MAX_WIDTH, 256);
    assert_eq!(record::TUPLE_STRIPES, 2..=3);

    assert_eq!(&checkpoint::SLOT_MAGIC, b"STDYSLOT");
    assert_eq!((SLOT_LEN, SLOT_HEADER_LEN, SLOT_PAYLOAD), (16384, 64, 16320));
    assert_eq!((CHUNK_ENTRIES, ENTRY_LEN, PATCH_LEN), (3264, 5, 10));
    assert_eq!(CHUNK_ENTRIES * ENTRY_LEN, SLOT_PAYLOAD, "a chunk fills a slot exactly");
}

#[test]
fn fingerprints_are_part_of_the_format() {
    let chunk = ObjectKey::Chunk { volume: VolumeId(3), chunk: 5 };
    assert_eq!(fingerprint(&chunk, 77), 0x3713_a9bc_17d7_6a15);
    assert_eq!(fingerprint(&ObjectKey::Zone { zone: 3 }, 77), 0x42e2_eb42_d682_eb92);
    assert_eq!(fingerprint(&ObjectKey::Config, 77), 0x1f19_0987_015e_4793);
}
