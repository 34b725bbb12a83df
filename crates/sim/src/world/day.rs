//! A day of one pool: 24 hours of virtual time under a load with nights, peaks and bursts, while
//! operators do to it whatever they may, drives fail, hang and rot, and machines die.
//!
//! ```text
//!  create ─> open ─> clients at work ─────────────────────────────────────────> the end
//!                     │ every few minutes: a deed (of operators, of fate)
//!                     │ every hour: a look (all is read, audited, memory is noted)
//!                     └ at times, in the first half: the machine dies, or the pool is closed,
//!                       and opened again; then it stays up to the last hours
//! ```
//! It is a [`World`] whose sessions are not planned but happen. Never are more drives lost, hung or
//! rotten at once than the parity bears, as far as anybody can know; and there is always room for
//! what lost drives held, so that redundancy has to come back.

mod books;
mod deeds;
mod drives;
mod ending;
mod looks;
mod restarts;
mod spells;
mod tide;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use engine::{EventKind, Pool};
use io::rng::mix;
use io::virt::VirtEnv;
use io::{Env, Nanos};

use super::patience::Patience;
use super::plan::day::REBUILD_AFTER;
use super::{Context, Plan, Tally, World};
use crate::failure::{Check, Failure};
use crate::machine::Death;
pub use books::Entry;
use spells::{Rot, Spell};
use tide::{Shift, Tide};

/// Looks of a day shorter than so many hours: in its twelfths.
const HOURLY_FROM: u64 = 12;
const LOOKS_LEAST: u64 = 12;
const HOUR: u64 = 3600 * 1_000_000_000;

/// What is left of a day that ended well.
#[derive(Clone, Debug)]
pub struct DayReport {
    pub entries: Vec<Entry>,
    /// What was done, how often.
    pub deeds: BTreeMap<&'static str, u64>,
    pub tally: Tally,
    pub virtual_nanos: u64,
    /// Of all that drives were asked and answered, and of what was counted: the same day has the
    /// same.
    pub digest: u64,
}

pub struct Day {
    world: World,
    pool: Pool<VirtEnv>,
    tide: Rc<Tide>,
    shifts: Vec<Shift>,
    begin: Nanos,
    span: Nanos,
    done: BTreeMap<&'static str, u64>,
    spells: Vec<Spell>,
    rot: Option<Rot>,
    /// When another drive counted as lost last.
    troubled_at: Nanos,
    /// Where drives may rot.
    rotting: Range<u64>,
    /// Drives to which something was done for which they may be failed.
    guilty: BTreeSet<usize>,
    /// Redundancy has been less than it should be for so long, with nothing in its way.
    degraded_since: Option<Nanos>,
    rebuild_paused_at: Option<Nanos>,
    /// No copy of a drive onto another was under way when this was last looked at.
    copied: bool,
    volumes_made: u64,
    /// Events of the pool that the story has told of.
    told: u64,
    entries: Vec<Entry>,
    /// Requests and deeds up to the last entry.
    counted: (u64, u64),
    slowest: u64,
}

/// Runs a day of so many hours; `each` is called at every look. The context is there before the
/// day begins, so that its story outlives it.
pub fn run(
    seed: u64,
    hours: u64,
    prepare: impl FnOnce(&Rc<Context>),
    each: &mut dyn FnMut(&Entry),
) -> Result<DayReport, Failure> {
    let mut world = World::new(Plan::day(seed), None);
    world.machine.rebuild_after = Some(REBUILD_AFTER);
    world.context.patience.set(Patience::LONG_HANGS);
    prepare(&world.context());
    let mut day = Day::begin(world, hours)?;
    day.passes(each)?;
    day.ends(each)
}

impl Day {
    fn begin(mut world: World, hours: u64) -> Result<Day, Failure> {
        let created = world.machine.create(&world.plan.spec);
        world
            .machine
            .env
            .block_on(created)
            .map_err(|error| Failure::new(Check::Open, format!("create: {error}")))?;
        world.die(Death::Kill);
        let rotting = world.rotting_range();
        let pool = world.open()?;
        let (begin, span) = (world.machine.env.now(), Nanos(hours * HOUR));
        let volumes_made = world.plan.volumes.len() as u64;
        let mut day = Day {
            world,
            pool,
            tide: Rc::new(Tide::new(begin, span)),
            shifts: Vec::new(),
            begin,
            span,
            done: BTreeMap::new(),
            spells: Vec::new(),
            rot: None,
            troubled_at: begin,
            rotting,
            guilty: BTreeSet::new(),
            degraded_since: None,
            rebuild_paused_at: None,
            copied: true,
            volumes_made,
            told: 0,
            entries: Vec::new(),
            counted: (0, 0),
            slowest: 0,
        };
        day.make_volumes()?;
        Ok(day)
    }

    /// Deeds and looks until the day is over.
    fn passes(&mut self, each: &mut dyn FnMut(&Entry)) -> Result<(), Failure> {
        let hours = self.span.0 / HOUR;
        let step = if hours < HOURLY_FROM { self.span.0 / LOOKS_LEAST } else { HOUR };
        let end = self.begin + self.span;
        let mut next_look = self.begin + Nanos(step);
        let mut next_deed = self.now() + self.draw_pause();
        while self.now() < end {
            self.sleep_until(next_deed.min(next_look).min(end))?;
            self.settle()?;
            if self.now() >= next_look {
                next_look = next_look + Nanos(step);
                self.look(each)?;
            }
            if self.now() >= next_deed {
                self.deed()?;
                next_deed = self.now() + self.draw_pause();
            }
        }
        Ok(())
    }

    fn now(&self) -> Nanos {
        self.world.machine.env.now()
    }

    fn hours(&self) -> f64 {
        self.now().saturating_sub(self.begin).0 as f64 / HOUR as f64
    }

    /// How much of the day is over, in percent.
    fn percent(&self) -> u64 {
        let since = u128::from(self.now().saturating_sub(self.begin).0);
        (since * 100 / u128::from(self.span.0)) as u64
    }

    fn deeds(&self) -> u64 {
        self.done.values().sum()
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        self.world.context.tell(what);
    }

    /// What the pool told of since it was last asked.
    fn tell_events(&mut self) {
        for event in self.pool.events(self.told) {
            self.told = event.sequence;
            // There are thousands of spikes.
            if event.kind == EventKind::Spike {
                continue;
            }
            self.tell(|| format!("(at {}) {}: {}", event.at, event.kind.name(), event.text));
        }
    }

    fn sleep_until(&self, moment: Nanos) -> Result<(), Failure> {
        self.world.complete("time", self.world.machine.env.sleep_until(moment))
    }

    fn sleep(&self, span: Nanos) -> Result<(), Failure> {
        self.sleep_until(self.now() + span)
    }

    fn report(self) -> DayReport {
        let mut tally = self.world.context.tally.get();
        tally.slowest = self.slowest;
        let trace = self.world.machine.env.trace_hash();
        let counts = [tally.requests, tally.conversions, tally.checkpoints, tally.mended];
        let all = counts.into_iter().chain(self.done.values().copied());
        let digest = all.fold(trace, |digest, count| mix(digest.rotate_left(7) ^ count));
        DayReport {
            entries: self.entries,
            deeds: self.done,
            tally,
            virtual_nanos: self.world.machine.env.now().0,
            digest,
        }
    }
}
