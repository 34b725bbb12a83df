//! `raid4`: chunks over all drives, parity on the last one
//!
//! Idea: as `raid5`, but the last drive has the parity of all stripes and no data, so it may be a
//! drive of another kind: one that bears many writes, or a cheap one. Every small write goes there,
//! so it is the slowest of them all unless writes come as whole stripes; `hpda` sees to that.
//!
//! ```text
//!   4 drives, stripe 1 is c3 c4 c5            write of c4
//!   d0   d1   d2   d3
//!    0    1    2    P                        read   d1: c4, d3: P
//!    3    4    5    P                        log    d3: partial parity (P without c4)
//!    6    7    8    P                        write  d1: c4, d3: P
//! ```
//!
//! Durable at acknowledgement: data and parity, always: they are written through, because the next
//! write of the stripe counts on them. With the write hole open (`--write-hole open`) after FLUSH
//! or with FUA.
//! One failure: nothing is lost; without the parity drive, writes are data writes alone.
//! Two failures: all data is lost.
//! Device writes per user write: with k data chunks in a stripe and m pieces of b bytes, whichever
//! reads less of: m + 1 reads, or k − m reads, of b; then m writes of b to data drives, 1 of b and
//! 1 of b + 4 KiB to the parity drive.
//! A whole stripe: k + 1 writes, with checksums a record of 4 KiB more, and no reads. A page of
//! intents on each drive when a region is written for the first time in a while. With FUA, and once
//! for a FLUSH, a page of the checksum log on 2 drives.
//! Source: Patterson, Gibson, Katz, SIGMOD '88, level 4; md's partial-parity log.

use classical::Redundancy;

/// What the drives of an array do, and how many make a group.
pub fn shape(drives: usize, _width: Option<usize>) -> (Redundancy, usize) {
    (Redundancy::ParityDrive, drives)
}
