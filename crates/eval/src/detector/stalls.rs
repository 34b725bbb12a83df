//! A drive that answers nothing for a second now and then, as disks do that try to read a weak
//! sector again and again.

use io::model::{Command, Completion, Model, ModelCounters, Tag};
use io::rng::Rng;
use io::{Geometry, Nanos};

/// From the begin of one to the begin of the next.
const EVERY: u64 = 20_000_000_000;
const LONG: u64 = 1_000_000_000;

/// Passes everything on, but during a stall: what comes then is passed on at its end.
pub struct Stalls {
    drive: Box<dyn Model>,
    /// Of the first stall, so that drives don't stall together.
    phase: u64,
    held: Vec<(Tag, Command)>,
    /// The latest time that it was told.
    now: Nanos,
}

impl Stalls {
    pub fn new(drive: Box<dyn Model>, seed: u64) -> Stalls {
        let phase = Rng::new(seed).below(EVERY);
        Stalls { drive, phase, held: Vec::new(), now: Nanos::ZERO }
    }

    /// The end of the stall that it is in.
    fn end(&self) -> Option<Nanos> {
        let since = self.now.0.checked_sub(self.phase)? % EVERY;
        (since < LONG).then(|| Nanos(self.now.0 - since + LONG))
    }
}

impl Model for Stalls {
    fn geometry(&self) -> Geometry {
        self.drive.geometry()
    }

    fn submit(&mut self, now: Nanos, tag: Tag, command: Command) {
        self.now = now;
        match self.end() {
            Some(_) => self.held.push((tag, command)),
            None => self.drive.submit(now, tag, command),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.drive.next_event().into_iter().chain(self.end()).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let end = self.end().filter(|&end| end <= now);
        if let Some(end) = end {
            self.drive.advance(end, done);
            self.held.drain(..).for_each(|(tag, command)| self.drive.submit(end, tag, command));
        }
        self.drive.advance(now, done);
        self.now = now;
    }

    fn in_flight(&self) -> usize {
        self.drive.in_flight() + self.held.len()
    }

    fn power_cycle(&mut self, now: Nanos) {
        self.now = now;
        self.held.clear();
        self.drive.power_cycle(now);
    }

    fn counters(&self) -> ModelCounters {
        self.drive.counters()
    }

    /// For the oracle a stall is what a collection is.
    fn is_collecting(&self) -> bool {
        self.end().is_some()
    }
}
