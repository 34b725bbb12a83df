//! What the systems of an experiment stand on: the same drives, bare and with a pool.

use model::presets::Preset;
use model::ssd::Fill;

use super::System;
use super::fusion::{Fusion, Shape};
use super::world::{Rest, Shelf};

/// Drives at rest: bare ones for classical arrays, the same with a pool.
pub struct Stand {
    pub bare: Rest,
    pub pooled: Rest,
    pub regions: Regions,
    /// Bytes that volumes of the pool can hold.
    pub usable_bytes: u64,
}

/// What lies where on a drive of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    journal_end: u64,
    metadata_end: u64,
}

impl Regions {
    pub fn name(self, offset: u64) -> &'static str {
        match offset {
            _ if offset < self.journal_end => "journal",
            _ if offset < self.metadata_end => "metadata",
            _ => "data",
        }
    }
}

impl Stand {
    pub fn new(
        preset: Preset,
        drive_bytes: u64,
        drives: usize,
        shape: &Shape,
        seed: u64,
    ) -> Result<Stand, String> {
        let shelf = Shelf { preset, fill: Fill::Aged, drive_bytes, drives, seed };
        let bare = Rest::of(&shelf)?;
        let world = bare.wake(seed);
        let plan = world.env.block_on(Fusion::make(&world, shape));
        let journal_end = (1 << 20) + plan.journal_bytes;
        let regions = Regions { journal_end, metadata_end: journal_end + plan.metadata_bytes };
        let usable_bytes = plan.usable_bytes;
        Ok(Stand { bare, pooled: world.rest(), regions, usable_bytes })
    }

    pub fn of(&self, system: System) -> &Rest {
        if system.spikes().is_some() { &self.pooled } else { &self.bare }
    }
}
