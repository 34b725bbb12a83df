//! The bytes of segments: what lies first in one, records, and what lies last in one.
//!
//! ```text
//!  segment  [ head | record | record | ... | summary ]         pages of 4096 bytes
//!  record   [ header | 1 to 252 blocks ]
//!
//!  head     0  magic "STDYSEGH" | crc32c of the rest of the page (4) | 0 (4)
//!          16  pool uuid (16)
//!          32  nonce (8) | born (8) | number (4) | mate (4)
//!
//!  header   0  magic "STDYSEGR" | crc32c of the rest of the page (4) | blocks (2) | 0 (2)
//!          16  pool uuid (16)
//!          32  nonce (8) | sequence (8) | number (4) | page in the segment (4) | 0 (8)
//!          64  per block: block (4) | crc32c of its data (4) | version (8)
//!
//!  summary  0  magic "STDYSEGS" | crc32c of the rest of it (4) | pages (4)
//!          16  pool uuid (16)
//!          32  nonce (8) | number (4) | 0 (20)
//!          64  per page: block (4), all ones for none | then per page: version (8)
//! ```
//! The nonce is drawn when a segment is begun: what an earlier use of its place left is never taken
//! for a part of it.

use format::Uuid;

/// Unit of the log: what drives write at once.
pub const PAGE: u64 = 4096;
/// What a header has room for.
pub const BLOCKS_MAX: usize = (PAGE as usize - AT_ENTRIES) / ENTRY;
/// A page of a segment that holds no block.
pub const NO_BLOCK: u32 = u32::MAX;
/// No second place.
pub const NO_MATE: u32 = u32::MAX;

const AT_CRC: usize = 8;
const AT_ENTRIES: usize = 64;
const ENTRY: usize = 16;
const HEAD_MAGIC: &[u8; 8] = b"STDYSEGH";
const RECORD_MAGIC: &[u8; 8] = b"STDYSEGR";
const SUMMARY_MAGIC: &[u8; 8] = b"STDYSEGS";

/// How a segment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub nonce: u64,
    /// Sequence of the log when it was begun: of two that claim a place the later is right.
    pub born: u64,
    pub number: u32,
    /// The place of its second copy, if the medium keeps copies.
    pub mate: u32,
}

/// A block in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub block: u32,
    pub crc: u32,
    /// Sequence of the record that it was first written with: moving does not change it.
    pub version: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub nonce: u64,
    pub sequence: u64,
    pub number: u32,
    pub page: u32,
    pub entries: Vec<Entry>,
}

/// Which block each page of a segment holds, and its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub blocks: Vec<(u32, u64)>,
}

fn seal(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(&bytes[AT_CRC + 4..]);
    bytes[AT_CRC..AT_CRC + 4].copy_from_slice(&crc.to_le_bytes());
}

fn is_sealed(bytes: &[u8], magic: &[u8; 8], pool: &Uuid) -> bool {
    bytes.starts_with(magic)
        && crc32c::crc32c(&bytes[AT_CRC + 4..]) == u32_at(bytes, AT_CRC)
        && bytes[16..32] == pool.0
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

impl Head {
    pub fn encode(&self, pool: &Uuid) -> [u8; PAGE as usize] {
        let mut bytes = [0; PAGE as usize];
        put(&mut bytes, 0, HEAD_MAGIC);
        put(&mut bytes, 16, &pool.0);
        put(&mut bytes, 32, &self.nonce.to_le_bytes());
        put(&mut bytes, 40, &self.born.to_le_bytes());
        put(&mut bytes, 48, &self.number.to_le_bytes());
        put(&mut bytes, 52, &self.mate.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    pub fn decode(pool: &Uuid, bytes: &[u8]) -> Option<Head> {
        let bytes = bytes.get(..PAGE as usize)?;
        is_sealed(bytes, HEAD_MAGIC, pool).then(|| Head {
            nonce: u64_at(bytes, 32),
            born: u64_at(bytes, 40),
            number: u32_at(bytes, 48),
            mate: u32_at(bytes, 52),
        })
    }
}

impl Header {
    pub fn encode(&self, pool: &Uuid) -> [u8; PAGE as usize] {
        assert!((1..=BLOCKS_MAX).contains(&self.entries.len()), "a header holds its entries");
        let mut bytes = [0; PAGE as usize];
        put(&mut bytes, 0, RECORD_MAGIC);
        put(&mut bytes, 12, &(self.entries.len() as u16).to_le_bytes());
        put(&mut bytes, 16, &pool.0);
        put(&mut bytes, 32, &self.nonce.to_le_bytes());
        put(&mut bytes, 40, &self.sequence.to_le_bytes());
        put(&mut bytes, 48, &self.number.to_le_bytes());
        put(&mut bytes, 52, &self.page.to_le_bytes());
        for (at, entry) in self.entries.iter().enumerate() {
            let at = AT_ENTRIES + at * ENTRY;
            put(&mut bytes, at, &entry.block.to_le_bytes());
            put(&mut bytes, at + 4, &entry.crc.to_le_bytes());
            put(&mut bytes, at + 8, &entry.version.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    fn decode(pool: &Uuid, bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..PAGE as usize)?;
        if !is_sealed(bytes, RECORD_MAGIC, pool) {
            return None;
        }
        let count = usize::from(u16::from_le_bytes([bytes[12], bytes[13]]));
        if !(1..=BLOCKS_MAX).contains(&count) {
            return None;
        }
        let entry = |at: usize| {
            let at = AT_ENTRIES + at * ENTRY;
            Entry {
                block: u32_at(bytes, at),
                crc: u32_at(bytes, at + 4),
                version: u64_at(bytes, at + 8),
            }
        };
        Some(Header {
            nonce: u64_at(bytes, 32),
            sequence: u64_at(bytes, 40),
            number: u32_at(bytes, 48),
            page: u32_at(bytes, 52),
            entries: (0..count).map(entry).collect(),
        })
    }

    /// The header at the beginning of these bytes, if it is of this segment and page.
    pub fn of(pool: &Uuid, head: &Head, page: u32, bytes: &[u8]) -> Option<Header> {
        let header = Header::decode(pool, bytes)?;
        let own = (header.nonce, header.number, header.page) == (head.nonce, head.number, page);
        own.then_some(header)
    }

    /// The record at the beginning of these bytes, if it is whole and of this segment and page.
    pub fn whole(pool: &Uuid, head: &Head, page: u32, bytes: &[u8]) -> Option<Header> {
        let header = Header::of(pool, head, page, bytes)?;
        let data = bytes.get(PAGE as usize..(1 + header.entries.len()) * PAGE as usize)?;
        let mut blocks = data.chunks_exact(PAGE as usize).zip(&header.entries);
        blocks.all(|(data, entry)| crc32c::crc32c(data) == entry.crc).then_some(header)
    }
}

/// Pages of the summary of a segment of so many.
pub fn summary_pages(pages: u32) -> u32 {
    (AT_ENTRIES as u64 + u64::from(pages) * 12).div_ceil(PAGE) as u32
}

impl Summary {
    /// All pages of the segment, those that were never written too.
    pub fn encode(&self, pool: &Uuid, head: &Head, pages: u32) -> Vec<u8> {
        assert!(self.blocks.len() <= pages as usize, "a summary is of one segment");
        let mut bytes = vec![0; summary_pages(pages) as usize * PAGE as usize];
        put(&mut bytes, 0, SUMMARY_MAGIC);
        put(&mut bytes, 12, &pages.to_le_bytes());
        put(&mut bytes, 16, &pool.0);
        put(&mut bytes, 32, &head.nonce.to_le_bytes());
        put(&mut bytes, 40, &head.number.to_le_bytes());
        let versions = AT_ENTRIES + 4 * pages as usize;
        for page in 0..pages as usize {
            let (block, version) = self.blocks.get(page).copied().unwrap_or((NO_BLOCK, 0));
            put(&mut bytes, AT_ENTRIES + 4 * page, &block.to_le_bytes());
            put(&mut bytes, versions + 8 * page, &version.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    pub fn decode(pool: &Uuid, head: &Head, pages: u32, bytes: &[u8]) -> Option<Summary> {
        let bytes = bytes.get(..summary_pages(pages) as usize * PAGE as usize)?;
        let own = is_sealed(bytes, SUMMARY_MAGIC, pool)
            && u32_at(bytes, 12) == pages
            && u64_at(bytes, 32) == head.nonce
            && u32_at(bytes, 40) == head.number;
        let versions = AT_ENTRIES + 4 * pages as usize;
        let block = |page: usize| {
            (u32_at(bytes, AT_ENTRIES + 4 * page), u64_at(bytes, versions + 8 * page))
        };
        own.then(|| Summary { blocks: (0..pages as usize).map(block).collect() })
    }

    /// Pages that hold a block: page, block and version.
    pub fn held(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        let pages = (0..).zip(&self.blocks);
        pages.filter(|(_, (block, _))| *block != NO_BLOCK).map(|(at, &(b, v))| (at, b, v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Uuid = Uuid([7; 16]);
    const HEAD: Head = Head { nonce: 99, born: 5, number: 3, mate: 17 };

    fn record() -> Vec<u8> {
        let data = [[1; PAGE as usize], [2; PAGE as usize]].concat();
        let crc = |at: usize| crc32c::crc32c(&data[at * PAGE as usize..][..PAGE as usize]);
        let entry = |at: usize| Entry { block: 40 + at as u32, crc: crc(at), version: 8 };
        let header = Header {
            nonce: HEAD.nonce,
            sequence: 9,
            number: HEAD.number,
            page: 6,
            entries: vec![entry(0), entry(1)],
        };
        [header.encode(&POOL).to_vec(), data].concat()
    }

    #[test]
    fn a_record_is_taken_for_nothing_else() {
        let record = record();
        let whole = |head: &Head, page, bytes: &[u8]| Header::whole(&POOL, head, page, bytes);
        assert_eq!(whole(&HEAD, 6, &record).expect("whole").entries.len(), 2);
        assert_eq!(whole(&HEAD, 7, &record), None);
        assert_eq!(whole(&Head { nonce: 98, ..HEAD }, 6, &record), None);
        assert_eq!(whole(&Head { number: 4, ..HEAD }, 6, &record), None);
        assert_eq!(Header::whole(&Uuid([8; 16]), &HEAD, 6, &record), None);
        assert_eq!(whole(&HEAD, 6, &record[..record.len() - 512]), None);
        for sector in 0..record.len() / 512 {
            let mut torn = record.clone();
            torn[sector * 512..][..512].fill(0xA5);
            assert_eq!(whole(&HEAD, 6, &torn), None, "sector {sector}");
        }
    }

    #[test]
    fn heads_and_summaries_are_read_back_and_damage_is_noticed() {
        let mut head = HEAD.encode(&POOL);
        assert_eq!(Head::decode(&POOL, &head), Some(HEAD));
        head[50] ^= 1;
        assert_eq!(Head::decode(&POOL, &head), None);
        let summary = Summary { blocks: vec![(NO_BLOCK, 0), (NO_BLOCK, 0), (7, 70), (9, 71)] };
        let bytes = summary.encode(&POOL, &HEAD, 400);
        assert_eq!(bytes.len(), 2 * PAGE as usize);
        let read = Summary::decode(&POOL, &HEAD, 400, &bytes).expect("whole");
        assert_eq!(read.held().collect::<Vec<_>>(), [(2, 7, 70), (3, 9, 71)]);
        assert_eq!(Summary::decode(&POOL, &Head { nonce: 1, ..HEAD }, 400, &bytes), None);
        assert_eq!(Summary::decode(&POOL, &HEAD, 399, &bytes), None);
        for sector in 0..bytes.len() / 512 {
            let mut torn = bytes.clone();
            torn[sector * 512 + 100] ^= 1;
            assert_eq!(Summary::decode(&POOL, &HEAD, 400, &torn), None, "sector {sector}");
        }
    }
}
