//! A gate: many go in and out; who shuts it is alone inside, once those have left who were in.

use std::cell::Cell;
use std::rc::Rc;

use crate::sync::Event;

#[derive(Clone, Default)]
pub struct Gate {
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    shut: Cell<bool>,
    opened: Event,
    inside: Cell<u32>,
    empty: Event,
}

/// Somebody is inside.
pub struct Inside(Gate);

/// Nobody is, and nobody gets in.
pub struct Shut(Gate);

impl Gate {
    /// Waits while it is shut.
    pub async fn enter(&self) -> Inside {
        while self.state.shut.get() {
            self.state.opened.wait().await;
        }
        self.state.inside.set(self.state.inside.get() + 1);
        Inside(self.clone())
    }

    pub fn is_shut(&self) -> bool {
        self.state.shut.get()
    }

    /// Waits until nobody is inside; others may come in all the same.
    pub async fn until_empty(&self) {
        while self.state.inside.get() > 0 {
            self.state.empty.wait().await;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.state.inside.get() == 0
    }

    /// Keeps others out at once, and waits until all have left. Dropping what is returned, or what
    /// waits for it, opens the gate. One at a time.
    pub async fn shut(&self) -> Shut {
        assert!(!self.state.shut.replace(true), "one at a time shuts a gate");
        let shut = Shut(self.clone());
        self.until_empty().await;
        shut
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let state = &self.0.state;
        state.inside.set(state.inside.get() - 1);
        if state.inside.get() == 0 {
            state.empty.notify_all();
        }
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        self.0.state.shut.set(false);
        self.0.state.opened.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn who_shuts_it_is_alone() {
        let gate = Gate::default();
        let first = now(gate.enter()).expect("it is open");
        let second = now(gate.enter()).expect("for any number");
        drop(first);
        assert!(now(gate.shut()).is_none(), "one is still inside");
        drop(now(gate.enter()).expect("who gave up has opened it"));
        let mut context = Context::from_waker(Waker::noop());
        let mut shut = pin!(gate.shut());
        assert!(shut.as_mut().poll(&mut context).is_pending());
        assert!(now(gate.enter()).is_none(), "nobody gets in meanwhile");
        drop(second);
        let Poll::Ready(alone) = shut.as_mut().poll(&mut context) else { panic!("all have left") };
        let mut late = pin!(gate.enter());
        assert!(late.as_mut().poll(&mut context).is_pending());
        drop(alone);
        assert!(late.as_mut().poll(&mut context).is_ready());
    }
}
