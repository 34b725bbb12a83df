//! An array: made, opened, flushed, closed. Reads, writes and recovery are in files of their own.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use format::{MemberState, Superblock, Uuid, valid_new_name};
use io::sync::{Permit, Turn};
use io::{Buf, Drive, Durability, Env, join_all};
use layout::StripeShape;

use crate::announced::Announced;
use crate::assembly::{Assembly, refuse_lost};
use crate::checksum_store::OpenSums;
use crate::grid::{Grid, GridError, Redundancy};
use crate::intents::{Intents, Page};
use crate::kept::Kept;
use crate::limits::PAGE;
use crate::log::{self, Log};
use crate::member::Member;
use crate::mend::Mending;
use crate::owed::Owed;
use crate::planted::{self, Bug};
use crate::row::shape_of;
use crate::sums::Sums;
use crate::{intents, label};

#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    #[error("{0}")]
    Grid(#[from] GridError),
    #[error("'{0}' can't be the name of a pool: 1 to 63 of A-Z a-z 0-9 . _ -")]
    Name(String),
    #[error("none of these drives has a label of an in-place array")]
    NoLabel,
    #[error("drive {name} belongs to another pool: leave it out")]
    OtherPool { name: String },
    #[error("drive {name} can't be written to: replace it")]
    NotWritten { name: String },
    #[error("drive {name} can't replace number {place}: too small, or nothing is lost there")]
    NotReplaced { name: String, place: usize },
    #[error("drives {first} and {second} are copies of one another: remove one")]
    Duplicate { first: String, second: String },
    #[error(
        "drive {name} and the others each went on without the other: leave out those whose writes \
         of that time you can do without; they are overwritten when they are given back to the \
         pool while it is served"
    )]
    Apart { name: String },
    #[error("{lost} drives of a group of {width} are lost, at most {tolerance} may be: {what}")]
    TooManyLost { lost: usize, width: usize, tolerance: usize, what: String },
    #[error(
        "drive {name}, byte {byte}: a page is lost: it is not what was written, or refused, and so \
         is more of its stripe than its redundancy bears; write it again, from a backup"
    )]
    PageLost { name: String, byte: u64 },
    #[error("{len} bytes at {offset}: outside the array ({size} bytes) or no multiple of 512")]
    Range { offset: u64, len: u64, size: u64 },
}

/// Whether a crash may corrupt what was not being written, if a drive is lost with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteHole {
    /// Partial parity is logged before a stripe is written (`partial`).
    #[default]
    Closed,
    /// Only intents: what md does by default. For comparison.
    Open,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    pub write_hole: WriteHole,
    /// What is given for this place is not the drive that was lost there: that one may come back.
    pub away: Option<usize>,
    /// Another array has the same data. Pages that this one can't give, or nothing vouches for,
    /// are told to whoever takes them ([`Array::take_missed`]), who may have them from there, and
    /// writes them again or gives them up; until then they count as lost to nobody.
    pub elsewhere: bool,
}

/// What an array is to be like.
#[derive(Clone, Debug)]
pub struct CreateSpec {
    pub name: String,
    pub redundancy: Redundancy,
    /// Drives of a group.
    pub width: usize,
    pub chunk: u64,
    /// Every page has a checksum on other drives.
    pub checksums: bool,
}

pub(crate) struct Inner<E: Env> {
    pub env: E,
    pub grid: Grid,
    pub members: Vec<Member<E::Drive>>,
    pub label: RefCell<Superblock>,
    pub label_turn: Turn,
    pub intents: Intents,
    pub kept: Kept,
    pub log: Log,
    pub write_hole: WriteHole,
    /// As it was opened.
    pub away: Option<usize>,
    /// Unit of reads and writes of the drives; with sums a page at least, so that they never have
    /// to be computed from what is there.
    pub align: u64,
    /// A power cut may leave a page of some drive neither old nor new.
    pub tears: bool,
    /// `None`: the array has none.
    pub sums: Option<Sums>,
    /// What recovery has not looked at yet.
    pub open_sums: RefCell<OpenSums>,
    /// What pages were before writes that count as over. Bounded as what the log holds.
    pub believed: RefCell<BTreeMap<(usize, u64), u32>>,
    pub last_records: RefCell<BTreeMap<usize, u32>>,
    /// Writes with records before this one were over, and their checksums in the log.
    pub records_over: Cell<u64>,
    /// Drives that rotted or are out of date, as the checksum log showed: of what nothing vouches
    /// for, others are believed.
    pub suspects: RefCell<BTreeSet<usize>>,
    /// Drives whose partial-parity log may lack records of writes that were under way.
    pub unrecorded: RefCell<BTreeSet<usize>>,
    /// Bytes of the array that may have been on their way; `None`: all.
    pub announced: RefCell<Option<Announced>>,
    /// Pages of what was announced that nothing vouches for.
    pub unvouched: RefCell<BTreeMap<u64, u32>>,
    /// Who writes sums.
    pub sums_turn: Turn,
    pub mending: Mending,
    stripes: RefCell<BTreeMap<u64, (Turn, usize)>>,
    /// Drives whose loss the labels tell.
    pub recorded: RefCell<Vec<bool>>,
    pub next_copy: Cell<usize>,
    /// New drives are not filled for the time being.
    pub held: Cell<bool>,
    pub owed: RefCell<Rc<Owed>>,
}

/// A handle on an open array; clones name the same.
pub struct Array<E: Env> {
    pub(crate) inner: Rc<Inner<E>>,
}

impl<E: Env> Clone for Array<E> {
    fn clone(&self) -> Array<E> {
        Array { inner: self.inner.clone() }
    }
}

/// The array that drives of these sizes make.
pub fn plan(sizes: &[u64], spec: &CreateSpec) -> Result<Grid, ArrayError> {
    if !valid_new_name(&spec.name) {
        return Err(ArrayError::Name(spec.name.clone()));
    }
    let CreateSpec { redundancy, width, chunk, .. } = *spec;
    let shape = Grid { redundancy, drives: sizes.len(), width, chunk, rows: 1 };
    shape.check()?;
    let smallest = sizes.iter().copied().min().unwrap_or(0);
    let division = label::divide(smallest, &shape, spec.checksums);
    let grid = Grid { rows: (division.data.len / chunk).min(u32::MAX.into()), ..shape };
    grid.check()?;
    Ok(grid)
}

/// Makes an array on these drives. What is on them is gone. On drives that are known to hold
/// zeroes ([`Drive::holds_zeroes`]) it is in agreement from the start.
pub async fn create<E: Env>(
    env: &E,
    drives: &[E::Drive],
    spec: &CreateSpec,
) -> Result<Grid, ArrayError> {
    let sizes: Vec<u64> = drives.iter().map(|drive| drive.geometry().size).collect();
    let grid = plan(&sizes, spec)?;
    let named: Vec<(Uuid, u64)> =
        sizes.into_iter().map(|size| (Uuid::from_random(env.unique_id()), size)).collect();
    let label = label::new_label(spec, &grid, Uuid::from_random(env.unique_id()), &named);
    let members: Vec<_> = drives.iter().map(|drive| Member::new(Some(drive.clone()))).collect();
    // All chunks differ from their parity until they are written together; the first opening makes
    // them agree. Zeroes have a parity of zeroes, and equal copies. Without either nothing differs.
    let agreed = drives.iter().all(Drive::holds_zeroes) || grid.tolerance() == 0;
    let stripes = grid.stripes();
    let regions = stripes.div_ceil(intents::region_stripes(stripes));
    let bits = vec![!agreed; regions as usize];
    if label::has_blank_slots(&label) {
        let each = drives.iter().enumerate().map(async |(place, drive)| {
            let written = log::write_blanks(&label, place, drive).await;
            written.map_err(|_| ArrayError::NotWritten { name: drive.name() })
        });
        join_all(each).await.into_iter().collect::<Result<Vec<()>, _>>()?;
    }
    let page = Page::new(0, 0, 0, bits);
    let page = intents::encode(&label.pool, &page);
    for member in &members {
        let at = label.meta.offset + Intents::place(0);
        let _ = member.write(at, Buf::from_slice(&page), Durability::Durable).await;
    }
    label::write(&label, &members).await;
    match drives.iter().zip(&members).find(|(_, member)| member.is_lost()) {
        Some((drive, _)) => Err(ArrayError::NotWritten { name: drive.name() }),
        None => Ok(grid),
    }
}

impl<E: Env> Array<E> {
    /// Opens an array. Where a crash may have left its drives different they are made to agree
    /// stripe by stripe, before the first request of each or by [`Array::resync`].
    /// Drives that are not given, or missed something, are lost.
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: OpenOptions,
    ) -> Result<Array<E>, ArrayError> {
        let assembly = Assembly::of(drives).await?;
        Array::open_assembly(env, assembly, options).await
    }

    /// Opens the arrays of one pool, all or none: if one of them lacks too many drives, nothing is
    /// written to the drives of the others.
    pub async fn open_all(
        env: &E,
        arrays: impl IntoIterator<Item = Vec<E::Drive>>,
        options: OpenOptions,
    ) -> Result<Vec<Array<E>>, ArrayError> {
        let mut assemblies = Vec::new();
        for drives in arrays {
            assemblies.push(Assembly::of(drives).await?);
        }
        let mut opened = Vec::new();
        for assembly in assemblies {
            opened.push(Array::open_assembly(env, assembly, options).await?);
        }
        Ok(opened)
    }

    /// Opens an array whose drives are known. The first that writes to them.
    pub async fn open_assembly(
        env: &E,
        Assembly { label, grid, places, behind }: Assembly<E::Drive>,
        options: OpenOptions,
    ) -> Result<Array<E>, ArrayError> {
        let aligns = places.iter().flatten().map(|drive| drive.geometry().align);
        let tears = places.iter().flatten().any(|d| u64::from(d.geometry().atomic) < PAGE);
        let sums =
            label::has_sums(&label).then(|| Sums::new(&grid, label::log_ring(&label, &grid)));
        let unit = if sums.is_some() { PAGE } else { 512 };
        let align = u64::from(aligns.max().unwrap_or(512)).max(unit);
        let members: Vec<_> = places.into_iter().map(Member::new).collect();
        let stripes = grid.stripes();
        let regions = stripes.div_ceil(intents::region_stripes(stripes)) as usize;
        let inner = Inner {
            env: env.clone(),
            grid,
            recorded: RefCell::new(vec![false; members.len()]),
            intents: Intents::new(stripes, 0),
            kept: Kept::new(regions, members.len()),
            log: Log::new(members.len()),
            label: RefCell::new(label),
            label_turn: Turn::new(),
            members,
            write_hole: options.write_hole,
            away: options.away,
            align,
            tears,
            sums,
            open_sums: RefCell::default(),
            believed: RefCell::default(),
            last_records: RefCell::default(),
            records_over: Cell::new(0),
            suspects: RefCell::default(),
            unrecorded: RefCell::default(),
            announced: RefCell::default(),
            unvouched: RefCell::default(),
            sums_turn: Turn::new(),
            mending: Mending::new(options.elsewhere),
            stripes: RefCell::default(),
            next_copy: Cell::new(0),
            held: Cell::new(false),
            owed: RefCell::default(),
        };
        let array = Array { inner: Rc::new(inner) };
        // A crash may have left the newest label on some: if the next one is cut short, too, those
        // that have neither must not seem out of date.
        let newest = array.inner.label.borrow().clone();
        for index in behind {
            label::write_to(&newest, &array.inner.members, index).await;
        }
        array.inner.recover().await?;
        Ok(array)
    }

    /// Bytes it offers.
    pub fn size(&self) -> u64 {
        self.inner.grid.size()
    }

    pub fn grid(&self) -> Grid {
        self.inner.grid
    }

    /// An error if more drives are lost than it bears.
    pub fn check_losses(&self) -> Result<(), ArrayError> {
        self.inner.check_losses()
    }

    /// Numbers of the drives that are lost, or would be after a crash now: a new one is until the
    /// labels call it whole.
    pub fn lost(&self) -> Vec<usize> {
        let lost = |member: &Member<E::Drive>| {
            member.is_lost() || member.is_untold() && !planted::is(Bug::WholeBeforeLabels)
        };
        (0..self.inner.members.len()).filter(|&at| lost(&self.inner.members[at])).collect()
    }

    /// As [`Assembly::age`]: so new are the labels of all drives that are not lost, durably.
    /// `None`: too many are lost, and which label any of them took last is not known.
    pub async fn age(&self) -> Option<(Uuid, u64)> {
        let inner = &self.inner;
        // Who is writing the next one has raised the generation, and no drive may have it yet.
        let _turn = inner.label_turn.lock().await;
        let label = inner.label.borrow();
        inner.too_many_lost().is_none().then_some((label.pool, label.generation))
    }

    /// Where what a write must know can be had from others as well, this drive is not asked for it.
    pub fn avoid(&self, drive: usize, avoided: bool) {
        self.inner.members[drive].avoid(avoided);
    }

    /// This drive is read only where nobody else can answer, or as any other again. It is written
    /// to, filled and scrubbed all the same.
    pub fn sit_out(&self, drive: usize, out: bool) {
        self.inner.members[drive].sit_out(out);
    }

    /// Everything answered before survives power loss from now on, and its checksums with it.
    pub async fn flush(&self) -> Result<(), ArrayError> {
        let inner = &self.inner;
        let number = inner.intents.flush_begun();
        inner.flush_members(inner.log_end()).await?;
        inner.record_losses().await?;
        inner.intents.flushed(number, inner.env.now());
        Ok(())
    }

    /// Regions that the drives call marked: a crash means to look at them.
    pub fn marks(&self) -> u64 {
        self.inner.intents.marks()
    }

    /// Flushes, and says on the drives that they agree. No request may be on its way.
    pub async fn close(self) -> Result<(), ArrayError> {
        self.flush().await?;
        let inner = &self.inner;
        inner.store_all_sums().await?;
        inner.tell_settled().await?;
        let rested = inner.env.now() + crate::limits::INTENT_REST;
        inner.write_intents_as_of(rested).await?;
        if inner.sums.is_some() && inner.intents.marks() == 0 {
            label::set_log_counts(&mut inner.label.borrow_mut(), false);
            inner.write_label().await;
            inner.record_losses().await?;
        }
        Ok(())
    }

    /// Tells the drives that nobody is doubted any more, takes marks back of regions that are at
    /// rest, flushes what nobody flushes when the array is idle, moves the tail of the checksum
    /// log. False: there is nothing to do.
    pub async fn rest(&self) -> Result<bool, ArrayError> {
        let (inner, now) = (&self.inner, self.inner.env.now());
        if inner.intents.is_idle(now) && inner.intents.is_dirty() {
            self.flush().await?;
        }
        if inner.intents.is_idle(now) {
            inner.tell_settled().await?;
        }
        if inner.intents.doubts_too_much() {
            inner.write_intents().await?;
            return Ok(true);
        }
        if inner.intents.is_stale(now) {
            let before = inner.intents.marks();
            inner.store_rested_sums(now).await?;
            inner.write_intents().await?;
            return Ok(inner.intents.marks() < before);
        }
        inner.relieve_log().await
    }
}

/// The lock of a stripe.
pub(crate) struct StripeLock<E: Env> {
    inner: Rc<Inner<E>>,
    stripe: u64,
    _permit: Permit,
}

impl<E: Env> Drop for StripeLock<E> {
    fn drop(&mut self) {
        let mut stripes = self.inner.stripes.borrow_mut();
        let (_, users) = stripes.get_mut(&self.stripe).expect("it is locked");
        *users -= 1;
        if *users == 0 {
            stripes.remove(&self.stripe);
        }
    }
}

impl<E: Env> Inner<E> {
    /// One writer of a stripe at a time, in the order of asking.
    pub async fn lock(self: &Rc<Self>, stripe: u64) -> StripeLock<E> {
        let turn = {
            let mut stripes = self.stripes.borrow_mut();
            let (turn, users) = stripes.entry(stripe).or_default();
            *users += 1;
            turn.clone()
        };
        let permit = turn.lock().await;
        StripeLock { inner: self.clone(), stripe, _permit: permit }
    }

    pub fn shape(&self) -> Option<StripeShape> {
        shape_of(&self.grid)
    }

    /// Members of a stripe whose drives are lost.
    pub fn lost_members(&self, stripe: u64) -> Vec<usize> {
        (0..self.grid.width).filter(|&member| self.is_lost(stripe, member)).collect()
    }

    pub fn is_lost(&self, stripe: u64, member: usize) -> bool {
        let (drive, row) = self.grid.place(stripe, member);
        self.members[drive].is_lost_at(row)
    }

    pub fn sits_out(&self, stripe: u64, member: usize) -> bool {
        self.members[self.grid.place(stripe, member).0].sits_out()
    }

    /// Members of a stripe whose drives are rather not read.
    pub fn avoided_members(&self, stripe: u64) -> Vec<usize> {
        let avoided =
            |&member: &usize| self.members[self.grid.place(stripe, member).0].is_avoided();
        (0..self.grid.width).filter(avoided).collect()
    }

    fn lost(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|&at| self.members[at].is_lost()).collect()
    }

    pub fn too_many_lost(&self) -> Option<ArrayError> {
        refuse_lost(&self.grid, &self.lost()).err()
    }

    pub fn check_losses(&self) -> Result<(), ArrayError> {
        self.too_many_lost().map_or(Ok(()), Err)
    }

    /// The drive of a member and the byte there.
    pub fn address(&self, stripe: u64, member: usize, start: u64) -> (&Member<E::Drive>, u64) {
        let (drive, row) = self.grid.place(stripe, member);
        let data = self.label.borrow().zones.offset;
        (&self.members[drive], data + row * self.grid.chunk + start)
    }

    pub fn check_range(&self, offset: u64, len: u64) -> Result<(), ArrayError> {
        let size = self.grid.size();
        let inside = offset.checked_add(len).is_some_and(|end| end <= size);
        match inside && (offset | len).is_multiple_of(512) {
            true => Ok(()),
            false => Err(ArrayError::Range { offset, len, size }),
        }
    }

    /// After a drive was lost: nothing that it missed is answered before the others say that it
    /// must not be trusted any more. With too many lost nothing is answered: what is not recorded
    /// by then stays so, and the array is what it was when those drives are back.
    pub async fn record_losses(&self) -> Result<(), ArrayError> {
        let news = || -> bool {
            let recorded = self.recorded.borrow();
            self.members.iter().zip(&*recorded).any(|(member, told)| member.is_lost() && !told)
        };
        while news() && self.too_many_lost().is_none() {
            let _turn = self.label_turn.lock().await;
            if news() && self.too_many_lost().is_none() {
                self.write_label().await;
            }
        }
        self.check_losses()
    }

    pub async fn write_label(&self) {
        self.write_label_but(None).await;
    }

    /// The same, but for the drive in one place.
    pub async fn write_label_but(&self, but: Option<usize>) {
        // A drive that is called lost has its last page of intents noted: it may come back.
        self.tell_losses().await;
        // Some may have been lost by that: what is not recorded stays so (`record_losses`).
        if self.too_many_lost().is_some() {
            return;
        }
        let lost: Vec<bool> = self.members.iter().map(Member::is_lost).collect();
        let next = {
            let mut label = self.label.borrow_mut();
            label.generation += 1;
            for (listed, lost) in label.members.iter_mut().zip(&lost) {
                // One that is being filled is lost until it is whole.
                if *lost && listed.state != MemberState::Restoring {
                    listed.state = MemberState::Failed;
                }
            }
            label.clone()
        };
        label::write_but(&next, &self.members, but).await;
        for (told, lost) in self.recorded.borrow_mut().iter_mut().zip(lost) {
            *told |= lost;
        }
    }

    /// The region of a stripe is marked on all drives when this returns, until `intents.end`.
    pub async fn begin_intent(&self, stripe: u64) -> Result<(), ArrayError> {
        let mut marked = self.intents.begin(stripe);
        self.kept.touch(self.intents.region(stripe));
        while !marked {
            self.write_intents().await?;
            marked = self.intents.is_marked(stripe);
        }
        Ok(())
    }

    pub async fn write_intents(&self) -> Result<(), ArrayError> {
        self.write_intents_as_of(self.env.now()).await
    }

    async fn write_intents_as_of(&self, now: io::Nanos) -> Result<(), ArrayError> {
        let turns = self.intents.sequence.get();
        let _turn = self.intents.turn.lock().await;
        // Who wrote while we waited for the turn, began after us.
        if self.intents.sequence.get() > turns + 1 {
            return Ok(());
        }
        let pool = self.label.borrow().pool;
        self.note_losses();
        if let Some(error) = self.too_many_lost() {
            return Err(error);
        }
        let unkept = |region: &u64| self.sums_stored(*region) && !self.kept.may_clear(*region);
        if self.intents.rested(now).iter().any(unkept) {
            self.write_kept().await;
            self.note_losses();
        }
        let sequence = self.intents.sequence.get();
        let may = |region| self.sums_stored(region) && self.kept.may_clear(region);
        let by = (self.kept.opening.get(), self.kept.least.get());
        let (page, bits) = self.intents.next_page(&pool, by, now, may);
        // One that is filled will be asked like any other.
        let is_there = |member: &&Member<E::Drive>| !member.is_lost() || member.rebuilt().is_some();
        let there = self.members.iter().filter(is_there);
        self.write_intents_to(there, sequence, &page).await;
        self.record_losses().await?;
        self.note_losses();
        self.intents.written(&bits);
        Ok(())
    }

    /// Writes a page of intents, durably, to these of the drives.
    pub async fn write_intents_to<'a>(
        &self,
        members: impl Iterator<Item = &'a Member<E::Drive>>,
        sequence: u64,
        page: &[u8],
    ) where
        E::Drive: 'a,
    {
        let at = self.label.borrow().meta.offset + Intents::place(sequence);
        let page = Buf::from_slice(page);
        join_all(members.map(|m| m.write(at, page.clone(), Durability::Durable))).await;
    }
}
