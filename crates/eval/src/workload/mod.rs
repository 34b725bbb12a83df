//! Workloads made from a few parameters and a seed: when requests come, which they are, where they
//! go. Presets have the figures that the papers print of their traces; `fit` finds the parameters
//! of a trace.
//!
//! ```text
//!   Arrivals   a chain of phases, each a chain of levels of load, one slot of time each; within
//!              a slot, batches of requests, independent of one another
//!   kind       reads and writes by their share
//!   Kind       sizes by their share; single requests, and runs that go on where the last ended;
//!              a place never touched before, or one of the old ones, the older the more likely
//! ```
//! Shares are exact at any length (see `deck`), so that a minute of a workload has the figures of
//! an hour. The same seed gives the same requests on every machine (see `exact`).

pub mod arrivals;
mod deck;
mod exact;
pub mod fit;
pub mod lsm;
pub mod majority;
mod places;
pub mod presets;
mod space;
pub mod verbs;

use io::Nanos;
use io::rng::Rng;
use serde::{Deserialize, Serialize};

use self::arrivals::{Arrivals, Clock};
use self::deck::Deck;
use self::places::Stream;
use self::space::Space;
use crate::trace::record::{Op, Record};

/// Bytes that requests and their places are multiples of.
pub const SECTOR: u64 = 512;
/// Longer requests are damage, as in traces.
const REQUEST_MAX: u64 = crate::trace::reader::LENGTH_MAX;
/// Sizes of a kind; each has its own places.
const SIZES_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    pub name: String,
    pub arrivals: Arrivals,
    /// Part of the requests that are reads.
    pub read_share: f64,
    pub reads: Kind,
    pub writes: Kind,
    /// Bytes of the space it uses.
    pub span: u64,
    /// What places begin at multiples of.
    pub align: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// Bytes of a request, and the part of those.
    pub sizes: Vec<(u64, f64)>,
    /// Part of the requests that go on where the one before ended.
    pub sequential: f64,
    /// Requests of a run.
    pub run: u64,
    /// Part of the places that were not touched by this kind before.
    pub fresh: f64,
    /// How popular old places are: the n-th oldest as often as n to the power of minus this.
    pub skew: f64,
    /// Of fresh places to read, the part that was written before.
    pub shared: f64,
}

impl Workload {
    /// What is wrong with it, if anything is.
    pub fn problem(&self) -> Option<&'static str> {
        let share = |value: f64| (0.0..=1.0).contains(&value);
        if !share(self.read_share) {
            return Some("read_share is a part of one");
        }
        if !self.align.is_power_of_two() || self.align < SECTOR || self.align > 1 << 20 {
            return Some("align is a power of two from 512 to 1 MiB");
        }
        let kinds = [(&self.reads, self.read_share), (&self.writes, 1.0 - self.read_share)];
        for (kind, _) in kinds.iter().filter(|(_, share)| *share > 0.0) {
            let parts = [kind.sequential, kind.fresh, kind.shared];
            if !parts.into_iter().all(share) || !(0.0..=10.0).contains(&kind.skew) {
                return Some("sequential, fresh and shared are parts of one, skew at most 10");
            }
            if kind.sizes.is_empty() || kind.sizes.len() > SIZES_MAX {
                return Some("sizes are one to 256");
            }
            let fits = |&(bytes, part): &(u64, f64)| {
                bytes > 0 && bytes % SECTOR == 0 && bytes <= REQUEST_MAX && part > 0.0 && part < 1e9
            };
            if !kind.sizes.iter().all(fits) {
                return Some(
                    "sizes are sectors of 512 bytes, at most 256 MiB, their parts positive",
                );
            }
        }
        if self.span < 4 * self.largest().max(places::RUN_BYTES_MAX) || self.span > 1 << 60 {
            return Some("span is four times the largest run at least, and of some device");
        }
        self.arrivals.problem()
    }

    pub fn largest(&self) -> u64 {
        let sizes = self.reads.sizes.iter().chain(&self.writes.sizes);
        sizes.map(|&(bytes, _)| bytes).max().unwrap_or(SECTOR)
    }

    pub fn largest_write(&self) -> u64 {
        self.writes.sizes.iter().map(|&(bytes, _)| bytes).max().unwrap_or(SECTOR)
    }

    /// So many times as fast.
    pub fn times(mut self, times: f64) -> Workload {
        self.arrivals.scale(times);
        self
    }

    /// Its requests, without end.
    pub fn requests(&self, seed: u64) -> Requests {
        assert_eq!(self.problem(), None, "{}", self.name);
        // Streams of their own: another size does not change when requests come.
        let rng = |index: u64| Rng::new(io::rng::mix(seed).wrapping_add(index));
        let shares = [self.read_share, 1.0 - self.read_share];
        let streams = [&self.reads, &self.writes].map(Stream::new);
        let largest = streams.iter().map(Stream::largest_place).max().unwrap_or(SECTOR);
        Requests {
            clock: Clock::new(&self.arrivals, rng(1)),
            kinds: Deck::of_shares(shares.into_iter(), 1000),
            streams,
            space: Space::new(self.span, largest, self.align, seed),
            rng: rng(2),
        }
    }

    /// Those of so much time.
    pub fn during(&self, span: Nanos, seed: u64) -> impl Iterator<Item = Record> + use<> {
        self.requests(seed).take_while(move |record| record.at < span)
    }
}

pub struct Requests {
    clock: Clock,
    kinds: Deck,
    streams: [Stream; 2],
    space: Space,
    rng: Rng,
}

impl Iterator for Requests {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let at = self.clock.tick();
        let kind = self.kinds.draw(&mut self.rng);
        let (offset, len) = self.streams[kind].next(kind, &mut self.space, &mut self.rng);
        let op = [Op::Read, Op::Write][kind];
        Some(Record { at, device: 0, offset, len, op })
    }
}

/// Sizes with an average: each of them as often as a power of its rank, whichever power gives it.
pub fn sizes_averaging(sizes: &[u64], average: f64) -> Vec<(u64, f64)> {
    let mix = |ratio: f64| -> Vec<(u64, f64)> {
        let weights: Vec<f64> = (0..sizes.len() as i32).map(|at| ratio.powi(at)).collect();
        let sum: f64 = weights.iter().sum();
        sizes.iter().zip(weights).map(|(&size, weight)| (size, weight / sum)).collect()
    };
    let mean = |mix: &[(u64, f64)]| mix.iter().map(|&(size, part)| size as f64 * part).sum::<f64>();
    let (mut low, mut high) = (1e-6, 1e6);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if mean(&mix(middle)) < average { low = middle } else { high = middle }
    }
    mix(low)
}

#[cfg(test)]
mod tests;
