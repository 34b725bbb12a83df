//! Tuples of the replicated area: built, accessed, ended (FusionRAID §4.2).

use format::{ClassId, StripeId};
use layout::{DriveIndex, Slot, choose_stripes, choose_stripes_where};
use smallvec::SmallVec;

use super::{Draw, Kind, Space};
use crate::geometry::Class;
use crate::limits::{STRIPE_CANDIDATES, TUPLE_ATTEMPTS, TUPLE_CANDIDATES};
use crate::tuple::{Tuple, TupleKey};

impl Space {
    /// Builds a tuple from free stripes (FusionRAID §4.2: random choices, fewest common
    /// drives, cycling around those), rather of stripes without slow drives (§4.3), or else with a
    /// slot without, nor lost ones; if `quick`, not otherwise. `None`: not enough of those are
    /// free.
    pub fn build_tuple(
        &mut self,
        id: ClassId,
        draw: Draw,
        is_slow: &dyn Fn(DriveIndex) -> bool,
        quick: bool,
    ) -> Option<TupleKey> {
        (0..TUPLE_ATTEMPTS).find_map(|_| self.try_tuple(id, draw, is_slow, quick))
    }

    fn try_tuple(
        &mut self,
        id: ClassId,
        draw: Draw,
        is_slow: &dyn Fn(DriveIndex) -> bool,
        quick: bool,
    ) -> Option<TupleKey> {
        let class = self.class(id).clone();
        let (copies, data) = (class.copies(), class.data());
        let wanted = TUPLE_CANDIDATES[class.parity() - 1];
        let (drawn, without) = self.draw_stripes(id, wanted, draw, is_slow);
        let drives: Vec<Vec<DriveIndex>> = drawn.iter().map(|&s| class.drives(s)).collect();
        let has_quick_slot = |stripes: &[&[DriveIndex]], slots: &[Slot]| {
            let position = |slot: usize, copy: usize| match copy {
                0 => slot,
                _ => usize::from(slots[slot][copy]),
            };
            let at = |slot, copy| stripes[copy][position(slot, copy)];
            let is_good = |drive| !is_slow(drive) && !self.is_avoided(drive);
            (0..slots.len()).any(|slot| (0..copies).all(|copy| is_good(at(slot, copy))))
        };
        // Rather with drives in common than with a slow one.
        let chosen = choose_stripes_where(&drives[..without], copies, data, has_quick_slot)
            .or_else(|| choose_stripes_where(&drives, copies, data, has_quick_slot))
            .or_else(|| if quick { None } else { choose_stripes(&drives, copies, data) });
        let Some(chosen) = chosen else {
            drawn.into_iter().for_each(|stripe| self.give_back(stripe));
            return None;
        };
        let stripes: SmallVec<[StripeId; 3]> = chosen.iter().map(|&at| drawn[at]).collect();
        let spare = (0..drawn.len()).filter(|at| !chosen.contains(at));
        spare.for_each(|at| self.give_back(drawn[at]));
        let slots = self.match_slots(&class, &stripes);
        self.tuple_insert(stripes.clone(), slots);
        Some(stripes[0])
    }

    /// `wanted` free stripes, as many of them without slow drives as a bounded search finds: so
    /// many, and they come first.
    fn draw_stripes(
        &mut self,
        id: ClassId,
        wanted: usize,
        draw: Draw,
        is_slow: &dyn Fn(DriveIndex) -> bool,
    ) -> (SmallVec<[StripeId; 6]>, usize) {
        let class = self.class(id).clone();
        let (mut quick, mut slow) = (SmallVec::new(), SmallVec::<[StripeId; 6]>::new());
        while quick.len() < wanted && quick.len() + slow.len() < wanted + STRIPE_CANDIDATES {
            let newest = slow.len() % 2 == 1;
            let Some(stripe) = self.take_free(id, newest, draw) else { break };
            let is_slow = (0..class.width()).any(|at| is_slow(class.drive(stripe, at)));
            if is_slow { slow.push(stripe) } else { quick.push(stripe) }
        }
        let without = quick.len();
        while quick.len() < wanted && !slow.is_empty() {
            quick.push(slow.remove(0));
        }
        slow.into_iter().for_each(|stripe| self.give_back(stripe));
        (quick, without)
    }

    fn match_slots(&self, class: &Class, stripes: &[StripeId]) -> Box<[[u8; 2]]> {
        let data = |&stripe: &StripeId| -> Vec<DriveIndex> {
            (0..class.data()).map(|at| class.drive(stripe, at)).collect()
        };
        let drives: Vec<Vec<DriveIndex>> = stripes.iter().map(data).collect();
        let views: Vec<&[DriveIndex]> = drives.iter().map(Vec::as_slice).collect();
        let matched = layout::match_slots(&views).expect("choose_stripes checks for a matching");
        let third = |slot: &Slot| if stripes.len() == 3 { slot[2] } else { 0 };
        matched.iter().map(|slot| [slot[1], third(slot)]).collect()
    }

    fn tuple_insert(&mut self, stripes: SmallVec<[StripeId; 3]>, slots: Box<[[u8; 2]]>) {
        for &stripe in &stripes {
            self.set_kind(stripe, Kind::Tuple);
        }
        self.zone_mut(stripes[0].zone);
        self.ticks += 1;
        let tuple = Tuple::new(stripes, slots, self.ticks);
        self.lru.insert((self.ticks, tuple.key()));
        self.tuples.insert(tuple);
    }

    pub fn tuple(&self, key: TupleKey) -> Option<&Tuple> {
        self.tuples.get(&key)
    }

    pub fn tuple_mut(&mut self, key: TupleKey) -> Option<&mut Tuple> {
        self.dirty_zones.insert(key.zone);
        self.tuples.get_mut(&key)
    }

    pub fn tuple_count(&self) -> usize {
        self.tuples.len()
    }

    pub fn touch(&mut self, key: TupleKey) {
        self.ticks += 1;
        if let Some(tuple) = self.tuples.get_mut(&key) {
            tuple.last_access = self.ticks;
        }
    }

    /// The least recently accessed tuple that is quiet and not busy; it becomes busy. Entries
    /// that turn out to be older than the tuple's last access are put where they belong, so
    /// an access costs nothing and the order is exact when it matters.
    pub fn lru_next(&mut self) -> Option<TupleKey> {
        let mut held: SmallVec<[(u64, TupleKey); 16]> = SmallVec::new();
        let mut found = None;
        while let Some((tick, key)) = self.lru.pop_first() {
            let Some(tuple) = self.tuples.get_mut(&key) else { continue };
            if tuple.last_access > tick {
                tuple.listed = tuple.last_access;
                self.lru.insert((tuple.listed, key));
                continue;
            }
            held.push((tick, key));
            if tuple.is_quiet() && !tuple.busy {
                tuple.busy = true;
                found = Some(key);
                break;
            }
        }
        self.lru.extend(held);
        found
    }

    pub fn tuple_release_busy(&mut self, key: TupleKey, sequence: u64, generation: u64) {
        if let Some(tuple) = self.tuples.get_mut(&key) {
            tuple.busy = false;
            self.tuple_check_dead(key, sequence, generation);
        }
    }

    /// One write to the tuple completed.
    pub fn tuple_write_done(&mut self, key: TupleKey, sequence: u64, generation: u64) {
        let tuple = self.tuples.get_mut(&key).expect("a tuple with writes in flight stays");
        tuple.inflight -= 1;
        // What a drive that is lost now and comes back later may have missed of it is told by this.
        self.dirty_zones.insert(key.zone);
        self.tuple_check_dead(key, sequence, generation);
    }

    pub fn tuple_check_dead(&mut self, key: TupleKey, sequence: u64, generation: u64) {
        let Some(tuple) = self.tuples.get(&key) else { return };
        if !tuple.is_quiet() || tuple.busy || self.live(key) > 0 {
            return;
        }
        let tuple = self.tuple_forget(key);
        for stripe in tuple.stripes {
            self.bury(stripe, sequence, generation);
        }
    }

    fn tuple_forget(&mut self, key: TupleKey) -> Tuple {
        self.dirty_zones.insert(key.zone);
        let tuple = self.tuples.remove(&key).expect("forgotten once");
        self.lru.remove(&(tuple.listed, key));
        tuple
    }

    /// Parity of stripe 0 is in place: it is a RAID stripe now, the others are dead.
    pub fn tuple_converted(&mut self, key: TupleKey, sequence: u64, generation: u64) {
        let tuple = self.tuple_forget(key);
        self.set_kind(key, Kind::Raid);
        for &stripe in &tuple.stripes[1..] {
            self.bury(stripe, sequence, generation);
        }
        if self.live(key) == 0 {
            self.bury(key, sequence, generation);
        }
    }
}
