//! Parity against an oracle that works byte by byte, for every pattern of missing members.

use layout::{LayoutError, StripeShape, parity};
use proptest::prelude::*;

/// Multiplication in GF(2^8) as in the textbook: long multiplication, then long division.
fn multiply(a: u8, b: u8) -> u8 {
    let product = (0..8).filter(|i| b >> i & 1 == 1).fold(0u16, |sum, i| sum ^ (u16::from(a) << i));
    (8..15).rev().fold(product, |p, i| if p >> i & 1 == 1 { p ^ (0x11d << (i - 8)) } else { p })
        as u8
}

fn power(exponent: usize) -> u8 {
    (0..exponent).fold(1, |value, _| multiply(value, 2))
}

/// Q, and P if the weights are all one.
fn oracle(data: &[Vec<u8>], weight: impl Fn(usize) -> u8) -> Vec<u8> {
    let weights: Vec<u8> = (0..data.len()).map(weight).collect();
    let byte =
        |at: usize| data.iter().zip(&weights).fold(0, |sum, (d, w)| sum ^ multiply(d[at], *w));
    (0..data[0].len()).map(byte).collect()
}

/// Bytes without a pattern, from a seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// All members of a stripe, parity computed by the crate.
fn stripe(shape: StripeShape, seed: u64, len: usize) -> Vec<Vec<u8>> {
    let mut members: Vec<Vec<u8>> =
        (0..shape.data()).map(|i| noise(seed * 300 + i as u64, len)).collect();
    let mut parity = vec![vec![0xee; len]; shape.parity()];
    let data: Vec<&[u8]> = members.iter().map(Vec::as_slice).collect();
    parity::compute(&data, &mut parity.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
    members.extend(parity);
    members
}

/// Takes `missing` away and asks for `wanted` back.
fn check(shape: StripeShape, members: &[Vec<u8>], missing: &[usize], wanted: &[usize]) {
    let left: Vec<Option<&[u8]>> = members
        .iter()
        .enumerate()
        .map(|(i, m)| (!missing.contains(&i)).then_some(m.as_slice()))
        .collect();
    let mut outs = vec![vec![0x55; members[0].len()]; wanted.len()];
    let mut request: Vec<(usize, &mut [u8])> =
        wanted.iter().copied().zip(outs.iter_mut().map(Vec::as_mut_slice)).collect();
    parity::reconstruct(shape, &left, &mut request).unwrap();
    for (member, out) in wanted.iter().zip(&outs) {
        assert!(*out == members[*member], "{shape}: member {member} with {missing:?} missing");
    }
}

fn check_every_pattern(shape: StripeShape, seed: u64, len: usize) {
    let members = stripe(shape, seed, len);
    for a in 0..shape.width() {
        check(shape, &members, &[a], &[a]);
        for b in (0..shape.width()).filter(|b| shape.parity() == 2 && *b != a) {
            check(shape, &members, &[a, b], &[a, b]);
            check(shape, &members, &[a, b], &[b]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn compute_agrees_with_the_oracle(k in 1usize..40, seed: u64, len in 1usize..9000) {
        let shape = StripeShape::new(k as u16 + 2, 2).unwrap();
        let members = stripe(shape, seed % 1000, len);
        prop_assert!(members[k] == oracle(&members[..k], |_| 1));
        prop_assert!(members[k + 1] == oracle(&members[..k], power));
        let single = StripeShape::new(k as u16 + 1, 1).unwrap();
        prop_assert!(stripe(single, seed % 1000, len)[k] == members[k]);
    }

    #[test]
    fn accumulating_agrees_with_the_oracle(
        position in 0usize..255, seed: u64, len in 0usize..9000
    ) {
        let (before, data) = (noise(seed, len), noise(seed ^ 1, len));
        let (mut p, mut q) = (before.clone(), before.clone());
        parity::xor_into(&mut p, &data);
        parity::q_accumulate(&mut q, position, &data);
        let factor = power(position);
        for i in 0..len {
            prop_assert_eq!(p[i], before[i] ^ data[i]);
            prop_assert_eq!(q[i], before[i] ^ multiply(factor, data[i]));
        }
    }
}

#[test]
fn every_pattern_of_missing_members_is_recomputed() {
    for k in 1..=10 {
        for (parity, len) in [(1, 4097), (2, 100), (2, 5000)] {
            check_every_pattern(StripeShape::new(k + parity, parity as u8).unwrap(), 7, len);
        }
    }
}

#[test]
fn the_widest_stripe_is_recomputed() {
    let shape = StripeShape::new(256, 2).unwrap();
    let members = stripe(shape, 3, 300);
    assert!(members[255] == oracle(&members[..254], power));
    for a in (0..256).step_by(5).chain([253, 254, 255]) {
        for b in (0..256).step_by(7).chain([253, 254, 255]).filter(|b| *b != a) {
            check(shape, &members, &[a, b], &[b, a]);
        }
    }
    check_every_pattern(StripeShape::new(256, 1).unwrap(), 4, 70);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let shape = StripeShape::new(5, 2).unwrap();
    let block = [1u8; 16];
    let refuse = |members: &[Option<&[u8]>], wanted: &[usize], len: usize| {
        let mut outs = vec![vec![0; len]; wanted.len()];
        let mut request: Vec<(usize, &mut [u8])> =
            wanted.iter().copied().zip(outs.iter_mut().map(Vec::as_mut_slice)).collect();
        parity::reconstruct(shape, members, &mut request).unwrap_err()
    };
    let (here, gone) = (Some(&block[..]), None);
    let one_lost = [here, gone, here, here, here];
    assert_eq!(refuse(&[here; 4], &[], 16), LayoutError::MemberCount { members: 4, width: 5 });
    let missing = LayoutError::TooManyMissing { missing: 3, parity: 2 };
    assert_eq!(refuse(&[here, gone, gone, gone, here], &[1], 16), missing);
    assert_eq!(refuse(&one_lost, &[2], 16), LayoutError::NotMissing { member: 2 });
    assert_eq!(refuse(&one_lost, &[9], 16), LayoutError::NotMissing { member: 9 });
    assert_eq!(refuse(&one_lost, &[1, 1], 16), LayoutError::NotMissing { member: 1 });
    let length = LayoutError::MemberLength { member: 1, length: 15, expected: 16 };
    assert_eq!(refuse(&one_lost, &[1], 15), length);
}

#[test]
fn shapes_are_checked() {
    assert_eq!(StripeShape::new(7, 1).unwrap().to_string(), "6+1");
    assert_eq!(StripeShape::new(7, 3), Err(LayoutError::ParityOutOfRange { parity: 3 }));
    assert_eq!(StripeShape::new(7, 0), Err(LayoutError::ParityOutOfRange { parity: 0 }));
    let narrow = LayoutError::WidthUnderParity { width: 2, parity: 2 };
    assert_eq!(StripeShape::new(2, 2), Err(narrow));
    assert_eq!(StripeShape::new(300, 2), Err(LayoutError::WidthOutOfRange { width: 300 }));
}
