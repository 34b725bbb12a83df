//! The table against a slow one: nobody shares a block, nothing is used again early, nothing stays.

use std::collections::BTreeSet;
use std::rc::Rc;

use format::Extent;
use io::rng::Rng;
use layout::StripeShape;
use proptest::prelude::*;

use super::*;
use crate::geometry::PoolGeometry;
use crate::lists::DriveLists;

const ID: ClassId = ClassId(0);
const ZONES: u32 = 5;

fn space() -> Space {
    let (block_size, zone_blocks) = (8192, 20);
    let zone_bytes = u64::from(block_size) * u64::from(zone_blocks);
    let geometry = PoolGeometry {
        drives: 9,
        block_size,
        zone_bytes,
        zone_count: ZONES,
        zone_blocks,
        zones: Extent { offset: 0, len: zone_bytes * u64::from(ZONES) },
        lists: Rc::new(DriveLists::uniform(9, ZONES)),
    };
    let shape = StripeShape::new(5, 1).expect("a shape");
    let class = Class::new(ID, shape, &geometry).expect("a shape for these drives");
    let mut space = Space::new(geometry);
    space.class_add(Rc::new(class));
    (0..ZONES).for_each(|zone| space.zone_assign(zone, ID, 0));
    space
}

struct Model {
    space: Space,
    class: Rc<Class>,
    rng: Rng,
    live: Vec<StripeId>,
    places: BTreeMap<Home, Flbn>,
    given: Vec<(Home, Flbn)>,
    left: Vec<(Flbn, u64)>,
    sequence: u64,
    durable: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        let space = space();
        let class = space.class(ID).clone();
        Model {
            space,
            class,
            rng: Rng::new(seed),
            live: Vec::new(),
            places: BTreeMap::new(),
            given: Vec::new(),
            left: Vec::new(),
            sequence: 1,
            durable: 0,
        }
    }

    fn write_stripe(&mut self) {
        let Model { space, rng, .. } = self;
        let taken = space.take_stripe(ID, &mut |below| rng.index(below), &|_| false, usize::MAX);
        let Some((stripe, _)) = taken else { return };
        let flbn = space.geometry.flbn(&self.class, stripe, 0);
        space.apply(&[(flbn, 16)], self.sequence, 0);
        space.stripe_written(stripe, self.sequence, 0);
        assert!(space.substitutes_of(stripe).is_empty(), "of a former life");
        self.live.push(stripe);
    }

    fn give(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let stripe = self.live[self.rng.index(self.live.len())];
        let position = self.rng.index(self.class.width()) as u8;
        if self.given.iter().any(|(home, _)| *home == (stripe, position)) {
            return;
        }
        let Model { space, rng, class, .. } = self;
        let at = |at| space.address(class, stripe, at).drive;
        let taken: Vec<DriveIndex> = (0..class.width()).map(at).collect();
        let may = |drive: DriveIndex| !taken.contains(&drive);
        let wanted = Wanted { may: &may, preferred: class.spare(stripe), floor: &|_| 4 };
        if let Some(block) = space.spare_take(&wanted, &mut |below| rng.index(below)) {
            assert!(may(space.spare_address(block).drive));
            self.given.push(((stripe, position), block));
        }
    }

    fn settle(&mut self) {
        if self.given.is_empty() {
            return;
        }
        let (home, block) = self.given.swap_remove(self.rng.index(self.given.len()));
        if !self.live.contains(&home.0) || self.rng.chance(1, 4) {
            return self.space.spare_give_back(block);
        }
        self.space.substitute_set(home, Some(block), self.sequence, 0);
        let old = self.places.insert(home, block);
        self.left.extend(old.map(|block| (block, self.sequence)));
    }

    fn go_home(&mut self) {
        let Some((&home, _)) = self.places.iter().nth(self.rng.index(self.places.len().max(1)))
        else {
            return;
        };
        if self.live.contains(&home.0) {
            self.space.substitute_set(home, None, self.sequence, 0);
            let block = self.places.remove(&home).expect("just seen");
            self.left.push((block, self.sequence));
        }
    }

    fn die(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let stripe = self.live.swap_remove(self.rng.index(self.live.len()));
        let flbn = self.space.geometry.flbn(&self.class, stripe, 0);
        self.space.apply(&[(flbn, -16)], self.sequence, 0);
    }

    fn release(&mut self) {
        self.durable += self.rng.below(self.sequence - self.durable + 1);
        let freed = self.space.release_limbo(self.durable, u64::MAX);
        let had = |stripe: &StripeId| self.places.keys().any(|(other, _)| other == stripe);
        let told: Vec<StripeId> = freed.iter().copied().filter(had).collect();
        assert_eq!(self.space.substitutes_dropped(), told, "each is recorded");
        self.places.retain(|(stripe, _), _| !freed.contains(stripe));
        self.left.retain(|&(_, sequence)| sequence > self.durable);
    }

    fn check(&self) {
        let found: BTreeMap<Home, Flbn> = self.space.substitutes().collect();
        assert_eq!(found, self.places);
        let used: Vec<Flbn> = (self.places.values().copied())
            .chain(self.given.iter().map(|(_, block)| *block))
            .chain(self.left.iter().map(|(block, _)| *block))
            .collect();
        let distinct: BTreeSet<Flbn> = used.iter().copied().collect();
        assert_eq!(distinct.len(), used.len(), "nobody shares a block");
        let spares: BTreeSet<StripeId> = self.space.spares().map(|(stripe, _)| stripe).collect();
        let of = |block: &Flbn| self.space.geometry.stripe_of(&self.class, *block).0;
        assert_eq!(spares, used.iter().map(of).collect(), "spare stripes are those in use");
        let blocks = spares.len() * self.class.width();
        assert_eq!(self.space.spare_sectors(), blocks as u64 * 16);
        let mut addresses = BTreeSet::new();
        for &stripe in &self.live {
            assert_eq!(self.space.kind(stripe), Kind::Raid);
            for position in 0..self.class.width() {
                let at = self.space.address(&self.class, stripe, position);
                assert!(addresses.insert((at.drive, at.offset)), "{at:?} is two blocks");
            }
        }
    }

    /// What a checkpoint of it would bring back.
    fn reload(&self) {
        let mut again = space();
        for zone in 0..ZONES {
            for SubstituteImage { index, position, place } in self.space.export_substitutes(zone) {
                again.load_substitute((StripeId { zone, index }, position), place);
            }
        }
        let first = |stripe: &StripeId| self.space.geometry.flbn(&self.class, *stripe, 0);
        again.rebuild(self.live.iter().map(|stripe| (first(stripe), 16)));
        assert_eq!(again.substitutes_fault(), None);
        let alive = self.places.iter().filter(|((stripe, _), _)| self.live.contains(stripe));
        let alive: BTreeMap<Home, Flbn> = alive.map(|(&home, &block)| (home, block)).collect();
        assert_eq!(again.substitutes().collect::<BTreeMap<_, _>>(), alive);
    }
}

proptest! {
    #[test]
    fn nobody_shares_a_block_and_nothing_stays(seed in any::<u64>()) {
        let mut model = Model::new(seed);
        let all = model.space.has_free_in_zones(ID);
        for _ in 0..400 {
            match model.rng.below(12) {
                0..=2 => model.write_stripe(),
                3..=5 => model.give(),
                6..=7 => model.settle(),
                8 => model.go_home(),
                9 => model.die(),
                10 => model.release(),
                _ => model.sequence += 1,
            }
            model.check();
        }
        model.reload();
        while !model.live.is_empty() {
            model.die();
        }
        while !model.given.is_empty() {
            model.settle();
        }
        // What died last is released, too.
        model.sequence += 1;
        while model.durable < model.sequence || !model.left.is_empty() {
            model.release();
        }
        model.check();
        prop_assert!(model.space.is_at_home());
        prop_assert_eq!(model.space.has_free_in_zones(ID), all);
    }
}

/// Two blocks can't be at one place, nor one in a stripe that holds something.
#[test]
fn what_can_not_be_is_refused() {
    let class = space().class(ID).clone();
    let stripe = |index| StripeId { zone: 0, index };
    let fault = |places: &[(Home, u32, usize)]| {
        let mut space = space();
        for &(home, spare, position) in places {
            let block = space.geometry.flbn(&class, stripe(spare), position);
            space.load_substitute(home, block);
        }
        let live = [stripe(0), stripe(1)].map(|held| (space.geometry.flbn(&class, held, 0), 16));
        space.rebuild(live.into_iter());
        space.substitutes_fault().is_some()
    };
    assert!(!fault(&[((stripe(0), 1), 5, 2), ((stripe(1), 1), 5, 3)]));
    assert!(!fault(&[((stripe(3), 1), 1, 2)]), "of a stripe that holds nothing");
    assert!(fault(&[((stripe(0), 1), 5, 2), ((stripe(1), 1), 5, 2)]));
    assert!(fault(&[((stripe(0), 1), 1, 2)]));
    assert!(fault(&[((stripe(0), 9), 5, 2)]));
    let mut space = space();
    space.load_substitute((stripe(0), 0), Flbn::MAX);
    let live = (space.geometry.flbn(&class, stripe(0), 0), 16);
    space.rebuild([live].into_iter());
    assert!(space.substitutes_fault().is_some(), "a zone that is nobody's");
}
