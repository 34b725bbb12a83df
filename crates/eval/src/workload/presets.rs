//! Workloads with the figures that the papers print of their traces.
//!
//! What a paper prints is met (see the tests); the rest is ours, and said here: which sizes make up
//! an average, how much is written again, how popular places are, how large the space is.

use io::Nanos;
use serde::Serialize;

use super::arrivals::{Arrivals, ON_SHARE};
use super::{Kind, Workload, sizes_averaging};
use crate::trace::figures::Figures;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
/// Papers count in thousands of bytes.
const KB: f64 = 1e3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Paper {
    /// Table 4.
    FusionRaid,
    /// Table I. Its rates follow from the requests of "one-hour traces".
    GcSteering,
    /// Table II.
    Ldm,
    /// Figure 3, as far as its text says numbers.
    HybRaid,
}

impl Paper {
    pub const fn name(self) -> &'static str {
        match self {
            Paper::FusionRaid => "FusionRAID Table 4",
            Paper::GcSteering => "GC-Steering Table I",
            Paper::Ldm => "LDM Table II",
            Paper::HybRaid => "HybRAID Figure 3",
        }
    }
}

/// What is printed: none where it isn't.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Printed {
    pub iops: Option<f64>,
    pub write_share: Option<f64>,
    pub write_kb: Option<f64>,
    /// Of reads and writes together.
    pub average_kb: Option<f64>,
    /// Partial pieces of writes on 3+1 drives, units of 4 and 8 KiB.
    pub partial: [Option<f64>; 2],
}

#[derive(Clone, Copy, Debug)]
pub struct Preset {
    pub name: &'static str,
    pub paper: Paper,
    pub printed: Printed,
    reads: Sizes,
    writes: Sizes,
    places: Places,
}

#[derive(Clone, Copy, Debug)]
enum Sizes {
    /// These KiB so that the average is so many KB.
    Averaging(&'static [f64], f64),
    /// Pages of 4 KiB, and how many of a thousand.
    Pages(&'static [(u64, u64)]),
}

/// Ours.
#[derive(Clone, Copy, Debug)]
struct Places {
    gib: u64,
    /// Part of the pages written, and read, that are touched again.
    updates: f64,
    rereads: f64,
    skew: f64,
    sequential: f64,
}

/// Databases over pages: most writes are updates of few of them.
const PAGES: Places = Places { gib: 16, updates: 0.9, rereads: 0.7, skew: 0.9, sequential: 0.1 };
/// Files written anew and deleted, as a log-structured store does: FusionRAID saw 1.3 % of small
/// rewrites.
const FILES: Places = Places { gib: 40, updates: 0.3, rereads: 0.5, skew: 0.5, sequential: 0.5 };
const DESKTOPS: Places = Places { gib: 64, updates: 0.6, rereads: 0.5, skew: 0.8, sequential: 0.2 };

/// KiB of pages and small files.
const SMALL: &[f64] = &[4.0, 8.0, 16.0, 32.0, 64.0];
/// With what is below a page.
const TINY: &[f64] = &[0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0];
const LARGE: &[f64] = &[32.0, 512.0];
const MIDDLE: &[f64] = &[16.0, 32.0, 64.0, 128.0, 256.0];

const fn fusion(
    name: &'static str,
    (iops, write_percent, write_kb): (f64, f64, f64),
    (write_sizes, read_sizes, read_kb): (&'static [f64], &'static [f64], f64),
    places: Places,
) -> Preset {
    let printed = Printed {
        iops: Some(iops),
        write_share: Some(write_percent / 100.0),
        write_kb: Some(write_kb),
        average_kb: None,
        partial: [None; 2],
    };
    let (reads, writes) =
        (Sizes::Averaging(read_sizes, read_kb), Sizes::Averaging(write_sizes, write_kb));
    Preset { name, paper: Paper::FusionRaid, printed, reads, writes, places }
}

/// Reads and writes of the same sizes: only their average together is printed.
const fn both(
    paper: Paper,
    name: &'static str,
    (read_percent, iops, average_kb): (f64, f64, f64),
    sizes: &'static [f64],
    places: Places,
) -> Preset {
    let printed = Printed {
        iops: Some(iops),
        write_share: Some(1.0 - read_percent / 100.0),
        write_kb: None,
        average_kb: Some(average_kb),
        partial: [None; 2],
    };
    let sizes = Sizes::Averaging(sizes, average_kb);
    Preset { name, paper, printed, reads: sizes, writes: sizes, places }
}

const fn gc(name: &'static str, (reads, requests, kb): (f64, f64, f64), places: Places) -> Preset {
    let sizes = if kb > 100.0 {
        LARGE
    } else if kb < 6.0 {
        TINY
    } else {
        SMALL
    };
    both(Paper::GcSteering, name, (reads, requests / 3600.0, kb), sizes, places)
}

const fn ldm(name: &'static str, figures: (f64, f64, f64)) -> Preset {
    let sizes = if figures.2 < 6.0 { TINY } else { SMALL };
    both(Paper::Ldm, name, figures, sizes, PAGES)
}

const fn hybrid(
    name: &'static str,
    partial: [Option<f64>; 2],
    pages: &'static [(u64, u64)],
) -> Preset {
    let printed =
        Printed { iops: None, write_share: Some(0.795), write_kb: None, average_kb: None, partial };
    let sizes = Sizes::Pages(pages);
    // Of few hot places, chance would say how they lie to the stripes.
    let places = Places { sequential: 0.0, skew: 0.3, ..PAGES };
    Preset { name, paper: Paper::HybRaid, printed, reads: sizes, writes: sizes, places }
}

pub const PRESETS: [Preset; 24] = [
    // Requests a second, % writes, KB of a write; the sizes and the KB of a read are ours.
    fusion("ycsb-load", (409.0, 99.0, 507.0), (LARGE, MIDDLE, 64.0), FILES),
    fusion("ycsb-a", (1353.0, 64.0, 500.4), (LARGE, MIDDLE, 64.0), FILES),
    fusion("ycsb-b", (1218.0, 62.0, 500.2), (LARGE, MIDDLE, 64.0), FILES),
    fusion("tpc-c", (5764.0, 75.0, 29.6), (SMALL, SMALL, 29.6), Places { gib: 77, ..PAGES }),
    fusion("tensorflow", (65.0, 69.0, 80.1), (MIDDLE, MIDDLE, 128.0), FILES),
    fusion("virtual-desktop", (811.0, 42.0, 23.8), (SMALL, SMALL, 32.0), DESKTOPS),
    fusion("exchange", (846.0, 70.0, 13.1), (SMALL, SMALL, 16.0), PAGES),
    fusion("proxy", (307.0, 32.0, 13.8), (SMALL, SMALL, 16.0), PAGES),
    // % reads, requests of an hour, KB of a request.
    gc("hpc-w", (20.1, 500_000.0, 510.5), FILES),
    gc("hpc-r", (79.9, 500_000.0, 510.5), FILES),
    gc("gc-fin1", (32.8, 5_334_987.0, 11.9), PAGES),
    gc("gc-hm0", (35.5, 3_993_316.0, 8.3), PAGES),
    gc("gc-mds0", (11.9, 1_211_034.0, 7.2), PAGES),
    gc("gc-prxy0", (2.7, 12_518_968.0, 2.5), PAGES),
    gc("gc-rsrch0", (9.3, 14_333_655.0, 8.7), PAGES),
    gc("gc-wdev0", (20.1, 1_143_261.0, 9.4), PAGES),
    // % reads, requests a second, KB of a request.
    ldm("ldm-fin1", (32.8, 52.0, 11.9)),
    ldm("ldm-fin2", (82.4, 127.0, 6.2)),
    ldm("ldm-src12", (21.5, 14.0, 30.0)),
    ldm("ldm-usr0", (49.4, 26.0, 17.1)),
    ldm("ldm-proj0", (46.7, 28.0, 14.8)),
    ldm("ldm-prxy0", (8.3, 224.0, 2.7)),
    // The average of its write-intensive volumes, and those "close to 50 %" partial.
    hybrid(
        "hybraid-mean",
        [Some(0.29), Some(0.35)],
        &[(1, 253), (2, 217), (3, 333), (4, 101), (6, 27), (8, 28), (16, 41)],
    ),
    hybrid(
        "hybraid-web",
        [None, Some(0.49)],
        &[(1, 6), (2, 188), (3, 282), (4, 475), (6, 33), (8, 15), (16, 2)],
    ),
];

/// Requests a second where nothing is printed.
pub const RATE: f64 = 1000.0;
/// Requests of a run: 64 KiB of pages.
const RUN: u64 = 16;

pub fn find(name: &str) -> Option<Preset> {
    PRESETS.iter().find(|preset| preset.name == name).copied()
}

impl Sizes {
    fn mix(self) -> Vec<(u64, f64)> {
        match self {
            Sizes::Averaging(kib, kb) => {
                let bytes: Vec<u64> = kib.iter().map(|kib| (kib * KIB as f64) as u64).collect();
                sizes_averaging(&bytes, kb * KB)
            }
            Sizes::Pages(pages) => {
                pages.iter().map(|&(pages, often)| (pages * 4 * KIB, often as f64)).collect()
            }
        }
    }
}

impl Preset {
    pub fn workload(&self) -> Workload {
        let Places { gib, updates, rereads, skew, sequential } = self.places;
        let kind = |sizes: Sizes, again: f64| Kind {
            sizes: sizes.mix(),
            sequential,
            run: RUN,
            fresh: 1.0 - again,
            skew,
            shared: 0.1,
        };
        let reads = kind(self.reads, rereads);
        let writes = kind(self.writes, updates);
        let below_page = reads.sizes.iter().chain(&writes.sizes).any(|(bytes, _)| bytes % 4096 > 0);
        Workload {
            name: self.name.to_owned(),
            arrivals: Arrivals::bursts(self.printed.iops.unwrap_or(RATE), ON_SHARE),
            read_share: 1.0 - self.printed.write_share.unwrap_or(0.5),
            reads,
            writes,
            span: gib * GIB,
            align: if below_page { 512 } else { 4096 },
        }
    }
}

/// Requests over which averages are steady.
const STEADY: f64 = 50_000.0;

impl Preset {
    /// Figures of a minute of it, or of longer if requests are rare.
    pub fn measure(&self, seed: u64) -> Figures {
        let seconds = (STEADY / self.printed.iops.unwrap_or(RATE)).max(60.0);
        Figures::of(self.workload().during(Nanos((seconds * 1e9) as u64), seed))
    }

    /// What is printed of the trace beside what was measured of ours.
    pub fn compare(&self, seen: &Figures) -> Vec<(&'static str, f64, f64)> {
        let printed = &self.printed;
        let rows = [
            ("IOPS", printed.iops, seen.iops),
            ("write share", printed.write_share, seen.write_share),
            ("KB a write", printed.write_kb, seen.writes.average_kb),
            ("KB a request", printed.average_kb, seen.average_kb),
            ("partial 4K", printed.partial[0], seen.stripes[0].pieces[1]),
            ("partial 8K", printed.partial[1], seen.stripes[1].pieces[1]),
        ];
        let known = rows.into_iter().filter_map(|(what, paper, ours)| Some((what, paper?, ours)));
        known.collect()
    }
}
