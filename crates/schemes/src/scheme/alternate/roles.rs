//! Which replicas read, which one writes, and what the one that writes does next.
//!
//! ```text
//!             t < t_min                      t >= t_min, in sync, a reader lacks something  
//!   catch up ───────────► write new ───────────────────────────────────────────► switch
//!   what the other has    as it comes, or wait                                      │
//!      ▲                                                                            │
//!      └─────────────── the next one that lacks something writes from now on ◄──────┘
//! ```
//! A function of what is known; nothing here waits or knows the drives.

use io::Nanos;

/// Most replicas. What is written waits in memory for the windows of all of them: with four, that
/// is a part of the cache for every half second of two, and every one more makes writes wait
/// earlier. Three losses are borne.
pub const REPLICAS_MAX: usize = 4;

/// Of each replica there may be.
pub type Each<T> = [T; REPLICAS_MAX];

/// What is known when a decision is due.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub now: Nanos,
    /// Sequence of the newest entry in the cache.
    pub newest: u64,
    /// Every entry up to here is on this replica.
    pub applied: Each<u64>,
    /// Those that are written to: not lost.
    pub there: Each<bool>,
    /// Everything is to be on all as soon as possible: windows are cut short.
    pub closing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// What another replica has, and this one has not.
    CatchUp { side: usize, to: u64 },
    /// What came since.
    Write { side: usize, to: u64 },
    /// This one writes from now on.
    Switch { side: usize },
    /// Nothing before this moment, unless something new comes.
    Wait { until: Nanos },
    /// All replicas that are there have everything.
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
        let side = self.writer;
        let in_turn = (1..REPLICAS_MAX).map(|step| (side + step) % REPLICAS_MAX);
        let mut others = in_turn.filter(|other| facts.there[*other]);
        if !facts.there[side] {
            return Step::Switch { side: others.next().expect("one is always there") };
        }
        let (own, newest) = (facts.applied[side], facts.newest);
        let Some(ahead) = others.clone().map(|other| facts.applied[other]).max() else {
            return if own < newest { Step::Write { side, to: newest } } else { Step::Rest };
        };
        if own < ahead {
            return Step::CatchUp { side, to: ahead };
        }
        let over = self.began + self.t_min;
        if own < newest && (facts.closing || facts.now < over) {
            return Step::Write { side, to: newest };
        }
        let Some(next) = others.find(|other| facts.applied[*other] < newest) else {
            return Step::Rest;
        };
        match facts.closing || facts.now >= over {
            true => Step::Switch { side: next },
            false => Step::Wait { until: over },
        }
    }
}

#[cfg(test)]
mod tests {
    use io::rng::{Rng, mix};

    use super::*;

    const T_MIN: Nanos = Nanos(100);

    fn facts<const N: usize>(now: u64, newest: u64, of: [u64; N]) -> Facts {
        let applied = std::array::from_fn(|at| of.get(at).copied().unwrap_or(0));
        let there = std::array::from_fn(|at| at < N);
        Facts { now: Nanos(now), newest, applied, there, closing: false }
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
        let alone = |side: usize, applied: [u64; 2]| {
            let mut facts = facts(5, 9, applied);
            facts.there[1 - side] = false;
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
        let closing = |applied: [u64; 2]| Facts { closing: true, ..facts(1, 9, applied) };
        assert_eq!(roles.decide(&closing([3, 2])), Step::Write { side: 0, to: 9 });
        assert_eq!(roles.decide(&closing([9, 2])), Step::Switch { side: 1 });
        roles.switch(1, Nanos(1));
        assert_eq!(roles.decide(&closing([9, 2])), Step::CatchUp { side: 1, to: 9 });
        assert_eq!(roles.decide(&closing([9, 9])), Step::Rest);
    }

    #[test]
    fn three_take_turns_and_two_always_read() {
        let mut roles = Roles::new(0, Nanos(0), T_MIN);
        assert_eq!(roles.decide(&facts(0, 4, [0, 0, 0])), Step::Write { side: 0, to: 4 });
        assert_eq!(roles.decide(&facts(100, 5, [4, 0, 0])), Step::Switch { side: 1 });
        roles.switch(1, Nanos(100));
        assert_eq!(roles.decide(&facts(110, 5, [4, 0, 0])), Step::CatchUp { side: 1, to: 4 });
        assert_eq!(roles.decide(&facts(120, 5, [4, 4, 0])), Step::Write { side: 1, to: 5 });
        assert_eq!(roles.decide(&facts(200, 5, [4, 5, 0])), Step::Switch { side: 2 });
        roles.switch(2, Nanos(200));
        assert_eq!(roles.decide(&facts(210, 5, [4, 5, 0])), Step::CatchUp { side: 2, to: 5 });
        assert_eq!(roles.decide(&facts(300, 5, [4, 5, 5])), Step::Switch { side: 0 });
        // Whoever has everything is passed over, and so is one that is lost.
        assert_eq!(roles.decide(&facts(300, 5, [5, 4, 5])), Step::Switch { side: 1 });
        let mut lost = facts(300, 5, [4, 4, 5]);
        lost.there[0] = false;
        assert_eq!(roles.decide(&lost), Step::Switch { side: 1 });
    }

    /// Whatever comes when: no window is shorter than the least, no switch finds the writer behind,
    /// and without new writes all have everything soon.
    #[test]
    fn every_entry_reaches_all_within_bounded_steps() {
        for seed in 0..300 {
            let mut rng = Rng::new(mix(seed));
            let count = 2 + rng.index(REPLICAS_MAX - 1);
            let mut known = Facts { closing: false, ..facts(0, 0, [0; REPLICAS_MAX]) };
            known.there = std::array::from_fn(|at| at < count);
            let mut roles = Roles::new(rng.index(count), Nanos(0), T_MIN);
            let (mut began, mut quiet) = (0, 0);
            while quiet < 60 {
                let now = known.now.0;
                match roles.decide(&known) {
                    Step::CatchUp { side, to } | Step::Write { side, to } => {
                        let own = known.applied[side];
                        assert!(side == roles.writer() && own < to && to <= known.newest);
                        known.applied[side] = own + 1 + rng.below(to - own);
                        known.now.0 += 1 + rng.below(60);
                    }
                    Step::Switch { side } => {
                        assert!(now >= began + T_MIN.0 && side != roles.writer() && side < count);
                        let ahead = known.applied.iter().max().copied();
                        assert_eq!(ahead, Some(known.applied[roles.writer()]));
                        began = now;
                        roles.switch(side, known.now);
                    }
                    Step::Wait { until } => known.now = until,
                    Step::Rest => {
                        let all = known.applied[..count].iter().all(|own| *own == known.newest);
                        assert!(all);
                        known.now.0 += rng.below(200);
                    }
                }
                if known.newest < 60 {
                    known.newest += rng.below(3);
                } else {
                    quiet += 1;
                }
            }
            assert_eq!(known.applied[..count], vec![known.newest; count]);
        }
    }
}
