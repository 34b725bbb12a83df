//! Drives that are slower than their peers for seconds (`policy::slow`), in pools of any scheme.
//!
//! ```text
//!   each operation          each period                          for people
//!   Answered::note ──> Answered::end_period ──> Peers::judge
//!                                                    └──> Verdict::note ──> Told ──> events
//!                                                            └── SlowDrive ──> status
//! ```

use std::fmt;

use io::{Nanos, Operation};
use policy::learn::{self, Learning};
use policy::recent::Recent;
use policy::slow::{self, Answers, Excess, Finding, Record, Seen};
use policy::throttle::Throttle;

pub use policy::slow::Kind as SlowKind;

use crate::events::Severity;
use crate::limits::{DRIVE_MOVES_HOURLY, DRIVE_WARNINGS_HOURLY, SHARED_SLOW_HOURLY};

/// Said once when many drives are slow together.
pub const SHARED: &str = "several drives are slower than the others at once, more than the pool \
                          can do without: that is taken for the host's or the load's doing, and \
                          none is avoided for it";
/// Said of a drive whose slowness is over.
pub const QUICK_AGAIN: &str = "is as quick as its peers again";

/// How long one drive's operations took of late.
#[derive(Clone, Default)]
pub struct Answered {
    pub reads: Recent,
    pub writes: Recent,
}

impl Answered {
    /// An operation took so long (ns). Flushes and discards are slow by nature and say nothing.
    pub fn note(&mut self, operation: Operation, took: u64) {
        match operation {
            Operation::Read => self.reads.record(took),
            Operation::Write => self.writes.record(took),
            Operation::Flush | Operation::Discard => {}
        }
    }

    /// What was answered since this was last asked. `silent`: for so long (ns) nothing of what is
    /// under way was.
    pub fn end_period(&mut self, silent: u64, learning: Learning) -> Seen {
        let answers = |(count, median)| Answers { count, median };
        Seen {
            reads: self.reads.take_median().map(answers),
            writes: self.writes.take_median().map(answers),
            silent,
            class: u8::from(learning == learn::HDD),
            noise: learning.least,
        }
    }
}

/// The drives of a pool, compared once a period.
#[derive(Clone, Debug)]
pub struct Peers {
    /// When the period ends (ns).
    ends: u64,
    /// Whether too many drives were slow at once in the last periods, and the telling of it.
    shared: Record,
    told: Throttle,
}

impl Peers {
    pub fn new(now: u64) -> Peers {
        Peers { ends: now + slow::PERIOD, shared: Record::default(), told: Throttle::default() }
    }

    /// Whether a period is over; the next one begins now.
    pub fn is_due(&mut self, now: u64) -> bool {
        let is_due = now >= self.ends;
        if is_due {
            self.ends = now + slow::PERIOD;
        }
        is_due
    }

    /// What the period says of each drive, and whether [`SHARED`] is to be told. `tolerated`:
    /// losses that the volume with the least redundancy tolerates.
    pub fn judge(&mut self, now: u64, seen: &[Seen], tolerated: usize) -> (Vec<Finding>, bool) {
        let (findings, too_many) = slow::judge(seen, slow::most(seen.len(), tolerated));
        let begins = self.shared.note(too_many) && self.shared.is_slow();
        (findings, begins && self.told.may_tell(now, SHARED_SLOW_HOURLY))
    }
}

/// A drive that does not count in a period: it is lost, copied, or an operator decided about it.
pub fn uncounted(seen: Seen) -> Seen {
    Seen { reads: None, writes: None, silent: 0, ..seen }
}

/// Whether one drive is slow, from its last periods.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    record: Record,
    /// How slow it was in the last slow period.
    excess: Option<Excess>,
    since: u64,
}

impl Verdict {
    /// A period more. Returns whether the drive is slow from now on, or is not any more.
    pub fn note(&mut self, now: u64, finding: Finding) -> bool {
        let excess = match finding {
            Finding::Unknown => return false,
            Finding::Usual => None,
            Finding::Slow(excess) => Some(excess),
        };
        self.excess = excess.or(self.excess);
        let changed = self.record.note(excess.is_some());
        if changed {
            self.since = now;
        }
        changed
    }

    pub fn is_slow(&self) -> bool {
        self.record.is_slow()
    }

    /// How slow it is, if it is.
    pub fn slow_drive(&self, now: u64, bypassed: bool) -> Option<SlowDrive> {
        let excess = self.excess.filter(|_| self.is_slow())?;
        Some(SlowDrive {
            what: excess.kind,
            own_nanos: excess.own,
            peers_nanos: excess.usual,
            lasting: Nanos(now.saturating_sub(self.since)),
            bypassed,
        })
    }
}

/// How a drive is slower than its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowDrive {
    pub what: SlowKind,
    /// The median of half a second (ns), or for how long it has answered nothing.
    pub own_nanos: u64,
    /// The median of its peers' medians.
    pub peers_nanos: u64,
    /// For how long it has been called slow.
    pub lasting: Nanos,
    /// Requests bypass it if they can.
    pub bypassed: bool,
}

impl fmt::Display for SlowDrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (own, peers) = (Nanos(self.own_nanos), Nanos(self.peers_nanos));
        match self.what {
            SlowKind::Reads => write!(f, "its reads take {own}, those of its peers {peers}"),
            SlowKind::Writes => write!(f, "its writes take {own}, those of its peers {peers}"),
            SlowKind::Silence => write!(f, "it has answered nothing for {own}, and its peers have"),
        }
    }
}

/// How often one drive's latency was told of, so that its events stay few.
#[derive(Clone, Debug, Default)]
pub struct Told {
    warnings: Throttle,
    moves: Throttle,
}

impl Told {
    /// May an event of this severity be told now? If not it is counted for [`Told::sum_up`].
    pub fn may_tell(&mut self, now: u64, severity: Severity) -> bool {
        match severity {
            Severity::Info => self.moves.may_tell(now, DRIVE_MOVES_HOURLY),
            Severity::Warning => self.warnings.may_tell(now, DRIVE_WARNINGS_HOURLY),
            Severity::Error => true,
        }
    }

    /// What was not told: texts that may be told now, to follow the drive's name.
    pub fn sum_up(&mut self, now: u64, health: &str) -> Vec<(Severity, String)> {
        let moves = self.moves.sum_up(now, DRIVE_MOVES_HOURLY);
        let warnings = self.warnings.sum_up(now, DRIVE_WARNINGS_HOURLY);
        let text = |(severity, held): (Severity, Option<u64>)| {
            let text = format!(
                "is {health}; {} more events of this kind within the hour were not told one by one",
                held?
            );
            Some((severity, text))
        };
        let held = [(Severity::Info, moves), (Severity::Warning, warnings)];
        held.into_iter().filter_map(text).collect()
    }
}
