//! The report: one page that needs nothing but itself.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::folder::{Concluded, Results};
use super::{Check, Table, shown};

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --bad: #c33; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child, td.why { text-align: left; }
thead th { background: var(--soft); }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg { background: white; max-width: 100%; height: auto; }
nav ol { columns: 2; }
.missing { color: var(--bad); }
td.why { max-width: 28rem; font-size: .9em; }
.scroll { overflow-x: auto; }
";

pub fn page(results: &Results) -> String {
    let made = &results.made;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "SteadyRAID: the papers' experiments" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "The papers' experiments, their numbers beside ours" }
                p {
                    "Version " (made.version) ", commit " code { (made.commit) } ", "
                    (results.scale.name()) " scale. Made by " code { (results.command) } "."
                }
                p {
                    "Everything ran over modelled drives in virtual time: the same command gives \
                     the same numbers on every machine. \"Ratio\" is ours for each of the paper's."
                }
                nav {
                    ol {
                        @for experiment in &results.experiments {
                            li { a href={ "#" (experiment.name) } { (experiment.title) } }
                        }
                    }
                }
                @for experiment in &results.experiments { (section(experiment)) }
            }
        }
    }
    .into_string()
}

fn section(experiment: &Concluded) -> Markup {
    let conclusion = &experiment.conclusion;
    html! {
        section id=(experiment.name) {
            h2 { (experiment.title) }
            p { (experiment.source) ". " code { "steadyraid-eval run " (experiment.name) } }
            @if !experiment.drives.is_empty() { p { (experiment.drives) } }
            @for (cell, error) in &experiment.missing {
                p.missing { "Not there: " code { (cell) } ": " (error) }
            }
            @if !conclusion.checks.is_empty() { (checks(&conclusion.checks)) }
            @for picture in &conclusion.pictures {
                figure role="img" aria-label=(picture.title) { (PreEscaped(picture.svg())) }
            }
            @for table in &conclusion.tables { (numbers(table)) }
        }
    }
}

fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

fn checks(checks: &[Check]) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th { "what" } th { "unit" } th { "paper" } th { "ours" } th { "ratio" }
                        th { "where they differ" }
                    }
                }
                @for check in checks {
                    tr {
                        td { (check.what) }
                        td { (check.unit) }
                        td { (or_dash(check.paper)) }
                        td { (or_dash(check.ours)) }
                        td { (or_dash(check.ratio())) }
                        td.why { (check.why) }
                    }
                }
            }
        }
    }
}

fn numbers(table: &Table) -> Markup {
    html! {
        div.scroll {
            table {
                caption { (table.title) }
                thead { tr { @for column in &table.columns { th { (column) } } } }
                @for (name, values) in &table.rows {
                    tr {
                        td { (name) }
                        @for value in values { td { (or_dash(*value)) } }
                    }
                }
            }
        }
        @if !table.notes.is_empty() {
            ul { @for note in &table.notes { li { (note) } } }
        }
    }
}
