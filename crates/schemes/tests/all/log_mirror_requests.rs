//! `log-mirror`: what single requests cost each kind of drive, and the paper's figures 3 and 4.

use std::fmt::Write as _;

use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::scheme::log_mirror::policy::{Policy, QUIET};
use schemes::scheme::log_mirror::{LogMirror, Options, Spec, create};
use schemes::{Store, StoreError};

const KIB: u64 = 1 << 10;
const DATA: usize = 4;

struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
    store: LogMirror<VirtEnv>,
    chunk: u64,
}

impl Bench {
    fn new(chunk: u64, lost: &[usize]) -> Bench {
        Bench::in_world(VirtEnv::fifo(1), chunk, lost)
    }

    fn in_world(env: VirtEnv, chunk: u64, lost: &[usize]) -> Bench {
        let disks: Vec<Disk> = (0..DATA as u64 + 2)
            .map(|at| Disk::new(format!("d{at}"), 32 << 20, 4096, at))
            .collect();
        let spec = Spec { chunk, ..Spec::new("tank", DATA) };
        let drives: Vec<VirtDrive> = attach(&env, &disks, &[]);
        env.block_on(create(&env, &drives, &spec)).expect("it fits");
        let store = open(&env, attach(&env, &disks, lost)).expect("it opens");
        let bench = Bench { env, disks, store, chunk };
        // The regions are marked from now on, and the log is empty again.
        bench.write(bench.stripe(0), bench.stripe(1));
        bench.write(bench.stripe(0), 4 * KIB);
        while bench.work() {}
        bench
    }

    fn stripe(&self, number: u64) -> u64 {
        number * 3 * self.chunk
    }

    fn write(&self, offset: u64, len: u64) {
        self.write_as(offset, len, 1);
    }

    fn write_as(&self, offset: u64, len: u64, byte: u8) {
        let data = Buf::from_slice(&vec![byte; len as usize]);
        self.env.block_on(self.store.write(offset, data, false)).expect("writes");
    }

    fn read(&self, offset: u64, len: u64) -> Buf {
        self.env.block_on(self.store.read(offset, len)).expect("reads")
    }

    fn work(&self) -> bool {
        self.env.block_on(self.store.work()).expect("works")
    }

    fn counter(&self, name: &str) -> u64 {
        let all = self.store.counters();
        all.iter().find(|(own, _)| *own == name).expect("there is such a counter").1
    }

    /// Reads, KiB read, writes, KiB written, of the data drives and of the log drives.
    fn sums(&self) -> [[u64; 4]; 2] {
        let sum = |disks: &[Disk]| {
            let each = disks.iter().map(Disk::counters);
            each.fold([0; 4], |sum, c| {
                let own = [c.reads, c.bytes_read / KIB, c.writes, c.bytes_written / KIB];
                std::array::from_fn(|at| sum[at] + own[at])
            })
        };
        let (data, log) = self.disks.split_at(DATA);
        [sum(data), sum(log)]
    }

    fn spent(&self, act: impl FnOnce()) -> [[u64; 4]; 2] {
        let before = self.sums();
        act();
        let after = self.sums();
        std::array::from_fn(|kind| std::array::from_fn(|at| after[kind][at] - before[kind][at]))
    }

    fn cost(&self, text: &mut String, request: &str, act: impl FnOnce()) {
        let [data, log] = self.spent(act);
        let show = |[r, rk, w, wk]: [u64; 4]| format!("r {r:>2} {rk:>4}K  w {w:>2} {wk:>4}K");
        let _ = writeln!(text, "{request:<26} data {}   log {}", show(data), show(log));
    }
}

fn attach(env: &VirtEnv, disks: &[Disk], lost: &[usize]) -> Vec<VirtDrive> {
    let there = disks.iter().enumerate().filter(|(at, _)| !lost.contains(at));
    there.map(|(_, disk)| VirtDrive::attach(env, disk, Latency::SSD)).collect()
}

/// Idle as soon as no request is under way.
fn open(env: &VirtEnv, drives: Vec<VirtDrive>) -> Result<LogMirror<VirtEnv>, StoreError> {
    let policy = Policy { quiet: Nanos::ZERO, ..Policy::default() };
    let options = Options { policy, ..Options::default() };
    env.block_on(LogMirror::open(env, drives, options))
}

/// With k = 3, p = 1, chunks of 64 KiB and n bytes:
///
/// * to the log: 2 writes of n, rounded up to pages, and a page; reads only for what of a page is
///   not written;
/// * a whole stripe: k + p chunks; with a record that voids, 2 pages more;
/// * destage of a run: the live bytes from one log drive, a read-modify-write of the array (as
///   `raid5`: 2 reads, 3 writes), and an anchor of 2 pages when the tail moves;
/// * destage of a whole stripe: the live bytes, k + p chunks, an anchor. The array logs an empty
///   record where it had one of the stripe (4 KiB).
#[test]
fn requests_cost_what_the_formulas_say() {
    let bench = Bench::new(64 * KIB, &[]);
    let mut text = String::new();
    let (stripe, page) = (bench.stripe(1), 4 * KIB);
    let mut write = |name: &str, offset, len| {
        bench.cost(&mut text, name, || bench.write(offset, len));
    };
    write("4K", stripe, page);
    write("4K again", stripe, page);
    write("512 B, not in the log", 2 * stripe + 512, 512);
    write("512 B, in the log", 2 * stripe + 1024, 512);
    write("chunk", 3 * stripe, 64 * KIB);
    write("stripe", 4 * stripe, stripe);
    write("stripe, in the log", 3 * stripe, stripe);
    write("a stripe and a half", 5 * stripe, 288 * KIB);
    write("across two stripes", 8 * stripe - page, 2 * page);
    bench.cost(&mut text, "read, in the log", || drop(bench.read(stripe, page)));
    bench.cost(&mut text, "read, half in the log", || drop(bench.read(stripe, 2 * page)));
    bench.cost(&mut text, "read, not in the log", || drop(bench.read(4 * stripe, page)));
    let mut work = |name: &str| {
        bench.cost(&mut text, name, || assert!(bench.work()));
    };
    work("destage half a stripe");
    work("destage 4K");
    work("destage a page");
    work("destage 4K");
    work("destage 4K, tail");
    assert!(!bench.work());
    (0..3).for_each(|at| bench.write(9 * stripe + at * 64 * KIB, 64 * KIB));
    bench.cost(&mut text, "destage a stripe, tail", || assert!(bench.work()));
    // 60 KiB of each chunk: cheaper to log the rest, too.
    (0..3).for_each(|at| bench.write(10 * stripe + at * 64 * KIB, 60 * KIB));
    bench.cost(&mut text, "destage all but gaps, tail", || assert!(bench.work()));

    let degraded = Bench::new(64 * KIB, &[DATA + 1]);
    degraded.cost(&mut text, "4K, log drive lost", || degraded.write(stripe, page));
    // Stripe 1 of 4 drives: parity on drive 2, data on 3, 0, 1.
    let surrogate = Bench::new(64 * KIB, &[3]);
    surrogate.cost(&mut text, "4K, data drive lost", || surrogate.write(stripe, page));
    surrogate.cost(&mut text, "stripe, data drive lost", || surrogate.write(stripe, stripe));
    assert_eq!(text, GOLDEN, "\n{text}");
}

const GOLDEN: &str = "\
4K                         data r  0    0K  w  0    0K   log r  0    0K  w  2   16K
4K again                   data r  0    0K  w  0    0K   log r  0    0K  w  2   16K
512 B, not in the log      data r  1    4K  w  0    0K   log r  0    0K  w  2   16K
512 B, in the log          data r  0    0K  w  0    0K   log r  1    4K  w  2   16K
chunk                      data r  0    0K  w  0    0K   log r  0    0K  w  2  136K
stripe                     data r  0    0K  w  5  260K   log r  0    0K  w  0    0K
stripe, in the log         data r  0    0K  w  9  276K   log r  0    0K  w  4   16K
a stripe and a half        data r  0    0K  w  5  260K   log r  0    0K  w  2  200K
across two stripes         data r  0    0K  w  2    8K   log r  0    0K  w  2   24K
read, in the log           data r  0    0K  w  0    0K   log r  1    4K  w  0    0K
read, half in the log      data r  1    4K  w  0    0K   log r  1    4K  w  0    0K
read, not in the log       data r  1    4K  w  0    0K   log r  0    0K  w  0    0K
destage half a stripe      data r  2   96K  w  6  236K   log r  1   96K  w  2    8K
destage 4K                 data r  2    8K  w  5   24K   log r  1    4K  w  0    0K
destage a page             data r  2    8K  w  5   24K   log r  1    4K  w  0    0K
destage 4K                 data r  2    8K  w  5   24K   log r  1    4K  w  0    0K
destage 4K, tail           data r  2    8K  w  5   24K   log r  1    4K  w  4   16K
destage a stripe, tail     data r  0    0K  w  7  268K   log r  4  192K  w  4   16K
destage all but gaps, tail data r  3   12K  w  7  268K   log r  7  192K  w 16   88K
4K, log drive lost         data r  2    8K  w  3   16K   log r  0    0K  w  0    0K
4K, data drive lost        data r  0    0K  w  0    0K   log r  0    0K  w  2   16K
stripe, data drive lost    data r  0    0K  w  0    0K   log r  0    0K  w  6  400K
";

/// Figure 3 and §3.3, §3.4: four SSDs with chunks of 16 KiB. Small writes are appended, the map
/// says where, reads of them go there; twelve adjacent ones of 4 KiB are migrated as one
/// full-stripe write of 48 KiB, and their entries are deleted.
#[test]
fn figure_3_small_writes_are_merged_into_one_of_a_stripe() {
    let bench = Bench::new(16 * KIB, &[]);
    let first = bench.stripe(1);
    let ways = [1, 7, 2, 0, 11, 5, 3, 4, 9, 10, 8, 6];
    let [data, log] = bench.spent(|| {
        ways.iter().for_each(|at| bench.write_as(first + at * 4 * KIB, 4 * KIB, *at as u8 + 1));
    });
    assert_eq!((data, log), ([0; 4], [0, 0, 24, 192]), "to both log drives only");
    // A rewrite is appended, too; its entry takes the place of the old one.
    let ranges = bench.counter("map_ranges");
    bench.write_as(first + 8 * KIB, 4 * KIB, 99);
    assert_eq!((bench.counter("map_ranges"), bench.counter("log_live")), (ranges, 48 * KIB));
    let [data, log] = bench.spent(|| assert_eq!(bench.read(first + 8 * KIB, 512)[0], 99));
    assert_eq!((data, log), ([0; 4], [1, 4, 0, 0]), "read from one log drive");
    // A read-only request elsewhere is the array's.
    let [data, log] = bench.spent(|| drop(bench.read(bench.stripe(3), 4 * KIB)));
    assert_eq!((data, log), ([1, 4, 0, 0], [0; 4]));
    let [data, _] = bench.spent(|| assert!(bench.work()));
    // With its record of 4 KiB and two copies of a page of the checksum log.
    assert_eq!(data, [0, 0, 7, 76], "one full-stripe write, and nothing is read for it");
    assert_eq!((bench.counter("map_ranges"), bench.counter("log_used")), (0, 0));
    let [data, log] = bench.spent(|| {
        let read = bench.read(first, 48 * KIB);
        let expected = |at: usize| if at == 2 { 99 } else { at as u8 + 1 };
        assert!((0..12).all(|at| read[at * 4096..][..4096].iter().all(|b| *b == expected(at))));
    });
    assert_eq!((data, log), ([3, 48, 0, 0], [0; 4]));
    // A write of 48 KiB is the array's at once.
    let [data, log] = bench.spent(|| bench.write(first, 48 * KIB));
    assert_eq!((data, log), ([0, 0, 5, 68], [0; 4]), "with its record");
}

/// §3.3: the pieces of a stripe come one after the other, with time between them. They stay in the
/// log until nobody has asked for anything for a while, so that they are merged; then the stripe
/// of which most is there goes first.
#[test]
fn what_comes_with_gaps_between_is_merged_all_the_same() {
    let mut bench = Bench::new(16 * KIB, &[]);
    bench.env.block_on(bench.store.close()).expect("closes");
    let drives = attach(&bench.env, &bench.disks, &[]);
    let opening = LogMirror::open(&bench.env, drives, Options::default());
    bench.store = bench.env.block_on(opening).expect("it opens");
    // The array's regions are marked from now on.
    bench.write(bench.stripe(0), bench.stripe(1));
    let rest = |time| bench.env.block_on(bench.env.sleep_until(bench.env.now() + time));
    for at in 0..12 {
        bench.write(bench.stripe(5) + at * 4 * KIB, 4 * KIB);
        if at % 3 == 0 {
            bench.write(bench.stripe(1 + at / 3), 4 * KIB);
        }
        rest(Nanos(QUIET.0 / 2));
        // The array, to which nobody writes, may take its marks back.
        while bench.work() {}
        assert_eq!(bench.counter("destaged_stripes"), 0, "somebody was there a moment ago");
    }
    rest(QUIET);
    let [data, _] = bench.spent(|| assert!(bench.work()));
    assert_eq!(data, [0, 0, 7, 76], "one full-stripe write, although it is not the oldest");
    while bench.work() {}
    assert_eq!((bench.counter("destaged_whole"), bench.counter("destaged_stripes")), (1, 5));
    assert_eq!((bench.counter("log_live"), bench.counter("log_used")), (0, 0));
}

/// Figure 4 and §3.5: a log drive fails. What only the other one holds (data 1 to 3) is migrated,
/// meanwhile requests go to the array, and an entry that is overwritten there is deleted. Then
/// nothing depends on the log drive that is left.
#[test]
fn figure_4_when_a_log_drive_fails_the_log_is_migrated() {
    let bench = Bench::new(16 * KIB, &[]);
    let at = |number: u64| bench.stripe(number) + 4 * KIB;
    (1..4).for_each(|number| bench.write_as(at(number), 4 * KIB, number as u8));
    bench.disks[DATA + 1].set_failed(true);
    // The first that notices still takes the log drive that is left.
    bench.write_as(at(7), 4 * KIB, 7);
    assert_eq!(bench.store.lost(), [DATA + 1]);
    let before = bench.counter("log_writes");
    bench.write_as(at(8), 4 * KIB, 8);
    bench.write_as(at(2), 4 * KIB, 22);
    assert_eq!((bench.counter("log_writes"), bench.counter("voids")), (before, 1));
    assert_eq!(bench.counter("log_live"), 12 * KIB);
    // As soon as there is time, although requests are under way.
    let busy = bench.store.write(bench.stripe(30), Buf::zeroed(4096), true);
    let work = async { while bench.store.work().await.expect("works") {} };
    let (written, ()) = bench.env.block_on(futures_util::future::join(busy, work));
    written.expect("writes");
    assert_eq!((bench.counter("log_live"), bench.counter("log_used")), (0, 0));
    assert_eq!(bench.counter("migrated_stripes"), 3);
    let [_, log] = bench.spent(|| {
        for (number, byte) in [(1, 1), (2, 22), (3, 3), (7, 7), (8, 8)] {
            assert!(bench.read(at(number), 4 * KIB).iter().all(|own| *own == byte));
        }
    });
    assert_eq!(log, [0; 4]);
}

/// §3.5: a data drive is lost. All writes go to the log, whole stripes too, and stay there while
/// there is room: what is in the array is written the slow way now.
#[test]
fn while_a_data_drive_is_lost_the_log_stands_in_for_it() {
    let bench = Bench::new(16 * KIB, &[]);
    bench.disks[0].set_failed(true);
    bench.write_as(bench.stripe(1), bench.stripe(1), 1);
    assert_eq!(bench.store.lost(), [0]);
    let [data, _] = bench.spent(|| bench.write_as(bench.stripe(1), 40 * bench.stripe(1), 5));
    assert_eq!(data, [0; 4]);
    assert!(bench.counter("surrogate_writes") > 0);
    assert!(!bench.work(), "nothing is destaged");
    assert!(bench.read(bench.stripe(1), 40 * bench.stripe(1)).iter().all(|byte| *byte == 5));
}

/// While the gaps of a stripe are read and logged, somebody writes one of them: what was read must
/// not be taken for newer.
#[test]
fn a_write_into_a_gap_that_is_being_filled_stays() {
    for seed in 0..12 {
        let bench = Bench::in_world(VirtEnv::new(seed), 64 * KIB, &[]);
        let first = bench.stripe(10);
        (0..3).for_each(|at| bench.write_as(first + at * 64 * KIB, 60 * KIB, 1));
        let gap = first + 60 * KIB;
        let write = async {
            bench.env.sleep_until(bench.env.now() + Nanos::from_micros(seed * 30)).await;
            bench.store.write(gap, Buf::from_slice(&[2; 4096]), false).await.expect("writes");
        };
        let work = async { while bench.store.work().await.expect("works") {} };
        bench.env.block_on(futures_util::future::join(work, write));
        let filled = bench.counter("filled_bytes");
        assert!(filled >= 8 * KIB, "{filled}");
        assert!(bench.read(gap, 4 * KIB).iter().all(|byte| *byte == 2), "seed {seed}");
        while bench.work() {}
        assert!(bench.read(gap, 4 * KIB).iter().all(|byte| *byte == 2), "seed {seed}");
        assert_eq!(bench.counter("log_live"), 0);
    }
}

/// A stripe with gaps is destaged, the power goes at any of its writes, and a data drive with it:
/// neither what was logged nor what lies in the gaps, which nobody was writing, is harmed.
#[test]
fn a_cut_and_a_lost_drive_while_a_stripe_is_destaged_harm_nothing() {
    let bench = Bench::new(16 * KIB, &[]);
    let (first, len) = (bench.stripe(10), bench.stripe(1));
    bench.write_as(first, len, 7);
    // A gap in each chunk, where the others have none: their parity changes.
    let gaps = [0..4, 20..24, 40..44];
    for run in [4..20, 24..40, 44..48] {
        bench.write_as(first + run.start * KIB, (run.end - run.start) * KIB, 1);
    }
    bench.env.block_on(bench.store.flush()).expect("flushes");
    let (mut cuts, mut filled) = (0, 0);
    for case in 0..200 {
        let (limit, lost) = (1 + case / DATA as u64, case as usize % DATA);
        let disks: Vec<Disk> = bench.disks.iter().map(Disk::fork).collect();
        let env = VirtEnv::new(case);
        let store = open(&env, attach(&env, &disks, &[])).expect("opens");
        env.set_write_limit(env.writes_issued() + limit);
        let work = async { while store.work().await.expect("works") {} };
        cuts += u64::from(env.run_until(work, || env.write_limit_reached()).is_none());
        let counters = store.counters();
        filled += counters.iter().find(|(name, _)| *name == "filled_bytes").expect("it has").1;
        env.crash();
        let mut rng = Rng::new(case);
        disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
        let store = open(&env, attach(&env, &disks, &[lost])).expect("opens");
        let read = env.block_on(store.read(first, len)).expect("reads");
        for (at, byte) in read.iter().enumerate() {
            let in_gap = gaps.iter().any(|gap| gap.contains(&(at as u64 / KIB)));
            let expected = if in_gap { 7 } else { 1 };
            assert_eq!(*byte, expected, "byte {at}, cut after {limit} writes, without {lost}");
        }
    }
    assert!(cuts > 20 && filled > 0, "{cuts} cuts, {filled} bytes filled");
}

#[test]
fn it_opens_with_one_log_drive_and_what_is_wrong_is_refused() {
    let bench = Bench::new(16 * KIB, &[]);
    bench.write_as(bench.stripe(1), 8 * KIB, 9);
    bench.env.block_on(bench.store.close()).expect("closes");
    for lost in [DATA, DATA + 1] {
        let disks: Vec<Disk> = bench.disks.iter().map(Disk::fork).collect();
        let store = open(&bench.env, attach(&bench.env, &disks, &[lost, 1])).expect("opens");
        assert_eq!(store.lost(), [1, lost]);
        let read = bench.env.block_on(store.read(bench.stripe(1), 8 * KIB)).expect("reads");
        assert!(read.iter().all(|byte| *byte == 9));
    }
    let both = open(&bench.env, attach(&bench.env, &bench.disks, &[DATA, DATA + 1]));
    assert!(both.is_err());
    let drives = attach(&bench.env, &bench.disks, &[]);
    let refused = |spec: &Spec, drives: &[VirtDrive]| {
        let made = bench.env.block_on(create(&bench.env, drives, spec));
        matches!(made, Err(StoreError::Shape { .. }))
    };
    let spec = Spec::new("tank", DATA);
    assert!(refused(&spec, &drives[..5]));
    assert!(refused(&Spec { parity: 3, ..spec.clone() }, &drives));
    assert!(refused(&Spec { log_bytes: Some(4096), ..spec }, &drives));
}
