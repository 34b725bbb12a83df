//! One page of every member of a stripe: what should be there, from what was read and what the
//! sums say. Pure.

use layout::StripeShape;
use layout::parity::reconstruct;

use crate::grid::{Grid, Redundancy};
use crate::limits::PAGE;
use crate::sums::{VOID, is_known, is_lost, is_unsure, passes, vouches};

/// What parity counts on for a page that is lost.
pub static ZEROES: [u8; PAGE as usize] = [0; PAGE as usize];

type Pages = Vec<Option<Vec<u8>>>;

/// `sums` of all members, `seen` what is there and passes for it. Of each member what it should
/// hold, if that follows.
pub fn solve_row(grid: &Grid, sums: &[u32], seen: &[Option<&[u8]>]) -> Pages {
    match grid.redundancy {
        Redundancy::Mirror => solve_copies(sums, seen),
        Redundancy::Parity(_) | Redundancy::ParityDrive => match shape_of(grid) {
            Some(shape) => {
                let mut counted = seen.to_vec();
                for (page, _) in counted.iter_mut().zip(sums).filter(|(_, sum)| **sum == VOID) {
                    *page = Some(&ZEROES);
                }
                let mut pages = solve_parity(shape, sums, &counted);
                let lost = pages.iter_mut().zip(sums).filter(|(_, sum)| is_lost(**sum));
                lost.for_each(|(page, _)| *page = None);
                with_parity(shape, pages)
            }
            None => owned(seen),
        },
    }
}

/// Where all data is there, or follows, so does parity: it is nothing but what the data say,
/// whatever it was lost for before.
fn with_parity(shape: StripeShape, mut pages: Pages) -> Pages {
    let all_data = pages[..shape.data()].iter().all(Option::is_some);
    let missing: Vec<usize> =
        (shape.data()..pages.len()).filter(|&at| all_data && pages[at].is_none()).collect();
    let views: Vec<Option<&[u8]>> = pages.iter().map(Option::as_deref).collect();
    let solved = without(shape, &views, &missing);
    solved.into_iter().for_each(|(at, page)| pages[at] = Some(page));
    pages
}

pub fn shape_of(grid: &Grid) -> Option<StripeShape> {
    let parity = grid.parity();
    (parity > 0).then(|| {
        let shape = StripeShape::new(grid.width as u16, parity as u8);
        shape.expect("the grid was checked")
    })
}

fn owned(seen: &[Option<&[u8]>]) -> Pages {
    seen.iter().map(|page| page.map(<[u8]>::to_vec)).collect()
}

/// A copy that is known to be right, or any, if none is.
fn solve_copies(sums: &[u32], seen: &[Option<&[u8]>]) -> Pages {
    let there = || seen.iter().zip(sums).filter_map(|(page, sum)| Some(((*page)?, *sum)));
    let good = there().find(|(_, sum)| is_known(*sum)).or(there().next());
    let copy = |(sum, own): (&u32, &Option<&[u8]>)| match (good, own) {
        (Some((good, _)), _) if passes(*sum, good) => Some(good.to_vec()),
        (_, own) => own.map(<[u8]>::to_vec),
    };
    sums.iter().zip(seen).map(copy).collect()
}

fn solve_parity(shape: StripeShape, sums: &[u32], seen: &[Option<&[u8]>]) -> Pages {
    let missing: Vec<usize> = (0..seen.len()).filter(|&at| seen[at].is_none()).collect();
    if missing.is_empty() {
        return owned(seen);
    }
    // What nobody vouches for may be what is wrong: if that gives what the sums say, it is.
    let unsure = (0..seen.len()).filter(|&at| seen[at].is_some() && is_unsure(sums[at]));
    for left in std::iter::once(None).chain(unsure.map(Some)) {
        let wanted: Vec<usize> = missing.iter().copied().chain(left).collect();
        if wanted.len() > shape.parity() {
            break;
        }
        let solved = without(shape, seen, &wanted);
        let contradicts =
            |(at, page): &(usize, Vec<u8>)| is_known(sums[*at]) && !passes(sums[*at], page);
        if !solved.iter().any(contradicts) {
            let mut pages = owned(seen);
            solved.into_iter().for_each(|(at, page)| pages[at] = Some(page));
            return pages;
        }
    }
    // Whatever passes for itself can be taken.
    let mut pages = owned(seen);
    if missing.len() <= shape.parity() {
        let right = |(at, page): &(usize, Vec<u8>)| vouches(sums[*at], page);
        let solved = without(shape, seen, &missing).into_iter().filter(right);
        solved.for_each(|(at, page)| pages[at] = Some(page));
    }
    pages
}

/// Some members, from the others.
pub fn without(
    shape: StripeShape,
    seen: &[Option<&[u8]>],
    wanted: &[usize],
) -> Vec<(usize, Vec<u8>)> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut views = seen.to_vec();
    wanted.iter().for_each(|&at| views[at] = None);
    let len = views.iter().flatten().next().map_or(PAGE as usize, |page| page.len());
    let mut out: Vec<(usize, Vec<u8>)> = wanted.iter().map(|&at| (at, vec![0; len])).collect();
    let mut slots: Vec<(usize, &mut [u8])> =
        out.iter_mut().map(|(at, page)| (*at, &mut page[..])).collect();
    reconstruct(shape, &views, &mut slots).expect("no more is missing than there is parity");
    out
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::sums::UNKNOWN;
    use crate::sums::{LOST, sum_of};
    use io::rng::Rng;

    fn grid(redundancy: Redundancy, width: usize) -> Grid {
        Grid { redundancy, drives: width, width, chunk: PAGE, rows: 1 }
    }

    /// Data with its parity, if there is any.
    pub fn with_parity(grid: &Grid, mut data: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        if grid.parity() == 0 {
            return data;
        }
        let columns: Vec<&[u8]> = data.iter().map(|page| &page[..]).collect();
        let mut parity = vec![vec![0; PAGE as usize]; grid.parity()];
        let mut out: Vec<&mut [u8]> = parity.iter_mut().map(|page| &mut page[..]).collect();
        layout::parity::compute(&columns, &mut out);
        data.extend(parity);
        data
    }

    /// A row that agrees.
    fn row(grid: &Grid, rng: &mut Rng) -> Vec<Vec<u8>> {
        let mut page = || {
            let mut page = vec![0; PAGE as usize];
            rng.fill(&mut page);
            page
        };
        let Some(shape) = shape_of(grid) else { return vec![page(); grid.width] };
        with_parity(grid, (0..shape.data()).map(|_| page()).collect())
    }

    /// Whatever is missing, wrong without a sum, or lost: nothing comes out that is not right, and
    /// all of it while no more is missing than parity bears.
    #[test]
    fn what_follows_is_right_and_follows_as_long_as_it_can() {
        let shapes = [
            (Redundancy::Mirror, 3),
            (Redundancy::Parity(1), 4),
            (Redundancy::Parity(2), 5),
            (Redundancy::ParityDrive, 3),
        ];
        let mut rng = Rng::new(5);
        for turn in 0..2000 {
            let (redundancy, width) = shapes[turn % 4];
            let grid = grid(redundancy, width);
            let right = row(&grid, &mut rng);
            let missing: Vec<bool> = (0..width).map(|_| rng.chance(1, 3)).collect();
            let lost: Vec<bool> = missing.iter().map(|gone| *gone && rng.chance(1, 4)).collect();
            let unknown: Vec<bool> = (0..width).map(|_| rng.chance(1, 4)).collect();
            let sum = |at: usize| match (lost[at], unknown[at]) {
                (true, _) => LOST,
                (_, true) => UNKNOWN,
                _ => sum_of(&right[at]),
            };
            let sums: Vec<u32> = (0..width).map(sum).collect();
            let seen: Vec<Option<&[u8]>> =
                (0..width).map(|at| (!missing[at]).then_some(&right[at][..])).collect();
            let solved = solve_row(&grid, &sums, &seen);
            let gone = missing.iter().filter(|gone| **gone).count();
            let by_itself = |at: usize| gone <= grid.tolerance() && !lost[at] || !missing[at];
            let is_parity = |at: usize| grid.parity() > 0 && at >= grid.data();
            for at in 0..width {
                let follows = by_itself(at) || is_parity(at) && (0..grid.data()).all(by_itself);
                assert_eq!(solved[at].as_deref(), follows.then_some(&right[at][..]), "turn {turn}");
            }
        }
    }

    /// It was lost with a page of data that somebody else had, and stayed so when that was written:
    /// with the next drive a page was lost that nothing was wrong with (a world of `alternate` on
    /// replicas with parity, seed 61).
    #[test]
    fn parity_follows_from_data_that_is_there_whatever_it_was_lost_for() {
        let mut rng = Rng::new(8);
        let grid = grid(Redundancy::Parity(2), 5);
        let right = row(&grid, &mut rng);
        let mut sums: Vec<u32> = right.iter().map(|page| sum_of(page)).collect();
        (sums[3], sums[4]) = (LOST, LOST);
        let mut seen: Vec<Option<&[u8]>> = right.iter().map(|page| Some(&page[..])).collect();
        (seen[3], seen[4]) = (None, None);
        let solved = solve_row(&grid, &sums, &seen);
        assert!(solved.iter().zip(&right).all(|(page, right)| page.as_ref() == Some(right)));
        seen[1] = None;
        let solved = solve_row(&grid, &sums, &seen);
        assert_eq!([1, 3, 4].map(|at| &solved[at]), [&None, &None, &None]);
    }

    #[test]
    fn what_nobody_vouches_for_gives_way_to_what_the_sums_say() {
        let mut rng = Rng::new(6);
        let grid = grid(Redundancy::Parity(2), 5);
        let right = row(&grid, &mut rng);
        let mut bad = right.clone();
        bad[1][7] ^= 1;
        let mut sums: Vec<u32> = right.iter().map(|page| sum_of(page)).collect();
        sums[1] = UNKNOWN;
        let mut seen: Vec<Option<&[u8]>> = bad.iter().map(|page| Some(&page[..])).collect();
        seen[0] = None;
        let solved = solve_row(&grid, &sums, &seen);
        assert_eq!(solved[0].as_ref(), Some(&right[0]));
        assert_eq!(solved[1].as_ref(), Some(&right[1]));
        // With all parity needed nothing tells: no other bytes are given.
        seen[2] = None;
        assert_eq!(solve_row(&grid, &sums, &seen)[0], None);
        // Of copies, one that is known to be right.
        let mirror = Grid { redundancy: Redundancy::Mirror, ..grid };
        let copies: Vec<Option<&[u8]>> = vec![Some(&bad[1]), Some(&right[1]), None, None, None];
        let sum = sum_of(&right[1]);
        let solved = solve_row(&mirror, &[UNKNOWN, sum, sum, UNKNOWN, LOST], &copies);
        assert_eq!(solved[..4], vec![Some(right[1].clone()); 4]);
        assert_eq!(solved[4], None);
    }
}
