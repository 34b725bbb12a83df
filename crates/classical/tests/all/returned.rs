//! A drive that was away and comes back is given what changed meanwhile, and no more; one that is
//! not the drive that was lost, or not as it was then, is filled from its beginning. What it holds
//! afterwards is looked at with others lost, so that nothing else can answer.

use std::cell::RefCell;
use std::rc::Rc;

use classical::array::create;
use classical::{Array, CreateSpec, OpenOptions, Redundancy};
use format::{LABEL_LEN, label_offsets};
use futures_util::future::join_all;
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Drive, Durability, Env, Nanos};

const CHUNK: u64 = 4096;
const SIZE: u64 = 4 << 20;
/// As long as marks rest before they are taken back, and more.
const REST: Nanos = Nanos::from_secs(6);

struct World {
    env: VirtEnv,
    disks: Vec<Disk>,
    array: Option<Array<VirtEnv>>,
    truth: Rc<RefCell<Vec<u8>>>,
    /// Written since the last flush: a power cut may leave anything of it.
    unsure: Rc<RefCell<Vec<(u64, u64)>>>,
    rng: Rng,
}

#[derive(Clone, Copy)]
struct Kind {
    redundancy: Redundancy,
    drives: usize,
    width: usize,
}

const RAID1: Kind = Kind { redundancy: Redundancy::Mirror, drives: 2, width: 2 };
const RAID10: Kind = Kind { redundancy: Redundancy::Mirror, drives: 4, width: 2 };
const RAID4: Kind = Kind { redundancy: Redundancy::ParityDrive, drives: 4, width: 4 };
const RAID5: Kind = Kind { redundancy: Redundancy::Parity(1), drives: 4, width: 4 };
const RAID6: Kind = Kind { redundancy: Redundancy::Parity(2), drives: 5, width: 5 };
const RAID50: Kind = Kind { redundancy: Redundancy::Parity(1), drives: 6, width: 3 };
const KINDS: [Kind; 6] = [RAID1, RAID10, RAID4, RAID5, RAID6, RAID50];

fn attach(env: &VirtEnv, disk: &Disk) -> VirtDrive {
    VirtDrive::attach(env, disk, Latency::SSD)
}

async fn fill_whole(array: &Array<VirtEnv>) {
    while array.resync().await.expect("reads") {}
}

impl World {
    /// Every byte written once, no mark left.
    fn new(kind: Kind, seed: u64) -> World {
        let env = VirtEnv::new(seed);
        let disk = |at| Disk::new(format!("d{at}"), SIZE, 512, seed ^ (at + 1));
        let disks: Vec<Disk> = (0..kind.drives as u64).map(disk).collect();
        let drives: Vec<VirtDrive> = disks.iter().map(|disk| attach(&env, disk)).collect();
        let spec = CreateSpec {
            name: "tank".into(),
            redundancy: kind.redundancy,
            width: kind.width,
            chunk: CHUNK,
            // Without them nothing finds a stale page but this test.
            checksums: seed % 3 == 2,
        };
        let grid = env.block_on(create(&env, &drives, &spec)).expect("it fits");
        let truth = Rc::new(RefCell::new(vec![0; grid.size() as usize]));
        let unsure = Rc::default();
        let mut world = World { env, disks, array: None, truth, unsure, rng: Rng::new(seed) };
        world.open(&[]);
        world.block(|array| async move { fill_whole(&array).await });
        world.write(0, grid.size(), true);
        world.rest();
        world
    }

    fn array(&self) -> Array<VirtEnv> {
        self.array.clone().expect("it is open")
    }

    fn block<T, F: Future<Output = T>>(&self, what: impl FnOnce(Array<VirtEnv>) -> F) -> T {
        self.env.block_on(what(self.array()))
    }

    fn try_open(&self, without: &[usize]) -> Result<Array<VirtEnv>, classical::ArrayError> {
        let there = self.disks.iter().enumerate().filter(|(at, _)| !without.contains(at));
        let drives = there.map(|(_, disk)| attach(&self.env, disk)).collect();
        self.env.block_on(Array::open(&self.env, drives, OpenOptions::default()))
    }

    fn open(&mut self, without: &[usize]) {
        self.array = Some(self.try_open(without).expect("it opens"));
    }

    fn close(&mut self) {
        let array = self.array.take().expect("it is open");
        self.env.block_on(array.close()).expect("it closes");
        self.unsure.take();
        self.env.crash();
    }

    fn write(&mut self, offset: u64, len: u64, fua: bool) {
        let write = self.writing(offset, len, fua);
        self.env.block_on(write);
    }

    /// A write of new bytes; it must succeed if it ends.
    fn writing(&mut self, offset: u64, len: u64, fua: bool) -> impl Future<Output = ()> + use<> {
        let mut bytes = vec![0; len as usize];
        self.rng.fill(&mut bytes);
        let (array, truth, unsure) = (self.array(), self.truth.clone(), self.unsure.clone());
        async move {
            unsure.borrow_mut().push((offset, len));
            array.write(offset, Buf::from_slice(&bytes), fua).await.expect("writes");
            truth.borrow_mut()[offset as usize..(offset + len) as usize].copy_from_slice(&bytes);
        }
    }

    /// Some writes at once, none over another.
    fn burst(&mut self) -> Vec<impl Future<Output = ()> + use<>> {
        let parts = 1 + self.rng.below(6);
        let each = self.truth.borrow().len() as u64 / 512 / parts;
        let mut writes = Vec::new();
        for part in 0..parts {
            let most = if self.rng.chance(1, 6) { 200 } else { 12 };
            let len = 1 + self.rng.below(each.min(most));
            let sector = part * each + self.rng.below(each - len + 1);
            let fua = self.rng.chance(1, 2);
            writes.push(self.writing(sector * 512, len * 512, fua));
        }
        writes
    }

    fn flush(&self) {
        self.block(|array| async move { array.flush().await }).expect("flushes");
        self.unsure.take();
    }

    /// What was marked is not any more, if that depends on time.
    fn rest(&self) {
        self.flush();
        self.env.block_on(self.env.sleep_until(self.env.now() + REST));
        while self.block(|array| async move { array.resync().await }).expect("agrees") {}
    }

    /// One thing that happens to a server that has these drives missing.
    fn happens(&mut self, without: &[usize]) {
        match self.rng.below(10) {
            0..5 => {
                let writes = self.burst();
                self.env.block_on(join_all(writes));
            }
            5 => self.flush(),
            6 | 7 => self.rest(),
            8 => {
                self.close();
                self.open(without);
            }
            _ => self.cut(without),
        }
    }

    /// A power cut at any write; the drives that are not there have none.
    fn cut(&mut self, without: &[usize]) {
        let writes = self.burst();
        let array = self.array();
        let rest = self.rng.chance(1, 2);
        self.env.set_write_limit(self.env.writes_issued() + 1 + self.rng.below(60));
        let env = self.env.clone();
        let all = async {
            join_all(writes).await;
            if rest {
                env.sleep_until(env.now() + REST).await;
            }
            let _ = array.flush().await;
            if rest {
                env.sleep_until(env.now() + REST).await;
            }
            let _ = array.flush().await;
        };
        self.env.run_until(all, || self.env.write_limit_reached());
        drop(array);
        self.die(without);
        // And perhaps another one in the middle of what opening does.
        if self.rng.chance(1, 3) {
            self.env.set_write_limit(self.env.writes_issued() + 1 + self.rng.below(40));
            let there = self.disks.iter().enumerate().filter(|(at, _)| !without.contains(at));
            let drives = there.map(|(_, disk)| attach(&self.env, disk)).collect();
            let open = Array::open(&self.env, drives, OpenOptions::default());
            self.env.run_until(open, || self.env.write_limit_reached());
            self.die(without);
        }
        self.open(without);
        self.believe();
    }

    fn die(&mut self, without: &[usize]) {
        self.array = None;
        self.env.crash();
        let mut fate = Rng::new(self.rng.next_u64());
        let there = self.disks.iter().enumerate().filter(|(at, _)| !without.contains(at));
        there.for_each(|(_, disk)| disk.power_cut(&mut fate, CutMode::Random));
    }

    /// What was under way is what it is by now.
    fn believe(&mut self) {
        for (offset, len) in self.unsure.take() {
            let read = self.block(|array| async move { array.read(offset, len).await });
            let read = read.expect("it reads");
            self.truth.borrow_mut()[offset as usize..(offset + len) as usize]
                .copy_from_slice(&read);
        }
        // It was read: it must not change any more.
        self.flush();
    }

    /// Drives are away from now on, in one of the ways in which that happens.
    fn lose(&mut self, gone: &[usize], lost: &[usize]) {
        let all = [gone, lost].concat();
        match self.rng.below(5) {
            // Pulled in the middle of writes.
            0 => {
                let writes = self.burst();
                let delay = Nanos::from_micros(self.rng.below(400));
                let pull = async {
                    self.env.sleep_until(self.env.now() + delay).await;
                    gone.iter().for_each(|at| self.disks[*at].set_failed(true));
                };
                self.env.block_on(futures_util::future::join(join_all(writes), pull));
            }
            // Pulled when nobody looks.
            1 => {
                self.rest();
                gone.iter().for_each(|at| self.disks[*at].set_failed(true));
            }
            2 => {
                for at in gone.iter().copied() {
                    self.block(|array| async move { array.write_off(at).await }).expect("bears it");
                }
            }
            3 => {
                self.close();
                self.open(&all);
            }
            _ => self.cut(&all),
        }
        // What they had in their caches need not have come through.
        let mut fate = Rng::new(self.rng.next_u64());
        gone.iter().for_each(|at| self.disks[*at].power_cut(&mut fate, CutMode::Random));
        // Whoever has not noticed does.
        let writes = self.burst();
        self.env.block_on(join_all(writes));
        if self.array().lost().len() < all.len() {
            // A stripe of every group, whole.
            let grid = self.array().grid();
            self.write(0, grid.stripe_bytes() * grid.groups() as u64, true);
        }
        gone.iter().for_each(|at| self.disks[*at].set_failed(false));
    }

    /// The drive in this place is back. Rows that it is to be given, of how many.
    fn back(&mut self, place: usize) -> (u64, u64) {
        assert!(self.array().lost().contains(&place));
        let new = attach(&self.env, &self.disks[place]);
        self.block(|array| async move { array.restore(place, new).await }).expect("it is lost");
        let (left, _) = self.array().rows_left(place).expect("it is being filled");
        (left, self.array().grid().rows)
    }

    /// A step, with writes beside. True: there is more to do.
    fn fill(&mut self, place: usize) -> bool {
        let writes = self.burst();
        let array = self.array();
        let both = futures_util::future::join(array.rebuild_some(place), join_all(writes));
        self.env.block_on(both).0.expect("it is filled")
    }

    fn agrees(&self, array: &Array<VirtEnv>, why: &str) {
        let truth = self.truth.borrow();
        let read = self.env.block_on(array.read(0, truth.len() as u64)).expect("reads");
        let differs = read.iter().zip(&*truth).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{why}: not what was written, from that byte on");
    }

    /// Every byte, with whatever else may be lost beside: what came back has to answer.
    fn check(&mut self, why: &str) {
        assert_eq!(self.array().lost(), [], "{why}");
        self.agrees(&self.array(), why);
        let wrong = self.block(|array| async move { array.disagreeing(0, array.size()).await });
        assert_eq!(wrong, [], "{why}");
        let grid = self.array().grid();
        self.close();
        let disks = self.disks.clone();
        for first in 0..grid.width {
            let more: Vec<usize> = (0..grid.width).map(|at| (first + at) % grid.width).collect();
            let gone: Vec<usize> = (0..grid.groups())
                .flat_map(|group| more[..grid.tolerance()].iter().map(move |at| (group, *at)))
                .map(|(group, at)| group * grid.width + at)
                .collect();
            self.disks = disks.iter().map(Disk::fork).collect();
            let array = self.try_open(&gone).expect("it bears that");
            self.agrees(&array, &format!("{why}, without {gone:?}"));
            drop(array);
            self.env.crash();
        }
        self.disks = disks;
        self.open(&[]);
    }
}

/// Whether it was given less than all.
fn story(kind: Kind, seed: u64) -> bool {
    let mut world = World::new(kind, seed);
    let why = format!("seed {seed}, {}", world.array().grid());
    for _ in 0..world.rng.below(4) {
        world.happens(&[]);
    }
    let gone = world.rng.index(kind.drives);
    world.lose(&[gone], &[]);
    for _ in 0..world.rng.below(8) {
        world.happens(&[gone]);
    }
    // Another one, of those that may be.
    let other = (gone + 1 + world.rng.index(kind.drives - 1)) % kind.drives;
    let grid = world.array().grid();
    let bears = grid.tolerance() > 1 || grid.group_of(other) != grid.group_of(gone);
    let both = bears && world.rng.chance(1, 2);
    if both {
        world.lose(&[other], &[gone]);
        for _ in 0..world.rng.below(4) {
            world.happens(&[gone, other]);
        }
    }
    let (left, all) = world.back(gone);
    let mut few = left < all;
    if world.rng.chance(1, 4) && world.fill(gone) {
        // The way back is cut short, by a crash or because it fails again.
        let lost: Vec<usize> = [gone, other][..1 + usize::from(both)].to_vec();
        if world.rng.chance(1, 2) {
            world.cut(&lost[1..]);
        } else {
            world.lose(&[gone], &lost[1..]);
        }
        for _ in 0..world.rng.below(3) {
            world.happens(&lost);
        }
        let (left, all) = world.back(gone);
        assert_eq!(left, all, "{why}: it may lack anything by now");
        few = false;
    }
    while world.fill(gone) {}
    if both {
        for _ in 0..world.rng.below(3) {
            world.happens(&[other]);
        }
        let (left, all) = world.back(other);
        few |= left < all;
        while world.fill(other) {}
    }
    world.check(&why);
    // And what is kept for nobody is taken back as ever.
    world.rest();
    let again = (gone + 1) % kind.drives;
    world.block(|array| async move { array.write_off(again).await }).expect("it bears that");
    let (left, _) = world.back(again);
    assert_eq!(left, 0, "{why}: nothing was marked");
    while world.fill(again) {}
    world.check(&why);
    world.env.crash();
    few
}

fn stories(kind: Kind) {
    let seeds = 12;
    let few = (0..seeds).filter(|seed| story(kind, *seed)).count() as u64;
    assert!(few >= seeds / 2, "{few} of {seeds} were given less than all");
}

// What comes back holds every byte, whatever happened meanwhile.

#[test]
fn a_drive_comes_back_to_raid1() {
    stories(RAID1);
}

#[test]
fn a_drive_comes_back_to_raid10() {
    stories(RAID10);
}

#[test]
fn a_drive_comes_back_to_raid4() {
    stories(RAID4);
}

#[test]
fn a_drive_comes_back_to_raid5() {
    stories(RAID5);
}

#[test]
fn a_drive_comes_back_to_raid6() {
    stories(RAID6);
}

#[test]
fn a_drive_comes_back_to_raid50() {
    stories(RAID50);
}

/// Fill, take out, write a little, take back.
#[test]
fn little_is_written_to_a_drive_that_missed_little() {
    for kind in KINDS {
        for restart in [false, true] {
            let mut world = World::new(kind, 3);
            let away = kind.drives - 1;
            world.block(|array| async move { array.write_off(away).await }).expect("bears it");
            world.write(5 * CHUNK, 512, true);
            world.rest();
            if restart {
                world.close();
                world.open(&[away]);
                world.rest();
                world.close();
                world.open(&[away]);
            }
            world.write(300 * CHUNK, 1024, true);
            let before = world.disks[away].counters();
            let (left, all) = world.back(away);
            assert!(left > 0 && left <= 32, "{left} of {all} rows");
            while world.block(|array| async move { array.rebuild().await }).expect("rebuilds") {}
            let after = world.disks[away].counters();
            let bytes = after.bytes_written - before.bytes_written;
            // Labels and the heads of the log, too.
            assert!(bytes < left * CHUNK + (700 << 10), "{bytes} bytes written");
            assert!(bytes < world.truth.borrow().len() as u64, "less than anything else");
            world.check("it missed little");
            world.env.crash();
        }
    }
}

/// A drive that is lost, after which marks are kept. What stands in its place then.
fn away(kind: Kind, seed: u64) -> World {
    let mut world = World::new(kind, seed);
    world.disks[0].set_failed(true);
    world.write(0, 4 * CHUNK, true);
    assert_eq!(world.array().lost(), [0]);
    world.disks[0].set_failed(false);
    world
}

fn is_filled_whole(mut world: World, why: &str) {
    let (left, all) = world.back(0);
    assert_eq!(left, all, "{why}");
    while world.fill(0) {}
    world.check(why);
    world.env.crash();
}

#[test]
fn a_copy_of_the_drive_from_before_is_filled_whole() {
    for kind in KINDS {
        let mut world = World::new(kind, 7);
        let old = world.disks[0].fork();
        let half = world.truth.borrow().len() as u64 / 2 / CHUNK * CHUNK;
        world.write(half, 8 * CHUNK, true);
        world.rest();
        world.block(|array| async move { array.write_off(0).await }).expect("it bears that");
        world.disks[0] = old;
        is_filled_whole(world, "a copy");
    }
}

/// The copy, with a label that says it is of today.
#[test]
fn a_label_alone_makes_nobody_believed() {
    for kind in KINDS {
        let mut world = World::new(kind, 8);
        let old = world.disks[0].fork();
        world.write(0, 8 * CHUNK, true);
        world.rest();
        world.close();
        world.open(&[0]);
        world.write(64 * CHUNK, 512, true);
        let drive = attach(&world.env, &old);
        let mut label = world.env.block_on(classical::label::read(&drive)).expect("it has one");
        let other = attach(&world.env, &world.disks[1]);
        let newest = world.env.block_on(classical::label::read(&other)).expect("it has one");
        (label.generation, label.epoch) = (newest.generation, newest.epoch);
        for (copy, at) in label_offsets(SIZE).into_iter().enumerate() {
            let bytes = Buf::from_slice(&label.encode(copy as u8));
            assert_eq!(bytes.len(), LABEL_LEN);
            world.env.block_on(drive.write(at, bytes, Durability::Durable)).expect("writes");
        }
        world.disks[0] = old;
        is_filled_whole(world, "a label");
    }
}

/// Another drive has had its place meanwhile, and marks were taken back.
#[test]
fn a_drive_that_was_replaced_is_filled_whole() {
    for kind in KINDS {
        let mut world = away(kind, 9);
        let old = std::mem::replace(&mut world.disks[0], Disk::new("new", SIZE, 512, 77));
        let (left, all) = world.back(0);
        assert_eq!(left, all, "it is new");
        while world.fill(0) {}
        let half = world.truth.borrow().len() as u64 / 2 / CHUNK * CHUNK;
        world.write(half, 8 * CHUNK, true);
        world.rest();
        world.block(|array| async move { array.write_off(0).await }).expect("it bears that");
        world.disks[0] = old;
        is_filled_whole(world, "replaced");
    }
}

/// Both halves of a mirror are used, each without the other. Neither knows what the other marked.
#[test]
fn one_that_was_used_apart_is_filled_whole() {
    for longer in [0, 1] {
        let mut world = World::new(RAID1, 10);
        world.close();
        let truth = world.truth.borrow().clone();
        for (turn, without) in [(0, 1), (1, 0)] {
            *world.truth.borrow_mut() = truth.clone();
            for _ in 0..if longer == turn { 6 } else { 1 } {
                world.open(&[without]);
                world.write((40 + 100 * turn as u64) * CHUNK, 16 * CHUNK, true);
                world.rest();
                world.close();
            }
        }
        world.open(&[0]);
        is_filled_whole(world, "used apart");
    }
}

/// A mirror of which one half is put back to what it was: the other one knows more, and is not what
/// was lost.
#[test]
fn one_that_is_ahead_of_the_others_is_filled_whole() {
    let mut world = World::new(RAID1, 11);
    let (old, truth) = (world.disks[1].fork(), world.truth.borrow().clone());
    world.write(200 * CHUNK, 16 * CHUNK, true);
    world.rest();
    world.close();
    world.disks[1] = old;
    *world.truth.borrow_mut() = truth;
    world.open(&[0]);
    for chunk in 0..4 {
        world.write(chunk * 40 * CHUNK, 512, true);
        world.rest();
    }
    is_filled_whole(world, "ahead");
}

/// Software that keeps no marks had the array meanwhile: its pages of intents end with zeroes.
#[test]
fn pages_of_intents_that_say_nothing_of_kept_marks_mean_to_fill_it_whole() {
    for told in [false, true] {
        let mut world = away(RAID5, 12);
        world.rest();
        world.close();
        let drive = attach(&world.env, &world.disks[1]);
        let label = world.env.block_on(classical::label::read(&drive)).expect("it has one");
        for disk in world.disks[1..].iter().filter(|_| !told) {
            let drive = attach(&world.env, disk);
            for place in [0, 4096] {
                let at = label.meta.offset + place;
                let page = world.env.block_on(drive.read(at, 4096)).expect("reads");
                let mut page = page.to_vec();
                assert!(page.starts_with(b"STDYINTN") && page[40..48] != [0; 8]);
                page[40..64].fill(0);
                let crc = crc32c::crc32c(&page[12..]).to_le_bytes();
                page[8..12].copy_from_slice(&crc);
                let page = Buf::from_slice(&page);
                world.env.block_on(drive.write(at, page, Durability::Durable)).expect("writes");
            }
        }
        world.open(&[0]);
        if !told {
            is_filled_whole(world, "unknown");
            continue;
        }
        let (left, all) = world.back(0);
        assert!(left < all, "else it is known");
        world.env.crash();
    }
}
