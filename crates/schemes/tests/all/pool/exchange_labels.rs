//! A drive and its copy are never taken for each other, whatever became of their labels, and
//! whichever of the two is there.

use format::LABEL_AREA;
use io::faulty::{Effect, Fault};
use io::{Env, Nanos, Operation};
use schemes::pool::DriveState;
use schemes::scheme::Scheme;

use super::exchange::{
    BREATH, Book, Cut, PLACE, SOME, Written, all, exchange_until, is_copied, scrub_is_clean, shelf,
    until_over,
};
use super::shelf::{DRIVE, MIB, SMALL, Shelf, check, state, told, write};

/// Opens the pool, if that is possible, and writes to it.
async fn use_it(shelf: &Shelf, book: &mut Book, name: &str) {
    let Ok(pool) = shelf.open().await else { return };
    book.check(&pool, name).await;
    book.settle(&pool).await;
    for _ in 0..6 {
        book.write(&pool).await;
    }
    pool.close().await.expect("closes");
}

/// Power fails while labels change. Then only one of the two is there, then both: what was written
/// with the one is not lost to the other.
#[test]
fn a_crash_and_one_of_the_two_is_away_for_a_while() {
    use Scheme::{Alternate, Hybrid, MirrorLog, Raid0, Raid1, Raid5};
    let few = [Raid0, Raid1, Raid5, Hybrid, MirrorLog, Alternate];
    for (scheme, drives) in SOME.into_iter().filter(|(scheme, _)| few.contains(scheme)) {
        let pools = Written::both(scheme, drives);
        let (shelf, new, mut book) = pools[0].fork(0);
        let all = exchange_until(&shelf, new, &mut book, Cut(u64::MAX, 0));
        let cuts = (all.saturating_sub(9)..=all).map(|at| Cut(at, at % 3));
        let mut opened = 0;
        for (cut, away) in cuts.flat_map(|cut| [true, false].map(|old| (cut, old))) {
            let (shelf, new, mut book) = pools[cut.0 as usize % 2].fork(cut.0);
            exchange_until(&shelf, new, &mut book, cut);
            shelf.crash();
            let away = if away { PLACE } else { new };
            let name = format!("{}, {cut:?} of {all}, d{away} is away", scheme.name());
            shelf.disks[away].set_failed(true);
            let seed = book.blocks.clone();
            shelf.env.block_on(use_it(&shelf, &mut book, &name));
            opened += u32::from(seed != book.blocks);
            shelf.crash();
            shelf.disks[away].set_failed(false);
            shelf.env.block_on(async {
                let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
                book.check(&pool, &name).await;
                book.settle(&pool).await;
                book.write(&pool).await;
                pool.close().await.expect("closes");
                let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
                book.check(&pool, &name).await;
            });
        }
        assert!(opened > 0, "{}: it was never used", scheme.name());
    }
}

/// The new drive goes away, or hangs, with any write of a label: nobody waits long, and when it is
/// back with what was written to it, the old one is the member all the same.
#[test]
fn a_label_that_is_not_written_is_not_believed() {
    let cases = [(Effect::Gone, 1), (Effect::Gone, 3), (Effect::Gone, 4), (Effect::Hang(None), 3)];
    for (scheme, drives) in SOME {
        for (effect, nth) in cases.clone() {
            let name = format!("{}, label {nth}, {effect:?}", scheme.name());
            let mut shelf = Shelf::small(scheme, drives).filled_after(None);
            let (bad, good) = (shelf.add(SMALL), shelf.add(SMALL));
            let mut book = Book::new(nth);
            shelf.env.block_on(async {
                let pool = shelf.open().await.expect("it opens");
                pool.drive_replace(PLACE, shelf.drive(bad)).await.expect("it begins");
                let fault = Fault::new(effect.clone()).on(Operation::Write);
                let fault = fault.within(0..LABEL_AREA).nth(nth);
                shelf.faults[bad].arm(shelf.env.now(), fault).expect("a fault");
                while is_copied(&pool) {
                    let most = Nanos::from_secs(5);
                    shelf.within(most, &name, book.write(&pool)).await;
                    shelf.rest(BREATH).await;
                }
                assert_eq!(told(&pool, "replace-failed", PLACE as u16).len(), 1, "{name}");
                for _ in 0..10 {
                    book.write(&pool).await;
                }
                pool.close().await.expect("closes");
            });
            shelf.faults[bad].release_all();
            shelf.env.block_on(async {
                let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(pool.status().drives[PLACE].name, format!("d{PLACE}"), "{name}");
                assert_eq!(state(&pool, PLACE), DriveState::Active, "{name}");
                book.check(&pool, &name).await;
                scrub_is_clean(&shelf, &pool, &name, false).await;
                let begun = pool.drive_replace(PLACE, shelf.drive(good)).await;
                begun.unwrap_or_else(|error| panic!("{name}: {error}"));
                until_over(&shelf, &pool, &name).await;
                assert_eq!(pool.status().drives[PLACE].name, format!("d{good}"), "{name}");
                pool.close().await.expect("closes");
            });
        }
    }
}

/// A drive that goes away before its label is wiped does not come back.
#[test]
fn an_old_label_that_can_not_be_wiped_is_not_believed() {
    for (scheme, drives) in all() {
        let name = scheme.name();
        let mut shelf = shelf(scheme, drives);
        let new = shelf.add(DRIVE);
        let mut book = Book::new(7);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            book.write(&pool).await;
            pool.drive_replace(PLACE, shelf.drive(new)).await.expect("it begins");
            let fault = Fault::new(Effect::Gone).on(Operation::Write).within(0..LABEL_AREA);
            let fault = fault.once();
            shelf.faults[PLACE].arm(shelf.env.now(), fault).expect("a fault");
            until_over(&shelf, &pool, name).await;
            for _ in 0..10 {
                book.write(&pool).await;
            }
            pool.close().await.expect("closes");
            shelf.faults[PLACE].release_all();
            assert!(classical::label::read(&shelf.drive(PLACE)).await.is_some(), "{name}");
            let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(pool.status().drives[PLACE].name, format!("d{new}"), "{name}");
            book.check(&pool, name).await;
            // It may have any place again.
            pool.drive_replace(PLACE - 1, shelf.drive(PLACE)).await.expect("it begins");
            until_over(&shelf, &pool, name).await;
            while pool.status().drives[PLACE - 1].replacing.is_some() {
                shelf.rest(Nanos::from_millis(10)).await;
            }
            assert_eq!(pool.status().drives[PLACE - 1].name, format!("d{PLACE}"), "{name}");
            book.check(&pool, name).await;
            pool.close().await.expect("closes");
        });
    }
}

/// Onto a larger one, from that onto one of another size, and on, some with a restart between.
#[test]
fn drives_of_many_sizes_follow_each_other() {
    for (scheme, drives) in all() {
        let name = scheme.name();
        let mut shelf = shelf(scheme, drives);
        let sizes = [9, 3, 5, 0, 2];
        let news = sizes.map(|more| shelf.add(DRIVE + more * MIB));
        let mut pieces = 0;
        for restart in [true, false] {
            shelf.env.block_on(async {
                let mut pool = shelf.open().await.expect("it opens");
                for new in news.into_iter().filter(|new| (new % 2 == 0) == restart) {
                    let begun = pool.drive_replace(PLACE, shelf.drive(new)).await;
                    begun.unwrap_or_else(|error| panic!("{name}, d{new}: {error}"));
                    write(&pool, pieces).await;
                    pieces += 1;
                    until_over(&shelf, &pool, name).await;
                    assert_eq!(pool.status().drives[PLACE].name, format!("d{new}"), "{name}");
                    if restart {
                        pool.close().await.expect("closes");
                        pool = shelf.open().await.expect("it opens");
                        assert_eq!(pool.status().drives[PLACE].name, format!("d{new}"), "{name}");
                    }
                }
                check(&pool, name, pieces).await;
                scrub_is_clean(&shelf, &pool, name, false).await;
                pool.close().await.expect("closes");
            });
        }
    }
}

/// The old drive dies, and a spare has its place before it is noticed that the other one can't be
/// copied to: nobody takes the place away again.
#[test]
fn who_has_the_place_keeps_it() {
    let all = all().filter(|(scheme, _)| *scheme != Scheme::Raid0);
    for (scheme, drives) in all {
        let name = scheme.name();
        let mut shelf = shelf(scheme, drives).filled_after(Some(Nanos::ZERO));
        let (spare, new) = (shelf.add(DRIVE), shelf.add(DRIVE));
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            pool.spare_add(shelf.drive(spare)).await.expect("it fits");
            for at in 0..4 {
                write(&pool, at).await;
            }
            pool.drive_replace(PLACE, shelf.drive(new)).await.expect("it begins");
            shelf.rest(Nanos::from_millis(20)).await;
            shelf.disks[PLACE].set_failed(true);
            for at in 4..8 {
                write(&pool, at).await;
            }
            let began = shelf.env.now();
            // It is told a moment after the drive has its place.
            while told(&pool, "drive-restored", PLACE as u16).is_empty()
                || pool.status().drives[..drives as usize]
                    .iter()
                    .any(|own| own.state != DriveState::Active || own.replacing.is_some())
            {
                shelf.rest(Nanos::from_millis(50)).await;
                let late = began + Nanos::from_secs(120) < shelf.env.now();
                assert!(!late, "{name}: {:#?}", pool.events(0));
            }
            assert_eq!(told(&pool, "drive-restored", PLACE as u16).len(), 1, "{name}");
            check(&pool, name, 8).await;
            scrub_is_clean(&shelf, &pool, name, false).await;
            pool.close().await.expect("closes");
        });
    }
}
