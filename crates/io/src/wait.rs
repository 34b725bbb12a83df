//! What requests wait for. Whoever serves them tells the environment how long each wait was
//! ([`Env::waited`]): a real one counts them by cause ([`Waits`]), a virtual one tells its listener
//! whose request it was.

use std::future::{Future, poll_fn};
use std::pin::pin;

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

/// How long requests waited, for each cause.
#[derive(Default)]
pub struct Waits([LatencyHistogram; Wait::ALL.len()]);

impl Waits {
    pub fn record(&mut self, wait: Wait, nanos: Nanos) {
        self.0[wait as usize].record(nanos);
    }

    pub fn summary(&self) -> [(Wait, Latencies); Wait::ALL.len()] {
        Wait::ALL.map(|wait| (wait, self.0[wait as usize].summary()))
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
