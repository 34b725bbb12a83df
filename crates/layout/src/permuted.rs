//! Base rows for numbers of drives that aren't prime powers (6, 10, 12, 24, ...), found by a
//! deterministic search.
//!
//! There is no field, so the rows are developed over the integers modulo n: position i of row r in
//! column c is `a_r[i] + c mod n`. That alone fills every drive equally. Two drives at distance d
//! meet once in a row for every two of its members at distance d, so what is left is to choose the
//! n-1 rows such that the distances inside them cover 1..n evenly, each w(w-1) times:
//!
//! ```text
//! n = 10, w = 3:   row {0, 1, 4}  ->  distances 1, 3, 4 (and 9, 7, 6 seen from the other end)
//! ```
//!
//! The search starts from random rows, proposes to swap a member of a row with an outsider, and
//! keeps swaps that don't make the sum of squared deviations larger. Then it does the same for the
//! spares. The outsiders of a row have, up to a constant, the distance counts of its members, so
//! the smaller of the two sets is searched.
//!
//! Up to 20 drives whatever can be perfect comes out so, and few shapes up to 28 don't; beyond, a
//! pair of drives meets a few times too often at most. One family can't be perfect: with n = 2
//! mod 4 and w = 3 mod 4, perfection needs h * w(w-1) = 2 mod 4 ordered pairs at odd distance
//! (h = n/2 being odd), yet a row with e even members has 2e(w-e) of them, a multiple of 4
//! since w is odd. There the search is content when no distance is more than one too often,
//! which is the best there is.
//!
//! All is integers and a fixed seed. THE SEARCH MUST NEVER CHANGE: pools on disk depend on its
//! result. `tests/golden.rs` holds it.

use std::ops::Range;

/// Mixed with n and w. Part of the format, like the rest of this file.
const SEED: u64 = 0x5374_6561_6479_5241;

/// Distances each of the two searches may recount: instant for the usual pool, and below 200 ms
/// for 255 drives. Part of the format.
fn budget(drives: usize) -> u64 {
    (2_000 * drives as u64 * drives as u64).min(12_000_000)
}

/// The n-1 rows one after the other: w members, then the spare if w < n.
pub(crate) fn base_rows(drives: usize, width: usize) -> Vec<u8> {
    let mut random = SplitMix(SEED ^ (drives as u64) << 32 ^ width as u64);
    let rows = search_members(&mut random, drives, width);
    let spares = (width < drives).then(|| search_spares(&mut random, &rows, width));
    let kept = drives.min(width + 1);
    let mut base = Vec::with_capacity(rows.len() * kept);
    for (r, mut row) in rows.into_iter().enumerate() {
        if let Some(spares) = &spares {
            row.swap(width, spares[r]);
        }
        // Any shift of a row is as good. This one has position 0 of column c on drive c, as the
        // Latin squares do.
        let first = usize::from(row[0]);
        base.extend(
            row[..kept].iter().map(|d| ((usize::from(*d) + drives - first) % drives) as u8),
        );
    }
    base
}

/// For each row, the place of its spare.
fn search_spares(random: &mut SplitMix, rows: &[Vec<u8>], width: usize) -> Vec<usize> {
    let mut search = Spares::new(random, rows, width);
    search.climb(random);
    search.places
}

/// A permutation of the drives for each row, members first.
fn search_members(random: &mut SplitMix, drives: usize, width: usize) -> Vec<Vec<u8>> {
    let small = width.min(drives - width);
    let mut search = Members::new(random, drives, small);
    search.climb(random);
    let mut rows = search.rows;
    if small < width {
        // The searched part was the outsiders.
        rows.iter_mut().for_each(|row| row.rotate_left(small));
    }
    rows
}

/// Rows of `size` members, and how far from even their distances are.
struct Members {
    size: usize,
    rows: Vec<Vec<u8>>,
    /// For each distance 1..=n/2 (d and n-d are one), how many more pairs have it than should.
    excess: Vec<i32>,
    /// `fold[a + n - b]` is the distance of drives a and b.
    fold: Vec<u8>,
    cost: i64,
}

impl Members {
    fn new(random: &mut SplitMix, drives: usize, size: usize) -> Self {
        let fold = (0..2 * drives).map(|i| (i % drives).min(drives - i % drives) as u8).collect();
        let rows = (1..drives).map(|_| random.permutation(drives)).collect();
        let mean = (size * size.saturating_sub(1)) as i32;
        let excess = vec![-mean; drives / 2 + 1];
        let mut new = Self { size, rows, excess, fold, cost: 0 };
        for row in 0..new.rows.len() {
            for i in 1..size {
                let member = new.rows[row][i];
                new.count(row, member, 0..i, 1);
            }
        }
        new.cost = new.excess[1..].iter().map(|e| i64::from(*e).pow(2)).sum();
        new
    }

    /// Counts (or, with -1, uncounts) the distances from `drive` to some members of a row.
    fn count(&mut self, row: usize, drive: u8, members: Range<usize>, sign: i32) {
        let n = self.rows.len() + 1;
        for other in &self.rows[row][members] {
            let distance = usize::from(self.fold[usize::from(drive) + n - usize::from(*other)]);
            // Both of two drives at distance n/2 see each other at n/2: that meeting counts for
            // two.
            let step = if distance * 2 == n { 2 * sign } else { sign };
            let excess = &mut self.excess[distance];
            self.cost += i64::from(step * (2 * *excess + step));
            *excess += step;
        }
    }

    fn swap(&mut self, row: usize, member: usize, outsider: usize) {
        let (leaving, joining) = (self.rows[row][member], self.rows[row][outsider]);
        for others in [0..member, member + 1..self.size] {
            self.count(row, leaving, others.clone(), -1);
            self.count(row, joining, others, 1);
        }
        self.rows[row].swap(member, outsider);
    }

    /// Whether there is nothing better; see the top of this file for the case that isn't even.
    fn is_best(&self, n: usize) -> bool {
        let never_even = n % 4 == 2 && self.size % 4 == 3;
        self.cost == 0 || never_even && self.excess[1..].iter().all(|e| *e <= 1)
    }

    fn climb(&mut self, random: &mut SplitMix) {
        let n = self.rows.len() + 1;
        for _ in 0..budget(n) / (4 * self.size as u64).max(1) {
            if self.is_best(n) {
                break;
            }
            let row = random.below(n - 1);
            let (member, outsider) =
                (random.below(self.size), self.size + random.below(n - self.size));
            let before = self.cost;
            self.swap(row, member, outsider);
            if self.cost > before {
                self.swap(row, member, outsider);
            }
        }
    }
}

/// Which of a row's outsiders is its spare, and how far from even the distances from spares to
/// members are. These have a direction: a failed drive's blocks go from it to the spare.
struct Spares<'a> {
    rows: &'a [Vec<u8>],
    width: usize,
    /// For each row, the place of its spare.
    places: Vec<usize>,
    /// For each distance 1..n, how many more members have their spare there than should.
    excess: Vec<i32>,
    cost: i64,
}

impl<'a> Spares<'a> {
    fn new(random: &mut SplitMix, rows: &'a [Vec<u8>], width: usize) -> Self {
        let n = rows.len() + 1;
        let places = rows.iter().map(|_| width + random.below(n - width)).collect();
        let excess = vec![-(width as i32); n];
        let cost = (n - 1) as i64 * (width as i64).pow(2);
        let mut new = Self { rows, width, places, excess, cost };
        (0..n - 1).for_each(|row| new.count(row, new.places[row], 1));
        new
    }

    /// Counts (or, with -1, uncounts) the distances from a spare to the row's members.
    fn count(&mut self, row: usize, place: usize, sign: i32) {
        let n = self.rows.len() + 1;
        let spare = usize::from(self.rows[row][place]) + n;
        for member in &self.rows[row][..self.width] {
            let excess = &mut self.excess[(spare - usize::from(*member)) % n];
            self.cost += i64::from(sign * (2 * *excess + sign));
            *excess += sign;
        }
    }

    fn replace(&mut self, row: usize, place: usize) -> usize {
        let old = std::mem::replace(&mut self.places[row], place);
        self.count(row, old, -1);
        self.count(row, place, 1);
        old
    }

    fn climb(&mut self, random: &mut SplitMix) {
        let n = self.rows.len() + 1;
        for _ in 0..budget(n) / (2 * self.width as u64) {
            if self.cost == 0 {
                break;
            }
            let (row, place) = (random.below(n - 1), self.width + random.below(n - self.width));
            let before = self.cost;
            let old = self.replace(row, place);
            if self.cost > before {
                self.replace(row, old);
            }
        }
    }
}

/// SplitMix64: a small generator with a fixed definition, so that the tables are the same for ever.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`; the slight bias doesn't matter.
    fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }

    fn permutation(&mut self, n: usize) -> Vec<u8> {
        let mut drives: Vec<u8> = (0..n).map(|d| d as u8).collect();
        for i in (1..n).rev() {
            drives.swap(i, self.below(i + 1));
        }
        drives
    }
}
