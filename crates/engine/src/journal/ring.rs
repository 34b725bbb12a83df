//! The journal's ring on one drive: where the next block goes, and what can be overwritten.
//!
//! ```text
//! 0        tail                      head        len
//! |........|block|block|  ...  |block|...........|      used = head - tail, around the end
//! ```
//!
//! A block never wraps: if it doesn't fit before the end, the rest of the ring is skipped and
//! counted as used by it. Space is used again only when the block is forgotten *and* its write is
//! over: one that a slow drive carries out late must not overwrite a newer block.

use std::collections::VecDeque;

pub struct Ring {
    len: u64,
    head: u64,
    used: u64,
    /// Oldest first.
    blocks: VecDeque<Placed>,
    /// Blocks before this one are forgotten.
    start: u64,
}

struct Placed {
    sequence: u64,
    /// Skipped ones included.
    bytes: u64,
    over: bool,
}

impl Ring {
    pub fn new(len: u64) -> Ring {
        Ring { len, head: 0, used: 0, blocks: VecDeque::new(), start: 0 }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn used(&self) -> u64 {
        self.used
    }

    fn skipped(&self, bytes: u64) -> u64 {
        if self.head + bytes <= self.len { 0 } else { self.len - self.head }
    }

    pub fn fits(&self, bytes: u64) -> bool {
        self.used + self.skipped(bytes) + bytes <= self.len
    }

    /// Places a block of `bytes`; returns its offset in the ring.
    pub fn push(&mut self, sequence: u64, bytes: u64) -> u64 {
        assert!(self.fits(bytes), "the journal never overwrites what recovery may need");
        let skipped = self.skipped(bytes);
        let offset = if skipped > 0 { 0 } else { self.head };
        self.head = (offset + bytes) % self.len;
        self.used += skipped + bytes;
        self.blocks.push_back(Placed { sequence, bytes: skipped + bytes, over: false });
        offset
    }

    /// The write of block `sequence` is over, well or badly.
    pub fn over(&mut self, sequence: u64) {
        let found = self.blocks.iter_mut().rev().find(|block| block.sequence == sequence);
        found.expect("a block is placed before it is written").over = true;
        self.release();
    }

    pub fn forget_before(&mut self, start: u64) {
        self.start = self.start.max(start);
        self.release();
    }

    fn release(&mut self) {
        // Blocks may be placed slightly out of order (retries); stop at the first that stays.
        while let Some(block) = self.blocks.front() {
            if block.sequence >= self.start || !block.over {
                break;
            }
            self.used -= block.bytes;
            self.blocks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_never_overlap_what_is_not_forgotten() {
        let mut ring = Ring::new(64);
        let mut live: Vec<(u64, u64, u64)> = Vec::new();
        let mut random = 12345_u64;
        for sequence in 1..2000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let bytes = 1 + (random >> 33) % 20;
            while !ring.fits(bytes) {
                let (oldest, ..) = live.remove(0);
                ring.forget_before(oldest + 1);
                ring.over(oldest);
            }
            let offset = ring.push(sequence, bytes);
            assert!(offset + bytes <= 64);
            let clear =
                |&(_, at, len): &(u64, u64, u64)| offset + bytes <= at || at + len <= offset;
            assert!(live.iter().all(clear), "block {sequence} overwrites a live one");
            live.push((sequence, offset, bytes));
        }
    }

    #[test]
    fn a_block_that_is_being_written_keeps_its_place() {
        let mut ring = Ring::new(64);
        ring.push(1, 40);
        ring.push(2, 10);
        ring.over(2);
        ring.forget_before(3);
        assert!(!ring.fits(40), "block 1 may still arrive");
        ring.over(1);
        assert!(ring.fits(40));
        assert_eq!(ring.used(), 0);
    }
}
