//! The tables: reads and writes apart, and how `fusion` compares with the best of the others.

use std::fmt;
use std::fmt::Write as _;

use hdrhistogram::Histogram;
use model::presets::Preset;

use super::load::Kind;
use crate::array::System;
use crate::array::prepare::Trim;
use crate::systems::{self, millis};
use crate::why::{Report, Share, Told, shares};

/// A load on drives.
#[derive(Clone)]
pub struct Cell {
    pub preset: Preset,
    pub drives: usize,
    pub trim: Trim,
    pub kind: Kind,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { preset, drives, trim, kind } = self;
        write!(f, "{drives} drives, aged {preset}, {trim}, {kind}")
    }
}

/// Latencies in nanoseconds; zero of what there were no requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    pub requests: u64,
    pub p99: u64,
    pub p999: u64,
    pub p9999: u64,
}

impl Quantiles {
    fn of(latencies: &Histogram<u64>) -> Quantiles {
        let at = |quantile| latencies.value_at_quantile(quantile);
        let requests = latencies.len();
        Quantiles { requests, p99: at(0.99), p999: at(0.999), p9999: at(0.9999) }
    }

    /// Those that so many requests tell: ten are slower.
    fn told(&self) -> Vec<u64> {
        let all = [(self.p99, 1_000), (self.p999, 10_000), (self.p9999, 100_000)];
        let told = |(index, (at, least)): (usize, (u64, u64))| {
            (index == 0 || self.requests >= least).then_some(at)
        };
        all.into_iter().enumerate().filter_map(told).collect()
    }

    /// As much as asked for, of what there are enough requests for.
    fn shown(&self) -> [String; 3] {
        let told = self.told();
        let show = |at: usize| match told.get(at) {
            Some(&nanos) if self.requests > 0 => millis(nanos as f64),
            _ => "-".to_owned(),
        };
        [0, 1, 2].map(show)
    }
}

/// What one system did in a cell.
#[derive(Clone, Debug)]
pub struct Row {
    pub system: System,
    pub reads: Quantiles,
    pub writes: Quantiles,
    pub write_mean: u64,
    /// Flash bytes for each that the user wrote.
    pub flash: f64,
    pub failed: u64,
}

pub fn heading() -> String {
    format!(
        "{:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>7}",
        "system", "reads p99", "p99.9", "p99.99", "writes", "p99.9", "p99.99", "mean", "flash x"
    )
}

impl Row {
    pub fn of(outcome: &systems::Outcome) -> Row {
        Row {
            system: outcome.system,
            reads: Quantiles::of(&outcome.reads),
            writes: Quantiles::of(&outcome.writes),
            write_mean: outcome.writes.mean() as u64,
            flash: outcome.drives.flash_write_bytes as f64 / outcome.user_bytes.max(1) as f64,
            failed: outcome.failed,
        }
    }

    fn columns(&self) -> Vec<String> {
        let quantiles = self.reads.shown().into_iter().chain(self.writes.shown());
        let mean = match self.writes.requests {
            0 => ["-".to_owned(), "-".to_owned()],
            _ => [millis(self.write_mean as f64), format!("{:.2}", self.flash)],
        };
        quantiles.chain(mean).collect()
    }

    pub fn text(&self) -> String {
        let mut text = format!("{:<10}", self.system.to_string());
        for (column, width) in self.columns().iter().zip([9, 9, 9, 9, 9, 9, 10, 7]) {
            let _ = write!(text, " {column:>width$}");
        }
        if self.failed > 0 {
            let _ = write!(text, "  {} failed", self.failed);
        }
        text
    }
}

struct Compared {
    title: String,
    rows: Vec<Row>,
    /// What `fusion`'s slowest requests waited for, if it is worse than another.
    why: Vec<String>,
}

/// How much worse than the best of the others `fusion` may be: what two seeds of a load differ by.
const WORSE: f64 = 1.1;
/// Causes that are named.
const CAUSES: usize = 3;

impl Compared {
    /// `fusion` to the best of the others, for reads and for writes: the worst quantile of each.
    fn ratios(&self) -> [Option<f64>; 2] {
        [|row: &Row| row.reads, |row: &Row| row.writes].map(|of| self.ratio(of))
    }

    fn ratio(&self, of: fn(&Row) -> Quantiles) -> Option<f64> {
        let own = self.rows.iter().find(|row| row.system == System::Fusion).map(of)?;
        let others = || self.rows.iter().filter(|row| row.system != System::Fusion).map(of);
        let best = |at: usize| others().filter_map(|other| other.told().get(at).copied()).min();
        let told = own.told();
        let each = told.iter().enumerate().filter_map(|(at, &nanos)| {
            let best = best(at).filter(|&best| best > 0)?;
            Some(nanos as f64 / best as f64)
        });
        each.reduce(f64::max)
    }

    fn is_worse(&self) -> bool {
        self.ratios().into_iter().flatten().any(|ratio| ratio > WORSE)
    }

    fn verdict(&self) -> String {
        let show = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let [reads, writes] = self.ratios().map(show);
        format!("fusion to the best of the others, at worst: reads {reads}, writes {writes}")
    }
}

#[derive(Default)]
pub struct Table {
    cells: Vec<Compared>,
}

impl Table {
    /// Rows of one cell come one after another.
    pub fn add(&mut self, cell: &Cell, row: Row) {
        let title = cell.to_string();
        match self.cells.last_mut().filter(|last| last.title == title) {
            Some(last) => last.rows.push(row),
            None => self.cells.push(Compared { title, rows: vec![row], why: Vec::new() }),
        }
    }

    /// `fusion` is worse than another in the last cell.
    pub fn is_worse(&self) -> bool {
        self.cells.last().is_some_and(Compared::is_worse)
    }

    /// What the slowest requests of the last cell waited for.
    pub fn explain(&mut self, reports: &[Report]) -> String {
        let Some(cell) = self.cells.last_mut() else { return String::new() };
        let kinds = cell.ratios().into_iter().zip(["reads", "writes"]);
        for (ratio, kind) in kinds.filter(|(ratio, _)| ratio.is_some_and(|ratio| ratio > WORSE)) {
            let ratio = ratio.unwrap_or_default();
            let slow = |report: &Report| match kind {
                "reads" => report.reads.clone(),
                _ => report.writes.clone(),
            };
            let told: Vec<Told> = reports.iter().flat_map(slow).collect();
            let causes = shares(&told).into_iter().take(CAUSES);
            let name = |share: Share| format!("{} {:.0} %", share.cause, share.of_time * 100.0);
            let causes = causes.map(name).collect::<Vec<_>>().join(", ");
            cell.why.push(format!("{kind} {ratio:.2} times; the slowest 1 % waited for: {causes}"));
        }
        cell.why.join("\n")
    }

    /// In how many cells `fusion` is as good as the best of the others.
    pub fn verdict(&self) -> String {
        let count = |at: usize| {
            let ratios = || self.cells.iter().filter_map(move |cell| cell.ratios()[at]);
            let good = ratios().filter(|&ratio| ratio <= WORSE).count();
            format!("{good} of {}", ratios().count())
        };
        format!(
            "fusion is at most {WORSE} times the best of the others: reads in {} cells, writes in \
             {}",
            count(0),
            count(1)
        )
    }

    pub fn markdown(&self) -> String {
        let mut text = format!("**{}.**\n", self.verdict());
        for cell in &self.cells {
            let _ = write!(
                text,
                "\n**{}**\n\n| system | reads p99 | p99.9 | p99.99 | writes p99 | p99.9 | p99.99 | \
                 mean | flash x |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
                cell.title
            );
            for row in &cell.rows {
                let _ = writeln!(text, "| {} | {} |", row.system, row.columns().join(" | "));
            }
            let _ = writeln!(text, "\n{}.", cell.verdict());
            for why in &cell.why {
                let _ = writeln!(text, "Why: {why}.");
            }
        }
        text
    }
}
