//! What a pool would be, found by making it on drives that are not there: what making refuses,
//! planning refuses, with the same words.

use io::drive::check_range;
use io::{Buf, Drive, DriveError, Durability, Env, Geometry, Operation};

use crate::any::AnyStore;
use crate::part::{Part, on_parts};
use crate::scheme::{OpenOptions, Spec};
use crate::store::{Store, StoreError};
use crate::volumes;

/// What will be made, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub scheme: &'static str,
    /// How drives work together: `RAID5 3+1, 2 groups`.
    pub shape: String,
    pub drives: usize,
    pub raw: u64,
    /// Bytes of a stripe.
    pub unit: u64,
    /// Bytes that volumes can hold.
    pub usable: u64,
    /// Bytes of memory that checksums take; 0: there are none.
    pub checksum_bytes: u64,
}

/// A drive of a size that holds zeroes. Nothing is ever written to it: parts of it rehearse.
#[derive(Clone)]
struct Blank {
    size: u64,
}

impl Drive for Blank {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, align: 4096, atomic: 512, rotational: false }
    }

    fn name(&self) -> String {
        "plan".to_owned()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        check_range(self.geometry(), Operation::Read, offset, len as u64)?;
        Ok(Buf::zeroed(len))
    }

    async fn write(&self, _: u64, _: Buf, _: Durability) -> Result<(), DriveError> {
        unreachable!("parts that rehearse keep writes to themselves")
    }

    async fn flush(&self) -> Result<(), DriveError> {
        Ok(())
    }

    async fn discard(&self, _: u64, _: u64) -> Result<(), DriveError> {
        Ok(())
    }
}

/// Makes the pool on blank drives of these sizes, and looks at it.
pub async fn plan<E: Env>(env: &E, sizes: &[u64], spec: &Spec) -> Result<Plan, StoreError> {
    let blank = on_parts(env);
    let part = |size: &u64| Part::whole(Blank { size: size / 4096 * 4096 }).rehearsal();
    let drives: Vec<Part> = sizes.iter().map(part).collect();
    spec.create(&blank, &drives).await?;
    let store = AnyStore::open(&blank, drives, OpenOptions::default()).await?;
    let checksum_bytes = store.kept().iter().map(|kept| kept.health().sums_memory).sum();
    Ok(Plan {
        scheme: spec.scheme.name(),
        shape: store.shape(),
        drives: sizes.len(),
        raw: sizes.iter().sum(),
        unit: store.unit(),
        usable: volumes::usable(store.size(), store.unit())?,
        checksum_bytes,
    })
}
