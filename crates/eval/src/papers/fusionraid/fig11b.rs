//! FusionRAID §5.2, Figure 11 (b): a write buffer that outlives power cuts above RAID50, of
//! several sizes, beside FusionRAID.

use model::ssd::Fill;
use serde_json::json;

use super::{bed, mix};
use crate::array::System;
use crate::experiment::bed::{Bed, parameters, span};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table, traced,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "fusionraid-fig11b",
    title: "FusionRAID Figure 11 (b): RAID50 with a write buffer of NVRAM",
    source: "FusionRAID §5.2",
    cells,
    conclude,
};

/// Of the paper's sizes, GB.
const SIZES: [u64; 6] = [1, 4, 8, 16, 64, 256];
/// The paper's 30 drives, if they are as those of its Table 3, GB. A buffer of ours is to our pool
/// as its is to that.
const POOL_GB: u64 = 30 * 240;
/// The paper's name, and that of our preset.
const TRACES: [(&str, &str); 2] = [("YCSB-A", "ycsb-a"), ("TPC-C", "tpc-c")];
const FUSION: [(&str, &str); 2] = [("FusionRAID", "fusion-paper"), ("ours", "fusion")];

fn sizes(scale: Scale) -> Vec<u64> {
    scale.pick(vec![1, 8, 64], SIZES.to_vec())
}

fn buffered(gb: u64, preset: &str) -> String {
    format!("fusionraid-fig11b/nv-raid/{gb}/{preset}")
}

fn direct(system: &str, preset: &str) -> String {
    format!("fusionraid-fig11b/{system}/{preset}")
}

fn cells(scale: Scale) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (_, preset) in TRACES {
        for gb in sizes(scale) {
            let bed = bed(scale, Fill::Aged);
            let bytes = bed.drive_bytes * bed.drives as u64 * gb / POOL_GB;
            let bed = Bed { nvram_bytes: Some(bytes), ..bed };
            cells.push(cell(scale, buffered(gb, preset), System::NvRaid, bed, preset));
        }
        for (_, system) in FUSION {
            let bed = bed(scale, Fill::Aged);
            cells.push(cell(scale, direct(system, preset), mix::system(system), bed, preset));
        }
    }
    cells
}

fn cell(scale: Scale, name: String, system: System, bed: Bed, preset: &'static str) -> Cell {
    let span = span(scale.pick(0, 5), scale.pick(2, 20));
    let own = json!({ "trace": preset, "nvram_bytes": bed.nvram_bytes });
    let given = parameters(&bed, system, span, own);
    Cell::seeded(name, scale.pick(2.0, 3.0), given, move |seed| {
        bed.measure(system, span, bed.seed, |size| {
            vec![("load".to_owned(), traced::of(preset, (0, size), seed.of(bed.seed)))]
        })
    })
}

fn conclude(scale: Scale, found: &Found) -> Conclusion {
    let of = |cell: &str, figure: &str| found.value(cell, &format!("load/{figure}"));
    let mut table = Table::new(
        "Milliseconds",
        &["system", "YCSB-A p50", "YCSB-A p99", "TPC-C p50", "TPC-C p99"],
    );
    let row = |cell: &dyn Fn(&str) -> String| {
        TRACES.map(|(_, preset)| ["p50_ms", "p99_ms"].map(|figure| of(&cell(preset), figure)))
    };
    for gb in sizes(scale) {
        table.row(format!("NV-RAID, as {gb} GB"), row(&|preset| buffered(gb, preset)).concat());
    }
    for (label, system) in FUSION {
        table.row(label, row(&|preset| direct(system, preset)).concat());
    }
    let mut series = Vec::new();
    for (label, preset) in TRACES {
        let over = |p99: &dyn Fn(u64) -> f64| {
            sizes(scale).into_iter().map(|gb| (gb as f64, p99(gb))).collect()
        };
        let curve = over(&|gb| of(&buffered(gb, preset), "p99_ms"));
        series.push(Series::new(format!("{label}, NV-RAID"), curve));
        for (name, system) in FUSION {
            let line = over(&|_| of(&direct(system, preset), "p99_ms"));
            series.push(Series::new(format!("{label}, {name}"), line));
        }
    }
    let times = |gb: u64, preset: &str, figure: &str| {
        of(&buffered(gb, preset), figure) / of(&direct("fusion-paper", preset), figure)
    };
    let largest = *sizes(scale).last().expect("there are some");
    let lines = "read off the text: \"over 40ms, 30x higher\" below 8 GB";
    let checks = vec![
        Check::new("YCSB-A p99, 1 GB over FusionRAID", "x", 30.0, times(1, "ycsb-a", "p99_ms"))
            .because(lines),
        Check::new("YCSB-A p99, 64 GB over FusionRAID", "x", 1.0, times(64, "ycsb-a", "p99_ms"))
            .because("\"nearly catching up\""),
        Check::new("TPC-C p99, 8 GB over FusionRAID", "x", 1.0, times(8, "tpc-c", "p99_ms"))
            .because("\"fairly close\""),
        Check::new(
            "TPC-C median, largest buffer over FusionRAID",
            "x",
            28.0 / 96.0,
            times(largest, "tpc-c", "p50_ms"),
        ),
        Check::new(
            "YCSB-A median, largest buffer over FusionRAID",
            "x",
            391.0 / 320.0,
            times(largest, "ycsb-a", "p50_ms"),
        )
        .because("at 100 ns for each cache line 512 KB alone take 0.82 ms"),
    ];
    let picture = Picture {
        name: "p99".to_owned(),
        title: "99th percentile by the size of the buffer".to_owned(),
        kind: Kind::Lines,
        x: Axis::logarithmic("GB in the paper's pool"),
        y: Axis::logarithmic("milliseconds"),
        groups: vec![],
        series,
    };
    Conclusion { checks, tables: vec![table], pictures: vec![picture] }
}
