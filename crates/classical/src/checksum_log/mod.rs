//! The checksum log: checksums of pages become durable with the FLUSH or FUA that covers the pages.
//!
//! ```text
//!   write   ── checksum in memory, an entry in the window ── data
//!   FUA     ── data, and beside it a page of the log
//!   FLUSH   ── the drives' flushes, and beside them a page of the log
//!   later   ── pages of checksums to the checksum area (`sum_area`), the log's tail moves
//!
//!   a page's checksum after a crash: the area's, then the entries of the log, from its tail to its
//!   head, in order. Of entries that are not settled (their data may have been on its way) the page
//!   may be any, or what it was before.
//! ```
//! Invariants:
//! * an acknowledged FLUSH or FUA has `committed` the entries of all pages it covers;
//! * the checksum area holds settled checksums only (`State::settled`), so that replaying the log
//!   over it ends at the last committed ones;
//! * the pages from tail to head are without gaps, each on p + 1 drives of one group (`ring`);
//! * a head counts if the newest page of intents is of its opening, or of the one before: software
//!   that keeps no log leaves others.
//!
//! If no head counts, or a page is missing, the checksums of marked regions are not believed.

pub mod page;
pub mod ring;
pub mod state;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use io::sync::{Event, Turn};

use self::page::{ENTRIES, Header};
use self::ring::Ring;
use self::state::State;
use crate::limits::{LOG_UNCOMMITTED_MAX, LOG_WINDOW_MAX, PAGE};

pub struct ChecksumLog {
    pub ring: Ring,
    pub state: RefCell<State>,
    /// Held by whoever writes pages.
    pub turn: Turn,
    /// Entries that are about to come.
    reserved: Cell<usize>,
    /// Held by whoever waits for room.
    pub room_turn: Turn,
    /// The window got shorter.
    pub progress: Event,
    /// A commit is on its way that nobody waits for.
    pub committing: Cell<bool>,
}

impl ChecksumLog {
    pub fn new(ring: Ring) -> ChecksumLog {
        ChecksumLog {
            ring,
            state: RefCell::default(),
            turn: Turn::new(),
            reserved: Cell::new(0),
            room_turn: Turn::new(),
            progress: Event::new(),
            committing: Cell::new(false),
        }
    }

    /// So many entries may be unsettled: a quarter of the log, so that the tail can always move.
    pub fn window_max(&self) -> usize {
        let quarter = self.ring.slots() as usize * ENTRIES / 4;
        quarter.min(LOG_WINDOW_MAX)
    }

    /// Room in the window for so many more entries, if there is any.
    pub fn reserve(&self, entries: usize) -> Option<Room<'_>> {
        let used = self.state.borrow().held_up() + self.reserved.get();
        // One write alone may need more than that.
        let fits = used == 0 || used + entries <= self.window_max();
        fits.then(|| {
            self.reserved.set(self.reserved.get() + entries);
            Room { log: self, entries }
        })
    }

    /// So many entries wait to be committed that it should not wait for a flush.
    pub fn is_due(&self) -> bool {
        self.state.borrow().uncommitted() >= LOG_UNCOMMITTED_MAX && !self.committing.get()
    }

    /// The log is half full: pages of checksums should be stored.
    pub fn is_half_full(&self) -> bool {
        self.state.borrow().used() > self.ring.slots() / 2
    }
}

/// Room in the window for entries that are about to come.
pub struct Room<'a> {
    log: &'a ChecksumLog,
    entries: usize,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.log.reserved.set(self.log.reserved.get() - self.entries);
        self.log.progress.notify_all();
    }
}

/// What a write changed: runs of entries.
#[derive(Clone, Debug, Default)]
pub struct Logged {
    pub runs: Vec<Range<u64>>,
    /// A page is lost, or is not any more: the entries are durable before the write is answered.
    pub urgent: bool,
}

impl Logged {
    /// Behind the last of them.
    pub fn end(&self) -> u64 {
        self.runs.iter().map(|run| run.end).max().unwrap_or(0)
    }

    pub fn join(&mut self, other: Logged) {
        self.runs.extend(other.runs);
        self.urgent |= other.urgent;
    }
}

/// A page of the log that was found on a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub header: Header,
    pub drive: usize,
    /// Where on it.
    pub at: u64,
}

/// The newest page that counts. `opening`: that of the newest page of intents.
pub fn head(found: &[Found], opening: u64) -> Option<Header> {
    let counts = |own: &&Found| own.header.opening == opening || own.header.before == opening;
    let heads = found.iter().filter(counts).map(|own| own.header).filter(|_| opening != 0);
    heads.max_by_key(|head| (head.number, head.version))
}

/// The pages from the head's tail to it, each with all places where it was found. `None`: one is
/// missing.
pub fn chain(found: &[Found], head: &Header) -> Option<Vec<Vec<Found>>> {
    let mut numbers: BTreeMap<u64, Vec<Found>> = BTreeMap::new();
    for own in found.iter().filter(|own| (head.tail..=head.number).contains(&own.header.number)) {
        numbers.entry(own.header.number).or_default().push(*own);
    }
    if head.tail > head.number {
        return Some(Vec::new());
    }
    let mut pages = vec![places_of(&numbers, head)];
    let mut next = *head;
    for number in (head.tail..head.number).rev() {
        // Versions that no later page goes on from were never told of.
        let goes_on = |own: &&Found| own.header.end() == next.first;
        let own = || numbers.get(&number).into_iter().flatten().filter(goes_on);
        // An opening that a crash cut short may have used the same number.
        let of = |opening: u64| own().filter(move |own| own.header.opening == opening);
        let newest = |opening| of(opening).map(|own| own.header).max_by_key(|own| own.version);
        next = newest(next.opening).or_else(|| newest(next.onto))?;
        pages.push(places_of(&numbers, &next));
    }
    pages.reverse();
    Some(pages)
}

fn places_of(numbers: &BTreeMap<u64, Vec<Found>>, header: &Header) -> Vec<Found> {
    let own = numbers.get(&header.number).into_iter().flatten();
    own.filter(|own| own.header == *header).copied().collect()
}

/// Drives with fewer bytes of chunks have the log in their first label area.
const OWN_EXTENT_FROM: u64 = 512 << 20;

/// Bytes of each drive for the log of an array with so many bytes of chunks on each: enough for the
/// pages of checksums to be stored rarely, little to read when the array is opened.
pub fn bytes_for(data: u64) -> u64 {
    match data < OWN_EXTENT_FROM {
        true => 0,
        false => (data / 1024).min(64 << 20) / PAGE * PAGE,
    }
}

#[cfg(test)]
mod tests;
