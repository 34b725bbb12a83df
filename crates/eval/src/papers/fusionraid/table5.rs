//! FusionRAID §5.2, real applications: RocksDB under YCSB. Table 5, the slowest reads and updates;
//! Figure 11 (a), how long updates take. The store is a model of ours (`workload::lsm`), ext4 is
//! left out.

use std::cell::{Cell as Held, RefCell};
use std::rc::Rc;

use io::ModelCounters;
use model::ssd::Fill;
use serde_json::json;

use super::{bed, mix};
use crate::array::System;
use crate::array::kv::{CLIENTS, Kv, database_items, serve};
use crate::array::tally::Tally;
use crate::experiment::bed::{distribution, drives, latencies, parameters, scheme, span};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Kind, Picture, Scale, Series, Table,
};
use crate::workload::lsm::Shape;
use crate::workload::lsm::ycsb::{Draws, MIXES, Mix};

pub const TABLE5: Experiment = Experiment {
    name: "fusionraid-table5",
    title: "FusionRAID Table 5: the slowest operations of RocksDB under YCSB",
    source: "FusionRAID §5.2",
    cells,
    conclude: slowest,
};

pub const FIG11A: Experiment = Experiment {
    name: "fusionraid-fig11a",
    title: "FusionRAID Figure 11 (a): updates of RocksDB under YCSB",
    source: "FusionRAID §5.2",
    cells,
    conclude: updates,
};

/// The paper's name, and ours.
const SYSTEMS: [(&str, &str); 3] =
    [("RAID50", mix::RAID50), ("FusionRAID", "fusion-paper"), ("ours", "fusion")];

/// Milliseconds of RAID50, then of FusionRAID: reads' slowest 10 % and 1 %, then updates'.
const PAPER: [[[f64; 4]; 2]; 3] = [
    [[f64::NAN, f64::NAN, 32.55, 232.17], [f64::NAN, f64::NAN, 4.22, 29.25]],
    [[0.92, 2.4, 9.2, 63.13], [0.753, 1.924, 2.35, 11.80]],
    [[0.66, 1.81, 5.17, 34.34], [0.47, 1.55, 1.27, 5.86]],
];
const COLUMNS: [(&str, &str); 4] = [
    ("reads, slowest 10 %", "read_slowest10_ms"),
    ("reads, slowest 1 %", "read_slowest1_ms"),
    ("updates, slowest 10 %", "write_slowest10_ms"),
    ("updates, slowest 1 %", "write_slowest1_ms"),
];

/// Why they gain less than in the paper.
const READS: &str = "clients wait for answers: reads on FusionRAID are beside several times as \
                     many updates (operations/s below)";

const UPDATES: &str = "clients wait for answers: FusionRAID has several times as many updates, so \
                       more have to wait for the store to merge (groups slowed, below)";

/// In a mix of few updates a memtable lasts: who writes tables at all while it is measured differs.
fn why(found: &Found, mix: Mix, at: usize) -> String {
    let merged = |system| of(found, system, mix, "store/write_amplification");
    match (mix.put_percent >= 50, at < 2) {
        (true, true) => READS.to_owned(),
        (true, false) => UPDATES.to_owned(),
        (false, _) => format!(
            "few updates in a short run: for each byte put RAID50 wrote {:.1} of tables while it \
             was measured, FusionRAID {:.1}, which reads and updates were beside",
            merged(SYSTEMS[0].1),
            merged(SYSTEMS[1].1)
        ),
    }
}

fn name(system: &str, mix: Mix) -> String {
    format!("fusionraid-ycsb/{system}/{}", mix.name)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let each = SYSTEMS.iter().flat_map(|&(_, system)| MIXES.map(|mix| (system, mix)));
    each.map(|(system, mix)| cell(scale, system, mix)).collect()
}

fn cell(scale: Scale, label: &'static str, mix: Mix) -> Cell {
    let (bed, system): (_, System) = (bed(scale, Fill::Aged), mix::system(label));
    let span = span(scale.pick(0, 2), scale.pick(2, 6));
    let own = json!({ "workload": mix.name, "clients": CLIENTS });
    let given = parameters(&bed, system, span, own);
    Cell::seeded(name(label, mix), scale.pick(8.0, 7.0), given, move |seed| {
        let stand = bed.stand(system)?;
        let world = stand.of(system)?.wake(bed.seed);
        world.env.block_on(async {
            let opened = stand.open(system, &world).await;
            let whole = database_items(opened.array.size(), &Shape::ROCKSDB) as u32;
            // In the middle of loading.
            let items = if mix.inserts { whole / 2 } else { whole };
            // The paper's runs are hours: what is put faster than it is merged has long filled L0.
            let full = Shape::ROCKSDB.slow_tables - 1;
            let waiting = if mix.put_percent >= 50 { full } else { 0 };
            let kv = Kv::open(&world.env, &opened.array, Shape::ROCKSDB, (items, waiting))?;
            let tally = Rc::new(RefCell::new(Tally::default()));
            let before = Held::new((ModelCounters::default(), kv.seen()));
            let draws = Draws::new(mix, items, seed.of(bed.seed));
            let begin = || before.set((world.counters(), kv.seen()));
            serve(&world, &kv, draws, (span, &tally), begin).await;
            if let Some(trouble) = kv.trouble() {
                return Err(trouble);
            }
            let (tally, (counters, was), seen) = (tally.take(), before.get(), kv.seen());
            let mut figures = Figures::default();
            latencies(&mut figures, "ycsb", &tally);
            figures.curves.insert("updates".to_owned(), distribution(&tally.writes));
            let seconds = span.measured.0 as f64 / 1e9;
            figures.set("operations_per_second", tally.all().len() as f64 / seconds);
            let user = seen.put_bytes - was.put_bytes;
            let tables = (seen.table_bytes - was.table_bytes) as f64;
            figures.set("store/write_amplification", tables / user.max(1) as f64);
            figures.set("store/slowed_groups", (seen.slowed - was.slowed) as f64);
            figures.set("store/stopped_groups", (seen.stopped - was.stopped) as f64);
            let (gets, blocks) = (seen.gets - was.gets, seen.block_reads - was.block_reads);
            figures.set("store/blocks_a_get", blocks as f64 / gets.max(1) as f64);
            drives(&mut figures, &world.counters(), &counters, user);
            scheme(&mut figures, &opened);
            Ok(figures)
        })
    })
}

fn of(found: &Found, system: &str, mix: Mix, figure: &str) -> f64 {
    found.value(&name(system, mix), figure)
}

/// Milliseconds; none of what did not happen.
fn millis(found: &Found, system: &str, mix: Mix, figure: &str) -> f64 {
    let value = of(found, system, mix, &format!("ycsb/{figure}"));
    if value > 0.0 { value } else { f64::NAN }
}

fn slowest(_: Scale, found: &Found) -> Conclusion {
    let columns: Vec<&str> =
        ["workload, system"].into_iter().chain(COLUMNS.map(|own| own.0)).collect();
    let mut table = Table::new("Mean, milliseconds", &columns);
    let mut checks = Vec::new();
    for (mix, paper) in MIXES.into_iter().zip(PAPER) {
        for (label, values) in ["RAID50", "FusionRAID"].into_iter().zip(paper) {
            table.row(format!("{}, the paper's {label}", mix.name), values);
        }
        for (label, system) in SYSTEMS {
            let row = COLUMNS.map(|(_, figure)| millis(found, system, mix, figure));
            table.row(format!("{}, {label}", mix.name), row);
        }
        for (at, (what, figure)) in COLUMNS.into_iter().enumerate() {
            let [raid50, fusion, ours] =
                SYSTEMS.map(|(_, system)| millis(found, system, mix, figure));
            if paper[0][at].is_finite() {
                let what = format!("{}, {what}: RAID50 over", mix.name);
                let ratio = paper[0][at] / paper[1][at];
                let check = Check::new(format!("{what} FusionRAID"), "x", ratio, raid50 / fusion);
                checks.push(check.because(why(found, mix, at)));
                checks.push(Check::ours(format!("{what} ours"), "x", raid50 / ours));
            }
        }
    }
    let columns = [
        "workload, system",
        "operations/s",
        "written a byte put",
        "groups slowed",
        "groups stopped",
        "blocks read a get",
    ];
    let mut store = Table::new("The store", &columns);
    for mix in MIXES {
        for (label, system) in SYSTEMS {
            let figures = [
                "operations_per_second",
                "store/write_amplification",
                "store/slowed_groups",
                "store/stopped_groups",
                "store/blocks_a_get",
            ];
            let row = figures.map(|figure| of(found, system, mix, figure));
            store.row(format!("{}, {label}", mix.name), row);
        }
    }
    Conclusion { checks, tables: vec![table, store], pictures: vec![] }
}

fn updates(_: Scale, found: &Found) -> Conclusion {
    let mut table = Table::new(
        "Updates, milliseconds",
        &["workload, system", "p50", "p90", "p99", "p99.9", "longest"],
    );
    let figures = ["write_p50_ms", "write_p90_ms", "write_p99_ms", "write_p999_ms", "write_max_ms"];
    let (mut checks, mut series) = (Vec::new(), Vec::new());
    for mix in &MIXES[..2] {
        for (label, system) in SYSTEMS {
            let row = figures.map(|figure| millis(found, system, *mix, figure));
            table.row(format!("{}, {label}", mix.name), row);
            let curve = found.curve(&name(system, *mix), "updates");
            series.push(Series::new(format!("{}, {label}", mix.name), curve));
        }
        let p99 = |system: &str| millis(found, system, *mix, "write_p99_ms");
        let [raid50, fusion, ours] = SYSTEMS.map(|(_, system)| p99(system));
        let what = format!("{}, p99 of updates: RAID50 over", mix.name);
        checks.extend([
            Check::ours(format!("{what} FusionRAID"), "x", raid50 / fusion)
                .because("the paper shows distributions: \"reduces the write tail significantly\""),
            Check::ours(format!("{what} ours"), "x", raid50 / ours),
        ]);
    }
    let picture = Picture {
        name: "cdf".to_owned(),
        title: "Updates: distribution of latencies".to_owned(),
        kind: Kind::Lines,
        x: Axis::logarithmic("milliseconds"),
        y: Axis::linear("part of updates"),
        groups: vec![],
        series,
    };
    Conclusion { checks, tables: vec![table], pictures: vec![picture] }
}
