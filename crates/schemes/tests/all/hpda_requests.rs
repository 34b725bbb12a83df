//! `hpda`: what single requests cost SSDs, parity drive and buffer drive, and what is there when
//! one of them fails.

use std::fmt::Write as _;

use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Nanos};
use schemes::scheme::hpda::{Spec, create, open};
use schemes::scheme::log_mirror::policy::Policy;
use schemes::scheme::log_mirror::{LogMirror, Options};
use schemes::{Store, StoreError};

const KIB: u64 = 1 << 10;
const CHUNK: u64 = 64 * KIB;
const SSDS: usize = 3;
const PARITY: usize = SSDS;
const BUFFER: usize = SSDS + 1;
const STRIPE: u64 = SSDS as u64 * CHUNK;
const PAGE: u64 = 4 * KIB;

struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
    store: LogMirror<VirtEnv>,
}

fn attach(env: &VirtEnv, disks: &[Disk], lost: &[usize]) -> Vec<VirtDrive> {
    let there = disks.iter().enumerate().filter(|(at, _)| !lost.contains(at));
    there.map(|(_, disk)| VirtDrive::attach(env, disk, Latency::SSD)).collect()
}

fn reopen(env: &VirtEnv, disks: &[Disk], lost: &[usize]) -> Result<LogMirror<VirtEnv>, StoreError> {
    let policy = Policy { quiet: Nanos::ZERO, ..Policy::default() };
    let options = Options { policy, ..Options::default() };
    env.block_on(open(env, attach(env, disks, lost), options))
}

impl Bench {
    fn new(lost: &[usize]) -> Bench {
        let env = VirtEnv::fifo(1);
        let sizes = [32u64, 32, 32, 64, 40];
        let disk = |(at, size): (usize, &u64)| Disk::new(format!("d{at}"), size << 20, 4096, 1);
        let disks: Vec<Disk> = sizes.iter().enumerate().map(disk).collect();
        let spec = Spec { chunk: CHUNK, ..Spec::new("tank") };
        env.block_on(create(&env, &attach(&env, &disks, &[]), &spec)).expect("it fits");
        let store = reopen(&env, &disks, lost).expect("it opens");
        let bench = Bench { env, disks, store };
        // The regions are marked from now on, and the log is empty again.
        bench.write(0, STRIPE, 1);
        bench.write(0, PAGE, 1);
        while bench.work() {}
        bench
    }

    fn write(&self, offset: u64, len: u64, byte: u8) {
        let data = Buf::from_slice(&vec![byte; len as usize]);
        self.env.block_on(self.store.write(offset, data, false)).expect("writes");
    }

    fn holds(&self, offset: u64, len: u64, byte: u8) -> bool {
        let read = self.env.block_on(self.store.read(offset, len)).expect("reads");
        read.iter().all(|own| *own == byte)
    }

    fn work(&self) -> bool {
        self.env.block_on(self.store.work()).expect("works")
    }

    fn counter(&self, name: &str) -> u64 {
        let all = self.store.counters();
        all.iter().find(|(own, _)| *own == name).expect("there is such a counter").1
    }

    /// Reads, KiB read, writes, KiB written: of all SSDs, of the parity and of the buffer drive.
    fn sums(&self) -> [[u64; 4]; 3] {
        let sum = |disks: &[Disk]| {
            let each = disks.iter().map(Disk::counters);
            each.fold([0; 4], |sum, c| {
                let own = [c.reads, c.bytes_read / KIB, c.writes, c.bytes_written / KIB];
                std::array::from_fn(|at| sum[at] + own[at])
            })
        };
        [sum(&self.disks[..SSDS]), sum(&self.disks[PARITY..BUFFER]), sum(&self.disks[BUFFER..])]
    }

    fn cost(&self, text: &mut String, request: &str, act: impl FnOnce()) {
        let before = self.sums();
        act();
        let after = self.sums();
        let _ = write!(text, "{request:<20}");
        for (kind, name) in ["SSDs", "parity", "buffer"].iter().enumerate() {
            let [r, rk, w, wk]: [u64; 4] =
                std::array::from_fn(|at| after[kind][at] - before[kind][at]);
            let _ = write!(text, "  {name} r {r} {rk:>3}K w {w} {wk:>3}K");
        }
        text.push('\n');
    }
}

/// With k SSDs, chunks of 64 KiB and n bytes:
///
/// * to the log: a write of n, rounded up to pages, and a page, to parity and buffer drive each;
/// * a whole stripe: a chunk to each SSD and to the parity drive; with a record that voids, a page
///   more to parity and buffer drive;
/// * destage of n bytes within a chunk: they are read from one half of the log; old data from the
///   SSD, old parity from the parity drive; new data there, new parity and its log record (a page
///   longer) here; and an anchor of a page for both halves when the tail moves;
/// * without parity drive or buffer drive nothing is logged; without the former there is no parity.
#[test]
fn requests_cost_what_the_formulas_say() {
    let bench = Bench::new(&[]);
    let mut text = String::new();
    let mut write = |name: &str, offset, len| {
        bench.cost(&mut text, name, || bench.write(offset, len, 2));
    };
    write("4K", STRIPE, PAGE);
    write("512 B, not logged", 2 * STRIPE + 512, 512);
    write("512 B, logged", 2 * STRIPE + 1024, 512);
    write("chunk", 3 * STRIPE, CHUNK);
    write("stripe", 4 * STRIPE, STRIPE);
    write("stripe, logged", 3 * STRIPE, STRIPE);
    let mut work = |name: &str| {
        bench.cost(&mut text, name, || assert!(bench.work()));
    };
    work("destage 4K");
    work("destage 4K, tail");
    assert!(!bench.work());
    (0..3).for_each(|at| bench.write(9 * STRIPE + at * CHUNK, CHUNK, 2));
    bench.cost(&mut text, "destage stripe, tail", || assert!(bench.work()));
    bench.cost(&mut text, "read", || assert!(bench.holds(9 * STRIPE, PAGE, 2)));

    for (name, lost) in [("without an SSD", 0), ("without parity", PARITY), ("no buffer", BUFFER)] {
        let bench = Bench::new(&[lost]);
        bench.cost(&mut text, &format!("{name}: 4K"), || bench.write(STRIPE, PAGE, 2));
    }
    assert_eq!(text, GOLDEN, "\n{text}");
}

const GOLDEN: &str = "\
4K                    SSDs r 0   0K w 0   0K  parity r 0   0K w 1   8K  buffer r 0   0K w 1   8K
512 B, not logged     SSDs r 1   4K w 0   0K  parity r 0   0K w 1   8K  buffer r 0   0K w 1   8K
512 B, logged         SSDs r 0   0K w 0   0K  parity r 1   4K w 1   8K  buffer r 0   0K w 1   8K
chunk                 SSDs r 0   0K w 0   0K  parity r 0   0K w 1  68K  buffer r 0   0K w 1  68K
stripe                SSDs r 0   0K w 3 192K  parity r 0   0K w 2  68K  buffer r 0   0K w 0   0K
stripe, logged        SSDs r 0   0K w 9 216K  parity r 0   0K w 4  76K  buffer r 0   0K w 2   8K
destage 4K            SSDs r 1   4K w 3  12K  parity r 1   4K w 2  12K  buffer r 1   4K w 0   0K
destage 4K, tail      SSDs r 1   4K w 3  12K  parity r 2   8K w 4  20K  buffer r 0   0K w 2   8K
destage stripe, tail  SSDs r 0   0K w 5 200K  parity r 2 124K w 4  76K  buffer r 2  68K w 2   8K
read                  SSDs r 1   4K w 0   0K  parity r 0   0K w 0   0K  buffer r 0   0K w 0   0K
without an SSD: 4K    SSDs r 0   0K w 0   0K  parity r 0   0K w 1   8K  buffer r 0   0K w 1   8K
without parity: 4K    SSDs r 0   0K w 1   4K  parity r 0   0K w 0   0K  buffer r 0   0K w 0   0K
no buffer: 4K         SSDs r 1   4K w 1   4K  parity r 1   4K w 2  12K  buffer r 0   0K w 0   0K
";

/// The parity drive fails, and with it half of the log. What is logged is migrated at once; from
/// then on nothing depends on the buffer drive.
#[test]
fn when_the_parity_drive_fails_the_log_is_migrated() {
    let bench = Bench::new(&[]);
    (1..4).for_each(|at| bench.write(at * STRIPE + PAGE, PAGE, at as u8));
    bench.disks[PARITY].set_failed(true);
    bench.write(7 * STRIPE, PAGE, 7);
    assert_eq!((bench.store.lost(), bench.store.margin()), (vec![PARITY], 0));
    let before = bench.counter("log_writes");
    bench.write(8 * STRIPE, PAGE, 8);
    assert_eq!(bench.counter("log_writes"), before, "in place, while the log has one copy");
    while bench.work() {}
    assert_eq!((bench.counter("log_live"), bench.counter("migrated_stripes")), (0, 4));
    bench.disks[BUFFER].set_failed(true);
    assert!((1..4).all(|at| bench.holds(at * STRIPE + PAGE, PAGE, at as u8)));
    assert!(bench.holds(7 * STRIPE, PAGE, 7) && bench.holds(8 * STRIPE, PAGE, 8));
    bench.write(2 * STRIPE, STRIPE, 9);
    bench.env.block_on(bench.store.flush()).expect("flushes");
    assert!(bench.holds(2 * STRIPE, STRIPE, 9));
    assert_eq!(bench.store.lost(), [PARITY], "nobody has asked the buffer drive since");
}

/// The buffer drive fails and an SSD with it: the log has its other half, the SSD its parity.
#[test]
fn the_buffer_drive_and_an_ssd_can_be_done_without() {
    for migrated in [false, true] {
        let bench = Bench::new(&[]);
        (1..4).for_each(|at| bench.write(at * STRIPE + at * CHUNK / 2, CHUNK, at as u8));
        bench.env.block_on(bench.store.flush()).expect("flushes");
        if migrated {
            bench.disks[BUFFER].set_failed(true);
            bench.write(9 * STRIPE, PAGE, 9);
            while bench.work() {}
            assert_eq!(bench.counter("log_live"), 0);
        }
        bench.env.crash();
        for ssd in 0..SSDS {
            let disks: Vec<Disk> = bench.disks.iter().map(Disk::fork).collect();
            let env = VirtEnv::new(1);
            let store = reopen(&env, &disks, &[ssd, BUFFER]).expect("opens");
            assert_eq!(store.lost(), [ssd, BUFFER]);
            for at in 1..4 {
                let read = env.block_on(store.read(at * STRIPE + at * CHUNK / 2, CHUNK));
                assert!(read.expect("reads").iter().all(|byte| u64::from(*byte) == at));
            }
        }
    }
}

#[test]
fn what_can_not_be_is_refused() {
    let bench = Bench::new(&[]);
    bench.env.block_on(bench.store.close()).expect("closes");
    for lost in [[PARITY, BUFFER], [PARITY, 0], [0, 1]] {
        let disks: Vec<Disk> = bench.disks.iter().map(Disk::fork).collect();
        assert!(reopen(&bench.env, &disks, &lost).is_err(), "without {lost:?}");
    }
    let drives = attach(&bench.env, &bench.disks, &[]);
    let refused = |spec: &Spec, drives: &[VirtDrive]| {
        let made = bench.env.block_on(create(&bench.env, drives, spec));
        matches!(made, Err(StoreError::Shape { .. }))
    };
    let spec = Spec::new("tank");
    assert!(refused(&spec, &drives[..3]));
    assert!(refused(&Spec { side: Some(31 << 20), ..spec.clone() }, &drives), "more than an SSD");
    assert!(refused(&Spec { log_bytes: Some(4096), ..spec }, &drives));
}
