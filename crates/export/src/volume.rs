//! What a protocol server needs from whoever has the data.

use std::future::Future;

use io::{Buf, PAGE};

use crate::limits::REQUEST_BYTES_MAX;

/// Sizes of requests a volume takes: `min` is enforced, `preferred` is advice to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of this power of two.
    pub min: u32,
    /// Requests that are multiples of this avoid extra work.
    pub preferred: u32,
    /// Longest read or write; at most [`REQUEST_BYTES_MAX`].
    pub max: u32,
}

impl Default for BlockSizes {
    fn default() -> BlockSizes {
        BlockSizes { min: 512, preferred: PAGE as u32, max: REQUEST_BYTES_MAX }
    }
}

/// A run of bytes that is wholly allocated, or wholly a hole that reads as zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub len: u64,
    pub allocated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    #[error("no space left in the pool")]
    NoSpace,
    #[error("{0}")]
    Io(String),
    #[error("outside the volume")]
    OutOfRange,
    #[error("the volume is read-only")]
    ReadOnly,
    #[error("the server is shutting down")]
    ShuttingDown,
}

/// A handle on one block device; clones name the same device.
///
/// The server checks ranges, alignment and `read_only` before it calls; lengths are not zero.
/// Requests run concurrently and in no particular order.
pub trait Volume: Clone + 'static {
    /// Bytes; a multiple of `block_sizes().min`.
    fn size(&self) -> u64;

    fn read_only(&self) -> bool {
        false
    }

    fn block_sizes(&self) -> BlockSizes {
        BlockSizes::default()
    }

    /// Pieces in order, together `len` bytes.
    fn read(&self, offset: u64, len: u32) -> impl Future<Output = Result<Vec<Buf>, VolumeError>>;

    /// `data` lies in memory at the same distance from a page boundary as `offset` does on
    /// the volume, so whole pages of the volume are whole pages of memory.
    fn write(
        &self,
        offset: u64,
        data: Buf,
        fua: bool,
    ) -> impl Future<Output = Result<(), VolumeError>>;

    /// Makes durable every write that completed before this call, whoever asked for it.
    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>>;

    /// The range holds nothing of interest any more. May do nothing.
    fn trim(
        &self,
        offset: u64,
        len: u64,
        fua: bool,
    ) -> impl Future<Output = Result<(), VolumeError>>;

    /// The range reads as zeroes afterwards. With `may_trim` it may become a hole and this
    /// must be quick; without, later writes to it must not fail for lack of space.
    fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        fua: bool,
        may_trim: bool,
    ) -> impl Future<Output = Result<(), VolumeError>>;

    /// What is allocated from `offset` on: at least one extent, in order, without gaps. May
    /// end before `len`; should end after [`crate::limits::EXTENTS_MAX`] extents.
    fn extents(&self, offset: u64, len: u64) -> Vec<Extent>;
}

/// An export as clients see it in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub name: String,
    /// For people; may be empty.
    pub description: String,
}

/// The volumes a server offers.
pub trait Exports: Clone + 'static {
    type Volume: Volume;

    fn list(&self) -> Vec<Listing>;

    /// How many that would be.
    fn count(&self) -> usize {
        self.list().len()
    }

    /// The name of the only one, if there is one only.
    fn only(&self) -> Option<String> {
        // A list is made only where it is short.
        let mut list = if self.count() == 1 { self.list() } else { Vec::new() };
        list.pop().map(|listing| listing.name)
    }

    /// What the list says of one.
    fn describe(&self, name: &str) -> Option<String> {
        let found = self.list().into_iter().find(|listing| listing.name == name);
        found.map(|listing| listing.description)
    }

    /// The volume of that name. The server asks for the only volume when a client names none.
    fn open(&self, name: &str) -> Option<Self::Volume>;
}
