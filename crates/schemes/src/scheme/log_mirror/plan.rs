//! Where a write goes, and how a stripe is destaged. Pure.

use std::ops::Range;

use classical::Grid;
use classical::grid::Piece;
use classical::plan::{Way, plan};

use crate::log::record::{PAGE, record_bytes};

/// Bytes of one entry of the log at most: a surrogate's long writes are divided.
pub const PIECE_MAX: u64 = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Log,
    Array,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub range: Range<u64>,
    pub to: To,
}

/// What the state of the drives says about where writes go (§3.4, §3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whole stripes in place, the rest to the log.
    Normal,
    /// A data drive is lost: everything to the log.
    Surrogate,
    /// A log drive is lost: everything in place.
    Direct,
}

/// Divides a write, in the order of addresses.
pub fn route(stripe: u64, range: Range<u64>, mode: Mode) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut add = |range: Range<u64>, to: To| {
        if !range.is_empty() {
            parts.push(Part { range, to });
        }
    };
    let first = range.start.next_multiple_of(stripe);
    let last = range.end / stripe * stripe;
    match mode {
        Mode::Direct => add(range, To::Array),
        Mode::Normal if first < last => {
            pieces(range.start..first).for_each(|piece| add(piece, To::Log));
            add(first..last, To::Array);
            pieces(last..range.end).for_each(|piece| add(piece, To::Log));
        }
        Mode::Normal | Mode::Surrogate => pieces(range).for_each(|piece| add(piece, To::Log)),
    }
    parts
}

/// Divided where addresses are multiples of [`PIECE_MAX`], if it is longer than that.
fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let whole = range.end - range.start <= PIECE_MAX;
    let mut at = range.start;
    std::iter::from_fn(move || {
        let begin = at;
        at = if whole { range.end } else { range.end.min((begin / PIECE_MAX + 1) * PIECE_MAX) };
        (begin < range.end).then_some(begin..at)
    })
}

/// The pages that a range touches.
pub fn pages(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE)
}

/// Neighbours become one.
pub fn runs(pieces: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for piece in pieces {
        match runs.last_mut().filter(|last| last.end == piece.start) {
            Some(last) => last.end = piece.end,
            None => runs.push(piece.clone()),
        }
    }
    runs
}

/// What of a stripe is not in these runs.
pub fn gaps(stripe: Range<u64>, runs: &[Range<u64>]) -> Vec<Range<u64>> {
    let starts = std::iter::once(stripe.start).chain(runs.iter().map(|run| run.end));
    let ends = runs.iter().map(|run| run.start).chain([stripe.end]);
    starts.zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty()).collect()
}

/// Bytes that all drives move to write these runs of a stripe one after the other.
fn patching(grid: &Grid, runs: &[Range<u64>]) -> u64 {
    let (data, parity) = (grid.data(), grid.parity());
    let each = runs.iter().map(|run| {
        let shares = grid.split(run.start, run.end - run.start);
        let pieces: Vec<Piece> =
            shares.iter().flat_map(|share| &share.pieces).map(|(piece, _)| *piece).collect();
        let plan = plan(&pieces, data, parity, &[], &[]);
        let read: u64 = plan.reads.iter().map(|read| read.end - read.start).sum();
        let hull = plan.hull.end - plan.hull.start;
        let told = if plan.way == Way::Full { 0 } else { PAGE + hull };
        read + (run.end - run.start) + parity as u64 * (hull + told)
    });
    each.sum()
}

/// Bytes that are moved to log the gaps first (on both log drives, read from the array and back
/// from the log) and write the stripe whole.
fn filling(grid: &Grid, gaps: &[Range<u64>]) -> u64 {
    let missing: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
    2 * missing
        + 2 * record_bytes(missing)
        + grid.stripe_bytes()
        + grid.parity() as u64 * grid.chunk
}

/// Whether the gaps of a stripe should be filled, to write it whole.
pub fn fills(grid: &Grid, stripe: Range<u64>, runs: &[Range<u64>]) -> bool {
    let gaps = gaps(stripe, runs);
    !gaps.is_empty() && filling(grid, &gaps) < patching(grid, runs)
}

#[cfg(test)]
mod tests {
    use classical::Redundancy;
    use proptest::prelude::*;

    use super::*;

    const KIB: u64 = 1 << 10;
    /// The paper's example: four SSDs, chunks of 16 KiB.
    const GRID: Grid =
        Grid { redundancy: Redundancy::Parity(1), drives: 4, width: 4, chunk: 16 * KIB, rows: 8 };

    fn parts(range: Range<u64>, mode: Mode) -> Vec<(u64, u64, To)> {
        let parts = route(GRID.stripe_bytes(), range, mode).into_iter();
        parts.map(|part| (part.range.start / KIB, part.range.end / KIB, part.to)).collect()
    }

    /// §3.4: below 48 KiB to the log, 48 KiB to the array.
    #[test]
    fn the_threshold_is_a_whole_stripe() {
        use To::{Array, Log};
        assert_eq!(GRID.stripe_bytes(), 48 * KIB);
        assert_eq!(parts(0..47 * KIB, Mode::Normal), [(0, 47, Log)]);
        assert_eq!(parts(0..48 * KIB, Mode::Normal), [(0, 48, Array)]);
        assert_eq!(parts(20 * KIB..60 * KIB, Mode::Normal), [(20, 60, Log)]);
        assert_eq!(
            parts(40 * KIB..200 * KIB, Mode::Normal),
            [(40, 48, Log), (48, 192, Array), (192, 200, Log)]
        );
    }

    /// §3.5.
    #[test]
    fn with_a_drive_lost_all_goes_where_redundancy_is_whole() {
        use To::{Array, Log};
        assert_eq!(parts(0..96 * KIB, Mode::Surrogate), [(0, 96, Log)]);
        assert_eq!(
            parts(8 * KIB..520 * KIB, Mode::Surrogate),
            [(8, 256, Log), (256, 512, Log), (512, 520, Log)]
        );
        assert_eq!(parts(4 * KIB..8 * KIB, Mode::Direct), [(4, 8, Array)]);
    }

    #[test]
    fn many_holes_are_filled_and_small_pieces_patched() {
        let run = |first: u64, last: u64| first * KIB..last * KIB;
        let stripe = || run(0, 48);
        assert!(!fills(&GRID, stripe(), &[stripe()]), "there is nothing to fill");
        assert!(!fills(&GRID, stripe(), &[run(4, 8)]));
        assert!(!fills(&GRID, stripe(), &[run(0, 44)]), "4 KiB are read for parity, not logged");
        assert!(fills(&GRID, stripe(), &[run(0, 12), run(16, 28), run(32, 44)]));
        let holes = [run(0, 12), run(16, 28), run(32, 44)];
        assert_eq!(gaps(stripe(), &holes), [run(12, 16), run(28, 32), run(44, 48)]);
        assert_eq!(runs(&[run(0, 4), run(4, 12), run(16, 28)]), [run(0, 12), run(16, 28)]);
    }

    proptest! {
        #[test]
        fn parts_are_the_request(
            start in 0u64..2000, len in 1u64..3000, mode in 0usize..3, chunk in 0u32..6,
        ) {
            let mode = [Mode::Normal, Mode::Surrogate, Mode::Direct][mode];
            let stripe = 3 * (4096 << chunk);
            let range = start * 512..(start + len) * 512;
            let mut at = range.start;
            for part in route(stripe, range.clone(), mode) {
                prop_assert_eq!(part.range.start, at);
                prop_assert!(at < part.range.end);
                at = part.range.end;
                let whole = part.range.start.is_multiple_of(stripe) && at.is_multiple_of(stripe);
                match part.to {
                    To::Array => prop_assert!(whole || mode == Mode::Direct),
                    To::Log => prop_assert!(at - part.range.start <= PIECE_MAX),
                }
            }
            prop_assert_eq!(at, range.end);
        }
    }
}
