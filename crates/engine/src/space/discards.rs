//! Free stripes that drives are being told of: nobody is given one meanwhile.

use format::StripeId;

use super::{Kind, Space};

impl Space {
    /// Takes a stripe off the free list for as long as its drives are told that it holds nothing.
    /// False if it is not free (any more).
    pub fn discard_begin(&mut self, stripe: StripeId) -> bool {
        let Some(zone) = &mut self.zones[stripe.zone as usize] else { return false };
        if zone.kinds.get(stripe.index as usize) != Some(&Kind::Free) {
            return false;
        }
        let listed = zone.free.iter().position(|&index| index == stripe.index);
        let at = listed.expect("free stripes are listed");
        zone.free.swap_remove(at);
        if !zone.draining {
            let space = &mut self.classes[usize::from(zone.class.id.0)];
            space.free -= 1;
            if zone.free.is_empty() {
                space.zones_with_free.retain(|&other| other != stripe.zone);
            }
        }
        self.set_kind(stripe, Kind::Discarding);
        true
    }

    pub fn discard_end(&mut self, stripe: StripeId) {
        assert_eq!(self.kind(stripe), Kind::Discarding);
        self.set_kind(stripe, Kind::Free);
        self.give_back(stripe);
    }
}
