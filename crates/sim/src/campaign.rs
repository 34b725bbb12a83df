//! Many worlds, on as many threads as one likes. A world is one thread's business from beginning
//! to end, and results are handed over in the order of seeds: the number of threads changes
//! nothing but the time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use io::rng::mix;

use crate::failure::Failure;
use crate::run::Case;
use crate::world::Report;

pub struct Outcome {
    pub seed: u64,
    pub result: Result<Report, Failure>,
}

/// What a campaign came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub passed: u64,
    pub failed: u64,
    /// Of all traces, in the order of seeds: the same seeds give the same.
    pub trace: u64,
    pub requests: u64,
    pub virtual_nanos: u64,
}

impl Summary {
    fn add(&mut self, outcome: &Outcome) {
        let trace = match &outcome.result {
            Ok(report) => {
                self.passed += 1;
                self.requests += report.tally.requests;
                self.virtual_nanos += report.virtual_nanos;
                report.trace
            }
            Err(_) => {
                self.failed += 1;
                outcome.seed
            }
        };
        self.trace = mix(self.trace.rotate_left(7) ^ trace);
    }
}

/// Runs the seeds from `first` on, up to `last` if there is one, for as long as `go_on` says, and
/// hands every outcome to `each`, in order.
pub fn run(
    first: u64,
    last: Option<u64>,
    jobs: usize,
    go_on: impl Fn() -> bool + Sync,
    mut each: impl FnMut(&Outcome, &Summary),
) -> Summary {
    let next = AtomicU64::new(first);
    let (sender, receiver) = channel();
    let work = |sender: Sender<Outcome>| {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            // Not before a seed is taken: what was taken is run, and no seed is left out.
            if last.is_some_and(|last| seed > last) || !go_on() {
                return;
            }
            let result = Case::of(seed).run();
            if sender.send(Outcome { seed, result }).is_err() {
                return;
            }
        }
    };
    let mut summary = Summary::default();
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || work(sender));
        }
        drop(sender);
        // Bounded by the worlds that are over while an earlier one still runs.
        let mut early = BTreeMap::new();
        let mut due = first;
        for outcome in receiver {
            early.insert(outcome.seed, outcome);
            while let Some(outcome) = early.remove(&due) {
                summary.add(&outcome);
                each(&outcome, &summary);
                due += 1;
            }
        }
        // A seed that was taken when time was up left a gap.
        for outcome in early.into_values() {
            summary.add(&outcome);
            each(&outcome, &summary);
        }
    });
    summary
}
