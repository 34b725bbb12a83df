//! Recomputing lost members of a stripe from the others.
//!
//! Let S be the sum of the present data, T its weighted sum (in both, lost data count as zero).
//!
//! ```text
//! lost x, P there:    x = P + S
//! lost x, not P:      x = (Q + T) / g^x
//! lost x and y:       x + y = P + S   and   g^x x + g^y y = Q + T
//!                     =>  y = (Q + T + g^x (P + S)) / (g^x + g^y),   x = P + S + y
//! ```
//!
//! Lost parity then is the sums with the recomputed data put in.

use std::ops::Range;

use super::{TILE, gf256, q_accumulate, sum, sums, xor_into};
use crate::error::LayoutError;
use crate::geometry::StripeShape;

/// Stands in for lost data.
static ZEROES: [u8; TILE] = [0; TILE];

/// Recomputes missing members. `members` are the w blocks in stripe order (data, then P, then Q),
/// None where one is lost or wasn't read; at most p may be. `wanted` names the members to recompute
/// and where they go; a member that is missing but not wanted may be left out.
pub fn reconstruct(
    shape: StripeShape,
    members: &[Option<&[u8]>],
    wanted: &mut [(usize, &mut [u8])],
) -> Result<(), LayoutError> {
    let length = check(shape, members, wanted)?;
    let plan = Plan::new(shape, members, wanted);
    let mut tile = Tile::new();
    let mut data = Vec::with_capacity(shape.data());
    for start in (0..length).step_by(TILE) {
        let range = start..length.min(start + TILE);
        data.clear();
        data.extend(members[..shape.data()].iter().map(|member| match member {
            Some(bytes) => &bytes[range.clone()],
            None => &ZEROES[..range.len()],
        }));
        let parity = members[shape.data()..].iter().map(|m| m.map(|bytes| &bytes[range.clone()]));
        tile.solve(&plan, &data, parity);
        for (member, out) in wanted.iter_mut() {
            out[range.clone()].copy_from_slice(tile.member(&plan, *member, 0..range.len()));
        }
    }
    Ok(())
}

/// What has to be done for every tile.
struct Plan {
    data: usize,
    /// Lost data positions, in order.
    lost: Vec<usize>,
    /// Whether T is used: without it recovery is a plain XOR.
    weighted: bool,
    /// Whether the lost data must be put into the sums, for a lost parity block.
    parity_wanted: bool,
}

impl Plan {
    fn new(shape: StripeShape, members: &[Option<&[u8]>], wanted: &[(usize, &mut [u8])]) -> Self {
        let data = shape.data();
        let lost: Vec<usize> = (0..data).filter(|i| members[*i].is_none()).collect();
        let by_q = lost.len() == 2 || lost.len() == 1 && members[data].is_none();
        let weighted = by_q || wanted.iter().any(|(member, _)| *member == data + 1);
        let parity_wanted = wanted.iter().any(|(member, _)| *member >= data);
        Self { data, lost, weighted, parity_wanted }
    }
}

/// Working memory of one tile; made once a call.
struct Tile {
    p: [u8; TILE],
    q: [u8; TILE],
    x: [u8; TILE],
    y: [u8; TILE],
}

impl Tile {
    fn new() -> Self {
        Self { p: [0; TILE], q: [0; TILE], x: [0; TILE], y: [0; TILE] }
    }

    fn solve<'a>(
        &mut self,
        plan: &Plan,
        data: &[&[u8]],
        mut parity: impl Iterator<Item = Option<&'a [u8]>>,
    ) {
        let len = data[0].len();
        let (p, q) = (&mut self.p[..len], &mut self.q[..len]);
        let (x, y) = (&mut self.x[..len], &mut self.y[..len]);
        match plan.weighted {
            true => sums(data, p, q),
            false => sum(data, p),
        }
        let there = (parity.next().flatten(), parity.next().flatten());
        match (plan.lost.as_slice(), there) {
            ([], _) => {}
            ([_], (Some(known), _)) => {
                x.copy_from_slice(known);
                xor_into(x, p);
            }
            ([at], (None, Some(known))) => {
                y.copy_from_slice(known);
                xor_into(y, q);
                scale(x, gf256::inverse(gf256::power(*at)), y);
            }
            ([at, other], (Some(known), Some(weighted))) => {
                x.copy_from_slice(known);
                xor_into(x, p);
                solve_two([*at, *other], x, y, q, weighted);
            }
            _ => unreachable!("`check` lets no more members be missing than there is parity"),
        }
        if plan.parity_wanted {
            for (at, value) in plan.lost.iter().zip([x, y]) {
                xor_into(p, value);
                if plan.weighted {
                    q_accumulate(q, *at, value);
                }
            }
        }
    }

    fn member(&self, plan: &Plan, member: usize, range: Range<usize>) -> &[u8] {
        if member >= plan.data {
            return if member == plan.data { &self.p[range] } else { &self.q[range] };
        }
        if plan.lost[0] == member { &self.x[range] } else { &self.y[range] }
    }
}

/// Two lost data blocks. On entry `x` is P + S and `q` is T; on return `x` and `y` are the blocks.
fn solve_two(at: [usize; 2], x: &mut [u8], y: &mut [u8], q: &[u8], known_q: &[u8]) {
    let [gx, gy] = at.map(gf256::power);
    let divisor = gf256::inverse(gx ^ gy);
    // y = (Q + T) / (g^x + g^y) + (P + S) * g^x / (g^x + g^y)
    let mut difference = [0; TILE];
    let difference = &mut difference[..q.len()];
    difference.copy_from_slice(known_q);
    xor_into(difference, q);
    scale(y, divisor, difference);
    super::kernels::multiply_add(y, gf256::multiply(gx, divisor), x);
    xor_into(x, y);
}

/// `dst = constant * source`
fn scale(dst: &mut [u8], constant: u8, source: &[u8]) {
    dst.fill(0);
    super::kernels::multiply_add(dst, constant, source);
}

/// Checks that the request can be served; answers the blocks' length.
fn check(
    shape: StripeShape,
    members: &[Option<&[u8]>],
    wanted: &[(usize, &mut [u8])],
) -> Result<usize, LayoutError> {
    if members.len() != shape.width() {
        return Err(LayoutError::MemberCount { members: members.len(), width: shape.width() });
    }
    let missing = members.iter().filter(|m| m.is_none()).count();
    if missing > shape.parity() {
        return Err(LayoutError::TooManyMissing { missing, parity: shape.parity() });
    }
    for (i, (member, _)) in wanted.iter().enumerate() {
        let twice = wanted[..i].iter().any(|(other, _)| other == member);
        if twice || !matches!(members.get(*member), Some(None)) {
            return Err(LayoutError::NotMissing { member: *member });
        }
    }
    check_lengths(members, wanted)
}

fn check_lengths(
    members: &[Option<&[u8]>],
    wanted: &[(usize, &mut [u8])],
) -> Result<usize, LayoutError> {
    let present = members.iter().enumerate().filter_map(|(i, m)| m.map(|m| (i, m.len())));
    let lengths = present.chain(wanted.iter().map(|(member, out)| (*member, out.len())));
    let expected = lengths.clone().next().map_or(0, |(_, length)| length);
    for (member, length) in lengths {
        if length != expected {
            return Err(LayoutError::MemberLength { member, length, expected });
        }
    }
    Ok(expected)
}
