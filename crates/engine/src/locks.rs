//! Sector-range locks: two writes to the same sectors take turns, all others don't wait.
//!
//! Needed because a write's journal record is appended when its data is issued, while the map
//! changes when the data is there; between the two, a second write to the same sectors could
//! end up later in one order and earlier in the other. Readers take no locks.

use std::cell::RefCell;
use std::rc::Rc;

use format::{SectorRange, VolumeId};
use io::sync::Event;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

type Block = (VolumeId, u64);

#[derive(Default)]
struct Table {
    held: FxHashMap<Block, SmallVec<[SectorRange; 4]>>,
    waiting: FxHashMap<Block, Rc<Event>>,
}

#[derive(Clone, Default)]
pub struct RangeLocks(Rc<RefCell<Table>>);

/// Holds the range until dropped.
pub struct RangeLock {
    locks: RangeLocks,
    block: Block,
    range: SectorRange,
}

fn overlap(a: SectorRange, b: SectorRange) -> bool {
    a.start < b.start + b.len && b.start < a.start + a.len
}

impl RangeLocks {
    fn try_lock(&self, block: Block, range: SectorRange) -> bool {
        let mut table = self.0.borrow_mut();
        let held = table.held.entry(block).or_default();
        let free = !held.iter().any(|&other| overlap(other, range));
        if free {
            held.push(range);
        }
        free
    }

    pub async fn lock(&self, volume: VolumeId, block: u64, range: SectorRange) -> RangeLock {
        let block = (volume, block);
        while !self.try_lock(block, range) {
            let event = self.0.borrow_mut().waiting.entry(block).or_default().clone();
            event.wait().await;
        }
        RangeLock { locks: self.clone(), block, range }
    }

    pub fn is_free(&self) -> bool {
        self.0.borrow().held.is_empty()
    }

    fn unlock(&self, block: Block, range: SectorRange) {
        let mut table = self.0.borrow_mut();
        let held = table.held.get_mut(&block).expect("a held range is listed");
        let at = held.iter().position(|&other| other == range).expect("a held range is listed");
        held.swap_remove(at);
        if held.is_empty() {
            table.held.remove(&block);
        }
        if let Some(event) = table.waiting.remove(&block) {
            drop(table);
            event.notify_all();
        }
    }
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        self.locks.unlock(self.block, self.range);
    }
}

#[cfg(test)]
mod tests;
