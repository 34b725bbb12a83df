//! Which drives are slower than their peers for seconds: judged by periods of half a second, by
//! the medians of reads and of writes.
//!
//! ```text
//!   medians of a period ──> fence of its peers ──> slow | usual | unknown ──> record ──> verdict
//!                 more than `most` are far behind the quickest quarter: shared
//! ```
//!
//! The fence is Tukey's, with floors: beyond Q3 + 3·IQR of the peers, and several times their
//! median, and slower by more than noise. A drive is *slow* when it was beyond in most of the last
//! periods, or in a quarter of the last half minute's, so that neither a spike nor a burst of one
//! period makes it one. What only slows many drives at once is the host's or the load's.

/// One period (ns): some ten answers of a drive in light use, and long beside a spike.
pub const PERIOD: u64 = 500_000_000;

/// The fence lies so many interquartile ranges beyond the third quartile: Tukey's "far out".
pub const FENCE_RANGES: u64 = 3;
/// At least so many times the peers' median: below, a busier corner of the volume may be why.
pub const FENCE_TIMES: u64 = 3;
/// Peers that make quartiles. With fewer the fence is [`FEW_TIMES`] times the slowest peer's.
pub const PEERS_MIN: usize = 4;
/// A lone peer may be quick by chance; nobody is ten times slower by chance for seconds.
pub const FEW_TIMES: u64 = 10;
/// Fewer answers than these in a period: their median is chance, and only twice the fence's
/// multiple counts. A drive that is avoided has no more, those of probes.
pub const ANSWERS_MIN: u32 = 4;
pub const FEW_ANSWERS_TIMES: u64 = 2 * FENCE_TIMES;

/// A drive that was asked so many times more often than the middle of its peers, and
/// [`ASKED_MORE`] beside, queues for what it was asked: that is the load's (a hot block, a copy).
pub const ASKED_TIMES: u32 = 2;
pub const ASKED_MORE: u32 = 8;

/// Slow in so many of the last [`FEW`] known periods: five seconds of six. A neighbour on a shared
/// host keeps a drive for up to four seconds; an operator is to know within ten.
pub const SLOW_FEW: u32 = 10;
pub const FEW: u32 = 12;
/// … or in so many of the last [`MANY`]: a quarter of half a minute, for slowness that comes in
/// bursts.
pub const SLOW_MANY: u32 = 16;
pub const MANY: u32 = 64;
/// No longer slow: in no more than so many of the last [`QUIET`], eight seconds.
pub const SLOW_QUIET: u32 = 1;
pub const QUIET: u32 = 16;

/// One drive of so many may be slow at once: two of seven by their own doing. With more of them
/// the fence, a quartile, is theirs.
pub const DRIVES_PER_SLOW: usize = 3;

/// Answers of one kind in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    pub count: u32,
    /// Half of them took no longer (ns).
    pub median: u64,
}

/// A drive in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub reads: Option<Answers>,
    pub writes: Option<Answers>,
    /// It has answered nothing of what is under way for so long (ns).
    pub silent: u64,
    /// Drives of one class are each other's peers.
    pub class: u8,
    /// Slower than its peers by less than this (ns) is noise.
    pub noise: u64,
}

/// How much slower, and at what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    pub kind: Kind,
    pub own: u64,
    /// The peers' median.
    pub usual: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Reads,
    Writes,
    /// Nothing was answered in the whole period.
    Silence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It, or its peers, answered nothing, or it was asked for more than they were.
    Unknown,
    Usual,
    Slow(Excess),
}

/// Drives of so many that may be slow at once before it is the host's or the load's; `tolerated`:
/// losses that the volume with the least redundancy tolerates. One drive is never several.
pub fn most(drives: usize, tolerated: usize) -> usize {
    tolerated.max(drives / DRIVES_PER_SLOW).max(1)
}

/// What a period says of each drive, and whether more than `most` were behind at once: the fence
/// excuses these, and if it does not, no drive is called slow.
pub fn judge(drives: &[Seen], most: usize) -> (Vec<Finding>, bool) {
    let mut findings: Vec<Finding> = (0..drives.len()).map(|at| finding(drives, at)).collect();
    let is_slow = |finding: &&mut Finding| matches!(finding, Finding::Slow(_));
    let too_many = findings.iter_mut().filter(is_slow).count() > most;
    if too_many {
        findings.iter_mut().filter(is_slow).for_each(|finding| *finding = Finding::Unknown);
    }
    (findings, too_many || behind(drives) > most)
}

/// How many drives are several times slower than the quickest quarter of their class. The fence
/// can't tell: where a quarter of the drives are slow it is theirs.
fn behind(drives: &[Seen]) -> usize {
    const KINDS: [fn(&Seen) -> Option<Answers>; 2] = [|seen| seen.reads, |seen| seen.writes];
    let is_behind = |own: &&Seen| {
        KINDS.iter().any(|pick| {
            let of_class = drives.iter().filter(|seen| seen.class == own.class);
            let mut medians: Vec<u64> =
                of_class.filter_map(|seen| Some(pick(seen)?.median)).collect();
            if medians.len() <= PEERS_MIN {
                return false;
            }
            medians.sort_unstable();
            let quick = medians[medians.len().div_ceil(4) - 1];
            let fence = (FENCE_TIMES * quick).max(quick + own.noise);
            pick(own).is_some_and(|answers| answers.median > fence)
        })
    };
    drives.iter().filter(is_behind).count()
}

fn finding(drives: &[Seen], at: usize) -> Finding {
    let own = &drives[at];
    let is_peer = |&(other, seen): &(usize, &Seen)| other != at && seen.class == own.class;
    let peers: Vec<&Seen> =
        drives.iter().enumerate().filter(is_peer).map(|(_, seen)| seen).collect();
    if own.reads.is_none() && own.writes.is_none() {
        let answer = |peer: &&&Seen| peer.reads.is_some() || peer.writes.is_some();
        let answered = peers.iter().filter(answer).count();
        let silent = own.silent >= PERIOD && answered > 0 && answered >= peers.len() / 2;
        let excess = Excess { kind: Kind::Silence, own: own.silent, usual: 0 };
        return if silent { Finding::Slow(excess) } else { Finding::Unknown };
    }
    let of = |kind, pick: fn(&Seen) -> Option<Answers>| {
        let all: Vec<Answers> = peers.iter().filter_map(|seen| pick(seen)).collect();
        compare(kind, pick(own), &all, own.noise)
    };
    match (of(Kind::Reads, |seen| seen.reads), of(Kind::Writes, |seen| seen.writes)) {
        (slow @ Finding::Slow(_), _) | (_, slow @ Finding::Slow(_)) => slow,
        (Finding::Usual, _) | (_, Finding::Usual) => Finding::Usual,
        _ => Finding::Unknown,
    }
}

fn compare(kind: Kind, own: Option<Answers>, peers: &[Answers], noise: u64) -> Finding {
    let mut medians: Vec<u64> = peers.iter().map(|answers| answers.median).collect();
    let mut counts: Vec<u64> = peers.iter().map(|answers| u64::from(answers.count)).collect();
    let asked = crate::learn::median(&mut counts);
    let times = match own {
        Some(own) if own.count < ANSWERS_MIN => FEW_ANSWERS_TIMES,
        _ => FENCE_TIMES,
    };
    let fence = fence(&mut medians, times, noise);
    let (Some(own), Some(asked), Some((fence, usual))) = (own, asked, fence) else {
        return Finding::Unknown;
    };
    if own.median <= fence {
        return Finding::Usual;
    }
    if u64::from(own.count) > asked * u64::from(ASKED_TIMES) + u64::from(ASKED_MORE) {
        return Finding::Unknown;
    }
    Finding::Slow(Excess { kind, own: own.median, usual })
}

/// Beyond which (ns), and so many times the peers' median, a drive with such peers is slow; and
/// that median.
fn fence(peers: &mut [u64], times: u64, noise: u64) -> Option<(u64, u64)> {
    peers.sort_unstable();
    let slowest = *peers.last()?;
    let rank = |quarters: usize| peers[(peers.len() * quarters).div_ceil(4).max(1) - 1];
    let (lower, median, upper) = (rank(1), rank(2), rank(3));
    let fence = match peers.len() {
        PEERS_MIN.. => (upper + FENCE_RANGES * (upper - lower)).max(times * median),
        _ => FEW_TIMES * slowest,
    };
    Some((fence.max(median + noise), median))
}

/// The last known periods of a drive: 1 is slow, the newest is the lowest bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    bits: u64,
    slow: bool,
}

impl Record {
    /// A period more. Returns whether the verdict changed.
    pub fn note(&mut self, slow: bool) -> bool {
        self.bits = self.bits << 1 | u64::from(slow);
        let before = self.slow;
        if !before {
            self.slow = self.of(FEW) >= SLOW_FEW || self.of(MANY) >= SLOW_MANY;
        } else if self.of(QUIET) <= SLOW_QUIET {
            // What is older must not make it slow again.
            *self = Record::default();
        }
        self.slow != before
    }

    /// Slow ones of the last so many.
    pub fn of(&self, last: u32) -> u32 {
        (self.bits & (u64::MAX >> (u64::BITS - last))).count_ones()
    }

    pub fn is_slow(&self) -> bool {
        self.slow
    }
}

#[cfg(test)]
mod tests;
