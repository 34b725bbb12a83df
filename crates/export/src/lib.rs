//! Client-facing block protocols.
//!
//! A protocol server is written against two small traits, [`Volume`] and [`Exports`], and the
//! byte streams of the `io` crate; it knows nothing of RAID. One protocol lives here:
//!
//! * [`nbd`]: the network block device protocol (fixed newstyle, structured replies).
//!
//! [`ram`] is a volume in memory, for tests and for measuring the protocol alone.

pub mod limits;
pub mod nbd;
pub mod ram;
pub mod volume;

pub use limits::Limits;
pub use nbd::places::{Counted, Origin, Peer, Transport};
pub use nbd::server::{ConnectionError, Server};
pub use volume::{BlockSizes, Exports, Extent, Listing, Volume, VolumeError};
