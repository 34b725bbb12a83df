//! What drives need of this machine and it does not have just now: space for what is written to
//! files, memory. It is no fault of theirs, and over when somebody makes room.
//!
//! ```text
//! write ── ENOSPC ──> waits RETRY ──> again … done: who asked notices the time it took
//! ```
//! Only writes do, and only where their error says all there is to say
//! ([`DriveErrorKind::NoRoom`]): a flush that fails may have lost what others wrote, and would
//! succeed the next time. A write that waits is like one of a drive that hangs, but for this: a
//! drive that is short of something is not given up.

use std::cell::Cell;
use std::{fmt, io};

use crate::drive::{DriveError, DriveErrorKind};
use crate::env::Nanos;
use crate::sync::Event;

/// Between two tries of an operation.
pub(crate) const RETRY: Nanos = Nanos::from_millis(200);

/// Of the drives of one pool.
#[derive(Default)]
pub struct Shortage {
    waits: Cell<bool>,
    /// Operations that wait.
    waiting: Cell<u64>,
    now: Cell<Option<Short>>,
    /// It has begun, or is over.
    changed: Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// The operating system's number of what is lacking.
    pub errno: i32,
    /// On the environment's clock.
    pub since: Nanos,
}

impl Short {
    /// It is space for what is written.
    pub fn is_space(&self) -> bool {
        matches!(self.errno, libc::ENOSPC | libc::EDQUOT)
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.errno).fmt(f)
    }
}

/// An operation that waits.
pub(crate) struct Waiting<'a> {
    all: &'a Shortage,
    own: &'a Cell<u64>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Waiting { all, own } = self;
        own.set(own.get() - 1);
        all.waiting.set(all.waiting.get() - 1);
        if all.waiting.get() == 0 {
            all.now.set(None);
            all.changed.notify_all();
        }
    }
}

impl Shortage {
    /// From now on operations wait; before, they fail.
    pub fn wait(&self) {
        self.waits.set(true);
    }

    /// `None` if no operation waits.
    pub fn now(&self) -> Option<Short> {
        self.now.get()
    }

    /// Waits until one does.
    pub async fn begins(&self) -> Short {
        loop {
            let change = self.changed.wait();
            if let Some(short) = self.now() {
                return short;
            }
            change.await;
        }
    }

    /// Waits until none does.
    pub async fn ends(&self) {
        loop {
            let change = self.changed.wait();
            if self.now().is_none() {
                return;
            }
            change.await;
        }
    }

    /// What this error says is lacking, if operations wait for it. A filesystem that has become
    /// read-only is no such thing: that does not pass by itself.
    pub(crate) fn waited_for(&self, error: &DriveError) -> Option<i32> {
        match error.kind {
            DriveErrorKind::NoRoom(errno) if self.waits.get() => Some(errno),
            _ => None,
        }
    }

    /// An operation waits until what this returns is dropped; `own` counts those of its drive.
    pub(crate) fn begin<'a>(&'a self, errno: i32, own: &'a Cell<u64>, since: Nanos) -> Waiting<'a> {
        own.set(own.get() + 1);
        self.waiting.set(self.waiting.get() + 1);
        if self.now().is_none() {
            self.now.set(Some(Short { errno, since }));
            self.changed.notify_all();
        }
        Waiting { all: self, own }
    }
}
