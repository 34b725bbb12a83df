//! Which drives of a set must not be trusted any more, for schemes whose drives hold no arrays that
//! know it by themselves: the labels of the set say it.
//!
//! ```text
//!   active ──► failed ──► missing       all that it had has as many copies again without it
//!     ▲ ▲        │          │
//!     │ └────────┼──────────┘           a new drive has its place, and there is nothing to fill in
//!     └── restoring                     a new drive has its place, and does not have all
//! ```

use std::cell::RefCell;

use classical::label;
use classical::member::Member;
use classical::rebuild::note_restoring;
use format::{Member as Listed, MemberState, Superblock, Uuid};
use io::Drive;
use io::sync::Turn;

use crate::set::Set;
use crate::store::StoreError;

pub struct Losses<D> {
    label: RefCell<Superblock>,
    /// Whole drives: for their labels.
    members: Vec<Member<D>>,
    turn: Turn,
}

impl<D: Drive> Losses<D> {
    pub fn new(set: &Set<D>) -> Losses<D> {
        let active = |place: &usize| set.label.members[*place].state == MemberState::Active;
        let drive = |place| set.drive(place).filter(|_| active(&place));
        let members = (0..set.len()).map(|place| Member::new(drive(place))).collect();
        Losses { label: RefCell::new(set.label.clone()), members, turn: Turn::new() }
    }

    /// Comes before anything relies on what the newest label says: a crash may have left it on one
    /// drive, and that may be lost next.
    pub async fn tell_again(&self) {
        let _turn = self.turn.lock().await;
        self.write(|_| ()).await;
    }

    pub fn state(&self, place: usize) -> MemberState {
        self.label.borrow().members[place].state
    }

    /// The labels say so.
    pub fn is_told(&self, place: usize) -> bool {
        self.state(place) != MemberState::Active
    }

    /// These drives are lost: the others say so when this returns.
    pub async fn tell(&self, lost: &[usize]) {
        while !lost.iter().all(|place| self.is_told(*place)) {
            let _turn = self.turn.lock().await;
            let news: Vec<usize> =
                lost.iter().copied().filter(|place| !self.is_told(*place)).collect();
            news.iter().for_each(|place| self.members[*place].lose());
            if !news.is_empty() {
                self.write(|label| {
                    for place in &news {
                        label.members[*place].state = MemberState::Failed;
                    }
                })
                .await;
            }
        }
    }

    /// The turn is held.
    async fn write(&self, how: impl FnOnce(&mut Superblock)) {
        self.write_but(None, how).await;
    }

    async fn write_but(&self, but: Option<usize>, how: impl FnOnce(&mut Superblock)) {
        let mut next = self.label.borrow().clone();
        next.generation += 1;
        how(&mut next);
        note_restoring(&mut next);
        label::write_but(&next, &self.members, but).await;
        self.label.replace(next);
    }

    /// Who changes the labels holds it.
    pub fn turn(&self) -> Turn {
        self.turn.clone()
    }

    /// The others say from now on that the drive in this place is this one. What its own label has
    /// to say. The turn is held.
    pub async fn relist(&self, place: usize, drive: Uuid) -> Result<Superblock, StoreError> {
        let whole = |member: &&Member<D>| !member.is_lost();
        let there = self.members.iter().filter(whole).count();
        self.write_but(Some(place), |label| label.members[place].drive = drive).await;
        let label = label::for_drive(&self.label.borrow(), place);
        match self.members.iter().filter(whole).count() == there {
            true => Ok(label),
            false => Err(StoreError::NotWritten { name: label.drive.to_string() }),
        }
    }

    pub async fn tell_state(&self, place: usize, state: MemberState) {
        let _turn = self.turn.lock().await;
        if self.state(place) != state {
            self.write(|label| label.members[place].state = state).await;
        }
    }

    /// A new drive has the place of a lost one, and the labels say so when this returns.
    pub async fn replace(&self, place: usize, new: D, listed: Listed) -> Result<(), StoreError> {
        let (_turn, name) = (self.turn.lock().await, new.name());
        let member = &self.members[place];
        member.lose();
        member.replace(new);
        member.set_whole();
        self.write(|label| label.members[place] = listed).await;
        match member.is_lost() {
            true => Err(StoreError::NotWritten { name }),
            false => Ok(()),
        }
    }
}
