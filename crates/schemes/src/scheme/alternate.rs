//! `alternate`: read/write separation, two replicas that take turns.
//!
//! Idea: a drive that is being written to reads slowly, whatever the drive. So one of two replicas
//! only reads while the other only writes, and after a while they change places. New writes wait in
//! memory for the replica that writes; reads of what is still there are answered from memory. A
//! replica is one drive (as in RAID1), several (as in RAID10), or a parity array.
//!
//! ```text
//!              write ──► cache (memory) ─── at FLUSH, FUA: log of both replicas
//!                          │        ╲
//!            this window   ▼         ╲ next window, after the roles have changed
//!   replica B writes [log][ new ]     ╲►  replica A reads [log][ old ] ──► reads
//! ```
//!
//! Durable at acknowledgement (FUA or after FLUSH): the data in a log on each living replica, or in
//! its place there. The paper has a cache that survives power loss, or none of this; here a FLUSH
//! also writes to the replica that reads, sequentially, and that much of the separation is lost:
//! how much depends on how often somebody flushes. Without FLUSH only the one that writes is
//! written to. Before anything is brought to its place, what will change is noted in the log; after
//! a crash the replica that was reading is right, and is copied to the other one there.
//! One failure: nothing is lost. The other replica reads and writes, as any drive does; the one
//! that failed is stale as a whole from then on (it can't be brought back yet).
//! Two failures: nothing is lost if one of the replicas is whole, or, of parity, readable.
//! Device writes per user write: of n bytes to each replica, in its turn, n; a record of 8 KiB for
//! a batch of up to 64 writes, a page of 4 KiB when the roles change, and another one for a batch
//! that was flushed before. With FLUSH or FUA also n + 4 KiB to each log. What is overwritten while
//! it waits is written once. No reads but for parts of a drive's unit. Of parity as many as a write
//! of the array takes, everything is logged as if it were flushed, and 8 KiB for each end of a run
//! that lies within a page.
//! Source: Skourtis, Scott, Brandt, Maltzahn, High Performance & Low Latency in Solid-State Drives
//! Through Redundancy (the design, figure 1). The log is ours: the paper says nothing of FLUSH.

pub mod cache;
pub mod page;
mod recover;
mod replica;
pub mod roles;
mod turns;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use classical::{Array, CreateSpec, OpenOptions, Redundancy};
use format::SCHEME_ALTERNATE;
use futures_util::future::join_all;
use io::sync::Turn;
use io::{Buf, BufMut, Env, Nanos};

pub use self::cache::CACHE_MIN;
use self::cache::{Cache, ENTRY_MAX};
use self::page::Page;
use self::recover::Recovered;
use self::replica::{Replica, log_bytes, page_place};
use self::roles::Roles;
use self::turns::Turned;
use crate::log::Log;
use crate::log::record::PAGE;
use crate::part::PartEnv;
use crate::set::{Set, SetSpec};
use crate::store::{Counters, Store, StoreError, check_range};

const SIDES: [usize; 2] = [0, 1];
/// The paper does not say; long enough that an SSD is through with what its last writes left it to
/// do, short enough that seconds of writes fit into memory.
const T_MIN: Nanos = Nanos::from_millis(500);
/// Writes of two windows of an SSD at 64 MiB/s.
pub const CACHE: u64 = 64 << 20;
/// Most that may wait in memory.
const CACHE_MAX: u64 = 4 << 30;

/// What a pool is to be like.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    /// Drives of one replica; there are two.
    pub drives: usize,
    /// Parity chunks of a stripe of a replica, 0 for none.
    pub parity: usize,
    pub chunk: u64,
    /// Bytes of writes that wait, with what they take in a log.
    pub cache: u64,
}

impl Spec {
    pub fn new(name: &str, drives: usize) -> Spec {
        Spec { name: name.to_owned(), drives, parity: 0, chunk: 64 << 10, cache: CACHE }
    }

    fn check(&self, drives: usize) -> Result<(), StoreError> {
        let shape = |what: String, hint| Err(StoreError::Shape { what, hint });
        if self.parity > 2 {
            return shape(format!("{} parities", self.parity), "use 0, 1 or 2");
        }
        if drives == 0 || drives != 2 * self.drives {
            let what = format!("{drives} drives for two replicas of {}", self.drives);
            return shape(what, "give as many drives to one replica as to the other");
        }
        if !(CACHE_MIN..=CACHE_MAX).contains(&self.cache) {
            return shape(format!("a cache of {} bytes", self.cache), "use 368 KiB to 4 GiB");
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub arrays: OpenOptions,
    /// Shortest time between two changes of roles.
    pub t_min: Nanos,
}

impl Default for Options {
    fn default() -> Options {
        Options { arrays: OpenOptions::default(), t_min: T_MIN }
    }
}

/// What a researcher wants to see.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    switches: u64,
    batches: u64,
    applied_entries: u64,
    skipped_bytes: u64,
    cache_reads: u64,
    reader_reads: u64,
    writer_reads: u64,
    second_reads: u64,
    cache_waits: u64,
    log_bytes: u64,
    log_frees: u64,
    log_full: u64,
    losses: u64,
    replayed_entries: u64,
    copied_bytes: u64,
}

struct Inner<E: Env> {
    env: PartEnv<E>,
    /// `None`: not there, or stale, when the pool was opened.
    replicas: [Option<Replica<E>>; 2],
    drives: usize,
    by_parity: bool,
    /// Where data begins on each replica, and how much there is.
    base: u64,
    size: u64,
    alive: Cell<[bool; 2]>,
    /// As the page of the one that is left says.
    recorded: Cell<[bool; 2]>,
    /// Every entry up to here is in place on this replica, durably.
    applied: Cell<[u64; 2]>,
    roles: RefCell<Roles>,
    cache: RefCell<Cache>,
    sequence: Cell<u64>,
    window: Cell<u64>,
    next_read: Cell<usize>,
    /// Who brings something to its place, or changes roles.
    turn: Turn,
    page_turn: Turn,
    /// Writers that wait for room, in order.
    room_turn: Turn,
    seen: RefCell<Seen>,
}

/// A handle on an open pool; clones name the same.
pub struct Alternate<E: Env> {
    inner: Rc<Inner<E>>,
}

impl<E: Env> Clone for Alternate<E> {
    fn clone(&self) -> Alternate<E> {
        Alternate { inner: self.inner.clone() }
    }
}

/// Where data begins in an array of so many bytes, and how much of it there is.
fn divide(size: u64, cache: u64) -> Result<(u64, u64), StoreError> {
    let base = log_bytes(cache);
    let least = base + 3 * PAGE;
    match page_place(size.max(least), 1).checked_sub(base) {
        Some(data) if size >= least => Ok((base, data)),
        _ => Err(StoreError::Small { size, least }),
    }
}

/// Makes a pool: the drives of one replica, then those of the other. What is on them is gone. Bytes
/// that were never written may read differently from time to time: the replicas are not made equal.
pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    spec.check(drives.len())?;
    let named = SetSpec {
        name: spec.name.clone(),
        scheme: SCHEME_ALTERNATE,
        split: spec.drives,
        chunk: spec.chunk,
        side: 0,
    };
    let set = Set::plan(env, drives, &named)?;
    let env = PartEnv::new(env.clone());
    let redundancy = Redundancy::Parity(spec.parity);
    let (name, width, chunk) = (spec.name.clone(), spec.drives, spec.chunk);
    let array = CreateSpec { name, redundancy, width, chunk };
    for side in SIDES {
        let parts = set.first(side * width..(side + 1) * width);
        let grid = classical::array::create(&env, &parts, &array).await?;
        let (base, _) = divide(grid.size(), spec.cache)?;
        let array = Array::open(&env, parts, OpenOptions::default()).await?;
        Log::create(&array, set.label.pool, base).await?;
        let (sequence, window) = (side as u64, side as u64);
        let page = Page { sequence, window, replay: 0, cache: spec.cache, current: [true; 2] };
        let page = Buf::from_slice(&page.encode(&set.label.pool));
        for place in SIDES {
            array.write(page_place(array.size(), place as u64), page.clone(), true).await?;
        }
        array.close().await?;
    }
    set.write_labels().await
}

impl<E: Env> Alternate<E> {
    /// Opens a pool. One of the replicas may be missing, or stale: it is lost then.
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: Options,
    ) -> Result<Alternate<E>, StoreError> {
        let set = Set::open(drives).await?;
        let width = usize::from(set.label.group);
        if set.label.scheme != SCHEME_ALTERNATE || 2 * width != set.len() {
            return Err(StoreError::NoLabel);
        }
        let (env, pool) = (PartEnv::new(env.clone()), set.label.pool);
        let first = recover::find(&env, &pool, set.first(0..width), options.arrays).await?;
        let second =
            recover::find(&env, &pool, set.first(width..2 * width), options.arrays).await?;
        let found = recover::recover([first, second], pool).await?;
        let Recovered { replicas, writer, sequence, window, base, size, cache, .. } = found;
        let alive = replicas.each_ref().map(Option::is_some);
        let grid = replicas.iter().flatten().next().expect("one is there").array.grid();
        let seen = Seen {
            replayed_entries: found.replayed,
            copied_bytes: found.copied,
            ..Seen::default()
        };
        let inner = Inner {
            roles: RefCell::new(Roles::new(writer, env.now(), options.t_min)),
            env,
            replicas,
            drives: width,
            by_parity: grid.parity() > 0,
            base,
            size,
            alive: Cell::new(alive),
            recorded: Cell::new([true; 2]),
            applied: Cell::new([0; 2]),
            cache: RefCell::new(Cache::new(cache, grid.parity() > 0)),
            sequence: Cell::new(sequence),
            window: Cell::new(window),
            next_read: Cell::new(0),
            turn: Turn::new(),
            page_turn: Turn::new(),
            room_turn: Turn::new(),
            seen: RefCell::new(seen),
        };
        let opened = Alternate { inner: Rc::new(inner) };
        opened.inner.begin(writer).await?;
        opened.inner.see(|seen| seen.switches = 0);
        Ok(opened)
    }
}

impl<E: Env> Inner<E> {
    fn see(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.seen.borrow_mut());
    }

    /// The first window. A replica that is lost must be known to be before the log of the other,
    /// which says where they differ, is emptied.
    async fn begin(&self, writer: usize) -> Result<(), StoreError> {
        self.record_losses().await?;
        self.trim(true).await?;
        let writer = if self.alive.get()[writer] { writer } else { 1 - writer };
        if let Err(error) = self.switch(writer).await {
            self.lose(writer, error)?;
        }
        self.record_losses().await
    }

    /// Waits until it is in the cache. Who waits does what is needed to make room.
    async fn cache(&self, offset: u64, data: &Buf) -> Result<(), StoreError> {
        let _turn = self.room_turn.lock().await;
        let mut waited = false;
        while !self.cache.borrow_mut().put(offset, data) {
            waited = true;
            self.turn_or_wait().await?;
        }
        self.see(|seen| seen.cache_waits += u64::from(waited));
        Ok(())
    }

    /// Who is asked first: the one that reads; both in turn while there is nothing to write.
    fn readers(&self) -> [usize; 2] {
        let reader = 1 - self.roles.borrow().writer();
        let turn = self.next_read.replace(1 - self.next_read.get());
        let first = match self.alive.get() {
            [true, true] if self.is_idle() => turn,
            [true, true] => reader,
            [first, _] => usize::from(!first),
        };
        [first, 1 - first]
    }

    /// Bytes of the replicas. The range is not in the cache: both have it.
    async fn read_place(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        let mut failed = StoreError::NoLabel;
        for (tried, side) in self.readers().into_iter().enumerate() {
            if !self.alive.get()[side] {
                continue;
            }
            let writes = self.roles.borrow().writer() == side;
            match self.replica(side).array.read(self.base + offset, len).await {
                Ok(bytes) => {
                    self.see(|seen| {
                        seen.writer_reads += u64::from(writes);
                        seen.reader_reads += u64::from(!writes);
                        seen.second_reads += tried as u64;
                    });
                    return Ok(bytes);
                }
                Err(error) => failed = error.into(),
            }
        }
        Err(failed)
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        // As it is now: what leaves the cache meanwhile is on both replicas, but newer bytes may
        // come to one of them.
        let cached = self.cache.borrow().find(offset..offset + len);
        let mut whole = BufMut::with_len(len as usize);
        let (mut at, mut gaps) = (offset, Vec::new());
        for (start, bytes) in &cached {
            gaps.extend((at < *start).then_some((at, start - at)));
            at = start + bytes.len() as u64;
            whole[(start - offset) as usize..(at - offset) as usize].copy_from_slice(bytes);
        }
        gaps.extend((at < offset + len).then_some((at, offset + len - at)));
        self.see(|seen| seen.cache_reads += u64::from(!cached.is_empty()));
        let reads = gaps.iter().map(|(at, len)| self.read_place(*at, *len));
        for ((at, len), bytes) in gaps.iter().zip(join_all(reads).await) {
            let at = (at - offset) as usize;
            whole[at..at + *len as usize].copy_from_slice(&bytes?);
        }
        Ok(whole.freeze())
    }

    /// The paper's invariant: the cache with either replica is all data.
    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let mut wrong = self.cache.borrow().audit();
        let cached = self.cache.borrow().find(offset..offset + len);
        let mut views: Vec<Vec<u8>> = Vec::new();
        for (_, replica) in self.living() {
            let own = replica.array.disagreeing(self.base + offset, len).await;
            wrong.extend(own.iter().map(|stripe| format!("stripe {stripe}: its drives disagree")));
            // One whose drives fail is lost when it is written to.
            let Ok(bytes) = replica.array.read(self.base + offset, len).await else { continue };
            let mut bytes = bytes.to_vec();
            for (start, own) in &cached {
                bytes[(start - offset) as usize..][..own.len()].copy_from_slice(own);
            }
            views.push(bytes);
        }
        if let [first, second] = &views[..] {
            let pairs = first.iter().zip(second).zip(offset..);
            let differ = pairs.filter(|((first, second), _)| first != second);
            if let Some((_, at)) = { differ }.next() {
                wrong.push(format!("the replicas differ at {at}, beside what is in the cache"));
            }
        }
        wrong
    }
}

impl<E: Env> Store for Alternate<E> {
    fn size(&self) -> u64 {
        self.inner.size
    }

    fn unit(&self) -> u64 {
        let (_, replica) = self.inner.living().next().expect("one is always alive");
        replica.array.grid().stripe_bytes()
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        check_range(offset, len, self.size())?;
        self.inner.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        let len = data.len() as u64;
        check_range(offset, len, self.size())?;
        for at in (0..len).step_by(ENTRY_MAX as usize) {
            let part = data.slice(at as usize..(at + ENTRY_MAX).min(len) as usize);
            self.inner.cache(offset + at, &part).await?;
        }
        if fua { self.flush().await } else { Ok(()) }
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let newest = self.inner.cache.borrow().newest();
        self.inner.make_durable(newest).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        while self.inner.turn(true).await? != Turned::Rest {}
        self.inner.trim(true).await?;
        for side in SIDES.into_iter().filter(|side| self.inner.alive.get()[*side]) {
            if let Err(error) = self.inner.replica(side).array.clone().close().await {
                self.inner.lose(side, error.into())?;
            }
        }
        self.inner.record_losses().await
    }

    async fn work(&self) -> Result<bool, StoreError> {
        if self.inner.turn(false).await? == Turned::Worked {
            return Ok(true);
        }
        let mut worked = false;
        for side in SIDES.into_iter().filter(|side| self.inner.alive.get()[*side]) {
            match self.inner.replica(side).array.resync().await {
                Ok(more) => worked |= more,
                Err(error) => self.inner.lose(side, error.into())?,
            }
        }
        self.inner.record_losses().await?;
        Ok(worked)
    }

    fn owed(&self) -> u64 {
        self.inner.living().map(|(_, replica)| replica.array.owed_stripes().0).sum()
    }

    fn lost(&self) -> Vec<usize> {
        let (inner, width) = (&self.inner, self.inner.drives);
        let lost = SIDES.into_iter().flat_map(|side| {
            let own = match inner.alive.get()[side] {
                true => inner.replica(side).array.lost(),
                false => (0..width).collect(),
            };
            own.into_iter().map(move |drive| side * width + drive)
        });
        lost.collect()
    }

    fn margin(&self) -> usize {
        // One more than a replica bears ends it.
        let ends = self.inner.living().map(|(_, replica)| Store::margin(&replica.array) + 1);
        ends.sum::<usize>() - 1
    }

    fn shape(&self) -> String {
        let (_, replica) = self.inner.living().next().expect("one is always alive");
        format!("two replicas in turn, each {}", replica.array.grid())
    }

    fn counters(&self) -> Counters {
        let seen = *self.inner.seen.borrow();
        vec![
            ("switches", seen.switches),
            ("cached_bytes", self.inner.cache.borrow().bytes()),
            ("batches", seen.batches),
            ("applied_entries", seen.applied_entries),
            ("skipped_bytes", seen.skipped_bytes),
            ("cache_reads", seen.cache_reads),
            ("reader_reads", seen.reader_reads),
            ("writer_reads", seen.writer_reads),
            ("second_reads", seen.second_reads),
            ("cache_waits", seen.cache_waits),
            ("log_bytes", seen.log_bytes),
            ("log_frees", seen.log_frees),
            ("log_full", seen.log_full),
            ("losses", seen.losses),
            ("replayed_entries", seen.replayed_entries),
            ("copied_bytes", seen.copied_bytes),
        ]
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        self.inner.audit(offset, len).await
    }
}
