//! A parity array with a log on two drives before it: opened, asked, counted. Where the two lie on
//! the drives is the [`Shape`]'s business.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use classical::{Array, Grid};
use format::Uuid;
use io::sync::Turn;
use io::{Buf, Env, Nanos};

use super::plan::Mode;
use super::policy::{Facts, Policy, Reads};
use super::shape::Shape;
use super::{DATA, Options, VOID, VOIDS};
use crate::ages;
use crate::care::{self, AllKept};
use crate::extents::Extents;
use crate::locks::RangeLocks;
use crate::log::record::PAGE;
use crate::log::{Found, Log};
use crate::part::PartEnv;
use crate::set::Set;
use crate::store::{Counters, Store, StoreError, check_range};

/// What a researcher wants to see.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) log_writes: u64,
    pub(super) log_bytes: u64,
    pub(super) surrogate_writes: u64,
    pub(super) direct_writes: u64,
    pub(super) direct_full: u64,
    pub(super) direct_degraded: u64,
    pub(super) voids: u64,
    pub(super) reads: u64,
    pub(super) log_reads: u64,
    pub(super) destaged_stripes: u64,
    pub(super) destaged_whole: u64,
    pub(super) destaged_bytes: u64,
    pub(super) filled_bytes: u64,
    pub(super) for_reads: u64,
    pub(super) migrated_stripes: u64,
    pub(super) rebuilt_drives: u64,
    pub(super) waits: u64,
}

pub(super) struct Inner<E: Env> {
    pub(super) env: E,
    pub(super) shape: Shape,
    pub(super) set: RefCell<Set<E::Drive>>,
    pub(super) array: Array<PartEnv<E>>,
    pub(super) mirror: Array<PartEnv<E>>,
    pub(super) log: Log<Array<PartEnv<E>>>,
    pub(super) grid: Grid,
    pub(super) policy: Policy,
    pub(super) extents: RefCell<Extents>,
    pub(super) locks: RangeLocks,
    pub(super) reads: RefCell<Reads>,
    pub(super) seen: RefCell<Seen>,
    /// Requests of users under way.
    pub(super) requests: Cell<u64>,
    /// When the last of them began or ended.
    pub(super) last_request: Cell<Nanos>,
    pub(super) emptying: Cell<bool>,
    pub(super) reclaim_turn: Turn,
    pub(super) replace_turn: Turn,
    /// The place of a new drive that is being filled.
    pub(super) rebuilding: Cell<Option<usize>>,
    /// Nothing is rebuilt for the time being.
    pub(super) held: Cell<bool>,
}

/// A handle on an open array; clones name the same.
pub struct LogMirror<E: Env> {
    pub(super) inner: Rc<Inner<E>>,
}

impl<E: Env> Clone for LogMirror<E> {
    fn clone(&self) -> LogMirror<E> {
        LogMirror { inner: self.inner.clone() }
    }
}

impl<E: Env> LogMirror<E> {
    pub(in crate::scheme) async fn open_as(
        shape: Shape,
        env: &E,
        drives: Vec<E::Drive>,
        options: Options,
    ) -> Result<LogMirror<E>, StoreError> {
        let set = Set::open(drives).await?;
        shape.check(&set)?;
        let both = [
            (shape.array(set.len()), shape.array_parts(&set)),
            (shape.log(set.len()), shape.log_parts(&set)),
        ];
        let [array, mirror] = ages::open(env, &set, both, options.arrays).await?;
        let (log, extents) = replay(&mirror, set.label.pool, array.grid(), array.size()).await?;
        let inner = Inner {
            env: env.clone(),
            shape,
            set: RefCell::new(set),
            grid: array.grid(),
            array,
            mirror,
            log,
            policy: options.policy,
            extents: RefCell::new(extents),
            locks: RangeLocks::default(),
            reads: RefCell::new(Reads::new(&options.policy)),
            seen: RefCell::default(),
            requests: Cell::new(0),
            last_request: Cell::new(env.now()),
            emptying: Cell::new(false),
            reclaim_turn: Turn::new(),
            replace_turn: Turn::new(),
            rebuilding: Cell::new(None),
            held: Cell::new(false),
        };
        let opened = LogMirror { inner: Rc::new(inner) };
        opened.tell_ages().await;
        Ok(opened)
    }
}

/// The Map_table, from the log.
async fn replay<E: Env>(
    mirror: &Array<E>,
    pool: Uuid,
    grid: Grid,
    size: u64,
) -> Result<(Log<Array<E>>, Extents), StoreError> {
    let mut extents = Extents::new(grid.stripe_bytes());
    let mut strange = None;
    let note = |found: Found| {
        let end = found.address.checked_add(found.len).filter(|end| *end <= size);
        match (found.kind, end) {
            (DATA, Some(end)) if found.data == found.len && found.len > 0 => {
                extents.put(found.address..end, found.place);
            }
            (VOID, Some(end)) if found.data == 0 => extents.remove(found.address..end),
            _ => strange = Some(found.place.record),
        }
    };
    let log = Log::open(mirror.clone(), pool, note).await?;
    match strange {
        // Its checksum is right, so it was written like this.
        Some(record) => Err(StoreError::Damaged(format!("the record at {record} of the log"))),
        None => Ok((log, extents)),
    }
}

impl<E: Env> Inner<E> {
    pub(super) fn mode(&self) -> Mode {
        match (self.mirror.lost().is_empty(), self.array.lost().is_empty()) {
            (false, _) => Mode::Direct,
            (true, false) => Mode::Surrogate,
            (true, true) => Mode::Normal,
        }
    }

    /// Bytes of the log that only records that void may take.
    pub(super) fn kept_free(&self) -> u64 {
        (VOIDS * PAGE).min(self.log.capacity() / 8)
    }

    pub(super) fn facts(&self) -> Facts {
        let (reads, log_reads) = self.reads.borrow().counts();
        Facts {
            used: self.log.used(),
            capacity: self.log.capacity(),
            live: self.extents.borrow().oldest().is_some(),
            requests: self.requests.get(),
            quiet: self.env.now().saturating_sub(self.last_request.get()),
            log_drive_lost: !self.mirror.lost().is_empty(),
            data_drive_lost: !self.array.lost().is_empty(),
            reads,
            log_reads,
            emptying: self.emptying.get(),
        }
    }

    pub(super) fn see(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.seen.borrow_mut());
    }
}

impl<E: Env> Store for LogMirror<E> {
    fn size(&self) -> u64 {
        self.inner.array.size()
    }

    fn unit(&self) -> u64 {
        self.inner.grid.stripe_bytes()
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        check_range(offset, len, self.size())?;
        let _request = self.inner.request();
        self.inner.read(offset..offset + len).await
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        check_range(offset, data.len() as u64, self.size())?;
        let _request = self.inner.request();
        self.inner.write(offset, data, fua).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        check_range(offset, len, self.size())?;
        self.inner.discard(offset..offset + len).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let array = async { Ok(self.inner.array.flush().await?) };
        let (log, array) = futures_util::future::join(self.inner.log.flush(), array).await;
        log.and(array)
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.flush().await?;
        self.inner.array.clone().close().await?;
        self.inner.mirror.clone().close().await?;
        self.tell_losses().await;
        Ok(())
    }

    async fn work(&self) -> Result<bool, StoreError> {
        self.tell_losses().await;
        let Inner { array, mirror, .. } = &*self.inner;
        // Side by side: what is migrated from the log drive that is left, and what is copied.
        let (rebuilt, destaged) =
            futures_util::future::join(self.inner.rebuild_some(), self.inner.work()).await;
        Ok(destaged? || rebuilt || array.resync().await? || mirror.resync().await?)
    }

    fn owed(&self) -> u64 {
        Store::owed(&self.inner.array) + Store::owed(&self.inner.mirror)
    }

    fn marks(&self) -> u64 {
        Store::marks(&self.inner.array) + Store::marks(&self.inner.mirror)
    }

    fn margin(&self) -> usize {
        Store::margin(&self.inner.array).min(Store::margin(&self.inner.mirror))
    }

    fn shape(&self) -> String {
        let shared = match self.inner.shape {
            Shape::Apart => "",
            Shape::Shared => ", one of them that with the parity",
        };
        format!("{}, a log on {}{shared}", self.inner.grid, self.inner.mirror.grid())
    }

    fn sit_out(&self, drive: usize, out: bool) {
        let Inner { array, mirror, shape, set, .. } = &*self.inner;
        let drives = set.borrow().len();
        // Shared, a drive is of both.
        if shape.array(drives).contains(&drive) {
            array.sit_out(drive, out);
        }
        if let Some(at) = drive.checked_sub(shape.log(drives).start) {
            mirror.sit_out(at, out);
        }
    }

    fn lost(&self) -> Vec<usize> {
        let Inner { array, mirror, shape, set, .. } = &*self.inner;
        let of_log = shape.log(set.borrow().len()).start;
        let log = mirror.lost().into_iter().map(|at| of_log + at);
        let all: BTreeSet<usize> = array.lost().into_iter().chain(log).collect();
        all.into_iter().collect()
    }

    fn counters(&self) -> Counters {
        let (inner, seen) = (&self.inner, *self.inner.seen.borrow());
        let extents = inner.extents.borrow();
        vec![
            ("log_writes", seen.log_writes),
            ("log_bytes", seen.log_bytes),
            ("surrogate_writes", seen.surrogate_writes),
            ("direct_writes", seen.direct_writes),
            ("direct_log_full", seen.direct_full),
            ("direct_log_drive_lost", seen.direct_degraded),
            ("voids", seen.voids),
            ("reads", seen.reads),
            ("log_reads", seen.log_reads),
            ("destaged_stripes", seen.destaged_stripes),
            ("destaged_whole", seen.destaged_whole),
            ("destaged_bytes", seen.destaged_bytes),
            ("filled_bytes", seen.filled_bytes),
            ("destaged_for_reads", seen.for_reads),
            ("migrated_stripes", seen.migrated_stripes),
            ("rebuilt_drives", seen.rebuilt_drives),
            ("waits_for_room", seen.waits),
            ("log_used", inner.log.used()),
            ("log_live", extents.live_bytes()),
            ("map_ranges", extents.len() as u64),
        ]
    }

    fn kept(&self) -> AllKept {
        care::kept([&self.inner.array, &self.inner.mirror])
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let inner = &self.inner;
        let mut wrong = inner.extents.borrow().audit(inner.log.tail()..inner.log.end());
        wrong.extend(Store::audit(&inner.array, offset, len).await);
        let copies = Store::audit(&inner.mirror, 0, inner.log.capacity()).await;
        wrong.extend(copies.into_iter().map(|copy| format!("log: {copy}")));
        wrong
    }
}
