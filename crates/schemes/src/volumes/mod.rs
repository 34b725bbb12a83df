//! Volumes on any store: named, of any size, taking space as they are written.
//!
//! ```text
//!   request ── grains: where ── store.write         flush ── store.flush ── dirty pages of the map
//!                │ nowhere yet
//!                └── a free grain, written whole: data, and zeroes round it
//! ```
//! A grain is whole stripes, so its first write reads nothing. A volume reads as zeroes where it
//! was never written. The map becomes durable with the next flush, after the data it points to.

pub mod grains;
mod request;
pub(crate) mod table;
mod verbs;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use io::latency::OperationLatencies;
use io::sync::{Event, Turn};
use io::tally::{RequestCounters, Tally};
use io::{Buf, Env, Nanos, join_all};

pub use self::table::{Further, VOLUMES_MAX};

use self::grains::{Grains, Owner, PER_PAGE};
use self::table::{PAGE_BYTES, TABLE_SLOT, Table, decode_page, encode_page};
use crate::store::{Store, StoreError};

/// Least bytes of a grain: the first write of one writes all of it, and the map has 8 bytes for
/// each, a 32,768th of the space.
pub const GRAIN_MIN: u64 = 256 << 10;
/// A store for fewer grains than this is not worth having.
const GRAINS_MIN: u32 = 4;

#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error("'{0}' can't be the name of a volume: 1 to 63 of A-Z a-z 0-9 . _ -")]
    Name(String),
    #[error("a size of {0} bytes is not a positive multiple of 512, or too large for this array")]
    Size(u64),
    #[error("{0} exists already")]
    Exists(String),
    #[error("{0}: no such volume")]
    NotFound(String),
    #[error("{0} is in use")]
    InUse(String),
    #[error("holds data up to byte {used}")]
    ShrinkBelowData { used: u64 },
    #[error("{VOLUMES_MAX} volumes are the most an array has")]
    TooMany,
    #[error("no space left")]
    NoSpace,
    #[error("outside the volume")]
    OutOfRange,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is known of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    pub name: String,
    pub size: u64,
    /// Grains that hold something, in bytes.
    pub mapped: u64,
    pub latency: OperationLatencies,
    pub counters: RequestCounters,
    /// Requests that have come and are not answered.
    pub under_way: u64,
}

/// Requests since opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub flushes: u64,
    pub trims: u64,
    pub space_waits: u64,
    /// Writes that found no free grain, and none that would be.
    pub space_refusals: u64,
}

/// Bytes of the store's grains by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub total: u64,
    pub mapped: u64,
    pub limbo: u64,
    pub free: u64,
}

impl Space {
    /// What can still be written: who finds nothing free waits until the drives know of what is
    /// freed.
    pub fn available(&self) -> u64 {
        self.free + self.limbo
    }
}

struct Inner<E: Env, S> {
    env: E,
    store: S,
    table: RefCell<Table>,
    table_turn: Turn,
    grains: RefCell<Grains>,
    /// Of each page of the map, that of its newest slot.
    sequences: RefCell<Vec<u64>>,
    /// First writes of a grain, one at a time.
    first_writes: RefCell<BTreeMap<Owner, (Turn, usize)>>,
    commit_turn: Turn,
    /// Commits begun, and the last of them that was done.
    begun: Cell<u64>,
    done: Cell<u64>,
    /// A grain became free.
    freed: Event,
    /// Handles on each volume.
    users: RefCell<BTreeMap<u32, usize>>,
    /// By number; of those that were ever used.
    tallies: RefCell<BTreeMap<u32, Rc<Tally>>>,
    requests: Cell<Requests>,
    last_request: Cell<Nanos>,
    last_write: Cell<Option<Nanos>>,
}

/// A handle on the volumes of a store; clones name the same.
pub struct Volumes<E: Env, S> {
    inner: Rc<Inner<E, S>>,
}

impl<E: Env, S> Clone for Volumes<E, S> {
    fn clone(&self) -> Volumes<E, S> {
        Volumes { inner: self.inner.clone() }
    }
}

/// A handle on one volume; it can't be deleted as long as there is one.
pub struct Volume<E: Env, S> {
    inner: Rc<Inner<E, S>>,
    number: u32,
    tally: Rc<Tally>,
}

impl<E: Env, S: Store> Clone for Volume<E, S> {
    fn clone(&self) -> Volume<E, S> {
        Volume::new(&self.inner, self.number)
    }
}

impl<E: Env, S> Drop for Volume<E, S> {
    fn drop(&mut self) {
        let mut users = self.inner.users.borrow_mut();
        let count = users.get_mut(&self.number).expect("this one uses it");
        *count -= 1;
        if *count == 0 {
            users.remove(&self.number);
        }
    }
}

impl<E: Env, S: Store> Volume<E, S> {
    fn new(inner: &Rc<Inner<E, S>>, number: u32) -> Volume<E, S> {
        *inner.users.borrow_mut().entry(number).or_default() += 1;
        let new = || Rc::new(Tally::new(true));
        let tally = inner.tallies.borrow_mut().entry(number).or_insert_with(new).clone();
        Volume { inner: inner.clone(), number, tally }
    }
}

/// Bytes of a grain, and how many a store of this size and unit has.
fn fit(size: u64, unit: u64) -> Result<(u64, u32), StoreError> {
    let grain = GRAIN_MIN.next_multiple_of(unit);
    let grains = Table::fit(size, grain);
    if grains < GRAINS_MIN {
        let least = Table::page_at(1, 0).next_multiple_of(grain) + u64::from(GRAINS_MIN) * grain;
        return Err(StoreError::Small { size, least });
    }
    Ok((grain, grains))
}

/// What volumes can hold on a store of this size and unit.
pub fn usable(size: u64, unit: u64) -> Result<u64, StoreError> {
    fit(size, unit).map(|(grain, grains)| grain * u64::from(grains))
}

/// Makes a store ready for volumes. What volumes were there are gone.
pub async fn format<E: Env, S: Store>(env: &E, store: &S) -> Result<(), StoreError> {
    let (grain, grains) = fit(store.size(), store.unit())?;
    let volumes = Vec::new();
    let (id, further) = (env.unique_id(), Vec::new());
    let table = Table { id, generation: 1, grain, grains, next: 1, volumes, further };
    for slot in [0, 1] {
        store.write(slot * TABLE_SLOT, Buf::from_slice(&table.encode()), true).await?;
    }
    store.flush().await
}

/// The newest table that is whole, of the first array alone or of all.
async fn read_table<S: Store>(store: &S) -> Result<Table, StoreError> {
    let mut found = Vec::new();
    for slot in [0, 1] {
        let bytes = store.read(slot * TABLE_SLOT, TABLE_SLOT).await?;
        found.extend(Table::decode(&bytes));
    }
    let newest = found.into_iter().max_by_key(|table| table.generation);
    newest.ok_or(StoreError::Damaged("the table of volumes".into()))
}

/// Which arrays the store grew by, as its first one knows, in order.
pub async fn further<S: Store>(first: &S) -> Result<Vec<Further>, StoreError> {
    Ok(read_table(first).await?.further)
}

impl<E: Env, S: Store> Volumes<E, S> {
    pub async fn open(env: &E, store: S) -> Result<Volumes<E, S>, StoreError> {
        let table = read_table(&store).await?;
        if table.end() > store.size() {
            return Err(StoreError::Damaged("the table of volumes".into()));
        }
        let (owners, sequences) = read_map(&store, &table).await?;
        let there: Vec<_> = table.stretches().map(|stretch| stretch.range()).collect();
        let inner = Inner {
            env: env.clone(),
            store,
            grains: RefCell::new(Grains::new(owners, there.into_iter())),
            table: RefCell::new(table),
            table_turn: Turn::new(),
            sequences: RefCell::new(sequences),
            first_writes: RefCell::default(),
            commit_turn: Turn::new(),
            begun: Cell::new(0),
            done: Cell::new(0),
            freed: Event::new(),
            users: RefCell::default(),
            tallies: RefCell::default(),
            requests: Cell::default(),
            last_request: Cell::default(),
            last_write: Cell::new(None),
        };
        Ok(Volumes { inner: Rc::new(inner) })
    }

    pub fn store(&self) -> &S {
        &self.inner.store
    }

    pub fn requests(&self) -> Requests {
        self.inner.requests.get()
    }

    /// When the last request began.
    pub fn last_request(&self) -> Nanos {
        self.inner.last_request.get()
    }

    /// When the last write began that no flush has begun after.
    pub fn last_write(&self) -> Option<Nanos> {
        self.inner.last_write.get()
    }

    pub fn space(&self) -> Space {
        let (grains, grain) = (self.inner.grains.borrow(), self.inner.grain());
        let total = grains.count() as u64 * grain;
        let (free, limbo) = (grains.free() as u64 * grain, grains.in_limbo() as u64 * grain);
        Space { total, mapped: total - free - limbo, limbo, free }
    }

    /// Everything answered before is durable from now on.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.inner.commit().await
    }

    /// One piece of what can wait: the drives are told of a grain that is free. False: they know of
    /// all that became so.
    pub async fn work(&self) -> Result<bool, StoreError> {
        let inner = &self.inner;
        let next = inner.grains.borrow_mut().tell();
        let Some(grain) = next else { return Ok(false) };
        let (place, len) = (inner.table.borrow().place(grain), inner.grain());
        let told = inner.store.discard(place, len).await;
        inner.grains.borrow_mut().told();
        inner.freed.notify_all();
        told.map(|()| true)
    }

    /// Flushes and closes the store; no request is under way.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.inner.commit().await?;
        self.inner.store.close().await
    }
}

/// The newest whole slot of each page; one without any was never written.
async fn read_map<S: Store>(
    store: &S,
    table: &Table,
) -> Result<(Vec<Option<Owner>>, Vec<u64>), StoreError> {
    let known: Vec<u32> = table.volumes.iter().map(|volume| volume.number).collect();
    let (mut owners, mut sequences) = (Vec::new(), Vec::new());
    let pages = table.stretches().flat_map(|own| own.pages().map(move |page| (own, page)));
    for (own, page) in pages {
        owners.resize((page * PER_PAGE) as usize, None);
        let count = PER_PAGE.min(own.range().end - page * PER_PAGE) as usize;
        let both = store.read(table.page_place(page, 0), 2 * PAGE_BYTES).await?;
        let slots = both.chunks_exact(PAGE_BYTES as usize);
        let found = slots.filter_map(|slot| decode_page(&table.id, page, count, slot));
        let newest = found.max_by_key(|(sequence, _)| *sequence);
        let (sequence, of_page) = newest.unwrap_or_else(|| (0, vec![None; count]));
        sequences.push(sequence);
        // What is left of a volume that was deleted is free.
        owners.extend(of_page.into_iter().map(|owner| owner.filter(|o| known.contains(&o.volume))));
    }
    Ok((owners, sequences))
}

/// A commit under way. It ends however its request does: those of a host that was taken over are
/// cancelled in the middle.
struct Commit<'a, E: Env, S: Store> {
    inner: &'a Inner<E, S>,
    durable: bool,
}

impl<E: Env, S: Store> Drop for Commit<'_, E, S> {
    fn drop(&mut self) {
        self.inner.grains.borrow_mut().end_commit(self.durable);
        self.inner.freed.notify_all();
    }
}

impl<E: Env, S: Store> Inner<E, S> {
    fn grain(&self) -> u64 {
        self.table.borrow().grain
    }

    /// Makes the data durable, then the map. One at a time; who comes while one is under way that
    /// began before, waits for one more, together with all others who do.
    async fn commit(&self) -> Result<(), StoreError> {
        let arrived = self.begun.get();
        let _turn = self.commit_turn.lock().await;
        if self.done.get() > arrived {
            return Ok(());
        }
        self.begun.set(self.begun.get() + 1);
        self.last_write.set(None);
        // The pages as they are before the flush: all they point to was answered by the store.
        let pages = self.grains.borrow_mut().begin_commit();
        let mut commit = Commit { inner: self, durable: false };
        self.write_map(pages).await?;
        commit.durable = true;
        drop(commit);
        self.done.set(self.begun.get());
        Ok(())
    }

    async fn write_map(&self, pages: Vec<(u32, Vec<Option<Owner>>)>) -> Result<(), StoreError> {
        self.store.flush().await?;
        let id = self.table.borrow().id;
        let writes = pages.iter().map(async |(page, owners)| {
            let sequence = self.sequences.borrow()[*page as usize] + 1;
            let bytes = encode_page(&id, *page, sequence, owners);
            let place = self.table.borrow().page_place(*page, sequence % 2);
            self.store.write(place, Buf::from_slice(&bytes), true).await?;
            self.sequences.borrow_mut()[*page as usize] = sequence;
            Ok::<(), StoreError>(())
        });
        join_all(writes).await.into_iter().collect()
    }
}
