//! Map entries, patches and the payloads of checkpoint objects.

use crate::samples::{self, any_patch};
use format::*;
use proptest::prelude::*;

#[test]
fn kinds_of_entries() {
    assert!(BmtEntry::UNMAPPED.is_unmapped() && !BmtEntry::UNMAPPED.is_patched());
    assert_eq!(BmtEntry::UNMAPPED.to_bytes(), [0xff; 5]);
    assert_eq!(BmtEntry::UNMAPPED.as_base(), None);
    assert_eq!(BmtEntry::UNMAPPED.as_patched(), None);
    assert_eq!(BmtEntry::default(), BmtEntry::UNMAPPED);

    let base = BmtEntry::base(Flbn::MAX, true);
    assert!(!base.is_unmapped() && !base.is_patched() && base.replicated());
    assert_eq!(base.as_base(), Some((Flbn::MAX, true)));

    let patched = BmtEntry::patched(Flbn::MAX.0);
    assert!(patched.is_patched() && !patched.is_unmapped());
    assert_eq!((patched.as_base(), patched.as_patched()), (None, Some(Flbn::MAX.0)));

    assert!(BmtEntry::from_bytes([0, 0, 0, 0, 0xc0]).validate().is_err(), "W with P");
}

proptest! {
    #[test]
    fn entries_round_trip(bytes in any::<[u8; 5]>(), flbn in 0..=Flbn::MAX.0, w in any::<bool>()) {
        prop_assert_eq!(BmtEntry::from_bytes(bytes).to_bytes(), bytes);
        let base = BmtEntry::base(Flbn(flbn), w);
        prop_assert_eq!(BmtEntry::from_bytes(base.to_bytes()), base);
        prop_assert_eq!((base.flbn(), base.replicated()), (Flbn(flbn), w));
        prop_assert_eq!(BmtEntry::patched(flbn).index(), flbn);
    }

    #[test]
    fn patches_round_trip(patch in any_patch()) {
        prop_assert_eq!(Patch::unpack(&patch.pack()), patch);
        prop_assert_eq!(Patch::unpack_checked(&patch.pack()), Ok(patch));
    }

    #[test]
    fn any_ten_bytes_are_safe(bytes in any::<[u8; 10]>()) {
        let patch = Patch::unpack(&bytes);
        prop_assert!((1..=2048).contains(&patch.range.len));
        if let Ok(checked) = Patch::unpack_checked(&bytes) {
            prop_assert_eq!(checked.pack(), bytes);
        }
    }

    /// Many patches: the list spans several parts.
    #[test]
    fn chunks_round_trip(lists in proptest::collection::btree_map(
        0u16..3264, proptest::collection::vec(any_patch(), 0..400), 0..20,
    )) {
        let mut chunk = samples::chunk();
        chunk.entries = BmtEntry::UNMAPPED.to_bytes().repeat(CHUNK_ENTRIES);
        for at in lists.keys() {
            let at = usize::from(*at) * ENTRY_LEN;
            chunk.entries[at..at + ENTRY_LEN].copy_from_slice(&BmtEntry::patched(4242).to_bytes());
        }
        let base = BmtEntry::UNMAPPED;
        chunk.patches = lists
            .into_iter()
            .map(|(entry_in_chunk, patches)| PatchedBlock { entry_in_chunk, base, patches })
            .collect();
        let parts = chunk.encode();
        prop_assert!(parts[..parts.len() - 1].iter().all(|part| part.len() == SLOT_PAYLOAD));
        let read = ChunkObject::decode(&parts).unwrap();
        for (at, block) in read.patches.iter().enumerate() {
            let entry = read.entry(block.entry_in_chunk.into());
            prop_assert_eq!(entry.as_patched(), Some(at as u64));
        }
        prop_assert_eq!(&read.patches, &chunk.patches);
        prop_assert_eq!(ChunkObject::decode(&[parts.concat()]), Ok(read));
    }
}

#[test]
fn an_unpatched_chunk_is_one_part() {
    let entries = BmtEntry::UNMAPPED.to_bytes().repeat(CHUNK_ENTRIES);
    let chunk = ChunkObject { entries, patches: Vec::new() };
    let parts = chunk.encode();
    assert_eq!(parts.len(), 1);
    assert_eq!(ChunkObject::decode(&parts), Ok(chunk));
}

#[test]
#[should_panic(expected = "must not be written")]
fn a_p_bit_without_patches_is_not_written() {
    let mut chunk = samples::chunk();
    chunk.patches.pop();
    chunk.encode();
}

#[test]
#[should_panic(expected = "P bit and patches of entry 1")]
fn patches_without_a_p_bit_are_not_written() {
    let mut chunk = samples::chunk();
    chunk.patches[0].entry_in_chunk = 1;
    chunk.encode();
}

#[test]
fn zones_and_configurations_round_trip() {
    assert_eq!(ZoneObject::decode(&samples::zone().encode()), Ok(samples::zone()));
    assert_eq!(ZoneObject::decode(&ZoneObject::default().encode()), Ok(ZoneObject::default()));
    for config in [samples::config(), samples::limited_config()] {
        assert_eq!(ConfigObject::decode(&config.encode()), Ok(config));
    }
    let empty = ConfigObject::default();
    assert_eq!(ConfigObject::decode(&empty.encode()), Ok(empty));
}

#[test]
fn a_large_zone_spans_parts() {
    let mut zone = samples::zone();
    let tuple = zone.tuples[0].clone();
    zone.tuples = vec![tuple; 1000];
    let parts = zone.encode();
    assert!(parts.len() > 1);
    assert_eq!(ZoneObject::decode(&parts), Ok(zone));
}
