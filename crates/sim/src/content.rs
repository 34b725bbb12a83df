//! What sectors hold: bytes that say which write they are of and where they belong, so that a
//! stale or misplaced sector is recognised and can be named.

use std::fmt;

use io::rng::mix;

pub const SECTOR: usize = 512;
const WORDS: usize = SECTOR / 8;
const MAGIC: u64 = 0x5354_4541_4459_0001;
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Names one write of one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub volume: u32,
    pub version: u32,
    pub sector: u64,
}

/// What a sector turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Zeroes,
    Data(Stamp),
    /// Begins like this write's sector, but is not it.
    Damaged(Stamp),
    Garbage(u64),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Zeroes => f.write_str("zeroes"),
            Found::Data(Stamp { volume, version, sector }) => {
                write!(f, "sector {sector} of volume #{volume} as written by w{version}")
            }
            Found::Damaged(Stamp { volume, version, sector }) => {
                write!(f, "a damaged sector {sector} of volume #{volume} of w{version}")
            }
            Found::Garbage(first) => write!(f, "garbage ({first:#018x}...)"),
        }
    }
}

impl Stamp {
    fn words(self) -> impl Iterator<Item = u64> {
        let names = u64::from(self.volume) << 32 | u64::from(self.version);
        let seed = mix(names ^ self.sector.rotate_left(40));
        let head = [MAGIC, names, self.sector];
        let tail =
            (head.len()..WORDS).map(move |at| seed.wrapping_add(STEP.wrapping_mul(at as u64)));
        head.into_iter().chain(tail)
    }

    pub fn store(self, out: &mut [u8]) {
        for (bytes, word) in out.chunks_exact_mut(8).zip(self.words()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
}

/// Says what a sector is.
pub fn identify(bytes: &[u8]) -> Found {
    assert_eq!(bytes.len(), SECTOR, "one sector at a time");
    if word(bytes, 0) != MAGIC {
        let zeroes = bytes.iter().all(|&byte| byte == 0);
        return if zeroes { Found::Zeroes } else { Found::Garbage(word(bytes, 0)) };
    }
    let names = word(bytes, 1);
    let stamp =
        Stamp { volume: (names >> 32) as u32, version: names as u32, sector: word(bytes, 2) };
    let whole = stamp.words().enumerate().all(|(at, expected)| word(bytes, at) == expected);
    if whole { Found::Data(stamp) } else { Found::Damaged(stamp) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sector_is_recognised_and_damage_is_seen() {
        let stamp = Stamp { volume: 2, version: 77, sector: 123_456 };
        let mut bytes = [0; SECTOR];
        assert_eq!(identify(&bytes), Found::Zeroes);
        stamp.store(&mut bytes);
        assert_eq!(identify(&bytes), Found::Data(stamp));
        bytes[511] ^= 1;
        assert_eq!(identify(&bytes), Found::Damaged(stamp));
        bytes[0] ^= 1;
        assert!(matches!(identify(&bytes), Found::Garbage(_)));
    }
}
