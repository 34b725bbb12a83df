//! `eval pressure`: a pool nearly full under a sustained mixed load, in virtual time: throughput
//! and p99.9 second by second. No cliff, nothing stuck.

use std::cell::RefCell;
use std::rc::Rc;

use io::Nanos;
use model::presets::Preset;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::load::{Arrivals, Sizes, Span, Stream, closed, play};
use crate::array::prepare::TrimFlag;
use crate::array::stand::Stand;
use crate::array::tally::{Second, Tally};

#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The volume, in percent of what the pool can hold; all of it is written
    #[arg(long, value_delimiter = ',', default_values_t = [70, 80, 90, 95])]
    fill_percents: Vec<u64>,
    #[arg(long, default_value_t = 8)]
    drives: usize,
    #[arg(long, default_value_t = Preset::DcSata)]
    preset: Preset,
    /// Bytes of a request
    #[arg(long, default_value_t = 4096)]
    bytes: u64,
    #[arg(long, default_value_t = 50)]
    read_percent: u64,
    /// Requests under way in the closed loop
    #[arg(long, default_value_t = 32)]
    depth: usize,
    /// Requests a second in the open loop
    #[arg(long, default_value_t = 8000)]
    rate: u64,
    /// Seconds measured
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    #[arg(long, default_value_t = 10)]
    warmup: u64,
    #[command(flatten)]
    trim: TrimFlag,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints every second
    #[arg(long)]
    series: bool,
}

pub fn run(options: &Options) -> Result<(), String> {
    let trim = options.trim.trim();
    println!(
        "{} drives, aged {}, {trim}, {} byte requests, {} % reads, {} s",
        options.drives, options.preset, options.bytes, options.read_percent, options.seconds
    );
    println!(
        "{:>5} {:<14} {:>10} {:>10} {:>7} {:>11} {:>11} {:>11} {:>11}",
        "full",
        "load",
        "median /s",
        "worst /s",
        "ratio",
        "p99.9 ms",
        "worst p99.9",
        "longest ms",
        "silence ms"
    );
    for &fill_percent in &options.fill_percents {
        let shape = Shape {
            volume_percent: fill_percent,
            ..Shape::new(crate::tail::width(options.drives))
        };
        let size = options.preset.sizes().0;
        let stand = Stand::new(options.preset, size, options.drives, trim, &shape, options.seed)?;
        for open in [false, true] {
            let tally = measure(&stand, options, open);
            let load = match open {
                true => format!("open {}/s", options.rate),
                false => format!("closed {}", options.depth),
            };
            report(fill_percent, &load, &tally, options.series);
        }
    }
    Ok(())
}

fn measure(stand: &Stand, options: &Options, open: bool) -> Tally {
    let rest = stand.of(System::Fusion).expect("a pool has no layout to refuse");
    let world = rest.wake(options.seed);
    let span = Span {
        warmup: Nanos::from_secs(options.warmup),
        measured: Nanos::from_secs(options.seconds),
    };
    let tally = Rc::new(RefCell::new(Tally::with_series(span.measured)));
    world.env.block_on(async {
        let opened = stand.open(System::Fusion, &world).await;
        let stream = Stream {
            arrivals: Arrivals::Poisson,
            rate: options.rate,
            read_percent: options.read_percent,
            reads: Sizes::one(options.bytes),
            writes: Sizes::one(options.bytes),
            first: 0,
            span: opened.array.size(),
            seed: options.seed,
        };
        if open {
            play(&world, &opened.array, &[(stream, tally.clone())], span, || {}).await;
        } else {
            closed(&world, &opened.array, (&stream, &tally), options.depth, span).await;
        }
    });
    tally.take()
}

fn report(fill_percent: u64, load: &str, tally: &Tally, series: bool) {
    let seconds = tally.seconds();
    let mut rates: Vec<u64> = seconds.iter().map(|second| second.answered).collect();
    rates.sort_unstable();
    let mut tails: Vec<u64> = seconds.iter().map(|second| second.p999).collect();
    tails.sort_unstable();
    let (median, worst) = (rates[rates.len() / 2], rates[0]);
    let millis = |nanos: u64| nanos as f64 / 1e6;
    let all = tally.all();
    println!(
        "{fill_percent:>3} % {load:<14} {median:>10} {worst:>10} {:>7.2} {:>11.2} {:>11.2} \
         {:>11.1} {:>11.1}{}",
        worst as f64 / median.max(1) as f64,
        millis(all.value_at_quantile(0.999)),
        millis(tails[tails.len() - 1]),
        millis(all.max()),
        millis(tally.silence().0),
        if tally.failed > 0 { format!("  {} failed", tally.failed) } else { String::new() },
    );
    if series {
        for (at, Second { answered, p999, .. }) in seconds.iter().enumerate() {
            println!("      {at:>4} s {answered:>10}/s {:>11.2} ms", millis(*p999));
        }
    }
}
