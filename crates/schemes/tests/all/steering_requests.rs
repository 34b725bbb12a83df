//! What single requests of `steering` cost, and the paper's Figure 5 step by step. The table is
//! derived by hand from the formulas beside it.

use std::fmt::Write as _;

use classical::Redundancy;
use io::faulty::{Effect, Fault};
use io::rng::Rng;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use io::{AnyDrive, Buf, Env, Faults, Faulty, Nanos, Operation};
use schemes::scheme::steering::{Options, Spec, Staging, Steering, create, open};
use schemes::{Store, StoreError};

const CHUNK: u64 = 65536;
const KIB: u64 = 1 << 10;
const RESERVED: Staging = Staging::Reserved { bytes: 8 << 20 };

struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
    store: Steering<VirtEnv>,
}

impl Bench {
    fn new(parity: usize, width: usize, staging: Staging) -> Bench {
        Bench::with(parity, width, staging, Options::default())
    }

    fn with(parity: usize, width: usize, staging: Staging, options: Options) -> Bench {
        let env = VirtEnv::fifo(1);
        let drives = width + usize::from(staging == Staging::Dedicated);
        let disk = |at| Disk::new(format!("d{at}"), 32 << 20, 4096, at);
        let disks: Vec<Disk> = (0..drives as u64).map(disk).collect();
        let attach = |disk: &Disk| VirtDrive::attach(&env, disk, Latency::SSD);
        let drives: Vec<VirtDrive> = disks.iter().map(attach).collect();
        let redundancy = Redundancy::Parity(parity);
        let spec =
            Spec { name: "tank".into(), redundancy, width, chunk: CHUNK, staging, checksums: true };
        env.block_on(create(&env, &drives, &spec)).expect("it fits");
        let store = env.block_on(open(&env, drives, options)).expect("it opens");
        while env.block_on(store.work()).expect("agrees") {}
        let bench = Bench { env, disks, store };
        // The region is marked from now on.
        bench.write(0, KIB * 4);
        bench
    }

    fn write(&self, offset: u64, len: u64) {
        self.env.block_on(self.store.write(offset, Buf::zeroed(len as usize), false)).expect("ok");
    }

    fn read(&self, offset: u64, len: u64) {
        self.env.block_on(self.store.read(offset, len)).expect("reads");
        // What is copied beside the answer.
        self.env.block_on(self.env.sleep_until(self.env.now() + Nanos::from_millis(10)));
    }

    /// A drive is lost, and a new one has its place; nothing is rebuilt yet.
    fn replace(&mut self, place: usize) {
        self.disks[place].set_failed(true);
        self.write(0, 5 * 4 * CHUNK);
        assert_eq!(self.store.lost(), [place]);
        self.disks[place] = Disk::new("new", 32 << 20, 4096, 99);
        let new = VirtDrive::attach(&self.env, &self.disks[place], Latency::SSD);
        self.env.block_on(self.store.replace(place, new)).expect("it takes its place");
    }

    fn work(&self) {
        while self.env.block_on(self.store.work()).expect("works") {}
    }

    /// Reads, bytes read, writes, bytes written of each drive while something is done.
    fn each(&self, act: impl FnOnce(&Bench)) -> Vec<[u64; 4]> {
        let now = || -> Vec<[u64; 4]> {
            let counters = self.disks.iter().map(Disk::counters);
            counters.map(|c| [c.reads, c.bytes_read, c.writes, c.bytes_written]).collect()
        };
        let before = now();
        act(self);
        let each = now().into_iter().zip(before);
        each.map(|(after, before)| std::array::from_fn(|at| after[at] - before[at])).collect()
    }

    /// A line of the table.
    fn cost(&self, request: &str, act: impl FnOnce(&Bench)) -> String {
        let each = self.each(act);
        let sum = |at: usize| each.iter().map(|counts| counts[at]).sum::<u64>();
        let (reads, writes) = (sum(0), sum(2));
        let (read, written) = (sum(1) / KIB, sum(3) / KIB);
        format!("{request:<32} reads {reads:>2} {read:>4}K  writes {writes:>2} {written:>4}K\n")
    }
}

/// Of stripe 2 on five drives: P on drive 2, data on 3, 4, 0, 1. With k data and p parity chunks,
/// b KiB written to one chunk and c copies (p + 1 reserved, 1 dedicated):
///
/// * not busy: modify, as the array itself: 1 + p reads, 1 + p writes of b, p records of b + 4;
/// * data drive busy: k − 1 reads of the others, p writes of b, p records of b + 4, c of b + 4;
/// * parity drive busy: k − 1 reads, 1 write of b; c for its parity, b + 4, and c for its record,
///   b + 8;
/// * first write to a dedicated drive: a page on each drive that is not busy before it;
/// * reclaim: one read for each record, one write for each run, a page on each drive.
#[test]
fn requests_cost_what_the_formulas_say() {
    let mut text = String::new();
    let stripe = 2 * 4 * CHUNK;
    let bench = Bench::new(1, 5, RESERVED);
    let mut line = |line: String| text.push_str(&line);
    line(bench.cost("raid5 4K", |b| b.write(stripe, 4 * KIB)));
    bench.store.set_busy(3, true);
    line(bench.cost("raid5 4K, data busy", |b| b.write(stripe, 4 * KIB)));
    line(bench.cost("raid5 4K beside, data busy", |b| b.write(stripe + 4 * KIB, 4 * KIB)));
    line(bench.cost("raid5 read of it", |b| b.read(stripe, 4 * KIB)));
    line(bench.cost("raid5 4K, another busy", |b| b.write(stripe + CHUNK, 4 * KIB)));
    line(bench.cost("raid5 work while busy", Bench::work));
    bench.store.set_busy(3, false);
    line(bench.cost("raid5 4K over it, idle again", |b| b.write(stripe, 4 * KIB)));
    // Its newest 4K, and the 4K beside, are one run.
    line(bench.cost("raid5 reclaim, two records", Bench::work));
    bench.store.set_busy(2, true);
    line(bench.cost("raid5 4K, parity busy", |b| b.write(stripe, 4 * KIB)));
    line(bench.cost("raid5 stripe, parity busy", |b| b.write(stripe, 4 * CHUNK)));
    bench.store.set_busy(2, false);
    bench.work();
    // Stripe 7 lies as 2 does.
    let cold = 7 * 4 * CHUNK;
    line(bench.cost("raid5 read", |b| b.read(cold, 4 * KIB)));
    line(bench.cost("raid5 read again: popular", |b| b.read(cold, 4 * KIB)));
    bench.store.set_busy(3, true);
    line(bench.cost("raid5 hot read, busy", |b| b.read(cold, 4 * KIB)));
    line(bench.cost("raid5 other read of it, busy", |b| b.read(cold + 4 * KIB, 4 * KIB)));
    line(bench.cost("raid5 both, busy", |b| b.read(cold, 8 * KIB)));

    let bench = Bench::new(2, 6, RESERVED);
    // Stripe 2 on six drives: P on 3, Q on 4, data on 5, 0, 1, 2.
    bench.store.set_busy(5, true);
    line(bench.cost("raid6 4K, data busy", |b| b.write(stripe, 4 * KIB)));
    let bench = Bench::new(1, 5, Staging::Dedicated);
    bench.store.set_busy(3, true);
    line(bench.cost("raid5 dedicated, first", |b| b.write(stripe, 4 * KIB)));
    line(bench.cost("raid5 dedicated, next", |b| b.write(stripe, 4 * KIB)));
    bench.store.set_busy(3, false);
    line(bench.cost("raid5 dedicated, reclaim", Bench::work));
    assert_eq!(text, GOLDEN, "\n{text}");
}

const GOLDEN: &str = "\
raid5 4K                         reads  2    8K  writes  3   16K
raid5 4K, data busy              reads  3   12K  writes  4   28K
raid5 4K beside, data busy       reads  3   12K  writes  4   28K
raid5 read of it                 reads  1    4K  writes  0    0K
raid5 4K, another busy           reads  2    8K  writes  3   16K
raid5 work while busy            reads  0    0K  writes  0    0K
raid5 4K over it, idle again     reads  2    8K  writes  4   28K
raid5 reclaim, two records       reads  2    8K  writes  6   28K
raid5 4K, parity busy            reads  3   12K  writes  5   44K
raid5 stripe, parity busy        reads  0    0K  writes  8  408K
raid5 read                       reads  1    4K  writes  0    0K
raid5 read again: popular        reads  1    4K  writes  1    4K
raid5 hot read, busy             reads  1    4K  writes  0    0K
raid5 other read of it, busy     reads  1    4K  writes  1    4K
raid5 both, busy                 reads  2    8K  writes  0    0K
raid6 4K, data busy              reads  3   12K  writes  7   48K
raid5 dedicated, first           reads  3   12K  writes  8   40K
raid5 dedicated, next            reads  3   12K  writes  3   20K
raid5 dedicated, reclaim         reads  1    4K  writes  7   28K
";

/// With D_Table in memory that outlives power cuts a record is its data, and a write in place ends
/// what was redirected there.
#[test]
fn records_without_headers() {
    let table = Options { table_in_nvram: true, ..Options::default() };
    let bench = Bench::with(1, 5, RESERVED, table);
    let stripe = 2 * 4 * CHUNK;
    bench.write(stripe, 4 * KIB);
    bench.store.set_busy(3, true);
    let mut text = bench.cost("data busy", |b| b.write(stripe, 4 * KIB));
    bench.store.set_busy(3, false);
    text += &bench.cost("over it, idle again", |b| b.write(stripe, 4 * KIB));
    text += &bench.cost("read of it", |b| b.read(stripe, 4 * KIB));
    text += &bench.cost("work", Bench::work);
    let expected = "\
data busy                        reads  3   12K  writes  4   20K
over it, idle again              reads  2    8K  writes  3   16K
read of it                       reads  1    4K  writes  0    0K
work                             reads  0    0K  writes  0    0K
";
    assert_eq!(text, expected);
}

/// The same against a plain array of bytes, while drives become busy and idle.
#[test]
fn what_was_redirected_without_headers_is_read() {
    for seed in 0..20 {
        let table = Options { table_in_nvram: true, reclaim_bytes: 24 << 10, ..Options::default() };
        let staging = if seed % 2 == 0 { RESERVED } else { Staging::Dedicated };
        let bench = Bench::with(1, 5, staging, table);
        let mut rng = Rng::new(seed);
        let mut plain = vec![0; 40 * CHUNK as usize];
        for step in 0..400 {
            let at = rng.below(plain.len() as u64 / 4096 - 24) * 4096;
            let len = (1 + rng.below(24)) * 4096;
            match rng.below(10) {
                0 => bench.store.set_busy(rng.index(5), rng.chance(1, 2)),
                1 => drop(bench.env.block_on(bench.store.work()).expect("works")),
                2 => bench.env.block_on(bench.store.flush()).expect("flushes"),
                3..6 => {
                    let read = bench.env.block_on(bench.store.read(at, len)).expect("reads");
                    let own = &plain[at as usize..][..len as usize];
                    assert!(*read == *own, "seed {seed}, step {step}");
                }
                _ => {
                    let bytes = vec![rng.below(256) as u8; len as usize];
                    let written = bench.store.write(at, Buf::from_slice(&bytes), rng.chance(1, 4));
                    bench.env.block_on(written).expect("writes");
                    plain[at as usize..][..len as usize].copy_from_slice(&bytes);
                }
            }
        }
        (0..5).for_each(|drive| bench.store.set_busy(drive, false));
        bench.work();
        let read = bench.env.block_on(bench.store.read(0, plain.len() as u64)).expect("reads");
        assert!(*read == plain[..], "seed {seed}, at the end");
    }
}

/// A copy of a redirected write is not what was written: what is read, and what is written back, is
/// from the other one, and the first is written again. Parity is not needed for it.
#[test]
fn a_staged_copy_that_rots_is_put_right_from_the_other() {
    let mut healed = [0, 0];
    for (written_back, hurt) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        let bench = Bench::new(1, 5, RESERVED);
        let mut bytes = vec![0; 2 * CHUNK as usize];
        Rng::new(6).fill(&mut bytes);
        let write = |from: usize| {
            let data = Buf::from_slice(&bytes[from..from + CHUNK as usize]);
            bench.env.block_on(bench.store.write(from as u64, data, false)).expect("writes");
        };
        // So that parity is something else.
        write(CHUNK as usize);
        bench.store.set_busy(0, true);
        write(0);
        let is_it = |disk: &Disk, at: u64| disk.peek(at, 4096) == bytes[8192..12288];
        let page = |disk: &Disk| {
            let mut all = (0..disk.geometry().size / 4096).map(|at| at * 4096);
            all.find(|at| is_it(disk, *at)).map(|at| (disk.clone(), at))
        };
        let copies: Vec<(Disk, u64)> = bench.disks.iter().filter_map(page).collect();
        assert_eq!(copies.len(), 2, "p + 1 copies, none in place");
        copies[hurt].0.corrupt(copies[hurt].1 + 70, 9, 1);
        if written_back {
            bench.store.set_busy(0, false);
            bench.work();
        }
        for _ in 0..4 {
            let read = bench.env.block_on(bench.store.read(0, CHUNK)).expect("reads");
            assert!(*read == bytes[..CHUNK as usize]);
        }
        assert!(written_back || copies.iter().all(|(disk, at)| is_it(disk, *at)));
        let counters = bench.store.counters();
        let own = counters.iter().find(|(name, _)| *name == "staged_healed");
        healed[usize::from(written_back)] += own.expect("it is counted").1;
    }
    // What is written back is read from one of them.
    assert_eq!(healed, [2, 1]);
}

/// Of stripe 2 as above, drive 0 of five replaced by a new one that is being filled:
///
/// * data on another drive: modify, 2 reads; parity b and its record b + 4 in place, c of b + 4;
/// * data on the new one, its row not rebuilt: k − 1 reads of the others, parity and record;
/// * its row rebuilt: as when its drive is busy;
/// * first write of each drive to a dedicated one: a page on each drive but the new one before it.
#[test]
fn figure_6_case_1_requests_during_a_rebuild() {
    let mut text = String::new();
    let stripe = 2 * 4 * CHUNK;
    let mut bench = Bench::new(1, 5, RESERVED);
    bench.replace(0);
    let mut line = |line: String| text.push_str(&line);
    line(bench.cost("raid5 4K, rebuilding", |b| b.write(stripe, 4 * KIB)));
    line(bench.cost("raid5 read of it", |b| b.read(stripe, 4 * KIB)));
    line(bench.cost("raid5 4K of the lost chunk", |b| b.write(stripe + 2 * CHUNK, 4 * KIB)));
    line(bench.cost("raid5 read of it", |b| b.read(stripe + 2 * CHUNK, 4 * KIB)));
    bench.env.block_on(bench.store.work()).expect("works");
    line(bench.cost("raid5 4K of a rebuilt chunk", |b| b.write(stripe + 2 * CHUNK, 4 * KIB)));
    line(bench.cost("raid5 read of it", |b| b.read(stripe + 2 * CHUNK, 4 * KIB)));
    let mut bench = Bench::new(1, 5, Staging::Dedicated);
    bench.replace(0);
    line(bench.cost("raid5 dedicated, first", |b| b.write(stripe, 4 * KIB)));
    line(bench.cost("raid5 dedicated, next", |b| b.write(stripe, 4 * KIB)));
    line(bench.cost("raid5 dedicated, other drive", |b| b.write(stripe + CHUNK, 4 * KIB)));
    assert_eq!(text, REBUILDING, "\n{text}");
}

const REBUILDING: &str = "\
raid5 4K, rebuilding             reads  2    8K  writes  4   28K
raid5 read of it                 reads  1    4K  writes  0    0K
raid5 4K of the lost chunk       reads  3   12K  writes  2   12K
raid5 read of it                 reads  4   16K  writes  0    0K
raid5 4K of a rebuilt chunk      reads  3   12K  writes  4   28K
raid5 read of it                 reads  1    4K  writes  0    0K
raid5 dedicated, first           reads  2    8K  writes  8   40K
raid5 dedicated, next            reads  2    8K  writes  3   20K
raid5 dedicated, other drive     reads  2    8K  writes  8   40K
";

/// Figure 5: drive 4 of five collects garbage. A popular read is served by the staging space, a
/// write goes to the staging space while its parity goes to its place, other drives are asked as
/// ever; afterwards the data is reclaimed and its entries are gone.
#[test]
fn figure_5_requests_while_drive_4_collects() {
    for staging in [RESERVED, Staging::Dedicated] {
        let bench = Bench::new(1, 5, staging);
        // Stripe 0: data on 1, 2, 3, 4 and P on ... left-symmetric: P on 4; stripe 1: P on 3,
        // data on 4, 0, 1, 2.
        let (hot, other) = (4 * CHUNK, 4 * CHUNK + CHUNK);
        let cold = hot + 8 * KIB;
        bench.read(hot, 4 * KIB);
        bench.read(hot, 4 * KIB);
        let flags = |bench: &Bench| -> Vec<(usize, bool)> {
            bench.store.d_table().iter().map(|entry| (entry.0, entry.3)).collect()
        };
        assert_eq!(flags(&bench), [(4, false)], "R_LRU found it popular");
        bench.store.set_busy(4, true);
        let touched = |each: Vec<[u64; 4]>, at: usize| -> Vec<usize> {
            (0..each.len()).filter(|&drive| each[drive][at] > 0).collect()
        };
        let holder = bench.store.d_table()[0].4.clone();
        assert_ne!(holder, [4]);
        assert_eq!(touched(bench.each(|b| b.read(hot, 4 * KIB)), 0), holder);
        assert_eq!(touched(bench.each(|b| b.read(cold, 4 * KIB)), 0), [4], "not in D_Table");
        assert_eq!(touched(bench.each(|b| b.read(other, 4 * KIB)), 0), [0]);
        // The write voids the hot copy; parity is on drive 3.
        let written = touched(bench.each(|b| b.write(hot, 4 * KIB)), 2);
        assert!(written.contains(&3), "parity is kept current in place: {written:?}");
        let table = bench.store.d_table();
        assert_eq!(flags(&bench), [(4, true)]);
        let holders = &table[0].4;
        assert_eq!(holders.len(), if staging == RESERVED { 2 } else { 1 });
        assert!(!holders.contains(&4) && holders.iter().all(|holder| written.contains(holder)));
        assert_eq!(bench.disks[4].counters().writes, {
            bench.write(hot + 4 * KIB, 4 * KIB);
            bench.disks[4].counters().writes
        });
        assert_eq!(bench.store.away()[4], 8 * KIB);
        bench.store.set_busy(4, false);
        bench.work();
        assert_eq!((bench.store.away()[4], flags(&bench)), (0, vec![]));
    }
}

/// A write that begins while a copy of what was read before is on its way.
#[test]
fn a_write_voids_a_hot_copy_on_its_way() {
    let bench = Bench::new(1, 5, RESERVED);
    let stripe = 2 * 4 * CHUNK;
    bench.read(stripe, 4 * KIB);
    let new = Buf::from_slice(&vec![7; 4 * CHUNK as usize]);
    bench.env.block_on(async {
        bench.store.read(stripe, 4 * KIB).await.expect("reads");
        // A whole stripe: nothing is read first, so it is at the drives before the copy is.
        bench.store.write(stripe, new, false).await.expect("writes");
    });
    bench.store.set_busy(3, true);
    let read = bench.env.block_on(bench.store.read(stripe, 4 * KIB)).expect("reads");
    assert!(read.iter().all(|byte| *byte == 7), "the old copy is served");
    assert_eq!(bench.store.d_table(), []);
}

/// Dedicated: of one group one drive at a time has its writes there, or its loss would be that of
/// two chunks of a stripe.
#[test]
fn a_dedicated_drive_serves_one_busy_drive_of_a_group() {
    let bench = Bench::new(1, 5, Staging::Dedicated);
    let direct = |bench: &Bench| {
        let counters = bench.store.counters();
        counters.iter().find(|(name, _)| *name == "direct_writes").expect("it counts").1
    };
    bench.store.set_busy(3, true);
    bench.write(2 * 4 * CHUNK, 4 * KIB);
    assert_eq!(direct(&bench), 0);
    bench.store.set_busy(4, true);
    bench.write(2 * 4 * CHUNK + CHUNK, 4 * KIB);
    assert_eq!((direct(&bench), bench.store.away()[4]), (1, 0));
    // When the first is done, the second has its turn.
    bench.store.set_busy(3, false);
    bench.work();
    bench.write(2 * 4 * CHUNK + CHUNK, 4 * KIB);
    assert_eq!((direct(&bench), bench.store.away()[4]), (1, 4 * KIB));
}

#[test]
fn shapes_that_cannot_be_steered_are_refused() {
    let refused = |redundancy, width, drives: u64, staging| {
        let env = VirtEnv::fifo(1);
        let disks: Vec<Disk> =
            (0..drives).map(|at| Disk::new(format!("d{at}"), 32 << 20, 4096, at)).collect();
        let attach = |disk: &Disk| VirtDrive::attach(&env, disk, Latency::SSD);
        let drives: Vec<VirtDrive> = disks.iter().map(attach).collect();
        let spec =
            Spec { name: "tank".into(), redundancy, width, chunk: CHUNK, staging, checksums: true };
        env.block_on(create(&env, &drives, &spec)).err()
    };
    let mirror = refused(Redundancy::Mirror, 2, 2, RESERVED);
    assert!(matches!(mirror, Some(StoreError::Shape { .. })), "{mirror:?}");
    assert!(refused(Redundancy::Mirror, 2, 4, RESERVED).is_none());
    assert!(refused(Redundancy::Mirror, 2, 3, Staging::Dedicated).is_none());
    let small = refused(Redundancy::Parity(1), 5, 5, Staging::Reserved { bytes: 4096 });
    assert!(small.is_none(), "rounded up to a MiB: {small:?}");
    let narrow = refused(Redundancy::Parity(2), 3, 3, RESERVED);
    assert!(narrow.is_some());
}

/// Running out of room: writes go to the busy drive, and nothing waits for ever.
#[test]
fn a_full_staging_space_is_gone_round() {
    let bench = Bench::new(1, 5, Staging::Reserved { bytes: 1 << 20 });
    bench.store.set_busy(3, true);
    for round in 0..200 {
        bench.write(round % 50 * 4 * CHUNK, 4 * CHUNK);
    }
    let counters = bench.store.counters();
    let of = |name: &str| counters.iter().find(|(own, _)| *own == name).expect("it counts").1;
    assert!(of("direct_writes") > 50 && of("redirected_writes") > 5, "{counters:?}");
    let mut shown = String::new();
    let _ = write!(shown, "{:?}", bench.env.block_on(bench.store.audit(0, 50 * 4 * CHUNK)));
    assert_eq!(shown, "[]");
}

/// A long read waits for another drive; what it has read here is written over meanwhile, read again
/// and copied. Then the long read is answered, and its copy, which is old, went to the same slot.
#[test]
fn an_old_copy_does_not_overwrite_a_newer_one() {
    let env = VirtEnv::fifo(1);
    let disks: Vec<Disk> =
        (0..5).map(|at| Disk::new(format!("d{at}"), 32 << 20, 4096, at)).collect();
    let faults: Vec<Faults> = (0..5).map(Faults::new).collect();
    let attach = |(disk, faults): (&Disk, &Faults)| -> VirtDrive {
        let drive = VirtDrive::attach(&env, disk, Latency::SSD);
        AnyDrive::new(Faulty::new(&env, drive, faults)).into()
    };
    let drives: Vec<VirtDrive> = disks.iter().zip(&faults).map(attach).collect();
    let (name, redundancy, staging) = ("tank".into(), Redundancy::Parity(1), RESERVED);
    // Without them nothing but the copy says what is right.
    let checksums = false;
    let spec = Spec { name, redundancy, width: 5, chunk: CHUNK, staging, checksums };
    env.block_on(create(&env, &drives, &spec)).expect("it fits");
    let store = env.block_on(open(&env, drives, Options::default())).expect("it opens");
    while env.block_on(store.work()).expect("agrees") {}
    let at = |millis| env.sleep_until(env.now() + Nanos::from_millis(millis));
    // Stripe 7 has its first chunk on drive 3, the second on drive 4.
    let stripe = 7 * 4 * CHUNK;
    env.block_on(async {
        store.read(stripe, 4 * KIB).await.expect("reads");
        let hang = Fault::new(Effect::Hang(Some(Nanos::from_millis(50))));
        faults[4].arm(env.now(), hang.on(Operation::Read).once()).expect("a fault");
        let long = async {
            store.read(stripe, 2 * CHUNK).await.expect("reads");
        };
        let meanwhile = async {
            at(5).await;
            store.write(stripe, Buf::from_slice(&[9; 4096]), true).await.expect("writes");
            store.read(stripe, 4 * KIB).await.expect("reads");
        };
        futures_util::future::join(long, meanwhile).await;
        at(10).await;
        store.set_busy(3, true);
        let read = store.read(stripe, 4 * KIB).await.expect("reads");
        assert!(*read == [9; 4096], "the copy is older than what was written");
    });
    let hot = store.counters().into_iter().find(|(name, _)| *name == "hot_reads");
    assert_eq!(hot, Some(("hot_reads", 1)));
}
