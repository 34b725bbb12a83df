//! Space after a restart: what the journal says about tuples, then what the map says is live.

use format::{Flbn, StripeId};
use smallvec::SmallVec;

use super::{Kind, Space};
use crate::tuple::{Tuple, TupleKey};

impl Space {
    /// A stripe found in use while replaying; keeps it off the free list.
    fn claim(&mut self, stripe: StripeId, kind: Kind) {
        let zone = self.zones[stripe.zone as usize].as_mut().expect("mapped blocks lie in zones");
        if zone.kinds[stripe.index as usize] == Kind::Free {
            // Free lists are rebuilt once after replay (`rebuild_free`).
            zone.kinds[stripe.index as usize] = kind;
        }
    }

    pub fn replay_tuple(&mut self, stripes: &[StripeId], slots: &[[u8; 2]], filled: &[u16]) {
        for key in stripes {
            if self.tuples.remove(key).is_some() {
                self.dirty_zones.insert(key.zone);
            }
        }
        let mut tuple = Tuple::new(SmallVec::from_slice(stripes), slots.into(), 0);
        tuple.unhanded = 0;
        self.dirty_zones.insert(tuple.key().zone);
        let count = filled.len().min(tuple.filled.len());
        tuple.filled[..count].copy_from_slice(&filled[..count]);
        self.tuples.insert(tuple);
    }

    /// Something in it was written since the checkpoint.
    pub fn replay_written(&mut self, zone: u32) {
        self.dirty_zones.insert(zone);
    }

    pub fn replay_convert(&mut self, key: TupleKey) {
        self.dirty_zones.insert(key.zone);
        self.tuples.remove(&key);
    }

    /// After replay: counts live sectors from `pieces`, decides what every stripe is, and
    /// builds the free lists. Tuples with nothing live are forgotten.
    pub fn rebuild(&mut self, live: impl Iterator<Item = (Flbn, u16)>) {
        for (flbn, sectors) in live {
            let (stripe, _) = self.change_live(flbn, i32::from(sectors));
            self.claim(stripe, Kind::Raid);
        }
        for key in self.tuples.keys() {
            if self.live(key) == 0 {
                self.tuples.remove(&key);
                self.dirty_zones.insert(key.zone);
                continue;
            }
            let stripes = self.tuples[&key].stripes.clone();
            for stripe in stripes {
                let zone = self.zones[stripe.zone as usize].as_mut();
                let zone = zone.expect("tuples lie in assigned zones");
                zone.kinds[stripe.index as usize] = Kind::Tuple;
            }
            self.ticks += 1;
            self.lru.insert((self.ticks, key));
            let tuple = self.tuples.get_mut(&key).expect("just seen");
            (tuple.last_access, tuple.listed) = (self.ticks, self.ticks);
        }
        self.rebuild_substitutes();
        self.rebuild_free();
    }

    fn rebuild_free(&mut self) {
        (self.replicated_blocks, self.raid_blocks, self.limbo_blocks) = (0, 0, 0);
        for space in &mut self.classes {
            space.zones_with_free.clear();
            space.free = 0;
        }
        for (number, zone) in self.zones.iter_mut().enumerate() {
            let Some(zone) = zone else { continue };
            let width = zone.class.width() as u64;
            let count = |kind| zone.kinds.iter().filter(|&&k| k == kind).count() as u64;
            self.replicated_blocks += count(Kind::Tuple) * width;
            self.raid_blocks += (count(Kind::Raid) + count(Kind::Spare)) * width;
            let free = |&index: &u32| zone.kinds[index as usize] == Kind::Free;
            zone.free = (0..zone.kinds.len() as u32).filter(free).collect();
            let space = &mut self.classes[usize::from(zone.class.id.0)];
            space.free += zone.free.len() as u64;
            if !zone.free.is_empty() {
                space.zones_with_free.push(number as u32);
            }
        }
    }
}
