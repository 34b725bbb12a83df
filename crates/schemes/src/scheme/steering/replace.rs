//! Reconstruction onto a new drive (Figure 6, case 1).
//!
//! ```text
//!  others ── read, solved ── new drive, in place          while it is being filled
//!  writes of rows that it has already ── staging space, as if it collected garbage
//!                                          └ reclaimed when all rows are there
//! ```
//! So the new drive has only the rebuild to write. The array counts it as lost until then.

use io::{Drive, Env};

use super::drive::Steered;
use super::{Inner, Steering};
use crate::store::{Store, StoreError};

impl<E: Env> Steering<E> {
    /// Gives the place of a lost drive to a new one. [`Store::work`] fills it. A dedicated staging
    /// drive is used from the next opening on.
    pub async fn replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
        let Inner { env, array, stage, set, drives, rebuilding, .. } = &*self.inner;
        let refuse = |hint| {
            let what = format!("drive {} in place {place}", new.name());
            Err(StoreError::Shape { what, hint })
        };
        if !self.lost().contains(&place) {
            return refuse("nothing is lost there");
        }
        if new.geometry().align > stage.align {
            return refuse("its unit is larger than that of the others");
        }
        if rebuilding.get().is_some() {
            return refuse("another drive is being rebuilt: wait until that is done");
        }
        let next = set.borrow().with(env, place, new.clone())?;
        next.write_labels().await?;
        let split = stage.targets.len();
        let of = if place < split { 0..split } else { split..next.len() };
        let (part, head) = (next.first_of(of, place), next.second(place..place + 1).pop());
        *set.borrow_mut() = next;
        let parts = part.zip(head).filter(|_| place < stage.targets.len());
        let Some((part, head)) = parts else { return Ok(()) };
        let own = &stage.targets[place];
        {
            let _all = own.lock.lock(0..u64::MAX).await;
            let holder = &stage.holders[place];
            holder.replaced.set(true);
            holder.head.lose();
            holder.head.replace(head);
            holder.head.set_whole();
            // What was staged for the lost drive must not come back over the new one's bytes.
            stage.raise(place);
            if !stage.seal(place).await {
                return refuse("too few other drives can be written to");
            }
            *own.staged.borrow_mut() = Default::default();
            own.steered.set(false);
            own.dead.set(false);
            own.dirty.set(true);
        }
        let steered = Steered { stage: stage.clone(), index: place, part };
        array.replace(place, steered.clone())?;
        drives.borrow_mut()[place] = Some(steered);
        rebuilding.set(Some(place));
        self.set_busy(place, true);
        Ok(())
    }

    /// Some rows of the new drive. False: there is none to fill.
    pub(super) async fn rebuild_some(&self) -> bool {
        let Inner { array, stage, rebuilding, .. } = &*self.inner;
        let Some(place) = rebuilding.get() else { return false };
        let (own, chunk) = (&stage.targets[place], stage.grid.chunk);
        let begin = stage.data_at + array.rebuilt(place).unwrap_or(0) * chunk;
        *own.exempt.borrow_mut() = begin..begin + classical::limits::REBUILD_AT_ONCE * chunk;
        // If it fails the new drive is lost again, or too many others are; requests tell.
        let more = array.rebuild_some(place).await.unwrap_or(false);
        if !more {
            *own.exempt.borrow_mut() = 0..0;
            rebuilding.set(None);
            self.set_busy(place, false);
        }
        true
    }
}
