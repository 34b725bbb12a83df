//! The bytes of an append log: records and anchors.
//!
//! ```text
//!  record   0  magic "STDYALGR" | crc32c of the rest of the header (4) | entries (2) | 0 (2)
//!          16  pool uuid (16)
//!          32  epoch (8) | position (8) | bytes of the record (8) | durable (8)
//!          64  per entry: kind (2) | 0 (2) | crc32c of its data (4) | address (8) | length (8)
//!              | bytes of data (8)
//!        4096  data of the entries, one after the other, then zeroes up to a multiple of 4096
//!
//!  anchor   0  magic "STDYALGA" | crc32c of the rest of the page (4) | 0 (4)
//!          16  pool uuid (16)
//!          32  epoch (8) | sequence (8) | tail (8) | area (8)
//!          64  floor (8)
//! ```

use format::Uuid;

/// Unit of records: what drives write at once.
pub const PAGE: u64 = 4096;
/// Bytes of a record before its data: a page, so that data is read in whole pages, too.
pub const HEADER: u64 = PAGE;
/// What the header has room for.
pub const ENTRIES_MAX: usize = (HEADER as usize - AT_ENTRIES) / ENTRY;

const RECORD_MAGIC: &[u8; 8] = b"STDYALGR";
const ANCHOR_MAGIC: &[u8; 8] = b"STDYALGA";
const AT_CRC: usize = 8;
const AT_COUNT: usize = 12;
const AT_ENTRIES: usize = 64;
const ENTRY: usize = 32;

/// What a header tells of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub kind: u16,
    pub crc: u32,
    pub address: u64,
    pub len: u64,
    /// Bytes of data in the record.
    pub data: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub epoch: u64,
    pub position: u64,
    /// Of the whole record.
    pub bytes: u64,
    /// Everything before this position was durable when the record was made; 0: software that does
    /// not tell.
    pub durable: u64,
    pub slots: Vec<Slot>,
}

/// Bytes of a record with so many bytes of data.
pub fn record_bytes(data: u64) -> u64 {
    (HEADER + data).next_multiple_of(PAGE)
}

fn seal(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(&bytes[AT_CRC + 4..]);
    bytes[AT_CRC..AT_CRC + 4].copy_from_slice(&crc.to_le_bytes());
}

fn is_sealed(bytes: &[u8], magic: &[u8; 8], pool: &Uuid) -> bool {
    let crc = u32::from_le_bytes(bytes[AT_CRC..AT_CRC + 4].try_into().expect("4 bytes"));
    bytes.starts_with(magic)
        && crc32c::crc32c(&bytes[AT_CRC + 4..]) == crc
        && bytes[16..32] == pool.0
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

impl Header {
    pub fn encode(&self, pool: &Uuid) -> [u8; HEADER as usize] {
        assert!(self.slots.len() <= ENTRIES_MAX, "a header holds its entries");
        let mut bytes = [0; HEADER as usize];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, RECORD_MAGIC);
        put(AT_COUNT, &(self.slots.len() as u16).to_le_bytes());
        put(16, &pool.0);
        put(32, &self.epoch.to_le_bytes());
        put(40, &self.position.to_le_bytes());
        put(48, &self.bytes.to_le_bytes());
        put(56, &self.durable.to_le_bytes());
        for (at, slot) in self.slots.iter().enumerate() {
            let at = AT_ENTRIES + at * ENTRY;
            put(at, &slot.kind.to_le_bytes());
            put(at + 4, &slot.crc.to_le_bytes());
            put(at + 8, &slot.address.to_le_bytes());
            put(at + 16, &slot.len.to_le_bytes());
            put(at + 24, &slot.data.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    /// The header at the beginning of these bytes, if it is whole, of this pool and makes sense.
    pub fn decode(pool: &Uuid, bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..HEADER as usize)?;
        if !is_sealed(bytes, RECORD_MAGIC, pool) {
            return None;
        }
        let count = usize::from(u16::from_le_bytes([bytes[AT_COUNT], bytes[AT_COUNT + 1]]));
        if count > ENTRIES_MAX {
            return None;
        }
        let slot = |at: usize| {
            let slot = &bytes[AT_ENTRIES + at * ENTRY..][..ENTRY];
            Slot {
                kind: u16::from_le_bytes([slot[0], slot[1]]),
                crc: u32::from_le_bytes(slot[4..8].try_into().expect("4 bytes")),
                address: u64_at(slot, 8),
                len: u64_at(slot, 16),
                data: u64_at(slot, 24),
            }
        };
        let slots: Vec<Slot> = (0..count).map(slot).collect();
        let sum = |sum: u64, slot: &Slot| sum.checked_add(slot.data);
        let data = slots.iter().try_fold(0u64, sum).filter(|data| *data <= u64::from(u32::MAX))?;
        let header = Header {
            epoch: u64_at(bytes, 32),
            position: u64_at(bytes, 40),
            bytes: u64_at(bytes, 48),
            durable: u64_at(bytes, 56),
            slots,
        };
        (header.bytes == record_bytes(data)).then_some(header)
    }
}

/// Where the log begins; there are two, written in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub epoch: u64,
    pub sequence: u64,
    /// Position of the first record that counts.
    pub tail: u64,
    /// Bytes of the circle that records lie in.
    pub area: u64,
    /// No record from the tail on is of an older epoch.
    pub floor: u64,
}

impl Anchor {
    pub fn encode(&self, pool: &Uuid) -> [u8; PAGE as usize] {
        let mut bytes = [0; PAGE as usize];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, ANCHOR_MAGIC);
        put(16, &pool.0);
        put(32, &self.epoch.to_le_bytes());
        put(40, &self.sequence.to_le_bytes());
        put(48, &self.tail.to_le_bytes());
        put(56, &self.area.to_le_bytes());
        put(64, &self.floor.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    pub fn decode(pool: &Uuid, bytes: &[u8]) -> Option<Anchor> {
        let bytes = bytes.get(..PAGE as usize)?;
        let anchor = Anchor {
            epoch: u64_at(bytes, 32),
            sequence: u64_at(bytes, 40),
            tail: u64_at(bytes, 48),
            area: u64_at(bytes, 56),
            floor: u64_at(bytes, 64),
        };
        let sound = anchor.area > 0 && (anchor.area | anchor.tail).is_multiple_of(PAGE);
        (is_sealed(bytes, ANCHOR_MAGIC, pool) && sound).then_some(anchor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Uuid = Uuid([7; 16]);

    fn header(entries: usize) -> Header {
        let slot = |at| Slot { kind: 2, crc: 5, address: at as u64 * 512, len: 9, data: 512 };
        let slots: Vec<Slot> = (0..entries).map(slot).collect();
        let bytes = record_bytes(entries as u64 * 512);
        Header { epoch: 3, position: 8192, bytes, durable: 4096, slots }
    }

    #[test]
    fn headers_and_anchors_are_read_back_in_their_pool_only() {
        for entries in [0, 1, ENTRIES_MAX] {
            let bytes = header(entries).encode(&POOL);
            assert_eq!(Header::decode(&POOL, &bytes), Some(header(entries)));
            assert_eq!(Header::decode(&Uuid([8; 16]), &bytes), None);
        }
        let anchor = Anchor { epoch: 1, sequence: 2, tail: 4096, area: 8192, floor: 1 };
        let bytes = anchor.encode(&POOL);
        assert_eq!(Anchor::decode(&POOL, &bytes), Some(anchor));
        assert_eq!(Anchor::decode(&Uuid([8; 16]), &bytes), None);
        assert_eq!(Anchor::decode(&POOL, &bytes[..100]), None);
    }

    #[test]
    fn every_byte_that_changes_is_noticed() {
        let whole = header(ENTRIES_MAX).encode(&POOL);
        let anchor =
            Anchor { epoch: 1, sequence: 2, tail: 4096, area: 8192, floor: 1 }.encode(&POOL);
        for at in 0..whole.len() {
            let mut torn = whole;
            torn[at] ^= 1;
            assert_eq!(Header::decode(&POOL, &torn), None, "byte {at}");
            let mut torn = anchor;
            torn[at] ^= 1;
            assert_eq!(Anchor::decode(&POOL, &torn), None, "byte {at}");
        }
    }

    #[test]
    fn a_header_that_contradicts_itself_is_none() {
        let mut odd = header(3);
        odd.bytes += PAGE;
        assert_eq!(Header::decode(&POOL, &odd.encode(&POOL)), None);
        let mut huge = header(2);
        huge.slots[0].data = u64::MAX;
        assert_eq!(Header::decode(&POOL, &huge.encode(&POOL)), None);
    }
}
