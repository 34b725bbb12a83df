//! A pool of any scheme as it is served: volumes, background work, what happens to its drives.
//!
//! ```text
//!   volumes ── store        background: store.work(), beside requests a fifth of the time
//!      │                    watch: each second, drives that were lost ── events
//!   requests
//! ```

mod drives;
mod exchange;
mod grow;
mod hangs;
mod open;
mod progress;
mod scrub;
mod slow;
mod spares;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use classical::Health;
use format::{Superblock, Uuid};
use io::sync::{Event as Bell, EventWait, Turn};
use io::{Drive, Env, Nanos, join_all};
use members::events::Rings;
use members::slow::{Peers, SlowDrive};

pub use self::exchange::Replacing;
pub use self::scrub::{ScrubState, ScrubStatus};
pub use self::slow::Decided;
pub use self::spares::{SPARE_RETRY, SPARES_MAX};
pub use members::events::Severity;

use self::exchange::Exchange;
use self::open::{Found, Sorted};
use self::progress::Progress;
use self::scrub::Scrubbing;
use self::spares::Spare;
use crate::any::AnyStore;
use crate::joined::Joined;
use crate::part::hang::{HANG_AFTER, Patience};
use crate::part::{Part, PartCounters, PartEnv};
use crate::scheme::{OpenOptions, Scheme};
use crate::store::{Counters, Replace, Restoring, Store, StoreError};
use crate::volumes::{Requests, Space, VolumeInfo, Volumes};
use crate::watch::{EVERY, Seen, Watch};

/// Infos remembered for those who ask late; older ones are forgotten. Warnings and errors have
/// places of their own (`members::events`).
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Ascending without gaps from 1.
    pub sequence: u64,
    pub at: Nanos,
    pub severity: Severity,
    pub kind: &'static str,
    pub drive: Option<u16>,
    /// Its name then, if it was there.
    pub drive_name: Option<String>,
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
    /// It has no place, and waits for one. Its number is one of those after the places'.
    Spare,
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
    /// What is freed is told to it; `None` of one that is not here.
    pub takes_discards: Option<bool>,
    /// How long it takes, and what it has to do.
    pub seen: Seen,
    pub decided: Decided,
    /// While it is slower than its peers, and whether it has been for so long that it is suspect.
    pub slow: Option<SlowDrive>,
    pub suspect: bool,
    /// How much it still lacks.
    pub restoring: Option<Restoring>,
    /// It is copied onto another, which takes its place then.
    pub replacing: Option<Replacing>,
    /// How long that, or restoring, will take.
    pub eta: Option<Nanos>,
}

#[derive(Clone, Debug)]
pub struct Status {
    pub name: String,
    pub uuid: Uuid,
    pub scheme: Scheme,
    pub shape: String,
    pub chunk: u64,
    /// Those with places, then spares.
    pub drives: Vec<DriveInfo>,
    pub volumes: Vec<VolumeInfo>,
    pub space: Space,
    pub requests: Requests,
    /// The scheme's own.
    pub counters: Counters,
    /// Stripes that a crash left to be looked at.
    pub owed: u64,
    /// Regions that are marked: a crash would leave them to be looked at. 0: in sync.
    pub marks: u64,
    pub margin: usize,
    pub opened_in: Nanos,
    pub scrub: ScrubStatus,
    /// Pages that nothing gives, as far as is known ([`policy::rot::LostPages`]).
    pub lost_pages: u64,
    /// Pages have checksums, and what was found bad.
    pub checksums: bool,
    pub health: Health,
    /// What keeps background work from going on.
    pub trouble: Option<String>,
    /// Nothing is restored for the time being.
    pub paused: bool,
}

type Inside<E> = PartEnv<E>;
type PoolStore<E> = Joined<AnyStore<Inside<E>>>;
pub type PoolVolumes<E> = Volumes<Inside<E>, PoolStore<E>>;
/// A volume of a pool.
pub type PoolVolume<E> = crate::volumes::Volume<Inside<E>, PoolStore<E>>;

struct Inner<E: Env> {
    env: E,
    /// Of the first array, as it was when the pool was opened, and of all.
    label: Superblock,
    arrays: RefCell<Vec<Superblock>>,
    scheme: Scheme,
    drives: RefCell<Vec<Option<Part>>>,
    /// As their labels have them.
    uuids: RefCell<Vec<Uuid>>,
    /// Lost when the pool was opened.
    missing: RefCell<Vec<usize>>,
    /// Drives that wait for a place: `spares::SPARES_MAX` at most.
    spares: RefCell<Vec<Spare>>,
    options: OpenOptions,
    paused: Cell<bool>,
    progress: RefCell<Progress>,
    /// Lost drives that an operator will take back: no spare takes their place by itself.
    offline: RefCell<Vec<usize>>,
    /// What an operator decided about drives, until one says otherwise.
    decided: RefCell<BTreeMap<usize, Decided>>,
    /// Which drives are slower than the others.
    peers: RefCell<Peers>,
    /// Drives whose restoring was told, and not yet its end.
    filling: RefCell<Vec<usize>>,
    /// Drives whose loss was told.
    known: RefCell<Vec<usize>>,
    /// Who fails or replaces a drive.
    drive_turn: Turn,
    volumes: PoolVolumes<E>,
    events: RefCell<Rings<Event>>,
    arrived: Bell,
    trouble: RefCell<Option<String>>,
    stopping: Cell<bool>,
    closed: Cell<bool>,
    /// Tasks that still run.
    tasks: Cell<usize>,
    stopped: Bell,
    opened_in: Nanos,
    scrubbing: Scrubbing,
    exchange: RefCell<Option<Rc<Exchange>>>,
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
        let part = |drive| {
            let part = Part::whole(drive).with_patience(Patience::new(env));
            match options.rehearsal {
                true => part.rehearsal(),
                false => part.watched(Watch::new(env)),
            }
        };
        let parts: Vec<Part> = drives.into_iter().map(part).collect();
        // At once: any that hang are waited for together.
        let labels = join_all(parts.iter().map(classical::label::read)).await;
        let silent: Vec<String> =
            parts.iter().filter(|part| part.hangs()).map(Drive::name).collect();
        let found: Vec<Found> = parts.into_iter().zip(labels).collect();
        let label = open::first_label(&found)?;
        let scheme = Scheme::of(&label).ok_or(StoreError::NoLabel)?;
        let (volumes, arrays) = open::volumes(env, found.clone(), label.clone(), options).await?;
        let missing = volumes.store().lost();
        let Sorted { places, spares, strangers } = open::sort(&arrays, found);
        let listed = arrays.iter().flat_map(|label| &label.members);
        let inner = Inner {
            env: env.clone(),
            scheme,
            drives: RefCell::new(places),
            uuids: RefCell::new(listed.map(|listed| listed.drive).collect()),
            arrays: RefCell::new(arrays),
            options,
            known: RefCell::new(missing.clone()),
            missing: RefCell::new(missing),
            spares: RefCell::new(spares),
            paused: Cell::new(false),
            progress: RefCell::default(),
            offline: RefCell::default(),
            decided: RefCell::default(),
            peers: RefCell::new(Peers::new(env.now().0)),
            filling: RefCell::default(),
            drive_turn: Turn::new(),
            volumes,
            label,
            events: RefCell::new(Rings::new(EVENTS_MAX)),
            arrived: Bell::new(),
            trouble: RefCell::default(),
            stopping: Cell::new(false),
            closed: Cell::new(false),
            tasks: Cell::new(0),
            stopped: Bell::new(),
            opened_in: env.now().saturating_sub(began),
            scrubbing: Scrubbing::default(),
            exchange: RefCell::default(),
        };
        let pool = Pool { inner: Rc::new(inner) };
        pool.inner.tell_absent(&silent, &strangers);
        pool.begin_all(options).await;
        Ok(pool)
    }

    async fn begin_all(&self, options: OpenOptions) {
        for (place, part) in self.inner.drives.borrow().iter().enumerate() {
            part.iter().for_each(|part| self.inner.ask_before_giving_up(place, part));
        }
        if !options.rehearsal {
            self.inner.env.spawn(self.inner.clone().write_off_hanging());
            self.go_on_restoring().await;
            self.inner.begin(Inner::background);
            self.inner.begin(Inner::watch);
            self.inner.begin(Inner::scrub);
            self.inner.begin(Inner::compare);
            self.inner.begin(Inner::use_spares);
            if self.inner.volumes.store().steers() {
                self.inner.begin(Inner::steer);
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.inner.label.pool_name
    }

    pub fn uuid(&self) -> Uuid {
        self.inner.label.pool
    }

    pub fn scheme(&self) -> Scheme {
        self.inner.scheme
    }

    /// How its drives are arranged, in a few words.
    pub fn shape(&self) -> String {
        self.inner.volumes.store().shape()
    }

    pub fn volumes(&self) -> &PoolVolumes<E> {
        &self.inner.volumes
    }

    /// Events after this number, oldest first; 0 for all that are remembered.
    pub fn events(&self, after: u64) -> Vec<Event> {
        self.inner.events.borrow().after(after)
    }

    pub fn next_event(&self) -> EventWait {
        self.inner.arrived.wait()
    }

    /// Drives that the pool is without, and that nobody fills the places of: in no time.
    pub fn lost_drives(&self) -> Vec<(u16, Uuid)> {
        let (store, uuids) = (self.inner.volumes.store(), self.inner.uuids.borrow());
        let restoring = store.restoring();
        let is_filled = |place: usize| restoring.iter().any(|own| own.place == place);
        let lost = store.lost().into_iter().filter(|&place| !is_filled(place));
        lost.filter_map(|place| Some((place as u16, *uuids.get(place)?))).collect()
    }

    pub fn status(&self) -> Status {
        let (inner, store) = (&self.inner, self.inner.volumes.store());
        let (lost, restoring) = (store.lost(), store.restoring());
        let (drives, missing) = (inner.drives.borrow(), inner.missing.borrow());
        let replacing = inner.exchange.borrow().as_ref().map(|own| own.replacing());
        let drive = |index: usize| {
            let (listed, part) = (inner.listed(index), drives[index].as_ref());
            let restoring = restoring.iter().find(|own| own.place == index).copied();
            let replacing = replacing.clone().filter(|own| own.progress.place == index);
            let under_way = restoring.or(replacing.as_ref().map(|own| own.progress));
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
                takes_discards: part.map(Drive::takes_write_zeroes),
                seen: part.map(Part::seen).unwrap_or_default(),
                decided: inner.decided(index),
                slow: inner.slow_drive(index),
                suspect: inner.is_suspect(index),
                restoring: restoring.filter(|_| state == DriveState::Restoring),
                replacing,
                eta: under_way.and_then(|own| inner.progress.borrow().eta(&own)),
            }
        };
        let spares = self.spares(drives.len());
        let (checksums, health) = self.health();
        Status {
            name: self.name().to_owned(),
            uuid: self.uuid(),
            scheme: inner.scheme,
            shape: store.shape(),
            chunk: inner.label.block_size.into(),
            drives: (0..drives.len()).map(drive).chain(spares).collect(),
            volumes: inner.volumes.list(),
            space: inner.volumes.space(),
            requests: inner.volumes.requests(),
            counters: store.counters(),
            owed: store.owed(),
            marks: store.marks(),
            margin: store.margin(),
            opened_in: inner.opened_in,
            scrub: self.scrub_status(),
            lost_pages: self.lost_pages(&health),
            checksums,
            health,
            trouble: inner.trouble.borrow().clone(),
            paused: inner.paused.get(),
        }
    }

    /// Ends background work, flushes and marks the pool clean. No request is under way. An error:
    /// it is not marked, and the next opening has more to look at.
    pub async fn close(&self) -> Result<(), StoreError> {
        let pool = self.clone();
        let hanging = || hangs::needed(self.inner.drives.borrow().iter().flatten());
        let closed = async move {
            let inner = &pool.inner;
            {
                let _turn = inner.drive_turn.lock().await;
                inner.stopping.set(true);
            }
            while inner.tasks.get() > 0 {
                inner.stopped.wait().await;
            }
            inner.volumes.close().await
        };
        let done = hangs::end_in_time(&self.inner.env, hanging, closed).await;
        self.inner.closed.set(true);
        done
    }
}

impl<E: Env> Inner<E> {
    /// A task that closing waits for.
    fn begin<F: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        task: impl FnOnce(Rc<Inner<E>>) -> F,
    ) {
        self.tasks.set(self.tasks.get() + 1);
        let (inner, task) = (self.clone(), task(self.clone()));
        self.env.spawn(async move {
            task.await;
            inner.tasks.set(inner.tasks.get() - 1);
            inner.stopped.notify_all();
        });
    }

    fn tell(&self, severity: Severity, kind: &'static str, drive: Option<usize>, text: String) {
        let at = self.env.now();
        let drive_name = drive.and_then(|drive| self.known_name(drive));
        let drive = drive.map(|drive| drive as u16);
        let event = |sequence| Event { sequence, at, severity, kind, drive, drive_name, text };
        self.events.borrow_mut().push(severity, event);
        self.arrived.notify_all();
    }

    /// Drives without which the pool was opened; some did not even say who they are.
    fn tell_absent(&self, silent: &[String], strangers: &[String]) {
        for &drive in &*self.missing.borrow() {
            let text = format!("drive {drive} is missing or out of date: its data is elsewhere");
            self.tell(Severity::Warning, "drive-missing", Some(drive), text);
        }
        for name in strangers {
            let text = format!(
                "drive {name} is of an array that the pool does not have: it is left out, and may \
                 be given to it again"
            );
            self.tell(Severity::Warning, "drive-stranger", None, text);
        }
        for name in silent {
            let text = format!("drive {name} hangs: no answer for {HANG_AFTER}; it is left out");
            self.tell(Severity::Warning, "drive-failed", None, text);
        }
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
            let worked = match self.volumes.store().work().await {
                Ok(false) => self.volumes.work().await,
                worked => worked,
            };
            let took = self.env.now().saturating_sub(began);
            let rest = rest(&worked, took, self.is_busy());
            let told = self.note_restored().await;
            self.note_trouble(worked.and(told).err());
            if resyncing && self.volumes.store().owed() == 0 {
                resyncing = false;
                let text = "every stripe that a crash left was looked at".to_owned();
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
            slow.resize(self.drives.borrow().len(), false);
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
        let how = match self.drives.borrow()[drive].as_ref().is_some_and(Part::hangs) {
            true => format!("hangs: no answer for {HANG_AFTER}; it is failed"),
            false => "failed".to_owned(),
        };
        let text = format!(
            "drive {drive} ({name}) {how} and is not used any more; {margin} more may fail before \
             data is lost"
        );
        self.tell(severity, "drive-failed", Some(drive), text);
    }
}
