//! `log-mirror`: LDM, log disk mirroring.
//!
//! Idea: small writes are appended to a log on a mirrored pair of drives of its own, and reach the
//! parity array later, merged, when the array is idle. Writing them costs no parity and no read,
//! and the pair only ever writes sequentially, so two hard disks do (or two SSDs: S-LDM).
//!
//! ```text
//!   less than a stripe                        a whole stripe
//!   log drives  [ ... | header new ][ ... | header new ]
//!   array       [    ][    ][    ][    ]      [ new ][ new ][ new ][ parity ]
//!        later: [    ][ new][    ][par.]      what lay in the log there is void, and says so
//! ```
//!
//! Durable at acknowledgement (FUA or after FLUSH): the record with all before it on both log
//! drives; of a whole stripe data and parity, and the record that voids what the log had there.
//! There is no Map_table in NVRAM: records name their addresses, and opening reads the log. A
//! destaged range is durable in the array before its space in the log is free.
//! One failure: of a data drive: parity; all writes go to the log while it has room (surrogate). Of
//! a log drive: the other one; writes go to the array and the log is emptied into it at once.
//! Two failures: one of each kind at the same time; two data drives with two parities. Not both log
//! drives while something lies only there.
//! Device writes per user write: 2 (⌈n / 4 KiB⌉ + 1) pages for n bytes to the log (writes that come
//! at once share the 1), no reads unless it begins or ends within a page. Destaged: data and
//! parity of a stripe once, k + p chunks, if all of it came together; else a read-modify-write for
//! each run of neighbours, or the gaps are logged, too, whichever moves fewer bytes. Whole
//! stripes: k + p chunks, and two pages if the log had something there.
//! Source: Wu, Mao, Chen, Jiang, LDM, ACM TOS 12(4), 2016, §3.2 to §3.6. Here whole stripes within
//! a longer request go to the array and its ends to the log; in the paper all of it to the array.

mod destage;
pub mod plan;
pub mod policy;
mod requests;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use classical::{Array, CreateSpec, Grid, OpenOptions, Redundancy};
use format::{SCHEME_LOG_MIRROR, Uuid};
use io::sync::Turn;
use io::{Buf, Env};

use self::plan::Mode;
use self::policy::{Facts, Policy, Reads};
use crate::extents::Extents;
use crate::locks::RangeLocks;
use crate::log::record::PAGE;
use crate::log::{Found, Log};
use crate::part::PartEnv;
use crate::set::{Set, SetSpec};
use crate::store::{Counters, Store, StoreError, check_range};

/// Log drives: a mirrored pair.
pub const LOG_DRIVES: usize = 2;
/// Kinds of entries of the log.
const DATA: u16 = 1;
/// All that lies before in the log of this range counts no more.
const VOID: u16 = 2;
/// Room that is kept for records that void: without one nothing can be written in place where the
/// log has something. As many whole stripes can be under way at once.
const VOIDS: u64 = 64;
/// The log's tail is moved when this part of it would come free: an anchor is a write of its own.
const FREE_PARTS: u64 = 32;

/// What an array is to be like.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    /// Drives of the parity array; two more are the log.
    pub data_drives: usize,
    /// 1 (RAID5) or 2 (RAID6).
    pub parity: usize,
    pub chunk: u64,
    /// Chunk of the mirror: a record that crosses one is written in two pieces.
    pub log_chunk: u64,
    /// Bytes of the log drives that are used; `None`: all.
    pub log_bytes: Option<u64>,
}

impl Spec {
    /// Four SSDs with chunks of 16 KiB, as in §3.3.
    pub fn new(name: &str, data_drives: usize) -> Spec {
        Spec {
            name: name.to_owned(),
            data_drives,
            parity: 1,
            chunk: 16 << 10,
            log_chunk: 256 << 10,
            log_bytes: None,
        }
    }

    fn check(&self, drives: usize) -> Result<(), StoreError> {
        let shape = |what: String, hint| Err(StoreError::Shape { what, hint });
        if !(1..=2).contains(&self.parity) {
            return shape(format!("{} parities", self.parity), "use 1 (RAID5) or 2 (RAID6)");
        }
        if drives != self.data_drives + LOG_DRIVES {
            let what = format!("{drives} drives for {} data drives", self.data_drives);
            return shape(what, "give two more than data drives: the last two are the log");
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub arrays: OpenOptions,
    pub policy: Policy,
}

/// What a researcher wants to see.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    log_writes: u64,
    log_bytes: u64,
    surrogate_writes: u64,
    direct_writes: u64,
    direct_full: u64,
    direct_degraded: u64,
    voids: u64,
    reads: u64,
    log_reads: u64,
    destaged_stripes: u64,
    destaged_whole: u64,
    destaged_bytes: u64,
    filled_bytes: u64,
    for_reads: u64,
    migrated_stripes: u64,
    waits: u64,
}

struct Inner<E: Env> {
    array: Array<PartEnv<E>>,
    mirror: Array<PartEnv<E>>,
    log: Log<Array<PartEnv<E>>>,
    grid: Grid,
    policy: Policy,
    extents: RefCell<Extents>,
    locks: RangeLocks,
    reads: RefCell<Reads>,
    seen: RefCell<Seen>,
    /// Requests of users under way.
    requests: Cell<u64>,
    emptying: Cell<bool>,
    reclaim_turn: Turn,
}

/// A handle on an open array; clones name the same.
pub struct LogMirror<E: Env> {
    inner: Rc<Inner<E>>,
}

impl<E: Env> Clone for LogMirror<E> {
    fn clone(&self) -> LogMirror<E> {
        LogMirror { inner: self.inner.clone() }
    }
}

/// Makes an array: first the data drives, then the two log drives. What is on them is gone.
pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    spec.check(drives.len())?;
    let split = spec.data_drives;
    let named = SetSpec {
        name: spec.name.clone(),
        scheme: SCHEME_LOG_MIRROR,
        split,
        chunk: spec.chunk,
        side: 0,
    };
    let set = Set::plan(env, drives, &named)?;
    let env = PartEnv::new(env.clone());
    let array = CreateSpec {
        name: spec.name.clone(),
        redundancy: Redundancy::Parity(spec.parity),
        width: split,
        chunk: spec.chunk,
    };
    classical::array::create(&env, &set.first(0..split), &array).await?;
    let pair = set.first(split..drives.len());
    let mirror = CreateSpec {
        redundancy: Redundancy::Mirror,
        width: LOG_DRIVES,
        chunk: spec.log_chunk,
        ..array
    };
    classical::array::create(&env, &pair, &mirror).await?;
    let mirror = Array::open(&env, pair, OpenOptions::default()).await?;
    let bytes = spec.log_bytes.unwrap_or(u64::MAX);
    Log::create(&mirror, set.label.pool, bytes).await?;
    mirror.close().await?;
    set.write_labels().await
}

impl<E: Env> LogMirror<E> {
    /// Opens an array. Data drives up to the parities and one log drive may be missing.
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: Options,
    ) -> Result<LogMirror<E>, StoreError> {
        let set = Set::open(drives).await?;
        let split = usize::from(set.label.group);
        if set.label.scheme != SCHEME_LOG_MIRROR || split + LOG_DRIVES != set.len() {
            return Err(StoreError::NoLabel);
        }
        let env = PartEnv::new(env.clone());
        let array = Array::open(&env, set.first(0..split), options.arrays).await?;
        let mirror = Array::open(&env, set.first(split..set.len()), options.arrays).await?;
        let (log, extents) = replay(&mirror, set.label.pool, array.size()).await?;
        let inner = Inner {
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
            emptying: Cell::new(false),
            reclaim_turn: Turn::new(),
        };
        Ok(LogMirror { inner: Rc::new(inner) })
    }
}

/// The Map_table, from the log.
async fn replay<E: Env>(
    mirror: &Array<PartEnv<E>>,
    pool: Uuid,
    size: u64,
) -> Result<(Log<Array<PartEnv<E>>>, Extents), StoreError> {
    let mut extents = Extents::default();
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
    fn mode(&self) -> Mode {
        match (self.mirror.lost().is_empty(), self.array.lost().is_empty()) {
            (false, _) => Mode::Direct,
            (true, false) => Mode::Surrogate,
            (true, true) => Mode::Normal,
        }
    }

    /// Bytes of the log that only records that void may take.
    fn kept_free(&self) -> u64 {
        (VOIDS * PAGE).min(self.log.capacity() / 8)
    }

    fn facts(&self) -> Facts {
        let (reads, log_reads) = self.reads.borrow().counts();
        Facts {
            used: self.log.used(),
            capacity: self.log.capacity(),
            live: self.extents.borrow().oldest().is_some(),
            requests: self.requests.get(),
            log_drive_lost: !self.mirror.lost().is_empty(),
            data_drive_lost: !self.array.lost().is_empty(),
            reads,
            log_reads,
            emptying: self.emptying.get(),
        }
    }

    fn see(&self, note: impl FnOnce(&mut Seen)) {
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

    async fn flush(&self) -> Result<(), StoreError> {
        let array = async { Ok(self.inner.array.flush().await?) };
        let (log, array) = futures_util::future::join(self.inner.log.flush(), array).await;
        log.and(array)
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.flush().await?;
        self.inner.array.clone().close().await?;
        Ok(self.inner.mirror.clone().close().await?)
    }

    async fn work(&self) -> Result<bool, StoreError> {
        let Inner { array, mirror, .. } = &*self.inner;
        Ok(self.inner.work().await? || array.resync().await? || mirror.resync().await?)
    }

    fn owed(&self) -> u64 {
        Store::owed(&self.inner.array) + Store::owed(&self.inner.mirror)
    }

    fn margin(&self) -> usize {
        Store::margin(&self.inner.array).min(Store::margin(&self.inner.mirror))
    }

    fn shape(&self) -> String {
        format!("{}, a log on {}", self.inner.grid, self.inner.mirror.grid())
    }

    fn lost(&self) -> Vec<usize> {
        let split = self.inner.grid.drives;
        let pair = self.inner.mirror.lost().into_iter().map(|drive| split + drive);
        self.inner.array.lost().into_iter().chain(pair).collect()
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
            ("waits_for_room", seen.waits),
            ("log_used", inner.log.used()),
            ("log_live", extents.live_bytes()),
            ("map_ranges", extents.len() as u64),
        ]
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
