//! When is a request late, and may it be sent a second way?
//!
//! The deadline follows what drives usually need; the budget keeps second ways that did not help
//! a small share of all requests, so that an overload, in which everything is late, is not doubled.
//!
//! ```text
//!             deadline: what the faster half of the drives keeps to   at most
//!    reads    in 9 of 10 (`READS_PERMILLE`)                           `hedge_most` of the class
//!    writes   in 99 of 100 (`WRITES_PERMILLE`)                        DEADLINE_MAX
//! ```
//!
//! A read is late early: behind an erase it waits for 5 ms, and when drives collect more than one
//! in a hundred does, so that the 99th percentile is itself the time of an erase. A second read
//! takes some 0.1 ms of a drive; a second write is a program, and makes others late. Where reads
//! are large, many take as long as a small one behind an erase has waited by then: so what is asked
//! for at the deadline leaves half of the budget to reads that are late for twice as long.

/// Drive operations that second ways may cost in the long run, of a hundred requests.
pub const SHARE_PERCENT: u32 = 10;
/// The quantile of a drive's reads and of its writes that a request is measured by.
pub const READS_PERMILLE: u32 = 900;
pub const WRITES_PERMILLE: u32 = 990;
/// Drive operations saved up in good times: what a drive that stops with a full queue may cost.
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

/// How long (ns) a request may take before it is late: `quantiles` are the drives' own; the middle
/// one counts, the slowest of the faster half, so that a slow drive doesn't excuse itself.
pub fn deadline(quantiles: &mut [u64]) -> u64 {
    let typical = crate::learn::median(quantiles);
    typical.map_or(DEADLINE_INITIAL, |nanos| nanos.clamp(DEADLINE_MIN, DEADLINE_MAX))
}

/// How old (ns) a request must be for the budget not to count: as [`deadline`], of reads or writes.
pub fn beyond(p99s: &mut [u64]) -> u64 {
    let typical = crate::learn::median(p99s).unwrap_or(0);
    typical.saturating_mul(BEYOND_TIMES).max(BEYOND_BUDGET)
}

/// What a second way has cost, in hundredths of a drive operation: lost or given back when the
/// request is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent(u32);

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, more: Spent) {
        self.0 += more.0;
    }
}

/// Drive operations that are allowed for second ways. Reads and writes have one each: late writes
/// of a burst leave reads what they need.
///
/// ```text
///                 spend             the second way was first: given back
///   saved (left) ───────> on its way ────────────────────────────────────> saved (SAVED_MAX)
///                               └──────────────────────────────────────> lost
///                                   the first way was first after all
/// ```
/// Each request earns a little: `left + on its way + lost` is never less than [`SAVED_MAX`].
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    hundredths: u32,
    lost_hundredths: u64,
    /// Who has waited for so long (ns) is not refused.
    beyond: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { hundredths: SAVED_MAX * 100, lost_hundredths: 0, beyond: BEYOND_BUDGET }
    }
}

impl Budget {
    /// A request was sent.
    pub fn earn(&mut self) {
        self.hundredths = (self.hundredths + SHARE_PERCENT).min(SAVED_MAX * 100);
    }

    /// A second way was first: it took the place of one that would have been waited for.
    pub fn give_back(&mut self, spent: Spent) {
        self.hundredths = (self.hundredths + spent.0).min(SAVED_MAX * 100);
    }

    /// A second way was of no use.
    pub fn lose(&mut self, spent: Spent) {
        self.lost_hundredths += u64::from(spent.0);
    }

    /// The same, but for who is not refused: [`beyond`].
    pub fn with_beyond(self, beyond: u64) -> Budget {
        Budget { beyond, ..self }
    }

    /// Drive operations that may be spent now.
    pub fn left(&self) -> u32 {
        self.hundredths / 100
    }

    /// Drive operations of second ways that were not first.
    pub fn lost(&self) -> u64 {
        self.lost_hundredths.div_ceil(100)
    }

    /// May a request go another way before it is late, or when it has just become so? Half of what
    /// is saved stays for those that are late for longer: it is they who make the tail.
    pub fn spend_early(&mut self, cost: u32) -> Option<Spent> {
        let enough = self.hundredths >= (SAVED_MAX / 2 + cost) * 100;
        enough.then(|| self.spend(0, cost)).flatten()
    }

    /// A request that has waited for `age` (ns) is not refused.
    pub fn is_beyond(&self, age: u64) -> bool {
        age >= self.beyond
    }

    /// May a request that has waited for `age` (ns) be sent a second way that costs so many drive
    /// operations? Rebuilding a block reads one from each of the drives it is spread over.
    pub fn spend(&mut self, age: u64, cost: u32) -> Option<Spent> {
        let allowed = self.hundredths >= cost * 100 || self.is_beyond(age);
        allowed.then(|| {
            let spent = self.hundredths.min(cost * 100);
            self.hundredths -= spent;
            Spent(spent)
        })
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
            sent_twice += u32::from(budget.spend(0, 1).is_some());
        }
        assert!((1_000..=1_000 + SAVED_MAX).contains(&sent_twice), "{sent_twice}");
        let rebuilt: u32 = (0..12_000)
            .map(|_| {
                budget.earn();
                u32::from(budget.spend(0, 6).is_some())
            })
            .sum();
        assert_eq!(rebuilt, 200, "six times the cost, a sixth as often");
    }

    #[test]
    fn what_was_first_costs_nothing() {
        let mut budget = Budget::default();
        for _ in 0..10 * SAVED_MAX {
            let spent = budget.spend(0, 6).expect("it never runs out");
            budget.give_back(spent);
        }
        assert_eq!((budget.left(), budget.lost()), (SAVED_MAX, 0));
    }

    #[test]
    fn going_round_early_leaves_half_for_those_who_are_late() {
        let mut budget = Budget::default();
        let early = std::iter::from_fn(|| budget.spend_early(4)).count();
        assert_eq!(early as u32, SAVED_MAX / 2 / 4);
        assert_eq!(budget.left(), SAVED_MAX / 2);
        assert!(budget.spend(0, SAVED_MAX / 2).is_some());
    }

    #[test]
    fn who_has_waited_long_is_not_refused() {
        let mut budget = Budget::default();
        while budget.spend(0, 1).is_some() {}
        assert_eq!(budget.spend(BEYOND_BUDGET - 1, 1), None);
        let spent = budget.spend(BEYOND_BUDGET, 6).expect("it is late");
        budget.give_back(spent);
        assert_eq!(budget.left(), 0, "nothing was spent, and nothing is given back");
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

    proptest::proptest! {
        /// Nothing leaks, whoever spends, wins and loses in whatever order.
        #[test]
        fn what_is_not_left_is_on_its_way_or_lost(
            steps in proptest::collection::vec((0..4_u8, 1..8_u32, 0..2 * BEYOND_BUDGET), 1..400)
        ) {
            let (mut budget, mut on_its_way) = (Budget::default(), Vec::new());
            for (step, cost, age) in steps {
                match step {
                    0 => budget.earn(),
                    1 => on_its_way.extend(budget.spend(age, cost)),
                    2 => on_its_way.extend(budget.spend_early(cost)),
                    _ => {
                        let Some(spent) = on_its_way.pop() else { continue };
                        if cost % 2 == 0 { budget.give_back(spent) } else { budget.lose(spent) }
                    }
                }
                proptest::prop_assert!(budget.left() <= SAVED_MAX);
                let away: u64 = on_its_way.iter().map(|spent| u64::from(spent.0)).sum();
                let all = u64::from(budget.hundredths) + away + budget.lost_hundredths;
                proptest::prop_assert!(all >= u64::from(SAVED_MAX) * 100, "{all}");
            }
        }
    }
}
