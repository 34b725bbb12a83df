//! Space is taken by what is written, given back by what is discarded, and never runs out
//! without saying so.

use engine::{CreateSpec, Pool, RequestError, Volume, VolumeExtent};
use futures_util::future::join_all;
use io::rng::Rng;
use io::{Buf, Env};

use crate::both_runtimes;
use crate::common::{MIB, Mirror, Virtual, World, check_all, check_degraded, make_pool};
use crate::common::{open_pool, sleep};

async fn trimming<W: World>(world: &W) {
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    pool.volume_create("v", 32 * MIB, None, None).await.expect("room");
    let volume = pool.volume("v").expect("made");
    let empty = pool.status().space;
    volume.write(0, Buf::from_slice(&vec![5; 24 << 20]), false).await.expect("write");
    let full = pool.status().space;
    assert_eq!(full.used, 24 * MIB);
    assert!(empty.free - full.free >= 24 * MIB, "data and parity are stored");
    assert_eq!(full.free + full.raid + full.replicated + full.limbo, full.total);
    volume.trim(MIB, 22 * MIB, false).await.expect("trim");
    pool.flush().await.expect("flush");
    let trimmed = pool.status().space;
    assert_eq!(trimmed.used, 2 * MIB);
    assert!(trimmed.free + trimmed.limbo >= full.free + 22 * MIB);
    // Dead stripes are reused once a journal block after their end says so.
    volume.write(0, Buf::from_slice(&[5; 4096]), true).await.expect("write");
    pool.flush().await.expect("flush");
    let trimmed = pool.status().space;
    assert!(trimmed.free >= full.free + 22 * MIB, "{} then {}", full.free, trimmed.free);
    let mut mirror = Mirror::new(32 * MIB);
    mirror.bytes[..1 << 20].fill(5);
    mirror.bytes[23 << 20..24 << 20].fill(5);
    check_all(&volume, &mirror, "trimmed").await;
    volume.write_zeroes(0, 32 * MIB, true, true).await.expect("zeroes");
    assert_eq!(pool.status().space.used, 0);
    volume.write_zeroes(0, 2 * MIB, true, false).await.expect("zeroes");
    assert_eq!(pool.status().space.used, 2 * MIB, "allocated zeroes take space");
    check_all(&volume, &Mirror::new(32 * MIB), "zeroed").await;
    drop(volume);
    pool.close().await.expect("closes");
}

both_runtimes!(trimming_5, 5, 64 * MIB, trimming);

/// What is allocated, sector by sector.
fn allocated<E: Env>(volume: &Volume<E>, offset: u64, len: u64) -> Vec<bool> {
    let mut found = Vec::new();
    while (found.len() as u64) < len / 512 {
        let done = found.len() as u64 * 512;
        let extents = volume.extents(offset + done, len - done);
        assert!(!extents.is_empty(), "an answer says something");
        let joined = |pair: &[VolumeExtent]| pair[0].allocated != pair[1].allocated;
        assert!(extents.windows(2).all(joined), "neighbours are joined");
        for extent in extents {
            assert!(extent.len > 0 && extent.len.is_multiple_of(512));
            found.extend(vec![extent.allocated; (extent.len / 512) as usize]);
        }
    }
    assert_eq!(found.len() as u64, len / 512, "no more than was asked for");
    found
}

async fn extents<W: World>(world: &W) {
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    let size = 600 * MIB + 512;
    pool.volume_create("v", size, None, None).await.expect("thin");
    let volume = pool.volume("v").expect("made");
    let mut mirror = vec![false; (size / 512) as usize];
    assert_eq!(allocated(&volume, 0, size), mirror);
    let mut rng = Rng::new(5);
    for round in 0..60 {
        let len = 512 * (1 + rng.below(if round % 4 == 0 { 1500 } else { 40 }));
        let near = [0, 200 * MIB, 500 * MIB, size - 2 * MIB][rng.index(4)];
        let offset = near + rng.below(2 * MIB - len) / 512 * 512;
        let write = !rng.chance(1, 3);
        if write {
            volume.write(offset, Buf::zeroed(len as usize), false).await.expect("write");
        } else {
            volume.trim(offset, len, false).await.expect("trim");
        }
        mirror[(offset / 512) as usize..((offset + len) / 512) as usize].fill(write);
        let from = near.saturating_sub(1024 * 512);
        let len = (4 * MIB).min(size - from);
        let expected = &mirror[(from / 512) as usize..((from + len) / 512) as usize];
        assert_eq!(allocated(&volume, from, len), expected, "round {round}");
    }
    assert_eq!(allocated(&volume, 0, size), mirror);
    drop(volume);
    pool.close().await.expect("closes");
    let pool = open_pool(world).await;
    let volume = pool.volume("v").expect("made");
    assert_eq!(allocated(&volume, 0, size), mirror, "after reopening");
    let used = mirror.iter().filter(|allocated| **allocated).count() as u64 * 512;
    assert_eq!(pool.status().space.used, used);
    drop(volume);
    pool.close().await.expect("closes");
}

both_runtimes!(extents_5, 5, 48 * MIB, extents);

/// Fills a thin volume with `parallel` writes at a time until there is no space.
async fn fill<E: Env>(volume: &Volume<E>, len: u64, parallel: u64) -> (u64, Vec<bool>) {
    let mut stored = Vec::new();
    for round in 0.. {
        let write = |at: u64| {
            let offset = (round * parallel + at) * len;
            volume.write(offset, Buf::from_slice(&vec![round as u8 + 1; len as usize]), false)
        };
        let done = join_all((0..parallel).map(write)).await;
        let refused = done.iter().any(Result::is_err);
        for result in done {
            assert!(matches!(result, Ok(()) | Err(RequestError::NoSpace)), "{result:?}");
            stored.push(result.is_ok());
        }
        if refused {
            break;
        }
    }
    (stored.iter().filter(|ok| **ok).count() as u64 * len, stored)
}

/// One write after the other, until a page is refused: there was said to be no room for it.
async fn fill_up<E: Env>(pool: &Pool<E>, volume: &Volume<E>, from: u64) {
    const PAGE: u64 = 4096;
    for page in 0.. {
        let (before, refusals) = (pool.status().space.available, pool.counters().space_refusals);
        let write = volume.write(from + page * PAGE, Buf::zeroed(PAGE as usize), false).await;
        if before >= PAGE {
            write.expect("as much as is said to be available can be written");
            continue;
        }
        // A stripe more is not promised, but given.
        if write.is_err() {
            assert_eq!(pool.counters().space_refusals, refusals + 1);
            return;
        }
    }
}

async fn over_committing<W: World>(world: &W) {
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    let usable = pool.status().space.usable;
    pool.volume_create("v", 16 * usable, None, None).await.expect("thin");
    let volume = pool.volume("v").expect("made");
    for (len, parallel) in [(384 << 10, 64), (64 << 10, 200), (4096, 500), (16 << 10, 100)] {
        let (bytes, stored) = fill(&volume, len, parallel).await;
        assert!(bytes * 10 >= usable * 9, "{bytes} of {usable} with writes of {len}");
        assert!(bytes <= usable + usable / 10, "{bytes} of {usable}");
        assert_eq!(pool.status().failed, None, "full is not failed");
        fill_up(&pool, &volume, stored.len() as u64 * len).await;
        // Overwriting goes on, reading too, and what was refused is not there.
        let first = Buf::from_slice(&vec![1; len as usize]);
        volume.write(0, first, true).await.expect("an overwrite needs no new space");
        for (at, ok) in stored.into_iter().enumerate().step_by(7) {
            let found = volume.read(at as u64 * len, 512).await.expect("readable");
            let round = (at as u64 / parallel) as u8 + 1;
            assert_eq!(found[0][0], if ok { round } else { 0 }, "write {at}");
        }
        volume.trim(0, 16 * usable, false).await.expect("trim");
        assert_eq!(pool.status().space.used, 0);
        volume.write(0, Buf::zeroed(len as usize), false).await.expect("there is room again");
    }
    drop(volume);
    pool.close().await.expect("closes");
}

both_runtimes!(over_committing_7, 7, 40 * MIB, over_committing);

/// A full pool that is overwritten at random, by many at a time, neither fills nor stops, and
/// it can be closed in the middle of it.
#[test]
fn a_full_pool_can_be_overwritten_and_closed() {
    for (drives, parity, parallel) in [(7, 1, 64), (4, 2, 16), (3, 1, 128)] {
        let world = Virtual::new(drives, 40 * MIB, 21);
        world.block_on(async {
            let mut rng = Rng::new(22);
            let spec = CreateSpec { parity, ..CreateSpec::new("tank") };
            let pool = make_pool(&world, &spec).await;
            let size = pool.status().space.usable / 65536 * 65536;
            pool.volume_create("v", size, None, None).await.expect("room");
            let volume = pool.volume("v").expect("made");
            let mut mirror = Mirror::new(size);
            for offset in (0..size).step_by(65536) {
                let data = mirror.fill(&mut rng, offset, 65536);
                volume.write(offset, data, false).await.expect("its size is usable");
            }
            for _ in 0..size / 16384 / parallel / 2 {
                let mut starts: Vec<u64> = (0..parallel).map(|_| rng.below(size / 16384)).collect();
                starts.sort_unstable();
                starts.dedup();
                let writes: Vec<_> = starts
                    .into_iter()
                    .map(|at| (at * 16384, mirror.fill(&mut rng, at * 16384, 16384)))
                    .collect();
                let write = |(offset, data)| volume.write(offset, data, false);
                let done = join_all(writes.into_iter().map(write)).await;
                assert!(done.iter().all(Result::is_ok), "{done:?}");
            }
            check_all(&volume, &mirror, "overwritten").await;
            drop(volume);
            pool.close().await.expect("closes");
            check_degraded(&world, usize::from(parity), &[("v", &mirror)]).await;
        });
    }
}

/// Blocks cut into many pieces are put together again in the background.
#[test]
fn patches_are_merged() {
    let world = Virtual::new(5, 64 * MIB, 24);
    world.block_on(async {
        let mut rng = Rng::new(25);
        let pool = make_pool(&world, &CreateSpec::new("tank")).await;
        pool.volume_create("v", 4 * MIB, None, None).await.expect("room");
        let volume = pool.volume("v").expect("made");
        let mut mirror = Mirror::new(4 * MIB);
        for _ in 0..6000 {
            let offset = rng.below(4 * MIB / 512 - 3) * 512;
            let len = 512 * (1 + rng.below(3));
            let data = mirror.fill(&mut rng, offset, len);
            volume.write(offset, data, false).await.expect("write");
        }
        sleep(world.env(), 500).await;
        let counters = pool.counters();
        assert!(counters.merged_blocks > 0, "{counters:?}");
        let most = pool.memory().patches / 64;
        assert!(most <= 34, "{most} pieces a block are left");
        check_all(&volume, &mirror, "merged").await;
        drop(volume);
        pool.close().await.expect("closes");
        check_degraded(&world, 1, &[("v", &mirror)]).await;
    });
}
