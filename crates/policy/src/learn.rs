//! Thresholds learned from what drives have done of late: t of the spike detector, and when a
//! request is late.
//!
//! A drive is measured against the better of itself and the middle of its peers, so that one bad
//! drive can neither drag the thresholds of the others up nor excuse itself (the trap of
//! percentiles over all replicas: CASSANDRA-14293).

/// What is usual: the quantile of a drive's latencies, in thousandths, that t is a multiple of.
/// Not the 99th percentile: where spikes are a hundredth of all requests it lies inside them, and
/// t above most of them (docs/detector.md compares).
pub const USUAL_PERMILLE: u32 = 900;

/// Requests of a drive before its quantiles mean anything.
pub const SAMPLES_MIN: u32 = 100;

/// Bounds and factors of what is learned, by class of drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learning {
    /// Answers that are quicker are not slow, whatever is usual (ns): the machine's own noise.
    pub noise: u64,
    /// t before anything is known, and its bounds (ns).
    pub initial: u64,
    pub least: u64,
    pub most: u64,
    /// t is so many times what is usual.
    pub factor: u64,
    /// A read of such a drive is late after so long (ns), whatever is usual.
    pub hedge_most: u64,
}

/// SSDs: spikes of 3.8 ms (data centre) to 30 ms (consumer) stand out from answers of 0.1 to 1 ms
/// (FusionRAID §2.3); below 0.3 ms a slow answer costs less than going round it. A read that has
/// waited for 0.6 ms is behind a program or an erase: no queue worth having is so long.
pub const SSD: Learning = Learning {
    noise: 100_000,
    initial: 2_000_000,
    least: 300_000,
    most: 20_000_000,
    factor: 2,
    hedge_most: 600_000,
};
/// Disks: a full stroke and a turn are 25 ms, a queue of 32 behind them half a second.
pub const HDD: Learning = Learning {
    noise: 1_000_000,
    initial: 100_000_000,
    least: 30_000_000,
    most: 1_000_000_000,
    factor: 2,
    hedge_most: crate::hedge::DEADLINE_MAX,
};

/// From when on an answer of a drive is slow, which makes it an outlier in the long run. `own`,
/// `peers`: what is usual ([`USUAL_PERMILLE`], ns) of those that have enough samples.
pub fn slow_from(learning: Learning, own: Option<u64>, peers: &mut [u64]) -> u64 {
    let typical = own.into_iter().chain(median(peers)).min();
    let learned = typical.map_or(learning.initial, |nanos| nanos * learning.factor);
    learned.clamp(learning.noise, learning.most)
}

/// t for a drive whose answers are slow from `slow_from` on.
pub fn threshold(learning: Learning, slow_from: u64) -> u64 {
    slow_from.max(learning.least)
}

/// The middle one, the lower of two; `None` of none.
pub fn median(values: &mut [u64]) -> Option<u64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threshold(learning: Learning, own: Option<u64>, peers: &mut [u64]) -> u64 {
        super::threshold(learning, slow_from(learning, own, peers))
    }

    #[test]
    fn one_bad_drive_moves_nobodys_threshold() {
        let good = threshold(SSD, Some(400_000), &mut [410_000, 390_000, 400_000]);
        let beside_bad = threshold(SSD, Some(400_000), &mut [410_000, 390_000, 90_000_000]);
        let bad = threshold(SSD, Some(90_000_000), &mut [410_000, 390_000, 400_000]);
        assert_eq!((good, beside_bad, bad), (800_000, 800_000, 800_000));
    }

    #[test]
    fn a_drive_faster_than_its_peers_is_held_to_its_own_standard() {
        assert_eq!(threshold(SSD, Some(250_000), &mut [600_000, 600_000]), 500_000);
    }

    #[test]
    fn bounds_hold_and_nothing_known_is_the_start() {
        assert_eq!(threshold(SSD, None, &mut []), SSD.initial);
        assert_eq!(threshold(SSD, Some(1), &mut []), SSD.least);
        assert_eq!(slow_from(SSD, Some(1), &mut []), SSD.noise);
        assert_eq!(threshold(HDD, Some(u64::MAX / 8), &mut []), HDD.most);
    }
}
