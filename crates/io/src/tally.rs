//! Requests on one thing, counted: how many, how long they took, how many are under way.

use std::cell::{Cell, RefCell};

use crate::latency::{OperationHistograms, OperationLatencies};
use crate::{Env, Nanos, Operation};

/// Requests that were answered, and those that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounters {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub flushes: u64,
    pub trims: u64,
    pub errors: u64,
}

pub struct Tally {
    /// Whether latencies are recorded.
    is_timed: bool,
    histograms: RefCell<OperationHistograms>,
    counters: Cell<RequestCounters>,
    under_way: Cell<u64>,
}

/// A request that has come and is not answered.
#[must_use = "it is over when this is dropped"]
pub struct UnderWay<'a> {
    tally: &'a Tally,
    /// When it came, if anybody wants to know.
    came: Option<Nanos>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.tally.under_way.set(self.tally.under_way.get() - 1);
    }
}

impl Tally {
    pub fn new(is_timed: bool) -> Tally {
        Tally {
            is_timed,
            histograms: RefCell::default(),
            counters: Cell::default(),
            under_way: Cell::new(0),
        }
    }

    /// The clock of the event loop is free, and right about all that waits for a drive: a request
    /// comes with one look at the completions and is answered with another.
    pub fn begin<E: Env>(&self, env: &E) -> UnderWay<'_> {
        self.under_way.set(self.under_way.get() + 1);
        UnderWay { tally: self, came: self.is_timed.then(|| env.recent()) }
    }

    /// Counts a request of so many bytes, and how long it took if it went well: refusals come at
    /// once and would only flatter.
    pub fn end<E: Env, T, F>(
        &self,
        env: &E,
        (operation, bytes): (Operation, u64),
        request: UnderWay<'_>,
        result: &Result<T, F>,
    ) {
        let mut counters = self.counters.get();
        match (result, operation) {
            (Err(_), _) => counters.errors += 1,
            (Ok(_), Operation::Read) => {
                counters.reads += 1;
                counters.read_bytes += bytes;
            }
            (Ok(_), Operation::Write) => {
                counters.writes += 1;
                counters.write_bytes += bytes;
            }
            (Ok(_), Operation::Flush) => counters.flushes += 1,
            (Ok(_), Operation::Discard) => counters.trims += 1,
        }
        self.counters.set(counters);
        if let (Some(came), Ok(_)) = (request.came, result) {
            let took = env.recent().saturating_sub(came);
            self.histograms.borrow_mut().record(operation, took);
        }
    }

    pub fn latencies(&self) -> OperationLatencies {
        self.histograms.borrow().summary()
    }

    pub fn counters(&self) -> RequestCounters {
        self.counters.get()
    }

    pub fn under_way(&self) -> u64 {
        self.under_way.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virt::VirtEnv;

    #[test]
    fn failures_are_counted_and_not_timed_and_who_gives_up_is_not_under_way() {
        let env = VirtEnv::new(1);
        let tally = Tally::new(true);
        let [one, other, third] = [(); 3].map(|()| tally.begin(&env));
        assert_eq!(tally.under_way(), 3);
        env.block_on(env.sleep_until(env.now() + Nanos::from_millis(3)));
        tally.end(&env, (Operation::Read, 512), one, &Ok::<(), ()>(()));
        tally.end(&env, (Operation::Read, 512), other, &Err::<(), ()>(()));
        drop(third);
        let counters = tally.counters();
        assert_eq!((counters.reads, counters.read_bytes, counters.errors), (1, 512, 1));
        let reads = tally.latencies().reads;
        assert_eq!((reads.count, tally.under_way()), (1, 0));
        assert!(reads.max_nanos.abs_diff(3_000_000) < 30_000, "{reads:?}");
        let untimed = Tally::new(false);
        untimed.end(&env, (Operation::Flush, 0), untimed.begin(&env), &Ok::<(), ()>(()));
        assert_eq!(untimed.counters().flushes, 1);
        assert_eq!(untimed.latencies(), OperationLatencies::default());
    }
}
