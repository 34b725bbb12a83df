//! The last checkpoint and the labels, as they lie on the drives.

use format::{
    CHUNK_ENTRIES, LABEL_LEN, ObjectKey, SLOT_LEN, Superblock, decode_slot, label_offsets,
};
use io::Env;
use layout::DriveIndex;

use super::parity::difference;
use super::report::{AuditReport, Findings, Rule};
use super::tables::Tables;
use crate::checkpoint::image::StoredImage;
use crate::label::for_drive;
use crate::shard::Shard;

/// The caller keeps checkpoints from being written meanwhile.
pub async fn check<E: Env>(
    shard: &Shard<E>,
    tables: &Tables,
    report: &mut AuditReport,
    findings: &mut Findings,
) {
    check_present(tables, findings);
    for object in &tables.meta.objects {
        for &(part, slot) in &object.homes {
            check_slot(shard, object, (usize::from(part), slot), report, findings).await;
        }
    }
    // Looking on changes nothing, so that labels of an update cut short stay as they are.
    if !shard.read_only {
        let _still = shard.labels.hold().await;
        // A drive that has just taken another one's place gets its label next.
        let label = shard.labels.get();
        let known = |index: &DriveIndex| {
            label.members[usize::from(index.0)].drive == shard.array.member(*index).uuid()
        };
        for index in shard.array.active().into_iter().filter(known) {
            check_labels(shard, index, report, findings).await;
        }
    }
}

/// What exists was written, or waits for the next checkpoint.
fn check_present(tables: &Tables, findings: &mut Findings) {
    let stored = |key: ObjectKey| {
        tables.meta.objects.binary_search_by_key(&key, |object| object.key).is_ok()
    };
    for chunk in tables.map.chunks.iter().filter(|chunk| !chunk.dirty) {
        let key = ObjectKey::Chunk { volume: chunk.volume, chunk: chunk.chunk };
        findings.check(stored(key), Rule::Checkpoint, || {
            let volume = tables.volume_name(chunk.volume);
            let first = u64::from(chunk.chunk) * CHUNK_ENTRIES as u64;
            format!("the map of {volume} from block {first} on is in no checkpoint, nor due")
        });
    }
    for (number, zone) in (0..).zip(&tables.space.zones) {
        let clean = zone.is_some() && !tables.space.dirty_zones.contains(&number);
        let good = !clean || stored(ObjectKey::Zone { zone: number });
        findings.check(good, Rule::Checkpoint, || {
            format!("zone {number} is in no checkpoint, nor due for the next")
        });
    }
}

/// All copies of one slot hold what they should.
async fn check_slot<E: Env>(
    shard: &Shard<E>,
    object: &StoredImage,
    (part, slot): (usize, u32),
    report: &mut AuditReport,
    findings: &mut Findings,
) {
    let (pool, area) = (shard.labels.pool(), shard.labels.meta().offset);
    let places = shard.state.borrow().meta.places(slot);
    for (drive, at) in places {
        let read = shard.array.read(drive, area + at, SLOT_LEN).await;
        let Some(bytes) = read.ok().filter(|_| shard.array.is_whole(drive)) else {
            report.metadata_skipped += 1;
            continue;
        };
        report.metadata_checked += 1;
        let fault = match decode_slot(&bytes, &pool) {
            Err(error) => Some(error.to_string()),
            Ok((header, payload)) => {
                let found = (header.key, header.seq, usize::from(header.part));
                let wanted = (object.key, object.seq, part);
                let now = object.parts.as_ref().and_then(|parts| parts.get(part));
                if found != wanted {
                    Some(format!("it holds {found:?} instead"))
                } else {
                    let differs = now.and_then(|now| difference(now, payload));
                    differs.map(|at| format!("byte {at} differs, though nothing changed since"))
                }
            }
        };
        if let Some(fault) = fault {
            findings.add(Rule::Checkpoint, || {
                let StoredImage { key, seq, .. } = object;
                format!("{key:?} of checkpoint {seq}, slot {slot} on drive {drive}: {fault}")
            });
        }
    }
}

async fn check_labels<E: Env>(
    shard: &Shard<E>,
    index: DriveIndex,
    report: &mut AuditReport,
    findings: &mut Findings,
) {
    let before = shard.labels.get();
    let own = for_drive(&before, usize::from(index.0));
    for (copy, offset) in label_offsets(own.drive_size).into_iter().enumerate() {
        let Ok(bytes) = shard.array.read(index, offset, LABEL_LEN).await else {
            report.metadata_skipped += 1;
            continue;
        };
        report.metadata_checked += 1;
        let fault = match Superblock::decode(&bytes) {
            Ok((label, number)) if label == own && usize::from(number) == copy => continue,
            Ok((label, number)) => {
                format!("it is copy {number} of generation {}", label.generation)
            }
            Err(error) => error.to_string(),
        };
        findings.add(Rule::Labels, || {
            let wanted = own.generation;
            format!("label {copy} of drive {index}, of generation {wanted}: {fault}")
        });
    }
}
