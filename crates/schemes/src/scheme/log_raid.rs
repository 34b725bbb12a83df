//! `log-raid`: one log over groups of RAID5
//!
//! Idea: the drives form groups of RAID5 that are striped across, as with `raid50`; on them nothing
//! is overwritten. All writes, wherever they go, are appended to one log that fills stripe after
//! stripe, with a header that says what they are. What was written before becomes garbage;
//! background work moves what counts out of the segments that hold least.
//!
//! ```text
//!   6 drives, two groups                       writes A, B, C of anywhere
//!   d0   d1   d2 | d3   d4   d5
//!    h    A    P | ..   ..    P                log    d2: partial parity
//!                                              write  d0: header, d1: A, d2: P
//!    h    A    P |  C         P                then B and C together: header and B at the end of
//!                                              A's stripe, C at the beginning of the next
//! ```
//!
//! Durable at acknowledgement: data and parity, as `raid5`, and in the same stripes the header. A
//! stripe that is filled in part has its parity like any other: FLUSH flushes the drives, nothing
//! else.
//! One failure: nothing is lost, in each group.
//! Two failures: nothing is lost unless both are in one group; then all data is lost.
//! Device writes per user write: those of `raid50` for the data and a header of 4 KiB, at the end
//! of the log: one record is on its way at a time, and what comes meanwhile joins the next, of one
//! stripe's length at most. Less than a block of 4 KiB: the block is read, and written whole. Later
//! the same for each block that is moved, nearly none in a log that is half full and at worst some
//! four for each block written. Four fifths of the RAID50's space are offered; memory: 4 bytes for
//! each block.
//! The paper shows what is wrong with it: one stream keeps one or two groups busy while the others
//! wait, and each write still takes the way of RAID5 through parity and its log.
//! Source: FusionRAID §5.1 and §5.2 (LogRAID).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use classical::{Array, CreateSpec, Redundancy};
use format::{SCHEME_LOG_RAID, Uuid};
use io::{Buf, Env, join_all};

use super::OpenOptions;
use crate::arrays::{Arrays, OnArrays};
use crate::care::{self, AllKept};
use crate::part::{PartEnv, on_parts};
use crate::segments::SegmentLog;
use crate::segments::bytes::{BLOCKS_MAX, Head, NO_MATE, PAGE};
use crate::segments::medium::{Found, Medium};
use crate::segments::size::{self, RESERVE, Shape, TARGET, offered};
use crate::set::{Set, SetSpec};
use crate::store::{Counters, Store, StoreError};

/// Heads of segments that are read at once when the log is opened. Places are used the lowest
/// first, and a crash takes fewer heads than this: after as many without one none was ever used.
const HEADS_AT_ONCE: usize = 64;

/// What a pool is to be like.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    /// Drives of a group.
    pub width: usize,
    pub chunk: u64,
    /// Bytes of a segment, in whole stripes; else as is good for the drives' size.
    pub segment: Option<u64>,
    /// Every page has a checksum on other drives.
    pub checksums: bool,
}

/// Places of segments on a RAID50.
struct Stripes<E: Env> {
    array: Array<PartEnv<E>>,
    segment_bytes: u64,
    free: RefCell<BTreeSet<u32>>,
}

impl<E: Env> Stripes<E> {
    fn at(&self, number: u32, at: u64) -> u64 {
        u64::from(number) * self.segment_bytes + at
    }

    fn free(&self) -> u32 {
        self.free.borrow().len() as u32
    }
}

impl<E: Env> Medium for Stripes<E> {
    fn numbers(&self) -> u32 {
        (self.array.size() / self.segment_bytes) as u32
    }

    /// One stream.
    fn heads(&self) -> usize {
        1
    }

    /// A stripe's: it lies in two groups at most.
    fn record_blocks(&self) -> usize {
        ((self.array.grid().stripe_bytes() / PAGE) as usize).clamp(2, BLOCKS_MAX + 1) - 1
    }

    async fn scan(&self, pool: &Uuid) -> Result<Vec<Found>, StoreError> {
        let (numbers, mut found): (Vec<u32>, _) = ((0..self.numbers()).collect(), Vec::new());
        for some in numbers.chunks(HEADS_AT_ONCE) {
            let reads = some.iter().map(|number| self.array.read(self.at(*number, 0), PAGE));
            let before = found.len();
            for (number, read) in some.iter().zip(join_all(reads).await) {
                let head = Head::decode(pool, &read?).filter(|head| head.number == *number);
                found.extend(head.map(|head| Found { head }));
            }
            if found.len() == before {
                break;
            }
        }
        let taken: BTreeSet<u32> = found.iter().map(|found| found.head.number).collect();
        self.free.borrow_mut().extend(numbers.into_iter().filter(|at| !taken.contains(at)));
        Ok(found)
    }

    fn take(&self, cleaner: bool) -> Option<(u32, u32)> {
        let keep = if cleaner { 0 } else { RESERVE };
        if self.free() <= keep {
            return None;
        }
        let number = self.free.borrow_mut().pop_first()?;
        Some((number, NO_MATE))
    }

    fn give_back(&self, number: u32) {
        let is_new = self.free.borrow_mut().insert(number);
        assert!(is_new, "a place is given back once");
    }

    fn room(&self) -> u32 {
        self.free().saturating_sub(RESERVE)
    }

    fn gain(&self, _: u32) -> u32 {
        u32::from(self.free() < TARGET)
    }

    fn cost(&self) -> u32 {
        u32::from(self.free() <= TARGET)
    }

    /// Parity is the array's.
    fn is_whole(&self, _: u32) -> bool {
        true
    }

    async fn write(
        &self,
        number: u32,
        at: u64,
        data: Buf,
        through: bool,
    ) -> Result<(), StoreError> {
        Ok(self.array.write(self.at(number, at), data, through).await?)
    }

    /// The array looks after its pages by itself.
    async fn read(&self, number: u32, at: u64, len: u64, _: &[u32]) -> Result<Buf, StoreError> {
        Ok(self.array.read(self.at(number, at), len).await?)
    }

    async fn read_copies(&self, number: u32, at: u64, len: u64) -> Result<Vec<Buf>, StoreError> {
        Ok(vec![self.read(number, at, len, &[]).await?])
    }

    async fn flush(&self) -> Result<(), StoreError> {
        Ok(self.array.flush().await?)
    }
}

pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    let Spec { width, chunk, .. } = *spec;
    let (name, scheme, split) = (spec.name.clone(), SCHEME_LOG_RAID, drives.len());
    let own = SetSpec { name: name.clone(), scheme, split, chunk, side: 0 };
    let mut set = Set::plan(env, drives, &own)?;
    let array = CreateSpec {
        name,
        redundancy: Redundancy::Parity(1),
        width,
        chunk,
        checksums: spec.checksums,
    };
    let parts = set.first(0..set.len());
    let grid = classical::array::create(&on_parts(env), &parts, &array).await?;
    let stripe = grid.stripe_bytes();
    let segment = spec.segment.unwrap_or_else(|| size::segment_bytes(grid.size(), stripe));
    let least = size::SEGMENT_MIN.next_multiple_of(stripe);
    let most = size::SEGMENT_MAX.max(least);
    if !(least..=most).contains(&segment) || !segment.is_multiple_of(stripe) {
        let what = format!("segments of {segment} bytes on stripes of {stripe}");
        return Err(StoreError::Shape { what, hint: "give whole stripes, 64 KiB to 16 MiB" });
    }
    set.label.zone_bytes = segment;
    plan(grid.size(), segment)?;
    set.write_labels().await
}

/// Blocks offered on an array of this size.
fn plan(size: u64, segment: u64) -> Result<u32, StoreError> {
    let (shape, places) = (Shape::of(segment, false), size / segment);
    if places * u64::from(shape.pages) >= u64::from(u32::MAX) {
        return Err(StoreError::Shape {
            what: format!("a log of {size} bytes"),
            hint: "a log has 16 TiB at most: give fewer drives",
        });
    }
    // What is appended to, and what the cleaner appends to.
    let blocks = offered(shape, places, None, 2 + u64::from(TARGET));
    if blocks == 0 {
        let least = segment * (2 * u64::from(TARGET));
        return Err(StoreError::Small { size, least });
    }
    Ok(blocks as u32)
}

/// A handle: clones name the same.
pub struct LogRaid<E: Env> {
    log: SegmentLog<E, Stripes<E>>,
    arrays: Rc<Arrays<E>>,
}

impl<E: Env> Clone for LogRaid<E> {
    fn clone(&self) -> LogRaid<E> {
        LogRaid { log: self.log.clone(), arrays: self.arrays.clone() }
    }
}

impl<E: Env> LogRaid<E> {
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: OpenOptions,
    ) -> Result<LogRaid<E>, StoreError> {
        let set = Set::open(drives).await?;
        let parts = set.first(0..set.len());
        let array = Array::open(&on_parts(env), parts, options.into()).await?;
        let (segment, stripe) = (set.label.zone_bytes, array.grid().stripe_bytes());
        if !segment.is_multiple_of(stripe) || segment < size::SEGMENT_MIN {
            return Err(StoreError::Damaged("the label of the set".into()));
        }
        let blocks = plan(array.size(), segment)?;
        let stripes = Stripes { array, segment_bytes: segment, free: Default::default() };
        let (pool, shape) = (set.label.pool, Shape::of(segment, false));
        let log = SegmentLog::open(env, stripes, pool, shape, blocks).await?;
        let array = log.medium().array.clone();
        Ok(LogRaid { log, arrays: Rc::new(Arrays::new(env, set, vec![array])) })
    }

    fn array(&self) -> &Array<PartEnv<E>> {
        &self.log.medium().array
    }
}

impl<E: Env> Store for LogRaid<E> {
    fn size(&self) -> u64 {
        self.log.size()
    }

    fn unit(&self) -> u64 {
        PAGE
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        self.log.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        self.log.write(offset, data, fua).await
    }

    /// Nothing is told: no record says that a block is nobody's, so a crash would bring back what a
    /// segment held whose drives do not have it any more.
    async fn discard(&self, _offset: u64, _len: u64) -> Result<(), StoreError> {
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.log.flush().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.log.close().await?;
        Store::close(self.array()).await
    }

    async fn work(&self) -> Result<bool, StoreError> {
        Ok(self.log.work().await? || self.array().work().await?)
    }

    fn owed(&self) -> u64 {
        Store::owed(self.array())
    }

    fn marks(&self) -> u64 {
        Store::marks(self.array())
    }

    fn sit_out(&self, drive: usize, out: bool) {
        self.arrays.sit_out(drive, out);
    }

    fn lost(&self) -> Vec<usize> {
        Array::lost(self.array())
    }

    fn margin(&self) -> usize {
        Store::margin(self.array())
    }

    fn shape(&self) -> String {
        format!("a log on {}", self.array().grid())
    }

    fn counters(&self) -> Counters {
        self.log.counters()
    }

    fn kept(&self) -> AllKept {
        care::kept([self.array()])
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let mut wrong = self.log.audit(offset, len).await;
        wrong.extend(Store::audit(self.array(), 0, self.array().size()).await);
        wrong
    }
}

impl<E: Env> OnArrays for LogRaid<E> {
    type World = E;

    fn arrays(&self) -> &Arrays<E> {
        &self.arrays
    }
}
