//! `alternate` on drives that rot: what a replica can't give another one has, and gives back.

use classical::{ArrayError, Scrubbed};
use io::rng::Rng;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::scheme::alternate::{Alternate, Options, Spec, create};
use schemes::{Replace, Store, StoreError};

use crate::scrub::scrub;

const PAGE: u64 = 4096;
const BYTES: u64 = 1 << 20;
const DRIVE: u64 = 24 << 20;

struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
    store: Alternate<VirtEnv>,
    truth: Vec<u8>,
    /// Bytes of a drive.
    size: u64,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.env.crash();
    }
}

impl Bench {
    fn new() -> Bench {
        Bench::of(2)
    }

    fn of(replicas: usize) -> Bench {
        Bench::large(replicas, DRIVE)
    }

    fn large(replicas: usize, size: u64) -> Bench {
        let disk = |at| Disk::new(format!("d{at}"), size, 4096, at);
        Bench::on((0..replicas as u64).map(disk))
    }

    fn on(disks: impl Iterator<Item = Disk>) -> Bench {
        let env = VirtEnv::fifo(1);
        let disks: Vec<Disk> = disks.collect();
        let (replicas, size) = (disks.len(), disks[0].geometry().size);
        let drives: Vec<VirtDrive> =
            disks.iter().map(|disk| VirtDrive::attach(&env, disk, Latency::SSD)).collect();
        let spec = Spec { replicas, cache: 1 << 20, ..Spec::new("tank", 1) };
        env.block_on(create(&env, &drives, &spec)).expect("it fits");
        let store = env.block_on(Alternate::open(&env, drives, Options::default()));
        let mut truth = vec![0; BYTES as usize];
        Rng::new(7).fill(&mut truth);
        let bench = Bench { env, disks, store: store.expect("it opens"), truth, size };
        bench.write(0, &bench.truth);
        bench.drain();
        bench
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let done = self.store.write(offset, Buf::from_slice(bytes), false);
        self.env.block_on(done).expect("writes");
    }

    /// Nobody is there any more, and somebody else opens it.
    fn reopen(&mut self) {
        self.env.crash();
        let attach = |disk| VirtDrive::attach(&self.env, disk, Latency::SSD);
        let drives: Vec<VirtDrive> = self.disks.iter().map(attach).collect();
        let opened = self.env.block_on(Alternate::open(&self.env, drives, Options::default()));
        self.store = opened.expect("it opens");
    }

    /// Until both replicas have everything.
    fn drain(&self) {
        self.env.block_on(async {
            for _ in 0..4 {
                while self.store.work().await.expect("works") {}
                self.env.sleep_until(self.env.now() + Nanos::from_millis(501)).await;
            }
        });
    }

    /// The second drive is lost, and another one takes its place.
    fn fill_another(&mut self) {
        self.env.block_on(Replace::write_off(&self.store, 1)).expect("the other has all");
        self.disks[1] = Disk::new("new", self.size, 4096, 77);
        let new = VirtDrive::attach(&self.env, &self.disks[1], Latency::SSD);
        self.env.block_on(Replace::replace(&self.store, 1, new)).expect("it is lost");
        self.drain();
        assert_eq!((self.store.lost(), self.store.filled()), (vec![], None));
    }

    /// Where a page lies in place: the log has it, too, before.
    fn place(&self, drive: usize, page: u64) -> u64 {
        let wanted = &self.truth[(page * PAGE) as usize..][..PAGE as usize];
        let mut places = (0..DRIVE / PAGE).rev().map(|at| at * PAGE);
        let is_it = |at: &u64| self.disks[drive].peek(*at, PAGE as usize) == wanted;
        places.find(is_it).expect("it is in place")
    }

    /// The drive of the replica that has a page in place; the window of the next is yet to come.
    fn only_one_with(&self, page: &[u8]) -> usize {
        let places = (0..DRIVE / PAGE).map(|at| at * PAGE);
        let has = |disk: &Disk| places.clone().any(|at| disk.peek(at, page.len()) == page);
        let drives = (0..self.disks.len()).filter(|drive| has(&self.disks[*drive]));
        let drives: Vec<usize> = drives.collect();
        assert_eq!(drives.len(), 1, "the window is not over");
        drives[0]
    }

    /// Every record of the log.
    fn rot_log(&self, drive: usize) {
        let disk = &self.disks[drive];
        let places = (0..DRIVE / PAGE).map(|at| at * PAGE);
        for at in places.filter(|at| disk.peek(*at, 8) == b"STDYALGR") {
            disk.corrupt(at, PAGE, at);
        }
    }

    fn spoil(&self, drive: usize, page: u64) -> u64 {
        let at = self.place(drive, page);
        self.disks[drive].corrupt(at + 100, 5, page);
        at
    }

    fn is_right(&self) {
        // Both replicas are asked, in turn.
        for _ in 0..4 {
            let read = self.env.block_on(self.store.read(0, BYTES)).expect("reads");
            assert!(*read == *self.truth);
        }
    }

    fn healed(&self) -> u64 {
        let all = self.store.counters();
        all.iter().find(|(name, _)| *name == "healed_from_replicas").expect("it is counted").1
    }

    fn scrub(&self) -> Scrubbed {
        self.env.block_on(scrub(&self.store))
    }
}

/// A drive answers writes and does none: each batch meets pages that are not what they should be,
/// and is tried again. It is not told to the log once more, which has no room for that; and a
/// replica that keeps nothing of what it is given back is lost.
#[test]
fn a_replica_that_keeps_nothing_is_lost() {
    let mut bench = Bench::on((0..2).map(|at| Disk::new(format!("d{at}"), DRIVE, 512, at)));
    bench.disks[1].lose_writes(1_000_000);
    let mut rng = Rng::new(3);
    for page in (0..40).flat_map(|_| 0..BYTES / PAGE) {
        let at = page * PAGE + rng.below(7) * 512;
        let sector = &mut bench.truth[at as usize..][..512];
        rng.fill(sector);
        let done = bench.store.write(at, Buf::from_slice(sector), false);
        bench.env.block_on(done).expect("writes");
    }
    bench.drain();
    assert_eq!(bench.store.lost(), [1]);
    assert!(bench.healed() > 0, "it was given pages back");
    bench.is_right();
}

#[test]
fn a_page_that_is_read_is_given_back() {
    let bench = Bench::new();
    let at =
        [(0, 3), (0, 200), (1, 40)].map(|(drive, page)| (drive, bench.spoil(drive, page), page));
    bench.is_right();
    bench.drain();
    assert_eq!(bench.healed(), 3);
    for (drive, at, page) in at {
        let right = &bench.truth[(page * PAGE) as usize..][..PAGE as usize];
        assert!(bench.disks[drive].peek(at, PAGE as usize) == right, "page {page}");
    }
    let found = bench.scrub();
    assert_eq!((found.bad, found.lost), (0, 0));
    assert_eq!(bench.env.block_on(bench.store.audit(0, BYTES)), Vec::<String>::new());
}

#[test]
fn a_scrub_gives_back_what_nobody_reads() {
    let bench = Bench::new();
    for (drive, page) in [(0, 1), (1, 2), (1, 250)] {
        bench.spoil(drive, page);
    }
    let found = bench.scrub();
    assert_eq!((found.bad, found.repaired, found.lost), (3, 3, 0), "{found:?}");
    let notes = bench.store.kept().into_iter().flat_map(|kept| kept.take_notes());
    assert!(notes.map(|note| note.repaired).eq([true; 3]));
    let second = bench.scrub();
    assert_eq!((second.bad, second.lost), (0, 0));
    bench.is_right();
}

#[test]
fn what_no_replica_has_is_lost_and_nothing_else() {
    let bench = Bench::new();
    bench.spoil(0, 9);
    bench.spoil(1, 9);
    bench.spoil(1, 10);
    let found = bench.scrub();
    assert_eq!((found.bad, found.repaired, found.lost), (3, 1, 2), "{found:?}");
    let read = bench.env.block_on(bench.store.read(9 * PAGE, PAGE));
    assert!(matches!(read, Err(StoreError::Array(ArrayError::PageLost { .. }))), "{read:?}");
    bench.write(9 * PAGE, &bench.truth[9 * PAGE as usize..][..PAGE as usize]);
    bench.drain();
    bench.is_right();
}

/// The rest of a rotten page is needed to write a part of it: it costs nobody the replica.
#[test]
fn a_part_of_a_rotten_page_is_written() {
    let mut bench = Bench::new();
    bench.spoil(0, 5);
    bench.spoil(1, 6);
    for page in [5, 6] {
        let at = page * PAGE as usize + 512;
        bench.truth[at..at + 512].fill(0xEE);
        bench.write(at as u64, &[0xEE; 512]);
    }
    bench.drain();
    assert_eq!((bench.store.lost(), bench.healed()), (Vec::new(), 2));
    bench.is_right();
}

/// One replica has had its window and the other not when the machine stops, and the log that tells
/// of it rots: what the first has is nobody's any more, but their checksums are not the same.
#[test]
fn what_a_log_told_that_rotted_its_checksums_tell() {
    let mut bench = Bench::new();
    // The logs are empty: none of them tells of this page for another reason.
    bench.env.block_on(bench.store.close()).expect("closes");
    bench.reopen();
    let newer = vec![9; PAGE as usize];
    bench.write(0, &newer);
    while bench.env.block_on(bench.store.work()).expect("works") {}
    bench.rot_log(bench.only_one_with(&newer));
    bench.reopen();
    assert_eq!(bench.store.lost(), [] as [usize; 0]);
    assert_eq!(bench.env.block_on(bench.store.audit(0, BYTES)), Vec::<String>::new());
    bench.is_right();
}

/// A page that only one of three had so far, where nothing was ever written, made the others
/// doubtful, though theirs were the logs that had what was flushed since (a storm of `alternate` of
/// three, seed 912005).
#[test]
fn who_has_what_was_flushed_is_believed_whatever_another_has_first() {
    for other in [1, 2] {
        let mut bench = Bench::of(3);
        bench.env.block_on(bench.store.clone().close()).expect("closes");
        bench.reopen();
        let (newer, far) = (vec![9; PAGE as usize], 5 << 20);
        bench.truth[..PAGE as usize].fill(8);
        bench.write(0, &[8; PAGE as usize]);
        bench.env.block_on(bench.store.flush()).expect("flushes");
        bench.write(far, &newer);
        while bench.env.block_on(bench.store.work()).expect("works") {}
        let writer = bench.only_one_with(&newer);
        // Two are borne: the one that has written, and another one.
        bench.spoil(writer, 0);
        bench.rot_log(writer);
        bench.rot_log((writer + other) % 3);
        bench.reopen();
        assert_eq!(bench.env.block_on(bench.store.audit(0, BYTES)), Vec::<String>::new());
        bench.is_right();
        let page = bench.env.block_on(bench.store.read(far, PAGE)).expect("reads");
        assert!(*page == newer || page.iter().all(|byte| *byte == 0));
    }
}

/// A scrub told of lost pages, errors, though every sector was right: storms of `alternate` with
/// rot in the log of a replica, seeds 911001 and 911002.
#[test]
fn what_rots_of_a_log_or_a_page_is_written_anew() {
    let mut bench = Bench::new();
    let mut flushed = vec![0; 40 << 10];
    Rng::new(8).fill(&mut flushed);
    bench.write(3 * PAGE, &flushed);
    bench.truth[3 * PAGE as usize..][..flushed.len()].copy_from_slice(&flushed);
    bench.env.block_on(bench.store.flush()).expect("flushes");
    // Labels and checksums lie before and behind, with copies of their own.
    let all = bench.disks[0].peek(0, DRIVE as usize);
    let used = |at: &u64| all[*at as usize..][..PAGE as usize].iter().any(|byte| *byte != 0);
    let data = bench.place(0, 100);
    let before: Vec<u64> = (1 << 20..data).step_by(PAGE as usize).filter(used).collect();
    assert!(before.len() > 100, "a log was written: {}", before.len());
    for (seed, at) in before.iter().enumerate() {
        bench.disks[0].corrupt(at + 64, 8, seed as u64);
    }
    let found = bench.scrub();
    assert!(found.bad > 100, "{found:?}");
    assert_eq!(found.lost, 0, "{found:?}");
    let second = bench.scrub();
    assert_eq!((second.bad, second.lost), (0, 0), "{second:?}");
    bench.reopen();
    bench.is_right();
}

/// Where nothing was ever written one replica had no checksums, and the one that was filled from it
/// had: the first was taken for one that lost its own, and was filled in turn when the pool was
/// opened the next time (a storm of `alternate`, seed 911005).
#[test]
fn who_was_filled_does_not_make_the_others_doubtful() {
    for closes in [true, false] {
        let mut bench = Bench::new();
        bench.fill_another();
        bench.env.block_on(async {
            match closes {
                true => bench.store.clone().close().await.expect("closes"),
                false => bench.store.flush().await.expect("flushes"),
            }
        });
        bench.reopen();
        assert_eq!((bench.store.lost(), bench.store.filled()), (vec![], None), "{closes}");
        bench.is_right();
    }
}

/// The same after a crash on the way: what was marked was looked at, and got checksums where
/// nothing was ever written (a storm of `alternate` of three, seed 911009).
#[test]
fn who_was_filled_before_a_crash_does_not_make_the_others_doubtful() {
    // More than what may be on its way lacks a checksum.
    let mut bench = Bench::large(2, 64 << 20);
    bench.fill_another();
    for _ in 0..3 {
        bench.reopen();
        assert_eq!((bench.store.lost(), bench.store.filled()), (vec![], None));
        bench.drain();
        bench.is_right();
    }
}

/// A piece of a page that rots in place was to be brought there by the log, and the replica was
/// lost with it; and so was the pool, if another one was to be filled from it.
#[test]
fn what_a_log_has_of_a_rotten_page_costs_nobody_the_replica() {
    for rotten in [vec![0], vec![1], vec![0, 1]] {
        let mut bench = Bench::new();
        bench.env.block_on(bench.store.clone().close()).expect("closes");
        bench.reopen();
        let places: Vec<u64> = rotten.iter().map(|drive| bench.place(*drive, 5)).collect();
        let begin = 5 * PAGE as usize - 1024;
        bench.truth[begin..begin + 2048].fill(0xEE);
        bench.write(begin as u64, &[0xEE; 2048]);
        bench.env.block_on(bench.store.flush()).expect("flushes");
        for (drive, at) in rotten.iter().zip(places) {
            bench.disks[*drive].corrupt(at + 2048, 5, 1);
        }
        bench.reopen();
        assert_eq!((bench.store.lost(), bench.store.filled()), (vec![], None));
        if rotten.len() == 1 {
            bench.is_right();
            continue;
        }
        let before = bench.env.block_on(bench.store.read(0, 5 * PAGE)).expect("reads");
        assert!(*before == bench.truth[..5 * PAGE as usize]);
        let page = bench.env.block_on(bench.store.read(5 * PAGE, PAGE));
        assert!(matches!(page, Err(StoreError::Array(ArrayError::PageLost { .. }))), "{page:?}");
    }
}

/// One page that nobody could read kept a new drive from ever being filled (a storm of `alternate`,
/// seed 911006).
#[test]
fn what_no_replica_has_keeps_nobody_from_being_filled() {
    let mut bench = Bench::new();
    bench.spoil(0, 9);
    bench.fill_another();
    bench.env.block_on(bench.store.clone().close()).expect("closes");
    bench.reopen();
    assert_eq!((bench.store.lost(), bench.store.filled()), (vec![], None));
    for _ in 0..4 {
        let page = bench.env.block_on(bench.store.read(9 * PAGE, PAGE));
        assert!(matches!(page, Err(StoreError::Array(ArrayError::PageLost { .. }))), "{page:?}");
        let after = bench.env.block_on(bench.store.read(10 * PAGE, BYTES - 10 * PAGE));
        assert!(*after.expect("reads") == bench.truth[10 * PAGE as usize..]);
    }
}

/// When the newest page of checksums of a replica of one drive rotted, one from before passed for
/// it, which knew nothing of pages written since: these could rot unnoticed (a world of three, seed
/// 317).
#[test]
fn a_replica_of_one_drive_has_its_newest_checksums_twice() {
    let bench = Bench::new();
    bench.env.block_on(bench.store.clone().close()).expect("closes");
    let all = bench.disks[0].peek(0, DRIVE as usize);
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    for page in all.chunks(PAGE as usize).filter(|page| page.starts_with(b"STDYSUMP")) {
        let of = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
        found.push((of(48), of(32), of(40)));
    }
    found.sort_unstable();
    assert!(found.len() >= 2, "{found:?}");
    assert!(found.chunks(2).all(|pair| pair[0] == pair[1]), "{found:?}");
}
