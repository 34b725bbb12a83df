//! `eval conversion`: what turning replicas into RAID stripes costs and gives (FusionRAID §5.4,
//! Figure 13 (a) to (c)), in virtual time: latency with and without it, bytes written for each
//! byte of the user's, space taken for each.

use std::cell::RefCell;
use std::rc::Rc;

use engine::ConversionPolicy;
use hdrhistogram::Histogram;
use io::{ModelCounters, Nanos};
use model::presets::Preset;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::load::{Load, Span, Stream, play};
use crate::array::prepare::TrimFlag;
use crate::array::served::Served;
use crate::array::stand::Stand;
use crate::array::tally::Tally;
use crate::array::traces::{MIX, Trace};

#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    #[arg(long, default_value_t = 29)]
    drives: usize,
    #[arg(long, default_value_t = Preset::DcSata)]
    preset: Preset,
    /// Seconds measured
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    #[command(flatten)]
    trim: TrimFlag,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// With conversion as soon as a tuple is full; without, because there is space enough.
const VARIANTS: [(&str, System, ConversionPolicy); 4] = [
    ("not converting", System::Fusion, ConversionPolicy::Lazy),
    ("converting", System::Fusion, ConversionPolicy::Eager),
    ("raid5", System::RAID5, ConversionPolicy::Lazy),
    ("raid10", System::RAID10, ConversionPolicy::Lazy),
];

/// What a run did.
struct Run {
    latencies: Histogram<u64>,
    user_bytes: u64,
    drives: ModelCounters,
    conversions: u64,
    /// Drive space for each byte of the user's; a fixed ratio where there is no pool.
    space: f64,
}

pub fn run(options: &Options) -> Result<(), String> {
    let Options { preset, drives, seed, .. } = *options;
    // Nothing is there before, so that space is that of what is written.
    let shape = |conversion| Shape {
        conversion,
        replicated_percent: 50,
        filled: false,
        ..Shape::new(crate::tail::width(drives))
    };
    let (trim, size) = (options.trim.trim(), preset.sizes().0);
    let stand = |conversion| Stand::new(preset, size, drives, trim, &shape(conversion), seed);
    let (eager, lazy) = (stand(ConversionPolicy::Eager)?, stand(ConversionPolicy::Lazy)?);
    println!("{drives} drives, aged {preset}, {trim}, {} s of each trace", options.seconds);
    println!(
        "{:<8} {:<15} {:>9} {:>9} {:>8} {:>12} {:>12} {:>9} {:>12}",
        "trace",
        "system",
        "p50 ms",
        "p99 ms",
        "p99 x",
        "drive bytes",
        "flash bytes",
        "space",
        "conversions"
    );
    let traces = MIX.iter().map(|trace| (trace.name, std::slice::from_ref(trace)));
    for (name, traces) in traces.chain([("mix", &MIX[..])]) {
        let mut base = None;
        for (variant, system, conversion) in VARIANTS {
            let stand = if conversion == ConversionPolicy::Eager { &eager } else { &lazy };
            let run = measure(stand, system, traces, options)?;
            let p99 = run.latencies.value_at_quantile(0.99);
            // To the first, which does not convert.
            let ratio = base.map_or(1.0, |base: u64| p99 as f64 / base as f64);
            base.get_or_insert(p99);
            let each = |bytes: u64| bytes as f64 / run.user_bytes.max(1) as f64;
            println!(
                "{name:<8} {variant:<15} {:>9.3} {:>9.3} {ratio:>8.2} {:>12.2} {:>12.2} {:>9.2} \
                 {:>12}",
                run.latencies.value_at_quantile(0.5) as f64 / 1e6,
                p99 as f64 / 1e6,
                each(run.drives.host_write_bytes),
                each(run.drives.flash_write_bytes),
                run.space,
                run.conversions,
            );
        }
    }
    Ok(())
}

fn measure(
    stand: &Stand,
    system: System,
    traces: &[Trace],
    options: &Options,
) -> Result<Run, String> {
    let world = stand.of(system)?.wake(options.seed);
    let span = Span { warmup: Nanos::ZERO, measured: Nanos::from_secs(options.seconds) };
    Ok(world.env.block_on(async {
        let opened = stand.open(system, &world).await;
        let part = (opened.array.size() / traces.len() as u64) >> 20 << 20;
        let stream = |(at, trace): (usize, &Trace)| {
            let stream = trace.stream(part * at as u64, part, options.seed + at as u64);
            (stream, Rc::new(RefCell::new(Tally::default())))
        };
        let streams: Vec<_> = traces.iter().enumerate().map(stream).collect();
        let before = world.counters();
        play(&world, &opened.array, &streams, span, || {}).await;
        if let Some(fusion) = &opened.fusion {
            // What is still to be converted is part of the price.
            io::Env::sleep_until(&world.env, io::Env::now(&world.env) + SETTLE).await;
            fusion.pool.flush().await.expect("nothing is wrong with the drives");
        }
        let after = world.counters();
        let mut latencies = streams[0].1.borrow().all();
        for (_, tally) in &streams[1..] {
            latencies.add(tally.borrow().all()).expect("the same bounds");
        }
        let bytes = |(stream, _): &(Stream, _)| stream.written(span);
        Run {
            latencies,
            user_bytes: streams.iter().map(bytes).sum(),
            drives: ModelCounters {
                host_write_bytes: after.host_write_bytes - before.host_write_bytes,
                flash_write_bytes: after.flash_write_bytes - before.flash_write_bytes,
                ..after
            },
            conversions: opened.fusion.as_ref().map_or(0, |f| f.pool.counters().conversions),
            space: match (&opened.fusion, &opened.served) {
                (Some(fusion), _) => space(&fusion.pool.status().space),
                (None, served) => served.as_ref().map_or(1.0, Served::space),
            },
        }
    }))
}

/// Time to convert what is left.
const SETTLE: Nanos = Nanos::from_secs(5);

fn space(status: &engine::SpaceStatus) -> f64 {
    (status.replicated + status.raid + status.limbo) as f64 / status.used.max(1) as f64
}
