//! A drive that was away knows less than the others. It must not speak for its array when the
//! partner that went on without it is gone in its turn; and nobody else may be taken for such.

use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::any::AnyStore;
use schemes::scheme::{OpenOptions, Scheme, Spec};
use schemes::{Replace, Store, StoreError};

const MIB: u64 = 1 << 20;
/// So large, because the least log of `hpda` has 32 MiB.
const DRIVE: u64 = 48 * MIB;
/// Written in small pieces, and as much again in large ones.
const USED: u64 = MIB;
const SMALL: u64 = 16 << 10;
const STEPS_MAX: usize = 4000;

type Opened = AnyStore<VirtEnv>;

/// A pool that is closed, or crashed, and what it holds.
struct Shelf {
    scheme: Scheme,
    env: VirtEnv,
    disks: Vec<Disk>,
    /// No two environments that follow each other draw the same numbers.
    seed: u64,
    truth: Vec<u8>,
}

impl Shelf {
    /// Written once, and closed.
    fn new(scheme: Scheme, drives: usize, seed: u64) -> Shelf {
        let env = VirtEnv::new(seed);
        let disk = |at: usize| Disk::new(format!("d{at}"), DRIVE, 4096, seed ^ at as u64);
        let disks: Vec<Disk> = (0..drives).map(disk).collect();
        let mut shelf = Shelf { scheme, env, disks, seed, truth: vec![0; 2 * USED as usize] };
        let spec = Spec::new("tank", scheme);
        shelf.env.block_on(spec.create(&shelf.env, &shelf.drives(&[]))).expect("it is made");
        let store = shelf.open(&[]).expect("it opens");
        shelf.write(&store, 1);
        shelf.close(store);
        shelf
    }

    fn fork(&self) -> Shelf {
        let disks = self.disks.iter().map(Disk::fork).collect();
        let (scheme, seed, truth) = (self.scheme, self.seed + 100, self.truth.clone());
        Shelf { scheme, env: VirtEnv::new(seed), disks, seed, truth }
    }

    fn drives(&self, without: &[usize]) -> Vec<VirtDrive> {
        let there = self.disks.iter().enumerate().filter(|(at, _)| !without.contains(at));
        there.map(|(_, disk)| VirtDrive::attach(&self.env, disk, Latency::SSD)).collect()
    }

    fn open(&self, without: &[usize]) -> Result<Opened, StoreError> {
        let opened = AnyStore::open(&self.env, self.drives(without), OpenOptions::default());
        self.env.block_on(opened)
    }

    fn close(&self, store: Opened) {
        self.env.block_on(store.close()).expect("it closes");
        drop(store);
        self.env.crash();
    }

    /// Power is lost, whatever was under way.
    fn die(&self, store: Option<Opened>) {
        drop(store);
        self.env.crash();
        let mut fate = Rng::new(5);
        self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::DropAll));
    }

    /// Everything anew, flushed.
    fn write(&mut self, store: &Opened, seed: u64) {
        Rng::new(seed).fill(&mut self.truth);
        let piece = |at: u64, len: u64| Buf::from_slice(&self.truth[at as usize..][..len as usize]);
        self.env.block_on(async {
            for at in (0..USED).step_by(SMALL as usize) {
                store.write(at, piece(at, SMALL), false).await.expect("writes");
            }
            store.write(USED, piece(USED, USED), false).await.expect("writes");
            store.flush().await.expect("flushes");
        });
    }

    fn agrees(&self, store: &Opened, why: &str) {
        let read = self.env.block_on(store.read(0, 2 * USED)).expect("reads");
        let differs = read.iter().zip(&self.truth).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{why}: not what was written, from that byte on");
    }

    /// Lost drives are back, or others in their places, one by one: of a replica that is lost as a
    /// whole all have to be there. Until nothing is lost, and no label calls a drive restoring.
    fn fill(&self, store: &Opened, why: &str) {
        for _ in 0..2 * self.disks.len() {
            for lost in store.lost() {
                if store.lost().contains(&lost) && store.restoring().is_empty() {
                    let new = VirtDrive::attach(&self.env, &self.disks[lost], Latency::SSD);
                    self.env.block_on(Replace::replace(store, lost, new)).expect("it is lost");
                }
            }
            self.work(store, why);
            if store.lost().is_empty() {
                for place in 0..self.disks.len() {
                    self.env.block_on(Replace::tell_whole(store, place)).expect("says so");
                }
                return;
            }
        }
        panic!("{why}: {:?} lost for ever", store.lost());
    }

    /// Until there is nothing to do.
    fn work(&self, store: &Opened, why: &str) {
        for _ in 0..STEPS_MAX {
            let more = self.env.block_on(async {
                let more = store.work().await.expect("works");
                self.env.sleep_until(self.env.now() + Nanos::from_millis(10)).await;
                more
            });
            if !more && store.restoring().is_empty() {
                return;
            }
        }
        panic!("{why}: {:?} for ever", store.restoring());
    }

    /// One drive is back that knows less, another one is gone: why that is refused. If it is not,
    /// what is read must be right.
    fn refusal(&self, gone: usize, why: &str) -> Option<StoreError> {
        let opened = self.open(&[gone]);
        if let Ok(store) = &opened {
            self.agrees(store, why);
        }
        let refusal = opened.err();
        self.die(None);
        refusal
    }

    /// It is refused because of what is gone.
    fn is_out_of_date(&self, gone: usize, why: &str) {
        match self.refusal(gone, why) {
            Some(StoreError::OutOfDate { missing, .. }) => {
                assert_eq!(missing, format!("drive number {gone}"), "{why}");
            }
            other => panic!("{why}: {other:?}"),
        }
    }

    /// Whatever was tried: with all drives it opens, everything is there, the drive that was away
    /// is filled, and then any other one may go.
    fn recovers(&self, old: usize, why: &str) {
        let store = self.open(&[]).unwrap_or_else(|error| panic!("{why}: {error}"));
        self.agrees(&store, why);
        self.fill(&store, why);
        self.close(store);
        for gone in (0..self.disks.len()).filter(|gone| *gone != old).take(3) {
            let later = self.fork();
            let store = later.open(&[gone]).unwrap_or_else(|error| panic!("{why}: {error}"));
            later.agrees(&store, why);
        }
    }
}

/// The scheme, its drives, and places of which each may be alone in its array with the other.
const SHELVES: [(Scheme, usize, [usize; 2]); 5] = [
    (Scheme::Alternate, 4, [0, 2]),
    (Scheme::CachedRaid5, 5, [0, 1]),
    (Scheme::Hybrid, 6, [0, 1]),
    (Scheme::LogMirror, 5, [3, 4]),
    (Scheme::Hpda, 5, [3, 4]),
];

/// Everything was written while a drive was away, and then its partner is.
#[test]
fn a_drive_that_was_away_does_not_speak_for_those_that_went_on() {
    for (scheme, drives, pair) in SHELVES {
        let first = Shelf::new(scheme, drives, 7);
        for old in 0..drives {
            let mut shelf = first.fork();
            let store = shelf.open(&[old]).expect("it bears it");
            shelf.write(&store, 2);
            shelf.close(store);
            for gone in (0..drives).filter(|gone| *gone != old) {
                let why = format!("{}, {old} was away, {gone} is gone", scheme.name());
                let shelf = shelf.fork();
                match pair.contains(&old) && pair.contains(&gone) {
                    true => shelf.is_out_of_date(gone, &why),
                    false => _ = shelf.refusal(gone, &why),
                }
                if pair.contains(&old) {
                    shelf.recovers(old, &why);
                }
            }
        }
    }
}

/// The same where it is lost while the pool is served, and the pool is not closed.
#[test]
fn a_drive_that_was_lost_while_it_was_served_does_not_either() {
    for (scheme, drives, pair) in SHELVES {
        let first = Shelf::new(scheme, drives, 8);
        for (old, gone) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            let why = format!("{}, {old} was lost, {gone} is gone", scheme.name());
            let mut shelf = first.fork();
            let store = shelf.open(&[]).expect("it opens");
            shelf.disks[old].set_failed(true);
            shelf.write(&store, 2);
            // Replicas are written in turns: a later one notices.
            for _ in 0..8 {
                shelf.env.block_on(async {
                    store.work().await.expect("works");
                    shelf.env.sleep_until(shelf.env.now() + Nanos::from_secs(1)).await;
                    store.flush().await.expect("flushes");
                });
            }
            shelf.env.block_on(store.work()).expect("works");
            shelf.die(Some(store));
            shelf.disks[old].set_failed(false);
            shelf.is_out_of_date(gone, &why);
            shelf.recovers(old, &why);
        }
    }
}

/// However a drive came back, or another came in its place: it knows all, and its partner may go.
#[test]
fn a_drive_that_was_filled_speaks_again() {
    for (scheme, drives, pair) in SHELVES {
        for fresh in [false, true] {
            let mut shelf = Shelf::new(scheme, drives, 9);
            // Twice each, so that both of a pair are others in the end.
            for (round, (old, gone)) in
                [(pair[0], pair[1]), (pair[1], pair[0])].repeat(2).into_iter().enumerate()
            {
                let why = format!("{}, round {round}, {old} came back", scheme.name());
                let store = shelf.open(&[old]).unwrap_or_else(|error| panic!("{why}: {error}"));
                shelf.write(&store, 2 + round as u64);
                shelf.close(store);
                if fresh {
                    let name = format!("n{round}");
                    shelf.disks[old] = Disk::new(name, DRIVE, 4096, 77 + round as u64);
                }
                let missing: Vec<usize> = fresh.then_some(old).into_iter().collect();
                let store = shelf.open(&missing).expect("it opens");
                shelf.fill(&store, &why);
                shelf.write(&store, 12 + round as u64);
                // Nobody closes it.
                shelf.die(Some(store));
                let later = shelf.fork();
                let store = later.open(&[gone]).unwrap_or_else(|error| panic!("{why}: {error}"));
                later.agrees(&store, &why);
            }
        }
    }
}

/// Power is lost at any write of an opening with all drives: none of them has missed anything, and
/// each may go.
#[test]
fn an_opening_that_was_cut_short_makes_nobody_out_of_date() {
    for (scheme, drives, pair) in SHELVES {
        let first = Shelf::new(scheme, drives, 10);
        let mut cut = 0;
        loop {
            let shelf = first.fork();
            let before = shelf.env.writes_issued();
            shelf.env.set_write_limit(before + 1 + cut);
            let open = AnyStore::open(&shelf.env, shelf.drives(&[]), OpenOptions::default());
            let done = shelf.env.run_until(open, || shelf.env.write_limit_reached());
            let whole = done.is_some_and(|opened| opened.is_ok());
            shelf.die(None);
            for gone in pair {
                let why = format!("{}, cut at write {cut}, {gone} is gone", scheme.name());
                let later = shelf.fork();
                let store = later.open(&[gone]).unwrap_or_else(|error| panic!("{why}: {error}"));
                later.agrees(&store, &why);
            }
            if whole {
                break;
            }
            cut += 3;
        }
        assert!(cut > 20, "{}: {cut} writes", scheme.name());
    }
}
