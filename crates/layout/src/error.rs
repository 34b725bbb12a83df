//! What can be wrong with a layout or a parity request, in words an operator can act on.

use std::fmt;

use crate::geometry::{DRIVES_MAX, DRIVES_MIN};

/// Why a layout can't be made, or lost members can't be recomputed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LayoutError {
    /// The pool has fewer drives than any layout needs.
    TooFewDrives { drives: usize },
    /// The pool has more drives than a layout can address.
    TooManyDrives { drives: usize },
    /// A stripe needs more different drives than there are.
    WidthOverDrives { width: usize, drives: usize },
    /// A stripe this narrow has no room for data beside its parity.
    WidthUnderParity { width: usize, parity: usize },
    /// Stripes of this many blocks can't be declustered at all.
    WidthOutOfRange { width: usize },
    /// Only one or two parity blocks a stripe are supported.
    ParityOutOfRange { parity: usize },
    /// More members are gone than the parity can make up for.
    TooManyMissing { missing: usize, parity: usize },
    /// The caller passed a number of members that isn't the stripe's width.
    MemberCount { members: usize, width: usize },
    /// The caller asked for a member that isn't missing, or asked twice, or it doesn't exist.
    NotMissing { member: usize },
    /// The members' lengths differ.
    MemberLength { member: usize, length: usize, expected: usize },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooFewDrives { drives } => {
                write!(f, "{drives} drives are too few: a pool needs at least {DRIVES_MIN}")
            }
            Self::TooManyDrives { drives } => {
                write!(f, "{drives} drives are too many: a pool holds at most {DRIVES_MAX}")
            }
            Self::WidthOverDrives { width, drives } => write!(
                f,
                "a stripe of {width} blocks needs {width} different drives, the pool has {drives}"
            ),
            Self::WidthUnderParity { width, parity } => write!(
                f,
                "a stripe of {width} blocks is too narrow for {parity} parity: it needs {} or more",
                parity + 1
            ),
            Self::WidthOutOfRange { width } => {
                write!(f, "a stripe has 2 to {DRIVES_MAX} blocks, not {width}")
            }
            Self::ParityOutOfRange { parity } => {
                write!(f, "a stripe has 1 or 2 parity blocks, not {parity}")
            }
            Self::TooManyMissing { missing, parity } => write!(
                f,
                "{missing} blocks of a stripe are missing, its parity can recompute only {parity}"
            ),
            Self::MemberCount { members, width } => {
                write!(f, "{members} members given for a stripe of {width} blocks")
            }
            Self::NotMissing { member } => {
                write!(f, "member {member} was asked for, but isn't missing or was asked for twice")
            }
            Self::MemberLength { member, length, expected } => {
                write!(f, "member {member} is {length} bytes long, the others are {expected}")
            }
        }
    }
}

impl std::error::Error for LayoutError {}
