//! Stripes that are still to be made to agree: since a crash, or since the array was made.
//!
//! ```text
//!   opening: marked regions ── owed ──┬─ first request of a stripe ─┐
//!                                     └─ background, in order ──────┴─ agrees: paid
//! ```
//! An array serves at once; whoever comes to such a stripe first makes it agree before anything
//! else. The mark of a region stays on the drives until all of its stripes are paid.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Default)]
pub struct Owed {
    /// Of each region its stripes that are paid already; none yet: empty.
    regions: RefCell<BTreeMap<u64, Vec<bool>>>,
    region_stripes: u64,
    stripes: u64,
    left: Cell<u64>,
}

impl Owed {
    /// All stripes of these regions.
    pub fn new(regions: impl Iterator<Item = u64>, region_stripes: u64, stripes: u64) -> Owed {
        let regions: BTreeMap<u64, Vec<bool>> = regions.map(|region| (region, vec![])).collect();
        let len = |region: &u64| region_stripes.min(stripes - region * region_stripes);
        let left = Cell::new(regions.keys().map(len).sum());
        Owed { regions: RefCell::new(regions), region_stripes, stripes, left }
    }

    /// Stripes of the regions of which any is left.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let (each, end) = (self.region_stripes, self.stripes);
        let of = |region: &u64| region * each..end.min((region + 1) * each);
        self.regions.borrow().keys().map(of).collect()
    }

    /// Stripes that are left.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    pub fn is_owed(&self, stripe: u64) -> bool {
        if self.left.get() == 0 {
            return false;
        }
        let regions = self.regions.borrow();
        let region = regions.get(&(stripe / self.region_stripes));
        let at = (stripe % self.region_stripes) as usize;
        region.is_some_and(|paid| !paid.get(at).copied().unwrap_or(false))
    }

    /// The stripe agrees now. True: with it all of its region.
    pub fn pay(&self, stripe: u64) -> bool {
        if !self.is_owed(stripe) {
            return false;
        }
        self.left.set(self.left.get() - 1);
        let number = stripe / self.region_stripes;
        let first = number * self.region_stripes;
        let len = self.region_stripes.min(self.stripes - first) as usize;
        let mut regions = self.regions.borrow_mut();
        let paid = regions.get_mut(&number).expect("it is owed");
        paid.resize(len, false);
        paid[(stripe - first) as usize] = true;
        let all = paid.iter().all(|paid| *paid);
        if all {
            regions.remove(&number);
        }
        all
    }

    /// Some that are owed, in order.
    pub fn some(&self, most: usize) -> Vec<u64> {
        let regions = self.regions.borrow();
        let stripes = regions.keys().flat_map(|region| {
            let first = region * self.region_stripes;
            first..self.stripes.min(first + self.region_stripes)
        });
        stripes.filter(|stripe| self.is_owed(*stripe)).take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_stripe_is_paid_once_and_the_last_of_a_region_says_so() {
        let owed = Owed::new([0, 2, 3].into_iter(), 5, 17);
        let mut slow: BTreeSet<u64> = (0..5).chain(10..17).collect();
        assert_eq!(owed.left(), 12, "the last region is short");
        assert_eq!(owed.some(7), [0, 1, 2, 3, 4, 10, 11]);
        for stripe in [3, 16, 7, 0, 15, 4, 3, 2, 1, 10, 11, 14, 13, 12] {
            let was = slow.remove(&stripe);
            let of_region = slow.iter().filter(|other| *other / 5 == stripe / 5).count();
            assert_eq!(owed.pay(stripe), was && of_region == 0, "stripe {stripe}");
            assert_eq!(owed.left(), slow.len() as u64);
            assert_eq!(owed.some(99), slow.iter().copied().collect::<Vec<_>>());
            (0..17).for_each(|at| assert_eq!(owed.is_owed(at), slow.contains(&at)));
        }
    }
}
