//! The map: entries, patch lists, and who uses which sectors of which physical block.

use std::collections::{BTreeMap, BTreeSet};

use format::{CHUNK_ENTRIES, Flbn, Patch, Place, SectorRange, VolumeId};

use super::report::{Findings, Rule};
use super::tables::Tables;
use crate::map::HOLE;
use crate::map::image::BlockImage;
use crate::space::Kind;

/// Sectors of a physical block, and what part of a volume lies there.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    pub sector: u16,
    pub volume: VolumeId,
    pub block: u64,
    pub range: SectorRange,
}

impl Use {
    /// One past its last sector in the physical block.
    pub fn end(&self) -> u32 {
        u32::from(self.sector) + u32::from(self.range.len)
    }
}

/// Uses of each physical block, by sector.
pub type Uses = BTreeMap<Flbn, Vec<Use>>;

/// A part of a logical block in one piece, and where it lies.
pub struct Extent {
    pub range: SectorRange,
    pub place: Place,
}

/// What a block is made of, found by writing down a place for every sector.
pub fn extents(block: &BlockImage, block_sectors: u16) -> Vec<Extent> {
    let mut sectors: Vec<Option<Place>> = (0..block_sectors)
        .map(|at| block.base.map(|base| Place { sector: base.sector + at, ..base }))
        .collect();
    for patch in block.patches.iter().flatten() {
        for skip in 0..patch.range.len {
            let place = Place { sector: patch.place.sector + skip, ..patch.place };
            let place = (place.flbn != HOLE.flbn).then_some(place);
            if let Some(sector) = sectors.get_mut(usize::from(patch.range.start + skip)) {
                *sector = place;
            }
        }
    }
    let mut found: Vec<Extent> = Vec::new();
    for (start, place) in (0..).zip(sectors) {
        let Some(place) = place else { continue };
        if let Some(Extent { range, place: first }) = found.last_mut()
            && u32::from(start) == range.end()
            && place == (Place { sector: first.sector + range.len, ..*first })
        {
            range.len += 1;
            continue;
        }
        found.push(Extent { range: SectorRange { start, len: 1 }, place });
    }
    found
}

pub fn check(tables: &Tables, findings: &mut Findings) -> Uses {
    check_counts(tables, findings);
    let mut uses = Uses::new();
    for block in &tables.map.blocks {
        check_patches(tables, block, findings);
        for extent in extents(block, tables.map.block_sectors) {
            check_extent(tables, block, &extent, findings);
            let (volume, number) = (block.volume, block.block);
            let Extent { range, place } = extent;
            let user = Use { sector: place.sector, volume, block: number, range };
            uses.entry(place.flbn).or_default().push(user);
        }
    }
    check_sharing(tables, &mut uses, findings);
    uses
}

fn name(tables: &Tables, block: &BlockImage) -> String {
    format!("{} block {}", tables.volume_name(block.volume), block.block)
}

fn check_counts(tables: &Tables, findings: &mut Findings) {
    let map = &tables.map;
    for &(volume, block) in &map.astray {
        findings.add(Rule::Patches, || {
            format!("{} block {block}: its patch list is not there", tables.volume_name(volume))
        });
    }
    let mut mapped: BTreeMap<(VolumeId, u64), u64> = BTreeMap::new();
    for block in &map.blocks {
        *mapped.entry((block.volume, block.block / CHUNK_ENTRIES as u64)).or_default() += 1;
    }
    for chunk in &map.chunks {
        let counted = mapped.get(&(chunk.volume, u64::from(chunk.chunk))).copied().unwrap_or(0);
        let volume = tables.volume_name(chunk.volume);
        let what = format!("mapped blocks of chunk {} of {volume}", chunk.chunk);
        findings.same(Rule::Entries, &what, chunk.mapped.into(), counted);
    }
    findings.same(Rule::Memory, "map chunks", map.chunk_count, map.chunks.len() as u64);
    let lists = map.blocks.iter().filter_map(|block| block.patches.as_ref());
    let patches: usize = lists.clone().map(Vec::len).sum();
    findings.same(Rule::Memory, "patches", map.patches, patches as u64);
    findings.same(Rule::Memory, "patch lists", map.lists as u64, lists.count() as u64);
    let free: BTreeSet<u32> = map.lists_free.iter().copied().collect();
    let good = free.len() == map.lists_free.len() && free.len() + map.lists == map.lists_len;
    findings.check(good, Rule::Memory, || {
        let (lists, free, all) = (map.lists, map.lists_free.len(), map.lists_len);
        format!("patch lists: {lists} in use and {free} free make {all}, each once")
    });
}

fn check_patches(tables: &Tables, block: &BlockImage, findings: &mut Findings) {
    let Some(patches) = &block.patches else { return };
    let mut complain = |what: &str| {
        findings.add(Rule::Patches, || format!("{}: {what}", name(tables, block)));
    };
    if patches.is_empty() {
        complain("its patch list is empty");
    }
    let mut covered = 0;
    for patch in patches {
        if patch.range.len == 0 || patch.range.end() > tables.map.block_sectors.into() {
            complain(&format!("the patch at {} is not inside the block", patch.range));
        }
        if patch.place.flbn == HOLE.flbn && block.base.is_none() {
            complain(&format!("the patch at {} hides a base that is not there", patch.range));
        }
        covered += u32::from(patch.range.len);
    }
    let out_of_order = |pair: &&[Patch]| pair[0].range.end() > u32::from(pair[1].range.start);
    if let Some([first, second]) = patches.windows(2).find(out_of_order) {
        complain(&format!("patch {} comes before {} and overlaps", first.range, second.range));
    }
    if block.base.is_some() && covered >= tables.map.block_sectors.into() {
        complain("patches hide all of its base");
    }
    if block.base.is_some_and(|base| base.sector != 0) {
        complain("its base does not begin at the start of a block");
    }
}

fn check_extent(tables: &Tables, block: &BlockImage, extent: &Extent, findings: &mut Findings) {
    let Extent { range, place } = extent;
    let mut complain = |what: &str| {
        findings.add(Rule::Entries, || format!("{} sectors {range}: {what}", name(tables, block)));
    };
    let block_sectors = u64::from(tables.map.block_sectors);
    let Some(volume) = tables.volumes.get(&block.volume) else {
        return complain("the volume does not exist");
    };
    if (block.block * block_sectors + u64::from(range.end())) * 512 > volume.size {
        complain(&format!("it is beyond the end of the volume ({} bytes)", volume.size));
    }
    if u64::from(place.sector) + u64::from(range.len) > block_sectors {
        complain(&format!("{place} runs over the end of its block"));
    }
    let Some((stripe, position, class)) = tables.locate(place.flbn) else {
        return complain(&format!("{place} is not a data block of any zone in use"));
    };
    let stripe_name = || tables.stripe_name(stripe);
    if class.id != volume.class {
        complain(&format!("{} is of another class than the volume", stripe_name()));
    }
    match tables.kind(stripe).expect("located") {
        Kind::Raid => {}
        Kind::Tuple => {
            let pages = tables.tuple(stripe).and_then(|tuple| tuple.filled.get(position));
            let last = (place.sector + range.len).div_ceil(8);
            match pages {
                None => complain(&format!("{} is a copy, not the head", stripe_name())),
                Some(_) if !place.replicated => {
                    complain(&format!("{} is in a tuple, the entry says RAID", stripe_name()));
                }
                Some(&pages) if pages < last => complain(&format!(
                    "only {pages} pages of slot {position} of {} are written",
                    stripe_name()
                )),
                Some(_) => {}
            }
        }
        kind => complain(&format!("{} is {kind:?}", stripe_name())),
    }
}

fn check_sharing(tables: &Tables, uses: &mut Uses, findings: &mut Findings) {
    for (flbn, users) in uses {
        users.sort_by_key(|user| (user.sector, user.volume, user.block, user.range));
        let Some(pair) = users.windows(2).find(|pair| pair[0].end() > pair[1].sector.into()) else {
            continue;
        };
        findings.add(Rule::Sharing, || {
            let one = |user: &Use| {
                format!(
                    "{} block {} sectors {}",
                    tables.volume_name(user.volume),
                    user.block,
                    user.range
                )
            };
            let place = tables.locate(*flbn).map(|(stripe, position, _)| {
                format!("position {position} of {}", tables.stripe_name(stripe))
            });
            let place = place.unwrap_or_else(|| format!("{flbn}"));
            let sector = pair[1].sector;
            format!("{} and {} share sector {sector} of {place}", one(&pair[0]), one(&pair[1]))
        });
    }
}
