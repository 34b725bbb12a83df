//! What YCSB's clients ask for: the workloads of FusionRAID Table 5.

use io::rng::Rng;

use crate::workload::places::popular;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read(u32),
    /// Of a key that may be new.
    Put(u32),
}

#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub name: &'static str,
    /// The paper's "update ratio".
    pub put_percent: u64,
    /// Puts are of new keys.
    pub inserts: bool,
}

pub const MIXES: [Mix; 3] = [
    Mix { name: "YCSB-Load", put_percent: 100, inserts: true },
    Mix { name: "YCSB-A", put_percent: 50, inserts: false },
    Mix { name: "YCSB-B", put_percent: 5, inserts: false },
];

/// YCSB's `zipfianconst`.
const SKEW: f64 = 0.99;

/// The key of an item. The factor is odd, so no two have the same; it is 2^32 over the golden
/// ratio, so that those inserted one after the other are far apart, as hashed ones are.
pub fn key(item: u32) -> u32 {
    item.wrapping_mul(0x9e37_79b1)
}

/// Operations of all clients together, without end.
#[derive(Clone, Debug)]
pub struct Draws {
    mix: Mix,
    items: u32,
    rng: Rng,
}

impl Draws {
    /// Over items that are there already.
    pub fn new(mix: Mix, items: u32, seed: u64) -> Draws {
        assert!(items > 0, "there is something to read");
        Draws { mix, items, rng: Rng::new(seed) }
    }

    pub fn draw(&mut self) -> Operation {
        let put = self.rng.chance(self.mix.put_percent, 100);
        if put && self.mix.inserts {
            self.items += 1;
            return Operation::Put(key(self.items - 1));
        }
        let item = popular(self.items as usize, SKEW, &mut self.rng) as u32;
        if put { Operation::Put(key(item)) } else { Operation::Read(key(item)) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn puts(draws: &[Operation]) -> usize {
        draws.iter().filter(|draw| matches!(draw, Operation::Put(_))).count()
    }

    #[test]
    fn mixes_have_the_papers_updates_and_popular_keys() {
        for (mix, wanted) in MIXES.into_iter().zip([100_000, 50_000, 5_000]) {
            let mut draws = Draws::new(mix, 10_000, 1);
            let drawn: Vec<Operation> = (0..100_000).map(|_| draws.draw()).collect();
            assert!(puts(&drawn).abs_diff(wanted) < 600, "{}: {}", mix.name, puts(&drawn));
            let mut counts = BTreeMap::new();
            for operation in &drawn {
                let (Operation::Read(key) | Operation::Put(key)) = operation;
                *counts.entry(*key).or_insert(0) += 1;
            }
            if mix.inserts {
                assert!(counts.len() == 100_000, "every key is new");
                continue;
            }
            // Of 10,000 items the first has 7 %, and a hundred of them half.
            let mut counts: Vec<usize> = counts.into_values().collect();
            counts.sort_unstable_by(|one, other| other.cmp(one));
            assert!((6_000..9_000).contains(&counts[0]), "{}", counts[0]);
            let hundred: usize = counts[..100].iter().sum();
            assert!((45_000..60_000).contains(&hundred), "{hundred}");
        }
    }

    #[test]
    fn no_two_items_share_a_key_and_neighbours_are_apart() {
        let keys: BTreeSet<u32> = (0..100_000).map(key).collect();
        assert_eq!(keys.len(), 100_000);
        assert!((1..100_000).all(|item| key(item).abs_diff(key(item - 1)) > 1 << 30));
    }
}
