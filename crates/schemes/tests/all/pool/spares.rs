//! Spares: made, found again, taken for lost drives and for drives that leave, whatever a crash
//! cuts short.

use io::{Env, Nanos};
use schemes::pool::{DriveState, SPARES_MAX};
use schemes::scheme::Scheme;
use schemes::{Pool, StoreError};

use super::shelf::{
    DRIVE, REDUNDANT, SMALL, SOON, Shelf, TestEnv, check, state, told, volume, write,
};

const AFTER: Nanos = Nanos::from_secs(5);
/// What filling a drive takes at most.
const FILLED: Nanos = Nanos::from_secs(120);

fn shelf(scheme: Scheme, drives: u64) -> Shelf {
    Shelf::new(scheme, drives).filled_after(Some(AFTER))
}

fn spares(pool: &Pool<TestEnv>) -> Vec<String> {
    let drives = pool.status().drives.into_iter();
    drives.filter(|own| own.state == DriveState::Spare).map(|own| own.name).collect()
}

fn is_whole(pool: &Pool<TestEnv>) -> bool {
    let mut drives = pool.status().drives.into_iter();
    let known = |state| matches!(state, DriveState::Active | DriveState::Spare);
    drives.all(|own| known(own.state) && own.replacing.is_none())
}

async fn until_whole(shelf: &Shelf, pool: &Pool<TestEnv>, name: &str) {
    let began = shelf.env.now();
    while !is_whole(pool) {
        shelf.rest(Nanos::from_millis(100)).await;
        let drives = pool.status().drives;
        assert!(began + FILLED > shelf.env.now(), "{name}: {drives:#?} {:#?}", pool.events(0));
    }
}

async fn fill(pool: &Pool<TestEnv>) {
    for at in 0..4 {
        write(pool, at).await;
    }
    volume(pool).flush().await.expect("flushes");
}

#[test]
fn a_spare_takes_the_place_of_a_drive_that_is_lost() {
    for (scheme, drives) in REDUNDANT {
        let (name, victim) = (scheme.name(), 1);
        let mut shelf = shelf(scheme, drives);
        let spare = shelf.add(DRIVE);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            pool.spare_add(shelf.drive(spare)).await.expect("it fits");
            assert_eq!(spares(&pool), [format!("d{spare}")], "{name}");
            fill(&pool).await;
            shelf.disks[victim].set_failed(true);
            write(&pool, 4).await;
            volume(&pool).flush().await.expect("flushes");
            write(&pool, 5).await;
            shelf.rest(AFTER).await;
            until_whole(&shelf, &pool, name).await;
            assert_eq!(told(&pool, "spare-used", victim as u16).len(), 1, "{name}");
            assert_eq!(pool.status().drives[victim].name, format!("d{spare}"), "{name}");
            assert_eq!(spares(&pool), [""; 0], "{name}");
            write(&pool, 6).await;
            pool.close().await.expect("closes");
        });
        shelf.crash();
        // Without the old one, and without another that the new one has to stand in for.
        shelf.disks[victim + 1].set_failed(true);
        shelf.env.block_on(async {
            let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            check(&pool, name, 7).await;
        });
    }
}

#[test]
fn a_spare_waits_until_it_is_time_and_nobody_holds_it() {
    let mut shelf = shelf(Scheme::Raid6, 5);
    let spare = shelf.add(DRIVE);
    shelf.env.block_on(async {
        let pool = shelf.open().await.expect("it opens");
        pool.spare_add(shelf.drive(spare)).await.expect("it fits");
        pool.drive_fail(1, true).await.expect("it is spared");
        shelf.rest(AFTER + SOON).await;
        assert_eq!(spares(&pool).len(), 1, "an operator takes it back");
        pool.drive_replace(1, shelf.drive(1)).await.expect("it is back");
        until_whole(&shelf, &pool, "raid6").await;
        pool.rebuild_pause(true);
        pool.drive_fail(2, false).await.expect("it is spared");
        shelf.rest(AFTER + SOON).await;
        assert_eq!(spares(&pool).len(), 1, "it is paused");
        pool.rebuild_pause(false);
        shelf.rest(SOON).await;
        assert_eq!(spares(&pool).len(), 0, "it is time");
        until_whole(&shelf, &pool, "raid6").await;
        pool.close().await.expect("closes");
    });
    shelf.options.rebuild_after = None;
    let spare = shelf.add(DRIVE);
    shelf.env.block_on(async {
        let pool = shelf.open().await.expect("it opens");
        pool.spare_add(shelf.drive(spare)).await.expect("it fits");
        pool.drive_fail(3, false).await.expect("it is spared");
        shelf.rest(AFTER + SOON).await;
        assert_eq!(state(&pool, 3), DriveState::Failed, "never");
    });
}

#[test]
fn what_is_held_stands_still_and_says_how_long_it_takes() {
    for scheme in [Scheme::Raid5, Scheme::Hybrid, Scheme::Steering, Scheme::LogMirror] {
        let name = scheme.name();
        let mut shelf = shelf(scheme, 6);
        let spare = shelf.add(DRIVE);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            pool.spare_add(shelf.drive(spare)).await.expect("it fits");
            fill(&pool).await;
            pool.rebuild_pause(true);
            shelf.disks[0].set_failed(true);
            write(&pool, 4).await;
            pool.drive_remove(0).await.expect("a spare takes its place");
            shelf.rest(SOON).await;
            let left = || pool.status().drives[0].restoring.map(|own| own.left);
            let before = left();
            assert!(before.is_some_and(|left| left > 0), "{name}");
            shelf.rest(SOON).await;
            assert_eq!(left(), before, "{name}: it is paused");
            assert!(pool.status().paused && pool.status().drives[0].eta.is_none(), "{name}");
            pool.rebuild_pause(false);
            until_whole(&shelf, &pool, name).await;
            check(&pool, name, 5).await;
            pool.close().await.expect("closes");
        });
    }
}

#[test]
fn spares_are_found_again_and_removed() {
    for scheme in [Scheme::Raid5, Scheme::LogMirror] {
        let name = scheme.name();
        let mut shelf = shelf(scheme, 6);
        let (small, spare) = (shelf.add(DRIVE / 4), shelf.add(DRIVE + (8 << 20)));
        let other = Shelf::seeded(scheme, 6, 2);
        let shape = |done: Result<(), StoreError>, why: &str| {
            let error = done.expect_err("it is refused").to_string();
            assert!(error.contains(why), "{name}: {error}");
        };
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            shape(pool.spare_add(shelf.drive(small)).await, "smaller than any drive");
            shape(pool.spare_add(shelf.drive(2)).await, "in use in this pool");
            shape(pool.drive_remove(0).await, "no spare fits its place");
            pool.spare_add(shelf.drive(spare)).await.expect("it fits");
            shape(pool.spare_add(shelf.drive(spare)).await, "in use in this pool");
            pool.close().await.expect("closes");
        });
        let strange = other.disks[1].fork();
        shelf.disks[small] = strange;
        shelf.crash();
        shelf.env.block_on(async {
            let mut drives = shelf.drives();
            let foreign = drives.remove(small);
            let pool = Pool::open(&shelf.inside(), drives, shelf.options).await.expect("it opens");
            assert_eq!(spares(&pool), [format!("d{spare}")], "{name}");
            assert!(is_whole(&pool), "{name}");
            shape(pool.spare_add(foreign).await, "label of another pool");
            let identity = pool.status().drives[6].uuid;
            pool.spare_remove(identity).await.expect("it is there");
            shape(pool.spare_remove(identity).await, "none of this pool");
            assert_eq!(spares(&pool).len(), 0, "{name}");
            assert!(classical::label::read(&shelf.drive(spare)).await.is_none(), "{name}");
            pool.close().await.expect("closes");
        });
    }
}

#[test]
fn there_are_no_more_spares_than_a_pool_takes() {
    let mut shelf = shelf(Scheme::Raid1, 2);
    let more: Vec<usize> = (0..=SPARES_MAX).map(|_| shelf.add(DRIVE)).collect();
    shelf.env.block_on(async {
        let pool = shelf.open().await.expect("it opens");
        for (count, spare) in more.iter().enumerate() {
            let done = pool.spare_add(shelf.drive(*spare)).await;
            assert_eq!(done.is_ok(), count < SPARES_MAX, "{done:?}");
        }
        pool.close().await.expect("closes");
    });
    let shelf = self::shelf(Scheme::Raid0, 3);
    shelf.env.block_on(async {
        let pool = shelf.open().await.expect("it opens");
        let refused = pool.spare_add(shelf.drive(0)).await.expect_err("it is of no use");
        assert!(refused.to_string().contains("no redundancy"), "{refused}");
    });
}

/// A member leaves, and the smallest spare that fits has its place.
#[test]
fn a_member_is_removed() {
    for (scheme, drives) in REDUNDANT {
        let name = scheme.name();
        let mut shelf = shelf(scheme, drives);
        let (large, fits) = (shelf.add(2 * DRIVE), shelf.add(DRIVE));
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            pool.spare_add(shelf.drive(large)).await.expect("it fits");
            pool.spare_add(shelf.drive(fits)).await.expect("it fits");
            fill(&pool).await;
            pool.drive_remove(0).await.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(pool.status().drives[0].name, "d0", "{name}: it serves on");
            assert_eq!(spares(&pool), [format!("d{large}")], "{name}");
            write(&pool, 4).await;
            until_whole(&shelf, &pool, name).await;
            assert_eq!(pool.status().drives[0].name, format!("d{fits}"), "{name}");
            assert!(classical::label::read(&shelf.drive(0)).await.is_none(), "{name}");
            check(&pool, name, 5).await;
            pool.close().await.expect("closes");
        });
        shelf.crash();
        shelf.env.block_on(async {
            let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(is_whole(&pool), "{name}");
            check(&pool, name, 5).await;
        });
    }
}

/// A pool with something in it and a spare of that size, the last of its drives.
fn with_spare(scheme: Scheme, drives: u64, size: u64) -> Shelf {
    let mut shelf = Shelf::small(scheme, drives).filled_after(Some(AFTER));
    let spare = shelf.add(size);
    shelf.env.block_on(async {
        let pool = shelf.open().await.expect("it opens");
        pool.spare_add(shelf.drive(spare)).await.expect("it fits");
        fill(&pool).await;
        pool.close().await.expect("closes");
    });
    shelf
}

/// Power fails at any of the writes by which a spare takes a place: afterwards it is a spare, or
/// the member, and the pool becomes whole by itself.
#[test]
fn a_crash_leaves_a_spare_or_a_member() {
    let schemes = [
        (Scheme::Raid6, 5),
        (Scheme::Raid10, 4),
        (Scheme::Hybrid, 6),
        (Scheme::LogMirror, 6),
        (Scheme::Steering, 5),
        (Scheme::MirrorLog, 6),
        (Scheme::Alternate, 4),
    ];
    for (scheme, drives) in schemes {
        let name = scheme.name();
        // Of one of them most, to the last.
        let step = if scheme == Scheme::Raid6 { 2 } else { 40 };
        let filled = [0, 1].map(|more| with_spare(scheme, drives, SMALL + (1 << 20) * more));
        for limit in (0..12).chain((12..300).step_by(step)) {
            let (shelf, spare) = (filled[limit % 2].fork(), drives as usize);
            shelf.disks[1].set_failed(true);
            let env = shelf.env.clone();
            let taking = async {
                let pool = shelf.open().await.expect("it opens");
                while told(&pool, "spare-used", 1).is_empty() {
                    shelf.rest(Nanos::from_millis(10)).await;
                }
                until_whole(&shelf, &pool, name).await;
            };
            let began = std::cell::Cell::new(None);
            let written = || shelf.disks[spare].counters().writes;
            let first = written();
            let cut = env.run_until(taking, || {
                if began.get().is_none() && written() > first {
                    began.set(Some(env.writes_issued()));
                }
                began.get().is_some_and(|at| env.writes_issued() >= at + limit as u64)
            });
            shelf.crash();
            shelf.env.block_on(async {
                let label = classical::label::read(&shelf.drive(spare)).await;
                assert!(label.is_some(), "{name}, {limit}: neither a spare nor a member");
                let pool = shelf.open().await;
                let pool = pool.unwrap_or_else(|error| panic!("{name}, {limit}: {error}"));
                until_whole(&shelf, &pool, &format!("{name}, {limit}")).await;
                assert_eq!(pool.status().drives[1].name, format!("d{spare}"), "{name}, {limit}");
                check(&pool, name, 4).await;
                pool.close().await.expect("closes");
            });
            if cut.is_some() {
                break;
            }
        }
    }
}

/// A new drive hangs while it is filled: it is failed, and the next spare has its place.
#[test]
fn a_spare_that_hangs_makes_room_for_another() {
    for (scheme, drives) in REDUNDANT {
        let name = scheme.name();
        let mut shelf = shelf(scheme, drives);
        let (first, second) = (shelf.add(DRIVE), shelf.add(DRIVE + (1 << 20)));
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            pool.spare_add(shelf.drive(first)).await.expect("it fits");
            pool.spare_add(shelf.drive(second)).await.expect("it fits");
            fill(&pool).await;
            pool.drive_fail(0, false).await.expect("it is spared");
            write(&pool, 4).await;
            while told(&pool, "spare-used", 0).is_empty() {
                shelf.rest(Nanos::from_millis(1)).await;
            }
            shelf.hang(first);
            write(&pool, 5).await;
            let failed = || told(&pool, "drive-failed", 0).len();
            let began = shelf.env.now();
            while failed() < 2 {
                shelf.rest(Nanos::from_secs(1)).await;
                let events = pool.events(0);
                assert!(shelf.env.now() < began + FILLED, "{name}: {events:#?}");
            }
            until_whole(&shelf, &pool, name).await;
            assert_eq!(pool.status().drives[0].name, format!("d{second}"), "{name}");
            check(&pool, name, 6).await;
            pool.close().await.expect("closes");
        });
    }
}
