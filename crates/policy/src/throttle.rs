//! How often something may be told: so many times in any hour, and how often it was held back.

use std::collections::VecDeque;

/// The hour (ns).
pub const SPAN: u64 = 3_600_000_000_000;

/// One source of messages: what one drive is warned about, say.
#[derive(Clone, Debug, Default)]
pub struct Throttle {
    /// When the last ones were told, the oldest first.
    told: VecDeque<u64>,
    held: u64,
}

impl Throttle {
    /// May one be told at `now`, with `most` in any [`SPAN`]? If not it is counted as held back.
    pub fn may_tell(&mut self, now: u64, most: usize) -> bool {
        let may = self.has_room(now, most);
        if may {
            self.told.push_back(now);
        } else {
            self.held += 1;
        }
        may
    }

    /// How many were held back, when a message may say so; that message counts as told.
    pub fn sum_up(&mut self, now: u64, most: usize) -> Option<u64> {
        if self.held == 0 || !self.has_room(now, most) {
            return None;
        }
        self.told.push_back(now);
        Some(std::mem::take(&mut self.held))
    }

    fn has_room(&mut self, now: u64, most: usize) -> bool {
        while self.told.front().is_some_and(|&first| first + SPAN <= now) {
            self.told.pop_front();
        }
        self.told.len() < most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Against all that were told: no more than so many in an hour, none held that had room,
        /// and each is told or counted in a sum.
        #[test]
        fn agrees_with_a_list_of_all(
            steps in proptest::collection::vec((0..SPAN / 3, proptest::bool::ANY), 1..200),
            most in 1_usize..5,
        ) {
            let (mut throttle, mut now, mut all) = (Throttle::default(), 0, Vec::<u64>::new());
            let (mut held, mut summed) = (0, 0);
            for (passed, sums) in steps {
                now += passed;
                let room = all.iter().filter(|&&at| now < at + SPAN).count() < most;
                if sums {
                    let sum = throttle.sum_up(now, most);
                    proptest::prop_assert_eq!(sum.is_some(), room && held > summed);
                    summed += sum.unwrap_or(0);
                    all.extend(sum.map(|_| now));
                } else {
                    let told = throttle.may_tell(now, most);
                    proptest::prop_assert_eq!(told, room);
                    held += u64::from(!told);
                    all.extend(told.then_some(now));
                }
                proptest::prop_assert!(summed <= held);
            }
            proptest::prop_assert_eq!(throttle.held, held - summed);
        }
    }
}
