//! Slots: held against places that are asked one by one.

use std::collections::BTreeSet;

use format::ObjectKey;
use proptest::prelude::*;

use super::*;

const ROWS: u64 = 24;

fn slots(drives: usize) -> MetaSlots {
    let mut slots = MetaSlots::new(drives, ROWS * SLOT_LEN as u64, 0);
    slots.rebuild_free();
    slots
}

fn key(zone: u32) -> ObjectKey {
    ObjectKey::Zone { zone }
}

/// Drives without those gone that have the part, found the slow way: by asking every place.
fn holding(slots: &MetaSlots, stored: &Stored, part: u16, gone: &BTreeSet<u16>) -> BTreeSet<u16> {
    let places = slots.places_of(stored, part).into_iter();
    places.map(|(drive, _)| drive.0).filter(|at| !gone.contains(at)).collect()
}

fn holders(slots: &MetaSlots, stored: &Stored, part: u16, gone: &BTreeSet<u16>) -> usize {
    holding(slots, stored, part, gone).len()
}

/// Whether a free slot would put the part on a good drive that does not have it.
fn could_have_more(slots: &MetaSlots, stored: &Stored, part: u16, gone: &BTreeSet<u16>) -> bool {
    let held = holding(slots, stored, part, gone);
    let places = slots.free.iter().flat_map(|&slot| slots.places(slot));
    places.map(|(drive, _)| drive.0).any(|at| !gone.contains(&at) && !held.contains(&at))
}

/// Every slot belongs to one part of one object, or is free.
fn check_books(slots: &MetaSlots) {
    let used = slots.objects.values().flat_map(|stored| stored.homes().map(|(_, slot)| slot));
    let mut all: Vec<u32> = used.chain(slots.free.iter().copied()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..slots.total).collect::<Vec<_>>());
}

fn write(slots: &mut MetaSlots, zone: u32, parts: usize, wanted: &Wanted) -> bool {
    let Some(stored) = slots.take(1, parts, wanted) else { return false };
    let old = slots.replace(key(zone), Some(stored));
    slots.give_back(old);
    true
}

#[test]
fn places_and_slots_are_each_others_inverse() {
    for drives in 1..=12 {
        let slots = slots(drives);
        for slot in 0..slots.total {
            for (drive, at) in slots.places(slot) {
                assert_eq!(slots.slot_at(drive, at / SLOT_LEN as u64), slot);
            }
        }
    }
}

#[test]
fn nothing_is_kept_twice_while_all_drives_are_there() {
    let mut slots = slots(9);
    let wanted = Wanted { good: &|_| true, copies: 3 };
    for zone in 0..20 {
        assert!(write(&mut slots, zone, 2, &wanted));
    }
    assert!(slots.objects.values().all(|stored| stored.twins.is_empty()));
    assert_eq!(slots.objects[&key(0)].slots, [1, 0]);
}

#[test]
fn every_third_drive_may_be_gone() {
    let mut slots = slots(9);
    let gone = BTreeSet::from([0, 3, 6]);
    let good = |drive: DriveIndex| !gone.contains(&drive.0);
    let wanted = Wanted { good: &good, copies: 3 };
    for zone in 0..8 {
        assert!(write(&mut slots, zone, 2, &wanted));
        let stored = &slots.objects[&key(zone)];
        assert!(!slots.is_thin(stored, &wanted));
        assert_eq!(stored.twins.len(), 2, "one of each part");
    }
    check_books(&slots);
}

#[test]
fn twins_are_given_up_when_room_is_short() {
    let mut slots = slots(9);
    let gone = BTreeSet::from([0, 3, 6]);
    let good = |drive: DriveIndex| !gone.contains(&drive.0);
    let wanted = Wanted { good: &good, copies: 3 };
    let mut zones = 0;
    while write(&mut slots, zones, 1, &wanted) {
        zones += 1;
        check_books(&slots);
    }
    assert_eq!(zones, slots.total, "no room is lost to twins");
    for stored in slots.objects.values() {
        assert_eq!(holders(&slots, stored, 0, &gone), 2);
    }
}

#[test]
fn twins_that_are_found_are_used_unless_another_object_is_there() {
    let mut slots = slots(9);
    for (zone, slot) in [(0, 5), (1, 6)] {
        slots.objects.insert(key(zone), Stored { seq: 1, slots: vec![slot], twins: Vec::new() });
    }
    let found = vec![(key(0), 0, 6), (key(0), 0, 7), (key(0), 1, 8), (key(2), 0, 9)];
    slots.adopt_twins(found);
    slots.rebuild_free();
    assert_eq!(slots.objects[&key(0)].twins, [(0, 7)]);
    assert!(slots.objects[&key(1)].twins.is_empty());
    check_books(&slots);
}

proptest! {
    /// Whatever is gone: as many good drives as are wanted have each part, or all good ones; never
    /// so that what is stored could not be written again.
    #[test]
    fn parts_are_on_as_many_good_drives_as_wanted(
        drives in 3usize..14,
        mut gone in prop::collection::btree_set(0u16..14, 0..8),
        copies in 1usize..4,
        parts in prop::collection::vec(1usize..4, 1..12),
    ) {
        gone.retain(|&drive| usize::from(drive) < drives);
        let mut slots = slots(drives);
        let good = |drive: DriveIndex| !gone.contains(&drive.0);
        let wanted = Wanted { good: &good, copies };
        let all_good = drives - gone.len();
        for (zone, parts) in (0..).zip(parts) {
            // Twins make room for what has none.
            let twins: usize = slots.objects.values().map(|stored| stored.twins.len()).sum();
            let room = slots.free.len() + twins;
            prop_assert_eq!(write(&mut slots, zone, parts, &wanted), parts <= room);
            check_books(&slots);
            let Some(stored) = slots.objects.get(&key(zone)) else { continue };
            let thin: Vec<u16> = (0..stored.parts())
                .filter(|&part| holders(&slots, stored, part, &gone) < copies.min(all_good))
                .collect();
            let room = slots.free.len() > slots.parts
                && thin.iter().any(|&part| could_have_more(&slots, stored, part, &gone));
            prop_assert!(!room, "there was room for {thin:?}");
            let said = slots.is_thin(stored, &wanted);
            prop_assert_eq!(said, !thin.is_empty() || copies > all_good);
        }
    }
}
