//! One world: a pool that is used, broken, opened again and checked, all from one seed.
//!
//! ```text
//!  create ─> [ open ─> verify ─> clients ... ─> death or clean close ]* ─> liveness
//!              │ may die itself        │ drives fail, power goes              │
//!              └───────────────────────┴──── safety: nothing is lost          └ no more faults:
//!                                                                               all must work
//! ```

pub mod client;
pub mod context;
pub mod plan;
mod session;
mod verify;

use std::rc::Rc;

use engine::Pool;
use io::rng::{Rng, mix};
use io::virt::VirtEnv;
use io::{Env, Nanos};

use crate::machine::{Death, Machine};
pub use context::{Context, Tally};
pub use plan::{Fill, Plan};
pub use verify::verify_volumes;

/// What is left of a world that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub tally: Tally,
    pub trace: u64,
    pub virtual_nanos: u64,
}

/// A behaviour of drives that the checks must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// All drives lose what they said was durable.
    AllLie,
    /// One does.
    OneLies,
    /// A drive changes bytes by itself.
    Rot,
}

/// How long a request may take while drives fail: with half of the drives gone, compaction has
/// half of the places to choose from.
const PATIENCE_WITH_FAULTS: Nanos = Nanos::from_secs(5);

/// How long a phase may take in virtual time before it counts as hung.
const PHASE_MAX: Nanos = Nanos::from_secs(600);

pub(crate) struct World {
    pub plan: Plan,
    pub machine: Machine,
    pub context: Rc<Context>,
    pub rng: Rng,
    pub canary: Option<Canary>,
}

/// Runs one seed.
pub fn run(seed: u64) -> Result<Report, String> {
    run_plan(Plan::from_seed(seed), None)
}

pub fn run_plan(plan: Plan, canary: Option<Canary>) -> Result<Report, String> {
    let machine = Machine::new(plan.seed, plan.drives, plan.drive_bytes);
    let context = Context::new(machine.env.clone(), plan.fill == Fill::OverCommitted);
    if !plan.victims.is_empty() {
        context.patience.set(PATIENCE_WITH_FAULTS);
    }
    let rng = Rng::new(mix(plan.seed) ^ 0x3071d);
    let mut world = World { plan, machine, context, rng, canary };
    world.run()?;
    Ok(Report {
        tally: world.context.tally.get(),
        trace: world.machine.env.trace_hash(),
        virtual_nanos: world.machine.env.now().0,
    })
}

impl World {
    fn run(&mut self) -> Result<(), String> {
        let created = self.machine.create(&self.plan.spec);
        self.machine.env.block_on(created).map_err(|error| format!("create: {error}"))?;
        self.machine.die(Death::Kill);
        for _ in 0..self.plan.sessions {
            self.session()?;
        }
        self.liveness()
    }

    fn session(&mut self) -> Result<(), String> {
        self.plug_drives();
        let pool = self.open_dying()?;
        self.make_volumes(&pool)?;
        if self.canary.is_some() {
            self.release_canary();
        }
        self.clients(&pool)
    }

    /// Runs `future` with no deaths planned; a hang is a failure.
    pub(crate) fn complete<T>(
        &self,
        what: &str,
        future: impl Future<Output = T>,
    ) -> Result<T, String> {
        let (env, context) = (&self.machine.env, &self.context);
        let deadline = env.now() + PHASE_MAX;
        let stop = || context.is_failed() || env.now() > deadline || context.stalled().is_some();
        let result = env.run_until(future, stop);
        if let Some(failure) = context.take_failure() {
            return Err(failure);
        }
        result.ok_or_else(|| {
            let stalled = context.stalled().unwrap_or_default();
            format!("{what} does not end {stalled}")
        })
    }

    /// Safety is over: no more faults, and everything must work again.
    fn liveness(&mut self) -> Result<(), String> {
        self.plug_drives();
        let pool = self.open()?;
        self.make_volumes(&pool)?;
        let clients = self.all_clients(&pool, 0x11fe)?;
        let requests = self.plan.requests.min(100);
        let all = clients.into_iter().map(|client| client.run(requests));
        self.complete("liveness", futures_util::future::join_all(all))?;
        self.close(pool)?;
        for _ in 0..2 {
            let pool = self.open()?;
            if !pool.status().recovery.clean {
                return Err("a pool that was closed is not clean".into());
            }
            self.close(pool)?;
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, pool: Pool<VirtEnv>) -> Result<(), String> {
        self.note_counters(&pool);
        let flush = self.context.oracle.borrow_mut().flush_begins();
        self.complete("close", pool.close())?.map_err(|error| format!("close: {error}"))?;
        self.context.oracle.borrow_mut().flush_ends(flush);
        self.context.count(|tally| tally.clean_closes += 1);
        drop(pool);
        self.die(Death::Kill);
        Ok(())
    }

    pub(crate) fn die(&mut self, death: Death) {
        self.machine.die(death);
        self.context.forget_running();
        self.context.oracle.borrow_mut().crashed();
    }

    pub(crate) fn note_counters(&self, pool: &Pool<VirtEnv>) {
        let counters = pool.counters();
        self.context.count(|tally| {
            tally.conversions += counters.conversions;
            tally.compacted += counters.compacted_stripes;
            tally.merged += counters.merged_blocks;
            tally.checkpoints += counters.checkpoints;
        });
    }
}
