//! Volumes come, grow, shrink and go.

use engine::{CreateError, CreateSpec, OpenOptions, Pool, RequestError, VolumeError};
use io::rng::Rng;
use io::{Buf, Env, Nanos};

use crate::both_runtimes;
use crate::common::{MIB, Mirror, Virtual, World, check_all, make_pool, open_pool};

async fn names_and_shapes<W: World>(world: &W) {
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    assert!(pool.volumes().is_empty() && pool.volume("a").is_none());
    pool.volume_create("a", 4 * MIB, None, None).await.expect("room");
    pool.volume_create("b", 512, Some(2), None).await.expect("room");
    pool.volume_create("c", 1 << 50, Some(1), Some(3)).await.expect("thin");
    let again = pool.volume_create("a", MIB, None, None).await;
    assert!(matches!(again, Err(VolumeError::Exists(name)) if name == "a"));
    for name in ["", "a/b", &"x".repeat(64)] {
        let refused = pool.volume_create(name, MIB, None, None).await;
        assert!(matches!(refused, Err(VolumeError::Name(_))), "'{name}'");
    }
    for size in [0, 100, 1000, u64::MAX, (1 << 56) + 512] {
        let refused = pool.volume_create("d", size, None, None).await;
        assert!(matches!(refused, Err(VolumeError::Size(_))), "{size}");
    }
    for (parity, width) in [(Some(0), None), (Some(3), None), (None, Some(1)), (None, Some(9))] {
        let refused = pool.volume_create("d", MIB, parity, width).await;
        assert!(matches!(refused, Err(VolumeError::Shape(_))), "{parity:?} {width:?}");
    }
    let refused = pool.volume_create("d", MIB, Some(7), None).await;
    assert!(matches!(refused, Err(VolumeError::Shape(CreateError::Parity(7)))));
    let expected = [("a", 4 * MIB, 6, 1), ("b", 512, 6, 2), ("c", 1 << 50, 3, 1)];
    for _ in 0..2 {
        let volumes = pool.volumes();
        let found = volumes.iter().map(|v| (v.name.as_str(), v.size, v.width, v.parity));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert!(volumes.iter().all(|volume| volume.mapped_bytes == 0));
    }
    pool.close().await.expect("closes");
    let pool = open_pool(world).await;
    let volumes = pool.volumes();
    let found = volumes.iter().map(|v| (v.name.as_str(), v.size, v.width, v.parity));
    assert_eq!(found.collect::<Vec<_>>(), expected, "after reopening");
    pool.close().await.expect("closes");
}

both_runtimes!(names_and_shapes_6, 6, 48 * MIB, names_and_shapes);

async fn deleting<W: World>(world: &W) {
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    let free = pool.status().space.free;
    pool.volume_create("a", 8 * MIB, None, None).await.expect("room");
    let volume = pool.volume("a").expect("made");
    volume.write(MIB + 512, Buf::from_slice(&[7; 3 << 20]), false).await.expect("write");
    assert!(pool.volumes()[0].mapped_bytes >= 3 * MIB);
    let used = pool.volume_delete("a").await;
    assert!(matches!(used, Err(VolumeError::InUse(name)) if name == "a"));
    let other = volume.clone();
    drop(volume);
    assert!(matches!(pool.volume_delete("a").await, Err(VolumeError::InUse(_))));
    drop(other);
    pool.volume_delete("a").await.expect("nobody uses it");
    assert!(pool.volume("a").is_none() && pool.volumes().is_empty());
    assert!(matches!(pool.volume_delete("a").await, Err(VolumeError::NotFound(_))));
    assert!(matches!(pool.volume_resize("a", MIB).await, Err(VolumeError::NotFound(_))));
    pool.flush().await.expect("flush");
    assert_eq!(pool.status().space.used, 0);
    // Tuples in reserve for writes past slow drives are given up when nobody writes; the eight
    // of packed slots and four more stay.
    let env = world.env();
    let end = env.now() + Nanos::from_secs(30);
    let is_free = || {
        let space = pool.status().space;
        space.free + space.limbo + 8 * MIB > free
    };
    while !is_free() {
        assert!(env.now() < end, "its space is free again: {:?}", pool.status().space);
        env.sleep_until(env.now() + Nanos::from_millis(100)).await;
    }
    // One of the same name begins empty.
    pool.volume_create("a", 8 * MIB, None, None).await.expect("room");
    check_all(&pool.volume("a").expect("made"), &Mirror::new(8 * MIB), "new volume").await;
    pool.close().await.expect("closes");
    let pool = open_pool(world).await;
    check_all(&pool.volume("a").expect("made"), &Mirror::new(8 * MIB), "reopened").await;
    pool.close().await.expect("closes");
}

both_runtimes!(deleting_5, 5, 48 * MIB, deleting);

async fn resizing<W: World>(world: &W) {
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    pool.volume_create("a", 2 * MIB, None, None).await.expect("room");
    let volume = pool.volume("a").expect("made");
    let mut mirror = Mirror::new(4 * MIB);
    let mut rng = Rng::new(1);
    let past = volume.write(2 * MIB - 512, Buf::zeroed(1024), false).await;
    assert_eq!(past, Err(RequestError::OutOfRange));
    pool.volume_resize("a", 4 * MIB).await.expect("grows");
    assert_eq!(volume.size(), 4 * MIB, "a volume in use grows");
    // Data at the end of its block, nothing before it in the block.
    for offset in [0, 2 * MIB - 512, 3 * MIB + 40 * 512] {
        let data = mirror.fill(&mut rng, offset, 1024);
        volume.write(offset, data, false).await.expect("write");
    }
    let end = 3 * MIB + 42 * 512;
    for size in [512, MIB, 3 * MIB, 3 * MIB + 512, end - 512] {
        let refused = pool.volume_resize("a", size).await;
        let Err(VolumeError::ShrinkBelowData { used, .. }) = refused else {
            panic!("data beyond {size} would be lost: {refused:?}");
        };
        assert_eq!(used, end, "says where the data ends");
    }
    for size in [0, 1000] {
        let refused = pool.volume_resize("a", size).await;
        assert!(matches!(refused, Err(VolumeError::Size(_))));
    }
    pool.volume_resize("a", end).await.expect("nothing is lost");
    volume.trim(3 * MIB, end - 3 * MIB, false).await.expect("trim");
    mirror.zero(3 * MIB, end - 3 * MIB);
    pool.volume_resize("a", 2 * MIB + 512).await.expect("shrinks to what is left");
    assert_eq!(volume.read(2 * MIB, 1024).await.err(), Some(RequestError::OutOfRange));
    pool.volume_resize("a", 4 * MIB).await.expect("grows");
    check_all(&volume, &mirror, "grown again").await;
    drop(volume);
    pool.close().await.expect("closes");
    let pool = open_pool(world).await;
    check_all(&pool.volume("a").expect("made"), &mirror, "reopened").await;
    pool.close().await.expect("closes");
}

both_runtimes!(resizing_5, 5, 48 * MIB, resizing);

#[test]
fn requests_outside_the_volume_or_off_its_sectors_are_refused() {
    let world = Virtual::new(4, 48 * MIB, 5);
    world.block_on(async {
        let pool = make_pool(&world, &CreateSpec::new("tank")).await;
        pool.volume_create("a", MIB, None, None).await.expect("room");
        let volume = pool.volume("a").expect("made");
        let cases =
            [(MIB, 512), (MIB - 512, 1024), (100, 512), (0, 100), (u64::MAX - 511, 512), (1, 1)];
        for (offset, len) in cases {
            let refused = Err(RequestError::OutOfRange);
            let data = Buf::zeroed(len as usize);
            assert_eq!(volume.write(offset, data, true).await, refused);
            assert_eq!(volume.trim(offset, len, true).await, refused);
            for may_trim in [false, true] {
                assert_eq!(volume.write_zeroes(offset, len, false, may_trim).await, refused);
            }
            assert_eq!(volume.read(offset, len as u32).await.err(), Some(RequestError::OutOfRange));
        }
        for offset in [0, 512, MIB] {
            volume.write(offset, Buf::zeroed(0), true).await.expect("nothing");
            volume.trim(offset, 0, false).await.expect("nothing");
            volume.write_zeroes(offset, 0, true, false).await.expect("nothing");
            assert!(volume.read(offset, 0).await.expect("nothing").is_empty());
        }
        assert_eq!(volume.size(), MIB);
        assert_eq!(pool.status().space.used, 0);
    });
}

#[test]
fn a_closed_pool_refuses_everything() {
    let world = Virtual::new(4, 48 * MIB, 5);
    world.block_on(async {
        let pool = make_pool(&world, &CreateSpec::new("tank")).await;
        pool.volume_create("a", MIB, None, None).await.expect("room");
        let volume = pool.volume("a").expect("made");
        volume.write(0, Buf::zeroed(4096), false).await.expect("write");
        pool.close().await.expect("closes");
        assert!(volume.write(0, Buf::zeroed(4096), false).await.is_err());
        assert!(volume.read(0, 4096).await.is_err());
        assert!(volume.flush().await.is_err());
        assert!(volume.trim(0, 4096, false).await.is_err());
        assert!(pool.volume_create("b", MIB, None, None).await.is_err());
        assert!(pool.volume_delete("a").await.is_err());
        // Its drives can be opened while handles are still around.
        let opened = Pool::open(world.env(), world.drives(), OpenOptions::default()).await;
        opened.expect("opens").close().await.expect("closes");
    });
}
