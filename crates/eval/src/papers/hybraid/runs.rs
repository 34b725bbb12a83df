//! The arrays of HybRAID's evaluation (§4.1), with a stripe unit of 4 KB, under workloads of which
//! 32 requests are always under way.

use model::presets::Preset;
use serde_json::json;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::layout::Variant;
use crate::experiment::bed::{Bed, parameters, span};
use crate::experiment::{Cell, Found, Scale, traced};

/// Presets after Figure 3: the mean of the write-intensive volumes, and those with most partial
/// stripes.
pub const WORKLOADS: [(&str, &str); 2] = [("mean", "hybraid-mean"), ("web", "hybraid-web")];
/// The same with nine reads of ten requests.
pub const READS: [(&str, &str); 2] =
    [("mean, reads", "hybraid-mean"), ("web, reads", "hybraid-web")];
const READ_SHARE: f64 = 0.9;
const DEPTH: usize = 32;
const UNIT: u64 = 4 << 10;

/// An array: the paper's name, the system, its drives.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    pub label: &'static str,
    system: &'static str,
    drives: usize,
    /// Nothing is written before it is measured.
    blank: bool,
    /// Requests under way.
    depth: usize,
}

pub const HYBRID: Made = made("HybRAID (3+2)", "hybrid", 5);
pub const RAID5: Made = made("RAID5 (3+1)", "raid5", 4);
pub const RAID10: Made = made("RAID10 (2+2)", "raid10", 4);
/// With two usable drives, and the two of its cache.
pub const CRAIS5: Made = made("CRAIS5", "cached-raid5", 5);
/// With three usable ones, as RAID5 has.
pub const CRAIS5_6: Made = made("CRAIS5, six drives", "cached-raid5", 6);
pub const ARRAYS: [Made; 4] = [HYBRID, RAID5, RAID10, CRAIS5];

const fn made(label: &'static str, system: &'static str, drives: usize) -> Made {
    Made { label, system, drives, blank: false, depth: DEPTH }
}

impl Made {
    /// Stripes of a hybrid one get their tier by their first write, not by what filled them.
    pub const fn blank(self) -> Made {
        Made { blank: true, ..self }
    }

    pub const fn one_at_a_time(self) -> Made {
        Made { depth: 1, ..self }
    }

    pub fn name(&self, workload: &str) -> String {
        let blank = if self.blank { "-blank" } else { "" };
        let depth = if self.depth == DEPTH { String::new() } else { format!("-{}", self.depth) };
        let more = if self.drives == CRAIS5_6.drives { "-6-drives" } else { "" };
        format!("hybraid/{}{more}{blank}{depth}/{}", self.system, workload.replace(", ", "-"))
    }

    pub fn system(&self) -> System {
        self.system.parse().expect("a system we know")
    }

    pub fn bed(&self, scale: Scale) -> Bed {
        let variant = Variant { chunk: Some(UNIT), ..Variant::default() };
        let width = self.drives as u16;
        let shape =
            Shape { volume_percent: scale.pick(20, 50), filled: !self.blank, ..Shape::new(width) };
        let drive_bytes = Preset::DcSata.sizes().0;
        Bed { variant, shape, drive_bytes, ..Bed::new(Preset::DcSata, self.drives, width) }
    }

    pub fn cell(self, scale: Scale, (label, preset): (&'static str, &'static str)) -> Cell {
        let (system, bed) = (self.system(), self.bed(scale));
        let span = span(scale.pick(1, 5), scale.pick(3, 20));
        let reads = label.ends_with("reads");
        let own = json!({ "workload": preset, "depth": self.depth, "read_heavy": reads });
        let given = parameters(&bed, system, span, own);
        Cell::new(self.name(label), scale.pick(4.0, 20.0), given, move || {
            bed.measure_closed(system, self.depth, span, bed.seed, |size| {
                let mut workload = traced::preset(preset);
                if reads {
                    workload.read_share = READ_SHARE;
                }
                traced::placed(workload, (0, size), bed.seed)
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
