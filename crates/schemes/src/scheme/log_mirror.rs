//! `log-mirror`: LDM, log disk mirroring.
//!
//! Idea: small writes are appended to a log on a mirrored pair of drives of its own, and reach the
//! parity array later, merged, when nobody has asked for anything for half a second: the fullest
//! stripes first. Writing them costs no parity and no read, and the pair only ever writes
//! sequentially, so two hard disks do (or two SSDs: S-LDM).
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
//! One failure: of a data drive: parity; all writes go to the log while it has room (surrogate),
//! also while a new drive is filled. Of a log drive: the other one; writes go to the array and the
//! log is emptied into it at once, beside the copying to a new log drive.
//! Two failures: one of each kind at the same time; two data drives with two parities. Not both log
//! drives while something lies only there.
//! Device writes per user write: 2 (⌈n / 4 KiB⌉ + 1) pages for n bytes to the log (writes that come
//! at once share the 1), no reads unless it begins or ends within a page. Destaged: data and
//! parity of a stripe once, k + p chunks, if all of it came together; else a read-modify-write for
//! each run of neighbours, or the gaps are logged, too, whichever moves fewer bytes. Whole
//! stripes: k + p chunks, and two pages if the log had something there.
//! Source: Wu, Mao, Chen, Jiang, LDM, ACM TOS 12(4), 2016, §3.2 to §3.6. Here whole stripes within
//! a longer request go to the array and its ends to the log; in the paper all of it to the array.
//! Here the map knows whole pages, in the paper offset and length. When an array is idle it does
//! not say. What is in the log is read once to be migrated and once to be copied to a new log
//! drive; in the paper once for both.

mod destage;
pub mod plan;
pub mod policy;
mod replace;
mod requests;
pub(super) mod shape;
mod store;

use classical::{OpenOptions, Redundancy};
use io::Env;

use self::policy::Policy;
use self::shape::{Making, Shape};
use self::store::Inner;
use crate::store::StoreError;

pub use self::store::LogMirror;

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
    /// Every page has a checksum on other drives.
    pub checksums: bool,
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
            checksums: true,
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

/// Makes an array: first the data drives, then the two log drives. What is on them is gone.
pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    spec.check(drives.len())?;
    let making = Making {
        shape: Shape::Apart,
        name: spec.name.clone(),
        redundancy: Redundancy::Parity(spec.parity),
        chunk: spec.chunk,
        log_chunk: spec.log_chunk,
        side: 0,
        log_bytes: spec.log_bytes,
        checksums: spec.checksums,
    };
    making.create(env, drives).await
}

impl<E: Env> LogMirror<E> {
    /// Opens an array. Data drives up to the parities and one log drive may be missing.
    pub async fn open(
        env: &E,
        drives: Vec<E::Drive>,
        options: Options,
    ) -> Result<LogMirror<E>, StoreError> {
        LogMirror::open_as(Shape::Apart, env, drives, options).await
    }
}
