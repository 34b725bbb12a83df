//! The data itself: copies of replicated blocks, parity of RAID stripes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use format::StripeId;
use io::{Buf, Env, PAGE, join_all};
use layout::DriveIndex;

use super::map::{Use, Uses};
use super::parity::{difference, parity};
use super::report::{AuditReport, Findings, Rule};
use super::sums;
use super::tables::Tables;
use crate::geometry::{BlockAddress, Class};
use crate::limits::AUDIT_STRIPES_AT_ONCE;
use crate::shard::Shard;
use crate::space::Kind;
use crate::space::image::TupleState;
use crate::tuple::TupleKey;

/// Pages of a block, and a use that makes them live.
type LivePages<'a> = BTreeMap<u32, &'a Use>;

/// Pages that hold something live are the same on all drives.
pub async fn check_copies<E: Env>(
    shard: &Shard<E>,
    tables: &Tables,
    uses: &Uses,
    report: &mut AuditReport,
    findings: &mut Findings,
) {
    let mut work: Vec<(TupleKey, usize, &[Use])> = Vec::new();
    for (flbn, users) in uses {
        let Some((stripe, position, _)) = tables.locate(*flbn) else { continue };
        if tables.kind(stripe) == Some(Kind::Tuple) && tables.tuple(stripe).is_some() {
            work.push((stripe, position, users));
        }
    }
    // After a crash, a pool opened for reading only is not healed.
    let healed = !shard.read_only || shard.labels.get().clean;
    for group in work.chunks(AUDIT_STRIPES_AT_ONCE) {
        let read = |&(key, slot, users): &(TupleKey, usize, &[Use])| {
            let addresses = slot_addresses(tables, key, slot);
            let len = live_pages(users).last_key_value().map_or(0, |(page, _)| page + 1);
            read_all(shard, addresses, len as usize * PAGE)
        };
        let copies = join_all(group.iter().map(read)).await;
        for (&(key, slot, users), copies) in group.iter().zip(copies) {
            let readable: Vec<&(BlockAddress, Buf)> = copies.iter().flatten().collect();
            let compared = readable.len().saturating_sub(1);
            report.copies_skipped += (copies.len() - 1 - compared) as u64;
            if healed {
                report.copies_compared += compared as u64;
                compare(tables, (key, slot), users, &readable, findings);
                check_sums(tables, (key, slot), users, &readable, findings);
            }
        }
    }
}

fn slot_addresses(tables: &Tables, key: TupleKey, slot: usize) -> Vec<BlockAddress> {
    let tuple: &TupleState = tables.tuple(key).expect("chosen because it is there");
    let (_, class) = tables.zone(key).expect("chosen because it is there");
    let numbered = tuple.stripes.iter().enumerate();
    let position = |copy: usize| match copy {
        0 => slot,
        _ => usize::from(tuple.slots[slot][copy - 1]),
    };
    numbered.map(|(copy, &stripe)| tables.address(class, stripe, position(copy))).collect()
}

/// What can be read of some blocks.
async fn read_all<E: Env>(
    shard: &Shard<E>,
    addresses: Vec<BlockAddress>,
    len: usize,
) -> Vec<Option<(BlockAddress, Buf)>> {
    let read = |at: BlockAddress| async move {
        let bytes = shard.array.read(at.drive, at.offset, len).await.ok()?;
        Some((at, bytes))
    };
    join_all(addresses.into_iter().map(read)).await
}

fn live_pages(users: &[Use]) -> LivePages<'_> {
    let pages = |user: &Use| -> Range<u32> { u32::from(user.sector) / 8..user.end().div_ceil(8) };
    users.iter().flat_map(|user| pages(user).map(move |page| (page, user))).collect()
}

fn compare(
    tables: &Tables,
    (key, slot): (TupleKey, usize),
    users: &[Use],
    copies: &[&(BlockAddress, Buf)],
    findings: &mut Findings,
) {
    let Some((first, others)) = copies.split_first() else { return };
    for other in others {
        for (page, user) in live_pages(users) {
            let at = page as usize * PAGE;
            let range = at..at + PAGE;
            let differs = difference(&first.1[range.clone()], &other.1[range]);
            let Some(byte) = differs else { continue };
            findings.add(Rule::Copies, || {
                let volume = tables.volume_name(user.volume);
                let (block, sectors) = (user.block, user.range);
                let (one, two) = (first.0, other.0);
                format!(
                    "{volume} block {block} sectors {sectors}: the copies on drive {} (byte {}) \
                     and drive {} (byte {}) differ; slot {slot} of the tuple of {}",
                    one.drive,
                    one.offset + (at + byte) as u64,
                    two.drive,
                    two.offset + (at + byte) as u64,
                    tables.stripe_name(key)
                )
            });
            break;
        }
    }
}

/// Up to the last live page: what comes after it may be in the middle of being written.
fn check_sums(
    tables: &Tables,
    (key, slot): (TupleKey, usize),
    users: &[Use],
    copies: &[&(BlockAddress, Buf)],
    findings: &mut Findings,
) {
    let (_, class) = tables.zone(key).expect("chosen because it is there");
    for (at, bytes) in copies {
        for page in live_pages(users).into_keys() {
            let page = page as usize;
            let bytes = &bytes[page * PAGE..(page + 1) * PAGE];
            sums::check_page(
                tables,
                &tables.sums,
                class,
                (key, slot, page),
                (*at, bytes),
                findings,
            );
        }
    }
}

/// Parity of every RAID stripe is what its data gives.
pub async fn check_parity<E: Env>(
    shard: &Shard<E>,
    tables: &Tables,
    report: &mut AuditReport,
    findings: &mut Findings,
) {
    let stripes: Vec<(StripeId, &Rc<Class>)> = tables
        .stripes()
        .filter(|(stripe, zone)| zone.kinds[stripe.index as usize] == Kind::Raid)
        .filter_map(|(stripe, _)| Some((stripe, tables.zone(stripe)?.1)))
        .collect();
    let len = tables.geometry.block_size as usize;
    for group in stripes.chunks(AUDIT_STRIPES_AT_ONCE) {
        let _guard = shard.reads.enter();
        let group: Vec<_> = group.iter().copied().filter(|&(s, c)| is_raid(shard, s, c)).collect();
        let read = |&(stripe, class): &(StripeId, &Rc<Class>)| {
            // Where it is now: blocks may have moved since the tables were copied.
            let address = |position| shard.address(class, stripe, position);
            read_all(shard, (0..class.width()).map(address).collect(), len)
        };
        let members = join_all(group.iter().map(read)).await;
        // As they are now: the stripe may be in another life than when the tables were copied.
        let known = &shard.state.borrow().sums;
        for ((stripe, class), members) in group.iter().zip(members) {
            for (position, (at, bytes)) in
                members.iter().enumerate().filter_map(|(position, m)| Some((position, m.as_ref()?)))
            {
                for (page, bytes) in bytes.chunks_exact(PAGE).enumerate() {
                    let page = (*stripe, position, page);
                    sums::check_page(tables, known, class, page, (*at, bytes), findings);
                }
            }
            let members: Vec<Option<Buf>> = members.into_iter().map(|m| Some(m?.1)).collect();
            let Some(faults) = parity_faults(class, &members) else {
                report.stripes_skipped += 1;
                continue;
            };
            report.stripes_checked += 1;
            for (position, byte) in faults {
                let drive = class.drive(*stripe, position);
                findings
                    .add(Rule::Parity, || parity_text(tables, *stripe, (position, byte), drive));
            }
        }
    }
}

/// It is a RAID stripe now, whatever it has been since the tables were copied.
fn is_raid<E: Env>(shard: &Shard<E>, stripe: StripeId, class: &Class) -> bool {
    let space = &shard.state.borrow().space;
    let same = space.class_of_zone(stripe.zone).is_some_and(|now| now.id == class.id);
    same && space.kind(stripe) == Kind::Raid
}

fn parity_text(
    tables: &Tables,
    stripe: StripeId,
    (position, byte): (usize, usize),
    drive: DriveIndex,
) -> String {
    let (_, class) = tables.zone(stripe).expect("chosen because it is there");
    let name = ["P", "Q"][position - class.data()];
    let offset = tables.geometry.address(class, stripe, position).offset + byte as u64;
    format!(
        "{name} of {} on drive {drive} (byte {offset}) is not what the data gives",
        tables.stripe_name(stripe)
    )
}

/// Positions of parity blocks that don't match, with the first byte. With a block missing, the
/// data is computed from P and Q has to match; `None`: too little is left to check anything.
fn parity_faults(class: &Class, members: &[Option<Buf>]) -> Option<Vec<(usize, usize)>> {
    let data = class.data();
    let missing: Vec<usize> = (0..class.width()).filter(|&at| members[at].is_none()).collect();
    if missing.len() >= class.parity() {
        return None;
    }
    let lost = missing.first().filter(|&&at| at < data);
    let rebuilt = lost.map(|_| {
        let present = members[..=data].iter().flatten();
        let mut sum = vec![0; members.iter().flatten().next().map_or(0, |block| block.len())];
        present.for_each(|block| sum.iter_mut().zip(&block[..]).for_each(|(a, b)| *a ^= b));
        sum
    });
    let blocks: Vec<&[u8]> = members[..data]
        .iter()
        .map(|member| match member {
            Some(block) => &block[..],
            None => rebuilt.as_deref().expect("at most one is missing"),
        })
        .collect();
    let sums = parity(&blocks);
    let faults = (data..class.width()).filter_map(|at| {
        let kept = members[at].as_ref()?;
        Some((at, difference(kept, &sums[at - data])?))
    });
    Some(faults.collect())
}
