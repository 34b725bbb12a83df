//! Which places of an array are free, where a durable map says what lies in them.
//!
//! ```text
//!   free ── take ──► used ── leave ──► limbo ── the map without it is durable ──► left
//!    ▲                 │  ◄─ rejoin ──┘                                            │
//!    └─── give back ───┴───────────────── nobody reads there any more ─────────────┘
//! ```
//! Places are handed out in order first; then what was freed is used again, the lowest number
//! first. Never is a place given away while the map on the drives names it for another, or while
//! a read that found something there is under way.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

#[derive(Clone, Debug)]
pub struct Places {
    total: u32,
    /// The first place that was never used.
    next: u32,
    freed: BTreeSet<u32>,
    /// Taken and not left.
    used: u32,
    /// Left, but named by the map on the drives; each with the number of its leaving.
    limbo: BTreeMap<u32, u64>,
    left: u64,
    /// Not named any more, but still read from.
    awaited: BTreeSet<u32>,
    /// Reads under way. Bounded by the requests there are.
    reads: BTreeMap<u32, u32>,
}

impl Places {
    /// `None`: there is no such place, or it is used twice.
    pub fn new(total: u32, used: impl Iterator<Item = u32>) -> Option<Places> {
        let mut taken = vec![false; total as usize];
        for place in used {
            if std::mem::replace(taken.get_mut(place as usize)?, true) {
                return None;
            }
        }
        let next = taken.iter().rposition(|taken| *taken).map_or(0, |last| last as u32 + 1);
        let freed: BTreeSet<u32> = (0..next).filter(|place| !taken[*place as usize]).collect();
        let used = next - freed.len() as u32;
        let (limbo, awaited, reads) = Default::default();
        Some(Places { total, next, freed, used, limbo, left: 0, awaited, reads })
    }

    pub fn take(&mut self) -> Option<u32> {
        let place = if self.next < self.total {
            self.next += 1;
            self.next - 1
        } else {
            self.freed.pop_first()?
        };
        self.used += 1;
        Some(place)
    }

    /// It was never named by the map.
    pub fn give_back(&mut self, place: u32) {
        self.used -= 1;
        self.free(place);
    }

    /// What was there is somewhere else now.
    pub fn leave(&mut self, place: u32) {
        self.used -= 1;
        self.left += 1;
        let is_new = self.limbo.insert(place, self.left).is_none();
        assert!(is_new, "a place is left once");
    }

    /// What left it is back, if the map on the drives may still name it there. Else false.
    pub fn rejoin(&mut self, place: u32) -> bool {
        let back = self.limbo.remove(&place).is_some();
        self.used += u32::from(back);
        back
    }

    /// What has been left by now; for [`Places::settle`].
    pub fn left(&self) -> u64 {
        self.left
    }

    /// A map without what had been left by then is durable.
    pub fn settle(&mut self, left: u64) {
        let is_settled = |number: &u64| *number <= left;
        let settled: Vec<u32> =
            self.limbo.iter().filter(|(_, at)| is_settled(at)).map(|(place, _)| *place).collect();
        for place in settled {
            self.limbo.remove(&place);
            if self.reads.contains_key(&place) {
                self.awaited.insert(place);
            } else {
                self.free(place);
            }
        }
    }

    fn free(&mut self, place: u32) {
        let is_new = place < self.next && self.freed.insert(place);
        assert!(is_new, "a place is freed once");
    }

    pub fn begin_read(&mut self, place: u32) {
        *self.reads.entry(place).or_default() += 1;
    }

    /// True: the place is free now.
    pub fn end_read(&mut self, place: u32) -> bool {
        let reads = self.reads.get_mut(&place).expect("it is being read");
        *reads -= 1;
        if *reads > 0 {
            return false;
        }
        self.reads.remove(&place);
        let awaited = self.awaited.remove(&place);
        if awaited {
            self.free(place);
        }
        awaited
    }

    /// Nothing is there, and nobody reads there.
    pub fn is_free(&self, place: u32) -> bool {
        place >= self.next || self.freed.contains(&place)
    }

    /// What of this range of an array lies in them, which begin at a byte of it, one behind the
    /// other.
    pub fn free_within(&self, range: &Range<u64>, (first, bytes): (u64, u64)) -> Vec<Range<u64>> {
        let behind = |at: u64| at.saturating_sub(first);
        let numbers = behind(range.start) / bytes..behind(range.end).div_ceil(bytes);
        let free = numbers.filter(|&at| at < self.total.into() && self.is_free(at as u32));
        let place = |at: u64| first + at * bytes..first + (at + 1) * bytes;
        let clipped = |own: Range<u64>| own.start.max(range.start)..own.end.min(range.end);
        free.map(|at| clipped(place(at))).collect()
    }

    pub fn total(&self) -> u32 {
        self.total
    }

    pub fn used(&self) -> u32 {
        self.used
    }

    pub fn has_room(&self) -> bool {
        self.next < self.total || !self.freed.is_empty()
    }

    /// Places that only a durable map would free.
    pub fn in_limbo(&self) -> usize {
        self.limbo.len()
    }

    pub fn is_in_limbo(&self, place: u32) -> bool {
        self.limbo.contains_key(&place)
    }

    /// What contradicts itself, given what the map names; nothing is moving. For tests.
    pub fn audit(&self, mapped: impl Iterator<Item = u32>) -> Vec<String> {
        let limbo = self.limbo.keys().map(|place| ("in limbo", *place));
        let awaited = self.awaited.iter().map(|place| ("awaited", *place));
        let freed = self.freed.iter().map(|place| ("free", *place));
        let mapped = mapped.map(|place| ("mapped", place));
        let (mut wrong, mut seen, mut used) = (Vec::new(), BTreeMap::new(), 0);
        for (what, place) in limbo.chain(awaited).chain(freed).chain(mapped) {
            used += u32::from(what == "mapped");
            if place >= self.next {
                wrong.push(format!("place {place} is {what} and was never handed out"));
            }
            if let Some(other) = seen.insert(place, what) {
                wrong.push(format!("place {place} is {other} and {what}"));
            }
        }
        if used != self.used {
            wrong.push(format!("{} places used, {used} mapped", self.used));
        }
        if seen.len() < self.next as usize {
            wrong.push(format!("{} of {} places are known of", seen.len(), self.next));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(total: u32, used: &[u32]) -> Option<Places> {
        Places::new(total, used.iter().copied())
    }

    #[test]
    fn what_is_free_of_a_range() {
        let places = places(4, &[1]).expect("one");
        let free = |range: Range<u64>| places.free_within(&range, (100, 10));
        assert_eq!(free(0..100), []);
        assert_eq!(free(0..1000), [100..110, 120..130, 130..140]);
        assert_eq!(free(105..125), [105..110, 120..125]);
        assert_eq!(free(110..120), []);
    }

    #[test]
    fn in_order_first_then_what_was_freed() {
        let mut places = places(3, &[]).expect("empty");
        assert_eq!(places.take(), Some(0));
        places.give_back(0);
        assert_eq!([places.take(), places.take(), places.take()], [Some(1), Some(2), Some(0)]);
        assert_eq!(places.take(), None);
    }

    #[test]
    fn a_place_is_used_again_when_the_map_is_durable_and_nobody_reads_there() {
        let mut places = places(1, &[0]).expect("one");
        places.begin_read(0);
        places.begin_read(0);
        let before = places.left();
        places.leave(0);
        places.settle(before);
        assert_eq!(places.in_limbo(), 1, "that map still named it");
        assert!(!places.end_read(0));
        places.settle(places.left());
        assert_eq!((places.in_limbo(), places.take()), (0, None));
        assert!(places.end_read(0));
        assert_eq!(places.take(), Some(0));
    }

    #[test]
    fn who_comes_back_from_limbo_keeps_its_place() {
        let mut places = places(2, &[0]).expect("one");
        places.leave(0);
        let begun = places.left();
        assert!(places.rejoin(0));
        places.settle(begun);
        assert_eq!((places.used(), places.take(), places.take()), (1, Some(1), None));
        places.leave(0);
        places.settle(places.left());
        assert!(!places.rejoin(0));
    }

    #[test]
    fn maps_that_make_no_sense_are_refused() {
        assert!(places(2, &[1, 1]).is_none());
        assert!(places(2, &[2]).is_none());
        let places = places(4, &[2, 0]).expect("it does");
        assert_eq!((places.used(), places.next), (2, 3));
        assert_eq!(places.freed, BTreeSet::from([1]));
    }
}
