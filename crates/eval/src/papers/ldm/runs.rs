//! The arrays of LDM's evaluation under the traces of its Table II.

use model::presets::Preset;
use serde_json::json;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::experiment::bed::{Bed, parameters, span};
use crate::experiment::{Cell, Found, Scale, traced};

/// The paper's name, the preset's, and Table III: LDM over 4-RAIS5, and over HPDA.
pub const TRACES: [(&str, &str, f64, f64); 6] = [
    ("Fin1", "ldm-fin1", 51.7, 12.1),
    ("Fin2", "ldm-fin2", 2.0, 1.2),
    ("src", "ldm-src12", 5.1, 1.4),
    ("usr", "ldm-usr0", 25.3, 6.7),
    ("proj", "ldm-proj0", 22.1, 5.8),
    ("prxy", "ldm-prxy0", 16.5, 2.6),
];

/// An array: the paper's name, the system, its drives, and how many of them are hard disks.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    pub label: &'static str,
    system: &'static str,
    pub drives: usize,
    pub disks: usize,
}

pub const RAIS5_4: Made = Made { label: "4-RAIS5", system: "raid5", drives: 4, disks: 0 };
pub const RAIS5_6: Made = Made { label: "6-RAIS5", system: "raid5", drives: 6, disks: 0 };
pub const HPDA: Made = Made { label: "HPDA", system: "hpda", drives: 6, disks: 2 };
pub const LDM: Made = Made { label: "LDM", system: "log-mirror", drives: 6, disks: 2 };
pub const S_LDM: Made = Made { label: "S-LDM", system: "log-mirror", drives: 6, disks: 0 };
pub const ARRAYS: [Made; 5] = [RAIS5_4, RAIS5_6, HPDA, LDM, S_LDM];

impl Made {
    pub fn name(&self, preset: &str) -> String {
        format!("ldm/{}/{preset}", self.label)
    }

    pub fn cell(self, scale: Scale, preset: &'static str) -> Cell {
        let system: System = self.system.parse().expect("a system we know");
        let shape = Shape { volume_percent: 50, ..Shape::new(5) };
        let bed = Bed {
            disks: self.disks,
            drive_bytes: Preset::ConsumerSata.sizes().0,
            shape,
            ..Bed::new(Preset::ConsumerSata, self.drives, 5)
        };
        let span = span(scale.pick(5, 30), scale.pick(40, 600));
        let given = parameters(&bed, system, span, json!({ "trace": preset }));
        Cell::new(self.name(preset), scale.pick(2.0, 10.0), given, move || {
            bed.measure(system, span, bed.seed, |size| {
                vec![("load".to_owned(), traced::of(preset, (0, size), bed.seed))]
            })
        })
    }

    pub fn value(&self, found: &Found, preset: &str, figure: &str) -> f64 {
        found.value(&self.name(preset), &format!("load/{figure}"))
    }
}
