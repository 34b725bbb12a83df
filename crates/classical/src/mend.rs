//! Mending: pages that are not what their sums say, or that a drive refuses, are had from the
//! others of their row and written again.
//!
//! ```text
//!  a read is refused, or does not pass ── stripe lock ── again ──> it was being written: answer
//!                                                        └ still: page by page, every member
//!      what follows from the others: written in place, counted, told     what does not: lost
//! ```
//! Whoever mends has the stripe's lock. A page that is lost fails reads of it, and nothing else,
//! until it is written.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use io::{Buf, BufMut, Durability, Env, join_all};

use crate::array::{Array, ArrayError, Inner};
use crate::grid::{Grid, Piece, Redundancy};
use crate::limits::{LOST_KNOWN_MAX, NOTES_MAX, PAGE};
use crate::planted::{self, Bug};
use crate::row::{shape_of, solve_row, without};
use crate::sums::{is_lost, is_unsure};

/// Why bytes of a member can't be had from its drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The drive is gone, or has nothing there yet.
    Absent,
    /// The drive is there and does not give them.
    Refused,
    /// It gives others than were written.
    Wrong,
}

/// One page of every member of a stripe.
pub struct Row {
    /// Its first byte in the chunk.
    pub start: u64,
    pub seen: Vec<Result<Buf, Unread>>,
    /// What each should hold, if that follows.
    pub solved: Vec<Option<Buf>>,
}

impl Row {
    pub fn absent(&self) -> usize {
        self.seen.iter().filter(|seen| matches!(seen, Err(Unread::Absent))).count()
    }

    /// Nothing is missing but what is absent, and that follows.
    fn is_sound(&self) -> bool {
        let bad = |seen: &Result<Buf, Unread>| matches!(seen, Err(e) if *e != Unread::Absent);
        !self.seen.iter().any(bad) && self.solved.iter().all(Option::is_some)
    }
}

/// A page that was bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The drive's name, and the byte on it.
    pub drive: String,
    pub byte: u64,
    /// Written again; else it is lost.
    pub repaired: bool,
}

/// What was found since the array was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Pages that were not what was written.
    pub wrong: u64,
    /// Pages that a drive refused.
    pub refused: u64,
    /// Of both, those that were written again.
    pub repaired: u64,
    /// Different pages that nothing gives.
    pub lost: u64,
    /// Bytes of memory that sums take.
    pub sums_memory: u64,
}

impl std::ops::AddAssign for Health {
    fn add_assign(&mut self, other: Health) {
        self.wrong += other.wrong;
        self.refused += other.refused;
        self.repaired += other.repaired;
        self.lost += other.lost;
        self.sums_memory += other.sums_memory;
    }
}

/// What mending some rows came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    pub bad: u64,
    pub repaired: u64,
    pub lost: u64,
}

/// A page of data that an array can't give, and another one may ([`OpenOptions::elsewhere`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Its first byte in the array.
    pub at: u64,
    drive: String,
    byte: u64,
    unread: Unread,
}

/// What was found bad, to be counted and told.
#[derive(Default)]
pub struct Mending {
    health: Cell<Health>,
    /// What can't be given is not lost yet: somebody asks for it.
    pub elsewhere: bool,
    missed: RefCell<Vec<Missed>>,
    notes: RefCell<VecDeque<Note>>,
    /// Lost pages that were told: drive, byte, and what its sum was.
    lost: RefCell<BTreeSet<(usize, u64, u32)>>,
}

impl Mending {
    pub fn new(elsewhere: bool) -> Mending {
        Mending { elsewhere, ..Mending::default() }
    }

    pub fn health(&self) -> Health {
        self.health.get()
    }

    pub fn take_notes(&self) -> Vec<Note> {
        self.notes.take().into()
    }

    pub fn count(&self, how: impl FnOnce(&mut Health)) {
        let mut health = self.health.get();
        how(&mut health);
        self.health.set(health);
    }

    pub fn tell(&self, note: Note) {
        let mut notes = self.notes.borrow_mut();
        if notes.len() == NOTES_MAX {
            notes.pop_front();
        }
        notes.push_back(note);
    }

    /// A page was bad, and is written again, or its drive is lost by that.
    pub fn tell_rewritten(&self, unread: Unread, note: Note) {
        self.count(|health| {
            health.wrong += u64::from(unread == Unread::Wrong);
            health.refused += u64::from(unread == Unread::Refused);
            health.repaired += u64::from(note.repaired);
        });
        if note.repaired {
            self.tell(note);
        }
    }

    /// Nothing gives a page: told once, as long as it is remembered by its drive, its place there
    /// and its sum.
    pub fn tell_lost(&self, page: (usize, u64, u32), unread: Unread, (drive, byte): (String, u64)) {
        let mut lost = self.lost.borrow_mut();
        if !lost.insert(page) {
            return;
        }
        if lost.len() > LOST_KNOWN_MAX {
            lost.pop_first();
        }
        drop(lost);
        self.count(|health| {
            health.wrong += u64::from(unread == Unread::Wrong);
            health.refused += u64::from(unread == Unread::Refused);
            health.lost += 1;
        });
        self.tell(Note { drive, byte, repaired: false });
    }
}

impl<E: Env> Array<E> {
    pub fn health(&self) -> Health {
        let sums_memory = self.inner.sums.as_ref().map_or(0, crate::sums::Sums::memory);
        Health { sums_memory, ..self.inner.mending.health() }
    }

    pub fn has_sums(&self) -> bool {
        self.inner.sums.is_some()
    }

    /// What was found bad since somebody asked.
    pub fn take_notes(&self) -> Vec<Note> {
        self.inner.mending.take_notes()
    }

    /// Pages of data that it can't give, and another array may, since somebody asked:
    /// [`LOST_KNOWN_MAX`] at most, the others when they are met again.
    pub fn take_missed(&self) -> Vec<Missed> {
        self.inner.mending.missed.take()
    }

    /// What came of one: written again, or lost.
    pub fn tell_missed(&self, missed: Missed, repaired: bool) {
        let Missed { drive, byte, unread, .. } = missed;
        let mending = &self.inner.mending;
        mending.count(|health| {
            health.wrong += u64::from(unread == Unread::Wrong);
            health.refused += u64::from(unread == Unread::Refused);
            health.repaired += u64::from(repaired);
            health.lost += u64::from(!repaired);
        });
        mending.tell(Note { drive, byte, repaired });
    }
}

impl<E: Env> Inner<E> {
    /// Any bytes of a member, if they are what they should be: what the drive can't be asked for
    /// exactly is cut out. Without the stripe's lock they may not pass because they are just being
    /// written.
    pub async fn read_member(
        &self,
        stripe: u64,
        member: usize,
        (start, end): (u64, u64),
    ) -> Result<Buf, Unread> {
        let (from, to) = (start / self.align * self.align, end.next_multiple_of(self.align));
        let bytes = self.read_raw(stripe, member, (from, to)).await?;
        if let Some(sums) = &self.sums {
            let (drive, first) = self.page_of(stripe, member, from);
            if !sums.all_pass(drive, first, &bytes) && !planted::is(Bug::ReadUnchecked) {
                return Err(Unread::Wrong);
            }
        }
        Ok(bytes.slice((start - from) as usize..(end - from) as usize))
    }

    /// Units of a member as its drive gives them, whatever their checksums say.
    pub async fn read_raw(
        &self,
        stripe: u64,
        member: usize,
        (from, to): (u64, u64),
    ) -> Result<Buf, Unread> {
        if self.is_lost(stripe, member) {
            return Err(Unread::Absent);
        }
        let (drive, offset) = self.address(stripe, member, from);
        drive.read(offset, to - from).await.map_err(|error| match error.is_refusal() {
            true => Unread::Refused,
            false => Unread::Absent,
        })
    }

    /// Bytes of a member of a locked stripe, from its drive or from the others, mended if need be.
    pub async fn fetch(
        &self,
        stripe: u64,
        member: usize,
        range: (u64, u64),
    ) -> Result<Buf, ArrayError> {
        if self.sits_out(stripe, member)
            && let Some(bytes) = self.round(stripe, member, range).await
        {
            return Ok(bytes);
        }
        let known = match self.read_member(stripe, member, range).await {
            Ok(bytes) => return Ok(bytes),
            Err(Unread::Absent) => self.round(stripe, member, range).await,
            Err(_) => None,
        };
        match known {
            Some(bytes) => Ok(bytes),
            None => self.salvage(stripe, member, range).await,
        }
    }

    /// Each page in its own way.
    async fn salvage(
        &self,
        stripe: u64,
        member: usize,
        (start, end): (u64, u64),
    ) -> Result<Buf, ArrayError> {
        let first = start / PAGE * PAGE;
        let rows = self.mended(stripe, first..end.next_multiple_of(PAGE)).await;
        let mut whole = BufMut::with_len(rows.len() * PAGE as usize);
        for (row, out) in rows.iter().zip(whole.chunks_exact_mut(PAGE as usize)) {
            let Some(page) = &row.solved[member] else {
                return Err(self.page_lost(stripe, member, row));
            };
            out.copy_from_slice(page);
        }
        Ok(whole.freeze().slice((start - first) as usize..(end - first) as usize))
    }

    fn page_lost(&self, stripe: u64, member: usize, row: &Row) -> ArrayError {
        if row.absent() > self.grid.tolerance() {
            return self.unreadable(stripe);
        }
        let (drive, offset) = self.address(stripe, member, row.start);
        let (name, byte) = drive.device(offset);
        ArrayError::PageLost { name, byte }
    }

    /// Solves for a piece whose drive is rather not asked. The stripe is locked.
    pub async fn read_round(&self, stripe: u64, piece: Piece) -> Result<Buf, ArrayError> {
        let range = (piece.start, piece.end);
        match self.round(stripe, piece.position, range).await {
            Some(bytes) => Ok(bytes),
            None => self.fetch(stripe, piece.position, range).await,
        }
    }

    /// Bytes of a member from the others, if these are all as they should be.
    pub async fn round(&self, stripe: u64, member: usize, (start, end): (u64, u64)) -> Option<Buf> {
        let unit = self.align.max(if self.sums.is_some() { PAGE } else { 0 });
        let wide = (start / unit * unit, end.next_multiple_of(unit));
        let bytes = match shape_of(&self.grid) {
            None if self.grid.redundancy == Redundancy::Mirror => {
                let mut found = None;
                for copy in (0..self.grid.width).filter(|copy| *copy != member) {
                    match self.read_member(stripe, copy, wide).await {
                        Ok(bytes) => {
                            found = Some(bytes);
                            break;
                        }
                        Err(Unread::Absent) => {}
                        Err(_) => return None,
                    }
                }
                found?
            }
            None => return None,
            Some(shape) => {
                let others = (0..self.grid.width).map(async |at| match at == member {
                    true => Err(Unread::Absent),
                    false => self.read_member(stripe, at, wide).await,
                });
                let members = join_all(others).await;
                let bad =
                    |held: &Result<Buf, Unread>| matches!(held, Err(e) if *e != Unread::Absent);
                let missing = members.iter().filter(|held| held.is_err()).count();
                if missing > shape.parity() || members.iter().any(bad) {
                    return None;
                }
                let views: Vec<Option<&[u8]>> =
                    members.iter().map(|held| held.as_deref().ok()).collect();
                Buf::from_slice(&without(shape, &views, &[member])[0].1)
            }
        };
        if let Some(sums) = &self.sums {
            let (drive, first) = self.page_of(stripe, member, wide.0);
            if !sums.all_pass(drive, first, &bytes) {
                return None;
            }
        }
        Some(bytes.slice((start - wide.0) as usize..(end - wide.0) as usize))
    }

    // ---- looking

    /// Whole pages of every member of a locked stripe, what is bad written again.
    pub async fn mended(&self, stripe: u64, range: Range<u64>) -> Vec<Row> {
        let rows = self.look(stripe, range).await;
        self.mend(stripe, &rows).await;
        rows
    }

    pub async fn look(&self, stripe: u64, range: Range<u64>) -> Vec<Row> {
        let see = |member| self.see(stripe, member, range.clone());
        let members = join_all((0..self.grid.width).map(see)).await;
        let row = |(at, start): (usize, u64)| {
            let seen: Vec<Result<Buf, Unread>> =
                members.iter().map(|pages| pages[at].clone()).collect();
            let sums: Vec<u32> =
                (0..self.grid.width).map(|member| self.sum(stripe, member, start)).collect();
            let views: Vec<Option<&[u8]>> = seen.iter().map(|s| s.as_deref().ok()).collect();
            let solved = solve_row(&self.grid, &sums, &views).into_iter();
            let solved = solved.map(|page| page.map(|page| Buf::from_slice(&page))).collect();
            Row { start, seen, solved }
        };
        range.clone().step_by(PAGE as usize).enumerate().map(row).collect()
    }

    async fn see(&self, stripe: u64, member: usize, range: Range<u64>) -> Vec<Result<Buf, Unread>> {
        let pages = || range.clone().step_by(PAGE as usize);
        match self.read_member(stripe, member, (range.start, range.end)).await {
            Ok(bytes) => pages()
                .map(|at| {
                    let from = (at - range.start) as usize;
                    Ok(bytes.slice(from..from + PAGE as usize))
                })
                .collect(),
            Err(Unread::Absent) => pages().map(|_| Err(Unread::Absent)).collect(),
            Err(_) => {
                let each = pages().map(|at| self.read_member(stripe, member, (at, at + PAGE)));
                join_all(each).await
            }
        }
    }

    // ---- mending

    pub async fn mend(&self, stripe: u64, rows: &[Row]) -> Mended {
        let mut mended = Mended::default();
        for row in rows.iter().filter(|row| !row.is_sound()) {
            for (member, seen) in row.seen.iter().enumerate() {
                let Err(unread) = *seen else { continue };
                let solved = row.solved[member].as_ref();
                mended.bad += u64::from(unread != Unread::Absent);
                match solved {
                    Some(_) if unread == Unread::Absent => {}
                    Some(page) => {
                        let done = self.rewrite(stripe, member, row.start, page, unread).await;
                        mended.repaired += u64::from(done);
                    }
                    // With too many drives gone it is not the page that is lost.
                    None if row.absent() <= self.grid.tolerance() => {
                        self.tell_lost(stripe, member, row.start, unread);
                        mended.lost += 1;
                    }
                    None => {}
                }
            }
        }
        mended
    }

    /// Puts a bad page right. False: its drive is lost by that.
    pub async fn rewrite(
        &self,
        stripe: u64,
        member: usize,
        start: u64,
        page: &Buf,
        unread: Unread,
    ) -> bool {
        let (drive, offset) = self.address(stripe, member, start);
        let done = drive.write(offset, page.clone(), Durability::Durable).await.is_ok();
        let (name, byte) = drive.device(offset);
        self.mending.tell_rewritten(unread, Note { drive: name, byte, repaired: done });
        let sum = self.sum(stripe, member, start);
        if done && (is_unsure(sum) || is_lost(sum)) {
            let logged = self.know(stripe, member, start, page);
            // Else a crash would bring back that it was lost.
            if logged.urgent && self.commit(logged.end()).await.is_err() {
                let _ = self.record_losses().await;
            }
        }
        if !done {
            let _ = self.record_losses().await;
        }
        done
    }

    /// Leaves a page to whoever asks elsewhere. False: it is none of data. Of too many some are met
    /// again.
    fn miss(&self, stripe: u64, member: usize, start: u64, unread: Unread) -> bool {
        let Grid { redundancy, chunk, .. } = self.grid;
        let position = if redundancy == Redundancy::Mirror { 0 } else { member };
        if position >= self.grid.data() {
            return false;
        }
        let at = stripe * self.grid.stripe_bytes() + position as u64 * chunk + start;
        let (drive, offset) = self.address(stripe, member, start);
        let (drive, byte) = drive.device(offset);
        let mut missed = self.mending.missed.borrow_mut();
        if missed.len() < LOST_KNOWN_MAX && !missed.iter().any(|own| own.at == at) {
            missed.push(Missed { at, drive, byte, unread });
        }
        true
    }

    /// Once for each page, as long as it is remembered.
    pub fn tell_lost(&self, stripe: u64, member: usize, start: u64, unread: Unread) {
        let (index, _) = self.page_of(stripe, member, start);
        let (drive, offset) = self.address(stripe, member, start);
        if self.mending.elsewhere && self.miss(stripe, member, start, unread) {
            return;
        }
        let page = (index, offset, self.sum(stripe, member, start));
        self.mending.tell_lost(page, unread, drive.device(offset));
    }
}
