//! What drives did under a load, and what an oracle says about it.
//!
//! The load is open: requests come whether the drive answers or not. So a trace doesn't depend
//! on who watches, and each setting of the detector is replayed over the same one.

use io::Nanos;
use model::presets::Preset;
use model::ssd::Fill;
use sim::drive::probe::{self, Period, Record, Span};
use sim::drive::spikes::{self, Rule, Spike};
use sim::drive::workload::{Load, Pattern, Workload};

use super::stalls::Stalls;

/// Whose thresholds and whose table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    DataCentre,
    Consumer,
    Disk,
}

impl Class {
    pub const ALL: [Class; 3] = [Class::DataCentre, Class::Consumer, Class::Disk];

    pub const fn name(self) -> &'static str {
        match self {
            Class::DataCentre => "data-centre SSD",
            Class::Consumer => "consumer SSD",
            Class::Disk => "hard disk",
        }
    }

    /// How much longer it is watched: requests and spikes are rarer.
    pub const fn patience(self) -> u64 {
        match self {
            Class::DataCentre => 1,
            _ => 5,
        }
    }
}

/// Some drives of one make under loads of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub class: Class,
    pub preset: Preset,
    pub pattern: Pattern,
    /// Requests a second; bursts of so many on average, or none.
    pub rate: f64,
    pub burst: Option<u32>,
    /// The drive answers nothing for a second now and then.
    pub stalls: bool,
}

/// Half reads: what a volume's reads and the copies and parities of its writes come to.
const POOL: Pattern = Pattern::Pool { read_percent: 50 };

const fn scene(class: Class, preset: Preset, rate: f64) -> Scene {
    Scene { class, preset, pattern: POOL, rate, burst: None, stalls: false }
}

/// Rates are those of a drive inside a pool that isn't overloaded; the last two of the first
/// class are as much as such a drive should get.
pub const SCENES: [Scene; 13] = [
    Scene { pattern: Pattern::Fusion, ..scene(Class::DataCentre, Preset::DcSata, 716.0) },
    scene(Class::DataCentre, Preset::DcSata, 1_000.0),
    Scene { burst: Some(16), ..scene(Class::DataCentre, Preset::DcSata, 1_000.0) },
    scene(Class::DataCentre, Preset::S4600, 1_000.0),
    Scene { burst: Some(16), ..scene(Class::DataCentre, Preset::S4600, 1_000.0) },
    scene(Class::DataCentre, Preset::DcNvme, 2_000.0),
    Scene { burst: Some(16), ..scene(Class::DataCentre, Preset::DcNvme, 2_000.0) },
    Scene { burst: Some(64), ..scene(Class::DataCentre, Preset::S4600, 3_000.0) },
    scene(Class::DataCentre, Preset::DcNvme, 4_000.0),
    scene(Class::Consumer, Preset::ConsumerSata, 300.0),
    Scene { burst: Some(16), ..scene(Class::Consumer, Preset::ConsumerSata, 300.0) },
    scene(Class::Disk, Preset::Hdd10k, 60.0),
    Scene { stalls: true, ..scene(Class::Disk, Preset::Hdd10k, 60.0) },
];

impl Scene {
    pub fn name(&self) -> String {
        let load = match self.pattern {
            Pattern::Fusion => "fusion",
            _ => "pool",
        };
        let burst = self.burst.map_or(String::new(), |burst| format!(" x{burst}"));
        let stalls = if self.stalls { " stalls" } else { "" };
        format!("{} {load} {}/s{burst}{stalls}", self.preset, self.rate)
    }
}

/// How much is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub drives: u64,
    pub seconds: u64,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub begin: Nanos,
    pub end: Nanos,
    /// By the oracle's rule.
    pub slow: bool,
}

/// One drive.
pub struct DriveTrace {
    /// In the order of dispatch.
    pub requests: Vec<Request>,
    /// Indices of them in the order of completion.
    pub completions: Vec<u32>,
    pub spikes: Vec<Spike>,
    /// By spike: its slow requests.
    pub victims: Vec<u32>,
    /// Time in which garbage was collected (of a disk: in which it was stalled).
    pub cause: Nanos,
    pub length: Nanos,
}

/// Seconds of every run before anything counts.
const WARMUP: Nanos = Nanos::from_secs(10);

/// Records each drive; drives differ by their seeds.
pub fn record(scene: &Scene, extent: Extent) -> Result<Vec<DriveTrace>, String> {
    (0..extent.drives).map(|drive| record_drive(scene, extent, extent.seed + drive)).collect()
}

fn record_drive(scene: &Scene, extent: Extent, seed: u64) -> Result<DriveTrace, String> {
    let mut model = scene.preset.build(scene.preset.default_size(), Fill::Aged, seed)?;
    let span = model.geometry().size;
    let load = match (scene.rate, scene.burst) {
        (rate, Some(burst)) => Load::Bursts { rate, burst },
        (rate, None) => Load::Open { rate },
    };
    let workload = Workload { pattern: scene.pattern, request: 4096, load, span };
    let length = Nanos::from_secs(extent.seconds);
    let when = Span { warmup: WARMUP, measured: length };
    if scene.stalls {
        model = Box::new(Stalls::new(model, seed));
    }
    probe::run(model.as_mut(), workload, seed, when).map(|record| DriveTrace::new(&record))
}

impl DriveTrace {
    pub fn new(record: &Record) -> DriveTrace {
        let rule = Rule::default();
        let limits = spikes::limits(record, rule);
        let mut requests: Vec<Request> = record
            .samples
            .iter()
            .map(|sample| Request {
                begin: sample.begin,
                end: sample.end(),
                slow: limits.exceeded_by(sample),
            })
            .collect();
        requests.sort_by_key(|request| request.begin);
        let mut completions: Vec<u32> = (0..requests.len() as u32).collect();
        completions.sort_by_key(|&index| requests[index as usize].end);
        let spikes = spikes::find(record, rule);
        DriveTrace {
            victims: victims(&requests, &spikes),
            requests,
            completions,
            spikes,
            cause: record.collections.iter().map(Period::length).fold(Nanos::ZERO, |a, b| a + b),
            length: record.length,
        }
    }
}

fn victims(requests: &[Request], spikes: &[Spike]) -> Vec<u32> {
    let mut slow = requests.iter().filter(|request| request.slow).peekable();
    let mut count = |spike: &Spike| {
        let within = |request: &&Request| request.begin < spike.period.end;
        std::iter::from_fn(|| slow.next_if(within)).count() as u32
    };
    spikes.iter().map(&mut count).collect()
}
