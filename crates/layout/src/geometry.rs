//! Stripe shapes, and the declustered layout: which drive and block holds a position of a stripe
//! (FusionRAID §4.1).
//!
//! A layout is a few *base rows*, each w different drives and a spare, shifted through all n
//! columns by the addition of a group:
//!
//! ```text
//!              column 0     column 1     column 2   ...   column n-1
//! row 0      a b c | s    shifted by 1  shifted by 2
//! row 1      d e f | t        ...                            one cell = one stripe
//!   ...                                                      its w positions, then its spare drive
//! row n-2
//! ```
//!
//! A shift is a permutation of the drives, so in a row every position visits every drive exactly
//! once. Hence block `row * w + position` of each drive belongs to exactly one stripe, and whole
//! rows fill all drives equally.
//!
//! * [`LayoutKind::Mols`] (n a prime power): base row r is `0, r, 2r, ..` in GF(n), which makes
//!   position i the Latin square `L_i(r, c) = i*r + c` of RAID+. Any two drives meet in exactly
//!   w(w-1) of the n(n-1) stripes of a template.
//! * [`LayoutKind::Permuted`] (other n): base rows found by a search; drives
//!   meet almost equally often.
//!
//! Nothing here may ever change what it answers: pools on disk depend on it.

use std::fmt;

use crate::balance::Balance;
use crate::error::LayoutError;
use crate::field::Field;
use crate::group::Group;
use crate::permuted;

/// Fewest drives of a pool: two data and a parity.
pub const DRIVES_MIN: usize = 3;
/// Most drives of a pool: Q tells 255 data positions apart, and a drive fits a byte in the tables.
pub const DRIVES_MAX: usize = 256;

/// A drive of a pool, by its place in the pool's list.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DriveIndex(pub u16);

impl DriveIndex {
    /// As an index of arrays.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for DriveIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many blocks a stripe has, and how many of them are parity. Data comes first, then P, then Q.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct StripeShape {
    pub width: u16,
    pub parity: u8,
}

impl StripeShape {
    /// A stripe of `width` blocks, the last `parity` of them parity.
    pub fn new(width: u16, parity: u8) -> Result<Self, LayoutError> {
        let (blocks, p) = (usize::from(width), usize::from(parity));
        if !(1..=2).contains(&p) {
            return Err(LayoutError::ParityOutOfRange { parity: p });
        }
        if blocks > DRIVES_MAX {
            return Err(LayoutError::WidthOutOfRange { width: blocks });
        }
        if blocks <= p {
            return Err(LayoutError::WidthUnderParity { width: blocks, parity: p });
        }
        Ok(Self { width, parity })
    }

    /// Data blocks of a stripe, k.
    pub fn data(&self) -> usize {
        self.width() - self.parity()
    }

    /// Blocks of a stripe, w.
    pub fn width(&self) -> usize {
        usize::from(self.width)
    }

    /// Parity blocks of a stripe, p.
    pub fn parity(&self) -> usize {
        usize::from(self.parity)
    }
}

impl fmt::Display for StripeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.data(), self.parity())
    }
}

/// How a layout's base rows came to be.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LayoutKind {
    /// Mutually orthogonal Latin squares over GF(n): perfectly balanced.
    Mols,
    /// A searched table developed cyclically: drives equally full, pairs of drives nearly balanced.
    Permuted,
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mols => "orthogonal Latin squares",
            Self::Permuted => "permuted",
        })
    }
}

/// Declustered layout of n drives for stripes of one width.
pub struct Layout {
    width: usize,
    kind: LayoutKind,
    group: Group,
    /// `rows` times `base_columns(n, w)` drives: the stripe and, unless w = n, the spare of
    /// column 0.
    base: Vec<u8>,
}

impl Layout {
    /// The one layout for this number of drives and width.
    pub fn new(drives: usize, width: usize) -> Result<Self, LayoutError> {
        check(drives, width)?;
        Ok(match Field::of_order(drives) {
            Some(field) => Self::mols(&field, drives, width),
            None => Self::permuted(drives, width),
        })
    }

    fn mols(field: &Field, drives: usize, width: usize) -> Self {
        let squares = base_columns(drives, width);
        // Row 0 is left out: there all squares agree, and its stripes would lie on one drive.
        let row = |r| (0..squares).map(move |i| field.mul(i, r) as u8);
        let base = (1..drives).flat_map(row).collect();
        let group = Group::of_field(field.prime(), field.degree());
        Self { width, kind: LayoutKind::Mols, group, base }
    }

    fn permuted(drives: usize, width: usize) -> Self {
        let base = permuted::base_rows(drives, width);
        Self { width, kind: LayoutKind::Permuted, group: Group::cyclic(drives), base }
    }

    pub fn kind(&self) -> LayoutKind {
        self.kind
    }

    /// Drives of the pool, n.
    pub fn drives(&self) -> usize {
        self.group.order()
    }

    /// Blocks of a stripe, w.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows of a template: n-1.
    pub fn rows(&self) -> usize {
        self.drives() - 1
    }

    /// Stripes after which the layout repeats: n(n-1).
    pub fn stripes_per_template(&self) -> usize {
        self.drives() * self.rows()
    }

    /// Drive of a position (0..w) of a stripe. Templates repeat, so any stripe number will do.
    #[inline]
    pub fn drive(&self, stripe: u32, pos: usize) -> DriveIndex {
        assert!(pos < self.width, "a stripe has positions 0 to {}, not {pos}", self.width - 1);
        self.square(stripe, pos)
    }

    /// Drives of all positions of a stripe, in order.
    pub fn drives_of(&self, stripe: u32) -> impl ExactSizeIterator<Item = DriveIndex> + '_ {
        (0..self.width).map(move |pos| self.square(stripe, pos))
    }

    /// Which block of its drive a position of a stripe is, counted from the start of the zone.
    #[inline]
    pub fn block_on_drive(&self, stripe: u32, pos: usize) -> u32 {
        assert!(pos < self.width, "a stripe has positions 0 to {}, not {pos}", self.width - 1);
        stripe / self.drives() as u32 * self.width as u32 + pos as u32
    }

    /// A drive that isn't in the stripe, for rebuilding one of its blocks. Spares of one failed
    /// drive's stripes spread over all other drives. None if the stripe uses every drive.
    pub fn spare(&self, stripe: u32) -> Option<DriveIndex> {
        (self.width < self.drives()).then(|| self.square(stripe, self.width))
    }

    /// Which stripe and position lives at a block of a drive: the inverse of [`drive`](Self::drive)
    /// and [`block_on_drive`](Self::block_on_drive). The block must be one that some stripe number
    /// can reach.
    pub fn at(&self, drive: DriveIndex, block: u32) -> (u32, usize) {
        assert!(drive.index() < self.drives(), "there is no drive {drive}");
        let (row, pos) = (block / self.width as u32, block as usize % self.width);
        let column = self.group.sub(drive.0, self.base(row, pos));
        (row * self.drives() as u32 + u32::from(column), pos)
    }

    /// How evenly pairs of drives share stripes.
    pub fn balance(&self) -> Balance {
        Balance::of(self)
    }

    /// Fingerprint of the whole table. It's recorded on disk, so that a program whose algorithm
    /// differs refuses the pool instead of reading wrong blocks.
    pub fn digest(&self) -> u32 {
        let n = self.drives() as u16;
        let header =
            [n, self.width as u16, self.kind as u16].into_iter().flat_map(u16::to_le_bytes);
        // The base rows and the addition together are the whole table.
        let sums = (0..n).flat_map(|a| (0..n).map(move |b| self.group.add(a, b) as u8));
        fnv1a(header.chain(self.base.iter().copied()).chain(sums))
    }

    /// Members and spare of a row in column 0.
    pub(crate) fn base_row(&self, row: usize) -> (&[u8], Option<u8>) {
        let columns = base_columns(self.drives(), self.width);
        let (members, spare) = self.base[row * columns..][..columns].split_at(self.width);
        (members, spare.first().copied())
    }

    /// The distance between two drives, as the layout's group sees it.
    pub(crate) fn difference(&self, a: u8, b: u8) -> usize {
        usize::from(self.group.sub(u16::from(a), u16::from(b)))
    }

    /// Entry of square `square` (w is the spare's) in the cell of a stripe.
    #[inline]
    fn square(&self, stripe: u32, square: usize) -> DriveIndex {
        let n = self.drives() as u32;
        let (row, column) = (stripe / n, stripe % n);
        DriveIndex(self.group.add(self.base(row, square), column as u16))
    }

    #[inline]
    fn base(&self, row: u32, square: usize) -> u16 {
        let columns = base_columns(self.drives(), self.width);
        u16::from(self.base[row as usize % self.rows() * columns + square])
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layout({} of {} drives, {})", self.width, self.drives(), self.kind)
    }
}

/// Entries of a base row: the stripe, and its spare if there is a drive left for it.
fn base_columns(drives: usize, width: usize) -> usize {
    drives.min(width + 1)
}

fn check(drives: usize, width: usize) -> Result<(), LayoutError> {
    if drives < DRIVES_MIN {
        return Err(LayoutError::TooFewDrives { drives });
    }
    if drives > DRIVES_MAX {
        return Err(LayoutError::TooManyDrives { drives });
    }
    if width < 2 {
        return Err(LayoutError::WidthOutOfRange { width });
    }
    if width > drives {
        return Err(LayoutError::WidthOverDrives { width, drives });
    }
    Ok(())
}

/// FNV-1a, 32 bits: it has to notice a change, not to withstand an attacker.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
