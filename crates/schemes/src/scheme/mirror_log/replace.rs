//! A new drive in the place of a lost one.
//!
//! ```text
//!   lost     segments with one copy ── moved, as those that hold little are ── two copies: missing
//!   new      empty; takes segments at once, as every drive does. Whole when no segment lacks a
//!            copy, and at once if none did
//! ```
//! Nothing is copied to where it was: what a segment holds is appended again. A drive that is the
//! lost one, back, still has copies of segments that were full when it went and are not emptied
//! yet: those lack nothing.

use std::cell::RefCell;
use std::rc::Rc;

use classical::label;
use format::{MemberState, Superblock, Uuid};
use io::sync::Turn;
use io::{Drive, Env};

use super::mirrors::TOLERANCE;
use super::{Group, MirrorLog, uuid_of};
use crate::losses::Losses;
use crate::set::Set;
use crate::store::{Replace, Restoring, StoreError, refuse_drive};

/// The drives of all groups.
pub struct Drives<E: Env> {
    env: E,
    set: RefCell<Set<E::Drive>>,
    losses: Rc<Losses<E::Drive>>,
    turn: Turn,
}

impl<E: Env> Drives<E> {
    pub fn new(env: &E, set: Set<E::Drive>, losses: Rc<Losses<E::Drive>>) -> Drives<E> {
        Drives { env: env.clone(), set: RefCell::new(set), losses, turn: Turn::new() }
    }
}

impl<E: Env> Group<E> {
    /// Nothing lacks a copy, and there are drives for both.
    fn is_whole(&self) -> bool {
        self.log.medium().there() > TOLERANCE && self.log.degraded() == 0
    }

    /// Looks whether everything that drives had that are lost, or new, has its copies again. False:
    /// there is nothing to say about it.
    pub(super) async fn settle(&self) -> Result<bool, StoreError> {
        let mirrors = self.log.medium();
        if mirrors.missed().is_empty() {
            return Ok(false);
        }
        if !self.is_whole() {
            if !self.held.get() {
                self.log.fill_degraded();
            }
            return Ok(false);
        }
        // All that was moved is durable; so is what was written beside.
        self.log.flush().await?;
        let missed = mirrors.missed();
        if missed.len() > TOLERANCE || !self.is_whole() {
            return Ok(false);
        }
        for drive in missed {
            let filled = mirrors.filling().contains(&drive);
            let state = if filled { MemberState::Active } else { MemberState::Missing };
            mirrors.tell_state(drive, state).await;
            mirrors.set_whole(drive);
        }
        Ok(true)
    }
}

impl<E: Env> Replace for MirrorLog<E> {
    type Drive = E::Drive;

    fn bears(&self, place: usize) -> bool {
        let (group, at) = self.store_of(place);
        let mirrors = group.log.medium();
        let (missed, lost) = (mirrors.missed(), mirrors.lost());
        let others = lost.iter().filter(|other| **other != at).count();
        missed.iter().filter(|other| **other != at).count() < TOLERANCE
            && others + 1 < mirrors.width()
    }

    async fn write_off(&self, place: usize) -> Result<(), StoreError> {
        let (group, at) = self.store_of(place);
        let (mirrors, losses) = (group.log.medium(), &self.drives().losses);
        mirrors.lose(at);
        if losses.state(place) == MemberState::Restoring {
            losses.tell_state(place, MemberState::Failed).await;
        }
        mirrors.record_losses().await
    }

    async fn replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
        let Drives { env, set, losses, turn } = self.drives();
        let _turn = turn.lock().await;
        let (name, (group, at)) = (new.name(), self.store_of(place));
        let (mirrors, first) = (group.log.medium(), place - at);
        if !mirrors.lost().contains(&at) {
            return refuse_drive(&name, place, "nothing is lost there");
        }
        if mirrors.filling().contains(&at) {
            return refuse_drive(&name, place, "another one is being filled there");
        }
        mirrors.record_losses().await?;
        let next = set.borrow().with(env, place, new.clone())?;
        let part = next.first_of(first..first + mirrors.width(), place);
        let part = part.expect("it was just put there");
        let refused = |_| StoreError::NotWritten { name: name.clone() };
        label::wipe(&new).await.map_err(refused)?;
        let lacking = group.log.pin_closed(|number| mirrors.copies(number).len() <= TOLERANCE);
        let numbers: Vec<u32> = lacking.iter().map(|pin| pin.segment).collect();
        let pool = uuid_of(&next.label, first);
        let kept = mirrors.kept_on(&pool, (at, &part), &numbers).await;
        mirrors.blank(&pool, &part, &kept).await.map_err(refused)?;
        // With nothing on it that others lack it is whole from the start.
        let filling = losses.state(place) != MemberState::Missing;
        let mut listed = next.label.members[place];
        if !filling {
            listed.state = MemberState::Active;
        }
        losses.replace(place, new, listed).await?;
        mirrors.replace(at, part, &kept, filling);
        drop(lacking);
        *set.borrow_mut() = next;
        group.lacking.set(group.log.degraded());
        Ok(())
    }

    fn restoring(&self) -> Vec<Restoring> {
        let width = self.stores()[0].log.medium().width();
        let of = |(first, group): (usize, &Group<E>)| {
            let mirrors = group.log.medium();
            let left = group.log.degraded();
            let all = group.lacking.get().max(left) * mirrors.segment_bytes();
            let left = left * mirrors.segment_bytes();
            let filling = mirrors.filling().into_iter();
            filling.map(|at| Restoring { place: first + at, left, all }).collect::<Vec<_>>()
        };
        (0..).step_by(width).zip(self.stores()).flat_map(of).collect()
    }

    fn hold(&self, held: bool) {
        self.stores().iter().for_each(|group| group.held.set(held));
    }

    fn label_turn(&self, _place: usize) -> Turn {
        self.drives().losses.turn()
    }

    async fn relist(&self, place: usize, drive: Uuid) -> Result<Superblock, StoreError> {
        let Drives { set, losses, .. } = self.drives();
        set.borrow_mut().label.members[place].drive = drive;
        losses.relist(place, drive).await
    }

    /// The group's work tells it.
    async fn tell_whole(&self, _place: usize) -> Result<(), StoreError> {
        Ok(())
    }
}
