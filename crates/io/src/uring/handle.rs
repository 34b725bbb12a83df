//! Open descriptors that operations of the ring use.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::blocking::Blocking;
use crate::env::Nanos;

/// A descriptor, closed when it is dropped.
pub(crate) struct Handle {
    fd: ManuallyDrop<OwnedFd>,
    drive: Option<OfDrive>,
}

/// What more is known of a drive's.
struct OfDrive {
    /// Closing may wait: the filesystem asks somebody who may not answer.
    closes: Option<Blocking>,
    blocked: Cell<Blocked>,
    apart_until: Cell<Nanos>,
}

/// Operations of a drive that kept the thread which handed them to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    pub count: u64,
    pub longest: Nanos,
}

impl From<OwnedFd> for Handle {
    fn from(fd: OwnedFd) -> Handle {
        Handle { fd: ManuallyDrop::new(fd), drive: None }
    }
}

impl Handle {
    /// Of a drive; it is closed by these threads if there are some.
    pub(super) fn of_drive(fd: OwnedFd, closes: Option<Blocking>) -> Handle {
        let (blocked, apart_until) = Default::default();
        let drive = Some(OfDrive { closes, blocked, apart_until });
        Handle { fd: ManuallyDrop::new(fd), drive }
    }

    pub(super) fn is_drive(&self) -> bool {
        self.drive.is_some()
    }

    pub(super) fn blocked(&self) -> Blocked {
        self.drive.as_ref().map_or_else(Blocked::default, |drive| drive.blocked.get())
    }

    /// Handing over an operation took so long; the next ones are left to the kernel's threads.
    pub(super) fn has_blocked(&self, took: Nanos, apart_until: Nanos) {
        if let Some(drive) = &self.drive {
            let Blocked { count, longest } = drive.blocked.get();
            drive.blocked.set(Blocked { count: count + 1, longest: longest.max(took) });
            drive.apart_until.set(apart_until);
        }
    }

    /// Its operations are left to the kernel's threads until then.
    pub(super) fn apart_until(&self) -> Nanos {
        self.drive.as_ref().map_or(Nanos::ZERO, |drive| drive.apart_until.get())
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: nobody uses the field again.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        if let Some(OfDrive { closes: Some(blocking), .. }) = &self.drive {
            // Refused, it is closed here: there is no other way.
            let _refused = blocking.start(move || drop(fd));
        }
    }
}
