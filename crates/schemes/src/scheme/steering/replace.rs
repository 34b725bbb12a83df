//! Reconstruction onto a new drive (Figure 6, case 1), and what comes first after a second failure.
//!
//! ```text
//!  others ── read, solved ── new drive, in place          while it is being filled
//!  writes of data to any drive of its group ── staging space
//!                                               └ reclaimed when all rows are there
//!  popular reads of them ── staging space
//! ```
//! So the new drive has only the rebuild to write, and the others have little else to do. The
//! array counts the new one as lost until then. If it shares what another lost drive had (`spare`)
//! it is given its part of that first, as the paper has it.

use std::ops::Range;
use std::rc::Rc;

use format::{MemberState, Superblock, Uuid};
use futures_util::future::join;
use io::sync::Turn;
use io::{Buf, Drive, Durability, Env};

use super::drive::Steered;
use super::home::Home;
use super::record::{HEADS, Spared};
use super::{Inner, Steering};
use crate::locks::Hold;
use crate::part::Part;
use crate::set;
use crate::store::{Replace, Restoring, Store, StoreError, refuse_drive as refuse};

/// Heads that it has of before, if it was in the array once, would say that it is out of date; and
/// no new one may come before the next opening, as long as it is busy.
async fn forget_heads(side: &Part) -> Result<(), StoreError> {
    let blank = Buf::zeroed(HEADS as usize);
    let done = side.write(0, blank, Durability::Durable).await;
    done.map_err(|_| StoreError::NotWritten { name: side.name() })
}

impl<E: Env> Steering<E> {
    /// Gives the place of a lost drive to a new one. [`Store::work`] fills it. A dedicated staging
    /// drive is used from the next opening on.
    pub async fn replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
        let Inner { env, stage, set, spare, mending, .. } = &*self.inner;
        let _turn = mending.lock().await;
        let name = new.name();
        if self.inner.closing.get() {
            return refuse(&name, place, "the pool is being closed: open it first");
        }
        if !self.lost().contains(&place) {
            return refuse(&name, place, "nothing is lost there");
        }
        if new.geometry().align > stage.align {
            return refuse(&name, place, "its unit is larger than that of the others");
        }
        let spared = spare.borrow().as_ref().is_some_and(|spare| spare.place == place);
        if stage.mending.get().is_some() && !spared {
            return refuse(&name, place, "another drive is being rebuilt: wait until that is done");
        }
        let named = set::is_named(set, place, &new).await;
        if stage.dedicated == Some(place) {
            // What the old one held is noted as missing while somebody knows it.
            self.forget_all_lost().await?;
        }
        let mut next = set.borrow().with(env, place, new.clone())?;
        let others = self.lost().into_iter().filter(|at| *at != place && !self.is_moving(*at));
        others.for_each(|at| next.forget(at));
        let split = stage.targets.len();
        let of = if place < split { 0..split } else { split..next.len() };
        let (part, head) = (next.first_of(of, place), next.second(place..place + 1).pop());
        if let Some(head) = &head {
            forget_heads(head).await?;
        }
        next.write_labels().await?;
        *set.borrow_mut() = next;
        let parts = part.zip(head).filter(|_| place < split);
        let Some((part, head)) = parts else { return Ok(()) };
        let holder = &stage.holders[place];
        holder.replaced.set(true);
        holder.head.lose();
        holder.head.replace(head);
        holder.head.set_whole();
        self.inner.spare_failed.set(false);
        match spared {
            true => self.move_to(place, part, named).await,
            false => self.fill(place, (name, part), named).await,
        }
    }

    fn is_moving(&self, place: usize) -> bool {
        let drive = self.inner.drives.borrow().get(place).cloned().flatten();
        drive.is_some_and(|drive| drive.home.moving().is_some())
    }

    /// What the staging space has of a lost drive is for a new one from now on.
    async fn move_to(&self, place: usize, part: Part, named: bool) -> Result<(), StoreError> {
        let Inner { stage, drives, .. } = &*self.inner;
        let drive = drives.borrow()[place].clone();
        let Some(drive) = drive else { return Ok(()) };
        let lacks = set::lacks(named, (&self.inner.array, place), &part).await;
        // Without this a crash means that it must be given again.
        stage.tell_spared(Spared { moving: true, ..stage.heads.spared.get() });
        let _ = stage.seal_all().await;
        let _all = stage.targets[place].lock.lock(0..u64::MAX, Hold::InPlace).await;
        drive.home.move_to(part, lacks);
        Ok(())
    }

    async fn fill(
        &self,
        place: usize,
        (name, part): (String, Part),
        named: bool,
    ) -> Result<(), StoreError> {
        let Inner { array, stage, drives, .. } = &*self.inner;
        let own = &stage.targets[place];
        // What was staged for the lost drive must not come back over the new one's bytes.
        if !self.forget_staged(place).await {
            return refuse(&name, place, "too few other drives can be written to");
        }
        own.dead.set(false);
        own.dirty.set(true);
        stage.mending.set(Some(place));
        stage.filling.set(Some(place));
        // From now on staged writes and heads have as many copies as a whole group needs: also
        // those that drives of other groups have on this one.
        let group = stage.grid.group_of(place);
        for drive in self.drives().iter().filter(|drive| drive.index != place) {
            let own = stage.grid.group_of(drive.index) == group;
            if own || stage.is_staged_on(drive.index, group) {
                let _ = drive.clear().await;
            }
        }
        if !stage.seal_all().await {
            self.end_filling(place);
            own.dead.set(true);
            return refuse(&name, place, "too few other drives can be written to");
        }
        let lacks = set::lacks(named, (array, place), &part).await;
        // Records of its log are of the present epoch if it was there before, and out of date. In
        // its own place, not staged: the drive is what the array looks at if the staging is gone.
        let blank = array.blank(place, &part).await;
        let steered = Steered { stage: stage.clone(), index: place, home: Rc::new(Home::on(part)) };
        if let Err(error) = blank.and_then(|()| array.replace_lacking(place, steered.part(), lacks))
        {
            self.end_filling(place);
            own.dead.set(true);
            return Err(error.into());
        }
        drives.borrow_mut()[place] = Some(steered);
        stage.outsourcing.set(true);
        array.avoid(place, true);
        let shared = self.inner.spare.borrow().clone();
        if let Some(spare) = shared {
            let second = self.inner.set.borrow().within_second(place, spare.plan.extent);
            second.into_iter().for_each(|part| spare.replace(place, part));
        }
        Ok(())
    }

    fn end_filling(&self, place: usize) {
        let Inner { array, stage, .. } = &*self.inner;
        stage.mending.set(None);
        stage.filling.set(None);
        stage.outsourcing.set(false);
        array.avoid(place, stage.is_busy(place));
    }

    /// Something of a reconstruction. False: there is none.
    pub(super) async fn rebuild_some(&self) -> bool {
        let Inner { stage, spare, mending, held, .. } = &*self.inner;
        let _turn = mending.lock().await;
        self.forget_some_lost().await;
        if held.get() {
            return false;
        }
        let shared = spare.borrow().clone();
        if let Some(spare) = shared
            && spare.mend_some().await
        {
            return true;
        }
        match (stage.mending.get(), stage.filling.get()) {
            (Some(place), Some(_)) => join(self.fill_some(place), self.move_some()).await.0,
            (Some(place), None) => join(self.mend_some(place), self.move_some()).await.0,
            (None, _) => self.move_some().await || self.begin_spare().await,
        }
    }

    /// Some rows of a new drive.
    async fn fill_some(&self, place: usize) -> bool {
        let Inner { array, stage, .. } = &*self.inner;
        let (own, chunk) = (&stage.targets[place], stage.grid.chunk);
        let rows = array.next_rows(place);
        if rows.as_ref().is_some_and(Range::is_empty) && self.reclaim_others(place).await {
            return true;
        }
        // Nobody comes between this and what is done then.
        let next = array.next_rows(place).map_or(0, |rows| rows.start);
        let begin = stage.data_at + next * chunk;
        *own.exempt.borrow_mut() = begin..begin + classical::limits::REBUILD_AT_ONCE * chunk;
        self.mend_some(place).await;
        // What comes next to these rows is redirected, too.
        *own.exempt.borrow_mut() = 0..0;
        if stage.mending.get().is_none() {
            // If it failed the new drive is lost again, or too many others are; requests tell.
            self.end_filling(place);
        }
        true
    }

    /// Before the group is whole again a dedicated drive gives back what it has of more than one
    /// of its drives, or its loss would be that of as many. True: not all is there yet.
    async fn reclaim_others(&self, place: usize) -> bool {
        let stage = &self.inner.stage;
        stage.outsourcing.set(false);
        let group = stage.grid.group_of(place);
        let other = |at: usize| at != place && stage.grid.group_of(at) == group;
        let drives = self.drives();
        let mut staged = drives
            .iter()
            .filter(|drive| other(drive.index) && drive.is_staged() && !stage.is_dead(drive.index));
        match staged.next().filter(|_| stage.dedicated.is_some()) {
            Some(drive) => {
                let _ = drive.clear().await;
                true
            }
            None => false,
        }
    }
}

impl<E: Env> Steering<E> {
    async fn tell_state(&self, place: usize, state: MemberState) -> Result<(), StoreError> {
        let Inner { set, mending, .. } = &*self.inner;
        let _turn = mending.lock().await;
        let Some(mut next) = set.borrow().with_state(place, state) else { return Ok(()) };
        let others = self.lost().into_iter().filter(|at| !self.is_moving(*at));
        others.for_each(|at| next.forget(at));
        next.write_labels().await?;
        *set.borrow_mut() = next;
        Ok(())
    }
}

impl<E: Env> Replace for Steering<E> {
    type Drive = E::Drive;

    fn bears(&self, place: usize) -> bool {
        self.lost().contains(&place) || self.margin() > 0
    }

    async fn write_off(&self, place: usize) -> Result<(), StoreError> {
        let Inner { array, stage, set, .. } = &*self.inner;
        // What the staging space has of one that is lost already counts.
        if !self.lost().contains(&place) {
            stage.holders[place].head.lose();
            stage.holders[place].space.iter().for_each(|space| space.member.lose());
            if let Some(own) = stage.targets.get(place) {
                own.dead.set(true);
                array.write_off(place).await?;
            }
        }
        let restoring = set.borrow().is_restoring(place);
        if restoring { self.tell_state(place, MemberState::Failed).await } else { Ok(()) }
    }

    async fn replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
        Steering::replace(self, place, new).await
    }

    /// Those that are filled with what others have, or with what the staging space has.
    fn restoring(&self) -> Vec<Restoring> {
        let Inner { array, stage, .. } = &*self.inner;
        let filling = stage.filling.get().map(|place| {
            let (left, all) = array.rows_left(place).unwrap_or((0, stage.grid.rows));
            Restoring { place, left: left * stage.grid.chunk, all: all * stage.grid.chunk }
        });
        let moving = self.drives().into_iter().filter_map(|drive| {
            let (_, front) = drive.home.moving()?;
            let (left, all) = (self.left_to_move(&drive, front), self.left_to_move(&drive, 0));
            Some(Restoring { place: drive.index, left, all })
        });
        filling.into_iter().chain(moving).collect()
    }

    fn hold(&self, held: bool) {
        self.inner.held.set(held);
    }

    fn label_turn(&self, _place: usize) -> Turn {
        self.inner.mending.clone()
    }

    async fn relist(&self, place: usize, drive: Uuid) -> Result<Superblock, StoreError> {
        let lost = self.lost().into_iter().filter(|at| !self.is_moving(*at));
        set::relist(&self.inner.set, place, drive, &lost.collect::<Vec<_>>()).await
    }

    async fn tell_whole(&self, place: usize) -> Result<(), StoreError> {
        let restoring = self.inner.set.borrow().is_restoring(place);
        if restoring { self.tell_state(place, MemberState::Active).await } else { Ok(()) }
    }
}
