//! GC-Steering §IV.B, Figure 10: space reserved on every drive, or a drive of its own.

use super::runs::{DEFAULT, Run, TRACES, cells, mean, means};
use crate::experiment::{Check, Conclusion, Experiment, Found, Scale, Table};

pub const EXPERIMENT: Experiment = Experiment {
    name: "steering-fig10",
    title: "GC-Steering Figure 10: where writes are staged",
    source: "GC-Steering §IV.B",
    cells: |scale| cells(scale, WAYS.map(|(_, run)| run)),
    conclude,
};

/// Five SSDs together: with a drive for staging the array has four.
const WAYS: [(&str, Run); 2] =
    [("reserved", DEFAULT), ("dedicated", Run { drives: 4, dedicated: true, ..DEFAULT })];

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let of = |at: usize, preset: &str| WAYS[at].1.value(found, preset, "load/mean_ms");
    let mut table = Table::new("Mean, milliseconds", &["trace", "reserved", "dedicated"]);
    for (trace, preset) in TRACES {
        table.row(trace, [0, 1].map(|at| of(at, preset)));
    }
    let ratio = mean(TRACES.map(|(_, preset)| of(1, preset) / of(0, preset)));
    let checks = vec![
        Check::ours("dedicated over reserved, mean", "x", ratio)
            .because("\"longer than\": the drive is idle while nobody collects"),
    ];
    let picture = means(found, WAYS.map(|(label, run)| (label.to_owned(), run)));
    Conclusion { checks, tables: vec![table], pictures: vec![picture] }
}
