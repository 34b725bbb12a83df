//! One session of a world: opened with what drives there are, used, and ended.

use engine::{Pool, VolumeError};
use futures_util::future::join;
use io::rng::{Rng, mix};
use io::virt::VirtEnv;
use io::{Env, Nanos, join_all};

use super::client::Client;
use super::plan::VolumePlan;
use super::verify::unknown_volumes;
use super::{Generation, World, verify_volumes};
use crate::failure::{Check, Failure};
use crate::machine::Death;

/// How a session ends, unless its clients are through before.
struct Ending {
    dies: bool,
    /// At this moment; otherwise at a write, which the environment counts.
    at: Option<Nanos>,
}

/// Deaths during one opening.
const DEATHS_IN_RECOVERY_MAX: usize = 3;

impl World {
    /// One session: opened with what drives there are, used by clients, ended by death or a
    /// clean close.
    pub(super) fn session(&mut self) -> Result<(), Failure> {
        self.plug_drives();
        self.join_sometimes()?;
        self.look_sometimes()?;
        self.rot_at_rest();
        self.arm_troubles(true);
        let pool = self.open_dying()?;
        self.audit_sometimes(&pool)?;
        self.make_volumes(&pool)?;
        self.limit_volumes(&pool)?;
        self.replace_lost(&pool)?;
        self.take_back(&pool, false)?;
        self.exchange_sometimes(&pool)?;
        self.rebalance_sometimes(&pool)?;
        self.lose_more(&pool)?;
        if self.canary.is_some() {
            self.release_canary();
        }
        self.clients(&pool)
    }

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
                self.pulled_out.insert(victim);
                self.context.count(|tally| tally.drives_lost += 1);
                self.context.tell(|| format!("drive {victim} is not plugged in"));
            } else {
                self.machine.unplugged.remove(&victim);
            }
        }
    }

    /// Opens the pool, dying sometimes on the way, and verifies all there is.
    pub(super) fn open_dying(&mut self) -> Result<Pool<VirtEnv>, Failure> {
        let most = if self.rng.chance(1, 3) { DEATHS_IN_RECOVERY_MAX } else { 0 };
        for _ in 0..self.rng.index(most + 1) {
            if !self.plan.deaths_in_opening {
                break;
            }
            self.context.tell(|| "the pool is being opened".into());
            let env = self.machine.env.clone();
            env.set_write_limit(env.writes_issued() + self.rng.below(120));
            let opened = env.run_until(self.machine.open(), || env.write_limit_reached());
            if let Some(Err(error)) = opened {
                return Err(Failure::new(Check::Open, format!("open: {error}")));
            }
            drop(opened);
            let death = Death::draw(&mut self.rng);
            self.die(death);
            self.context.count(|tally| tally.deaths_in_recovery += 1);
        }
        self.open()
    }

    /// Opens the pool and verifies all there is.
    pub(super) fn open(&mut self) -> Result<Pool<VirtEnv>, Failure> {
        let found = self.replay_sometimes()?;
        let opened = self.complete("opening", self.machine.open())?;
        let pool = opened.map_err(|error| Failure::new(Check::Open, format!("open: {error}")))?;
        self.images.opened();
        self.same_as_found(&pool, found)?;
        self.check_limits(&pool)?;
        let recovery = pool.status().recovery;
        self.context.count(|tally| {
            tally.records_dropped += recovery.records_dropped;
            tally.copies_healed += recovery.copies_healed;
        });
        self.tell_opened(&pool);
        let unknown = unknown_volumes(&pool, &self.context.oracle.borrow());
        if !unknown.is_empty() {
            let what = format!("volumes out of nowhere: {unknown:?}");
            return Err(Failure::new(Check::Recovery, what));
        }
        self.complete("verifying", verify_volumes(&pool, &self.context.oracle))??;
        self.settle_exchanges(&pool);
        Ok(pool)
    }

    fn tell_opened(&self, pool: &Pool<VirtEnv>) {
        self.context.tell(|| {
            let status = pool.status();
            let states = status.drives.iter().map(|drive| drive.state.to_string());
            let recovery = status.recovery;
            format!(
                "the pool is open: {}, {} journal blocks replayed, {} records verified, {} \
                 dropped, {} copies healed; drives {}",
                if recovery.clean { "was closed cleanly" } else { "recovered" },
                recovery.blocks_replayed,
                recovery.records_verified,
                recovery.records_dropped,
                recovery.copies_healed,
                states.collect::<Vec<_>>().join(" ")
            )
        });
    }

    /// Makes what volumes are missing, and at times deletes one first.
    pub(super) fn make_volumes(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let present = self.context.oracle.borrow().names();
        if !present.is_empty() && self.rng.chance(1, 6) {
            let name = present[self.rng.index(present.len())].clone();
            if self.plan.deletes {
                self.delete_volume(pool, &name)?;
            }
        }
        for volume in self.plan.volumes.clone() {
            if pool.volume(&volume.name).is_some() {
                continue;
            }
            let (parity, width) = (Some(volume.parity), Some(volume.width));
            let create = pool.volume_create(&volume.name, volume.bytes, parity, width);
            let created = self.complete("making a volume", create)?;
            // A small pool has no room for many shapes, but always for the first.
            if let Err(error @ VolumeError::Crowded { .. }) = &created
                && pool.volume_count() > 0
            {
                self.context.tell(|| format!("volume {} is left out: {error}", volume.name));
                self.plan.volumes.retain(|other| other.name != volume.name);
                continue;
            }
            created.map_err(|error| refused(&format!("make {}", volume.name), &error))?;
            self.context.tell(|| format!("volume {} is made", volume.name));
            self.context.oracle.borrow_mut().volume_add(&volume.name, volume.bytes);
        }
        Ok(())
    }

    pub(super) fn delete_volume(
        &mut self,
        pool: &Pool<VirtEnv>,
        name: &str,
    ) -> Result<(), Failure> {
        self.context.tell(|| format!("volume {name} is deleted"));
        let deleted = self.complete("deleting", pool.volume_delete(name))?;
        deleted.map_err(|error| refused(&format!("delete {name}"), &error))?;
        self.context.oracle.borrow_mut().volume_remove(name);
        self.limits.remove(name);
        Ok(())
    }

    pub(super) fn all_clients(&mut self, pool: &Pool<VirtEnv>, salt: u64) -> Vec<Client> {
        let mut clients = Vec::new();
        for number in 0..self.plan.clients {
            let plan = self.plan.volumes[number % self.plan.volumes.len()].clone();
            clients.push(self.client(pool, &plan, salt ^ number as u64));
        }
        clients
    }

    pub(super) fn client(&mut self, pool: &Pool<VirtEnv>, plan: &VolumePlan, salt: u64) -> Client {
        let volume = pool.volume(&plan.name).expect("the volume was just made");
        let blocks = u64::from(plan.width) - u64::from(plan.parity);
        let mut rng = Rng::new(mix(self.rng.next_u64() ^ salt));
        Client {
            context: self.context.clone(),
            name: plan.name.as_str().into(),
            mix: self.plan.mix.clone(),
            stripe: blocks * u64::from(volume.block_size()),
            cursor: rng.below(volume.size() / 4096 + 1) * 4096,
            volume,
            rng,
        }
    }

    /// Clients work until they are through or the machine dies.
    pub(super) fn clients(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if std::mem::take(&mut self.plan.prefill) {
            self.prefill(pool)?;
        }
        let clients = self.all_clients(pool, 0);
        let requests = self.plan.requests;
        match self.plan.generation {
            Generation::First | Generation::FullPools => self.start_first_troubles(),
            Generation::Swarm | Generation::Tails => self.arm_troubles(false),
        }
        let env = self.machine.env.clone();
        let Ending { dies, at: moment } = self.draw_ending();
        let context = self.context.clone();
        let over = || {
            dies && (env.write_limit_reached() || moment.is_some_and(|moment| env.now() >= moment))
        };
        let hung = || context.stalled().is_some();
        let growth = self.draw_growth().map(|growth| growth.happen(context.clone(), pool.clone()));
        let all = join_all(clients.into_iter().map(|client| client.run(requests)));
        let returns =
            self.draw_return(pool).map(|later| later.happen(context.clone(), pool.clone()));
        let exchange =
            self.draw_exchange(pool).map(|later| later.happen(context.clone(), pool.clone()));
        let addition =
            self.draw_addition().map(|later| later.happen(context.clone(), pool.clone()));
        let rots = self.rot_beside();
        let shelf = self.draw_shelf().map(|shelf| shelf.happen(&context));
        let drives = join(join_all(returns), join(join_all(exchange), join_all(addition)));
        let changes = join(join_all(growth), drives);
        let all = join(all, join(rots, join(join_all(shelf), changes)));
        let done = env.run_until(all, || context.is_failed() || over() || hung());
        self.plug_replaced();
        if let Some(failure) = context.take_failure() {
            return Err(failure);
        }
        if done.is_none() && !over() {
            let what = context.stalled().unwrap_or_default();
            return Err(Failure::new(Check::Hang, format!("{what}; {}", facts_of(pool))));
        }
        let refused = context.is_refused.get();
        if done.is_some() && !refused {
            // Whoever looks at the pool now is not to be cut short.
            env.set_write_limit(u64::MAX);
            self.audit_sometimes(pool)?;
        }
        if done.is_some() && !dies && !refused && self.rng.chance(1, 2) {
            return self.close(pool.clone());
        }
        self.note_counters(pool);
        self.tell_injections();
        let death = Death::draw(&mut self.rng);
        self.context.count(|tally| tally.deaths += 1);
        self.die(death);
        Ok(())
    }

    /// How the session ends: of those that die, most do at a write, some at a moment.
    fn draw_ending(&mut self) -> Ending {
        let env = &self.machine.env;
        let dies = self.rng.chance(3, 4) && self.plan.deaths;
        let (by_write, few) = (self.rng.chance(2, 3), self.rng.chance(1, 2));
        // Of what clients of such worlds need, a part, all of it, or more.
        let (writes_most, micros_most) = match (self.plan.generation, few) {
            (Generation::Swarm, true) => (250, 10_000),
            (Generation::Swarm, false) => (2_000, 100_000),
            // Long enough for drives to hang.
            (Generation::Tails, true) => (1_000, 3_000_000),
            (Generation::Tails, false) => (10_000, 60_000_000),
            (_, true) => (300, 5_000),
            (_, false) => (6_000, 500_000),
        };
        let writes = self.rng.below(writes_most);
        let moment = env.now() + Nanos::from_micros(self.rng.below(micros_most));
        if dies && by_write {
            env.set_write_limit(env.writes_issued() + writes);
        }
        Ending { dies, at: (!by_write).then_some(moment) }
    }

    /// One client for each volume fills it.
    fn prefill(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let mut clients = self.all_clients(pool, 0xf111);
        clients.truncate(self.plan.volumes.len());
        let filled = self.complete("filling", join_all(clients.into_iter().map(Client::fill)));
        filled.map(|_| ()).map_err(|failure| Failure {
            what: format!("{}: {}", failure.what, facts_of(pool)),
            ..failure
        })
    }
}

pub(super) fn refused(what: &str, error: &impl std::fmt::Display) -> Failure {
    Failure::new(Check::Request, format!("{what}: {error}"))
}

/// What helps to understand a hang.
pub(super) fn facts_of(pool: &Pool<VirtEnv>) -> String {
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
