//! Offline migration (figure 5c): which stripes leave a tier that is nearly full.
//!
//! ```text
//!   used ≥ threshold ── search: the least written stripes of the tier ── move some at a time
//!    of one tier, and    (a part of the table with each call)            └─ batch done: map
//!    the other has room                                                     made durable
//! ```

use std::collections::{BTreeSet, VecDeque};

use super::place::{TIERS, Tier};
use super::shape::Tuning;
use super::table::Table;

/// Entries looked at in one piece of work: some 100 microseconds.
const SEARCH_AT_ONCE: usize = 1 << 15;
/// Stripes moved in one piece of work, at the same time: two drives' worth of reading and writing
/// without a long row of writes before a request.
const MOVES_AT_ONCE: usize = 4;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is nothing to do.
    Rest,
    /// The search for victims has advanced.
    Searched,
    /// These leave their tier.
    Move(Tier, Vec<u32>),
    /// Places are free as soon as the map is durable.
    Commit,
}

enum Stage {
    Search { next: usize, best: BTreeSet<(u8, u32)> },
    Victims(VecDeque<u32>),
}

#[derive(Default)]
pub struct Offline {
    run: Option<(Tier, Stage)>,
}

fn threshold(table: &Table, tuning: &Tuning, tier: Tier) -> u32 {
    let percent = match tier {
        Tier::Mirrors => tuning.full_mirrors_percent,
        Tier::Parity => tuning.full_parity_percent,
    };
    let places = u64::from(table.space.total(tier)) * u64::from(percent) / 100;
    (places as u32).max(1)
}

/// It is to be emptied, and a stripe more does not make the other one full.
fn must_leave(table: &Table, tuning: &Tuning, tier: Tier) -> bool {
    let full = table.space.used(tier) >= threshold(table, tuning, tier);
    full && takes(table, tuning, tier.other()) > 0
}

/// Stripes that it takes without becoming full: two that are would trade them for ever.
fn takes(table: &Table, tuning: &Tuning, tier: Tier) -> usize {
    let below = threshold(table, tuning, tier).saturating_sub(table.space.used(tier) + 1);
    if table.space.has_room(tier) { below as usize } else { 0 }
}

impl Offline {
    pub fn step(&mut self, table: &Table, tuning: &Tuning) -> Step {
        let Some((from, stage)) = &mut self.run else { return self.begin(table, tuning) };
        match stage {
            Stage::Search { next, best } => {
                let end = table.entries().len().min(*next + SEARCH_AT_ONCE);
                search(table, *from, *next..end, tuning.offline_batch as usize, best);
                *next = end;
                if end == table.entries().len() {
                    let victims = best.iter().map(|(_, stripe)| *stripe).collect();
                    *stage = Stage::Victims(victims);
                }
                Step::Searched
            }
            Stage::Victims(victims) => {
                let count = MOVES_AT_ONCE.min(takes(table, tuning, from.other()));
                let some: Vec<u32> = victims.drain(..victims.len().min(count)).collect();
                if !some.is_empty() {
                    return Step::Move(*from, some);
                }
                self.run = None;
                if table.space.has_limbo() { Step::Commit } else { Step::Rest }
            }
        }
    }

    fn begin(&mut self, table: &Table, tuning: &Tuning) -> Step {
        // A tier whose places are all waiting for the map is not full.
        let waits = |tier: Tier| {
            !table.space.has_room(tier) && table.space.used(tier) < table.space.total(tier)
        };
        if table.space.has_limbo() && TIERS.into_iter().any(waits) {
            return Step::Commit;
        }
        match TIERS.into_iter().find(|tier| must_leave(table, tuning, *tier)) {
            Some(from) => {
                self.run = Some((from, Stage::Search { next: 0, best: BTreeSet::new() }));
                Step::Searched
            }
            None => Step::Rest,
        }
    }
}

/// The `count` stripes of the tier that were written least since they came there.
fn search(
    table: &Table,
    from: Tier,
    stripes: std::ops::Range<usize>,
    count: usize,
    best: &mut BTreeSet<(u8, u32)>,
) {
    for stripe in stripes.map(|stripe| stripe as u32) {
        if table.place(stripe).is_none_or(|place| place.tier != from) {
            continue;
        }
        best.insert((table.accesses(stripe), stripe));
        if best.len() > count {
            best.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::decide::Cover;
    use super::super::table::{Choice, Move};
    use super::*;

    const TUNING: Tuning = Tuning {
        online_threshold: 4,
        full_mirrors_percent: 75,
        full_parity_percent: 75,
        offline_batch: 2,
    };

    fn write(table: &mut Table, stripe: u32, cover: Cover) {
        if let Choice::Move(made) = table.choose(stripe, cover) {
            table.arrive(stripe, made, true);
        }
    }

    /// Victims of a whole run, moved as they are told.
    fn run(table: &mut Table, offline: &mut Offline) -> Vec<u32> {
        run_with(table, offline, &TUNING)
    }

    fn run_with(table: &mut Table, offline: &mut Offline, tuning: &Tuning) -> Vec<u32> {
        let mut moved = Vec::new();
        loop {
            match offline.step(table, tuning) {
                Step::Rest => return moved,
                Step::Searched => (),
                Step::Commit => table.space.settle(table.space.left()),
                Step::Move(from, stripes) => {
                    for stripe in stripes {
                        let made = table.choose_offline(stripe, from).expect("there is room");
                        table.arrive(stripe, made, false);
                        moved.push(stripe);
                    }
                }
            }
        }
    }

    #[test]
    fn figure_5c_the_least_written_leave_a_full_raid1() {
        let mut table = Table::new(vec![0; 24], [8, 16], 4).expect("empty");
        for (stripe, writes) in [(0, 3), (1, 1), (2, 5), (3, 2), (4, 9)] {
            (0..writes).for_each(|_| write(&mut table, stripe, Cover::Partial));
        }
        let mut offline = Offline::default();
        assert_eq!(offline.step(&table, &TUNING), Step::Rest, "five of eight");
        (0..4).for_each(|_| write(&mut table, 5, Cover::Partial));
        assert_eq!(run(&mut table, &mut offline), [1, 3], "six of eight: a batch leaves");
        assert_eq!(table.place(1).map(|place| place.tier), Some(Tier::Parity));
        assert_eq!((table.space.used(Tier::Mirrors), table.accesses(1)), (4, 0));
        assert!(!table.space.has_limbo());
    }

    #[test]
    fn the_least_written_leave_a_full_raid5() {
        let mut table = Table::new(vec![0; 24], [16, 8], 4).expect("empty");
        for stripe in 0..6 {
            (0..=stripe).for_each(|_| write(&mut table, 9 - stripe, Cover::Full));
        }
        assert_eq!(run(&mut table, &mut Offline::default()), [9, 8]);
        assert_eq!(table.place(9).map(|place| place.tier), Some(Tier::Mirrors));
    }

    #[test]
    fn nothing_moves_where_both_are_full() {
        let mut table = Table::new(vec![0; 16], [8, 8], 4).expect("empty");
        (0..8).for_each(|stripe| write(&mut table, stripe, Cover::Full));
        (8..14).for_each(|stripe| write(&mut table, stripe, Cover::Partial));
        assert_eq!(Offline::default().step(&table, &TUNING), Step::Rest);
    }

    /// However much is written: without a request more, what leaves a tier once stays where it is.
    #[test]
    fn tiers_that_are_nearly_full_do_not_trade_stripes_for_ever() {
        let tuning = Tuning { offline_batch: 16, ..TUNING };
        for below in 0..24 {
            let mut table = Table::new(vec![0; 64], [32, 32], 4).expect("empty");
            (0..24).for_each(|stripe| write(&mut table, stripe, Cover::Full));
            (24..48 - below).for_each(|stripe| write(&mut table, stripe, Cover::Partial));
            let (mut offline, mut moved) = (Offline::default(), 0);
            for _ in 0..20 {
                moved += run_with(&mut table, &mut offline, &tuning).len();
            }
            assert!(moved <= 16, "{moved} moves, {below} stripes below both thresholds");
        }
    }

    #[test]
    fn places_that_only_wait_for_the_map_are_made_free() {
        let mut table = Table::new(vec![0; 4], [1, 3], 1).expect("empty");
        write(&mut table, 0, Cover::Partial);
        let moved = table.choose(0, Cover::Full);
        let Choice::Move(made @ Move { from: Some(_), .. }) = moved else { panic!("{moved:?}") };
        table.arrive(0, made, true);
        let mut offline = Offline::default();
        assert_eq!(offline.step(&table, &TUNING), Step::Commit);
        table.space.settle(table.space.left());
        assert_eq!(offline.step(&table, &TUNING), Step::Rest);
    }
}
