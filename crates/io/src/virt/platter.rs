//! Bytes by page, sparse, and for each sector the write it came from.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use crate::rng::{Rng, mix};

pub(super) const PAGE: u64 = 4096;
/// What a drive writes wholly or not at all.
pub(super) const SECTOR: u64 = 512;
const SECTORS: usize = (PAGE / SECTOR) as usize;

/// What a page takes beside its place in a tree: the allocator rounds it up.
const PAGE_MEMORY: u64 = PAGE + 16;
/// What an entry of a tree takes: leaves are two thirds full, and a tenth are above them.
const fn entry_memory(bytes: usize) -> u64 {
    bytes as u64 * 3 / 2 * 11 / 10
}

/// Memory of so many pages in a tree, about.
pub(super) const fn pages_memory(count: usize) -> u64 {
    count as u64 * (PAGE_MEMORY + entry_memory(size_of::<(u64, Page)>()))
}

/// The order in which writes completed; 0 is before all of them.
pub(super) type Version = u64;

#[derive(Clone)]
pub(super) struct Page {
    /// Shared by disks that are copies of each other, until one of them writes.
    pub bytes: Rc<[u8; PAGE as usize]>,
    pub versions: [Version; SECTORS],
}

/// Sparse content: zeroes, or garbage where it was discarded, until written.
#[derive(Clone)]
pub(super) struct Platter {
    pages: BTreeMap<u64, Page>,
    /// Discarded ranges of pages, start to end and when, disjoint.
    discarded: BTreeMap<u64, (u64, Version)>,
    garbage_seed: u64,
    /// Pages of zeroes are forgotten, and what is not there reads as zeroes, discarded or not.
    drops_zeroes: bool,
}

/// What of a range of bytes lies in one page.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub page: u64,
    /// Where it starts and ends in the page.
    pub start: usize,
    pub end: usize,
    /// Where it starts in the range.
    done: usize,
}

impl Part {
    /// Where it lies in the range.
    pub(super) fn range(&self) -> Range<usize> {
        self.done..self.done + self.end - self.start
    }
}

/// Cuts a range of bytes at page boundaries.
pub(super) fn by_page(offset: u64, len: u64) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let start = (offset + done) % PAGE;
        let len = (PAGE - start).min(len - done);
        let (page, end) = ((offset + done) / PAGE, (start + len) as usize);
        let part = Part { page, start: start as usize, end, done: done as usize };
        done += len;
        (len > 0).then_some(part)
    })
}

/// Removes the pages from `first` up to `end`, in time that depends on them alone.
pub(super) fn remove_range(pages: &mut BTreeMap<u64, Page>, first: u64, end: u64) {
    let inside: Vec<u64> = pages.range(first..end).map(|(&page, _)| page).collect();
    for page in inside {
        pages.remove(&page);
    }
}

static ZEROES: [u8; PAGE as usize] = [0; PAGE as usize];

/// Experiments write nothing but zeroes: compared as memory, which is many bytes at a time.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROES.len()).all(|some| some == &ZEROES[..some.len()])
}

/// Which sectors of a page a write may change.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// Those that hold nothing newer; they are this version's from then on.
    Newest(Version),
    /// Those that hold something older, whose versions stay: for writes of undecided order,
    /// each of which may overwrite the others.
    Unordered(Version),
}

impl Page {
    /// True if no sector of this page is newer than in `other`.
    pub(super) fn is_covered_by(&self, other: &Page) -> bool {
        self.versions.iter().zip(&other.versions).all(|(mine, theirs)| mine <= theirs)
    }

    /// Stores whole sectors from byte `start` on.
    pub(super) fn store(&mut self, start: usize, data: &[u8], rule: Rule) {
        let sector = SECTOR as usize;
        assert!(start.is_multiple_of(sector) && data.len().is_multiple_of(sector));
        let page = Rc::make_mut(&mut self.bytes);
        for (index, bytes) in (start / sector..).zip(data.chunks(sector)) {
            let version = &mut self.versions[index];
            match rule {
                Rule::Newest(new) if *version <= new => *version = new,
                Rule::Unordered(new) if *version < new => {}
                _ => continue,
            }
            page[index * sector..][..sector].copy_from_slice(bytes);
        }
    }
}

impl Platter {
    pub(super) fn new(garbage_seed: u64) -> Platter {
        let (pages, discarded) = (BTreeMap::new(), BTreeMap::new());
        Platter { pages, discarded, garbage_seed, drops_zeroes: false }
    }

    pub(super) fn drops_zeroes(&self) -> bool {
        self.drops_zeroes
    }

    pub(super) fn drop_zeroes(&mut self) {
        self.drops_zeroes = true;
        self.discarded.clear();
        self.pages.retain(|_, page| !is_zero(&page.bytes[..]));
    }

    pub(super) fn get(&self, page: u64) -> Option<&Page> {
        self.pages.get(&page)
    }

    pub(super) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// Memory that all of this takes, about.
    pub(super) fn memory_bytes(&self) -> u64 {
        let range = entry_memory(size_of::<(u64, (u64, Version))>());
        pages_memory(self.pages.len()) + self.discarded.len() as u64 * range
    }

    /// The page as it reads now, stored or not.
    pub(super) fn load(&self, page: u64) -> Page {
        self.pages.get(&page).cloned().unwrap_or_else(|| self.unwritten(page))
    }

    fn unwritten(&self, page: u64) -> Page {
        let mut bytes = [0; PAGE as usize];
        let discarded = self.discarded_at(page);
        if discarded.is_some() {
            Rng::new(mix(self.garbage_seed ^ page)).fill(&mut bytes[..]);
        }
        Page { bytes: Rc::new(bytes), versions: [discarded.unwrap_or(0); SECTORS] }
    }

    fn discarded_at(&self, page: u64) -> Option<Version> {
        let (_, &(end, version)) = self.discarded.range(..=page).next_back()?;
        (page < end).then_some(version)
    }

    pub(super) fn read(&self, part: Part, target: &mut [u8]) {
        match self.pages.get(&part.page) {
            Some(page) => target.copy_from_slice(&page.bytes[part.start..part.end]),
            None if self.discarded_at(part.page).is_none() => target.fill(0),
            None => {
                target.copy_from_slice(&self.unwritten(part.page).bytes[part.start..part.end]);
            }
        }
    }

    fn page_mut(&mut self, page: u64) -> &mut Page {
        if !self.pages.contains_key(&page) {
            let unwritten = self.unwritten(page);
            self.pages.insert(page, unwritten);
        }
        self.pages.get_mut(&page).expect("stored above")
    }

    pub(super) fn store(&mut self, offset: u64, data: &[u8], rule: Rule) {
        for part in by_page(offset, data.len() as u64) {
            let data = &data[part.range()];
            if self.drops_zeroes && is_zero(data) {
                self.store_zeroes(part, data, rule);
            } else {
                self.page_mut(part.page).store(part.start, data, rule);
            }
        }
    }

    /// Never makes a page, and forgets one that has become all zeroes.
    fn store_zeroes(&mut self, part: Part, data: &[u8], rule: Rule) {
        let Some(page) = self.pages.get_mut(&part.page) else { return };
        page.store(part.start, data, rule);
        if is_zero(&page.bytes[..]) {
            self.pages.remove(&part.page);
        }
    }

    /// Makes whole pages garbage by forgetting them. To older writes it is as a newer one:
    /// no flush brings back what was discarded.
    pub(super) fn discard(&mut self, first: u64, end: u64, version: Version) {
        remove_range(&mut self.pages, first, end);
        if self.drops_zeroes {
            return;
        }
        let before = self.discarded.range(..end).rev().map(|(&start, &value)| (start, value));
        let overlapping: Vec<_> = before.take_while(|&(_, (stop, _))| stop > first).collect();
        for (start, (stop, old)) in overlapping {
            self.discarded.remove(&start);
            if start < first {
                self.discarded.insert(start, (first, old));
            }
            if stop > end {
                self.discarded.insert(end, (stop, old));
            }
        }
        self.discarded.insert(first, (end, version));
    }
}
