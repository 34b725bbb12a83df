//! A model as the timing of a virtual drive: who waits for which tag, and one timer, set to
//! the model's next event.
//!
//! ```text
//!  drive ── submit ──> [collect what is due] ──> model ──> arm the timer
//!  timer ────────────> collect: advance, let the events of completed tags happen ──> arm again
//! ```

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};

use super::{Timer, TimerKey, VirtEnv};
use crate::env::{Env, Nanos};
use crate::model::timeline::Timeline;
use crate::model::{Command, Model, Phases, Tag};

/// How long a drive takes to say that it has lost an operation.
pub(super) const REFUSAL: Nanos = Nanos::from_micros(10);

/// A modelled drive's timing; clones name the same one. It outlives crashes of the machine, as
/// a [`Disk`](super::Disk) does: what was in flight runs through, and nobody is told.
#[derive(Clone)]
pub struct ModelPort {
    inner: Rc<Inner>,
}

struct Inner {
    env: VirtEnv,
    timeline: Timeline,
    armed: Cell<Option<TimerKey>>,
    /// What the model has in flight; the environment knows what is to happen then. Bounded by
    /// the operations in flight, which the engine bounds.
    in_flight: RefCell<BTreeSet<Tag>>,
    /// Of the operation whose event happens now.
    phases: Cell<Phases>,
}

impl ModelPort {
    /// The model's time is the environment's; it can't be moved to another one.
    pub fn new(env: &VirtEnv, model: Box<dyn Model>) -> ModelPort {
        let inner = Inner {
            env: env.clone(),
            timeline: Timeline::new(model),
            armed: Cell::new(None),
            in_flight: RefCell::default(),
            phases: Cell::default(),
        };
        let port = ModelPort { inner: Rc::new(inner) };
        port.collect();
        port
    }

    /// Looks at the model as it is now, or does something to it that is no operation (a forced
    /// collection).
    pub fn with_model<T>(&self, act: impl FnOnce(Nanos, &mut dyn Model) -> T) -> T {
        self.collect();
        let timeline = &self.inner.timeline;
        let result = act(timeline.now(), &mut **timeline.model());
        self.arm();
        result
    }

    /// Lets `event` happen when the model has completed the command, unless the machine
    /// crashes before.
    pub(super) fn submit(&self, command: Command, event: impl FnOnce() + 'static) {
        self.collect();
        let tag = Tag(self.inner.env.park(Box::new(event)));
        self.inner.in_flight.borrow_mut().insert(tag);
        self.inner.timeline.submit(tag, command);
        self.arm();
    }

    /// Where the time of the operation went whose event happens now.
    pub(super) fn phases(&self) -> Phases {
        self.inner.phases.get()
    }

    /// The power went. What is in flight still happens to those who wait, and tells them that
    /// the drive is gone.
    pub(super) fn power_cycle(&self) {
        let Inner { env, timeline, in_flight, .. } = &*self.inner;
        timeline.reuse(timeline.advance(env.now()));
        timeline.power_cycle();
        self.inner.phases.take();
        for tag in in_flight.take() {
            if let Some(event) = env.unpark(tag.0) {
                env.after(REFUSAL, event);
            }
        }
        self.arm();
    }

    fn collect(&self) {
        let Inner { env, timeline, in_flight, .. } = &*self.inner;
        let done = timeline.advance(env.now());
        self.arm();
        for completion in &done {
            in_flight.borrow_mut().remove(&completion.tag);
            // Its machine may have crashed.
            if let Some(event) = env.unpark(completion.tag.0) {
                self.inner.phases.set(completion.phases);
                event();
            }
        }
        timeline.reuse(done);
    }

    /// Sets the timer to the next event, unless it is.
    fn arm(&self) {
        let Inner { env, timeline, armed, .. } = &*self.inner;
        let next = timeline.next_event();
        if let Some(key) = armed.get() {
            if next == Some(key.0) && env.has_timer(key) {
                return;
            }
            env.unset_timer(key);
        }
        let weak = Rc::downgrade(&self.inner);
        let timer = |at| env.set_timer(at, Timer::Tick(Box::new(move || ring(&weak))));
        armed.set(next.map(timer));
    }
}

/// The timer went off. It does not keep the model alive.
fn ring(port: &Weak<Inner>) {
    if let Some(inner) = port.upgrade() {
        ModelPort { inner }.collect();
    }
}
