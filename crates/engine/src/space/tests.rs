//! Space against a slow model: every stripe in one state, nothing reused early, nothing lost.

use std::collections::BTreeMap;

use format::Extent;
use io::rng::Rng;
use layout::{StripeShape, common_drives};
use proptest::prelude::*;

use super::discards::Walk;
use super::*;
use crate::limits::TUPLE_CANDIDATES;
use crate::lists::DriveLists;

const ID: ClassId = ClassId(0);
const BLOCK_SECTORS: u32 = 16;

fn geometry(drives: usize, zone_count: u32) -> PoolGeometry {
    let (block_size, zone_blocks) = (8192, 26);
    let zone_bytes = u64::from(block_size) * u64::from(zone_blocks);
    PoolGeometry {
        drives,
        block_size,
        zone_bytes,
        zone_count,
        zone_blocks,
        zones: Extent { offset: 0, len: zone_bytes * u64::from(zone_count) },
        lists: Rc::new(DriveLists::uniform(drives, zone_count)),
    }
}

fn space(drives: usize, shape: StripeShape, zones: u32) -> Space {
    let geometry = geometry(drives, zones);
    let class = Class::new(ID, shape, &geometry).expect("a shape for these drives");
    let mut space = Space::new(geometry);
    space.class_add(Rc::new(class));
    space
}

fn shape(data: usize, parity: u8) -> StripeShape {
    StripeShape::new(data as u16 + u16::from(parity), parity).expect("a shape")
}

/// Every slot of a tuple lies on different drives, every data position is in one slot.
fn check_slots(space: &Space, key: TupleKey) {
    let class = space.class(ID);
    let tuple = space.tuple(key).expect("just built");
    assert_eq!((tuple.stripes[0], tuple.stripes.len()), (key, class.copies()));
    assert_eq!(tuple.slots.len(), class.data());
    for copy in 0..class.copies() {
        let mut positions: Vec<usize> =
            (0..class.data()).map(|slot| tuple.position(slot, copy)).collect();
        positions.sort_unstable();
        assert!(positions.into_iter().eq(0..class.data()), "copy {copy} uses each block once");
    }
    for slot in 0..class.data() {
        let drive = |copy: usize| class.drive(tuple.stripes[copy], tuple.position(slot, copy));
        let mut drives: Vec<DriveIndex> = (0..class.copies()).map(drive).collect();
        drives.sort_unstable();
        drives.dedup();
        assert_eq!(drives.len(), class.copies(), "slot {slot} of {key} is on different drives");
    }
}

#[test]
fn slots_lie_on_different_drives_in_every_layout() {
    for drives in 3..=13 {
        for parity in 1..=2_u8 {
            for width in usize::from(parity) + 1..=drives {
                let shape = shape(width - usize::from(parity), parity);
                let mut space = space(drives, shape, 4);
                (0..4).for_each(|zone| space.zone_assign(zone, ID, 0));
                let mut rng = Rng::new((drives * 100 + width) as u64);
                let stripes = space.has_free_in_zones(ID);
                let wanted = TUPLE_CANDIDATES[usize::from(parity) - 1] as u64;
                // As long as there is plenty to choose from, there is a tuple.
                while space.has_free_in_zones(ID) >= (stripes / 2).max(wanted) {
                    let built =
                        space.build_tuple(ID, &mut |below| rng.index(below), &|_| false, false);
                    let key = built.unwrap_or_else(|| panic!("no tuple of {shape} on {drives}"));
                    check_slots(&space, key);
                }
            }
        }
    }
}

/// FusionRAID §4.2: of four random stripes, the two with the fewest common drives.
#[test]
fn chosen_stripes_share_fewer_drives_than_random_ones() {
    for (drives, data, parity, gain_percent) in [(16, 6, 1, 25), (31, 6, 1, 50), (13, 4, 2, 10)] {
        let mut space = space(drives, shape(data, parity), 40);
        (0..40).for_each(|zone| space.zone_assign(zone, ID, 0));
        let mut rng = Rng::new(42);
        let class = space.class(ID).clone();
        let shared = |stripes: &[StripeId]| -> usize {
            let drives: Vec<_> = stripes.iter().map(|&s| class.drives(s)).collect();
            let pairs = (0..drives.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
            pairs.map(|(a, b)| common_drives(&drives[a], &drives[b])).sum()
        };
        let (mut chosen, mut random) = (0, 0);
        for _ in 0..300 {
            let key = space
                .build_tuple(ID, &mut |below| rng.index(below), &|_| false, false)
                .expect("room");
            chosen += shared(&space.tuple(key).expect("built").stripes.clone());
            let any = |rng: &mut Rng| StripeId {
                zone: rng.below(40) as u32,
                index: rng.below(class.stripes_in(0).into()) as u32,
            };
            let stripes: Vec<StripeId> = (0..class.copies()).map(|_| any(&mut rng)).collect();
            random += shared(&stripes);
            for stripe in space.tuples.remove(&key).expect("built").stripes {
                space.set_kind(stripe, Kind::Free);
                space.give_back(stripe);
            }
        }
        assert!(
            chosen * 100 <= random * (100 - gain_percent),
            "{drives} drives: {chosen} common drives where chosen, {random} at random"
        );
    }
}

/// A checkpoint may hold tuples of a zone that the journal after it gives to another class.
#[test]
fn replay_forgets_the_tuples_of_a_zone_that_changes_hands() {
    let (narrow, wide) = (ClassId(1), ID);
    for first in [0, 5, 11, 39] {
        let mut space = space(5, shape(4, 1), 4);
        let class = Class::new(narrow, shape(1, 1), &space.geometry).expect("a shape");
        space.class_add(Rc::new(class));
        space.zone_assign(2, narrow, 0);
        let stripe = |index| StripeId { zone: 2, index };
        space.replay_tuple(&[stripe(first), stripe(first + 1)], &[[0, 0]], &[2]);
        space.zone_release(2);
        space.zone_assign(2, wide, 0);
        let stripes = space.class(wide).stripes_in(0);
        let flbn = |index| space.geometry.flbn(space.class(wide), stripe(index), 0);
        let live: Vec<_> = (0..stripes).map(|index| (flbn(index), 16)).collect();
        space.rebuild(live.into_iter());
        assert_eq!(space.tuple_count(), 0);
        assert!((0..stripes).all(|index| space.kind(stripe(index)) == Kind::Raid));
    }
}

/// A zone that could not be emptied is as it was: its free stripes count, and are handed out.
#[test]
fn a_zone_that_is_kept_gives_its_free_stripes_again() {
    let mut space = space(5, shape(4, 1), 2);
    space.zone_assign(0, ID, 0);
    space.zone_assign(1, ID, 0);
    let take = |space: &mut Space| {
        space.take_stripe(ID, &mut |_| 0, &|_| false, 0).map(|(stripe, _)| stripe)
    };
    let taken = take(&mut space).expect("all are free");
    let (kept, free) = (taken.zone, space.free_stripes(ID));
    space.zone_drain(kept);
    assert_eq!(space.zone_held(kept), 1);
    assert!(space.free_stripes(ID) < free);
    assert_eq!(space.zone_emptied(kept, 7), None, "a stripe of it is in use");
    space.zone_keep(kept);
    space.zone_keep(kept);
    assert_eq!((space.free_stripes(ID), space.zone_draining()), (free, None));
    let mut found = 0;
    while let Some(stripe) = take(&mut space) {
        found += usize::from(stripe.zone == kept);
    }
    assert_eq!(found, space.class(ID).stripes_in(0) as usize - 1);
}

// ---- the model

#[derive(Clone, Copy, Debug, Default)]
struct ModelTuple {
    /// Slots not handed out, writes in flight.
    unhanded: usize,
    inflight: usize,
    busy: bool,
}

struct Model {
    space: Space,
    rng: Rng,
    kinds: BTreeMap<StripeId, Kind>,
    /// Live sectors of each physical block.
    live: BTreeMap<Flbn, u32>,
    tuples: BTreeMap<TupleKey, (Vec<StripeId>, ModelTuple)>,
    /// Least recently used first.
    order: Vec<TupleKey>,
    /// What waits for which journal block and which read generation.
    limbo: Vec<(StripeId, u64, u64)>,
    now: u64,
}

impl Model {
    fn new(drives: usize, shape: StripeShape, seed: u64) -> Model {
        let mut model = Model {
            space: space(drives, shape, 4),
            rng: Rng::new(seed),
            kinds: BTreeMap::new(),
            live: BTreeMap::new(),
            tuples: BTreeMap::new(),
            order: Vec::new(),
            limbo: Vec::new(),
            now: 1,
        };
        model.add_zone();
        model
    }

    fn add_zone(&mut self) {
        let Some(zone) = self.space.zone_next(ID) else { return };
        self.space.zone_assign(zone, ID, 0);
        let stripes = self.space.class(ID).stripes_in(0);
        self.kinds.extend((0..stripes).map(|index| (StripeId { zone, index }, Kind::Free)));
    }

    fn count(&self, kind: Kind) -> u64 {
        self.kinds.values().filter(|&&other| other == kind).count() as u64
    }

    fn live_of(&self, stripe: StripeId) -> u32 {
        let class = self.space.class(ID);
        let block = |at| self.live.get(&self.space.geometry.flbn(class, stripe, at));
        (0..class.data()).filter_map(block).sum()
    }

    fn pick(&mut self, wanted: impl Fn(&Model, StripeId, Kind) -> bool) -> Option<StripeId> {
        let all = self.kinds.iter().filter(|&(&stripe, &kind)| wanted(self, stripe, kind));
        let all: Vec<StripeId> = all.map(|(&stripe, _)| stripe).collect();
        (!all.is_empty()).then(|| all[self.rng.index(all.len())])
    }

    fn pick_tuple(&mut self, wanted: impl Fn(&ModelTuple) -> bool) -> Option<TupleKey> {
        let all = self.tuples.iter().filter(|(_, (_, tuple))| wanted(tuple));
        let all: Vec<TupleKey> = all.map(|(&key, _)| key).collect();
        (!all.is_empty()).then(|| all[self.rng.index(all.len())])
    }

    fn bury(&mut self, stripe: StripeId) {
        self.kinds.insert(stripe, Kind::Limbo);
        self.limbo.push((stripe, self.now, self.now));
    }

    fn bury_tuple_if_dead(&mut self, key: TupleKey) {
        let Some((stripes, tuple)) = self.tuples.get(&key).cloned() else { return };
        let quiet = tuple.unhanded == 0 && tuple.inflight == 0 && !tuple.busy;
        if quiet && self.live_of(key) == 0 {
            self.forget_tuple(key);
            stripes.into_iter().for_each(|stripe| self.bury(stripe));
        }
    }

    fn forget_tuple(&mut self, key: TupleKey) {
        self.tuples.remove(&key);
        self.order.retain(|&other| other != key);
    }

    fn used(&mut self, key: TupleKey) {
        self.order.retain(|&other| other != key);
        self.order.push(key);
    }

    // ---- steps

    fn step(&mut self) {
        self.now += 1;
        match self.rng.below(19) {
            0 => self.add_zone(),
            1 | 2 => self.take_stripe(),
            3 => self.finish_stripe(),
            4..=6 => self.gain(),
            7..=9 => self.lose(),
            10 => self.build(),
            11 | 12 => self.hand_out(),
            13 => self.write_done(),
            14 => self.least_recently_used(),
            15 => self.discard_begin(),
            16 => self.discard_end(),
            17 => self.discard_walk(),
            _ => self.release(),
        }
    }

    fn take_stripe(&mut self) {
        let free = self.count(Kind::Free);
        let (space, rng) = (&mut self.space, &mut self.rng);
        let slow = rng.index(space.geometry.drives * 2);
        let is_slow = |drive: layout::DriveIndex| usize::from(drive.0) == slow;
        let taken = space.take_stripe(ID, &mut |below| rng.index(below), &is_slow, usize::MAX);
        assert_eq!(taken.is_some(), free > 0);
        if let Some((stripe, _)) = taken {
            let before = self.kinds.insert(stripe, Kind::Writing);
            assert_eq!(before, Some(Kind::Free), "{stripe} was in use");
        }
    }

    fn finish_stripe(&mut self) {
        let Some(stripe) = self.pick(|_, _, kind| kind == Kind::Writing) else { return };
        if self.live_of(stripe) == 0 && self.rng.chance(1, 3) {
            self.space.abandon_stripe(stripe, self.now, self.now);
            return self.bury(stripe);
        }
        self.space.stripe_written(stripe, self.now, self.now);
        self.kinds.insert(stripe, Kind::Raid);
        if self.live_of(stripe) == 0 {
            self.bury(stripe);
        }
    }

    /// A block in use: of a stripe, or of stripe 0 of a tuple.
    fn pick_block(&mut self) -> Option<(StripeId, Flbn)> {
        let named = |model: &Model, stripe, kind| match kind {
            Kind::Writing | Kind::Raid => true,
            Kind::Tuple => model.tuples.contains_key(&stripe),
            Kind::Free | Kind::Discarding | Kind::Limbo | Kind::Spare => false,
        };
        let stripe = self.pick(named)?;
        let class = self.space.class(ID).clone();
        let at = self.rng.index(class.data());
        Some((stripe, self.space.geometry.flbn(&class, stripe, at)))
    }

    fn gain(&mut self) {
        let Some((_, flbn)) = self.pick_block() else { return };
        let live = self.live.entry(flbn).or_default();
        if *live < BLOCK_SECTORS {
            let more = 1 + self.rng.below(u64::from(BLOCK_SECTORS - *live)) as u32;
            *live += more;
            self.space.apply(&[(flbn, more as i32)], self.now, self.now);
        }
    }

    fn lose(&mut self) {
        let Some((stripe, flbn)) = self.pick_block() else { return };
        let live = self.live.get(&flbn).copied().unwrap_or(0);
        if live == 0 {
            return;
        }
        let less =
            if self.rng.chance(2, 3) { live } else { 1 + self.rng.below(live.into()) as u32 };
        self.live.insert(flbn, live - less);
        self.space.apply(&[(flbn, -(less as i32))], self.now, self.now);
        if self.live_of(stripe) == 0 {
            match self.kinds[&stripe] {
                Kind::Raid => self.bury(stripe),
                Kind::Tuple => self.bury_tuple_if_dead(stripe),
                _ => {}
            }
        }
    }

    fn build(&mut self) {
        let (space, rng) = (&mut self.space, &mut self.rng);
        let Some(key) = space.build_tuple(ID, &mut |below| rng.index(below), &|_| false, false)
        else {
            return;
        };
        check_slots(space, key);
        let stripes = space.tuple(key).expect("built").stripes.to_vec();
        for &stripe in &stripes {
            let before = self.kinds.insert(stripe, Kind::Tuple);
            assert_eq!(before, Some(Kind::Free), "{stripe} was in use");
        }
        let unhanded = self.space.class(ID).data();
        self.tuples.insert(key, (stripes, ModelTuple { unhanded, ..ModelTuple::default() }));
        self.used(key);
    }

    /// All slots but one at once, so that tuples get quiet often enough.
    fn hand_out(&mut self) {
        let Some(key) = self.pick_tuple(|tuple| tuple.unhanded > 0) else { return };
        let (_, tuple) = self.tuples.get_mut(&key).expect("picked");
        let count = tuple.unhanded.saturating_sub(1).max(1);
        (tuple.unhanded, tuple.inflight) = (tuple.unhanded - count, tuple.inflight + count);
        let real = self.space.tuple_mut(key).expect("the model's tuples exist");
        real.unhanded -= count as u16;
        real.inflight += count as u32;
    }

    fn write_done(&mut self) {
        while let Some(key) = self.pick_tuple(|tuple| tuple.inflight > 0) {
            self.space.touch(key);
            self.used(key);
            self.space.tuple_write_done(key, self.now, self.now);
            self.tuples.get_mut(&key).expect("picked").1.inflight -= 1;
            self.bury_tuple_if_dead(key);
            if self.rng.chance(1, 4) {
                break;
            }
        }
    }

    fn least_recently_used(&mut self) {
        let quiet = |model: &Model, key: &TupleKey| {
            let tuple = model.tuples[key].1;
            tuple.unhanded == 0 && tuple.inflight == 0 && !tuple.busy
        };
        let expected = self.order.iter().find(|key| quiet(self, key)).copied();
        let found = self.space.lru_next();
        assert_eq!(found, expected, "the least recently used tuple that is quiet");
        if let Some(key) = found {
            self.tuples.get_mut(&key).expect("expected").1.busy = true;
        }
        // One that was chosen now or earlier comes to its end, or is let go.
        let Some(key) = self.pick_tuple(|tuple| tuple.busy) else { return };
        if self.rng.chance(1, 2) {
            self.space.tuple_release_busy(key, self.now, self.now);
            self.tuples.get_mut(&key).expect("picked").1.busy = false;
            return self.bury_tuple_if_dead(key);
        }
        self.space.tuple_converted(key, self.now, self.now);
        let stripes = self.tuples[&key].0.clone();
        self.forget_tuple(key);
        self.kinds.insert(key, Kind::Raid);
        stripes[1..].iter().for_each(|&stripe| self.bury(stripe));
        if self.live_of(key) == 0 {
            self.bury(key);
        }
    }

    /// Any stripe may be asked for: one that is not free must be refused.
    fn discard_begin(&mut self) {
        let wanted = if self.rng.chance(3, 4) { Kind::Free } else { Kind::Raid };
        let Some(stripe) = self.pick(|_, _, kind| kind == wanted) else { return };
        assert_eq!(self.space.discard_begin(stripe), wanted == Kind::Free);
        if wanted == Kind::Free {
            self.kinds.insert(stripe, Kind::Discarding);
        }
    }

    /// A walk meets every free stripe once, and ends.
    fn discard_walk(&mut self) {
        let free = self.count(Kind::Free);
        let most = self.rng.below(2 * free + 1);
        let (mut walk, mut met) = (Walk::default(), 0);
        while met < most {
            let Some(stripe) = self.space.discard_next(&mut walk) else { break };
            assert_eq!(self.kinds.insert(stripe, Kind::Discarding), Some(Kind::Free));
            met += 1;
            // Most come back at once.
            if self.rng.chance(3, 4) {
                self.discard_end_of(stripe);
            }
        }
        assert_eq!(met, most.min(free));
    }

    fn discard_end(&mut self) {
        if let Some(stripe) = self.pick(|_, _, kind| kind == Kind::Discarding) {
            self.discard_end_of(stripe);
        }
    }

    fn discard_end_of(&mut self, stripe: StripeId) {
        self.space.discard_end(stripe);
        self.kinds.insert(stripe, Kind::Free);
    }

    fn release(&mut self) {
        let durable = self.now - self.rng.below(self.now.min(30));
        let oldest = self.now - self.rng.below(self.now.min(30));
        let mut freed = self.space.release_limbo(durable, oldest);
        for &stripe in &freed {
            let at = self.limbo.iter().position(|&(dead, ..)| dead == stripe).expect("in limbo");
            let (_, sequence, generation) = self.limbo.remove(at);
            assert!(sequence <= durable, "{stripe} was freed before its end was durable");
            assert!(generation < oldest, "{stripe} was freed under a reader");
            self.kinds.insert(stripe, Kind::Free);
        }
        freed.sort();
        freed.dedup();
        let left = self.limbo.iter().filter(|(_, s, g)| *s <= durable && *g < oldest).count();
        assert_eq!(left, 0, "nothing waits longer than it must");
    }

    // ---- what must hold

    fn check(&self) {
        let (space, width) = (&self.space, self.space.class(ID).width() as u64);
        for (&stripe, &kind) in &self.kinds {
            assert_eq!(space.kind(stripe), kind, "{stripe}");
            let live = if kind.is_free() { 0 } else { self.live_of(stripe) };
            assert_eq!(space.live(stripe), live, "live sectors of {stripe} ({kind:?})");
            let zone = space.zone(stripe.zone);
            let listed = zone.free.iter().filter(|&&index| index == stripe.index).count();
            assert_eq!(listed, usize::from(kind == Kind::Free), "{stripe} on the free list");
        }
        let raid = self.count(Kind::Raid) + self.count(Kind::Writing);
        let (replicated_blocks, raid_blocks, limbo_blocks, _) = space.blocks();
        assert_eq!(replicated_blocks, self.count(Kind::Tuple) * width);
        assert_eq!(raid_blocks, raid * width);
        assert_eq!(limbo_blocks, self.count(Kind::Limbo) * width);
        assert_eq!(space.limbo_len(), self.limbo.len());
        assert_eq!(space.has_free_in_zones(ID), self.count(Kind::Free));
        let mut zones = space.classes[0].zones_with_free.clone();
        zones.sort_unstable();
        let has_free =
            |zone: &u32| space.zones[*zone as usize].as_ref().is_some_and(|z| !z.free.is_empty());
        assert!(zones.into_iter().eq((0..4).filter(has_free)));
        assert_eq!(space.tuple_count(), self.tuples.len());
        assert!(space.lru.len() <= space.tuple_count(), "the order keeps no dead tuples");
    }

    /// A space built from the map and the tuples is this one, with what was unfinished free.
    fn check_rebuild(&self) {
        let class = self.space.class(ID).clone();
        let mut rebuilt = Space::new(self.space.geometry.clone());
        rebuilt.class_add(class.clone());
        for zone in 0..4 {
            let image = self.space.export_zone(zone);
            let Some(owner) = image.class else { continue };
            rebuilt.zone_assign(zone, owner, 0);
            for tuple in image.tuples {
                rebuilt.replay_tuple(&tuple.stripes, &tuple.slots, &tuple.filled);
            }
        }
        let live = self.live.iter().filter(|(_, sectors)| **sectors > 0);
        rebuilt.rebuild(live.map(|(&flbn, &sectors)| (flbn, sectors as u16)));
        let alive = |stripe: &StripeId| {
            let owner = self.tuples.values().find(|(stripes, _)| stripes.contains(stripe));
            let named = owner.map_or(*stripe, |(stripes, _)| stripes[0]);
            (self.live_of(named) > 0).then_some(if owner.is_some() {
                Kind::Tuple
            } else {
                Kind::Raid
            })
        };
        let mut free = 0;
        for &stripe in self.kinds.keys() {
            let expected = alive(&stripe).unwrap_or(Kind::Free);
            assert_eq!(rebuilt.kind(stripe), expected, "{stripe} after rebuilding");
            free += u64::from(expected == Kind::Free);
            if self.kinds[&stripe] != Kind::Limbo && !self.kinds[&stripe].is_free() {
                assert_eq!(rebuilt.live(stripe), self.live_of(stripe));
            }
        }
        assert_eq!(rebuilt.has_free_in_zones(ID), free);
        assert_eq!(
            rebuilt.free_stripes(ID),
            free + (self.space.free_stripes(ID) - self.count(Kind::Free))
        );
        assert_eq!(rebuilt.live_footprint(), self.space.live_footprint());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_stripe_is_in_the_state_of_the_model(
        seed in any::<u64>(),
        (drives, data, parity) in prop_oneof![
            Just((5, 4, 1_u8)), Just((7, 2, 1)), Just((9, 4, 2)), Just((4, 2, 2)), Just((6, 1, 1)),
        ],
    ) {
        let mut model = Model::new(drives, shape(data, parity), seed);
        for _ in 0..40 {
            for _ in 0..10 {
                model.step();
            }
            model.check();
        }
        model.check_rebuild();
    }
}
