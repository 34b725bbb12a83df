//! A new drive in the place of a lost one.
//!
//! ```text
//!   rows     0 ....... rebuilt ............. last
//!   new      [ holds what it should | nothing ]
//!            as any other drive       as lost: solved for from the others, not written
//! ```
//! Some rows at a time, their stripes locked, in order, beside requests. The labels say that the
//! drive is lost until all of it is durable: a crash in between means to begin again, and until
//! then every stripe agrees without it. [`Array::restore`] has them say, too, which drive was being
//! filled, so that whoever opens the array can go on with it.
//!
//! A drive that is the lost one, back, holds what it should but in the regions whose marks were
//! kept (`kept`): the others are passed over. No write is under way where nothing is kept, so that
//! takes no locks.

use std::ops::Range;

use format::{INCOMPAT_RESTORING, Member as Listed, MemberState, Superblock, Uuid, end_area};
use io::sync::Turn;
use io::{Buf, BufMut, Drive, Durability, Env, join_all};

use crate::array::{Array, ArrayError, Inner};
use crate::kept::Lacks;
use crate::limits::{PAGE, REBUILD_AT_ONCE, REBUILD_WRITE};
use crate::log;
use crate::sums::LOST;
use crate::{intents, label};

/// The feature of a label that calls a drive restoring.
pub fn note_restoring(label: &mut Superblock) {
    let some = label.members.iter().any(|listed| listed.state == MemberState::Restoring);
    label.features.incompat &= !INCOMPAT_RESTORING;
    label.features.incompat |= if some { INCOMPAT_RESTORING } else { 0 };
}

impl<E: Env> Array<E> {
    /// Whether this drive can have the place of a lost one.
    pub fn check_replacement(&self, place: usize, new: &E::Drive) -> Result<(), ArrayError> {
        let inner = &self.inner;
        let geometry = new.geometry();
        let label = inner.label.borrow();
        let small = end_area(geometry.size) < label.zones.offset + label.zones.len;
        let refused = inner.grid.tolerance() == 0 || u64::from(geometry.align) > inner.align;
        if small || refused || !inner.members[place].is_lost() {
            return Err(ArrayError::NotReplaced { name: new.name(), place });
        }
        Ok(())
    }

    /// Gives a lost drive's place to a new one, to be filled by [`Array::rebuild_some`].
    pub fn replace(&self, place: usize, new: E::Drive) -> Result<(), ArrayError> {
        self.replace_lacking(place, new, Lacks::All)
    }

    /// The same, to one of which [`Array::lacks`] says how much it has to be given.
    pub fn replace_lacking(
        &self,
        place: usize,
        new: E::Drive,
        lacks: Lacks,
    ) -> Result<(), ArrayError> {
        self.check_replacement(place, &new)?;
        self.inner.note_losses();
        let known = self.inner.kept.take(place);
        let member = &self.inner.members[place];
        match lacks {
            Lacks::Kept if known => member.take_back(new),
            Lacks::Kept | Lacks::All => member.replace(new),
        }
        Ok(())
    }

    /// Gives a lost drive's place to something that is not a drive of its own, to be filled alike.
    /// The drive may come back, and what it misses is kept until one [is home](Array::come_home).
    pub fn replace_away(&self, place: usize, new: E::Drive) -> Result<(), ArrayError> {
        self.check_replacement(place, &new)?;
        self.inner.note_losses();
        self.inner.kept.set_away(place);
        self.inner.members[place].replace(new);
        Ok(())
    }

    /// What has this place is a drive of its own again, which holds all that it should.
    pub fn come_home(&self, place: usize) {
        self.inner.note_losses();
        self.inner.kept.set_home(place);
    }

    /// The next rows from this one on, in one piece, that a drive which is away may miss by now.
    /// After the last one: none.
    pub fn missed(&self, place: usize, row: u64) -> Range<u64> {
        self.inner.next_kept_rows(place, row)
    }

    /// The next rows that a new drive is to be given, in one piece; `None`: there is none in this
    /// place, or it is whole.
    pub fn next_rows(&self, place: usize) -> Option<Range<u64>> {
        Some(self.inner.next_lacking(place, self.rebuilt(place)?))
    }

    /// As [`Array::replace`], and the labels say so: after a crash the drive is known to be one
    /// that is to be filled.
    pub async fn restore(&self, place: usize, new: E::Drive) -> Result<(), ArrayError> {
        let inner = &self.inner;
        self.check_replacement(place, &new)?;
        let lacks = self.lacks(place, &new).await;
        self.blank(place, &new).await?;
        {
            let _turn = inner.label_turn.lock().await;
            let size = new.geometry().size;
            let drive = Uuid(new.identity().unwrap_or_else(|| inner.env.unique_id()));
            self.replace_lacking(place, new, lacks)?;
            let state = MemberState::Restoring;
            inner.list(place, Listed { drive, state, size, round: 0, zones: 0 });
            inner.write_label().await;
        }
        inner.record_losses().await
    }

    /// What a drive that is to be filled has of arrays counts no more: labels, and records of the
    /// log, which are of the present epoch if it is a drive that was lost.
    pub async fn blank<D: Drive>(&self, place: usize, new: &D) -> Result<(), ArrayError> {
        let refused = || ArrayError::NotWritten { name: new.name() };
        label::wipe(new).await.map_err(|_| refused())?;
        let label = self.inner.label.borrow().clone();
        log::write_blanks(&label, place, new).await.map_err(|_| refused())
    }

    /// A drive is not used any more, whether it works or not.
    pub fn lose(&self, place: usize) {
        self.inner.members[place].lose();
    }

    /// Writes a drive off that could still be used, because another is to have its place.
    pub async fn write_off(&self, place: usize) -> Result<(), ArrayError> {
        self.lose(place);
        let listed = self.inner.label.borrow().members[place];
        if listed.state == MemberState::Restoring {
            self.inner.list(place, Listed { state: MemberState::Failed, ..listed });
            self.inner.recorded.borrow_mut()[place] = false;
        }
        self.inner.record_losses().await
    }

    /// Who changes the labels holds it.
    pub fn label_turn(&self) -> Turn {
        self.inner.label_turn.clone()
    }

    /// The labels of the others say from now on that the drive in this place, which is not lost, is
    /// this one. What its own has to say. The turn of labels is held.
    pub async fn relist(&self, place: usize, drive: Uuid) -> Result<Superblock, ArrayError> {
        let inner = &self.inner;
        let listed = inner.label.borrow().members[place];
        inner.list(place, Listed { drive, ..listed });
        inner.write_label_but(Some(place)).await;
        inner.check_losses()?;
        Ok(label::for_drive(&inner.label.borrow(), place))
    }

    /// Rows that a new drive holds; `None`: there is none in this place, or it is whole and the
    /// labels say so.
    pub fn rebuilt(&self, place: usize) -> Option<u64> {
        let member = &self.inner.members[place];
        member.rebuilt().or(member.is_untold().then_some(self.inner.grid.rows))
    }

    /// Rows that a new drive is still to be given, and those that it was to be given at first and
    /// since; `None`: as above.
    pub fn rows_left(&self, place: usize) -> Option<(u64, u64)> {
        let rebuilt = self.rebuilt(place)?;
        let inner = &self.inner;
        Some((inner.rows_lacking(place, rebuilt), inner.rows_lacking(place, 0)))
    }

    /// Places of new drives that are being filled, or are not called whole by the labels yet.
    pub fn restoring(&self) -> Vec<usize> {
        (0..self.inner.grid.drives).filter(|&place| self.rebuilt(place).is_some()).collect()
    }

    /// New drives get no more rows by [`Array::rebuild`] for the time being, or do again.
    pub fn hold(&self, held: bool) {
        self.inner.held.set(held);
    }

    /// Rebuilds some rows of any new drive. False: there is none, or it has to wait.
    pub async fn rebuild(&self) -> Result<bool, ArrayError> {
        if self.inner.held.get() {
            return Ok(false);
        }
        let Some(&place) = self.restoring().first() else { return Ok(false) };
        match self.rebuild_some(place).await {
            // It failed, and counts as lost again: the next write says so.
            Err(_) if self.rebuilt(place).is_none() => Ok(true),
            done => done.map(|_| true),
        }
    }

    /// Rebuilds some rows of a new drive; true: there are more. After the last it counts as any
    /// other. An error: it is lost, or too many others are.
    pub async fn rebuild_some(&self, place: usize) -> Result<bool, ArrayError> {
        let inner = &self.inner;
        if inner.members[place].is_untold() {
            // Whoever filled it has the turn.
            let _turn = inner.label_turn.lock().await;
            return Ok(false);
        }
        let Some(rebuilt) = inner.members[place].rebuilt() else {
            return Err(inner.too_many_lost().unwrap_or(inner.not_rebuilt(place)));
        };
        let Range { start: begin, end } = inner.next_lacking(place, rebuilt);
        inner.members[place].set_rebuilt(begin);
        let end = end.min(begin + REBUILD_AT_ONCE);
        if begin < end {
            let stripe = |row| inner.stripe_of(place, row);
            let locks = join_all((begin..end).map(|row| inner.lock(stripe(row)))).await;
            // What a crash left is put right first: checksums alone don't tell what it is.
            let settled = join_all((begin..end).map(|row| inner.settle(stripe(row)))).await;
            settled.into_iter().collect::<Result<(), _>>()?;
            let rows = (begin..end).map(|row| inner.solve_stripe(stripe(row), place));
            let rows = join_all(rows).await.into_iter().collect::<Result<Vec<Buf>, _>>()?;
            inner.write_rows(place, begin, &rows).await?;
            inner.members[place].set_rebuilt(end);
            drop(locks);
            return Ok(true);
        }
        inner.finish_rebuild(place).await?;
        Ok(false)
    }
}

impl<E: Env> Inner<E> {
    fn list(&self, place: usize, listed: Listed) {
        let mut label = self.label.borrow_mut();
        label.members[place] = listed;
        note_restoring(&mut label);
    }

    pub fn stripe_of(&self, place: usize, row: u64) -> u64 {
        row * self.grid.groups() as u64 + self.grid.group_of(place) as u64
    }

    /// The next rows from this one on that a new drive is to be given, in one piece; after the last
    /// one: none.
    fn next_lacking(&self, place: usize, row: u64) -> Range<u64> {
        let rows = self.grid.rows;
        match self.members[place].was_here() {
            true => self.next_kept_rows(place, row),
            false => row..rows,
        }
    }

    fn next_kept_rows(&self, place: usize, row: u64) -> Range<u64> {
        let rows = self.grid.rows;
        let (groups, group) = (self.grid.groups() as u64, self.grid.group_of(place) as u64);
        let each = intents::region_stripes(self.grid.stripes());
        // The first row of the group whose stripe is not before this one.
        let row_from = |stripe: u64| stripe.saturating_sub(group).div_ceil(groups).min(rows);
        let mut begin = row.min(rows);
        while begin < rows {
            let region = self.stripe_of(place, begin) / each;
            let Some(kept) = self.kept.next_kept(region) else { break };
            // It may have no stripe of this group.
            let (first, end) = (begin.max(row_from(kept * each)), row_from((kept + 1) * each));
            if first < end {
                return first..end;
            }
            begin = first.max(row_from((kept + 1) * each));
        }
        rows..rows
    }

    fn rows_lacking(&self, place: usize, mut row: u64) -> u64 {
        let mut count = 0;
        loop {
            let next = self.next_lacking(place, row);
            if next.is_empty() {
                return count;
            }
            count += next.end - next.start;
            row = next.end;
        }
    }

    fn not_rebuilt(&self, place: usize) -> ArrayError {
        ArrayError::NotReplaced { name: "the new one".into(), place }
    }

    /// They follow each other on the drive: long writes, which cost it least.
    async fn write_rows(&self, place: usize, row: u64, rows: &[Buf]) -> Result<(), ArrayError> {
        let chunk = self.grid.chunk;
        let begin = self.label.borrow().zones.offset + row * chunk;
        let at_once = (REBUILD_WRITE / chunk).max(1) as usize;
        let writes = rows.chunks(at_once).enumerate().map(|(at, rows)| {
            let offset = begin + (at * at_once) as u64 * chunk;
            let bytes: Vec<&[u8]> = rows.iter().map(|row| &row[..]).collect();
            self.members[place].write(offset, Buf::from_slice(&bytes.concat()), Durability::Cached)
        });
        let done = join_all(writes).await;
        let done = done.into_iter().collect::<Result<Vec<()>, _>>();
        done.map(|_| ()).map_err(|_| self.not_rebuilt(place))
    }

    /// What a drive should hold of a stripe that is locked. A page that nothing gives is lost; what
    /// is written in its place does not pass for it.
    async fn solve_stripe(&self, stripe: u64, place: usize) -> Result<Buf, ArrayError> {
        let own = (0..self.grid.width).find(|&at| self.grid.place(stripe, at).0 == place);
        let member = own.expect("every drive of the group has a chunk of its stripes");
        let _room = self.reserve_log((self.grid.chunk / PAGE) as usize).await?;
        if let Some(bytes) = self.round(stripe, member, (0, self.grid.chunk)).await {
            let logged = self.know(stripe, member, 0, &bytes);
            assert!(!logged.urgent, "what is lost does not pass");
            return Ok(bytes);
        }
        let rows = self.mended(stripe, 0..self.grid.chunk).await;
        let mut whole = BufMut::zeroed(self.grid.chunk as usize);
        for row in &rows {
            match &row.solved[member] {
                Some(page) => {
                    whole[row.start as usize..][..PAGE as usize].copy_from_slice(page);
                    self.know(stripe, member, row.start, page);
                }
                None if self.sums.is_none() || row.absent() > self.grid.tolerance() => {
                    return Err(self.unreadable(stripe));
                }
                None => {
                    self.note_lost(stripe, member, row.start, LOST);
                }
            }
        }
        Ok(whole.freeze())
    }

    /// All rows are there: the labels say so once they are durable.
    async fn finish_rebuild(&self, place: usize) -> Result<(), ArrayError> {
        let member = &self.members[place];
        // What it has of others' sums, and pages of its own that came to be lost.
        if let Some(sums) = &self.sums {
            self.commit(self.log_end()).await?;
            sums.set_hosted_dirty(place);
            self.store_all_sums().await?;
            self.copy_log_to(place).await?;
        }
        // Nor has it heard of marks that were made before it came.
        self.write_intents().await?;
        member.flush().await.map_err(|_| self.not_rebuilt(place))?;
        {
            let _turn = self.label_turn.lock().await;
            // Copies of a label that differ in who the drive is are believed by nobody: a crash
            // while they are written must not leave such.
            let Listed { drive, state, .. } = self.label.borrow().members[place];
            let known = Some(drive).filter(|_| state == MemberState::Restoring);
            let drive = known.unwrap_or_else(|| Uuid(self.env.unique_id()));
            let Some(size) = member.size().filter(|_| member.rebuilt().is_some()) else {
                return Err(self.not_rebuilt(place));
            };
            self.list(
                place,
                Listed { drive, state: MemberState::Active, size, round: 0, zones: 0 },
            );
            member.set_whole_untold();
            self.note_losses();
            self.recorded.borrow_mut()[place] = false;
            self.write_label().await;
            if self.too_many_lost().is_none() {
                member.told_whole();
            }
        }
        self.record_losses().await
    }
}
