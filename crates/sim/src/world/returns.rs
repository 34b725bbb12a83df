//! Lost drives come back, or others take their places, between sessions and while clients run.

use std::cell::RefCell;
use std::rc::Rc;

use engine::{DriveState, DriveVerbError, Pool};
use io::rng::mix;
use io::virt::{Disk, VirtDrive, VirtEnv};
use io::{Env, Nanos};

use super::World;
use super::context::Context;
use super::session::facts_of;
use crate::failure::{Check, Failure};
use crate::machine::Death;

/// Drives are replaced within this time of a session: most of its clients' requests.
const WITHIN: Nanos = Nanos::from_millis(60);
/// Virtual time in which a pool that nobody troubles must be whole: twice as long as restoring
/// waits before it looks again at what it could not compute, and a while for the work itself.
const WHOLE_WITHIN: Nanos = Nanos::from_secs(180);
const LOOK: Nanos = Nanos::from_millis(500);

/// A drive that takes a lost one's place later.
pub(super) struct Return {
    at: Nanos,
    victim: usize,
    disk: Disk,
    drive: VirtDrive,
    replaced: Rc<RefCell<Vec<(usize, Disk)>>>,
}

impl Return {
    pub(super) async fn happen(self, context: Rc<Context>, pool: Pool<VirtEnv>) {
        context.env.sleep_until(self.at).await;
        if !is_lost(&pool, self.victim) {
            return;
        }
        let victim = self.victim;
        context.tell(|| format!("a new drive takes the place of drive {victim}"));
        let done = pool.drive_replace(victim as u16, self.drive).await;
        context.tell(|| format!("drive {victim}: {done:?}"));
        if done.is_ok() {
            self.replaced.borrow_mut().push((victim, self.disk));
        }
    }
}

pub(super) fn is_lost(pool: &Pool<VirtEnv>, drive: usize) -> bool {
    matches!(
        pool.status().drives[drive].state,
        DriveState::Missing | DriveState::Failed | DriveState::Vacated
    )
}

impl World {
    /// Most lost drives come back, as they are or as new ones.
    pub(super) fn replace_lost(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        for victim in self.lost(pool) {
            let often = if self.plan.rebuilds { 1 } else { 2 };
            if !self.rng.chance(often, 3) {
                continue;
            }
            let same = self.rng.chance(1, 2) && !self.machine.disks[victim].is_failed();
            if same {
                let disk = self.machine.disks[victim].clone();
                self.replace(pool, victim, disk, "comes back")?;
            } else {
                let disk = self.new_disk(victim);
                self.replace(pool, victim, disk, "is replaced")?;
            }
        }
        Ok(())
    }

    fn lost(&self, pool: &Pool<VirtEnv>) -> Vec<usize> {
        let victims = self.plan.victims.iter().copied();
        victims.filter(|&victim| self.plan.returns && is_lost(pool, victim)).collect()
    }

    /// Blank, or what another drive of the pool holds.
    pub(super) fn new_disk(&mut self, victim: usize) -> Disk {
        if self.rng.chance(1, 3) {
            let disk = self.machine.disks[(victim + 1) % self.plan.drives].fork();
            if self.plan.rebuilds {
                // That one may have died for good.
                disk.set_failed(false);
            }
            return disk;
        }
        let seed = mix(self.plan.seed ^ self.rng.next_u64());
        Disk::new(format!("d{victim}"), self.plan.drive_bytes, 4096, seed)
    }

    pub(super) fn replace(
        &mut self,
        pool: &Pool<VirtEnv>,
        victim: usize,
        disk: Disk,
        how: &str,
    ) -> Result<(), Failure> {
        self.context.tell(|| format!("drive {victim} {how}"));
        let drive = self.machine.attach(victim, &disk);
        let done = self.complete("replacing", pool.drive_replace(victim as u16, drive))?;
        self.context.tell(|| format!("drive {victim}: {done:?}"));
        match done {
            Ok(()) => {
                self.machine.disks[victim] = disk;
                self.machine.unplugged.remove(&victim);
                self.context.count(|tally| tally.drives_replaced += 1);
            }
            // It may fail at once.
            Err(
                DriveVerbError::Drive { .. }
                | DriveVerbError::FailedAtOnce { .. }
                | DriveVerbError::Request(_),
            ) => {}
            Err(error) => {
                let what = format!("drive {victim} is not taken: {error}");
                return Err(Failure::new(Check::Request, what));
            }
        }
        Ok(())
    }

    /// A drive that takes a lost one's place in this session, if one does.
    pub(super) fn draw_return(&mut self, pool: &Pool<VirtEnv>) -> Option<Return> {
        if !self.plan.returns || !self.rng.chance(2, 3) {
            return None;
        }
        let victims = self.plan.victims.clone();
        let lost = self.lost(pool);
        let victim = lost.first().copied().unwrap_or(victims[self.rng.index(victims.len())]);
        let disk = self.new_disk(victim);
        let drive = self.machine.attach(victim, &disk);
        let at = self.machine.env.now() + Nanos(self.rng.below(WITHIN.0));
        Some(Return { at, victim, disk, drive, replaced: self.replaced.clone() })
    }

    /// What took a place while clients ran is there from now on.
    pub(super) fn plug_replaced(&mut self) {
        for (victim, disk) in self.replaced.take() {
            self.machine.disks[victim] = disk;
            self.machine.unplugged.remove(&victim);
            self.context.count(|tally| tally.drives_replaced += 1);
        }
    }

    /// With no more faults and a drive for every lost one, nothing is lost any more.
    pub(super) fn becomes_whole(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if !self.plan.returns {
            return Ok(());
        }
        let mut lost = self.lost(pool);
        if self.plan.rebuilds {
            // One that is being removed stays after all.
            for drive in 0..self.plan.drives as u16 {
                drop(self.complete("staying", pool.drive_remove_stop(drive))?);
            }
            lost = (0..self.plan.drives).filter(|&drive| is_lost(pool, drive)).collect();
        }
        for victim in lost {
            let disk = self.new_disk(victim);
            self.replace(pool, victim, disk, "is replaced, and now for good")?;
        }
        self.until_whole(pool)
    }

    /// What is whole bears the loss of other drives than before, at once: the pool dies, and is
    /// opened without them. Then they come back.
    pub(super) fn bears_others(&mut self, pool: Pool<VirtEnv>) -> Result<Pool<VirtEnv>, Failure> {
        // Rebuilding and copying that the death cuts short go on later: what ends such runs expects
        // that they do not.
        if !self.plan.returns || self.plan.rebuilds || self.plan.exchanges {
            return Ok(pool);
        }
        let mut others: Vec<usize> = (0..self.plan.drives).collect();
        others.retain(|drive| !self.plan.victims.contains(drive));
        self.rng.shuffle(&mut others);
        others.truncate(self.plan.parity_least().into());
        self.note_counters(&pool);
        drop(pool);
        let death = Death::draw(&mut self.rng);
        self.die(death);
        self.context.tell(|| format!("drives {others:?} are not plugged in"));
        self.machine.unplugged.extend(&others);
        let pool = self.open()?;
        for other in others {
            self.machine.unplugged.remove(&other);
            let disk = self.machine.disks[other].clone();
            self.replace(&pool, other, disk, "comes back")?;
        }
        self.until_whole(&pool)?;
        Ok(pool)
    }

    pub(super) fn until_whole(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let env = self.machine.env.clone();
        let begin = env.now();
        loop {
            let drives = pool.status().drives;
            if drives.iter().all(|drive| drive.state == DriveState::Active) {
                return Ok(());
            }
            if env.now().saturating_sub(begin) > WHOLE_WITHIN {
                let awaited: Vec<_> = drives.iter().map(|drive| drive.awaited).collect();
                let what =
                    format!("the pool does not become whole: {awaited:?}, {}", facts_of(pool));
                return Err(Failure::new(Check::Liveness, what));
            }
            self.complete("becoming whole", env.sleep_until(env.now() + LOOK))?;
        }
    }
}
