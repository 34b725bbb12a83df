//! The table of a run: as text, as Markdown, as JSON, and what it proves.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::cell::{Cell, Member, Outcome};
use crate::array::System;
use crate::array::prepare::Trim;
use crate::systems;

/// What `fusion` promises with a slow drive, against itself without.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub p999: f64,
    pub p9999: f64,
}

impl Bound {
    pub const PROMISED: Bound = Bound { p999: 1.2, p9999: 2.0 };

    pub fn holds(&self, row: &Row) -> bool {
        row.p999_ratio <= self.p999 && row.p9999_ratio <= self.p9999
    }
}

/// A line of the table; latencies in nanoseconds, ratios to the same system without a slow drive.
#[derive(Clone, Debug)]
pub struct Row {
    pub cell: Cell,
    pub requests: u64,
    pub failed: u64,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub p9999: u64,
    pub max: u64,
    pub p999_ratio: f64,
    pub p9999_ratio: f64,
}

#[derive(Default)]
pub struct Table {
    pub rows: Vec<Row>,
}

fn millis(nanos: u64) -> String {
    systems::millis(nanos as f64)
}

impl Table {
    pub fn heading(&self, cell: &Cell) -> String {
        format!(
            "\n{}\n{:<13} {:<6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}",
            title(cell),
            "system",
            "member",
            "p50 ms",
            "p99",
            "p99.9",
            "p99.99",
            "max",
            "p99.9 x",
            "p99.99 x"
        )
    }

    /// Adds an outcome; its line as text.
    pub fn add(&mut self, outcome: &Outcome) -> String {
        let cell = outcome.cell;
        let (p999, p9999) = (outcome.nanos(0.999), outcome.nanos(0.9999));
        let base = self.base(&cell);
        let ratio = |now: u64, base: Option<u64>| now as f64 / base.unwrap_or(now).max(1) as f64;
        let row = Row {
            cell,
            requests: outcome.latencies.len(),
            failed: outcome.failed,
            p50: outcome.nanos(0.5),
            p99: outcome.nanos(0.99),
            p999,
            p9999,
            max: outcome.latencies.max(),
            p999_ratio: ratio(p999, base.map(|row| row.p999)),
            p9999_ratio: ratio(p9999, base.map(|row| row.p9999)),
        };
        let mark = match cell.system {
            System::Fusion if !Bound::PROMISED.holds(&row) => "  over the bound",
            _ => "",
        };
        let failed = match row.failed {
            0 => String::new(),
            failed => format!("  {failed} failed"),
        };
        let line = format!(
            "{:<13} {:<6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8.2} {:>8.2}{mark}{failed}",
            cell.system,
            cell.member,
            millis(row.p50),
            millis(row.p99),
            millis(p999),
            millis(p9999),
            millis(row.max),
            row.p999_ratio,
            row.p9999_ratio
        );
        self.rows.push(row);
        line
    }

    /// Those that have rows, in their order.
    pub fn systems(&self) -> Vec<System> {
        let mut systems: Vec<System> = Vec::new();
        for row in &self.rows {
            if !systems.contains(&row.cell.system) {
                systems.push(row.cell.system);
            }
        }
        systems
    }

    /// The same without a slow drive.
    fn base(&self, cell: &Cell) -> Option<&Row> {
        self.rows.iter().find(|row| {
            row.cell.member == Member::Fine
                && row.cell.system == cell.system
                && same_load(&row.cell, cell)
        })
    }

    pub fn verdict(&self) -> String {
        let Bound { p999, p9999 } = Bound::PROMISED;
        let slow = |row: &&Row| row.cell.member != Member::Fine;
        let mut text = format!(
            "with a slow drive against without: p99.9 at most {p999} times, p99.99 at most {p9999}"
        );
        for system in self.systems() {
            let rows: Vec<&Row> =
                self.rows.iter().filter(slow).filter(|row| row.cell.system == system).collect();
            if rows.is_empty() {
                continue;
            }
            let met = rows.iter().filter(|row| Bound::PROMISED.holds(row)).count();
            let worst = |of: fn(&Row) -> f64| rows.iter().map(|row| of(row)).fold(0.0, f64::max);
            let (worst999, worst9999) = (worst(|row| row.p999_ratio), worst(|row| row.p9999_ratio));
            let _ = write!(
                text,
                "\n  {system:<13} in {met:>3} of {:>3} cells; at worst {worst999:.2} and \
                 {worst9999:.2}",
                rows.len()
            );
        }
        text
    }

    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let mut last: Option<Cell> = None;
        for row in &self.rows {
            let cell = row.cell;
            if last.is_none_or(|last| !same_load(&last, &cell)) {
                let _ = write!(
                    text,
                    "\n**{}**\n\n| system | slow drive | p50 | p99 | p99.9 | p99.99 | longest | \
                     p99.9 × | p99.99 × |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- \
                     |\n",
                    title(&cell)
                );
            }
            last = Some(cell);
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {:.2} | {:.2} |",
                cell.system,
                cell.member,
                millis(row.p50),
                millis(row.p99),
                millis(row.p999),
                millis(row.p9999),
                millis(row.max),
                row.p999_ratio,
                row.p9999_ratio
            );
        }
        let _ = write!(text, "\n```\n{}\n```\n", self.verdict());
        text
    }

    pub fn json(&self) -> String {
        let row = |row: &Row| -> Value {
            json!({
                "drives": row.cell.drives,
                "trimmed": row.cell.trim == Trim::Trimmed,
                "kind": row.cell.kind.to_string(),
                "bytes": row.cell.bytes,
                "arrivals": row.cell.arrivals.to_string(),
                "rate": row.cell.rate,
                "seed": row.cell.seed,
                "system": row.cell.system.to_string(),
                "member": row.cell.member.to_string(),
                "requests": row.requests,
                "failed": row.failed,
                "p50_nanos": row.p50,
                "p99_nanos": row.p99,
                "p999_nanos": row.p999,
                "p9999_nanos": row.p9999,
                "max_nanos": row.max,
                "p999_ratio": row.p999_ratio,
                "p9999_ratio": row.p9999_ratio,
            })
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        serde_json::to_string_pretty(&rows).expect("plain values") + "\n"
    }
}

pub fn same_load(one: &Cell, other: &Cell) -> bool {
    (one.drives, one.trim, one.kind, one.bytes, one.rate)
        == (other.drives, other.trim, other.kind, other.bytes, other.rate)
}

pub fn title(cell: &Cell) -> String {
    let what = match cell.kind {
        super::Kind::Read => "reads",
        super::Kind::Write => "writes",
        super::Kind::Mixed => "reads and writes",
    };
    format!(
        "{} drives, {}, {what} of {} KiB, {}/s ({})",
        cell.drives,
        cell.trim,
        cell.bytes >> 10,
        cell.rate,
        cell.arrivals
    )
}
