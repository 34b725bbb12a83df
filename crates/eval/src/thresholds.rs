//! `eval thresholds`: how much the detector's t and x̂ matter to a pool (FusionRAID §5.4,
//! Figure 13 (d)): latencies of the Exchange load over the grid, in virtual time. Redirection as
//! in the paper, no hedging, so that nothing else hides what the parameters do.

use std::cell::RefCell;
use std::rc::Rc;

use engine::{PoolStatus, SpikeHandling, Threshold};
use hdrhistogram::Histogram;
use io::Nanos;
use model::presets::Preset;

use crate::array::System;
use crate::array::fusion::{Fusion, Shape};
use crate::array::load::{Span, play};
use crate::array::prepare::TrimFlag;
use crate::array::stand::Stand;
use crate::array::tally::{Tally, mean_of_slowest};
use crate::array::traces::EXCHANGE;
use crate::array::world::World;

#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    #[arg(long, default_value_t = 29)]
    drives: usize,
    #[arg(long, default_value_t = Preset::DcSata)]
    preset: Preset,
    /// GiB of a drive; DRIVES.md calibrates 8
    #[arg(long, default_value_t = 8)]
    drive_gib: u64,
    /// Milliseconds
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 1.0, 2.0, 5.0, 10.0])]
    t: Vec<f64>,
    /// Stragglers that make a drive unresponsive
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    enter: Vec<u32>,
    /// So many times the published rate of 846 requests a second
    #[arg(long, default_value_t = 16)]
    times: u64,
    /// Seconds measured
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    #[arg(long, default_value_t = 3)]
    warmup: u64,
    #[command(flatten)]
    trim: TrimFlag,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(options: &Options) -> Result<(), String> {
    let Options { preset, drives, seed, times, .. } = *options;
    let shape = Shape { volume_percent: 20, ..Shape::new(crate::tail::width(drives)) };
    let trim = options.trim.trim();
    let stand = Stand::new(preset, options.drive_gib << 30, drives, trim, &shape, seed)?;
    println!("{drives} drives, aged {preset}, {trim}, Exchange x{times}, {} s", options.seconds);
    println!(
        "{:>6} {:>4} {:>8} {:>8} {:>8} {:>8} {:>8} {:>12} {:>14} {:>14} {:>12}",
        "t ms",
        "x^",
        "p50 ms",
        "p90",
        "p99",
        "p99.9",
        "p99.99",
        "slowest 1 %",
        "spikes a minute",
        "unresponsive %",
        "redirected %"
    );
    line("off", "", &measure(&stand, SpikeHandling::WATCH, options), options);
    for &t in &options.t {
        for &enter in &options.enter {
            let threshold = Threshold::Fixed(Nanos((t * 1e6) as u64));
            let handling = SpikeHandling { threshold, enter, ..SpikeHandling::PAPER };
            let run = measure(&stand, handling, options);
            line(&t.to_string(), &enter.to_string(), &run, options);
        }
    }
    let learned = SpikeHandling { threshold: Threshold::Learned, ..SpikeHandling::PAPER };
    line("learnt", "2", &measure(&stand, learned, options), options);
    Ok(())
}

/// What a run did.
struct Run {
    latencies: Histogram<u64>,
    before: PoolStatus,
    after: PoolStatus,
}

fn measure(stand: &Stand, handling: SpikeHandling, options: &Options) -> Run {
    let rest = stand.of(System::Fusion).expect("a pool has no layout to refuse");
    let world: World = rest.wake(options.seed);
    let span = Span {
        warmup: Nanos::from_secs(options.warmup),
        measured: Nanos::from_secs(options.seconds),
    };
    world.env.block_on(async {
        let fusion = Rc::new(Fusion::open(&world, handling).await);
        let array: Rc<dyn crate::array::Array> = fusion.clone();
        let trace = EXCHANGE.times(options.times);
        let tally = Rc::new(RefCell::new(Tally::default()));
        let streams = [(trace.stream(0, array.size(), options.seed), tally.clone())];
        let before = RefCell::new(None);
        play(&world, &array, &streams, span, || {
            before.replace(Some(fusion.pool.status()));
        })
        .await;
        let before = before.take().expect("the warm-up is over");
        let latencies = tally.borrow().all();
        Run { latencies, before, after: fusion.pool.status() }
    })
}

fn line(t: &str, enter: &str, run: &Run, options: &Options) {
    let millis = |quantile| run.latencies.value_at_quantile(quantile) as f64 / 1e6;
    let sum = |status: &PoolStatus| {
        let each = status.drives.iter().map(|drive| drive.spikes);
        each.fold((0, 0), |sum, one| (sum.0 + one.spikes, sum.1 + one.spike_nanos))
    };
    let (before, after) = (sum(&run.before), sum(&run.after));
    let drive_seconds = (run.after.drives.len() as u64 * options.seconds) as f64;
    let writes = run.after.counters.writes - run.before.counters.writes;
    let redirected = run.after.counters.redirected_writes - run.before.counters.redirected_writes;
    println!(
        "{t:>6} {enter:>4} {:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>12.2} {:>14.2} {:>14.3} \
         {:>12.2}",
        millis(0.5),
        millis(0.9),
        millis(0.99),
        millis(0.999),
        millis(0.9999),
        mean_of_slowest(&run.latencies, 10_000) / 1e6,
        (after.0 - before.0) as f64 * 60.0 / drive_seconds,
        (after.1 - before.1) as f64 / 1e7 / drive_seconds,
        redirected as f64 * 100.0 / writes.max(1) as f64,
    );
}
