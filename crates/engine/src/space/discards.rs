//! Free stripes that drives are being told of: nobody is given one meanwhile.

use format::StripeId;

use super::{Kind, Space};

/// A walk over every free stripe, zone after zone, each from the end of its list. What is taken
/// off a list and comes back stands at its end, where the walk has been already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    zone: u32,
    /// Entries of the zone's list that are still to come; `None` before the first.
    left: Option<usize>,
}

impl Space {
    /// The same as [`Space::discard_begin`] for the next stripe of a walk. `None` at its end.
    pub fn discard_next(&mut self, walk: &mut Walk) -> Option<StripeId> {
        while let Some(zone) = self.zones.get(walk.zone as usize) {
            let listed = zone.as_ref().map_or(0, |zone| zone.free.len());
            match walk.left.unwrap_or(listed).min(listed) {
                0 => *walk = Walk { zone: walk.zone + 1, left: None },
                left => {
                    walk.left = Some(left - 1);
                    return Some(self.discard_listed(walk.zone, left - 1));
                }
            }
        }
        None
    }

    /// Takes a stripe off the free list for as long as its drives are told that it holds nothing.
    /// False if it is not free (any more).
    pub fn discard_begin(&mut self, stripe: StripeId) -> bool {
        let Some(zone) = &self.zones[stripe.zone as usize] else { return false };
        if zone.kinds.get(stripe.index as usize) != Some(&Kind::Free) {
            return false;
        }
        // What was freed last stands at the end.
        let listed = zone.free.iter().rposition(|&index| index == stripe.index);
        self.discard_listed(stripe.zone, listed.expect("free stripes are listed"));
        true
    }

    fn discard_listed(&mut self, number: u32, at: usize) -> StripeId {
        let zone = self.zones[number as usize].as_mut().expect("assigned");
        let stripe = StripeId { zone: number, index: zone.free.swap_remove(at) };
        if !zone.draining {
            let space = &mut self.classes[usize::from(zone.class.id.0)];
            space.free -= 1;
            if zone.free.is_empty() {
                space.zones_with_free.retain(|&other| other != number);
            }
        }
        self.set_kind(stripe, Kind::Discarding);
        stripe
    }

    pub fn discard_end(&mut self, stripe: StripeId) {
        assert_eq!(self.kind(stripe), Kind::Discarding);
        self.set_kind(stripe, Kind::Free);
        self.give_back(stripe);
    }
}
