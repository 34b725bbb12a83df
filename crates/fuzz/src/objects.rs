//! Slots of a checkpoint, and the objects in them. The first byte says which.

use std::fmt::Debug;

use format::{
    BmtEntry, CHUNK_ENTRIES, ChunkObject, ConfigObject, ENTRY_LEN, FormatError, PATCH_LEN, Patch,
    SLOT_LEN, SumsObject, ZoneObject, decode_slot, encode_slot, fingerprint,
};

use crate::samples::{self, POOL};
use crate::{put, with_kind};

const AT_POOL: usize = 16;
const AT_CRC: usize = 60;
const AT_PAYLOAD: usize = 64;

pub fn run(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        None => false,
        Some((0, slot)) => check_slot(&sealed(slot)),
        Some((1, chunk)) => check(&spread(chunk), ChunkObject::decode, ChunkObject::encode),
        Some((2, zone)) => check(zone, ZoneObject::decode, ZoneObject::encode),
        Some((3, config)) => check(config, ConfigObject::decode, ConfigObject::encode),
        Some((4, sums)) => check(sums, SumsObject::decode, SumsObject::encode),
        Some((_, patch)) => check_patch(patch),
    }
}

fn check<T: Debug + PartialEq>(
    bytes: &[u8],
    decode: fn(&[Vec<u8>]) -> Result<T, FormatError>,
    encode: impl Fn(&T) -> Vec<Vec<u8>>,
) -> bool {
    let Ok(object) = decode(&[bytes.to_vec()]) else { return false };
    let again = decode(&encode(&object));
    assert!(again.as_ref() == Ok(&object), "not read back: {object:?}");
    true
}

fn check_slot(slot: &[u8]) -> bool {
    let Ok((header, payload)) = decode_slot(slot, &POOL) else { return false };
    assert_eq!(decode_slot(&encode_slot(&header, payload), &POOL), Ok((header, payload)));
    let _ = (fingerprint(&header.key, header.seq), header.key.to_string());
    true
}

fn check_patch(bytes: &[u8]) -> bool {
    let Some(bytes) = bytes.first_chunk::<PATCH_LEN>() else { return false };
    let Ok(patch) = Patch::unpack_checked(bytes) else { return false };
    assert_eq!(Patch::unpack_checked(&patch.pack()), Ok(patch));
    true
}

fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut slot = bytes[..bytes.len().min(SLOT_LEN)].to_vec();
    slot.resize(SLOT_LEN, 0);
    put(&mut slot, 0, b"STDYSLOT");
    put(&mut slot, AT_POOL, &POOL.0);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&slot[..AT_CRC]), &slot[AT_PAYLOAD..]);
    put(&mut slot, AT_CRC, &crc.to_le_bytes());
    slot
}

/// A chunk from few bytes: how many entries are not empty, which and what they are, the rest.
fn spread(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = BmtEntry::UNMAPPED.to_bytes().repeat(CHUNK_ENTRIES);
    let (count, mut rest) = bytes.split_first().unwrap_or((&0, &[]));
    for _ in 0..*count {
        let Some((entry, tail)) = rest.split_first_chunk::<{ 2 + ENTRY_LEN }>() else { break };
        let at = usize::from(u16::from_le_bytes([entry[0], entry[1]])) % CHUNK_ENTRIES;
        put(&mut chunk, at * ENTRY_LEN, &entry[2..]);
        rest = tail;
    }
    chunk.extend_from_slice(rest);
    chunk
}

fn gathered(chunk: &[u8]) -> Vec<u8> {
    let (entries, tail) = chunk.split_at(CHUNK_ENTRIES * ENTRY_LEN);
    let each = entries.chunks_exact(ENTRY_LEN).enumerate();
    let used = each.filter(|(_, entry)| *entry != BmtEntry::UNMAPPED.to_bytes());
    let used: Vec<Vec<u8>> =
        used.map(|(at, entry)| [&(at as u16).to_le_bytes()[..], entry].concat()).collect();
    [&[used.len() as u8][..], &used.concat(), tail].concat()
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut all = vec![with_kind(1, &gathered(&samples::chunk().encode().concat()))];
    for zone in [samples::zone(), samples::grown_zone(), samples::substituted_zone()] {
        all.push(with_kind(2, &zone.encode().concat()));
    }
    for config in [samples::config(), samples::limited_config()] {
        all.push(with_kind(3, &config.encode().concat()));
    }
    let sums = samples::sums().encode().concat();
    all.push(with_kind(4, &sums));
    let header = format::SlotHeader { part: 1, ..samples::slot_header() };
    let slot = encode_slot(&header, &sums);
    all.push(with_kind(0, &slot[..AT_PAYLOAD + sums.len()]));
    let patch = samples::chunk().patches[0].patches[0];
    all.push(with_kind(5, &patch.pack()));
    all
}
