//! A trace made to fit: a part of it, faster or slower, fewer devices, a dense or smaller space.
//!
//! ```text
//!   cut -> devices -> dense addresses -> clamped to a size -> time scaled
//! ```

use io::Nanos;
use rustc_hash::FxHashMap;

use super::record::Record;

/// What becomes of several devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Devices {
    /// As they are
    #[default]
    Keep,
    /// All on one, at the same addresses
    Onto,
    /// Each on its part of one (--part-gib)
    Apart,
}

#[derive(clap::Args, Clone, Debug)]
pub struct Transform {
    /// Leave out what is before this second
    #[arg(long, default_value_t = 0.0)]
    pub from: f64,
    /// So many seconds
    #[arg(long)]
    pub seconds: Option<f64>,
    /// So many requests
    #[arg(long)]
    pub requests: Option<u64>,
    /// So many times as fast
    #[arg(long)]
    pub times: Option<f64>,
    #[arg(long, value_enum, default_value_t)]
    pub devices: Devices,
    /// With --devices apart: the part of each
    #[arg(long, default_value_t = 64)]
    pub part_gib: u64,
    /// Pieces of so many KiB are laid side by side as they are first touched, all on one device
    #[arg(long)]
    pub dense_kib: Option<u64>,
    /// Folded into so many MiB
    #[arg(long)]
    pub clamp_mib: Option<u64>,
}

impl Default for Transform {
    fn default() -> Transform {
        Transform {
            from: 0.0,
            seconds: None,
            requests: None,
            times: None,
            devices: Devices::default(),
            part_gib: 64,
            dense_kib: None,
            clamp_mib: None,
        }
    }
}

/// Pieces that are told apart: a pebibyte of 64 MiB each, or 16 GiB of 1 KiB.
const PIECES_MAX: usize = 1 << 24;

impl Transform {
    /// Whether all requests are on one device afterwards.
    pub fn is_one_device(&self) -> bool {
        self.devices != Devices::Keep || self.dense_kib.is_some()
    }

    pub fn problem(&self) -> Option<&'static str> {
        let positive = |value: Option<f64>| value.is_none_or(|value| value > 0.0);
        if !positive(self.seconds) || !positive(self.times) || self.from < 0.0 {
            return Some("times are positive");
        }
        if self.dense_kib == Some(0) || self.clamp_mib == Some(0) || self.part_gib == 0 {
            return Some("sizes are not zero");
        }
        let too_many = |value: Option<u64>, bits: u32| value.is_some_and(|v| v > u64::MAX >> bits);
        let too_large = too_many(self.dense_kib, 11) || too_many(self.clamp_mib, 21);
        (too_large || self.part_gib > 1 << 32).then_some("sizes beyond every device")
    }
}

/// Applies a [`Transform`] to requests, one after another.
pub struct Changer {
    transform: Transform,
    from: Nanos,
    until: Nanos,
    /// Of those within the cut.
    first: Option<Nanos>,
    taken: u64,
    /// By device and piece of it; never iterated.
    pieces: FxHashMap<(u32, u64), u64>,
}

impl Changer {
    pub fn new(transform: &Transform) -> Result<Changer, String> {
        if let Some(problem) = transform.problem() {
            return Err(problem.to_owned());
        }
        let from = nanos(transform.from);
        let until = transform.seconds.map_or(u64::MAX, |span| from.saturating_add(nanos(span)));
        Ok(Changer {
            transform: transform.clone(),
            from: Nanos(from),
            until: Nanos(until),
            first: None,
            taken: 0,
            pieces: FxHashMap::default(),
        })
    }

    /// Whether everything that follows is cut off.
    pub fn is_over(&self, at: Nanos) -> bool {
        at >= self.until || self.transform.requests.is_some_and(|most| self.taken >= most)
    }

    /// What becomes of a request: usually one, none before the cut, several where addresses are
    /// torn apart.
    pub fn change(&mut self, record: Record, out: &mut Vec<Record>) -> Result<(), String> {
        if record.at < self.from || self.is_over(record.at) {
            return Ok(());
        }
        self.taken += 1;
        let first = *self.first.get_or_insert(record.at);
        let at = record.at.saturating_sub(first);
        let at = self.transform.times.map_or(at, |times| Nanos((at.0 as f64 / times) as u64));
        let mut record = Record { at, ..record };
        match self.transform.devices {
            Devices::Keep => {}
            Devices::Onto => record.device = 0,
            Devices::Apart => record = apart(record, self.transform.part_gib << 30)?,
        }
        let begin = out.len();
        match self.transform.dense_kib {
            Some(kib) => self.dense(record, kib << 10, out)?,
            None => out.push(record),
        }
        if let Some(mib) = self.transform.clamp_mib {
            out[begin..].iter_mut().for_each(|record| clamp(record, mib << 20));
        }
        Ok(())
    }

    fn dense(&mut self, record: Record, piece: u64, out: &mut Vec<Record>) -> Result<(), String> {
        let begin = out.len();
        let mut offset = record.offset;
        while offset < record.end() {
            let next = (offset / piece + 1).saturating_mul(piece);
            let len = next.min(record.end()) - offset;
            let count = self.pieces.len();
            let key = (record.device, offset / piece);
            let place = *self.pieces.entry(key).or_insert(count as u64);
            if self.pieces.len() > PIECES_MAX {
                return Err(format!("more than {PIECES_MAX} pieces: --dense-kib must be larger"));
            }
            let to = place * piece + offset % piece;
            offset += len;
            match out[begin..].last_mut() {
                Some(last) if last.end() == to => last.len += len,
                _ => out.push(Record { device: 0, offset: to, len, ..record }),
            }
        }
        Ok(())
    }
}

/// Beyond what a clock of 64 bits counts is never.
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

fn apart(record: Record, part: u64) -> Result<Record, String> {
    let mut within = record;
    clamp(&mut within, part);
    let start = part.checked_mul(record.device.into()).and_then(|at| at.checked_add(part));
    let start = start.ok_or("the parts of so many devices are larger than any: --part-gib")? - part;
    Ok(Record { device: 0, offset: start + within.offset, ..within })
}

/// Folds into `size` bytes; nothing reaches over their end.
pub fn clamp(record: &mut Record, size: u64) {
    record.len = record.len.min(size);
    record.offset = (record.offset % size).min(size - record.len);
}

#[cfg(test)]
mod tests {
    use super::super::record::Op;
    use super::*;

    fn record(millis: u64, device: u32, offset: u64, len: u64) -> Record {
        Record { at: Nanos::from_millis(millis), device, offset, len, op: Op::Write }
    }

    fn changed(transform: &Transform, records: &[Record]) -> Vec<(u64, u32, u64, u64)> {
        let mut changer = Changer::new(transform).unwrap();
        let mut out = Vec::new();
        records.iter().for_each(|&record| changer.change(record, &mut out).unwrap());
        out.iter().map(|r| (r.at.0 / 1_000_000, r.device, r.offset, r.len)).collect()
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_part_counts_from_its_first_request_and_faster_is_shorter() {
        let records: Vec<Record> = (0..10).map(|at| record(at * 1000, 0, 0, 512)).collect();
        let part = Transform { from: 2.5, seconds: Some(3.0), ..Transform::default() };
        assert_eq!(
            changed(&part, &records).iter().map(|r| r.0).collect::<Vec<_>>(),
            [0, 1000, 2000]
        );
        let fast = Transform { times: Some(4.0), requests: Some(2), ..Transform::default() };
        let times: Vec<u64> = changed(&fast, &records).iter().map(|r| r.0).collect();
        assert_eq!(times, [0, 250]);
    }

    #[test]
    fn devices_are_folded_or_laid_apart() {
        let records = [record(0, 0, 4096, 512), record(0, 3, (5 << 30) + 4096, 1024)];
        let onto = Transform { devices: Devices::Onto, ..Transform::default() };
        let wanted = [(0, 0, 4096, 512), (0, 0, (5 << 30) + 4096, 1024)];
        assert_eq!(changed(&onto, &records), wanted);
        let apart = Transform { devices: Devices::Apart, part_gib: 2, ..Transform::default() };
        let wanted = [(0, 0, 4096, 512), (0, 0, (7 << 30) + 4096, 1024)];
        assert_eq!(changed(&apart, &records), wanted);
    }

    #[test]
    fn a_sparse_space_becomes_dense_and_the_same_place_stays_the_same() {
        let dense = Transform { dense_kib: Some(1024), ..Transform::default() };
        let far = 1 << 50;
        let records = [
            record(0, 0, far + 100 * 512, 512),
            record(1, 1, far + 100 * 512, 512),
            record(2, 0, far + 200 * 512, 512),
            // Over three pieces, the first known: the others follow on the second of all.
            record(3, 0, far + MIB - 512, MIB + 1024),
        ];
        let wanted = [
            (0, 0, 51_200, 512),
            (1, 0, MIB + 51_200, 512),
            (2, 0, 102_400, 512),
            (3, 0, MIB - 512, 512),
            (3, 0, 2 * MIB, MIB + 512),
        ];
        assert_eq!(changed(&dense, &records), wanted);
        let last = [record(0, 0, u64::MAX - 1024, 1024)];
        assert_eq!(changed(&dense, &last)[0].3, 1024);
    }

    #[test]
    fn nothing_reaches_over_the_end_of_a_smaller_space() {
        let small = Transform { clamp_mib: Some(1), ..Transform::default() };
        let records = [record(0, 0, 5 * MIB + 512, 1024), record(0, 0, MIB - 512, 2048)];
        let wanted = [(0, 0, 512, 1024), (0, 0, MIB - 2048, 2048)];
        assert_eq!(changed(&small, &records), wanted);
        assert_eq!(changed(&small, &[record(0, 0, 0, 3 * MIB)]), [(0, 0, 0, MIB)]);
        assert!(Changer::new(&Transform { clamp_mib: Some(0), ..Transform::default() }).is_err());
    }
}
