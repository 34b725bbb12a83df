//! What a drive does not hold yet that is being filled: one bit a block.

use std::ops::Range;

pub struct Awaited {
    /// Bytes of the drive.
    range: Range<u64>,
    block: u64,
    bits: Vec<u64>,
    left: u64,
    total: u64,
}

impl Awaited {
    /// Everything.
    pub fn all(range: Range<u64>, block_size: u32) -> Awaited {
        let mut awaited = Awaited::nothing(range, block_size);
        let blocks = awaited.blocks();
        awaited.bits.fill(u64::MAX);
        (awaited.left, awaited.total) = (blocks, blocks);
        awaited
    }

    pub fn nothing(range: Range<u64>, block_size: u32) -> Awaited {
        let block = u64::from(block_size);
        let words = ((range.end - range.start) / block).div_ceil(64) as usize;
        Awaited { range, block, bits: vec![0; words], left: 0, total: 0 }
    }

    fn blocks(&self) -> u64 {
        (self.range.end - self.range.start) / self.block
    }

    /// Number of the block at a byte of the drive; `None` outside the range.
    fn block_at(&self, offset: u64) -> Option<u64> {
        let at = offset.checked_sub(self.range.start)? / self.block;
        (at < self.blocks()).then_some(at)
    }

    fn has(&self, block: u64) -> bool {
        self.bits[(block / 64) as usize] & 1 << (block % 64) != 0
    }

    /// One more block that is to come.
    pub fn add(&mut self, offset: u64) {
        let block = self.block_at(offset).expect("blocks lie in their range");
        if !self.has(block) {
            self.bits[(block / 64) as usize] |= 1 << (block % 64);
            self.left += 1;
            self.total += 1;
        }
    }

    pub fn overlaps(&self, offset: u64, len: u64) -> bool {
        let last = self.block_at(offset + len - 1);
        let (Some(first), Some(last)) = (self.block_at(offset), last) else { return false };
        (first..=last).any(|block| self.has(block))
    }

    /// The block that begins here is there.
    pub fn arrived(&mut self, offset: u64) {
        let block = self.block_at(offset).expect("blocks lie in their range");
        if self.has(block) {
            self.bits[(block / 64) as usize] &= !(1 << (block % 64));
            self.left -= 1;
        }
    }

    /// What had been added, or not, is to come (again).
    pub fn again(&mut self, offset: u64) {
        let total = self.total;
        if self.block_at(offset).is_some() {
            self.add(offset);
        }
        self.total = total;
    }

    /// Where the first block begins that is to come, from `offset` on.
    pub fn next(&self, offset: u64) -> Option<u64> {
        let first = self.block_at(offset)?;
        let mut word = (first / 64) as usize;
        let mut bits = self.bits[word] & u64::MAX << (first % 64);
        while bits == 0 {
            word += 1;
            bits = *self.bits.get(word)?;
        }
        let block = word as u64 * 64 + u64::from(bits.trailing_zeros());
        Some(self.range.start + block * self.block)
    }

    pub fn left(&self) -> u64 {
        self.left
    }

    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: u64 = 1 << 20;
    const RANGE: Range<u64> = BEGIN..BEGIN + 100 * 4096;

    #[test]
    fn everything_is_awaited_until_it_arrives() {
        let mut awaited = Awaited::all(RANGE, 4096);
        assert_eq!((awaited.left(), awaited.total()), (100, 100));
        assert!(!awaited.overlaps(0, 4096), "labels are none of its business");
        assert!(awaited.overlaps(BEGIN + 99 * 4096, 512));
        assert!(!awaited.overlaps(BEGIN + 100 * 4096, 512));
        for block in 0..100 {
            awaited.arrived(BEGIN + block * 4096);
            awaited.arrived(BEGIN + block * 4096);
            assert!(!awaited.overlaps(BEGIN + block * 4096, 4096));
        }
        assert_eq!((awaited.left(), awaited.total()), (0, 100));
    }

    #[test]
    fn only_what_was_added_is_awaited() {
        let mut awaited = Awaited::nothing(RANGE, 4096);
        for block in [3, 64, 64, 65] {
            awaited.add(BEGIN + block * 4096);
        }
        assert_eq!((awaited.left(), awaited.total()), (3, 3));
        assert!(awaited.overlaps(BEGIN + 2 * 4096, 4097));
        assert!(!awaited.overlaps(BEGIN, 3 * 4096));
        assert!(!awaited.overlaps(BEGIN + 66 * 4096, 34 * 4096));
        let next = |from: u64| awaited.next(BEGIN + from * 4096);
        let at = |block: u64| Some(BEGIN + block * 4096);
        assert_eq!([next(0), next(3), next(4), next(65)], [at(3), at(3), at(64), at(65)]);
        assert_eq!([next(66), next(99), next(100)], [None; 3]);
    }
}
