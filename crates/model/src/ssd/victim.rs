//! Which block is collected next.

use io::rng::Rng;

use super::config::Victims;
use super::ftl::{Block, Ftl, State};

/// A full block with garbage in it, or `None` if there is none. Blocks with programs on their
/// way are left alone.
pub fn choose(ftl: &Ftl, pool: u32, victims: Victims, rng: &mut Rng) -> Option<u32> {
    let blocks = ftl.blocks_of(pool);
    let full = ftl.shape.units_per_block;
    let eligible =
        |block: &Block| block.state == State::Full && block.valid < full && block.programs == 0;
    let index = match victims {
        Victims::Greedy => best(blocks, eligible, |block| block.valid),
        Victims::Fifo => best(blocks, eligible, |block| block.filled),
        // None of the d may do; then the best of all does.
        Victims::Choices { d } => (0..d)
            .map(|_| rng.index(blocks.len()))
            .filter(|&index| eligible(&blocks[index]))
            .min_by_key(|&index| blocks[index].valid)
            .or_else(|| best(blocks, eligible, |block| block.valid)),
    };
    index.map(|index| pool * ftl.shape.blocks_per_pool + index as u32)
}

/// The eligible block with the smallest key; the first of equals.
fn best(
    blocks: &[Block],
    eligible: impl Fn(&Block) -> bool,
    key: impl Fn(&Block) -> u32,
) -> Option<usize> {
    let mut found = None;
    let mut least = u32::MAX;
    for (index, block) in blocks.iter().enumerate() {
        if key(block) < least && eligible(block) {
            (found, least) = (Some(index), key(block));
        }
    }
    found
}
