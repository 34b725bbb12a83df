//! `raid5`: stripes with one parity chunk
//!
//! Idea: n − 1 chunks and their parity make a stripe, and parity moves from drive to drive. A small
//! write reads the old bytes and the old parity and writes both anew (or reads the chunks that
//! stay, if those are fewer); a whole stripe is written without reading. A partial-parity log
//! closes the write hole that this leaves at a crash together with the loss of a drive.
//!
//! ```text
//!   4 drives, stripe 1 is c3 c4 c5            write of c4
//!   d0   d1   d2   d3
//!    0    1    2    P                        read   d0: c4, d2: P
//!    4    5    P    3                        log    d2: partial parity (P without c4)
//!    8    P    6    7                        write  d0: c4, d2: P
//! ```
//!
//! Durable at acknowledgement: data and parity, always: they are written through, because the next
//! write of the stripe counts on them. With the write hole open (`--write-hole open`, as md has it
//! by default) after FLUSH or with FUA.
//! One failure: nothing is lost. Two failures: all data is lost.
//! Device writes per user write: with k data chunks in a stripe and m pieces of b bytes, whichever
//! reads less of: m + 1 reads, or k − m reads, of b; then m + 1 writes of b and 1 of b + 4 KiB to
//! the log.
//! A whole stripe: k + 1 writes, with checksums a record of 4 KiB more, and no reads. A page of
//! intents on each drive when a region is written for the first time in a while. With FUA, and once
//! for a FLUSH, a page of the checksum log on 2 drives.
//! Source: Patterson, Gibson, Katz, SIGMOD '88, level 5; md's partial-parity log; FusionRAID §2.1.

use classical::Redundancy;

/// What the drives of an array do, and how many make a group.
pub fn shape(drives: usize, _width: Option<usize>) -> (Redundancy, usize) {
    (Redundancy::Parity(1), drives)
}
