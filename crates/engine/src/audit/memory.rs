//! Tables: as large as they say they are, and within their bounds.

use format::{CHUNK_ENTRIES, ENTRY_LEN, PATCH_LEN, StripeId};

use super::report::{Findings, Rule};
use super::tables::Tables;
use crate::limits::{CLASSES_MAX, PATCH_BYTES_IN_FLIGHT, VOLUMES_MAX};

pub fn check(tables: &Tables, findings: &mut Findings) {
    check_bounds(tables, findings);
    check_accounts(tables, findings);
    check_slots(tables, findings);
}

fn at_most(findings: &mut Findings, what: &str, found: u64, most: u64) {
    findings.check(found <= most, Rule::Memory, || format!("{what}: {found}, at most {most}"));
}

fn check_bounds(tables: &Tables, findings: &mut Findings) {
    let Tables { map, space, .. } = tables;
    at_most(findings, "volumes", tables.volumes.len() as u64, VOLUMES_MAX as u64);
    at_most(findings, "classes", tables.classes.len() as u64, CLASSES_MAX as u64);
    at_most(findings, "map chunks", map.chunks.len() as u64, tables.meta.chunks_max);
    for block in &map.blocks {
        let patches = block.patches.as_ref().map_or(0, Vec::len);
        let what = || format!("patches of {} block", tables.volume_name(block.volume));
        if patches > usize::from(map.block_sectors) {
            let what = format!("{} {}", what(), block.block);
            at_most(findings, &what, patches as u64, map.block_sectors.into());
        }
    }
    let patches: usize = map.blocks.iter().filter_map(|b| b.patches.as_ref()).map(Vec::len).sum();
    let budget = tables.memory.patch_budget_bytes;
    let most = budget / 8 * 9 + PATCH_BYTES_IN_FLIGHT;
    at_most(findings, "bytes of patches", (patches * PATCH_LEN) as u64, most);
    let stripes = tables.stripes().count();
    let in_tuples: usize = space.tuples.iter().map(|(_, tuple)| tuple.stripes.len()).sum();
    at_most(findings, "stripes in tuples", in_tuples as u64, stripes as u64);
    at_most(findings, "stripes in limbo", space.limbo.len() as u64, stripes as u64);
    let zones = space.zones.len() as u64;
    at_most(findings, "zones", zones, tables.geometry.zone_count.into());
}

/// The figures that `status` shows leave nothing out.
fn check_accounts(tables: &Tables, findings: &mut Findings) {
    let mut least = |what: &str, noted: u64, least: u64| {
        findings.check(noted >= least, Rule::Memory, || {
            format!("{what}: {noted} bytes are noted, but there are at least {least}")
        });
    };
    let Tables { map, space, memory, .. } = tables;
    let chunks = map.chunks.len() * CHUNK_ENTRIES * ENTRY_LEN;
    least("the map", memory.map_bytes, chunks as u64);
    let patches: usize = map.blocks.iter().filter_map(|b| b.patches.as_ref()).map(Vec::len).sum();
    least("patches", memory.patch_bytes, (patches * PATCH_LEN) as u64);
    // A byte of state and two of live sectors for each stripe, four for each that is free.
    let zones = space.zones.iter().flatten();
    let stripes: usize = zones.map(|zone| zone.kinds.len() * 3 + zone.free.len() * 4).sum();
    least("stripes", memory.space_bytes, stripes as u64);
    let tuples = space
        .tuples
        .iter()
        .map(|(_, tuple)| tuple.stripes.len() * size_of::<StripeId>() + tuple.slots.len() * 4);
    least("tuples", memory.tuple_bytes, tuples.sum::<usize>() as u64);
    let counted = (memory.map_bytes, memory.patch_bytes, memory.space_bytes, memory.tuple_bytes);
    let kept = (map.memory.0, map.memory.1, space.memory.0, space.memory.1);
    findings.check(counted == kept, Rule::Memory, || {
        format!("status says {counted:?} bytes of map, patches, stripes and tuples, not {kept:?}")
    });
}

/// Slots of the metadata area: each in one object or free.
fn check_slots(tables: &Tables, findings: &mut Findings) {
    // A checkpoint that failed keeps what it took; nothing will be written any more.
    if tables.failed {
        return;
    }
    let mut users = vec![0u32; tables.meta.total as usize];
    let used = tables.meta.objects.iter().flat_map(|object| &object.homes);
    for &slot in used.map(|(_, slot)| slot).chain(&tables.meta.free) {
        match users.get_mut(slot as usize) {
            Some(count) => *count += 1,
            None => findings.add(Rule::Checkpoint, || format!("slot {slot} does not exist")),
        }
    }
    for (slot, count) in users.iter().enumerate() {
        findings.check(*count == 1, Rule::Checkpoint, || {
            format!("slot {slot} of the metadata area is used or free {count} times, not once")
        });
    }
}
