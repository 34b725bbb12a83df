//! Tables of latency: one line for each kind of operation of a volume or drive.

use super::table::Columns;
use super::view::{Drive, Latencies, OperationLatencies, Pool, Slices, Volume};

/// What clients see, by volume.
pub fn volumes(volumes: &[Volume]) -> String {
    let mut table = Table::new("VOLUME LATENCY");
    for volume in volumes {
        table.rows(&volume.name, &volume.latency);
    }
    table.render()
}

/// What the drives answered, by drive, and what that says about them.
pub fn drives(pool: &Pool) -> String {
    let mut table = Table::new("DRIVE LATENCY");
    for drive in &pool.drives {
        table.rows(&drive.label(), &drive.latency);
    }
    let tables = [table.render(), stragglers(&pool.drives)];
    tables.into_iter().filter(|table| !table.is_empty()).collect::<Vec<_>>().join("\n")
}

/// For how long the thread that serves did one thing at a time, and nothing else.
pub fn slices(slices: &[Slices]) -> String {
    let mut table = Table::new("THREAD HELD BY");
    for Slices { work, latency } in slices {
        table.columns.row(row(work, "", latency));
        table.empty = false;
    }
    table.render()
}

fn stragglers(drives: &[Drive]) -> String {
    let heading = ["SLOW ANSWERS", "STRAGGLER AFTER", "NOW", "ALL", "SPIKES", "IN SPIKES"];
    let mut columns = Columns::new(&heading, &[1, 2, 3, 4, 5]);
    for drive in drives {
        let spikes = &drive.spikes;
        columns.row(vec![
            drive.label(),
            span(spikes.threshold_nanos),
            spikes.stragglers.to_string(),
            spikes.stragglers_total.to_string(),
            spikes.spikes.to_string(),
            span(spikes.spike_nanos),
        ]);
    }
    columns.render(2)
}

struct Table {
    columns: Columns,
    empty: bool,
}

impl Table {
    fn new(of: &str) -> Table {
        let heading = [of, "", "COUNT", "MEAN", "P50", "P99", "P99.9", "P99.99", "MAX"];
        Table { columns: Columns::new(&heading, &[2, 3, 4, 5, 6, 7, 8]), empty: true }
    }

    /// Operations that there were none of have no line.
    fn rows(&mut self, name: &str, latency: &OperationLatencies) {
        let kinds =
            [("read", &latency.reads), ("write", &latency.writes), ("flush", &latency.flushes)];
        for (kind, latencies) in kinds {
            if latencies.count > 0 {
                self.columns.row(row(name, kind, latencies));
                self.empty = false;
            }
        }
    }

    /// Nothing at all if there is no line.
    fn render(&self) -> String {
        if self.empty { String::new() } else { self.columns.render(2) }
    }
}

fn row(name: &str, kind: &str, latencies: &Latencies) -> Vec<String> {
    let numbers = [
        latencies.mean_nanos,
        latencies.p50_nanos,
        latencies.p99_nanos,
        latencies.p999_nanos,
        latencies.p9999_nanos,
        latencies.max_nanos,
    ];
    let words = [name.to_owned(), kind.to_owned(), latencies.count.to_string()];
    words.into_iter().chain(numbers.map(span)).collect()
}

/// Three digits are as many as a glance takes in: `85 us`, `1.24 ms`, `12.4 s`.
pub fn span(nanos: u64) -> String {
    let (unit, name) = match nanos {
        0 => return "-".to_owned(),
        1..1_000 => return format!("{nanos} ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let value = nanos as f64 / unit as f64;
    let decimals = match value {
        _ if value >= 100.0 => 0,
        _ if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_three_digits() {
        let spans = [0, 7, 1_000, 85_400, 999_900, 1_236_000, 12_360_000, 3_600_000_000_000];
        let shown = ["-", "7 ns", "1.00 us", "85.4 us", "1000 us", "1.24 ms", "12.4 ms", "3600 s"];
        assert_eq!(spans.map(span), shown);
    }
}
