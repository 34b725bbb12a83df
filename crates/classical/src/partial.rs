//! Partial parity: the parity of what a write leaves alone.
//!
//! ```text
//!  stripe     [ a | b | c | P ]   b is written          P = a + b + c
//!  partial    a + c                                      durable in P's drive's log before b or P
//!  new P      a + c + b'
//!
//!  crash in between, and the drive of a lost:   a = (a + c) + c,   whatever b and P came to be
//! ```
//! So the loss of a drive together with the crash costs nothing that was not being written: the
//! write hole is closed. P and Q add up alike, each in its own weights.

use std::ops::Range;

use layout::StripeShape;
use layout::parity::{q_accumulate, reconstruct, xor_into};

use crate::grid::Piece;
use crate::plan::{Plan, Read, Way};

/// Bytes over the hull for each parity member; `None` where its drive is lost.
pub type Parities = Vec<Option<Vec<u8>>>;

/// Adds data bytes at a byte of the hull.
fn add(parities: &mut Parities, position: usize, at: u64, bytes: &[u8]) {
    let range = at as usize..at as usize + bytes.len();
    for (weight, parity) in parities.iter_mut().enumerate() {
        let Some(parity) = parity else { continue };
        match weight {
            0 => xor_into(&mut parity[range.clone()], bytes),
            _ => q_accumulate(&mut parity[range.clone()], position, bytes),
        }
    }
}

/// The partial parity of a planned write, from what the plan read.
pub fn partial(
    plan: &Plan,
    shape: StripeShape,
    lost: &[usize],
    pieces: &[Piece],
    read: &[&[u8]],
) -> Parities {
    let len = (plan.hull.end - plan.hull.start) as usize;
    let alive = |parity: usize| !lost.contains(&(shape.data() + parity));
    let mut parities: Parities =
        (0..shape.parity()).map(|parity| alive(parity).then(|| vec![0; len])).collect();
    let reads = plan.reads.iter().zip(read);
    match plan.way {
        Way::Full => {}
        Way::Rebuild => {
            for (gap, bytes) in reads {
                add(&mut parities, gap.member, gap.start - plan.hull.start, bytes);
            }
        }
        Way::Modify => {
            for (Read { member, start, .. }, bytes) in reads {
                match member.checked_sub(shape.data()) {
                    Some(parity) => {
                        let own = parities[parity].as_mut().expect("lost parity is not read");
                        xor_into(own, bytes);
                    }
                    // Adding what is there takes it out.
                    None => add(&mut parities, *member, start - plan.hull.start, bytes),
                }
            }
        }
        Way::Recover => {
            let columns = recovered(plan, shape, read);
            for (position, column) in columns.iter().enumerate() {
                for gap in unwritten(&plan.hull, pieces, position) {
                    let at = gap.start - plan.hull.start;
                    let bytes = &column[at as usize..(gap.end - plan.hull.start) as usize];
                    add(&mut parities, position, at, bytes);
                }
            }
        }
    }
    parities
}

/// What a piece that was rounded up has beside the bytes that change is left alone, too: so that of
/// a crash with the loss of a drive it comes back as it was.
pub fn with_edges(
    partial: &mut Parities,
    hull: &Range<u64>,
    (wide, exact): (Piece, Piece),
    bytes: &[u8],
) {
    for (start, end) in [(wide.start, exact.start), (exact.end, wide.end)] {
        let own = (start - wide.start) as usize..(end - wide.start) as usize;
        add(partial, wide.position, start - hull.start, &bytes[own]);
    }
}

/// The new parity: new bytes added to the partial one.
pub fn with_new(
    partial: &Parities,
    hull: &Range<u64>,
    new: &[(Piece, impl AsRef<[u8]>)],
) -> Parities {
    let mut parities = partial.clone();
    for (piece, bytes) in new {
        add(&mut parities, piece.position, piece.start - hull.start, bytes.as_ref());
    }
    parities
}

/// Parts of the hull that a chunk's pieces don't write.
fn unwritten(hull: &Range<u64>, pieces: &[Piece], position: usize) -> [Range<u64>; 2] {
    let piece = pieces.iter().find(|piece| piece.position == position);
    let written = piece.map_or(hull.end..hull.end, |piece| piece.start..piece.end);
    [hull.start..written.start, written.end..hull.end]
}

/// All data over the hull, from whole members.
fn recovered(plan: &Plan, shape: StripeShape, read: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut members: Vec<Option<&[u8]>> = vec![None; shape.width()];
    for (read, bytes) in plan.reads.iter().zip(read) {
        members[read.member] = Some(bytes);
    }
    solve(shape, &members)
}

/// The data chunks of a stripe, those that are missing solved for.
pub fn solve(shape: StripeShape, members: &[Option<&[u8]>]) -> Vec<Vec<u8>> {
    let len = members.iter().flatten().next().map_or(0, |bytes| bytes.len());
    let mut columns: Vec<Vec<u8>> = (0..shape.data())
        .map(|at| members[at].map_or_else(|| vec![0; len], <[u8]>::to_vec))
        .collect();
    let missing = |at: &usize| members[*at].is_none();
    let mut wanted: Vec<(usize, &mut [u8])> = columns
        .iter_mut()
        .enumerate()
        .filter(|(at, _)| missing(at))
        .map(|(at, column)| (at, &mut column[..]))
        .collect();
    if !wanted.is_empty() {
        reconstruct(shape, members, &mut wanted).expect("no more is lost than there is parity");
    }
    columns
}

/// What a crash left of a logged write: the right parity over its hull.
///
/// `members`: what each drive holds there now (`None`: lost). `logged`: the partial parity of each
/// parity member whose drive is there. Of lost chunks those that were not being written are
/// solved for exactly; one that was gets the value that the parity on the drives gives it.
pub fn after_crash(
    shape: StripeShape,
    hull: &Range<u64>,
    pieces: &[Piece],
    members: &[Option<&[u8]>],
    logged: &[Option<&[u8]>],
) -> Parities {
    let data = shape.data();
    let alive = members[data..].iter();
    let len = (hull.end - hull.start) as usize;
    let mut parities: Parities = alive.map(|parity| parity.map(|_| vec![0; len])).collect();
    for range in segments(hull, pieces) {
        let at = (range.start - hull.start) as usize..(range.end - hull.start) as usize;
        let cut = |bytes: &Option<&[u8]>| bytes.map(|bytes| bytes[at.clone()].to_vec());
        let mut now: Vec<Option<Vec<u8>>> = members.iter().map(cut).collect();
        let written = |position| pieces.iter().any(|p| p.position == position && p.covers(&range));
        let untouched_lost = (0..data).any(|at| now[at].is_none() && !written(at));
        if untouched_lost {
            let zeroes = vec![0; at.len()];
            let untouched = |(position, now): (usize, &'_ Option<Vec<u8>>)| match written(position)
            {
                true => Some(zeroes.clone()),
                false => now.clone(),
            };
            let columns: Vec<Option<Vec<u8>>> =
                now[..data].iter().enumerate().map(untouched).collect();
            let mut without: Vec<Option<&[u8]>> = columns.iter().map(Option::as_deref).collect();
            without.extend(logged.iter().map(|bytes| bytes.map(|bytes| &bytes[at.clone()])));
            let solved = solve(shape, &without);
            for (position, column) in solved.into_iter().enumerate() {
                if now[position].is_none() && !written(position) {
                    now[position] = Some(column);
                }
            }
        }
        let views: Vec<Option<&[u8]>> = now.iter().map(Option::as_deref).collect();
        for (position, column) in solve(shape, &views).iter().enumerate() {
            add(&mut parities, position, at.start as u64, column);
        }
    }
    parities
}

/// The hull, cut where a piece begins or ends.
pub fn segments(hull: &Range<u64>, pieces: &[Piece]) -> Vec<Range<u64>> {
    let mut cuts = vec![hull.start, hull.end];
    cuts.extend(pieces.iter().flat_map(|piece| [piece.start, piece.end]));
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::plan;

    const CHUNK: usize = 64;

    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        let mut rng = io::rng::Rng::new(seed);
        (0..len).map(|_| rng.below(256) as u8).collect()
    }

    /// A consistent stripe: data, then parity.
    fn stripe(shape: StripeShape, seed: u64) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> =
            (0..shape.data()).map(|at| bytes(seed * 100 + at as u64, CHUNK)).collect();
        let columns: Vec<&[u8]> = all.iter().map(|column| &column[..]).collect();
        let mut parity = vec![vec![0; CHUNK]; shape.parity()];
        let mut out: Vec<&mut [u8]> = parity.iter_mut().map(|parity| &mut parity[..]).collect();
        layout::parity::compute(&columns, &mut out);
        all.extend(parity);
        all
    }

    #[derive(Debug)]
    struct Case {
        shape: StripeShape,
        lost: Vec<usize>,
        avoided: Vec<usize>,
        pieces: Vec<Piece>,
        seed: u64,
    }

    fn cases() -> impl Strategy<Value = Case> {
        let shape = (1usize..3, 2usize..6);
        (shape, any::<u64>(), prop::collection::vec((0u64..64, 0u64..64), 5)).prop_map(
            |((parity, data), seed, ranges)| {
                let shape = StripeShape::new((data + parity) as u16, parity as u8).unwrap();
                let mut rng = io::rng::Rng::new(seed);
                let mut pieces = Vec::new();
                for (position, (a, b)) in ranges.into_iter().take(data).enumerate() {
                    let (start, end) = (a.min(b), a.max(b) + 1);
                    if rng.chance(1, 2) || position == 0 {
                        pieces.push(Piece { position, start, end });
                    }
                }
                let mut lost: Vec<usize> = Vec::new();
                for _ in 0..rng.below(parity as u64 + 1) {
                    let member = rng.index(shape.width());
                    if !lost.contains(&member) {
                        lost.push(member);
                    }
                }
                let avoided = vec![rng.index(shape.width() + 1)];
                Case { shape, lost, avoided, pieces, seed: seed % 1000 }
            },
        )
    }

    fn slice(member: &[u8], start: u64, end: u64) -> &[u8] {
        &member[start as usize..end as usize]
    }

    /// The write, from what a plan may see.
    fn written(case: &Case) -> (Plan, Vec<(Piece, Vec<u8>)>, Parities, Parities) {
        let Case { shape, lost, pieces, seed, .. } = case;
        let before = stripe(*shape, *seed);
        let plan = plan(pieces, shape.data(), shape.parity(), lost, &case.avoided);
        let read: Vec<&[u8]> =
            plan.reads.iter().map(|r| slice(&before[r.member], r.start, r.end)).collect();
        assert!(plan.reads.iter().all(|read| !lost.contains(&read.member)));
        let partial = partial(&plan, *shape, lost, pieces, &read);
        let new: Vec<(Piece, Vec<u8>)> = pieces
            .iter()
            .map(|&piece| (piece, bytes(seed ^ (piece.position as u64 + 7), piece.len() as usize)))
            .collect();
        let parities = with_new(&partial, &plan.hull, &new);
        (plan, new, partial, parities)
    }

    proptest! {
        /// Whatever way is taken, the parity is that of the stripe written whole.
        #[test]
        fn every_way_gives_the_parity_of_the_whole(case in cases()) {
            let (plan, new, _, parities) = written(&case);
            let mut after = stripe(case.shape, case.seed);
            for (piece, bytes) in &new {
                after[piece.position][piece.start as usize..piece.end as usize]
                    .copy_from_slice(bytes);
            }
            let columns: Vec<&[u8]> =
                after[..case.shape.data()].iter().map(|column| &column[..]).collect();
            let mut whole = vec![vec![0; CHUNK]; case.shape.parity()];
            let mut out: Vec<&mut [u8]> = whole.iter_mut().map(|parity| &mut parity[..]).collect();
            layout::parity::compute(&columns, &mut out);
            for (at, parity) in parities.iter().enumerate() {
                prop_assert_eq!(parity.is_none(), case.lost.contains(&(case.shape.data() + at)));
                if let Some(parity) = parity {
                    prop_assert_eq!(
                        &parity[..], slice(&whole[at], plan.hull.start, plan.hull.end));
                }
            }
        }

        /// Of a logged write any part may have reached the drives, byte by byte, and drives may be
        /// lost with the crash: what was not being written is what it was.
        #[test]
        fn a_crash_leaves_alone_what_was_not_being_written(case in cases(), fate in any::<u64>()) {
            let (plan, new, partial, parities) = written(&case);
            let before = stripe(case.shape, case.seed);
            let (data, hull) = (case.shape.data(), plan.hull.clone());
            let mut rng = io::rng::Rng::new(fate);
            let mut disks = before.clone();
            for (piece, bytes) in &new {
                for (at, byte) in bytes.iter().enumerate() {
                    if rng.chance(1, 2) && !case.lost.contains(&piece.position) {
                        disks[piece.position][piece.start as usize + at] = *byte;
                    }
                }
            }
            for (at, parity) in parities.iter().enumerate() {
                for (byte, new) in parity.iter().flatten().enumerate() {
                    if rng.chance(1, 2) {
                        disks[data + at][hull.start as usize + byte] = *new;
                    }
                }
            }
            let mut lost = case.lost.clone();
            while lost.len() < case.shape.parity() {
                lost.push(rng.index(case.shape.width()));
            }
            let alive = |member: usize| !lost.contains(&member);
            let members: Vec<Option<&[u8]>> = (0..case.shape.width())
                .map(|at| alive(at).then(|| slice(&disks[at], hull.start, hull.end)))
                .collect();
            let logged: Vec<Option<&[u8]>> = (0..case.shape.parity())
                .map(|at| partial[at].as_deref().filter(|_| alive(data + at)))
                .collect();
            let healed = after_crash(case.shape, &hull, &case.pieces, &members, &logged);
            for (at, parity) in healed.iter().enumerate() {
                if let Some(parity) = parity {
                    disks[data + at][hull.start as usize..hull.end as usize]
                        .copy_from_slice(parity);
                }
            }
            let views: Vec<Option<&[u8]>> =
                (0..case.shape.width()).map(|at| alive(at).then_some(&disks[at][..])).collect();
            for (position, column) in solve(case.shape, &views).iter().enumerate() {
                let piece = case.pieces.iter().find(|piece| piece.position == position);
                let written = piece.map_or(0..0, |p| p.start as usize..p.end as usize);
                for (byte, value) in column.iter().enumerate() {
                    if !written.contains(&byte) {
                        prop_assert_eq!(*value, before[position][byte], "chunk {}", position);
                    }
                }
            }
        }
    }
}
