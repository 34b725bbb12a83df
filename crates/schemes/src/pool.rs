//! A pool of any scheme as it is served: volumes, background work, what happens to its drives.
//!
//! ```text
//!   volumes ── store        background: store.work(), beside requests a fifth of the time
//!      │                    watch: each second, drives that were lost ── events
//!   requests
//! ```

mod drives;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use format::{Superblock, Uuid};
use io::sync::{Event as Bell, EventWait, Turn};
use io::{Drive, Env, Nanos};

use crate::any::AnyStore;
use crate::part::{Part, PartCounters, PartEnv};
use crate::scheme::{OpenOptions, Scheme};
use crate::store::{Counters, Replace, Restoring, Store, StoreError};
use crate::volumes::{Requests, Space, VolumeInfo, Volumes};
use crate::watch::{EVERY, Watch};

/// Remembered for those who ask late; older ones are forgotten.
pub const EVENTS_MAX: usize = 1024;
/// Requests within this time: somebody is there.
pub const BUSY: Nanos = Nanos::from_millis(10);
/// Beside requests, background work rests so many times as long as it worked.
const REST_TIMES: u64 = 4;
/// Longest rest: work that was slow because a drive was must not stop for minutes.
const REST_MAX: Nanos = Nanos::from_secs(1);
/// Without anything to do, it looks again after this long.
pub const LOOK: Nanos = Nanos::from_millis(100);
/// Drives are looked at so often, and what was written is flushed if nobody did.
pub const WATCH: Nanos = Nanos::from_secs(1);

/// How long background work rests after a piece of it that took so long. For whoever serves a
/// store without a pool, too.
pub fn rest(worked: &Result<bool, StoreError>, took: Nanos, is_busy: bool) -> Nanos {
    match worked {
        Ok(true) if is_busy => Nanos(took.0 * REST_TIMES).min(REST_MAX),
        Ok(true) => Nanos::ZERO,
        Ok(false) => LOOK,
        Err(_) => REST_MAX,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Info,
    Warning,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Ascending without gaps from 1.
    pub sequence: u64,
    pub at: Nanos,
    pub severity: Severity,
    pub kind: &'static str,
    pub drive: Option<u16>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveState {
    Active,
    /// Not there when the pool was opened, or out of date.
    Missing,
    /// Lost while the pool was open.
    Failed,
    /// It has taken a lost one's place, and does not have everything yet.
    Restoring,
}

#[derive(Clone, Debug)]
pub struct DriveInfo {
    pub index: u16,
    pub uuid: Uuid,
    /// Empty when it is missing.
    pub name: String,
    pub state: DriveState,
    pub size: u64,
    pub counters: PartCounters,
    /// How much it still lacks.
    pub restoring: Option<Restoring>,
}

#[derive(Clone, Debug)]
pub struct Status {
    pub name: String,
    pub uuid: Uuid,
    pub scheme: Scheme,
    pub shape: String,
    pub chunk: u64,
    pub drives: Vec<DriveInfo>,
    pub volumes: Vec<VolumeInfo>,
    pub space: Space,
    pub requests: Requests,
    /// The scheme's own.
    pub counters: Counters,
    /// Stripes that a crash left to be looked at.
    pub owed: u64,
    pub margin: usize,
    pub opened_in: Nanos,
    /// What keeps background work from going on.
    pub trouble: Option<String>,
}

type Inside<E> = PartEnv<E>;
pub type PoolVolumes<E> = Volumes<Inside<E>, AnyStore<Inside<E>>>;
/// A volume of a pool.
pub type PoolVolume<E> = crate::volumes::Volume<Inside<E>, AnyStore<Inside<E>>>;

struct Inner<E: Env> {
    env: E,
    label: Superblock,
    scheme: Scheme,
    drives: RefCell<Vec<Option<Part<E::Drive>>>>,
    /// As their labels have them.
    uuids: RefCell<Vec<Uuid>>,
    /// Lost when the pool was opened.
    missing: RefCell<Vec<usize>>,
    /// Drives whose restoring was told, and not yet its end.
    filling: RefCell<Vec<usize>>,
    /// Drives whose loss was told.
    known: RefCell<Vec<usize>>,
    /// Who fails or replaces a drive.
    drive_turn: Turn,
    volumes: PoolVolumes<E>,
    events: RefCell<VecDeque<Event>>,
    next_event: Cell<u64>,
    arrived: Bell,
    trouble: RefCell<Option<String>>,
    stopping: Cell<bool>,
    /// Tasks that still run.
    tasks: Cell<usize>,
    stopped: Bell,
    opened_in: Nanos,
}

/// A handle on an open pool; clones name the same.
pub struct Pool<E: Env> {
    inner: Rc<Inner<E>>,
}

impl<E: Env> Clone for Pool<E> {
    fn clone(&self) -> Pool<E> {
        Pool { inner: self.inner.clone() }
    }
}

impl<E: Env> Pool<E> {
    /// Opens the pool on these drives, and begins its background work.
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: OpenOptions,
    ) -> Result<Pool<E>, StoreError> {
        let began = env.now();
        let part = |drive| match options.rehearsal {
            true => Part::whole(drive).rehearsal(),
            false => Part::whole(drive).watched(Watch::new(env)),
        };
        let parts: Vec<Part<E::Drive>> = drives.into_iter().map(part).collect();
        let mut labels = Vec::new();
        for part in &parts {
            labels.push(classical::label::read(part).await);
        }
        let newest = labels.iter().flatten().max_by_key(|label| label.generation);
        let label = newest.ok_or(StoreError::NoLabel)?.clone();
        let scheme = Scheme::of(&label).ok_or(StoreError::NoLabel)?;
        let inside = PartEnv::new(env.clone());
        let store = AnyStore::open(&inside, parts.clone(), options).await?;
        let volumes = Volumes::open(&inside, store).await?;
        let mut places = vec![None; label.members.len()];
        for (part, own) in parts.into_iter().zip(labels) {
            let Some(own) = own.filter(|own| own.pool == label.pool) else { continue };
            let listed = label.members.get(usize::from(own.index));
            // One that another has replaced is no member any more.
            if listed.is_some_and(|listed| listed.drive == own.drive) {
                places[usize::from(own.index)] = Some(part);
            }
        }
        let missing = volumes.store().lost();
        let inner = Inner {
            env: env.clone(),
            scheme,
            drives: RefCell::new(places),
            uuids: RefCell::new(label.members.iter().map(|listed| listed.drive).collect()),
            known: RefCell::new(missing.clone()),
            missing: RefCell::new(missing),
            filling: RefCell::default(),
            drive_turn: Turn::new(),
            volumes,
            label,
            events: RefCell::default(),
            next_event: Cell::new(1),
            arrived: Bell::new(),
            trouble: RefCell::default(),
            stopping: Cell::new(false),
            tasks: Cell::new(0),
            stopped: Bell::new(),
            opened_in: env.now().saturating_sub(began),
        };
        let pool = Pool { inner: Rc::new(inner) };
        for &drive in &*pool.inner.missing.borrow() {
            let text = format!("drive {drive} is missing or out of date: its data is elsewhere");
            pool.inner.tell(Severity::Warning, "drive-missing", Some(drive), text);
        }
        if !options.rehearsal {
            pool.go_on_restoring().await;
            pool.begin(Inner::background);
            pool.begin(Inner::watch);
            if pool.inner.volumes.store().steers() {
                pool.begin(Inner::steer);
            }
        }
        Ok(pool)
    }

    fn begin<F: Future<Output = ()> + 'static>(&self, task: impl FnOnce(Rc<Inner<E>>) -> F) {
        self.inner.tasks.set(self.inner.tasks.get() + 1);
        let (inner, task) = (self.inner.clone(), task(self.inner.clone()));
        self.inner.env.spawn(async move {
            task.await;
            inner.tasks.set(inner.tasks.get() - 1);
            inner.stopped.notify_all();
        });
    }

    pub fn name(&self) -> &str {
        &self.inner.label.pool_name
    }

    pub fn uuid(&self) -> Uuid {
        self.inner.label.pool
    }

    pub fn volumes(&self) -> &PoolVolumes<E> {
        &self.inner.volumes
    }

    /// Events after this number, oldest first; 0 for all that are remembered.
    pub fn events(&self, after: u64) -> Vec<Event> {
        let events = self.inner.events.borrow();
        events.iter().filter(|event| event.sequence > after).cloned().collect()
    }

    pub fn next_event(&self) -> EventWait {
        self.inner.arrived.wait()
    }

    pub fn status(&self) -> Status {
        let (inner, store) = (&self.inner, self.inner.volumes.store());
        let (lost, restoring) = (store.lost(), store.restoring());
        let (drives, missing) = (inner.drives.borrow(), inner.missing.borrow());
        let drive = |index: usize| {
            let (listed, part) = (&inner.label.members[index], drives[index].as_ref());
            let restoring = restoring.iter().find(|own| own.place == index).copied();
            let state = match (lost.contains(&index), missing.contains(&index)) {
                // Whole, and the labels are just being told.
                (false, _) if inner.filling.borrow().contains(&index) => DriveState::Restoring,
                (false, _) => DriveState::Active,
                (true, _) if restoring.is_some() => DriveState::Restoring,
                (true, true) => DriveState::Missing,
                (true, false) => DriveState::Failed,
            };
            DriveInfo {
                index: index as u16,
                uuid: inner.uuids.borrow()[index],
                name: part.map_or_else(String::new, Drive::name),
                state,
                size: listed.size,
                counters: part.map_or_else(PartCounters::default, Part::counters),
                restoring: restoring.filter(|_| state == DriveState::Restoring),
            }
        };
        Status {
            name: self.name().to_owned(),
            uuid: self.uuid(),
            scheme: inner.scheme,
            shape: store.shape(),
            chunk: inner.label.block_size.into(),
            drives: (0..drives.len()).map(drive).collect(),
            volumes: inner.volumes.list(),
            space: inner.volumes.space(),
            requests: inner.volumes.requests(),
            counters: store.counters(),
            owed: store.owed(),
            margin: store.margin(),
            opened_in: inner.opened_in,
            trouble: inner.trouble.borrow().clone(),
        }
    }

    /// Ends background work, flushes and marks the pool clean. No request is under way.
    pub async fn close(&self) -> Result<(), StoreError> {
        let _turn = self.inner.drive_turn.lock().await;
        self.inner.stopping.set(true);
        while self.inner.tasks.get() > 0 {
            self.inner.stopped.wait().await;
        }
        self.inner.volumes.close().await
    }
}

impl<E: Env> Inner<E> {
    fn tell(&self, severity: Severity, kind: &'static str, drive: Option<usize>, text: String) {
        let mut events = self.events.borrow_mut();
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        let sequence = self.next_event.replace(self.next_event.get() + 1);
        let drive = drive.map(|drive| drive as u16);
        events.push_back(Event { sequence, at: self.env.now(), severity, kind, drive, text });
        drop(events);
        self.arrived.notify_all();
    }

    fn is_busy(&self) -> bool {
        self.volumes.last_request() + BUSY > self.env.now()
    }

    /// What can wait, one piece after the other.
    async fn background(self: Rc<Self>) {
        let owed = self.volumes.store().owed();
        let mut resyncing = owed > 0;
        if resyncing {
            let text = format!("{owed} stripes are looked at, beside requests");
            self.tell(Severity::Info, "resync-started", None, text);
        }
        while !self.stopping.get() {
            let began = self.env.now();
            let worked = self.volumes.store().work().await;
            let took = self.env.now().saturating_sub(began);
            let rest = rest(&worked, took, self.is_busy());
            let told = self.note_restored().await;
            self.note_trouble(worked.and(told).err());
            if resyncing && self.volumes.store().owed() == 0 {
                resyncing = false;
                let text = "all drives agree".to_owned();
                self.tell(Severity::Info, "resync-done", None, text);
            }
            match rest {
                Nanos::ZERO => self.env.yield_now().await,
                rest => self.env.sleep_until(self.env.now() + rest).await,
            }
        }
    }

    fn note_trouble(&self, error: Option<StoreError>) {
        let now = error.map(|error| error.to_string());
        let before = self.trouble.replace(now.clone());
        if let Some(text) = now.filter(|now| before.as_ref() != Some(now)) {
            self.tell(Severity::Error, "background-failed", None, text);
        }
    }

    /// Says which drives were lost, and flushes what nobody flushes.
    async fn watch(self: Rc<Self>) {
        while !self.stopping.get() {
            // Short sleeps, so that closing need not wait.
            let until = self.env.now() + WATCH;
            while self.env.now() < until && !self.stopping.get() {
                self.env.sleep_until(self.env.now() + LOOK).await;
            }
            let idle = self.volumes.last_write().is_some_and(|at| at + WATCH <= self.env.now());
            if idle && let Err(error) = self.volumes.flush().await {
                self.note_trouble(Some(error));
            }
            for drive in self.volumes.store().lost() {
                if !self.known.borrow().contains(&drive) {
                    self.known.borrow_mut().push(drive);
                    self.tell_lost(drive);
                }
            }
        }
    }

    /// Tells a scheme that steers which drives are slow.
    async fn steer(self: Rc<Self>) {
        let mut slow = vec![false; self.drives.borrow().len()];
        while !self.stopping.get() {
            self.env.sleep_until(self.env.now() + EVERY).await;
            for (at, was) in slow.iter_mut().enumerate() {
                let now = self.drives.borrow()[at].as_ref().is_some_and(Part::is_slow);
                if now != *was {
                    *was = now;
                    self.volumes.store().steer(at, now);
                }
            }
        }
    }

    fn tell_lost(&self, drive: usize) {
        let margin = self.volumes.store().margin();
        let name = self.name_of(drive);
        let severity = if margin == 0 { Severity::Error } else { Severity::Warning };
        let text = format!(
            "drive {drive} ({name}) failed and is not used any more; {margin} more may fail \
             before data is lost"
        );
        self.tell(severity, "drive-failed", Some(drive), text);
    }
}
