//! What a pool knows, as text that is the same for the same knowledge.
//!
//! Opening the same drives twice, replaying a part of the journal again, closing and opening
//! without a request between: none of them may change a line of it. Lists that have no order on
//! the drives have none here, and how a block's patches are cut up doesn't matter.

use std::collections::BTreeMap;
use std::fmt;

use format::VolumeId;
use io::Env;

use super::map::{Extent, extents};
use crate::api::OpenError;
use crate::map::BlockMap;
use crate::pool::Pool;
use crate::recover::Recovered;
use crate::shard::VolumeRecord;
use crate::space::Space;
use crate::space::image::{SpaceImage, TupleState, ZoneImage};
use crate::sums::Sums;

/// Compare it with [`Fingerprint::difference`]; its text is the digests of its sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    volumes: Vec<String>,
    map: Vec<String>,
    tuples: Vec<String>,
    space: Vec<String>,
}

/// Of a pool as it is now.
pub fn fingerprint<E: Env>(pool: &Pool<E>) -> Fingerprint {
    let shard = pool.shard();
    let state = shard.state.borrow();
    Fingerprint::of(&state.volumes, &state.map, &state.space, &state.sums)
}

/// Of the pool on these drives as opening would find it, without writing anything. After the
/// journal has been replayed, the last so many percent of its blocks are replayed again, for
/// each of `again`: replay is idempotent if that changes nothing.
pub async fn replayed<E: Env>(
    drives: Vec<E::Drive>,
    again: &[u8],
) -> Result<Fingerprint, OpenError> {
    let recovered = crate::pool::replayed::<E::Drive>(drives, again).await?;
    let Recovered { volumes, map, space, sums, .. } = &recovered;
    Ok(Fingerprint::of(volumes, map, space, sums))
}

impl Fingerprint {
    fn of(
        volumes: &BTreeMap<VolumeId, VolumeRecord>,
        map: &BlockMap,
        space: &Space,
        sums: &Sums,
    ) -> Fingerprint {
        let volume = |v: &VolumeRecord| {
            let (iops, bytes) = (v.limits.iops, v.limits.bytes_per_sec);
            format!("{} {} {} {} {iops} {bytes}", v.id, v.name, v.size, v.class)
        };
        let map = map_lines(map, space, sums);
        let space = space.image();
        Fingerprint {
            volumes: volumes.values().map(volume).collect(),
            map,
            tuples: tuple_lines(&space),
            space: space_lines(&space),
        }
    }

    /// The first line in which two differ, if they do.
    pub fn difference(&self, other: &Fingerprint) -> Option<String> {
        let rest = [("tuples", &self.tuples, &other.tuples), ("space", &self.space, &other.space)];
        let rest = rest.into_iter().find_map(|(what, a, b)| first_difference(what, a, b));
        self.content_difference(other).or(rest)
    }

    /// The same for what volumes hold alone: two pools with the same content may have dead
    /// stripes in different states.
    pub fn content_difference(&self, other: &Fingerprint) -> Option<String> {
        first_difference("volumes", &self.volumes, &other.volumes)
            .or_else(|| first_difference("map", &self.map, &other.map))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = |lines: &[String]| crc32c::crc32c(lines.join("\n").as_bytes());
        write!(f, "volumes {:08x}, map {:08x}", digest(&self.volumes), digest(&self.map))?;
        write!(f, ", tuples {:08x}, space {:08x}", digest(&self.tuples), digest(&self.space))
    }
}

fn first_difference(what: &str, a: &[String], b: &[String]) -> Option<String> {
    let at = (0..a.len().max(b.len())).find(|&at| a.get(at) != b.get(at))?;
    let line = |lines: &[String]| lines.get(at).map_or("nothing", String::as_str).to_owned();
    Some(format!("{what}, line {}: '{}' and '{}'", at + 1, line(a), line(b)))
}

fn map_lines(map: &BlockMap, space: &Space, sums: &Sums) -> Vec<String> {
    let image = map.image();
    let line = |block: &crate::map::image::BlockImage| {
        let pieces = extents(block, image.block_sectors);
        let pieces: Vec<String> = pieces
            .iter()
            .map(|p| format!("{} at {}{}", p.range, p.place, sums_text(p, space, sums)))
            .collect();
        (!pieces.is_empty())
            .then(|| format!("{} block {}: {}", block.volume, block.block, pieces.join(", ")))
    };
    image.blocks.iter().filter_map(line).collect()
}

/// Sums of the pages of a piece.
fn sums_text(piece: &Extent, space: &Space, sums: &Sums) -> String {
    let Some(class) = space.class_of_zone(space.geometry.zone_of(piece.place.flbn)) else {
        return String::new();
    };
    let (stripe, position) = space.geometry.stripe_of(class, piece.place.flbn);
    let first = usize::from(piece.place.sector) / 8;
    let pages = first..first + piece.place.pages(piece.range.len) as usize;
    pages.map(|page| format!(" {:x}", sums.get(class, stripe, position, page))).collect()
}

/// Tuples with something live: others end whenever it is found out.
fn tuple_lines(space: &SpaceImage) -> Vec<String> {
    let is_live = |tuple: &TupleState| {
        let zone = space.zones[tuple.key().zone as usize].as_ref();
        zone.is_some_and(|zone| zone.live[tuple.key().index as usize] > 0)
    };
    let live = space.tuples.iter().filter(|(_, tuple)| is_live(tuple));
    live.map(|(_, t)| format!("{:?} {:?} {:?}", t.stripes, t.slots, t.filled)).collect()
}

fn space_lines(space: &SpaceImage) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, zone) in space.zones.iter().enumerate() {
        let Some(zone) = zone else { continue };
        let free = zone.kinds.iter().filter(|kind| kind.is_free()).count();
        lines.push(format!("zone {number}: {}, {free} free", zone.class));
        let stripes = zone.kinds.iter().zip(&zone.live).enumerate();
        let used = stripes.filter(|(_, (kind, _))| !kind.is_free());
        lines.extend(used.map(|(at, (kind, live))| format!("s{number}.{at}: {kind:?} {live}")));
    }
    let free = |class: &crate::space::image::ClassSpaceImage| {
        let zones = space.zones.iter().flatten();
        let zones = zones.filter(|zone| zone.class == class.id && !zone.draining);
        let free = |zone: &ZoneImage| zone.kinds.iter().filter(|kind| kind.is_free()).count();
        let free: usize = zones.map(free).sum();
        format!("{}: {free} stripes free, {} sectors live", class.id, class.live_sectors)
    };
    lines.extend(space.classes.iter().map(free));
    let (replicated, raid, limbo, _) = space.blocks;
    lines.push(format!("{} zones unassigned", space.unassigned.len()));
    lines.push(format!("blocks: {replicated} replicated, {raid} RAID, {limbo} in limbo"));
    lines
}
