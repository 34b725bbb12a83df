//! Which pages of the log count, among all that lie on the drives after several crashes.

use std::collections::BTreeSet;

use io::rng::Rng;
use proptest::prelude::*;

use super::*;
use crate::grid::{Grid, Redundancy};
use crate::limits::PAGE;

const CASES: u32 = 2000;

/// What a page is written for: another number begins, its entries, how far the tail moves.
type Write = (bool, usize, u64);

#[derive(Clone, Debug)]
struct Opening {
    writes: Vec<Write>,
    /// The crash comes before it has written intents.
    is_short: bool,
    /// Of the last page: which copies are there, and which of the others are torn.
    lands: u32,
    torn: u32,
}

fn openings() -> impl Strategy<Value = Vec<Opening>> {
    let write = (prop::bool::weighted(0.3), 0..40_usize, 0..3_u64);
    let writes = prop::collection::vec(write, 1..12);
    let opening = (writes, any::<bool>(), 0..8_u32, 0..8_u32)
        .prop_map(|(writes, is_short, lands, torn)| Opening { writes, is_short, lands, torn });
    prop::collection::vec(opening, 1..6)
}

/// The drives, and what was written last of each number.
struct World {
    ring: Ring,
    drives: BTreeMap<(usize, u64), Header>,
    newest: BTreeMap<u64, Header>,
    /// Before the last page was written, which may be on some drives only.
    before_last: BTreeMap<u64, Header>,
    intents: u64,
    written: u64,
}

const ALL: u32 = u32::MAX;

impl World {
    fn new(ring: Ring) -> World {
        let (drives, newest, before_last) = Default::default();
        World { ring, drives, newest, before_last, intents: 0, written: 0 }
    }

    fn put(&mut self, header: &Header, lands: u32, torn: u32) {
        for (copy, place) in self.ring.places(header.number, header.version).enumerate() {
            if lands >> copy & 1 == 1 {
                self.drives.insert(place, *header);
            } else if torn >> copy & 1 == 1 {
                self.drives.remove(&place);
            }
        }
    }

    fn head(newest: &BTreeMap<u64, Header>) -> Option<Header> {
        newest.values().next_back().copied()
    }

    /// The page that follows the head: a new version, or the next number.
    fn next(&mut self, opening: u64, (begins, more, moves): Write) -> Header {
        self.written += 1;
        let head = World::head(&self.newest);
        let begins = begins || head.is_none_or(|head| head.opening != opening);
        let number = head.map_or(0, |head| head.number + u64::from(begins));
        // A page leaves room for the next one.
        let least = (number + 2).saturating_sub(self.ring.slots());
        let tail = head.map_or(0, |head| head.tail).max(least);
        let onto = match head {
            Some(head) if head.opening == opening => head.onto,
            other => other.map_or(0, |head| head.opening),
        };
        let own = head.filter(|_| !begins);
        Header {
            number,
            version: own.map_or(0, |head| head.version + 1),
            tail: (tail + moves / 2).min(number + 1),
            first: own.map_or(head.map_or(0, |head| head.end()), |head| head.first),
            // Often no more than before: only what is settled has changed.
            entries: own.map_or(0, |head| head.entries) + more.saturating_sub(20),
            settled: self.written,
            opening,
            before: self.intents,
            onto,
            doubted: false,
            agreed: false,
            records: 0,
        }
    }

    /// It goes on from the head that it finds, and ends in a crash.
    fn run(&mut self, opening: u64, told: &Opening) {
        // The head may be on some drives only: so the others get it.
        if let Some(head) = World::head(&self.newest) {
            self.put(&head, ALL, 0);
        }
        for (at, write) in told.writes.iter().enumerate() {
            let header = self.next(opening, *write);
            self.before_last = self.newest.clone();
            let is_last = at + 1 == told.writes.len();
            self.put(&header, if is_last { told.lands } else { ALL }, told.torn);
            self.newest.insert(header.number, header);
        }
        if told.writes.len() > 1 && (!told.is_short || self.intents == 0) {
            self.intents = opening;
        }
    }

    /// The last page was on none of the drives that are there.
    fn back(&mut self, is_there: impl Fn(&(usize, u64)) -> bool) {
        let last = World::head(&self.newest).expect("one was written");
        let mut places = self.ring.places(last.number, last.version);
        if !places.any(|place| is_there(&place) && self.drives.get(&place) == Some(&last)) {
            self.newest = std::mem::take(&mut self.before_last);
        }
    }

    fn found(&self, is_there: impl Fn(&(usize, u64)) -> bool, rng: &mut Rng) -> Vec<Found> {
        let there = self.drives.iter().filter(|(place, _)| is_there(place));
        let mut found: Vec<Found> =
            there.map(|(&(drive, at), header)| Found { header: *header, drive, at }).collect();
        rng.shuffle(&mut found);
        found
    }
}

fn ring(width: usize, groups: usize, copies: usize, rounds: u64) -> Ring {
    let redundancy = Redundancy::Parity(copies - 1);
    let grid = Grid { redundancy, drives: width * groups, width, chunk: PAGE, rows: 9 };
    let bytes = rounds * copies as u64 * ring::SLOT;
    Ring::new(&grid, copies, 0, bytes).expect("there is room")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    /// However many openings were cut short, and wherever their last pages are: while no more is
    /// missing than the redundancy bears the chain is the newest history, at all its places; with
    /// more missing it tells the same, or there is none.
    #[test]
    fn the_chain_is_the_newest_history(
        openings in openings(),
        (width, groups, copies) in prop_oneof![
            Just((3, 1, 2)), Just((4, 1, 3)), Just((2, 2, 2)), Just((3, 1, 1)),
        ],
        lose in 0..4_usize,
        rots in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut rng = Rng::new(seed);
        let mut world = World::new(ring(width, groups, copies, 1));
        for (at, opening) in openings.iter().enumerate() {
            world.run(10 + at as u64, opening);
            if at + 1 < openings.len() {
                world.back(|_| true);
            }
        }
        // Of each group some drives are missing, or pages of them.
        let mut gone = BTreeSet::new();
        for group in 0..groups {
            let mut all: Vec<usize> = (group * width..(group + 1) * width).collect();
            rng.shuffle(&mut all);
            let lost = &all[..lose.min(width)];
            let places = world.drives.keys().filter(|(drive, _)| lost.contains(drive));
            gone.extend(places.filter(|_| !rots || rng.chance(1, 2)).copied());
        }
        let is_there = |place: &(usize, u64)| !gone.contains(place);
        let found = world.found(is_there, &mut rng);
        world.back(is_there);
        let Some(newest) = World::head(&world.newest).filter(|_| world.intents > 0) else {
            return Ok(());
        };
        let places_of = |header: &Header| {
            let mut own: Vec<Found> =
                found.iter().filter(|own| own.header == *header).copied().collect();
            own.sort_by_key(|own| (own.drive, own.at));
            own
        };
        let is_borne = lose < copies;
        // Nobody can know of what no drive has.
        if !is_borne && places_of(&newest).is_empty() {
            return Ok(());
        }
        let head = head(&found, world.intents);
        prop_assert_eq!(head, Some(newest));
        let right = world.newest.range(newest.tail..newest.number + 1);
        let right: Vec<Vec<Found>> = right.map(|(_, header)| places_of(header)).collect();
        let whole = right.iter().all(|places| !places.is_empty());
        prop_assert!(whole || !is_borne);
        let chain = chain(&found, &newest).map(|mut pages| {
            pages.iter_mut().for_each(|own| own.sort_by_key(|own| (own.drive, own.at)));
            pages
        });
        if whole {
            prop_assert_eq!(chain, Some(right));
            return Ok(());
        }
        // Of a page that is gone an older version may have all its entries.
        let same = |(own, right): (&Vec<Found>, &Header)| {
            let of = |own: &Header| (own.number, own.opening, own.first, own.entries);
            of(&own[0].header) == of(right)
        };
        let history = || world.newest.range(newest.tail..).map(|(_, header)| header);
        prop_assert!(chain.is_none_or(|pages| pages.iter().zip(history()).all(same)));
    }
}

fn page(number: u64, version: u64, opening: u64, before: u64) -> Header {
    Header {
        number,
        version,
        tail: 0,
        first: 10 * number,
        entries: 10,
        settled: 0,
        opening,
        before,
        onto: before,
        doubted: false,
        agreed: false,
        records: 0,
    }
}

fn found(headers: &[Header]) -> Vec<Found> {
    let place = |(at, header): (usize, &Header)| Found { header: *header, drive: at, at: 0 };
    headers.iter().enumerate().map(place).collect()
}

#[test]
fn a_head_is_of_the_opening_of_the_intents_or_of_one_that_followed_it() {
    let pages = found(&[page(5, 2, 7, 6), page(6, 0, 8, 7), page(6, 1, 8, 7), page(9, 9, 3, 2)]);
    let of = |opening| head(&pages, opening).map(|head| (head.number, head.version));
    assert_eq!(of(7), Some((6, 1)), "cut short before its intents");
    assert_eq!(of(8), Some((6, 1)));
    assert_eq!(of(6), Some((5, 2)));
    assert_eq!(of(3), Some((9, 9)));
    assert_eq!(of(9), None, "of software that keeps no log");
    assert_eq!(of(0), None, "of software that keeps no marks");
    let nobody = found(&[page(0, 0, 4, 0)]);
    assert_eq!(head(&nobody, 0), None, "of an array that was never opened");
    assert!(head(&nobody, 4).is_some());
}

#[test]
fn a_log_of_which_nothing_is_needed_has_no_pages() {
    let last = Header { tail: 6, ..page(5, 0, 7, 6) };
    assert_eq!(chain(&found(&[last]), &last), Some(Vec::new()));
    let needed = Header { tail: 4, ..last };
    assert_eq!(chain(&found(&[needed]), &needed), None);
}

/// An opening wrote a page of the log and was cut short before its intents. The next one went on
/// from that page, and said that it came after the opening before both: the crash after it found no
/// way back from its pages, and doubted all checksums of marked regions.
#[test]
fn an_opening_that_was_cut_short_stays_in_the_chain() {
    let first = page(0, 0, 1, 0);
    let short = page(1, 0, 2, 1);
    let next = Header { onto: 2, ..page(2, 0, 3, 1) };
    let pages = found(&[next, short, first]);
    assert_eq!(head(&pages, 3), Some(next));
    let chain = chain(&pages, &next).expect("all are there");
    let headers: Vec<Header> = chain.iter().map(|places| places[0].header).collect();
    assert_eq!(headers, [first, short, next]);
}
