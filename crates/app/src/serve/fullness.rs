//! Events of how full pools are: when a mark is passed, either way, and when writes were refused.

use std::collections::BTreeMap;

use engine::{EventKind, Severity};
use io::Nanos;

use crate::pools::Pool;
use crate::pools::trouble::say;
use crate::render::view::{Capacity, Fill};
use crate::size::Size;

/// Refusals of one pool are told of no more often: clients try again and again.
const REFUSALS_EVERY: Nanos = Nanos::from_secs(60);

/// What was last said of pools, by name.
#[derive(Default)]
pub(super) struct Told(BTreeMap<String, Last>);

#[derive(Clone, Copy, Default)]
struct Last {
    capacity: Capacity,
    refusals: u64,
    refused_at: Option<Nanos>,
}

impl Told {
    pub(super) fn look(&mut self, pools: &[Pool], now: Nanos) {
        self.0.retain(|name, _| pools.iter().any(|pool| pool.name() == *name));
        for pool in pools {
            let last = self.0.entry(pool.name()).or_default();
            for (event, text) in last.news(&pool.fill(), now) {
                say(pool, None, event, text);
            }
        }
    }
}

impl Last {
    fn news(&mut self, fill: &Fill, now: Nanos) -> Vec<((Severity, EventKind), String)> {
        // Of clients that are slowed the engine tells itself, with how much.
        let mark =
            |capacity| if capacity == Capacity::Slowed { Capacity::Enough } else { capacity };
        let capacity = mark(fill.capacity_after(self.capacity));
        let before = std::mem::replace(&mut self.capacity, capacity);
        let reason = fill.reason(capacity);
        let mut news = Vec::new();
        let is_due = self.refused_at.is_none_or(|at| now >= at + REFUSALS_EVERY);
        if fill.refusals > self.refusals && is_due {
            let more = fill.refusals - self.refusals;
            (self.refusals, self.refused_at) = (fill.refusals, Some(now));
            let left = Size(fill.available);
            let text = format!(
                "writes were refused for want of space (ENOSPC), times: {more}; {left} more can \
                 be written"
            );
            news.push(((Severity::Error, EventKind::SpaceRefused), text));
        }
        let said = match (capacity, reason) {
            (now, _) if now == before => None,
            // What was refused is told above.
            (Capacity::Refused, _) => None,
            (Capacity::VeryLow, Some(text)) => Some((Severity::Error, EventKind::SpaceLow, text)),
            (Capacity::Low, Some(text)) => Some((Severity::Warning, EventKind::SpaceLow, text)),
            (..) => {
                let percent = fill.percent();
                let text = format!("there is room again: {percent} % of the space is used");
                Some((Severity::Info, EventKind::SpaceEnough, text))
            }
        };
        news.extend(said.map(|(severity, kind, text)| ((severity, kind), text)));
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(last: &mut Last, used: u64, refusals: u64, secs: u64) -> Vec<&'static str> {
        let fill = Fill { used, available: 100 - used, refusals, slowed: false };
        let news = last.news(&fill, Nanos::from_secs(secs));
        news.iter().map(|((_, kind), _)| kind.name()).collect()
    }

    #[test]
    fn each_mark_is_told_once_and_refusals_once_a_minute() {
        let mut last = Last::default();
        assert!(kinds(&mut last, 89, 0, 0).is_empty());
        assert_eq!(kinds(&mut last, 90, 0, 2), ["space-low"]);
        assert!(kinds(&mut last, 89, 0, 4).is_empty());
        assert_eq!(kinds(&mut last, 95, 0, 6), ["space-low"]);
        assert_eq!(kinds(&mut last, 100, 3, 8), ["space-refused"]);
        assert!(kinds(&mut last, 100, 9, 10).is_empty());
        assert_eq!(kinds(&mut last, 100, 9, 68), ["space-refused"]);
        assert!(kinds(&mut last, 100, 9, 168).is_empty());
        assert_eq!(kinds(&mut last, 50, 9, 170), ["space-enough"]);
        // What was refused before is no news.
        assert_eq!(kinds(&mut last, 94, 9, 172), ["space-low"]);
    }

    /// With much room a write may be refused as well: the table of what lies where is full.
    #[test]
    fn a_refusal_is_told_however_much_is_left() {
        assert_eq!(kinds(&mut Last::default(), 10, 1, 0), ["space-refused"]);
    }
}
