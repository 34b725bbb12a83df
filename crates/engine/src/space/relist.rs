//! Zones that could lie on more drives than they do, because drives joined since they were given
//! out.

use format::ClassId;

use super::{Space, Zone};
use crate::limits::RESERVE_STRIPES;

impl Space {
    pub(super) fn is_newest(&self, zone: u32) -> bool {
        let lists = &self.geometry.lists;
        lists.of(zone) == lists.newest(zone)
    }

    pub fn outdated(&self) -> impl Iterator<Item = u32> {
        let given = (0u32..).zip(&self.zones).filter(|(_, zone)| zone.is_some());
        given.map(|(number, _)| number).filter(|&number| !self.is_newest(number))
    }

    /// The outdated zone with the least in it, if its class has room for that elsewhere.
    pub fn zone_to_relist(&self) -> Option<u32> {
        let live = |number: u32| -> (u64, &Zone) {
            let zone = self.zone(number);
            let live = (0..zone.kinds.len() as u32).map(|index| u64::from(zone.live.get(index)));
            (live.sum(), zone)
        };
        let fits = |&(live, zone, number): &(u64, &Zone, u32)| {
            let stripe = zone.class.data() as u64 * u64::from(self.geometry.block_sectors());
            let elsewhere = self.free_stripes(zone.class.id).saturating_sub(zone.free.len() as u64);
            // What moves is packed, but seldom without a gap.
            let moves = live.div_ceil(stripe) + self.guest_blocks(number);
            elsewhere > moves + moves / 8 + RESERVE_STRIPES
        };
        let zones = self.outdated().map(|number| {
            let (live, zone) = live(number);
            (live, zone, number)
        });
        zones.filter(fits).min_by_key(|&(live, _, number)| (live, number)).map(|(.., zone)| zone)
    }

    /// Whether a class has a free stripe in a zone that lies on all drives it can.
    pub fn has_newest_with_free(&self, id: ClassId) -> bool {
        let zones = &self.classes[usize::from(id.0)].zones_with_free;
        zones.iter().any(|&zone| self.is_newest(zone))
    }
}
