//! HybRAID §4.4.2: Table 4, the mapping table for each byte stored, and Figure 16, what the array
//! costs beside flat ones of the same capacity. Figure 17 divides by these.

use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Kind, Picture, Scale, Series, Table,
};

pub const TABLE4: Experiment = Experiment {
    name: "hybraid-table4",
    title: "HybRAID Table 4: the mapping table",
    source: "HybRAID §4.4.2",
    cells: table_cells,
    conclude: table,
};

pub const FIG16: Experiment = Experiment {
    name: "hybraid-fig16",
    title: "HybRAID Figure 16: cost",
    source: "HybRAID §4.4.2, equation (1)",
    cells: cost_cells,
    conclude: costs,
};

/// Drives of the RAID5 tier with their parity, stripe unit in KiB, the paper's percent.
const SHAPES: [(u64, u64, f64); 4] = [(3, 4, 0.05), (5, 4, 0.02), (3, 8, 0.02), (5, 8, 0.01)];
/// Bytes of an entry of the scheme's table (docs/on-disk-format.md, page maps).
const ENTRY: u64 = 4;
const TABLE: &str = "hybraid-table4/arithmetic";

fn table_cells(_: Scale) -> Vec<Cell> {
    vec![Cell::new(TABLE, 0.0, serde_json::json!({ "entry_bytes": ENTRY }), || {
        let mut figures = Figures::default();
        for (drives, kib, _) in SHAPES {
            let stripe = (drives - 1) * (kib << 10);
            figures.set(format!("{drives}/{kib}"), ENTRY as f64 / stripe as f64 * 100.0);
        }
        Ok(figures)
    })]
}

fn table(_: Scale, found: &Found) -> Conclusion {
    let check = |(drives, kib, paper): (u64, u64, f64)| {
        let ours = found.value(TABLE, &format!("{drives}/{kib}"));
        Check::new(format!("{drives} drives, {kib} KB units"), "%", paper, ours)
    };
    let mut checks: Vec<Check> = SHAPES.map(check).into();
    checks.push(Check::ours("bytes of an entry of ours", "B", ENTRY as f64).because(
        "the paper prints two digits, cut off; ours is what the scheme's table on the drives has",
    ));
    Conclusion { checks, tables: vec![], pictures: vec![] }
}

/// Endurance to cost: twice the endurance costs 1.7 times as much (§4.4.2).
const ENDURANCE_TO_COST: f64 = 1.17;
/// Part of what is written that goes to the RAID5 tier.
const TO_RAID5: f64 = 0.7;
const DRIVES: [u32; 5] = [4, 5, 6, 7, 8];
const COST: &str = "hybraid-fig16/arithmetic";

/// What HybRAID costs, in drives like those of a flat RAID5 of `n`: (same drives, drives as
/// enduring as each tier needs).
pub fn cost(n: f64) -> (f64, f64) {
    let same = n + 1.0;
    let raid5 = (n - 1.0) * ((n - 1.0) * TO_RAID5 / (n - 2.0));
    let raid1 = 2.0 * ((1.0 - TO_RAID5) * (n - 1.0));
    (same, (raid5 + raid1) / ENDURANCE_TO_COST)
}

fn cost_cells(_: Scale) -> Vec<Cell> {
    vec![Cell::new(COST, 0.0, serde_json::json!({ "to_raid5": TO_RAID5 }), || {
        let mut figures = Figures::default();
        for drives in DRIVES {
            let n = f64::from(drives);
            let (same, fitted) = cost(n);
            // The extra drive, of all of HybRAID's, as the paper has it.
            figures.set(format!("over_raid5/same/{drives}"), (same - n) / same * 100.0);
            figures.set(format!("over_raid5/fitted/{drives}"), (fitted / n - 1.0) * 100.0);
            let raid10 = 2.0 * (n - 1.0);
            figures.set(format!("below_raid10/same/{drives}"), (1.0 - same / raid10) * 100.0);
            figures.set(format!("below_raid10/fitted/{drives}"), (1.0 - fitted / raid10) * 100.0);
        }
        Ok(figures)
    })]
}

fn costs(_: Scale, found: &Found) -> Conclusion {
    let of =
        |what: &str, kind: &str, drives: u32| found.value(COST, &format!("{what}/{kind}/{drives}"));
    let most = |what: &str, kind: &str| {
        DRIVES.map(|drives| of(what, kind, drives)).into_iter().fold(f64::MIN, f64::max)
    };
    let least = |what: &str, kind: &str| {
        DRIVES.map(|drives| of(what, kind, drives)).into_iter().fold(f64::MAX, f64::min)
    };
    let checks = vec![
        Check::new("more than RAID5, same drives, of 4", "%", 20.0, of("over_raid5", "same", 4)),
        Check::new("more than RAID5, same drives, of 8", "%", 11.1, of("over_raid5", "same", 8)),
        Check::new("more than RAID5, fitted drives, most", "%", 6.4, most("over_raid5", "fitted"))
            .because("equation (1) as printed, with 0.7 to RAID5 and 1.17, comes to this"),
        Check::new("less than RAID10, same drives, of 4", "%", 16.7, of("below_raid10", "same", 4)),
        Check::new("less than RAID10, same drives, of 8", "%", 35.7, of("below_raid10", "same", 8)),
        Check::new(
            "less than RAID10, fitted drives, least",
            "%",
            28.9,
            least("below_raid10", "fitted"),
        ),
    ];
    let kinds = [("same", "same drives"), ("fitted", "drives fitted to their tier")];
    let picture = |what: &str, title: &str| Picture {
        name: what.replace('_', "-"),
        title: title.to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("drives of the flat RAID5"),
        y: Axis::linear("%"),
        groups: DRIVES.map(|drives| drives.to_string()).into(),
        series: kinds
            .iter()
            .map(|(kind, label)| Series::bars(*label, DRIVES.map(|drives| of(what, kind, drives))))
            .collect(),
    };
    let mut table = Table::new("Percent", &["array", "4", "5", "6", "7", "8"]);
    for (kind, label) in kinds {
        for (what, against) in
            [("over_raid5", "more than RAID5"), ("below_raid10", "less than RAID10")]
        {
            table.row(format!("{label}, {against}"), DRIVES.map(|drives| of(what, kind, drives)));
        }
    }
    let pictures = vec![
        picture("over_raid5", "What HybRAID costs more than RAID5"),
        picture("below_raid10", "What HybRAID costs less than RAID10"),
    ];
    Conclusion { checks, tables: vec![table], pictures }
}
