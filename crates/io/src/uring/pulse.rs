//! Whether the thread of an environment goes round, for other threads to see.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A handle, from any thread.
#[derive(Clone)]
pub struct Pulse(Arc<Shared>);

struct Shared {
    rounds: AtomicU64,
    asleep: AtomicBool,
    thread: u32,
}

impl Pulse {
    /// Of this thread.
    pub(super) fn new() -> Pulse {
        // SAFETY: a system call without pointers, that can't fail.
        let thread = unsafe { libc::gettid() };
        let (rounds, asleep) = Default::default();
        Pulse(Arc::new(Shared { rounds, asleep, thread: thread.cast_unsigned() }))
    }

    /// It has nothing to do while `sleep` runs.
    pub(super) fn asleep(&self, sleep: impl FnOnce()) {
        self.0.asleep.store(true, Ordering::Relaxed);
        sleep();
        self.0.asleep.store(false, Ordering::Relaxed);
    }

    pub(super) fn count_round(&self) {
        let Shared { rounds, .. } = &*self.0;
        rounds.store(rounds.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A number that changes with each round; `None` while it has nothing to do.
    pub fn round(&self) -> Option<u64> {
        let awake = !self.0.asleep.load(Ordering::Relaxed);
        awake.then(|| self.0.rounds.load(Ordering::Relaxed))
    }

    /// The thread, as the kernel numbers it.
    pub fn thread(&self) -> u32 {
        self.0.thread
    }

    /// Nobody else has it: the environment is gone.
    pub fn is_over(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}
