//! What a write of a part of a stripe reads first.
//!
//! ```text
//!  data      [  . | new | new |  .  ]      hull: the bytes of a chunk from the first to the
//!  modify      reads the old new pieces and the old parity       last that change
//!  rebuild     reads what of the hull is not written
//!  recover     reads all that is left of the hull: needed where a lost chunk's old bytes are, or
//!              those of a drive to avoid
//! ```
//! Modify and rebuild give the same parity; whichever reads fewer bytes is taken, on a tie in fewer
//! operations, since the writes are the same. Else modify: its own old bytes may be at hand. Drives
//! to avoid come before bytes: a slow one is not read if the others know, not even where a chunk of
//! its own is written in part (a write across a border of chunks; GC-Steering §III-C).

use std::ops::Range;

use crate::grid::Piece;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All of the hull is written, or there is no parity to follow: nothing is read.
    Full,
    /// Read-modify-write.
    Modify,
    /// Reconstruct-write.
    Rebuild,
    /// Everything that is left, and the lost bytes solved for.
    Recover,
}

/// A read of a member: a data position, or data + 0 for P and data + 1 for Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    pub member: usize,
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub way: Way,
    pub reads: Vec<Read>,
    /// Bytes of the parity chunks that change.
    pub hull: Range<u64>,
}

/// The bytes of a chunk from the first to the last that change.
pub fn hull(pieces: &[Piece]) -> Range<u64> {
    let start = pieces.iter().map(|piece| piece.start).min().expect("a write has pieces");
    let end = pieces.iter().map(|piece| piece.end).max().expect("as above");
    start..end
}

/// Plans a write of `pieces` to a stripe of `data` data and `parity` parity chunks, of which the
/// members `lost` are lost (no more than `parity`), and `avoided` rather not read.
pub fn plan(
    pieces: &[Piece],
    data: usize,
    parity: usize,
    lost: &[usize],
    avoided: &[usize],
) -> Plan {
    let hull = hull(pieces);
    let is_lost = |member: usize| lost.contains(&member);
    let piece_of = |position: usize| pieces.iter().find(|piece| piece.position == position);
    let whole = |member| Read { member, start: hull.start, end: hull.end };

    // What of the hull is not written, chunk by chunk.
    let mut gaps = Vec::new();
    for position in 0..data {
        let written = piece_of(position).map_or(hull.end..hull.end, |p| p.start..p.end);
        for (start, end) in [(hull.start, written.start), (written.end, hull.end)] {
            if start < end {
                gaps.push(Read { member: position, start, end });
            }
        }
    }
    // With no parity left nothing follows from the old bytes.
    let no_parity = (data..data + parity).all(is_lost);
    if gaps.is_empty() || no_parity {
        return Plan { way: Way::Full, reads: Vec::new(), hull };
    }
    let old = pieces.iter().map(|p| Read { member: p.position, start: p.start, end: p.end });
    let parities = (data..data + parity).filter(|&member| !is_lost(member)).map(whole);
    let modify: Vec<Read> = old.chain(parities).collect();

    let possible = |reads: &[Read]| reads.iter().all(|read| !is_lost(read.member));
    let cost = |reads: &[Read]| {
        let bytes: u64 = reads.iter().map(|read| read.end - read.start).sum();
        let slow = reads.iter().filter(|read| avoided.contains(&read.member)).count();
        (slow, bytes, reads.len())
    };
    let (can_modify, can_rebuild) = (possible(&modify), possible(&gaps));
    let (way, reads) = match (can_modify, can_rebuild) {
        (_, true) if !can_modify || cost(&gaps) < cost(&modify) => (Way::Rebuild, gaps),
        (true, _) => (Way::Modify, modify),
        _ => {
            let left = (0..data + parity).filter(|&member| !is_lost(member)).map(whole);
            (Way::Recover, left.collect())
        }
    };
    if cost(&reads).0 > 0 {
        let others = around(data, parity, |at| is_lost(at) || avoided.contains(&at));
        if let Some(others) = others {
            let reads = others.into_iter().map(whole).collect();
            return Plan { way: Way::Recover, reads, hull };
        }
    }
    Plan { way, reads, hull }
}

/// As many members as there is data, without those that are not to be read: data, then parity. None
/// if there are too few.
fn around(data: usize, parity: usize, unread: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
    let members: Vec<usize> = (0..data + parity).filter(|&at| !unread(at)).take(data).collect();
    (members.len() == data).then_some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(position: usize, start: u64, end: u64) -> Piece {
        Piece { position, start, end }
    }

    fn members(plan: &Plan) -> Vec<usize> {
        plan.reads.iter().map(|read| read.member).collect()
    }

    #[test]
    fn a_small_write_reads_itself_and_the_parity() {
        let plan = plan(&[piece(1, 0, 4096)], 6, 1, &[], &[]);
        assert_eq!((plan.way, members(&plan)), (Way::Modify, vec![1, 6]));
        let plan = super::plan(&[piece(1, 0, 4096)], 6, 2, &[], &[]);
        assert_eq!((plan.way, members(&plan)), (Way::Modify, vec![1, 6, 7]));
    }

    #[test]
    fn a_wide_write_reads_the_rest() {
        let most: Vec<Piece> = (0..4).map(|at| piece(at, 0, 65536)).collect();
        let plan = plan(&most, 6, 1, &[], &[]);
        assert_eq!((plan.way, members(&plan)), (Way::Rebuild, vec![4, 5]));
        let all: Vec<Piece> = (0..6).map(|at| piece(at, 0, 65536)).collect();
        assert_eq!(super::plan(&all, 6, 1, &[], &[]).way, Way::Full);
    }

    #[test]
    fn two_drives_of_three_are_read_either_way() {
        // One read for the neighbour instead of two for itself and the parity.
        let plan = plan(&[piece(0, 0, 4096)], 2, 1, &[], &[]);
        assert_eq!((plan.way, members(&plan)), (Way::Rebuild, vec![1]));
    }

    #[test]
    fn lost_members_are_not_read() {
        // The written chunk's drive: the others tell the new parity.
        let own = plan(&[piece(1, 0, 4096)], 4, 1, &[1], &[]);
        assert_eq!((own.way, members(&own)), (Way::Rebuild, vec![0, 2, 3]));
        // Another data drive: only modify works, whatever it costs.
        let most: Vec<Piece> = (0..3).map(|at| piece(at, 0, 4096)).collect();
        let other = plan(&most, 4, 1, &[3], &[]);
        assert_eq!((other.way, members(&other)), (Way::Modify, vec![0, 1, 2, 4]));
        // P: there is nothing to keep current but Q.
        let parity = plan(&[piece(1, 0, 4096)], 6, 2, &[6], &[]);
        assert_eq!((parity.way, members(&parity)), (Way::Modify, vec![1, 7]));
        // All parity.
        let none = plan(&[piece(1, 0, 4096)], 6, 2, &[6, 7], &[]);
        assert_eq!((none.way, members(&none)), (Way::Full, vec![]));
        // The written one and another: all that is left.
        let both = plan(&[piece(1, 0, 4096)], 4, 2, &[1, 2], &[]);
        assert_eq!((both.way, members(&both)), (Way::Recover, vec![0, 3, 4, 5]));
    }

    #[test]
    fn a_drive_to_avoid_is_not_read_if_the_others_know() {
        // Its own old bytes, or the parity: the rest of the stripe tells the same, if for more.
        for slow in [1, 6] {
            let round = plan(&[piece(1, 0, 4096)], 6, 1, &[], &[slow]);
            assert_eq!((round.way, members(&round)), (Way::Rebuild, vec![0, 2, 3, 4, 5]));
        }
        let other = plan(&[piece(1, 0, 4096)], 6, 1, &[], &[0]);
        assert_eq!((other.way, members(&other)), (Way::Modify, vec![1, 6]));
        // It is to be written in part, over a border of chunks: modify reads its old bytes, rebuild
        // what lies beside them.
        let border = [piece(0, 61440, 65536), piece(1, 0, 4096)];
        let around = plan(&border, 4, 1, &[], &[0]);
        assert_eq!((around.way, members(&around)), (Way::Recover, vec![1, 2, 3, 4]));
        let two = plan(&border, 4, 2, &[3], &[1]);
        assert_eq!((two.way, members(&two)), (Way::Recover, vec![0, 2, 4, 5]));
        // Nobody else can tell.
        let lost = plan(&[piece(1, 0, 4096)], 4, 1, &[3], &[4]);
        assert_eq!((lost.way, members(&lost)), (Way::Modify, vec![1, 4]));
    }

    proptest::proptest! {
        /// As long as parity bears that they are lost: whatever is written.
        #[test]
        fn drives_to_avoid_are_read_only_if_the_others_cannot_tell(
            (data, parity) in (1_usize..8, 1_usize..3),
            ends in proptest::collection::vec((0..64_u64, 0..64_u64), 7),
            unread in proptest::collection::btree_set((0..9_usize, proptest::bool::ANY), 0..4),
        ) {
            let own = ends.iter().take(data).enumerate();
            let pieces: Vec<Piece> = own
                .filter(|(_, (start, end))| start < end)
                .map(|(position, &(start, end))| piece(position, start, end))
                .collect();
            let of = |wanted| {
                let own = unread.iter().filter(|(at, lost)| *at < data + parity && *lost == wanted);
                own.map(|(at, _)| *at).collect::<Vec<_>>()
            };
            let (lost, avoided) = (of(true), of(false));
            let either: std::collections::BTreeSet<usize> =
                lost.iter().chain(&avoided).copied().collect();
            proptest::prop_assume!(!pieces.is_empty() && lost.len() <= parity);
            let plan = plan(&pieces, data, parity, &lost, &avoided);
            let is_read = |at: &usize| plan.reads.iter().any(|read| read.member == *at);
            proptest::prop_assert!(!lost.iter().any(is_read));
            if either.len() <= parity {
                proptest::prop_assert!(!avoided.iter().any(is_read), "{:?}", plan);
            }
        }
    }

    #[test]
    fn pieces_of_different_bytes_share_a_hull() {
        let plan = plan(&[piece(0, 60000, 65536), piece(1, 0, 4096)], 2, 1, &[], &[]);
        assert_eq!(plan.hull, 0..65536);
        let reads: Vec<_> = plan.reads.iter().map(|r| (r.member, r.start, r.end)).collect();
        // Old bytes and the parity between them; what is not written is twice as much.
        assert_eq!(reads, [(0, 60000, 65536), (1, 0, 4096), (2, 0, 65536)]);
    }
}
