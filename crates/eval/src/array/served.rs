//! A scheme over the world's drives, driven as a served pool drives it (`schemes::pool`): its
//! background work beside requests, flushes nobody asked for, its signal of slow drives. There are
//! no volumes: requests go to the store itself.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use io::sync::Event;
use io::virt::{VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos, join_all};
use schemes::any::AnyStore;
use schemes::part::{Part, PartEnv, on_parts};
use schemes::pool;
use schemes::scheme::{CHUNK_DEFAULT, OpenOptions, Scheme, hybrid};
use schemes::store::{Counters, Replace, Store, StoreError};
use schemes::watch::{self, Watch};

use super::layout::{Variant, lay_out};
use super::prepare::settle;
use super::world::World;
use super::{Answer, Array};

/// How much of a store is used, whether it is written before anything is measured, and how many
/// of the drives, the last ones, stand by.
#[derive(Clone, Debug)]
pub struct Filling {
    pub percent: u64,
    pub filled: bool,
    pub spares: usize,
    pub variant: Variant,
    /// Of `hybrid`: when a write takes its stripe to the other tier, if not as it proposes.
    pub online_threshold: Option<u8>,
    /// It is written in pieces of so many bytes, over and over; of none: in large whole stripes.
    pub pieces: Rc<[u64]>,
}

/// How fast a new drive is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// As the product does: beside requests it rests most of the time.
    Product,
    /// As md does: one piece after the other, whatever else comes, and no more than so many bytes
    /// of the drive a second (`sync_speed_max`). What `sync_speed_min` asks for it always has, if
    /// the drives can do it: since Linux 4.2 resync is not held back beside requests, but lets
    /// what it has begun come to its end first.
    AtMost(u64),
}

/// How a scheme that steers learns which drives are slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// By the product's own signal.
    Watched,
    /// By somebody else, who calls [`Served::steer`].
    Elsewhere,
}

struct Inner {
    env: VirtEnv,
    store: AnyStore<PartEnv<VirtEnv>>,
    parts: Vec<Part>,
    /// Bytes used, and in how many parts of the store they lie, from the beginning of each.
    size: u64,
    regions: u64,
    /// Bytes of the drives for each that the store offers.
    space: f64,
    chunk: u64,
    /// How many drives could be lost when it was opened.
    margin: usize,
    last_request: Cell<Nanos>,
    last_write: Cell<Option<Nanos>>,
    speed: Cell<Speed>,
    stopping: Cell<bool>,
    /// Tasks that still run.
    tasks: Cell<usize>,
    stopped: Event,
    trouble: RefCell<Option<String>>,
}

/// A handle on a served scheme; clones name the same.
#[derive(Clone)]
pub struct Served {
    inner: Rc<Inner>,
}

impl Served {
    /// Makes the scheme on the world's drives, which hold zeroes so that nothing needs to be
    /// synchronized, fills what will be used, and closes it when it has settled.
    pub async fn make(world: &World, scheme: Scheme, filling: Filling) -> Result<(), String> {
        let mut drives = world.drives();
        drives.truncate(drives.len() - filling.spares);
        let sizes: Vec<u64> = drives.iter().map(|drive| io::Drive::geometry(drive).size).collect();
        let (spec, used) = lay_out(&world.env, scheme, &sizes, filling.variant).await?;
        let parts: Vec<_> =
            drives.into_iter().take(used).map(|drive| Part::whole(drive).zeroed()).collect();
        let inside = on_parts(&world.env);
        match filling.online_threshold.filter(|_| scheme == Scheme::Hybrid) {
            Some(online_threshold) => {
                let own = hybrid::Spec::proposed(&spec.name, used, spec.chunk);
                let own = own.map_err(|error| error.to_string())?;
                let tuning = hybrid::Tuning { online_threshold, ..own.tuning };
                hybrid::create(&inside, &parts, &hybrid::Spec { tuning, ..own }).await
            }
            None => spec.create(&inside, &parts).await,
        }
        .map_err(|error| error.to_string())?;
        let (filled, pieces) = (filling.filled, filling.pieces.clone());
        let served = Served::open(world, OpenOptions::default(), Told::Watched, filling).await;
        assert_eq!(served.inner.store.owed(), 0, "{}: drives of zeroes agree", scheme.name());
        if filled {
            served.fill(&pieces).await;
        }
        settle(world).await.map_err(|error| format!("{}: {error}", scheme.name()))?;
        served.close().await;
        settle(world).await?;
        Ok(())
    }

    /// What was made on the world's drives.
    pub async fn open(world: &World, options: OpenOptions, told: Told, filling: Filling) -> Served {
        let env = world.env.clone();
        let part = |drive| Part::whole(drive).watched(Watch::new(&env));
        // Those without a label are spares.
        let mut parts = Vec::new();
        for part in world.drives().into_iter().map(part) {
            if classical::label::read(&part).await.is_some() {
                parts.push(part);
            }
        }
        let inside = on_parts(&env);
        let store = AnyStore::open(&inside, parts.clone(), options).await.expect("it opens");
        let step = fill_step(&store);
        // Of each part that shares no drives with the others.
        let regions = store.regions();
        let size = store.size() / regions * filling.percent / 100 / step * step * regions;
        let raw: u64 = parts.iter().map(|part| io::Drive::geometry(part).size).sum();
        let inner = Inner {
            space: raw as f64 / store.size() as f64,
            chunk: filling.variant.chunk.unwrap_or(CHUNK_DEFAULT),
            margin: store.margin(),
            store,
            parts,
            size,
            regions,
            last_request: Cell::new(env.now()),
            last_write: Cell::new(None),
            speed: Cell::new(Speed::Product),
            stopping: Cell::new(false),
            tasks: Cell::new(0),
            stopped: Event::new(),
            trouble: RefCell::default(),
            env,
        };
        let served = Served { inner: Rc::new(inner) };
        served.begin(Inner::background);
        served.begin(Inner::watch);
        if told == Told::Watched && served.inner.store.steers() {
            served.begin(Inner::steer);
        }
        served
    }

    fn begin<F: Future<Output = ()> + 'static>(&self, task: impl FnOnce(Rc<Inner>) -> F) {
        self.inner.tasks.set(self.inner.tasks.get() + 1);
        let (inner, task) = (self.inner.clone(), task(self.inner.clone()));
        self.inner.env.spawn(async move {
            task.await;
            inner.tasks.set(inner.tasks.get() - 1);
            inner.stopped.notify_all();
        });
    }

    /// Behind a pointer, as [`Stand::open`](super::stand::Stand::open) is.
    pub fn close(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(async {
            self.inner.stopping.set(true);
            while self.inner.tasks.get() > 0 {
                self.inner.stopped.wait().await;
            }
            self.inner.store.close().await.expect("it closes");
        })
    }

    pub fn shape(&self) -> String {
        self.inner.store.shape()
    }

    pub fn counters(&self) -> Counters {
        self.inner.store.counters()
    }

    pub fn unit(&self) -> u64 {
        self.inner.store.unit()
    }

    /// Bytes of the drives for each that it offers.
    pub fn space(&self) -> f64 {
        self.inner.space
    }

    /// Drives it uses: the world's first.
    pub fn drives(&self) -> usize {
        self.inner.parts.len()
    }

    /// Tells the scheme that a drive is slow, or quick again.
    pub fn steer(&self, drive: usize, slow: bool) {
        self.inner.store.steer(drive, slow);
    }

    /// How many drives may still die before data is lost, whichever they are.
    pub fn margin(&self) -> usize {
        self.inner.store.margin()
    }

    /// Bytes that new drives still lack, or the staging space in a lost one's place.
    pub fn lacking(&self) -> u64 {
        self.inner.lacking()
    }

    /// The drive is lost. What becomes of it elsewhere is done this fast.
    pub async fn write_off(&self, place: usize, speed: Speed) -> Result<(), StoreError> {
        self.inner.speed.set(speed);
        self.inner.store.write_off(place).await
    }

    /// Another drive takes a lost one's place.
    pub async fn replace(&self, place: usize, new: VirtDrive) -> Result<(), StoreError> {
        let new = Part::whole(new).watched(Watch::new(&self.inner.env));
        self.inner.store.replace(place, new).await
    }

    /// Why background work fails, if it does.
    pub fn trouble(&self) -> Option<String> {
        self.inner.trouble.borrow().clone()
    }

    /// Writes all that will be used, from the beginning to the end, so many pieces at once, and
    /// waits until nothing is left to do in the background.
    async fn fill(&self, pieces: &[u64]) {
        const AT_ONCE: usize = 4;
        /// A scheme that goes on for so long has always something to do.
        const QUIET_MAX: Nanos = Nanos::from_secs(120);
        let inner = &self.inner;
        let whole = [fill_step(&inner.store)];
        let pieces = if pieces.is_empty() { &whole } else { pieces };
        let zeroes = Buf::zeroed(pieces.iter().copied().max().unwrap_or(0) as usize);
        let (mut at, mut lens) = (0, pieces.iter().cycle());
        while at < inner.size {
            let mut writes = Vec::with_capacity(AT_ONCE);
            for len in lens.by_ref().take(AT_ONCE) {
                let len = (*len).min(inner.size - at);
                if len > 0 {
                    writes.push(self.write(at, zeroes.slice(0..len as usize)));
                }
                at += len;
            }
            for done in join_all(writes).await {
                done.expect("there is room");
            }
        }
        let until = inner.env.now() + QUIET_MAX;
        while inner.env.now() < until && inner.store.work().await.expect("it works") {}
    }
}

/// Whole stripes, a quarter of a mebibyte at least.
fn fill_step(store: &impl Store) -> u64 {
    (256_u64 << 10).next_multiple_of(store.unit())
}

impl Inner {
    fn lacking(&self) -> u64 {
        let new = self.store.restoring();
        match new.is_empty() {
            true => self.unspared(),
            false => new.iter().map(|drive| drive.left).sum(),
        }
    }

    /// Bytes of a lost drive without a new one that `steering` has not put into the staging space
    /// of the others. Of the first one since it was opened: what it counts, it counts from there.
    fn unspared(&self) -> u64 {
        if !self.store.steers() || self.store.margin() >= self.margin {
            return 0;
        }
        let rows = self.store.size() / self.store.unit();
        let counters = self.store.counters();
        let rebuilt = counters.iter().find(|(name, _)| *name == "rebuilt_rows");
        rows.saturating_sub(rebuilt.map_or(0, |(_, rows)| *rows)) * self.chunk
    }

    async fn background(self: Rc<Self>) {
        // When filling began that goes on now, and what was lacking then.
        let mut filling: Option<(Nanos, u64)> = None;
        while !self.stopping.get() {
            let began = self.env.now();
            filling = match self.lacking() {
                0 => None,
                lacking => filling.or(Some((began, lacking))),
            };
            let worked = self.store.work().await;
            let now = self.env.now();
            let is_busy = self.last_request.get() + pool::BUSY > now;
            let mut rest = pool::rest(&worked, now.saturating_sub(began), is_busy);
            if let (Ok(true), Some((since, lacking)), Speed::AtMost(limit)) =
                (&worked, filling, self.speed.get())
            {
                let done = u128::from(lacking.saturating_sub(self.lacking()));
                let until = since + Nanos((done * 1_000_000_000 / u128::from(limit)) as u64);
                rest = until.saturating_sub(now);
            }
            if let Err(error) = worked {
                self.trouble.replace(Some(error.to_string()));
            }
            match rest {
                Nanos::ZERO => self.env.yield_now().await,
                rest => self.env.sleep_until(now + rest).await,
            }
        }
    }

    /// Flushes what nobody flushes.
    async fn watch(self: Rc<Self>) {
        while !self.stopping.get() {
            self.env.sleep_until(self.env.now() + pool::LOOK).await;
            let idle = self.last_write.get().is_some_and(|at| at + pool::WATCH <= self.env.now());
            if idle {
                self.last_write.set(None);
                if let Err(error) = self.store.flush().await {
                    self.trouble.replace(Some(error.to_string()));
                }
            }
        }
    }

    async fn steer(self: Rc<Self>) {
        let mut slow = vec![false; self.parts.len()];
        while !self.stopping.get() {
            self.env.sleep_until(self.env.now() + watch::EVERY).await;
            for (at, part) in self.parts.iter().enumerate() {
                let now = part.is_slow();
                if now != slow[at] {
                    slow[at] = now;
                    self.store.steer(at, now);
                }
            }
        }
    }

    fn requested(&self) {
        self.last_request.set(self.env.now());
    }

    async fn write(&self, offset: u64, data: Buf, durably: bool) -> Result<(), String> {
        self.requested();
        self.last_write.set(Some(self.env.now()));
        let mut from = 0;
        let places = self.places(offset, data.len() as u64);
        let writes = places.into_iter().map(|(at, len)| {
            let part = data.slice(from..from + len as usize);
            from += len as usize;
            self.store.write(at, part, durably)
        });
        let done: Result<Vec<()>, _> = join_all(writes).await.into_iter().collect();
        done.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Where a range lies in the store: places, and bytes at each.
    fn places(&self, offset: u64, len: u64) -> Vec<(u64, u64)> {
        let (used, whole) = (self.size / self.regions, self.store.size() / self.regions);
        let (mut at, mut places) = (offset, Vec::with_capacity(1));
        while at < offset + len {
            let here = (used - at % used).min(offset + len - at);
            places.push((at / used * whole + at % used, here));
            at += here;
        }
        places
    }
}

impl Array for Served {
    fn size(&self) -> u64 {
        self.inner.size
    }

    fn read(&self, offset: u64, len: u64) -> Answer<'_, Vec<Buf>> {
        Box::pin(async move {
            self.inner.requested();
            let places = self.inner.places(offset, len);
            let reads = places.iter().map(|&(at, len)| self.inner.store.read(at, len));
            let done: Result<Vec<Buf>, _> = join_all(reads).await.into_iter().collect();
            done.map_err(|error| error.to_string())
        })
    }

    fn write(&self, offset: u64, data: Buf) -> Answer<'_> {
        Box::pin(self.inner.write(offset, data, false))
    }

    fn write_durably(&self, offset: u64, data: Buf) -> Answer<'_> {
        Box::pin(self.inner.write(offset, data, true))
    }

    fn flush(&self) -> Answer<'_> {
        Box::pin(async move { self.inner.store.flush().await.map_err(|error| error.to_string()) })
    }
}
