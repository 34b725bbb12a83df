//! How unevenly requests come: counted by slots of time.

use io::Nanos;
use serde::Serialize;

#[derive(Clone, Debug)]
pub struct Slots {
    slot: u64,
    present: u64,
    count: u64,
    peak: u64,
    requests: u64,
    /// Sum of the squares of counts.
    squares: f64,
    /// Slots with a request.
    busy: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Burstiness {
    pub slot_ms: f64,
    /// Requests of the fullest slot, and that over the mean.
    pub peak: u64,
    pub peak_to_mean: f64,
    /// Variance over mean of the counts: 1 if requests are independent of one another.
    pub dispersion: f64,
    /// Part of the slots with any request.
    pub busy: f64,
}

impl Slots {
    pub fn new(slot: Nanos) -> Slots {
        Slots { slot: slot.0, present: 0, count: 0, peak: 0, requests: 0, squares: 0.0, busy: 0 }
    }

    /// Times never go back.
    pub fn add(&mut self, at: Nanos) {
        let slot = at.0 / self.slot;
        if slot != self.present {
            self.close();
            self.present = slot;
        }
        self.count += 1;
    }

    fn close(&mut self) {
        self.peak = self.peak.max(self.count);
        self.requests += self.count;
        self.squares += (self.count as f64) * (self.count as f64);
        self.busy += u64::from(self.count > 0);
        self.count = 0;
    }

    pub fn finish(mut self) -> Burstiness {
        self.close();
        let slots = (self.present + 1) as f64;
        let mean = self.requests as f64 / slots;
        if self.requests == 0 {
            return Burstiness::default();
        }
        Burstiness {
            slot_ms: self.slot as f64 / 1e6,
            peak: self.peak,
            peak_to_mean: self.peak as f64 / mean,
            dispersion: (self.squares / slots - mean * mean) / mean,
            busy: self.busy as f64 / slots,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_slot_empty_ones_too() {
        let mut slots = Slots::new(Nanos::from_millis(10));
        // 3, 0, 1, 0 requests.
        [0, 5, 9, 29, 30].iter().for_each(|&at| slots.add(Nanos::from_millis(at)));
        let seen = slots.finish();
        assert_eq!((seen.peak, seen.busy), (3, 0.75));
        assert!((seen.peak_to_mean - 3.0 / 1.25).abs() < 1e-12);
        // (9 + 0 + 1 + 1) / 4 - 1.25^2, over 1.25.
        assert!((seen.dispersion - (2.75 - 1.5625) / 1.25).abs() < 1e-12);
    }

    #[test]
    fn a_silence_of_centuries_costs_nothing() {
        let mut slots = Slots::new(Nanos::from_millis(1));
        slots.add(Nanos::ZERO);
        slots.add(Nanos(u64::MAX));
        assert!(slots.finish().busy < 1e-9);
    }
}
