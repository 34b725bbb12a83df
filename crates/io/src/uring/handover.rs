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
//! A thread that did not sleep was busy, or kept by others that ran, which is no drive's fault. How
//! long it slept costs system calls to find out, so it is not asked every time.

use std::fs::File;
use std::os::unix::fs::FileExt;
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
    /// What the kernel says of how long this thread waited for a processor, once it is asked.
    waits: Option<File>,
}

/// A handover under way.
pub(super) struct Begun {
    at: Nanos,
    /// Time until then in which this thread did not sleep, if that is asked.
    awake: Option<Nanos>,
}

impl Watch {
    pub(super) fn start() -> Watch {
        Watch { clock: Clock::start(), closely_until: Nanos::ZERO, waits: None }
    }

    /// Whether operations on it are left to the kernel's threads.
    pub(super) fn is_apart(&self, handle: &Handle) -> bool {
        let until = handle.apart_until();
        until > Nanos::ZERO && self.clock.now() < until
    }

    pub(super) fn begin(&self) -> Begun {
        let at = self.clock.now();
        Begun { at, awake: (at < self.closely_until).then(|| self.awake()) }
    }

    /// Operations on these drives were handed over.
    pub(super) fn end(&mut self, begun: &Begun, drives: &[Rc<Handle>]) {
        let now = self.clock.now();
        let took = now.saturating_sub(begun.at);
        if took <= SLOW {
            return;
        }
        self.closely_until = now + CLOSELY;
        self.waits = self.waits.take().or_else(|| File::open("/proc/thread-self/schedstat").ok());
        let Some(before) = begun.awake else { return };
        let slept = took.saturating_sub(self.awake().saturating_sub(before));
        if slept > SLOW {
            let mut told: Vec<_> = drives.iter().collect();
            told.sort_by_key(|drive| Rc::as_ptr(drive));
            told.dedup_by_key(|drive| Rc::as_ptr(drive));
            told.iter().for_each(|drive| drive.has_blocked(slept, now + APART));
        }
    }

    /// How long this thread has run, or waited to run.
    fn awake(&self) -> Nanos {
        // SAFETY: all zeroes is a valid `timespec`, and the kernel writes one.
        let ran = unsafe {
            let mut ran: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut ran);
            Nanos::from_secs(ran.tv_sec.cast_unsigned()) + Nanos(ran.tv_nsec.cast_unsigned())
        };
        ran + self.waited()
    }

    /// For a processor; nothing, where the kernel does not say.
    fn waited(&self) -> Nanos {
        let mut text = [0; 64];
        let count = self.waits.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = str::from_utf8(&text[..count.unwrap_or(0)]).unwrap_or("");
        // Time that it ran, time that it waited, times that it ran.
        let waited = text.split(' ').nth(1).and_then(|nanos| nanos.parse().ok());
        Nanos(waited.unwrap_or(0))
    }
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
