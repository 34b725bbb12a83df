//! What the engine is given instead of taking: time, timers, tasks, randomness, drives.

use std::future::Future;

use crate::drive::Drive;

/// Nanoseconds, as a point on the environment's monotonic clock or as a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    pub const ZERO: Nanos = Nanos(0);

    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    pub const fn saturating_sub(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add for Nanos {
    type Output = Nanos;
    fn add(self, span: Nanos) -> Nanos {
        Nanos(self.0 + span.0)
    }
}

/// The world as one shard sees it. A handle: cloning it is cheap and names the same world.
///
/// One environment is one thread. Nothing in it is `Send`; tasks spawned here run on the
/// thread that runs the executor.
pub trait Env: Clone + 'static {
    type Drive: Drive;

    /// Monotonic time.
    fn now(&self) -> Nanos;

    /// Completes once `now()` has reached `deadline`.
    fn sleep_until(&self, deadline: Nanos) -> impl Future<Output = ()> + 'static;

    /// Runs `task` to completion beside the caller. Tasks are never cancelled by the engine;
    /// only the end of the world (a crash in the simulator) drops them.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);

    /// The next number of the environment's random sequence.
    fn random(&self) -> u64;

    /// 128 bits that no other object has: identities of pools and drives.
    fn unique_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.random().to_le_bytes());
        id[8..].copy_from_slice(&self.random().to_le_bytes());
        id
    }

    /// Lets every other ready task run once before the caller goes on.
    fn yield_now(&self) -> impl Future<Output = ()> + 'static {
        let mut yielded = false;
        std::future::poll_fn(move |context| {
            if std::mem::replace(&mut yielded, true) {
                return std::task::Poll::Ready(());
            }
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        })
    }
}
