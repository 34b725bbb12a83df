//! The arrays of HybRAID's evaluation (§4.1) and the ways in which they are measured: the paper's,
//! and those that tell what an answer depends on.

use model::presets::Preset;
use model::ssd::Fill;
use serde_json::json;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::layout::Variant;
use crate::array::load::{Asked, AskedSo};
use crate::experiment::bed::{Bed, parameters, span};
use crate::experiment::{Cell, Found, Scale, traced};
use crate::trace::record::Op;

/// Presets after Figure 3: the mean of the write-intensive volumes, and those with most partial
/// stripes.
pub const WORKLOADS: [(&str, &str); 2] = [("mean", "hybraid-mean"), ("web", "hybraid-web")];
/// The same with nine reads of ten requests.
pub const READS: [(&str, &str); 2] =
    [("mean, reads", "hybraid-mean"), ("web, reads", "hybraid-web")];
const READ_SHARE: f64 = 0.9;
/// The stripe unit (§4.1).
const UNIT: u64 = 4 << 10;
/// A stripe of the RAID5 tier of three drives, which is the unit of the map (§3.3).
const STRIPE: u64 = 2 * UNIT;
/// Of each drive of 256 GB a partition of 30 GB is used (§4.1): percent. Quick: half of
/// that, which takes half as long to fill.
const USED_PERCENT: u64 = 12;

/// How an array is measured.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// What the names of cells have.
    name: &'static str,
    preset: Preset,
    fill: Fill,
    /// What fills the array before it is measured has the sizes of the workload's writes; else it
    /// is large whole stripes.
    own_sizes: bool,
    /// The write hole is closed, as in the product.
    closed: bool,
    /// Requests under way.
    depth: usize,
    asked: Asked,
    online_threshold: Option<u8>,
}

/// As in the paper: new drives of which most is unused (§4.1); md's write hole left open, as it is
/// unless told otherwise; requests one at a time by system calls that return when a write is
/// durable (O_DIRECT and O_SYNC, §3.3). The paper's map begins empty and a stripe's first write
/// chooses its tier (algorithm 1): all that is used was written once, in the workload's sizes.
pub const PAPER: Way = Way {
    name: "",
    preset: Preset::DcSata,
    fill: Fill::Fresh,
    own_sizes: true,
    closed: false,
    depth: 1,
    asked: Asked { durably: true, parts: None },
    online_threshold: None,
};
pub const CLOSED: Way = Way { name: "-closed", closed: true, ..PAPER };
pub const DEEP: Way = Way { name: "-32", depth: 32, ..PAPER };
pub const AGED: Way = Way { name: "-aged", fill: Fill::Aged, ..PAPER };
/// All stripes begin in RAID5.
pub const WHOLE: Way = Way { name: "-whole", own_sizes: false, ..PAPER };
/// Drives whose cache a power cut empties, as the paper's have: a durable write waits for flash.
pub const VOLATILE: Way = Way { name: "-volatile", preset: Preset::ConsumerSata, ..PAPER };
/// HybRAID that does not migrate while requests come: no stripe is written so often.
pub const STAY: Way = Way { name: "-stay", online_threshold: Some(u8::MAX), ..PAPER };
/// HybRAID without threads: the stripes of a request one after the other.
pub const IN_TURN: Way =
    Way { name: "-in-turn", asked: Asked { durably: true, parts: Some(STRIPE) }, ..PAPER };

/// An array: the paper's name, the scheme, its drives.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    pub label: &'static str,
    scheme: &'static str,
    drives: usize,
    pub way: Way,
}

pub const HYBRID: Made = made("HybRAID (3+2)", "hybrid", 5);
pub const RAID5: Made = made("RAID5 (3+1)", "raid5", 4);
pub const RAID10: Made = made("RAID10 (2+2)", "raid10", 4);
/// With two usable drives, and the two of its cache.
pub const CRAIS5: Made = made("CRAIS5", "cached-raid5", 5);
/// With three usable ones, as RAID5 has.
pub const CRAIS5_6: Made = made("CRAIS5, six drives", "cached-raid5", 6);
pub const ARRAYS: [Made; 4] = [HYBRID, RAID5, RAID10, CRAIS5];

const fn made(label: &'static str, scheme: &'static str, drives: usize) -> Made {
    Made { label, scheme, drives, way: PAPER }
}

/// Drives as in the paper, an array of them, its used part written.
pub fn bed(scale: Scale, preset: Preset, drives: usize) -> Bed {
    let width = drives as u16;
    let variant = Variant { chunk: Some(UNIT), ..Variant::default() };
    let volume_percent = scale.pick(USED_PERCENT / 2, USED_PERCENT);
    let shape = Shape { volume_percent, ..Shape::new(width) };
    let drive_bytes = scale.pick(preset.sizes().0, preset.default_size());
    let fill = Fill::Fresh;
    Bed { variant, shape, drive_bytes, fill, ..Bed::new(preset, drives, width) }
}

/// Of a workload's first writes.
fn sizes(workload: &str) -> Vec<u64> {
    const SOME: usize = 1000;
    const SEED: u64 = 1;
    let records = traced::preset(workload).requests(SEED);
    records.filter(|record| record.op == Op::Write).map(|record| record.len).take(SOME).collect()
}

impl Made {
    pub const fn by(self, way: Way) -> Made {
        Made { way, ..self }
    }

    pub fn name(&self, workload: &str) -> String {
        let more = if self.drives == CRAIS5_6.drives { "-6-drives" } else { "" };
        let (scheme, way) = (self.scheme, self.way.name);
        format!("hybraid/{scheme}{more}{way}/{}", workload.replace(", ", "-"))
    }

    pub fn system(&self) -> System {
        // Mirrors alone have no write hole to close.
        let open = if self.way.closed || self.scheme == "raid10" { "" } else { "-open" };
        format!("{}{open}", self.scheme).parse().expect("a system we know")
    }

    pub fn bed(&self, scale: Scale, workload: &str) -> Bed {
        let Way { preset, fill, own_sizes, online_threshold, .. } = self.way;
        let pieces = if own_sizes { sizes(workload) } else { Vec::new() };
        Bed { fill, online_threshold, pieces, ..bed(scale, preset, self.drives) }
    }

    pub fn cell(self, scale: Scale, (label, preset): (&'static str, &'static str)) -> Cell {
        let (system, bed) = (self.system(), self.bed(scale, preset));
        let Way { depth, asked, online_threshold, own_sizes, .. } = self.way;
        let span = span(scale.pick(1, 5), scale.pick(3, 20));
        let reads = label.ends_with("reads");
        let own = json!({
            "workload": preset,
            "depth": depth,
            "durably": asked.durably,
            "parts": asked.parts,
            "online_threshold": online_threshold,
            "filled_in_own_sizes": own_sizes,
            "read_heavy": reads,
        });
        let given = parameters(&bed, system, span, own);
        Cell::seeded(self.name(label), scale.pick(4.0, 12.0), given, move |seed| {
            bed.measure_closed(system, depth, span, bed.seed, |size| {
                let mut workload = traced::preset(preset);
                if reads {
                    workload.read_share = READ_SHARE;
                }
                AskedSo(traced::placed(workload, (0, size), seed.of(bed.seed)), asked)
            })
        })
    }

    pub fn value(&self, found: &Found, workload: &str, figure: &str) -> f64 {
        found.value(&self.name(workload), figure)
    }
}

pub fn cells(
    scale: Scale,
    arrays: &[Made],
    workloads: &[(&'static str, &'static str)],
) -> Vec<Cell> {
    let each = arrays.iter().flat_map(|&made| workloads.iter().map(move |&load| (made, load)));
    each.map(|(made, load)| made.cell(scale, load)).collect()
}
