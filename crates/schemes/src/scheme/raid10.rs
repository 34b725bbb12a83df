//! `raid10`: chunks over groups of mirrors
//!
//! Idea: drives form groups (pairs, unless `--width` says otherwise) that hold the same; chunks are
//! spread over the groups. A write costs as many copies as a group has drives and never reads; a
//! read goes to the copy whose drive has least to do.
//!
//! ```text
//!   4 drives, pairs                write of chunk 3
//!   d0   d1 | d2   d3
//!    0    0 |  1    1
//!    2    2 |  3    3               d2, d3: chunk 3
//! ```
//!
//! Durable at acknowledgement (FUA or after FLUSH): the chunk on every drive of its group.
//! One failure: nothing is lost. Two failures: nothing is lost unless they are one pair (with wider
//! groups: a whole group).
//! Device writes per user write: w of its bytes with groups of w drives; a page of intents on each
//! drive when a region is written for the first time in a while; with FUA, and once for a FLUSH, a
//! page of the checksum log on w drives (16 at most).
//! Source: md's RAID10 in "near" layout; FusionRAID §2.1.

use classical::Redundancy;

/// What the drives of an array do, and how many make a group.
pub fn shape(_drives: usize, width: Option<usize>) -> (Redundancy, usize) {
    (Redundancy::Mirror, width.unwrap_or(2))
}
