//! What a pool can still be given: what `status` says and what writes are admitted by are one
//! number.
//!
//! ```text
//! sectors of drives, as RAID stripes:
//!
//!  0 ──────────── live ─────────── promised ──────────── limit ──────────────────────── all
//!    users' data with its parity │ writes on  │ available │ substitutes of lost blocks, the share
//!                                │ their way  │           │ of spared drives, replicated area
//! ```
//! Copies and patches need no more than that: there the replicated area is for, and who is faster
//! than conversion is slowed, not refused.

use std::rc::Rc;

use format::CHUNK_ENTRIES;
use io::Env;

use crate::geometry::Class;
use crate::pool::shapes::used;
use crate::shard::{Shard, State};

const SECTOR: u64 = 512;

/// Blocks that nobody but one drive can take over, because the others have one of their stripe
/// each. New stripes are on all drives alike: without these it would be full before it has them.
const UNEVEN_STRIPES: u64 = 16;

impl<E: Env> Shard<E> {
    /// Sectors of drive space that users' data of a class may take, with its parity.
    ///
    /// What stands in for lost drives' blocks has its place as well; and where drives were spared,
    /// or are being spared, there is room for so much less: or new data would be less redundant,
    /// and take the room that sparing needs.
    pub fn space_limit(&self, state: &State, class: &Class) -> u64 {
        let most = self.footprint_max(state, class);
        let (all, (spared, due)) = (self.array.len() as u64, self.taken_over(&state.space));
        let shared = share(most, all - (spared + due) as u64, all);
        let stripe = class.width() as u64 * u64::from(self.geometry.block_sectors());
        let uneven = if due > 0 { UNEVEN_STRIPES * stripe } else { 0 };
        let shared = shared.saturating_sub(uneven);
        most.saturating_sub(state.space.spare_sectors()).min(shared)
    }

    /// Bytes of users' data that the pool can still be given, in the shape that takes most of its
    /// space: those that volumes have, and the pool's own, `class`.
    pub fn available(&self, state: &State, class: &Rc<Class>) -> u64 {
        let bytes = used(state).chain([class]).map(|class| self.available_to(state, class));
        bytes.min().unwrap_or(0).min(self.available_in_map(state))
    }

    fn available_to(&self, state: &State, class: &Class) -> u64 {
        let (live, _) = state.space.live_footprint();
        let taken = live + state.space.promised;
        let left = self.space_limit(state, class).saturating_sub(taken);
        // Once there are substitutes, blocks of new stripes that belong on lost drives get some.
        let lost = if state.space.substitutes.enabled { self.array.lost() as u64 } else { 0 };
        let all = self.array.len() as u64;
        let sectors = share(left, all, all + lost);
        share(sectors, class.data() as u64, class.width() as u64) * SECTOR
    }

    /// The map has room for so many chunks, which small writes all over large volumes may use up
    /// before there is much data in them.
    fn available_in_map(&self, state: &State) -> u64 {
        let chunks = state.meta.chunks_max().saturating_sub(state.map.chunks());
        chunks * CHUNK_ENTRIES as u64 * u64::from(self.geometry.block_size)
    }
}

/// `part` of `whole` of so many sectors; none is more than there are.
fn share(sectors: u64, part: u64, whole: u64) -> u64 {
    (u128::from(sectors) * u128::from(part) / u128::from(whole)) as u64
}
