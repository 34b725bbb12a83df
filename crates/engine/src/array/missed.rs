//! Which drives are missed, and which are on their way out.

use io::Drive;
use layout::DriveIndex;

use super::{Array, Member};
use crate::api::DriveState;

impl<D: Drive> Array<D> {
    /// The drive does not hold all that it should, and nobody else holds it instead.
    pub fn is_missed(&self, index: DriveIndex) -> bool {
        match self.member(index).state.get() {
            DriveState::Active => false,
            DriveState::Vacated => self.is_exposed() || self.is_vacating(index),
            _ => true,
        }
    }

    /// Drives that are lost, or not restored yet, and that the pool cannot do without.
    pub fn unserved(&self) -> usize {
        let done_without = |index: &DriveIndex| {
            matches!(self.member(*index).state(), DriveState::Active | DriveState::Vacated)
        };
        self.indexes().filter(|index| !done_without(index)).count()
    }

    /// A block was given out on a lost drive.
    pub fn expose(&self) {
        self.exposures.set(self.exposures.get() + 1);
    }

    pub fn exposures(&self) -> u64 {
        self.exposures.get()
    }

    /// Blocks exposed up to this number of them have substitutes now.
    pub fn note_covered(&self, exposures: u64) {
        self.covered.set(exposures);
    }

    pub fn is_exposed(&self) -> bool {
        self.covered.get() < self.exposures.get()
    }

    pub(super) fn set_state(&self, member: &Member<D>, state: DriveState) {
        member.state.set(state);
        let is_active = |member: &Member<D>| member.state.get() == DriveState::Active;
        self.all_active.set(self.members.iter().all(is_active));
    }

    /// All drives are used, and none is to be left.
    pub fn is_complete(&self) -> bool {
        self.all_active.get() && self.draining.get().is_none()
    }

    pub fn draining(&self) -> Option<DriveIndex> {
        self.draining.get()
    }

    pub fn is_draining(&self, index: DriveIndex) -> bool {
        self.draining.get() == Some(index)
    }

    pub fn set_draining(&self, index: Option<DriveIndex>) {
        self.draining.set(index);
    }

    pub fn vacating(&self) -> Option<DriveIndex> {
        self.vacating.get()
    }

    pub fn is_vacating(&self, index: DriveIndex) -> bool {
        self.vacating.get() == Some(index)
    }

    /// Nothing is on the drive that is not elsewhere. It is missed until that is recorded.
    pub fn vacate(&self, index: DriveIndex) {
        let member = self.member(index);
        self.vacating.set(Some(index));
        self.set_state(member, DriveState::Vacated);
        // What is still under way on it is nobody's business any more.
        member.era.set(member.era.get() + 1);
        member.gone.notify_all();
        *member.awaited.borrow_mut() = None;
    }

    pub fn vacated(&self, index: DriveIndex) {
        self.vacating.set(None);
        *self.member(index).drive.borrow_mut() = None;
    }

    /// Changes with the drive in this place.
    pub fn era(&self, index: DriveIndex) -> u32 {
        self.member(index).era.get()
    }
}
