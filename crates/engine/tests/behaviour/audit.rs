//! The audit finds nothing wrong with any pool the engine makes, and everything that is done to
//! one behind its back.

use crate::both_runtimes;
use crate::common::{MIB, Mirror, Virtual, World, check_all, make_pool, open_pool, sleep};
use engine::audit::{AuditError, AuditReport, Rule, fingerprint, replayed};
use engine::{ConversionPolicy, CreateSpec, OpenOptions, Pool, Volume};
use format::{SLOT_LEN, decode_slot};
use io::Env;
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};

const BLOCK: u64 = 64 << 10;

/// Requests of all kinds, from a sector to several stripes.
async fn requests<E: Env>(volume: &Volume<E>, mirror: &mut Mirror, rng: &mut Rng, count: u64) {
    let size = mirror.bytes.len() as u64;
    for _ in 0..count {
        let (len, unit) = match rng.below(6) {
            0 => (512 * (1 + rng.below(40)), 512),
            1 | 2 => (4096 * (1 + rng.below(3)), 4096),
            3 => (BLOCK, BLOCK),
            _ => (BLOCK * (1 + rng.below(10)), BLOCK),
        };
        let offset = rng.below((size - len) / unit + 1) * unit;
        match rng.below(16) {
            0 | 1 => {
                volume.trim(offset, len, rng.chance(1, 4)).await.expect("trim");
                mirror.zero(offset, len);
            }
            2 => volume.flush().await.expect("flush"),
            _ => {
                let data = mirror.fill(rng, offset, len);
                volume.write(offset, data, rng.chance(1, 12)).await.expect("write");
            }
        }
    }
}

async fn audited<E: Env>(pool: &Pool<E>, when: &str) -> AuditReport {
    pool.audit().await.unwrap_or_else(|error| panic!("{when}: {error}"))
}

async fn life_of_a_pool<W: World>(world: &W) {
    let mut rng = Rng::new(81);
    let spec = CreateSpec { parity: 2, ..CreateSpec::new("tank") };
    let mut pool = make_pool(world, &spec).await;
    assert_eq!(audited(&pool, "new").await.blocks, 0);
    for (name, parity) in [("a", 2), ("b", 1)] {
        pool.volume_create(name, 8 * MIB, Some(parity), None).await.expect("room");
    }
    let mut mirrors = [Mirror::new(8 * MIB), Mirror::new(8 * MIB)];
    let mut seen = AuditReport::default();
    for round in 0..4 {
        for (name, mirror) in ["a", "b"].into_iter().zip(&mut mirrors) {
            let volume = pool.volume(name).expect("made");
            requests(&volume, mirror, &mut rng, 150).await;
            let report = audited(&pool, "written").await;
            assert!(report.is_complete() && report.blocks > 0, "{report:?}");
            seen.copies_compared += report.copies_compared;
            seen.stripes_checked += report.stripes_checked;
            check_all(&volume, mirror, "after an audit").await;
        }
        sleep(world.env(), 150).await;
        audited(&pool, "rested").await;
        if round == 1 {
            pool.checkpoint().await.expect("checkpoint");
            audited(&pool, "checkpoint").await;
        } else {
            pool.close().await.expect("closes");
            drop(pool);
            pool = open_pool(world).await;
            audited(&pool, "opened").await;
        }
    }
    pool.volume_delete("b").await.expect("nobody uses it");
    audited(&pool, "deleted").await;
    assert!(seen.copies_compared > 100 && seen.stripes_checked > 100, "{seen:?}");
    pool.close().await.expect("closes");
}
both_runtimes!(a_sound_pool_has_no_faults, 7, 64 * MIB, life_of_a_pool);

async fn pool_of(
    world: &Virtual,
    parity: u8,
    conversion: ConversionPolicy,
) -> (Pool<VirtEnv>, Volume<VirtEnv>) {
    // Whatever is wrong is to be seen without them.
    let spec = CreateSpec { parity, conversion, checksums: false, ..CreateSpec::new("tank") };
    let pool = make_pool(world, &spec).await;
    pool.volume_create("v", 6 * MIB, None, None).await.expect("room");
    let volume = pool.volume("v").expect("made");
    (pool, volume)
}

/// Small pools over and over: conversion, compaction, merging, draining all take part.
#[test]
fn busy_pools_stay_sound() {
    for (seed, parity, size) in [(1, 1, 30 * MIB), (6, 2, 22 * MIB)] {
        let world = Virtual::new(4, 23 * MIB, seed);
        let (mut rng, mut mirror) = (Rng::new(seed), Mirror::new(size));
        world.block_on(async {
            let conversion = ConversionPolicy::Eager;
            let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
            let pool = make_pool(&world, &spec).await;
            pool.volume_create("v", size, None, None).await.expect("room");
            let volume = pool.volume("v").expect("made");
            for round in 0..5 {
                requests(&volume, &mut mirror, &mut rng, 150).await;
                // At once, with background work under way, and after it.
                audited(&pool, &format!("seed {seed}, round {round}")).await;
                sleep(world.env(), 40).await;
                audited(&pool, &format!("seed {seed}, round {round}, rested")).await;
            }
            let counters = pool.counters();
            assert!(counters.conversions > 0 && counters.compacted_stripes > 0, "{counters:?}");
            pool.close().await.expect("closes");
        });
    }
}

/// Where some bytes lie: disk and offset, every place.
fn find(world: &Virtual, bytes: &[u8]) -> Vec<(usize, u64)> {
    let mut found = Vec::new();
    for (disk, at) in world.disks.iter().zip(0..) {
        for offset in (0..disk.geometry().size - bytes.len() as u64).step_by(4096) {
            if disk.peek(offset, 16) == bytes[..16] && disk.peek(offset, bytes.len()) == bytes {
                found.push((at, offset));
            }
        }
    }
    found
}

/// The one finding of an audit.
fn only(result: Result<AuditReport, AuditError>, rule: Rule) -> String {
    let error = result.expect_err("the fault is found");
    assert_eq!((error.findings.len(), error.more), (1, 0), "{error}");
    assert_eq!(error.findings[0].rule, rule, "{error}");
    error.to_string()
}

fn assert_says(text: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(text.contains(word), "no '{word}' in: {text}"));
}

#[test]
fn a_copy_that_differs_is_named() {
    for parity in [1, 2] {
        let world = Virtual::new(7, 40 * MIB, 5);
        let (mut rng, mut mirror) = (Rng::new(5), Mirror::new(6 * MIB));
        world.block_on(async {
            let (pool, volume) = pool_of(&world, parity, ConversionPolicy::Lazy).await;
            requests(&volume, &mut mirror, &mut rng, 60).await;
            let page = mirror.fill(&mut rng, 17 * BLOCK + 8192, 4096);
            volume.write(17 * BLOCK + 8192, page.clone(), false).await.expect("write");
            let copies = find(&world, &page);
            assert_eq!(copies.len(), usize::from(parity) + 1);
            audited(&pool, "before").await;
            let (disk, offset) = copies[usize::from(parity)];
            world.disks[disk].corrupt(offset + 100, 1, 9);
            let text = only(pool.audit().await, Rule::Copies);
            let drive = format!("drive {disk} (byte {})", offset + 100);
            assert_says(&text, &["volume v block 17 sectors 16+8", &drive, "tuple of stripe"]);
            // Dead, and nobody's business any more.
            volume.trim(17 * BLOCK + 8192, 4096, false).await.expect("trim");
            audited(&pool, "trimmed").await;
            world.kill();
        });
    }
}

/// A damaged data block, a damaged P, a damaged Q; the last with a drive missing besides.
#[test]
fn parity_that_does_not_match_is_named() {
    for parity in [1u8, 2] {
        let world = Virtual::new(8, 40 * MIB, 6);
        let (mut rng, mut mirror) = (Rng::new(6), Mirror::new(6 * MIB));
        world.block_on(async {
            let (pool, volume) = pool_of(&world, parity, ConversionPolicy::Lazy).await;
            requests(&volume, &mut mirror, &mut rng, 60).await;
            let stripe = mirror.fill(&mut rng, 0, 6 * BLOCK);
            volume.write(0, stripe.clone(), false).await.expect("write");
            audited(&pool, "before").await;
            let sum = |at: usize| (0..6).fold(0, |sum, block| sum ^ stripe[(block << 16) + at]);
            let p: Vec<u8> = (0..BLOCK as usize).map(sum).collect();
            let (disk, offset) = find(&world, &p)[0];
            world.disks[disk].corrupt(offset + 300, 1, 1);
            let text = only(pool.audit().await, Rule::Parity);
            assert_says(&text, &["P of stripe", &format!("drive {disk} (byte {}", offset + 300)]);
            world.disks[disk].corrupt(offset + 300, 1, 1);
            audited(&pool, "repaired").await;
            let (disk, offset) = find(&world, &stripe[3 << 16..4 << 16])[0];
            world.disks[disk].corrupt(offset, 1, 2);
            let error = pool.audit().await.expect_err("data of the stripe has changed");
            assert_eq!(error.findings.len(), usize::from(parity), "{error}");
            // With two parity blocks one may be missing.
            let (gone, _) = find(&world, &stripe[..1 << 16])[0];
            world.disks[gone].set_failed(true);
            if parity == 2 {
                assert_says(&only(pool.audit().await, Rule::Parity), &["Q of stripe"]);
            } else {
                let report = audited(&pool, "nothing left to compare with").await;
                assert!(report.stripes_skipped > 0 && report.copies_skipped > 0);
            }
            world.kill();
        });
    }
}

#[test]
fn damaged_metadata_is_named() {
    let world = Virtual::new(5, 40 * MIB, 7);
    let (mut rng, mut mirror) = (Rng::new(7), Mirror::new(6 * MIB));
    world.block_on(async {
        let (pool, volume) = pool_of(&world, 1, ConversionPolicy::Lazy).await;
        requests(&volume, &mut mirror, &mut rng, 60).await;
        pool.checkpoint().await.expect("checkpoint");
        audited(&pool, "before").await;
        let label = engine::read_label(&world.drives()[2]).await.expect("readable");
        let engine::Label::Ours(label) = label else { panic!("it is ours") };
        // A slot that an object of the last checkpoint uses.
        let (area, disk) = (label.meta, &world.disks[2]);
        let slots = (area.offset..area.offset + area.len).step_by(SLOT_LEN);
        let is_newest = |at: &u64| {
            let bytes = disk.peek(*at, SLOT_LEN);
            decode_slot(&bytes, &label.pool).is_ok_and(|(h, _)| h.seq == label.checkpoint[0].seq)
        };
        let slot = slots.into_iter().find(is_newest).expect("drive 2 has a copy of some object");
        disk.corrupt(slot + 3000, 1, 3);
        assert_says(&only(pool.audit().await, Rule::Checkpoint), &["on drive 2", "slot"]);
        disk.corrupt(slot + 3000, 1, 3);
        audited(&pool, "repaired").await;
        let label = format::label_offsets(disk.geometry().size)[1];
        disk.corrupt(label + 200, 1, 4);
        assert_says(&only(pool.audit().await, Rule::Labels), &["label 1 of drive 2"]);
        world.kill();
    });
}

/// Drives that are gone are left out, and counted.
#[test]
fn what_can_not_be_read_is_skipped() {
    let world = Virtual::new(9, 40 * MIB, 8);
    let (mut rng, mut mirror) = (Rng::new(8), Mirror::new(6 * MIB));
    world.block_on(async {
        let (pool, volume) = pool_of(&world, 1, ConversionPolicy::Lazy).await;
        requests(&volume, &mut mirror, &mut rng, 150).await;
        assert!(audited(&pool, "whole").await.is_complete());
        world.disks[3].fail_nth_read(1);
        let skipped = audited(&pool, "one failed read").await;
        let count = skipped.copies_skipped + skipped.stripes_skipped + skipped.metadata_skipped;
        assert_eq!(count, 1, "{skipped:?}");
        world.disks[1].set_failed(true);
        requests(&volume, &mut mirror, &mut rng, 150).await;
        let report = audited(&pool, "a drive gone").await;
        assert!(report.copies_skipped > 0 && report.copies_compared > 0, "{report:?}");
        assert!(report.stripes_skipped > 0 && report.stripes_checked > 0, "{report:?}");
        drop(volume);
        pool.close().await.expect("closes");
        drop(pool);
        world.disks[1].set_failed(false);
        let pool = open_pool(&world).await;
        audited(&pool, "with the stale drive").await;
        pool.close().await.expect("closes");
    });
}

/// The machine dies in the middle of requests, again and again; every time the journal is
/// replayed twice, in whole and in part, and the pool opened twice.
#[test]
fn after_a_crash_replaying_again_changes_nothing() {
    for seed in 0..10 {
        let world = Virtual::new(5, 40 * MIB, seed);
        let (mut rng, mut mirror) = (Rng::new(seed), Mirror::new(6 * MIB));
        let parity = 1 + (seed % 2) as u8;
        world.block_on(async {
            let (pool, volume) = pool_of(&world, parity, ConversionPolicy::Eager).await;
            drop(volume);
            pool.close().await.expect("closes");
        });
        for round in 0..4 {
            let env = world.env();
            env.set_write_limit(env.writes_issued() + 200 + rng.below(1500));
            let ended = env.run_until(
                async {
                    let pool = open_pool(&world).await;
                    let volume = pool.volume("v").expect("made");
                    requests(&volume, &mut mirror, &mut rng, 2000).await;
                },
                || env.write_limit_reached(),
            );
            assert!(ended.is_none(), "the requests are more than the writes allowed");
            world.kill();
            let mode = [CutMode::Random, CutMode::KeepAll, CutMode::DropAll][rng.index(3)];
            world.disks.iter().for_each(|disk| disk.power_cut(&mut rng, mode));
            world.block_on(check_opening(&world, &format!("seed {seed}, round {round}")));
            world.kill();
        }
    }
}

async fn check_opening(world: &Virtual, when: &str) {
    let replay = async |again: &[u8]| {
        let found = replayed::<VirtEnv>(world.drives(), again).await;
        found.unwrap_or_else(|error| panic!("{when}: {error}"))
    };
    let once = replay(&[]).await;
    for again in [&[100][..], &[50], &[10, 30, 70]] {
        let difference = once.difference(&replay(again).await);
        assert_eq!(difference, None, "{when}, the last {again:?} % again");
    }
    let forks: Vec<Disk> = world.disks.iter().map(Disk::fork).collect();
    let drives = |disks: &[Disk]| -> Vec<VirtDrive> {
        disks.iter().map(|disk| VirtDrive::attach(world.env(), disk, Latency::SSD)).collect()
    };
    for disks in [&forks, &world.disks] {
        let options = OpenOptions::default();
        let pool = Pool::open(world.env(), drives(disks), options).await.expect("opens");
        assert_eq!(once.difference(&fingerprint(&pool)), None, "{when}, opened");
        audited(&pool, when).await;
    }
    // Nothing asked between opening and closing, nothing changed.
    let fresh = async || {
        let pool = Pool::open(world.env(), drives(&forks), OpenOptions::default()).await;
        pool.expect("opens")
    };
    let pool = fresh().await;
    let before = fingerprint(&pool);
    pool.close().await.expect("closes");
    let pool = fresh().await;
    assert!(pool.status().recovery.clean);
    assert_eq!(before.content_difference(&fingerprint(&pool)), None, "{when}, closed and opened");
    // What memory says is what a crash would leave.
    let now = replayed::<VirtEnv>(drives(&forks), &[]).await.expect("readable");
    assert_eq!(now.content_difference(&fingerprint(&pool)), None, "{when}, memory and drives");
}
