//! GC-Steering §IV.C, Figure 11: response time while a lost drive is rebuilt, against the same
//! requests without a loss.
//!
//! ```text
//!              drives                          what is written where
//!  LGC, GGC    RAID5 4+1, a spare              the spare, by one
//!  Reserved    RAID5 5+1, staging space        the staging space of the five others
//!  Dedicated   RAID5 4+1, a drive for          the spare, while writes go to the staging drive
//!              staging, a spare
//! ```
//! In the paper one drive is both for staging and the spare; here each has its own.

use io::Nanos;
use model::presets::Preset;
use schemes::scheme::steering::Staging;
use serde_json::json;

use super::runs::{TRACES, mean};
use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::layout::Variant;
use crate::array::served::Speed;
use crate::array::tally::Tally;
use crate::experiment::bed::{Bed, latencies, parameters, span};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table, traced,
};
use crate::rebuild::{Case, Demand, LOST, MB, STEERING_DRIVES, STEERING_SPEED, Times, spared};

pub const EXPERIMENT: Experiment = Experiment {
    name: "steering-fig11",
    title: "GC-Steering Figure 11: response time during reconstruction",
    source: "GC-Steering §IV.C",
    cells,
    conclude,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Local,
    Global,
    Reserved,
    Dedicated,
}

const WAYS: [Way; 4] = [Way::Local, Way::Global, Way::Reserved, Way::Dedicated];

/// What else the answer may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    /// As in the paper.
    Paper,
    /// Drives that stop for everything while they collect.
    Blocking,
    /// Ten times as fast as the paper lets md rebuild.
    Fast,
}

const SETTINGS: [Setting; 3] = [Setting::Paper, Setting::Blocking, Setting::Fast];
const FAST: Speed = Speed::AtMost(100 * MB);
/// Under which the other settings are looked at: many small requests, as most traces.
const SENSITIVE: (&str, &str) = TRACES[2];
const SEED: u64 = 1;

impl Way {
    fn label(self) -> &'static str {
        match self {
            Way::Local => "LGC",
            Way::Global => "GGC",
            Way::Reserved => "GC-Steering, reserved",
            Way::Dedicated => "GC-Steering, dedicated",
        }
    }

    /// Percent that the response time is above the normal one.
    fn published(self) -> f64 {
        match self {
            Way::Local => 45.6,
            Way::Global => 47.3,
            Way::Reserved => -55.7,
            Way::Dedicated => -10.1,
        }
    }

    fn system(self) -> System {
        match self {
            Way::Local => System::GcLocal,
            Way::Global => System::GcGlobal,
            Way::Reserved | Way::Dedicated => System::SteeringOracle,
        }
    }

    fn bed(self, scale: Scale, setting: Setting) -> Bed {
        let of = match setting {
            Setting::Blocking => Preset::ConsumerSata,
            Setting::Paper | Setting::Fast => Preset::DcSata,
        };
        let drive_bytes = scale.pick(of.sizes().0, 8 << 30);
        let (more, spares, staging) = match self {
            Way::Local | Way::Global => (0, 1, None),
            Way::Reserved => (0, 0, Some(spared(drive_bytes))),
            Way::Dedicated => (1, 1, Some(Staging::Dedicated)),
        };
        let variant = Variant { staging, ..Variant::default() };
        let width = STEERING_DRIVES as u16;
        // "We fill the entire space on each SSD with valid data" (§IV.A).
        let shape = Shape { volume_percent: 90, ..Shape::new(width) };
        let bed = Bed::new(of, STEERING_DRIVES + more, width);
        Bed { shape, variant, drive_bytes, spares, seed: SEED, ..bed }
    }
}

fn name(way: Way, setting: Setting, preset: &str) -> String {
    format!("steering-rebuild/{way:?}/{setting:?}/{preset}").to_lowercase()
}

fn cell(scale: Scale, way: Way, setting: Setting, preset: &'static str) -> Cell {
    let (bed, system) = (way.bed(scale, setting), way.system());
    let speed = if setting == Setting::Fast { FAST } else { STEERING_SPEED };
    // All of it takes minutes, and is the same throughout.
    let span = span(scale.pick(1, 10), scale.pick(3, 30));
    let own = json!({ "trace": preset, "lost": LOST, "speed": format!("{speed:?}") });
    let given = parameters(&bed, system, span, own);
    Cell::seeded(name(way, setting, preset), scale.pick(1.0, 5.0), given, move |seed| {
        let load = |size| traced::of(preset, (0, size), seed.of(bed.seed));
        let normal =
            bed.measure(system, span, bed.seed, |size| vec![("normal".to_owned(), load(size))])?;
        let zero = Nanos::ZERO;
        let (warmup, during_max) = (span.warmup, span.measured);
        let times = Times { warmup, before: zero, during_max, after: zero };
        let demand = Demand { rate: 0, bytes: 0, read_percent: 0 };
        let case = Case { system, speed, lost: LOST, demand, times, seed: bed.seed };
        let outcome = case.run_under(&*bed.stand(system)?, load)?;
        if outcome.restored == 0 {
            return Err("nothing of the lost drive was restored".to_owned());
        }
        let during: &Tally = &outcome.phases[1];
        let mut figures = normal;
        latencies(&mut figures, "rebuild", during);
        figures.set("rebuild/mb_per_second", outcome.rate() / 1e6);
        match (during.failed, outcome.trouble) {
            (0, None) => Ok(figures),
            (failed, trouble) => Err(format!("{failed} requests failed; {trouble:?}")),
        }
    })
}

fn cells(scale: Scale) -> Vec<Cell> {
    let mut cells = Vec::new();
    for way in WAYS {
        cells.extend(TRACES.map(|(_, preset)| cell(scale, way, Setting::Paper, preset)));
        cells.extend(SETTINGS[1..].iter().map(|&other| cell(scale, way, other, SENSITIVE.1)));
    }
    cells
}

/// Response time during the rebuild, percent above that of `base` in the normal state.
fn above(found: &Found, (way, base): (Way, Way), setting: Setting, presets: &[&str]) -> f64 {
    let of = |way, preset: &str, figure| found.value(&name(way, setting, preset), figure);
    let part = |preset: &&str| {
        of(way, preset, "rebuild/mean_ms") / of(base, preset, "normal/mean_ms") - 1.0
    };
    mean(presets.iter().map(part)) * 100.0
}

fn checks(found: &Found) -> Vec<Check> {
    let all = TRACES.map(|(_, preset)| preset);
    let mut checks = Vec::new();
    for way in WAYS {
        let what = format!("{}: above its own normal state", way.label());
        let why = match way {
            Way::Local | Way::Global => {
                "at 10 MB/s a drive is busy with it for a small part of the time; what remains is \
                 that reads of the lost drive read all others"
            }
            Way::Dedicated => {
                "while the spare is filled all writes of data go to the one staging drive, which \
                 nothing repays on drives that collect in short pieces; ten times as fast it is \
                 over sooner, and costs less (below)"
            }
            Way::Reserved => {
                "drives that collect in short pieces leave nothing to win by steering, and what is \
                 rebuilt goes to the drives that serve, with a parity of its own, where LGC has an \
                 idle spare: the faster, the more it costs (100 MB/s, below)"
            }
        };
        let ours = above(found, (way, way), Setting::Paper, &all);
        checks.push(Check::new(what, "%", way.published(), ours).because(why));
    }
    for way in [Way::Reserved, Way::Dedicated] {
        let what = format!("{}: above the normal state of LGC", way.label());
        let ours = above(found, (way, Way::Local), Setting::Paper, &all);
        checks.push(Check::new(what, "%", way.published(), ours).because(
            "the paper's -63.3 % without a loss (Figure 7) and -55.7 % with one go together if \
             both are of LGC",
        ));
    }
    for setting in &SETTINGS[1..] {
        let (what, why) = match setting {
            Setting::Blocking => (
                "drives that block",
                "the sensitivity: a run has few collections, and which of the two states they \
                 fall in counts as well, as of LGC, which steers nothing",
            ),
            _ => ("100 MB/s", "the sensitivity: how much of a drive the rebuild takes"),
        };
        for way in WAYS {
            let ours = above(found, (way, way), *setting, &[SENSITIVE.1]);
            let what = format!("{}, {what}, {}: above its own", SENSITIVE.0, way.label());
            checks.push(Check::ours(what, "%", ours).because(why));
        }
    }
    let rate = |way| {
        let of = |preset| found.value(&name(way, Setting::Paper, preset), "rebuild/mb_per_second");
        mean(all.map(of))
    };
    for way in WAYS {
        let what = format!("{}: rebuilt", way.label());
        checks.push(Check::new(what, "MB/s", 10.0, rate(way)));
    }
    checks
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let columns: Vec<&str> =
        ["trace"].into_iter().chain(WAYS.iter().map(|way| way.label())).collect();
    let mut tables = Vec::new();
    for (title, figure) in [
        ("Mean without a loss, milliseconds", "normal/mean_ms"),
        ("Mean during the rebuild, milliseconds", "rebuild/mean_ms"),
        ("99th percentile without a loss, milliseconds", "normal/p99_ms"),
        ("99th percentile during the rebuild, milliseconds", "rebuild/p99_ms"),
    ] {
        let mut table = Table::new(title, &columns);
        for (trace, preset) in TRACES {
            let of = |way: &Way| found.value(&name(*way, Setting::Paper, preset), figure);
            table.row(trace, WAYS.iter().map(of));
        }
        tables.push(table);
    }
    let ratio = |way: Way, preset: &str| {
        let of = |figure| found.value(&name(way, Setting::Paper, preset), figure);
        of("rebuild/mean_ms") / of("normal/mean_ms")
    };
    let picture = Picture {
        name: "during".to_owned(),
        title: "Mean response time during the rebuild".to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("trace"),
        y: Axis::linear("of that without a loss"),
        groups: TRACES.map(|(trace, _)| trace.to_owned()).into(),
        series: WAYS
            .iter()
            .map(|&way| Series::bars(way.label(), TRACES.map(|(_, preset)| ratio(way, preset))))
            .collect(),
    };
    Conclusion { checks: checks(found), tables, pictures: vec![picture] }
}
