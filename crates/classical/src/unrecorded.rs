//! Rows in which a write had begun that no record tells of.
//!
//! ```text
//!   no record of a stripe, and its drive would tell ── writes are over: the newest checksums count
//!     more pages are not what these say than parity bears ── no: that drive answered, and lost the
//!                     record, and the crash took the rest: the row as it is, or as it was before
//!   a record, and the log knows later checksums than it tells ── a drive lost that of a later
//!                     write: the row as the newest checksums say, if it is that
//! ```
//! A write that was flushed leaves no more pages that are not what the newest checksums say than
//! drives lie, rot or are out of date. Where there are more than may be, it was not flushed.

use std::collections::BTreeMap;

use io::Env;

use crate::array::{Inner, WriteHole};
use crate::log::PageSum;
use crate::resync::Recorded;
use crate::sums::is_lost;
use crate::verdict::{self, Known, Right};

impl<E: Env> Inner<E> {
    /// Writes of stripes with parity are over when their stripe has no record of them, and would
    /// have: of these the newest checksum counts.
    pub fn believe_newest(&self, last: &BTreeMap<u64, Recorded>) {
        let Some(sums) = &self.sums else { return };
        if self.grid.parity() == 0 || self.write_hole == WriteHole::Open {
            return;
        }
        self.open_sums.borrow_mut().retain(|&(drive, page), checksums| {
            let stripe = self.stripe_of_page(drive, page);
            let told = last.get(&stripe);
            let open = told.map_or(!self.is_recorded(stripe), |told| !self.is_over(told));
            if let Some(newest) = checksums.last().filter(|_| !open) {
                let before = checksums.iter().rev().nth(1).copied();
                let before = before.unwrap_or_else(|| sums.get(drive, page));
                self.believed.borrow_mut().insert((drive, page), before);
                sums.replace(drive, page, &[*newest]);
            }
            open
        });
    }

    /// The log knows the checksums that the write left.
    pub fn is_over(&self, told: &Recorded) -> bool {
        told.record.sequence < self.records_over.get()
    }

    /// If a write of the stripe had been under way, its record would be there, and the last.
    pub fn is_recorded(&self, stripe: u64) -> bool {
        let doubtful = self.unrecorded.borrow();
        let tells = |member| {
            let (drive, row) = self.grid.place(stripe, member);
            !doubtful.contains(&drive) && !self.members[drive].is_lost_at(row)
        };
        let closed = self.write_hole == WriteHole::Closed;
        closed && (self.grid.data()..self.grid.width).any(tells)
    }

    /// What the pages of a row should be, if they are what a write left that came after the one
    /// that a record tells of: a drive lost the record of that. One that never began was to change
    /// more pages than parity bears, and none of them is what it would have left.
    pub fn later_row(
        &self,
        (stripe, start): (u64, u64),
        row: &[Known<'_>],
        told: Option<&Recorded>,
    ) -> Option<Vec<Right>> {
        let newest: Vec<u32> =
            (0..row.len()).map(|member| self.may_be(stripe, member, start)[0]).collect();
        let is_later =
            |sum: &PageSum| sum.start == start && ![sum.old, sum.new].contains(&newest[sum.member]);
        let later = told?.record.sums.iter().any(is_later);
        later.then(|| verdict::newest(&self.grid, row, &newest)).flatten()
    }

    /// What the pages of a row should be, if some of it would be lost for the lack of a record.
    pub fn unrecorded_row(
        &self,
        (stripe, start): (u64, u64),
        row: &[Known<'_>],
        right: Option<&[Right]>,
    ) -> Option<Vec<Right>> {
        let is_missed =
            |(known, right): (&Known<'_>, &Right)| right.page.is_none() && !is_lost(known.new);
        let misses = right.is_none_or(|right| row.iter().zip(right).any(is_missed));
        if !misses || self.grid.parity() == 0 {
            return None;
        }
        let believed = self.believed.borrow();
        let before = row.iter().enumerate().map(|(member, known)| {
            let before = believed.get(&self.page_of(stripe, member, start));
            before.copied().unwrap_or(known.new)
        });
        verdict::unflushed(&self.grid, row, &before.collect::<Vec<u32>>())
    }
}
