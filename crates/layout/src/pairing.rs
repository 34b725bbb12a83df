//! Matching the data blocks of p+1 stripes into slots, for replicated writes (FusionRAID §4.2).
//!
//! A slot is p+1 blocks, one of each stripe, on p+1 different drives. Every data position of every
//! stripe is in exactly one slot, so that after conversion one of the stripes is complete and the
//! others are free:
//!
//! ```text
//!              slot 0  slot 1  slot 2  slot 3
//! stripe 0       A       B       C       D      position = slot
//! stripe 1       B       C       A       E      common drives cycled diagonally: A-B, B-C, C-A
//! ```
//!
//! Everything is deterministic; the order of results is held by a golden test because recovery
//! repeats it.

use crate::geometry::{DRIVES_MAX, DriveIndex};

/// Most stripes of a tuple: p+1 with two parity blocks.
pub const COPIES_MAX: usize = 3;

/// The positions of a slot's blocks, one a stripe; [`NO_POSITION`] beyond the number of stripes.
pub type Slot = [u8; COPIES_MAX];

/// Fills the rest of a [`Slot`] of fewer than three stripes. A stripe has at most 255 data
/// positions, so it's never one.
pub const NO_POSITION: u8 = u8::MAX;

/// Matches the data positions of two or three stripes. `stripes[j]` lists the drives of stripe j's
/// k data positions.
///
/// Slot t uses position t of stripe 0 and `slots[t][j]` of stripe j, all on different drives. None
/// if there is no such matching, which can only be with k below 4.
pub fn match_slots(stripes: &[&[DriveIndex]]) -> Option<Vec<Slot>> {
    assert!((2..=COPIES_MAX).contains(&stripes.len()), "a tuple has 2 or 3 stripes");
    let data = stripes[0].len();
    assert!(stripes.iter().all(|s| s.len() == data), "stripes of a tuple have one shape");
    assert!(data <= usize::from(NO_POSITION), "positions must fit a byte");
    let (first, rest) = (stripes[0], &stripes[1..]);
    let second = pair(first, rest[0])?;
    let Some(third) = rest.get(1) else {
        return Some(slots(&[&second]));
    };
    if let Some(third) = add_third(first, rest[0], &second, third) {
        return Some(slots(&[&second, &third]));
    }
    permutations(data).find_map(|second| {
        let fits = (0..data).all(|t| first[t] != rest[0][second[t]]);
        let third = fits.then(|| add_third(first, rest[0], &second, third))??;
        Some(slots(&[&second, &third]))
    })
}

/// The paper's rule for two stripes: common drives are cycled, the others paired in order. For each
/// position of `a` the position of `b`. None only if both are the same single drive.
fn pair(a: &[DriveIndex], b: &[DriveIndex]) -> Option<Vec<usize>> {
    let in_b = places(b);
    let (mut common, mut others): (Vec<usize>, Vec<usize>) =
        (0..a.len()).partition(|t| in_b[a[*t].index()].is_some());
    // A single common drive has nothing to cycle with: take an ordinary position into its cycle.
    if common.len() == 1 {
        common.push(*others.first()?);
        others.remove(0);
    }
    let in_a = places(a);
    let mut free = (0..b.len()).filter(|u| in_a[b[*u].index()].is_none());
    // Where in b each member of the cycle is; the ordinary one, if any, stands for an ordinary
    // position of b.
    let seats: Vec<usize> = common
        .iter()
        .map(|t| in_b[a[*t].index()].or_else(|| free.next()))
        .collect::<Option<_>>()?;
    let mut matched = vec![0; a.len()];
    for (i, t) in common.iter().enumerate() {
        matched[*t] = seats[(i + 1) % seats.len()];
    }
    others.into_iter().zip(free).for_each(|(t, u)| matched[t] = u);
    Some(matched)
}

/// Adds a third stripe to matched pairs, if that can be done without changing them.
///
/// With the pairs fixed, a drive of `c` is barred from at most two slots and a slot bars at most
/// two drives of `c`. From k = 4 on both sides have at least k/2 choices, so Hall's theorem
/// promises a matching.
fn add_third(
    a: &[DriveIndex],
    b: &[DriveIndex],
    b_of: &[usize],
    c: &[DriveIndex],
) -> Option<Vec<usize>> {
    let fits = |slot: usize, pos: usize| c[pos] != a[slot] && c[pos] != b[b_of[slot]];
    let mut owner = vec![None; c.len()];
    for slot in 0..a.len() {
        let mut seen = vec![false; c.len()];
        if !augment(slot, &fits, &mut owner, &mut seen) {
            return None;
        }
    }
    let mut matched = vec![0; a.len()];
    for (pos, slot) in owner.into_iter().enumerate() {
        matched[slot?] = pos;
    }
    Some(matched)
}

/// Gives `slot` a position, moving earlier slots to other positions if need be (an augmenting
/// path). Positions are tried from the slot's own number on, which keeps neighbours together where
/// nothing is in the way.
fn augment(
    slot: usize,
    fits: &impl Fn(usize, usize) -> bool,
    owner: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    let k = owner.len();
    for pos in (slot..k).chain(0..slot) {
        if seen[pos] || !fits(slot, pos) {
            continue;
        }
        seen[pos] = true;
        let free = match owner[pos] {
            None => true,
            Some(other) => augment(other, fits, owner, seen),
        };
        if free {
            owner[pos] = Some(slot);
            return true;
        }
    }
    false
}

/// All permutations of 0..k in lexicographic order, for the k below 4 where the rule of pairs can
/// be a dead end; from 4 on, none are needed.
fn permutations(k: usize) -> impl Iterator<Item = Vec<usize>> {
    const ORDERS: [[usize; 3]; 6] =
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let starts = match k {
        1 => 1,
        2 => 3,
        3 => 6,
        _ => 0,
    };
    // Of the orders of three, those that keep 2 in place are the orders of two, and so on.
    ORDERS[..starts]
        .iter()
        .filter(move |order| (k..3).all(|i| order[i] == i))
        .map(move |order| order[..k].to_vec())
}

fn slots(others: &[&[usize]]) -> Vec<Slot> {
    let slot = |t| {
        let mut slot = [NO_POSITION; COPIES_MAX];
        slot[0] = t as u8;
        others.iter().zip(&mut slot[1..]).for_each(|(stripe, pos)| *pos = stripe[t] as u8);
        slot
    };
    (0..others[0].len()).map(slot).collect()
}

/// Where in a stripe each drive is.
fn places(stripe: &[DriveIndex]) -> Vec<Option<usize>> {
    let mut places = vec![None; DRIVES_MAX];
    for (pos, drive) in stripe.iter().enumerate() {
        places[drive.index()] = Some(pos);
    }
    places
}

/// A set of drives, one bit each.
#[derive(Copy, Clone, Default)]
struct DriveSet([u64; DRIVES_MAX / 64]);

impl DriveSet {
    fn of(drives: &[DriveIndex]) -> Self {
        let mut set = Self::default();
        for drive in drives {
            set.0[drive.index() / 64] |= 1 << (drive.index() % 64);
        }
        set
    }

    fn common(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(a, b)| (a & b).count_ones() as usize).sum()
    }
}

/// Number of drives two stripes have in common.
pub fn common_drives(a: &[DriveIndex], b: &[DriveIndex]) -> usize {
    DriveSet::of(a).common(&DriveSet::of(b))
}

/// Chooses `copies` (2 or 3) of the candidates that have the fewest drives in common, pair by pair,
/// and whose first `data` positions can be matched; the first such choice in order. FusionRAID §4.2
/// draws four random candidates for two copies; six serve for three. Candidates list all drives of
/// a stripe, parity included. None if no choice can be matched.
pub fn choose_stripes<S: AsRef<[DriveIndex]>>(
    candidates: &[S],
    copies: usize,
    data: usize,
) -> Option<Vec<usize>> {
    choose_stripes_where(candidates, copies, data, |_, _| true)
}

/// The same, of the choices that `is_wanted`, which is given the drives of the data positions of
/// the chosen stripes and how these are matched.
pub fn choose_stripes_where<S: AsRef<[DriveIndex]>>(
    candidates: &[S],
    copies: usize,
    data: usize,
    is_wanted: impl Fn(&[&[DriveIndex]], &[Slot]) -> bool,
) -> Option<Vec<usize>> {
    let sets: Vec<DriveSet> = candidates.iter().map(|c| DriveSet::of(c.as_ref())).collect();
    let mut choices: Vec<(usize, Vec<usize>)> = combinations(candidates.len(), copies)
        .into_iter()
        .map(|choice| (shared(&sets, &choice), choice))
        .collect();
    choices.sort();
    let matches = |choice: &[usize]| {
        let stripes: Vec<_> = choice.iter().map(|i| &candidates[*i].as_ref()[..data]).collect();
        match_slots(&stripes).is_some_and(|slots| is_wanted(&stripes, &slots))
    };
    choices.into_iter().map(|(_, choice)| choice).find(|choice| matches(choice))
}

/// Drives in common, summed over all pairs of a choice.
fn shared(sets: &[DriveSet], choice: &[usize]) -> usize {
    let pairs =
        choice.iter().enumerate().flat_map(|(i, a)| choice[..i].iter().map(move |b| (a, b)));
    pairs.map(|(a, b)| sets[*a].common(&sets[*b])).sum()
}

/// All choices of two or three of 0..n, in lexicographic order.
fn combinations(n: usize, copies: usize) -> Vec<Vec<usize>> {
    assert!((2..=COPIES_MAX).contains(&copies), "a tuple has 2 or 3 stripes");
    let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| vec![a, b]));
    if copies == 2 {
        return pairs.collect();
    }
    pairs.flat_map(|p| (p[1] + 1..n).map(move |c| vec![p[0], p[1], c])).collect()
}
