//! The checkpoint slots of a drive. Each object has copies on three drives only, so what is
//! here is a part of the pool's.

use format::{
    ChunkObject, ConfigObject, Extent, FormatError, ObjectKey, SLOT_LEN, SlotHeader, SumsObject,
    Superblock, ZoneObject, decode_slot,
};
use io::Drive;
use serde::Serialize;

use super::{Windows, is_other_pool};
use crate::error::Outcome;
use crate::size::Size;

/// One slot in use.
#[derive(Serialize)]
pub struct Slot {
    pub offset: u64,
    pub object: String,
    pub seq: u64,
    pub part: u16,
    pub parts: u16,
    pub len: u32,
    /// Its checkpoint was finished. It may still be out of date: a newer slot of the same object
    /// may be here or on other drives.
    pub finished: bool,
    /// What the object says, if it is whole in this slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

#[derive(Serialize)]
pub struct Damaged {
    pub offset: u64,
    pub what: String,
}

#[derive(Serialize)]
pub struct Checkpoint {
    pub offset: u64,
    pub len: u64,
    pub slots: Vec<Slot>,
    pub damaged: Vec<Damaged>,
}

pub(crate) async fn read<D: Drive>(drive: &D, label: &Superblock) -> Outcome<Checkpoint> {
    let Extent { offset, len } = label.meta;
    let mut found = Checkpoint { offset, len, slots: Vec::new(), damaged: Vec::new() };
    let mut windows = Windows::new(drive, label.meta);
    let mut at = offset;
    while at + SLOT_LEN as u64 <= windows.end {
        let bytes = windows.at(at, SLOT_LEN).await?;
        match decode_slot(&bytes, &label.pool) {
            Ok((header, payload)) => found.slots.push(slot(at, &header, payload, label)),
            // Never written, or left by an earlier pool.
            Err(FormatError::BadMagic) => {}
            Err(error) if is_other_pool(&error, &label.pool) => {}
            Err(error) => found.damaged.push(Damaged { offset: at, what: error.to_string() }),
        }
        at += SLOT_LEN as u64;
    }
    Ok(found)
}

fn slot(at: u64, header: &SlotHeader, payload: &[u8], label: &Superblock) -> Slot {
    let root = label.checkpoint.get(usize::from(header.shard));
    Slot {
        offset: at,
        object: header.key.to_string(),
        seq: header.seq,
        part: header.part,
        parts: header.parts,
        len: header.len,
        finished: root.is_some_and(|root| header.seq <= root.seq),
        content: (header.parts == 1).then(|| content(&header.key, payload)),
    }
}

fn content(key: &ObjectKey, payload: &[u8]) -> String {
    let parts = [payload];
    let decoded = match key {
        ObjectKey::Chunk { .. } => ChunkObject::decode(&parts).map(|chunk| chunk_line(&chunk)),
        ObjectKey::Zone { .. } => ZoneObject::decode(&parts).map(|zone| zone_line(&zone)),
        ObjectKey::Config => ConfigObject::decode(&parts).map(|config| config_line(&config)),
        ObjectKey::Sums { .. } => SumsObject::decode(&parts).map(|sums| sums_line(&sums)),
    };
    decoded.unwrap_or_else(|error| error.to_string())
}

fn chunk_line(chunk: &ChunkObject) -> String {
    let mapped = (0..format::CHUNK_ENTRIES).filter(|&at| !chunk.entry(at).is_unmapped()).count();
    format!("{mapped} of {} blocks mapped, {} patched", format::CHUNK_ENTRIES, chunk.patches.len())
}

fn zone_line(zone: &ZoneObject) -> String {
    match zone.class {
        Some(class) if zone.round > 0 => {
            format!("class {class}, round {}, {} tuples", zone.round, zone.tuples.len())
        }
        Some(class) => format!("class {class}, {} tuples", zone.tuples.len()),
        None => "free".to_owned(),
    }
}

fn sums_line(sums: &SumsObject) -> String {
    format!("sums of {} pages", sums.sums.iter().filter(|sum| **sum != 0).count())
}

fn config_line(config: &ConfigObject) -> String {
    let classes = config.classes.iter().map(|class| {
        let data = class.width.saturating_sub(u16::from(class.parity));
        format!("class {} {data}+{}", class.id, class.parity)
    });
    let volumes = config.volumes.iter().map(|volume| {
        format!("volume {} {} {} class {}", volume.id, volume.name, Size(volume.size), volume.class)
    });
    let limits = config.limits.iter().map(|limits| {
        let (iops, bytes) = (limits.iops, limits.bytes_per_sec);
        format!("volume {} limited to {iops} op/s, {bytes} B/s (0: no limit)", limits.volume)
    });
    let lines: Vec<String> = classes.chain(volumes).chain(limits).collect();
    lines.join(", ")
}
