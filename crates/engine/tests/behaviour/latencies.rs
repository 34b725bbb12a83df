//! What volumes say of their requests' latencies.

use std::future::poll_fn;
use std::task::Poll;

use engine::{CreateSpec, Latencies, OpenOptions, OperationLatencies, Pool, SpikeHandling};
use engine::{RequestCounters, VolumeInfo, create};
use futures_util::future::join_all;
use io::virt::VirtEnv;
use io::{Buf, Env};

use crate::common::{MIB, Virtual, World, make_pool};

fn info(pool: &Pool<VirtEnv>, name: &str) -> VolumeInfo {
    let volumes = pool.volumes();
    volumes.into_iter().find(|volume| volume.name == name).expect("it is there")
}

fn of(pool: &Pool<VirtEnv>, name: &str) -> OperationLatencies {
    info(pool, name).latency
}

/// `said` is what a client with a stopwatch says, to the histogram's precision.
fn agrees(said: &Latencies, mut took: Vec<u64>) {
    took.sort_unstable();
    let close = |said: u64, exact: u64| assert!(said.abs_diff(exact) * 100 <= exact, "{said}");
    assert_eq!(said.count, took.len() as u64);
    close(said.p50_nanos, took[took.len().div_ceil(2) - 1]);
    close(said.max_nanos, *took.last().expect("some"));
    close(said.mean_nanos, took.iter().sum::<u64>() / took.len() as u64);
    let counted: u64 = said.buckets.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, said.count);
}

#[test]
fn volumes_tell_what_a_client_measures_each_for_itself() {
    let world = Virtual::new(8, 64 * MIB, 7);
    world.block_on(async {
        let pool = make_pool(&world, &CreateSpec::new("tank")).await;
        let env = world.env();
        for name in ["a", "b"] {
            pool.volume_create(name, 8 * MIB, None, None).await.expect("room");
        }
        let volume = pool.volume("a").expect("made");
        let (mut writes, mut reads, mut flushes) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..100 {
            let begin = env.now();
            volume.write(at * 4096, Buf::zeroed(4096), at % 3 == 0).await.expect("written");
            writes.push(env.now().saturating_sub(begin).0);
            let begin = env.now();
            volume.read(at * 4096, 4096).await.expect("read");
            reads.push(env.now().saturating_sub(begin).0);
        }
        for _ in 0..3 {
            let begin = env.now();
            volume.write(0, Buf::zeroed(4096), false).await.expect("written");
            writes.push(env.now().saturating_sub(begin).0);
            let begin = env.now();
            volume.flush().await.expect("flushed");
            flushes.push(env.now().saturating_sub(begin).0);
        }
        // What is refused took no time and tells nothing.
        volume.read(8 * MIB, 512).await.expect_err("beyond the end");
        // They are the volume's, not the handle's.
        drop(volume);
        let said = of(&pool, "a");
        agrees(&said.writes, writes);
        agrees(&said.reads, reads);
        agrees(&said.flushes, flushes);
        assert_eq!(of(&pool, "b"), OperationLatencies::default());
        let counters = RequestCounters {
            reads: 100,
            read_bytes: 100 * 4096,
            writes: 103,
            write_bytes: 103 * 4096,
            flushes: 3,
            trims: 0,
            errors: 1,
        };
        assert_eq!(info(&pool, "a").counters, counters);
        assert_eq!(info(&pool, "b").counters, RequestCounters::default());
        pool.close().await.expect("closes");
    });
}

#[test]
fn nothing_is_recorded_without_detection() {
    let world = Virtual::new(8, 64 * MIB, 7);
    world.block_on(async {
        let spec = CreateSpec::new("tank");
        create(world.env(), &world.drives(), &spec).await.expect("the pool can be made");
        let options = OpenOptions { spikes: SpikeHandling::OFF, ..OpenOptions::default() };
        let pool = Pool::open(world.env(), world.drives(), options).await.expect("opens");
        pool.volume_create("a", 8 * MIB, None, None).await.expect("room");
        let volume = pool.volume("a").expect("made");
        volume.write(0, Buf::zeroed(4096), false).await.expect("written");
        volume.read(0, 4096).await.expect("read");
        assert_eq!(of(&pool, "a"), OperationLatencies::default());
        pool.close().await.expect("closes");
    });
}

#[test]
fn what_is_under_way_is_counted_until_it_is_answered() {
    let world = Virtual::new(8, 64 * MIB, 7);
    world.block_on(async {
        let pool = make_pool(&world, &CreateSpec::new("tank")).await;
        pool.volume_create("a", 8 * MIB, None, None).await.expect("room");
        let volume = pool.volume("a").expect("made");
        volume.write(0, Buf::zeroed(65536), true).await.expect("written");
        let drives = |pool: &Pool<VirtEnv>| -> u64 {
            pool.status().drives.iter().map(|drive| drive.under_way).sum()
        };
        assert_eq!((info(&pool, "a").under_way, drives(&pool)), (0, 0));
        let mut reads = Box::pin(join_all((0..3).map(|at| volume.read(at * 4096, 4096))));
        let waits = poll_fn(|context| Poll::Ready(reads.as_mut().poll(context).is_pending()));
        assert!(waits.await, "drives take time");
        assert_eq!(info(&pool, "a").under_way, 3);
        assert!(drives(&pool) > 0, "drives were asked");
        reads.await.into_iter().for_each(|read| assert!(read.is_ok()));
        assert_eq!((info(&pool, "a").under_way, drives(&pool)), (0, 0));
        drop(volume);
        pool.close().await.expect("closes");
    });
}

#[test]
fn protection_is_told_as_ways_to_the_data() {
    let world = Virtual::new(8, 64 * MIB, 7);
    world.block_on(async {
        let spec = CreateSpec { parity: 2, ..CreateSpec::new("tank") };
        let pool = make_pool(&world, &spec).await;
        let told = |pool: &Pool<VirtEnv>| {
            let status = pool.status();
            (status.redundancy_margin, status.surviving_copies)
        };
        assert_eq!(told(&pool), (2, 3));
        assert!(pool.status().read_hedges.left.operations > 0);
        for (drive, expected) in [(1, (1, 2)), (2, (0, 1)), (3, (0, 0))] {
            pool.drive_fail(drive, "test", true).await.expect("failed");
            assert_eq!(told(&pool), expected);
        }
    });
}
