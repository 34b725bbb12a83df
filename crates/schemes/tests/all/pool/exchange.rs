//! Drives that work are copied onto others, which take their places: served meanwhile, as redundant
//! as before at every moment, whatever a crash or a failure cuts short.

use std::cell::Cell;

use futures_util::future::join;
use io::faulty::{Delay, Effect, Fault};
use io::rng::Rng;
use io::{Buf, DriveErrorKind, Env, Nanos, Operation, join_all};
use schemes::Pool;
use schemes::pool::DriveState;
use schemes::scheme::Scheme;

use super::shelf::{
    DRIVE, MIB, REDUNDANT, SMALL, SOON, Shelf, TestEnv, check, state, told, volume, write,
};

/// What copying or filling a drive takes at most.
const FILLED: Nanos = Nanos::from_secs(120);
pub const PLACE: usize = 1;
/// Between writes, so that there are not thousands of them beside a copy.
pub const BREATH: Nanos = Nanos::from_millis(2);

pub fn shelf(scheme: Scheme, drives: u64) -> Shelf {
    Shelf::new(scheme, drives).filled_after(None)
}

pub fn all() -> impl Iterator<Item = (Scheme, u64)> {
    REDUNDANT.into_iter().chain([(Scheme::Raid0, 3)])
}

pub fn is_copied(pool: &Pool<TestEnv>) -> bool {
    pool.status().drives[PLACE].replacing.is_some()
}

/// Until nothing is copied or filled any more.
pub async fn until_over(shelf: &Shelf, pool: &Pool<TestEnv>, name: &str) {
    let began = shelf.env.now();
    while is_copied(pool) || state(pool, PLACE) == DriveState::Restoring {
        shelf.rest(Nanos::from_millis(10)).await;
        let events = pool.events(0);
        assert!(began + FILLED > shelf.env.now(), "{name}: {events:#?}");
    }
}

/// A crash may leave copies of metadata that differ.
pub async fn scrub_is_clean(shelf: &Shelf, pool: &Pool<TestEnv>, name: &str, crashed: bool) {
    pool.scrub_start();
    while pool.scrub_status().state.goes_on() {
        shelf.rest(Nanos::from_millis(100)).await;
    }
    let found = pool.scrub_status().found;
    assert_eq!((found.bad, found.parity, found.lost), (0, 0, 0), "{name}: {found:?}");
    assert!(crashed || found.metadata == 0, "{name}: {found:?}");
}

#[test]
fn a_drive_that_works_serves_until_another_has_its_place() {
    for (scheme, drives) in all() {
        let name = scheme.name();
        let mut shelf = shelf(scheme, drives);
        // Labels lie at the end of a drive, too: wherever that is.
        let new = shelf.add(DRIVE + 5 * MIB);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            write(&pool, 0).await;
            let margin = pool.status().margin;
            let begun = pool.drive_replace(PLACE, shelf.drive(new)).await;
            begun.unwrap_or_else(|error| panic!("{name}: {error}"));
            let again = pool.drive_replace(0, shelf.drive(new)).await.expect_err("one at a time");
            assert!(again.to_string().contains("wait until that is done"), "{name}: {again}");
            let mut at = 1;
            while is_copied(&pool) {
                assert_eq!(state(&pool, PLACE), DriveState::Active, "{name}");
                assert_eq!(pool.status().margin, margin, "{name}");
                let drive = pool.status().drives.remove(PLACE);
                let left = drive.replacing.expect("it is copied").progress.left;
                // At last the new one is there, and labels of the old one are still to be wiped.
                let is_new = left == 0 && drive.name == format!("d{new}");
                assert!(is_new || drive.name == format!("d{PLACE}"), "{name}: {}", drive.name);
                write(&pool, at % 12).await;
                check(&pool, name, at.min(12)).await;
                shelf.rest(Nanos::from_millis(20)).await;
                at += 1;
            }
            assert!(at > 1, "{name}: it was served meanwhile");
            for at in at..12 {
                write(&pool, at).await;
            }
            assert_eq!(told(&pool, "drive-replaced", PLACE as u16).len(), 1, "{name}");
            assert_eq!(pool.status().drives[PLACE].name, format!("d{new}"), "{name}");
            let own = classical::label::read(&shelf.drive(PLACE)).await;
            assert!(own.is_none(), "{name}: the old one is nobody's");
            check(&pool, name, 12).await;
            scrub_is_clean(&shelf, &pool, name, false).await;
            volume(&pool).flush().await.expect("flushes");
        });
        // The old one is gone, and another that the new one has to stand in for.
        shelf.disks[PLACE].set_failed(true);
        shelf.crash();
        if scheme != Scheme::Raid0 {
            shelf.disks[PLACE + 1].set_failed(true);
        }
        shelf.env.block_on(async {
            let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(pool.status().drives[PLACE].name, format!("d{new}"), "{name}");
            check(&pool, name, 12).await;
            pool.close().await.expect("closes");
        });
    }
}

/// Blocks of a volume, as they were written last.
pub struct Book {
    rng: Rng,
    pub blocks: Vec<u64>,
    /// Being written: it may hold what it held, or this.
    open: Option<(usize, u64)>,
}

pub const BLOCK: u64 = 64 << 10;

impl Book {
    pub fn new(seed: u64) -> Book {
        Book { rng: Rng::new(seed), blocks: vec![0; (8 * MIB / BLOCK) as usize], open: None }
    }

    /// With what was written so far, but other writes to come.
    pub fn fork(&self, seed: u64) -> Book {
        Book { rng: Rng::new(seed), blocks: self.blocks.clone(), open: self.open }
    }

    fn bytes(seed: u64) -> Buf {
        let mut bytes = vec![0; BLOCK as usize];
        if seed > 0 {
            Rng::new(seed).fill(&mut bytes);
        }
        Buf::from_slice(&bytes)
    }

    /// What a crash left open is written again.
    pub async fn settle(&mut self, pool: &Pool<TestEnv>) {
        if let Some((at, seed)) = self.open.take() {
            let done = volume(pool).write(at as u64 * BLOCK, Book::bytes(seed), true).await;
            done.expect("it is written");
            self.blocks[at] = seed;
        }
    }

    pub async fn write(&mut self, pool: &Pool<TestEnv>) {
        let (at, seed) = (self.rng.below(self.blocks.len() as u64), self.rng.next_u64() | 1);
        self.open = Some((at as usize, seed));
        let done = volume(pool).write(at * BLOCK, Book::bytes(seed), true).await;
        done.expect("it is written");
        self.blocks[at as usize] = seed;
        self.open = None;
    }

    pub async fn check(&self, pool: &Pool<TestEnv>, name: &str) {
        for (at, seed) in self.blocks.iter().enumerate() {
            let read = volume(pool).read(at as u64 * BLOCK, BLOCK).await;
            let read = read.unwrap_or_else(|error| panic!("{name}: block {at}: {error}"));
            let read = read.concat();
            let new = self.open.filter(|(own, _)| *own == at).map(|(_, seed)| Book::bytes(seed));
            let old = Book::bytes(*seed);
            let sectors = read.chunks(512).enumerate();
            let is_right = |(sector, bytes): (usize, &[u8])| {
                let same = |buf: &Buf| buf[sector * 512..][..512] == *bytes;
                same(&old) || new.as_ref().is_some_and(same)
            };
            assert!(sectors.into_iter().all(is_right), "{name}: block {at}");
        }
    }
}

/// So many writes to the new drive, and then so many to any.
#[derive(Clone, Copy, Debug)]
pub struct Cut(pub u64, pub u64);

/// Writes beside an exchange until power fails: how many there were to the new drive.
pub fn exchange_until(shelf: &Shelf, new: usize, book: &mut Book, cut: Cut) -> u64 {
    let (env, reached) = (shelf.env.clone(), Cell::new(None));
    let before = shelf.disks[new].counters().writes;
    let written = || shelf.disks[new].counters().writes - before;
    let exchanged = async {
        let pool = shelf.open().await.expect("it opens");
        // Of one without spares, or with one.
        let begun = match pool.has_spare_for(PLACE) {
            true => pool.drive_remove(PLACE).await,
            false => pool.drive_replace(PLACE, shelf.drive(new)).await,
        };
        begun.expect("it begins");
        while is_copied(&pool) {
            book.write(&pool).await;
            shelf.rest(BREATH).await;
        }
        let all = written();
        for _ in 0..4 {
            book.write(&pool).await;
        }
        assert_eq!(pool.status().drives[PLACE].name, format!("d{new}"));
        all
    };
    let is_over = || {
        if reached.get().is_none() && written() >= cut.0 {
            reached.set(Some(env.writes_issued()));
        }
        reached.get().is_some_and(|at| env.writes_issued() >= at + cut.1)
    };
    env.run_until(exchanged, is_over).unwrap_or_default()
}

/// A pool with something in it, and a drive for it.
pub struct Written {
    shelf: Shelf,
    new: usize,
    book: Book,
}

impl Written {
    /// The drive for it is as large as the others, and larger.
    pub fn both(scheme: Scheme, drives: u64) -> [Written; 2] {
        [0, 1].map(|more| {
            let mut shelf = Shelf::small(scheme, drives).filled_after(None);
            let new = shelf.add(SMALL + MIB * more);
            let mut book = Book::new(more);
            shelf.env.block_on(async {
                let pool = shelf.open().await.expect("it opens");
                if scheme != Scheme::Raid0 {
                    pool.spare_add(shelf.drive(new)).await.expect("it fits");
                }
                for _ in 0..20 {
                    book.write(&pool).await;
                }
                pool.close().await.expect("closes");
            });
            Written { shelf, new, book }
        })
    }

    /// What is written from here on is drawn from the seed.
    pub fn fork(&self, seed: u64) -> (Shelf, usize, Book) {
        (self.shelf.fork(), self.new, self.book.fork(seed))
    }
}

/// One of each way to keep labels.
pub const SOME: [(Scheme, u64); 10] = [
    (Scheme::Raid0, 3),
    (Scheme::Raid1, 2),
    (Scheme::Raid5, 4),
    (Scheme::Raid60, 8),
    (Scheme::Hybrid, 6),
    (Scheme::LogMirror, 6),
    (Scheme::Steering, 5),
    (Scheme::MirrorLog, 6),
    (Scheme::Alternate, 4),
    (Scheme::CachedRaid5, 5),
];

/// Power fails at any write of an exchange: the old drive is the member, or the new one, and
/// nothing is missing.
#[test]
fn a_crash_leaves_one_of_the_two_the_member() {
    for (scheme, drives) in SOME {
        let name = scheme.name();
        let pools = Written::both(scheme, drives);
        let (shelf, new, mut book) = pools[0].fork(0);
        let all = exchange_until(&shelf, new, &mut book, Cut(u64::MAX, 0));
        // The last ones are those of labels.
        let somewhere = (0..all).step_by(1 + all as usize / 4).map(|at| Cut(at, 0));
        let last = (all.saturating_sub(12)..=all).step_by(3);
        let cuts = somewhere.chain(last.flat_map(|at| [0, 5].map(|more| Cut(at, more))));
        let (mut olds, mut news) = (0, 0);
        for cut in cuts {
            let (shelf, new, mut book) = pools[cut.0 as usize % 2].fork(cut.0);
            exchange_until(&shelf, new, &mut book, cut);
            shelf.crash();
            let name = format!("{name}, {cut:?} of {all}");
            let who = shelf.env.block_on(async {
                let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
                let who = pool.status().drives[PLACE].name.clone();
                let events = pool.events(0);
                assert_eq!(state(&pool, PLACE), DriveState::Active, "{name}: {events:#?}");
                let spares = pool.status().drives.len() - drives as usize;
                // While its label changes it is neither, for a moment.
                let label = classical::label::read(&shelf.drive(new)).await;
                let spare = who == "d1" && label.is_some_and(|label| label.is_spare());
                assert_eq!(spares, usize::from(spare), "{name}: {who} is the member");
                book.check(&pool, &name).await;
                book.open = None;
                who
            });
            let is_new = who == format!("d{new}");
            *(if is_new { &mut news } else { &mut olds }) += 1;
            // The other of the two is needed by nobody.
            let other = if is_new { PLACE } else { new };
            shelf.crash();
            shelf.disks[other].set_failed(true);
            shelf.env.block_on(async {
                let pool = shelf.open().await.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(pool.status().drives[PLACE].name, who, "{name}");
                for at in 0..book.blocks.len() as u64 {
                    let read = volume(&pool).read(at * BLOCK, BLOCK).await;
                    read.unwrap_or_else(|error| panic!("{name}: {error}"));
                }
                scrub_is_clean(&shelf, &pool, &name, true).await;
                pool.close().await.expect("closes");
            });
        }
        assert!(olds > 0 && news > 0, "{name}: {olds} times the old one, {news} times the new");
    }
}

#[test]
fn the_old_drive_dies_and_the_new_one_is_filled_from_the_others() {
    for (scheme, drives) in REDUNDANT {
        let name = scheme.name();
        let mut shelf = shelf(scheme, drives);
        let new = shelf.add(DRIVE);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            for at in 0..4 {
                write(&pool, at).await;
            }
            pool.drive_replace(PLACE, shelf.drive(new)).await.expect("it begins");
            shelf.rest(Nanos::from_millis(20)).await;
            assert!(is_copied(&pool), "{name}: that was not all");
            shelf.disks[PLACE].set_failed(true);
            for at in 4..8 {
                write(&pool, at).await;
            }
            volume(&pool).flush().await.expect("flushes");
            until_over(&shelf, &pool, name).await;
            let events = pool.events(0);
            assert_eq!(pool.status().drives[PLACE].name, format!("d{new}"), "{name}: {events:#?}");
            assert_eq!(state(&pool, PLACE), DriveState::Active, "{name}");
            check(&pool, name, 8).await;
            scrub_is_clean(&shelf, &pool, name, false).await;
            pool.close().await.expect("closes");
        });
    }
}

#[test]
fn the_new_drive_fails_and_nothing_has_changed() {
    for (scheme, drives) in all() {
        let name = scheme.name();
        let mut shelf = shelf(scheme, drives);
        let (bad, good) = (shelf.add(DRIVE), shelf.add(DRIVE));
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            write(&pool, 0).await;
            pool.drive_replace(PLACE, shelf.drive(bad)).await.expect("it begins");
            shelf.rest(Nanos::from_millis(20)).await;
            shelf.disks[bad].set_failed(true);
            write(&pool, 1).await;
            until_over(&shelf, &pool, name).await;
            assert_eq!(told(&pool, "replace-failed", PLACE as u16).len(), 1, "{name}");
            assert_eq!(pool.status().drives[PLACE].name, format!("d{PLACE}"), "{name}");
            pool.drive_replace(PLACE, shelf.drive(good)).await.expect("it begins");
            write(&pool, 2).await;
            until_over(&shelf, &pool, name).await;
            assert_eq!(pool.status().drives[PLACE].name, format!("d{good}"), "{name}");
            check(&pool, name, 3).await;
            pool.close().await.expect("closes");
        });
    }
}

/// A write that began before the exchange is done on the old drive when its place there has been
/// copied long ago.
#[test]
fn what_was_under_way_before_comes_along() {
    for (scheme, drives) in all() {
        let name = scheme.name();
        let mut shelf = shelf(scheme, drives);
        let new = shelf.add(DRIVE);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            for at in 0..4 {
                write(&pool, at).await;
            }
            let late = Delay::Constant(Nanos::from_secs(2));
            let fault = Fault::new(Effect::Delay(late)).on(Operation::Write);
            let fault = fault.lasting(Nanos::from_millis(5));
            shelf.faults[PLACE].arm(shelf.env.now(), fault).expect("a fault");
            let writes = join_all((4..8).map(|at| write(&pool, at)));
            let exchanged = async {
                shelf.rest(Nanos::from_millis(4)).await;
                pool.drive_replace(PLACE, shelf.drive(new)).await.expect("it begins");
                until_over(&shelf, &pool, name).await;
            };
            join(writes, exchanged).await;
            assert_eq!(pool.status().drives[PLACE].name, format!("d{new}"), "{name}");
            check(&pool, name, 8).await;
            scrub_is_clean(&shelf, &pool, name, false).await;
            pool.close().await.expect("closes");
        });
    }
}

fn unreadable(shelf: &Shelf) {
    let fault = Fault::new(Effect::Error(DriveErrorKind::Os(5))).on(Operation::Read);
    let armed = shelf.faults[PLACE].arm(shelf.env.now(), fault.within(DRIVE / 2..DRIVE / 2 + 4096));
    armed.expect("a fault");
}

/// What can't be read is written again by a scrub, as a drive gives a sector that was.
#[test]
fn what_the_old_drive_does_not_give_is_healed_first() {
    for (scheme, drives) in REDUNDANT {
        let name = scheme.name();
        let mut shelf = shelf(scheme, drives);
        let new = shelf.add(DRIVE);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            write(&pool, 0).await;
            unreadable(&shelf);
            pool.drive_replace(PLACE, shelf.drive(new)).await.expect("it begins");
            while !pool.scrub_status().state.goes_on() {
                shelf.rest(Nanos::from_millis(1)).await;
                assert!(is_copied(&pool), "{name}: {:#?}", pool.events(0));
            }
            shelf.faults[PLACE].release_all();
            let margin = pool.status().margin;
            while is_copied(&pool) {
                assert_eq!(pool.status().margin, margin, "{name}");
                shelf.rest(Nanos::from_millis(10)).await;
            }
            assert_eq!(told(&pool, "drive-replaced", PLACE as u16).len(), 1, "{name}");
            check(&pool, name, 1).await;
            pool.close().await.expect("closes");
        });
    }
}

/// If it can't be healed either, the others have it; if they have not, the old drive stays.
#[test]
fn what_can_not_be_healed_comes_from_the_others() {
    for (scheme, drives) in [(Scheme::Raid5, 4), (Scheme::Steering, 5), (Scheme::Raid0, 3)] {
        let name = scheme.name();
        let mut shelf = shelf(scheme, drives);
        let new = shelf.add(DRIVE);
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            write(&pool, 0).await;
            unreadable(&shelf);
            pool.drive_replace(PLACE, shelf.drive(new)).await.expect("it begins");
            until_over(&shelf, &pool, name).await;
            let (who, failed) = match scheme {
                Scheme::Raid0 => (PLACE, 1),
                _ => (new, 0),
            };
            assert_eq!(pool.status().drives[PLACE].name, format!("d{who}"), "{name}");
            assert_eq!(told(&pool, "replace-failed", PLACE as u16).len(), failed, "{name}");
            check(&pool, name, 1).await;
            pool.close().await.expect("closes");
        });
    }
}

#[test]
fn it_is_held_stopped_and_ends_with_the_pool() {
    let mut shelf = shelf(Scheme::Raid6, 5);
    let spare = shelf.add(DRIVE);
    let spares = |pool: &Pool<TestEnv>| pool.status().drives.len() - 5;
    shelf.env.block_on(async {
        let pool = shelf.open().await.expect("it opens");
        pool.spare_add(shelf.drive(spare)).await.expect("it fits");
        pool.rebuild_pause(true);
        pool.drive_remove(PLACE).await.expect("it begins");
        shelf.rest(SOON).await;
        assert!(is_copied(&pool) && spares(&pool) == 0);
        pool.exchange_stop(2).await.expect_err("that is another");
        pool.exchange_stop(PLACE).await.expect("it is copied");
        assert_eq!((spares(&pool), state(&pool, PLACE)), (1, DriveState::Active));
        pool.drive_remove(PLACE).await.expect("it begins again");
        shelf.rest(Nanos::from_millis(300)).await;
        shelf.within(SOON, "close", pool.close()).await.expect("closes");
        let pool = shelf.open().await.expect("it opens");
        assert_eq!((spares(&pool), state(&pool, PLACE)), (1, DriveState::Active));
        pool.rebuild_pause(true);
        pool.drive_remove(PLACE).await.expect("it begins again");
        shelf.rest(SOON).await;
        let left = || pool.status().drives[PLACE].replacing.as_ref().map(|own| own.progress.left);
        let all = left();
        pool.rebuild_pause(false);
        while left() == all {
            shelf.rest(Nanos::from_millis(1)).await;
        }
        pool.rebuild_pause(true);
        shelf.rest(SOON).await;
        let eta = pool.status().drives[PLACE].eta;
        assert!(eta.is_some(), "how long it takes is known after a while");
        pool.rebuild_pause(false);
        until_over(&shelf, &pool, "goes on").await;
        assert_eq!((spares(&pool), state(&pool, PLACE)), (0, DriveState::Active));
        pool.close().await.expect("closes");
    });
}

/// The new drive does not answer: nobody who writes waits for it.
#[test]
fn a_new_drive_that_hangs_holds_nobody_up() {
    let mut shelf = shelf(Scheme::Raid5, 4);
    let new = shelf.add(DRIVE);
    shelf.env.block_on(async {
        let pool = shelf.open().await.expect("it opens");
        pool.drive_replace(PLACE, shelf.drive(new)).await.expect("it begins");
        shelf.rest(Nanos::from_millis(20)).await;
        shelf.hang(new);
        for at in 0..8 {
            shelf.within(Nanos::from_millis(100), "a write", write(&pool, at)).await;
        }
        until_over(&shelf, &pool, "hangs").await;
        assert_eq!(told(&pool, "replace-failed", PLACE as u16).len(), 1);
        check(&pool, "hangs", 8).await;
        pool.close().await.expect("closes");
    });
}
