//! When is a request late, and may it be sent a second way?
//!
//! The deadline follows what drives usually need; the budget keeps second ways a small share of
//! all requests, so that an overload, in which everything is late, is not doubled.

/// Of a hundred requests, so many may be sent twice in the long run. At a deadline near the 99th
/// percentile one in a hundred is late when all is well; a slow drive of eight makes it some more.
pub const SHARE_PERCENT: u32 = 10;
/// Second ways saved up in good times: what a drive that stops dead with a full queue may cost.
pub const SAVED_MAX: u32 = 128;
/// After this long (ns) a request is sent again whatever the budget says, and after so many times
/// what drives usually need, whichever is later. Then it is a drive that stops with more requests
/// than were saved up for. In an overload all drives are late, and nothing is far beyond that:
/// second ways would keep it up after it has passed.
pub const BEYOND_BUDGET: u64 = 50_000_000;
pub const BEYOND_TIMES: u64 = 4;
/// Bounds of the deadline (ns). Less is not worth a second request, more is not patience.
pub const DEADLINE_MIN: u64 = 200_000;
pub const DEADLINE_MAX: u64 = 50_000_000;
/// Before anything is known.
pub const DEADLINE_INITIAL: u64 = 5_000_000;

/// How long (ns) a request may take before it is late: `p99s` are the 99th percentiles of the
/// drives; the middle one counts, so that a slow drive doesn't excuse itself.
pub fn deadline(p99s: &mut [u64]) -> u64 {
    let typical = crate::learn::median(p99s);
    typical.map_or(DEADLINE_INITIAL, |nanos| nanos.clamp(DEADLINE_MIN, DEADLINE_MAX))
}

/// How old (ns) a request must be for the budget not to count: as [`deadline`], of reads or writes.
pub fn beyond(p99s: &mut [u64]) -> u64 {
    let typical = crate::learn::median(p99s).unwrap_or(0);
    typical.saturating_mul(BEYOND_TIMES).max(BEYOND_BUDGET)
}

/// Second ways that are allowed, in hundredths.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    hundredths: u32,
    /// Who has waited for so long (ns) is not refused.
    beyond: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { hundredths: SAVED_MAX * 100, beyond: BEYOND_BUDGET }
    }
}

impl Budget {
    /// A request was sent.
    pub fn earn(&mut self) {
        self.hundredths = (self.hundredths + SHARE_PERCENT).min(SAVED_MAX * 100);
    }

    /// The same, but for who is not refused: [`beyond`].
    pub fn with_beyond(self, beyond: u64) -> Budget {
        Budget { beyond, ..self }
    }

    /// Requests that may be sent twice now.
    pub fn left(&self) -> u32 {
        self.hundredths / 100
    }

    /// May a request go another way before it is late? Half of what is saved stays for those that
    /// are: it is they who make the tail.
    pub fn spend_early(&mut self, cost: u32) -> bool {
        self.hundredths >= (SAVED_MAX / 2 + cost) * 100 && self.spend(0, cost)
    }

    /// A request that has waited for `age` (ns) is not refused.
    pub fn is_beyond(&self, age: u64) -> bool {
        age >= self.beyond
    }

    /// May a request that has waited for `age` (ns) be sent a second way that costs as much as
    /// `cost` requests? Rebuilding a block reads one from each of the drives it is spread over.
    pub fn spend(&mut self, age: u64, cost: u32) -> bool {
        let allowed = self.hundredths >= cost * 100 || self.is_beyond(age);
        if allowed {
            self.hundredths = self.hundredths.saturating_sub(cost * 100);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_in_the_long_run_and_what_was_saved() {
        let mut budget = Budget::default();
        let mut sent_twice = 0;
        for _ in 0..10_000 {
            budget.earn();
            sent_twice += u32::from(budget.spend(0, 1));
        }
        assert!((1_000..=1_000 + SAVED_MAX).contains(&sent_twice), "{sent_twice}");
        let rebuilt: u32 = (0..12_000)
            .map(|_| {
                budget.earn();
                u32::from(budget.spend(0, 6))
            })
            .sum();
        assert_eq!(rebuilt, 200, "six times the cost, a sixth as often");
    }

    #[test]
    fn going_round_early_leaves_half_for_those_who_are_late() {
        let mut budget = Budget::default();
        let early = std::iter::repeat_with(|| budget.spend_early(4)).take_while(|&yes| yes).count();
        assert_eq!(early as u32, SAVED_MAX / 2 / 4);
        assert_eq!(budget.left(), SAVED_MAX / 2);
        assert!(budget.spend(0, SAVED_MAX / 2));
    }

    #[test]
    fn who_has_waited_long_is_not_refused() {
        let mut budget = Budget::default();
        while budget.spend(0, 1) {}
        assert!(budget.spend(BEYOND_BUDGET, 6));
        assert!(!budget.spend(BEYOND_BUDGET - 1, 1));
    }

    #[test]
    fn long_is_what_drives_seldom_need() {
        assert_eq!(beyond(&mut []), BEYOND_BUDGET);
        // One drive that is slow excuses nobody.
        assert_eq!(beyond(&mut [400_000, 420_000, 900_000_000]), BEYOND_BUDGET);
        assert_eq!(beyond(&mut [400_000, 100_000_000, 900_000_000]), 400_000_000);
    }

    #[test]
    fn the_deadline_is_the_middle_drives() {
        assert_eq!(deadline(&mut []), DEADLINE_INITIAL);
        assert_eq!(deadline(&mut [400_000, 420_000, 30_000_000]), 420_000);
        assert_eq!(deadline(&mut [10]), DEADLINE_MIN);
    }
}
