//! Which drives are slow just now: FusionRAID's straggler windows (§4.3) over the operations of
//! each drive, as the garbage-collection signal of schemes that steer round it; how long its
//! operations take, for people; and whether it is slower than its peers for long (`pool::slow`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use io::latency::{OperationHistograms, OperationLatencies};
use io::{Env, Nanos, Operation};
use members::slow::{Answered, SlowDrive, Told, Verdict};
use policy::learn::Learning;
use policy::slow::{self, Finding};
use policy::spike::{Slot, SpikeConfig, SpikeDetector, Spikes};

/// What counts as slow. FusionRAID's t and y (§5.1); two stragglers rather than its one or more,
/// because a steered drive is left alone for at least a window.
pub const CONFIG: SpikeConfig = SpikeConfig { window: 2_000_000, slots: 10, enter: 2, leave: 0 };
/// Drives are judged so often: a slot of the window.
pub const EVERY: Nanos = Nanos(CONFIG.window / CONFIG.slots as u64);

/// The watch over one drive; clones name the same.
#[derive(Clone)]
pub struct Watch {
    clock: Rc<dyn Fn() -> Nanos>,
    detector: Rc<RefCell<SpikeDetector>>,
    histograms: Rc<RefCell<OperationHistograms>>,
    spikes: Rc<Cell<Spikes>>,
    under_way: Rc<Cell<u64>>,
    periods: Rc<RefCell<Periods>>,
}

/// What tells a drive that is slow for long.
#[derive(Default)]
pub struct Periods {
    recent: Answered,
    /// When it answered last, or was asked with nothing under way.
    heard: Nanos,
    pub verdict: Verdict,
    /// It has been slow for so long that it is suspect.
    pub suspect: bool,
    pub told: Told,
}

/// An operation that is watched.
pub struct Ticket {
    operation: Operation,
    began: Nanos,
    /// Flushes and discards are slow by nature and say nothing of the drive.
    slot: Option<Slot>,
}

/// What a watch has seen since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub latency: OperationLatencies,
    pub under_way: u64,
    /// Requests that should have been answered by now, and all that ever should have been.
    pub stragglers: u64,
    pub stragglers_total: u64,
    /// There are so many of them that the drive is slow.
    pub is_slow: bool,
    /// How often it was, and how long in all (ns), one that goes on included.
    pub spikes: u64,
    pub spike_nanos: u64,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl Watch {
    pub fn new<E: Env>(env: &E) -> Watch {
        let (own, now) = (env.clone(), env.recent().0);
        let detector = Rc::new(RefCell::new(SpikeDetector::new(CONFIG, now)));
        Watch {
            // What answered while we were away did so at one time.
            clock: Rc::new(move || own.recent()),
            detector,
            histograms: Rc::default(),
            spikes: Rc::default(),
            under_way: Rc::default(),
            periods: Rc::default(),
        }
    }

    pub fn begin(&self, operation: Operation) -> Ticket {
        let began = (self.clock)();
        if self.under_way.replace(self.under_way.get() + 1) == 0 {
            self.periods.borrow_mut().heard = began;
        }
        let counts = matches!(operation, Operation::Read | Operation::Write);
        let slot = counts.then(|| self.detector.borrow_mut().dispatch(began.0));
        self.note(began);
        Ticket { operation, began, slot }
    }

    pub fn end(&self, ticket: Ticket) {
        let now = (self.clock)();
        self.under_way.set(self.under_way.get() - 1);
        if let Some(slot) = ticket.slot {
            self.detector.borrow_mut().complete(now.0, slot);
            self.note(now);
        }
        let took = now.saturating_sub(ticket.began);
        let mut periods = self.periods.borrow_mut();
        periods.heard = now;
        periods.recent.note(ticket.operation, took.0);
        self.histograms.borrow_mut().record(ticket.operation, took);
    }

    fn note(&self, now: Nanos) {
        let mut spikes = self.spikes.get();
        spikes.note(self.detector.borrow().is_unresponsive(), now.0);
        self.spikes.set(spikes);
    }

    pub fn seen(&self) -> Seen {
        let is_slow = self.is_slow();
        let (detector, spikes) = (self.detector.borrow(), self.spikes.get());
        Seen {
            latency: self.histograms.borrow().summary(),
            under_way: self.under_way.get(),
            stragglers: detector.stragglers().into(),
            stragglers_total: detector.stragglers_total(),
            is_slow,
            spikes: spikes.count(),
            spike_nanos: spikes.nanos((self.clock)().0),
        }
    }

    /// What it answered since this was last asked, compared with its peers by [`slow::judge`].
    pub fn end_period(&self, learning: Learning) -> slow::Seen {
        let mut periods = self.periods.borrow_mut();
        let silent = match self.under_way.get() {
            0 => 0,
            _ => (self.clock)().saturating_sub(periods.heard).0,
        };
        periods.recent.end_period(silent, learning)
    }

    /// What the period says of it; whether it is slow from now on, or is not any more.
    pub fn note_period(&self, finding: Finding) -> bool {
        self.periods.borrow_mut().verdict.note((self.clock)().0, finding)
    }

    /// Whether it was slow, and what it answered until now, says nothing any more.
    pub fn forget_periods(&self) {
        let mut periods = self.periods.borrow_mut();
        let told = std::mem::take(&mut periods.told);
        *periods = Periods { heard: (self.clock)(), told, ..Periods::default() };
    }

    pub fn periods(&self) -> &RefCell<Periods> {
        &self.periods
    }

    /// How much slower than its peers it is, if it is.
    pub fn slow_drive(&self, bypassed: bool) -> Option<SlowDrive> {
        self.periods.borrow().verdict.slow_drive((self.clock)().0, bypassed)
    }

    pub fn is_slow(&self) -> bool {
        let now = (self.clock)();
        self.detector.borrow_mut().advance(now.0);
        self.note(now);
        self.detector.borrow().is_unresponsive()
    }
}

#[cfg(test)]
mod tests {
    use io::virt::VirtEnv;

    use super::*;

    #[test]
    fn a_drive_with_stragglers_is_slow_until_they_are_answered() {
        let env = VirtEnv::new(1);
        let watch = Watch::new(&env);
        let wait = |nanos| env.block_on(env.sleep_until(env.now() + Nanos(nanos)));
        let [one, other] = [watch.begin(Operation::Read), watch.begin(Operation::Write)];
        assert!(!watch.is_slow());
        wait(CONFIG.window / 2);
        assert!(!watch.is_slow(), "they may be answered yet");
        wait(CONFIG.window);
        assert!(watch.is_slow());
        assert_eq!((watch.seen().under_way, watch.seen().stragglers), (2, 2));
        watch.end(one);
        assert!(watch.is_slow(), "one is still out");
        wait(5_000);
        watch.end(other);
        assert!(!watch.is_slow());
        assert_eq!((watch.seen().spikes, watch.seen().spike_nanos), (1, 5_000));
    }

    #[test]
    fn flushes_are_timed_and_make_no_drive_slow() {
        let env = VirtEnv::new(1);
        let watch = Watch::new(&env);
        let flushes = [Operation::Flush, Operation::Flush].map(|flush| watch.begin(flush));
        env.block_on(env.sleep_until(env.now() + Nanos(CONFIG.window * 5)));
        assert!(!watch.is_slow());
        flushes.into_iter().for_each(|ticket| watch.end(ticket));
        watch.end(watch.begin(Operation::Read));
        let Seen { latency, under_way, stragglers_total, .. } = watch.seen();
        assert_eq!((latency.reads.count, latency.writes.count, latency.flushes.count), (1, 0, 2));
        assert!(latency.flushes.p50_nanos.abs_diff(CONFIG.window * 5) < CONFIG.window / 10);
        assert_eq!((under_way, stragglers_total), (0, 0));
    }
}
