//! Drives that are slow, hang, and come back: nobody waits for them, nothing is lost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use engine::{CreateSpec, DriveHealth, DriveOverride, DriveState, EventKind, OpenOptions, Pool};
use engine::{SpikeHandling, Volume};
use futures_util::future::join_all;
use io::faulty::{Delay, Effect, Fault, Faults, Faulty};
use io::rng::Rng;
use io::virt::VirtEnv;
use io::{AnyDrive, DriveErrorKind, Env, Nanos};

use crate::common::{MIB, Mirror, Virtual, World, check_all, make_pool, sleep};

pub const VOLUME: u64 = 8 * MIB;

/// A pool some of whose drives can be made slow.
pub struct Bench {
    pub world: Virtual,
    pub faults: Vec<Faults>,
}

impl Bench {
    pub fn new(drives: usize, seed: u64) -> Bench {
        let faults = (0..drives).map(|at| Faults::new(seed + at as u64)).collect();
        Bench { world: Virtual::new(drives, 512 * MIB, seed), faults }
    }

    pub fn env(&self) -> &VirtEnv {
        self.world.env()
    }

    pub async fn pool(
        &self,
        parity: u8,
        spikes: SpikeHandling,
    ) -> (Pool<VirtEnv>, Volume<VirtEnv>) {
        let width = Some(self.faults.len().min(5) as u16);
        let spec = CreateSpec { parity, width, ..CreateSpec::new("tank") };
        let made = make_pool(&self.world, &spec).await;
        made.volume_create("v", VOLUME, None, None).await.expect("room");
        made.close().await.expect("closes");
        let spoil = |(drive, faults)| AnyDrive::new(Faulty::new(self.env(), drive, faults)).into();
        let drives = self.world.drives().into_iter().zip(&self.faults).map(spoil).collect();
        let options = OpenOptions { spikes, ..OpenOptions::default() };
        let pool = Pool::open(self.env(), drives, options).await.expect("opens");
        let volume = pool.volume("v").expect("made");
        (pool, volume)
    }

    pub fn arm(&self, drive: usize, effect: Effect, span: Option<Nanos>) {
        let fault = Fault::new(effect);
        let fault = span.map_or(fault.clone(), |span| fault.lasting(span));
        self.faults[drive].arm(self.env().now(), fault).expect("a valid fault");
    }
}

/// Longest read, write and durable write.
#[derive(Clone, Copy, Debug, Default)]
pub struct Longest {
    pub read: Nanos,
    pub write: Nanos,
    pub durable: Nanos,
}

/// Eight clients, each with a part of the volume of its own, for a while.
pub async fn load(
    env: &VirtEnv,
    volume: &Volume<VirtEnv>,
    mirror: &mut Mirror,
    seed: u64,
    millis: u64,
) -> Longest {
    let longest = Cell::new(Longest::default());
    let end = env.now() + Nanos::from_millis(millis);
    let shared = Rc::new(RefCell::new(mirror));
    let client = |at: u64| {
        let (shared, longest) = (shared.clone(), &longest);
        async move {
            let mut rng = Rng::new(seed * 8 + at);
            let part = VOLUME / 8;
            while env.now() < end {
                let len = [4096, 4096, 65536, 4 * 65536][rng.index(4)];
                let offset = at * part + rng.below((part - len) / len + 1) * len;
                let begin = env.now();
                if rng.chance(1, 2) {
                    let pieces = volume.read(offset, len as u32).await.expect("readable");
                    let mut most = longest.get();
                    most.read = most.read.max(env.now().saturating_sub(begin));
                    longest.set(most);
                    let found = pieces.concat();
                    let range = offset as usize..(offset + len) as usize;
                    assert!(found == shared.borrow().bytes[range], "what was written");
                } else {
                    let durable = rng.chance(1, 4);
                    let data = shared.borrow_mut().fill(&mut rng, offset, len);
                    volume.write(offset, data, durable).await.expect("written");
                    let took = env.now().saturating_sub(begin);
                    let mut most = longest.get();
                    let kind = if durable { &mut most.durable } else { &mut most.write };
                    *kind = took.max(*kind);
                    longest.set(most);
                }
                // What dies is not reused while a drive does not flush: at full speed even this
                // pool would be full within seconds.
                env.sleep_until(env.now() + Nanos::from_millis(4)).await;
            }
        }
    };
    join_all((0..8).map(client)).await;
    longest.get()
}

fn kinds(pool: &Pool<VirtEnv>, drive: u16) -> Vec<EventKind> {
    let about = |event: &&engine::PoolEvent| event.drive == Some(drive);
    let told = pool.events(0);
    let ladder = told.iter().filter(about).map(|event| event.kind);
    ladder.filter(|kind| *kind != EventKind::Spike).collect()
}

fn health(pool: &Pool<VirtEnv>, drive: usize) -> DriveHealth {
    pool.status().drives[drive].health
}

#[test]
fn a_drive_that_hangs_for_a_second_hangs_nobody() {
    for (drives, parity) in [(8, 1), (9, 2)] {
        let bench = Bench::new(drives, 5);
        let mut mirror = Mirror::new(VOLUME);
        bench.world.block_on(async {
            let (pool, volume) = bench.pool(parity, SpikeHandling::default()).await;
            load(bench.env(), &volume, &mut mirror, 1, 500).await;
            bench.arm(3, Effect::Hang(None), Some(Nanos::from_secs(1)));
            let longest = load(bench.env(), &volume, &mut mirror, 2, 1500).await;
            let limit = Nanos::from_millis(20);
            assert!(longest.read < limit, "{longest:?}");
            assert!(longest.write < limit, "{longest:?}");
            assert!(longest.durable < limit, "{longest:?}");
            let counters = pool.counters();
            assert!(counters.hedged_reads + counters.redirected_reads > 0, "{counters:?}");
            assert!(counters.hedged_writes > 0 && counters.redirected_writes > 0, "{counters:?}");
            assert!(counters.hedge_wins > 0);
            let spikes = pool.status().drives[3].spikes;
            assert!(spikes.spikes > 0 && spikes.stragglers_total > 0, "{spikes:?}");
            check_all(&volume, &mirror, "after the hang").await;
            assert_eq!(pool.status().drives[3].state, DriveState::Active);
            drop(volume);
            pool.audit().await.expect("sound");
            pool.close().await.expect("closes");
        });
    }
}

/// The same without handling: the test above can fail.
/// Three copies on four drives need one of the two: it is the slow one.
#[test]
fn beside_a_drive_that_hangs_a_slow_one_is_used() {
    for seed in 0..4 {
        let bench = Bench::new(4, seed);
        let mut mirror = Mirror::new(VOLUME);
        bench.world.block_on(async {
            let (pool, volume) = bench.pool(2, SpikeHandling::default()).await;
            load(bench.env(), &volume, &mut mirror, 1, 500).await;
            let slow = Delay::Constant(Nanos::from_millis(60));
            bench.arm(2, Effect::Delay(slow), None);
            load(bench.env(), &volume, &mut mirror, 2, 500).await;
            bench.arm(3, Effect::Hang(None), Some(Nanos::from_secs(9)));
            let longest = load(bench.env(), &volume, &mut mirror, 3, 1500).await;
            assert!(longest.write < Nanos::from_secs(1), "seed {seed}: {longest:?}");
            check_all(&volume, &mirror, "after the hang").await;
            drop(volume);
            pool.close().await.expect("closes");
        });
    }
}

#[test]
fn without_handling_everybody_hangs() {
    let bench = Bench::new(8, 5);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::WATCH).await;
        bench.arm(3, Effect::Hang(None), Some(Nanos::from_secs(1)));
        let longest = load(bench.env(), &volume, &mut mirror, 2, 1500).await;
        assert!(longest.write > Nanos::from_millis(500), "{longest:?}");
        let counters = pool.counters();
        assert_eq!((counters.hedged_reads, counters.redirected_writes), (0, 0));
        assert!(pool.status().drives[3].spikes.spikes > 0, "it is watched all the same");
        drop(volume);
        pool.close().await.expect("closes");
    });
}

#[test]
fn a_drive_that_hangs_for_ever_climbs_the_ladder_to_its_end() {
    let bench = Bench::new(8, 6);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        load(bench.env(), &volume, &mut mirror, 1, 300).await;
        bench.arm(2, Effect::Hang(None), None);
        let longest = load(bench.env(), &volume, &mut mirror, 2, 1000).await;
        assert!(longest.read.max(longest.write).max(longest.durable) < Nanos::from_millis(20));
        assert_eq!(health(&pool, 2), DriveHealth::Avoided);
        // A flush does without it, too.
        let begin = bench.env().now();
        volume.flush().await.expect("the others have it all");
        assert!(bench.env().now().saturating_sub(begin) < Nanos::from_millis(1100));
        assert_eq!(pool.counters().spared_flushes, 1);
        assert_eq!(pool.status().drives[2].state, DriveState::Active);
        sleep(bench.env(), 31_000).await;
        assert_eq!(pool.status().drives[2].state, DriveState::Failed);
        let rungs =
            [EventKind::DriveAvoided, EventKind::DriveSuspect, EventKind::DriveFailed].to_vec();
        assert_eq!(kinds(&pool, 2), rungs);
        load(bench.env(), &volume, &mut mirror, 3, 500).await;
        check_all(&volume, &mirror, "without it").await;
        drop(volume);
        pool.close().await.expect("closes");
    });
}

#[test]
fn a_slow_drive_sits_out_and_comes_back() {
    let bench = Bench::new(8, 7);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        load(bench.env(), &volume, &mut mirror, 1, 1000).await;
        bench.arm(4, Effect::Delay(Delay::Constant(Nanos::from_millis(5))), None);
        load(bench.env(), &volume, &mut mirror, 2, 6000).await;
        assert_eq!(health(&pool, 4), DriveHealth::Avoided);
        let before = pool.status().drives[4].counters;
        load(bench.env(), &volume, &mut mirror, 3, 1000).await;
        let probed = pool.status().drives[4].counters.reads - before.reads;
        // Twenty probes a second; conversion still needs a block of it now and then.
        assert!((10..=40).contains(&probed), "{probed} reads");
        let mut told = [EventKind::DriveAvoided, EventKind::DriveSlow].to_vec();
        assert_eq!(kinds(&pool, 4), told);
        bench.faults[4].release_all();
        load(bench.env(), &volume, &mut mirror, 4, 3000).await;
        assert_eq!(health(&pool, 4), DriveHealth::Good);
        told.push(EventKind::DriveGood);
        assert_eq!(kinds(&pool, 4), told);
        let others = (0..8).filter(|&at| at != 4);
        for at in others {
            assert_eq!(kinds(&pool, at), Vec::new(), "drive {at}: {:?}", pool.events(0));
        }
        check_all(&volume, &mirror, "after all").await;
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// A drive was pulled that was being gone round: nobody sent it anything but probes, which failed
/// for ever, and the pool called itself online with one drive fewer than it counted.
#[test]
fn a_drive_that_is_pulled_while_it_is_gone_round_is_failed() {
    let bench = Bench::new(8, 11);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        load(bench.env(), &volume, &mut mirror, 1, 1000).await;
        bench.arm(4, Effect::Delay(Delay::Constant(Nanos::from_millis(5))), None);
        load(bench.env(), &volume, &mut mirror, 2, 6000).await;
        assert_eq!(health(&pool, 4), DriveHealth::Avoided);
        bench.faults[4].release_all();
        bench.arm(4, Effect::Error(DriveErrorKind::Removed), None);
        sleep(bench.env(), 3000).await;
        assert_eq!(pool.status().drives[4].state, DriveState::Failed);
        let told = [EventKind::DriveAvoided, EventKind::DriveSlow, EventKind::DriveFailed];
        assert_eq!(kinds(&pool, 4), told.to_vec());
        check_all(&volume, &mirror, "without it").await;
        drop(volume);
        pool.close().await.expect("closes");
    });
}

#[test]
fn an_operator_has_the_last_word() {
    let bench = Bench::new(8, 8);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        load(bench.env(), &volume, &mut mirror, 1, 500).await;
        pool.drive_decide(1, DriveOverride::SitOut).expect("a drive");
        let before = pool.status().drives[1].counters;
        load(bench.env(), &volume, &mut mirror, 2, 1000).await;
        let after = pool.status().drives[1].counters;
        // What is converted has its place, and so has a checkpoint.
        assert!(after.writes - before.writes < 40, "{before:?} {after:?}");
        pool.drive_decide(1, DriveOverride::Trusted).expect("a drive");
        bench.arm(1, Effect::Delay(Delay::Constant(Nanos::from_millis(5))), None);
        load(bench.env(), &volume, &mut mirror, 3, 2000).await;
        assert_eq!(health(&pool, 1), DriveHealth::Good);
        assert!(pool.status().drives[1].counters.writes > after.writes, "goes to it");
        let unknown = pool.drive_decide(8, DriveOverride::Automatic).expect_err("no such drive");
        assert_eq!(unknown.to_string(), "no drive 8: the pool has drives 0 to 7");
        pool.drive_fail(1, "an operator said so", false).await.expect("one can be spared");
        let refused = pool.drive_fail(2, "another", false).await.expect_err("two can't");
        assert!(refused.to_string().starts_with("drive 2 is needed"), "{refused}");
        assert_eq!(pool.status().drives[1].state, DriveState::Failed);
        check_all(&volume, &mirror, "without it").await;
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// More drives are slow than the pool can do without: the least bad is taken, nothing fails.
#[test]
fn when_too_many_are_slow_requests_wait_and_do_not_fail() {
    let bench = Bench::new(6, 9);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        load(bench.env(), &volume, &mut mirror, 1, 300).await;
        for drive in [0, 2, 3, 5] {
            bench.arm(drive, Effect::Hang(None), Some(Nanos::from_millis(800)));
        }
        let longest = load(bench.env(), &volume, &mut mirror, 2, 1500).await;
        assert!(longest.read < Nanos::from_secs(2), "{longest:?}");
        check_all(&volume, &mirror, "after the hangs").await;
        let active = |drive: &engine::DriveStatus| drive.state == DriveState::Active;
        assert!(pool.status().drives.iter().all(active));
        drop(volume);
        pool.audit().await.expect("sound");
        pool.close().await.expect("closes");
    });
}

/// What a crash leaves of writes that were sent to two places: replay ends where the map was.
#[test]
fn a_crash_amid_second_attempts_loses_nothing_that_was_durable() {
    for seed in 0..12 {
        let bench = Bench::new(6, 100 + seed);
        let mut mirror = Mirror::new(VOLUME);
        bench.world.block_on(async {
            let (_pool, volume) = bench.pool(1, SpikeHandling::default()).await;
            load(bench.env(), &volume, &mut mirror, seed, 200).await;
            let slow = Delay::Exponential { mean: Nanos::from_millis(3) };
            bench.arm(seed as usize % 6, Effect::Delay(slow), None);
            load(bench.env(), &volume, &mut mirror, seed + 50, 300).await;
            volume.flush().await.expect("durable");
            // Late copies of earlier attempts are still on their way.
            sleep(bench.env(), seed % 4).await;
        });
        bench.world.kill();
        let mut rng = Rng::new(seed);
        for disk in &bench.world.disks {
            disk.power_cut(&mut rng, io::virt::CutMode::DropAll);
        }
        bench.world.block_on(async {
            let pool = crate::common::open_pool(&bench.world).await;
            let volume = pool.volume("v").expect("made");
            check_all(&volume, &mirror, &format!("seed {seed} after the crash")).await;
            drop(volume);
            pool.audit().await.expect("sound");
            pool.close().await.expect("closes");
        });
    }
}
