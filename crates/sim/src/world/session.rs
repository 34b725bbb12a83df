//! One session of a world: opened with what drives there are, used, and ended.

use engine::Pool;
use futures_util::future::join_all;
use io::rng::{Rng, mix};
use io::virt::VirtEnv;
use io::{Env, Nanos, Operation};

use super::client::Client;
use super::verify::unknown_volumes;
use super::{Canary, World, verify_volumes};
use crate::machine::Death;

/// Deaths during one opening.
const DEATHS_IN_RECOVERY_MAX: usize = 3;

impl World {
    /// Victims come and go between sessions. One that the engine gave up stays given up, and
    /// a drive that is dead can't be opened.
    pub(super) fn plug_drives(&mut self) {
        for &victim in &self.plan.victims.clone() {
            let disk = &self.machine.disks[victim];
            if disk.is_failed() && self.rng.chance(1, 2) {
                disk.set_failed(false);
            }
            let absent = self.rng.chance(1, 4);
            if disk.is_failed() || absent {
                self.machine.unplugged.insert(victim);
                self.context.count(|tally| tally.drives_lost += 1);
            } else {
                self.machine.unplugged.remove(&victim);
            }
        }
    }

    /// Opens the pool, dying sometimes on the way, and verifies all there is.
    pub(super) fn open_dying(&mut self) -> Result<Pool<VirtEnv>, String> {
        let most = if self.rng.chance(1, 3) { DEATHS_IN_RECOVERY_MAX } else { 0 };
        for _ in 0..self.rng.index(most + 1) {
            let env = self.machine.env.clone();
            env.set_write_limit(env.writes_issued() + self.rng.below(120));
            let opened = env.run_until(self.machine.open(), || env.write_limit_reached());
            if let Some(Err(error)) = opened {
                return Err(format!("open: {error}"));
            }
            drop(opened);
            let death = Death::draw(&mut self.rng);
            self.die(death);
            self.context.count(|tally| tally.deaths_in_recovery += 1);
        }
        self.open()
    }

    /// Opens the pool and verifies all there is.
    pub(super) fn open(&mut self) -> Result<Pool<VirtEnv>, String> {
        let opened = self.complete("opening", self.machine.open())?;
        let pool = opened.map_err(|error| format!("open: {error}"))?;
        let recovery = pool.status().recovery;
        self.context.count(|tally| {
            tally.records_dropped += recovery.records_dropped;
            tally.copies_healed += recovery.copies_healed;
        });
        let unknown = unknown_volumes(&pool, &self.context.oracle.borrow());
        if !unknown.is_empty() {
            return Err(format!("volumes out of nowhere: {unknown:?}"));
        }
        let verified = self.complete("verifying", verify_volumes(&pool, &self.context.oracle))?;
        verified?;
        Ok(pool)
    }

    /// Makes what volumes are missing, and at times deletes one first.
    pub(super) fn make_volumes(&mut self, pool: &Pool<VirtEnv>) -> Result<(), String> {
        let present = self.context.oracle.borrow().names();
        if !present.is_empty() && self.rng.chance(1, 6) {
            let name = &present[self.rng.index(present.len())];
            let deleted = self.complete("deleting", pool.volume_delete(name))?;
            deleted.map_err(|error| format!("delete {name}: {error}"))?;
            self.context.oracle.borrow_mut().volume_remove(name);
        }
        for volume in self.plan.volumes.clone() {
            if pool.volume(&volume.name).is_some() {
                continue;
            }
            let (parity, width) = (Some(volume.parity), Some(volume.width));
            let create = pool.volume_create(&volume.name, volume.bytes, parity, width);
            let created = self.complete("making a volume", create)?;
            created.map_err(|error| format!("make {}: {error}", volume.name))?;
            self.context.oracle.borrow_mut().volume_add(&volume.name, volume.bytes);
        }
        Ok(())
    }

    pub(super) fn all_clients(
        &mut self,
        pool: &Pool<VirtEnv>,
        salt: u64,
    ) -> Result<Vec<Client>, String> {
        let mut clients = Vec::new();
        for number in 0..self.plan.clients {
            let plan = self.plan.volumes[number % self.plan.volumes.len()].clone();
            let volume = pool.volume(&plan.name).ok_or("the volume was just made")?;
            let blocks = u64::from(plan.width) - u64::from(plan.parity);
            let mut rng = Rng::new(mix(self.rng.next_u64() ^ salt ^ number as u64));
            clients.push(Client {
                context: self.context.clone(),
                name: plan.name,
                mix: self.plan.mix.clone(),
                stripe: blocks * u64::from(volume.block_size()),
                cursor: rng.below(volume.size() / 4096 + 1) * 4096,
                volume,
                rng,
            });
        }
        Ok(clients)
    }

    /// Clients work until they are through or the machine dies.
    pub(super) fn clients(&mut self, pool: &Pool<VirtEnv>) -> Result<(), String> {
        if std::mem::take(&mut self.plan.prefill) {
            self.prefill(pool)?;
        }
        let clients = self.all_clients(pool, 0)?;
        let requests = self.plan.requests;
        self.start_trouble();
        let env = self.machine.env.clone();
        let dies = self.rng.chance(3, 4);
        let (by_write, few) = (self.rng.chance(2, 3), self.rng.chance(1, 2));
        let writes = self.rng.below(if few { 300 } else { 6000 });
        let moment =
            env.now() + Nanos::from_micros(self.rng.below(if few { 5_000 } else { 500_000 }));
        if dies && by_write {
            env.set_write_limit(env.writes_issued() + writes);
        }
        let context = self.context.clone();
        let over = || dies && (env.write_limit_reached() || !by_write && env.now() >= moment);
        let hung = || context.stalled().is_some();
        let all = join_all(clients.into_iter().map(|client| client.run(requests)));
        let done = env.run_until(all, || context.is_failed() || over() || hung());
        if let Some(failure) = context.take_failure() {
            return Err(failure);
        }
        if done.is_none() && !over() {
            return Err(format!("{}; {}", context.stalled().unwrap_or_default(), facts_of(pool)));
        }
        if done.is_some() && !dies && self.rng.chance(1, 2) {
            return self.close(pool.clone());
        }
        self.note_counters(pool);
        let death = Death::draw(&mut self.rng);
        self.context.count(|tally| tally.deaths += 1);
        self.die(death);
        Ok(())
    }

    /// One client for each volume fills it.
    fn prefill(&mut self, pool: &Pool<VirtEnv>) -> Result<(), String> {
        let mut clients = self.all_clients(pool, 0xf111)?;
        clients.truncate(self.plan.volumes.len());
        self.complete("filling", join_all(clients.into_iter().map(Client::fill)))?;
        Ok(())
    }

    /// Arms failures of the victims for this session.
    fn start_trouble(&mut self) {
        for victim in self.plan.victims.clone() {
            if self.machine.unplugged.contains(&victim) {
                continue;
            }
            let disk = self.machine.disks[victim].clone();
            match self.rng.below(6) {
                0 => disk.fail_nth_write(1 + self.rng.below(200)),
                1 => disk.fail_nth_read(1 + self.rng.below(100)),
                2 => {
                    let nth = 1 + self.rng.below(10);
                    disk.fail_nth(Operation::Flush, nth, io::DriveErrorKind::Os(5));
                }
                3 => {
                    let env = self.machine.env.clone();
                    let moment = env.now() + Nanos::from_micros(self.rng.below(100_000));
                    let clock = env.clone();
                    env.spawn(async move {
                        clock.sleep_until(moment).await;
                        disk.set_failed(true);
                    });
                }
                _ => {}
            }
        }
    }

    pub(super) fn release_canary(&mut self) {
        match self.canary {
            Some(Canary::AllLie) => {
                (0..self.plan.drives).for_each(|drive| self.machine.starts_lying(drive));
            }
            Some(Canary::OneLies) => self.machine.starts_lying(0),
            Some(Canary::Rot) => self.machine.rot(0),
            None => {}
        }
    }
}

/// What helps to understand a hang.
fn facts_of(pool: &Pool<VirtEnv>) -> String {
    let status = pool.status();
    let states: Vec<String> = status.drives.iter().map(|drive| drive.state.to_string()).collect();
    format!(
        "failed {:?}, journal {} %, {:?}, {:?}, drives {}",
        status.failed,
        status.journal_fill_percent,
        status.space,
        status.counters,
        states.join(" ")
    )
}
