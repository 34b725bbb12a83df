//! Slices: how long one task has the thread, for what, and giving it back in time.
//!
//! A task gives the thread back where it waits. Work that never waits ran to its end in one go, and
//! kept clients waiting for 10 ms. So there are two places that ask whether a task has had enough:
//! ```text
//!  task    read read read ·              · read read ...
//!                         │ [`breathe`]  │                 drives in memory, by the clock
//!                         │ [`spend`]    │                 long work, by what was done
//!  others                 └── a turn ────┘
//!          └── SLICE ─────┘
//! ```
//! The clock tells how long a slice was on this machine ([`Slices`], by [`Work`]); in virtual time
//! nothing takes time but what a model says. What was done is counted in both worlds, exactly:
//! tests hold [`crate::exec::Executor::most_work`] against [`SLICE_WORK_MAX`].

use std::cell::Cell;
use std::time::Instant;

use crate::env::Nanos;
use crate::latency::{Latencies, LatencyHistogram};

/// A task that has had the thread for so long gives it back at the next such place: about as long
/// as two steps of background work take, and far less than a drive needs to answer.
pub const SLICE: Nanos = Nanos::from_micros(100);
/// The clock is looked at each time so many bytes were copied, which takes some 10 us.
const LOOK_BYTES: usize = 64 << 10;

/// Work of one slice, after which [`spend`] gives the thread back: units of 100 to 200 ns each, as
/// a look at a few entries of a table, or a KiB copied and summed up.
pub const SLICE_WORK: u32 = 600;
/// No slice of background work has more: what is only counted afterwards is at most as much again.
pub const SLICE_WORK_MAX: u32 = 2 * SLICE_WORK;

/// What the thread is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Requests of clients, and all that is done for them.
    Requests,
    /// Making space: choosing stripes, compaction, merging.
    Compaction,
    Conversion,
    Checkpoint,
    Discard,
    Scrub,
    /// Rebuilding, restoring, copying drives.
    Rebuild,
    /// Judging drives.
    Watch,
    /// Status, metrics, and what operators ask for.
    Control,
}

impl Work {
    pub const ALL: [Work; 9] = [
        Work::Requests,
        Work::Compaction,
        Work::Conversion,
        Work::Checkpoint,
        Work::Discard,
        Work::Scrub,
        Work::Rebuild,
        Work::Watch,
        Work::Control,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Work::Requests => "requests",
            Work::Compaction => "compaction",
            Work::Conversion => "conversion",
            Work::Checkpoint => "checkpoint",
            Work::Discard => "discard",
            Work::Scrub => "scrub",
            Work::Rebuild => "rebuild",
            Work::Watch => "watch",
            Work::Control => "control",
        }
    }
}

/// How long slices were, for each kind of work.
#[derive(Default)]
pub struct Slices([LatencyHistogram; Work::ALL.len()]);

impl Slices {
    pub fn record(&mut self, work: Work, took: Nanos) {
        self.0[work as usize].record(took);
    }

    pub fn summary(&self) -> [(Work, Latencies); Work::ALL.len()] {
        Work::ALL.map(|work| (work, self.0[work as usize].summary()))
    }
}

#[derive(Clone, Copy)]
struct Slice {
    /// `None`: what is polled now is nobody's slice.
    began: Option<Instant>,
    /// Copied since the last look at the clock.
    bytes: usize,
    work: Work,
    /// Units of it so far.
    done: u32,
}

impl Slice {
    const fn new(began: Option<Instant>) -> Slice {
        Slice { began, bytes: 0, work: Work::Requests, done: 0 }
    }
}

thread_local!(static NOW: Cell<Slice> = const { Cell::new(Slice::new(None)) });

/// A task is polled from here on, or none.
pub(crate) fn begin(began: Option<Instant>) {
    NOW.set(Slice::new(began));
}

/// The same, where the clock is nothing: what was done is counted anew.
pub(crate) fn begin_work() {
    NOW.set(Slice::new(NOW.get().began));
}

/// What the slice was used for last, and units of work done in it.
pub(crate) fn work() -> (Work, u32) {
    let Slice { work, done, .. } = NOW.get();
    (work, done)
}

/// Whatever `future` does is this kind of work; and what comes after it in its task is what it was
/// before, if that had a name.
pub fn of<T>(work: Work, future: impl Future<Output = T>) -> impl Future<Output = T> {
    let mut future = Box::pin(future);
    std::future::poll_fn(move |context| {
        let outside = NOW.replace(Slice { work, ..NOW.get() }).work;
        let poll = future.as_mut().poll(context);
        if poll.is_ready() && outside != Work::Requests {
            NOW.set(Slice { work: outside, ..NOW.get() });
        }
        poll
    })
}

/// Counts work that was done, where nobody knew before how much it would be.
pub fn did(units: usize) {
    let slice = NOW.get();
    let units = u32::try_from(units).unwrap_or(u32::MAX);
    NOW.set(Slice { done: slice.done.saturating_add(units), ..slice });
}

/// Asked before so many units of work: waits for the task's next turn if they would be too many
/// for this slice. Parts of one task that run side by side share its slices.
pub async fn spend(units: usize) {
    std::future::poll_fn(|context| {
        let done = NOW.get().done;
        if done > 0 && done as usize + units > SLICE_WORK as usize {
            context.waker().wake_by_ref();
            return std::task::Poll::Pending;
        }
        did(units);
        std::task::Poll::Ready(())
    })
    .await;
}

/// It is to give the thread back, after the next so many bytes.
fn is_over(bytes: usize) -> bool {
    let slice = NOW.get();
    let (Some(start), bytes) = (slice.began, slice.bytes + bytes) else { return false };
    let looks = bytes >= LOOK_BYTES;
    NOW.set(Slice { bytes: if looks { 0 } else { bytes }, ..slice });
    looks && u128::from(SLICE.0) <= start.elapsed().as_nanos()
}

/// Waits for the task's next turn if it has had the thread for [`SLICE`]. Asked before so many
/// bytes are copied.
pub(crate) async fn breathe(bytes: usize) {
    let mut over = is_over(bytes);
    std::future::poll_fn(|context| {
        if std::mem::take(&mut over) {
            // Of other parts of the task, too: its next turn is a new slice.
            context.waker().wake_by_ref();
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(())
    })
    .await;
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "slices are of real time")]
    fn whoever_has_had_the_thread_for_long_waits_once() {
        assert!(breathe(1 << 20).now_or_never().is_some(), "nobody's");
        begin(Some(Instant::now() - std::time::Duration::from_nanos(SLICE.0)));
        assert!(breathe(4096).now_or_never().is_some(), "hardly anything was copied");
        assert!(breathe(LOOK_BYTES).now_or_never().is_none());
        let mut waits = Box::pin(breathe(LOOK_BYTES));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(waits.now_or_never().is_some(), "only once");
        begin(Some(Instant::now() + std::time::Duration::from_secs(1)));
        assert!(breathe(1 << 20).now_or_never().is_some(), "it has only begun");
        begin(None);
    }

    #[test]
    fn work_is_done_in_slices_and_counted_for_what_it_was() {
        let executor = crate::exec::Executor::new();
        let turns = std::rc::Rc::new(Cell::new(0));
        let own = turns.clone();
        executor.spawn(of(Work::Scrub, async move {
            for _ in 0..10 {
                spend(SLICE_WORK as usize / 2).await;
            }
            did(7);
            of(Work::Discard, spend(3 * SLICE_WORK as usize)).await;
            own.set(-1);
        }));
        executor.spawn(async move {
            while turns.get() >= 0 {
                turns.set(turns.get() + 1);
                assert!(turns.get() < 100, "it never gets there");
                crate::exec::yield_now().await;
            }
        });
        let polls = executor.run_ready(1000);
        assert_eq!(polls, 2 * 6, "five slices of two halves, and one of too much");
        let most = |wanted| executor.most_work().into_iter().find(|(work, _)| *work == wanted);
        assert_eq!(most(Work::Scrub), Some((Work::Scrub, 3 * SLICE_WORK)));
        assert_eq!(most(Work::Discard), Some((Work::Discard, SLICE_WORK + 7)), "it was waiting");
        assert_eq!(most(Work::Requests), Some((Work::Requests, 0)));
    }
}
