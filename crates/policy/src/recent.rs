//! Quantiles of the last few thousand latencies, cheap enough for every request: a histogram of
//! logarithmic buckets that forgets by halving.

/// Buckets of an octave: a quantile is at most an eighth too high.
const PARTS: u32 = 8;
/// Octaves above the first eight steps: up to 2^26 steps, more than a minute.
const OCTAVES: u32 = 24;
/// Nanoseconds (as a power of two) of one step of the lowest buckets.
const STEP_BITS: u32 = 10;
const BUCKETS: usize = ((OCTAVES + 1) * PARTS) as usize;

/// Requests after which everything that was counted counts half.
pub const MEMORY: u32 = 2048;

#[derive(Clone)]
pub struct Recent {
    buckets: Box<[u32]>,
    total: u32,
    /// What of it had been taken; empty: nothing.
    taken: Vec<u32>,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { buckets: vec![0; BUCKETS].into(), total: 0, taken: Vec::new() }
    }
}

fn bucket(nanos: u64) -> usize {
    let steps = nanos >> STEP_BITS;
    if steps < u64::from(PARTS) {
        return steps as usize;
    }
    let octave = steps.ilog2() - 2;
    let part = (steps >> (octave - 1)) as u32 & (PARTS - 1);
    ((octave * PARTS + part) as usize).min(BUCKETS - 1)
}

/// The first value that is beyond the bucket.
fn upper(bucket: usize) -> u64 {
    let (octave, part) = (bucket as u32 / PARTS, bucket as u64 % u64::from(PARTS));
    let steps = match octave {
        0 => part + 1,
        _ => (u64::from(PARTS) + part + 1) << (octave - 1),
    };
    steps << STEP_BITS
}

impl Recent {
    pub fn record(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.total += 1;
        if self.total >= 2 * MEMORY {
            self.buckets.iter_mut().for_each(|count| *count /= 2);
            self.taken.iter_mut().for_each(|count| *count /= 2);
            self.total = self.buckets.iter().sum();
        }
    }

    /// Requests that still count.
    pub fn count(&self) -> u32 {
        self.total
    }

    /// Upper bound of the bucket with the `permille`-th request, 0 if there is none.
    pub fn quantile(&self, permille: u32) -> u64 {
        quantile(self.buckets.iter().copied(), self.total, permille)
    }

    /// How many there were since this was last asked, and their median, as [`Recent::quantile`].
    /// Those from before counts were halved count half.
    pub fn take_median(&mut self) -> Option<(u32, u64)> {
        self.taken.resize(BUCKETS, 0);
        let new = self.buckets.iter().zip(&self.taken).map(|(count, taken)| count - taken);
        let total = new.clone().sum();
        let median = quantile(new, total, 500);
        self.taken.copy_from_slice(&self.buckets);
        (total > 0).then_some((total, median))
    }
}

fn quantile(buckets: impl Iterator<Item = u32>, total: u32, permille: u32) -> u64 {
    let rank = (u64::from(total) * u64::from(permille)).div_ceil(1000).max(1);
    let mut seen = 0;
    for (at, count) in buckets.enumerate() {
        seen += u64::from(count);
        if seen >= rank {
            return upper(at);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_everything_in_order() {
        for at in 0..BUCKETS - 1 {
            assert_eq!(bucket(upper(at) - 1), at);
            assert_eq!(bucket(upper(at)), at + 1);
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn it_forgets() {
        let mut recent = Recent::default();
        (0..10_000).for_each(|_| recent.record(1_000_000));
        (0..6 * MEMORY).for_each(|_| recent.record(100_000));
        assert!(recent.quantile(900) < 120_000);
    }

    proptest::proptest! {
        /// Also when counts are halved in between, of which both halves count then.
        #[test]
        fn a_median_is_of_what_is_new(
            before in 0_u32..3 * MEMORY,
            values in proptest::collection::vec(10_000_u64..10_000_000_000, 0..200),
        ) {
            let mut recent = Recent::default();
            (0..before).for_each(|_| recent.record(77_000));
            let taken = recent.take_median();
            proptest::prop_assert_eq!(taken.is_some(), before > 0);
            let counted = if before < 2 * MEMORY { before } else { before - MEMORY };
            let halved = counted as usize + values.len() >= 2 * MEMORY as usize;
            values.iter().for_each(|&value| recent.record(value));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            match recent.take_median() {
                None => proptest::prop_assert!(values.is_empty() || halved),
                Some((count, median)) if !halved => {
                    let exact = sorted[sorted.len().div_ceil(2) - 1];
                    proptest::prop_assert_eq!(count as usize, values.len());
                    proptest::prop_assert!(median > exact && median <= exact + exact / 8 + 1024);
                }
                Some((count, median)) => {
                    proptest::prop_assert!(count as usize <= values.len());
                    let most = sorted[sorted.len() - 1];
                    proptest::prop_assert!(median > sorted[0]);
                    proptest::prop_assert!(median <= most + most / 8 + 1024);
                }
            }
            proptest::prop_assert_eq!(recent.take_median(), None);
        }

        #[test]
        fn quantiles_are_at_most_an_eighth_too_high(
            mut values in proptest::collection::vec(10_000_u64..10_000_000_000, 1..1000),
            permille in 1_u32..=1000,
        ) {
            let mut recent = Recent::default();
            values.iter().for_each(|&value| recent.record(value));
            values.sort_unstable();
            let rank = (values.len() as u64 * u64::from(permille)).div_ceil(1000).max(1);
            let exact = values[rank as usize - 1];
            let found = recent.quantile(permille);
            proptest::prop_assert!(found > exact && found <= exact + exact / 8 + 1024);
        }
    }
}
