//! When requests come: a chain of phases, and within each a chain of levels of load.

use io::Nanos;
use io::rng::Rng;
use serde::{Deserialize, Serialize};

use super::deck::Deck;
use super::exact;

/// Requests of a batch follow one another so fast: one thread submits them.
const BATCH_GAP: Nanos = Nanos::from_micros(5);
/// Of each: more than what a fit makes of a long trace.
const PHASES_MAX: usize = 64;
const LEVELS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// Microseconds that a level lasts.
    pub slot_micros: u64,
    pub phases: Vec<Phase>,
    /// Requests that come at once, on average.
    pub batch: f64,
}

/// What follows is drawn from a deck: each of so many is used up before it begins again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Next {
    /// Which, and how often.
    pub deck: Vec<(usize, u64)>,
    /// Of the deck, the place of that which comes last. If these lead to where the chain began, and
    /// as often into each as out of it, the chain goes every way as often as its decks say before
    /// it begins again.
    pub last: Option<usize>,
}

impl Next {
    fn of(deck: Vec<(usize, u64)>) -> Next {
        Next { deck, last: None }
    }
}

/// Lasts a number of slots. Its levels go on where they were when it comes again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    pub slots: u64,
    pub levels: Vec<Level>,
    /// Phases that follow, and how often.
    pub next: Next,
}

/// Lasts one slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    pub per_second: f64,
    /// Levels of the phase that follow, and how often.
    pub next: Next,
}

impl Phase {
    fn flat(per_second: f64, slots: u64, next: Next) -> Phase {
        Phase { slots, levels: vec![Level { per_second, next: Next::of(vec![(0, 1)]) }], next }
    }
}

/// Presets: part of the time in which a workload does anything. With it, mixes of FusionRAID's
/// workloads complement each other about as often as the paper says (`majority`).
pub const ON_SHARE: f64 = 0.75;
/// Lengths of times on, in slots of a millisecond, and how often each: eight times as long, an
/// eighth as often. So long bursts have as large a part of the time as short ones, as heavy tails
/// have.
const LENGTHS: [(u64, u64); 3] = [(8, 64), (64, 8), (512, 1)];

impl Arrivals {
    /// Independent of one another.
    pub fn poisson(per_second: f64) -> Arrivals {
        let phases = vec![Phase::flat(per_second, 1, Next::of(vec![(0, 1)]))];
        Arrivals { slot_micros: 1000, phases, batch: 1.0 }
    }

    /// On for a part of the time and off for the rest, the lengths of both heavy-tailed.
    pub fn bursts(per_second: f64, on_share: f64) -> Arrivals {
        let off = |slots: u64| (slots as f64 * (1.0 - on_share) / on_share).round().max(1.0) as u64;
        let sum = |length: &dyn Fn(u64) -> u64| -> f64 {
            LENGTHS.iter().map(|&(slots, often)| (length(slots) * often) as f64).sum()
        };
        let (on_slots, off_slots) = (sum(&|slots| slots), sum(&off));
        // With lengths of whole slots.
        let rate = per_second * (on_slots + off_slots) / on_slots;
        let count = LENGTHS.len();
        let often = |first: usize| -> Next {
            Next::of((first..).zip(LENGTHS).map(|(phase, (_, often))| (phase, often)).collect())
        };
        let on = LENGTHS.iter().map(|&(slots, _)| (rate, slots, often(count)));
        let off = LENGTHS.iter().map(|&(slots, _)| (0.0, off(slots), often(0)));
        let phase = |(rate, slots, next)| Phase::flat(rate, slots, next);
        Arrivals { slot_micros: 1000, phases: on.chain(off).map(phase).collect(), batch: 1.0 }
    }

    /// Of all levels.
    pub fn scale(&mut self, times: f64) {
        let levels = self.phases.iter_mut().flat_map(|phase| &mut phase.levels);
        levels.for_each(|level| level.per_second *= times);
    }

    pub fn problem(&self) -> Option<&'static str> {
        let count = self.phases.len();
        if !(1..=PHASES_MAX).contains(&count) || !(1..=1_000_000_000).contains(&self.slot_micros) {
            return Some("phases are one to 64, a slot is from 1 microsecond to 1000 seconds");
        }
        if !(1.0..=1e6).contains(&self.batch) {
            return Some("batch is from one to a million");
        }
        // More than one request a hundred slots: then the next one is never far.
        let least = 1e4 / self.slot_micros as f64;
        let mut busy = Vec::new();
        for phase in &self.phases {
            let levels = &phase.levels;
            if !(1..=LEVELS_MAX).contains(&levels.len()) || !(1..=1_000_000).contains(&phase.slots)
            {
                return Some("levels are one to 64, slots of a phase one to a million");
            }
            let decks = levels.iter().all(|level| is_deck(&level.next, levels.len()));
            if !decks || !is_deck(&phase.next, count) {
                return Some("next has phases or levels that there are, and some of them");
            }
            if !levels.iter().all(|level| (0.0..=1e8).contains(&level.per_second)) {
                return Some("per_second is at most a hundred million");
            }
            let loads = levels.iter().map(|level| level.per_second >= least);
            let nexts: Vec<&Next> = levels.iter().map(|level| &level.next).collect();
            busy.push(all_lead(loads.collect(), &nexts));
        }
        let nexts: Vec<&Next> = self.phases.iter().map(|phase| &phase.next).collect();
        (!all_lead(busy, &nexts)).then_some("from some phase no load ever comes again")
    }
}

fn is_deck(next: &Next, count: usize) -> bool {
    let sum = next.deck.iter().try_fold(0u64, |sum, &(_, often)| sum.checked_add(often));
    let is_last = |last: usize| next.deck.get(last).is_some_and(|&(_, often)| often > 0);
    next.deck.iter().all(|&(at, _)| at < count)
        && sum.is_some_and(|sum| sum > 0)
        && next.last.is_none_or(is_last)
}

/// Whether each leads to one that is marked, or is.
fn all_lead(mut leads: Vec<bool>, nexts: &[&Next]) -> bool {
    for _ in 0..nexts.len() {
        for (at, next) in nexts.iter().enumerate() {
            if next.deck.iter().any(|&(next, often)| often > 0 && leads[next]) {
                leads[at] = true;
            }
        }
    }
    leads.into_iter().all(|leads| leads)
}

/// A chain that moves by decks.
struct Walk {
    at: usize,
    next: Vec<(Vec<usize>, Deck)>,
}

impl Walk {
    fn new<'a>(nexts: impl Iterator<Item = &'a Next>, rng: &mut Rng) -> Walk {
        let follow = |next: &Next| {
            let (to, often): (Vec<usize>, Vec<u64>) = next.deck.iter().copied().unzip();
            (to, Deck::new(often).ending(next.last))
        };
        let nexts: Vec<&Next> = nexts.collect();
        // Where nothing is drawn last, a walk that goes all ways ends.
        let starts = nexts.iter().enumerate().filter(|(_, next)| next.last.is_none());
        let starts: Vec<usize> = starts.map(|(at, _)| at).collect();
        let at = if starts.is_empty() { 0 } else { starts[rng.index(starts.len())] };
        Walk { at, next: nexts.into_iter().map(follow).collect() }
    }

    fn step(&mut self, rng: &mut Rng) {
        let (to, deck) = &mut self.next[self.at];
        if to.len() > 1 {
            self.at = to[deck.draw(rng)];
        } else {
            self.at = to[0];
        }
    }
}

/// The times of arrivals.
pub struct Clock {
    slot: Nanos,
    phases: Walk,
    /// Of each phase: slots, rates of its levels, and where it is in them.
    levels: Vec<(u64, Vec<f64>, Walk)>,
    batch: f64,
    now: Nanos,
    /// Of the present slot.
    end: Nanos,
    /// Of the present phase.
    slots_left: u64,
    /// Of the batch under way.
    left: u64,
    rng: Rng,
}

impl Clock {
    pub fn new(arrivals: &Arrivals, mut rng: Rng) -> Clock {
        let phases = Walk::new(arrivals.phases.iter().map(|phase| &phase.next), &mut rng);
        let mut levels = |phase: &Phase| {
            let rates = phase.levels.iter().map(|level| level.per_second).collect();
            let walk = Walk::new(phase.levels.iter().map(|level| &level.next), &mut rng);
            (phase.slots, rates, walk)
        };
        let levels: Vec<_> = arrivals.phases.iter().map(&mut levels).collect();
        let slots_left = levels[phases.at].0;
        let slot = Nanos::from_micros(arrivals.slot_micros);
        let (batch, now) = (arrivals.batch, Nanos::ZERO);
        Clock { slot, phases, levels, batch, now, end: slot, slots_left, left: 0, rng }
    }

    fn next_slot(&mut self) {
        self.slots_left -= 1;
        if self.slots_left == 0 {
            self.phases.step(&mut self.rng);
            self.slots_left = self.levels[self.phases.at].0;
        }
        self.levels[self.phases.at].2.step(&mut self.rng);
        self.end = self.end + self.slot;
    }

    fn rate(&self) -> f64 {
        let (_, rates, walk) = &self.levels[self.phases.at];
        rates[walk.at]
    }

    /// The time of the next request.
    pub fn tick(&mut self) -> Nanos {
        if self.left > 0 {
            self.left -= 1;
            self.now = self.now + BATCH_GAP;
            return self.now;
        }
        loop {
            let rate = self.rate() / self.batch;
            let gap = match rate > 0.0 {
                true => self.exponential() * 1e9 / rate,
                false => f64::INFINITY,
            };
            let ahead = self.end.saturating_sub(self.now);
            if gap < ahead.0 as f64 {
                self.now = self.now + Nanos(gap as u64);
                self.left = self.rest_of_batch();
                return self.now;
            }
            // Gaps have no memory: the next slot begins afresh.
            self.now = self.now.max(self.end);
            self.next_slot();
        }
    }

    /// From 0 to 1, neither of them.
    fn uniform(&mut self) -> f64 {
        ((self.rng.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    fn exponential(&mut self) -> f64 {
        -exact::ln(self.uniform())
    }

    /// Of a geometric length.
    fn rest_of_batch(&mut self) -> u64 {
        if self.batch <= 1.0 {
            return 0;
        }
        let goes_on = 1.0 - 1.0 / self.batch;
        (exact::ln(self.uniform()) / exact::ln(goes_on)) as u64
    }
}
