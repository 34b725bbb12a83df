//! What mending says and counts.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use io::sync::Turn;
use io::{Env, Nanos};
use layout::DriveIndex;

use crate::api::{EventKind, Severity};
use crate::limits::{LOST_PAGES_KNOWN_MAX, MEND_TELL};
use crate::shard::Shard;

/// Repairs of one drive that were not told yet.
#[derive(Clone, Copy, Debug, Default)]
struct Untold {
    pages: u64,
    byte: u64,
    told: Option<Nanos>,
}

#[derive(Default)]
pub struct Mending {
    /// One at a time.
    pub turn: Turn,
    /// Tasks that mend, or wait for the turn.
    pub waiting: Cell<usize>,
    untold: RefCell<BTreeMap<u16, Untold>>,
    /// Pages that are known to be lost: drive, byte, and the sum of what should be there.
    lost: RefCell<BTreeSet<(u16, u64, u32)>>,
}

impl<E: Env> Shard<E> {
    pub(super) fn note_mended(&self, drive: DriveIndex, byte: u64, refused: bool, done: bool) {
        self.array.count_bad(drive, u64::from(done));
        self.count(|counters| {
            counters.checksum_errors += u64::from(!refused);
            counters.healed_pages += u64::from(done);
        });
        if !done {
            return;
        }
        {
            let mut untold = self.mending.untold.borrow_mut();
            let untold = untold.entry(drive.0).or_default();
            untold.pages += 1;
            untold.byte = byte;
        }
        self.tell_mended(false);
    }

    /// What was repaired on each drive, not more often than now and then; with `all` at once.
    pub fn tell_mended(&self, all: bool) {
        let now = self.env.now();
        let mut untold = self.mending.untold.borrow_mut();
        for (&drive, untold) in untold.iter_mut().filter(|(_, untold)| untold.pages > 0) {
            let lately = untold.told.is_some_and(|told| now.saturating_sub(told) < MEND_TELL);
            if lately && !all {
                continue;
            }
            let Untold { pages, byte, .. } = *untold;
            let text = format!(
                "drive {}: {pages} pages were not what was written, or refused, and have been \
                 written again; the last at byte {byte}",
                self.drive_name(DriveIndex(drive))
            );
            self.tell(Some(DriveIndex(drive)), (Severity::Warning, EventKind::PagesHealed), text);
            *untold = Untold { told: Some(now), ..Untold::default() };
        }
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
        let text = format!(
            "drive {}, byte {byte}: a page is lost: it is not what was written, or refused, and so \
             is more of its stripe than parity bears; reads of it fail until it is written again",
            self.drive_name(drive)
        );
        self.tell(Some(drive), (Severity::Error, EventKind::PageLost), text);
    }
}
