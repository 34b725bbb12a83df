//! Experiments: what a paper shows, done again over modelled drives in virtual time.
//!
//! ```text
//!  Experiment ── cells(scale) ─┬> Cell ── work ──> Figures ─┐
//!                              └> Cell ── work ──> Figures ─┤   conclude
//!                                (any order, any machine)   └──> Conclusion ──> JSON, HTML, SVG,
//!                                                    checks, tables, pictures      Markdown
//! ```
//! A cell is a world of its own: it follows from its parameters and its seed, so its figures are
//! the same on every machine, and cells can be run side by side or far apart. Cells of the same
//! name are the same cell: experiments that look at the same runs share them.

pub mod bed;
pub mod compare;
pub mod costs;
pub mod folder;
pub mod page;
pub mod picture;
pub mod queue;
pub mod raster;
pub mod run;
pub mod sampled;
pub mod summary;
pub mod traced;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use picture::{Axis, Kind, Picture, Series};

/// How much of an experiment is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Enough to see the direction: all experiments within 15 minutes on two cores.
    Quick,
    /// What the committed results are made of: within three hours.
    Full,
}

impl Scale {
    /// One of two, by the scale.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Scale::Quick => quick,
            Scale::Full => full,
        }
    }

    pub fn name(self) -> &'static str {
        self.pick("quick", "full")
    }
}

/// What one paper shows in one table or figure.
pub struct Experiment {
    /// How it is called: paper, then figure or table.
    pub name: &'static str,
    pub title: &'static str,
    /// Where it is from, for people.
    pub source: &'static str,
    pub cells: fn(Scale) -> Vec<Cell>,
    pub conclude: fn(Scale, &Found) -> Conclusion,
}

pub type Work = Box<dyn Fn(LoadSeed) -> Result<Figures, String> + Send + Sync>;

/// Which sample of its load a cell runs. Drives and arrays stay the same, so that samples share
/// what takes long to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LoadSeed(pub u64);

impl LoadSeed {
    /// The sample of all reports.
    pub const REPORTED: LoadSeed = LoadSeed(1);
    /// Streams of a cell have seeds that follow each other. So far apart are those of two samples,
    /// or the second stream of one would be the first of the next.
    const STREAMS_MAX: u64 = 1000;

    /// The seed of a stream that has `reported` in reports.
    pub fn of(self, reported: u64) -> u64 {
        reported + self.0.wrapping_sub(1).wrapping_mul(LoadSeed::STREAMS_MAX)
    }
}

/// One run of an experiment.
pub struct Cell {
    /// Names the parameters that make it what it is: `name/part/part`.
    pub name: String,
    /// Seconds of one core that it takes, about, where the committed results were made.
    pub cost: f64,
    /// What it was run with, for the reader of the results.
    pub parameters: Map<String, Value>,
    /// Its load is another with another seed.
    pub seeded: bool,
    pub work: Work,
}

impl Cell {
    pub fn new(
        name: impl Into<String>,
        cost: f64,
        parameters: Value,
        work: impl Fn() -> Result<Figures, String> + Send + Sync + 'static,
    ) -> Cell {
        let work = move |_: LoadSeed| work();
        Cell { seeded: false, ..Cell::seeded(name, cost, parameters, work) }
    }

    /// One that can be run under other samples of its load.
    pub fn seeded(
        name: impl Into<String>,
        cost: f64,
        parameters: Value,
        work: impl Fn(LoadSeed) -> Result<Figures, String> + Send + Sync + 'static,
    ) -> Cell {
        let parameters = match parameters {
            Value::Object(parameters) => parameters,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        Cell { name: name.into(), cost, parameters, seeded: true, work: Box::new(work) }
    }
}

/// What a cell found out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub values: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub curves: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Figures {
    pub fn set(&mut self, name: impl Into<String>, value: f64) {
        self.values.insert(name.into(), value);
    }

    pub fn with(mut self, name: impl Into<String>, value: f64) -> Figures {
        self.set(name, value);
        self
    }
}

/// The figures of all cells, by their names. Of a cell that could not be run there are none.
#[derive(Clone, Debug, Default)]
pub struct Found(pub BTreeMap<String, Figures>);

impl Found {
    /// A value of a cell; `NAN` if there is none, which every table shows as a gap.
    pub fn value(&self, cell: &str, value: &str) -> f64 {
        let figures = self.0.get(cell);
        figures.and_then(|figures| figures.values.get(value)).copied().unwrap_or(f64::NAN)
    }

    pub fn curve(&self, cell: &str, curve: &str) -> Vec<(f64, f64)> {
        let figures = self.0.get(cell);
        figures.and_then(|figures| figures.curves.get(curve)).cloned().unwrap_or_default()
    }
}

/// What the paper says, and what we saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    pub what: String,
    pub unit: String,
    /// None where the paper shows it in a picture only, or says nothing.
    pub paper: Option<f64>,
    /// None if it could not be measured.
    pub ours: Option<f64>,
    /// Where they differ: why, in a line.
    pub why: String,
}

impl Check {
    pub fn new(what: impl Into<String>, unit: &str, paper: f64, ours: f64) -> Check {
        let shown = |value: f64| value.is_finite().then_some(value);
        let (paper, ours) = (shown(paper), shown(ours));
        Check { what: what.into(), unit: unit.to_owned(), paper, ours, why: String::new() }
    }

    /// Something that the paper doesn't put into a number.
    pub fn ours(what: impl Into<String>, unit: &str, ours: f64) -> Check {
        Check::new(what, unit, f64::NAN, ours)
    }

    pub fn because(mut self, why: impl Into<String>) -> Check {
        self.why = why.into();
        self
    }

    /// Ours for each of the paper's.
    pub fn ratio(&self) -> Option<f64> {
        self.ours
            .zip(self.paper)
            .filter(|(_, paper)| *paper != 0.0)
            .map(|(ours, paper)| ours / paper)
    }
}

/// Rows of numbers; a gap where there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub title: String,
    /// Of the first column, with the names of the rows, and of the others.
    pub columns: Vec<String>,
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// What its numbers don't say, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Table {
    pub fn new(title: &str, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Table { title: title.to_owned(), columns, ..Table::default() }
    }

    pub fn row(&mut self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) {
        let shown = |value: f64| value.is_finite().then_some(value);
        self.rows.push((name.into(), values.into_iter().map(shown).collect()));
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conclusion {
    pub checks: Vec<Check>,
    pub tables: Vec<Table>,
    pub pictures: Vec<Picture>,
}

/// A number for people: about four digits, whatever its size.
pub fn shown(value: f64) -> String {
    let size = value.abs();
    match value {
        _ if !value.is_finite() => "-".to_owned(),
        0.0 => "0".to_owned(),
        _ if !(1e-3..1e6).contains(&size) => format!("{value:.2e}"),
        _ => {
            let digits = 3 - size.log10().floor().clamp(-2.0, 3.0) as usize as i32;
            let digits = if size < 1.0 { 3 } else { digits.max(0) };
            format!("{value:.*}", digits as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (0.1234567, "0.123"),
            (1.0, "1.000"),
            (31.25, "31.25"),
            (-312.5, "-312.5"),
            (4321.9, "4322"),
            (123456.0, "123456"),
            (2.5e7, "2.50e7"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(shown(value), text);
        }
    }

    #[test]
    fn what_was_not_measured_is_a_gap() {
        let found = Found::default();
        let check = Check::new("x", "ms", 2.0, found.value("no such cell", "p99"));
        assert_eq!((check.ours, check.ratio()), (None, None));
        assert_eq!(Check::new("x", "ms", 2.0, 3.0).ratio(), Some(1.5));
        assert!(found.curve("no such cell", "cdf").is_empty());
    }
}
