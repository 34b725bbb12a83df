//! GC-Steering §IV.B, Figure 10: space reserved on every drive, or a drive of its own.

use super::runs::{DEFAULT, Run, TRACES, mean};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "steering-fig10",
    title: "GC-Steering Figure 10: where writes are staged",
    source: "GC-Steering §IV.B",
    cells,
    conclude,
};

/// Five SSDs together: with a drive for staging the array has four.
const WAYS: [(&str, Run); 2] =
    [("reserved", DEFAULT), ("dedicated", Run { drives: 4, dedicated: true, ..DEFAULT })];

fn cells(scale: Scale) -> Vec<Cell> {
    let each = WAYS.iter().flat_map(|&(_, run)| TRACES.map(|(_, preset)| (run, preset)));
    each.map(|(run, preset)| run.cell(scale, preset)).collect()
}

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
    let picture = Picture {
        name: "mean".to_owned(),
        title: "Mean response time".to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("trace"),
        y: Axis::logarithmic("milliseconds"),
        groups: TRACES.map(|(trace, _)| trace.to_owned()).into(),
        series: [0, 1]
            .map(|at| Series::bars(WAYS[at].0, TRACES.map(|(_, preset)| of(at, preset))))
            .into(),
    };
    Conclusion { checks, tables: vec![table], pictures: vec![picture] }
}
