//! How long restoring will take, at the rate of the last seconds.

use std::collections::{BTreeMap, VecDeque};

use io::Nanos;

use crate::store::Restoring;

/// The rate is that of so many samples, taken so far apart: as `fusion` shows it.
const SAMPLES: usize = 10;
const STEP: Nanos = Nanos::from_secs(1);

/// What was left when, by the drive's place.
#[derive(Default)]
pub struct Progress {
    samples: BTreeMap<usize, VecDeque<(Nanos, u64)>>,
}

impl Progress {
    pub fn note(&mut self, now: Nanos, restoring: &[Restoring]) {
        self.samples.retain(|place, _| restoring.iter().any(|own| own.place == *place));
        for Restoring { place, left, .. } in restoring {
            let samples = self.samples.entry(*place).or_default();
            // It began anew.
            if samples.back().is_some_and(|(_, before)| before < left) {
                samples.clear();
            }
            if samples.back().is_none_or(|(at, _)| *at + STEP <= now) {
                samples.push_back((now, *left));
            }
            if samples.len() > SAMPLES {
                samples.pop_front();
            }
        }
    }

    /// `None`: not known, or it stands still.
    pub fn eta(&self, Restoring { place, left, .. }: &Restoring) -> Option<Nanos> {
        let samples = self.samples.get(place)?;
        let ((began, first), (ended, last)) = (samples.front()?, samples.back()?);
        let (span, done) = (ended.saturating_sub(*began).0, first.saturating_sub(*last));
        let eta = (u128::from(*left) * u128::from(span)).checked_div(done.into())?;
        u64::try_from(eta).ok().map(Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_was_done_did() {
        let mut progress = Progress::default();
        let left = |left| Restoring { place: 3, left, all: 1000 };
        assert_eq!(progress.eta(&left(1000)), None);
        for (second, now) in [(0, 1000), (1, 900), (2, 800), (3, 700)] {
            progress.note(Nanos::from_secs(second), &[left(now)]);
        }
        assert_eq!(progress.eta(&left(700)), Some(Nanos::from_secs(7)));
        for second in 4..20 {
            progress.note(Nanos::from_secs(second), &[left(700)]);
        }
        assert_eq!(progress.eta(&left(700)), None, "it stands still");
        progress.note(Nanos::from_secs(20), &[left(900)]);
        progress.note(Nanos::from_secs(21), &[left(800)]);
        assert_eq!(progress.eta(&left(800)), Some(Nanos::from_secs(8)), "it began anew");
        progress.note(Nanos::from_secs(22), &[]);
        assert_eq!(progress.eta(&left(800)), None);
    }
}
