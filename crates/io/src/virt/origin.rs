//! Whose work a task does: so that what happened in the world can be told for each request.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::rc::Rc;

use super::VirtEnv;
use crate::env::Nanos;
use crate::model::Phases;
use crate::origin::{Origin, Origins};
use crate::wait::Wait;

/// Told each wait when it is over: whose it was, for what, and since when.
pub type Listener = Rc<dyn Fn(Origin, Wait, Nanos)>;

/// Whose work is done just now, and who wants to know where its operations' time goes.
#[derive(Default)]
pub(super) struct Doing {
    origins: Cell<Origins>,
    meter: Cell<Option<Rc<Cell<Phases>>>>,
    listener: Cell<Option<Listener>>,
}

impl Doing {
    pub(super) fn origins(&self) -> Origins {
        clone_of(&self.origins)
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
            self.origins().iter().for_each(|origin| listener(origin, wait, since));
        }
    }
}

fn clone_of<T: Clone + Default>(cell: &Cell<T>) -> T {
    let value = cell.take();
    cell.set(value.clone());
    value
}

impl VirtEnv {
    pub(super) fn doing_for<F: Future>(
        &self,
        origins: Origins,
        future: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        self.doing(|doing| &doing.origins, origins, future)
    }

    /// Runs one operation of a drive with a model, which says where its time went.
    pub async fn metered<F: Future>(&self, operation: F) -> (F::Output, Phases) {
        let meter = Rc::new(Cell::new(Phases::default()));
        let output = self.doing(|doing| &doing.meter, Some(meter.clone()), operation).await;
        (output, meter.get())
    }

    /// From now on waits are told to this listener.
    pub fn listen(&self, listener: Listener) {
        self.world.doing.listener.set(Some(listener));
    }

    /// Whenever `future` is polled `cell` has this value.
    fn doing<T: Clone, F: Future>(
        &self,
        cell: fn(&Doing) -> &Cell<T>,
        value: T,
        future: F,
    ) -> impl Future<Output = F::Output> + use<T, F> {
        let (world, mut future) = (self.world.clone(), Box::pin(future));
        poll_fn(move |context| {
            let before = cell(&world.doing).replace(value.clone());
            let poll = future.as_mut().poll(context);
            cell(&world.doing).set(before);
            poll
        })
    }
}
