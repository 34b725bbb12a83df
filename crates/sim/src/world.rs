//! One world: a pool that is used, broken, opened again and checked, all from one seed.
//!
//! ```text
//!  create ─> [ open ─> verify ─> audit ─> clients ... ─> death or clean close ]*
//!              │ may die itself             │ drives fail, power goes        │
//!              └────────────────────────────┴────────────────────────────────┤
//!                                                                            │
//!    a safety run ends: all is there, audited, closed, opened again  <───────┤
//!    a liveness run: no more faults ─> everything finishes,          <───────┘
//!    the pool becomes as whole as it can, comes to rest, leaks nothing
//! ```

mod checks;
pub mod client;
pub mod context;
pub mod day;
mod exchanges;
mod joins;
mod limits;
mod liveness;
mod modelled;
mod patience;
pub mod plan;
mod rebuilds;
mod returns;
mod rot;
mod session;
mod shelf;
mod stale;
mod troubles;
mod verify;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use engine::SpikeHandling;
use engine::{Pool, VolumeLimits};
use io::rng::{Rng, mix};
use io::virt::{Disk, VirtEnv};
use io::{Env, Model, Nanos};

use crate::failure::{Check, Failure};
use crate::machine::{Death, Machine};
pub use context::{Context, Tally};
use patience::Patience;
use plan::LAST_SESSION;
pub use plan::{Fill, Generation, Plan, Reduction, Run};
pub use verify::verify_volumes;

/// What is left of a world that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub tally: Tally,
    pub trace: u64,
    pub virtual_nanos: u64,
}

/// A behaviour of drives that the checks must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Canary {
    /// All drives lose what they said was durable.
    AllLie,
    /// One does.
    OneLies,
    /// A drive changes bytes by itself.
    Rot,
    /// A drive loses some writes that it reports as done.
    Lost,
    /// It tears some of them.
    Torn,
    /// It writes some of them to another place.
    Misdirected,
    /// It stops to answer.
    Hangs,
}

/// How long a phase may take in virtual time before it counts as hung.
const PHASE_MAX: Nanos = Nanos::from_secs(600);

pub struct World {
    pub(crate) plan: Plan,
    pub(crate) machine: Machine,
    context: Rc<Context>,
    rng: Rng,
    canary: Option<Canary>,
    /// The session that runs, by number.
    session: u64,
    /// Drives that a machine had to do without.
    pulled_out: BTreeSet<usize>,
    /// Until when the story has told of faults.
    told_injections: Nanos,
    /// Drives that took a lost one's place while clients ran.
    replaced: Rc<RefCell<Vec<(usize, Disk)>>>,
    /// What was set of volumes' limits, and answered.
    limits: BTreeMap<String, VolumeLimits>,
    /// Of the drive that is put back ([`Plan::stale`]).
    images: stale::Images,
}

/// Runs one seed.
pub fn run(seed: u64) -> Result<Report, Failure> {
    run_plan(Plan::from_seed(seed), None)
}

pub fn run_plan(plan: Plan, canary: Option<Canary>) -> Result<Report, Failure> {
    World::new(plan, canary).run()
}

impl World {
    pub fn new(mut plan: Plan, canary: Option<Canary>) -> World {
        // With checksums nothing would be left to notice.
        plan.spec.checksums &= canary.is_none();
        let seed = if plan.salt == 0 { plan.seed } else { mix(plan.seed ^ mix(plan.salt)) };
        let with_faults = plan.generation >= Generation::Swarm;
        let mut machine = Machine::new(seed, plan.drives, plan.drive_bytes, with_faults);
        for &at in &plan.larger {
            machine.enlarge(at, plan.drive_bytes + plan.larger_by, seed);
        }
        if plan.modelled {
            let model = |at| -> Box<dyn Model> {
                Box::new(modelled::drive(plan.seed, at, plan.drive_bytes))
            };
            machine.model((0..plan.drives).map(model).collect());
        }
        machine.spikes = plan.tails.spikes;
        machine.rebuild_after = plan.rebuilds.then(|| Nanos::from_millis(plan.seed % 3 * 20));
        if canary == Some(Canary::Hangs) {
            // The engine goes round a drive that hangs, which is not what this canary is about.
            machine.spikes = SpikeHandling::OFF;
        }
        let may_be_full = plan.fill == Fill::OverCommitted
            || plan.tails.competing
            // Room for what lost drives held is not room for more.
            || plan.rebuilds && plan.fill != Fill::Calm;
        let context = Context::new(machine.env.clone(), may_be_full);
        context.patience.set(Patience::of(&plan));
        let rng = Rng::new(mix(plan.seed) ^ 0x3071d);
        World {
            plan,
            machine,
            context,
            rng,
            canary,
            session: LAST_SESSION,
            pulled_out: BTreeSet::new(),
            told_injections: Nanos::ZERO,
            replaced: Rc::default(),
            limits: BTreeMap::new(),
            images: Default::default(),
        }
    }

    /// What the world shares; its story outlives a panic in the world.
    pub fn context(&self) -> Rc<Context> {
        self.context.clone()
    }

    pub fn run(mut self) -> Result<Report, Failure> {
        self.run_all()?;
        Ok(Report {
            tally: self.context.tally.get(),
            trace: self.machine.env.trace_hash(),
            virtual_nanos: self.machine.env.now().0,
        })
    }

    fn run_all(&mut self) -> Result<(), Failure> {
        let created = self.machine.create(&self.plan.spec);
        self.machine
            .env
            .block_on(created)
            .map_err(|error| Failure::new(Check::Open, format!("create: {error}")))?;
        self.machine.die(Death::Kill);
        for session in self.plan.sessions.clone() {
            self.begin_session(session);
            self.session()?;
        }
        self.begin_session(LAST_SESSION);
        if self.canary == Some(Canary::Rot) {
            self.release_canary();
        }
        match (self.plan.generation, self.plan.run) {
            (Generation::First | Generation::FullPools, _) => self.works_again(),
            (Generation::Swarm | Generation::Tails, Run::Safety) => self.all_is_there(),
            (Generation::Swarm | Generation::Tails, Run::Liveness) => self.liveness(),
        }
    }

    /// Gives the session a randomness of its own, so that leaving out others changes nothing in
    /// it. Older worlds have one sequence for all.
    fn begin_session(&mut self, session: u64) {
        self.session = session;
        self.end_troubles();
        self.context.tell(|| match session {
            LAST_SESSION => "the last session".into(),
            _ => format!("session {session}"),
        });
        if self.plan.generation >= Generation::Swarm {
            self.rng = Rng::new(mix(self.plan.seed) ^ mix(session ^ 0x5e55));
        }
        self.shelf_is_back();
        self.put_back();
    }

    /// Runs `future` with no deaths planned; a hang is a failure.
    pub(crate) fn complete<T>(
        &self,
        what: &str,
        future: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let (env, context) = (&self.machine.env, &self.context);
        let deadline = env.now() + PHASE_MAX;
        let stop = || context.is_failed() || env.now() > deadline || context.stalled().is_some();
        let result = env.run_until(future, stop);
        if let Some(failure) = context.take_failure() {
            return Err(failure);
        }
        result.ok_or_else(|| {
            let stalled = context.stalled().unwrap_or_default();
            Failure::new(Check::Hang, format!("{what} does not end {stalled}"))
        })
    }

    /// The end of a safety run: once more opened, and all there is looked at.
    fn all_is_there(&mut self) -> Result<(), Failure> {
        self.plug_drives();
        let pool = self.open()?;
        self.take_back(&pool, true)?;
        self.scrub_rot(&pool)?;
        self.scrub_restored(&pool)?;
        self.audit(&pool)?;
        self.close_and_open_again(pool)
    }

    pub(crate) fn close_and_open_again(&mut self, pool: Pool<VirtEnv>) -> Result<(), Failure> {
        self.close(pool)?;
        let again = if self.plan.generation >= Generation::Swarm { 1 } else { 2 };
        for _ in 0..again {
            let pool = self.open()?;
            if !pool.status().recovery.clean {
                let what = "a pool that was closed is not clean";
                return Err(Failure::new(Check::Open, what));
            }
            self.close(pool)?;
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, pool: Pool<VirtEnv>) -> Result<(), Failure> {
        self.note_counters(&pool);
        let flush = self.context.oracle.borrow_mut().flush_begins();
        self.context.tell(|| "the pool is closed".into());
        self.complete("close", pool.close())?
            .map_err(|error| Failure::new(Check::Request, format!("close: {error}")))?;
        self.context.oracle.borrow_mut().flush_ends(flush);
        self.context.count(|tally| tally.clean_closes += 1);
        drop(pool);
        self.die(Death::Kill);
        Ok(())
    }

    pub(crate) fn die(&mut self, death: Death) {
        self.tell_death(death);
        self.machine.die(death);
        self.context.forget_running();
        self.context.oracle.borrow_mut().crashed();
    }

    fn tell_death(&self, death: Death) {
        self.context.tell(|| {
            let undecided = self.machine.disks.iter().map(|disk| disk.undecided_writes());
            let undecided: Vec<String> = undecided.map(|count| count.to_string()).collect();
            format!(
                "the machine dies: {death:?}, {} requests on their way, writes not durable on each \
                 drive: {}",
                self.context.in_flight(),
                undecided.join(" ")
            )
        });
    }

    pub(crate) fn note_counters(&self, pool: &Pool<VirtEnv>) {
        let counters = pool.counters();
        self.context.count(|tally| {
            tally.conversions += counters.conversions;
            tally.compacted += counters.compacted_stripes;
            tally.merged += counters.merged_blocks;
            tally.checkpoints += counters.checkpoints;
            tally.reconstructed += counters.reconstructed_reads;
        });
        self.context.tell(|| {
            format!(
                "since the pool was opened: {} conversions, {} stripes compacted, {} blocks \
                 merged, {} checkpoints, {} journal blocks, {} waits for space",
                counters.conversions,
                counters.compacted_stripes,
                counters.merged_blocks,
                counters.checkpoints,
                counters.journal_blocks,
                counters.space_waits
            )
        });
    }
}
