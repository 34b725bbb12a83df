//! The clients: each writes to its own region in batches, flushes now and then, and reads back.
//!
//! Requests of one batch are in flight together and never overlap, so the order of writes to a
//! sector is the order of their sequence numbers. A flush travels beside a batch and covers what
//! was answered before it was sent.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::history::{Event, History};
use super::model::{Model, Version};
use super::options::Options;
use super::pattern::{self, SECTOR, SECTORS_PER_PAGE, Stamp};
use super::random::Random;
use crate::clock::{Elapsed, pause};
use crate::nbd_client::{Client, is_lost};

const BATCH_MAX: u64 = 24;
const REQUEST_MAX_SECTORS: u64 = 1024;

pub struct Plan {
    pub socket: PathBuf,
    pub export: String,
    pub duration: Duration,
    pub seed: u64,
    /// The first sequence number of every connection.
    pub first_sequence: u64,
}

impl From<&Options> for Plan {
    fn from(options: &Options) -> Plan {
        Plan {
            socket: options.socket.clone(),
            export: options.export.clone(),
            duration: Duration::from_secs(options.seconds),
            seed: options.seed,
            first_sequence: 1,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub writes: u64,
    pub bytes: u64,
    pub flushes: u64,
    pub fua_writes: u64,
    pub sectors_read_back: u64,
    pub connections_lost: u64,
    pub last_sequence: u64,
}

impl Totals {
    pub fn add(&mut self, other: &Totals) {
        self.writes += other.writes;
        self.bytes += other.bytes;
        self.flushes += other.flushes;
        self.fua_writes += other.fua_writes;
        self.sectors_read_back += other.sectors_read_back;
        self.connections_lost += other.connections_lost;
        self.last_sequence = self.last_sequence.max(other.last_sequence);
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} writes ({} MiB, {} with FUA) and {} flushes answered, {} sectors read back, \
             {} connections lost",
            self.writes,
            self.bytes >> 20,
            self.fua_writes,
            self.flushes,
            self.sectors_read_back,
            self.connections_lost
        )
    }
}

pub struct Session {
    pub history: History,
    pub totals: Totals,
}

/// Connects to a server that may be about to start.
pub fn connect(socket: &Path, export: &str) -> Result<Client, String> {
    Client::connect(socket, export).map_err(|error| format!("{}: {error}", socket.display()))
}

/// Writes from all connections until the time is over or the server is gone.
pub fn run(plan: &Plan, model: &Model) -> Result<Session, String> {
    let start = Elapsed::start();
    let everybody = model.connections();
    run_while(plan, model, |ended| {
        while start.get() < plan.duration && ended.load(Ordering::Relaxed) < everybody {
            pause(Duration::from_millis(50));
        }
    })
}

/// Writes from all connections while `meanwhile` runs, which may kill the server. It is given
/// the number of connections that have ended.
pub fn run_while(
    plan: &Plan,
    model: &Model,
    meanwhile: impl FnOnce(&AtomicUsize),
) -> Result<Session, String> {
    let connections = model.connections();
    let answered: Vec<AtomicU64> = (0..connections).map(|_| AtomicU64::new(0)).collect();
    let (over, ended) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut writers = Vec::new();
    for connection in 0..connections {
        writers.push(Writer::new(plan, model, connection, &answered)?);
    }
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let (over, ended) = (&over, &ended);
        let start = |writer: Writer<'_>| {
            let outcome = writer.run(over);
            ended.fetch_add(1, Ordering::Relaxed);
            outcome
        };
        let threads: Vec<_> = writers.into_iter().map(|w| scope.spawn(move || start(w))).collect();
        meanwhile(ended);
        over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a writer panicked")).collect()
    });
    let region_sectors = model.region(0).end;
    let mut history = History { connections, region_sectors, events: Vec::new() };
    let mut totals = Totals::default();
    for outcome in outcomes {
        let (events, part) = outcome?;
        history.events.extend(events);
        totals.add(&part);
    }
    Ok(Session { history, totals })
}

struct Writer<'a> {
    client: Client,
    connection: usize,
    region: std::ops::Range<u64>,
    random: Random,
    next_sequence: u64,
    /// What a read must return now, per sector of the region.
    latest: Vec<Version>,
    /// The last sequence number of every connection up to which all writes are answered.
    answered: &'a [AtomicU64],
    events: Vec<(usize, Event)>,
    totals: Totals,
}

enum Stop {
    ServerGone,
    Failed(String),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        if is_lost(&error) { Stop::ServerGone } else { Stop::Failed(error.to_string()) }
    }
}

/// A request in flight and what its answer means.
struct Pending {
    cookie: u64,
    what: Promise,
}

enum Promise {
    Write {
        sequence: u64,
        fua: bool,
        bytes: u64,
    },
    /// What every connection was told is written when the flush was sent.
    Flush(Vec<u64>),
}

type Outcome = Result<(Vec<(usize, Event)>, Totals), String>;

impl<'a> Writer<'a> {
    fn new(
        plan: &Plan,
        model: &Model,
        connection: usize,
        answered: &'a [AtomicU64],
    ) -> Result<Writer<'a>, String> {
        let client = connect(&plan.socket, &plan.export)?;
        if !client.abilities.flush() {
            return Err("the server has no flush: there is nothing to check".to_owned());
        }
        let region = model.region(connection);
        Ok(Writer {
            client,
            connection,
            latest: region.clone().map(|sector| model.settled(sector)).collect(),
            region,
            random: Random::new(plan.seed ^ (connection as u64) << 48),
            next_sequence: plan.first_sequence,
            answered,
            events: Vec::new(),
            totals: Totals::default(),
        })
    }

    fn run(mut self, over: &AtomicBool) -> Outcome {
        let stop = loop {
            if over.load(Ordering::Relaxed) {
                break None;
            }
            if let Err(stop) = self.batch().and_then(|()| self.read_back()) {
                break Some(stop);
            }
        };
        self.totals.last_sequence = self.next_sequence - 1;
        match stop {
            Some(Stop::Failed(why)) => Err(format!("connection {}: {why}", self.connection)),
            Some(Stop::ServerGone) => {
                self.totals.connections_lost = 1;
                Ok((self.events, self.totals))
            }
            None => Ok((self.events, self.totals)),
        }
    }

    fn batch(&mut self) -> Result<(), Stop> {
        let mut pending = Vec::new();
        let mut taken: Vec<Stamp> = Vec::new();
        let requests = 1 + self.random.below(BATCH_MAX);
        let flush_at = self.random.below(requests * 3);
        for position in 0..requests {
            if position == flush_at {
                pending.push(self.send_flush()?);
            }
            let Some(stamp) = self.choose(&taken) else { continue };
            taken.push(stamp);
            pending.push(self.send_write(stamp)?);
        }
        self.client.push()?;
        while !pending.is_empty() {
            self.receive(&mut pending)?;
        }
        // Only now: an answer out of order must not cover an earlier request.
        self.answered[self.connection].store(self.next_sequence - 1, Ordering::Release);
        Ok(())
    }

    /// A range that no other request of the batch touches.
    fn choose(&mut self, taken: &[Stamp]) -> Option<Stamp> {
        let (count, alignment) = self.shape();
        // Half of the requests meet in an eighth of the region, so that they overwrite much.
        let sectors = self.region.end - self.region.start;
        let span = if self.random.percent(50) { sectors / 8 } else { sectors };
        let start = self.random.below(span.saturating_sub(count).max(1)) / alignment * alignment;
        let first = self.region.start + start;
        let stamp = Stamp { sequence: self.next_sequence, first, count };
        let overlaps =
            |other: &Stamp| other.first < first + count && first < other.first + other.count;
        if taken.iter().any(overlaps) {
            return None;
        }
        self.next_sequence += 1;
        Some(stamp)
    }

    /// Length and alignment of a request: pages, whole blocks, odd sectors, full stripes.
    fn shape(&mut self) -> (u64, u64) {
        match self.random.below(100) {
            0..40 => (SECTORS_PER_PAGE, SECTORS_PER_PAGE),
            40..55 => (1 + self.random.below(SECTORS_PER_PAGE - 1), 1),
            55..75 => (128, 128),
            75..85 => (1 + self.random.below(REQUEST_MAX_SECTORS), 1),
            85..95 => (SECTORS_PER_PAGE * (1 + self.random.below(32)), SECTORS_PER_PAGE),
            _ => (768, 128),
        }
    }

    fn send_flush(&mut self) -> Result<Pending, Stop> {
        let own = |index: usize| index == self.connection;
        let all = self.client.abilities.multi_connection();
        let covered = self.answered.iter().enumerate().map(|(index, answered)| {
            if all || own(index) { answered.load(Ordering::Acquire) } else { 0 }
        });
        let what = Promise::Flush(covered.collect());
        Ok(Pending { cookie: self.client.send_flush()?, what })
    }

    fn send_write(&mut self, stamp: Stamp) -> Result<Pending, Stop> {
        let zero = self.client.abilities.write_zeroes() && self.random.percent(5);
        let fua = self.client.abilities.fua() && self.random.percent(10);
        // Noted before it is sent: an unanswered write may be there after the crash.
        self.events.push((self.connection, Event::Write { stamp, zero }));
        let bytes = stamp.count * SECTOR as u64;
        let offset = stamp.first * SECTOR as u64;
        let cookie = if zero {
            let length = u32::try_from(bytes).expect("requests are short");
            self.client.send_zeroes(offset, length, fua)?
        } else {
            self.client.send_write(offset, &contents(stamp), fua)?
        };
        for sector in stamp.sectors() {
            let index = usize::try_from(sector - self.region.start).expect("fits memory");
            self.latest[index] = Version { sequence: stamp.sequence, zero };
        }
        Ok(Pending { cookie, what: Promise::Write { sequence: stamp.sequence, fua, bytes } })
    }

    fn receive(&mut self, pending: &mut Vec<Pending>) -> Result<(), Stop> {
        let reply = self.client.receive()?;
        let position = pending.iter().position(|request| request.cookie == reply.cookie);
        let Some(position) = position else {
            return Err(Stop::Failed(format!("an answer to no request: {reply:?}")));
        };
        let request = pending.swap_remove(position);
        if reply.error != 0 {
            return Err(Stop::Failed(format!("a request failed with error {}", reply.error)));
        }
        match request.what {
            Promise::Write { sequence, fua, bytes } => {
                self.totals.writes += 1;
                self.totals.bytes += bytes;
                if fua {
                    self.totals.fua_writes += 1;
                    self.events.push((self.connection, Event::Durable { sequence }));
                }
            }
            Promise::Flush(covered) => {
                self.totals.flushes += 1;
                let flushed = covered.into_iter().map(|upto| Event::Flushed { upto }).enumerate();
                self.events.extend(flushed);
            }
        }
        Ok(())
    }

    /// Between batches nothing is in flight: a read returns the last answered write.
    fn read_back(&mut self) -> Result<(), Stop> {
        if !self.random.percent(30) {
            return Ok(());
        }
        let count = 1 + self.random.below(256);
        let start = self.random.below(self.region.end - self.region.start - count);
        let first = self.region.start + start;
        let mut bytes = vec![0; usize::try_from(count).expect("small") * SECTOR];
        self.client.read(first * SECTOR as u64, &mut bytes)?;
        let expected = &self.latest[usize::try_from(start).expect("fits memory")..];
        for ((sector, bytes), version) in (first..).zip(bytes.chunks(SECTOR)).zip(expected) {
            let found = pattern::read(bytes, sector);
            if !version.shows_as(found) {
                let wrong = format!("read of sector {sector}: {found}, expected {version}");
                return Err(Stop::Failed(wrong));
            }
        }
        self.totals.sectors_read_back += count;
        Ok(())
    }
}

fn contents(stamp: Stamp) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(stamp.count).expect("small") * SECTOR];
    for (sector, bytes) in stamp.sectors().zip(bytes.chunks_mut(SECTOR)) {
        pattern::fill(bytes, stamp, sector);
    }
    bytes
}
