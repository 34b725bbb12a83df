//! Drives that hang (`part::hang`): given up one at a time, as long as all data is there without
//! them. What a drive has to answer that nobody can do without is waited for; making or ending a
//! pool is not.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::select;
use io::sync::Event as Bell;
use io::{Drive, Env};

use super::{Inner, LOOK, Severity};
use crate::part::Part;
use crate::part::hang::{HANG_AFTER, Patience};
use crate::store::{Replace, Store, StoreError};

/// Awaits something that is to end, or to end in an error as soon as a drive hangs that is needed
/// for it. Then it goes on by itself, as far as it comes.
pub(super) async fn end_in_time<E: Env, T: 'static>(
    env: &E,
    hanging: impl Fn() -> Option<String>,
    work: impl Future<Output = Result<T, StoreError>> + 'static,
) -> Result<T, StoreError> {
    let (slot, bell) = (Rc::new(RefCell::new(None)), Bell::new());
    let (own, told) = (slot.clone(), bell.clone());
    env.spawn(async move {
        let done = work.await;
        own.replace(Some(done));
        told.notify_all();
    });
    loop {
        let over = bell.wait();
        let done = slot.borrow_mut().take();
        if let Some(done) = done {
            return done;
        }
        if let Some(name) = hanging() {
            return Err(StoreError::Hangs { name });
        }
        select(over, pin!(env.sleep_until(env.now() + LOOK))).await;
    }
}

/// The first of these that hangs and is needed.
pub(super) fn needed<'a>(parts: impl Iterator<Item = &'a Part>) -> Option<String> {
    let mut parts = parts.filter(|part| part.patience().is_some_and(Patience::is_needed));
    parts.next().map(Drive::name)
}

/// While the pool is opened nobody knows what it bears: one more of these may fail, if there is
/// redundancy and no other drive was missing from the start.
pub(super) fn spare_at_most_one(parts: &[Part], one: bool) {
    let left = Rc::new(Cell::new(one));
    for patience in parts.iter().filter_map(Part::patience) {
        let left = left.clone();
        patience.ask(move || left.replace(false));
    }
}

impl<E: Env> Inner<E> {
    /// A drive that has this place, or is to have it, is given up only if the others have all.
    pub(super) fn ask_before_giving_up(self: &Rc<Self>, place: usize, part: &Part) {
        let pool = Rc::downgrade(self);
        if let Some(patience) = part.patience() {
            patience.ask(move || pool.upgrade().is_none_or(|pool| pool.can_spare(place)));
        }
    }

    fn can_spare(&self, place: usize) -> bool {
        let (store, drives) = (self.volumes.store(), self.drives.borrow());
        let lost = store.lost();
        if drives[place].as_ref().is_some_and(Part::is_short) {
            return false;
        }
        if lost.contains(&place) {
            return true;
        }
        // What was given up counts before the store knows.
        let given_up = |(at, part): (usize, &Option<Part>)| {
            at != place && !lost.contains(&at) && part.as_ref().is_some_and(Part::hangs)
        };
        !drives.iter().enumerate().any(given_up) && store.bears(place)
    }

    /// Until the pool is closed.
    pub(super) async fn write_off_hanging(self: Rc<Self>) {
        let mut waited_for = vec![false; self.drives.borrow().len()];
        while !self.closed.get() {
            for (place, waited_for) in waited_for.iter_mut().enumerate() {
                let part = self.drives.borrow()[place].clone();
                let Some(part) = part else { continue };
                let is_needed =
                    part.patience().is_some_and(Patience::is_needed) && !part.is_short();
                if is_needed && !*waited_for {
                    self.tell_waited_for(place);
                }
                *waited_for = is_needed;
                if part.hangs() && !part.is_let_go() {
                    part.let_go();
                    // Another may hang that is needed to write this one off.
                    self.env.spawn(self.clone().write_off_one(place));
                }
            }
            self.env.sleep_until(self.env.now() + LOOK).await;
        }
    }

    async fn write_off_one(self: Rc<Self>, place: usize) {
        let _turn = self.drive_turn.lock().await;
        // Another may have got its place meanwhile.
        if !self.drives.borrow()[place].as_ref().is_some_and(Part::hangs) {
            return;
        }
        if let Err(error) = self.volumes.store().write_off(place).await {
            self.note_trouble(Some(error));
        }
        // Of one that was being filled nobody knows yet, though the place is known to be lost.
        if self.filling.borrow().contains(&place) {
            self.known.borrow_mut().retain(|at| *at != place);
        }
        self.end_filling(place);
        if !self.known.borrow().contains(&place) {
            self.known.borrow_mut().push(place);
            self.tell_lost(place);
        }
    }

    fn tell_waited_for(&self, place: usize) {
        let text = format!(
            "drive {place} ({}) hangs: an operation has had no answer for {HANG_AFTER}; requests \
             wait for it, because no redundancy is left there",
            self.name_of(place)
        );
        self.tell(Severity::Error, "drive-hangs", Some(place), text);
    }
}
