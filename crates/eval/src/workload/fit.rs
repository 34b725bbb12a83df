//! The parameters of a trace: a workload that comes, moves and writes again about as it did.
//!
//! What can be counted is counted: sizes, runs, shares, the chain of levels. What a trace shows
//! only together with the rest is found by making the workload and measuring it: how much is
//! fresh, how popular old places are, how large batches are.

use std::collections::BTreeMap;

use io::Nanos;

use super::arrivals::{Arrivals, Level, Next, Phase};
use super::{Kind, SECTOR, Workload};
use crate::trace::figures::{Figures, Meter, Sizes};
use crate::trace::record::{Op, Record};

const SLOT: Nanos = Nanos::from_millis(10);
/// Slots of a second.
const SLOTS: usize = 100;
/// A shorter trace has too few seconds to say how they follow one another.
const SHORT: Nanos = Nanos::from_secs(10);
/// Requests that are made and measured in each round; of a longer trace, so many from its
/// beginning say how its places are used.
pub const REQUESTS_MAX: u64 = 200_000;
const ROUNDS: u32 = 16;
/// Of a long trace, to compare with: then rates are steady.
const MADE_MAX: usize = 5_000_000;
/// Rarer sizes are put together, those within a power of two.
const SHARE_MIN: f64 = 0.002;
/// A kind with fewer requests says nothing about itself.
const FEW: u64 = 100;

/// Phases of a trace are its seconds, by the power of two of their requests; levels of those are
/// slots of 10 ms, likewise. So busy seconds come back, and the bursts within them.
#[derive(Default)]
struct Chain {
    /// Requests of the slots of the present second.
    slots: Vec<u64>,
    second: u64,
    seconds: Visits<u32>,
    levels: BTreeMap<u32, Visits<u32>>,
    /// Levels of all seconds together.
    all: Visits<u32>,
}

/// How often each of some states was visited, with how many requests, and what followed.
#[derive(Default)]
struct Visits<Name> {
    states: BTreeMap<Name, State<Name>>,
    first: Option<Name>,
    last: Option<Name>,
}

#[derive(Default)]
struct State<Name> {
    visits: u64,
    requests: u64,
    next: BTreeMap<Name, u64>,
    /// What followed it at last.
    left_for: Option<Name>,
}

/// Parameters are short numbers, which every program reads as they were written.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn class(count: u64) -> u32 {
    u64::BITS - count.leading_zeros()
}

impl Visits<u32> {
    fn followed(&mut self, state: u32, next: u32, times: u64) {
        let from = self.states.entry(state).or_default();
        let count = from.next.entry(next).or_default();
        *count = count.saturating_add(times);
        from.left_for = Some(next);
    }

    fn visit(&mut self, state: u32, times: u64, requests: u64) {
        if times == 0 {
            return;
        }
        if let Some(last) = self.last {
            self.followed(last, state, 1);
        }
        if times > 1 {
            self.followed(state, state, times - 1);
        }
        let seen = self.states.entry(state).or_default();
        seen.visits = seen.visits.saturating_add(times);
        seen.requests += requests;
        self.first.get_or_insert(state);
        self.last = Some(state);
    }

    /// In a circle: no state is a dead end.
    fn close(&mut self) {
        if let (Some(first), Some(last)) = (self.first, self.last) {
            self.followed(last, first, 1);
        }
    }

    fn next(&self, state: u32) -> Next {
        let at = |name: &u32| self.states.keys().position(|known| known == name);
        let from = &self.states[&state];
        let deck = from.next.iter().filter_map(|(name, &often)| Some((at(name)?, often))).collect();
        // The ways by which a walk left its states at last lead to its end, which is its start.
        let is_start = self.first == Some(state);
        let last = from.left_for.filter(|_| !is_start);
        let last = last.and_then(|last| from.next.keys().position(|name| *name == last));
        Next { deck, last }
    }
}

impl Visits<u32> {
    fn levels(&self) -> Vec<Level> {
        let slots_per_second = 1e9 / SLOT.0 as f64;
        let level = |(name, state): (&u32, &State<u32>)| Level {
            per_second: rounded(state.requests as f64 * slots_per_second / state.visits as f64),
            next: self.next(*name),
        };
        self.states.iter().map(level).collect()
    }
}

impl Chain {
    fn add(&mut self, at: Nanos) {
        let slot = at.0 / SLOT.0;
        let second = slot / SLOTS as u64;
        if second != self.second {
            self.over(SLOTS);
            let silent = second - self.second - 1;
            if silent > 0 {
                self.seconds.visit(0, silent, 0);
                self.levels.entry(0).or_default().visit(0, silent, 0);
                self.all.visit(0, silent.saturating_mul(SLOTS as u64), 0);
            }
            self.second = second;
        }
        self.slots.resize(SLOTS, 0);
        self.slots[(slot % SLOTS as u64) as usize] += 1;
    }

    /// A second is over, or the trace, after so many slots of one.
    fn over(&mut self, count: usize) {
        let slots = std::mem::take(&mut self.slots);
        let requests: u64 = slots.iter().sum();
        // The last second is as busy as if it had been a whole one.
        let phase = class(requests * SLOTS as u64 / count as u64);
        self.seconds.visit(phase, 1, requests);
        let levels = self.levels.entry(phase).or_default();
        for &requests in &slots[..count.min(slots.len())] {
            levels.visit(class(requests), 1, requests);
            self.all.visit(class(requests), 1, requests);
        }
    }

    fn finish(mut self, last: Nanos) -> Arrivals {
        self.over((last.0 / SLOT.0) as usize % SLOTS + 1);
        self.seconds.close();
        self.all.close();
        self.levels.values_mut().for_each(Visits::close);
        let phases = if last < SHORT {
            let next = Next { deck: vec![(0, 1)], last: None };
            vec![Phase { slots: SLOTS as u64, levels: self.all.levels(), next }]
        } else {
            let phase = |(name, levels): (&u32, &Visits<u32>)| {
                let next = self.seconds.next(*name);
                Phase { slots: SLOTS as u64, levels: levels.levels(), next }
            };
            self.levels.iter().map(phase).collect()
        };
        Arrivals { slot_micros: SLOT.0 / 1000, phases, batch: 1.0 }
    }
}

/// What is measured of a trace to fit it.
#[derive(Default)]
pub struct Fitter {
    all: Meter,
    /// Of the first [`REQUESTS_MAX`].
    begin: Meter,
    chain: Chain,
    last: Nanos,
    sectors: u64,
}

/// A workload, and the figures it should have.
pub struct Fit {
    pub workload: Workload,
    pub wanted: Figures,
    /// Requests over which places are compared.
    pub requests: u64,
}

impl Fitter {
    /// In the order of time, from time zero. Discards are left out: arrays in `eval` have none.
    pub fn add(&mut self, record: &Record) {
        if record.op == Op::Discard {
            return;
        }
        let record = &Record { device: 0, ..*record };
        if self.all.requests() < REQUESTS_MAX {
            self.begin.add(record);
        }
        self.all.add(record);
        self.chain.add(record.at);
        self.last = record.at;
        self.sectors += u64::from(!(record.offset | record.len).is_multiple_of(4096));
    }

    pub fn finish(self, name: &str) -> Result<Fit, String> {
        let requests = self.all.requests();
        if requests < FEW {
            return Err(format!("{requests} requests are too few to fit, {FEW} the least"));
        }
        let mixes = [Op::Read, Op::Write].map(|op| mix(self.all.sizes(op)));
        let align = if self.sectors * 2 > requests { SECTOR } else { 4096 };
        let arrivals = self.chain.finish(self.last);
        let begin = self.begin.finish();
        let wanted = self.all.finish();
        let places = &begin.footprint;
        let kind = |sizes: Vec<(u64, f64)>, sequential: f64, again: f64| Kind {
            sizes,
            sequential,
            // Twice as long as if all requests were in runs.
            run: ((2.0 / (1.0 - sequential.min(0.98))) as u64).clamp(4, 64),
            fresh: (1.0 - again).clamp(0.0005, 1.0),
            skew: 0.8,
            shared: if places.read_mib > 0.0 { places.both_mib / places.read_mib } else { 0.0 },
        };
        let [reads, writes] = mixes;
        let workload = Workload {
            name: name.to_owned(),
            arrivals,
            read_share: wanted.read_share,
            reads: kind(reads, wanted.sequential_reads, places.reread_share),
            writes: kind(writes, wanted.sequential_writes, places.update_share),
            span: span(&wanted),
            align,
        };
        if let Some(problem) = workload.problem() {
            return Err(format!("no workload is like it: {problem}"));
        }
        let wanted = with_places_of(wanted, begin);
        let mut fit = Fit { workload, wanted, requests: requests.min(REQUESTS_MAX) };
        fit.refine();
        for kind in [&mut fit.workload.reads, &mut fit.workload.writes] {
            kind.sizes.iter_mut().for_each(|(_, share)| *share = rounded(*share));
            let parts = [&mut kind.fresh, &mut kind.skew, &mut kind.shared, &mut kind.sequential];
            parts.into_iter().for_each(|part| *part = rounded(*part));
        }
        fit.workload.read_share = rounded(fit.workload.read_share);
        fit.workload.arrivals.batch = rounded(fit.workload.arrivals.batch);
        Ok(fit)
    }
}

fn with_places_of(all: Figures, begin: Figures) -> Figures {
    Figures {
        footprint: begin.footprint,
        sequential_reads: begin.sequential_reads,
        sequential_writes: begin.sequential_writes,
        ..all
    }
}

/// Room for what is touched, and for what runs and chunks take more.
fn span(figures: &Figures) -> u64 {
    let touched = (figures.footprint.touched_mib * f64::from(1 << 20)) as u64;
    (touched * 4).next_multiple_of(1 << 20).max(1 << 30)
}

/// Sizes and their shares; none if there are no requests.
fn mix(sizes: &Sizes) -> Vec<(u64, f64)> {
    let all: u64 = sizes.counts().map(|(_, count)| count).sum();
    let mut mix = Vec::new();
    // By power of two: requests and bytes.
    let mut rest: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for (len, count) in sizes.counts() {
        let share = count as f64 / all as f64;
        if share >= SHARE_MIN && len % SECTOR == 0 {
            mix.push((len, share));
        } else {
            let (requests, bytes) = rest.entry(class(len)).or_default();
            *requests += count;
            *bytes += len * count;
        }
    }
    for (requests, bytes) in rest.into_values() {
        let len = (bytes / requests).next_multiple_of(SECTOR);
        mix.push((len, requests as f64 / all as f64));
    }
    mix
}

impl Fit {
    /// What the workload has of what is wanted, over the time of the trace.
    pub fn made(&self, seed: u64) -> Figures {
        let mut begin = Meter::default();
        let mut all = Meter::default();
        let span = Nanos((self.wanted.seconds * 1e9) as u64);
        for record in self.workload.during(span, seed).take(MADE_MAX) {
            if begin.requests() < self.requests {
                begin.add(&record);
            }
            all.add(&record);
        }
        with_places_of(all.finish(), begin.finish())
    }

    /// The same of its beginning only.
    fn begun(&self, seed: u64) -> Figures {
        Figures::of(self.workload.requests(seed).take(self.requests as usize))
    }

    /// Makes it and corrects what is off, each time by less.
    fn refine(&mut self) {
        for round in 0..ROUNDS {
            let made = self.begun(1);
            let (has, wants) = (&made.footprint, &self.wanted.footprint);
            let step = 1.5 / f64::from(round + 2);
            let kinds = [
                (
                    &mut self.workload.reads,
                    (has.reread_share, wants.reread_share),
                    (has.top_10_reads, wants.top_10_reads),
                ),
                (
                    &mut self.workload.writes,
                    (has.update_share, wants.update_share),
                    (has.top_10_writes, wants.top_10_writes),
                ),
            ];
            for (kind, (again, wanted_again), (top, wanted_top)) in kinds {
                let ratio = (1.0 - wanted_again).max(0.0005) / (1.0 - again).max(0.0005);
                kind.fresh = (kind.fresh * ratio.clamp(0.5, 2.0)).clamp(0.0002, 1.0);
                let more = ((wanted_top - top) * 5.0).clamp(-0.6, 0.6) * step;
                kind.skew = (kind.skew + more).clamp(0.0, 3.0);
            }
            // The busier a millisecond should be, the smaller the batches.
            let (busy, wanted) = (made.by_ms.busy, self.wanted.by_ms.busy);
            let ratio = (busy / wanted.max(1e-9)).clamp(0.5, 2.0);
            let batch = self.workload.arrivals.batch * (1.0 + (ratio - 1.0) * step);
            self.workload.arrivals.batch = batch.clamp(1.0, 1000.0);
        }
    }
}

/// How far off a figure may be.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// By so much.
    Within(f64),
    /// So many times as large or as small.
    Times(f64),
}

impl Bound {
    pub fn holds(self, wanted: f64, made: f64) -> bool {
        match self {
            Bound::Within(most) => (made - wanted).abs() <= most,
            Bound::Times(most) => made <= wanted * most && wanted <= made * most,
        }
    }
}

/// Figures side by side, with what a fit promises. Kinds that hardly occur are left out.
pub fn compare(wanted: &Figures, made: &Figures) -> Vec<(&'static str, f64, f64, Bound)> {
    use Bound::{Times, Within};
    // Figures over a few seconds are chance, and those of few requests.
    let is_long = wanted.seconds > 30.0;
    let over_time = |most: f64| Times(if is_long { most } else { most * 1.5 });
    let (a, b) = (&wanted.footprint, &made.footprint);
    let mut rows = vec![
        ("requests a second", wanted.iops, made.iops, over_time(1.15)),
        ("read share", wanted.read_share, made.read_share, Within(0.01)),
        ("touched MiB", a.touched_mib, b.touched_mib, over_time(1.25)),
        ("dispersion, 10 ms", wanted.by_10_ms.dispersion, made.by_10_ms.dispersion, over_time(2.0)),
        ("peak, 10 ms", wanted.by_10_ms.peak as f64, made.by_10_ms.peak as f64, over_time(2.0)),
        ("busy milliseconds", wanted.by_ms.busy, made.by_ms.busy, over_time(1.5)),
        ("hottest 10 % of blocks", a.top_10, b.top_10, Within(0.15)),
    ];
    if is_long {
        let (wanted, made) = (wanted.by_second.dispersion, made.by_second.dispersion);
        rows.push(("dispersion, 1 s", wanted, made, Times(3.0)));
    }
    let average = |requests: u64| Times(1.1 + 4.0 / (requests as f64).sqrt());
    let part = |most: f64, requests: u64| Within(most + 0.5 / (requests as f64).sqrt());
    if wanted.reads.requests >= FEW {
        let count = wanted.reads.requests;
        let (kb, made_kb) = (wanted.reads.average_kb, made.reads.average_kb);
        rows.push(("KB of a read", kb, made_kb, average(count)));
        rows.push(("read again", a.reread_share, b.reread_share, part(0.05, count)));
        let (wanted, made) = (wanted.sequential_reads, made.sequential_reads);
        rows.push(("sequential reads", wanted, made, part(0.05, count)));
    }
    if wanted.writes.requests >= FEW {
        let count = wanted.writes.requests;
        let (kb, made_kb) = (wanted.writes.average_kb, made.writes.average_kb);
        rows.push(("KB of a write", kb, made_kb, average(count)));
        rows.push(("written again", a.update_share, b.update_share, part(0.05, count)));
        let (wanted, made) = (wanted.sequential_writes, made.sequential_writes);
        rows.push(("sequential writes", wanted, made, part(0.05, count)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(millis: &[u64]) -> Arrivals {
        let mut chain = Chain::default();
        millis.iter().for_each(|&at| chain.add(Nanos::from_millis(at)));
        chain.finish(Nanos::from_millis(*millis.last().unwrap()))
    }

    #[test]
    fn levels_are_the_powers_of_two_of_slot_and_second() {
        // 3 requests in the first slot, none in the second, 1 in the third; eleven silent seconds;
        // one more, in the first slot of a second.
        let arrivals = chain(&[0, 1, 2, 25, 12_000]);
        let rates = |phase: &Phase| phase.levels.iter().map(|level| level.per_second).collect();
        let rates: Vec<Vec<f64>> = arrivals.phases.iter().map(rates).collect();
        // Silence; 4 a second; the last one, as if it had gone on.
        assert_eq!(rates, [vec![0.0], vec![0.0, 100.0, 300.0], vec![100.0]]);
        let next: Vec<Next> = arrivals.phases.iter().map(|phase| phase.next.clone()).collect();
        // In a circle.
        let to = |deck: &[(usize, u64)], last| Next { deck: deck.to_vec(), last };
        let wanted = [to(&[(0, 10), (2, 1)], Some(1)), to(&[(0, 1)], None), to(&[(1, 1)], Some(0))];
        assert_eq!(next, wanted);
        assert_eq!(arrivals.problem(), None);
    }

    #[test]
    fn rare_sizes_are_put_together_and_the_average_stays() {
        let mut sizes = Sizes::default();
        (0..100_000u64).for_each(|at| sizes.add(if at % 10 == 0 { 4096 } else { 8192 }));
        (0..50).for_each(|at| sizes.add(100_000 + at * 512));
        let mix = mix(&sizes);
        assert_eq!(mix.len(), 3, "{mix:?}");
        let average: f64 = mix.iter().map(|&(len, share)| len as f64 * share).sum();
        assert!((average / (sizes.bytes() / sizes.requests() as f64) - 1.0).abs() < 0.001);
    }

    #[test]
    fn too_little_is_an_error() {
        assert!(Fitter::default().finish("nothing").is_err());
        assert!(Bound::Times(1.1).holds(10.0, 9.2) && !Bound::Times(1.1).holds(10.0, 9.0));
        assert!(Bound::Within(0.1).holds(0.5, 0.45) && !Bound::Within(0.1).holds(0.5, 0.7));
    }
}
