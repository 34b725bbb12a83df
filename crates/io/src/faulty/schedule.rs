//! Many faults, drawn from one seed, told as a story.

use std::fmt;
use std::ops::Range;

use super::delay::Delay;
use super::fault::{Effect, Fault, Kind, MILLION, Ramp, Tear};
use crate::drive::{DriveErrorKind, Operation};
use crate::env::Nanos;
use crate::rng::Rng;

/// Input/output error; no data available (a sector that can't be read).
const ERRORS: [DriveErrorKind; 3] =
    [DriveErrorKind::Os(5), DriveErrorKind::Os(61), DriveErrorKind::Short];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// After the schedule's start.
    At(Nanos),
    /// When so many operations have come since.
    After(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub when: When,
    pub fault: Fault,
}

/// What befalls one drive, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    pub entries: Vec<Entry>,
}

/// What a schedule may contain.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Faults begin within this span,
    pub span: Nanos,
    /// or within this many operations; none do if it is 0.
    pub operations: u64,
    /// Hangs, disappearances and spells of errors are over after this.
    pub longest: Nanos,
    /// Size of the drive.
    pub bytes: u64,
    pub faults: u32,
    pub kinds: Vec<Kind>,
}

impl Schedule {
    /// The same seed and limits are the same schedule.
    pub fn draw(seed: u64, limits: &Limits) -> Schedule {
        let mut rng = Rng::new(seed);
        let mut entries = Vec::new();
        if !limits.kinds.is_empty() {
            entries.extend(
                (0..limits.faults).map(|_| Entry {
                    when: when(&mut rng, limits),
                    fault: fault(&mut rng, limits),
                }),
            );
        }
        entries.sort_by_key(|entry| entry.when);
        Schedule { entries }
    }
}

fn when(rng: &mut Rng, limits: &Limits) -> When {
    if limits.operations > 0 && rng.chance(1, 2) {
        return When::After(rng.below(limits.operations));
    }
    When::At(Nanos(rng.below(limits.span.0.max(1))))
}

/// Up to the longest, mostly far below.
fn spell(rng: &mut Rng, limits: &Limits) -> Nanos {
    let most = (limits.longest.0 >> rng.below(12)).max(1);
    Nanos(1 + rng.below(most))
}

/// Some pages of the drive.
fn range(rng: &mut Rng, limits: &Limits) -> Range<u64> {
    let page = 4096.min(limits.bytes);
    let start = rng.below(limits.bytes.div_ceil(page)) * page;
    let len = page << rng.below(12);
    start..(start + len).min(limits.bytes)
}

fn fault(rng: &mut Rng, limits: &Limits) -> Fault {
    let kind = limits.kinds[rng.index(limits.kinds.len())];
    let fault = Fault::new(effect(kind, rng, limits));
    let operations = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];
    let fault = match kind {
        Kind::Flip => return fault.within(range(rng, limits)),
        Kind::Gone | Kind::Hang | Kind::Slow => return fault.lasting(spell(rng, limits)),
        Kind::Error => fault.on(operations[rng.index(operations.len())]),
        Kind::Torn | Kind::Lost | Kind::Misdirected => fault.on(Operation::Write),
        Kind::Delay | Kind::Lie => fault,
    };
    let by_range = fault.operation != Some(Operation::Flush) && kind != Kind::Lie;
    let fault = if by_range && rng.chance(1, 3) { fault.within(range(rng, limits)) } else { fault };
    match rng.below(3) {
        0 => fault.nth(1 + rng.below(50)),
        1 => fault.lasting(spell(rng, limits)),
        _ => {
            let chance = MILLION >> rng.below(14);
            fault.with_chance(chance).lasting(spell(rng, limits))
        }
    }
}

fn effect(kind: Kind, rng: &mut Rng, limits: &Limits) -> Effect {
    match kind {
        Kind::Error => Effect::Error(ERRORS[rng.index(ERRORS.len())]),
        Kind::Delay => Effect::Delay(delay(rng, limits)),
        Kind::Slow => Effect::Slow(Ramp {
            percent_per_second: 10 << rng.below(12),
            percent_max: 200 << rng.below(6),
        }),
        Kind::Hang => Effect::Hang(None),
        Kind::Torn => {
            let tear = if rng.chance(1, 2) { Tear::Prefix } else { Tear::Sectors };
            Effect::Torn { tear, lying: rng.chance(1, 2) }
        }
        Kind::Lost => Effect::Lost,
        Kind::Misdirected => Effect::Misdirected { to: None },
        Kind::Flip => Effect::Flip { bits: 1 << rng.below(7) },
        Kind::Lie => Effect::Lie,
        Kind::Gone => Effect::Gone,
    }
}

fn delay(rng: &mut Rng, limits: &Limits) -> Delay {
    let most = spell(rng, limits);
    let least = Nanos(1 + most.0 / 100);
    match rng.below(4) {
        0 => Delay::Constant(most),
        1 => Delay::Uniform { least: Nanos::ZERO, most },
        2 => Delay::Exponential { mean: most },
        _ => Delay::Pareto {
            least,
            alpha_percent: 110 + rng.below(100) as u32,
            most: most.max(least),
        },
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::At(at) => write!(f, "from {at} on: ")?,
            When::After(count) => write!(f, "after {count} operations: ")?,
        }
        write!(f, "{}", self.fault)
    }
}

/// One fault a line.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fault::Times;
    use super::*;
    use std::collections::BTreeSet;

    fn limits() -> Limits {
        Limits {
            span: Nanos::from_secs(10),
            operations: 1000,
            longest: Nanos::from_secs(1),
            bytes: 1 << 20,
            faults: 20,
            kinds: Kind::ALL.to_vec(),
        }
    }

    #[test]
    fn a_seed_is_a_schedule_and_every_fault_drawn_makes_sense() {
        let mut kinds = BTreeSet::new();
        for seed in 0..200 {
            let schedule = Schedule::draw(seed, &limits());
            assert_eq!(schedule, Schedule::draw(seed, &limits()));
            assert_ne!(schedule, Schedule::draw(seed + 1, &limits()));
            assert_eq!(schedule.entries.len(), 20);
            for Entry { when, fault } in &schedule.entries {
                fault.check().unwrap_or_else(|error| panic!("{fault}: {error}"));
                kinds.insert(fault.effect.kind());
                assert!(fault.range.as_ref().is_none_or(|range| range.end <= 1 << 20));
                assert!(*when < When::After(1000) && *when != When::At(Nanos::from_secs(10)));
                if let Times::For(span) = fault.times {
                    assert!(span <= limits().longest);
                }
                assert_ne!((&fault.effect, fault.times), (&Effect::Gone, Times::Forever));
            }
        }
        assert_eq!(kinds.len(), Kind::ALL.len(), "every kind is drawn");
    }

    #[test]
    fn only_the_kinds_asked_for_are_drawn() {
        let kinds = vec![Kind::Lie, Kind::Slow];
        let schedule = Schedule::draw(1, &Limits { kinds: kinds.clone(), ..limits() });
        assert!(schedule.entries.iter().all(|entry| kinds.contains(&entry.fault.effect.kind())));
        let none = Schedule::draw(1, &Limits { kinds: Vec::new(), ..limits() });
        assert_eq!(none, Schedule::default());
    }

    #[test]
    fn a_schedule_reads_as_a_story() {
        let entry = |when, fault| Entry { when, fault };
        let error = Fault::new(Effect::Error(DriveErrorKind::Os(5))).on(Operation::Write);
        let hang = Fault::new(Effect::Hang(None)).lasting(Nanos::from_millis(200));
        let lie = Fault::new(Effect::Lie).with_chance(500);
        let flip = Fault::new(Effect::Flip { bits: 3 }).within(0..4096);
        let schedule = Schedule {
            entries: vec![
                entry(When::At(Nanos::from_millis(1500)), error.nth(3).within(0..4096)),
                entry(When::After(12), hang),
                entry(When::After(13), lie),
                entry(When::After(14), flip),
            ],
        };
        assert_eq!(
            schedule.to_string(),
            "from 1.5 s on: write number 3 of bytes 0..4096 fails: Input/output error (os error \
             5)\n\
             after 12 operations: every operation hangs, for 200 ms\n\
             after 13 operations: every operation, with a chance of 500 in a million, is reported \
             as durable and is not\n\
             after 14 operations: 3 bits of bytes 0..4096 flip\n"
        );
    }
}
