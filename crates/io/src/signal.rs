//! SIGTERM, SIGINT and SIGHUP as events instead of sudden death.

use std::io;
use std::mem;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;

use crate::buf::BufMut;
use crate::uring::{Handle, Ring, UringEnv};

/// What the kernel writes for each signal.
const RECORD_BYTES: usize = mem::size_of::<libc::signalfd_siginfo>();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: the service manager wants us to end.
    Terminate,
    /// SIGINT: somebody pressed Ctrl-C.
    Interrupt,
    /// SIGHUP: somebody wants the configuration read again, or closed the terminal.
    Hangup,
}

/// While this lives, the three signals are delivered here. Those that come afterwards kill. Those
/// by which a write ends or stops the whole process are blocked: the write fails instead, or is
/// done.
///
/// A signal goes to any thread that does not block it, and threads inherit what is blocked:
/// make this before starting any other thread.
pub struct Signals {
    ring: Ring,
    file: Rc<Handle>,
    earlier: libc::sigset_t,
}

impl Signals {
    pub fn new(env: &UringEnv) -> io::Result<Signals> {
        let set = wanted();
        let earlier = set_mask(libc::SIG_BLOCK, &set)?;
        // The mask that is put back at the end has none of these either.
        set_mask(libc::SIG_BLOCK, &of_writing())?;
        // SAFETY: the kernel reads the set.
        let raw = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else has it.
        let file = Rc::new(unsafe { OwnedFd::from_raw_fd(raw) }.into());
        Ok(Signals { ring: env.ring().clone(), file, earlier })
    }

    /// The next signal; waits for one.
    pub async fn next(&self) -> Signal {
        loop {
            let buf = BufMut::with_len(RECORD_BYTES);
            let (buf, count) = self.ring.read(&self.file, buf, 0..RECORD_BYTES, 0).await;
            match count {
                Ok(count) => assert_eq!(count, RECORD_BYTES, "signalfd gives whole records"),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => panic!("reading a signalfd failed: {error}"),
            }
            return signal(&buf);
        }
    }
}

/// Of a thread that no signal is meant for.
pub(crate) fn block_all() {
    // SAFETY: `sigfillset` makes the zeroed set valid.
    let all = unsafe {
        let mut set = mem::zeroed();
        libc::sigfillset(&raw mut set);
        set
    };
    // Fails only for an invalid `how`.
    let _ = set_mask(libc::SIG_BLOCK, &all);
}

/// The signal's number is the record's first field.
#[expect(clippy::disallowed_methods, reason = "the kernel writes in the machine's order")]
fn signal(record: &[u8]) -> Signal {
    let number = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]);
    match number as libc::c_int {
        libc::SIGTERM => Signal::Terminate,
        libc::SIGHUP => Signal::Hangup,
        _ => Signal::Interrupt,
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Those that came and were not waited for were for what has ended, as the second of two
        // that `timeout` sends: they must not kill whoever goes on to exit in order.
        forget_pending(&wanted());
        // Fails only for an invalid `how`.
        let _ = set_mask(libc::SIG_SETMASK, &self.earlier);
    }
}

fn wanted() -> libc::sigset_t {
    set_of(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
}

fn forget_pending(set: &libc::sigset_t) {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel reads the set and the time, and writes nothing.
    while unsafe { libc::sigtimedwait(set, ptr::null_mut(), &raw const at_once) } > 0 {}
}

/// A file that may not grow (`ulimit -f`) is an error of that write; a terminal that lets only
/// programs in the foreground write is written to all the same.
fn of_writing() -> libc::sigset_t {
    set_of(&[libc::SIGXFSZ, libc::SIGTTOU])
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: `sigemptyset` makes the zeroed set valid; the signals exist.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// Changes which signals this thread blocks; gives back what it was before.
fn set_mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    // SAFETY: all zeroes is a `sigset_t`; the kernel reads one set and writes the other.
    let (result, earlier) = unsafe {
        let mut earlier = mem::zeroed();
        (libc::pthread_sigmask(how, ptr::from_ref(set), &raw mut earlier), earlier)
    };
    if result == 0 { Ok(earlier) } else { Err(io::Error::from_raw_os_error(result)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `timeout` sends a signal twice; a server that had stopped for the first died of the other.
    #[test]
    fn a_signal_that_comes_too_late_to_be_read_kills_nobody() {
        let env = UringEnv::new().expect("a ring");
        let signals = Signals::new(&env).expect("a signalfd");
        // SAFETY: it goes to this thread, which blocks it.
        let send = || assert_eq!(unsafe { libc::raise(libc::SIGTERM) }, 0);
        send();
        assert_eq!(env.block_on(signals.next()), Signal::Terminate);
        send();
        drop(signals);
    }
}
