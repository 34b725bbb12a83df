//! The figures of a record: rates, percentiles, spikes; as a table or as JSON.

use std::fmt::Write as _;

use io::env::Nanos;
use serde::Serialize;

use super::probe::Record;
use super::spikes::{Kind, Rule, Spike, find};

#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    pub seconds: f64,
    pub iops: f64,
    pub mb_per_second: f64,
    pub reads: Latencies,
    pub writes: Latencies,
    /// Standard deviation of the bytes completed in each second, over their mean.
    pub throughput_cov: f64,
    /// None for a drive without flash.
    pub write_amplification: Option<f64>,
    pub erases: u64,
    pub collections: u64,
    pub buffer_flushes: u64,
    pub spikes: Spikes,
    /// Spikes during which the drive collected garbage, and the others.
    pub collecting_spikes: Spikes,
    pub other_spikes: Spikes,
    /// Spikes that slow writes make, without regard to reads.
    pub write_spikes: Spikes,
}

/// Exact percentiles, not those of a histogram: calibration compares them within 2 %.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Latencies {
    pub count: u64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

/// Means over spikes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spikes {
    pub count: u64,
    pub per_minute: f64,
    pub height_ms: f64,
    pub max_height_ms: f64,
    pub duration_ms: f64,
    pub max_duration_ms: f64,
    /// From the end of one to the beginning of the next.
    pub idle_ms: f64,
    /// Share of time in spikes.
    pub duty: f64,
}

impl Summary {
    pub fn of(record: &Record, rule: Rule) -> Summary {
        let spikes = find(record, rule);
        let of_kind = |collecting: bool| {
            let kind = spikes.iter().filter(|spike| spike.collecting == collecting);
            Spikes::of(&kind.copied().collect::<Vec<_>>(), record.length)
        };
        let of_writes = find(record, Rule { only: Some(Kind::Writes), ..rule });
        let seconds = record.length.0 as f64 / 1e9;
        let bytes: u64 = record.samples.iter().map(|sample| u64::from(sample.bytes)).sum();
        Summary {
            seconds,
            iops: record.samples.len() as f64 / seconds,
            mb_per_second: bytes as f64 / seconds / 1e6,
            reads: Latencies::of(record, false),
            writes: Latencies::of(record, true),
            throughput_cov: throughput_cov(record),
            write_amplification: (record.counters.flash_write_bytes > 0)
                .then(|| record.counters.write_amplification()),
            erases: record.counters.erases,
            collections: record.counters.collections,
            buffer_flushes: record.counters.buffer_flushes,
            spikes: Spikes::of(&spikes, record.length),
            collecting_spikes: of_kind(true),
            other_spikes: of_kind(false),
            write_spikes: Spikes::of(&of_writes, record.length),
        }
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let line = &mut out;
        let _ = writeln!(
            line,
            "{:.1} s   {:.0} IOPS   {:.1} MB/s   CoV of 1 s throughput {:.1} %",
            self.seconds,
            self.iops,
            self.mb_per_second,
            self.throughput_cov * 100.0
        );
        let _ = writeln!(
            line,
            "write amplification {}   erases {}   collections {}   buffer flushes {}\n",
            self.write_amplification.map_or("-".into(), |ratio| format!("{ratio:.2}")),
            self.erases,
            self.collections,
            self.buffer_flushes
        );
        let _ = writeln!(
            line,
            "{:<12}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}",
            "latency us", "count", "mean", "p50", "p99", "p99.9", "max"
        );
        for (name, kind) in [("reads", &self.reads), ("writes", &self.writes)] {
            if kind.count > 0 {
                let _ = writeln!(
                    line,
                    "{name:<12}{:>10}{:>11.1}{:>11.1}{:>11.1}{:>11.1}{:>11.1}",
                    kind.count, kind.mean_us, kind.p50_us, kind.p99_us, kind.p999_us, kind.max_us
                );
            }
        }
        self.spike_table(line);
        out
    }

    fn spike_table(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "\n{:<12}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}{:>9}",
            "spikes ms", "count", "a minute", "height", "highest", "duration", "idle", "duty"
        );
        let kinds = [
            ("all", &self.spikes),
            ("collecting", &self.collecting_spikes),
            ("others", &self.other_spikes),
            ("of writes", &self.write_spikes),
        ];
        for (name, kind) in kinds {
            let _ = writeln!(
                out,
                "{name:<12}{:>10}{:>11.2}{:>11.2}{:>11.2}{:>11.2}{:>11.1}{:>7.2} %",
                kind.count,
                kind.per_minute,
                kind.height_ms,
                kind.max_height_ms,
                kind.duration_ms,
                kind.idle_ms,
                kind.duty * 100.0
            );
        }
    }
}

impl Latencies {
    fn of(record: &Record, write: bool) -> Latencies {
        let kind = record.samples.iter().filter(|sample| sample.write == write);
        let mut sorted: Vec<u64> = kind.map(|sample| sample.latency.0).collect();
        sorted.sort_unstable();
        let Some(&max) = sorted.last() else { return Latencies::default() };
        // The smallest latency that so many of a thousand don't exceed.
        let permille = |part: usize| us(sorted[(sorted.len() * part).div_ceil(1_000) - 1]);
        Latencies {
            count: sorted.len() as u64,
            mean_us: sorted.iter().sum::<u64>() as f64 / sorted.len() as f64 / 1e3,
            p50_us: permille(500),
            p99_us: permille(990),
            p999_us: permille(999),
            max_us: us(max),
        }
    }
}

impl Spikes {
    fn of(spikes: &[Spike], length: Nanos) -> Spikes {
        let (Some(first), Some(last)) = (spikes.first(), spikes.last()) else {
            return Spikes::default();
        };
        let count = spikes.len() as f64;
        let heights = || spikes.iter().map(|spike| spike.height);
        let durations = || spikes.iter().map(|spike| spike.period.length());
        let total =
            |values: &mut dyn Iterator<Item = Nanos>| values.map(|v| v.0 as f64).sum::<f64>();
        let busy = total(&mut durations());
        let all = last.period.end.saturating_sub(first.period.begin).0 as f64;
        Spikes {
            count: spikes.len() as u64,
            per_minute: count / (length.0 as f64 / 60e9),
            height_ms: total(&mut heights()) / count / 1e6,
            max_height_ms: heights().max().map_or(0.0, ms),
            duration_ms: busy / count / 1e6,
            max_duration_ms: durations().max().map_or(0.0, ms),
            idle_ms: (all - busy) / (count - 1.0).max(1.0) / 1e6,
            duty: busy / length.0 as f64,
        }
    }
}

fn us(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

fn ms(nanos: Nanos) -> f64 {
    nanos.0 as f64 / 1e6
}

/// Over whole seconds; zero for less than two.
fn throughput_cov(record: &Record) -> f64 {
    let mut bins = vec![0.0; (record.length.0 / 1_000_000_000) as usize];
    for sample in &record.samples {
        if let Some(bin) = bins.get_mut((sample.end().0 / 1_000_000_000) as usize) {
            *bin += f64::from(sample.bytes);
        }
    }
    let count = bins.len() as f64;
    let mean = bins.iter().sum::<f64>() / count;
    if bins.len() < 2 || mean == 0.0 {
        return 0.0;
    }
    let variance = bins.iter().map(|bin| (bin - mean).powi(2)).sum::<f64>() / (count - 1.0);
    variance.sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::super::probe::{Period, Sample};
    use super::*;

    #[test]
    fn percentiles_rates_and_spikes_of_a_record_made_by_hand() {
        // 1000 writes, one each 4 ms, of 1..=1000 us; then none in the last two seconds.
        let mut samples: Vec<Sample> = (0..1_000)
            .map(|index| Sample {
                begin: Nanos::from_millis(index * 4),
                latency: Nanos::from_micros(index + 1),
                bytes: 4_000,
                write: true,
            })
            .collect();
        samples[500].latency = Nanos::from_millis(8);
        samples[750].latency = Nanos::from_millis(4);
        let begin = Nanos::from_secs(3);
        let record = Record {
            samples,
            collections: vec![Period { begin, end: begin + Nanos::from_millis(1) }],
            counters: Default::default(),
            length: Nanos::from_secs(6),
        };
        let summary = Summary::of(&record, Rule::default());
        assert_eq!(summary.writes.count, 1_000);
        assert_eq!(summary.reads.count, 0);
        assert_eq!(summary.writes.p50_us, 500.0);
        assert_eq!((summary.writes.p999_us, summary.writes.max_us), (4_000.0, 8_000.0));
        assert!((summary.iops - 166.67).abs() < 0.01);
        // 250 in each of four seconds, none in two: the deviation is sqrt(0.3 / 5 * 4) / (2 / 3).
        assert!((summary.throughput_cov - 0.7746).abs() < 0.001, "{}", summary.throughput_cov);
        let spikes = &summary.spikes;
        assert_eq!((spikes.count, spikes.height_ms, spikes.max_height_ms), (2, 6.0, 8.0));
        assert_eq!((spikes.duration_ms, spikes.idle_ms), (6.0, 992.0));
        assert_eq!(summary.collecting_spikes.height_ms, 4.0);
        assert_eq!(summary.other_spikes.height_ms, 8.0);
        assert!(summary.table().contains("p99.9"));
    }
}
