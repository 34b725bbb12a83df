//! The copies of the checkpoint's objects that a restored drive should have.

use format::{FormatError, ObjectKey, SLOT_LEN, decode_slot};
use io::{Buf, Durability, Env, join_all};
use layout::DriveIndex;

use crate::checkpoint::slots::Stored;
use crate::limits::RESTORE_OBJECTS_AT_ONCE;
use crate::shard::Shard;

impl<E: Env> Shard<E> {
    /// The drive's copies of the checkpoint's objects. Those written later have one there anyway.
    pub(super) async fn restore_objects(&self, drive: DriveIndex) {
        // A checkpoint that is being written now may have passed the drive over while it was lost.
        let turn = self.checkpoint_turn.lock().await;
        let keys: Vec<ObjectKey> = self.state.borrow().meta.objects.keys().copied().collect();
        drop(turn);
        for some in keys.chunks(RESTORE_OBJECTS_AT_ONCE) {
            // As long as no checkpoint is written, the slots of objects keep what they hold.
            let _turn = self.checkpoint_turn.lock().await;
            if !self.goes_on(drive) {
                return;
            }
            join_all(some.iter().map(|&key| self.restore_object(drive, key))).await;
        }
    }

    async fn restore_object(&self, drive: DriveIndex, key: ObjectKey) {
        let parts = self.state.borrow().meta.objects.get(&key).map_or(0, Stored::parts);
        for part in 0..parts {
            let (own, others) = self.copies_of_part(key, part, drive);
            if own.is_empty() {
                continue;
            }
            let Some(bytes) = self.read_slot_copy(key, &others).await else { continue };
            for at in own {
                let at = self.labels.meta().offset + at;
                // A drive that refuses this has failed.
                let _ = self.array.write(drive, at, bytes.clone(), Durability::Cached).await;
            }
        }
    }

    /// Where a drive has copies of a part of an object, and where others have.
    pub(crate) fn copies_of_part(
        &self,
        key: ObjectKey,
        part: u16,
        drive: DriveIndex,
    ) -> (Vec<u64>, Vec<(DriveIndex, u64)>) {
        let state = self.state.borrow();
        let stored = state.meta.objects.get(&key);
        let places = stored.map_or_else(Vec::new, |stored| state.meta.places_of(stored, part));
        let (own, others): (Vec<_>, _) = places.into_iter().partition(|place| place.0 == drive);
        (own.into_iter().map(|place| place.1).collect(), others)
    }

    pub(crate) async fn read_slot_copy(
        &self,
        key: ObjectKey,
        places: &[(DriveIndex, u64)],
    ) -> Option<Buf> {
        let (pool, area) = (self.labels.pool(), self.labels.meta().offset);
        for &(drive, at) in places {
            let Ok(bytes) = self.array.read(drive, area + at, SLOT_LEN).await else { continue };
            let decoded: Result<_, FormatError> = decode_slot(&bytes, &pool);
            if decoded.is_ok_and(|(header, _)| header.key == key) {
                return Some(bytes);
            }
        }
        None
    }
}
