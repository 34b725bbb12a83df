//! Where each block of a log lies, how much of each segment counts, and which places are free.
//!
//! ```text
//!   begin ──► open ── full ──► full ── summary written ──► closed ──► emptied by the cleaner
//!               nothing of it counts any more │                          │
//!                                             ▼                          ▼
//!             given back ◄── nobody reads it ── what came after it is durable ◄── dead
//! ```
//! What makes a segment dead is written before: blocks elsewhere. The place is begun anew only when
//! that is durable too, or a crash could leave neither.

use std::collections::{BTreeMap, BTreeSet};

use classical::sums::UNKNOWN;

use super::size::Shape;

/// A page of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub segment: u32,
    pub page: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The medium's.
    #[default]
    Free,
    /// Records are appended to it.
    Open,
    /// Nothing is appended any more; no summary yet.
    Full,
    Closed,
    /// Nothing counts, as memory knows; each with the number of its death.
    Dead(u64),
    /// As the drives know, too; but it is being read.
    Awaited,
}

#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    state: State,
    live: u32,
    pins: u32,
}

#[derive(Clone, Debug)]
pub struct Table {
    pages: u32,
    /// Segment and page in one number, plus one; 0 for a block that was never written. Four bytes
    /// a block: memory that was never touched costs nothing.
    map: Vec<u32>,
    /// Of each block; none at all if nobody looks.
    sums: Vec<u32>,
    segments: Vec<Segment>,
    /// Bounded by the segments there are.
    dead: BTreeMap<u64, u32>,
    deaths: u64,
    mapped: u64,
}

impl Table {
    /// Of so many blocks in so many segments.
    pub fn new(blocks: u32, shape: Shape, segments: u32) -> Table {
        let pages = shape.pages;
        assert!(
            u64::from(pages) * u64::from(segments) < u64::from(u32::MAX),
            "places have 32 bits"
        );
        Table {
            pages,
            map: vec![0; blocks as usize],
            sums: vec![UNKNOWN; if shape.sums { blocks as usize } else { 0 }],
            segments: vec![Segment::default(); segments as usize],
            dead: BTreeMap::new(),
            deaths: 0,
            mapped: 0,
        }
    }

    fn number(&self, place: Place) -> u32 {
        place.segment * self.pages + place.page + 1
    }

    pub fn find(&self, block: u32) -> Option<Place> {
        let number = self.map[block as usize].checked_sub(1)?;
        Some(Place { segment: number / self.pages, page: number % self.pages })
    }

    /// What the block's page should be.
    pub fn sum(&self, block: u32) -> u32 {
        self.sums.get(block as usize).copied().unwrap_or(UNKNOWN)
    }

    /// Bytes of memory that sums take.
    pub fn sums_memory(&self) -> u64 {
        size_of_val(&self.sums[..]) as u64
    }

    /// Pages of a segment where blocks lie. Looks through all there are: for what is rarely asked.
    pub fn live_pages(&self, segment: u32) -> BTreeSet<u32> {
        let first = self.number(Place { segment, page: 0 });
        let own = self.map.iter().filter_map(|number| number.checked_sub(first));
        own.filter(|page| *page < self.pages).collect()
    }

    pub fn blocks(&self) -> u32 {
        self.map.len() as u32
    }

    /// Blocks that were ever written.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    pub fn state(&self, segment: u32) -> State {
        self.segments[segment as usize].state
    }

    pub fn live(&self, segment: u32) -> u32 {
        self.segments[segment as usize].live
    }

    fn at(&mut self, segment: u32) -> &mut Segment {
        &mut self.segments[segment as usize]
    }

    /// The block lies here now; what it had before counts no more.
    pub fn put(&mut self, block: u32, place: Place, sum: u32) {
        if let Some(old) = self.find(block) {
            let segment = self.at(old.segment);
            segment.live -= 1;
            self.mapped -= 1;
            self.look_for_death(old.segment);
        }
        self.map[block as usize] = self.number(place);
        if let Some(own) = self.sums.get_mut(block as usize) {
            *own = sum;
        }
        self.at(place.segment).live += 1;
        self.mapped += 1;
    }

    /// A copy of what lies at one place is at another: it counts unless the block is elsewhere by
    /// now.
    pub fn relocate(&mut self, block: u32, from: Place, to: Place) -> bool {
        let same = self.find(block) == Some(from);
        if same {
            self.put(block, to, self.sum(block));
        }
        same
    }

    fn look_for_death(&mut self, segment: u32) {
        let own = &self.segments[segment as usize];
        if own.live == 0 && matches!(own.state, State::Full | State::Closed) {
            self.deaths += 1;
            let deaths = self.deaths;
            self.at(segment).state = State::Dead(deaths);
            self.dead.insert(deaths, segment);
        }
    }

    pub fn begin(&mut self, segment: u32) {
        let own = self.at(segment);
        assert!(own.state == State::Free && own.live == 0 && own.pins == 0, "it is nobody's");
        own.state = State::Open;
    }

    /// It is the log's since before it was opened; what counts of it is told by [`Table::put`].
    pub fn adopt(&mut self, segment: u32) {
        assert!(self.state(segment) == State::Free, "it is told once");
        self.at(segment).state = State::Open;
    }

    /// All segments are told. False: nothing in this one counts, its place is free.
    pub fn keep(&mut self, segment: u32) -> bool {
        assert!(self.state(segment) == State::Open, "it was adopted");
        let kept = self.live(segment) > 0;
        self.at(segment).state = if kept { State::Closed } else { State::Free };
        kept
    }

    /// Nothing more is appended.
    pub fn fill(&mut self, segment: u32) {
        assert!(self.state(segment) == State::Open, "it is being appended to");
        self.at(segment).state = State::Full;
        self.look_for_death(segment);
    }

    /// Its summary is durable; unless it died meanwhile.
    pub fn close(&mut self, segment: u32) {
        if self.state(segment) == State::Full {
            self.at(segment).state = State::Closed;
        }
    }

    /// Segments that can be emptied.
    pub fn closed(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = (0..).zip(&self.segments);
        all.filter(|(_, own)| own.state == State::Closed).map(|(number, own)| (number, own.live))
    }

    pub fn has_dead(&self) -> bool {
        !self.dead.is_empty()
    }

    /// Deaths by now: for [`Table::settle`].
    pub fn deaths(&self) -> u64 {
        self.deaths
    }

    /// What had been written when so many were dead is durable. Those to give back.
    pub fn settle(&mut self, deaths: u64) -> Vec<u32> {
        let mut back = Vec::new();
        while let Some((&number, &segment)) = self.dead.first_key_value() {
            if number > deaths {
                break;
            }
            self.dead.remove(&number);
            let own = self.at(segment);
            own.state = if own.pins > 0 { State::Awaited } else { State::Free };
            back.extend((own.state == State::Free).then_some(segment));
        }
        back
    }

    pub fn pin(&mut self, segment: u32) {
        let own = self.at(segment);
        assert!(own.state != State::Free, "nobody reads what is free");
        own.pins += 1;
    }

    /// True: give it back.
    pub fn unpin(&mut self, segment: u32) -> bool {
        let own = self.at(segment);
        own.pins -= 1;
        let back = own.pins == 0 && own.state == State::Awaited;
        if back {
            own.state = State::Free;
        }
        back
    }

    /// Some place is free as soon as nobody reads it.
    pub fn is_awaited(&self) -> bool {
        self.segments.iter().any(|own| own.state == State::Awaited)
    }

    /// What contradicts itself. For tests.
    pub fn audit(&self) -> Vec<String> {
        let (mut wrong, mut live) = (Vec::new(), vec![0; self.segments.len()]);
        let mut seen = BTreeSet::new();
        for block in 0..self.blocks() {
            let Some(place) = self.find(block) else { continue };
            live[place.segment as usize] += 1;
            if !seen.insert(place) {
                wrong.push(format!("{place:?} holds two blocks, {block} is one"));
            }
        }
        for (number, own) in self.segments.iter().enumerate() {
            if own.live != live[number] {
                wrong
                    .push(format!("segment {number}: {} live, {} counted", own.live, live[number]));
            }
            let may_live = matches!(own.state, State::Open | State::Full | State::Closed);
            if own.live > 0 && !may_live {
                wrong.push(format!("segment {number} is {:?} and holds blocks", own.state));
            }
            if own.live == 0 && matches!(own.state, State::Full | State::Closed) {
                wrong.push(format!("segment {number} is empty and nobody knows"));
            }
        }
        if seen.len() as u64 != self.mapped {
            wrong.push(format!("{} blocks mapped, {} counted", self.mapped, seen.len()));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use io::rng::{Rng, mix};

    use super::*;

    const BLOCKS: u32 = 24;
    const PAGES: u32 = 8;
    const SEGMENTS: u32 = 9;

    /// The same as lists that are searched: which pages hold what, what was given back.
    #[derive(Default)]
    struct Oracle {
        blocks: BTreeMap<u32, Place>,
        sums: BTreeMap<u32, u32>,
        /// Everything in use, with the number of flushes begun when it was found empty.
        used: BTreeMap<u32, (bool, Option<u64>)>,
        pins: Vec<u32>,
        free: BTreeSet<u32>,
    }

    impl Oracle {
        fn compare(&self, table: &Table) {
            assert_eq!(table.audit(), Vec::<String>::new());
            for block in 0..BLOCKS {
                assert_eq!(table.find(block), self.blocks.get(&block).copied());
                assert_eq!(table.sum(block), self.sums.get(&block).copied().unwrap_or(0));
            }
        }

        fn is_empty(&self, segment: u32) -> bool {
            self.blocks.values().all(|place| place.segment != segment)
        }

        fn note_deaths(&mut self, flushes: u64) {
            let full: Vec<u32> =
                self.used.iter().filter(|(_, own)| own.0).map(|(at, _)| *at).collect();
            for segment in full {
                if self.is_empty(segment) {
                    let own = self.used.get_mut(&segment).expect("used");
                    own.1 = own.1.or(Some(flushes));
                }
            }
        }

        /// What may be begun anew once the flush of this number is done.
        fn free(&mut self, flushed: u64) {
            let settled = |(at, own): (&u32, &(bool, Option<u64>))| {
                own.1.is_some_and(|died| died < flushed).then_some(*at)
            };
            let settled: Vec<u32> = self.used.iter().filter_map(settled).collect();
            for segment in settled.into_iter().filter(|at| !self.pins.contains(at)) {
                self.used.remove(&segment);
                self.free.insert(segment);
            }
        }
    }

    fn put_or_relocate(
        table: &mut Table,
        oracle: &mut Oracle,
        (block, sum): (u32, u32),
        place: Place,
        moves: bool,
    ) {
        let from = oracle.blocks.insert(block, place);
        if let Some(from) = from.filter(|_| moves) {
            assert!(table.relocate(block, from, place));
        } else {
            oracle.sums.insert(block, sum);
            table.put(block, place, sum);
            // What was found before may not count any more.
            assert!(!from.is_some_and(|from| table.relocate(block, from, place)));
        }
    }

    #[test]
    fn it_is_what_lists_that_are_searched_say() {
        for seed in 0..400 {
            let mut rng = Rng::new(mix(seed));
            let mut table = Table::new(BLOCKS, Shape { pages: PAGES, sums: true }, SEGMENTS);
            let mut oracle = Oracle { free: (0..SEGMENTS).collect(), ..Oracle::default() };
            let mut free: BTreeSet<u32> = (0..SEGMENTS).collect();
            let (mut open, mut end, mut flushes, mut flushed): (Option<u32>, u32, u64, u64) =
                (None, 0, 1, 0);
            let mut marks: Vec<(u64, u64)> = Vec::new();
            for _ in 0..200 {
                match rng.below(10) {
                    0..5 => {
                        if end == PAGES
                            && let Some(segment) = open.take()
                        {
                            table.fill(segment);
                            oracle.used.get_mut(&segment).expect("used").0 = true;
                            oracle.note_deaths(flushes);
                        }
                        if open.is_none() {
                            let Some(segment) = free.pop_first() else { continue };
                            table.begin(segment);
                            oracle.free.remove(&segment);
                            oracle.used.insert(segment, (false, None));
                            (open, end) = (Some(segment), 0);
                        }
                        let place = Place { segment: open.expect("just begun"), page: end };
                        let block = (rng.below(u64::from(BLOCKS)) as u32, rng.next_u64() as u32);
                        end += 1;
                        put_or_relocate(&mut table, &mut oracle, block, place, rng.chance(1, 2));
                        oracle.note_deaths(flushes);
                    }
                    5 => {
                        let closed = oracle.used.iter().find(|(_, own)| own.0);
                        closed.into_iter().for_each(|(at, _)| table.close(*at));
                    }
                    6 => {
                        let at = rng.index(oracle.used.len().max(1));
                        if let Some(segment) = oracle.used.keys().nth(at).copied() {
                            table.pin(segment);
                            oracle.pins.push(segment);
                        }
                    }
                    7 if !oracle.pins.is_empty() => {
                        let segment = oracle.pins.swap_remove(rng.index(oracle.pins.len()));
                        free.extend(table.unpin(segment).then_some(segment));
                        oracle.free(flushed);
                    }
                    8 => {
                        marks.push((flushes, table.deaths()));
                        flushes += 1;
                    }
                    _ => {
                        if let Some((number, deaths)) = marks.pop() {
                            flushed = flushed.max(number);
                            free.extend(table.settle(deaths));
                            // It began after what was dead then; the oracle counts flushes.
                            oracle.free(number + 1);
                            flushed = flushed.max(number + 1);
                        }
                    }
                }
                oracle.compare(&table);
                assert_eq!(free, oracle.free, "seed {seed}");
            }
        }
    }
}
