//! In-place arrays: RAID0, 1, 10, 4, 5, 6, 50 and 60, the baselines of everything else here, built
//! as well as we can.
//!
//! ```text
//!  request ── grid: stripes, pieces ── stripe lock ── plan: modify, rebuild, full, recover
//!                                                       │
//!  intents: region marked ── log: partial parity ── data and parity in place ── answered
//!                                                       │ read back
//!                                     sums: what a page should be ── mend, scrub
//! ```
//! `grid`, `plan`, `partial` and `row` are pure; `array` is what carries them out. Requests are
//! multiples of 512 bytes anywhere.
//!
//! Promises (docs/on-disk-format.md for the bytes): flushed writes survive power loss; no crash,
//! with or without the loss of as many drives as a group bears, harms what was not being written.
//! The unit of "old or new" is a sector: bytes are overwritten where they lie.

mod announced;
pub mod array;
mod assembly;
mod audit;
mod beside;
pub mod checksum_log;
mod checksum_store;
mod discard;
pub mod grid;
pub mod hostile;
mod intents;
mod kept;
pub mod label;
pub mod limits;
mod log;
pub mod member;
mod mend;
mod owed;
pub mod partial;
pub mod plan;
pub mod planted;
mod read;
pub mod rebuild;
mod resync;
mod row;
mod scrub;
mod sum_area;
pub mod sums;
mod tolerant;
mod unrecorded;
mod verdict;
mod write;

pub use array::{Array, ArrayError, CreateSpec, OpenOptions, WriteHole};
pub use assembly::Assembly;
pub use grid::{Grid, GridError, Redundancy, check_chunk};
pub use kept::Lacks;
pub use mend::{Health, Mending, Missed, Note, Unread};
pub use scrub::Scrubbed;
