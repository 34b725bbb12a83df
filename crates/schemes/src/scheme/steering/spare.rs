//! Parallel reconstruction (Figure 6, case 2): a lost drive's bytes in the staging space of others.
//!
//! ```text
//!   d0 d1 d2 d3 d4 ── d2 lost ── all redirected writes reclaimed, segments given up
//!   second extents of d0 d1 d3 d4     [heads│hot│segment][segment ...........]
//!                                                        └ an array of their own, as redundant:
//!                                                          all that d2 had, labels to labels
//!   rows of d2 ── solved from d0 d1 d3 d4 ── written to all four of them, in parallel
//! ```
//! To the array that array is drive 2. When it has all rows the array bears as many losses as
//! before, for one more drive costs each of the two one member. A new drive in d2's place gets
//! what the staging space has (`home`), while that still grows; d2 itself, back, what it missed.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use classical::{Array, CreateSpec, Grid, Lacks, Redundancy, label};
use format::{Extent, LABEL_AREA, LABEL_LEN, Uuid, label_offsets};
use io::{Buf, Drive, Env, join_all};

use super::drive::Steered;
use super::home::Home;
use super::record::{PAGE, Spared};
use super::space::{Closed, Division};
use super::stage::{Stage, count};
use super::{Inner, Steering};
use crate::locks::Hold;
use crate::part::{Part, PartEnv, on_parts};
use crate::set::Set;
use crate::store::StoreError;

/// Written to the new drive at a time.
const MOVED_AT_ONCE: u64 = 1 << 20;
/// What labels take is found by trying so many sizes at most.
const SIZES_MAX: u64 = 8;

/// Where the bytes of a lost drive can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub group: usize,
    /// The drives that share them.
    pub places: Vec<usize>,
    pub redundancy: Redundancy,
    /// Bytes of the second extents of those drives.
    pub extent: Extent,
    /// Segments of theirs that stay.
    pub keep: u64,
}

/// The array inside, as redundant as that of the drives, in the staging space of one group: that
/// of the lost drive or another. `end`: where the staging space ends, `bytes`: of a drive.
pub fn plan(
    grid: &Grid,
    (division, end): (&Division, u64),
    bytes: u64,
    (place, group): (usize, usize),
) -> Option<Plan> {
    let all = group * grid.width..(group + 1) * grid.width;
    let places: Vec<usize> = all.filter(|&at| at != place).collect();
    let (width, tolerance) = (places.len(), grid.tolerance());
    let redundancy = match grid.redundancy {
        Redundancy::Mirror if width > tolerance => Redundancy::Mirror,
        Redundancy::Parity(parity) if width > parity + 1 => Redundancy::Parity(parity),
        Redundancy::Parity(parity) if width == parity + 1 => Redundancy::Mirror,
        _ => return None,
    };
    let inside = Grid { redundancy, drives: width, width, chunk: grid.chunk, rows: 1 };
    let rows = bytes.div_ceil(inside.stripe_bytes());
    let chunks = rows * grid.chunk;
    let least = (label::divide(0, grid, false).data.offset + chunks).next_multiple_of(LABEL_AREA);
    let mut sizes = (0..SIZES_MAX).map(|more| least + more * LABEL_AREA);
    let len = sizes.find(|&len| label::divide(len, grid, false).data.len >= chunks)?;
    let offset = end.checked_sub(len)? / PAGE * PAGE;
    let keep = offset.checked_sub(division.log_at)? / division.segment;
    (keep > 0).then_some(Plan { group, places, redundancy, extent: Extent { offset, len }, keep })
}

/// An open array in the staging space with the bytes of a lost drive. When the last who reads or
/// writes there has forgotten it, the segments are free for records again.
pub struct Inside<E: Env> {
    pub array: Array<PartEnv<E>>,
    pub plan: Plan,
    pub place: usize,
    /// A drive of it can't be rebuilt.
    stuck: Cell<bool>,
    _closed: Vec<Closed>,
}

pub type Spare<E> = Rc<Inside<E>>;

impl<E: Env> Inside<E> {
    /// Which drive of it a drive of the pool is.
    pub fn member(&self, drive: usize) -> Option<usize> {
        self.plan.places.iter().position(|place| *place == drive)
    }

    /// A new drive has the place of one that is lost: what it should have of this comes first.
    pub fn replace(&self, drive: usize, part: Part) {
        let Some(member) = self.member(drive) else { return };
        self.array.lose(member);
        // If it can't be, it stays lost here, and what is here is less redundant.
        let _ = self.array.replace(member, part);
        self.stuck.set(false);
    }

    /// False: no new drive lacks anything of this.
    pub async fn mend_some(&self) -> bool {
        let mut members = 0..self.plan.places.len();
        let new = members.find(|&member| self.array.rebuilt(member).is_some());
        let Some(member) = new.filter(|_| !self.stuck.get()) else { return false };
        self.stuck.set(self.array.rebuild_some(member).await.is_err());
        true
    }
}

impl Stage {
    /// Where the bytes of a lost drive can be: in its own group, if wide enough, or another.
    pub fn spare_plan(&self, place: usize, group: usize) -> Option<Plan> {
        let holder = (0..self.targets.len()).find_map(|at| self.holders[at].space.as_ref())?;
        let end = self.side_bytes;
        let reserved = self.dedicated.is_none();
        let found = plan(&self.grid, (&holder.division, end), self.home_bytes, (place, group));
        found.filter(|_| reserved)
    }

    /// Of drives that are all there.
    fn whole_plan(&self, place: usize) -> Option<Plan> {
        let (own, groups) = (self.grid.group_of(place), self.grid.groups());
        let order = (0..groups).map(|at| (own + at) % groups);
        let plans = order.filter_map(|group| self.spare_plan(place, group));
        let there = |at: &usize| !self.is_dead(*at) && !self.holders[*at].is_lost();
        plans.into_iter().find(|plan| plan.places.iter().all(there))
    }

    pub fn close_segments(&self, plan: &Plan) -> Vec<Closed> {
        let spaces = plan.places.iter().filter_map(|&at| self.holders[at].space.as_ref());
        spaces.map(|space| space.segments.close(plan.keep)).collect()
    }

    fn is_closed(&self, plan: &Plan) -> bool {
        let mut spaces = plan.places.iter().filter_map(|&at| self.holders[at].space.as_ref());
        spaces.any(|space| space.segments.is_closed())
    }

    fn is_given_up(&self, plan: &Plan) -> bool {
        let mut spaces = plan.places.iter().filter_map(|&at| self.holders[at].space.as_ref());
        spaces.all(|space| space.segments.is_given_up())
    }
}

/// What the heads tell is there, opened. `None`: it can't be.
pub async fn open_told<E: Env>(
    env: &E,
    stage: &Stage,
    set: &Set<E::Drive>,
    options: classical::OpenOptions,
) -> Option<Spare<E>> {
    let Spared { place, group, pool, .. } = stage.heads.spared.get();
    let place = place?;
    let plan = stage.spare_plan(place, group)?;
    let closed = stage.close_segments(&plan);
    let mut parts = Vec::new();
    for &at in &plan.places {
        // What was made there before, and missed the end of it, is not this one.
        if let Some(part) = set.within_second(at, plan.extent)
            && label::read(&part).await.is_some_and(|own| own.pool == pool)
        {
            parts.push(part);
        }
    }
    let array = Array::open(&on_parts(env), parts, options).await.ok()?;
    let fits = array.size() >= stage.home_bytes && array.grid().drives == plan.places.len();
    fits.then(|| Rc::new(Inside { array, plan, place, stuck: Cell::new(false), _closed: closed }))
}

/// Makes it anew, and opens it.
async fn make<E: Env>(
    inner: &Inner<E>,
    (place, plan, closed): (usize, Plan, Vec<Closed>),
) -> Option<(Spare<E>, Uuid)> {
    let (env, stage) = (on_parts(&inner.env), &inner.stage);
    let parts: Vec<Part> = {
        let set = inner.set.borrow();
        plan.places.iter().filter_map(|&at| set.within_second(at, plan.extent)).collect()
    };
    let (redundancy, width, chunk) = (plan.redundancy, plan.places.len(), stage.grid.chunk);
    // What lies there has sums above.
    let (name, checksums) = ("spare".into(), false);
    let spec = CreateSpec { name, redundancy, width, chunk, checksums };
    if parts.len() < width {
        return None;
    }
    classical::array::create(&env, &parts, &spec).await.ok()?;
    let pool = label::read(&parts[0]).await?.pool;
    let array = Array::open(&env, parts, inner.open_options).await.ok()?;
    // Nothing that was there once is a label of the lost drive.
    for at in label_offsets(stage.home_bytes) {
        array.write(at, Buf::zeroed(LABEL_LEN), true).await.ok()?;
    }
    Some((Rc::new(Inside { array, plan, place, stuck: Cell::new(false), _closed: closed }), pool))
}

impl<E: Env> Steering<E> {
    /// The lost drive that can be rebuilt without a new one, and where.
    fn spare_wanted(&self) -> Option<(usize, Plan)> {
        let Inner { array, stage, spare, spare_failed, .. } = &*self.inner;
        let idle = spare.borrow().is_none() && stage.mending.get().is_none();
        if !idle || spare_failed.get() {
            return None;
        }
        let waits = |place: &usize| array.rebuilt(*place).is_none();
        let lost = array.lost().into_iter().filter(waits);
        lost.into_iter().find_map(|place| Some((place, stage.whole_plan(place)?)))
    }

    /// Begins to rebuild a lost drive in the staging space. False: there is none, or no room.
    pub(super) async fn begin_spare(&self) -> bool {
        let Inner { stage, spare, spare_failed, giving_up, .. } = &*self.inner;
        let Some((place, plan)) = self.spare_wanted() else {
            giving_up.borrow_mut().take();
            return false;
        };
        let held =
            giving_up.borrow_mut().take().filter(|(of, own, _)| (*of, own) == (place, &plan));
        if held.is_none() && stage.is_closed(&plan) {
            // Somebody reads what was there before.
            return false;
        }
        let closed = held.map_or_else(|| stage.close_segments(&plan), |(_, _, closed)| closed);
        // What is redirected goes back first; one that can't is lost, and the next look tells.
        let drives = self.drives();
        join_all(drives.iter().map(|drive| drive.clear())).await;
        if !self.forget_staged(place).await {
            // What is staged would be taken for newer than what is rebuilt.
            spare_failed.set(true);
            return true;
        }
        if !stage.is_given_up(&plan) {
            // Somebody reads there still.
            *giving_up.borrow_mut() = Some((place, plan, closed));
            self.inner.env.yield_now().await;
            return true;
        }
        let Some((made, pool)) = make(&self.inner, (place, plan, closed)).await else {
            spare_failed.set(true);
            return true;
        };
        let own = &stage.targets[place];
        let group = made.plan.group;
        own.spared.set(true);
        own.dead.set(false);
        own.dirty.set(true);
        stage.tell_spared(Spared { place: Some(place), group, pool, ..Spared::default() });
        *spare.borrow_mut() = Some(made.clone());
        stage.mending.set(Some(place));
        let home = Rc::new(Home::spared(made, None));
        let steered = Steered { stage: stage.clone(), index: place, home };
        self.inner.drives.borrow_mut()[place] = Some(steered.clone());
        let sealed = stage.seal_all().await;
        // The staging space may have been this drive before: records of its log are out of date.
        let array = &self.inner.array;
        let blank = sealed && array.blank(place, &steered.part()).await.is_ok();
        if !blank || array.replace_away(place, steered.part()).is_err() {
            self.drop_spare().await;
            spare_failed.set(true);
            return true;
        }
        self.inner.array.avoid(place, false);
        true
    }

    /// Records of what was staged for a drive that is lost are void. It is missing on that drive if
    /// it comes back; but first the labels say that it is lost, or with its records void it would
    /// pass for whole.
    pub(super) async fn forget_staged(&self, place: usize) -> bool {
        let Inner { array, stage, .. } = &*self.inner;
        let own = &stage.targets[place];
        if array.write_off(place).await.is_err() {
            return false;
        }
        let staged = {
            let _all = own.lock.lock(0..u64::MAX, Hold::InPlace).await;
            stage.staged_of(place)
        };
        // Nothing is redirected of it any more. Nobody may be held up: who writes the marks may be
        // waiting for this drive.
        array.keep(place, &staged).await;
        let _all = own.lock.lock(0..u64::MAX, Hold::InPlace).await;
        stage.raise(place);
        let sealed = stage.seal(place).await;
        if sealed {
            *own.staged.borrow_mut() = Default::default();
            own.steered.set(false);
        }
        sealed
    }

    /// What was staged of lost drives is noted as missing on them soon: the copies may go, too.
    /// Not while a new drive is filled, of which something is staged.
    pub(super) async fn forget_some_lost(&self) {
        let Inner { array, stage, .. } = &*self.inner;
        let staged = |place: &usize| {
            let staged = stage.targets[*place].staged.borrow();
            staged.table.is_redirected(&(0..u64::MAX))
        };
        let waits = |place: &usize| array.rebuilt(*place).is_none() && stage.is_dead(*place);
        let lost: Vec<usize> = array.lost().into_iter().filter(waits).filter(staged).collect();
        for place in lost {
            self.forget_staged(place).await;
        }
    }

    /// The same of all that a dedicated drive which is gone may have held anything of.
    pub(super) async fn forget_all_lost(&self) -> Result<(), StoreError> {
        let stage = &self.inner.stage;
        for place in 0..stage.targets.len() {
            if !stage.is_claimed(place) {
                continue;
            }
            let drive = self.inner.drives.borrow()[place].clone();
            // What is back may not be durable yet.
            let cleared = match drive.filter(|_| !stage.is_dead(place)) {
                Some(drive) => drive.clear().await.is_ok(),
                None => false,
            };
            if !cleared {
                stage.targets[place].dead.set(true);
                if !self.forget_staged(place).await {
                    let what = format!("what was staged of drive {place}");
                    let hint = "too few other drives can be written to, or too many are lost";
                    return Err(StoreError::Shape { what, hint });
                }
            }
        }
        Ok(())
    }

    /// What is in the staging space is worth nothing: the drive is as lost as before.
    pub(super) async fn drop_spare(&self) {
        let Inner { stage, spare, drives, .. } = &*self.inner;
        let Some(made) = spare.borrow_mut().take() else { return };
        let place = made.place;
        stage.targets[place].dead.set(true);
        stage.targets[place].spared.set(false);
        // The array still knows the drive, and with it what is there.
        if let Some(drive) = drives.borrow_mut()[place].take() {
            drive.home.lose();
        }
        if stage.mending.get() == Some(place) {
            stage.mending.set(None);
        }
        stage.tell_spared(Spared::default());
        // Unsealed, the heads may say that it is there: its labels say that it is not whole.
        let _ = stage.seal_all().await;
    }

    /// The new drive gets some of what the staging space has. False: nothing can be done.
    pub(super) async fn move_some(&self) -> bool {
        let Inner { array, stage, spare, .. } = &*self.inner;
        let Some(place) = spare.borrow().as_ref().map(|spare| spare.place) else { return false };
        let Some(drive) = self.inner.drives.borrow()[place].clone() else { return false };
        let Some((_, front)) = drive.home.moving() else { return false };
        let end = match array.rebuilt(place) {
            Some(rows) => stage.data_at + rows * stage.grid.chunk,
            None if array.lost().contains(&place) => return false,
            None => stage.home_bytes,
        };
        if front == stage.home_bytes {
            return self.finish_move(&drive).await;
        }
        let next = self.next_move(&drive, front);
        let (begin, to) = (next.start.min(end), next.end.min(end).min(next.start + MOVED_AT_ONCE));
        if front < begin {
            drive.home.skip(begin);
            return true;
        }
        if to <= front {
            return false;
        }
        let _held = stage.targets[place].lock.lock(front..to, Hold::InPlace).await;
        if drive.home.advance(to).await {
            let moved = &stage.counts.moved_bytes;
            moved.set(moved.get() + (to - front));
        }
        true
    }

    /// The next bytes from here on that a new drive is to be given of what the staging space has:
    /// all but rows that it does not miss.
    fn next_move(&self, drive: &Steered<E>, from: u64) -> Range<u64> {
        let Inner { array, stage, .. } = &*self.inner;
        let Grid { rows, chunk, .. } = stage.grid;
        let (data, end) = (stage.data_at, stage.data_at + rows * chunk);
        match drive.home.lacks() {
            Lacks::Kept if (data..end).contains(&from) => {
                let missed = array.missed(drive.index, (from - data) / chunk);
                match missed.is_empty() {
                    true => end..stage.home_bytes,
                    false => (data + missed.start * chunk).max(from)..data + missed.end * chunk,
                }
            }
            Lacks::Kept if from < data => from..data,
            Lacks::Kept | Lacks::All => from..stage.home_bytes,
        }
    }

    /// Bytes that a new drive is still to be given of what the staging space has.
    pub(super) fn left_to_move(&self, drive: &Steered<E>, mut from: u64) -> u64 {
        let mut left = 0;
        while from < self.inner.stage.home_bytes {
            let next = self.next_move(drive, from);
            left += next.end - next.start;
            from = next.end;
        }
        left
    }

    async fn finish_move(&self, drive: &Steered<E>) -> bool {
        let Inner { stage, spare, .. } = &*self.inner;
        let own = &stage.targets[drive.index];
        let _all = own.lock.lock(0..u64::MAX, Hold::InPlace).await;
        let Some((part, _)) = drive.home.moving() else { return false };
        if part.flush().await.is_err() {
            drive.home.stay();
            return true;
        }
        stage.tell_spared(Spared::default());
        if !stage.seal_all().await {
            // Both have all of it, and go on to: whichever the heads say is right.
            return false;
        }
        drive.home.moved();
        self.inner.array.come_home(drive.index);
        own.spared.set(false);
        spare.borrow_mut().take();
        true
    }

    /// Some rows of the lost drive, into the staging space or onto a new one.
    pub(super) async fn mend_some(&self, place: usize) -> bool {
        let Inner { array, stage, .. } = &*self.inner;
        let more = array.rebuild_some(place).await;
        if let Ok(true) = more {
            let rows = &stage.counts.rebuilt_rows;
            rows.set(rows.get() + classical::limits::REBUILD_AT_ONCE);
            return true;
        }
        let spared = stage.targets[place].spared.get();
        stage.mending.set(None);
        match more {
            Ok(_) if spared => count(&stage.counts.spared),
            // As lost as before; if others are lost, too, what is there is kept.
            Err(_) if spared && array.rebuilt(place).is_none() => self.drop_spare().await,
            _ => {}
        }
        true
    }
}
