//! The results as Markdown, short enough to read: what is committed. Checks of every experiment;
//! tables only where there is no check, as in experiments of ours. The rest is in the report.

use std::fmt::Write as _;

use super::folder::{Concluded, Results};
use super::{Check, Table, shown};

pub fn markdown(results: &Results) -> String {
    let made = &results.made;
    let mut text = format!(
        "# What the papers show, and what we see\n\n\
         Made by `{} --summary FILE`, version {}, commit `{}`, {} scale. Not edited by hand. All \
         of it is virtual time over modelled drives: the same command gives the same numbers. \
         *Ratio* is ours for each of the paper's. Tables and pictures are in `report.html`, which \
         the same command writes ([how](experiments.md)).\n",
        results.command,
        made.version,
        made.commit,
        results.scale.name()
    );
    results.experiments.iter().for_each(|experiment| section(&mut text, experiment));
    text
}

/// Names of the experiments that such a text has a section of.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| Some(line.strip_suffix('`')?.rsplit_once(NAMED)?.1))
}

const NAMED: &str = " `steadyraid-eval run ";

fn section(text: &mut String, experiment: &Concluded) {
    let _ = writeln!(text, "\n## {}\n", experiment.title);
    let _ = writeln!(text, "{}.{NAMED}{}`", experiment.source, experiment.name);
    if !experiment.drives.is_empty() {
        let _ = writeln!(text, "\n{}", experiment.drives);
    }
    if let [(cell, error), ..] = experiment.missing.as_slice() {
        let (count, error) = (experiment.missing.len(), in_a_cell(error));
        let _ = writeln!(text, "\n**Runs that are not there:** {count}; `{cell}`: {error}");
    }
    match experiment.conclusion.checks.as_slice() {
        [] => experiment.conclusion.tables.iter().for_each(|table| numbers(text, table)),
        checks => compared(text, checks),
    }
}

fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

/// Nothing that ends a cell of a table, or its line.
fn in_a_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn compared(text: &mut String, checks: &[Check]) {
    let _ = writeln!(text, "\n| what | unit | paper | ours | ratio | why |");
    let _ = writeln!(text, "| --- | --- | ---: | ---: | ---: | --- |");
    for check in checks {
        let (paper, ours, ratio) =
            (or_dash(check.paper), or_dash(check.ours), or_dash(check.ratio()));
        let (what, unit) = (in_a_cell(&check.what), in_a_cell(&check.unit));
        let why = in_a_cell(&check.why);
        let _ = writeln!(text, "| {what} | {unit} | {paper} | {ours} | {ratio} | {why} |");
    }
}

fn numbers(text: &mut String, table: &Table) {
    let _ = writeln!(text, "\n{}\n", table.title);
    let _ = writeln!(text, "| {} |", table.columns.join(" | "));
    let rest = " ---: |".repeat(table.columns.len().saturating_sub(1));
    let _ = writeln!(text, "| --- |{rest}");
    for (name, values) in &table.rows {
        let values: Vec<String> = values.iter().copied().map(or_dash).collect();
        let _ = writeln!(text, "| {} | {} |", in_a_cell(name), values.join(" | "));
    }
    if !table.notes.is_empty() {
        let _ = writeln!(text);
        for note in &table.notes {
            let _ = writeln!(text, "* {note}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder::Made;
    use super::super::{Conclusion, Scale};
    use super::*;

    fn concluded(name: &str, conclusion: Conclusion) -> Concluded {
        let (title, source) = (format!("Of {name}"), "§1".to_owned());
        let missing = vec![("a/b".to_owned(), "it\npanicked".to_owned())];
        let drives = "Drives are settled.".to_owned();
        Concluded { name: name.to_owned(), title, source, drives, missing, conclusion }
    }

    #[test]
    fn checks_are_told_and_tables_where_there_are_none() {
        let mut table = Table::new("t", &["system", "ms"]);
        table.row("a", [1.0]);
        table.row("b", [f64::NAN]);
        table.notes.push("c: it can't".to_owned());
        let tables = vec![table];
        let checks = vec![Check::new("a | b", "ms", 2.0, 3.0).because("so")];
        let with = Conclusion { checks, tables: tables.clone(), ..Conclusion::default() };
        let without = Conclusion { tables, ..Conclusion::default() };
        let results = Results {
            made: Made { version: "1".to_owned(), commit: "abc".to_owned() },
            scale: Scale::Quick,
            command: "steadyraid-eval run --all --quick".to_owned(),
            experiments: vec![concluded("with", with), concluded("without", without)],
        };
        let text = markdown(&results);
        assert_eq!(names(&text).collect::<Vec<_>>(), ["with", "without"]);
        assert!(text.contains("commit `abc`, quick scale"), "{text}");
        assert!(text.contains("| a \\| b | ms | 2.000 | 3.000 | 1.500 | so |\n"), "{text}");
        assert_eq!(text.matches("| a | 1.000 |\n| b | - |\n\n* c: it can't\n").count(), 1);
        assert_eq!(text.matches("\n\nDrives are settled.\n\n").count(), 2);
        assert!(text.contains("not there:** 1; `a/b`: it panicked\n"), "{text}");
    }
}
