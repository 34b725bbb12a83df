//! The load: several connections to every volume, which write in batches, flush, and read back.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::model::Wrong;
use super::super::pattern::{self, SECTOR, SECTORS_PER_PAGE, Stamp};
use super::super::random::Random;
use super::failure::{Failure, Problem};
use super::ledger::{Ledger, Moment};
use crate::nbd_client::{Client, is_lost};

/// Longer than a drive that hangs may hold up a request.
const PATIENCE: Duration = Duration::from_secs(45);
const BATCH_MAX: u64 = 12;
const REQUEST_MAX_SECTORS: u64 = 512;
const READ_BACK_MAX_SECTORS: u64 = 256;

/// The server is being stopped, and says so.
const ESHUTDOWN: u32 = 108;

/// A volume as its clients see it.
#[derive(Clone)]
pub struct Target {
    /// POOL/VOL
    pub export: String,
    pub socket: PathBuf,
    pub ledger: Arc<Mutex<Ledger>>,
}

impl Target {
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no client panicked")
    }

    /// Any server that answers may be asked for anything: if not, something is wrong.
    pub fn connect(&self) -> Result<Client, Failure> {
        let client = Client::connect_within(&self.socket, &self.export, PATIENCE);
        let client = client.map_err(|error| {
            Failure::new(Problem::Closed, format!("export {}: {error}", self.export))
        })?;
        if !client.abilities.flush() {
            return Err(Failure::harness("the server has no flush: there is nothing to check"));
        }
        self.ledger().shared_flush = client.abilities.multi_connection();
        Ok(client)
    }
}

/// What an error of the connection means.
pub fn trouble(what: &str, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    let problem = match error.kind() {
        TimedOut | WouldBlock => Problem::Hangs,
        _ if is_lost(error) => Problem::Died,
        _ => Problem::Failed,
    };
    Failure::new(problem, format!("{what}: {error}"))
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub writes: u64,
    pub flushes: u64,
    pub fua_writes: u64,
    pub sectors_read_back: u64,
    pub errors: u64,
    pub connections_lost: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.writes += other.writes;
        self.flushes += other.flushes;
        self.fua_writes += other.fua_writes;
        self.sectors_read_back += other.sectors_read_back;
        self.errors += other.errors;
        self.connections_lost += other.connections_lost;
    }
}

/// Clients at work.
pub struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Ended>>,
}

/// How one client ended.
pub struct Ended {
    pub tally: Tally,
    pub failure: Option<Failure>,
}

impl Load {
    /// `connections` to each of the volumes. `tolerant`: requests may fail.
    #[expect(clippy::disallowed_methods, reason = "clients, joined in `end`")]
    pub fn start(
        targets: &[Target],
        connections: usize,
        seed: u64,
        tolerant: bool,
    ) -> Result<Load, Failure> {
        let over = Arc::new(AtomicBool::new(false));
        let mut load = Load { over, threads: Vec::new() };
        for (volume, target) in (0u64..).zip(targets) {
            for connection in 0..connections {
                let random = Random::new(seed ^ (volume * 64 + connection as u64) << 40);
                let client = target.connect()?;
                let (target, over) = (target.clone(), Arc::clone(&load.over));
                let writer = Writer { target, client, connection, random, tolerant, over };
                load.threads.push(std::thread::spawn(move || writer.run()));
            }
        }
        Ok(load)
    }

    /// Waits until every client has ended: by itself, or because the server is gone.
    pub fn end(self) -> Vec<Ended> {
        self.over.store(true, Ordering::Relaxed);
        let join = |thread: JoinHandle<Ended>| thread.join().expect("a client panicked");
        self.threads.into_iter().map(join).collect()
    }
}

struct Writer {
    target: Target,
    client: Client,
    connection: usize,
    random: Random,
    tolerant: bool,
    over: Arc<AtomicBool>,
}

enum Stop {
    Gone,
    Failed(Failure),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        if is_lost(&error) { Stop::Gone } else { Stop::Failed(trouble("a client", &error)) }
    }
}

enum Promise {
    Write(usize, bool),
    Flush(Moment),
}

impl Writer {
    fn run(mut self) -> Ended {
        let mut tally = Tally::default();
        let mut failure = None;
        while !self.over.load(Ordering::Relaxed) {
            let done = self.batch(&mut tally).and_then(|()| self.read_back(&mut tally));
            match done {
                Ok(()) => continue,
                Err(Stop::Gone) => tally.connections_lost = 1,
                Err(Stop::Failed(why)) => failure = Some(why),
            }
            break;
        }
        Ended { tally, failure }
    }

    fn batch(&mut self, tally: &mut Tally) -> Result<(), Stop> {
        let mut pending: Vec<(u64, Promise)> = Vec::new();
        let requests = 1 + self.random.below(BATCH_MAX);
        let flush_at = self.random.below(requests * 3);
        for position in 0..requests {
            if position == flush_at {
                let moment = self.target.ledger().flush_sent();
                pending.push((self.client.send_flush()?, Promise::Flush(moment)));
            }
            let range = self.choose();
            if self.target.ledger().claim(range.clone()) {
                pending.push(self.send_write(&range)?);
            }
        }
        self.client.push()?;
        while !pending.is_empty() {
            self.receive(&mut pending, tally)?;
        }
        Ok(())
    }

    fn choose(&mut self) -> Range<u64> {
        let (count, alignment) = self.shape();
        // Half of the requests meet in an eighth of the volume, so that they overwrite much.
        let sectors = self.target.ledger().sectors;
        let span = if self.random.percent(50) { sectors / 8 } else { sectors };
        let first = self.random.below(span.saturating_sub(count).max(1)) / alignment * alignment;
        first..first + count
    }

    /// Length and alignment of a request: pages, whole blocks, odd sectors, several blocks.
    fn shape(&mut self) -> (u64, u64) {
        match self.random.below(100) {
            0..35 => (SECTORS_PER_PAGE, SECTORS_PER_PAGE),
            35..50 => (1 + self.random.below(SECTORS_PER_PAGE - 1), 1),
            50..65 => (128, 128),
            65..78 => (1 + self.random.below(REQUEST_MAX_SECTORS), 1),
            78..92 => (SECTORS_PER_PAGE * (1 + self.random.below(32)), SECTORS_PER_PAGE),
            _ => (REQUEST_MAX_SECTORS, 128),
        }
    }

    fn send_write(&mut self, range: &Range<u64>) -> Result<(u64, Promise), Stop> {
        let zero = self.client.abilities.write_zeroes() && self.random.percent(4);
        let fua = self.client.abilities.fua() && self.random.percent(10);
        let (place, stamp) = self.target.ledger().write(range, self.connection, zero, fua);
        let offset = stamp.first * SECTOR as u64;
        let cookie = if zero {
            let bytes = stamp.count * SECTOR as u64;
            let length = u32::try_from(bytes).expect("requests are short");
            self.client.send_zeroes(offset, length, fua)?
        } else {
            self.client.send_write(offset, &contents(stamp), fua)?
        };
        Ok((cookie, Promise::Write(place, fua)))
    }

    fn receive(
        &mut self,
        pending: &mut Vec<(u64, Promise)>,
        tally: &mut Tally,
    ) -> Result<(), Stop> {
        let reply = self.client.receive()?;
        let Some(position) = pending.iter().position(|(cookie, _)| *cookie == reply.cookie) else {
            let text = format!("an answer to no request: {reply:?}");
            return Err(Stop::Failed(Failure::new(Problem::Failed, text)));
        };
        let (_, promise) = pending.swap_remove(position);
        let (what, may_fail) = match promise {
            Promise::Write(place, fua) => {
                let may_fail = self.target.ledger().answered(place, reply.error);
                tally.writes += 1;
                tally.fua_writes += u64::from(fua);
                ("a write", may_fail)
            }
            Promise::Flush(sent) => {
                if reply.error == 0 {
                    self.target.ledger().flush_answered(self.connection, sent);
                }
                tally.flushes += 1;
                ("a flush", false)
            }
        };
        self.bear(what, reply.error, may_fail, tally)
    }

    fn bear(&self, what: &str, error: u32, may_fail: bool, tally: &mut Tally) -> Result<(), Stop> {
        if error == ESHUTDOWN {
            return Err(Stop::Gone);
        }
        tally.errors += u64::from(error != 0);
        if error == 0 || may_fail || self.tolerant {
            return Ok(());
        }
        let text = format!("{}: {what} failed with error {error}", self.target.export);
        Err(Stop::Failed(Failure::new(Problem::Failed, text)))
    }

    fn read_back(&mut self, tally: &mut Tally) -> Result<(), Stop> {
        if !self.random.percent(30) {
            return Ok(());
        }
        let count = 1 + self.random.below(READ_BACK_MAX_SECTORS);
        let sectors = self.target.ledger().sectors;
        let first = self.random.below(sectors - count);
        let range = first..first + count;
        if !self.target.ledger().claim(range.clone()) {
            return Ok(());
        }
        let mut bytes = vec![0; usize::try_from(count).expect("small") * SECTOR];
        let error = self.client.try_read(first * SECTOR as u64, &mut bytes)?;
        if error == 0 {
            let as_answered = self.target.ledger().check_read(first, &bytes);
            as_answered.map_err(|wrong| self.wrong(&wrong))?;
            tally.sectors_read_back += count;
        }
        let may_fail = {
            let mut ledger = self.target.ledger();
            ledger.release(&range);
            ledger.may_fail(&range)
        };
        self.bear("a read", error, may_fail, tally)
    }

    fn wrong(&self, wrong: &Wrong) -> Stop {
        let text = format!("{}: while it was used: {wrong}", self.target.export);
        Stop::Failed(Failure::new(Problem::Data(wrong.kind), text))
    }
}

pub fn contents(stamp: Stamp) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(stamp.count).expect("small") * SECTOR];
    for (sector, bytes) in stamp.sectors().zip(bytes.chunks_mut(SECTOR)) {
        pattern::fill(bytes, stamp, sector);
    }
    bytes
}

/// Writes the whole of a volume, and waits for each request.
pub fn fill(target: &Target, connection: usize) -> Result<(), Failure> {
    let mut client = target.connect()?;
    let sectors = target.ledger().sectors;
    let step = usize::try_from(REQUEST_MAX_SECTORS).expect("small");
    for first in (0..sectors).step_by(step) {
        let range = first..sectors.min(first + REQUEST_MAX_SECTORS);
        write(target, &mut client, connection, &range, false)?;
    }
    Ok(())
}

/// One write, waited for. Nobody else is at work.
pub fn write(
    target: &Target,
    client: &mut Client,
    connection: usize,
    range: &Range<u64>,
    fua: bool,
) -> Result<(), Failure> {
    assert!(target.ledger().claim(range.clone()), "nobody else is at work");
    let (place, stamp) = target.ledger().write(range, connection, false, fua);
    let offset = stamp.first * SECTOR as u64;
    let answer = client.write(offset, &contents(stamp), fua);
    let error = answer.map_err(|error| trouble(&target.export, &error))?;
    target.ledger().answered(place, error);
    match error {
        0 => Ok(()),
        error => {
            let text = format!("{}: a write failed with error {error}", target.export);
            Err(Failure::new(Problem::Failed, text))
        }
    }
}

/// A flush, waited for; it covers what was answered in this life of the server.
pub fn flush(target: &Target, client: &mut Client, connection: usize) -> Result<(), Failure> {
    let moment = target.ledger().flush_sent();
    match client.flush().map_err(|error| trouble(&target.export, &error))? {
        0 => {
            target.ledger().flush_answered(connection, moment);
            Ok(())
        }
        error => {
            let text = format!("{}: a flush failed with error {error}", target.export);
            Err(Failure::new(Problem::Failed, text))
        }
    }
}
