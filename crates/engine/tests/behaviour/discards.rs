//! Drives are told of what is free, slowly, and of nothing else.

use engine::{CreateSpec, OpenOptions, Pool};
use io::Buf;
use io::rng::Rng;
use io::virt::{CutMode, VirtEnv};

use crate::common::{self, MIB, Mirror, Virtual, World, check_all, make_pool, sleep};

fn discards(world: &Virtual) -> u64 {
    world.disks.iter().map(|disk| disk.counters().discards).sum()
}

async fn open(world: &Virtual, discard: bool) -> Pool<VirtEnv> {
    let options = OpenOptions { discard, ..OpenOptions::default() };
    Pool::open(world.env(), world.drives(), options).await.expect("opens")
}

/// Fills 64 MiB, discards most of it, and makes the drives hear of it.
async fn write_and_trim(pool: &Pool<VirtEnv>) -> Mirror {
    let volume = pool.volume("v").expect("made");
    let (mut mirror, mut rng) = (Mirror::new(64 * MIB), Rng::new(1));
    for at in 0..64 {
        let data = mirror.fill(&mut rng, at * MIB, MIB);
        volume.write(at * MIB, data, false).await.expect("write");
    }
    volume.trim(8 * MIB, 48 * MIB, true).await.expect("trim");
    mirror.zero(8 * MIB, 48 * MIB);
    // Free once a journal block says that the record of the trim is durable.
    volume.write(0, Buf::from_slice(&mirror.bytes[..4096]), true).await.expect("write");
    pool.flush().await.expect("flush");
    check_all(&volume, &mirror, "trimmed").await;
    mirror
}

#[test]
fn drives_are_told_what_is_free_at_a_limited_rate() {
    let world = Virtual::new(6, 64 * MIB, 41);
    world.block_on(async {
        let pool = make_pool(&world, &CreateSpec::new("tank")).await;
        pool.volume_create("v", 64 * MIB, None, None).await.expect("room");
        let mirror = write_and_trim(&pool).await;
        // A few stripes are being told of already.
        let pending = pool.status().backlog.discard_pending_bytes;
        assert!(pending >= 40 * MIB, "{pending} bytes wait to be told of");
        // 48 MiB and their parity are 10 MiB a drive: at 256 MiB a second, 40 ms.
        let told = |pool: &Pool<VirtEnv>| pool.status().backlog.discarded_bytes;
        let before = told(&pool);
        sleep(world.env(), 20).await;
        let most = 6 * 256 * MIB * 20 / 1000 + 6 * 16 * (64 << 10);
        assert!(told(&pool) - before <= most, "{} bytes in 20 ms", told(&pool) - before);
        sleep(world.env(), 300).await;
        let backlog = pool.status().backlog;
        assert_eq!(backlog.discard_pending_bytes, 0);
        assert!(backlog.discarded_bytes >= pending, "{backlog:?}");
        assert!(discards(&world) > 0);
        check_all(&pool.volume("v").expect("made"), &mirror, "discarded").await;
        pool.close().await.expect("closes");
        // What drives were told before is not remembered: they are told of all that is free in
        // zones, once.
        let count = discards(&world);
        let pool = common::open_pool(&world).await;
        sleep(world.env(), 1000).await;
        let again = told(&pool);
        assert!(again >= 48 * MIB, "{again} bytes after the pool was opened again");
        assert!(discards(&world) > count);
        sleep(world.env(), 1000).await;
        assert_eq!(told(&pool), again);
        check_all(&pool.volume("v").expect("made"), &mirror, "opened again").await;
        pool.close().await.expect("closes");
    });
}

#[test]
fn discards_can_be_switched_off() {
    let world = Virtual::new(6, 64 * MIB, 42);
    world.block_on(async {
        let pool = make_pool(&world, &CreateSpec::new("tank")).await;
        pool.volume_create("v", 64 * MIB, None, None).await.expect("room");
        pool.close().await.expect("closes");
        let (pool, before) = (open(&world, false).await, discards(&world));
        write_and_trim(&pool).await;
        sleep(world.env(), 500).await;
        assert_eq!(discards(&world), before);
        assert_eq!(pool.status().backlog.discard_pending_bytes, 0);
        pool.close().await.expect("closes");
    });
}

/// Random writes and discards, some of them while drives are being told; every byte is compared,
/// also after the power has gone. Virtual disks answer garbage for what was discarded.
#[test]
fn what_is_in_use_is_never_discarded() {
    for seed in 50..56 {
        let world = Virtual::new(6, 40 * MIB, seed);
        let mut rng = Rng::new(seed);
        let mut mirror = world.block_on(async {
            let pool = make_pool(&world, &CreateSpec::new("tank")).await;
            let size = pool.status().space.usable / 10 * 7 / MIB * MIB;
            pool.volume_create("v", size, None, None).await.expect("room");
            pool.close().await.expect("closes");
            Mirror::new(size)
        });
        let mut told = 0;
        for life in 0..8 {
            let what = format!("seed {seed}, life {life}");
            told += world.block_on(live(&world, &mut mirror, &mut rng, &what));
            world.disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
        }
        assert!(told > 20 * MIB, "seed {seed}: only {told} bytes were discarded");
    }
}

/// Opens, checks, changes much, and ends in one way or another. Returns what was discarded.
async fn live(world: &Virtual, mirror: &mut Mirror, rng: &mut Rng, what: &str) -> u64 {
    let pool = open(world, true).await;
    let volume = pool.volume("v").expect("made");
    check_all(&volume, mirror, what).await;
    let size = mirror.bytes.len() as u64;
    for _ in 0..80 {
        let most = if rng.chance(1, 3) { 2 * MIB } else { 128 << 10 };
        let len = (1 + rng.below(most / 4096)) * 4096;
        let offset = rng.below((size - len) / 4096) * 4096;
        if rng.chance(2, 5) {
            mirror.zero(offset, len);
            volume.trim(offset, len, rng.chance(1, 4)).await.expect("trim");
        } else {
            let data = mirror.fill(rng, offset, len);
            volume.write(offset, data, rng.chance(1, 4)).await.expect("write");
        }
        if rng.chance(1, 8) {
            sleep(world.env(), rng.below(40)).await;
        }
    }
    check_all(&volume, mirror, what).await;
    pool.flush().await.expect("flush");
    // Sometimes the end comes in the middle of discards.
    sleep(world.env(), rng.below(5)).await;
    let told = pool.status().backlog.discarded_bytes;
    if rng.chance(1, 3) {
        pool.audit().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    drop(volume);
    if rng.chance(1, 3) {
        pool.close().await.expect("closes");
    }
    world.kill();
    told
}
