//! Which drives make up an array, found in their labels before anything is written.
//!
//! ```text
//!   drives given ─ labels read ─ newest label ─ drives in their places ─ enough in each group?
//!                                                                          no: refused
//!                                                                         yes: Assembly
//! ```
//! Opening an array tells its drives which of them are lost, so a pool of several arrays assembles
//! all of them before it opens one. A pool that is refused loses no drive by the attempt.

use format::{MemberState, Superblock, Uuid};
use io::Drive;

use crate::array::ArrayError;
use crate::grid::Grid;
use crate::label;
use crate::planted::{self, Bug};

/// The drives of an array, enough of them to open it.
pub struct Assembly<D> {
    /// The newest.
    pub(crate) label: Superblock,
    pub(crate) grid: Grid,
    /// `None`: the drive is lost.
    pub(crate) places: Vec<Option<D>>,
    /// Drives whose label is the one before the newest.
    pub(crate) behind: Vec<usize>,
}

impl<D: Drive> Assembly<D> {
    /// Reads the labels. An error if they are of different arrays, or if a group lacks more drives
    /// than its redundancy bears.
    pub async fn of(drives: Vec<D>) -> Result<Assembly<D>, ArrayError> {
        let mut found = Vec::new();
        for drive in drives {
            if let Some(label) = label::read(&drive).await {
                found.push((label, drive));
            }
        }
        let ours = found.iter().filter(|(label, _)| label::grid_of(label).is_some());
        let newest = ours.max_by_key(|(label, _)| label.generation).ok_or(ArrayError::NoLabel)?;
        let label = newest.0.clone();
        let grid = label::grid_of(&label).ok_or(ArrayError::NoLabel)?;
        let places = (0..grid.drives).map(|_| None).collect();
        let mut assembly = Assembly { label, grid, places, behind: Vec::new() };
        for (own, drive) in found {
            assembly.place(&own, drive)?;
        }
        refuse_lost(&grid, &assembly.lost())?;
        Ok(assembly)
    }

    /// Which array it is, and how new: of all arrays of that name the drives that are here have no
    /// newer one. Only whoever has asked other drives knows that there is.
    pub fn age(&self) -> (Uuid, u64) {
        (self.label.pool, self.label.generation)
    }

    /// Names of the drives that are not lost.
    pub fn names(&self) -> Vec<String> {
        self.places.iter().flatten().map(Drive::name).collect()
    }

    /// Numbers of the drives that are lost.
    pub fn lost(&self) -> Vec<usize> {
        (0..self.places.len()).filter(|&at| self.places[at].is_none()).collect()
    }

    /// Puts a drive where the newest label has it. One that it does not trust is left out.
    fn place(&mut self, own: &Superblock, drive: D) -> Result<(), ArrayError> {
        let label = &self.label;
        if own.pool != label.pool {
            return Err(ArrayError::OtherPool { name: drive.name() });
        }
        let index = usize::from(own.index);
        let Some((place, listed)) = self.places.get_mut(index).zip(label.members.get(index)) else {
            return Ok(());
        };
        // One that another has replaced is a stranger, and no copy of that.
        if listed.drive != own.drive {
            return Ok(());
        }
        if let Some(other) = place {
            return Err(ArrayError::Duplicate { first: other.name(), second: drive.name() });
        }
        // One that others have written off, that has shrunk, or that lacks a whole label which
        // they have (an image of long ago), does not hold what it should. The first label of a
        // drive counts if others name it: it has just taken another's place.
        let whole = drive.geometry().size >= listed.size;
        let recent = own.generation == 0
            || own.generation + 1 >= label.generation
            || planted::is(Bug::KeepStale);
        if recent && is_written_off(listed.state) && wrote_all_off(own, label) {
            return Err(ArrayError::Apart { name: drive.name() });
        }
        if whole && recent && listed.state == MemberState::Active {
            self.behind.extend((own.generation < label.generation).then_some(index));
            *place = Some(drive);
        }
        Ok(())
    }
}

fn is_written_off(state: MemberState) -> bool {
    matches!(state, MemberState::Missing | MemberState::Failed)
}

/// Whether a drive has written off all that the newest label calls active. If they have written it
/// off, too, both went on, and none of them has what the other one acknowledged; between an image
/// of long ago that says so and the newest label are those of a rebuild.
fn wrote_all_off(own: &Superblock, newest: &Superblock) -> bool {
    newest.members.iter().zip(&own.members).all(|(there, known)| {
        there.state != MemberState::Active
            || there.drive == known.drive && is_written_off(known.state)
    })
}

/// An error if a group lacks more drives than its redundancy bears.
pub fn refuse_lost(grid: &Grid, lost: &[usize]) -> Result<(), ArrayError> {
    let (width, tolerance) = (grid.width, grid.tolerance());
    for group in 0..grid.groups() {
        let own = group * width..(group + 1) * width;
        let lost: Vec<usize> = lost.iter().copied().filter(|at| own.contains(at)).collect();
        if lost.len() > tolerance {
            let what = format!("numbers {lost:?}");
            return Err(ArrayError::TooManyLost { lost: lost.len(), width, tolerance, what });
        }
    }
    Ok(())
}
