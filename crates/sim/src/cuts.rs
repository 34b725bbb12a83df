//! The power is cut after every single write of a fixed script: pool made, volumes made,
//! written in every way, converted, compacted, checkpointed, deleted, closed and opened.
//!
//! The cut is exact: once write number k has been issued, nothing more reaches any drive. What
//! the drives keep of what was on its way is up to the [`Death`]; then the pool must open, by
//! itself, with everything that was promised.

mod script;

use std::cell::RefCell;
use std::rc::Rc;

use engine::Pool;
use io::rng::{Rng, mix};
use io::virt::{CutMode, VirtEnv};

use crate::machine::{Death, Machine};
use crate::oracle::Oracle;
use crate::world::verify_volumes;
pub use script::Scenario;
use script::{Progress, Script, Stage};

/// What else happens to the pool after the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twist {
    /// As many drives as the parity bears are pulled out.
    pub drives_lost: bool,
    /// The power goes again after so many writes of recovery.
    pub again_after: Option<u64>,
    /// And then the drives are back.
    pub come_back: bool,
}

impl Twist {
    pub const NONE: Twist = Twist { drives_lost: false, again_after: None, come_back: false };

    /// A sample: some cuts come with more trouble.
    pub fn for_cut(scenario: Scenario, cut: u64) -> Twist {
        let mut rng = Rng::new(mix(cut) ^ scenario as u64);
        let again = rng.chance(1, 2).then(|| 1 + rng.below(120));
        Twist { drives_lost: rng.chance(1, 2), again_after: again, come_back: rng.chance(1, 2) }
    }
}

/// Cuts after write `cut`. False: the script issues fewer writes.
pub fn run(scenario: Scenario, cut: u64, death: Death, twist: Twist) -> Result<bool, String> {
    let act = || Cut::new(scenario, cut, twist).run(death);
    crate::run::caught(act).map_err(|what: String| {
        format!(
            "{what}\n  {scenario:?} cut after write {cut}, {death:?}, {twist:?}\n  \
             replay: cargo run --release -p sim -- cuts --only {cut}"
        )
    })
}

/// Writes that the whole script issues.
pub fn writes_of(scenario: Scenario) -> u64 {
    let cut = Cut::new(scenario, u64::MAX, Twist::NONE);
    cut.play();
    cut.machine.env.writes_issued()
}

struct Cut {
    scenario: Scenario,
    cut: u64,
    twist: Twist,
    machine: Machine,
    oracle: Rc<RefCell<Oracle>>,
    progress: Rc<Progress>,
    rng: Rng,
}

impl Cut {
    fn new(scenario: Scenario, cut: u64, twist: Twist) -> Cut {
        let plan = scenario.plan();
        Cut {
            scenario,
            cut,
            twist,
            // Always the same world: the cuts are moments of one and the same run.
            machine: Machine::new(0x5eed, plan.drives, plan.drive_bytes, false),
            oracle: Rc::default(),
            progress: Rc::default(),
            rng: Rng::new(mix(cut) ^ 0xc07),
        }
    }

    /// Runs the script up to the cut. True if it was over before.
    fn play(&self) -> bool {
        let env = &self.machine.env;
        env.set_write_limit(self.cut);
        let script = Script {
            scenario: self.scenario,
            machine: &self.machine,
            oracle: self.oracle.clone(),
            progress: self.progress.clone(),
        };
        env.run_until(script.play(), || env.write_limit_reached()).is_some()
    }

    fn die(&mut self, death: Death) {
        self.machine.die(death);
        self.oracle.borrow_mut().crashed();
    }

    fn run(mut self, death: Death) -> Result<bool, String> {
        if self.play() {
            return Ok(false);
        }
        self.die(death);
        if self.twist.drives_lost {
            self.unplug();
        }
        if let Some(writes) = self.twist.again_after {
            let env = self.machine.env.clone();
            env.set_write_limit(env.writes_issued() + writes);
            let opened = env.run_until(self.machine.open(), || env.write_limit_reached());
            self.judge_opened(opened.map(|opened| opened.map(drop)))?;
            self.die(Death::Power(CutMode::Random));
            if self.twist.come_back {
                self.machine.unplugged.clear();
            }
        }
        self.check()?;
        // What was read is the truth now, whatever happens next.
        self.die(Death::Power(CutMode::DropAll));
        self.check()?;
        Ok(true)
    }

    fn unplug(&mut self) {
        // Volume b bears the loss of one drive only.
        let narrow = self.oracle.borrow().names().iter().any(|name| name == "b");
        let lost = if narrow { 1 } else { usize::from(self.scenario.plan().spec.parity) };
        while self.machine.unplugged.len() < lost {
            self.machine.unplugged.insert(self.rng.index(self.machine.disks.len()));
        }
    }

    /// A pool that was made must open; one that was not may be missing.
    fn judge_opened(&self, opened: Option<Result<(), engine::OpenError>>) -> Result<(), String> {
        match opened {
            Some(Err(error)) if self.progress.is_made() => Err(format!("open: {error}")),
            _ => Ok(()),
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let env = self.machine.env.clone();
        let opened = env.block_on(self.machine.open());
        let pool = match opened {
            Ok(pool) => pool,
            Err(error) => {
                self.judge_opened(Some(Err(error)))?;
                return self.make_anew();
            }
        };
        // Whole or not at all: what opens once is a pool from now on.
        self.progress.made();
        self.settle_volumes(&pool)?;
        env.block_on(verify_volumes(&pool, &self.oracle))?;
        env.block_on(self.use_it(&pool))
    }

    /// Where no pool came to be, one can be made.
    fn make_anew(&mut self) -> Result<(), String> {
        self.machine.unplugged.clear();
        let env = self.machine.env.clone();
        let created = env.block_on(self.machine.create(&self.scenario.plan().spec));
        created.map_err(|error| format!("create again: {error}"))?;
        self.progress.made();
        Ok(())
    }

    /// Volumes that were being made or deleted are there or not, and stay so.
    fn settle_volumes(&self, pool: &Pool<VirtEnv>) -> Result<(), String> {
        let known = self.oracle.borrow().names();
        for info in pool.volumes() {
            if !known.contains(&info.name) {
                return Err(format!("volume {} out of nowhere", info.name));
            }
        }
        for name in known {
            if pool.volume(&name).is_some() {
                self.progress.set(&name, Stage::Present);
            } else if self.progress.stage(&name) == Stage::Present {
                return Err(format!("volume {name} is gone"));
            } else {
                self.oracle.borrow_mut().volume_remove(&name);
            }
        }
        Ok(())
    }

    /// The pool is of use: it makes a volume if there is none, takes a write and keeps it.
    async fn use_it(&self, pool: &Pool<VirtEnv>) -> Result<(), String> {
        if self.oracle.borrow().names().is_empty() {
            let made = pool.volume_create("later", 64 << 10, None, None).await;
            made.map_err(|error| format!("after recovery: {error}"))?;
            self.oracle.borrow_mut().volume_add("later", 64 << 10);
            self.progress.set("later", Stage::Present);
        }
        let failed = |error: engine::RequestError| format!("after recovery: {error}");
        let name = self.oracle.borrow().names().pop().ok_or("one was just made")?;
        let volume = pool.volume(&name).ok_or("just verified")?;
        let write = self.oracle.borrow_mut().write_begins(&name, 4096, 8192, false);
        let bytes = self.oracle.borrow().bytes_of(&name, write);
        volume.write(4096, io::Buf::from_slice(&bytes), true).await.map_err(failed)?;
        self.oracle.borrow_mut().write_ends(&name, write, true, true);
        let (status, spec) = (pool.status(), self.scenario.plan().spec);
        if (status.conversion, status.replicated_percent)
            != (spec.conversion, spec.replicated_percent)
        {
            return Err("the pool's settings are not those it was made with".into());
        }
        let space = status.space;
        let sum = space.replicated + space.raid + space.limbo + space.free;
        if sum != space.total {
            return Err(format!("space does not add up: {space:?}"));
        }
        Ok(())
    }
}
