//! The partial-parity log: one ring of slots on each drive, for the parity chunks it holds.
//!
//! ```text
//!  slot        0  magic "STDYPPL1" | crc32c of the rest and the bytes (4) | pieces (4)
//!             16  pool uuid (16)
//!             32  epoch (8) | sequence (8) | stripe (8)
//!             56  hull: start (4), end (4) | page sums (4) | 1: they are in the log (2)
//!                 | 1: of P, 2: of Q, 0: not told (2)
//!             72  per piece: chunk (4), start (4), end (4)
//!                 per page: member of the stripe (2), page of its chunk (2), checksum before (4)
//!                 and after (4)
//!           4096  partial parity over the hull, or nothing if all of the hull was written
//!
//!  never used    epoch 0, the drive in the place of the stripe
//! ```
//! A record is durable on the drive of every parity member before the write that it tells of
//! begins, and its slot is taken until that write is durable. Afterwards it may stay: told again
//! of a finished write, recovery changes nothing, as long as it is the last of its stripe. So a
//! stripe's next record leaves the last one alone, which counts if the next is torn, and takes the
//! place of the one before that; and a write that needs no partial parity leaves an empty record
//! where there is one to supersede.
//!
//! Of an array with checksums every write has a record, which tells the checksums of the pages that
//! it is about to change, before and after: so recovery knows what it finds. It tells those, too,
//! of pages of the stripe that were written before and that the checksum log does not have; a
//! record of another stripe is overwritten when it has them. Where they are too many they are in
//! the checksum log before the write begins.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};

use format::{Superblock, Uuid};
use io::sync::{Permit, Semaphore};
use io::{Buf, Drive, DriveError, Durability, join_all};

use crate::grid::Piece;
use crate::label;
use crate::limits::{LOG_SLOTS, PAGE};

const MAGIC: &[u8; 8] = b"STDYPPL1";
const AT_CRC: usize = 8;
const AT_PIECES: usize = 72;
const PIECE: usize = 12;
const PAGE_SUM: usize = 12;
/// Epoch of a slot that was never used; those of records begin at 1. In the place of the stripe is
/// the drive.
const BLANK: u64 = 0;

/// Checksums of a page of a stripe's chunk, before and after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSum {
    pub member: usize,
    /// The page's first byte in the chunk.
    pub start: u64,
    pub old: u32,
    pub new: u32,
}

/// What a write was about to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub epoch: u64,
    pub sequence: u64,
    pub stripe: u64,
    pub start: u64,
    pub end: u64,
    pub pieces: Vec<Piece>,
    pub sums: Vec<PageSum>,
    /// They were too many: the checksum log has them.
    pub sums_logged: bool,
}

impl Record {
    /// How many page sums there is room for beside so many pieces.
    pub fn room(pieces: usize) -> usize {
        (PAGE as usize - AT_PIECES - pieces * PIECE) / PAGE_SUM
    }
}

/// What a drive keeps of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub record: Record,
    /// 0: P, 1: Q.
    pub parity: Option<usize>,
    /// Over the hull, or nothing if all of it was written.
    pub partial: Vec<u8>,
}

impl Slot {
    /// Whether it is one of this parity's, or does not tell of which it is.
    pub fn is_of(&self, parity: usize) -> bool {
        self.parity.is_none_or(|own| own == parity)
    }

    /// It was never used, on another drive than this one.
    pub fn is_blank_of_other(&self, drive: usize) -> bool {
        self.record.epoch == BLANK && self.record.stripe != drive as u64
    }
}

/// Bytes of a slot.
pub fn slot_bytes(chunk: u64) -> u64 {
    PAGE + chunk
}

pub fn bytes(chunk: u64) -> u64 {
    slot_bytes(chunk) * LOG_SLOTS as u64
}

pub fn encode(pool: &Uuid, record: &Record, parity: usize, partial: &[u8]) -> Vec<u8> {
    let room = Record::room(record.pieces.len());
    assert!(record.sums.len() <= room, "a page holds the pieces and the sums");
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
    put(64, &(record.sums.len() as u32).to_le_bytes());
    put(68, &u16::from(record.sums_logged).to_le_bytes());
    put(70, &(parity as u16 + 1).to_le_bytes());
    for (at, piece) in record.pieces.iter().enumerate() {
        let at = AT_PIECES + at * PIECE;
        put(at, &(piece.position as u32).to_le_bytes());
        put(at + 4, &(piece.start as u32).to_le_bytes());
        put(at + 8, &(piece.end as u32).to_le_bytes());
    }
    let at_sums = AT_PIECES + record.pieces.len() * PIECE;
    for (at, sum) in record.sums.iter().enumerate() {
        let at = at_sums + at * PAGE_SUM;
        put(at, &(sum.member as u16).to_le_bytes());
        put(at + 2, &((sum.start / PAGE) as u16).to_le_bytes());
        put(at + 4, &sum.old.to_le_bytes());
        put(at + 8, &sum.new.to_le_bytes());
    }
    put(PAGE as usize, partial);
    let crc = crc32c::crc32c(&slot[AT_CRC + 4..]);
    slot[AT_CRC..AT_CRC + 4].copy_from_slice(&crc.to_le_bytes());
    slot
}

/// The first page of a slot of this drive that was never used: what another drive has there does
/// not pass for it.
pub fn blank(pool: &Uuid, drive: usize) -> Vec<u8> {
    let (start, end) = (0, PAGE);
    let (pieces, sums) = (Vec::new(), Vec::new());
    let stripe = drive as u64;
    let (epoch, sequence, sums_logged) = (BLANK, 0, false);
    let record = Record { epoch, sequence, stripe, start, end, pieces, sums, sums_logged };
    encode(pool, &record, 0, &[])
}

/// The same of an array with this label.
pub fn unused(label: &Superblock, place: usize) -> Buf {
    match label::has_blank_slots(label) {
        true => Buf::from_slice(&blank(&label.pool, place)),
        false => Buf::zeroed(PAGE as usize),
    }
}

/// Where a slot lies on each drive.
pub fn slot_place(label: &Superblock, slot: u64) -> u64 {
    label.journal.offset + slot * slot_bytes(label.block_size.into())
}

/// Makes slots of the drive in this place that were never used, durable when this returns.
pub async fn write_blanks<D: Drive>(
    label: &Superblock,
    place: usize,
    drive: &D,
) -> Result<(), DriveError> {
    let page = unused(label, place);
    let write = |slot| drive.write(slot_place(label, slot), page.clone(), Durability::Cached);
    let all = join_all((0..LOG_SLOTS as u64).map(write)).await;
    all.into_iter().collect::<Result<(), DriveError>>()?;
    drive.flush().await
}

/// Whether a slot was never used, by software that wrote nothing there.
pub fn is_empty(slot: &[u8]) -> bool {
    const ZEROES: [u8; PAGE as usize] = [0; PAGE as usize];
    let head = &slot[..slot.len().min(ZEROES.len())];
    *head == ZEROES[..head.len()]
}

/// What a slot tells, if it is whole, of this pool and makes sense.
pub fn decode(pool: &Uuid, slot: &[u8], chunk: u64) -> Option<Slot> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(slot.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(slot.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(slot.get(at..at + 8)?.try_into().ok()?));
    if !slot.starts_with(MAGIC) || slot.get(16..32)? != pool.0 {
        return None;
    }
    let (start, end) = (u64::from(u32_at(56)?), u64::from(u32_at(60)?));
    let (count, sums) = (u32_at(12)? as usize, u32_at(64)? as usize);
    let header = AT_PIECES.checked_add(count.checked_mul(PIECE)?)?;
    let header = header.checked_add(sums.checked_mul(PAGE_SUM)?)?;
    if start >= end || end > chunk || header > PAGE as usize {
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
    let sum = |at: usize| {
        let at = AT_PIECES + count * PIECE + at * PAGE_SUM;
        let place = u32_at(at)?;
        let (member, start) = ((place & 0xffff) as usize, u64::from(place >> 16) * PAGE);
        Some(PageSum { member, start, old: u32_at(at + 4)?, new: u32_at(at + 8)? })
    };
    let sums: Option<Vec<PageSum>> = (0..sums).map(sum).collect();
    let record = Record {
        epoch: u64_at(32)?,
        sequence: u64_at(40)?,
        stripe: u64_at(48)?,
        start,
        end,
        pieces: pieces?,
        sums: sums?,
        sums_logged: u16_at(68)? != 0,
    };
    let parity = usize::from(u16_at(70)?).checked_sub(1);
    Some(Slot { record, parity, partial: slot[PAGE as usize..whole].to_vec() })
}

/// The slots of one drive.
struct Ring {
    room: Semaphore,
    /// Longest unused first.
    free: RefCell<VecDeque<usize>>,
    /// The record that recovery would find in each slot.
    held: RefCell<[Option<Held>; LOG_SLOTS]>,
}

/// A record in a slot.
#[derive(Clone, Copy)]
struct Held {
    stripe: u64,
    sequence: u64,
    /// Behind which entry of the checksum log its sums end.
    end: u64,
}

/// The slot for a stripe's next record among those that are free, the longest unused first; and up
/// to where the checksum log has to be committed before it is overwritten.
///
/// The last record of the stripe stays until the next one is durable: that may be torn. A record
/// before the last of a stripe goes first, or it would come to light when the last one goes.
fn choose(free: &VecDeque<usize>, held: &[Option<Held>; LOG_SLOTS], stripe: u64) -> (usize, u64) {
    let of = |slot: usize| held[slot];
    let is_last = |own: &Held| {
        let mut all = held.iter().flatten();
        !all.any(|other| other.stripe == own.stripe && other.sequence > own.sequence)
    };
    let has_others =
        |own: &Held| held.iter().flatten().filter(|other| other.stripe == own.stripe).count() > 1;
    let superseded = |slot: &usize| of(*slot).is_some_and(|own| !is_last(&own));
    let own = |slot: &usize| of(*slot).is_some_and(|held| held.stripe == stripe);
    let older = free.iter().position(|slot| own(slot) && superseded(slot));
    let usual = free.iter().position(|slot| {
        superseded(slot) || of(*slot).is_none_or(|held| held.stripe != stripe && !has_others(&held))
    });
    let at = older.or(usual).unwrap_or(0);
    let needed = of(free[at]).filter(is_last).map_or(0, |held| held.end);
    (at, needed)
}

/// The logs of all drives.
pub struct Log {
    rings: Vec<Ring>,
    sequence: Cell<u64>,
    /// Writes that are not over, by the sequence of their record.
    in_flight: RefCell<BTreeSet<u64>>,
    /// Of each drive the last record that is durable there, and what the checksum log knows of it.
    last: RefCell<Vec<(u64, u64)>>,
}

/// A slot that is taken.
pub struct Taken {
    pub drive: usize,
    pub slot: usize,
    /// The record that it holds is needed until the checksum log is committed up to here.
    pub needed_until: u64,
    _permit: Permit,
}

impl Log {
    pub fn new(drives: usize) -> Log {
        let ring = |_| Ring {
            room: Semaphore::new(LOG_SLOTS),
            free: RefCell::new((0..LOG_SLOTS).collect()),
            held: RefCell::new([None; LOG_SLOTS]),
        };
        let rings = (0..drives).map(ring).collect();
        Log {
            rings,
            sequence: Cell::new(1),
            in_flight: RefCell::default(),
            last: RefCell::new(vec![(0, 0); drives]),
        }
    }

    /// A write begins; to be told to [`Log::over`].
    pub fn next_sequence(&self) -> u64 {
        let sequence = self.sequence.replace(self.sequence.get() + 1);
        self.in_flight.borrow_mut().insert(sequence);
        sequence
    }

    /// The write with this record is durable, or was given up.
    pub fn over(&self, sequence: u64) {
        self.in_flight.borrow_mut().remove(&sequence);
    }

    /// Writes with earlier records are over.
    pub fn all_over_before(&self) -> u64 {
        self.in_flight.borrow().first().copied().unwrap_or(self.sequence.get())
    }

    /// A slot on a drive for the next record of the stripe. Who takes slots of several drives takes
    /// them in the drives' order.
    pub async fn take(&self, drive: usize, stripe: u64) -> Taken {
        let ring = &self.rings[drive];
        let permit = ring.room.acquire(1).await;
        let mut free = ring.free.borrow_mut();
        let (at, needed_until) = choose(&free, &ring.held.borrow(), stripe);
        let slot = free.remove(at).expect("a permit is a slot");
        Taken { drive, slot, needed_until, _permit: permit }
    }

    /// The record is durable; until then what was there before may still be found.
    pub fn written(&self, taken: &Taken, stripe: u64, sequence: u64) {
        let held = Held { stripe, sequence, end: 0 };
        self.rings[taken.drive].held.borrow_mut()[taken.slot] = Some(held);
        let last = &mut self.last.borrow_mut()[taken.drive].0;
        *last = sequence.max(*last);
    }

    /// Drives with newer records than they had when this was asked before, and the last of each.
    pub fn news(&self) -> Vec<(usize, u64)> {
        let mut last = self.last.borrow_mut();
        let news = last.iter_mut().enumerate().filter(|(_, (last, told))| last > told);
        let tell = |(drive, (last, told)): (usize, &mut (u64, u64))| {
            *told = *last;
            (drive, *last)
        };
        news.map(tell).collect()
    }

    /// Its write's sums end before this entry of the checksum log.
    pub fn logged(&self, taken: &Taken, end: u64) {
        let mut held = self.rings[taken.drive].held.borrow_mut();
        held[taken.slot].iter_mut().for_each(|own| own.end = end);
    }

    /// The write is durable, or was given up before it began.
    pub fn release(&self, taken: Taken) {
        self.rings[taken.drive].free.borrow_mut().push_back(taken.slot);
    }

    /// There is a record of this stripe on one of these drives, which recovery would find.
    pub fn tells_of(&self, stripe: u64, drives: &[usize]) -> bool {
        let tells = |&drive: &usize| {
            let held = self.rings[drive].held.borrow();
            held.iter().flatten().any(|own| own.stripe == stripe)
        };
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
        let sum = |member: usize| PageSum { member, start: 4096 * member as u64, old: 7, new: 9 };
        let sums = (0..300).map(sum).collect();
        let (epoch, sequence, stripe, start, end) = (4, 77, 5, 0, 8192);
        Record { epoch, sequence, stripe, start, end, pieces, sums, sums_logged: true }
    }

    #[test]
    fn records_are_read_back_with_and_without_bytes() {
        let partial: Vec<u8> = (0..8192u32).map(|at| at as u8).collect();
        for partial in [&partial[..], &[]] {
            let mut slot = encode(&POOL, &record(), 1, partial);
            slot.resize(slot_bytes(65536) as usize, 0xee);
            let told = Slot { record: record(), parity: Some(1), partial: partial.to_vec() };
            assert_eq!(decode(&POOL, &slot, 65536), Some(told));
            assert_eq!(decode(&Uuid([4; 16]), &slot, 65536), None);
        }
    }

    #[test]
    fn torn_records_are_none() {
        let whole = encode(&POOL, &record(), 0, &[9; 8192]);
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
                log.written(&taken[stripe as usize], stripe, stripe);
            }
            assert!(log.tells_of(5, &[0, 1]) && !log.tells_of(5, &[0]));
            let mut one_more = Box::pin(log.take(1, 1000));
            assert!(one_more.as_mut().now_or_never().is_none());
            drop(one_more);
            let slots: Vec<usize> = taken[..4].iter().map(|taken| taken.slot).collect();
            taken.drain(..4).for_each(|taken| log.release(taken));
            // The longest unused is next, but the last record of a stripe stays for its next one.
            let next = log.take(1, 0).await;
            assert_eq!(next.slot, slots[1]);
            log.written(&next, 0, 2000);
            log.logged(&next, 77);
            log.release(next);
            // Then the one before the last goes, for its own next one or for any other.
            let third = log.take(1, 0).await;
            assert_eq!((third.slot, third.needed_until), (slots[0], 0));
            log.release(third);
            // Of other stripes the longest unused; the last of a stripe when it is alone there.
            let mut next = Vec::new();
            for stripe in 1000..1004 {
                let taken = log.take(1, stripe).await;
                next.push((taken.slot, taken.needed_until));
                log.written(&taken, stripe, 3000);
                std::mem::forget(taken);
            }
            assert_eq!(next, [(slots[2], 0), (slots[3], 0), (slots[0], 0), (slots[1], 77)]);
        });
    }
}
