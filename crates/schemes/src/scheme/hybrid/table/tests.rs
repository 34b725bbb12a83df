//! Figures 4, 5 and 8 and table 2 of the paper, and the table against a slow oracle.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::shape::Shape;
use super::*;

/// Of figure 4: five drives of RAID5, so four units in a stripe.
const UNITS: u64 = 4;
const UNIT: u64 = 4096;

fn figure_4() -> (Shape, Table) {
    let shape = Shape { stripe: UNITS * UNIT, first_place: 0, places: [8, 8] };
    (shape, Table::new(vec![0; 16], [8, 8], 4).expect("empty"))
}

/// Writes units of the user's space; what became of each stripe.
fn write(shape: &Shape, table: &mut Table, units: std::ops::Range<u64>) -> Vec<Choice> {
    let shares = shape.split(units.start * UNIT, (units.end - units.start) * UNIT);
    let each = shares.into_iter().map(|share| {
        let whole = share.len == shape.stripe;
        let choice = table.choose(share.stripe, if whole { Cover::Full } else { Cover::Partial });
        if let Choice::Move(made) = choice {
            table.arrive(share.stripe, made, true);
        }
        choice
    });
    each.collect()
}

fn place(tier: Tier, number: u32) -> Place {
    Place { tier, number }
}

fn first(tier: Tier, number: u32) -> Choice {
    Choice::Move(Move { from: None, to: place(tier, number) })
}

#[test]
fn figure_4_eleven_units_become_small_full_full_partial() {
    let (shape, mut table) = figure_4();
    let choices = write(&shape, &mut table, 3..14);
    let expected = [
        first(Tier::Mirrors, 0),
        first(Tier::Parity, 0),
        first(Tier::Parity, 1),
        first(Tier::Mirrors, 1),
    ];
    assert_eq!(choices, expected);
}

#[test]
fn figure_5a_a_small_update_takes_a_full_stripe_to_raid1() {
    let (shape, mut table) = figure_4();
    write(&shape, &mut table, 3..14);
    // Accesses 1 to 3 stay; the fourth finds 3, the fifth finds 4.
    let stays = [Choice::Stay(place(Tier::Parity, 0))];
    for accesses in 1..4 {
        assert_eq!(table.accesses(1), accesses);
        assert_eq!(write(&shape, &mut table, 5..6), stays);
    }
    let (from, to) = (Some(place(Tier::Parity, 0)), place(Tier::Mirrors, 2));
    assert_eq!(write(&shape, &mut table, 5..6), [Choice::Move(Move { from, to })]);
    assert_eq!(table.accesses(1), 1);
    assert!(table.space.has_limbo(), "its place in RAID5 is freed");
}

#[test]
fn figure_5b_a_full_update_takes_a_partial_stripe_to_raid5() {
    let (shape, mut table) = figure_4();
    write(&shape, &mut table, 3..14);
    for _ in 1..4 {
        let stays = [Choice::Stay(place(Tier::Mirrors, 1))];
        assert_eq!(write(&shape, &mut table, 12..16), stays);
    }
    let (from, to) = (Some(place(Tier::Mirrors, 1)), place(Tier::Parity, 2));
    assert_eq!(write(&shape, &mut table, 12..16), [Choice::Move(Move { from, to })]);
    assert_eq!(table.accesses(3), 1);
}

/// Best tier by current tier and size of the write, once the threshold is reached.
#[test]
fn table_2_where_updates_go() {
    for (before, after, tier) in [
        (0..4, 0..4, Tier::Parity),
        (0..4, 1..2, Tier::Mirrors),
        (1..2, 0..4, Tier::Parity),
        (1..2, 1..3, Tier::Mirrors),
    ] {
        let (shape, mut table) = figure_4();
        (0..4).for_each(|_| drop(write(&shape, &mut table, before.clone())));
        write(&shape, &mut table, after);
        assert_eq!(table.place(0).map(|place| place.tier), Some(tier));
    }
}

/// With three data drives a write of the middle unit has the sum of first and last unit of a full
/// one (algorithm 1, line 11); it is a small write all the same.
#[test]
fn the_middle_unit_of_three_is_not_a_full_stripe() {
    let shape = Shape { stripe: 3 * UNIT, first_place: 0, places: [2, 2] };
    let mut table = Table::new(vec![0; 4], [2, 2], 4).expect("empty");
    assert_eq!(write(&shape, &mut table, 1..2), [first(Tier::Mirrors, 0)]);
}

#[test]
fn a_full_tier_leads_to_the_other() {
    let (shape, mut table) = figure_4();
    (0..8).for_each(|stripe| drop(write(&shape, &mut table, stripe * 4..stripe * 4 + 1)));
    assert_eq!(write(&shape, &mut table, 32..33), [first(Tier::Parity, 0)]);
    (0..9).for_each(|_| {
        assert_eq!(write(&shape, &mut table, 32..33), [Choice::Stay(place(Tier::Parity, 0))]);
    });
    assert_eq!(table.counts.crowded, 1 + 6, "first write, and the fifth on");
    (9..16).for_each(|stripe| drop(write(&shape, &mut table, stripe * 4..stripe * 4 + 1)));
    assert!(!table.has_room());
}

#[test]
fn entries_that_make_no_sense_are_refused() {
    let both = place::encode(Some(place(Tier::Parity, 1)));
    assert!(Table::new(vec![both, both], [2, 2], 4).is_none());
    assert!(Table::new(vec![1 << 31], [2, 2], 4).is_none());
}

/// What stripes are known to be, by the simplest means there are.
#[derive(Default)]
struct Slow {
    at: BTreeMap<u32, (Place, u64)>,
    /// What the drives would say after a crash now.
    durable: BTreeMap<u32, Place>,
    /// Places that stripes moved away from since then: a map that names them may be on its way.
    left: Vec<Place>,
    reads: Vec<Place>,
    /// What a search would not find free.
    under_way: Vec<(u32, Move)>,
}

impl Slow {
    fn taken(&self) -> BTreeSet<Place> {
        let now = self.at.values().map(|(place, _)| *place);
        let moving = self.under_way.iter().map(|(_, made)| made.to);
        let durable = self.durable.values().copied();
        let still = self.left.iter().chain(&self.reads).copied();
        now.chain(moving).chain(durable).chain(still).collect()
    }

    /// Algorithm 1, its two tables side by side; none: it stays.
    fn goes_to(&self, stripe: u32, full: bool) -> Option<Tier> {
        match self.at.get(&stripe) {
            None if full => Some(Tier::Parity),
            None => Some(Tier::Mirrors),
            Some((place, count)) if *count >= 4 => match (place.tier, full) {
                (Tier::Parity, false) => Some(Tier::Mirrors),
                (Tier::Mirrors, true) => Some(Tier::Parity),
                _ => None,
            },
            Some(_) => None,
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Write { stripe: u32, full: bool, ends: bool },
    EndMove { at: prop::sample::Index, fails: bool },
    Read { stripe: u32 },
    EndRead(prop::sample::Index),
    Commit,
    Offline { stripe: u32, from: Tier },
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    let tier = prop_oneof![Just(Tier::Mirrors), Just(Tier::Parity)];
    let index = any::<prop::sample::Index>;
    prop_oneof![
        12 => (0..12u32, any::<bool>(), any::<bool>())
            .prop_map(|(stripe, full, ends)| Act::Write { stripe, full, ends }),
        3 => (index(), prop::bool::weighted(0.2))
            .prop_map(|(at, fails)| Act::EndMove { at, fails }),
        2 => (0..12u32).prop_map(|stripe| Act::Read { stripe }),
        2 => index().prop_map(Act::EndRead),
        2 => Just(Act::Commit),
        2 => (0..12u32, tier).prop_map(|(stripe, from)| Act::Offline { stripe, from }),
        1 => Just(Act::Crash),
    ]
}

const TOTALS: [u32; 2] = [5, 7];

fn begin_move(slow: &mut Slow, stripe: u32, made: Move) {
    assert!(!slow.taken().contains(&made.to), "{:?} is in use", made.to);
    assert!(made.to.number < TOTALS[made.to.tier as usize]);
    assert_eq!(made.from, slow.at.get(&stripe).map(|(place, _)| *place));
    slow.under_way.push((stripe, made));
}

fn end_move(slow: &mut Slow, table: &mut Table, at: usize, by_write: bool, fails: bool) {
    let (stripe, made) = slow.under_way.remove(at);
    if fails {
        table.space.give_back(made.to);
        return;
    }
    table.arrive(stripe, made, by_write);
    slow.left.extend(made.from);
    slow.at.insert(stripe, (made.to, u64::from(by_write)));
}

fn write_both(slow: &mut Slow, table: &mut Table, (stripe, full): (u32, bool), ends: bool) {
    let goes_to = slow.goes_to(stripe, full);
    let room = |tier: Tier| table.space.has_room(tier);
    let expected = match (slow.at.get(&stripe), goes_to) {
        (None, Some(tier)) => [tier, tier.other()].into_iter().find(|tier| room(*tier)),
        (_, tier) => tier.filter(|tier| room(*tier)),
    };
    let choice = table.choose(stripe, if full { Cover::Full } else { Cover::Partial });
    match choice {
        Choice::Move(made) => {
            assert_eq!(Some(made.to.tier), expected);
            begin_move(slow, stripe, made);
            if ends {
                end_move(slow, table, slow.under_way.len() - 1, true, false);
            }
        }
        Choice::Stay(place) => {
            assert_eq!(expected, None);
            let (own, count) = slow.at.get_mut(&stripe).expect("it has a place");
            assert_eq!(place, *own);
            *count += 1;
        }
        Choice::NoRoom => {
            assert_eq!((expected, slow.at.get(&stripe)), (None, None));
            let all = (TOTALS[0] + TOTALS[1]) as usize;
            assert_eq!(slow.taken().len(), all, "there would have been room");
        }
    }
}

fn crash(slow: &mut Slow) -> Table {
    let entry = |stripe| place::encode(slow.durable.get(&stripe).copied());
    let table = Table::new((0..12).map(entry).collect(), TOTALS, 4).expect("what was durable");
    let at = slow.durable.iter().map(|(stripe, place)| (*stripe, (*place, 0))).collect();
    *slow = Slow { at, durable: std::mem::take(&mut slow.durable), ..Slow::default() };
    table
}

proptest! {
    #[test]
    fn the_table_is_what_a_slow_one_is(acts in prop::collection::vec(act(), 1..300)) {
        let mut table = Table::new(vec![0; 12], TOTALS, 4).expect("empty");
        let mut slow = Slow::default();
        for act in acts {
            let busy = |slow: &Slow, stripe| slow.under_way.iter().any(|(own, _)| *own == stripe);
            match act {
                Act::Write { stripe, full, ends } if !busy(&slow, stripe) => {
                    write_both(&mut slow, &mut table, (stripe, full), ends);
                }
                Act::EndMove { at, fails } if !slow.under_way.is_empty() => {
                    let at = at.index(slow.under_way.len());
                    end_move(&mut slow, &mut table, at, true, fails);
                }
                Act::Read { stripe } => {
                    let place = table.begin_read(stripe);
                    prop_assert_eq!(place, slow.at.get(&stripe).map(|(place, _)| *place));
                    slow.reads.extend(place);
                }
                Act::EndRead(at) if !slow.reads.is_empty() => {
                    let place = slow.reads.swap_remove(at.index(slow.reads.len()));
                    table.space.end_read(place);
                }
                Act::Commit => {
                    table.space.settle(table.space.left());
                    slow.left.clear();
                    slow.durable = slow.at.iter().map(|(s, (place, _))| (*s, *place)).collect();
                }
                Act::Offline { stripe, from } if !busy(&slow, stripe) => {
                    let here = slow.at.get(&stripe).is_some_and(|(place, _)| place.tier == from);
                    let room = table.space.has_room(from.other());
                    let made = table.choose_offline(stripe, from);
                    prop_assert_eq!(made.is_some(), here && room);
                    if let Some(made) = made {
                        begin_move(&mut slow, stripe, made);
                        let last = slow.under_way.len() - 1;
                        end_move(&mut slow, &mut table, last, false, false);
                    }
                }
                Act::Crash => table = crash(&mut slow),
                _ => (),
            }
            if slow.under_way.is_empty() {
                prop_assert_eq!(table.audit(), Vec::<String>::new());
            }
            for (stripe, (place, count)) in &slow.at {
                prop_assert_eq!(table.place(*stripe), Some(*place));
                prop_assert_eq!(u64::from(table.accesses(*stripe)), *count);
            }
        }
    }
}
