//! A drive that did none of the last writes: what it has is of before them all.

use super::*;

/// Pages were written, flushed, and some of them written once more when the power failed. The last
/// record was on the drive that lost it.
#[test]
fn parity_of_before_does_not_take_back_what_was_flushed() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (redundancy, width) = [RAID5, RAID6][rng.index(2)];
        let grid = Grid { redundancy, drives: width, width, chunk: 3 * PAGE, rows: 1 };
        let data = grid.data();
        let old: Vec<Vec<u8>> = (0..data).map(|_| random_page(&mut rng)).collect();
        let written: Vec<bool> = (0..data).map(|_| rng.chance(2, 3)).collect();
        let mut later = |from: &[Vec<u8>]| -> Vec<Vec<u8>> {
            let page = |at: usize| match written[at] {
                true => random_page(&mut rng),
                false => from[at].clone(),
            };
            (0..data).map(page).collect()
        };
        let flushed = later(&old);
        let last = later(&old);
        let again: Vec<bool> = (0..data).map(|_| rng.chance(1, 2)).collect();
        let is: Vec<Vec<u8>> = (0..data)
            .map(|at| if again[at] { last[at].clone() } else { flushed[at].clone() })
            .collect();
        let [before, newest, now] =
            [&old, &flushed, &is].map(|pages| with_parity(&grid, pages.clone()));
        let lies = data + rng.index(grid.parity());
        let known = |at: usize| Known {
            seen: Some(if at == lies { &before[at] } else { &now[at] }),
            old: sum_of(&before[at]),
            new: sum_of(&newest[at]),
            touched: at < data && written[at],
            recorded: false,
            suspect: at == lies,
        };
        let pages: Vec<Known<'_>> = (0..width).map(known).collect();
        let right = row(&grid, &pages, START, None).expect("all of the data is there");
        for at in 0..width {
            assert!(right[at].page.as_ref() == Some(&now[at]), "seed {seed}, page {at}");
        }
    }
}
