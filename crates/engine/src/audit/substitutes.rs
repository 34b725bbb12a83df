//! Substitutes: each block elsewhere has a block of a spare stripe to itself, on a drive that has
//! no other of its stripe; and spare stripes are there for nothing else.

use std::collections::{BTreeMap, BTreeSet};

use format::{Flbn, StripeId};
use layout::DriveIndex;

use super::report::{Findings, Rule};
use super::tables::Tables;
use crate::space::Kind;

pub fn check(tables: &Tables, findings: &mut Findings) {
    let mut users: BTreeMap<Flbn, u32> = BTreeMap::new();
    for &((stripe, position), block) in &tables.space.substitutes {
        *users.entry(block).or_default() += 1;
        let name = || format!("block {position} of {}", tables.stripe_name(stripe));
        let held = tables.kind(stripe).is_some_and(|kind| !kind.is_free() && kind != Kind::Spare);
        findings.check(held, Rule::Substitutes, || format!("{} has a substitute", name()));
        let spare = tables.spare_of(block).is_some_and(|(spare, at)| {
            let taken = tables.space.spares.binary_search_by_key(&spare, |(stripe, _)| *stripe);
            taken.is_ok_and(|found| tables.space.spares[found].1.has(at))
        });
        findings.check(spare, Rule::Substitutes, || {
            format!("{} is said to be at {block}, which is not a given block", name())
        });
    }
    for (block, times) in users {
        let left = tables.space.left.contains(&block);
        findings.check(times == 1 && !left, Rule::Substitutes, || {
            format!(
                "{block} has {times} users, and {}",
                if left { "is left" } else { "is not left" }
            )
        });
    }
    check_spares(tables, findings);
    check_drives(tables, findings);
}

fn check_spares(tables: &Tables, findings: &mut Findings) {
    let kinds =
        tables.stripes().filter(|(stripe, zone)| zone.kinds[stripe.index as usize] == Kind::Spare);
    let kinds: BTreeSet<StripeId> = kinds.map(|(stripe, _)| stripe).collect();
    let listed: BTreeSet<StripeId> =
        tables.space.spares.iter().map(|(stripe, _)| *stripe).collect();
    findings.check(kinds == listed, Rule::Substitutes, || {
        format!("spare stripes are {listed:?}, and by their kinds {kinds:?}")
    });
    let open: Vec<Flbn> = tables.space.open.iter().flatten().copied().collect();
    let distinct: BTreeSet<&Flbn> = open.iter().collect();
    findings.check(distinct.len() == open.len(), Rule::Substitutes, || {
        "an open block is listed twice".into()
    });
    for block in open {
        let free = tables.spare_of(block).is_some_and(|(spare, at)| {
            tables.space.spares.iter().any(|(stripe, taken)| *stripe == spare && !taken.has(at))
        });
        findings.check(free, Rule::Substitutes, || format!("{block} is open, and is not free"));
    }
}

/// Blocks of a RAID stripe are on different drives wherever they are; so are copies of a slot.
fn check_drives(tables: &Tables, findings: &mut Findings) {
    let stripes: BTreeSet<StripeId> =
        tables.space.substitutes.iter().map(|((stripe, _), _)| *stripe).collect();
    for &stripe in &stripes {
        let Some((_, class)) = tables.zone(stripe) else { continue };
        if tables.kind(stripe) != Some(Kind::Raid) {
            continue;
        }
        let drive = |at| tables.address(class, stripe, at).drive;
        let drives: BTreeSet<DriveIndex> = (0..class.width()).map(drive).collect();
        findings.check(drives.len() == class.width(), Rule::Substitutes, || {
            format!("{} has two blocks on one drive", tables.stripe_name(stripe))
        });
    }
    for (key, tuple) in &tables.space.tuples {
        if !tuple.stripes.iter().any(|stripe| stripes.contains(stripe)) {
            continue;
        }
        let Some((_, class)) = tables.zone(*key) else { continue };
        for (slot, positions) in tuple.slots.iter().enumerate() {
            // Conversion gives the block of a slot that nobody wrote to the drive it needs.
            if tuple.filled[slot] == 0 {
                continue;
            }
            let position = |copy: usize| match copy {
                0 => slot,
                _ => usize::from(positions[copy - 1]),
            };
            let copies = tuple.stripes.iter().enumerate();
            let drive = |(copy, &stripe): (usize, &StripeId)| {
                tables.address(class, stripe, position(copy)).drive
            };
            let drives: BTreeSet<DriveIndex> = copies.map(drive).collect();
            findings.check(drives.len() == tuple.stripes.len(), Rule::Substitutes, || {
                let name = tables.stripe_name(*key);
                format!("slot {slot} of the tuple of {name} has two copies on one drive")
            });
        }
    }
}
