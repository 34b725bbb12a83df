//! One cell under several samples of its load, and the median of each figure.
//!
//! A tail that a few events make varies by the sample: at a rate that drives hardly keep up with,
//! p99 of one mix was 91 to 514 ms. Whoever compares two versions by one sample compares chance.
//!
//! Results have a name of their own (`CELL/seed-N`, `CELL/seeds-N`), so that no report takes them
//! for the cell's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::folder::{Done, Made};
use super::{Cell, Figures, LoadSeed, run, shown};

/// Which samples a cell is run under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    One(LoadSeed),
    /// The first so many, from the one of the reports on.
    First(u64),
}

impl Samples {
    fn seeds(self) -> Vec<LoadSeed> {
        match self {
            Samples::One(seed) => vec![seed],
            Samples::First(count) => (0..count).map(|at| LoadSeed(at + 1)).collect(),
        }
    }

    fn name(self, cell: &str) -> String {
        match self {
            Samples::One(LoadSeed(seed)) => format!("{cell}/seed-{seed}"),
            Samples::First(count) => format!("{cell}/seeds-{count}"),
        }
    }
}

/// The runs of one cell, each with its seed.
pub struct Sampled {
    pub runs: Vec<(LoadSeed, Figures)>,
    /// Of each figure that all runs have; distributions are no figures.
    pub median: Figures,
    /// What is kept: the medians, under a name of their own.
    pub done: Done,
}

/// Runs a cell under some samples of its load. Fails with the first that fails, and where there
/// is only one sample.
pub fn sample(cell: &Cell, made: &Made, samples: Samples) -> Result<Sampled, String> {
    if !cell.seeded {
        return Err(format!("{}: its load is the same with every seed", cell.name));
    }
    let (mut runs, mut seconds) = (Vec::new(), 0.0);
    for seed in samples.seeds() {
        let done = run::one(cell, made, seed);
        seconds += done.seconds;
        let figures = done.error.map_or(Ok(done.figures), Err);
        let figures =
            figures.map_err(|error| format!("{}, seed {}: {error}", cell.name, seed.0))?;
        runs.push((seed, figures.expect("a run without an error has figures")));
    }
    let median = median(runs.iter().map(|(_, figures)| figures));
    let mut parameters = cell.parameters.clone();
    let seeds = runs.iter().map(|(seed, _)| Value::from(seed.0));
    parameters.insert("load_seeds".to_owned(), seeds.collect());
    let (figures, error) = (Some(median.clone()), None);
    let (cell, made) = (samples.name(&cell.name), made.clone());
    let done = Done { cell, made, parameters, seconds, figures, error };
    Ok(Sampled { runs, median, done })
}

/// Of an even number of runs the mean of the two in the middle.
fn median<'a>(runs: impl Iterator<Item = &'a Figures>) -> Figures {
    let (mut all, mut count): (BTreeMap<&str, Vec<f64>>, usize) = (BTreeMap::new(), 0);
    for figures in runs {
        count += 1;
        for (name, value) in &figures.values {
            all.entry(name).or_default().push(*value);
        }
    }
    let mut median = Figures::default();
    for (name, mut values) in all.into_iter().filter(|(_, values)| values.len() == count) {
        values.sort_unstable_by(f64::total_cmp);
        let middle = count / 2;
        let lower = if count % 2 == 0 { values[middle - 1] } else { values[middle] };
        median.set(name, f64::midpoint(lower, values[middle]));
    }
    median
}

/// Figures that decide, of the whole load if a cell has several.
const PRINTED: [&str; 6] = ["p50_ms", "p99_ms", "p999_ms", "read_p99_ms", "write_p99_ms", "iops"];
const DRIVES: [&str; 2] = ["drives/write_amplification", "drives/flash_amplification"];

impl Sampled {
    /// A line for each figure: the median, then each run.
    pub fn human(&self) -> String {
        let loads: BTreeSet<&str> =
            self.median.values.keys().filter_map(|name| load(name)).collect();
        let chosen = |name: &&String| match load(name) {
            Some(load) => load == "all" || !loads.contains("all"),
            None => DRIVES.contains(&name.as_str()) || PRINTED.contains(&name.as_str()),
        };
        let mut text = format!("{:<28} {:>9}", "figure", "median");
        for (seed, _) in &self.runs {
            let _ = write!(text, " {:>9}", format!("seed {}", seed.0));
        }
        text.push('\n');
        for name in self.median.values.keys().filter(chosen) {
            let _ = write!(text, "{name:<28} {:>9}", shown(self.median.values[name]));
            for (_, figures) in &self.runs {
                let _ = write!(text, " {:>9}", shown(figures.values[name]));
            }
            text.push('\n');
        }
        text
    }
}

/// The load that a printed latency is of.
fn load(name: &str) -> Option<&str> {
    name.rsplit_once('/').filter(|(_, figure)| PRINTED.contains(figure)).map(|(load, _)| load)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made() -> Made {
        Made { version: String::new(), commit: String::new() }
    }

    fn cell() -> Cell {
        Cell::seeded("name", 1.0, json!({ "width": 5 }), |seed| {
            let own = seed.of(7) as f64;
            let figures = Figures::default().with("all/p99_ms", own).with("b/p99_ms", -own);
            Ok(if seed.0 == 2 { figures.with("only/here", 1.0) } else { figures })
        })
    }

    #[test]
    fn the_median_is_of_each_figure_that_all_runs_have() {
        let sampled = sample(&cell(), &made(), Samples::First(3)).expect("they run");
        let value = |name: &str| sampled.median.values.get(name).copied();
        assert_eq!((value("all/p99_ms"), value("b/p99_ms")), (Some(1007.0), Some(-1007.0)));
        assert_eq!(value("only/here"), None);
        assert_eq!(sampled.done.cell, "name/seeds-3");
        assert_eq!(sampled.done.parameters["load_seeds"], json!([1, 2, 3]));
        let text = sampled.human();
        assert!(text.contains("all/p99_ms") && !text.contains("b/p99_ms"), "{text}");
        let even = sample(&cell(), &made(), Samples::First(2)).expect("they run");
        assert_eq!(even.median.values["all/p99_ms"], 507.0);
    }

    #[test]
    fn the_first_seed_is_that_of_reports() {
        let one = sample(&cell(), &made(), Samples::One(LoadSeed(1))).expect("it runs");
        assert_eq!(one.median, run::one(&cell(), &made(), LoadSeed::REPORTED).figures.unwrap());
        assert_eq!(LoadSeed::REPORTED.of(7), 7);
        assert_eq!(one.done.cell, "name/seed-1");
    }

    #[test]
    fn a_cell_without_another_load_says_so() {
        let cell = Cell::new("name", 1.0, json!({}), || Ok(Figures::default()));
        let error = sample(&cell, &made(), Samples::First(5)).err().expect("there is one load");
        assert!(error.contains("name") && error.contains("seed"), "{error}");
    }
}
