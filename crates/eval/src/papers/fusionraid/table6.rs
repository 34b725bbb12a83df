//! FusionRAID §5.3, Table 6: the slowest requests with and without redirection round slow drives.

use super::mix::{AGED, TOLD, TRACES, UNTOLD, cell, cell_name, value};
use crate::experiment::{Cell, Check, Conclusion, Experiment, Found, Scale, Table};

pub const EXPERIMENT: Experiment = Experiment {
    name: "fusionraid-table6",
    title: "FusionRAID Table 6: the slowest requests with and without redirection",
    source: "FusionRAID §5.3",
    cells,
    conclude,
};

const SYSTEMS: [&str; 3] = ["fusion-nd", "fusion-paper", "fusion"];

/// Milliseconds, of each trace: the slowest 1 % without and with redirection, the slowest 0.1 %.
const PAPER: [[f64; 4]; 4] = [
    [1.90, 1.47, 6.34, 2.79],
    [3.04, 2.41, 15.37, 9.71],
    [2.31, 2.20, 52.16, 49.83],
    [6.96, 2.97, 45.49, 11.50],
];

/// A single write that meets the longest spike changes the mean of so many by a tenth.
const FEW: f64 = 100.0;

const READS: &str = "the slowest here are reads that wait 4 to 5 ms for an erase (DRIVES.md), \
                     which redirected writes don't shorten: see writes by themselves";

const COUNTED: &str = "as the array's detector counts: reads, too, from a learned t on; of writes \
                       alone such a drive has 4.85 a minute of 3.94 ms (DRIVES.md)";

fn cells(scale: Scale) -> Vec<Cell> {
    let all = |drives| SYSTEMS.into_iter().map(move |system| cell(scale, system, drives));
    AGED.into_iter().flat_map(all).collect()
}

fn conclude(scale: Scale, found: &Found) -> Conclusion {
    let of = |system: &str, trace: &str, figure: &str| value(found, system, UNTOLD, trace, figure);
    let mut checks = Vec::new();
    let columns = [
        "trace",
        "paper without",
        "paper with",
        "without, untold",
        "as the paper, untold",
        "ours, untold",
        "without, told",
        "as the paper, told",
        "ours, told",
    ];
    let mut tables = Vec::new();
    let parts = [("1 %", 0.01, "slowest1_ms"), ("0.1 %", 0.001, "slowest01_ms")];
    for (at, (part, share, figure)) in parts.into_iter().enumerate() {
        let mut table = Table::new(&format!("Mean of the slowest {part}, milliseconds"), &columns);
        for (trace, paper) in TRACES.into_iter().zip(PAPER) {
            let [without, with] = [paper[2 * at], paper[2 * at + 1]];
            let [nd, redirected, ours] = SYSTEMS.map(|system| of(system, trace, figure));
            let told = SYSTEMS.map(|system| value(found, system, TOLD, trace, figure));
            table.row(trace, [without, with, nd, redirected, ours].into_iter().chain(told));
            let what = format!("{trace}, slowest {part}: without over with redirection");
            checks.push(Check::new(what, "x", without / with, nd / redirected).because(READS));
            let what = format!("{trace}, slowest {part}: without redirection over ours");
            checks.push(Check::ours(what, "x", nd / ours));
            let [nd, redirected, _] = SYSTEMS.map(|own| of(own, trace, &format!("write_{figure}")));
            let what = format!("{trace}, slowest {part} of writes: without over with redirection");
            let slowest = (of(SYSTEMS[0], trace, "write_requests") * share).ceil();
            let why = match slowest < FEW {
                true => format!("means of {slowest} writes: too few to tell them apart"),
                false => format!("means of {slowest} writes"),
            };
            checks.push(Check::ours(what, "x", nd / redirected).because(why));
        }
        tables.push(table);
    }
    let counted = |system: &str, name: &str| {
        found.value(&cell_name(system, UNTOLD), &format!("scheme/{name}"))
    };
    let seconds = scale.pick(6.0, 70.0);
    let spikes = counted("fusion-nd", "spikes");
    let redirected = counted("fusion-paper", "redirected_writes");
    let minutes = 29.0 * seconds / 60.0;
    checks.extend([
        Check::new(
            "writes redirected",
            "%",
            0.73,
            redirected / counted("fusion-paper", "writes") * 100.0,
        )
        .because(format!(
            "about what chance gives: a drive is in a spike {:.2} % of the time, a write goes to \
             two to seven; the paper's 0.03 % of the time meets more writes than by chance",
            counted("fusion-paper", "spike_ms") / (29.0 * seconds * 1000.0) * 100.0
        )),
        Check::new("spikes of a drive without redirection", "a minute", 4.85, spikes / minutes)
            .because(COUNTED),
        Check::new("length of a spike", "ms", 3.79, counted("fusion-nd", "spike_ms") / spikes)
            .because(COUNTED),
    ]);
    Conclusion { checks, tables, pictures: vec![] }
}
