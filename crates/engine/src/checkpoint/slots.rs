//! The slots of the metadata area, and which of them hold which object.
//!
//! Slot s has its copies on drives s, s+1, s+2 (mod n), rows c*(s/n) + copy of their areas; n is
//! the number of drives the pool was made of, so that slots stay where they are when it grows.
//!
//! ```text
//!   drive   0  1  2  3  4  5  6  7  8        0, 3 and 6 are gone: every slot has lost a copy,
//!   slot 1  .  a  a  x                       and two good ones are fewer than p = 2 wants.
//!   slot 4              a  a  x              A part of an object then lies in two slots.
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use format::{ObjectKey, SLOT_LEN, VolumeId, fingerprint};
use layout::DriveIndex;

use crate::limits::METADATA_COPIES;

/// An object of the last checkpoint and where its parts are.
#[derive(Clone, Debug)]
pub struct Stored {
    pub seq: u64,
    /// Of each part.
    pub slots: Vec<u32>,
    /// (part, slot): the same again, where drives are gone and one slot has too few copies.
    pub twins: Vec<(u16, u32)>,
}

impl Stored {
    /// Every slot, with the part in it.
    pub fn homes(&self) -> impl Iterator<Item = (u16, u32)> {
        (0..).zip(self.slots.iter().copied()).chain(self.twins.iter().copied())
    }

    pub fn homes_of(&self, part: u16) -> impl Iterator<Item = u32> {
        self.homes().filter(move |home| home.0 == part).map(|home| home.1)
    }

    pub fn parts(&self) -> u16 {
        self.slots.len() as u16
    }
}

/// Which drives copies are worth anything on, and how many there should be.
pub struct Wanted<'a> {
    pub good: &'a dyn Fn(DriveIndex) -> bool,
    pub copies: usize,
}

pub struct MetaSlots {
    drives: usize,
    copies: usize,
    pub(super) total: u32,
    /// Most objects that sums can come to.
    sums_max: u64,
    pub(super) free: Vec<u32>,
    pub objects: BTreeMap<ObjectKey, Stored>,
    /// Slots that all objects take, each part once.
    parts: usize,
    pub seq: u64,
    /// Slots of a checkpoint that a crash cut short. They must be erased before a superblock
    /// names a sequence as high as theirs, or they would pass for newer versions of objects
    /// that did not change after all.
    pub cut_short: BTreeSet<u32>,
    /// Objects that are written again although nothing in them changed.
    pub rewrite: BTreeSet<ObjectKey>,
}

impl MetaSlots {
    pub fn new(drives: usize, area: u64, sums_max: u64) -> MetaSlots {
        let copies = METADATA_COPIES.min(drives);
        let rows = area / SLOT_LEN as u64;
        let total = (rows / copies as u64 * drives as u64) as u32;
        MetaSlots {
            drives,
            copies,
            total,
            sums_max,
            free: Vec::new(),
            objects: BTreeMap::new(),
            parts: 0,
            seq: 0,
            cut_short: BTreeSet::new(),
            rewrite: BTreeSet::new(),
        }
    }

    pub fn rows(&self) -> u64 {
        u64::from(self.total) / self.drives as u64 * self.copies as u64
    }

    /// Chunks the map may have: half of the slots that sums leave, since a checkpoint that changes
    /// all of them needs as many again, less a share for patches and zones.
    pub fn chunks_max(&self) -> u64 {
        u64::from(self.total).saturating_sub(2 * self.sums_max) / 3
    }

    pub fn capacity(&self) -> u32 {
        self.total
    }

    /// Bytes of the slots that are not free, one copy.
    pub fn used_bytes(&self) -> u64 {
        ((self.total as usize - self.free.len()) * SLOT_LEN) as u64
    }

    /// (drive, byte in the area) of each copy of a slot.
    pub fn places(&self, slot: u32) -> Vec<(DriveIndex, u64)> {
        let row = slot as usize / self.drives * self.copies;
        let at = |copy| ((row + copy) * SLOT_LEN) as u64;
        self.drives_of(slot).enumerate().map(|(copy, drive)| (drive, at(copy))).collect()
    }

    fn drives_of(&self, slot: u32) -> impl Iterator<Item = DriveIndex> {
        let (column, drives) = (slot as usize % self.drives, self.drives);
        (0..self.copies).map(move |copy| DriveIndex(((column + copy) % drives) as u16))
    }

    /// Of each copy of a part, in whichever slot.
    pub fn places_of(&self, stored: &Stored, part: u16) -> Vec<(DriveIndex, u64)> {
        stored.homes_of(part).flat_map(|slot| self.places(slot)).collect()
    }

    /// The slot one of whose copies is in `row` of `drive`.
    pub fn slot_at(&self, drive: DriveIndex, row: u64) -> u32 {
        let copy = row as usize % self.copies;
        let column = (usize::from(drive.0) + self.drives - copy) % self.drives;
        (row as usize / self.copies * self.drives + column) as u32
    }

    /// After loading: everything that no object uses is free.
    pub fn rebuild_free(&mut self) {
        self.parts = self.objects.values().map(|stored| stored.slots.len()).sum();
        let mut used = vec![false; self.total as usize];
        for stored in self.objects.values() {
            stored.homes().for_each(|(_, slot)| used[slot as usize] = true);
        }
        self.free = (0..self.total).rev().filter(|&slot| !used[slot as usize]).collect();
    }

    /// What a checkpoint wrote, or found to be no more, takes the place of what was. The slots that
    /// nothing needs once the superblocks name that checkpoint.
    pub fn replace(&mut self, key: ObjectKey, stored: Option<Stored>) -> Vec<u32> {
        self.parts += stored.as_ref().map_or(0, |stored| stored.slots.len());
        let old = match stored {
            Some(stored) => self.objects.insert(key, stored),
            None => self.objects.remove(&key),
        };
        self.parts -= old.as_ref().map_or(0, |old| old.slots.len());
        old.iter().flat_map(|old| old.homes().map(|(_, slot)| slot)).collect()
    }

    pub fn give_back(&mut self, slots: Vec<u32>) {
        self.free.extend(slots);
    }

    /// Good drives that hold a part of these slots.
    fn holders(&self, slots: &[u32], wanted: &Wanted) -> BTreeSet<DriveIndex> {
        let drives = slots.iter().flat_map(|&slot| self.drives_of(slot));
        drives.filter(|&drive| (wanted.good)(drive)).collect()
    }

    /// Whether a part of it has too few good copies.
    pub fn is_thin(&self, stored: &Stored, wanted: &Wanted) -> bool {
        (0..stored.parts()).any(|part| {
            let slots: Vec<u32> = stored.homes_of(part).collect();
            self.holders(&slots, wanted).len() < wanted.copies
        })
    }

    /// Free slots for the parts of an object: if some drives are gone, those with most copies on
    /// the others, and a second one for a part that has too few of them. `None`: too few are free.
    pub fn take(&mut self, seq: u64, parts: usize, wanted: &Wanted) -> Option<Stored> {
        if self.free.len() < parts {
            self.give_up_twins(wanted);
        }
        let left = self.free.len().checked_sub(parts)?;
        let lost: Vec<usize> =
            (0..self.drives as u32).map(|slot| self.lost(slot, wanted)).collect();
        if lost.iter().any(|&lost| lost > 0) {
            // The best last. Stable: the order of equals stays.
            let drives = self.drives;
            self.free.sort_by_key(|&slot| Reverse(lost[slot as usize % drives]));
        }
        let slots = self.free.split_off(left);
        let mut stored = Stored { seq, slots, twins: Vec::new() };
        for part in 0..stored.parts() {
            self.take_twins(&mut stored, part, wanted);
        }
        Some(stored)
    }

    fn lost(&self, slot: u32, wanted: &Wanted) -> usize {
        self.drives_of(slot).filter(|&drive| !(wanted.good)(drive)).count()
    }

    /// Slots for a part until enough good drives have it, as long as all objects can be written
    /// again beside them.
    fn take_twins(&mut self, stored: &mut Stored, part: u16, wanted: &Wanted) {
        let mut slots: Vec<u32> = stored.homes_of(part).collect();
        let mut held = self.holders(&slots, wanted);
        while held.len() < wanted.copies && self.free.len() > self.parts {
            let missing = wanted.copies - held.len();
            let Some(at) = self.best_beside(&held, missing, wanted) else { return };
            let slot = self.free.remove(at);
            stored.twins.push((part, slot));
            slots.push(slot);
            held = self.holders(&slots, wanted);
        }
    }

    /// Where in the list of free slots the one is that adds most holders, but no more than are
    /// missing; the last one of equals.
    fn best_beside(
        &self,
        held: &BTreeSet<DriveIndex>,
        missing: usize,
        wanted: &Wanted,
    ) -> Option<usize> {
        let adds = |slot: u32| {
            let good = self.drives_of(slot).filter(|drive| (wanted.good)(*drive));
            good.filter(|drive| !held.contains(drive)).count().min(missing)
        };
        let mut best = (0, None);
        for (at, &slot) in self.free.iter().enumerate().rev() {
            let added = adds(slot);
            if added > best.0 {
                best = (added, Some(at));
            }
            if added == missing {
                break;
            }
        }
        best.1
    }

    /// A checkpoint that can be written goes before one that bears another loss: of each part the
    /// slot with most good copies stays.
    fn give_up_twins(&mut self, wanted: &Wanted) {
        let mut objects = std::mem::take(&mut self.objects);
        let mut given_up = Vec::new();
        for stored in objects.values_mut() {
            for (part, twin) in std::mem::take(&mut stored.twins) {
                let slot = &mut stored.slots[usize::from(part)];
                if self.lost(twin, wanted) < self.lost(*slot, wanted) {
                    given_up.push(std::mem::replace(slot, twin));
                } else {
                    given_up.push(twin);
                }
            }
        }
        self.objects = objects;
        self.free.extend(given_up);
    }

    /// Other slots in which parts were found, twins of those that objects have now: the rest may
    /// be where a write went astray.
    pub fn adopt_twins(&mut self, found: Vec<(ObjectKey, u16, u32)>) {
        let slots = self.objects.values().flat_map(|stored| &stored.slots);
        let mut used: BTreeSet<u32> = slots.copied().collect();
        for (key, part, slot) in found {
            if let Some(stored) = self.objects.get_mut(&key).filter(|s| part < s.parts())
                && used.insert(slot)
            {
                stored.twins.push((part, slot));
            }
        }
    }

    /// Pieces of the map of volumes that are not known (any more). Only these are looked at.
    pub fn chunks_of_others(&self, known: impl Fn(&VolumeId) -> bool) -> Vec<ObjectKey> {
        let mut found = Vec::new();
        let mut next = Some(VolumeId(0));
        while let Some(from) = next {
            let rest = self.objects.range(ObjectKey::Chunk { volume: from, chunk: 0 }..);
            let mut keys = rest.map(|(key, _)| *key);
            let Some(ObjectKey::Chunk { volume, .. }) = keys.next() else { break };
            if !known(&volume) {
                let all = ObjectKey::Chunk { volume, chunk: 0 }..=ObjectKey::Chunk {
                    volume,
                    chunk: u32::MAX,
                };
                found.extend(self.objects.range(all).map(|(key, _)| *key));
            }
            next = volume.0.checked_add(1).map(VolumeId);
        }
        found
    }

    pub fn root(&self) -> (u64, u64) {
        let print = |(key, stored): (&ObjectKey, &Stored)| fingerprint(key, stored.seq);
        let combined = self.objects.iter().map(print).fold(0, |sum, print| sum ^ print);
        (self.objects.len() as u64, combined)
    }
}

#[cfg(test)]
mod tests;
