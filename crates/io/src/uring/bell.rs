//! Wakes the parked thread from another one: an eventfd whose read is always in the ring.

use std::cell::RefCell;
use std::fs::File;
use std::future::Future;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::handle::Handle;
use super::ring::Ring;
use crate::buf::BufMut;

/// Bytes of an eventfd's counter.
const COUNTER_BYTES: usize = 8;

type Reading = Pin<Box<dyn Future<Output = ()>>>;

pub(super) struct Bell {
    ring: Ring,
    counter: Rc<Handle>,
    reading: RefCell<Option<Reading>>,
}

impl Bell {
    pub(super) fn new(ring: &Ring) -> io::Result<Bell> {
        // SAFETY: a system call without pointers.
        let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else has it.
        let counter = Rc::new(unsafe { OwnedFd::from_raw_fd(raw) }.into());
        Ok(Bell { ring: ring.clone(), counter, reading: RefCell::new(None) })
    }

    /// What other threads call.
    pub(super) fn ringer(&self) -> io::Result<Arc<dyn Fn() + Send + Sync>> {
        let counter = File::from(self.counter.as_fd().try_clone_to_owned()?);
        #[expect(clippy::disallowed_methods, reason = "the kernel reads in the machine's order")]
        let once = 1u64.to_ne_bytes();
        Ok(Arc::new(move || {
            // Fails only when 2^64-2 rings were not heard yet.
            let _ = (&counter).write(&once);
        }))
    }

    /// Makes sure that a ring from now on, or one not heard yet, completes something.
    pub(super) fn listen(&self) {
        let mut reading = self.reading.borrow_mut();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let future = reading.get_or_insert_with(|| self.read());
            if future.as_mut().poll(&mut context).is_pending() {
                return;
            }
            *reading = None;
        }
    }

    fn read(&self) -> Reading {
        let (ring, counter) = (self.ring.clone(), self.counter.clone());
        Box::pin(async move {
            let buf = BufMut::with_len(COUNTER_BYTES);
            let (_, heard) = ring.read(&counter, buf, 0..COUNTER_BYTES, 0).await;
            assert!(heard.is_ok(), "eventfd {}: {heard:?}", counter.as_raw_fd());
        })
    }
}
