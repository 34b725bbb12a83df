//! A drive of a steered array that was away and comes back is given what it missed, and no more:
//! from the staging space, if its bytes are there, or in place. What was redirected of it when it
//! went is part of that.

use std::ops::Range;

use classical::Redundancy;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Drive, Durability};
use schemes::scheme::steering::{Options, Spec, Staging, Steering, create, open};
use schemes::{Replace, Store, StoreError};

use crate::returning::{Shelf, World};

const CHUNK: u64 = 4096;
const MIB: u64 = 1 << 20;
/// Bytes of a drive beside what it reserves.
const HOME: u64 = 7 * MIB;
/// Steps after which a lost drive must be in the staging space.
const STEPS_MAX: usize = 2000;

#[derive(Clone, Copy, Debug)]
struct Kind {
    redundancy: Redundancy,
    width: usize,
    groups: usize,
    staging: Staging,
}

const ROOM: Staging = Staging::Reserved { bytes: 18 * MIB };
const LITTLE: Staging = Staging::Reserved { bytes: MIB };
const RAID5: Redundancy = Redundancy::Parity(1);

impl Shelf for Kind {
    type Store = Steering<VirtEnv>;

    fn drives(&self) -> Vec<u64> {
        let (more, side) = match self.staging {
            Staging::Reserved { bytes } => (0, bytes),
            Staging::Dedicated => (1, MIB),
        };
        vec![side + HOME; self.width * self.groups + more]
    }

    fn shape(&self) -> (usize, usize, usize) {
        let tolerance = match self.redundancy {
            Redundancy::Mirror => self.width - 1,
            Redundancy::Parity(parity) => parity,
            Redundancy::ParityDrive => 1,
        };
        (self.width, self.groups, tolerance)
    }

    async fn create(
        &self,
        env: &VirtEnv,
        drives: &[VirtDrive],
        checksums: bool,
    ) -> Result<(), StoreError> {
        let Kind { redundancy, width, staging, .. } = *self;
        let name = "tank".into();
        let spec = Spec { name, redundancy, width, chunk: CHUNK, staging, checksums };
        create(env, drives, &spec).await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<Steering<VirtEnv>, StoreError> {
        // Small, so that reclaiming has many steps.
        let options = Options { reclaim_bytes: 24 << 10, ..Options::default() };
        open(env, drives, options).await
    }

    fn used(&self, size: u64) -> Vec<Range<u64>> {
        std::iter::once(0..size).collect()
    }

    /// Drives become busy and idle.
    fn stir(&self, store: &Steering<VirtEnv>, drive: usize, on: bool) {
        store.set_busy(drive, on);
    }

    /// With writes of it redirected, some of them perhaps written back.
    fn pull(world: &mut World<Kind>, gone: usize) {
        for _ in 0..4 {
            let writes = world.burst();
            world.store().set_busy(gone, true);
            world.env.block_on(futures_util::future::join_all(writes));
        }
        world.rest();
        for _ in 0..world.rng.below(6) {
            world.store().set_busy(gone, false);
            world.work();
        }
    }

    /// A stripe of every group, whole; what is staged for it is noticed when it goes back.
    fn notice(world: &mut World<Kind>, gone: usize) {
        world.store().set_busy(gone, false);
        let len = world.store().unit() * world.shelf.groups as u64;
        world.write(0, len, true);
        world.work();
    }
}

/// The drive in this place is back. Bytes that it is to be given, of how many.
fn back(world: &mut World<Kind>, place: usize) -> (u64, u64) {
    let ((width, groups, tolerance), left) = (world.shelf.shape(), world.back(place));
    let rows = world.store().size() / ((width - tolerance) * groups) as u64;
    // From the staging space with labels and log.
    (left, if world.shelf.staging == ROOM { rows + 2 * MIB } else { rows })
}

/// Whether it was given less than all.
fn story(kind: Kind, seed: u64) -> bool {
    let mut world = World::new(kind, seed, seed % 3 == 2);
    let why = format!("seed {seed}, {kind:?}");
    for _ in 0..world.rng.below(4) {
        world.happens(&[]);
    }
    let gone = world.rng.index(kind.width * kind.groups);
    world.lose(gone);
    for _ in 0..world.rng.below(8) {
        world.happens(&[gone]);
    }
    if world.rng.chance(1, 2) {
        for _ in 0..STEPS_MAX {
            let spared = matches!(kind.staging, ROOM) && world.store().spared().is_none();
            if !spared {
                break;
            }
            world.some_work();
        }
        for _ in 0..world.rng.below(6) {
            world.happens(&[gone]);
        }
    }
    let (left, all) = back(&mut world, gone);
    let few = left < all * 9 / 10;
    for _ in 0..world.rng.below(3) {
        world.step();
    }
    match world.rng.below(6) {
        // The way back is cut short: it may lack anything by now, and is given all, or is away.
        0 => {
            world.cut(&[]);
            if world.store().restoring().is_empty() && !world.store().lost().is_empty() {
                back(&mut world, gone);
            }
        }
        1 if !world.store().lost().is_empty() => {
            world.lose(gone);
            for _ in 0..world.rng.below(4) {
                world.happens(&[gone]);
            }
            back(&mut world, gone);
        }
        _ => {}
    }
    world.until_lost(&[], &why);
    world.check(&why);
    world.env.crash();
    few
}

fn stories(kind: Kind) {
    let seeds = 12;
    let few = (0..seeds).filter(|seed| story(kind, *seed)).count() as u64;
    assert!(few >= seeds / 2, "{few} of {seeds} were given less than all");
}

#[test]
fn a_drive_comes_back_from_the_staging_space_raid5() {
    stories(Kind { redundancy: RAID5, width: 4, groups: 1, staging: ROOM });
}

#[test]
fn a_drive_comes_back_from_the_staging_space_raid6() {
    stories(Kind { redundancy: Redundancy::Parity(2), width: 5, groups: 1, staging: ROOM });
}

#[test]
fn a_drive_comes_back_from_the_staging_space_raid10() {
    stories(Kind { redundancy: Redundancy::Mirror, width: 2, groups: 2, staging: ROOM });
}

#[test]
fn a_drive_comes_back_in_place_raid5() {
    stories(Kind { redundancy: RAID5, width: 4, groups: 1, staging: LITTLE });
}

#[test]
fn a_drive_comes_back_in_place_raid50() {
    stories(Kind { redundancy: RAID5, width: 3, groups: 2, staging: LITTLE });
}

#[test]
fn a_drive_comes_back_in_place_beside_a_dedicated_one() {
    stories(Kind { redundancy: RAID5, width: 4, groups: 1, staging: Staging::Dedicated });
}

/// Take out, write a little, take back: little is written to it.
#[test]
fn little_is_written_to_a_drive_that_missed_little() {
    for (staging, restart) in [(ROOM, false), (ROOM, true), (LITTLE, false), (LITTLE, true)] {
        let kind = Kind { redundancy: RAID5, width: 4, groups: 1, staging };
        let mut world = World::new(kind, 3, true);
        world.drain();
        let away = 2;
        world.env.block_on(Replace::write_off(&world.store(), away)).expect("bears it");
        world.drain();
        assert_eq!(world.store().spared(), (staging == ROOM).then_some(away));
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
        let before = world.disks[away].counters().bytes_written;
        back(&mut world, away);
        world.drain();
        assert_eq!(world.store().lost(), []);
        let bytes = world.disks[away].counters().bytes_written - before;
        let counted = world.store().counters();
        let back = counted.iter().find(|(name, _)| *name == "reclaimed_bytes").expect("it is").1;
        assert!(back < 24 * CHUNK, "{staging:?}: rows are written in place: {back}");
        // Labels and log of it, and those of the set; two regions of rows.
        assert!(bytes < HOME / 2, "{staging:?}, restart {restart}: {bytes} bytes written");
        world.check("it missed little");
        world.env.crash();
    }
}

/// Drive 1 goes while writes of it are redirected whose marks are taken back: its page of intents
/// was written in place, because no other drive took it. By that it has everything.
fn goes_with_writes_redirected(staging: Staging) -> World<Kind> {
    let kind = Kind { redundancy: RAID5, width: 4, groups: 1, staging };
    let mut world = World::new(kind, 5, false);
    let (store, count) = (world.store(), world.disks.len());
    let stripe = store.unit();
    world.write(30 * stripe, 10 * stripe, true);
    store.set_busy(1, true);
    world.write(30 * stripe, 10 * stripe, true);
    assert_eq!(store.away()[1], 10 * CHUNK);
    (0..count).for_each(|drive| store.set_busy(drive, true));
    world.rest();
    (0..count).for_each(|drive| store.set_busy(drive, false));
    assert_eq!(store.away()[1], 10 * CHUNK);
    drop(store);
    world.disks[1].set_failed(true);
    world
}

/// What a drive holds that came back, and was given little.
fn has_all(mut world: World<Kind>, why: &str) {
    world.disks[1].set_failed(false);
    let (left, all) = back(&mut world, 1);
    assert!(left < all * 9 / 10, "{why}: it is given little: {left} of {all} bytes");
    world.drain();
    world.check(why);
    world.env.crash();
}

#[test]
fn a_drive_that_comes_back_is_given_what_was_redirected_when_it_went() {
    for staging in [ROOM, LITTLE, Staging::Dedicated] {
        for cuts in 0..3 {
            let (mut world, why) =
                (goes_with_writes_redirected(staging), format!("{staging:?}, {cuts}"));
            let stripe = world.store().unit();
            world.write(0, stripe, true);
            assert_eq!(world.store().lost(), [1]);
            // The first finds what was redirected, the second nothing of it.
            for _ in 0..cuts {
                world.die(&[1]);
                world.open(&[1]);
            }
            world.drain();
            if staging == ROOM {
                assert_eq!(world.store().spared(), Some(1));
            }
            has_all(world, &why);
        }
    }
}

/// The dedicated one dies, and with it the writes; another one has its place before the drive is
/// given back, to the same server or the next.
#[test]
fn what_a_dedicated_drive_held_is_given_though_another_has_its_place() {
    for restart in [false, true] {
        let mut world = goes_with_writes_redirected(Staging::Dedicated);
        world.disks[1].set_failed(false);
        world.disks[4].set_failed(true);
        let stripe = world.store().unit();
        world.store().set_busy(1, true);
        world.write(40 * stripe, stripe, true);
        world.store().set_busy(1, false);
        assert_eq!(world.store().lost(), [1, 4]);
        world.disks[4] = Disk::new("new", world.shelf.drives()[4], 512, 9);
        world.back(4);
        if !restart {
            world.back(1);
            world.drain();
        }
        // The other one is used from now on.
        world.die(&[]);
        world.open(&[]);
        match restart {
            true => has_all(world, "given back to the next"),
            false => world.check("given back to the same"),
        }
    }
}

/// What is on a copy of a drive that was cut short looks like the drive that was lost.
#[test]
fn a_copy_that_was_cut_short_is_given_all() {
    for staging in [ROOM, LITTLE] {
        let kind = Kind { redundancy: RAID5, width: 4, groups: 1, staging };
        let mut world = World::new(kind, 4, false);
        world.drain();
        world.env.block_on(Replace::write_off(&world.store(), 1)).expect("bears it");
        let size = kind.drives()[1];
        let copy = Disk::new("copy", size, 512, 11);
        let begin = format::LABEL_AREA;
        // All of the staging space, and of the rest labels, marks and a little more.
        let half = world.disks[1].peek(begin, (size - HOME + 3 * MIB - begin) as usize);
        let drive = VirtDrive::attach(&world.env, &copy, Latency::SSD);
        let write = drive.write(begin, Buf::from_slice(&half), Durability::Durable);
        world.env.block_on(write).expect("it is written");
        world.disks[1] = copy;
        if staging == ROOM {
            world.drain();
        }
        let (left, all) = back(&mut world, 1);
        assert!(left >= all, "{staging:?}: {left} of {all} bytes");
        world.drain();
        world.check("it was given all");
        world.env.crash();
    }
}

/// Nobody knows what a drive misses of which a dedicated one has writes that is not there either.
#[test]
fn a_drive_whose_writes_are_gone_with_a_dedicated_one_is_given_all() {
    for cuts in 1..3 {
        let mut world = goes_with_writes_redirected(Staging::Dedicated);
        for _ in 0..cuts {
            world.die(&[]);
            world.open(&[1, 4]);
        }
        world.disks[1].set_failed(false);
        let (left, all) = back(&mut world, 1);
        assert_eq!(left, all, "{cuts} cuts");
        world.until_lost(&[4], "given all");
        world.agrees(&world.store(), "given all");
        world.env.crash();
    }
}
