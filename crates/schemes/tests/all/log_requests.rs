//! What single requests to `mirror-log` and `log-raid` cost, exactly. The tables are derived by
//! hand from the formulas in the schemes' headers; a change here is a change of what it costs.

use std::fmt::Write as _;

use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, join_all};
use schemes::scheme::OpenOptions;
use schemes::scheme::log_raid::{self, LogRaid};
use schemes::scheme::mirror_log::{self, MirrorLog};
use schemes::{Store, StoreError};

const KIB: u64 = 1 << 10;
const CHUNK: u64 = 16 * KIB;
const SEGMENT: u64 = 256 * KIB;
const LARGE: u64 = 40 << 20;
/// Full after some hundred blocks.
const SMALL: u64 = 5 << 20;

struct Bench<S> {
    env: VirtEnv,
    disks: Vec<Disk>,
    store: S,
    text: String,
}

fn drives(env: &VirtEnv, disks: &[Disk]) -> Vec<VirtDrive> {
    disks.iter().map(|disk| VirtDrive::attach(env, disk, Latency::SSD)).collect()
}

fn disks(count: u64, size: u64) -> Vec<Disk> {
    (0..count).map(|at| Disk::new(format!("d{at}"), size, 4096, at)).collect()
}

fn mirror_log(width: u64, drive: u64, segment: u64) -> Bench<MirrorLog<VirtEnv>> {
    let (env, disks) = (VirtEnv::fifo(1), disks(width, drive));
    let (name, width) = ("tank".to_owned(), width as usize);
    let spec =
        mirror_log::Spec { name, width, chunk: CHUNK, segment: Some(segment), checksums: true };
    env.block_on(mirror_log::create(&env, &drives(&env, &disks), &spec)).expect("it fits");
    let store = env.block_on(MirrorLog::open(&env, drives(&env, &disks))).expect("it opens");
    Bench { env, disks, store, text: String::new() }
}

fn log_raid() -> Bench<LogRaid<VirtEnv>> {
    let (env, disks) = (VirtEnv::fifo(1), disks(6, LARGE));
    let name = "tank".to_owned();
    let spec =
        log_raid::Spec { name, width: 3, chunk: CHUNK, segment: Some(SEGMENT), checksums: true };
    env.block_on(log_raid::create(&env, &drives(&env, &disks), &spec)).expect("it fits");
    let opened = LogRaid::open(&env, drives(&env, &disks), OpenOptions::default());
    let store = env.block_on(opened).expect("it opens");
    // Nothing is owed since the making.
    while env.block_on(store.work()).expect("works") {}
    Bench { env, disks, store, text: String::new() }
}

impl<S: Store> Bench<S> {
    fn write(&self, offset: u64, len: u64, fua: bool) {
        let data = Buf::zeroed(len as usize);
        self.env.block_on(self.store.write(offset, data, fua)).expect("writes");
    }

    fn read(&self, offset: u64, len: u64) {
        self.env.block_on(self.store.read(offset, len)).expect("reads");
    }

    fn flush(&self) {
        self.env.block_on(self.store.flush()).expect("flushes");
    }

    /// Reads and writes of all drives for a request, and their bytes in KiB.
    fn cost(&mut self, request: &str, act: impl FnOnce(&Bench<S>)) {
        let sum = |disks: &[Disk]| {
            disks.iter().map(Disk::counters).fold([0; 5], |sum, c| {
                let own = [c.reads, c.bytes_read, c.writes, c.bytes_written, c.flushes];
                std::array::from_fn(|at| sum[at] + own[at])
            })
        };
        let before = sum(&self.disks);
        act(self);
        let after = sum(&self.disks);
        let [reads, read, writes, written, flushes]: [u64; 5] =
            std::array::from_fn(|at| after[at] - before[at]);
        let (read, written) = (read / KIB, written / KIB);
        let _ = writeln!(
            self.text,
            "{request:<30} reads {reads:>2} {read:>3}K  writes {writes:>2} {written:>3}K  \
             flushes {flushes}"
        );
    }
}

/// Twice a record: a header of 4 KiB and the blocks; where a segment begins its head before. A
/// durable one needs a flush if something before it in its segment does.
#[test]
fn mirror_log_requests_cost_what_the_formulas_say() {
    let mut bench = mirror_log(3, LARGE, SEGMENT);
    bench.cost("4K, a segment begins", |b| b.write(0, 4 * KIB, false));
    (1..3).for_each(|at| bench.write(at * 4 * KIB, 4 * KIB, false));
    bench.cost("4K", |b| b.write(0, 4 * KIB, false));
    bench.cost("flush", Bench::flush);
    bench.cost("flush", Bench::flush);
    bench.cost("4K, durable", |b| b.write(0, 4 * KIB, true));
    (0..3).for_each(|at| bench.write(at * 4 * KIB, 4 * KIB, false));
    bench.cost("4K, durable, others are not", |b| b.write(0, 4 * KIB, true));
    bench.cost("64K", |b| b.write(64 * KIB, 64 * KIB, false));
    bench.cost("512 B", |b| b.write(64 * KIB + 512, 512, false));
    bench.cost("6K over two blocks", |b| b.write(65 * KIB, 6 * KIB, false));
    bench.cost("8 of 4K together", |b| {
        let write = |at| b.store.write(at * 4 * KIB, Buf::zeroed(4096), false);
        let done = b.env.block_on(join_all((0..8u64).map(write)));
        done.into_iter().collect::<Result<(), StoreError>>().expect("writes");
    });
    bench.cost("read 4K", |b| b.read(0, 4 * KIB));
    bench.cost("read 48K written at once", |b| b.read(80 * KIB, 48 * KIB));
    bench.cost("read, never written", |b| b.read(1 << 20, 64 * KIB));
    assert_eq!(bench.text, MIRROR_LOG, "\n{}", bench.text);
}

const MIRROR_LOG: &str = "\
4K, a segment begins           reads  0   0K  writes  4  24K  flushes 0
4K                             reads  0   0K  writes  2  16K  flushes 0
flush                          reads  0   0K  writes  0   0K  flushes 3
flush                          reads  0   0K  writes  0   0K  flushes 0
4K, durable                    reads  0   0K  writes  2  16K  flushes 0
4K, durable, others are not    reads  0   0K  writes  2  16K  flushes 3
64K                            reads  0   0K  writes  2 136K  flushes 0
512 B                          reads  1   4K  writes  2  16K  flushes 0
6K over two blocks             reads  2   8K  writes  2  24K  flushes 0
8 of 4K together               reads  0   0K  writes  6  88K  flushes 0
read 4K                        reads  1   4K  writes  0   0K  flushes 0
read 48K written at once       reads  1  48K  writes  0   0K  flushes 0
read, never written            reads  0   0K  writes  0   0K  flushes 0
";

/// What RAID50 does with a record: chunks are 16 KiB, stripes 32 KiB. The first record is behind
/// the segment's head; the next ones follow.
#[test]
fn log_raid_requests_cost_what_the_formulas_say() {
    let mut bench = log_raid();
    bench.write(0, 4 * KIB, false);
    bench.cost("4K at 12K, over two chunks", |b| b.write(0, 4 * KIB, false));
    bench.cost("8K at 20K", |b| b.write(0, 8 * KIB, false));
    bench.cost("28K at 32K, a stripe", |b| b.write(0, 28 * KIB, false));
    bench.cost("flush", Bench::flush);
    bench.cost("56K at 64K, two stripes", |b| b.write(0, 56 * KIB, false));
    bench.cost("512 B at 128K", |b| b.write(512, 512, false));
    bench.cost("read 4K", |b| b.read(32 * KIB, 4 * KIB));
    assert_eq!(bench.text, LOG_RAID, "\n{}", bench.text);
}

const LOG_RAID: &str = "\
4K at 12K, over two chunks     reads  2  24K  writes  4  44K  flushes 0
8K at 20K                      reads  1  12K  writes  3  40K  flushes 0
28K at 32K, a stripe           reads  0   0K  writes  4  52K  flushes 0
flush                          reads  0   0K  writes  2   8K  flushes 0
56K at 64K, two stripes        reads  0   0K  writes  8 104K  flushes 0
512 B at 128K                  reads  2  12K  writes  3  28K  flushes 0
read 4K                        reads  1   4K  writes  0   0K  flushes 0
";

/// Fills all that is offered, loses a drive, and overwrites: everything has two copies again, and
/// nothing waits for ever.
#[test]
fn a_full_mirror_log_goes_on_after_a_loss_with_two_copies() {
    for width in [3, 4, 7] {
        let mut bench = mirror_log(width, SMALL, 64 * KIB);
        let size = bench.store.size();
        let whole = |byte: u8| Buf::from_slice(&vec![byte; size as usize]);
        bench.env.block_on(bench.store.write(0, whole(1), false)).expect("writes");
        bench.flush();
        bench.disks[1].set_failed(true);
        let counter = |bench: &Bench<MirrorLog<VirtEnv>>, wanted: &str| {
            let counters = bench.store.counters();
            counters.iter().find(|(name, _)| *name == wanted).expect("it is counted").1
        };
        // In another order than it was written in.
        let blocks = size / 4096;
        assert!(!blocks.is_multiple_of(7919), "every block is written");
        for at in 0..blocks {
            let offset = (at * 7919 % blocks) * 4096;
            bench
                .env
                .block_on(bench.store.write(offset, Buf::from_slice(&[2; 4096]), false))
                .expect("writes");
            if at == blocks / 2 {
                assert!(counter(&bench, "segments_degraded") > 0, "half of it has one copy");
            }
        }
        while bench.env.block_on(bench.store.work()).expect("works") {}
        assert_eq!(counter(&bench, "segments_degraded"), 0, "of {width}");
        // Everything has two copies again, so that another may be lost.
        assert_eq!((bench.store.lost(), bench.store.margin()), (vec![1], 1));
        let read = bench.env.block_on(bench.store.read(0, size)).expect("reads");
        assert!(*read == *whole(2));
        let wrong = bench.env.block_on(bench.store.audit(0, size));
        assert_eq!(wrong, Vec::<String>::new());
        // Every head has begun a segment.
        (0..width).for_each(|_| bench.write(0, 4 * KIB, false));
        bench.cost("4K", |b| b.write(0, 4 * KIB, false));
        assert!(bench.text.contains("writes  2  16K"), "{}", bench.text);
    }
}

/// Of two drives one is left: it goes on with one copy.
#[test]
fn a_mirror_log_of_two_drives_goes_on_with_one() {
    let mut bench = mirror_log(2, SMALL, 64 * KIB);
    bench.write(0, 1 << 20, false);
    bench.flush();
    bench.disks[0].set_failed(true);
    let size = bench.store.size();
    for round in 0..3u8 {
        let whole = Buf::from_slice(&vec![round; size as usize]);
        bench.env.block_on(bench.store.write(0, whole, false)).expect("writes");
    }
    bench.flush();
    bench.write(0, 4 * KIB, false);
    bench.cost("4K", |b| b.write(4 * KIB, 4 * KIB, false));
    assert!(bench.text.contains("writes  1   8K"), "{}", bench.text);
    let read = bench.env.block_on(bench.store.read(8 * KIB, size - 8 * KIB)).expect("reads");
    assert!(read.iter().all(|byte| *byte == 2));
    bench.disks[1].set_failed(true);
    let data = Buf::zeroed(4096);
    assert!(bench.env.block_on(bench.store.write(0, data, true)).is_err());
}
