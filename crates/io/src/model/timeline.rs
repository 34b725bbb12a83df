//! A model and the promises its owner makes to it: time never goes back, and everything that
//! has happened is collected before something new is submitted.

use std::cell::{Cell, RefCell, RefMut};

use super::{Command, Completion, Model, Tag};
use crate::env::Nanos;

pub(crate) struct Timeline {
    model: RefCell<Box<dyn Model>>,
    /// The latest time the model was told.
    now: Cell<Nanos>,
    /// Kept to reuse its memory.
    done: Cell<Vec<Completion>>,
}

impl Timeline {
    pub(crate) fn new(model: Box<dyn Model>) -> Timeline {
        let now = Cell::new(Nanos::ZERO);
        Timeline { model: RefCell::new(model), now, done: Cell::default() }
    }

    /// Clocks of different processors may differ by a little; the model never sees it.
    fn tell(&self, now: Nanos) -> Nanos {
        self.now.set(self.now.get().max(now));
        self.now.get()
    }

    /// Everything that completes up to `now`, to be given back by [`Timeline::reuse`].
    pub(crate) fn advance(&self, now: Nanos) -> Vec<Completion> {
        let now = self.tell(now);
        let mut done = self.done.take();
        let mut model = self.model.borrow_mut();
        model.advance(now, &mut done);
        let next = model.next_event();
        assert!(next.is_none_or(|next| next > now), "an event of {next:?} is left at {now:?}");
        assert!(done.iter().all(|completion| completion.at <= now), "completed in the future");
        done
    }

    pub(crate) fn reuse(&self, mut done: Vec<Completion>) {
        done.clear();
        self.done.set(done);
    }

    /// After [`Timeline::advance`] to the same time.
    pub(crate) fn submit(&self, tag: Tag, command: Command) {
        self.model.borrow_mut().submit(self.now.get(), tag, command);
    }

    /// After [`Timeline::advance`], whose completions nobody is told.
    pub(crate) fn power_cycle(&self) {
        self.model.borrow_mut().power_cycle(self.now.get());
    }

    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.model.borrow().next_event()
    }

    pub(crate) fn now(&self) -> Nanos {
        self.now.get()
    }

    pub(crate) fn model(&self) -> RefMut<'_, Box<dyn Model>> {
        self.model.borrow_mut()
    }
}
