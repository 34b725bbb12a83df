//! Which places are touched, how often, and which are written again.
//!
//! Pages of 4 KiB are told apart as read and as written; accesses are counted by block of 64 KiB,
//! the unit that a pool maps. If there are more blocks than memory is for, half of all are left
//! out (by a hash of their address, so always the same half), and what remains counts twice.

use io::rng::mix;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::super::record::{Op, Record};

pub const PAGE: u64 = 4096;
pub const BLOCK: u64 = 16 * PAGE;
/// About 200 MiB of memory; all blocks of 256 GiB.
const BLOCKS_MAX: usize = 1 << 22;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// A bit a page.
    read: u16,
    written: u16,
    reads: u32,
    writes: u32,
}

pub struct Places {
    /// Only sums over all of it are taken, in which order doesn't matter.
    blocks: FxHashMap<u64, Block>,
    most: usize,
    /// One of 2^shift blocks is kept.
    shift: u32,
    pages: Pages,
}

/// Pages of requests, one that is touched twice counted twice.
#[derive(Clone, Copy, Debug, Default)]
struct Pages {
    read: u64,
    reread: u64,
    read_of_written: u64,
    written: u64,
    rewritten: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Footprint {
    pub touched_mib: f64,
    pub read_mib: f64,
    pub written_mib: f64,
    /// Read and written.
    pub both_mib: f64,
    /// Part of the pages written that had been written before in the trace.
    pub update_share: f64,
    /// Part of the pages read that had been read before, and that had been written before.
    pub reread_share: f64,
    pub read_of_written_share: f64,
    /// Part of all accesses that goes to the most accessed blocks of 64 KiB: 1, 10, 20 % of those
    /// touched.
    pub top_1: f64,
    pub top_10: f64,
    pub top_20: f64,
    /// The same of writes, and of reads, 10 %.
    pub top_10_writes: f64,
    pub top_10_reads: f64,
    /// Blocks touched, and one of how many was watched.
    pub blocks: u64,
    pub one_of: u64,
}

impl Default for Places {
    fn default() -> Places {
        Places::within(BLOCKS_MAX)
    }
}

impl Places {
    fn within(most: usize) -> Places {
        Places { blocks: FxHashMap::default(), most, shift: 0, pages: Pages::default() }
    }

    pub fn add(&mut self, record: &Record) {
        if record.op == Op::Discard {
            return;
        }
        let last = (record.end() - 1) / BLOCK;
        for number in record.offset / BLOCK..=last {
            let begin = number * BLOCK;
            let first = record.offset.saturating_sub(begin) / PAGE;
            let last = (record.end() - 1 - begin).min(BLOCK - 1) / PAGE;
            let mask = (u32::MAX >> (31 - last)) & (u32::MAX << first);
            // 48 bits number the blocks of all addresses.
            self.touch(u64::from(record.device) << 48 | number, mask as u16, record.op);
        }
    }

    fn is_watched(key: u64, shift: u32) -> bool {
        mix(key) & ((1 << shift) - 1) == 0
    }

    fn touch(&mut self, key: u64, mask: u16, op: Op) {
        if !Places::is_watched(key, self.shift) {
            return;
        }
        let weight = 1 << self.shift;
        let count = |mask: u16| u64::from(mask.count_ones()) * weight;
        let block = self.blocks.entry(key).or_default();
        if op == Op::Read {
            self.pages.read += count(mask);
            self.pages.reread += count(mask & block.read);
            self.pages.read_of_written += count(mask & block.written);
            block.read |= mask;
            block.reads = block.reads.saturating_add(1);
        } else {
            self.pages.written += count(mask);
            self.pages.rewritten += count(mask & block.written);
            block.written |= mask;
            block.writes = block.writes.saturating_add(1);
        }
        if self.blocks.len() > self.most {
            self.shift += 1;
            let shift = self.shift;
            self.blocks.retain(|&key, _| Places::is_watched(key, shift));
        }
    }

    pub fn finish(self) -> Footprint {
        let weight = 1u64 << self.shift;
        let mib = |pages: u64| (pages * weight * PAGE) as f64 / (1 << 20) as f64;
        let of = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
        let sum = |pages: fn(&Block) -> u16| -> f64 {
            mib(self.blocks.values().map(|block| u64::from(pages(block).count_ones())).sum())
        };
        let pages = self.pages;
        let all = self.counts(|block| u64::from(block.reads) + u64::from(block.writes));
        Footprint {
            touched_mib: sum(|block| block.read | block.written),
            read_mib: sum(|block| block.read),
            written_mib: sum(|block| block.written),
            both_mib: sum(|block| block.read & block.written),
            update_share: of(pages.rewritten, pages.written),
            reread_share: of(pages.reread, pages.read),
            read_of_written_share: of(pages.read_of_written, pages.read),
            top_1: top(&all, 1),
            top_10: top(&all, 10),
            top_20: top(&all, 20),
            top_10_writes: top(&self.counts(|block| block.writes.into()), 10),
            top_10_reads: top(&self.counts(|block| block.reads.into()), 10),
            blocks: all.len() as u64 * weight,
            one_of: weight,
        }
    }

    /// Accesses of each block that has any, most first.
    fn counts(&self, accesses: fn(&Block) -> u64) -> Vec<u64> {
        let counts = self.blocks.values().map(accesses).filter(|&count| count > 0);
        let mut counts: Vec<u64> = counts.collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }
}

/// Part of the accesses that goes to the first of so many percent of blocks, rounded up.
fn top(counts: &[u64], percent: usize) -> f64 {
    let all: u64 = counts.iter().sum();
    let hot: u64 = counts[..(counts.len() * percent).div_ceil(100)].iter().sum();
    if all > 0 { hot as f64 / all as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::Nanos;
    use io::rng::Rng;
    use std::collections::BTreeMap;

    fn records(count: u64) -> Vec<Record> {
        let mut rng = Rng::new(5);
        let mut record = |_| {
            let op = [Op::Read, Op::Write, Op::Discard][rng.index(3)];
            let (offset, len) = (rng.below(1 << 15) * 512, (1 + rng.below(400)) * 512);
            Record { at: Nanos::ZERO, device: rng.below(3) as u32, offset, len, op }
        };
        (0..count).map(&mut record).collect()
    }

    /// Page by page, in plain maps.
    fn slowly(records: &[Record]) -> (u64, u64, u64, f64, f64) {
        let mut pages: BTreeMap<(u32, u64), (bool, bool)> = BTreeMap::new();
        let (mut written, mut rewritten, mut read, mut reread) = (0u64, 0u64, 0u64, 0u64);
        for record in records.iter().filter(|record| record.op != Op::Discard) {
            for page in record.offset / PAGE..=(record.end() - 1) / PAGE {
                let page = pages.entry((record.device, page)).or_default();
                if record.op == Op::Write {
                    written += 1;
                    rewritten += u64::from(page.1);
                    page.1 = true;
                } else {
                    read += 1;
                    reread += u64::from(page.0);
                    page.0 = true;
                }
            }
        }
        let count = |wanted: fn(&(bool, bool)) -> bool| {
            pages.values().filter(|&page| wanted(page)).count() as u64
        };
        let shares = (rewritten as f64 / written as f64, reread as f64 / read as f64);
        (
            count(|page| page.0),
            count(|page| page.1),
            count(|page| page.0 && page.1),
            shares.0,
            shares.1,
        )
    }

    #[test]
    fn the_same_as_counted_page_by_page() {
        for count in [1, 7, 50, 400] {
            let records = records(count);
            let mut places = Places::default();
            records.iter().for_each(|record| places.add(record));
            let seen = places.finish();
            let (read, written, both, updates, rereads) = slowly(&records);
            let mib = |pages: u64| pages as f64 / 256.0;
            assert_eq!((seen.read_mib, seen.written_mib), (mib(read), mib(written)), "{count}");
            assert_eq!(seen.both_mib, mib(both));
            assert_eq!(seen.touched_mib, mib(read + written - both));
            let same = |a: f64, b: f64| a == b || b.is_nan();
            assert!(same(seen.update_share, updates) && same(seen.reread_share, rereads));
        }
    }

    #[test]
    fn with_little_memory_it_is_an_estimate() {
        let records = records(3000);
        let mut exact = Places::default();
        let mut rough = Places::within(200);
        records.iter().for_each(|record| {
            exact.add(record);
            rough.add(record);
            assert!(rough.blocks.len() <= 200);
        });
        let (exact, rough) = (exact.finish(), rough.finish());
        assert!(rough.one_of >= 4 && exact.one_of == 1, "{rough:?}");
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.2, "{a} {b}");
        near(rough.touched_mib, exact.touched_mib);
        near(rough.update_share, exact.update_share);
        near(rough.top_20, exact.top_20);
    }

    #[test]
    fn the_hottest_blocks_have_their_part() {
        let mut places = Places::default();
        for block in 0..100u64 {
            let accesses = if block < 10 { 91 } else { 1 };
            let record = Record {
                at: Nanos::ZERO,
                device: 0,
                offset: block * BLOCK,
                len: 512,
                op: if block % 2 == 0 { Op::Read } else { Op::Write },
            };
            (0..accesses).for_each(|_| places.add(&record));
        }
        let seen = places.finish();
        assert!((seen.top_10 - 0.91).abs() < 1e-9 && (seen.top_1 - 0.091).abs() < 1e-9);
        assert_eq!(seen.blocks, 100);
    }

    #[test]
    fn the_last_address_of_all_is_counted() {
        let mut places = Places::default();
        let (offset, op) = (u64::MAX - 512, Op::Write);
        places.add(&Record { at: Nanos::ZERO, device: 65_535, offset, len: 512, op });
        assert_eq!(places.finish().written_mib, 1.0 / 256.0);
    }
}
