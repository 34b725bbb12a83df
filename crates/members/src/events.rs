//! The last events of a pool, by severity: a flood of infos pushes out no warning, and a flood of
//! warnings no error.

use std::collections::VecDeque;
use std::fmt;

use crate::limits::ALARMS_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Info,
    Warning,
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// Events with their sequence numbers, the oldest first.
type Ring<T> = VecDeque<(u64, T)>;

/// The last events of each severity, numbered together from 1 without gaps.
#[derive(Clone, Debug)]
pub struct Rings<T> {
    infos: Ring<T>,
    warnings: Ring<T>,
    errors: Ring<T>,
    infos_max: usize,
    next: u64,
}

impl<T: Clone> Rings<T> {
    /// Remembers so many infos, and [`ALARMS_MAX`] warnings and as many errors.
    pub fn new(infos_max: usize) -> Rings<T> {
        let (infos, warnings, errors) = (Ring::new(), Ring::new(), Ring::new());
        Rings { infos, warnings, errors, infos_max, next: 1 }
    }

    /// Adds the event that `make` makes of its sequence number.
    pub fn push(&mut self, severity: Severity, make: impl FnOnce(u64) -> T) {
        let sequence = self.next;
        self.next += 1;
        let (ring, max) = match severity {
            Severity::Info => (&mut self.infos, self.infos_max),
            Severity::Warning => (&mut self.warnings, ALARMS_MAX),
            Severity::Error => (&mut self.errors, ALARMS_MAX),
        };
        if ring.len() == max {
            ring.pop_front();
        }
        ring.push_back((sequence, make(sequence)));
    }

    /// Events with a sequence number above `after`, oldest first. The gaps in the sequence are
    /// events that are forgotten.
    pub fn after(&self, after: u64) -> Vec<T> {
        let newer = |ring: &Ring<T>| {
            let first = ring.partition_point(|&(sequence, _)| sequence <= after);
            ring.range(first..).cloned().collect::<Vec<_>>()
        };
        let all = [&self.infos, &self.warnings, &self.errors];
        let mut all: Vec<(u64, T)> = all.into_iter().flat_map(newer).collect();
        all.sort_by_key(|&(sequence, _)| sequence);
        all.into_iter().map(|(_, event)| event).collect()
    }
}
