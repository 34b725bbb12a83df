//! The end of a liveness run: faults stop, and then everything must work.
//!
//! ```text
//!  clients ─> faults stop in their midst ─> they all finish ─> flush ─> at rest, backlog gone
//!    ─> where lost drives were replaced, others are lost with the power, and come back
//!    ─> drives that only hesitated are in use ─> audit ─> writes beside reads that never rest
//!    ─> drives that are quick again are not avoided ─> all volumes deleted ─> all space free
//! ```

use std::cell::Cell;

use engine::{
    ConversionPolicy, DriveHealth, DriveOverride, DriveState, DriveStatus, HedgeBudget, Pool,
    VolumeInfo, VolumeLimits,
};
use futures_util::future::join;
use io::virt::VirtEnv;
use io::{Buf, Env, Nanos, PAGE, join_all};
use policy::health::SIT_OUT_MAX;
use policy::hedge::{BYTES_SAVED_MAX, SAVED_MAX};

use super::World;
use super::patience::Patience;
use super::session::{facts_of, refused};
use crate::failure::{Check, Failure};

/// Requests of each client once faults have stopped.
const REQUESTS_MAX: usize = 100;
/// Virtual time in which a pool nobody uses must have come to rest: hundreds of rounds of the
/// background, which works for a few.
const REST_MAX: Nanos = Nanos::from_secs(60);
/// Faults stop within this time, about that of the clients' requests.
const FAULTS_LAST_MAX: Nanos = Nanos::from_millis(60);
const REST_STEP: Nanos = Nanos::from_secs(3);
/// A drive that is quick again is avoided no longer than this: its longest time of sitting out, and
/// as long again for probes.
const AVOIDED_MAX: Nanos = Nanos(2 * SIT_OUT_MAX);
/// Clients that read without a pause: some of them is always under way.
const READERS: u64 = 4;
/// Tuples that may stay open at rest: those of packed slots and of spare ones, which wait for
/// more writes. See `engine::limits::LANES_MIN`.
const OPEN_TUPLES_MAX: u64 = 16;

fn wrong(what: impl Into<String>) -> Failure {
    Failure::new(Check::Liveness, what)
}

impl World {
    /// Liveness as worlds of the first generations know it.
    pub(super) fn works_again(&mut self) -> Result<(), Failure> {
        self.plug_drives();
        let pool = self.open()?;
        self.make_volumes(&pool)?;
        let clients = self.all_clients(&pool, 0x11fe);
        let requests = self.plan.requests.min(REQUESTS_MAX);
        let all = clients.into_iter().map(|client| client.run(requests));
        self.complete("liveness", join_all(all))?;
        self.close_and_open_again(pool)
    }

    pub(super) fn liveness(&mut self) -> Result<(), Failure> {
        self.plug_drives();
        self.arm_troubles(true);
        let pool = self.open()?;
        self.make_volumes(&pool)?;
        self.arm_troubles(false);
        self.faults_stop(&pool)?;
        let clients = self.all_clients(&pool, 0x11fe);
        let requests = self.plan.requests.min(REQUESTS_MAX);
        let all = clients.into_iter().map(|client| client.run(requests));
        self.complete("liveness", join_all(all))?;
        let flushed = self.complete("flush", pool.flush())?;
        flushed.map_err(|error| refused("flush", &error))?;
        self.becomes_complete(&pool)?;
        self.becomes_whole(&pool)?;
        let pool = self.bears_others(pool)?;
        self.exchange_for_good(&pool)?;
        self.joins_for_good(&pool)?;
        self.becomes_balanced(&pool)?;
        self.all_comes_home(&pool)?;
        self.comes_to_rest(&pool)?;
        self.check_backlog(&pool)?;
        self.check_drives(&pool)?;
        self.scrub_rot(&pool)?;
        self.audit(&pool)?;
        self.nobody_starves(&pool)?;
        self.uses_all_drives(&pool)?;
        self.leaks_nothing(pool)
    }

    /// Clients run while drives fail, hang and hesitate; then, in their midst, no more. All of
    /// them finish, and from then on requests take no longer than without faults.
    fn faults_stop(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let (env, context) = (self.machine.env.clone(), self.context.clone());
        let (faults, clock) = (self.machine.faults.clone(), env.clone());
        let moment = env.now() + Nanos(self.rng.below(FAULTS_LAST_MAX.0));
        env.spawn(async move {
            clock.sleep_until(moment).await;
            context.tell(|| "faults stop".into());
            faults.iter().for_each(|faults| faults.release_all());
        });
        let clients = self.all_clients(pool, 0xfa17);
        let requests = self.plan.requests.min(REQUESTS_MAX);
        let all = clients.into_iter().map(|client| client.run(requests));
        self.complete("what was asked while drives failed", join_all(all))?;
        self.end_troubles();
        self.tell_injections();
        let lost = !self.plan.victims.is_empty();
        self.context.patience.set(if lost { Patience::DEGRADED } else { Patience::WHOLE });
        Ok(())
    }

    /// Nothing is asked, so soon nothing is done.
    pub(super) fn comes_to_rest(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let env = self.machine.env.clone();
        let begin = env.now();
        let mut before = self.machine.env.writes_issued();
        loop {
            self.complete("resting", env.sleep_until(env.now() + REST_STEP))?;
            let now = env.writes_issued();
            if now == before {
                break;
            }
            before = now;
            if env.now().saturating_sub(begin) > REST_MAX {
                let facts = facts_of(pool);
                return Err(wrong(format!("the pool does not come to rest: {facts}")));
            }
        }
        self.context.tell(|| format!("the pool is at rest: {}", facts_of(pool)));
        Ok(())
    }

    /// What is to be converted has been, limbo is empty enough, the journal short; no drive is
    /// behind.
    pub(super) fn check_backlog(&self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let status = pool.status();
        let space = status.space;
        let area = match status.conversion {
            ConversionPolicy::Eager => 0,
            ConversionPolicy::Lazy => space.total / 100 * u64::from(status.replicated_percent),
        };
        let volumes = &status.volumes;
        let open: u64 =
            volumes.iter().map(|volume| self.open_bytes(volume.parity, volume.width)).sum();
        if space.replicated > area + open {
            let replicated = space.replicated;
            return Err(wrong(format!(
                "{replicated} bytes are still replicated, at most {area} and {open} of open tuples \
                 may be: {}",
                facts_of(pool)
            )));
        }
        if status.loaded {
            return Err(wrong("nothing is asked, and drives are said to be behind"));
        }
        for HedgeBudget { left, lost } in [status.read_hedges, status.write_hedges] {
            // Each is rounded.
            let operations = left.operations + lost.operations + 1;
            let bytes = left.bytes + lost.bytes + 1;
            if operations < SAVED_MAX || bytes < BYTES_SAVED_MAX {
                return Err(wrong(format!(
                    "of the hedging budget {left:?} is left, {lost:?} lost"
                )));
            }
        }
        if status.memory.patch_bytes > status.memory.patch_budget_bytes {
            return Err(wrong(format!("patches are over their budget: {:?}", status.memory)));
        }
        Ok(())
    }

    /// Bytes of the tuples of one class that may stay open.
    fn open_bytes(&self, parity: u8, width: u16) -> u64 {
        let stripe = u64::from(width) * u64::from(self.plan.spec.block_size);
        OPEN_TUPLES_MAX * (u64::from(parity) + 1) * stripe
    }

    /// Only drives that could have lost something may be written off.
    fn check_drives(&self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        for drive in pool.status().drives {
            let index = usize::from(drive.index);
            if self.is_innocent(index) && drive.state != DriveState::Active {
                return Err(wrong(format!("drive {index} is {} but never failed", drive.state)));
            }
        }
        Ok(())
    }

    /// A drive that hesitated and is quick again is used like any other, though nobody asks it.
    fn uses_all_drives(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let env = self.machine.env.clone();
        let until = env.now() + AVOIDED_MAX;
        let is_avoided = |drive: &DriveStatus| {
            let is_judged = drive.decided == DriveOverride::Automatic;
            is_judged && drive.state == DriveState::Active && drive.health != DriveHealth::Good
        };
        while let Some(drive) = pool.status().drives.into_iter().find(is_avoided) {
            if env.now() > until {
                let (index, health) = (drive.index, drive.health);
                return Err(wrong(format!("drive {index} is quick again, and still {health}")));
            }
            self.complete("resting", env.sleep_until(env.now() + REST_STEP))?;
        }
        Ok(())
    }

    /// Clients that read without a pause keep nobody from writing, nor from making it durable.
    fn nobody_starves(&self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let unlimited = |volume: &VolumeInfo| volume.limits == VolumeLimits::default();
        let info = pool.volumes().into_iter().find(unlimited);
        let Some(volume) = info.and_then(|info| pool.volume(&info.name)) else { return Ok(()) };
        let (env, over) = (&self.machine.env, Cell::new(false));
        let most = Patience::WHOLE.reads_and_writes + Patience::WHOLE.flushes;
        let end = env.now() + Nanos(most.0 * 2);
        let read = async |at: u64| {
            while !over.get() && env.now() < end {
                let _ = volume.read(0, PAGE as u32).await;
                // What nobody wrote is read in no time.
                env.sleep_until(env.now() + Nanos::from_micros(at)).await;
            }
        };
        let write = async {
            // Not before the first of them reads.
            env.sleep_until(env.now() + Nanos::from_millis(1)).await;
            let begin = env.now();
            let _ = volume.write(0, Buf::zeroed(PAGE), true).await;
            let _ = volume.flush().await;
            over.set(true);
            env.now().saturating_sub(begin)
        };
        let all = join(write, join_all((1..=READERS).map(read)));
        let (took, _) = self.complete("writing beside clients that read", all)?;
        match took <= most {
            true => Ok(()),
            false => Err(wrong(format!("a write and a flush beside reads took {took}"))),
        }
    }

    /// Without volumes there is nothing to keep: after another opening all space is free.
    pub(super) fn leaks_nothing(&mut self, pool: Pool<VirtEnv>) -> Result<(), Failure> {
        let names = self.context.oracle.borrow().names();
        for name in names {
            self.delete_volume(&pool, &name)?;
        }
        let used = pool.space_status().used;
        if used != 0 {
            return Err(wrong(format!("{used} bytes are in use without a volume")));
        }
        self.close(pool)?;
        let pool = self.open()?;
        let space = pool.space_status();
        if !pool.status().recovery.clean || space.free != space.total {
            return Err(wrong(format!("an empty pool is not empty: {}", facts_of(&pool))));
        }
        self.close(pool)
    }
}
