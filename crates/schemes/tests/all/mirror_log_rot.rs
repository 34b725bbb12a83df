//! `mirror-log` on drives that rot: reads give what was written, what is moved stays right, and
//! what no drive has is an error, of those pages alone.

use classical::ArrayError;
use io::Buf;
use io::rng::Rng;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use schemes::scheme::mirror_log::{MirrorLog, Spec, create};
use schemes::store::Replace;
use schemes::{Store, StoreError};

use crate::scrub::scrub;

const PAGE: usize = 4096;
const DRIVE: u64 = 6 << 20;
const PAGES: usize = 256;

struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
    store: MirrorLog<VirtEnv>,
    truth: Vec<u8>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.env.crash();
    }
}

fn attach(env: &VirtEnv, disk: &Disk) -> VirtDrive {
    VirtDrive::attach(env, disk, Latency::SSD)
}

impl Bench {
    /// A group of so many drives; the first `PAGES` blocks are written.
    fn new(width: usize, checksums: bool) -> Bench {
        let env = VirtEnv::fifo(1);
        let disk = |at| Disk::new(format!("d{at}"), DRIVE, 4096, at as u64);
        let disks: Vec<Disk> = (0..width).map(disk).collect();
        let drives: Vec<VirtDrive> = disks.iter().map(|disk| attach(&env, disk)).collect();
        let name = "tank".to_owned();
        let spec = Spec { name, width, chunk: 16384, segment: Some(64 << 10), checksums };
        env.block_on(create(&env, &drives, &spec)).expect("it fits");
        let store = env.block_on(MirrorLog::open(&env, drives)).expect("it opens");
        let mut truth = vec![0; PAGES * PAGE];
        Rng::new(5).fill(&mut truth);
        let bench = Bench { env, disks, store, truth };
        (0..PAGES).for_each(|page| bench.write(page));
        bench.env.block_on(bench.store.flush()).expect("flushes");
        bench
    }

    fn right(&self, page: usize) -> &[u8] {
        &self.truth[page * PAGE..][..PAGE]
    }

    fn write(&self, page: usize) {
        let data = Buf::from_slice(self.right(page));
        let write = self.store.write((page * PAGE) as u64, data, false);
        self.env.block_on(write).expect("writes");
    }

    fn read(&self, page: usize) -> Result<Buf, StoreError> {
        self.env.block_on(self.store.read((page * PAGE) as u64, PAGE as u64))
    }

    fn reopen(&mut self) {
        self.env.block_on(self.store.close()).expect("closes");
        self.env.crash();
        let drives = self.disks.iter().map(|disk| attach(&self.env, disk)).collect();
        self.store = self.env.block_on(MirrorLog::open(&self.env, drives)).expect("it opens");
    }

    /// Where on a drive what was written to a page lies, as often as it does.
    fn places(&self, drive: usize, page: usize) -> Vec<u64> {
        let all = (0..DRIVE / PAGE as u64).map(|at| at * PAGE as u64);
        all.filter(|at| self.disks[drive].peek(*at, PAGE) == self.right(page)).collect()
    }

    /// Spoils a page wherever it lies on these drives. How many copies of it there were.
    fn rot(&self, page: usize, drives: &[usize]) -> usize {
        let mut count = 0;
        for &drive in drives {
            for at in self.places(drive, page) {
                self.disks[drive].corrupt(at + 100, 3, page as u64);
                count += 1;
            }
        }
        count
    }

    fn repaired(&self) -> u64 {
        self.store.kept()[0].health().repaired
    }

    /// Background work, also what one piece of it leaves to the next.
    fn work(&self) {
        for _ in 0..500 {
            self.env.block_on(self.store.work()).expect("works");
        }
    }
}

fn is_lost(error: &StoreError) -> bool {
    matches!(error, StoreError::Array(ArrayError::PageLost { .. }))
}

/// Before the log is opened anew and afterwards: the sums are in memory, then from summaries.
#[test]
fn every_read_is_right_and_puts_right_what_it_met() {
    let mut bench = Bench::new(2, true);
    for opened in 0..2 {
        let mut rotten = 0;
        for page in (opened..PAGES).step_by(5) {
            rotten += bench.rot(page, &[page % 2]) as u64;
        }
        assert!(rotten > 40, "{rotten}");
        // From one copy or from the other, as it comes: twice both were asked.
        for _ in 0..3 {
            for page in 0..PAGES {
                assert!(*bench.read(page).expect("reads") == *bench.right(page), "page {page}");
            }
            let whole = bench.env.block_on(bench.store.read(0, (PAGES * PAGE) as u64));
            assert!(*whole.expect("reads") == *bench.truth);
        }
        bench.env.block_on(scrub(&bench.store));
        assert_eq!(bench.repaired(), rotten, "each counted once");
        for drive in 0..2 {
            assert!((0..PAGES).all(|page| !bench.places(drive, page).is_empty()), "both have all");
        }
        bench.reopen();
    }
}

/// Two who read the same rotten page at the same time: it is one page, and counted as one.
#[test]
fn who_comes_second_finds_it_right() {
    let bench = Bench::new(2, true);
    bench.rot(9, &[0]);
    let reads = (0..6).map(|_| bench.store.read(9 * PAGE as u64, PAGE as u64));
    for read in bench.env.block_on(io::join_all(reads)) {
        assert!(*read.expect("reads") == *bench.right(9));
    }
    let health = bench.store.kept()[0].health();
    assert_eq!((health.wrong, health.repaired, health.lost), (1, 1, 0));
}

/// Emptying segments must not give rot a new checksum.
#[test]
fn what_is_moved_stays_right() {
    let mut bench = Bench::new(2, true);
    (0..PAGES).step_by(7).for_each(|page| _ = bench.rot(page, &[page % 2]));
    let mut rng = Rng::new(8);
    let moved = |bench: &Bench| {
        let counters = bench.store.counters();
        counters.iter().find(|(name, _)| *name == "blocks_moved").expect("it is one").1
    };
    // Most of all is written again and again: what is left of old segments has to move.
    for _ in 0..6000 {
        let page = rng.index(PAGES);
        if !page.is_multiple_of(7) {
            bench.write(page);
        }
        bench.env.block_on(bench.store.work()).expect("works");
    }
    assert!(moved(&bench) > 0, "nothing was moved");
    bench.reopen();
    for page in 0..PAGES {
        assert!(*bench.read(page).expect("reads") == *bench.right(page), "page {page}");
    }
}

/// Heads of closed segments rot, on one drive after the other: each is written again when the log
/// is opened, so that no copy is given up.
#[test]
fn heads_that_rot_are_put_right() {
    let mut bench = Bench::new(2, true);
    bench.reopen();
    for drive in [0, 1, 0] {
        let all = (0..DRIVE / PAGE as u64).map(|at| at * PAGE as u64);
        let is_head = |at: &u64| bench.disks[drive].peek(*at, 8) == *b"STDYSEGH";
        let heads: Vec<u64> = all.filter(is_head).collect();
        heads.iter().for_each(|at| bench.disks[drive].corrupt(at + 20, 4, *at));
        bench.reopen();
        let counters = bench.store.counters();
        assert!(counters.contains(&("segments_degraded", 0)), "{counters:?}");
        assert!(heads.len() > 10 && bench.repaired() >= heads.len() as u64);
        for page in 0..PAGES {
            assert!(*bench.read(page).expect("reads") == *bench.right(page), "page {page}");
        }
    }
}

/// Both copies are wrong: an error for exactly that page. A drive that is lost and replaced has
/// two copies of all the rest afterwards, and is whole.
#[test]
fn a_page_that_nobody_has_is_an_error_and_stops_nothing_else() {
    let mut bench = Bench::new(3, true);
    const LOST: [usize; 3] = [31, 32, 150];
    LOST.iter().for_each(|page| _ = bench.rot(*page, &[0, 1, 2]));
    let check = |bench: &Bench| {
        for page in 0..PAGES {
            match (LOST.contains(&page), bench.read(page)) {
                (true, Err(error)) => assert!(is_lost(&error), "{error}"),
                (false, Ok(bytes)) => assert!(*bytes == *bench.right(page), "page {page}"),
                (lost, read) => panic!("page {page}, lost {lost}: {:?}", read.map(|_| ())),
            }
        }
    };
    check(&bench);
    check(&bench);
    assert_eq!(bench.store.kept()[0].health().lost, LOST.len() as u64, "each told once");
    bench.env.block_on(bench.store.write_off(1)).expect("two are left");
    let new = Disk::new("new", DRIVE, 4096, 77);
    bench.env.block_on(bench.store.replace(1, attach(&bench.env, &new))).expect("it fits");
    bench.disks[1] = new;
    bench.work();
    assert_eq!((bench.store.lost(), bench.store.margin()), (vec![], 1), "it is whole");
    check(&bench);
    bench.reopen();
    check(&bench);
    // Written again they are as any others.
    LOST.iter().for_each(|page| bench.write(*page));
    for page in 0..PAGES {
        assert!(*bench.read(page).expect("reads") == *bench.right(page), "page {page}");
    }
    bench.work();
    assert_eq!(bench.env.block_on(scrub(&bench.store)).lost, 0);
}

#[test]
fn without_checksums_whatever_is_there_counts() {
    let mut bench = Bench::new(2, false);
    assert!(!bench.store.kept()[0].has_sums());
    assert_eq!(bench.store.kept()[0].health().sums_memory, 0);
    bench.reopen();
    assert!((0..PAGES).all(|page| *bench.read(page).expect("reads") == *bench.right(page)));
    bench.rot(9, &[0, 1]);
    assert!(*bench.read(9).expect("reads") != *bench.right(9));
}
