//! What can be wrong with bytes. The caller knows which drive and offset they came from, and says
//! so.

use crate::ids::Uuid;
use thiserror::Error;

/// Why bytes were refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    #[error("not a SteadyRAID structure (magic bytes missing)")]
    BadMagic,
    #[error("damaged: checksum is {found:08x}, contents say {expected:08x}")]
    BadChecksum { expected: u32, found: u32 },
    #[error(
        "on-disk format version {found} is not known to this software (it knows {supported}); \
         use a newer SteadyRAID"
    )]
    UnsupportedVersion { found: u16, supported: u16 },
    #[error(
        "the pool uses features this software does not know (bits {0:#x}); use a newer SteadyRAID"
    )]
    UnknownFeatures(u64),
    #[error("cut short: the structure is longer than the bytes given")]
    Truncated,
    #[error("field '{field}' has the impossible value {value}")]
    Invalid { field: &'static str, value: u64 },
    #[error("belongs to pool {found}, not to {expected}")]
    WrongPool { expected: Uuid, found: Uuid },
    #[error("the label of a drive that ends where this one does, such as a disk's last partition")]
    Elsewhere,
    #[error("labels of one drive disagree on who it is: {first} and {second}")]
    MixedLabels { first: Uuid, second: Uuid },
}

impl FormatError {
    /// True when there is no label of this drive.
    pub fn is_no_label(&self) -> bool {
        matches!(self, Self::BadMagic | Self::Truncated | Self::Elsewhere)
    }

    /// True when the bytes are whole but written by newer software: never to be overwritten, and
    /// older copies beside them must not be trusted.
    pub fn is_too_new(&self) -> bool {
        matches!(self, Self::UnsupportedVersion { .. } | Self::UnknownFeatures(_))
    }
}

/// `Err(Invalid)` unless `ok`.
pub(crate) fn check(ok: bool, field: &'static str, value: u64) -> Result<(), FormatError> {
    if ok { Ok(()) } else { Err(FormatError::Invalid { field, value }) }
}
