//! Pools grow by further arrays: what is there stays, what comes is used, drives of all are looked
//! after, and a crash leaves a pool that has grown or one that has not.

use format::Uuid;
use io::virt::CutMode;
use io::{Env, Nanos};
use schemes::Pool;
use schemes::pool::{DriveInfo, DriveState};
use schemes::scheme::Scheme;

use super::exchange::{Book, SOME, all, scrub_is_clean, until_over};
use super::shelf::{DRIVE, MIB, SMALL, SOON, Shelf, TestEnv, check, state, told, volume, write};

/// As many drives again, of that size.
fn with_more(shelf: Shelf, size: u64) -> (Shelf, Vec<usize>) {
    let mut shelf = shelf.filled_after(Some(Nanos::ZERO));
    let more = (0..shelf.disks.len()).map(|_| shelf.add(size)).collect();
    (shelf, more)
}

async fn grow(shelf: &Shelf, pool: &Pool<TestEnv>, more: &[usize]) -> Result<(), String> {
    let drives = more.iter().map(|at| shelf.drive(*at)).collect();
    pool.grow(drives, &pool.array_spec()).await.map_err(|error| error.to_string())
}

/// More than the first array has room for.
async fn fill(pool: &Pool<TestEnv>, from: u64, first: u64) -> u64 {
    let pieces = first / MIB + 6;
    pool.volumes().resize("vm", pieces * MIB).await.expect("it is larger");
    for at in from..pieces {
        write(pool, at).await;
    }
    volume(pool).flush().await.expect("flushes");
    pieces
}

#[test]
fn a_pool_that_has_grown_uses_and_keeps_all_of_it() {
    for (scheme, drives) in all() {
        let name = scheme.name();
        let (mut shelf, more) = with_more(Shelf::new(scheme, drives), DRIVE + 3 * MIB);
        let new = shelf.add(DRIVE + 4 * MIB);
        let second = drives as usize + 1;
        let pieces = shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            write(&pool, 0).await;
            let first = pool.status().space.total;
            let grown = grow(&shelf, &pool, &more).await;
            grown.unwrap_or_else(|error| panic!("{name}: {error}"));
            let status = pool.status();
            assert!(status.space.total >= 2 * first, "{name}: {:?}", status.space);
            assert_eq!(status.drives.len(), 2 * drives as usize, "{name}");
            assert!(status.shape.starts_with("2 arrays, each "), "{name}: {}", status.shape);
            let pieces = fill(&pool, 1, first).await;
            check(&pool, name, pieces).await;
            let bytes = |drive: &DriveInfo| drive.counters.write_bytes;
            let written: u64 = pool.status().drives[drives as usize..].iter().map(bytes).sum();
            assert!(written > 6 * MIB, "{name}: {written} bytes");
            // A drive of the second array is exchanged as any other.
            pool.drive_replace(second, shelf.drive(new)).await.expect("it begins");
            while pool.status().drives[second].replacing.is_some() {
                shelf.rest(Nanos::from_millis(10)).await;
            }
            assert_eq!(pool.status().drives[second].name, format!("d{new}"), "{name}");
            until_over(&shelf, &pool, name).await;
            scrub_is_clean(&shelf, &pool, name, false).await;
            pieces
        });
        shelf.crash();
        shelf.env.block_on(async {
            let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            check(&pool, name, pieces).await;
            assert_eq!(pool.status().drives[second].name, format!("d{new}"), "{name}");
            pool.close().await.expect("closes");
        });
    }
}

/// One drive of each array dies, and spares take their places.
#[test]
fn every_array_bears_its_own_losses() {
    for (scheme, drives) in all().filter(|(scheme, _)| *scheme != Scheme::Raid0) {
        let name = scheme.name();
        let (mut shelf, more) = with_more(Shelf::new(scheme, drives), DRIVE);
        let spares = [shelf.add(DRIVE), shelf.add(DRIVE)];
        let lost = [1, drives as usize + 1];
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            let first = pool.status().space.total;
            grow(&shelf, &pool, &more).await.expect("it grows");
            let pieces = fill(&pool, 0, first).await;
            let margin = pool.status().margin;
            for at in lost {
                // Not every drive is asked for something at once.
                pool.drive_fail(at, false).await.unwrap_or_else(|e| panic!("{name}: {e}"));
                shelf.disks[at].set_failed(true);
            }
            for at in 0..pieces {
                write(&pool, at).await;
            }
            check(&pool, name, pieces).await;
            assert!(pool.status().margin + 1 >= margin, "{name}");
            for spare in spares {
                pool.spare_add(shelf.drive(spare)).await.expect("it fits");
            }
            let began = shelf.env.now();
            while lost.iter().any(|at| told(&pool, "drive-restored", *at as u16).is_empty()) {
                shelf.rest(Nanos::from_millis(50)).await;
                let late = began + Nanos::from_secs(300) < shelf.env.now();
                assert!(!late, "{name}: {:#?}", pool.events(0));
            }
            for at in lost {
                assert_eq!(state(&pool, at), DriveState::Active, "{name}");
            }
            assert_eq!(pool.status().margin, margin, "{name}");
            check(&pool, name, pieces).await;
            scrub_is_clean(&shelf, &pool, name, false).await;
            pool.close().await.expect("closes");
            let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            check(&pool, name, pieces).await;
            pool.close().await.expect("closes");
        });
    }
}

/// Power fails at any write: what was there is there, and what was to come can come again.
#[test]
fn a_crash_leaves_a_pool_that_has_grown_or_not() {
    for (scheme, drives) in SOME {
        let (made, more) = with_more(Shelf::small(scheme, drives), SMALL);
        let mut book = Book::new(0);
        made.env.block_on(async {
            let pool = made.open().await.expect("it opens");
            for _ in 0..4 {
                book.write(&pool).await;
            }
            pool.close().await.expect("closes");
        });
        let (mut grown, mut not, mut cut) = (0, 0, 0);
        loop {
            let name = format!("{}, {cut} writes", scheme.name());
            let (shelf, mut book) = (made.fork(), book.fork(cut));
            let (env, before) = (shelf.env.clone(), shelf.env.writes_issued());
            let done = env.run_until(
                async {
                    let pool = shelf.open().await.expect("it opens");
                    grow(&shelf, &pool, &more).await.expect("it grows");
                },
                || env.writes_issued() >= before + cut,
            );
            shelf.env.crash();
            let mut fate = io::rng::Rng::new(cut);
            shelf.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::Random));
            shelf.env.block_on(async {
                // Not claimed yet they are a pool of their own, which is not opened with this one.
                for at in &more {
                    let drive = shelf.drive(*at);
                    let label = classical::label::read(&drive).await;
                    if label.is_some_and(|own| own.further.is_none()) {
                        classical::label::wipe_all(&drive).await.expect("wiped");
                    }
                }
                let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
                book.check(&pool, &name).await;
                if pool.status().drives.len() > drives as usize {
                    grown += 1;
                    assert_eq!(pool.status().drives.len(), 2 * drives as usize, "{name}");
                } else {
                    not += 1;
                    assert!(done.is_none(), "{name}: it had grown");
                    for at in &more {
                        classical::label::wipe_all(&shelf.drive(*at)).await.expect("wiped");
                    }
                    let again = grow(&shelf, &pool, &more).await;
                    again.unwrap_or_else(|error| panic!("{name}: {error}"));
                }
                book.write(&pool).await;
                book.check(&pool, &name).await;
                pool.close().await.expect("closes");
                let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(pool.status().drives.len(), 2 * drives as usize, "{name}");
                book.check(&pool, &name).await;
                pool.close().await.expect("closes");
            });
            if done.is_some() {
                break;
            }
            cut += 1 + cut / 6;
        }
        assert!(grown > 0 && not > 3, "{}: {grown} and {not}", scheme.name());
    }
}

#[test]
fn what_a_pool_can_not_grow_by_is_refused() {
    let (mut shelf, more) = with_more(Shelf::new(Scheme::Raid5, 4), DRIVE);
    let foreign = Shelf::seeded(Scheme::Raid5, 4, 9);
    let fifth = shelf.add(DRIVE);
    shelf.env.block_on(async {
        let pool = shelf.open().await.expect("it opens");
        let few = grow(&shelf, &pool, &more[..2]).await.expect_err("two are no RAID5");
        assert!(!few.is_empty());
        let other = [more.clone(), vec![fifth]].concat();
        let wide = grow(&shelf, &pool, &other).await.expect_err("other stripes");
        assert!(wide.contains("as many drives"), "{wide}");
        let own = grow(&shelf, &pool, &[0, more[0], more[1], more[2]]).await;
        assert!(own.expect_err("one is a member").contains("label of a pool"));
        assert_eq!(pool.status().drives.len(), 4);
        grow(&shelf, &pool, &more).await.expect("what was refused is blank");
        pool.close().await.expect("closes");
    });
    // Without all of an array nothing is opened, and it is said why.
    for part in [0..4, 4..8] {
        part.clone().for_each(|at| shelf.disks[at].set_failed(true));
        let refused = shelf.env.block_on(shelf.open()).map(|_| ()).expect_err("half of it is away");
        let array = part.start / 4;
        let said = refused.to_string();
        assert!(said.contains(&format!("array {array} of pool tank")), "{said}");
        part.for_each(|at| shelf.disks[at].set_failed(false));
    }
    drop(foreign);
    shelf.env.block_on(async {
        let pool = shelf.within(SOON, "open", shelf.open()).await.expect("it opens");
        assert_ne!(pool.uuid(), Uuid::default());
        pool.close().await.expect("closes");
    });
}

/// A pool of two arrays was opened without a drive of the first and all but one of the second: it
/// was refused, but the first had told its other drives by then that one was lost.
#[test]
fn a_refused_pool_of_two_arrays_loses_no_drive() {
    for (scheme, drives) in all().filter(|(scheme, _)| *scheme != Scheme::Raid0) {
        let name = scheme.name();
        let (shelf, more) = with_more(Shelf::new(scheme, drives), DRIVE);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            grow(&shelf, &pool, &more).await.expect("it grows");
            write(&pool, 0).await;
            pool.close().await.expect("closes");
            let none = |at: &usize| *at == 1 || more[..more.len() - 1].contains(at);
            let there = (0..shelf.disks.len()).filter(|at| !none(at)).map(|at| shelf.drive(at));
            let opened = Pool::open(&shelf.inside(), there.collect(), shelf.options).await;
            // One drive of a mirror is enough.
            let Err(_) = opened else { return assert_eq!(scheme, Scheme::Raid1) };
            let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(state(&pool, 1), DriveState::Active, "{name}");
            check(&pool, name, 1).await;
            pool.close().await.expect("closes");
        });
    }
}
