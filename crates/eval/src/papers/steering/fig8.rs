//! GC-Steering §IV.B, Figure 8: five drives and seven.

use super::runs::{DEFAULT, Run, TRACES, cells, mean, means};
use crate::experiment::{Check, Conclusion, Experiment, Found, Scale, Table};

pub const EXPERIMENT: Experiment = Experiment {
    name: "steering-fig8",
    title: "GC-Steering Figure 8: the number of drives",
    source: "GC-Steering §IV.B",
    cells: |scale| cells(scale, DRIVES.map(run)),
    conclude,
};

const DRIVES: [usize; 2] = [5, 7];

fn run(drives: usize) -> Run {
    Run { drives, ..DEFAULT }
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let of = |drives: usize, preset: &str| run(drives).value(found, preset, "load/mean_ms");
    let mut table = Table::new("Mean, milliseconds", &["trace", "5 drives", "7 drives"]);
    for (trace, preset) in TRACES {
        table.row(trace, DRIVES.map(|drives| of(drives, preset)));
    }
    let ratio = |(_, preset): (&str, &str)| of(7, preset) / of(5, preset);
    let checks = vec![
        Check::ours("7 drives, of 5: mean of all traces", "x", mean(TRACES.map(ratio)))
            .because("\"decreases with the number of SSDs\""),
        Check::ours("of the HPC traces", "x", mean([TRACES[0], TRACES[1]].map(ratio)))
            .because("\"much more significant\" there"),
    ];
    let picture = means(found, DRIVES.map(|drives| (format!("{drives} drives"), run(drives))));
    Conclusion { checks, tables: vec![table], pictures: vec![picture] }
}
