//! The detectors of some drives over their traces: when each drive was called unresponsive, and
//! which requests would have gone round it.
//!
//! Nothing is redirected: the drive gets every request, as in the paper's Fusion-ND with
//! detection on (FusionRAID §5.3). With redirection a spike would meet fewer requests and end
//! no later.

use io::Nanos;
use policy::learn::{self, Learning};
use policy::recent::Recent;
use policy::spike::{Slot, SpikeConfig, SpikeDetector};
use sim::drive::probe::Period;

use super::trace::DriveTrace;

/// t of the detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    Fixed(Nanos),
    /// `learning` over the given quantile of each drive's latencies and its peers'.
    Learned {
        learning: Learning,
        permille: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub threshold: Threshold,
    pub slots: u8,
    pub enter: u32,
    pub leave: u32,
}

/// How often thresholds are learned anew.
const LEARN_EVERY: u64 = 100_000_000;

/// What one drive's detector made of its trace.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Time in which it was unresponsive.
    pub unresponsive: Vec<Period>,
    /// By request: whether it was dispatched in that time.
    pub round: Vec<bool>,
    /// t, the average over time.
    pub threshold: Nanos,
}

/// Replays drives that are each other's peers.
pub fn replay(drives: &[DriveTrace], settings: Settings) -> Vec<Verdict> {
    let mut watches: Vec<Watch> = drives.iter().map(|trace| Watch::new(trace, settings)).collect();
    let length = drives.iter().map(|trace| trace.length.0).max().unwrap_or(0);
    let mut now = 0;
    while now < length {
        now = (now + LEARN_EVERY).min(length);
        watches.iter_mut().for_each(|watch| watch.play(now));
        if let Threshold::Learned { learning, permille } = settings.threshold {
            learn_all(&mut watches, now, learning, permille);
        }
    }
    watches.into_iter().map(|watch| watch.end(length)).collect()
}

fn learn_all(watches: &mut [Watch], now: u64, learning: Learning, permille: u32) {
    let usual: Vec<Option<u64>> = watches
        .iter()
        .map(|watch| {
            let known = watch.recent.count() >= learn::SAMPLES_MIN;
            known.then(|| watch.recent.quantile(permille))
        })
        .collect();
    for (at, watch) in watches.iter_mut().enumerate() {
        let others = usual.iter().enumerate().filter(|&(other, _)| other != at);
        let mut peers: Vec<u64> = others.filter_map(|(_, &nanos)| nanos).collect();
        let slow_from = learn::slow_from(learning, usual[at], &mut peers);
        watch.set_window(now, learn::threshold(learning, slow_from));
    }
}

struct Watch<'a> {
    trace: &'a DriveTrace,
    detector: SpikeDetector,
    recent: Recent,
    /// Slots begin at multiples of their length from here.
    base: u64,
    now: u64,
    dispatched: usize,
    completed: usize,
    /// Of requests, by their index.
    slots: Vec<Option<Slot>>,
    since: Option<u64>,
    window_sum: u128,
    verdict: Verdict,
}

impl Watch<'_> {
    fn new(trace: &DriveTrace, settings: Settings) -> Watch<'_> {
        let window = match settings.threshold {
            Threshold::Fixed(nanos) => nanos.0,
            Threshold::Learned { learning, .. } => learning.initial,
        };
        let Settings { slots, enter, leave, .. } = settings;
        let detector = SpikeDetector::new(SpikeConfig { window, slots, enter, leave }, 0);
        Watch {
            trace,
            detector,
            recent: Recent::default(),
            base: 0,
            now: 0,
            dispatched: 0,
            completed: 0,
            slots: vec![None; trace.requests.len()],
            since: None,
            window_sum: 0,
            verdict: Verdict::default(),
        }
    }

    /// All that happens up to and including `until`; of two at one time, completions first.
    fn play(&mut self, until: u64) {
        let trace = self.trace;
        loop {
            let dispatch = trace.requests.get(self.dispatched).map(|request| request.begin.0);
            let done = trace.completions.get(self.completed);
            let end = done.map(|&index| trace.requests[index as usize].end.0);
            let next = dispatch.into_iter().chain(end).min().filter(|&at| at <= until);
            let Some(next) = next else { break };
            self.pass(next);
            // A request can't end before it begins, but in the same nanosecond.
            let begun = done.filter(|&&index| (index as usize) < self.dispatched);
            match begun.filter(|_| end == Some(next)) {
                Some(&index) => self.complete(next, index as usize),
                None => self.dispatch(next),
            }
        }
        self.pass(until);
    }

    fn dispatch(&mut self, now: u64) {
        self.verdict.round.push(self.detector.is_unresponsive());
        self.slots[self.dispatched] = Some(self.detector.dispatch(now));
        self.dispatched += 1;
    }

    fn complete(&mut self, now: u64, index: usize) {
        let slot = self.slots[index].take().expect("it was dispatched");
        self.detector.complete(now, slot);
        self.completed += 1;
        self.recent.record(now - self.trace.requests[index].begin.0);
        self.note(now);
    }

    /// Time passes, slot by slot, so that the moment of a detection is known exactly.
    fn pass(&mut self, until: u64) {
        let config = self.detector.config();
        let slot = (config.window / u64::from(config.slots.max(1))).max(1);
        self.window_sum += u128::from(until - self.now) * u128::from(config.window);
        let mut edge = self.base + ((self.now - self.base) / slot + 1) * slot;
        // Later than that the window holds nothing that could become a straggler.
        let last = until.min(edge + u64::from(config.slots) * slot);
        while edge <= last {
            self.detector.advance(edge);
            self.note(edge);
            edge += slot;
        }
        self.detector.advance(until);
        self.now = until;
        self.note(until);
    }

    fn note(&mut self, now: u64) {
        match (self.since, self.detector.is_unresponsive()) {
            (None, true) => self.since = Some(now),
            (Some(since), false) => {
                self.verdict.unresponsive.push(Period { begin: Nanos(since), end: Nanos(now) });
                self.since = None;
            }
            _ => {}
        }
    }

    fn set_window(&mut self, now: u64, window: u64) {
        if self.detector.config().window != window {
            self.detector.set_window(now, window);
            self.base = now;
        }
    }

    fn end(mut self, length: u64) -> Verdict {
        if let Some(since) = self.since {
            self.verdict.unresponsive.push(Period { begin: Nanos(since), end: Nanos(length) });
        }
        // What ends after the trace was not played; nobody asked there.
        self.verdict.round.resize(self.trace.requests.len(), false);
        self.verdict.threshold = Nanos((self.window_sum / u128::from(length.max(1))) as u64);
        self.verdict
    }
}
