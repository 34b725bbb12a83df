//! `raid0`: chunks over all drives, no redundancy
//!
//! Idea: a request is spread over the drives, chunk by chunk, and each chunk is written once, where
//! it lies. The fastest and largest use of drives, for what can be made again.
//!
//! ```text
//!   4 drives, chunks in the order of the volume         write of chunk 5
//!   d0   d1   d2   d3
//!    0    1    2    3                                    d1: chunk 5
//!    4    5    6    7
//! ```
//!
//! Durable at acknowledgement (FUA or after FLUSH): the chunk.
//! One failure: all data is lost. Two failures: all data is lost.
//! Device writes per user write: 1 of its bytes. No reads, but for writes smaller than a drive's
//! unit.
//! Source: Patterson, Gibson, Katz, SIGMOD '88 (level 0 came later); FusionRAID §2.1.

use classical::Redundancy;

/// What the drives of an array do, and how many make a group.
pub fn shape(drives: usize, _width: Option<usize>) -> (Redundancy, usize) {
    (Redundancy::Parity(0), drives)
}
