//! What writes are to an array with parity: HybRAID's classes (its Figure 3).
//!
//! A write is cut where stripes end. Each piece is *full* if it covers the data of a stripe,
//! *small* if it is within one unit, *partial* otherwise.

use serde::Serialize;

/// HybRAID's arrays: three data drives.
const DATA_DRIVES: u64 = 3;

#[derive(Clone, Copy, Debug)]
pub struct Stripes {
    unit: u64,
    pieces: [u64; 3],
    bytes: [u64; 3],
}

/// Small, partial, full: parts of the pieces, and of the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StripeFigures {
    pub unit_kib: u64,
    pub pieces: [f64; 3],
    pub bytes: [f64; 3],
}

impl Stripes {
    pub fn new(unit: u64) -> Stripes {
        Stripes { unit, pieces: [0; 3], bytes: [0; 3] }
    }

    pub fn add(&mut self, offset: u64, len: u64) {
        let stripe = self.unit * DATA_DRIVES;
        let end = offset + len;
        let (first, last) = (offset / stripe, (end - 1) / stripe);
        if first == last {
            self.piece(offset, end, 1);
            return;
        }
        self.piece(offset, (first + 1) * stripe, 1);
        if last - first > 1 {
            self.piece(0, stripe, last - first - 1);
        }
        self.piece(last * stripe, end, 1);
    }

    /// So many pieces that are alike, each within a stripe.
    fn piece(&mut self, begin: u64, end: u64, count: u64) {
        let class = if end - begin == self.unit * DATA_DRIVES {
            2
        } else {
            usize::from(begin / self.unit != (end - 1) / self.unit)
        };
        self.pieces[class] += count;
        self.bytes[class] += (end - begin) * count;
    }

    pub fn figures(&self) -> StripeFigures {
        let shares = |counts: [u64; 3]| {
            let all = counts.iter().sum::<u64>().max(1) as f64;
            counts.map(|count| count as f64 / all)
        };
        StripeFigures {
            unit_kib: self.unit >> 10,
            pieces: shares(self.pieces),
            bytes: shares(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_as_unit_by_unit() {
        const UNIT: u64 = 4096;
        for (offset, len) in
            [(0, 4096), (4096, 8192), (8192, 8192), (0, 12288), (512, 12288), (4096, 70000), (5, 1)]
        {
            let mut stripes = Stripes::new(UNIT);
            stripes.add(offset, len);
            // Bytes by stripe and unit, then classed.
            let mut by_stripe = std::collections::BTreeMap::new();
            for at in offset..offset + len {
                let units: &mut [u64; 3] = by_stripe.entry(at / UNIT / 3).or_default();
                units[(at / UNIT % 3) as usize] += 1;
            }
            let mut pieces = [0; 3];
            let mut bytes = [0; 3];
            for units in by_stripe.values() {
                let touched = units.iter().filter(|&&bytes| bytes > 0).count();
                let class = if *units == [UNIT; 3] { 2 } else { usize::from(touched > 1) };
                pieces[class] += 1;
                bytes[class] += units.iter().sum::<u64>();
            }
            assert_eq!((stripes.pieces, stripes.bytes), (pieces, bytes), "{offset} {len}");
        }
    }
}
