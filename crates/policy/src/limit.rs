//! Limits of a volume: when a request may go, given what went before.
//!
//! A token bucket in its timer-free form, GCRA: one number says when the bucket would be full
//! again if nothing more were taken. Numbers are whole; time is counted in fractions of a
//! nanosecond as small as the rate needs them, so that no rate drifts by rounding.
//!
//! In any span a bucket lets through at most rate * span + a burst, and whoever always has
//! requests waiting gets its full rate. A request larger than the burst waits for a full bucket
//! and runs it into debt.

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Nanoseconds of its rate that a bucket holds: a tenth of a second. A loop that comes late by
/// that much loses nothing of its rate, and nobody who counts by the second sees the burst.
pub const BURST: u64 = 100_000_000;

/// Something of which `rate` units a second may be had.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: u128,
    /// When it is full again, in nanoseconds / rate.
    full_at: u128,
}

impl Bucket {
    fn new(rate: u64) -> Option<Bucket> {
        (rate > 0).then_some(Bucket { rate: rate.into(), full_at: 0 })
    }

    /// The first nanosecond at which `units` may be taken.
    fn ready(&self, units: u64) -> u64 {
        let cost = u128::from(units) * NANOS_PER_SEC;
        let room = cost.max(u128::from(BURST) * self.rate);
        let at = (self.full_at + cost).saturating_sub(room).div_ceil(self.rate);
        u64::try_from(at).unwrap_or(u64::MAX)
    }

    fn take(&mut self, units: u64, now: u64) {
        let full_at = self.full_at.max(u128::from(now) * self.rate);
        self.full_at = full_at + u128::from(units) * NANOS_PER_SEC;
    }
}

/// The limits of one volume. By default there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limiter {
    operations: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Limiter {
    /// Operations and bytes per second; zero is no limit. The buckets are full.
    pub fn new(operations: u64, bytes: u64) -> Limiter {
        Limiter { operations: Bucket::new(operations), bytes: Bucket::new(bytes) }
    }

    pub fn is_none(&self) -> bool {
        self.operations.is_none() && self.bytes.is_none()
    }

    /// From when on a request of so many bytes may go, in nanoseconds of the clock of `take`.
    pub fn ready(&self, bytes: u64) -> u64 {
        let operations = self.operations.map_or(0, |bucket| bucket.ready(1));
        operations.max(self.bytes.map_or(0, |bucket| bucket.ready(bytes)))
    }

    /// A request goes now. It must be ready.
    pub fn take(&mut self, bytes: u64, now: u64) {
        debug_assert!(self.ready(bytes) <= now, "asked before its time");
        if let Some(bucket) = &mut self.operations {
            bucket.take(1, now);
        }
        if let Some(bucket) = &mut self.bytes {
            bucket.take(bytes, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bucket as everybody draws it: tokens drip in (in units of unit * 1e9), the cap is a
    /// burst, what is larger than the cap needs a full bucket.
    struct Dripping {
        rate: i128,
        tokens: i128,
        at: u64,
    }

    impl Dripping {
        fn new(rate: u64) -> Dripping {
            let rate = i128::from(rate);
            Dripping { rate, tokens: rate * i128::from(BURST), at: 0 }
        }

        fn cap(&self) -> i128 {
            self.rate * i128::from(BURST)
        }

        fn drip_until(&mut self, now: u64) {
            self.tokens += i128::from(now - self.at) * self.rate;
            self.tokens = self.tokens.min(self.cap());
            self.at = now;
        }

        /// Takes as soon as it may, at `now` or later; says when.
        fn take(&mut self, units: u64, now: u64) -> u64 {
            self.drip_until(now);
            let cost = i128::from(units) * 1_000_000_000;
            let lacking = cost.min(self.cap()) - self.tokens;
            if lacking > 0 {
                self.drip_until(now + ((lacking + self.rate - 1) / self.rate) as u64);
            }
            self.tokens -= cost;
            self.at
        }
    }

    /// Rates of every magnitude.
    fn any_rate() -> impl Strategy<Value = u64> {
        (0u32..34, any::<u64>()).prop_map(|(bits, low)| (low >> (63 - bits)).max(1))
    }

    /// Gaps in nanoseconds and sizes, as a client may send them.
    fn any_requests() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let gap = prop_oneof![Just(0), 0u64..50_000_000, 0u64..2_000_000_000];
        let bytes = prop_oneof![1u64..65536, 1u64..(32 << 20)];
        prop::collection::vec((gap, bytes), 1..60)
    }

    /// When each request goes if all come in order, each after the one before went.
    fn run(limiter: &mut Limiter, requests: &[(u64, u64)]) -> Vec<u64> {
        let mut now = 0;
        let go = |&(gap, bytes): &(u64, u64)| {
            now = limiter.ready(bytes).max(now + gap);
            limiter.take(bytes, now);
            now
        };
        requests.iter().map(go).collect()
    }

    proptest! {
        #[test]
        fn requests_go_when_the_dripping_bucket_lets_them(
            rate in any_rate(),
            requests in any_requests(),
        ) {
            let mut oracle = Dripping::new(rate);
            let mut now = 0;
            let mut take = |&(gap, bytes): &(u64, u64)| {
                now = oracle.take(bytes, now + gap);
                now
            };
            let expected: Vec<u64> = requests.iter().map(&mut take).collect();
            prop_assert_eq!(run(&mut Limiter::new(0, rate), &requests), expected);
        }

        #[test]
        fn no_window_holds_more_than_the_rate_and_a_burst(
            operations in any_rate(),
            rate in any_rate(),
            requests in any_requests(),
        ) {
            let went = run(&mut Limiter::new(operations, rate), &requests);
            let burst = |rate: u64, largest: u64| {
                (u128::from(rate) * u128::from(BURST)).max(u128::from(largest) * NANOS_PER_SEC)
            };
            for first in 0..went.len() {
                let (mut bytes, mut largest) = (0u128, 0);
                for last in first..went.len() {
                    bytes += u128::from(requests[last].1);
                    largest = largest.max(requests[last].1);
                    let span = u128::from(went[last] - went[first]);
                    let most = u128::from(rate) * span + burst(rate, largest);
                    prop_assert!(bytes * NANOS_PER_SEC <= most);
                    let most = u128::from(operations) * span + burst(operations, 1);
                    prop_assert!((last - first + 1) as u128 * NANOS_PER_SEC <= most);
                }
            }
        }

        #[test]
        fn whoever_always_has_more_gets_the_full_rate(rate in any_rate(), bytes in 1u64..65536) {
            // What is not drawn from the burst takes no nanosecond longer than it must.
            let requests = vec![(0, bytes); 500];
            let went = run(&mut Limiter::new(0, rate), &requests);
            let sum = u128::from(bytes) * 500 * NANOS_PER_SEC;
            let whole = u128::from(bytes) * NANOS_PER_SEC;
            let room = (u128::from(rate) * u128::from(BURST)).max(whole);
            let least = sum.saturating_sub(room).div_ceil(u128::from(rate));
            // What is larger than the burst waits for a full bucket, each time for less than a
            // nanosecond too long.
            let larger = u128::from(bytes) * NANOS_PER_SEC > u128::from(rate) * u128::from(BURST);
            let most = if larger { least + 500 } else { least };
            prop_assert!((least..=most).contains(&went[499].into()), "{} {least}", went[499]);
        }
    }

    #[test]
    fn zero_is_no_limit() {
        let mut limiter = Limiter::new(0, 0);
        assert!(limiter.is_none() && Limiter::default().is_none());
        assert!((0..1000).all(|_| {
            limiter.take(u64::MAX, 5);
            limiter.ready(u64::MAX) == 0
        }));
        assert!(!Limiter::new(1, 0).is_none() && !Limiter::new(0, 1).is_none());
    }

    #[test]
    fn extreme_rates_and_times_do_not_overflow() {
        let mut limiter = Limiter::new(u64::MAX, u64::MAX);
        limiter.take(u64::MAX, u64::MAX / 2);
        assert!(limiter.ready(u64::MAX) <= u64::MAX / 2 + 1_000_000_000);
        let mut limiter = Limiter::new(1, 1);
        limiter.take(u64::MAX, 0);
        assert_eq!(limiter.ready(1), u64::MAX, "after the end of time");
    }
}
