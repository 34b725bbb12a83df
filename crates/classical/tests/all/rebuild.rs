//! A new drive in the place of a lost one, filled beside requests: afterwards the array bears
//! another loss, and a crash on the way costs nothing but the way.

use classical::array::create;
use classical::{Array, CreateSpec, OpenOptions, Redundancy};
use format::MemberState;
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};

const CHUNK: u64 = 8192;
const SIZE: u64 = 4 << 20;
/// Bytes at the beginning of the array that are used; the rest is rebuilt all the same.
const SPAN: u64 = 64 * CHUNK;

struct World {
    env: VirtEnv,
    disks: Vec<Disk>,
    array: Array<VirtEnv>,
    truth: Vec<u8>,
    rng: Rng,
}

fn attach(env: &VirtEnv, disk: &Disk) -> VirtDrive {
    VirtDrive::attach(env, disk, Latency::SSD)
}

impl World {
    fn new(redundancy: Redundancy, width: usize, seed: u64) -> World {
        let env = VirtEnv::new(seed);
        let disk = |at| Disk::new(format!("d{at}"), SIZE, 512, seed ^ at);
        let disks: Vec<Disk> = (0..width as u64).map(disk).collect();
        let drives: Vec<VirtDrive> = disks.iter().map(|disk| attach(&env, disk)).collect();
        let spec =
            CreateSpec { name: "tank".into(), redundancy, width, chunk: CHUNK, checksums: true };
        env.block_on(create(&env, &drives, &spec)).expect("it fits");
        let array = env.block_on(Array::open(&env, drives, OpenOptions::default())).expect("opens");
        let truth = vec![0; SPAN as usize];
        let mut world = World { env, disks, array, truth, rng: Rng::new(seed) };
        world.write(0, SPAN);
        world
    }

    fn draw(&mut self, offset: u64, len: u64) -> Buf {
        let mut bytes = vec![0; len as usize];
        self.rng.fill(&mut bytes);
        self.truth[offset as usize..(offset + len) as usize].copy_from_slice(&bytes);
        Buf::from_slice(&bytes)
    }

    fn write(&mut self, offset: u64, len: u64) {
        let data = self.draw(offset, len);
        self.env.block_on(self.array.write(offset, data, true)).expect("writes");
    }

    fn check(&self) {
        let read = self.env.block_on(self.array.read(0, SPAN)).expect("reads");
        assert!(read[..] == self.truth[..], "not what was written");
        assert_eq!(self.env.block_on(self.array.disagreeing(0, self.array.size())), []);
    }

    fn open(&mut self) {
        let drives = self.disks.iter().map(|disk| attach(&self.env, disk)).collect();
        let opened = self.env.block_on(Array::open(&self.env, drives, OpenOptions::default()));
        self.array = opened.expect("opens");
    }

    fn cut(&mut self) {
        self.env.crash();
        let mut fate = Rng::new(self.rng.next_u64());
        self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::Random));
        self.open();
    }

    /// The drive is gone, and another one, full of noise, is put in its place.
    fn replace(&mut self, place: usize) {
        self.disks[place].set_failed(true);
        // Notices it, if it had not.
        self.write(0, SPAN);
        let _ = self.env.block_on(self.array.flush());
        assert_eq!(self.array.lost(), [place]);
        self.disks[place] = Disk::new("new", SIZE, 512, self.rng.next_u64());
        self.again(place);
    }

    fn again(&self, place: usize) {
        let new = attach(&self.env, &self.disks[place]);
        self.array.replace(place, new).expect("it is lost and this is large enough");
    }

    /// Some steps, with writes beside. True: there is more to do.
    fn rebuild(&mut self, place: usize, steps: usize) -> bool {
        for _ in 0..steps {
            let sector = self.rng.below(SPAN / 512 - 40);
            let len = 512 * (1 + self.rng.below(40));
            let data = self.draw(sector * 512, len);
            let array = self.array.clone();
            let (more, written) = self.env.block_on(futures_util::future::join(
                array.rebuild_some(place),
                array.write(sector * 512, data, true),
            ));
            written.expect("writes");
            if !more.expect("rebuilds") {
                return false;
            }
        }
        true
    }
}

fn story(redundancy: Redundancy, width: usize, seed: u64) {
    let mut world = World::new(redundancy, width, seed);
    let (first, second) = ((seed % width as u64) as usize, ((seed + 1) % width as u64) as usize);
    world.replace(first);
    let part = 1 + world.rng.index(6);
    assert!(world.rebuild(first, part), "that was not all");
    world.check();
    // A crash: the drive is still one that lacks everything.
    world.cut();
    assert_eq!(world.array.lost(), [first]);
    world.check();
    world.again(first);
    while world.rebuild(first, 1) {}
    assert_eq!(world.array.lost(), []);
    world.check();
    world.cut();
    assert_eq!(world.array.lost(), [], "its labels say that it belongs");
    world.check();
    // And now another one.
    world.replace(second);
    world.check();
    world.env.crash();
}

#[test]
fn a_new_drive_is_filled_beside_writes_and_through_a_crash() {
    for seed in 0..12 {
        story(Redundancy::Mirror, 2, seed);
        story(Redundancy::Parity(1), 4, seed);
        story(Redundancy::ParityDrive, 4, seed);
        story(Redundancy::Parity(2), 5, seed);
    }
}

/// From the moment on at which nothing is lost any more another drive may be, with the power.
#[test]
fn a_new_drive_counts_as_lost_until_the_labels_call_it_whole() {
    for (redundancy, width) in [(Redundancy::Mirror, 2), (Redundancy::Parity(1), 4)] {
        let mut world = World::new(redundancy, width, 3);
        world.replace(0);
        let array = &world.array;
        let filled = async { while array.rebuild_some(0).await.expect("rebuilds") {} };
        let images = async {
            while !array.lost().is_empty() {
                assert_eq!(array.restoring(), [0]);
                world.env.sleep_until(world.env.now() + Nanos::from_micros(1)).await;
            }
            world.disks.iter().map(Disk::fork).collect::<Vec<Disk>>()
        };
        let ((), images) = world.env.block_on(futures_util::future::join(filled, images));
        let mut fate = Rng::new(5);
        images.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::DropAll));
        let env = VirtEnv::new(4);
        let others = images.iter().enumerate().filter(|(at, _)| *at != 1);
        let drives = others.map(|(_, disk)| attach(&env, disk)).collect();
        let array = env.block_on(Array::open(&env, drives, OpenOptions::default()));
        let read = env.block_on(array.expect("it bears one").read(0, SPAN)).expect("reads");
        assert!(read[..] == world.truth[..], "not what was written");
    }
}

#[test]
fn what_can_not_be_rebuilt_is_refused() {
    let world = World::new(Redundancy::Parity(1), 4, 1);
    let whole = attach(&world.env, &Disk::new("new", SIZE, 512, 9));
    assert!(world.array.replace(0, whole).is_err(), "nothing is lost");
    world.disks[0].set_failed(true);
    let _ = world.env.block_on(world.array.write(0, Buf::zeroed(SPAN as usize), true));
    let small = attach(&world.env, &Disk::new("new", SIZE / 2, 512, 9));
    assert!(world.array.replace(0, small).is_err(), "too small");
    assert!(world.env.block_on(world.array.rebuild_some(0)).is_err(), "nothing to fill");
}

/// A drive comes back with records of the log that are of the present epoch, and older than what
/// was written without it. If they counted, a chunk that is lost later would follow from them.
#[test]
fn a_drive_that_comes_back_has_no_records_of_before() {
    for seed in 0..16 {
        let mut world = World::new(Redundancy::Parity(1), 4, seed);
        let (back, gone) = ((seed % 4) as usize, ((seed / 4 + 1 + seed) % 4) as usize);
        if back == gone {
            continue;
        }
        // Less than a stripe, so that partial parity is logged.
        for chunk in 0..SPAN / CHUNK {
            world.write(chunk * CHUNK + 512, 1024);
        }
        world.disks[back].set_failed(true);
        for chunk in 0..SPAN / CHUNK {
            world.write(chunk * CHUNK + 512, 1024);
        }
        assert_eq!(world.array.lost(), [back]);
        world.disks[back].set_failed(false);
        let new = attach(&world.env, &world.disks[back]);
        world.env.block_on(world.array.restore(back, new)).expect("it is large enough");
        while world.env.block_on(world.array.rebuild()).expect("rebuilds") {}
        assert_eq!(world.array.lost(), []);
        world.env.crash();
        let there = world.disks.iter().enumerate().filter(|(at, _)| *at != gone);
        let drives = there.map(|(_, disk)| attach(&world.env, disk)).collect();
        let opened = world.env.block_on(Array::open(&world.env, drives, OpenOptions::default()));
        world.array = opened.expect("opens without one");
        let read = world.env.block_on(world.array.read(0, SPAN)).expect("reads");
        assert!(read[..] == world.truth[..], "seed {seed}: not what was written");
        world.env.crash();
    }
}

/// Whoever opens an array sees which drive was being filled; what is on it counts no more than
/// before, and it may be one that has labels of another array.
#[test]
fn the_labels_say_which_drive_is_being_filled() {
    let mut world = World::new(Redundancy::Parity(1), 4, 3);
    let stranger = World::new(Redundancy::Parity(1), 4, 4);
    world.disks[2].set_failed(true);
    world.write(0, SPAN);
    world.disks[2] = stranger.disks[0].clone();
    let new = attach(&world.env, &world.disks[2]);
    world.env.block_on(world.array.restore(2, new)).expect("it is large enough");
    assert!(world.rebuild(2, 2), "that was not all");
    let state = |world: &World| {
        let drive = attach(&world.env, &world.disks[2]);
        let label = world.env.block_on(classical::label::read(&drive)).expect("it has a label");
        (label.index, label.members[2].state, label.drive == label.members[2].drive)
    };
    assert_eq!(state(&world), (2, MemberState::Restoring, true));
    world.cut();
    assert_eq!((world.array.lost(), world.array.restoring()), (vec![2], vec![]));
    assert_eq!(state(&world), (2, MemberState::Restoring, true));
    let new = attach(&world.env, &world.disks[2]);
    world.env.block_on(world.array.restore(2, new)).expect("it is lost");
    while world.rebuild(2, 1) {}
    assert_eq!((state(&world), world.array.lost()), ((2, MemberState::Active, true), vec![]));
    world.check();
    // Failed on request, it is one that failed.
    world.env.block_on(world.array.write_off(2)).expect("it bears that");
    let drive = attach(&world.env, &world.disks[0]);
    let label = world.env.block_on(classical::label::read(&drive)).expect("it has a label");
    assert_eq!((label.members[2].state, label.features.incompat & 8), (MemberState::Failed, 0));
    stranger.env.crash();
    world.env.crash();
}
