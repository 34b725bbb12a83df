//! What the engine is given instead of taking: time, timers, tasks, randomness, drives.

use std::fmt;
use std::future::Future;

use crate::drive::Drive;
use crate::origin::Origins;
use crate::wait::Wait;

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

/// For people: `1.5 ms`, `20 us`, `3 s`; three decimals at most.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let number = format!("{}.{:03}", self.0 / unit, self.0 % unit * 1_000 / unit);
        write!(f, "{} {name}", number.trim_end_matches('0').trim_end_matches('.'))
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
    /// What is left of it when drives of other kinds are taken away: whatever is put together of
    /// wrapped drives is the same type, however often they are wrapped, and compiled once.
    type Root: Env<Root = Self::Root>;

    fn root(&self) -> Self::Root;

    /// Monotonic time.
    fn now(&self) -> Nanos;

    /// The time of the last look at the clock: at most one round of ready tasks old, and free.
    fn recent(&self) -> Nanos;

    /// Completes once `now()` has reached `deadline`.
    fn sleep_until(&self, deadline: Nanos) -> impl Future<Output = ()> + 'static;

    /// Runs `task` to completion beside the caller. Tasks are never cancelled by the engine;
    /// only the end of the world (a crash in the simulator) drops them.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);

    /// The same, for what must not wait for what the caller has to do, nor keep it waiting: a
    /// client. It and what it spawns take turns with all others, however many tasks each has.
    fn spawn_apart(&self, task: impl Future<Output = ()> + 'static) {
        self.spawn(task);
    }

    /// The same, for what is done for the requests of several clients in turn: it and what it
    /// spawns take turns with pools. Whose work it does it says itself ([`Env::on_behalf`]).
    fn spawn_shared(&self, task: impl Future<Output = ()> + 'static) {
        self.spawn(task);
    }

    /// The requests that the running task works for, if the environment tells them apart.
    fn origins(&self) -> Origins {
        Origins::default()
    }

    /// What `future` does, and what it spawns, is done for these requests.
    fn on_behalf<F: Future>(&self, _: Origins, future: F) -> impl Future<Output = F::Output> {
        future
    }

    /// The request that the task serves has waited for this until now ([`crate::wait::told`]).
    fn waited(&self, _wait: Wait, _since: Nanos) {}

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
        crate::exec::yield_now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_their_unit() {
        let shown = |nanos| Nanos(nanos).to_string();
        assert_eq!([shown(0), shown(999), shown(1_000)], ["0 ns", "999 ns", "1 us"]);
        assert_eq!([shown(1_050_000), shown(2_000_000_001)], ["1.05 ms", "2 s"]);
        assert_eq!(shown(100_000_000), "100 ms");
    }
}
