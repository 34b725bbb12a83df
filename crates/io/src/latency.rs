//! How long operations took, counted.

use hdrhistogram::Histogram;

use crate::{Nanos, Operation};

/// Latencies are counted in steps of this or of 1 %, whichever is larger: the engine itself
/// takes as long for a request that no drive sees.
pub const LATENCY_UNIT: Nanos = Nanos(256);
/// Longest latency that is told from longer ones: longer than a drive is let hang.
pub const LATENCY_MAX: Nanos = Nanos::from_secs(600);
/// Two digits: 27 KiB a histogram. Three would be 180 KiB, and a pool has up to a few thousand.
pub const LATENCY_DIGITS: u8 = 2;

/// Smallest bound in [`Latencies::buckets`], nanoseconds.
const BUCKET_MIN: u64 = 1024;
/// Bounds in each octave above that: 19 to 25 % apart, which tells 90 us from 110.
const BOUNDS_PER_OCTAVE: u64 = 4;

/// Latencies of one kind of operation since they began to be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    pub count: u64,
    pub mean_nanos: u64,
    pub p50_nanos: u64,
    pub p99_nanos: u64,
    pub p999_nanos: u64,
    pub p9999_nanos: u64,
    pub max_nanos: u64,
    /// Upper bound (nanoseconds: from 1,024 on, four to an octave) and count of each bucket with
    /// any.
    pub buckets: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationLatencies {
    pub reads: Latencies,
    pub writes: Latencies,
    pub flushes: Latencies,
}

/// A histogram of fixed size, made at the first record: most volumes of a large pool never see
/// every kind of operation.
#[derive(Clone, Debug, Default)]
pub struct LatencyHistogram {
    counts: Option<Box<Histogram<u64>>>,
}

impl LatencyHistogram {
    /// Counts one operation. Whatever took longer than [`LATENCY_MAX`] counts as that.
    pub fn record(&mut self, took: Nanos) {
        let counts = self.counts.get_or_insert_with(|| {
            let made = Histogram::new_with_bounds(LATENCY_UNIT.0, LATENCY_MAX.0, LATENCY_DIGITS);
            Box::new(made.expect("the bounds are constants that fit each other"))
        });
        counts.saturating_record(took.0);
    }

    /// Within the histogram's precision. All zero before the first record.
    pub fn summary(&self) -> Latencies {
        let Some(counts) = &self.counts else { return Latencies::default() };
        let max = counts.max().min(LATENCY_MAX.0);
        let quantile = |quantile| counts.value_at_quantile(quantile).min(max);
        Latencies {
            count: counts.len(),
            mean_nanos: counts.mean() as u64,
            p50_nanos: quantile(0.5),
            p99_nanos: quantile(0.99),
            p999_nanos: quantile(0.999),
            p9999_nanos: quantile(0.9999),
            max_nanos: max,
            buckets: buckets(counts),
        }
    }
}

/// The least bound above a latency of so many nanoseconds.
fn bound_above(nanos: u64) -> u64 {
    if nanos < BUCKET_MIN {
        return BUCKET_MIN;
    }
    let step = (1 << nanos.ilog2()) / BOUNDS_PER_OCTAVE;
    (nanos / step + 1) * step
}

/// The histogram's own steps are finer than these, and none lies across a bound.
fn buckets(counts: &Histogram<u64>) -> Vec<(u64, u64)> {
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    for step in counts.iter_recorded() {
        let bound = bound_above(step.value_iterated_to());
        let count = step.count_since_last_iteration();
        match buckets.last_mut() {
            Some((last, sum)) if *last == bound => *sum += count,
            _ => buckets.push((bound, count)),
        }
    }
    buckets
}

/// Histograms of the operations on one thing.
#[derive(Clone, Debug, Default)]
pub struct OperationHistograms {
    reads: LatencyHistogram,
    writes: LatencyHistogram,
    flushes: LatencyHistogram,
}

impl OperationHistograms {
    /// Counts one operation; nobody waits for discards, and they are not counted.
    pub fn record(&mut self, operation: Operation, took: Nanos) {
        match operation {
            Operation::Read => self.reads.record(took),
            Operation::Write => self.writes.record(took),
            Operation::Flush => self.flushes.record(took),
            Operation::Discard => {}
        }
    }

    pub fn summary(&self) -> OperationLatencies {
        OperationLatencies {
            reads: self.reads.summary(),
            writes: self.writes.summary(),
            flushes: self.flushes.summary(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the histogram must say, from the sorted list of all values.
    fn slow_quantile(sorted: &[u64], quantile: f64) -> u64 {
        let rank = (quantile * sorted.len() as f64).ceil() as usize;
        sorted[rank.clamp(1, sorted.len()) - 1]
    }

    fn is_close(said: u64, exact: u64) -> bool {
        said.abs_diff(exact) <= LATENCY_UNIT.0.max(exact / 100)
    }

    fn summary_of(values: &[u64]) -> Latencies {
        let mut histogram = LatencyHistogram::default();
        values.iter().for_each(|&value| histogram.record(Nanos(value)));
        histogram.summary()
    }

    /// At least so many, every magnitude alike, up to the maximum.
    fn latencies(least: usize) -> impl Strategy<Value = Vec<u64>> {
        let one = (0u32..40, any::<u64>());
        let one = one.prop_map(|(bits, low)| (low >> (63 - bits)).min(LATENCY_MAX.0));
        prop::collection::vec(one, least..300)
    }

    proptest! {
        #[test]
        fn summaries_agree_with_the_sorted_list(mut values in latencies(1)) {
            let said = summary_of(&values);
            values.sort_unstable();
            prop_assert_eq!(said.count, values.len() as u64);
            for (said, quantile) in [
                (said.p50_nanos, 0.5),
                (said.p99_nanos, 0.99),
                (said.p999_nanos, 0.999),
                (said.p9999_nanos, 0.9999),
                (said.max_nanos, 1.0),
            ] {
                let exact = slow_quantile(&values, quantile);
                prop_assert!(is_close(said, exact), "{quantile}: said {said}, is {exact}");
            }
            let mean = values.iter().sum::<u64>() / values.len() as u64;
            prop_assert!(is_close(said.mean_nanos, mean), "said {}, is {mean}", said.mean_nanos);
        }

        #[test]
        fn buckets_count_what_lies_below_their_bound(values in latencies(0)) {
            let octave = |log2: u32| (4..8).map(move |quarter| (1_u64 << log2) / 4 * quarter);
            let bounds: Vec<u64> = (10..42).flat_map(octave).collect();
            let mut exact = std::collections::BTreeMap::new();
            for value in &values {
                let bound = bounds.iter().find(|bound| *bound > value).expect("it is the longest");
                *exact.entry(*bound).or_insert(0) += 1;
            }
            prop_assert_eq!(summary_of(&values).buckets, exact.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn operations_are_told_apart() {
        let mut histograms = OperationHistograms::default();
        let all = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];
        for (at, operation) in all.into_iter().enumerate() {
            (0..=at).for_each(|_| histograms.record(operation, Nanos(1000)));
        }
        let OperationLatencies { reads, writes, flushes } = histograms.summary();
        assert_eq!((reads.count, writes.count, flushes.count), (1, 2, 3));
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(LatencyHistogram::default().summary(), Latencies::default());
    }

    #[test]
    fn what_takes_too_long_counts_as_the_longest() {
        let said = summary_of(&[u64::MAX, LATENCY_MAX.0 * 2]);
        assert_eq!((said.count, said.max_nanos), (2, LATENCY_MAX.0));
        assert_eq!(said.p50_nanos, LATENCY_MAX.0);
    }
}
