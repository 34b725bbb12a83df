//! GC-Steering §II.C, Figure 2: which pages reads and writes go to.

use serde_json::json;

use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Kind, Picture, Scale, Series, Table,
    traced,
};
use crate::trace::figures::Intensity;

use super::runs::{TRACES, mean};

pub const EXPERIMENT: Experiment = Experiment {
    name: "steering-fig2",
    title: "GC-Steering Figure 2: pages that are read, pages that are written",
    source: "GC-Steering §II.C",
    cells,
    conclude,
};

const CLASSES: [&str; 3] = ["read-intensive", "write-intensive", "mixed"];
/// Percent of fresh places to read that were written before: the presets', and what it depends on.
const SHARED: u32 = 10;
const OTHERS: [u32; 2] = [0, 50];
const SEED: u64 = 1;

/// Those of the Microsoft volumes; the first three of Table I are not.
fn volumes() -> &'static [(&'static str, &'static str)] {
    &TRACES[3..]
}

fn name(preset: &str, shared: u32) -> String {
    format!("steering-pages/{preset}/{shared}-shared")
}

fn cell(scale: Scale, preset: &'static str, shared: u32) -> Cell {
    let requests = scale.pick(100_000, 1_000_000);
    let given = json!({ "requests": requests, "shared_percent": shared, "seed": SEED });
    Cell::new(name(preset, shared), scale.pick(0.1, 1.0), given, move || {
        let mut workload = traced::preset(preset);
        workload.reads.shared = f64::from(shared) / 100.0;
        let mut intensity = Intensity::default();
        workload.requests(SEED).take(requests).for_each(|record| intensity.add(&record));
        let seen = intensity.figures();
        let mut figures = Figures::default();
        for (what, parts) in [("reads", seen.reads), ("writes", seen.writes), ("pages", seen.pages)]
        {
            for (class, part) in CLASSES.iter().zip(parts) {
                figures.set(format!("{what}/{class}"), part * 100.0);
            }
        }
        Ok(figures)
    })
}

fn cells(scale: Scale) -> Vec<Cell> {
    let shares = [SHARED].into_iter().chain(OTHERS);
    let each = shares.flat_map(|shared| volumes().iter().map(move |volume| (volume.1, shared)));
    each.map(|(preset, shared)| cell(scale, preset, shared)).collect()
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let of = |preset: &str, shared: u32, figure: &str| found.value(&name(preset, shared), figure);
    let over = |shared: u32, figure: &str| {
        mean(volumes().iter().map(|volume| of(volume.1, shared, figure)))
    };
    let (reads, writes) = ("reads/read-intensive", "writes/write-intensive");
    let why = "the volumes are not part of this: presets with the figures of Table I, which do not \
               say how much of what is read was written. That is a parameter of ours, 10 % of the \
               places first read: with 0 and 50 % of them see below";
    let mut checks = vec![
        Check::new("reads that go to read-intensive pages", "%", 89.8, over(SHARED, reads))
            .because(why),
        Check::new("writes that go to write-intensive pages", "%", 95.5, over(SHARED, writes))
            .because(why),
    ];
    for shared in OTHERS {
        for (what, paper, figure) in [("reads", 89.8, reads), ("writes", 95.5, writes)] {
            let what = format!("the same {what}, {shared} % of places first read were written");
            checks.push(Check::new(what, "%", paper, over(shared, figure)).because(
                "the sensitivity: both follow this parameter, and only near 10 % are the paper's",
            ));
        }
    }
    let columns = [
        "trace",
        "reads of read-intensive",
        "of mixed",
        "writes of write-intensive",
        "of mixed",
        "mixed pages",
    ];
    let mut table = Table::new("Percent", &columns);
    let shown = [reads, "reads/mixed", writes, "writes/mixed", "pages/mixed"];
    for (trace, preset) in volumes() {
        table.row(*trace, shown.map(|figure| of(preset, SHARED, figure)));
    }
    let pictures = [("reads", [0, 2]), ("writes", [1, 2])].map(|(what, classes)| Picture {
        name: what.to_owned(),
        title: format!("Pages that {what} go to"),
        kind: Kind::Bars,
        x: Axis::linear("trace"),
        y: Axis::linear("%"),
        groups: volumes().iter().map(|volume| volume.0.to_owned()).collect(),
        series: classes
            .map(|class| {
                let figure = format!("{what}/{}", CLASSES[class]);
                let bars = volumes().iter().map(|volume| of(volume.1, SHARED, &figure));
                Series::bars(CLASSES[class], bars)
            })
            .into(),
    });
    Conclusion { checks, tables: vec![table], pictures: pictures.into() }
}
