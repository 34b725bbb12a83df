//! GC-Steering §IV.B, Figure 9: stripe units of 4, 64 and 128 KB.

use super::runs::{DEFAULT, Run, TRACES};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "steering-fig9",
    title: "GC-Steering Figure 9: the stripe unit",
    source: "GC-Steering §IV.B",
    cells,
    conclude,
};

const UNITS: [u64; 3] = [4, 64, 128];

fn run(chunk_kib: u64) -> Run {
    Run { chunk_kib, ..DEFAULT }
}

fn cells(scale: Scale) -> Vec<Cell> {
    let each = UNITS.iter().flat_map(|&unit| TRACES.map(|(_, preset)| (unit, preset)));
    each.map(|(unit, preset)| run(unit).cell(scale, preset)).collect()
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
    let picture = Picture {
        name: "mean".to_owned(),
        title: "Mean response time".to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("trace"),
        y: Axis::logarithmic("milliseconds"),
        groups: TRACES.map(|(trace, _)| trace.to_owned()).into(),
        series: UNITS
            .iter()
            .map(|&unit| {
                Series::bars(format!("{unit} KB"), TRACES.map(|(_, preset)| of(unit, preset)))
            })
            .collect(),
    };
    Conclusion { checks, tables: vec![table], pictures: vec![picture] }
}
