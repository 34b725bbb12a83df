//! Load is no spike: nothing bypasses drives that are all behind, and reads go before writes. A
//! read that is late is read another way.

use std::cell::Cell;
use std::fmt::Debug;

use engine::{Counters, EventKind, SpikeHandling, Volume};
use futures_util::future::{join, join_all};
use io::faulty::{Delay, Effect, Fault};
use io::virt::VirtEnv;
use io::{Buf, Env, Nanos, Operation};

use crate::common::{Mirror, check_all, sleep};
use crate::spikes::{Bench, VOLUME, load};

const SLOW: Nanos = Nanos::from_millis(40);

/// Requests that went another way than the first.
fn ways_round(counters: &Counters) -> u64 {
    counters.redirected_reads
        + counters.redirected_writes
        + counters.hedged_reads
        + counters.hedged_writes
        + counters.hedged_journal_blocks
}

#[test]
fn nothing_goes_round_drives_that_are_all_behind() {
    let bench = Bench::new(8, 11);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        load(bench.env(), &volume, &mut mirror, 1, 500).await;
        assert!(!pool.status().loaded);
        assert_eq!(pool.counters().loads, 0, "requests that drives keep up with are no load");
        for drive in 0..8 {
            bench.arm(drive, Effect::Delay(Delay::Constant(SLOW)), Some(Nanos::from_secs(1)));
        }
        // Until the first answers are late everything may be a spike.
        load(bench.env(), &volume, &mut mirror, 2, 200).await;
        assert!(pool.status().loaded);
        let before = ways_round(&pool.counters());
        load(bench.env(), &volume, &mut mirror, 3, 600).await;
        assert_eq!(ways_round(&pool.counters()), before, "{:?}", pool.counters());
        assert!(pool.status().drives.iter().all(|drive| drive.health == Default::default()));
        // And it ends.
        load(bench.env(), &volume, &mut mirror, 4, 600).await;
        let (status, counters) = (pool.status(), pool.counters());
        assert!(!status.loaded);
        assert!(counters.loads >= 1, "{counters:?}");
        let long = Nanos::from_millis(700)..Nanos::from_millis(1300);
        assert!(long.contains(&Nanos(counters.load_nanos)), "{}", Nanos(counters.load_nanos));
        sleep(bench.env(), 100).await;
        let told = pool.events(0).into_iter().filter(|event| event.kind == EventKind::Load);
        assert_eq!(told.count(), 1);
        check_all(&volume, &mirror, "after the load").await;
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// A hang is none of the load's doing.
#[test]
fn a_drive_that_hangs_under_load_is_bypassed() {
    let bench = Bench::new(8, 12);
    let mut mirror = Mirror::new(VOLUME);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        load(bench.env(), &volume, &mut mirror, 1, 500).await;
        for drive in (0..8).filter(|drive| *drive != 3) {
            bench.arm(drive, Effect::Delay(Delay::Constant(SLOW)), Some(Nanos::from_secs(3)));
        }
        bench.arm(3, Effect::Hang(None), Some(Nanos::from_secs(3)));
        let longest = load(bench.env(), &volume, &mut mirror, 2, 2000).await;
        assert!(pool.status().loaded);
        let limit = Nanos::from_millis(700);
        assert!(longest.read.max(longest.write).max(longest.durable) < limit, "{longest:?}");
        check_all(&volume, &mirror, "beside the hang").await;
        drop(volume);
        pool.close().await.expect("closes");
    });
}

async fn fill(volume: &Volume<VirtEnv>, data: &Buf) {
    let len = data.len() as u64;
    join_all((0..VOLUME / len).map(|at| volume.write(at * len, data.clone(), false))).await;
}

/// How long a request takes, which succeeds.
async fn timed<T, E: Debug>(env: &VirtEnv, request: impl Future<Output = Result<T, E>>) -> Nanos {
    let begin = env.now();
    request.await.expect("it is answered");
    env.now().saturating_sub(begin)
}

/// A burst, and something else again and again until that is over: how long the burst took, and
/// the longest turn of the other.
async fn beside<T>(
    env: &VirtEnv,
    burst: impl Future<Output = T>,
    mut turn: impl AsyncFnMut(u64),
) -> (Nanos, Nanos) {
    let (begun, over) = (env.now(), Cell::new(None));
    let burst = async {
        burst.await;
        over.set(Some(env.now()));
    };
    let turns = async {
        let mut most = Nanos::ZERO;
        for at in 0.. {
            if over.get().is_some() {
                break;
            }
            let begin = env.now();
            turn(at).await;
            most = most.max(env.now().saturating_sub(begin));
        }
        most
    };
    let ((), most) = join(burst, turns).await;
    (over.get().expect("it is over").saturating_sub(begun), most)
}

/// Writes by the thousand have the drives; reads wait for none of those that wait.
#[test]
fn reads_do_not_stand_in_line_behind_a_burst_of_writes() {
    let bench = Bench::new(8, 13);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        let env = bench.env();
        let data = Buf::zeroed(65536);
        fill(&volume, &data).await;
        let mut alone = Nanos::ZERO;
        for at in 0..50 {
            alone = alone.max(timed(env, volume.read(at * 65536, 4096)).await);
        }
        let write = |at: u64| volume.write(at * 65536 % VOLUME, data.clone(), false);
        // Some of what is read is being written.
        let read = async |at: u64| {
            volume.read(at * 7 * 65536 % VOLUME, 4096).await.expect("readable");
        };
        let (took, most) = beside(env, join_all((0..3000).map(write)), read).await;
        assert!(took > Nanos(alone.0 * 10), "{took}: no burst");
        assert!(most < Nanos(alone.0 * 3), "{most} beside {took} of writes, {alone} alone");
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// A volume writes by the thousand; what another makes durable waits for what the drives have been
/// given, and for none of what waits.
#[test]
fn what_is_made_durable_does_not_stand_in_line_behind_a_burst() {
    const WRITES: u64 = 12_000;
    let bench = Bench::new(8, 15);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        pool.volume_create("other", VOLUME, None, None).await.expect("room");
        let other = pool.volume("other").expect("made");
        let env = bench.env();
        let data = Buf::zeroed(65536);
        let write = |at: u64| volume.write(at * 65536 % VOLUME, data.clone(), false);
        let (mut fua, mut flush) = (Nanos::ZERO, Nanos::ZERO);
        let durable = async |at: u64| {
            let write = other.write(at * 4096 % VOLUME, data.slice(0..4096), true);
            fua = fua.max(timed(env, write).await);
            flush = flush.max(timed(env, other.flush()).await);
        };
        let (took, _) = beside(env, join_all((0..WRITES).map(write)), durable).await;
        // 8 writes for each of 8 drives are with them at a time, a 187th of the burst; a FLUSH may
        // come after one that is running, and a journal block after its copies.
        let bound = Nanos(took.0 / 5);
        assert!(fua.max(flush) < bound, "{fua} and {flush}, bound {bound}, the burst took {took}");
        drop((volume, other));
        pool.close().await.expect("closes");
    });
}

/// Neither does a burst of reads hold up writes.
#[test]
fn writes_do_not_stand_in_line_behind_a_burst_of_reads() {
    const READS: u64 = 100_000;
    let bench = Bench::new(8, 16);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        let env = bench.env();
        let data = Buf::zeroed(65536);
        fill(&volume, &data).await;
        let read = |at: u64| volume.read(at * 7 * 65536 % VOLUME, 4096);
        let write = async |at: u64| {
            volume.write(at * 65536 % VOLUME, data.clone(), true).await.expect("written");
        };
        let (took, most) = beside(env, join_all((0..READS).map(read)), write).await;
        // 32 reads for each of 8 drives are with them at a time, a 390th of the burst.
        let bound = Nanos(took.0 / 10);
        assert!(most < bound, "{most}, bound {bound}, the burst took {took}");
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// A block for each drive is open for small writes, however many there are.
#[test]
fn small_writes_are_on_most_drives_at_a_time() {
    const DRIVES: usize = 29;
    let bench = Bench::new(DRIVES, 17);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        let writes = || pool.status().drives.iter().map(|d| d.counters.writes).collect::<Vec<_>>();
        let before = writes();
        // Less than the lanes' blocks hold.
        for at in 0..100 {
            volume.write(at * 65536, Buf::zeroed(4096), false).await.expect("written");
        }
        let used = writes().iter().zip(&before).filter(|(now, before)| now > before).count();
        assert!(used > DRIVES * 2 / 3, "{used} of {DRIVES} drives");
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// Two in a hundred reads meet an erase, whichever drive they are of: more than the hundredth whose
/// time was once taken for what is usual.
#[test]
fn reads_behind_an_erase_go_another_way_in_time() {
    const READS: u64 = 3000;
    let bench = Bench::new(8, 14);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        let env = bench.env();
        let stripe = 4 * 65536;
        let data = Buf::zeroed(stripe as usize);
        let fill = (0..VOLUME / stripe).map(|at| volume.write(at * stripe, data.clone(), false));
        join_all(fill).await;
        volume.flush().await.expect("flushes");
        let erase = Effect::Delay(Delay::Constant(Nanos::from_millis(5)));
        let erase = Fault::new(erase).on(Operation::Read).with_chance(20_000);
        for faults in &bench.faults {
            faults.arm(env.now(), erase.clone()).expect("a valid fault");
        }
        let mut took = Vec::new();
        for at in 0..READS {
            let begin = env.now();
            volume.read(at * 7 * 65536 % VOLUME, 4096).await.expect("readable");
            took.push(env.now().saturating_sub(begin));
            env.sleep_until(env.now() + Nanos::from_micros(500)).await;
        }
        // The first are late by what nobody knows yet.
        let mut took = took.split_off(took.len() / 3);
        took.sort_unstable();
        let p99 = took[took.len() * 99 / 100];
        assert!(p99 < Nanos::from_millis(1), "{p99}");
        let (status, counters) = (pool.status(), pool.counters());
        let late = counters.hedged_reads;
        assert!((READS / 100..READS / 30).contains(&late), "{counters:?}");
        assert!(counters.hedge_wins > late * 8 / 10, "{counters:?}");
        assert_eq!(counters.reconstructed_reads, late, "{counters:?}");
        let left = status.read_hedges.left;
        assert!(left.operations > 100 && left.bytes > 7 << 20, "{left:?}");
        drop(volume);
        pool.close().await.expect("closes");
    });
}
