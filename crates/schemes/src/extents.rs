//! Which ranges of addresses have their newest bytes in an append log, and where there.
//!
//! ```text
//!   address   |──── live ────|         |── settled ──|          live: reads go to the log
//!                  ▼                          ▼                 settled: also in place by now
//!   log       ... [ ] ............... [ ] .............
//! ```
//! A settled range stays until the log's tail has passed it: until then a crash brings it back, so
//! whoever writes there in place must say in the log that it is void. In memory; opening fills it
//! from the log. Ranges number at most twice the entries between tail and end of the log: each
//! entry adds one and divides one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::log::Place;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    end: u64,
    place: Place,
    live: bool,
}

/// A range with one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub range: Range<u64>,
    /// `None`: not in the log.
    pub place: Option<Place>,
}

/// Live bytes of every stretch of so many bytes of addresses: how much of a stripe is there.
struct Fullness {
    unit: u64,
    bytes: BTreeMap<u64, u64>,
    order: BTreeSet<(u64, Reverse<u64>)>,
}

impl Fullness {
    fn change(&mut self, range: Range<u64>, change: impl Fn(u64, u64) -> u64) {
        for at in range.start / self.unit..range.end.div_ceil(self.unit) {
            let (first, end) = (at * self.unit, (at + 1) * self.unit);
            let own = range.end.min(end) - range.start.max(first);
            let before = self.bytes.remove(&at).unwrap_or(0);
            self.order.remove(&(before, Reverse(at)));
            let after = change(before, own);
            if after > 0 {
                self.bytes.insert(at, after);
                self.order.insert((after, Reverse(at)));
            }
        }
    }
}

pub struct Extents {
    map: BTreeMap<u64, Extent>,
    /// Position of the data and address, of live ones and of settled ones.
    live: BTreeSet<(u64, u64)>,
    settled: BTreeSet<(u64, u64)>,
    live_bytes: u64,
    fullness: Fullness,
}

fn moved(place: Place, by: u64) -> Place {
    Place { at: place.at + by, ..place }
}

impl Extents {
    /// `unit`: bytes of a stripe.
    pub fn new(unit: u64) -> Extents {
        Extents {
            map: BTreeMap::new(),
            live: BTreeSet::new(),
            settled: BTreeSet::new(),
            live_bytes: 0,
            fullness: Fullness { unit, bytes: BTreeMap::new(), order: BTreeSet::new() },
        }
    }

    fn insert(&mut self, start: u64, extent: Extent) {
        let index = if extent.live { &mut self.live } else { &mut self.settled };
        index.insert((extent.place.at, start));
        if extent.live {
            self.live_bytes += extent.end - start;
            self.fullness.change(start..extent.end, |before, own| before + own);
        }
        let before = self.map.insert(start, extent);
        assert!(before.is_none(), "ranges do not overlap");
    }

    fn take(&mut self, start: u64) -> Extent {
        let extent = self.map.remove(&start).expect("it is there");
        let index = if extent.live { &mut self.live } else { &mut self.settled };
        index.remove(&(extent.place.at, start));
        if extent.live {
            self.live_bytes -= extent.end - start;
            self.fullness.change(start..extent.end, |before, own| before - own);
        }
        extent
    }

    /// Afterwards none goes over this address.
    fn cut(&mut self, at: u64) {
        let before = self.map.range(..at).next_back();
        let Some((start, _)) = before.filter(|(_, extent)| extent.end > at) else { return };
        let start = *start;
        let extent = self.take(start);
        self.insert(start, Extent { end: at, ..extent });
        self.insert(at, Extent { place: moved(extent.place, at - start), ..extent });
    }

    /// Starts of what lies in the range, which begins and ends where ranges do.
    fn cut_out(&mut self, range: &Range<u64>) -> Vec<u64> {
        self.cut(range.start);
        self.cut(range.end);
        self.map.range(range.clone()).map(|(start, _)| *start).collect()
    }

    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, Extent)> {
        let first = self.map.range(..range.start).next_back().map_or(range.start, |(at, _)| *at);
        let range = range.clone();
        let all = self.map.range(first..range.end);
        all.filter(move |(_, extent)| extent.end > range.start).map(move |(start, extent)| {
            let from = range.start.max(*start);
            let place = moved(extent.place, from - start);
            (from..range.end.min(extent.end), Extent { place, ..*extent })
        })
    }

    /// The range is in the log, where it is not there with something newer already.
    pub fn put(&mut self, range: Range<u64>, place: Place) {
        let mut gaps = vec![range.clone()];
        for start in self.cut_out(&range) {
            if self.map[&start].place.at < place.at {
                self.take(start);
                continue;
            }
            let last = gaps.pop().expect("there is always a last");
            gaps.extend([last.start..start, self.map[&start].end..last.end]);
        }
        for gap in gaps.into_iter().filter(|gap| !gap.is_empty()) {
            let place = moved(place, gap.start - range.start);
            self.insert(gap.start, Extent { end: gap.end, place, live: true });
        }
    }

    /// What was read at this place is in its place now: unless something newer has come.
    pub fn settle(&mut self, range: Range<u64>, place: Place) {
        for start in self.cut_out(&range) {
            let same = self.map[&start].place.at == place.at + (start - range.start);
            if same && self.map[&start].live {
                let extent = self.take(start);
                self.insert(start, Extent { live: false, ..extent });
            }
        }
    }

    /// The log says that nothing of the range in it counts.
    pub fn remove(&mut self, range: Range<u64>) {
        for start in self.cut_out(&range) {
            self.take(start);
        }
    }

    /// The log's tail is here: what lies before can't come back.
    pub fn forget_before(&mut self, tail: u64) {
        let first = self.live.first();
        assert!(first.is_none_or(|(at, _)| *at >= tail), "what counts is not freed");
        while let Some((_, start)) = self.settled.first().copied().filter(|(at, _)| *at < tail) {
            self.take(start);
        }
    }

    /// Where to read each byte of the range.
    pub fn find(&self, range: Range<u64>) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut at = range.start;
        for (found, extent) in self.overlapping(&range).filter(|(_, extent)| extent.live) {
            if at < found.start {
                pieces.push(Piece { range: at..found.start, place: None });
            }
            at = found.end;
            let goes_on = pieces.last_mut().filter(|last| {
                let len = last.range.end - last.range.start;
                last.range.end == found.start
                    && last.place.is_some_and(|place| moved(place, len) == extent.place)
            });
            match goes_on {
                Some(last) => last.range.end = found.end,
                None => pieces.push(Piece { range: found, place: Some(extent.place) }),
            }
        }
        if at < range.end {
            pieces.push(Piece { range: at..range.end, place: None });
        }
        pieces
    }

    /// Whether anything of the range would come back from the log in a crash.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        self.overlapping(range).next().is_some()
    }

    /// The live range whose bytes lie first in the log.
    pub fn oldest(&self) -> Option<(u64, Place)> {
        let (_, start) = self.live.first()?;
        Some((*start, self.map[start].place))
    }

    /// The stripe with most live bytes; of equals the first.
    pub fn fullest(&self) -> Option<u64> {
        self.fullness.order.last().map(|(_, Reverse(stripe))| *stripe)
    }

    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// What of it contradicts itself, or a log from `tail` to `end`.
    pub fn audit(&self, log: Range<u64>) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut at = 0;
        let mut live = 0;
        for (start, extent) in &self.map {
            if *start < at || extent.end <= *start {
                wrong.push(format!("ranges overlap at {start}"));
            }
            at = extent.end;
            live += if extent.live { extent.end - start } else { 0 };
            let inside = log.contains(&extent.place.record) && log.contains(&extent.place.at);
            if !inside {
                wrong.push(format!("{start} lies at {:?}, the log is {log:?}", extent.place));
            }
            let index = if extent.live { &self.live } else { &self.settled };
            if !index.contains(&(extent.place.at, *start)) {
                wrong.push(format!("{start} is not found by its place"));
            }
        }
        if live != self.live_bytes || self.live.len() + self.settled.len() != self.map.len() {
            wrong.push(format!("{} live bytes, {live} counted", self.live_bytes));
        }
        let Fullness { bytes, order, .. } = &self.fullness;
        let in_stripes: u64 = bytes.values().sum();
        let in_order = bytes.iter().all(|(at, own)| order.contains(&(*own, Reverse(*at))));
        if in_stripes != live || order.len() != bytes.len() || !in_order {
            wrong.push(format!("{in_stripes} live bytes of stripes, {live} counted"));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use io::rng::{Rng, mix};

    use super::*;

    const SIZE: u64 = 64;
    /// Of a stripe: what lies in the log goes over its ends.
    const UNIT: u64 = 12;

    /// One cell per byte: where it lies, and whether that counts.
    type Oracle = Vec<Option<(Place, bool)>>;

    fn same(extents: &Extents, oracle: &Oracle, log: Range<u64>) {
        assert_eq!(extents.audit(log), Vec::<String>::new());
        for at in 0..SIZE {
            let found = extents.find(at..at + 1);
            let live = oracle[at as usize].filter(|(_, live)| *live).map(|(place, _)| place);
            assert_eq!(found, [Piece { range: at..at + 1, place: live }]);
            assert_eq!(extents.touches(&(at..at + 1)), oracle[at as usize].is_some());
        }
        let live = oracle.iter().flatten().filter(|(_, live)| *live);
        let oldest = live.map(|(place, _)| place.at).min();
        assert_eq!(extents.oldest().map(|(_, place)| place.at), oldest);
        let of_stripe = |at: u64| {
            let all = (at * UNIT..SIZE.min((at + 1) * UNIT)).map(|at| oracle[at as usize]);
            all.flatten().filter(|(_, live)| *live).count()
        };
        let stripes = (0..SIZE.div_ceil(UNIT)).filter(|at| of_stripe(*at) > 0);
        assert_eq!(extents.fullest(), stripes.rev().max_by_key(|at| of_stripe(*at)));
        // Pieces of a range are its bytes.
        for piece in extents.find(3..SIZE - 5) {
            for at in piece.range.clone() {
                let own = piece.place.map(|place| moved(place, at - piece.range.start));
                let live = oracle[at as usize].filter(|(_, live)| *live).map(|(place, _)| place);
                assert_eq!(own, live);
            }
        }
    }

    #[test]
    fn it_is_what_a_table_of_bytes_says() {
        for seed in 0..300 {
            let mut rng = Rng::new(mix(seed));
            let (mut extents, mut oracle) = (Extents::new(UNIT), vec![None; SIZE as usize]);
            let (mut end, mut tail) = (0, 0);
            let mut late: Vec<(Range<u64>, Place)> = Vec::new();
            for _ in 0..60 {
                let start = rng.below(SIZE);
                let range = start..start + 1 + rng.below((SIZE - start).min(20));
                let cells = range.start as usize..range.end as usize;
                match rng.below(8) {
                    0..4 => {
                        let place = Place { record: end, at: end + 10 };
                        end += 100;
                        late.push((range, place));
                        // Noted in another order than appended, now and then.
                        while late.len() > 2 || (!late.is_empty() && rng.chance(2, 3)) {
                            let (range, place) = late.swap_remove(rng.index(late.len()));
                            extents.put(range.clone(), place);
                            for at in range.clone() {
                                let cell = &mut oracle[at as usize];
                                let mine = moved(place, at - range.start);
                                if cell.is_none_or(|(old, _): (Place, bool)| old.at < mine.at) {
                                    *cell = Some((mine, true));
                                }
                            }
                        }
                    }
                    4 => {
                        // Read here; something else may be there by now.
                        let place = Place { record: tail, at: tail + 10 + rng.below(30) };
                        let read = match extents.find(range.clone()).first() {
                            Some(Piece { range, place: Some(place) }) => (range.clone(), *place),
                            _ => (range, place),
                        };
                        extents.settle(read.0.clone(), read.1);
                        for at in read.0.clone() {
                            let cell = &mut oracle[at as usize];
                            if let Some((place, live)) = cell {
                                *live &= place.at != read.1.at + (at - read.0.start);
                            }
                        }
                    }
                    5 => {
                        extents.remove(range);
                        oracle[cells].fill(None);
                    }
                    _ => {
                        let noted = late.iter().map(|(_, place)| place.record).min();
                        let oldest = extents.oldest().map(|(_, place)| place.record);
                        tail = [noted, oldest].into_iter().flatten().min().unwrap_or(end);
                        extents.forget_before(tail);
                        for cell in &mut oracle {
                            *cell = cell.filter(|(place, _)| place.at >= tail);
                        }
                    }
                }
                same(&extents, &oracle, tail..end.max(1));
            }
        }
    }

    #[test]
    fn what_goes_on_in_the_log_is_one_piece() {
        let mut extents = Extents::new(UNIT);
        let place = Place { record: 0, at: 1024 };
        extents.put(0..8192, place);
        extents.settle(4096..8192, Place { record: 0, at: 7 });
        assert_eq!(extents.len(), 2);
        assert_eq!(extents.find(0..8192), [Piece { range: 0..8192, place: Some(place) }]);
    }
}
