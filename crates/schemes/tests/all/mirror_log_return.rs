//! A drive of a mirrored log that was away and comes back still has its copies of what was full
//! when it went.

use std::ops::Range;

use format::{LABEL_LEN, label_offsets};
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Drive, Durability};
use schemes::scheme::mirror_log::{MirrorLog, Spec, create};
use schemes::{Replace, Store, StoreError};

use crate::returning::{Shelf, World};

const SEGMENT: u64 = 64 << 10;
const PAGE: u64 = 4096;
const DRIVE: u64 = 8 << 20;

#[derive(Clone, Copy, Debug)]
struct Logs {
    width: usize,
    groups: usize,
}

impl Shelf for Logs {
    type Store = MirrorLog<VirtEnv>;

    fn drives(&self) -> Vec<u64> {
        vec![DRIVE; self.width * self.groups]
    }

    fn shape(&self) -> (usize, usize, usize) {
        (self.width, self.groups, 1)
    }

    async fn create(
        &self,
        env: &VirtEnv,
        drives: &[VirtDrive],
        checksums: bool,
    ) -> Result<(), StoreError> {
        let (name, width, segment) = ("tank".into(), self.width, Some(SEGMENT));
        create(env, drives, &Spec { name, width, chunk: 8192, segment, checksums }).await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<MirrorLog<VirtEnv>, StoreError> {
        MirrorLog::open(env, drives).await
    }

    /// Half of what each group offers: all of it would be moved all the time.
    fn used(&self, size: u64) -> Vec<Range<u64>> {
        let own = size / self.groups as u64;
        let groups = 0..self.groups as u64;
        groups.map(|at| at * own..at * own + own / 2 / PAGE * PAGE).collect()
    }
}

fn used(world: &World<Logs>) -> u64 {
    let own = &world.shelf.used(world.store().size())[0];
    own.end - own.start
}

/// Whether it still had something.
fn story(width: usize, groups: usize, seed: u64) -> bool {
    let mut world = World::new(Logs { width, groups }, seed, seed % 3 == 2);
    let why = format!("seed {seed}, {groups} groups of {width}");
    for _ in 0..world.rng.below(6) {
        world.happens(&[]);
    }
    let gone = world.rng.index(width * groups);
    world.lose(gone);
    for _ in 0..world.rng.below(8) {
        world.happens(&[gone]);
    }
    let (left, all) = (world.back(gone), used(&world));
    let few = left < all * 9 / 10;
    for _ in 0..world.rng.below(3) {
        world.happens(&[]);
    }
    // The way back may have been cut short: the pool is opened without it then.
    if world.store().lost().contains(&gone) && world.store().restoring().is_empty() {
        world.back(gone);
    }
    world.until_lost(&[], &why);
    world.check(&why);
    world.env.crash();
    few
}

fn stories(width: usize, groups: usize) {
    let seeds = 12;
    let few = (0..seeds).filter(|seed| story(width, groups, *seed)).count() as u64;
    assert!(few >= seeds / 2, "{few} of {seeds} still had something");
}

#[test]
fn a_drive_comes_back_to_two_groups_of_two() {
    stories(2, 2);
}

#[test]
fn a_drive_comes_back_to_a_group_of_three() {
    stories(3, 1);
}

/// A crash left the label on one drive that says that the new one has everything: opening believes
/// it, and it must not be gone with that drive.
#[test]
fn what_opening_believes_is_on_all_drives() {
    let mut world = World::new(Logs { width: 3, groups: 1 }, 7, true);
    world.env.block_on(Replace::write_off(&world.store(), 1)).expect("bears it");
    world.write(0, SEGMENT, true);
    assert!(world.back(1) > 0);
    let labels = |disk: &Disk| label_offsets(DRIVE).map(|at| (at, disk.peek(at, LABEL_LEN)));
    let before: Vec<_> = world.disks.iter().map(labels).collect();
    world.drain();
    assert_eq!(world.store().lost(), []);
    world.close();
    for (disk, labels) in world.disks.iter().zip(before).skip(1) {
        let drive = VirtDrive::attach(&world.env, disk, Latency::SSD);
        for (at, bytes) in labels {
            let write = drive.write(at, Buf::from_slice(&bytes), Durability::Durable);
            world.env.block_on(write).expect("it is written");
        }
    }
    world.open(&[]);
    assert_eq!(world.store().lost(), []);
    world.die(&[]);
    world.open(&[0]);
    assert_eq!(world.store().lost(), [0]);
    world.agrees(&world.store(), "without the drive that knew");
    world.env.crash();
}

/// Take out, write a little, take back: little is written to it.
#[test]
fn little_is_written_to_a_drive_that_missed_little() {
    for restart in [false, true] {
        let mut world = World::new(Logs { width: 2, groups: 1 }, 5, true);
        world.drain();
        world.env.block_on(Replace::write_off(&world.store(), 1)).expect("bears it");
        world.write(5 * PAGE, 512, true);
        if restart {
            world.close();
            world.open(&[1]);
        }
        let before = world.disks[1].counters().bytes_written;
        let left = world.back(1);
        // What was appended to when it went, for each head.
        assert!(left <= 4 * SEGMENT, "{left} bytes");
        world.drain();
        assert_eq!(world.store().lost(), []);
        let bytes = world.disks[1].counters().bytes_written - before;
        assert!(bytes < used(&world) / 2, "{bytes} bytes written");
        world.check("it missed little");
        world.env.crash();
    }
}
