//! Scrub: while rows are looked at, drives give their own bytes however busy they are, and every
//! copy of what is redirected is looked at as well.
//!
//! ```text
//!  step of the array's scrub ─ its rows are read in place, hot copies or not
//!                            └ copies of redirected writes: each is right, or written again
//! ```
//! Else what rots on a busy drive is hidden by its copies, and a copy by the other one.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use classical::Scrubbed;
use io::Env;

use super::Inner;
use super::stage::{Ask, Stage};
use crate::care::{AllKept, Around, Step};

/// Ranges of each drive that a scrub is looking at, until this is dropped.
struct Looking<'a>(&'a RefCell<Vec<Range<u64>>>);

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.take();
    }
}

impl<E: Env> Inner<E> {
    pub fn kept(self: &Rc<Self>) -> AllKept {
        let inner = self.clone();
        let scrub = move |step| {
            let inner = inner.clone();
            async move { inner.scrub(step).await }
        };
        vec![Box::new(Around { array: self.array.clone(), scrub })]
    }

    /// Where on each drive lies what a step looks at: rows, or what is beside them.
    fn looked_at(&self, step: u64) -> Vec<Range<u64>> {
        let (grid, bytes) = (self.array.grid(), self.array.scrub_range(step));
        let at = |row: u64| self.stage.data_at + row * grid.chunk;
        if bytes.is_empty() {
            return vec![0..at(0), at(grid.rows)..u64::MAX];
        }
        let (stripe, groups) = (grid.stripe_bytes(), grid.groups() as u64);
        let rows = bytes.start / stripe / groups..(bytes.end / stripe).div_ceil(groups);
        std::iter::once(at(rows.start)..at(rows.end)).collect()
    }

    async fn scrub(&self, step: u64) -> Step {
        let ranges = self.looked_at(step);
        self.stage.looked_at.replace(ranges.clone());
        let looking = Looking(&self.stage.looked_at);
        let (mut found, next) = self.array.scrub_some(step).await?;
        drop(looking);
        // What is beside rows, once.
        if ranges.len() == 1 || next.is_none() {
            for range in ranges {
                found += self.stage.scrub_copies(range).await;
            }
        }
        Ok((found, next))
    }
}

impl Stage {
    /// Of redirected writes in a range of each drive. Every copy that is not right counts once.
    async fn scrub_copies(&self, range: Range<u64>) -> Scrubbed {
        let mut found = Scrubbed::default();
        for (index, own) in self.targets.iter().enumerate() {
            if self.is_dead(index) {
                continue;
            }
            let pieces = own.staged.borrow().table.look(range.clone());
            for (piece, entry) in pieces {
                let Some(entry) = entry.filter(|entry| entry.redirected) else { continue };
                let len = piece.end - piece.start;
                let seen = self.read_copies(&entry.place, entry.skip, len, Ask::All).await;
                found.bad += seen.as_ref().map_or(0, |seen| seen.bad);
                found.repaired += seen.map_or(0, |seen| seen.repaired);
            }
        }
        found
    }
}
