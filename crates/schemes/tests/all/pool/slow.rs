//! A drive that is slow for long is told of in pools of any scheme, in the same words.

use std::cell::Cell;
use std::rc::Rc;

use io::faulty::{Delay, Effect, Fault};
use io::rng::Rng;
use io::{Buf, Env, Nanos};
use schemes::Pool;
use schemes::pool::{Decided, Event, Severity};
use schemes::scheme::Scheme;

use super::shelf::{MIB, REDUNDANT, Shelf, TestEnv, volume, write};

const SLOW: usize = 1;
const LATE: Effect = Effect::Delay(Delay::Constant(Nanos::from_millis(300)));
/// Requests come so often, whatever became of the ones before.
const GAP: Nanos = Nanos::from_millis(4);
const PAGE: u64 = 4096;
/// What is read and written.
const SPAN: u64 = 4 * MIB;
/// What is under way is answered by then.
const ANSWERED: Nanos = Nanos::from_secs(2);

/// Reads and writes of pages for so many seconds.
async fn load(shelf: &Shelf, pool: &Pool<TestEnv>, seconds: u64) {
    let (mut rng, env) = (Rng::new(seconds), shelf.env.clone());
    let (until, failed) = (env.now() + Nanos::from_secs(seconds), Rc::new(Cell::new(0)));
    while env.now() < until {
        let (vm, at) = (volume(pool), rng.below(SPAN / PAGE) * PAGE);
        let (reads, failed) = (rng.below(2) == 0, failed.clone());
        env.spawn(async move {
            let done = match reads {
                true => vm.read(at, PAGE).await.map(|_| ()),
                false => vm.write(at, Buf::from_slice(&[7; PAGE as usize]), false).await,
            };
            failed.set(failed.get() + u32::from(done.is_err()));
        });
        shelf.rest(GAP).await;
    }
    shelf.rest(ANSWERED).await;
    assert_eq!(failed.get(), 0, "requests failed");
}

fn late(shelf: &Shelf, drive: usize) {
    let armed = shelf.faults[drive].arm(shelf.env.now(), Fault::new(LATE));
    armed.expect("a fault");
}

/// What was said of how drives answer.
fn told(pool: &Pool<TestEnv>) -> Vec<Event> {
    let kinds = ["drive-slow", "drive-suspect", "drive-good", "load"];
    pool.events(0).into_iter().filter(|event| kinds.contains(&event.kind)).collect()
}

fn kinds(pool: &Pool<TestEnv>) -> Vec<&'static str> {
    told(pool).iter().map(|event| event.kind).collect()
}

async fn filled(shelf: &Shelf) -> Pool<TestEnv> {
    let pool = shelf.open().await.expect("it opens");
    for at in 0..SPAN / MIB {
        write(&pool, at).await;
    }
    load(shelf, &pool, 10).await;
    pool
}

/// Nothing but `fusion` said a word of a drive that was slow for hours.
#[test]
fn a_drive_that_is_slow_for_long_is_told_of_and_suspect_in_every_scheme() {
    for (scheme, drives) in REDUNDANT {
        let (shelf, name) = (Shelf::new(scheme, drives), scheme.name());
        shelf.env.block_on(async {
            let pool = filled(&shelf).await;
            assert_eq!(kinds(&pool), [""; 0], "{name}: {:?}", told(&pool));
            late(&shelf, SLOW);
            let begin = shelf.env.now();
            load(&shelf, &pool, 12).await;
            let events = told(&pool);
            let [slow] = &events[..] else { panic!("{name}: {events:?}") };
            assert_eq!((slow.kind, slow.severity), ("drive-slow", Severity::Warning), "{name}");
            assert_eq!(slow.drive, Some(SLOW as u16), "{name}: {slow:?}");
            assert!(slow.at < begin + Nanos::from_secs(10), "{name}: {slow:?}");
            // Nothing bypasses it here.
            assert!(!slow.text.contains("bypass"), "{name}: {slow:?}");
            assert!(slow.text.contains("drive replace"), "{name}: {slow:?}");
            let drive = pool.status().drives.swap_remove(SLOW);
            let how = drive.slow.unwrap_or_else(|| panic!("{name}: {drive:?}"));
            assert!(!how.bypassed && how.own_nanos > 300_000_000, "{name}: {how:?}");
            load(&shelf, &pool, 60).await;
            assert_eq!(kinds(&pool), ["drive-slow", "drive-suspect"], "{name}: {:?}", told(&pool));
            assert!(pool.status().drives[SLOW].suspect, "{name}");
            shelf.faults[SLOW].release_all();
            load(&shelf, &pool, 15).await;
            let drive = pool.status().drives.swap_remove(SLOW);
            assert_eq!((drive.slow, drive.suspect), (None, false), "{name}");
            assert_eq!(kinds(&pool)[2..], ["drive-good"], "{name}: {:?}", told(&pool));
            pool.close().await.expect("closes");
        });
    }
}

#[test]
fn a_drive_that_is_trusted_may_be_slow() {
    let shelf = Shelf::new(Scheme::Raid5, 7);
    shelf.env.block_on(async {
        let pool = filled(&shelf).await;
        late(&shelf, SLOW);
        load(&shelf, &pool, 10).await;
        assert_eq!(kinds(&pool), ["drive-slow"]);
        pool.drive_trust(SLOW);
        assert_eq!(pool.status().drives[SLOW].decided, Decided::Trusted);
        load(&shelf, &pool, 10).await;
        assert_eq!((kinds(&pool), pool.status().drives[SLOW].slow), (vec!["drive-slow"], None));
        pool.drive_sit_out(SLOW, false).expect("at any time");
        load(&shelf, &pool, 10).await;
        assert_eq!(kinds(&pool), ["drive-slow", "drive-slow"], "judged again");
    });
}

#[test]
fn drives_that_are_all_slow_are_the_hosts_business() {
    let shelf = Shelf::new(Scheme::Raid6, 7);
    shelf.env.block_on(async {
        let pool = filled(&shelf).await;
        (0..7).for_each(|drive| late(&shelf, drive));
        load(&shelf, &pool, 20).await;
        assert!(pool.status().drives.iter().all(|drive| drive.slow.is_none()));
        assert!(told(&pool).iter().all(|event| event.kind == "load"), "{:?}", told(&pool));
        assert!(told(&pool).len() <= 1, "once: {:?}", told(&pool));
    });
}

/// All events had one list: the warnings of a bad day pushed out the error that began it.
#[test]
fn a_flood_of_warnings_pushes_out_no_error() {
    let shelf = Shelf::new(Scheme::Raid1, 2);
    shelf.env.block_on(async {
        let pool = shelf.open().await.expect("it opens");
        pool.tell(Some(0), (Severity::Error, "drive-deleted"), "its file is gone".to_owned());
        for _ in 0..5000 {
            pool.tell(None, (Severity::Warning, "drive-slow"), "again".to_owned());
            pool.tell(None, (Severity::Info, "load"), "again".to_owned());
        }
        let events = pool.events(0);
        assert_eq!((events[0].sequence, events[0].kind), (1, "drive-deleted"), "{:?}", events[0]);
        assert!(events.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
        assert!(events.len() < 5000, "they are bounded: {}", events.len());
    });
}
