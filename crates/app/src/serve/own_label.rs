//! Whether drives in use still have the labels that they are known by. Who writes over a drive,
//! by its name and beside us, begins at its start more often than not.
//!
//! ```text
//! copies of the label, one a look after the first:   0 ── 1 ── 2 ── 3 ── 0 ── ...
//! one that was a label ── is none ── is none the next time either ──> overwritten
//! ```
//! A copy that is just being written by its pool may be read half: the next time it is whole. Whose
//! label it is says nothing: a drive that joins, or comes back, is given a new one. Another host
//! that takes the drive is noticed by its claim.

use format::{LABEL_LEN, label_at, label_offsets};
use io::Drive;
use io::uring::UringDrive;

/// What is known of the copies of one drive's label.
#[derive(Default)]
pub(super) struct OwnLabel {
    copies: [Copy; 4],
    next: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Copy {
    /// Never seen whole.
    #[default]
    Unknown,
    Whole,
    Doubted,
    Overwritten,
}

impl OwnLabel {
    /// Looks at the next copy, the first time at all. True as long as one has been overwritten.
    pub(super) async fn is_overwritten(&mut self, drive: &UringDrive) -> bool {
        let is_known = self.copies.iter().any(|copy| *copy != Copy::Unknown);
        let looks = if is_known { 1 } else { self.copies.len() };
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
            self.seen(at, label_at(&bytes, offset).is_ok());
        }
    }

    fn seen(&mut self, at: usize, is_label: bool) {
        self.copies[at] = match (self.copies[at], is_label) {
            (_, true) => Copy::Whole,
            (Copy::Whole, false) => Copy::Doubted,
            (Copy::Doubted, false) => Copy::Overwritten,
            (known, false) => known,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seen: &[(usize, bool)]) -> bool {
        let mut label = OwnLabel::default();
        seen.iter().for_each(|(at, is_label)| label.seen(*at, *is_label));
        label.copies.contains(&Copy::Overwritten)
    }

    #[test]
    fn a_copy_is_overwritten_that_was_whole_and_twice_is_not() {
        assert!(!after(&[(0, true), (0, false)]));
        assert!(after(&[(0, true), (0, false), (0, false)]));
        assert!(!after(&[(0, true), (0, false), (0, true), (0, false)]));
    }

    /// One that never was whole, as of a disk that is larger than its drive was, says nothing.
    #[test]
    fn what_was_never_seen_is_not_missed() {
        assert!(!after(&[(0, true), (1, false), (1, false), (1, false)]));
        assert!(!after(&[(0, false), (1, false), (0, false), (1, false)]));
    }
}
