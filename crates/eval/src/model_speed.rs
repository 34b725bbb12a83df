//! `eval model`: modelled drive operations per second of one core, without payloads.

use io::model::{Command, Completion, Model, Tag};
use io::rng::Rng;
use io::uring::UringEnv;
use io::{Env, Nanos};
use model::presets::Preset;
use model::ssd::{Config, Fill, Ssd};

use crate::load;

#[derive(clap::Args)]
pub struct Options {
    /// Operations of each kind of load
    #[arg(long, default_value_t = 4_000_000)]
    operations: u64,
    /// Commands in flight
    #[arg(long, default_value_t = 32)]
    depth: u64,
}

const KIB: u64 = 1 << 10;

pub fn run(options: &Options) {
    let env = UringEnv::new().expect("this benchmark needs io_uring");
    let started = env.now();
    let seconds_since = |started| load::seconds(env.now().saturating_sub(started));
    let drive = Ssd::new(data_centre(), 1).expect("it fits together");
    let gib = drive.geometry().size as f64 / (1u64 << 30) as f64;
    println!("modelled SSD, {gib:.1} GiB, 4 KiB map, paced collection, one core");
    println!("aged in {:.0} ms", seconds_since(started) * 1e3);
    println!("{:<36} {:>12} {:>14} {:>8}", "4 KiB random", "op/s", "model's op/s", "WA");
    for reads_percent in [100, 70, 50, 0] {
        let mut ssd = Ssd::new(data_centre(), 1).expect("it fits together");
        let started = env.now();
        let took = keep_busy(&mut ssd, reads_percent, options);
        let seconds = seconds_since(started);
        let operations = options.operations as f64;
        println!(
            "{:<36} {:>12.0} {:>14.0} {:>8.2}",
            format!("{reads_percent} % reads, QD {}", options.depth),
            operations / seconds,
            operations * 1e9 / took.0 as f64,
            ssd.counters().write_amplification(),
        );
    }
}

/// Keeps `depth` commands in flight; the time that passed for the drive.
fn keep_busy(ssd: &mut Ssd, reads_percent: u64, options: &Options) -> Nanos {
    let pages = ssd.geometry().size / (4 * KIB);
    let mut rng = Rng::new(reads_percent);
    let mut submitted = 0;
    let mut submit = |ssd: &mut Ssd, now: Nanos| {
        if submitted == options.operations {
            return;
        }
        let offset = rng.below(pages) * 4 * KIB;
        let command = if rng.chance(reads_percent, 100) {
            Command::Read { offset, len: 4 * KIB }
        } else {
            Command::Write { offset, len: 4 * KIB, durability: io::Durability::Cached }
        };
        ssd.submit(now, Tag(submitted), command);
        submitted += 1;
    };
    let mut now = Nanos::ZERO;
    let mut done: Vec<Completion> = Vec::new();
    for _ in 0..options.depth {
        submit(ssd, now);
    }
    while ssd.in_flight() > 0 {
        now = ssd.next_event().expect("commands are in flight");
        ssd.advance(now, &mut done);
        for _ in done.drain(..) {
            submit(ssd, now);
        }
    }
    now
}

/// A data-centre SATA drive in its steady state, of the size that `DRIVES.md` speaks of.
fn data_centre() -> Config {
    let preset = Preset::S4500;
    let config = preset.ssd_config(preset.default_size()).expect("an SSD has one");
    Config { fill: Fill::Aged, ..config }
}
