//! One drive: a flat array of bytes behind a volatile write cache.

use std::fmt;
use std::future::Future;

use crate::buf::Buf;

/// What the engine must know of a drive before it uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity in bytes.
    pub size: u64,
    /// Offsets and lengths of reads and writes are multiples of this (512 or 4096 bytes).
    pub align: u32,
    /// Bytes that a power cut leaves old or new as a whole, as far as the drive tells: 512 at
    /// least, at multiples of as many.
    pub atomic: u32,
    /// True for spinning drives.
    pub rotational: bool,
}

/// When a write may be reported as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Done when the drive has taken it; a later [`Drive::flush`] makes it durable.
    Cached,
    /// Done when it would survive a power cut (FUA).
    Durable,
}

/// A handle on one drive; clones name the same drive.
///
/// Contract, for every implementation:
/// * `offset` and lengths are multiples of `geometry().align` and inside `geometry().size`;
///   anything else is [`DriveErrorKind::OutOfRange`], never a partial transfer;
/// * writes in flight at the same time to the same bytes end in either order;
/// * a completed `flush` makes every write that completed before the flush was *started*
///   durable; others may be durable or not, wholly or in part (`geometry().atomic` bytes are never
///   torn, which are 512 at least);
/// * a failed write leaves the range undefined (old, new, or torn).
pub trait Drive: Clone + 'static {
    fn geometry(&self) -> Geometry;

    /// A name for people: path or `mem:3`. Never an identity.
    fn name(&self) -> String;

    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Buf, DriveError>>;

    /// Writes all of `data`. `data` must not change until the future completes; `Buf` is
    /// immutable, so it can't.
    fn write(
        &self,
        offset: u64,
        data: Buf,
        durability: Durability,
    ) -> impl Future<Output = Result<(), DriveError>>;

    fn flush(&self) -> impl Future<Output = Result<(), DriveError>>;

    /// Tells the drive that the range holds nothing. Reads of it are undefined afterwards.
    /// A drive that can't do this succeeds and does nothing: [`Drive::discard_granularity`] tells.
    fn discard(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DriveError>>;

    /// Reads of the range give zeroes from now on, as if they had been written, and the drive need
    /// not keep room for them: WRITE ZEROES that may unmap, a hole in a file. It is durable after
    /// the next flush, like any write. A drive that can't ([`Drive::takes_write_zeroes`]) writes
    /// them.
    fn write_zeroes(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), DriveError>> {
        self.write(offset, Buf::zeroed(len as usize), Durability::Cached)
    }

    /// Whether it can. Some only find out when they are first told: the answer may become `false`.
    fn takes_write_zeroes(&self) -> bool {
        false
    }

    /// The unit, in bytes, in which the drive frees what is discarded; `None` if it has no discard.
    /// Some only find out when they are first told: the answer may become `None`.
    fn discard_granularity(&self) -> Option<u32> {
        Some(self.geometry().align)
    }

    /// It lacks something of this machine, and its operations wait for it ([`crate::shortage`]).
    fn is_short(&self) -> bool {
        false
    }

    /// The byte of the device where this begins, if it is a part of one: so that people are told
    /// where something is.
    fn begins_at(&self) -> u64 {
        0
    }

    /// Whoever made this handle knows that the drive holds zeroes wherever nothing was written
    /// through it: an array that is made on such drives need not be synchronized first. No drive
    /// can tell, so none does by itself.
    fn holds_zeroes(&self) -> bool {
        false
    }

    /// Whoever made this handle knows that the labels on the drive carry this identity, and that
    /// the pool has no other drive of it. Who gives the drive a place keeps the identity, and
    /// writes over the labels instead of wiping them: so a crash leaves the old ones or the new.
    fn identity(&self) -> Option<[u8; 16]> {
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
    Flush,
    Discard,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveErrorKind {
    /// The operating system's error number.
    Os(i32),
    /// The same of a write that this machine has no room for: space, memory. Nothing else is wrong,
    /// and once there is room the same write can be done.
    NoRoom(i32),
    /// Fewer bytes moved than asked, and no error number.
    Short,
    /// The range is not inside the drive, or not aligned.
    OutOfRange,
    /// The drive is gone.
    Removed,
    /// The drive did not keep what was last written there.
    Stale,
    /// The drive has not answered for so long that nobody waits any more. What was asked may still
    /// be done.
    Hangs,
}

/// A failed operation on a drive, with all that is needed to report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DriveError {
    pub operation: Operation,
    pub offset: u64,
    pub len: u64,
    pub kind: DriveErrorKind,
}

impl DriveError {
    /// The drive is there, and did not give or take this.
    pub fn is_refusal(&self) -> bool {
        use DriveErrorKind::{Hangs, Removed, Stale};
        !matches!(self.kind, Removed | Stale | Hangs)
    }
}

impl fmt::Display for DriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes at byte {}: ", self.operation, self.len, self.offset)?;
        match self.kind {
            DriveErrorKind::Os(errno) | DriveErrorKind::NoRoom(errno) => {
                write!(f, "{}", std::io::Error::from_raw_os_error(errno))
            }
            DriveErrorKind::Short => f.write_str("the drive moved fewer bytes than asked"),
            DriveErrorKind::OutOfRange => f.write_str("outside the drive or not aligned"),
            DriveErrorKind::Removed => f.write_str("the drive is gone"),
            DriveErrorKind::Stale => f.write_str("a crash took what was last written there"),
            DriveErrorKind::Hangs => f.write_str("the drive does not answer"),
        }
    }
}

/// The check every implementation makes before it touches anything.
pub fn check_range(
    geometry: Geometry,
    operation: Operation,
    offset: u64,
    len: u64,
) -> Result<(), DriveError> {
    let align = u64::from(geometry.align);
    let aligned = offset.is_multiple_of(align) && len.is_multiple_of(align);
    let inside = offset.checked_add(len).is_some_and(|end| end <= geometry.size);
    if aligned && inside {
        return Ok(());
    }
    Err(DriveError { operation, offset, len, kind: DriveErrorKind::OutOfRange })
}
