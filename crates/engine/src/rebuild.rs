//! Rebuilding: what a lost drive held is written to substitutes on the others; a drive that is to
//! be let go of is emptied in the same way; and what has a substitute although its own drive is
//! there goes home (FusionRAID §4.1).
//!
//! ```text
//!  failed, missing ──(rebuild_after)──> rebuilt ─┐ nothing is     ┌──────────┐  another drive
//!  active ─────────(drive_remove)─────> drained ─┴──on it───────> │ vacated  │ ───────────────┐
//!     ^                                                           └──────────┘                │
//!     └────────────────── what others hold for it comes home ─────────────────────────────────┘
//! ```
//! A pass looks at every stripe, those that lost most first; a batch is read, computed, written,
//! flushed, then recorded. Nothing of it is remembered but the records, and in the labels which
//! drive leaves: a crash goes on from there. A drive is vacated when a whole pass found nothing
//! left on it, and no block of the journal and no object of the checkpoint depends on it either.

mod home;
mod moves;
mod progress;
mod vacate;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use format::StripeId;
use futures_util::future::select;
use io::slice::Work;
use io::{Env, Nanos, PAGE, join_all};
use layout::DriveIndex;

use crate::api::{DriveState, DriveVerbError, EventKind, RequestError, Severity};
use crate::geometry::{BlockAddress, Class};
use crate::limits::{REBUILD_BATCH, REBUILD_SPACE_RETRY, RESTORE_RETRY, STRIPES_AT_ONCE};
use crate::shard::Shard;
use crate::space::Kind;
use moves::{Move, Positions};
use progress::Progress;

pub struct Rebuild {
    /// How long a drive must have been lost.
    after: Option<Nanos>,
    /// Since when each drive is known to be lost.
    since: RefCell<Vec<Option<Nanos>>>,
    /// There may be something to do.
    stirred: Cell<bool>,
    paused: Cell<bool>,
    waits_for_space: Cell<bool>,
    progress: RefCell<Progress>,
}

impl Rebuild {
    pub fn new(drives: usize, after: Option<Nanos>) -> Rebuild {
        Rebuild {
            after,
            since: RefCell::new(vec![None; drives]),
            stirred: Cell::new(false),
            paused: Cell::new(false),
            waits_for_space: Cell::new(false),
            progress: RefCell::default(),
        }
    }

    pub fn stir(&self) {
        self.stirred.set(true);
    }
}

/// What a pass came across.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pass {
    moved: u64,
    /// Being written, or dead but not free yet.
    later: u64,
    /// There was no room for them.
    full: u64,
    /// More is lost than parity bears.
    lost: u64,
}

impl Pass {
    fn is_over(&self) -> bool {
        self.moved + self.later + self.full + self.lost == 0
    }
}

impl<E: Env> Shard<E> {
    pub fn start_rebuild(self: &Rc<Self>) {
        self.rebuild.stir();
        if self.array.indexes().any(|at| self.array.member(at).state() == DriveState::Vacated) {
            // What was given out before a crash is not known: the first pass will tell.
            self.array.expose();
        }
        let shard = self.clone();
        self.spawn_task(Work::Rebuild, async move { shard.rebuild_task().await });
    }

    async fn rebuild_task(&self) {
        while !self.stopping() {
            self.pause().await;
            self.note_lost();
            while self.has_rebuilding() && !self.stopping() {
                let pass = self.rebuild_pass().await;
                if pass.is_over() && self.vacate_all().await {
                    // Somebody may have been given a block on a lost drive meanwhile.
                    self.rebuild.stirred.set(self.array.is_exposed());
                    self.give_back_dead().await;
                    break;
                }
                self.rebuild_rest(&pass).await;
                self.note_lost();
            }
            if !self.rebuild.stirred.get() {
                self.rebuild.progress.borrow_mut().over();
            }
        }
    }

    /// Dead stripes give their substitutes back when that is durable: nobody else may come to see
    /// to it.
    async fn give_back_dead(&self) {
        let wanted = {
            let space = &self.state.borrow().space;
            space.has_substitutes() && space.limbo_len() > 0
        };
        if wanted {
            let _ = self.flush_limbo().await;
        }
    }

    async fn rebuild_rest(&self, pass: &Pass) {
        let waits = pass.full > 0;
        if waits && !self.rebuild.waits_for_space.get() {
            let text = format!("rebuilding waits for space: {} blocks have no room", pass.full);
            self.tell(None, (Severity::Warning, EventKind::RebuildWaits), text);
        }
        if waits || !pass.is_over() {
            self.rebuild.waits_for_space.set(waits);
        }
        if pass.moved == 0 && self.state.borrow().space.limbo_len() > 0 {
            // Dead stripes are of no interest when that is durable.
            let _ = self.flush_limbo().await;
        }
        let wait =
            if pass.moved == 0 && pass.later == 0 { REBUILD_SPACE_RETRY } else { RESTORE_RETRY };
        let tick = Box::pin(self.env.sleep_until(self.env.now() + wait));
        // Closing the pool wakes whoever paces itself.
        select(tick, Box::pin(self.pacer.woken())).await;
    }

    /// Since when drives are lost, and whether that is long enough now.
    fn note_lost(&self) {
        let now = self.env.now();
        let mut since = self.rebuild.since.borrow_mut();
        for index in self.array.indexes() {
            let known = &mut since[usize::from(index.0)];
            let lost = matches!(
                self.array.member(index).state(),
                DriveState::Missing | DriveState::Failed
            );
            match (lost, *known) {
                (true, None) => *known = Some(now),
                (false, Some(_)) => {
                    *known = None;
                    self.rebuild.stir();
                }
                _ => {}
            }
            if lost && self.is_due_at(*known, now) {
                self.rebuild.stir();
            }
        }
    }

    fn is_due_at(&self, since: Option<Nanos>, now: Nanos) -> bool {
        since.zip(self.rebuild.after).is_some_and(|(since, after)| now >= since + after)
    }

    /// The drive is lost, and nobody is waited for to replace it.
    pub(super) fn is_due(&self, index: DriveIndex) -> bool {
        match self.array.member(index).state() {
            DriveState::Vacated => true,
            DriveState::Missing | DriveState::Failed => {
                // Nobody may have looked since it was lost.
                let now = self.env.now();
                let since = self.rebuild.since.borrow()[usize::from(index.0)].unwrap_or(now);
                self.is_due_at(Some(since), now)
            }
            DriveState::Active => self.array.is_draining(index),
            DriveState::Restoring => false,
        }
    }

    /// Drives that the others stand in for, and drives that they are about to stand in for.
    pub fn taken_over(&self, space: &crate::space::Space) -> (usize, usize) {
        if self.array.is_complete() {
            return (0, 0);
        }
        let is_vacated = |index| self.array.member(index).state() == DriveState::Vacated;
        let is_due = |index| !is_vacated(index) && self.is_due(index);
        let all = || self.array.indexes();
        let due = if self.is_wide(space) { all().filter(|at| is_due(*at)).count() } else { 0 };
        (all().filter(|at| is_vacated(*at)).count(), due)
    }

    fn has_rebuilding(&self) -> bool {
        if !self.rebuild.stirred.get() || self.rebuild.paused.get() {
            return false;
        }
        let due = |index: DriveIndex| match self.array.member(index).state() {
            DriveState::Vacated => self.array.is_exposed(),
            _ => self.is_due(index),
        };
        let state = self.state.borrow();
        let wanted = state.space.has_substitutes()
            || self.is_wide(&state.space) && self.array.indexes().any(due);
        self.rebuild.stirred.set(wanted);
        wanted
    }

    /// With fewer drives than the narrowest stripe needs there is nowhere to go.
    fn is_wide(&self, space: &crate::space::Space) -> bool {
        let whole = self.array.indexes().filter(|&at| self.is_home(at)).count();
        space.classes().any(|class| class.width() <= whole)
    }

    /// Paused, or told to end.
    fn rebuilds(&self) -> bool {
        !self.stopping() && !self.rebuild.paused.get()
    }

    /// The labels speak of substitutes before there is one.
    async fn enable_substitutes(&self) -> Result<(), RequestError> {
        if !self.state.borrow().space.substitutes.enabled {
            self.array.substituted.set(true);
            self.write_labels(|_| {}).await?;
            self.state.borrow_mut().space.substitutes.enabled = true;
            let text = "what lost or leaving drives hold is written to the others".to_owned();
            self.tell(None, (Severity::Info, EventKind::RebuildBegun), text);
        }
        Ok(())
    }

    async fn rebuild_pass(&self) -> Pass {
        if self.enable_substitutes().await.is_err() {
            return Pass { later: 1, ..Pass::default() };
        }
        let seen = self.array.exposures();
        self.rebuild.progress.borrow_mut().seen = (seen, self.journal.latest());
        let classes: Vec<Rc<Class>> = self.state.borrow().space.classes().cloned().collect();
        classes.iter().for_each(|class| self.seal_open(class.id));
        self.count_moves().await;
        let mut pass = Pass::default();
        // Of stripes that lost most the next drive takes data with it.
        for least in (0..=self.array.lost()).rev() {
            for zone in 0..self.geometry.zone_count {
                self.rebuild_zone(zone, least, &mut pass).await;
                if !self.rebuilds() {
                    pass.later += 1;
                    return pass;
                }
            }
        }
        let keys = self.state.borrow().space.tuple_keys();
        for some in keys.chunks(REBUILD_BATCH) {
            self.rebuild_tuples(some, &mut pass).await;
            if !self.rebuilds() {
                pass.later += 1;
                return pass;
            }
        }
        if pass.is_over() {
            self.array.note_covered(seen);
        }
        pass
    }

    /// Stripes of a zone that have lost at least so many blocks.
    async fn rebuild_zone(&self, zone: u32, least: usize, pass: &mut Pass) {
        let Some((class, stripes, later)) = self.wounded(zone, least) else { return };
        pass.later += if least == 0 { later } else { 0 };
        for batch in stripes.chunks(REBUILD_BATCH) {
            // What is live now is given away only after this.
            let guard = self.reads.enter();
            let mut done: Vec<Move> = Vec::new();
            for some in batch.chunks(STRIPES_AT_ONCE) {
                if !self.rebuilds() {
                    break;
                }
                let drives = || some.iter().flat_map(|&stripe| class.drives(stripe));
                let turn = self.pace(|| self.queue_of(drives())).await;
                let rebuild = |&stripe: &StripeId| self.rebuild_stripe(&class, stripe);
                for (moves, tally) in join_all(some.iter().map(rebuild)).await {
                    turn.moved(moves.len() * class.width() * self.geometry.block_size as usize);
                    done.extend(moves);
                    pass.later += tally.later;
                    pass.full += tally.full;
                    pass.lost += tally.lost;
                }
                drop(turn);
                self.env.yield_now().await;
            }
            self.settle_moves(&class, done, pass).await;
            drop(guard);
            self.release_limbo();
        }
    }

    /// RAID stripes of a zone with blocks to be moved; and how many others, which are being
    /// written, or dead but not yet free, have some.
    fn wounded(&self, zone: u32, least: usize) -> Option<(Rc<Class>, Vec<StripeId>, u64)> {
        let state = self.state.borrow();
        let (class, stripes) = state.space.held_in(zone)?;
        let (mut found, mut later) = (Vec::new(), 0);
        for (stripe, kind) in stripes {
            if matches!(kind, Kind::Tuple | Kind::Spare) {
                continue;
            }
            let moves = self.moves_of(&state.space, class, stripe);
            if moves.is_empty() {
                continue;
            }
            match kind {
                Kind::Raid if self.wounds(&state.space, class, stripe) >= least => {
                    found.push(stripe);
                }
                Kind::Raid => {}
                // What is written or dead goes home by dying.
                _ => later += u64::from(self.wounds(&state.space, class, stripe) > 0),
            }
        }
        Some((class.clone(), found, later))
    }

    /// Nothing can be read there, or it is to be left.
    pub(super) fn is_gone(&self, at: &BlockAddress) -> bool {
        !self.array.is_active(at.drive)
            || self.array.is_awaited(at.drive, at.offset, PAGE)
            || self.array.is_draining(at.drive)
    }

    /// Blocks may be at home on this drive.
    pub(super) fn is_home(&self, drive: DriveIndex) -> bool {
        self.array.is_whole(drive) && !self.array.is_draining(drive)
    }

    fn wounds(&self, space: &crate::space::Space, class: &Class, stripe: StripeId) -> usize {
        let gone = |&at: &usize| self.is_gone(&space.address(class, stripe, at));
        (0..class.width()).filter(gone).count()
    }

    /// Positions of a stripe whose blocks are to be elsewhere than they are.
    pub(super) fn moves_of(
        &self,
        space: &crate::space::Space,
        class: &Class,
        stripe: StripeId,
    ) -> Positions {
        let wanted = |&position: &usize| {
            let at = space.address(class, stripe, position);
            let leaves = !self.array.is_whole(at.drive) || self.array.is_draining(at.drive);
            leaves && self.is_due(at.drive)
                || space.substitute(stripe, position).is_some()
                    && self.is_home(class.drive(stripe, position))
        };
        (0..class.width()).filter(wanted).collect()
    }

    // ---- what an operator says

    /// The drive is emptied from now on, also if the pool is opened again meanwhile.
    pub async fn remove(&self, index: DriveIndex) -> Result<(), DriveVerbError> {
        self.check_usable()?;
        let state = self.array.member(index).state();
        if state != DriveState::Active || self.array.member(index).twin().is_some() {
            return Err(DriveVerbError::NotActive { index: index.0, state });
        }
        if let Some(other) = self.array.draining().or(self.array.vacating()) {
            return Err(DriveVerbError::Removing { index: other.0 });
        }
        let left = self.array.indexes().filter(|&at| self.array.is_whole(at)).count() - 1;
        self.check_room_without(index, left)?;
        self.array.set_draining(Some(index));
        Ok(self.note_leaving(index, true).await?)
    }

    /// Nothing new goes to a drive that leaves, or it does again; and the labels say so.
    async fn note_leaving(&self, index: DriveIndex, avoided: bool) -> Result<(), RequestError> {
        {
            let space = &mut self.state.borrow_mut().space;
            space.set_avoided(index, avoided);
            space.spare_reopen();
        }
        self.rebuild.stir();
        self.work.notify_all();
        self.write_labels(|_| {}).await
    }

    /// Whether what is left has place for what the drive holds.
    fn check_room_without(&self, index: DriveIndex, left: usize) -> Result<(), DriveVerbError> {
        let state = self.state.borrow();
        let width = state.space.classes().map(|class| class.width()).max().unwrap_or(0);
        if left < width {
            return Err(DriveVerbError::TooNarrow { index: index.0, left, width });
        }
        let (replicated, raid, limbo, total) = state.space.blocks();
        let block = u64::from(self.geometry.block_size);
        let used = (replicated + raid + limbo) * block;
        let each = total * block / self.geometry.drives as u64;
        // An eighth is what making space begins at, and what spare stripes leave unused.
        let room = (each * left as u64).saturating_sub(each * left as u64 / 8);
        if used > room {
            let needed = used / self.geometry.drives as u64;
            let room = needed.saturating_sub(used - room);
            return Err(DriveVerbError::NoRoom { index: index.0, needed, room });
        }
        Ok(())
    }

    pub async fn remove_stop(&self, index: DriveIndex) -> Result<(), DriveVerbError> {
        // When it is vacated the labels are about to say so.
        if !self.array.is_draining(index) || !self.array.is_active(index) {
            return Err(DriveVerbError::NotRemoving { index: index.0 });
        }
        self.array.set_draining(None);
        Ok(self.note_leaving(index, !self.array.is_active(index)).await?)
    }

    pub fn rebuild_hold(&self, paused: bool) {
        self.rebuild.paused.set(paused);
        self.rebuild.stir();
        self.work.notify_all();
    }
}
