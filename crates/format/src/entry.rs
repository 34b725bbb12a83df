//! Entries of the block map: where a logical block is, and where its patched sectors are.
//!
//! ```text
//! BMT entry, 5 bytes little-endian        patch, 10 bytes little-endian
//!   bit 39   W: base is replicated          bits 72..80  zero
//!   bit 38   P: patched                     bits 61..72  range length - 1
//!   0..38    FLBN of the base, or with P    bits 50..61  range start
//!            the number of a patch list     bits 39..50  sector in the physical block
//!   all ones: unmapped, reads as zero       bit  38      W
//!                                           bits 0..38   FLBN
//! ```

use crate::error::{FormatError, check};
use crate::ids::{Flbn, MAX_BLOCK_SECTORS, Place, SectorRange};

/// Bytes of a BMT entry.
pub const ENTRY_LEN: usize = 5;
/// Bytes of a packed patch.
pub const PATCH_LEN: usize = 10;

const W: u64 = 1 << 39;
const P: u64 = 1 << 38;
const LOW: u64 = P - 1;

/// One block of a volume in the map, 40 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BmtEntry(u64);

impl Default for BmtEntry {
    fn default() -> Self {
        BmtEntry::UNMAPPED
    }
}

impl BmtEntry {
    /// No base: sectors read as zero.
    pub const UNMAPPED: BmtEntry = BmtEntry(W | P | LOW);

    /// The whole block is at `flbn`.
    pub fn base(flbn: Flbn, replicated: bool) -> BmtEntry {
        assert!(flbn <= Flbn::MAX, "flbn {flbn} does not fit a map entry");
        BmtEntry(flbn.0 | if replicated { W } else { 0 })
    }

    /// The block has patches, in the list with this number (below 2^38).
    pub fn patched(index: u64) -> BmtEntry {
        assert!(index <= LOW, "patch list {index} does not fit a map entry");
        BmtEntry(P | index)
    }

    pub fn is_unmapped(self) -> bool {
        self == BmtEntry::UNMAPPED
    }

    pub fn is_patched(self) -> bool {
        self.0 & P != 0 && !self.is_unmapped()
    }

    /// The physical block and its W bit, for an entry that is a plain base.
    pub fn as_base(self) -> Option<(Flbn, bool)> {
        (self.0 & P == 0).then_some((Flbn(self.0 & LOW), self.0 & W != 0))
    }

    /// The number of the patch list, for a patched entry.
    pub fn as_patched(self) -> Option<u64> {
        self.is_patched().then_some(self.0 & LOW)
    }

    /// The W bit; meaningful for a plain base.
    pub fn replicated(self) -> bool {
        self.0 & W != 0
    }

    /// The low 38 bits as a physical block; meaningful for a plain base.
    pub fn flbn(self) -> Flbn {
        Flbn(self.0 & LOW)
    }

    /// The low 38 bits as a patch list; meaningful for a patched entry.
    pub fn index(self) -> u64 {
        self.0 & LOW
    }

    pub fn to_bytes(self) -> [u8; ENTRY_LEN] {
        let [a, b, c, d, e, ..] = self.0.to_le_bytes();
        [a, b, c, d, e]
    }

    /// Any five bytes are some entry; `validate` says whether it is one we write.
    pub fn from_bytes([a, b, c, d, e]: [u8; ENTRY_LEN]) -> BmtEntry {
        BmtEntry(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]))
    }

    /// Refuses W together with P, which only "unmapped" has.
    pub fn validate(self) -> Result<(), FormatError> {
        let good = self.is_unmapped() || self.0 & (W | P) != (W | P);
        check(good, "map entry", self.0)
    }
}

/// Sectors `range` of a block are not at its base but at `place`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Patch {
    pub range: SectorRange,
    pub place: Place,
}

impl Patch {
    pub fn pack(&self) -> [u8; PATCH_LEN] {
        assert!(self.validate().is_ok(), "not a patch: {self:?}");
        let start = u128::from(self.range.start) << 50;
        let len = u128::from(self.range.len - 1) << 61;
        let bits = u128::from(self.place.to_bits()) | start | len;
        let mut bytes = [0; PATCH_LEN];
        bytes.copy_from_slice(&bits.to_le_bytes()[..PATCH_LEN]);
        bytes
    }

    /// Of bytes that `pack` made. Any ten bytes give some patch; see [`Patch::unpack_checked`].
    pub fn unpack(bytes: &[u8; PATCH_LEN]) -> Patch {
        let mut wide = [0; 16];
        wide[..PATCH_LEN].copy_from_slice(bytes);
        let bits = u128::from_le_bytes(wide);
        Patch {
            range: SectorRange {
                start: (bits >> 50 & 0x7ff) as u16,
                len: (bits >> 61 & 0x7ff) as u16 + 1,
            },
            place: Place::from_bits(bits as u64),
        }
    }

    /// Of bytes from a drive.
    pub fn unpack_checked(bytes: &[u8; PATCH_LEN]) -> Result<Patch, FormatError> {
        check(bytes[PATCH_LEN - 1] == 0, "patch", bytes[PATCH_LEN - 1].into())?;
        let patch = Patch::unpack(bytes);
        patch.validate()?;
        Ok(patch)
    }

    /// Range and place stay inside the largest block.
    pub fn validate(&self) -> Result<(), FormatError> {
        self.range.validate()?;
        check(self.place.sector < MAX_BLOCK_SECTORS, "place sector", self.place.sector.into())?;
        self.place.validate(self.range.len)
    }
}
