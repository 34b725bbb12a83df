//! Labels of an in-place array: the pool's superblock with another scheme. `engine::label`
//! describes how its four copies are kept; here they are written and read alike.

use format::{
    COMPAT_BLANK_SLOTS, CheckpointRoot, Extent, Features, INCOMPAT_ARRAY_SUMS,
    INCOMPAT_CHECKSUM_LOG, INCOMPAT_GROUPS, INCOMPAT_SPARE, LABEL_AREA, LABEL_LEN,
    Member as Listed, MemberState, SCHEME_MIRRORS, SCHEME_PARITY_DRIVE, SCHEME_PARITY1,
    SCHEME_PARITY2, SCHEME_STRIPES, SPARE_INDEX, Superblock, Uuid, end_area, label_at,
    label_offsets, newest,
};
use io::{Buf, Drive, DriveError, Durability, join_all};

use crate::array::CreateSpec;
use crate::checksum_log::ring::Ring;
use crate::grid::{Grid, Redundancy};
use crate::limits::{LOG_COPIES_MAX, PAGE};
use crate::member::Member;
use crate::sums::Area;
use crate::{checksum_log, intents, log};

/// How a drive is divided.
pub struct Division {
    pub log: Extent,
    /// And the sums after them, if there are any.
    pub intents: Extent,
    pub data: Extent,
}

/// Labels, log, intents and sums at the beginning, chunks after them: as many as the smallest drive
/// has room for. The shape has any rows.
pub fn divide(smallest: u64, shape: &Grid, checksums: bool) -> Division {
    let chunk = shape.chunk;
    let log = Extent { offset: LABEL_AREA, len: log::bytes(chunk) };
    let intents = Extent { offset: log.offset + log.len, len: intents::BYTES };
    let begin = |sums: u64| (intents.offset + intents.len + sums).next_multiple_of(chunk);
    let rows = |sums: u64| end_area(smallest).saturating_sub(begin(sums)) / chunk;
    // Room for the sums of more rows than there will be.
    let most = Grid { rows: rows(0).min(u32::MAX.into()), ..*shape };
    let sums = if checksums { Area::of(&most).bytes() } else { 0 };
    // And of the checksum log, which begins behind them.
    let sums = if checksums { sums + checksum_log::bytes_for(most.rows * chunk) } else { 0 };
    let intents = Extent { len: intents.len + sums, ..intents };
    let data = Extent { offset: begin(sums), len: rows(sums).min(most.rows) * chunk };
    Division { log, intents, data }
}

/// Whether the array has sums.
pub fn has_sums(label: &Superblock) -> bool {
    label.features.incompat & INCOMPAT_ARRAY_SUMS != 0
}

/// Says whether software without a checksum log has to leave the array alone.
pub fn set_log_counts(label: &mut Superblock, counts: bool) {
    label.features.incompat &= !INCOMPAT_CHECKSUM_LOG;
    label.features.incompat |= if counts && has_sums(label) { INCOMPAT_CHECKSUM_LOG } else { 0 };
}

/// In the first label area: for small drives, and arrays made by software without a checksum log.
pub const LOG_IN_LABELS: Extent = Extent { offset: 640 << 10, len: 384 << 10 };

/// Whether slots of the partial-parity log that were never used say whose they are.
pub fn has_blank_slots(label: &Superblock) -> bool {
    label.features.compat & COMPAT_BLANK_SLOTS != 0
}

/// Where the checksum log lies.
pub fn log_ring(label: &Superblock, grid: &Grid) -> Ring {
    ring_of(label.meta, grid)
}

/// `meta`: intents, checksum area, and what is behind them.
fn ring_of(meta: Extent, grid: &Grid) -> Ring {
    let copies = Area::of(grid).copies.min(LOG_COPIES_MAX);
    let before = intents::BYTES + Area::of(grid).bytes();
    let room = meta.len.saturating_sub(before);
    let own = Ring::new(grid, copies, meta.offset + before, room);
    let Extent { offset, len } = LOG_IN_LABELS;
    let in_labels = Ring::new(grid, copies, offset, len).expect("the label area has room");
    // What is left of the area for checksums may be a page or two.
    own.filter(|own| own.slots() >= in_labels.slots()).unwrap_or(in_labels)
}

fn scheme_number(redundancy: Redundancy) -> u16 {
    match redundancy {
        Redundancy::Mirror => SCHEME_MIRRORS,
        Redundancy::Parity(0) => SCHEME_STRIPES,
        Redundancy::Parity(1) => SCHEME_PARITY1,
        Redundancy::Parity(_) => SCHEME_PARITY2,
        Redundancy::ParityDrive => SCHEME_PARITY_DRIVE,
    }
}

/// The shape that a label tells; `None`: not of an in-place array.
pub fn grid_of(label: &Superblock) -> Option<Grid> {
    let redundancy = match label.scheme {
        SCHEME_STRIPES => Redundancy::Parity(0),
        SCHEME_MIRRORS => Redundancy::Mirror,
        SCHEME_PARITY1 => Redundancy::Parity(1),
        SCHEME_PARITY2 => Redundancy::Parity(2),
        SCHEME_PARITY_DRIVE => Redundancy::ParityDrive,
        _ => return None,
    };
    let grid = Grid {
        redundancy,
        drives: label.members.len(),
        width: label.group.into(),
        chunk: label.block_size.into(),
        rows: label.zone_count.into(),
    };
    let room = |grid: &Grid| {
        let sums = if has_sums(label) { Area::of(grid).bytes() } else { 0 };
        label.zones.offset.is_multiple_of(PAGE) && label.meta.len >= intents::BYTES + sums
    };
    (grid.check().is_ok() && room(&grid)).then_some(grid)
}

/// The label of a new array, as its first drive has it.
pub fn new_label(spec: &CreateSpec, grid: &Grid, pool: Uuid, drives: &[(Uuid, u64)]) -> Superblock {
    let smallest = drives.iter().map(|(_, size)| *size).min().expect("an array has drives");
    let Division { log, intents, data } = divide(smallest, grid, spec.checksums);
    let sums = if spec.checksums { INCOMPAT_ARRAY_SUMS } else { 0 };
    let compat = if grid.parity() > 0 { COMPAT_BLANK_SLOTS } else { 0 };
    let listed =
        |&(drive, size)| Listed { drive, state: MemberState::Active, size, round: 0, zones: 0 };
    Superblock {
        pool,
        drive: drives[0].0,
        pool_name: spec.name.clone(),
        index: 0,
        generation: 0,
        epoch: 1,
        created_secs: 0,
        features: Features { compat, incompat: INCOMPAT_GROUPS | sums },
        clean: true,
        scheme: scheme_number(grid.redundancy),
        group: grid.width as u16,
        shards: 1,
        block_size: grid.chunk as u32,
        zone_bytes: grid.chunk,
        zone_count: grid.rows as u32,
        drive_size: smallest,
        journal: log,
        meta: intents,
        zones: data,
        members: drives.iter().map(listed).collect(),
        checkpoint: vec![CheckpointRoot::default()],
        further: None,
        replaces: None,
    }
}

/// The newest label on a drive, if it has one of ours.
pub async fn read<D: Drive>(drive: &D) -> Option<Superblock> {
    let mut copies = Vec::new();
    for offset in label_offsets(drive.geometry().size) {
        if let Ok(bytes) = drive.read(offset, LABEL_LEN).await {
            copies.push(label_at(&bytes, offset));
        }
    }
    newest(copies.into_iter()).ok()
}

/// What looks like a label on a drive that is to have another is gone, durably, when this returns:
/// a drive of another size has them in other places. Labels of the identity that the drive is to
/// keep stay, and are written over.
pub async fn wipe<D: Drive>(drive: &D) -> Result<(), DriveError> {
    match drive.identity() {
        Some(_) => Ok(()),
        None => wipe_all(drive).await,
    }
}

/// The same whoever the drive is.
pub async fn wipe_all<D: Drive>(drive: &D) -> Result<(), DriveError> {
    wipe_sized(drive, drive.geometry().size).await
}

/// The same, also where labels lie that say the drive has so many bytes, which may be fewer.
pub async fn wipe_sized<D: Drive>(drive: &D, size: u64) -> Result<(), DriveError> {
    let blank = |offset| drive.write(offset, Buf::zeroed(LABEL_LEN), Durability::Durable);
    let mut offsets = [label_offsets(size), label_offsets(drive.geometry().size)].concat();
    offsets.sort_unstable();
    offsets.dedup();
    join_all(offsets.into_iter().map(blank)).await.into_iter().collect()
}

/// What looks like a label where a drive has them, but none that says it has so many bytes has one,
/// is gone.
pub async fn wipe_others<D: Drive>(drive: &D, size: u64) -> Result<(), DriveError> {
    let own = label_offsets(size);
    let others = label_offsets(drive.geometry().size).into_iter().filter(|at| !own.contains(at));
    let blank = |offset| drive.write(offset, Buf::zeroed(LABEL_LEN), Durability::Durable);
    join_all(others.map(blank)).await.into_iter().collect()
}

/// Makes a spare of a drive: it has the pool's label, as it is now, and no place.
pub async fn write_spare<D: Drive>(
    pool: &Superblock,
    identity: Uuid,
    drive: &D,
) -> Result<(), DriveError> {
    let size = drive.geometry().size;
    let incompat = pool.features.incompat & !INCOMPAT_CHECKSUM_LOG | INCOMPAT_SPARE;
    let label = Superblock {
        drive: identity,
        index: SPARE_INDEX,
        generation: 0,
        drive_size: size,
        features: Features { incompat, ..pool.features },
        ..pool.clone()
    };
    wipe_all(drive).await?;
    write_one(&label, drive).await
}

/// Writes one drive's label, copies 0 and 2 before 1 and 3.
pub async fn write_one<D: Drive>(label: &Superblock, drive: &D) -> Result<(), DriveError> {
    for copies in [[0, 2], [1, 3]] {
        let copy = |copy: u8| {
            let at = label_offsets(label.drive_size)[usize::from(copy)];
            drive.write(at, Buf::from_slice(&label.encode(copy)), Durability::Durable)
        };
        join_all(copies.map(copy)).await.into_iter().collect::<Result<(), _>>()?;
    }
    Ok(())
}

/// The label as one of the drives has it.
pub fn for_drive(label: &Superblock, index: usize) -> Superblock {
    let listed = label.members[index];
    let (drive, drive_size) = (listed.drive, listed.size);
    Superblock { drive, index: index as u16, drive_size, ..label.clone() }
}

/// Writes the label to all drives that are there, also one that is being filled; those that can't
/// take it are lost. Copies 0 and 2 before 1 and 3, so that one generation is whole at every
/// moment.
pub async fn write<D: Drive>(label: &Superblock, members: &[Member<D>]) {
    write_but(label, members, None).await;
}

/// The same, but for the drive in one place.
pub async fn write_but<D: Drive>(label: &Superblock, members: &[Member<D>], but: Option<usize>) {
    let restoring = |index: usize| label.members[index].state == MemberState::Restoring;
    let there = (0..members.len()).filter(|&index| Some(index) != but).filter(|&index| {
        let filled = restoring(index) && members[index].rebuilt().is_some();
        !members[index].is_lost() || filled
    });
    let there: Vec<usize> = there.collect();
    for copies in [[0, 2], [1, 3]] {
        let each = there.iter().flat_map(|index| copies.map(|copy| (*index, copy)));
        join_all(each.map(|(index, copy)| write_copy(label, members, index, copy))).await;
    }
}

/// Writes it to one drive.
pub async fn write_to<D: Drive>(label: &Superblock, members: &[Member<D>], index: usize) {
    for copies in [[0, 2], [1, 3]] {
        join_all(copies.map(|copy| write_copy(label, members, index, copy))).await;
    }
}

async fn write_copy<D: Drive>(label: &Superblock, members: &[Member<D>], index: usize, copy: u8) {
    let own = for_drive(label, index);
    let at = label_offsets(own.drive_size)[usize::from(copy)];
    // One that can't take it is lost.
    let _ = members[index].write(at, Buf::from_slice(&own.encode(copy)), Durability::Durable).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rounding of rows leaves of the checksum area was taken for the log: of two pages,
    /// in which a write waits for ever.
    #[test]
    fn the_checksum_log_is_never_a_page_or_two() {
        let shapes =
            [(Redundancy::Mirror, 2), (Redundancy::Parity(0), 2), (Redundancy::Parity(1), 4)];
        for (redundancy, width) in shapes {
            for mib in 64..1100 {
                let any = Grid { redundancy, drives: width, width, chunk: 64 << 10, rows: 1 };
                let Division { intents, data, .. } = divide(mib << 20, &any, true);
                let grid = Grid { rows: data.len / any.chunk, ..any };
                let slots = ring_of(intents, &grid).slots();
                assert!(slots >= 40, "{redundancy:?}, {mib} MiB: {slots} pages");
            }
        }
    }
}
