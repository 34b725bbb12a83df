//! Replicas that may differ are made equal: who is right is had everywhere, once it has from the
//! others what of its own is neither old nor new.

use std::cmp::Reverse;
use std::ops::Range;

use classical::ArrayError;
use classical::sums::vouches;
use io::{Buf, Env, join_all};

use super::{Told, ToldLog};
use crate::log::record::PAGE;
use crate::scheme::alternate::page::Page;
use crate::scheme::alternate::replica::Replica;
use crate::store::StoreError;

/// Bytes that are copied from one replica to the others at once.
const COPY: u64 = 256 << 10;
/// Of these copies.
pub(super) const COPIES: usize = 8;

/// In whole pages, in order, none twice, none longer than what is copied at once.
pub(super) fn merged(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (start, len) in ranges {
        let (from, to) = (start / PAGE * PAGE, (start + len).next_multiple_of(PAGE));
        match all.last_mut().filter(|(_, end)| *end >= from) {
            Some((_, end)) => *end = (*end).max(to),
            None => all.push((from, to)),
        }
    }
    let cut = |(from, to): (u64, u64)| {
        (from..to).step_by(COPY as usize).map(move |at| (at, COPY.min(to - at)))
    };
    all.into_iter().flat_map(cut).collect()
}

/// A replica, and what its log had for it.
struct Source<'a, E: Env> {
    side: usize,
    replica: &'a Replica<E>,
    log: Option<&'a ToldLog>,
}

impl<E: Env> Source<'_, E> {
    /// A page of the data. Of one that nobody vouches for what the log has is not in place.
    async fn page(&self, base: u64, at: u64) -> Result<Buf, ArrayError> {
        let page = self.replica.array.read(base + at, PAGE).await?;
        Ok(self.log.map_or(page.clone(), |log| log.unplaced.over(at, &page)))
    }
}

/// Bytes of a range, and the replica that need not be given them. Of pages one by one each is: who
/// gave one may have no checksum for it, and would be taken for one that lost it.
struct Copied {
    at: u64,
    data: Buf,
    from: Option<usize>,
}

/// Bytes of a range: of the first of these replicas. What it has lost of them, page by page, is
/// that of the next that has it. What none has is left out.
async fn gather<E: Env>(
    sources: &[Source<'_, E>],
    (at, len): (u64, u64),
    base: u64,
) -> Result<Vec<Copied>, (usize, StoreError)> {
    let from = sources[0].side;
    match sources[0].replica.array.read(base + at, len).await {
        Ok(data) => return Ok(vec![Copied { at, data, from: Some(from) }]),
        Err(ArrayError::PageLost { .. }) => {}
        Err(error) => return Err((from, error.into())),
    }
    let mut found = Vec::new();
    for at in (at..at + len).step_by(PAGE as usize) {
        for source in sources {
            match source.page(base, at).await {
                Ok(data) => {
                    found.push(Copied { at, data, from: None });
                    break;
                }
                Err(ArrayError::PageLost { .. }) => {}
                Err(error) => return Err((source.side, error.into())),
            }
        }
    }
    Ok(found)
}

/// Copies the ranges from the first replica to the others, and what it has lost of them from these;
/// durable when this returns. An error says which of them failed.
async fn copy<E: Env>(
    sources: &[Source<'_, E>],
    ranges: &[(u64, u64)],
    base: u64,
) -> Result<(), (usize, StoreError)> {
    for some in ranges.chunks(COPIES) {
        let read = join_all(some.iter().map(|range| gather(sources, *range, base))).await;
        let read = read.into_iter().collect::<Result<Vec<_>, _>>()?;
        let read: Vec<Copied> = read.into_iter().flatten().collect();
        for Source { side, replica, .. } in sources {
            let missing = read.iter().filter(|copied| copied.from != Some(*side));
            let writes = missing
                .map(|Copied { at, data, .. }| replica.array.write(base + at, data.clone(), false));
            let written = join_all(writes).await.into_iter().collect::<Result<(), _>>();
            written.map_err(|error| (*side, error.into()))?;
        }
    }
    // The first as well: what was read of it after a crash has a new checksum.
    for Source { side, replica, .. } in sources {
        replica.array.flush().await.map_err(|error| (*side, error.into()))?;
    }
    Ok(())
}

/// Who is right of those that are left.
fn right<E: Env>(told: &Told<E>) -> Option<usize> {
    let there = told.replicas.iter().enumerate();
    let mut pages: Vec<(usize, Page)> =
        there.filter_map(|(side, own)| Some((side, own.as_ref()?.page()))).collect();
    if pages.first()?.1.one_log {
        return pages.iter().max_by_key(|(_, page)| page.lead).map(|(side, _)| *side);
    }
    let most = pages.iter().map(|(side, _)| told.says(*side)).max()?;
    pages.retain(|(side, _)| told.says(*side) == most);
    // Of those one that is sure of all its pages.
    let lacks = |side: usize| told.logs[side].as_ref().is_some_and(|log| log.lacks);
    if pages.iter().any(|(side, _)| !lacks(*side)) {
        pages.retain(|(side, _)| !lacks(*side));
    }
    // Of those that were not written to last the one that was before.
    pages.sort_by_key(|(_, page)| page.window);
    let at = pages.len().saturating_sub(2);
    Some(pages[at].0)
}

/// Those that are there: who is right, and then who has most of what was flushed.
fn in_turn<E: Env>(told: &Told<E>, right: usize) -> Vec<Source<'_, E>> {
    let all = told.replicas.iter().zip(&told.logs).enumerate();
    let there = all.filter_map(|(side, (replica, log))| {
        Some(Source { side, replica: replica.as_ref()?, log: log.as_ref() })
    });
    let mut there: Vec<Source<'_, E>> = there.collect();
    there.sort_by_key(|own| (own.side != right, Reverse(told.says(own.side))));
    there
}

/// Pages of the one that is right which are neither old nor new are had from another one; what none
/// has stays, and counts from now on.
async fn vouch<E: Env>(told: &Told<E>, right: usize, base: u64) -> Result<(), StoreError> {
    let (Some(own), Some(log)) = (&told.replicas[right], &told.logs[right]) else { return Ok(()) };
    let pages: Vec<u64> = log.unvouched.keys().copied().collect();
    for some in pages.chunks(COPIES) {
        let writes = some.iter().map(async |&at| {
            let page = match vouched(told, right, (base, at)).await {
                Some(page) => page,
                None => match own.array.read(base + at, PAGE).await {
                    Ok(page) => page,
                    Err(_) => return Ok(()),
                },
            };
            let page = log.unplaced.over(at, &told_by_others(told, right, at, page));
            own.array.write(base + at, page, false).await
        });
        join_all(writes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
    }
    Ok(())
}

/// A page with what logs that say as much have not in place. The one that is right has it in place,
/// and nobody vouches for its page: what is there may be of before (seed 1345).
fn told_by_others<E: Env>(told: &Told<E>, right: usize, at: u64, page: Buf) -> Buf {
    let others = in_turn(told, right).into_iter().filter(|own| own.side != right);
    let most = told.says(right);
    let is_alike = |own: &Source<'_, E>| told.says(own.side) == most && !own.replica.page().one_log;
    let logs = others.filter(is_alike).filter_map(|own| own.log);
    logs.fold(page, |page, log| log.unplaced.over(at, &page))
}

/// The page as another replica has it, if that one has no doubt; of several as the one that has
/// most of what was flushed. If all have doubts, as one has it, in its place or with what its log
/// has not in place, that is what a checksum says: its own, of which it has lost the page, or that
/// of another, whose page has rotted.
async fn vouched<E: Env>(told: &Told<E>, right: usize, (base, at): (u64, u64)) -> Option<Buf> {
    // Of one log no other replica has what was flushed.
    if told.replicas[right].as_ref()?.page().one_log {
        return None;
    }
    let mut doubted = Vec::new();
    for own in in_turn(told, right) {
        let sum = own.log.and_then(|log| log.unvouched.get(&at)).copied();
        let Ok(page) = own.replica.array.read(base + at, PAGE).await else { continue };
        match sum {
            None if own.side != right && own.log.is_some() => return Some(page),
            None => {}
            Some(sum) => {
                let told = own.log.map_or(page.clone(), |log| log.unplaced.over(at, &page));
                doubted.push((sum, [page, told]));
            }
        }
    }
    // What the one that is right knows comes first.
    let vouched = |(sum, _): &(u32, _)| {
        doubted.iter().flat_map(|(_, pages)| pages).find(|page| vouches(*sum, page))
    };
    doubted.iter().find_map(vouched).cloned()
}

/// Where batches changed something on a replica of which the log has rotted that told of them: its
/// checksums are others there than those of the one that is right.
fn untold<E: Env>(told: &mut Told<E>, right: usize, (base, size): (u64, u64)) {
    let Some(own) = &told.replicas[right] else { return };
    let others =
        told.replicas.iter().zip(&told.logs).enumerate().filter(|(side, _)| *side != right);
    let others = others.filter_map(|(_, (other, log))| other.as_ref().zip(log.as_ref()));
    let ranges = others.flat_map(|(other, log)| other.array.differs_from(&own.array, &log.marked));
    let ranges: Vec<(u64, u64)> = ranges.filter_map(|range| within(range, (base, size))).collect();
    told.ranges.extend(ranges);
}

/// What of a range of an array is data.
pub(super) fn within(range: Range<u64>, (base, size): (u64, u64)) -> Option<(u64, u64)> {
    let [start, end] = [range.start, range.end].map(|at| at.clamp(base, base + size));
    Some((start - base, end - start)).filter(|(_, len)| *len > 0)
}

/// Makes the replicas equal. Says who was right, and how many bytes were copied.
pub(super) async fn resync<E: Env>(
    told: &mut Told<E>,
    base: u64,
    size: u64,
) -> Option<(usize, u64)> {
    loop {
        let right = right(told)?;
        if let Err(failed) = vouch(told, right, base).await {
            (told.replicas[right], told.error) = (None, failed);
            continue;
        }
        untold(told, right, (base, size));
        let ranges = merged(told.ranges.clone());
        let there = in_turn(told, right);
        let copied = if there.len() > 1 { ranges.iter().map(|(_, len)| len).sum() } else { 0 };
        match copy(&there, &ranges, base).await {
            Ok(()) => return Some((right, copied)),
            // Of two: what the log of the other one says is there, and the rest is old or new.
            Err((side, failed)) => (told.replicas[side], told.error) = (None, failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_copied_once_in_whole_pages() {
        let ranges = vec![(8192, 512), (512, 512), (1024, 8192 - 1024), (100 << 10, 300 << 10)];
        let (first, second) = ((0, 12 << 10), (100 << 10, COPY));
        assert_eq!(merged(ranges), [first, second, (second.0 + COPY, 44 << 10)]);
        assert_eq!(merged(Vec::new()), []);
    }
}
