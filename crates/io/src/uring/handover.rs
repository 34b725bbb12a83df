//! Operations that keep the thread which hands them to the kernel.
//!
//! The kernel takes an operation at once, or leaves it to a thread of its own if it would have to
//! wait. Some filesystems and drivers wait all the same, and everybody waits with them.
//!
//! ```text
//! a handover takes over SLOW ──> for a while it is looked whether the thread sleeps in them
//!                                 │ it slept over SLOW
//!                                 └─> the drives of that handover: counted; their operations go
//!                                     to the kernel's threads for a while (IOSQE_ASYNC)
//! ```
//! A thread that did not sleep was kept by others that ran, which is no drive's fault. Whether it
//! did costs a system call to find out, so it is not asked every time.

use std::mem;
use std::rc::Rc;

use super::handle::Handle;
use super::timers::Clock;
use crate::env::Nanos;

/// Far longer than handing over takes, and as long as clients may notice.
const SLOW: Nanos = Nanos::from_millis(10);

/// How long each handover is looked at closely.
const CLOSELY: Nanos = Nanos::from_secs(60);

/// How long a drive's operations go apart before it is tried again.
const APART: Nanos = Nanos::from_secs(60);

pub(super) struct Watch {
    clock: Clock,
    closely_until: Nanos,
}

/// A handover under way.
pub(super) struct Begun {
    at: Nanos,
    /// How often the thread had slept, if that is asked.
    slept: Option<i64>,
}

impl Watch {
    pub(super) fn start() -> Watch {
        Watch { clock: Clock::start(), closely_until: Nanos::ZERO }
    }

    /// Whether operations on it are left to the kernel's threads.
    pub(super) fn is_apart(&self, handle: &Handle) -> bool {
        let until = handle.apart_until();
        until > Nanos::ZERO && self.clock.now() < until
    }

    pub(super) fn begin(&self) -> Begun {
        let at = self.clock.now();
        Begun { at, slept: (at < self.closely_until).then(times_slept) }
    }

    /// Operations on these drives were handed over.
    pub(super) fn end(&mut self, begun: &Begun, drives: &[Rc<Handle>]) {
        let now = self.clock.now();
        let took = now.saturating_sub(begun.at);
        if took <= SLOW {
            return;
        }
        self.closely_until = now + CLOSELY;
        if begun.slept.is_some_and(|before| times_slept() > before) {
            drives.iter().for_each(|drive| drive.has_blocked(took, now + APART));
        }
    }
}

/// How often this thread has waited for something, not counting when others ran instead.
fn times_slept() -> i64 {
    // SAFETY: all zeroes is a valid `rusage`, and the kernel writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_nvcsw
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::ptr;
    use std::time::Duration;

    use io_uring::{opcode, types};

    use super::*;
    use crate::uring::UringEnv;
    use crate::uring::ring::Held;

    const LEN: usize = 4096;

    /// Memory that is not there until it is given: whoever touches it sleeps.
    struct Absent {
        faults: OwnedFd,
        at: *mut libc::c_void,
    }

    /// The kernel's `UFFDIO_API`, `UFFDIO_REGISTER` and `UFFDIO_ZEROPAGE`.
    const API: libc::Ioctl = 0xc018_aa3f_u32 as libc::Ioctl;
    const REGISTER: libc::Ioctl = 0xc020_aa00_u32 as libc::Ioctl;
    const ZEROPAGE: libc::Ioctl = 0xc020_aa04_u32 as libc::Ioctl;
    /// Its version, and the mode in which missing pages are told of.
    const VERSION: u64 = 0xaa;
    const MISSING: u64 = 1;

    impl Absent {
        /// `None` if the kernel has no such thing, or not for us.
        fn new() -> Option<Absent> {
            // SAFETY: new memory of this process; the kernel reads and writes the arrays.
            unsafe {
                let raw = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
                let raw = i32::try_from(raw).ok().filter(|raw| *raw >= 0)?;
                let faults = OwnedFd::from_raw_fd(raw);
                let mut api = [VERSION, 0, 0];
                assert_eq!(libc::ioctl(raw, API, api.as_mut_ptr()), 0);
                let (access, kind) =
                    (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
                let at = libc::mmap(ptr::null_mut(), LEN, access, kind, -1, 0);
                assert_ne!(at, libc::MAP_FAILED);
                let mut region = [at as u64, LEN as u64, MISSING, 0];
                assert_eq!(libc::ioctl(raw, REGISTER, region.as_mut_ptr()), 0);
                Some(Absent { faults, at })
            }
        }

        #[expect(clippy::disallowed_methods, reason = "what sleeps is no task of a shard")]
        fn given_after(&self, wait: Duration) {
            std::thread::sleep(wait);
            let mut zeroes = [self.at as u64, LEN as u64, 0, 0];
            // SAFETY: the memory is ours, and the kernel reads and writes the array.
            let given =
                unsafe { libc::ioctl(self.faults.as_raw_fd(), ZEROPAGE, zeroes.as_mut_ptr()) };
            assert_eq!(given, 0);
        }
    }

    /// Sends memory that comes later: whoever hands that over waits for it.
    fn send_from(env: &UringEnv, drive: &Rc<Handle>, wait: Duration) -> bool {
        let Some(absent) = Absent::new() else { return false };
        let entry = opcode::Send::new(types::Fd(drive.as_raw_fd()), absent.at.cast(), LEN as u32);
        // SAFETY: the memory stays mapped for as long as the test runs.
        let op = unsafe { env.ring().start(drive, entry.build(), Held::Nothing) };
        std::thread::scope(|scope| {
            let giver = scope.spawn(move || absent.given_after(wait));
            let (sent, _) = env.block_on(op);
            assert_eq!(sent, LEN as i32);
            giver.join().unwrap();
        });
        true
    }

    // SAFETY: only the address and a descriptor.
    unsafe impl Send for Absent {}

    #[test]
    fn a_drive_that_keeps_who_hands_over_goes_apart() {
        let env = UringEnv::new().unwrap();
        // No drive that a test can have keeps anybody; a socket copies what it is sent.
        let (socket, _other) = UnixStream::pair().unwrap();
        let drive = Rc::new(Handle::of_drive(OwnedFd::from(socket), None));
        let send = |millis| send_from(&env, &drive, Duration::from_millis(millis));
        if !send(100) {
            return eprintln!("not tested: no userfaultfd here");
        }
        // The first one might have been anything.
        assert_eq!(drive.blocked(), Default::default());
        // One that takes no time is no drive's fault.
        send(0);
        send(100);
        let blocked = drive.blocked();
        assert_eq!(blocked.count, 1, "{blocked:?}");
        assert!(blocked.longest > SLOW, "{blocked:?}");
        // From now on the kernel's threads sleep.
        send(100);
        assert_eq!(drive.blocked(), blocked);
    }
}
