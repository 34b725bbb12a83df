//! Which lines of RAID5 are in the cache, and in which slot.
//!
//! ```text
//!   at home ── small write ──► in a slot ── destaged, or overwritten at home ──► at home
//!      ▲                          ▲                                               │
//!      └── map durable ── the slot is in limbo, and kept for this line ◄──────────┘
//! ```
//! The map tells of each slot which line is there, so two slots must never tell of the same line:
//! a line that comes back before the map without it is durable goes to the slot it had.

use std::collections::{BTreeMap, BTreeSet};

use crate::places::Places;

/// A slot for a line that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    pub slot: u32,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The line is there.
    Cached,
    /// It was there, but is at home now; the map on the drives may not know.
    Back,
    /// Something else, or nothing, was there.
    Fresh,
}

#[derive(Clone, Debug)]
pub struct Lines {
    /// Of each slot the line plus one, 0: none. One more at the end is not ours.
    entries: Vec<u32>,
    slots: BTreeMap<u32, u32>,
    /// The slots of lines that left them, as long as these are in limbo.
    limbo: BTreeMap<u32, u32>,
    pub places: Places,
    stripe_lines: u32,
    /// When something of a stripe was cached last, and the stripes in that order.
    written: BTreeMap<u32, u64>,
    order: BTreeSet<(u64, u32)>,
    turn: u64,
}

impl Lines {
    /// `None`: the entries contradict one another, or name lines that are not there.
    pub fn new(entries: Vec<u32>, home: u32, stripe_lines: u32) -> Option<Lines> {
        let total = entries.len() as u32 - 1;
        let used = (0..total).filter(|slot| entries[*slot as usize] != 0);
        let places = Places::new(total, used.clone())?;
        let mut slots = BTreeMap::new();
        for slot in used {
            let line = entries[slot as usize] - 1;
            if line >= home || slots.insert(line, slot).is_some() {
                return None;
            }
        }
        let (limbo, written, order) = Default::default();
        let mut lines =
            Lines { entries, slots, limbo, places, stripe_lines, written, order, turn: 0 };
        let cached: Vec<u32> = lines.slots.keys().copied().collect();
        cached.into_iter().for_each(|line| lines.note(line));
        Some(lines)
    }

    pub fn entries(&self) -> &[u32] {
        &self.entries
    }

    pub fn slot(&self, line: u32) -> Option<u32> {
        self.slots.get(&line).copied()
    }

    /// The slot to read the line from, until `places.end_read`.
    pub fn begin_read(&mut self, line: u32) -> Option<u32> {
        let slot = self.slot(line)?;
        self.places.begin_read(slot);
        Some(slot)
    }

    /// `None`: the cache is full.
    pub fn give(&mut self, line: u32) -> Option<Given> {
        if let Some(slot) = self.slot(line) {
            return Some(Given { slot, state: State::Cached });
        }
        if let Some(slot) = self.limbo.remove(&line) {
            assert!(self.places.rejoin(slot), "it is in limbo");
            return Some(Given { slot, state: State::Back });
        }
        self.places.take().map(|slot| Given { slot, state: State::Fresh })
    }

    /// The slot is not written after all, or nobody can say how far.
    pub fn take_back(&mut self, line: u32, given: Given) {
        match given.state {
            State::Cached => (),
            State::Back => {
                self.places.leave(given.slot);
                self.limbo.insert(line, given.slot);
            }
            State::Fresh => self.places.give_back(given.slot),
        }
    }

    /// The line is in the slot it was given. True: the map has to tell.
    pub fn put(&mut self, line: u32, given: Given) -> bool {
        self.note(line);
        if given.state == State::Cached {
            return false;
        }
        self.entries[given.slot as usize] = line + 1;
        let before = self.slots.insert(line, given.slot);
        assert!(before.is_none(), "a line has one slot");
        true
    }

    /// The line is at home. Its slot, if it was cached: the map has to tell.
    pub fn send_home(&mut self, line: u32) -> Option<u32> {
        let slot = self.slots.remove(&line)?;
        self.entries[slot as usize] = 0;
        self.places.leave(slot);
        self.limbo.insert(line, slot);
        let stripe = line / self.stripe_lines;
        if self.of_stripe(stripe).is_empty()
            && let Some(turn) = self.written.remove(&stripe)
        {
            self.order.remove(&(turn, stripe));
        }
        Some(slot)
    }

    fn note(&mut self, line: u32) {
        let stripe = line / self.stripe_lines;
        self.turn += 1;
        if let Some(before) = self.written.insert(stripe, self.turn) {
            self.order.remove(&(before, stripe));
        }
        self.order.insert((self.turn, stripe));
    }

    /// A map without what had left by then is durable.
    pub fn settle(&mut self, left: u64) {
        self.places.settle(left);
        let places = &self.places;
        self.limbo.retain(|_, slot| places.is_in_limbo(*slot));
    }

    /// Whether a line of these left its slot, and the map on the drives may not know.
    pub fn left_slots(&self, lines: std::ops::Range<u32>) -> bool {
        self.limbo.range(lines).next().is_some()
    }

    /// Lines of a stripe that are cached, with their slots.
    pub fn of_stripe(&self, stripe: u32) -> Vec<(u32, u32)> {
        let first = stripe * self.stripe_lines;
        let own = self.slots.range(first..first + self.stripe_lines);
        own.map(|(line, slot)| (*line, *slot)).collect()
    }

    /// Stripes that have been left alone longest.
    pub fn oldest(&self, count: usize) -> Vec<u32> {
        self.order.iter().take(count).map(|(_, stripe)| *stripe).collect()
    }

    /// For tests.
    pub fn audit(&self) -> Vec<String> {
        let mut wrong = self.places.audit(self.slots.values().copied());
        for (line, slot) in &self.slots {
            if self.entries[*slot as usize] != line + 1 {
                wrong.push(format!("line {line}: slot {slot} holds another"));
            }
        }
        if self.limbo.len() != self.places.in_limbo() {
            wrong.push("slots in limbo that were nobody's".to_owned());
        }
        let cached: BTreeSet<u32> =
            self.slots.keys().map(|line| line / self.stripe_lines).collect();
        if !self.written.keys().eq(&cached) || self.order.len() != cached.len() {
            wrong.push("stripes to destage are not those that are cached".to_owned());
        }
        wrong
    }
}

#[cfg(test)]
mod tests;
