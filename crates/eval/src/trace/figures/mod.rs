//! What a trace is like, in figures: those that the papers print of theirs, and those that a
//! generator must meet.

mod bursts;
mod intensity;
mod places;
mod sizes;
mod stripes;

use io::Nanos;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::record::{Op, Record};

pub use bursts::{Burstiness, Slots};
pub use intensity::{Intensity, IntensityFigures};
pub use places::{BLOCK, Footprint, PAGE, Places};
pub use sizes::{SizeFigures, Sizes};
pub use stripes::{StripeFigures, Stripes};

/// All of it. Shares are parts of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub requests: u64,
    /// From the first request to the last.
    pub seconds: f64,
    pub iops: f64,
    pub mib_per_second: f64,
    pub devices: u64,
    pub read_share: f64,
    pub write_share: f64,
    pub average_kb: f64,
    pub reads: SizeFigures,
    pub writes: SizeFigures,
    pub discards: SizeFigures,
    /// By 1 s, 10 ms, 1 ms.
    pub by_second: Burstiness,
    pub by_10_ms: Burstiness,
    pub by_ms: Burstiness,
    pub footprint: Footprint,
    /// End of the last byte of any device.
    pub end_gib: f64,
    /// Requests that begin where the one before of their device and kind ended.
    pub sequential_reads: f64,
    pub sequential_writes: f64,
    /// Requests of whole pages of 4 KiB.
    pub aligned_share: f64,
    /// Writes by HybRAID's classes: 3+1 drives, units of 4 and of 8 KiB.
    pub stripes: [StripeFigures; 2],
}

pub struct Meter {
    requests: u64,
    first: Nanos,
    last: Nanos,
    sizes: [Sizes; 3],
    slots: [Slots; 3],
    places: Places,
    /// By device and kind; never iterated. Readers bound the devices.
    ends: FxHashMap<(u32, Op), u64>,
    devices: u64,
    sequential: [u64; 3],
    aligned: u64,
    end: u64,
    stripes: [Stripes; 2],
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            requests: 0,
            first: Nanos::ZERO,
            last: Nanos::ZERO,
            sizes: Default::default(),
            slots: [1000, 10, 1].map(|millis| Slots::new(Nanos::from_millis(millis))),
            places: Places::default(),
            ends: FxHashMap::default(),
            devices: 0,
            sequential: [0; 3],
            aligned: 0,
            end: 0,
            stripes: [4096, 8192].map(Stripes::new),
        }
    }
}

impl Meter {
    /// In the order of time.
    pub fn add(&mut self, record: &Record) {
        if self.requests == 0 {
            self.first = record.at;
        }
        self.requests += 1;
        self.last = record.at;
        let since = record.at.saturating_sub(self.first);
        self.slots.iter_mut().for_each(|slots| slots.add(since));
        self.sizes[record.op as usize].add(record.len);
        self.places.add(record);
        self.devices = self.devices.max(u64::from(record.device) + 1);
        let before = self.ends.insert((record.device, record.op), record.end());
        self.sequential[record.op as usize] += u64::from(before == Some(record.offset));
        let pages = (record.offset | record.len).is_multiple_of(PAGE);
        self.aligned += u64::from(pages);
        self.end = self.end.max(record.end());
        if record.op == Op::Write {
            self.stripes.iter_mut().for_each(|stripes| stripes.add(record.offset, record.len));
        }
    }

    pub fn requests(&self) -> u64 {
        self.requests
    }

    pub fn sizes(&self, op: Op) -> &Sizes {
        &self.sizes[op as usize]
    }

    pub fn finish(self) -> Figures {
        let requests = self.requests.max(1) as f64;
        let seconds = self.last.saturating_sub(self.first).0 as f64 / 1e9;
        let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let bytes: f64 = self.sizes.iter().map(Sizes::bytes).sum();
        let of = |op: Op| self.sizes[op as usize].requests().max(1) as f64;
        let sequential = |op: Op| self.sequential[op as usize] as f64 / of(op);
        let share = |op: Op| self.sizes[op as usize].requests() as f64 / requests;
        let [by_second, by_10_ms, by_ms] = self.slots.map(Slots::finish);
        let [reads, writes, discards] = self.sizes.each_ref().map(Sizes::figures);
        Figures {
            requests: self.requests,
            seconds,
            iops: rate(self.requests as f64),
            mib_per_second: rate(bytes / (1 << 20) as f64),
            devices: self.devices,
            read_share: share(Op::Read),
            write_share: share(Op::Write),
            average_kb: bytes / requests / 1e3,
            sequential_reads: sequential(Op::Read),
            sequential_writes: sequential(Op::Write),
            reads,
            writes,
            discards,
            by_second,
            by_10_ms,
            by_ms,
            footprint: self.places.finish(),
            end_gib: self.end as f64 / (1u64 << 30) as f64,
            aligned_share: self.aligned as f64 / requests,
            stripes: self.stripes.map(|stripes| stripes.figures()),
        }
    }
}

impl Figures {
    /// Of a stream, all of it.
    pub fn of(records: impl Iterator<Item = Record>) -> Figures {
        let mut meter = Meter::default();
        records.for_each(|record| meter.add(&record));
        meter.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_shares_and_runs() {
        let record = |second: u64, op, offset, len| Record {
            at: Nanos::from_secs(100 + second),
            device: 0,
            offset,
            len,
            op,
        };
        let records = [
            record(0, Op::Write, 0, 4096),
            record(1, Op::Read, 1 << 20, 512),
            // It goes on where the write before ended.
            record(2, Op::Write, 4096, 4096),
            record(4, Op::Write, 0, 4096),
            record(4, Op::Discard, 0, 1 << 30),
        ];
        let seen = Figures::of(records.into_iter());
        assert_eq!((seen.requests, seen.seconds, seen.iops), (5, 4.0, 1.25));
        assert_eq!((seen.read_share, seen.write_share), (0.2, 0.6));
        assert!((seen.writes.average_kb - 4.096).abs() < 1e-9);
        assert!((seen.sequential_writes - 1.0 / 3.0).abs() < 1e-9);
        assert!((seen.footprint.update_share - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(seen.aligned_share, 0.8);
        assert_eq!(seen.by_second.peak, 2);
        assert_eq!(Figures::of(std::iter::empty()).requests, 0);
    }
}
