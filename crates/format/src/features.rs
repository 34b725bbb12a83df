//! Features of a label: what software has to know to open a drive.

use crate::error::FormatError;

/// Incompatible feature: volumes may have limits (record 14, end of the configuration).
pub const INCOMPAT_LIMITS: u64 = 1;
/// Incompatible feature: an in-place scheme, with drives in groups.
pub const INCOMPAT_GROUPS: u64 = 2;
/// Incompatible feature: a set of in-place arrays, which lie in the drives' extents and have
/// labels of their own there.
pub const INCOMPAT_SET: u64 = 4;
/// Incompatible feature: a drive is being filled again ([`crate::MemberState::Restoring`]).
pub const INCOMPAT_RESTORING: u64 = 8;
/// Incompatible feature: pages of data have sums (record 15, checkpoint objects of kind 4).
pub const INCOMPAT_SUMS: u64 = 16;
/// Incompatible feature: blocks of lost drives may have substitutes (record 20, end of a zone's
/// object), and a drive may be [`crate::MemberState::Vacated`].
pub const INCOMPAT_SUBSTITUTES: u64 = 32;
/// Incompatible feature: not every zone lies on every drive ([`crate::Member::round`],
/// [`crate::Member::zones`], and the round of a zone in its record and object).
pub const INCOMPAT_LISTS: u64 = 64;
/// Incompatible feature: an in-place array has sums of its pages behind its write intents.
pub const INCOMPAT_ARRAY_SUMS: u64 = 128;
/// Incompatible feature, of the drive's own label alone: a spare ([`crate::Superblock::is_spare`]).
pub const INCOMPAT_SPARE: u64 = 256;
/// Incompatible feature: summaries of a segment log have sums of its pages.
pub const INCOMPAT_LOG_SUMS: u64 = 512;
/// Incompatible feature: one of several arrays of a pool, and not the first ([`crate::Further`]).
pub const INCOMPAT_FURTHER: u64 = 1024;
/// Incompatible feature: a drive is being emptied ([`crate::MemberState::Leaving`]).
pub const INCOMPAT_LEAVING: u64 = 2048;
/// Incompatible feature, of the drive's own label alone: the drive that has its place is copied
/// onto it ([`crate::Superblock::is_replacement`]).
pub const INCOMPAT_REPLACES: u64 = 4096;
/// Incompatible feature: the checksum log of an in-place array knows what its checksum area may
/// not; taken back when the array is closed.
pub const INCOMPAT_CHECKSUM_LOG: u64 = 8192;
/// Incompatible feature: segments and logs of each group of drives have a UUID of their own.
pub const INCOMPAT_GROUP_LOGS: u64 = 16384;
/// Compatible feature: slots of the partial-parity log that were never used say whose they are.
pub const COMPAT_BLANK_SLOTS: u64 = 1;
/// Incompatible features this software knows.
pub const KNOWN_INCOMPAT: u64 = INCOMPAT_LIMITS
    | INCOMPAT_GROUPS
    | INCOMPAT_SET
    | INCOMPAT_RESTORING
    | INCOMPAT_SUMS
    | INCOMPAT_SUBSTITUTES
    | INCOMPAT_LISTS
    | INCOMPAT_ARRAY_SUMS
    | INCOMPAT_SPARE
    | INCOMPAT_LOG_SUMS
    | INCOMPAT_FURTHER
    | INCOMPAT_LEAVING
    | INCOMPAT_REPLACES
    | INCOMPAT_CHECKSUM_LOG
    | INCOMPAT_GROUP_LOGS;

/// Feature bits: unknown compatible ones are let be, unknown incompatible ones refuse the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub compat: u64,
    pub incompat: u64,
}

impl Features {
    /// What is not known here may change what anything else means.
    pub(crate) fn check(self) -> Result<(), FormatError> {
        match self.incompat & !KNOWN_INCOMPAT {
            0 => Ok(()),
            unknown => Err(FormatError::UnknownFeatures(unknown)),
        }
    }
}
