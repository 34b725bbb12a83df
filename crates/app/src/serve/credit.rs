//! How often something may happen: so many times at once, and so many a second for long.

use std::cell::Cell;

use io::Nanos;

pub struct Credit {
    /// Of the rate, what one costs.
    nanos_each: u64,
    nanos_max: u64,
    /// What may come at once now.
    nanos: Cell<u64>,
    counted: Cell<Nanos>,
}

impl Credit {
    pub fn new(per_second: u64, at_once: u64, now: Nanos) -> Credit {
        let nanos_each = 1_000_000_000 / per_second;
        let nanos_max = at_once * nanos_each;
        Credit { nanos_each, nanos_max, nanos: Cell::new(nanos_max), counted: Cell::new(now) }
    }

    /// Takes one, if it may happen now.
    pub fn take(&self, now: Nanos) -> bool {
        let since = now.0.saturating_sub(self.counted.replace(now).0);
        let nanos = self.nanos.get().saturating_add(since).min(self.nanos_max);
        let left = nanos.checked_sub(self.nanos_each);
        self.nanos.set(left.unwrap_or(nanos));
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_is_there_later_up_to_a_bound() {
        let credit = Credit::new(10, 3, Nanos::ZERO);
        let taken = |at| (0..100).filter(|_| credit.take(at)).count();
        assert_eq!(taken(Nanos::ZERO), 3);
        assert_eq!(taken(Nanos::from_millis(99)), 0);
        assert_eq!(taken(Nanos::from_millis(100)), 1);
        assert_eq!(taken(Nanos::from_secs(100)), 3);
    }
}
