//! What may have been on its way when the crash came, as somebody above knows it who announces
//! writes in a log of his own.

use std::ops::Range;

use crate::limits::PAGE;

/// Ranges of bytes, in order, none within another. Bounded by what the log of whoever announces
/// holds.
#[derive(Debug)]
pub struct Announced(Vec<Range<u64>>);

impl Announced {
    pub fn new(mut ranges: Vec<Range<u64>>) -> Announced {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        let mut all: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match all.last_mut().filter(|last| last.end >= range.start) {
                Some(last) => last.end = last.end.max(range.end),
                None => all.push(range),
            }
        }
        Announced(all)
    }

    /// Whether any byte of the page that begins there was announced.
    pub fn touches(&self, page: u64) -> bool {
        let after = self.0.partition_point(|range| range.end <= page);
        self.0.get(after).is_some_and(|range| range.start < page + PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_announced_if_any_byte_of_it_is() {
        let page = |at: u64| at * PAGE;
        let ranges = [
            page(9)..page(9) + 1,
            page(2) + 5..page(3),
            page(2) + 100..page(2) + 200,
            page(5)..page(5),
            page(3)..page(4) + 1,
        ];
        let announced = Announced::new(ranges.to_vec());
        let touched: Vec<u64> = (0..12).filter(|at| announced.touches(page(*at))).collect();
        assert_eq!(touched, [2, 3, 4, 9]);
        assert_eq!(announced.0.len(), 2, "what meets is one");
        assert!(!Announced::new(Vec::new()).touches(0));
    }
}
