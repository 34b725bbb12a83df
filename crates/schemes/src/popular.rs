//! What was read lately, and what of it again: an LRU list of blocks with a bound.
//!
//! ```text
//!   most recent                                            longest ago, forgotten next
//!   [ 17: 3 reads ] [ 4: 1 ] [ 9: 2 ] ...................... [ 30: 1 ]
//!     popular                  popular
//! ```

use std::collections::BTreeMap;

pub struct Popular {
    capacity: usize,
    /// Reads that make a block popular.
    enough: u32,
    /// By block: when it was last read, and how often while it was listed.
    blocks: BTreeMap<u64, (u64, u32)>,
    /// By when it was last read.
    order: BTreeMap<u64, u64>,
    now: u64,
}

impl Popular {
    pub fn new(capacity: usize, enough: u32) -> Popular {
        let (blocks, order) = (BTreeMap::new(), BTreeMap::new());
        Popular { capacity, enough, blocks, order, now: 0 }
    }

    /// The block is read. True: it is popular.
    pub fn read(&mut self, block: u64) -> bool {
        self.now += 1;
        let (last, reads) = self.blocks.get(&block).copied().unwrap_or_default();
        self.order.remove(&last);
        self.order.insert(self.now, block);
        let reads = reads.saturating_add(1);
        self.blocks.insert(block, (self.now, reads));
        if self.blocks.len() > self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.blocks.remove(&oldest);
        }
        reads >= self.enough
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use io::rng::Rng;

    use super::*;

    #[test]
    fn what_is_read_again_while_listed_is_popular() {
        let mut list = Popular::new(2, 2);
        assert_eq!([list.read(1), list.read(1), list.read(2)], [false, true, false]);
        // 1 was read longest ago and makes room for 3.
        assert_eq!([list.read(3), list.read(1)], [false, false]);
        assert_eq!(list.len(), 2);
    }

    /// Against a list that is searched and moved about.
    #[test]
    fn it_is_what_a_plain_list_would_be() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (capacity, enough) = (1 + rng.index(6), 1 + rng.below(3) as u32);
            let mut list = Popular::new(capacity, enough);
            let mut plain: Vec<(u64, u32)> = Vec::new();
            for _ in 0..300 {
                let block = rng.below(10);
                let place = plain.iter().position(|(listed, _)| *listed == block);
                let reads = place.map_or(0, |at| plain.remove(at).1) + 1;
                plain.insert(0, (block, reads));
                plain.truncate(capacity);
                assert_eq!(list.read(block), reads >= enough, "seed {seed}");
                assert_eq!(list.len(), plain.len());
            }
        }
    }
}
