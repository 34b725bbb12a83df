//! Decoders given anything: they may refuse, they may not panic, and a mutated structure is never
//! taken for a good one.

use crate::samples::{self, POOL};
use format::*;
use proptest::prelude::*;

/// Every decoder over the same bytes.
fn decode_everything(bytes: &[u8]) {
    let _ = Superblock::decode(bytes);
    let _ = peek_header(bytes);
    let _ = decode_block(bytes, &POOL);
    let _ = Record::decode(bytes);
    let _ = decode_slot(bytes, &POOL);
    let _ = ChunkObject::decode(&[bytes]);
    let _ = ZoneObject::decode(&[bytes]);
    let _ = ConfigObject::decode(&[bytes]);
    let _ = SumsObject::decode(&[bytes]);
    for size in [0, 1, bytes.len() as u64, 1 << 30, u64::MAX] {
        let _ = signature::probe_all(bytes, bytes, size);
        let _ = own_label(bytes, bytes, size);
    }
    if let Some(bytes) = bytes.first_chunk::<PATCH_LEN>() {
        let _ = Patch::unpack(bytes);
        let _ = Patch::unpack_checked(bytes);
    }
}

fn block() -> Vec<u8> {
    let mut block = BlockBuilder::new();
    assert!(samples::records().iter().all(|record| block.push(record)));
    block.finish(&samples::journal_header())
}

fn parts() -> Vec<Vec<u8>> {
    let mut all = vec![samples::chunk().encode().concat()];
    all.push(samples::zone().encode().concat());
    all.push(samples::substituted_zone().encode().concat());
    all.push(samples::config().encode().concat());
    all.push(samples::limited_config().encode().concat());
    all.push(samples::sums().encode().concat());
    for record in samples::records() {
        all.push(Vec::new());
        record.encode(all.last_mut().unwrap());
    }
    all
}

proptest! {
    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..20_000)) {
        decode_everything(&bytes);
    }

    /// Past magic: random bytes behind each of the three.
    #[test]
    fn random_behind_magic(mut bytes in proptest::collection::vec(any::<u8>(), 8..20_000)) {
        for magic in [b"STDYRAID", b"STDYJRNL", b"STDYSLOT"] {
            bytes[..8].copy_from_slice(magic);
            decode_everything(&bytes);
        }
    }

    /// No checksum guards payloads and records alone: mutated, they must still not panic, and
    /// what they decode to must encode again.
    #[test]
    fn mutated_payloads(
        which in any::<prop::sample::Index>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        shorten in any::<bool>(),
    ) {
        let mut all = parts();
        let mut bytes = all.swap_remove(which.index(all.len()));
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if shorten {
            bytes.truncate(cut.index(bytes.len()));
        }
        decode_everything(&bytes);
        if let Ok((record, len)) = Record::decode(&bytes) {
            let mut again = Vec::new();
            record.encode(&mut again);
            prop_assert_eq!(&again, &bytes[..len]);
        }
        if let Ok(zone) = ZoneObject::decode(&[&bytes]) {
            prop_assert_eq!(zone.encode().concat(), bytes.clone());
        }
        if let Ok(config) = ConfigObject::decode(&[&bytes]) {
            prop_assert_eq!(config.encode().concat(), bytes.clone());
        }
        if let Ok(sums) = SumsObject::decode(&[&bytes]) {
            prop_assert_eq!(sums.encode().concat(), bytes.clone());
        }
        if let Ok(chunk) = ChunkObject::decode(&[&bytes]) {
            prop_assert_eq!(chunk.encode().concat(), bytes);
        }
    }

    /// A changed byte of a checksummed structure is noticed wherever it is.
    #[test]
    fn mutated_structures(at in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut label = samples::label().encode(0);
        let place = at.index(label.len());
        label[place] ^= flip;
        match Superblock::decode(&label) {
            Ok((read, copy)) => {
                prop_assert_eq!(place, 10, "only the copy number is outside the checksum");
                prop_assert_eq!((read, copy), (samples::label(), flip));
            }
            Err(error) => prop_assert!(!error.is_too_new(), "damage is not a newer version"),
        }

        let mut slot = encode_slot(&samples::slot_header(), b"payload");
        let place = at.index(slot.len());
        slot[place] ^= flip;
        prop_assert!(decode_slot(&slot, &POOL).is_err());

        let mut block = block();
        let (header, records) = decode_block(&block, &POOL).unwrap();
        let place = at.index(block.len());
        block[place] ^= flip;
        match decode_block(&block, &POOL) {
            Ok(read) => {
                let padding = place >= header.len as usize;
                let reserved = (72..80).contains(&place);
                prop_assert!(padding && !reserved, "byte {place} is not guarded");
                prop_assert_eq!(read, (header, records));
            }
            Err(error) => prop_assert!(!error.is_too_new()),
        }
    }

    /// Structures cut short are refused.
    #[test]
    fn truncated(cut in any::<prop::sample::Index>()) {
        let label = samples::label().encode(0);
        prop_assert!(Superblock::decode(&label[..cut.index(label.len())]).is_err());
        let slot = encode_slot(&samples::slot_header(), b"payload");
        prop_assert!(decode_slot(&slot[..cut.index(slot.len())], &POOL).is_err());
        let block = block();
        let len = peek_header(&block).unwrap().len as usize;
        prop_assert!(decode_block(&block[..cut.index(len)], &POOL).is_err());
    }
}

/// Sums name pages of one block, and a sum of nothing is no sum.
#[test]
fn impossible_sums() {
    let refused = |flbn, first, sums: &[u32]| {
        Record::Sums { flbn: Flbn(flbn), first, sums: sums.to_vec() }.validate().is_err()
    };
    assert!(!refused(Flbn::MAX.0, 255, &[1]));
    assert!(refused(Flbn::MAX.0 + 1, 0, &[1]) && refused(0, 256, &[1]) && refused(0, 255, &[1, 1]));
    assert!(refused(0, 0, &[]) && refused(0, 0, &[1, 0]));
    assert!(
        SumsObject::decode(&[vec![0; 16324]]).is_err() && SumsObject::decode(&[[0; 6]]).is_err()
    );
}

/// Counts that promise gigabytes in a few bytes are refused before anything is allocated.
#[test]
fn huge_counts() {
    let mut zone = vec![0];
    zone.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(ZoneObject::decode(&[&zone]), Err(FormatError::Truncated));
    // A round that goes without saying is not said, and nobody's zone has none.
    let said = [2, 1, 0, 0, 0, 0, 0, 0];
    let refused = Err(FormatError::Invalid { field: "round", value: 0 });
    assert_eq!(ZoneObject::decode(&[&said]), refused);
    let unknown = Err(FormatError::Invalid { field: "class given", value: 3 });
    assert_eq!(ZoneObject::decode(&[&[3; 8]]), unknown);
    let mut zone = samples::zone().encode().concat();
    zone.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(ZoneObject::decode(&[&zone]), Err(FormatError::Truncated));

    let mut config = vec![0; 6];
    config.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(ConfigObject::decode(&[&config]), Err(FormatError::Truncated));

    let mut chunk = BmtEntry::UNMAPPED.to_bytes().repeat(CHUNK_ENTRIES);
    chunk.extend_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(ChunkObject::decode(&[&chunk]), Err(FormatError::Truncated));
}
