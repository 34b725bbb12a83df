//! LDM §3.5 with a new drive: `log-mirror` and `hpda` fill it beside requests. Of a data drive the
//! log takes what is written meanwhile; of a log drive, what is logged is migrated at the same
//! time.

use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Nanos};
use schemes::scheme::log_mirror::policy::Policy;
use schemes::scheme::log_mirror::{LogMirror, Options, Spec};
use schemes::scheme::{hpda, log_mirror};
use schemes::{Store, StoreError};

const KIB: u64 = 1 << 10;
const CHUNK: u64 = 16 * KIB;
/// Writes of one step of filling a drive: its rows follow each other.
const STEP_WRITES: u64 =
    (classical::limits::REBUILD_AT_ONCE * CHUNK).div_ceil(classical::limits::REBUILD_WRITE);
const SIZE: u64 = 8 << 20;
/// Of hpda, for the log.
const SIDE: u64 = 6 << 20;
/// Bytes at the beginning of the array that are used; the rest is rebuilt all the same.
const SPAN: u64 = 60 * CHUNK;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Four data drives, two log drives.
    LogMirror,
    /// Three data drives, the parity drive, the buffer drive.
    Hpda,
}
use Kind::{Hpda, LogMirror as Ldm};

impl Kind {
    fn drives(self) -> usize {
        if self == Hpda { 5 } else { 6 }
    }

    /// The last two.
    fn log_drive(self, at: usize) -> usize {
        self.drives() - 2 + at
    }
}

struct World {
    kind: Kind,
    env: VirtEnv,
    disks: Vec<Disk>,
    store: LogMirror<VirtEnv>,
    truth: Vec<u8>,
    rng: Rng,
}

fn attach(env: &VirtEnv, disks: &[Disk]) -> Vec<VirtDrive> {
    disks.iter().map(|disk| VirtDrive::attach(env, disk, Latency::SSD)).collect()
}

fn make(kind: Kind, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
    let (chunk, log_chunk) = (CHUNK, CHUNK);
    if kind == Hpda {
        let spec = hpda::Spec { chunk, log_chunk, side: Some(SIDE), ..hpda::Spec::new("tank") };
        return env.block_on(hpda::create(env, drives, &spec));
    }
    let spec = Spec { chunk, log_chunk, ..Spec::new("tank", 4) };
    env.block_on(log_mirror::create(env, drives, &spec))
}

fn open(kind: Kind, env: &VirtEnv, drives: Vec<VirtDrive>) -> LogMirror<VirtEnv> {
    let policy = Policy { quiet: Nanos::ZERO, ..Policy::default() };
    let options = Options { policy, ..Options::default() };
    let opened = match kind {
        Hpda => env.block_on(hpda::open(env, drives, options)),
        Ldm => env.block_on(LogMirror::open(env, drives, options)),
    };
    opened.expect("opens")
}

impl World {
    fn new(kind: Kind, seed: u64) -> World {
        let env = VirtEnv::new(seed);
        let disk = |at| Disk::new(format!("d{at}"), SIZE + SIDE, 512, seed ^ at);
        let disks: Vec<Disk> = (0..kind.drives() as u64).map(disk).collect();
        make(kind, &env, &attach(&env, &disks)).expect("it fits");
        let store = open(kind, &env, attach(&env, &disks));
        let (truth, rng) = (vec![0; SPAN as usize], Rng::new(seed));
        let mut world = World { kind, env, disks, store, truth, rng };
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

    /// What is used is there, and up to here everything agrees.
    fn check(&self, end: u64) {
        let read = self.env.block_on(self.store.read(0, SPAN)).expect("reads");
        assert!(read[..] == self.truth[..], "not what was written");
        let wrong = self.env.block_on(self.store.audit(0, end));
        assert_eq!(wrong, Vec::<String>::new());
    }

    fn counter(&self, name: &str) -> u64 {
        let all = self.store.counters();
        all.iter().find(|(own, _)| *own == name).expect("there is such a counter").1
    }

    fn cut(&mut self) {
        self.env.crash();
        let mut fate = Rng::new(self.rng.next_u64());
        self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::Random));
        self.store = open(self.kind, &self.env, attach(&self.env, &self.disks));
    }

    fn work(&self) -> bool {
        self.env.block_on(self.store.work()).expect("works")
    }

    fn lose(&mut self, place: usize) {
        self.disks[place].set_failed(true);
        // Small ones and a large one: array and log notice.
        self.write(CHUNK, 4 * KIB);
        self.write(0, SPAN);
        self.write(CHUNK, 4 * KIB);
        let _ = self.env.block_on(self.store.flush());
        while self.work() {}
        self.write(0, SPAN);
        assert!(self.store.lost().contains(&place), "{place}");
    }

    fn put(&self, place: usize) -> Result<(), StoreError> {
        let new = attach(&self.env, &self.disks[place..place + 1]).remove(0);
        self.env.block_on(self.store.replace(place, new))
    }

    fn replace(&mut self, place: usize) {
        self.disks[place] = Disk::new("new", SIZE + SIDE, 512, self.rng.next_u64());
        self.put(place).expect("it takes its place");
    }

    /// Some steps, with writes beside.
    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            let sector = self.rng.below(SPAN / 512 - 140);
            let most = if self.rng.chance(1, 4) { 140 } else { 20 };
            let len = 512 * (1 + self.rng.below(most));
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

fn story(kind: Kind, seed: u64) {
    let mut world = World::new(kind, seed);
    let drives = kind.drives() as u64;
    let (first, second) = ((seed % drives) as usize, ((seed + 1) % drives) as usize);
    world.steps(10);
    world.lose(first);
    world.replace(first);
    world.check(SPAN);
    let part = 1 + world.rng.index(6);
    world.steps(part);
    world.check(SPAN);
    if seed.is_multiple_of(2) {
        // A crash: the drive is still one that lacks everything.
        world.cut();
        assert_eq!(world.store.lost(), [first]);
        world.check(SPAN);
        world.put(first).expect("it takes its place again");
    }
    world.rebuild(first);
    assert_eq!((world.store.margin(), world.counter("rebuilt_drives")), (1, 1));
    world.check(world.store.size());
    world.cut();
    assert_eq!(world.store.lost(), [], "its labels say that it belongs");
    world.steps(10);
    world.lose(second);
    world.check(SPAN);
    world.cut();
    world.check(SPAN);
    world.env.crash();
}

#[test]
fn a_new_drive_is_filled_beside_writes_and_through_a_crash() {
    for seed in 0..6 {
        story(Ldm, seed);
        story(Hpda, seed);
    }
}

/// Figure 4: migration and reconstruction go on side by side, requests are the array's; then both
/// log drives take small writes again.
#[test]
fn figure_4_the_log_is_migrated_while_its_new_drive_is_filled() {
    for (kind, log_drive) in [(Ldm, 0), (Ldm, 1), (Hpda, 1)] {
        let mut world = World::new(kind, 3);
        let (place, left) = (kind.log_drive(log_drive), kind.log_drive(1 - log_drive));
        let stripe = 3 * CHUNK;
        (0..6).for_each(|at| world.write(at * stripe + 4 * KIB, 4 * KIB));
        world.disks[place].set_failed(true);
        world.write(6 * stripe, 4 * KIB);
        assert_eq!((world.store.lost(), world.store.margin()), (vec![place], 0));
        world.replace(place);
        let (logged, before) = (world.counter("log_writes"), world.disks[place].counters().writes);
        for step in 1..=7 {
            assert!(world.work());
            world.write(step * stripe + 8 * KIB, 4 * KIB);
            assert_eq!(world.counter("migrated_stripes"), step, "migrated");
        }
        let filled = world.disks[place].counters().writes - before;
        assert!(filled >= 7 * STEP_WRITES, "and filled: {filled}");
        assert_eq!((world.counter("log_writes"), world.counter("log_live")), (logged, 0));
        assert_eq!(world.store.lost(), [place], "there is more to fill");
        while world.work() {}
        assert_eq!((world.store.lost(), world.store.margin()), (vec![], 1));
        world.write(stripe, 4 * KIB);
        world.write(2 * stripe, 4 * KIB);
        assert_eq!(world.counter("log_writes"), logged + 2);
        world.disks[left].set_failed(true);
        world.check(SPAN);
    }
}

/// §3.5: while a data drive is rebuilt the log takes all writes, so the rebuild has the array for
/// itself; afterwards they are migrated.
#[test]
fn while_a_data_drive_is_filled_the_log_stands_in() {
    for kind in [Ldm, Hpda] {
        let mut world = World::new(kind, 5);
        world.disks[1].set_failed(true);
        world.write(0, SPAN);
        world.replace(1);
        let writes = |world: &World| -> Vec<u64> {
            let data = world.disks[..3].iter().map(|disk| disk.counters().writes);
            data.collect()
        };
        let (mut steps, before) = (0, writes(&world));
        while world.counter("rebuilt_drives") == 0 && steps < 5 {
            world.write(0, 10 * CHUNK);
            assert!(world.work());
            steps += 1;
        }
        let after = writes(&world);
        // But for the labels of the set: how new the array is since it was lost.
        let labels = 4;
        let others = (before[0] + labels, before[2] + labels);
        assert_eq!(others, (after[0], after[2]), "only the new one is written");
        assert_eq!(after[1] - before[1], steps * STEP_WRITES);
        assert!(world.counter("log_live") > 0);
        while world.work() {}
        assert_eq!((world.store.lost(), world.counter("log_live")), (vec![], 0));
        world.check(world.store.size());
    }
}

/// A data drive and a log drive are lost; one is replaced after the other.
#[test]
fn two_lost_drives_of_different_kinds_are_replaced_in_turn() {
    for kind in [Ldm, Hpda] {
        let mut world = World::new(kind, 7);
        let buffer = kind.log_drive(1);
        world.lose(0);
        world.lose(buffer);
        world.replace(0);
        let second = Disk::new("second", SIZE + SIDE, 512, 9);
        let second = attach(&world.env, &[second]).remove(0);
        assert!(world.env.block_on(world.store.replace(buffer, second)).is_err(), "one at a time");
        world.rebuild(0);
        world.replace(buffer);
        world.rebuild(buffer);
        assert_eq!(world.store.margin(), 1);
        world.check(world.store.size());
        world.cut();
        assert_eq!(world.store.lost(), []);
        world.check(SPAN);
    }
}

/// The old drive comes back beside the one that replaced it: it is left out.
#[test]
fn a_drive_that_was_replaced_is_not_taken_again() {
    for (kind, place) in [(Ldm, 0), (Ldm, 5), (Hpda, 2), (Hpda, 3), (Hpda, 4)] {
        let mut world = World::new(kind, 3);
        let old = world.disks[place].clone();
        world.lose(place);
        world.replace(place);
        world.rebuild(place);
        old.set_failed(false);
        world.disks.insert(0, old);
        world.cut();
        assert_eq!(world.store.lost(), []);
        world.check(SPAN);
    }
}

/// The parity drive fails for a moment, in which only the array asks it: its half of the log is
/// right, but a new drive takes the place of all of it.
#[test]
fn a_shared_drive_is_replaced_as_a_whole() {
    let mut world = World::new(Hpda, 4);
    let (parity, buffer) = (Hpda.log_drive(0), Hpda.log_drive(1));
    world.write(CHUNK, 4 * KIB);
    world.disks[parity].set_failed(true);
    world.write(6 * CHUNK, 3 * CHUNK);
    world.disks[parity].set_failed(false);
    assert_eq!(world.store.lost(), [parity]);
    let logged = world.counter("log_writes");
    world.write(CHUNK, 4 * KIB);
    assert_eq!(world.counter("log_writes"), logged + 1, "the log is whole");
    world.replace(parity);
    world.check(SPAN);
    world.rebuild(parity);
    world.check(world.store.size());
    world.disks[buffer].set_failed(true);
    world.check(SPAN);

    // If the log has nothing else, its half there must not be thrown away.
    let mut world = World::new(Hpda, 4);
    world.disks[parity].set_failed(true);
    world.write(6 * CHUNK, 3 * CHUNK);
    world.disks[parity].set_failed(false);
    world.write(CHUNK, 4 * KIB);
    world.disks[buffer].set_failed(true);
    world.write(CHUNK, 4 * KIB);
    assert_eq!(world.store.lost(), [parity, buffer]);
    let old = world.disks[parity].clone();
    world.disks[parity] = Disk::new("new", SIZE + SIDE, 512, 1);
    assert!(world.put(parity).is_err());
    world.disks[parity] = old;
    world.check(SPAN);
}

#[test]
fn what_can_not_take_the_place_is_refused() {
    let mut world = World::new(Ldm, 1);
    assert!(world.put(0).is_err(), "nothing is lost");
    world.lose(0);
    world.disks[0] = Disk::new("small", SIZE / 2, 512, 1);
    assert!(world.put(0).is_err(), "too small");
    world.disks[0] = Disk::new("coarse", SIZE + SIDE, 8192, 1);
    assert!(world.put(0).is_err(), "its unit is larger");
    world.disks[0] = Disk::new("dead", SIZE + SIDE, 512, 1);
    world.disks[0].set_failed(true);
    assert!(world.put(0).is_err(), "it can't be written to");
    world.check(SPAN);
    world.replace(0);
    // The new one dies, and another takes its place.
    world.steps(2);
    world.disks[0].set_failed(true);
    world.steps(10);
    assert_eq!(world.store.lost(), [0]);
    world.replace(0);
    world.rebuild(0);
    world.check(world.store.size());
}
