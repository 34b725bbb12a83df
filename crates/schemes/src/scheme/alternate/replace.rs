//! A lost replica comes back: the same drives after a hang, or others in their places.
//!
//! ```text
//!   0 ....... at .................. size
//!   [ filled | not yet             ]        a piece: bytes of one that reads, with what is cached
//!        ▲            ▲
//!        └────────────┴─ batches, in its windows: it has its turns from the beginning
//! ```
//! All of it is copied; or if it is the one that was lost, the regions that changed since
//! (`kept.rs`). A piece has what was newest
//! when it was copied, batches bring everything since some time before: in the order of the
//! writes, so that the last word on each byte is the newest. No log tells where a copied piece is
//! newer than what batches have brought, so the replica counts as lost until these have caught up
//! with the last piece. A crash before means to begin again, with what is to be copied.

use std::ops::Range;
use std::rc::Rc;

use classical::{Array, ArrayError, CreateSpec, label};
use format::{MemberState, Superblock, Uuid};
use io::sync::Turn;
use io::{Buf, BufMut, Drive, Env, Nanos};

use super::kept::Kept;
use super::members::NOT_RECORDED;
use super::page::Page;
use super::reads::Answer;
use super::recover::Back;
use super::replica::{Inside, Replica, log_bytes, log_space, page_place};
use super::{Alternate, Inner, recover};
use crate::ages;
use crate::log::Log;
use crate::log::record::PAGE;
use crate::part::Part;
use crate::set::{self, uuid_of_group};
use crate::store::{Replace, Restoring, Store, StoreError};

/// Bytes of a piece: nobody brings anything to its place meanwhile.
const PIECE: u64 = 512 << 10;
/// Epochs of a log before the replica is made anew: each opening takes one.
const EPOCHS: u32 = 32;
/// Requests to a lost replica end within that, or hang; and are looked for so often.
const UNUSED_WITHIN: Nanos = Nanos::from_secs(2);
const UNUSED_LOOK: Nanos = Nanos::from_millis(5);

/// A replica on its way back.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    pub side: usize,
    /// Not only what it missed.
    pub all: bool,
    /// Everything before has been copied.
    pub at: u64,
    /// Newest entry that any piece may have.
    pub copied_to: u64,
    /// Bytes to be copied, as far as was known when it began.
    total: u64,
}

impl Filling {
    pub fn begin(side: usize, kept: &Kept, size: u64, copied_to: u64) -> Filling {
        let all = kept.gone(side).is_none();
        let total = if all { size } else { kept.left(0) };
        Filling { side, all, at: 0, copied_to, total }
    }
}

/// A piece for a replica on its way back.
struct Copied {
    /// It has all of the cache up to this entry.
    to: u64,
    bytes: Buf,
    /// Pages of the array that have no checksum where they are from, and that no replica can give.
    unknown: Vec<u64>,
    lost: Vec<u64>,
}

impl<E: Env> Alternate<E> {
    /// Gives the place of a lost drive to a new one, or to the same that is back.
    /// [`Store::work`] fills it: all of its replica, if that is lost as a whole, as soon as all of
    /// its drives can be written to. One that can't stays lost: it is to be replaced, too. After an
    /// error the new drive is not used.
    pub async fn replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
        let inner = &*self.inner;
        inner.until_unused(place / inner.drives).await;
        let _turn = inner.turn.lock().await;
        inner.record_losses().await?;
        let lost = self.lost();
        let refuse = |hint| {
            let what = format!("drive {} in place {place}", new.name());
            Err(StoreError::Shape { what, hint })
        };
        if !lost.contains(&place) {
            return refuse("nothing is lost there");
        }
        if inner.filling.get().is_some() || inner.rebuilding.get().is_some() {
            return refuse("another drive is being filled: wait until that is done");
        }
        let (side, width) = (place / inner.drives, inner.drives);
        inner.note_broken(side).await?;
        let of = side * width..(side + 1) * width;
        let beside = inner.are_named(of.clone().filter(|other| *other != place));
        // A request that hangs on one of its drives must not come through after all.
        let partly = inner.alive.get()[side];
        if inner.is_used(side) && !partly {
            return refuse("requests to its replica are still under way: try again later");
        }
        let next = inner.set.borrow().with(&inner.world, place, new.clone())?;
        let name = new.name();
        let named = set::is_named(&inner.set, place, &new).await;
        label::wipe(&new).await.map_err(|_| StoreError::NotWritten { name })?;
        // Whatever becomes of this: no two labels of one generation differ.
        inner.set.borrow_mut().label.generation = next.label.generation;
        let others: Vec<usize> = lost.into_iter().filter(|own| *own != place).collect();
        next.write_labels_but(&others).await?;
        let (parts, own) = (next.first(of.clone()), next.first_of(of.clone(), place));
        let label = next.label.clone();
        *inner.set.borrow_mut() = next;
        if partly {
            let own = own.expect("it was just put there");
            let array = &inner.replica(side).array;
            array.check_replacement(place % width, &own)?;
            let lacks = set::lacks(named, (array, place % width), &own).await;
            array.blank(place % width, &own).await?;
            array.replace_lacking(place % width, own, lacks)?;
            inner.rebuilding.set(Some(place));
            return Ok(());
        }
        if parts.len() < width {
            return Ok(());
        }
        let begun = inner.begin_side(side, &label, parts, named && beside).await;
        begun.or_else(|error| inner.forget_unwritten(of, place, error))
    }

    /// Bytes that a replica on its way back has so far.
    pub fn filled(&self) -> Option<u64> {
        self.inner.filling.get().map(|filling| filling.at)
    }
}

impl<E: Env> Replace for Alternate<E> {
    type Drive = E::Drive;

    fn bears(&self, place: usize) -> bool {
        let inner = &*self.inner;
        let (side, at) = (place / inner.drives, place % inner.drives);
        let alive = inner.alive.get()[side];
        !alive || inner.replica(side).array.bears(at) || inner.whole().len() > 1
    }

    /// With more than it bears all of its replica is lost.
    async fn write_off(&self, place: usize) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let (side, at) = (place / inner.drives, place % inner.drives);
        if inner.there()[side]
            && let Err(error) = inner.replica(side).array.write_off(at).await
        {
            inner.lose(side, error.into())?;
        }
        inner.record_losses().await?;
        self.tell_state(place, MemberState::Failed).await
    }

    async fn replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
        Alternate::replace(self, place, new).await
    }

    fn restoring(&self) -> Vec<Restoring> {
        let inner = &*self.inner;
        let filling = inner.filling.get().into_iter().flat_map(|filling| {
            let (side, left) = (filling.side, inner.left(&filling));
            let all = filling.total.max(left);
            let places = side * inner.drives..(side + 1) * inner.drives;
            places.map(move |place| Restoring { place, left, all })
        });
        let rebuilding = inner.rebuilding.get().and_then(|place| {
            let (side, at) = (place / inner.drives, place % inner.drives);
            let own = Replace::restoring(&inner.replica(side).array);
            let own = own.into_iter().find(|own| own.place == at)?;
            Some(Restoring { place, ..own })
        });
        filling.chain(rebuilding).collect()
    }

    fn hold(&self, held: bool) {
        self.inner.held.set(held);
    }

    fn label_turn(&self, _place: usize) -> Turn {
        self.inner.turn.clone()
    }

    async fn relist(&self, place: usize, drive: Uuid) -> Result<Superblock, StoreError> {
        set::relist(&self.inner.set, place, drive, &self.lost()).await
    }

    async fn tell_whole(&self, place: usize) -> Result<(), StoreError> {
        self.tell_state(place, MemberState::Active).await
    }
}

impl<E: Env> Alternate<E> {
    /// The labels of the set say of which generation the pages of the replicas are.
    pub(super) async fn tell_age(&self) {
        let inner = &*self.inner;
        let is_known = {
            let set = inner.set.borrow();
            ages::knows(&set, 0, (set.label.pool, inner.generation.get()))
        };
        if is_known {
            return;
        }
        let _turn = inner.turn.lock().await;
        let age = inner.recorded_generation().await;
        let age = age.map(|generation| (inner.set.borrow().label.pool, generation));
        ages::tell(&inner.set, &[age], &self.lost()).await;
    }

    /// Of a drive that was being filled.
    async fn tell_state(&self, place: usize, state: MemberState) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let _turn = inner.turn.lock().await;
        let next = {
            let set = inner.set.borrow();
            set.with_state(place, state).filter(|_| set.is_restoring(place))
        };
        let Some(next) = next else { return Ok(()) };
        inner.set.borrow_mut().label.generation = next.label.generation;
        next.write_labels_but(&self.lost()).await?;
        *inner.set.borrow_mut() = next;
        Ok(())
    }
}

impl<E: Env> Inner<E> {
    /// A replica whose array has noticed that it can't go on, before any request has.
    async fn note_broken(&self, side: usize) -> Result<(), StoreError> {
        if self.there()[side]
            && let Err(error) = self.replica(side).array.check_losses()
        {
            self.lose(side, error.into())?;
            self.record_losses().await?;
        }
        Ok(())
    }

    /// The set has never had others in these places since they were whole.
    fn are_named(&self, mut places: impl Iterator<Item = usize>) -> bool {
        let set = self.set.borrow();
        places.all(|place| {
            set.drive(place).is_some() && set.label.members[place].state == MemberState::Active
        })
    }

    /// All drives of a lost replica are there, and filling it begins. `same`: they may have it.
    async fn begin_side(
        &self,
        side: usize,
        label: &Superblock,
        parts: Vec<Part>,
        same: bool,
    ) -> Result<(), StoreError> {
        self.replicas.borrow_mut()[side] = None;
        // Old pages and records on these drives are of an older generation from now on.
        self.recorded.set(NOT_RECORDED);
        self.record_losses().await?;
        let back = if same { self.take_back(side, parts.clone()).await? } else { None };
        let replica = match back {
            Some(replica) => replica,
            None => self.blank(side, label, parts).await?,
        };
        self.begin_to_fill(side, replica);
        Ok(())
    }

    /// A replica can't be begun. If it is for another one of its drives than the new one, that is
    /// lost, and the new one waits for it to be replaced. Whoever has an error may remove the new
    /// one: it is not to come back with the next.
    fn forget_unwritten(
        &self,
        mut of: Range<usize>,
        new: usize,
        error: StoreError,
    ) -> Result<(), StoreError> {
        let name = match &error {
            StoreError::NotWritten { name } => Some(name),
            StoreError::Array(ArrayError::NotWritten { name }) => Some(name),
            _ => None,
        };
        let mut set = self.set.borrow_mut();
        let is_it = |place: &usize| set.drive(*place).is_some_and(|own| Some(&own.name()) == name);
        let unwritten = of.find(is_it).unwrap_or(new);
        set.forget(unwritten);
        if unwritten == new { Err(error) } else { Ok(()) }
    }

    /// The replica that was lost, if these drives have it: where it may differ is kept, and its log
    /// is empty from now on. The pages of the others are of a newer generation than its own.
    async fn take_back(
        &self,
        side: usize,
        parts: Vec<Part>,
    ) -> Result<Option<Replica<E>>, StoreError> {
        let uuid = uuid_of_group(&self.set.borrow().label, side);
        let like = self.whole()[0].1.clone();
        let Some(gone) = self.kept.borrow().gone(side) else { return Ok(None) };
        let back = recover::back(&self.env, uuid, parts, self.arrays, self.size).await;
        let Ok(Back { replica, ranges, marked }) = back else { return Ok(None) };
        let (own, array, others) = (replica.page(), &replica.array, like.page());
        let alike = |array: &Inside<E>, other: &Inside<E>| {
            array.grid().is_like(&other.grid()) && array.has_sums() == other.has_sums()
        };
        let same = (own.size, own.cache, own.keeps) == (others.size, others.cache, self.keeps);
        let whole = array.lost().is_empty() && alike(array, &like.array);
        if !gone.is(&own) || !same || !whole {
            return Ok(None);
        }
        let told = if gone.log_tells { ranges } else { Vec::new() };
        self.kept.borrow_mut().mark(told.into_iter().chain(marked));
        self.keep().await?;
        let page = Page { window: 0, replay: 0, lead: 0, filling: true, ..self.next_page(own) };
        let emptied = async {
            replica.free(u64::MAX, true).await?;
            replica.write_page(page).await
        };
        Ok(emptied.await.is_ok().then_some(replica))
    }

    /// A replica with nothing on it, which says so.
    async fn blank(
        &self,
        side: usize,
        label: &Superblock,
        parts: Vec<Part>,
    ) -> Result<Replica<E>, StoreError> {
        // Whatever becomes of it: it is not the one that was lost any more.
        self.kept.borrow_mut().forget(side);
        self.keep().await?;
        let (grid, name) = (self.grid(), label.pool_name.clone());
        let (redundancy, width, chunk) = (grid.redundancy, self.drives, grid.chunk);
        let checksums = self.whole()[0].1.array.has_sums();
        let spec = CreateSpec { name, redundancy, width, chunk, checksums };
        classical::array::create(&self.env, &parts, &spec).await?;
        let array = Array::open(&self.env, parts, self.arrays).await?;
        let like = self.whole()[0].1.page();
        let least = log_bytes(like.cache) + self.size;
        if page_place(array.size(), 1) < least {
            return Err(StoreError::Small { size: array.size(), least });
        }
        let generation = self.generation.get();
        let epoch = generation << EPOCHS;
        let bytes = log_space(log_bytes(like.cache), self.keeps);
        let uuid = uuid_of_group(label, side);
        Log::create_after(&array, uuid, bytes, epoch).await?;
        let own = Page { kept: 0, filling: true, ..self.next_page(like) };
        let page = Page { window: 0, replay: 0, lead: 0, ..own };
        let bytes = Buf::from_slice(&page.encode(&uuid));
        for place in [0, 1] {
            array.write(page_place(array.size(), place), bytes.clone(), true).await?;
        }
        let log = Log::open(array.clone(), uuid, |_| ()).await?;
        Ok(Replica::new(array, log, uuid, (page, 1)))
    }

    /// The turn is held: what the cache has of what is not on all that are whole, it keeps.
    fn begin_to_fill(&self, side: usize, replica: Replica<E>) {
        let mut applied = self.applied.get();
        let whole = self.whole();
        let least = whole.iter().map(|(side, _)| applied[*side]).min();
        applied[side] = least.expect("one is always alive");
        self.applied.set(applied);
        self.replicas.borrow_mut()[side] = Some(Rc::new(replica));
        let copied_to = self.cache.borrow().newest();
        let filling = Filling::begin(side, &self.kept.borrow(), self.size, copied_to);
        self.filling.set(Some(filling));
    }

    /// What of it is to be copied next.
    fn next_piece(&self, filling: &Filling) -> Option<(u64, u64)> {
        let (at, size) = (filling.at, self.size);
        if filling.all {
            return (at < size).then(|| (at, PIECE.min(size - at)));
        }
        let kept = self.kept.borrow().next(at, PIECE)?;
        Some((kept.start, kept.end - kept.start))
    }

    /// Bytes that are still to be copied.
    fn left(&self, filling: &Filling) -> u64 {
        match filling.all {
            true => self.size - filling.at,
            false => self.kept.borrow().left(filling.at),
        }
    }

    /// The replica on its way back is the one that writes: those that read may be copied from.
    pub fn fills_now(&self) -> bool {
        self.filling.get().is_some_and(|filling| filling.side == self.roles.borrow().writer())
    }

    /// One piece for a replica that is on its way back, or its last step. False: there is none, or
    /// batches have to come first.
    pub async fn fill_some(&self) -> Result<bool, StoreError> {
        let _turn = self.turn.lock().await;
        let Some(filling) = self.filling.get().filter(|_| !self.held.get()) else {
            return Ok(false);
        };
        let side = filling.side;
        let Some((at, len)) = self.next_piece(&filling) else {
            return self.end_filling(filling).await;
        };
        let copied = match self.newest_bytes(at, len).await {
            Ok(copied) => copied,
            Err(error) => {
                self.lose(side, StoreError::NoLabel)?;
                return Err(error);
            }
        };
        let written = async {
            let array = &self.replica(side).array;
            array.write(self.base + at, copied.bytes, false).await?;
            // Else the others would be taken for having lost what they never had.
            array.forget(&copied.unknown).await?;
            array.note_lost(&copied.lost).await
        };
        if let Err(error) = written.await {
            self.lose(side, error.into())?;
        }
        // It may have been lost by a flush.
        if let Some(filling) = self.filling.get() {
            self.filling.set(Some(Filling { at: at + len, copied_to: copied.to, ..filling }));
            self.see(|seen| seen.filled_bytes += len);
        }
        Ok(true)
    }

    /// Requests to the replica are under way, or somebody looks at it.
    fn is_used(&self, side: usize) -> bool {
        let replicas = self.replicas.borrow();
        let own = replicas.get(side).and_then(Option::as_ref);
        own.is_some_and(|replica| Rc::strong_count(replica) > 1)
    }

    /// Those of a lost replica end, but for one that hangs.
    async fn until_unused(&self, side: usize) {
        let end = self.env.now() + UNUSED_WITHIN;
        let is_lost = || self.alive.get().get(side) == Some(&false);
        while is_lost() && self.is_used(side) && self.env.now() < end {
            self.env.sleep_until(self.env.now() + UNUSED_LOOK).await;
        }
    }

    /// What replicas have, and the newest of the cache. The turn is held: nothing comes to its
    /// place, and nothing leaves the cache.
    async fn newest_bytes(&self, offset: u64, len: u64) -> Result<Copied, StoreError> {
        let (mut bytes, unknown, mut lost) = match self.read_known(offset, len).await {
            Ok((read, unknown)) => (BufMut::from_slice(&read), unknown, Vec::new()),
            Err(StoreError::Array(ArrayError::PageLost { .. })) => {
                self.read_pages(offset, len).await?
            }
            Err(error) => return Err(error),
        };
        let cache = self.cache.borrow();
        for (start, own) in cache.find(offset..offset + len) {
            bytes[(start - offset) as usize..][..own.len()].copy_from_slice(&own);
            let whole = |at: &u64| {
                start <= *at - self.base && at - self.base + PAGE <= start + own.len() as u64
            };
            lost.retain(|at| !whole(at));
        }
        Ok(Copied { to: cache.newest(), bytes: bytes.freeze(), unknown, lost })
    }

    /// Of the first replica that has it, and what of it has no checksum there.
    async fn read_known(&self, offset: u64, len: u64) -> Result<(Buf, Vec<u64>), StoreError> {
        let Answer { side, bytes, .. } = self.read_any(offset, len).await?;
        Ok((bytes, self.replica(side).array.never_known(self.base + offset, len)))
    }

    /// The same page by page, and which none has: those are lost.
    async fn read_pages(
        &self,
        offset: u64,
        len: u64,
    ) -> Result<(BufMut, Vec<u64>, Vec<u64>), StoreError> {
        let (mut bytes, mut unknown, mut lost) =
            (BufMut::with_len(len as usize), Vec::new(), Vec::new());
        for at in (0..len).step_by(PAGE as usize) {
            match self.read_known(offset + at, PAGE.min(len - at)).await {
                Ok((read, own)) => {
                    bytes[at as usize..][..read.len()].copy_from_slice(&read);
                    unknown.extend(own);
                }
                Err(StoreError::Array(ArrayError::PageLost { .. })) => {
                    lost.push(self.base + offset + at);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((bytes, unknown, lost))
    }

    async fn end_filling(&self, filling: Filling) -> Result<bool, StoreError> {
        let Filling { side, copied_to, .. } = filling;
        if self.applied.get()[side] < copied_to {
            return Ok(false);
        }
        let (replica, has) = (self.replica(side), self.applied.get()[side]);
        let whole = async {
            replica.array.flush().await?;
            replica.begin(has).await
        };
        if let Err(error) = whole.await {
            self.lose(side, error)?;
        }
        if self.filling.take().is_some() {
            let mut alive = self.alive.get();
            alive[side] = true;
            self.alive.set(alive);
            self.note_whole(side);
            self.see(|seen| seen.fills += 1);
            self.record_losses().await?;
        }
        Ok(true)
    }

    /// Some rows of a drive of a replica that can do without it. False: there is none to fill.
    pub async fn rebuild_some(&self) -> bool {
        let Some(place) = self.rebuilding.get().filter(|_| !self.held.get()) else {
            return false;
        };
        let (side, at) = (place / self.drives, place % self.drives);
        if self.alive.get()[side] {
            // If it fails the new drive is lost again, or too many others are; requests tell.
            if self.replica(side).array.rebuild_some(at).await.unwrap_or(false) {
                return true;
            }
        }
        self.rebuilding.set(None);
        true
    }
}
