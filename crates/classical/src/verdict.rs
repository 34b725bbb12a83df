//! One page of every member of a stripe after a crash: what each should hold. Pure.
//!
//! ```text
//!  known of each page: its checksum before the last write of its stripe, and after it;
//!  the same, if that write did not touch it
//!
//!  1. forward   the pages that are not what they should be after the write follow from the others
//!  2. back      those that are not what they were before it do
//!     again, with what the partial parity has of pages that were not being written
//!  3. mixed     the crash came in the middle: what was being written is left as it is, parity
//!               follows; what was not, and is missing or wrong, follows from the partial parity
//! ```
//! 1 and 2 put a row right whole, whatever rotted, is stale or missing of it, as long as that is no
//! more than the redundancy bears. In 3 bytes that were being written and whose drive is lost with
//! the crash follow from parity if they were the only ones of their row; else they may be neither
//! old nor new. Bytes beside them are what they were, unless a page that was being written rotted
//! as well: nothing tells that from the write.
//!
//! ```text
//!  copies of a page, the first that holds
//!
//!  vouched for   by the newest checksum
//!  the same      on two drives that are not suspect, and vouched for by none: it is newer
//!  vouched for   by the newest of the other checksums, if not on suspect drives alone
//!  agreed        of drives that are not suspect, what more copies say than say anything else
//!  lost          copies differ that nobody vouches for: one rotted, and nothing tells which
//! ```
//! Before a page is written over, the drives know the checksum of what it holds: so a crash leaves
//! copies that are vouched for, or the one newest content. Only a drive that may tear a page leaves
//! others without rot; there, and where nothing was known of the page, what most copies say counts.

use std::ops::Range;

use layout::StripeShape;

use crate::grid::{Grid, Piece, Redundancy};
use crate::limits::PAGE;
use crate::partial::after_crash;
use crate::planted::{self, Bug};
use crate::row::{ZEROES, shape_of, solve_row, without};
use crate::sums::{LOST, UNKNOWN, UNVOUCHED, VOID, is_lost, is_unsure, passes, sum_of, vouches};

/// What is known of one page.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// What its drive gives; `None`: nothing.
    pub seen: Option<&'a [u8]>,
    /// Checksums before and after the last write.
    pub old: u32,
    pub new: u32,
    /// A write that was to change it may have been under way.
    pub touched: bool,
    /// A record says so.
    pub recorded: bool,
    /// Its drive rotted or is out of date.
    pub suspect: bool,
}

impl<'a> Known<'a> {
    fn is(&self, sum: u32) -> bool {
        self.seen.is_some_and(|page| passes(sum, page))
    }

    fn is_vouched_for(&self, sum: u32) -> bool {
        self.seen.is_some_and(|page| vouches(sum, page))
    }

    /// It stays although it is neither what it was before the last write nor what it should be
    /// after it: it was torn, or has rotted.
    pub fn is_unvouched(&self, right: &Right) -> bool {
        let stays = self.seen.is_some_and(|page| right.page.as_deref() == Some(page));
        stays && !self.is_vouched_for(self.new) && !self.is_vouched_for(self.old)
    }

    /// Another array may know better what it is: this one knew once, or lost the checksum of what
    /// was being written. What is blank is not asked for: nothing may ever have been there.
    pub fn is_asked_for(&self) -> bool {
        let had_sum = [self.old, self.new].iter().any(|sum| *sum != UNKNOWN);
        had_sum || self.touched && self.seen.is_some_and(|page| *page != ZEROES)
    }

    /// It is what it was before the last write, or what it should be after it, and known to be.
    fn sound(&self) -> Option<&'a [u8]> {
        match self.new {
            VOID => Some(&ZEROES),
            new => self.seen.filter(|_| self.is_vouched_for(new) || self.is_vouched_for(self.old)),
        }
    }

    /// What counts of it in the middle of a write: what parity takes for it. `trusting`: whatever
    /// its drive.
    fn usable(&self, trusting: bool) -> Option<&'a [u8]> {
        match self.new {
            VOID => Some(&ZEROES),
            LOST => None,
            new => self.seen.filter(|_| {
                let may_be = self.is(new) || self.touched && self.is(self.old);
                may_be || self.touched && (trusting || !self.suspect)
            }),
        }
    }
}

/// What a page should hold, and its checksum from now on: [`LOST`], [`VOID`] where nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    pub page: Option<Vec<u8>>,
    pub sum: u32,
}

impl Right {
    fn of(page: Vec<u8>) -> Right {
        let sum = sum_of(&page);
        Right { page: Some(page), sum }
    }

    /// As it is: what nothing vouched for before is not vouched for by that.
    fn as_seen(page: Vec<u8>, before: u32) -> Right {
        match before {
            UNVOUCHED => Right { page: Some(page), sum: UNVOUCHED },
            _ => Right::of(page),
        }
    }

    fn lost(before: u32) -> Right {
        Right { page: None, sum: if before == VOID { VOID } else { LOST } }
    }
}

/// What a row should be. `start`: its first byte in the chunk. `None`: more is missing than the
/// redundancy bears.
pub fn row(
    grid: &Grid,
    row: &[Known<'_>],
    start: u64,
    told: Option<Told<'_>>,
) -> Option<Vec<Right>> {
    // Without suspects that are out of date: that they have what was before proves nothing, as
    // such a drive may have lost what was written since.
    let mut sure = row.to_vec();
    let is_outdated = |known: &&mut Known<'_>| {
        known.suspect && !known.is(known.new) && !planted::is(Bug::BelieveOutdated)
    };
    sure.iter_mut().filter(is_outdated).for_each(|known| known.seen = None);
    if let Some(right) = recent(grid, &sure) {
        return Some(right);
    }
    let solved = told.map_or(Vec::new(), |told| left_alone::left_alone(grid, row, start, told));
    let again = |version: fn(&Grid, &[Known<'_>]) -> Option<Vec<Right>>| match solved.is_empty() {
        true => None,
        false => version(grid, &with_solved(&sure, &solved)),
    };
    let right = again(recent).or_else(|| before(grid, &sure)).or_else(|| again(before));
    let right = right.or_else(|| mixed(grid, &with_solved(row, &solved), start, told));
    right.or_else(|| recent(grid, row)).or_else(|| before(grid, row))
}

fn with_solved<'a>(row: &[Known<'a>], solved: &'a [(usize, Vec<u8>)]) -> Vec<Known<'a>> {
    let mut with = row.to_vec();
    solved.iter().for_each(|(at, page)| with[*at].seen = Some(page));
    with
}

/// The same, if nothing but what the record tells of was being written, and all of it is there
/// then: where a later record may be gone, more may have been, but what follows as it was known to
/// be has rather rotted.
pub fn as_recorded(
    grid: &Grid,
    pages: &[Known<'_>],
    start: u64,
    told: Told<'_>,
) -> Option<Vec<Right>> {
    if pages.iter().all(|known| known.touched == known.recorded) {
        return None;
    }
    let only = pages.iter().map(|known| Known { touched: known.recorded, ..*known });
    let right = row(grid, &only.collect::<Vec<_>>(), start, Some(told))?;
    let mut all = right.iter().zip(pages);
    all.all(|(right, known)| right.page.is_some() || is_lost(known.new)).then_some(right)
}

/// A whole row as it was before or after the last write, if what that was to leave alone is what
/// those before it left, which are over. `None`: it is neither, or nobody knows.
fn recent(grid: &Grid, row: &[Known<'_>]) -> Option<Vec<Right>> {
    let news = row.iter().map(|known| known.new).collect();
    let back = row.iter().map(|known| if known.recorded { known.old } else { known.new }).collect();
    let mut versions: Vec<Vec<u32>> = vec![news, back];
    versions.dedup();
    versions.iter().find_map(|sums| known_version(grid, row, sums))
}

/// A whole row as each page was before its last write: the record is not of the last of all. What
/// it knows of some pages may be newer than what others were.
fn before(grid: &Grid, row: &[Known<'_>]) -> Option<Vec<Right>> {
    known_version(grid, row, &row.iter().map(|known| known.old).collect::<Vec<u32>>())
}

/// A version of a row; `None` as well where what was being written has no checksum.
fn known_version(grid: &Grid, row: &[Known<'_>], sums: &[u32]) -> Option<Vec<Right>> {
    let is_unknown =
        |known: &Known<'_>| known.touched && is_unsure(known.new) && known.seen.is_some();
    if row.iter().any(is_unknown) { None } else { version(grid, row, sums) }
}

/// A row of which more is not what the newest checksums say than parity bears, so that what was
/// written last was not flushed: as it is, if that agrees; else what it was before, of pages that
/// are not the newest, and the newest of some, no more than parity bears, that follow from that.
/// What is the newest stays: it may have been flushed. `before`: what each page was. `None`: nobody
/// knows.
pub fn unflushed(grid: &Grid, row: &[Known<'_>], before: &[u32]) -> Option<Vec<Right>> {
    let seen = row.iter().map(|known| Some(Right::of(known.seen?.to_vec())));
    let seen = seen.collect::<Option<Vec<Right>>>().filter(|seen| has_parity_of_data(grid, seen));
    if seen.is_some() {
        return seen;
    }
    let wrong = (0..row.len()).filter(|&at| !row[at].is(row[at].new));
    let (old, neither): (Vec<usize>, Vec<usize>) =
        wrong.partition(|&at| row[at].is_vouched_for(before[at]));
    let one = old.iter().map(|&at| vec![at]);
    let two = old.iter().flat_map(|&at| old.iter().map(move |&other| vec![at, other]));
    let two = two.filter(|pair| pair[0] < pair[1]);
    let mut tries = std::iter::once(Vec::new()).chain(one).chain(two);
    tries.find_map(|some| {
        let missing = [&neither[..], &some].concat();
        let sums = (0..row.len()).map(|at| match old.contains(&at) && !missing.contains(&at) {
            true => before[at],
            false => row[at].new,
        });
        let right = version(grid, row, &sums.collect::<Vec<u32>>())?;
        // Parity follows from whatever data there is: it must be what it should be, too.
        let follows =
            |at: &usize| right[*at].page.as_ref().is_some_and(|page| vouches(row[*at].new, page));
        let there = right.iter().all(|right| right.page.is_some());
        (there && missing.iter().all(follows)).then_some(right)
    })
}

/// A row as the newest checksums say. `None`: it is not that, or nobody knows.
pub fn newest(grid: &Grid, row: &[Known<'_>], sums: &[u32]) -> Option<Vec<Right>> {
    match sums.iter().any(|sum| is_unsure(*sum)) {
        true => None,
        false => version(grid, row, sums),
    }
}

fn version(grid: &Grid, row: &[Known<'_>], sums: &[u32]) -> Option<Vec<Right>> {
    let seen: Vec<Option<&[u8]>> = row
        .iter()
        .zip(sums)
        .map(|(known, sum)| known.seen.filter(|_| !is_lost(*sum) && known.is(*sum)))
        .collect();
    let solved = solve_row(grid, sums, &seen);
    let each = solved.into_iter().zip(sums);
    let right = each.map(|(page, sum)| match (page, is_lost(*sum)) {
        (_, true) => Some(Right::lost(*sum)),
        (Some(page), _) => Some(Right::as_seen(page, *sum)),
        (None, _) => None,
    });
    // Checksums of one write may have come to the log in part: each passes then, and they do not
    // fit.
    let right: Vec<Right> = right.collect::<Option<_>>()?;
    has_parity_of_data(grid, &right).then_some(right)
}

/// Parity is that of the data. What is lost fits whatever there is.
fn has_parity_of_data(grid: &Grid, right: &[Right]) -> bool {
    let Some(shape) = shape_of(grid) else { return true };
    let pages: Option<Vec<&[u8]>> = right
        .iter()
        .map(|right| match right.sum {
            VOID => Some(&ZEROES[..]),
            _ => right.page.as_deref(),
        })
        .collect();
    let Some(pages) = pages else { return true };
    is_consistent(shape, &pages.into_iter().map(Some).collect::<Vec<_>>())
}

/// Parity is that of the data, all of which is there.
fn is_consistent(shape: StripeShape, views: &[Option<&[u8]>]) -> bool {
    let parity: Vec<usize> = (shape.data()..shape.width()).collect();
    without(shape, views, &parity).iter().all(|(at, bytes)| views[*at] == Some(bytes))
}

fn missing_of(views: &[Option<&[u8]>]) -> Vec<usize> {
    (0..views.len()).filter(|&at| views[at].is_none()).collect()
}

/// What is known of a copy of a page.
#[derive(Clone, Debug)]
pub struct Copy<'a> {
    pub seen: Option<&'a [u8]>,
    /// Checksums that it may have, the newest first.
    pub may_be: Vec<u32>,
    pub suspect: bool,
}

impl Copy<'_> {
    /// A checksum of this age vouches for it.
    fn is_of(&self, age: usize) -> bool {
        let sum = self.may_be.get(age);
        sum.zip(self.seen).is_some_and(|(sum, page)| vouches(*sum, page))
    }

    /// Something of it was known when the last writes began: it may have been flushed.
    fn was_known(&self) -> bool {
        self.may_be.last().is_some_and(|sum| *sum != UNKNOWN)
    }
}

/// What all copies of a page should be. `tears`: a power cut may leave a copy that is neither old
/// nor new.
pub fn copies(all: &[Copy<'_>], tears: bool) -> Right {
    let there: Vec<&Copy<'_>> = all.iter().filter(|copy| copy.seen.is_some()).collect();
    if planted::is(Bug::BelieveFirstCopy) {
        let first = there.first().and_then(|copy| copy.seen);
        return first.map_or(Right::lost(LOST), |page| Right::of(page.to_vec()));
    }
    let trusted: Vec<&Copy<'_>> = there.iter().copied().filter(|copy| !copy.suspect).collect();
    let ages = all.iter().map(|copy| copy.may_be.len()).max().unwrap_or(0);
    let newest_of = |among: &[&Copy<'_>], ages: Range<usize>| {
        let of = |age: usize| among.iter().find(|copy| copy.is_of(age)).and_then(|copy| copy.seen);
        ages.into_iter().find_map(of).map(<[u8]>::to_vec)
    };
    let lost = all.iter().all(|copy| copy.may_be.first().is_some_and(|sum| is_lost(*sum)));
    let newest = newest_of(&there, 0..1).or_else(|| same(&trusted).filter(|_| !lost));
    let vouched = newest.or_else(|| newest_of(&trusted, 1..ages));
    if vouched.is_none() && lost {
        return Right::lost(LOST);
    }
    // Written since the last checksum: each that is trusted is that write's, or has rotted. What a
    // suspect has of before may be older than what was flushed.
    let guesses = tears || !all.iter().any(Copy::was_known);
    let right = vouched.or_else(|| agreed(&trusted)).or_else(|| match guesses {
        true => newest_of(&there, 1..ages).or_else(|| most_say(&there)),
        false if trusted.is_empty() => newest_of(&there, 1..ages).or_else(|| agreed(&there)),
        false => None,
    });
    right.map_or(Right::lost(LOST), Right::of)
}

/// How many of these copies are the same as one of them.
fn votes(copies: &[&Copy<'_>], copy: &Copy<'_>) -> usize {
    copies.iter().filter(|other| other.seen == copy.seen).count()
}

/// What two of these copies say, at least, which no checksum vouches for: it is newer than all that
/// is known, as no rot makes two the same. Whoever has something older may have answered writes
/// that it did not do.
fn same(copies: &[&Copy<'_>]) -> Option<Vec<u8>> {
    let is_known = |copy: &Copy<'_>| (0..copy.may_be.len()).any(|age| copy.is_of(age));
    let newer = copies.iter().find(|copy| votes(copies, copy) > 1 && !is_known(copy))?;
    newer.seen.map(<[u8]>::to_vec)
}

/// What more of these copies say than say anything else.
fn agreed(copies: &[&Copy<'_>]) -> Option<Vec<u8>> {
    let most = copies.iter().max_by_key(|copy| votes(copies, copy))?;
    let is_rival =
        |other: &&Copy<'_>| other.seen != most.seen && votes(copies, other) == votes(copies, most);
    most.seen.filter(|_| !copies.iter().any(is_rival)).map(<[u8]>::to_vec)
}

/// What most copies say, rather the first, and rather those of drives that nothing speaks against.
fn most_say(copies: &[&Copy<'_>]) -> Option<Vec<u8>> {
    let most = copies.iter().rev().max_by_key(|copy| (!copy.suspect, votes(copies, copy)))?;
    most.seen.map(<[u8]>::to_vec)
}

/// What a record told of the write that the crash cut short.
#[derive(Clone, Copy)]
pub struct Told<'a> {
    pub pieces: &'a [Piece],
    /// The bytes of a chunk that it was to change.
    pub hull: (u64, u64),
    /// Partial parity of each parity member over the hull; `None`: that drive is lost. Empty: none
    /// was logged, all of the hull was being written.
    pub partial: &'a [Option<&'a [u8]>],
    /// Nothing speaks against one of the drives that told it: it is the last of its stripe.
    pub last: bool,
}

/// The parts of pieces that lie in a range.
fn clipped(pieces: &[Piece], range: &Range<u64>) -> Vec<Piece> {
    let clip = |piece: &Piece| Piece {
        start: piece.start.clamp(range.start, range.end),
        end: piece.end.clamp(range.start, range.end),
        ..*piece
    };
    pieces.iter().map(clip).filter(|piece| piece.start < piece.end).collect()
}

/// A row in the middle of a write, or one of which too little is known. `start`: its first byte in
/// the chunk. `None`: more is missing than the redundancy bears.
pub fn mixed(
    grid: &Grid,
    row: &[Known<'_>],
    start: u64,
    told: Option<Told<'_>>,
) -> Option<Vec<Right>> {
    let Some(shape) = shape_of(grid) else {
        return Some(row.iter().map(alone).collect());
    };
    let views_of = |trusting| row.iter().map(|known| known.usable(trusting)).collect::<Vec<_>>();
    let mut views = views_of(false);
    if missing_of(&views).len() > shape.parity() {
        views = views_of(true);
    }
    let missing = missing_of(&views);
    if missing.len() > shape.parity() {
        return None;
    }
    let full = reconcile(shape, &views, start, told);
    let judge = |(at, page): (usize, Vec<u8>)| {
        let known = &row[at];
        let solved = at < shape.data() && missing.contains(&at);
        // What was not being written has to be what it was.
        let follows = known.recorded || !solved || passes(known.new, &page);
        match is_lost(known.new) || !follows {
            true => Right::lost(known.new),
            false => Right::of(page),
        }
    };
    Some(full.into_iter().enumerate().map(judge).collect())
}

/// A page without redundancy: of what was being written whatever is there counts, since it may be
/// newer than its checksum. What no checksum vouches for gets none: the next opening must not take
/// it for what was written.
fn alone(known: &Known<'_>) -> Right {
    let vouched = known.is(known.new) || known.is(known.old);
    match known.seen {
        Some(page) if vouched && !is_lost(known.new) => Right::as_seen(page.to_vec(), known.new),
        Some(page) if known.touched && !is_lost(known.new) => {
            Right { page: Some(page.to_vec()), sum: UNVOUCHED }
        }
        _ => Right::lost(known.new),
    }
}

/// More is missing of a row than its redundancy bears: what is missing is lost.
pub fn given_up(row: &[Known<'_>]) -> Vec<Right> {
    let stays = |known: &Known<'_>| match known.usable(true) {
        Some(page) if !is_lost(known.new) => Right::of(page.to_vec()),
        _ => Right::lost(known.new),
    };
    row.iter().map(stays).collect()
}

/// All members over a page: data that is missing from what was logged or from parity, parity from
/// the data.
fn reconcile(
    shape: StripeShape,
    views: &[Option<&[u8]>],
    start: u64,
    told: Option<Told<'_>>,
) -> Vec<Vec<u8>> {
    let gone = views[..shape.data()].iter().filter(|view| view.is_none()).count();
    let gone_data = gone > 0;
    // Not all of it may be there: then it tells nothing.
    let told = told.filter(|told| {
        let silent = told.partial.iter().filter(|partial| partial.is_none()).count();
        silent == shape.parity() || gone + silent <= shape.parity()
    });
    let mut full: Vec<Vec<u8>> = vec![vec![0; PAGE as usize]; shape.width()];
    for Doubt { range, pieces, logged_from } in in_doubt(shape, told, gone_data, start) {
        let within = (range.start - start) as usize..(range.end - start) as usize;
        let cut: Vec<Option<&[u8]>> =
            views.iter().map(|view| view.map(|view| &view[within.clone()])).collect();
        let len = within.len();
        let logged: Vec<Option<&[u8]>> = (0..shape.parity())
            .map(|parity| {
                let bytes = told?.partial.get(parity).copied().flatten()?;
                let from = (range.start - logged_from?) as usize;
                // None was logged: all of the hull was being written.
                bytes.get(from..from + len)
            })
            .collect();
        let parities = after_crash(shape, &range, &pieces, &cut, &logged);
        let mut all = cut[..shape.data()].to_vec();
        all.extend(parities.iter().map(Option::as_deref));
        for (at, bytes) in without(shape, &all, &missing_of(&all)) {
            full[at][within.clone()].copy_from_slice(&bytes);
        }
        for (at, bytes) in all.iter().enumerate() {
            bytes.iter().for_each(|bytes| full[at][within.clone()].copy_from_slice(bytes));
        }
    }
    full
}

/// Bytes of a chunk that the crash may have left half written, and the pieces of these.
struct Doubt {
    range: Range<u64>,
    pieces: Vec<Piece>,
    /// What was logged covers it, and begins here.
    logged_from: Option<u64>,
}

fn in_doubt(shape: StripeShape, told: Option<Told<'_>>, gone_data: bool, start: u64) -> Vec<Doubt> {
    let page = start..start + PAGE;
    if !gone_data {
        return vec![Doubt { range: page, pieces: Vec::new(), logged_from: None }];
    }
    // With a data chunk missing only a record tells what it was. Without one it was being written,
    // or nothing was: it is what P says, and Q is made to say the same.
    let as_p_says = |range: Range<u64>| {
        let all = |position| Piece { position, start: range.start, end: range.end };
        let pieces = (0..shape.data()).map(all).collect();
        Doubt { range, pieces, logged_from: None }
    };
    let Some(Told { pieces, hull, .. }) = told else { return vec![as_p_says(page)] };
    let start = hull.0.clamp(page.start, page.end);
    let end = hull.1.clamp(start, page.end);
    let pieces = clipped(pieces, &(start..end));
    let within = Doubt { range: start..end, pieces, logged_from: Some(hull.0) };
    let parts = [as_p_says(page.start..start), within, as_p_says(end..page.end)];
    parts.into_iter().filter(|part| !part.range.is_empty()).collect()
}

/// Whether a scheme of copies.
pub fn is_mirror(grid: &Grid) -> bool {
    grid.redundancy == Redundancy::Mirror
}

mod left_alone;
#[cfg(test)]
mod tests;
