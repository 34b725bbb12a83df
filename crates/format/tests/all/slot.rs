//! Checkpoint slots: what they say of themselves, and fingerprints of sets of them.

use crate::samples::{self, POOL, slot_header};
use format::*;
use std::collections::BTreeSet;

#[test]
fn every_key_round_trips() {
    let keys = [
        ObjectKey::Chunk { volume: VolumeId(u32::MAX), chunk: 1 },
        ObjectKey::Zone { zone: u32::MAX },
        ObjectKey::Config,
        ObjectKey::Sums { zone: u32::MAX, part: u32::MAX },
    ];
    for key in keys {
        for len in [0, 1, SLOT_PAYLOAD] {
            let payload = vec![0xab; len];
            let header = SlotHeader { key, ..slot_header() };
            let slot = encode_slot(&header, &payload);
            assert_eq!(slot.len(), SLOT_LEN);
            let expected = SlotHeader { len: len as u32, ..header };
            assert_eq!(decode_slot(&slot, &POOL), Ok((expected, &payload[..])));
        }
    }
}

#[test]
fn an_object_is_read_back_from_its_slots() {
    let chunk = samples::chunk();
    let parts = chunk.encode();
    let key = ObjectKey::Chunk { volume: VolumeId(3), chunk: 5 };
    let slots = encode_object(POOL, 0, key, 77, &parts);
    assert_eq!(slots.len(), 2);
    let read: Vec<_> = slots.iter().map(|slot| decode_slot(slot, &POOL).unwrap()).collect();
    for (at, (header, _)) in read.iter().enumerate() {
        assert_eq!((header.key, header.seq), (key, 77));
        assert_eq!((usize::from(header.part), header.parts), (at, 2));
        assert_eq!(header.object_crc, object_crc(&parts), "ties the parts together");
    }
    let payload: Vec<&[u8]> = read.iter().map(|(_, payload)| *payload).collect();
    assert_eq!(ChunkObject::decode(&payload).unwrap().patches, chunk.patches);
}

#[test]
fn slots_of_other_pools_are_not_ours() {
    let slot = encode_slot(&slot_header(), b"x");
    let other = Uuid([1; 16]);
    let error = decode_slot(&slot, &other).unwrap_err();
    assert_eq!(error, FormatError::WrongPool { expected: other, found: POOL });
}

#[test]
#[should_panic(expected = "part 0 of 2 is not full")]
fn a_part_that_is_not_the_last_is_full() {
    encode_slot(&SlotHeader { part: 0, ..slot_header() }, b"short");
}

#[test]
fn fingerprints_differ_and_do_not_cancel() {
    let mut seen = BTreeSet::new();
    let mut pairs = BTreeSet::new();
    for first in 0..30 {
        for seq in 0..30 {
            let keys = [
                ObjectKey::Chunk { volume: VolumeId(first), chunk: 0 },
                ObjectKey::Chunk { volume: VolumeId(0), chunk: first + 1 },
                ObjectKey::Zone { zone: first },
            ];
            for key in keys {
                assert!(seen.insert(fingerprint(&key, seq)), "{key} at {seq}");
            }
            // Two objects swapping their sequences must show in the XOR.
            let other = ObjectKey::Zone { zone: 1000 };
            assert!(pairs.insert(fingerprint(&keys[2], seq) ^ fingerprint(&other, seq + 1)));
        }
    }
    for bit in 0..32 {
        let (a, b) = (ObjectKey::Zone { zone: 0 }, ObjectKey::Zone { zone: 1 << bit });
        let moved = (fingerprint(&a, 1) ^ fingerprint(&b, 1)).count_ones();
        assert!((10..=54).contains(&moved), "input bit {bit} moves {moved} bits");
    }
}
