//! How many messages of one kind are written. A kind that has much to say, as clients that
//! reconnect in a loop have, does not push the others out.

use std::collections::BTreeMap;

use io::Nanos;

use crate::serve::credit::Credit;
use crate::serve::limits::{LOG_AT_ONCE, LOG_KINDS_MAX, LOG_PER_SECOND};

/// What kinds share that are too many.
const OTHERS: &str = "others";

struct Kind {
    credit: Credit,
    /// Since the last one that was written.
    held_back: u64,
}

#[derive(Default)]
pub struct Pace {
    kinds: BTreeMap<String, Kind>,
    held_back: u64,
}

impl Pace {
    /// Whether a message may be written now: then, how many of its kind were not since the last.
    pub fn admit(&mut self, kind: &str, now: Nanos) -> Option<u64> {
        let is_room = self.kinds.len() < LOG_KINDS_MAX || self.kinds.contains_key(kind);
        let kind = if is_room { kind } else { OTHERS };
        if !self.kinds.contains_key(kind) {
            let credit = Credit::new(LOG_PER_SECOND, LOG_AT_ONCE, now);
            self.kinds.insert(kind.to_owned(), Kind { credit, held_back: 0 });
        }
        let kind = self.kinds.get_mut(kind)?;
        if kind.credit.take(now) {
            return Some(std::mem::take(&mut kind.held_back));
        }
        kind.held_back += 1;
        self.held_back += 1;
        None
    }

    /// All that were not written.
    pub fn held_back(&self) -> u64 {
        self.held_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_says_too_much_is_held_back_and_the_others_are_not() {
        let mut pace = Pace::default();
        let now = Nanos::from_secs(7);
        let written = (0..1000).filter(|_| pace.admit("clients", now).is_some()).count() as u64;
        assert_eq!(written, LOG_AT_ONCE);
        assert_eq!(pace.admit("drives", now), Some(0));
        assert_eq!(pace.held_back(), 1000 - LOG_AT_ONCE);
        assert_eq!(pace.admit("clients", now + Nanos::from_secs(1)), Some(1000 - LOG_AT_ONCE));
        assert_eq!(pace.admit("clients", now + Nanos::from_secs(1)), Some(0));
    }

    #[test]
    fn kinds_without_end_take_no_memory_without_end() {
        let mut pace = Pace::default();
        for number in 0..100_000 {
            pace.admit(&format!("kind {number}"), Nanos::ZERO);
        }
        assert!(pace.kinds.len() <= LOG_KINDS_MAX + 1);
        assert!(pace.held_back() > 90_000);
    }
}
