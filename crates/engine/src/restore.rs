//! Restoring: a drive that has taken a lost one's place is filled with what that should hold.
//!
//! ```text
//!            replace                        nothing awaited, all durable
//!   lost ───────────────> restoring ─────────────────────────────────────> active
//!    ^                        │  written like any other drive, read where it holds something
//!    └────────────────────────┘  it fails
//! ```
//! Only what is in use is written: metadata first, then RAID blocks computed from their stripes,
//! those of stripes that lost most first, then blocks of tuples from their other copies. What is
//! written meanwhile goes to the drive by itself (`Shard::is_there`). A crash begins anew: which
//! blocks were there already is known to memory only.
//!
//! Of the journal it gets what is written from now on. Blocks of before may have had copies on the
//! lost drive: a checkpoint makes them needless before the drive counts as whole, or the loss of
//! another would take records that were answered for.

mod objects;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use format::{Member, ObjectKey, SLOT_LEN, StripeId, Superblock, Uuid, end_area, label_offsets};
use futures_util::future::select;
use io::awaited::Awaited;
use io::{Buf, Drive, Durability, Env, PAGE, join_all};
use layout::DriveIndex;
use smallvec::SmallVec;

use crate::api::{DriveState, DriveVerbError, EventKind, RequestError, Severity};
use crate::geometry::{Class, PoolGeometry};
use crate::label::{Label, read_label};
use crate::limits::{RESTORE_LOST_RETRY, RESTORE_OBJECTS_AT_ONCE, RESTORE_RETRY, STRIPES_AT_ONCE};
use crate::planted::{self, Bug};
use crate::shard::Shard;
use crate::space::{Kind, Space};
use crate::tuple::{Tuple, TupleKey};

/// What a drive should hold of all that is in use, in zones that have `changed`: of tuples, the
/// zone that knows the tuple.
pub fn awaited(space: &Space, drive: DriveIndex, changed: impl Fn(u32) -> bool) -> Awaited {
    let geometry = &space.geometry;
    let mut awaited = Awaited::nothing(geometry.zones.range(), geometry.block_size);
    let mut add = |class: &Class, stripe: StripeId| {
        for position in positions_on(space, class, stripe, drive) {
            awaited.add(space.address(class, stripe, position).offset);
        }
    };
    for zone in (0..geometry.zone_count).filter(|&zone| changed(zone)) {
        let Some((class, stripes)) = space.held_in(zone) else { continue };
        // Blocks of spare stripes are those of the stripes that have them.
        let raid = stripes.filter(|(_, kind)| !matches!(kind, Kind::Tuple | Kind::Spare));
        raid.for_each(|(stripe, _)| add(class, stripe));
    }
    for key in space.tuple_keys().into_iter().filter(|key| changed(key.zone)) {
        let tuple = space.tuple(key).expect("listed");
        let class = space.class_of_zone(key.zone).expect("tuples lie in assigned zones");
        tuple.stripes.iter().for_each(|&stripe| add(class, stripe));
    }
    awaited
}

/// Which of a stripe's blocks are on a drive: one, or in stripes of tuples, which may have blocks
/// elsewhere, more.
fn positions_on(
    space: &Space,
    class: &Class,
    stripe: StripeId,
    drive: DriveIndex,
) -> SmallVec<[usize; 2]> {
    let on = |&position: &usize| space.address(class, stripe, position).drive == drive;
    (0..class.width()).filter(on).collect()
}

/// How a look at everything that is awaited went.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    restored: u64,
    /// Being written, or read by somebody who saw it before it died: it will be over soon.
    later: u64,
    lost: u64,
}

enum Done {
    Restored,
    Later,
    Lost,
}

impl Pass {
    fn count(&mut self, done: &Done) {
        match done {
            Done::Restored => self.restored += 1,
            Done::Later => self.later += 1,
            Done::Lost => self.lost += 1,
        }
    }
}

impl<E: Env> Shard<E> {
    /// Puts a drive in a lost one's place and begins to restore it.
    pub async fn replace(&self, index: DriveIndex, drive: E::Drive) -> Result<(), DriveVerbError> {
        self.check_usable()?;
        self.check_lost(index)?;
        self.check_room(index, &drive)?;
        let (name, size) = (drive.name(), drive.geometry().size);
        let failed = |error| DriveVerbError::Drive { name: name.clone(), error };
        let own = self.own_label(index, &drive).await.map_err(failed)?;
        self.wipe(&drive, own.is_none()).await.map_err(failed)?;
        // The others say that its predecessor is lost before anything relies on this one.
        self.record_failures().await?;
        self.check_lost(index)?;
        // Of the one before, by its name.
        self.tell_mended(true);
        let (uuid, since) = match &own {
            Some(label) => (label.drive, self.whole_at(label)),
            None => (Uuid::from_random(self.env.unique_id()), None),
        };
        if self.array.member(index).state() == DriveState::Vacated
            && self.come_home(index, uuid, &drive).await?
        {
            return self.check_used(index, name);
        }
        let turn = self.checkpoint_turn.lock().await;
        self.check_lost(index)?;
        let awaited = self.missed(index, since);
        drop(turn);
        let blocks = awaited.total();
        self.array.adopt(index, (uuid, size, drive), awaited);
        self.use_again(index);
        self.forgive(index);
        self.write_labels(|_| {}).await?;
        self.record_failures().await?;
        self.check_used(index, name.clone())?;
        let text = format!("drive {name} is restored in place {index}: {blocks} blocks to write");
        self.tell(Some(index), (Severity::Info, EventKind::DriveRestoring), text);
        self.own().start_restoring(index);
        Ok(())
    }

    /// It may fail with its label unwritten: then it is nobody's drive.
    fn check_used(&self, index: DriveIndex, name: String) -> Result<(), DriveVerbError> {
        match self.array.member(index).state() {
            DriveState::Failed => Err(DriveVerbError::FailedAtOnce { index: index.0, name }),
            _ => Ok(()),
        }
    }

    /// What every member holds fits on it.
    pub fn check_room(&self, index: DriveIndex, drive: &E::Drive) -> Result<(), DriveVerbError> {
        let zones = self.geometry.zones_on(index);
        let end = zones.offset + zones.len;
        let (name, size) = (drive.name(), drive.geometry().size);
        if end_area(size) < end {
            let least = end + format::LABEL_AREA;
            return Err(DriveVerbError::TooSmall { index: index.0, name, size, least });
        }
        Ok(())
    }

    pub(crate) fn use_again(&self, index: DriveIndex) {
        let mut state = self.state.borrow_mut();
        state.space.set_avoided(index, false);
        state.space.spare_reopen();
    }

    fn check_lost(&self, index: DriveIndex) -> Result<(), DriveVerbError> {
        match self.array.member(index).state() {
            DriveState::Missing | DriveState::Failed | DriveState::Vacated => Ok(()),
            state => Err(DriveVerbError::NotLost { index: index.0, state }),
        }
    }

    /// The label of the drive that was in this place, if it is the one: it keeps its name.
    async fn own_label(
        &self,
        index: DriveIndex,
        drive: &E::Drive,
    ) -> Result<Option<Box<Superblock>>, io::DriveError> {
        let was = self.array.member(index).uuid();
        Ok(match read_label(drive).await? {
            Label::Ours(label) if label.pool == self.labels.pool() && label.drive == was => {
                Some(label)
            }
            _ => None,
        })
    }

    /// The last checkpoint at whose end a drive that comes back held everything: flushed, then told
    /// so in its label. `None` if it was not whole itself, or was in a pool that had lost drives
    /// which ours has not: what is called the same may be something else there.
    fn whole_at(&self, label: &Superblock) -> Option<u64> {
        let whole = |member: &Member| member.state.is_whole();
        let itself = label.members.iter().any(|own| own.drive == label.drive && whole(own));
        let ours = self.labels.get();
        let agree = label.generation <= ours.generation
            && ours.members.iter().filter(|member| whole(member)).all(|member| {
                label.members.iter().any(|known| known.drive == member.drive && whole(known))
            });
        (itself && agree && !label.is_replacement()).then_some(label.checkpoint[0].seq)
    }

    /// What a drive does not hold: what has changed since that checkpoint, or everything. While no
    /// checkpoint is being written, a zone that is neither dirty nor in a later one is as it was.
    fn missed(&self, index: DriveIndex, since: Option<u64>) -> Awaited {
        let state = self.state.borrow();
        let changed = |zone: u32| {
            let stored = state.meta.objects.get(&ObjectKey::Zone { zone });
            let kept = since.zip(stored).is_some_and(|(since, stored)| stored.seq <= since);
            !kept || state.space.is_dirty(zone)
        };

        awaited(&state.space, index, changed)
    }

    /// What a metadata area of old says would pass for this pool's: of objects that are gone, and
    /// of checkpoints that this drive has not seen. Labels of somebody else, `strange` ones, would
    /// disagree with ours if these are written by halves (world 900116).
    pub async fn wipe(&self, drive: &E::Drive, strange: bool) -> Result<(), io::DriveError> {
        let labels = label_offsets(drive.geometry().size).into_iter().filter(|_| strange);
        let heads: Vec<u64> = labels.chain(self.slot_heads()).collect();
        for some in heads.chunks(RESTORE_OBJECTS_AT_ONCE) {
            let wipe = |&at| drive.write(at, Buf::zeroed(PAGE), Durability::Cached);
            join_all(some.iter().map(wipe)).await.into_iter().collect::<Result<(), _>>()?;
        }
        drive.flush().await
    }

    /// Of drives with an image of before, that are in use: what their slots say is of before, too,
    /// and is to be gone when their labels are of today. They are flushed with the others.
    pub async fn wipe_stale(&self, stale: &[DriveIndex]) {
        for &index in stale {
            let heads: Vec<u64> = self.slot_heads().collect();
            for some in heads.chunks(RESTORE_OBJECTS_AT_ONCE) {
                let wipe = |&at| self.array.write(index, at, Buf::zeroed(PAGE), Durability::Cached);
                // A drive that does not take it fails.
                join_all(some.iter().map(wipe)).await;
            }
        }
    }

    /// Where the slots of a drive begin.
    fn slot_heads(&self) -> impl Iterator<Item = u64> {
        let area = self.labels.meta();
        (0..area.len / SLOT_LEN as u64).map(move |row| area.offset + row * SLOT_LEN as u64)
    }

    /// A stripe is in use from now on, and whatever will be read there is written first: a drive
    /// that is being restored need not be given what was there before.
    pub fn is_there(&self, space: &Space, class: &Class, stripe: StripeId) {
        for drive in self.array.restoring() {
            for position in positions_on(space, class, stripe, drive) {
                self.array.arrived(drive, space.address(class, stripe, position).offset);
            }
        }
    }

    pub fn start_restoring(self: &Rc<Self>, drive: DriveIndex) {
        let shard = self.clone();
        self.spawn_task(io::slice::Work::Rebuild, async move {
            // A drive that fails meanwhile has said so; everything else is tried again.
            let _ = shard.restore(drive).await;
        });
    }

    fn goes_on(&self, drive: DriveIndex) -> bool {
        !self.stopping() && self.array.member(drive).state() == DriveState::Restoring
    }

    async fn restore(&self, drive: DriveIndex) -> Result<(), RequestError> {
        let before = self.journal.latest();
        self.restore_objects(drive).await;
        let mut told = 0;
        while self.goes_on(drive) {
            let pass = self.restore_pass(drive).await;
            if !self.goes_on(drive) {
                break;
            }
            let is_there = self.array.awaited(drive).is_none_or(|(left, _)| left == 0);
            if is_there && self.has_journal(before).await {
                return self.end_restoring(drive).await;
            }
            if pass.lost != told {
                told = pass.lost;
                self.tell_lost(drive, pass.lost);
            }
            if pass.restored == 0 {
                // Dead stripes are reusable, and of no interest, when that is durable.
                let _ = self.flush_limbo().await;
            }
            let wait = if pass.later > 0 { RESTORE_RETRY } else { RESTORE_LOST_RETRY };
            let wait = if pass.lost > 0 { wait } else { RESTORE_RETRY };
            let tick = Box::pin(self.env.sleep_until(self.env.now() + wait));
            // Closing the pool wakes whoever paces itself.
            select(tick, Box::pin(self.pacer.woken())).await;
        }
        Ok(())
    }

    /// Nobody needs blocks of the journal that it was not given.
    async fn has_journal(&self, before: u64) -> bool {
        planted::is(Bug::RestorePastJournal) || self.forget_journal(before).await
    }

    fn tell_lost(&self, drive: DriveIndex, lost: u64) {
        let text = format!(
            "{lost} blocks of drive {drive} can't be computed: more than parity bears is lost or \
             unreadable there; they are tried again every {RESTORE_LOST_RETRY}"
        );
        self.tell(Some(drive), (Severity::Error, EventKind::BlocksLost), text);
    }

    /// Everything is there: durably, before the labels say so.
    async fn end_restoring(&self, drive: DriveIndex) -> Result<(), RequestError> {
        self.flush().await?;
        if !self.goes_on(drive) {
            return Ok(());
        }
        self.array.restored(drive);
        self.rebuild.stir();
        self.write_labels(|_| {}).await?;
        self.array.told_whole(drive);
        let text = format!("drive {} holds everything that it should", self.drive_name(drive));
        self.tell(Some(drive), (Severity::Info, EventKind::DriveRestored), text);
        self.record_failures().await
    }

    async fn restore_pass(&self, drive: DriveIndex) -> Pass {
        let mut pass = Pass::default();
        let classes: Vec<Rc<Class>> = self.state.borrow().space.classes().cloned().collect();
        classes.iter().for_each(|class| self.seal_open(class.id));
        // Of stripes that lost most the next drive takes data with it.
        for least in (1..=self.array.lost()).rev() {
            for zone in 0..self.geometry.zone_count {
                self.restore_zone(drive, zone, least, &mut pass).await;
                if !self.goes_on(drive) {
                    return pass;
                }
            }
        }
        let keys = self.state.borrow().space.tuple_keys();
        for some in keys.chunks(STRIPES_AT_ONCE) {
            self.restore_tuples(drive, some, &mut pass).await;
            if !self.goes_on(drive) {
                break;
            }
        }
        pass
    }

    /// Stripes of a zone that have lost at least so many blocks.
    async fn restore_zone(&self, drive: DriveIndex, zone: u32, least: usize, pass: &mut Pass) {
        self.forget_free(drive, zone);
        let Some((class, stripes)) = self.awaited_stripes(drive, zone) else { return };
        let endangered = |stripe: &StripeId| self.lost_blocks(&class, *stripe) >= least;
        let stripes: Vec<StripeId> = stripes.into_iter().filter(endangered).collect();
        for some in stripes.chunks(STRIPES_AT_ONCE) {
            let queue = || {
                let drives = some.iter().flat_map(|&stripe| class.drives(stripe));
                self.queue_of(drives)
            };
            let turn = self.pace(queue).await;
            if !self.goes_on(drive) {
                return;
            }
            // What is live now is given away only after this.
            let _guard = self.reads.enter();
            let restore = |&stripe: &StripeId| self.restore_block(drive, &class, stripe);
            for done in join_all(some.iter().map(restore)).await {
                turn.moved(class.width() * self.geometry.block_size as usize);
                pass.count(&done);
            }
            drop(turn);
            self.note_rates();
            self.env.yield_now().await;
        }
    }

    /// Nobody will read what free blocks held.
    fn forget_free(&self, drive: DriveIndex, zone: u32) {
        let state = self.state.borrow();
        let mut held = BTreeSet::new();
        if let Some((class, stripes)) = state.space.held_in(zone) {
            // By home: the blocks of this zone, whoever has them.
            for (stripe, kind) in stripes {
                let taken = state.space.spare_taken(stripe);
                let here = |&at: &usize| class.drive(stripe, at) == drive;
                let used = |at: &usize| kind != Kind::Spare || taken.has(*at);
                let position = (0..class.width()).find(here).filter(used);
                held.extend(position.map(|at| self.geometry.address(class, stripe, at).offset));
            }
        }
        let PoolGeometry { zones, zone_bytes, block_size, .. } = &self.geometry;
        let first = zones.offset + u64::from(zone) * zone_bytes;
        let blocks =
            (0..u64::from(self.geometry.zone_blocks)).map(|at| at * u64::from(*block_size));
        for offset in blocks.map(|at| first + at).filter(|offset| !held.contains(offset)) {
            self.array.arrived(drive, offset);
        }
    }

    /// RAID stripes of a zone, and dead ones, whose block the drive does not hold yet.
    fn awaited_stripes(&self, drive: DriveIndex, zone: u32) -> Option<(Rc<Class>, Vec<StripeId>)> {
        let state = self.state.borrow();
        let (class, stripes) = state.space.held_in(zone)?;
        let awaited = |&(stripe, kind): &(StripeId, Kind)| {
            let held = !matches!(kind, Kind::Tuple | Kind::Spare);
            let positions = positions_on(&state.space, class, stripe, drive).into_iter();
            let mut at = positions.map(|at| state.space.address(class, stripe, at));
            held && at.any(|at| self.array.is_awaited(drive, at.offset, PAGE))
        };
        let stripes = stripes.filter(awaited).map(|(stripe, _)| stripe).collect();
        Some((class.clone(), stripes))
    }

    fn lost_blocks(&self, class: &Class, stripe: StripeId) -> usize {
        let lost = |&position: &usize| {
            let at = self.address(class, stripe, position);
            !self.array.is_active(at.drive) || self.array.is_awaited(at.drive, at.offset, PAGE)
        };
        (0..class.width()).filter(lost).count()
    }

    /// Still, whatever was done while others had their turn.
    fn is_raid(&self, class: &Class, stripe: StripeId) -> bool {
        let state = self.state.borrow();
        let now = state.space.class_of_zone(stripe.zone);
        now.is_some_and(|now| now.id == class.id) && state.space.kind(stripe) == Kind::Raid
    }

    async fn restore_block(&self, drive: DriveIndex, class: &Rc<Class>, stripe: StripeId) -> Done {
        if !self.is_raid(class, stripe) {
            return Done::Later;
        }
        let position = {
            let state = self.state.borrow();
            positions_on(&state.space, class, stripe, drive).first().copied()
        };
        // It may have been given a substitute since.
        let Some(position) = position else { return Done::Later };
        let at = self.address(class, stripe, position).offset;
        let rebuilt = match self.rebuilt_block(class, stripe, position).await {
            Some(block) => Some(block),
            None => self.block_as_it_is(class, stripe, position).await,
        };
        match rebuilt {
            Some(block) => self.put(drive, at, block, at).await,
            None => Done::Lost,
        }
    }

    /// Writes what was computed or copied; the block that begins at `block` is whole with it.
    async fn put(&self, drive: DriveIndex, at: u64, data: Buf, block: u64) -> Done {
        if self.array.write(drive, at, data, Durability::Cached).await.is_err() {
            return Done::Later;
        }
        self.array.arrived(drive, block);
        self.count(|counters| counters.restored_blocks += 1);
        Done::Restored
    }

    /// Blocks of tuples, from their other copies, once nobody writes there any more.
    async fn restore_tuples(&self, drive: DriveIndex, keys: &[TupleKey], pass: &mut Pass) {
        let blocks: Vec<(TupleKey, Vec<(usize, u64)>)> =
            keys.iter().map(|&key| (key, self.awaited_slots(drive, key))).collect();
        if blocks.iter().all(|(_, slots)| slots.is_empty()) {
            return;
        }
        let turn = self.pace(|| self.queue_of(std::iter::once(drive))).await;
        let done = RefCell::new(Pass::default());
        let restore = |(key, slots): &(TupleKey, Vec<(usize, u64)>)| {
            let (key, slots, done) = (*key, slots.clone(), &done);
            async move {
                if slots.is_empty() || !self.goes_on(drive) {
                    return;
                }
                if !self.make_busy(key) {
                    done.borrow_mut().later += slots.len() as u64;
                    return;
                }
                for (slot, at) in slots {
                    let one = self.restore_slot(drive, key, slot, at).await;
                    done.borrow_mut().count(&one);
                }
                let mut state = self.state.borrow_mut();
                state.space.tuple_release_busy(key, self.journal.latest(), self.reads.close());
            }
        };
        join_all(blocks.iter().map(restore)).await;
        turn.moved(blocks.len() * self.geometry.block_size as usize);
        let done = done.into_inner();
        pass.restored += done.restored;
        pass.later += done.later;
        pass.lost += done.lost;
    }

    pub(crate) fn make_busy(&self, key: TupleKey) -> bool {
        let mut state = self.state.borrow_mut();
        let quiet = |tuple: &&mut Tuple| tuple.is_quiet() && !tuple.busy;
        let tuple = state.space.tuple_mut(key).filter(quiet);
        tuple.map(|tuple| tuple.busy = true).is_some()
    }

    /// Slots of a tuple with a copy that the drive does not hold yet, and where that is; none while
    /// somebody works on it. There is no parity in a tuple, but a conversion that began when the
    /// drive was lost has passed it over (world 900146).
    fn awaited_slots(&self, drive: DriveIndex, key: TupleKey) -> Vec<(usize, u64)> {
        let state = self.state.borrow();
        let Some(tuple) = state
            .space
            .tuple(key)
            .filter(|tuple| !tuple.busy || planted::is(Bug::RestorePastConversions))
        else {
            return Vec::new();
        };
        let class = state.space.class_of_zone(key.zone).expect("tuples lie in assigned zones");
        let mut slots = Vec::new();
        for (copy, &stripe) in tuple.stripes.iter().enumerate() {
            for position in positions_on(&state.space, class, stripe, drive) {
                let at = state.space.address(class, stripe, position).offset;
                if !self.array.is_awaited(drive, at, PAGE) {
                    continue;
                }
                let slot = (0..class.data()).find(|&slot| tuple.position(slot, copy) == position);
                match slot.filter(|&slot| tuple.filled[slot] > 0) {
                    Some(slot) => slots.push((slot, at)),
                    // A slot that nothing was written to: when it is, that goes there as well.
                    None => self.array.arrived(drive, at),
                }
            }
        }
        slots
    }

    async fn restore_slot(&self, drive: DriveIndex, key: TupleKey, slot: usize, at: u64) -> Done {
        let (source, len) = {
            let state = self.state.borrow();
            let tuple = state.space.tuple(key).expect("a busy tuple stays");
            let class = state.space.class_of_zone(key.zone).expect("tuples lie in assigned zones");
            (self.geometry.flbn(class, key, slot), usize::from(tuple.filled[slot]) * PAGE)
        };
        let mut source = self.source(source, true);
        // Its own copy is what is missing.
        source.copies.retain(|copy| copy.drive != drive);
        for copy in &source.copies {
            if let Ok(data) = self.array.read(copy.drive, copy.offset, len).await
                && self.is_right(&source, 0, &data)
            {
                return self.put(drive, at, data, at).await;
            }
        }
        match self.copy_as_it_is(&source, len).await {
            Some(data) => self.put(drive, at, data, at).await,
            None => Done::Lost,
        }
    }
}
