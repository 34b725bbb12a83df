//! Figure 6, case 1: a drive of a steered array is lost and a new one is filled beside requests,
//! while drives collect garbage; afterwards the array bears another loss.

use classical::Redundancy;
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::Store;
use schemes::scheme::steering::{Options, Spec, Staging, Steering, create, open};

const CHUNK: u64 = 8192;
const SIZE: u64 = 7 << 20;
/// Bytes at the beginning of the array that are used; the rest is rebuilt all the same.
const SPAN: u64 = 64 * CHUNK;

struct World {
    env: VirtEnv,
    disks: Vec<Disk>,
    store: Steering<VirtEnv>,
    truth: Vec<u8>,
    rng: Rng,
}

fn attach(env: &VirtEnv, disks: &[Disk]) -> Vec<VirtDrive> {
    disks.iter().map(|disk| VirtDrive::attach(env, disk, Latency::SSD)).collect()
}

impl World {
    fn new((redundancy, width): (Redundancy, usize), staging: Staging, seed: u64) -> World {
        let env = VirtEnv::new(seed);
        let drives = width + usize::from(staging == Staging::Dedicated);
        let disk = |at| Disk::new(format!("d{at}"), SIZE, 512, seed ^ at);
        let disks: Vec<Disk> = (0..drives as u64).map(disk).collect();
        let spec =
            Spec { name: "tank".into(), redundancy, width, chunk: CHUNK, staging, checksums: true };
        env.block_on(create(&env, &attach(&env, &disks), &spec)).expect("it fits");
        let store = env.block_on(open(&env, attach(&env, &disks), Options::default()));
        let (truth, rng) = (vec![0; SPAN as usize], Rng::new(seed));
        let mut world = World { env, disks, store: store.expect("opens"), truth, rng };
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
        self.env.block_on(self.store.write(offset, data, true)).expect("writes");
    }

    fn check(&self) {
        self.check_to(SPAN);
    }

    /// What is used, and whether the drives agree up to there.
    fn check_to(&self, end: u64) {
        let read = self.env.block_on(self.store.read(0, SPAN)).expect("reads");
        assert!(read[..] == self.truth[..], "not what was written");
        // Copies of what was read are on their way.
        self.env.block_on(self.env.sleep_until(self.env.now() + Nanos::from_millis(10)));
        let wrong = self.env.block_on(self.store.audit(0, end));
        assert_eq!(wrong, Vec::<String>::new());
    }

    fn cut(&mut self) {
        self.env.crash();
        let mut fate = Rng::new(self.rng.next_u64());
        self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::Random));
        let opened = open(&self.env, attach(&self.env, &self.disks), Options::default());
        self.store = self.env.block_on(opened).expect("opens");
    }

    fn drain(&self) {
        (0..self.disks.len()).for_each(|drive| self.store.set_busy(drive, false));
        while self.env.block_on(self.store.work()).expect("works") {}
    }

    /// A drive fails of which much is staged, and which holds what is staged of another that
    /// still collects garbage.
    fn lose(&mut self, place: usize, width: usize) {
        self.drain();
        self.store.set_busy(place, true);
        self.write(0, SPAN);
        self.store.set_busy(place, false);
        self.store.set_busy((place + 1) % width, true);
        self.write(0, SPAN / 2);
        self.disks[place].set_failed(true);
        while self.env.block_on(self.store.work()).expect("works") {}
        // Not all of it, so that copies on the lost drive stay what D_Table names.
        self.write(SPAN / 2, SPAN / 2);
        assert!(self.store.lost().contains(&place));
    }

    fn replace(&mut self, place: usize) {
        self.disks[place] = Disk::new("new", SIZE, 512, self.rng.next_u64());
        self.again(place);
    }

    fn again(&self, place: usize) {
        let new = attach(&self.env, &self.disks[place..place + 1]).remove(0);
        self.env.block_on(self.store.replace(place, new)).expect("it takes its place");
    }

    /// Some steps, with writes beside while drives become busy and idle.
    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            let (drive, busy) = (self.rng.index(self.disks.len()), self.rng.chance(1, 3));
            self.store.set_busy(drive, busy);
            let sector = self.rng.below(SPAN / 512 - 40);
            let len = 512 * (1 + self.rng.below(40));
            let data = self.draw(sector * 512, len);
            let store = self.store.clone();
            let (_, written) = self.env.block_on(futures_util::future::join(
                store.work(),
                store.write(sector * 512, data, true),
            ));
            written.expect("writes");
        }
    }

    fn rebuild(&mut self, place: usize) {
        while self.store.lost().contains(&place) {
            self.steps(1);
        }
    }
}

fn story(shape: (Redundancy, usize), staging: Staging, seed: u64) {
    let mut world = World::new(shape, staging, seed);
    let width = shape.1;
    let (first, second) = ((seed % width as u64) as usize, ((seed + 1) % width as u64) as usize);
    world.steps(10);
    world.lose(first, width);
    world.replace(first);
    // Copies on the old drive are gone, whatever lies there now; with all busy any is as good.
    (0..world.disks.len()).for_each(|drive| world.store.set_busy(drive, true));
    world.check();
    world.check();
    let part = 1 + world.rng.index(20);
    world.steps(part);
    world.check();
    if seed.is_multiple_of(2) {
        // A crash: the drive is still one that lacks everything.
        world.cut();
        assert_eq!(world.store.lost(), [first]);
        world.check();
        world.again(first);
    }
    world.rebuild(first);
    world.check_to(world.store.size());
    world.cut();
    assert_eq!(world.store.lost(), [], "its labels say that it belongs");
    world.steps(10);
    world.check();
    world.lose(second, width);
    world.check();
    world.cut();
    world.check();
    world.env.crash();
}

const RESERVED: Staging = Staging::Reserved { bytes: 1 << 20 };

#[test]
fn figure_6_a_new_drive_is_filled_while_others_collect() {
    for seed in 0..6 {
        story((Redundancy::Parity(1), 4), RESERVED, seed);
        story((Redundancy::Parity(2), 5), RESERVED, seed);
        story((Redundancy::Parity(1), 4), Staging::Dedicated, seed);
        story((Redundancy::Mirror, 2), Staging::Dedicated, seed);
    }
}

/// Writes of what the new drive has already go to the staging space while it is being filled.
#[test]
fn figure_6_the_new_drive_has_only_the_rebuild_to_write() {
    let mut world = World::new((Redundancy::Parity(1), 4), RESERVED, 1);
    world.lose(2, 4);
    world.replace(2);
    world.store.set_busy(3, false);
    for _ in 0..4 {
        world.env.block_on(world.store.work()).expect("works");
    }
    let before = world.disks[2].counters().writes;
    assert!(before >= 4 && world.store.away()[2] == 0, "rows go where they belong");
    world.write(0, SPAN / 4);
    assert_eq!(world.disks[2].counters().writes, before);
    assert!(world.store.away()[2] > 0);
    while world.env.block_on(world.store.work()).expect("works") {}
    assert_eq!((world.store.away()[2], world.store.lost()), (0, vec![]));
    world.check();
}

fn count(world: &World, name: &str) -> u64 {
    let counters = world.store.counters();
    counters.iter().find(|(own, _)| *own == name).expect("it counts").1
}

/// While a new drive is filled all writes of data to its group go to the staging space, and so do
/// reads of what is popular; afterwards all of it is reclaimed, and steering is over.
#[test]
fn figure_6_case_1_redirects_what_is_addressed_to_the_degraded_drives() {
    for staging in [RESERVED, Staging::Dedicated] {
        let mut world = World::new((Redundancy::Parity(1), 4), staging, 1);
        world.drain();
        // Chunk 0 is on drive 0; it is read often enough before the loss and again after it.
        for _ in 0..3 {
            world.env.block_on(world.store.read(0, CHUNK)).expect("reads");
            world.env.block_on(world.env.sleep_until(world.env.now() + Nanos::from_millis(10)));
        }
        world.lose(2, 4);
        world.drain();
        world.replace(2);
        assert_eq!(world.store.away(), [0; 4]);
        for _ in 0..3 {
            world.env.block_on(world.store.read(0, CHUNK)).expect("reads");
            world.env.block_on(world.env.sleep_until(world.env.now() + Nanos::from_millis(10)));
        }
        let hot = count(&world, "hot_reads");
        world.env.block_on(world.store.read(0, CHUNK)).expect("reads");
        assert_eq!(count(&world, "hot_reads"), hot + 1, "{staging:?}: nobody is busy");
        world.write(0, SPAN / 8);
        let away = world.store.away();
        assert!([0, 1, 3].iter().all(|&at| away[at] > 0), "{staging:?}: {away:?}");
        assert!(count(&world, "outsourced_writes") > 0);
        world.check();
        // Nothing goes back before the new drive is whole.
        world.env.block_on(world.store.work()).expect("works");
        assert!(world.store.away().iter().sum::<u64>() >= away.iter().sum::<u64>());
        let before = count(&world, "deactivated");
        while world.env.block_on(world.store.work()).expect("works") {}
        assert_eq!((world.store.lost(), world.store.away()), (vec![], vec![0; 4]));
        assert!(count(&world, "deactivated") >= before + 3);
        let outsourced = count(&world, "outsourced_writes");
        world.write(0, SPAN / 8);
        assert_eq!(count(&world, "outsourced_writes"), outsourced, "steering is over");
        world.check();
    }
}

/// What turns steering on for a drive, a signal or reconstruction, does not turn off the other.
#[test]
fn a_signal_and_a_reconstruction_do_not_end_each_other() {
    let mut world = World::new((Redundancy::Parity(1), 4), RESERVED, 1);
    world.lose(2, 4);
    world.drain();
    world.replace(2);
    for _ in 0..4 {
        world.env.block_on(world.store.work()).expect("works");
    }
    // Slow, and quick again, while it is being filled: it stays what it is.
    Store::steer(&world.store, 2, true);
    Store::steer(&world.store, 2, false);
    let before = world.disks[2].counters().writes;
    world.write(0, SPAN / 4);
    assert_eq!(world.disks[2].counters().writes, before, "it has the rebuild to write");
    // Slow when the rebuild ends: it stays slow.
    Store::steer(&world.store, 2, true);
    while world.store.lost().contains(&2) {
        world.env.block_on(world.store.work()).expect("works");
    }
    let redirected = count(&world, "redirected_writes");
    world.write(0, SPAN / 4);
    assert!(count(&world, "redirected_writes") > redirected && world.store.away()[2] > 0);
    Store::steer(&world.store, 2, false);
    while world.env.block_on(world.store.work()).expect("works") {}
    assert_eq!(world.store.away(), [0; 4]);
    let redirected = count(&world, "redirected_writes");
    world.write(0, SPAN / 4);
    assert_eq!(count(&world, "redirected_writes"), redirected);
    world.check();
}

/// What was redirected while a drive was missing has fewer copies: before the group counts as
/// whole again it is back in place, or the next loss would take the only one.
#[test]
fn what_was_staged_in_a_degraded_group_is_not_left_with_too_few_copies() {
    for holder in [0, 1] {
        let mut world = World::new((Redundancy::Parity(1), 4), RESERVED, 5);
        world.drain();
        world.disks[2].set_failed(true);
        world.write(0, SPAN);
        Store::steer(&world.store, 3, true);
        world.write(0, SPAN);
        assert!(world.store.away()[3] > 0);
        world.replace(2);
        while world.store.lost().contains(&2) {
            world.env.block_on(world.store.work()).expect("works");
        }
        world.disks[holder].set_failed(true);
        world.check();
        world.cut();
        world.check();
    }
}

/// The old drive comes back beside the one that replaced it: it is left out.
#[test]
fn a_drive_that_was_replaced_is_not_taken_again() {
    let mut world = World::new((Redundancy::Parity(1), 4), RESERVED, 3);
    let old = world.disks[0].clone();
    world.lose(0, 4);
    world.replace(0);
    world.drain();
    old.set_failed(false);
    world.disks.insert(0, old);
    world.cut();
    assert_eq!(world.store.lost(), []);
    world.check();
}

/// A lost dedicated drive is replaced, too: it serves from the next opening on.
#[test]
fn a_lost_dedicated_drive_is_replaced() {
    let mut world = World::new((Redundancy::Parity(1), 4), Staging::Dedicated, 1);
    world.disks[4].set_failed(true);
    world.store.set_busy(0, true);
    world.write(0, SPAN);
    assert_eq!(world.store.lost(), [4]);
    world.check();
    world.replace(4);
    world.cut();
    assert_eq!(world.store.lost(), []);
    world.store.set_busy(0, true);
    world.write(0, SPAN);
    assert!(world.store.away()[0] > 0);
    world.check();
    world.cut();
    world.check();
}
