//! GC-Steering §IV.B, Figure 9: stripe units of 4, 64 and 128 KB.

use super::runs::{DEFAULT, Run, TRACES, cells, means};
use crate::experiment::{Check, Conclusion, Experiment, Found, Scale, Table};

pub const EXPERIMENT: Experiment = Experiment {
    name: "steering-fig9",
    title: "GC-Steering Figure 9: the stripe unit",
    source: "GC-Steering §IV.B",
    cells: |scale| cells(scale, UNITS.map(run)),
    conclude,
};

const UNITS: [u64; 3] = [4, 64, 128];

fn run(chunk_kib: u64) -> Run {
    Run { chunk_kib, ..DEFAULT }
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let of = |unit: u64, preset: &str| run(unit).value(found, preset, "load/mean_ms");
    let mut table = Table::new("Mean, milliseconds", &["trace", "4 KB", "64 KB", "128 KB"]);
    let mut best = [0usize; UNITS.len()];
    for (trace, preset) in TRACES {
        let row = UNITS.map(|unit| of(unit, preset));
        table.row(trace, row);
        let least = (0..UNITS.len()).min_by(|&one, &other| row[one].total_cmp(&row[other]));
        best[least.unwrap_or(0)] += 1;
    }
    let checks = UNITS.iter().zip(best).map(|(unit, count)| {
        let what = format!("traces for which {unit} KB is best");
        Check::ours(what, "of 8", count as f64).because("\"no clear and consistent patterns\"")
    });
    let checks = checks.collect();
    let picture = means(found, UNITS.map(|unit| (format!("{unit} KB"), run(unit))));
    Conclusion { checks, tables: vec![table], pictures: vec![picture] }
}
