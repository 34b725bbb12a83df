//! `raid50`: chunks over groups of RAID5
//!
//! Idea: drives form groups (two, unless `--width` says otherwise), each of them a RAID5; stripes
//! go to the groups in turn. Narrow stripes are whole sooner, and each group bears a loss of its
//! own.
//!
//! ```text
//!   6 drives, two groups                     write of c2
//!   d0   d1   d2 | d3   d4   d5
//!    0    1    P |  2    3    P              read   d3: c2, d5: P
//!    5    P    4 |  7    P    6              log    d5: partial parity
//!                                            write  d3: c2, d5: P
//! ```
//!
//! Durable at acknowledgement: data and parity, always: they are written through, because the next
//! write of the stripe counts on them. With the write hole open (`--write-hole open`, as md has it
//! by default) after FLUSH or with FUA.
//! One failure: nothing is lost. Two failures: nothing is lost unless both are in one group.
//! Device writes per user write: with k data chunks in a stripe and m pieces of b bytes, whichever
//! reads less of: m + 1 reads, or k − m reads, of b; then m + 1 writes of b and 1 of b + 4 KiB to
//! the log.
//! A whole stripe: k + 1 writes, with checksums a record of 4 KiB more, and no reads. A page of
//! intents on each drive when a region is written for the first time in a while. With FUA, and once
//! for a FLUSH, a page of the checksum log on 2 drives.
//! Source: FusionRAID §2.1 and §5.1 (its RAID50 baseline); md's partial-parity log.

use classical::Redundancy;

/// What the drives of an array do, and how many make a group.
pub fn shape(drives: usize, width: Option<usize>) -> (Redundancy, usize) {
    (Redundancy::Parity(1), width.unwrap_or(drives / 2))
}
