//! Where each byte of an in-place array lies.
//!
//! ```text
//!  raid50, two groups of 4 (3+1)       stripe s: group s % 2, row s / 2
//!
//!          group 0                 group 1
//!  row 0   a0  a1  a2  P           b0  b1  b2  P       stripes 0 and 1
//!  row 1   c1  c2  P   c0          d1  d2  P   d0      2 and 3
//!  row 2   e2  P   e0  e1          ...
//! ```
//! Parity moves one drive to the left with every row and data follows it round (left-symmetric),
//! so that a long read visits all drives in turn; of a group with a parity drive (RAID4) the last
//! drive has all of it. A mirror's stripe is one chunk on all drives of its group. One address has
//! one place for ever: nothing here keeps state.

use std::fmt;
use std::ops::Range;

/// What a group does against the loss of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// Every drive of the group holds the same.
    Mirror,
    /// So many parity chunks in a stripe: 0, 1 (P) or 2 (P and Q).
    Parity(usize),
    /// One parity chunk in a stripe, always on the last drive of the group, which may be another
    /// kind of drive than those with data: RAID4.
    ParityDrive,
}

/// The shape of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    pub redundancy: Redundancy,
    pub drives: usize,
    /// Drives of a group; divides `drives`.
    pub width: usize,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// Chunks of each drive.
    pub rows: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    #[error("{drives} drives do not divide into groups of {width}")]
    Groups { drives: usize, width: usize },
    #[error("a group of {width} drives is too narrow for this scheme: at least {least}")]
    Narrow { width: usize, least: usize },
    #[error("a group of {width} drives is too wide: at most {most}")]
    Wide { width: usize, most: usize },
    #[error("a chunk of {chunk} bytes: it must be a power of two from 4096 to 1 MiB")]
    Chunk { chunk: u64 },
    #[error("the drives are too small for a single row of chunks")]
    Small,
}

/// Q tells 255 data chunks apart; far below that a rebuild reads too much.
pub const WIDTH_MAX: usize = 64;
const CHUNK_MAX: u64 = 1 << 20;

/// A part of one data chunk of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which of the stripe's data chunks.
    pub position: usize,
    /// Bytes within the chunk.
    pub start: u64,
    pub end: u64,
}

#[expect(clippy::len_without_is_empty, reason = "no piece is empty")]
impl Piece {
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    pub fn covers(&self, range: &Range<u64>) -> bool {
        self.start <= range.start && range.end <= self.end
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}[{}..{}]", self.position, self.start, self.end)
    }
}

/// What a request touches of one stripe: pieces in the order of its bytes, each with the first
/// byte of the request that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub stripe: u64,
    pub pieces: Vec<(Piece, u64)>,
}

/// For people: `RAID6 4+2`, `RAID5 3+1, 2 groups`, `mirrors of 2, 3 groups`.
impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.redundancy {
            Redundancy::Mirror => write!(f, "mirrors of {}", self.width)?,
            Redundancy::Parity(0) => write!(f, "stripes over {}", self.width)?,
            Redundancy::Parity(1) => write!(f, "RAID5 {}+1", self.data())?,
            Redundancy::Parity(parity) => write!(f, "RAID6 {}+{parity}", self.data())?,
            Redundancy::ParityDrive => write!(f, "RAID4 {}+1", self.data())?,
        }
        if self.groups() > 1 { write!(f, ", {} groups", self.groups()) } else { Ok(()) }
    }
}

/// Refuses what is no size of a chunk.
pub fn check_chunk(chunk: u64) -> Result<(), GridError> {
    match chunk.is_power_of_two() && (4096..=CHUNK_MAX).contains(&chunk) {
        true => Ok(()),
        false => Err(GridError::Chunk { chunk }),
    }
}

impl Grid {
    /// The same bytes lie at the same places in both, as far as both go: drives may be larger.
    pub fn is_like(&self, other: &Grid) -> bool {
        Grid { rows: other.rows, ..*self } == *other
    }

    pub fn check(&self) -> Result<(), GridError> {
        let Grid { drives, width, chunk, rows, .. } = *self;
        let least = match self.redundancy {
            Redundancy::Mirror => 2,
            Redundancy::Parity(0) => 1,
            Redundancy::Parity(_) | Redundancy::ParityDrive => self.parity() + 2,
        };
        if width < least {
            return Err(GridError::Narrow { width, least });
        }
        if width > WIDTH_MAX {
            return Err(GridError::Wide { width, most: WIDTH_MAX });
        }
        if !drives.is_multiple_of(width) {
            return Err(GridError::Groups { drives, width });
        }
        check_chunk(chunk)?;
        if rows == 0 { Err(GridError::Small) } else { Ok(()) }
    }

    pub fn groups(&self) -> usize {
        self.drives / self.width
    }

    /// Data chunks of a stripe.
    pub fn data(&self) -> usize {
        match self.redundancy {
            Redundancy::Mirror => 1,
            Redundancy::Parity(_) | Redundancy::ParityDrive => self.width - self.parity(),
        }
    }

    /// Drives a group can lose.
    pub fn tolerance(&self) -> usize {
        match self.redundancy {
            Redundancy::Mirror => self.width - 1,
            Redundancy::Parity(_) | Redundancy::ParityDrive => self.parity(),
        }
    }

    /// Parity chunks of a stripe.
    pub fn parity(&self) -> usize {
        match self.redundancy {
            Redundancy::Mirror => 0,
            Redundancy::Parity(parity) => parity,
            Redundancy::ParityDrive => 1,
        }
    }

    pub fn stripes(&self) -> u64 {
        self.rows * self.groups() as u64
    }

    pub fn stripe_bytes(&self) -> u64 {
        self.data() as u64 * self.chunk
    }

    /// Bytes the array offers.
    pub fn size(&self) -> u64 {
        self.stripes() * self.stripe_bytes()
    }

    pub fn group_of(&self, drive: usize) -> usize {
        drive / self.width
    }

    /// The parity of a stripe that lies on a drive: 0 is P, 1 is Q.
    pub fn parity_on(&self, drive: usize, stripe: u64) -> Option<usize> {
        (0..self.parity()).find(|parity| self.place(stripe, self.data() + parity).0 == drive)
    }

    /// The drive of a member of a stripe, and the row: data chunks come first, then P, then Q; of a
    /// mirror, its copies.
    pub fn place(&self, stripe: u64, member: usize) -> (usize, u64) {
        let groups = self.groups() as u64;
        let (group, row) = ((stripe % groups) as usize, stripe / groups);
        let turn = (row % self.width as u64) as usize;
        let within = match self.redundancy {
            Redundancy::Mirror | Redundancy::Parity(0) | Redundancy::ParityDrive => member,
            Redundancy::Parity(parity) => {
                let first = self.width - 1 - turn;
                let after = match member.checked_sub(self.data()) {
                    Some(parity) => parity,
                    None => parity + member,
                };
                (first + after) % self.width
            }
        };
        (group * self.width + within, row)
    }

    /// A request, stripe by stripe.
    pub fn split(&self, offset: u64, len: u64) -> Vec<Share> {
        let (mut shares, mut at): (Vec<Share>, u64) = (Vec::new(), offset);
        while at < offset + len {
            let chunk = at / self.chunk;
            let (stripe, position) = (chunk / self.data() as u64, chunk % self.data() as u64);
            let start = at % self.chunk;
            let end = self.chunk.min(start + offset + len - at);
            let piece = Piece { position: position as usize, start, end };
            match shares.last_mut().filter(|share| share.stripe == stripe) {
                Some(share) => share.pieces.push((piece, at - offset)),
                None => shares.push(Share { stripe, pieces: vec![(piece, at - offset)] }),
            }
            at += piece.len();
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn grids() -> impl Strategy<Value = Grid> {
        let kind = prop_oneof![
            Just(Redundancy::Mirror),
            Just(Redundancy::ParityDrive),
            (0usize..3).prop_map(Redundancy::Parity)
        ];
        (kind, 1usize..4, 2usize..8, 0u32..3, 1u64..40).prop_map(
            |(redundancy, groups, more, chunk, rows)| {
                let width = match redundancy {
                    Redundancy::Mirror => more,
                    Redundancy::Parity(parity) => more + parity,
                    Redundancy::ParityDrive => more + 1,
                };
                Grid { redundancy, drives: groups * width, width, chunk: 4096 << chunk, rows }
            },
        )
    }

    proptest! {
        /// Every chunk of every drive belongs to one member of one stripe.
        #[test]
        fn places_are_all_different_and_fill_the_drives(grid in grids()) {
            grid.check().unwrap();
            let mut seen = BTreeSet::new();
            for stripe in 0..grid.stripes() {
                let group = BTreeSet::from_iter(
                    (0..grid.width).map(|member| grid.group_of(grid.place(stripe, member).0)));
                prop_assert_eq!(group.len(), 1);
                for member in 0..grid.width {
                    prop_assert!(seen.insert(grid.place(stripe, member)));
                }
            }
            prop_assert_eq!(seen.len() as u64, grid.rows * grid.drives as u64);
        }

        /// Byte by byte (in sectors) the shares of a request are the request.
        #[test]
        fn shares_are_the_request(grid in grids(), a in 0u64..1000, b in 1u64..300) {
            let size = grid.size();
            let offset = a * 512 % size;
            let len = (b * 512).min(size - offset);
            let mut at = 0;
            for share in grid.split(offset, len) {
                for (piece, from) in share.pieces {
                    prop_assert_eq!(from, at);
                    let first = share.stripe * grid.stripe_bytes()
                        + piece.position as u64 * grid.chunk + piece.start;
                    prop_assert_eq!(first, offset + at);
                    prop_assert!(piece.end <= grid.chunk && piece.len() > 0);
                    at += piece.len();
                }
            }
            prop_assert_eq!(at, len);
        }
    }

    #[test]
    fn parity_turns_to_the_left_and_data_follows() {
        let grid =
            Grid { redundancy: Redundancy::Parity(1), drives: 4, width: 4, chunk: 4096, rows: 4 };
        let row = |stripe| (0..4).map(|member| grid.place(stripe, member).0).collect::<Vec<_>>();
        assert_eq!(row(0), [0, 1, 2, 3]);
        assert_eq!(row(1), [3, 0, 1, 2]);
        assert_eq!(row(2), [2, 3, 0, 1]);
    }

    #[test]
    fn a_parity_drive_has_all_parity_and_nothing_else() {
        let redundancy = Redundancy::ParityDrive;
        let grid = Grid { redundancy, drives: 8, width: 4, chunk: 4096, rows: 3 };
        let row = |stripe| (0..4).map(|member| grid.place(stripe, member).0).collect::<Vec<_>>();
        assert!((0..6).step_by(2).all(|stripe| row(stripe) == [0, 1, 2, 3]));
        assert!((1..6).step_by(2).all(|stripe| row(stripe) == [4, 5, 6, 7]));
        assert_eq!((grid.data(), grid.parity(), grid.tolerance()), (3, 1, 1));
        assert_eq!(grid.to_string(), "RAID4 3+1, 2 groups");
        let narrow = Grid { drives: 2, width: 2, ..grid };
        assert_eq!(narrow.check(), Err(GridError::Narrow { width: 2, least: 3 }));
    }

    #[test]
    fn shapes_that_make_no_sense_are_refused() {
        let good =
            Grid { redundancy: Redundancy::Parity(2), drives: 8, width: 4, chunk: 65536, rows: 1 };
        assert_eq!(good.check(), Ok(()));
        assert_eq!(
            Grid { drives: 9, ..good }.check(),
            Err(GridError::Groups { drives: 9, width: 4 })
        );
        assert_eq!(
            Grid { drives: 3, width: 3, ..good }.check(),
            Err(GridError::Narrow { width: 3, least: 4 })
        );
        assert_eq!(Grid { chunk: 5000, ..good }.check(), Err(GridError::Chunk { chunk: 5000 }));
        assert_eq!(Grid { rows: 0, ..good }.check(), Err(GridError::Small));
    }
}
