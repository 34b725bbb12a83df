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
    /// Of the controller, for each of the disks; bytes.
    disk_cache: u64,
    /// So many times the trace's rate of requests.
    times: u32,
}

pub const RAIS5_4: Made = made("4-RAIS5", "raid5", 4, 0);
pub const RAIS5_6: Made = made("6-RAIS5", "raid5", 6, 0);
pub const HPDA: Made = made("HPDA", "hpda", 6, 2);
pub const LDM: Made = made("LDM", "log-mirror", 6, 2);
pub const S_LDM: Made = made("S-LDM", "log-mirror", 6, 0);
pub const ARRAYS: [Made; 5] = [RAIS5_4, RAIS5_6, HPDA, LDM, S_LDM];

/// Those with disks behind a controller that answers writes from its protected cache. The paper's
/// has one (PERC H710, §4.1: 512 MB by its data sheet, here half for each disk); whether it was on,
/// the paper does not say.
pub const HPDA_CACHED: Made = Made { label: "HPDA, cached", disk_cache: CACHE, ..HPDA };
pub const LDM_CACHED: Made = Made { label: "LDM, cached", disk_cache: CACHE, ..LDM };
pub const CACHED: [Made; 2] = [HPDA_CACHED, LDM_CACHED];
const CACHE: u64 = 256 << 20;

/// 73 GB disks beside SSDs of 64 GB (§4.1): HPDA's log has what its parity leaves of a disk.
pub const DISK_PERCENT: u64 = 114;

const fn made(label: &'static str, system: &'static str, drives: usize, disks: usize) -> Made {
    Made { label, system, drives, disks, disk_cache: 0, times: 1 }
}

impl Made {
    pub const fn at_times(self, times: u32) -> Made {
        Made { times, ..self }
    }

    pub fn system(&self) -> System {
        self.system.parse().expect("a system we know")
    }

    pub fn bed(&self, scale: Scale) -> Bed {
        let shape = Shape { volume_percent: scale.pick(20, 50), ..Shape::new(5) };
        let drive_bytes = Preset::ConsumerSata.sizes().0;
        let bed = Bed::new(Preset::ConsumerSata, self.drives, 5);
        let Made { disks, disk_cache, .. } = *self;
        Bed { disks, disk_percent: DISK_PERCENT, disk_cache, drive_bytes, shape, ..bed }
    }

    pub fn name(&self, preset: &str) -> String {
        let rate = if self.times == 1 { String::new() } else { format!("/x{}", self.times) };
        format!("ldm/{}/{preset}{rate}", self.label.replace(", ", "-"))
    }

    pub fn cell(self, scale: Scale, preset: &'static str) -> Cell {
        self.cell_of(scale, preset, scale.pick(40, 600))
    }

    /// Measured for so many seconds.
    pub fn cell_of(self, scale: Scale, preset: &'static str, seconds: u64) -> Cell {
        let (system, bed) = (self.system(), self.bed(scale));
        let span = span(scale.pick(5, 30), seconds);
        let given = parameters(&bed, system, span, json!({ "trace": preset, "times": self.times }));
        Cell::new(self.name(preset), 2.0 + seconds as f64 / 75.0, given, move || {
            bed.measure(system, span, bed.seed, |size| {
                let mut workload = traced::preset(preset);
                workload.arrivals.scale(f64::from(self.times));
                vec![("load".to_owned(), traced::placed(workload, (0, size), bed.seed))]
            })
        })
    }

    pub fn value(&self, found: &Found, preset: &str, figure: &str) -> f64 {
        found.value(&self.name(preset), &format!("load/{figure}"))
    }

    /// Writes that found the log full and went to the array of SSDs at once.
    pub fn log_full(&self, found: &Found, preset: &str) -> f64 {
        found.value(&self.name(preset), "scheme/direct_log_full")
    }
}
