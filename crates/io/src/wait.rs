//! What requests wait for. Whoever serves them tells the environment how long each wait was
//! ([`Env::waited`]): a real one counts by cause those of clients' requests ([`Waits`]), a virtual
//! one tells its listener whose request it was.
//!
//! Nothing is done for a request that never waits: a wait is counted when it is over.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;

use crate::env::{Env, Nanos};
use crate::latency::{Latencies, LatencyHistogram};

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// The volume's limits.
    Limits,
    /// Other requests have all the places that drives have for such as this one.
    Admission,
    /// Another request has the lock of what it wants to change.
    Lock,
    /// Space has to be made first.
    Space,
    /// The journal is not durable yet, or has no room.
    Journal,
    /// What it asked of the drives itself.
    Drives,
}

impl Wait {
    pub const ALL: [Wait; 6] =
        [Wait::Limits, Wait::Admission, Wait::Lock, Wait::Space, Wait::Journal, Wait::Drives];

    pub fn name(self) -> &'static str {
        match self {
            Wait::Limits => "limits",
            Wait::Admission => "admission",
            Wait::Lock => "lock",
            Wait::Space => "space",
            Wait::Journal => "journal",
            Wait::Drives => "drives",
        }
    }
}

/// The window of [`WaitSummary::recent`] moves in steps of this: a count for each step is kept.
const STEP: Nanos = Nanos::from_secs(5);
/// Steps of the window: a minute, the last step of which is not over yet. What an operator looks at
/// is then what happens while he looks, and seldom nothing.
const STEPS: usize = 12;
/// For operators: seconds of the window.
pub const RECENT_SECS: u64 = STEP.0 / 1_000_000_000 * STEPS as u64;

/// Waits for one cause during some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    pub count: u64,
    pub nanos: u64,
    pub max_nanos: u64,
}

impl Waited {
    fn add(&mut self, other: Waited) {
        self.count += other.count;
        self.nanos = self.nanos.saturating_add(other.nanos);
        self.max_nanos = self.max_nanos.max(other.max_nanos);
    }
}

/// Waits for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitSummary {
    /// Since they began to be counted.
    pub all: Waited,
    /// In the last [`RECENT_SECS`].
    pub recent: Waited,
    pub latencies: Latencies,
}

#[derive(Default)]
struct OfCause {
    all: Waited,
    latencies: LatencyHistogram,
    /// For the last steps that had a wait, each in the place of its number modulo [`STEPS`]: its
    /// number, and its waits.
    steps: [(u64, Waited); STEPS],
}

impl OfCause {
    fn record(&mut self, nanos: Nanos, now: Nanos) {
        let one = Waited { count: 1, nanos: nanos.0, max_nanos: nanos.0 };
        self.all.add(one);
        self.latencies.record(nanos);
        let step = now.0 / STEP.0;
        let (number, waited) = &mut self.steps[step as usize % STEPS];
        if *number != step {
            (*number, *waited) = (step, Waited::default());
        }
        waited.add(one);
    }

    fn summary(&self, now: Nanos) -> WaitSummary {
        let step = now.0 / STEP.0;
        let is_recent = |number: u64| number <= step && number + STEPS as u64 > step;
        let mut recent = Waited::default();
        let steps = self.steps.iter().filter(|(number, _)| is_recent(*number));
        steps.for_each(|(_, waited)| recent.add(*waited));
        WaitSummary { all: self.all, recent, latencies: self.latencies.summary() }
    }
}

/// How long clients' requests waited, for each cause. A handle: clones are the same counts.
#[derive(Clone, Default)]
pub struct Waits(Rc<RefCell<[OfCause; Wait::ALL.len()]>>);

impl Waits {
    /// A wait that is over `now`.
    pub fn record(&self, wait: Wait, nanos: Nanos, now: Nanos) {
        self.0.borrow_mut()[wait as usize].record(nanos, now);
    }

    pub fn summary(&self, now: Nanos) -> [(Wait, WaitSummary); Wait::ALL.len()] {
        let causes = self.0.borrow();
        Wait::ALL.map(|wait| (wait, causes[wait as usize].summary(now)))
    }
}

/// Awaits `future` and tells how long it was waited for, if it was: what is there at once costs
/// nothing.
pub async fn told<T>(env: &impl Env, wait: Wait, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut since = None;
    let output = poll_fn(|context| {
        let poll = future.as_mut().poll(context);
        if poll.is_pending() {
            since.get_or_insert_with(|| env.recent());
        }
        poll
    })
    .await;
    if let Some(since) = since {
        env.waited(wait, since);
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(waits: &Waits, wait: Wait, at: Nanos) -> (u64, u64, u64) {
        let Waited { count, nanos, max_nanos } = waits.summary(at)[wait as usize].1.recent;
        (count, nanos, max_nanos)
    }

    #[test]
    fn the_window_forgets_what_is_over_a_minute_ago_and_the_rest_does_not() {
        let (waits, secs) = (Waits::default(), Nanos::from_secs);
        waits.record(Wait::Lock, Nanos(300), secs(1));
        waits.record(Wait::Lock, Nanos(100), secs(3));
        waits.record(Wait::Lock, Nanos(500), secs(58));
        waits.record(Wait::Drives, Nanos(7), secs(58));
        assert_eq!(recent(&waits, Wait::Lock, secs(59)), (3, 900, 500));
        assert_eq!(recent(&waits, Wait::Lock, secs(61)), (1, 500, 500));
        // The step that the first two were in is used again.
        waits.record(Wait::Lock, Nanos(20), secs(62));
        assert_eq!(recent(&waits, Wait::Lock, secs(62)), (2, 520, 500));
        assert_eq!(recent(&waits, Wait::Drives, secs(62)), (1, 7, 7));
        assert_eq!(recent(&waits, Wait::Lock, secs(119)), (1, 20, 20));
        assert_eq!(recent(&waits, Wait::Lock, secs(120)), (0, 0, 0));
        assert_eq!(recent(&waits, Wait::Lock, secs(600)), (0, 0, 0));
        let all = &waits.summary(secs(600))[Wait::Lock as usize].1;
        assert_eq!(all.all, Waited { count: 4, nanos: 920, max_nanos: 500 });
        assert_eq!(all.latencies.count, 4);
    }
}
