//! What operators do to drives.

use engine::{DriveOverride, DriveState, DriveVerbError};
use io::Nanos;

use super::Day;
use super::spells::OUT_MOST;
use crate::failure::Failure;
use crate::world::exchanges::is_copied;
use crate::world::returns::is_lost;
use crate::world::session::refused;

/// Drives of a pool that grows no further.
const DRIVES_MOST: usize = 12;
/// Drives join in the first quarter of a day only: a larger pool has larger tables, and it is to
/// be seen that they grow no more.
const JOINS_PERCENT: u64 = 25;

impl Day {
    pub(super) fn draining(&self) -> Vec<usize> {
        let progress = self.pool.status().rebuild.drives.into_iter();
        let drained = progress.filter(|one| one.work == engine::RebuildWork::Drain);
        drained.map(|one| one.drive.into()).collect()
    }

    fn draw_drive(&mut self) -> usize {
        self.world.rng.index(self.world.plan.drives)
    }

    /// An operator says that a drive is not to be used any more.
    pub(super) fn fail_drive(&mut self) -> Result<bool, Failure> {
        let Some(drive) = self.draw_victim() else { return Ok(false) };
        self.tell(|| format!("drive {drive} is failed by an operator"));
        let fail = self.pool.drive_fail(drive as u16, "an operator said so", false);
        let done = self.world.complete("failing a drive", fail)?;
        match done {
            Ok(()) => {}
            Err(DriveVerbError::Needed { .. }) => return Ok(false),
            Err(error) => return Err(refused(&format!("fail drive {drive}"), &error)),
        }
        self.degraded_since = None;
        Ok(true)
    }

    /// A lost one comes back, or another one takes its place.
    pub(super) fn replace_drive(&mut self) -> Result<bool, Failure> {
        let lost = (0..self.world.plan.drives).filter(|&drive| is_lost(&self.pool, drive));
        let spells: Vec<usize> = self.spells.iter().map(|spell| spell.drive).collect();
        let copied = |at: &usize| self.world.machine.beside.iter().any(|one| one.at == *at);
        let lost: Vec<usize> =
            lost.filter(|drive| !spells.contains(drive) && !copied(drive)).collect();
        if lost.is_empty() {
            return Ok(false);
        }
        let drive = lost[self.world.rng.index(lost.len())];
        let pool = self.pool.clone();
        if self.world.rng.chance(1, 2) {
            // What was pulled out is plugged in again.
            let disk = self.world.machine.disks[drive].clone();
            disk.set_failed(false);
            self.world.replace(&pool, drive, disk, "comes back")?;
        } else {
            let disk = self.world.new_disk(drive);
            disk.set_failed(false);
            self.world.replace(&pool, drive, disk, "is replaced")?;
        }
        self.rot_is_back(drive);
        Ok(true)
    }

    /// A drive that works is copied onto another.
    pub(super) fn exchange_drive(&mut self) -> Result<bool, Failure> {
        if !self.world.machine.beside.is_empty() {
            return Ok(false);
        }
        let Some(exchange) = self.world.new_exchange(&self.pool, Nanos::ZERO) else {
            return Ok(false);
        };
        let begun = exchange.happen(self.world.context(), self.pool.clone());
        let begun = self.world.complete("beginning an exchange", begun)?;
        if begun {
            self.copied = false;
        } else {
            self.world.machine.beside.clear();
        }
        Ok(begun)
    }

    /// Which drives are the pool's after copies have ended. Those that were lost meanwhile are
    /// given their successor a moment later, so this is believed when it is seen twice.
    pub(super) fn settle_copies(&mut self) {
        if is_copied(&self.pool) {
            self.copied = false;
            return;
        }
        if !std::mem::replace(&mut self.copied, true) || self.world.machine.beside.is_empty() {
            return;
        }
        let disks = self.world.machine.beside.iter().map(|beside| beside.disk.clone());
        let names: Vec<_> = disks.map(|disk| self.world.machine.name_of(&disk)).collect();
        for (beside, name) in self.world.machine.beside.iter_mut().zip(names) {
            beside.uuid = name;
        }
        self.world.settle_exchanges(&self.pool);
    }

    pub(super) fn remove_drive(&mut self) -> Result<bool, Failure> {
        let (out, burden) = (self.draining(), self.burden());
        let mut active = self.world.active(&self.pool);
        active.retain(|drive| !out.contains(drive) && !burden.contains(drive));
        let many = self.world.plan.drives - active.len() >= OUT_MOST;
        if !out.is_empty() || many || active.len() <= self.world.widest() + 1 {
            return Ok(false);
        }
        let drive = active[self.world.rng.index(active.len())];
        let removed = self.pool.drive_remove(drive as u16);
        let done = self.world.complete("removing", removed)?;
        self.tell(|| format!("drive {drive} is removed: {done:?}"));
        Ok(done.is_ok())
    }

    pub(super) fn stay_drive(&mut self) -> Result<bool, Failure> {
        let out = self.draining();
        let Some(&drive) = out.first() else { return Ok(false) };
        let stays = self.pool.drive_remove_stop(drive as u16);
        let done = self.world.complete("staying", stays)?;
        self.tell(|| format!("drive {drive} is to stay: {done:?}"));
        Ok(done.is_ok())
    }

    pub(super) fn decide_drive(&mut self) -> Result<bool, Failure> {
        let drive = self.draw_drive();
        let decided = match self.world.rng.below(4) {
            0 => DriveOverride::SitOut,
            1 => DriveOverride::Trusted,
            _ => DriveOverride::Automatic,
        };
        self.tell(|| format!("drive {drive}: {decided}"));
        let done = self.pool.drive_decide(drive as u16, decided);
        done.map_err(|error| refused(&format!("decide about drive {drive}"), &error))?;
        Ok(true)
    }

    /// Nobody waits for them to be filled.
    pub(super) fn add_drives(&mut self) -> Result<bool, Failure> {
        let drives = self.pool.status().drives;
        let whole = drives.iter().all(|drive| drive.state == DriveState::Active);
        let calm = self.burden().is_empty() && self.world.machine.beside.is_empty();
        let full = self.world.plan.drives + 2 > DRIVES_MOST;
        if !whole || !calm || full || self.percent() >= JOINS_PERCENT {
            return Ok(false);
        }
        let addition = self.world.new_addition(self.now());
        let joined = addition.happen(self.world.context(), self.pool.clone());
        let joined = self.world.complete("joining", joined)?;
        let beside = std::mem::take(&mut self.world.machine.beside);
        if joined {
            self.world.context.count(|tally| tally.drives_joined += beside.len() as u64);
            self.world.take_in(beside.into_iter().map(|beside| beside.disk).collect());
        }
        Ok(joined)
    }
}
