//! Where the pages of the checksum log lie.
//!
//! ```text
//!   page n: slot n mod slots      copies: p + 1 drives of one group, the next page begins one
//!                                         drive further
//!   group of 4, two copies        drive 0   0a . . 3b 4a . . 7b    slots, and which copy;
//!                                 drive 1   0b 1a . .  4b 5a       of each two places, used
//!                                 drive 2   .  1b 2a               in turn by its versions
//! ```
//! All copies of a page are in one group: whoever loses more of these has lost the array.

use crate::grid::Grid;
use crate::limits::PAGE;

/// Bytes of a slot on a drive: two versions.
pub const SLOT: u64 = 2 * PAGE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    width: usize,
    groups: usize,
    copies: usize,
    /// Slots on each drive.
    each: u64,
    /// Where they begin.
    base: u64,
}

impl Ring {
    /// Of so many bytes of each drive from `base` on. `None`: too few.
    pub fn new(grid: &Grid, copies: usize, base: u64, bytes: u64) -> Option<Ring> {
        // As many rounds through all drives of a group as fit.
        let each = bytes / SLOT / copies as u64 * copies as u64;
        let ring = Ring { width: grid.width, groups: grid.groups(), copies, each, base };
        (ring.slots() > 1).then_some(ring)
    }

    /// Pages of the log.
    pub fn slots(&self) -> u64 {
        (self.groups * self.width) as u64 * (self.each / self.copies as u64)
    }

    /// Bytes of each drive, from where they begin.
    pub fn extent(&self) -> (u64, u64) {
        (self.base, self.each * SLOT)
    }

    /// The drives of a page and the byte on each where this version of it lies.
    pub fn places(&self, number: u64, version: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let own = *self;
        let slot = number % own.slots();
        let (group, turn) = (slot % own.groups as u64, slot / own.groups as u64);
        let (round, first) = (turn / own.width as u64, turn % own.width as u64);
        (0..own.copies).map(move |copy| {
            let within = (first as usize + copy) % own.width;
            let at = round * own.copies as u64 + copy as u64;
            (group as usize * own.width + within, own.base + at * SLOT + version % 2 * PAGE)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::grid::Redundancy;

    #[test]
    fn every_place_is_used_once_and_copies_share_a_group() {
        for (drives, width, copies, bytes) in [
            (4, 4, 2, 10 * SLOT),
            (6, 3, 2, 7 * SLOT + 100),
            (6, 2, 2, 4 * SLOT),
            (5, 5, 3, 96 * PAGE),
            (2, 1, 1, 3 * SLOT),
        ] {
            let redundancy = Redundancy::Parity(0);
            let grid = Grid { redundancy, drives, width, chunk: 4096, rows: 9 };
            let ring = Ring::new(&grid, copies, 77 * PAGE, bytes).expect("there is room");
            let (base, len) = ring.extent();
            assert!(base == 77 * PAGE && len <= bytes);
            let mut seen = BTreeSet::new();
            for number in 0..ring.slots() {
                for version in [0, 1] {
                    let places: Vec<_> = ring.places(number, version).collect();
                    assert_eq!(places.len(), copies);
                    let of = |(drive, _): &(usize, u64)| drive / width;
                    assert!(places.iter().all(|place| of(place) == of(&places[0])));
                    assert!(places.iter().all(|(_, at)| (base..base + len).contains(at)));
                    let hosts: BTreeSet<usize> = places.iter().map(|(drive, _)| *drive).collect();
                    assert_eq!(hosts.len(), copies, "on drives of their own");
                    assert!(places.into_iter().all(|place| seen.insert(place)), "a place each");
                }
                let again: Vec<_> = ring.places(number + ring.slots(), 2).collect();
                assert_eq!(again, ring.places(number, 0).collect::<Vec<_>>());
            }
            let all = drives as u64 * len / PAGE;
            assert_eq!(seen.len() as u64, all, "nothing is left over");
        }
        let grid =
            Grid { redundancy: Redundancy::Mirror, drives: 3, width: 3, chunk: 4096, rows: 9 };
        assert_eq!(Ring::new(&grid, 3, 0, 2 * SLOT), None, "no room for all copies");
    }
}
