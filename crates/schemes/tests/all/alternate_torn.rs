//! `alternate` when the power fails in the middle of a batch, and the log of the replica that could
//! help has rotted; or again while the pool is opened.

use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::scheme::alternate::{Alternate, Options, Spec, create};
use schemes::{Store, StoreError};

const PAGE: usize = 4096;
const SECTOR: usize = 512;
const DRIVE: u64 = 12 << 20;

/// The machine, and what is on its drives.
struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.env.crash();
    }
}

impl Bench {
    /// Two replicas, of a drive each or of three.
    fn new(parity: usize) -> Bench {
        let (env, width) = (VirtEnv::fifo(1), 1 + 2 * parity);
        let disk = |at: usize| Disk::new(format!("d{at}"), DRIVE, SECTOR as u32, at as u64);
        let bench = Bench { env, disks: (0..2 * width).map(disk).collect() };
        let spec = Spec { parity, cache: 1 << 20, chunk: 8192, ..Spec::new("tank", width) };
        let drives = bench.drives();
        bench.env.block_on(create(&bench.env, &drives, &spec)).expect("it fits");
        bench
    }

    fn drives(&self) -> Vec<VirtDrive> {
        let attach = |disk| VirtDrive::attach(&self.env, disk, Latency::SSD);
        self.disks.iter().map(attach).collect()
    }

    async fn open(&self) -> Result<Alternate<VirtEnv>, StoreError> {
        Alternate::open(&self.env, self.drives(), Options::default()).await
    }

    fn opened(&self) -> Alternate<VirtEnv> {
        self.env.block_on(self.open()).expect("it opens")
    }

    fn write(&self, store: &Alternate<VirtEnv>, sectors: std::ops::Range<usize>, byte: u8) {
        let data = Buf::from_slice(&vec![byte; sectors.len() * SECTOR]);
        let done = store.write((sectors.start * SECTOR) as u64, data, false);
        self.env.block_on(done).expect("writes");
    }

    fn flush(&self, store: &Alternate<VirtEnv>) {
        self.env.block_on(store.flush()).expect("flushes");
    }

    /// A page of ones is in place everywhere, and all but its ends are twos, flushed.
    fn change_middle(&self, store: &Alternate<VirtEnv>) {
        self.write(store, 0..8, 1);
        self.flush(store);
        self.settle(store);
        self.write(store, 1..7, 2);
        self.flush(store);
    }

    /// All there is to do in this window.
    fn work(&self, store: &Alternate<VirtEnv>) {
        self.env.block_on(async { while store.work().await.expect("works") {} });
    }

    /// All replicas have everything.
    fn settle(&self, store: &Alternate<VirtEnv>) {
        for _ in 0..4 {
            self.work(store);
            self.sleep();
        }
    }

    /// Another window.
    fn sleep(&self) {
        self.env.block_on(self.env.sleep_until(self.env.now() + Nanos::from_millis(501)));
    }

    /// Pages of a drive that begin like that.
    fn places<'a>(&'a self, drive: usize, begin: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        let disk = &self.disks[drive];
        let places = (0..DRIVE).step_by(PAGE);
        places.filter(move |at| disk.peek(*at, begin.len()) == begin)
    }

    /// The drive of the one that has written a page that begins like that, and where it is.
    fn only_place(&self, begin: &[u8]) -> (usize, u64) {
        let places = |drive| self.places(drive, begin).max().map(|at| (drive, at));
        let places: Vec<(usize, u64)> = (0..2).filter_map(places).collect();
        assert_eq!(places.len(), 1, "the window is not over");
        places[0]
    }

    /// The machine stops within what is done here, after so many writes to drives. False: it is
    /// done before.
    fn cut<T>(&self, writes: u64, what: impl Future<Output = T>, rng: &mut Rng) -> bool {
        self.env.set_write_limit(self.env.writes_issued() + writes);
        let is_cut = self.env.run_until(what, || self.env.write_limit_reached()).is_none();
        self.env.set_write_limit(u64::MAX);
        self.stop(rng);
        is_cut
    }

    fn stop(&self, rng: &mut Rng) {
        self.env.crash();
        self.disks.iter().for_each(|disk| disk.power_cut(rng, CutMode::Random));
    }

    fn page(&self) -> Vec<u8> {
        let store = self.opened();
        let page = self.env.block_on(store.read(0, PAGE as u64)).expect("reads").to_vec();
        self.env.crash();
        page
    }

    /// Every record of the log.
    fn rot_log(&self, drive: usize) {
        for at in (0..DRIVE).step_by(PAGE) {
            if self.disks[drive].peek(at, 8) == b"STDYALGR" {
                self.disks[drive].corrupt(at, PAGE as u64, at);
            }
        }
    }
}

fn sector(page: &[u8], at: usize) -> u8 {
    let bytes = &page[at * SECTOR..][..SECTOR];
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "sector {at} is torn");
    bytes[0]
}

fn sectors(page: &[u8]) -> Vec<u8> {
    (0..PAGE / SECTOR).map(|at| sector(page, at)).collect()
}

/// Power failed when the first of the replicas had said that another opening began, and its log was
/// not empty yet: the page of the last batch came over what was flushed after it, and what was on
/// its place already (worlds of replicas with parity, seeds 102, 192, 232, 250 and 260).
#[test]
fn an_opening_that_is_cut_short_brings_back_no_page_of_before() {
    let (mut cut_short, mut rng) = (0, Rng::new(3));
    for writes in 1.. {
        let bench = Bench::new(1);
        let store = bench.opened();
        // In place on both, and in both logs: these are not freed for so little.
        bench.write(&store, 1..2, 1);
        bench.settle(&store);
        bench.write(&store, 2..3, 2);
        bench.flush(&store);
        drop(store);
        bench.stop(&mut rng);
        let is_cut = bench.cut(writes, bench.open(), &mut rng);
        cut_short += u64::from(is_cut);
        let page = bench.page();
        assert_eq!([1, 2].map(|at| sector(&page, at)), [1, 2], "cut after {writes} writes");
        if !is_cut {
            break;
        }
    }
    assert!(cut_short > 20, "{cut_short} openings were cut");
}

/// Power failed while the one that wrote had a page half written of which another write, flushed,
/// was in place there before; only the log of the other one had it, and rotted (worlds of replicas
/// of a drive, seeds 130, 157 and 180).
#[test]
fn a_torn_page_is_had_from_the_log_of_the_one_that_wrote_it() {
    let mut cut_short = 0;
    for seed in 0..60 {
        let bench = Bench::new(0);
        let (store, mut rng) = (bench.opened(), Rng::new(seed));
        bench.write(&store, 0..8, 1);
        bench.flush(&store);
        bench.settle(&store);
        bench.write(&store, 0..1, 2);
        bench.work(&store);
        let (writer, _) = bench.only_place(&both(2, 1));
        bench.flush(&store);
        bench.write(&store, 1..7, 3);
        let work = async { while store.work().await.expect("works") {} };
        cut_short += u64::from(bench.cut(1 + rng.below(6), work, &mut rng));
        bench.rot_log(1 - writer);
        let page = bench.page();
        assert_eq!([0, 7].map(|at| sector(&page, at)), [2, 1], "seed {seed}");
        assert!((1..7).all(|at| [1, 3].contains(&sector(&page, at))), "seed {seed}");
    }
    assert!(cut_short > 20, "{cut_short} were cut");
}

/// Power failed while one of them had a page half written that the other one had whole, and that
/// one's rotted: what lay beside the data was flushed long before (worlds of replicas of a drive,
/// seed 205).
#[test]
fn what_lies_beside_a_torn_write_is_had_from_the_log() {
    let mut cut_short = 0;
    for seed in 0..60 {
        let bench = Bench::new(0);
        let (store, mut rng) = (bench.opened(), Rng::new(seed));
        bench.change_middle(&store);
        bench.work(&store);
        let (writer, at) = bench.only_place(&both(1, 2));
        bench.sleep();
        let work = async { while store.work().await.expect("works") {} };
        cut_short += u64::from(bench.cut(1 + rng.below(8), work, &mut rng));
        bench.disks[writer].corrupt(at, PAGE as u64, seed);
        assert_eq!(sectors(&bench.page()), [1, 2, 2, 2, 2, 2, 2, 1], "seed {seed}");
    }
    assert!(cut_short > 20, "{cut_short} were cut");
}

/// The page of one has rotted, the other one's is torn by an opening that is cut short: its log has
/// all of it by then (worlds of three replicas, seed 123).
#[test]
fn a_page_that_is_torn_by_an_opening_is_had_from_its_log() {
    let mut cut_short = 0;
    for seed in 0..60 {
        let bench = Bench::new(0);
        let (store, mut rng) = (bench.opened(), Rng::new(seed));
        bench.change_middle(&store);
        drop(store);
        bench.stop(&mut rng);
        let rotten = rng.index(2);
        let at = bench.places(rotten, &both(1, 1)).max().expect("it is in place");
        bench.disks[rotten].corrupt(at, PAGE as u64, seed);
        cut_short += u64::from(bench.cut(1 + rng.below(20), bench.open(), &mut rng));
        assert_eq!(sectors(&bench.page()), [1, 2, 2, 2, 2, 2, 2, 1], "seed {seed}");
    }
    assert!(cut_short > 20, "{cut_short} were cut");
}

/// Of a page that one had written nothing told, as its log rotted; another one of the same stripe
/// was told of, and the stripe passed for looked at (worlds of three replicas, seed 339).
#[test]
fn replicas_agree_where_the_log_rotted_beside_what_is_told() {
    let bench = Bench::new(0);
    let store = bench.opened();
    bench.write(&store, 0..16, 1);
    bench.flush(&store);
    bench.settle(&store);
    bench.write(&store, 0..8, 2);
    bench.flush(&store);
    bench.write(&store, 8..16, 3);
    bench.work(&store);
    let (writer, _) = bench.only_place(&both(3, 3));
    bench.stop(&mut Rng::new(5));
    bench.rot_log(writer);
    let store = bench.opened();
    let wrong = bench.env.block_on(store.audit(0, 2 * PAGE as u64));
    assert_eq!(wrong, Vec::<String>::new());
    let page = bench.env.block_on(store.read(0, PAGE as u64)).expect("reads");
    assert_eq!(sector(&page, 0), 2);
}

/// It kept all that came after it, and the log was full some seconds later (a storm of `alternate`
/// of three, seed 911003).
#[test]
fn what_an_opening_has_logged_is_freed() {
    let bench = Bench::new(0);
    let store = bench.opened();
    bench.write(&store, 1..2, 1);
    bench.flush(&store);
    drop(store);
    bench.stop(&mut Rng::new(5));
    let store = bench.opened();
    let log = 4 << 20;
    for at in 0..2 * log / PAGE {
        bench.write(&store, 8 * at % 4096..8 * at % 4096 + 8, at as u8);
        bench.flush(&store);
    }
    bench.settle(&store);
    let page = bench.env.block_on(store.read(0, PAGE as u64)).expect("reads");
    assert_eq!(sector(&page, 0), (2 * log / PAGE - 512) as u8);
}

fn both(first: u8, second: u8) -> Vec<u8> {
    [[first; SECTOR], [second; SECTOR]].concat()
}
