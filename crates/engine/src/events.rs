//! What happened, for whoever asks: the last events. Those that are only told, spikes above all, do
//! not push out those that somebody has to know of.

use std::cell::RefCell;
use std::collections::VecDeque;

use io::sync::{Event, EventWait};

use crate::api::{EventKind, PoolEvent, Severity};
use crate::limits::{ALARMS_MAX, EVENTS_MAX};

#[derive(Default)]
struct Ring {
    told: VecDeque<PoolEvent>,
    /// Warnings and errors.
    alarms: VecDeque<PoolEvent>,
    next: u64,
}

pub struct Events {
    ring: RefCell<Ring>,
    arrived: Event,
}

impl Default for Events {
    fn default() -> Events {
        let ring = Ring { next: 1, ..Ring::default() };
        Events { ring: RefCell::new(ring), arrived: Event::new() }
    }
}

impl Events {
    pub fn push(
        &self,
        at: io::Nanos,
        severity: Severity,
        kind: EventKind,
        drive: Option<u16>,
        text: String,
    ) {
        let mut ring = self.ring.borrow_mut();
        let sequence = ring.next;
        ring.next += 1;
        let (events, max) = match severity {
            Severity::Info => (&mut ring.told, EVENTS_MAX),
            Severity::Warning | Severity::Error => (&mut ring.alarms, ALARMS_MAX),
        };
        if events.len() == max {
            events.pop_front();
        }
        events.push_back(PoolEvent { sequence, at, severity, kind, drive, text });
        drop(ring);
        self.arrived.notify_all();
    }

    /// Events with a sequence above `after`, oldest first. Those that are not remembered any more
    /// are missing: the gap in the sequence tells.
    pub fn after(&self, after: u64) -> Vec<PoolEvent> {
        let ring = self.ring.borrow();
        let newer = |events: &VecDeque<PoolEvent>| {
            let first = events.partition_point(|event| event.sequence <= after);
            events.range(first..).cloned().collect::<Vec<_>>()
        };
        let mut all = newer(&ring.told);
        all.extend(newer(&ring.alarms));
        all.sort_by_key(|event| event.sequence);
        all
    }

    /// Completes when the next event arrives.
    pub fn wait(&self) -> EventWait {
        self.arrived.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(events: &Events, severity: Severity, kind: EventKind) {
        events.push(io::Nanos(1), severity, kind, Some(0), String::new());
    }

    #[test]
    fn the_newest_are_kept_and_numbered_without_gaps() {
        let events = Events::default();
        for _ in 0..EVENTS_MAX + 3 {
            push(&events, Severity::Info, EventKind::Spike);
        }
        let all = events.after(0);
        assert_eq!((all.len(), all[0].sequence), (EVENTS_MAX, 4));
        assert!(all.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence));
        assert_eq!(events.after(EVENTS_MAX as u64 + 1).len(), 2);
    }

    #[test]
    fn spikes_do_not_push_out_what_has_to_be_known() {
        let events = Events::default();
        push(&events, Severity::Warning, EventKind::PagesHealed);
        push(&events, Severity::Info, EventKind::Spike);
        push(&events, Severity::Error, EventKind::PageLost);
        for _ in 0..2 * EVENTS_MAX {
            push(&events, Severity::Info, EventKind::Spike);
        }
        let first = events.after(0)[..3].iter().map(|event| event.sequence).collect::<Vec<_>>();
        assert_eq!(first, [1, 3, EVENTS_MAX as u64 + 4]);
        for _ in 0..ALARMS_MAX + 1 {
            push(&events, Severity::Warning, EventKind::PagesHealed);
        }
        let all = events.after(0);
        assert_eq!(all.len(), EVENTS_MAX + ALARMS_MAX);
        assert!(all.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
    }
}
