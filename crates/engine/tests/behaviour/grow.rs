//! Pools of drives that differ, drives that join, zones that move to them: what is stored stays,
//! whatever is written meanwhile and whenever the power goes, and the space gained can be used.

use engine::{
    AddError, CreateSpec, DriveState, EventKind, OpenError, OpenOptions, Pool, RebalanceState,
    RequestError, Volume, add_drives, plan_add, plan_create,
};
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Drive, Durability, Env, Geometry};

use crate::common::{MIB, Mirror, check_all, sleep};

const BLOCK: u64 = 64 << 10;

fn disk(name: &str, size: u64, seed: u64) -> Disk {
    Disk::new(name, size, 4096, seed)
}

/// Drives of these sizes, in MiB.
pub fn disks(sizes: &[u64], seed: u64) -> Vec<Disk> {
    let numbered = sizes.iter().enumerate();
    numbered.map(|(at, size)| disk(&format!("d{at}"), size * MIB, seed + at as u64)).collect()
}

pub fn attach(env: &VirtEnv, disks: &[Disk]) -> Vec<VirtDrive> {
    disks.iter().map(|disk| VirtDrive::attach(env, disk, Latency::SSD)).collect()
}

pub async fn open(env: &VirtEnv, disks: &[Disk]) -> Pool<VirtEnv> {
    let opened = Pool::open(env, attach(env, disks), OpenOptions::default()).await;
    opened.expect("the pool opens")
}

pub async fn make(env: &VirtEnv, disks: &[Disk], spec: &CreateSpec) -> Pool<VirtEnv> {
    engine::create(env, &attach(env, disks), spec).await.expect("the pool can be made");
    open(env, disks).await
}

pub async fn audit(pool: &Pool<VirtEnv>, when: &str) {
    pool.audit().await.unwrap_or_else(|error| panic!("{when}: {error}"));
}

/// Writes in order until there is no space; how far it came.
async fn fill(volume: &Volume<VirtEnv>, mirror: &mut Mirror, rng: &mut Rng, from: u64) -> u64 {
    let step = 6 * BLOCK;
    let mut at = from;
    while at + step <= mirror.bytes.len() as u64 {
        let data = mirror.fill(rng, at, step);
        match volume.write(at, data, false).await {
            Ok(()) => at += step,
            Err(RequestError::NoSpace) => {
                // The first stripes of it may have found room.
                volume.trim(at, step, false).await.expect("trim");
                mirror.zero(at, step);
                return at;
            }
            Err(error) => panic!("{error}"),
        }
    }
    at
}

async fn write_some(
    volume: &Volume<VirtEnv>,
    mirror: &mut Mirror,
    rng: &mut Rng,
    upto: u64,
    n: u64,
) {
    for _ in 0..n {
        let len = [512, 4096, BLOCK, 3 * BLOCK, 6 * BLOCK][rng.index(5)];
        let offset = rng.below((upto - len) / 512 + 1) * 512;
        let offset = if len >= BLOCK { offset / BLOCK * BLOCK } else { offset };
        let data = mirror.fill(rng, offset, len);
        volume.write(offset, data, rng.chance(1, 8)).await.expect("writes go on");
    }
}

/// Bounded: with room nothing is in its way.
pub async fn until_balanced(env: &VirtEnv, pool: &Pool<VirtEnv>) {
    for _ in 0..3000 {
        if pool.rebalance_status().zones_left == 0 {
            return sleep(env, 500).await;
        }
        sleep(env, 100).await;
    }
    panic!("still {:?}, {:?}", pool.rebalance_status(), pool.space_status());
}

/// What can be read with every `lost` drives in a row gone is protected as it should be.
pub async fn prove(
    env: &VirtEnv,
    disks: &[Disk],
    (name, lost): (&str, usize),
    mirror: &Mirror,
    when: &str,
) {
    for first in 0..disks.len() {
        let gone: Vec<usize> = (0..lost).map(|at| (first + at) % disks.len()).collect();
        let there: Vec<Disk> = disks
            .iter()
            .enumerate()
            .filter(|(at, _)| !gone.contains(at))
            .map(|(_, disk)| disk.clone())
            .collect();
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let pool = Pool::open(env, attach(env, &there), options).await.expect("it opens");
        let volume = pool.volume(name).expect("made");
        check_all(&volume, mirror, &format!("{when}, without {gone:?}")).await;
        drop(volume);
        pool.close().await.expect("closes");
    }
}

// ---- drives of different sizes

#[test]
fn drives_of_different_sizes_are_used_as_far_as_redundancy_allows() {
    for (parity, width, sizes) in [
        (1, 3, vec![64, 64, 64, 64, 64, 96, 96, 96]),
        (2, 4, vec![64, 96, 64, 96, 64, 96, 128, 96]),
        (1, 4, vec![96, 64, 160, 96, 96, 160, 160, 160, 96]),
    ] {
        let env = VirtEnv::new(5 + u64::from(parity));
        let disks = disks(&sizes, 40);
        let mut rng = Rng::new(41);
        env.block_on(async {
            let when = format!("{sizes:?}");
            let spec = CreateSpec { parity, width: Some(width), ..CreateSpec::new("tank") };
            let geometry =
                |size: u64| Geometry { size, align: 4096, atomic: 512, rotational: false };
            let sized = |sizes: &[u64]| -> Vec<(String, Geometry)> {
                sizes.iter().map(|size| ("d".to_owned(), geometry(size * MIB))).collect()
            };
            let plan = plan_create(&sized(&sizes), &spec).expect("large enough");
            let least = plan_create(&sized(&vec![64; sizes.len()]), &spec).expect("as well");
            assert!(plan.usable_bytes > least.usable_bytes + 8 * MIB, "{when}: {plan:?}");
            let pool = make(&env, &disks, &spec).await;
            assert_eq!(pool.status().space.usable, plan.usable_bytes, "{when}");
            let size = plan.usable_bytes / (6 * BLOCK) * 6 * BLOCK;
            pool.volume_create("v", size, None, None).await.expect("thin");
            let volume = pool.volume("v").expect("made");
            let mut mirror = Mirror::new(size);
            let end = fill(&volume, &mut mirror, &mut rng, 0).await;
            assert_eq!(end, size, "{when}: what is said to be usable is");
            write_some(&volume, &mut mirror, &mut rng, size, 200).await;
            check_all(&volume, &mirror, &when).await;
            audit(&pool, &when).await;
            // A large drive is lost, and another of its size takes its place.
            let large =
                sizes.iter().position(|&size| size == sizes.iter().max().copied().expect("some"));
            let large = large.expect("some");
            pool.drive_fail(large as u16, "a test", false).await.expect("it can be spared");
            write_some(&volume, &mut mirror, &mut rng, size, 50).await;
            check_all(&volume, &mirror, &when).await;
            let small = disk("small", 64 * MIB, 9);
            let small = VirtDrive::attach(&env, &small, Latency::SSD);
            assert!(pool.drive_replace(large as u16, small).await.is_err(), "it has no room");
            let spare = disk("spare", sizes[large] * MIB, 8);
            let drive = VirtDrive::attach(&env, &spare, Latency::SSD);
            pool.drive_replace(large as u16, drive).await.expect("it is lost");
            for _ in 0..600 {
                if pool.status().drives[large].state == DriveState::Active {
                    break;
                }
                sleep(&env, 100).await;
            }
            drop(volume);
            pool.close().await.expect("closes");
            let mut disks = disks.clone();
            disks[large] = spare;
            let pool = open(&env, &disks).await;
            audit(&pool, &when).await;
            assert_eq!(pool.status().redundancy_margin, parity, "{when}: the drive is restored");
            pool.close().await.expect("closes");
            prove(&env, &disks, ("v", parity.into()), &mirror, &when).await;
        });
        env.crash();
    }
}

/// What lies behind the ends of most drives is of no use to stripes that are wider.
#[test]
fn classes_take_only_zones_that_are_wide_enough() {
    let env = VirtEnv::new(77);
    let disks = disks(&[64, 64, 64, 96, 96, 96, 96], 70);
    let mut rng = Rng::new(71);
    env.block_on(async {
        let spec = CreateSpec { width: Some(4), ..CreateSpec::new("tank") };
        let pool = make(&env, &disks, &spec).await;
        pool.volume_create("v", 512 * MIB, Some(1), Some(7)).await.expect("thin");
        pool.volume_create("narrow", 512 * MIB, None, None).await.expect("thin");
        let (wide, narrow) =
            (pool.volume("v").expect("made"), pool.volume("narrow").expect("made"));
        let (mut one, mut two) = (Mirror::new(512 * MIB), Mirror::new(512 * MIB));
        let first = fill(&wide, &mut one, &mut rng, 0).await;
        let second = fill(&narrow, &mut two, &mut rng, 0).await;
        assert!(first > 100 * MIB && second > 10 * MIB, "{first} and {second} bytes");
        check_all(&wide, &one, "wide").await;
        check_all(&narrow, &two, "narrow").await;
        audit(&pool, "full").await;
        // And the other way round.
        wide.trim(0, first, false).await.expect("trim");
        one.zero(0, first);
        fill(&narrow, &mut two, &mut rng, second).await;
        fill(&wide, &mut one, &mut rng, 0).await;
        check_all(&wide, &one, "wide again").await;
        check_all(&narrow, &two, "narrow again").await;
        audit(&pool, "full again").await;
        drop((wide, narrow));
        pool.close().await.expect("closes");
    });
    env.crash();
}

// ---- adding

/// A pool of six, with data, that is closed.
async fn six(env: &VirtEnv, disks: &[Disk], mirror: &mut Mirror, rng: &mut Rng, parity: u8) {
    let spec = CreateSpec { parity, ..CreateSpec::new("tank") };
    let pool = make(env, disks, &spec).await;
    pool.volume_create("v", mirror.bytes.len() as u64, None, None).await.expect("thin");
    let volume = pool.volume("v").expect("made");
    let upto = 60 * MIB;
    fill_upto(&volume, mirror, rng, upto).await;
    write_some(&volume, mirror, rng, upto, 200).await;
    drop(volume);
    pool.close().await.expect("closes");
}

async fn fill_upto(volume: &Volume<VirtEnv>, mirror: &mut Mirror, rng: &mut Rng, upto: u64) {
    for at in (0..upto).step_by(MIB as usize) {
        let data = mirror.fill(rng, at, MIB);
        volume.write(at, data, false).await.expect("room");
    }
}

async fn add(env: &VirtEnv, disks: &[Disk], new: &[Disk]) -> Result<engine::AddPlan, AddError> {
    add_drives(env, &attach(env, disks), &attach(env, new)).await
}

#[test]
fn drives_join_and_zones_move_to_them() {
    for (seed, parity) in [(1, 1), (2, 2)] {
        let env = VirtEnv::new(seed);
        let mut all = disks(&[64; 9], 10 * seed);
        let mut rng = Rng::new(seed);
        let mut mirror = Mirror::new(400 * MIB);
        env.block_on(async {
            six(&env, &all[..6], &mut mirror, &mut rng, parity).await;
            let mut upto = 60 * MIB;
            let mut usable = 0;
            for count in [8, 9] {
                let before = if count == 8 { 6 } else { 8 };
                let when = format!("seed {seed}, {before} to {count} drives");
                let (old, new) = (&all[..before], &all[before..count]);
                let plan = plan_add(&env, &attach(&env, old), &attach(&env, new)).await;
                let plan = plan.expect("they can join");
                assert_eq!(add(&env, old, new).await.expect("they join"), plan, "{when}");
                let pool = open(&env, &all[..count]).await;
                assert_eq!(pool.status().drives.len(), count);
                assert_eq!(pool.status().redundancy_margin, parity);
                audit(&pool, &when).await;
                let volume = pool.volume("v").expect("made");
                check_all(&volume, &mirror, &when).await;
                write_some(&volume, &mut mirror, &mut rng, upto, 50).await;
                let left = pool.rebalance_status();
                assert!(left.zones_left > 0 && left.state == RebalanceState::Idle, "{left:?}");
                pool.rebalance().await.expect("begins");
                write_some(&volume, &mut mirror, &mut rng, upto, 150).await;
                until_balanced(&env, &pool).await;
                assert_eq!(pool.rebalance_status().state, RebalanceState::Idle, "{when}");
                let told = pool.events(0).iter().any(|event| event.kind == EventKind::Rebalanced);
                assert!(told, "{when}");
                check_all(&volume, &mirror, &when).await;
                audit(&pool, &when).await;
                let now = pool.status().space.usable;
                assert_eq!(now, plan.usable_bytes, "{when}");
                assert!(now > usable + 10 * MIB, "{when}: {now} bytes after {usable}");
                usable = now;
                // The space gained can be used: without it this did not fit.
                upto = fill(&volume, &mut mirror, &mut rng, upto).await;
                assert!(upto >= usable - 12 * BLOCK, "{when}: {upto} of {usable}");
                if count == 8 {
                    volume.trim(100 * MIB, upto - 100 * MIB, false).await.expect("trim");
                    mirror.zero(100 * MIB, upto - 100 * MIB);
                    upto = 100 * MIB;
                }
                let pages: Vec<u64> =
                    pool.status().drives.iter().map(|drive| drive.counters.write_bytes).collect();
                assert!(pages[before] > MIB, "{when}: the new drives take their part: {pages:?}");
                drop(volume);
                pool.close().await.expect("closes");
                prove(&env, &all[..count], ("v", parity.into()), &mirror, &when).await;
            }
            // One of the first, and one that joined, are lost.
            all.truncate(9);
        });
        env.crash();
    }
}

/// Larger drives join until there are enough of them for zones that only they have.
#[test]
fn larger_drives_get_zones_of_their_own_when_there_are_enough() {
    let env = VirtEnv::new(31);
    let all = disks(&[64, 64, 64, 96, 96, 96, 96], 310);
    let mut rng = Rng::new(31);
    let mut mirror = Mirror::new(300 * MIB);
    env.block_on(async {
        let spec = CreateSpec { width: Some(4), ..CreateSpec::new("tank") };
        let pool = make(&env, &all[..5], &spec).await;
        pool.volume_create("v", 300 * MIB, None, None).await.expect("thin");
        let volume = pool.volume("v").expect("made");
        fill_upto(&volume, &mut mirror, &mut rng, 60 * MIB).await;
        drop(volume);
        pool.close().await.expect("closes");
        let one = add(&env, &all[..5], &all[5..6]).await.expect("it joins");
        assert!(one.unused_bytes > 80 * MIB, "three of four: {one:?}");
        let two = add(&env, &all[..6], &all[6..]).await.expect("it joins");
        assert!(two.zones > one.zones && two.unused_bytes < 8 * MIB, "{two:?}");
        let pool = open(&env, &all).await;
        audit(&pool, "grown").await;
        pool.rebalance().await.expect("begins");
        until_balanced(&env, &pool).await;
        assert_eq!(pool.status().space.usable, two.usable_bytes);
        let volume = pool.volume("v").expect("made");
        let end = fill(&volume, &mut mirror, &mut rng, 60 * MIB).await;
        assert!(end >= two.usable_bytes.min(300 * MIB) - 12 * BLOCK, "{end}: {two:?}");
        check_all(&volume, &mirror, "full").await;
        audit(&pool, "full").await;
        drop(volume);
        pool.close().await.expect("closes");
        prove(&env, &all, ("v", 1), &mirror, "in the end").await;
    });
    env.crash();
}

/// Two drives are about to join a pool of six; the same for the same seed.
fn about_to_join(seed: u64) -> (VirtEnv, Vec<Disk>, Mirror, Rng) {
    let env = VirtEnv::new(400 + seed);
    let all = disks(&[64; 8], 20 * seed);
    let (mut rng, mut mirror) = (Rng::new(seed), Mirror::new(100 * MIB));
    env.block_on(six(&env, &all[..6], &mut mirror, &mut rng, 1));
    (env, all, mirror, rng)
}

/// How long they take to join, in virtual time.
fn time_to_join(seed: u64) -> io::Nanos {
    let (env, all, ..) = about_to_join(seed);
    let begin = env.now();
    env.block_on(async { add(&env, &all[..6], &all[6..]).await }).expect("they join");
    let took = env.now().saturating_sub(begin);
    env.crash();
    took
}

/// The power goes at any write of an addition: the pool opens as it was or with all drives, has
/// what it had, and a second attempt is not refused.
#[test]
fn power_cuts_while_drives_join() {
    let mut joined = [0; 2];
    for seed in 0..20 {
        let took = time_to_join(seed);
        let (env, all, mut mirror, mut rng) = about_to_join(seed);
        let task = env.clone();
        let (old, new) = (all[..6].to_vec(), all[6..].to_vec());
        env.spawn(async move {
            let _ = add(&task, &old, &new).await;
        });
        // At any time of it, or near the end, where it counts.
        let part = if seed % 2 == 0 { rng.below(1_100) } else { 900 + rng.below(150) };
        let span = io::Nanos(took.0 * part / 1_000);
        env.block_on(async { env.sleep_until(env.now() + span).await });
        env.crash();
        all.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
        env.block_on(async {
            let when = format!("seed {seed}, {span:?}");
            // Everything is plugged in, or the new drives are not.
            let count = if seed % 3 == 0 { 6 } else { 8 };
            let pool = Pool::open(&env, attach(&env, &all[..count]), OpenOptions::default()).await;
            let pool = match pool {
                Ok(pool) => pool,
                // The new drives have no labels yet, or torn ones.
                Err(error @ OpenError::NotOurs { .. }) => {
                    let text = error.to_string();
                    let known = text.contains("no label") || text.contains("damaged");
                    assert!(known, "{when}: {text}");
                    open(&env, &all[..6]).await
                }
                // Both are missing now that they are members.
                Err(error) if count == 6 => {
                    assert!(error.to_string().contains("missing"), "{when}: {error}");
                    open(&env, &all).await
                }
                Err(error) => panic!("{when}: {error}"),
            };
            let drives = pool.status().drives.len();
            assert!(drives == 6 || drives == 8, "{when}: {drives}");
            joined[usize::from(drives == 8)] += 1;
            let volume = pool.volume("v").expect("made");
            check_all(&volume, &mirror, &when).await;
            write_some(&volume, &mut mirror, &mut rng, 60 * MIB, 20).await;
            audit(&pool, &when).await;
            drop(volume);
            pool.close().await.expect("closes");
            if drives == 6 {
                again(&env, &all, &when).await;
            }
            let pool = open(&env, &all).await;
            assert_eq!(pool.status().redundancy_margin, 1, "{when}");
            audit(&pool, &when).await;
            let volume = pool.volume("v").expect("made");
            check_all(&volume, &mirror, &when).await;
            drop(volume);
            pool.close().await.expect("closes");
        });
        env.crash();
    }
    assert!(joined.iter().all(|&count| count > 2), "cuts on both sides: {joined:?}");
}

/// A second attempt is not refused, but for a label that the first one left torn: whose it was
/// nobody knows, so that has to be wiped.
async fn again(env: &VirtEnv, all: &[Disk], when: &str) {
    let Err(refused) = add(env, &all[..6], &all[6..]).await else { return };
    assert!(refused.to_string().contains("damaged"), "{when}: {refused}");
    for drive in attach(env, &all[6..]) {
        for at in [0, 63 * MIB] {
            let zeroes = Buf::zeroed(MIB as usize);
            drive.write(at, zeroes, Durability::Durable).await.expect("wiped");
        }
    }
    add(env, &all[..6], &all[6..]).await.expect("a second attempt");
}

/// The power goes again and again while zones move: what was flushed is there, and it goes on by
/// itself.
#[test]
fn power_cuts_while_zones_move() {
    for seed in 0..12 {
        let env = VirtEnv::new(500 + seed);
        let all = disks(&[64; 8], 30 * seed);
        let mut rng = Rng::new(seed);
        let mut mirror = Mirror::new(100 * MIB);
        env.block_on(async {
            six(&env, &all[..6], &mut mirror, &mut rng, 1 + (seed % 2) as u8).await;
            add(&env, &all[..6], &all[6..]).await.expect("they join");
            let pool = open(&env, &all).await;
            pool.rebalance().await.expect("begins");
            sleep(&env, rng.below(800)).await;
        });
        for cut in 0..6 {
            env.crash();
            all.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
            env.block_on(async {
                let when = format!("seed {seed}, cut {cut}");
                let pool = open(&env, &all).await;
                let volume = pool.volume("v").expect("made");
                check_all(&volume, &mirror, &when).await;
                audit(&pool, &when).await;
                let status = pool.rebalance_status();
                assert!(status.zones_left == 0 || status.state != RebalanceState::Idle, "{when}");
                write_some(&volume, &mut mirror, &mut rng, 60 * MIB, 30).await;
                volume.flush().await.expect("flush");
                sleep(&env, rng.below(800)).await;
            });
        }
        env.crash();
        env.block_on(async {
            let pool = open(&env, &all).await;
            until_balanced(&env, &pool).await;
            let volume = pool.volume("v").expect("made");
            check_all(&volume, &mirror, "balanced").await;
            audit(&pool, "balanced").await;
            drop(volume);
            pool.close().await.expect("closes");
            prove(&env, &all, ("v", 1 + (seed % 2) as usize), &mirror, "balanced").await;
        });
        env.crash();
    }
}

#[test]
fn what_can_not_join_is_refused() {
    let env = VirtEnv::new(61);
    let all = disks(&[64; 8], 610);
    env.block_on(async {
        let mut rng = Rng::new(61);
        let mut mirror = Mirror::new(100 * MIB);
        six(&env, &all[..6], &mut mirror, &mut rng, 1).await;
        let none = add(&env, &all[..6], &[]).await;
        assert!(matches!(none, Err(AddError::Count { added: 0, .. })), "{none:?}");
        let small = add(&env, &all[..6], &[disk("small", 8 * MIB, 1)]).await;
        assert!(matches!(small, Err(AddError::TooSmall { .. })), "{small:?}");
        let twice = add(&env, &all[..6], &all[2..3]).await;
        assert!(matches!(twice, Err(AddError::NotEmpty { .. })), "{twice:?}");
        let few = add(&env, &all[..5], &all[6..]).await;
        assert!(matches!(few, Err(AddError::Missing { index: 5, .. })), "{few:?}");
        let many: Vec<Disk> = (0..251).map(|_| all[6].clone()).collect();
        let many = add(&env, &all[..6], &many).await;
        assert!(matches!(many, Err(AddError::Count { drives: 257, .. })), "{many:?}");
        let other = disks(&[64; 3], 620);
        make(&env, &other, &CreateSpec::new("other")).await.close().await.expect("closes");
        let taken = add(&env, &all[..6], &other[..1]).await;
        assert!(matches!(taken, Err(AddError::NotEmpty { .. })), "{taken:?}");
        let pool = open(&env, &all[..6]).await;
        let open = add(&env, &all[..6], &all[6..]).await;
        assert!(matches!(open, Err(AddError::NotClean { .. })), "{open:?}");
        let volume = pool.volume("v").expect("made");
        check_all(&volume, &mirror, "still there").await;
        volume.write(0, Buf::zeroed(4096), true).await.expect("it is used");
        drop(volume);
        pool.close().await.expect("closes");
        let drives = attach(&env, &all);
        assert!(drives.iter().all(|drive| drive.geometry().size == 64 * MIB));
    });
    env.crash();
}

/// Rebalancing is stopped, and nothing moves any more.
#[test]
fn rebalancing_can_be_stopped() {
    let env = VirtEnv::new(62);
    let all = disks(&[64; 8], 630);
    env.block_on(async {
        let mut rng = Rng::new(62);
        let mut mirror = Mirror::new(100 * MIB);
        six(&env, &all[..6], &mut mirror, &mut rng, 1).await;
        add(&env, &all[..6], &all[6..]).await.expect("they join");
        let pool = open(&env, &all).await;
        let before = pool.rebalance_status().zones_left;
        pool.rebalance().await.expect("begins");
        assert_eq!(pool.rebalance_status().state, RebalanceState::Running);
        pool.rebalance_stop().await.expect("stops");
        sleep(&env, 3000).await;
        let stopped = pool.rebalance_status();
        assert!(stopped.zones_left + 1 >= before, "at most the one that was begun: {stopped:?}");
        assert_eq!(stopped.state, RebalanceState::Idle);
        pool.close().await.expect("closes");
        let pool = open(&env, &all).await;
        sleep(&env, 3000).await;
        assert_eq!(pool.rebalance_status(), stopped, "and it stays stopped");
        pool.close().await.expect("closes");
    });
    env.crash();
}
