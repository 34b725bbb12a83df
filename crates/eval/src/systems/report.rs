//! The table of a comparison: as text and as JSON.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use io::ModelCounters;
use serde_json::{Value, json};

use super::Options;
use crate::array::System;
use crate::array::prepare::Trim;

/// What one system did; latencies in nanoseconds.
pub struct Outcome {
    pub system: System,
    pub trim: Trim,
    /// How its drives work together.
    pub shape: String,
    pub latencies: Histogram<u64>,
    pub reads: Histogram<u64>,
    pub writes: Histogram<u64>,
    pub failed: u64,
    /// Written by the load while it was measured.
    pub user_bytes: u64,
    /// What all drives did meanwhile.
    pub drives: ModelCounters,
    pub counters: Vec<(&'static str, u64)>,
    /// Why background work failed, if it did.
    pub trouble: Option<String>,
}

impl Outcome {
    /// Bytes for each that the user wrote; none if nothing was written.
    fn for_each(&self, bytes: u64) -> Option<f64> {
        (self.user_bytes > 0).then(|| bytes as f64 / self.user_bytes as f64)
    }
}

#[derive(Default)]
pub struct Table {
    pub rows: Vec<Outcome>,
}

/// Milliseconds with as many places as matter.
pub fn millis(nanos: f64) -> String {
    let millis = nanos / 1e6;
    let places =
        if millis < 1.0 { 3 } else { usize::from(millis < 100.0) + usize::from(millis < 10.0) };
    format!("{millis:.places$}")
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

impl Table {
    pub fn heading() -> String {
        format!(
            "{:<15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>11}",
            "system",
            "p50 ms",
            "mean",
            "p99",
            "p99.9",
            "worst",
            "read p99",
            "write p99",
            "drives x",
            "flash x",
            "collections"
        )
    }

    /// Adds an outcome; its line as text.
    pub fn add(&mut self, outcome: Outcome) -> String {
        let of = |latencies: &Histogram<u64>, quantile: f64| {
            if latencies.is_empty() {
                return "-".to_owned();
            }
            millis(latencies.value_at_quantile(quantile) as f64)
        };
        let all = &outcome.latencies;
        let mut line = format!(
            "{:<15} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>11}",
            outcome.system,
            of(all, 0.5),
            millis(all.mean()),
            of(all, 0.99),
            of(all, 0.999),
            millis(all.max() as f64),
            of(&outcome.reads, 0.99),
            of(&outcome.writes, 0.99),
            ratio(outcome.for_each(outcome.drives.host_write_bytes)),
            ratio(outcome.for_each(outcome.drives.flash_write_bytes)),
            outcome.drives.collections
        );
        if outcome.failed > 0 {
            let _ = write!(line, "  {} failed", outcome.failed);
        }
        if let Some(trouble) = &outcome.trouble {
            let _ = write!(line, "  background work: {trouble}");
        }
        self.rows.push(outcome);
        line
    }

    /// How the drives of each system work together.
    pub fn shapes(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for row in &self.rows {
            let line = format!("{:<15} {}", row.system, row.shape);
            // The same on trimmed drives and on others.
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.join("\n")
    }

    /// The counters of the last one, since it was opened.
    pub fn why(&self) -> String {
        let mut text = String::new();
        for (name, count) in self.rows.last().iter().flat_map(|row| &row.counters) {
            let _ = writeln!(text, "    {name} {count}");
        }
        text
    }

    pub fn json(&self, options: &Options) -> String {
        let row = |row: &Outcome| -> Value {
            let all = &row.latencies;
            let counters: serde_json::Map<String, Value> =
                row.counters.iter().map(|&(name, count)| (name.to_owned(), count.into())).collect();
            json!({
                "system": row.system.to_string(),
                "trimmed": row.trim == Trim::Trimmed,
                "shape": row.shape,
                "requests": all.len(),
                "failed": row.failed,
                "p50_nanos": all.value_at_quantile(0.5),
                "mean_nanos": all.mean() as u64,
                "p99_nanos": all.value_at_quantile(0.99),
                "p999_nanos": all.value_at_quantile(0.999),
                "max_nanos": all.max(),
                "read_p99_nanos": row.reads.value_at_quantile(0.99),
                "write_p99_nanos": row.writes.value_at_quantile(0.99),
                "user_write_bytes": row.user_bytes,
                "drive_read_bytes": row.drives.host_read_bytes,
                "drive_write_bytes": row.drives.host_write_bytes,
                "flash_write_bytes": row.drives.flash_write_bytes,
                "moved_bytes": row.drives.moved_bytes,
                "erases": row.drives.erases,
                "collections": row.drives.collections,
                "counters": counters,
            })
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        let trace = options.trace.as_ref().map(|path| path.display().to_string());
        let value = json!({
            "drives": options.drives,
            "preset": options.preset.to_string(),
            "seed": options.seed,
            "kib": options.kib,
            "read_percent": options.read_percent,
            "rate": options.rate,
            "bursty": options.bursty,
            "mix": options.mix,
            "trace": trace,
            "times": options.times,
            "seconds": options.seconds,
            "fill_percent": options.fill_percent,
            "systems": rows,
        });
        serde_json::to_string_pretty(&value).expect("plain values") + "\n"
    }
}
