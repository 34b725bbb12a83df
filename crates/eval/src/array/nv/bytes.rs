//! The newest bytes of ranges that do not overlap.

use std::collections::BTreeMap;
use std::ops::Range;

use io::{Buf, BufMut};

#[derive(Clone, Debug, Default)]
pub struct Bytes {
    /// By the first byte.
    parts: BTreeMap<u64, Buf>,
    len: u64,
}

impl Bytes {
    pub fn len(&self) -> u64 {
        self.len
    }

    /// What was there before is gone.
    pub fn put(&mut self, at: u64, data: Buf) {
        let end = at + data.len() as u64;
        self.cut(at..end);
        self.len += end - at;
        self.parts.insert(at, data);
    }

    fn cut(&mut self, range: Range<u64>) {
        let touched: Vec<u64> = self.touched(&range).map(|(&start, _)| start).collect();
        for start in touched {
            let part = self.parts.remove(&start).expect("it was there");
            let end = start + part.len() as u64;
            self.len -= end - start;
            let left = start..range.start.max(start);
            let right = range.end.min(end)..end;
            for rest in [left, right].into_iter().filter(|rest| !rest.is_empty()) {
                self.len += rest.end - rest.start;
                let within = (rest.start - start) as usize..(rest.end - start) as usize;
                self.parts.insert(rest.start, part.slice(within));
            }
        }
    }

    /// Parts that overlap a range.
    fn touched(&self, range: &Range<u64>) -> impl Iterator<Item = (&u64, &Buf)> + use<'_> {
        let (start, end) = (range.start, range.end);
        let before = self.parts.range(..start).next_back();
        let before = before.filter(move |(at, part)| **at + part.len() as u64 > start);
        before.into_iter().chain(self.parts.range(start..end))
    }

    /// What there is of a range, in order.
    pub fn within(&self, range: Range<u64>) -> Vec<(u64, Buf)> {
        let part = |(&at, part): (&u64, &Buf)| {
            let (start, end) = (at.max(range.start), range.end.min(at + part.len() as u64));
            (start, part.slice((start - at) as usize..(end - at) as usize))
        };
        self.touched(&range).map(part).collect()
    }

    /// Everything, neighbours in one piece.
    pub fn runs(&self) -> Vec<(u64, Buf)> {
        let mut runs: Vec<(u64, Vec<&Buf>, u64)> = Vec::new();
        for (&at, part) in &self.parts {
            let end = at + part.len() as u64;
            match runs.last_mut() {
                Some((_, parts, until)) if *until == at => {
                    parts.push(part);
                    *until = end;
                }
                _ => runs.push((at, vec![part], end)),
            }
        }
        runs.into_iter().map(|(at, parts, end)| (at, join(&parts, (end - at) as usize))).collect()
    }
}

fn join(parts: &[&Buf], len: usize) -> Buf {
    if let [part] = parts {
        return (*part).clone();
    }
    let (mut whole, mut at) = (BufMut::with_len(len), 0);
    for part in parts {
        whole[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    whole.freeze()
}

#[cfg(test)]
mod tests {
    use io::rng::Rng;

    use super::*;

    const SIZE: u64 = 64;

    /// What a flat row of bytes would hold, `None` where nothing was put.
    fn check(bytes: &Bytes, row: &[Option<u8>], range: Range<u64>) {
        let mut seen = vec![None; row.len()];
        for (at, part) in bytes.within(range.clone()) {
            for (byte, place) in part.iter().zip(at as usize..) {
                assert_eq!(seen[place].replace(*byte), None, "parts do not overlap");
            }
        }
        for at in 0..row.len() as u64 {
            let wanted = row[at as usize].filter(|_| range.contains(&at));
            assert_eq!(seen[at as usize], wanted, "byte {at} of {range:?}");
        }
    }

    #[test]
    fn ranges_hold_what_a_row_of_bytes_would() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut bytes, mut row) = (Bytes::default(), vec![None; SIZE as usize]);
            for round in 0..30u8 {
                let start = rng.below(SIZE - 1);
                let len = 1 + rng.below((SIZE - start).min(20));
                bytes.put(start, Buf::from_slice(&vec![round; len as usize]));
                row[start as usize..(start + len) as usize].fill(Some(round));
                assert_eq!(bytes.len(), row.iter().flatten().count() as u64);
                let from = rng.below(SIZE);
                check(&bytes, &row, from..from + rng.below(SIZE - from + 1));
                let runs = bytes.runs();
                let ends = runs.iter().map(|(at, run)| at + run.len() as u64);
                assert!(ends.zip(runs.iter().skip(1)).all(|(end, (next, _))| end < *next));
                let held: u64 = runs.iter().map(|(_, run)| run.len() as u64).sum();
                assert_eq!(held, bytes.len());
            }
        }
    }
}
