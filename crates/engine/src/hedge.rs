//! Requests that are late are sent a second way, and the first to answer wins.
//!
//! ```text
//!  first way  ────────────────┬──────────── ... ──────> too late: left to itself
//!                             │ late, and the budget allows it
//!  second way                 └────────────> answer
//! ```
//!
//! What is left to itself runs to its end as a task: a drive's operations are counted, and the
//! places they write to stay taken, until they are over. Nothing is cancelled.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use io::sync::{Event, EventWait};
use io::{Env, Nanos};
use layout::DriveIndex;
use policy::hedge::{Cost, Spent};
use smallvec::SmallVec;

use crate::monitor::{Hedged, Monitor};

/// One way of carrying out a request: owns what it needs, so that it can be left to itself.
pub type Way<T> = Pin<Box<dyn Future<Output = T>>>;

/// Ways of one request at once: the first, a second, and one more if both turn out slow.
pub type Ways<T> = SmallVec<[T; 2]>;

/// What waiting came to.
pub enum Outcome<T> {
    /// The way at this index is over.
    Over(usize, T),
    /// None is, and it is time to try another.
    Late,
}

/// A request's patience: when it is late, and how often it has been.
pub struct Patience<'a, E: Env> {
    env: &'a E,
    monitor: &'a Monitor,
    hedged: Hedged,
    /// What its second ways have taken from the budget.
    spent: Spent,
    second_was_first: bool,
    /// The early look is over, after which it is asked for again when it is late for twice as long.
    /// Of writes there is none.
    looked_early: bool,
    begin: u64,
    /// Time (ns) from one look to the next; from the second on it is doubled each time.
    span: Option<u64>,
    timer: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl<'a, E: Env> Patience<'a, E> {
    /// A read whose best way is this drive.
    pub fn of_read(env: &'a E, monitor: &'a Monitor, best: DriveIndex) -> Patience<'a, E> {
        Patience::new(env, monitor, Hedged::Reads, monitor.read_deadline(best))
    }

    pub fn of_write(env: &'a E, monitor: &'a Monitor) -> Patience<'a, E> {
        Patience::new(env, monitor, Hedged::Writes, monitor.write_deadline())
    }

    /// `span`: nanoseconds until the request is late; `None`: it never is.
    fn new(env: &'a E, monitor: &'a Monitor, hedged: Hedged, span: Option<u64>) -> Patience<'a, E> {
        Patience {
            env,
            monitor,
            hedged,
            spent: Spent::default(),
            second_was_first: false,
            looked_early: hedged == Hedged::Writes,
            begin: env.recent().0,
            span,
            timer: None,
        }
    }

    /// The first way is sent, at this cost.
    pub fn sent(&self, cost: Cost) {
        self.monitor.earn(self.hedged, cost);
    }

    /// Late, and may it be sent another way? Asked once for each [`Outcome::Late`].
    /// `cost`: of the other way.
    pub fn may_hedge(&mut self, cost: Cost) -> bool {
        let age = self.env.recent().0 - self.begin;
        let spent = match std::mem::replace(&mut self.looked_early, true) {
            false => self.monitor.spend_early(self.hedged, cost),
            true => self.monitor.spend(self.hedged, age, cost),
        };
        self.spent += spent.unwrap_or_default();
        spent.is_some()
    }

    /// The way that was allowed costs more than was asked for, as copies of a stripe's blocks do.
    pub fn costs_more(&mut self, more: Cost) {
        self.spent += self.monitor.spend(self.hedged, u64::MAX, more).unwrap_or_default();
    }

    /// A second way was first.
    pub fn won(&mut self) {
        self.second_was_first = true;
    }

    /// The drive has not answered something for at least as long as this request is on its way.
    pub fn is_silent(&self, drive: DriveIndex) -> bool {
        let oldest = self.monitor.watch(drive).borrow().oldest();
        oldest.is_some_and(|oldest| oldest <= self.begin)
    }

    /// There is no other way: waits for those that run.
    pub fn give_up(&mut self) {
        self.span = None;
        self.timer = None;
    }

    /// Waits for the first of `ways` to be over.
    pub async fn first<T, W: Future<Output = T> + Unpin>(&mut self, ways: &mut [W]) -> Outcome<T> {
        poll_fn(|context| {
            for (at, way) in ways.iter_mut().enumerate() {
                if let Poll::Ready(done) = Pin::new(way).poll(context) {
                    return Poll::Ready(Outcome::Over(at, done));
                }
            }
            let Some(span) = self.span else { return Poll::Pending };
            let timer = self.timer.get_or_insert_with(|| {
                Box::pin(self.env.sleep_until(self.env.now() + Nanos(span)))
            });
            if timer.as_mut().poll(context).is_ready() {
                self.timer = None;
                self.span = Some(if self.looked_early { span * 2 } else { span });
                return Poll::Ready(Outcome::Late);
            }
            Poll::Pending
        })
        .await
    }
}

impl<E: Env> Drop for Patience<'_, E> {
    fn drop(&mut self) {
        if self.spent != Spent::default() {
            self.monitor.settle(self.hedged, self.spent, self.second_was_first);
        }
    }
}

/// Ways that were left to themselves, and other operations that may outlast whoever began them.
#[derive(Clone, Default)]
pub struct Leftovers(Rc<(Cell<u32>, Event)>);

impl Leftovers {
    pub fn leave<E: Env>(&self, env: &E, rest: impl Future<Output = ()> + 'static) {
        let leftovers = self.clone();
        self.0.0.set(self.count() + 1);
        env.spawn(async move {
            rest.await;
            let (count, over) = &*leftovers.0;
            count.set(count.get() - 1);
            over.notify_all();
        });
    }

    pub fn count(&self) -> u32 {
        self.0.0.get()
    }

    /// Completes when one more is over.
    pub fn one_over(&self) -> EventWait {
        self.0.1.wait()
    }
}
