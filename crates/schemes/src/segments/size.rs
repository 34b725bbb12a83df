//! How large segments are, and how much of them a log offers: cleaning needs the rest.

use super::bytes::{BLOCKS_MAX, PAGE, summary_pages};

/// Of all places for segments, live data takes at most so many in a hundred: the segment with
/// least of it is then a fifth free on average, and cleaning writes at most some blocks for each
/// that it frees.
pub const FILL_PERCENT: u64 = 80;
/// The same after the loss of a drive, where the log goes on without it: slower, but it goes on.
pub const FILL_DEGRADED_PERCENT: u64 = 90;
/// Places, of each drive that holds copies or of an array, that only cleaning takes: the segment it
/// fills, the next one, one being emptied, and one for a drive's loss, which ends what is being
/// filled.
pub const RESERVE: u32 = 4;
/// As many as background work keeps free, so that every head can begin a segment meanwhile.
pub const TARGET: u32 = RESERVE + 4;
/// Long enough that one head and summary cost nothing and writes are sequential, short enough that
/// looking at those that were not full when the power went takes no time.
pub const SEGMENT_MAX: u64 = 16 << 20;
/// Shorter ones are half metadata.
pub const SEGMENT_MIN: u64 = 64 << 10;
/// Small drives have so many segments at least.
const SEGMENTS_MIN: u64 = 128;

/// Bytes of a segment where a log has so many bytes for all: a multiple of `unit`.
pub fn segment_bytes(space: u64, unit: u64) -> u64 {
    let fitting = (space / SEGMENTS_MIN).clamp(SEGMENT_MIN, SEGMENT_MAX);
    (fitting / unit).max(1) * unit
}

/// The pages of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub pages: u32,
    /// Summaries have the sums of pages, and reads are held against them.
    pub sums: bool,
}

impl Shape {
    pub fn of(segment_bytes: u64, sums: bool) -> Shape {
        assert!(segment_bytes <= 1 << 30, "pages of a segment fit 32 bits, sixteen times");
        Shape { pages: (segment_bytes / PAGE) as u32, sums }
    }

    /// Where records end and the summary begins.
    pub fn end(self) -> u32 {
        self.pages.saturating_sub(summary_pages(self))
    }

    /// Blocks that it holds in records as long as can be.
    pub fn blocks(self) -> u32 {
        let room = self.end().saturating_sub(1);
        let whole = BLOCKS_MAX as u32 + 1;
        room / whole * (whole - 1) + (room % whole).saturating_sub(1)
    }
}

/// Blocks that a log can offer: with `places` for segments, if a drive is lost `degraded` places,
/// of which `beside` are being appended to or kept free.
pub fn offered(shape: Shape, places: u64, degraded: Option<u64>, beside: u64) -> u64 {
    let fill = |places: u64, percent: u64| places / 100 * percent + places % 100 * percent / 100;
    let mut full = fill(places, FILL_PERCENT);
    if let Some(degraded) = degraded {
        full = full.min(fill(degraded, FILL_DEGRADED_PERCENT));
    }
    full.saturating_sub(beside) * u64::from(shape.blocks())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_segments_are_nearly_all_data() {
        let shape = Shape::of(SEGMENT_MAX, false);
        assert_eq!((shape.pages, shape.end()), (4096, 4083));
        assert_eq!(shape.blocks(), 16 * 252 + 33);
        let summed = Shape::of(SEGMENT_MAX, true);
        assert_eq!((summed.end(), summed.blocks()), (4079, 16 * 252 + 29));
        for sums in [false, true] {
            let small = Shape::of(SEGMENT_MIN, sums);
            assert_eq!((small.pages, small.end(), small.blocks()), (16, 15, 13));
        }
    }

    #[test]
    fn segments_are_multiples_of_the_unit() {
        assert_eq!(segment_bytes(1 << 40, 4096), SEGMENT_MAX);
        assert_eq!(segment_bytes(1 << 40, 384 << 10), 42 * (384 << 10));
        assert_eq!(segment_bytes(8 << 20, 4096), SEGMENT_MIN);
        assert_eq!(segment_bytes(8 << 20, 384 << 10), 384 << 10);
    }

    #[test]
    fn what_is_offered_fits_with_a_drive_less() {
        let shape = Shape::of(SEGMENT_MAX, false);
        let in_segments = |places, degraded, beside| {
            offered(shape, places, degraded, beside) / u64::from(shape.blocks())
        };
        assert_eq!(in_segments(1000, None, 6), 800 - 6);
        // Seven drives of 300 places, then six: the pairs of six are nearly as many.
        assert_eq!(in_segments(1050, Some(900), 36), 810 - 36);
        assert_eq!(in_segments(450, Some(300), 16), 270 - 16);
        assert_eq!(in_segments(5, None, 6), 0);
    }
}
