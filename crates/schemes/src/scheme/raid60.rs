//! `raid60`: chunks over groups of RAID6
//!
//! Idea: drives form groups (two, unless `--width` says otherwise), each of them a RAID6; stripes
//! go to the groups in turn.
//!
//! ```text
//!   8 drives, two groups                     write of c2
//!   d0   d1   d2   d3 | d4   d5   d6   d7
//!    Q    0    1    P |  Q    2    3    P    read   d5: c2, d7: P, d4: Q
//!                                            log    d7, d4: partial parity
//!                                            write  d5: c2, d7: P, d4: Q
//! ```
//!
//! Durable at acknowledgement: data and parity, always: they are written through, because the next
//! write of the stripe counts on them. With the write hole open (`--write-hole open`, as md has it
//! by default) after FLUSH or with FUA.
//! One failure: nothing is lost. Two failures: nothing is lost, and up to two in every group.
//! Device writes per user write: with k data chunks in a stripe and m pieces of b bytes, whichever
//! reads less of: m + 2 reads, or k − m reads, of b; then m + 2 writes of b and 2 of b + 4 KiB to
//! the log.
//! A whole stripe: k + 2 writes, with checksums two records of 4 KiB more, and no reads. A page of
//! intents on each drive when a region is written for the first time in a while. With FUA, and once
//! for a FLUSH, a page of the checksum log on 3 drives.
//! Source: as `raid50`, with Reed-Solomon P and Q.

use classical::Redundancy;

/// What the drives of an array do, and how many make a group.
pub fn shape(drives: usize, width: Option<usize>) -> (Redundancy, usize) {
    (Redundancy::Parity(2), width.unwrap_or(drives / 2))
}
