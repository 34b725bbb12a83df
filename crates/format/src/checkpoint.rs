//! Checkpoint slots: one part of one object in 16 KiB that describe themselves.
//!
//! ```text
//!       0        1        2        3        4        5        6        7
//!  0 | magic "STDYSLOT"                                                      |
//!  8 | version         | shard           | kind   | 0      | part            |
//! 16 | pool uuid (16)                                                        |
//! 32 | checkpoint sequence                                                   |
//! 40 | key: volume or zone               | key: chunk or part                |
//! 48 | parts           | 0               | payload length of this part       |
//! 56 | crc32c of the object's payload    | crc32c of this slot but for it    |
//! 64 | payload, then zero up to 16384                                        |
//!
//! kind: 1 chunk (volume, chunk), 2 zone (zone, 0), 3 config (0, 0), 4 sums (zone, part of it)
//! ```
//! All parts but the last are full. The object's checksum ties parts together: those of two
//! attempts at the same checkpoint are never mixed.

use crate::VERSION;
use crate::cursor::{Reader, Writer, put_u32};
use crate::drive::{check_crc, check_magic, check_version};
use crate::entry::ENTRY_LEN;
use crate::error::{FormatError, check};
use crate::ids::{Uuid, VolumeId};
use std::fmt;

pub const SLOT_MAGIC: [u8; 8] = *b"STDYSLOT";
/// Bytes of a slot.
pub const SLOT_LEN: usize = 16384;
pub const SLOT_HEADER_LEN: usize = 64;
/// Payload bytes of a slot.
pub const SLOT_PAYLOAD: usize = SLOT_LEN - SLOT_HEADER_LEN;
/// Map entries of a chunk: they fill one slot exactly.
pub const CHUNK_ENTRIES: usize = SLOT_PAYLOAD / ENTRY_LEN;

const AT_CRC: usize = 60;

/// Which object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKey {
    /// `CHUNK_ENTRIES` blocks of a volume's map.
    Chunk {
        volume: VolumeId,
        chunk: u32,
    },
    Zone {
        zone: u32,
    },
    /// Classes, volumes, settings.
    Config,
    /// Sums of a part of a zone's pages ([`crate::SUMS_ENTRIES`] of them).
    Sums {
        zone: u32,
        part: u32,
    },
}

impl ObjectKey {
    /// Kind and two numbers, as on disk.
    fn parts(&self) -> (u8, u32, u32) {
        match *self {
            ObjectKey::Chunk { volume, chunk } => (1, volume.0, chunk),
            ObjectKey::Zone { zone } => (2, zone, 0),
            ObjectKey::Config => (3, 0, 0),
            ObjectKey::Sums { zone, part } => (4, zone, part),
        }
    }

    fn from_parts(kind: u8, first: u32, second: u32) -> Result<ObjectKey, FormatError> {
        match (kind, first, second) {
            (1, volume, chunk) => Ok(ObjectKey::Chunk { volume: VolumeId(volume), chunk }),
            (2, zone, 0) => Ok(ObjectKey::Zone { zone }),
            (3, 0, 0) => Ok(ObjectKey::Config),
            (4, zone, part) => Ok(ObjectKey::Sums { zone, part }),
            _ => Err(FormatError::Invalid { field: "object kind", value: kind.into() }),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectKey::Chunk { volume, chunk } => write!(f, "chunk {volume}.{chunk}"),
            ObjectKey::Zone { zone } => write!(f, "zone {zone}"),
            ObjectKey::Config => f.write_str("config"),
            ObjectKey::Sums { zone, part } => write!(f, "sums {zone}.{part}"),
        }
    }
}

/// What a slot says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotHeader {
    pub pool: Uuid,
    pub shard: u16,
    pub key: ObjectKey,
    /// The checkpoint this object was written for. Never used twice: the next one is above any
    /// seen in the area, whole checkpoint or not.
    pub seq: u64,
    pub part: u16,
    pub parts: u16,
    /// Payload bytes of this part.
    pub len: u32,
    /// CRC32C of the payload of all parts in order (see [`object_crc`]).
    pub object_crc: u32,
}

fn slot_crc(slot: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&slot[..AT_CRC]), &slot[SLOT_HEADER_LEN..SLOT_LEN])
}

/// `SLOT_LEN` bytes. `header.len` is not looked at. Panics when the payload does not fit, the
/// part is not one of the parts, or another than the last is not full.
pub fn encode_slot(header: &SlotHeader, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() <= SLOT_PAYLOAD, "{} bytes do not fit a slot", payload.len());
    assert!(header.part < header.parts, "part {} of {}", header.part, header.parts);
    let full = header.part + 1 == header.parts || payload.len() == SLOT_PAYLOAD;
    assert!(full, "part {} of {} is not full", header.part, header.parts);
    let mut slot = Vec::with_capacity(SLOT_LEN);
    let (kind, first, second) = header.key.parts();
    let mut w = Writer(&mut slot);
    w.bytes(&SLOT_MAGIC);
    w.u16(VERSION);
    w.u16(header.shard);
    w.u8(kind);
    w.zeros(1);
    w.u16(header.part);
    w.uuid(&header.pool);
    w.u64(header.seq);
    w.u32(first);
    w.u32(second);
    w.u16(header.parts);
    w.zeros(2);
    w.u32(payload.len() as u32);
    w.u32(header.object_crc);
    w.zeros(4);
    w.bytes(payload);
    slot.resize(SLOT_LEN, 0);
    let crc = slot_crc(&slot);
    put_u32(&mut slot, AT_CRC, crc);
    slot
}

/// The slot in the first `SLOT_LEN` bytes: header and payload of this part.
pub fn decode_slot<'a>(
    bytes: &'a [u8],
    pool: &Uuid,
) -> Result<(SlotHeader, &'a [u8]), FormatError> {
    let mut r = Reader::new(bytes);
    check_magic(&mut r, &SLOT_MAGIC)?;
    let slot = bytes.get(..SLOT_LEN).ok_or(FormatError::Truncated)?;
    check_crc(slot_crc(slot), Reader::new(&slot[AT_CRC..]).u32()?)?;
    check_version(r.u16()?)?;
    let (shard, kind) = (r.u16()?, r.u8()?);
    r.zeros(1)?;
    let part = r.u16()?;
    let found = r.uuid()?;
    if found != *pool {
        return Err(FormatError::WrongPool { expected: *pool, found });
    }
    let seq = r.u64()?;
    let key = ObjectKey::from_parts(kind, r.u32()?, r.u32()?)?;
    let parts = r.u16()?;
    r.zeros(2)?;
    let (len, object_crc) = (r.u32()?, r.u32()?);
    check(part < parts, "part", part.into())?;
    check(len as usize <= SLOT_PAYLOAD, "payload length", len.into())?;
    let full = part + 1 == parts || len as usize == SLOT_PAYLOAD;
    check(full, "payload length", len.into())?;
    let (payload, rest) = slot[SLOT_HEADER_LEN..].split_at(len as usize);
    Reader::new(rest).zeros(rest.len())?;
    Ok((SlotHeader { pool: found, shard, key, seq, part, parts, len, object_crc }, payload))
}

/// CRC32C of all payload parts in order.
pub fn object_crc<P: AsRef<[u8]>>(parts: &[P]) -> u32 {
    parts.iter().fold(0, |crc, part| object_crc_append(crc, part.as_ref()))
}

/// The same, part by part: from that of those before.
pub fn object_crc_append(before: u32, part: &[u8]) -> u32 {
    crc32c::crc32c_append(before, part)
}

/// The slots of a whole object, from the payload parts its `encode` gave.
pub fn encode_object<P: AsRef<[u8]>>(
    pool: Uuid,
    shard: u16,
    key: ObjectKey,
    seq: u64,
    payload: &[P],
) -> Vec<Vec<u8>> {
    let count = u16::try_from(payload.len()).expect("an object has at most 65535 parts");
    let object_crc = object_crc(payload);
    let slot = |(part, bytes): (u16, &P)| {
        let bytes = bytes.as_ref();
        let len = bytes.len() as u32;
        let header = SlotHeader { pool, shard, key, seq, part, parts: count, len, object_crc };
        encode_slot(&header, bytes)
    };
    (0..count).zip(payload).map(slot).collect()
}

/// Cuts a payload into parts, all full but the last; at least one.
pub(crate) fn split(payload: &[u8]) -> Vec<Vec<u8>> {
    if payload.is_empty() {
        return vec![Vec::new()];
    }
    payload.chunks(SLOT_PAYLOAD).map(<[u8]>::to_vec).collect()
}

/// A number for "object `key` as of checkpoint `seq`". The label holds the XOR over the live set,
/// so a lost, stale or surplus object shows.
pub fn fingerprint(key: &ObjectKey, seq: u64) -> u64 {
    let (kind, first, second) = key.parts();
    let name = mix(u64::from(first) << 32 | u64::from(second));
    mix(mix(name ^ u64::from(kind)) ^ seq)
}

/// The splitmix64 step: a bijection of 64 bits in which every input bit moves every output bit.
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
