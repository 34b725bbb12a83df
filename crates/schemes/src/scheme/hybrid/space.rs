//! Which places of the two tiers are free.
//!
//! ```text
//!   free ── take ──► used ── leave ──► limbo ── the map without it is durable ──► left
//!    ▲                 │                                                           │
//!    └─── give back ───┴───────────────── nobody reads there any more ─────────────┘
//! ```
//! As in the paper a tier is handed out in order first; then what was freed is used again, the
//! lowest number first. Never is a place given to a stripe while another's entry on the drives
//! names it, or while a read that found it there is under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::place::{Place, TIERS, Tier};

#[derive(Clone, Debug)]
struct Room {
    total: u32,
    /// The first place that was never used.
    next: u32,
    freed: BTreeSet<u32>,
    /// Taken and not left: what fills the tier.
    used: u32,
}

#[derive(Clone, Debug)]
pub struct Space {
    rooms: [Room; 2],
    /// Left, but named by the map on the drives; with a rising number each.
    limbo: VecDeque<(u64, Place)>,
    left: u64,
    /// Not named any more, but still read from.
    awaited: BTreeSet<Place>,
    /// Reads under way. Bounded by the requests there are.
    reads: BTreeMap<Place, u32>,
}

impl Space {
    /// `None`: a stripe lies where there is no place, or two lie in one.
    pub fn new(totals: [u32; 2], used: impl Iterator<Item = Place>) -> Option<Space> {
        let mut taken = totals.map(|total| vec![false; total as usize]);
        for Place { tier, number } in used {
            let place = taken[tier as usize].get_mut(number as usize)?;
            if std::mem::replace(place, true) {
                return None;
            }
        }
        let room = |taken: Vec<bool>| {
            let next = taken.iter().rposition(|taken| *taken).map_or(0, |last| last as u32 + 1);
            let free = |number: &u32| !taken[*number as usize];
            let freed: BTreeSet<u32> = (0..next).filter(free).collect();
            let used = next - freed.len() as u32;
            Room { total: taken.len() as u32, next, freed, used }
        };
        let rooms = taken.map(room);
        let (limbo, awaited, reads) = Default::default();
        Some(Space { rooms, limbo, left: 0, awaited, reads })
    }

    /// A place for a stripe.
    pub fn take(&mut self, tier: Tier) -> Option<Place> {
        let room = &mut self.rooms[tier as usize];
        let number = if room.next < room.total {
            room.next += 1;
            room.next - 1
        } else {
            room.freed.pop_first()?
        };
        room.used += 1;
        Some(Place { tier, number })
    }

    /// It was never named by the map.
    pub fn give_back(&mut self, place: Place) {
        self.rooms[place.tier as usize].used -= 1;
        self.free(place);
    }

    /// The stripe is somewhere else now.
    pub fn leave(&mut self, place: Place) {
        self.rooms[place.tier as usize].used -= 1;
        self.left += 1;
        self.limbo.push_back((self.left, place));
    }

    /// What has been left by now; for [`Space::settle`].
    pub fn left(&self) -> u64 {
        self.left
    }

    /// A map without what had been left by then is durable.
    pub fn settle(&mut self, left: u64) {
        while self.limbo.front().is_some_and(|(number, _)| *number <= left) {
            let Some((_, place)) = self.limbo.pop_front() else { break };
            if self.reads.contains_key(&place) {
                self.awaited.insert(place);
            } else {
                self.free(place);
            }
        }
    }

    fn free(&mut self, place: Place) {
        let room = &mut self.rooms[place.tier as usize];
        let is_new = place.number < room.next && room.freed.insert(place.number);
        assert!(is_new, "a place is freed once");
    }

    pub fn begin_read(&mut self, place: Place) {
        *self.reads.entry(place).or_default() += 1;
    }

    /// True: the place is free now.
    pub fn end_read(&mut self, place: Place) -> bool {
        let reads = self.reads.get_mut(&place).expect("it is being read");
        *reads -= 1;
        if *reads > 0 {
            return false;
        }
        self.reads.remove(&place);
        let awaited = self.awaited.remove(&place);
        if awaited {
            self.free(place);
        }
        awaited
    }

    pub fn total(&self, tier: Tier) -> u32 {
        self.rooms[tier as usize].total
    }

    pub fn used(&self, tier: Tier) -> u32 {
        self.rooms[tier as usize].used
    }

    pub fn has_room(&self, tier: Tier) -> bool {
        let room = &self.rooms[tier as usize];
        room.next < room.total || !room.freed.is_empty()
    }

    /// There are places that only a durable map would free.
    pub fn has_limbo(&self) -> bool {
        !self.limbo.is_empty()
    }

    /// What contradicts itself, given the places that stripes have; none is moving. For tests.
    pub fn audit(&self, mapped: impl Iterator<Item = Place>) -> Vec<String> {
        let mut wrong = Vec::new();
        let limbo = self.limbo.iter().map(|(_, place)| ("in limbo", *place));
        let awaited = self.awaited.iter().map(|place| ("awaited", *place));
        let freed = TIERS.into_iter().flat_map(|tier| {
            let numbers = self.rooms[tier as usize].freed.iter();
            numbers.map(move |&number| ("free", Place { tier, number }))
        });
        let mapped = mapped.map(|place| ("mapped", place));
        let (mut seen, mut used) = (BTreeMap::new(), [0; 2]);
        for (what, place) in limbo.chain(awaited).chain(freed).chain(mapped) {
            used[place.tier as usize] += u32::from(what == "mapped");
            if place.number >= self.rooms[place.tier as usize].next {
                wrong.push(format!("{place:?} is {what} and was never handed out"));
            }
            if let Some(other) = seen.insert(place, what) {
                wrong.push(format!("{place:?} is {other} and {what}"));
            }
        }
        for tier in TIERS.into_iter().filter(|tier| used[*tier as usize] != self.used(*tier)) {
            let (counted, found) = (self.used(tier), used[tier as usize]);
            wrong.push(format!("{tier:?}: {counted} places used, {found} mapped"));
        }
        let handed_out: u32 = self.rooms.iter().map(|room| room.next).sum();
        if seen.len() < handed_out as usize {
            wrong.push(format!("{} of {handed_out} places are known of", seen.len()));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u32) -> Place {
        Place { tier: Tier::Mirrors, number }
    }

    #[test]
    fn in_order_first_then_what_was_freed() {
        let mut space = Space::new([3, 0], [].into_iter()).expect("empty");
        assert_eq!(space.take(Tier::Mirrors), Some(at(0)));
        space.give_back(at(0));
        assert_eq!(space.take(Tier::Mirrors), Some(at(1)));
        assert_eq!(space.take(Tier::Mirrors), Some(at(2)));
        assert_eq!(space.take(Tier::Mirrors), Some(at(0)));
        assert_eq!(space.take(Tier::Mirrors), None);
        assert_eq!(space.take(Tier::Parity), None);
    }

    #[test]
    fn a_place_is_used_again_when_the_map_is_durable_and_nobody_reads_there() {
        let mut space = Space::new([1, 0], [at(0)].into_iter()).expect("one");
        space.begin_read(at(0));
        space.begin_read(at(0));
        let before = space.left();
        space.leave(at(0));
        space.settle(before);
        assert!(space.has_limbo(), "that map still named it");
        assert!(!space.end_read(at(0)));
        space.settle(space.left());
        assert_eq!((space.has_limbo(), space.take(Tier::Mirrors)), (false, None));
        assert!(space.end_read(at(0)));
        assert_eq!(space.take(Tier::Mirrors), Some(at(0)));
    }

    #[test]
    fn maps_that_make_no_sense_are_refused() {
        assert!(Space::new([2, 2], [at(1), at(1)].into_iter()).is_none());
        assert!(Space::new([2, 2], [at(2)].into_iter()).is_none());
        let space = Space::new([4, 2], [at(2), at(0)].into_iter()).expect("it does");
        assert_eq!((space.used(Tier::Mirrors), space.rooms[0].next), (2, 3));
        assert_eq!(space.rooms[0].freed, BTreeSet::from([1]));
    }
}
