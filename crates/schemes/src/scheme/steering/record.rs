//! Bytes of the staging space.
//!
//! ```text
//!  head, two pages on every drive, written in turn
//!      0  magic "STDYSTH1" | crc32c of the rest (4) | drives (4)
//!     16  pool uuid (16)
//!     32  sequence (8)
//!     40  per drive: word (8) = epoch × 2, + 1 while a dedicated drive holds its writes
//!   4056  sequence of the last head that every drive took (8)
//!   4064  number (8) | pool uuid of the array in the staging space (16)
//!   4088  lost drive whose bytes are there, + 1 (2) | group that has it (2) | moving (4)
//!
//!  record, at a page of the staging space
//!      0  magic "STDYSTR1" | crc32c of the header (4) | crc32c of the data (4)
//!     16  pool uuid (16)
//!     32  sequence (8)
//!     40  epoch of the drive it was meant for (8)
//!     48  D_Offset: byte of that drive (8)
//!     56  R_Offset: byte of this staging space where the record lies (8)
//!     64  Length (4) | Flag (4): 1, a redirected write
//!     72  drive it was meant for (2) | drive it lies on (2) | 0 to the end of the page
//!   4096  data
//! ```
//! Of the heads of all drives the greatest word of each drive counts: words only grow. So does the
//! number; what the head with the greatest says of the lost drive counts. Records of an epoch that
//! is over are void. A drive whose own heads are older than the last that every drive took is out
//! of date: an image of it from before, or one that the others went on without. A record says where
//! it lies, so the bytes of a record that a client writes as data are not taken for one.

use format::Uuid;
use io::{Buf, BufMut};

pub const PAGE: u64 = 4096;
/// Two pages: one is whole while the other is written.
pub const HEADS: u64 = 2 * PAGE;
/// Drives whose words fit a head.
pub const DRIVES_MAX: usize = (AT_TAKEN - AT_WORDS) / 8;

const HEAD_MAGIC: &[u8; 8] = b"STDYSTH1";
const RECORD_MAGIC: &[u8; 8] = b"STDYSTR1";
const AT_WORDS: usize = 40;
const AT_TAKEN: usize = AT_SPARE - 8;
const AT_SPARE: usize = PAGE as usize - 32;
const WRITE: u32 = 1;
/// Far above the largest write to a drive of an in-place array: what says more is damaged.
const LEN_MAX: u32 = 4 << 20;

/// Where the bytes of a lost drive are, as the heads tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spared {
    /// Grows with every change.
    pub number: u64,
    /// Whose; `None`: of no drive.
    pub place: Option<usize>,
    /// The group whose staging space they are in, and the array there.
    pub group: usize,
    pub pool: Uuid,
    /// A new drive has its place and is to have them.
    pub moving: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub sequence: u64,
    pub epoch: u64,
    pub target: usize,
    pub d_offset: u64,
    pub holder: usize,
    pub r_offset: u64,
    pub len: u64,
    pub data_crc: u32,
}

impl Header {
    /// Bytes of the record in the staging space.
    pub fn span(&self) -> u64 {
        span(self.len)
    }
}

/// Bytes that a record of so much data takes.
pub fn span(len: u64) -> u64 {
    PAGE + len.next_multiple_of(PAGE)
}

fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    page[at..at + bytes.len()].copy_from_slice(bytes);
}

fn u16_at(page: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(page[at..at + 2].try_into().expect("2 bytes"))
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"))
}

/// Header page and data, filled up with zeroes to a page.
pub fn encode(pool: &Uuid, header: &Header, data: &[u8]) -> Buf {
    let mut whole = BufMut::zeroed(header.span() as usize);
    whole[PAGE as usize..][..data.len()].copy_from_slice(data);
    let page = &mut whole[..PAGE as usize];
    page[..8].copy_from_slice(RECORD_MAGIC);
    put(page, 12, &header.data_crc.to_le_bytes());
    put(page, 16, &pool.0);
    put(page, 32, &header.sequence.to_le_bytes());
    put(page, 40, &header.epoch.to_le_bytes());
    put(page, 48, &header.d_offset.to_le_bytes());
    put(page, 56, &header.r_offset.to_le_bytes());
    put(page, 64, &(header.len as u32).to_le_bytes());
    put(page, 68, &WRITE.to_le_bytes());
    put(page, 72, &(header.target as u16).to_le_bytes());
    put(page, 74, &(header.holder as u16).to_le_bytes());
    let crc = crc32c::crc32c(&page[12..]);
    put(page, 8, &crc.to_le_bytes());
    whole.freeze()
}

/// The header on a page at `r_offset` of drive `holder`, if it is one of this pool. Whether the
/// data is whole is for the reader to see.
pub fn decode(pool: &Uuid, page: &[u8], holder: usize, r_offset: u64) -> Option<Header> {
    let ours = page.len() == PAGE as usize && page.starts_with(RECORD_MAGIC);
    if !ours || page[16..32] != pool.0 || crc32c::crc32c(&page[12..]) != u32_at(page, 8) {
        return None;
    }
    let len = u32_at(page, 64);
    let here = u64_at(page, 56) == r_offset && usize::from(u16_at(page, 74)) == holder;
    let sane = len > 0 && len <= LEN_MAX && len.is_multiple_of(512) && u32_at(page, 68) == WRITE;
    (here && sane).then(|| Header {
        sequence: u64_at(page, 32),
        epoch: u64_at(page, 40),
        target: u16_at(page, 72).into(),
        d_offset: u64_at(page, 48),
        holder,
        r_offset,
        len: len.into(),
        data_crc: u32_at(page, 12),
    })
}

/// What a head says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub sequence: u64,
    pub words: Vec<u64>,
    pub spared: Spared,
    /// Of the last head that every drive took that was there. 0 in pools of older software.
    pub taken: u64,
}

pub fn encode_head(pool: &Uuid, head: &Head) -> Buf {
    let Head { sequence, words, spared, taken } = head;
    assert!(words.len() <= DRIVES_MAX, "a page holds the words");
    let mut page = vec![0; PAGE as usize];
    page[..8].copy_from_slice(HEAD_MAGIC);
    put(&mut page, 12, &(words.len() as u32).to_le_bytes());
    put(&mut page, 16, &pool.0);
    put(&mut page, 32, &sequence.to_le_bytes());
    for (at, word) in words.iter().enumerate() {
        put(&mut page, AT_WORDS + at * 8, &word.to_le_bytes());
    }
    put(&mut page, AT_TAKEN, &taken.to_le_bytes());
    put(&mut page, AT_SPARE, &spared.number.to_le_bytes());
    put(&mut page, AT_SPARE + 8, &spared.pool.0);
    let place = spared.place.map_or(0, |place| place as u16 + 1);
    put(&mut page, AT_SPARE + 24, &place.to_le_bytes());
    put(&mut page, AT_SPARE + 26, &(spared.group as u16).to_le_bytes());
    put(&mut page, AT_SPARE + 28, &u32::from(spared.moving).to_le_bytes());
    let crc = crc32c::crc32c(&page[12..]);
    put(&mut page, 8, &crc.to_le_bytes());
    Buf::from_slice(&page)
}

pub fn decode_head(pool: &Uuid, page: &[u8], drives: usize) -> Option<Head> {
    let ours = page.len() == PAGE as usize && page.starts_with(HEAD_MAGIC);
    if !ours || page[16..32] != pool.0 || crc32c::crc32c(&page[12..]) != u32_at(page, 8) {
        return None;
    }
    let place = usize::from(u16_at(page, AT_SPARE + 24));
    let fits = u32_at(page, 12) as usize == drives && drives <= DRIVES_MAX && place <= drives;
    fits.then(|| Head {
        sequence: u64_at(page, 32),
        words: (0..drives).map(|at| u64_at(page, AT_WORDS + at * 8)).collect(),
        spared: Spared {
            number: u64_at(page, AT_SPARE),
            place: place.checked_sub(1),
            group: u16_at(page, AT_SPARE + 26).into(),
            pool: Uuid(page[AT_SPARE + 8..AT_SPARE + 24].try_into().expect("16 bytes")),
            moving: u32_at(page, AT_SPARE + 28) == 1,
        },
        taken: u64_at(page, AT_TAKEN),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Uuid = Uuid([7; 16]);

    fn header(data: &[u8]) -> Header {
        Header {
            sequence: 9,
            epoch: 3,
            target: 2,
            d_offset: 77 * PAGE,
            holder: 4,
            r_offset: 5 * PAGE,
            len: data.len() as u64,
            data_crc: crc32c::crc32c(data),
        }
    }

    #[test]
    fn a_record_is_read_where_it_was_written_and_nowhere_else() {
        let data = [5; 1536];
        let whole = encode(&POOL, &header(&data), &data);
        assert_eq!(whole.len() as u64, 2 * PAGE);
        let page = &whole[..PAGE as usize];
        assert_eq!(decode(&POOL, page, 4, 5 * PAGE), Some(header(&data)));
        assert_eq!(decode(&POOL, page, 4, 6 * PAGE), None);
        assert_eq!(decode(&POOL, page, 3, 5 * PAGE), None);
        assert_eq!(decode(&Uuid([8; 16]), page, 4, 5 * PAGE), None);
        for at in [0, 9, 13, 40, 64, 73, 4000] {
            let mut torn = page.to_vec();
            torn[at] ^= 1;
            assert_eq!(decode(&POOL, &torn, 4, 5 * PAGE), None, "byte {at}");
        }
    }

    #[test]
    fn a_head_tells_the_word_of_each_drive() {
        let spared =
            Spared { number: 3, place: Some(2), group: 1, pool: Uuid([9; 16]), moving: true };
        let head = Head { sequence: 6, words: vec![4, 7, 0], spared, taken: 5 };
        let page = encode_head(&POOL, &head);
        assert_eq!(decode_head(&POOL, &page, 3), Some(head));
        assert_eq!(decode_head(&POOL, &page, 4), None);
        for at in [41, 4056, 4070, 4095] {
            let mut torn = page.to_vec();
            torn[at] ^= 1;
            assert_eq!(decode_head(&POOL, &torn, 3), None, "byte {at}");
        }
    }
}
