//! `mirror-log`: groups of drives, each a log of which everything is on two drives
//!
//! Idea: the drives form groups (two, unless `--width` says otherwise) that share nothing, as with
//! `n-raid5`. In a group nothing is overwritten: every write is appended twice, to a segment on one
//! drive and to its twin on another, and the pairs of drives take turns. No parity, and nothing is
//! read to write whole blocks of 4 KiB. What was written before becomes garbage; background work
//! moves what counts out of the segments that hold least.
//!
//! ```text
//!   3 drives of a group, writes A, B, C, D     write of B
//!   d0   d1   d2
//!    A    A                                    write  d1: header, B
//!         B    B                               write  d2: header, B
//!    C         C
//!    D    D
//! ```
//!
//! Durable at acknowledgement: both copies, and in the same writes the header that says what they
//! are. FLUSH flushes the drives, nothing else.
//! One failure: nothing is lost, in each group. New writes go to two of the drives that are left,
//! and background work copies what has one copy only, as there is room. Of a group of two drives
//! one is left: what is written then has one copy.
//! Two failures: nothing is lost unless both are in one group, the second before everything there
//! has two copies again; then all data of the pool is out of reach.
//! Device writes per user write: 2, each of the data and a header of 4 KiB; writes that come
//! together share a record. Less than a block: the block is read, and written whole. Later 2 for
//! each block that is moved: nearly none in a log that is half full, at worst some four for each
//! block written. All of it takes twice its size; of the half that is left four fifths are offered,
//! less in groups of fewer than nine drives, so that after the loss of one everything fits the
//! others twice. Memory: 4 bytes for each block.
//! Rot: the checksums in the records are kept at the end of full segments and in memory, another 4
//! bytes for each block: what is read, and what is moved, is held against them, and put right from
//! the other copy. A scrub does the same with all copies; where rot left so little of one that
//! nothing shows it to be one, what counts is moved, so that everything has two again.
//! Source: FusionRAID §5.3 (4-RAIDM).

mod heal;
pub mod mirrors;
pub mod pairs;
mod replace;

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use format::{
    INCOMPAT_GROUP_LOGS, INCOMPAT_LOG_SUMS, MemberState, SCHEME_MIRROR_LOG, Superblock, Uuid,
};
use io::wait::{Wait, told};
use io::{Buf, Drive, Env, join_all};

pub use self::replace::Drives;

use self::mirrors::{Mirrors, TOLERANCE};
use crate::apart::Apart;
use crate::care::AllKept;
use crate::losses::Losses;
use crate::segments::SegmentLog;
use crate::segments::size::{self, Shape, TARGET, offered};
use crate::set::{Set, SetSpec, uuid_of_group};
use crate::store::{Counters, Store, StoreError};

/// What a pool is to be like.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    /// Drives of a group.
    pub width: usize,
    /// Segments are multiples of it.
    pub chunk: u64,
    /// Bytes of a segment; else as is good for the drives' size.
    pub segment: Option<u64>,
    /// Reads are held against checksums.
    pub checksums: bool,
}

/// Of the segments of a pool.
fn shape_of(label: &Superblock) -> Shape {
    Shape::of(label.zone_bytes, label.features.incompat & INCOMPAT_LOG_SUMS != 0)
}

/// Of the segments of a group that begins at this place of the set.
fn uuid_of(label: &Superblock, first: usize) -> Uuid {
    uuid_of_group(label, first / usize::from(label.group))
}

/// Places of segments, and blocks offered by a group of so many drives.
fn plan(
    width: usize,
    space: u64,
    (segment, shape): (u64, Shape),
) -> Result<(u32, u32), StoreError> {
    let (places, drives) = (space / segment, width as u64);
    if drives * places * u64::from(shape.pages) >= u64::from(u32::MAX) {
        return Err(StoreError::Shape {
            what: format!("groups of {width} drives of {space} bytes"),
            hint: "a group has 16 TiB at most: give a smaller --width",
        });
    }
    let degraded = (width > 2).then_some((drives - 1) * places / 2);
    let beside = drives + 1 + (drives * u64::from(TARGET)).div_ceil(2);
    let blocks = offered(shape, drives * places / 2, degraded, beside);
    if blocks == 0 {
        let size = places * segment;
        // With so many in a group, each has to have some segments beyond those kept free.
        let least = segment * (4 * u64::from(TARGET) + 8);
        return Err(StoreError::Small { size, least });
    }
    Ok((places as u32, blocks as u32))
}

pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    let width = spec.width;
    if width < 2 || !drives.len().is_multiple_of(width) {
        let what = format!("{} drives do not divide into groups of {width}", drives.len());
        return Err(StoreError::Shape { what, hint: "give another --width or number of drives" });
    }
    let (name, scheme, chunk) = (spec.name.clone(), SCHEME_MIRROR_LOG, spec.chunk);
    let mut set = Set::plan(env, drives, &SetSpec { name, scheme, split: width, chunk, side: 0 })?;
    let space = set.label.zones.len;
    let segment = spec.segment.unwrap_or_else(|| size::segment_bytes(space, chunk));
    if segment < size::SEGMENT_MIN || segment > size::SEGMENT_MAX.max(chunk) {
        let what = format!("segments of {segment} bytes");
        return Err(StoreError::Shape { what, hint: "give a --block-size from 64 KiB to 16 MiB" });
    }
    set.label.zone_bytes = segment;
    if spec.checksums {
        set.label.features.incompat |= INCOMPAT_LOG_SUMS;
    }
    if drives.len() > width {
        set.label.features.incompat |= INCOMPAT_GROUP_LOGS;
    }
    plan(width, space, (segment, shape_of(&set.label)))?;
    set.write_labels().await
}

pub type MirrorLog<E> = Apart<Group<E>, Drives<E>>;

/// The log of one group. A handle: clones name the same.
pub struct Group<E: Env> {
    log: SegmentLog<E, Mirrors<E::Drive>>,
    /// Segments that lacked a copy when a new drive came.
    lacking: Rc<Cell<u64>>,
    /// Nothing is moved for the sake of a new drive for the time being.
    held: Rc<Cell<bool>>,
}

impl<E: Env> Clone for Group<E> {
    fn clone(&self) -> Group<E> {
        Group { log: self.log.clone(), lacking: self.lacking.clone(), held: self.held.clone() }
    }
}

impl<E: Env> MirrorLog<E> {
    pub async fn open(env: &E, drives: Vec<E::Drive>) -> Result<MirrorLog<E>, StoreError> {
        let set = Set::open(drives).await?;
        let (width, segment) = (usize::from(set.label.group), set.label.zone_bytes);
        if width < 2 || !set.len().is_multiple_of(width) || segment < size::SEGMENT_MIN {
            return Err(StoreError::Damaged("the label of the set".into()));
        }
        let losses = Rc::new(Losses::new(&set));
        let groups = (0..set.len()).step_by(width);
        let groups = groups
            .map(|first| Group::<E>::find(&set, first..first + width, segment, losses.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        // Before anything is told: a set that can't be opened loses nobody by the attempt.
        groups.iter().try_for_each(|(mirrors, _)| mirrors.check())?;
        losses.tell_again().await;
        let groups = groups.into_iter().map(|found| Group::open(env, &set, found));
        let groups: Vec<Group<E>> = join_all(groups).await.into_iter().collect::<Result<_, _>>()?;
        Ok(Apart::new(groups, width, Drives::new(env, set, losses)))
    }
}

impl<E: Env> Group<E> {
    /// Its drives, and how many blocks they have room for.
    fn find(
        set: &Set<E::Drive>,
        own: Range<usize>,
        segment: u64,
        losses: Rc<Losses<E::Drive>>,
    ) -> Result<(Mirrors<E::Drive>, u32), StoreError> {
        let drive = |place: usize| {
            let active = set.label.members[place].state == MemberState::Active;
            set.first_of(own.clone(), place).filter(|_| active)
        };
        let drives: Vec<_> = own.clone().map(drive).collect();
        let space = set.space(own.clone());
        let shape = shape_of(&set.label);
        let (places, blocks) = plan(own.len(), space, (segment, shape))?;
        debug_assert!(drives.iter().flatten().all(|part| part.geometry().size == space));
        Ok((Mirrors::new(drives, own.start, losses, shape, places), blocks))
    }

    async fn open(
        env: &E,
        set: &Set<E::Drive>,
        (mirrors, blocks): (Mirrors<E::Drive>, u32),
    ) -> Result<Group<E>, StoreError> {
        // What is not there misses what is written from now on.
        mirrors.record_losses().await?;
        let (pool, shape) = (uuid_of(&set.label, mirrors.first()), shape_of(&set.label));
        let log = SegmentLog::open(env, mirrors, pool, shape, blocks).await?;
        Ok(Group { log, lacking: Rc::default(), held: Rc::default() })
    }
}

impl<E: Env> Store for Group<E> {
    fn size(&self) -> u64 {
        self.log.size()
    }

    fn unit(&self) -> u64 {
        crate::segments::bytes::PAGE
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        told(self.log.env(), Wait::Drives, self.log.read(offset, len)).await
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
        told(self.log.env(), Wait::Drives, self.log.flush()).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.log.close().await
    }

    async fn work(&self) -> Result<bool, StoreError> {
        Ok(self.log.work().await? || self.settle().await?)
    }

    fn owed(&self) -> u64 {
        0
    }

    /// It has no array in place.
    fn marks(&self) -> u64 {
        0
    }

    fn sit_out(&self, drive: usize, out: bool) {
        self.log.medium().sit_out(drive, out);
    }

    fn lost(&self) -> Vec<usize> {
        self.log.medium().lost()
    }

    fn margin(&self) -> usize {
        let mirrors = self.log.medium();
        let others = mirrors.there().saturating_sub(mirrors.filling().len() + 1);
        TOLERANCE.saturating_sub(mirrors.missed().len()).min(others)
    }

    fn shape(&self) -> String {
        format!("a mirrored log on {} drives", self.log.medium().width())
    }

    fn counters(&self) -> Counters {
        let mut counters = self.log.counters();
        counters.push(("segments_degraded", self.log.degraded()));
        counters
    }

    fn kept(&self) -> AllKept {
        vec![Box::new(self.log.clone())]
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let mut wrong = self.log.audit(offset, len).await;
        let degraded = self.log.degraded();
        if self.lost().is_empty() && degraded > 0 {
            wrong.push(format!("{degraded} segments have one copy, and no drive is lost"));
        }
        wrong
    }
}
