//! Drives join between sessions, with the power going at any write of it, and zones move to them
//! while clients run.

use engine::{AddError, OpenOptions, Pool, add_drives};
use io::Env;
use io::Nanos;
use io::faulty::Faults;
use io::rng::mix;
use io::virt::{Disk, VirtDrive, VirtEnv};

use super::session::{facts_of, refused};
use super::{Fill, World};
use crate::failure::{Check, Failure};
use crate::machine::Death;

/// Drives of a pool that grows no further: worlds are small.
const DRIVES_MOST: usize = 12;
/// Writes of an addition: the ends of each new drive are erased, and all get labels.
const WRITES_MOST: u64 = 50;
/// Virtual time in which a pool with room must have moved to all of its drives.
const BALANCED_WITHIN: Nanos = Nanos::from_secs(120);
const LOOK: Nanos = Nanos::from_millis(500);

impl World {
    /// Drives join at times, if all are there and the pool was closed, or is for it.
    pub(super) fn join_sometimes(&mut self) -> Result<(), Failure> {
        if !self.plan.joins || self.plan.drives >= DRIVES_MOST || self.rng.chance(1, 3) {
            return Ok(());
        }
        if self.rng.chance(2, 3) && self.machine.unplugged.is_empty() {
            let pool = self.open()?;
            self.close(pool)?;
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

    fn take_in(&mut self, new: Vec<Disk>) {
        let seed = self.plan.seed;
        for disk in new {
            let at = self.plan.drives;
            self.machine.disks.truncate(at);
            self.machine.disks.push(disk);
            self.machine.faults.truncate(at);
            self.machine.faults.push(Faults::new(mix(seed) ^ mix(at as u64)));
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
