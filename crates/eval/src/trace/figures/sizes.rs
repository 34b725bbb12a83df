//! Sizes of requests of one kind.

use std::collections::BTreeMap;

use serde::Serialize;

/// Sizes that are told apart; traces have some dozens. The others only count in the sums.
const DISTINCT_MAX: usize = 4096;
/// Of which these are printed.
const COMMON: usize = 6;

#[derive(Clone, Debug, Default)]
pub struct Sizes {
    counts: BTreeMap<u64, u64>,
    requests: u64,
    bytes: u128,
    most: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SizeFigures {
    pub requests: u64,
    pub mib: f64,
    /// In thousands of bytes, as the papers have it.
    pub average_kb: f64,
    pub median: u64,
    pub p99: u64,
    pub largest: u64,
    /// Bytes, and their part of the requests.
    pub common: Vec<(u64, f64)>,
}

impl Sizes {
    pub fn add(&mut self, len: u64) {
        self.requests += 1;
        self.bytes += u128::from(len);
        self.most = self.most.max(len);
        if self.counts.len() < DISTINCT_MAX || self.counts.contains_key(&len) {
            *self.counts.entry(len).or_default() += 1;
        }
    }

    pub fn requests(&self) -> u64 {
        self.requests
    }

    pub fn bytes(&self) -> f64 {
        self.bytes as f64
    }

    /// By size.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().map(|(&len, &count)| (len, count))
    }

    fn quantile(&self, percent: u64) -> u64 {
        let wanted = (self.counts.values().sum::<u64>() * percent).div_ceil(100);
        let mut passed = 0;
        let mut sizes = self.counts();
        let found = sizes.find(|&(_, count)| {
            passed += count;
            passed >= wanted
        });
        found.map_or(0, |(len, _)| len)
    }

    pub fn figures(&self) -> SizeFigures {
        let mut common: Vec<(u64, u64)> = self.counts().collect();
        common.sort_by_key(|&(len, count)| (std::cmp::Reverse(count), len));
        let requests = self.requests.max(1) as f64;
        let common = common.iter().take(COMMON);
        SizeFigures {
            requests: self.requests,
            mib: self.bytes as f64 / (1 << 20) as f64,
            average_kb: self.bytes as f64 / requests / 1e3,
            median: self.quantile(50),
            p99: self.quantile(99),
            largest: self.most,
            common: common.map(|&(len, count)| (len, count as f64 / requests)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_quantiles_and_what_is_common() {
        let mut sizes = Sizes::default();
        (0..90).for_each(|_| sizes.add(4096));
        (0..10).for_each(|_| sizes.add(65536));
        let seen = sizes.figures();
        assert_eq!((seen.median, seen.p99, seen.largest), (4096, 65536, 65536));
        assert!((seen.average_kb - (90.0 * 4.096 + 10.0 * 65.536) / 100.0).abs() < 1e-9);
        assert_eq!(seen.common, [(4096, 0.9), (65536, 0.1)]);
        (0..5000).for_each(|len| sizes.add(len));
        assert_eq!(sizes.counts.len(), DISTINCT_MAX, "memory is bounded");
        assert_eq!(sizes.figures().requests, 5100);
        assert_eq!(Sizes::default().figures().median, 0);
    }
}
