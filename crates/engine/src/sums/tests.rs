//! The table against a plain map of what was said last.

use std::collections::BTreeMap;
use std::rc::Rc;

use format::{ClassId, Extent, SUMS_ENTRIES, StripeId};
use layout::StripeShape;
use proptest::prelude::*;

use super::*;
use crate::lists::DriveLists;

fn geometry() -> PoolGeometry {
    let zone_bytes = 8 << 20;
    PoolGeometry {
        drives: 6,
        block_size: 64 << 10,
        zone_bytes,
        zone_count: 3,
        zone_blocks: (zone_bytes >> 16) as u32,
        zones: Extent { offset: 1 << 20, len: 3 * zone_bytes },
        lists: Rc::new(DriveLists::uniform(6, 3)),
    }
}

fn class(id: u8, width: u16, parity: u8) -> Class {
    Class::new(ClassId(id), StripeShape::new(width, parity).unwrap(), &geometry()).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Set(u32, usize, usize, Vec<u32>),
    Forget(u32),
    ForgetPages(u32, usize, usize),
    /// Out to objects and in again, as at a restart.
    Reload,
    Zone,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = || 0..120_u32;
    let step = prop_oneof![
        8 => (index(), 0..6_usize, 0..16_usize, proptest::collection::vec(1_u32.., 1..17))
            .prop_map(|(index, position, first, sums)| Step::Set(index, position, first, sums)),
        2 => index().prop_map(Step::Forget),
        2 => (index(), 0..4_usize, 0..16_usize)
            .prop_map(|(index, position, page)| Step::ForgetPages(index, position, page)),
        1 => Just(Step::Reload),
        1 => Just(Step::Zone),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #[test]
    fn it_knows_what_was_said_last(steps in steps()) {
        let class = class(0, 5, 1);
        let mut sums = Sums::new(geometry(), true);
        let mut oracle: BTreeMap<(u32, usize, usize), u32> = BTreeMap::new();
        let stripe = |index| StripeId { zone: 1, index };
        for step in steps {
            match step {
                Step::Set(index, position, first, values) => {
                    sums.set(&class, stripe(index), position, first, &values);
                    if position < 4 && first + values.len() <= 16 {
                        let pages = (first..).zip(values);
                        oracle.extend(pages.map(|(page, sum)| ((index, position, page), sum)));
                    }
                }
                Step::Forget(index) => {
                    sums.forget(&class, stripe(index));
                    oracle.retain(|key, _| key.0 != index);
                }
                Step::ForgetPages(index, position, page) => {
                    let flbn = geometry().flbn(&class, stripe(index), position);
                    sums.forget_pages(&class, flbn, page, 1);
                    oracle.remove(&(index, position, page));
                }
                Step::Reload => {
                    let mut other = Sums::new(geometry(), true);
                    for (zone, part) in sums.parts() {
                        other.import(&class, zone, part, sums.export(zone, part));
                    }
                    other.take_dirty();
                    sums = other;
                }
                Step::Zone => {
                    sums.forget_zone(1);
                    oracle.clear();
                    prop_assert_eq!(sums.memory(), 0);
                }
            }
        }
        for index in 0..120 {
            for (position, page) in (0..5).flat_map(|at| (0..16).map(move |page| (at, page))) {
                let wanted = oracle.get(&(index, position, page)).copied().unwrap_or(0);
                prop_assert_eq!(sums.get(&class, stripe(index), position, page), wanted);
            }
        }
    }

    #[test]
    fn what_changed_is_dirty(
        first in proptest::collection::vec((0..100_u32, 1_u32..), 0..40),
        then in proptest::collection::vec((0..100_u32, 0..3_u32), 0..40),
    ) {
        let class = class(0, 5, 1);
        let mut sums = Sums::new(geometry(), true);
        let stripe = |index| StripeId { zone: 0, index };
        first.iter().for_each(|&(at, sum)| sums.set(&class, stripe(at), 0, 3, &[sum]));
        let exported = |sums: &Sums| (0..3).map(|part| sums.export(0, part)).collect::<Vec<_>>();
        let (before, _) = (exported(&sums), sums.take_dirty());
        for (at, sum) in then {
            match sum {
                0 => sums.forget(&class, stripe(at)),
                sum => sums.set(&class, stripe(at), 0, 3, &[sum]),
            }
        }
        let after = exported(&sums);
        for part in 0..3 {
            let changed = before[part] != after[part];
            prop_assert!(!changed || sums.is_dirty(0, part as u32), "part {} is forgotten", part);
        }
    }
}

#[test]
fn no_class_needs_more_objects_than_there_is_room_for() {
    for (width, parity) in [(3, 1), (5, 1), (6, 1), (6, 2), (4, 2)] {
        let class = class(0, width, parity);
        let pages = class.stripes_in(0) as usize * class.data() * 16;
        assert!(pages.div_ceil(SUMS_ENTRIES) as u64 <= parts_on(&geometry(), geometry().drives));
    }
}

#[test]
fn a_zone_of_another_class_begins_with_nothing() {
    let (old, new) = (class(0, 5, 1), class(1, 6, 2));
    let stripe = StripeId { zone: 2, index: 7 };
    let mut sums = Sums::new(geometry(), true);
    sums.set(&old, stripe, 1, 0, &[5; 16]);
    assert_eq!(sums.get(&new, stripe, 1, 0), 0);
    sums.set(&new, stripe, 0, 0, &[6]);
    assert_eq!((sums.get(&new, stripe, 1, 0), sums.get(&old, stripe, 1, 0)), (0, 0));
}

#[test]
fn pages_are_told_from_others() {
    let class = class(0, 5, 1);
    let at = (StripeId { zone: 0, index: 0 }, 2);
    let mut sums = Sums::new(geometry(), true);
    let mut pages: Vec<u8> = (0..3 * PAGE).map(|byte| (byte * 7 + byte / 4096) as u8).collect();
    let (crc, each) = sums.measure(&pages);
    assert_eq!(crc, crc32c::crc32c(&pages));
    sums.set(&class, at.0, at.1, 4, &each);
    assert_eq!(sums.wrong_page(&class, at, 4, &pages), None);
    assert_eq!(sums.wrong_page(&class, at, 5, &pages), Some(5), "misplaced");
    pages[PAGE + 17] ^= 1;
    assert_eq!(sums.wrong_page(&class, at, 4, &pages), Some(5));
    let off = Sums::new(geometry(), false);
    assert_eq!(off.wrong_page(&class, at, 4, &pages), None);
    assert!(off.measure(&pages).1.is_empty());
}
