//! What happened, for whoever asks: a ring of the last events.

use std::cell::RefCell;
use std::collections::VecDeque;

use io::sync::{Event, EventWait};

use crate::api::{EventKind, PoolEvent, Severity};
use crate::limits::EVENTS_MAX;

#[derive(Default)]
struct Ring {
    events: VecDeque<PoolEvent>,
    next: u64,
}

pub struct Events {
    ring: RefCell<Ring>,
    arrived: Event,
}

impl Default for Events {
    fn default() -> Events {
        let ring = Ring { events: VecDeque::new(), next: 1 };
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
        if ring.events.len() == EVENTS_MAX {
            ring.events.pop_front();
        }
        ring.events.push_back(PoolEvent { sequence, at, severity, kind, drive, text });
        drop(ring);
        self.arrived.notify_all();
    }

    /// Events with a sequence above `after`, oldest first. Those that fell out of the ring are
    /// missing: the gap in the sequence tells.
    pub fn after(&self, after: u64) -> Vec<PoolEvent> {
        let ring = self.ring.borrow();
        let first = ring.events.partition_point(|event| event.sequence <= after);
        ring.events.range(first..).cloned().collect()
    }

    /// Completes when the next event arrives.
    pub fn wait(&self) -> EventWait {
        self.arrived.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_newest_and_numbers_without_gaps() {
        let events = Events::default();
        for _ in 0..EVENTS_MAX + 3 {
            let text = String::new();
            events.push(io::Nanos(1), Severity::Info, EventKind::Spike, Some(0), text);
        }
        let all = events.after(0);
        assert_eq!((all.len(), all[0].sequence), (EVENTS_MAX, 4));
        assert!(all.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence));
        assert_eq!(events.after(EVENTS_MAX as u64 + 1).len(), 2);
    }
}
