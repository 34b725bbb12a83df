//! Opening: what a crash, or nothing, left in the staging space.
//!
//! ```text
//!  heads of all drives ─ greatest word of each ─ staging spaces read page by page
//!     └ records of present epochs, whole ─ by sequence into D_Table ─ written back, flushed
//!          └ epochs raised, durable ─ the array is opened ─ epochs of absent drives raised
//! ```
//! Epochs are raised at every opening, so a record that could not be read now does not come back
//! later, when its range may have been written anew. Those of drives that are not there are raised
//! last: until the array does without them, they may come back with all that is staged for them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use classical::Array;
use io::{Drive, Durability, Env, join_all};

use super::drive::Steered;
use super::record::{self, Head, Header, PAGE, Spared};
use super::space::Places;
use super::stage::{Copy, Holder, Record, Stage, sums_of};
use crate::store::StoreError;

/// Bytes read at a time when a staging space is looked through.
const WINDOW: u64 = 256 << 10;

/// What the heads of all drives tell together.
pub struct Told {
    /// The greatest word of each drive that any head tells, the greatest sequence, and what is said
    /// last of a lost drive.
    pub all: Head,
    /// Drives whose own heads are older than one that every drive took.
    pub stale: Vec<usize>,
}

pub async fn read_heads(
    pool: &format::Uuid,
    holders: &[Holder],
    drives: usize,
) -> Result<Told, StoreError> {
    let mut found: Option<Head> = None;
    let mut own = vec![Vec::new(); holders.len()];
    for (holder, own) in holders.iter().zip(&mut own) {
        for at in [0, PAGE] {
            let Ok(page) = holder.head.read(at, PAGE).await else { continue };
            let Some(head) = record::decode_head(pool, &page, drives) else { continue };
            let all = found.get_or_insert_with(|| head.clone());
            all.sequence = all.sequence.max(head.sequence);
            all.taken = all.taken.max(head.taken);
            own.push(head.sequence);
            if all.spared.number < head.spared.number {
                all.spared = head.spared;
            }
            all.words.iter_mut().zip(head.words).for_each(|(all, word)| *all = word.max(*all));
        }
    }
    let damaged = || StoreError::Damaged("the staging space: no drive has a head of it".into());
    let all = found.ok_or_else(damaged)?;
    // One page may have rotted, and have been the newer one.
    let is_stale = |at: &usize| own[*at].len() == 2 && own[*at].iter().all(|own| *own < all.taken);
    let stale = (0..holders.len()).filter(is_stale).collect();
    Ok(Told { all, stale })
}

/// All records of present epochs on one holder that are whole; `None`: it can't be read. With
/// reserved space a page that can't be read is as good as one that was never written, since every
/// record that was flushed has enough copies.
async fn scan(stage: &Stage, holder: usize) -> Option<Vec<(Header, Vec<u32>)>> {
    let Some(space) = &stage.holders[holder].space else { return Some(Vec::new()) };
    let division = space.division;
    let (begin, end) =
        (division.log_at, division.log_at + space.segments.open() * division.segment);
    let (mut records, mut skip_to) = (Vec::new(), 0);
    for from in (begin..end).step_by(WINDOW as usize) {
        let len = WINDOW.min(end - from);
        let window = space.member.read(from, len).await.ok();
        for at in (from..from + len).step_by(PAGE as usize) {
            if at < skip_to {
                continue;
            }
            let page = match &window {
                Some(window) => window.slice((at - from) as usize..(at - from + PAGE) as usize),
                None => match space.member.read(at, PAGE).await {
                    Ok(page) => page,
                    Err(_) if stage.dedicated.is_some() => return None,
                    Err(_) => continue,
                },
            };
            let Some(header) = record::decode(&stage.pool, &page, holder, at) else { continue };
            let known = header.target < stage.targets.len();
            let present = known && header.epoch == stage.epoch(header.target);
            if !present || at + header.span() > end {
                continue;
            }
            if let Some(sums) = sums_of_whole(stage, &header).await {
                skip_to = at + header.span();
                records.push((header, sums));
            }
        }
    }
    Some(records)
}

/// What the pages of a record are. `None`: it is not whole.
async fn sums_of_whole(stage: &Stage, header: &Header) -> Option<Vec<u32>> {
    let space = stage.holders[header.holder].space.as_ref()?;
    let len = header.span() - PAGE;
    let data = space.member.read(header.r_offset + PAGE, len).await.ok()?;
    let data = &data[..header.len as usize];
    (crc32c::crc32c(data) == header.data_crc).then(|| sums_of(data))
}

/// Drives with writes on the dedicated one, which is not there: of each, what is on it is old.
fn write_off(stage: &Stage) {
    for (target, own) in stage.targets.iter().enumerate() {
        own.dead.set(own.dead.get() || stage.is_claimed(target));
    }
}

/// Fills D_Table from the records, and writes back what is meant for drives that are there. False:
/// a dedicated drive could not be read, and nobody knows what it has.
pub async fn recover<E: Env>(stage: &Rc<Stage>, drives: &[Steered<E>]) -> bool {
    let mut known = stage.dedicated.is_none_or(|at| !stage.holders[at].is_lost());
    // By target and sequence: the copies that can be read.
    let mut found: BTreeMap<(usize, u64), (Range<u64>, Record)> = BTreeMap::new();
    // Nothing is appended before all of this is written back, so no place needs keeping.
    let lease = Places::new(1).take().expect("it is free");
    for holder in 0..stage.holders.len() {
        let Some(headers) = scan(stage, holder).await else {
            write_off(stage);
            known = false;
            continue;
        };
        for (header, sums) in headers {
            let copy = Copy { holder, at: header.r_offset + PAGE, _lease: lease.clone() };
            let (range, len) = (header.d_offset..header.d_offset + header.len, header.len);
            let record = || (range, Record { copies: Vec::new(), len, sums });
            let own = found.entry((header.target, header.sequence)).or_insert_with(record);
            own.1.copies.push(copy);
        }
    }
    for ((target, _), (range, record)) in found {
        stage.targets[target].staged.borrow_mut().table.insert(range, Rc::new(record), true);
    }
    join_all(drives.iter().map(Steered::restore)).await;
    known
}

impl<E: Env> Steered<E> {
    async fn restore(&self) {
        let own = &self.stage.targets[self.index];
        // So that its epoch is raised in any case.
        own.steered.set(true);
        // Fails if the drive does, or too many others: opening the array tells.
        let _ = self.clear().await;
    }
}

/// After the array was opened without them: nothing is staged for drives that it does not use. What
/// was is noted as missing on them, if that is `known`.
pub async fn forget_absent<E: Env>(
    stage: &Rc<Stage>,
    array: &Array<E>,
    known: bool,
) -> Result<(), StoreError> {
    for (target, own) in stage.targets.iter().enumerate() {
        if !stage.is_dead(target) {
            continue;
        }
        // It may have failed since the array was opened.
        array.lose(target);
        match known || !stage.is_claimed(target) {
            true => array.keep(target, &stage.staged_of(target)).await,
            false => array.disown(target).await,
        }
        *own.staged.borrow_mut() = Default::default();
        own.steered.set(false);
        stage.raise(target);
    }
    match stage.seal_all().await {
        true => Ok(()),
        false => Err(StoreError::Damaged("the staging space: too few drives take its head".into())),
    }
}

/// The first head of a new array, on all drives.
pub async fn write_first(
    pool: &format::Uuid,
    parts: &[crate::part::Part],
    drives: usize,
) -> Result<(), StoreError> {
    let head = Head { sequence: 1, words: vec![2; drives], spared: Spared::default(), taken: 0 };
    let page = record::encode_head(pool, &head);
    for part in parts {
        for at in [0, PAGE] {
            let done = part.write(at, page.clone(), Durability::Durable).await;
            done.map_err(|_| StoreError::NotWritten { name: part.name() })?;
        }
    }
    Ok(())
}
