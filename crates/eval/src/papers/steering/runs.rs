//! The runs of GC-Steering's evaluation: RAID5 of a few drives that are full, under the traces of
//! its Table I.

use model::presets::Preset;
use schemes::scheme::steering::Staging;
use serde_json::json;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::layout::Variant;
use crate::experiment::bed::{Bed, parameters, span};
use crate::experiment::{Axis, Cell, Found, Kind, Picture, Scale, Series, traced};

/// The paper's name, and the preset's.
pub const TRACES: [(&str, &str); 8] = [
    ("HPC_W", "hpc-w"),
    ("HPC_R", "hpc-r"),
    ("Fin1", "gc-fin1"),
    ("hm_0", "gc-hm0"),
    ("mds_0", "gc-mds0"),
    ("prxy_0", "gc-prxy0"),
    ("rsrch_0", "gc-rsrch0"),
    ("wdev_0", "gc-wdev0"),
];

/// What a run differs in from the default: five drives, a stripe unit of 64 KiB, reserved space.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub system: &'static str,
    pub drives: usize,
    pub chunk_kib: u64,
    pub dedicated: bool,
    /// Drives that stop for everything while they collect, in place of the paper's, which collect
    /// in short pieces.
    pub blocking: bool,
}

pub const DEFAULT: Run =
    Run { system: "steering", drives: 5, chunk_kib: 64, dedicated: false, blocking: false };

impl Run {
    pub fn name(&self, preset: &str) -> String {
        let Run { system, drives, chunk_kib, dedicated, blocking } = self;
        let staging = if *dedicated { "dedicated" } else { "reserved" };
        let kind = if *blocking { "blocking" } else { "paced" };
        format!("steering/{system}/{drives}-{kind}/{chunk_kib}k/{staging}/{preset}")
    }

    pub fn cell(self, scale: Scale, preset: &'static str) -> Cell {
        let system: System = self.system.parse().expect("a system we know");
        let staging = self.dedicated.then_some(Staging::Dedicated);
        let variant = Variant { chunk: Some(self.chunk_kib << 10), staging };
        // A dedicated drive is one more than the array has.
        let drives = self.drives + usize::from(self.dedicated);
        let width = self.drives as u16;
        // "We fill the entire space on each SSD with valid data."
        let shape = Shape { volume_percent: 90, ..Shape::new(width) };
        let of = if self.blocking { Preset::ConsumerSata } else { Preset::DcSata };
        let drive_bytes = scale.pick(of.sizes().0, 8 << 30);
        let bed = Bed { shape, variant, drive_bytes, ..Bed::new(of, drives, width) };
        let span = span(scale.pick(1, 10), seconds(scale));
        let given = parameters(&bed, system, span, json!({ "trace": preset }));
        let cost = scale.pick(2.0, 5.0);
        Cell::seeded(self.name(preset), cost, given, move |seed| {
            bed.measure(system, span, bed.seed, |size| {
                vec![("load".to_owned(), traced::of(preset, (0, size), seed.of(bed.seed)))]
            })
        })
    }

    pub fn value(&self, found: &Found, preset: &str, figure: &str) -> f64 {
        found.value(&self.name(preset), figure)
    }
}

/// Measured of each run.
pub fn seconds(scale: Scale) -> u64 {
    scale.pick(4, 60)
}

/// Each of these runs under each trace.
pub fn cells(scale: Scale, runs: impl IntoIterator<Item = Run>) -> Vec<Cell> {
    let each = runs.into_iter().flat_map(|run| TRACES.map(|(_, preset)| (run, preset)));
    each.map(|(run, preset)| run.cell(scale, preset)).collect()
}

/// Mean response time: for each trace a group, a bar for each of these.
pub fn means(found: &Found, runs: impl IntoIterator<Item = (String, Run)>) -> Picture {
    let bars = |(label, run): (String, Run)| {
        Series::bars(label, TRACES.map(|(_, preset)| run.value(found, preset, "load/mean_ms")))
    };
    Picture {
        name: "mean".to_owned(),
        title: "Mean response time".to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("trace"),
        y: Axis::logarithmic("milliseconds"),
        groups: TRACES.map(|(trace, _)| trace.to_owned()).into(),
        series: runs.into_iter().map(bars).collect(),
    }
}

/// The mean of what is a number.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.iter().sum::<f64>() / values.len() as f64
}
