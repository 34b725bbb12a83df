//! What is found in the metadata area.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use format::{ObjectKey, SLOT_LEN, decode_slot};
use io::{Drive, join_all};
use layout::DriveIndex;

use super::Recovery;
use crate::checkpoint::slots::{MetaSlots, Stored};
use crate::limits::RECOVERY_READ_BYTES;

/// Newest version of each object part that belongs to the checkpoint.
pub type Parts = BTreeMap<(ObjectKey, u16), Part>;

/// What the metadata area holds.
#[derive(Default)]
pub struct Slots {
    pub parts: Parts,
    /// Newest sequence seen.
    pub newest: u64,
    /// Slots newer than the checkpoint.
    pub cut_short: BTreeSet<u32>,
}

pub struct Part {
    pub seq: u64,
    pub parts: u16,
    /// Slots that it was found in, and in how many copies of each: a write that went elsewhere may
    /// have left one where it does not belong.
    pub slots: Vec<(u32, u8)>,
    pub payload: Vec<u8>,
}

impl Part {
    pub fn slot(&self) -> u32 {
        let most = self.slots.iter().max_by_key(|(_, copies)| *copies);
        most.expect("it was found somewhere").0
    }

    /// Of an object whose first part this is.
    pub fn stored(&self) -> Stored {
        Stored { seq: self.seq, slots: vec![self.slot()], twins: Vec::new() }
    }

    /// Other slots that have it. A single copy there may be a write that went elsewhere; what has
    /// only one is written again anyway where drives are gone (`rebuild`).
    pub fn twins(&self) -> impl Iterator<Item = u32> {
        let own = self.slot();
        let others = self.slots.iter().filter(move |(slot, copies)| *slot != own && *copies > 1);
        others.map(|&(slot, _)| slot)
    }

    /// Another copy of the same.
    pub fn found_in(&mut self, slot: u32) {
        match self.slots.iter_mut().find(|(other, _)| *other == slot) {
            Some((_, copies)) => *copies += 1,
            None => self.slots.push((slot, 1)),
        }
    }
}

impl<D: Drive> Recovery<'_, D> {
    /// Reads the metadata area of every drive that took part in the last checkpoint: on an image of
    /// before there may be slots that were erased since, of checkpoints that were cut short.
    pub async fn read_slots(&self, meta: &MetaSlots) -> Slots {
        let found = RefCell::new(Slots::default());
        let scan = |index: DriveIndex| {
            let found = &found;
            async move {
                let rows = meta.rows();
                let step = (RECOVERY_READ_BYTES / SLOT_LEN) as u64;
                for first in (0..rows).step_by(step as usize) {
                    let count = step.min(rows - first);
                    let at = self.label.meta.offset + first * SLOT_LEN as u64;
                    let len = count as usize * SLOT_LEN;
                    let Ok(bytes) = self.array.read(index, at, len).await else { continue };
                    for (row, image) in bytes.chunks_exact(SLOT_LEN).enumerate() {
                        let slot = meta.slot_at(index, first + row as u64);
                        self.take_slot(&mut found.borrow_mut(), slot, image);
                    }
                }
            }
        };
        let founders = self.geometry.lists.founders();
        let has_slots =
            |index: &DriveIndex| index.index() < founders && !self.stale.contains(index);
        join_all(self.array.active().into_iter().filter(has_slots).map(scan)).await;
        found.into_inner()
    }

    fn take_slot(&self, found: &mut Slots, slot: u32, image: &[u8]) {
        let Ok((header, payload)) = decode_slot(image, &self.label.pool) else { return };
        found.newest = header.seq.max(found.newest);
        if header.shard != 0 {
            return;
        }
        if header.seq > self.label.checkpoint[0].seq {
            found.cut_short.insert(slot);
            return;
        }
        let found = &mut found.parts;
        let key = (header.key, header.part);
        if found.get(&key).is_none_or(|part| part.seq < header.seq) {
            let payload = payload.to_vec();
            let slots = vec![(slot, 1)];
            found.insert(key, Part { seq: header.seq, parts: header.parts, slots, payload });
        } else if let Some(part) = found.get_mut(&key).filter(|part| part.seq == header.seq) {
            part.found_in(slot);
        }
    }
}
