//! Which two drives take the next segment, and where places are scarce.
//!
//! ```text
//!   free places   d0 5   d1 7   d2 7   d3 6        next: d1, d2; then those two have 6 like d3
//! ```
//! Always the two with most: then as many pairs as can be are made of what is free, whichever
//! drives the cleaner gave back places of. With the same everywhere the pairs go round.

/// Free places of each drive; `None`: it is lost.
pub type Free<'a> = &'a [Option<u32>];

/// A segment has two copies as long as there are two drives.
pub fn copies(free: Free) -> usize {
    free.iter().flatten().count().min(2)
}

/// The drives for the next segment; those that have no more than `keep` are not asked. Of equals
/// the first from `cursor` on.
pub fn choose(free: Free, keep: u32, cursor: usize) -> Option<Vec<usize>> {
    let count = free.len();
    let order = (0..count).map(|at| (cursor + at) % count);
    let mut able: Vec<(u32, usize)> = order
        .filter_map(|drive| Some((free[drive]?, drive)))
        .filter(|(places, _)| *places > keep)
        .collect();
    able.sort_by_key(|(places, _)| u32::MAX - places);
    let copies = copies(free);
    (copies > 0 && able.len() >= copies)
        .then(|| able[..copies].iter().map(|(_, drive)| *drive).collect())
}

/// Segments that can be begun one after the other.
pub fn room(free: Free, keep: u32) -> u32 {
    let beyond: Vec<u32> =
        free.iter().flatten().map(|places| places.saturating_sub(keep)).collect();
    let (sum, most) = (beyond.iter().sum::<u32>(), beyond.iter().copied().max().unwrap_or(0));
    match copies(free) {
        0 => 0,
        1 => sum,
        _ => (sum / 2).min(sum - most),
    }
}

/// How many of these drives, which would get a place back, have fewer than `target`.
pub fn gain(free: Free, target: u32, drives: impl Iterator<Item = usize>) -> u32 {
    drives.filter(|drive| free[*drive].is_some_and(|places| places < target)).count() as u32
}

/// How many of the drives that the next segment takes have no more than `target`.
pub fn cost(free: Free, target: u32) -> u32 {
    let chosen = choose(free, 0, 0).unwrap_or_default();
    chosen.iter().filter(|drive| free[**drive].is_some_and(|places| places <= target)).count()
        as u32
}

#[cfg(test)]
mod tests {
    use io::rng::{Rng, mix};

    use super::*;

    #[test]
    fn pairs_go_round() {
        let mut free = vec![Some(6); 5];
        let mut cursor = 0;
        let mut taken = Vec::new();
        for _ in 0..10 {
            let pair = choose(&free, 0, cursor).expect("room");
            for drive in &pair {
                *free[*drive].as_mut().expect("there") -= 1;
            }
            cursor = (pair[1] + 1) % 5;
            taken.push((pair[0], pair[1]));
        }
        assert_eq!(taken[..5], [(0, 1), (2, 3), (4, 0), (1, 2), (3, 4)]);
        assert_eq!(free, vec![Some(2); 5]);
    }

    /// All ways to take pairs, tried.
    fn most(free: &mut Vec<u32>) -> u32 {
        let mut best = 0;
        for first in 0..free.len() {
            for second in first + 1..free.len() {
                if free[first] > 0 && free[second] > 0 {
                    free[first] -= 1;
                    free[second] -= 1;
                    best = best.max(1 + most(free));
                    free[first] += 1;
                    free[second] += 1;
                }
            }
        }
        best
    }

    #[test]
    fn as_many_pairs_are_made_as_can_be() {
        for seed in 0..60 {
            let mut rng = Rng::new(mix(seed));
            let mut plain: Vec<u32> = (0..3).map(|_| rng.below(4) as u32).collect();
            let mut free: Vec<Option<u32>> = plain.iter().copied().map(Some).collect();
            let room = room(&free, 0);
            assert_eq!(room, most(&mut plain), "{plain:?}");
            let mut made = 0;
            while let Some(pair) = choose(&free, 0, rng.index(3)) {
                assert!(pair.len() == 2 && pair[0] != pair[1]);
                pair.iter().for_each(|drive| *free[*drive].as_mut().expect("there") -= 1);
                made += 1;
            }
            assert_eq!(made, room, "{plain:?}");
        }
    }

    #[test]
    fn lost_drives_take_nothing_and_the_last_is_alone() {
        assert_eq!(choose(&[Some(1), None, Some(9)], 0, 0), Some(vec![2, 0]));
        assert_eq!(choose(&[Some(1), None, Some(9)], 1, 0), None, "never one copy on two drives");
        assert_eq!(choose(&[None, Some(3)], 2, 0), Some(vec![1]));
        assert_eq!(choose(&[None, None], 0, 0), None);
        assert_eq!((room(&[None, Some(3)], 1), room(&[None, None], 0)), (2, 0));
        assert_eq!(room(&[Some(9), Some(3), None], 1), 2);
    }

    #[test]
    fn scarce_is_what_is_below_the_target() {
        let free = [Some(8), Some(3), None, Some(12)];
        assert_eq!(gain(&free, 8, [0, 1].into_iter()), 1);
        assert_eq!(gain(&free, 8, [1, 2].into_iter()), 1);
        assert_eq!((cost(&free, 8), cost(&free, 7), cost(&free, 12)), (1, 0, 2));
    }
}
