//! Checkers that look inside the pool: the audit of its tables and drives, and whether opening
//! the same drives again gives the same pool.

use engine::Pool;
use engine::audit::{Fingerprint, fingerprint, replayed};
use io::virt::VirtEnv;

use super::{Generation, World};
use crate::failure::{Check, Failure};

/// Parts of the journal that are replayed a second time, in percent from its end.
const REPLAYED_AGAIN: [u8; 2] = [100, 40];

fn differ(what: &str, difference: Option<String>) -> Result<(), Failure> {
    match difference {
        None => Ok(()),
        Some(line) => Err(Failure::new(Check::Replay, format!("{what}: {line}"))),
    }
}

impl World {
    /// Every table and every byte of redundancy against each other.
    pub(super) fn audit(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        self.context.count(|tally| tally.audits += 1);
        let audited = self.complete("audit", pool.audit())?;
        let report = audited.map_err(|error| Failure::new(Check::Audit, error.to_string()))?;
        self.context.tell(|| format!("audited: {report:?}"));
        Ok(())
    }

    /// Audits cost as much as reading the pool; some show as much in many worlds.
    pub(super) fn audit_sometimes(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        // What is wrong on a drive that rots is found when it is read, or scrubbed.
        let rots = self.plan.rots.is_some();
        if self.plan.generation < Generation::Swarm || !self.rng.chance(1, 3) || rots {
            return Ok(());
        }
        self.audit(pool)
    }

    /// Before the pool is opened: what opening it will find, if that is the same twice and does
    /// not depend on how often records are replayed.
    pub(super) fn replay_sometimes(&mut self) -> Result<Option<Fingerprint>, Failure> {
        let swarm = self.plan.generation >= Generation::Swarm;
        if !swarm || !self.rng.chance(1, 4) || self.is_troubled() {
            return Ok(None);
        }
        let found = self.replayed(&[])?;
        let again = self.replayed(&REPLAYED_AGAIN)?;
        differ("replayed twice", found.difference(&again))?;
        Ok(Some(found))
    }

    fn replayed(&mut self, again: &'static [u8]) -> Result<Fingerprint, Failure> {
        self.context.count(|tally| tally.replays += 1);
        let replayed = replayed::<VirtEnv>(self.machine.drives(), again);
        let replayed = self.complete("replaying", replayed)?;
        replayed.map_err(|error| Failure::new(Check::Open, format!("replay: {error}")))
    }

    /// The pool that was opened is the one that was found.
    pub(super) fn same_as_found(
        &self,
        pool: &Pool<VirtEnv>,
        found: Option<Fingerprint>,
    ) -> Result<(), Failure> {
        let Some(found) = found else { return Ok(()) };
        differ("opened twice", found.content_difference(&fingerprint(pool)))
    }
}
