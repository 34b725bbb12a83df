//! `cached-raid5`: two mirrored drives as a write cache before RAID5 (CRAIS5).
//!
//! Idea: RAID5 reads before it writes less than a stripe. So writes within one chunk go to a pair
//! of drives first, in lines of 4 KiB, and are served from there; written again and again, RAID5
//! sees only the last of it. Writes of more than a chunk pass the cache by, as large ones are what
//! RAID5 is good at, or at least the paper's baseline does so. In the background the stripes that
//! have been left alone longest are destaged when half of the cache is used. When it is full,
//! small writes pass it by, too. Only writes are cached: what is read from RAID5 stays there.
//!
//! ```text
//!   write within a chunk                    write of more
//!          │                                  │  lines that it covers leave the cache, those at
//!          ▼                                  │  its edges that are there are written there, too
//!   cache [ map │ line ][ line ]              ▼
//!         [ map │ line ][ line ]── destage ─► RAID5 [ d0 ][ d1 ][ d2 ][ P ]
//! ```
//!
//! Durable at acknowledgement with FUA, or after a flush: the bytes in both copies of the cache or
//! in RAID5, and, if a line came to the cache or left it, the page of the map that says so.
//! One failure: any drive; one of the pair and one of each RAID5 group at the same time, too.
//! Two failures: borne unless both are the pair or of one RAID5 group.
//! Device writes per user write: within a chunk, of b bytes: 2b, nothing read; 2 · 4 KiB for less
//! than a line that was not there, and a line read. Destaging a line, once however often it was
//! written: as RAID5 writes 4 KiB, 2 · 4 KiB and a record of 8 KiB, with two reads and one of the
//! cache; lines of a stripe that lie side by side together. More than a chunk: as RAID5. The map:
//! two pages of 4 KiB at a flush for every page (1008 lines) of which lines came or left.
//! Source: CRAIS5 as described by Karimi et al., HybRAID, §4.1, §4.2 and §5: a mirrored write-only
//! cache, lines of 4 KiB, small writes only. Theirs has a RAM disk as one of the pair.

mod lines;
mod work;

use std::ops::Range;
use std::rc::Rc;

use classical::grid::WIDTH_MAX;
use classical::{Array, CreateSpec, OpenOptions, Redundancy, array};
use format::SCHEME_CACHED_RAID5;
use io::{Buf, Env, join_all};

use self::lines::Lines;
use self::work::{Inner, Shape};
use crate::ages;
use crate::arrays::{Arrays, OnArrays};
use crate::care::{self, AllKept};
use crate::page_map::{self, PageMap};
use crate::part::{PartEnv, on_parts};
use crate::set::{Set, SetSpec};
use crate::store::{Counters, Store, StoreError, check_range};

/// Drives of the cache, the first ones given.
pub const CACHE: usize = 2;

/// What an array is to be like.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    /// Drives of a RAID5 group; the first two drives are the cache, the others must divide.
    pub parity_width: usize,
    pub chunk: u64,
    /// So much of the cache is used before lines are destaged. The paper gives no value.
    pub destage_percent: u8,
    /// Every page has a checksum on other drives.
    pub checksums: bool,
}

impl Spec {
    /// One RAID5 of all drives but the cache.
    pub fn proposed(name: &str, drives: usize, chunk: u64) -> Spec {
        let parity_width = drives.saturating_sub(CACHE);
        Spec { name: name.to_owned(), parity_width, chunk, destage_percent: 50, checksums: true }
    }

    pub fn check(&self, drives: usize) -> Result<(), StoreError> {
        let Spec { parity_width, destage_percent, .. } = *self;
        let rest = drives.saturating_sub(CACHE);
        let fits = (3..=WIDTH_MAX).contains(&parity_width);
        if !fits || rest == 0 || !rest.is_multiple_of(parity_width) {
            return Err(StoreError::Shape {
                what: format!("{rest} drives beside the cache for RAID5 groups of {parity_width}"),
                hint: "a group has 3 to 64 drives, and the groups must use up all",
            });
        }
        if !(1..=100).contains(&destage_percent) {
            return Err(StoreError::Shape {
                what: format!("destaging at {destage_percent} % of the cache"),
                hint: "give 1 to 100",
            });
        }
        Ok(())
    }
}

/// A handle on an open array; clones name the same.
pub struct CachedRaid5<E: Env> {
    inner: Rc<Inner<E>>,
    arrays: Rc<Arrays<E>>,
}

impl<E: Env> Clone for CachedRaid5<E> {
    fn clone(&self) -> CachedRaid5<E> {
        CachedRaid5 { inner: self.inner.clone(), arrays: self.arrays.clone() }
    }
}

type Tiers<E> = (Array<PartEnv<E>>, Array<PartEnv<E>>);

async fn open_tiers<E: Env>(
    env: &E,
    set: &Set<E::Drive>,
    options: OpenOptions,
) -> Result<Tiers<E>, StoreError> {
    let tiers = [0..CACHE, CACHE..set.len()].map(|places| (places.clone(), set.first(places)));
    let [cache, parity] = ages::open(env, set, tiers, options).await?;
    Ok((cache, parity))
}

/// Makes an array on these drives, the first two of them as its cache. What is on them is gone.
pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    spec.check(drives.len())?;
    let Spec { name, parity_width, chunk, destage_percent, checksums } = spec.clone();
    let scheme = SCHEME_CACHED_RAID5;
    let plan = SetSpec { name: name.clone(), scheme, split: CACHE, chunk, side: 0 };
    let set = Set::plan(env, drives, &plan)?;
    let parts = on_parts(env);
    for (places, redundancy, width) in [
        (0..CACHE, Redundancy::Mirror, CACHE),
        (CACHE..set.len(), Redundancy::Parity(1), parity_width),
    ] {
        let tier = CreateSpec { name: name.clone(), redundancy, width, chunk, checksums };
        array::create(&parts, &set.first(places), &tier).await?;
    }
    let (cache, parity) = open_tiers(env, &set, OpenOptions::default()).await?;
    let shape = Shape::of(cache.size(), parity.grid()).ok_or_else(|| StoreError::Shape {
        what: "the drives are too small or too large for the map of the cache".into(),
        hint: "give the cache 1 MiB or more, and RAID5 at most 16 TiB",
    })?;
    let pool = set.label.pool;
    page_map::create(&cache, 0, &pool, shape.entries()).await?;
    let (map, mut entries) = PageMap::open(&cache, 0, &pool, shape.entries()).await?;
    entries[shape.slots as usize] = destage_percent.into();
    map.touch(shape.slots as usize);
    map.write(map.take(&map.dirty(), &entries)).await?;
    cache.close().await?;
    parity.close().await?;
    set.write_labels().await
}

impl<E: Env> CachedRaid5<E> {
    /// Opens an array. Drives that are not given, or missed something, are lost.
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: OpenOptions,
    ) -> Result<CachedRaid5<E>, StoreError> {
        let set = Set::open(drives).await?;
        let (pool, split) = (set.label.pool, usize::from(set.label.group));
        if set.label.scheme != SCHEME_CACHED_RAID5 || split != CACHE || split >= set.len() {
            return Err(StoreError::Shape {
                what: "these drives are not of a cached-raid5 array".into(),
                hint: "open them with the scheme they were made with",
            });
        }
        let (cache, parity) = open_tiers(env, &set, options).await?;
        let damaged = |what: &str| StoreError::Damaged(what.to_owned());
        let shape = Shape::of(cache.size(), parity.grid());
        let shape = shape.ok_or_else(|| damaged("the shape of the cache"))?;
        let (map, entries) = PageMap::open(&cache, 0, &pool, shape.entries()).await?;
        let percent = entries[shape.slots as usize];
        if !(1..=100).contains(&percent) {
            return Err(damaged("the last entry of the map"));
        }
        let lines = Lines::new(entries, shape.home, shape.stripe_lines);
        let lines = lines.ok_or_else(|| damaged("the map of the cache"))?;
        let arrays = Arrays::new(env, set, vec![cache.clone(), parity.clone()]);
        let inner = Inner::new((cache, parity), shape, percent, lines, map);
        // A page may have come from a drive's cache. Slots that it does not name are given to
        // others from now on, so it must not be forgotten.
        inner.flush_tiers().await?;
        arrays.tell_ages().await;
        Ok(CachedRaid5 { inner: Rc::new(inner), arrays: Rc::new(arrays) })
    }

    /// Lines in the cache, and how many fit. For tests and reports.
    pub fn cached(&self) -> (u32, u32) {
        let lines = self.inner.lines.borrow();
        (lines.places.used(), lines.places.total())
    }
}

impl<E: Env> Store for CachedRaid5<E> {
    fn size(&self) -> u64 {
        self.inner.parity.size()
    }

    fn unit(&self) -> u64 {
        self.inner.parity.grid().stripe_bytes()
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        check_range(offset, len, self.size())?;
        self.inner.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        let len = data.len() as u64;
        check_range(offset, len, self.size())?;
        let shape = self.inner.shape;
        if len > 0 && offset / shape.chunk == (offset + len - 1) / shape.chunk {
            self.inner.write_small(offset, &data, fua).await?;
        } else {
            let shares = shape.split(offset, len);
            let writes = shares.iter().map(|&(offset, at, len)| {
                let own = data.slice(at as usize..(at + len) as usize);
                self.inner.write_large(offset, own, fua)
            });
            join_all(writes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        }
        // Durable bytes in a place that the drives do not know of would be lost all the same.
        if fua && !self.inner.is_known(offset, len) { self.inner.commit().await } else { Ok(()) }
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        check_range(offset, len, self.size())?;
        for (offset, _, len) in self.inner.shape.split(offset, len) {
            self.inner.discard(offset, len).await?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.inner.commit().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.commit().await?;
        self.inner.cache.clone().close().await?;
        self.inner.parity.clone().close().await?;
        self.arrays.tell_losses().await;
        Ok(())
    }

    async fn work(&self) -> Result<bool, StoreError> {
        self.arrays.tell_losses().await;
        let worked = self.inner.cache.work().await? || self.inner.parity.work().await?;
        Ok(self.inner.destage().await? || worked)
    }

    fn owed(&self) -> u64 {
        Store::owed(&self.inner.cache) + Store::owed(&self.inner.parity)
    }

    fn marks(&self) -> u64 {
        Store::marks(&self.inner.cache) + Store::marks(&self.inner.parity)
    }

    fn margin(&self) -> usize {
        Store::margin(&self.inner.cache).min(Store::margin(&self.inner.parity))
    }

    fn shape(&self) -> String {
        format!("{}, a cache on {}", self.inner.parity.grid(), self.inner.cache.grid())
    }

    fn sit_out(&self, drive: usize, out: bool) {
        self.arrays.sit_out(drive, out);
    }

    fn lost(&self) -> Vec<usize> {
        let parity = self.inner.parity.lost().into_iter().map(|drive| drive + CACHE);
        self.inner.cache.lost().into_iter().chain(parity).collect()
    }

    fn counters(&self) -> Counters {
        let (cached, slots) = self.cached();
        let counts = self.inner.counts.get();
        vec![
            ("lines in the cache", cached.into()),
            ("lines that fit the cache", slots.into()),
            ("small writes cached", counts.cached),
            ("small writes to lines that were there", counts.hits),
            ("small writes past a full cache", counts.crowded),
            ("large writes", counts.large),
            ("lines destaged", counts.destaged),
            ("lines overwritten in raid5", counts.overwritten),
            ("lines read from the cache", counts.read),
            ("map pages written", self.inner.map.written()),
        ]
    }

    fn kept(&self) -> AllKept {
        let inner = self.inner.clone();
        let free = move |range: Range<u64>| inner.free_slots(&range);
        let inner = self.inner.clone();
        let cached = move |range: Range<u64>| inner.cached(&range);
        vec![care::partly(&self.inner.cache, free), care::partly(&self.inner.parity, cached)]
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        self.inner.audit(offset, len).await
    }
}

impl<E: Env> OnArrays for CachedRaid5<E> {
    type World = E;

    fn arrays(&self) -> &Arrays<E> {
        &self.arrays
    }
}
