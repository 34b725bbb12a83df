//! What a write was to leave alone, as it follows from the partial parity that was logged for it.
//!
//! ```text
//!  D1     left   left   being      P's log has   left + left   of each range
//!  D2     being  left   left
//!         ----- ------ -----
//!           1      2     3
//!
//!  1, 3   one is left alone: it follows, if it is missing or wrong. What is not what follows has
//!         rotted, what is has been torn at most
//!  2      several are: those that rotted follow, if the others are taken for what they are
//! ```

use std::ops::Range;

use layout::StripeShape;

use super::{Known, Told, clipped, is_consistent, missing_of};
use crate::grid::Grid;
use crate::limits::PAGE;
use crate::partial::segments;
use crate::planted::{self, Bug};
use crate::row::{ZEROES, shape_of, without};
use crate::sums::{is_known, passes};

/// What was not being written and is missing or wrong, as it follows from the partial parity: pages
/// that are what their checksums say then, and what is left alone of pages that are neither old nor
/// new.
pub(super) fn left_alone(
    grid: &Grid,
    row: &[Known<'_>],
    start: u64,
    told: Told<'_>,
) -> Vec<(usize, Vec<u8>)> {
    let Some(shape) = shape_of(grid) else { return Vec::new() };
    let is_wanted = |known: &Known<'_>| match known.recorded {
        true => told.last && known.seen.is_some() && known.sound().is_none(),
        false => is_known(known.new) && !known.is(known.new),
    };
    let wanted: Vec<usize> = (0..shape.data()).filter(|&at| is_wanted(&row[at])).collect();
    let page = start..start + PAGE;
    if planted::is(Bug::ForgetLeftAlone)
        || wanted.is_empty()
        || start < told.hull.0
        || page.end > told.hull.1
    {
        return Vec::new();
    }
    // What was not being written is the newest that is known of it; unless the record is not of
    // the last write.
    let strict = left_alone_as(shape, row, start, told, (&wanted, true));
    if strict.is_empty() {
        left_alone_as(shape, row, start, told, (&wanted, false))
    } else {
        strict
    }
}

/// `newest`: what is wanted counts for none of it, whatever is there.
fn left_alone_as(
    shape: StripeShape,
    row: &[Known<'_>],
    start: u64,
    told: Told<'_>,
    (wanted, newest): (&[usize], bool),
) -> Vec<(usize, Vec<u8>)> {
    let held = |at: usize| row[at].seen.unwrap_or(&ZEROES);
    let mut pages: Vec<Vec<u8>> = wanted.iter().map(|&at| held(at).to_vec()).collect();
    let page = start..start + PAGE;
    let within = |range: &Range<u64>| (range.start - start) as usize..(range.end - start) as usize;
    let solve = |pages: &mut [Vec<u8>], range: &Range<u64>, views: &[Option<&[u8]>]| {
        for (at, bytes) in without(shape, views, &missing_of(views)) {
            if let Some(own) = wanted.iter().position(|own| *own == at) {
                pages[own][within(range)].copy_from_slice(&bytes);
            }
        }
    };
    let mut several = Vec::new();
    for range in segments(&page, &clipped(told.pieces, &page)) {
        let mut views = views_left_alone(shape, row, (start, &range), told);
        let old = |at: &&usize| newest && !row[**at].recorded;
        wanted.iter().filter(old).for_each(|&at| views[at] = None);
        match missing_of(&views).len() <= shape.parity() {
            true => solve(&mut pages, &range, &views),
            false => several.push((range, views)),
        }
    }
    // One that is wrong elsewhere is not torn, but has rotted.
    let is_wrong = |own: &usize| pages[*own][..] != *held(wanted[*own]);
    let rotten: Vec<usize> = (0..wanted.len()).filter(is_wrong).map(|own| wanted[own]).collect();
    for (range, mut views) in several {
        let torn = wanted.iter().filter(|at| row[**at].recorded && !rotten.contains(at));
        torn.for_each(|&at| views[at] = views[at].or(Some(&held(at)[within(&range)])));
        let missing = missing_of(&views).len();
        if missing > shape.parity() || missing == 0 && !is_consistent(shape, &views) {
            return Vec::new();
        }
        solve(&mut pages, &range, &views);
    }
    let solved = wanted.iter().copied().zip(pages);
    solved.filter(|(at, page)| row[*at].recorded || passes(row[*at].new, page)).collect()
}

/// What is known of a range of a page without what was being written, and its parity.
fn views_left_alone<'a>(
    shape: StripeShape,
    row: &[Known<'a>],
    (start, range): (u64, &Range<u64>),
    told: Told<'a>,
) -> Vec<Option<&'a [u8]>> {
    let within = (range.start - start) as usize..(range.end - start) as usize;
    let is_written =
        |at: usize| told.pieces.iter().any(|piece| piece.position == at && piece.covers(range));
    let data = (0..shape.data()).map(|at| match is_written(at) {
        true => Some(&ZEROES[within.clone()]),
        false => row[at].sound().map(|page| &page[within.clone()]),
    });
    let from = (range.start - told.hull.0) as usize;
    let partial = told.partial.iter();
    let parity = partial.map(|bytes| (*bytes)?.get(from..from + within.len()));
    data.chain(parity).collect()
}
