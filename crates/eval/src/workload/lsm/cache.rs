//! Blocks of tables in memory. The one that has been there longest goes, unless it was wanted
//! since its last turn: nearly the least recently used one, at a fraction of the work.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// A table's number, and a block of it. Blocks of deleted tables age and go like others.
pub type Block = (u64, u64);

pub struct Cache {
    blocks: usize,
    turns: VecDeque<Block>,
    /// Whether it was wanted since its last turn.
    held: FxHashMap<Block, bool>,
}

impl Cache {
    /// Room for so many, at least one.
    pub fn new(blocks: usize) -> Cache {
        Cache { blocks: blocks.max(1), turns: VecDeque::new(), held: FxHashMap::default() }
    }

    /// Whether it was there; it is now.
    pub fn want(&mut self, block: Block) -> bool {
        if let Some(wanted) = self.held.get_mut(&block) {
            *wanted = true;
            return true;
        }
        while self.turns.len() >= self.blocks {
            let Some(oldest) = self.turns.pop_front() else { break };
            match self.held.get_mut(&oldest) {
                Some(wanted) if *wanted => {
                    *wanted = false;
                    self.turns.push_back(oldest);
                }
                _ => drop(self.held.remove(&oldest)),
            }
        }
        self.held.insert(block, false);
        self.turns.push_back(block);
        false
    }
}

#[cfg(test)]
mod tests {
    use io::rng::Rng;

    use super::*;

    #[test]
    fn what_is_wanted_stays_and_the_room_is_kept() {
        let mut cache = Cache::new(3);
        assert!([1, 2, 3].iter().all(|&block| !cache.want((1, block))));
        assert!(cache.want((1, 1)));
        // The second one goes: the first was wanted since.
        assert!(!cache.want((2, 1)));
        assert!(cache.want((1, 1)) && cache.want((1, 3)) && cache.want((2, 1)));
        assert!(!cache.want((1, 2)));
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            let block = (rng.below(2), rng.below(4));
            let known = cache.held.contains_key(&block);
            assert_eq!(cache.want(block), known);
            assert!(cache.held.contains_key(&block));
            assert_eq!((cache.held.len(), cache.turns.len()), (3, 3));
        }
    }
}
