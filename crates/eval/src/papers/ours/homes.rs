//! Each paper's home: its drives, how full they are, and what it runs on them. Requests come when
//! they come, whether an array keeps up or not: all schemes get the same ones.

use io::Nanos;
use model::presets::Preset;
use model::ssd::Fill;
use serde_json::json;

use super::rows::{Row, rows};
use crate::array::bound::Bound;
use crate::array::fusion::Shape;
use crate::array::layout::Variant;
use crate::array::load::{Arrivals, Load, Sizes, Span, Stream};
use crate::array::played::Played;
use crate::array::tally::Tally;
use crate::array::turns::Turns;
use crate::experiment::bed::{Bed, latencies, parameters, span};
use crate::experiment::{Cell, Figures, Scale, traced};
use crate::papers::fusionraid::mix::{Drives, TOLD, UNTOLD};
use crate::papers::{fusionraid, ldm, steering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    FusionRaid,
    Steering,
    Hybraid,
    Separation,
    Ldm,
}

/// Each of several traces has the array for so long.
const TURN: Nanos = Nanos::from_secs(1);
/// What all latencies are called together, in the cells of `bed`, too.
const ALL: &str = "all";

impl Home {
    pub const ALL: [Home; 5] =
        [Home::FusionRaid, Home::Steering, Home::Hybraid, Home::Separation, Home::Ldm];

    fn name(self) -> &'static str {
        match self {
            Home::FusionRaid => "fusionraid",
            Home::Steering => "steering",
            Home::Hybraid => "hybraid",
            Home::Separation => "separation",
            Home::Ldm => "ldm",
        }
    }

    pub fn bed(self, scale: Scale) -> Bed {
        /// GC-Steering §IV, HybRAID §4.1 (3+2).
        const FIVE: usize = 5;
        /// LDM §4.1: four SSDs of the array and two drives of its log.
        const SIX: usize = 6;
        let half = scale.pick(20, 50);
        match self {
            Home::FusionRaid => fusionraid::bed(scale, Fill::Aged),
            // "We fill the entire space on each SSD with valid data."
            Home::Steering => five_or_six(Preset::DcSata, FIVE, 90),
            Home::Hybraid => {
                // §4.1: a stripe unit of 4 KB.
                let variant = Variant { chunk: Some(4 << 10), ..Variant::default() };
                Bed { variant, ..five_or_six(Preset::DcSata, FIVE, half) }
            }
            Home::Separation => five_or_six(Preset::ConsumerSata, SIX, half),
            Home::Ldm => {
                let bed = five_or_six(Preset::ConsumerSata, SIX, half);
                Bed { disk_percent: ldm::DISK_PERCENT, ..bed }
            }
        }
    }

    /// Whole rounds of turns, where there are turns.
    pub fn span(self, scale: Scale) -> Span {
        match self {
            Home::FusionRaid => fusionraid::mix::seconds(scale),
            Home::Steering => span(scale.pick(1, 8), scale.pick(8, 80)),
            Home::Hybraid | Home::Separation => span(scale.pick(2, 4), scale.pick(6, 60)),
            // Some hundred requests a second together.
            Home::Ldm => span(scale.pick(2, 10), scale.pick(20, 200)),
        }
    }

    /// Its traces on an array of so many bytes: at once, each on a part, or in turn.
    fn loads(self, size: u64, seed: u64) -> Vec<(String, Turns<Played>)> {
        let in_turn = |loads: Vec<Played>| vec![(ALL.to_owned(), Turns::new(loads, TURN))];
        let alone = |load: Played| Turns::new(vec![load], TURN);
        let preset = |name: &str| Played::Made(traced::of(name, (0, size), seed));
        match self {
            Home::FusionRaid => {
                let mix = fusionraid::mix::loads(size, seed).into_iter();
                mix.map(|(name, load)| (name, alone(Played::Made(load)))).collect()
            }
            Home::Steering => in_turn(steering::TRACES.map(|(_, name)| preset(name)).into()),
            Home::Hybraid => in_turn(["hybraid-mean", "hybraid-web"].map(preset).into()),
            Home::Separation => {
                let of = |bytes| Played::Stream(beside(bytes, size, seed));
                in_turn([256 << 10, 4 << 10].map(of).into())
            }
            Home::Ldm => {
                let part = (size / ldm::TRACES.len() as u64) >> 20 << 20;
                let placed = |(at, (name, preset, ..)): (u64, (&str, &str, f64, f64))| {
                    let made = traced::of(preset, (part * at, part), seed + at);
                    (name.to_owned(), alone(Played::Made(made)))
                };
                (0..).zip(ldm::TRACES).map(placed).collect()
            }
        }
    }

    pub fn bound_name(self) -> String {
        format!("ours/{}/bound", self.name())
    }

    pub fn cell_name(self, row: &Row) -> String {
        match self {
            Home::FusionRaid => fusionraid::mix::cell_name(&row.system.to_string(), row.drives),
            // Those of one home side by side, for their drives' sake.
            _ => {
                let told = if row.drives == TOLD { "/told" } else { "" };
                let label = row.label.replace(", ", "-").replace(' ', "-");
                format!("ours/{}/{label}{told}", self.name())
            }
        }
    }

    pub fn cells(self, scale: Scale) -> Vec<Cell> {
        let untold = rows(self).0;
        let told = untold.iter().filter(|row| row.drives == UNTOLD).map(|row| row.on(TOLD));
        let each: Vec<Row> = untold.iter().cloned().chain(told).collect();
        let bound = [self.bound(scale)];
        bound.into_iter().chain(each.iter().map(|row| self.cell(scale, row))).collect()
    }

    fn cell(self, scale: Scale, row: &Row) -> Cell {
        if self == Home::FusionRaid {
            return fusionraid::mix::cell(scale, &row.system.to_string(), row.drives);
        }
        let Drives { fill, trim, .. } = row.drives;
        let bed = Bed { disks: row.disks, fill, trim, ..self.bed(scale) };
        let (system, span) = (row.system, self.span(scale));
        let given = parameters(&bed, system, span, json!({ "home": self.name() }));
        // Of it, filling is all but a second of the quick one.
        Cell::seeded(self.cell_name(row), scale.pick(8.0, 6.0), given, move |seed| {
            bed.measure(system, span, bed.seed, |size| self.loads(size, seed.of(bed.seed)))
        })
    }

    fn bound(self, scale: Scale) -> Cell {
        let (bed, span) = (self.bed(scale), self.span(scale));
        let given = json!({
            "home": self.name(),
            "preset": bed.preset.to_string(),
            "drives": bed.drives,
            "seconds": span.measured.0 / 1_000_000_000,
            "seed": bed.seed,
        });
        Cell::seeded(self.bound_name(), scale.pick(0.2, 2.0), given, move |seed| {
            let bound = Bound::new(bed.preset, bed.drives)?;
            // As full as the others' volumes, of as much space as the bound has.
            let raw = bed.drive_bytes * bed.drives as u64 * bed.shape.volume_percent / 100;
            let size = (raw as f64 / bound.least().bytes) as u64 >> 20 << 20;
            Ok(figures(&bound, &self.loads(size, seed.of(bed.seed)), span, size))
        })
    }
}

/// Drives of the least size that the preset has; what is made of them is as full as said.
fn five_or_six(preset: Preset, drives: usize, percent: u64) -> Bed {
    /// Of a pool of ours: as wide as a RAID5 of five.
    const WIDTH: u16 = 5;
    let shape = Shape { volume_percent: percent, ..Shape::new(WIDTH) };
    Bed { shape, drive_bytes: preset.sizes().0, ..Bed::new(preset, drives, WIDTH) }
}

/// As many reads as writes of one size, anywhere.
fn beside(bytes: u64, size: u64, seed: u64) -> Stream {
    /// Skourtis et al., Figure 3: what their single drive reads beside writers.
    const READS_A_SECOND: u64 = 525;
    Stream {
        arrivals: Arrivals::Poisson,
        rate: 2 * READS_A_SECOND,
        read_percent: 50,
        reads: Sizes::one(bytes),
        writes: Sizes::one(bytes),
        first: 0,
        span: size / bytes * bytes,
        seed,
    }
}

/// What the bound has of the figures of a measured array.
fn figures(bound: &Bound, loads: &[(String, impl Load)], span: Span, size: u64) -> Figures {
    let mut figures = Figures::default();
    let (mut all, mut user) = (Tally::default(), 0);
    for (_, load) in loads {
        let tally = bound.play(load, span, size);
        all.reads.add(&tally.reads).expect("the same bounds");
        all.writes.add(&tally.writes).expect("the same bounds");
        user += load.written(span);
    }
    latencies(&mut figures, ALL, &all);
    let least = bound.least();
    figures.set("drives/user_write_bytes", user as f64);
    figures.set("drives/write_amplification", least.bytes);
    figures.set("drives/flash_amplification", least.bytes);
    figures.set("drives/erases", least.erases * user as f64 / (1u64 << 30) as f64);
    figures.set("scheme/space", least.bytes);
    figures
}
