//! Bytes change behind the pool's back: every read is right all the same, what is wrong is put
//! right and counted, and where more of a stripe is wrong than parity bears, exactly that is lost.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    ConversionPolicy, CreateSpec, DriveState, EventKind, Pool, RequestError, ScrubState,
    ScrubStatus, Volume,
};
use io::Drive;
use io::rng::Rng;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};

use crate::common::{MIB, Mirror, Virtual, World, check_all, make_pool, open_pool, sleep};

const DRIVE: u64 = 40 * MIB;
const VOLUME: u64 = 12 * MIB;
const BLOCK: u64 = 64 << 10;
const PAGE: usize = 4096;

/// Drives, parity, conversion: eager pools are RAID stripes mostly, lazy ones have copies too.
const SHAPES: [(usize, u8, ConversionPolicy); 4] = [
    (5, 1, ConversionPolicy::Lazy),
    (8, 1, ConversionPolicy::Eager),
    (6, 2, ConversionPolicy::Lazy),
    (7, 2, ConversionPolicy::Eager),
];

/// A volume that is written from end to end, in writes of every size.
async fn filled(
    world: &Virtual,
    parity: u8,
    conversion: ConversionPolicy,
    rng: &mut Rng,
) -> (Pool<VirtEnv>, Volume<VirtEnv>, Mirror) {
    let spec = CreateSpec { parity, conversion, ..CreateSpec::new("tank") };
    let pool = make_pool(world, &spec).await;
    pool.volume_create("v", VOLUME, None, None).await.expect("room");
    let volume = pool.volume("v").expect("made");
    let mut mirror = Mirror::new(VOLUME);
    for start in (0..VOLUME).step_by(12 * BLOCK as usize) {
        let len = (12 * BLOCK).min(VOLUME - start);
        volume.write(start, mirror.fill(rng, start, len), false).await.expect("room");
    }
    for _ in 0..200 {
        let len = [512, 4096, 8192, BLOCK, 2 * BLOCK][rng.index(5)];
        let offset = rng.below((VOLUME - len) / 512 + 1) * 512;
        let offset = if len >= BLOCK { offset / BLOCK * BLOCK } else { offset };
        volume.write(offset, mirror.fill(rng, offset, len), false).await.expect("room");
    }
    pool.flush().await.expect("flushes");
    sleep(world.env(), 2000).await;
    (pool, volume, mirror)
}

/// Whole pages of the volume, by what they hold.
fn live_pages(mirror: &Mirror) -> BTreeMap<&[u8], u64> {
    let pages = mirror.bytes.chunks(PAGE).enumerate();
    let pages = pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0));
    pages.map(|(at, page)| (page, (at * PAGE) as u64)).collect()
}

/// Where whole pages of the volume lie: byte of the volume, disk, byte of the disk.
fn places(world: &Virtual, mirror: &Mirror) -> Vec<(u64, usize, u64)> {
    let live = live_pages(mirror);
    let mut found = Vec::new();
    for (at, disk) in world.disks.iter().enumerate() {
        for offset in (0..DRIVE).step_by(PAGE) {
            if let Some(&byte) = live.get(&disk.peek(offset, PAGE)[..]) {
                found.push((byte, at, offset));
            }
        }
    }
    found
}

/// Changes a few bytes of some pages; each of them is another page.
fn flip(
    world: &Virtual,
    rng: &mut Rng,
    from: &[(u64, usize, u64)],
    count: usize,
) -> Vec<(u64, usize, u64)> {
    let mut flipped = BTreeSet::new();
    for _ in 0..count {
        let place = from[rng.index(from.len())];
        let (_, disk, offset) = place;
        if flipped.insert(place) {
            let len = 1 + rng.below(8);
            let at = rng.below(PAGE as u64 - len);
            world.disks[disk].corrupt(offset + at, len, rng.next_u64());
        }
    }
    flipped.into_iter().collect()
}

async fn scrubbed(world: &Virtual, pool: &Pool<VirtEnv>) -> ScrubStatus {
    pool.scrub_start().expect("nothing is in its way");
    for _ in 0..600 {
        let status = pool.scrub_status();
        if status.state == ScrubState::Done {
            return status;
        }
        sleep(world.env(), 100).await;
    }
    panic!("still {:?}", pool.scrub_status());
}

/// Pages of the volume that can't be read. All others are as they should be.
async fn lost(volume: &Volume<VirtEnv>, mirror: &Mirror) -> BTreeSet<u64> {
    let mut lost = BTreeSet::new();
    for at in (0..VOLUME).step_by(PAGE) {
        match volume.read(at, PAGE as u32).await {
            Ok(pieces) => {
                let bytes = pieces.concat();
                assert!(bytes == mirror.bytes[at as usize..at as usize + PAGE], "page at {at}");
            }
            Err(RequestError::Io(text)) => {
                assert!(text.contains("drive disk") && text.contains("byte"), "{text}");
                lost.insert(at);
            }
            Err(error) => panic!("page at {at}: {error}"),
        }
    }
    lost
}

#[test]
fn one_drive_rots_at_rest() {
    for (seed, (drives, parity, conversion)) in (0..12).zip(SHAPES.into_iter().cycle()) {
        let world = Virtual::new(drives, DRIVE, 70 + seed);
        let mut rng = Rng::new(seed);
        world.block_on(async {
            let (pool, volume, mirror) = filled(&world, parity, conversion, &mut rng).await;
            let places = places(&world, &mirror);
            let own: Vec<_> = places.iter().copied().filter(|place| place.1 == 2).collect();
            assert!(own.len() > 100, "{} pages on the drive", own.len());
            let flipped = flip(&world, &mut rng, &own, own.len() / 2);
            check_all(&volume, &mirror, "rotten").await;
            let status = scrubbed(&world, &pool).await;
            // What is still wrong on the drive is of stripes that were given up: the audit says so.
            let is_right = |&&(byte, disk, offset): &&(u64, usize, u64)| {
                let page = &mirror.bytes[byte as usize..byte as usize + PAGE];
                world.disks[disk].peek(offset, PAGE) == page
            };
            let count = flipped.iter().filter(is_right).count() as u64;
            assert!(count * 2 > flipped.len() as u64, "{count} of {}", flipped.len());
            // Parity of a stripe with one block is a page like the block's, without a sum: if it
            // is wrong it is made anew. So it is if a page that nobody owns any more is wrong.
            let counters = pool.counters();
            let healed = counters.healed_pages;
            let with_parity = healed..=healed + counters.mended_parity;
            assert!(with_parity.contains(&count), "{count}, {healed} healed: {status:?}");
            assert_eq!((counters.checksum_errors, counters.lost_pages), (healed, 0), "{status:?}");
            for (at, drive) in pool.status().drives.iter().enumerate() {
                let wanted = if at == 2 { healed } else { 0 };
                assert_eq!(
                    (drive.counters.bad_pages, drive.counters.healed_pages),
                    (wanted, wanted)
                );
            }
            assert_eq!(status.repaired_pages, status.bad_pages);
            assert_eq!(status.lost_pages, 0);
            let others = flipped.len() as u64 - healed;
            assert!(counters.mended_parity <= others * u64::from(parity), "{counters:?}");
            assert!(status.checked_bytes > VOLUME, "{status:?}");
            let again = scrubbed(&world, &pool).await;
            assert_eq!(
                (again.bad_pages, again.repaired_parity, again.metadata_repaired),
                (0, 0, 0)
            );
            pool.audit().await.unwrap_or_else(|error| panic!("{error}"));
            let kinds: Vec<EventKind> = pool.events(0).iter().map(|event| event.kind).collect();
            let told = [EventKind::PagesHealed, EventKind::ScrubStarted, EventKind::ScrubEnded];
            assert!(told.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
            drop(volume);
            pool.close().await.expect("closes");
            let pool = open_pool(&world).await;
            let fresh = scrubbed(&world, &pool).await;
            assert_eq!((fresh.bad_pages, fresh.metadata_repaired), (0, 0), "sums are kept");
            pool.audit().await.unwrap_or_else(|error| panic!("{error}"));
            pool.close().await.expect("closes");
        });
    }
}

#[test]
fn one_drive_rots_under_load() {
    for (seed, (drives, parity, conversion)) in (0..).zip(SHAPES) {
        let world = Virtual::new(drives, DRIVE, 80 + seed);
        let mut rng = Rng::new(seed);
        world.block_on(async {
            let (pool, volume, mut mirror) = filled(&world, parity, conversion, &mut rng).await;
            let mut flips = 0;
            for round in 0..20 {
                let places = places(&world, &mirror);
                let own: Vec<_> = places.into_iter().filter(|place| place.1 == 1).collect();
                flips += flip(&world, &mut rng, &own, 20).len() as u64;
                for _ in 0..20 {
                    let len = [512, 4096, BLOCK, 6 * BLOCK][rng.index(4)];
                    let offset = rng.below((VOLUME - len) / 4096 + 1) * 4096;
                    let data = mirror.fill(&mut rng, offset, len);
                    volume.write(offset, data, false).await.expect("room");
                }
                check_all(&volume, &mirror, &format!("seed {seed}, round {round}")).await;
            }
            sleep(world.env(), 2000).await;
            scrubbed(&world, &pool).await;
            let counters = pool.counters();
            assert!(counters.healed_pages > 50 && counters.healed_pages <= flips, "{counters:?}");
            assert_eq!(counters.lost_pages, 0);
            assert_eq!(scrubbed(&world, &pool).await.bad_pages, 0);
            check_all(&volume, &mirror, "scrubbed").await;
            pool.audit().await.unwrap_or_else(|error| panic!("{error}"));
            world.kill();
        });
    }
}

/// Reads of what is lost fail, and nothing else does, until it is written again.
#[test]
fn more_than_parity_bears_is_lost_and_nothing_else() {
    for (seed, (drives, parity, conversion)) in (0..).zip(SHAPES) {
        let world = Virtual::new(drives, DRIVE, 90 + seed);
        let mut rng = Rng::new(seed);
        world.block_on(async {
            let (pool, volume, mut mirror) = filled(&world, parity, conversion, &mut rng).await;
            // A full stripe, and a page of copies.
            let width = u64::from(pool.status().width) - u64::from(parity);
            let stripe = mirror.fill(&mut rng, 0, width * BLOCK);
            volume.write(0, stripe, false).await.expect("room");
            let page = 8 * MIB;
            volume.write(page, mirror.fill(&mut rng, page, 4096), false).await.expect("room");
            let places = places(&world, &mirror);
            let mut wanted = BTreeSet::new();
            for block in 0..=u64::from(parity) {
                wanted.insert(block * BLOCK + 3 * 4096);
            }
            wanted.insert(page);
            let bad: Vec<_> = places.iter().filter(|place| wanted.contains(&place.0)).collect();
            for (_, disk, offset) in &bad {
                world.disks[*disk].corrupt(offset + 77, 3, 5);
            }
            assert_eq!(lost(&volume, &mirror).await, wanted);
            let status = scrubbed(&world, &pool).await;
            assert_eq!(lost(&volume, &mirror).await, wanted, "{status:?}");
            // Conversion keeps one copy of a lost page.
            let counted = (wanted.len() as u64..=bad.len() as u64).contains(&status.bad_pages);
            assert!(counted && status.repaired_pages == 0, "{status:?}");
            assert_eq!(status.lost_pages, wanted.len() as u64);
            let told = pool.events(0).iter().filter(|e| e.kind == EventKind::PageLost).count();
            assert_eq!((told, pool.counters().lost_pages as usize), (wanted.len(), wanted.len()));
            for at in wanted {
                volume.write(at, mirror.fill(&mut rng, at, 4096), false).await.expect("room");
            }
            check_all(&volume, &mirror, "written again").await;
            // What was found since the pool was opened stays counted; lost it is no more.
            assert_ne!(pool.status().lost_pages, 0);
            assert_eq!(scrubbed(&world, &pool).await.lost_pages, 0);
            assert_eq!(pool.status().lost_pages, 0);
            world.kill();
        });
    }
}

/// A page that is wrong in a stripe without a drive costs that page and the ones in its row on the
/// drive; a new drive becomes whole, without them.
#[test]
fn rot_in_a_degraded_stripe_costs_its_pages_only() {
    for seed in 0..3 {
        let world = Virtual::new(6, DRIVE, 100 + seed);
        let mut rng = Rng::new(seed);
        world.block_on(async {
            let (pool, volume, mut mirror) =
                filled(&world, 1, ConversionPolicy::Lazy, &mut rng).await;
            let width = u64::from(pool.status().width) - 1;
            volume.write(0, mirror.fill(&mut rng, 0, width * BLOCK), false).await.expect("room");
            let places = places(&world, &mirror);
            let disk_of = |byte: u64| places.iter().find(|place| place.0 == byte).expect("there");
            let (_, gone, _) = *disk_of(5 * 4096);
            let bad = BLOCK + 5 * 4096;
            let (_, disk, offset) = *disk_of(bad);
            pool.drive_fail(gone as u16, "a test", false).await.expect("it can be spared");
            world.disks[disk].corrupt(offset, 4, 9);
            let wanted = BTreeSet::from([5 * 4096, bad]);
            assert_eq!(lost(&volume, &mirror).await, wanted);
            let fresh = Disk::new("disk-fresh", DRIVE, 4096, 1);
            let drive = VirtDrive::attach(world.env(), &fresh, Latency::SSD);
            assert_eq!(drive.geometry().size, DRIVE);
            pool.drive_replace(gone as u16, drive).await.expect("it is lost");
            for _ in 0..600 {
                sleep(world.env(), 100).await;
            }
            let state = pool.status().drives[gone].state;
            assert_eq!(state, DriveState::Active, "a lost page is no reason to wait for ever");
            assert_eq!(lost(&volume, &mirror).await, wanted);
            for at in wanted {
                volume.write(at, mirror.fill(&mut rng, at, 4096), false).await.expect("room");
            }
            check_all(&volume, &mirror, "written again").await;
            world.kill();
        });
    }
}

#[test]
fn metadata_of_one_drive_is_put_right() {
    for parity in [1, 2] {
        let world = Virtual::new(6, DRIVE, 110);
        let mut rng = Rng::new(11);
        world.block_on(async {
            let (pool, volume, mirror) =
                filled(&world, parity, ConversionPolicy::Lazy, &mut rng).await;
            pool.checkpoint().await.expect("room");
            let at = find_slots(&world.disks[3]);
            assert!(at.len() > 2, "{at:?}");
            at.iter().for_each(|&slot| world.disks[3].corrupt(slot + 200, 5, slot));
            // A label besides: the first copy.
            world.disks[3].corrupt(64 << 10, 16, 1);
            let status = scrubbed(&world, &pool).await;
            // Some slots are of the checkpoint before.
            let most = at.len() as u64 + 1;
            assert!((2..=most).contains(&status.metadata_repaired), "{status:?} of {most}");
            assert_eq!(status.bad_pages, 0);
            pool.audit().await.unwrap_or_else(|error| panic!("{error}"));
            check_all(&volume, &mirror, "scrubbed").await;
            assert_eq!(scrubbed(&world, &pool).await.metadata_repaired, 0);
            world.kill();
        });
    }
}

fn find_slots(disk: &Disk) -> Vec<u64> {
    (0..DRIVE).step_by(PAGE).filter(|&at| disk.peek(at, 8) == *b"STDYSLOT").collect()
}

/// A pool without sums opens, serves, compares copies, and leaves what differs as it is.
#[test]
fn without_sums_differences_are_counted_alone() {
    let world = Virtual::new(5, DRIVE, 120);
    let mut rng = Rng::new(12);
    world.block_on(async {
        let spec = CreateSpec { checksums: false, ..CreateSpec::new("tank") };
        let pool = make_pool(&world, &spec).await;
        pool.volume_create("v", VOLUME, None, None).await.expect("room");
        let volume = pool.volume("v").expect("made");
        let mut mirror = Mirror::new(VOLUME);
        volume.write(0, mirror.fill(&mut rng, 0, 4 * BLOCK), false).await.expect("room");
        assert!(!pool.status().checksums && pool.status().memory.sum_bytes == 0);
        assert_eq!(scrubbed(&world, &pool).await.bad_pages, 0);
        let (_, disk, offset) = places(&world, &mirror)[0];
        let before = world.disks[disk].peek(offset, PAGE);
        world.disks[disk].corrupt(offset, 1, 1);
        let status = scrubbed(&world, &pool).await;
        assert_eq!((status.bad_pages, status.repaired_pages, status.repaired_parity), (1, 0, 0));
        assert!(world.disks[disk].peek(offset, PAGE) != before);
        world.kill();
    });
}

#[test]
fn a_scrub_pauses_goes_on_and_stops() {
    let world = Virtual::new(5, DRIVE, 130);
    let mut rng = Rng::new(13);
    world.block_on(async {
        let (pool, volume, _) = filled(&world, 1, ConversionPolicy::Lazy, &mut rng).await;
        assert_eq!(pool.scrub_status().state, ScrubState::Never);
        pool.scrub_start().expect("begins");
        sleep(world.env(), 1).await;
        pool.scrub_pause();
        sleep(world.env(), 1000).await;
        let paused = pool.scrub_status();
        assert_eq!(paused.state, ScrubState::Paused);
        sleep(world.env(), 10_000).await;
        assert_eq!(pool.scrub_status().checked_bytes, paused.checked_bytes);
        pool.scrub_resume();
        sleep(world.env(), 60_000).await;
        let done = pool.scrub_status();
        assert_eq!(done.state, ScrubState::Done);
        assert!(done.checked_bytes > paused.checked_bytes && done.ended_nanos > done.started_nanos);
        pool.scrub_start().expect("begins again");
        pool.scrub_stop();
        assert_eq!(pool.scrub_status().state, ScrubState::Stopped);
        pool.scrub_start().expect("begins again");
        drop(volume);
        pool.close().await.expect("a scrub is no reason to wait");
    });
}

/// What was put right on a drive is told by its name, even if another takes its place at once.
#[test]
fn repairs_are_told_of_the_drive_that_needed_them() {
    let world = Virtual::new(5, DRIVE, 120);
    let mut rng = Rng::new(12);
    world.block_on(async {
        let (pool, volume, mirror) = filled(&world, 1, ConversionPolicy::Eager, &mut rng).await;
        let places = places(&world, &mirror);
        let own: Vec<_> = places.iter().copied().filter(|place| place.1 == 2).collect();
        flip(&world, &mut rng, &own, own.len() / 2);
        check_all(&volume, &mirror, "rotten").await;
        let healed = pool.counters().healed_pages;
        assert!(healed > 10, "{healed} pages");
        pool.drive_fail(2, "a test", false).await.expect("it can be spared");
        let fresh = Disk::new("disk-fresh", DRIVE, 4096, 1);
        let drive = VirtDrive::attach(world.env(), &fresh, Latency::SSD);
        pool.drive_replace(2, drive).await.expect("it is lost");
        sleep(world.env(), 5000).await;
        let events = pool.events(0);
        let told = events.iter().filter(|event| event.kind == EventKind::PagesHealed);
        let mut pages = 0;
        for event in told {
            assert!(!event.text.contains("disk-fresh"), "{}", event.text);
            let words: Vec<&str> = event.text.split(' ').collect();
            let at = words.iter().position(|word| *word == "pages").expect("it says how many");
            pages += words[at - 1].parse::<u64>().expect("a number");
        }
        assert_eq!(pages, healed, "all of them are told");
        drop(volume);
        pool.close().await.expect("closes");
    });
}
