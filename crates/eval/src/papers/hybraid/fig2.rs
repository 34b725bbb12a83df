//! HybRAID §2.1, Figure 2: writes of one size, aligned to the stripe or not, on RAID5 (3+1) and on
//! RAID1, one under way and 256.

use std::cell::RefCell;
use std::rc::Rc;

use io::Nanos;
use io::rng::Rng;
use model::presets::Preset;
use serde_json::json;

use super::runs::bed;
use crate::array::System;
use crate::array::load::{Load, Request, closed};
use crate::array::tally::Tally;
use crate::experiment::bed::{latencies, parameters, span};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Kind, Picture, Scale, Series, Table,
};

pub const ALIGNED: Experiment = Experiment {
    name: "hybraid-fig2a",
    title: "HybRAID Figure 2 (a): aligned writes on RAID5 and RAID1",
    source: "HybRAID §2.1",
    cells: |scale| cells(scale, true),
    conclude: |_, found| conclude(found, true),
};

pub const ANYWHERE: Experiment = Experiment {
    name: "hybraid-fig2b",
    title: "HybRAID Figure 2 (b): the same, not aligned to stripes",
    source: "HybRAID §2.1",
    cells: |scale| cells(scale, false),
    conclude: |_, found| conclude(found, false),
};

/// The stripe unit (Table 1).
const UNIT: u64 = 4 << 10;
const STRIPE: u64 = 3 * UNIT;
/// KiB of a write; of 12 and 24 whole stripes.
const KIB: [u64; 6] = [4, 8, 12, 16, 20, 24];
/// Jobs times requests of each: 1-1 and 16-16 (Table 1); the paper's text calls it 1 and 16.
const DEPTHS: [usize; 2] = [1, 256];
const SYSTEMS: [&str; 3] = ["raid5-open", "raid1", "raid10"];

/// Writes of one size at places that are multiples of something, or just behind one.
#[derive(Clone)]
struct Writes {
    bytes: u64,
    aligned: bool,
    span: u64,
    seed: u64,
}

impl Load for Writes {
    fn requests(&self) -> Box<dyn Iterator<Item = Request>> {
        let Writes { bytes, aligned, span, seed } = *self;
        let mut rng = Rng::new(seed);
        // Not aligned: a unit behind the beginning of a stripe.
        let (step, shift) = (bytes.next_multiple_of(STRIPE), if aligned { 0 } else { UNIT });
        let places = (span - shift - bytes) / step;
        let request = move || {
            let offset = rng.below(places) * step + shift;
            Some(Request { at: Nanos::ZERO, read: false, offset, len: bytes })
        };
        Box::new(std::iter::from_fn(request))
    }

    fn largest_write(&self) -> u64 {
        self.bytes
    }
}

fn name(system: &str, aligned: bool, depth: usize, kib: u64) -> String {
    let aligned = if aligned { "aligned" } else { "not-aligned" };
    format!("hybraid-writes/{system}/{aligned}/depth{depth}/{kib}k")
}

fn cells(scale: Scale, aligned: bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    for system in SYSTEMS {
        for depth in DEPTHS {
            cells.extend(KIB.map(|kib| cell(scale, system, aligned, depth, kib)));
        }
    }
    cells
}

fn cell(scale: Scale, label: &'static str, aligned: bool, depth: usize, kib: u64) -> Cell {
    let system: System = label.parse().expect("a system we know");
    let drives = if label == "raid1" { 2 } else { 4 };
    let bed = bed(scale, Preset::DcSata, drives);
    let span = span(0, scale.pick(1, 5));
    let own = json!({ "bytes": kib << 10, "aligned": aligned, "depth": depth });
    let given = parameters(&bed, system, span, own);
    Cell::seeded(name(label, aligned, depth, kib), scale.pick(0.5, 3.0), given, move |seed| {
        let stand = bed.stand(system)?;
        let world = stand.of(system)?.wake(bed.seed);
        world.env.block_on(async {
            let opened = stand.open(system, &world).await;
            let size = opened.array.size();
            let seed = seed.of(bed.seed);
            let writes = Writes { bytes: kib << 10, aligned, span: size, seed };
            let tally = Rc::new(RefCell::new(Tally::default()));
            closed(&world, &opened.array, (&writes, &tally), depth, span).await;
            let mut figures = Figures::default();
            let seconds = span.measured.0 as f64 / 1e9;
            figures.set("iops", tally.borrow().writes.len() as f64 / seconds);
            latencies(&mut figures, "writes", &tally.borrow());
            Ok(figures)
        })
    })
}

fn conclude(found: &Found, aligned: bool) -> Conclusion {
    let of = |system: &str, depth: usize, kib: u64| {
        found.value(&name(system, aligned, depth, kib), "iops")
    };
    let mut table =
        Table::new("Writes a second", &["system, depth", "4K", "8K", "12K", "16K", "20K", "24K"]);
    let mut pictures = Vec::new();
    for depth in DEPTHS {
        for system in SYSTEMS {
            table.row(format!("{system}, {depth}"), KIB.map(|kib| of(system, depth, kib)));
        }
        pictures.push(Picture {
            name: format!("depth{depth}"),
            title: format!("{depth} under way"),
            kind: Kind::Bars,
            x: Axis::linear("KiB of a write"),
            y: Axis::linear("writes a second"),
            groups: KIB.map(|kib| kib.to_string()).into(),
            series: SYSTEMS
                .iter()
                .map(|system| Series::bars(*system, KIB.map(|kib| of(system, depth, kib))))
                .collect(),
        });
    }
    let checks = checks(aligned, &of);
    Conclusion { checks, tables: vec![table], pictures }
}

const FULL: &str = "two drives are at what they can take (as many bytes a second of any size), \
                    RAID5 has four: the next line is without that";
const OVERLAP: &str = "the sensitivity: with 256 under way the reads before RAID5's writes \
                       overlap, here as there is no lock or thread that they share";
const THIRD: &str = "a write of 12K takes a modelled drive nearly twice as long as one of 4K, so a \
                     third of it on each is sooner done; the paper's are about as fast for both";
const BYTES: &str = "bytes alone decide, as drives take no more: RAID1's two get all of them, \
                     RAID5's four a third each, which makes 3";

fn checks(aligned: bool, of: &impl Fn(&str, usize, u64) -> f64) -> Vec<Check> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let over = |one: &str, other: &str, depth, sizes: &[u64]| {
        let each: Vec<f64> =
            sizes.iter().map(|&kib| of(one, depth, kib) / of(other, depth, kib)).collect();
        mean(&each)
    };
    let raid5 = SYSTEMS[0];
    // Bytes a second of whole stripes over those of less.
    let drop = |kib: u64| {
        let bytes = |depth, kib: u64| of(raid5, depth, kib) * kib as f64;
        mean(&DEPTHS.map(|depth| bytes(depth, 12) / bytes(depth, kib)))
    };
    let why = "modelled drives and no kernel between: the pre-read costs a read of a drive, not a \
               trip through md's stripe cache";
    match aligned {
        true => {
            let mut checks = vec![
                Check::new("RAID5: whole stripes over 4K writes", "x", 5.7, drop(4)).because(why),
                Check::new("RAID5: whole stripes over 8K writes", "x", 5.8, drop(8)).because(why),
            ];
            let small = |one, depth| over(one, raid5, depth, &[4, 8]);
            let large = |depth, kib| over(raid5, "raid1", depth, &[kib]);
            for (what, paper, ours, why) in [
                ("RAID1 over RAID5, 4K and 8K, one under way", 7.7, small("raid1", 1), why),
                ("RAID1 over RAID5, 4K and 8K, 256 under way", 4.2, small("raid1", 256), FULL),
                ("the same, RAID10 of four drives over RAID5", 4.2, small("raid10", 256), OVERLAP),
                ("RAID5 over RAID1, 12K, one under way", 1.04, large(1, 12), THIRD),
                ("RAID5 over RAID1, 12K, 256 under way", 1.9, large(256, 12), BYTES),
                ("RAID5 over RAID1, 24K, 256 under way", 2.2, large(256, 24), BYTES),
            ] {
                checks.push(Check::new(what, "x", paper, ours).because(why));
            }
            checks
        }
        false => vec![
            Check::ours(
                "RAID5 over RAID1, 12K, 256 under way",
                "x",
                over(raid5, "raid1", 256, &[12]),
            )
            .because("\"as low as small and partial stripe requests\""),
            Check::ours(
                "RAID5 over RAID1, 24K, 256 under way",
                "x",
                over(raid5, "raid1", 256, &[24]),
            ),
        ],
    }
}
