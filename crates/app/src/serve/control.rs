//! Carries out what the server is asked over HTTP (see [`crate::control`] for what that can be).

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use format::Uuid;
use io::slice::{self, Work};
use io::sync::Event;
use io::uring::UringEnv;
use io::{Env, Nanos};

use super::add;
use super::doings::Doings;
use super::events::{Followers, What};
use super::exports::Catalogue;
use super::faults;
use super::metrics::Facts;
use super::replace;
use super::smart::Smart;
use super::wrap::Wrapper;
use crate::control::{Answer, Request};
use crate::error::{Failure, Outcome};
use crate::pools::drive::find_in;
use crate::pools::held::{self, Held};
use crate::pools::trouble::no_room;
use crate::pools::{self, Pool};
use crate::render::view;

/// How long a volume that is to be deleted may still be in use, and how often that is looked at.
const CLIENTS_LEAVE: Nanos = Nanos::from_secs(2);
const CLIENTS_LOOK: Nanos = Nanos::from_millis(50);

#[derive(Default)]
struct Shared {
    /// Requests being carried out.
    busy: Cell<usize>,
    changed: Event,
    /// Asks drives of their health, once somebody wants to know.
    smart: OnceCell<Smart>,
}

/// A handle on the control server.
#[derive(Clone)]
pub struct Control {
    env: UringEnv,
    catalogue: Catalogue,
    wrapper: Wrapper,
    followers: Followers,
    pub doings: Rc<Doings>,
    shared: Rc<Shared>,
}

impl Control {
    pub fn new(
        env: UringEnv,
        catalogue: Catalogue,
        wrapper: Wrapper,
        followers: Followers,
        doings: Rc<Doings>,
    ) -> Control {
        Control { env, catalogue, wrapper, followers, doings, shared: Rc::default() }
    }

    /// Completes when no request is being carried out.
    pub async fn idle(&self) {
        while self.shared.busy.get() > 0 {
            self.shared.changed.wait().await;
        }
    }

    /// Everything countable, as it is now. What drives say of their health is some minutes old.
    pub fn facts(&self) -> Facts {
        let pools = self.catalogue.views();
        let names = pools.iter().flat_map(|pool| &pool.drives).map(|drive| drive.name.clone());
        let smart = self.shared.smart.get_or_init(Smart::start);
        let smart = smart.reports(names.filter(|name| !name.is_empty()).collect());
        Facts { smart, pools, doings: self.doings.clone() }
    }

    /// What `status` tells of the server beside its pools.
    pub fn server(&self) -> view::Server {
        let all = self.doings.log.dropped();
        let messages_dropped = all.iter().map(|dropped| dropped.count).sum();
        let dropped = all.into_iter().filter(|dropped| dropped.count > 0).collect();
        let connections = |(transport, counted): (&str, export::Counted)| view::NbdConnections {
            transport: transport.to_owned(),
            handshaking: counted.handshaking as u64,
            established: counted.established as u64,
        };
        let nbd = self.doings.nbd_connections().into_iter().map(connections).collect();
        let some = |slices: &(&str, view::Latencies)| slices.1.count > 0;
        let slices = self.doings.slices().into_iter().filter(some);
        let slices = slices.map(|(work, latency)| view::Slices { work: work.to_owned(), latency });
        view::Server { messages_dropped, dropped, nbd, slices: slices.collect() }
    }

    /// In a task of its own: whoever asked may hang up, and what was begun is carried out to its
    /// end all the same.
    pub async fn ask(&self, request: Request) -> Answer {
        let (answer, done) = (Rc::new(RefCell::new(None)), Event::new());
        let (own, to, tell) = (self.clone(), answer.clone(), done.clone());
        self.shared.busy.set(self.shared.busy.get() + 1);
        let carry_out = async move {
            let answer = own.carry_out(&request).await.unwrap_or_else(Answer::Error);
            to.replace(Some(answer));
            tell.notify_all();
            own.shared.busy.set(own.shared.busy.get() - 1);
            own.shared.changed.notify_all();
        };
        self.env.spawn(slice::of(Work::Control, carry_out));
        loop {
            let arrival = done.wait();
            if let Some(answer) = answer.take() {
                return answer;
            }
            arrival.await;
        }
    }

    /// Not waited for any more once another host has the pool.
    async fn change(&self, held: &Held, request: &Request) -> Outcome<Answer> {
        let object = format!("pool {}", held.pool.name());
        held::while_held(held.hold.as_ref(), &object, self.begin(held, request)).await
    }

    async fn begin(&self, held: &Held, request: &Request) -> Outcome<Answer> {
        if let Some(room) = &held.room
            && request.changes_what_is_stored()
        {
            let object = format!("pool {}", held.pool.name());
            let refuse = |short: io::Short| Failure::new(object, no_room(&short));
            room.after_those_left().await.map_err(refuse)?;
        }
        let (env, wrapper, pool) = (&self.env, &self.wrapper, &held.pool);
        if let Some(answer) = faults::carry_out(env, wrapper, pool, request) {
            return answer;
        }
        let decided = decided(pool, request);
        let answer = match replace::carry_out(env, wrapper, held, request).await {
            Some(answer) => answer,
            None => self.apply(held, request).await,
        };
        if let (Ok(_), Some((drive, is_used))) = (&answer, decided) {
            match is_used {
                true => self.catalogue.let_in(drive),
                false => self.catalogue.keep_out(drive),
            }
        }
        answer
    }

    async fn apply(&self, held: &Held, request: &Request) -> Outcome<Answer> {
        let (env, wrapper, pool) = (&self.env, &self.wrapper, &held.pool);
        match request {
            Request::DriveAdd { new, force, array, .. } => {
                let how = (array.as_ref(), *force);
                add::drives(env, wrapper, held, new, how).await.map(Answer::Done)
            }
            Request::VolumeDelete { volume, .. } => {
                self.until_let_go(pool, volume).await;
                pools::apply(pool, request).await
            }
            _ => pools::apply(pool, request).await,
        }
    }

    /// After `umount` or `nbd-client -d` a client hangs up a moment later.
    async fn until_let_go(&self, pool: &Pool, volume: &str) {
        let until = self.env.now() + CLIENTS_LEAVE;
        while pool.volume_in_use(volume) && self.env.now() < until {
            self.env.sleep_until(self.env.now() + CLIENTS_LOOK).await;
        }
    }

    /// The pools that a request is about: those that are served, and those that could not be.
    fn asked_for(&self, request: &Request) -> Outcome<(Vec<Held>, Vec<view::Pool>)> {
        let Some(name) = request.pool() else {
            return Ok((self.catalogue.held(), self.catalogue.unopened()));
        };
        if let Some(held) = self.catalogue.pool(name) {
            return Ok((vec![held], Vec::new()));
        }
        let mut unopened = self.catalogue.unopened().into_iter();
        let found = unopened.find(|pool| pool.name == name || pool.uuid == name);
        let found = found.ok_or_else(|| {
            Failure::new(name, "no such pool is served here")
                .hint("'steadyraid list' shows what is")
        })?;
        Ok((Vec::new(), vec![found]))
    }

    async fn carry_out(&self, request: &Request) -> Outcome<Answer> {
        let (held, unopened) = self.asked_for(request)?;
        match (request, &held[..], &unopened[..]) {
            (Request::Status { .. }, ..) => {
                Ok(Answer::Pools(held.iter().map(Held::view).chain(unopened).collect()))
            }
            (Request::Events { after, wait_millis, spikes, .. }, ..) => {
                let what = if *spikes { What::Spikes } else { What::Events };
                let pools: Vec<Pool> = held.iter().map(|held| held.pool.clone()).collect();
                let names: Vec<String> = unopened.into_iter().map(|pool| pool.name).collect();
                self.followers.events(what, (&pools, &names), after, *wait_millis).await
            }
            (_, [held], _) => self.change(held, request).await,
            (_, [], [pool]) => Err(not_open(pool)),
            _ => Err(Failure::usage("request", "is about one pool, and names none")),
        }
    }
}

/// The drive of which an operator says whether it is to be used.
fn decided(pool: &Pool, request: &Request) -> Option<(Uuid, bool)> {
    let (drive, is_used) = match request {
        Request::DriveFail { drive, .. } => (drive, false),
        Request::DriveRemove { drive, stop, .. } => (drive, *stop),
        Request::DriveReplace { drive, .. } => (drive, true),
        _ => return None,
    };
    Some((find_in(pool, drive).ok()?.uuid.parse().ok()?, is_used))
}

fn not_open(pool: &view::Pool) -> Failure {
    let reason = pool.reason.as_deref().unwrap_or("it could not be opened");
    let failure = Failure::new(format!("pool {}", pool.name), reason);
    pool.action.iter().fold(failure, |failure, action| failure.hint(action))
}
