//! The configuration read again while pools are served (SIGHUP, `systemctl reload`).
//!
//! What can fail comes first, so that a file with a mistake changes nothing. What is bound to
//! sockets or to open pools needs a restart, and is named.

use std::pin::pin;
use std::rc::Rc;
use std::slice;

use futures_util::future::{Either, select};
use io::Env;
use io::uring::UringEnv;

use super::absent::{Absent, Arrived, Join};
use super::access::Doorkeeper;
use super::alerts::Alerts;
use super::assemble::{Assembled, Refused};
use super::control::Control;
use super::doings::Doings;
use super::events::Followers;
use super::exports::Catalogue;
use super::http::guard::Guard;
use super::limits::ALERT_LAST_WORDS;
use super::log::outlet::Deadline;
use super::log::{Kind, Log};
use super::mem_pool::MemPool;
use super::told::Told;
use super::wrap::Wrapper;
use super::{Options, announce_pool, assemble, events};
use crate::control::{Answer, Request};
use crate::drives::scan::{self, Group};
use crate::error::{Failure, Outcome};
use crate::explain;
use crate::pools::Pool;
use crate::pools::held::Held;

/// Everything that can be changed, and what it is now.
pub struct Reload {
    pub env: UringEnv,
    /// In force.
    pub options: Options,
    pub door: Doorkeeper,
    pub guard: Rc<Guard>,
    pub log: Log,
    pub alerts: Rc<Alerts>,
    pub catalogue: Catalogue,
    pub followers: Followers,
    pub wrapper: Wrapper,
    pub doings: Rc<Doings>,
    pub(crate) absent: Absent,
}

impl Reload {
    /// Serves what can be opened, and tells of the rest; false if there is nothing to serve.
    pub fn begin(&self, assembled: Assembled) -> bool {
        assembled.pools.into_iter().for_each(|held| self.take(held));
        assembled.refused.into_iter().for_each(|refused| self.refuse(refused));
        let serves = !self.catalogue.pools().is_empty();
        if !serves {
            self.alerts.end(&Deadline::after(ALERT_LAST_WORDS));
        }
        serves
    }

    /// Has the events of a pool told to all who want to know.
    fn follow(&self, pool: &Pool) {
        let (log, alerts) = (self.log.clone(), self.alerts.clone());
        self.env.spawn(events::report(self.followers.clone(), pool.clone(), log, alerts));
    }

    /// Returns with the first signal that does not ask for another reading, also while one is under
    /// way.
    pub(crate) async fn until_told_to_stop(
        mut self,
        told: &Told<'_>,
        control: &Control,
        reread: Option<impl Fn() -> Outcome<Options>>,
    ) {
        loop {
            let done = match self.told_or_arrived(told).await {
                Either::Left(to_reread) => match &reread {
                    Some(reread) if to_reread => told.unless_to_stop(self.again(reread)).await,
                    _ => return,
                },
                Either::Right(arrived) => {
                    told.unless_to_stop(self.welcome(&arrived, control)).await
                }
            };
            if done.is_none() {
                return;
            }
        }
    }

    async fn told_or_arrived(&self, told: &Told<'_>) -> Either<bool, Arrived> {
        let arrived = self.absent.until_some_arrive(&self.options.drives);
        match select(pin!(told.to_reread()), pin!(arrived)).await {
            Either::Left((to_reread, _)) => Either::Left(to_reread),
            Either::Right((arrived, _)) => Either::Right(arrived),
        }
    }

    /// Has drives that were away join the pools that lack them, and opens pools that could not be
    /// opened without them.
    async fn welcome(&self, arrived: &Arrived, control: &Control) {
        for group in arrived.groups() {
            match self.catalogue.pool(&group.pool.to_string()) {
                Some(held) => self.take_back(&held, group, arrived, control).await,
                None if self.catalogue.is_awaited(&group.pool.to_string()) => {
                    let warn = |failure: &Failure| self.log.warn_of(Kind::Server, failure);
                    self.open(slice::from_ref(group), &[], warn).await;
                }
                None => {}
            }
        }
    }

    /// As an operator would: what is begun is carried out to its end, whoever stops waiting.
    async fn take_back(&self, held: &Held, group: &Group, arrived: &Arrived, control: &Control) {
        for (place, uuid) in held.pool.lost_drives() {
            let Some((name, join)) = group.found(uuid).zip(arrived.join(uuid)) else { continue };
            let object = format!("pool {}: drive {place}", held.pool.name());
            let refuse = |what: &str, hint| {
                let what = format!("is back as {name}, and does not join by itself: {what}");
                let failure = Failure { hint, ..Failure::new(&object, what) };
                self.log.warn_of(Kind::Server, &failure);
            };
            if join == Join::TooOften {
                let hint = "look at its path; 'steadyraid drive online' takes it back";
                refuse("it was lost soon after it had joined", Some(hint.to_owned()));
                continue;
            }
            let request = Request::DriveReplace {
                pool: held.pool.uuid(),
                drive: uuid.to_string(),
                path: name.to_string(),
                back: true,
                force: false,
            };
            match control.ask(request).await {
                Answer::Error(Failure { what, hint, .. }) => {
                    if self.absent.record_refusal(uuid, &what) {
                        refuse(&what, hint);
                    }
                }
                Answer::Done(text) => {
                    self.absent.record_join(uuid);
                    self.log.say(text);
                }
                _ => self.absent.record_join(uuid),
            }
        }
    }

    /// Does what the options say now, or says what is wrong with them.
    async fn again(&mut self, reread: &impl Fn() -> Outcome<Options>) {
        self.log.notify_reloading();
        let applied = self.apply(reread).await;
        self.doings.reloaded(applied.is_ok());
        if let Err(failure) = applied {
            self.log.fail(Kind::Reload, &failure);
            let what = "nothing was changed; what was read before stays in force";
            self.log.warn(Kind::Reload, format_args!("reload: {what}"));
        }
        self.log.notify("READY=1");
    }

    async fn apply(&mut self, reread: &impl Fn() -> Outcome<Options>) -> Outcome<()> {
        let new = reread()?;
        // Where we listen does not change, so that is what has to be guarded.
        let (access, token) = new.read_files(&self.options.nbd)?;
        Alerts::check(&new.alerts, &new.origin)?;
        let log = (new.syslog, new.log_level);
        let change_log = match log == (self.options.syslog, self.options.log_level) {
            true => None,
            false => Some(self.log.prepare(new.syslog, new.log_level)?),
        };
        let warn = |failure: &Failure| self.log.warn_of(Kind::Reload, failure);
        let groups = scan::groups(&self.env, &new.drives, &warn).await?;

        self.door.change(access);
        self.guard.change_token(token);
        self.alerts.change(&new.alerts);
        change_log.into_iter().for_each(|change| change());
        let (changed, left) = (changed(&self.options, &new), left(&self.options, &new));
        let changed = if changed.is_empty() { "no key".to_owned() } else { changed.join(", ") };
        let read = "token and certificates read again";
        self.log.say(format_args!("reloaded: {changed} changed; {read}"));
        if !left.is_empty() {
            let left = left.join(", ");
            let text = format_args!("reload: {left} changed: restart the server for that");
            self.log.warn(Kind::Reload, text);
        }
        self.open(&groups, &new.mem_pools, &warn).await;
        self.keep(new);
        Ok(())
    }

    /// Opens what is not served yet. A pool that can't be opened is said, and tried again with
    /// the next reload.
    async fn open(&self, groups: &[Group], mem_pools: &[MemPool], warn: impl Fn(&Failure)) {
        let (env, options, wrapper) = (&self.env, &self.options, &self.wrapper);
        for group in groups {
            if self.catalogue.pool(&group.pool.to_string()).is_none() {
                let served = self.catalogue.held();
                match assemble::pool(env, &served, group, options, wrapper, &warn).await {
                    Ok(held) => self.take(held),
                    Err(refused) => self.refuse(*refused),
                }
            }
        }
        let mut drives = options.mem_pools.iter().map(MemPool::drives).sum();
        for mem_pool in mem_pools.iter().filter(|pool| !options.mem_pools.contains(pool)) {
            let served = self.catalogue.held();
            let made =
                assemble::pool_in_memory(env, &served, mem_pool, drives, options, wrapper).await;
            match made {
                Ok(held) => self.take(held),
                Err(failure) => self.log.fail(Kind::Reload, &failure),
            }
            drives += mem_pool.drives();
        }
    }

    /// Serves one more.
    fn take(&self, held: Held) {
        announce_pool(&held.pool, &self.log);
        self.follow(&held.pool);
        self.look_after(&held);
        self.catalogue.add(held);
    }

    /// Tells of it when its drives have no room, and serves it no more once another host has it.
    fn look_after(&self, held: &Held) {
        let Held { pool, hold: Some(hold), room: Some(room), .. } = held.clone() else { return };
        let (catalogue, teller) = (self.catalogue.clone(), self.teller());
        self.env.spawn(async move {
            let claim = match select(pin!(hold.until_lost()), pin!(room.keep_telling(&pool))).await
            {
                Either::Left((claim, _)) => claim,
                Either::Right((never, _)) => match never {},
            };
            let failure = explain::taken_over(&format!("pool {}", pool.name()), &claim);
            catalogue.remove(&pool);
            let view = pool.view().given_up(&failure);
            teller.refuse(&catalogue, Refused { view, failure });
        });
    }

    fn teller(&self) -> Teller {
        let (log, alerts) = (self.log.clone(), self.alerts.clone());
        Teller { log, alerts, followers: self.followers.clone() }
    }

    fn refuse(&self, refused: Refused) {
        self.teller().refuse(&self.catalogue, refused);
    }

    /// What was not done stays as it was, so that it is named again the next time.
    fn keep(&mut self, new: Options) {
        let old = &mut self.options;
        old.access = new.access;
        old.token = new.token;
        old.alerts = new.alerts;
        old.syslog = new.syslog;
        old.log_level = new.log_level;
        join(&mut old.drives, new.drives);
        join(&mut old.mem_pools, new.mem_pools);
    }
}

/// Tells everybody who wants to know.
struct Teller {
    log: Log,
    alerts: Rc<Alerts>,
    followers: Followers,
}

impl Teller {
    /// Of a pool that can't be served, once for each reason.
    fn refuse(&self, catalogue: &Catalogue, Refused { view, failure }: Refused) {
        let Some(name) = catalogue.refuse(view) else {
            return self.log.fail(Kind::Server, &failure);
        };
        let event = self.followers.tell_refused(&name, &failure);
        self.log.event(&event);
        self.alerts.tell(&event);
        if let Some(hint) = &failure.hint {
            self.log.hint(Kind::Server, hint);
        }
    }
}

fn join<T: PartialEq>(to: &mut Vec<T>, from: Vec<T>) {
    for item in from {
        if !to.contains(&item) {
            to.push(item);
        }
    }
}

fn lacks<T: PartialEq>(list: &[T], items: &[T]) -> bool {
    items.iter().any(|item| !list.contains(item))
}

/// Keys that are done as they are changed.
fn changed(old: &Options, new: &Options) -> Vec<&'static str> {
    let (was, is) = (&old.access, &new.access);
    named([
        ("tls-cert", was.tls_cert != is.tls_cert),
        ("tls-key", was.tls_key != is.tls_key),
        ("tls-client-ca", was.tls_client_ca != is.tls_client_ca),
        ("allow", was.allow != is.allow),
        ("token-file", old.token != new.token),
        ("alert", old.alerts != new.alerts),
        ("syslog", old.syslog != new.syslog),
        ("log-level", old.log_level != new.log_level),
        ("drives", lacks(&old.drives, &new.drives)),
        ("mem-pools", lacks(&old.mem_pools, &new.mem_pools)),
    ])
}

/// Keys that need a restart.
fn left(old: &Options, new: &Options) -> Vec<&'static str> {
    let (was, is) = (&old.spikes, &new.spikes);
    named([
        ("nbd", old.nbd != new.nbd),
        ("control", old.control != new.control),
        ("http", old.http != new.http),
        ("spikes", was.spikes != is.spikes),
        ("straggler-threshold", was.straggler_threshold != is.straggler_threshold),
        ("stragglers-enter", was.stragglers_enter != is.stragglers_enter),
        ("stragglers-leave", was.stragglers_leave != is.stragglers_leave),
        ("spike-slots", was.spike_slots != is.spike_slots),
        ("write-hole", old.write_hole != new.write_hole),
        ("wait-for-drives", old.wait_for_drives != new.wait_for_drives),
        ("rebuild-after", old.rebuild_after != new.rebuild_after),
        ("drives (some taken out)", lacks(&new.drives, &old.drives)),
        ("mem-pools (some taken out)", lacks(&new.mem_pools, &old.mem_pools)),
    ])
}

fn named<const N: usize>(keys: [(&'static str, bool); N]) -> Vec<&'static str> {
    keys.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
}
