//! Background work gives the thread back after a bounded amount of work, however much it finds to
//! do. Work is counted, not timed, and in virtual time exactly.

use std::cell::Cell;
use std::rc::Rc;

use engine::{CreateSpec, Pool, ScrubState};
use io::rng::Rng;
use io::slice::{SLICE_WORK, SLICE_WORK_MAX, Work};
use io::sync::Event;
use io::virt::VirtEnv;
use io::{Buf, Env};

use crate::common::{MIB, Virtual, World, make_pool, sleep};

/// Full stripes, then small overwrites all over them, until stripes had to be emptied.
async fn wear(env: &VirtEnv, pool: &Pool<VirtEnv>, len: usize) {
    let size = pool.status().space.usable * 3 / 4 / MIB * MIB;
    pool.volume_create("v", size, None, None).await.expect("room");
    let volume = pool.volume("v").expect("made");
    for at in (0..size).step_by(1 << 20) {
        volume.write(at, Buf::from_slice(&vec![1; 1 << 20]), false).await.expect("write");
    }
    let (mut rng, data) = (Rng::new(7), Buf::from_slice(&vec![2; len]));
    let mut rounds = 0;
    while pool.counters().compacted_stripes < 40 || pool.counters().conversions < 40 {
        let writes = (0..64).map(|_| {
            let at = rng.below(size / len as u64) * len as u64;
            volume.write(at, data.clone(), false)
        });
        let done = futures_util::future::join_all(writes.collect::<Vec<_>>()).await;
        done.into_iter().for_each(|done| done.expect("write"));
        rounds += 1;
        assert!(rounds < 20_000, "nothing is compacted: {:?}", pool.counters());
    }
    pool.checkpoint().await.expect("a checkpoint");
    pool.scrub_start().expect("begins");
    while pool.scrub_status().state != ScrubState::Done {
        sleep(env, 10).await;
    }
}

fn most_in_a_slice(len: usize) -> Vec<(Work, u32)> {
    let world = Virtual::new(5, 48 * MIB, 3);
    world.block_on(async {
        let pool = Rc::new(make_pool(&world, &CreateSpec::new("tank")).await);
        // A task of its own: what is blocked on is not one, and is not counted.
        let (over, event, own) = (Rc::new(Cell::new(false)), Rc::new(Event::new()), pool.clone());
        let (tell, wake, env) = (over.clone(), event.clone(), world.env().clone());
        world.env().spawn(async move {
            wear(&env, &own, len).await;
            tell.set(true);
            wake.notify_all();
        });
        while !over.get() {
            event.wait().await;
        }
        pool.close().await.expect("closes");
    });
    world.env().most_work().to_vec()
}

#[test]
fn no_slice_of_background_work_has_more_than_its_bound() {
    for len in [512, 4096] {
        let most = most_in_a_slice(len);
        for &(work, units) in &most {
            assert!(units <= SLICE_WORK_MAX, "{} of {len} bytes: {most:?}", work.name());
        }
        // Each had more to do than a slice may have.
        for wanted in [Work::Compaction, Work::Conversion, Work::Checkpoint, Work::Scrub] {
            let units = most.iter().find(|(work, _)| *work == wanted).map_or(0, |found| found.1);
            assert!(units > SLICE_WORK / 2, "{} of {len} bytes: {most:?}", wanted.name());
        }
    }
}
