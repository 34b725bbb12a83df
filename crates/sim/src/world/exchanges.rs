//! Drives that work are exchanged for others, while clients run and before, and machines die in
//! the midst of it. Then both are plugged in, as long as both say that they are of the pool; which
//! of them is, the pool decides. As it does of drives that join (`joins`).

use std::rc::Rc;

use engine::{DriveState, DriveVerbError, Pool};
use io::virt::{Disk, VirtDrive, VirtEnv};
use io::{Env, Nanos};

use super::World;
use super::context::Context;
use super::session::{facts_of, refused};
use crate::failure::{Check, Failure};
use crate::machine::Beside;

/// Drives are exchanged within this time of a session: most of its clients' requests.
const WITHIN: Nanos = Nanos::from_millis(60);
/// How far one comes before the session's clients begin.
const STEPS_MAX: u64 = 40;
const STEP: Nanos = Nanos::from_millis(10);
/// New drives that fail do so at one of their first writes: most of the copy.
const WRITES_MOST: u64 = 60;
/// Virtual time in which a drive that nobody troubles must have been exchanged.
const DONE_WITHIN: Nanos = Nanos::from_secs(120);

/// A drive that takes the place of one that works.
pub(super) struct Exchange {
    at: Nanos,
    index: usize,
    drive: VirtDrive,
}

impl Exchange {
    /// True if it has begun.
    pub(super) async fn happen(self, context: Rc<Context>, pool: Pool<VirtEnv>) -> bool {
        context.env.sleep_until(self.at).await;
        let index = self.index;
        if pool.status().drives[index].state != DriveState::Active {
            return false;
        }
        context.tell(|| format!("drive {index} is to be exchanged"));
        let done = pool.drive_replace(index as u16, self.drive).await;
        context.tell(|| format!("drive {index}: {done:?}"));
        match &done {
            // Another one may be under way, and any may fail.
            Ok(())
            | Err(
                DriveVerbError::NotLost { .. }
                | DriveVerbError::Drive { .. }
                | DriveVerbError::Request(_),
            ) => {}
            Err(error) => context.fail(refused(&format!("exchange drive {index}"), error)),
        }
        done.is_ok()
    }
}

pub(super) fn is_copied(pool: &Pool<VirtEnv>) -> bool {
    pool.status().drives.iter().any(|drive| drive.replacing.is_some())
}

impl World {
    /// A drive that works, and another for its place. One that counts among the drives that may be
    /// lost may get one that fails.
    pub(super) fn new_exchange(&mut self, pool: &Pool<VirtEnv>, after: Nanos) -> Option<Exchange> {
        let taken = |at: usize| self.machine.beside.iter().any(|beside| beside.at == at);
        let drives = pool.status().drives;
        let works = |at: &usize| drives[*at].state == DriveState::Active && !taken(*at);
        let works: Vec<usize> = (0..self.plan.drives).filter(works).collect();
        if works.is_empty() {
            return None;
        }
        let index = works[self.rng.index(works.len())];
        let disk = self.new_disk(index);
        disk.set_failed(false);
        if self.plan.victims.contains(&index) && self.rng.chance(1, 2) {
            disk.fail_nth_write(1 + self.rng.below(WRITES_MOST));
            self.pulled_out.insert(index);
        }
        let drive = self.machine.attach(index, &disk);
        self.put_beside(index, disk);
        Some(Exchange { at: self.machine.env.now() + after, index, drive })
    }

    fn put_beside(&mut self, at: usize, disk: Disk) {
        self.machine.beside.push(Beside { at, disk, uuid: None });
    }

    /// A drive is exchanged before clients come, at times wholly.
    pub(super) fn exchange_sometimes(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if !self.plan.exchanges || !self.rng.chance(1, 2) {
            return Ok(());
        }
        let Some(exchange) = self.new_exchange(pool, Nanos::ZERO) else { return Ok(()) };
        let begun = exchange.happen(self.context.clone(), pool.clone());
        self.complete("beginning an exchange", begun)?;
        let env = self.machine.env.clone();
        for _ in 0..self.rng.below(STEPS_MAX) {
            if !is_copied(pool) {
                break;
            }
            self.complete("exchanging", env.sleep_until(env.now() + STEP))?;
        }
        Ok(())
    }

    /// One that is exchanged while clients run, if one is.
    pub(super) fn draw_exchange(&mut self, pool: &Pool<VirtEnv>) -> Option<Exchange> {
        if !self.plan.exchanges || !self.rng.chance(1, 2) {
            return None;
        }
        let after = Nanos(self.rng.below(WITHIN.0));
        self.new_exchange(pool, after)
    }

    /// The pool has said which drives are its own; others leave, but for those onto which it goes
    /// on to copy.
    pub(super) fn settle_exchanges(&mut self, pool: &Pool<VirtEnv>) {
        let members = pool.status().drives;
        for Beside { at, disk, uuid } in std::mem::take(&mut self.machine.beside) {
            let (name, replaces) = self.machine.names_on(&disk).unzip();
            // One that was given a lost drive's place has another name by now.
            let uuid = uuid.and(name);
            let member = members.get(at).map(|member| member.uuid.to_string());
            let is_member = uuid.is_some() && uuid == member;
            if !is_member && member.is_some() && replaces.flatten() == member {
                self.context.tell(|| format!("drive {at} is copied again"));
                self.machine.beside.push(Beside { at, disk, uuid });
                continue;
            }
            self.context.tell(|| {
                let which = if is_member { "the new one" } else { "as it was" };
                format!("drive {at} is {which}")
            });
            if is_member && at == self.plan.drives {
                self.take_in(vec![disk]);
                self.context.count(|tally| tally.drives_joined += 1);
            } else if is_member {
                self.machine.disks[at] = disk;
                self.machine.unplugged.remove(&at);
                self.context.count(|tally| tally.drives_exchanged += 1);
            }
        }
    }

    /// With no more faults a drive is exchanged, and soon.
    pub(super) fn exchange_for_good(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if !self.plan.exchanges {
            return Ok(());
        }
        let env = self.machine.env.clone();
        let begin = env.now();
        self.settle_exchanges(pool);
        while !self.machine.beside.is_empty() && env.now().saturating_sub(begin) < DONE_WITHIN {
            self.complete("going on to exchange", env.sleep_until(env.now() + STEP))?;
            self.settle_exchanges(pool);
        }
        let begin = env.now();
        let index = self.rng.index(self.plan.drives);
        let before = pool.status().drives[index].uuid;
        let disk = self.new_disk(index);
        disk.set_failed(false);
        let drive = self.machine.attach(index, &disk);
        self.put_beside(index, disk);
        let exchange = Exchange { at: begin, index, drive };
        let begun =
            self.complete("exchange", exchange.happen(self.context.clone(), pool.clone()))?;
        while is_copied(pool) {
            if env.now().saturating_sub(begin) > DONE_WITHIN {
                let what = format!("drive {index} is not exchanged: {}", facts_of(pool));
                return Err(Failure::new(Check::Liveness, what));
            }
            self.complete("exchanging", env.sleep_until(env.now() + STEP))?;
        }
        if !begun || pool.status().drives[index].uuid == before {
            let what = format!("drive {index} was not exchanged: {}", facts_of(pool));
            return Err(Failure::new(Check::Liveness, what));
        }
        Ok(())
    }
}
