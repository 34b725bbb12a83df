//! Drives that hang while a pool is opened, used and closed: failed after half a minute where all
//! data is there without them, waited for where it is not.

use io::faulty::{Effect, Fault};
use io::{Env, Nanos};
use schemes::StoreError;
use schemes::part::hang::{HANG_AFTER, NEEDED_AFTER};
use schemes::pool::{DriveState, WATCH};
use schemes::scheme::Scheme;

use super::shelf::{REDUNDANT, SOON, Shelf, check, state, told, volume, write};

async fn hangs_while_served(shelf: &Shelf, name: &str, victim: usize) {
    let most = HANG_AFTER + SOON;
    let pool = shelf.open().await.expect("it opens");
    write(&pool, 0).await;
    volume(&pool).flush().await.expect("flushes");
    shelf.hang(victim);
    shelf.within(most, &format!("{name}: write"), write(&pool, 1)).await;
    shelf
        .within(most, &format!("{name}: flush"), async {
            volume(&pool).flush().await.expect("flushes");
        })
        .await;
    // Whatever touches it now, or nothing did so far: some of these find it hanging.
    for at in 2..6 {
        shelf.within(most, &format!("{name}: write {at}"), write(&pool, at)).await;
    }
    shelf.within(most, name, async { volume(&pool).flush().await.expect("flushes") }).await;
    shelf.rest(HANG_AFTER + SOON).await;
    let events = told(&pool, "drive-failed", victim as u16);
    assert_eq!(events.len(), 1, "{name}: {events:?}");
    assert!(events[0].text.contains("hangs"), "{name}: {}", events[0].text);
    assert_eq!(state(&pool, victim), DriveState::Failed, "{name}");
    shelf.within(SOON, &format!("{name}: afterwards"), write(&pool, 6)).await;
    shelf
        .within(SOON, &format!("{name}: flush"), async {
            volume(&pool).flush().await.expect("flushes");
        })
        .await;
    shelf.within(SOON, &format!("{name}: reads"), check(&pool, name, 7)).await;
    // What was under way on it is done after all, and changes nothing.
    shelf.faults[victim].release_all();
    shelf.rest(SOON).await;
    shelf.within(SOON, &format!("{name}: reads"), check(&pool, name, 7)).await;
    volume(&pool).flush().await.expect("flushes");
}

#[test]
fn a_drive_that_hangs_is_failed_and_what_it_does_late_is_nothing() {
    for (scheme, drives) in REDUNDANT {
        let (name, victim) = (scheme.name(), 1);
        let shelf = Shelf::new(scheme, drives);
        shelf.env.block_on(hangs_while_served(&shelf, name, victim));
        shelf.crash();
        shelf.env.block_on(async {
            let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            check(&pool, name, 7).await;
            assert_ne!(state(&pool, victim), DriveState::Active, "{name}: it missed something");
            shelf.within(SOON, name, pool.close()).await.expect("closes");
        });
    }
}

#[test]
fn a_drive_that_hangs_from_the_start_counts_as_missing() {
    for (scheme, drives) in REDUNDANT {
        let name = scheme.name();
        let shelf = Shelf::new(scheme, drives);
        shelf.hang(2);
        shelf.env.block_on(async {
            let opened = shelf.within(HANG_AFTER + SOON, name, shelf.open()).await;
            let pool = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(state(&pool, 2), DriveState::Missing, "{name}");
            assert!(pool.events(0).iter().any(|event| event.text.contains("d2 hangs")), "{name}");
            write(&pool, 0).await;
            check(&pool, name, 1).await;
            shelf.within(SOON, name, pool.close()).await.expect("closes");
        });
    }
}

/// It reads its label, and then nothing any more.
#[test]
fn a_drive_that_hangs_while_the_pool_is_opened_is_lost() {
    for (scheme, drives) in REDUNDANT {
        let name = scheme.name();
        for nth in [5, 9, 12] {
            let shelf = Shelf::new(scheme, drives);
            shelf.env.block_on(async {
                let pool = shelf.open().await.expect("it opens");
                write(&pool, 0).await;
                volume(&pool).flush().await.expect("flushes");
            });
            shelf.crash();
            let fault = Fault::new(Effect::Hang(None)).nth(nth);
            shelf.faults[1].arm(shelf.env.now(), fault).expect("a fault");
            shelf.env.block_on(async {
                let opened = shelf.within(HANG_AFTER + SOON, name, shelf.open()).await;
                let pool = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
                check(&pool, name, 1).await;
                shelf.within(HANG_AFTER + SOON, name, pool.close()).await.expect("closes");
            });
        }
    }
}

/// Nobody writes: a read waits for it once, and no other does.
#[test]
fn a_drive_that_hangs_when_it_is_read_is_failed_too() {
    for scheme in [Scheme::Raid5, Scheme::Raid6, Scheme::Raid10, Scheme::Steering] {
        let name = scheme.name();
        let shelf = Shelf::new(scheme, 6);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            write(&pool, 0).await;
            volume(&pool).flush().await.expect("flushes");
            // Until nothing is written by itself.
            shelf.rest(Nanos::from_secs(10)).await;
            shelf.hang(0);
            shelf.within(HANG_AFTER + SOON, name, check(&pool, name, 1)).await;
            shelf.within(SOON, name, check(&pool, name, 1)).await;
            shelf.rest(Nanos::from_secs(1)).await;
            assert_eq!(state(&pool, 0), DriveState::Failed, "{name}");
            shelf.within(SOON, name, pool.close()).await.expect("closes");
        });
    }
}

/// Two at once, of which only one can be spared: the other is waited for, and nothing is lost.
#[test]
fn a_drive_that_is_needed_is_waited_for() {
    for (scheme, drives, hang) in [
        (Scheme::Raid5, 4, &[0, 1][..]),
        (Scheme::Raid10, 4, &[2, 3]),
        (Scheme::Raid0, 3, &[1]),
        (Scheme::Raid6, 5, &[0, 1, 2]),
    ] {
        let name = scheme.name();
        let shelf = Shelf::new(scheme, drives);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            write(&pool, 0).await;
            volume(&pool).flush().await.expect("flushes");
            hang.iter().for_each(|drive| shelf.hang(*drive));
            let wait = Nanos::from_secs(100);
            let release = async {
                shelf.rest(wait).await;
                let failed = |drive: &&usize| state(&pool, **drive) == DriveState::Failed;
                assert_eq!(hang.iter().filter(failed).count(), hang.len() - 1, "{name}");
                let needed = pool.events(0).into_iter().filter(|event| event.kind == "drive-hangs");
                assert_eq!(needed.count(), 1, "{name}: it is said once");
                hang.iter().for_each(|drive| shelf.faults[*drive].release_all());
            };
            let request = shelf.within(wait + SOON, name, write(&pool, 1));
            futures_util::future::join(request, release).await;
            shelf.within(SOON, name, check(&pool, name, 2)).await;
            shelf.within(SOON, name, pool.close()).await.expect("closes");
        });
    }
}

#[test]
fn closing_does_not_wait_for_ever() {
    // The first may have been asked for something that closing waits for (checksums are committed
    // beside requests), and what is asked of the second then begins when the first is given up.
    let most = HANG_AFTER + NEEDED_AFTER + SOON + WATCH;
    for (scheme, hang) in [(Scheme::Raid0, &[1][..]), (Scheme::Raid5, &[0, 1])] {
        let name = scheme.name();
        let shelf = Shelf::new(scheme, 4);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            write(&pool, 0).await;
            volume(&pool).flush().await.expect("flushes");
            hang.iter().for_each(|drive| shelf.hang(*drive));
            let closed = shelf.within(most, name, pool.close()).await;
            assert!(matches!(closed, Err(StoreError::Hangs { .. })), "{name}: {closed:?}");
        });
        shelf.crash();
        shelf.faults.iter().for_each(|faults| faults.release_all());
        shelf.env.block_on(async {
            let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            check(&pool, name, 1).await;
        });
    }
}

/// Two reads find two drives that hang, one just after the other: before anybody has written the
/// first drive off, the second is not given up as well.
#[test]
fn drives_that_hang_are_given_up_one_at_a_time() {
    let shelf = Shelf::new(Scheme::Raid5, 4);
    shelf.env.block_on(async {
        let pool = shelf.open().await.expect("it opens");
        write(&pool, 0).await;
        volume(&pool).flush().await.expect("flushes");
        shelf.rest(Nanos::from_secs(10)).await;
        (0..4).for_each(|drive| shelf.hang(drive));
        let read = async |chunk: u64| {
            shelf.rest(Nanos::from_millis(chunk)).await;
            volume(&pool).read(chunk << 16, 4096).await.expect("it is read in the end");
        };
        let release = async {
            shelf.rest(Nanos::from_secs(60)).await;
            let failed = (0..4).filter(|drive| state(&pool, *drive) == DriveState::Failed);
            assert_eq!(failed.count(), 1);
            shelf.faults.iter().for_each(|faults| faults.release_all());
        };
        futures_util::future::join3(read(0), read(1), release).await;
        check(&pool, "raid5", 1).await;
        pool.close().await.expect("closes");
    });
}
