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
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { buckets: vec![0; BUCKETS].into(), total: 0 }
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
            self.total = self.buckets.iter().sum();
        }
    }

    /// Requests that still count.
    pub fn count(&self) -> u32 {
        self.total
    }

    /// Upper bound of the bucket with the `permille`-th request, 0 if there is none.
    pub fn quantile(&self, permille: u32) -> u64 {
        let rank = (u64::from(self.total) * u64::from(permille)).div_ceil(1000).max(1);
        let mut seen = 0;
        for (at, &count) in self.buckets.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return upper(at);
            }
        }
        0
    }
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
