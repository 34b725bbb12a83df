//! FusionRAID §5.4, Figure 14: clean and aged drives, the four workloads of §5.3 together.

use super::mix::{CLEAN, Drives, LOG_RAID, RAID50, TOLD, TRACES, UNTOLD, cell, value};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "fusionraid-fig14",
    title: "FusionRAID Figure 14: clean and aged drives",
    source: "FusionRAID §5.4",
    cells,
    conclude,
};

const SYSTEMS: [(&str, &str); 4] =
    [("RAID50", RAID50), ("LogRAID", LOG_RAID), ("FusionRAID", "fusion-paper"), ("ours", "fusion")];
/// The paper's are the first two.
const DRIVES: [(&str, Drives); 3] =
    [("clean", CLEAN), ("aged, untold", UNTOLD), ("aged, told", TOLD)];

fn cells(scale: Scale) -> Vec<Cell> {
    let each = SYSTEMS.iter().flat_map(|&(_, system)| DRIVES.map(|(_, own)| (system, own)));
    each.map(|(system, drives)| cell(scale, system, drives)).collect()
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    // The paper shows the average of the four workloads.
    let mean = |system: &str, drives: Drives, figure: &str| {
        TRACES.map(|trace| value(found, system, drives, trace, figure)).iter().sum::<f64>()
            / TRACES.len() as f64
    };
    let mut table = Table::new(
        "Mean of the four workloads, milliseconds",
        &[
            "system",
            "clean p50",
            "aged, untold p50",
            "aged, told p50",
            "clean p99",
            "aged, untold p99",
            "aged, told p99",
        ],
    );
    for (label, system) in SYSTEMS {
        let of = |figure: &str| DRIVES.map(|(_, own)| mean(system, own, figure));
        table.row(label, [of("p50_ms"), of("p99_ms")].concat());
    }
    let picture = |name: &str, title: &str, figure: &str| Picture {
        name: name.to_owned(),
        title: title.to_owned(),
        kind: Kind::Bars,
        x: Axis::linear(""),
        y: Axis::logarithmic("milliseconds"),
        groups: SYSTEMS.map(|(label, _)| label.to_owned()).into(),
        series: DRIVES
            .iter()
            .map(|&(label, own)| {
                Series::bars(label, SYSTEMS.map(|(_, system)| mean(system, own, figure)))
            })
            .collect(),
    };
    let aged =
        |system: &str, figure: &str| mean(system, UNTOLD, figure) / mean(system, CLEAN, figure);
    let mut checks = vec![
        Check::ours("RAID50: aged over clean, median", "x", aged(RAID50, "p50_ms"))
            .because("the paper shows bars: higher on aged drives"),
        Check::ours("LogRAID: aged over clean, median", "x", aged(LOG_RAID, "p50_ms"))
            .because("higher on aged drives"),
        Check::new("FusionRAID: aged over clean, median", "x", 1.0, aged("fusion-paper", "p50_ms"))
            .because("\"works as well there\""),
        Check::ours("FusionRAID: aged over clean, p99", "x", aged("fusion-paper", "p99_ms"))
            .because("better on clean drives"),
        Check::new("RAID50: aged over clean, p99", "x", 1.0, aged(RAID50, "p99_ms"))
            .because("\"no differences\""),
        Check::new("LogRAID: aged over clean, p99", "x", 1.0, aged(LOG_RAID, "p99_ms")).because(
            "its one stream keeps up with the load on clean drives only; on aged ones writes queue",
        ),
    ];
    checks.push(Check::ours("ours: aged over clean, p99", "x", aged("fusion", "p99_ms")));
    let pictures = vec![
        picture("median", "Median, mean of the workloads", "p50_ms"),
        picture("p99", "99th percentile, mean of the workloads", "p99_ms"),
    ];
    Conclusion { checks, tables: vec![table], pictures }
}
