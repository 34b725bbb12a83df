//! Every hour: clients stand still, all that was written is flushed, read and compared, tables
//! are audited, and the books get an entry.

use engine::DriveState;
use io::Nanos;

use super::books::Entry;
use super::{Day, Shift};
use crate::failure::{Check, Failure};
use crate::world::session::{facts_of, refused};

/// Virtual time in which clients stop: the longest pause, and what requests may take.
const STOP_WITHIN: Nanos = Nanos::from_secs(200);
const STEP: Nanos = Nanos::from_millis(100);
const READ_STEP: u64 = 1 << 20;

impl Day {
    /// One client for each volume that has none.
    pub(super) fn begin_shifts(&mut self) {
        for plan in self.world.plan.volumes.clone() {
            if self.shifts.iter().any(|shift| *shift.volume == *plan.name) {
                continue;
            }
            let client = self.world.client(&self.pool, &plan, 0xda7);
            self.shifts.push(Shift::begin(client, &self.tide));
        }
    }

    /// Clients of one volume, or of all, finish what they do and go.
    pub(super) fn end_shifts(&mut self, volume: Option<&str>) -> Result<(), Failure> {
        let meant = |shift: &Shift| volume.is_none_or(|name| *shift.volume == *name);
        self.shifts.iter().filter(|shift| meant(shift)).for_each(Shift::end);
        let until = self.now() + STOP_WITHIN;
        while self.shifts.iter().any(|shift| meant(shift) && !shift.is_over()) {
            if self.now() > until {
                let facts = facts_of(&self.pool);
                return Err(Failure::new(Check::Hang, format!("clients do not end: {facts}")));
            }
            self.sleep(STEP)?;
        }
        self.shifts.retain(|shift| !meant(shift));
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        let flush = self.world.context.oracle.borrow_mut().flush_begins();
        let flushed = self.world.complete("flush", self.pool.flush())?;
        flushed.map_err(|error| refused("flush", &error))?;
        self.world.context.oracle.borrow_mut().flush_ends(flush);
        Ok(())
    }

    /// Everything, as clients read it.
    pub(super) fn read_all(&mut self) -> Result<(), Failure> {
        for plan in self.world.plan.volumes.clone() {
            let mut client = self.world.client(&self.pool, &plan, 0x4ead);
            let size = client.volume.size();
            let expected = self.world.context.oracle.borrow().volume(&plan.name).bytes();
            if size != expected {
                let what = format!("volume {} has {size} bytes, not {expected}", plan.name);
                return Err(Failure::new(Check::Read, what));
            }
            let all = async move {
                for offset in (0..size).step_by(READ_STEP as usize) {
                    client.read(offset, READ_STEP.min(size - offset)).await;
                }
            };
            self.world.complete("reading all", all)?;
        }
        Ok(())
    }

    pub(super) fn look(&mut self, each: &mut dyn FnMut(&Entry)) -> Result<(), Failure> {
        self.end_shifts(None)?;
        // Reading all of a volume is not to wait for its limits.
        self.lift_limits()?;
        self.flush()?;
        self.read_all()?;
        // What is wrong on a drive that rots is found when it is read, or scrubbed.
        if self.rot.is_none() && self.spells.is_empty() {
            self.world.audit(&self.pool.clone())?;
        }
        self.world.context.oracle.borrow_mut().forget_hidden();
        self.slowest = self.slowest.max(self.world.context.tally.get().slowest);
        let entry = self.entry();
        each(&entry);
        self.entries.push(entry);
        self.begin_shifts();
        Ok(())
    }

    /// Drives that the pool misses.
    pub(super) fn missed(&self) -> Vec<usize> {
        let missed = |state| {
            matches!(state, DriveState::Missing | DriveState::Failed | DriveState::Restoring)
        };
        let drives = self.pool.status().drives.into_iter();
        drives.filter(|drive| missed(drive.state)).map(|drive| drive.index.into()).collect()
    }
}
