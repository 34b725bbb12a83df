//! HybRAID §4.3, Figure 13: how much of what is written falls to each drive, by arithmetic: writes
//! spread evenly, parity and migrations left out as in the paper.

use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Kind, Picture, Scale, Series, Table,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "hybraid-fig13",
    title: "HybRAID Figure 13: writes of each drive, in theory",
    source: "HybRAID §4.3",
    cells,
    conclude,
};

/// Drives of the flat arrays; HybRAID has one more.
const DRIVES: f64 = 4.0;
/// Parts of the bytes that are small or partial, percent.
const SMALL: [u32; 9] = [0, 5, 10, 15, 20, 25, 30, 35, 40];
const CELL: &str = "hybraid-fig13/theory";

fn cells(_: Scale) -> Vec<Cell> {
    vec![Cell::new(CELL, 0.0, serde_json::json!({ "drives": DRIVES }), || {
        let mut figures = Figures::default();
        let mut curve = |name: &str, of: &dyn Fn(f64) -> f64| {
            let points = SMALL.map(|percent| (f64::from(percent), of(f64::from(percent) / 100.0)));
            figures.curves.insert(name.to_owned(), points.into());
        };
        curve("max/RAID5", &|_| 1.0 / (DRIVES - 1.0));
        curve("max/RAID10", &|_| 2.0 / DRIVES);
        curve("max/HybRAID", &|small| small.max((1.0 - small) / (DRIVES - 2.0)));
        // All drives together: parity of each whole stripe, or a copy of each byte.
        curve("total/RAID5", &|_| DRIVES / (DRIVES - 1.0));
        curve("total/RAID10", &|_| 2.0);
        let parity = |small: f64| (1.0 - small) * (DRIVES - 1.0) / (DRIVES - 2.0);
        curve("total/HybRAID", &|small| 2.0 * small + parity(small));
        Ok(figures)
    })]
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let arrays = ["RAID5", "HybRAID", "RAID10"];
    let mut table = Table::new(
        "Part of what is written",
        &[
            "small",
            "most, RAID5",
            "most, HybRAID",
            "most, RAID10",
            "all, RAID5",
            "all, HybRAID",
            "all, RAID10",
        ],
    );
    let at = |which: &str, array: &str, index: usize| {
        found.curve(CELL, &format!("{which}/{array}")).get(index).map_or(f64::NAN, |point| point.1)
    };
    for (index, percent) in SMALL.iter().enumerate() {
        let row = ["max", "total"].map(|which| arrays.map(|array| at(which, array, index)));
        table.row(format!("{percent} %"), row.concat());
    }
    let pictures = [("max", "The drive that is written most"), ("total", "All drives")];
    let pictures = pictures.map(|(which, title)| Picture {
        name: which.to_owned(),
        title: title.to_owned(),
        kind: Kind::Lines,
        x: Axis::linear("% small and partial"),
        y: Axis::linear("part of what is written"),
        groups: vec![],
        series: arrays
            .map(|array| Series::new(array, found.curve(CELL, &format!("{which}/{array}"))))
            .into(),
    });
    let close = [5, 6, 7].map(|index| at("max", "HybRAID", index) / at("max", "RAID5", index));
    let furthest = close.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max);
    let between = (0..SMALL.len()).all(|index| {
        let own = at("total", "HybRAID", index);
        (at("total", "RAID5", index)..=at("total", "RAID10", index)).contains(&own)
    });
    let checks = vec![
        Check::ours("most: HybRAID against RAID5 from 25 to 35 % small, furthest", "x", furthest)
            .because("\"almost equal\""),
        Check::new(
            "all: HybRAID between RAID5 and RAID10",
            "(1 yes)",
            1.0,
            f64::from(u8::from(between)),
        ),
    ];
    Conclusion { checks, tables: vec![table], pictures: pictures.into() }
}
