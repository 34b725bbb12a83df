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
//! A free stripe is *discarding*, and not on the free list, while its drives are told of it.
//!
//! Pure state. Live sectors are counted per stripe (for tuples: on stripe 0), three bytes a
//! stripe; who owns them is found by scanning the map when that matters (`compact`).

pub mod discards;
pub mod image;
mod relist;
mod replay;
mod report;
pub mod substitutes;
mod table;
mod tuples;

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use format::{ClassId, Flbn, StripeId};
use layout::DriveIndex;
use smallvec::SmallVec;

use crate::geometry::{Class, PoolGeometry};
use crate::limits::{CLASSES_MAX, NEWEST_DRAWS, RELEASE_MAX, STRIPE_CANDIDATES};
use crate::planted::{self, Bug};
use crate::tuple::{Tuple, TupleKey};
use substitutes::Substitutes;
use table::Tuples;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Free,
    Writing,
    Raid,
    Tuple,
    Limbo,
    /// Free, but drives are being told so: not on the free list.
    Discarding,
    /// Its blocks are substitutes of other stripes' (`substitutes`).
    Spare,
}

impl Kind {
    /// Holds nothing, and nothing refers to it.
    pub fn is_free(self) -> bool {
        matches!(self, Kind::Free | Kind::Discarding)
    }
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
    /// It lies on drives of the rounds up to this one.
    round: u16,
    kinds: Box<[Kind]>,
    live: Counters,
    free: Vec<u32>,
    /// Being emptied for another class: nothing new is put there.
    draining: bool,
    /// When it was first seen to be empty: the newest journal block that may speak of what it held.
    emptied: Option<u64>,
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
    /// How many of these have each drive list.
    unassigned_on: Vec<u32>,
    limbo: VecDeque<Dead>,
    /// Sectors of drive space that writes on their way may come to need.
    pub promised: u64,
    tuples: Tuples,
    /// Tuples by access tick; a tuple's entry may be older than its tick (see `lru_next`).
    lru: BTreeSet<(u64, TupleKey)>,
    ticks: u64,
    /// Blocks on drives by what they hold, for `status`.
    replicated_blocks: u64,
    raid_blocks: u64,
    limbo_blocks: u64,
    dirty_zones: BTreeSet<u32>,
    avoid: Vec<bool>,
    /// Stripes are taken rather from zones that lie on all drives they can.
    pub prefer_newest: bool,
    pub substitutes: Substitutes,
}

impl Space {
    pub fn new(geometry: PoolGeometry) -> Space {
        let zones = geometry.zone_count;
        let avoid = vec![false; geometry.drives];
        (0..zones).for_each(|zone| geometry.lists.reset(zone));
        let unassigned_on = geometry.lists.all().map(|(.., zones)| zones).collect();
        let substitutes = Substitutes::new(geometry.drives);
        Space {
            substitutes,
            geometry,
            classes: (0..CLASSES_MAX).map(|_| ClassSpace::default()).collect(),
            zones: (0..zones).map(|_| None).collect(),
            unassigned: (0..zones).rev().collect(),
            unassigned_on,
            limbo: VecDeque::new(),
            promised: 0,
            tuples: Tuples::new(zones),
            lru: BTreeSet::new(),
            ticks: 0,
            replicated_blocks: 0,
            raid_blocks: 0,
            limbo_blocks: 0,
            dirty_zones: BTreeSet::new(),
            avoid,
            prefer_newest: false,
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

    /// Gives a zone to a class, on the drives of the rounds up to `round`. On replay it may have
    /// been given already.
    pub fn zone_assign(&mut self, zone: u32, id: ClassId, round: u16) {
        let is_so = |found: &Zone| found.class.id == id && found.round == round;
        if self.zones[zone as usize].as_ref().is_some_and(is_so) {
            return;
        }
        let class = self.class(id).clone();
        if self.zones[zone as usize].is_none() {
            self.unassigned_on[self.geometry.lists.of(zone).index()] -= 1;
        }
        self.geometry.lists.set(zone, round);
        let stripes = class.stripes_in(zone) as usize;
        assert!(stripes > 0, "zone {zone} lies on too few drives for {id}");
        let largest = class.data() as u64 * u64::from(self.geometry.block_sectors());
        self.unassigned.retain(|&other| other != zone);
        self.zones[zone as usize] = Some(Zone {
            round,
            kinds: vec![Kind::Free; stripes].into(),
            live: Counters::new(stripes, largest),
            free: (0..stripes as u32).collect(),
            draining: false,
            emptied: None,
            class,
        });
        let space = &mut self.classes[usize::from(id.0)];
        space.zones_with_free.push(zone);
        space.free += stripes as u64;
        self.dirty_zones.insert(zone);
    }

    /// The unassigned zone that a class gets next, which the caller then assigns (and journals):
    /// the lowest, but rather one that wider classes can't use.
    pub fn zone_next(&self, id: ClassId) -> Option<u32> {
        let class = self.class(id);
        let fits = |&&zone: &&u32| class.stripes_in(zone) > 0;
        let fitting = self.unassigned.iter().rev().filter(fits);
        if self.classes().all(|other| other.width() <= class.width()) {
            return fitting.copied().next();
        }
        let lists = &self.geometry.lists;
        fitting.copied().min_by_key(|&zone| lists.drives(lists.of(zone)).len())
    }

    pub fn round_of_zone(&self, zone: u32) -> u16 {
        self.zones[zone as usize].as_ref().map_or(0, |zone| zone.round)
    }

    pub fn zone_release(&mut self, zone: u32) {
        // On replay tuples that died since may still be listed: those of the checkpoint, and of a
        // zone that the checkpoint knows to be given back already (worlds 10338, 10359).
        self.tuples.forget_zone(zone);
        self.replay_forget_zone(zone);
        let Some(found) = self.zones[zone as usize].take() else { return };
        assert_eq!(found.free.len(), found.kinds.len(), "only an empty zone is given back");
        if !found.draining {
            let space = &mut self.classes[usize::from(found.class.id.0)];
            space.zones_with_free.retain(|&other| other != zone);
            space.free -= found.free.len() as u64;
        }
        self.unassigned.push(zone);
        self.geometry.lists.reset(zone);
        self.unassigned_on[self.geometry.lists.of(zone).index()] += 1;
        self.dirty_zones.insert(zone);
    }

    /// The zone of another class that is easiest to empty, if that class can spare it: it must
    /// have room for what moves. One that holds nothing can always be spared.
    pub fn zone_to_drain(&self, not: ClassId) -> Option<u32> {
        let wanting = self.class(not);
        let spare = |number: u32, zone: &Zone| {
            let used = (zone.kinds.len() - zone.free.len()) as u64;
            let elsewhere =
                self.classes[usize::from(zone.class.id.0)].free - zone.free.len() as u64;
            let stripe = zone.class.data() as u64 * u64::from(self.geometry.block_sectors());
            let live = |index| u64::from(zone.live.get(index as u32));
            // What moves is packed, but seldom without a gap.
            let fits = || {
                let moves = (0..zone.kinds.len()).map(live).sum::<u64>().div_ceil(stripe);
                let moves = moves + self.guest_blocks(number);
                elsewhere > moves + moves / 8 + 1
            };
            let fit = wanting.stripes_on(self.geometry.lists.newest(number)) > 0;
            fit && zone.class.id != not && (used == 0 || elsewhere > used / 2 + 1 && fits())
        };
        let candidates = self.zones.iter().enumerate().filter_map(|(number, zone)| {
            let zone = zone.as_ref().filter(|zone| spare(number as u32, zone))?;
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
        self.spare_reopen();
    }

    /// Stripes of a zone that hold something, or did and are not free yet.
    pub fn zone_held(&self, zone: u32) -> usize {
        let found = self.zone(zone);
        found.kinds.len() - found.free.len()
    }

    /// A zone is not emptied after all.
    pub fn zone_keep(&mut self, zone: u32) {
        let found = self.zones[zone as usize].as_mut().expect("assigned");
        if !std::mem::replace(&mut found.draining, false) {
            return;
        }
        found.emptied = None;
        let space = &mut self.classes[usize::from(found.class.id.0)];
        space.free += found.free.len() as u64;
        if !found.free.is_empty() {
            space.zones_with_free.push(zone);
        }
        self.spare_reopen();
    }

    /// Whether a zone holds nothing: the newest journal block that may speak of what it held.
    /// `latest`: the newest block there is.
    pub fn zone_emptied(&mut self, zone: u32, latest: u64) -> Option<u64> {
        let found = self.zones[zone as usize].as_mut().expect("assigned");
        let empty = found.draining && found.free.len() == found.kinds.len();
        empty.then(|| *found.emptied.get_or_insert(latest))
    }

    /// What still lies in a zone: RAID stripes, and tuples with a stripe in it (made busy). Guests
    /// of its spare stripes, which may be of any class, come last.
    pub fn zone_contents(&mut self, zone: u32) -> (Vec<StripeId>, Vec<TupleKey>) {
        let guests = self.guests_of(zone);
        let kinds = self.zone(zone).kinds.iter().enumerate();
        let raid = kinds.filter(|(_, kind)| **kind == Kind::Raid);
        let mut stripes: Vec<StripeId> =
            raid.map(|(index, _)| StripeId { zone, index: index as u32 }).collect();
        let elsewhere = guests.iter().filter(|guest| guest.zone != zone);
        stripes.extend(elsewhere.filter(|&&guest| self.kind(guest) == Kind::Raid));
        let here = |tuple: &&mut Tuple| {
            let is_here = |stripe: &StripeId| stripe.zone == zone || guests.contains(stripe);
            tuple.is_quiet() && !tuple.busy && tuple.stripes.iter().any(is_here)
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

    /// Changed since the last checkpoint began.
    pub fn is_dirty(&self, zone: u32) -> bool {
        self.dirty_zones.contains(&zone)
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
        *self.blocks_of(old) -= if old.is_free() { 0 } else { width };
        *self.blocks_of(kind) += if kind.is_free() { 0 } else { width };
    }

    fn blocks_of(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Tuple => &mut self.replicated_blocks,
            Kind::Limbo => &mut self.limbo_blocks,
            _ => &mut self.raid_blocks,
        }
    }

    pub fn live(&self, stripe: StripeId) -> u32 {
        self.zone(stripe.zone).live.get(stripe.index)
    }

    /// Stripes that the class could still be given.
    pub fn free_stripes(&self, id: ClassId) -> u64 {
        let (class, lists) = (self.class(id), &self.geometry.lists);
        let unassigned = lists
            .all()
            .zip(&self.unassigned_on)
            .map(|((list, ..), &zones)| u64::from(class.stripes_on(list)) * u64::from(zones));
        self.classes[usize::from(id.0)].free + unassigned.sum::<u64>()
    }

    pub fn has_free_in_zones(&self, id: ClassId) -> u64 {
        self.classes[usize::from(id.0)].free
    }

    /// A free stripe of any zone, or of the one that got its first free stripe last.
    fn take_free(&mut self, id: ClassId, newest: bool, draw: Draw) -> Option<StripeId> {
        let space = &mut self.classes[usize::from(id.0)];
        if space.zones_with_free.is_empty() {
            return None;
        }
        let zones = space.zones_with_free.len();
        let mut at = if newest { zones - 1 } else { draw(zones) };
        if self.prefer_newest {
            let lists = &self.geometry.lists;
            let is_newest = |at: usize| {
                let zone = space.zones_with_free[at];
                lists.of(zone) == lists.newest(zone)
            };
            let mut draws = 0..NEWEST_DRAWS;
            while !is_newest(at) && draws.next().is_some() {
                at = draw(zones);
            }
        }
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

    /// Drives whose blocks are not to be given out (missing or failed). Returns what was.
    pub fn set_avoided(&mut self, drive: DriveIndex, avoided: bool) -> bool {
        std::mem::replace(&mut self.avoid[usize::from(drive.0)], avoided)
    }

    pub fn is_avoided(&self, drive: DriveIndex) -> bool {
        self.avoid[usize::from(drive.0)]
    }

    /// A free stripe for a full-stripe write: the first drawn without a lost or slow drive, or of
    /// [`STRIPE_CANDIDATES`] the one with the fewest; with more than `slow_max` slow drives none.
    /// Says whether any was passed over because of a slow drive.
    pub fn take_stripe(
        &mut self,
        id: ClassId,
        draw: Draw,
        is_slow: &dyn Fn(DriveIndex) -> bool,
        slow_max: usize,
    ) -> Option<(StripeId, bool)> {
        let class = self.class(id).clone();
        let mut drawn: SmallVec<[(usize, usize, StripeId); 4]> = SmallVec::new();
        while drawn.len() < STRIPE_CANDIDATES {
            // Every other one from the newest zone: it has some of each kind, where older ones may
            // have nothing left but stripes with the slow drive.
            let newest = drawn.len() % 2 == 1;
            let Some(stripe) = self.take_free(id, newest, draw) else { break };
            let drives = || (0..class.width()).map(|at| class.drive(stripe, at));
            let lost = drives().filter(|&drive| self.is_avoided(drive)).count();
            let slow = drives().filter(|&drive| is_slow(drive)).count();
            drawn.push((lost, slow, stripe));
            if lost + slow == 0 {
                break;
            }
        }
        let best = (0..drawn.len()).min_by_key(|&at| (drawn[at].0, drawn[at].1));
        let chosen = best.filter(|&at| drawn[at].1 <= slow_max).map(|at| drawn.swap_remove(at).2);
        let passed = drawn.iter().any(|&(_, slow, _)| slow > 0);
        for (_, _, other) in drawn {
            self.give_back(other);
        }
        self.set_kind(chosen?, Kind::Writing);
        Some((chosen?, passed))
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

    /// Frees what is provably dead. Returns the stripes freed; of some of them it has to be
    /// recorded that they have no substitutes any more (`substitutes_dropped`).
    pub fn release_limbo(&mut self, durable: u64, oldest_read: u64) -> Vec<StripeId> {
        let mut freed = Vec::new();
        while let Some(dead) = self.limbo.front() {
            let seen = dead.generation >= oldest_read && !planted::is(Bug::FreeBeforeReaders);
            if dead.sequence > durable || seen {
                break;
            }
            freed.push(dead.stripe);
            self.limbo.pop_front();
            if freed.len() >= RELEASE_MAX {
                break;
            }
        }
        for &stripe in &freed {
            self.set_kind(stripe, Kind::Free);
            self.give_back(stripe);
            self.substitutes_drop(stripe);
        }
        self.release_left(durable, oldest_read);
        freed
    }

    /// Whether a read that is still under way may have seen what died first.
    pub fn limbo_is_seen(&self, oldest_read: u64) -> bool {
        self.limbo.front().is_some_and(|dead| dead.generation >= oldest_read)
    }

    pub fn limbo_len(&self) -> usize {
        self.limbo.len()
    }
}

#[cfg(test)]
mod tests;
