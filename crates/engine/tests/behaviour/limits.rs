//! Limits of volumes, and volumes that burst against each other. Virtual time: exact.

use std::cell::Cell;
use std::rc::Rc;

use engine::{CreateSpec, Pool, Volume, VolumeError, VolumeInfo, VolumeLimits};
use futures_util::future::join_all;
use io::rng::Rng;
use io::virt::VirtEnv;
use io::{Buf, Env, Nanos};

use crate::common::channels::Channels;
use crate::common::{MIB, Virtual, World, make_pool, open_pool};

const KIB: u64 = 1 << 10;
const NONE: VolumeLimits = VolumeLimits { iops: 0, bytes_per_sec: 0 };

fn millis(count: u64) -> Nanos {
    Nanos::from_millis(count)
}

fn info<E: Env>(pool: &Pool<E>, name: &str) -> VolumeInfo {
    pool.volumes().into_iter().find(|volume| volume.name == name).expect("it is there")
}

async fn pool_with<W: World>(world: &W, names: &[&str]) -> Pool<W::Env> {
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    for name in names {
        pool.volume_create(name, 8 * MIB, None, None).await.expect("room");
        let volume = pool.volume(name).expect("made");
        volume.write(0, Buf::zeroed(8 << 20), false).await.expect("written");
    }
    pool
}

/// Reads at random places, `depth` at once; returns when all are answered, with each latency in
/// order.
async fn read_all(
    env: &VirtEnv,
    volume: &Volume<VirtEnv>,
    bytes: u64,
    depth: usize,
    count: usize,
) -> Vec<u64> {
    let left = Rc::new(Cell::new(count));
    let lane = async |lane: usize| {
        let (mut rng, mut took) = (Rng::new(lane as u64), Vec::new());
        while left.get() > 0 {
            left.set(left.get() - 1);
            let offset = rng.below(8 * MIB / bytes) * bytes;
            let begin = env.now();
            volume.read(offset, bytes as u32).await.expect("read");
            took.push(env.now().saturating_sub(begin).0);
        }
        took
    };
    let mut took = join_all((0..depth).map(lane)).await.concat();
    took.sort_unstable();
    took
}

async fn timed<T>(env: &VirtEnv, work: impl Future<Output = T>) -> Nanos {
    let begin = env.now();
    work.await;
    env.now().saturating_sub(begin)
}

/// A server that was told to stop waited for them: a hundred requests at one a second.
#[test]
fn limits_that_are_lifted_hold_nobody_back() {
    let world = Virtual::new(8, 64 * MIB, 7);
    world.block_on(async {
        let env = world.env();
        let pool = pool_with(&world, &["a"]).await;
        let volume = pool.volume("a").expect("made");
        let limits = VolumeLimits { iops: 1, bytes_per_sec: 0 };
        pool.volume_limit("a", limits).await.expect("limits are set");
        let reading = read_all(env, &volume, 4 * KIB, 100, 100);
        let lifting = async {
            env.sleep_until(env.now() + Nanos::from_secs(2)).await;
            pool.lift_limits();
        };
        let both = futures_util::future::join(timed(env, reading), lifting);
        let taken = both.await.0;
        assert!(taken < Nanos::from_secs(3), "{taken}");
        assert_eq!(info(&pool, "a").limits, limits, "they are in force again when it is opened");
    });
}

#[test]
fn a_limited_volume_runs_at_its_limit_and_others_are_not_slowed() {
    let world = Virtual::new(8, 64 * MIB, 7);
    world.block_on(async {
        let env = world.env();
        let pool = pool_with(&world, &["a", "b"]).await;
        let (a, b) = (pool.volume("a").expect("made"), pool.volume("b").expect("made"));
        // The pool learns what is usual, as it has when both are compared.
        read_all(env, &b, 4 * KIB, 4, 4000).await;
        let alone = timed(env, read_all(env, &b, 4 * KIB, 4, 4000)).await;

        let limits = VolumeLimits { iops: 1000, bytes_per_sec: 0 };
        pool.volume_limit("a", limits).await.expect("limits are set");
        let limited = timed(env, read_all(env, &a, 4 * KIB, 16, 500));
        let beside = timed(env, read_all(env, &b, 4 * KIB, 4, 4000));
        let (limited, beside) = futures_util::future::join(limited, beside).await;
        // 100 at once out of the burst, one every millisecond from then on.
        assert!(limited >= millis(400) && limited < millis(401), "{limited}");
        assert!(beside.0.abs_diff(alone.0) * 50 < alone.0, "{beside} instead of {alone}");
        let throttled = info(&pool, "a").throttled;
        assert!((390..=400).contains(&throttled), "{throttled} of 500 waited");
        assert_eq!(info(&pool, "b").throttled, 0);

        let limits = VolumeLimits { iops: 0, bytes_per_sec: 16 * MIB };
        pool.volume_limit("a", limits).await.expect("limits are set");
        let limited = timed(env, read_all(env, &a, 64 * KIB, 16, 256)).await;
        // A tenth of a second's worth at once; the last of the 16 MiB a second's end later.
        assert!(limited >= millis(900) && limited < millis(902), "{limited}");
        pool.close().await.expect("closes");
    });
}

#[test]
fn zero_is_no_limit_and_lifting_one_lets_those_that_wait_go() {
    let world = Virtual::new(8, 64 * MIB, 7);
    world.block_on(async {
        let env = world.env();
        let pool = pool_with(&world, &["a"]).await;
        let a = pool.volume("a").expect("made");
        let free = timed(env, read_all(env, &a, 4 * KIB, 16, 500)).await;
        let limits = VolumeLimits { iops: 1, bytes_per_sec: 0 };
        pool.volume_limit("a", limits).await.expect("limits are set");
        let crawl = timed(env, read_all(env, &a, 4 * KIB, 16, 500));
        let lift = async {
            env.sleep_until(env.now() + Nanos::from_millis(3500)).await;
            pool.volume_limit("a", NONE).await.expect("lifted");
        };
        let (took, ()) = futures_util::future::join(crawl, lift).await;
        assert!(took > millis(3500) && took < millis(3510) + free, "{took}");
        let before = info(&pool, "a").throttled;
        let again = timed(env, read_all(env, &a, 4 * KIB, 16, 500)).await;
        assert!(again.0 < free.0 * 11 / 10, "{again} instead of {free}");
        assert_eq!(info(&pool, "a").throttled, before);
        pool.close().await.expect("closes");
    });
}

#[test]
fn what_is_dropped_while_it_waits_costs_nobody_anything() {
    let world = Virtual::new(8, 64 * MIB, 7);
    world.block_on(async {
        let env = world.env();
        let pool = pool_with(&world, &["a"]).await;
        let a = pool.volume("a").expect("made");
        let limits = VolumeLimits { iops: 10, bytes_per_sec: 0 };
        pool.volume_limit("a", limits).await.expect("limits are set");
        a.read(0, 4096).await.expect("the burst is one request");
        let begin = env.now();
        let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(a.read(0, 4096))).collect();
        let soon = env.sleep_until(begin + millis(50));
        let first = join_all(waiting.iter_mut());
        let first = futures_util::future::select(first, Box::pin(soon)).await;
        assert!(matches!(first, futures_util::future::Either::Right(_)), "all wait");
        drop(first);
        drop(waiting);
        a.read(0, 4096).await.expect("read");
        let took = env.now().saturating_sub(begin);
        assert!(took >= millis(99) && took < millis(101), "{took}: none of the five was paid for");
        pool.close().await.expect("closes");
    });
}

#[test]
fn flushes_and_trims_cost_no_bandwidth() {
    let world = Virtual::new(8, 64 * MIB, 7);
    world.block_on(async {
        let env = world.env();
        let pool = pool_with(&world, &["a"]).await;
        let a = pool.volume("a").expect("made");
        let limits = VolumeLimits { iops: 0, bytes_per_sec: 4096 };
        pool.volume_limit("a", limits).await.expect("limits are set");
        let begin = env.now();
        for at in 0..20 {
            a.trim(at * 64 * KIB, 64 * KIB, false).await.expect("trimmed");
            a.flush().await.expect("flushed");
        }
        assert!(env.now().saturating_sub(begin) < millis(100));
        assert_eq!(info(&pool, "a").throttled, 0);
        pool.close().await.expect("closes");
    });
}

#[test]
fn limits_survive_closing_crashing_and_checkpoints() {
    let world = Virtual::new(8, 64 * MIB, 7);
    let limits = VolumeLimits { iops: 500, bytes_per_sec: 3 * MIB };
    let others = VolumeLimits { iops: 0, bytes_per_sec: MIB };
    let shown = |pool: &Pool<VirtEnv>| {
        let limits = pool.volumes().into_iter().map(|volume| volume.limits);
        limits.collect::<Vec<_>>()
    };
    world.block_on(async {
        let pool = pool_with(&world, &["a", "b", "c"]).await;
        pool.volume_limit("a", limits).await.expect("limits are set");
        pool.volume_limit("b", others).await.expect("limits are set");
        let unknown = pool.volume_limit("x", limits).await;
        assert!(matches!(unknown, Err(VolumeError::NotFound(name)) if name == "x"));
        assert_eq!(shown(&pool), [limits, others, NONE]);
    });
    // Told from the journal.
    world.kill();
    world.block_on(async {
        let pool = open_pool(&world).await;
        assert_eq!(shown(&pool), [limits, others, NONE], "after a crash");
        pool.volume_limit("b", NONE).await.expect("lifted");
        pool.close().await.expect("closes");
        // Told from the checkpoint.
        let pool = open_pool(&world).await;
        assert!(pool.status().recovery.clean);
        assert_eq!(shown(&pool), [limits, NONE, NONE], "after closing");
        let a = pool.volume("a").expect("there");
        let env = world.env();
        let took = timed(env, read_all(env, &a, 4 * KIB, 4, 250)).await;
        assert!(took >= millis(400) && took < millis(402), "they are in force: {took}");
        pool.checkpoint().await.expect("written");
    });
    world.kill();
    world.block_on(async {
        let pool = open_pool(&world).await;
        assert_eq!(shown(&pool), [limits, NONE, NONE], "after a checkpoint and a crash");
        pool.close().await.expect("closes");
    });
}

fn p99(sorted: &[u64]) -> u64 {
    sorted[sorted.len() * 99 / 100]
}

#[test]
fn a_burst_of_one_volume_keeps_no_other_waiting_behind_it() {
    const TIME: Nanos = Nanos::from_micros(100);
    let mut world = Virtual::new(8, 64 * MIB, 7);
    world.model = Some(Box::new(|size| Box::new(Channels::new(size, 8, TIME))));
    world.block_on(async {
        let env = world.env();
        let pool = pool_with(&world, &["burst", "calm"]).await;
        let (burst, calm) =
            (pool.volume("burst").expect("made"), pool.volume("calm").expect("made"));
        let alone = read_all(env, &calm, 4 * KIB, 1, 500).await;
        assert_eq!(p99(&alone), TIME.0, "nobody else is here");

        // A thousand deep, of larger requests, for as long as the other runs.
        let bursting = read_all(env, &burst, 16 * KIB, 1000, 60_000);
        let running = read_all(env, &calm, 4 * KIB, 1, 500);
        let (bursted, ran) = futures_util::future::join(bursting, running).await;
        // 256 have places, 32 for each drive. They are not spread evenly: the drive that holds most
        // of these small volumes gathers those that wait, at worst all of them, 32 for each of its
        // channels. Without places it would be 125.
        assert!(p99(&ran) <= 33 * TIME.0, "{} ns behind the burst", p99(&ran));
        assert!(p99(&bursted) >= 15 * TIME.0, "it was no burst: {} ns", p99(&bursted));
        pool.close().await.expect("closes");
    });
}

#[test]
fn places_cost_a_single_volume_nothing() {
    const TIME: Nanos = Nanos::from_micros(100);
    let mut world = Virtual::new(8, 64 * MIB, 7);
    world.model = Some(Box::new(|size| Box::new(Channels::new(size, 8, TIME))));
    world.block_on(async {
        let env = world.env();
        let pool = pool_with(&world, &["a"]).await;
        let a = pool.volume("a").expect("made");
        let took = timed(env, read_all(env, &a, 4 * KIB, 1000, 50_000)).await;
        // 64 channels, each done with a read every 100 us, and none of them ever idle for long.
        let least = TIME.0 * 50_000 / 64;
        assert!(took.0 < least * 130 / 100, "{took} instead of {} ns", least);
        pool.close().await.expect("closes");
    });
}
