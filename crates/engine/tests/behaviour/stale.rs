//! An image of before in a drive's place: it is known by its label, and restored.

use engine::{CreateSpec, DriveState, OpenOptions, Pool, Volume};
use io::rng::Rng;
use io::virt::{CutMode, Disk, VirtEnv};

use crate::common::{MIB, Mirror, Virtual, World, check_all, make_pool, open_pool};
use crate::restore::{prove, state, until_whole};

const DRIVES: usize = 5;
const VOLUME: u64 = 6 * MIB;
/// The drive that is put back.
const OLD: usize = 2;

async fn write_some(volume: &Volume<VirtEnv>, mirror: &mut Mirror, rng: &mut Rng) {
    for _ in 0..60 {
        let len = [512, 4096, 65536, 3 * 65536][rng.index(4)];
        let offset = rng.below((VOLUME - len) / 512 + 1) * 512;
        let data = mirror.fill(rng, offset, len);
        volume.write(offset, data, false).await.expect("writes go on");
    }
    volume.flush().await.expect("flush");
}

/// A pool that was written to and closed.
fn closed(checksums: bool, mirror: &mut Mirror, rng: &mut Rng) -> Virtual {
    let world = Virtual::new(DRIVES, 64 * MIB, 7100);
    world.block_on(async {
        let spec = CreateSpec { checksums, ..CreateSpec::new("tank") };
        let pool = make_pool(&world, &spec).await;
        pool.volume_create("v", VOLUME, None, None).await.expect("room");
        write_some(&pool.volume("v").expect("made"), mirror, rng).await;
        pool.close().await.expect("closes");
    });
    world
}

fn states(pool: &Pool<VirtEnv>) -> Vec<DriveState> {
    pool.status().drives.iter().map(|drive| drive.state).collect()
}

/// The same machine and drives, apart from these.
fn copy_of(made: &Virtual) -> Virtual {
    let mut world = Virtual::new(DRIVES, 64 * MIB, 7100);
    world.disks = made.disks.iter().map(Disk::fork).collect();
    world
}

/// What was not durable is there or not by `seed`; writes are limited no more.
fn lose_power(world: &Virtual, seed: u64) {
    world.kill();
    let mut fate = Rng::new(seed);
    world.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::Random));
    world.env().set_write_limit(u64::MAX);
}

/// `close`: the session between the image and its coming back ends in order. Without checksums
/// nothing but the label can tell.
fn comes_back(checksums: bool, close: bool) {
    let (mut mirror, mut rng) = (Mirror::new(VOLUME), Rng::new(71));
    let mut world = closed(checksums, &mut mirror, &mut rng);
    let image = world.disks[OLD].fork();
    world.block_on(async {
        let pool = open_pool(&world).await;
        write_some(&pool.volume("v").expect("made"), &mut mirror, &mut rng).await;
        if close {
            pool.close().await.expect("closes");
        }
    });
    world.kill();
    world.disks[OLD] = image;
    world.block_on(async {
        let pool = open_pool(&world).await;
        assert_eq!(state(&pool, OLD), DriveState::Restoring);
        let told = pool.events(0);
        let about = |text: &str| text.contains("out of date") && text.contains("disk2");
        assert!(told.iter().any(|event| about(&event.text)), "{told:?}");
        let volume = pool.volume("v").expect("made");
        check_all(&volume, &mirror, "beside the image").await;
        until_whole(&world, &pool, OLD).await;
        world.disks[0].set_failed(true);
        check_all(&volume, &mirror, "without another drive").await;
    });
}

#[test]
fn an_image_of_before_is_restored() {
    for checksums in [true, false] {
        for close in [true, false] {
            comes_back(checksums, close);
        }
    }
}

/// More images than parity stands for: what they miss may be nowhere else.
#[test]
fn images_of_before_in_two_places_are_refused() {
    let (mut mirror, mut rng) = (Mirror::new(VOLUME), Rng::new(72));
    let mut world = closed(true, &mut mirror, &mut rng);
    let images = [1, 3].map(|at| (at, world.disks[at].fork()));
    world.block_on(async {
        let pool = open_pool(&world).await;
        write_some(&pool.volume("v").expect("made"), &mut mirror, &mut rng).await;
        pool.close().await.expect("closes");
    });
    for (at, image) in images {
        world.disks[at] = image;
    }
    let opened = world.block_on(Pool::open(world.env(), world.drives(), OpenOptions::default()));
    let error = opened.err().expect("it can't be whole").to_string();
    assert!(error.contains("2 of 5 drives") && error.contains("out of date"), "{error}");
}

/// Openings that are cut short leave labels of several generations, and no drive of another time.
#[test]
fn crashes_among_the_labels_make_no_drive_out_of_date() {
    let (mut mirror, mut rng) = (Mirror::new(VOLUME), Rng::new(73));
    let made = closed(true, &mut mirror, &mut rng);
    let mut cut_short = 0;
    for round in 0..150 {
        let world = copy_of(&made);
        let env = world.env().clone();
        for _ in 0..4 {
            env.set_write_limit(env.writes_issued() + 1 + rng.below(60));
            let opening = Pool::open(&env, world.drives(), OpenOptions::default());
            let over = env.run_until(opening, || env.write_limit_reached());
            cut_short += u64::from(over.is_none());
            drop(over);
            lose_power(&world, round);
        }
        world.block_on(async {
            let pool = open_pool(&world).await;
            assert_eq!(states(&pool), [DriveState::Active; DRIVES], "round {round}");
            check_all(&pool.volume("v").expect("made"), &mirror, "after crashes").await;
        });
    }
    assert!(cut_short > 300, "most openings are cut short: {cut_short}");
}

/// In a session that ends in order, too, what an image of its middle lacks is known by the labels.
#[test]
fn an_image_of_the_last_session_is_restored() {
    for checksums in [true, false] {
        let (mut mirror, mut rng) = (Mirror::new(VOLUME), Rng::new(74));
        let mut world = closed(checksums, &mut mirror, &mut rng);
        let image = world.block_on(async {
            let pool = open_pool(&world).await;
            let volume = pool.volume("v").expect("made");
            write_some(&volume, &mut mirror, &mut rng).await;
            let image = world.disks[OLD].fork();
            write_some(&volume, &mut mirror, &mut rng).await;
            pool.close().await.expect("closes");
            image
        });
        world.kill();
        world.disks[OLD] = image;
        world.block_on(async {
            let pool = open_pool(&world).await;
            assert_eq!(state(&pool, OLD), DriveState::Restoring);
            until_whole(&world, &pool, OLD).await;
            prove(&pool, &mirror, &[0], "restored").await;
        });
    }
}

async fn all(volume: &Volume<VirtEnv>) -> Vec<u8> {
    volume.read(0, VOLUME as u32).await.expect("read").iter().flat_map(|buf| buf.to_vec()).collect()
}

/// An image may have slots of a checkpoint that was cut short; on the other drives they were erased
/// since.
#[test]
fn slots_of_an_image_are_not_taken_for_the_checkpoints() {
    let (mut mirror, mut rng) = (Mirror::new(VOLUME), Rng::new(75));
    let made = closed(true, &mut mirror, &mut rng);
    let mut cut_short = 0;
    for round in 0..100 {
        let mut world = copy_of(&made);
        let env = world.env().clone();
        let session = async {
            let pool = open_pool(&world).await;
            let volume = pool.volume("v").expect("made");
            let mut unflushed = Mirror::new(VOLUME);
            for _ in 0..1 + rng.below(20) {
                let offset = rng.below(VOLUME / 65536) * 65536;
                let data = unflushed.fill(&mut rng, offset, 65536);
                volume.write(offset, data, false).await.expect("writes go on");
            }
            env.set_write_limit(env.writes_issued() + 1 + rng.below(60));
            pool.checkpoint().await
        };
        let over = env.run_until(session, || env.write_limit_reached());
        cut_short += u64::from(over.is_none());
        drop(over);
        lose_power(&world, round);
        let image = world.disks[OLD].fork();
        let was = world.block_on(async {
            let pool = open_pool(&world).await;
            let was = all(&pool.volume("v").expect("made")).await;
            pool.close().await.expect("closes");
            was
        });
        world.kill();
        world.disks[OLD] = image;
        // Every other time once more, when its labels are as new as the others'.
        if round % 2 == 0 {
            world.block_on(open_pool(&world));
            world.kill();
        }
        world.block_on(async {
            let pool = open_pool(&world).await;
            assert_eq!(state(&pool, OLD), DriveState::Restoring, "round {round}");
            until_whole(&world, &pool, OLD).await;
            let now = all(&pool.volume("v").expect("made")).await;
            assert!(now == was, "round {round}");
            let report = pool.audit().await.expect("audit");
            assert!(report.is_complete(), "round {round}: {report:?}");
        });
    }
    assert!(cut_short > 50, "most closings are cut short: {cut_short}");
}
