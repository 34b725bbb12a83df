//! Which drives of a set must not be trusted any more, for schemes whose drives hold no arrays that
//! know it by themselves: the labels of the set say it.

use std::cell::RefCell;

use classical::label;
use classical::member::Member;
use format::{MemberState, Superblock};
use io::Drive;
use io::sync::Turn;

use crate::set::Set;

pub struct Losses<D> {
    label: RefCell<Superblock>,
    /// Whole drives: for their labels.
    members: Vec<Member<D>>,
    turn: Turn,
}

impl<D: Drive> Losses<D> {
    pub fn new(set: &Set<D>) -> Losses<D> {
        let drive = |place| set.drive(place).filter(|_| !is_lost(&set.label, place));
        let members = (0..set.len()).map(|place| Member::new(drive(place))).collect();
        Losses { label: RefCell::new(set.label.clone()), members, turn: Turn::new() }
    }

    /// The labels say so.
    pub fn is_told(&self, place: usize) -> bool {
        is_lost(&self.label.borrow(), place)
    }

    /// These drives are lost: the others say so when this returns.
    pub async fn tell(&self, lost: &[usize]) {
        while !lost.iter().all(|place| self.is_told(*place)) {
            let _turn = self.turn.lock().await;
            if lost.iter().all(|place| self.is_told(*place)) {
                return;
            }
            let mut next = self.label.borrow().clone();
            next.generation += 1;
            for place in lost {
                next.members[*place].state = MemberState::Failed;
                self.members[*place].lose();
            }
            label::write(&next, &self.members).await;
            self.label.replace(next);
        }
    }
}

fn is_lost(label: &Superblock, place: usize) -> bool {
    label.members[place].state != MemberState::Active
}
