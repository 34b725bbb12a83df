//! Whether drives in use still have the labels that they are known by. Who writes over a drive,
//! by its name and beside us, begins at its start more often than not.
//!
//! ```text
//! copies of the label, one a look after the first:   0 ── 1 ── 2 ── 3 ── 0 ── ...
//! one that was the drive's own ── is not ── is not the next time either ──> overwritten
//! ```
//! A copy that is just being written by its pool may be read half: the next time it is whole.

use format::{LABEL_LEN, Uuid, label_at, label_offsets};
use io::Drive;
use io::uring::UringDrive;

/// What a drive is known by: its pool, and its own.
type Owner = (Uuid, Uuid);

/// What is known of the copies of one drive's label.
#[derive(Default)]
pub(super) struct OwnLabel {
    owner: Option<Owner>,
    copies: [Copy; 4],
    next: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Copy {
    /// Never seen whole.
    #[default]
    Unknown,
    Own,
    Doubted,
    Overwritten,
}

impl OwnLabel {
    /// Looks at the next copy, the first time at all. True as long as one has been overwritten.
    pub(super) async fn is_overwritten(&mut self, drive: &UringDrive) -> bool {
        let looks = if self.owner.is_none() { self.copies.len() } else { 1 };
        for _ in 0..looks {
            self.look(drive).await;
        }
        self.copies.contains(&Copy::Overwritten)
    }

    async fn look(&mut self, drive: &UringDrive) {
        let at = self.next;
        self.next = (at + 1) % self.copies.len();
        let offset = label_offsets(drive.geometry().size)[at];
        // What can't be read is no other's, and told of by whoever needs it.
        if let Ok(bytes) = drive.read(offset, LABEL_LEN).await {
            let label = label_at(&bytes, offset).ok();
            self.seen(at, label.map(|(label, _)| (label.pool, label.drive)));
        }
    }

    fn seen(&mut self, at: usize, owner: Option<Owner>) {
        self.owner = self.owner.or(owner);
        let is_own = owner.is_some() && owner == self.owner;
        self.copies[at] = match (self.copies[at], is_own) {
            (_, true) => Copy::Own,
            (Copy::Own, false) => Copy::Doubted,
            (Copy::Doubted, false) => Copy::Overwritten,
            (known, false) => known,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Owner = (Uuid([1; 16]), Uuid([2; 16]));
    const OTHER: Owner = (Uuid([3; 16]), Uuid([4; 16]));

    fn after(seen: &[(usize, Option<Owner>)]) -> bool {
        let mut label = OwnLabel::default();
        seen.iter().for_each(|(at, owner)| label.seen(*at, *owner));
        label.copies.contains(&Copy::Overwritten)
    }

    #[test]
    fn a_copy_is_overwritten_that_was_the_drives_own_and_twice_is_not() {
        assert!(!after(&[(0, Some(OWN)), (0, None)]));
        assert!(after(&[(0, Some(OWN)), (0, None), (0, None)]));
        assert!(after(&[(0, Some(OWN)), (0, Some(OTHER)), (0, None)]));
        assert!(!after(&[(0, Some(OWN)), (0, None), (0, Some(OWN)), (0, None)]));
    }

    /// One that never was whole, as of a disk that is larger than its drive was, says nothing.
    #[test]
    fn what_was_never_seen_is_not_missed() {
        assert!(!after(&[(0, Some(OWN)), (1, None), (1, None), (1, None)]));
        assert!(!after(&[(0, None), (1, None), (0, None), (1, None)]));
        assert!(!after(&[(0, Some(OWN)), (1, Some(OTHER)), (1, Some(OTHER))]));
    }
}
