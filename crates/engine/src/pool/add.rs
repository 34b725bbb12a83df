//! Adding drives to a pool that is closed, and opens with them next (`grow` does it to one that is
//! used).
//!
//! ```text
//!              generation   members    crash after this: the pool opens
//!  new drives      g - 1    old + new  as it was; the new drives are passed over
//!  old drives      g + 1    old + new  with all of them: the new ones know their places already
//!  new drives      g + 1    old + new
//! ```
//! A clean pool has nothing to replay, so that labels are all that changes. Zones keep the drives
//! that they lie on until they are given out anew (`lists`): what is free lies on the new drives at
//! once, and `rebalance` empties the rest. Metadata stays on the drives the pool was made of, so
//! that these bound how far it can grow.

use format::{
    CHUNK_ENTRIES, ClassId, FormatError, INCOMPAT_LISTS, INCOMPAT_SUMS, LABEL_AREA, Member,
    MemberState, Superblock, Uuid, label_offsets,
};
use io::{Buf, Drive, Durability, Env, join_all};
use layout::{DRIVES_MAX, DRIVES_MIN, StripeShape};

use crate::api::{AddError, AddPlan, OpenOptions};
use crate::checkpoint::slots::MetaSlots;
use crate::geometry::Class;
use crate::label::{Label, early_generation, for_drive, read_label};
use crate::pool::create::{format_drive, nth_largest, zones_in};
use crate::pool::open::{Labelled, geometry_of, read_labels, trusted_label};
use crate::pool::{Pool, usable_bytes};
use crate::shard::Shard;
use crate::sums::parts_max;

/// What is known of the pool when drives are added.
pub(super) struct Known {
    pub label: Superblock,
    /// Of the pool's own class, and the width of its narrowest one.
    shape: StripeShape,
    narrowest: usize,
    replicated_percent: u8,
}

/// What adding these drives would make of a pool that is closed.
pub async fn plan_add<E: Env>(
    env: &E,
    drives: &[E::Drive],
    new: &[E::Drive],
) -> Result<AddPlan, AddError> {
    let (known, next) = decide(env, drives, new).await?;
    plan(&known, &next)
}

/// Adds drives to a pool that is closed: all of its drives must be there. What was on the new ones
/// is gone.
pub async fn add_drives<E: Env>(
    env: &E,
    drives: &[E::Drive],
    new: &[E::Drive],
) -> Result<AddPlan, AddError> {
    let (known, next) = decide(env, drives, new).await?;
    let plan = plan(&known, &next)?;
    let before = known.label.members.len();
    erase(new, &known, &next).await?;
    let labelled = read_labels(drives.to_vec()).await?;
    let place = |found: Labelled<E::Drive>| {
        let is_it = |member: &Member| member.drive == found.label.drive;
        Some((next.members.iter().position(is_it)?, found.drive))
    };
    let old: Vec<(usize, E::Drive)> = labelled.into_iter().filter_map(place).collect();
    let new: Vec<(usize, E::Drive)> = (before..).zip(new.iter().cloned()).collect();
    write_labels(&old, &next).await?;
    write_labels(&new, &next).await?;
    Ok(plan)
}

/// New drives hold nothing but a label by which they are passed over.
pub(super) async fn erase<D: Drive>(
    new: &[D],
    known: &Known,
    next: &Superblock,
) -> Result<(), AddError> {
    let generation = early_generation(known.label.generation);
    let (early, before) = (Superblock { generation, ..next.clone() }, known.label.members.len());
    let writes = new.iter().enumerate().map(|(at, drive)| format_drive(drive, &early, before + at));
    for (drive, done) in new.iter().zip(join_all(writes).await) {
        done.map_err(|error| AddError::Drive { name: drive.name(), error })?;
    }
    Ok(())
}

/// To drives at these places: at every moment one generation is whole on each.
pub(super) async fn write_labels<D: Drive>(
    drives: &[(usize, D)],
    label: &Superblock,
) -> Result<(), AddError> {
    for copies in [[0, 2], [1, 3]] {
        let writes = drives.iter().map(|(at, drive)| write_copies(drive, label, *at, copies));
        join_all(writes).await.into_iter().collect::<Result<(), AddError>>()?;
    }
    Ok(())
}

async fn write_copies<D: Drive>(
    drive: &D,
    label: &Superblock,
    index: usize,
    copies: [u8; 2],
) -> Result<(), AddError> {
    let own = for_drive(label, index);
    for copy in copies {
        let offset = label_offsets(own.drive_size)[usize::from(copy)];
        let bytes = Buf::from_slice(&own.encode(copy));
        let done = drive.write(offset, bytes, Durability::Durable).await;
        done.map_err(|error| AddError::Drive { name: drive.name(), error })?;
    }
    Ok(())
}

async fn decide<E: Env>(
    env: &E,
    drives: &[E::Drive],
    new: &[E::Drive],
) -> Result<(Known, Superblock), AddError> {
    let labelled = read_labels(drives.to_vec()).await?;
    let (label, _) = trusted_label(&labelled)?;
    let pool = || label.pool_name.clone();
    if !label.clean {
        return Err(AddError::NotClean { pool: pool() });
    }
    for (index, member) in label.members.iter().enumerate() {
        let here = labelled.iter().any(|found| found.label.drive == member.drive);
        if !here || member.state != MemberState::Active {
            return Err(AddError::Missing { pool: pool(), index });
        }
    }
    check_all_new(new, &label).await?;
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let pool = Pool::open(env, drives.to_vec(), options).await?;
    let known = known_of(&pool.shard());
    pool.close().await.map_err(|error| AddError::Damaged(error.to_string()))?;
    let sizes = new.iter().map(|drive| drive.geometry().size);
    let next = grown(&known, sizes.map(|size| (Uuid::from_random(env.unique_id()), size)));
    Ok((known, next))
}

pub(super) fn known_of<E: Env>(shard: &Shard<E>) -> Known {
    let state = shard.state.borrow();
    let widths = state.space.classes().map(|class| class.width());
    Known {
        label: shard.labels.get(),
        shape: state.space.class(ClassId(0)).shape,
        narrowest: widths.min().unwrap_or(DRIVES_MIN),
        replicated_percent: state.settings.replicated_percent,
    }
}

pub(super) async fn check_all_new<D: Drive>(new: &[D], label: &Superblock) -> Result<(), AddError> {
    let drives_then = label.members.len() + new.len();
    if new.is_empty() || drives_then > DRIVES_MAX {
        return Err(AddError::Count { added: new.len(), drives: drives_then, most: DRIVES_MAX });
    }
    for drive in new {
        check_new(drive, label).await?;
    }
    Ok(())
}

/// Large enough for a zone, and nobody's.
async fn check_new<D: Drive>(drive: &D, label: &Superblock) -> Result<(), AddError> {
    let (name, size) = (drive.name(), drive.geometry().size);
    let least = label.zones.offset + label.zone_bytes + LABEL_AREA;
    if zones_in(size, label.zones.offset, label.zone_bytes) == 0 {
        return Err(AddError::TooSmall { name, size, least });
    }
    let found = read_label(drive).await;
    let what = match found.map_err(|error| AddError::Drive { name: name.clone(), error })? {
        Label::Empty => return Ok(()),
        Label::Ours(own) if own.pool == label.pool => {
            // One of an addition that was cut short, or one that was replaced.
            if label.members.iter().all(|member| member.drive != own.drive) {
                return Ok(());
            }
            format!("it is drive {} of this pool", own.index)
        }
        Label::Ours(own) => format!("it belongs to pool {} ({})", own.pool_name, own.pool),
        Label::Foreign(foreign) => format!("{} at byte {}", foreign.what, foreign.offset),
        Label::Unreadable(what) | Label::TooNew(what) => what,
    };
    Err(AddError::NotEmpty { name, what })
}

/// The label with the new drives: one round later, and with the zones that enough drives have now.
pub(super) fn grown(known: &Known, new: impl Iterator<Item = (Uuid, u64)>) -> Superblock {
    let mut next = known.label.clone();
    let round = 1 + next.members.iter().map(|member| member.round).max().unwrap_or(0);
    for (index, zones) in (0..next.members.len()).map(|at| known.label.zones_of(at)).enumerate() {
        next.members[index].zones = zones;
    }
    let state = MemberState::Active;
    let member = |(drive, size)| Member { drive, state, size, round, zones: 0 };
    next.members.extend(new.map(member));
    let room = |size| zones_in(size, next.zones.offset, next.zone_bytes);
    let sizes: Vec<u64> = next.members.iter().map(|member| member.size).collect();
    let enough = room(nth_largest(&sizes, known.narrowest.max(DRIVES_MIN)));
    let zone_count = next.zone_count.max(enough);
    for member in &mut next.members {
        // Zones that the pool never had were never given out: a drive may come to have them.
        if member.round == round || member.zones == next.zone_count {
            member.zones = room(member.size).min(zone_count).max(member.zones);
        }
    }
    next.zone_count = zone_count;
    next.zones.len = next.zones.len.max(next.zone_bytes * u64::from(zone_count));
    next.features.incompat |= INCOMPAT_LISTS;
    next.generation += 1;
    next
}

pub(super) fn plan(known: &Known, next: &Superblock) -> Result<AddPlan, AddError> {
    // What could not be read back must not be written.
    (0..next.members.len()).try_for_each(|at| for_drive(next, at).validate())?;
    if !geometry_of(next).fits() {
        return Err(FormatError::Invalid { field: "zones", value: next.zone_count.into() }.into());
    }
    let geometry = geometry_of(next);
    let class = Class::new(format::ClassId(0), known.shape, &geometry)
        .map_err(|error| AddError::Damaged(error.to_string()))?;
    let sums = next.features.incompat & INCOMPAT_SUMS != 0;
    let sums = if sums { parts_max(&geometry) } else { 0 };
    let slots = MetaSlots::new(geometry.lists.founders(), next.meta.len, sums);
    let mapped = slots.chunks_max() * CHUNK_ENTRIES as u64 * u64::from(next.block_size);
    let usable_bytes = usable_bytes(&geometry, &class, known.replicated_percent);
    if mapped < usable_bytes {
        let pool = next.pool_name.clone();
        return Err(AddError::Metadata { pool, mapped, usable: usable_bytes });
    }
    let last = |member: &Member| {
        let end = next.zones.offset + u64::from(member.zones) * next.zone_bytes;
        let all = member.zones < next.zone_count;
        if all { 0 } else { member.size.saturating_sub(end + 2 * LABEL_AREA) }
    };
    Ok(AddPlan {
        drives: next.members.len(),
        zones: next.zone_count,
        raw_bytes: next.members.iter().map(|member| member.size).sum(),
        usable_bytes,
        unused_bytes: next.members.iter().map(last).sum(),
    })
}
