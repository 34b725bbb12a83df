//! What single requests to a hybrid array cost, exactly. The table is derived by hand from the
//! formulas in the scheme's header; a change here is a change of what it costs.

use std::fmt::Write as _;

use classical::OpenOptions;
use io::Buf;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use schemes::Store;
use schemes::scheme::hybrid::{self, Hybrid, Spec};

const CHUNK: u64 = 65536;
const KIB: u64 = 1 << 10;
/// Of the RAID5 of 3+1.
const STRIPE: u64 = 3 * CHUNK;

struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
    store: Hybrid<VirtEnv>,
    text: String,
}

impl Bench {
    fn new() -> Bench {
        let env = VirtEnv::fifo(1);
        let disk = |at| Disk::new(format!("d{at}"), 24 << 20, 4096, at);
        let disks: Vec<Disk> = (0..6).map(disk).collect();
        let attach = |disk: &Disk| VirtDrive::attach(&env, disk, Latency::SSD);
        let drives: Vec<VirtDrive> = disks.iter().map(attach).collect();
        let spec = Spec::proposed("tank", 6, CHUNK).expect("it divides");
        assert_eq!((spec.split, spec.parity_width), (2, 4));
        env.block_on(hybrid::create(&env, &drives, &spec)).expect("it fits");
        let store =
            env.block_on(Hybrid::open(&env, drives, OpenOptions::default())).expect("it opens");
        // Nothing is owed since the making, and the regions are marked from now on.
        while env.block_on(store.work()).expect("works") {}
        let bench = Bench { env, disks, store, text: String::new() };
        bench.write(0, 4 * KIB, false);
        bench.write(STRIPE, STRIPE, false);
        bench.env.block_on(bench.store.flush()).expect("flushes");
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

/// With b KiB of a stripe of S = 192 KiB, k = 3:
///
/// * first, small: 2S, nothing read; six chunks;
/// * in the mirrors: 2b, nothing read;
/// * first or again, full: S + S/3, nothing read, a record of 4 if there is one of that stripe;
/// * less, in RAID5: b and parity b read, both written, a record of b + 4;
/// * from RAID5 to the mirrors: 2S written, S - b read;
/// * from the mirrors to RAID5, full: S + S/3, nothing read;
/// * the map: 2 · 4 at a flush after those that are new or moved, else nothing.
#[test]
fn requests_cost_what_the_formulas_say() {
    let mut bench = Bench::new();
    let at = |stripe: u64| stripe * STRIPE;
    let flush = |b: &Bench| b.env.block_on(b.store.flush()).expect("flushes");
    bench.cost("first, 4K", |b| b.write(at(2) + 4096, 4 * KIB, false));
    bench.cost("flush", flush);
    bench.cost("mirrors, 4K", |b| b.write(at(2), 4 * KIB, false));
    bench.cost("mirrors, 4K, durable", |b| b.write(at(2), 4 * KIB, true));
    bench.cost("mirrors, two chunks", |b| b.write(at(2), 2 * CHUNK, false));
    bench.cost("flush", flush);
    bench.cost("first, stripe", |b| b.write(at(3), STRIPE, false));
    bench.cost("first, stripe, durable", |b| b.write(at(4), STRIPE, true));
    bench.cost("raid5, stripe", |b| b.write(at(3), STRIPE, false));
    bench.cost("raid5, 4K", |b| b.write(at(3), 4 * KIB, false));
    bench.cost("raid5, stripe, logged before", |b| b.write(at(3), STRIPE, false));
    assert_eq!(bench.store.in_mirrors(3), Some(false));
    bench.cost("raid5 to mirrors, 4K", |b| b.write(at(3) + 4096, 4 * KIB, false));
    assert_eq!(bench.store.in_mirrors(3), Some(true));
    bench.cost("flush", flush);
    bench.cost("mirrors, stripe, too early", |b| b.write(at(3), STRIPE, false));
    bench.write(at(2), 4 * KIB, false);
    bench.cost("mirrors to raid5, stripe", |b| b.write(at(2), STRIPE, false));
    assert_eq!(bench.store.in_mirrors(2), Some(false));
    bench.cost("4K of each of two", |b| b.write(at(4) - 4 * KIB, 8 * KIB, false));
    bench.cost("read of mirrors", |b| drop(b.env.block_on(b.store.read(at(3), 4 * KIB))));
    bench.cost("read of both tiers", |b| drop(b.env.block_on(b.store.read(at(3), 2 * STRIPE))));
    bench.cost("read of what was never written", |b| {
        let read = b.env.block_on(b.store.read(at(9), STRIPE)).expect("reads");
        assert!(read.iter().all(|byte| *byte == 0));
    });
    assert_eq!(bench.text, GOLDEN, "\n{}", bench.text);
}

const GOLDEN: &str = "\
first, 4K                          reads  0    0K  writes  6  384K
flush                              reads  0    0K  writes  4   16K
mirrors, 4K                        reads  0    0K  writes  2    8K
mirrors, 4K, durable               reads  0    0K  writes  2    8K
mirrors, two chunks                reads  0    0K  writes  4  256K
flush                              reads  0    0K  writes  0    0K
first, stripe                      reads  0    0K  writes  5  260K
first, stripe, durable             reads  0    0K  writes  9  276K
raid5, stripe                      reads  0    0K  writes  5  260K
raid5, 4K                          reads  2    8K  writes  3   16K
raid5, stripe, logged before       reads  0    0K  writes  5  260K
raid5 to mirrors, 4K               reads  4  188K  writes  6  384K
flush                              reads  0    0K  writes  4   16K
mirrors, stripe, too early         reads  0    0K  writes  6  384K
mirrors to raid5, stripe           reads  0    0K  writes  5  260K
4K of each of two                  reads  2    8K  writes  5   24K
read of mirrors                    reads  1    4K  writes  0    0K
read of both tiers                 reads  6  384K  writes  0    0K
read of what was never written     reads  0    0K  writes  0    0K
";

/// A page of a stripe is lost: the stripe can't go elsewhere with a write to it, which is done
/// where it lies. Each failed, until the page itself was written.
#[test]
fn a_stripe_that_lost_a_page_is_written_where_it_lies() {
    let bench = Bench::new();
    let mut bytes = vec![0; STRIPE as usize];
    io::rng::Rng::new(4).fill(&mut bytes);
    let write = |at: u64, part: &[u8]| {
        bench.env.block_on(bench.store.write(at, Buf::from_slice(part), false)).expect("writes");
    };
    write(2 * STRIPE, &bytes);
    bench.env.block_on(bench.store.flush()).expect("flushes");
    // The first page of each chunk, on every drive: more than parity bears.
    for disk in &bench.disks {
        for at in (0..disk.geometry().size).step_by(4096) {
            if bytes.chunks(CHUNK as usize).any(|chunk| chunk[..4096] == disk.peek(at, 4096)) {
                disk.corrupt(at + 9, 5, at);
            }
        }
    }
    let read = |at, len| bench.env.block_on(bench.store.read(at, len));
    assert!(read(2 * STRIPE, 4096).expect_err("it is lost").is_page_lost());
    for turn in 1..40 {
        let page = turn % 15 + 1;
        write(2 * STRIPE + page * 4096, &vec![turn as u8; 4096]);
        let read = read(2 * STRIPE + page * 4096, 4096).expect("reads");
        assert!(read.iter().all(|byte| *byte == turn as u8), "turn {turn}");
    }
    write(2 * STRIPE, &bytes);
    assert!(*read(2 * STRIPE, STRIPE).expect("reads") == *bytes, "whole again");
}
