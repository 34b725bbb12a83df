//! Figure 6, case 2: a lost drive of a steered array is rebuilt into the staging space of the
//! others, in parallel and without a new drive; what a second failure costs then; a new drive.

use classical::Redundancy;
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::Store;
use schemes::scheme::steering::{Options, Spec, Staging, Steering, create, open};

const CHUNK: u64 = 8192;
const MIB: u64 = 1 << 20;
/// Bytes of a drive beside what it reserves.
const HOME: u64 = 6 * MIB;
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
    fn new((redundancy, width, groups): (Redundancy, usize, usize), seed: u64) -> World {
        let env = VirtEnv::new(seed);
        // Room for a drive's bytes in equal parts, with labels, and as much as that takes beside.
        let parts = match redundancy {
            Redundancy::Parity(parity) if width > parity + 2 => (width - 1 - parity) as u64,
            _ => 1,
        };
        let bytes = (HOME / parts + 4 * MIB) * 3 / 2;
        let (size, staging) = (bytes.next_multiple_of(MIB) + HOME, Staging::Reserved { bytes });
        let disk = |at| Disk::new(format!("d{at}"), size, 512, seed ^ at);
        let disks: Vec<Disk> = (0..(width * groups) as u64).map(disk).collect();
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

    fn rest(&self) {
        self.env.block_on(self.env.sleep_until(self.env.now() + Nanos::from_millis(10)));
    }

    fn check(&self) {
        let read = self.env.block_on(self.store.read(0, SPAN)).expect("reads");
        assert!(read[..] == self.truth[..], "not what was written");
        self.rest();
        let wrong = self.env.block_on(self.store.audit(0, self.store.size()));
        assert_eq!(wrong, Vec::<String>::new());
    }

    fn cut(&mut self) {
        self.env.crash();
        let mut fate = Rng::new(self.rng.next_u64());
        self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::Random));
        self.reopen();
    }

    fn reopen(&mut self) {
        let opened = open(&self.env, attach(&self.env, &self.disks), Options::default());
        self.store = self.env.block_on(opened).expect("opens");
    }

    /// What is written there is noticed.
    fn fail(&mut self, place: usize) {
        self.disks[place].set_failed(true);
        self.store.set_busy(place, false);
        for _ in 0..20 {
            self.write(0, SPAN);
            if self.store.lost().contains(&place) {
                return;
            }
            // What is staged for it is noticed when it goes back.
            self.work();
        }
        panic!("drive {place} is not missed");
    }

    fn count(&self, name: &str) -> u64 {
        let counters = self.store.counters();
        counters.iter().find(|(own, _)| *own == name).expect("it counts").1
    }

    fn work(&self) -> bool {
        self.env.block_on(self.store.work()).expect("works")
    }

    fn drain(&self) {
        (0..self.disks.len()).for_each(|drive| self.store.set_busy(drive, false));
        while self.work() {}
    }

    fn give(&mut self, place: usize) {
        let size = self.disks[(place + 1) % self.disks.len()].geometry().size;
        self.disks[place] = Disk::new("new", size, 512, self.rng.next_u64());
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
            let (worked, written) = self.env.block_on(futures_util::future::join(
                store.work(),
                store.write(sector * 512, data, true),
            ));
            worked.expect("works");
            written.expect("writes");
        }
    }

    fn until_spared(&mut self) {
        for _ in 0..400 {
            if self.store.spared().is_some() {
                return;
            }
            self.steps(1);
        }
        panic!("never whole: {:?}", self.store.counters());
    }
}

/// Bytes written to each drive while something is done.
fn written(world: &mut World, act: impl FnOnce(&mut World)) -> Vec<u64> {
    let now = |world: &World| -> Vec<u64> {
        world.disks.iter().map(|disk| disk.counters().bytes_written).collect()
    };
    let before = now(world);
    act(world);
    now(world).iter().zip(before).map(|(after, before)| after - before).collect()
}

/// Reconstruction begins at the loss. What is redirected is reclaimed first; then the lost rows
/// are written to all other drives alike, and the array bears another loss.
#[test]
fn figure_6_case_2_rebuilds_in_parallel_without_a_new_drive() {
    let mut world = World::new((Redundancy::Parity(1), 5, 1), 1);
    world.drain();
    world.store.set_busy(1, true);
    world.write(0, SPAN);
    assert!(world.store.away()[1] > 0);
    world.fail(3);
    assert_eq!((world.store.margin(), world.store.lost()), (0, vec![3]));
    assert!(world.work());
    assert_eq!(world.store.away(), [0; 5], "all of it is reclaimed first");
    let each = written(&mut world, |world| {
        while world.count("spared_drives") == 0 {
            assert!(world.work());
        }
    });
    assert_eq!(each[3], 0);
    let (least, most) =
        (*each.iter().filter(|n| **n > 0).min().unwrap(), *each.iter().max().unwrap());
    assert!(most < least * 2, "all take their share: {each:?}");
    let all: u64 = each.iter().sum();
    assert!(most * 3 < all, "no drive has most of it to write: {each:?}");
    assert_eq!((world.store.margin(), world.store.lost()), (1, vec![3]));
    world.check();
    world.cut();
    assert_eq!((world.store.margin(), world.store.lost()), (1, vec![3]));
    world.check();
}

/// With all rows in the staging space a second drive is lost: nothing else is.
#[test]
fn figure_6_case_2_a_second_failure_is_borne() {
    for seed in 0..4 {
        let mut world = World::new((Redundancy::Parity(1), 4 + seed as usize % 2, 1), seed);
        world.fail(0);
        world.until_spared();
        world.drain();
        world.fail(2);
        world.check();
        world.cut();
        world.check();
        assert_eq!((world.store.margin(), world.store.lost()), (0, vec![0, 2]));
        world.steps(10);
        // The new drive has what it should of the first lost drive's bytes, then its own.
        world.give(2);
        world.steps(5);
        while world.store.lost().contains(&2) {
            world.steps(1);
        }
        world.drain();
        assert_eq!((world.store.margin(), world.store.lost()), (1, vec![0]));
        world.check();
        world.fail(1);
        world.cut();
        world.check();
    }
}

/// The order that the paper gives: the part of the staging space first, then what is left.
#[test]
fn figure_6_case_2_after_a_second_failure_the_staging_space_comes_first() {
    let mut world = World::new((Redundancy::Parity(1), 5, 1), 7);
    world.fail(0);
    world.drain();
    world.fail(2);
    world.drain();
    world.give(2);
    // Of the array of drive 2 nothing is rebuilt until the spare one is whole again, and then the
    // first drive's bytes bear a loss though the array does not.
    let rows = world.count("rebuilt_rows");
    let begun = world.disks[2].counters().bytes_written;
    while world.count("rebuilt_rows") == rows {
        assert!(world.work());
    }
    let first = world.disks[2].counters().bytes_written - begun;
    assert!(first > MIB / 4, "its share of the staging space: {first}");
    world.drain();
    world.check();
    assert_eq!(world.store.lost(), [0]);
}

/// A new drive comes when all is in the staging space, or before: rows go on into the staging
/// space, and what is there goes to the new drive.
#[test]
fn figure_6_case_2_a_new_drive_gets_what_the_staging_space_has() {
    for seed in 0..6 {
        let mut world = World::new((Redundancy::Parity(1), 5, 1), seed);
        world.fail(1);
        let part = 1 + world.rng.index(6);
        world.steps(part);
        let early = world.count("spared_drives") == 0;
        assert!(early);
        world.give(1);
        let mut both = false;
        for _ in 0..400 {
            if world.store.lost().is_empty() {
                break;
            }
            let (rows, moved) = (world.count("rebuilt_rows"), world.count("moved_bytes"));
            world.steps(1);
            both |= rows < world.count("rebuilt_rows") && moved < world.count("moved_bytes");
            if seed % 2 == 1 && world.rng.chance(1, 30) {
                world.cut();
                world.check();
                if world.count("rebuilt_rows") == 0 && world.store.margin() == 0 {
                    world.again(1);
                }
            }
        }
        assert!(both || seed % 2 == 1, "rebuilding and moving go on together");
        assert_eq!(world.store.lost(), []);
        world.drain();
        world.check();
        world.cut();
        assert_eq!((world.store.lost(), world.store.margin()), (vec![], 1));
        world.check();
        world.steps(10);
        world.fail((seed % 5) as usize);
        world.cut();
        world.check();
    }
}

/// Power cuts and second losses at any moment, RAID5, RAID6, RAID50 and RAID10.
#[test]
fn figure_6_case_2_through_power_cuts_and_losses() {
    let shapes = [
        (Redundancy::Parity(1), 3, 1),
        (Redundancy::Parity(1), 4, 1),
        (Redundancy::Parity(2), 6, 1),
        (Redundancy::Parity(2), 5, 1),
        (Redundancy::Parity(1), 4, 2),
        (Redundancy::Mirror, 2, 2),
    ];
    for seed in 0..18 {
        let shape = shapes[seed as usize % shapes.len()];
        let mut world = World::new(shape, seed);
        let first = world.rng.index(world.disks.len());
        world.fail(first);
        for _ in 0..3 {
            let some = world.rng.index(30);
            world.steps(some);
            world.cut();
            world.check();
        }
        if shape.0 == Redundancy::Parity(2) {
            // While it is being rebuilt.
            let second = (first + 1) % world.disks.len();
            let some = world.rng.index(20);
            world.steps(3 + some);
            world.fail(second);
        }
        world.until_spared();
        world.check();
        let lost = world.store.lost();
        let alive = (0..world.disks.len()).filter(|at| !lost.contains(at));
        let alive: Vec<usize> = alive.collect();
        let next = alive[world.rng.index(alive.len())];
        assert!(world.store.margin() > 0, "{shape:?}");
        world.fail(next);
        world.check();
        world.cut();
        world.check();
        for place in world.store.lost() {
            world.give(place);
            for _ in 0..600 {
                if !world.store.lost().contains(&place) {
                    break;
                }
                world.steps(1);
            }
            assert!(!world.store.lost().contains(&place), "{shape:?} {seed}");
        }
        world.drain();
        world.check();
        world.cut();
        world.check();
    }
}

/// Too little is reserved for it: the lost drive waits for a new one, as in case 1.
#[test]
fn without_room_a_lost_drive_waits_for_a_new_one() {
    let env = VirtEnv::new(1);
    let disks: Vec<Disk> =
        (0..4).map(|at| Disk::new(format!("d{at}"), 14 * MIB, 512, at)).collect();
    let (redundancy, staging) = (Redundancy::Parity(1), Staging::Reserved { bytes: 1 << 20 });
    let spec =
        Spec { name: "tank".into(), redundancy, width: 4, chunk: CHUNK, staging, checksums: true };
    env.block_on(create(&env, &attach(&env, &disks), &spec)).expect("it fits");
    let store = env.block_on(open(&env, attach(&env, &disks[1..]), Options::default()));
    let store = store.expect("opens");
    while env.block_on(store.work()).expect("works") {}
    assert_eq!((store.lost(), store.margin()), (vec![0], 0));
}
