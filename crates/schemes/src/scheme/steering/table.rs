//! D_Table of one drive: which of its bytes lie in the staging space.
//!
//! ```text
//!  D_Offset      0       8      16      24      32
//!  the drive     ├───────┼───────┼───────┼───────┤
//!  entries           [ write A  ][ B ]    [ hot ]         Flag: A, B true, hot false
//!  after C             C over A:  [A][ C ][A][ B ]        newest on top, the rest of A stays
//! ```
//! An entry is D_Offset, Length, Flag and R_Offset: a place and how far into it. A redirected write
//! that was written back is `home`: the drive has the same bytes, the entry stays until that is
//! recorded.

use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<P> {
    /// Length, as its end on the drive.
    pub end: u64,
    /// R_Offset: where a record lies, and the bytes of it before this entry.
    pub place: P,
    pub skip: u64,
    /// Flag: a redirected write, not a copy of what is on the drive.
    pub redirected: bool,
    pub home: bool,
}

/// By D_Offset. Bounded by the staging space.
#[derive(Debug)]
pub struct Table<P> {
    entries: BTreeMap<u64, Entry<P>>,
}

impl<P> Default for Table<P> {
    fn default() -> Table<P> {
        Table { entries: BTreeMap::new() }
    }
}

impl<P: Clone> Table<P> {
    /// Makes this the newest of its range.
    pub fn insert(&mut self, range: Range<u64>, place: P, redirected: bool) {
        self.forget(range.clone());
        let entry = Entry { end: range.end, place, skip: 0, redirected, home: false };
        self.entries.insert(range.start, entry);
    }

    /// Cuts those entries out of a range that `which` says.
    fn remove(&mut self, range: Range<u64>, which: impl Fn(&Entry<P>) -> bool) {
        for start in self.starts(&range) {
            if !which(&self.entries[&start]) {
                continue;
            }
            let entry = self.entries.remove(&start).expect("it was listed");
            if start < range.start {
                self.entries.insert(start, Entry { end: range.start, ..entry.clone() });
            }
            if range.end < entry.end {
                let skip = entry.skip + (range.end - start);
                self.entries.insert(range.end, Entry { skip, ..entry });
            }
        }
    }

    /// Forgets all of a range: the drive has it.
    pub fn forget(&mut self, range: Range<u64>) {
        self.remove(range, |_| true);
    }

    /// Forgets copies for reading; redirected writes stay.
    pub fn forget_hot(&mut self, range: Range<u64>) {
        self.remove(range, |entry| !entry.redirected);
    }

    /// Forgets all redirected writes: the drive has them, and that is recorded.
    pub fn forget_redirected(&mut self) {
        self.entries.retain(|_, entry| !entry.redirected);
    }

    /// Where the entries that meet a range begin.
    fn starts(&self, range: &Range<u64>) -> Vec<u64> {
        let before = self.entries.range(..range.start).next_back();
        let first = before.filter(|(_, entry)| entry.end > range.start).map(|(start, _)| *start);
        first
            .into_iter()
            .chain(self.entries.range(range.clone()).map(|(start, _)| *start))
            .collect()
    }

    /// A range piece by piece; `None` where nothing is staged.
    pub fn look(&self, range: Range<u64>) -> Vec<(Range<u64>, Option<Entry<P>>)> {
        let (mut pieces, mut at) = (Vec::new(), range.start);
        for start in self.starts(&range) {
            let entry = &self.entries[&start];
            let piece = start.max(range.start)..entry.end.min(range.end);
            if at < piece.start {
                pieces.push((at..piece.start, None));
            }
            at = piece.end;
            let skip = entry.skip + (piece.start - start);
            pieces.push((piece.clone(), Some(Entry { end: piece.end, skip, ..entry.clone() })));
        }
        if at < range.end {
            pieces.push((at..range.end, None));
        }
        pieces
    }

    fn any(&self, range: &Range<u64>, which: impl Fn(&Entry<P>) -> bool) -> bool {
        self.starts(range).iter().any(|start| which(&self.entries[start]))
    }

    /// Whether a write there must supersede a redirected one.
    pub fn is_redirected(&self, range: &Range<u64>) -> bool {
        self.any(range, |entry| entry.redirected)
    }

    /// Whether all of it can be read from the staging space.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        self.look(range.clone()).iter().all(|(_, entry)| entry.is_some())
    }

    /// Bytes of redirected writes that the drive does not have yet.
    pub fn away(&self) -> u64 {
        let away = self.entries.iter().filter(|(_, entry)| entry.redirected && !entry.home);
        away.map(|(start, entry)| entry.end - start).sum()
    }

    pub fn is_any_away(&self) -> bool {
        self.entries.values().any(|entry| entry.redirected && !entry.home)
    }

    /// The first redirected writes that the drive does not have, neighbours merged: one range of
    /// at most so many bytes.
    pub fn run(&self, bytes_max: u64) -> Option<Range<u64>> {
        let mut away = self.entries.iter().filter(|(_, entry)| entry.redirected && !entry.home);
        let (&start, first) = away.next()?;
        let mut end = first.end;
        for (&next, entry) in away {
            if next != end {
                break;
            }
            end = entry.end;
        }
        Some(start..end.min(start + bytes_max))
    }

    /// The drive has these bytes of redirected writes now.
    pub fn set_home(&mut self, range: Range<u64>) {
        for (piece, entry) in self.look(range) {
            let Some(entry) = entry.filter(|entry| entry.redirected) else { continue };
            self.forget(piece.clone());
            self.entries.insert(piece.start, Entry { home: true, ..entry });
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &Entry<P>)> {
        self.entries.iter().map(|(start, entry)| (*start, entry))
    }
}

#[cfg(test)]
mod tests {
    use io::rng::Rng;

    use super::*;

    #[test]
    fn neighbours_are_one_run() {
        let mut table = Table::default();
        table.insert(0..4, 'a', true);
        table.insert(4..6, 'b', true);
        table.insert(8..9, 'c', true);
        assert_eq!(table.run(100), Some(0..6));
        assert_eq!(table.run(5), Some(0..5));
        table.set_home(0..5);
        assert_eq!((table.run(100), table.away()), (Some(5..6), 2));
        table.insert(2..3, 'd', true);
        assert_eq!(table.run(100), Some(2..3));
    }

    /// One byte as a plain list of bytes knows it.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Byte {
        /// Which insertion, and the byte of it.
        place: Option<(u64, u64)>,
        redirected: bool,
        home: bool,
    }

    fn byte_by_byte(table: &Table<u64>, size: u64) -> Vec<Byte> {
        let mut bytes = Vec::new();
        for (piece, entry) in table.look(0..size) {
            for at in piece.clone() {
                bytes.push(entry.as_ref().map_or_else(Byte::default, |entry| Byte {
                    place: Some((entry.place, entry.skip + (at - piece.start))),
                    redirected: entry.redirected,
                    home: entry.home,
                }));
            }
        }
        bytes
    }

    /// Against a list of bytes.
    #[test]
    fn every_byte_is_what_was_last_said_of_it() {
        const SIZE: u64 = 40;
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut table = Table::default();
            let mut plain = vec![Byte::default(); SIZE as usize];
            for step in 0..60 {
                let start = rng.below(SIZE);
                let range = start..start + 1 + rng.below((SIZE - start).min(12));
                let own = &mut plain[range.start as usize..range.end as usize];
                match rng.below(8) {
                    0..5 => {
                        let redirected = rng.chance(2, 3);
                        table.insert(range.clone(), step, redirected);
                        for (at, byte) in own.iter_mut().enumerate() {
                            let place = Some((step, at as u64));
                            *byte = Byte { place, redirected, home: false };
                        }
                    }
                    5 => {
                        table.forget_hot(range.clone());
                        own.iter_mut().filter(|b| !b.redirected).for_each(|b| *b = Byte::default());
                    }
                    6 if rng.chance(1, 4) => {
                        table.forget(range.clone());
                        own.fill(Byte::default());
                    }
                    6 => {
                        table.set_home(range.clone());
                        own.iter_mut().for_each(|byte| byte.home |= byte.redirected);
                    }
                    _ if rng.chance(1, 4) => {
                        table.forget_redirected();
                        let redirected = plain.iter_mut().filter(|b| b.redirected);
                        redirected.for_each(|byte| *byte = Byte::default());
                    }
                    _ => {}
                }
                assert_eq!(byte_by_byte(&table, SIZE), plain, "seed {seed} step {step}");
                let own = &plain[range.start as usize..range.end as usize];
                assert_eq!(table.is_redirected(&range), own.iter().any(|byte| byte.redirected));
                assert_eq!(table.covers(&range), own.iter().all(|byte| byte.place.is_some()));
                let is_away = |byte: &Byte| byte.redirected && !byte.home;
                assert_eq!(table.away(), plain.iter().filter(|b| is_away(b)).count() as u64);
                let first = plain.iter().position(is_away);
                let run = first.map(|first| {
                    let len = plain[first..].iter().take(7).take_while(|b| is_away(b)).count();
                    first as u64..(first + len) as u64
                });
                assert_eq!(table.run(7), run, "seed {seed} step {step}");
            }
        }
    }
}
