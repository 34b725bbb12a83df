//! What the log of a replica holds of its data goes to its place.
//!
//! ```text
//!   log    ... | edges | ranges |       ...       | edges | ranges | 8 | edges | 9
//!                a batch that is in place           the last batch         ▲ not begun, or of an
//!                                                                     opening that was cut short
//! ```
//! A page that a crash may leave half written, and that no other replica has as this one had it, is
//! an *edge*: the log has all of it. The last edges come to their places first, then the entries
//! that are not in place. Pages of which these change a part may be torn by a crash in their turn:
//! they are logged as edges before.

use std::collections::BTreeMap;
use std::ops::Range;

use classical::ArrayError;
use classical::sums::UNKNOWN;
use io::{Buf, Env, join_all};

use super::resync::COPIES;
use super::{Facts, Read};
use crate::log::record::PAGE;
use crate::scheme::alternate::cache::Overlay;
use crate::scheme::alternate::replica::{
    DATA, DONE, EDGE, ENTRY_BITS, NUMBERED, NUMBERED_EDGE, RANGE, RANGES, ragged, whole_of,
};
use crate::store::StoreError;

/// What the log of a replica has told.
pub(super) struct ToldLog {
    /// Up to which entry its replica has everything.
    pub says: u64,
    /// Of some pages only another one has checksums.
    pub lacks: bool,
    pub unplaced: Overlay,
    /// Pages of the data that are neither old nor new, and the checksums that they should have.
    pub unvouched: BTreeMap<u64, u32>,
    /// Of its array, what was being written: also where nothing tells of it.
    pub marked: Vec<Range<u64>>,
}

/// Data of a log that is not in place goes there; and how many entries of it there are. What is
/// there is looked at before: a page that is written in part is what it should be afterwards,
/// whatever the rest of it was. Of a page that nobody vouches for all is written, later.
pub(super) async fn replay<E: Env>(
    own: &Read<E>,
    lacks: bool,
    ranges: &[(u64, u64)],
    Facts { size, base, session, on_all }: Facts,
) -> Result<(ToldLog, u64), StoreError> {
    let array = &own.replica.array;
    // All of a stripe is looked at when a page of it is.
    let marked = array.marked();
    for some in ranges.chunks(COPIES) {
        join_all(some.iter().map(|(at, len)| array.resync_range(base + at, *len))).await;
    }
    let unknown = ranges.iter().flat_map(|(at, len)| array.unknown(base + at, *len));
    let unknown = unknown.map(|at| (at, UNKNOWN));
    let within = |at: u64| at.checked_sub(base).filter(|at| at + PAGE <= size);
    let of_data = |(at, sum): (u64, u32)| Some((within(at)?, sum));
    // The last of a page counts.
    let unvouched = unknown.chain(array.take_unvouched()).filter_map(of_data);
    let mut unvouched: BTreeMap<u64, u32> = unvouched.collect();
    let done = own.says(session, &[DONE]).max(on_all).max(session << ENTRY_BITS);
    let (unplaced, count) = own.unplaced(session, done).await?;
    let pieces = sound(&unplaced.pieces(), &unvouched);
    own.log_edges(base, &pieces, done).await?;
    let lost = own.replica.put_what_goes(base, &pieces).await?;
    // What the log has all of it vouches for.
    unvouched.retain(|at, _| whole_of(&pieces, *at).is_none());
    unvouched.extend(lost.into_iter().filter_map(within).map(|at| (at, UNKNOWN)));
    let says = own.says(session, &[NUMBERED, DONE]);
    Ok((ToldLog { says, lacks, unplaced, unvouched, marked }, count))
}

/// Pieces, but for the parts of pages that nobody vouches for.
fn sound(pieces: &[(u64, Buf)], unvouched: &BTreeMap<u64, u32>) -> Vec<(u64, Buf)> {
    let is_torn = |at: u64| !at.is_multiple_of(PAGE) && unvouched.contains_key(&(at / PAGE * PAGE));
    let sound = pieces.iter().filter_map(|(start, data)| {
        let end = start + data.len() as u64;
        let from = if is_torn(*start) { start.next_multiple_of(PAGE).min(end) } else { *start };
        let to = if is_torn(end) { (end / PAGE * PAGE).max(from) } else { end };
        let part = || data.slice((from - start) as usize..(to - start) as usize);
        (from < to).then(|| (from, part()))
    });
    sound.collect()
}

impl<E: Env> Read<E> {
    /// Data of this session behind this entry, which is not in place, over the last edges; and how
    /// many entries of it there are.
    async fn unplaced(&self, session: u64, done: u64) -> Result<(Overlay, u64), StoreError> {
        let (log, page) = (&self.replica.log, self.replica.page());
        let begins = self.session_begins(session);
        let mut entries = Vec::new();
        let (mut edges, mut last_edges, mut batch) = (Vec::new(), Vec::new(), None);
        for found in &self.found {
            let read = || log.read(found.place.at, found.data);
            match found.kind {
                DATA if found.place.at >= page.replay => {
                    entries.push((found.address, read().await?));
                }
                NUMBERED if found.len > done && found.len >> ENTRY_BITS == session => {
                    entries.push((found.address, read().await?));
                }
                // Of a batch that is in place everywhere; else newer data may be over it.
                NUMBERED_EDGE if found.len < done || found.len >> ENTRY_BITS != session => {}
                NUMBERED_EDGE => edges.push((found.address, read().await?)),
                EDGE if begins.is_some_and(|begins| found.place.record >= begins) => {
                    edges.push((found.address, read().await?));
                }
                // A batch begins: the one before was through.
                RANGES | RANGE if batch != Some(found.place.record) => {
                    batch = Some(found.place.record);
                    last_edges = std::mem::take(&mut edges);
                }
                _ => {}
            }
        }
        let count = entries.len() as u64;
        let mut overlay = Overlay::default();
        // Nothing has changed the pages of those that came last since.
        for (address, data) in last_edges.into_iter().chain(edges).chain(entries) {
            overlay.put(address, 0, data);
        }
        Ok((overlay, count))
    }

    /// Where there is no room for them a log of older software is full.
    async fn log_edges(
        &self,
        base: u64,
        pieces: &[(u64, Buf)],
        done: u64,
    ) -> Result<(), StoreError> {
        let mut pages = Vec::new();
        for at in ragged(pieces) {
            match self.replica.array.read(base + at, PAGE).await {
                Ok(_) => pages.push(at),
                Err(ArrayError::PageLost { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Needless when the pool is open.
        self.replica.log_edges(base, &pages, pieces, (done, 0)).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_nobody_vouches_for_is_not_written_in_part() {
        let piece = |start: u64, end: u64| (start, Buf::zeroed((end - start) as usize));
        let pieces = [piece(512, 3 * PAGE + 512), piece(4 * PAGE, 5 * PAGE), piece(6656, 7168)];
        let ranges = |unvouched: &[u64]| {
            let unvouched = unvouched.iter().map(|at| (*at, UNKNOWN)).collect();
            let sound = sound(&pieces, &unvouched).into_iter();
            sound.map(|(at, data)| (at, at + data.len() as u64)).collect::<Vec<_>>()
        };
        let (whole, last) = ((4 * PAGE, 5 * PAGE), (6656, 7168));
        assert_eq!(ranges(&[]), [(512, 3 * PAGE + 512), whole, last]);
        assert_eq!(ranges(&[0]), [(PAGE, 3 * PAGE + 512), whole, last]);
        assert_eq!(ranges(&[0, 3 * PAGE]), [(PAGE, 3 * PAGE), whole, last]);
        // What is written as a whole needs nobody.
        assert_eq!(ranges(&[2 * PAGE, 4 * PAGE]), [(512, 3 * PAGE + 512), whole, last]);
        assert_eq!(ranges(&[PAGE]), [(512, 3 * PAGE + 512), whole]);
    }
}
