//! What the harness knows of each drive of the pool: how many are faulty, and how.
//!
//! ```text
//!           rot noise                refresh: not                 replace
//!           wreck stale               active                       online
//!   Whole ──────────────> Suspect ──────────────> Lost ───────────────────────> Rebuilding
//!    ^ │ ^                   │                   ^    ^                          │     │
//!    │ │ └─ a scrub is over ─┘                   │    └─ refresh: neither active ┘     │
//!    │ └──────────── fail delete ────────────────┘       nor restoring                 │
//!    └───────────────────────────── refresh: active ───────────────────────────────────┘
//!      also of Lost, if its file is there: its replica was lost, and is back
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use super::tool::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Whole,
    /// Its bytes may be wrong or old, and the pool may not know it.
    Suspect,
    /// It is missing, failed, or a file that nobody can open any more.
    Lost,
    /// In the place of a lost one, and being rebuilt.
    Rebuilding,
}

#[derive(Clone, Debug)]
pub struct Slot {
    pub path: PathBuf,
    pub condition: Condition,
    pub image: Option<Image>,
}

/// A copy of a drive's file.
#[derive(Clone, Debug)]
pub struct Image {
    /// Which file it is a copy of.
    pub of: PathBuf,
    pub copy: PathBuf,
    /// The life of the server after which it was made.
    pub life: u64,
}

#[derive(Clone, Debug)]
pub struct Slots {
    pub slots: Vec<Slot>,
    /// So many drives may be faulty at once.
    pub bears: usize,
}

impl Slots {
    pub fn new(paths: Vec<PathBuf>, bears: usize) -> Slots {
        let slot = |path| Slot { path, condition: Condition::Whole, image: None };
        Slots { slots: paths.into_iter().map(slot).collect(), bears }
    }

    pub fn faulty(&self) -> usize {
        self.slots.iter().filter(|slot| slot.condition != Condition::Whole).count()
    }

    pub fn within(&self) -> bool {
        self.faulty() <= self.bears
    }

    pub fn are(&self, condition: Condition) -> Vec<usize> {
        let all = 0..self.slots.len();
        all.filter(|at| self.slots[*at].condition == condition).collect()
    }

    /// Learns from the pool which drives are members, and which are rebuilt. Returns
    /// drives that nobody had hurt and that the pool does without.
    pub fn refresh(&mut self, status: &Status, exists: impl Fn(&Path) -> bool) -> Vec<usize> {
        let mut given_up = Vec::new();
        for (at, (slot, drive)) in self.slots.iter_mut().zip(&status.drives).enumerate() {
            let active = drive.state == "active";
            if active || drive.state == "restoring" {
                // A drive that was copied onto another is that one now.
                slot.path.clone_from(&drive.path);
            }
            slot.condition = match slot.condition {
                Condition::Rebuilding if active => Condition::Whole,
                Condition::Rebuilding if drive.state == "restoring" => Condition::Rebuilding,
                Condition::Whole | Condition::Suspect if active => slot.condition,
                Condition::Lost if drive.state == "restoring" => Condition::Rebuilding,
                // With its replica it was lost, and is back.
                Condition::Lost if active && exists(&drive.path) => Condition::Whole,
                Condition::Whole => {
                    given_up.push(at);
                    Condition::Lost
                }
                _ => Condition::Lost,
            };
        }
        given_up
    }

    /// Everything was read, and what was wrong was written again.
    pub fn scrubbed(&mut self) {
        for slot in &mut self.slots {
            if slot.condition == Condition::Suspect {
                slot.condition = Condition::Whole;
            }
        }
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.faulty() == 0 {
            return write!(f, "all whole");
        }
        let faulty = self.slots.iter().enumerate();
        let faulty = faulty.filter(|(_, slot)| slot.condition != Condition::Whole);
        let words = faulty.map(|(at, slot)| format!("{at} {:?}", slot.condition).to_lowercase());
        write!(f, "{}", words.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tool::DriveStatus;
    use super::*;

    fn status(states: &[&str]) -> Status {
        let drive = |(at, state): (usize, &&str)| DriveStatus {
            path: format!("/d/d{at}").into(),
            state: (*state).to_owned(),
        };
        let drives = states.iter().enumerate().map(drive).collect();
        Status { state: String::new(), reason: String::new(), drives }
    }

    fn slots(conditions: &[Condition]) -> Slots {
        let paths = (0..conditions.len()).map(|at| format!("/d/d{at}").into()).collect();
        let mut slots = Slots::new(paths, 1);
        for (slot, condition) in slots.slots.iter_mut().zip(conditions) {
            slot.condition = *condition;
        }
        slots
    }

    fn conditions(slots: &Slots) -> Vec<Condition> {
        slots.slots.iter().map(|slot| slot.condition).collect()
    }

    use Condition::{Lost, Rebuilding, Suspect, Whole};

    #[test]
    fn a_drive_that_is_rebuilt_is_whole_and_one_that_rots_is_not_before_a_scrub() {
        let mut slots = slots(&[Whole, Suspect, Rebuilding, Rebuilding]);
        let given_up =
            slots.refresh(&status(&["active", "active", "active", "restoring"]), |_| true);
        assert_eq!((given_up.len(), slots.faulty(), slots.within()), (0, 2, false));
        assert_eq!(conditions(&slots), [Whole, Suspect, Whole, Rebuilding]);
        slots.scrubbed();
        assert_eq!(conditions(&slots), [Whole, Whole, Whole, Rebuilding]);
        assert!(slots.within());
    }

    #[test]
    fn a_drive_that_the_pool_does_without_is_lost() {
        let mut slots = slots(&[Whole, Suspect, Rebuilding, Lost]);
        let given_up =
            slots.refresh(&status(&["failed", "missing", "failed", "restoring"]), |_| true);
        assert_eq!(given_up, [0]);
        assert_eq!(conditions(&slots), [Lost, Lost, Lost, Rebuilding]);
    }

    /// Its file was deleted, and the pool has not noticed.
    #[test]
    fn a_lost_drive_is_not_whole_because_the_pool_uses_it() {
        let mut slots = slots(&[Lost, Whole]);
        slots.refresh(&status(&["active", "active"]), |_| false);
        assert_eq!(conditions(&slots), [Lost, Whole]);
    }

    #[test]
    fn a_drive_that_was_lost_with_its_replica_is_whole_when_that_is_back() {
        let mut slots = slots(&[Whole, Whole]);
        slots.refresh(&status(&["failed", "failed"]), |_| true);
        assert_eq!(conditions(&slots), [Lost, Lost]);
        slots.refresh(&status(&["active", "active"]), |path| path.ends_with("d1"));
        assert_eq!(conditions(&slots), [Lost, Whole]);
    }
}
