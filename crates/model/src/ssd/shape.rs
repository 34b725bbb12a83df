//! Numbers that follow from a configuration: how many units, programs, blocks and pools.
//!
//! ```text
//!  pool     superblocks (striped) or blocks (static) that collect their garbage together
//!  block    what is erased at once; here always a superblock, or a block of one plane
//!  program  what is written at once: a page of every plane of a die, or one page
//!  unit     one entry of the map
//! ```

use super::config::{Allocation, Config};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub dies: u32,
    pub channels: u32,
    pub unit_bytes: u32,
    pub units_per_program: u32,
    pub units_per_block: u32,
    pub pools: u32,
    pub blocks_per_pool: u32,
    /// Flash blocks that are erased when a block is: one of every plane and die, or one.
    pub erases_per_block: u32,
    /// What the host sees.
    pub logical_units: u32,
    pub static_places: bool,
}

impl Shape {
    /// Of a configuration whose numbers are in range (see `check`).
    pub fn of(config: &Config) -> Shape {
        let dies = config.channels * config.dies_per_channel;
        let planes = config.planes;
        let static_places = config.allocation == Allocation::Static;
        let units_per_page = config.page_bytes / config.mapping_bytes;
        let pages = u64::from(dies * planes)
            * u64::from(config.blocks_per_plane)
            * u64::from(config.pages_per_block);
        let left = pages * u64::from(1000 - config.over_provisioning_permille) / 1000;
        let asked = config.visible_bytes.map(|bytes| bytes / u64::from(config.page_bytes));
        let visible = asked.map_or(left, |pages| pages.min(left));
        let (pools, planes_at_once, dies_at_once) = match config.allocation {
            Allocation::Striped => (1, planes, dies),
            Allocation::Static => (dies * planes, 1, 1),
        };
        let units_per_program = units_per_page * planes_at_once;
        Shape {
            dies,
            channels: config.channels,
            unit_bytes: config.mapping_bytes,
            units_per_program,
            units_per_block: units_per_program * config.pages_per_block * dies_at_once,
            pools,
            blocks_per_pool: config.blocks_per_plane,
            erases_per_block: planes_at_once * dies_at_once,
            logical_units: (visible * u64::from(units_per_page)) as u32,
            static_places,
        }
    }

    pub fn blocks(&self) -> u32 {
        self.pools * self.blocks_per_pool
    }

    pub fn units(&self) -> u32 {
        self.blocks() * self.units_per_block
    }

    pub fn size(&self) -> u64 {
        u64::from(self.logical_units) * u64::from(self.unit_bytes)
    }

    pub fn program_bytes(&self) -> u64 {
        u64::from(self.units_per_program) * u64::from(self.unit_bytes)
    }

    /// The dies that a pool's blocks are on.
    pub fn dies_per_pool(&self) -> u32 {
        if self.static_places { 1 } else { self.dies }
    }

    /// The pool that a logical unit is written to.
    pub fn pool_of(&self, unit: u32) -> u32 {
        if self.static_places { unit % self.pools } else { 0 }
    }

    pub fn pool_of_block(&self, block: u32) -> u32 {
        if self.static_places { block / self.blocks_per_pool } else { 0 }
    }

    /// The die of a program, by its number on the drive.
    pub fn die_of(&self, program: u32) -> u32 {
        if self.static_places {
            let block = program / (self.units_per_block / self.units_per_program);
            self.pool_of_block(block) % self.dies
        } else {
            // A superblock is a whole number of rounds over the dies.
            program % self.dies
        }
    }

    /// Neighbouring dies are on different channels.
    pub fn channel_of(&self, die: u32) -> u32 {
        die % self.channels
    }
}
