//! The log over a mirror: what is found after crashes against a list of what was appended.

use std::task::{Context, Waker};

use classical::array::create;
use classical::{Array, CreateSpec, OpenOptions, Redundancy};
use io::join_all;
use io::rng::{Rng, mix};
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};

use super::record::{HEADER, record_bytes};
use super::*;

const POOL: Uuid = Uuid([9; 16]);
const SMALL: u64 = LOG_MIN + 48 * PAGE;

struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
}

type TestLog = Log<Array<VirtEnv>>;

impl Bench {
    fn new(seed: u64, bytes: u64) -> Bench {
        let env = VirtEnv::new(seed);
        let align = if seed.is_multiple_of(2) { 512 } else { 4096 };
        let disk =
            |at| Disk::new(format!("d{at}"), 4 << 20, align, mix(seed) ^ at).without_torn_units();
        let bench = Bench { env, disks: (0..2).map(disk).collect() };
        let spec = CreateSpec {
            name: "log".into(),
            redundancy: Redundancy::Mirror,
            width: 2,
            chunk: 8192,
            checksums: true,
        };
        bench.env.block_on(async {
            create(&bench.env, &bench.drives(), &spec).await.expect("it fits");
            Log::create(&bench.array().await, POOL, bytes).await.expect("it fits");
        });
        bench
    }

    fn drives(&self) -> Vec<VirtDrive> {
        let attach = |disk: &Disk| VirtDrive::attach(&self.env, disk, Latency::SSD);
        self.disks.iter().map(attach).collect()
    }

    async fn array(&self) -> Array<VirtEnv> {
        Array::open(&self.env, self.drives(), OpenOptions::default()).await.expect("opens")
    }

    async fn open(&self) -> (TestLog, Vec<Found>) {
        let mut all = Vec::new();
        let log = Log::open(self.array().await, POOL, |found| all.push(found)).await;
        (log.expect("opens"), all)
    }

    fn cut(&self, rng: &mut Rng) {
        self.env.crash();
        let modes = [CutMode::DropAll, CutMode::KeepAll, CutMode::Random, CutMode::Random];
        let mode = modes[rng.index(modes.len())];
        self.disks.iter().for_each(|disk| disk.power_cut(rng, mode));
    }
}

fn content(number: u64, len: u64) -> Buf {
    let mut bytes = BufMut::with_len(len as usize);
    Rng::new(mix(number)).fill(&mut bytes);
    bytes.freeze()
}

fn entry(number: u64, sectors: u64) -> Entry {
    let data = content(number, sectors * 512);
    Entry { kind: (number % 7) as u16, address: number, len: sectors, data }
}

async fn put(log: &TestLog, number: u64, sectors: u64, durable: bool) -> Option<Place> {
    let done = log.append(entry(number, sectors), durable, Space::Leave(0)).await;
    done.expect("appends").map(|appended| appended.place)
}

/// What a world knows of an entry it appended.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: u64,
    place: Place,
    durable: bool,
}

/// Appends of several clients, flushes, frees and reads until a cut at any write, again and again:
/// found is an unbroken run from the tail that holds all that was durable, and the bytes are right.
#[test]
fn after_a_crash_an_unbroken_run_with_all_that_was_durable_is_found() {
    let mut found_in_all = 0;
    for seed in 0..150 {
        let bench = Bench::new(seed, SMALL);
        let mut rng = Rng::new(mix(seed) ^ 1);
        let mut known: Vec<Known> = Vec::new();
        let mut next = 1;
        for _ in 0..5 {
            let (log, found) = bench.env.block_on(bench.open());
            found_in_all += found.len();
            known = bench.env.block_on(check(&log, &found, &known));
            let shared = RefCell::new(std::mem::take(&mut known));
            let limit = 1 + rng.below(120);
            bench.env.set_write_limit(bench.env.writes_issued() + limit);
            let clients = (0..4).map(|client| {
                let first = next + client * 1000;
                work(&log, first, Rng::new(rng.next_u64()), &shared)
            });
            let clients: Vec<_> = clients.collect();
            let all = async { join_all(clients).await };
            let _ = bench.env.run_until(all, || bench.env.write_limit_reached());
            next += 4000;
            known = shared.into_inner();
            bench.cut(&mut rng);
        }
    }
    assert!(found_in_all > 1000, "the worlds were empty: {found_in_all}");
}

async fn check(log: &TestLog, found: &[Found], known: &[Known]) -> Vec<Known> {
    let mut kept = Vec::new();
    for found in found {
        let number = found.address;
        let data = log.read(found.place.at, found.data).await.expect("reads");
        assert!(data[..] == content(number, found.len * 512)[..], "entry {number}");
        assert_eq!(u64::from(found.kind), number % 7);
        assert!(found.place.record >= log.tail());
        if let Some(known) = known.iter().find(|known| known.number == number) {
            assert_eq!(known.place, found.place, "entry {number}");
        }
        kept.push(Known { number, place: found.place, durable: true });
    }
    assert!(kept.is_sorted_by_key(|known| known.place.at));
    for known in known.iter().filter(|known| known.durable && known.place.record >= log.tail()) {
        assert!(kept.iter().any(|kept| kept.number == known.number), "{known:?} vanished");
    }
    kept
}

async fn work(log: &TestLog, first: u64, mut rng: Rng, known: &RefCell<Vec<Known>>) {
    for number in first..first + 40 {
        let (sectors, durable) = (rng.below(24), rng.chance(1, 4));
        if let Some(place) = put(log, number, sectors, durable).await {
            known.borrow_mut().push(Known { number, place, durable });
            if durable {
                // With it everything before.
                let mut known = known.borrow_mut();
                known.iter_mut().filter(|k| k.place.at < place.at).for_each(|k| k.durable = true);
            }
        } else {
            let to = || known.borrow().iter().map(|known| known.place.record).max().unwrap_or(0);
            log.free(to).await.expect("frees");
        }
        if rng.chance(1, 8) {
            let before: Vec<u64> = known.borrow().iter().map(|known| known.number).collect();
            log.flush().await.expect("flushes");
            let mut known = known.borrow_mut();
            let flushed = known.iter_mut().filter(|known| before.contains(&known.number));
            flushed.for_each(|known| known.durable = true);
        }
    }
}

/// A record behind a gap that a crash left is void, also when what is appended after opening ends
/// exactly where it begins: it was never acknowledged, and might tell of older bytes than newer
/// ones that are elsewhere by now.
#[test]
fn what_lay_behind_a_gap_does_not_come_back() {
    let bench = Bench::new(2, SMALL);
    bench.env.block_on(async {
        let (log, _) = bench.open().await;
        let first = put(&log, 1, 8, true).await.expect("there is room");
        let second = put(&log, 2, 8, true).await.expect("there is room");
        assert_eq!((first.record, second.record), (0, record_bytes(4096)));
        // The first was torn.
        let array = bench.array().await;
        let garbage = Buf::zeroed(PAGE as usize);
        array.write(AREA_BEGIN, garbage, true).await.expect("writes");
        let (log, found) = bench.open().await;
        assert_eq!(found, []);
        let again = put(&log, 3, 8, true).await.expect("there is room");
        assert_eq!(again, first);
        let (_, found) = bench.open().await;
        let numbers: Vec<u64> = found.iter().map(|found| found.address).collect();
        assert_eq!(numbers, [3]);
    });
}

/// As before, but everything up to that record was freed: the log was empty, and opening found the
/// record at its tail. (Found by the battery.)
#[test]
fn what_lay_behind_a_gap_does_not_come_back_when_the_tail_reaches_it() {
    let bench = Bench::new(2, SMALL);
    bench.env.block_on(async {
        let (log, _) = bench.open().await;
        put(&log, 1, 8, true).await.expect("there is room");
        let second = put(&log, 2, 8, true).await.expect("there is room");
        let array = bench.array().await;
        array.write(AREA_BEGIN, Buf::zeroed(PAGE as usize), true).await.expect("writes");
        let (log, _) = bench.open().await;
        put(&log, 3, 8, true).await.expect("there is room");
        assert_eq!(log.free(|| u64::MAX).await.expect("frees"), second.record);
        for _ in 0..2 {
            let (_, found) = bench.open().await;
            assert_eq!(found, []);
        }
    });
}

#[test]
fn who_comes_while_the_turns_are_taken_shares_a_record() {
    let bench = Bench::new(4, SMALL);
    bench.env.block_on(async {
        let (log, _) = bench.open().await;
        let all = join_all((0..20).map(|number| put(&log, number, 8, false))).await;
        let records: std::collections::BTreeSet<u64> =
            all.into_iter().map(|place| place.expect("there is room").record).collect();
        assert_eq!(records.len(), WRITES_MAX + 1);
        log.flush().await.expect("flushes");
        let (_, found) = bench.open().await;
        let numbers: Vec<u64> = found.iter().map(|found| found.address).collect();
        assert_eq!(numbers, Vec::from_iter(0..20));
    });
}

/// Whose task was woken for another reason runs before those who were given their turns earlier.
/// (Found by the evaluation: the log took the later record for the earlier one, and stopped.)
#[test]
fn turns_given_together_are_used_in_any_order() {
    let bench = Bench::new(4, 1 << 20);
    bench.env.block_on(async {
        let (log, _) = bench.open().await;
        // No record has room for two.
        let sectors = GATHERED_MAX / 2 / 512 + 1;
        let mut puts =
            Vec::from_iter((0..6).map(|number| Box::pin(put(&log, number, sectors, false))));
        let nobody = &mut Context::from_waker(Waker::noop());
        for put in &mut puts {
            assert!(put.as_mut().poll(nobody).is_pending(), "drives take their time");
        }
        // The first ones finish, and give their turns to the last two, which do not look yet.
        let last = puts.split_off(WRITES_MAX);
        assert!(join_all(puts).await.iter().all(Option::is_some));
        let places = join_all(last.into_iter().rev()).await;
        assert!(places.iter().all(Option::is_some));
        log.flush().await.expect("flushes");
        let (_, found) = bench.open().await;
        let numbers: Vec<u64> = found.iter().map(|found| found.address).collect();
        assert_eq!(numbers, Vec::from_iter(0..6));
    });
}

#[test]
fn full_is_told_and_freed_space_goes_round() {
    let bench = Bench::new(6, LOG_MIN);
    bench.env.block_on(async {
        let (log, _) = bench.open().await;
        assert_eq!(log.capacity(), 16 * PAGE);
        let room = log.reserve().expect("it is empty");
        let mut last = None;
        let mut count = 0;
        while let Some(place) = put(&log, count, 8, false).await {
            (last, count) = (Some(place), count + 1);
        }
        // Eight of two pages would fit, but one page is reserved.
        assert_eq!((count, log.used()), (7, 14 * PAGE));
        let void = Entry { kind: 1, address: 0, len: 1 << 40, data: Buf::zeroed(0) };
        let void = log.append(void, true, Space::Reserved(room)).await.expect("appends");
        assert_eq!(void.expect("it was reserved").place.record, 14 * PAGE);
        // What is pinned stays.
        let pin = log.pin(last.expect("some"));
        assert_eq!(log.free(|| u64::MAX).await.expect("frees"), 12 * PAGE);
        drop(pin);
        assert_eq!(log.free(|| u64::MAX).await.expect("frees"), 15 * PAGE);
        assert_eq!(log.used(), 0);
        // One that goes over the end, and is found.
        let place = put(&log, 77, 16, true).await.expect("it is empty");
        assert_eq!(place.at, 15 * PAGE + HEADER);
        assert_eq!(log.read(place.at, 8192).await.expect("reads")[..], content(77, 8192)[..]);
        let (log, found) = bench.open().await;
        assert_eq!((found.len(), found[0].place), (1, place));
        assert_eq!(log.used(), record_bytes(8192));
    });
}

/// A sector was flushed, then written again without a flush: the older record seemed needless, was
/// freed durably, and the power cut took the newer. Neither was left. (Found by the battery.)
#[test]
fn a_record_is_not_freed_before_what_made_it_needless_is_durable() {
    for seed in 0..20 {
        let bench = Bench::new(seed, SMALL);
        let newer = bench.env.block_on(async {
            let (log, _) = bench.open().await;
            put(&log, 1, 8, true).await.expect("there is room");
            let newer = put(&log, 2, 8, false).await.expect("there is room");
            log.free(|| newer.record).await.expect("frees");
            newer
        });
        bench.env.crash();
        let mut rng = Rng::new(seed);
        bench.disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::DropAll));
        let (_, found) = bench.env.block_on(bench.open());
        assert_eq!(found.iter().map(|found| found.place).collect::<Vec<_>>(), [newer]);
    }
}

#[test]
fn an_anchor_that_is_torn_leaves_the_one_before() {
    let bench = Bench::new(8, SMALL);
    bench.env.block_on(async {
        let (log, _) = bench.open().await;
        put(&log, 1, 1, true).await.expect("there is room");
        let second = put(&log, 2, 1, true).await.expect("there is room");
        log.free(|| second.record).await.expect("frees");
        let newest = log.inner.state.borrow().sequence % 2 * PAGE;
        let array = bench.array().await;
        array.write(newest, Buf::zeroed(512), true).await.expect("writes");
        let (_, found) = bench.open().await;
        assert_eq!(found.len(), 2, "freed, but not durably: its space was not used again");
        array.write(0, Buf::zeroed(2 * PAGE as usize), true).await.expect("writes");
        let none = Log::open(array, POOL, |_| ()).await;
        assert!(matches!(none, Err(StoreError::Damaged(_))));
    });
}

/// Both copies of a page rotted. Of the last record nothing tells that it was durable: it may be
/// one that a crash left different on the drives, beside rot. (Found by the battery: such a log was
/// not opened.)
#[test]
fn a_page_that_is_lost_ends_the_log_unless_a_record_tells_that_it_was_durable() {
    for (rotten, expected) in [(3, Some(vec![1, 2])), (2, None), (1, None)] {
        let bench = Bench::new(9, SMALL);
        bench.env.block_on(async {
            let (log, _) = bench.open().await;
            for number in 1..=3 {
                put(&log, number, 8, true).await.expect("there is room");
            }
        });
        let page = content(rotten, PAGE);
        for (noise, disk) in (5..).zip(&bench.disks) {
            let places = (0..disk.geometry().size).step_by(PAGE as usize);
            let copies: Vec<u64> =
                places.filter(|at| disk.peek(*at, PAGE as usize) == page[..]).collect();
            assert_eq!(copies.len(), 1, "each drive has a copy");
            disk.corrupt(copies[0], PAGE, noise);
        }
        let array = bench.env.block_on(bench.array());
        let mut found = Vec::new();
        let opened = bench.env.block_on(Log::open(array, POOL, |own| found.push(own.address)));
        match expected {
            Some(expected) => assert!(opened.is_ok() && found == expected, "{found:?}"),
            None => assert!(opened.is_err_and(|error| error.is_page_lost()), "record {rotten}"),
        }
    }
}

#[test]
fn an_anchor_that_is_lost_leaves_the_one_before_if_that_may_be_the_newest() {
    // What is behind the newest tail tells that the tail was durable, as long as there is anything.
    for goes_on in [false, true] {
        let bench = Bench::new(9, SMALL);
        let newest = bench.env.block_on(async {
            let (log, _) = bench.open().await;
            put(&log, 1, 8, true).await.expect("there is room");
            let end = log.end();
            assert_eq!(log.free(|| end).await.expect("frees"), end);
            if goes_on {
                // Over what was freed: the one before does not find it.
                put(&log, 10, 40 * 8, true).await.expect("there is room");
                put(&log, 20, 20 * 8, true).await.expect("there is room");
                put(&log, 30, 1, true).await;
            }
            log.inner.state.borrow().sequence
        });
        for (noise, disk) in (5..).zip(&bench.disks) {
            let is_it = |at: &u64| {
                let page = disk.peek(*at, PAGE as usize);
                Anchor::decode(&POOL, &page).is_some_and(|anchor| anchor.sequence == newest)
            };
            let at = (0..disk.geometry().size).step_by(PAGE as usize).find(is_it);
            disk.corrupt(at.expect("each drive has a copy"), PAGE, noise);
        }
        let array = bench.env.block_on(bench.array());
        let opened = bench.env.block_on(Log::open(array, POOL, |_| ()));
        match opened {
            Ok(_) => assert!(!goes_on, "what the anchor tells is gone"),
            Err(error) => assert!(goes_on && error.is_page_lost(), "{error}"),
        }
    }
}

#[test]
fn a_log_that_is_too_small_is_refused() {
    let bench = Bench::new(10, SMALL);
    bench.env.block_on(async {
        let array = bench.array().await;
        let made = Log::create(&array, POOL, LOG_MIN - PAGE).await;
        assert!(matches!(made, Err(StoreError::Shape { .. })));
    });
}
