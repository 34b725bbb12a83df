//! Skourtis et al., Figure 2: reads and writes separated, for large and for small requests.

use super::reads::{ALTERNATE, SINGLE, SIZES, cell, cell_name};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "separation-fig2",
    title: "Read/write separation, Figure 2: reads beside writes",
    source: "Skourtis et al., Figure 2",
    cells,
    conclude,
};

fn cells(scale: Scale) -> Vec<Cell> {
    let each = SIZES.iter().flat_map(|&size| {
        [(ALTERNATE, size, true), (ALTERNATE, size, false), (SINGLE, size, false)]
    });
    each.map(|(system, size, writes)| cell(scale, system, size, writes)).collect()
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let columns =
        ["requests", "reads/s", "variation %", "p50 ms", "p99 ms", "worst ms", "writes/s"];
    let mut table = Table::new("Two drives, reads separated from writes", &columns);
    let mut checks = Vec::new();
    let mut pictures = Vec::new();
    for (size, _) in SIZES {
        let of =
            |writes: bool, figure: &str| found.value(&cell_name(ALTERNATE, size, writes), figure);
        for writes in [true, false] {
            let row = [
                "reads/per_second",
                "reads/variation_percent",
                "reads/p50_ms",
                "reads/p99_ms",
                "reads/max_ms",
                "writes/per_second",
            ];
            let name =
                if writes { format!("{size}, beside writes") } else { format!("{size}, alone") };
            table.row(name, row.map(|figure| of(writes, figure)));
        }
        let one = found.value(&cell_name(SINGLE, size, false), "reads/per_second");
        let what = format!("{size}: reads beside writes, of a drive that only reads");
        checks.push(
            Check::new(what, "x", 1.0, of(true, "reads/per_second") / one)
                .because("\"reads are not affected by writes\": one drive reads at any time"),
        );
        let what = format!("{size}: variation of reads from second to second");
        let varies = of(true, "reads/variation_percent");
        checks.push(Check::ours(what, "%", varies).because("\"consistent\""));
        let curve = |kind: &str| {
            let points = found.curve(&cell_name(ALTERNATE, size, true), &format!("{kind}/seconds"));
            Series::new(kind, points)
        };
        pictures.push(Picture {
            name: size.to_owned(),
            title: format!("{size} requests"),
            kind: Kind::Lines,
            x: Axis::linear("seconds"),
            y: Axis::linear("requests a second"),
            groups: vec![],
            series: vec![curve("reads"), curve("writes")],
        });
    }
    Conclusion { checks, tables: vec![table], pictures }
}
