//! FusionRAID §5.4, Figure 14: clean and aged drives, the four workloads of §5.3 together.

use model::ssd::Fill;

use super::mix::{LOG_RAID, RAID50, TRACES, cell, value};
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
const FILLS: [(&str, Fill); 2] = [("clean", Fill::Fresh), ("aged", Fill::Aged)];

fn cells(scale: Scale) -> Vec<Cell> {
    let each = SYSTEMS.iter().flat_map(|&(_, system)| FILLS.map(|(_, fill)| (system, fill)));
    each.map(|(system, fill)| cell(scale, system, fill)).collect()
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    // The paper shows the average of the four workloads.
    let mean = |system: &str, fill: Fill, figure: &str| {
        TRACES.map(|trace| value(found, system, fill, trace, figure)).iter().sum::<f64>()
            / TRACES.len() as f64
    };
    let mut table = Table::new(
        "Mean of the four workloads, milliseconds",
        &["system", "clean p50", "aged p50", "clean p99", "aged p99"],
    );
    for (label, system) in SYSTEMS {
        let of = |figure: &str| FILLS.map(|(_, fill)| mean(system, fill, figure));
        table.row(label, [of("p50_ms"), of("p99_ms")].concat());
    }
    let picture = |name: &str, title: &str, figure: &str| Picture {
        name: name.to_owned(),
        title: title.to_owned(),
        kind: Kind::Bars,
        x: Axis::linear(""),
        y: Axis::logarithmic("milliseconds"),
        groups: SYSTEMS.map(|(label, _)| label.to_owned()).into(),
        series: FILLS
            .iter()
            .map(|&(label, fill)| {
                Series::bars(label, SYSTEMS.map(|(_, system)| mean(system, fill, figure)))
            })
            .collect(),
    };
    let aged = |system: &str, figure: &str| {
        mean(system, Fill::Aged, figure) / mean(system, Fill::Fresh, figure)
    };
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
