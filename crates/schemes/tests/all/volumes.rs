//! Volumes on arrays: what they hold through power cuts, when space runs out, when they are
//! trimmed, resized and deleted; and that a small array wedges never.

use std::cell::Cell;
use std::collections::BTreeMap;

use classical::array::create;
use classical::{Array, CreateSpec, OpenOptions, Redundancy};
use io::rng::{Rng, mix};
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, BufMut, Env, join_all};
use schemes::volumes::format;
use schemes::{Store, VolumeError, Volumes};

const SECTOR: u64 = 512;
const GRAIN: u64 = 256 << 10;
const NAMES: [&str; 3] = ["a", "b", "c"];

type Pool = Volumes<VirtEnv, Array<VirtEnv>>;

struct Shelf {
    env: VirtEnv,
    disks: Vec<Disk>,
}

impl Shelf {
    /// Three drives, chunks of 8 KiB: RAID5, so that a grain is 16 stripes, or without redundancy,
    /// so that data stays in the drives' caches until it is flushed.
    fn new(seed: u64, bytes: u64) -> Shelf {
        let env = VirtEnv::new(seed);
        let disk = |at| Disk::new(format!("d{at}"), bytes, 4096, seed ^ at);
        let shelf = Shelf { env, disks: (0..3).map(disk).collect() };
        let (redundancy, width) = (Redundancy::Parity(seed as usize % 2), 3);
        let spec =
            CreateSpec { name: "tank".into(), redundancy, width, chunk: 8192, checksums: true };
        shelf.env.block_on(create(&shelf.env, &shelf.drives(), &spec)).expect("it fits");
        let array = shelf.env.block_on(shelf.array());
        shelf.env.block_on(format(&shelf.env, &array)).expect("there is room");
        shelf
    }

    fn drives(&self) -> Vec<VirtDrive> {
        let attach = |disk| VirtDrive::attach(&self.env, disk, Latency::SSD);
        self.disks.iter().map(attach).collect()
    }

    async fn array(&self) -> Array<VirtEnv> {
        let opened = Array::open(&self.env, self.drives(), OpenOptions::default()).await;
        opened.unwrap_or_else(|error| panic!("open: {error}"))
    }

    fn open(&self) -> Pool {
        let opened =
            self.env.block_on(async { Volumes::open(&self.env, self.array().await).await });
        opened.unwrap_or_else(|error| panic!("open: {error}"))
    }

    fn cut(&self, rng: &mut Rng) {
        self.env.crash();
        let mode = [CutMode::DropAll, CutMode::KeepAll, CutMode::Random][rng.index(3)];
        let mut fate = Rng::new(rng.next_u64());
        self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, mode));
    }
}

/// What sectors may hold: numbers of writes, 0 for zeroes; the newest last.
type Sectors = BTreeMap<u64, Vec<u64>>;

#[derive(Clone, Default)]
struct Expected {
    size: u64,
    sectors: Sectors,
}

impl Expected {
    fn may_be(&mut self, sector: u64) -> &mut Vec<u64> {
        self.sectors.entry(sector).or_insert_with(|| vec![0])
    }

    fn settle(&mut self) {
        for may_be in self.sectors.values_mut() {
            may_be.drain(..may_be.len() - 1);
        }
    }
}

fn content(sector: u64, write: u64) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR as usize];
    if write > 0 {
        Rng::new(mix(write) ^ sector).fill(&mut bytes);
    }
    bytes
}

struct World {
    shelf: Shelf,
    /// Bytes of a grain, which is whole stripes.
    grain: u64,
    rng: Rng,
    next: u64,
    volumes: BTreeMap<&'static str, Expected>,
    /// A verb that a cut may have caught: volume, and what it is if that was in time.
    in_doubt: Option<(&'static str, Option<Expected>)>,
    refused: u64,
}

impl World {
    fn new(seed: u64) -> World {
        // A dozen grains.
        let shelf = Shelf::new(seed, 4 << 20);
        let rng = Rng::new(mix(seed));
        let (volumes, in_doubt) = Default::default();
        let grain = GRAIN.next_multiple_of(8192 * (3 - seed % 2));
        World { shelf, grain, rng, next: 0, volumes, in_doubt, refused: 0 }
    }

    fn draw(&mut self, size: u64) -> (u64, u64) {
        let sectors = size / SECTOR;
        let first = self.rng.below(sectors);
        let most = [16, 600, 1200][self.rng.index(3)];
        (first, (1 + self.rng.below(most)).min(sectors - first))
    }

    /// Requests and verbs until so many writes were issued. True: cut.
    fn session(&mut self, limit: u64) -> bool {
        let pool = self.shelf.open();
        let env = self.shelf.env.clone();
        let limit = env.writes_issued() + limit;
        // Some time after that write: also between the map's pages and what comes then.
        let late = self.rng.below(400_000);
        let ends = Cell::new(None);
        let stop = || {
            if env.writes_issued() >= limit && ends.get().is_none() {
                ends.set(Some(env.now().0 + late));
            }
            ends.get().is_some_and(|end| env.now().0 >= end)
        };
        let cut = {
            let work = async {
                for _ in 0..60 {
                    self.step(&pool).await;
                }
            };
            env.run_until(work, stop).is_none()
        };
        if !cut {
            env.block_on(pool.close()).expect("closes");
            self.volumes.values_mut().for_each(Expected::settle);
        }
        cut
    }

    async fn step(&mut self, pool: &Pool) {
        let name = NAMES[self.rng.index(3)];
        let Some(size) = self.volumes.get(name).map(|expected| expected.size) else {
            let size = (1 + self.rng.below(8 * GRAIN / SECTOR)) * SECTOR;
            let expected = Expected { size, sectors: Sectors::new() };
            self.in_doubt = Some((name, Some(expected.clone())));
            pool.create(name, size).await.expect("a volume takes no space yet");
            self.volumes.insert(name, expected);
            self.in_doubt = None;
            return;
        };
        match self.rng.below(40) {
            0 => self.delete(pool, name).await,
            1..3 => self.resize(pool, name).await,
            3..20 => self.write(pool, name, size).await,
            20..24 => self.zero(pool, name, size).await,
            24..28 => self.trim(pool, name, size).await,
            28..32 => self.flush(pool, name).await,
            _ => self.read(pool, name, size).await,
        }
    }

    async fn delete(&mut self, pool: &Pool, name: &'static str) {
        self.in_doubt = Some((name, None));
        pool.delete(name).await.expect("nobody uses it");
        self.volumes.remove(name);
        self.in_doubt = None;
    }

    async fn resize(&mut self, pool: &Pool, name: &'static str) {
        let size = (1 + self.rng.below(8 * GRAIN / SECTOR)) * SECTOR;
        let mut after = self.volumes[name].clone();
        after.size = size;
        for (_, may_be) in after.sectors.range_mut(size / SECTOR..) {
            may_be.push(0);
        }
        // Cut off before the table says so: zeroes already.
        let before = Expected { size: self.volumes[name].size, ..after.clone() };
        let old = self.volumes.insert(name, before).expect("it is there");
        self.in_doubt = Some((name, Some(after.clone())));
        match pool.resize(name, size).await {
            Ok(()) => {
                let mut cut_off = old.sectors.range(size / SECTOR..);
                let data = cut_off.find(|(_, may_be)| may_be.last() != Some(&0));
                assert_eq!(data, None, "cut off at sector {}", size / SECTOR);
                after.settle_from(size / SECTOR);
                self.volumes.insert(name, after);
            }
            Err(VolumeError::ShrinkBelowData { used }) => {
                assert!(used > size && used <= old.size, "{used} is beyond {size}");
                let last = old.sectors.get(&(used / SECTOR - 1)).and_then(|may_be| may_be.last());
                let cut_through = used <= size.next_multiple_of(self.grain);
                assert!(!cut_through || last.is_some_and(|&last| last > 0), "zeroes are no data");
                self.volumes.insert(name, old);
            }
            Err(error) => panic!("resize: {error}"),
        }
        self.in_doubt = None;
    }

    /// Two at once, on ranges that may touch but not overlap.
    async fn write(&mut self, pool: &Pool, name: &'static str, size: u64) {
        let (first, count) = self.draw(size);
        let (fua, number) = (self.rng.chance(1, 5), self.next + 1);
        self.next += 1;
        let expected = self.volumes.get_mut(name).expect("it is there");
        let before = expected.clone();
        for sector in first..first + count {
            expected.may_be(sector).push(number);
        }
        let middle = first + count / 2;
        let volume = pool.volume(name).expect("it is there");
        let halves = [(first, middle), (middle, first + count)].into_iter();
        let writes = halves.filter(|(from, to)| from < to).map(|(from, to)| {
            let mut data = BufMut::with_len(((to - from) * SECTOR) as usize);
            for (at, sector) in (from..to).enumerate() {
                data[at * SECTOR as usize..][..SECTOR as usize]
                    .copy_from_slice(&content(sector, number));
            }
            volume.write(from * SECTOR, data.freeze(), fua)
        });
        let done: Result<Vec<()>, VolumeError> = join_all(writes).await.into_iter().collect();
        let expected = self.volumes.get_mut(name).expect("it is there");
        match done {
            Ok(_) if fua => (first..first + count).for_each(|s| settle(expected.may_be(s))),
            Ok(_) => {}
            Err(VolumeError::NoSpace) => {
                self.refused += 1;
                assert!(pool.space().free == 0 || count > 500, "there was space");
                // Each sector is old or new; what it is, is found by reading.
                let read = volume.read(first * SECTOR, count * SECTOR).await.expect("reads");
                let read = read.concat();
                for (sector, bytes) in (first..).zip(read.chunks_exact(SECTOR as usize)) {
                    let old = before.sectors.get(&sector).map_or(0, |held| held[held.len() - 1]);
                    let is_old = bytes == content(sector, old);
                    assert!(is_old || bytes == content(sector, number), "sector {sector}");
                    if is_old {
                        expected.may_be(sector).push(old);
                    }
                }
            }
            Err(error) => panic!("write: {error}"),
        }
    }

    async fn zero(&mut self, pool: &Pool, name: &'static str, size: u64) {
        let (first, count) = self.draw(size);
        let (fua, may_trim) = (self.rng.chance(1, 3), self.rng.chance(1, 2));
        let volume = pool.volume(name).expect("it is there");
        let expected = self.volumes.get_mut(name).expect("it is there");
        for sector in first..first + count {
            expected.may_be(sector).push(0);
        }
        let done = volume.write_zeroes(first * SECTOR, count * SECTOR, fua, may_trim).await;
        match done {
            Ok(()) if fua => (first..first + count).for_each(|s| settle(expected.may_be(s))),
            Ok(()) => {}
            // Some may be zero, some not; where nothing was mapped, all were zero before.
            Err(VolumeError::NoSpace) => {
                self.refused += 1;
                self.reread(pool, name, first, count).await;
            }
            Err(error) => panic!("zeroes: {error}"),
        }
    }

    /// Finds out what sectors hold now; it is one of what they may.
    async fn reread(&mut self, pool: &Pool, name: &'static str, first: u64, count: u64) {
        let volume = pool.volume(name).expect("it is there");
        let read = volume.read(first * SECTOR, count * SECTOR).await.expect("reads");
        let read = read.concat();
        let expected = self.volumes.get_mut(name).expect("it is there");
        for (sector, bytes) in (first..).zip(read.chunks_exact(SECTOR as usize)) {
            let may_be = expected.may_be(sector);
            let found = may_be.iter().rev().find(|write| content(sector, **write) == bytes);
            let found = *found.unwrap_or_else(|| panic!("sector {sector}: none of {may_be:?}"));
            may_be.push(found);
        }
    }

    async fn trim(&mut self, pool: &Pool, name: &'static str, size: u64) {
        let (first, count) = self.draw(size);
        let volume = pool.volume(name).expect("it is there");
        let expected = self.volumes.get_mut(name).expect("it is there");
        for sector in first..first + count {
            expected.may_be(sector).push(0);
        }
        volume.trim(first * SECTOR, count * SECTOR, false).await.expect("trims");
        self.reread(pool, name, first, count).await;
    }

    async fn flush(&mut self, pool: &Pool, name: &'static str) {
        pool.volume(name).expect("it is there").flush().await.expect("flushes");
        // Of one volume; but all are durable.
        self.volumes.values_mut().for_each(Expected::settle);
    }

    async fn read(&mut self, pool: &Pool, name: &'static str, size: u64) {
        let (first, count) = self.draw(size);
        let volume = pool.volume(name).expect("it is there");
        let read = volume.read(first * SECTOR, count * SECTOR).await.expect("reads");
        let read = read.concat();
        assert_eq!(read.len() as u64, count * SECTOR);
        let expected = self.volumes.get_mut(name).expect("it is there");
        for (sector, bytes) in (first..).zip(read.chunks_exact(SECTOR as usize)) {
            let newest = *expected.may_be(sector).last().expect("never empty");
            assert!(content(sector, newest) == bytes, "{name} sector {sector}: not {newest}");
        }
    }

    /// After a cut: every volume is there, and every sector is one that it may be.
    fn check(&mut self) {
        let pool = self.shelf.open();
        if let Some((name, after)) = self.in_doubt.take() {
            let found = pool.list().into_iter().find(|info| info.name == name);
            match (found, after) {
                (Some(info), Some(after)) if info.size == after.size => {
                    self.volumes.insert(name, after);
                }
                (None, None) => drop(self.volumes.remove(name)),
                _ => {}
            }
        }
        let found: BTreeMap<String, u64> =
            pool.list().into_iter().map(|info| (info.name, info.size)).collect();
        let wanted = self.volumes.iter();
        let wanted: BTreeMap<String, u64> =
            wanted.map(|(name, expected)| ((*name).to_owned(), expected.size)).collect();
        assert_eq!(found, wanted);
        let env = self.shelf.env.clone();
        for name in NAMES {
            let Some(size) = self.volumes.get(name).map(|expected| expected.size) else { continue };
            env.block_on(self.reread(&pool, name, 0, size / SECTOR));
            self.volumes.get_mut(name).expect("it is there").settle();
        }
        env.crash();
        self.shelf.disks.iter().for_each(|disk| disk.power_cut(&mut self.rng, CutMode::DropAll));
    }
}

fn settle(may_be: &mut Vec<u64>) {
    may_be.drain(..may_be.len() - 1);
}

impl Expected {
    fn settle_from(&mut self, first: u64) {
        self.sectors.range_mut(first..).for_each(|(_, may_be)| settle(may_be));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shelf.env.crash();
    }
}

/// More with SCHEME_SEEDS.
const SEEDS: u64 = 100;

#[test]
fn volumes_hold_what_was_promised_through_cuts_and_want_of_space() {
    let asked = std::env::var("SCHEME_SEEDS").ok();
    let seeds = asked.map_or(SEEDS, |count| count.parse().expect("SCHEME_SEEDS is a number"));
    let mut refused = 0;
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..4 {
                let limit = 1 + world.rng.below(1500);
                if world.session(limit) {
                    let mut rng = Rng::new(world.rng.next_u64());
                    world.shelf.cut(&mut rng);
                }
                world.check();
                world.check();
            }
            world.refused
        });
        match run {
            Ok(count) => refused += count,
            Err(panic) => {
                eprintln!("fails with seed {seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(refused > 0, "space never ran out");
}

#[test]
fn verbs_that_make_no_sense_are_refused() {
    let shelf = Shelf::new(1, 7 << 20);
    let pool = shelf.open();
    let env = &shelf.env;
    env.block_on(pool.create("v", 3 * GRAIN)).unwrap();
    let refused = |result: Result<(), VolumeError>| result.unwrap_err().to_string();
    assert_eq!(refused(env.block_on(pool.create("v", 512))), "v exists already");
    assert!(refused(env.block_on(pool.create("a/b", 512))).contains("'a/b'"));
    for size in [0, 100, u64::MAX / 512 * 512] {
        assert!(refused(env.block_on(pool.create("w", size))).contains(&size.to_string()));
    }
    assert_eq!(refused(env.block_on(pool.delete("w"))), "w: no such volume");
    let volume = pool.volume("v").unwrap();
    assert_eq!(refused(env.block_on(pool.delete("v"))), "v is in use");
    assert!(matches!(env.block_on(volume.read(3 * GRAIN, 512)), Err(VolumeError::OutOfRange)));
    assert!(matches!(env.block_on(volume.read(u64::MAX - 511, 512)), Err(VolumeError::OutOfRange)));
    env.block_on(volume.write(2 * GRAIN, Buf::zeroed(512), false)).unwrap();
    let extents = volume.extents(0, 3 * GRAIN, 9);
    assert_eq!(
        extents.iter().map(|e| (e.len, e.mapped)).collect::<Vec<_>>(),
        [(2 * GRAIN, false), (GRAIN, true)]
    );
    assert_eq!(refused(env.block_on(pool.resize("v", GRAIN))), "holds data up to byte 786432");
    let end = 3 * GRAIN - 512;
    env.block_on(volume.write(end - 512, Buf::from_slice(&[7; 512]), false)).unwrap();
    assert_eq!(
        refused(env.block_on(pool.resize("v", end - 512))),
        "holds data up to byte 785920",
        "however little of its last grain"
    );
    drop(volume);
    env.block_on(pool.resize("v", end)).unwrap();
    env.block_on(pool.delete("v")).unwrap();
    env.block_on(pool.flush()).unwrap();
    assert_eq!(pool.space().free, pool.space().total);
    let tiny = Shelf::new(1, 7 << 20);
    let array = tiny.env.block_on(tiny.array());
    assert!(Store::size(&array) > 0);
}

/// As the requests of a host are that was taken over: a flush may be cancelled anywhere.
#[test]
fn a_flush_that_is_cancelled_leaves_the_next_one_its_work() {
    let shelf = Shelf::new(2, 7 << 20);
    for steps in 0..60 {
        let (at, fill) = (steps % 8 * GRAIN + steps * 512, [steps as u8 + 1; 512]);
        let env = shelf.env.clone();
        let pool = shelf.open();
        if steps == 0 {
            env.block_on(pool.create("v", 8 * GRAIN)).unwrap();
        }
        let volume = pool.volume("v").unwrap();
        env.block_on(volume.write(at, Buf::from_slice(&fill), false)).unwrap();
        let left = Cell::new(steps);
        let stop = || left.replace(left.get().saturating_sub(1)) == 0;
        let _ = env.run_until(volume.flush(), stop);
        env.block_on(volume.flush()).unwrap();
        drop((volume, pool));
        shelf.cut(&mut Rng::new(steps));
        let volume = shelf.open().volume("v").unwrap();
        let read = shelf.env.block_on(volume.read(at, 512)).unwrap().concat();
        assert!(read == fill, "cancelled after {steps} steps");
        drop(volume);
        shelf.env.crash();
    }
}
