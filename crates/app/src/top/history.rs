//! What pools said, and what follows from one answer to the next.

use std::collections::{BTreeMap, VecDeque};

use super::interval::Interval;
use crate::render::view::{Event, OperationLatencies, Pool};

/// Intervals kept: as many as a wide terminal has columns.
pub const KEPT_MAX: usize = 200;
/// Events kept of a pool: as many as a high terminal has lines.
pub const EVENTS_MAX: usize = 100;

/// One drive or volume, the newest interval last.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub intervals: VecDeque<Interval>,
}

impl Line {
    fn push(&mut self, interval: Interval) {
        if self.intervals.len() == KEPT_MAX {
            self.intervals.pop_front();
        }
        self.intervals.push_back(interval);
    }

    pub fn newest(&self) -> Interval {
        self.intervals.back().cloned().unwrap_or_default()
    }
}

/// A pool's lines, in the order of its view.
#[derive(Clone, Debug)]
pub struct Kept {
    pub view: Pool,
    pub drives: Vec<Line>,
    pub volumes: Vec<Line>,
    /// Requests sent round slow drives since the look before.
    pub around: u64,
    /// The newest last.
    pub events: VecDeque<Event>,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pools: Vec<Kept>,
    /// Number of the last event of each pool, by its name.
    seen: BTreeMap<String, u64>,
}

impl History {
    pub fn pools(&self) -> &[Kept] {
        &self.pools
    }

    pub fn seen(&self) -> &BTreeMap<String, u64> {
        &self.seen
    }

    /// What pools are, and what happened since [`History::seen`].
    pub fn take(&mut self, views: Vec<Pool>, events: Vec<Event>) {
        let mut before = std::mem::take(&mut self.pools);
        for view in views {
            let own = before.iter().position(|kept| kept.view.uuid == view.uuid);
            let own = own.map(|at| before.swap_remove(at));
            self.pools.push(follow(own, view));
        }
        for event in events {
            self.remember(event);
        }
    }

    fn remember(&mut self, event: Event) {
        self.seen.insert(event.pool.clone(), event.sequence);
        let Some(kept) = self.pools.iter_mut().find(|kept| kept.view.name == event.pool) else {
            return;
        };
        kept.events.push_back(event);
        if kept.events.len() > EVENTS_MAX {
            make_room(&mut kept.events);
        }
    }
}

/// The oldest goes. While more than half are only told, it is one of those: spikes do not push out
/// what has to be known.
fn make_room(events: &mut VecDeque<Event>) {
    let is_told = |event: &Event| event.severity == "info";
    let many = events.iter().filter(|event| is_told(event)).count() > EVENTS_MAX / 2;
    let oldest = if many { events.iter().position(is_told).unwrap_or(0) } else { 0 };
    events.remove(oldest);
}

fn follow(before: Option<Kept>, view: Pool) -> Kept {
    let Some(before) = before else {
        let (drives, volumes) = (view.drives.len(), view.volumes.len());
        let lines = |count| vec![Line::default(); count];
        let (drives, volumes) = (lines(drives), lines(volumes));
        return Kept { drives, volumes, around: 0, events: VecDeque::new(), view };
    };
    let drives = view.drives.iter().map(|drive| {
        let at = before.view.drives.iter().position(|own| own.uuid == drive.uuid);
        at.map_or_else(Line::default, |at| {
            let mut line = before.drives[at].clone();
            line.push(between(&before.view.drives[at].latency, &drive.latency));
            line
        })
    });
    let volumes = view.volumes.iter().map(|volume| {
        let at = before.view.volumes.iter().position(|own| own.name == volume.name);
        at.map_or_else(Line::default, |at| {
            let mut line = before.volumes[at].clone();
            line.push(between(&before.view.volumes[at].latency, &volume.latency));
            line
        })
    });
    let (drives, volumes) = (drives.collect(), volumes.collect());
    let around = sent_round(&view).saturating_sub(sent_round(&before.view));
    Kept { drives, volumes, around, events: before.events, view }
}

fn between(before: &OperationLatencies, now: &OperationLatencies) -> Interval {
    let mut interval = Interval::default();
    interval.add(&before.reads.buckets, &now.reads.buckets);
    interval.add(&before.writes.buckets, &now.writes.buckets);
    interval
}

fn sent_round(pool: &Pool) -> u64 {
    let own = &pool.counters;
    own.redirected_reads + own.redirected_writes + own.hedged_reads + own.hedged_writes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_gives_up_its_oldest_spikes_first() {
        let event = |(sequence, severity): (u64, &str)| Event {
            pool: "tank".to_owned(),
            sequence,
            time: String::new(),
            unix_micros: 0,
            severity: severity.to_owned(),
            kind: String::new(),
            drive: None,
            drive_name: None,
            text: String::new(),
        };
        let mut events: VecDeque<Event> = [(1, "warning"), (2, "info"), (3, "error"), (4, "info")]
            .into_iter()
            .chain((5..=EVENTS_MAX as u64).map(|at| (at, "info")))
            .map(event)
            .collect();
        let gone = |events: &mut VecDeque<Event>| {
            let before = events.clone();
            make_room(events);
            before.into_iter().find(|own| !events.contains(own)).map(|own| own.sequence)
        };
        assert_eq!((gone(&mut events), gone(&mut events)), (Some(2), Some(4)));
        // Until there are as many of those that have to be known.
        events.iter_mut().rev().take(EVENTS_MAX / 2).for_each(|own| own.severity = "error".into());
        assert_eq!((gone(&mut events), gone(&mut events)), (Some(1), Some(3)));
    }
}
