//! Bugs planted on purpose in arrays and in the schemes on them, to see that simulated worlds catch
//! them (`docs/testing.md`, Planted bugs).
//!
//! Each flips one decision, and only in builds with the feature `planted`, which nothing but a test
//! of `schemes` turns on. In every other build [`is`] is `false` for the compiler, and the decision
//! is not there.

/// What can be wrong, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Checksums of what is in marked regions count for nothing after a crash.
    ForgetMarked,
    /// A drive whose label or intents are of long ago counts as any other.
    KeepStale,
    /// Nothing speaks against a drive that rotted, or that is out of date.
    ForgetSuspects,
    /// Of copies that differ the first counts.
    BelieveFirstCopy,
    /// What a suspect drive has of before is proof of what was there (raid50, world 1306).
    BelieveOutdated,
    /// A record counts on a drive that it was not written to (raid4, world 620).
    BelieveOthersRecords,
    /// What a write was to leave alone does not follow from its partial parity (raid5, world 1266).
    ForgetLeftAlone,
    /// What a drive gives is taken for what was written, whatever its checksum.
    ReadUnchecked,
    /// A new drive counts as whole before the labels call it that (raid50, world 1041).
    WholeBeforeLabels,
    /// A page of checksums that was found is the newest (`alternate`, world 1198).
    BelieveFoundChecksums,
}

#[cfg(not(feature = "planted"))]
pub const fn is(_bug: Bug) -> bool {
    false
}

#[cfg(feature = "planted")]
io::planted_switch!(Bug);
