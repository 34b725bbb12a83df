//! What was written and is not on every living replica yet, in memory.
//!
//! ```text
//!   sequence    │ 7 │ 8 │ 9 │ 10 │ 11 │ ◄── new writes
//!                 ▲       ▲         ▲
//!   on the reader up to   │      newest
//!                 on the writer up to
//! ```
//! An entry leaves when all living replicas have it. Each is charged with what it may take in a log
//! of a replica, so that a log of a fixed size has room for all there are.
//!
//! Of each page it is known which entries change it: one that is written *again*, or in part, is
//! logged as a whole before a batch goes over it (`replica.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use io::{Buf, BufMut};

use super::replica::ragged;
use crate::log::record::PAGE;

/// Bytes of one entry: short enough that several fit into the smallest cache.
pub const ENTRY_MAX: u64 = 64 << 10;
/// Smallest cache: one entry waits, one is written, and some come meanwhile.
pub const CACHE_MIN: u64 = 4 * charge(ENTRY_MAX, EDGES);
/// Bytes of neighbours that are written as one piece: a few chunks.
const PIECE_MAX: usize = 256 << 10;

/// An entry changes a part of two pages at most.
const EDGES: u64 = 2;

/// What an entry takes in a log at most: its own record; if it is alone in its batch a record of
/// ranges, and one that says that it is in place; and a record for each of so many pages.
pub const fn charge(len: u64, pages: u64) -> u64 {
    len.next_multiple_of(PAGE) + PAGE + 2 * PAGE + pages * 2 * PAGE
}

/// Where the pages begin that a range touches.
pub fn pages_of(start: u64, len: u64) -> impl Iterator<Item = u64> {
    (start / PAGE * PAGE..start + len).step_by(PAGE as usize)
}

/// Ranges with their newest bytes.
#[derive(Default)]
pub struct Overlay {
    map: BTreeMap<u64, (u64, Buf)>,
}

impl Overlay {
    fn end(start: u64, buf: &Buf) -> u64 {
        start + buf.len() as u64
    }

    /// Afterwards none goes over this address.
    fn cut(&mut self, at: u64) {
        let before = self.map.range(..at).next_back();
        let before = before.filter(|(start, (_, buf))| Overlay::end(**start, buf) > at);
        let Some((start, (sequence, buf))) = before.map(|(at, piece)| (*at, piece.clone())) else {
            return;
        };
        let lead = (at - start) as usize;
        self.map.insert(start, (sequence, buf.slice(0..lead)));
        self.map.insert(at, (sequence, buf.slice(lead..buf.len())));
    }

    /// Newer than all that is there. Says how many bytes it hides.
    pub fn put(&mut self, start: u64, sequence: u64, data: Buf) -> u64 {
        let end = Overlay::end(start, &data);
        self.cut(start);
        self.cut(end);
        let hidden: Vec<u64> = self.map.range(start..end).map(|(at, _)| *at).collect();
        let hidden = hidden.iter().filter_map(|at| self.map.remove(at));
        let hidden = hidden.map(|(_, buf)| buf.len() as u64).sum();
        self.map.insert(start, (sequence, data));
        hidden
    }

    /// What of the range is still from this one or older ones goes.
    fn forget(&mut self, range: Range<u64>, sequence: u64) {
        let first = self.map.range(..range.start).next_back().map_or(range.start, |(at, _)| *at);
        let all = self.map.range(first..range.end);
        let old = all.filter(|(_, (own, _))| *own <= sequence);
        let old: Vec<u64> = old.map(|(at, _)| *at).collect();
        old.iter().for_each(|at| drop(self.map.remove(at)));
    }

    /// What there is of the range, in order.
    pub fn find(&self, range: Range<u64>) -> Vec<(u64, Buf)> {
        let first = self.map.range(..range.start).next_back().map_or(range.start, |(at, _)| *at);
        let all = self.map.range(first..range.end);
        let parts = all.filter_map(|(start, (_, buf))| {
            let from = range.start.max(*start);
            let to = range.end.min(Overlay::end(*start, buf));
            let within = |at: u64| (at - start) as usize;
            (from < to).then(|| (from, buf.slice(within(from)..within(to))))
        });
        parts.collect()
    }

    /// A page with what there is of it.
    pub fn over(&self, at: u64, page: &[u8]) -> Buf {
        let mut whole = BufMut::from_slice(page);
        for (start, bytes) in self.find(at..at + page.len() as u64) {
            let from = (start - at) as usize;
            whole[from..from + bytes.len()].copy_from_slice(&bytes);
        }
        whole.freeze()
    }

    /// All of it, neighbours joined.
    pub fn pieces(&self) -> Vec<(u64, Buf)> {
        let mut pieces = Vec::new();
        let mut run: Vec<&Buf> = Vec::new();
        let (mut begin, mut end) = (0, 0);
        for (start, (_, buf)) in &self.map {
            let long = (end - begin) as usize + buf.len() > PIECE_MAX;
            if *start != end || long {
                pieces.extend((!run.is_empty()).then(|| (begin, join(&run))));
                run.clear();
                begin = *start;
            }
            run.push(buf);
            end = Overlay::end(*start, buf);
        }
        pieces.extend((!run.is_empty()).then(|| (begin, join(&run))));
        pieces
    }
}

fn join(run: &[&Buf]) -> Buf {
    if let [one] = run {
        return (*one).clone();
    }
    let mut whole = BufMut::with_len(run.iter().map(|buf| buf.len()).sum());
    let mut at = 0;
    for buf in run {
        whole[at..at + buf.len()].copy_from_slice(buf);
        at += buf.len();
    }
    whole.freeze()
}

#[derive(Clone)]
pub struct Entry {
    pub sequence: u64,
    pub offset: u64,
    pub data: Buf,
    charge: u64,
}

/// Entries for one replica, put together.
pub struct Batch {
    /// Sequence of the last.
    pub to: u64,
    pub entries: u64,
    pub pieces: Vec<(u64, Buf)>,
    /// Bytes that are not written, because a later entry of the batch overwrites them.
    pub skipped: u64,
}

pub struct Cache {
    entries: VecDeque<Entry>,
    overlay: Overlay,
    /// Sequences of the entries that change a page, in order.
    pages: BTreeMap<u64, VecDeque<u64>>,
    newest: u64,
    charged: u64,
    limit: u64,
    by_parity: bool,
}

impl Cache {
    /// Entries are numbered from `newest` on. Of parity only what is written in part is logged as a
    /// whole.
    pub fn new(limit: u64, newest: u64, by_parity: bool) -> Cache {
        let (entries, overlay, pages) = (VecDeque::new(), Overlay::default(), BTreeMap::new());
        Cache { entries, overlay, pages, newest, charged: 0, limit, by_parity }
    }

    pub fn newest(&self) -> u64 {
        self.newest
    }

    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.data.len() as u64).sum()
    }

    /// False: there is no room for it.
    pub fn put(&mut self, offset: u64, data: &Buf) -> bool {
        let len = data.len() as u64;
        assert!(len <= ENTRY_MAX, "an entry of {len} bytes");
        let is_whole = |page: u64| offset <= page && page + PAGE <= offset + len;
        let is_again = |page: &u64| !self.by_parity && self.pages.contains_key(page);
        let logged = pages_of(offset, len).filter(|page| !is_whole(*page) || is_again(page));
        let charge = charge(len, logged.count() as u64);
        if self.charged + charge > self.limit {
            return false;
        }
        self.newest += 1;
        self.charged += charge;
        let (sequence, data) = (self.newest, data.clone());
        for page in pages_of(offset, len) {
            self.pages.entry(page).or_default().push_back(sequence);
        }
        self.overlay.put(offset, sequence, data.clone());
        self.entries.push_back(Entry { sequence, offset, data, charge });
        true
    }

    /// Newest bytes of the range, where they are in the cache.
    pub fn find(&self, range: Range<u64>) -> Vec<(u64, Buf)> {
        self.overlay.find(range)
    }

    /// Entries after one up to another, in order.
    pub fn entries(&self, after: u64, to: u64) -> impl Iterator<Item = &Entry> {
        let skip = self.entries.partition_point(|entry| entry.sequence <= after);
        let rest = self.entries.range(skip..);
        rest.take_while(move |entry| entry.sequence <= to)
    }

    /// The next entries after one, so many at most.
    pub fn batch(&self, after: u64, to: u64, most: usize) -> Batch {
        let mut batch = Batch { to: after, entries: 0, pieces: Vec::new(), skipped: 0 };
        let mut overlay = Overlay::default();
        for entry in self.entries(after, to).take(most) {
            batch.skipped += overlay.put(entry.offset, entry.sequence, entry.data.clone());
            batch.to = entry.sequence;
            batch.entries += 1;
        }
        batch.pieces = overlay.pieces();
        batch
    }

    /// Pages of a batch that are logged as a whole before it goes over them. Where drives tear a
    /// page the other replicas' copies of it may rot: of what is written in part then only this log
    /// knows the rest, which may have been flushed. So it is with all of one that entries before
    /// the batch change as well: a replica has those, up to this one, and another one may not. Of
    /// parity it is what is written in part, whatever the drives.
    pub fn edges(&self, after: u64, batch: &Batch, tears: bool) -> Vec<u64> {
        if !self.by_parity && !tears {
            return Vec::new();
        }
        let mut pages = ragged(&batch.pieces);
        if !self.by_parity {
            pages.extend(self.again(after, batch));
            pages.sort_unstable();
            pages.dedup();
        }
        pages
    }

    fn again(&self, after: u64, batch: &Batch) -> Vec<u64> {
        let all = batch.pieces.iter().flat_map(|(at, data)| pages_of(*at, data.len() as u64));
        let is_again = |page: &u64| {
            let first = self.pages.get(page).and_then(VecDeque::front);
            first.is_some_and(|sequence| *sequence <= after)
        };
        let mut pages: Vec<u64> = all.filter(is_again).collect();
        pages.dedup();
        pages
    }

    /// All living replicas have everything up to here.
    pub fn drop_to(&mut self, sequence: u64) {
        while self.entries.front().is_some_and(|entry| entry.sequence <= sequence) {
            let entry = self.entries.pop_front().expect("it is there");
            let len = entry.data.len() as u64;
            self.charged -= entry.charge;
            self.overlay.forget(entry.offset..entry.offset + len, entry.sequence);
            pages_of(entry.offset, len).for_each(|page| self.forget_first(page));
        }
    }

    /// The oldest entry that changes this page leaves.
    fn forget_first(&mut self, page: u64) {
        let left = self.pages.get_mut(&page).map(|all| {
            all.pop_front();
            all.len()
        });
        if left == Some(0) {
            self.pages.remove(&page);
        }
    }

    /// What of it contradicts itself.
    pub fn audit(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut again = Overlay::default();
        let mut pages: BTreeMap<u64, VecDeque<u64>> = BTreeMap::new();
        let mut charged = 0;
        for entry in &self.entries {
            again.put(entry.offset, entry.sequence, entry.data.clone());
            charged += entry.charge;
            for page in pages_of(entry.offset, entry.data.len() as u64) {
                pages.entry(page).or_default().push_back(entry.sequence);
            }
        }
        if pages != self.pages {
            wrong.push("the cache's pages are not those of its entries".into());
        }
        if charged != self.charged || charged > self.limit {
            wrong.push(format!("the cache counts {} bytes, has {charged}", self.charged));
        }
        let whole = |overlay: &Overlay| overlay.pieces();
        let same = whole(&again)
            .iter()
            .zip(&whole(&self.overlay))
            .all(|((at, one), (by, two))| at == by && one[..] == two[..]);
        if !same || whole(&again).len() != whole(&self.overlay).len() {
            wrong.push("the cache's index is not what its entries say".into());
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use io::rng::{Rng, mix};

    use super::*;
    use crate::log::record::record_bytes;

    const SIZE: u64 = 64;

    fn bytes(len: u64, byte: u8) -> Buf {
        Buf::from_slice(&vec![byte; len as usize])
    }

    #[test]
    fn what_an_entry_takes_in_a_log_is_charged() {
        for len in [512, 4096, 4608, ENTRY_MAX] {
            // Data; its range; that it is in place.
            let least = record_bytes(len) + 2 * record_bytes(0);
            assert!(charge(len, 0) >= least);
            assert!(charge(len, 3) >= least + 3 * record_bytes(PAGE));
        }
    }

    /// Against a list of all entries, of which the last that has a byte counts.
    #[test]
    fn it_is_what_a_list_of_writes_says() {
        for seed in 0..200 {
            let mut rng = Rng::new(mix(seed));
            // Each is a part of one page.
            let limit = 40 * charge(1, 1);
            let mut cache = Cache::new(limit, 0, false);
            let mut list: Vec<(u64, u64, u64)> = Vec::new();
            for step in 1..120u64 {
                let start = rng.below(SIZE);
                let len = 1 + rng.below((SIZE - start).min(20));
                if rng.chance(3, 4) {
                    let fits = cache.put(start, &bytes(len, step as u8));
                    assert_eq!(fits, list.len() < 40);
                    if fits {
                        list.push((start, len, step));
                    }
                } else {
                    let gone = rng.below(list.len() as u64 + 1);
                    let first = cache.newest() - list.len() as u64;
                    cache.drop_to(first + gone);
                    list.drain(..gone as usize);
                }
                assert_eq!(cache.audit(), Vec::<String>::new());
                let held = |at: u64, list: &[(u64, u64, u64)]| {
                    let own = list
                        .iter()
                        .rev()
                        .find(|(start, len, _)| (*start..start + len).contains(&at));
                    own.map(|(_, _, step)| *step as u8)
                };
                let newest: Vec<Option<u8>> = (0..SIZE).map(|at| held(at, &list)).collect();
                same(&cache.find(0..SIZE), &newest);
                let part = cache.find(start..start + len);
                let inside = |at: u64| (start..start + len).contains(&at);
                let cut = (0..SIZE).map(|at| newest[at as usize].filter(|_| inside(at)));
                same(&part, &cut.collect::<Vec<_>>());
                // A batch of some.
                let first = cache.newest() - list.len() as u64;
                let (skip, most) = (rng.below(list.len() as u64 + 1), 1 + rng.index(10));
                let batch = cache.batch(first + skip, cache.newest(), most);
                let some = &list[skip as usize..][..most.min(list.len() - skip as usize)];
                assert_eq!(batch.to, first + skip + some.len() as u64);
                same(&batch.pieces, &(0..SIZE).map(|at| held(at, some)).collect::<Vec<_>>());
                let (written, all): (u64, u64) = (
                    batch.pieces.iter().map(|(_, buf)| buf.len() as u64).sum(),
                    some.iter().map(|(_, len, _)| len).sum(),
                );
                assert_eq!(written + batch.skipped, all);
            }
        }
    }

    fn same(pieces: &[(u64, Buf)], expected: &[Option<u8>]) {
        let mut found = vec![None; SIZE as usize];
        for (start, buf) in pieces {
            for (at, byte) in (*start..).zip(buf.iter()) {
                assert_eq!(found[at as usize].replace(*byte), None, "twice");
            }
        }
        assert_eq!(found, expected);
    }
}
