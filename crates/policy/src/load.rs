//! Are many drives slow together? Then it is the load, and no way round makes it less.
//!
//! A latency spike is a single drive's: the others have time for what goes round it (FusionRAID
//! §4.3). When bursts make many drives late at once, each way round is one more request for drives
//! that are behind already, and keeps the overload up after the burst has passed.
//!
//! ```text
//!              more than `most` drives unresponsive, for LASTING
//!    at ease ───────────────────────────────────────────────────> loaded
//!       ^                                                           │
//!       └───────────────────────────────────────────────────────────┘
//!              `most` or fewer of them, for CALM
//! ```

/// One drive of so many may be unresponsive beyond what the parity bears before it is load: flash
/// drives collect for a few percent of the time, so that two of eight do at once now and then.
pub const DRIVES_PER_SPIKE: usize = 8;
/// So long (ns) too many have to be: three of eight may collect at the same time by chance, but not
/// for longer than one collection takes.
pub const LASTING: u64 = 6_000_000;
/// So long (ns) there has to be no load: a few times as long as a drive collects in one go.
pub const CALM: u64 = 100_000_000;

/// Whether it is load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadGuard {
    since: Option<u64>,
    /// Too many drives have been unresponsive at every look since then.
    many_since: Option<u64>,
    /// It may be over from then on.
    until: u64,
    count: u64,
    nanos: u64,
}

/// Drives of so many that may be unresponsive at a time without its being load; `bears`: losses
/// that the volume with the least redundancy bears.
pub fn most(drives: usize, bears: usize) -> usize {
    bears + drives / DRIVES_PER_SPIKE
}

impl LoadGuard {
    /// Of the drives `unresponsive` are at `now`, and `most` may be. Returns begin and end of a
    /// load that is over.
    pub fn note(&mut self, now: u64, unresponsive: usize, most: usize) -> Option<(u64, u64)> {
        if unresponsive > most {
            let many_since = *self.many_since.get_or_insert(now);
            if self.since.is_none() && now >= many_since + LASTING {
                self.count += 1;
                self.since = Some(now);
            }
            self.until = now + CALM;
            return None;
        }
        self.many_since = None;
        let since = self.since.filter(|_| now >= self.until)?;
        self.since = None;
        self.nanos += now - since;
        Some((since, now))
    }

    pub fn is_loaded(&self) -> bool {
        self.since.is_some()
    }

    /// How often it was load, this time included.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How long it was in all up to `now`, in nanoseconds.
    pub fn nanos(&self, now: u64) -> u64 {
        self.nanos + self.since.map_or(0, |since| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_is_not_load() {
        assert_eq!([most(4, 1), most(8, 1), most(8, 2), most(29, 1)], [1, 2, 3, 4]);
        let mut guard = LoadGuard::default();
        for now in 0..1000 {
            assert_eq!(guard.note(now * CALM, 2, 2), None);
            assert!(!guard.is_loaded());
        }
        assert_eq!((guard.count(), guard.nanos(1)), (0, 0));
    }

    #[test]
    fn it_ends_when_there_was_none_for_a_while() {
        let mut guard = LoadGuard::default();
        assert_eq!(guard.note(5, 3, 2), None);
        assert_eq!(guard.note(LASTING, 3, 2), None);
        assert!(!guard.is_loaded(), "not for long yet");
        assert_eq!(guard.note(LASTING + 1, 2, 2), None);
        assert_eq!(guard.note(LASTING + 2, 3, 2), None);
        assert!(!guard.is_loaded(), "it was over in between");
        let since = 2 * LASTING + 2;
        assert_eq!(guard.note(since, 3, 2), None);
        assert!(guard.is_loaded());
        assert_eq!(guard.note(CALM, 3, 2), None);
        assert_eq!(guard.note(CALM + 5, 0, 2), None, "it may come back");
        assert!(guard.is_loaded());
        assert_eq!((guard.count(), guard.nanos(CALM)), (1, CALM - since));
        assert_eq!(guard.note(2 * CALM, 2, 2), Some((since, 2 * CALM)));
        assert!(!guard.is_loaded());
        assert_eq!(guard.note(3 * CALM, 2, 2), None);
        assert_eq!((guard.count(), guard.nanos(4 * CALM)), (1, 2 * CALM - since));
    }

    proptest::proptest! {
        /// Against all looks so far: it is load when those since a while ago all had too many, and
        /// until none of those of the last while had.
        #[test]
        fn agrees_with_all_looks_so_far(
            looks in proptest::collection::vec((0..CALM / 2, 0_usize..5), 1..100),
            most in 0_usize..4,
        ) {
            let (mut guard, mut now, mut all) = (LoadGuard::default(), 0, Vec::new());
            let mut loads = 0;
            for (passed, unresponsive) in looks {
                now += passed;
                all.push((now, unresponsive > most));
                let before = guard.is_loaded();
                let over = guard.note(now, unresponsive, most);
                let mut run = all.iter().rev().take_while(|(_, many)| *many);
                let lasting = run.any(|&(at, _)| now >= at + LASTING);
                let recent = all.iter().any(|&(at, many)| many && now < at + CALM);
                let loaded = lasting || before && recent;
                proptest::prop_assert_eq!(guard.is_loaded(), loaded);
                proptest::prop_assert_eq!(over.is_some(), before && !loaded);
                loads += u64::from(!before && loaded);
                proptest::prop_assert_eq!(guard.count(), loads);
            }
        }
    }
}
