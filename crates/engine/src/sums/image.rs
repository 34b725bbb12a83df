//! Sums as checkpoint objects: out, and in again.

use std::collections::BTreeSet;

use format::SumsObject;

use super::Sums;
use crate::geometry::Class;

impl Sums {
    pub fn take_dirty(&mut self) -> Parts {
        std::mem::take(&mut self.dirty)
    }

    pub fn is_dirty(&self, zone: u32, part: u32) -> bool {
        self.dirty.contains(&(zone, part))
    }

    /// A part as it is now; nothing is known of one that is not there.
    pub fn export(&self, zone: u32, part: u32) -> SumsObject {
        let zone = self.zones.get(zone as usize).and_then(Option::as_ref);
        let part = zone.and_then(|zone| zone.parts.get(part as usize)?.as_ref());
        let sums = part.map_or_else(Vec::new, |part| {
            let used = part.iter().rposition(|sum| *sum != 0).map_or(0, |last| last + 1);
            part[..used].to_vec()
        });
        SumsObject { sums }
    }

    /// Takes over a part that was loaded. What the zone of this class has no room for is of another
    /// class, and of no interest.
    pub fn import(&mut self, class: &Class, zone: u32, part: u32, object: SumsObject) {
        if !self.enabled || object.sums.is_empty() || zone as usize >= self.zones.len() {
            return;
        }
        self.fit_zone(class, zone);
        let found = self.zones[zone as usize].as_mut().expect("just fitted");
        let Some(place) = found.parts.get_mut(part as usize) else { return };
        let mut sums = object.sums;
        sums.resize(format::SUMS_ENTRIES, 0);
        self.parts += u64::from(place.is_none());
        *place = Some(sums.into());
    }

    /// Every part there is.
    #[cfg(test)]
    pub fn parts(&self) -> Vec<(u32, u32)> {
        let zones = self.zones.iter().enumerate();
        let zones = zones.filter_map(|(number, zone)| Some((number as u32, zone.as_ref()?)));
        let parts = zones.flat_map(|(number, zone)| {
            let parts = zone.parts.iter().enumerate().filter(|(_, part)| part.is_some());
            parts.map(move |(part, _)| (number, part as u32))
        });
        parts.collect()
    }
}

/// Zone and part of each.
pub type Parts = BTreeSet<(u32, u32)>;
