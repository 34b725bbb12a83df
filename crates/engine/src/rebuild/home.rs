//! A drive takes a vacated one's place.

use format::{ObjectKey, Uuid};
use io::{Drive, Durability, Env, join_all};
use layout::DriveIndex;

use crate::api::{DriveState, DriveVerbError, EventKind, Severity};
use crate::limits::RESTORE_OBJECTS_AT_ONCE;
use crate::restore::awaited;
use crate::shard::Shard;

impl<E: Env> Shard<E> {
    /// A drive in a vacated one's place lacks nothing: it is active at once, and what others hold
    /// for it comes home later (`rebuild`). False if it does lack something.
    pub(crate) async fn come_home(
        &self,
        index: DriveIndex,
        uuid: Uuid,
        drive: &E::Drive,
    ) -> Result<bool, DriveVerbError> {
        let name = drive.name();
        let failed = |error| DriveVerbError::Drive { name: name.clone(), error };
        // No checkpoint passes the drive over while it gets its copies of this one.
        let _turn = self.checkpoint_turn.lock().await;
        self.copy_objects(index, drive).await.map_err(failed)?;
        self.labels.name_early(index, uuid, drive).await.map_err(failed)?;
        let awaited = awaited(&self.state.borrow().space, index, |_| true);
        let vacated = self.array.member(index).state() == DriveState::Vacated;
        if !vacated || self.array.is_exposed() || awaited.total() > 0 {
            return Ok(false);
        }
        // Until the labels know it, what is written to it is not safe there.
        self.array.expose();
        let size = drive.geometry().size;
        self.array.adopt_vacant(index, (uuid, size, drive.clone()), awaited);
        self.forgive(index);
        self.write_labels(|_| {}).await?;
        self.array.told_whole(index);
        self.use_again(index);
        self.rebuild.stir();
        let text = format!("drive {} is used, and gets back what others hold", drive.name());
        self.tell(Some(index), (Severity::Info, EventKind::DriveRestored), text);
        Ok(true)
    }

    /// The copies of the checkpoint's objects that a drive should have, before it is used.
    async fn copy_objects(
        &self,
        index: DriveIndex,
        drive: &E::Drive,
    ) -> Result<(), io::DriveError> {
        let area = self.labels.meta().offset;
        let parts: Vec<(ObjectKey, u16)> = {
            let state = self.state.borrow();
            let objects = state.meta.objects.iter();
            objects.flat_map(|(&key, stored)| (0..stored.parts()).map(move |p| (key, p))).collect()
        };
        for some in parts.chunks(RESTORE_OBJECTS_AT_ONCE) {
            let copy = |&(key, part): &(ObjectKey, u16)| async move {
                let (own, others) = self.copies_of_part(key, part, index);
                if own.is_empty() {
                    return Ok(());
                }
                let Some(bytes) = self.read_slot_copy(key, &others).await else { return Ok(()) };
                for at in own {
                    drive.write(area + at, bytes.clone(), Durability::Cached).await?;
                }
                Ok(())
            };
            join_all(some.iter().map(copy)).await.into_iter().collect::<Result<(), _>>()?;
        }
        drive.flush().await
    }
}
