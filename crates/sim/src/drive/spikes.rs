//! Latency spikes.
//!
//! A request is *slow* when it takes more than `times` the median of its kind (read or write)
//! and more than `floor`. A slow request makes the time from its submission to its completion
//! slow. A *spike* is a maximal stretch of slow time, stretches less than `merge` apart counting
//! as one. Its height is the longest latency in it.
//!
//! ```text
//! latency      │            │
//!   limit ─ ─ ─│─ ─ ─ ─│─ ─ │ ─ ─ ─ ─ ─ ─      one needle: one slow request
//!         ─────┴───────┴────┴──────────> time
//!            [ spike ]..[spike]                .. at least `merge`, else one spike
//! ```

use io::env::Nanos;

use super::probe::{Period, Record, Sample};

#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub times: u64,
    /// Shorter than this nobody calls a spike: any read may meet a program.
    pub floor: Nanos,
    pub merge: Nanos,
    /// Only of requests of one kind.
    pub only: Option<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Reads,
    Writes,
}

impl Default for Rule {
    fn default() -> Rule {
        let millisecond = Nanos::from_millis(1);
        Rule { times: 3, floor: millisecond, merge: millisecond, only: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spike {
    pub period: Period,
    pub height: Nanos,
    /// Whether the drive collected garbage meanwhile.
    pub collecting: bool,
}

/// Latencies above which a request is slow.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub read: Nanos,
    pub write: Nanos,
}

impl Limits {
    pub fn exceeded_by(&self, sample: &Sample) -> bool {
        sample.latency > if sample.write { self.write } else { self.read }
    }
}

pub fn limits(record: &Record, rule: Rule) -> Limits {
    let limit = |write: bool| {
        let latencies = record.samples.iter().filter(|sample| sample.write == write);
        let median = median(latencies.map(|sample| sample.latency.0).collect());
        Nanos(median * rule.times).max(rule.floor)
    };
    Limits { read: limit(false), write: limit(true) }
}

/// Spikes of a record, in time.
pub fn find(record: &Record, rule: Rule) -> Vec<Spike> {
    let limits = limits(record, rule);
    let wanted = |sample: &&Sample| match rule.only {
        None => true,
        Some(Kind::Writes) => sample.write,
        Some(Kind::Reads) => !sample.write,
    };
    let mut slow: Vec<&Sample> = record.samples.iter().filter(wanted).collect();
    slow.retain(|sample| limits.exceeded_by(sample));
    slow.sort_by_key(|sample| sample.begin);

    let mut spikes: Vec<Spike> = Vec::new();
    for sample in slow {
        let period = Period { begin: sample.begin, end: sample.end() };
        match spikes.last_mut() {
            Some(last) if period.begin < last.period.end + rule.merge => {
                last.period.end = last.period.end.max(period.end);
                last.height = last.height.max(sample.latency);
            }
            _ => spikes.push(Spike { period, height: sample.latency, collecting: false }),
        }
    }
    for spike in &mut spikes {
        let first = record.collections.partition_point(|c| c.end <= spike.period.begin);
        let next = record.collections.get(first);
        spike.collecting = next.is_some_and(|collection| collection.overlaps(&spike.period));
    }
    spikes
}

fn median(mut values: Vec<u64>) -> u64 {
    if values.is_empty() {
        return 0;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable(middle).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(begin: u64, latency: u64) -> Sample {
        let (begin, latency) = (Nanos::from_micros(begin), Nanos::from_micros(latency));
        Sample { begin, latency, bytes: 4096, write: true }
    }

    fn record(slow: &[(u64, u64)]) -> Record {
        let quick = (0..1_000).map(|index| sample(index * 1_000, 100));
        let slow = slow.iter().map(|&(begin, latency)| sample(begin, latency));
        let us = Nanos::from_micros;
        Record {
            samples: quick.chain(slow).collect(),
            collections: vec![Period { begin: us(500_000), end: us(505_000) }],
            counters: Default::default(),
            length: Nanos::from_secs(1),
        }
    }

    #[test]
    fn slow_requests_close_to_each_other_are_one_spike() {
        // Two that overlap, one within 1 ms of them, one far away, and one not slow enough.
        let slow = [(10_000, 3_000), (12_000, 4_000), (16_500, 2_500), (503_000, 9_000), (7, 900)];
        let spikes = find(&record(&slow), Rule::default());
        let found: Vec<(u64, u64, u64, bool)> = spikes
            .iter()
            .map(|s| {
                let Period { begin, end } = s.period;
                (begin.0 / 1_000, end.0 / 1_000, s.height.0 / 1_000, s.collecting)
            })
            .collect();
        assert_eq!(found, [(10_000, 19_000, 4_000, false), (503_000, 512_000, 9_000, true)]);
    }

    #[test]
    fn the_limit_follows_the_median() {
        let slow: Vec<(u64, u64)> = (0..3_000).map(|index| (index * 300, 2_500)).collect();
        // Most requests take that long: then it isn't slow.
        assert!(find(&record(&slow), Rule::default()).is_empty());
        assert_eq!(find(&record(&slow[..3]), Rule::default()).len(), 1);
    }
}
