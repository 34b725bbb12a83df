//! `eval spikes`: what detection and redirection gain (FusionRAID §5.3, Table 6). 29 drives, 6+1,
//! the mix of TPC-C, YCSB-A, TensorFlow and VirtualDesktop, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use engine::{Counters, PoolStatus};
use io::Nanos;
use model::presets::Preset;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::load::{Span, play};
use crate::array::prepare::TrimFlag;
use crate::array::stand::Stand;
use crate::array::tally::{Tally, mean_of_slowest};
use crate::array::traces::{MIX, Trace};

#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// fusion-nd, fusion-paper, fusion, or any scheme
    #[arg(
        long,
        value_delimiter = ',',
        default_values_t = [System::FusionNd, System::FusionPaper, System::Fusion]
    )]
    systems: Vec<System>,
    #[arg(long, default_value_t = 29)]
    drives: usize,
    #[arg(long, default_value_t = Preset::DcSata)]
    preset: Preset,
    /// GiB of a drive; DRIVES.md calibrates 8
    #[arg(long, default_value_t = 8)]
    drive_gib: u64,
    /// Seconds measured
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    #[arg(long, default_value_t = 10)]
    warmup: u64,
    /// Of the pool, filled before
    #[arg(long, default_value_t = 20)]
    fill_percent: u64,
    #[command(flatten)]
    trim: TrimFlag,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// FusionRAID Table 6, milliseconds: the slowest 1 % without and with redirection, the slowest
/// 0.1 %.
const PUBLISHED: [[f64; 4]; 4] = [
    [1.90, 1.47, 6.34, 2.79],
    [3.04, 2.41, 15.37, 9.71],
    [2.31, 2.20, 52.16, 49.83],
    [6.96, 2.97, 45.49, 11.50],
];

/// One system's run.
pub struct Run {
    pub system: System,
    pub tallies: Vec<Tally>,
    /// What the pool counted and its status at the end, if it is one.
    counters: Option<Counters>,
    status: Option<PoolStatus>,
    before: Option<PoolStatus>,
    span: Span,
}

pub fn run(options: &Options) -> Result<(), String> {
    let shape = Shape {
        volume_percent: options.fill_percent,
        ..Shape::new(crate::tail::width(options.drives))
    };
    let Options { preset, drives, seed, .. } = *options;
    let trim = options.trim.trim();
    let stand = Stand::new(preset, options.drive_gib << 30, drives, trim, &shape, seed)?;
    let span = Span {
        warmup: Nanos::from_secs(options.warmup),
        measured: Nanos::from_secs(options.seconds),
    };
    println!(
        "{drives} drives, aged {preset}, {trim}, TPC-C + YCSB-A + TF + VD, {} s",
        options.seconds
    );
    let runs = options.systems.iter().map(|&system| measure(&stand, system, span, seed));
    let runs: Vec<Run> = runs.collect::<Result<_, _>>()?;
    tails(&runs);
    runs.iter().for_each(detection);
    Ok(())
}

pub fn measure(stand: &Stand, system: System, span: Span, seed: u64) -> Result<Run, String> {
    let world = stand.of(system)?.wake(seed);
    world.env.block_on(async {
        let opened = stand.open(system, &world).await;
        let part = (opened.array.size() / MIX.len() as u64) >> 20 << 20;
        let stream = |(at, trace): (usize, &Trace)| {
            let stream = trace.stream(part * at as u64, part, seed + at as u64);
            (stream, Rc::new(RefCell::new(Tally::default())))
        };
        let streams: Vec<_> = MIX.iter().enumerate().map(stream).collect();
        let status = || opened.fusion.as_ref().map(|fusion| fusion.pool.status());
        let before = RefCell::new(None);
        play(&world, &opened.array, &streams, span, || {
            before.replace(status());
        })
        .await;
        let tallies = streams.into_iter().map(|(_, tally)| tally.take()).collect();
        let counters = opened.fusion.as_ref().map(|fusion| fusion.pool.counters());
        Ok(Run { system, tallies, counters, status: status(), before: before.take(), span })
    })
}

/// Averages of the slowest 1 % and 0.1 % of each trace.
fn tails(runs: &[Run]) {
    println!(
        "\n{:<8} {:<13} {:>8} {:>9} {:>9} {:>9} {:>13} {:>15}",
        "trace", "system", "requests", "p50 ms", "p99", "p99.9", "slowest 1 %", "slowest 0.1 %"
    );
    for (at, trace) in MIX.iter().enumerate() {
        for run in runs {
            let all = run.tallies[at].all();
            let millis = |nanos: f64| nanos / 1e6;
            let quantile = |q: f64| millis(all.value_at_quantile(q) as f64);
            println!(
                "{:<8} {:<13} {:>8} {:>9.3} {:>9.3} {:>9.3} {:>13.2} {:>15.2}",
                trace.name,
                run.system,
                all.len(),
                quantile(0.5),
                quantile(0.99),
                quantile(0.999),
                millis(mean_of_slowest(&all, 10_000)),
                millis(mean_of_slowest(&all, 1_000))
            );
        }
        let [nd1, f1, nd01, f01] = PUBLISHED[at];
        println!(
            "{:<8} {:<13} {:>38} {nd1:>5.2} → {f1:>5.2} {nd01:>7.2} → {f01:>5.2}",
            trace.name, "published", ""
        );
    }
}

/// Spikes and redirections of a pool.
fn detection(run: &Run) {
    let (Some(counters), Some(status)) = (run.counters, &run.status) else { return };
    let before = run.before.as_ref();
    let base = before.map(|before| before.counters).unwrap_or_default();
    let sum = |status: &PoolStatus| {
        let spikes = status.drives.iter().map(|drive| drive.spikes);
        spikes.fold((0, 0), |sum, one| (sum.0 + one.spikes, sum.1 + one.spike_nanos))
    };
    let (spikes, nanos) = sum(status);
    let (old_spikes, old_nanos) = before.map_or((0, 0), sum);
    let (spikes, nanos) = (spikes - old_spikes, nanos - old_nanos);
    let drive_minutes = status.drives.len() as f64 * run.span.measured.0 as f64 / 60e9;
    let writes = counters.writes - base.writes;
    let redirected = counters.redirected_writes - base.redirected_writes;
    println!(
        "\n{}: {:.2} spikes a minute and drive (published 4.85 on fusion-nd), {:.2} ms each (3.79)",
        run.system,
        spikes as f64 / drive_minutes,
        nanos as f64 / spikes.max(1) as f64 / 1e6,
    );
    println!(
        "  redirected: {redirected} times, {:.2} for each 100 writes (published 0.73 on fusion), \
         {} reads; hedged: {} reads, {} writes, {} journal blocks, {} refused",
        redirected as f64 * 100.0 / writes.max(1) as f64,
        counters.redirected_reads - base.redirected_reads,
        counters.hedged_reads - base.hedged_reads,
        counters.hedged_writes - base.hedged_writes,
        counters.hedged_journal_blocks - base.hedged_journal_blocks,
        counters.hedges_refused - base.hedges_refused,
    );
}
