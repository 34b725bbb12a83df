//! Background work knows its place: it yields to requests while there is space, has an idle pool
//! for itself, and near the end of space never lets anybody wait for it longer than it takes.

use std::cell::Cell;

use engine::{ConversionPolicy, CreateSpec, EventKind, Pool, Volume};
use futures_util::future::{join, join_all};
use io::rng::Rng;
use io::virt::VirtEnv;
use io::{Buf, Env, Nanos};

use crate::common::{MIB, Virtual, World, make_pool, sleep};

const BLOCK: u64 = 64 << 10;

/// Clients that each read and write blocks at random until the time is over. Returns how many
/// requests were done in each tenth of it.
async fn clients(
    world: &Virtual,
    volume: &Volume<VirtEnv>,
    count: u64,
    (blocks, write_percent): (u64, u64),
    millis: u64,
) -> [u64; 10] {
    let env = world.env();
    let done: [Cell<u64>; 10] = Default::default();
    let (begin, tenth) = (env.now(), millis * 100_000);
    let client = |number| {
        let done = &done;
        async move {
            let mut rng = Rng::new(number);
            loop {
                let at = rng.below(blocks) * BLOCK;
                if rng.chance(write_percent, 100) {
                    let data = Buf::from_slice(&[number as u8; BLOCK as usize]);
                    volume.write(at, data, false).await.expect("write");
                } else {
                    volume.read(at, BLOCK as u32).await.expect("read");
                }
                let now = env.now().saturating_sub(begin).0 / tenth;
                let Some(count) = done.get(now as usize) else { return };
                count.set(count.get() + 1);
            }
        }
    };
    join_all((0..count).map(client)).await;
    done.map(Cell::into_inner)
}

async fn eager_pool(world: &Virtual) -> (Pool<VirtEnv>, Volume<VirtEnv>) {
    let spec = CreateSpec { conversion: ConversionPolicy::Eager, ..CreateSpec::new("tank") };
    let pool = make_pool(world, &spec).await;
    pool.volume_create("v", 64 * MIB, None, None).await.expect("room");
    let volume = pool.volume("v").expect("made");
    (pool, volume)
}

#[test]
fn conversion_yields_to_requests_and_takes_the_idle_pool() {
    let world = Virtual::new(8, 512 * MIB, 31);
    world.block_on(async {
        let (pool, volume) = eager_pool(&world).await;
        clients(&world, &volume, 64, (800, 40), 300).await;
        assert_eq!(pool.counters().space_waits, 0, "there is plenty of space");
        let backlog = pool.status().backlog;
        assert_eq!(backlog.pressure_permille, 0);
        assert!(backlog.pauses > 0 && backlog.tuples_due > 100, "{backlog:?}");
        // Without a request: at once, and as long as there is something to do.
        const IDLE: u64 = 50;
        sleep(world.env(), IDLE).await;
        let (busy, all) = (backlog.background_bytes, pool.status().backlog.background_bytes);
        println!("{busy} bytes in 300 ms beside requests, {} in {IDLE} ms without", all - busy);
        assert!((all - busy) * 300 > 3 * busy * IDLE);
        // And what was kept for drives that were slow.
        sleep(world.env(), 2000).await;
        let left = pool.status().backlog;
        assert!(left.tuples < 8, "{left:?}");
        drop(volume);
        pool.close().await.expect("closes");
    });
}

#[test]
fn background_work_goes_on_beside_requests_that_it_does_not_hurt() {
    let world = Virtual::new(8, 64 * MIB, 32);
    world.block_on(async {
        let (pool, volume) = eager_pool(&world).await;
        // One client hardly uses eight drives.
        clients(&world, &volume, 1, (800, 40), 500).await;
        let backlog = pool.status().backlog;
        assert!(backlog.tuples_due < 40, "{backlog:?}");
        drop(volume);
        pool.close().await.expect("closes");
    });
}

#[test]
fn a_busy_pool_is_closed_without_waiting() {
    let world = Virtual::new(8, 64 * MIB, 33);
    world.block_on(async {
        let (pool, volume) = eager_pool(&world).await;
        let made = async {
            sleep(world.env(), 200).await;
            let before = world.env().now();
            pool.volume_create("w", MIB, None, None).await.expect("room");
            world.env().now().saturating_sub(before)
        };
        let (_, made) = join(clients(&world, &volume, 64, (800, 40), 300), made).await;
        assert!(made < Nanos::from_millis(50), "a checkpoint somebody waits for took {made}");
        drop(volume);
        let before = world.env().now();
        pool.close().await.expect("closes");
        let took = world.env().now().saturating_sub(before);
        assert!(took < Nanos::from_millis(100), "closing took {took}");
    });
}

/// Sustained overwriting of a pool that is full: it slows down and goes on.
#[test]
fn near_full_nothing_is_stuck_and_there_is_no_cliff() {
    for (seed, percent) in [(34, 80), (35, 98)] {
        let world = Virtual::new(8, 48 * MIB, seed);
        world.block_on(async {
            let pool = make_pool(&world, &CreateSpec::new("tank")).await;
            let usable = pool.status().space.usable;
            let blocks = usable * percent / 100 / BLOCK;
            pool.volume_create("v", blocks * BLOCK, None, None).await.expect("room");
            let volume = pool.volume("v").expect("made");
            for at in 0..blocks {
                let data = Buf::from_slice(&[1; BLOCK as usize]);
                volume.write(at * BLOCK, data, false).await.expect("fits");
            }
            let done = clients(&world, &volume, 32, (blocks, 70), 3000).await;
            // The first tenth still finds free space.
            let (least, most) = (done[1..].iter().min().unwrap(), done[1..].iter().max().unwrap());
            assert!(least * 3 > *most, "{percent} % full: {done:?}");
            let told = pool.events(0);
            let told = told.iter().filter(|event| event.kind == EventKind::SpacePressure).count();
            assert!((1..20).contains(&told), "{percent} % full: {told} events");
            drop(volume);
            pool.close().await.expect("closes");
        });
    }
}
