//! What single requests to a cached RAID5 cost, exactly. The table is derived by hand from the
//! formulas in the scheme's header; a change here is a change of what it costs.

use classical::OpenOptions;
use std::fmt::Write as _;

use io::Buf;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use schemes::Store;
use schemes::scheme::cached_raid5::{self, CachedRaid5, Spec};

const CHUNK: u64 = 8192;
const KIB: u64 = 1 << 10;
/// Of the RAID5 of 3+1.
const STRIPE: u64 = 3 * CHUNK;

struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
    store: CachedRaid5<VirtEnv>,
    text: String,
}

impl Bench {
    fn new() -> Bench {
        let env = VirtEnv::fifo(1);
        let disk = |at| Disk::new(format!("d{at}"), 6 << 20, 4096, at);
        let disks: Vec<Disk> = (0..6).map(disk).collect();
        let attach = |disk: &Disk| VirtDrive::attach(&env, disk, Latency::SSD);
        let drives: Vec<VirtDrive> = disks.iter().map(attach).collect();
        let spec = Spec { destage_percent: 1, ..Spec::proposed("tank", 6, CHUNK) };
        env.block_on(cached_raid5::create(&env, &drives, &spec)).expect("it fits");
        let store = env
            .block_on(CachedRaid5::open(&env, drives, OpenOptions::default()))
            .expect("it opens");
        // Nothing is owed since the making, and the regions are marked from now on.
        while env.block_on(store.work()).expect("works") {}
        let bench = Bench { env, disks, store, text: String::new() };
        bench.write(0, 4 * KIB, false);
        bench.write(0, STRIPE, false);
        bench.env.block_on(bench.store.flush()).expect("flushes");
        assert_eq!(bench.store.cached(), (0, 312));
        bench
    }

    fn write(&self, offset: u64, len: u64, fua: bool) {
        let data = Buf::zeroed(len as usize);
        self.env.block_on(self.store.write(offset, data, fua)).expect("writes");
    }

    /// Reads and writes of all drives for a request, and their bytes in KiB.
    fn cost(&mut self, request: &str, act: impl FnOnce(&Bench)) {
        let sum = |disks: &[Disk]| {
            disks.iter().map(Disk::counters).fold([0; 4], |sum, c| {
                let own = [c.reads, c.bytes_read, c.writes, c.bytes_written];
                std::array::from_fn(|at| sum[at] + own[at])
            })
        };
        let before = sum(&self.disks);
        act(self);
        let after = sum(&self.disks);
        let [reads, read, writes, written]: [u64; 4] =
            std::array::from_fn(|at| after[at] - before[at]);
        let (read, written) = (read / KIB, written / KIB);
        let _ = writeln!(
            self.text,
            "{request:<34} reads {reads:>2} {read:>4}K  writes {writes:>2} {written:>4}K"
        );
    }
}

/// * within a chunk, b KiB: 2b, nothing read, in the pair's chunks;
/// * less than a line: the line is read where it is, 2 · 4 written;
/// * more than a chunk: as RAID5 does it, n chunks of three: the others read, n and parity written,
///   a record of parity and 4; a full stripe: all and parity, a record of 4 if there is one;
/// * a line destaged: 4 read in the cache; 4 and parity read and written, a record of 8;
/// * the map: 2 · 4 at a flush after lines came or left, else nothing.
#[test]
fn requests_cost_what_the_formulas_say() {
    let mut bench = Bench::new();
    let at = |stripe: u64| stripe * STRIPE;
    let flush = |b: &Bench| b.env.block_on(b.store.flush()).expect("flushes");
    let work = |b: &Bench| assert!(b.env.block_on(b.store.work()).expect("works"));
    bench.cost("4K, not there", |b| b.write(at(2), 4 * KIB, false));
    bench.cost("flush", flush);
    bench.cost("4K, there", |b| b.write(at(2), 4 * KIB, false));
    bench.cost("4K, there, durable", |b| b.write(at(2), 4 * KIB, true));
    bench.cost("flush", flush);
    bench.cost("512 B, there", |b| b.write(at(2) + 512, 512, false));
    bench.cost("512 B, not there", |b| b.write(at(3) + 512, 512, false));
    bench.cost("4K, not there, durable", |b| b.write(at(4), 4 * KIB, true));
    bench.cost("read of the cache", |b| drop(b.env.block_on(b.store.read(at(4), 4 * KIB))));
    assert_eq!(bench.store.cached().0, 3);
    bench.cost("three lines destaged", work);
    assert_eq!(bench.store.cached().0, 0);
    bench.cost("flush", flush);
    bench.cost("read of raid5", |b| drop(b.env.block_on(b.store.read(at(4), 4 * KIB))));
    bench.cost("chunk", |b| b.write(at(5) + CHUNK, CHUNK, false));
    bench.cost("two chunks", |b| b.write(at(5), 2 * CHUNK, false));
    assert_eq!(bench.store.cached().0, 0, "they were overwritten");
    bench.cost("stripe, logged before", |b| b.write(at(5), STRIPE, false));
    bench.cost("stripe", |b| b.write(at(6), STRIPE, false));
    assert_eq!(bench.text, GOLDEN, "\n{}", bench.text);
}

const GOLDEN: &str = "\
4K, not there                      reads  0    0K  writes  2    8K
flush                              reads  0    0K  writes  4   16K
4K, there                          reads  0    0K  writes  2    8K
4K, there, durable                 reads  0    0K  writes  2    8K
flush                              reads  0    0K  writes  0    0K
512 B, there                       reads  1    4K  writes  2    8K
512 B, not there                   reads  1    4K  writes  2    8K
4K, not there, durable             reads  0    0K  writes  6   24K
read of the cache                  reads  1    4K  writes  0    0K
three lines destaged               reads  9   36K  writes  9   48K
flush                              reads  0    0K  writes  4   16K
read of raid5                      reads  1    4K  writes  0    0K
chunk                              reads  0    0K  writes  2   16K
two chunks                         reads  1    8K  writes  4   36K
stripe, logged before              reads  0    0K  writes  5   36K
stripe                             reads  0    0K  writes  5   36K
";
