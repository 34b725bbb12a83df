//! A seeded world over any scheme: clients write and read through power cuts at any write, kills,
//! drives that die in the middle of work or with the power, work that can wait at any moment, and
//! the store must hold what it promised. Clients share stripes but no sectors, so each knows what
//! it wrote.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use io::rng::{Rng, mix};
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{AnyDrive, Buf, Env, Faults, Faulty, Nanos, join_all};
use schemes::part::Part;
use schemes::part::hang::Patience;
use schemes::{Replace, Store, StoreError};

use crate::battery::client::{
    CLIENTS, Client, Oracle, SECTOR, SPAN, content, forget_strange, found_strange, settle, strange,
};

mod discards;
mod lost;
mod seeds;

pub use self::discards::with_discards;
// Of these two `all` and `planted` use one each.
#[cfg(feature = "planted")]
#[allow(unused_imports)]
pub use self::seeds::failure;
#[cfg_attr(feature = "planted", allow(unused_imports))]
pub use self::seeds::{
    battery, battery_variant, every_seed, failures, one, one_made, world_of, worlds, worlds_called,
};

const PAGE: u64 = 4096;
/// Of each client in a session.
pub const REQUESTS: usize = 40;
pub const CHUNK: u64 = 8192;
/// A drive whose writes take some ten times as long as those of its peers.
const SLOW: Latency = Latency { write: Nanos::from_micros(800), ..Latency::SSD };

/// A scheme under test.
pub trait Subject: Copy {
    type Store: Store;

    fn name(&self) -> String;

    /// How many drives, and the bytes of each.
    fn drives(&self) -> Vec<u64>;

    /// A world begins: nothing is known of the one before.
    fn begin(&self) {}

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError>;

    async fn open(&self, env: &VirtEnv, drives: Vec<VirtDrive>) -> Result<Self::Store, StoreError>;

    /// Whether it promises to bear the loss of these drives.
    fn survives(&self, lost: &[bool]) -> bool;

    /// Whether a sector that was being written when a drive was lost together with the power may be
    /// neither old nor new: what lies in parity stripes in place.
    fn by_parity(&self) -> bool;

    /// Whether the drives know of every write what it is about to change before they have any of
    /// it: else nobody can tell what was written since the last flush from what rotted since.
    fn records_first(&self) -> bool {
        false
    }

    /// Whether it fails to read what was written since the last flush, rather than guess, where it
    /// can't tell it from what rotted since: on drives that tear no page.
    fn admits_loss(&self) -> bool {
        false
    }

    /// Whether it is refused if a page of its log is lost that was not flushed.
    fn may_be_refused(&self) -> bool {
        false
    }

    /// Beside requests, now and then: what an operator does, with the drives there are.
    async fn tend(&self, _store: &Self::Store, _drives: Vec<VirtDrive>) {}

    /// Whether a drive that dies may answer again soon.
    fn hangs(&self) -> bool {
        false
    }

    /// Whether what lost a copy in a scrub has it back only after more background work.
    fn copies_later(&self) -> bool {
        false
    }
}

pub struct World<S: Subject> {
    pub subject: S,
    pub env: VirtEnv,
    pub disks: Vec<Disk>,
    /// Of drives that can be made to hang, and are given up after a while.
    pub faults: Option<Vec<Faults>>,
    pub unplugged: Vec<bool>,
    /// It is behind the others: a crash finds most writes on all but this one.
    pub slow: Option<usize>,
    /// It loses writes in a session, so many of a million; no other drive dies then.
    pub losing: Option<(usize, u32)>,
    /// Of each client in a session.
    pub requests: usize,
    /// What was being written when a drive died, and is known by parity only: by sector the write.
    torn_by_loss: RefCell<BTreeMap<u64, u64>>,
    /// The same when the machine stopped.
    in_flight: Vec<u64>,
    /// Pages that may fail to be read next, unflushed when the machine stopped.
    may_fail: BTreeSet<u64>,
    pub rng: Rng,
    oracle: Rc<RefCell<Oracle>>,
    base: u64,
    /// Sectors behind what clients use.
    behind: u64,
    seed: u64,
    /// Sectors behind the clients' that somebody discards.
    pub nobodys: u64,
}

/// Worlds have drives of both units.
fn unit_of(seed: u64) -> u32 {
    if seed.is_multiple_of(2) { 512 } else { PAGE as u32 }
}

/// Those whose unit is a page tear none.
fn blank(at: usize, size: u64, align: u32, seed: u64) -> Disk {
    Disk::new(format!("d{at}"), size, align, seed).without_torn_units()
}

impl<S: Subject> Drop for World<S> {
    fn drop(&mut self) {
        self.env.crash();
    }
}

impl<S: Subject> World<S> {
    pub fn new(subject: S, seed: u64) -> World<S> {
        forget_strange();
        subject.begin();
        let sizes = subject.drives();
        let disk = |at: usize| blank(at, sizes[at], unit_of(seed), seed ^ at as u64);
        World {
            subject,
            env: VirtEnv::new(seed),
            disks: (0..sizes.len()).map(disk).collect(),
            seed,
            nobodys: 0,
            faults: None,
            unplugged: vec![false; sizes.len()],
            slow: None,
            losing: None,
            requests: REQUESTS,
            torn_by_loss: RefCell::default(),
            in_flight: Vec::new(),
            may_fail: BTreeSet::new(),
            rng: Rng::new(mix(seed)),
            oracle: Rc::default(),
            base: 0,
            behind: 0,
        }
    }

    /// A drive as it was before it was used.
    pub fn fresh(&self, at: usize) -> Disk {
        let (size, align) = (self.subject.drives()[at], self.disks[at].geometry().align);
        blank(at, size, align, self.seed ^ at as u64)
    }

    pub fn drives(&self) -> Vec<VirtDrive> {
        let plugged = (0..self.disks.len()).filter(|at| !self.unplugged[*at]);
        plugged.map(|at| self.attach(at)).collect()
    }

    fn attach(&self, at: usize) -> VirtDrive {
        let latency = if self.slow == Some(at) { SLOW } else { Latency::SSD };
        let drive = VirtDrive::attach(&self.env, &self.disks[at], latency);
        let Some(faults) = &self.faults else { return drive };
        let part = Part::whole(Faulty::new(&self.env, drive, &faults[at]));
        AnyDrive::new(part.with_patience(Patience::new(&self.env))).into()
    }

    pub fn make(&mut self) {
        let made = self.env.block_on(self.subject.create(&self.env, &self.drives()));
        made.expect("it fits");
        // Fresh drives hold noise: the first writing makes it ours.
        let store = self.env.block_on(self.open()).expect("it was just made");
        // Somewhere in the middle, not at a multiple of anything.
        let sectors = store.size() / SECTOR;
        self.base = sectors / 3;
        self.behind = sectors - self.base - SPAN;
        let zeroes = Buf::zeroed((SPAN * SECTOR) as usize);
        self.env.block_on(store.write(self.base * SECTOR, zeroes, false)).expect("writes");
        self.env.block_on(store.close()).expect("closes");
    }

    /// The store, as whoever uses it next finds it.
    pub fn opened(&self) -> S::Store {
        self.env.block_on(self.open()).unwrap_or_else(|error| panic!("open: {error}"))
    }

    /// Everything that was written is durable, and nobody is there any more.
    pub fn close(&self, store: S::Store) {
        let closed = self.env.block_on(store.close());
        assert!(closed.is_ok(), "close: {closed:?}");
        self.oracle.borrow_mut().sectors.values_mut().for_each(settle);
        self.env.crash();
    }

    pub async fn open(&self) -> Result<S::Store, StoreError> {
        self.subject.open(&self.env, self.drives()).await
    }

    /// Whether it could do without this one, too.
    fn can_lose(&self, drive: usize) -> bool {
        let gone = |at: usize| at == drive || self.unplugged[at] || self.disks[at].is_failed();
        let lost: Vec<bool> = (0..self.disks.len()).map(gone).collect();
        self.subject.survives(&lost)
    }

    pub fn draw_victim(&mut self) -> Option<usize> {
        let drive = self.rng.index(self.disks.len());
        let whole = !self.unplugged[drive] && !self.disks[drive].is_failed();
        (whole && self.can_lose(drive)).then_some(drive)
    }

    /// Clients work until `limit` writes have reached the drives, or are done. True: cut.
    pub fn session(&mut self, limit: u64) -> bool {
        self.session_until(limit, limit)
    }

    /// The same, where a drive that dies does so within the first writes, whenever the end comes.
    pub fn session_until(&mut self, first: u64, limit: u64) -> bool {
        let store = self.env.block_on(self.open()).unwrap_or_else(|error| panic!("open: {error}"));
        let seed = self.rng.next_u64();
        let clients = self.clients(&store, seed);
        let (busy, done) = (self.rng.below(4), Cell::new(false));
        let dies = self.rng.chance(1, 3) && self.losing.is_none();
        let victim = if dies { self.draw_victim() } else { None };
        if let Some((drive, per_million)) = self.losing {
            self.disks[drive].lose_writes(per_million);
        }
        let dies_at = self.env.writes_issued() + self.rng.below(first.max(2));
        let back_at = dies_at + 1 + first / 8;
        // Between two writes, or some time after one: also between what follows a write.
        let limit = self.env.writes_issued().saturating_add(limit);
        let late = self.rng.chance(1, 2).then(|| self.rng.below(400_000));
        if late.is_none() {
            self.env.set_write_limit(limit);
        }
        let ends = Cell::new(None);
        let requests = async {
            join_all(clients.iter().map(|client| client.work(self.requests))).await;
            done.set(true);
        };
        let work = async {
            let beside = self.background(&store, busy, &done);
            let discards = self.discard_beside(&store, seed, &done);
            futures_util::future::join3(requests, beside, discards).await;
        };
        let died = Cell::new(false);
        let stop = || {
            let due = victim.filter(|_| self.env.writes_issued() >= dies_at && !died.replace(true));
            if let Some(drive) = due {
                self.disks[drive].set_failed(true);
            }
            // What begins before the store has noticed is like what was under way then.
            let unnoticed = |drive: &usize| died.get() && !store.lost().contains(drive);
            if victim.is_some_and(|drive| due.is_some() || unnoticed(&drive)) {
                self.note_torn();
            }
            let back = self.subject.hangs() && self.env.writes_issued() >= back_at;
            if let Some(drive) = victim.filter(|_| back) {
                self.disks[drive].set_failed(false);
            }
            if self.env.writes_issued() >= limit && ends.get().is_none() {
                ends.set(Some(self.env.now().0 + late.unwrap_or(0)));
            }
            ends.get().is_some_and(|end| self.env.now().0 >= end)
        };
        let cut = self.env.run_until(work, stop).is_none();
        if !cut {
            self.env.set_write_limit(u64::MAX);
            // With it ends whatever was beside it.
            self.close(store);
        }
        if let Some((drive, _)) = self.losing {
            self.disks[drive].lose_writes(0);
        }
        cut
    }

    pub fn clients(&self, store: &S::Store, seed: u64) -> Vec<Client<S::Store>> {
        let client = |number| Client {
            number,
            base: self.base,
            store: store.clone(),
            oracle: self.oracle.clone(),
            rng: RefCell::new(Rng::new(mix(seed) ^ number)),
        };
        (0..CLIENTS).map(client).collect()
    }

    /// What can wait: never, all the time, or now and then while requests are under way.
    async fn background(&self, store: &S::Store, busy: u64, done: &Cell<bool>) {
        let mut rng = Rng::new(busy);
        while busy > 0 && !done.get() {
            let worked = store.work().await.unwrap_or_else(|error| panic!("work: {error}"));
            self.subject.tend(store, self.drives()).await;
            let rest = if busy == 1 && worked { 0 } else { rng.below(2_000_000) };
            self.env.sleep_until(self.env.now() + io::Nanos(20_000 + rest)).await;
        }
    }

    /// Drives that are gone are there again: the same ones, or others in their places.
    pub fn restock(&mut self) {
        for at in 0..self.disks.len() {
            let gone = std::mem::take(&mut self.unplugged[at]) || self.disks[at].is_failed();
            self.disks[at].set_failed(false);
            if gone && self.rng.chance(1, 2) {
                let (size, align) = (self.subject.drives()[at], self.disks[at].geometry().align);
                let seed = self.rng.next_u64();
                self.disks[at] = blank(at, size, align, seed);
            }
        }
    }

    /// Nobody is there but the operator, for so many pieces of work; then the machine stops.
    pub fn rest(&mut self, pieces: u64) {
        let store = self.env.block_on(self.open()).unwrap_or_else(|error| panic!("open: {error}"));
        let (drives, env) = (self.drives(), self.env.clone());
        self.env.block_on(async {
            for _ in 0..pieces {
                self.subject.tend(&store, drives.clone()).await;
                store.work().await.unwrap_or_else(|error| panic!("work: {error}"));
                env.sleep_until(env.now() + io::Nanos::from_millis(1)).await;
            }
        });
        self.env.crash();
    }

    /// The machine stops while the pool is opened.
    pub fn cut_opening(&mut self, limit: u64) {
        self.env.set_write_limit(self.env.writes_issued() + limit);
        let cut = self.env.run_until(self.open(), || self.env.write_limit_reached()).is_none();
        self.env.set_write_limit(u64::MAX);
        if cut {
            self.die(false);
        }
    }

    /// Whoever opens the pool gets so far, in pieces of work and writes of drives; then the machine
    /// stops.
    pub fn cut_short(&mut self, pieces: u64, limit: u64) {
        self.env.set_write_limit(self.env.writes_issued() + limit);
        let work = async {
            let store = self.open().await.unwrap_or_else(|error| panic!("open: {error}"));
            for _ in 0..pieces {
                store.work().await.unwrap_or_else(|error| panic!("work: {error}"));
                self.env.sleep_until(self.env.now() + io::Nanos::from_micros(100)).await;
            }
        };
        self.env.run_until(work, || self.env.write_limit_reached());
        self.env.set_write_limit(u64::MAX);
        self.stop();
    }

    /// Whoever opens the pool is told that a page of it is lost, and nothing else.
    pub fn is_refused(&mut self) -> bool {
        if !self.subject.may_be_refused() {
            return false;
        }
        let opened = self.env.block_on(self.open());
        let refused = opened.is_err_and(|error| error.is_page_lost());
        self.stop();
        refused
    }

    /// Sectors that are being written, and the write.
    fn being_written(&self) -> Vec<(u64, u64)> {
        let oracle = self.oracle.borrow();
        let own = oracle.sectors.iter().filter(|(_, expected)| expected.in_flight);
        own.map(|(sector, expected)| (*sector, *expected.may_be.last().expect("a write"))).collect()
    }

    /// A drive dies: what is being written at that moment may be neither old nor new.
    fn note_torn(&self) {
        self.torn_by_loss.borrow_mut().extend(self.being_written());
    }

    /// The machine stops; drives are as power left them.
    pub fn stop(&mut self) {
        self.env.crash();
        self.in_flight = self.being_written().into_iter().map(|(sector, _)| sector).collect();
        let power = self.rng.chance(3, 4);
        if power {
            let modes = [CutMode::DropAll, CutMode::KeepAll, CutMode::Random, CutMode::Random];
            let mode = modes[self.rng.index(modes.len())];
            let mut fate = Rng::new(self.rng.next_u64());
            self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, mode));
        }
        let torn = std::mem::take(&mut *self.torn_by_loss.borrow_mut());
        let is_same = |(sector, write): &(u64, u64)| torn.get(sector) == Some(write);
        let torn: Vec<u64> =
            self.being_written().into_iter().filter(is_same).map(|(s, _)| s).collect();
        if self.subject.by_parity() {
            self.doubt(&torn, self.unit());
        }
        let mut oracle = self.oracle.borrow_mut();
        oracle.sectors.values_mut().for_each(|expected| expected.in_flight = false);
    }

    /// The machine stops; with it, perhaps, drives. What was being written then may be anything
    /// where a chunk is known by parity only.
    pub fn die(&mut self, pulled: bool) {
        self.stop();
        let mut lost = pulled;
        for _ in 0..2 {
            if let Some(drive) = self.draw_victim().filter(|_| self.rng.chance(1, 3)) {
                self.unplugged[drive] = true;
                lost = true;
            }
        }
        if lost && self.subject.by_parity() {
            self.doubt(&self.in_flight, self.unit());
        }
    }

    /// Sectors that drives take together: one beside is written with the same bytes.
    fn unit(&self) -> u64 {
        u64::from(self.disks[0].geometry().align) / SECTOR
    }

    /// These sectors, and those of the same unit, may be anything.
    fn doubt(&self, sectors: &[u64], unit: u64) {
        let mut oracle = self.oracle.borrow_mut();
        for sector in sectors {
            let first = (self.base + sector) / unit * unit;
            for beside in first..first + unit {
                if let Some(own) = beside.checked_sub(self.base).filter(|own| *own < SPAN) {
                    oracle.of(own).may_be.clear();
                }
            }
        }
    }

    /// Drives were hurt after the machine stopped: what was being written may be neither old nor
    /// new. If some pages of them rotted nobody can tell that from what was written since the last
    /// flush either, if nothing told of it before: such pages may fail to be read. Where drives
    /// tear pages one that was torn may be the only other copy, and if these are read they may be
    /// anything.
    pub fn doubt_unflushed(&mut self, rotted: bool) {
        // Before any is doubted: one that is in doubt does not say any more that it was unflushed,
        // and what shares its page would be held to be safe.
        let unflushed: Vec<u64> = {
            let oracle = self.oracle.borrow();
            let open = oracle.sectors.iter().filter(|(_, expected)| expected.may_be.len() > 1);
            open.map(|(sector, _)| *sector).collect()
        };
        let whole_pages = self.unit() == PAGE / SECTOR;
        if rotted && !self.subject.records_first() {
            let pages = unflushed.iter().map(|sector| (self.base + sector) / (PAGE / SECTOR));
            self.may_fail = pages.collect();
        }
        if whole_pages && self.subject.admits_loss() {
            return;
        }
        self.doubt(&self.in_flight, self.unit());
        if rotted && !self.subject.records_first() {
            self.doubt(&unflushed, PAGE / SECTOR);
        }
    }

    /// A drive lost writes, and then the machine stopped: pages that were written since the last
    /// flush may be lost, and what was being written anything.
    pub fn doubt_lost(&mut self) {
        self.doubt_unflushed(true);
        let oracle = self.oracle.borrow();
        let unflushed = oracle.sectors.iter().filter(|(_, expected)| expected.may_be.len() != 1);
        self.may_fail = unflushed.map(|(sector, _)| (self.base + sector) * SECTOR / PAGE).collect();
    }

    /// Whatever is lost gets a drive, and is whole again; one after the other, where a scheme fills
    /// no more than one at a time.
    pub async fn replace_lost(&self, store: &S::Store)
    where
        S::Store: Replace<Drive = VirtDrive>,
    {
        let mut given = vec![false; self.disks.len()];
        let mut refused = None;
        for _ in 0..20_000 {
            let lost = store.lost();
            if lost.is_empty() && store.owed() == 0 {
                return;
            }
            for place in lost.into_iter().filter(|place| !given[*place]).collect::<Vec<_>>() {
                match store.replace(place, self.attach(place)).await {
                    Ok(_) => given[place] = true,
                    Err(error) => refused = Some((place, error)),
                }
            }
            store.work().await.unwrap_or_else(|error| panic!("work: {error}"));
            self.env.sleep_until(self.env.now() + io::Nanos::from_micros(100)).await;
        }
        let lost = store.lost();
        panic!("lost {lost:?}, {} stripes are owed still; refused: {refused:?}", store.owed());
    }

    /// Everything is as promised, and nothing contradicts itself.
    pub fn check(&mut self) {
        self.check_bytes(true);
    }

    /// Everything is as promised; what was read is the truth from now on.
    pub fn check_bytes(&mut self, audit: bool) {
        let store = self.env.block_on(self.open()).unwrap_or_else(|error| panic!("open: {error}"));
        let read = self.read_all(&store);
        let mut oracle = self.oracle.borrow_mut();
        for (at, bytes) in read.chunks_exact(SECTOR as usize).enumerate() {
            let sector = at as u64;
            let expected = oracle.of(sector);
            let found = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
            let whole = |write: &u64| content(sector, *write) == bytes;
            if let Some(write) = expected.may_be.iter().rev().find(|write| whole(write)) {
                expected.may_be = vec![*write];
            } else if expected.may_be.is_empty() {
                // Was being written when a drive was lost: whatever it is, it stays.
                found_strange(sector, bytes);
                expected.may_be = vec![strange(sector)];
            } else {
                panic!(
                    "sector {sector}, byte {} holds write {found}, not one of {:?}; lost {:?}",
                    (self.base + sector) * SECTOR,
                    expected.may_be,
                    store.lost()
                );
            }
        }
        if audit {
            self.audit(&store);
        }
        drop(oracle);
        // Not closed: what recovery did must be durable by itself.
        self.env.crash();
        self.disks.iter().for_each(|disk| disk.power_cut(&mut self.rng, CutMode::DropAll));
    }

    /// Every stripe of the part that is used agrees with its parity, or its copies; maps with what
    /// they map.
    pub fn audit(&self, store: &S::Store) {
        let used = (SPAN + self.nobodys) * SECTOR;
        let wrong = self.env.block_on(store.audit(self.base * SECTOR, used));
        assert_eq!(wrong, Vec::<String>::new());
    }
}

impl<S: Subject> World<S> {
    fn live(&mut self) {
        for _ in 0..4 {
            let limit = 1 + self.rng.below(400);
            if self.session(limit) {
                self.die(false);
            }
            self.check();
            self.check();
        }
    }

    /// Writes, a cut in the middle, a drive lost with it.
    pub fn hole(&mut self) {
        let store = self.env.block_on(self.open()).expect("opens");
        let clients = self.clients(&store, 1);
        self.env.block_on(clients[0].flush());
        self.env.set_write_limit(self.env.writes_issued() + 60);
        let work = async {
            join_all(clients.iter().map(|client| client.work(40))).await;
        };
        assert!(self.env.run_until(work, || self.env.write_limit_reached()).is_none());
        let drive = self.rng.index(self.disks.len());
        self.unplugged[drive] = true;
        self.die(true);
        self.check();
    }
}
