//! `alternate`: read/write separation, replicas that take turns.
//!
//! Idea: a drive that is being written to reads slowly, whatever the drive. So of two replicas (or
//! three, or four) one only writes while the others only read, and after a while the next one
//! writes. New writes wait in memory for the replica that writes; reads of what is still there are
//! answered from memory. A replica is one drive (as in RAID1), several (as in RAID10), or a parity
//! array.
//!
//! ```text
//!              write ──► cache (memory) ─── at FLUSH, FUA: log of all replicas (or of the writer)
//!                          │        ╲
//!            this window   ▼         ╲ next window, after the roles have changed
//!   replica B writes [log][ new ]     ╲►  replica A reads [log][ old ] ──► reads
//! ```
//!
//! Durable at acknowledgement (FUA or after FLUSH): the data in a log on each living replica, or in
//! its place there. The paper has a cache that survives power loss, or none of this; here a FLUSH
//! also writes to the replicas that read, sequentially, and that much of the separation is lost:
//! how much depends on how often somebody flushes. Without FLUSH only the one that writes is
//! written to. With `--flush-log writer` a FLUSH writes to the log of the one that writes only, and
//! reads wait for no write: redundancy of what was flushed is lent out until the next replica has
//! had its window. Before anything is brought to its place, what will change is noted in the log;
//! after a crash a replica that was reading (or, of one log, the one that has it) is right, and is
//! copied to the others there.
//! One failure: nothing is lost. The other replicas read and write, as any drive does; the one
//! that failed is stale as a whole from then on, until it is replaced and filled: it is written to
//! in its turn, read only when it has everything, and a crash in between means to begin again. If
//! it is the same that comes back it is given what it missed, by regions of a 31,232nd part of the
//! data (64 KiB at least), where one drive of it was lost and no other was replaced since. With
//! `--flush-log writer` a failure alone loses nothing either, as the data is in memory; but if a
//! drive dies together with the power, or before the pool is opened again, the pool goes back to
//! what another replica has, and flushed writes of up to a window for each replica are lost.
//! Rot: a page that a replica can't give is read from another one and written again, by the next
//! background work, or by a scrub. Of a log that rots what it told is had from the other replicas:
//! where any wrote just before, their checksums are compared; with `--flush-log writer` it is lost.
//! Two failures: nothing is lost if one of the replicas is whole, or, of parity, readable: of three
//! any two drives, of four any three. With `--flush-log writer` only one after the other, without
//! loss of power.
//! Device writes per user write: of n bytes to each replica, in its turn, n; a record of 4 KiB for
//! a batch of up to 120 writes, a page of 4 KiB when the roles change, and another record for one
//! that was flushed before. With FLUSH or FUA also n + 4 KiB to each log; with `--flush-log writer`
//! to one log, and a page of 4 KiB for the first FLUSH of a window. What is overwritten while
//! it waits is written once; where drives may tear a page one that is written in part, or again
//! before all have it, goes to the log as well (8 KiB). No reads but for parts of a page. Of parity
//! as many as a write of the array takes, everything is logged as if it were flushed, and 8 KiB for
//! each end of a run that lies within a page.
//! Source: Skourtis, Scott, Brandt, Maltzahn, High Performance & Low Latency in Solid-State Drives
//! Through Redundancy (the design, figure 1; two drives, one or more beside them is ours). The log
//! is ours: the paper says nothing of FLUSH.

pub mod cache;
mod discard;
mod heal;
pub mod kept;
mod members;
pub mod page;
mod reads;
mod recover;
mod replace;
pub(crate) mod replica;
pub mod roles;
mod turns;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use classical::{Array, CreateSpec, Grid, OpenOptions, Redundancy};
use format::{INCOMPAT_GROUP_LOGS, SCHEME_ALTERNATE};
use io::sync::Turn;
use io::wait::{Wait, told};
use io::{Buf, Env, Nanos};

pub use self::cache::CACHE_MIN;
use self::cache::{Cache, ENTRY_MAX};
use self::kept::Kept;
use self::members::NOT_RECORDED;
use self::page::Page;
use self::recover::{Recovered, of_replicas};
use self::replace::Filling;
use self::replica::{ENTRY_BITS, Replica, divide, log_space, page_place};
pub use self::roles::REPLICAS_MAX;
use self::roles::{Each, Roles};
use self::turns::Turned;
use crate::care::AllKept;
use crate::log::Log;
use crate::part::{PartEnv, on_parts};
use crate::set::{Set, SetSpec, uuid_of_group};
use crate::store::{Counters, Store, StoreError, check_range};

/// The paper does not say; long enough that an SSD is through with what its last writes left it to
/// do, short enough that seconds of writes fit into memory.
const T_MIN: Nanos = Nanos::from_millis(500);
/// Writes of two windows of an SSD at 64 MiB/s.
pub const CACHE: u64 = 64 << 20;
/// Most that may wait in memory.
const CACHE_MAX: u64 = 4 << 30;

/// Which replicas have what was flushed in a log until it is in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushLog {
    /// All: nothing is lost with any replica.
    #[default]
    All,
    /// The one that writes: reads wait for no log, but if its drive dies together with the power,
    /// what was flushed and is not in place on another one is lost.
    Writer,
}

/// What a pool is to be like.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    /// How many take turns, 2 to [`REPLICAS_MAX`].
    pub replicas: usize,
    /// Drives of one replica.
    pub drives: usize,
    /// Parity chunks of a stripe of a replica, 0 for none.
    pub parity: usize,
    pub chunk: u64,
    /// Bytes of writes that wait, with what they take in a log.
    pub cache: u64,
    pub flush_log: FlushLog,
    /// Every page has a checksum on other drives.
    pub checksums: bool,
}

impl Spec {
    pub fn new(name: &str, drives: usize) -> Spec {
        let (name, flush_log) = (name.to_owned(), FlushLog::All);
        Spec {
            name,
            replicas: 2,
            drives,
            parity: 0,
            chunk: 64 << 10,
            cache: CACHE,
            flush_log,
            checksums: true,
        }
    }

    fn check(&self, drives: usize) -> Result<(), StoreError> {
        let shape = |what: String, hint| Err(StoreError::Shape { what, hint });
        if self.parity > 2 {
            return shape(format!("{} parities", self.parity), "use 0, 1 or 2");
        }
        if !(2..=REPLICAS_MAX).contains(&self.replicas) {
            return shape(format!("{} replicas", self.replicas), "use 2 to 4");
        }
        if drives == 0 || drives != self.replicas * self.drives {
            let what = format!("{drives} drives for {} replicas", self.replicas);
            return shape(what, "give each replica as many drives as the others");
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
    leads: u64,
    filled_bytes: u64,
    fills: u64,
    healed_pages: u64,
    replayed_entries: u64,
    copied_bytes: u64,
}

struct Inner<E: Env> {
    world: E,
    env: PartEnv<E>,
    set: RefCell<Set<E::Drive>>,
    arrays: OpenOptions,
    /// `None`: not there, or stale, when the pool was opened.
    replicas: RefCell<Vec<Option<Rc<Replica<E>>>>>,
    /// Of one replica.
    drives: usize,
    by_parity: bool,
    flush_log: FlushLog,
    /// Where data begins on each replica, and how much there is.
    base: u64,
    size: u64,
    /// Whole, as far as is known.
    alive: Cell<Each<bool>>,
    /// As the pages of those that are whole say.
    recorded: Cell<Each<bool>>,
    /// Of what is recorded.
    generation: Cell<u64>,
    filling: Cell<Option<Filling>>,
    /// What those that are not whole miss, if it is kept.
    kept: RefCell<Kept>,
    keeps: bool,
    /// A drive of a replica that can do without it, while it is being rebuilt.
    rebuilding: Cell<Option<usize>>,
    /// Nothing is filled for the time being.
    held: Cell<bool>,
    /// Every entry up to here is in place on this replica, durably.
    applied: Cell<Each<u64>>,
    /// This opening's number.
    session: u64,
    /// Which replica leads, the number of its page, and what it must have.
    lead: Cell<usize>,
    leads: Cell<u64>,
    flushed: Cell<u64>,
    electing: Cell<bool>,
    roles: RefCell<Roles>,
    cache: RefCell<Cache>,
    sequence: Cell<u64>,
    window: Cell<u64>,
    next_read: Cell<usize>,
    /// Drives that are read only where nobody else can answer.
    sitting: RefCell<Vec<usize>>,
    /// Who brings something to its place, or changes roles.
    turn: Turn,
    page_turn: Turn,
    /// For looking after what replicas have missed.
    heal_turn: Turn,
    keep_turn: Turn,
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

/// Makes a pool: the drives of one replica, then those of the next. What is on them is gone. Bytes
/// that were never written may read differently from time to time: replicas are not made equal.
pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    spec.check(drives.len())?;
    let named = SetSpec {
        name: spec.name.clone(),
        scheme: SCHEME_ALTERNATE,
        split: spec.drives,
        chunk: spec.chunk,
        side: 0,
    };
    let mut set = Set::plan(env, drives, &named)?;
    set.label.features.incompat |= INCOMPAT_GROUP_LOGS;
    let env = on_parts(env);
    let redundancy = Redundancy::Parity(spec.parity);
    let (name, width, chunk) = (spec.name.clone(), spec.drives, spec.chunk);
    let checksums = spec.checksums;
    let array = CreateSpec { name, redundancy, width, chunk, checksums };
    let mut arrays = Vec::new();
    for side in 0..spec.replicas {
        let parts = set.first(side * width..(side + 1) * width);
        classical::array::create(&env, &parts, &array).await?;
        arrays.push(Array::open(&env, parts, of_replicas(OpenOptions::default())).await?);
    }
    let smallest = arrays.iter().map(Array::size).min().expect("there are some");
    let (base, size) = divide(smallest, spec.cache)?;
    for (side, array) in arrays.into_iter().enumerate() {
        let uuid = uuid_of_group(&set.label, side);
        Log::create(&array, uuid, log_space(base, true)).await?;
        let page = Page {
            sequence: side as u64,
            window: side as u64,
            replay: 0,
            cache: spec.cache,
            current: std::array::from_fn(|at| at < spec.replicas),
            generation: 1,
            lead: side as u64,
            size,
            one_log: spec.flush_log == FlushLog::Writer,
            filling: false,
            seen: [0; REPLICAS_MAX],
            kept: 0,
            keeps: true,
            session: 0,
        };
        let page = Buf::from_slice(&page.encode(&uuid));
        for place in [0, 1] {
            array.write(page_place(array.size(), place), page.clone(), true).await?;
        }
        array.close().await?;
    }
    set.write_labels().await
}

impl<E: Env> Alternate<E> {
    /// Opens a pool. Of the replicas all but one may be missing, or stale: they are lost then. One
    /// that was being filled is filled again.
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: Options,
    ) -> Result<Alternate<E>, StoreError> {
        let set = Set::open(drives).await?;
        let width = usize::from(set.label.group).max(1);
        let count = set.len() / width;
        let divides = set.len() == width * count && (2..=REPLICAS_MAX).contains(&count);
        if set.label.scheme != SCHEME_ALTERNATE || !divides {
            return Err(StoreError::NoLabel);
        }
        let (world, env, arrays) = (env.clone(), on_parts(env), of_replicas(options.arrays));
        let parts = (0..count).map(|side| set.first(side * width..(side + 1) * width));
        let found = recover::recover(&env, &set, parts.collect(), arrays).await?;
        let Recovered { right, newest, base, size, .. } = found;
        let (seen, alive) = (found.seen(), found.alive());
        let mut replicas: Vec<_> = found.replicas.into_iter().map(|own| own.map(Rc::new)).collect();
        let grid = replicas[right].as_ref().expect("it is right").array.grid();
        let (session, first) = (found.session + 1, (found.session + 1) << ENTRY_BITS);
        let filling = found.filling.map(|(side, replica)| {
            replicas[side] = Some(Rc::new(replica));
            Filling::begin(side, &found.kept, size, first)
        });
        let inner = Inner {
            roles: RefCell::new(Roles::new(right, env.now(), options.t_min)),
            world,
            env,
            set: RefCell::new(set),
            arrays,
            replicas: RefCell::new(replicas),
            drives: width,
            by_parity: grid.parity() > 0,
            flush_log: if newest.one_log { FlushLog::Writer } else { FlushLog::All },
            base,
            size,
            alive: Cell::new(alive),
            // Each says so before it is written to: whatever one that is missing says when it comes
            // back, or an image of a drive, was before this.
            recorded: Cell::new(NOT_RECORDED),
            generation: Cell::new(newest.generation),
            filling: Cell::new(filling),
            kept: RefCell::new(found.kept),
            keeps: found.keeps,
            rebuilding: Cell::new(None),
            held: Cell::new(false),
            applied: Cell::new([first; REPLICAS_MAX]),
            session,
            lead: Cell::new(right),
            leads: Cell::new(found.leads),
            flushed: Cell::new(first),
            electing: Cell::new(false),
            cache: RefCell::new(Cache::new(newest.cache, first, grid.parity() > 0)),
            sequence: Cell::new(found.sequence),
            window: Cell::new(found.window),
            next_read: Cell::new(0),
            sitting: RefCell::default(),
            turn: Turn::new(),
            page_turn: Turn::new(),
            heal_turn: Turn::new(),
            keep_turn: Turn::new(),
            room_turn: Turn::new(),
            seen: RefCell::new(seen),
        };
        let opened = Alternate { inner: Rc::new(inner) };
        opened.inner.begin(right).await?;
        opened.tell_age().await;
        opened.inner.see(|seen| seen.switches = 0);
        Ok(opened)
    }
}

impl<E: Env> Inner<E> {
    fn see(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.seen.borrow_mut());
    }

    /// Of each replica.
    fn grid(&self) -> Grid {
        let whole = self.whole();
        whole.first().expect("one is always alive").1.array.grid()
    }

    /// The first window. A replica that is lost must be known to be before the logs of the others,
    /// which say where they differ, are emptied.
    async fn begin(&self, writer: usize) -> Result<(), StoreError> {
        self.record_losses().await?;
        if let Some(Filling { side, .. }) = self.filling.get() {
            let _turn = self.page_turn.lock().await;
            // It may not have said so before.
            if let Err(error) = self.write_page(side, |_| ()).await {
                self.lose(side, error)?;
            }
        }
        self.trim(true).await?;
        let first = self.cache.borrow().newest();
        for (side, replica) in self.whole() {
            if let Err(error) = replica.begin(first).await {
                self.lose(side, error)?;
            }
        }
        let alive = self.alive.get();
        let mut wanted = [writer].into_iter().chain(0..REPLICAS_MAX);
        let writer = wanted.find(|side| alive[*side]).expect("one is always alive");
        if let Err(error) = self.switch(writer).await {
            self.lose(writer, error)?;
        }
        self.record_losses().await
    }

    /// Waits until it is in the cache. Who waits does what is needed to make room.
    async fn cache(&self, offset: u64, data: &Buf) -> Result<(), StoreError> {
        let _turn = told(&self.env, Wait::Space, self.room_turn.lock()).await;
        let mut waited = false;
        while !self.cache.borrow_mut().put(offset, data) {
            waited = true;
            told(&self.env, Wait::Space, self.turn_or_wait()).await?;
        }
        self.see(|seen| seen.cache_waits += u64::from(waited));
        Ok(())
    }
}

impl<E: Env> Store for Alternate<E> {
    fn size(&self) -> u64 {
        self.inner.size
    }

    fn unit(&self) -> u64 {
        self.inner.grid().stripe_bytes()
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

    async fn discard(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        check_range(offset, len, self.size())?;
        self.inner.discard(offset..offset + len).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let newest = self.inner.cache.borrow().newest();
        told(&self.inner.env, Wait::Journal, self.inner.make_durable(newest)).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        while self.inner.turn(true).await? != Turned::Rest {}
        self.inner.trim(true).await?;
        for (side, replica) in self.inner.living() {
            if let Err(error) = replica.array.clone().close().await {
                self.inner.lose(side, error.into())?;
            }
        }
        self.inner.record_losses().await?;
        self.tell_age().await;
        Ok(())
    }

    async fn work(&self) -> Result<bool, StoreError> {
        self.tell_age().await;
        let worked = self.inner.turn(false).await? == Turned::Worked;
        // Not beside the writes of one that is read.
        let fills = !worked || self.inner.fills_now();
        let filled = fills && self.inner.fill_some().await?;
        if worked || filled {
            return Ok(true);
        }
        self.inner.heal().await;
        let mut worked = self.inner.rebuild_some().await;
        for (side, replica) in self.inner.living() {
            match replica.array.resync().await {
                Ok(more) => worked |= more,
                Err(error) => self.inner.lose(side, error.into())?,
            }
        }
        self.inner.record_losses().await?;
        Ok(worked)
    }

    fn owed(&self) -> u64 {
        self.inner.living().iter().map(|(_, replica)| replica.array.owed_stripes().0).sum()
    }

    fn marks(&self) -> u64 {
        self.inner.living().iter().map(|(_, replica)| replica.array.marks()).sum()
    }

    fn sit_out(&self, drive: usize, out: bool) {
        let (side, at) = (drive / self.inner.drives, drive % self.inner.drives);
        {
            let mut sitting = self.inner.sitting.borrow_mut();
            sitting.retain(|own| *own != drive);
            sitting.extend(out.then_some(drive));
        }
        if let Some(replica) = self.inner.replicas.borrow()[side].as_ref() {
            replica.array.sit_out(at, out);
        }
    }

    fn lost(&self) -> Vec<usize> {
        let (inner, width) = (&self.inner, self.inner.drives);
        let (alive, recorded) = (inner.alive.get(), inner.recorded.get());
        let sides = 0..inner.replicas.borrow().len();
        let lost = sides.flat_map(|side| {
            // One that was filled is not safe before the others say so.
            let own = match alive[side] && recorded[side] {
                true => inner.replica(side).array.lost(),
                false => (0..width).collect(),
            };
            own.into_iter().map(move |drive| side * width + drive)
        });
        lost.collect()
    }

    fn margin(&self) -> usize {
        // One more than a replica bears ends it.
        let whole = self.inner.whole();
        let ends = whole.iter().map(|(_, replica)| Store::margin(&replica.array) + 1);
        ends.sum::<usize>() - 1
    }

    fn shape(&self) -> String {
        let count = ["two", "three", "four"][self.inner.replicas.borrow().len() - 2];
        let log = match self.inner.flush_log {
            FlushLog::All => "",
            FlushLog::Writer => ", one log",
        };
        format!("{count} replicas in turn, each {}{log}", self.inner.grid())
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
            ("leads", seen.leads),
            ("filled_bytes", seen.filled_bytes),
            ("fills", seen.fills),
            ("healed_from_replicas", seen.healed_pages),
            ("replayed_entries", seen.replayed_entries),
            ("copied_bytes", seen.copied_bytes),
        ]
    }

    fn kept(&self) -> AllKept {
        let each = self.inner.living().into_iter();
        each.map(|(_, replica)| heal::kept(self.inner.clone(), replica)).collect()
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        self.inner.audit(offset, len).await
    }
}
