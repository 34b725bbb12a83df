//! `tole-raid`: RAID5 whose reads do not wait for one slow drive
//!
//! Idea: as `raid5`. A read whose drive takes more than twice as long as reads usually take is
//! answered from the others of its stripe and parity instead, whichever is first. Writes are
//! those of RAID5, and wait for whoever is slow.
//!
//! ```text
//!   4 drives, d0 is slow                       read of c4
//!   d0   d1   d2   d3
//!    0    1    2    P                          read   d0: c4 ............ late
//!    4    5    P    3                          read   d1: c5, d2: P, d3: c3
//!                                              c4 = c3 + c5 + P, answered
//! ```
//!
//! Durable at acknowledgement: as `raid5`.
//! One failure: nothing is lost.
//! Two failures: all data is lost.
//! Device writes per user write: as `raid5`. Reads: one for each piece, and n − 1 more of the same
//! length for a piece that is late.
//! Source: Hao et al., The Tail at Store, FAST '16 (ToleRAID, reactive); FusionRAID §5.1.

use std::cell::Cell;
use std::rc::Rc;

use classical::{Array, CreateSpec, Redundancy};
use format::SCHEME_TOLE_RAID;
use io::{Buf, Env, Nanos};

use super::{OpenOptions, Spec};
use crate::arrays::{Arrays, OnArrays};
use crate::care::{self, AllKept};
use crate::part::{PartEnv, on_parts};
use crate::set::{Set, SetSpec};
use crate::store::{Counters, Store, StoreError};

/// So many times what reads usually take, and one is late.
const LATE_TIMES: u64 = 2;
/// Shorter than any drive's noise: reading the rest of the stripe for it costs more than it saves.
const PATIENCE_MIN: Nanos = Nanos::from_micros(200);
/// Longer than a read of anything but a disk.
const PATIENCE_MAX: Nanos = Nanos::from_millis(50);

/// How long reads usually take: a mean that forgets, one in sixteen new.
#[derive(Clone, Copy, Debug)]
struct Usual {
    mean: u64,
}

impl Default for Usual {
    fn default() -> Usual {
        Usual { mean: PATIENCE_MAX.0 / LATE_TIMES }
    }
}

impl Usual {
    /// A read that its own drives answered took so long.
    fn learn(&mut self, took: Nanos) {
        self.mean = self.mean - self.mean / 16 + took.0.min(PATIENCE_MAX.0) / 16;
    }

    fn patience(&self) -> Nanos {
        Nanos((LATE_TIMES * self.mean).clamp(PATIENCE_MIN.0, PATIENCE_MAX.0))
    }
}

struct Inner<E: Env> {
    env: E,
    array: Array<PartEnv<E>>,
    arrays: Arrays<E>,
    usual: Cell<Usual>,
    reads: Cell<u64>,
    round: Cell<u64>,
}

/// A handle: clones name the same.
pub struct ToleRaid<E: Env> {
    inner: Rc<Inner<E>>,
}

impl<E: Env> Clone for ToleRaid<E> {
    fn clone(&self) -> ToleRaid<E> {
        ToleRaid { inner: self.inner.clone() }
    }
}

pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    let (name, split, chunk) = (spec.name.clone(), drives.len(), spec.chunk);
    let own = SetSpec { name: name.clone(), scheme: SCHEME_TOLE_RAID, split, chunk, side: 0 };
    let set = Set::plan(env, drives, &own)?;
    let width = spec.width.unwrap_or(split);
    let array = CreateSpec {
        name,
        redundancy: Redundancy::Parity(1),
        width,
        chunk,
        checksums: spec.checksums,
    };
    classical::array::create(&on_parts(env), &set.first(0..split), &array).await?;
    set.write_labels().await
}

impl<E: Env> ToleRaid<E> {
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: OpenOptions,
    ) -> Result<ToleRaid<E>, StoreError> {
        let set = Set::open(drives).await?;
        let parts = set.first(0..set.len());
        let array = Array::open(&on_parts(env), parts, options.into()).await?;
        let inner = Inner {
            env: env.clone(),
            arrays: Arrays::new(env, set, vec![array.clone()]),
            array,
            usual: Cell::default(),
            reads: Cell::new(0),
            round: Cell::new(0),
        };
        Ok(ToleRaid { inner: Rc::new(inner) })
    }
}

impl<E: Env> Store for ToleRaid<E> {
    fn size(&self) -> u64 {
        self.inner.array.size()
    }

    fn unit(&self) -> u64 {
        self.inner.array.grid().stripe_bytes()
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        let inner = &self.inner;
        let (began, mut usual) = (inner.env.now(), inner.usual.get());
        let (bytes, round) = inner.array.read_within(offset, len, usual.patience()).await?;
        inner.reads.set(inner.reads.get() + 1);
        inner.round.set(inner.round.get() + round);
        if round == 0 {
            usual = inner.usual.get();
            usual.learn(inner.env.now().saturating_sub(began));
            inner.usual.set(usual);
        }
        Ok(bytes)
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        Ok(self.inner.array.write(offset, data, fua).await?)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        Store::discard(&self.inner.array, offset, len).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        Ok(self.inner.array.flush().await?)
    }

    async fn close(&self) -> Result<(), StoreError> {
        Store::close(&self.inner.array).await
    }

    async fn work(&self) -> Result<bool, StoreError> {
        self.inner.array.work().await
    }

    fn owed(&self) -> u64 {
        Store::owed(&self.inner.array)
    }

    fn marks(&self) -> u64 {
        Store::marks(&self.inner.array)
    }

    fn sit_out(&self, drive: usize, out: bool) {
        self.inner.arrays.sit_out(drive, out);
    }

    fn lost(&self) -> Vec<usize> {
        Array::lost(&self.inner.array)
    }

    fn margin(&self) -> usize {
        Store::margin(&self.inner.array)
    }

    fn shape(&self) -> String {
        format!("{}, late reads from the others", self.inner.array.grid())
    }

    fn counters(&self) -> Counters {
        let patience = self.inner.usual.get().patience();
        vec![
            ("reads", self.inner.reads.get()),
            ("pieces_read_round", self.inner.round.get()),
            ("patience_nanos", patience.0),
        ]
    }

    fn kept(&self) -> AllKept {
        care::kept([&self.inner.array])
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        Store::audit(&self.inner.array, offset, len).await
    }
}

impl<E: Env> OnArrays for ToleRaid<E> {
    type World = E;

    fn arrays(&self) -> &Arrays<E> {
        &self.inner.arrays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_twice_what_reads_take_within_reason() {
        let mut usual = Usual::default();
        assert_eq!(usual.patience(), PATIENCE_MAX, "nothing is known yet");
        let learn = |usual: &mut Usual, took| (0..200).for_each(|_| usual.learn(took));
        learn(&mut usual, Nanos::from_millis(3));
        let patience = usual.patience().0;
        assert!(patience.abs_diff(6_000_000) < 60_000, "{patience}");
        learn(&mut usual, Nanos::from_micros(10));
        assert_eq!(usual.patience(), PATIENCE_MIN);
        learn(&mut usual, Nanos::from_secs(9));
        assert!(usual.patience().0 > PATIENCE_MAX.0 * 9 / 10);
    }
}
