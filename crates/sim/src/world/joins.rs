//! Drives join between sessions, with the power going at any write of it, and zones move to them
//! while clients run.

use std::rc::Rc;

use engine::{AddError, DriveState, OpenOptions, Pool, add_drives};
use io::Env;
use io::Nanos;
use io::faulty::Faults;
use io::rng::mix;
use io::virt::{Disk, VirtDrive, VirtEnv};

use super::context::Context;
use super::session::{facts_of, refused};
use super::{Fill, World, modelled};
use crate::failure::{Check, Failure};
use crate::machine::{Beside, Death};

/// Drives of a pool that grows no further: worlds are small.
const DRIVES_MOST: usize = 12;
/// Writes of an addition: the ends of each new drive are erased, and all get labels.
const WRITES_MOST: u64 = 50;
/// Drives join within this time of a session: most of its clients' requests.
const WITHIN: Nanos = Nanos::from_millis(60);
/// Virtual time in which a pool with room must have moved to all of its drives.
const BALANCED_WITHIN: Nanos = Nanos::from_secs(120);
const LOOK: Nanos = Nanos::from_millis(500);

/// Drives that join while clients run.
pub(super) struct Addition {
    at: Nanos,
    drives: Vec<VirtDrive>,
}

impl Addition {
    /// True if they have joined.
    pub(super) async fn happen(self, context: Rc<Context>, pool: Pool<VirtEnv>) -> bool {
        context.env.sleep_until(self.at).await;
        let count = self.drives.len();
        context.tell(|| format!("{count} drives are to join"));
        let done = pool.drives_add(&self.drives).await;
        context.tell(|| format!("joining: {done:?}"));
        match &done {
            Ok(_)
            | Err(
                AddError::Missing { .. }
                | AddError::Busy { .. }
                | AddError::Drive { .. }
                | AddError::Request(_),
            ) => {}
            Err(error) => context.fail(refused("add drives", error)),
        }
        done.is_ok()
    }
}

impl World {
    /// Drives that join in this session, if some do. A single one may fail, if no other may.
    pub(super) fn draw_addition(&mut self) -> Option<Addition> {
        let full = self.plan.drives >= DRIVES_MOST;
        if !self.plan.joins_in_use || full || self.rng.chance(1, 3) {
            return None;
        }
        let at = self.machine.env.now() + Nanos(self.rng.below(WITHIN.0));
        let addition = self.new_addition(at);
        if self.plan.victims.is_empty() && self.pulled_out.is_empty() && self.rng.chance(1, 3) {
            let first = self.machine.beside.last().expect("one joins");
            first.disk.fail_nth_write(1 + self.rng.below(WRITES_MOST));
            self.pulled_out.insert(first.at);
        }
        Some(addition)
    }

    pub(super) fn new_addition(&mut self, at: Nanos) -> Addition {
        let new = self.new_members();
        let drives = self.attach_new(&new);
        for (at, disk) in (self.plan.drives..).zip(new) {
            self.machine.beside.push(Beside { at, disk, uuid: None });
        }
        Addition { at, drives }
    }

    /// With no more faults drives can join.
    pub(super) fn joins_for_good(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let whole = pool.status().drives.iter().all(|drive| drive.state == DriveState::Active);
        if !self.plan.joins_in_use || self.plan.drives >= DRIVES_MOST || !whole {
            return Ok(());
        }
        let addition = self.new_addition(self.machine.env.now());
        let joined = addition.happen(self.context.clone(), pool.clone());
        match self.complete("joining", joined)? {
            true => {
                let beside = std::mem::take(&mut self.machine.beside);
                self.take_in(beside.into_iter().map(|beside| beside.disk).collect());
                Ok(())
            }
            false => {
                let what = format!("drives can't join: {}", facts_of(pool));
                Err(Failure::new(Check::Liveness, what))
            }
        }
    }

    /// Drives join at times, if all are there and the pool was closed, or is for it.
    pub(super) fn join_sometimes(&mut self) -> Result<(), Failure> {
        if !self.plan.joins || self.plan.drives >= DRIVES_MOST || self.rng.chance(1, 3) {
            return Ok(());
        }
        // It may not be known yet who joined last time.
        let known = self.machine.beside.is_empty();
        if (self.rng.chance(2, 3) || !known) && self.machine.unplugged.is_empty() {
            let pool = self.open()?;
            self.close(pool)?;
        }
        if !self.machine.beside.is_empty() || self.plan.drives >= DRIVES_MOST {
            return Ok(());
        }
        let new = self.new_members();
        let count = new.len();
        self.context.tell(|| format!("{count} drives join"));
        let env = self.machine.env.clone();
        let dies = self.rng.chance(1, 2);
        let limit = if dies { self.rng.below(WRITES_MOST) } else { u64::MAX / 2 };
        env.set_write_limit(env.writes_issued() + limit);
        let old = self.machine.drives();
        let drives = self.attach_new(&new);
        let stop = || env.write_limit_reached();
        let done = env.run_until(add_drives(&env, &old, &drives), stop);
        drop((old, drives));
        env.set_write_limit(u64::MAX);
        self.context.tell(|| format!("joining: {done:?}"));
        let joined = match done {
            Some(Ok(_)) => true,
            Some(Err(AddError::NotClean { .. } | AddError::Missing { .. })) => false,
            // A drive that refuses a label has failed, but others may have theirs.
            Some(Err(AddError::Drive { .. })) => self.have_joined(&new)?,
            Some(Err(error)) => return Err(refused("add drives", &error)),
            None => {
                let death = Death::draw(&mut self.rng);
                self.machine.disks.extend(new.iter().cloned());
                self.die(death);
                self.machine.disks.truncate(self.plan.drives);
                self.have_joined(&new)?
            }
        };
        if joined {
            self.context.count(|tally| tally.drives_joined += count as u64);
            self.take_in(new);
        }
        Ok(())
    }

    fn new_members(&mut self) -> Vec<Disk> {
        let first = self.plan.drives;
        let count = 1 + self.rng.index(2);
        let disk = |at: usize| {
            let larger = self.rng.chance(1, 3);
            let bytes = self.plan.drive_bytes + if larger { self.plan.larger_by } else { 0 };
            Disk::new(format!("d{at}"), bytes, 4096, mix(self.plan.seed ^ self.rng.next_u64()))
        };
        (first..first + count).map(disk).collect()
    }

    fn attach_new(&self, new: &[Disk]) -> Vec<VirtDrive> {
        (self.plan.drives..).zip(new).map(|(at, disk)| self.machine.attach(at, disk)).collect()
    }

    /// Whether the pool has these drives now. Without labels they are none of it.
    fn have_joined(&mut self, new: &[Disk]) -> Result<bool, Failure> {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let env = self.machine.env.clone();
        let look = |drives| async {
            let pool = Pool::open(&env, drives, options).await?;
            let members = pool.status().drives.len();
            let _ = pool.close().await;
            Ok::<usize, engine::OpenError>(members)
        };
        let mut drives = self.machine.drives();
        drives.extend(self.attach_new(new));
        let members = match self.complete("looking who joined", look(drives))? {
            Ok(members) => members,
            Err(engine::OpenError::NotOurs { .. }) => self.plan.drives,
            Err(error) => {
                return Err(Failure::new(Check::Open, format!("after joining: {error}")));
            }
        };
        self.die(Death::Kill);
        self.context.tell(|| format!("the pool has {members} drives"));
        Ok(members > self.plan.drives)
    }

    pub(super) fn take_in(&mut self, new: Vec<Disk>) {
        let seed = self.plan.seed;
        for disk in new {
            let at = self.plan.drives;
            self.machine.disks.truncate(at);
            self.machine.disks.push(disk);
            self.machine.faults.truncate(at);
            self.machine.faults.push(Faults::new(mix(seed) ^ mix(at as u64)));
            if self.plan.modelled {
                let model = modelled::drive(seed, at, self.machine.disks[at].geometry().size);
                self.machine.model_another(Box::new(model));
            }
            self.plan.drives += 1;
        }
    }

    /// Zones move to all drives from now on, at times.
    pub(super) fn rebalance_sometimes(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if !self.plan.joins || self.rng.chance(1, 3) {
            return Ok(());
        }
        self.context.tell(|| "zones move to all drives".into());
        let done = self.complete("rebalancing", pool.rebalance())?;
        done.map_err(|error| refused("rebalance", &error))
    }

    /// With room nothing keeps zones from moving.
    pub(super) fn becomes_balanced(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if !self.plan.joins {
            return Ok(());
        }
        if self.plan.fill != Fill::Calm {
            let done = self.complete("rebalancing", pool.rebalance_stop())?;
            return done.map_err(|error| refused("stop rebalancing", &error));
        }
        let done = self.complete("rebalancing", pool.rebalance())?;
        done.map_err(|error| refused("rebalance", &error))?;
        let env = self.machine.env.clone();
        let begin = env.now();
        while pool.rebalance_status().zones_left > 0 {
            if env.now().saturating_sub(begin) > BALANCED_WITHIN {
                let status = pool.rebalance_status();
                let what = format!("zones do not move: {status:?}, {}", facts_of(pool));
                return Err(Failure::new(Check::Liveness, what));
            }
            self.complete("moving zones", env.sleep_until(env.now() + LOOK))?;
        }
        Ok(())
    }
}
