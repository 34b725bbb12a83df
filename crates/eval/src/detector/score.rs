//! How right a detector was.

use io::Nanos;
use sim::drive::probe::Period;

use super::replay::Verdict;
use super::trace::DriveTrace;

/// Sums over drives; ratios are methods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// Time watched, and of it unresponsive, and of that in spikes (nanoseconds).
    pub length: u64,
    pub unresponsive: u64,
    pub right: u64,
    /// Times a drive became unresponsive, and those that touch no spike.
    pub detections: u64,
    pub false_alarms: u64,
    /// Spikes of any cause, and those with garbage collection; found is what a detection touches.
    pub spikes: u64,
    pub spikes_found: u64,
    pub gc_spikes: u64,
    pub gc_spikes_found: u64,
    /// Spikes with more than one slow request.
    pub shared: u64,
    pub shared_found: u64,
    /// Requests; those dispatched to an unresponsive drive; slow ones; slow ones among the former.
    pub requests: u64,
    pub round: u64,
    pub slow: u64,
    pub slow_round: u64,
    /// Of each spike found, from its first slow request's dispatch to its detection; sorted.
    pub reactions: Vec<u64>,
    /// t, summed over drives.
    pub thresholds: u64,
    pub drives: u64,
}

impl Score {
    pub fn of(drives: &[DriveTrace], verdicts: &[Verdict]) -> Score {
        let mut score = Score::default();
        for (trace, verdict) in drives.iter().zip(verdicts) {
            score.add_drive(trace, verdict);
        }
        score.reactions.sort_unstable();
        score
    }

    fn add_drive(&mut self, trace: &DriveTrace, verdict: &Verdict) {
        let detections = &verdict.unresponsive;
        self.length += trace.length.0;
        self.drives += 1;
        self.thresholds += verdict.threshold.0;
        self.detections += detections.len() as u64;
        for detection in detections {
            let inside: u64 = overlapping(&trace.spikes, detection, |spike| spike.period)
                .map(|spike| common(&spike.period, detection))
                .sum();
            self.unresponsive += detection.length().0;
            self.right += inside;
            self.false_alarms += u64::from(inside == 0);
        }
        for (spike, &victims) in trace.spikes.iter().zip(&trace.victims) {
            let shared = u64::from(victims > 1);
            let found = overlapping(detections, &spike.period, |&period| period).next();
            self.spikes += 1;
            self.gc_spikes += u64::from(spike.collecting);
            self.shared += shared;
            let Some(found) = found else { continue };
            self.spikes_found += 1;
            self.gc_spikes_found += u64::from(spike.collecting);
            self.shared_found += shared;
            self.reactions.push(found.begin.saturating_sub(spike.period.begin).0);
        }
        self.requests += trace.requests.len() as u64;
        for (request, &round) in trace.requests.iter().zip(&verdict.round) {
            self.round += u64::from(round);
            self.slow += u64::from(request.slow);
            self.slow_round += u64::from(round && request.slow);
        }
    }

    /// Both together.
    pub fn add(&mut self, other: &Score) {
        self.length += other.length;
        self.unresponsive += other.unresponsive;
        self.right += other.right;
        self.detections += other.detections;
        self.false_alarms += other.false_alarms;
        self.spikes += other.spikes;
        self.spikes_found += other.spikes_found;
        self.gc_spikes += other.gc_spikes;
        self.gc_spikes_found += other.gc_spikes_found;
        self.shared += other.shared;
        self.shared_found += other.shared_found;
        self.requests += other.requests;
        self.round += other.round;
        self.slow += other.slow;
        self.slow_round += other.slow_round;
        self.thresholds += other.thresholds;
        self.drives += other.drives;
        self.reactions.extend(&other.reactions);
        self.reactions.sort_unstable();
    }

    /// Of the unresponsive time, what lies in spikes.
    pub fn time_precision(&self) -> f64 {
        share(self.right, self.unresponsive)
    }

    /// Of the detections, those that touch a spike.
    pub fn precision(&self) -> f64 {
        share(self.detections - self.false_alarms, self.detections)
    }

    /// Of the requests that would have gone round, those that were slow.
    pub fn request_precision(&self) -> f64 {
        share(self.slow_round, self.round)
    }

    pub fn recall(&self) -> f64 {
        share(self.spikes_found, self.spikes)
    }

    pub fn gc_recall(&self) -> f64 {
        share(self.gc_spikes_found, self.gc_spikes)
    }

    /// Of the spikes that more than one request suffered from; the others nobody can react to.
    pub fn shared_recall(&self) -> f64 {
        share(self.shared_found, self.shared)
    }

    /// Of the slow requests, those that would have gone round.
    pub fn request_recall(&self) -> f64 {
        share(self.slow_round, self.slow)
    }

    /// The most a reactive detector could reach: each spike costs its first request.
    pub fn request_recall_bound(&self) -> f64 {
        share(self.slow.saturating_sub(self.spikes), self.slow)
    }

    pub fn false_alarms_per_minute(&self) -> f64 {
        self.false_alarms as f64 * 60e9 / self.length.max(1) as f64
    }

    pub fn unresponsive_share(&self) -> f64 {
        self.unresponsive as f64 / self.length.max(1) as f64
    }

    pub fn round_share(&self) -> f64 {
        self.round as f64 / self.requests.max(1) as f64
    }

    pub fn mean_reaction(&self) -> Option<Nanos> {
        let count = self.reactions.len() as u64;
        self.reactions.iter().sum::<u64>().checked_div(count).map(Nanos)
    }

    /// The smallest reaction time that so many of a hundred don't exceed.
    pub fn reaction(&self, percent: usize) -> Option<Nanos> {
        let rank = (self.reactions.len() * percent).div_ceil(100);
        self.reactions.get(rank.checked_sub(1)?).copied().map(Nanos)
    }

    /// t, the average over drives and time.
    pub fn threshold(&self) -> Nanos {
        Nanos(self.thresholds / self.drives.max(1))
    }
}

/// Of nothing, all.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

fn common(a: &Period, b: &Period) -> u64 {
    a.end.min(b.end).saturating_sub(a.begin.max(b.begin)).0
}

/// Those that overlap `with`; `sorted` are in time and don't overlap each other.
fn overlapping<'a, T>(
    sorted: &'a [T],
    with: &'a Period,
    period: impl Fn(&T) -> Period + Copy + 'a,
) -> impl Iterator<Item = &'a T> {
    let first = sorted.partition_point(|one| period(one).end <= with.begin);
    sorted[first..].iter().take_while(move |one| period(one).overlaps(with))
}
