//! Bytes change behind the array's back: every read is right all the same, what is wrong is put
//! right and counted, and where more of a row is wrong than its redundancy bears, exactly that is
//! lost.

use std::collections::BTreeSet;

use classical::array::create;
use classical::{Array, ArrayError, CreateSpec, OpenOptions, Redundancy, Scrubbed};
use io::faulty::{Effect, Fault, Faults, Faulty};
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{AnyDrive, Buf, DriveErrorKind, Env, Nanos, Operation};

mod doubted;
mod mirror;

const CHUNK: u64 = 16384;
const PAGE: u64 = 4096;
/// Of pages are 1,008 sums in a page: two of them a drive.
const SIZE: u64 = 10 << 20;

const SHAPES: [(Redundancy, usize, usize); 6] = [
    (Redundancy::Mirror, 2, 2),
    (Redundancy::Mirror, 3, 1),
    (Redundancy::Parity(1), 4, 1),
    (Redundancy::ParityDrive, 4, 1),
    (Redundancy::Parity(2), 5, 1),
    (Redundancy::Parity(1), 3, 2),
];
const RAID5: (Redundancy, usize, usize) = SHAPES[2];
const RAID6: (Redundancy, usize, usize) = SHAPES[4];

struct World {
    env: VirtEnv,
    disks: Vec<Disk>,
    faults: Vec<Faults>,
    array: Array<VirtEnv>,
    truth: Vec<u8>,
    rng: Rng,
    /// Where chunks begin on the disks.
    data: u64,
}

fn attach(env: &VirtEnv, disk: &Disk, faults: &Faults) -> VirtDrive {
    let drive = VirtDrive::attach(env, disk, Latency::SSD);
    VirtDrive::Any(AnyDrive::new(Faulty::new(env, drive, faults)))
}

impl World {
    fn new(shape: (Redundancy, usize, usize), seed: u64) -> World {
        World::on(shape, seed, 512)
    }

    /// On drives of this unit, which they never tear.
    fn on((redundancy, width, groups): (Redundancy, usize, usize), seed: u64, align: u32) -> World {
        let env = VirtEnv::new(seed);
        let count = (width * groups) as u64;
        let disk = |at| Disk::new(format!("d{at}"), SIZE, align, seed ^ at).without_torn_units();
        let disks: Vec<Disk> = (0..count).map(disk).collect();
        let faults: Vec<Faults> = (0..count).map(|at| Faults::new(seed ^ at)).collect();
        let drives = |_: &()| -> Vec<VirtDrive> {
            disks.iter().zip(&faults).map(|(disk, faults)| attach(&env, disk, faults)).collect()
        };
        let name = "tank".into();
        let spec = CreateSpec { name, redundancy, width, chunk: CHUNK, checksums: true };
        env.block_on(create(&env, &drives(&()), &spec)).expect("it fits");
        let options = OpenOptions::default();
        let array = env.block_on(Array::open(&env, drives(&()), options)).expect("opens");
        while env.block_on(array.resync()).expect("agrees") {}
        let label = env.block_on(classical::label::read(&drives(&())[0])).expect("a label");
        let truth = vec![0; array.size() as usize];
        let (data, rng) = (label.zones.offset, Rng::new(seed));
        let mut world = World { env, disks, faults, array, truth, rng, data };
        world.write(0, world.array.size());
        world
    }

    fn write(&mut self, offset: u64, len: u64) {
        let mut bytes = vec![0; len as usize];
        self.rng.fill(&mut bytes);
        self.truth[offset as usize..(offset + len) as usize].copy_from_slice(&bytes);
        let done = self.env.block_on(self.array.write(offset, Buf::from_slice(&bytes), true));
        done.expect("writes");
    }

    /// Writes a page without a flush; what it is.
    fn cached(&mut self, offset: u64) -> Vec<u8> {
        let mut bytes = vec![0; PAGE as usize];
        self.rng.fill(&mut bytes);
        let done = self.env.block_on(self.array.write(offset, Buf::from_slice(&bytes), false));
        done.expect("writes");
        bytes
    }

    fn read(&self, offset: u64, len: u64) -> Result<bool, ArrayError> {
        let read = self.env.block_on(self.array.read(offset, len))?;
        Ok(read[..] == self.truth[offset as usize..(offset + len) as usize])
    }

    /// Pages that can't be read; all others are as they should be.
    fn unread(&self) -> BTreeSet<u64> {
        let mut unread = BTreeSet::new();
        for at in (0..self.array.size()).step_by(PAGE as usize) {
            match self.read(at, PAGE) {
                Ok(right) => assert!(right, "other bytes at {at}"),
                Err(ArrayError::PageLost { .. }) => {
                    unread.insert(at);
                }
                Err(error) => panic!("{error}"),
            }
        }
        unread
    }

    fn scrub(&self) -> Scrubbed {
        let (mut all, mut step) = (Scrubbed::default(), Some(0));
        while let Some(at) = step {
            let (found, next) = self.env.block_on(self.array.scrub_some(at)).expect("scrubs");
            all += found;
            step = next;
        }
        all
    }

    /// The disk, and the byte there, of a page of a member.
    fn place(&self, stripe: u64, member: usize, page: u64) -> (usize, u64) {
        let (drive, row) = self.array.grid().place(stripe, member);
        (drive, self.data + row * CHUNK + page * PAGE)
    }

    fn corrupt(&mut self, stripe: u64, member: usize, page: u64) {
        let (drive, at) = self.place(stripe, member, page);
        let (byte, len) = (self.rng.below(PAGE - 8), 1 + self.rng.below(8));
        self.disks[drive].corrupt(at + byte, len, self.rng.next_u64());
    }

    /// The page of the array that a data member's page is.
    fn address(&self, stripe: u64, member: usize, page: u64) -> u64 {
        stripe * self.array.grid().stripe_bytes() + member as u64 * CHUNK + page * PAGE
    }

    fn refuse(&self, stripe: u64, member: usize, page: u64) {
        let (drive, at) = self.place(stripe, member, page);
        let fault = Fault::new(Effect::Error(DriveErrorKind::Os(5)));
        let fault = fault.on(Operation::Read).within(at..at + PAGE);
        self.faults[drive].arm(self.env.now(), fault).expect("it makes sense");
    }

    fn open(&mut self, without: &[usize]) {
        let there = (0..self.disks.len()).filter(|at| !without.contains(at));
        let drives = there.map(|at| attach(&self.env, &self.disks[at], &self.faults[at]));
        let opened = Array::open(&self.env, drives.collect(), OpenOptions::default());
        self.array = self.env.block_on(opened).expect("opens");
    }

    fn close(&self) {
        self.env.block_on(self.array.clone().close()).expect("closes");
    }

    fn cut(&mut self, without: &[usize]) {
        self.env.crash();
        let mut fate = Rng::new(self.rng.next_u64());
        self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::Random));
        self.open(without);
    }

    fn settle(&self) {
        while self.env.block_on(self.array.resync()).expect("agrees") {}
    }

    /// Marks are taken back, so that the sums are believed after a crash.
    fn rest(&self) {
        self.env.block_on(async {
            self.array.flush().await.expect("flushes");
            self.env.sleep_until(self.env.now() + Nanos::from_secs(6)).await;
            while self.array.resync().await.expect("agrees") {}
        });
        assert_eq!(self.array.marks(), 0, "nothing is written");
    }

    fn agrees(&self) {
        assert_eq!(self.env.block_on(self.array.disagreeing(0, self.array.size())), []);
    }

    /// Pages of members, no more than so many of a row, each once.
    fn draw(&mut self, count: usize, of_row: usize) -> BTreeSet<(u64, usize, u64)> {
        let grid = self.array.grid();
        let mut drawn = BTreeSet::new();
        while drawn.len() < count {
            let (stripe, page) = (self.rng.below(grid.stripes()), self.rng.below(CHUNK / PAGE));
            let row = |at: &&(u64, usize, u64)| at.0 == stripe && at.2 == page;
            if drawn.iter().filter(row).count() < of_row {
                drawn.insert((stripe, self.rng.index(grid.width), page));
            }
        }
        drawn
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.env.crash();
    }
}

#[test]
fn what_rots_is_read_right_and_mended_and_counted() {
    for (seed, shape) in (0..).zip(SHAPES) {
        let mut world = World::new(shape, seed);
        let bad = world.draw(60, world.array.grid().tolerance());
        bad.iter().for_each(|&(stripe, member, page)| world.corrupt(stripe, member, page));
        let all = world.array.size();
        assert!(world.read(0, all).expect("reads"), "{shape:?}");
        let before = world.array.health();
        let found = world.scrub();
        let health = world.array.health();
        assert_eq!((health.wrong, health.refused, health.lost), (60, 0, 0), "{shape:?}");
        assert_eq!((health.repaired, found.bad), (60, 60 - before.repaired));
        let notes = world.array.take_notes();
        let told: BTreeSet<(String, u64)> =
            notes.into_iter().map(|note| (note.drive, note.byte)).collect();
        let places = bad.iter().map(|&(stripe, member, page)| {
            let (drive, byte) = world.place(stripe, member, page);
            (format!("d{drive}"), byte)
        });
        assert_eq!(told, places.collect());
        let again = world.scrub();
        assert_eq!(again, Scrubbed { bytes: world.array.scrub_bytes(), ..Scrubbed::default() });
        world.agrees();
    }
}

#[test]
fn more_than_redundancy_bears_loses_these_pages_only() {
    for (seed, shape) in (10..).zip(SHAPES) {
        let mut world = World::new(shape, seed);
        let (grid, mut lost) = (world.array.grid(), BTreeSet::new());
        for stripe in [0, 3, 7, 20] {
            let page = world.rng.below(CHUNK / PAGE);
            let first = world.rng.index(grid.width);
            for at in 0..=grid.tolerance() {
                let member = (first + at) % grid.width;
                world.corrupt(stripe, member, page);
                if member < grid.data() {
                    lost.insert(world.address(stripe, member, page));
                }
            }
        }
        assert_eq!(world.unread(), lost, "{shape:?}");
        assert_eq!(world.scrub().lost, 4 * (grid.tolerance() as u64 + 1));
        assert_eq!(world.array.health().lost, 4 * (grid.tolerance() as u64 + 1));
        // Parts of them can't be written, nor what is not there be given out.
        let some = *lost.first().expect("one at least");
        let part = world.env.block_on(world.array.write(some, Buf::zeroed(512), true));
        assert!(matches!(part, Err(ArrayError::PageLost { .. })), "{part:?}");
        // Others of their rows can, which makes nothing of them believed.
        for &at in &lost {
            let row = at / grid.stripe_bytes() * grid.stripe_bytes();
            let beside = row + at % CHUNK;
            if grid.data() > 1 && !lost.contains(&beside) {
                world.write(beside, PAGE);
            }
        }
        assert_eq!(world.unread(), lost, "{shape:?}");
        // Written as a whole they are there again.
        for &at in &lost {
            world.write(at, PAGE);
        }
        assert_eq!(world.unread(), BTreeSet::new(), "{shape:?}");
        world.scrub();
        assert_eq!(world.scrub().bad, 0, "{shape:?}");
        world.agrees();
    }
}

#[test]
fn phantom_and_misdirected_writes_are_caught() {
    for (seed, shape) in (20..).zip(SHAPES) {
        for effect in [Effect::Lost, Effect::Misdirected { to: None }] {
            let mut world = World::new(shape, seed);
            let drive = world.rng.index(world.disks.len());
            let area = world.data..SIZE - (1 << 20);
            let effect = match effect {
                // Somewhere among chunks.
                Effect::Misdirected { .. } => {
                    Effect::Misdirected { to: Some(world.data + 40 * PAGE) }
                }
                effect => effect,
            };
            let fault = Fault::new(effect).on(Operation::Write).within(area);
            let armed = world.faults[drive].arm(world.env.now(), fault).expect("it makes sense");
            let size = world.array.size();
            for _ in 0..30 {
                let at = world.rng.below(size / PAGE) * PAGE;
                // One at a time: what follows is read before it is written.
                world.write(at, PAGE.min(size - at));
                assert!(world.read(at, PAGE).expect("reads"), "{shape:?}");
            }
            world.faults[drive].release(armed);
            assert!(world.read(0, size).expect("reads"), "{shape:?}");
            // Parity that nobody has read since is the scrub's to find.
            world.scrub();
            let health = world.array.health();
            assert!(health.wrong > 0 && health.lost == 0, "{shape:?}: {health:?}");
            world.agrees();
            assert_eq!(world.scrub().bad, 0);
        }
    }
}

#[test]
fn what_a_drive_refuses_costs_no_drive_and_of_a_degraded_stripe_that_page_only() {
    let mut world = World::new(RAID5, 30);
    world.refuse(5, 1, 2);
    world.refuse(6, 3, 1);
    let size = world.array.size();
    assert!(world.read(0, size).expect("reads"));
    // Parity that can't be read to be changed.
    world.write(world.address(6, 0, 1), PAGE);
    assert_eq!(world.array.lost(), []);
    assert_eq!(world.array.health().refused, world.array.health().repaired);
    world.faults.iter().for_each(Faults::release_all);
    world.agrees();
    // With a drive lost the page of a row can't be had, and what would follow from it.
    let gone = world.array.grid().place(5, 0).0;
    world.disks[gone].set_failed(true);
    world.write(0, 16 * world.array.grid().stripe_bytes());
    assert_eq!(world.array.lost(), [gone]);
    world.refuse(5, 1, 2);
    let both = BTreeSet::from([world.address(5, 0, 2), world.address(5, 1, 2)]);
    assert_eq!(world.unread(), both);
    world.faults.iter().for_each(Faults::release_all);
    assert_eq!(world.unread(), BTreeSet::new(), "it is given again");
}

#[test]
fn sums_outlive_a_close_and_a_crash() {
    for (seed, shape) in (40..).zip(SHAPES) {
        let mut world = World::new(shape, seed);
        let tolerance = world.array.grid().tolerance();
        world.close();
        let bad = world.draw(40, tolerance);
        bad.iter().for_each(|&(stripe, member, page)| world.corrupt(stripe, member, page));
        world.open(&[]);
        assert_eq!(world.unread(), BTreeSet::new(), "{shape:?}");
        world.scrub();
        assert_eq!(world.array.health().repaired, 40, "{shape:?}");
        // Rested, then written to in some regions only.
        world.write(0, PAGE);
        world.rest();
        for stripe in 0..16 {
            world.write(world.address(stripe, 0, 1), PAGE);
        }
        world.cut(&[]);
        let far = |at: &(u64, usize, u64)| at.0 >= 16;
        let bad: Vec<_> = world.draw(40, tolerance).into_iter().filter(far).collect();
        bad.iter().for_each(|&(stripe, member, page)| world.corrupt(stripe, member, page));
        assert_eq!(world.unread(), BTreeSet::new(), "{shape:?}");
        world.scrub();
        assert_eq!(world.array.health().repaired, bad.len() as u64, "{shape:?}");
        // What the crash made doubtful is known again once it was looked at.
        world.settle();
        for stripe in 0..16 {
            world.corrupt(stripe, stripe as usize % world.array.grid().width, 3);
        }
        assert_eq!(world.unread(), BTreeSet::new(), "{shape:?}");
        world.scrub();
        world.agrees();
        assert_eq!(world.array.health().lost, 0);
    }
}

/// The sums of a lost drive are of what it should hold: rebuilding finds out what is wrong.
#[test]
fn a_rebuilt_drive_has_what_it_should_or_nothing_that_passes() {
    let mut world = World::new(RAID6, 50);
    world.disks[1].set_failed(true);
    world.write(0, world.array.size());
    assert_eq!(world.array.lost(), [1]);
    let bad = world.draw(50, 1);
    let other = |world: &World, at: &(u64, usize, u64)| world.place(at.0, at.1, at.2).0 != 1;
    let bad: Vec<_> = bad.into_iter().filter(|at| other(&world, at)).collect();
    bad.iter().for_each(|&(stripe, member, page)| world.corrupt(stripe, member, page));
    rebuilt(&mut world, 1);
    assert_eq!(world.array.health().repaired, bad.len() as u64);
    world.agrees();
    // The new drive's sums are on others, those of others on it.
    world.close();
    world.open(&[0, 2]);
    let (stripe, page) = (9, 1);
    let (drive, member) = (1, (0..5).find(|m| world.array.grid().place(9, *m).0 == 1));
    world.corrupt(stripe, member.expect("it has one"), page);
    assert!(world.unread().len() <= 3, "of one row");
    let health = world.array.health();
    assert!(health.wrong == 1 && health.lost == 3, "drive {drive}: {health:?}");

    let mut world = World::new(RAID5, 51);
    world.disks[1].set_failed(true);
    world.write(0, world.array.size());
    let grid = world.array.grid();
    let member = |stripe, drive| (0..4).find(|m| grid.place(stripe, *m).0 == drive).expect("one");
    world.corrupt(8, member(8, 2), 3);
    let lost: BTreeSet<u64> = [member(8, 1), member(8, 2)]
        .into_iter()
        .filter(|member| *member < grid.data())
        .map(|member| world.address(8, member, 3))
        .collect();
    rebuilt(&mut world, 1);
    assert_eq!(world.array.lost(), []);
    assert_eq!(world.unread(), lost);
    world.rest();
    world.cut(&[]);
    assert_eq!(world.unread(), lost, "after a crash, too");
    lost.iter().for_each(|at| world.write(*at, PAGE));
    assert_eq!(world.unread(), BTreeSet::new());
    world.scrub();
    assert_eq!(world.scrub().bad, 0);
}

fn rebuilt(world: &mut World, place: usize) {
    world.disks[place] = Disk::new(format!("d{place}"), SIZE, 512, world.rng.next_u64());
    let new = attach(&world.env, &world.disks[place], &world.faults[place]);
    world.env.block_on(world.array.restore(place, new)).expect("it is lost");
    while world.env.block_on(world.array.rebuild()).expect("rebuilds") {}
    assert_eq!(world.array.lost(), []);
}

/// A row lacks more than follows. Another of its pages is written, and the parity with it, so that
/// something would come out for what is lost: it must not be given out, crash or not; and a page
/// that was written whole must not be called lost after the next crash.
#[test]
fn lost_pages_stay_lost_through_a_crash_and_written_ones_stay_written() {
    for seed in 60..70 {
        let mut world = World::new(RAID5, seed);
        let gone = world.array.grid().place(5, 0).0;
        world.disks[gone].set_failed(true);
        world.write(0, world.array.size());
        let none = BTreeSet::new();
        // On the lost drive and beside it, in two rows: in one what was lost is written, in the
        // other what rotted.
        world.corrupt(5, 1, 2);
        world.corrupt(9, 1, 2);
        let at = |stripe, member| world.address(stripe, member, 2);
        let [one, other, first, second, beside] =
            [at(5, 0), at(5, 1), at(9, 0), at(9, 1), at(5, 2)];
        assert_eq!(world.unread(), BTreeSet::from([one, other, first, second]));
        world.write(one, PAGE);
        world.write(second, PAGE);
        let lost = BTreeSet::from([other, first]);
        assert_eq!(world.unread(), lost);
        for _ in 0..2 {
            world.cut(&[]);
            world.settle();
            assert_eq!(world.unread(), lost, "seed {seed}");
            world.write(beside, PAGE);
        }
        world.write(other, PAGE);
        assert_eq!(world.unread(), BTreeSet::from([first]));
        world.cut(&[]);
        world.settle();
        assert_eq!(world.unread(), BTreeSet::from([first]), "seed {seed}");
        rebuilt(&mut world, gone);
        assert_eq!(world.unread(), BTreeSet::from([first]));
        world.write(first, PAGE);
        world.cut(&[]);
        assert_eq!(world.unread(), none, "seed {seed}");
        world.settle();
        world.agrees();
    }
}

#[test]
fn damaged_sums_and_labels_are_written_again() {
    let mut world = World::new(RAID6, 70);
    world.close();
    let drive = attach(&world.env, &world.disks[3], &world.faults[3]);
    let label = world.env.block_on(classical::label::read(&drive)).expect("a label");
    // All that drives 3 and 4 have of sums: a third drive has the sums of each, too.
    for disk in [3, 4] {
        let (from, len) = (label.meta.offset + 2 * PAGE, label.meta.len - 2 * PAGE);
        world.disks[disk].corrupt(from, len, 1);
    }
    world.open(&[]);
    let bad = world.draw(40, 2);
    bad.iter().for_each(|&(stripe, member, page)| world.corrupt(stripe, member, page));
    assert_eq!(world.unread(), BTreeSet::new());
    world.scrub();
    assert_eq!(world.array.health().repaired, 40, "all sums are known");
    // While it is open.
    world.disks[2].corrupt(label.meta.offset + 2 * PAGE, label.meta.len - 2 * PAGE, 2);
    world.disks[1].corrupt(format::label_offsets(SIZE)[2], 100, 3);
    let found = world.scrub();
    assert!(found.metadata > 3 * 2, "{found:?}");
    assert_eq!(world.scrub().metadata, 0);
    world.close();
    world.open(&[0, 1]);
    world.corrupt(9, 0, 0);
    let _ = world.read(world.address(9, 0, 0), PAGE);
    assert_eq!(world.array.health().wrong, 1, "their sums are on drive 2");
}

#[test]
fn without_checksums_drives_are_divided_as_before() {
    let env = VirtEnv::new(1);
    let disks: Vec<Disk> = (0..3).map(|at| Disk::new(format!("d{at}"), SIZE, 512, at)).collect();
    let drives = || disks.iter().map(|d| VirtDrive::attach(&env, d, Latency::SSD)).collect();
    let (name, redundancy) = ("tank".into(), Redundancy::Parity(1));
    let spec = CreateSpec { name, redundancy, width: 3, chunk: CHUNK, checksums: false };
    let drives: Vec<VirtDrive> = drives();
    env.block_on(create(&env, &drives, &spec)).expect("it fits");
    let label = env.block_on(classical::label::read(&drives[0])).expect("a label");
    let log = (CHUNK + PAGE) * 64;
    assert_eq!((label.meta.len, label.features.incompat), (2 * PAGE, 2));
    assert_eq!(label.zones.offset, ((1 << 20) + log + 2 * PAGE).next_multiple_of(CHUNK));
    let array = env.block_on(Array::open(&env, drives, OpenOptions::default())).expect("opens");
    assert_eq!((array.has_sums(), array.health().sums_memory), (false, 0));
    env.crash();
}

/// Without redundancy whatever is there counts after a crash, for it may be newer than its
/// checksum; unless somebody above knows what was being written.
#[test]
fn what_was_not_announced_has_rotted() {
    for announced in [false, true] {
        let mut world = World::new((Redundancy::Parity(0), 2, 1), 60);
        let rotten = world.address(3, 1, 2);
        world.corrupt(3, 1, 2);
        world.corrupt(4, 0, 1);
        world.cut(&[]);
        if announced {
            let being_written = world.address(4, 0, 1);
            world.array.only_written(vec![being_written + 100..being_written + 200, 0..0]);
        }
        match (announced, world.read(rotten, PAGE)) {
            (true, Err(ArrayError::PageLost { .. })) | (false, Ok(false)) => {}
            (_, read) => panic!("announced: {announced}; right: {read:?}"),
        }
        let read = world.read(world.address(4, 0, 1), PAGE);
        assert!(matches!(read, Ok(false)), "it may be newer");
    }
}

/// The record of the last write of a stripe has rotted. The one before told of a page that the last
/// one has written, and that the checksum log did not have then: it would bring back what that page
/// held before (a world of `alternate` over parity, seed 507).
#[test]
fn a_record_of_before_brings_nothing_back() {
    let mut world = World::new(RAID5, 70);
    world.rest();
    let (stripe, beside, page) = (5, world.address(5, 0, 1), world.address(5, 1, 1));
    // One that has begun before and is not over: nothing tells that those after it are.
    let (drive, at) = world.place(7, 0, 0);
    let hang = Fault::new(Effect::Hang(Some(Nanos::from_secs(1))));
    let hang = hang.on(Operation::Write).within(at..at + PAGE);
    world.faults[drive].arm(world.env.now(), hang).expect("it makes sense");
    let (array, hung) = (world.array.clone(), world.address(7, 0, 0));
    let same = Buf::from_slice(&world.truth[hung as usize..][..PAGE as usize]);
    world.env.spawn(async move { drop(array.write(hung, same, false).await) });
    world.cached(page);
    world.write(beside, PAGE);
    world.write(page, PAGE);
    // The checksum log says that it is settled.
    world.write(world.address(9, 0, 0), PAGE);
    world.env.crash();
    let mut fate = Rng::new(1);
    world.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::DropAll));
    let parity = &world.disks[world.place(stripe, 3, 0).0];
    let u64_at = |at: u64| u64::from_le_bytes(parity.peek(at, 8).try_into().expect("8 bytes"));
    let is_ours = |at: &u64| parity.peek(*at, 8) == b"STDYPPL1" && u64_at(at + 48) == stripe;
    let records = (0..SIZE).step_by(PAGE as usize).filter(is_ours);
    let last = records.max_by_key(|at| u64_at(at + 40)).expect("the write had one");
    parity.corrupt(last, PAGE, 3);
    let drives = world.disks.iter().zip(&world.faults);
    let drives = drives.map(|(disk, faults)| attach(&world.env, disk, faults)).collect();
    let options = OpenOptions::default();
    world.array = world.env.block_on(Array::open(&world.env, drives, options)).expect("opens");
    assert_eq!(world.unread(), BTreeSet::new());
}
