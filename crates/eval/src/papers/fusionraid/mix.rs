//! The four workloads that FusionRAID §5.3 runs together, each on a quarter of the array, and the
//! systems that it compares on them.

use model::ssd::Fill;
use serde_json::json;

use super::bed;
use crate::array::System;
use crate::array::load::Span;
use crate::array::made::Made;
use crate::array::prepare::Trim;
use crate::experiment::bed::{Bed, parameters, span};
use crate::experiment::{Cell, Found, Scale, traced};

/// The paper's name of a workload, and that of our preset.
pub const MIX: [(&str, &str); 4] =
    [("TPC-C", "tpc-c"), ("YCSB-A", "ycsb-a"), ("TF", "tensorflow"), ("VD", "virtual-desktop")];
pub const TRACES: [&str; 4] = [MIX[0].0, MIX[1].0, MIX[2].0, MIX[3].0];

/// Its arrays with parity leave the write hole open, as md's do by default; closed as the product
/// serves them is a sensitivity of Figure 10.
pub const RAID5_4: &str = "n-raid5-open";
pub const RAID50: &str = "raid50-open";
pub const LOG_RAID: &str = "log-raid-open";
pub const TOLE_RAID: &str = "tole-raid-open";

/// What drives hold when arrays are made on them, and whether they were told that it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drives {
    pub label: &'static str,
    pub fill: Fill,
    pub trim: Trim,
}

/// New ones know that they are free.
pub const CLEAN: Drives = Drives { label: "clean", fill: Fill::Fresh, trim: Trim::Untrimmed };
/// As the paper's.
pub const UNTOLD: Drives = Drives { label: "untold", fill: Fill::Aged, trim: Trim::Untrimmed };
/// As `create` leaves them.
pub const TOLD: Drives = Drives { label: "told", fill: Fill::Aged, trim: Trim::Trimmed };
/// Every comparison has both.
pub const AGED: [Drives; 2] = [UNTOLD, TOLD];

/// What the paper calls a system, and what it is here.
pub fn system(name: &str) -> System {
    name.parse().expect("a system we know")
}

pub fn cell_name(system: &str, drives: Drives) -> String {
    let told = if drives.trim == Trim::Untrimmed { "" } else { "/told" };
    format!("fusionraid-mix/{system}/{}{told}", format!("{:?}", drives.fill).to_lowercase())
}

/// Its streams, each on a quarter of an array of so many bytes.
pub fn loads(size: u64, seed: u64) -> Vec<(String, Made)> {
    let part = (size / MIX.len() as u64) >> 20 << 20;
    let stream = |(at, (name, preset)): (u64, &(&str, &str))| {
        ((*name).to_owned(), traced::of(preset, (part * at, part), seed + at))
    };
    (0..).zip(&MIX).map(stream).collect()
}

pub fn seconds(scale: Scale) -> Span {
    span(scale.pick(1, 10), scale.pick(5, 60))
}

/// The mix on one system.
pub fn cell(scale: Scale, name: &str, drives: Drives) -> Cell {
    let bed = Bed { trim: drives.trim, ..bed(scale, drives.fill) };
    let system = system(name);
    let span = seconds(scale);
    let traces = json!({ "traces": MIX.map(|own| own.1), "load_seed": bed.seed });
    let given = parameters(&bed, system, span, traces);
    let cost = scale.pick(12.0, 60.0);
    Cell::seeded(cell_name(name, drives), cost, given, move |seed| {
        bed.measure(system, span, bed.seed, |size| loads(size, seed.of(bed.seed)))
    })
}

/// A figure of a trace under a system, by its name: `p99_ms`.
pub fn value(found: &Found, system: &str, drives: Drives, trace: &str, figure: &str) -> f64 {
    found.value(&cell_name(system, drives), &format!("{trace}/{figure}"))
}
