//! Runs a workload against a modelled drive in virtual time and keeps every latency.

use io::env::Nanos;
use io::model::{Command, Completion, Model, ModelCounters, Tag};

use super::workload::{Load, Requests, Workload};

/// One request, when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub begin: Nanos,
    pub latency: Nanos,
    pub bytes: u32,
    pub write: bool,
}

impl Sample {
    pub fn end(&self) -> Nanos {
        self.begin + self.latency
    }
}

/// From its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub begin: Nanos,
    pub end: Nanos,
}

impl Period {
    pub fn length(&self) -> Nanos {
        self.end.saturating_sub(self.begin)
    }

    pub fn overlaps(&self, other: &Period) -> bool {
        self.begin < other.end && other.begin < self.end
    }
}

/// What was measured, from the end of the warm-up on; times count from there.
#[derive(Clone, Debug)]
pub struct Record {
    /// In the order of completion.
    pub samples: Vec<Sample>,
    /// When the drive says it collected garbage. Real drives don't tell.
    pub collections: Vec<Period>,
    pub counters: ModelCounters,
    pub length: Nanos,
}

/// How long to run before measuring, and how long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub warmup: Nanos,
    pub measured: Nanos,
}

/// At 32 bytes a sample this is 1.3 GB: more than anybody looks at.
const MAX_SAMPLES: usize = 40_000_000;
/// Requests of an open load that may wait for a drive that can't keep up.
const MAX_IN_FLIGHT: usize = 1_000_000;

struct Probe<'a> {
    model: &'a mut dyn Model,
    requests: Requests,
    /// By tag; tags of completed requests are used again.
    outstanding: Vec<(Nanos, Command)>,
    free: Vec<u64>,
    start: Nanos,
    samples: Vec<Sample>,
    collections: Vec<Period>,
    collecting_since: Option<Nanos>,
}

/// Runs the workload; the same model, workload and seed give the same record.
pub fn run(
    model: &mut dyn Model,
    workload: Workload,
    seed: u64,
    span: Span,
) -> Result<Record, String> {
    let start = span.warmup;
    let end = span.warmup + span.measured;
    let mut probe = Probe {
        model,
        requests: Requests::new(workload, seed),
        outstanding: Vec::new(),
        free: Vec::new(),
        start,
        samples: Vec::new(),
        collections: Vec::new(),
        collecting_since: None,
    };
    probe.play(workload.load, Nanos::ZERO, start)?;
    probe.forget();
    let before = probe.model.counters();
    probe.play(workload.load, start, end)?;
    probe.note_collection(end, false);
    let (samples, collections) = (probe.samples, probe.collections);
    let counters = since(model.counters(), before);
    Ok(Record { samples, collections, counters, length: span.measured })
}

impl Probe<'_> {
    fn play(&mut self, load: Load, from: Nanos, to: Nanos) -> Result<(), String> {
        let mut done = Vec::new();
        let mut now = from;
        if let Load::Closed { depth } = load {
            while self.model.in_flight() < depth {
                self.submit(now);
            }
        }
        let mut arrival = self.requests.gap().map(|gap| now + gap);
        while now < to {
            let event = self.model.next_event().unwrap_or(to);
            now = event.min(arrival.unwrap_or(to)).min(to);
            self.model.advance(now, &mut done);
            self.note_collection(now, self.model.is_collecting());
            for completion in done.drain(..) {
                self.finish(completion)?;
                if matches!(load, Load::Closed { .. }) {
                    self.submit(now);
                }
            }
            while let Some(at) = arrival.filter(|&at| at <= now) {
                self.submit(now);
                arrival = self.requests.gap().map(|gap| at + gap);
            }
            if self.outstanding.len() > MAX_IN_FLIGHT {
                return Err(format!(
                    "the drive can't keep up: {MAX_IN_FLIGHT} requests wait; lower --rate"
                ));
            }
        }
        Ok(())
    }

    /// The warm-up is over.
    fn forget(&mut self) {
        self.samples.clear();
        self.collections.clear();
        self.collecting_since = self.collecting_since.map(|_| self.start);
    }

    fn submit(&mut self, now: Nanos) {
        let command = self.requests.command();
        let tag = self.free.pop().unwrap_or(self.outstanding.len() as u64);
        match self.outstanding.get_mut(tag as usize) {
            Some(place) => *place = (now, command),
            None => self.outstanding.push((now, command)),
        }
        self.model.submit(now, Tag(tag), command);
    }

    fn finish(&mut self, completion: Completion) -> Result<(), String> {
        let (begin, command) = self.outstanding[completion.tag.0 as usize];
        self.free.push(completion.tag.0);
        let (len, write) = match command {
            Command::Write { len, .. } => (len, true),
            Command::Read { len, .. } => (len, false),
            Command::Flush | Command::Discard { .. } => return Ok(()),
        };
        if self.samples.len() == MAX_SAMPLES {
            return Err(format!("more than {MAX_SAMPLES} requests: lower --seconds"));
        }
        let latency = completion.at.saturating_sub(begin);
        // What began in the warm-up is measured from the moment it began, at time zero.
        let begin = begin.saturating_sub(self.start);
        self.samples.push(Sample { begin, latency, bytes: len as u32, write });
        Ok(())
    }

    fn note_collection(&mut self, now: Nanos, collecting: bool) {
        match (self.collecting_since, collecting) {
            (None, true) => self.collecting_since = Some(now),
            (Some(since), false) => {
                let (begin, end) =
                    (since.saturating_sub(self.start), now.saturating_sub(self.start));
                self.collections.push(Period { begin, end });
                self.collecting_since = None;
            }
            _ => {}
        }
    }
}

fn since(now: ModelCounters, before: ModelCounters) -> ModelCounters {
    ModelCounters {
        submitted: now.submitted - before.submitted,
        completed: now.completed - before.completed,
        host_read_bytes: now.host_read_bytes - before.host_read_bytes,
        host_write_bytes: now.host_write_bytes - before.host_write_bytes,
        trimmed_bytes: now.trimmed_bytes - before.trimmed_bytes,
        flash_write_bytes: now.flash_write_bytes - before.flash_write_bytes,
        moved_bytes: now.moved_bytes - before.moved_bytes,
        flash_read_bytes: now.flash_read_bytes - before.flash_read_bytes,
        erases: now.erases - before.erases,
        collections: now.collections - before.collections,
        buffer_flushes: now.buffer_flushes - before.buffer_flushes,
    }
}
