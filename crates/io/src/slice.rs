//! Giving the thread back in time.
//!
//! A task gives the thread back where it waits. Drives in memory answer at once, so that a batch of
//! background work on them ran to its end in one go, and kept clients waiting for 10 ms. They ask
//! here whether the task that uses them has had the thread for long enough:
//! ```text
//!  task    read read read ·              · read read ...
//!                         │ [`breathe`]  │
//!  others                 └── a turn ────┘
//!          └── SLICE ─────┘
//! ```
//! How long slices are is counted by the environment (`UringEnv::slices`). In virtual time none
//! is: there nothing takes time but what a model says.

use std::cell::Cell;
use std::time::Instant;

use crate::env::Nanos;

/// A task that has had the thread for so long gives it back at the next such place: about as long
/// as two steps of background work take, and far less than a drive needs to answer.
pub const SLICE: Nanos = Nanos::from_micros(100);
/// The clock is looked at each time so many bytes were copied, which takes some 10 us.
const LOOK_BYTES: usize = 64 << 10;

#[derive(Clone, Copy)]
struct Slice {
    /// `None`: what is polled now is nobody's slice.
    began: Option<Instant>,
    /// Copied since the last look at the clock.
    bytes: usize,
}

thread_local!(static NOW: Cell<Slice> = const { Cell::new(Slice { began: None, bytes: 0 }) });

/// A task is polled from here on, or none.
pub(crate) fn begin(began: Option<Instant>) {
    NOW.set(Slice { began, bytes: 0 });
}

/// It is to give the thread back, after the next so many bytes.
fn is_over(bytes: usize) -> bool {
    let Slice { began, bytes: before } = NOW.get();
    let (Some(start), bytes) = (began, before + bytes) else { return false };
    let looks = bytes >= LOOK_BYTES;
    NOW.set(Slice { began, bytes: if looks { 0 } else { bytes } });
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
}
