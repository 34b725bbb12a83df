//! `alternate`: what single requests cost each replica, and the paper's figure 1 on drives.

use std::fmt::Write as _;

use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::scheme::alternate::{Alternate, Options, Spec, create};
use schemes::{Store, StoreError};

const KIB: u64 = 1 << 10;

struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
    store: Alternate<VirtEnv>,
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
    fn new(spec: &Spec) -> Bench {
        let env = VirtEnv::fifo(1);
        let disk = |at| Disk::new(format!("d{at}"), 24 << 20, 4096, at);
        let disks: Vec<Disk> = (0..2 * spec.drives as u64).map(disk).collect();
        env.block_on(create(&env, &attach(&env, &disks, &[]), spec)).expect("it fits");
        let store = open(&env, attach(&env, &disks, &[])).expect("it opens");
        let bench = Bench { env, disks, store, width: spec.drives };
        // Regions are marked from now on.
        bench.write(0, bench.store.size().min(2 << 20), 0);
        bench.drain();
        bench.next_window();
        bench
    }

    fn write(&self, offset: u64, len: u64, byte: u8) {
        let data = Buf::from_slice(&vec![byte; len as usize]);
        self.env.block_on(self.store.write(offset, data, false)).expect("writes");
    }

    fn read(&self, offset: u64, len: u64) -> Buf {
        self.env.block_on(self.store.read(offset, len)).expect("reads")
    }

    fn flush(&self) {
        self.env.block_on(self.store.flush()).expect("flushes");
    }

    fn work(&self) -> bool {
        self.env.block_on(self.store.work()).expect("works")
    }

    /// Until the window is over, whenever it began.
    fn next_window(&self) {
        self.env.block_on(self.env.sleep_until(self.env.now() + Nanos::from_millis(501)));
    }

    /// Until both have everything.
    fn drain(&self) {
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
    fn spent(&self, act: impl FnOnce()) -> [[u64; 4]; 2] {
        let sums = || {
            let sum = |disks: &[Disk]| {
                disks.iter().map(Disk::counters).fold([0; 4], |sum, c| {
                    let own = [c.reads, c.bytes_read / KIB, c.writes, c.bytes_written / KIB];
                    std::array::from_fn(|at| sum[at] + own[at])
                })
            };
            let (first, second) = self.disks.split_at(self.width);
            [sum(first), sum(second)]
        };
        let before = sums();
        act();
        let after = sums();
        std::array::from_fn(|side| std::array::from_fn(|at| after[side][at] - before[side][at]))
    }

    fn cost(&self, text: &mut String, request: &str, act: impl FnOnce()) {
        let [first, second] = self.spent(act);
        let show = |[r, rk, w, wk]: [u64; 4]| format!("r {r} {rk:>3}K  w {w:>2} {wk:>3}K");
        let _ = writeln!(text, "{request:<24} {}   {}", show(first), show(second));
    }
}

fn spec() -> Spec {
    Spec { cache: 2 << 20, ..Spec::new("tank", 1) }
}

/// Of n bytes, to each replica in its turn: a record of ranges (8K) for the batch, n; before the
/// first of a window a page (4K). Flushed: n + 4K to each log, and a page when it is in place.
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
roles change             r 0   0K  w  0   0K   r 0   0K  w  1   4K
4K in place              r 0   0K  w  0   0K   r 0   0K  w  2  12K
window is not over       r 0   0K  w  0   0K   r 0   0K  w  0   0K
roles change             r 0   0K  w  1   4K   r 0   0K  w  0   0K
4K in place              r 0   0K  w  2  12K   r 0   0K  w  0   0K
read                     r 0   0K  w  0   0K   r 1   4K  w  0   0K
read                     r 1   4K  w  0   0K   r 0   0K  w  0   0K
4K and flush             r 0   0K  w  1   8K   r 0   0K  w  1   8K
flush again              r 0   0K  w  0   0K   r 0   0K  w  0   0K
4K in place              r 0   0K  w  3  16K   r 0   0K  w  0   0K
flush                    r 0   0K  w  0   0K   r 0   0K  w  0   0K
three times 4K           r 0   0K  w  0   0K   r 0   0K  w  0   0K
512 B                    r 0   0K  w  0   0K   r 0   0K  w  0   0K
64K                      r 0   0K  w  0   0K   r 0   0K  w  0   0K
roles change             r 0   0K  w  1   4K   r 0   0K  w  0   0K
all in place             r 1   4K  w  4  80K   r 0   0K  w  0   0K
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
    use io::rng::Rng;
    use io::virt::CutMode;
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
    assert!(refused(&Spec { cache: 64 * KIB, ..spec.clone() }, &[]));
    assert!(!refused(&spec, &[]));
    assert!(open(&env, attach(&env, &disks, &[0, 2])).is_err());
    let big = Spec { cache: 64 << 20, ..spec };
    let made = env.block_on(create(&env, &attach(&env, &disks, &[]), &big));
    assert!(matches!(made, Err(StoreError::Small { .. })));
}
