//! A drive that is always slow is told of, whether the pool can do without it or not; what slows
//! all drives is not theirs.

use engine::{DriveHealth, DriveStatus, EventKind, Pool, PoolEvent, Severity, SpikeHandling};
use io::faulty::{Delay, Effect};
use io::virt::VirtEnv;
use io::{Env, Nanos};
use members::limits::{ALARMS_MAX, DRIVE_WARNINGS_HOURLY};

use crate::common::{Mirror, check_all, sleep};
use crate::spikes::{Bench, VOLUME, load};

const SLOW: usize = 3;
const LATE: Effect = Effect::Delay(Delay::Constant(Nanos::from_millis(300)));
/// Each round of load is a second.
const ROUND: u64 = 1000;

fn warnings(pool: &Pool<VirtEnv>) -> Vec<PoolEvent> {
    let events = pool.events(0).into_iter();
    events.filter(|event| event.severity == Severity::Warning).collect()
}

fn of(pool: &Pool<VirtEnv>, drive: usize) -> DriveStatus {
    pool.status().drives[drive].clone()
}

/// A drive added 0.3 s to every operation, and was avoided in silence, or called good where the
/// pool had no drive to spare: nobody was warned of either.
#[test]
fn a_drive_that_is_always_slow_is_told_of_within_ten_seconds() {
    for drives in [7, 29] {
        let bench = Bench::new(drives, 21);
        let mut mirror = Mirror::new(VOLUME);
        bench.world.block_on(async {
            let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
            load(bench.env(), &volume, &mut mirror, 1, ROUND).await;
            bench.arm(SLOW, LATE, None);
            let begin = bench.env().now();
            load(bench.env(), &volume, &mut mirror, 2, 8 * ROUND).await;
            let told = warnings(&pool);
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!((told[0].kind, told[0].drive), (EventKind::DriveSlow, Some(SLOW as u16)));
            assert!(told[0].at < begin + Nanos::from_secs(10), "{told:?}");
            assert!(told[0].text.contains("drive replace"), "{told:?}");
            let slow = of(&pool, SLOW).slow.expect("slow");
            assert!(slow.bypassed && slow.own_nanos > 300_000_000, "{slow:?}");
            assert_eq!(of(&pool, SLOW).health, DriveHealth::Avoided);
            bench.faults[SLOW].release_all();
            load(bench.env(), &volume, &mut mirror, 3, 6 * ROUND).await;
            let back = of(&pool, SLOW);
            assert_eq!((back.health, back.slow), (DriveHealth::Good, None));
            assert_eq!(warnings(&pool).len(), 1, "{:?}", warnings(&pool));
            let others = pool.events(0).into_iter().filter(|event| {
                event.drive.is_some_and(|drive| usize::from(drive) != SLOW)
                    && event.kind != EventKind::Spike
            });
            assert_eq!(others.collect::<Vec<_>>(), []);
            check_all(&volume, &mirror, "after all").await;
            drop(volume);
            pool.close().await.expect("closes");
        });
    }
}

#[test]
fn a_slow_drive_that_the_pool_needs_is_told_of_and_used() {
    for drives in [7, 29] {
        let bench = Bench::new(drives, 22);
        let mut mirror = Mirror::new(VOLUME);
        bench.world.block_on(async {
            let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
            pool.rebuild_pause();
            load(bench.env(), &volume, &mut mirror, 1, ROUND).await;
            pool.drive_fail(1, "an operator said so", false).await.expect("one can be spared");
            bench.arm(SLOW, LATE, None);
            let begin = bench.env().now();
            load(bench.env(), &volume, &mut mirror, 2, 8 * ROUND).await;
            let told = warnings(&pool);
            let slow = told.iter().find(|event| event.kind == EventKind::DriveSlow);
            let slow = slow.unwrap_or_else(|| panic!("{:?}", pool.events(0)));
            assert_eq!(slow.drive, Some(SLOW as u16), "{told:?}");
            assert!(slow.at < begin + Nanos::from_secs(10), "{told:?}");
            let slow = of(&pool, SLOW).slow.expect("slow");
            assert!(!slow.bypassed, "{slow:?}");
            assert_eq!(of(&pool, SLOW).health, DriveHealth::Good);
            bench.faults[SLOW].release_all();
            load(bench.env(), &volume, &mut mirror, 3, 12 * ROUND).await;
            assert_eq!(of(&pool, SLOW).slow, None);
            let last = pool.events(0).into_iter().rfind(|event| event.drive == Some(SLOW as u16));
            assert_eq!(last.map(|event| event.kind), Some(EventKind::DriveGood));
            check_all(&volume, &mirror, "after all").await;
            drop(volume);
            pool.close().await.expect("closes");
        });
    }
}

/// Stalls of a shared host gave 72 warnings that a drive was bypassed in half an hour, and 1,800
/// events of spikes.
#[test]
fn drives_that_are_slow_together_are_told_of_once_and_none_is_blamed() {
    let noise = [
        Effect::Delay(Delay::Constant(Nanos::from_millis(40))),
        Effect::Delay(Delay::Exponential { mean: Nanos::from_millis(20) }),
    ];
    for noise in noise {
        let bench = Bench::new(7, 23);
        let mut mirror = Mirror::new(VOLUME);
        bench.world.block_on(async {
            let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
            load(bench.env(), &volume, &mut mirror, 1, ROUND).await;
            for _ in 0..3 {
                (0..7).for_each(|drive| bench.arm(drive, noise.clone(), None));
                load(bench.env(), &volume, &mut mirror, 2, 15 * ROUND).await;
                bench.faults.iter().for_each(io::faulty::Faults::release_all);
                load(bench.env(), &volume, &mut mirror, 3, 5 * ROUND).await;
            }
            let events = pool.events(0);
            assert_eq!(warnings(&pool), []);
            let loads = events.iter().filter(|event| event.kind == EventKind::Load).count();
            assert_eq!(loads, 1, "{events:?}");
            let spikes = events.iter().filter(|event| event.kind == EventKind::Spike).count();
            assert!(spikes <= 2, "one a minute: {events:?}");
            assert!(pool.status().drives.iter().all(|drive| drive.slow.is_none()));
            drop(volume);
            pool.close().await.expect("closes");
        });
    }
}

/// While all drives are behind nobody was judged at all.
#[test]
fn a_slow_drive_is_found_among_drives_that_are_all_behind() {
    let bench = Bench::new(7, 26);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        load(bench.env(), &volume, &mut mirror, 1, ROUND).await;
        for drive in (0..7).filter(|&drive| drive != SLOW) {
            let behind = Effect::Delay(Delay::Constant(Nanos::from_millis(40)));
            bench.arm(drive, behind, None);
        }
        bench.arm(SLOW, LATE, None);
        load(bench.env(), &volume, &mut mirror, 2, 10 * ROUND).await;
        assert_eq!(of(&pool, SLOW).health, DriveHealth::Avoided, "{:?}", pool.events(0));
        let told = warnings(&pool);
        let drives: Vec<Option<u16>> = told.iter().map(|event| event.drive).collect();
        assert_eq!(drives, [Some(SLOW as u16)], "{told:?}");
        check_all(&volume, &mirror, "after all").await;
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// It is tried all the time, and stays what it is.
#[test]
fn a_drive_that_stays_slow_is_suspect_after_a_minute_and_comes_back() {
    let bench = Bench::new(7, 24);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        load(bench.env(), &volume, &mut mirror, 1, ROUND).await;
        bench.arm(SLOW, LATE, None);
        load(bench.env(), &volume, &mut mirror, 2, 5 * ROUND).await;
        sleep(bench.env(), 65_000).await;
        assert_eq!(of(&pool, SLOW).health, DriveHealth::Suspect);
        let kinds: Vec<EventKind> = warnings(&pool).iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::DriveSlow, EventKind::DriveSuspect]);
        sleep(bench.env(), 65_000).await;
        assert_eq!(of(&pool, SLOW).health, DriveHealth::Suspect, "and is not told of again");
        assert_eq!(warnings(&pool).len(), 2);
        bench.faults[SLOW].release_all();
        sleep(bench.env(), 5_000).await;
        assert_eq!(of(&pool, SLOW).health, DriveHealth::Good);
        check_all(&volume, &mirror, "after all").await;
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// Each spike by itself is there for those who ask for it.
#[test]
fn spikes_are_summed_up_once_a_minute() {
    let bench = Bench::new(7, 25);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        for second in 0..65 {
            let drive = second as usize % 3;
            bench.arm(drive, Effect::Hang(None), Some(Nanos::from_millis(20)));
            load(bench.env(), &volume, &mut mirror, second, 200).await;
            sleep(bench.env(), 800).await;
        }
        let singles = pool.spikes(0);
        assert!(singles.len() > 30, "{singles:?}");
        let told = pool.events(0);
        let sums: Vec<&PoolEvent> =
            told.iter().filter(|event| event.kind == EventKind::Spike).collect();
        assert_eq!(sums.len(), 1, "{told:?}");
        assert!(sums[0].text.contains(" spikes in 60"), "{sums:?}");
        assert_eq!(warnings(&pool), []);
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// A drive that comes and goes all day is told of six times an hour, and then how often it was;
/// what somebody has to know of is there all the same.
#[test]
fn warnings_about_a_drive_are_bounded_and_push_out_no_error() {
    const TIMES: usize = 8;
    let bench = Bench::new(7, 27);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        // Nothing bypasses it, so that it is called slow again and again.
        let (pool, volume) = bench.pool(1, SpikeHandling::WATCH).await;
        pool.tell(Some(5), (Severity::Error, EventKind::DriveShrunk), "it is smaller".to_owned());
        for _ in 0..TIMES {
            load(bench.env(), &volume, &mut mirror, 1, ROUND).await;
            bench.arm(SLOW, LATE, None);
            load(bench.env(), &volume, &mut mirror, 2, 7 * ROUND).await;
            assert!(of(&pool, SLOW).slow.is_some(), "{:?}", pool.events(0));
            bench.faults[SLOW].release_all();
            load(bench.env(), &volume, &mut mirror, 3, 9 * ROUND).await;
            assert_eq!(of(&pool, SLOW).slow, None);
        }
        assert_eq!(warnings(&pool).len(), DRIVE_WARNINGS_HOURLY, "{:?}", warnings(&pool));
        sleep(bench.env(), 3_600_000).await;
        let told = warnings(&pool);
        let sum = told.last().expect("warnings");
        assert_eq!(told.len(), DRIVE_WARNINGS_HOURLY + 1, "{told:?}");
        assert!(sum.text.contains("2 more events of this kind"), "{sum:?}");
        for _ in 0..5000 {
            let again = (Severity::Warning, EventKind::DriveSlow);
            pool.tell(Some(SLOW as u16), again, "is slow again".to_owned());
        }
        let errors = pool.events(0).into_iter().filter(|event| event.severity == Severity::Error);
        let kinds: Vec<EventKind> = errors.map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::DriveShrunk]);
        assert!(warnings(&pool).len() <= ALARMS_MAX);
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// Two slow drives of seven were the host's doing, and nobody was told which.
#[test]
fn two_slow_drives_of_seven_are_both_told_of() {
    for parity in [1, 2] {
        let bench = Bench::new(7, 28);
        let mut mirror = Mirror::new(VOLUME);
        bench.world.block_on(async {
            let (pool, volume) = bench.pool(parity, SpikeHandling::default()).await;
            load(bench.env(), &volume, &mut mirror, 1, ROUND).await;
            let begin = bench.env().now();
            [SLOW, 5].into_iter().for_each(|drive| bench.arm(drive, LATE, None));
            load(bench.env(), &volume, &mut mirror, 2, 8 * ROUND).await;
            let told = warnings(&pool).into_iter();
            let told = told.filter(|event| event.kind == EventKind::DriveSlow);
            let (mut drives, times): (Vec<_>, Vec<_>) =
                told.map(|event| (event.drive, event.at)).unzip();
            drives.sort_unstable();
            assert_eq!(drives, [Some(SLOW as u16), Some(5)], "{:?}", pool.events(0));
            assert!(times.iter().all(|&at| at < begin + Nanos::from_secs(10)), "{times:?}");
            check_all(&volume, &mirror, "after all").await;
            drop(volume);
            pool.close().await.expect("closes");
        });
    }
}
