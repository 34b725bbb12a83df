//! Whose work a task does: so that what happened in the world can be told for each request.
//!
//! ```text
//!  on_behalf(7, request) ─ poll ─> its operations and waits are 7's
//!        └─ spawn(task) ────────────> the task's are 7's, too
//! ```

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::VirtEnv;
use crate::env::Nanos;
use crate::model::Phases;
use crate::wait::Wait;

/// A request, as whoever made it numbers it; zero is no request.
pub type Origin = u64;

/// Told each wait when it is over: whose it was, for what, and since when.
pub type Listener = Rc<dyn Fn(Origin, Wait, Nanos)>;

/// Whose work is done just now, and who wants to know where its operations' time goes.
#[derive(Default)]
pub(super) struct Doing {
    origin: Cell<Origin>,
    meter: Cell<Option<Rc<Cell<Phases>>>>,
    listener: Cell<Option<Listener>>,
}

impl Doing {
    pub(super) fn origin(&self) -> Origin {
        self.origin.get()
    }

    pub(super) fn meter(&self) -> Option<Rc<Cell<Phases>>> {
        clone_of(&self.meter)
    }

    /// A listener may hold the world that it listens to.
    pub(super) fn forget(&self) {
        self.listener.take();
    }

    pub(super) fn waited(&self, wait: Wait, since: Nanos) {
        if let Some(listener) = clone_of(&self.listener) {
            listener(self.origin(), wait, since);
        }
    }
}

fn clone_of<T: Clone>(cell: &Cell<Option<T>>) -> Option<T> {
    let value = cell.take();
    cell.set(value.clone());
    value
}

impl VirtEnv {
    /// Whose work the task that runs now does.
    pub fn origin(&self) -> Origin {
        self.world.doing.origin()
    }

    /// What `future` does, and what it spawns, is done for `origin`.
    pub fn on_behalf<F: Future>(&self, origin: Origin, future: F) -> OnBehalf<F> {
        OnBehalf { env: self.clone(), origin, future: Box::pin(future) }
    }

    /// Runs one operation of a drive with a model, which says where its time went.
    pub async fn metered<F: Future>(&self, operation: F) -> (F::Output, Phases) {
        let meter = Rc::new(Cell::new(Phases::default()));
        let metered =
            Metered { env: self.clone(), meter: meter.clone(), operation: Box::pin(operation) };
        let output = metered.await;
        (output, meter.get())
    }

    /// From now on waits are told to this listener.
    pub fn listen(&self, listener: Listener) {
        self.world.doing.listener.set(Some(listener));
    }
}

/// The future of [`VirtEnv::on_behalf`].
pub struct OnBehalf<F> {
    env: VirtEnv,
    origin: Origin,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for OnBehalf<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let env = self.env.clone();
        let before = env.world.doing.origin.replace(self.origin);
        let poll = self.future.as_mut().poll(context);
        env.world.doing.origin.set(before);
        poll
    }
}

struct Metered<F> {
    env: VirtEnv,
    meter: Rc<Cell<Phases>>,
    operation: Pin<Box<F>>,
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let env = self.env.clone();
        let before = env.world.doing.meter.replace(Some(self.meter.clone()));
        let poll = self.operation.as_mut().poll(context);
        env.world.doing.meter.set(before);
        poll
    }
}
