//! What a written sector holds: which write it belongs to, filler, and a checksum over both.
//!
//! ```text
//! 0      8          16       24            32               40       504
//! magic  sequence   sector   first sector  number of        filler   checksum
//!                            of the write  sectors
//! ```
//! The checksum is none that a product uses. All bytes that end with their own CRC have the same
//! CRC: it tells nothing about them.

use std::fmt;

use super::random::mix;

pub const SECTOR: usize = 512;
pub const SECTORS_PER_PAGE: u64 = 8;

const MAGIC: u64 = u64::from_le_bytes(*b"flushchk");
const CHECKSUM_AT: usize = 504;
const FILLER_AT: usize = 40;

/// One write request. Sequence numbers start at 1 and rise within a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub sequence: u64,
    pub first: u64,
    pub count: u64,
}

impl Stamp {
    pub fn sectors(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }
}

/// What a sector turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Zero,
    Written(Stamp),
    /// One of our sectors that belongs elsewhere.
    Elsewhere(u64, Stamp),
    /// Neither zero nor one of our sectors.
    Garbage,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Zero => write!(f, "zeroes"),
            Found::Written(stamp) => write!(f, "write {}", stamp.sequence),
            Found::Elsewhere(sector, stamp) => {
                write!(f, "sector {sector} of write {}", stamp.sequence)
            }
            Found::Garbage => write!(f, "garbage"),
        }
    }
}

/// The bytes of `sector` as `stamp` writes it.
pub fn fill(bytes: &mut [u8], stamp: Stamp, sector: u64) {
    assert_eq!(bytes.len(), SECTOR);
    assert!(stamp.sectors().contains(&sector));
    let header = [MAGIC, stamp.sequence, sector, stamp.first, stamp.count];
    for (word, value) in bytes.chunks_exact_mut(8).zip(header) {
        word.copy_from_slice(&value.to_le_bytes());
    }
    let mut state = mix(stamp.sequence ^ sector.rotate_left(32));
    for word in bytes[FILLER_AT..].chunks_exact_mut(8) {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        word.copy_from_slice(&state.to_le_bytes());
    }
    let checksum = checksum(&bytes[..CHECKSUM_AT]);
    bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

fn checksum(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(0, |state, word| mix(state ^ word).wrapping_add(1))
}

/// What was found where `sector` should be.
pub fn read(bytes: &[u8], sector: u64) -> Found {
    assert_eq!(bytes.len(), SECTOR);
    if bytes.iter().all(|&byte| byte == 0) {
        return Found::Zero;
    }
    let word = |index: usize| {
        let bytes = bytes[index * 8..].first_chunk().expect("five words fit a sector");
        u64::from_le_bytes(*bytes)
    };
    let stored = bytes.last_chunk().expect("a sector has eight bytes");
    let stamp = Stamp { sequence: word(1), first: word(3), count: word(4) };
    let intact = word(0) == MAGIC && u64::from_le_bytes(*stored) == checksum(&bytes[..CHECKSUM_AT]);
    match word(2) {
        _ if !intact => Found::Garbage,
        place if place == sector => Found::Written(stamp),
        place => Found::Elsewhere(place, stamp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { sequence: 7, first: 100, count: 3 };

    fn sector(sector: u64) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        fill(&mut bytes, STAMP, sector);
        bytes
    }

    #[test]
    fn what_is_filled_is_read() {
        assert_eq!(read(&sector(101), 101), Found::Written(STAMP));
        assert_eq!(read(&[0; SECTOR], 101), Found::Zero);
    }

    #[test]
    fn every_flipped_bit_and_every_wrong_place_is_garbage() {
        for bit in 0..SECTOR * 8 {
            let mut bytes = sector(101);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&bytes, 101), Found::Garbage, "bit {bit}");
        }
        assert_eq!(read(&sector(101), 102), Found::Elsewhere(101, STAMP));
    }

    /// Once a sector ended with its own CRC32C, and so all sectors had the same: no checksum of the
    /// product could tell old data, or another place's, from what should be there.
    #[test]
    fn crcs_of_sectors_differ() {
        let crcs = [100, 101, 102].map(|at| crc32c::crc32c(&sector(at)));
        assert!(crcs[0] != crcs[1] && crcs[1] != crcs[2] && crcs[0] != crcs[2], "{crcs:x?}");
    }
}
