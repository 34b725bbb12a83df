//! `hybrid`: HybRAID, mirrors for small writes and RAID5 for full stripes.
//!
//! Idea: mirrors write small pieces without reading; RAID5 writes full stripes cheaply. So some of
//! the drives, the first ones given and best the fast and lasting ones, are RAID1 or RAID10, the
//! others RAID5 or RAID50, and a map says for every stripe in which of the two it is. A stripe's
//! first write chooses: full and aligned goes to RAID5, less to the mirrors. Later it is written
//! where it is; when it was written four times there and a write suits the other tier better, it
//! moves with that write. The space of both tiers is the user's. When a tier is nearly full its
//! least written stripes leave it in the background, as long as the other one has room; a tier
//! without room is passed over, so a volume that is full altogether stays as it is and works on.
//!
//! ```text
//!   write of 11 units, stripes of 4 (figure 4 of the paper)
//!
//!      u3 │ u4 u5 u6 u7 │ u8 u9 u10 u11 │ u12 u13
//!      │     └─ full ──────┴─ full ──┐      │ partial
//!      │ small                       │      │
//!      ▼                             ▼      ▼
//!   RAID1  [u3][u12 u13]          RAID5  [u4  u5  u6  u7  P  ]      all at once;
//!          [u3][u12 u13]                 [u9  u10 u11 P'  u8 ]      the map: with the next flush
//!      map, plate
//! ```
//!
//! Durable at acknowledgement with FUA, or after a flush: the bytes in both copies or with parity,
//! and, if the stripe is new or has moved, the page of the map that says where. Till then the map
//! on the drives names the old place, whose bytes stay.
//! One failure: any drive; one of each mirror and one of each RAID5 group at the same time, too.
//! Two failures: borne unless both are of one mirror or of one RAID5 group.
//! Device writes per user write: of b bytes in a stripe of S = k chunks: in the mirrors 2b, nothing
//! read; a full stripe in RAID5 (k+1)/k · S, nothing read; less in RAID5, until it has moved,
//! 2b + b + 4 KiB for the record of partial parity, and 2b read. The first write of a stripe, if
//! small: 2S, what it leaves alone becomes zero. A stripe that moves to the mirrors: 2S, and S - b
//! read. The map: two pages of 4 KiB at a flush for every page (1008 stripes) of which stripes are
//! new or have moved; none for stripes that stay.
//! Source: Karimi et al., HybRAID, §3.1 to §3.4 (algorithm 1, table 2, figures 4, 5, 7, 8), §4.4.2
//! (entries of 4 bytes), §4.6 (30 % of the drives for mirrors, groups of 3+1).

mod decide;
mod moves;
mod offline;
mod place;
mod shape;
mod space;
mod table;

use std::ops::Range;
use std::rc::Rc;

use classical::{Array, CreateSpec, OpenOptions, Redundancy, array};
use format::SCHEME_HYBRID;
use io::{Buf, BufMut, Env, join_all};

pub use self::shape::{Spec, Tuning, propose};

use self::moves::Inner;
use self::place::{Place, Tier};
use self::shape::{MAP_AT, MIRROR, PLATE, Shape};
use self::table::Table;
use crate::ages;
use crate::arrays::{Arrays, OnArrays};
use crate::care::{self, AllKept};
use crate::page_map::{self, PageMap};
use crate::part::{PartEnv, on_parts};
use crate::set::{Set, SetSpec};
use crate::store::{Counters, Store, StoreError, check_range};

/// A handle on an open array; clones name the same.
pub struct Hybrid<E: Env> {
    inner: Rc<Inner<E>>,
    arrays: Rc<Arrays<E>>,
    /// Drives of the mirrors.
    split: usize,
}

impl<E: Env> Clone for Hybrid<E> {
    fn clone(&self) -> Hybrid<E> {
        let (inner, arrays) = (self.inner.clone(), self.arrays.clone());
        Hybrid { inner, arrays, split: self.split }
    }
}

type Tiers<E> = (Array<PartEnv<E>>, Array<PartEnv<E>>);

async fn open_tiers<E: Env>(
    env: &E,
    set: &Set<E::Drive>,
    split: usize,
    options: OpenOptions,
) -> Result<Tiers<E>, StoreError> {
    let tiers = [0..split, split..set.len()].map(|places| (places.clone(), set.first(places)));
    let [mirrors, parity] = ages::open(env, set, tiers, options).await?;
    Ok((mirrors, parity))
}

fn shape_of<E: Env>((mirrors, parity): &(Array<E>, Array<E>)) -> Option<Shape> {
    let grid = parity.grid();
    Shape::of(mirrors.size(), grid.stripes(), grid.stripe_bytes(), grid.chunk)
}

/// Makes an array on these drives, the first `spec.split` of them as mirrors. What is on them is
/// gone.
pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    spec.check(drives.len())?;
    let Spec { name, split, parity_width, chunk, tuning, checksums } = spec.clone();
    let plan = SetSpec { name: name.clone(), scheme: SCHEME_HYBRID, split, chunk, side: 0 };
    let set = Set::plan(env, drives, &plan)?;
    let parts = on_parts(env);
    for (places, redundancy, width) in [
        (0..split, Redundancy::Mirror, MIRROR),
        (split..set.len(), Redundancy::Parity(1), parity_width),
    ] {
        let tier = CreateSpec { name: name.clone(), redundancy, width, chunk, checksums };
        array::create(&parts, &set.first(places), &tier).await?;
    }
    let tiers = open_tiers(env, &set, split, OpenOptions::default()).await?;
    let shape = shape_of(&tiers).ok_or_else(|| StoreError::Shape {
        what: "the drives are too small or too large for the map".into(),
        hint: "give larger drives, or a larger chunk",
    })?;
    let pool = set.label.pool;
    let plate = Buf::from_slice(&shape.plate(&pool, &tuning));
    tiers.0.write(0, plate, true).await?;
    page_map::create(&tiers.0, MAP_AT, &pool, shape.stripes()).await?;
    tiers.0.close().await?;
    tiers.1.close().await?;
    set.write_labels().await
}

impl<E: Env> Hybrid<E> {
    /// Opens an array. Drives that are not given, or missed something, are lost.
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: OpenOptions,
    ) -> Result<Hybrid<E>, StoreError> {
        let set = Set::open(drives).await?;
        let (pool, split) = (set.label.pool, usize::from(set.label.group));
        if set.label.scheme != SCHEME_HYBRID || split == 0 || split >= set.len() {
            return Err(StoreError::Shape {
                what: "these drives are not of a hybrid array".into(),
                hint: "open them with the scheme they were made with",
            });
        }
        let tiers = open_tiers(env, &set, split, options).await?;
        let damaged = |what: &str| StoreError::Damaged(what.to_owned());
        let shape = shape_of(&tiers).ok_or_else(|| damaged("the shape of the tiers"))?;
        let plate = tiers.0.read(0, PLATE as u64).await?;
        let tuning = shape.read_plate(&pool, &plate).ok_or_else(|| damaged("the plate"))?;
        let (map, entries) = PageMap::open(&tiers.0, MAP_AT, &pool, shape.stripes()).await?;
        let table = Table::new(entries, shape.places, tuning.online_threshold)
            .ok_or_else(|| damaged("the map"))?;
        let arrays = Arrays::new(env, set, vec![tiers.0.clone(), tiers.1.clone()]);
        let inner = Inner::new(tiers, (shape, tuning), table, map);
        // A page may have come from a drive's cache. Places that it does not name are given to
        // others from now on, so it must not be forgotten.
        inner.flush_tiers().await?;
        arrays.tell_ages().await;
        Ok(Hybrid { inner: Rc::new(inner), arrays: Rc::new(arrays), split })
    }

    async fn audit_stripe(&self, stripe: u32) -> Vec<String> {
        let Some(place) = self.inner.table.borrow().place(stripe) else { return Vec::new() };
        let (array, offset) = self.inner.locate(place);
        let wrong = array.disagreeing(offset, self.inner.shape.stripe).await;
        let tell = |own: &u64| format!("stripe {stripe}, {place:?}: drives disagree at {own}");
        wrong.iter().map(tell).collect()
    }

    /// Where stripes are: in the mirrors, in RAID5. For tests and reports.
    pub fn used(&self) -> (u32, u32) {
        let table = self.inner.table.borrow();
        (table.space.used(Tier::Mirrors), table.space.used(Tier::Parity))
    }

    /// Whether a stripe is in the mirrors; `None`: it was never written. For tests and reports.
    pub fn in_mirrors(&self, stripe: u32) -> Option<bool> {
        let place = self.inner.table.borrow().place(stripe);
        place.map(|Place { tier, .. }| tier == Tier::Mirrors)
    }

    pub fn stripe_bytes(&self) -> u64 {
        self.inner.shape.stripe
    }
}

impl<E: Env> Store for Hybrid<E> {
    fn size(&self) -> u64 {
        self.inner.shape.size()
    }

    fn unit(&self) -> u64 {
        self.inner.shape.stripe
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        check_range(offset, len, self.size())?;
        let shares = self.inner.shape.split(offset, len);
        if let [share] = &shares[..] {
            return self.inner.read_share(share).await;
        }
        let reads = shares.iter().map(|share| self.inner.read_share(share));
        let mut whole = BufMut::with_len(len as usize);
        for (share, bytes) in shares.iter().zip(join_all(reads).await) {
            whole[share.at as usize..(share.at + share.len) as usize].copy_from_slice(&bytes?);
        }
        Ok(whole.freeze())
    }

    /// All stripes of the request at once.
    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        check_range(offset, data.len() as u64, self.size())?;
        let shares = self.inner.shape.split(offset, data.len() as u64);
        let writes = shares.iter().map(|share| {
            let own = data.slice(share.at as usize..(share.at + share.len) as usize);
            self.inner.write_share(share, own, fua)
        });
        join_all(writes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        // Durable bytes in a place that the drives do not know of would be lost all the same.
        let known = |share: &shape::Share| self.inner.map.is_durable(share.stripe as usize);
        if fua && !shares.iter().all(known) { self.inner.commit().await } else { Ok(()) }
    }

    /// A stripe keeps its place.
    async fn discard(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        check_range(offset, len, self.size())?;
        let whole = |share: &&shape::Share| share.len == self.inner.shape.stripe;
        for share in self.inner.shape.split(offset, len).iter().filter(whole) {
            self.inner.discard_stripe(share.stripe).await?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.inner.commit().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.commit().await?;
        self.inner.mirrors.clone().close().await?;
        self.inner.parity.clone().close().await?;
        self.arrays.tell_losses().await;
        Ok(())
    }

    async fn work(&self) -> Result<bool, StoreError> {
        self.arrays.tell_losses().await;
        let Inner { mirrors, parity, .. } = &*self.inner;
        let worked = mirrors.work().await? || parity.work().await?;
        Ok(self.inner.reclaim().await? || worked)
    }

    fn owed(&self) -> u64 {
        Store::owed(&self.inner.mirrors) + Store::owed(&self.inner.parity)
    }

    fn marks(&self) -> u64 {
        Store::marks(&self.inner.mirrors) + Store::marks(&self.inner.parity)
    }

    fn margin(&self) -> usize {
        Store::margin(&self.inner.mirrors).min(Store::margin(&self.inner.parity))
    }

    fn shape(&self) -> String {
        let (mirrors, parity) = (self.inner.mirrors.grid(), self.inner.parity.grid());
        format!("{mirrors}, on {} drives, and {parity}", self.split)
    }

    fn sit_out(&self, drive: usize, out: bool) {
        self.arrays.sit_out(drive, out);
    }

    fn lost(&self) -> Vec<usize> {
        let parity = self.inner.parity.lost().into_iter().map(|drive| drive + self.split);
        self.inner.mirrors.lost().into_iter().chain(parity).collect()
    }

    fn counters(&self) -> Counters {
        let table = self.inner.table.borrow();
        let [mirrors, parity] = [Tier::Mirrors, Tier::Parity];
        let counts = table.counts;
        vec![
            ("stripes in mirrors", table.space.used(mirrors).into()),
            ("stripes in parity", table.space.used(parity).into()),
            ("first writes to mirrors", counts.first[mirrors as usize]),
            ("first writes to parity", counts.first[parity as usize]),
            ("writes that stayed in mirrors", counts.stayed[mirrors as usize]),
            ("writes that stayed in parity", counts.stayed[parity as usize]),
            ("moved to mirrors by a write", counts.online[mirrors as usize]),
            ("moved to parity by a write", counts.online[parity as usize]),
            ("moved to mirrors to make room", counts.offline[mirrors as usize]),
            ("moved to parity to make room", counts.offline[parity as usize]),
            ("writes whose tier was full", counts.crowded),
            ("map pages written", self.inner.map.written()),
        ]
    }

    fn kept(&self) -> AllKept {
        let tiers = [(Tier::Mirrors, &self.inner.mirrors), (Tier::Parity, &self.inner.parity)];
        let kept = tiers.map(|(tier, array)| {
            let (inner, first) = (self.inner.clone(), self.inner.shape.first(tier));
            let unused = move |range: Range<u64>| {
                let table = inner.table.borrow();
                table.space.free_within(tier, &range, (first, inner.shape.stripe))
            };
            care::partly(array, unused)
        });
        kept.into()
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let mut wrong = self.inner.table.borrow().audit();
        for share in self.inner.shape.split(offset, len) {
            wrong.extend(self.audit_stripe(share.stripe).await);
        }
        let entries = self.inner.table.borrow().entries().to_vec();
        match self.inner.map.differing(&entries).await {
            Ok(differing) => {
                wrong.extend(differing.iter().map(|at| format!("entry {at} is not on the drives")));
            }
            Err(error) => wrong.push(error.to_string()),
        }
        let map = self.inner.shape.first_place;
        let disagree = self.inner.mirrors.disagreeing(0, map).await;
        wrong.extend(disagree.iter().map(|stripe| format!("map: drives disagree at {stripe}")));
        wrong
    }
}

impl<E: Env> OnArrays for Hybrid<E> {
    type World = E;

    fn arrays(&self) -> &Arrays<E> {
        &self.arrays
    }
}
