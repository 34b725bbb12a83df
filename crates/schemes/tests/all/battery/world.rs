//! A seeded world over any scheme: clients write and read through power cuts at any write, kills,
//! drives that die in the middle of work or with the power, work that can wait at any moment, and
//! the store must hold what it promised. Clients share stripes but no sectors, so each knows what
//! it wrote.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use io::rng::{Rng, mix};
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{AnyDrive, Buf, BufMut, Env, Faults, Faulty, join_all};
use schemes::part::Part;
use schemes::part::hang::Patience;
use schemes::{Store, StoreError};

const SECTOR: u64 = 512;
pub const CHUNK: u64 = 8192;
const CLIENTS: u64 = 4;
/// Sectors in a row that belong to one client, then the next one's: chunks and stripes are shared.
const SHORT: u64 = 5;
/// So many sectors are divided like that.
const MIXED: u64 = 400;
/// After these each client has a row for itself that is several stripes long.
const LONG: u64 = 150;
/// Sectors of the array that are used.
const SPAN: u64 = MIXED + CLIENTS * LONG;

/// A scheme under test.
pub trait Subject: Copy {
    type Store: Store;

    fn name(&self) -> String;

    /// How many drives, and the bytes of each.
    fn drives(&self) -> Vec<u64>;

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError>;

    async fn open(&self, env: &VirtEnv, drives: Vec<VirtDrive>) -> Result<Self::Store, StoreError>;

    /// Whether it promises to bear the loss of these drives.
    fn survives(&self, lost: &[bool]) -> bool;

    /// Whether a sector that was being written when a drive was lost together with the power may be
    /// neither old nor new: what lies in parity stripes in place.
    fn by_parity(&self) -> bool;

    /// Whether a new drive was being filled: if the power goes, it is lost with it.
    fn was_filling(&self) -> bool {
        false
    }

    /// Beside requests, now and then: what an operator does, with the drives there are.
    async fn tend(&self, _store: &Self::Store, _drives: Vec<VirtDrive>) {}

    /// Whether a drive that dies may answer again soon.
    fn hangs(&self) -> bool {
        false
    }

    /// Whether what rots beside requests is always put right, or only what rots at rest.
    fn heals_beside(&self) -> bool {
        true
    }
}

/// What a sector may hold: number of the write, 0 before the first.
#[derive(Clone, Debug, Default)]
struct Expected {
    /// The last that was flushed, and all written since; the newest last.
    may_be: Vec<u64>,
    /// The newest is not answered yet.
    in_flight: bool,
}

#[derive(Default)]
struct Oracle {
    sectors: BTreeMap<u64, Expected>,
    next: u64,
}

impl Oracle {
    fn of(&mut self, sector: u64) -> &mut Expected {
        let first = || Expected { may_be: vec![0], in_flight: false };
        self.sectors.entry(sector).or_insert_with(first)
    }
}

/// Stands for whatever was found where a lost chunk was being written.
fn strange(sector: u64) -> u64 {
    u64::MAX - sector
}

fn content(sector: u64, write: u64) -> [u8; SECTOR as usize] {
    let mut bytes = [0; SECTOR as usize];
    if write == strange(sector) {
        STRANGE.with(|found| bytes.copy_from_slice(&found.borrow()[&sector]));
    } else if write > 0 {
        let mut rng = Rng::new(mix(write) ^ sector);
        rng.fill(&mut bytes);
        bytes[..8].copy_from_slice(&write.to_le_bytes());
    }
    bytes
}

pub struct World<S: Subject> {
    pub subject: S,
    pub env: VirtEnv,
    pub disks: Vec<Disk>,
    /// Of drives that can be made to hang, and are given up after a while.
    pub faults: Option<Vec<Faults>>,
    pub unplugged: Vec<bool>,
    pub rng: Rng,
    oracle: Rc<RefCell<Oracle>>,
    base: u64,
    seed: u64,
}

impl<S: Subject> Drop for World<S> {
    fn drop(&mut self) {
        self.env.crash();
    }
}

impl<S: Subject> World<S> {
    pub fn new(subject: S, seed: u64) -> World<S> {
        let sizes = subject.drives();
        // Drives of both units.
        let align = if seed.is_multiple_of(2) { 512 } else { 4096 };
        let disk = |at: usize| Disk::new(format!("d{at}"), sizes[at], align, seed ^ at as u64);
        World {
            subject,
            env: VirtEnv::new(seed),
            disks: (0..sizes.len()).map(disk).collect(),
            seed,
            faults: None,
            unplugged: vec![false; sizes.len()],
            rng: Rng::new(mix(seed)),
            oracle: Rc::default(),
            base: 0,
        }
    }

    /// A drive as it was before it was used.
    pub fn fresh(&self, at: usize) -> Disk {
        let (size, align) = (self.subject.drives()[at], self.disks[at].geometry().align);
        Disk::new(format!("d{at}"), size, align, self.seed ^ at as u64)
    }

    pub fn drives(&self) -> Vec<VirtDrive> {
        let plugged = (0..self.disks.len()).filter(|at| !self.unplugged[*at]);
        plugged.map(|at| self.attach(at)).collect()
    }

    fn attach(&self, at: usize) -> VirtDrive {
        let drive = VirtDrive::attach(&self.env, &self.disks[at], Latency::SSD);
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
        self.base = store.size() / SECTOR / 3;
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
        let victim = if self.rng.chance(1, 3) { self.draw_victim() } else { None };
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
            join_all(clients.iter().map(|client| client.work(40))).await;
            done.set(true);
        };
        let work = async {
            futures_util::future::join(requests, self.background(&store, busy, &done)).await;
        };
        let died = Cell::new(false);
        let stop = || {
            let due = victim.filter(|_| self.env.writes_issued() >= dies_at && !died.replace(true));
            if let Some(drive) = due {
                self.disks[drive].set_failed(true);
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
                self.disks[at] = Disk::new(format!("d{at}"), size, align, seed);
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

    /// The machine stops; with it, perhaps, drives. What was being written then may be anything
    /// where a chunk is known by parity only.
    pub fn die(&mut self, pulled: bool) {
        self.env.crash();
        let power = self.rng.chance(3, 4);
        if power {
            let modes = [CutMode::DropAll, CutMode::KeepAll, CutMode::Random, CutMode::Random];
            let mode = modes[self.rng.index(modes.len())];
            let mut fate = Rng::new(self.rng.next_u64());
            self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, mode));
        }
        let filling = self.subject.was_filling();
        let mut lost = self.disks.iter().any(Disk::is_failed) || pulled || filling;
        for _ in 0..2 {
            if let Some(drive) = self.draw_victim().filter(|_| self.rng.chance(1, 3)) {
                self.unplugged[drive] = true;
                lost = true;
            }
        }
        let by_parity = self.subject.by_parity();
        let mut oracle = self.oracle.borrow_mut();
        let torn: Vec<u64> = oracle
            .sectors
            .iter()
            .filter(|(_, expected)| expected.in_flight)
            .map(|(sector, _)| *sector)
            .collect();
        if lost && by_parity {
            // Drives take whole units: a sector beside is being written with the same bytes.
            let unit = u64::from(self.disks[0].geometry().align) / SECTOR;
            for sector in torn {
                let first = (self.base + sector) / unit * unit;
                for beside in first..first + unit {
                    if let Some(own) = beside.checked_sub(self.base).filter(|own| *own < SPAN) {
                        oracle.of(own).may_be.clear();
                    }
                }
            }
        }
        oracle.sectors.values_mut().for_each(|expected| expected.in_flight = false);
    }

    /// Everything is as promised; what was read is the truth from now on.
    pub fn check(&mut self) {
        let store = self.env.block_on(self.open()).unwrap_or_else(|error| panic!("open: {error}"));
        let read = self.env.block_on(store.read(self.base * SECTOR, SPAN * SECTOR));
        let read = read.unwrap_or_else(|error| panic!("read: {error}"));
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
                STRANGE.with(|found| found.borrow_mut().insert(sector, bytes.to_vec()));
                expected.may_be = vec![strange(sector)];
            } else {
                panic!(
                    "sector {sector} holds write {found}, not one of {:?}; lost {:?}",
                    expected.may_be,
                    store.lost()
                );
            }
        }
        self.audit(&store);
        drop(oracle);
        // Not closed: what recovery did must be durable by itself.
        self.env.crash();
        self.disks.iter().for_each(|disk| disk.power_cut(&mut self.rng, CutMode::DropAll));
    }

    /// Every stripe of the part that is used agrees with its parity, or its copies; maps with what
    /// they map.
    pub fn audit(&self, store: &S::Store) {
        let wrong = self.env.block_on(store.audit(self.base * SECTOR, SPAN * SECTOR));
        assert_eq!(wrong, Vec::<String>::new());
    }
}

thread_local! {
    static STRANGE: RefCell<BTreeMap<u64, Vec<u8>>> = RefCell::default();
}

fn settle(expected: &mut Expected) {
    let newest = *expected.may_be.last().expect("it holds something");
    *expected = Expected { may_be: vec![newest], in_flight: false };
}

pub struct Client<T> {
    number: u64,
    base: u64,
    store: T,
    oracle: Rc<RefCell<Oracle>>,
    rng: RefCell<Rng>,
}

impl<T: Store> Client<T> {
    pub async fn work(&self, requests: usize) {
        for _ in 0..requests {
            let kind = self.rng.borrow_mut().below(10);
            match kind {
                0..6 => self.write(kind == 0).await,
                6..9 => self.read().await,
                _ => self.flush().await,
            }
        }
    }

    /// Some of the sectors in a row that are ours.
    fn draw(&self) -> (u64, u64) {
        let mut rng = self.rng.borrow_mut();
        let (first, len) = if rng.chance(1, 4) {
            (MIXED + self.number * LONG, LONG)
        } else {
            let rows = MIXED / (SHORT * CLIENTS);
            ((rng.below(rows) * CLIENTS + self.number) * SHORT, SHORT)
        };
        let start = rng.below(len);
        (first + start, 1 + rng.below(len - start))
    }

    async fn write(&self, fua: bool) {
        let (first, count) = self.draw();
        let number = {
            let mut oracle = self.oracle.borrow_mut();
            oracle.next += 1;
            let number = oracle.next;
            for sector in first..first + count {
                let expected = oracle.of(sector);
                expected.may_be.push(number);
                expected.in_flight = true;
            }
            number
        };
        let mut data = BufMut::with_len((count * SECTOR) as usize);
        for (at, sector) in (first..first + count).enumerate() {
            data[at * SECTOR as usize..][..SECTOR as usize]
                .copy_from_slice(&content(sector, number));
        }
        let offset = (self.base + first) * SECTOR;
        let done = self.store.write(offset, data.freeze(), fua).await;
        done.unwrap_or_else(|error| panic!("write: {error}"));
        let mut oracle = self.oracle.borrow_mut();
        for sector in first..first + count {
            let expected = oracle.of(sector);
            expected.in_flight = false;
            if fua {
                settle(expected);
            }
        }
    }

    async fn read(&self) {
        let (first, count) = self.draw();
        let read = self.store.read((self.base + first) * SECTOR, count * SECTOR).await;
        let read = read.unwrap_or_else(|error| panic!("read: {error}"));
        for (sector, bytes) in (first..).zip(read.chunks_exact(SECTOR as usize)) {
            let expected = self.oracle.borrow_mut().of(sector).clone();
            let newest = *expected.may_be.last().expect("it holds something");
            assert!(content(sector, newest) == bytes, "sector {sector} is not what it was");
        }
    }

    pub async fn flush(&self) {
        let before: Vec<(u64, u64)> = {
            let oracle = self.oracle.borrow();
            let done = oracle.sectors.iter().filter(|(_, expected)| !expected.in_flight);
            let newest = |(sector, expected): (&u64, &Expected)| {
                (*sector, *expected.may_be.last().expect("it holds something"))
            };
            done.map(newest).collect()
        };
        self.store.flush().await.unwrap_or_else(|error| panic!("flush: {error}"));
        let mut oracle = self.oracle.borrow_mut();
        for (sector, write) in before {
            let expected = oracle.of(sector);
            // Flushed by somebody else already, with something newer.
            let at = expected.may_be.iter().position(|may_be| *may_be == write);
            expected.may_be.drain(..at.unwrap_or(0));
        }
    }
}

/// Worlds of each scheme; more with SCHEME_SEEDS.
const SEEDS: u64 = 200;

pub fn battery(subject: impl Subject) {
    battery_of(subject, SEEDS);
}

/// Of a variant of a scheme that has its 200 worlds already.
pub fn battery_variant(subject: impl Subject) {
    battery_of(subject, SEEDS / 4);
}

fn battery_of(subject: impl Subject, seeds: u64) {
    let asked = std::env::var("SCHEME_SEEDS").ok();
    let seeds = asked.map_or(seeds, |count| count.parse().expect("SCHEME_SEEDS is a number"));
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one(subject, seed)));
        if let Err(panic) = run {
            eprintln!("{} fails with seed {seed}", subject.name());
            std::panic::resume_unwind(panic);
        }
    }
}

/// As many worlds of a kind, or SCHEME_SEEDS. How many there were.
pub fn worlds<S: Subject>(subject: S, seeds: u64, world: impl Fn(World<S>)) -> u64 {
    let asked = std::env::var("SCHEME_SEEDS").ok();
    let seeds = asked.map_or(seeds, |count| count.parse().expect("SCHEME_SEEDS is a number"));
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            forget_strange();
            let mut made = World::new(subject, seed);
            made.make();
            world(made);
        }));
        if let Err(panic) = run {
            eprintln!("{} fails with seed {seed}", subject.name());
            std::panic::resume_unwind(panic);
        }
    }
    seeds
}

/// One world, to its end.
pub fn one(subject: impl Subject, seed: u64) {
    forget_strange();
    let mut world = World::new(subject, seed);
    world.make();
    for _ in 0..4 {
        let limit = 1 + world.rng.below(400);
        if world.session(limit) {
            world.die(false);
        }
        world.check();
        world.check();
    }
}

pub fn forget_strange() {
    STRANGE.with(|strange| strange.borrow_mut().clear());
}

impl<S: Subject> World<S> {
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
