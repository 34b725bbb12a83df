//! Families of metrics, and the samples in them.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::render::view::{Latencies, OperationLatencies};

/// Bounds of histograms are the same in every scrape, and those by which the engine counts, four
/// to an octave: from 16 us to 34 s, by when a drive has failed.
const LEAST_BOUND_LOG2: u32 = 14;
const MOST_BOUND_LOG2: u32 = 35;

/// Of one sample.
pub type Labels = Vec<(&'static str, String)>;

pub fn with(mut labels: Labels, name: &'static str, value: &str) -> Labels {
    labels.push((name, value.to_owned()));
    labels
}

pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// A family being written.
pub struct Family<'a>(MetricEncoder<'a>);

impl Family<'_> {
    pub fn gauge(&mut self, labels: &Labels, value: f64) -> fmt::Result {
        self.0.encode_family(labels)?.encode_gauge(&value)
    }

    /// Nothing of what is not known.
    pub fn known(&mut self, labels: &Labels, value: Option<f64>) -> fmt::Result {
        value.map_or(Ok(()), |value| self.gauge(labels, value))
    }

    pub fn counter(&mut self, labels: &Labels, value: f64) -> fmt::Result {
        self.0.encode_family(labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// Exactly one of `names` is 1: the one that is.
    pub fn state(&mut self, labels: &Labels, names: &[&str], is: &str) -> fmt::Result {
        for name in names {
            let labels = with(labels.clone(), "state", name);
            self.gauge(&labels, f64::from(u8::from(*name == is)))?;
        }
        Ok(())
    }

    pub fn latencies(&mut self, labels: &Labels, of: &OperationLatencies) -> fmt::Result {
        let kinds = [("read", &of.reads), ("write", &of.writes), ("flush", &of.flushes)];
        for (kind, latencies) in kinds.into_iter().filter(|(_, latencies)| latencies.count > 0) {
            self.spans(&with(labels.clone(), "operation", kind), latencies)?;
        }
        Ok(())
    }

    /// A histogram of spans of time.
    pub fn spans(&mut self, labels: &Labels, of: &Latencies) -> fmt::Result {
        let sum = seconds(of.mean_nanos) * of.count as f64;
        let mut family = self.0.encode_family(labels)?;
        family.encode_histogram::<NoLabelSet>(sum, of.count, &buckets(of), None)
    }
}

/// Counts by fixed bounds, in seconds; what is above the last one is in `f64::MAX`.
fn buckets(latencies: &Latencies) -> Vec<(f64, u64)> {
    let octaves = LEAST_BOUND_LOG2..MOST_BOUND_LOG2;
    let quarters = |log2: u32| (4..8).map(move |quarter| (1u64 << log2) / 4 * quarter);
    let bounds = octaves.flat_map(quarters).chain([1 << MOST_BOUND_LOG2]);
    let mut counted = latencies.buckets.iter().peekable();
    let mut buckets = Vec::new();
    for bound in bounds {
        let mut count = 0;
        while let Some((_, own)) = counted.next_if(|(own, _)| *own <= bound) {
            count += own;
        }
        buckets.push((seconds(bound), count));
    }
    buckets.push((f64::MAX, counted.map(|(_, count)| count).sum()));
    buckets
}

/// Names that all programs have for what all of them have.
const COMMON: &str = "process_";

pub struct Writer<'a>(DescriptorEncoder<'a>);

impl<'a> Writer<'a> {
    pub fn new(encoder: DescriptorEncoder<'a>) -> Writer<'a> {
        Writer(encoder)
    }

    fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        write: impl FnOnce(&mut Family) -> fmt::Result,
    ) -> fmt::Result {
        let name = match name.starts_with(COMMON) {
            true => name.to_owned(),
            false => format!("steadyraid_{name}"),
        };
        write(&mut Family(self.0.encode_descriptor(&name, help, None, kind)?))
    }

    pub fn gauge(
        &mut self,
        name: &str,
        help: &str,
        write: impl FnOnce(&mut Family) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, write)
    }

    /// Samples get the ending `_total`.
    pub fn counter(
        &mut self,
        name: &str,
        help: &str,
        write: impl FnOnce(&mut Family) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Counter, write)
    }

    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        write: impl FnOnce(&mut Family) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Histogram, write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_every_operation_once() {
        let latencies = Latencies {
            count: 1 + 2 + 4 + 8,
            buckets: vec![(1024, 1), (16_384, 2), (20_480, 4), (1 << 40, 8)],
            ..Latencies::default()
        };
        let buckets = buckets(&latencies);
        let counts: Vec<u64> = buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!((counts[0], counts[1], counts.iter().sum::<u64>()), (3, 4, latencies.count));
        assert_eq!(buckets.last(), Some(&(f64::MAX, 8)));
        assert!(buckets.is_sorted_by(|one, next| one.0 < next.0), "bounds ascend");
    }

    /// With bounds that lie within the engine's buckets, operations would count as slower.
    #[test]
    fn bounds_are_those_by_which_latencies_are_counted() {
        let mut histogram = io::latency::LatencyHistogram::default();
        let mut nanos = 20_000;
        while nanos < 30_000_000_000 {
            histogram.record(io::Nanos(nanos));
            nanos += nanos / 16;
        }
        let counted = Latencies::from(&histogram.summary());
        let filled: Vec<f64> = buckets(&counted).into_iter().filter_map(some).collect();
        let told: Vec<f64> = counted.buckets.iter().map(|(bound, _)| seconds(*bound)).collect();
        assert_eq!(filled, told);
        assert!(told.len() > 70, "{told:?}");
    }

    fn some((bound, count): (f64, u64)) -> Option<f64> {
        (count > 0).then_some(bound)
    }
}
