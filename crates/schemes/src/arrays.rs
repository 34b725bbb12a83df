//! A new drive in the place of a lost one, for schemes whose drives are each one array's.
//!
//! ```text
//!   set     d0 d1 d2 | d3 d4 d5      labels: restoring ── the array has all of it ── active
//!   arrays  first    | second        the array's own labels: lost ──────────────── active
//! ```
//! The array knows what may be trusted; the labels of the set say which drives belong to it, and
//! that one of them was being filled when the machine stopped.

use std::cell::RefCell;
use std::ops::Range;

use classical::Array;
use format::{MemberState, Superblock, Uuid};
use io::sync::Turn;
use io::{Drive, Env};

use crate::ages;
use crate::part::PartEnv;
use crate::set::{self, Set};
use crate::store::{Replace, Restoring, StoreError, refuse_drive};

pub struct Arrays<E: Env> {
    env: E,
    set: RefCell<Set<E::Drive>>,
    /// Side by side, in the order of the set.
    arrays: Vec<Array<PartEnv<E>>>,
    /// Who changes the set.
    turn: Turn,
}

/// A store of which each drive has a part of one array, and nothing else.
pub trait OnArrays {
    type World: Env;

    fn arrays(&self) -> &Arrays<Self::World>;
}

/// Where a drive of the set is.
struct Share<'a, E: Env> {
    array: &'a Array<PartEnv<E>>,
    /// In the array.
    at: usize,
    /// Of all of the array's drives, in the set.
    of: Range<usize>,
}

impl<E: Env> Arrays<E> {
    pub fn new(env: &E, set: Set<E::Drive>, arrays: Vec<Array<PartEnv<E>>>) -> Arrays<E> {
        Arrays { env: env.clone(), set: RefCell::new(set), arrays, turn: Turn::new() }
    }

    fn shares(&self) -> impl Iterator<Item = Share<'_, E>> {
        let mut first = 0;
        self.arrays.iter().flat_map(move |array| {
            let of = first..first + array.grid().drives;
            first = of.end;
            (0..array.grid().drives).map(move |at| Share { array, at, of: of.clone() })
        })
    }

    fn share(&self, place: usize) -> Share<'_, E> {
        self.shares().nth(place).expect("every drive of the set is an array's")
    }

    fn lost(&self) -> Vec<usize> {
        let lost = |(_, share): &(usize, Share<E>)| share.array.lost().contains(&share.at);
        self.shares().enumerate().filter(lost).map(|(place, _)| place).collect()
    }

    /// The turn is held. Those that are lost are not told.
    async fn tell(&self, mut next: Set<E::Drive>, but: Option<usize>) -> Result<(), StoreError> {
        let lost = self.lost().into_iter().filter(|place| Some(*place) != but);
        lost.for_each(|place| next.forget(place));
        next.write_labels().await?;
        *self.set.borrow_mut() = next;
        Ok(())
    }

    /// The labels of the set say how new each array is.
    pub async fn tell_ages(&self) {
        let _turn = self.turn.lock().await;
        let ages = ages::of_all(&self.arrays).await;
        ages::tell(&self.set, &ages, &self.lost()).await;
    }

    /// The same after a loss.
    pub async fn tell_losses(&self) {
        if !self.lost().is_empty() {
            self.tell_ages().await;
        }
    }

    async fn tell_state(&self, place: usize, state: MemberState) -> Result<(), StoreError> {
        let _turn = self.turn.lock().await;
        let next = self.set.borrow().with_state(place, state);
        match next {
            Some(next) => self.tell(next, None).await,
            None => Ok(()),
        }
    }

    fn is_restoring(&self, place: usize) -> bool {
        self.set.borrow().is_restoring(place)
    }

    pub fn sit_out(&self, place: usize, out: bool) {
        let Share { array, at, .. } = self.share(place);
        array.sit_out(at, out);
    }

    async fn write_off(&self, place: usize) -> Result<(), StoreError> {
        let Share { array, at, .. } = self.share(place);
        array.write_off(at).await?;
        match self.is_restoring(place) {
            true => self.tell_state(place, MemberState::Failed).await,
            false => Ok(()),
        }
    }

    async fn replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
        let _turn = self.turn.lock().await;
        let Share { array, at, of } = self.share(place);
        if !array.lost().contains(&at) {
            return refuse_drive(&new.name(), place, "nothing is lost there");
        }
        if array.rebuilt(at).is_some() {
            return refuse_drive(&new.name(), place, "another one is being filled there");
        }
        let next = self.set.borrow().with(&self.env, place, new.clone())?;
        let part = next.first_of(of, place).expect("it was just put there");
        array.check_replacement(at, &part)?;
        let name = new.name();
        let named = set::is_named(&self.set, place, &new).await;
        let blank = classical::label::wipe(&new).await;
        blank.map_err(|_| StoreError::NotWritten { name })?;
        let lacks = set::lacks(named, (array, at), &part).await;
        array.blank(at, &part).await?;
        self.tell(next, Some(place)).await?;
        Ok(array.replace_lacking(at, part, lacks)?)
    }

    /// The turn is held.
    async fn relist(&self, place: usize, drive: Uuid) -> Result<Superblock, StoreError> {
        set::relist(&self.set, place, drive, &self.lost()).await
    }

    fn restoring(&self) -> Vec<Restoring> {
        let of = |(place, share): (usize, Share<E>)| {
            let own = Replace::restoring(share.array);
            let own = own.into_iter().find(|own| own.place == share.at)?;
            Some(Restoring { place, ..own })
        };
        self.shares().enumerate().filter_map(of).collect()
    }
}

impl<S: OnArrays + crate::Store> Replace for S {
    type Drive = <S::World as Env>::Drive;

    fn bears(&self, place: usize) -> bool {
        let Share { array, at, .. } = self.arrays().share(place);
        array.bears(at)
    }

    async fn write_off(&self, place: usize) -> Result<(), StoreError> {
        self.arrays().write_off(place).await
    }

    async fn replace(&self, place: usize, new: Self::Drive) -> Result<(), StoreError> {
        self.arrays().replace(place, new).await
    }

    fn restoring(&self) -> Vec<Restoring> {
        self.arrays().restoring()
    }

    fn hold(&self, held: bool) {
        self.arrays().arrays.iter().for_each(|array| array.hold(held));
    }

    fn label_turn(&self, _place: usize) -> Turn {
        self.arrays().turn.clone()
    }

    async fn relist(&self, place: usize, drive: Uuid) -> Result<Superblock, StoreError> {
        self.arrays().relist(place, drive).await
    }

    async fn tell_whole(&self, place: usize) -> Result<(), StoreError> {
        match self.arrays().is_restoring(place) {
            true => self.arrays().tell_state(place, MemberState::Active).await,
            false => Ok(()),
        }
    }
}
