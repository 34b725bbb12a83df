//! Adding drives to a pool that is used. Requests wait meanwhile, and are answered.
//!
//! ```text
//!  new drives are erased ─> gate shut: what is under way ends ─> checkpoint, clean
//!    ─> labels name all drives: the old ones', then the new ones' (`add`)
//!    ─> opened with all of them ─> gate open
//! ```
//! If something fails, the pool is opened as it was; if labels name the new drives by then, after
//! others, one generation later, that don't. A crash leaves what one leaves in `add`.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

use format::{INCOMPAT_LISTS, Superblock, Uuid};
use futures_util::future::{Either, select};
use io::gate::Shut;
use io::sync::Event;
use io::{Drive, Env, Nanos};
use layout::DriveIndex;

use super::add::{Known, check_all_new, erase, grown, known_of, plan, write_labels};
use super::open::{newest_label, open_shard, read_labels};
use crate::api::{
    AddError, AddPlan, Added, DriveState, EventKind, OpenError, RequestError, ScrubState, Severity,
};
use crate::limits::{GROW_ATTEMPTS, GROW_GATE_MAX, GROW_PAUSE};
use crate::pool::Pool;
use crate::shard::Shard;

/// Drives that are to join, by the names that they get.
type New<D> = Vec<(Uuid, D)>;

impl<E: Env> Pool<E> {
    /// Adds drives; what was on them is gone. Requests wait while they join.
    pub async fn drives_add(&self, new: &[E::Drive]) -> Result<Added, AddError> {
        let turn = self.inner.growing.lock().await;
        let shard = self.shard();
        check_may_grow(&shard)?;
        let known = known_of(&shard);
        check_all_new(new, &known.label).await?;
        let name = |drive: &E::Drive| (Uuid::from_random(shard.env.unique_id()), drive.clone());
        let named: New<E::Drive> = new.iter().map(name).collect();
        let next = grown_by(&known, &named);
        plan(&known, &next)?;
        erase(new, &known, &next).await?;
        // So that little is left to do while requests wait.
        self.checkpoint().await?;
        let (pool, over) = (self.clone(), Event::new());
        let outcome = Rc::new(RefCell::new(None));
        let (said, result) = (over.clone(), outcome.clone());
        // A task of its own: whoever asked may go away, and the pool must not stay closed.
        shard.env.spawn(async move {
            let done = pool.take_in(&named).await;
            drop(turn);
            *result.borrow_mut() = Some(done);
            said.notify_all();
        });
        drop(shard);
        loop {
            let wait = over.wait();
            if let Some(done) = outcome.take() {
                return done;
            }
            wait.await;
        }
    }

    async fn take_in(&self, new: &New<E::Drive>) -> Result<Added, AddError> {
        let (gate, begin) = self.shut_gate().await?;
        let before = self.shard();
        check_may_grow(&before)?;
        let old = before.array.drives();
        let scrub = before.scrub.status().state;
        let mut done = join(&before, &old, new).await;
        if done.is_ok() {
            let all = old.iter().cloned().chain(new.iter().map(|(_, drive)| drive.clone()));
            if let Err(error) = self.open_again(&before, all.collect()).await {
                take_back(&old, &before.labels.get()).await;
                done = Err(error.into());
            }
        }
        if done.is_err()
            && let Err(error) = self.open_again(&before, old).await
        {
            let what = format!("drives were to be added, and now the pool does not open: {error}");
            *before.failure.borrow_mut() = None;
            before.fail(&what);
        }
        let shard = self.shard();
        if matches!(scrub, ScrubState::Running | ScrubState::Paused) {
            // From the start: what it has looked at is known to its task only.
            let _ = shard.scrub_start();
        }
        if scrub == ScrubState::Paused {
            shard.scrub_pause();
        }
        let pause = shard.env.now().saturating_sub(begin);
        drop(gate);
        self.tell_added(new.len(), &done, pause);
        Ok(Added { plan: done?, pause })
    }

    fn tell_added(&self, count: usize, done: &Result<AddPlan, AddError>, pause: Nanos) {
        let (severity, kind, what) = match done {
            Ok(plan) => {
                let what = format!("{count} drives have joined, {} now", plan.drives);
                (Severity::Info, EventKind::DrivesAdded, what)
            }
            Err(error) => {
                let what = format!("{count} drives have not joined: {error}");
                (Severity::Error, EventKind::AddFailed, what)
            }
        };
        let (shard, text) = (self.shard(), format!("{what}; requests waited for {pause}"));
        shard.tell(None, (severity, kind), text);
    }

    /// Requests wait from then on, and none is under way. Tried again if some take too long.
    async fn shut_gate(&self) -> Result<(Shut, Nanos), AddError> {
        let env = &self.inner.env;
        for _ in 0..GROW_ATTEMPTS {
            let begin = env.now();
            let late = pin!(env.sleep_until(begin + GROW_GATE_MAX));
            if let Either::Left((shut, _)) = select(pin!(self.quiet()), late).await {
                return Ok((shut, begin));
            }
            env.sleep_until(env.now() + GROW_PAUSE).await;
        }
        let what = format!("requests under way did not end within {GROW_GATE_MAX}");
        Err(AddError::Busy { pool: self.name(), what })
    }

    async fn quiet(&self) -> Shut {
        let shut = self.inner.gate.shut().await;
        no_leftovers(&self.shard()).await;
        shut
    }

    async fn open_again(
        &self,
        before: &Rc<Shard<E>>,
        drives: Vec<E::Drive>,
    ) -> Result<(), OpenError> {
        let inner = &self.inner;
        let opened = open_shard(&inner.env, drives, inner.options, false, Some(before)).await;
        let (shard, _) = opened?;
        inner.admissions.set_drives(shard.geometry.drives);
        *inner.shard.borrow_mut() = shard;
        Ok(())
    }
}

/// Closes the shard, and writes labels that name all drives.
async fn join<E: Env>(
    shard: &Shard<E>,
    old: &[E::Drive],
    new: &New<E::Drive>,
) -> Result<AddPlan, AddError> {
    let closed = close(shard).await;
    shard.array.release();
    shard.released.set(true);
    closed?;
    check_whole(shard)?;
    let known = known_of(shard);
    let next = grown_by(&known, new);
    let plan = plan(&known, &next)?;
    let count = known.label.members.len();
    let old_at: Vec<(usize, E::Drive)> = old.iter().cloned().enumerate().collect();
    let new_at: Vec<(usize, E::Drive)> =
        (count..).zip(new.iter().map(|(_, drive)| drive.clone())).collect();
    let both = async {
        write_labels(&old_at, &next).await?;
        write_labels(&new_at, &next).await
    };
    let late = pin!(shard.env.sleep_until(shard.env.now() + GROW_GATE_MAX));
    let written = match select(pin!(both), late).await {
        Either::Left((written, _)) => written,
        Either::Right(_) => {
            let what = format!("a drive did not take its label within {GROW_GATE_MAX}");
            Err(AddError::Busy { pool: known.label.pool_name.clone(), what })
        }
    };
    if written.is_err() {
        take_back(old, &known.label).await;
    }
    written.map(|()| plan)
}

fn grown_by<D: Drive>(known: &Known, new: &New<D>) -> Superblock {
    grown(known, new.iter().map(|(uuid, drive)| (*uuid, drive.geometry().size)))
}

/// Only a pool whose drives are all there, and stay, is closed and opened again.
fn check_may_grow<E: Env>(shard: &Shard<E>) -> Result<(), AddError> {
    shard.check_usable()?;
    check_whole(shard)?;
    let copied = |index| shard.array.member(index).twin().is_some();
    let what = match () {
        _ if shard.array.draining().is_some() => "a drive is being removed",
        _ if shard.array.indexes().any(copied) => "a drive is being replaced",
        _ => return Ok(()),
    };
    Err(AddError::Busy { pool: shard.labels.get().pool_name, what: what.to_owned() })
}

fn check_whole<E: Env>(shard: &Shard<E>) -> Result<(), AddError> {
    let lost = |index: &DriveIndex| shard.array.member(*index).state() != DriveState::Active;
    let Some(index) = shard.array.indexes().find(lost) else { return Ok(()) };
    let pool = shard.labels.get().pool_name;
    Err(AddError::Missing { pool, index: usize::from(index.0) })
}

async fn no_leftovers<E: Env>(shard: &Shard<E>) {
    let leftovers = &shard.array.leftovers;
    while leftovers.count() > 0 {
        leftovers.one_over().await;
    }
}

/// As closing does, but to the end of everything: what still runs must not reach the drives when
/// they are in use again. A drive that hangs is failed before long, and then the labels say so.
async fn close<E: Env>(shard: &Shard<E>) -> Result<(), RequestError> {
    let closed = match shard.settle_down().await {
        Ok(()) => shard.close_clean().await,
        Err(error) => Err(error),
    };
    no_leftovers(shard).await;
    shard.record_failures().await?;
    closed
}

/// Labels of the pool as it was, later than all others. A drive that does not take its own opens by
/// what the others say, or fails then.
async fn take_back<D: Drive>(drives: &[D], was: &Superblock) {
    let Ok(found) = read_labels(drives.to_vec()).await else { return };
    let Ok(newest) = newest_label(&found) else { return };
    let mut label = Superblock {
        generation: newest.generation + 1,
        members: was.members.clone(),
        zone_count: was.zone_count,
        zones: was.zones,
        ..newest
    };
    label.features.incompat &= was.features.incompat | !INCOMPAT_LISTS;
    for drive in drives.iter().cloned().enumerate() {
        let _ = write_labels(&[drive], &label).await;
    }
}
