//! A store of keys (`workload::lsm`) on an array, and clients that use it as fast as it answers
//! (FusionRAID §5.2, real applications).
//!
//! Durable when answered: the log is flushed for each group of puts. Clients wait for what RocksDB
//! would have them wait for; a file system's own metadata is left out, and so is what tables'
//! indices and filters take, which are in memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::join;
use io::rng::Rng;
use io::sync::{Event, Turn};
use io::virt::VirtEnv;
use io::{Buf, Env, Nanos, join_all};

use super::Array;
use super::load::{Pending, Span};
use super::tally::Tally;
use super::world::World;
use crate::workload::lsm::cache::Cache;
use crate::workload::lsm::tree::{Full, Job, Table, Tree};
use crate::workload::lsm::ycsb::{Draws, Operation, key};
use crate::workload::lsm::{Admission, Log, Memtable, Shape, admit};

/// Tables are read and written in requests of this size: FusionRAID Table 4 has 500 to 507 KB for
/// an average write of RocksDB's traces.
const REQUEST: u64 = 512 << 10;
/// So many of them at once: the 2 MB that RocksDB proposes to read ahead.
const AT_ONCE: usize = 4;
/// Bytes a second that a thread merges. FusionRAID Table 4 has 433 MB/s for all that YCSB-A writes
/// (1353 requests a second, 64 % of them writes of 500.4 KB), a tenth of which is log and
/// memtables.
const MERGED: u64 = 400_000_000;
/// A processor's time of client and store for an operation. Table 4's YCSB-B writes 378 MB/s with
/// 5 % updates; with each pair written some twelve times that is 150,000 operations a second, by
/// sixteen clients.
const OPERATION: Nanos = Nanos::from_micros(100);
/// Clients of a server with 24 cores, some of them for the store; the paper says no number.
pub const CLIENTS: usize = 16;
/// Part of the array's space that the database takes: merging needs some, and inserts.
const DATABASE_PART: u64 = 2;
/// Part of the database in the cache: nine reads in ten are of as many popular items, so that the
/// slowest tenth, which Table 5 is about, goes to drives. The paper's machine had memory for more,
/// and the paper doesn't say how it was used.
const CACHE_PART: u64 = 4;

/// What it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub put_bytes: u64,
    pub log_bytes: u64,
    /// Tables of memtables, and of what was merged.
    pub table_bytes: u64,
    /// Groups of puts, and those that were slowed and stopped.
    pub groups: u64,
    pub slowed: u64,
    pub stopped: u64,
    pub gets: u64,
    /// Blocks that were not in the cache.
    pub block_reads: u64,
}

struct State {
    tree: Tree,
    active: Memtable,
    /// Full, on its way to a table.
    sealed: Option<Rc<Memtable>>,
    /// Puts that wait for the next group.
    waiting: Vec<u32>,
    /// Puts so far; the number of a put is the version of its key.
    puts: u32,
    log: Log,
    cache: Cache,
    seen: Seen,
}

struct Inner {
    env: VirtEnv,
    array: Rc<dyn Array>,
    shape: Shape,
    state: RefCell<State>,
    /// One group is written at a time.
    turn: Turn,
    /// Puts that are durable.
    committed: Cell<u32>,
    /// Memtables or tables have changed.
    changed: Event,
    /// Where tables begin.
    first: u64,
    zeroes: Buf,
    trouble: RefCell<Option<String>>,
}

/// A store that is open; clones name the same.
#[derive(Clone)]
pub struct Kv {
    inner: Rc<Inner>,
}

impl Kv {
    /// A database of so many items, as loading leaves it, so many tables in L0, and the most
    /// popular items in the cache. Nothing is written for that: the array's space is taken to
    /// hold it.
    pub fn open(
        env: &VirtEnv,
        array: &Rc<dyn Array>,
        shape: Shape,
        (items, waiting): (u32, usize),
    ) -> Result<Kv, String> {
        let log = Log::new(&shape);
        let first = log.size();
        let slots = array.size().saturating_sub(first) / shape.table_bytes;
        let keys = (0..items).map(key).collect();
        let tree = Tree::loaded(shape, slots, keys).and_then(|mut tree| {
            crowd(&mut tree, &shape, items, waiting)?;
            Ok(tree)
        });
        let tree = tree.map_err(|full| full.to_string())?;
        let blocks = database_items(array.size(), &shape) / CACHE_PART;
        let mut cache = Cache::new(blocks as usize);
        for item in 0..items.min(blocks as u32) {
            for look in tree.looks(key(item)) {
                cache.want((look.table.number, look.block));
            }
        }
        // The largest that is written in one piece.
        let largest = REQUEST.max(2 * CLIENTS as u64 * shape.pair_bytes);
        let state = State {
            tree,
            active: Memtable::default(),
            sealed: None,
            waiting: Vec::new(),
            puts: 0,
            log,
            cache,
            seen: Seen::default(),
        };
        let kv = Kv {
            inner: Rc::new(Inner {
                env: env.clone(),
                array: array.clone(),
                shape,
                state: RefCell::new(state),
                turn: Turn::new(),
                committed: Cell::new(0),
                changed: Event::new(),
                first,
                zeroes: Buf::zeroed(largest as usize),
                trouble: RefCell::default(),
            }),
        };
        env.spawn(kv.inner.clone().write_memtables());
        env.spawn(kv.inner.clone().merge_tables());
        Ok(kv)
    }

    pub fn seen(&self) -> Seen {
        self.inner.state.borrow().seen
    }

    /// Why it stopped, if it did.
    pub fn trouble(&self) -> Option<String> {
        self.inner.trouble.borrow().clone()
    }

    /// The version that is newest, if the key is there.
    pub async fn get(&self, key: u32) -> Result<Option<u32>, String> {
        self.inner.get(key).await
    }

    /// Durable when it returns.
    pub async fn put(&self, key: u32) -> Result<(), String> {
        self.inner.put(key).await
    }
}

/// Memtables of items at random that were written and not merged.
fn crowd(tree: &mut Tree, shape: &Shape, items: u32, tables: usize) -> Result<(), Full> {
    let mut rng = Rng::new(u64::from(items));
    for _ in 0..tables {
        let mut memtable = Memtable::default();
        while !memtable.is_full(shape) {
            memtable.put(key(rng.below(u64::from(items)) as u32), 0);
        }
        let table = tree.make(memtable.entries())?;
        tree.add(table);
    }
    Ok(())
}

/// Items of the database on an array of so many bytes.
pub fn database_items(array_bytes: u64, shape: &Shape) -> u64 {
    array_bytes / DATABASE_PART / shape.pair_bytes
}

impl Inner {
    /// Whoever waits looks again. The first error ends everything.
    fn note(&self, done: Result<(), String>) {
        if let Err(error) = done {
            self.trouble.borrow_mut().get_or_insert(error);
        }
        self.changed.notify_all();
    }

    fn check(&self) -> Result<(), String> {
        self.trouble.borrow().clone().map_or(Ok(()), Err)
    }

    async fn put(&self, key: u32) -> Result<(), String> {
        let number = {
            let mut state = self.state.borrow_mut();
            state.waiting.push(key);
            state.puts += 1;
            state.puts
        };
        let _turn = self.turn.lock().await;
        self.check()?;
        // Who had the turn before may have taken it along.
        if self.committed.get() >= number {
            return Ok(());
        }
        self.admitted().await?;
        let group = std::mem::take(&mut self.state.borrow_mut().waiting);
        let done = self.commit(group).await;
        if done.is_err() {
            self.note(done.clone());
        }
        done
    }

    /// Waits until a group may be written.
    async fn admitted(&self) -> Result<(), String> {
        loop {
            self.check()?;
            let admission = {
                let state = self.state.borrow();
                let bytes = state.waiting.len() as u64 * self.shape.pair_bytes;
                let full = state.active.is_full(&self.shape);
                admit(&self.shape, bytes, full, state.sealed.is_some(), state.tree.waiting())
            };
            match admission {
                Admission::Go => return Ok(()),
                Admission::Slow(rest) => {
                    self.state.borrow_mut().seen.slowed += 1;
                    self.env.sleep_until(self.env.now() + rest).await;
                    return Ok(());
                }
                Admission::Seal => {
                    let mut state = self.state.borrow_mut();
                    state.sealed = Some(Rc::new(std::mem::take(&mut state.active)));
                    state.log.next_file();
                    drop(state);
                    self.changed.notify_all();
                }
                Admission::Stop => {
                    self.state.borrow_mut().seen.stopped += 1;
                    self.changed.wait().await;
                }
            }
        }
    }

    /// The group is put into the log, then into memory.
    async fn commit(&self, group: Vec<u32>) -> Result<(), String> {
        let pairs = group.len() as u64;
        let (offset, len) = self.state.borrow_mut().log.append(&self.shape, pairs);
        self.array.write(offset, self.zeroes.slice(0..len as usize)).await?;
        self.array.flush().await?;
        let mut state = self.state.borrow_mut();
        let mut version = self.committed.get();
        for key in group {
            version += 1;
            state.active.put(key, version);
        }
        self.committed.set(version);
        state.seen.groups += 1;
        state.seen.put_bytes += pairs * self.shape.pair_bytes;
        state.seen.log_bytes += len;
        Ok(())
    }

    async fn get(&self, key: u32) -> Result<Option<u32>, String> {
        let looks = {
            let mut state = self.state.borrow_mut();
            state.seen.gets += 1;
            let sealed = || state.sealed.as_ref().and_then(|memtable| memtable.get(key));
            if let Some(version) = state.active.get(key).or_else(sealed) {
                return Ok(Some(version));
            }
            state.tree.looks(key)
        };
        for look in looks {
            let there = self.state.borrow_mut().cache.want((look.table.number, look.block));
            if !there {
                self.state.borrow_mut().seen.block_reads += 1;
                let offset = self.place(&look.table) + look.block * self.shape.pair_bytes;
                self.array.read(offset, self.shape.pair_bytes).await?;
            }
            if look.version.is_some() {
                return Ok(look.version);
            }
        }
        Ok(None)
    }

    /// Where a table begins.
    fn place(&self, table: &Table) -> u64 {
        self.first + table.slot * self.shape.table_bytes
    }

    /// The requests that tables take, one behind the other: offset, bytes.
    fn requests<'a>(&self, tables: impl IntoIterator<Item = &'a Rc<Table>>) -> Vec<(u64, u64)> {
        let of = |table: &Rc<Table>| {
            let (begin, bytes) = (self.place(table), table.pairs() * self.shape.pair_bytes);
            let cut = move |at: u64| (begin + at, REQUEST.min(bytes - at));
            (0..bytes).step_by(REQUEST as usize).map(cut)
        };
        tables.into_iter().flat_map(of).collect()
    }

    /// Makes tables of memtables for ever.
    async fn write_memtables(self: Rc<Self>) {
        while self.check().is_ok() {
            let sealed = self.state.borrow().sealed.clone();
            match sealed {
                None => self.changed.wait().await,
                Some(sealed) => {
                    let done = self.write_memtable(&sealed).await;
                    self.note(done);
                }
            }
        }
    }

    async fn write_memtable(&self, memtable: &Memtable) -> Result<(), String> {
        let made = self.state.borrow_mut().tree.make(memtable.entries());
        let table = made.map_err(|full| full.to_string())?;
        self.stream(&[], &self.requests([&table])).await?;
        let mut state = self.state.borrow_mut();
        state.tree.add(table);
        state.sealed = None;
        Ok(())
    }

    /// Merges for ever, one job after the other.
    async fn merge_tables(self: Rc<Self>) {
        while self.check().is_ok() {
            let job = self.state.borrow().tree.pick();
            match job {
                None => self.changed.wait().await,
                Some(job) => {
                    let done = self.merge(job).await;
                    self.note(done);
                }
            }
        }
    }

    async fn merge(&self, job: Job) -> Result<(), String> {
        let merged = self.state.borrow_mut().tree.merge(job);
        let merged = merged.map_err(|full| full.to_string())?;
        if !merged.moved {
            let reads = self.requests(merged.job.inputs());
            self.stream(&reads, &self.requests(&merged.outputs)).await?;
        }
        self.state.borrow_mut().tree.take(&merged);
        Ok(())
    }

    /// Reads and writes in order, so many at once; what is written while what follows is read.
    /// What is written is durable in the end.
    async fn stream(&self, reads: &[(u64, u64)], writes: &[(u64, u64)]) -> Result<(), String> {
        let some = |all: &[(u64, u64)], round: usize| -> Vec<(u64, u64)> {
            all.iter().skip(round * AT_ONCE).take(AT_ONCE).copied().collect()
        };
        for round in 0..reads.len().max(writes.len()).div_ceil(AT_ONCE) {
            let (reads, writes) = (some(reads, round), some(writes, round));
            let bytes: u64 = writes.iter().map(|(_, len)| len).sum();
            let merged = self.env.now() + Nanos(bytes * 1_000_000_000 / MERGED);
            let reads = reads.into_iter().map(|(offset, len)| self.array.read(offset, len));
            let writes = writes
                .into_iter()
                .map(|(offset, len)| self.array.write(offset, self.zeroes.slice(0..len as usize)));
            let (read, written) = join(join_all(reads), join_all(writes)).await;
            read.into_iter().try_for_each(|done| done.map(drop))?;
            written.into_iter().collect::<Result<(), String>>()?;
            self.state.borrow_mut().seen.table_bytes += bytes;
            self.env.sleep_until(merged).await;
        }
        self.array.flush().await
    }
}

/// Clients that ask for the next thing when they have an answer. What begins in the warm-up is not
/// counted; `begin` is called when it is over.
pub async fn serve(
    world: &World,
    kv: &Kv,
    draws: Draws,
    (span, tally): (Span, &Rc<RefCell<Tally>>),
    begin: impl FnOnce(),
) {
    let (pending, draws) = (Pending::default(), Rc::new(RefCell::new(draws)));
    let (env, watch) = (world.env.clone(), world.watch.clone());
    let warm = env.now() + span.warmup;
    let end = warm + span.measured;
    for client in 0..CLIENTS {
        pending.begin();
        let (env, watch, pending) = (env.clone(), watch.clone(), pending.clone());
        let (kv, draws, tally) = (kv.clone(), draws.clone(), tally.clone());
        world.env.spawn(async move {
            // Not all in the same instant for ever.
            let apart = OPERATION.0 * client as u64 / CLIENTS as u64;
            env.sleep_until(env.now() + Nanos(apart)).await;
            while env.now() < end {
                let (operation, began) = (draws.borrow_mut().draw(), env.now());
                env.sleep_until(began + OPERATION).await;
                let (read, done) = match operation {
                    Operation::Read(key) => (true, kv.get(key).await.map(drop)),
                    Operation::Put(key) => (false, kv.put(key).await),
                };
                if began >= warm {
                    tally.borrow_mut().record(&watch, read, began, env.now(), done.is_ok());
                }
            }
            pending.end();
        });
    }
    env.sleep_until(warm).await;
    begin();
    pending.wait().await;
}

#[cfg(test)]
mod tests;
