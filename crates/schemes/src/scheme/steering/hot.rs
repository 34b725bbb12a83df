//! Copies of what is read often, for the time that its drive is busy.
//!
//! ```text
//!  read of a popular range ─ ticket ─ array reads ─ answered
//!                               │         └ the same bytes to a hot slot of another drive
//!                               └ void if the range is written meanwhile ─ else D_Table
//! ```
//! One copy each, interleaved over the other drives: its loss loses nothing. Only memory knows of
//! it.

use std::ops::Range;
use std::rc::Rc;

use io::{Buf, Durability, Env};

use super::drive::Steered;
use super::space::Lease;
use super::stage::{Copy, Hot, Record, Space, count};

/// Leave to store what is about to be read.
pub struct Ticket<E: Env> {
    drive: Steered<E>,
    number: u64,
    pub range: Range<u64>,
}

impl<E: Env> Drop for Ticket<E> {
    fn drop(&mut self) {
        let own = &self.drive.stage.targets[self.drive.index];
        own.staged.borrow_mut().tickets.remove(&self.number);
    }
}

impl<E: Env> Steered<E> {
    /// The rows that a range of the drive meets.
    fn rows(&self, range: &Range<u64>) -> Range<u64> {
        let (begin, chunk) = (self.stage.data_at, self.stage.grid.chunk);
        let row = |at: u64| at.saturating_sub(begin);
        row(range.start) / chunk..row(range.end).div_ceil(chunk)
    }

    fn row_bytes(&self, row: u64) -> Range<u64> {
        let start = self.stage.data_at + row * self.stage.grid.chunk;
        start..start + self.stage.grid.chunk
    }

    /// The range is about to be written: copies of it are worth nothing from now on.
    pub fn forget_hot(&self, range: Range<u64>) {
        let rows = self.rows(&range);
        let mut staged = self.stage.targets[self.index].staged.borrow_mut();
        staged.tickets.retain(|_, read| read.end <= range.start || range.end <= read.start);
        let hot: Vec<u64> = staged.hot.range(rows).map(|(row, _)| *row).collect();
        for row in hot {
            staged.hot.remove(&row);
            staged.table.forget_hot(self.row_bytes(row));
        }
    }

    /// Notes that a hot copy was asked for. True: there is one.
    fn touch(&self, range: &Range<u64>) -> bool {
        let mut staged = self.stage.targets[self.index].staged.borrow_mut();
        if !staged.table.covers(range) {
            return false;
        }
        staged.next += 1;
        let now = staged.next;
        if let Some(hot) = staged.hot.get_mut(&self.rows(range).start) {
            hot.last = now;
        }
        true
    }

    /// Leave to store these bytes of one row, which the caller is about to read; `None`: they are
    /// staged already, or being written.
    pub fn ticket(&self, range: Range<u64>) -> Option<Ticket<E>> {
        let align = u64::from(self.stage.align);
        let whole = range.start.next_multiple_of(align)..range.end / align * align;
        let own = &self.stage.targets[self.index];
        let written = own.lock.is_wanted(whole.clone()) || self.stage.is_dead(self.index);
        if whole.is_empty() || written || self.touch(&whole) {
            return None;
        }
        let mut staged = own.staged.borrow_mut();
        if staged.table.is_redirected(&whole) {
            return None;
        }
        staged.next += 1;
        let number = staged.next;
        staged.tickets.insert(number, whole.clone());
        drop(staged);
        Some(Ticket { drive: self.clone(), number, range: whole })
    }

    /// Where the next hot copy goes: other drives in turn.
    fn hot_space(&self) -> Option<(usize, &Space)> {
        let (stage, count) = (&self.stage, self.stage.holders.len());
        let turn = stage.next_turn();
        let mut order = (0..count).map(|at| (turn + at) % count);
        let holder = order.find(|&at| {
            let holder = &stage.holders[at];
            let free = holder.space.as_ref().is_some_and(|space| space.hot_slots.has_free());
            let slow = stage.is_busy(at) || holder.sits_out.get();
            at != self.index && free && !slow && !holder.is_lost()
        })?;
        stage.holders[holder].space.as_ref().map(|space| (holder, space))
    }

    /// The slot of a row, or a new one: if there are as many as may be, that of the coldest row is
    /// given up.
    fn hot_slot(&self, row: u64) -> Option<(usize, Rc<Lease>)> {
        let (stage, own) = (&self.stage, &self.stage.targets[self.index]);
        let held = own.staged.borrow().hot.get(&row).map(|hot| (hot.holder, hot.slot.clone()));
        let usable = |at: usize| !stage.is_busy(at) && !stage.holders[at].is_lost();
        if let Some(held) = held {
            return usable(held.0).then_some(held);
        }
        let full = own.staged.borrow().hot.len() >= stage.hot_max;
        if let Some(coldest) = self.coldest().filter(|_| full) {
            self.forget_row(coldest);
        }
        let (holder, space) = self.hot_space()?;
        Some((holder, space.hot_slots.take()?))
    }

    fn forget_row(&self, row: u64) {
        let mut staged = self.stage.targets[self.index].staged.borrow_mut();
        staged.hot.remove(&row);
        staged.table.forget_hot(self.row_bytes(row));
    }

    /// The row whose copy was read longest ago.
    fn coldest(&self) -> Option<u64> {
        let staged = self.stage.targets[self.index].staged.borrow();
        staged.hot.iter().min_by_key(|(_, hot)| hot.last).map(|(row, _)| *row)
    }
}

impl<E: Env> Ticket<E> {
    /// Stores what was read.
    pub async fn store(self, bytes: Buf) {
        let Ticket { drive, range, .. } = &self;
        let (stage, own) = (&drive.stage, &drive.stage.targets[drive.index]);
        let row = drive.rows(range).start;
        // Written meanwhile: what was read is old.
        let is_old = || !own.staged.borrow().tickets.contains_key(&self.number);
        // Also before: the slot the row has now may hold what was read since.
        if is_old() {
            return;
        }
        let Some((holder, slot)) = drive.hot_slot(row) else { return };
        let Some(space) = &stage.holders[holder].space else { return };
        let within = range.start - drive.row_bytes(row).start;
        let at = space.division.hot_at + slot.number * stage.grid.chunk + within;
        if space.member.write(at, bytes.clone(), Durability::Cached).await.is_err() {
            return;
        }
        if is_old() {
            return;
        }
        // Another copy of the row may have come first, to another slot.
        let other =
            own.staged.borrow().hot.get(&row).is_some_and(|hot| !Rc::ptr_eq(&hot.slot, &slot));
        if other {
            drive.forget_row(row);
        }
        let mut staged = own.staged.borrow_mut();
        assert!(!staged.table.is_redirected(range), "a redirected write voids tickets");
        let copy = Copy { holder, at, _lease: slot.clone() };
        let place = Rc::new(Record::of(vec![copy], &bytes));
        staged.table.insert(range.clone(), place, false);
        staged.next += 1;
        let last = staged.next;
        staged.hot.insert(row, Hot { last, holder, slot });
        count(&stage.counts.migrated);
    }
}
