//! The critical path of a request: what it waited for, one thing at each moment.
//!
//! It is walked from the end. What ended just now is what was waited for since it began; before
//! that, whatever ended last, and so on. Where nothing had ended yet, a request that had asked a
//! drive and went on without its answer had waited for it in vain:
//! ```text
//!  request   |-----------------------------------------|
//!  lock      |----|
//!  drive 3        |------------------------------------------|
//!  drive 5                   |-----------------|
//!  drive 7                                     |-------|
//!  path       Lock  SecondWay     drive 5       drive 7
//! ```

use std::fmt;

use io::model::{Phase, Phases};
use io::{Nanos, Wait};

/// What a request waited for at some moment of its critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The array had it wait, and told for what.
    Array(Wait),
    /// A drive that did not answer before the request went another way.
    SecondWay,
    /// A drive, for longer than its model says: a fault of the experiment.
    Fault,
    /// Neither the array nor a drive tells.
    Untold,
    /// A drive.
    Drive(Phase),
}

const OTHERS: [Cause; 3] = [Cause::SecondWay, Cause::Fault, Cause::Untold];

impl Cause {
    pub const COUNT: usize = Wait::ALL.len() + OTHERS.len() + Phase::ALL.len();

    /// All, the array's first.
    pub fn all() -> impl Iterator<Item = Cause> {
        let array = Wait::ALL.into_iter().map(Cause::Array);
        array.chain(OTHERS).chain(Phase::ALL.into_iter().map(Cause::Drive))
    }

    fn index(self) -> usize {
        let others = Wait::ALL.len();
        match self {
            Cause::Array(wait) => wait as usize,
            Cause::SecondWay => others,
            Cause::Fault => others + 1,
            Cause::Untold => others + 2,
            Cause::Drive(phase) => others + OTHERS.len() + phase as usize,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Cause::Array(wait) => wait.name(),
            Cause::SecondWay => "second way",
            Cause::Fault => "fault",
            Cause::Untold => "untold",
            Cause::Drive(phase) => match phase {
                Phase::Service => "service",
                Phase::Queue => "drive queue",
                Phase::Link => "link",
                Phase::Held => "drive held",
                Phase::Erase => "die erases",
                Phase::Program => "die programs",
                Phase::CollectionRead => "collection reads",
                Phase::CollectionProgram => "collection programs",
                Phase::Read => "die reads",
                Phase::BufferFull => "buffer full",
                Phase::BufferCollecting => "buffer full, collecting",
                Phase::Drain => "buffer drains",
            },
        })
    }
}

/// Nanoseconds of each cause; together as long as the request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays([u64; Cause::COUNT]);

impl Default for Delays {
    fn default() -> Delays {
        Delays([0; Cause::COUNT])
    }
}

impl Delays {
    pub fn get(&self, cause: Cause) -> u64 {
        self.0[cause.index()]
    }

    fn add(&mut self, cause: Cause, nanos: u64) {
        self.0[cause.index()] += nanos;
    }

    fn add_operation(&mut self, phases: &Phases, took: Nanos) {
        for phase in Phase::ALL {
            self.add(Cause::Drive(phase), phases.get(phase).0);
        }
        self.add(Cause::Fault, took.saturating_sub(phases.total()).0);
    }

    /// The cause of most of it; the array's before drives'.
    pub fn largest(&self) -> Cause {
        let largest = Cause::all()
            .enumerate()
            .max_by_key(|&(at, cause)| (self.get(cause), std::cmp::Reverse(at)));
        largest.expect("there are causes").1
    }
}

/// What a request waited for, or asked of a drive, for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub begin: Nanos,
    /// `None` while it is not over.
    pub end: Option<Nanos>,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Where its time went is known when it is over.
    Operation(Phases),
    Wait(Wait),
}

/// The critical path of a request that was answered at `end`.
pub fn critical(segments: &[Segment], begin: Nanos, end: Nanos) -> Delays {
    let mut path = Delays::default();
    let mut at = end;
    while at > begin {
        let before = segments.iter().filter(|segment| segment.begin < at);
        let ended = |segment: &&Segment| segment.end.is_some_and(|end| end <= at);
        // Of those that ended together an operation tells more than the wait for it.
        let rank = |segment: &&Segment| {
            let is_operation = matches!(segment.what, What::Operation(_));
            (segment.end, is_operation, std::cmp::Reverse(segment.begin))
        };
        let last = before.clone().filter(ended).max_by_key(rank);
        at = match last {
            Some(last) if last.end == Some(at) => {
                match last.what {
                    What::Operation(phases) => {
                        path.add_operation(&phases, at.saturating_sub(last.begin));
                    }
                    What::Wait(wait) => path.add(Cause::Array(wait), at.0 - last.begin.0),
                }
                last.begin
            }
            _ => {
                let from = last.and_then(|last| last.end).map_or(begin, |end| end.max(begin));
                let (from, cause) = unended(before.filter(|segment| !ended(segment)), from);
                path.add(cause, at.0 - from.0);
                from
            }
        };
    }
    path
}

/// Why nothing had ended, of what was under way; from when on, not before `from`.
fn unended<'a>(under_way: impl Iterator<Item = &'a Segment>, from: Nanos) -> (Nanos, Cause) {
    let causes = under_way.map(|segment| match segment.what {
        What::Wait(wait) => (segment.begin.max(from), Cause::Array(wait)),
        What::Operation(_) => (segment.begin.max(from), Cause::SecondWay),
    });
    // What the array tells comes first.
    causes.min_by_key(|&(begin, cause)| (cause, begin)).unwrap_or((from, Cause::Untold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::rng::Rng;

    fn operation(begin: u64, end: Option<u64>, phase: Phase) -> Segment {
        let mut phases = Phases::default();
        if let Some(end) = end {
            phases.add(phase, Nanos(end - begin));
        }
        Segment { begin: Nanos(begin), end: end.map(Nanos), what: What::Operation(phases) }
    }

    fn wait(begin: u64, end: u64, wait: Wait) -> Segment {
        Segment { begin: Nanos(begin), end: Some(Nanos(end)), what: What::Wait(wait) }
    }

    fn told(segments: &[Segment], begin: u64, end: u64) -> Vec<(Cause, u64)> {
        let path = critical(segments, Nanos(begin), Nanos(end));
        Cause::all().map(|cause| (cause, path.get(cause))).filter(|(_, nanos)| *nanos > 0).collect()
    }

    #[test]
    fn the_drawing() {
        let segments = [
            wait(0, 5, Wait::Lock),
            operation(5, None, Phase::Erase),
            operation(16, Some(34), Phase::Program),
            operation(34, Some(42), Phase::Service),
        ];
        assert_eq!(
            told(&segments, 0, 42),
            [
                (Cause::Array(Wait::Lock), 5),
                (Cause::SecondWay, 11),
                (Cause::Drive(Phase::Service), 8),
                (Cause::Drive(Phase::Program), 18)
            ]
        );
    }

    #[test]
    fn the_slowest_of_several_is_what_was_waited_for() {
        let segments = [
            operation(0, Some(10), Phase::Service),
            operation(0, Some(90), Phase::Erase),
            operation(0, Some(40), Phase::Read),
        ];
        assert_eq!(told(&segments, 0, 90), [(Cause::Drive(Phase::Erase), 90)]);
    }

    #[test]
    fn an_operation_says_more_than_the_wait_for_it() {
        let segments = [wait(0, 50, Wait::Journal), operation(20, Some(50), Phase::Drain)];
        let expected = [(Cause::Array(Wait::Journal), 20), (Cause::Drive(Phase::Drain), 30)];
        assert_eq!(told(&segments, 0, 50), expected);
    }

    #[test]
    fn what_nobody_tells_is_untold_and_what_models_do_not_know_a_fault() {
        assert_eq!(told(&[], 3, 10), [(Cause::Untold, 7)]);
        let late = Segment { what: What::Operation(Phases::default()), ..wait(4, 9, Wait::Lock) };
        assert_eq!(told(&[late], 3, 10), [(Cause::Fault, 5), (Cause::Untold, 2)]);
    }

    /// Against the obvious: at each nanosecond one cause, the sum is what the request took.
    #[test]
    fn each_moment_has_one_cause() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let end = 1 + rng.below(60);
            let segments: Vec<Segment> = (0..rng.below(12))
                .map(|_| {
                    let begin = rng.below(end);
                    let over = begin + 1 + rng.below(end - begin);
                    match rng.below(4) {
                        0 => wait(begin, over, Wait::ALL[rng.index(Wait::ALL.len())]),
                        1 => operation(begin, None, Phase::Erase),
                        _ => operation(begin, Some(over), Phase::ALL[rng.index(Phase::ALL.len())]),
                    }
                })
                .collect();
            let told = told(&segments, 0, end);
            let sum: u64 = told.iter().map(|(_, nanos)| nanos).sum();
            assert_eq!(sum, end, "seed {seed}: {told:?} of {segments:?}");
            let covered = |at: u64| {
                segments.iter().any(|one| one.begin.0 <= at && one.end.is_none_or(|end| at < end.0))
            };
            let untold = (0..end).filter(|&at| !covered(at)).count() as u64;
            let found = told.iter().find(|(cause, _)| *cause == Cause::Untold);
            assert!(found.map_or(0, |(_, nanos)| *nanos) >= untold, "seed {seed}");
        }
    }
}
