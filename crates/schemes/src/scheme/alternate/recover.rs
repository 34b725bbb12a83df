//! Opening: which replicas can be trusted, what their logs still hold, and where they may differ.
//!
//! ```text
//!   newest pages ─► who is stale     each log, in order ─► its own replica
//!        └─ who is right                 └─ all ranges in any ─► from who is right to all others
//!                                              └─ flush ─► logs emptied ─► a new window
//! ```
//! A replica that was not being written to is right: all it was told to bring to its place is
//! there, flushed, and its log has the rest of what was flushed. Where one log is enough it is the
//! one that led: its log also has what its last batch may have left half done. A crash meanwhile
//! does all of it again, to the same end. One that was being filled is filled again; with what the
//! lost ones miss goes all that any log tells (`kept.rs`).

use classical::{Array, ArrayError, OpenOptions};
use format::Uuid;
use io::{Buf, Env, join_all};

use super::cache::{CACHE_MIN, Overlay};
use super::kept::{Gone, Kept};
use super::page::{Page, current};
use super::replica::{
    DATA, EDGE, Inside, RANGES, Replica, decode_ranges, kept_place, log_bytes, page_place,
};
use super::roles::Each;
use super::{CACHE_MAX, divide};
use crate::log::record::PAGE;
use crate::log::{Found, Log};
use crate::part::{Part, PartEnv};
use crate::store::StoreError;

/// Bytes that are copied from one replica to the others at once.
const COPY: u64 = 256 << 10;
/// Of these copies.
const COPIES: usize = 8;

/// A replica as it is found.
struct Side<E: Env> {
    array: Inside<E>,
    page: Page,
    place: u64,
    /// Both of its places hold a page.
    whole: bool,
}

/// What opening made of a pool.
pub struct Recovered<E: Env> {
    pub replicas: Vec<Option<Replica<E>>>,
    /// One that was being filled, if it is there.
    pub filling: Option<(usize, Replica<E>)>,
    /// What those that are not whole miss, if there is room for it on each that is there.
    pub kept: Kept,
    pub keeps: bool,
    /// Who was right: the first to write, and the lead.
    pub right: usize,
    /// The newest page there is, and the highest numbers on any.
    pub newest: Page,
    pub sequence: u64,
    pub window: u64,
    pub leads: u64,
    /// Where data begins, and how much of it there is.
    pub base: u64,
    pub size: u64,
    /// Bytes that were copied.
    pub copied: u64,
    pub replayed: u64,
}

impl<E: Env> Recovered<E> {
    /// Which replicas are whole.
    pub fn alive(&self) -> Each<bool> {
        std::array::from_fn(|side| self.replicas.get(side).is_some_and(Option::is_some))
    }
}

/// An error: too few of its drives are there, or they do not know each other.
async fn find<E: Env>(
    env: &PartEnv<E>,
    pool: &Uuid,
    drives: Vec<Part<E::Drive>>,
    options: OpenOptions,
) -> Result<Side<E>, StoreError> {
    let array = Array::open(env, drives, options).await?;
    let (mut newest, mut count): (Option<(Page, u64)>, _) = (None, 0);
    for place in [0, 1] {
        let Ok(bytes) = array.read(page_place(array.size(), place), PAGE).await else { continue };
        let page = Page::decode(pool, &bytes).map(|page| (page, place));
        count += usize::from(page.is_some());
        newest = [newest, page].into_iter().flatten().max_by_key(|(page, _)| page.sequence);
    }
    let (page, place) = newest.ok_or(ArrayError::NoLabel)?;
    Ok(Side { array, page, place, whole: count == 2 })
}

/// A replica, and what its log told.
struct Read<E: Env> {
    replica: Replica<E>,
    found: Vec<Found>,
}

async fn read_log<E: Env>(side: Side<E>, pool: Uuid) -> Result<Read<E>, StoreError> {
    let mut found = Vec::new();
    let log = Log::open(side.array.clone(), pool, |entry| found.push(entry)).await?;
    let replica = Replica::new(side.array, log, pool, (side.page, side.place));
    Ok(Read { replica, found })
}

impl<E: Env> Read<E> {
    /// Ranges where this replica may differ from the others.
    async fn ranges(&self, size: u64) -> Result<Vec<(u64, u64)>, StoreError> {
        let inside = |(start, len): &(u64, u64)| {
            start.checked_add(*len).is_some_and(|end| end <= size) && start % 512 == 0
        };
        let mut ranges = Vec::new();
        for found in &self.found {
            let told = match found.kind {
                DATA | EDGE if found.len == found.data && found.len > 0 => {
                    vec![(found.address, found.len)]
                }
                RANGES => decode_ranges(&self.replica.log.read(found.place.at, found.data).await?),
                _ => return Err(strange(found)),
            };
            if !told.iter().all(inside) {
                return Err(strange(found));
            }
            ranges.extend(told);
        }
        Ok(ranges)
    }

    /// Of the data nothing was written that the log does not tell of; log and pages have checks of
    /// their own.
    fn announce(&self, ranges: &[(u64, u64)], size: u64) {
        let (base, end) = (log_bytes(self.replica.page().cache), self.replica.array.size());
        let of_data = ranges.iter().map(|(start, len)| base + start..base + start + len);
        let beside = [0..base, base + size..end];
        self.replica.array.only_written(of_data.chain(beside).collect());
    }

    /// Data that is not in place goes there. Says how many entries of it there were.
    async fn replay(&self) -> Result<u64, StoreError> {
        let (log, page) = (&self.replica.log, self.replica.page());
        let mut entries = Vec::new();
        let (mut edges, mut last_edges) = (Vec::new(), Vec::new());
        for found in &self.found {
            let read = || log.read(found.place.at, found.data);
            match found.kind {
                DATA if found.place.at >= page.replay => {
                    entries.push((found.address, read().await?));
                }
                EDGE => edges.push((found.address, read().await?)),
                // A batch begins: the one before was through.
                RANGES => last_edges = std::mem::take(&mut edges),
                _ => {}
            }
        }
        let count = entries.len() as u64;
        let mut overlay = Overlay::default();
        for (address, data) in last_edges.into_iter().chain(entries) {
            overlay.put(address, 0, data);
        }
        self.replica.put(log_bytes(page.cache), &overlay.pieces()).await?;
        Ok(count)
    }
}

fn strange(found: &Found) -> StoreError {
    StoreError::Damaged(format!("the record at {} of a replica's log", found.place.record))
}

/// A replica that is back, as it is found, and where its log says that it may differ.
pub async fn back<E: Env>(
    env: &PartEnv<E>,
    pool: &Uuid,
    drives: Vec<Part<E::Drive>>,
    options: OpenOptions,
    size: u64,
) -> Result<(Replica<E>, Vec<(u64, u64)>), StoreError> {
    let side = find(env, pool, drives, options).await?;
    let own = read_log(side, *pool).await?;
    let ranges = own.ranges(size).await?;
    Ok((own.replica, ranges))
}

/// In whole pages, in order, none twice, none longer than what is copied at once.
fn merged(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
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

/// Bytes of a range, and the replica that gave them.
struct Copied {
    at: u64,
    data: Buf,
    from: usize,
}

/// Bytes of a range: of the first of these replicas. What it has lost of them, page by page, is
/// that of the next that has it. What none has is left out.
async fn gather<E: Env>(
    replicas: &[(usize, &Replica<E>)],
    (at, len): (u64, u64),
    base: u64,
) -> Result<Vec<Copied>, (usize, StoreError)> {
    let (from, first) = replicas[0];
    match first.array.read(base + at, len).await {
        Ok(data) => return Ok(vec![Copied { at, data, from }]),
        Err(ArrayError::PageLost { .. }) => {}
        Err(error) => return Err((from, error.into())),
    }
    let mut found = Vec::new();
    for at in (at..at + len).step_by(PAGE as usize) {
        for (from, replica) in replicas {
            match replica.array.read(base + at, PAGE).await {
                Ok(data) => {
                    found.push(Copied { at, data, from: *from });
                    break;
                }
                Err(ArrayError::PageLost { .. }) => {}
                Err(error) => return Err((*from, error.into())),
            }
        }
    }
    Ok(found)
}

/// Copies the ranges from the first replica to the others, and what it has lost of them from these;
/// durable when this returns. An error says which of them failed.
async fn copy<E: Env>(
    replicas: &[(usize, &Replica<E>)],
    ranges: &[(u64, u64)],
    base: u64,
) -> Result<(), (usize, StoreError)> {
    for some in ranges.chunks(COPIES) {
        let read = join_all(some.iter().map(|range| gather(replicas, *range, base))).await;
        let read = read.into_iter().collect::<Result<Vec<_>, _>>()?;
        let read: Vec<Copied> = read.into_iter().flatten().collect();
        for (side, target) in replicas {
            let missing = read.iter().filter(|copied| copied.from != *side);
            let writes = missing
                .map(|Copied { at, data, .. }| target.array.write(base + at, data.clone(), false));
            let written = join_all(writes).await.into_iter().collect::<Result<(), _>>();
            written.map_err(|error| (*side, error.into()))?;
        }
    }
    // The first as well: what was read of it after a crash has a new checksum.
    for (side, own) in replicas {
        own.array.flush().await.map_err(|error| (*side, error.into()))?;
    }
    Ok(())
}

/// Who is right of those that are left.
fn right<E: Env>(replicas: &[Option<Replica<E>>]) -> Option<usize> {
    let there = replicas.iter().enumerate();
    let mut pages: Vec<(usize, Page)> =
        there.filter_map(|(side, own)| Some((side, own.as_ref()?.page()))).collect();
    if pages.first()?.1.one_log {
        return pages.iter().max_by_key(|(_, page)| page.lead).map(|(side, _)| *side);
    }
    // Of those that were not written to last the one that was before.
    pages.sort_by_key(|(_, page)| page.window);
    let at = pages.len().saturating_sub(2);
    Some(pages[at].0)
}

/// What the replicas were found to be.
struct Told<E: Env> {
    replicas: Vec<Option<Replica<E>>>,
    filling: Option<(usize, Replica<E>)>,
    /// Where they may differ.
    ranges: Vec<(u64, u64)>,
    replayed: u64,
    /// Why the last one is not there that is not.
    error: StoreError,
}

/// Data that the logs have goes to its place, each on its own replica.
async fn replay_all<E: Env>(
    sides: Vec<Result<Side<E>, StoreError>>,
    pool: &Uuid,
    trusted: &Each<bool>,
    size: u64,
) -> Told<E> {
    let (replicas, ranges, error) = (Vec::new(), Vec::new(), StoreError::NoLabel);
    let mut told = Told { replicas, filling: None, ranges, replayed: 0, error };
    let mut logs = Vec::new();
    for (at, side) in sides.into_iter().enumerate() {
        told.replicas.push(None);
        // The others went on without it.
        let is_left = |side: &Side<E>| !trusted[at] && !side.page.filling;
        let read = async {
            let Some(side) = Some(side?).filter(|side| !is_left(side)) else { return Ok(None) };
            let own = read_log(side, *pool).await?;
            let ranges = own.ranges(size).await?;
            Ok::<_, StoreError>(Some((own, ranges)))
        };
        match read.await {
            Ok(None) => {}
            Ok(Some((own, ranges))) => {
                told.ranges.extend(ranges);
                logs.push((at, own));
            }
            Err(failed) => told.error = failed,
        }
    }
    for (at, own) in logs {
        if !trusted[at] {
            told.filling.get_or_insert((at, own.replica));
            continue;
        }
        // What any log tells is copied to all, and a crash may come between.
        own.announce(&told.ranges, size);
        match own.replay().await {
            Ok(entries) => {
                told.replayed += entries;
                told.replicas[at] = Some(own.replica);
            }
            Err(failed) => told.error = failed,
        }
    }
    told
}

/// Makes the replicas agree. Says who was right, and how many bytes were copied.
async fn agree<E: Env>(told: &mut Told<E>, base: u64) -> Option<(usize, u64)> {
    let ranges = merged(told.ranges.clone());
    loop {
        let right = right(&told.replicas)?;
        let there = told.replicas.iter().enumerate();
        let there = there.filter_map(|(side, own)| own.as_ref().map(|own| (side, own)));
        let mut there: Vec<(usize, &Replica<E>)> = there.collect();
        there.sort_by_key(|(side, _)| *side != right);
        let copied = if there.len() > 1 { ranges.iter().map(|(_, len)| len).sum() } else { 0 };
        match copy(&there, &ranges, base).await {
            Ok(()) => return Some((right, copied)),
            // Of two: what the log of the other one says is there, and the rest is old or new.
            Err((side, failed)) => (told.replicas[side], told.error) = (None, failed),
        }
    }
}

/// The newest record that a replica has of what the lost ones miss.
async fn kept_on<E: Env>(array: &Inside<E>, pool: &Uuid, page: &Page) -> Option<Kept> {
    let mut newest: Option<Kept> = None;
    for place in [0, 1] {
        let at = kept_place(log_bytes(page.cache), place);
        let Ok(bytes) = array.read(at, PAGE).await else { continue };
        let kept = Kept::decode(pool, &bytes, page.kept, page.size);
        newest = [newest, kept].into_iter().flatten().reduce(Kept::newer);
    }
    newest
}

/// The same of all that can be trusted; none if the newest of their pages names none.
async fn kept<E: Env>(
    sides: &[Result<Side<E>, StoreError>],
    pool: &Uuid,
    trusted: &Each<bool>,
    size: u64,
) -> Kept {
    let there = sides.iter().zip(trusted).filter(|(_, trusted)| **trusted);
    let there: Vec<&Side<E>> = there.filter_map(|(side, _)| side.as_ref().ok()).collect();
    let newest = there.iter().map(|side| side.page);
    let newest = newest.max_by_key(|page| (page.generation, page.sequence));
    let mut kept = Kept::none(size);
    for side in there {
        if let Some(newest) = newest.filter(|page| page.keeps && page.kept > 0)
            && let Some(own) = kept_on(&side.array, pool, &newest).await
        {
            kept = kept.newer(own);
        }
    }
    kept
}

/// Who is not whole from now on, and what of it is known. False: nothing can be kept.
fn note_lost<E: Env>(
    kept: &mut Kept,
    told: &Told<E>,
    (trusted, pages): (&Each<bool>, &[(usize, Page)]),
    number: u64,
) -> bool {
    let newest = pages.iter().filter(|(side, _)| trusted[*side]).map(|(_, page)| page);
    let Some(newest) = newest.clone().max_by_key(|page| (page.generation, page.sequence)) else {
        return false;
    };
    let there = told.replicas.iter().flatten().chain(told.filling.as_ref().map(|(_, own)| own));
    let keeps = { there }.all(|replica| replica.page().keeps);
    let filling = told.filling.as_ref().map(|(side, replica)| (*side, replica.page()));
    for side in (0..told.replicas.len()).filter(|side| told.replicas[*side].is_none()) {
        let gone = match filling.filter(|(own, _)| *own == side) {
            // It goes on, if it lacked no more than what was kept.
            Some((_, page)) => kept
                .gone(side)
                .filter(|gone| page.kept == kept.number() && page.sequence >= gone.sequence),
            // It was there until now.
            None if trusted[side] => {
                let of_trusted = pages.iter().filter(|(own, _)| trusted[*own]);
                let seen = of_trusted.map(|(_, page)| page.seen[side]).max();
                Some(Gone { sequence: seen.unwrap_or(0), ..Gone::of(newest, true) })
            }
            None => kept.gone(side),
        };
        if keeps {
            kept.lose(side, gone, number);
        }
    }
    if !keeps || told.replicas.iter().all(Option::is_some) {
        kept.end();
    }
    kept.mark(told.ranges.iter().copied());
    keeps
}

/// Finds the replicas on their drives, and makes them agree; their logs are still as they were.
pub async fn recover<E: Env>(
    env: &PartEnv<E>,
    pool: &Uuid,
    drives: Vec<Vec<Part<E::Drive>>>,
    options: OpenOptions,
) -> Result<Recovered<E>, StoreError> {
    let mut sides = Vec::new();
    for own in drives {
        sides.push(find(env, pool, own, options).await);
    }
    let numbered = sides.iter().enumerate();
    let numbered: Vec<(usize, Page)> =
        numbered.filter_map(|(at, side)| Some((at, side.as_ref().ok()?.page))).collect();
    let pages: Vec<Page> = numbered.iter().map(|(_, page)| *page).collect();
    let sizes = sides.iter().flatten().map(|side| side.array.size()).min().unwrap_or(0);
    let Some(newest) = pages.iter().max_by_key(|page| (page.generation, page.sequence)) else {
        return Err(sides.into_iter().find_map(Result::err).unwrap_or(StoreError::NoLabel));
    };
    let damaged = || StoreError::Damaged("the page of a replica".into());
    if !(CACHE_MIN..=CACHE_MAX).contains(&newest.cache) {
        return Err(damaged());
    }
    let (base, most) = divide(sizes, newest.cache)?;
    if newest.size > most {
        return Err(damaged());
    }
    let is_whole =
        |side: usize| sides.get(side).is_some_and(|side| side.as_ref().is_ok_and(|own| own.whole));
    let trusted = current(&numbered, &std::array::from_fn(is_whole));
    if !trusted.contains(&true) {
        let what = "each replica went on without the other".into();
        return Err(StoreError::Shape { what, hint: "leave the drives of one of them out" });
    }
    let mut kept = kept(&sides, pool, &trusted, newest.size).await;
    let mut told = replay_all(sides, pool, &trusted, newest.size).await;
    let Some((right, copied)) = agree(&mut told, base).await else { return Err(told.error) };
    let keeps = note_lost(&mut kept, &told, (&trusted, &numbered), env.random());
    let highest = |of: fn(&Page) -> u64| pages.iter().map(of).max().unwrap_or(0);
    Ok(Recovered {
        replicas: told.replicas,
        filling: told.filling,
        kept,
        keeps,
        right,
        newest: *newest,
        sequence: highest(|page| page.sequence),
        window: highest(|page| page.window),
        leads: highest(|page| page.lead),
        base,
        size: newest.size,
        copied,
        replayed: told.replayed,
    })
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
