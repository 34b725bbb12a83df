//! What single requests cost: operations and bytes of each drive, exactly. The table is derived by
//! hand from the formulas beside it; a change here is a change of what a baseline costs.

use std::fmt::Write as _;

use classical::array::create;
use classical::{Array, CreateSpec, OpenOptions, Redundancy, WriteHole};
use io::Buf;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};

const CHUNK: u64 = 65536;
const KIB: u64 = 1 << 10;

struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
    array: Array<VirtEnv>,
}

impl Bench {
    fn new(redundancy: Redundancy, width: usize, lost: &[usize], hole: WriteHole) -> Bench {
        let env = VirtEnv::fifo(1);
        let disk = |at| Disk::new(format!("d{at}"), 16 << 20, 4096, at);
        let disks: Vec<Disk> = (0..width as u64).map(disk).collect();
        let attach = |disk: &Disk| VirtDrive::attach(&env, disk, Latency::SSD);
        let drives: Vec<VirtDrive> = disks.iter().map(attach).collect();
        let spec =
            CreateSpec { name: "tank".into(), redundancy, width, chunk: CHUNK, checksums: true };
        env.block_on(create(&env, &drives, &spec)).expect("it fits");
        let there = drives.into_iter().enumerate().filter(|(at, _)| !lost.contains(at));
        let there: Vec<VirtDrive> = there.map(|(_, drive)| drive).collect();
        let options = OpenOptions { write_hole: hole, ..OpenOptions::default() };
        let array = env.block_on(Array::open(&env, there, options)).expect("it opens");
        while env.block_on(array.resync()).expect("agrees") {}
        let bench = Bench { env, disks, array };
        // The region is marked from now on.
        bench.write(0, KIB * 4);
        bench
    }

    fn write(&self, offset: u64, len: u64) {
        let data = Buf::zeroed(len as usize);
        self.env.block_on(self.array.write(offset, data, false)).expect("writes");
    }

    /// Reads and writes of all drives for a request, and their bytes in KiB.
    fn cost(&self, request: &str, act: impl FnOnce()) -> String {
        let sum = || {
            let each = self.disks.iter().map(Disk::counters);
            each.fold([0; 4], |sum, c| {
                [
                    sum[0] + c.reads,
                    sum[1] + c.bytes_read,
                    sum[2] + c.writes,
                    sum[3] + c.bytes_written,
                ]
            })
        };
        let before = sum();
        act();
        let after = sum();
        let each: Vec<u64> =
            after.iter().zip(before).map(|(after, before)| after - before).collect();
        format!(
            "{request:<28} reads {:>2} {:>5}K  writes {:>2} {:>5}K\n",
            each[0],
            each[1] / KIB,
            each[2],
            each[3] / KIB
        )
    }

    fn writes(&self, name: &str, requests: &[(&str, u64, u64)]) -> String {
        let mut text = String::new();
        for (request, offset, len) in requests {
            let line = self.cost(&format!("{name} {request}"), || self.write(*offset, *len));
            let _ = write!(text, "{line}");
        }
        text
    }

    fn durable(&self, name: &str, stripe: u64) -> String {
        let write = |at: u64, fua| {
            let data = Buf::zeroed(4 << 10);
            self.env.block_on(self.array.write(at, data, fua)).expect("writes");
        };
        // Other bytes than what is there: else nothing changes.
        let at = 5 * stripe;
        self.write_noise(at, 32 * 4 * KIB);
        self.env.block_on(self.array.flush()).expect("flushes");
        let fua = self.cost(&format!("{name} 4K FUA"), || write(at, true));
        let flush = self.cost(&format!("{name} 31 of 4K, a flush"), || {
            (1..32).for_each(|page| write(at + page * 4 * KIB, false));
            self.env.block_on(self.array.flush()).expect("flushes");
        });
        fua + &flush
    }

    fn write_noise(&self, offset: u64, len: u64) {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 / 5) as u8 | 1).collect();
        let done = self.env.block_on(self.array.write(offset, Buf::from_slice(&bytes), false));
        done.expect("writes");
    }

    fn read(&self, name: &str, offset: u64, len: u64) -> String {
        self.cost(&format!("{name} read"), || {
            self.env.block_on(self.array.read(offset, len)).expect("reads");
        })
    }
}

/// Requests on stripe 2 or later, for a stripe of `data` chunks.
fn requests(data: u64) -> Vec<(&'static str, u64, u64)> {
    let stripe = data * CHUNK;
    vec![
        ("4K", 2 * stripe, 4 * KIB),
        ("512 B", 2 * stripe + 512, 512),
        ("chunk", 2 * stripe, CHUNK),
        ("all but one", 2 * stripe, stripe - CHUNK),
        ("stripe", 3 * stripe, stripe),
        ("stripe, logged before", 2 * stripe, stripe),
        ("across two stripes", 4 * stripe - 4 * KIB, 8 * KIB),
    ]
}

/// With n pieces of b KiB, k data and p parity chunks, whole drives:
///
/// * mirror of c: no reads, c writes; 512 B: one read of a page first.
/// * modify: n + p reads and n + p writes of b, and p records of b + 4; 512 B: of its page;
/// * rebuild: k − n reads of b;
/// * full: no reads, k + p writes, p records of 4: with checksums every write has one;
/// * FUA, and a flush after writes: beside it a page of the checksum log on p + 1 drives, one more
///   for 64 entries, and where a page fills up.
#[test]
fn requests_cost_what_the_formulas_say() {
    let mut text = String::new();
    let mirror = Bench::new(Redundancy::Mirror, 2, &[], WriteHole::Closed);
    text += &mirror.writes("raid1", &requests(1)[..3]);
    text += &mirror.read("raid1", 0, 4 * KIB);
    text += &mirror.durable("raid1", CHUNK);
    for (name, parity, width) in [("raid5", 1, 5), ("raid6", 2, 6)] {
        let bench = Bench::new(Redundancy::Parity(parity), width, &[], WriteHole::Closed);
        text += &bench.writes(name, &requests(4));
        text += &bench.read(name, 2 * 4 * CHUNK, 4 * KIB);
        text += &bench.durable(name, 4 * CHUNK);
    }
    let bench = Bench::new(Redundancy::ParityDrive, 5, &[], WriteHole::Closed);
    text += &bench.writes("raid4", &requests(4));
    let open = Bench::new(Redundancy::Parity(1), 5, &[], WriteHole::Open);
    text += &open.writes("raid5, hole open:", &requests(4)[..1]);
    // Stripe 2 of 5 drives: parity on drive 2, data on 3, 4, 0, 1.
    let own = Bench::new(Redundancy::Parity(1), 5, &[3], WriteHole::Closed);
    text += &own.writes("raid5 without it:", &requests(4)[..1]);
    text += &own.read("raid5 without it:", 2 * 4 * CHUNK, 4 * KIB);
    let other = Bench::new(Redundancy::Parity(1), 5, &[4], WriteHole::Closed);
    text += &other.writes("raid5 without another:", &requests(4)[..1]);
    let parity = Bench::new(Redundancy::Parity(1), 5, &[2], WriteHole::Closed);
    text += &parity.writes("raid5 without parity:", &requests(4)[..1]);
    assert_eq!(text, GOLDEN, "\n{text}");
}

/// Parity and what is logged of it never touch a data drive, nor data the parity drive.
#[test]
fn a_parity_drive_takes_parity_and_its_log_only() {
    let bench = Bench::new(Redundancy::ParityDrive, 4, &[], WriteHole::Closed);
    let writes = || bench.disks.iter().map(|disk| disk.counters().writes).collect::<Vec<_>>();
    for stripe in 0..4 {
        let before = writes();
        bench.write(stripe * 3 * CHUNK + CHUNK, 4 * KIB);
        let after = writes();
        let spent: Vec<u64> = after.iter().zip(before).map(|(after, was)| after - was).collect();
        assert_eq!(spent, [0, 1, 0, 2], "stripe {stripe}");
    }
}

const GOLDEN: &str = "\
raid1 4K                     reads  0     0K  writes  2     8K
raid1 512 B                  reads  1     4K  writes  2     8K
raid1 chunk                  reads  0     0K  writes  2   128K
raid1 read                   reads  1     4K  writes  0     0K
raid1 4K FUA                 reads  0     0K  writes  4    16K
raid1 31 of 4K, a flush      reads  0     0K  writes 64   256K
raid5 4K                     reads  2     8K  writes  3    16K
raid5 512 B                  reads  2     8K  writes  3    16K
raid5 chunk                  reads  2   128K  writes  3   196K
raid5 all but one            reads  1    64K  writes  5   324K
raid5 stripe                 reads  0     0K  writes  6   324K
raid5 stripe, logged before  reads  0     0K  writes  6   324K
raid5 across two stripes     reads  4    16K  writes  6    32K
raid5 read                   reads  1     4K  writes  0     0K
raid5 4K FUA                 reads  2     8K  writes  5    24K
raid5 31 of 4K, a flush      reads 62   248K  writes 95   504K
raid6 4K                     reads  3    12K  writes  5    28K
raid6 512 B                  reads  3    12K  writes  5    28K
raid6 chunk                  reads  3   192K  writes  5   328K
raid6 all but one            reads  1    64K  writes  7   456K
raid6 stripe                 reads  0     0K  writes  8   392K
raid6 stripe, logged before  reads  0     0K  writes  8   392K
raid6 across two stripes     reads  6    24K  writes 10    56K
raid6 read                   reads  1     4K  writes  0     0K
raid6 4K FUA                 reads  3    12K  writes  8    40K
raid6 31 of 4K, a flush      reads 93   372K  writes 164   904K
raid4 4K                     reads  2     8K  writes  3    16K
raid4 512 B                  reads  2     8K  writes  3    16K
raid4 chunk                  reads  2   128K  writes  3   196K
raid4 all but one            reads  1    64K  writes  5   324K
raid4 stripe                 reads  0     0K  writes  6   324K
raid4 stripe, logged before  reads  0     0K  writes  6   324K
raid4 across two stripes     reads  4    16K  writes  6    32K
raid5, hole open: 4K         reads  2     8K  writes  2     8K
raid5 without it: 4K         reads  3    12K  writes  2    12K
raid5 without it: read       reads  4    16K  writes  0     0K
raid5 without another: 4K    reads  2     8K  writes  3    16K
raid5 without parity: 4K     reads  0     0K  writes  1     4K
";
