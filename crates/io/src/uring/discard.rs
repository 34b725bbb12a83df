//! How a file or block device is told that a range holds nothing.
//!
//! ```text
//!  file          fallocate(PUNCH_HOLE); ZERO_RANGE, which keeps the space, of one that had all of
//!                its space when it was opened: that was promised to it
//!  block device  the ring's discard command (Linux 6.12) ─refused─> ioctl(BLKDISCARD), on a thread
//! ```
//! Punching a hole into a block device is no discard: the kernel makes WRITE ZEROES of it, which
//! many devices that know DISCARD do not know, and which does not say that nothing is there. It is
//! what those want who must know what they read there afterwards ([`Discarder::write_zeroes`]).
//!
//! What a device can is read from the limits of its queue, and the first refusal is remembered: a
//! drive without discard is asked once.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;

use super::blocking::Blocking;
use super::geometry;
use super::handle::Handle;
use super::ring::Ring;

/// `BLKDISCARD`, which is in the `libc` crate for no target: the kernel's `_IO(0x12, 119)`.
const BLKDISCARD: libc::Ioctl = 0x1277;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    PunchHole,
    ZeroRange,
    Command,
    Ioctl,
    Unsupported,
}

pub(super) struct Discarder {
    way: Cell<Way>,
    /// Bytes of the unit in which space is freed.
    granularity: u32,
    /// A device that has discards frees what it is told to write zeroes to.
    unmaps: Cell<bool>,
}

impl Discarder {
    /// Of a regular file whose filesystem gives space in units of so many bytes.
    pub(super) fn of_file(unit: u32, has_all: bool) -> Discarder {
        Discarder::new(if has_all { Way::ZeroRange } else { Way::PunchHole }, unit, true)
    }

    /// Of a block device whose sectors have so many bytes.
    pub(super) fn of_device(device: libc::dev_t, sector: u32) -> Discarder {
        // A device whose queue can't be looked at (no /sys) is asked.
        let limits = geometry::discard_limits(device);
        let way = match limits {
            Some(limits) if limits.max_bytes == 0 => Way::Unsupported,
            _ => Way::Command,
        };
        let granularity = limits.map_or(sector, |limits| limits.granularity.max(sector));
        Discarder::new(way, granularity, geometry::unmaps_zeroes(device))
    }

    fn new(way: Way, granularity: u32, unmaps: bool) -> Discarder {
        Discarder { way: Cell::new(way), granularity, unmaps: Cell::new(unmaps) }
    }

    pub(super) fn granularity(&self) -> Option<u32> {
        (self.way.get() != Way::Unsupported).then_some(self.granularity)
    }

    pub(super) fn takes_write_zeroes(&self) -> bool {
        self.way.get() != Way::Unsupported && self.unmaps.get()
    }

    /// `false`: the drive can't, and nothing was done.
    pub(super) async fn write_zeroes(
        &self,
        ring: &Ring,
        file: &Rc<Handle>,
        (offset, len): (u64, u64),
    ) -> io::Result<bool> {
        if !self.takes_write_zeroes() {
            return Ok(false);
        }
        let result = match self.way.get() {
            Way::ZeroRange => ring.zero_range(file, offset, len).await,
            _ => ring.punch_hole(file, offset, len).await,
        };
        match result.as_ref().err().and_then(io::Error::raw_os_error) {
            Some(libc::EOPNOTSUPP | libc::ENOTTY) => {
                self.unmaps.set(false);
                Ok(false)
            }
            _ => result.map(|()| true),
        }
    }

    /// As with a kernel whose ring has no such command.
    pub(super) fn forget_command(&self) {
        if self.way.get() == Way::Command {
            self.way.set(Way::Ioctl);
        }
    }

    pub(super) async fn discard(
        &self,
        (ring, blocking): (&Ring, &Blocking),
        file: &Rc<Handle>,
        (offset, len): (u64, u64),
    ) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        loop {
            let way = self.way.get();
            let result = match way {
                Way::Unsupported => return Ok(()),
                Way::PunchHole => ring.punch_hole(file, offset, len).await,
                Way::ZeroRange => ring.zero_range(file, offset, len).await,
                Way::Command => ring.discard(file, offset, len).await,
                Way::Ioctl => by_ioctl(blocking, file, offset, len).await,
            };
            let next = match result.as_ref().err().and_then(io::Error::raw_os_error) {
                // A kernel without the command answers one of these, as a device without discard.
                Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY) if way == Way::Command => {
                    Way::Ioctl
                }
                Some(libc::EOPNOTSUPP | libc::ENOTTY) => Way::Unsupported,
                _ => return result,
            };
            self.way.set(next);
        }
    }
}

/// It waits for the device, and there is no form of it that does not.
async fn by_ioctl(blocking: &Blocking, file: &Handle, offset: u64, len: u64) -> io::Result<()> {
    // The thread has a descriptor of its own for as long as it takes: ours may be closed.
    let file = file.as_fd().try_clone_to_owned()?;
    let call = move || {
        let range = [offset, len];
        // SAFETY: the kernel reads two numbers of 64 bits, which are there until it returns.
        match unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    blocking.run(call).await?
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::uring::UringEnv;

    /// Neither way of a device is one of a file: it says so to each, and is asked no more.
    #[test]
    fn a_refusal_is_remembered() {
        let env = UringEnv::new().unwrap();
        let file = std::env::temp_dir().join(format!("discarded-{}", std::process::id()));
        let open = std::fs::File::create(&file).unwrap();
        open.set_len(65536).unwrap();
        std::fs::remove_file(&file).unwrap();
        let open = Rc::new(Handle::from(OwnedFd::from(open)));
        for way in [Way::Command, Way::Ioctl] {
            let discarder = Discarder::new(way, 512, true);
            assert_eq!(discarder.granularity(), Some(512));
            env.block_on(async {
                discarder.discard((env.ring(), env.blocking()), &open, (0, 4096)).await.unwrap();
                assert_eq!(discarder.granularity(), None, "{way:?}");
                discarder.discard((env.ring(), env.blocking()), &open, (0, 4096)).await.unwrap();
            });
        }
    }
}
