//! Labels: what is refused, which copy is believed, where they lie.

use crate::samples::{self, DRIVES};
use format::*;

/// Makes the checksum right again after an edit.
fn reseal(label: &mut [u8]) {
    let crc = crc32c::crc32c(&label[..10]);
    let crc = crc32c::crc32c_append(crc, &label[11..12]);
    let crc = crc32c::crc32c_append(crc, &label[16..]);
    label[12..16].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn round_trip_of_every_copy() {
    for copy in 0..4 {
        let label = samples::label().encode(copy);
        assert_eq!(label.len(), LABEL_LEN);
        assert_eq!(Superblock::decode(&label), Ok((samples::label(), copy)));
    }
    let (a, b) = (samples::label().encode(0), samples::label().encode(3));
    let differing = a.iter().zip(&b).filter(|(a, b)| a != b).count();
    assert_eq!(differing, 1, "copies differ in their number alone");
}

#[test]
fn the_largest_label_fits() {
    let mut label = samples::label();
    label.shards = 16;
    label.checkpoint = vec![CheckpointRoot::default(); 16];
    label.pool_name = "n".repeat(NAME_MAX);
    label.members =
        vec![
            Member { drive: DRIVES[1], state: MemberState::Active, size: 1, round: 0, zones: 0 };
            256
        ];
    label.index = 255;
    assert_eq!(Superblock::decode(&label.encode(0)), Ok((label, 0)));
}

#[test]
fn newer_versions_and_features_are_refused_clearly() {
    let mut newer = samples::label().encode(0);
    newer[8] = 2;
    reseal(&mut newer);
    let error = Superblock::decode(&newer).unwrap_err();
    assert_eq!(error, FormatError::UnsupportedVersion { found: 2, supported: 1 });
    assert!(error.to_string().contains("use a newer SteadyRAID"), "{error}");

    let mut featured = samples::label().encode(0);
    (featured[32], featured[39]) = (1, 0b1000_0000);
    reseal(&mut featured);
    let error = Superblock::decode(&featured).unwrap_err();
    assert_eq!(error, FormatError::UnknownFeatures(1 << 63), "limits of volumes are known");
    assert!(error.is_too_new());

    let mut compatible = samples::label().encode(0);
    compatible[24] = 0b101;
    reseal(&mut compatible);
    assert_eq!(Superblock::decode(&compatible).unwrap().0.features.compat, 1 << 63 | 0b101);
}

#[test]
fn impossible_labels_are_refused() {
    type Edit = (&'static str, fn(&mut Superblock));
    let edits: &[Edit] = &[
        ("pool name", |l| l.pool_name = "a b".to_owned()),
        ("pool name", |l| l.pool_name = String::new()),
        ("pool name", |l| l.pool_name = "n".repeat(64)),
        ("index", |l| l.index = 3),
        ("index", |l| l.index = 0),
        ("scheme", |l| l.scheme = 8),
        ("shards", |l| l.shards = 0),
        ("checkpoint roots", |l| l.shards = 3),
        ("members", |l| l.members.clear()),
        ("block size", |l| l.block_size = 0),
        ("block size", |l| l.block_size = 2 << 20),
        ("block size", |l| l.block_size = 512),
        ("zone bytes", |l| l.zone_bytes = 0),
        ("zone bytes", |l| l.zone_bytes += 4096),
        ("zones", |l| l.zone_count = 7),
        ("zones", |l| l.zone_count = u32::MAX),
        ("journal", |l| l.journal.offset = 4096),
        ("journal", |l| l.journal.len += 1),
        ("metadata", |l| l.journal.len += 4096),
        ("metadata", |l| l.meta.offset -= 4096),
        ("zone extent", |l| l.zones.len = !4095),
        ("zone extent", |l| l.drive_size = 50 << 20),
    ];
    for (at, (expected, edit)) in edits.iter().enumerate() {
        let mut label = samples::label();
        edit(&mut label);
        match label.validate() {
            Err(FormatError::Invalid { field, .. }) => assert_eq!(field, *expected, "edit {at}"),
            other => panic!("edit {at} ({expected}): {other:?}"),
        }
    }
}

#[test]
#[should_panic(expected = "must not be written")]
fn impossible_labels_are_not_written() {
    Superblock { shards: 0, ..samples::label() }.encode(0);
}

#[test]
fn the_newest_whole_copy_is_believed() {
    let generation = |generation| Ok((Superblock { generation, ..samples::label() }, 0));
    let damaged = || Err(FormatError::BadChecksum { expected: 1, found: 2 });
    let pick = |copies: Vec<Result<(Superblock, u8), FormatError>>| {
        newest(copies.into_iter()).map(|label| label.generation)
    };
    assert_eq!(pick(vec![generation(4), damaged(), generation(5), generation(4)]), Ok(5));
    assert_eq!(
        pick(vec![Err(FormatError::BadMagic), damaged(), Err(FormatError::Truncated)]),
        damaged().map(|_: (Superblock, u8)| 0),
        "damage tells more than absence"
    );
    assert_eq!(pick(vec![Err(FormatError::Truncated); 2]), Err(FormatError::Truncated));
    let newer = FormatError::UnsupportedVersion { found: 2, supported: 1 };
    assert_eq!(
        pick(vec![generation(4), Err(newer.clone())]),
        Err(newer),
        "old copies beside a newer one are stale, whatever generation they have"
    );
    let other = Superblock { drive: DRIVES[0], index: 0, ..samples::label() };
    assert_eq!(
        pick(vec![generation(4), Ok((other, 1))]),
        Err(FormatError::MixedLabels { first: DRIVES[1], second: DRIVES[0] })
    );
}

#[test]
fn places_of_labels() {
    const KIB: u64 = 1024;
    const MIB: u64 = 1024 * KIB;
    let end = 9 * MIB;
    for size in [10 * MIB, 10 * MIB + 1, 11 * MIB - 1] {
        assert_eq!(end_area(size), end);
        let places = [64 * KIB, 512 * KIB, end + 64 * KIB, end + 512 * KIB];
        assert_eq!(label_offsets(size), places);
    }
    assert_eq!(label_offsets(0), [64 * KIB, 512 * KIB, 64 * KIB, 512 * KIB], "and no panic");
    let last = label_offsets(u64::MAX)[3];
    assert!(last < u64::MAX - LABEL_LEN as u64);
}

#[test]
fn names() {
    for good in ["a", "A-z.0_9", &"n".repeat(63)] {
        assert!(valid_name(good), "{good}");
    }
    for old in [".", ".."] {
        assert!(valid_name(old) && !valid_new_name(old), "{old}");
    }
    assert!(valid_new_name("...") && valid_new_name(".a"));
    for bad in ["", "a b", "a/b", "\u{e4}", "a\0", &"n".repeat(64)] {
        assert!(!valid_name(bad) && !valid_new_name(bad), "{bad}");
    }
}

#[test]
fn uuids_as_text() {
    let text = "00112233-4455-6677-8899-aabbccddeeff";
    let uuid: Uuid = text.parse().unwrap();
    assert_eq!(uuid.0[..3], [0x00, 0x11, 0x22]);
    assert_eq!(uuid.to_string(), text);
    assert_eq!(text.to_uppercase().parse(), Ok(uuid));
    for bad in
        ["", "00112233", &text.replace('-', "0"), &text.replace('f', "g"), &"\u{e4}".repeat(18)]
    {
        assert!(bad.parse::<Uuid>().is_err(), "{bad}");
    }
    let random = Uuid::from_random([0xff; 16]).to_string();
    assert_eq!(random, "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

/// An in-place array of three mirrors.
fn in_place() -> Superblock {
    let features = Features { compat: 0, incompat: INCOMPAT_GROUPS };
    Superblock { scheme: SCHEME_MIRRORS, group: 3, features, ..samples::label() }
}

#[test]
fn a_drive_is_restored_only_in_pools_that_say_so() {
    let mut label = samples::label();
    label.members[0].state = MemberState::Restoring;
    let refused = Err(FormatError::Invalid { field: "member state", value: 4 });
    assert_eq!(label.validate(), refused);
    label.features.incompat |= INCOMPAT_RESTORING;
    assert_eq!(Superblock::decode(&label.encode(0)), Ok((label, 0)));
}

#[test]
fn a_replacement_says_whom_it_replaces() {
    let mut label = samples::label();
    label.features.incompat |= INCOMPAT_REPLACES;
    let refused = Err(FormatError::Invalid { field: "replaced drive", value: 1 });
    assert_eq!(label.validate(), refused);
    label.replaces = Some(Uuid([7; 16]));
    assert_eq!(Superblock::decode(&label.encode(2)), Ok((label.clone(), 2)));
    label.features.incompat = 0;
    let refused = Err(FormatError::Invalid { field: "replaced drive", value: 0 });
    assert_eq!(label.validate(), refused);
}

#[test]
fn one_drive_at_most_leaves_and_only_in_pools_that_say_so() {
    let mut label = samples::label();
    label.members[1].state = MemberState::Leaving;
    let refused = Err(FormatError::Invalid { field: "member state", value: 6 });
    assert_eq!(label.validate(), refused);
    label.features.incompat |= INCOMPAT_LEAVING;
    assert_eq!(Superblock::decode(&label.encode(0)), Ok((label.clone(), 0)));
    label.members[0].state = MemberState::Leaving;
    let refused = Err(FormatError::Invalid { field: "members that leave", value: 2 });
    assert_eq!(label.validate(), refused);
}

#[test]
fn a_drive_is_vacated_only_in_pools_that_say_so() {
    let mut label = samples::label();
    label.members[2].state = MemberState::Vacated;
    let refused = Err(FormatError::Invalid { field: "member state", value: 5 });
    assert_eq!(label.validate(), refused);
    label.features.incompat |= INCOMPAT_SUBSTITUTES;
    assert_eq!(Superblock::decode(&label.encode(0)), Ok((label, 0)));
}

#[test]
fn in_place_labels_are_read_back() {
    let label = in_place();
    assert_eq!(Superblock::decode(&label.encode(1)), Ok((label, 1)));
}

/// A set of arrays, the first on one drive of the three.
fn set() -> Superblock {
    let features = Features { compat: 0, incompat: INCOMPAT_SET };
    Superblock { scheme: SCHEME_LOG_MIRROR, group: 1, features, ..samples::label() }
}

#[test]
fn labels_of_sets_are_read_back() {
    let label = set();
    assert_eq!(Superblock::decode(&label.encode(2)), Ok((label, 2)));
    let none = Superblock { group: 0, ..set() };
    assert_eq!(Superblock::decode(&none.encode(0)), Ok((none, 0)));
}

#[test]
fn further_arrays_say_so() {
    let further = |array, own: Superblock| {
        let incompat = own.features.incompat | INCOMPAT_FURTHER;
        let further = Some(Further { pool: DRIVES[2], array });
        Superblock { further, features: Features { incompat, ..own.features }, ..own }
    };
    let last = ARRAYS_MAX as u16 - 1;
    for label in [further(1, in_place()), further(last, set())] {
        assert_eq!((label.home(), in_place().home()), (DRIVES[2], in_place().pool));
        assert_eq!(Superblock::decode(&label.encode(3)), Ok((label, 3)));
    }
    let untold = Superblock { features: in_place().features, ..further(1, in_place()) };
    let none = Superblock { further: None, ..further(1, in_place()) };
    for (wrong, value) in [
        (untold, 1),
        (none, 0),
        (further(0, in_place()), 0),
        (further(last + 1, in_place()), u64::from(last) + 1),
        (further(1, samples::label()), 1),
    ] {
        assert_eq!(wrong.validate(), Err(FormatError::Invalid { field: "array", value }));
    }
}

#[test]
fn schemes_groups_and_features_must_fit() {
    let group = |group| Superblock { group, ..in_place() };
    let plain = samples::label();
    for (wrong, field) in [
        (group(0), "group"),
        (group(2), "group"),
        (Superblock { scheme: SCHEME_FUSION, ..in_place() }, "features"),
        (Superblock { features: plain.features, ..in_place() }, "features"),
        (Superblock { group: 3, ..plain.clone() }, "group"),
        (Superblock { group: 300, ..set() }, "group"),
        (Superblock { scheme: SCHEME_MIRRORS, ..set() }, "features"),
        (Superblock { scheme: SCHEME_LOG_MIRROR, ..in_place() }, "features"),
        (Superblock { scheme: 15, ..set() }, "scheme"),
        (Superblock { scheme: 26, ..set() }, "scheme"),
        (Superblock { scheme: 8, ..in_place() }, "scheme"),
        (Superblock { scheme: 0, ..plain }, "scheme"),
    ] {
        let found = wrong.validate();
        let is_it =
            matches!(found, Err(FormatError::Invalid { field: found, .. }) if found == field);
        assert!(is_it, "{field}: {found:?}");
    }
}

#[test]
fn drive_lists_are_read_back() {
    let label = samples::listed_label();
    assert_eq!(Superblock::decode(&label.encode(1)), Ok((label.clone(), 1)));
    assert_eq!([0, 1, 2].map(|at| label.zones_of(at)), [6, 6, 10]);
    let old = samples::label();
    assert_eq!([0, 1, 2].map(|at| old.zones_of(at)), [old.zone_count; 3]);
    // The drive's own zones have to fit, not those of larger ones.
    let mut small = label.clone();
    (small.index, small.drive) = (1, DRIVES[1]);
    small.members[1].size = 56 << 20;
    (small.drive_size, small.members[1].zones) = (56 << 20, 5);
    assert_eq!(small.validate(), Ok(()));
    small.members[1].zones = 6;
    assert!(small.validate().is_err(), "a drive of 56 MiB has no room for six zones");
}

#[test]
fn impossible_drive_lists_are_refused() {
    type Edit = (&'static str, fn(&mut Superblock));
    let edits: &[Edit] = &[
        ("round", |l| l.members[0].round = 1),
        ("round", |l| l.members[2].round = 2),
        ("round", |l| l.members[1].round = u16::MAX),
        ("zones of a drive", |l| l.members[1].zones = 0),
        ("zones of a drive", |l| l.members[1].zones = 11),
        ("zones of a drive", |l| l.members[2].size = 60 << 20),
        ("zones of a drive", |l| l.features.incompat = 0),
    ];
    for (at, (expected, edit)) in edits.iter().enumerate() {
        let mut label = samples::listed_label();
        edit(&mut label);
        match label.validate() {
            Err(FormatError::Invalid { field, .. }) => assert_eq!(field, *expected, "edit {at}"),
            other => panic!("edit {at} ({expected}): {other:?}"),
        }
    }
    let mut label = samples::label();
    label.members[1].zones = 1;
    assert!(label.validate().is_err(), "without the feature all drives have all zones");
}

/// A spare has no place, nobody names it, and it outvotes nobody; and nobody else is like that.
#[test]
fn spares_have_no_place() {
    let spare = samples::spare_label();
    assert_eq!(Superblock::decode(&spare.encode(1)), Ok((spare.clone(), 1)));
    assert!(spare.is_spare() && !samples::label().is_spare());
    type Edit = (&'static str, fn(&mut Superblock));
    let edits: &[Edit] = &[
        ("index", |l| l.index = 0),
        ("index", |l| l.index = SPARE_INDEX - 1),
        ("index", |l| l.drive = l.members[1].drive),
        ("index", |l| l.features.incompat &= !INCOMPAT_SPARE),
        ("generation", |l| l.generation = 1),
        ("features", |l| l.features.incompat |= INCOMPAT_LISTS),
        ("features", |l| l.features.incompat &= !INCOMPAT_GROUPS),
        ("features", |l| (l.features.incompat, l.scheme, l.group) = (INCOMPAT_SPARE, 1, 0)),
        ("metadata", |l| l.drive_size = 8 << 20),
    ];
    for (field, edit) in edits {
        let mut label = spare.clone();
        edit(&mut label);
        let error = label.validate().unwrap_err();
        assert!(
            matches!(&error, FormatError::Invalid { field: found, .. } if found == field),
            "{error}"
        );
        // Nor is it taken when somebody wrote it.
        let mut bytes = spare.encode(0);
        bytes[168..170].copy_from_slice(&label.index.to_le_bytes());
        bytes[32..40].copy_from_slice(&label.features.incompat.to_le_bytes());
        bytes[72..80].copy_from_slice(&label.generation.to_le_bytes());
        bytes[56..72].copy_from_slice(&label.drive.0);
        bytes[96..104].copy_from_slice(&label.drive_size.to_le_bytes());
        reseal(&mut bytes);
        assert!(Superblock::decode(&bytes).is_err(), "{field}");
    }
    // As a member it has its own labels, which win over those of the spare it was.
    let member = Superblock { drive: spare.drive, ..samples::label() };
    let mut member = Superblock { generation: 7, ..member };
    member.members[usize::from(member.index)].drive = spare.drive;
    let member = Superblock { pool: spare.pool, ..member };
    let copies = [Ok((spare.clone(), 0)), Ok((member.clone(), 1)), Ok((spare, 2))];
    assert_eq!(newest(copies.into_iter()), Ok(member));
}
