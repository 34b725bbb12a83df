//! Every number of drives, every block size, several RAID levels in one pool.

use engine::{ConversionPolicy, CreateSpec, Pool, Volume, VolumeError};
use io::Env;
use io::rng::Rng;

use crate::both_runtimes;
use crate::common::{MIB, Mirror, Virtual, World, check_all, check_degraded, make_pool};
use crate::common::{open_pool, sleep};

/// Random requests of all kinds and sizes around the size of a block.
async fn some_requests<E: Env>(volume: &Volume<E>, mirror: &mut Mirror, rng: &mut Rng, count: u64) {
    let (size, block) = (mirror.bytes.len() as u64, u64::from(volume.block_size()));
    for _ in 0..count {
        let blocks = [1, 1, 2, 7][rng.index(4)];
        let len = match rng.below(4) {
            0 => 512 * (1 + rng.below(16)),
            1 => 4096,
            2 => block * blocks,
            _ => 512 * (1 + rng.below(block * blocks / 512)),
        };
        let len = len.min(size / 1024 * 512);
        let unit = if rng.chance(1, 2) { block.min(len) } else { 512 };
        let offset = rng.below((size - len) / unit + 1) * unit;
        match rng.below(12) {
            0 => {
                volume.trim(offset, len, rng.chance(1, 4)).await.expect("trim");
                mirror.zero(offset, len);
            }
            1 => volume.flush().await.expect("flush"),
            _ => {
                let data = mirror.fill(rng, offset, len);
                volume.write(offset, data, rng.chance(1, 16)).await.expect("write");
            }
        }
    }
}

async fn reopened<W: World>(world: &W, pool: Pool<W::Env>) -> Pool<W::Env> {
    pool.close().await.expect("closes");
    drop(pool);
    open_pool(world).await
}

#[test]
fn any_number_of_drives() {
    for (drives, parity) in
        [3, 4, 5, 6, 8, 9, 10, 12, 13, 16].into_iter().flat_map(|n| [(n, 1), (n, 2)])
    {
        let world = Virtual::new(drives, 40 * MIB, drives as u64);
        world.block_on(async {
            let mut rng = Rng::new(drives as u64);
            let conversion = ConversionPolicy::Eager;
            let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
            let pool = make_pool(&world, &spec).await;
            pool.volume_create("v", 3 * MIB, None, None).await.expect("room");
            let volume = pool.volume("v").expect("made");
            let mut mirror = Mirror::new(3 * MIB);
            some_requests(&volume, &mut mirror, &mut rng, 150).await;
            sleep(world.env(), 300).await;
            check_all(&volume, &mirror, &format!("{drives} drives, parity {parity}")).await;
            drop(volume);
            let pool = reopened(&world, pool).await;
            let volume = pool.volume("v").expect("made");
            some_requests(&volume, &mut mirror, &mut rng, 50).await;
            drop(volume);
            pool.close().await.expect("closes");
            check_degraded(&world, usize::from(parity), &[("v", &mirror)]).await;
        });
    }
}

#[test]
fn any_block_size() {
    for shift in 12..=20_u32 {
        let block_size = 1_u32 << shift;
        let size = if shift > 17 { 96 * MIB } else { 48 * MIB };
        let world = Virtual::new(5, size, u64::from(shift));
        world.block_on(async {
            let mut rng = Rng::new(u64::from(shift));
            let spec = CreateSpec { block_size, ..CreateSpec::new("tank") };
            let pool = make_pool(&world, &spec).await;
            let size = (100 * u64::from(block_size)).clamp(MIB, 12 * MIB) + 512;
            pool.volume_create("v", size, None, None).await.expect("room");
            let volume = pool.volume("v").expect("made");
            assert_eq!(volume.block_size(), block_size);
            let mut mirror = Mirror::new(size);
            some_requests(&volume, &mut mirror, &mut rng, 200).await;
            check_all(&volume, &mirror, &format!("blocks of {block_size}")).await;
            drop(volume);
            let pool = reopened(&world, pool).await;
            assert_eq!(pool.status().block_size, block_size);
            pool.close().await.expect("closes");
            check_degraded(&world, 1, &[("v", &mirror)]).await;
        });
    }
}

const SHAPES: [(&str, u8, u16); 5] =
    [("six", 1, 7), ("four", 2, 6), ("two", 1, 3), ("pair", 1, 2), ("triple", 2, 3)];

async fn many_levels<W: World>(world: &W) {
    let mut rng = Rng::new(3);
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    let mut mirrors: Vec<Mirror> = SHAPES.iter().map(|_| Mirror::new(2 * MIB)).collect();
    for (name, parity, width) in SHAPES {
        let made = pool.volume_create(name, 2 * MIB, Some(parity), Some(width)).await;
        made.expect("room for each level");
    }
    for _ in 0..6 {
        for ((name, ..), mirror) in SHAPES.iter().zip(&mut mirrors) {
            let volume = pool.volume(name).expect("made");
            some_requests(&volume, mirror, &mut rng, 25).await;
        }
    }
    let pool = reopened(world, pool).await;
    for ((name, ..), mirror) in SHAPES.iter().zip(&mut mirrors) {
        let volume = pool.volume(name).expect("made");
        check_all(&volume, mirror, name).await;
        some_requests(&volume, mirror, &mut rng, 25).await;
    }
    assert_eq!(pool.status().redundancy_margin, 1, "as much as the weakest volume has");
    pool.close().await.expect("closes");
    let all: Vec<(&str, &Mirror)> =
        SHAPES.iter().zip(&mirrors).map(|((name, ..), mirror)| (*name, mirror)).collect();
    check_degraded(world, 1, &all).await;
    let strong: Vec<_> =
        all.into_iter().filter(|(name, _)| matches!(*name, "four" | "triple")).collect();
    check_degraded(world, 2, &strong).await;
}

both_runtimes!(many_levels_8, 8, 64 * MIB, many_levels);

/// What the volumes of a small pool of five drives may come to hold, by shape: the replicated area
/// is large, and each shape keeps a zone from the others.
const CROWD: [(&str, u64, u16, u8); 3] =
    [("v0", 930 << 10, 5, 1), ("v1", 96 << 10, 5, 2), ("v2", 792 << 10, 4, 1)];

/// Which of them are made on drives of this size. Those are written, whole.
fn crowd(mibs: u64) -> Vec<&'static str> {
    let world = Virtual::new(5, mibs * MIB, 7);
    world.block_on(async {
        let replicated_percent = 30;
        let (parity, width) = (2, Some(4));
        let spec = CreateSpec { replicated_percent, parity, width, ..CreateSpec::new("tank") };
        let pool = make_pool(&world, &spec).await;
        let mut made = Vec::new();
        for (name, bytes, width, parity) in CROWD {
            match pool.volume_create(name, bytes, Some(parity), Some(width)).await {
                Ok(()) => made.push(name),
                Err(VolumeError::Crowded { shapes, .. }) => assert_eq!(shapes, made.len() + 1),
                Err(error) => panic!("{mibs} MiB, {name}: {error}"),
            }
        }
        let mut rng = Rng::new(mibs);
        for name in &made {
            let volume = pool.volume(name).expect("made");
            let size = volume.size();
            let data = Mirror::new(size).fill(&mut rng, 0, size);
            let done = volume.write(0, data, false).await;
            done.unwrap_or_else(|error| panic!("{mibs} MiB, {name}: {error}"));
        }
        pool.close().await.expect("closes");
        made
    })
}

/// World 21105: the first write to a fresh pool was refused, "over-committed and full", because
/// volumes of other shapes kept all of its zones.
#[test]
fn a_volume_that_is_made_can_be_written() {
    let made: Vec<usize> = (22..40).map(|mibs| crowd(mibs).len()).collect();
    assert!(made.is_sorted() && made[0] == 2, "{made:?}");
    assert_eq!(*made.last().expect("some"), CROWD.len(), "{made:?}");
}

/// A volume may not grow to what its shape has no room for, either; one that no other shape stands
/// beside may be as large as it likes.
#[test]
fn a_volume_does_not_outgrow_what_other_shapes_leave() {
    let world = Virtual::new(5, 30 * MIB, 7);
    world.block_on(async {
        let spec = CreateSpec { replicated_percent: 30, ..CreateSpec::new("tank") };
        let pool = make_pool(&world, &spec).await;
        pool.volume_create("thin", 1 << 40, Some(1), Some(5)).await.expect("the only shape");
        let crowded = |done| matches!(done, Err(VolumeError::Crowded { .. }));
        pool.volume_delete("thin").await.expect("deleted");
        for (name, bytes, width, parity) in CROWD {
            let made = pool.volume_create(name, bytes, Some(parity), Some(width)).await;
            made.expect("room for so little");
        }
        assert!(crowded(pool.volume_resize("v2", 1 << 40).await));
        pool.volume_resize("v2", 800 << 10).await.expect("room");
        pool.volume_delete("v1").await.expect("deleted");
        pool.volume_resize("v2", 1 << 40).await.expect("there are two shapes left");
        pool.close().await.expect("closes");
    });
}
