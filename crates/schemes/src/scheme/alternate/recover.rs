//! Opening: which replicas can be trusted, what their logs still hold, and where they may differ.
//!
//! ```text
//!   newest pages ─► who is stale     each log, in order ─► its own replica
//!        └─ who is right                 └─ all ranges in any ─► from who is right to all others
//!                                              └─ flush ─► logs emptied ─► a new window
//! ```
//! The replica is right whose log says that it has most: if no log rotted all have what was
//! flushed, in the log or in place, and one that lost its end says less. Of several the one that
//! was not being written to. Where one log is enough it is the one that led: its log also has what
//! its last batch may have left half done. A crash meanwhile does all of it again, to the same end.
//! One that was being filled is filled again; with what the lost ones miss goes all that any log
//! tells (`kept.rs`).
//!
//! A page that is neither what it was before the last batch nor what it should be after it was torn
//! by the crash, or has rotted: it is had from another replica, with what the log of the one that
//! is right has of it. That replica has at least what was flushed.
//!
//! Where a log has rotted that told of a batch, checksums do: those of pages in regions that are
//! marked (marks stay until all replicas have a batch) are compared with those of the one that is
//! right. One that lost its checksums is filled: with what others know and it does not, and with
//! what is marked. Where it lacks only as much as may have been on its way it is one of those that
//! may be right, and what it lacks is had from another one (`standing.rs`).

mod doubts;
mod replay;
mod resync;
mod standing;

use classical::{Array, ArrayError, OpenOptions, label};
use format::Uuid;
use io::{Drive, Env, join_all};

use self::doubts::{Ranges, all_doubts};
use self::replay::{ToldLog, replay};
use self::resync::{merged, resync};
use self::standing::{Standing, is_filled};
use super::cache::CACHE_MIN;
use super::kept::{Gone, Kept};
use super::page::{Page, current};
use super::replica::{
    DATA, DONE, EDGE, ENTRY_BITS, Inside, NUMBERED, NUMBERED_EDGE, RANGE, RANGES, Replica,
    decode_ranges, divide, kept_place, log_bytes, page_place,
};
use super::roles::Each;
use super::{CACHE_MAX, Seen};
use crate::ages;
use crate::log::record::PAGE;
use crate::log::{Found, Log};
use crate::part::{Part, PartEnv};
use crate::set::{Set, uuid_of_group};
use crate::store::StoreError;

/// A replica as it is found.
struct Side<E: Env> {
    array: Inside<E>,
    /// In what it has for itself.
    uuid: Uuid,
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
    pub session: u64,
    /// Where data begins, and how much of it there is.
    pub base: u64,
    pub size: u64,
    /// Bytes that were copied.
    pub copied: u64,
    pub replayed: u64,
}

impl<E: Env> Recovered<E> {
    pub fn seen(&self) -> Seen {
        let (replayed_entries, copied_bytes) = (self.replayed, self.copied);
        Seen { replayed_entries, copied_bytes, ..Seen::default() }
    }

    /// Which replicas are whole.
    pub fn alive(&self) -> Each<bool> {
        std::array::from_fn(|side| self.replicas.get(side).is_some_and(Option::is_some))
    }
}

/// Those that are most: a replica that was lost is made anew, and an image of one of its drives may
/// be of before.
async fn of_one_array(drives: Vec<Part>) -> Vec<Part> {
    let labels = join_all(drives.iter().map(label::read)).await;
    let pools: Vec<Option<Uuid>> = labels.into_iter().map(|own| own.map(|own| own.pool)).collect();
    let count = |pool: &Option<Uuid>| pools.iter().filter(|own| *own == pool).count();
    let most = pools.iter().filter(|pool| pool.is_some()).max_by_key(|pool| count(pool)).copied();
    let all = drives.into_iter().zip(&pools);
    all.filter(|(_, pool)| Some(**pool) == most).map(|(drive, _)| drive).collect()
}

/// An error: too few of its drives are there, or they do not know each other.
async fn find<E: Env>(
    env: &PartEnv<E>,
    uuid: Uuid,
    drives: Vec<Part>,
    options: OpenOptions,
) -> Result<Side<E>, StoreError> {
    let array = Array::open(env, of_one_array(drives).await, options).await?;
    let (mut newest, mut count): (Option<(Page, u64)>, _) = (None, 0);
    for place in [0, 1] {
        let Ok(bytes) = array.read(page_place(array.size(), place), PAGE).await else { continue };
        let page = Page::decode(&uuid, &bytes).map(|page| (page, place));
        count += usize::from(page.is_some());
        newest = [newest, page].into_iter().flatten().max_by_key(|(page, _)| page.sequence);
    }
    let (page, place) = newest.ok_or(ArrayError::NoLabel)?;
    Ok(Side { array, uuid, page, place, whole: count == 2 })
}

/// A replica, and what its log told.
struct Read<E: Env> {
    replica: Replica<E>,
    found: Vec<Found>,
}

async fn read_log<E: Env>(side: Side<E>) -> Result<Read<E>, StoreError> {
    let mut found = Vec::new();
    let log = Log::open(side.array.clone(), side.uuid, |entry| found.push(entry)).await?;
    let replica = Replica::new(side.array, log, side.uuid, (side.page, side.place));
    let own = Read { replica, found };
    own.vouch_for_own().await?;
    Ok(own)
}

impl<E: Env> Read<E> {
    /// Log and pages, which no other replica has, count as they are: they have checks of their own.
    async fn vouch_for_own(&self) -> Result<(), StoreError> {
        let array = &self.replica.array;
        let Page { cache, size, .. } = self.replica.page();
        let base = log_bytes(cache);
        for own in [0..base, base + size..array.size()] {
            for at in array.unvouched(own.start, own.end.saturating_sub(own.start)) {
                match array.read(at, PAGE).await {
                    Ok(page) => array.write(at, page, false).await?,
                    Err(ArrayError::PageLost { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

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
                NUMBERED | NUMBERED_EDGE if found.data > 0 => vec![(found.address, found.data)],
                RANGE if found.data == 0 => vec![(found.address, found.len)],
                DONE if found.data == 0 => Vec::new(),
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

    /// Numbers of these kinds of entries in the log, of this session, and where their records are.
    fn numbers(&self, session: u64, kinds: &[u16]) -> impl Iterator<Item = (u64, u64)> {
        let number = |found: &Found| match found.kind {
            NUMBERED => (found.len, found.place.record),
            _ => (found.address, found.place.record),
        };
        let told = self.found.iter().filter(|found| kinds.contains(&found.kind)).map(number);
        told.filter(move |(number, _)| number >> ENTRY_BITS == session)
    }

    /// The highest of them.
    fn says(&self, session: u64, kinds: &[u16]) -> u64 {
        self.numbers(session, kinds).map(|(number, _)| number).max().unwrap_or(0)
    }

    /// Up to which entry every replica that was written to had everything in place, at least.
    fn on_all(&self, session: u64) -> u64 {
        let told = self.found.iter().filter(|found| found.kind == DONE).map(|found| found.len);
        told.filter(|number| number >> ENTRY_BITS == session).max().unwrap_or(0)
    }

    /// Where the records of this session begin in the log: what is before was in place when the
    /// replica's page said that it began. Older software had none, and no numbers.
    fn session_begins(&self, session: u64) -> Option<u64> {
        let first = self.numbers(session, &[NUMBERED, DONE]).map(|(_, record)| record).min();
        first.or((session == 0).then_some(0))
    }
}

fn strange(found: &Found) -> StoreError {
    StoreError::Damaged(format!("the record at {} of a replica's log", found.place.record))
}

/// A replica that is back, as it is found.
pub struct Back<E: Env> {
    pub replica: Replica<E>,
    /// Where its log says that it may differ.
    pub ranges: Vec<(u64, u64)>,
    /// What it was writing when it went: nothing tells what rots there from that.
    pub marked: Vec<(u64, u64)>,
}

pub async fn back<E: Env>(
    env: &PartEnv<E>,
    uuid: Uuid,
    drives: Vec<Part>,
    options: OpenOptions,
    size: u64,
) -> Result<Back<E>, StoreError> {
    let side = find(env, uuid, drives, options).await?;
    let own = read_log(side).await?;
    let ranges = own.ranges(size).await?;
    let marked = own.marked(size);
    Ok(Back { replica: own.replica, ranges, marked })
}

/// What the replicas were found to be.
struct Told<E: Env> {
    replicas: Vec<Option<Replica<E>>>,
    /// Of those that are whole.
    logs: Vec<Option<ToldLog>>,
    filling: Option<(usize, Replica<E>)>,
    /// What the one that is filled lacks beside what was kept: nobody knows its checksums.
    doubts: Ranges,
    /// Where they may differ.
    ranges: Vec<(u64, u64)>,
    replayed: u64,
    /// Why the last one is not there that is not.
    error: StoreError,
}

/// What all replicas have in common.
#[derive(Clone, Copy)]
struct Facts {
    /// Bytes of data, and where they begin.
    size: u64,
    base: u64,
    /// The last one that anything was written in.
    session: u64,
    /// Entries of it up to here are in place everywhere, whatever a log has lost.
    on_all: u64,
}

impl<E: Env> Told<E> {
    /// Up to which entry a replica has everything, as its log says.
    fn says(&self, side: usize) -> u64 {
        self.logs[side].as_ref().map_or(0, |log| log.says)
    }
}

/// Data that the logs have goes to its place, each on its own replica.
async fn replay_all<E: Env>(
    sides: Vec<Result<Side<E>, StoreError>>,
    trusted: &Each<bool>,
    (size, base, session): (u64, u64, u64),
) -> Told<E> {
    let mut told = Told {
        replicas: Vec::new(),
        logs: Vec::new(),
        filling: None,
        doubts: Vec::new(),
        ranges: Vec::new(),
        replayed: 0,
        error: StoreError::NoLabel,
    };
    let mut logs = Vec::new();
    for (at, side) in sides.into_iter().enumerate() {
        told.replicas.push(None);
        told.logs.push(None);
        // The others went on without it.
        let is_left = |side: &Side<E>| !trusted[at] && !side.page.filling;
        let read = async {
            let Some(side) = Some(side?).filter(|side| !is_left(side)) else { return Ok(None) };
            let own = read_log(side).await?;
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
    let ranges = merged(told.ranges.clone());
    let doubts = all_doubts(&logs, trusted, &ranges, (size, session));
    let standings: Vec<Standing> = doubts.iter().map(|own| own.standing).collect();
    let filled: Vec<bool> = (0..standings.len()).map(|at| is_filled(&standings, at)).collect();
    for (own, _) in doubts.iter().zip(&filled).filter(|(_, filled)| !**filled) {
        told.ranges.extend(&own.lacking);
    }
    let ranges = merged(told.ranges.clone());
    let trusted_logs = logs.iter().filter(|(at, _)| trusted[*at]);
    let on_all = trusted_logs.map(|(_, own)| own.on_all(session)).max().unwrap_or(0);
    let (facts, mut others) = (Facts { size, base, session, on_all }, Vec::new());
    for ((own, doubt), is_filled) in logs.into_iter().zip(doubts).zip(filled) {
        match is_filled {
            true => others.push((own, doubt)),
            false => told.take_in(own, doubt.standing.lacks, &ranges, facts).await,
        }
    }
    for ((at, own), doubt) in others {
        // None of those that it was to be filled from can be used.
        if trusted[at] && told.replicas.iter().all(Option::is_none) {
            told.take_in((at, own), doubt.standing.lacks, &ranges, facts).await;
        } else if told.filling.is_none() {
            told.doubts = [doubt.lost, doubt.lacking].concat();
            // What its log may have told of is not known by its checksums alone.
            told.doubts.extend(own.marked(size));
            told.filling = Some((at, own.replica));
        }
    }
    told
}

impl<E: Env> Told<E> {
    /// A replica that is whole gets what its log has.
    async fn take_in(
        &mut self,
        (at, own): (usize, Read<E>),
        lacks: bool,
        ranges: &[(u64, u64)],
        facts: Facts,
    ) {
        // What any log tells is copied to all, and a crash may come between.
        own.announce(ranges, facts.size);
        match replay(&own, lacks, ranges, facts).await {
            Ok((log, entries)) => {
                self.replayed += entries;
                self.ranges.extend(log.unvouched.keys().map(|at| (*at, PAGE)));
                (self.replicas[at], self.logs[at]) = (Some(own.replica), Some(log));
            }
            Err(failed) => self.error = failed,
        }
    }
}

/// The newest record that a replica has of what the lost ones miss.
async fn kept_on<E: Env>(side: &Side<E>, page: &Page) -> Option<Kept> {
    let mut newest: Option<Kept> = None;
    for place in [0, 1] {
        let at = kept_place(log_bytes(page.cache), place);
        let Ok(bytes) = side.array.read(at, PAGE).await else { continue };
        let kept = Kept::decode(&side.uuid, &bytes, page.kept, page.size);
        newest = [newest, kept].into_iter().flatten().reduce(Kept::newer);
    }
    newest
}

/// The same of all that can be trusted; none if the newest of their pages names none.
async fn kept<E: Env>(
    sides: &[Result<Side<E>, StoreError>],
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
            && let Some(own) = kept_on(side, &newest).await
        {
            kept = kept.newer(own);
        }
    }
    kept
}

/// The last that anything was written in.
fn newest_session(pages: &[(usize, Page)], trusted: &Each<bool>) -> u64 {
    let trusted = pages.iter().filter(|(side, _)| trusted[*side]);
    trusted.map(|(_, page)| page.session).max().unwrap_or(0)
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
            // It was whole until now, but for what is in doubt.
            Some((_, page)) if trusted[side] => Some(Gone::of(&page, false)),
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
    kept.mark(told.doubts.iter().copied());
    keeps
}

pub fn of_replicas(arrays: OpenOptions) -> OpenOptions {
    OpenOptions { elsewhere: true, ..arrays }
}

/// Finds the replicas on their drives, and makes them agree; their logs are still as they were.
pub async fn recover<E: Env, D: Drive>(
    env: &PartEnv<E>,
    set: &Set<D>,
    drives: Vec<Vec<Part>>,
    options: OpenOptions,
) -> Result<Recovered<E>, StoreError> {
    let mut sides = Vec::new();
    for (at, own) in drives.into_iter().enumerate() {
        sides.push(find(env, uuid_of_group(&set.label, at), own, options).await);
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
    // One that is new enough knows of the others whether they may be trusted.
    let there = numbered.iter().filter(|(side, _)| trusted[*side]);
    let own = (set.label.pool, there.map(|(_, page)| page.generation).max().unwrap_or(0));
    ages::check(set, (0, 0..set.len()), own, || "all replicas that are here".to_owned())?;
    let mut kept = kept(&sides, &trusted, newest.size).await;
    let session = newest_session(&numbered, &trusted);
    let mut told = replay_all(sides, &trusted, (newest.size, base, session)).await;
    let Some((right, copied)) = resync(&mut told, base, newest.size).await else {
        return Err(told.error);
    };
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
        session: highest(|page| page.session),
        base,
        size: newest.size,
        copied,
        replayed: told.replayed,
    })
}
