//! `eval space`: 4 KiB random overwrites of a volume that fills most of the pool.

use engine::{CreateSpec, OpenOptions, Pool, Volume, create};
use io::slice::SLICE_WORK_MAX;
use io::uring::UringEnv;

use crate::load::{self, Kind, Load};

#[derive(clap::Args)]
pub struct Options {
    #[arg(long, default_value_t = 13)]
    drives: usize,
    #[arg(long, default_value_t = 256)]
    drive_mib: u64,
    /// Volume size in percent of what the pool can hold
    #[arg(long, default_value_t = 80)]
    fill_percent: u64,
    /// Times the volume is overwritten
    #[arg(long, default_value_t = 3)]
    times: u64,
    /// Bytes of one write
    #[arg(long, default_value_t = 4096)]
    bytes: u64,
    /// Requests in flight
    #[arg(long, default_value_t = 32)]
    depth: usize,
}

/// The run is reported in this many parts; the first and the last are compared.
const PARTS: u64 = 10;

pub fn run(options: &Options) {
    let env = UringEnv::new().expect("this benchmark needs io_uring");
    env.block_on(async {
        let size = options.drive_mib << 20;
        let drives = load::memory_drives(options.drives, size).await;
        let plan = create(&env, &drives, &CreateSpec::new("bench")).await.expect("a pool");
        let pool = Pool::open(&env, drives, OpenOptions::default()).await.expect("it opens");
        let size = plan.usable_bytes * options.fill_percent / 100 / 65536 * 65536;
        pool.volume_create("v", size, None, None).await.expect("a volume");
        let volume = pool.volume("v").expect("just made");
        load::fill(&volume, size, 384 << 10).await;
        env.forget_slices();
        announce(options, size);
        let (rates, worst) = overwrite(&env, &pool, &volume, options, size).await;
        println!("last tenth / first tenth: {:.2}", rates[rates.len() - 1] / rates[0]);
        println!("longest slices, us (p99.9): {}", load::longest_slices(&env));
        println!("most work in a slice (at most {SLICE_WORK_MAX}): {}", load::most_work(&env));
        println!("longest request: {worst:.1} ms (bound: 1000 ms)");
        let counters = pool.counters();
        println!(
            "conversions {}, compacted stripes {}, merged blocks {}, relocated {} MiB, \
             checkpoints {}, waits {}",
            counters.conversions,
            counters.compacted_stripes,
            counters.merged_blocks,
            counters.relocated_bytes >> 20,
            counters.checkpoints,
            counters.space_waits
        );
    });
    env.drop_tasks();
}

fn announce(options: &Options, size: u64) {
    println!(
        "{} drives of {} MiB, volume {} MiB = {} % of usable",
        options.drives,
        options.drive_mib,
        size >> 20,
        options.fill_percent
    );
    println!(
        "{} byte random overwrites, {} times the volume, QD {}",
        options.bytes, options.times, options.depth
    );
    println!(
        "{:>5} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8} {:>9}",
        "part", "writes/s", "p50 us", "p99 us", "p99.9 us", "max ms", "WA", "repl %", "patches"
    );
}

/// Writes part by part. Returns the rate of each part and the longest request in ms.
async fn overwrite(
    env: &UringEnv,
    pool: &Pool<UringEnv>,
    volume: &Volume<UringEnv>,
    options: &Options,
    size: u64,
) -> (Vec<f64>, f64) {
    let mut rates = Vec::new();
    let mut worst = 0.0_f64;
    for part in 0..PARTS {
        let before = written(pool);
        let requests = size * options.times / options.bytes / PARTS;
        let load = Load {
            kind: Kind::Write,
            bytes: options.bytes,
            align: options.bytes,
            depth: options.depth,
            requests,
            span: size,
            seed: part,
        };
        let done = load::run(env, volume, load).await;
        let status = pool.status();
        let user = (requests * options.bytes) as f64;
        let longest = done.latencies.max() as f64 / 1e6;
        worst = worst.max(longest);
        rates.push(done.per_second());
        println!(
            "{:>5} {:>10.0} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>8.2} {:>8.1} {:>9}",
            part + 1,
            done.per_second(),
            done.micros(0.5),
            done.micros(0.99),
            done.micros(0.999),
            longest,
            (written(pool) - before) as f64 / user,
            status.space.replicated as f64 * 100.0 / status.space.total as f64,
            status.memory.patches
        );
    }
    (rates, worst)
}

/// Bytes written to all drives so far.
fn written(pool: &Pool<UringEnv>) -> u64 {
    pool.status().drives.iter().map(|drive| drive.counters.write_bytes).sum()
}
