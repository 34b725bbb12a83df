//! Pages by what they are for (GC-Steering §II.C): *read-intensive* if more than 90 % of what
//! touches them are reads, *write-intensive* if more than 90 % are writes, *mixed* otherwise.
//!
//! A request counts once for every page of 4 KiB that it touches. If there are more pages than
//! memory is for, half of all are left out, by a hash of their address: shares stay what they are.

use io::rng::mix;
use rustc_hash::FxHashMap;

use super::super::record::{Op, Record};
use super::places::PAGE;

/// About 150 MiB of memory; all pages of 16 GiB.
const PAGES_MAX: usize = 1 << 22;

pub struct Intensity {
    /// Reads and writes of each; only sums over all are taken, in which order doesn't matter.
    pages: FxHashMap<u64, [u32; 2]>,
    most: usize,
    /// One of 2^shift pages is kept.
    shift: u32,
}

/// Parts of one: of the reads those of read-intensive, write-intensive and mixed pages, the same
/// of the writes, and of the pages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IntensityFigures {
    pub reads: [f64; 3],
    pub writes: [f64; 3],
    pub pages: [f64; 3],
}

impl Default for Intensity {
    fn default() -> Intensity {
        Intensity::within(PAGES_MAX)
    }
}

impl Intensity {
    fn within(most: usize) -> Intensity {
        Intensity { pages: FxHashMap::default(), most, shift: 0 }
    }

    pub fn add(&mut self, record: &Record) {
        let kind = match record.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Discard => return,
        };
        for page in record.offset / PAGE..=(record.end() - 1) / PAGE {
            // 52 bits number the pages of all addresses.
            let key = u64::from(record.device) << 52 ^ page;
            if is_watched(key, self.shift) {
                let count = &mut self.pages.entry(key).or_default()[kind];
                *count = count.saturating_add(1);
            }
        }
        while self.pages.len() > self.most {
            self.shift += 1;
            let shift = self.shift;
            self.pages.retain(|&key, _| is_watched(key, shift));
        }
    }

    pub fn figures(&self) -> IntensityFigures {
        let (mut reads, mut writes, mut pages) = ([0u64; 3], [0u64; 3], [0u64; 3]);
        for own in self.pages.values() {
            let class = class(*own);
            reads[class] += u64::from(own[0]);
            writes[class] += u64::from(own[1]);
            pages[class] += 1;
        }
        let shares = |counts: [u64; 3]| {
            let all = counts.iter().sum::<u64>().max(1) as f64;
            counts.map(|count| count as f64 / all)
        };
        IntensityFigures { reads: shares(reads), writes: shares(writes), pages: shares(pages) }
    }
}

fn is_watched(key: u64, shift: u32) -> bool {
    mix(key) & ((1 << shift) - 1) == 0
}

fn class([reads, writes]: [u32; 2]) -> usize {
    let all = u64::from(reads) + u64::from(writes);
    let most = |count: u32| u64::from(count) * 10 > all * 9;
    match (most(reads), most(writes)) {
        (true, _) => 0,
        (_, true) => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use io::Nanos;
    use io::rng::Rng;

    use super::*;

    fn records(count: usize) -> Vec<Record> {
        let mut rng = Rng::new(3);
        let mut record = |_| {
            // Places further on are read more and more often.
            let (page, len) = (rng.below(400), 1 + rng.below(3 * PAGE));
            let op = if rng.below(400) < page { Op::Read } else { Op::Write };
            let offset = page * PAGE + rng.below(PAGE);
            Record { at: Nanos::ZERO, device: rng.below(2) as u32, offset, len, op }
        };
        (0..count).map(&mut record).collect()
    }

    fn of(records: &[Record], most: usize) -> (IntensityFigures, u32) {
        let mut intensity = Intensity::within(most);
        records.iter().for_each(|record| intensity.add(record));
        assert!(intensity.pages.len() <= most);
        (intensity.figures(), intensity.shift)
    }

    #[test]
    fn nine_of_ten_is_mixed_and_more_is_not() {
        assert_eq!([[9, 1], [1, 9], [5, 5]].map(class), [2; 3]);
        assert_eq!([[10, 1], [1, 10], [1, 0], [0, 1]].map(class), [0, 1, 0, 1]);
        assert_eq!(class([u32::MAX, u32::MAX / 10]), 0);
    }

    /// Byte by byte, in a plain map.
    #[test]
    fn the_same_as_counted_slowly() {
        for count in [1, 20, 3000] {
            let records = records(count);
            let mut pages: BTreeMap<(u32, u64), (f64, f64)> = BTreeMap::new();
            for record in &records {
                let mut last = None;
                for page in (record.offset..record.end()).map(|byte| byte / PAGE) {
                    if last.replace(page) == Some(page) {
                        continue;
                    }
                    let own = pages.entry((record.device, page)).or_default();
                    *(if record.op == Op::Read { &mut own.0 } else { &mut own.1 }) += 1.0;
                }
            }
            let part = |of: fn(&(f64, f64)) -> f64, kind: fn(f64) -> bool| {
                let share = |own: &(f64, f64)| own.0 / (own.0 + own.1);
                let sum: f64 = pages.values().filter(|own| kind(share(own))).map(of).sum();
                sum / pages.values().map(of).sum::<f64>().max(1.0)
            };
            let (seen, _) = of(&records, usize::MAX);
            let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{count}");
            near(seen.reads[0], part(|own| own.0, |reads| reads > 0.9));
            near(seen.writes[1], part(|own| own.1, |reads| reads < 0.1 - 1e-12));
            near(seen.reads.iter().sum(), part(|own| own.0, |_| true));
            near(seen.pages[2], part(|_| 1.0, |reads| (0.1 - 1e-12..=0.9).contains(&reads)));
        }
    }

    #[test]
    fn with_little_memory_it_is_an_estimate() {
        let records = records(30_000);
        let ((exact, none), (rough, shift)) = (of(&records, usize::MAX), of(&records, 300));
        assert!(none == 0 && shift >= 2);
        for (one, other) in [(exact.reads, rough.reads), (exact.writes, rough.writes)] {
            let near = one.iter().zip(other).all(|(one, other)| (one - other).abs() < 0.1);
            assert!(near, "{one:?} {other:?}");
        }
    }
}
