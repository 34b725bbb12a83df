//! The ladder of a drive that is slow for longer than a spike: avoided, suspect, failed.
//!
//! ```text
//!        an operation is 0.1 s overdue,      5 s overdue, avoided    30 s overdue, and
//!        or slower than its peers            too often or too long   the pool can spare it
//!   Good ─────────────────────> Avoided ───────────────> Suspect ─────────────────> failed
//!    ^                            │ ^                      │
//!    └─ sat out, probes are quick ┘ └── nothing overdue ───┘
//! ```
//!
//! A drive that is gone round and answers every probe with an error is failed as well: nobody else
//! would find out that it is not there any more.
//!
//! Never more drives are gone round than the pool can do without, and none is failed that it
//! can't do without. What an operator decided stands above all of it.

/// An operation outstanding this long (ns): the drive is avoided. Longer than any spike measured
/// (FusionRAID §2.3: 5 to 30 ms), shorter than a client's patience.
pub const AVOID_AFTER: u64 = 100_000_000;
/// … suspect: no firmware pauses that long in normal work.
pub const SUSPECT_AFTER: u64 = 5_000_000_000;
/// … failed: the kernel's own time-out for a command (30 s), after which it resets the device.
pub const FAIL_AFTER: u64 = 30_000_000_000;
/// First time of sitting out; doubled at each relapse, up to the longest, halved for each such
/// time of good behaviour.
pub const SIT_OUT: u64 = 2_000_000_000;
pub const SIT_OUT_MAX: u64 = 600_000_000_000;
/// Quick probes in a row before a drive is used again.
pub const PROBES_GOOD: u32 = 20;
/// Probes in a row that were answered with an error before a drive is failed: of pages drawn at
/// random, so that it is the drive and not a place on it, and over a second.
pub const PROBES_FAILED: u32 = 20;
/// Relapses that make a drive suspect.
pub const RELAPSES_SUSPECT: u32 = 6;
/// Avoided for so long (ns) beyond its time of sitting out, a drive is suspect: it was asked more
/// than a thousand times, and was never quick for a second.
pub const SUSPECT_LASTING: u64 = 60_000_000_000;

/// Share of slow operations, in 1/1000, below which nobody is an outlier.
pub const SLOW_PERMILLE: u64 = 5;
/// So many times its peers' share makes an outlier.
pub const SLOW_TIMES: u64 = 4;
/// A drive that is used again is compared after so long (ns), when what its peers did before counts
/// half: the shares are of the same time then.
pub const OUTLIER_AFTER: u64 = 2_000_000_000;
/// Slow operations in so many different ticks: a single spike is the detector's business.
pub const SLOW_TICKS: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    Good,
    Avoided,
    Suspect,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An operation has been outstanding for too long.
    Overdue,
    /// More slow operations than its peers.
    Outlier,
    /// Slower than its peers for seconds (`slow`).
    Slow,
    Relapses,
    /// It has been avoided for long, and is as slow as it was.
    Lasting,
    /// What was overdue has come back.
    Answered,
    /// Sat out, and probes are quick again.
    Recovered,
    /// Probes are answered with errors only.
    Errors,
}

/// What is known of a drive.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Age (ns) of the oldest operation outstanding.
    pub oldest: u64,
    pub outlier: bool,
    pub slow: bool,
    /// Time (ns) since it was last put on a rung.
    pub since: u64,
    /// Time (ns) since it was last used like any other.
    pub avoided_for: u64,
    /// How long it has to sit out.
    pub sit_out: u64,
    pub good_probes: u32,
    /// In a row, until now.
    pub failed_probes: u32,
    pub relapses: u32,
    /// The pool can go round one drive more, and can do without one drive more.
    pub may_avoid: bool,
    pub may_fail: bool,
}

/// The next rung, if the drive moves.
pub fn step(rung: Rung, facts: &Facts) -> Option<(Rung, Reason)> {
    match rung {
        Rung::Good if !facts.may_avoid => None,
        Rung::Good if facts.oldest >= AVOID_AFTER => Some((Rung::Avoided, Reason::Overdue)),
        Rung::Good if facts.slow => Some((Rung::Avoided, Reason::Slow)),
        Rung::Good if facts.outlier && facts.since >= OUTLIER_AFTER => {
            Some((Rung::Avoided, Reason::Outlier))
        }
        Rung::Good => None,
        Rung::Avoided | Rung::Suspect if facts.failed_probes >= PROBES_FAILED && facts.may_fail => {
            Some((Rung::Failed, Reason::Errors))
        }
        Rung::Avoided if facts.oldest >= SUSPECT_AFTER => Some((Rung::Suspect, Reason::Overdue)),
        Rung::Avoided if facts.relapses >= RELAPSES_SUSPECT => {
            Some((Rung::Suspect, Reason::Relapses))
        }
        Rung::Avoided if recovered(facts) => Some((Rung::Good, Reason::Recovered)),
        Rung::Avoided => lasting(facts).then_some((Rung::Suspect, Reason::Lasting)),
        Rung::Suspect if facts.oldest >= FAIL_AFTER => {
            facts.may_fail.then_some((Rung::Failed, Reason::Overdue))
        }
        Rung::Suspect
            if facts.oldest < AVOID_AFTER
                && facts.relapses < RELAPSES_SUSPECT
                && !lasting(facts) =>
        {
            Some((Rung::Avoided, Reason::Answered))
        }
        Rung::Suspect => recovered(facts).then_some((Rung::Good, Reason::Recovered)),
        Rung::Failed => None,
    }
}

fn lasting(facts: &Facts) -> bool {
    facts.avoided_for >= facts.sit_out.saturating_add(SUSPECT_LASTING)
}

fn recovered(facts: &Facts) -> bool {
    let rested = facts.since >= facts.sit_out && facts.oldest < AVOID_AFTER;
    rested && facts.good_probes >= PROBES_GOOD
}

/// Is an operation that has waited for `own` (ns) a stall of the host rather than of the drive? It
/// is if the oldest operations of more than `most` drives, this one included, have waited half as
/// long. Not once the drive would be suspect: then each has to answer for itself.
pub fn is_stall_of_many(own: u64, others: impl Iterator<Item = u64>, most: usize) -> bool {
    let together = || others.filter(|&other| other >= own / 2).count() + 1;
    (AVOID_AFTER..SUSPECT_AFTER).contains(&own) && together() > most
}

/// Operations of a drive of late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub operations: u64,
    pub slow: u64,
    /// Ticks with a slow operation.
    pub slow_ticks: u32,
}

impl Tally {
    /// Slow operations in 1/1000 of all.
    pub fn share(&self) -> u64 {
        (self.slow * 1000).checked_div(self.operations).unwrap_or(0)
    }
}

/// Is the drive slower than its peers, for longer than a spike? `peers`: their shares.
pub fn is_outlier(own: &Tally, peers: &mut [u64]) -> bool {
    let usual = crate::learn::median(peers).unwrap_or(0);
    own.slow_ticks >= SLOW_TICKS && own.share() >= SLOW_PERMILLE.max(usual * SLOW_TIMES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Facts = Facts {
        oldest: 0,
        outlier: false,
        slow: false,
        since: 0,
        avoided_for: 0,
        sit_out: SIT_OUT,
        good_probes: 0,
        failed_probes: 0,
        relapses: 0,
        may_avoid: true,
        may_fail: true,
    };

    #[test]
    fn a_hang_climbs_the_ladder_to_its_end() {
        let overdue = |oldest| Facts { oldest, ..CALM };
        assert_eq!(step(Rung::Good, &overdue(AVOID_AFTER - 1)), None);
        let up = |rung, oldest| step(rung, &overdue(oldest)).map(|(rung, _)| rung);
        assert_eq!(up(Rung::Good, AVOID_AFTER), Some(Rung::Avoided));
        assert_eq!(up(Rung::Avoided, SUSPECT_AFTER - 1), None);
        assert_eq!(up(Rung::Avoided, SUSPECT_AFTER), Some(Rung::Suspect));
        assert_eq!(up(Rung::Suspect, FAIL_AFTER - 1), None);
        assert_eq!(up(Rung::Suspect, FAIL_AFTER), Some(Rung::Failed));
        assert_eq!(step(Rung::Failed, &CALM), None);
    }

    #[test]
    fn a_drive_that_stays_slow_is_avoided_then_suspect_and_never_failed_for_it() {
        let slow = Facts { slow: true, ..CALM };
        assert_eq!(step(Rung::Good, &slow), Some((Rung::Avoided, Reason::Slow)));
        let long = |avoided_for| Facts { avoided_for, since: avoided_for, ..slow };
        let lasting = SIT_OUT + SUSPECT_LASTING;
        assert_eq!(step(Rung::Avoided, &long(lasting - 1)), None);
        let suspect = Some((Rung::Suspect, Reason::Lasting));
        assert_eq!(step(Rung::Avoided, &long(lasting)), suspect);
        assert_eq!(step(Rung::Suspect, &long(100 * lasting)), None);
        let quick = Facts { good_probes: PROBES_GOOD, ..long(lasting) };
        assert_eq!(step(Rung::Suspect, &quick), Some((Rung::Good, Reason::Recovered)));
        assert_eq!(step(Rung::Avoided, &quick), Some((Rung::Good, Reason::Recovered)));
    }

    #[test]
    fn what_the_pool_needs_is_neither_avoided_nor_failed() {
        let needed = Facts { oldest: u64::MAX, may_avoid: false, may_fail: false, ..CALM };
        assert_eq!(step(Rung::Good, &needed), None);
        assert_eq!(step(Rung::Suspect, &needed), None);
    }

    #[test]
    fn an_outlier_is_avoided_unless_it_has_just_come_back() {
        let outlier = |since| Facts { outlier: true, since, ..CALM };
        assert_eq!(step(Rung::Good, &outlier(OUTLIER_AFTER - 1)), None);
        let avoided = Some((Rung::Avoided, Reason::Outlier));
        assert_eq!(step(Rung::Good, &outlier(OUTLIER_AFTER)), avoided);
    }

    /// All drives were files on one disk. Whenever that was busy the first drive of the pool was
    /// avoided, as the first that was looked at, and was suspect after three minutes.
    #[test]
    fn operations_that_wait_at_many_drives_wait_for_the_host() {
        let of = |own, others: &[u64], most| is_stall_of_many(own, others.iter().copied(), most);
        let late = AVOID_AFTER;
        assert!(of(late, &[0, late, late / 2], 1) && of(late, &[0, late / 2], 1));
        assert!(!of(late, &[0, 0, late / 2 - 1], 1), "nobody else waits");
        assert!(!of(late, &[late, 0, 0], 2), "as many as the pool can do without");
        assert!(!of(10 * late, &[late; 6], 1), "it waits for much longer than the others");
        assert!(!of(SUSPECT_AFTER, &[SUSPECT_AFTER; 6], 1), "long enough");
        assert!(!of(late - 1, &[late; 6], 1), "not overdue yet");
    }

    #[test]
    fn the_way_back_takes_rest_and_quick_probes() {
        let rested = Facts { since: SIT_OUT, good_probes: PROBES_GOOD, ..CALM };
        assert_eq!(step(Rung::Avoided, &rested), Some((Rung::Good, Reason::Recovered)));
        assert_eq!(step(Rung::Avoided, &Facts { since: SIT_OUT - 1, ..rested }), None);
        let slow = Facts { good_probes: PROBES_GOOD - 1, ..rested };
        assert_eq!(step(Rung::Avoided, &slow), None);
        assert_eq!(step(Rung::Avoided, &Facts { oldest: AVOID_AFTER, ..rested }), None);
        assert_eq!(step(Rung::Suspect, &CALM), Some((Rung::Avoided, Reason::Answered)));
    }

    #[test]
    fn errors_alone_fail_a_drive_that_is_gone_round() {
        let gone = Facts { failed_probes: PROBES_FAILED, ..CALM };
        let failed = Some((Rung::Failed, Reason::Errors));
        assert_eq!(step(Rung::Avoided, &gone), failed);
        assert_eq!(step(Rung::Suspect, &gone), failed);
        let one_less = Facts { failed_probes: PROBES_FAILED - 1, ..CALM };
        assert_eq!(step(Rung::Avoided, &one_less), None);
        assert_eq!(step(Rung::Avoided, &Facts { may_fail: false, ..gone }), None, "it is needed");
        assert_eq!(step(Rung::Good, &gone), None, "requests find out");
    }

    #[test]
    fn an_outlier_is_slow_again_and_again_and_more_than_its_peers() {
        let tally = Tally { operations: 1000, slow: 10, slow_ticks: 9 };
        assert!(is_outlier(&tally, &mut [0, 1, 2]));
        assert!(!is_outlier(&tally, &mut [3, 3, 3]), "they all collect garbage");
        assert!(!is_outlier(&Tally { slow_ticks: 2, slow: 300, ..tally }, &mut [0]), "one spike");
        assert!(!is_outlier(&Tally { operations: 10_000, ..tally }, &mut [0]), "too few");
    }
}
