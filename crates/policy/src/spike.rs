//! Is a drive in a latency spike? (FusionRAID §4.3, Figure 8)
//!
//! ```text
//!            stragglers   |<-------- window of length t, y slots -------->|
//!   slot  …  84  85       | 86    87    88    89    90 (now)              |
//!               3         |  7     2     0     4     1     in progress    |
//!
//!   slot 91 begins: slot 86 leaves the window, stragglers = 3 + 7
//! ```
//!
//! A request is counted in the slot in which it was dispatched and taken out of the same slot, or
//! of the stragglers, when it completes. The work is constant for each request and for each slot;
//! nothing is scanned, nothing is probed.

use smallvec::SmallVec;

/// t, y, x̂ and x̌ of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpikeConfig {
    /// t: nanoseconds after which a request is a straggler, to the precision of one slot.
    pub window: u64,
    /// y: slots in the window.
    pub slots: u8,
    /// x̂: stragglers that make the drive unresponsive.
    pub enter: u32,
    /// x̌: with this many stragglers or fewer it is responsive again.
    pub leave: u32,
}

impl SpikeConfig {
    /// Nanoseconds of one slot: the detector tells nothing shorter apart.
    pub fn slot(&self) -> u64 {
        (self.window / u64::from(self.slots.max(1))).max(1)
    }
}

/// The slot a request was dispatched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u64);

pub struct SpikeDetector {
    config: SpikeConfig,
    /// Requests in progress by slot, a ring; the window is `current - y + 1 ..= current`.
    pending: SmallVec<[u32; 16]>,
    current: u64,
    /// When the current slot ends.
    ends: u64,
    /// Where slots are counted from: changed with the window's length.
    base_slot: u64,
    base_time: u64,
    stragglers: u32,
    stragglers_total: u64,
    unresponsive: bool,
}

impl SpikeDetector {
    pub fn new(config: SpikeConfig, now: u64) -> SpikeDetector {
        let slots = usize::from(config.slots.max(1));
        SpikeDetector {
            config,
            pending: SmallVec::from_elem(0, slots),
            // So that no slot of the first window has a negative number.
            current: slots as u64,
            ends: now + config.slot(),
            base_slot: slots as u64,
            base_time: now,
            stragglers: 0,
            stragglers_total: 0,
            unresponsive: false,
        }
    }

    pub fn config(&self) -> SpikeConfig {
        self.config
    }

    /// Another t, from now on; what is in the window ages by the new slots.
    pub fn set_window(&mut self, now: u64, window: u64) {
        self.advance(now);
        self.base_slot = self.current;
        self.base_time = now;
        self.config.window = window;
        self.ends = now + self.config.slot();
    }

    /// Lets the window slide up to `now`.
    pub fn advance(&mut self, now: u64) {
        if now >= self.ends {
            self.slide(now);
        }
    }

    fn slide(&mut self, now: u64) {
        let slot_len = self.config.slot();
        let slot = self.base_slot + (now - self.base_time) / slot_len;
        let count = self.pending.len() as u64;
        // After a long rest every slot leaves once.
        let passed = (slot - self.current).min(count);
        for left in 0..passed {
            let at = ((self.current + 1 + left) % count) as usize;
            let late = std::mem::take(&mut self.pending[at]);
            self.stragglers += late;
            self.stragglers_total += u64::from(late);
        }
        self.current = slot;
        self.ends = self.base_time + (slot + 1 - self.base_slot) * slot_len;
        self.judge();
    }

    pub fn dispatch(&mut self, now: u64) -> Slot {
        self.advance(now);
        let at = (self.current % self.pending.len() as u64) as usize;
        self.pending[at] += 1;
        Slot(self.current)
    }

    /// Returns whether the request was a straggler.
    pub fn complete(&mut self, now: u64, slot: Slot) -> bool {
        self.advance(now);
        let count = self.pending.len() as u64;
        let late = slot.0 + count <= self.current;
        if late {
            self.stragglers -= 1;
            self.judge();
        } else {
            self.pending[(slot.0 % count) as usize] -= 1;
        }
        late
    }

    fn judge(&mut self) {
        if self.stragglers >= self.config.enter.max(1) {
            self.unresponsive = true;
        } else if self.stragglers <= self.config.leave {
            self.unresponsive = false;
        }
    }

    /// As of the last call that told the time.
    pub fn is_unresponsive(&self) -> bool {
        self.unresponsive
    }

    pub fn stragglers(&self) -> u32 {
        self.stragglers
    }

    /// All requests that ever became stragglers.
    pub fn stragglers_total(&self) -> u64 {
        self.stragglers_total
    }
}

/// The spikes of one drive so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spikes {
    since: Option<u64>,
    count: u64,
    nanos: u64,
}

impl Spikes {
    /// What the detector says at `now`. Returns begin and end of a spike that is over.
    pub fn note(&mut self, unresponsive: bool, now: u64) -> Option<(u64, u64)> {
        if unresponsive {
            self.since.get_or_insert(now);
            return None;
        }
        let since = self.since.take()?;
        // We were away, or asleep, while its answers waited: it was unresponsive for nobody.
        if since == now {
            return None;
        }
        self.count += 1;
        self.nanos += now - since;
        Some((since, now))
    }

    /// One that goes on included.
    pub fn count(&self) -> u64 {
        self.count + u64::from(self.since.is_some())
    }

    /// How long they were in all up to `now`, in nanoseconds.
    pub fn nanos(&self, now: u64) -> u64 {
        self.nanos + self.since.map_or(0, |since| now - since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FusionRAID Figure 8: five slots, x = 6.
    #[test]
    fn the_papers_example() {
        let config = SpikeConfig { window: 50, slots: 5, enter: 6, leave: 6 };
        let mut detector = SpikeDetector::new(config, 0);
        let early: Vec<Slot> = (0..3).map(|_| detector.dispatch(0)).collect();
        // The slot that leaves next holds seven.
        let oldest: Vec<Slot> = (0..7).map(|_| detector.dispatch(10)).collect();
        detector.dispatch(20);
        detector.advance(50);
        assert_eq!((detector.stragglers(), detector.is_unresponsive()), (3, false));
        // One straggler and one of the oldest slot return, then that slot leaves the window.
        assert!(detector.complete(55, early[0]));
        assert!(!detector.complete(56, oldest[0]));
        detector.advance(60);
        assert_eq!((detector.stragglers(), detector.is_unresponsive()), (8, true));
    }

    #[test]
    fn two_thresholds_keep_it_from_flickering() {
        let config = SpikeConfig { window: 10, slots: 10, enter: 3, leave: 0 };
        let mut detector = SpikeDetector::new(config, 0);
        let slots: Vec<Slot> = (0..3).map(|_| detector.dispatch(0)).collect();
        detector.advance(10);
        assert!(detector.is_unresponsive());
        detector.complete(11, slots[0]);
        detector.complete(11, slots[1]);
        assert!(detector.is_unresponsive(), "one straggler is left");
        detector.complete(12, slots[2]);
        assert!(!detector.is_unresponsive());
        assert_eq!(detector.stragglers_total(), 3);
    }

    #[test]
    fn a_shorter_window_makes_stragglers_sooner() {
        let config = SpikeConfig { window: 100, slots: 10, enter: 1, leave: 0 };
        let mut detector = SpikeDetector::new(config, 0);
        let slot = detector.dispatch(0);
        detector.set_window(5, 20);
        detector.advance(24);
        assert!(!detector.is_unresponsive());
        detector.advance(25);
        assert!(detector.is_unresponsive());
        assert!(detector.complete(26, slot));
    }

    #[test]
    fn spikes_are_counted_with_the_one_that_goes_on() {
        let mut spikes = Spikes::default();
        assert_eq!(spikes.note(false, 5), None);
        assert_eq!(spikes.note(true, 10), None);
        assert_eq!(spikes.note(true, 12), None);
        assert_eq!((spikes.count(), spikes.nanos(17)), (1, 7));
        assert_eq!(spikes.note(false, 20), Some((10, 20)));
        assert_eq!(spikes.note(false, 25), None);
        assert_eq!((spikes.count(), spikes.nanos(30)), (1, 10));
        // One that nobody saw.
        assert_eq!(spikes.note(true, 40), None);
        assert_eq!(spikes.note(false, 40), None);
        assert_eq!((spikes.count(), spikes.nanos(50)), (1, 10));
    }

    proptest::proptest! {
        /// Against a list of requests with their dispatch times, scanned each time.
        #[test]
        fn agrees_with_a_scan_of_all_requests(
            steps in proptest::collection::vec((0_u8..4, 0_u64..60, 0_usize..64), 1..300),
            slots in 1_u8..12, enter in 1_u32..5, leave in 0_u32..5,
        ) {
            let slot_len = 10;
            let leave = leave.min(enter);
            let window = u64::from(slots) * slot_len;
            let config = SpikeConfig { window, slots, enter, leave };
            let mut detector = SpikeDetector::new(config, 0);
            let mut requests: Vec<(u64, Slot)> = Vec::new();
            let (mut now, mut unresponsive) = (0, false);
            for (action, passed, pick) in steps {
                now += passed;
                // Requests whose slot has left the window.
                let late = |&&(at, _): &&(u64, Slot)| {
                    at / slot_len + u64::from(slots) <= now / slot_len
                };
                let mut judge = |requests: &Vec<(u64, Slot)>| {
                    let stragglers = requests.iter().filter(late).count() as u32;
                    if stragglers >= enter {
                        unresponsive = true;
                    } else if stragglers <= leave {
                        unresponsive = false;
                    }
                    stragglers
                };
                // Time passes first: the state may change before the request does anything.
                let mut stragglers = judge(&requests);
                if action < 2 {
                    requests.push((now, detector.dispatch(now)));
                } else if action == 2 && !requests.is_empty() {
                    let (_, slot) = requests.swap_remove(pick % requests.len());
                    detector.complete(now, slot);
                    stragglers = judge(&requests);
                } else {
                    detector.advance(now);
                }
                proptest::prop_assert_eq!(detector.stragglers(), stragglers);
                proptest::prop_assert_eq!(detector.is_unresponsive(), unresponsive);
            }
        }
    }
}
