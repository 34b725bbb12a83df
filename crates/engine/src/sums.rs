//! Sums of pages: what every page of data should read as, kept apart from the pages.
//!
//! ```text
//!  place a write got ──> stripe, data position, page ──> sum: CRC32C, 0 "not known"
//!                         └ of a tuple: stripe 0's, whose copies hold the same bytes
//!
//!  zone ── parts of 4080 sums, made when the first of them is set: 16 KiB, one checkpoint object
//! ```
//! A page is written once in the life of its stripe. Its sum is set before the map names the page,
//! and forgotten when the stripe is given out again; nobody reads a life that is over. So whoever
//! has a place from the map finds the sum of what should be there.
//!
//! Parity has no sums: what it should be follows from the data.

mod crc;
pub mod image;

use std::collections::BTreeSet;

use format::{ClassId, Flbn, SUMS_ENTRIES, StripeId};
use io::PAGE;
use io::crc::crc32c;
use io::memory::prefetch;
use smallvec::SmallVec;

use crate::geometry::{Class, PoolGeometry};
use crate::planted::{self, Bug};

/// Sums of the pages of one piece of data, in order.
pub type PageSums = SmallVec<[u32; 1]>;

#[derive(Clone)]
struct ZoneSums {
    class: ClassId,
    parts: Box<[Option<Box<[u32]>>]>,
}

#[derive(Clone)]
pub struct Sums {
    geometry: PoolGeometry,
    enabled: bool,
    zones: Vec<Option<ZoneSums>>,
    /// Parts there are.
    parts: u64,
    /// Those that changed since they were last taken.
    dirty: BTreeSet<(u32, u32)>,
}

/// What a page's sum is, never 0.
pub fn sum_of(page: &[u8]) -> u32 {
    known(crc32c(page))
}

fn known(crc: u32) -> u32 {
    crc.max(1)
}

/// CRC of whole pages, and the sum of each.
pub fn sums_of(data: &[u8]) -> (u32, PageSums) {
    if data.len() == PAGE {
        let crc = crc32c(data);
        return (crc, PageSums::from_slice(&[known(crc)]));
    }
    let mut whole = 0;
    let each = data.chunks_exact(PAGE).map(|page| {
        let crc = crc32c(page);
        whole = crc::with_page(whole, crc);
        known(crc)
    });
    let sums = each.collect();
    (whole, sums)
}

/// Checkpoint objects that sums of a pool can come to, whatever its classes.
pub fn parts_max(geometry: &PoolGeometry) -> u64 {
    let lists = &geometry.lists;
    let drives = |zone| lists.drives(lists.newest(zone)).len();
    (0..geometry.zone_count).map(|zone| parts_on(geometry, drives(zone))).sum()
}

/// A stripe has at least one block of parity, so that of the blocks of a row one is without sums.
fn parts_on(geometry: &PoolGeometry, drives: usize) -> u64 {
    let blocks = u64::from(geometry.zone_blocks) * (drives as u64).saturating_sub(1);
    (blocks * u64::from(geometry.block_pages())).div_ceil(SUMS_ENTRIES as u64)
}

impl Sums {
    pub fn new(geometry: PoolGeometry, enabled: bool) -> Sums {
        let zones = (0..geometry.zone_count).map(|_| None).collect();
        Sums { geometry, enabled, zones, parts: 0, dirty: BTreeSet::new() }
    }

    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// CRC and sums of data that is about to be written.
    pub fn measure(&self, data: &[u8]) -> (u32, PageSums) {
        if self.enabled { sums_of(data) } else { (crc32c(data), PageSums::new()) }
    }

    fn block_pages(&self) -> usize {
        usize::from(self.geometry.block_pages())
    }

    /// Number of a block's first page among those of its zone.
    fn first_of(&self, class: &Class, stripe: StripeId, position: usize) -> usize {
        (stripe.index as usize * class.data() + position) * self.block_pages()
    }

    /// Sums of pages of a block from page `first` on. What is not a data block of the class has
    /// none: a record may be of a class that the zone has no longer.
    pub fn set(
        &mut self,
        class: &Class,
        stripe: StripeId,
        position: usize,
        first: usize,
        sums: &[u32],
    ) {
        let fits = position < class.data()
            && stripe.index < class.stripes_in(stripe.zone)
            && first + sums.len() <= self.block_pages();
        if !self.enabled || !fits {
            return;
        }
        self.fit_zone(class, stripe.zone);
        let start = self.first_of(class, stripe, position) + first;
        for (at, &sum) in (start..).zip(sums) {
            let part = at / SUMS_ENTRIES;
            let zone = self.zones[stripe.zone as usize].as_mut().expect("just fitted");
            let place = zone.parts[part].get_or_insert_with(|| {
                self.parts += 1;
                vec![0; SUMS_ENTRIES].into()
            });
            let place = &mut place[at % SUMS_ENTRIES];
            if *place != sum {
                *place = sum;
                self.dirty.insert((stripe.zone, part as u32));
            }
        }
    }

    /// The same for the block of that number, if it is one of the class.
    pub fn set_at(&mut self, class: &Class, flbn: Flbn, first: usize, sums: &[u32]) {
        let (stripe, position) = self.geometry.stripe_of(class, flbn);
        self.set(class, stripe, position, first, sums);
    }

    /// Sums of whole data blocks of a stripe, from the first on.
    pub fn set_stripe(&mut self, class: &Class, stripe: StripeId, sums: &[PageSums]) {
        for (position, sums) in sums.iter().enumerate() {
            self.set(class, stripe, position, 0, sums);
        }
    }

    /// The zone's table is one for this class.
    fn fit_zone(&mut self, class: &Class, zone: u32) {
        let pages = class.stripes_in(zone) as usize * class.data() * self.block_pages();
        let parts = pages.div_ceil(SUMS_ENTRIES);
        let fits = |zone: &ZoneSums| zone.class == class.id && zone.parts.len() == parts;
        if self.zones[zone as usize].as_ref().is_some_and(fits) {
            return;
        }
        self.forget_zone(zone);
        let parts = (0..parts).map(|_| None).collect();
        self.zones[zone as usize] = Some(ZoneSums { class: class.id, parts });
    }

    /// The sum of a page, 0 if it is not known.
    pub fn get(&self, class: &Class, stripe: StripeId, position: usize, page: usize) -> u32 {
        self.some_of(class, (stripe, position), page, 1).map_or(0, |sums| sums[0])
    }

    /// Somebody will ask for sums of this block soon: they are seldom in a cache. Those of a block
    /// of the usual size lie in one line of it, or in two.
    pub fn expect_block(&self, class: &Class, stripe: StripeId, position: usize) {
        let sums = self.some_of(class, (stripe, position), 0, self.block_pages());
        if let Some([first, .., last]) = sums {
            prefetch(first);
            prefetch(last);
        }
    }

    /// Whether what every page of a block should be is known.
    pub fn has_block(&self, class: &Class, stripe: StripeId, position: usize) -> bool {
        let mut pages = 0..self.block_pages();
        position < class.data() && pages.all(|page| self.get(class, stripe, position, page) != 0)
    }

    /// Sums that lie in one part.
    fn some_of(
        &self,
        class: &Class,
        (stripe, position): (StripeId, usize),
        first: usize,
        count: usize,
    ) -> Option<&[u32]> {
        let zone = self.zones.get(stripe.zone as usize)?.as_ref()?;
        if position >= class.data() || zone.class != class.id {
            return None;
        }
        let at = self.first_of(class, stripe, position) + first;
        let part = zone.parts.get(at / SUMS_ENTRIES)?.as_ref()?;
        part.get(at % SUMS_ENTRIES..at % SUMS_ENTRIES + count)
    }

    /// The first of these pages (of a block from page `first` on) that is not what was written.
    pub fn wrong_page(
        &self,
        class: &Class,
        (stripe, position): (StripeId, usize),
        first: usize,
        pages: &[u8],
    ) -> Option<usize> {
        if !self.enabled || planted::is(Bug::SkipSums) {
            return None;
        }
        let is_wrong = |sum: u32, page: &[u8]| sum != 0 && sum != sum_of(page);
        let each = pages.chunks_exact(PAGE);
        // Those of a block of the usual size lie in one part.
        let wrong = match self.some_of(class, (stripe, position), first, pages.len() / PAGE) {
            Some(sums) => sums.iter().zip(each).position(|(sum, page)| is_wrong(*sum, page)),
            None => {
                let sum = |at: usize| self.get(class, stripe, position, first + at);
                each.enumerate().position(|(at, page)| is_wrong(sum(at), page))
            }
        };
        wrong.map(|at| first + at)
    }

    /// The stripe begins a new life: what it held is of no interest.
    pub fn forget(&mut self, class: &Class, stripe: StripeId) {
        let Some(Some(zone)) = self.zones.get_mut(stripe.zone as usize) else { return };
        if zone.class != class.id {
            return;
        }
        let pages = class.data() * usize::from(self.geometry.block_pages());
        let first = stripe.index as usize * pages;
        for at in first..first + pages {
            let Some(Some(part)) = zone.parts.get_mut(at / SUMS_ENTRIES) else { continue };
            if std::mem::take(&mut part[at % SUMS_ENTRIES]) != 0 {
                self.dirty.insert((stripe.zone, (at / SUMS_ENTRIES) as u32));
            }
        }
    }

    /// These pages of a block hold nothing that counts.
    pub fn forget_pages(&mut self, class: &Class, flbn: Flbn, first: usize, count: usize) {
        let (stripe, position) = self.geometry.stripe_of(class, flbn);
        for page in first..first + count {
            if self.get(class, stripe, position, page) != 0 {
                self.set(class, stripe, position, page, &[0]);
            }
        }
    }

    /// The zone is given back.
    pub fn forget_zone(&mut self, zone: u32) {
        let Some(found) = self.zones[zone as usize].take() else { return };
        for (part, kept) in found.parts.iter().enumerate() {
            if kept.is_some() {
                self.parts -= 1;
                self.dirty.insert((zone, part as u32));
            }
        }
    }

    pub fn memory(&self) -> u64 {
        let zones = self.zones.iter().flatten();
        let places: usize = zones.map(|zone| zone.parts.len() * size_of::<Box<[u32]>>()).sum();
        self.parts * (SUMS_ENTRIES * 4) as u64 + places as u64
    }
}

#[cfg(test)]
mod tests;
