//! Which drive, which offset, which bytes: the pure arithmetic under a pool.
//!
//! * [`geometry`]: stripe shapes, and the declustered layout that spreads stripes over n drives
//!   (FusionRAID §4.1, RAID+).
//! * [`pairing`]: matching the data blocks of p+1 stripes into slots for replicated writes
//!   (FusionRAID §4.2).
//! * [`parity`]: P and Q, and getting lost members back.
//!
//! Nothing here does I/O, keeps state between calls, reads a clock or draws a random number: equal
//! arguments give equal answers on every machine and in every release. Pools on disk depend on
//! that; golden tests hold it.

mod balance;
mod error;
mod field;
pub mod geometry;
mod group;
pub mod pairing;
pub mod parity;
mod permuted;

pub use balance::Balance;
pub use error::LayoutError;
pub use geometry::{DRIVES_MAX, DRIVES_MIN, DriveIndex, Layout, LayoutKind, StripeShape};
pub use pairing::{
    COPIES_MAX, Slot, choose_stripes, choose_stripes_where, common_drives, match_slots,
};
