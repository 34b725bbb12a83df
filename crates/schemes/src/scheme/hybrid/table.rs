//! The mapping table with the access counts and the places: all that a write must know, and
//! nothing that waits.

use super::decide::{Cover, Decision, decide};
use super::place::{self, Place, TIERS, Tier};
use super::space::Space;

/// A stripe goes to a new place; from none with its first write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub from: Option<Place>,
    pub to: Place,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// To where the stripe is.
    Stay(Place),
    /// To a new place, which is taken; the table names it from [`Table::arrive`] on.
    Move(Move),
    /// It is the first of its stripe, and no place is free.
    NoRoom,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes of stripes that were written for the first time, by the tier they went to.
    pub first: [u64; 2],
    /// Writes of stripes that stayed, by their tier.
    pub stayed: [u64; 2],
    /// Stripes that moved with a write, by the tier they went to.
    pub online: [u64; 2],
    /// Stripes that moved to make room, by the tier they went to.
    pub offline: [u64; 2],
    /// Writes whose tier was full: they went to the other one, or stayed.
    pub crowded: u64,
}

#[derive(Clone, Debug)]
pub struct Table {
    entries: Vec<u32>,
    /// Writes of each stripe since it came to its tier; they stop at 255. Not kept through a
    /// restart: a stripe that is written often is soon known again.
    accesses: Vec<u8>,
    pub space: Space,
    online_threshold: u8,
    pub counts: Counts,
}

impl Table {
    /// `None`: the entries contradict one another.
    pub fn new(entries: Vec<u32>, totals: [u32; 2], online_threshold: u8) -> Option<Table> {
        let places: Option<Vec<Option<Place>>> =
            entries.iter().map(|&entry| place::decode(entry)).collect();
        let space = Space::new(totals, places?.iter().flatten().copied())?;
        let accesses = vec![0; entries.len()];
        Some(Table { entries, accesses, space, online_threshold, counts: Counts::default() })
    }

    pub fn entries(&self) -> &[u32] {
        &self.entries
    }

    pub fn accesses(&self, stripe: u32) -> u8 {
        self.accesses[stripe as usize]
    }

    /// `None`: it was never written.
    pub fn place(&self, stripe: u32) -> Option<Place> {
        place::decode(self.entries[stripe as usize]).expect("entries were checked")
    }

    /// A stripe is about to be written. The access is counted, unless there is no room.
    pub fn choose(&mut self, stripe: u32, cover: Cover) -> Choice {
        let from = self.place(stripe);
        let now = from.map(|place| (place.tier, self.accesses(stripe)));
        let (to, crowded) = match decide(now, cover, self.online_threshold) {
            Decision::Stay => (None, false),
            Decision::Move(tier) => {
                let to = self.space.take(tier);
                (to, to.is_none())
            }
            Decision::First(tier) => {
                let best = self.space.take(tier);
                match best.or_else(|| self.space.take(tier.other())) {
                    Some(to) => (Some(to), best.is_none()),
                    None => return Choice::NoRoom,
                }
            }
        };
        self.counts.crowded += u64::from(crowded);
        match (from, to) {
            (_, Some(to)) => Choice::Move(Move { from, to }),
            (Some(place), None) => {
                let accesses = &mut self.accesses[stripe as usize];
                *accesses = accesses.saturating_add(1);
                self.counts.stayed[place.tier as usize] += 1;
                Choice::Stay(place)
            }
            (None, None) => unreachable!("a first write has a place or no room"),
        }
    }

    /// A place for a stripe that is to make room where it is.
    pub fn choose_offline(&mut self, stripe: u32, from: Tier) -> Option<Move> {
        let place = self.place(stripe).filter(|place| place.tier == from)?;
        let to = self.space.take(from.other())?;
        Some(Move { from: Some(place), to })
    }

    /// The stripe is at its new place, with a write or without one.
    pub fn arrive(&mut self, stripe: u32, Move { from, to }: Move, by_write: bool) {
        assert_eq!(self.place(stripe), from, "who moves a stripe has it alone");
        self.entries[stripe as usize] = place::encode(Some(to));
        self.accesses[stripe as usize] = u8::from(by_write);
        let counts = match (from, by_write) {
            (None, _) => &mut self.counts.first,
            (Some(_), true) => &mut self.counts.online,
            (Some(_), false) => &mut self.counts.offline,
        };
        counts[to.tier as usize] += 1;
        if let Some(from) = from {
            self.space.leave(from);
        }
    }

    /// Where the stripe is to be read; the place stays what it is until `space.end_read`.
    pub fn begin_read(&mut self, stripe: u32) -> Option<Place> {
        let place = self.place(stripe);
        if let Some(place) = place {
            self.space.begin_read(place);
        }
        place
    }

    pub fn has_room(&self) -> bool {
        TIERS.into_iter().any(|tier| self.space.has_room(tier))
    }

    /// For tests.
    pub fn audit(&self) -> Vec<String> {
        let mapped = (0..self.entries.len() as u32).filter_map(|stripe| self.place(stripe));
        self.space.audit(mapped)
    }
}

#[cfg(test)]
mod tests;
