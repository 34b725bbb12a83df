//! Volumes hold what was written: any request, any pattern, across reopening, on both runtimes.

use crate::both_runtimes;
use crate::common::{MIB, Mirror, World, check_all, make_pool, open_pool};
use engine::{CreateSpec, Volume};
use io::Env;
use io::rng::Rng;

async fn random_requests<E: Env>(
    volume: &Volume<E>,
    mirror: &mut Mirror,
    rng: &mut Rng,
    count: usize,
) {
    let size = volume.size();
    for _ in 0..count {
        let sectors = match rng.below(10) {
            0..=3 => 1 + rng.below(16),
            4..=6 => 8,
            7 => 128,
            8 => 1 + rng.below(300),
            _ => 128 * (1 + rng.below(16)),
        };
        let len = (sectors * 512).min(size);
        let unit = if rng.chance(1, 2) { 4096 } else { 512 };
        let offset = rng.below((size - len) / unit + 1) * unit;
        match rng.below(20) {
            0 => {
                volume.trim(offset, len, false).await.expect("trim");
                mirror.zero(offset, len);
            }
            1 => {
                let may_trim = rng.chance(1, 2);
                volume.write_zeroes(offset, len, false, may_trim).await.expect("zeroes");
                mirror.zero(offset, len);
            }
            2 => volume.flush().await.expect("flush"),
            _ => {
                let data = mirror.fill(rng, offset, len);
                volume.write(offset, data, rng.chance(1, 10)).await.expect("write");
            }
        }
    }
}

async fn survives_reopening<W: World>(world: &W) {
    let mut rng = Rng::new(11);
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    pool.volume_create("v", 24 * MIB, None, None).await.expect("room");
    let mut mirror = Mirror::new(24 * MIB);
    drop(pool);
    world.kill();
    for round in 0..3 {
        // The first opening follows a pool that was dropped without closing.
        let pool = open_pool(world).await;
        let volume = pool.volume("v").expect("it was made");
        check_all(&volume, &mirror, &format!("round {round}, opened")).await;
        random_requests(&volume, &mut mirror, &mut rng, 600).await;
        check_all(&volume, &mirror, &format!("round {round}, written")).await;
        drop(volume);
        pool.close().await.expect("closes");
    }
    let pool = open_pool(world).await;
    assert!(pool.status().recovery.clean);
    check_all(&pool.volume("v").unwrap(), &mirror, "at the end").await;
    pool.close().await.expect("closes");
}

both_runtimes!(survives_reopening_5, 5, 64 * MIB, survives_reopening);

/// Overwrites a volume many times its size: nothing may run out, and reads stay right.
async fn overwrites_for_ever<W: World>(world: &W) {
    let mut rng = Rng::new(5);
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    let size = pool.status().space.usable * 8 / 10 / 65536 * 65536;
    pool.volume_create("v", size, None, None).await.expect("room");
    let volume = pool.volume("v").expect("it was made");
    let mut mirror = Mirror::new(size);
    for round in 0..3 {
        for _ in 0..size / 4096 {
            let offset = rng.below(size / 4096) * 4096;
            let data = mirror.fill(&mut rng, offset, 4096);
            volume.write(offset, data, false).await.expect("write");
        }
        check_all(&volume, &mirror, &format!("round {round}")).await;
    }
    drop(volume);
    pool.close().await.expect("closes");
    let pool = open_pool(world).await;
    check_all(&pool.volume("v").unwrap(), &mirror, "reopened").await;
    pool.close().await.expect("closes");
}

both_runtimes!(overwrites_for_ever_4, 4, 40 * MIB, overwrites_for_ever);

/// A class that spread over the whole pool makes room for one that comes later.
async fn classes_share_space<W: World>(world: &W) {
    let mut rng = Rng::new(9);
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    let size = pool.status().space.usable / 3 / 65536 * 65536;
    pool.volume_create("first", size, None, None).await.expect("room");
    let first = pool.volume("first").expect("it was made");
    let mut mirror = Mirror::new(size);
    for _ in 0..4 * size / 65536 {
        let offset = rng.below(size / 65536) * 65536;
        let data = mirror.fill(&mut rng, offset, 65536);
        first.write(offset, data, false).await.expect("write");
    }
    pool.volume_create("second", size, Some(1), Some(3)).await.expect("room");
    let second = pool.volume("second").expect("it was made");
    let mut other = Mirror::new(size);
    for start in (0..size).step_by(MIB as usize) {
        let len = MIB.min(size - start);
        let data = other.fill(&mut rng, start, len);
        second.write(start, data, false).await.expect("write");
    }
    check_all(&first, &mirror, "first").await;
    check_all(&second, &other, "second").await;
    drop((first, second));
    pool.close().await.expect("closes");
}

both_runtimes!(classes_share_space_5, 5, 48 * MIB, classes_share_space);
