//! A lost drive's place is taken by another, or by itself come back: what it should hold is there
//! again, whatever is written meanwhile and whenever the power goes.

use engine::{
    ConversionPolicy, CreateSpec, DriveState, DriveVerbError, EventKind, OpenOptions, Pool, Volume,
};
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Drive, Durability, Env};

use crate::common::{MIB, Mirror, Virtual, World, check_all, make_pool, sleep};

pub const DRIVE: u64 = 64 * MIB;
pub const VOLUME: u64 = 6 * MIB;

/// Drives, parity, conversion.
pub const SHAPES: [(usize, u8, ConversionPolicy); 6] = [
    (4, 1, ConversionPolicy::Lazy),
    (5, 1, ConversionPolicy::Eager),
    (8, 1, ConversionPolicy::Lazy),
    (6, 2, ConversionPolicy::Lazy),
    (10, 2, ConversionPolicy::Eager),
    (10, 2, ConversionPolicy::Lazy),
];

pub async fn write_some(volume: &Volume<VirtEnv>, mirror: &mut Mirror, rng: &mut Rng, count: u64) {
    for _ in 0..count {
        let len = [512, 4096, 65536, 3 * 65536, 6 * 65536][rng.index(5)];
        let offset = rng.below((VOLUME - len) / 512 + 1) * 512;
        let offset = if len >= 65536 { offset / 65536 * 65536 } else { offset };
        let data = mirror.fill(rng, offset, len);
        volume.write(offset, data, rng.chance(1, 8)).await.expect("writes go on");
    }
}

pub fn state(pool: &Pool<VirtEnv>, drive: usize) -> DriveState {
    pool.status().drives[drive].state
}

/// A new pool with a volume.
pub async fn with_volume(world: &Virtual, spec: &CreateSpec) -> (Pool<VirtEnv>, Volume<VirtEnv>) {
    let pool = make_pool(world, spec).await;
    pool.volume_create("v", VOLUME, None, None).await.expect("room");
    let volume = pool.volume("v").expect("made");
    (pool, volume)
}

/// A drive full of something else.
pub async fn noisy(world: &Virtual, seed: u64) -> Disk {
    noisy_of(world, seed, DRIVE).await
}

async fn noisy_of(world: &Virtual, seed: u64, size: u64) -> Disk {
    let disk = Disk::new(format!("spare{seed}"), size, 4096, seed);
    let drive = VirtDrive::attach(world.env(), &disk, Latency::SSD);
    let mut rng = Rng::new(seed);
    let mut bytes = vec![0; MIB as usize];
    rng.fill(&mut bytes);
    for at in 2..size / MIB - 1 {
        let noise = Buf::from_slice(&bytes);
        drive.write(at * MIB, noise, Durability::Durable).await.expect("room");
    }
    disk
}

pub fn attach(world: &Virtual, disks: &[Disk]) -> Vec<VirtDrive> {
    let attach = |disk: &Disk| VirtDrive::attach(world.env(), disk, Latency::SSD);
    disks.iter().map(attach).collect()
}

pub async fn open(world: &Virtual, disks: &[Disk]) -> Pool<VirtEnv> {
    let opened = Pool::open(world.env(), attach(world, disks), OpenOptions::default()).await;
    opened.expect("the pool opens")
}

/// Until the drive is whole: bounded, since nothing is in its way.
pub async fn until_whole(world: &Virtual, pool: &Pool<VirtEnv>, drive: usize) {
    for _ in 0..600 {
        if state(pool, drive) == DriveState::Active {
            return;
        }
        sleep(world.env(), 100).await;
    }
    panic!("still {:?}", pool.status().drives[drive]);
}

/// Every copy, every parity block, every piece of metadata was looked at and is right; and without
/// as many other drives as the parity bears everything can still be read.
pub async fn prove(pool: &Pool<VirtEnv>, mirror: &Mirror, without: &[usize], when: &str) {
    let report = pool.audit().await.unwrap_or_else(|error| panic!("{when}: {error}"));
    assert!(report.is_complete(), "{when}: {report:?}");
    let volume = pool.volume("v").expect("made");
    check_all(&volume, mirror, when).await;
    for &drive in without {
        pool.drive_fail(drive as u16, "a test", true).await.expect("it is there");
    }
    check_all(&volume, mirror, &format!("{when}, without {without:?}")).await;
}

#[test]
fn another_drive_takes_a_lost_ones_place() {
    for (drives, parity, conversion) in SHAPES {
        let world = Virtual::new(drives, DRIVE, 50 + drives as u64);
        let mut mirror = Mirror::new(VOLUME);
        let mut rng = Rng::new(drives as u64);
        let mut disks = world.disks.clone();
        world.block_on(async {
            let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
            let (pool, volume) = with_volume(&world, &spec).await;
            write_some(&volume, &mut mirror, &mut rng, 150).await;
            pool.drive_fail(1, "a test", false).await.expect("it can be spared");
            write_some(&volume, &mut mirror, &mut rng, 50).await;
            disks[1] = noisy(&world, 7).await;
            let spare = attach(&world, &disks[1..2]).remove(0);
            pool.drive_replace(1, spare).await.expect("it is lost");
            assert_eq!(state(&pool, 1), DriveState::Restoring);
            assert_eq!(pool.status().redundancy_margin, parity - 1);
            check_all(&volume, &mirror, "just replaced").await;
            write_some(&volume, &mut mirror, &mut rng, 100).await;
            check_all(&volume, &mirror, "while it is restored").await;
            until_whole(&world, &pool, 1).await;
            assert_eq!(pool.status().redundancy_margin, parity);
            let kinds: Vec<EventKind> = pool.events(0).iter().map(|event| event.kind).collect();
            assert!(kinds.contains(&EventKind::DriveRestored), "{kinds:?}");
            assert!(pool.counters().restored_blocks > 5);
            drop(volume);
            pool.close().await.expect("closes");
            let pool = open(&world, &disks).await;
            assert_eq!(state(&pool, 1), DriveState::Active);
            let others: Vec<usize> = [0, 2][..usize::from(parity)].to_vec();
            prove(&pool, &mirror, &others, &format!("{drives} drives")).await;
            pool.close().await.expect("closes");
        });
    }
}

#[test]
fn a_drive_that_comes_back_is_filled_with_what_it_missed() {
    for seed in 0..30 {
        let (drives, parity, conversion) = SHAPES[seed as usize % SHAPES.len()];
        let world = Virtual::new(drives, DRIVE, 60 + seed);
        let mut mirror = Mirror::new(VOLUME);
        let mut rng = Rng::new(seed);
        world.block_on(async {
            let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
            let (pool, volume) = with_volume(&world, &spec).await;
            write_some(&volume, &mut mirror, &mut rng, 100).await;
            // What the drive knows of this volume's map is out of date when it comes back.
            pool.volume_create("other", VOLUME, None, None).await.expect("room");
            let other = pool.volume("other").expect("made");
            other.write(0, Buf::zeroed(MIB as usize), true).await.expect("room");
            drop(other);
            pool.checkpoint().await.expect("checkpoint");
            let uuid = pool.status().drives[2].uuid;
            world.disks[2].set_failed(true);
            write_some(&volume, &mut mirror, &mut rng, 100).await;
            assert_eq!(state(&pool, 2), DriveState::Failed);
            pool.volume_delete("other").await.expect("nobody uses it");
            pool.checkpoint().await.expect("checkpoint");
            world.disks[2].set_failed(false);
            let back = world.drives().remove(2);
            pool.drive_replace(2, back).await.expect("it is lost");
            assert_eq!(pool.status().drives[2].uuid, uuid, "it is the same drive");
            write_some(&volume, &mut mirror, &mut rng, 50).await;
            until_whole(&world, &pool, 2).await;
            drop(volume);
            pool.close().await.expect("closes");
            let pool = open(&world, &world.disks).await;
            let others: Vec<usize> = [3, 1][..usize::from(parity)].to_vec();
            prove(&pool, &mirror, &others, &format!("seed {seed}, {drives} drives")).await;
            pool.close().await.expect("closes");
        });
    }
}

/// Only zones that were written to meanwhile are filled again, also if the pool was closed or
/// crashed before the drive comes back; one that is not the same any more gets everything.
#[test]
fn only_what_a_drive_missed_is_written_to_it() {
    for (seed, crash) in [(1, false), (2, true)] {
        // More zones than the few writes can touch.
        let world = Virtual::new(5, 3 * DRIVE, 640 + seed);
        let volume_size = 256 * MIB;
        let (mut mirror, mut rng) = (Mirror::new(volume_size), Rng::new(seed));
        world.block_on(async {
            let pool = make_pool(&world, &CreateSpec::new("tank")).await;
            pool.volume_create("v", volume_size, None, None).await.expect("room");
            let volume = pool.volume("v").expect("made");
            for at in (0..volume_size).step_by(MIB as usize) {
                let data = mirror.fill(&mut rng, at, MIB);
                volume.write(at, data, false).await.expect("room");
            }
            pool.checkpoint().await.expect("checkpoint");
            // Some of the last things it sees are not in its checkpoint.
            write_some(&volume, &mut mirror, &mut rng, 2).await;
            pool.drive_fail(1, "taken offline", false).await.expect("it can be spared");
            write_some(&volume, &mut mirror, &mut rng, 2).await;
            volume.flush().await.expect("flush");
            if !crash {
                drop(volume);
                pool.close().await.expect("closes");
            }
        });
        if crash {
            world.kill();
            world.disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
        }
        world.block_on(async {
            let mut others = world.drives();
            let own = others.remove(1);
            let pool = Pool::open(world.env(), others, OpenOptions::default()).await;
            let pool = pool.expect("the pool opens");
            let volume = pool.volume("v").expect("made");
            write_some(&volume, &mut mirror, &mut rng, 2).await;
            pool.drive_replace(1, own).await.expect("it is lost");
            let (left, _) = pool.status().drives[1].awaited.expect("restoring");
            write_some(&volume, &mut mirror, &mut rng, 20).await;
            until_whole(&world, &pool, 1).await;
            // The drive holds some 1,000 blocks: a quarter of 256 MiB.
            assert!((1..600).contains(&left), "seed {seed}: {left} blocks missed");
            prove(&pool, &mirror, &[3], &format!("seed {seed}")).await;
            drop(volume);
            pool.close().await.expect("closes");
            let mut others = world.drives();
            others.remove(3);
            let pool = Pool::open(world.env(), others, OpenOptions::default()).await;
            let pool = pool.expect("the pool opens");
            let drive =
                VirtDrive::attach(world.env(), &noisy_of(&world, 3, 3 * DRIVE).await, Latency::SSD);
            pool.drive_replace(3, drive).await.expect("it is lost");
            let (left, _) = pool.status().drives[3].awaited.expect("restoring");
            assert!(left > 1000, "a new drive gets everything: {left}");
        });
    }
}

/// The power goes at some moment of it, again and again: what was flushed is there, the drive is
/// restored from the beginning, and in the end it is whole.
#[test]
fn power_cuts_begin_it_anew() {
    for seed in 0..60 {
        let (drives, parity, conversion) = SHAPES[seed as usize % SHAPES.len()];
        let world = Virtual::new(drives, DRIVE, 700 + seed);
        let mut mirror = Mirror::new(VOLUME);
        let mut rng = Rng::new(seed);
        let mut disks = world.disks.clone();
        world.block_on(async {
            let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
            let (pool, volume) = with_volume(&world, &spec).await;
            write_some(&volume, &mut mirror, &mut rng, 80).await;
            pool.drive_fail(3, "a test", false).await.expect("it can be spared");
            disks[3] = noisy(&world, seed).await;
            let spare = attach(&world, &disks[3..4]).remove(0);
            pool.drive_replace(3, spare).await.expect("it is lost");
            write_some(&volume, &mut mirror, &mut rng, rng_count(seed)).await;
            volume.flush().await.expect("flush");
            world.env().sleep_until_cut(&mut rng).await;
        });
        let mut cuts = 0;
        loop {
            world.kill();
            disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
            let done = world.block_on(async {
                let pool = open(&world, &disks).await;
                let now = state(&pool, 3);
                assert!(matches!(now, DriveState::Restoring | DriveState::Active), "{now}");
                let volume = pool.volume("v").expect("made");
                check_all(&volume, &mirror, &format!("seed {seed}, cut {cuts}")).await;
                if cuts == 3 {
                    until_whole(&world, &pool, 3).await;
                    let others: Vec<usize> = [0, 1][..usize::from(parity)].to_vec();
                    prove(&pool, &mirror, &others, &format!("seed {seed}")).await;
                    drop(volume);
                    pool.close().await.expect("closes");
                    return true;
                }
                write_some(&volume, &mut mirror, &mut rng, 10).await;
                volume.flush().await.expect("flush");
                world.env().sleep_until_cut(&mut rng).await;
                false
            });
            if done {
                break;
            }
            cuts += 1;
        }
    }
}

fn rng_count(seed: u64) -> u64 {
    seed % 5 * 10
}

trait Cut {
    async fn sleep_until_cut(&self, rng: &mut Rng);
}

impl Cut for VirtEnv {
    /// Restoring these pools takes about a tenth of a second.
    async fn sleep_until_cut(&self, rng: &mut Rng) {
        let span = io::Nanos::from_micros(rng.below(150_000));
        self.sleep_until(self.now() + span).await;
    }
}

#[test]
fn what_can_not_take_a_place_is_refused() {
    let world = Virtual::new(5, DRIVE, 91);
    world.block_on(async {
        let pool = make_pool(&world, &CreateSpec::new("tank")).await;
        let spare = |size| {
            let disk = Disk::new("spare", size, 4096, 9);
            VirtDrive::attach(world.env(), &disk, Latency::SSD)
        };
        let active = pool.drive_replace(1, spare(DRIVE / 2)).await;
        assert!(matches!(active, Err(DriveVerbError::TooSmall { index: 1, .. })), "{active:?}");
        let unknown = pool.drive_replace(5, spare(DRIVE)).await;
        assert!(matches!(unknown, Err(DriveVerbError::NotFound { index: 5, drives: 5 })));
        pool.drive_fail(1, "a test", false).await.expect("it can be spared");
        let small = pool.drive_replace(1, spare(DRIVE / 2)).await;
        assert!(matches!(small, Err(DriveVerbError::TooSmall { index: 1, .. })), "{small:?}");
        assert_eq!(state(&pool, 1), DriveState::Failed);
        pool.drive_replace(1, spare(DRIVE)).await.expect("large enough");
        let again = pool.drive_replace(1, spare(DRIVE)).await;
        assert!(matches!(again, Err(DriveVerbError::NotLost { index: 1, .. })), "{again:?}");
        until_whole(&world, &pool, 1).await;
        pool.close().await.expect("closes");
    });
}

/// The new drive dies, and another one takes its place.
#[test]
fn a_drive_that_is_restored_may_die_too() {
    let world = Virtual::new(7, DRIVE, 92);
    let mut mirror = Mirror::new(VOLUME);
    let mut rng = Rng::new(92);
    world.block_on(async {
        let (pool, volume) = with_volume(&world, &CreateSpec::new("tank")).await;
        write_some(&volume, &mut mirror, &mut rng, 150).await;
        pool.drive_fail(4, "a test", false).await.expect("it can be spared");
        for round in 0..6 {
            let disk = noisy(&world, round).await;
            let spare = VirtDrive::attach(world.env(), &disk, Latency::SSD);
            pool.drive_replace(4, spare).await.expect("it is lost");
            let env = world.env().clone();
            let failing = disk.clone();
            world.env().spawn(async move {
                let span = io::Nanos::from_micros(1 + round * 4000);
                env.sleep_until(env.now() + span).await;
                failing.set_failed(true);
            });
            write_some(&volume, &mut mirror, &mut rng, 40).await;
            check_all(&volume, &mirror, &format!("round {round}")).await;
            sleep(world.env(), 50).await;
            write_some(&volume, &mut mirror, &mut rng, 1).await;
            volume.flush().await.expect("flush");
            assert_eq!(state(&pool, 4), DriveState::Failed, "round {round}");
        }
        let disk = noisy(&world, 100).await;
        let spare = VirtDrive::attach(world.env(), &disk, Latency::SSD);
        pool.drive_replace(4, spare).await.expect("it is lost");
        until_whole(&world, &pool, 4).await;
        prove(&pool, &mirror, &[0], "in the end").await;
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// A drive is whole again, and the power goes together with others: blocks of the journal that the
/// lost drive had have no second copy, and must not be needed any more.
#[test]
fn when_one_is_whole_again_others_may_be_lost_with_the_power() {
    for seed in 0..24 {
        let (drives, parity, conversion) = SHAPES[seed as usize % SHAPES.len()];
        let world = Virtual::new(drives, DRIVE, 800 + seed);
        let mut mirror = Mirror::new(VOLUME);
        let mut rng = Rng::new(seed);
        let mut disks = world.disks.clone();
        world.block_on(async {
            let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
            let (pool, volume) = with_volume(&world, &spec).await;
            write_some(&volume, &mut mirror, &mut rng, 30).await;
            pool.drive_fail(1, "a test", false).await.expect("it can be spared");
            write_some(&volume, &mut mirror, &mut rng, 10).await;
            disks[1] = noisy(&world, seed).await;
            let spare = attach(&world, &disks[1..2]).remove(0);
            pool.drive_replace(1, spare).await.expect("it is lost");
            volume.flush().await.expect("flush");
            until_whole(&world, &pool, 1).await;
        });
        world.kill();
        disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
        let mut others = [0, 2, 3];
        rng.shuffle(&mut others);
        let lost = &others[..usize::from(parity)];
        let left = disks.iter().enumerate().filter(|(at, _)| !lost.contains(at));
        let left: Vec<Disk> = left.map(|(_, disk)| disk.clone()).collect();
        world.block_on(async {
            let pool = open(&world, &left).await;
            let volume = pool.volume("v").expect("made");
            check_all(&volume, &mirror, &format!("seed {seed}")).await;
            drop(volume);
            pool.close().await.expect("closes");
        });
    }
}
