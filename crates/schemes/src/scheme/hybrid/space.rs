//! The places of the two tiers.

use std::ops::Range;

use super::place::{Place, TIERS, Tier};
use crate::places::Places;

#[derive(Clone, Debug)]
pub struct Space {
    tiers: [Places; 2],
}

impl Space {
    /// `None`: a stripe lies where there is no place, or two lie in one.
    pub fn new(totals: [u32; 2], used: impl Iterator<Item = Place> + Clone) -> Option<Space> {
        let of = |tier: Tier| {
            let own = used.clone().filter(move |place| place.tier == tier);
            Places::new(totals[tier as usize], own.map(|place| place.number))
        };
        Some(Space { tiers: [of(Tier::Mirrors)?, of(Tier::Parity)?] })
    }

    pub fn take(&mut self, tier: Tier) -> Option<Place> {
        let number = self.tiers[tier as usize].take()?;
        Some(Place { tier, number })
    }

    pub fn give_back(&mut self, place: Place) {
        self.tiers[place.tier as usize].give_back(place.number);
    }

    pub fn leave(&mut self, place: Place) {
        self.tiers[place.tier as usize].leave(place.number);
    }

    pub fn left(&self) -> [u64; 2] {
        [self.tiers[0].left(), self.tiers[1].left()]
    }

    pub fn settle(&mut self, left: [u64; 2]) {
        self.tiers.iter_mut().zip(left).for_each(|(tier, left)| tier.settle(left));
    }

    pub fn begin_read(&mut self, place: Place) {
        self.tiers[place.tier as usize].begin_read(place.number);
    }

    pub fn end_read(&mut self, place: Place) -> bool {
        self.tiers[place.tier as usize].end_read(place.number)
    }

    /// What of a range of a tier's array lies in free places, the first of which begins at a byte.
    pub fn free_within(&self, tier: Tier, range: &Range<u64>, at: (u64, u64)) -> Vec<Range<u64>> {
        self.tiers[tier as usize].free_within(range, at)
    }

    pub fn total(&self, tier: Tier) -> u32 {
        self.tiers[tier as usize].total()
    }

    pub fn used(&self, tier: Tier) -> u32 {
        self.tiers[tier as usize].used()
    }

    pub fn has_room(&self, tier: Tier) -> bool {
        self.tiers[tier as usize].has_room()
    }

    pub fn has_limbo(&self) -> bool {
        self.tiers.iter().any(|tier| tier.in_limbo() > 0)
    }

    /// What contradicts itself, given the places that stripes have. For tests.
    pub fn audit(&self, mapped: impl Iterator<Item = Place> + Clone) -> Vec<String> {
        let of = |tier: Tier| {
            let own = mapped.clone().filter(move |place| place.tier == tier);
            let wrong = self.tiers[tier as usize].audit(own.map(|place| place.number));
            wrong.into_iter().map(move |what| format!("{tier:?}: {what}"))
        };
        TIERS.into_iter().flat_map(of).collect()
    }
}
