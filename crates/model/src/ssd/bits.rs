//! A set of small numbers, one bit each.

#[derive(Clone, Debug)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub fn new(size: u32) -> Bits {
        Bits { words: vec![0; size.div_ceil(64) as usize] }
    }

    pub fn has(&self, index: u32) -> bool {
        self.words[(index / 64) as usize] >> (index % 64) & 1 == 1
    }

    /// Whether it is new.
    pub fn insert(&mut self, index: u32) -> bool {
        let word = &mut self.words[(index / 64) as usize];
        let bit = 1 << (index % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Whether it was there.
    pub fn remove(&mut self, index: u32) -> bool {
        let word = &mut self.words[(index / 64) as usize];
        let bit = 1 << (index % 64);
        let old = *word & bit != 0;
        *word &= !bit;
        old
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
    }
}
