//! Skourtis et al., Figure 3: the same load on a single drive, which gives reads half of its time.

use super::reads::{ALTERNATE, MIRROR, SINGLE, SIZES, cell, cell_name};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "separation-fig3",
    title: "Read/write separation, Figure 3: against a single drive",
    source: "Skourtis et al., Figure 3",
    cells,
    conclude,
};

const SYSTEMS: [&str; 3] = [ALTERNATE, SINGLE, MIRROR];

fn cells(scale: Scale) -> Vec<Cell> {
    let each = SYSTEMS.iter().flat_map(|&system| SIZES.map(|size| (system, size)));
    each.map(|(system, size)| cell(scale, system, size, true)).collect()
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let of = |system: &str, size: &str, figure: &str| {
        found.value(&cell_name(system, size, true), &format!("reads/{figure}"))
    };
    let columns = ["system, requests", "reads/s", "variation %", "p50 ms", "p99 ms", "worst ms"];
    let mut table = Table::new("Reads beside writes", &columns);
    for (size, _) in SIZES {
        for system in SYSTEMS {
            let row = ["per_second", "variation_percent", "p50_ms", "p99_ms", "max_ms"];
            table.row(format!("{system}, {size}"), row.map(|figure| of(system, size, figure)));
        }
    }
    let large = SIZES[0].0;
    let faster = |size: &str| of(ALTERNATE, size, "per_second") / of(SINGLE, size, "per_second");
    let sharper = |size: &str| of(SINGLE, size, "max_ms") / of(ALTERNATE, size, "max_ms");
    let checks = vec![
        Check::new(
            "large: reads separated",
            "a second",
            1100.0,
            of(ALTERNATE, large, "per_second"),
        )
        .because("other drives than the paper's: the next line does not depend on them so much"),
        Check::new(
            "large: reads of a single drive",
            "a second",
            525.0,
            of(SINGLE, large, "per_second"),
        )
        .because(format!(
            "while it collects the modelled aged drive answers nothing, for up to {:.1} s \
             (DRIVES.md: longer than a real one)",
            of(SINGLE, large, "max_ms") / 1000.0
        )),
        Check::new("large: separated over single", "x", 1100.0 / 525.0, faster(large)).because(
            "of both lines above: our drives read twice as fast, and one alone stops longer",
        ),
        Check::ours("large: worst of a single drive over separated", "x", sharper(large))
            .because("\"latencies are many times higher as well as inconsistent\""),
        Check::ours("small: separated over single", "x", faster(SIZES[1].0)),
        Check::ours("small: worst of a single drive over separated", "x", sharper(SIZES[1].0)),
        Check::ours(
            "large: separated over a mirror of the same drives",
            "x",
            of(ALTERNATE, large, "per_second") / of(MIRROR, large, "per_second"),
        ),
    ];
    let series = SYSTEMS.map(|system| {
        Series::new(system, found.curve(&cell_name(system, large, true), "reads/seconds"))
    });
    let picture = Picture {
        name: "reads".to_owned(),
        title: "Large reads beside large writes".to_owned(),
        kind: Kind::Lines,
        x: Axis::linear("seconds"),
        y: Axis::linear("reads a second"),
        groups: vec![],
        series: series.into(),
    };
    Conclusion { checks, tables: vec![table], pictures: vec![picture] }
}
