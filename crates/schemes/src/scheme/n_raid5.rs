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

use classical::{Array, CreateSpec, Redundancy};
use format::SCHEME_N_RAID5;
use io::Env;

use super::{OpenOptions, Spec};
use crate::apart::Apart;
use crate::arrays::{Arrays, OnArrays};
use crate::part::{PartEnv, on_parts};
use crate::set::{Set, SetSpec};
use crate::store::StoreError;

pub type NRaid5<E> = Apart<Array<PartEnv<E>>, Arrays<E>>;

/// The array that each group of so many drives makes.
pub fn group(spec: &Spec, drives: usize) -> Result<CreateSpec, StoreError> {
    let width = spec.width.unwrap_or(drives / 2);
    if width == 0 || !drives.is_multiple_of(width) {
        let what = format!("{drives} drives do not divide into groups of {width}");
        return Err(StoreError::Shape { what, hint: "give another --width or number of drives" });
    }
    let (name, redundancy) = (spec.name.clone(), Redundancy::Parity(1));
    let checksums = spec.checksums;
    Ok(CreateSpec { name, redundancy, width, chunk: spec.chunk, checksums })
}

pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    let group = group(spec, drives.len())?;
    let name = spec.name.clone();
    let (scheme, split, chunk) = (SCHEME_N_RAID5, group.width, spec.chunk);
    let set = Set::plan(env, drives, &SetSpec { name, scheme, split, chunk, side: 0 })?;
    for first in (0..set.len()).step_by(split) {
        let parts = set.first(first..first + split);
        classical::array::create(&on_parts(env), &parts, &group).await?;
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
        let firsts = (0..set.len()).step_by(width);
        let groups = firsts.map(|first| set.first(first..(first + width).min(set.len())));
        let arrays = Array::open_all(&on_parts(env), groups, options.into()).await?;
        let drives = Arrays::new(env, set, arrays.clone());
        Ok(Apart::new(arrays, width, drives))
    }
}

impl<E: Env> OnArrays for NRaid5<E> {
    type World = E;

    fn arrays(&self) -> &Arrays<E> {
        self.drives()
    }
}
