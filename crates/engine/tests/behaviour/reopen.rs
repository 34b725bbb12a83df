//! Opening: read-only, mixed-up drives, damaged labels, after a crash.

use engine::{ConversionPolicy, CreateSpec, OpenError, OpenOptions, Pool, RequestError, create};
use io::rng::Rng;
use io::virt::{Disk, Latency, VirtDrive};
use io::{Buf, Env};

use crate::common::sleep;
use crate::common::{MIB, Mirror, Virtual, World, check_all, check_degraded, make_pool, open_pool};

const KIB: u64 = 1 << 10;

async fn written(world: &Virtual, mirror: &mut Mirror, rng: &mut Rng) -> Pool<io::virt::VirtEnv> {
    let pool = make_pool(world, &CreateSpec::new("tank")).await;
    let size = mirror.bytes.len() as u64;
    pool.volume_create("v", size, None, None).await.expect("room");
    let volume = pool.volume("v").expect("made");
    for _ in 0..200 {
        let len = [512, 4096, 65536, 6 * 65536][rng.index(4)];
        let offset = rng.below((size - len) / 4096 + 1) * 4096;
        let data = mirror.fill(rng, offset, len);
        volume.write(offset, data, false).await.expect("write");
    }
    pool
}

fn writes(world: &Virtual) -> u64 {
    world.disks.iter().map(|disk| disk.counters().writes + disk.counters().flushes).sum()
}

#[test]
fn reading_only_writes_nothing_even_after_a_crash() {
    for clean in [true, false] {
        let world = Virtual::new(5, 64 * MIB, 51);
        let mut mirror = Mirror::new(6 * MIB);
        let mut rng = Rng::new(51);
        world.block_on(async {
            let pool = written(&world, &mut mirror, &mut rng).await;
            pool.flush().await.expect("flush");
            if clean {
                pool.close().await.expect("closes");
            }
            drop(pool);
            world.kill();
        });
        let before = writes(&world);
        world.block_on(async {
            let options = OpenOptions { read_only: true, ..OpenOptions::default() };
            let pool = Pool::open(world.env(), world.drives(), options).await.expect("opens");
            assert_eq!((pool.status().read_only, pool.status().recovery.clean), (true, clean));
            assert_eq!(pool.status().recovery.records_replayed > 0, !clean);
            let volume = pool.volume("v").expect("made");
            assert!(volume.is_read_only());
            check_all(&volume, &mirror, "read-only").await;
            let refused = Err(RequestError::ReadOnly);
            assert_eq!(volume.write(0, Buf::zeroed(4096), false).await, refused);
            assert_eq!(volume.trim(0, 4096, false).await, refused);
            assert_eq!(volume.write_zeroes(0, 4096, false, false).await, refused);
            assert!(pool.volume_create("w", MIB, None, None).await.is_err());
            assert!(pool.volume_resize("v", 7 * MIB).await.is_err());
            sleep(world.env(), 3000).await;
            drop(volume);
            assert!(pool.volume_delete("v").await.is_err());
            pool.close().await.expect("closes");
        });
        assert_eq!(writes(&world), before, "nothing is written");
        world.block_on(async {
            let pool = open_pool(&world).await;
            assert_eq!(pool.status().recovery.clean, clean);
            check_all(&pool.volume("v").expect("made"), &mirror, "writable again").await;
            pool.close().await.expect("closes");
        });
        world.block_on(check_degraded(&world, 1, &[("v", &mirror)]));
    }
}

async fn open(
    world: &Virtual,
    drives: Vec<VirtDrive>,
) -> Result<Pool<io::virt::VirtEnv>, OpenError> {
    Pool::open(world.env(), drives, OpenOptions::default()).await
}

#[test]
fn drives_in_any_order_make_the_pool_and_others_do_not() {
    let world = Virtual::new(5, 48 * MIB, 52);
    let mut mirror = Mirror::new(4 * MIB);
    let mut rng = Rng::new(52);
    world.block_on(async {
        written(&world, &mut mirror, &mut rng).await.close().await.expect("closes");
        for _ in 0..4 {
            let mut drives = world.drives();
            rng.shuffle(&mut drives);
            let pool = open(&world, drives).await.expect("in any order");
            check_all(&pool.volume("v").expect("made"), &mirror, "shuffled").await;
            pool.close().await.expect("closes");
        }
        let mut twice = world.drives();
        twice.push(twice[1].clone());
        let error = open(&world, twice).await.err().expect("listed twice");
        assert!(matches!(error, OpenError::Duplicate { .. }), "{error}");
        // A byte by byte copy of a drive.
        let copy = Disk::new("copy", 48 * MIB, 4096, 1);
        let drive = VirtDrive::attach(world.env(), &copy, Latency::SSD);
        for at in (0..48 * MIB).step_by(MIB as usize) {
            let bytes = Buf::from_slice(&world.disks[0].peek(at, MIB as usize));
            io::Drive::write(&drive, at, bytes, io::Durability::Cached).await.expect("write");
        }
        let mut drives = world.drives();
        drives.push(drive.clone());
        let error = open(&world, drives).await.err().expect("a copy");
        assert!(error.to_string().contains("copies of one another"), "{error}");
        let mut drives = world.drives();
        drives[0] = drive;
        open(&world, drives).await.expect("the copy alone will do").close().await.expect("closes");
    });
    let other = Virtual::new(3, 48 * MIB, 53);
    other.block_on(async {
        make_pool(&other, &CreateSpec::new("other")).await.close().await.expect("closes");
    });
    world.block_on(async {
        let strange = VirtDrive::attach(world.env(), &other.disks[0], Latency::SSD);
        let empty = Disk::new("empty", 48 * MIB, 4096, 1);
        let empty = VirtDrive::attach(world.env(), &empty, Latency::SSD);
        for (drive, word) in [(strange, "belongs to pool"), (empty, "not a SteadyRAID drive")] {
            let mut drives = world.drives();
            drives.push(drive);
            let error = open(&world, drives).await.err().expect("a stranger").to_string();
            assert!(error.contains(word), "{error}");
        }
        let pool = open(&world, world.drives()).await.expect("nothing was done to it");
        pool.close().await.expect("closes");
    });
}

#[test]
fn too_many_missing_drives_are_listed() {
    let world = Virtual::new(6, 48 * MIB, 54);
    world.block_on(async {
        make_pool(&world, &CreateSpec::new("tank")).await.close().await.expect("closes");
        let few = world.drives().into_iter().take(3).collect();
        let error = open(&world, few).await.err().expect("half of them");
        let OpenError::TooManyMissing { missing, drives, list, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((*missing, *drives), (3, 6));
        assert_eq!(list.split(", ").count(), 3, "{list}");
        open(&world, world.drives()).await.expect("all").close().await.expect("closes");
    });
}

/// With both copies of an unflushed write on missing drives, recovery once believed that it had
/// never arrived: a read-only opening showed what was there before instead of an error.
#[test]
fn what_lies_on_missing_drives_only_is_an_error_never_old_data() {
    let world = Virtual::new(6, 64 * MIB, 57);
    let mut mirror = Mirror::new(4 * MIB);
    let mut rng = Rng::new(57);
    let spec = CreateSpec { parity: 2, ..CreateSpec::new("tank") };
    world.block_on(async {
        let pool = make_pool(&world, &spec).await;
        pool.volume_create("v", 4 * MIB, Some(1), None).await.expect("room");
        let volume = pool.volume("v").expect("made");
        for offset in (0..4 * MIB).step_by(64 << 10) {
            let data = mirror.fill(&mut rng, offset, 64 << 10);
            // The last one takes the journal along, but not what the records before it are about.
            let fua = offset + (64 << 10) == 4 * MIB;
            volume.write(offset, data, fua).await.expect("write");
        }
    });
    let (mut right, mut errors) = (0, 0);
    for (a, b) in (0..6).flat_map(|a| (a + 1..6).map(move |b| (a, b))) {
        world.kill();
        world.block_on(async {
            let all = world.drives().into_iter().enumerate();
            let rest = all.filter(|(at, _)| ![a, b].contains(at)).map(|(_, drive)| drive);
            let options = OpenOptions { read_only: true, ..OpenOptions::default() };
            let opened = Pool::open(world.env(), rest.collect(), options).await;
            let volume = opened.expect("opens to be read").volume("v").expect("made");
            for offset in (0..4 * MIB).step_by(64 << 10) {
                match volume.read(offset, 64 << 10).await {
                    Err(_) => errors += 1,
                    Ok(pieces) => {
                        let bytes = pieces.concat();
                        let expected = &mirror.bytes[offset as usize..][..64 << 10];
                        assert!(bytes == expected, "old data at {offset} without {a} and {b}");
                        right += 1;
                    }
                }
            }
        });
    }
    assert!(errors > 0 && right > errors, "{right} right, {errors} errors");
}

/// Four copies of a label: any one is enough.
#[test]
fn up_to_three_damaged_label_copies_do_no_harm() {
    let size = 48 * MIB;
    let offsets = format::label_offsets(size);
    for damaged in 1..15_u32 {
        let world = Virtual::new(4, size, u64::from(damaged));
        world.block_on(async {
            let pool = make_pool(&world, &CreateSpec::new("tank")).await;
            pool.volume_create("v", MIB, None, None).await.expect("room");
            pool.close().await.expect("closes");
            for (copy, offset) in offsets.into_iter().enumerate() {
                if damaged >> copy & 1 == 1 {
                    // Anywhere in it, on every drive.
                    let at = u64::from(damaged) * 37 % 300;
                    world.disks.iter().for_each(|disk| disk.corrupt(offset + at, 40, 1));
                }
            }
            let pool = open_pool(&world).await;
            assert_eq!(pool.volumes().len(), 1);
            pool.close().await.expect("closes");
        });
    }
    let world = Virtual::new(4, size, 99);
    world.block_on(async {
        make_pool(&world, &CreateSpec::new("tank")).await.close().await.expect("closes");
        offsets.into_iter().for_each(|offset| world.disks[1].corrupt(offset + 100, 8, 1));
        let error = open(&world, world.drives()).await.err().expect("no label is left");
        assert!(matches!(&error, OpenError::NotOurs { name, .. } if name == "disk1"), "{error}");
        let drives = world.drives().into_iter().enumerate().filter(|(at, _)| *at != 1);
        let pool = open(&world, drives.map(|(_, drive)| drive).collect()).await;
        pool.expect("three of four").close().await.expect("closes");
    });
}

/// A dead drive that is plugged in is no worse than one that is not.
#[test]
fn an_unreadable_drive_counts_as_missing() {
    let world = Virtual::new(4, 48 * MIB, 55);
    world.block_on(async {
        make_pool(&world, &CreateSpec::new("tank")).await.close().await.expect("closes");
        world.disks[3].set_failed(true);
        let pool = open(&world, world.drives()).await.expect("three of four");
        assert_eq!(pool.status().redundancy_margin, 0);
        pool.close().await.expect("closes");
        world.disks.iter().for_each(|disk| disk.set_failed(true));
        let error = open(&world, world.drives()).await.err().expect("none answers");
        assert!(matches!(&error, OpenError::Drive { name, .. } if name == "disk0"), "{error}");
    });
}

/// A write whose copies all came to nothing leaves copies that differ. What conversion makes
/// of that block must be one stripe all the same, or a later failure garbles its neighbours.
#[test]
fn conversion_after_a_crash_makes_consistent_stripes() {
    for seed in 0..12 {
        let world = Virtual::new(7, 48 * MIB, seed);
        let mut mirror = Mirror::new(8 * MIB);
        let mut rng = Rng::new(seed);
        world.block_on(async {
            let spec =
                CreateSpec { conversion: ConversionPolicy::Eager, ..CreateSpec::new("tank") };
            create(world.env(), &world.drives(), &spec).await.expect("made");
            let pool = open_pool(&world).await;
            pool.volume_create("v", 8 * MIB, None, None).await.expect("room");
            let volume = pool.volume("v").expect("made");
            pool.flush().await.expect("flush");
            let before: Vec<_> = world.disks.iter().map(|disk| disk.counters()).collect();
            // Three pages of one packed slot: the middle one is lost on both drives.
            let lane = |at: u64| at * 8 * 64 * KIB;
            let first = mirror.fill(&mut rng, lane(0), 4096);
            volume.write(lane(0), first, false).await.expect("write");
            volume.write(lane(1), Buf::from_slice(&[9; 4096]), false).await.expect("write");
            let last = mirror.fill(&mut rng, lane(2), 4096);
            volume.write(lane(2), last, false).await.expect("write");
            for at in [3, 5, 9, 11, 13] {
                let data = mirror.fill(&mut rng, at * 64 * KIB, 64 * KIB);
                volume.write(at * 64 * KIB, data, at == 13).await.expect("write");
            }
            assert!(before.len() == 7);
            drop((volume, pool));
            world.kill();
        });
        // On every drive the pages that hold the lost write become garbage of their own.
        let zones = 4 * MIB..48 * MIB;
        for (number, disk) in world.disks.iter().enumerate() {
            for at in (zones.start..zones.end).step_by(4096) {
                if disk.peek(at, 4096).iter().all(|byte| *byte == 9) {
                    disk.corrupt(at, 4096, 1000 + number as u64);
                }
            }
        }
        world.block_on(async {
            let pool = open_pool(&world).await;
            assert_eq!(pool.status().recovery.records_dropped, 1);
            let volume = pool.volume("v").expect("made");
            // Reads keep drives busy, so that conversion would rather read elsewhere.
            for task in 0..8 {
                let (volume, pool) = (volume.clone(), pool.clone());
                world.env().spawn(async move {
                    for round in (0..).take_while(|_| pool.counters().conversions == 0) {
                        let at = [0, 16, 3, 5, 9, 11, 13][(task + round) % 7];
                        volume.read(at * 64 * KIB, 4096).await.expect("read");
                    }
                });
            }
            sleep(world.env(), 500).await;
            assert!(pool.counters().conversions > 0);
            check_all(&volume, &mirror, "converted").await;
            drop(volume);
            pool.close().await.expect("closes");
            check_degraded(&world, 1, &[("v", &mirror)]).await;
        });
    }
}
