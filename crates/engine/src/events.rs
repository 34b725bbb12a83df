//! What happened, for whoever asks: the last events. Those that are only told do not push out
//! those that somebody has to know of, nor warnings errors. Spikes are told of together; each by
//! itself is remembered apart, for those who ask for it.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use io::Nanos;
use io::sync::{Event, EventWait};
use members::events::Rings;

use crate::api::{EventKind, PoolEvent, Severity};
use crate::limits::{EVENTS_MAX, SPIKES_MAX, SPIKES_TOLD_EVERY};

struct State {
    told: Rings<PoolEvent>,
    /// Numbered by themselves.
    spikes: VecDeque<PoolEvent>,
    next_spike: u64,
    untold: SpikeSum,
}

/// Spikes that were not told of yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpikeSum {
    /// When the first of them ended.
    pub since: Nanos,
    /// Of each drive, how many and how long (ns) in all.
    pub drives: BTreeMap<u16, (u64, u64)>,
}

pub struct Events {
    state: RefCell<State>,
    arrived: Event,
}

impl Default for Events {
    fn default() -> Events {
        let (told, spikes) = (Rings::new(EVENTS_MAX), VecDeque::new());
        let state = State { told, spikes, next_spike: 1, untold: SpikeSum::default() };
        Events { state: RefCell::new(state), arrived: Event::new() }
    }
}

impl Events {
    pub fn push(
        &self,
        at: Nanos,
        (severity, kind): (Severity, EventKind),
        drive: Option<(u16, String)>,
        text: String,
    ) {
        let (drive, drive_name) = drive.unzip();
        let event = |sequence| PoolEvent { sequence, at, severity, kind, drive, drive_name, text };
        self.state.borrow_mut().told.push(severity, event);
        self.arrived.notify_all();
    }

    /// A drive was unresponsive from `begin` to `end` (ns).
    pub fn push_spike(&self, (drive, name): (u16, String), (begin, end): (u64, u64), text: String) {
        let mut state = self.state.borrow_mut();
        let (at, sequence) = (Nanos(end), state.next_spike);
        state.next_spike += 1;
        let event = PoolEvent {
            sequence,
            at,
            severity: Severity::Info,
            kind: EventKind::Spike,
            drive: Some(drive),
            drive_name: Some(name),
            text,
        };
        if state.spikes.len() == SPIKES_MAX {
            state.spikes.pop_front();
        }
        state.spikes.push_back(event);
        let untold = &mut state.untold;
        if untold.drives.is_empty() {
            untold.since = at;
        }
        let (count, nanos) = untold.drives.entry(drive).or_default();
        (*count, *nanos) = (*count + 1, *nanos + (end - begin));
        drop(state);
        self.arrived.notify_all();
    }

    /// The spikes to be told of, if it is time.
    pub fn take_spikes(&self, now: Nanos) -> Option<SpikeSum> {
        let untold = &mut self.state.borrow_mut().untold;
        let due = !untold.drives.is_empty() && now >= untold.since + SPIKES_TOLD_EVERY;
        due.then(|| std::mem::take(untold))
    }

    /// Events with a sequence above `after`, oldest first. Those that are not remembered any more
    /// are missing: the gap in the sequence tells.
    pub fn after(&self, after: u64) -> Vec<PoolEvent> {
        self.state.borrow().told.after(after)
    }

    /// The same of single spikes, which have numbers of their own.
    pub fn spikes_after(&self, after: u64) -> Vec<PoolEvent> {
        let spikes = &self.state.borrow().spikes;
        let first = spikes.partition_point(|event| event.sequence <= after);
        spikes.range(first..).cloned().collect()
    }

    /// Completes when the next event arrives, or a spike.
    pub fn wait(&self) -> EventWait {
        self.arrived.wait()
    }
}

#[cfg(test)]
mod tests {
    use members::limits::ALARMS_MAX;

    use super::*;

    fn push(events: &Events, severity: Severity, kind: EventKind) {
        events.push(io::Nanos(1), (severity, kind), None, String::new());
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
        assert_eq!(all.len(), EVENTS_MAX + ALARMS_MAX + 1);
        assert_eq!((all[0].sequence, all[0].severity), (3, Severity::Error));
        assert!(all.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
    }

    #[test]
    fn spikes_are_told_of_together_and_each_is_there_for_those_who_ask() {
        let events = Events::default();
        let second = Nanos::from_secs(1);
        for at in 1..=30 {
            let end = second.0 * at;
            let drive = (u16::from(at % 3 == 0), String::new());
            events.push_spike(drive, (end - at, end), String::new());
        }
        assert_eq!((events.after(0).len(), events.spikes_after(28).len()), (0, 2));
        assert_eq!(events.take_spikes(Nanos::from_secs(60)), None);
        let sum = events.take_spikes(Nanos::from_secs(61)).expect("a minute has passed");
        assert_eq!(sum.since, second);
        assert_eq!(sum.drives, [(0, (20, 300)), (1, (10, 165))].into());
        assert_eq!(events.take_spikes(Nanos::from_secs(6000)), None);
    }

    proptest::proptest! {
        /// Against a list of all: of each severity the newest are there, whatever else came.
        #[test]
        fn a_flood_of_one_severity_pushes_out_none_of_another(
            floods in proptest::collection::vec((0_usize..3, 1_usize..3000), 1..12),
            after in 0_u64..8000,
        ) {
            const SEVERITIES: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Error];
            let (events, mut all) = (Events::default(), Vec::new());
            for (severity, count) in floods {
                for _ in 0..count {
                    push(&events, SEVERITIES[severity], EventKind::Load);
                    all.push((all.len() as u64 + 1, SEVERITIES[severity]));
                }
            }
            let mut expected = Vec::new();
            let most = [EVENTS_MAX, ALARMS_MAX, ALARMS_MAX];
            for (severity, max) in SEVERITIES.into_iter().zip(most) {
                let own = all.iter().filter(|event| event.1 == severity).rev().take(max);
                expected.extend(own.filter(|event| event.0 > after));
            }
            expected.sort_unstable();
            let found: Vec<(u64, Severity)> =
                events.after(after).iter().map(|event| (event.sequence, event.severity)).collect();
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
