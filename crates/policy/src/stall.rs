//! When this process itself did not run: drives may have answered then, and nobody heard it.
//!
//! On a crowded machine a thread is off its core for tenths of a second. Every operation under way
//! seems as much older then, at every drive; none of that is a drive's.

use std::collections::VecDeque;

/// A look that comes later than this (ns) tells of a stall: twice the kernel's longest slice.
pub const LATE: u64 = 20_000_000;
/// Stalls remembered; an operation that is older than all of them is taken for as old as it seems.
pub const STALLS_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Stalls {
    /// Begin and end (ns), the oldest first.
    last: VecDeque<(u64, u64)>,
}

impl Stalls {
    /// A look that was due came at `now`.
    pub fn look(&mut self, due: u64, now: u64) {
        if now < due + LATE {
            return;
        }
        if self.last.len() == STALLS_MAX {
            self.last.pop_front();
        }
        self.last.push_back((due, now));
    }

    /// For how long (ns) since `begin` nobody listened.
    pub fn since(&self, begin: u64) -> u64 {
        let newest = self.last.iter().rev().take_while(|&&(_, end)| end > begin);
        newest.map(|&(from, end)| end - from.max(begin)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_heard_is_not_a_drives() {
        let mut stalls = Stalls::default();
        stalls.look(100, 100 + LATE - 1);
        assert_eq!(stalls.since(0), 0, "a little late");
        let end = 10 * LATE;
        stalls.look(2 * LATE, end);
        assert_eq!((stalls.since(0), stalls.since(9 * LATE)), (8 * LATE, LATE));
        assert_eq!(stalls.since(end), 0);
        (0..2 * STALLS_MAX as u64).for_each(|at| stalls.look(end + at * 100, end + at * 100));
        assert_eq!(stalls.last.len(), 1);
    }

    proptest::proptest! {
        /// Against each moment looked at by itself.
        #[test]
        fn agrees_with_a_walk_through_time(
            looks in proptest::collection::vec((1_u64..40, 0_u64..60), 1..STALLS_MAX),
            begin in 0_u64..3000,
        ) {
            let (mut stalls, mut now, mut walked) = (Stalls::default(), 0, 0);
            for (next, late) in looks {
                let due = now + next;
                let is_stall = late >= 20;
                now = due + late;
                stalls.look(due * 1_000_000, now * 1_000_000);
                walked += (due..now).filter(|at| is_stall && *at >= begin).count() as u64;
            }
            proptest::prop_assert_eq!(stalls.since(begin * 1_000_000), walked * 1_000_000);
        }
    }
}
