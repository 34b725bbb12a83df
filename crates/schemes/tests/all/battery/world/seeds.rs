//! Which worlds there are, by seed.

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use io::virt::Disk;

use super::{Subject, World, unit_of, with_discards};

/// Worlds of each scheme; others with SCHEME_FIRST and SCHEME_SEEDS.
const SEEDS: u64 = 200;

/// Making a pool is up to a third of a world: there is one for each unit of drives, and worlds
/// begin with copies of it.
struct Made<S: Subject> {
    subject: S,
    worlds: [OnceCell<World<S>>; 2],
}

impl<S: Subject> Made<S> {
    fn of(subject: S) -> Made<S> {
        Made { subject, worlds: Default::default() }
    }

    fn copy(&self, seed: u64) -> World<S> {
        // The same one whichever world comes first: a seed alone says what happens.
        let by = u64::from(unit_of(seed) != unit_of(0));
        let made = self.worlds[by as usize].get_or_init(|| one_made(self.subject, by));
        let mut world = World::new(self.subject, seed);
        world.disks = made.disks.iter().map(Disk::fork).collect();
        for (at, disk) in world.disks.iter().enumerate() {
            disk.reseed(seed ^ at as u64);
        }
        (world.base, world.behind) = (made.base, made.behind);
        world
    }
}

pub fn battery(subject: impl Subject) {
    battery_of(subject, SEEDS);
}

/// Of a variant of a scheme that has its 200 worlds already.
pub fn battery_variant(subject: impl Subject) {
    battery_of(subject, SEEDS / 4);
}

fn battery_of(subject: impl Subject, seeds: u64) {
    let made = Made::of(subject);
    every_seed(&subject.name(), seeds, |seed| made.copy(seed).live());
    // So many again in which somebody discards.
    let name = format!("{}, with discards,", subject.name());
    every_seed(&name, seeds / 8, |seed| with_discards(made.copy(seed)));
}

/// As many worlds of a kind, or as are asked for. How many there were.
pub fn worlds<S: Subject>(subject: S, seeds: u64, world: impl Fn(World<S>)) -> u64 {
    worlds_called(&subject.name(), subject, seeds, world)
}

/// The same with a name of their own, for who is told that one failed.
pub fn worlds_called<S: Subject>(
    name: &str,
    subject: S,
    seeds: u64,
    world: impl Fn(World<S>),
) -> u64 {
    let made = Made::of(subject);
    every_seed(name, seeds, |seed| world(made.copy(seed)))
}

/// The world of a battery with this seed.
pub fn world_of<S: Subject>(subject: S, seed: u64) -> World<S> {
    Made::of(subject).copy(seed)
}

/// What each of so many worlds says that fails.
pub fn failures<S: Subject>(subject: S, seeds: u64, world: impl Fn(World<S>)) -> Vec<String> {
    let made = Made::of(subject);
    (0..seeds).filter_map(|seed| failure(|| world(made.copy(seed)))).collect()
}

/// What a world says that fails.
pub fn failure(world: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(world)).err()?;
    Some(match panic.downcast::<String>() {
        Ok(said) => *said,
        Err(other) => other.downcast_ref::<&str>().copied().unwrap_or_default().to_owned(),
    })
}

/// A world with a pool of its own, which was just made.
pub fn one_made<S: Subject>(subject: S, seed: u64) -> World<S> {
    let mut world = World::new(subject, seed);
    world.make();
    world
}

/// SCHEME_SEEDS worlds from SCHEME_FIRST on, or so many from 0 on; then what each says that fails.
pub fn every_seed(name: &str, seeds: u64, world: impl Fn(u64)) -> u64 {
    let asked = |name| std::env::var(name).ok().map(|asked| asked.parse().expect("a number"));
    let seeds = asked("SCHEME_SEEDS").unwrap_or(seeds);
    let first = asked("SCHEME_FIRST").unwrap_or(0);
    let mut failed = None;
    for seed in first..first + seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| world(seed))) {
            eprintln!("{name} fails with seed {seed}");
            failed = failed.or(Some(panic));
        }
    }
    if let Some(panic) = failed {
        resume_unwind(panic);
    }
    seeds
}

/// One world, to its end.
pub fn one(subject: impl Subject, seed: u64) {
    one_made(subject, seed).live();
}
