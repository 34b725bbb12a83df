//! Slots are found whenever they exist, and are what they should be.

use layout::pairing::NO_POSITION;
use layout::{
    DriveIndex, Layout, Slot, choose_stripes, choose_stripes_where, common_drives, match_slots,
};
use proptest::prelude::*;

/// Every data position of every stripe once, slot t at position t of stripe 0, all on
/// different drives.
fn check(stripes: &[&[DriveIndex]], slots: &[Slot]) {
    let k = stripes[0].len();
    assert_eq!(slots.len(), k);
    for (j, stripe) in stripes.iter().enumerate() {
        let mut positions: Vec<u8> = slots.iter().map(|s| s[j]).collect();
        positions.sort();
        assert!(positions.iter().enumerate().all(|(i, p)| i == usize::from(*p)), "{stripe:?}");
    }
    for (t, slot) in slots.iter().enumerate() {
        assert_eq!(usize::from(slot[0]), t);
        let drives: Vec<_> =
            stripes.iter().zip(slot).map(|(stripe, p)| stripe[usize::from(*p)]).collect();
        assert!((1..drives.len()).all(|i| !drives[..i].contains(&drives[i])), "{drives:?}");
        assert!(slot[stripes.len()..].iter().all(|p| *p == NO_POSITION));
    }
}

/// Whether slots from `t` on can be filled, trying everything.
fn exists(stripes: &[&[DriveIndex]], t: usize, used: [u32; 2]) -> bool {
    let k = stripes[0].len();
    let free = |j: usize, pos: usize| used[j] >> pos & 1 == 0;
    if t == k {
        return true;
    }
    (0..k).filter(|u| free(0, *u) && stripes[1][*u] != stripes[0][t]).any(|u| {
        let Some(third) = stripes.get(2) else {
            return exists(stripes, t + 1, [used[0] | 1 << u, 0]);
        };
        (0..k)
            .filter(|v| free(1, *v) && third[*v] != stripes[0][t] && third[*v] != stripes[1][u])
            .any(|v| exists(stripes, t + 1, [used[0] | 1 << u, used[1] | 1 << v]))
    })
}

/// k different drives out of a few, so that stripes share many.
fn stripe(k: usize, drives: u16) -> impl Strategy<Value = Vec<DriveIndex>> {
    Just((0..drives).map(DriveIndex).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(move |all| all[..k].to_vec())
}

fn tuple() -> impl Strategy<Value = Vec<Vec<DriveIndex>>> {
    (1usize..6, 2usize..4, 0u16..4).prop_flat_map(|(k, copies, more)| {
        prop::collection::vec(stripe(k, k as u16 + more), copies)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn found_whenever_one_exists(tuple in tuple()) {
        let stripes: Vec<&[DriveIndex]> = tuple.iter().map(Vec::as_slice).collect();
        match match_slots(&stripes) {
            Some(slots) => check(&stripes, &slots),
            None => prop_assert!(!exists(&stripes, 0, [0; 2]), "{:?} can be matched", stripes),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn wide_stripes_always_match(
        (a, b, c) in (4usize..60).prop_flat_map(|k| {
            let drives = k as u16 + 3;
            (stripe(k, drives), stripe(k, drives), stripe(k, drives))
        }),
    ) {
        check(&[&a, &b], &match_slots(&[&a, &b]).unwrap());
        check(&[&a, &b, &c], &match_slots(&[&a, &b, &c]).unwrap());
    }

    #[test]
    fn chosen_stripes_share_least(
        candidates in prop::collection::vec(stripe(6, 14), 2..7),
        copies in 2usize..4,
    ) {
        let Some(chosen) = choose_stripes(&candidates, copies, 5) else {
            prop_assert!(candidates.len() < copies);
            return Ok(());
        };
        prop_assert_eq!(chosen.len(), copies);
        let shared = |choice: &[usize]| -> usize {
            let pair = |a: usize, b: usize| common_drives(&candidates[a], &candidates[b]);
            (0..choice.len()).flat_map(|i| (0..i).map(move |j| (i, j)))
                .map(|(i, j)| pair(choice[i], choice[j])).sum()
        };
        let least = (0u32..1 << candidates.len())
            .filter(|set| set.count_ones() as usize == copies)
            .map(|set| (0..candidates.len()).filter(|i| set >> i & 1 == 1).collect::<Vec<_>>())
            .map(|choice| shared(&choice))
            .min();
        prop_assert_eq!(Some(shared(&chosen)), least);
    }
}

#[test]
fn the_hopeless_is_refused() {
    let one = [DriveIndex(4)];
    assert_eq!(match_slots(&[&one, &one]), None);
    let (ab, ba) = ([DriveIndex(1), DriveIndex(2)], [DriveIndex(2), DriveIndex(1)]);
    assert_eq!(match_slots(&[&ab, &ba, &ab]), None);
    assert_eq!(choose_stripes(&[vec![DriveIndex(1)], vec![DriveIndex(1)]], 2, 1), None);
}

/// The tightest case there is, in every order: three drives, three stripes on all of them.
#[test]
fn three_stripes_on_three_drives_rotate() {
    let stripe = |drives: [u16; 3]| drives.map(DriveIndex);
    let mut orders = 0;
    for (b, c) in (0..27).flat_map(|b| (0..27).map(move |c| (b, c))) {
        let digits = |n: u16| stripe([n % 3, n / 3 % 3, n / 9]);
        let (a, b, c) = (stripe([0, 1, 2]), digits(b), digits(c));
        if [b, c].iter().any(|s| s[0] == s[1] || s[1] == s[2] || s[0] == s[2]) {
            continue;
        }
        check(&[&a, &b, &c], &match_slots(&[&a, &b, &c]).expect("all three drives rotate"));
        orders += 1;
    }
    assert_eq!(orders, 36);
}

#[test]
fn a_layouts_stripes_match() {
    let layout = Layout::new(10, 6).unwrap();
    let stripes: Vec<Vec<DriveIndex>> = (0..90).map(|s| layout.drives_of(s).collect()).collect();
    for a in &stripes {
        for b in &stripes {
            check(&[&a[..4], &b[..4]], &match_slots(&[&a[..4], &b[..4]]).unwrap());
        }
    }
}

/// Choices of so many of 0..n.
fn choices(n: usize, copies: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![vec![]];
    for _ in 0..copies {
        let longer = |choice: &Vec<usize>| {
            let next = choice.last().map_or(0, |last| last + 1);
            (next..n).map(|one| [&choice[..], &[one]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

proptest! {
    /// Of all choices that are wanted and match, one with the fewest common drives; none only if
    /// there is none.
    #[test]
    fn the_best_wanted_choice_is_found(
        candidates in prop::collection::vec(stripe(3, 7), 4..7),
        copies in 2usize..4,
        shunned in 0u16..7,
    ) {
        let wanted = |stripes: &[&[DriveIndex]], _: &[Slot]| {
            stripes.iter().all(|stripe| !stripe.contains(&DriveIndex(shunned)))
        };
        let data = |choice: &[usize]| -> Vec<&[DriveIndex]> {
            choice.iter().map(|at| &candidates[*at][..2]).collect()
        };
        let suits = |choice: &Vec<usize>| {
            let stripes = data(choice);
            match_slots(&stripes).is_some_and(|slots| wanted(&stripes, &slots))
        };
        let shared = |choice: &Vec<usize>| -> usize {
            choices(copies, 2)
                .iter()
                .map(|pair| {
                    let (a, b) = (&candidates[choice[pair[0]]], &candidates[choice[pair[1]]]);
                    a.iter().filter(|drive| b.contains(drive)).count()
                })
                .sum()
        };
        let best = choices(candidates.len(), copies).into_iter().filter(suits);
        let best = best.map(|choice| shared(&choice)).min();
        let found = choose_stripes_where(&candidates, copies, 2, wanted);
        prop_assert_eq!(found.as_ref().map(shared), best);
        if let Some(choice) = found {
            prop_assert!(suits(&choice));
        }
    }
}
