//! `eval engine`: what the engine itself costs, over memory drives, without transport.

use engine::{CreateSpec, OpenOptions, Pool, Volume, create};
use io::uring::UringEnv;

use crate::load::{self, Kind, Load};

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
}

const KIB: u64 = 1 << 10;

pub fn run(options: &Options) {
    let env = UringEnv::new().expect("this benchmark needs io_uring");
    println!("engine alone, {} memory drives, 6+1, 64 KiB blocks, one core", options.drives);
    println!("{:<34} {:>4} {:>12} {:>10} {:>10}", "operation", "QD", "op/s", "p50 us", "p99 us");
    env.block_on(async {
        let volume = pool(&env, options).await;
        let span = volume.size();
        load::fill(&volume, span, 384 * KIB).await;
        for (name, kind, bytes, scale) in [
            ("4 KiB random read", Kind::Read, 4 * KIB, 1),
            ("64 KiB random read", Kind::Read, 64 * KIB, 8),
            ("4 KiB random write", Kind::Write, 4 * KIB, 2),
            ("4 KiB random write, FUA", Kind::Durable, 4 * KIB, 8),
            ("512 B random write", Kind::Write, 512, 8),
            ("512 B as read and write of a page", Kind::PageUpdate, 512, 8),
            ("64 KiB random write", Kind::Write, 64 * KIB, 16),
            ("384 KiB full stripe write", Kind::Write, 384 * KIB, 64),
        ] {
            for depth in [1, 32] {
                let requests = options.requests / scale;
                let load =
                    Load { kind, bytes, align: bytes, depth, requests, span, seed: depth as u64 };
                let done = load::run(&env, &volume, load).await;
                let (p50, p99) = (done.micros(0.5), done.micros(0.99));
                println!(
                    "{name:<34} {depth:>4} {:>12.0} {p50:>10.2} {p99:>10.2}",
                    done.per_second()
                );
            }
        }
    });
    env.drop_tasks();
}

async fn pool(env: &UringEnv, options: &Options) -> Volume<UringEnv> {
    let size = options.drive_mib << 20;
    let drives = load::memory_drives(options.drives, size).await;
    let plan = create(env, &drives, &CreateSpec::new("bench")).await.expect("a pool");
    let pool = Pool::open(env, drives, OpenOptions::default()).await.expect("it opens");
    // Half full: room to write without compaction in the way.
    let size = plan.usable_bytes / 2 / (384 * KIB) * (384 * KIB);
    pool.volume_create("v", size, None, None).await.expect("a volume");
    pool.volume("v").expect("just made")
}
