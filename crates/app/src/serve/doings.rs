//! What the server itself did, whatever pools it serves: clients let in and refused, readings of
//! its configuration. For metrics.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fs;

use export::{ConnectionError, Counted, Server, Transport};
use io::uring::UringEnv;
use rustix::time::{ClockId, clock_gettime};

use super::exports::Catalogue;
use super::http::guard::Refusal;
use super::log::Log;
use super::watchdog::{self, Stuck};
use crate::render::view::Latencies;
use crate::wall_clock;

/// Why NBD clients are not let in, or put out.
const NBD_REASONS: [&str; 6] = ["network", "tls", "busy", "stopping", "silent", "protocol"];
/// Why HTTP requests are not carried out.
const HTTP_REASONS: [&str; 4] = ["forbidden", "token", "rate", "busy"];
/// How readings of the configuration end.
const RELOADS: [&str; 2] = ["done", "failed"];

/// Counts by name. All names are there from the start: nothing and zero are not the same to who
/// counts what was added.
pub struct Counts(RefCell<BTreeMap<&'static str, u64>>);

impl Counts {
    fn of(names: &[&'static str]) -> Counts {
        Counts(RefCell::new(names.iter().map(|name| (*name, 0)).collect()))
    }

    fn add(&self, name: &'static str) {
        *self.0.borrow_mut().entry(name).or_default() += 1;
    }

    pub fn all(&self) -> Vec<(&'static str, u64)> {
        self.0.borrow().iter().map(|(name, count)| (*name, *count)).collect()
    }
}

pub struct Doings {
    pub log: Log,
    started_secs: u64,
    nbd_clients: Cell<u64>,
    nbd_accepted: Cell<u64>,
    /// Whose connections are counted, once there is one.
    nbd: OnceCell<Server<UringEnv, Catalogue>>,
    pub nbd_refused: Counts,
    pub http_refused: Counts,
    pub reloads: Counts,
    pub stuck: Stuck,
    env: UringEnv,
}

impl Doings {
    pub fn begin(env: &UringEnv, log: Log) -> Doings {
        let stuck = Stuck::default();
        watchdog::start(env.pulse(), log.clone(), stuck.clone());
        Doings {
            log,
            started_secs: wall_clock::now_secs(),
            nbd_clients: Cell::new(0),
            nbd_accepted: Cell::new(0),
            nbd: OnceCell::new(),
            nbd_refused: Counts::of(&NBD_REASONS),
            http_refused: Counts::of(&HTTP_REASONS),
            reloads: Counts::of(&RELOADS),
            stuck,
            env: env.clone(),
        }
    }

    /// How long tasks had the thread at a time, by what they did.
    pub fn slices(&self) -> Vec<(&'static str, Latencies)> {
        let slices = self.env.slices();
        slices.iter().map(|(work, latencies)| (work.name(), latencies.into())).collect()
    }

    #[cfg(test)]
    pub fn of_test() -> Doings {
        Doings::begin(&UringEnv::new().expect("a ring"), Log::of_test())
    }

    pub fn nbd_client_came(&self) {
        self.nbd_accepted.set(self.nbd_accepted.get() + 1);
        self.nbd_clients.set(self.nbd_clients.get() + 1);
    }

    pub fn count_connections_of(&self, server: &Server<UringEnv, Catalogue>) {
        let _ = self.nbd.set(server.clone());
    }

    /// NBD connections, by how they came.
    pub fn nbd_connections(&self) -> Vec<(&'static str, Counted)> {
        let ways = [("unix", Transport::Unix), ("tcp", Transport::Tcp)];
        let none = Counted { handshaking: 0, established: 0 };
        let counted = |way| self.nbd.get().map_or(none, |server| server.counted(way));
        ways.into_iter().map(|(name, way)| (name, counted(way))).collect()
    }

    /// One that came has left, or has been put out.
    pub fn nbd_client_left(&self, why: &Result<(), ConnectionError>) {
        self.nbd_clients.set(self.nbd_clients.get() - 1);
        match why {
            // It broke off, which is its own business.
            Ok(()) | Err(ConnectionError::Io(_)) => {}
            Err(ConnectionError::Tls(_)) => self.nbd_refused.add("tls"),
            Err(ConnectionError::TooMany(_) | ConnectionError::Crowded) => {
                self.nbd_refused.add("busy");
            }
            Err(ConnectionError::ShuttingDown) => self.nbd_refused.add("stopping"),
            Err(ConnectionError::HandshakeTimeout | ConnectionError::Stalled) => {
                self.nbd_refused.add("silent");
            }
            Err(ConnectionError::Protocol(_)) => self.nbd_refused.add("protocol"),
        }
    }

    /// Its address is in none of the networks allowed.
    pub fn nbd_client_refused(&self) {
        self.nbd_refused.add("network");
    }

    pub fn http_refused(&self, why: &Refusal) {
        self.http_refused.add(match why {
            Refusal::Forbidden(_) => "forbidden",
            Refusal::NoToken(_) => "token",
            Refusal::TooMany(_) => "rate",
        });
    }

    /// There are as many connections as there may be.
    pub fn http_busy(&self) {
        self.http_refused.add("busy");
    }

    pub fn reloaded(&self, went_well: bool) {
        self.reloads.add(if went_well { "done" } else { "failed" });
    }

    pub fn nbd_clients(&self) -> u64 {
        self.nbd_clients.get()
    }

    pub fn nbd_accepted(&self) -> u64 {
        self.nbd_accepted.get()
    }

    /// What the system says of this process; `None` of what it does not say.
    pub fn process(&self) -> Process {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Process {
            started_secs: self.started_secs,
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            resident_bytes: kibibytes(&status, "VmRSS:").map(|count| count << 10),
            open_files: fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64),
        }
    }
}

#[derive(Debug)]
pub struct Process {
    pub started_secs: u64,
    pub cpu_seconds: f64,
    pub resident_bytes: Option<u64>,
    pub open_files: Option<u64>,
}

/// A line of `/proc/self/status`: `VmRSS:     1234 kB`.
fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Failure;

    #[test]
    fn the_process_tells_of_itself() {
        let process = Doings::of_test().process();
        assert!(process.started_secs > 1_700_000_000);
        assert!(process.cpu_seconds > 0.0 && process.cpu_seconds < 86_400.0);
        // A test program is larger than 1 MiB and smaller than a machine.
        let resident = process.resident_bytes.expect("a number");
        assert!((1 << 20..1 << 40).contains(&resident), "{resident}");
        assert!(process.open_files.is_some_and(|count| count >= 3));
        assert_eq!(kibibytes("VmRSS:\t  7 kB\n", "VmRSS:"), Some(7));
        assert_eq!(kibibytes("VmRSS:\t  7 pages\n", "VmRSS:"), None);
    }

    #[test]
    fn refusals_are_told_apart_and_none_is_no_gap() {
        let doings = Doings::of_test();
        assert_eq!(doings.nbd_refused.all().len(), NBD_REASONS.len());
        for _ in 0..3 {
            doings.nbd_client_came();
        }
        doings.nbd_client_left(&Ok(()));
        doings.nbd_client_left(&Err(ConnectionError::HandshakeTimeout));
        doings.nbd_client_refused();
        doings.http_refused(&Refusal::NoToken(Failure::new("request", "no token")));
        doings.reloaded(false);
        assert_eq!((doings.nbd_accepted(), doings.nbd_clients()), (3, 1));
        let some = |counts: &Counts| {
            let all = counts.all().into_iter().filter(|(_, count)| *count > 0);
            all.collect::<Vec<_>>()
        };
        assert_eq!(some(&doings.nbd_refused), [("network", 1), ("silent", 1)]);
        assert_eq!(some(&doings.http_refused), [("token", 1)]);
        assert_eq!(some(&doings.reloads), [("failed", 1)]);
    }
}
