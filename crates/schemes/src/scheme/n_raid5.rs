//! `n-raid5`: independent RAID5 arrays, volumes apart
//!
//! Idea: the drives form groups (two, unless `--width` says otherwise), and each group is a RAID5
//! of its own that shares nothing with the others. A volume lives in one of them as long as that
//! has room: what one volume does to its drives another never feels, and gains nothing of the
//! others' drives either.
//!
//! ```text
//!   6 drives, two groups                      write of a chunk of volume b
//!   d0   d1   d2 | d3   d4   d5
//!   a0   a1    P | b0   b1    P               read   d4: b1, d5: P
//!   a3    P   a2 | b3    P   b2               log    d5: partial parity
//!                                             write  d4: b1, d5: P
//! ```
//!
//! Durable at acknowledgement: as `raid5`.
//! One failure: nothing is lost.
//! Two failures: nothing is lost unless both are in one group; then all data of the pool is out of
//! reach, not only that group's.
//! Device writes per user write: as `raid5` of one group's width.
//! Source: FusionRAID §5.1 and §5.3 (4-RAID5).

use std::rc::Rc;

use classical::{Array, CreateSpec, Redundancy};
use format::SCHEME_N_RAID5;
use futures_util::future::join_all;
use io::{Buf, Env};

use super::{OpenOptions, Spec};
use crate::part::PartEnv;
use crate::set::{Set, SetSpec};
use crate::store::{Counters, Store, StoreError, check_range};

/// A handle: clones name the same.
pub struct NRaid5<E: Env> {
    arrays: Rc<Vec<Array<PartEnv<E>>>>,
}

impl<E: Env> Clone for NRaid5<E> {
    fn clone(&self) -> NRaid5<E> {
        NRaid5 { arrays: self.arrays.clone() }
    }
}

/// The array that each group of so many drives makes.
pub fn group(spec: &Spec, drives: usize) -> Result<CreateSpec, StoreError> {
    let width = spec.width.unwrap_or(drives / 2);
    if width == 0 || !drives.is_multiple_of(width) {
        let what = format!("{drives} drives do not divide into groups of {width}");
        return Err(StoreError::Shape { what, hint: "give another --width or number of drives" });
    }
    let (name, redundancy) = (spec.name.clone(), Redundancy::Parity(1));
    Ok(CreateSpec { name, redundancy, width, chunk: spec.chunk })
}

pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    let group = group(spec, drives.len())?;
    let name = spec.name.clone();
    let (scheme, split, chunk) = (SCHEME_N_RAID5, group.width, spec.chunk);
    let set = Set::plan(env, drives, &SetSpec { name, scheme, split, chunk, side: 0 })?;
    for first in (0..set.len()).step_by(split) {
        let parts = set.first(first..first + split);
        classical::array::create(&PartEnv::new(env.clone()), &parts, &group).await?;
    }
    set.write_labels().await
}

impl<E: Env> NRaid5<E> {
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: OpenOptions,
    ) -> Result<NRaid5<E>, StoreError> {
        let set = Set::open(drives).await?;
        let width = usize::from(set.label.group).max(1);
        let mut arrays = Vec::new();
        for first in (0..set.len()).step_by(width) {
            let parts = set.first(first..(first + width).min(set.len()));
            arrays.push(Array::open(&PartEnv::new(env.clone()), parts, options.into()).await?);
        }
        Ok(NRaid5 { arrays: Rc::new(arrays) })
    }

    /// The smallest's: all count as that large.
    fn each(&self) -> u64 {
        self.arrays.iter().map(Array::size).min().unwrap_or(0)
    }

    /// A request, array by array: which, where in it, and bytes of the request before it.
    fn split(&self, offset: u64, len: u64) -> Result<Vec<(usize, u64, u64, u64)>, StoreError> {
        check_range(offset, len, Store::size(self))?;
        let (each, mut at, mut parts) = (self.each(), offset, Vec::new());
        while at < offset + len {
            let here = (each - at % each).min(offset + len - at);
            parts.push(((at / each) as usize, at % each, here, at - offset));
            at += here;
        }
        Ok(parts)
    }
}

impl<E: Env> Store for NRaid5<E> {
    fn size(&self) -> u64 {
        self.each() * self.arrays.len() as u64
    }

    fn unit(&self) -> u64 {
        self.arrays[0].grid().stripe_bytes()
    }

    fn regions(&self) -> u64 {
        self.arrays.len() as u64
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        let parts = self.split(offset, len)?;
        let reads = parts.iter().map(|&(array, at, len, _)| self.arrays[array].read(at, len));
        let mut read: Vec<Buf> = join_all(reads).await.into_iter().collect::<Result<_, _>>()?;
        if read.len() == 1 {
            return Ok(read.remove(0));
        }
        let bytes: Vec<&[u8]> = read.iter().map(|buf| &buf[..]).collect();
        Ok(Buf::from_slice(&bytes.concat()))
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        let parts = self.split(offset, data.len() as u64)?;
        let writes = parts.iter().map(|&(array, at, len, before)| {
            let bytes = data.slice(before as usize..(before + len) as usize);
            self.arrays[array].write(at, bytes, fua)
        });
        join_all(writes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let flushes = self.arrays.iter().map(Array::flush);
        join_all(flushes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        for array in self.arrays.iter() {
            Store::close(array).await?;
        }
        Ok(())
    }

    async fn work(&self) -> Result<bool, StoreError> {
        for array in self.arrays.iter() {
            if array.work().await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn owed(&self) -> u64 {
        self.arrays.iter().map(Store::owed).sum()
    }

    fn lost(&self) -> Vec<usize> {
        let (mut lost, mut first) = (Vec::new(), 0);
        for array in self.arrays.iter() {
            lost.extend(Array::lost(array).into_iter().map(|drive| first + drive));
            first += array.grid().drives;
        }
        lost
    }

    fn margin(&self) -> usize {
        self.arrays.iter().map(Store::margin).min().unwrap_or(0)
    }

    fn shape(&self) -> String {
        format!("{} arrays, each {}", self.arrays.len(), self.arrays[0].grid())
    }

    fn counters(&self) -> Counters {
        Vec::new()
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let Ok(parts) = self.split(offset, len) else { return vec!["out of range".into()] };
        let mut wrong = Vec::new();
        for (array, at, len, _) in parts {
            let found = Store::audit(&self.arrays[array], at, len).await;
            wrong.extend(found.iter().map(|what| format!("array {array}: {what}")));
        }
        wrong
    }
}
