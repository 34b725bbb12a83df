//! Which device operations a request becomes, and how long they take together.

use engine::{ConversionPolicy, CreateSpec, DriveCounters, Pool, Volume};
use io::rng::Rng;
use io::virt::VirtEnv;
use io::{Buf, Env, Nanos};

use crate::common::{MIB, Mirror, Virtual, check_all, check_degraded, make_pool, open_pool};
use crate::common::{since, sleep, totals};

const KIB: u64 = 1 << 10;

async fn pool_with(world: &Virtual, parity: u8) -> (Pool<VirtEnv>, Volume<VirtEnv>) {
    let spec = CreateSpec { parity, ..CreateSpec::new("tank") };
    let pool = make_pool(world, &spec).await;
    pool.volume_create("v", 32 * MIB, None, None).await.expect("room");
    pool.flush().await.expect("flush");
    let volume = pool.volume("v").expect("made");
    (pool, volume)
}

fn bytes(len: u64) -> Buf {
    let mut bytes = vec![0; len as usize];
    Rng::new(len).fill(&mut bytes);
    Buf::from_slice(&bytes)
}

fn written(writes: u64, bytes: u64) -> DriveCounters {
    DriveCounters { writes, write_bytes: bytes, ..DriveCounters::default() }
}

#[test]
fn a_write_becomes_copies_or_one_stripe_and_never_reads() {
    for parity in [1, 2] {
        let world = Virtual::new(8 + usize::from(parity), 64 * MIB, 7);
        world.block_on(async {
            let (pool, volume) = pool_with(&world, parity).await;
            let (copies, width) = (u64::from(parity) + 1, u64::from(parity) + 6);
            let cases = [
                // A page, a sector of a page, two sectors on two pages: p+1 times the pages.
                (0, 4 * KIB, copies, copies * 4 * KIB),
                (512 * 3, 512, copies, copies * 4 * KIB),
                (7 * 512, 1024, copies, copies * 8 * KIB),
                (8 * KIB, 60 * KIB - 8 * KIB, copies, copies * 52 * KIB),
                // A block.
                (64 * KIB, 64 * KIB, copies, copies * 64 * KIB),
                // The end of a block and the start of the next.
                (124 * KIB, 8 * KIB, 2 * copies, copies * 8 * KIB),
                // Up to w/2 blocks.
                (640 * KIB, 192 * KIB, 3 * copies, 3 * copies * 64 * KIB),
                // A stripe, a part of one, and more than one.
                (384 * KIB, 384 * KIB, width, width * 64 * KIB),
                (MIB, 320 * KIB, width, width * 64 * KIB),
                (MIB, 768 * KIB, 2 * width, 2 * width * 64 * KIB),
                (2 * MIB, 448 * KIB, width + copies, (width + copies) * 64 * KIB),
            ];
            for (offset, len, writes, device_bytes) in cases {
                let before = totals(&pool);
                volume.write(offset, bytes(len), false).await.expect("write");
                let found = since(&pool, before);
                assert_eq!(found, written(writes, device_bytes), "{len} bytes at {offset}");
            }
        });
    }
}

/// A FUA write adds J copies of a journal block, and nothing volatile is left.
#[test]
fn a_fua_write_is_durable_with_its_record_and_without_a_flush() {
    for parity in [1, 2] {
        let world = Virtual::new(9, 64 * MIB, 8);
        world.block_on(async {
            let (pool, volume) = pool_with(&world, parity).await;
            let copies = u64::from(parity) + 1;
            let before = totals(&pool);
            volume.write(0, bytes(4 * KIB), true).await.expect("write");
            assert_eq!(since(&pool, before), written(2 * copies, 2 * copies * 4 * KIB));
            let before = totals(&pool);
            volume.write(MIB, bytes(384 * KIB), true).await.expect("write");
            let stripe = 6 + u64::from(parity);
            let expected = written(stripe + copies, stripe * 64 * KIB + copies * 4 * KIB);
            assert_eq!(since(&pool, before), expected);
            assert!(world.disks.iter().all(|disk| disk.undecided_writes() == 0));
        });
    }
}

#[test]
fn a_flush_touches_only_drives_with_unflushed_writes() {
    let world = Virtual::new(7, 64 * MIB, 9);
    world.block_on(async {
        let (pool, volume) = pool_with(&world, 1).await;
        volume.write(0, bytes(4 * KIB), false).await.expect("write");
        let before = totals(&pool);
        volume.flush().await.expect("flush");
        let found = since(&pool, before);
        let expected = DriveCounters { flushes: 2, ..written(2, 8 * KIB) };
        assert_eq!(found, expected, "two drives have data, two get the journal");
        assert!(world.disks.iter().all(|disk| disk.undecided_writes() == 0));
        let before = totals(&pool);
        volume.flush().await.expect("flush");
        assert_eq!(since(&pool, before), written(0, 0), "nothing new, nothing to do");
        assert_eq!(pool.counters().flushes, 2);
    });
}

async fn median<F: Future<Output = ()>>(env: &VirtEnv, mut act: impl FnMut(u64) -> F) -> Nanos {
    let mut spans = Vec::new();
    for round in 0..201 {
        let begin = env.now();
        act(round).await;
        spans.push(env.now().saturating_sub(begin));
    }
    spans.sort();
    spans[100]
}

/// Latencies of the virtual SSD: a durable page 88 us, a flush 500 us, half more or less. Two
/// rounds one after the other take 200 us and 1.1 ms.
#[test]
fn a_durable_write_and_a_flush_take_one_round() {
    let world = Virtual::new(7, 64 * MIB, 10);
    world.block_on(async {
        let (_pool, volume) = pool_with(&world, 1).await;
        let fua = |round| {
            let volume = volume.clone();
            async move { volume.write(round * 4096, bytes(4096), true).await.expect("write") }
        };
        let env = volume_env(&world);
        let span = median(&env, fua).await;
        assert!(span <= Nanos::from_micros(140), "a FUA write takes {span:?}");
        let write_flush = |round| {
            let volume = volume.clone();
            async move {
                volume.write(round * 4096, bytes(4096), false).await.expect("write");
                volume.flush().await.expect("flush");
            }
        };
        let span = median(&env, write_flush).await;
        assert!(span <= Nanos::from_micros(850), "a write and a flush take {span:?}");
        let read = |round| {
            let volume = volume.clone();
            async move { drop(volume.read(round * 4096, 4096).await.expect("read")) }
        };
        let span = median(&env, read).await;
        assert!(span <= Nanos::from_micros(110), "a read takes {span:?}");
    });
}

fn volume_env(world: &Virtual) -> VirtEnv {
    crate::common::World::env(world).clone()
}

#[test]
fn a_read_reads_what_it_is_asked_for() {
    let world = Virtual::new(7, 64 * MIB, 11);
    world.block_on(async {
        let (pool, volume) = pool_with(&world, 1).await;
        volume.write(0, bytes(384 * KIB), false).await.expect("write");
        volume.write(MIB, bytes(4 * KIB), false).await.expect("write");
        for (offset, len, reads, device_bytes) in [
            (0, 4 * KIB, 1, 4 * KIB),
            (512, 512, 1, 4 * KIB),
            (0, 384 * KIB, 6, 384 * KIB),
            (MIB, 4 * KIB, 1, 4 * KIB),
            (2 * MIB, 64 * KIB, 0, 0),
        ] {
            let before = totals(&pool);
            volume.read(offset, len as u32).await.expect("read");
            let found = since(&pool, before);
            assert_eq!((found.reads, found.read_bytes, found.writes), (reads, device_bytes, 0));
        }
    });
}

/// FusionRAID §4.2: conversion reads k blocks, writes parity, moves nothing, frees p stripes.
#[test]
fn conversion_writes_parity_alone_and_frees_p_stripes() {
    for (parity, drives) in [(1, 7), (1, 9), (2, 8), (2, 11)] {
        let world = Virtual::new(drives, 64 * MIB, 12);
        let mut mirror = Mirror::new(32 * MIB);
        world.block_on(async {
            let conversion = ConversionPolicy::Eager;
            let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
            let pool = make_pool(&world, &spec).await;
            pool.volume_create("v", 32 * MIB, None, None).await.expect("room");
            let volume = pool.volume("v").expect("made");
            pool.flush().await.expect("flush");
            let (copies, width) = (u64::from(parity) + 1, u64::from(parity) + 6);
            let before = totals(&pool);
            let mut rng = Rng::new(3);
            for at in 0..6 {
                let data = mirror.fill(&mut rng, at * 3 * 64 * KIB, 64 * KIB);
                volume.write(at * 3 * 64 * KIB, data, false).await.expect("write");
            }
            assert_eq!(pool.status().space.replicated, copies * width * 64 * KIB);
            sleep(&volume_env(&world), 300).await;
            pool.flush().await.expect("flush");
            let (found, counters) = (since(&pool, before), pool.counters());
            let replicas = 6 * copies * 64 * KIB;
            let journal = found.write_bytes - replicas - u64::from(parity) * 64 * KIB;
            assert!(journal > 0 && journal <= 64 * KIB, "{journal} bytes of journal");
            assert_eq!(found.read_bytes, 6 * 64 * KIB, "each data block is read once");
            assert_eq!((counters.conversions, counters.relocated_bytes), (1, 0));
            let space = pool.status().space;
            let freed = u64::from(parity) * width * 64 * KIB;
            assert!(space.replicated == 0 && [0, freed].contains(&space.limbo), "{space:?}");
            assert_eq!(space.raid, width * 64 * KIB, "one stripe is left");
            // Dead stripes are reused once a journal block after their end says so.
            volume.write(31 * MIB, Buf::zeroed(4096), true).await.expect("write");
            pool.flush().await.expect("flush");
            assert_eq!(pool.status().space.limbo, 0);
            check_all(&volume, &mirror, "converted").await;
            drop(volume);
            pool.close().await.expect("closes");
            check_degraded(&world, usize::from(parity), &[("v", &mirror)]).await;
            open_pool(&world).await.close().await.expect("closes");
        });
    }
}
