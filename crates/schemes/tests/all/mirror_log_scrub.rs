//! Scrub of `mirror-log`: what rots in one copy of a segment is put right from the other.

use classical::Scrubbed;
use io::Buf;
use io::rng::Rng;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use schemes::Store;
use schemes::scheme::mirror_log::{MirrorLog, Spec, create};

use crate::scrub::scrub;

const PAGE: u64 = 4096;
const DRIVE: u64 = 12 << 20;
const BYTES: usize = 3 << 20;

struct Bench {
    env: VirtEnv,
    disks: Vec<Disk>,
    store: MirrorLog<VirtEnv>,
    truth: Vec<u8>,
}

fn disk(at: u64) -> Disk {
    Disk::new(format!("d{at}"), DRIVE, 4096, at)
}

fn open(env: &VirtEnv, disks: &[Disk]) -> MirrorLog<VirtEnv> {
    let drives = disks.iter().map(|disk| VirtDrive::attach(env, disk, Latency::SSD));
    env.block_on(MirrorLog::open(env, drives.collect())).expect("it opens")
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.env.crash();
    }
}

impl Bench {
    /// Two drives, some segments closed and some appended to.
    fn new(checksums: bool) -> Bench {
        Bench::of(2, checksums)
    }

    /// So many drives.
    fn of(width: usize, checksums: bool) -> Bench {
        let env = VirtEnv::fifo(1);
        let disks: Vec<Disk> = (0..width as u64).map(disk).collect();
        let drives: Vec<VirtDrive> =
            disks.iter().map(|disk| VirtDrive::attach(&env, disk, Latency::SSD)).collect();
        let name = "tank".to_owned();
        let spec = Spec { name, width, chunk: 16384, segment: Some(64 << 10), checksums };
        env.block_on(create(&env, &drives, &spec)).expect("it fits");
        let mut truth = vec![0; BYTES];
        Rng::new(5).fill(&mut truth);
        let store = open(&env, &disks);
        let bench = Bench { env, disks, store, truth };
        for (at, some) in bench.truth.chunks(20 << 10).enumerate() {
            let write = bench.store.write(at as u64 * (20 << 10), Buf::from_slice(some), false);
            bench.env.block_on(write).expect("writes");
        }
        bench.env.block_on(bench.store.flush()).expect("flushes");
        bench
    }

    fn scrub(&self) -> Scrubbed {
        self.env.block_on(scrub(&self.store))
    }

    /// Where on a drive this page of what was written lies.
    fn place(&self, drive: usize, page: usize) -> u64 {
        let wanted = &self.truth[page * PAGE as usize..][..PAGE as usize];
        let mut places = (0..DRIVE / PAGE).map(|at| at * PAGE);
        let is_it = |at: &u64| self.disks[drive].peek(*at, PAGE as usize) == wanted;
        places.find(is_it).expect("every drive of two has it")
    }

    /// Pages of the log on a drive: all that is not as on a blank one, but labels.
    fn written(&self, drive: usize) -> Vec<u64> {
        let blank = disk(drive as u64);
        let inside = (1 << 20) / PAGE..(DRIVE - (1 << 20)) / PAGE;
        let differs = |at: &u64| {
            let page = |disk: &Disk| disk.peek(at * PAGE, PAGE as usize);
            page(&self.disks[drive]) != page(&blank)
        };
        inside.filter(differs).map(|at| at * PAGE).collect()
    }

    fn read(&self) -> Buf {
        self.env.block_on(self.store.read(0, BYTES as u64)).expect("reads")
    }
}

#[test]
fn what_rots_on_one_drive_is_put_right() {
    for seed in 0..6 {
        // Records have checksums in any case.
        let mut bench = Bench::new(seed % 3 > 0);
        let nothing = bench.scrub();
        assert_eq!(Scrubbed { bytes: 0, ..nothing }, Scrubbed::default());
        assert!(nothing.bytes >= 2 * BYTES as u64, "both copies: {nothing:?}");
        let mut rng = Rng::new(seed);
        let mut written = bench.written(1);
        for _ in 0..80 {
            let at = written.swap_remove(rng.index(written.len()));
            bench.disks[1].corrupt(at + rng.below(PAGE - 8), 1 + rng.below(8), seed);
        }
        for at in [3, 9] {
            bench.disks[1].fail_nth_read(at);
        }
        let found = bench.scrub();
        // Only what is at rest in places that were given back need not be found.
        assert!(found.bad > 40 && found.metadata > 0, "{found:?}");
        assert_eq!((found.repaired, found.lost), (found.bad, 0), "{found:?}");
        let health = bench.store.kept()[0].health();
        assert_eq!(health.repaired, found.bad + found.metadata, "{health:?}");
        let second = bench.scrub();
        assert_eq!(Scrubbed { bytes: 0, ..second }, Scrubbed::default(), "a second scrub");
        // With nothing but that drive.
        bench.env.block_on(bench.store.close()).expect("closes");
        bench.env.crash();
        bench.store = open(&bench.env, &bench.disks[1..]);
        assert!(*bench.read() == *bench.truth, "seed {seed}");
    }
}

/// Noise all over a drive: nothing shows any more that its places are copies. A scrub gives
/// everything two copies again, or the next drive's loss would be that of data.
#[test]
fn after_a_scrub_everything_bears_a_loss_again() {
    for hurt in 0..3 {
        let mut bench = Bench::of(3, true);
        bench.env.block_on(bench.store.close()).expect("closes");
        bench.env.crash();
        for at in bench.written(hurt) {
            bench.disks[hurt].corrupt(at, PAGE, at);
        }
        bench.store = open(&bench.env, &bench.disks);
        assert!(lacking(&bench.store) > 5, "{:?}", bench.store.counters());
        let found = bench.scrub();
        assert_eq!((lacking(&bench.store), found.lost), (0, 0), "{found:?}");
        bench.env.block_on(bench.store.close()).expect("closes");
        bench.env.crash();
        let next = (hurt + 1) % 3;
        bench.disks[next] = disk(90);
        bench.store = open(&bench.env, &bench.disks);
        assert!(*bench.read() == *bench.truth, "{hurt}, then {next}");
    }
}

fn lacking(store: &MirrorLog<VirtEnv>) -> u64 {
    let counters = store.counters();
    counters.iter().find(|(name, _)| *name == "segments_degraded").expect("it is one").1
}

#[test]
fn a_block_that_rots_in_both_copies_is_lost_and_told() {
    let bench = Bench::new(true);
    for drive in [0, 1] {
        bench.disks[drive].corrupt(bench.place(drive, 77), 3, drive as u64);
    }
    let found = bench.scrub();
    assert_eq!((found.bad, found.repaired, found.lost), (1, 0, 1), "{found:?}");
    let told = bench.store.kept()[0].take_notes();
    assert_eq!(told.len(), 1);
    assert!(!told[0].repaired && told[0].drive == "d0", "{told:?}");
    // Written again it is as any other.
    let right = Buf::from_slice(&bench.truth[77 * PAGE as usize..][..PAGE as usize]);
    bench.env.block_on(bench.store.write(77 * PAGE, right, true)).expect("writes");
    assert_eq!(bench.scrub().lost, 0);
    assert!(*bench.read() == *bench.truth);
}

/// Beside a scrub blocks are written and segments emptied: it finds nothing wrong.
#[test]
fn a_scrub_beside_requests_finds_nothing() {
    let bench = Bench::new(true);
    let mut rng = Rng::new(3);
    bench.env.block_on(async {
        let writes = async {
            for _ in 0..400 {
                let at = rng.below((BYTES as u64 - (16 << 10)) / 512) * 512;
                let bytes = &bench.truth[at as usize..][..4096 + 512];
                bench.store.write(at, Buf::from_slice(bytes), false).await.expect("writes");
                bench.store.work().await.expect("works");
            }
        };
        let scrubs = async {
            for _ in 0..4 {
                let kept = bench.store.kept();
                let mut step = Some(0);
                while let Some(at) = step {
                    let (found, next) = kept[0].scrub_some(at).await.expect("scrubs");
                    assert_eq!(Scrubbed { bytes: 0, ..found }, Scrubbed::default());
                    step = next;
                }
            }
        };
        futures_util::future::join(writes, scrubs).await;
    });
    assert!(*bench.read() == *bench.truth);
}
