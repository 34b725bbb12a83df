//! Opening: which replicas can be trusted, what their logs still hold, and where they may differ.
//!
//! ```text
//!   newest page ─► who is stale      each log, in order ─► its own replica
//!        └─ who was written to last      └─ all ranges in either ─► from the other to that one
//!                                              └─ flush ─► logs emptied ─► a new window
//! ```
//! The replica that was not being written to is right: all it was told to bring to its place is
//! there, flushed, and its log has the rest of what was flushed. A crash meanwhile does all of it
//! again, to the same end.

use classical::{Array, ArrayError, OpenOptions};
use format::Uuid;
use futures_util::future::join_all;
use io::{Buf, Env};

use super::cache::{CACHE_MIN, Overlay};
use super::page::Page;
use super::replica::{DATA, EDGE, Inside, RANGES, Replica, decode_ranges, log_bytes, page_place};
use super::{CACHE_MAX, SIDES, divide};
use crate::log::record::PAGE;
use crate::log::{Found, Log};
use crate::part::{Part, PartEnv};
use crate::store::StoreError;

/// Bytes that are copied from one replica to the other at once.
const COPY: u64 = 256 << 10;
/// Of these copies.
const COPIES: usize = 8;

/// A replica as it is found.
pub struct Side<E: Env> {
    array: Inside<E>,
    page: Page,
    place: u64,
}

/// What opening made of a pool.
pub struct Recovered<E: Env> {
    pub replicas: [Option<Replica<E>>; 2],
    pub sequence: u64,
    pub window: u64,
    /// Who writes first.
    pub writer: usize,
    /// Where data begins, and how much of it there is.
    pub base: u64,
    pub size: u64,
    pub cache: u64,
    /// Bytes that were copied.
    pub copied: u64,
    pub replayed: u64,
}

/// `None`: too few of its drives are there.
pub async fn find<E: Env>(
    env: &PartEnv<E>,
    pool: &Uuid,
    drives: Vec<Part<E::Drive>>,
    options: OpenOptions,
) -> Result<Option<Side<E>>, StoreError> {
    let array = match Array::open(env, drives, options).await {
        Ok(array) => array,
        Err(ArrayError::NoLabel | ArrayError::TooManyLost { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut newest: Option<(Page, u64)> = None;
    for place in [0, 1] {
        let Ok(bytes) = array.read(page_place(array.size(), place), PAGE).await else { continue };
        let page = Page::decode(pool, &bytes).map(|page| (page, place));
        newest = [newest, page].into_iter().flatten().max_by_key(|(page, _)| page.sequence);
    }
    Ok(newest.map(|(page, place)| Side { array, page, place }))
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
    /// Ranges where this replica may differ from the other. Data that is not in place goes there.
    async fn replay(&self, size: u64) -> Result<(Vec<(u64, u64)>, u64), StoreError> {
        let strange = |found: &Found| {
            let record = found.place.record;
            StoreError::Damaged(format!("the record at {record} of a replica's log"))
        };
        let inside = |(start, len): &(u64, u64)| {
            start.checked_add(*len).is_some_and(|end| end <= size) && start % 512 == 0
        };
        let (log, page) = (&self.replica.log, self.replica.page());
        let (mut ranges, mut entries) = (Vec::new(), Vec::new());
        let (mut edges, mut last_edges) = (Vec::new(), Vec::new());
        for found in &self.found {
            let in_place = found.kind == DATA && found.place.at < page.replay;
            let data = if in_place { 0 } else { found.data };
            let data = log.read(found.place.at, data).await?;
            let told = match found.kind {
                DATA | EDGE if found.len == found.data && found.len > 0 => {
                    vec![(found.address, found.len)]
                }
                RANGES => decode_ranges(&data),
                _ => return Err(strange(found)),
            };
            if !told.iter().all(inside) {
                return Err(strange(found));
            }
            ranges.extend(told);
            match found.kind {
                DATA if !in_place => entries.push((found.address, data)),
                EDGE => edges.push((found.address, data)),
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
        Ok((ranges, count))
    }
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

/// Who failed: the one that is read from, or the other.
enum Failed {
    Source(StoreError),
    Target(StoreError),
}

async fn copy<E: Env>(
    source: &Replica<E>,
    target: &Replica<E>,
    ranges: &[(u64, u64)],
    base: u64,
) -> Result<(), Failed> {
    for some in ranges.chunks(COPIES) {
        let reads = some.iter().map(|(at, len)| source.array.read(base + at, *len));
        let read = join_all(reads).await.into_iter().collect::<Result<Vec<Buf>, _>>();
        let read = read.map_err(|error| Failed::Source(error.into()))?;
        let writes = some.iter().zip(read);
        let writes = writes.map(|((at, _), data)| target.array.write(base + at, data, false));
        let written = join_all(writes).await.into_iter().collect::<Result<Vec<()>, _>>();
        written.map_err(|error| Failed::Target(error.into()))?;
    }
    target.array.flush().await.map_err(|error| Failed::Target(error.into()))
}

/// Makes the replicas agree; their logs are still as they were.
pub async fn recover<E: Env>(
    mut sides: [Option<Side<E>>; 2],
    pool: Uuid,
) -> Result<Recovered<E>, StoreError> {
    let pages = || sides.iter().flatten().map(|side| side.page);
    let newest = pages().max_by_key(|page| page.sequence).ok_or(StoreError::NoLabel)?;
    let window = pages().map(|page| page.window).max().unwrap_or(0);
    let sizes = sides.iter().flatten().map(|side| side.array.size());
    if !(CACHE_MIN..=CACHE_MAX).contains(&newest.cache) {
        return Err(StoreError::Damaged("the page of a replica".into()));
    }
    let (base, size) = divide(sizes.min().unwrap_or(0), newest.cache)?;
    let mut read: [Option<Read<E>>; 2] = [None, None];
    let mut told = [Vec::new(), Vec::new()];
    let (mut replayed, mut error) = (0, StoreError::NoLabel);
    for at in SIDES {
        // What went on without it.
        let Some(side) = sides[at].take().filter(|_| newest.current[at]) else { continue };
        let done = async {
            let own = read_log(side, pool).await?;
            let (ranges, entries) = own.replay(size).await?;
            Ok::<_, StoreError>((own, ranges, entries))
        };
        match done.await {
            Ok((own, ranges, entries)) => {
                (read[at], told[at]) = (Some(own), ranges);
                replayed += entries;
            }
            Err(failed) => error = failed,
        }
    }
    let mut replicas = read.map(|read| read.map(|read| read.replica));
    let writer = usize::from(match &replicas {
        [Some(first), Some(second)] => second.page().window > first.page().window,
        [first, _] => first.is_none(),
    });
    let mut copied = 0;
    if let [Some(_), Some(_)] = &replicas {
        let ranges = merged(told.concat());
        let [source, target] = [1 - writer, writer].map(|at| replicas[at].as_ref());
        let (source, target) = source.zip(target).expect("both are there");
        match copy(source, target, &ranges, base).await {
            Ok(()) => copied = ranges.iter().map(|(_, len)| len).sum(),
            // What the writer's log says is there, and the rest old or new.
            Err(Failed::Source(failed)) => (replicas[1 - writer], error) = (None, failed),
            Err(Failed::Target(failed)) => (replicas[writer], error) = (None, failed),
        }
    }
    let writer = match &replicas {
        [None, None] => return Err(error),
        [Some(_), Some(_)] => 1 - writer,
        [first, _] => usize::from(first.is_none()),
    };
    let (sequence, cache) = (newest.sequence, newest.cache);
    Ok(Recovered { replicas, sequence, window, writer, base, size, cache, copied, replayed })
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
