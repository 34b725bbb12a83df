//! Names of things: pools and drives, volumes, classes, physical blocks, stripes, sector ranges.

use crate::cursor::{Reader, Writer};
use crate::error::{FormatError, check};
use std::fmt;
use std::str::FromStr;

/// Bytes of a sector, the unit of a request.
pub const SECTOR: usize = 512;
/// Bytes of a page, the unit of a device write.
pub const PAGE: usize = 4096;
/// Sectors of the largest block (1 MiB): 11 bits hold any sector of any block.
pub const MAX_BLOCK_SECTORS: u16 = 2048;
/// Pages of the largest block.
pub const MAX_BLOCK_PAGES: u16 = MAX_BLOCK_SECTORS / 8;
/// Longest name of a pool or volume, in bytes.
pub const NAME_MAX: usize = 63;

/// True for a name of 1 to 63 bytes of `A-Z a-z 0-9 . _ -`.
pub fn valid_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(plain)
}

/// What something new may be called: not like a directory, to whoever makes a path of it. Older
/// software let pools and volumes have these names, so they are read.
pub fn valid_new_name(name: &str) -> bool {
    valid_name(name) && !matches!(name, "." | "..")
}

/// Sixteen random bytes that name a pool or a drive.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Marks random bytes as a version 4 UUID.
    pub fn from_random(mut bytes: [u8; 16]) -> Uuid {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Uuid, FormatError> {
        let bad = |value| FormatError::Invalid { field: "uuid", value };
        let bytes = text.as_bytes();
        if bytes.len() != 36 {
            return Err(bad(bytes.len() as u64));
        }
        let mut uuid = [0u8; 16];
        let mut digits = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                check(byte == b'-', "uuid", byte.into())?;
                continue;
            }
            let digit = char::from(byte).to_digit(16).ok_or_else(|| bad(byte.into()))?;
            uuid[digits / 2] = uuid[digits / 2] << 4 | digit as u8;
            digits += 1;
        }
        Ok(Uuid(uuid))
    }
}

/// A volume of the pool. Never used again after the volume is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// A class (width, parity, layout) of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// Fusion logical block number: the name of one physical block, 38 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flbn(pub u64);

impl Flbn {
    pub const BITS: u32 = 38;
    pub const MAX: Flbn = Flbn((1 << Flbn::BITS) - 1);
}

impl fmt::Display for Flbn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "f{}", self.0)
    }
}

/// One stripe: its zone and its number in the zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeId {
    pub zone: u32,
    pub index: u32,
}

impl StripeId {
    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        w.u32(self.zone);
        w.u32(self.index);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<StripeId, FormatError> {
        Ok(StripeId { zone: r.u32()?, index: r.u32()? })
    }
}

impl fmt::Display for StripeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}.{}", self.zone, self.index)
    }
}

/// Sectors `start .. start+len` of one block; never empty, never past 2048.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SectorRange {
    pub start: u16,
    pub len: u16,
}

impl SectorRange {
    /// One past the last sector.
    pub fn end(&self) -> u32 {
        u32::from(self.start) + u32::from(self.len)
    }

    pub(crate) fn validate(&self) -> Result<(), FormatError> {
        let good = self.len > 0 && self.end() <= u32::from(MAX_BLOCK_SECTORS);
        check(good, "sector range", u64::from(self.start) << 16 | u64::from(self.len))
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        w.u16(self.start);
        w.u16(self.len);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<SectorRange, FormatError> {
        Ok(SectorRange { start: r.u16()?, len: r.u16()? })
    }
}

impl fmt::Display for SectorRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.start, self.len)
    }
}

/// Where the first sector of a range lies: which physical block, which sector in it, and whether
/// the block was written as replicas (W) or as part of a RAID stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub flbn: Flbn,
    pub replicated: bool,
    pub sector: u16,
}

impl Place {
    /// Device pages touched by `sectors` (at least 1) sectors that begin at this place.
    pub fn pages(&self, sectors: u16) -> u32 {
        let per_page = (PAGE / SECTOR) as u32;
        let last = u32::from(self.sector) + u32::from(sectors.max(1)) - 1;
        last / per_page - u32::from(self.sector) / per_page + 1
    }

    /// Checks that `sectors` sectors from here stay inside the largest block.
    pub(crate) fn validate(&self, sectors: u16) -> Result<(), FormatError> {
        check(self.flbn <= Flbn::MAX, "flbn", self.flbn.0)?;
        let end = u32::from(self.sector) + u32::from(sectors);
        check(end <= u32::from(MAX_BLOCK_SECTORS), "place sector", self.sector.into())
    }

    /// Bits 0..38 FLBN, 38 W, 39..50 sector.
    pub(crate) fn to_bits(self) -> u64 {
        debug_assert!(self.flbn <= Flbn::MAX && self.sector < MAX_BLOCK_SECTORS);
        self.flbn.0 | u64::from(self.replicated) << 38 | u64::from(self.sector) << 39
    }

    /// Of the low 50 bits; the rest is the caller's.
    pub(crate) fn from_bits(bits: u64) -> Place {
        Place {
            flbn: Flbn(bits & Flbn::MAX.0),
            replicated: bits >> 38 & 1 == 1,
            sector: (bits >> 39 & 0x7ff) as u16,
        }
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        w.u64(self.to_bits());
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Place, FormatError> {
        let bits = r.u64()?;
        check(bits >> 50 == 0, "place", bits)?;
        Ok(Place::from_bits(bits))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.replicated { 'W' } else { 'R' };
        write!(f, "{}:{}{kind}", self.flbn, self.sector)
    }
}
