//! `hpda`: HPDA, data drives and a parity drive that is half a write buffer
//!
//! Idea: SSDs with data and one drive with all their parity, a hard disk in the paper, are a RAID4,
//! so no SSD wears out from parity. What the parity drive has room for beside, and as much of a
//! second such drive, are a mirrored log: small writes are appended there and reach the RAID4
//! later, merged, when the array is idle. Everything else is as in `log-mirror`, which has two
//! drives for the log alone: there the heads never travel between log and parity, here one drive
//! less does. The last two drives named are the parity drive and the buffer drive.
//!
//! ```text
//!   3 SSDs, parity drive, buffer drive
//!   less than a stripe        d0     d1     d2     parity drive         buffer drive
//!                                                  [..|header new|    ] [..|header new|    ]
//!   a whole stripe          [ new ][ new ][ new ]  [              | P ]
//!   later, what was logged  [     ][ new ][     ]  [  log, void   | P ] [  log, void       ]
//! ```
//! Durable at acknowledgement (FUA or after FLUSH): the record with all before it in both halves of
//! the log; of a whole stripe data and parity, and the record that voids what the log had there. A
//! destaged range is durable in the RAID4 before its space in the log is free.
//! One failure: of an SSD: parity; all writes go to the log while it has room (surrogate), and a
//! new SSD is filled without them. Of the buffer drive: the log has its other half; it is emptied
//! into the RAID4 at once, and writes go there. Of the parity drive: the same, but nothing has
//! parity until a new one is filled: first its half of the log, then the parity.
//! Two failures: the buffer drive and an SSD. Not the parity drive and another, nor two SSDs.
//! Device writes per user write: 2 (⌈n / 4 KiB⌉ + 1) pages for n bytes to the log, none of them to
//! an SSD (writes that come at once share the 1); no reads unless it begins or ends within a page.
//! Destaged: k chunks to the SSDs and one to the parity drive for a whole stripe; else a
//! read-modify-write for each run of neighbours: what is new to the SSDs, as much and a log record
//! to the parity drive; or the gaps are logged, too, whichever moves fewer bytes.
//! Source: Mao et al., HPDA, ACM TOS 8(1), 2012, as described by Wu, Mao, Chen, Jiang, LDM, ACM TOS
//! 12(4), 2016, §6 and Table IV. It does not say which writes are small, when they are reclaimed,
//! and how space is divided: the first two as `log-mirror`, with a log in place of an array of
//! blocks; the log has what the parity drive does not need, or a sixteenth of it.

use classical::Redundancy;
use format::{LABEL_AREA, end_area};
use io::{Drive, Env};

use super::log_mirror::shape::{Making, Shape};
use super::log_mirror::{self, LOG_DRIVES, LogMirror, Options};
use crate::store::StoreError;

/// Fewest SSDs: with one, its parity would be a mirror.
const DATA_MIN: usize = 2;
/// The log has this part of a parity drive that is no larger than the SSDs.
const SIDE_PART: u64 = 16;
/// Labels and the slots of the mirror take 19 MiB with the default chunk.
const SIDE_MIN: u64 = 32 << 20;

/// What an array is to be like.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    pub chunk: u64,
    /// Chunk of the mirror below the log.
    pub log_chunk: u64,
    /// Bytes of parity drive and buffer drive for the log and what it needs around, to a multiple
    /// of 1 MiB; `None`: what the parity drive has beside parity.
    pub side: Option<u64>,
    /// Bytes of that which the log uses; `None`: all.
    pub log_bytes: Option<u64>,
    /// Every page has a checksum on other drives.
    pub checksums: bool,
}

impl Spec {
    pub fn new(name: &str) -> Spec {
        let log_mirror::Spec { name, chunk, log_chunk, .. } = log_mirror::Spec::new(name, 0);
        Spec { name, chunk, log_chunk, side: None, log_bytes: None, checksums: true }
    }
}

/// Bytes for the log: drives of these sizes, data drives first.
fn side(sizes: &[u64]) -> u64 {
    let (data, pair) = sizes.split_at(sizes.len() - LOG_DRIVES);
    let room = |size: u64| end_area(size).saturating_sub(LABEL_AREA);
    let smallest = data.iter().map(|size| room(*size)).min().unwrap_or(0);
    let free = room(pair[0]).saturating_sub(smallest);
    let most = room(pair[1]).min(smallest);
    let side = free.max(room(pair[0]) / SIDE_PART).max(SIDE_MIN).min(most);
    side / LABEL_AREA * LABEL_AREA
}

/// Makes an array: first the data drives, then the parity drive, then the buffer drive. What is on
/// them is gone.
pub async fn create<E: Env>(env: &E, drives: &[E::Drive], spec: &Spec) -> Result<(), StoreError> {
    let refuse = |what: String, hint| Err(StoreError::Shape { what, hint });
    if drives.len() < DATA_MIN + LOG_DRIVES {
        let hint = "give at least 4: two with data, the parity drive, the buffer drive";
        return refuse(format!("{} drives", drives.len()), hint);
    }
    let sizes: Vec<u64> = drives.iter().map(|drive| drive.geometry().size).collect();
    let side = spec.side.unwrap_or_else(|| side(&sizes)).next_multiple_of(LABEL_AREA);
    // The label says it of every drive.
    let smallest = sizes.iter().map(|size| end_area(*size)).min().unwrap_or(0);
    if LABEL_AREA + side > smallest {
        let hint = "it may be no larger than any of the drives: say less";
        return refuse(format!("a log of {side} bytes"), hint);
    }
    let making = Making {
        shape: Shape::Shared,
        name: spec.name.clone(),
        redundancy: Redundancy::ParityDrive,
        chunk: spec.chunk,
        log_chunk: spec.log_chunk,
        side,
        log_bytes: spec.log_bytes,
        checksums: spec.checksums,
    };
    making.create(env, drives).await
}

/// Opens an array. A data drive or the parity drive may be missing, and the buffer drive if the
/// parity drive is there.
pub async fn open<E: Env>(
    env: &E,
    drives: Vec<E::Drive>,
    options: Options,
) -> Result<LogMirror<E>, StoreError> {
    LogMirror::open_as(Shape::Shared, env, drives, options).await
}

#[cfg(test)]
mod tests {
    use super::side;

    const GIB: u64 = 1 << 30;

    /// §4.1 of LDM: SSDs of 64 GB, hard disks of 73 GB.
    #[test]
    fn the_log_has_what_the_parity_drive_has_room_for() {
        assert_eq!(side(&[64 * GIB, 64 * GIB, 64 * GIB, 73 * GIB, 73 * GIB]), 9 * GIB);
        // Of drives all alike a sixteenth, to whole MiB.
        assert_eq!(side(&[16 * GIB; 4]), GIB - (1 << 20));
        // No more than the buffer drive has, nor than an SSD.
        assert_eq!(side(&[64 * GIB, 64 * GIB, 73 * GIB, GIB]), GIB - (2 << 20));
        assert_eq!(side(&[GIB, GIB, 73 * GIB, 73 * GIB]), GIB - (2 << 20));
        assert_eq!(side(&[256 << 20; 4]), 32 << 20);
    }
}
