//! The log's memory against a slow oracle that keeps every entry, through crashes at any point.

use io::rng::Rng;
use proptest::prelude::*;

use super::*;
use crate::checksum_log::{Found, chain, head};

mod world;

use world::World;

const CASES: u32 = 1500;
const DRIVES: usize = 3;
/// Pages of a drive: two pages of checksums.
const PAGES: u64 = PER_PAGE + 200;

#[derive(Clone, Debug)]
enum Step {
    /// Pages of a drive from one on are written.
    Append {
        drive: usize,
        first: u64,
        count: u64,
    },
    /// One of the writes on their way is durable, or in the caches.
    Durable(usize),
    Cached(usize),
    FlushBegins,
    Flushed(usize),
    Record(usize),
    Take,
    Written,
    /// The page may be there or not: nobody was told.
    Failed(bool),
    StoreBegins(usize),
    StoreEnded(usize),
    Crash(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few pages that are written again and again, and long runs that fill the log.
    let first = prop_oneof![0..4_u64, PER_PAGE - 2..PER_PAGE + 2, 0..PAGES];
    let count = prop_oneof![3 => 1..4_u64, 1 => 1..200_u64];
    let append = (0..DRIVES, first, count).prop_map(|(drive, first, count)| Step::Append {
        drive,
        first,
        count: count.min(PAGES - first),
    });
    let which = || 0..8_usize;
    let step = prop_oneof![
        8 => append,
        4 => which().prop_map(Step::Durable),
        4 => which().prop_map(Step::Cached),
        2 => Just(Step::FlushBegins),
        2 => which().prop_map(Step::Flushed),
        1 => (0..DRIVES).prop_map(Step::Record),
        4 => Just(Step::Take),
        4 => Just(Step::Written),
        1 => any::<bool>().prop_map(Step::Failed),
        1 => which().prop_map(Step::StoreBegins),
        1 => which().prop_map(Step::StoreEnded),
        1 => any::<u64>().prop_map(Step::Crash),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    /// Whatever is done, and wherever a crash comes: what is committed is found again, what is
    /// settled is found alone, and nothing that is needed is overwritten. Rings are so small that
    /// they are often full.
    #[test]
    fn what_was_committed_is_found_again(
        steps in steps(), slots in 3..9_u64, seed in any::<u64>(),
    ) {
        let mut world = World::new(slots);
        for (at, step) in steps.into_iter().enumerate() {
            world.step(step);
            // Slow: there are many pages.
            if at % 4 == 0 {
                world.check();
            }
        }
        world.crash(&mut Rng::new(seed));
        world.check();
        world.comes_to_rest();
    }
}

/// The ring was full, and the page that took the place of its first one was torn on all drives: the
/// page before it, the head again, still named the first one as its tail, so that no checksum of a
/// marked region was believed any more.
#[test]
fn a_torn_page_takes_nothing_with_it_that_the_head_before_it_needs() {
    let mut world = World::new(3);
    let half_a_page = |world: &mut World| {
        for _ in 0..ENTRIES / 4 {
            world.step(Step::Append { drive: 0, first: 0, count: 2 });
            world.step(Step::Durable(0));
        }
        world.step(Step::Take);
    };
    for _ in 0..6 {
        half_a_page(&mut world);
        world.step(Step::Written);
    }
    half_a_page(&mut world);
    world.tear();
    world.check();
}

/// While recovery was looking at pages that may be old or new, the log was full, and the area got
/// their page of checksums as it had been: the tail moved beyond their entries. A second crash then
/// found the old checksums alone, and took what a FLUSH had made durable for rot.
#[test]
fn what_recovery_has_not_looked_at_yet_is_found_by_the_next_crash_too() {
    let own = Entry { drive: 1, page: 5, checksum: 77 };
    let mut state = State::new((1, 0), None, false);
    state.append(1, 5, &[(66, 77)]);
    let (header, entries) = state.take_page(0);
    assert_eq!((header.settled, &entries[..]), (0, &[own][..]));
    // Opened again after a crash, as the page was left.
    let mut state = State::new((2, 1), Some(&header), false);
    state.found(&header);
    state.found_entry(0, own, 66);
    let run = state.append(2, 0, &[(10, 11)]);
    state.durable(&run);
    state.store_begins((1, 0));
    assert_eq!(state.settled_in((1, 0)).collect::<Vec<_>>(), [(5, 66)], "what is stored");
    state.store_ended((1, 0));
    let (news, _) = state.take_page(0);
    assert_eq!((news.number, news.tail, news.settled), (1, 0, 0), "the next crash needs both");
    state.page_written(&news);
    assert_eq!(state.unsettled(), 2);
    // Everything has been looked at, and is what memory says.
    state.recovered();
    assert_eq!((state.unsettled(), state.has_unsettled((1, 0))), (0, false));
    [(1, 0), (2, 0)].into_iter().for_each(|page| state.store_begins(page));
    [(1, 0), (2, 0)].into_iter().for_each(|page| state.store_ended(page));
    assert_eq!(state.take_page(0).0.tail, 2);
}

/// A record that waited for a page of its own while another was told of left two in one page: the
/// older one was the last.
#[test]
fn the_newest_of_a_drive_s_records_is_the_last_of_a_page() {
    let mut state = State::new((1, 0), None, false);
    [5, 6].into_iter().for_each(|sequence| state.note_record(2, sequence));
    let (header, _) = state.take_page(0);
    state.page_written(&header);
    state.note_record(2, 7);
    let (_, entries) = state.take_page(0);
    assert_eq!(entries.last().map(|own| own.checksum), Some(7));
}

/// A newer one was told, waited for a page, and an older place was told the newest: what came last
/// in the log was the older.
#[test]
fn the_newest_record_comes_last_also_if_more_waits_than_a_page_holds() {
    let mut state = State::new((1, 0), None, false);
    state.note_record(2, 5);
    for _ in 0..ENTRIES {
        state.append(1, 5, &[(66, 77)]);
    }
    state.note_record(2, 6);
    // Of a page that could not be written.
    state.take_page(0);
    state.note_record(2, 7);
    let mut told = Vec::new();
    while state.has_more() || told.is_empty() {
        let (header, entries) = state.take_page(0);
        state.page_written(&header);
        told.extend(entries);
    }
    let last = told.iter().rfind(|own| own.page == LAST_RECORD);
    assert_eq!(last.map(|own| own.checksum), Some(7));
}

/// Of a page that has its first checksum the drives know that only when they are told that it is
/// settled; if it is written over before, a crash would find nothing that it surely was.
#[test]
fn a_first_checksum_is_told_once_its_page_is_durable_and_the_next_page_says_so() {
    let mut state = State::new((1, 0), None, false);
    let commit = |state: &mut State| {
        let (header, _) = state.take_page(0);
        state.page_written(&header);
    };
    commit(&mut state);
    assert!(state.is_told(0, 0..PAGES), "there is nothing to tell");
    let first = state.append(0, 5, &[(UNKNOWN, 10)]);
    assert!(!state.is_told(0, 0..PAGES), "no page has it");
    commit(&mut state);
    assert!(state.is_told(0, 0..PAGES), "its data is on its way: nothing was flushed");
    state.durable(&first);
    assert!(!state.is_told(0, 5..6), "it was flushed, which no page says");
    assert!(state.is_told(0, 0..5) && state.is_told(1, 0..PAGES));
    commit(&mut state);
    assert!(state.is_told(0, 0..PAGES));
    let second = state.append(0, 5, &[(10, 11)]);
    commit(&mut state);
    state.durable(&second);
    assert!(state.is_told(0, 0..PAGES), "before it was the first");
}
