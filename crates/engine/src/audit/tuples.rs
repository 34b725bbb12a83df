//! Tuples: p+1 stripes of one class, matched block by block onto different drives.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use format::StripeId;
use layout::DriveIndex;

use super::report::{Findings, Rule};
use super::tables::Tables;
use crate::geometry::Class;
use crate::space::Kind;
use crate::space::image::TupleState;
use crate::tuple::TupleKey;

pub fn check(tables: &Tables, findings: &mut Findings) {
    let mut owners: BTreeMap<StripeId, Vec<TupleKey>> = BTreeMap::new();
    for (key, tuple) in &tables.space.tuples {
        findings.check(tuple.key() == *key, Rule::Tuples, || {
            format!("the tuple of {} is filed under {key}", tables.stripe_name(tuple.key()))
        });
        for &stripe in &tuple.stripes {
            owners.entry(stripe).or_default().push(*key);
        }
        match tables.zone(*key) {
            Some((_, class)) => {
                check_shape(tables, tuple, class, findings);
                check_slots(tables, tuple, class, findings);
            }
            None => complain(tables, tuple, findings, "its zone has no class"),
        }
        check_life(tables, tuple, findings);
    }
    check_owners(tables, &owners, findings);
    check_order(tables, findings);
    check_open(tables, findings);
}

fn complain(tables: &Tables, tuple: &TupleState, findings: &mut Findings, what: &str) {
    findings
        .add(Rule::Tuples, || format!("the tuple of {}: {what}", tables.stripe_name(tuple.key())));
}

fn check_shape(tables: &Tables, tuple: &TupleState, class: &Class, findings: &mut Findings) {
    if tuple.stripes.len() != class.copies() {
        let count = tuple.stripes.len();
        complain(tables, tuple, findings, &format!("it has {count} stripes, not p+1"));
    }
    for &stripe in &tuple.stripes {
        let same = tables.zone(stripe).is_some_and(|(zone, _)| zone.class == class.id);
        if !same {
            let name = tables.stripe_name(stripe);
            complain(tables, tuple, findings, &format!("{name} is of another class"));
        }
    }
    if tuple.slots.len() != class.data() || tuple.filled.len() != class.data() {
        let (slots, filled) = (tuple.slots.len(), tuple.filled.len());
        let what = format!("{slots} slots, {filled} of them counted, for {} blocks", class.data());
        complain(tables, tuple, findings, &what);
    }
    let most = tables.geometry.block_pages();
    if let Some(pages) = tuple.filled.iter().find(|&&pages| pages > most) {
        let what = format!("a slot has {pages} pages written, a block has {most}");
        complain(tables, tuple, findings, &what);
    }
}

/// Every data block of every stripe is in one slot, and no drive holds two copies.
fn check_slots(tables: &Tables, tuple: &TupleState, class: &Rc<Class>, findings: &mut Findings) {
    for copy in 1..tuple.stripes.len().min(3) {
        let matched: BTreeSet<u8> = tuple.slots.iter().map(|slot| slot[copy - 1]).collect();
        let whole = matched.len() == tuple.slots.len()
            && matched.iter().all(|&position| usize::from(position) < class.data());
        if !whole {
            let what = format!("blocks of its stripe {copy} are not matched one to one");
            complain(tables, tuple, findings, &what);
        }
    }
    for slot in 0..tuple.slots.len().min(class.data()) {
        let drives = copies(tuple, class, slot);
        let different: BTreeSet<DriveIndex> = drives.iter().copied().collect();
        if different.len() < drives.len() {
            let what = format!("two copies of slot {slot} are on one drive ({drives:?})");
            complain(tables, tuple, findings, &what);
        }
    }
}

fn copies(tuple: &TupleState, class: &Class, slot: usize) -> Vec<DriveIndex> {
    let position = |copy: usize| match copy {
        0 => slot,
        _ => usize::from(tuple.slots[slot][copy - 1]).min(class.width() - 1),
    };
    let numbered = tuple.stripes.iter().enumerate();
    numbered.map(|(copy, &stripe)| class.drive(stripe, position(copy))).collect()
}

fn check_life(tables: &Tables, tuple: &TupleState, findings: &mut Findings) {
    let Some((zone, _)) = tables.zone(tuple.key()) else { return };
    let live = zone.live[tuple.key().index as usize];
    let quiet = tuple.unhanded == 0 && tuple.packing == 0 && tuple.inflight == 0 && !tuple.busy;
    if quiet && live == 0 {
        complain(tables, tuple, findings, "nothing in it is live, but it was not buried");
    }
    if tables.locks_free && tuple.inflight > 0 && !tables.failed && !tables.left {
        let what = format!("{} writes are on their way to it, but none is", tuple.inflight);
        complain(tables, tuple, findings, &what);
    }
}

fn check_owners(
    tables: &Tables,
    owners: &BTreeMap<StripeId, Vec<TupleKey>>,
    findings: &mut Findings,
) {
    for (stripe, keys) in owners {
        findings.check(keys.len() == 1, Rule::Tuples, || {
            format!("{} is in {} tuples: {keys:?}", tables.stripe_name(*stripe), keys.len())
        });
        let kind = tables.kind(*stripe);
        findings.check(kind == Some(Kind::Tuple), Rule::Tuples, || {
            format!("{} is in the tuple of {} but {kind:?}", tables.stripe_name(*stripe), keys[0])
        });
    }
    for (stripe, zone) in tables.stripes() {
        let kind = zone.kinds[stripe.index as usize];
        findings.check(kind != Kind::Tuple || owners.contains_key(&stripe), Rule::Tuples, || {
            format!("{} is said to be in a tuple, but is in none", tables.stripe_name(stripe))
        });
    }
}

/// The order of access lists every tuple once, under the tick the tuple knows.
fn check_order(tables: &Tables, findings: &mut Findings) {
    let tuples = tables.space.tuples.iter();
    let mut wanted: Vec<(u64, TupleKey)> = tuples.map(|(key, t)| (t.listed, *key)).collect();
    wanted.sort();
    let kept: BTreeSet<(u64, TupleKey)> = tables.space.lru.iter().copied().collect();
    let missing = wanted.iter().find(|entry| !kept.contains(entry));
    let stray = kept.iter().find(|entry| wanted.binary_search(entry).is_err());
    for (what, entry) in [("lacks", missing), ("has an unknown", stray)] {
        let Some((tick, key)) = entry else { continue };
        findings.add(Rule::Tuples, || {
            format!("the order of access {what} {} at {tick}", tables.stripe_name(*key))
        });
    }
}

/// Slots not handed out, and packed slots with room, belong to tuples that count them.
fn check_open(tables: &Tables, findings: &mut Findings) {
    let mut spare: BTreeMap<TupleKey, u64> = BTreeMap::new();
    let mut packed: BTreeMap<TupleKey, u64> = BTreeMap::new();
    for open in &tables.open {
        open.spare.iter().for_each(|(key, _)| *spare.entry(*key).or_default() += 1);
        open.packed.iter().for_each(|slot| *packed.entry(slot.key).or_default() += 1);
        for key in open.spare.iter().map(|(key, _)| key).chain(open.packed.iter().map(|s| &s.key)) {
            let same = tables.zone(*key).is_some_and(|(zone, _)| zone.class == open.class);
            findings.check(same && tables.tuple(*key).is_some(), Rule::Tuples, || {
                let name = tables.stripe_name(*key);
                format!("a slot of {name} is open for {}, but is no tuple of it", open.class)
            });
        }
    }
    for (key, tuple) in &tables.space.tuples {
        let name = tables.stripe_name(*key);
        let figure = |what: &str| format!("the tuple of {name}: {what}");
        let counted = spare.get(key).copied().unwrap_or(0);
        findings.same(Rule::Tuples, &figure("spare slots"), tuple.unhanded.into(), counted);
        let counted = packed.get(key).copied().unwrap_or(0);
        findings.same(Rule::Tuples, &figure("packed slots"), tuple.packing.into(), counted);
    }
}
