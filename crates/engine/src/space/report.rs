//! What space is used for, which stripes are worth emptying, and its image in a checkpoint.

use format::{ClassId, StripeId};

use std::rc::Rc;

use super::{Counters, Kind, Space};
use crate::geometry::Class;
use crate::limits::{RAID_LOOKS_MAX, RAID_ZONES_MAX};
use crate::tuple::{Tuple, TupleKey};

impl Space {
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

    /// RAID stripes of a class with fewer than `below` live sectors, fewest first, at most
    /// `count`.
    pub fn emptiest(&self, id: ClassId, below: u32, count: usize) -> Vec<StripeId> {
        let mut found: Vec<(u32, StripeId)> = Vec::new();
        for (number, zone) in self.zones.iter().enumerate() {
            let Some(zone) = zone.as_ref().filter(|zone| zone.class.id == id) else { continue };
            for (index, _) in zone.kinds.iter().enumerate().filter(|(_, k)| **k == Kind::Raid) {
                let live = zone.live.get(index as u32);
                if live < below {
                    let stripe = StripeId { zone: number as u32, index: index as u32 };
                    found.push((live, stripe));
                }
            }
        }
        if found.len() > count {
            found.select_nth_unstable(count);
            found.truncate(count);
        }
        found.sort_unstable();
        found.into_iter().map(|(_, stripe)| stripe).collect()
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
        let mut keys: Vec<TupleKey> = self.tuples.keys().copied().collect();
        keys.sort();
        keys
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
        let tuples: u64 = self.tuples.values().map(Tuple::memory).sum();
        (zones, tuples)
    }

    pub fn export_zone(&self, zone: u32) -> format::ZoneObject {
        let class = self.class_of_zone(zone).map(|class| class.id);
        let mut tuples: Vec<&Tuple> =
            self.tuples.values().filter(|tuple| tuple.key().zone == zone).collect();
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
