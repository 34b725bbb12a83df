//! Zones and stripes: each in exactly one state, and every sum what one count gives.

use std::collections::BTreeMap;

use format::{Member, StripeId};
use layout::{DRIVES_MIN, DriveIndex};

use super::map::Uses;
use super::report::{Findings, Rule};
use super::tables::Tables;
use crate::space::Kind;
use crate::space::image::ZoneImage;

/// Live sectors of each stripe that has any, from the map alone.
type Live = BTreeMap<StripeId, u64>;

pub fn check(tables: &Tables, uses: &Uses, findings: &mut Findings) {
    let mut live = Live::new();
    for (flbn, users) in uses {
        let Some((stripe, ..)) = tables.locate(*flbn) else { continue };
        let sectors: u64 = users.iter().map(|user| u64::from(user.range.len)).sum();
        *live.entry(stripe).or_default() += sectors;
    }
    check_live(tables, &live, findings);
    check_assignment(tables, findings);
    for (number, zone) in tables.space.zones.iter().enumerate() {
        if let Some(zone) = zone {
            check_free_list(tables, number as u32, zone, findings);
        }
    }
    check_limbo(tables, findings);
    check_classes(tables, findings);
    check_sums(tables, &live, findings);
}

fn check_live(tables: &Tables, live: &Live, findings: &mut Findings) {
    for (stripe, zone) in tables.stripes() {
        let counted = live.get(&stripe).copied().unwrap_or(0);
        let noted = u64::from(zone.live[stripe.index as usize]);
        let kind = zone.kinds[stripe.index as usize];
        let text = |what: String| format!("{} ({kind:?}): {what}", tables.stripe_name(stripe));
        findings.check(noted == counted, Rule::Live, || {
            text(format!("{noted} live sectors are noted, the map has {counted}"))
        });
        findings.check(kind != Kind::Raid || noted > 0, Rule::Space, || {
            text("nothing in it is live, but it was not buried".into())
        });
        // Between requests only background work has stripes that are being written.
        let abandoned = kind == Kind::Writing && tables.failed;
        let empty = matches!(kind, Kind::Raid | Kind::Tuple) || noted == 0;
        findings.check(abandoned || empty, Rule::Space, || {
            text(format!("it should not hold {noted} live sectors"))
        });
    }
}

fn check_assignment(tables: &Tables, findings: &mut Findings) {
    for (number, zone) in tables.space.zones.iter().enumerate() {
        let listed = tables.space.unassigned.iter().filter(|&&other| other as usize == number);
        let (listed, assigned) = (listed.count(), usize::from(zone.is_some()));
        findings.check(listed + assigned == 1, Rule::Space, || {
            format!("zone {number}: assigned {assigned} times, listed as unassigned {listed} times")
        });
        let Some(zone) = zone else { continue };
        let Some(class) = tables.classes.get(&zone.class) else {
            findings.add(Rule::Space, || format!("zone {number}: {} does not exist", zone.class));
            continue;
        };
        let list = tables.geometry.lists.of(number as u32);
        let (kept, counted) = (tables.geometry.lists.drives(list), drives_of(tables, number));
        findings.check(kept == counted, Rule::Space, || {
            format!("zone {number}: it lies on drives {kept:?}, and should on {counted:?}")
        });
        let what = format!("stripes of zone {number}");
        let (kept, counted) = (zone.kinds.len() as u64, u64::from(class.stripes_in(number as u32)));
        findings.same(Rule::Space, &what, kept, counted);
    }
}

/// Drives that a zone lies on, by the labels: those of the rounds up to its own, or up to the
/// newest if it is nobody's, as far as they have it.
fn drives_of(tables: &Tables, number: usize) -> Vec<DriveIndex> {
    let newest = tables.label.members.iter().map(|member| member.round).max().unwrap_or(0);
    let round = tables.space.zones[number].as_ref().map_or(newest, |zone| zone.round);
    let here = |&(at, member): &(usize, &Member)| {
        member.round <= round && tables.label.zones_of(at) as usize > number
    };
    let members = tables.label.members.iter().enumerate().filter(here);
    members.map(|(at, _)| DriveIndex(at as u16)).collect()
}

fn check_free_list(tables: &Tables, number: u32, zone: &ZoneImage, findings: &mut Findings) {
    let mut listed = vec![0; zone.kinds.len()];
    for &index in &zone.free {
        match listed.get_mut(index as usize) {
            Some(times) => *times += 1,
            None => findings.add(Rule::Space, || {
                format!("zone {number}: stripe {index} is listed as free but does not exist")
            }),
        }
    }
    for (index, (&times, &kind)) in (0..).zip(listed.iter().zip(&zone.kinds)) {
        let stripe = StripeId { zone: number, index };
        findings.check(times == u32::from(kind == Kind::Free), Rule::Space, || {
            let name = tables.stripe_name(stripe);
            format!("{name} is {kind:?} and {times} times in the list of free stripes")
        });
    }
}

fn check_limbo(tables: &Tables, findings: &mut Findings) {
    let mut listed: BTreeMap<StripeId, u64> = BTreeMap::new();
    for &stripe in &tables.space.limbo {
        *listed.entry(stripe).or_default() += 1;
        findings.check(tables.kind(stripe).is_some(), Rule::Space, || {
            format!("{} is in limbo", tables.stripe_name(stripe))
        });
    }
    for (stripe, zone) in tables.stripes() {
        let kind = zone.kinds[stripe.index as usize];
        let times = listed.get(&stripe).copied().unwrap_or(0);
        findings.check(times == u64::from(kind == Kind::Limbo), Rule::Space, || {
            let name = tables.stripe_name(stripe);
            format!("{name} is {kind:?} and {times} times in the queue of limbo")
        });
    }
}

fn check_classes(tables: &Tables, findings: &mut Findings) {
    for class in &tables.space.classes {
        let mut lists = Vec::new();
        let mut free = 0;
        for (number, zone) in (0u32..).zip(&tables.space.zones) {
            let Some(zone) = zone.as_ref().filter(|zone| zone.class == class.id) else { continue };
            let stripes = zone.kinds.iter().filter(|kind| **kind == Kind::Free).count() as u64;
            if !zone.draining && stripes > 0 {
                lists.push(number);
                free += stripes;
            }
        }
        let mut kept = class.zones_with_free.clone();
        kept.sort();
        findings.check(kept == lists, Rule::Space, || {
            format!("zones of {} with free stripes: {kept:?} are listed, not {lists:?}", class.id)
        });
        let what = format!("free stripes of {}", class.id);
        findings.same(Rule::Space, &what, class.free, free);
    }
}

/// Blocks on the drives by what they are used for, and what `status` makes of them.
fn check_sums(tables: &Tables, live: &Live, findings: &mut Findings) {
    let geometry = &tables.geometry;
    let narrowest = tables.classes.values().map(|class| class.width()).min().unwrap_or(0);
    let lengths = (0..tables.space.zones.len()).map(|zone| drives_of(tables, zone).len());
    let drives: usize = lengths.filter(|&drives| drives >= narrowest.max(DRIVES_MIN)).sum();
    let all = u64::from(geometry.zone_blocks) * drives as u64;
    let (mut replicated, mut raid, mut limbo) = (0, 0, 0);
    let mut free = all;
    for (stripe, zone) in tables.stripes() {
        let width = tables.classes.get(&zone.class).map_or(0, |class| class.width() as u64);
        let kind = zone.kinds[stripe.index as usize];
        match kind {
            Kind::Free | Kind::Discarding => {}
            Kind::Tuple => replicated += width,
            Kind::Raid | Kind::Writing | Kind::Spare => raid += width,
            Kind::Limbo => limbo += width,
        }
        free -= if kind.is_free() { 0 } else { width };
    }
    let (kept_replicated, kept_raid, kept_limbo, kept_all) = tables.space.blocks;
    findings.same(Rule::Space, "blocks of tuples", kept_replicated, replicated);
    findings.same(Rule::Space, "blocks of RAID stripes", kept_raid, raid);
    findings.same(Rule::Space, "blocks in limbo", kept_limbo, limbo);
    findings.same(Rule::Space, "blocks of all zones", kept_all, all);
    let (status, block) = (&tables.status, u64::from(geometry.block_size));
    findings.same(Rule::Space, "status: total bytes", status.total, all * block);
    findings.same(Rule::Space, "status: free bytes", status.free, free * block);
    findings.same(Rule::Space, "status: replicated bytes", status.replicated, replicated * block);
    findings.same(Rule::Space, "status: RAID bytes", status.raid, raid * block);
    findings.same(Rule::Space, "status: bytes in limbo", status.limbo, limbo * block);
    let used: u64 = live.values().sum();
    findings.same(Rule::Space, "status: bytes used", status.used, used * 512);
    for class in &tables.space.classes {
        let of_class = live.iter().filter(|(stripe, _)| {
            tables.zone(**stripe).is_some_and(|(zone, _)| zone.class == class.id)
        });
        let counted = of_class.map(|(_, sectors)| sectors).sum();
        let what = format!("live sectors of {}", class.id);
        findings.same(Rule::Live, &what, class.live_sectors, counted);
    }
    let promised = tables.space.promised;
    findings.check(promised == 0 || !tables.locks_free, Rule::Space, || {
        format!("{promised} sectors are promised to writes, but none is on its way")
    });
}
