//! Two sets of results beside each other: what changed, and by how much.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::folder::Results;
use super::shown;

/// A number that both have, or one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub experiment: String,
    pub what: String,
    pub before: Option<f64>,
    pub after: Option<f64>,
}

impl Change {
    /// How much more it is, as a part of what it was; none where one of them is missing.
    pub fn part(&self) -> Option<f64> {
        let (before, after) = self.before.zip(self.after)?;
        Some(if before == after { 0.0 } else { (after - before) / before.abs() })
    }

    fn is_beyond(&self, tolerance: f64) -> bool {
        self.part().is_none_or(|part| part.abs() > tolerance || part.is_nan())
    }
}

/// Everything that is a number, by where it stands.
fn numbers(results: &Results) -> BTreeMap<(String, String), f64> {
    let mut numbers = BTreeMap::new();
    for experiment in &results.experiments {
        let mut put = |what: String, value: Option<f64>| {
            if let Some(value) = value {
                numbers.insert((experiment.name.clone(), what), value);
            }
        };
        for check in &experiment.conclusion.checks {
            put(check.what.clone(), check.ours);
        }
        for table in &experiment.conclusion.tables {
            for (name, values) in &table.rows {
                for (column, value) in table.columns.iter().skip(1).zip(values) {
                    put(format!("{}: {name}: {column}", table.title), *value);
                }
            }
        }
    }
    numbers
}

/// What differs by more than a part of it, in the order of experiments' names, and how many
/// numbers were looked at.
pub fn changes(before: &Results, after: &Results, tolerance: f64) -> (Vec<Change>, usize) {
    let (old, new) = (numbers(before), numbers(after));
    let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let change = |(experiment, what): &(String, String)| {
        let key = (experiment.clone(), what.clone());
        let (before, after) = (old.get(&key).copied(), new.get(&key).copied());
        Change { experiment: experiment.clone(), what: what.clone(), before, after }
    };
    let all = keys.len();
    let changed = keys.into_iter().map(change).filter(|change| change.is_beyond(tolerance));
    (changed.collect(), all)
}

pub fn human(changes: &[Change], all: usize, tolerance: f64) -> String {
    let mut text = String::new();
    let mut last = "";
    for change in changes {
        if change.experiment != last {
            text += &format!("{}\n", change.experiment);
            last = &change.experiment;
        }
        let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), shown);
        let part = change.part().map_or_else(String::new, |part| format!("{:+.1} %", part * 100.0));
        let (before, after) = (or_dash(change.before), or_dash(change.after));
        text += &format!("  {before:>12} {after:>12} {part:>10}  {}\n", change.what);
    }
    let (count, percent) = (changes.len(), tolerance * 100.0);
    text + &format!("{count} of {all} numbers differ by more than {percent} %\n")
}

pub fn json(changes: &[Change], all: usize) -> String {
    let each: Vec<Value> = changes
        .iter()
        .map(|change| {
            json!({
                "experiment": change.experiment, "what": change.what, "before": change.before,
                "after": change.after,
            })
        })
        .collect();
    let value = json!({ "numbers": all, "changed": each });
    serde_json::to_string_pretty(&value).expect("plain values")
}

#[cfg(test)]
mod tests {
    use super::super::folder::{Concluded, Made};
    use super::super::{Check, Conclusion, Scale, Table};
    use super::*;

    fn results(p99: f64, more: &[(&str, f64)]) -> Results {
        let mut table = Table::new("t", &["system", "ms"]);
        more.iter().for_each(|(name, value)| table.row(*name, [*value]));
        let checks = vec![Check::new("p99", "ms", 1.0, p99)];
        let conclusion = Conclusion { checks, tables: vec![table], pictures: vec![] };
        let concluded = Concluded {
            name: "x".to_owned(),
            title: String::new(),
            source: String::new(),
            drives: String::new(),
            missing: vec![],
            conclusion,
        };
        Results {
            made: Made { version: String::new(), commit: String::new() },
            scale: Scale::Quick,
            command: String::new(),
            experiments: vec![concluded],
        }
    }

    #[test]
    fn what_changed_is_told_and_what_is_gone() {
        let before = results(10.0, &[("a", 1.0), ("b", 2.0)]);
        assert_eq!(changes(&before, &before, 0.0), (vec![], 3));
        let after = results(10.4, &[("a", 1.5), ("c", 3.0)]);
        let (changed, all) = changes(&before, &after, 0.05);
        let seen: Vec<_> = changed.iter().map(|c| (c.what.as_str(), c.part())).collect();
        assert_eq!(seen, [("t: a: ms", Some(0.5)), ("t: b: ms", None), ("t: c: ms", None)]);
        assert_eq!(all, 4);
        assert!(human(&changed, all, 0.05).contains("+50.0 %"));
        assert_eq!(changes(&before, &after, 0.0).0.len(), 4);
    }
}
