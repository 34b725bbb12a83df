//! Where the array and the log lie on the drives of a set.
//!
//! ```text
//!   apart     data drives                log drives
//!             [ array ][ array ] ...     [ log ][ log ]
//!
//!   shared    data drives                parity drive      buffer drive
//!             [ array      ] ...         [ log | parity ]  [ log |  ]
//! ```
//! Shared, the log has the beginning of its drives: the part of a hard disk that is fastest.

use std::ops::Range;

use classical::{Array, CreateSpec, OpenOptions, Redundancy};
use format::{SCHEME_HPDA, SCHEME_LOG_MIRROR};
use io::{Drive, Env};

use super::LOG_DRIVES;
use crate::log::Log;
use crate::part::{Part, on_parts};
use crate::set::{Set, SetSpec};
use crate::store::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The last two drives are the log's alone.
    Apart,
    /// The last two drives are the log's; the first of them is the array's last, too.
    Shared,
}

impl Shape {
    fn scheme(self) -> u16 {
        match self {
            Shape::Apart => SCHEME_LOG_MIRROR,
            Shape::Shared => SCHEME_HPDA,
        }
    }

    /// Places of the array, in a set of so many drives.
    pub fn array(self, drives: usize) -> Range<usize> {
        match self {
            Shape::Apart => 0..drives - LOG_DRIVES,
            Shape::Shared => 0..drives - LOG_DRIVES + 1,
        }
    }

    /// Places of the log.
    pub fn log(self, drives: usize) -> Range<usize> {
        drives - LOG_DRIVES..drives
    }

    /// Whether the set is one of this shape.
    pub fn check<D: Drive>(self, set: &Set<D>) -> Result<(), StoreError> {
        let drives = set.len();
        let fits = drives > LOG_DRIVES && self.array(drives).len() == usize::from(set.label.group);
        match fits && set.label.scheme == self.scheme() {
            true => Ok(()),
            false => Err(StoreError::NoLabel),
        }
    }

    /// What a drive has of the array, if it is there.
    pub fn array_part<D: Drive>(self, set: &Set<D>, place: usize) -> Option<Part> {
        let of = self.array(set.len());
        match self {
            Shape::Apart => set.first_of(of, place),
            Shape::Shared => set.first_beside(of, self.log(set.len()), place),
        }
    }

    /// What a drive has of the log, if it is there.
    pub fn log_part<D: Drive>(self, set: &Set<D>, place: usize) -> Option<Part> {
        match self {
            Shape::Apart => set.first_of(self.log(set.len()), place),
            Shape::Shared => set.second(place..place + 1).pop(),
        }
    }

    pub fn array_parts<D: Drive>(self, set: &Set<D>) -> Vec<Part> {
        self.array(set.len()).filter_map(|place| self.array_part(set, place)).collect()
    }

    pub fn log_parts<D: Drive>(self, set: &Set<D>) -> Vec<Part> {
        self.log(set.len()).filter_map(|place| self.log_part(set, place)).collect()
    }
}

/// What is to be made.
pub struct Making {
    pub shape: Shape,
    pub name: String,
    pub redundancy: Redundancy,
    pub chunk: u64,
    /// Chunk of the mirror below the log.
    pub log_chunk: u64,
    /// Shared: bytes of the drives that are the log's.
    pub side: u64,
    /// Bytes of the log; `None`: what there is room for.
    pub log_bytes: Option<u64>,
    /// Every page has a checksum on other drives.
    pub checksums: bool,
}

impl Making {
    pub async fn create<E: Env>(self, env: &E, drives: &[E::Drive]) -> Result<(), StoreError> {
        let Making { shape, name, redundancy, chunk, log_chunk, side, log_bytes, checksums } = self;
        let (scheme, split) = (shape.scheme(), shape.array(drives.len()).len());
        let named = SetSpec { name: name.clone(), scheme, split, chunk, side };
        let set = Set::plan(env, drives, &named)?;
        let env = on_parts(env);
        let array = CreateSpec { name, redundancy, width: split, chunk, checksums };
        classical::array::create(&env, &shape.array_parts(&set), &array).await?;
        let pair = shape.log_parts(&set);
        let mirror = CreateSpec {
            redundancy: Redundancy::Mirror,
            width: LOG_DRIVES,
            chunk: log_chunk,
            ..array
        };
        classical::array::create(&env, &pair, &mirror).await?;
        let mirror = Array::open(&env, pair, OpenOptions::default()).await?;
        Log::create(&mirror, set.label.pool, log_bytes.unwrap_or(u64::MAX)).await?;
        mirror.close().await?;
        set.write_labels().await
    }
}
