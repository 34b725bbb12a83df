//! A drive that works is exchanged for another: all the while the pool is as redundant as it was.

use engine::{CreateSpec, DriveState, DriveVerbError, EventKind, OpenError, OpenOptions, Pool};
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Env, Nanos};

use crate::common::{MIB, Mirror, Virtual, World, check_all, sleep};
use crate::restore::{DRIVE, SHAPES, VOLUME, attach, noisy, prove, state, with_volume, write_some};

fn replacing(pool: &Pool<VirtEnv>, drive: usize) -> bool {
    pool.status().drives[drive].replacing.is_some()
}

async fn until_exchanged(world: &Virtual, pool: &Pool<VirtEnv>, drive: usize) {
    for _ in 0..600 {
        if !replacing(pool, drive) && state(pool, drive) == DriveState::Active {
            return;
        }
        sleep(world.env(), 50).await;
    }
    panic!("still {:?}", pool.status().drives[drive]);
}

fn kinds(pool: &Pool<VirtEnv>) -> Vec<EventKind> {
    pool.events(0).iter().map(|event| event.kind).collect()
}

/// Written to before, during and after; then the pool opens with the new drive and does without
/// others.
#[test]
fn a_working_drive_is_exchanged_under_load() {
    for (seed, (drives, parity, conversion)) in SHAPES.into_iter().enumerate() {
        let world = Virtual::new(drives, DRIVE, 300 + seed as u64);
        let (mut mirror, mut rng) = (Mirror::new(VOLUME), Rng::new(seed as u64));
        let mut disks = world.disks.clone();
        world.block_on(async {
            let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
            let (pool, volume) = with_volume(&world, &spec).await;
            write_some(&volume, &mut mirror, &mut rng, 100).await;
            let before = pool.status().drives[2].uuid;
            // Larger than the old one: its last labels are elsewhere.
            let disk = Disk::new("new", DRIVE + 3 * MIB, 4096, 17);
            disks[2] = disk.clone();
            let spare = VirtDrive::attach(world.env(), &disk, Latency::SSD);
            pool.drive_replace(2, spare).await.expect("it works");
            assert!(replacing(&pool, 2));
            let again = VirtDrive::attach(world.env(), &disk, Latency::SSD);
            let again = pool.drive_replace(2, again).await;
            assert!(matches!(again, Err(DriveVerbError::NotLost { index: 2, .. })), "{again:?}");
            while replacing(&pool, 2) {
                assert_eq!(pool.status().redundancy_margin, parity, "nothing is lent");
                write_some(&volume, &mut mirror, &mut rng, 5).await;
            }
            let status = &pool.status().drives[2];
            assert!(status.uuid != before && status.name == "new", "{status:?}");
            assert!(kinds(&pool).contains(&EventKind::DriveReplaced));
            world.disks[2].set_failed(true);
            write_some(&volume, &mut mirror, &mut rng, 50).await;
            check_all(&volume, &mirror, "exchanged").await;
            drop(volume);
            pool.close().await.expect("closes");
            let pool = crate::restore::open(&world, &disks).await;
            let others: Vec<usize> = [0, 1][..usize::from(parity)].to_vec();
            prove(&pool, &mirror, &others, &format!("{drives} drives")).await;
            pool.close().await.expect("closes");
        });
    }
}

/// The power goes at any moment of it, with both drives there afterwards: one of them is the
/// member, and everything that was promised is there, also without other drives.
#[test]
fn a_crash_leaves_one_of_the_two() {
    let (mut olds, mut news) = (0, 0);
    for seed in 0..30 {
        let (drives, parity, conversion) = SHAPES[seed as usize % SHAPES.len()];
        let world = Virtual::new(drives, DRIVE, 4000 + seed);
        let (mut mirror, mut rng) = (Mirror::new(VOLUME), Rng::new(seed));
        let mut disks = world.disks.clone();
        world.block_on(async {
            let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
            let (pool, volume) = with_volume(&world, &spec).await;
            write_some(&volume, &mut mirror, &mut rng, 60).await;
            disks.push(noisy(&world, seed).await);
            let spare = attach(&world, &disks[drives..]).remove(0);
            pool.drive_replace(1, spare).await.expect("it works");
            // Half of these worlds end near the moment at which the drives change.
            while seed % 2 == 0 && replacing(&pool, 1) {
                world.env().sleep_until(world.env().now() + Nanos::from_micros(50)).await;
            }
            write_some(&volume, &mut mirror, &mut rng, seed % 7).await;
            // Labels change with every checkpoint.
            pool.checkpoint().await.expect("it works");
            volume.flush().await.expect("flush");
            let span = if seed % 2 == 0 { 3_000 } else { 120_000 };
            let span = Nanos::from_micros(rng.below(span));
            world.env().sleep_until(world.env().now() + span).await;
        });
        world.kill();
        disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
        world.block_on(async {
            let pool = open_some(&world, &disks).await;
            let is_new = pool.status().drives[1].name != disks[1].name();
            (olds, news) = (olds + u64::from(!is_new), news + u64::from(is_new));
            let volume = pool.volume("v").expect("made");
            check_all(&volume, &mirror, &format!("seed {seed}")).await;
            drop(volume);
            let others: Vec<usize> = [0, 2][..usize::from(parity)].to_vec();
            prove(&pool, &mirror, &others, &format!("seed {seed}")).await;
        });
    }
    assert!(olds > 5 && news > 5, "{olds} old drives and {news} new ones");
}

/// Closed or dead in the midst of it: when the pool is opened again the exchange begins anew. If
/// one of the two is not here then, it waits; if another has the place, it is over.
#[test]
fn an_exchange_goes_on_when_the_pool_is_opened_again() {
    for seed in 0..12 {
        let (drives, parity, conversion) = SHAPES[seed as usize % SHAPES.len()];
        let world = Virtual::new(drives, DRIVE, 5000 + seed);
        let (mut mirror, mut rng) = (Mirror::new(VOLUME), Rng::new(seed));
        let mut disks = world.disks.clone();
        let when = format!("seed {seed}");
        world.block_on(async {
            let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
            let (pool, volume) = with_volume(&world, &spec).await;
            write_some(&volume, &mut mirror, &mut rng, 60).await;
            volume.flush().await.expect("flush");
            disks.push(noisy(&world, seed).await);
            let spare = attach(&world, &disks[drives..]).remove(0);
            pool.drive_replace(1, spare).await.expect("it works");
            drop(volume);
            if seed % 2 == 0 {
                pool.close().await.expect("closes");
            }
            assert!(seed % 2 == 0 || replacing(&pool, 1), "{when}");
        });
        world.kill();
        disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
        let (old, new) = (disks[1].clone(), disks[drives].clone());
        // Both are here, or first one of them is not, or a third has the place by then.
        let third = Disk::new("third", DRIVE, 4096, seed);
        let way = seed % 4;
        let hidden = [None, Some(&old), Some(&new), Some(&old)][way as usize];
        if let Some(hidden) = hidden {
            let here: Vec<Disk> =
                disks.iter().filter(|disk| disk.name() != hidden.name()).cloned().collect();
            world.block_on(async {
                let pool = crate::restore::open(&world, &here).await;
                sleep(world.env(), 500).await;
                let missing = way != 2;
                let expected = if missing { DriveState::Missing } else { DriveState::Active };
                assert_eq!(state(&pool, 1), expected, "{when}");
                let told = kinds(&pool).contains(&EventKind::ReplaceFailed);
                assert_eq!(told, missing, "{when}: {:?}", pool.events(0));
                if way == 3 {
                    let third = VirtDrive::attach(world.env(), &third, Latency::SSD);
                    pool.drive_replace(1, third).await.expect("it is lost");
                    until_exchanged(&world, &pool, 1).await;
                } else if missing {
                    let old = VirtDrive::attach(world.env(), &old, Latency::SSD);
                    pool.drive_replace(1, old).await.expect("it is back");
                    until_exchanged(&world, &pool, 1).await;
                }
                pool.close().await.expect("closes");
            });
        }
        if way == 3 {
            disks[1] = third.clone();
        }
        world.block_on(async {
            let pool = crate::restore::open(&world, &disks).await;
            let volume = pool.volume("v").expect("made");
            check_all(&volume, &mirror, &when).await;
            sleep(world.env(), 500).await;
            until_exchanged(&world, &pool, 1).await;
            let expected = if way == 3 { &third } else { &new };
            assert_eq!(pool.status().drives[1].name, expected.name(), "{when}");
            drop(volume);
            let others: Vec<usize> = [0, 2][..usize::from(parity)].to_vec();
            prove(&pool, &mirror, &others, &when).await;
        });
    }
}

/// The power goes at each of the last writes of an exchange, those of labels: one of the two is the
/// member, and says so itself.
#[test]
fn a_crash_among_the_labels_leaves_one_of_the_two() {
    const DRIVES: u64 = 5;
    let run = |limit: u64| {
        let world = Virtual::new(DRIVES as usize, DRIVE, 4100);
        let (mut mirror, mut rng) = (Mirror::new(VOLUME), Rng::new(8));
        let disk = Disk::new("new", DRIVE, 4096, 18);
        let disks = [&world.disks[..], std::slice::from_ref(&disk)].concat();
        let pool = world.block_on(async {
            let (pool, volume) = with_volume(&world, &CreateSpec::new("tank")).await;
            write_some(&volume, &mut mirror, &mut rng, 40).await;
            volume.flush().await.expect("flush");
            pool
        });
        let env = world.env();
        env.set_write_limit(limit);
        let exchange = async {
            let spare = VirtDrive::attach(env, &disk, Latency::SSD);
            pool.drive_replace(1, spare).await.expect("it works");
            until_exchanged(&world, &pool, 1).await;
        };
        let over = env.run_until(exchange, || env.write_limit_reached()).is_some();
        let writes = env.writes_issued();
        drop(pool);
        world.kill();
        let mut fate = Rng::new(limit);
        disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::Random));
        env.set_write_limit(u64::MAX);
        if !over {
            world.block_on(async {
                let pool = open_some(&world, &disks).await;
                let volume = pool.volume("v").expect("made");
                check_all(&volume, &mirror, &format!("at write {limit}")).await;
            });
        }
        writes
    };
    let writes = run(u64::MAX);
    // Labels of all drives, four early ones, and some before.
    for limit in writes - 4 * DRIVES - 10..=writes {
        run(limit);
    }
}

/// With whichever drive of the place is the member: the other is a stranger.
async fn open_some(world: &Virtual, disks: &[Disk]) -> Pool<VirtEnv> {
    let (last, members) = disks.split_last().expect("the new one");
    let mut with_new = members.to_vec();
    with_new[1] = last.clone();
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    match Pool::open(world.env(), attach(world, disks), options).await {
        Ok(both) => both.close().await.expect("closes"),
        // The new drive has no label yet; but it must never have that of the old one.
        Err(error) => assert!(matches!(error, OpenError::NotOurs { .. }), "{error}"),
    }
    let mut degraded = None;
    for some in [with_new, members.to_vec()] {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let Ok(looked) = Pool::open(world.env(), attach(world, &some), options).await else {
            continue;
        };
        let whole = looked.status().drives.iter().all(|drive| drive.state == DriveState::Active);
        looked.close().await.expect("closes");
        if whole {
            return crate::restore::open(world, &some).await;
        }
        degraded = Some(some);
    }
    panic!("degraded with either: {:?}", degraded.map(|some| some.len()));
}

#[test]
fn whichever_drive_dies_meanwhile_nothing_is_lost() {
    for (seed, old_dies) in [(1, true), (2, false), (3, true), (4, false)] {
        let world = Virtual::new(7, DRIVE, 500 + seed);
        let (mut mirror, mut rng) = (Mirror::new(VOLUME), Rng::new(seed));
        world.block_on(async {
            let (pool, volume) = with_volume(&world, &CreateSpec::new("tank")).await;
            write_some(&volume, &mut mirror, &mut rng, 100).await;
            let disk = noisy(&world, seed).await;
            let spare = VirtDrive::attach(world.env(), &disk, Latency::SSD);
            pool.drive_replace(3, spare).await.expect("it works");
            let dying = if old_dies { &world.disks[3] } else { &disk };
            let span = Nanos::from_micros(rng.below(5_000));
            world.env().sleep_until(world.env().now() + span).await;
            dying.set_failed(true);
            write_some(&volume, &mut mirror, &mut rng, 40).await;
            until_exchanged(&world, &pool, 3).await;
            let name = pool.status().drives[3].name.clone();
            assert_eq!(name == disk.name(), old_dies, "{name}");
            let failed = kinds(&pool).contains(&EventKind::ReplaceFailed);
            assert_eq!(failed, !old_dies);
            drop(volume);
            prove(&pool, &mirror, &[5], &format!("seed {seed}")).await;
            pool.close().await.expect("closes");
        });
    }
}

/// What the old drive can't read is computed from the others.
#[test]
fn pages_that_the_old_drive_lost_come_from_the_others() {
    let world = Virtual::new(6, DRIVE, 77);
    let (mut mirror, mut rng) = (Mirror::new(VOLUME), Rng::new(77));
    world.block_on(async {
        let (pool, volume) = with_volume(&world, &CreateSpec::new("tank")).await;
        write_some(&volume, &mut mirror, &mut rng, 150).await;
        volume.flush().await.expect("flush");
        let disk = noisy(&world, 5).await;
        // So many that whole chunks, read once more by blocks, are among them.
        (1..400).for_each(|read| world.disks[4].fail_nth_read(read));
        let spare = VirtDrive::attach(world.env(), &disk, Latency::SSD);
        pool.drive_replace(4, spare).await.expect("it works");
        until_exchanged(&world, &pool, 4).await;
        assert_eq!(pool.status().drives[4].name, disk.name());
        assert!(pool.counters().restored_blocks > 0, "some blocks were not read");
        drop(volume);
        prove(&pool, &mirror, &[0], "restored").await;
        pool.close().await.expect("closes");
    });
}
