//! What is known of one drive.

use io::latency::OperationHistograms;
use io::{Nanos, Operation};
use members::slow::{Answered, Told, Verdict};
use policy::health::Tally;
use policy::hedge;
use policy::learn::{self, Learning, SAMPLES_MIN};
use policy::recent::Recent;
use policy::slow::Seen;
use policy::spike::{Slot, SpikeConfig, SpikeDetector, Spikes};

use super::outstanding::Outstanding;
use crate::api::SpikeStatus;
use crate::api::Threshold;
use crate::api::{DriveHealth, DriveOverride, OperationLatencies, SlowDrive, SpikeHandling};
use crate::limits::SPIKES_UNTOLD_MAX;

/// An operation that is being watched.
pub struct Ticket {
    /// Of the spike detector, if it counts: drives flush for as long as they like and answer reads
    /// promptly beside it.
    slot: Option<Slot>,
    key: usize,
}

pub struct Watch {
    detector: SpikeDetector,
    pub learning: Learning,
    learned: bool,
    /// Slower than this (ns) is slow, whatever t is: a multiple of what is usual for drives here.
    slow_from: u64,
    outstanding: Outstanding,
    /// When it answered last.
    answered: u64,
    recent: Answered,
    /// Reads and writes together, for t.
    both: Recent,
    histograms: OperationHistograms,
    spikes: Spikes,
    /// Begin and end of spikes that nobody has been told of.
    untold: Vec<(u64, u64)>,
    pub tally: Tally,
    slow_in_tick: bool,
    pub health: DriveHealth,
    pub decided: DriveOverride,
    pub ladder: Ladder,
    /// Whether it is slower than its peers for seconds.
    pub verdict: Verdict,
    pub told: Told,
}

/// Where the drive is on its way up and down the ladder (`policy::health`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Ladder {
    /// When it was put on its rung.
    pub since: u64,
    /// When it was last used like any other.
    pub left_good: u64,
    pub sit_out: u64,
    pub relapses: u32,
    pub good_probes: u32,
    pub failed_probes: u32,
    pub probing: bool,
    pub next_probe: u64,
}

impl Watch {
    pub fn new(handling: &SpikeHandling, rotational: bool, now: u64) -> Watch {
        let learning = if rotational { learn::HDD } else { learn::SSD };
        let (window, learned) = match handling.threshold {
            Threshold::Fixed(t) => (t.0, false),
            Threshold::Learned => (learning.initial, true),
        };
        let config = SpikeConfig {
            window,
            slots: handling.slots,
            enter: handling.enter,
            leave: handling.leave,
        };
        Watch {
            detector: SpikeDetector::new(config, now),
            slow_from: learning.initial,
            learning,
            learned,
            outstanding: Outstanding::default(),
            answered: now,
            recent: Answered::default(),
            both: Recent::default(),
            histograms: OperationHistograms::default(),
            spikes: Spikes::default(),
            untold: Vec::new(),
            tally: Tally::default(),
            slow_in_tick: false,
            health: DriveHealth::default(),
            decided: DriveOverride::default(),
            ladder: Ladder::default(),
            verdict: Verdict::default(),
            told: Told::default(),
        }
    }

    pub fn begin(&mut self, now: u64, operation: Operation) -> Ticket {
        let counts = matches!(operation, Operation::Read | Operation::Write);
        let slot = counts.then(|| self.detector.dispatch(now));
        self.note_spike(now);
        Ticket { slot, key: self.outstanding.push(now) }
    }

    pub fn end(&mut self, now: u64, ticket: Ticket, operation: Operation) {
        let took = now.saturating_sub(self.outstanding.remove(ticket.key));
        self.answered = now;
        if let Some(slot) = ticket.slot {
            self.detector.complete(now, slot);
        }
        self.note_spike(now);
        self.histograms.record(operation, Nanos(took));
        if !matches!(operation, Operation::Read | Operation::Write) {
            return;
        }
        self.recent.note(operation, took);
        self.both.record(took);
        self.tally.operations += 1;
        if took > self.slow_from {
            self.tally.slow += 1;
            self.slow_in_tick = true;
        }
    }

    pub fn is_unresponsive(&mut self, now: u64) -> bool {
        self.detector.advance(now);
        self.note_spike(now);
        self.detector.is_unresponsive()
    }

    fn note_spike(&mut self, now: u64) {
        let over = self.spikes.note(self.detector.is_unresponsive(), now);
        // Answers that waited for us are taken in several goes, which is no spike worth telling.
        let told = |(begin, end): &(u64, u64)| end - begin >= self.detector.config().slot();
        if let Some(spike) = over.filter(told)
            && self.untold.len() < SPIKES_UNTOLD_MAX
        {
            self.untold.push(spike);
        }
    }

    pub fn stragglers(&self) -> u32 {
        self.detector.stragglers()
    }

    /// Gone round for longer than a spike, by its own doing or an operator's.
    pub fn sits_out(&self) -> bool {
        match self.decided {
            DriveOverride::SitOut => true,
            DriveOverride::Trusted => false,
            DriveOverride::Automatic => self.health != DriveHealth::Good,
        }
    }

    /// When the oldest operation outstanding began.
    pub fn oldest(&self) -> Option<u64> {
        self.outstanding.oldest()
    }

    /// For so long (ns) it has answered nothing of what is outstanding.
    pub fn silent_for(&self, now: u64) -> u64 {
        self.oldest().map_or(0, |oldest| now.saturating_sub(oldest.max(self.answered)))
    }

    /// Forgets how long reads took, for the patience of those to come, and for what is usual.
    pub fn forget_reads(&mut self) {
        self.recent.reads = Recent::default();
        self.both = Recent::default();
        self.tally = Tally::default();
        self.slow_in_tick = false;
    }

    /// What most reads and writes keep within (`policy::hedge`), what is usual for both
    /// (`learn::USUAL_PERMILLE`), and half of the reads, of those there are enough of.
    pub fn quantiles(&self) -> [Option<u64>; 4] {
        let enough = |recent: &Recent, permille| {
            (recent.count() >= SAMPLES_MIN).then(|| recent.quantile(permille))
        };
        let usual = enough(&self.both, learn::USUAL_PERMILLE);
        let reads = enough(&self.recent.reads, hedge::READS_PERMILLE);
        let half = enough(&self.recent.reads, 500);
        [reads, enough(&self.recent.writes, hedge::WRITES_PERMILLE), usual, half]
    }

    /// From when on an answer of a drive like this one is slow; t as well, if t is learned.
    pub fn set_slow_from(&mut self, now: u64, slow_from: u64) {
        self.slow_from = slow_from;
        let (window, t) =
            (self.detector.config().window, learn::threshold(self.learning, slow_from));
        // Small changes are not worth new slots.
        if self.learned && window.abs_diff(t) > window / 8 {
            self.detector.set_window(now, t);
        }
    }

    /// What a probe has to keep within.
    pub fn quick_upto(&self) -> u64 {
        learn::threshold(self.learning, self.slow_from)
    }

    /// What it answered since this was last asked.
    pub fn end_period(&mut self, now: u64) -> Seen {
        self.recent.end_period(self.silent_for(now), self.learning)
    }

    pub fn slow_drive(&self, now: u64) -> Option<SlowDrive> {
        self.verdict.slow_drive(now, self.sits_out())
    }

    /// A tick of the ladder is over.
    pub fn end_tick(&mut self) {
        self.tally.slow_ticks += u32::from(std::mem::take(&mut self.slow_in_tick));
    }

    pub fn take_untold(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.untold)
    }

    pub fn status(&mut self, now: u64) -> SpikeStatus {
        let unresponsive = self.is_unresponsive(now);
        SpikeStatus {
            stragglers: u64::from(self.detector.stragglers()),
            stragglers_total: self.detector.stragglers_total(),
            unresponsive,
            spikes: self.spikes.count(),
            spike_nanos: self.spikes.nanos(now),
            threshold_nanos: self.detector.config().window,
        }
    }

    pub fn latencies(&self) -> OperationLatencies {
        self.histograms.summary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(watch: &mut Watch, now: &mut u64, took: u64) {
        let ticket = watch.begin(*now, Operation::Read);
        *now += took;
        watch.end(*now, ticket, Operation::Read);
    }

    /// A pool with checksums reads so much when it is opened that 10 ms were usual for its first
    /// seconds, and a drive that was 10 ms late every hundredth time was hardly ever gone round.
    #[test]
    fn what_opening_took_is_not_what_is_usual() {
        let (mut now, mut watch) = (0, Watch::new(&SpikeHandling::default(), false, 0));
        (0..500).for_each(|_| read(&mut watch, &mut now, 10_000_000));
        watch.forget_reads();
        assert_eq!(watch.quantiles(), [None; 4]);
        (0..SAMPLES_MIN).for_each(|_| read(&mut watch, &mut now, 100_000));
        let [reads, writes, usual, half] = watch.quantiles();
        assert_eq!((reads, writes), (usual, None));
        assert!(half <= usual, "{half:?}");
        assert!(usual.is_some_and(|usual| usual < 120_000), "{usual:?}");
        assert_eq!((watch.tally.operations, watch.tally.slow), (u64::from(SAMPLES_MIN), 0));
    }

    /// On a crowded machine we come back after milliseconds to a queue of answers that have been
    /// there for long. With the first of them all others were stragglers, with the last of them
    /// none: thousands of events told of drives that were "unresponsive for 0 ns".
    #[test]
    fn answers_that_waited_for_us_are_no_spike() {
        let handling = SpikeHandling::default();
        let mut watch = Watch::new(&handling, false, 0);
        let late = 1_000_000_000;
        let tickets: Vec<Ticket> = (0..8).map(|_| watch.begin(0, Operation::Read)).collect();
        for ticket in tickets {
            watch.end(late, ticket, Operation::Read);
        }
        assert!(watch.take_untold().is_empty());
        let status = watch.status(late);
        assert_eq!((status.spikes, status.spike_nanos, status.unresponsive), (0, 0, false));
        assert_eq!((status.stragglers, status.stragglers_total), (0, 8), "late they were");
        // With one that is still not there we see it being slow.
        let mut tickets: Vec<Ticket> = (0..8).map(|_| watch.begin(late, Operation::Read)).collect();
        let last = tickets.pop().expect("eight");
        for ticket in tickets {
            watch.end(2 * late, ticket, Operation::Read);
        }
        assert!(watch.is_unresponsive(2 * late));
        let slot = watch.detector.config().slot();
        watch.end(2 * late + slot, last, Operation::Read);
        assert_eq!(watch.take_untold(), [(2 * late, 2 * late + slot)]);
        assert_eq!(watch.status(3 * late).spikes, 1);
        // It takes us some time to take many answers: counted, but nothing to tell.
        let tickets: Vec<Ticket> = (0..8).map(|_| watch.begin(3 * late, Operation::Read)).collect();
        for (at, ticket) in tickets.into_iter().enumerate() {
            watch.end(4 * late + at as u64 * slot / 8, ticket, Operation::Read);
        }
        assert!(watch.take_untold().is_empty());
        assert_eq!(watch.status(5 * late).spikes, 2);
    }

    /// A drive flushed its cache, was told what is free beside it, and answered each read at once:
    /// two stragglers of two were a spike.
    #[test]
    fn a_long_flush_is_no_spike() {
        let (mut now, mut watch) = (0, Watch::new(&SpikeHandling::default(), false, 0));
        (0..SAMPLES_MIN).for_each(|_| read(&mut watch, &mut now, 100_000));
        let begun = [Operation::Flush, Operation::Discard, Operation::Flush].map(|operation| {
            let ticket = watch.begin(now, operation);
            (operation, ticket)
        });
        for _ in 0..100 {
            read(&mut watch, &mut now, 1_000_000);
            assert!(!watch.is_unresponsive(now));
        }
        for (operation, ticket) in begun {
            watch.end(now, ticket, operation);
        }
        let status = watch.status(now);
        assert_eq!((status.stragglers_total, status.spikes), (0, 0), "{status:?}");
    }
}
