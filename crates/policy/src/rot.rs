//! What is told of pages that were found bad, and how many are lost still.
//!
//! A drive that rots has thousands: repairs are summed up now and then, and so are lost pages
//! after the first few, which are told one by one.

use std::collections::BTreeMap;

/// What was found on a drive is summed up at most so often (ns).
pub const TELL: u64 = 10_000_000_000;
/// Lost pages of a drive that are told one by one, until none was found for [`QUIET`].
pub const LOST_SINGLY: u64 = 16;
/// Afterwards the next lost page is news again (ns).
pub const QUIET: u64 = 600_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was not what was written, or refused, and has been written again.
    Repaired,
    /// Nothing gives it.
    Lost,
}

/// Bad pages of one drive, to be told at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    pub found: Found,
    pub pages: u64,
    /// The last one's place on the drive.
    pub byte: u64,
}

impl Sum {
    pub fn text(&self, drive: &str) -> String {
        let Sum { found, pages, byte } = self;
        match found {
            Found::Repaired => format!(
                "drive {drive}: {pages} pages were not what was written, or refused, and have been \
                 written again; the last at byte {byte}"
            ),
            Found::Lost if *pages == 1 => format!(
                "drive {drive}, byte {byte}: a page is lost: it is not what was written, or \
                 refused, and so is more of its stripe than parity or copies bear; reads of it \
                 fail until it is written again"
            ),
            Found::Lost => format!(
                "drive {drive}: {pages} more pages are lost, the last at byte {byte}; reads of \
                 them fail until they are written again"
            ),
        }
    }
}

/// Pages, and the last one's place on the drive.
#[derive(Clone, Copy, Debug, Default)]
struct Pages {
    count: u64,
    byte: u64,
}

impl Pages {
    fn add(&mut self, byte: u64) {
        self.count += 1;
        self.byte = byte;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Drive {
    repaired: Pages,
    lost: Pages,
    /// Told one by one, and when the last lost page was found.
    singly: u64,
    found: u64,
    summed: Option<u64>,
}

/// What was found on drives and not told yet, by their key: one entry for each drive.
#[derive(Debug, Default)]
pub struct Untold<K> {
    drives: BTreeMap<K, Drive>,
}

impl<K: Ord + Clone> Untold<K> {
    /// Notes a page found bad at `now`. Some: it is to be told by itself, now.
    pub fn note(&mut self, drive: K, byte: u64, found: Found, now: u64) -> Option<Sum> {
        let own = self.drives.entry(drive).or_default();
        if found == Found::Lost {
            if now.saturating_sub(own.found) > QUIET {
                own.singly = 0;
            }
            own.found = now;
        }
        match found {
            Found::Repaired => own.repaired.add(byte),
            Found::Lost if own.singly < LOST_SINGLY => {
                own.singly += 1;
                return Some(Sum { found, pages: 1, byte });
            }
            Found::Lost => own.lost.add(byte),
        }
        None
    }

    /// What is to be told at `now` of drives that nothing was summed up of lately; with `all` of
    /// all of them.
    pub fn due(&mut self, now: u64, all: bool) -> Vec<(K, Sum)> {
        let mut due = Vec::new();
        for (key, own) in &mut self.drives {
            let lately = own.summed.is_some_and(|at| now.saturating_sub(at) < TELL);
            if lately && !all {
                continue;
            }
            for (found, pages) in
                [(Found::Repaired, &mut own.repaired), (Found::Lost, &mut own.lost)]
            {
                let Pages { count, byte } = std::mem::take(pages);
                if count > 0 {
                    own.summed = Some(now);
                    due.push((key.clone(), Sum { found, pages: count, byte }));
                }
            }
        }
        due
    }
}

/// Pages that are known to be lost, from the number found since the pool was opened and from what
/// scrubs find: one that was written again since is not found by the next scrub.
#[derive(Clone, Copy, Debug, Default)]
pub struct LostPages {
    /// What the last whole scrub left.
    left: u64,
    /// The number when it ended, and when the one that is under way began.
    ended: u64,
    began: u64,
}

impl LostPages {
    /// `total`: different lost pages found since the pool was opened.
    pub fn known(&self, total: u64) -> u64 {
        self.left + total.saturating_sub(self.ended)
    }

    /// The number as it is now and then: it falls when an array that found some is left.
    pub fn seen(&mut self, total: u64) {
        self.ended = self.ended.min(total);
        self.began = self.began.min(total);
    }

    pub fn scrub_begins(&mut self, total: u64) {
        self.began = total;
    }

    /// It has read everything, and found `lost` pages that nothing gives, beside some that are
    /// `superseded`. What reads found meanwhile may be the same ones.
    pub fn scrub_ends(&mut self, total: u64, lost: u64, superseded: u64) {
        let found = total.saturating_sub(self.began);
        self.left = lost.max(found.saturating_sub(superseded));
        self.ended = total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_pages_end_with_a_scrub_that_finds_none() {
        let mut lost = LostPages::default();
        assert_eq!((lost.known(0), lost.known(3)), (0, 3));
        lost.scrub_begins(3);
        // It finds the same three, and one more that nobody had read.
        assert_eq!(lost.known(4), 4);
        lost.scrub_ends(4, 4, 0);
        assert_eq!(lost.known(4), 4);
        // All are written again.
        lost.scrub_begins(4);
        lost.scrub_ends(4, 0, 0);
        assert_eq!((lost.known(4), lost.known(5)), (0, 1));
        // A read met one where the scrub had been.
        lost.scrub_begins(5);
        lost.scrub_ends(6, 0, 0);
        assert_eq!(lost.known(6), 1);
        // It is the first to find five that were written over, and one that was not.
        lost.scrub_begins(6);
        lost.scrub_ends(12, 1, 5);
        assert_eq!(lost.known(12), 1);
        // A replica that found nine of them is gone; the others find two more.
        lost.seen(3);
        assert_eq!((lost.known(3), lost.known(5)), (1, 3));
    }

    proptest::proptest! {
        /// Each page is told once, alone or in a sum, and no drive is told of more often than is
        /// said.
        #[test]
        fn each_page_is_told_once(
            steps in proptest::collection::vec((0..3_u8, 0..3_u8, 0..TELL / 4), 1..400),
        ) {
            let (mut untold, mut now) = (Untold::default(), 0);
            let (mut noted, mut told) = ([0_u64; 2], [0_u64; 2]);
            let mut lines = 0_u64;
            for (drive, what, passed) in steps {
                now += passed;
                let found = match what {
                    0 => Found::Repaired,
                    1 => Found::Lost,
                    _ => {
                        for (_, sum) in untold.due(now, false) {
                            told[usize::from(sum.found == Found::Lost)] += sum.pages;
                            lines += 1;
                        }
                        continue;
                    }
                };
                noted[usize::from(found == Found::Lost)] += 1;
                if let Some(sum) = untold.note(drive, now, found, now) {
                    proptest::prop_assert_eq!((sum.found, sum.pages), (Found::Lost, 1));
                    told[1] += 1;
                    lines += 1;
                }
            }
            let spans = (now / TELL + 1, now / QUIET + 1);
            proptest::prop_assert!(lines <= 3 * (2 * spans.0 + LOST_SINGLY * spans.1));
            for (_, sum) in untold.due(now, true) {
                told[usize::from(sum.found == Found::Lost)] += sum.pages;
            }
            proptest::prop_assert_eq!(noted, told);
            proptest::prop_assert!(untold.due(now + TELL, true).is_empty());
        }
    }
}
