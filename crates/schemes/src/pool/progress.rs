//! How long restoring and copying will take, at the rate of the last seconds.

use std::collections::BTreeMap;

use io::Nanos;
use io::rate::Rate;

use crate::store::Restoring;

/// By the drive's place.
#[derive(Default)]
pub struct Progress {
    rates: BTreeMap<usize, Rate>,
}

impl Progress {
    pub fn note(&mut self, now: Nanos, under_way: &[Restoring]) {
        self.rates.retain(|place, _| under_way.iter().any(|own| own.place == *place));
        for Restoring { place, left, .. } in under_way {
            self.rates.entry(*place).or_default().note(now, *left);
        }
    }

    /// `None`: not known, or it stands still.
    pub fn eta(&self, Restoring { place, left, .. }: &Restoring) -> Option<Nanos> {
        self.rates.get(place)?.eta(*left)
    }
}
