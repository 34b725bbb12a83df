//! The results as Markdown: what is committed.

use std::fmt::Write as _;

use super::folder::{Concluded, Results};
use super::{Table, shown};

pub fn markdown(results: &Results) -> String {
    let made = &results.made;
    let mut text = format!(
        "# The papers' experiments\n\n\
         Made by `{}`, version {}, commit `{}`, {} scale. Not edited by hand. All of it is virtual \
         time over modelled drives: the same command gives the same numbers. *Ratio* is ours for \
         each of the paper's.\n",
        results.command,
        made.version,
        made.commit,
        results.scale.name()
    );
    results.experiments.iter().for_each(|experiment| section(&mut text, experiment));
    text
}

fn section(text: &mut String, experiment: &Concluded) {
    let _ = writeln!(text, "\n## {}\n", experiment.title);
    let _ = writeln!(text, "{}. `steadyraid-eval run {}`", experiment.source, experiment.name);
    for (cell, error) in &experiment.missing {
        let _ = writeln!(text, "\n**Not there:** `{cell}`: {error}");
    }
    let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), shown);
    let checks = &experiment.conclusion.checks;
    if !checks.is_empty() {
        let _ = writeln!(text, "\n| what | unit | paper | ours | ratio | where they differ |");
        let _ = writeln!(text, "| --- | --- | ---: | ---: | ---: | --- |");
    }
    for check in checks {
        let (paper, ours) = (or_dash(check.paper), or_dash(check.ours));
        let ratio = or_dash(check.ratio());
        let _ = writeln!(
            text,
            "| {} | {} | {paper} | {ours} | {ratio} | {} |",
            check.what, check.unit, check.why
        );
    }
    experiment.conclusion.tables.iter().for_each(|table| numbers(text, table));
}

fn numbers(text: &mut String, table: &Table) {
    let _ = writeln!(text, "\n{}\n", table.title);
    let _ = writeln!(text, "| {} |", table.columns.join(" | "));
    let rest = " ---: |".repeat(table.columns.len().saturating_sub(1));
    let _ = writeln!(text, "| --- |{rest}");
    for (name, values) in &table.rows {
        let values = values.iter().map(|value| value.map_or_else(|| "-".to_owned(), shown));
        let _ = writeln!(text, "| {name} | {} |", values.collect::<Vec<_>>().join(" | "));
    }
}
