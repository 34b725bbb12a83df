//! A replica of `alternate` that was away and comes back is given what it missed.

use std::ops::Range;

use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Drive, Durability, Nanos};
use schemes::scheme::alternate::{Alternate, CACHE_MIN, FlushLog, Options, Spec, create};
use schemes::{Replace, Store, StoreError};

use crate::returning::{Shelf, World};

const DRIVE: u64 = 12 << 20;
/// Smallest region that is kept (`alternate/kept.rs`).
const REGION: u64 = 64 << 10;

#[derive(Clone, Copy, Debug)]
struct Replicas {
    count: usize,
    /// Of each.
    drives: usize,
    parity: usize,
    flush_log: FlushLog,
}

const TWO: Replicas = Replicas { count: 2, drives: 1, parity: 0, flush_log: FlushLog::All };

impl Shelf for Replicas {
    type Store = Alternate<VirtEnv>;

    fn drives(&self) -> Vec<u64> {
        vec![DRIVE; self.count * self.drives]
    }

    /// Of one drive each all but one may be lost; of more, one.
    fn shape(&self) -> (usize, usize, usize) {
        let tolerance = if self.drives == 1 { self.count - 1 } else { 1 };
        (self.count * self.drives, 1, tolerance)
    }

    async fn create(
        &self,
        env: &VirtEnv,
        drives: &[VirtDrive],
        checksums: bool,
    ) -> Result<(), StoreError> {
        let (replicas, flush_log, own) =
            (self.count, self.flush_log, Spec::new("tank", self.drives));
        let (parity, chunk, cache) = (self.parity, 8192, 2 * CACHE_MIN);
        let spec = Spec { replicas, parity, chunk, cache, flush_log, checksums, ..own };
        create(env, drives, &spec).await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<Alternate<VirtEnv>, StoreError> {
        // Nobody waits for a window to end.
        let options = Options { t_min: Nanos::from_micros(1), ..Options::default() };
        Alternate::open(env, drives, options).await
    }

    fn used(&self, size: u64) -> Vec<Range<u64>> {
        std::iter::once(0..size / 2 / 4096 * 4096).collect()
    }
}

/// Whether it still had something.
fn story(shelf: Replicas, seed: u64) -> bool {
    let mut world = World::new(shelf, seed, seed % 3 == 2);
    let why = format!("seed {seed}, {shelf:?}");
    for _ in 0..world.rng.below(6) {
        world.happens(&[]);
    }
    let gone = world.rng.index(shelf.count * shelf.drives);
    world.lose(gone);
    for _ in 0..world.rng.below(8) {
        world.happens(&[gone]);
    }
    let (left, all) = (world.back(gone), world.store().size());
    let few = left < all * 9 / 10;
    for _ in 0..world.rng.below(4) {
        world.happens(&[]);
    }
    // The way back may have been cut short, or the drive be gone again.
    if world.store().lost().contains(&gone) && world.store().restoring().is_empty() {
        world.back(gone);
    } else if world.rng.chance(1, 3) && world.store().lost().contains(&gone) {
        world.disks[gone].set_failed(true);
        for _ in 0..world.rng.below(4) {
            world.happens(&[gone]);
        }
        world.disks[gone].set_failed(false);
        // Perhaps nobody but its array has noticed by now: who uses it next is told.
        world.until_filled();
        if world.store().lost().contains(&gone) {
            world.back(gone);
        }
    }
    world.until_lost(&[], &why);
    world.check(&why);
    world.env.crash();
    few
}

fn stories(shelf: Replicas) {
    let seeds = std::env::var("SCHEME_SEEDS").map_or(12, |seeds| seeds.parse().expect("a number"));
    let few = (0..seeds).filter(|seed| story(shelf, *seed)).count() as u64;
    assert!(few >= seeds / 2, "{few} of {seeds} still had something");
}

#[test]
fn one_of_two_comes_back() {
    stories(TWO);
}

#[test]
fn one_of_three_comes_back() {
    stories(Replicas { count: 3, ..TWO });
}

#[test]
fn a_drive_of_a_striped_replica_comes_back() {
    stories(Replicas { drives: 2, ..TWO });
}

/// In some order, each having missed something else.
#[test]
fn two_of_three_come_back() {
    for seed in 0..12 {
        let mut world = World::new(Replicas { count: 3, ..TWO }, seed, seed % 3 == 2);
        let why = format!("seed {seed}");
        let first = world.rng.index(3);
        let second = (first + 1 + world.rng.index(2)) % 3;
        world.lose(first);
        for _ in 0..world.rng.below(4) {
            world.happens(&[first]);
        }
        world.env.block_on(Replace::write_off(&world.store(), second)).expect("bears it");
        for _ in 0..world.rng.below(4) {
            world.happens(&[first, second]);
        }
        let order = if world.rng.chance(1, 2) { [first, second] } else { [second, first] };
        world.back(order[0]);
        world.until_lost(&[order[1]], &why);
        for _ in 0..world.rng.below(3) {
            world.happens(&[order[1]]);
        }
        if world.store().lost().contains(&order[0]) && world.store().restoring().is_empty() {
            world.back(order[0]);
        }
        world.until_lost(&[order[1]], &why);
        world.back(order[1]);
        world.until_lost(&[], &why);
        world.check(&why);
        world.env.crash();
    }
}

fn written(disk: &Disk) -> u64 {
    disk.counters().bytes_written
}

/// Take out, write a little, take back: little is written to it.
#[test]
fn little_is_written_to_a_replica_that_missed_little() {
    let writer = Replicas { flush_log: FlushLog::Writer, ..TWO };
    for shelf in [TWO, writer, Replicas { drives: 2, ..TWO }, Replicas { count: 3, ..TWO }] {
        for restart in [false, true] {
            let mut world = World::new(shelf, 5, true);
            world.drain();
            world.env.block_on(Replace::write_off(&world.store(), 0)).expect("bears it");
            world.write(5 * REGION, 512, true);
            world.drain();
            if restart {
                world.close();
                world.open(&[0]);
            }
            let before = written(&world.disks[0]);
            let left = world.back(0);
            assert!(left <= 2 * REGION, "{left} bytes, {shelf:?}, restart {restart}");
            world.drain();
            assert_eq!(world.store().lost(), [], "{shelf:?}");
            let bytes = written(&world.disks[0]) - before;
            assert!(bytes < world.store().size() / 4, "{bytes} bytes written");
            world.check("it missed little");
            world.env.crash();
        }
    }
}

/// A crash while it is given what it missed: it is given that again, and no more.
#[test]
fn a_crash_on_the_way_back_means_to_begin_again_with_what_it_missed() {
    let mut world = World::new(TWO, 6, true);
    world.drain();
    world.env.block_on(Replace::write_off(&world.store(), 1)).expect("bears it");
    for at in 0..16 {
        world.write(at * 4 * REGION, 512, true);
    }
    world.drain();
    let left = world.back(1);
    assert_eq!(left, 16 * REGION);
    while world.store().filled() < Some(8 * REGION) {
        world.work();
    }
    world.flush();
    world.die(&[]);
    world.open(&[]);
    let own = world.store().restoring()[0];
    // And with what the logs still tell of the time before.
    let least = 16 * REGION;
    assert!(own.place == 1 && (least..world.store().size()).contains(&own.left), "{own:?}");
    world.until_lost(&[], "it goes on");
    world.check("it goes on");
    world.env.crash();
}

/// A crash takes writes that nobody waited for from all but the one that had written them, and that
/// one is missing then: nobody else knows of them.
#[test]
fn what_only_the_lost_one_had_it_is_not_left_with() {
    for seed in 0..4 {
        let mut world = World::new(TWO, seed, false);
        // The logs tell of nothing.
        world.close();
        world.open(&[]);
        let region = 3 + seed;
        let read = |world: &World<Replicas>| {
            let store = world.store();
            world.env.block_on(store.read(region * REGION, REGION)).expect("it reads").to_vec()
        };
        let (before, was) = ([0, 1].map(|at| written(&world.disks[at])), read(&world));
        world.write(region * REGION, REGION, false);
        let wrote = |at: usize| written(&world.disks[at]) - before[at] >= REGION;
        while !wrote(0) && !wrote(1) {
            assert!(world.work(), "seed {seed}: it is to be brought to its place");
        }
        let ahead = usize::from(wrote(1));
        assert!(wrote(ahead) && !wrote(1 - ahead), "seed {seed}");
        world.die(&[]);
        world.open(&[ahead]);
        world.believe();
        assert!(read(&world) == was, "seed {seed}: it is gone");
        assert!(world.back(ahead) < world.store().size(), "seed {seed}");
        world.until_lost(&[], "it is back");
        world.check("it is back");
        world.env.crash();
    }
}

/// What is not the drive that was lost, as it was then, is given everything.
#[test]
fn older_copies_and_drives_that_were_used_alone_are_given_everything() {
    let all = |world: &mut World<Replicas>, why: &str| {
        let size = world.store().size();
        assert_eq!(world.back(1), size, "{why}");
        world.until_lost(&[], why);
        world.check(why);
        world.env.crash();
    };
    // A copy from before its last window.
    let mut world = World::new(TWO, 7, true);
    let old = world.disks[1].fork();
    world.write(0, 512, true);
    world.drain();
    world.env.block_on(Replace::write_off(&world.store(), 1)).expect("bears it");
    world.disks[1] = old;
    all(&mut world, "an older copy");
    // The pool was opened with nothing but this drive, and written to.
    let mut world = World::new(TWO, 8, true);
    world.close();
    let mut alone = World::new(TWO, 8, true);
    alone.close();
    alone.disks = vec![world.disks[0].fork(), world.disks[1].fork()];
    let drives = vec![VirtDrive::attach(&alone.env, &alone.disks[1], Latency::SSD)];
    let store = alone.env.block_on(TWO.open(&alone.env, drives)).expect("it opens");
    let write = store.write(9 * REGION, Buf::from_slice(&[7; 512]), true);
    alone.env.block_on(write).expect("it is written");
    alone.env.block_on(store.close()).expect("it closes");
    world.open(&[1]);
    world.write(0, 512, true);
    let (from, to) = (&alone.disks[1], &world.disks[1]);
    let drive = VirtDrive::attach(&world.env, to, Latency::SSD);
    for at in (0..DRIVE).step_by(1 << 20) {
        let write = drive.write(at, Buf::from_slice(&from.peek(at, 1 << 20)), Durability::Durable);
        world.env.block_on(write).expect("it is written");
    }
    all(&mut world, "used alone");
}

/// Of a striped replica both drives are away, and one of them is as it was long ago: whether that
/// comes first or last, and has the page or not.
#[test]
fn a_striped_replica_of_which_one_drive_is_another_is_given_everything() {
    for (older, order) in [(0, [0, 1]), (1, [0, 1]), (0, [1, 0]), (1, [1, 0])] {
        let mut world = World::new(Replicas { drives: 2, ..TWO }, 11, false);
        let why = format!("an older drive {older}, in the order {order:?}");
        let old = world.disks[older].fork();
        for at in 0..8 {
            world.write(at * 4 * REGION, 3 * REGION, true);
        }
        world.close();
        world.open(&[0, 1]);
        world.disks[older] = old;
        world.back(order[0]);
        assert_eq!(world.back(order[1]), world.store().size(), "{why}");
        world.until_lost(&[], &why);
        world.check(&why);
        world.env.crash();
    }
}

/// As software that keeps nothing would have written the pages of a replica.
fn void(env: &VirtEnv, disk: &Disk) {
    let (page, bytes) = (4096, disk.peek(0, DRIVE as usize));
    let drive = VirtDrive::attach(env, disk, Latency::SSD);
    for (at, own) in (0..).step_by(page).zip(bytes.chunks(page)) {
        if own.starts_with(b"STDYALTR") {
            let mut own = own.to_vec();
            own[104..].fill(0);
            let crc = crc32c::crc32c(&own[12..]);
            own[8..12].copy_from_slice(&crc.to_le_bytes());
            let write = drive.write(at, Buf::from_slice(&own), Durability::Durable);
            env.block_on(write).expect("it is written");
        }
    }
}

/// Pages that begin with this on a drive: where they are, the one with the highest number first.
fn pages(disk: &Disk, magic: &[u8], number: Range<usize>) -> Vec<(u64, Vec<u8>)> {
    let bytes = disk.peek(0, DRIVE as usize);
    let pages = (0..).step_by(4096).zip(bytes.chunks(4096));
    let mut pages: Vec<(u64, Vec<u8>)> = pages
        .filter(|(_, own)| own.starts_with(magic))
        .map(|(at, own)| (at, own.to_vec()))
        .collect();
    let of = |own: &[u8]| u64::from_le_bytes(own[number.clone()].try_into().expect("8 bytes"));
    pages.sort_by_key(|(_, own)| std::cmp::Reverse(of(own)));
    pages
}

fn rot(env: &VirtEnv, disk: &Disk, (at, mut page): (u64, Vec<u8>)) {
    page[200] ^= 1;
    let drive = VirtDrive::attach(env, disk, Latency::SSD);
    let write = drive.write(at, Buf::from_slice(&page), Durability::Durable);
    env.block_on(write).expect("it is written");
}

/// The one before would tell of less, and no log tells of the rest any more.
#[test]
fn a_record_that_rots_does_not_leave_the_word_to_an_older_one() {
    for (rotten, checksums) in
        [(&[0][..], true), (&[1], true), (&[0, 1], true), (&[0], false), (&[1], false)]
    {
        let why = format!("places {rotten:?}, checksums {checksums}");
        let mut world = World::new(TWO, 12, checksums);
        world.drain();
        world.env.block_on(Replace::write_off(&world.store(), 1)).expect("bears it");
        world.write(0, 512, true);
        world.close();
        world.open(&[1]);
        world.write(20 * REGION, REGION, true);
        world.close();
        let records = pages(&world.disks[0], b"STDYALTK", 40..48);
        assert_eq!(records.len(), 2, "{why}");
        for at in rotten {
            rot(&world.env, &world.disks[0], records[*at].clone());
        }
        world.open(&[1]);
        let (left, all) = (world.back(1), world.store().size());
        assert_eq!(left == all, rotten.len() == 2, "{why}");
        world.until_lost(&[], &why);
        world.check(&why);
        world.env.crash();
    }
}

/// Else the other one would be believed again.
#[test]
fn a_page_that_rots_does_not_bring_back_who_was_lost() {
    for place in [0, 1] {
        for checksums in [true, false] {
            let why = format!("place {place}, checksums {checksums}");
            let mut world = World::new(TWO, 13, checksums);
            world.drain();
            world.env.block_on(Replace::write_off(&world.store(), 1)).expect("bears it");
            world.write(20 * REGION, REGION, true);
            world.die(&[]);
            let own = pages(&world.disks[0], b"STDYALTR", 32..40)[place].clone();
            rot(&world.env, &world.disks[0], own);
            world.open(&[]);
            assert!(world.store().lost().contains(&1), "{why}");
            world.back(1);
            world.until_lost(&[], &why);
            world.check(&why);
            world.env.crash();
        }
    }
}

#[test]
fn software_that_keeps_nothing_makes_void_what_was_kept() {
    for voided in [&[0, 1, 2][..], &[0, 1], &[0]] {
        let mut world = World::new(Replicas { count: 3, ..TWO }, 9, false);
        let why = format!("{voided:?}");
        world.env.block_on(Replace::write_off(&world.store(), 2)).expect("bears it");
        world.write(0, 512, true);
        world.close();
        voided.iter().for_each(|at| void(&world.env, &world.disks[*at]));
        world.open(&[2]);
        let size = world.store().size();
        assert_eq!(world.back(2), size, "{why}");
        world.until_lost(&[], &why);
        // Nor is anything kept from now on.
        world.env.block_on(Replace::write_off(&world.store(), 1)).expect("bears it");
        for _ in 0..40 {
            world.step();
        }
        assert_eq!(world.back(1), size, "{why}");
        world.until_lost(&[], &why);
        world.check(&why);
        world.env.crash();
    }
}
