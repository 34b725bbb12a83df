//! How evenly a layout spreads work, in numbers and in one sentence for the operator.

use std::fmt;

use crate::geometry::Layout;

/// How often pairs of drives meet in a stripe, over one template. A failed drive's stripes are
/// rebuilt from the drives it meets: `ratio` is how much more the busiest one of them works than
/// the average.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Balance {
    /// Stripes that the pair of drives that meets least has in common.
    pub min: u32,
    /// Stripes that the pair of drives that meets most has in common.
    pub max: u32,
    /// The same, averaged: always w(w-1).
    pub mean: f64,
    /// `max / mean`; 1 is perfect.
    pub ratio: f64,
    /// The fewest blocks that any drive takes when another one fails and is rebuilt into spare
    /// space.
    pub spare_min: u32,
    /// The most blocks that any drive takes; the mean is w. Both are 0 if the layout has no spare.
    pub spare_max: u32,
}

impl Balance {
    pub(crate) fn of(layout: &Layout) -> Self {
        let (met, spared) = count_differences(layout);
        let (min, max) = extremes(&met);
        let (spare_min, spare_max) = extremes(&spared);
        let mean = (layout.width() * (layout.width() - 1)) as f64;
        Self { min, max, mean, ratio: f64::from(max) / mean, spare_min, spare_max }
    }

    /// No pair of drives meets more often than another.
    pub fn is_perfect(&self) -> bool {
        self.min == self.max
    }
}

/// Two drives at distance d meet once in a row for every two of its positions at distance d,
/// whatever the column. So counting distances inside the rows of column 0 counts meetings of all
/// pairs of drives.
fn count_differences(layout: &Layout) -> (Vec<u32>, Vec<u32>) {
    let (mut met, mut spared) = (vec![0; layout.drives()], vec![0; layout.drives()]);
    for row in 0..layout.rows() {
        let (members, spare) = layout.base_row(row);
        for a in members {
            for b in members {
                met[layout.difference(*a, *b)] += 1;
            }
            spare.inspect(|s| spared[layout.difference(*s, *a)] += 1);
        }
    }
    (met, spared)
}

/// Least and most, leaving out distance 0: a drive always meets itself.
fn extremes(counts: &[u32]) -> (u32, u32) {
    let others = counts[1..].iter().copied();
    (others.clone().min().unwrap_or(0), others.max().unwrap_or(0))
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_perfect() {
            return write!(
                f,
                "perfectly balanced: every two drives share {} stripes of a template",
                self.min
            );
        }
        write!(
            f,
            "drives are equally full; two drives share {} to {} stripes of a template, so that in \
             a rebuild the busiest drive reads {:.1} % more than the average",
            self.min,
            self.max,
            (self.ratio - 1.0) * 100.0
        )
    }
}
