//! The partial-parity log: one ring of slots on each drive, for the parity chunks it holds.
//!
//! ```text
//!  slot        0  magic "STDYPPL1" | crc32c of the rest and the bytes (4) | pieces (4)
//!             16  pool uuid (16)
//!             32  epoch (8) | sequence (8) | stripe (8)
//!             56  hull: start (4), end (4) | 0 (8)
//!             72  per piece: chunk (4), start (4), end (4)
//!           4096  partial parity over the hull, or nothing if all of the hull was written
//! ```
//! A record is durable on the drive of every parity member before the write that it tells of
//! begins, and its slot is taken until that write is durable. Afterwards it may stay: told again
//! of a finished write, recovery changes nothing, as long as it is the last of its stripe. So a
//! stripe's next record takes the place of the one before, and a write that needs no partial
//! parity leaves an empty record where there is one to supersede.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use format::Uuid;
use io::sync::{Permit, Semaphore};

use crate::grid::Piece;
use crate::limits::{LOG_SLOTS, PAGE};

const MAGIC: &[u8; 8] = b"STDYPPL1";
const AT_CRC: usize = 8;
const AT_PIECES: usize = 72;
const PIECE: usize = 12;

/// What a write was about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub epoch: u64,
    pub sequence: u64,
    pub stripe: u64,
    pub start: u64,
    pub end: u64,
    pub pieces: Vec<Piece>,
}

/// Bytes of a slot.
pub fn slot_bytes(chunk: u64) -> u64 {
    PAGE + chunk
}

pub fn bytes(chunk: u64) -> u64 {
    slot_bytes(chunk) * LOG_SLOTS as u64
}

pub fn encode(pool: &Uuid, record: &Record, partial: &[u8]) -> Vec<u8> {
    assert!(AT_PIECES + record.pieces.len() * PIECE <= PAGE as usize, "a page holds the pieces");
    let mut slot = vec![0; PAGE as usize + partial.len()];
    slot[..8].copy_from_slice(MAGIC);
    let mut put = |at: usize, bytes: &[u8]| slot[at..at + bytes.len()].copy_from_slice(bytes);
    put(12, &(record.pieces.len() as u32).to_le_bytes());
    put(16, &pool.0);
    put(32, &record.epoch.to_le_bytes());
    put(40, &record.sequence.to_le_bytes());
    put(48, &record.stripe.to_le_bytes());
    put(56, &(record.start as u32).to_le_bytes());
    put(60, &(record.end as u32).to_le_bytes());
    for (at, piece) in record.pieces.iter().enumerate() {
        let at = AT_PIECES + at * PIECE;
        put(at, &(piece.position as u32).to_le_bytes());
        put(at + 4, &(piece.start as u32).to_le_bytes());
        put(at + 8, &(piece.end as u32).to_le_bytes());
    }
    put(PAGE as usize, partial);
    let crc = crc32c::crc32c(&slot[AT_CRC + 4..]);
    slot[AT_CRC..AT_CRC + 4].copy_from_slice(&crc.to_le_bytes());
    slot
}

/// The record of a slot and its partial parity, if it is whole, of this pool and makes sense.
pub fn decode(pool: &Uuid, slot: &[u8], chunk: u64) -> Option<(Record, Vec<u8>)> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(slot.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(slot.get(at..at + 8)?.try_into().ok()?));
    if !slot.starts_with(MAGIC) || slot.get(16..32)? != pool.0 {
        return None;
    }
    let (start, end) = (u64::from(u32_at(56)?), u64::from(u32_at(60)?));
    let count = u32_at(12)? as usize;
    if start >= end || end > chunk || AT_PIECES + count * PIECE > PAGE as usize {
        return None;
    }
    // With partial parity or without: only the right length has the right checksum.
    let crc = u32_at(AT_CRC)?;
    let ends = [PAGE, PAGE + end - start].map(|end| end as usize);
    let end_of =
        |end: &usize| slot.get(AT_CRC + 4..*end).is_some_and(|bytes| crc32c::crc32c(bytes) == crc);
    let whole = ends.into_iter().find(end_of)?;
    let piece = |at: usize| {
        let at = AT_PIECES + at * PIECE;
        let position = u32_at(at)? as usize;
        Some(Piece { position, start: u32_at(at + 4)?.into(), end: u32_at(at + 8)?.into() })
    };
    let pieces: Option<Vec<Piece>> = (0..count).map(piece).collect();
    let record = Record {
        epoch: u64_at(32)?,
        sequence: u64_at(40)?,
        stripe: u64_at(48)?,
        start,
        end,
        pieces: pieces?,
    };
    Some((record, slot[PAGE as usize..whole].to_vec()))
}

/// The slots of one drive.
struct Ring {
    room: Semaphore,
    /// Longest unused first.
    free: RefCell<VecDeque<usize>>,
    /// Whose record recovery would find in each slot.
    stripes: RefCell<[Option<u64>; LOG_SLOTS]>,
}

/// The logs of all drives.
pub struct Log {
    rings: Vec<Ring>,
    sequence: Cell<u64>,
}

/// A slot that is taken.
pub struct Taken {
    pub drive: usize,
    pub slot: usize,
    _permit: Permit,
}

impl Log {
    pub fn new(drives: usize) -> Log {
        let ring = |_| Ring {
            room: Semaphore::new(LOG_SLOTS),
            free: RefCell::new((0..LOG_SLOTS).collect()),
            stripes: RefCell::new([None; LOG_SLOTS]),
        };
        Log { rings: (0..drives).map(ring).collect(), sequence: Cell::new(1) }
    }

    pub fn next_sequence(&self) -> u64 {
        self.sequence.replace(self.sequence.get() + 1)
    }

    /// A slot on a drive for a record of the stripe: the one that tells of it already, so that none
    /// is older than the last. Who takes slots of several drives takes them in the drives' order.
    pub async fn take(&self, drive: usize, stripe: u64) -> Taken {
        let ring = &self.rings[drive];
        let permit = ring.room.acquire(1).await;
        let mut free = ring.free.borrow_mut();
        let stripes = ring.stripes.borrow();
        let own = free.iter().position(|&slot| stripes[slot] == Some(stripe));
        let slot = free.remove(own.unwrap_or(0)).expect("a permit is a slot");
        Taken { drive, slot, _permit: permit }
    }

    /// The record is durable; until then what was there before may still be found.
    pub fn written(&self, taken: &Taken, stripe: u64) {
        self.rings[taken.drive].stripes.borrow_mut()[taken.slot] = Some(stripe);
    }

    /// The write is durable, or was given up before it began.
    pub fn release(&self, taken: Taken) {
        self.rings[taken.drive].free.borrow_mut().push_back(taken.slot);
    }

    /// There is a record of this stripe on one of these drives, which recovery would find.
    pub fn tells_of(&self, stripe: u64, drives: &[usize]) -> bool {
        let tells = |&drive: &usize| self.rings[drive].stripes.borrow().contains(&Some(stripe));
        drives.iter().any(tells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use futures_util::FutureExt;

    const POOL: Uuid = Uuid([3; 16]);

    fn record() -> Record {
        let pieces = vec![
            Piece { position: 1, start: 4096, end: 8192 },
            Piece { position: 2, start: 0, end: 4096 },
        ];
        Record { epoch: 4, sequence: 77, stripe: 5, start: 0, end: 8192, pieces }
    }

    #[test]
    fn records_are_read_back_with_and_without_bytes() {
        let partial: Vec<u8> = (0..8192u32).map(|at| at as u8).collect();
        for partial in [&partial[..], &[]] {
            let mut slot = encode(&POOL, &record(), partial);
            slot.resize(slot_bytes(65536) as usize, 0xee);
            assert_eq!(decode(&POOL, &slot, 65536), Some((record(), partial.to_vec())));
            assert_eq!(decode(&Uuid([4; 16]), &slot, 65536), None);
        }
    }

    #[test]
    fn torn_records_are_none() {
        let whole = encode(&POOL, &record(), &[9; 8192]);
        for at in (0..whole.len()).step_by(512) {
            let mut torn = whole.clone();
            torn[at..at + 512].iter_mut().for_each(|byte| *byte = !*byte);
            assert_eq!(decode(&POOL, &torn, 65536), None, "sector at {at}");
            assert_eq!(decode(&POOL, &whole[..at], 65536), None);
        }
    }

    #[test]
    fn slots_go_round_and_wait_when_all_are_taken() {
        let env = io::virt::VirtEnv::new(1);
        env.block_on(async {
            let log = Log::new(2);
            let mut taken = Vec::new();
            for stripe in 0..LOG_SLOTS as u64 {
                taken.push(log.take(1, stripe).await);
                log.written(&taken[stripe as usize], stripe);
            }
            assert!(log.tells_of(5, &[0, 1]) && !log.tells_of(5, &[0]));
            let mut one_more = Box::pin(log.take(1, 1000));
            assert!(one_more.as_mut().now_or_never().is_none());
            drop(one_more);
            // The longest unused is next, but a stripe gets its own again.
            let slots: Vec<usize> = taken[..3].iter().map(|taken| taken.slot).collect();
            taken.drain(..3).for_each(|taken| log.release(taken));
            assert_eq!(log.take(1, 2).await.slot, slots[2]);
            assert_eq!(log.take(1, 1000).await.slot, slots[0]);
        });
    }
}
