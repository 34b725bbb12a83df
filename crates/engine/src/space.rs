//! Physical space: zones, the state of every stripe, what is live in it, which are free.
//!
//! ```text
//!            take                    first map entry            last live sector gone
//!   Free ──────────> Writing ─────────────────────────> Raid ─────────────────┐
//!    ^ │                                                  ^                    v
//!    │ └───────────> Tuple (stripes of one tuple) ────────┘ conversion       Limbo
//!    │                  └──────────────────────────────────────────────────>  │
//!    └────────────────────────────────────────────────────────────────────────┘
//!        the record that killed it is durable and no read that saw it is left
//! ```
//!
//! Pure state. Live sectors are counted per stripe (for tuples: on stripe 0), three bytes a
//! stripe; who owns them is found by scanning the map when that matters (`compact`).

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use format::{ClassId, Flbn, StripeId};
use layout::{DriveIndex, choose_stripes};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::geometry::{Class, PoolGeometry};
use crate::limits::{CLASSES_MAX, TUPLE_CANDIDATES};
use crate::tuple::{Tuple, TupleKey};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Free,
    Writing,
    Raid,
    Tuple,
    Limbo,
}

/// Live sectors of each stripe of a zone: two bytes where that is enough.
enum Counters {
    Narrow(Box<[u16]>),
    Wide(Box<[u32]>),
}

impl Counters {
    fn new(stripes: usize, largest: u64) -> Counters {
        if largest <= u64::from(u16::MAX) {
            Counters::Narrow(vec![0; stripes].into())
        } else {
            Counters::Wide(vec![0; stripes].into())
        }
    }

    fn get(&self, index: u32) -> u32 {
        match self {
            Counters::Narrow(counts) => u32::from(counts[index as usize]),
            Counters::Wide(counts) => counts[index as usize],
        }
    }

    fn set(&mut self, index: u32, value: u32) {
        match self {
            Counters::Narrow(counts) => counts[index as usize] = value as u16,
            Counters::Wide(counts) => counts[index as usize] = value,
        }
    }
}

struct Zone {
    class: Rc<Class>,
    kinds: Box<[Kind]>,
    live: Counters,
    free: Vec<u32>,
    /// Being emptied for another class: nothing new is put there.
    draining: bool,
}

/// Free space of one class.
#[derive(Default)]
struct ClassSpace {
    class: Option<Rc<Class>>,
    /// Zones of the class that have a free stripe, in no order.
    zones_with_free: Vec<u32>,
    free: u64,
    live_sectors: u64,
}

/// A stripe (or tuple) that holds nothing live any more, waiting to be reusable.
#[derive(Clone, Copy, Debug)]
struct Dead {
    stripe: StripeId,
    /// Journal block that must be durable with its data.
    sequence: u64,
    /// Read generation that must be over.
    generation: u64,
}

/// Draws a number below its argument.
pub type Draw<'a> = &'a mut dyn FnMut(usize) -> usize;

pub struct Space {
    pub geometry: PoolGeometry,
    classes: Vec<ClassSpace>,
    zones: Vec<Option<Zone>>,
    /// Zones of no class, largest first (the lowest is taken first).
    unassigned: Vec<u32>,
    limbo: VecDeque<Dead>,
    tuples: FxHashMap<TupleKey, Tuple>,
    /// Tuples by access tick; a tuple's entry may be older than its tick (see `lru_next`).
    lru: BTreeSet<(u64, TupleKey)>,
    ticks: u64,
    /// Blocks on drives by what they hold, for `status`.
    replicated_blocks: u64,
    raid_blocks: u64,
    limbo_blocks: u64,
    dirty_zones: BTreeSet<u32>,
    avoid: Vec<bool>,
}

impl Space {
    pub fn new(geometry: PoolGeometry) -> Space {
        let zones = geometry.zone_count;
        let avoid = vec![false; geometry.drives];
        Space {
            geometry,
            classes: (0..CLASSES_MAX).map(|_| ClassSpace::default()).collect(),
            zones: (0..zones).map(|_| None).collect(),
            unassigned: (0..zones).rev().collect(),
            limbo: VecDeque::new(),
            tuples: FxHashMap::default(),
            lru: BTreeSet::new(),
            ticks: 0,
            replicated_blocks: 0,
            raid_blocks: 0,
            limbo_blocks: 0,
            dirty_zones: BTreeSet::new(),
            avoid,
        }
    }

    // ---- classes and zones

    pub fn class_add(&mut self, class: Rc<Class>) {
        let slot = &mut self.classes[usize::from(class.id.0)];
        slot.class = Some(class);
    }

    pub fn class(&self, id: ClassId) -> &Rc<Class> {
        self.classes[usize::from(id.0)].class.as_ref().expect("volumes name classes that exist")
    }

    pub fn classes(&self) -> impl Iterator<Item = &Rc<Class>> {
        self.classes.iter().filter_map(|space| space.class.as_ref())
    }

    pub fn class_of_zone(&self, zone: u32) -> Option<&Rc<Class>> {
        self.zones.get(zone as usize)?.as_ref().map(|zone| &zone.class)
    }

    /// Gives a zone to a class. On replay it may have been given already.
    pub fn zone_assign(&mut self, zone: u32, id: ClassId) {
        if self.class_of_zone(zone).is_some_and(|class| class.id == id) {
            return;
        }
        let class = self.class(id).clone();
        let stripes = class.stripes_per_zone as usize;
        let largest = class.data() as u64 * u64::from(self.geometry.block_sectors());
        self.unassigned.retain(|&other| other != zone);
        self.zones[zone as usize] = Some(Zone {
            kinds: vec![Kind::Free; stripes].into(),
            live: Counters::new(stripes, largest),
            free: (0..stripes as u32).collect(),
            draining: false,
            class,
        });
        let space = &mut self.classes[usize::from(id.0)];
        space.zones_with_free.push(zone);
        space.free += stripes as u64;
        self.dirty_zones.insert(zone);
    }

    /// The lowest unassigned zone, which the caller then assigns (and journals).
    pub fn zone_next(&self) -> Option<u32> {
        self.unassigned.last().copied()
    }

    /// A zone that holds nothing and could serve another class.
    pub fn zone_idle(&self, not: ClassId) -> Option<u32> {
        let idle = |zone: &Option<Zone>| {
            zone.as_ref().is_some_and(|zone| {
                zone.class.id != not && zone.free.len() == zone.kinds.len()
            })
        };
        self.zones.iter().position(idle).map(|zone| zone as u32)
    }

    pub fn zone_release(&mut self, zone: u32) {
        let Some(found) = self.zones[zone as usize].take() else { return };
        assert_eq!(found.free.len(), found.kinds.len(), "only an empty zone is given back");
        if !found.draining {
            let space = &mut self.classes[usize::from(found.class.id.0)];
            space.zones_with_free.retain(|&other| other != zone);
            space.free -= found.free.len() as u64;
        }
        self.unassigned.push(zone);
        self.dirty_zones.insert(zone);
    }

    /// The zone of another class that is easiest to empty, if that class can spare it: it must
    /// have room for what moves.
    pub fn zone_to_drain(&self, not: ClassId) -> Option<u32> {
        let spare = |zone: &Zone| {
            let used = (zone.kinds.len() - zone.free.len()) as u64;
            let elsewhere =
                self.classes[usize::from(zone.class.id.0)].free - zone.free.len() as u64;
            zone.class.id != not && elsewhere > used / 2 + 1
        };
        let candidates = self.zones.iter().enumerate().filter_map(|(number, zone)| {
            let zone = zone.as_ref().filter(|zone| spare(zone))?;
            Some((zone.kinds.len() - zone.free.len(), number as u32))
        });
        candidates.min().map(|(_, zone)| zone)
    }

    /// A zone whose emptying has begun.
    pub fn zone_draining(&self) -> Option<u32> {
        let draining = |zone: &Option<Zone>| zone.as_ref().is_some_and(|zone| zone.draining);
        self.zones.iter().position(draining).map(|zone| zone as u32)
    }

    pub fn zone_drain(&mut self, zone: u32) {
        let found = self.zones[zone as usize].as_mut().expect("assigned");
        if std::mem::replace(&mut found.draining, true) {
            return;
        }
        let space = &mut self.classes[usize::from(found.class.id.0)];
        space.zones_with_free.retain(|&other| other != zone);
        space.free -= found.free.len() as u64;
    }

    pub fn zone_is_empty(&self, zone: u32) -> bool {
        let found = self.zone(zone);
        found.free.len() == found.kinds.len()
    }

    /// What still lies in a zone: RAID stripes, and tuples with a stripe in it (made busy).
    pub fn zone_contents(&mut self, zone: u32) -> (Vec<StripeId>, Vec<TupleKey>) {
        let kinds = self.zone(zone).kinds.iter().enumerate();
        let raid = kinds.filter(|(_, kind)| **kind == Kind::Raid);
        let stripes = raid.map(|(index, _)| StripeId { zone, index: index as u32 }).collect();
        let here = |tuple: &&mut Tuple| {
            tuple.is_quiet() && !tuple.busy && tuple.stripes.iter().any(|s| s.zone == zone)
        };
        let mut tuples: Vec<TupleKey> = Vec::new();
        for tuple in self.tuples.values_mut().filter(here) {
            tuple.busy = true;
            tuples.push(tuple.key());
        }
        tuples.sort();
        (stripes, tuples)
    }

    fn zone(&self, zone: u32) -> &Zone {
        self.zones[zone as usize].as_ref().expect("stripes lie in assigned zones")
    }

    fn zone_mut(&mut self, zone: u32) -> &mut Zone {
        self.dirty_zones.insert(zone);
        self.zones[zone as usize].as_mut().expect("stripes lie in assigned zones")
    }

    pub fn take_dirty_zones(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.dirty_zones).into_iter().collect()
    }

    // ---- stripes

    pub fn kind(&self, stripe: StripeId) -> Kind {
        self.zone(stripe.zone).kinds[stripe.index as usize]
    }

    fn set_kind(&mut self, stripe: StripeId, kind: Kind) {
        let zone = self.zones[stripe.zone as usize].as_mut().expect("assigned");
        let width = zone.class.width() as u64;
        let old = std::mem::replace(&mut zone.kinds[stripe.index as usize], kind);
        *self.blocks_of(old) -= if old == Kind::Free { 0 } else { width };
        *self.blocks_of(kind) += if kind == Kind::Free { 0 } else { width };
    }

    fn blocks_of(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Tuple => &mut self.replicated_blocks,
            Kind::Limbo => &mut self.limbo_blocks,
            Kind::Raid | Kind::Writing | Kind::Free => &mut self.raid_blocks,
        }
    }

    pub fn live(&self, stripe: StripeId) -> u32 {
        self.zone(stripe.zone).live.get(stripe.index)
    }

    /// Stripes that the class could still be given.
    pub fn free_stripes(&self, id: ClassId) -> u64 {
        let per_zone = u64::from(self.class(id).stripes_per_zone);
        self.classes[usize::from(id.0)].free + self.unassigned.len() as u64 * per_zone
    }

    pub fn has_free_in_zones(&self, id: ClassId) -> u64 {
        self.classes[usize::from(id.0)].free
    }

    fn take_free(&mut self, id: ClassId, draw: Draw) -> Option<StripeId> {
        let space = &mut self.classes[usize::from(id.0)];
        if space.zones_with_free.is_empty() {
            return None;
        }
        let at = draw(space.zones_with_free.len());
        let zone = space.zones_with_free[at];
        let found = self.zones[zone as usize].as_mut().expect("listed zones are assigned");
        let index = found.free.swap_remove(draw(found.free.len()));
        space.free -= 1;
        if found.free.is_empty() {
            // A full zone keeps no memory for a list of nothing.
            found.free = Vec::new();
            space.zones_with_free.swap_remove(at);
        }
        Some(StripeId { zone, index })
    }

    fn give_back(&mut self, stripe: StripeId) {
        let zone = self.zones[stripe.zone as usize].as_mut().expect("assigned");
        let space = &mut self.classes[usize::from(zone.class.id.0)];
        if !zone.draining {
            space.free += 1;
            if zone.free.is_empty() {
                space.zones_with_free.push(stripe.zone);
            }
        }
        zone.free.push(stripe.index);
    }

    /// Drives whose blocks are not to be given out (missing or failed).
    pub fn set_avoided(&mut self, drive: DriveIndex, avoided: bool) {
        self.avoid[usize::from(drive.0)] = avoided;
    }

    pub fn is_avoided(&self, drive: DriveIndex) -> bool {
        self.avoid[usize::from(drive.0)]
    }

    fn avoided_in(&self, class: &Class, stripe: StripeId) -> usize {
        (0..class.width()).filter(|&at| self.is_avoided(class.drive(stripe, at))).count()
    }

    /// A free stripe for a full-stripe write; of four drawn, the one with the fewest avoided
    /// drives.
    pub fn take_stripe(&mut self, id: ClassId, draw: Draw) -> Option<StripeId> {
        let class = self.class(id).clone();
        let tries = if self.avoid.contains(&true) { 4 } else { 1 };
        let mut drawn: SmallVec<[StripeId; 4]> = SmallVec::new();
        for _ in 0..tries {
            drawn.extend(self.take_free(id, draw));
        }
        let best = (0..drawn.len()).min_by_key(|&at| self.avoided_in(&class, drawn[at]))?;
        let chosen = drawn.swap_remove(best);
        for other in drawn {
            self.give_back(other);
        }
        self.set_kind(chosen, Kind::Writing);
        Some(chosen)
    }

    /// A stripe whose full-stripe write came to nothing.
    pub fn abandon_stripe(&mut self, stripe: StripeId, sequence: u64, generation: u64) {
        assert_eq!(self.kind(stripe), Kind::Writing);
        self.bury(stripe, sequence, generation);
    }

    /// The stripe is written: it lives as long as something in it does.
    pub fn stripe_written(&mut self, stripe: StripeId, sequence: u64, generation: u64) {
        if self.kind(stripe) != Kind::Writing {
            return;
        }
        self.zone_mut(stripe.zone);
        self.set_kind(stripe, Kind::Raid);
        if self.live(stripe) == 0 {
            self.bury(stripe, sequence, generation);
        }
    }

    // ---- tuples

    /// Builds a tuple from free stripes (FusionRAID §4.2: random choices, fewest common
    /// drives, cycling around those). `None`: not enough free stripes.
    pub fn build_tuple(&mut self, id: ClassId, draw: Draw) -> Option<TupleKey> {
        let class = self.class(id).clone();
        let wanted = TUPLE_CANDIDATES[class.parity() - 1];
        let mut drawn: SmallVec<[StripeId; 6]> = SmallVec::new();
        for _ in 0..wanted {
            drawn.extend(self.take_free(id, draw));
        }
        let drives: Vec<Vec<DriveIndex>> = drawn.iter().map(|&s| class.drives(s)).collect();
        let chosen = choose_stripes(&drives, class.copies(), class.data());
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

    fn match_slots(&self, class: &Class, stripes: &[StripeId]) -> Box<[[u8; 2]]> {
        let data = |&stripe: &StripeId| -> Vec<DriveIndex> {
            (0..class.data()).map(|at| class.drive(stripe, at)).collect()
        };
        let drives: Vec<Vec<DriveIndex>> = stripes.iter().map(data).collect();
        let views: Vec<&[DriveIndex]> = drives.iter().map(Vec::as_slice).collect();
        let matched = layout::match_slots(&views).expect("choose_stripes checks for a matching");
        let third = |slot: &layout::Slot| if stripes.len() == 3 { slot[2] } else { 0 };
        matched.iter().map(|slot| [slot[1], third(slot)]).collect()
    }

    fn tuple_insert(&mut self, stripes: SmallVec<[StripeId; 3]>, slots: Box<[[u8; 2]]>) {
        for &stripe in &stripes {
            self.set_kind(stripe, Kind::Tuple);
        }
        self.zone_mut(stripes[0].zone);
        let tuple = Tuple::new(stripes, slots, self.ticks);
        self.lru.insert((self.ticks, tuple.key()));
        self.tuples.insert(tuple.key(), tuple);
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
                self.lru.insert((tuple.last_access, key));
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
        self.lru.remove(&(tuple.last_access, key));
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

    // ---- life and death

    /// Applies what a map change did to physical blocks.
    pub fn apply(&mut self, deltas: &[(Flbn, i32)], sequence: u64, generation: u64) {
        // Gains first: a stripe that loses and gains in one change must not die between.
        for &(flbn, sectors) in deltas.iter().filter(|delta| delta.1 > 0) {
            self.change_live(flbn, sectors);
        }
        for &(flbn, sectors) in deltas.iter().filter(|delta| delta.1 < 0) {
            let (stripe, left) = self.change_live(flbn, sectors);
            if left == 0 {
                match self.kind(stripe) {
                    Kind::Tuple => self.tuple_check_dead(stripe, sequence, generation),
                    Kind::Raid => self.bury(stripe, sequence, generation),
                    _ => {}
                }
            }
        }
    }

    fn change_live(&mut self, flbn: Flbn, sectors: i32) -> (StripeId, u32) {
        let zone = self.geometry.zone_of(flbn);
        let found = self.zones[zone as usize].as_mut().expect("mapped blocks lie in zones");
        let (stripe, _) = self.geometry.stripe_of(&found.class, flbn);
        let live = i64::from(found.live.get(stripe.index)) + i64::from(sectors);
        assert!(live >= 0, "stripe {stripe:?} lost more than it held");
        found.live.set(stripe.index, live as u32);
        let space = &mut self.classes[usize::from(found.class.id.0)];
        space.live_sectors = space.live_sectors.wrapping_add_signed(i64::from(sectors));
        (stripe, live as u32)
    }

    fn bury(&mut self, stripe: StripeId, sequence: u64, generation: u64) {
        self.set_kind(stripe, Kind::Limbo);
        self.zone_mut(stripe.zone);
        self.limbo.push_back(Dead { stripe, sequence, generation });
    }

    /// Frees what is provably dead. Returns the stripes freed.
    pub fn release_limbo(&mut self, durable: u64, oldest_read: u64) -> Vec<StripeId> {
        let mut freed = Vec::new();
        while let Some(dead) = self.limbo.front() {
            if dead.sequence > durable || dead.generation >= oldest_read {
                break;
            }
            freed.push(dead.stripe);
            self.limbo.pop_front();
        }
        for &stripe in &freed {
            self.set_kind(stripe, Kind::Free);
            self.give_back(stripe);
        }
        freed
    }

    pub fn limbo_len(&self) -> usize {
        self.limbo.len()
    }

    // ---- recovery

    /// A stripe found in use while replaying; keeps it off the free list.
    fn claim(&mut self, stripe: StripeId, kind: Kind) {
        let zone = self.zone_mut(stripe.zone);
        if zone.kinds[stripe.index as usize] == Kind::Free {
            // Free lists are rebuilt once after replay (`rebuild_free`).
            zone.kinds[stripe.index as usize] = kind;
        }
    }

    pub fn replay_tuple(&mut self, stripes: &[StripeId], slots: &[[u8; 2]], filled: &[u16]) {
        for key in stripes {
            self.tuples.remove(key);
        }
        let mut tuple = Tuple::new(SmallVec::from_slice(stripes), slots.into(), 0);
        tuple.unhanded = 0;
        let count = filled.len().min(tuple.filled.len());
        tuple.filled[..count].copy_from_slice(&filled[..count]);
        self.tuples.insert(tuple.key(), tuple);
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
        let mut keys: Vec<TupleKey> = self.tuples.keys().copied().collect();
        keys.sort();
        for key in keys {
            if self.live(key) == 0 {
                self.tuples.remove(&key);
                self.dirty_zones.insert(key.zone);
                continue;
            }
            let stripes = self.tuples[&key].stripes.clone();
            for stripe in stripes {
                let zone = self.zone_mut(stripe.zone);
                zone.kinds[stripe.index as usize] = Kind::Tuple;
            }
            self.ticks += 1;
            self.lru.insert((self.ticks, key));
            self.tuples.get_mut(&key).expect("just seen").last_access = self.ticks;
        }
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
            self.raid_blocks += count(Kind::Raid) * width;
            let free = |&index: &u32| zone.kinds[index as usize] == Kind::Free;
            zone.free = (0..zone.kinds.len() as u32).filter(free).collect();
            let space = &mut self.classes[usize::from(zone.class.id.0)];
            space.free += zone.free.len() as u64;
            if !zone.free.is_empty() {
                space.zones_with_free.push(number as u32);
            }
        }
    }

    // ---- reports and choices

    /// (replicated, raid, limbo, all) blocks on drives.
    pub fn blocks(&self) -> (u64, u64, u64, u64) {
        let total = u64::from(self.geometry.zone_blocks)
            * self.geometry.drives as u64
            * u64::from(self.geometry.zone_count);
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
        format::ZoneObject { class, tuples: tuples.into_iter().map(image).collect() }
    }
}
