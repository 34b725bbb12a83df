//! Which replica reads, which writes, and what the one that writes does next.
//!
//! ```text
//!             t < t_min                      t >= t_min, in sync, the reader lacks something
//!   catch up ───────────► write new ───────────────────────────────────────────► switch
//!   what the other has    as it comes, or wait                                      │
//!      ▲                                                                            │
//!      └──────────────────────── the other one writes from now on ◄─────────────────┘
//! ```
//! A function of what is known; nothing here waits or knows the drives.

use io::Nanos;

/// What is known when a decision is due.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub now: Nanos,
    /// Sequence of the newest entry in the cache.
    pub newest: u64,
    /// Every entry up to here is on this replica.
    pub applied: [u64; 2],
    pub alive: [bool; 2],
    /// Everything is to be on both as soon as possible: windows are cut short.
    pub closing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// What the other replica has, and this one has not.
    CatchUp { side: usize, to: u64 },
    /// What came since.
    Write { side: usize, to: u64 },
    /// This one writes from now on.
    Switch { side: usize },
    /// Nothing before this moment, unless something new comes.
    Wait { until: Nanos },
    /// All living replicas have everything.
    Rest,
}

#[derive(Clone, Copy, Debug)]
pub struct Roles {
    writer: usize,
    began: Nanos,
    /// Shortest window.
    t_min: Nanos,
}

impl Roles {
    pub fn new(writer: usize, now: Nanos, t_min: Nanos) -> Roles {
        Roles { writer, began: now, t_min }
    }

    pub fn writer(&self) -> usize {
        self.writer
    }

    pub fn switch(&mut self, side: usize, now: Nanos) {
        *self = Roles { writer: side, began: now, ..*self };
    }

    pub fn decide(&self, facts: &Facts) -> Step {
        let (side, other) = (self.writer, 1 - self.writer);
        if !facts.alive[side] {
            return Step::Switch { side: other };
        }
        let (own, newest) = (facts.applied[side], facts.newest);
        if !facts.alive[other] {
            return if own < newest { Step::Write { side, to: newest } } else { Step::Rest };
        }
        if own < facts.applied[other] {
            return Step::CatchUp { side, to: facts.applied[other] };
        }
        let over = self.began + self.t_min;
        if own < newest && (facts.closing || facts.now < over) {
            return Step::Write { side, to: newest };
        }
        if facts.applied[other] == newest {
            return Step::Rest;
        }
        match facts.closing || facts.now >= over {
            true => Step::Switch { side: other },
            false => Step::Wait { until: over },
        }
    }
}

#[cfg(test)]
mod tests {
    use io::rng::{Rng, mix};

    use super::*;

    const T_MIN: Nanos = Nanos(100);

    fn facts(now: u64, newest: u64, applied: [u64; 2]) -> Facts {
        Facts { now: Nanos(now), newest, applied, alive: [true; 2], closing: false }
    }

    /// Drive 1 reads, drive 2 writes what came before, then they change.
    #[test]
    fn figure_1_each_drive_reads_or_writes_and_they_take_turns() {
        let mut roles = Roles::new(1, Nanos(0), T_MIN);
        assert_eq!(roles.decide(&facts(0, 0, [0, 0])), Step::Rest);
        // New writes go to the second within its window.
        assert_eq!(roles.decide(&facts(10, 3, [0, 0])), Step::Write { side: 1, to: 3 });
        // It has all: the first waits for its turn.
        assert_eq!(roles.decide(&facts(50, 3, [0, 3])), Step::Wait { until: T_MIN });
        assert_eq!(roles.decide(&facts(99, 4, [0, 3])), Step::Write { side: 1, to: 4 });
        // The window is over: what came last is for the other one.
        assert_eq!(roles.decide(&facts(100, 5, [0, 4])), Step::Switch { side: 0 });
        roles.switch(0, Nanos(100));
        assert_eq!(roles.writer(), 0);
        // First what the second has and the first has not ...
        assert_eq!(roles.decide(&facts(101, 5, [0, 4])), Step::CatchUp { side: 0, to: 4 });
        assert_eq!(roles.decide(&facts(150, 6, [2, 4])), Step::CatchUp { side: 0, to: 4 });
        // ... then what is new, until the window is over.
        assert_eq!(roles.decide(&facts(160, 6, [4, 4])), Step::Write { side: 0, to: 6 });
        assert_eq!(roles.decide(&facts(199, 6, [6, 4])), Step::Wait { until: Nanos(200) });
        assert_eq!(roles.decide(&facts(200, 6, [6, 4])), Step::Switch { side: 1 });
    }

    #[test]
    fn a_window_lasts_until_the_writer_is_in_sync() {
        let roles = Roles::new(0, Nanos(0), T_MIN);
        assert_eq!(roles.decide(&facts(500, 9, [3, 7])), Step::CatchUp { side: 0, to: 7 });
        assert_eq!(roles.decide(&facts(501, 9, [7, 7])), Step::Switch { side: 1 });
    }

    #[test]
    fn nothing_to_write_is_no_reason_to_switch() {
        let roles = Roles::new(0, Nanos(0), T_MIN);
        assert_eq!(roles.decide(&facts(500, 7, [7, 7])), Step::Rest);
    }

    #[test]
    fn one_that_is_lost_takes_no_turns() {
        let mut roles = Roles::new(0, Nanos(0), T_MIN);
        let alone = |side: usize, applied| {
            let mut facts = facts(5, 9, applied);
            facts.alive[1 - side] = false;
            facts
        };
        // The reader is lost: the writer takes everything at once, window or not.
        assert_eq!(roles.decide(&alone(0, [3, 2])), Step::Write { side: 0, to: 9 });
        assert_eq!(roles.decide(&alone(0, [9, 2])), Step::Rest);
        // The writer is lost: the reader writes, too.
        assert_eq!(roles.decide(&alone(1, [3, 2])), Step::Switch { side: 1 });
        roles.switch(1, Nanos(5));
        assert_eq!(roles.decide(&alone(1, [3, 2])), Step::Write { side: 1, to: 9 });
    }

    #[test]
    fn closing_cuts_windows_short() {
        let mut roles = Roles::new(0, Nanos(0), T_MIN);
        let closing = |applied| Facts { closing: true, ..facts(1, 9, applied) };
        assert_eq!(roles.decide(&closing([3, 2])), Step::Write { side: 0, to: 9 });
        assert_eq!(roles.decide(&closing([9, 2])), Step::Switch { side: 1 });
        roles.switch(1, Nanos(1));
        assert_eq!(roles.decide(&closing([9, 2])), Step::CatchUp { side: 1, to: 9 });
        assert_eq!(roles.decide(&closing([9, 9])), Step::Rest);
    }

    /// Whatever comes when: no window is shorter than the least, no switch finds the writer behind,
    /// and without new writes both have everything after at most two windows.
    #[test]
    fn every_entry_reaches_both_within_bounded_steps() {
        for seed in 0..200 {
            let mut rng = Rng::new(mix(seed));
            let mut roles = Roles::new(rng.index(2), Nanos(0), T_MIN);
            let mut known = facts(0, 0, [0, 0]);
            let (mut began, mut quiet) = (0, 0);
            while quiet < 40 {
                let now = known.now.0;
                match roles.decide(&known) {
                    Step::CatchUp { side, to } | Step::Write { side, to } => {
                        let own = known.applied[side];
                        assert!(side == roles.writer() && own < to && to <= known.newest);
                        known.applied[side] = own + 1 + rng.below(to - own);
                        known.now.0 += 1 + rng.below(60);
                    }
                    Step::Switch { side } => {
                        assert!(now >= began + T_MIN.0);
                        assert!(known.applied[1 - side] >= known.applied[side]);
                        began = now;
                        roles.switch(side, known.now);
                    }
                    Step::Wait { until } => known.now = until,
                    Step::Rest => {
                        assert_eq!(known.applied, [known.newest; 2]);
                        known.now.0 += rng.below(200);
                    }
                }
                if known.newest < 60 {
                    known.newest += rng.below(3);
                } else {
                    quiet += 1;
                }
            }
        }
    }
}
