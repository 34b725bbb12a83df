//! Stores one behind the other: what a pool was made of, and what it grew by. They share no drives.
//!
//! ```text
//!   offset   |──── first store ────|──── what came then ────|── ...
//!   drives   0 .. n                 n .. m                   m ..
//! ```
//! Nothing lies across two of them: grains of volumes are within one. A volume's grains take turns,
//! so that the drives of all share its load.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use format::{Superblock, Uuid};
use io::sync::Turn;
use io::{Buf, join_all};

use crate::care::AllKept;
use crate::store::{Counters, Replace, Restoring, Store, StoreError, add_up};

#[derive(Clone)]
struct Piece<S> {
    /// Where it begins.
    base: u64,
    /// Its drives, by their place in the pool.
    places: Range<usize>,
    store: S,
}

/// A handle: clones name the same.
pub struct Joined<S> {
    pieces: Rc<RefCell<Vec<Piece<S>>>>,
}

impl<S> Clone for Joined<S> {
    fn clone(&self) -> Joined<S> {
        Joined { pieces: self.pieces.clone() }
    }
}

impl<S: Store> Joined<S> {
    /// Of one, with so many drives.
    pub fn new(store: S, drives: usize) -> Joined<S> {
        let first = Piece { base: 0, places: 0..drives, store };
        Joined { pieces: Rc::new(RefCell::new(vec![first])) }
    }

    /// One more with so many drives, behind all others: where it begins.
    pub fn push(&self, store: S, drives: usize) -> u64 {
        let mut pieces = self.pieces.borrow_mut();
        let last = pieces.last().expect("there is one");
        let (base, first) = (last.base + last.store.size(), last.places.end);
        pieces.push(Piece { base, places: first..first + drives, store });
        base
    }

    fn all(&self) -> Vec<Piece<S>> {
        self.pieces.borrow().clone()
    }

    fn map<T>(&self, what: impl FnMut(&Piece<S>) -> T) -> Vec<T> {
        self.pieces.borrow().iter().map(what).collect()
    }

    /// Where these bytes are.
    fn at(&self, offset: u64, len: u64) -> Result<(S, u64), StoreError> {
        let pieces = self.pieces.borrow();
        let own = pieces.iter().rfind(|piece| piece.base <= offset).expect("the first is at 0");
        let (at, size) = (offset - own.base, own.store.size());
        match at.checked_add(len).is_some_and(|end| end <= size) {
            true => Ok((own.store.clone(), at)),
            false => Err(StoreError::Range { offset, len, size: own.base + size }),
        }
    }

    /// Whose drive this is, and its place there.
    fn of(&self, place: usize) -> (S, usize) {
        let pieces = self.pieces.borrow();
        let own = pieces.iter().find(|piece| piece.places.contains(&place));
        let own = own.expect("every drive is one of theirs");
        (own.store.clone(), place - own.places.start)
    }
}

impl<S: Store> Store for Joined<S> {
    fn size(&self) -> u64 {
        let pieces = self.pieces.borrow();
        let last = pieces.last().expect("there is one");
        last.base + last.store.size()
    }

    fn unit(&self) -> u64 {
        self.pieces.borrow()[0].store.unit()
    }

    fn region(&self, volume: u32, grain: u32) -> Range<u64> {
        let pieces = self.pieces.borrow();
        let own = &pieces[volume.wrapping_add(grain) as usize % pieces.len()];
        let within = own.store.region(volume, grain);
        own.base + within.start..own.base + within.end
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        let (store, at) = self.at(offset, len)?;
        store.read(at, len).await
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        let (store, at) = self.at(offset, data.len() as u64)?;
        store.write(at, data, fua).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        let (store, at) = self.at(offset, len)?;
        store.discard(at, len).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let pieces = self.all();
        let flushes = pieces.iter().map(|piece| piece.store.flush());
        join_all(flushes).await.into_iter().collect()
    }

    async fn close(&self) -> Result<(), StoreError> {
        for piece in self.all() {
            piece.store.close().await?;
        }
        Ok(())
    }

    /// A piece of each: the work of one does not wait for that of others to end.
    async fn work(&self) -> Result<bool, StoreError> {
        let mut worked = Ok(false);
        for piece in self.all() {
            let done = piece.store.work().await;
            worked = match (worked, done) {
                (Ok(before), Ok(now)) => Ok(before || now),
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        worked
    }

    fn owed(&self) -> u64 {
        self.map(|piece| piece.store.owed()).into_iter().sum()
    }

    fn marks(&self) -> u64 {
        self.map(|piece| piece.store.marks()).into_iter().sum()
    }

    fn steers(&self) -> bool {
        self.map(|piece| piece.store.steers()).contains(&true)
    }

    fn steer(&self, drive: usize, slow: bool) {
        let (store, at) = self.of(drive);
        store.steer(at, slow);
    }

    fn sit_out(&self, drive: usize, out: bool) {
        let (store, at) = self.of(drive);
        store.sit_out(at, out);
    }

    fn lost(&self) -> Vec<usize> {
        let of = |piece: &Piece<S>| {
            let first = piece.places.start;
            piece.store.lost().into_iter().map(|at| first + at).collect::<Vec<_>>()
        };
        self.map(of).concat()
    }

    fn margin(&self) -> usize {
        self.map(|piece| piece.store.margin()).into_iter().min().unwrap_or(0)
    }

    fn shape(&self) -> String {
        let mut shapes = self.map(|piece| piece.store.shape());
        let count = shapes.len();
        shapes.dedup();
        match (count, shapes.as_slice()) {
            (1, _) => shapes.remove(0),
            (_, [shape]) => format!("{count} arrays, each {shape}"),
            _ => format!("{count} arrays: {}", shapes.join("; ")),
        }
    }

    /// Of all together.
    fn counters(&self) -> Counters {
        add_up(self.map(|piece| piece.store.counters()).concat())
    }

    fn kept(&self) -> AllKept {
        self.map(|piece| piece.store.kept()).into_iter().flatten().collect()
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let mut wrong = Vec::new();
        for (number, Piece { base, store, .. }) in self.all().into_iter().enumerate() {
            let (start, end) = (offset.max(base), (offset + len).min(base + store.size()));
            if start < end {
                let found = store.audit(start - base, end - start).await;
                wrong.extend(found.iter().map(|what| format!("array {number}: {what}")));
            }
        }
        wrong
    }
}

impl<S: Replace> Replace for Joined<S> {
    type Drive = S::Drive;

    fn bears(&self, place: usize) -> bool {
        let (store, at) = self.of(place);
        store.bears(at)
    }

    async fn write_off(&self, place: usize) -> Result<(), StoreError> {
        let (store, at) = self.of(place);
        store.write_off(at).await
    }

    async fn replace(&self, place: usize, new: S::Drive) -> Result<(), StoreError> {
        let (store, at) = self.of(place);
        store.replace(at, new).await
    }

    fn restoring(&self) -> Vec<Restoring> {
        let of = |piece: &Piece<S>| {
            let first = piece.places.start;
            let own = piece.store.restoring().into_iter();
            own.map(|own| Restoring { place: first + own.place, ..own }).collect::<Vec<_>>()
        };
        self.map(of).concat()
    }

    fn hold(&self, held: bool) {
        self.map(|piece| piece.store.hold(held));
    }

    async fn tell_whole(&self, place: usize) -> Result<(), StoreError> {
        let (store, at) = self.of(place);
        store.tell_whole(at).await
    }

    fn label_turn(&self, place: usize) -> Turn {
        let (store, at) = self.of(place);
        store.label_turn(at)
    }

    async fn relist(&self, place: usize, drive: Uuid) -> Result<Superblock, StoreError> {
        let (store, at) = self.of(place);
        store.relist(at, drive).await
    }
}
