//! `eval recovery`: bytes of metadata per block, and how long opening takes after a kill.

use engine::{CreateSpec, OpenOptions, Pool, RecoveryReport, create};
use io::Env;
use io::mem::MemDrive;
use io::uring::{RealDrive, UringEnv};

use crate::load::{self, Kind, Load};

#[derive(clap::Args)]
pub struct Options {
    #[arg(long, default_value_t = 13)]
    drives: usize,
    /// Blocks mapped before the kill
    #[arg(long, default_value_t = 2_000_000)]
    blocks: u64,
    /// KiB of a block; small, so that two million fit in memory
    #[arg(long, default_value_t = 4)]
    block_kib: u64,
    /// Small writes after the checkpoint, which are in the journal only
    #[arg(long, default_value_t = 200_000)]
    journaled: u64,
}

pub fn run(options: &Options) {
    metadata_per_block(options.drives);
    println!();
    let env = UringEnv::new().expect("this benchmark needs io_uring");
    println!("opening after a kill, {} KiB blocks, memory drives:", options.block_kib);
    println!(
        "{:>10} {:>10} {:>10} {:>9} {:>9} {:>10} {:>10} {:>10}",
        "blocks", "journaled", "objects", "replayed", "verified", "load ms", "replay ms", "open ms"
    );
    for blocks in [options.blocks / 8, options.blocks] {
        for journaled in [0, options.journaled / 4, options.journaled] {
            let (report, open) = reopen(&env, options, blocks, journaled);
            println!(
                "{:>10} {:>10} {:>10} {:>9} {:>9} {:>10.1} {:>10.1} {:>10.1}",
                blocks,
                journaled,
                report.objects_loaded,
                report.records_replayed,
                report.records_verified,
                report.load_nanos as f64 / 1e6,
                report.replay_nanos as f64 / 1e6,
                open * 1e3
            );
        }
    }
}

fn drives(count: usize, size: u64) -> Vec<RealDrive> {
    let drive = |at| RealDrive::from(MemDrive::new(format!("mem:{at}"), size, 4096));
    (0..count).map(drive).collect()
}

/// Fills part of a pool of 64 KiB blocks and reports what the maps cost.
fn metadata_per_block(count: usize) {
    let env = UringEnv::new().expect("this benchmark needs io_uring");
    env.block_on(async {
        let drives = drives(count, 768 << 20);
        let plan = create(&env, &drives, &CreateSpec::new("bench")).await.expect("a pool");
        let pool = Pool::open(&env, drives, OpenOptions::default()).await.expect("it opens");
        let size = plan.usable_bytes / (384 << 10) * (384 << 10);
        pool.volume_create("v", size, None, None).await.expect("a volume");
        let volume = pool.volume("v").expect("just made");
        load::fill(&volume, size, 384 << 10).await;
        pool.checkpoint().await.expect("a checkpoint");
        let (memory, checkpoint) = (pool.memory(), pool.memory().checkpoint_bytes);
        let blocks = (size / 65536) as f64;
        let all = memory.map_bytes + memory.space_bytes + memory.tuple_bytes + memory.patch_bytes;
        println!("metadata, {} blocks of 64 KiB written in full stripes (6+1):", blocks);
        let each = |bytes: u64| bytes as f64 / blocks;
        println!("  memory, bytes a block:");
        println!("    map     {:>6.2}", each(memory.map_bytes));
        println!("    space   {:>6.2}", each(memory.space_bytes));
        println!("    tuples  {:>6.2}", each(memory.tuple_bytes));
        println!("    patches {:>6.2}", each(memory.patch_bytes));
        println!("    all     {:>6.2}", each(all));
        println!("  = {:.5} % of the data (bound: 0.01 %)", all as f64 * 100.0 / size as f64);
        println!("  disk: {:.2} bytes a block, one copy (three are kept)", each(checkpoint));
    });
    env.drop_tasks();
}

/// Fills, checkpoints, writes some more, kills, opens. Returns what opening reported and the
/// seconds it took in all.
fn reopen(env: &UringEnv, options: &Options, blocks: u64, journaled: u64) -> (RecoveryReport, f64) {
    let block = options.block_kib << 10;
    let spec =
        CreateSpec { block_size: block as u32, replicated_percent: 30, ..CreateSpec::new("bench") };
    let size = blocks * block;
    let raw = size * 2 + size / 2 + ((options.drives as u64 * 96) << 20);
    let drives = drives(options.drives, (raw / options.drives as u64).next_multiple_of(1 << 20));
    env.block_on(async {
        create(env, &drives, &spec).await.expect("a pool");
        let pool = Pool::open(env, drives.clone(), OpenOptions::default()).await.expect("opens");
        pool.volume_create("v", size, None, None).await.expect("a volume");
        let volume = pool.volume("v").expect("just made");
        load::fill(&volume, size, 6 * block * 16).await;
        pool.checkpoint().await.expect("a checkpoint");
        let load = Load {
            kind: Kind::Write,
            bytes: 4096,
            align: 4096,
            depth: 32,
            requests: journaled,
            span: size,
            seed: 3,
        };
        if journaled > 0 {
            load::run(env, &volume, load).await;
            pool.flush().await.expect("a flush");
        }
    });
    env.drop_tasks();
    let (report, seconds) = env.block_on(async {
        let begin = env.now();
        let pool = Pool::open(env, drives, OpenOptions::default()).await.expect("opens");
        let taken = load::seconds(env.now().saturating_sub(begin));
        (pool.status().recovery, taken)
    });
    env.drop_tasks();
    (report, seconds)
}
