//! How long something will take, at the rate of the last seconds.

use std::collections::VecDeque;

use crate::Nanos;

/// The rate is that of so many samples, taken so far apart: of the last ten seconds.
const SAMPLES: usize = 10;
const STEP: Nanos = Nanos::from_secs(1);

/// What was left when.
#[derive(Debug, Default)]
pub struct Rate {
    samples: VecDeque<(Nanos, u64)>,
}

impl Rate {
    pub fn note(&mut self, now: Nanos, left: u64) {
        // It began anew.
        if self.samples.back().is_some_and(|(_, before)| *before < left) {
            self.samples.clear();
        }
        if self.samples.back().is_none_or(|(at, _)| *at + STEP <= now) {
            self.samples.push_back((now, left));
        }
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// `None`: not known, or it stands still.
    pub fn eta(&self, left: u64) -> Option<Nanos> {
        let ((began, first), (ended, last)) = (self.samples.front()?, self.samples.back()?);
        let (span, done) = (ended.saturating_sub(*began).0, first.saturating_sub(*last));
        let eta = (u128::from(left) * u128::from(span)).checked_div(done.into())?;
        u64::try_from(eta).ok().map(Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_was_done_did() {
        let mut rate = Rate::default();
        assert_eq!(rate.eta(1000), None);
        for (second, left) in [(0, 1000), (1, 900), (2, 800), (3, 700)] {
            rate.note(Nanos::from_secs(second), left);
        }
        assert_eq!(rate.eta(700), Some(Nanos::from_secs(7)));
        for second in 4..20 {
            rate.note(Nanos::from_secs(second), 700);
        }
        assert_eq!(rate.eta(700), None, "it stands still");
        rate.note(Nanos::from_secs(20), 900);
        rate.note(Nanos::from_secs(21), 800);
        assert_eq!(rate.eta(800), Some(Nanos::from_secs(8)), "it began anew");
    }
}
