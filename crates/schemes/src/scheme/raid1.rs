//! `raid1`: every drive holds the same
//!
//! Idea: a write goes to all drives, a read to the one with least to do. As long as one drive is
//! left nothing is lost.
//!
//! ```text
//!   3 drives                       write of chunk 1
//!   d0   d1   d2
//!    0    0    0
//!    1    1    1                    d0, d1, d2: chunk 1
//! ```
//!
//! Durable at acknowledgement (FUA or after FLUSH): the chunk on every drive that is there.
//! One failure: nothing is lost. Two failures: nothing is lost with three drives or more.
//! Device writes per user write: n of its bytes with n drives; a page of intents on each drive when
//! a region is written for the first time in a while; with FUA, and once for a FLUSH, a page of the
//! checksum log on each drive (16 at most).
//! Source: Patterson, Gibson, Katz, SIGMOD '88, level 1.

use classical::Redundancy;

/// What the drives of an array do, and how many make a group.
pub fn shape(drives: usize, _width: Option<usize>) -> (Redundancy, usize) {
    (Redundancy::Mirror, drives)
}
