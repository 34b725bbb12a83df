//! Bugs planted on purpose, to see that simulated worlds catch them: a net is worth what it has
//! been seen to hold (`docs/testing.md`, Planted bugs).
//!
//! Each flips one decision at one line, and only in builds with the feature `planted`, which
//! nothing but a test of `sim` turns on. In every other build [`is`] is `false` for the
//! compiler, and the decision is not there.

/// What can be wrong, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// FLUSH waits for the blocks of the journal that are sealed, and leaves the open one open.
    SkipJournalFlush,
    /// Journal blocks stay in the drives' caches.
    CacheJournal,
    /// A dead stripe is reused although a read that saw it alive is on its way.
    FreeBeforeReaders,
    /// A dead stripe is reused although a crash could bring its owner back.
    FreeBeforeDurable,
    /// A tuple counts as a RAID stripe when its parity is in the drives' caches.
    ConvertBeforeDurable,
    /// FUA waits for the data and not for the record that says where it is.
    AckFuaEarly,
    /// A write is answered although the labels don't say yet which drive missed it.
    ForgetFailure,
    /// A patch does not count as part of its slot: conversion takes its pages for unwritten.
    ForgetPatch,
    /// The same of patches that are known from the journal only.
    ForgetReplayedPatch,
    /// What was written while its block moved is taken along to where the older bytes went.
    RelocateBlindly,
    /// Every checkpoint has the sequence number of the one before.
    ReuseCheckpointSequence,
    /// A record is trusted although every copy of its data is torn.
    IgnoreTornSector,
    /// A torn copy beside a whole one stays as it is.
    KeepTornCopy,
    /// What completed during a flush counts as flushed.
    SettleLate,
    /// An image of before counts as what the drive held last.
    TrustStale,
    /// Labels write off more drives than the volumes bear.
    WriteOffAll,
    /// A drive in a lost one's place is read before it holds anything.
    TrustUnrestored,
    /// Such a drive keeps what a conversion left out that began without it (world 900146).
    RestorePastConversions,
    /// Such a drive counts as whole although blocks of the journal, which the lost drive had, have
    /// no second copy.
    RestorePastJournal,
    /// What was once load is load for ever.
    LoadForEver,
    /// A drive that was avoided once is never used again.
    AvoidForEver,
    /// A write gets no place as long as a read is under way.
    ReadsStarveWrites,
    /// A second way that was first is not given back to the budget.
    KeepBudget,
    /// What was read is taken for what was written, whatever its sum.
    SkipSums,
    /// A substitute is recorded when it is in its drive's cache.
    SubstituteBeforeDurable,
    /// A stripe that is free keeps its substitutes for its next life.
    KeepSubstitutes,
    /// What is written to a drive while it is copied is not copied again.
    ForgetTwinWrites,
    /// What was copied last is in the new drive's cache when that takes the old one's place.
    TakeOverUnflushed,
    /// Writes are answered although the labels still name the drive that was copied.
    PromiseBeforeLabels,
}

#[cfg(not(feature = "planted"))]
pub const fn is(_bug: Bug) -> bool {
    false
}

#[cfg(feature = "planted")]
io::planted_switch!(Bug);
