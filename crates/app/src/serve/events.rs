//! Events of pools: to those who follow them over the control socket, and to the server's log.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{select, select_all};
use io::uring::UringEnv;
use io::{Env, Nanos};

use super::Stop;
use super::alerts::Alerts;
use super::log::Log;
use crate::control::Answer;
use crate::error::{Failure, Outcome};
use crate::pools::Pool;
use crate::render::view::Event;
use crate::wall_clock;

/// Longest wait of one request. A client that died meanwhile is noticed when it is answered,
/// so this is how long a dead one keeps its connection.
const WAIT_MILLIS_MAX: u64 = 20_000;
/// Requests that wait at once: half of the control connections, so that followers never keep
/// `status` out.
const FOLLOWERS_MAX: usize = 8;
/// Reasons that are remembered why one pool could not be opened: one for each reading of the
/// configuration that found another than the one before.
const REASONS_MAX: usize = 64;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Events,
    /// Each spike by itself.
    Spikes,
}

/// Whoever waits for events. A handle.
#[derive(Clone)]
pub struct Followers {
    env: UringEnv,
    /// What was told of pools, by name, before they were opened, if they ever were. Their own
    /// events are numbered on from these, so that nobody who follows them misses one.
    before: Rc<RefCell<BTreeMap<String, VecDeque<Event>>>>,
    told: io::sync::Event,
    waiting: Rc<Cell<usize>>,
    stop: Stop,
}

impl Followers {
    pub fn new(env: UringEnv, stop: Stop) -> Followers {
        let (waiting, before) = (Rc::default(), Rc::default());
        Followers { env, before, told: io::sync::Event::new(), waiting, stop }
    }

    /// The event of a pool that could not be opened.
    pub fn tell_refused(&self, pool: &str, why: &Failure) -> Event {
        let now = self.env.now();
        let unix_micros = wall_clock::micros_at(now, now);
        let mut before = self.before.borrow_mut();
        let told = before.entry(pool.to_owned()).or_default();
        let event = Event {
            pool: pool.to_owned(),
            sequence: told.back().map_or(1, |last| last.sequence + 1),
            time: wall_clock::rfc3339(unix_micros),
            unix_micros,
            severity: "error".to_owned(),
            kind: "pool-failed".to_owned(),
            drive: None,
            drive_name: None,
            text: why.what.clone(),
        };
        if told.len() == REASONS_MAX {
            told.pop_front();
        }
        told.push_back(event.clone());
        self.told.notify_all();
        event
    }

    /// Events of these pools, and of those `unopened`, after those numbers; if there is none, the
    /// first to come within `wait_millis`, or none.
    pub async fn events(
        &self,
        what: What,
        (pools, unopened): (&[Pool], &[String]),
        after: &BTreeMap<String, u64>,
        wait_millis: u64,
    ) -> Outcome<Answer> {
        let events = self.known(what, pools, unopened, after);
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
        let answer = self.wait(what, (pools, unopened), after, deadline).await;
        self.waiting.set(self.waiting.get() - 1);
        answer
    }

    async fn wait(
        &self,
        what: What,
        (pools, unopened): (&[Pool], &[String]),
        after: &BTreeMap<String, u64>,
        deadline: Nanos,
    ) -> Outcome<Answer> {
        loop {
            // Places in line are taken before the look, so that nothing falls between.
            let arrivals = pools.iter().map(Pool::next_event).chain([self.told.wait()]);
            let arrivals = arrivals.collect::<Vec<_>>();
            let events = self.known(what, pools, unopened, after);
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
    fn known(
        &self,
        what: What,
        pools: &[Pool],
        unopened: &[String],
        after: &BTreeMap<String, u64>,
    ) -> Vec<Event> {
        let after = |name: &str| after.get(name).copied().unwrap_or(0);
        if what == What::Spikes {
            let of_pool = |pool: &Pool| pool.spikes(after(&pool.name()), self.env.now());
            return pools.iter().flat_map(of_pool).collect();
        }
        let of_open = pools.iter().flat_map(|pool| self.of_pool(pool, after(&pool.name())));
        let others = unopened.iter().flat_map(|name| self.of_unopened(name, after(name)));
        of_open.chain(others).collect()
    }

    fn of_unopened(&self, name: &str, after: u64) -> Vec<Event> {
        let before = self.before.borrow();
        let told = before.get(name).into_iter().flatten();
        told.filter(|event| event.sequence > after).cloned().collect()
    }

    fn of_pool(&self, pool: &Pool, after: u64) -> Vec<Event> {
        let name = pool.name();
        let mut events = self.of_unopened(&name, after);
        let before = self.before(&name);
        let own = pool.events(after.saturating_sub(before), self.env.now());
        let on = own.into_iter();
        events.extend(on.map(|event| Event { sequence: event.sequence + before, ..event }));
        events
    }

    /// Number of the last event before a pool was opened.
    fn before(&self, name: &str) -> u64 {
        let before = self.before.borrow();
        before.get(name).and_then(VecDeque::back).map_or(0, |last| last.sequence)
    }
}

/// Tells the server's log, and those who are to be alerted, what happens to a pool.
pub(crate) async fn report(followers: Followers, pool: Pool, log: Log, alerts: Rc<Alerts>) {
    let mut seen = followers.before(&pool.name());
    loop {
        let arrival = pool.next_event();
        for event in followers.of_pool(&pool, seen) {
            seen = event.sequence;
            log.event(&event);
            alerts.tell(&event);
        }
        arrival.await;
    }
}
