//! `raid6`: stripes with two parity chunks
//!
//! Idea: as `raid5`, with a second parity chunk, Q, that is independent of the first: any two
//! chunks of a stripe follow from the others. A small write reads and writes one chunk more than in
//! RAID5.
//!
//! ```text
//!   5 drives, stripe 1 is c3 c4 c5            write of c4
//!   d0   d1   d2   d3   d4
//!    Q    0    1    2    P                   read   d1: c4, d3: P, d4: Q
//!    3    4    5    P    Q                   log    d3, d4: partial parity
//!                                            write  d1: c4, d3: P, d4: Q
//! ```
//!
//! Durable at acknowledgement: data and parity, always: they are written through, because the next
//! write of the stripe counts on them. With the write hole open (`--write-hole open`, as md has it
//! by default) after FLUSH or with FUA.
//! One failure: nothing is lost. Two failures: nothing is lost.
//! Device writes per user write: with k data chunks in a stripe and m pieces of b bytes, whichever
//! reads less of: m + 2 reads, or k − m reads, of b; then m + 2 writes of b and 2 of b + 4 KiB to
//! the log.
//! A whole stripe: k + 2 writes, with checksums two records of 4 KiB more, and no reads. A page of
//! intents on each drive when a region is written for the first time in a while. With FUA, and once
//! for a FLUSH, a page of the checksum log on 3 drives.
//! Source: RAID6 with Reed-Solomon P and Q as in md; FusionRAID §2.1.

use classical::Redundancy;

/// What the drives of an array do, and how many make a group.
pub fn shape(drives: usize, _width: Option<usize>) -> (Redundancy, usize) {
    (Redundancy::Parity(2), drives)
}
