//! Worlds in which a drive answers nothing for longer than anybody waits: its operations fail then,
//! the others have everything, and what it does late is on a drive that nobody believes.

use std::cell::Cell;

use futures_util::future::join;
use io::faulty::{Effect, Fault};
use io::{Env, Faults, Nanos};
use schemes::Store;
use schemes::part::hang::HANG_AFTER;

use crate::battery::world::{Subject, World, worlds};

/// Worlds; more with SCHEME_SEEDS.
const SEEDS: u64 = 12;
/// Until everything is answered that does not wait for a drive.
const SOON: Nanos = Nanos::from_secs(10);

/// A drive begins to hang within a session, and may answer again when it was given up.
pub fn battery_hung<S: Subject>(subject: S) {
    let lost = Cell::new(0);
    let count = worlds(subject, SEEDS, |mut world| {
        let seed = world.rng.next_u64();
        let count = world.disks.len() as u64;
        world.faults = Some((0..count).map(|at| Faults::new(seed ^ at)).collect());
        let Some(victim) = world.draw_victim() else { return };
        let store = world.opened();
        hang(&mut world, &store, victim);
        lost.set(lost.get() + u64::from(store.lost().contains(&victim)));
        // What was under way on it is done after all.
        if world.rng.chance(1, 2) {
            world.faults.as_ref().expect("they are there")[victim].release_all();
        }
        if world.rng.chance(1, 2) {
            world.close(store);
        } else {
            drop(store);
            // It counts as lost when others are.
            world.unplugged[victim] = true;
            world.die(true);
            world.unplugged[victim] = false;
        }
        world.faults = None;
        world.check();
        world.unplugged[victim] = true;
        world.check();
    });
    assert!(lost.get() * 2 > count, "{} of {count} drives were given up", lost.get());
}

fn hang<S: Subject>(world: &mut World<S>, store: &S::Store, victim: usize) {
    let (seed, after) = (world.rng.next_u64(), Nanos(world.rng.below(3_000_000)));
    let clients = world.clients(store, seed);
    let began = world.env.now();
    let hangs = async {
        world.env.sleep_until(began + after).await;
        let faults = &world.faults.as_ref().expect("they are there")[victim];
        faults.arm(world.env.now(), Fault::new(Effect::Hang(None))).expect("a fault");
    };
    let requests = futures_util::future::join_all(clients.iter().map(|client| client.work(40)));
    world.env.block_on(join(requests, hangs));
    world.env.block_on(clients[0].flush());
    let took = world.env.now().saturating_sub(began);
    assert!(took < HANG_AFTER + SOON, "it took {took}");
}
