//! One page of every block of a stripe, or of every copy of a slot: what should be there, from what
//! was read and what the sums say. Pure.

use io::{Buf, BufMut, PAGE};
use layout::StripeShape;

use crate::sums::sum_of;

/// What is known of the members' pages.
#[derive(Debug)]
pub struct Solved {
    /// What each should hold, where that is known.
    pub pages: Vec<Option<Buf>>,
    /// Members that hold something else.
    pub wrong: Vec<usize>,
}

fn is_good(page: &Buf, sum: u32) -> bool {
    sum == 0 || sum_of(page) == sum
}

/// Copies of one page. Without a sum any of them is as good as another.
pub fn solve_copies(sum: u32, seen: &[Option<Buf>]) -> Solved {
    let good = seen.iter().flatten().find(|page| is_good(page, sum)).cloned();
    let wrong = |page: &Option<Buf>| match (page, &good) {
        (Some(page), Some(good)) => page[..] != good[..],
        (Some(_), None) => true,
        (None, _) => false,
    };
    let wrong = (0..seen.len()).filter(|&at| wrong(&seen[at])).collect();
    Solved { pages: vec![good; seen.len()], wrong }
}

/// A row of a stripe: `sums` of its data pages, `seen` of data and parity. Data that is wrong
/// counts as missing. What has no sum (parity, data that nobody reads any more) may be wrong as
/// well: if what is computed is not what the sums say, and parity bears it, it is computed
/// without each of those in turn.
pub fn solve_row(shape: StripeShape, sums: &[u32], seen: &[Option<Buf>]) -> Solved {
    let data = shape.data();
    let mut pages: Vec<Option<Buf>> = seen.to_vec();
    for (page, &sum) in pages.iter_mut().zip(sums) {
        if page.as_ref().is_some_and(|page| !is_good(page, sum)) {
            *page = None;
        }
    }
    let missing: Vec<usize> = (0..data).filter(|&at| pages[at].is_none()).collect();
    let unsure = (0..seen.len()).filter(|&at| at >= data || sums[at] == 0);
    let without: Vec<Option<usize>> =
        std::iter::once(None).chain(unsure.filter(|&at| pages[at].is_some()).map(Some)).collect();
    let found = (!missing.is_empty())
        .then(|| without.iter().find_map(|&left| computed(shape, sums, &pages, &missing, left)))
        .flatten();
    for (at, page) in found.into_iter().flatten() {
        pages[at] = Some(page);
    }
    if let Some(blocks) = pages[..data].iter().cloned().collect::<Option<Vec<Buf>>>() {
        let parity = parity_pages(shape, &blocks);
        pages.truncate(data);
        pages.extend(parity.into_iter().map(Some));
    }
    let differs = |at: usize| match (&seen[at], &pages[at]) {
        (Some(seen), Some(page)) => seen[..] != page[..],
        // It is not what it should be, and what that is nobody knows.
        (Some(_), None) => true,
        (None, _) => false,
    };
    let wrong = (0..seen.len()).filter(|&at| differs(at)).collect();
    Solved { pages, wrong }
}

/// The missing data pages, and the one that is left out, if what comes out is as the sums say.
fn computed(
    shape: StripeShape,
    sums: &[u32],
    pages: &[Option<Buf>],
    missing: &[usize],
    left: Option<usize>,
) -> Option<Vec<(usize, Buf)>> {
    let mut views: Vec<Option<&[u8]>> = pages.iter().map(|page| page.as_deref()).collect();
    let mut wanted = missing.to_vec();
    if let Some(left) = left {
        views[left] = None;
        wanted.extend((left < shape.data()).then_some(left));
    }
    let mut out: Vec<(usize, BufMut)> =
        wanted.into_iter().map(|at| (at, BufMut::with_len(PAGE))).collect();
    let mut places: Vec<(usize, &mut [u8])> =
        out.iter_mut().map(|(at, page)| (*at, &mut page[..])).collect();
    layout::parity::reconstruct(shape, &views, &mut places).ok()?;
    let out: Vec<(usize, Buf)> = out.into_iter().map(|(at, page)| (at, page.freeze())).collect();
    out.iter().all(|(at, page)| is_good(page, sums[*at])).then_some(out)
}

fn parity_pages(shape: StripeShape, data: &[Buf]) -> Vec<Buf> {
    let views: Vec<&[u8]> = data.iter().map(|page| &page[..]).collect();
    let count = shape.width() - shape.data();
    let mut parity: Vec<BufMut> = (0..count).map(|_| BufMut::with_len(PAGE)).collect();
    let mut places: Vec<&mut [u8]> = parity.iter_mut().map(|page| &mut page[..]).collect();
    layout::parity::compute(&views, &mut places);
    parity.into_iter().map(BufMut::freeze).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What becomes of a member of a sound stripe.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Harm {
        None,
        Gone,
        Flipped,
    }

    fn shapes() -> impl Strategy<Value = StripeShape> {
        (1..=2_u8, 2..5_u16).prop_map(|(p, k)| StripeShape::new(k + u16::from(p), p).unwrap())
    }

    fn harms() -> impl Strategy<Value = Vec<Harm>> {
        let harm =
            prop_oneof![3 => Just(Harm::None), 1 => Just(Harm::Gone), 1 => Just(Harm::Flipped)];
        proptest::collection::vec(harm, 6)
    }

    fn sound(shape: StripeShape, seed: u8) -> Vec<Buf> {
        let page = |at: usize| {
            let bytes: Vec<u8> =
                (0..PAGE).map(|byte| (byte * (at + 3) + byte / 251) as u8 ^ seed).collect();
            Buf::from_slice(&bytes)
        };
        let mut pages: Vec<Buf> = (0..shape.data()).map(page).collect();
        pages.extend(parity_pages(shape, &pages));
        pages
    }

    fn harmed(page: &Buf, harm: Harm) -> Option<Buf> {
        match harm {
            Harm::None => Some(page.clone()),
            Harm::Gone => None,
            Harm::Flipped => {
                let mut bytes = page.to_vec();
                bytes[100] ^= 4;
                Some(Buf::from_slice(&bytes))
            }
        }
    }

    proptest! {
        /// As long as no more members are harmed than parity bears all is found, and who is wrong;
        /// beyond that nothing that is found is false.
        #[test]
        fn a_row_is_made_whole(shape in shapes(), harms in harms(), seed: u8) {
            let pages = sound(shape, seed);
            let sums: Vec<u32> = pages[..shape.data()].iter().map(|page| sum_of(page)).collect();
            let harms = &harms[..shape.width()];
            let seen: Vec<Option<Buf>> =
                pages.iter().zip(harms).map(|(page, &harm)| harmed(page, harm)).collect();
            let solved = solve_row(shape, &sums, &seen);
            let harmed = harms.iter().filter(|harm| **harm != Harm::None).count();
            for (at, page) in solved.pages.iter().enumerate().take(shape.data()) {
                let right = page.as_ref().is_none_or(|page| page[..] == pages[at][..]);
                prop_assert!(right, "page {} is invented", at);
                prop_assert!(page.is_some() || harmed > shape.width() - shape.data());
            }
            if harmed <= shape.width() - shape.data() {
                let flipped: Vec<usize> =
                    (0..shape.width()).filter(|&at| harms[at] == Harm::Flipped).collect();
                prop_assert_eq!(&solved.wrong, &flipped);
                for (found, page) in solved.pages.iter().zip(&pages) {
                    prop_assert_eq!(found.as_deref(), Some(&page[..]));
                }
            }
        }

        /// Data without a sum that is wrong is found out if it must not be trusted.
        #[test]
        fn what_has_no_sum_is_doubted(seed: u8, unsure in 0..3_usize, lost in 0..3_usize) {
            prop_assume!(unsure != lost);
            let shape = StripeShape::new(5, 2).unwrap();
            let pages = sound(shape, seed);
            let mut sums: Vec<u32> = pages[..3].iter().map(|page| sum_of(page)).collect();
            sums[unsure] = 0;
            let mut seen: Vec<Option<Buf>> = pages.iter().cloned().map(Some).collect();
            seen[unsure] = harmed(&pages[unsure], Harm::Flipped);
            seen[lost] = None;
            let solved = solve_row(shape, &sums, &seen);
            prop_assert_eq!(solved.pages[lost].as_deref(), Some(&pages[lost][..]));
            prop_assert_eq!(solved.wrong, vec![unsure]);
        }

        #[test]
        fn one_good_copy_is_enough(harms in harms(), copies in 2..4_usize, seed: u8) {
            let page = &sound(StripeShape::new(3, 1).unwrap(), seed)[0];
            let harms = &harms[..copies];
            let seen: Vec<Option<Buf>> = harms.iter().map(|&harm| harmed(page, harm)).collect();
            let solved = solve_copies(sum_of(page), &seen);
            let good = harms.contains(&Harm::None);
            for (at, found) in solved.pages.iter().enumerate() {
                prop_assert_eq!(found.as_deref(), good.then_some(&page[..]));
                prop_assert_eq!(solved.wrong.contains(&at), harms[at] == Harm::Flipped);
            }
        }
    }
}
