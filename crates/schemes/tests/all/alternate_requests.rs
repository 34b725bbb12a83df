//! `alternate`: what single requests cost each replica, and the paper's figure 1 on drives.

use std::fmt::Write as _;

use io::rng::{Rng, mix};
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::scheme::alternate::{Alternate, FlushLog, Options, Spec, create};
use schemes::{Store, StoreError};

pub const KIB: u64 = 1 << 10;
pub const DRIVE: u64 = 24 << 20;

pub struct Bench {
    env: VirtEnv,
    pub disks: Vec<Disk>,
    pub store: Alternate<VirtEnv>,
    width: usize,
}

fn attach(env: &VirtEnv, disks: &[Disk], lost: &[usize]) -> Vec<VirtDrive> {
    let there = disks.iter().enumerate().filter(|(at, _)| !lost.contains(at));
    there.map(|(_, disk)| VirtDrive::attach(env, disk, Latency::SSD)).collect()
}

fn open(env: &VirtEnv, drives: Vec<VirtDrive>) -> Result<Alternate<VirtEnv>, StoreError> {
    env.block_on(Alternate::open(env, drives, Options::default()))
}

impl Bench {
    pub fn new(spec: &Spec) -> Bench {
        let env = VirtEnv::fifo(1);
        let disk = |at| Disk::new(format!("d{at}"), DRIVE, 4096, at);
        let count = (spec.replicas * spec.drives) as u64;
        let disks: Vec<Disk> = (0..count).map(disk).collect();
        env.block_on(create(&env, &attach(&env, &disks, &[]), spec)).expect("it fits");
        let store = open(&env, attach(&env, &disks, &[])).expect("it opens");
        let bench = Bench { env, disks, store, width: spec.drives };
        // Regions are marked from now on.
        bench.write(0, bench.store.size().min(2 << 20), 0);
        bench.drain();
        bench.next_window();
        bench
    }

    pub fn write(&self, offset: u64, len: u64, byte: u8) {
        let data = Buf::from_slice(&vec![byte; len as usize]);
        self.env.block_on(self.store.write(offset, data, false)).expect("writes");
    }

    fn read(&self, offset: u64, len: u64) -> Buf {
        self.env.block_on(self.store.read(offset, len)).expect("reads")
    }

    pub fn flush(&self) {
        self.env.block_on(self.store.flush()).expect("flushes");
    }

    pub fn work(&self) -> bool {
        self.env.block_on(self.store.work()).expect("works")
    }

    /// Until the window is over, whenever it began.
    fn next_window(&self) {
        self.env.block_on(self.env.sleep_until(self.env.now() + Nanos::from_millis(501)));
    }

    /// Until both have everything.
    pub fn drain(&self) {
        for _ in 0..3 {
            while self.work() {}
            self.next_window();
        }
    }

    fn counter(&self, name: &str) -> u64 {
        let all = self.store.counters();
        all.iter().find(|(own, _)| *own == name).expect("there is such a counter").1
    }

    /// Reads, KiB read, writes, KiB written, of each replica.
    fn spent(&self, act: impl FnOnce()) -> Vec<[u64; 4]> {
        let sum = |disks: &[Disk]| {
            disks.iter().map(Disk::counters).fold([0; 4], |sum, c| {
                let own = [c.reads, c.bytes_read / KIB, c.writes, c.bytes_written / KIB];
                std::array::from_fn(|at| sum[at] + own[at])
            })
        };
        let sums = || self.disks.chunks(self.width).map(sum).collect::<Vec<[u64; 4]>>();
        let before = sums();
        act();
        let both = sums().into_iter().zip(before);
        let spent = both.map(|(after, before)| std::array::from_fn(|at| after[at] - before[at]));
        spent.collect()
    }

    fn cost(&self, text: &mut String, request: &str, act: impl FnOnce()) {
        let spent = self.spent(act);
        let show = |[r, rk, w, wk]: &[u64; 4]| format!("r {r} {rk:>3}K  w {w:>2} {wk:>3}K");
        let all: Vec<String> = spent.iter().map(show).collect();
        let _ = writeln!(text, "{request:<24} {}", all.join("   "));
    }

    /// The machine stops, and the pool is opened with drives that are not lost.
    pub fn reopen(&mut self, lost: &[usize]) -> Result<(), StoreError> {
        self.env.crash();
        self.disks.iter().for_each(|disk| disk.power_cut(&mut Rng::new(1), CutMode::DropAll));
        self.store = open(&self.env, attach(&self.env, &self.disks, lost))?;
        Ok(())
    }

    pub fn replace(&self, place: usize, disk: &Disk) -> Result<(), StoreError> {
        let drive = VirtDrive::attach(&self.env, disk, Latency::SSD);
        self.env.block_on(self.store.replace(place, drive))
    }

    pub fn filled_with(&self, offset: u64, byte: u8) {
        let read = self.read(offset, 4 * KIB);
        assert!(read.iter().all(|own| *own == byte), "{} at {offset}, not {byte}", read[0]);
    }
}

pub fn spec() -> Spec {
    Spec { cache: 2 << 20, ..Spec::new("tank", 1) }
}

/// Of n bytes, to each replica in its turn: a record of ranges (4K) for the batch, n; before the
/// first of a window a page (4K). Flushed: n + 4K to each log, and a record of 4K when it is in
/// place. Of a part of a page all of it is read and logged first (8K, and a page of checksums).
#[test]
fn requests_cost_what_the_formulas_say() {
    let bench = Bench::new(&spec());
    let mut text = String::new();
    let mut cost = |name: &str, act: &dyn Fn()| bench.cost(&mut text, name, act);
    cost("4K", &|| bench.write(0, 4 * KIB, 1));
    cost("read, cached", &|| drop(bench.read(0, 4 * KIB)));
    cost("read, half cached", &|| drop(bench.read(0, 8 * KIB)));
    cost("roles change", &|| assert!(bench.work()));
    cost("4K in place", &|| assert!(bench.work()));
    cost("window is not over", &|| assert!(!bench.work()));
    bench.next_window();
    cost("roles change", &|| assert!(bench.work()));
    cost("4K in place", &|| assert!(bench.work()));
    assert!(!bench.work());
    cost("read", &|| drop(bench.read(0, 4 * KIB)));
    cost("read", &|| drop(bench.read(0, 4 * KIB)));
    cost("4K and flush", &|| (bench.write(0, 4 * KIB, 2), bench.flush()).1);
    cost("flush again", &|| bench.flush());
    cost("4K in place", &|| assert!(bench.work()));
    cost("flush", &|| bench.flush());
    bench.drain();
    cost("three times 4K", &|| (0..3).for_each(|byte| bench.write(0, 4 * KIB, byte)));
    cost("512 B", &|| bench.write(64 * KIB + 512, 512, 7));
    cost("64K", &|| bench.write(128 * KIB, 64 * KIB, 7));
    cost("roles change", &|| assert!(bench.work()));
    cost("all in place", &|| assert!(bench.work()));
    assert_eq!(text, GOLDEN, "\n{text}");
    assert_eq!(bench.counter("skipped_bytes"), 8 * KIB);
}

const GOLDEN: &str = "\
4K                       r 0   0K  w  0   0K   r 0   0K  w  0   0K
read, cached             r 0   0K  w  0   0K   r 0   0K  w  0   0K
read, half cached        r 0   0K  w  0   0K   r 1   4K  w  0   0K
roles change             r 0   0K  w  0   0K   r 0   0K  w  2   8K
4K in place              r 0   0K  w  0   0K   r 0   0K  w  4  16K
window is not over       r 0   0K  w  0   0K   r 0   0K  w  0   0K
roles change             r 0   0K  w  2   8K   r 0   0K  w  0   0K
4K in place              r 0   0K  w  4  16K   r 0   0K  w  0   0K
read                     r 0   0K  w  0   0K   r 1   4K  w  0   0K
read                     r 1   4K  w  0   0K   r 0   0K  w  0   0K
4K and flush             r 0   0K  w  2  12K   r 0   0K  w  2  12K
flush again              r 0   0K  w  0   0K   r 0   0K  w  0   0K
4K in place              r 0   0K  w  6  24K   r 0   0K  w  0   0K
flush                    r 0   0K  w  0   0K   r 0   0K  w  0   0K
three times 4K           r 0   0K  w  0   0K   r 0   0K  w  0   0K
512 B                    r 0   0K  w  0   0K   r 0   0K  w  0   0K
64K                      r 0   0K  w  0   0K   r 0   0K  w  0   0K
roles change             r 0   0K  w  2   8K   r 0   0K  w  0   0K
all in place             r 2   8K  w  8  96K   r 0   0K  w  0   0K
";

/// Each of the two drives is either reading or writing; while the first reads, the second performs
/// the writes of the period before.
#[test]
fn figure_1_reads_never_meet_writes() {
    let bench = Bench::new(&spec());
    let quiet = |of: [u64; 4], what: usize| assert_eq!(of[what], 0);
    for window in 0..6u8 {
        // New writes, and reads of what is not cached, beside the work of a window.
        (0..8).for_each(|at| bench.write(at * 8 * KIB, 4 * KIB, window + 1));
        assert!(bench.work(), "the roles change");
        let spent = bench.spent(|| {
            while bench.work() {
                drop(bench.read(1 << 20, 4 * KIB));
            }
            drop(bench.read(1 << 20, 4 * KIB));
        });
        let writer = usize::from(spent[1][2] > 0);
        quiet(spent[1 - writer], 2);
        quiet(spent[writer], 0);
        assert!(spent[1 - writer][0] > 0 && spent[writer][2] > 0);
        bench.next_window();
    }
    assert_eq!(bench.counter("second_reads"), 0);
    bench.drain();
    assert_eq!(bench.counter("cached_bytes"), 0);
}

/// "At any point in time, the union of the cache with any of the two drives contains exactly the
/// same data. Hence, if one drive fails, no data is lost."
#[test]
fn either_drive_and_the_cache_are_all_data() {
    for lost in 0..2 {
        let bench = Bench::new(&spec());
        bench.write(0, 16 * KIB, 1);
        bench.drain();
        bench.write(4 * KIB, 4 * KIB, 2);
        while bench.work() {}
        bench.write(8 * KIB, 4 * KIB, 3);
        let wrong = bench.env.block_on(bench.store.audit(0, 1 << 20));
        assert_eq!(wrong, Vec::<String>::new());
        bench.disks[lost].set_failed(true);
        bench.flush();
        let right = |read: Buf| {
            let expected = [1, 2, 3, 1];
            read.chunks(4096).zip(expected).all(|(page, byte)| page.iter().all(|own| *own == byte))
        };
        assert!(right(bench.read(0, 16 * KIB)));
        assert_eq!((bench.store.lost(), bench.store.margin()), (vec![lost], 0));
        // Without a clean end, and with the lost one back: it is stale.
        bench.env.crash();
        bench.disks[lost].set_failed(false);
        let store = open(&bench.env, attach(&bench.env, &bench.disks, &[])).expect("it opens");
        assert_eq!(store.lost(), [lost]);
        assert!(right(bench.env.block_on(store.read(0, 16 * KIB)).expect("reads")));
    }
}

/// Two writes to one place, the first flushed, so that the log has it. Both are brought to their
/// place, and somewhere in the middle of that the second is flushed. When that has returned and the
/// power fails, the log must not bring back the first: a flush that came between data that was in
/// place and the page that says so counted on a page that was not there yet.
#[test]
fn a_flush_beside_a_batch_is_not_undone_by_the_log() {
    for delay in (0..500).map(|at| Nanos::from_micros(5 * at)) {
        let bench = Bench::new(&spec());
        // Of two, the other would still be logging when the page is there.
        bench.disks[1].set_failed(true);
        bench.write(0, 4 * KIB, 1);
        bench.flush();
        bench.write(0, 4 * KIB, 2);
        let flushed = std::cell::Cell::new(false);
        let late = async {
            bench.env.sleep_until(bench.env.now() + delay).await;
            bench.store.flush().await.expect("flushes");
            flushed.set(true);
        };
        let work = async { while bench.store.work().await.expect("works") {} };
        let both = futures_util::future::join(late, work);
        let _ = bench.env.run_until(both, || flushed.get());
        assert!(flushed.get());
        bench.env.crash();
        bench.disks.iter().for_each(|disk| disk.power_cut(&mut Rng::new(1), CutMode::DropAll));
        let store = open(&bench.env, attach(&bench.env, &bench.disks, &[1])).expect("it opens");
        let read = bench.env.block_on(store.read(0, 4 * KIB)).expect("reads");
        assert_eq!(read[0], 2, "flushed after {delay}");
    }
}

/// As for two; a read may come from either of those that do not write.
#[test]
fn three_replicas_cost_what_two_do_and_one_more() {
    let bench = Bench::new(&Spec { replicas: 3, ..spec() });
    let mut text = String::new();
    let mut cost = |name: &str, act: &dyn Fn()| bench.cost(&mut text, name, act);
    cost("4K", &|| bench.write(0, 4 * KIB, 1));
    for _ in 0..3 {
        cost("roles change", &|| assert!(bench.work()));
        cost("4K in place", &|| assert!(bench.work()));
        bench.next_window();
    }
    assert!(!bench.work());
    cost("4K and flush", &|| (bench.write(0, 4 * KIB, 2), bench.flush()).1);
    cost("two reads", &|| (0..2).for_each(|_| drop(bench.read(8 * KIB, 4 * KIB))));
    assert_eq!(text, GOLDEN_OF_THREE, "\n{text}");
}

const GOLDEN_OF_THREE: &str = "\
4K                       r 0   0K  w  0   0K   r 0   0K  w  0   0K   r 0   0K  w  0   0K
roles change             r 0   0K  w  2   8K   r 0   0K  w  0   0K   r 0   0K  w  0   0K
4K in place              r 0   0K  w  4  16K   r 0   0K  w  0   0K   r 0   0K  w  0   0K
roles change             r 0   0K  w  0   0K   r 0   0K  w  2   8K   r 0   0K  w  0   0K
4K in place              r 0   0K  w  0   0K   r 0   0K  w  4  16K   r 0   0K  w  0   0K
roles change             r 0   0K  w  0   0K   r 0   0K  w  0   0K   r 0   0K  w  2   8K
4K in place              r 0   0K  w  0   0K   r 0   0K  w  0   0K   r 0   0K  w  4  16K
4K and flush             r 0   0K  w  2  12K   r 0   0K  w  2  12K   r 0   0K  w  2  12K
two reads                r 1   4K  w  0   0K   r 1   4K  w  0   0K   r 0   0K  w  0   0K
";

/// One log: a flush writes to the replica that writes, and to nothing else; with the first of a
/// window a page says that it leads.
#[test]
fn with_one_log_a_flush_leaves_those_that_read_alone() {
    let bench = Bench::new(&Spec { flush_log: FlushLog::Writer, ..spec() });
    let mut text = String::new();
    let mut cost = |name: &str, act: &dyn Fn()| bench.cost(&mut text, name, act);
    let write_and_flush = |byte| (bench.write(0, 4 * KIB, byte), bench.flush()).1;
    for _ in 0..2 {
        cost("4K", &|| bench.write(0, 4 * KIB, 1));
        cost("roles change", &|| assert!(bench.work()));
        cost("4K and flush", &|| write_and_flush(2));
        cost("4K and flush", &|| write_and_flush(3));
        cost("flush again", &|| bench.flush());
        cost("in place", &|| assert!(bench.work()));
        cost("flush again", &|| bench.flush());
        bench.drain();
    }
    assert_eq!(text, GOLDEN_OF_ONE_LOG, "\n{text}");
}

const GOLDEN_OF_ONE_LOG: &str = "\
4K                       r 0   0K  w  0   0K   r 0   0K  w  0   0K
roles change             r 0   0K  w  2   8K   r 0   0K  w  0   0K
4K and flush             r 0   0K  w  6  32K   r 0   0K  w  0   0K
4K and flush             r 0   0K  w  2  12K   r 0   0K  w  0   0K
flush again              r 0   0K  w  0   0K   r 0   0K  w  0   0K
in place                 r 0   0K  w  6  24K   r 0   0K  w  0   0K
flush again              r 0   0K  w  0   0K   r 0   0K  w  0   0K
4K                       r 0   0K  w  0   0K   r 0   0K  w  0   0K
roles change             r 0   0K  w  2   8K   r 0   0K  w  0   0K
4K and flush             r 0   0K  w  5  24K   r 0   0K  w  0   0K
4K and flush             r 0   0K  w  2  12K   r 0   0K  w  0   0K
flush again              r 0   0K  w  0   0K   r 0   0K  w  0   0K
in place                 r 0   0K  w  5  20K   r 0   0K  w  0   0K
flush again              r 0   0K  w  0   0K   r 0   0K  w  0   0K
";

/// What is given up: with the drive that has the log, and the power, what was flushed. Its loss
/// alone takes nothing away, nor does the power after it.
#[test]
fn with_one_log_power_and_a_drive_are_too_much() {
    for (late, left) in [(false, 1), (true, 2)] {
        let mut bench = Bench::new(&Spec { flush_log: FlushLog::Writer, ..spec() });
        bench.write(0, 4 * KIB, 1);
        bench.flush();
        bench.drain();
        let spent = bench.spent(|| (bench.write(0, 4 * KIB, 2), bench.flush()).1);
        let writer = usize::from(spent[1][2] > 0);
        if late {
            bench.disks[writer].set_failed(true);
            // Whoever writes notices; who is left has it before it says so.
            bench.next_window();
            while bench.work() {}
            bench.filled_with(0, 2);
        }
        bench.reopen(&[writer]).expect("it opens");
        bench.filled_with(0, left);
    }
}

/// A replica that wrote many pages is unplugged with the power; the pool goes on without it; then
/// it is there again. Its pages have higher sequences than those of the other, and were believed
/// once: what was flushed meanwhile was gone.
#[test]
fn who_was_away_when_the_pool_went_on_is_stale() {
    for away in 0..2 {
        let mut bench = Bench::new(&spec());
        for round in 0..12 {
            bench.write(0, 4 * KIB, round);
            bench.flush();
            assert!(bench.work());
        }
        bench.reopen(&[away]).expect("it opens");
        bench.write(0, 4 * KIB, 99);
        bench.flush();
        bench.reopen(&[]).expect("it opens");
        assert_eq!(bench.store.lost(), [away]);
        bench.filled_with(0, 99);
    }
}

#[test]
fn replicas_that_went_on_without_each_other_are_not_mixed() {
    let mut bench = Bench::new(&spec());
    bench.reopen(&[0]).expect("it opens");
    bench.reopen(&[1]).expect("it opens");
    let refused = bench.reopen(&[]).map_err(|error| error.to_string());
    assert!(refused.is_err_and(|error| error.contains("went on without the other")));
}

/// A drive that is back is filled beside requests: it takes its turns to write, is not read, and
/// counts as lost until all of it is there; then the other one may go.
#[test]
fn a_drive_that_is_back_is_filled_and_only_then_read() {
    for same in [true, false] {
        let mut bench = Bench::new(&spec());
        bench.write(0, 4 * KIB, 1);
        bench.drain();
        bench.disks[0].set_failed(true);
        bench.write(8 * KIB, 4 * KIB, 2);
        bench.flush();
        assert_eq!(bench.store.lost(), [0]);
        assert!(bench.replace(0, &bench.disks[0]).is_err(), "it does not answer");
        bench.disks[0].set_failed(false);
        if !same {
            bench.disks[0] = Disk::new("new", 24 << 20, 4096, 77);
        }
        assert!(bench.replace(1, &bench.disks[0]).is_err(), "nothing is lost there");
        bench.replace(0, &bench.disks[0]).expect("it can");
        assert!(bench.replace(0, &bench.disks[0]).is_err(), "it is being filled");
        let spent = bench.spent(|| {
            for round in 0.. {
                if bench.store.lost().is_empty() {
                    break;
                }
                assert_eq!((bench.store.lost(), bench.store.margin()), (vec![0], 0));
                bench.write(16 * KIB, 4 * KIB, round);
                bench.filled_with(0, 1);
                bench.filled_with(16 * KIB, round);
                assert!(bench.work() || round < 250);
                bench.next_window();
            }
        });
        // Labels of an array and what opening it reads.
        assert!(spent[0][1] < 4096, "the new one is hardly read: {spent:?}");
        let all = spent[0][3] > bench.store.size() / KIB;
        assert_eq!((all, bench.counter("fills")), (!same, 1), "the same one missed little");
        bench.flush();
        bench.reopen(&[1]).expect("the new one has all");
        bench.filled_with(0, 1);
        bench.filled_with(8 * KIB, 2);
    }
}

/// Pages far apart, what was flushed last of each, and what was written since.
struct Pages(Vec<Vec<u8>>);

impl Pages {
    const APART: u64 = 160 * KIB;

    /// Something happens.
    fn step(&mut self, bench: &Bench, rng: &mut Rng) {
        match rng.below(8) {
            0..4 => {
                let page = rng.index(self.0.len());
                let newest = self.0[page].last().expect("it holds something").wrapping_add(1);
                self.0[page].push(newest);
                bench.write(page as u64 * Pages::APART, 4 * KIB, newest);
            }
            4 => {
                bench.flush();
                self.0.iter_mut().for_each(|page| drop(page.drain(..page.len() - 1)));
            }
            5..7 => drop(bench.work()),
            _ => bench.next_window(),
        }
    }

    fn check(&self, bench: &Bench) {
        for (at, may_be) in self.0.iter().enumerate() {
            let read = bench.read(at as u64 * Pages::APART, 4 * KIB);
            let same = read.iter().all(|byte| *byte == read[0]);
            assert!(same && may_be.contains(&read[0]), "{} in {at}, not {may_be:?}", read[0]);
        }
    }
}

/// Writes, flushes and windows while a replica is filled, pieces older and newer than batches; then
/// a crash, after which the replicas must agree, or the filled one alone.
#[test]
fn what_is_written_while_a_replica_is_filled_is_there() {
    for seed in 0..24 {
        let mut rng = Rng::new(mix(seed));
        let mut bench = Bench::new(&spec());
        let count = bench.store.size() / Pages::APART;
        (0..count).for_each(|at| bench.write(at * Pages::APART, 4 * KIB, 0));
        bench.flush();
        bench.reopen(&[0]).expect("it opens");
        bench.replace(0, &bench.disks[0]).expect("it can");
        let mut pages = Pages(vec![vec![0]; count as usize]);
        while bench.counter("fills") == 0 {
            pages.step(&bench, &mut rng);
            if rng.chance(1, 16) {
                pages.check(&bench);
            }
        }
        (0..rng.below(4)).for_each(|_| pages.step(&bench, &mut rng));
        let lost: &[usize] = if rng.chance(1, 2) { &[1] } else { &[] };
        bench.reopen(lost).expect("it opens");
        pages.check(&bench);
        let wrong = bench.env.block_on(bench.store.audit(0, bench.store.size()));
        assert_eq!(wrong, Vec::<String>::new(), "seed {seed}");
    }
}

/// A crash while a replica is filled: it is filled again without being told to.
#[test]
fn a_crash_begins_filling_again() {
    let mut bench = Bench::new(&spec());
    bench.reopen(&[1]).expect("it opens");
    bench.write(0, 4 * KIB, 1);
    bench.flush();
    bench.replace(1, &bench.disks[1]).expect("it can");
    for _ in 0..9 {
        bench.next_window();
        assert!(bench.work());
    }
    assert!(bench.store.filled().is_some_and(|at| at > 0));
    bench.reopen(&[]).expect("it opens");
    assert_eq!((bench.store.lost(), bench.store.filled()), (vec![1], Some(0)));
    bench.filled_with(0, 1);
    // Without it nothing is lost, and what it has of it is not taken for more.
    assert!(bench.reopen(&[0]).is_err());
    bench.reopen(&[]).expect("it opens");
    bench.drain();
    assert_eq!(bench.store.lost(), []);
    bench.reopen(&[0]).expect("the filled one has all");
    bench.filled_with(0, 1);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let env = VirtEnv::fifo(1);
    let disks: Vec<Disk> =
        (0..4).map(|at| Disk::new(format!("d{at}"), 24 << 20, 512, at)).collect();
    let refused = |spec: &Spec, lost: &[usize]| {
        let made = env.block_on(create(&env, &attach(&env, &disks, lost), spec));
        matches!(made, Err(StoreError::Shape { .. }))
    };
    let spec = Spec { drives: 2, ..spec() };
    assert!(refused(&spec, &[3]));
    assert!(refused(&Spec { parity: 3, ..spec.clone() }, &[]));
    assert!(refused(&Spec { replicas: 1, drives: 4, ..spec.clone() }, &[]));
    assert!(refused(&Spec { replicas: 5, drives: 1, ..spec.clone() }, &[]));
    assert!(refused(&Spec { cache: 64 * KIB, ..spec.clone() }, &[]));
    assert!(!refused(&spec, &[]));
    assert!(open(&env, attach(&env, &disks, &[0, 2])).is_err());
    let big = Spec { cache: 64 << 20, ..spec };
    let made = env.block_on(create(&env, &attach(&env, &disks, &[]), &big));
    assert!(matches!(made, Err(StoreError::Small { .. })));
}
