//! What space is used for, which stripes are worth emptying, and its image in a checkpoint.

use format::{ClassId, StripeId};

use std::ops::Range;
use std::rc::Rc;

use super::{Counters, Kind, Space};
use crate::geometry::Class;
use crate::limits::{RAID_LOOKS_MAX, RAID_ZONES_MAX};
use crate::tuple::{Tuple, TupleKey};

impl Space {
    /// Of its classes; `None` before it has one.
    pub fn least_parity(&self) -> Option<usize> {
        self.classes().map(|class| class.parity()).min()
    }

    /// (replicated, raid, limbo, all) blocks on drives.
    pub fn blocks(&self) -> (u64, u64, u64, u64) {
        // Zones that are too narrow for every class are nobody's.
        let narrowest = self.classes().map(|class| class.width()).min().unwrap_or(0);
        let total = self.geometry.blocks(narrowest);
        (self.replicated_blocks, self.raid_blocks, self.limbo_blocks, total)
    }

    /// Sectors of drive space that the live data needs as RAID stripes, and without parity.
    pub fn live_footprint(&self) -> (u64, u64) {
        let mut physical = 0;
        let mut logical = 0;
        for space in &self.classes {
            let Some(class) = &space.class else { continue };
            logical += space.live_sectors;
            physical += space.live_sectors * class.width() as u64 / class.data() as u64;
        }
        (physical, logical)
    }

    /// Adds the RAID stripes among these of a zone that have fewer than `below` live sectors, if
    /// the zone is of the class. Says whether stripes of it come after these.
    pub fn find_below(
        &self,
        id: ClassId,
        zone: u32,
        looks: Range<u32>,
        below: u32,
        found: &mut Vec<(u32, StripeId)>,
    ) -> bool {
        let of_class = self.zones[zone as usize].as_ref().filter(|zone| zone.class.id == id);
        let Some(of_class) = of_class else { return false };
        let all = of_class.kinds.len() as u32;
        for index in looks.start..looks.end.min(all) {
            let live = of_class.live.get(index);
            if of_class.kinds[index as usize] == Kind::Raid && live < below {
                found.push((live, StripeId { zone, index }));
            }
        }
        looks.end < all
    }

    /// Stripes of a zone that are not free, with what they are, and the zone's class.
    pub fn held_in(
        &self,
        zone: u32,
    ) -> Option<(&Rc<Class>, impl Iterator<Item = (StripeId, Kind)> + '_)> {
        let found = self.zones[zone as usize].as_ref()?;
        let stripe = move |(index, &kind): (usize, &Kind)| {
            let index = index as u32;
            (!kind.is_free()).then_some((StripeId { zone, index }, kind))
        };
        Some((&found.class, found.kinds.iter().enumerate().filter_map(stripe)))
    }

    /// All tuples, in order.
    pub fn tuple_keys(&self) -> Vec<TupleKey> {
        self.tuples.keys()
    }

    /// A RAID stripe of a class near to where `draw` falls, if there is one.
    pub fn any_raid_stripe(&self, id: ClassId, draw: u64) -> Option<StripeId> {
        let zones = self.zones.len() as u64;
        let at = |step: u64| ((draw % zones + step) % zones) as u32;
        let of_class = |number: u32| {
            let zone = self.zones[number as usize].as_ref().filter(|zone| zone.class.id == id)?;
            Some((number, zone))
        };
        (0..zones).map(at).filter_map(of_class).take(RAID_ZONES_MAX).find_map(|(number, zone)| {
            let stripes = zone.kinds.len() as u64;
            let looks = stripes.min(RAID_LOOKS_MAX);
            let mut indexes = (0..looks).map(|step| ((draw / zones + step) % stripes) as u32);
            let index = indexes.find(|&index| zone.kinds[index as usize] == Kind::Raid)?;
            Some(StripeId { zone: number, index })
        })
    }

    pub fn memory(&self) -> (u64, u64) {
        let zones: u64 = self
            .zones
            .iter()
            .flatten()
            .map(|zone| {
                let counter = if matches!(zone.live, Counters::Narrow(_)) { 2 } else { 4 };
                (zone.kinds.len() * (1 + counter) + zone.free.capacity() * 4) as u64
            })
            .sum();
        (zones, self.tuples.bytes())
    }

    pub fn export_zone(&self, zone: u32) -> format::ZoneObject {
        let class = self.class_of_zone(zone).map(|class| class.id);
        let mut tuples: Vec<&Tuple> = self.tuples.of_zone(zone).collect();
        tuples.sort_by_key(|tuple| tuple.key());
        let image = |tuple: &Tuple| format::TupleImage {
            stripes: tuple.stripes.to_vec(),
            slots: tuple.slots.to_vec(),
            filled: tuple.filled.to_vec(),
        };
        let (round, substitutes) = (self.round_of_zone(zone), self.export_substitutes(zone));
        let tuples = tuples.into_iter().map(image).collect();
        format::ZoneObject { class, round, tuples, substitutes }
    }
}
