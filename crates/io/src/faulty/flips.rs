//! Bits that changed at rest. They are kept beside the drive and put over what is read, so
//! that flipping them can't race with a write to the same place; what is written there is
//! whole again.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::buf::{Buf, BufMut};
use crate::rng::Rng;

/// By byte: which of its bits read wrong. Bounded by what is armed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flips {
    masks: BTreeMap<u64, u8>,
}

impl Flips {
    /// Flips `bits` bits somewhere in the range. One flipped twice is as it was.
    pub fn add(&mut self, range: Range<u64>, bits: u32, rng: &mut Rng) {
        for _ in 0..bits {
            let at = range.start + rng.below(range.end - range.start);
            let mask = self.masks.entry(at).or_default();
            *mask ^= 1 << rng.below(8);
            if *mask == 0 {
                self.masks.remove(&at);
            }
        }
    }

    pub fn overwritten(&mut self, range: Range<u64>) {
        let inside: Vec<u64> = self.masks.range(range).map(|(&at, _)| at).collect();
        for at in inside {
            self.masks.remove(&at);
        }
    }

    /// What a read of these bytes gives.
    pub fn over(&self, offset: u64, data: Buf) -> Buf {
        let mut flipped = self.masks.range(offset..offset + data.len() as u64).peekable();
        if flipped.peek().is_none() {
            return data;
        }
        let mut bytes = BufMut::with_len(data.len());
        bytes.copy_from_slice(&data);
        for (at, mask) in flipped {
            bytes[(at - offset) as usize] ^= mask;
        }
        bytes.freeze()
    }

    /// Bytes that read wrong.
    pub fn bytes(&self) -> impl Iterator<Item = u64> {
        self.masks.keys().copied()
    }
}
