//! The table of volumes and the maps below it, when the power goes at any write while they change
//! and drives rot, are noise, go stale or are gone before anybody looks: the pool opens, and has
//! every volume that was made and all that was flushed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::future::join;
use io::rng::{Rng, mix};
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::any::AnyStore;
use schemes::scheme::{OpenOptions, Scheme, Spec};
use schemes::store::{Replace, Store};
use schemes::{VolumeError, Volumes};

use crate::battery::afflicted::noise;
use crate::battery::rotten::spoil;
use crate::battery::world::every_seed;
use crate::scrub::scrub;

type Pool = Volumes<VirtEnv, AnyStore<VirtEnv>>;

const SIZE: u64 = 1 << 20;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "a-much-longer-name.of_a.volume"];
/// Scheme, drives and how many of them may be hurt together, bytes of each with small chunks.
const SUBJECTS: [(Scheme, u64, usize, u64); 6] = [
    (Scheme::Raid1, 2, 1, 6 << 20),
    (Scheme::Raid1, 3, 2, 6 << 20),
    (Scheme::Raid5, 4, 1, 6 << 20),
    (Scheme::Raid6, 5, 2, 6 << 20),
    (Scheme::Raid5, 3, 1, 6 << 20),
    (Scheme::Hybrid, 5, 1, 8 << 20),
];
/// Images of all drives that are kept, one for each round.
const IMAGES: usize = 3;
/// Worlds of each; others with SCHEME_FIRST and SCHEME_SEEDS.
const SEEDS: u64 = 6;

/// A write of a volume: where, how much, and by which number.
#[derive(Clone, Copy, Debug)]
struct Written {
    at: u64,
    len: u64,
    number: u64,
    durable: bool,
}

#[derive(Clone, Debug, Default)]
struct Expected {
    size: u64,
    /// Nothing is written twice.
    written: Vec<Written>,
}

impl Expected {
    fn end(&self) -> u64 {
        self.written.last().map_or(0, |last| last.at + last.len)
    }
}

#[derive(Default)]
struct Oracle {
    volumes: BTreeMap<&'static str, Expected>,
    /// A verb under way: volume, and what it is if that was in time.
    in_doubt: Option<(&'static str, Option<u64>)>,
    next: u64,
}

struct World {
    env: VirtEnv,
    disks: Vec<Disk>,
    images: Vec<Vec<Disk>>,
    hurt_max: usize,
    rng: Rng,
    oracle: RefCell<Oracle>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.env.crash();
    }
}

fn content(number: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    Rng::new(mix(number)).fill(&mut bytes);
    bytes
}

impl World {
    fn new(seed: u64, (scheme, drives, hurt_max, size): (Scheme, u64, usize, u64)) -> World {
        let align = if seed.is_multiple_of(2) { 512 } else { 4096 };
        let mut rng = Rng::new(mix(seed));
        // With large ones, whose log is larger, both slots of the table lie in one stripe.
        let (chunk, more) = [(8192, 0), (65536, 6 << 20)][rng.index(2)];
        let disk = |at| Disk::new(format!("d{at}"), size + more, align, seed ^ at);
        let disks: Vec<Disk> = (0..drives).map(disk).collect();
        let (env, oracle) = (VirtEnv::new(seed), RefCell::default());
        let world = World { env, disks, images: Vec::new(), hurt_max, rng, oracle };
        let spec = Spec { chunk, ..Spec::new("tank", scheme) };
        world.env.block_on(spec.create(&world.env, &world.drives())).expect("it is made");
        world
    }

    fn drives(&self) -> Vec<VirtDrive> {
        let there = self.disks.iter().filter(|disk| !disk.is_failed());
        there.map(|disk| VirtDrive::attach(&self.env, disk, Latency::SSD)).collect()
    }

    fn open(&self) -> Pool {
        let opened = self.env.block_on(async {
            let store = AnyStore::open(&self.env, self.drives(), OpenOptions::default()).await?;
            Volumes::open(&self.env, store).await
        });
        opened.unwrap_or_else(|error| panic!("open: {error}"))
    }

    /// Verbs beside writes, until the power goes at some write or some time after it.
    fn session(&mut self) {
        let pool = self.open();
        let limit = self.env.writes_issued() + self.rng.below(150);
        let late = self.rng.chance(1, 2).then(|| self.rng.below(400_000));
        if late.is_none() {
            self.env.set_write_limit(limit);
        }
        let (ends, seeds) = (Cell::new(None), [self.rng.next_u64(), self.rng.next_u64()]);
        let works = self.rng.chance(1, 2);
        let stop = || {
            if self.env.writes_issued() >= limit && ends.get().is_none() {
                ends.set(Some(self.env.now().0 + late.unwrap_or(0)));
            }
            ends.get().is_some_and(|end| self.env.now().0 >= end)
        };
        let work = join(self.verbs(&pool, Rng::new(seeds[0])), async {
            self.writes(&pool, Rng::new(seeds[1]), works).await;
        });
        let cut = self.env.run_until(work, stop).is_none();
        assert!(cut, "they go on for ever");
        self.cut();
    }

    fn cut(&mut self) {
        self.env.crash();
        self.env.set_write_limit(u64::MAX);
        let modes = [CutMode::DropAll, CutMode::KeepAll, CutMode::Random, CutMode::Random];
        let mode = modes[self.rng.index(modes.len())];
        let mut fate = Rng::new(self.rng.next_u64());
        self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, mode));
    }

    async fn verbs(&self, pool: &Pool, mut rng: Rng) {
        loop {
            let name = NAMES[rng.index(NAMES.len())];
            let expected = self.oracle.borrow().volumes.get(name).cloned();
            let sectors = SIZE / 512 + rng.below(SIZE / 512);
            let doubt = |size| self.oracle.borrow_mut().in_doubt = Some((name, size));
            let done = match expected {
                None => {
                    doubt(Some(sectors * 512));
                    pool.create(name, sectors * 512).await.map(|()| Some(sectors * 512))
                }
                Some(_) if rng.chance(1, 4) => {
                    doubt(None);
                    pool.delete(name).await.map(|()| None)
                }
                Some(_) => {
                    doubt(Some(sectors * 512));
                    pool.resize(name, sectors * 512).await.map(|()| Some(sectors * 512))
                }
            };
            self.done(name, done);
            self.env.sleep_until(self.env.now() + Nanos(rng.below(1_000_000))).await;
        }
    }

    /// What came of a verb: the size of the volume, or that it is no more.
    fn done(&self, name: &'static str, done: Result<Option<u64>, VolumeError>) {
        let mut oracle = self.oracle.borrow_mut();
        oracle.in_doubt = None;
        match done {
            Ok(Some(size)) => oracle.volumes.entry(name).or_default().size = size,
            Ok(None) => drop(oracle.volumes.remove(name)),
            Err(VolumeError::InUse(_) | VolumeError::ShrinkBelowData { .. }) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }

    async fn writes(&self, pool: &Pool, mut rng: Rng, works: bool) {
        loop {
            self.env.sleep_until(self.env.now() + Nanos(rng.below(200_000))).await;
            if works {
                pool.store().work().await.unwrap_or_else(|error| panic!("work: {error}"));
            }
            let name = NAMES[rng.index(NAMES.len())];
            let leaves = self.oracle.borrow().in_doubt == Some((name, None));
            let Some(volume) = pool.volume(name).filter(|_| !leaves) else { continue };
            let (at, number) = {
                let mut oracle = self.oracle.borrow_mut();
                oracle.next += 1;
                (oracle.volumes.get(name).map_or(0, Expected::end), oracle.next)
            };
            let len = 512 * (1 + rng.below(24));
            let fua = rng.chance(1, 3);
            if at + len <= SIZE {
                let mut own = Written { at, len, number, durable: false };
                match volume.write(at, Buf::from_slice(&content(number, len)), fua).await {
                    Err(VolumeError::NoSpace) => continue,
                    done => done.unwrap_or_else(|error| panic!("write of {name}: {error}")),
                }
                own.durable = fua;
                let mut oracle = self.oracle.borrow_mut();
                oracle.volumes.get_mut(name).expect("it is in use").written.push(own);
            }
            if rng.chance(1, 3) {
                let before = self.oracle.borrow().next;
                pool.flush().await.expect("flushes");
                let mut oracle = self.oracle.borrow_mut();
                let all = oracle.volumes.values_mut().flat_map(|own| &mut own.written);
                all.filter(|own| own.number <= before).for_each(|own| own.durable = true);
            }
        }
    }

    /// Some of the drives rot, or what is in their places is out of date, noise or nothing.
    fn hurt(&mut self) {
        let count = self.rng.index(self.hurt_max + 1);
        let first = self.rng.index(self.disks.len());
        let drives = self.disks.len();
        for at in (first..first + count).map(|at| at % drives) {
            let mut rng = Rng::new(self.rng.next_u64());
            match rng.index(7) {
                0 | 1 => noise(&self.disks[at], false, &mut rng),
                2 => noise(&self.disks[at], true, &mut rng),
                3 => {
                    let geometry = self.disks[at].geometry();
                    let blank = Disk::new("blank", geometry.size, geometry.align, rng.next_u64());
                    spoil(&self.disks[at], &blank, 60, &mut rng);
                }
                4 | 5 => {
                    let image = rng.index(self.images.len());
                    self.disks[at] = self.images[image][at].fork();
                }
                _ => self.disks[at].set_failed(true),
            }
        }
    }

    /// Every volume is there that was made, and all that was flushed.
    fn check(&self) -> Pool {
        let pool = self.open();
        let mut oracle = self.oracle.borrow_mut();
        let found: BTreeMap<String, u64> =
            pool.list().into_iter().map(|info| (info.name, info.size)).collect();
        if let Some((name, after)) = oracle.in_doubt.take() {
            match (found.get(name), after) {
                (Some(size), Some(after)) if *size == after => {
                    oracle.volumes.entry(name).or_default().size = after;
                }
                (None, None) => drop(oracle.volumes.remove(name)),
                _ => {}
            }
        }
        let wanted = oracle.volumes.iter();
        let wanted: BTreeMap<String, u64> =
            wanted.map(|(name, own)| ((*name).to_owned(), own.size)).collect();
        assert_eq!(found, wanted);
        for (name, own) in &mut oracle.volumes {
            let volume = pool.volume(name).expect("it is there");
            for Written { at, len, number, durable } in own.written.clone() {
                if !durable {
                    continue;
                }
                let read = self.env.block_on(volume.read(at, len));
                let read = read.unwrap_or_else(|error| panic!("{name}, {at}: {error}"));
                let same = read.iter().flat_map(|buf| buf.iter()).eq(&content(number, len));
                assert!(same, "{name}: what was written to {at} is not there");
            }
        }
        pool
    }

    /// All drives are there and whole, and everything is durable.
    fn heal(&mut self, pool: Pool) {
        let store = pool.store().clone();
        let mut given = vec![false; self.disks.len()];
        for turn in 0.. {
            let lost = store.lost();
            if lost.is_empty() && store.owed() == 0 {
                break;
            }
            assert!(turn < 20_000, "lost {lost:?}, {} stripes are owed still", store.owed());
            for place in lost.into_iter().filter(|place| !given[*place]).collect::<Vec<_>>() {
                let geometry = self.disks[place].geometry();
                let seed = self.rng.next_u64();
                let new = Disk::new(format!("d{place}"), geometry.size, geometry.align, seed);
                let drive = VirtDrive::attach(&self.env, &new, Latency::SSD);
                if self.env.block_on(store.replace(place, drive)).is_ok() {
                    (self.disks[place], given[place]) = (new, true);
                }
            }
            self.env.block_on(async {
                store.work().await.unwrap_or_else(|error| panic!("work: {error}"));
                self.env.sleep_until(self.env.now() + Nanos::from_micros(100)).await;
            });
        }
        self.env.block_on(scrub(&store));
        self.env.block_on(pool.close()).expect("closes");
        drop(pool);
        self.env.crash();
        // What was in flight may be there or not, and nothing is written over it.
        for own in self.oracle.borrow_mut().volumes.values_mut() {
            own.written.retain(|write| write.durable);
        }
    }
}

fn story(seed: u64, subject: (Scheme, u64, usize, u64)) {
    let mut world = World::new(seed, subject);
    for _ in 0..4 {
        world.images.push(world.disks.iter().map(Disk::fork).collect());
        let old = world.images.len().saturating_sub(IMAGES);
        world.images.drain(..old);
        world.session();
        world.hurt();
        let pool = world.check();
        world.heal(pool);
    }
}

/// The worlds notice when more is hurt than the redundancy bears.
#[test]
fn what_is_not_borne_is_noticed() {
    let fails = |seed: &u64| {
        let (scheme, drives, hurt_max, size) = SUBJECTS[*seed as usize % SUBJECTS.len()];
        let subject = (scheme, drives, hurt_max + 1, size);
        catch_unwind(AssertUnwindSafe(|| story(*seed, subject))).is_err()
    };
    let failing = (0..24).filter(fails).count();
    assert!(failing >= 12, "{failing} of 24 fail");
}

#[test]
fn the_table_and_its_maps_outlive_the_power_and_drives_that_rot_with_it() {
    for subject in SUBJECTS {
        every_seed(&format!("{subject:?}"), SEEDS, |seed| story(seed, subject));
    }
}
