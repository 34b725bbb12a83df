//! Garbage collection that is coordinated from outside, or told. Only models can do either: no
//! drive that can be bought says when it collects, or does so when it is told to.

use std::cell::Cell;
use std::rc::Rc;

use io::virt::{ModelPort, VirtEnv};
use io::{Env, Nanos};

use super::served::Served;
use super::world::World;

/// Drives are looked at so often. A collection stops requests for about a millisecond.
const LOOK: Nanos = Nanos::from_micros(100);

fn is_collecting(port: &ModelPort) -> bool {
    port.with_model(|_, model| model.is_collecting())
}

/// As soon as one of the drives begins to collect by itself, all do, whatever they have to collect
/// (Kim et al.: GGC). Each goes on until it has the free space it wants.
pub fn coordinate(world: &World, drives: usize) {
    let (env, ports) = (world.env.clone(), world.ports(drives));
    world.env.spawn(async move {
        let mut before = vec![false; ports.len()];
        loop {
            next_look(&env).await;
            let now: Vec<bool> = ports.iter().map(is_collecting).collect();
            let began = now.iter().zip(&before).any(|(now, before)| *now && !before);
            before = now;
            if !began {
                continue;
            }
            for (port, collecting) in ports.iter().zip(&mut before) {
                port.with_model(|now, model| model.force_collection(now, true));
                // It did not begin by itself: the others need not follow it.
                *collecting = is_collecting(port);
            }
        }
    });
}

/// How often drives were looked at, and how often one of them was found collecting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    pub drives: u64,
    pub collecting: u64,
}

/// Tells a scheme which of its drives collect.
pub fn tell(world: &World, served: &Served) -> Rc<Cell<Looks>> {
    let (env, ports, served) = (world.env.clone(), world.ports(served.drives()), served.clone());
    let looks = Rc::new(Cell::new(Looks::default()));
    let counted = looks.clone();
    world.env.spawn(async move {
        let mut collecting = vec![false; ports.len()];
        loop {
            next_look(&env).await;
            for (at, port) in ports.iter().enumerate() {
                let now = is_collecting(port);
                if now != collecting[at] {
                    collecting[at] = now;
                    served.steer(at, now);
                }
            }
            let Looks { drives, collecting: found } = counted.get();
            let now = collecting.iter().filter(|collecting| **collecting).count() as u64;
            counted.set(Looks { drives: drives + ports.len() as u64, collecting: found + now });
        }
    });
    looks
}

async fn next_look(env: &VirtEnv) {
    env.sleep_until(env.now() + LOOK).await;
}
