//! What mending says and counts.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use io::Env;
use io::sync::Turn;
use layout::DriveIndex;
use policy::rot::{Found, LostPages, Sum, Untold};

use crate::api::{EventKind, Severity};
use crate::limits::LOST_PAGES_KNOWN_MAX;
use crate::shard::Shard;

#[derive(Default)]
pub struct Mending {
    /// One at a time.
    pub turn: Turn,
    /// Tasks that mend, or wait for the turn.
    pub waiting: Cell<usize>,
    untold: RefCell<Untold<u16>>,
    lost_pages: Cell<LostPages>,
    /// Pages that are known to be lost: drive, byte, and the sum of what should be there.
    lost: RefCell<BTreeSet<(u16, u64, u32)>>,
}

impl Mending {
    /// Of a pool that goes on: what is lost still is.
    pub fn inherit(&self, before: &Mending) {
        self.lost_pages.set(before.lost_pages.get());
    }
}

impl<E: Env> Shard<E> {
    pub(super) fn note_mended(&self, drive: DriveIndex, byte: u64, refused: bool, done: bool) {
        self.array.count_bad(drive, u64::from(done));
        self.count(|counters| {
            counters.checksum_errors += u64::from(!refused);
            counters.healed_pages += u64::from(done);
        });
        if done {
            self.note_bad(drive, byte, Found::Repaired);
        }
    }

    /// It is told by itself, or with others when their turn comes.
    fn note_bad(&self, drive: DriveIndex, byte: u64, found: Found) {
        let now = self.env.now().0;
        let alone = self.mending.untold.borrow_mut().note(drive.0, byte, found, now);
        match alone {
            Some(sum) => self.tell_sum(drive, &sum),
            None => self.tell_mended(false),
        }
    }

    /// What was repaired or lost on each drive, not more often than now and then; with `all` at
    /// once.
    pub fn tell_mended(&self, all: bool) {
        let due = self.mending.untold.borrow_mut().due(self.env.now().0, all);
        due.iter().for_each(|(drive, sum)| self.tell_sum(DriveIndex(*drive), sum));
    }

    fn tell_sum(&self, drive: DriveIndex, sum: &Sum) {
        let what = match sum.found {
            Found::Repaired => (Severity::Warning, EventKind::PagesHealed),
            Found::Lost => (Severity::Error, EventKind::PageLost),
        };
        self.tell(Some(drive), what, sum.text(&self.drive_name(drive)));
    }

    /// Pages that nothing gives, as far as is known: not those that were written again since, if a
    /// scrub went over them.
    pub fn lost_pages(&self) -> u64 {
        self.mending.lost_pages.get().known(self.counters.get().lost_pages)
    }

    pub fn note_lost_pages(&self, what: impl FnOnce(&mut LostPages, u64)) {
        let mut pages = self.mending.lost_pages.get();
        what(&mut pages, self.counters.get().lost_pages);
        self.mending.lost_pages.set(pages);
    }

    /// Once for each page, as long as it is remembered.
    pub(super) fn tell_lost_page(&self, drive: DriveIndex, byte: u64, sum: u32) {
        let mut lost = self.mending.lost.borrow_mut();
        if !lost.insert((drive.0, byte, sum)) {
            return;
        }
        if lost.len() > LOST_PAGES_KNOWN_MAX {
            lost.pop_first();
        }
        drop(lost);
        self.array.count_bad(drive, 0);
        self.count(|counters| counters.lost_pages += 1);
        self.note_bad(drive, byte, Found::Lost);
    }
}
