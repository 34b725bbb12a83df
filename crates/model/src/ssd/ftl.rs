//! The flash translation layer: where every logical unit is, which blocks are free, open,
//! full or being collected. It knows no time.
//!
//! ```text
//!             open            last unit given out          victim
//!    Free ───────────> Open ───────────────────> Full ──────────> Collecting
//!      ^                                           ^                   │
//!      │ erased                                    └─── power cut ─────┤
//!      └─────────────────── Erasing <──────────────────────────────────┘ no valid unit left
//! ```

use std::collections::VecDeque;

use super::shape::Shape;

/// No unit, no block.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Free,
    Open,
    Full,
    Collecting,
    Erasing,
}

/// Whose data a block gets: what the host writes lives shorter than what survived a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Host,
    Moved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub state: State,
    /// Units that a logical unit points to.
    pub valid: u32,
    pub erases: u32,
    /// Programs on their way to the flash: not to be collected before.
    pub programs: u32,
    /// When it became full, in blocks.
    pub filled: u32,
}

/// The block that a stream fills, and the next unit of it.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    block: u32,
    next: u32,
}

#[derive(Clone, Debug)]
struct Pool {
    /// In the order of their erasure, so that all wear alike.
    free: VecDeque<u32>,
    /// By [`Stream`].
    frontiers: [Frontier; 2],
}

#[derive(Clone, Debug)]
pub struct Ftl {
    pub shape: Shape,
    /// Logical to physical.
    map: Vec<u32>,
    /// Physical to logical; `NONE` for what is free or overwritten.
    owners: Vec<u32>,
    blocks: Vec<Block>,
    pools: Vec<Pool>,
    filled: u32,
    /// Blocks that only the collection may take.
    hard: u32,
}

impl Ftl {
    pub fn new(shape: Shape, hard: u32) -> Ftl {
        let block = Block { state: State::Free, valid: 0, erases: 0, programs: 0, filled: 0 };
        let closed = Frontier { block: NONE, next: 0 };
        let pool = |index: u32| {
            let first = index * shape.blocks_per_pool;
            let free = (first..first + shape.blocks_per_pool).collect();
            Pool { free, frontiers: [closed; 2] }
        };
        Ftl {
            shape,
            map: vec![NONE; shape.logical_units as usize],
            owners: vec![NONE; shape.units() as usize],
            blocks: vec![block; shape.blocks() as usize],
            pools: (0..shape.pools).map(pool).collect(),
            filled: 0,
            hard,
        }
    }

    pub fn place(&self, unit: u32) -> u32 {
        self.map[unit as usize]
    }

    pub fn owner(&self, place: u32) -> u32 {
        self.owners[place as usize]
    }

    pub fn block(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }

    pub fn blocks_of(&self, pool: u32) -> &[Block] {
        let first = (pool * self.shape.blocks_per_pool) as usize;
        &self.blocks[first..first + self.shape.blocks_per_pool as usize]
    }

    pub fn free_blocks(&self, pool: u32) -> u32 {
        self.pools[pool as usize].free.len() as u32
    }

    /// Free units that the host may still use: of free blocks, and in its open one.
    pub fn free_units(&self, pool: u32) -> u32 {
        let host = self.pools[pool as usize].frontiers[Stream::Host as usize];
        let open = if host.block == NONE { 0 } else { self.shape.units_per_block - host.next };
        self.free_blocks(pool) * self.shape.units_per_block + open
    }

    /// Whether the stream needs a block for its next unit.
    pub fn must_open(&self, pool: u32, stream: Stream) -> bool {
        self.pools[pool as usize].frontiers[stream as usize].block == NONE
    }

    /// Whether the stream can have its next unit: there are open or free blocks for it.
    pub fn can_take(&self, pool: u32, stream: Stream) -> bool {
        let reserve = if stream == Stream::Host { self.hard } else { 0 };
        !self.must_open(pool, stream) || self.free_blocks(pool) > reserve
    }

    /// Gives `units` places in a row to the stream. They don't cross blocks: a block holds a
    /// whole number of whatever a stream takes at a time.
    pub fn take(&mut self, pool: u32, stream: Stream, units: u32) -> u32 {
        assert!(self.can_take(pool, stream), "pool {pool} has no block for {stream:?}");
        let list = &mut self.pools[pool as usize];
        let frontier = &mut list.frontiers[stream as usize];
        if frontier.block == NONE {
            let block = list.free.pop_front().expect("just checked");
            let state = &mut self.blocks[block as usize];
            assert!(state.state == State::Free && state.valid == 0, "{block} wasn't free");
            state.state = State::Open;
            *frontier = Frontier { block, next: 0 };
        }
        let first = frontier.block * self.shape.units_per_block + frontier.next;
        frontier.next += units;
        assert!(frontier.next <= self.shape.units_per_block, "places of two blocks");
        if frontier.next == self.shape.units_per_block {
            self.filled += 1;
            let state = &mut self.blocks[frontier.block as usize];
            (state.state, state.filled) = (State::Full, self.filled);
            frontier.block = NONE;
        }
        first
    }

    /// Leaves the rest of a program empty, so that the next place begins one.
    pub fn round_up(&mut self, pool: u32, stream: Stream) {
        let program = self.shape.units_per_program;
        let Frontier { block, next } = self.pools[pool as usize].frontiers[stream as usize];
        if block != NONE && next % program != 0 {
            self.take(pool, stream, program - next % program);
        }
    }

    /// The logical unit is at `place` from now on; where it was is garbage.
    pub fn put(&mut self, unit: u32, place: u32) {
        self.forget(unit);
        self.map[unit as usize] = place;
        let owner = std::mem::replace(&mut self.owners[place as usize], unit);
        assert!(owner == NONE, "place {place} belongs to unit {owner} and {unit}");
        self.blocks[(place / self.shape.units_per_block) as usize].valid += 1;
    }

    /// What was valid at `old` is at `new` from now on. The same as `put`, but doesn't look into
    /// the map, which is large and not in the processor's cache.
    pub fn relocate(&mut self, old: u32, new: u32) {
        let unit = std::mem::replace(&mut self.owners[old as usize], NONE);
        debug_assert_eq!(self.map[unit as usize], old);
        self.map[unit as usize] = new;
        let owner = std::mem::replace(&mut self.owners[new as usize], unit);
        assert!(owner == NONE, "place {new} belongs to unit {owner} and {unit}");
        self.blocks[(old / self.shape.units_per_block) as usize].valid -= 1;
        self.blocks[(new / self.shape.units_per_block) as usize].valid += 1;
    }

    /// The logical unit is nowhere.
    pub fn forget(&mut self, unit: u32) {
        let old = std::mem::replace(&mut self.map[unit as usize], NONE);
        if old != NONE {
            self.owners[old as usize] = NONE;
            self.blocks[(old / self.shape.units_per_block) as usize].valid -= 1;
        }
    }

    /// A program of the block was issued, or ended.
    pub fn program_issued(&mut self, place: u32) {
        self.blocks[(place / self.shape.units_per_block) as usize].programs += 1;
    }

    pub fn program_ended(&mut self, place: u32) {
        self.blocks[(place / self.shape.units_per_block) as usize].programs -= 1;
    }

    pub fn collect(&mut self, block: u32) {
        self.change(block, State::Full, State::Collecting);
    }

    pub fn erase_started(&mut self, block: u32) {
        self.change(block, State::Collecting, State::Erasing);
    }

    pub fn erased(&mut self, block: u32) {
        self.change(block, State::Erasing, State::Free);
        let pool = self.shape.pool_of_block(block);
        let state = &mut self.blocks[block as usize];
        assert!(state.valid == 0 && state.programs == 0, "block {block} erased with data");
        state.erases += 1;
        self.pools[pool as usize].free.push_back(block);
    }

    fn change(&mut self, block: u32, from: State, to: State) {
        let state = &mut self.blocks[block as usize].state;
        assert!(*state == from, "block {block} is {state:?}, not {from:?}");
        *state = to;
    }

    /// What was under way stopped: victims are full blocks again, erases are done.
    pub fn power_cut(&mut self) {
        for block in 0..self.shape.blocks() {
            self.blocks[block as usize].programs = 0;
            match self.blocks[block as usize].state {
                State::Collecting => self.change(block, State::Collecting, State::Full),
                State::Erasing => self.erased(block),
                State::Free | State::Open | State::Full => {}
            }
        }
    }

    /// Gives every logical unit the name that `name` says: a permutation within the pools.
    pub fn relabel(&mut self, name: impl Fn(u32) -> u32) {
        for unit in &mut self.owners {
            if *unit != NONE {
                *unit = name(*unit);
            }
        }
        self.map.fill(NONE);
        for (place, &unit) in self.owners.iter().enumerate() {
            if unit != NONE {
                self.map[unit as usize] = place as u32;
            }
        }
    }

    pub fn all_blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Every count against the map. Slow; for tests.
    pub fn verify(&self) {
        let mut valid = vec![0u32; self.blocks.len()];
        for (place, &unit) in self.owners.iter().enumerate() {
            if unit != NONE {
                assert_eq!(self.map[unit as usize], place as u32, "owner and map disagree");
                valid[place / self.shape.units_per_block as usize] += 1;
            }
        }
        let mapped = self.map.iter().filter(|&&place| place != NONE).count();
        assert_eq!(valid.iter().sum::<u32>() as usize, mapped, "two units share a place");
        let mut free = 0;
        for (block, state) in self.blocks.iter().enumerate() {
            assert_eq!(state.valid, valid[block], "valid units of block {block}");
            let empty = matches!(state.state, State::Free | State::Erasing);
            assert!(!empty || state.valid == 0, "block {block} is {:?} with data", state.state);
            free += usize::from(state.state == State::Free);
        }
        let listed: usize = self.pools.iter().map(|pool| pool.free.len()).sum();
        assert_eq!(free, listed, "free blocks that nobody can take");
    }
}
