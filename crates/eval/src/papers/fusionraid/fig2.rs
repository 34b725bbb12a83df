//! FusionRAID §2.1, Figure 2: how often one workload of a mix moves far more than the others in a
//! millisecond, so that it could use what the others leave.

use serde_json::json;

use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Kind, Picture, Scale, Series, Table,
};
use crate::workload::majority;

pub const EXPERIMENT: Experiment = Experiment {
    name: "fusionraid-fig2",
    title: "FusionRAID Figure 2: instantaneous complementarity of mixes",
    source: "FusionRAID §2.1",
    cells,
    conclude,
};

const CELL: &str = "fusionraid-fig2/mixes";
const SEED: u64 = 1;

fn cells(scale: Scale) -> Vec<Cell> {
    let seconds = scale.pick(30, 900);
    let given = json!({ "seconds": seconds, "seed": SEED });
    let cell = Cell::new(CELL, scale.pick(0.3, 8.0), given, move || {
        let outcome = majority::measure(seconds, SEED);
        let mut figures = Figures::default();
        for (what, _, share) in &outcome.rows {
            figures.set(format!("all/{what}"), share.of_all);
            figures.set(format!("busy/{what}"), share.of_busy);
        }
        for (one, other, share) in &outcome.pairs {
            figures.set(format!("pair/{one} + {other}"), share.of_all);
        }
        figures.set("over_half", outcome.over_half as f64);
        for (what, curve) in outcome.distributions {
            figures.curves.insert(what.to_owned(), curve);
        }
        Ok(figures)
    });
    vec![cell]
}

/// What the text says, in percent, and why ours differs.
const PAPER: [(&str, f64, &str); 5] = [
    ("exchange + ycsb-a", 83.6, ""),
    (
        "virtual-desktop + tensorflow",
        73.9,
        "876 independent requests a second touch 58 % of all milliseconds, and bursts fewer",
    ),
    (
        "ycsb-load + tpc-c",
        54.1,
        "presets have one rule of bursts; TPC-C's are as long as the others'",
    ),
    ("mean of 28 pairs", 67.8, ""),
    ("mean of 70 quadruples", 91.4, ""),
];

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let percent = |figure: String| found.value(CELL, &figure) * 100.0;
    let check = |&(what, paper, why): &(&str, f64, &str)| {
        let ours = percent(format!("all/{what}"));
        Check::new(format!("{what}, slots above 0.75"), "%", paper, ours).because(why)
    };
    let mut checks: Vec<Check> = PAPER.iter().map(check).collect();
    let over_half = found.value(CELL, "over_half");
    checks.push(Check::new("pairs with more than half of the slots", "of 28", 25.0, over_half));
    let figures = found.0.get(CELL);
    let values = figures.into_iter().flat_map(|figures| &figures.values);
    let mut pairs: Vec<(&str, f64)> = values
        .filter_map(|(name, value)| Some((name.strip_prefix("pair/")?, value * 100.0)))
        .collect();
    pairs.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut table = Table::new("Slots above 0.75, of all", &["pair", "%"]);
    pairs.iter().for_each(|&(pair, percent)| table.row(pair, [percent]));
    let busy = PAPER.map(|(what, ..)| (what, percent(format!("busy/{what}"))));
    let mut without = Table::new("Of slots in which anything comes", &["mix", "%"]);
    busy.into_iter().for_each(|(what, percent)| without.row(what, [percent]));
    let curve = |&(what, ..): &(&str, f64, &str)| Series::new(what, found.curve(CELL, what));
    let ranked = (1..).map(f64::from).zip(pairs.iter().map(|&(_, percent)| percent));
    let picture = |name: &str, title: &str, x: &str, y: &str, series| Picture {
        name: name.to_owned(),
        title: title.to_owned(),
        kind: Kind::Lines,
        x: Axis::linear(x),
        y: Axis::linear(y),
        groups: vec![],
        series,
    };
    let pictures = vec![
        picture(
            "selected",
            "Three mixes: the heavier one's part of a millisecond's bytes",
            "majority ratio",
            "part of slots",
            PAPER[..3].iter().map(curve).collect(),
        ),
        picture(
            "all",
            "All pairs: slots with a majority ratio above 0.75",
            "pair, by rank",
            "% of slots",
            vec![Series::new("pairs", ranked.collect())],
        ),
    ];
    Conclusion { checks, tables: vec![table, without], pictures }
}
