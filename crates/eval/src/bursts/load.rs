//! What is played: bursts beside reads, and traces.
//!
//! ```text
//!  writes  10 % ________|‾‾‾ 300 % ‾‾‾|________ ... of ten times the length of the burst, again
//!  reads    5 % __________________________________
//! ```
//! Per cent of what RAID10 of the same drives takes of large writes in a closed loop, whatever the
//! system: all get the same requests.

use std::fmt;
use std::path::{Path, PathBuf};

use io::Nanos;

use crate::array::System;
use crate::array::load::{Arrivals, Sizes, Span, Stream};
use crate::array::played::Played;
use crate::array::recorded::Recorded;
use crate::array::saturated::saturate;
use crate::array::stand::Stand;

/// Of a large write: what block devices take in one piece.
const LARGE: u64 = 512 << 10;
/// Rates, in per cent of that.
const REST: u64 = 10;
const BURST: u64 = 300;
const READS: u64 = 5;
/// A round is so many bursts long: writes are 40 % in the mean, and the drives have emptied their
/// queues long before the next.
const ROUND: u64 = 10;
/// Rounds measured of short bursts; one before them is not. Of long ones it is one.
const ROUNDS: u64 = 5;
const LONG: Nanos = Nanos::from_secs(1);
/// A trace that is sped up asks for about this part of what RAID10 can do of it.
const SPED_UP_PERCENT: u64 = 40;
/// Longer than RAID10 takes for any trace that has the next request as soon as one is answered.
const CLOSED_LOOP_MAX: Nanos = Nanos::from_secs(600);

#[derive(Clone)]
pub enum Kind {
    Bursts { burst: Nanos, rounds: u64, capacity: u64 },
    Trace(Recording),
}

impl Kind {
    /// `capacity`: bytes a second.
    pub fn bursts(millis: u64, capacity: u64, quick: bool) -> Kind {
        let burst = Nanos::from_millis(millis);
        let rounds = if quick { 1 } else { ROUNDS };
        Kind::Bursts { burst, rounds, capacity }
    }

    pub fn span(&self) -> Span {
        match self {
            // Bursts are in the middle of rounds: long ones have the rest before them as warm-up.
            Kind::Bursts { burst, .. } if *burst >= LONG => {
                Span { warmup: *burst, measured: Nanos(burst.0 * ROUND) }
            }
            Kind::Bursts { burst, rounds, .. } => {
                let round = burst.0 * ROUND;
                Span { warmup: Nanos(round), measured: Nanos(round * rounds) }
            }
            Kind::Trace(recording) => recording.span(),
        }
    }

    /// For an array of so many bytes.
    pub fn loads(&self, size: u64, seed: u64) -> Vec<Played> {
        match self {
            Kind::Bursts { burst, capacity, .. } => {
                let every = Nanos(burst.0 * ROUND);
                let burst = Arrivals::Periodic { every, burst: *burst };
                let streams = [
                    writes(Arrivals::Poisson, capacity * REST / 100, size, seed),
                    writes(burst, capacity * BURST / 100, size, seed + 1),
                    reads(capacity * READS / 100, size, seed + 2),
                ];
                streams.map(Played::Stream).to_vec()
            }
            Kind::Trace(recording) => vec![Played::Recorded(recording.requests.within(size))],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Bursts { burst, capacity, .. } => {
                let mib = (capacity * BURST / 100) >> 20;
                write!(f, "bursts of {} ms at {mib} MiB/s", burst.0 / 1_000_000)
            }
            Kind::Trace(Recording { name, times: 1, .. }) => write!(f, "{name} at its own rate"),
            Kind::Trace(Recording { name, times, .. }) => {
                write!(f, "{name}, {times} times as fast")
            }
        }
    }
}

fn writes(arrivals: Arrivals, bytes_a_second: u64, size: u64, seed: u64) -> Stream {
    Stream {
        arrivals,
        rate: bytes_a_second / LARGE,
        read_percent: 0,
        reads: Sizes::one(LARGE),
        writes: Sizes::one(LARGE),
        first: 0,
        span: size / LARGE * LARGE,
        seed,
    }
}

/// Of 4, 16 and 64 KiB, as often each.
fn reads(bytes_a_second: u64, size: u64, seed: u64) -> Stream {
    let sizes = [4 << 10, 16 << 10, 64 << 10];
    let mean = sizes.iter().sum::<u64>() / sizes.len() as u64;
    Stream {
        rate: bytes_a_second / mean,
        read_percent: 100,
        reads: Sizes(sizes.map(|bytes| (bytes, 1)).to_vec()),
        ..writes(Arrivals::Poisson, 0, size, seed)
    }
}

/// Bytes a second that RAID10 of these drives takes of large writes.
pub fn capacity(stand: &Stand, seed: u64) -> Result<u64, String> {
    let second = Nanos::from_secs(1);
    let span = Span { warmup: second, measured: second };
    let load = |size| writes(Arrivals::Poisson, 1 << 30, size, seed);
    Ok(saturate(stand, System::RAID10, seed, span, load)?.answered * LARGE)
}

/// A trace, and how many times as fast it is played.
#[derive(Clone)]
pub struct Recording {
    name: String,
    path: PathBuf,
    times: u64,
    requests: Recorded,
}

/// All traces in a folder, by name.
pub fn recordings(folder: &Path) -> Result<Vec<Recording>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains(".csv") {
            paths.push((name, path));
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{}: there is no trace (*.csv, *.csv.zst)", folder.display()));
    }
    paths.into_iter().map(|(name, path)| Recording::read(&name, path, 1)).collect()
}

impl Recording {
    fn read(name: &str, path: PathBuf, times: u64) -> Result<Recording, String> {
        let requests = Recorded::read(&path, times)?;
        let name = name.split(".csv").next().unwrap_or(name).to_owned();
        Ok(Recording { name, path, times, requests })
    }

    fn span(&self) -> Span {
        Span { warmup: Nanos::ZERO, measured: Nanos(self.requests.length().0 + 1) }
    }

    /// So that it asks for a part of what RAID10 can do of it; `None` if it does so already.
    pub fn sped_up(&self, stand: &Stand, seed: u64) -> Result<Option<Recording>, String> {
        let span = Span { warmup: Nanos::ZERO, measured: CLOSED_LOOP_MAX };
        let load = |size| self.requests.within(size);
        let took = saturate(stand, System::RAID10, seed, span, load)?.took;
        let times = self.requests.length().0 * SPED_UP_PERCENT / 100 / took.0.max(1);
        let faster = || Recording::read(&self.name, self.path.clone(), times);
        (times > 1).then(faster).transpose()
    }
}
