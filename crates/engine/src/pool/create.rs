//! Making a pool: deciding sizes, writing the first labels.

use std::rc::Rc;

use format::{
    CheckpointRoot, ClassId, Extent, Features, INCOMPAT_LISTS, INCOMPAT_SUMS, JOURNAL_ALIGN,
    Member, MemberState, SCHEME_FUSION, SCHEME_FUSION_ND, SLOT_LEN, SUMS_ENTRIES, Superblock, Uuid,
    end_area, label_offsets, valid_new_name,
};
use io::{Buf, Drive, Durability, Env, Geometry, join_all};
use layout::{DRIVES_MIN, LayoutError, StripeShape};

use crate::api::{CreateError, CreatePlan, CreateSpec, OpenOptions};
use crate::geometry::{Class, PoolGeometry};
use crate::label::for_drive;
use crate::limits::{
    JOURNAL_DRIVE_FRACTION, JOURNAL_DRIVE_MAX, JOURNAL_DRIVE_MIN, JOURNAL_TOTAL_BYTES,
    METADATA_COPIES, PATCH_BUDGET_BYTES, ZONE_BYTES_MIN, ZONES_AIM, ZONES_MIN,
};
use crate::lists::{DriveLists, Reach};
use crate::pool::{Pool, usable_bytes, usable_stripes};

const MIB: u64 = 1 << 20;
/// Data blocks of a stripe by default: FusionRAID §5.1 runs 6+1.
const DATA_DEFAULT: usize = 6;

/// Far more than blocks have numbers for; as many of these as a pool may have are still counted in
/// bytes. A sparse file may be larger.
const DRIVE_MAX: u64 = 1 << 55;

/// Everything `create` decides before it writes.
struct Decision {
    plan: CreatePlan,
    geometry: PoolGeometry,
    members: Vec<Reach>,
    journal: Extent,
    meta: Extent,
}

/// How the smallest drive, and with it every drive, is divided; larger ones have more zones.
struct Areas {
    journal: Extent,
    meta: Extent,
    zones_at: u64,
    zone_bytes: u64,
    zone_count: u32,
}

impl Areas {
    fn of(drives: usize, size: u64, spec: &CreateSpec) -> Areas {
        Areas::for_map_of(drives, size, size, spec)
    }

    /// With room for the map of what drives have of which each uses `mean` bytes.
    fn for_map_of(drives: usize, size: u64, mean: u64, spec: &CreateSpec) -> Areas {
        let block_size = spec.block_size;
        let journal = Extent { offset: MIB, len: journal_bytes(drives, size) };
        let zone_bytes = zone_bytes(drives, block_size, size);
        let sums = if spec.checksums { sum_slots(drives, mean, zone_bytes) } else { 0 };
        let meta_len = meta_bytes(drives, mean, block_size, zone_bytes, sums);
        let meta = Extent { offset: journal.offset + journal.len, len: meta_len };
        let zones_at = (meta.offset + meta.len).next_multiple_of(MIB);
        let areas = Areas { journal, meta, zones_at, zone_bytes, zone_count: 0 };
        Areas { zone_count: areas.zones_of(size), ..areas }
    }

    /// Zones that a drive of this size has room for.
    fn zones_of(&self, size: u64) -> u32 {
        zones_in(size, self.zones_at, self.zone_bytes)
    }

    /// The same with the zones that only larger drives have, as far as `wide` of them have these:
    /// how many zones there are then.
    fn extended(self, sizes: &[u64], wide: usize, spec: &CreateSpec) -> (Areas, u32) {
        let useful = nth_largest(sizes, wide);
        let smallest = *sizes.iter().min().expect("there are drives");
        if self.zones_of(useful) == self.zone_count {
            let zones = self.zone_count;
            return (self, zones);
        }
        let used: u64 = sizes.iter().map(|&size| size.min(useful)).sum();
        let mean = used / sizes.len() as u64;
        let areas = Areas::for_map_of(sizes.len(), smallest, mean, spec);
        let zones = areas.zones_of(useful);
        (areas, zones)
    }

    /// There is room for data beside the replicated area.
    fn suffice(&self, drives: usize, shape: StripeShape, spec: &CreateSpec) -> bool {
        let rows = self.zone_bytes / u64::from(spec.block_size) / u64::from(shape.width);
        let stripes = rows * drives as u64 * u64::from(self.zone_count);
        self.zone_count >= ZONES_MIN && usable_stripes(stripes, spec.replicated_percent) > 0
    }
}

/// What `create` would make of these drives.
pub fn plan_create(
    drives: &[(String, Geometry)],
    spec: &CreateSpec,
) -> Result<CreatePlan, CreateError> {
    decide(drives, spec).map(|decision| decision.plan)
}

fn decide(drives: &[(String, Geometry)], spec: &CreateSpec) -> Result<Decision, CreateError> {
    let shape = check_spec(drives.len(), spec)?;
    let (name, smallest) = drives
        .iter()
        .min_by_key(|(_, geometry)| geometry.size)
        .expect("the layout wants three drives or more");
    let size = smallest.size;
    if drives.iter().any(|(_, geometry)| geometry.size > DRIVE_MAX) {
        return Err(CreateError::TooLarge);
    }
    let areas = |size| Areas::of(drives.len(), size, spec);
    let suffice = |areas: &Areas| areas.suffice(drives.len(), shape, spec);
    if !suffice(&areas(size)) {
        let larger = (size / MIB + 1..).map(|mibs| mibs * MIB);
        let least = larger.into_iter().find(|&size| suffice(&areas(size)));
        let least = least.expect("some size is enough");
        return Err(CreateError::DriveTooSmall { name: name.clone(), size, least });
    }
    let sizes: Vec<u64> = drives.iter().map(|(_, geometry)| geometry.size).collect();
    let wide = shape.width().max(DRIVES_MIN);
    let plain = areas(size).zone_count;
    let (extended, zone_count) = match areas(size).extended(&sizes, wide, spec) {
        (extended, zones) if suffice(&extended) && zones > plain => (extended, zones),
        // There is nothing to gain, or the map of that takes too much of the smallest drive.
        _ => (areas(size), plain),
    };
    let reach = |&size: &u64| Reach { round: 0, zones: extended.zones_of(size).min(zone_count) };
    let members: Vec<Reach> = sizes.iter().map(reach).collect();
    let used = match zone_count == extended.zone_count {
        true => size,
        false => nth_largest(&sizes, wide),
    };
    let unused = sizes.iter().map(|&size| size.saturating_sub(used)).sum();
    let Areas { journal, meta, zones_at, zone_bytes, .. } = extended;
    let geometry = PoolGeometry {
        drives: drives.len(),
        block_size: spec.block_size,
        zone_bytes,
        zone_count,
        zone_blocks: (zone_bytes / u64::from(spec.block_size)) as u32,
        zones: Extent { offset: zones_at, len: zone_bytes * u64::from(zone_count) },
        lists: Rc::new(DriveLists::new(members.clone(), zone_count)),
    };
    if !geometry.fits() {
        return Err(CreateError::TooLarge);
    }
    let class = Class::new(ClassId(0), shape, &geometry)?;
    let plan = CreatePlan {
        width: shape.width,
        parity: shape.parity,
        block_size: spec.block_size,
        drives: drives.len(),
        zone_bytes,
        zones: zone_count,
        raw_bytes: sizes.iter().sum(),
        usable_bytes: usable_bytes(&geometry, &class, spec.replicated_percent),
        unused_bytes: unused,
        journal_bytes: journal.len,
        metadata_bytes: meta.len,
        checksum_bytes: if spec.checksums { sum_bytes(&geometry, &class) } else { 0 },
        layout: class.newest_layout().balance().to_string(),
    };
    Ok(Decision { plan, geometry, members, journal, meta })
}

fn check_spec(drives: usize, spec: &CreateSpec) -> Result<StripeShape, CreateError> {
    if !valid_new_name(&spec.name) {
        return Err(CreateError::Name(spec.name.clone()));
    }
    if !(1..=2).contains(&spec.parity) {
        return Err(CreateError::Parity(spec.parity));
    }
    let block_size = spec.block_size;
    if !block_size.is_power_of_two() || !(4096..=1 << 20).contains(&block_size) {
        return Err(CreateError::BlockSize(block_size.into()));
    }
    if !(2..=50).contains(&spec.replicated_percent) {
        return Err(CreateError::ReplicatedPercent(spec.replicated_percent));
    }
    if drives < layout::DRIVES_MIN {
        return Err(LayoutError::TooFewDrives { drives }.into());
    }
    let width = spec.width.unwrap_or_else(|| default_width(drives, spec.parity));
    let shape = StripeShape::new(width, spec.parity)?;
    layout::Layout::new(drives, shape.width())?;
    Ok(shape)
}

/// Six data blocks and parity, or all drives if there are fewer.
pub fn default_width(drives: usize, parity: u8) -> u16 {
    (DATA_DEFAULT + usize::from(parity)).min(drives) as u16
}

/// The smallest of the `count` largest.
pub(super) fn nth_largest(sizes: &[u64], count: usize) -> u64 {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes[count.min(sizes.len()) - 1]
}

/// Zones that a drive of `size` bytes has room for.
pub(super) fn zones_in(size: u64, zones_at: u64, zone_bytes: u64) -> u32 {
    let zones = end_area(size).saturating_sub(zones_at) / zone_bytes;
    zones.try_into().unwrap_or(u32::MAX)
}

/// Ring of one drive: an equal share of the pool's journal, within bounds.
fn journal_bytes(drives: usize, size: u64) -> u64 {
    let share = JOURNAL_TOTAL_BYTES * METADATA_COPIES as u64 / drives as u64;
    let bounded = share.clamp(JOURNAL_DRIVE_MIN, JOURNAL_DRIVE_MAX);
    let small = (size / JOURNAL_DRIVE_FRACTION).max(JOURNAL_DRIVE_MIN);
    bounded.min(small).next_multiple_of(JOURNAL_ALIGN as u64)
}

/// Large enough for a row of the widest stripes, small enough that a pool has many zones.
fn zone_bytes(drives: usize, block_size: u32, size: u64) -> u64 {
    let row = drives as u64 * u64::from(block_size);
    let aim = (size / ZONES_AIM).next_power_of_two();
    aim.clamp(ZONE_BYTES_MIN, 1 << 30).max(row).next_multiple_of(MIB.max(u64::from(block_size)))
}

/// Four bytes for each page of data that fits.
fn sum_bytes(geometry: &PoolGeometry, class: &Class) -> u64 {
    let stripes = class.stripes();
    stripes * class.data() as u64 * u64::from(geometry.block_pages()) * 4
}

/// Objects that sums of data can come to (`sums::parts_max`): with metadata left out there may be
/// a zone more than there will be.
fn sum_slots(drives: usize, size: u64, zone_bytes: u64) -> u64 {
    let pages = zone_bytes / 4096 * (drives as u64 - 1);
    size / zone_bytes * pages.div_ceil(SUMS_ENTRIES as u64)
}

/// Room for every object twice (a checkpoint may change them all), on every copy.
fn meta_bytes(drives: usize, size: u64, block_size: u32, zone_bytes: u64, sums: u64) -> u64 {
    let pool = size * drives as u64;
    let entries = pool / u64::from(block_size) * 5;
    // Patches of ten bytes a page, as far as their memory budget goes.
    let patches = (pool / 4096 * 10).min(PATCH_BUDGET_BYTES);
    let tuples = pool / u64::from(block_size) * 2;
    let zones = size / zone_bytes * SLOT_LEN as u64;
    // A chunk has a slot for its entries and at least one more once it has a patch.
    let objects = entries * 2 + entries / 8 + patches + tuples + zones + 64 * SLOT_LEN as u64;
    let objects = objects + sums * SLOT_LEN as u64;
    let copies = METADATA_COPIES.min(drives) as u64;
    let row = SLOT_LEN as u64 * copies;
    (objects * 2 * copies / drives as u64).next_multiple_of(row).next_multiple_of(4096)
}

/// Writes a new, empty pool onto the drives, and opens it once to see that it is one.
pub async fn create<E: Env>(
    env: &E,
    drives: &[E::Drive],
    spec: &CreateSpec,
) -> Result<CreatePlan, CreateError> {
    let named: Vec<(String, Geometry)> =
        drives.iter().map(|drive| (drive.name(), drive.geometry())).collect();
    let decision = decide(&named, spec)?;
    let id = |env: &E| Uuid::from_random(env.unique_id());
    let zone_count = decision.geometry.zone_count;
    let listed = decision.members.iter().any(|reach| reach.zones < zone_count);
    let members: Vec<Member> = drives
        .iter()
        .zip(&decision.members)
        .map(|(drive, reach)| Member {
            drive: id(env),
            state: MemberState::Active,
            size: drive.geometry().size,
            round: 0,
            zones: if listed { reach.zones } else { 0 },
        })
        .collect();
    let sums = if spec.checksums { INCOMPAT_SUMS } else { 0 };
    let lists = if listed { INCOMPAT_LISTS } else { 0 };
    let label = Superblock {
        pool: id(env),
        drive: members[0].drive,
        pool_name: spec.name.clone(),
        index: 0,
        generation: 1,
        epoch: 1,
        created_secs: spec.created_secs,
        features: Features { compat: 0, incompat: sums | lists },
        clean: true,
        scheme: if spec.detection { SCHEME_FUSION } else { SCHEME_FUSION_ND },
        group: 0,
        shards: 1,
        block_size: spec.block_size,
        zone_bytes: decision.geometry.zone_bytes,
        zone_count,
        drive_size: members[0].size,
        journal: decision.journal,
        meta: decision.meta,
        zones: decision.geometry.zones,
        members,
        checkpoint: vec![CheckpointRoot { seq: 0, journal_start: 1, objects: 0, fingerprint: 0 }],
        further: None,
        replaces: None,
    };
    let writes = drives.iter().enumerate().map(|(at, drive)| format_drive(drive, &label, at));
    for (drive, done) in drives.iter().zip(join_all(writes).await) {
        done.map_err(|error| CreateError::Drive { name: drive.name(), error })?;
    }
    let open = Pool::open_at(env, drives.to_vec(), OpenOptions::default(), true).await;
    let pool = open.map_err(|error| CreateError::Open(Box::new(error)))?;
    let shape = StripeShape::new(decision.plan.width, decision.plan.parity)?;
    pool.configure(shape, spec).await?;
    Ok(decision.plan)
}

/// Erases what others left at both ends, then writes all label copies.
pub(super) async fn format_drive<D: Drive>(
    drive: &D,
    label: &Superblock,
    index: usize,
) -> Result<(), io::DriveError> {
    let size = drive.geometry().size;
    let end = size / 4096 * 4096;
    let tail = end_area(size);
    let wipe = async |from: u64, to: u64| {
        let mut at = from;
        while at < to {
            let len = MIB.min(to - at);
            drive.write(at, Buf::zeroed(len as usize), Durability::Cached).await?;
            at += len;
        }
        Ok(())
    };
    wipe(0, MIB).await?;
    wipe(tail, end).await?;
    drive.flush().await?;
    let own = for_drive(label, index);
    for (copy, offset) in label_offsets(size).into_iter().enumerate() {
        let bytes = Buf::from_slice(&own.encode(copy as u8));
        drive.write(offset, bytes, Durability::Durable).await?;
    }
    Ok(())
}
