//! What every layout promises: a stripe's drives differ, drives are equally full, pairs of drives
//! meet evenly, the spare is elsewhere, and `at` finds the way back.

use layout::{Balance, DriveIndex, Layout, LayoutError, LayoutKind};
use proptest::prelude::*;

fn is_prime_power(n: usize) -> bool {
    let prime = (2..=n).find(|p| n.is_multiple_of(*p)).unwrap();
    (1..=8).any(|m| prime.pow(m) == n)
}

/// Few widths for many drives, so that the suite stays quick.
fn widths(n: usize) -> Vec<usize> {
    match n {
        ..=16 => (2..=n).collect(),
        17..=64 => vec![2, 3, 5, 7, 8, 11, n / 2, n - 1, n],
        _ => vec![3, 8, 12, n],
    }
}

/// Looks at every stripe of the template (up to 32 drives) or at every 17th, and at whole rows.
fn check_stripes(layout: &Layout) {
    let (n, w) = (layout.drives(), layout.width());
    let step = if n <= 32 { 1 } else { 17 };
    for stripe in (0..layout.stripes_per_template() as u32).step_by(step) {
        let mut seen = vec![false; n];
        for pos in 0..w {
            let drive = layout.drive(stripe, pos);
            assert!(!seen[drive.index()], "{layout:?}: stripe {stripe} has drive {drive} twice");
            seen[drive.index()] = true;
            let block = layout.block_on_drive(stripe, pos);
            assert_eq!(layout.at(drive, block), (stripe, pos), "{layout:?}");
        }
        let spare = layout.spare(stripe);
        assert_eq!(spare.is_none(), w == n);
        assert!(spare.is_none_or(|s| !seen[s.index()]), "{layout:?}: stripe {stripe}'s spare");
    }
}

/// A row's blocks on each drive are exactly 0..w, so that whole rows fill drives equally.
fn check_row(layout: &Layout, row: u32) {
    let (n, w) = (layout.drives() as u32, layout.width());
    let mut filled = vec![false; layout.drives() * w];
    for stripe in row * n..(row + 1) * n {
        for pos in 0..w {
            let block = layout.block_on_drive(stripe, pos) as usize - row as usize * w;
            let place = &mut filled[layout.drive(stripe, pos).index() * w + block];
            assert!(!*place, "{layout:?}: a block has two owners");
            *place = true;
        }
    }
    assert!(filled.iter().all(|f| *f), "{layout:?}: a block has no owner");
}

/// Counts meetings of all pairs the slow way, stripe by stripe, and compares with `balance`.
fn check_balance(layout: &Layout) -> Balance {
    let n = layout.drives();
    let (mut met, mut spared) = (vec![0u32; n * n], vec![0u32; n * n]);
    for stripe in 0..layout.stripes_per_template() as u32 {
        for a in layout.drives_of(stripe) {
            for b in layout.drives_of(stripe).filter(|b| *b != a) {
                met[a.index() * n + b.index()] += 1;
            }
            layout.spare(stripe).inspect(|s| spared[a.index() * n + s.index()] += 1);
        }
    }
    let extremes = |counts: &[u32]| {
        let others = (0..n * n).filter(|i| i / n != i % n).map(|i| counts[i]);
        (others.clone().min().unwrap(), others.max().unwrap())
    };
    let balance = layout.balance();
    assert_eq!((balance.min, balance.max), extremes(&met), "{layout:?}");
    assert_eq!((balance.spare_min, balance.spare_max), extremes(&spared), "{layout:?}");
    balance
}

#[test]
fn latin_squares_are_perfect() {
    for n in (3..=256).filter(|n| is_prime_power(*n)) {
        for w in widths(n) {
            let layout = Layout::new(n, w).unwrap();
            assert_eq!(layout.kind(), LayoutKind::Mols);
            check_stripes(&layout);
            check_row(&layout, n as u32 / 2);
            let balance = if n <= 32 { check_balance(&layout) } else { layout.balance() };
            let meetings = (w * (w - 1)) as u32;
            assert_eq!((balance.min, balance.max), (meetings, meetings), "{layout:?}");
            if w < n {
                let spares = (balance.spare_min, balance.spare_max);
                assert_eq!(spares, (w as u32, w as u32), "{layout:?}");
            }
        }
    }
}

/// FusionRAID Figure 6: a template for 29 drives, filled by Latin squares; a cell through all of
/// them is a stripe of 4+1, and each of its five drives is known by calculation.
#[test]
fn figure_6_a_cell_through_the_squares_is_a_stripe() {
    let layout = Layout::new(29, 5).expect("29 is prime");
    assert_eq!(layout.stripes_per_template(), 28 * 29);
    for (row, column) in (1..29u32).flat_map(|row| (0..29u32).map(move |column| (row, column))) {
        let stripe = (row - 1) * 29 + column;
        for square in 0..5 {
            let drive = (square as u32 * row + column) % 29;
            assert_eq!(layout.drive(stripe, square), DriveIndex(drive as u16));
        }
    }
    check_stripes(&layout);
}

/// The bound: no pair of drives meets more than one time plus 2 % too often; one time is the least
/// that imperfection can be. Up to 20 drives whatever can be perfect is. A spare takes at most two
/// blocks plus an eighth more than its share.
fn check_permuted(n: usize, w: usize) {
    let layout = Layout::new(n, w).unwrap();
    assert_eq!(layout.kind(), LayoutKind::Permuted);
    check_stripes(&layout);
    check_row(&layout, n as u32 / 2);
    let balance = if n <= 24 { check_balance(&layout) } else { layout.balance() };
    let mean = (w * (w - 1)) as u32;
    assert!(balance.max <= mean + 1 + mean / 50, "{layout:?}: {balance:?}");
    let never_perfect = n % 4 == 2 && w % 4 == 3;
    if n <= 20 {
        assert_eq!(balance.is_perfect(), !never_perfect, "{layout:?}: {balance:?}");
    }
    if w < n {
        assert!(balance.spare_max as usize <= w + 2 + w / 8, "{layout:?}: {balance:?}");
    }
}

#[test]
fn permuted_layouts_are_nearly_balanced() {
    for n in (6..=64).filter(|n| !is_prime_power(*n)) {
        let all = [3, 5, 7, 8, 11, n / 2, n - 1, n];
        let widths = if n <= 15 { (2..=n).collect() } else { all.to_vec() };
        widths.into_iter().filter(|w| *w <= n).for_each(|w| check_permuted(n, w));
    }
}

#[test]
fn permuted_layouts_of_many_drives_are_nearly_balanced() {
    for (n, w) in [(84, 9), (100, 8), (100, 50), (130, 12), (200, 20), (250, 6), (255, 10)] {
        check_permuted(n, w);
    }
}

#[test]
fn templates_repeat() {
    for (n, w) in [(7, 4), (9, 5), (10, 4)] {
        let layout = Layout::new(n, w).unwrap();
        let template = layout.stripes_per_template() as u32;
        for stripe in 0..template {
            assert!(layout.drives_of(stripe).eq(layout.drives_of(stripe + 5 * template)));
            assert_eq!(layout.spare(stripe), layout.spare(stripe + template));
        }
    }
}

#[test]
fn impossible_layouts_say_why() {
    let error = |n, w| Layout::new(n, w).unwrap_err();
    assert_eq!(error(2, 2), LayoutError::TooFewDrives { drives: 2 });
    assert_eq!(error(257, 8), LayoutError::TooManyDrives { drives: 257 });
    assert_eq!(error(10, 1), LayoutError::WidthOutOfRange { width: 1 });
    let text = "a stripe of 7 blocks needs 7 different drives, the pool has 6";
    assert_eq!(error(6, 7).to_string(), text);
}

#[test]
fn balance_is_told_in_a_sentence() {
    let text = |n, w| Layout::new(n, w).unwrap().balance().to_string();
    assert_eq!(text(7, 4), "perfectly balanced: every two drives share 12 stripes of a template");
    assert_eq!(
        text(10, 7),
        "drives are equally full; two drives share 41 to 43 stripes of a template, so that in a \
         rebuild the busiest drive reads 2.4 % more than the average"
    );
}

proptest! {
    /// Any block of any drive has one owner, also far from the first template.
    #[test]
    fn at_is_the_inverse(n in 3usize..40, width in 2usize..40, stripe in 0u32..100_000_000) {
        let layout = Layout::new(n, width.min(n)).unwrap();
        for pos in 0..layout.width() {
            let (drive, block) = (layout.drive(stripe, pos), layout.block_on_drive(stripe, pos));
            prop_assert_eq!(layout.at(drive, block), (stripe, pos));
        }
        let (drive, block) = (DriveIndex((stripe % n as u32) as u16), stripe / 64);
        let (owner, pos) = layout.at(drive, block);
        prop_assert_eq!(layout.drive(owner, pos), drive);
        prop_assert_eq!(layout.block_on_drive(owner, pos), block);
    }
}
