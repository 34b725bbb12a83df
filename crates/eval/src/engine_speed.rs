//! `eval engine`: what the engine itself costs, over memory drives, without transport.

use engine::{CreateSpec, OpenOptions, Pool, SpikeHandling, Volume, create};
use io::slice::SLICE_WORK_MAX;
use io::uring::UringEnv;

use crate::load::{self, Kind, Load, Outcome};

#[derive(clap::Args)]
pub struct Options {
    /// Memory drives
    #[arg(long, default_value_t = 13)]
    drives: usize,
    /// MiB of each drive
    #[arg(long, default_value_t = 256)]
    drive_mib: u64,
    /// Requests of each kind
    #[arg(long, default_value_t = 400_000)]
    requests: u64,
    /// Compares with detection and histograms off, and prints ratios instead
    #[arg(long, conflicts_with = "checksums")]
    overhead: bool,
    /// Compares pools with and without checksums, and prints ratios instead
    #[arg(long)]
    checksums: bool,
    /// Rounds of the comparison; the median counts
    #[arg(long, default_value_t = 31)]
    rounds: usize,
}

const KIB: u64 = 1 << 10;

/// Name, kind, bytes, and how many times fewer requests than asked for.
const OPERATIONS: [(&str, Kind, u64, u64); 8] = [
    ("4 KiB random read", Kind::Read, 4 * KIB, 1),
    ("64 KiB random read", Kind::Read, 64 * KIB, 8),
    ("4 KiB random write", Kind::Write, 4 * KIB, 2),
    ("4 KiB random write, FUA", Kind::Durable, 4 * KIB, 8),
    ("512 B random write", Kind::Write, 512, 8),
    ("512 B as read and write of a page", Kind::PageUpdate, 512, 8),
    ("64 KiB random write", Kind::Write, 64 * KIB, 16),
    ("384 KiB full stripe write", Kind::Write, 384 * KIB, 64),
];

const DEPTHS: [usize; 2] = [1, 32];

pub fn run(options: &Options) {
    let env = UringEnv::new().expect("this benchmark needs io_uring");
    println!("engine alone, {} memory drives, 6+1, 64 KiB blocks, one core", options.drives);
    match (options.overhead, options.checksums) {
        (true, _) => env.block_on(overhead(&env, options)),
        (_, true) => env.block_on(checksums(&env, options)),
        _ => env.block_on(speed(&env, options)),
    }
    env.drop_tasks();
}

async fn speed(env: &UringEnv, options: &Options) {
    println!(
        "{:<34} {:>4} {:>12} {:>10} {:>10}  longest slices, us",
        "operation", "QD", "op/s", "p50 us", "p99 us"
    );
    let (_pool, volume) = filled(env, options, SpikeHandling::default(), true).await;
    for (name, kind, bytes, scale) in OPERATIONS {
        for depth in DEPTHS {
            env.forget_slices();
            let done = measure(env, &volume, kind, bytes, depth, options.requests / scale, 0).await;
            let (p50, p99) = (done.micros(0.5), done.micros(0.99));
            let (rate, slices) = (done.per_second(), load::longest_slices(env));
            println!("{name:<34} {depth:>4} {rate:>12.0} {p50:>10.2} {p99:>10.2}  {slices}");
        }
    }
    println!("most work in a slice (at most {SLICE_WORK_MAX}): {}", load::most_work(env));
}

/// The same pool three times in one process: without spike handling and histograms, with detection
/// and histograms, with all that acts on them. They take turns in short rounds, in another order
/// each time, so that whatever else the machine does meets all alike.
async fn overhead(env: &UringEnv, options: &Options) {
    let mut pools = Vec::new();
    for handling in [SpikeHandling::OFF, SpikeHandling::WATCH, SpikeHandling::default()] {
        pools.push(filled(env, options, handling, true).await);
    }
    println!(
        "{:<34} {:>4} {:>12} {:>12} {:>12} {:>10} {:>10}",
        "operation", "QD", "off op/s", "detect op/s", "all op/s", "detect %", "all %"
    );
    for (name, kind, bytes, scale) in OPERATIONS {
        for depth in DEPTHS {
            let requests = (options.requests / scale / 8).max(1);
            let mut rates = [const { Vec::new() }; 3];
            for round in 0..options.rounds {
                for turn in 0..pools.len() {
                    let at = (round + turn) % pools.len();
                    let volume = &pools[at].1;
                    let done = measure(env, volume, kind, bytes, depth, requests, round).await;
                    rates[at].push(done.per_second());
                }
            }
            let slower = |at: usize| {
                let each =
                    rates[0].iter().zip(&rates[at]).map(|(off, on)| (off / on - 1.0) * 100.0);
                median(each.collect())
            };
            println!(
                "{name:<34} {depth:>4} {:>12.0} {:>12.0} {:>12.0} {:>10.1} {:>10.1}",
                median(rates[0].clone()),
                median(rates[1].clone()),
                median(rates[2].clone()),
                slower(1),
                slower(2),
            );
        }
    }
}

/// The same pool without checksums and with them, in turns as above.
async fn checksums(env: &UringEnv, options: &Options) {
    let mut pools = Vec::new();
    for on in [false, true] {
        pools.push(filled(env, options, SpikeHandling::default(), on).await);
    }
    println!("{:<34} {:>4} {:>12} {:>12} {:>8}", "operation", "QD", "off op/s", "on op/s", "on %");
    for (name, kind, bytes, scale) in OPERATIONS {
        for depth in DEPTHS {
            let requests = (options.requests / scale / 8).max(1);
            let mut rates = [const { Vec::new() }; 2];
            for round in 0..options.rounds {
                for at in [round % 2, (round + 1) % 2] {
                    let volume = &pools[at].1;
                    let done = measure(env, volume, kind, bytes, depth, requests, round).await;
                    rates[at].push(done.per_second());
                }
            }
            let [off, on] = &rates;
            let slower = off.iter().zip(on).map(|(off, on)| (off / on - 1.0) * 100.0);
            println!(
                "{name:<34} {depth:>4} {:>12.0} {:>12.0} {:>8.1}",
                median(off.clone()),
                median(on.clone()),
                median(slower.collect())
            );
        }
    }
    for (on, (pool, _)) in ["off", "on"].iter().zip(&pools) {
        let status = pool.status();
        let stored = status.space.used.max(1) as f64 / (1 << 30) as f64;
        println!(
            "checksums {on}: {:.2} GiB stored; for each GiB {:.0} KiB of sums in memory, {:.0} KiB \
             in a checkpoint (all of it, one copy)",
            stored,
            status.memory.sum_bytes as f64 / 1024.0 / stored,
            status.memory.checkpoint_bytes as f64 / 1024.0 / stored
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn measure(
    env: &UringEnv,
    volume: &Volume<UringEnv>,
    kind: Kind,
    bytes: u64,
    depth: usize,
    requests: u64,
    round: usize,
) -> Outcome {
    let span = volume.size();
    // Reads are of other places in each round: the same few again would be found in caches. Writes
    // are of the same: each place that is new to them is one more for conversion to follow up.
    let again = if kind == Kind::Read { round * (DEPTHS[1] + 1) } else { 0 };
    let seed = (again + depth) as u64;
    let load = Load { kind, bytes, align: bytes, depth, requests, span, seed };
    load::run(env, volume, load).await
}

/// A full volume, on a pool that is half full: room to write without compaction in the way.
async fn filled(
    env: &UringEnv,
    options: &Options,
    spikes: SpikeHandling,
    checksums: bool,
) -> (Pool<UringEnv>, Volume<UringEnv>) {
    let size = options.drive_mib << 20;
    let drives = load::memory_drives(options.drives, size).await;
    let spec = CreateSpec { checksums, ..CreateSpec::new("bench") };
    let plan = create(env, &drives, &spec).await.expect("a pool");
    let opened = Pool::open(env, drives, OpenOptions { spikes, ..OpenOptions::default() }).await;
    let pool = opened.expect("it opens");
    let size = plan.usable_bytes / 2 / (384 * KIB) * (384 * KIB);
    pool.volume_create("v", size, None, None).await.expect("a volume");
    let volume = pool.volume("v").expect("just made");
    load::fill(&volume, size, 384 * KIB).await;
    (pool, volume)
}
