//! Who is to be woken when.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::env::Nanos;

/// Time since the environment's start.
#[derive(Clone, Copy)]
pub(super) struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is where real time comes from")]
    pub(super) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(super) fn instant(self, at: Nanos) -> Instant {
        self.0 + Duration::from_nanos(at.0)
    }

    pub(super) fn now(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).expect("584 years fit 64 bits"))
    }
}

/// Timers of equal deadline fire in the order they were set.
type Key = (Nanos, u64);

/// One entry per sleeping future, so as many as there are tasks that sleep.
#[derive(Default)]
struct Waiting {
    set: u64,
    wakers: BTreeMap<Key, Waker>,
}

#[derive(Clone)]
pub(super) struct Timers {
    clock: Clock,
    waiting: Rc<RefCell<Waiting>>,
}

impl Timers {
    pub(super) fn new(clock: Clock) -> Timers {
        Timers { clock, waiting: Rc::default() }
    }

    pub(super) fn sleep_until(&self, deadline: Nanos) -> Sleep {
        Sleep { timers: self.clone(), deadline, key: None }
    }

    /// The next deadline.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.waiting.borrow().wakers.first_key_value().map(|(key, _)| key.0)
    }

    /// Collects the wakers whose time has come.
    pub(super) fn fire(&self, now: Nanos, woken: &mut Vec<Waker>) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(entry) = waiting.wakers.first_entry().filter(|entry| entry.key().0 <= now) {
            woken.push(entry.remove());
        }
    }
}

pub(super) struct Sleep {
    timers: Timers,
    deadline: Nanos,
    key: Option<Key>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.timers.clock.now() >= self.deadline {
            return Poll::Ready(());
        }
        let mut waiting = self.timers.waiting.borrow_mut();
        let key = self.key.unwrap_or_else(|| {
            waiting.set += 1;
            (self.deadline, waiting.set)
        });
        let earlier = waiting.wakers.insert(key, context.waker().clone());
        drop(waiting);
        drop(earlier);
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.timers.waiting.borrow_mut().wakers.remove(&key);
            drop(waker);
        }
    }
}
