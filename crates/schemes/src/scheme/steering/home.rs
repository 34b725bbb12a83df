//! Where the bytes of a drive are that are not redirected.
//!
//! ```text
//!   its own drive        lost, rebuilt in the staging space     a new drive has its place
//!   [ part ]             [ spare ]                              [ spare            ]
//!                                                       writes  [ part │           ]
//!                                                                   front ─► the end: part
//! ```
//! While a new drive is given what the staging space has, that is what counts, and it is never
//! behind: what the front has passed is written to both. One that is the lost drive, back, has what
//! it does not miss (`classical::kept`): the front passes over that.

use std::cell::{Cell, RefCell};

use classical::Lacks;
use futures_util::future::join;
use io::{Buf, Drive, DriveError, Durability, Env, Operation};

use super::drive::gone;
use super::spare::Spare;
use crate::part::Part;

pub struct Home<E: Env> {
    part: RefCell<Option<Part>>,
    spare: RefCell<Option<Spare<E>>>,
    /// The new drive has all that is before it.
    front: Cell<u64>,
    lacks: Cell<Lacks>,
}

impl<E: Env> Home<E> {
    pub fn on(part: Part) -> Home<E> {
        Home::of(Some(part), None)
    }

    fn of(part: Option<Part>, spare: Option<Spare<E>>) -> Home<E> {
        let (part, spare) = (RefCell::new(part), RefCell::new(spare));
        Home { part, spare, front: Cell::new(0), lacks: Cell::new(Lacks::All) }
    }

    /// In the staging space; a new drive is to have it if there is one.
    pub fn spared(spare: Spare<E>, part: Option<Part>) -> Home<E> {
        Home::of(part, Some(spare))
    }

    fn both(&self) -> (Option<Spare<E>>, Option<Part>) {
        (self.spare.borrow().clone(), self.part.borrow().clone())
    }

    /// The drive that alone has its bytes.
    pub fn alone(&self) -> Option<Part> {
        let (spare, part) = self.both();
        part.filter(|_| spare.is_none())
    }

    /// The new drive that is to have it, and how much of it has.
    pub fn moving(&self) -> Option<(Part, u64)> {
        let (spare, part) = self.both();
        part.filter(|_| spare.is_some()).map(|part| (part, self.front.get()))
    }

    /// How much of it the new drive is given.
    pub fn lacks(&self) -> Lacks {
        self.lacks.get()
    }

    /// A new drive is to have it from now on.
    pub fn move_to(&self, part: Part, lacks: Lacks) {
        assert!(self.spare.borrow().is_some(), "it is in the staging space");
        self.front.set(0);
        self.lacks.set(lacks);
        *self.part.borrow_mut() = Some(part);
    }

    /// Nothing of it is anywhere.
    pub fn lose(&self) {
        *self.spare.borrow_mut() = None;
        self.stay();
    }

    pub fn is_spared(&self) -> bool {
        self.spare.borrow().is_some()
    }

    /// The new drive failed.
    pub fn stay(&self) {
        *self.part.borrow_mut() = None;
        self.front.set(0);
    }

    /// The new drive has all of it, and that is recorded.
    pub fn moved(&self) {
        assert!(self.part.borrow().is_some(), "there is a new drive");
        *self.spare.borrow_mut() = None;
        self.front.set(0);
    }

    pub async fn read(&self, offset: u64, len: u64) -> Result<Buf, DriveError> {
        // What is being read stays where it is until this returns.
        let none = gone(Operation::Read, offset, len);
        match self.both() {
            (Some(spare), _) => spare.array.read(offset, len).await.map_err(|_| none),
            (None, Some(part)) => part.read(offset, len as usize).await,
            (None, None) => Err(none),
        }
    }

    /// The range is held.
    pub async fn write(&self, offset: u64, data: Buf, how: Durability) -> Result<(), DriveError> {
        let none = gone(Operation::Write, offset, data.len() as u64);
        let (spare, part) = self.both();
        let Some(spare) = spare else {
            let part = part.ok_or(none)?;
            return part.write(offset, data, how).await;
        };
        let passed = part.filter(|_| offset < self.front.get());
        let beside = async {
            if let Some(part) = passed
                && part.write(offset, data.clone(), Durability::Cached).await.is_err()
            {
                self.stay();
            }
        };
        let fua = how == Durability::Durable;
        let (done, ()) = join(spare.array.write(offset, data.clone(), fua), beside).await;
        done.map_err(|_| none)
    }

    pub async fn flush(&self) -> Result<(), DriveError> {
        let none = gone(Operation::Flush, 0, 0);
        match self.both() {
            (Some(spare), _) => spare.array.flush().await.map_err(|_| none),
            (None, Some(part)) => part.flush().await,
            (None, None) => Err(none),
        }
    }

    pub fn name(&self) -> String {
        match self.both() {
            (Some(_), _) | (None, None) => "staging space".to_owned(),
            (None, Some(part)) => part.name(),
        }
    }

    /// Where on the device it begins.
    pub fn begins_at(&self) -> u64 {
        match self.both() {
            (Some(_), _) | (None, None) => 0,
            (None, Some(part)) => part.begins_at(),
        }
    }

    /// The new drive has what is before this byte. No write of it is on its way that has not been
    /// told of.
    pub fn skip(&self, to: u64) {
        assert!(self.lacks.get() == Lacks::Kept && self.front.get() <= to, "it has that");
        self.front.set(to);
    }

    /// Gives the new drive some more of what the staging space has, before `end`. Nothing is
    /// being written to the range. False: a drive failed.
    pub async fn advance(&self, to: u64) -> bool {
        let Some((part, front)) = self.moving() else { return false };
        let Ok(bytes) = self.read(front, to - front).await else { return false };
        match part.write(front, bytes, Durability::Cached).await {
            Ok(()) => self.front.set(to),
            Err(_) => self.stay(),
        }
        self.moving().is_some()
    }
}
