//! Lost drives that nobody replaces: the others take over what they held, one lost drive after
//! another as long as there is room; drives that are removed; and drives that come back to it all.

use engine::{
    ConversionPolicy, CreateSpec, DriveState, DriveVerbError, EventKind, OpenOptions, Pool, Volume,
};
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Env, Nanos};

use crate::common::{MIB, Mirror, Virtual, World, check_all, sleep};

const DRIVE: u64 = 64 * MIB;
const VOLUME: u64 = 6 * MIB;

/// Drives, parity, width, conversion.
const SHAPES: [(usize, u8, u16, ConversionPolicy); 6] = [
    (10, 1, 4, ConversionPolicy::Lazy),
    (8, 2, 5, ConversionPolicy::Eager),
    (10, 1, 7, ConversionPolicy::Eager),
    (9, 2, 6, ConversionPolicy::Lazy),
    (6, 1, 5, ConversionPolicy::Lazy),
    (5, 1, 2, ConversionPolicy::Eager),
];

fn at_once() -> OpenOptions {
    OpenOptions { rebuild_after: Some(Nanos::ZERO), ..OpenOptions::default() }
}

async fn open(world: &Virtual, disks: &[Disk]) -> Pool<VirtEnv> {
    let attach = |disk: &Disk| VirtDrive::attach(world.env(), disk, Latency::SSD);
    let drives = disks.iter().map(attach).collect();
    Pool::open(world.env(), drives, at_once()).await.expect("the pool opens")
}

async fn make(world: &Virtual, shape: usize) -> Pool<VirtEnv> {
    let (_, parity, width, conversion) = SHAPES[shape];
    let spec = CreateSpec { parity, width: Some(width), conversion, ..CreateSpec::new("tank") };
    engine::create(world.env(), &world.drives(), &spec).await.expect("the pool can be made");
    let pool = open(world, &world.disks).await;
    pool.volume_create("v", VOLUME, None, None).await.expect("room");
    pool
}

async fn write_some(volume: &Volume<VirtEnv>, mirror: &mut Mirror, rng: &mut Rng, count: u64) {
    for _ in 0..count {
        let len = [512, 4096, 65536, 3 * 65536, 6 * 65536][rng.index(5)];
        let offset = rng.below((VOLUME - len) / 512 + 1) * 512;
        let offset = if len >= 65536 { offset / 65536 * 65536 } else { offset };
        let data = mirror.fill(rng, offset, len);
        volume.write(offset, data, rng.chance(1, 8)).await.expect("writes go on");
    }
}

fn state(pool: &Pool<VirtEnv>, drive: usize) -> DriveState {
    pool.status().drives[drive].state
}

/// Until nothing is missed and nothing is left to move: bounded, since nothing is in its way.
async fn until_complete(world: &Virtual, pool: &Pool<VirtEnv>, parity: u8, when: &str) {
    for _ in 0..600 {
        let status = pool.status();
        if status.redundancy_margin == parity && status.rebuild.drives.is_empty() {
            return;
        }
        sleep(world.env(), 100).await;
    }
    let status = pool.status();
    let states: Vec<DriveState> = status.drives.iter().map(|drive| drive.state).collect();
    let events = pool.events(0);
    panic!("{when}: {states:?}, {:?}, {:?}, {events:?}", status.rebuild, status.space);
}

/// And until everything is where the layout has it.
async fn until_home(world: &Virtual, pool: &Pool<VirtEnv>, parity: u8, when: &str) {
    for _ in 0..600 {
        if pool.status().rebuild.substitutes == 0 {
            return until_complete(world, pool, parity, when).await;
        }
        sleep(world.env(), 100).await;
    }
    panic!("{when}: {:?}, {:?}", pool.status().rebuild, pool.backlog());
}

async fn audited(pool: &Pool<VirtEnv>, when: &str) {
    pool.audit().await.unwrap_or_else(|error| panic!("{when}: {error}"));
}

/// Neighbours go, or every third: then no three neighbours are left, which is what slots of the
/// metadata lie on.
#[test]
fn drives_are_lost_one_after_another() {
    lose_and_replace(|drives| (0..drives).collect());
    lose_and_replace(|drives| (0..3).flat_map(|first| (first..drives).step_by(3)).collect());
}

/// One drive after the other is lost for good, while clients write, until only as many are left as
/// a stripe is wide. Then all of them are replaced, and it is as if nothing had been.
fn lose_and_replace(order: impl Fn(usize) -> Vec<usize>) {
    for (at, (drives, parity, width, _)) in SHAPES.into_iter().enumerate() {
        let order = order(drives);
        let world = Virtual::new(drives, DRIVE, 3 + at as u64);
        let mut mirror = Mirror::new(VOLUME);
        let mut rng = Rng::new(at as u64);
        let mut disks = world.disks.clone();
        world.block_on(async {
            let pool = make(&world, at).await;
            let volume = pool.volume("v").expect("made");
            write_some(&volume, &mut mirror, &mut rng, 150).await;
            let lost = drives - usize::from(width);
            for &drive in &order[..lost] {
                let when = format!("shape {at}, drive {drive} of {order:?}");
                pool.drive_fail(drive as u16, "a test", false).await.expect("it can be spared");
                write_some(&volume, &mut mirror, &mut rng, 20).await;
                until_complete(&world, &pool, parity, &when).await;
                assert_eq!(state(&pool, drive), DriveState::Vacated, "{when}");
                write_some(&volume, &mut mirror, &mut rng, 50).await;
                until_complete(&world, &pool, parity, &when).await;
                audited(&pool, &when).await;
                check_all(&volume, &mirror, &when).await;
            }
            drop(volume);
            pool.close().await.expect("closes");
            // Without the drives that are vacated, and as many more as the parity bears.
            let (gone, rest) = order.split_at(lost + usize::from(parity));
            let rest: Vec<Disk> = rest.iter().map(|&drive| disks[drive].clone()).collect();
            let pool = open(&world, &rest).await;
            let volume = pool.volume("v").expect("made");
            check_all(&volume, &mirror, "reopened with few").await;
            drop(volume);
            for &drive in gone.iter().rev() {
                let disk = Disk::new(format!("new{drive}"), DRIVE, 4096, 77 + drive as u64);
                let new = VirtDrive::attach(world.env(), &disk, Latency::SSD);
                disks[drive] = disk;
                pool.drive_replace(drive as u16, new).await.expect("it is lost");
            }
            until_complete(&world, &pool, parity, "replaced").await;
            let volume = pool.volume("v").expect("made");
            write_some(&volume, &mut mirror, &mut rng, 20).await;
            until_home(&world, &pool, parity, "replaced and written to").await;
            let status = pool.status();
            assert!(status.drives.iter().all(|drive| drive.state == DriveState::Active));
            audited(&pool, "all is home").await;
            check_all(&volume, &mirror, "all is home").await;
            drop(volume);
            pool.volume_delete("v").await.expect("nobody uses it");
            pool.close().await.expect("closes");
            let pool = open(&world, &disks).await;
            let space = pool.space_status();
            assert_eq!(space.free, space.total, "the spare space is given back");
            pool.close().await.expect("closes");
        });
    }
}

/// The power goes at some moment of it, again and again.
#[test]
fn power_cuts_only_interrupt() {
    for seed in 0..30 {
        let at = seed as usize % SHAPES.len();
        let (drives, parity, ..) = SHAPES[at];
        let world = Virtual::new(drives, DRIVE, 900 + seed);
        let mut mirror = Mirror::new(VOLUME);
        let mut rng = Rng::new(seed);
        let mut disks = world.disks.clone();
        world.block_on(async {
            let pool = make(&world, at).await;
            let volume = pool.volume("v").expect("made");
            write_some(&volume, &mut mirror, &mut rng, 80).await;
            if seed % 3 == 0 {
                pool.drive_remove(2).await.expect("it can be spared");
            } else {
                pool.drive_fail(2, "a test", false).await.expect("it can be spared");
            }
            write_some(&volume, &mut mirror, &mut rng, seed % 5 * 10).await;
            volume.flush().await.expect("flush");
            let span = Nanos::from_micros(rng.below(400_000));
            world.env().sleep_until(world.env().now() + span).await;
        });
        for cut in 0..4 {
            world.kill();
            disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
            world.block_on(async {
                let when = format!("seed {seed}, cut {cut}");
                let pool = open(&world, &disks).await;
                let volume = pool.volume("v").expect("made");
                check_all(&volume, &mirror, &when).await;
                audited(&pool, &when).await;
                if cut == 1 && !matches!(state(&pool, 2), DriveState::Active) {
                    let disk = Disk::new("new", DRIVE, 4096, seed);
                    let new = VirtDrive::attach(world.env(), &disk, Latency::SSD);
                    disks[2] = disk;
                    pool.drive_replace(2, new).await.expect("it is lost");
                }
                write_some(&volume, &mut mirror, &mut rng, 10).await;
                volume.flush().await.expect("flush");
                if cut == 3 {
                    until_complete(&world, &pool, parity, &when).await;
                    audited(&pool, &when).await;
                    check_all(&volume, &mirror, &when).await;
                    drop(volume);
                    pool.close().await.expect("closes");
                    return;
                }
                let span = Nanos::from_micros(rng.below(400_000));
                world.env().sleep_until(world.env().now() + span).await;
            });
        }
    }
}

#[test]
fn a_drive_is_removed_and_the_others_have_it_all() {
    for (at, (drives, parity, width, _)) in SHAPES.into_iter().enumerate() {
        let world = Virtual::new(drives, DRIVE, 40 + at as u64);
        let mut mirror = Mirror::new(VOLUME);
        let mut rng = Rng::new(at as u64);
        world.block_on(async {
            let pool = make(&world, at).await;
            let volume = pool.volume("v").expect("made");
            write_some(&volume, &mut mirror, &mut rng, 150).await;
            // Begun and stopped: nothing stays elsewhere.
            pool.drive_remove(1).await.expect("it can be spared");
            write_some(&volume, &mut mirror, &mut rng, 20).await;
            pool.drive_remove_stop(1).await.expect("it is being removed");
            until_home(&world, &pool, parity, "stopped").await;
            for drive in 0..drives - usize::from(width) {
                let when = format!("shape {at}, drive {drive}");
                pool.drive_remove(drive as u16).await.expect("it can be spared");
                assert_eq!(pool.status().redundancy_margin, parity, "nothing is lent out");
                write_some(&volume, &mut mirror, &mut rng, 20).await;
                for _ in 0..600 {
                    if state(&pool, drive) == DriveState::Vacated {
                        break;
                    }
                    sleep(world.env(), 100).await;
                }
                until_complete(&world, &pool, parity, &when).await;
                assert_eq!(state(&pool, drive), DriveState::Vacated, "{when}");
                // It is anybody's now.
                world.disks[drive].set_failed(true);
                write_some(&volume, &mut mirror, &mut rng, 20).await;
                // Some of it may have been given blocks on drives that are gone.
                until_complete(&world, &pool, parity, &when).await;
                audited(&pool, &when).await;
                check_all(&volume, &mirror, &when).await;
            }
            let narrow = pool.drive_remove(drives as u16 - 1).await;
            assert!(matches!(narrow, Err(DriveVerbError::TooNarrow { .. })), "{narrow:?}");
            drop(volume);
            pool.close().await.expect("closes");
        });
    }
}

/// Closed or cut: what an operator decided stays decided, and so does taking it back.
#[test]
fn a_drive_that_leaves_goes_on_leaving_when_the_pool_is_opened_again() {
    for seed in 0..8 {
        let at = seed as usize % SHAPES.len();
        let (drives, parity, ..) = SHAPES[at];
        let world = Virtual::new(drives, DRIVE, 300 + seed);
        let mut mirror = Mirror::new(VOLUME);
        let mut rng = Rng::new(seed);
        let (closes, stays) = (seed & 1 == 0, seed & 4 != 0);
        let when = format!("seed {seed}");
        world.block_on(async {
            let pool = make(&world, at).await;
            let volume = pool.volume("v").expect("made");
            write_some(&volume, &mut mirror, &mut rng, 120).await;
            volume.flush().await.expect("flush");
            pool.rebuild_pause();
            pool.drive_remove(2).await.expect("it can be spared");
            if stays {
                pool.drive_remove_stop(2).await.expect("it is being removed");
            }
            drop(volume);
            if closes {
                pool.close().await.expect("closes");
            }
        });
        world.kill();
        world.disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
        world.block_on(async {
            let pool = open(&world, &world.disks).await;
            let volume = pool.volume("v").expect("made");
            let again = pool.drive_remove(3).await;
            if stays {
                again.expect("nothing else leaves");
            } else {
                let right = matches!(again, Err(DriveVerbError::Removing { index: 2 }));
                assert!(right, "{when}: {again:?}");
            }
            let leaver = if stays { 3 } else { 2 };
            write_some(&volume, &mut mirror, &mut rng, 20).await;
            until_complete(&world, &pool, parity, &when).await;
            while state(&pool, leaver) != DriveState::Vacated {
                sleep(world.env(), 100).await;
            }
            world.disks[leaver].set_failed(true);
            audited(&pool, &when).await;
            check_all(&volume, &mirror, &when).await;
            drop(volume);
            pool.close().await.expect("closes");
        });
    }
}

#[test]
fn rebuilding_waits_for_its_time_and_for_whoever_paused_it() {
    let world = Virtual::new(8, DRIVE, 60);
    let mut mirror = Mirror::new(VOLUME);
    let mut rng = Rng::new(5);
    world.block_on(async {
        let spec = CreateSpec { width: Some(5), ..CreateSpec::new("tank") };
        engine::create(world.env(), &world.drives(), &spec).await.expect("made");
        let opened = Pool::open(world.env(), world.drives(), OpenOptions::default()).await;
        let pool = opened.expect("opens");
        pool.volume_create("v", VOLUME, None, None).await.expect("room");
        let volume = pool.volume("v").expect("made");
        write_some(&volume, &mut mirror, &mut rng, 100).await;
        pool.drive_fail(3, "a test", false).await.expect("it can be spared");
        sleep(world.env(), 29_000).await;
        assert_eq!(pool.counters().rebuilt_blocks, 0);
        pool.rebuild_pause();
        sleep(world.env(), 60_000).await;
        assert_eq!(pool.counters().rebuilt_blocks, 0);
        assert!(pool.status().rebuild.paused);
        pool.rebuild_resume();
        until_complete(&world, &pool, 1, "resumed").await;
        let moved = pool.counters().rebuilt_blocks;
        assert!(moved > 5, "{moved}");
        let kinds: Vec<EventKind> = pool.events(0).iter().map(|event| event.kind).collect();
        assert!(kinds.contains(&EventKind::RebuildBegun), "{kinds:?}");
        assert!(kinds.contains(&EventKind::DriveVacated), "{kinds:?}");
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// What a lost drive held is read from all others alike, and written to all alike.
#[test]
fn rebuilding_is_even() {
    // Large enough that the metadata and journal which are written meanwhile don't decide it: of
    // 96 MiB a drive rebuilding writes 70 blocks to each, and three more are a twentieth.
    let world = Virtual::new(29, 160 * MIB, 70);
    let mut rng = Rng::new(7);
    world.block_on(async {
        let spec = CreateSpec {
            width: Some(7),
            block_size: 16 << 10,
            conversion: ConversionPolicy::Eager,
            ..CreateSpec::new("tank")
        };
        let plan = engine::create(world.env(), &world.drives(), &spec).await.expect("made");
        let pool = open(&world, &world.disks).await;
        let size = plan.usable_bytes * 3 / 10 / MIB * MIB;
        pool.volume_create("v", size, None, None).await.expect("room");
        let volume = pool.volume("v").expect("made");
        let mut bytes = vec![0; 6 * (16 << 10)];
        rng.fill(&mut bytes);
        let step = bytes.len() as u64;
        let mut offset = 0;
        while offset + step <= size {
            volume.write(offset, io::Buf::from_slice(&bytes), false).await.expect("room");
            offset += step;
        }
        volume.flush().await.expect("flush");
        sleep(world.env(), 3_000).await;
        // What all that changed is not rebuilding's to write.
        pool.checkpoint().await.expect("checkpoint");
        let counters = |pool: &Pool<VirtEnv>| -> Vec<(u64, u64)> {
            let drives = pool.status().drives;
            drives.iter().map(|d| (d.counters.read_bytes, d.counters.write_bytes)).collect()
        };
        let before = counters(&pool);
        pool.drive_fail(11, "a test", false).await.expect("it can be spared");
        until_complete(&world, &pool, 1, "29 drives").await;
        let after = counters(&pool);
        let spent = |of: &dyn Fn(&(u64, u64)) -> u64| -> (f64, u64, u64) {
            let all = (0..29).filter(|&drive| drive != 11);
            let all: Vec<u64> = all.map(|drive| of(&after[drive]) - of(&before[drive])).collect();
            let (most, sum) = (*all.iter().max().expect("some"), all.iter().sum::<u64>());
            (most as f64 * all.len() as f64 / sum as f64, most, sum)
        };
        let (reads, writes) = (spent(&|both| both.0), spent(&|both| both.1));
        println!("max/mean: reads {reads:?}, writes {writes:?}, {:?}", pool.status().rebuild);
        assert!(reads.0 <= 1.05, "{reads:?}");
        assert!(writes.0 <= 1.05, "{writes:?}");
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// A drive that is to be spared at once needs its room before anybody has looked: writes of the
/// moments between must not take it.
#[test]
fn what_a_lost_drive_held_has_its_room_at_once() {
    let world = Virtual::new(8, DRIVE, 7);
    world.block_on(async {
        let pool = make(&world, 1).await;
        let available = || pool.status().space.available;
        let before = available();
        pool.drive_fail(3, "a test", false).await.expect("it can be spared");
        let after = available();
        assert!(after * 8 <= before * 7, "{before} bytes before, {after} after");
        pool.close().await.expect("it closes");
    });
}

/// The others have begun to take over what a drive held when it comes back: copies of tuples were
/// on their way to substitutes, and were recorded there although the drive awaited them at home by
/// then. The restore passed over what had a substitute, and what others hold goes home only to a
/// drive that is whole: in an idle pool both waited for ever.
#[test]
fn a_drive_that_comes_back_while_it_is_taken_over_is_restored() {
    let mut halfway = 0;
    for seed in 0..60 {
        let at = seed as usize % SHAPES.len();
        let (drives, parity, ..) = SHAPES[at];
        let world = Virtual::new(drives, DRIVE, 2_000 + seed);
        let mut mirror = Mirror::new(VOLUME);
        let mut rng = Rng::new(seed);
        world.block_on(async {
            let pool = make(&world, at).await;
            let volume = pool.volume("v").expect("made");
            write_some(&volume, &mut mirror, &mut rng, 100).await;
            volume.flush().await.expect("flush");
            pool.drive_fail(2, "a test", false).await.expect("it can be spared");
            while pool.events(0).iter().all(|event| event.kind != EventKind::RebuildBegun) {
                sleep(world.env(), 1).await;
            }
            let millis = seed / SHAPES.len() as u64 * 2;
            sleep(world.env(), millis).await;
            let moved = pool.counters().rebuilt_blocks > 0;
            halfway += u64::from(moved && state(&pool, 2) == DriveState::Failed);
            let back = VirtDrive::attach(world.env(), &world.disks[2], Latency::SSD);
            pool.drive_replace(2, back).await.expect("it is lost");
            // Nobody writes meanwhile.
            let when = format!("shape {at}, back after {millis} ms");
            until_home(&world, &pool, parity, &when).await;
            assert_eq!(state(&pool, 2), DriveState::Active, "{when}");
            audited(&pool, &when).await;
            check_all(&volume, &mirror, &when).await;
            drop(volume);
            pool.close().await.expect("closes");
        });
    }
    assert!(halfway >= 10, "{halfway}: it came back too early, or too late, for what is tested");
}
