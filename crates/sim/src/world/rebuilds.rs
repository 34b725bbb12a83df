//! Drives that die and stay away: the others take over what they held, and then further ones die,
//! more than the parity bears in all, but never more of them before the pool has said that nothing
//! is missed. And drives that are removed.

use engine::{DriveState, Pool};
use io::virt::VirtEnv;
use io::{Env, Nanos};

use super::World;
use super::session::facts_of;
use crate::failure::{Check, Failure};

/// How long a session waits for the pool to say that nothing is missed, before its clients begin.
const STEPS_MAX: u64 = 30;
const STEP: Nanos = Nanos::from_millis(200);
/// Virtual time in which what nobody troubles must have come elsewhere, or home: many times what it
/// takes.
const COMPLETE_WITHIN: Nanos = Nanos::from_secs(180);

impl World {
    pub(super) fn is_complete(&self, pool: &Pool<VirtEnv>) -> bool {
        pool.status().redundancy_margin >= self.plan.parity_least()
    }

    pub(super) fn active(&self, pool: &Pool<VirtEnv>) -> Vec<usize> {
        let drives = pool.status().drives;
        let active = drives.iter().filter(|drive| drive.state == DriveState::Active);
        active.map(|drive| usize::from(drive.index)).collect()
    }

    /// Stripes of all volumes have room beside one more lost drive.
    fn is_wide_without_one(&self, pool: &Pool<VirtEnv>) -> bool {
        self.active(pool).len() > self.widest()
    }

    pub(super) fn widest(&self) -> usize {
        let widths = self.plan.volumes.iter().map(|volume| volume.width);
        usize::from(widths.chain(self.plan.spec.width).max().unwrap_or(0))
    }

    /// A pool that is filled to the brim may tell that it is less redundant again, when it has to
    /// make space; the victims can die all the same (worlds 850188, 850264, 870288).
    fn stays_complete(&self) -> bool {
        self.plan.fill == super::Fill::Calm || self.plan.parity_least() > 1
    }

    /// Another drive dies, at the moment when the pool says that it can; or one is removed.
    pub(super) fn lose_more(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if !self.plan.rebuilds {
            return Ok(());
        }
        if self.rng.chance(1, 4) {
            self.remove_one(pool)?;
        }
        let steps = self.rng.below(STEPS_MAX);
        let env = self.machine.env.clone();
        for _ in 0..steps {
            if self.is_complete(pool) {
                break;
            }
            self.complete("rebuilding", env.sleep_until(env.now() + STEP))?;
        }
        let bears = self.is_complete(pool) && self.stays_complete();
        if bears && self.is_wide_without_one(pool) && self.rng.chance(3, 4) {
            self.lose_one(pool);
        }
        Ok(())
    }

    fn remove_one(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let mut active = self.active(pool);
        active.retain(|drive| !self.plan.victims.contains(drive));
        if active.is_empty() || !self.stays_complete() || !self.is_wide_without_one(pool) {
            return Ok(());
        }
        let drive = active[self.rng.index(active.len())];
        let done = self.complete("removing", pool.drive_remove(drive as u16))?;
        self.context.tell(|| format!("drive {drive} is removed: {done:?}"));
        self.pulled_out.insert(drive);
        Ok(())
    }

    /// In the stead of a victim that nobody misses any more. No time passes since the pool said so.
    fn lose_one(&mut self, pool: &Pool<VirtEnv>) {
        let drives = pool.status().drives;
        let vacated = |victim: &usize| drives[*victim].state == DriveState::Vacated;
        let Some(at) = self.plan.victims.iter().position(vacated) else { return };
        let mut active = self.active(pool);
        active.retain(|drive| !self.plan.victims.contains(drive));
        if active.is_empty() {
            return;
        }
        let next = active[self.rng.index(active.len())];
        let before = std::mem::replace(&mut self.plan.victims[at], next);
        self.machine.disks[next].set_failed(true);
        self.pulled_out.insert(next);
        self.context.count(|tally| tally.drives_lost += 1);
        self.context.tell(|| format!("nobody misses drive {before}: drive {next} dies"));
    }

    /// With no more faults nothing is missed soon, if there is room.
    pub(super) fn becomes_complete(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        // With fewer drives than a stripe has blocks there is nowhere to go (world 850217).
        if !self.plan.rebuilds || self.active(pool).len() < self.widest() {
            return Ok(());
        }
        let roomy = self.plan.fill == super::Fill::Calm && self.is_wide_without_one(pool);
        self.wait_for(pool, "nothing is missed", |world, pool| {
            world.is_complete(pool) || !roomy && pool.status().rebuild.waits_for_space
        })
    }

    /// What others hold for drives that are there comes home.
    pub(super) fn all_comes_home(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if !self.plan.rebuilds {
            return Ok(());
        }
        self.wait_for(pool, "all is home", |_, pool| {
            let rebuild = pool.status().rebuild;
            rebuild.substitutes == 0 && rebuild.drives.is_empty()
        })
    }

    fn wait_for(
        &mut self,
        pool: &Pool<VirtEnv>,
        what: &str,
        over: impl Fn(&World, &Pool<VirtEnv>) -> bool,
    ) -> Result<(), Failure> {
        let env = self.machine.env.clone();
        let begin = env.now();
        while !over(self, pool) {
            if env.now().saturating_sub(begin) > COMPLETE_WITHIN {
                let rebuild = pool.status().rebuild;
                let what = format!("it does not come about that {what}: {rebuild:?}");
                let what = format!("{what}, {}", facts_of(pool));
                return Err(Failure::new(Check::Liveness, what));
            }
            self.complete(what, env.sleep_until(env.now() + STEP))?;
        }
        Ok(())
    }
}
