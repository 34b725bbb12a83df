//! Latencies of a stream, and what its slowest requests waited for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use hdrhistogram::Histogram;
use io::{Nanos, Operation};

use super::watch::{Ended, Watch};

/// Longest latency that is told apart.
const LATENCY_MAX: Nanos = Nanos::from_secs(600);
/// So many of the slowest requests are looked at: the slowest 0.1 % of a million.
const SLOWEST_MAX: usize = 1000;
const SECOND: Nanos = Nanos::from_secs(1);

pub struct Tally {
    pub reads: Histogram<u64>,
    pub writes: Histogram<u64>,
    pub failed: u64,
    /// The fastest of them on top, to make room.
    slowest: BinaryHeap<Reverse<Slow>>,
    series: Option<Series>,
    /// Of each request when it began, and how long it took.
    each: Option<Vec<(Nanos, u64)>>,
}

/// What was answered second by second. It begins with the first request that is counted.
struct Series {
    begin: Option<Nanos>,
    seconds: Vec<Histogram<u64>>,
    last: Nanos,
    silence: Nanos,
}

/// A second of the series; mean and p99.9 in nanoseconds, of what was answered in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second {
    pub answered: u64,
    pub mean: u64,
    pub p999: u64,
}

impl Series {
    fn record(&mut self, begin: Nanos, end: Nanos) {
        let start = *self.begin.get_or_insert(begin);
        self.last = self.last.max(start);
        self.silence = self.silence.max(end.saturating_sub(self.last));
        self.last = end;
        let second = end.saturating_sub(start).0 / SECOND.0;
        if let Some(latencies) = self.seconds.get_mut(second as usize) {
            latencies.saturating_record(end.saturating_sub(begin).0);
        }
    }
}

/// A slow request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slow {
    pub nanos: u64,
    pub begin: Nanos,
    pub read: bool,
    /// The drive's operation that ended when it did; none if it waited for something else.
    pub last: Option<Last>,
}

/// [`Ended`], in the order of what matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Last {
    pub drive: usize,
    pub kind: &'static str,
    pub offset: u64,
    pub nanos: u64,
    pub collecting: bool,
}

impl From<Ended> for Last {
    fn from(ended: Ended) -> Last {
        let kind = match ended.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
        };
        let nanos = ended.end.saturating_sub(ended.begin).0;
        let Ended { drive, offset, collecting, .. } = ended;
        Last { drive, kind, offset, nanos, collecting }
    }
}

impl Default for Tally {
    fn default() -> Tally {
        let histogram = || Histogram::new_with_max(LATENCY_MAX.0, 3).expect("valid bounds");
        let (reads, writes) = (histogram(), histogram());
        Tally { reads, writes, failed: 0, slowest: BinaryHeap::new(), series: None, each: None }
    }
}

impl Tally {
    /// Keeps figures of each of so many seconds, too.
    pub fn with_series(length: Nanos) -> Tally {
        let second = || Histogram::new_with_max(LATENCY_MAX.0, 2).expect("valid bounds");
        let seconds = (0..length.0 / SECOND.0).map(|_| second()).collect();
        let series = Series { begin: None, seconds, last: Nanos::ZERO, silence: Nanos::ZERO };
        Tally { series: Some(series), ..Tally::default() }
    }

    /// Keeps every request, for short runs.
    pub fn with_each() -> Tally {
        Tally { each: Some(Vec::new()), ..Tally::default() }
    }

    /// When each request began, and the nanoseconds it took, in the order of answers.
    pub fn each(&self) -> &[(Nanos, u64)] {
        self.each.as_deref().unwrap_or_default()
    }

    pub fn seconds(&self) -> Vec<Second> {
        let second = |latencies: &Histogram<u64>| Second {
            answered: latencies.len(),
            mean: latencies.mean() as u64,
            p999: latencies.value_at_quantile(0.999),
        };
        self.series.iter().flat_map(|series| series.seconds.iter().map(second)).collect()
    }

    /// The longest time without an answer.
    pub fn silence(&self) -> Nanos {
        self.series.as_ref().map_or(Nanos::ZERO, |series| series.silence)
    }

    pub fn record(&mut self, watch: &Watch, read: bool, begin: Nanos, end: Nanos, ok: bool) {
        let nanos = end.saturating_sub(begin).0;
        self.failed += u64::from(!ok);
        if let Some(series) = &mut self.series {
            series.record(begin, end);
        }
        if let Some(each) = &mut self.each {
            each.push((begin, nanos));
        }
        let histogram = if read { &mut self.reads } else { &mut self.writes };
        histogram.saturating_record(nanos);
        let full = self.slowest.len() == SLOWEST_MAX;
        if full && self.slowest.peek().is_some_and(|least| least.0.nanos >= nanos) {
            return;
        }
        if full {
            self.slowest.pop();
        }
        let last = watch.last(begin).map(Last::from);
        self.slowest.push(Reverse(Slow { nanos, begin, read, last }));
    }

    /// Reads and writes together.
    pub fn all(&self) -> Histogram<u64> {
        let mut all = self.reads.clone();
        all.add(&self.writes).expect("the same bounds");
        all
    }

    /// What the requests that took `limit` or longer waited for: by drive operation, the drive's
    /// state, and the region of the drive that `region` names. The most frequent first.
    pub fn reasons(
        &self,
        limit: u64,
        slow_member: Option<usize>,
        region: impl Fn(u64) -> &'static str,
    ) -> Vec<(String, Reason)> {
        let mut reasons: BTreeMap<String, Reason> = BTreeMap::new();
        for Reverse(slow) in self.slowest.iter().filter(|slow| slow.0.nanos >= limit) {
            let what = match slow.last {
                None => "no drive: a timer, or a lock's holder".to_owned(),
                Some(Last { drive, kind, offset, collecting, .. }) => {
                    let who = if Some(drive) == slow_member { "slow member" } else { "others" };
                    let state = if collecting { ", collecting" } else { "" };
                    format!("{kind} of {} by {who}{state}", region(offset))
                }
            };
            let kind = if slow.read { "read" } else { "write" };
            let reason = reasons.entry(format!("{kind}: {what}")).or_default();
            let operation = slow.last.map_or(0, |last| last.nanos);
            reason.count += 1;
            reason.before_nanos += slow.nanos - operation;
            reason.operation_nanos += operation;
            reason.max_nanos = reason.max_nanos.max(slow.nanos);
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, reason)| Reverse(reason.count));
        reasons
    }

    pub fn slowest(&self) -> Vec<Slow> {
        let mut slowest: Vec<Slow> = self.slowest.iter().map(|slow| slow.0).collect();
        slowest.sort_by_key(|slow| Reverse(slow.nanos));
        slowest
    }
}

/// How many requests waited for the same, and how long: before the last operation of a drive
/// began, and for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    pub count: u64,
    pub before_nanos: u64,
    pub operation_nanos: u64,
    pub max_nanos: u64,
}

/// Mean of the slowest `per_million` of the latencies, in nanoseconds (FusionRAID Table 6).
pub fn mean_of_slowest(latencies: &Histogram<u64>, per_million: u64) -> f64 {
    let wanted = (latencies.len() * per_million).div_ceil(1_000_000).max(1);
    let mut left = wanted.min(latencies.len());
    let (mut sum, taken) = (0.0, left);
    let values: Vec<(u64, u64)> = latencies
        .iter_recorded()
        .map(|value| (value.value_iterated_to(), value.count_at_value()))
        .collect();
    for &(value, count) in values.iter().rev() {
        let count = count.min(left);
        sum += value as f64 * count as f64;
        left -= count;
        if left == 0 {
            break;
        }
    }
    sum / taken.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_averaged() {
        let mut latencies = Histogram::new_with_max(1_000_000, 3).unwrap();
        (1..=1000).for_each(|value| latencies.record(value).unwrap());
        assert_eq!(mean_of_slowest(&latencies, 10_000), 995.5);
        assert_eq!(mean_of_slowest(&latencies, 1_000), 1000.0);
        assert_eq!(mean_of_slowest(&latencies, 1_000_000), 500.5);
        assert_eq!(mean_of_slowest(&Histogram::<u64>::new(3).unwrap(), 1_000), 0.0);
    }
}
