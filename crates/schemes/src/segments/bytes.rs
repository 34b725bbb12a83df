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
//!          32  nonce (8) | number (4) | 0 (4) | ended (8) | 0 (8)
//!          64  per page: block (4), all ones for none | then per page: version (8)
//!              then per page, if the magic is "STDYSEGC": sum (4); else ended is 0
//! ```
//! The nonce is drawn when a segment is begun: what an earlier use of its place left is never taken
//! for a part of it.

use classical::sums::{UNKNOWN, sum_of_crc};
use format::Uuid;

use super::size::Shape;

/// Unit of the log: what drives write at once.
pub const PAGE: u64 = 4096;
/// What a header has room for.
pub const BLOCKS_MAX: usize = (PAGE as usize - AT_ENTRIES) / ENTRY;
/// A page of a segment that holds no block.
pub const NO_BLOCK: u32 = u32::MAX;
/// No second place.
pub const NO_MATE: u32 = u32::MAX;

const AT_CRC: usize = 8;
const AT_ENDED: usize = 48;
const AT_ENTRIES: usize = 64;
const ENTRY: usize = 16;
const HEAD_MAGIC: &[u8; 8] = b"STDYSEGH";
const RECORD_MAGIC: &[u8; 8] = b"STDYSEGR";
const SUMMARY_MAGIC: &[u8; 8] = b"STDYSEGS";
const SUMS_MAGIC: &[u8; 8] = b"STDYSEGC";

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

/// What a page of a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub block: u32,
    pub version: u64,
    /// `classical::sums::sum_of` the page; not known where summaries have none.
    pub sum: u32,
}

impl Held {
    /// A page that holds no block.
    pub const NOTHING: Held = Held { block: NO_BLOCK, version: 0, sum: UNKNOWN };

    pub fn of(entry: &Entry) -> Held {
        Held { block: entry.block, version: entry.version, sum: sum_of_crc(entry.crc) }
    }
}

/// What each page of a segment holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub pages: Vec<Held>,
    /// Sequence of the last record: later than those of every segment that was emptied into this
    /// one. 0 where summaries do not say.
    pub ended: u64,
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

/// Pages of the summary of a segment.
pub fn summary_pages(shape: Shape) -> u32 {
    let each = if shape.sums { 16 } else { 12 };
    (AT_ENTRIES as u64 + u64::from(shape.pages) * each).div_ceil(PAGE) as u32
}

fn summary_magic(shape: Shape) -> &'static [u8; 8] {
    if shape.sums { SUMS_MAGIC } else { SUMMARY_MAGIC }
}

impl Summary {
    /// Of a segment that was just begun: its first page is the head.
    pub fn begun() -> Summary {
        Summary { pages: vec![Held::NOTHING], ended: 0 }
    }

    /// The next record. Pages before it that no record has hold nothing.
    pub fn add(&mut self, record: &Header) {
        self.pages.resize(record.page as usize + 1, Held::NOTHING);
        self.pages.extend(record.entries.iter().map(Held::of));
        self.ended = record.sequence;
    }

    /// All pages of the segment, those that were never written too.
    pub fn encode(&self, pool: &Uuid, head: &Head, shape: Shape) -> Vec<u8> {
        let pages = shape.pages as usize;
        assert!(self.pages.len() <= pages, "a summary is of one segment");
        let mut bytes = vec![0; summary_pages(shape) as usize * PAGE as usize];
        put(&mut bytes, 0, summary_magic(shape));
        put(&mut bytes, 12, &shape.pages.to_le_bytes());
        put(&mut bytes, 16, &pool.0);
        put(&mut bytes, 32, &head.nonce.to_le_bytes());
        put(&mut bytes, 40, &head.number.to_le_bytes());
        if shape.sums {
            put(&mut bytes, AT_ENDED, &self.ended.to_le_bytes());
        }
        let versions = AT_ENTRIES + 4 * pages;
        let sums = versions + 8 * pages;
        for page in 0..pages {
            let held = self.pages.get(page).copied().unwrap_or(Held::NOTHING);
            put(&mut bytes, AT_ENTRIES + 4 * page, &held.block.to_le_bytes());
            put(&mut bytes, versions + 8 * page, &held.version.to_le_bytes());
            if shape.sums {
                put(&mut bytes, sums + 4 * page, &held.sum.to_le_bytes());
            }
        }
        seal(&mut bytes);
        bytes
    }

    pub fn decode(pool: &Uuid, head: &Head, shape: Shape, bytes: &[u8]) -> Option<Summary> {
        let bytes = bytes.get(..summary_pages(shape) as usize * PAGE as usize)?;
        let own = is_sealed(bytes, summary_magic(shape), pool)
            && u32_at(bytes, 12) == shape.pages
            && u64_at(bytes, 32) == head.nonce
            && u32_at(bytes, 40) == head.number;
        let pages = shape.pages as usize;
        let versions = AT_ENTRIES + 4 * pages;
        let sums = versions + 8 * pages;
        let held = |page: usize| Held {
            block: u32_at(bytes, AT_ENTRIES + 4 * page),
            version: u64_at(bytes, versions + 8 * page),
            sum: if shape.sums { u32_at(bytes, sums + 4 * page) } else { UNKNOWN },
        };
        let ended = if shape.sums { u64_at(bytes, AT_ENDED) } else { 0 };
        own.then(|| Summary { pages: (0..pages).map(held).collect(), ended })
    }

    /// Pages that hold a block, and what they hold.
    pub fn held(&self) -> impl Iterator<Item = (u32, Held)> {
        let pages = (0..).zip(self.pages.iter().copied());
        pages.filter(|(_, held)| held.block != NO_BLOCK)
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
        for sums in [false, true] {
            let shape = Shape { pages: 400, sums };
            let sum = |crc| if sums { crc } else { UNKNOWN };
            let (seven, nine) = (
                Held { block: 7, version: 70, sum: sum(17) },
                Held { block: 9, version: 71, sum: sum(u32::MAX) },
            );
            let ended = if sums { 71 } else { 0 };
            let summary = Summary { pages: vec![Held::NOTHING, Held::NOTHING, seven, nine], ended };
            let bytes = summary.encode(&POOL, &HEAD, shape);
            assert_eq!(bytes.len(), 2 * PAGE as usize);
            let decode =
                |head: &Head, shape, bytes: &[u8]| Summary::decode(&POOL, head, shape, bytes);
            let read = decode(&HEAD, shape, &bytes).expect("whole");
            assert_eq!(read.held().collect::<Vec<_>>(), [(2, seven), (3, nine)]);
            assert_eq!(read.ended, ended);
            assert_eq!(decode(&Head { nonce: 1, ..HEAD }, shape, &bytes), None);
            assert_eq!(decode(&HEAD, Shape { pages: 399, ..shape }, &bytes), None);
            assert_eq!(decode(&HEAD, Shape { sums: !sums, ..shape }, &bytes), None);
            for sector in 0..bytes.len() / 512 {
                let mut torn = bytes.clone();
                torn[sector * 512 + 100] ^= 1;
                assert_eq!(decode(&HEAD, shape, &torn), None, "sector {sector}");
            }
        }
    }
}
