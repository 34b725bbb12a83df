//! The bytes of a page of the checksum log.
//!
//! ```text
//!    0  magic "STDYCLOG" | crc32c of the rest (4) | entries (4) | pool uuid (16)
//!   32  number (8) | version (8) | tail (8) | first entry (8)
//!   64  settled (8) | opening (8) | the opening before it (8) | 1: doubted, 2: agreed (8)
//!   96  records (8) | the opening that this one goes on from (8)
//!  112  per entry: page of the drive (6) | drive (2) | checksum (4)
//! ```

use format::Uuid;
use io::crc::crc32c;

use crate::limits::PAGE;

const MAGIC: &[u8; 8] = b"STDYCLOG";
const AT_CRC: usize = 8;
const HEADER: usize = 112;
const ENTRY: usize = 12;
const DOUBTED: u64 = 1;
const AGREED: u64 = 2;
/// Entries that a page holds.
pub const ENTRIES: usize = (PAGE as usize - HEADER) / ENTRY;

/// Stands for the last record of the partial-parity log on a drive: its sequence, 32 bits, where
/// others have a checksum.
pub const LAST_RECORD: u64 = (1 << 48) - 1;

/// A page of a drive's chunks has this checksum from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub drive: usize,
    pub page: u64,
    pub checksum: u32,
}

/// What a page of the log says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Pages are numbered in the order of writing, without gaps.
    pub number: u64,
    /// A page is written again and again until it is full.
    pub version: u64,
    /// The lowest number that recovery needs; the next one: none.
    pub tail: u64,
    /// How many entries all pages before this one hold.
    pub first: u64,
    pub entries: usize,
    /// The data of the entries before this one is durable.
    pub settled: u64,
    /// Number of the opening that wrote it, drawn at random, and of the one before it.
    pub opening: u64,
    pub before: u64,
    /// Whose page the first one of this opening follows: of the opening before, or of one since
    /// that a crash cut short before it wrote intents. 0: nobody's.
    pub onto: u64,
    /// What the checksum area has of marked regions is not to be believed.
    pub doubted: bool,
    /// Whatever the opening before has records of was made to agree, and its entries are in the log
    /// up to here.
    pub agreed: bool,
    /// Writes with a record of the partial-parity log before this sequence are over, and their
    /// entries are in the log up to here: records of this opening, once its page of intents is
    /// there; until then of the one before.
    pub records: u64,
}

impl Header {
    /// Behind its last entry.
    pub fn end(&self) -> u64 {
        self.first + self.entries as u64
    }
}

pub fn encode(pool: &Uuid, header: &Header, entries: &[Entry]) -> Vec<u8> {
    assert!(entries.len() == header.entries && entries.len() <= ENTRIES, "a page holds them");
    let mut page = vec![0; PAGE as usize];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, MAGIC);
    put(12, &(entries.len() as u32).to_le_bytes());
    put(16, &pool.0);
    let Header { number, version, tail, first, settled, opening, before, .. } = *header;
    let flags = (u64::from(header.doubted) * DOUBTED) | (u64::from(header.agreed) * AGREED);
    let Header { records, onto, .. } = *header;
    let values = [number, version, tail, first, settled, opening, before, flags, records, onto];
    for (at, value) in values.iter().enumerate() {
        put(32 + 8 * at, &value.to_le_bytes());
    }
    for (at, entry) in entries.iter().enumerate() {
        let at = HEADER + at * ENTRY;
        assert!(entry.page < 1 << 48 && entry.drive < 1 << 16, "drives are smaller");
        put(at, &entry.page.to_le_bytes()[..6]);
        put(at + 6, &(entry.drive as u16).to_le_bytes());
        put(at + 8, &entry.checksum.to_le_bytes());
    }
    let crc = crc32c(&page[AT_CRC + 4..]);
    page[AT_CRC..AT_CRC + 4].copy_from_slice(&crc.to_le_bytes());
    page
}

/// The header, if this is a whole page of this pool.
pub fn decode(pool: &Uuid, page: &[u8]) -> Option<Header> {
    if page.len() != PAGE as usize || !page.starts_with(MAGIC) || page[16..32] != pool.0 {
        return None;
    }
    let u32_at = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
    if crc32c(&page[AT_CRC + 4..]) != u32_at(AT_CRC) {
        return None;
    }
    let header = Header {
        number: u64_at(32),
        version: u64_at(40),
        tail: u64_at(48),
        first: u64_at(56),
        entries: u32_at(12) as usize,
        settled: u64_at(64),
        opening: u64_at(72),
        before: u64_at(80),
        doubted: u64_at(88) & !AGREED != 0,
        agreed: u64_at(88) & AGREED != 0,
        records: u64_at(96),
        onto: u64_at(104),
    };
    // There is always a next number, and a next entry.
    let bounded = [header.number, header.version, header.first].iter().all(|at| *at < 1 << 62);
    if !bounded {
        return None;
    }
    let sound = header.entries <= ENTRIES && header.tail <= header.number + 1;
    sound.then_some(header)
}

/// The entries of a page that was decoded.
pub fn entries_of<'a>(header: &Header, page: &'a [u8]) -> impl Iterator<Item = Entry> + use<'a> {
    page[HEADER..].chunks_exact(ENTRY).take(header.entries).map(|bytes| {
        let mut page = [0; 8];
        page[..6].copy_from_slice(&bytes[..6]);
        Entry {
            page: u64::from_le_bytes(page),
            drive: usize::from(u16::from_le_bytes([bytes[6], bytes[7]])),
            checksum: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Uuid = Uuid([7; 16]);

    fn sample(count: usize) -> (Header, Vec<Entry>) {
        let header = Header {
            number: 0x0102,
            version: 3,
            tail: 4,
            first: 0x0506,
            entries: count,
            settled: 7,
            opening: 8,
            before: 9,
            doubted: true,
            agreed: false,
            records: 10,
            onto: 11,
        };
        let entry = |at: usize| Entry {
            drive: at % 300,
            page: 0x0a0b_0c0d_0e00 + at as u64,
            checksum: (at as u32).wrapping_mul(0x0101_0101),
        };
        (header, (0..count).map(entry).collect())
    }

    #[test]
    fn a_page_is_these_bytes() {
        let (header, entries) = sample(2);
        let page = encode(&POOL, &header, &entries);
        let number = |n: u16| [n.to_le_bytes(), [0; 2], [0; 2], [0; 2]].concat();
        let fixed = [
            &b"STDYCLOG"[..],
            &crc32c(&page[12..]).to_le_bytes(),
            &[2, 0, 0, 0],
            &[7; 16],
            &[number(0x0102), number(3), number(4), number(0x0506)].concat(),
            &[number(7), number(8), number(9), number(1)].concat(),
            &[number(10), number(11)].concat(),
            &[0x00, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0],
            &[0x01, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 1, 0, 1, 1, 1, 1],
        ];
        let fixed = fixed.concat();
        assert_eq!(page[..fixed.len()], fixed);
        assert!(page[fixed.len()..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn pages_are_read_back_and_no_byte_may_change() {
        for count in [0, 1, ENTRIES] {
            let (header, entries) = sample(count);
            let page = encode(&POOL, &header, &entries);
            assert_eq!(decode(&POOL, &page), Some(header));
            assert_eq!(entries_of(&header, &page).collect::<Vec<_>>(), entries);
            assert_eq!(decode(&Uuid([8; 16]), &page), None);
            for at in 0..page.len() {
                let mut bad = page.clone();
                bad[at] ^= 1 << (at % 8);
                assert_eq!(decode(&POOL, &bad), None, "byte {at}");
            }
            for len in [0, 7, 95, 4095] {
                assert_eq!(decode(&POOL, &page[..len]), None);
            }
        }
        let (header, entries) = sample(1);
        let odd = Header { tail: header.number + 2, ..header };
        assert_eq!(decode(&POOL, &encode(&POOL, &odd, &entries)), None, "its tail is ahead of it");
    }
}
