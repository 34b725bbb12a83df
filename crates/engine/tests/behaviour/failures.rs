//! Drives that fail: while written, while read, one too many.

use engine::{ConversionPolicy, CreateSpec, DriveState, Label, OpenOptions, Pool, RequestError};
use engine::{Volume, read_label};
use futures_util::future::join_all;
use io::faulty::{Effect, Fault, Faults, Faulty};
use io::rng::Rng;
use io::virt::{CutMode, VirtEnv};
use io::{AnyDrive, Buf, DriveErrorKind, Env, Operation};

use crate::common::{MIB, Mirror, Virtual, World, check_all, make_pool, open_pool, sleep};
use crate::restore::{prove, until_whole};

async fn write_some(volume: &Volume<VirtEnv>, mirror: &mut Mirror, rng: &mut Rng, count: u64) {
    let size = mirror.bytes.len() as u64;
    for _ in 0..count {
        let len = [512, 4096, 65536, 6 * 65536][rng.index(4)];
        let offset = rng.below((size - len) / 512 + 1) * 512;
        let offset = if len >= 65536 { offset / 65536 * 65536 } else { offset };
        let data = mirror.fill(rng, offset, len);
        let done = volume.write(offset, data, rng.chance(1, 8)).await;
        done.expect("writes go on");
    }
}

async fn pool_of(world: &Virtual, parity: u8) -> (Pool<VirtEnv>, Volume<VirtEnv>) {
    let conversion = ConversionPolicy::Eager;
    let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
    let pool = make_pool(world, &spec).await;
    pool.volume_create("v", 6 * MIB, None, None).await.expect("room");
    let volume = pool.volume("v").expect("made");
    (pool, volume)
}

fn states(pool: &Pool<VirtEnv>, state: DriveState) -> usize {
    pool.status().drives.iter().filter(|drive| drive.state == state).count()
}

/// As many drives as there is parity are pulled out in the middle of writing.
#[test]
fn writes_and_reads_go_on_without_the_drives_that_parity_stands_for() {
    let mut reconstructed = 0;
    for (drives, parity) in [(5, 1), (7, 1), (9, 1), (6, 2), (10, 2)] {
        let world = Virtual::new(drives, 64 * MIB, drives as u64);
        let mut mirror = Mirror::new(6 * MIB);
        let mut rng = Rng::new(drives as u64);
        world.block_on(async {
            let (pool, volume) = pool_of(&world, parity).await;
            assert_eq!(pool.status().redundancy_margin, parity);
            write_some(&volume, &mut mirror, &mut rng, 150).await;
            for gone in 1..=parity {
                let disk = world.disks[usize::from(gone) * 2].clone();
                let env = world.env().clone();
                world.env().spawn(async move {
                    env.sleep_until(env.now() + io::Nanos::from_micros(300)).await;
                    disk.set_failed(true);
                });
                write_some(&volume, &mut mirror, &mut rng, 150).await;
                let status = pool.status();
                assert_eq!(status.redundancy_margin, parity - gone);
                assert_eq!(status.drives[usize::from(gone) * 2].state, DriveState::Failed);
                assert_eq!(states(&pool, DriveState::Failed), usize::from(gone));
                assert_eq!(status.failed, None);
                check_all(&volume, &mirror, &format!("{gone} gone")).await;
            }
            reconstructed += pool.counters().reconstructed_reads;
            sleep(world.env(), 500).await;
            check_all(&volume, &mirror, "after background work").await;
            drop(volume);
            pool.close().await.expect("closes");
        });
        // The drives come back with what they held when they failed: nobody trusts them.
        world.disks.iter().for_each(|disk| disk.set_failed(false));
        world.block_on(async {
            let pool = open_pool(&world).await;
            assert_eq!(states(&pool, DriveState::Failed), usize::from(parity));
            let told = pool.events(0);
            let here = told.iter().filter(|event| event.text.contains("is not used before"));
            assert_eq!(here.count(), usize::from(parity), "{told:?}");
            let volume = pool.volume("v").expect("made");
            check_all(&volume, &mirror, "with the stale drives").await;
            write_some(&volume, &mut mirror, &mut rng, 40).await;
            check_all(&volume, &mirror, "written with the stale drives").await;
            drop(volume);
            pool.close().await.expect("closes");
            let alive = world.drives().into_iter().enumerate();
            let alive = alive.filter(|(at, _)| ![2, 2 * usize::from(parity)].contains(at));
            let drives = alive.map(|(_, drive)| drive).collect();
            let opened = Pool::open(world.env(), drives, OpenOptions::default()).await;
            let pool = opened.expect("without the stale drives");
            check_all(&pool.volume("v").expect("made"), &mirror, "without the stale drives").await;
            pool.close().await.expect("closes");
        });
    }
    assert!(reconstructed > 0);
}

/// A drive that was left out while others were written is stale when it comes back.
#[test]
fn a_drive_that_missed_something_is_not_trusted_again() {
    let world = Virtual::new(5, 64 * MIB, 31);
    let mut mirror = Mirror::new(6 * MIB);
    let mut rng = Rng::new(31);
    world.block_on(async {
        let (pool, volume) = pool_of(&world, 1).await;
        write_some(&volume, &mut mirror, &mut rng, 60).await;
        drop(volume);
        pool.close().await.expect("closes");
        let four = world.drives().into_iter().take(4).collect();
        let opened = Pool::open(world.env(), four, OpenOptions::default()).await;
        let pool = opened.expect("four of five");
        assert_eq!(states(&pool, DriveState::Missing), 1);
        assert_eq!(pool.status().redundancy_margin, 0);
        let volume = pool.volume("v").expect("made");
        check_all(&volume, &mirror, "four of five").await;
        write_some(&volume, &mut mirror, &mut rng, 60).await;
        drop(volume);
        pool.close().await.expect("closes");
        let pool = open_pool(&world).await;
        assert_eq!(states(&pool, DriveState::Active), 4, "the fifth knows old things");
        check_all(&pool.volume("v").expect("made"), &mirror, "five again").await;
        pool.close().await.expect("closes");
    });
}

/// More failures than parity: requests fail with words, nothing panics, nothing waits for ever.
#[test]
fn too_many_failures_are_errors() {
    for (drives, parity, lost) in [(5, 1, 2), (5, 1, 4), (4, 1, 4), (6, 2, 3), (6, 2, 6), (3, 1, 3)]
    {
        for parallel in [1, 40] {
            let world = Virtual::new(drives, 48 * MIB, drives as u64);
            let mut mirror = Mirror::new(6 * MIB);
            let mut rng = Rng::new(lost as u64);
            world.block_on(async {
                let (pool, volume) = pool_of(&world, parity).await;
                write_some(&volume, &mut mirror, &mut rng, 80).await;
                for at in 0..lost {
                    world.disks[at].set_failed(true);
                }
                let mut refused = 0;
                for _ in 0..10 {
                    let write = |at: u64| {
                        let len = [4096, 65536, 6 * 65536][at as usize % 3];
                        volume.write(at * 65536, Buf::zeroed(len), at.is_multiple_of(4))
                    };
                    let done = join_all((0..parallel).map(write)).await;
                    refused += done.iter().filter(|result| result.is_err()).count();
                    let read = |at| volume.read(at * 65536, 65536);
                    for result in join_all((0..parallel).map(read)).await {
                        let text = result.err().map(|error| error.to_string());
                        assert!(text.is_none_or(|text| text.starts_with("input/output error")));
                    }
                    let _ = volume.trim(rng.below(90) * 65536, 65536, true).await;
                    let _ = volume.flush().await;
                }
                let status = pool.status();
                assert_eq!(status.redundancy_margin, 0);
                if lost == drives {
                    assert!(refused > 0 && status.failed.is_some());
                    let error = volume.write(0, Buf::zeroed(4096), false).await;
                    assert!(matches!(error, Err(RequestError::Io(_))));
                }
                drop(volume);
                let _ = pool.close().await;
            });
        }
    }
}

/// More drives than parity stands for go at once, and are all there again later (a cable, a shelf):
/// no label wrote off the last of them, so the pool has what was flushed. `closes`: somebody stops
/// the server in between.
fn lost_and_there_again((drives, parity, lost): (usize, u8, usize), seed: u64, closes: bool) {
    let world = Virtual::new(drives, 64 * MIB, seed);
    let (mut mirror, mut rng) = (Mirror::new(6 * MIB), Rng::new(seed));
    world.block_on(async {
        let (pool, volume) = pool_of(&world, parity).await;
        mirror.bytes.truncate(3 * MIB as usize);
        write_some(&volume, &mut mirror, &mut rng, 120).await;
        volume.flush().await.expect("flushed");
        for disk in &world.disks[drives - lost..] {
            disk.set_failed(true);
        }
        // The rest of the volume was never written, and is not looked at afterwards.
        let (mut errors, half) = (0, 3 * MIB);
        for at in 0..60 {
            errors += u64::from(
                volume.write(half + at % 40 * 65536, Buf::zeroed(65536), true).await.is_err(),
            );
        }
        assert!(errors > 50 && volume.flush().await.is_err(), "{errors} errors");
        let failed = pool.status().failed.expect("it says so");
        let why = format!("are lost, and the pool bears {parity}");
        assert!(lost == drives || failed.contains(&why), "{failed}");
        if closes {
            assert!(pool.close().await.is_err());
        }
    });
    world.kill();
    world.disks.iter().for_each(|disk| disk.set_failed(false));
    world.block_on(async {
        let pool = open_pool(&world).await;
        let (without, volume) =
            (states(&pool, DriveState::Failed), pool.volume("v").expect("made"));
        assert!(without <= usize::from(parity), "{without} of {lost} are written off");
        check_all(&volume, &mirror, "they are back").await;
        for at in drives - lost..drives {
            if pool.status().drives[at].state == DriveState::Failed {
                pool.drive_replace(at as u16, world.drives().swap_remove(at))
                    .await
                    .expect("it is back");
                until_whole(&world, &pool, at).await;
            }
        }
        prove(&pool, &mirror, &[0], "whole again").await;
    });
}

#[test]
fn drives_that_no_parity_stands_for_are_not_written_off() {
    for shape in [(5, 1, 2), (5, 1, 5), (6, 2, 3), (10, 2, 5), (4, 1, 3)] {
        for seed in 0..12 {
            lost_and_there_again(shape, seed, seed % 2 == 0);
        }
    }
}

/// An operator may go on without them.
#[test]
fn drives_that_an_operator_gives_up_are_written_off() {
    let world = Virtual::new(7, 64 * MIB, 46);
    world.block_on(async {
        let (pool, volume) = pool_of(&world, 1).await;
        for drive in [1, 3] {
            let force = drive == 3;
            pool.drive_fail(drive, "a test", force).await.expect("forced where it must be");
        }
        volume.write(0, Buf::zeroed(65536), true).await.expect("five are left");
        volume.flush().await.expect("five are left");
        // Of those that are left it still bears none.
        world.disks[5].set_failed(true);
        let mut done = Ok(());
        for at in 0..20 {
            done = done.and(volume.write(at * 65536, Buf::zeroed(65536), true).await);
        }
        assert!(done.is_err() && pool.status().failed.is_some());
    });
}

/// Unreadable places of drives that otherwise work: other copies and parity serve.
#[test]
fn single_failed_reads_are_served_from_elsewhere() {
    let world = Virtual::new(7, 64 * MIB, 41);
    let mut mirror = Mirror::new(6 * MIB);
    let mut rng = Rng::new(41);
    world.block_on(async {
        let (pool, volume) = pool_of(&world, 1).await;
        write_some(&volume, &mut mirror, &mut rng, 200).await;
        for round in 0..30 {
            world.disks[rng.index(7)].fail_nth_read(1 + rng.below(10));
            check_all(&volume, &mirror, &format!("round {round}")).await;
        }
        let errors: u64 = pool.status().drives.iter().map(|d| d.counters.read_errors).sum();
        assert!(errors > 10, "{errors}");
        assert_eq!(states(&pool, DriveState::Active), 7, "a failed read fails no drive");
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// One failed write makes the drive stale at once, and for good.
#[test]
fn a_failed_write_or_flush_fails_the_drive() {
    for flush in [false, true] {
        let world = Virtual::new(6, 64 * MIB, 42);
        let mut mirror = Mirror::new(6 * MIB);
        let mut rng = Rng::new(42);
        world.block_on(async {
            let (pool, volume) = pool_of(&world, 1).await;
            write_some(&volume, &mut mirror, &mut rng, 50).await;
            if flush {
                world.disks[1].fail_nth(io::Operation::Flush, 1, io::DriveErrorKind::Os(5));
            } else {
                world.disks[1].fail_nth_write(3);
            }
            write_some(&volume, &mut mirror, &mut rng, 50).await;
            volume.flush().await.expect("the others have it");
            assert_eq!(pool.status().drives[1].state, DriveState::Failed);
            check_all(&volume, &mirror, "one failed").await;
            drop((volume, pool));
            world.kill();
        });
        world.block_on(async {
            let pool = open_pool(&world).await;
            assert_eq!(pool.status().drives[1].state, DriveState::Failed);
            check_all(&pool.volume("v").expect("made"), &mirror, "after a crash").await;
            pool.close().await.expect("closes");
        });
    }
}

/// World 20237: every copy of a label met a read error that was over soon. The drive passed for
/// an empty one, and the pool for one with a stranger in it.
#[test]
fn a_drive_whose_label_cannot_be_read_is_missing_not_empty() {
    let world = Virtual::new(5, 64 * MIB, 20237);
    world.block_on(async {
        let (pool, volume) = pool_of(&world, 1).await;
        drop(volume);
        pool.close().await.expect("closes");
        // Its four copies are what is read first.
        (1..=4).for_each(|nth| world.disks[2].fail_nth_read(nth));
        let pool = open_pool(&world).await;
        assert_eq!(states(&pool, DriveState::Missing), 1);
        assert!(pool.volume("v").is_some());
        pool.close().await.expect("closes");
    });
}

/// A member that could not be read while its stripe was verified was taken for written. If the
/// power cut had taken its block, reads of it found what was there before.
#[test]
fn a_member_that_cannot_be_read_during_recovery_is_written_again() {
    let world = Virtual::new(5, 64 * MIB, 71);
    let mut mirror = Mirror::new(4 * MIB);
    let mut rng = Rng::new(71);
    world.block_on(async {
        let (pool, volume) = pool_of(&world, 1).await;
        drop(volume);
        pool.volume_create("s", 4 * MIB, None, None).await.expect("room");
        let volume = pool.volume("s").expect("made");
        volume.write(0, mirror.fill(&mut rng, 0, 4 * MIB - 4096), false).await.expect("write");
        // Takes the journal along, not what the records before it are about.
        let last = mirror.fill(&mut rng, 4 * MIB - 4096, 4096);
        volume.write(4 * MIB - 4096, last, true).await.expect("write");
    });
    world.kill();
    let lossy = 3;
    for (at, disk) in world.disks.iter().enumerate() {
        let mode = if at == lossy { CutMode::DropAll } else { CutMode::KeepAll };
        disk.power_cut(&mut rng, mode);
    }
    world.block_on(async {
        let faults = Faults::new(71);
        let Ok(Label::Ours(label)) = read_label(&world.drives()[lossy]).await else {
            panic!("the label is durable")
        };
        let data = label.zones.offset..64 * MIB;
        let unreadable = Effect::Error(DriveErrorKind::Os(5));
        let fault = Fault::new(unreadable).on(Operation::Read).within(data);
        faults.arm(world.env().now(), fault).expect("a valid fault");
        let spoil = |(at, drive): (usize, _)| match at == lossy {
            true => AnyDrive::new(Faulty::new(world.env(), drive, &faults)).into(),
            false => drive,
        };
        let drives = world.drives().into_iter().enumerate().map(spoil).collect();
        let pool = Pool::open(world.env(), drives, OpenOptions::default()).await.expect("opens");
        assert!(pool.status().recovery.copies_healed > 0);
        faults.release_all();
        check_all(&pool.volume("s").expect("made"), &mirror, "readable again").await;
        pool.close().await.expect("closes");
    });
}
