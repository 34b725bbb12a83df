//! The arrays of LDM's evaluation under the traces of its Table II.

use model::presets::Preset;
use serde_json::json;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::layout::Variant;
use crate::experiment::bed::{Bed, parameters, span};
use crate::experiment::{Cell, Found, Scale, traced};
use crate::workload::{Kind, Workload};

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
    /// Requests of whole pages.
    pages: bool,
}

/// The paper's arrays are modules of Linux md (§4.1), which leaves the write hole open: so are
/// these, the arrays below the logs too. Ours is closed by a log of partial parity.
pub const RAIS5_4: Made = made("4-RAIS5", "raid5-open", 4, 0);
pub const RAIS5_6: Made = made("6-RAIS5", "raid5-open", 6, 0);
pub const HPDA: Made = made("HPDA", "hpda-open", 6, 2);
pub const LDM: Made = made("LDM", "log-mirror-open", 6, 2);
pub const S_LDM: Made = made("S-LDM", "log-mirror-open", 6, 0);
pub const ARRAYS: [Made; 5] = [RAIS5_4, RAIS5_6, HPDA, LDM, S_LDM];

/// The sensitivity: with the write hole closed, as the product is by default.
pub const RAIS5_4_CLOSED: Made = Made { label: "4-RAIS5, closed", system: "raid5", ..RAIS5_4 };
pub const HPDA_CLOSED: Made = Made { label: "HPDA, closed", system: "hpda", ..HPDA };
pub const LDM_CLOSED: Made = Made { label: "LDM, closed", system: "log-mirror", ..LDM };
pub const CLOSED: [Made; 3] = [RAIS5_4_CLOSED, HPDA_CLOSED, LDM_CLOSED];

/// The sensitivity: disks without a controller's cache, so that writes wait for the platter.
pub const HPDA_BARE: Made = Made { label: "HPDA, bare", disk_cache: 0, ..HPDA };
pub const LDM_BARE: Made = Made { label: "LDM, bare", disk_cache: 0, ..LDM };
pub const BARE: [Made; 2] = [HPDA_BARE, LDM_BARE];

/// The disks are behind a controller that answers writes from its protected cache (Table I: PERC
/// H710; 512 MB by its data sheet, here half for each disk). The SSDs' writes pass it by: whether
/// it was on, and for which drives, the paper does not say.
const DISK_CACHE: u64 = 256 << 20;

/// That of the paper's example, which names no other (§3.3, §3.4): with three data drives, writes
/// below 48 KiB are the log's.
const CHUNK: u64 = 16 << 10;
const PAGE: u64 = 4 << 10;

/// 73 GB disks beside SSDs of 64 GB (§4.1): HPDA's log has what its parity leaves of a disk.
pub const DISK_PERCENT: u64 = 114;

const fn made(label: &'static str, system: &'static str, drives: usize, disks: usize) -> Made {
    let disk_cache = if disks > 0 { DISK_CACHE } else { 0 };
    Made { label, system, drives, disks, disk_cache, times: 1, pages: false }
}

/// The same requests of whole pages, so that none has the rest of one read.
pub fn of_pages(workload: Workload) -> Workload {
    let whole = |kind: Kind| {
        let sizes = kind.sizes.iter().map(|&(bytes, part)| (bytes.next_multiple_of(PAGE), part));
        Kind { sizes: sizes.collect(), ..kind }
    };
    let Workload { reads, writes, .. } = workload.clone();
    Workload { align: PAGE, reads: whole(reads), writes: whole(writes), ..workload }
}

impl Made {
    pub const fn at_times(self, times: u32) -> Made {
        Made { times, ..self }
    }

    pub const fn in_pages(self) -> Made {
        Made { pages: true, ..self }
    }

    pub fn system(&self) -> System {
        self.system.parse().expect("a system we know")
    }

    pub fn bed(&self, scale: Scale) -> Bed {
        let shape = Shape { volume_percent: scale.pick(20, 50), ..Shape::new(5) };
        let drive_bytes = Preset::ConsumerSata.sizes().0;
        let bed = Bed::new(Preset::ConsumerSata, self.drives, 5);
        let Made { disks, disk_cache, .. } = *self;
        let variant = Variant { chunk: Some(CHUNK), ..Variant::default() };
        let disk_percent = DISK_PERCENT;
        Bed { disks, disk_percent, disk_cache, drive_bytes, shape, variant, ..bed }
    }

    pub fn name(&self, preset: &str) -> String {
        let rate = if self.times == 1 { String::new() } else { format!("/x{}", self.times) };
        let pages = if self.pages { "/pages" } else { "" };
        format!("ldm/{}/{preset}{pages}{rate}", self.label.replace(", ", "-"))
    }

    pub fn cell(self, scale: Scale, preset: &'static str) -> Cell {
        self.cell_of(scale, preset, scale.pick(40, 600))
    }

    /// Measured for so many seconds.
    pub fn cell_of(self, scale: Scale, preset: &'static str, seconds: u64) -> Cell {
        let (system, bed) = (self.system(), self.bed(scale));
        let span = span(scale.pick(5, 30), seconds);
        let own = json!({ "trace": preset, "times": self.times, "whole_pages": self.pages });
        let given = parameters(&bed, system, span, own);
        Cell::seeded(self.name(preset), 2.0 + seconds as f64 / 75.0, given, move |seed| {
            bed.measure(system, span, bed.seed, |size| {
                let mut workload = traced::preset(preset);
                workload.arrivals.scale(f64::from(self.times));
                let workload = if self.pages { of_pages(workload) } else { workload };
                vec![("load".to_owned(), traced::placed(workload, (0, size), seed.of(bed.seed)))]
            })
        })
    }

    pub fn value(&self, found: &Found, preset: &str, figure: &str) -> f64 {
        found.value(&self.name(preset), &format!("load/{figure}"))
    }

    /// Not of its load.
    pub fn value_of(&self, found: &Found, preset: &str, figure: &str) -> f64 {
        found.value(&self.name(preset), figure)
    }

    /// What the scheme counted.
    pub fn count(&self, found: &Found, preset: &str, counter: &str) -> f64 {
        self.value_of(found, preset, &format!("scheme/{counter}"))
    }
}
