//! What happened between two looks at cumulative histograms.

use std::collections::BTreeMap;

/// Counts by upper bound in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval(BTreeMap<u64, u64>);

impl Interval {
    /// Adds what `now` has more than `before`. If it has less anywhere, the server was started
    /// again, and all of it is new.
    pub fn add(&mut self, before: &[(u64, u64)], now: &[(u64, u64)]) {
        let old: BTreeMap<u64, u64> = before.iter().copied().collect();
        let new: BTreeMap<u64, u64> = now.iter().copied().collect();
        let grew = |(bound, count): (&u64, &u64)| new.get(bound).is_some_and(|now| now >= count);
        let goes_on = old.iter().all(grew);
        for (bound, count) in new {
            let before = if goes_on { old.get(&bound).copied().unwrap_or(0) } else { 0 };
            if count > before {
                *self.0.entry(bound).or_default() += count - before;
            }
        }
    }

    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The least bound that so much of it (0 to 1) lies below, nanoseconds; 0 of nothing.
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = ((part * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.0.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        reached.map_or(0, |(bound, _)| *bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_the_difference_and_a_new_server_starts_anew() {
        let before = [(10, 5), (20, 1)];
        let mut interval = Interval::default();
        interval.add(&before, &[(10, 7), (20, 1), (40, 1)]);
        assert_eq!(interval.0, [(10, 2), (40, 1)].into());
        assert_eq!((interval.quantile(0.5), interval.quantile(0.99)), (10, 40));
        let mut anew = Interval::default();
        anew.add(&before, &[(20, 3)]);
        assert_eq!((anew.count(), anew.quantile(0.5)), (3, 20));
        assert_eq!(Interval::default().quantile(0.99), 0);
    }
}
