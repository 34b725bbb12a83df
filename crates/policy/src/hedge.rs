//! When is a request late, and may it be sent a second way?
//!
//! The deadline follows what drives usually need; the budget keeps second ways that did not help
//! a small share of what all requests cost, in operations and in bytes, so that an overload, in
//! which everything is late, is not doubled.
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

/// What second ways may cost in the long run, of a hundred times what first ways do: in drive
/// operations, and in bytes.
pub const SHARE_PERCENT: u64 = 10;
/// The quantile of a drive's reads and of its writes that a request is measured by.
pub const READS_PERMILLE: u32 = 900;
pub const WRITES_PERMILLE: u32 = 990;
/// Drive operations saved up in good times: what a drive that stops with a full queue may cost.
pub const SAVED_MAX: u64 = 128;
/// Bytes saved up: as many operations of a whole block, of the size that blocks have unless set.
pub const BYTES_SAVED_MAX: u64 = SAVED_MAX << 16;
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

/// What is asked of drives: operations, and the bytes that they move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub operations: u64,
    pub bytes: u64,
}

impl Cost {
    /// So many operations of so many bytes each.
    pub fn of(operations: usize, bytes: usize) -> Cost {
        Cost { operations: operations as u64, bytes: (operations * bytes) as u64 }
    }

    /// What `self` costs more than `other`.
    pub fn beyond(self, other: Cost) -> Cost {
        Cost {
            operations: self.operations.saturating_sub(other.operations),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), |sum, cost| Cost {
            operations: sum.operations + cost.operations,
            bytes: sum.bytes + cost.bytes,
        })
    }
}

/// What a second way has taken from the budget, in hundredths: lost or given back when the request
/// is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    operations: u64,
    bytes: u64,
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, more: Spent) {
        self.operations += more.operations;
        self.bytes += more.bytes;
    }
}

/// One of the two things that a budget holds, in hundredths of an operation or of a byte.
#[derive(Clone, Copy, Debug)]
struct Account {
    left: u64,
    lost: u64,
    most: u64,
}

impl Account {
    fn full(most: u64) -> Account {
        Account { left: most * 100, lost: 0, most: most * 100 }
    }

    fn put(&mut self, hundredths: u64) {
        self.left = (self.left + hundredths).min(self.most);
    }

    /// Whether this can be taken, and so many percent of what can be saved are left. A full account
    /// affords all that costs more than can be saved: it would never be allowed otherwise.
    fn affords(&self, cost: u64, kept_percent: u64) -> bool {
        self.left >= (cost * 100 + self.most / 100 * kept_percent).min(self.most)
    }

    /// Takes what there is of it.
    fn take(&mut self, cost: u64) -> u64 {
        let taken = self.left.min(cost * 100);
        self.left -= taken;
        taken
    }
}

/// Drive operations that are allowed for second ways, and the bytes that these may move: a second
/// way needs both. Reads and writes have one each: late writes of a burst leave reads what they
/// need.
///
/// ```text
///                 spend             the second way was first: given back
///   saved (left) ───────> on its way ────────────────────────────────────> saved (.._SAVED_MAX)
///                               └──────────────────────────────────────> lost
///                                   the first way was first after all
/// ```
/// Each request earns a share of what it costs itself: `left + on its way + lost` is never less
/// than [`SAVED_MAX`] operations and [`BYTES_SAVED_MAX`].
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    operations: Account,
    bytes: Account,
    /// Who has waited for so long (ns) is not refused.
    beyond: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            operations: Account::full(SAVED_MAX),
            bytes: Account::full(BYTES_SAVED_MAX),
            beyond: BEYOND_BUDGET,
        }
    }
}

impl Budget {
    /// A request was sent its first way.
    pub fn earn(&mut self, cost: Cost) {
        self.operations.put(cost.operations * SHARE_PERCENT);
        self.bytes.put(cost.bytes * SHARE_PERCENT);
    }

    /// A second way was first: it took the place of one that would have been waited for.
    pub fn give_back(&mut self, spent: Spent) {
        self.operations.put(spent.operations);
        self.bytes.put(spent.bytes);
    }

    /// A second way was of no use.
    pub fn lose(&mut self, spent: Spent) {
        self.operations.lost += spent.operations;
        self.bytes.lost += spent.bytes;
    }

    /// The same, but for who is not refused: [`beyond`].
    pub fn with_beyond(self, beyond: u64) -> Budget {
        Budget { beyond, ..self }
    }

    /// What may be spent now.
    pub fn left(&self) -> Cost {
        Cost { operations: self.operations.left / 100, bytes: self.bytes.left / 100 }
    }

    /// What second ways have cost that were not first.
    pub fn lost(&self) -> Cost {
        let [operations, bytes] =
            [self.operations, self.bytes].map(|account| account.lost.div_ceil(100));
        Cost { operations, bytes }
    }

    /// May a request go another way before it is late, or when it has just become so? Half of what
    /// is saved stays for those that are late for longer: it is they who make the tail.
    pub fn spend_early(&mut self, cost: Cost) -> Option<Spent> {
        self.affords(cost, 50).then(|| self.take(cost))
    }

    /// A request that has waited for `age` (ns) is not refused.
    pub fn is_beyond(&self, age: u64) -> bool {
        age >= self.beyond
    }

    /// May a request that has waited for `age` (ns) be sent a second way at this cost? Rebuilding a
    /// block reads one from each of the drives it is spread over.
    pub fn spend(&mut self, age: u64, cost: Cost) -> Option<Spent> {
        let allowed = self.affords(cost, 0) || self.is_beyond(age);
        allowed.then(|| self.take(cost))
    }

    fn affords(&self, cost: Cost, kept_percent: u64) -> bool {
        self.operations.affords(cost.operations, kept_percent)
            && self.bytes.affords(cost.bytes, kept_percent)
    }

    fn take(&mut self, cost: Cost) -> Spent {
        Spent {
            operations: self.operations.take(cost.operations),
            bytes: self.bytes.take(cost.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4 << 10;
    const BLOCK: usize = 64 << 10;

    fn pages(operations: usize) -> Cost {
        Cost::of(operations, PAGE)
    }

    #[test]
    fn a_tenth_in_the_long_run_and_what_was_saved() {
        let mut budget = Budget::default();
        let mut sent_twice = 0;
        for _ in 0..10_000 {
            budget.earn(pages(1));
            sent_twice += u64::from(budget.spend(0, pages(1)).is_some());
        }
        assert!((1_000..=1_000 + SAVED_MAX).contains(&sent_twice), "{sent_twice}");
        while budget.spend(0, pages(1)).is_some() {}
        let rebuilt: u32 = (0..12_000)
            .map(|_| {
                budget.earn(pages(1));
                u32::from(budget.spend(0, pages(6)).is_some())
            })
            .sum();
        assert!((198..=200).contains(&rebuilt), "six times the cost, a sixth as often: {rebuilt}");
    }

    /// A second way of a whole stripe is many large operations: beside small requests it is seldom
    /// allowed, and the small ones that come with it don't make up for that.
    #[test]
    fn a_stripe_costs_what_it_moves() {
        let mut budget = Budget::default();
        let stripe = Cost::of(8, BLOCK);
        let saved = std::iter::from_fn(|| budget.spend(0, stripe)).count() as u64;
        assert_eq!(saved, SAVED_MAX / 8, "of operations as of bytes");
        // Enough operations are earned for ten stripes, and bytes for two thirds of one.
        for _ in 0..800 {
            budget.earn(pages(1));
        }
        assert_eq!(budget.spend(0, stripe), None);
        assert!(budget.spend(0, pages(80)).is_some());
        // Of stripes themselves, one in ten.
        let second: u32 = (0..1_000)
            .map(|_| {
                budget.earn(stripe);
                u32::from(budget.spend(0, stripe).is_some())
            })
            .sum();
        assert_eq!(second, 100);
    }

    #[test]
    fn small_operations_run_out_though_bytes_are_left() {
        let mut budget = Budget::default();
        let small = std::iter::from_fn(|| budget.spend(0, pages(1))).count() as u64;
        assert_eq!(small, SAVED_MAX);
        assert!(budget.left().bytes > BYTES_SAVED_MAX / 2);
    }

    #[test]
    fn what_was_first_costs_nothing() {
        let mut budget = Budget::default();
        for _ in 0..10 * SAVED_MAX {
            let spent = budget.spend(0, Cost::of(6, BLOCK)).expect("it never runs out");
            budget.give_back(spent);
        }
        let full = Cost { operations: SAVED_MAX, bytes: BYTES_SAVED_MAX };
        assert_eq!((budget.left(), budget.lost()), (full, Cost::default()));
    }

    #[test]
    fn going_round_early_leaves_half_for_those_who_are_late() {
        for (bytes, half) in [(PAGE, SAVED_MAX / 2), (BLOCK, SAVED_MAX / 2), (4 * BLOCK, 16)] {
            let mut budget = Budget::default();
            let early = std::iter::from_fn(|| budget.spend_early(Cost::of(4, bytes))).count();
            assert_eq!(early as u64, half / 4, "{bytes}");
            assert!(budget.spend(0, Cost::of(half as usize, bytes)).is_some(), "{bytes}");
        }
    }

    #[test]
    fn what_costs_more_than_can_be_saved_takes_all_of_it() {
        let mut budget = Budget::default();
        let huge = Cost::of(27, 1 << 20);
        assert!(budget.spend_early(huge).is_some());
        assert_eq!(budget.left(), Cost { operations: SAVED_MAX - 27, bytes: 0 });
        assert_eq!(budget.spend(0, huge), None);
    }

    #[test]
    fn who_has_waited_long_is_not_refused() {
        let mut budget = Budget::default();
        while budget.spend(0, Cost::of(1, BLOCK)).is_some() {}
        assert_eq!(budget.spend(BEYOND_BUDGET - 1, pages(1)), None);
        let spent = budget.spend(BEYOND_BUDGET, Cost::of(6, BLOCK)).expect("it is late");
        budget.give_back(spent);
        assert_eq!(budget.left(), Cost::default(), "nothing was spent, and nothing is given back");
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
            steps in proptest::collection::vec((0..4_u8, 1..8_usize, 0..2 * BEYOND_BUDGET), 1..400)
        ) {
            let (mut budget, mut on_its_way) = (Budget::default(), Vec::new());
            for (step, count, age) in steps {
                // Small and large ones, so that either of the two runs out.
                let cost = Cost::of(count, if age % 3 == 0 { 4 * BLOCK } else { PAGE });
                match step {
                    0 => budget.earn(cost),
                    1 => on_its_way.extend(budget.spend(age, cost)),
                    2 => on_its_way.extend(budget.spend_early(cost)),
                    _ => {
                        let Some(spent) = on_its_way.pop() else { continue };
                        if count % 2 == 0 { budget.give_back(spent) } else { budget.lose(spent) }
                    }
                }
                let away = |of: fn(&Spent) -> u64| on_its_way.iter().map(of).sum::<u64>();
                let accounts = [
                    (budget.operations, away(|spent| spent.operations), SAVED_MAX),
                    (budget.bytes, away(|spent| spent.bytes), BYTES_SAVED_MAX),
                ];
                for (account, away, most) in accounts {
                    proptest::prop_assert!(account.left <= most * 100);
                    let all = account.left + away + account.lost;
                    proptest::prop_assert!(all >= most * 100, "{all}");
                }
            }
        }
    }
}
