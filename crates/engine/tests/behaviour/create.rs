//! Making pools: the plan, and every way to be refused.

use engine::{CreateError, CreateSpec, OpenError, OpenOptions, Pool, create, plan_create};
use io::{Geometry, virt::Disk};
use layout::LayoutError;

use crate::common::{MIB, Virtual, World, open_pool};

fn drives(count: usize, size: u64) -> Vec<(String, Geometry)> {
    let geometry = Geometry { size, align: 4096, atomic: 512, rotational: false };
    (0..count).map(|at| (format!("d{at}"), geometry)).collect()
}

#[test]
fn a_plan_adds_up() {
    for (count, size) in [(3, 40 * MIB), (7, 64 * MIB), (7, 1 << 40), (16, 8 << 30), (60, 1 << 42)]
    {
        for parity in [1, 2] {
            for block_size in [4 << 10, 64 << 10, 1 << 20] {
                let spec = CreateSpec { parity, block_size, ..CreateSpec::new("tank") };
                let Ok(plan) = plan_create(&drives(count, size), &spec) else {
                    assert!(block_size == 1 << 20 && size < 1 << 30, "{count} of {size}");
                    continue;
                };
                let width = u64::from(plan.width);
                assert_eq!(plan.raw_bytes, count as u64 * size);
                assert_eq!(plan.unused_bytes, 0);
                assert_eq!(width, (6 + u64::from(parity)).min(count as u64));
                let each = plan.journal_bytes
                    + plan.metadata_bytes
                    + plan.zone_bytes * u64::from(plan.zones);
                assert!(each <= size, "{each} of {size} on every drive");
                let data = plan.raw_bytes / width * (width - u64::from(parity));
                let usable = plan.usable_bytes;
                assert!(usable > 0 && usable < data, "{usable} of {data}: {plan:?}");
                // Labels, journal, metadata and the replicated area take their part, no more; of
                // large blocks a zone may hold few rows, and the rest of a row is lost.
                if size > 1 << 32 && block_size < 1 << 20 {
                    let share = plan.usable_bytes as f64 / data as f64;
                    assert!(share > 0.82, "{share} of {data} is usable, {count} drives, {plan:?}");
                }
            }
        }
    }
}

#[test]
fn larger_drives_are_used_as_far_as_the_smallest_reaches() {
    let mut named = drives(5, 64 * MIB);
    let equal = plan_create(&named, &CreateSpec::new("tank")).expect("large enough");
    named[3].1.size = 100 * MIB;
    let plan = plan_create(&named, &CreateSpec::new("tank")).expect("large enough");
    assert_eq!(plan.unused_bytes, 36 * MIB);
    assert_eq!(plan.usable_bytes, equal.usable_bytes);
}

fn refused(drives: &[(String, Geometry)], change: impl FnOnce(&mut CreateSpec)) -> CreateError {
    let mut spec = CreateSpec::new("tank");
    change(&mut spec);
    plan_create(drives, &spec).expect_err("this must be refused")
}

#[test]
fn every_bad_request_is_refused_for_its_reason() {
    let five = drives(5, 64 * MIB);
    for name in ["", "a b", "ä", &"x".repeat(64)] {
        assert!(matches!(refused(&five, |s| s.name = name.into()), CreateError::Name(_)));
    }
    for parity in [0, 3, 255] {
        assert!(matches!(refused(&five, |s| s.parity = parity), CreateError::Parity(_)));
    }
    for size in [0, 512, 2048, 5000, 3 << 15, 2 << 20] {
        assert!(matches!(refused(&five, |s| s.block_size = size), CreateError::BlockSize(_)));
    }
    for percent in [0, 1, 51, 255] {
        let error = refused(&five, |s| s.replicated_percent = percent);
        assert!(matches!(error, CreateError::ReplicatedPercent(_)));
    }
    let layout = |error| match error {
        CreateError::Layout(error) => error,
        other => panic!("{other}"),
    };
    let wide = layout(refused(&five, |s| s.width = Some(6)));
    assert_eq!(wide, LayoutError::WidthOverDrives { width: 6, drives: 5 });
    let narrow = layout(refused(&five, |s| s.width = Some(1)));
    assert_eq!(narrow, LayoutError::WidthUnderParity { width: 1, parity: 1 });
    for count in 0..3 {
        for width in [None, Some(2), Some(3)] {
            let error = refused(&drives(count, 64 * MIB), |s| s.width = width);
            let text = error.to_string();
            assert!(text.contains("drives"), "{count} drives, {width:?} wide: {text}");
        }
    }
    assert!(matches!(
        layout(refused(&drives(257, 64 * MIB), |_| {})),
        LayoutError::TooManyDrives { drives: 257 }
    ));
    let huge = refused(&drives(256, 1 << 50), |s| s.block_size = 4096);
    assert!(matches!(huge, CreateError::TooLarge), "{huge}");
}

/// The size that is asked for is enough, and the next one below is not much less.
#[test]
fn a_drive_that_is_too_small_is_told_what_is_needed() {
    for count in [3, 7, 40] {
        for block_size in [4 << 10, 64 << 10, 1 << 20] {
            for size in [0, 4096, MIB, 2 * MIB, 3 * MIB, 5 * MIB, 17 * MIB] {
                let named = drives(count, size);
                let error = refused(&named, |s| s.block_size = block_size);
                let CreateError::DriveTooSmall { name, size: found, least } = error else {
                    panic!("{size} bytes: {error}");
                };
                assert_eq!((name.as_str(), found), ("d0", size));
                let spec = CreateSpec { block_size, ..CreateSpec::new("tank") };
                let enough = plan_create(&drives(count, least), &spec);
                assert!(enough.is_ok(), "{count} of {least}, told at {size}: {:?}", enough.err());
            }
        }
    }
}

#[test]
fn drives_that_fail_while_the_pool_is_made_are_named() {
    let world = Virtual::new(4, 48 * MIB, 3);
    world.block_on(async {
        world.disks[2].set_failed(true);
        let made = create(world.env(), &world.drives(), &CreateSpec::new("tank")).await;
        let error = made.expect_err("a drive is gone");
        assert!(matches!(&error, CreateError::Drive { name, .. } if name == "disk2"), "{error}");
    });
}

#[test]
fn a_drive_that_is_listed_twice_does_not_become_a_pool() {
    let world = Virtual::new(3, 48 * MIB, 3);
    world.block_on(async {
        let mut twice = world.drives();
        twice[2] = twice[0].clone();
        let made = create(world.env(), &twice, &CreateSpec::new("tank")).await;
        assert!(made.is_err(), "two members can't share a drive");
    });
}

/// Whenever the machine stops while a pool is made, the drives hold no pool, or one that was
/// made: never one that can be opened and not be used.
#[test]
fn a_pool_that_was_not_made_to_the_end_is_never_half_open() {
    let mut made = 0;
    for stop in (0..400).step_by(3) {
        let world = Virtual::new(3, 40 * MIB, stop);
        let limit = world.env().writes_issued() + stop;
        world.env().set_write_limit(limit);
        let drives = world.drives();
        let spec = CreateSpec::new("tank");
        let finished = {
            let creation = create(world.env(), &drives, &spec);
            world.env().run_until(creation, || world.env().write_limit_reached()).is_some()
        };
        world.kill();
        made += u64::from(finished);
        world.block_on(async {
            match Pool::open(world.env(), world.drives(), OpenOptions::default()).await {
                Err(_) => assert!(!finished),
                Ok(pool) => {
                    assert_eq!(pool.status().name, "tank");
                    pool.volume_create("v", MIB, None, None).await.expect("a usable pool");
                    pool.close().await.expect("closes");
                }
            }
        });
    }
    assert!(made > 10, "some must have come to the end: {made}");
}

#[test]
fn making_a_pool_forgets_what_was_there() {
    let world = Virtual::new(3, 48 * MIB, 3);
    world.block_on(async {
        let spec = CreateSpec::new("first");
        create(world.env(), &world.drives(), &spec).await.expect("made");
        let pool = open_pool(&world).await;
        pool.volume_create("v", MIB, None, None).await.expect("room");
        pool.close().await.expect("closes");
        let spec = CreateSpec::new("second");
        create(world.env(), &world.drives(), &spec).await.expect("made again");
        let pool = open_pool(&world).await;
        assert_eq!((pool.name().as_str(), pool.volumes().len()), ("second", 0));
        pool.close().await.expect("closes");
    });
}

#[test]
fn drives_without_a_pool_are_refused() {
    let world = Virtual::new(3, 48 * MIB, 3);
    world.block_on(async {
        let open = |drives| Pool::open(world.env(), drives, OpenOptions::default());
        let error = open(world.drives()).await.err().expect("they are empty");
        assert!(matches!(error, OpenError::NotOurs { .. }), "{error}");
        let error = open(Vec::new()).await.err().expect("nothing to open");
        assert!(matches!(error, OpenError::NoDrives), "{error}");
    });
    let tiny = Disk::new("tiny", MIB, 4096, 1);
    assert_eq!(tiny.geometry().size, MIB);
}
