//! What is found in the metadata area.

use std::collections::{BTreeMap, BTreeSet};

use format::ObjectKey;

/// Newest version of each object part that belongs to the checkpoint.
pub type Parts = BTreeMap<(ObjectKey, u16), Part>;

/// What the metadata area holds.
#[derive(Default)]
pub struct Slots {
    pub parts: Parts,
    /// Newest sequence seen.
    pub newest: u64,
    /// Slots newer than the checkpoint.
    pub cut_short: BTreeSet<u32>,
}

pub struct Part {
    pub seq: u64,
    pub parts: u16,
    /// Slots that it was found in, and in how many copies of each: a write that went elsewhere may
    /// have left one where it does not belong.
    pub slots: Vec<(u32, u8)>,
    pub payload: Vec<u8>,
}

impl Part {
    pub fn slot(&self) -> u32 {
        let most = self.slots.iter().max_by_key(|(_, copies)| *copies);
        most.expect("it was found somewhere").0
    }

    /// Another copy of the same.
    pub fn found_in(&mut self, slot: u32) {
        match self.slots.iter_mut().find(|(other, _)| *other == slot) {
            Some((_, copies)) => *copies += 1,
            None => self.slots.push((slot, 1)),
        }
    }
}
