//! Checkpoints: the maps on disk, changed parts only, so that the journal can be forgotten.
//!
//! ```text
//!  1 note which journal blocks are settled          (everything before is in the maps)
//!  2 write each changed object to free slots        (the old version stays where it is)
//!  3 commit the journal, flush the drives
//!  4 superblocks name the new sequence              <- the moment it counts
//!  5 free the old slots, forget the journal before 1
//! ```
//! Writes go on meanwhile: an object may hold more than its moment's worth, and replaying the
//! journal from 1 over it ends in the same map (see `ARCHITECTURE.md`, Durability). Where the
//! slots are: [`slots`].

pub mod image;
pub mod slots;

use format::{
    CHUNK_ENTRIES, ChunkParts, ClassImage, ConfigObject, LimitsImage, ObjectKey, SLOT_LEN,
    SlotHeader, VolumeId, VolumeImage, encode_slot, object_crc_append,
};
use io::slice::{self, Work, did, spend};
use io::{Buf, Durability, Env, join_all};
use layout::LayoutKind;

use crate::api::{ConversionPolicy, RequestError, VolumeLimits};
use crate::limits::{CHECKPOINT_WRITES_MAX, FORGET_CHECKPOINTS, SCAN_STEP_BLOCKS};
use crate::planted::{self, Bug};
use crate::shard::{Settings, Shard, State};

use slots::{Stored, Wanted};

pub const SETTING_REPLICATED_PERCENT: u16 = 1;
pub const SETTING_CONVERSION: u16 = 2;
pub const SETTING_PATCH_BUDGET: u16 = 3;
/// Written only while a pool is rebalanced.
pub const SETTING_REBALANCE: u16 = 4;

impl<E: Env> Shard<E> {
    /// Writes what changed since the last checkpoint, for somebody who waits for it. With `clean`
    /// the superblock also says that nothing needs replaying.
    pub async fn checkpoint(&self, clean: bool) -> Result<(), RequestError> {
        let _hurry = self.pacer.hurry();
        self.write_checkpoint(clean).await
    }

    /// The same at the pace of background work.
    pub async fn write_checkpoint(&self, clean: bool) -> Result<(), RequestError> {
        slice::of(Work::Checkpoint, self.write_changed(clean)).await
    }

    async fn write_changed(&self, clean: bool) -> Result<(), RequestError> {
        let _turn = self.checkpoint_turn.lock().await;
        self.check_usable()?;
        self.journal.seal();
        let start = self.journal.settled() + 1;
        let (keys, seq) = self.changed_objects();
        let mut obsolete: Vec<u32> = Vec::new();
        let mut written: Vec<(ObjectKey, Option<Stored>)> = Vec::new();
        for key in keys {
            let Some(parts) = self.export_in_turns(key).await else {
                written.push((key, None));
                continue;
            };
            match self.write_object(key, seq, &parts).await {
                Ok(stored) => written.push((key, Some(stored))),
                Err(error) => return Err(self.fail(&error)),
            }
            self.env.yield_now().await;
        }
        self.flush().await?;
        let (objects, fingerprint) = {
            let mut state = self.state.borrow_mut();
            state.meta.seq = seq;
            for (key, stored) in written {
                obsolete.extend(state.meta.replace(key, stored));
            }
            state.meta.root()
        };
        self.write_labels(|label| {
            let root = &mut label.checkpoint[0];
            *root = format::CheckpointRoot { seq, journal_start: start, objects, fingerprint };
            label.clean = clean;
        })
        .await?;
        self.state.borrow_mut().meta.give_back(obsolete);
        self.journal.forget_before(start);
        self.count(|counters| counters.checkpoints += 1);
        Ok(())
    }

    /// No block of the journal up to this one is needed: some may have too few copies.
    pub async fn forget_journal(&self, sequence: u64) -> bool {
        for _ in 0..FORGET_CHECKPOINTS {
            if self.journal.is_forgotten(sequence) {
                return true;
            }
            if self.stopping() || self.write_checkpoint(false).await.is_err() {
                return false;
            }
        }
        self.journal.is_forgotten(sequence)
    }

    /// Erases what a checkpoint that was never finished left behind.
    pub async fn erase_cut_short(&self) {
        let slots = std::mem::take(&mut self.state.borrow_mut().meta.cut_short);
        let area = self.labels.meta().offset;
        for slot in slots {
            let places = self.state.borrow().meta.places(slot);
            let erase = |(drive, at)| {
                self.array.write(drive, area + at, Buf::zeroed(SLOT_LEN), Durability::Durable)
            };
            join_all(places.into_iter().map(erase)).await;
        }
    }

    fn changed_objects(&self) -> (Vec<ObjectKey>, u64) {
        let mut state = self.state.borrow_mut();
        let mut keys: Vec<ObjectKey> = Vec::new();
        for (volume, chunk) in state.map.take_dirty() {
            keys.push(ObjectKey::Chunk { volume, chunk });
        }
        keys.extend(
            state.space.take_dirty_zones().into_iter().map(|zone| ObjectKey::Zone { zone }),
        );
        let sums = state.sums.take_dirty().into_iter();
        keys.extend(sums.map(|(zone, part)| ObjectKey::Sums { zone, part }));
        let known = |volume: &VolumeId| state.volumes.contains_key(volume);
        keys.extend(state.meta.chunks_of_others(known));
        if std::mem::take(&mut state.config_dirty) {
            keys.push(ObjectKey::Config);
        }
        let again = std::mem::take(&mut state.meta.rewrite);
        keys.extend(again.into_iter().filter(|key| !keys.contains(key)).collect::<Vec<_>>());
        (keys, state.meta.seq + u64::from(!planted::is(Bug::ReuseCheckpointSequence)))
    }

    /// Payload parts of an object; `None` if it no longer exists. Others have their turn meanwhile,
    /// so each entry of a chunk is of a moment of its own, as each chunk is.
    async fn export_in_turns(&self, key: ObjectKey) -> Option<Vec<Vec<u8>>> {
        let ObjectKey::Chunk { volume, chunk } = key else { return self.export(key) };
        let mut parts = ChunkParts::default();
        for first in (0..CHUNK_ENTRIES).step_by(SCAN_STEP_BLOCKS) {
            let some = first..(first + SCAN_STEP_BLOCKS).min(CHUNK_ENTRIES);
            spend(SCAN_STEP_BLOCKS / 8).await;
            let state = self.state.borrow();
            state.volumes.get(&volume)?;
            did(state.map.export_entries(volume, chunk, some, &mut parts)? / 8);
        }
        Some(parts.finish())
    }

    /// All of it as it is now.
    fn export(&self, key: ObjectKey) -> Option<Vec<Vec<u8>>> {
        let state = self.state.borrow();
        match key {
            ObjectKey::Chunk { volume, chunk } => {
                state.volumes.get(&volume)?;
                let mut parts = ChunkParts::default();
                state.map.export_entries(volume, chunk, 0..CHUNK_ENTRIES, &mut parts)?;
                Some(parts.finish())
            }
            // Also when it was given back: what is on the drives would pass for its state.
            ObjectKey::Zone { zone } => Some(state.space.export_zone(zone).encode()),
            ObjectKey::Config => Some(export_config(&state).encode()),
            // Also when nothing is left of it, for the same reason.
            ObjectKey::Sums { zone, part } => Some(state.sums.export(zone, part).encode()),
        }
    }

    async fn write_object(
        &self,
        key: ObjectKey,
        seq: u64,
        parts: &[Vec<u8>],
    ) -> Result<Stored, String> {
        let stored = {
            let mut state = self.state.borrow_mut();
            let good = |drive| self.array.is_active(drive) && !self.array.is_draining(drive);
            let wanted = Wanted { good: &good, copies: self.journal.copies() };
            let stored = state.meta.take(seq, parts.len(), &wanted);
            stored.ok_or("the metadata area is full: merge patches or add drives")?
        };
        let pool = self.labels.pool();
        let mut object_crc = 0;
        for part in parts {
            spend(SLOT_LEN >> 10).await;
            object_crc = object_crc_append(object_crc, part);
        }
        let count = parts.len() as u16;
        let area = self.labels.meta().offset;
        let mut writes = Vec::new();
        for (part, slot) in stored.homes() {
            spend((3 * SLOT_LEN) >> 10).await;
            let payload = &parts[usize::from(part)];
            let len = payload.len() as u32;
            let header =
                SlotHeader { pool, shard: 0, key, seq, part, parts: count, len, object_crc };
            let bytes = Buf::from_slice(&encode_slot(&header, payload));
            self.count(|counters| counters.checkpoint_bytes += SLOT_LEN as u64);
            for (drive, at) in self.state.borrow().meta.places(slot) {
                writes.push((drive, area + at, bytes.clone()));
            }
        }
        while !writes.is_empty() {
            let rest = writes.split_off(writes.len().min(CHECKPOINT_WRITES_MAX));
            let batch = std::mem::replace(&mut writes, rest);
            let group = self.pace(|| self.queue_of(batch.iter().map(|write| write.0))).await;
            group.moved(batch.len() * SLOT_LEN);
            let write = |(drive, at, bytes)| async move {
                spend(SLOT_LEN >> 10).await;
                self.array.write(drive, at, bytes, Durability::Cached).await
            };
            // Copies on lost drives are missing; the others carry the object.
            join_all(batch.into_iter().map(write)).await;
        }
        Ok(stored)
    }
}

fn export_config(state: &State) -> ConfigObject {
    let classes = state.space.classes().map(|class| ClassImage {
        id: class.id,
        width: class.shape.width,
        parity: class.shape.parity,
        layout_kind: layout_kind(class.founding_layout().kind()),
        layout_digest: class.founding_layout().digest(),
    });
    let volumes = state.volumes.values().map(|volume| VolumeImage {
        id: volume.id,
        name: volume.name.to_string(),
        size: volume.size,
        class: volume.class,
    });
    let limits = state.volumes.values().filter(|volume| volume.limits != VolumeLimits::default());
    let limits = limits.map(|volume| LimitsImage {
        volume: volume.id,
        iops: volume.limits.iops,
        bytes_per_sec: volume.limits.bytes_per_sec,
    });
    ConfigObject {
        classes: classes.collect(),
        volumes: volumes.collect(),
        next_volume: state.next_volume,
        settings: settings_pairs(&state.settings),
        limits: limits.collect(),
    }
}

pub fn layout_kind(kind: LayoutKind) -> u8 {
    match kind {
        LayoutKind::Mols => 1,
        LayoutKind::Permuted => 2,
    }
}

pub fn settings_pairs(settings: &Settings) -> Vec<(u16, u64)> {
    let eager = u64::from(settings.conversion == ConversionPolicy::Eager);
    let mut pairs = vec![
        (SETTING_REPLICATED_PERCENT, u64::from(settings.replicated_percent)),
        (SETTING_CONVERSION, eager),
        (SETTING_PATCH_BUDGET, settings.patch_budget),
    ];
    pairs.extend(settings.rebalance.then_some((SETTING_REBALANCE, 1)));
    pairs
}

/// Takes over a stored setting; unknown ones are of a compatible later version.
pub fn apply_setting(settings: &mut Settings, key: u16, value: u64) {
    match key {
        SETTING_REPLICATED_PERCENT => settings.replicated_percent = value.min(50) as u8,
        SETTING_CONVERSION if value == 1 => settings.conversion = ConversionPolicy::Eager,
        SETTING_CONVERSION => settings.conversion = ConversionPolicy::Lazy,
        SETTING_PATCH_BUDGET => settings.patch_budget = value,
        SETTING_REBALANCE => settings.rebalance = value == 1,
        _ => {}
    }
}
