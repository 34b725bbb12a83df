//! Drive lists against the rule in one sentence, and stripes that lie on them: every block of a
//! drive is of one stripe at most, and none lies outside its drive's zones.

use std::collections::BTreeSet;
use std::rc::Rc;

use format::{ClassId, Extent, StripeId};
use layout::{DRIVES_MIN, StripeShape};
use proptest::prelude::*;

use super::*;
use crate::geometry::{Class, PoolGeometry};

const BLOCK: u32 = 4096;
const ZONE_BLOCKS: u32 = 26;

fn geometry(members: &[Reach], zone_count: u32) -> PoolGeometry {
    let zone_bytes = u64::from(BLOCK * ZONE_BLOCKS);
    PoolGeometry {
        drives: members.len(),
        block_size: BLOCK,
        zone_bytes,
        zone_count,
        zone_blocks: ZONE_BLOCKS,
        zones: Extent { offset: 1 << 20, len: zone_bytes * u64::from(zone_count) },
        lists: Rc::new(DriveLists::new(members.to_vec(), zone_count)),
    }
}

/// The rule: drives of the rounds up to the zone's that have it.
fn by_rule(members: &[Reach], round: u16, zone: u32) -> Vec<DriveIndex> {
    let here = |at: &u16| {
        let member = members[usize::from(*at)];
        member.round <= round && zone < member.zones
    };
    (0..members.len() as u16).filter(here).map(DriveIndex).collect()
}

/// Drives of one to four rounds, and as many zones as any of them has.
fn pool() -> impl Strategy<Value = (Vec<Reach>, u32)> {
    let later = proptest::collection::vec(proptest::collection::vec(1u32..9, 1..4), 0..4);
    (proptest::collection::vec(1u32..9, 3..8), later).prop_map(|(founders, later)| {
        let rounds = std::iter::once(founders).chain(later);
        let members: Vec<Reach> = (0u16..)
            .zip(rounds)
            .flat_map(|(round, drives)| drives.into_iter().map(move |zones| Reach { round, zones }))
            .collect();
        let zones = members.iter().map(|member| member.zones).max().expect("there are drives");
        (members, zones)
    })
}

proptest! {
    #[test]
    fn zones_lie_where_the_rule_says(
        (members, zone_count) in pool(),
        given in proptest::collection::vec((0u32..9, 0u16..4, any::<bool>()), 0..20),
    ) {
        let lists = DriveLists::new(members.clone(), zone_count);
        let newest = members.iter().map(|member| member.round).max().expect("drives");
        prop_assert_eq!(lists.newest_round(), newest);
        let mut rounds = vec![newest; zone_count as usize];
        for (zone, round, back) in given {
            if zone >= zone_count || !lists.is_known(round) {
                continue;
            }
            if back { lists.reset(zone) } else { lists.set(zone, round) }
            rounds[zone as usize] = if back { newest } else { round };
        }
        for (zone, &round) in (0..).zip(&rounds) {
            let wanted = by_rule(&members, round, zone);
            prop_assert_eq!(lists.drives(lists.of(zone)), &wanted[..]);
            let newest = by_rule(&members, newest, zone);
            prop_assert_eq!(lists.drives(lists.newest(zone)), &newest[..]);
        }
        let counted: u32 = lists.all().map(|(.., zones)| zones).sum();
        prop_assert_eq!(counted, zone_count);
        for (list, _, zones) in lists.all() {
            let have = (0..zone_count).filter(|&zone| lists.of(zone) == list).count();
            prop_assert_eq!(zones as usize, have);
        }
    }

    #[test]
    fn every_block_is_of_one_stripe_at_most(
        (members, zone_count) in pool(),
        (data, parity) in (1u16..6, 1u8..3),
        rounds in proptest::collection::vec(0u16..4, 9),
    ) {
        let geometry = geometry(&members, zone_count);
        let shape = StripeShape::new(data + u16::from(parity), parity).expect("a shape");
        let class = Class::new(ClassId(0), shape, &geometry);
        prop_assume!(class.is_ok());
        let class = class.unwrap_or_else(|_| unreachable!());
        let mut total = 0;
        for zone in 0..zone_count {
            let round = rounds[zone as usize].min(geometry.lists.newest_round());
            geometry.lists.set(zone, round);
            let list = by_rule(&members, round, zone);
            let rows = ZONE_BLOCKS / u32::from(shape.width);
            let enough = list.len() >= shape.width().max(DRIVES_MIN);
            let stripes = if enough { rows * list.len() as u32 } else { 0 };
            prop_assert_eq!(class.stripes_in(zone), stripes);
            total += u64::from(stripes);
            let mut taken = BTreeSet::new();
            for index in 0..stripes {
                let stripe = StripeId { zone, index };
                let mut drives = BTreeSet::new();
                for position in 0..shape.width() {
                    let at = geometry.address(&class, stripe, position);
                    prop_assert!(taken.insert((at.drive, at.offset)), "two blocks at {at:?}");
                    prop_assert!(drives.insert(at.drive), "two blocks of {stripe} on a drive");
                    prop_assert!(list.contains(&at.drive));
                    let zones = geometry.zones_on(at.drive);
                    let begin = zones.offset + u64::from(zone) * geometry.zone_bytes;
                    let end = begin + geometry.zone_bytes;
                    let within = at.offset >= begin && at.offset + u64::from(BLOCK) <= end;
                    prop_assert!(within && end <= zones.offset + zones.len);
                    let flbn = geometry.flbn(&class, stripe, position);
                    prop_assert_eq!(geometry.stripe_of(&class, flbn), (stripe, position));
                }
            }
            prop_assert_eq!(taken.len(), stripes as usize * shape.width());
        }
        prop_assert_eq!(class.stripes(), total);
    }
}

/// A pool whose drives are alike has one list, in the order of the labels.
#[test]
fn drives_that_are_alike_have_one_list() {
    let lists = DriveLists::uniform(7, 40);
    assert_eq!(lists.all().count(), 1);
    assert_eq!((lists.founders(), lists.longest(), lists.newest_round()), (7, 7, 0));
    let all: Vec<DriveIndex> = (0..7).map(DriveIndex).collect();
    assert_eq!(lists.drives(lists.of(39)), all);
}
