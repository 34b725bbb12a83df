//! Events of pools: to those who follow them over the control socket, and to the server's log.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{select, select_all};
use io::uring::UringEnv;
use io::{Env, Nanos};

use super::Stop;
use super::alerts::Alerts;
use super::sink::Sink;
use crate::control::Answer;
use crate::error::{Failure, Outcome};
use crate::pools::Pool;
use crate::render::view::Event;

/// Longest wait of one request. A client that died meanwhile is noticed when it is answered,
/// so this is how long a dead one keeps its connection.
const WAIT_MILLIS_MAX: u64 = 20_000;
/// Requests that wait at once: half of the control connections, so that followers never keep
/// `status` out.
const FOLLOWERS_MAX: usize = 8;

/// Whoever waits for events. A handle.
#[derive(Clone)]
pub struct Followers {
    env: UringEnv,
    /// Of each pool, by its name: those that it was opened with.
    drive_names: Rc<RefCell<BTreeMap<String, Vec<String>>>>,
    waiting: Rc<Cell<usize>>,
    stop: Stop,
}

impl Followers {
    pub fn new(env: UringEnv, stop: Stop) -> Followers {
        Followers { env, drive_names: Rc::default(), waiting: Rc::default(), stop }
    }

    /// A pool that events are asked of from now on.
    pub fn add(&self, pool: &Pool) {
        let names = pool.view().drives.into_iter().map(|drive| drive.name);
        self.drive_names.borrow_mut().insert(pool.name(), names.collect());
    }

    /// Events of these pools after those numbers; if there is none, the first to come within
    /// `wait_millis`, or none.
    pub async fn events(
        &self,
        pools: &[Pool],
        after: &BTreeMap<String, u64>,
        wait_millis: u64,
    ) -> Outcome<Answer> {
        let events = self.known(pools, after);
        if !events.is_empty() || wait_millis == 0 {
            return Ok(Answer::Events(events));
        }
        let count = self.waiting.get();
        if count >= FOLLOWERS_MAX {
            let what = format!("{count} clients wait for events already, and no more may");
            return Err(Failure::new("events", what).hint("end one of them, or ask without -f"));
        }
        self.waiting.set(count + 1);
        let deadline = self.env.now() + Nanos::from_millis(wait_millis.min(WAIT_MILLIS_MAX));
        let answer = self.wait(pools, after, deadline).await;
        self.waiting.set(self.waiting.get() - 1);
        answer
    }

    async fn wait(
        &self,
        pools: &[Pool],
        after: &BTreeMap<String, u64>,
        deadline: Nanos,
    ) -> Outcome<Answer> {
        loop {
            // Places in line are taken before the look, so that nothing falls between.
            let arrivals = pools.iter().map(Pool::next_event).collect::<Vec<_>>();
            let events = self.known(pools, after);
            if !events.is_empty() || self.env.now() >= deadline {
                return Ok(Answer::Events(events));
            }
            if self.stop.is_told() {
                return Err(Failure::new("events", "the server is stopping"));
            }
            let over = async {
                select(pin!(self.env.sleep_until(deadline)), pin!(self.stop.told())).await;
            };
            select(select_all(arrivals), pin!(over)).await;
        }
    }

    /// Pool by pool, each in the order of its numbers. (A spike is dated by its end, and told
    /// some time after it, so times may go back.)
    fn known(&self, pools: &[Pool], after: &BTreeMap<String, u64>) -> Vec<Event> {
        let now = self.env.now();
        let mut events = Vec::new();
        for pool in pools {
            let name = pool.name();
            let after = after.get(&name).copied().unwrap_or(0);
            events.extend(pool.events(after, now, |drive| self.drive_name(&name, drive)));
        }
        events
    }

    fn drive_name(&self, pool: &str, index: u16) -> Option<String> {
        let names = self.drive_names.borrow();
        let name = names.get(pool)?.get(usize::from(index))?;
        (!name.is_empty()).then(|| name.clone())
    }
}

/// Tells the server's log, and those who are to be alerted, what happens to a pool.
pub(crate) async fn report(
    followers: Followers,
    pool: Pool,
    sink: Rc<RefCell<Sink>>,
    alerts: Rc<Alerts>,
) {
    let name = pool.name();
    let mut seen = 0;
    loop {
        let arrival = pool.next_event();
        let now = followers.env.now();
        for event in pool.events(seen, now, |drive| followers.drive_name(&name, drive)) {
            seen = event.sequence;
            sink.borrow_mut().put(&event);
            alerts.tell(&event);
        }
        arrival.await;
    }
}
