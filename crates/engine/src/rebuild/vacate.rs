//! The end of rebuilding: nothing depends on a drive any more, and the labels say so.

use format::{MemberState, ObjectKey, Superblock};
use io::Env;
use layout::DriveIndex;

use crate::api::{DriveState, EventKind, Severity};
use crate::checkpoint::slots::{Stored, Wanted};
use crate::shard::Shard;

impl<E: Env> Shard<E> {
    /// After a pass that found nothing to move: vacates what it can. True if nothing is left to do.
    pub(super) async fn vacate_all(&self) -> bool {
        let leaving: Vec<DriveIndex> = self.array.indexes().filter(|&at| self.leaves(at)).collect();
        if leaving.is_empty() {
            self.rebuild.waits_for_space.set(false);
            return !self.array.is_exposed();
        }
        let (seen, begun) = self.rebuild.progress.borrow().seen;
        if !self.move_objects().await || !self.forget_journal(begun).await {
            return false;
        }
        let mut all = true;
        for drive in leaving {
            // Or something was given out there meanwhile.
            all &= self.array.exposures() == seen && self.leaves(drive) && self.vacate(drive).await;
        }
        self.rebuild.waits_for_space.set(false);
        all && !self.array.is_exposed()
    }

    pub(super) fn leaves(&self, drive: DriveIndex) -> bool {
        self.array.member(drive).state() != DriveState::Vacated && self.is_due(drive)
    }

    /// Objects of the checkpoint that too few drives have, without those that are leaving, are
    /// written to others, or to more.
    async fn move_objects(&self) -> bool {
        let thin = self.thin_objects();
        if thin.is_empty() {
            return true;
        }
        self.state.borrow_mut().meta.rewrite.extend(thin);
        if self.write_checkpoint(false).await.is_err() {
            return false;
        }
        let thin = self.thin_objects();
        if !thin.is_empty() && !self.rebuild.waits_for_space.replace(true) {
            let text = format!(
                "{} objects of the checkpoint have no room on enough of the drives left",
                thin.len()
            );
            self.tell(None, (Severity::Warning, EventKind::RebuildWaits), text);
        }
        thin.is_empty()
    }

    fn thin_objects(&self) -> Vec<ObjectKey> {
        let state = self.state.borrow();
        let good = |drive| self.array.is_whole(drive) && !self.array.is_draining(drive);
        let wanted = Wanted { good: &good, copies: self.journal.copies() };
        let thin = |stored: &Stored| state.meta.is_thin(stored, &wanted);
        let objects = state.meta.objects.iter();
        objects.filter(|(_, stored)| thin(stored)).map(|(&key, _)| key).collect()
    }

    async fn vacate(&self, drive: DriveIndex) -> bool {
        let drained = self.array.is_draining(drive);
        self.array.vacate(drive);
        // No block of the journal goes there any more; those that did are forgotten first.
        let forgotten = !drained || self.forget_journal(self.journal.latest()).await;
        let name = self.drive_name(drive);
        let announce = |label: &mut Superblock| {
            label.members[usize::from(drive.0)].state = MemberState::Vacated;
        };
        if !forgotten || self.write_labels(announce).await.is_err() {
            // It is emptied, and used no more: as good as lost until that can be recorded.
            self.array.set_draining(None);
            self.array.vacated(drive);
            self.array.fail(drive, "it was emptied, and that could not be recorded");
            return false;
        }
        self.array.vacated(drive);
        if drained {
            self.array.set_draining(None);
        }
        let text = format!("nothing is missing without drive {} {name}", drive.0);
        self.tell(Some(drive), (Severity::Info, EventKind::DriveVacated), text);
        self.record_failures().await.is_ok()
    }
}
