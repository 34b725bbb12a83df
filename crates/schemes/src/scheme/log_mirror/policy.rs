//! When to destage, and what first. Pure: facts in, a reason out.
//!
//! The paper has two conditions (§3.3): the array is idle; or it is not, but reads that need the
//! log drives intensify. Two more follow from its §3.5 and from a log that has an end: a log drive
//! is lost; the log fills.
//!
//! Idle is not the moment between two requests: then a stripe would be destaged with the first
//! piece of it that was logged, nothing would ever be merged, and the next request would find the
//! log drives' heads elsewhere.

use std::collections::VecDeque;

use io::Nanos;

/// Recent reads that are looked at, at most: they are counted one by one.
pub const WINDOW_MAX: usize = 1024;

/// Without requests for so long, the array is idle. The paper gives no figure; its prototype is a
/// module of Linux md, which looks for idleness every half second before it goes on with a resync.
pub const QUIET: Nanos = Nanos::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The log is emptied above this part of it, in percent, ...
    pub high: u64,
    /// ... down to this.
    pub low: u64,
    /// Reads intensify if at least this part of the recent ones needed the log drives, in percent.
    pub reads: u64,
    /// How many the recent ones are; no more than [`WINDOW_MAX`].
    pub window: usize,
    /// Idle is without requests for so long.
    pub quiet: Nanos,
}

impl Default for Policy {
    /// Room for bursts, and a log that is not emptied in the middle of one. The paper gives no
    /// figure for "intensify": half means that the log drives serve more reads than the array, and
    /// 64 reads tell a trend from a single scan of something just written.
    fn default() -> Policy {
        Policy { high: 75, low: 50, reads: 50, window: 64, quiet: QUIET }
    }
}

/// How things stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of the log between tail and end, and all of them.
    pub used: u64,
    pub capacity: u64,
    /// Something in the log is not in the array.
    pub live: bool,
    /// Requests of users under way.
    pub requests: u64,
    /// Since the last of them began or ended.
    pub quiet: Nanos,
    pub log_drive_lost: bool,
    pub data_drive_lost: bool,
    /// Of the recent reads: how many there were, and how many needed the log drives.
    pub reads: u64,
    pub log_reads: u64,
    /// It is being emptied because it was above `high`.
    pub emptying: bool,
}

/// Why to destage, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// What is in the log has one copy.
    LogDriveLost,
    Full,
    Reads,
    Idle,
}

/// Which stripe comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// That which is read from the log most.
    Hottest,
    /// That of which most is in the log: whole ones need no parity read, and of the others what is
    /// still to come may make whole ones.
    Fullest,
    /// That which holds the tail of the log: nothing else makes room.
    Oldest,
}

impl Why {
    pub fn first(self) -> First {
        match self {
            Why::Reads => First::Hottest,
            Why::Idle => First::Fullest,
            Why::LogDriveLost | Why::Full => First::Oldest,
        }
    }
}

impl Policy {
    pub fn why(&self, facts: &Facts) -> Option<Why> {
        if !facts.live {
            return None;
        }
        if facts.log_drive_lost {
            return Some(Why::LogDriveLost);
        }
        if self.is_full(facts) {
            return Some(Why::Full);
        }
        // The log stands in for the lost drive: what is destaged now is written the slow way.
        if facts.data_drive_lost {
            return None;
        }
        let enough = facts.reads >= self.window.min(WINDOW_MAX) as u64;
        if enough && facts.log_reads * 100 >= facts.reads * self.reads {
            return Some(Why::Reads);
        }
        (facts.requests == 0 && facts.quiet >= self.quiet).then_some(Why::Idle)
    }

    /// Above the high mark, and on until it is below the low one.
    pub fn is_full(&self, facts: &Facts) -> bool {
        let mark = if facts.emptying { self.low } else { self.high };
        facts.used * 100 > facts.capacity * mark
    }
}

/// The last reads: which stripe each took from the log, if it did.
#[derive(Debug)]
pub struct Reads {
    window: usize,
    recent: VecDeque<Option<u64>>,
}

impl Reads {
    pub fn new(policy: &Policy) -> Reads {
        Reads { window: policy.window.clamp(1, WINDOW_MAX), recent: VecDeque::new() }
    }

    pub fn note(&mut self, from_log: Option<u64>) {
        if self.recent.len() == self.window {
            self.recent.pop_front();
        }
        self.recent.push_back(from_log);
    }

    /// How many, and how many from the log.
    pub fn counts(&self) -> (u64, u64) {
        let log = self.recent.iter().flatten().count();
        (self.recent.len() as u64, log as u64)
    }

    /// The stripe that is read from the log most; of equals the one read last.
    pub fn hottest(&self) -> Option<u64> {
        let count = |stripe: u64| self.recent.iter().flatten().filter(|at| **at == stripe).count();
        let stripes =
            self.recent.iter().enumerate().filter_map(|(at, stripe)| Some((at, (*stripe)?)));
        stripes.max_by_key(|(at, stripe)| (count(*stripe), *at)).map(|(_, stripe)| stripe)
    }

    /// It is in the array now: its reads don't count any more.
    pub fn forget(&mut self, stripe: u64) {
        for read in &mut self.recent {
            *read = read.filter(|own| *own != stripe);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy { high: 75, low: 50, reads: 50, window: 64, quiet: QUIET };
    const BUSY: Facts = Facts {
        used: 40,
        capacity: 100,
        live: true,
        requests: 3,
        quiet: Nanos::ZERO,
        log_drive_lost: false,
        data_drive_lost: false,
        reads: 64,
        log_reads: 10,
        emptying: false,
    };

    /// §3.3, first condition.
    #[test]
    fn when_idle_and_not_before() {
        assert_eq!(POLICY.why(&BUSY), None);
        let idle = Facts { requests: 0, quiet: QUIET, ..BUSY };
        assert_eq!(POLICY.why(&idle), Some(Why::Idle));
        assert_eq!(POLICY.why(&Facts { live: false, ..idle }), None);
        // One that takes long is under way.
        assert_eq!(POLICY.why(&Facts { requests: 1, ..idle }), None);
    }

    /// LDM once destaged each piece as soon as it was logged, since no request was under way then:
    /// of 1110 stripes one was whole.
    #[test]
    fn the_moment_between_two_requests_is_not_idle() {
        let between = Facts { requests: 0, quiet: Nanos(QUIET.0 - 1), ..BUSY };
        assert_eq!(POLICY.why(&between), None);
        assert_eq!(POLICY.why(&Facts { used: 76, ..between }), Some(Why::Full));
        assert_eq!(POLICY.why(&Facts { log_reads: 32, ..between }), Some(Why::Reads));
        assert_eq!(POLICY.why(&Facts { log_drive_lost: true, ..between }), Some(Why::LogDriveLost));
    }

    #[test]
    fn while_there_is_room_the_fullest_stripe_goes_first() {
        let first = |why: Option<Why>| why.map(Why::first);
        let idle = Facts { requests: 0, quiet: QUIET, ..BUSY };
        assert_eq!(first(POLICY.why(&idle)), Some(First::Fullest));
        assert_eq!(first(POLICY.why(&Facts { used: 76, ..idle })), Some(First::Oldest));
        assert_eq!(first(POLICY.why(&Facts { log_drive_lost: true, ..idle })), Some(First::Oldest));
        assert_eq!(first(POLICY.why(&Facts { log_reads: 32, ..idle })), Some(First::Hottest));
    }

    /// §3.3, second condition.
    #[test]
    fn when_reads_of_the_log_intensify() {
        assert_eq!(POLICY.why(&Facts { log_reads: 31, ..BUSY }), None);
        assert_eq!(POLICY.why(&Facts { log_reads: 32, ..BUSY }), Some(Why::Reads));
        // A few reads are no trend.
        assert_eq!(POLICY.why(&Facts { reads: 20, log_reads: 20, ..BUSY }), None);
    }

    /// §3.5.
    #[test]
    fn while_a_data_drive_is_lost_only_a_full_log_is_destaged() {
        let lost = Facts { data_drive_lost: true, requests: 0, quiet: QUIET, ..BUSY };
        let lost = Facts { log_reads: 64, ..lost };
        assert_eq!(POLICY.why(&lost), None);
        assert_eq!(POLICY.why(&Facts { used: 76, ..lost }), Some(Why::Full));
        let both = Facts { log_drive_lost: true, ..lost };
        assert_eq!(POLICY.why(&both), Some(Why::LogDriveLost));
    }

    #[test]
    fn a_full_log_is_emptied_down_to_the_low_mark() {
        assert_eq!(POLICY.why(&Facts { used: 75, ..BUSY }), None);
        assert_eq!(POLICY.why(&Facts { used: 76, ..BUSY }), Some(Why::Full));
        assert_eq!(POLICY.why(&Facts { used: 51, emptying: true, ..BUSY }), Some(Why::Full));
        assert_eq!(POLICY.why(&Facts { used: 50, emptying: true, ..BUSY }), None);
    }

    #[test]
    fn the_most_read_stripe_goes_first() {
        let mut reads = Reads::new(&POLICY);
        assert_eq!(reads.hottest(), None);
        let some = [Some(4), None, Some(7), Some(4), Some(9), Some(7)];
        some.into_iter().for_each(|read| reads.note(read));
        assert_eq!((reads.counts(), reads.hottest()), ((6, 5), Some(7)));
        reads.forget(7);
        assert_eq!((reads.counts(), reads.hottest()), ((6, 3), Some(4)));
        (0..100).for_each(|_| reads.note(None));
        assert_eq!(reads.counts(), (64, 0));
    }
}
