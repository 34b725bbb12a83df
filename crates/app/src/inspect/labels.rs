//! The copies of a drive's label, and what the newest says.

use format::{
    FormatError, LABEL_LEN, MemberState, SCHEME_FUSION_ND, Superblock, label_at, label_offsets,
};
use io::Drive;
use schemes::scheme::Scheme;
use serde::Serialize;

use crate::error::Outcome;
use crate::explain;

/// One copy.
#[derive(Serialize)]
pub struct Copy {
    pub offset: u64,
    /// `good`, or what is wrong with it.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    #[serde(skip)]
    pub decoded: Result<(Superblock, u8), FormatError>,
}

impl Copy {
    fn new(offset: u64, decoded: Result<(Superblock, u8), FormatError>) -> Copy {
        let (state, generation) = match &decoded {
            Ok((label, _)) => ("good".to_owned(), Some(label.generation)),
            Err(error) => (error.to_string(), None),
        };
        Copy { offset, state, generation, decoded }
    }
}

/// All four, those that lie outside a tiny drive left out.
pub(crate) async fn read<D: Drive>(drive: &D) -> Outcome<Vec<Copy>> {
    let size = drive.geometry().size;
    let mut offsets = label_offsets(size).to_vec();
    offsets.dedup();
    let mut copies = Vec::new();
    for offset in offsets.into_iter().filter(|offset| offset + LABEL_LEN as u64 <= size) {
        let bytes = drive.read(offset, LABEL_LEN).await;
        let bytes = bytes.map_err(|error| explain::drive(drive.name(), &error))?;
        copies.push(Copy::new(offset, label_at(&bytes, offset)));
    }
    Ok(copies)
}

#[derive(Serialize)]
pub struct Extent {
    pub offset: u64,
    pub len: u64,
}

impl From<format::Extent> for Extent {
    fn from(extent: format::Extent) -> Extent {
        Extent { offset: extent.offset, len: extent.len }
    }
}

#[derive(Serialize)]
pub struct Member {
    pub drive: String,
    /// `active`, `missing` or `failed`.
    pub state: &'static str,
    pub size: u64,
}

#[derive(Serialize)]
pub struct Root {
    pub seq: u64,
    pub journal_start: u64,
    pub objects: u64,
    pub fingerprint: u64,
}

/// A label's fields.
#[derive(Serialize)]
pub struct Label {
    pub pool: String,
    pub pool_name: String,
    /// Of a further array of a pool: that pool; `pool` is the array's own then.
    pub array_of: Option<String>,
    /// Arrays that the pool had before.
    pub array: u16,
    pub drive: String,
    pub index: u16,
    /// It has no place, and waits for one.
    pub spare: bool,
    /// The member in its place is being copied onto it.
    pub replacement: bool,
    pub generation: u64,
    pub epoch: u64,
    pub created_secs: u64,
    pub clean: bool,
    pub scheme: u16,
    pub scheme_name: &'static str,
    pub shards: u16,
    pub block_size: u32,
    pub zone_bytes: u64,
    pub zone_count: u32,
    pub drive_size: u64,
    pub compatible_features: u64,
    pub incompatible_features: u64,
    pub journal: Extent,
    pub metadata: Extent,
    pub zones: Extent,
    pub members: Vec<Member>,
    pub checkpoint: Vec<Root>,
}

fn scheme_name(label: &Superblock) -> &'static str {
    let nd = label.scheme == SCHEME_FUSION_ND;
    Scheme::of(label).map_or(if nd { "fusion-nd" } else { "fusion" }, Scheme::name)
}

impl From<&Superblock> for Label {
    fn from(label: &Superblock) -> Label {
        Label {
            pool: label.pool.to_string(),
            pool_name: label.pool_name.clone(),
            array_of: label.further.map(|further| further.pool.to_string()),
            array: label.array(),
            drive: label.drive.to_string(),
            index: label.index,
            spare: label.is_spare(),
            replacement: label.is_replacement(),
            generation: label.generation,
            epoch: label.epoch,
            created_secs: label.created_secs,
            clean: label.clean,
            scheme: label.scheme,
            scheme_name: scheme_name(label),
            shards: label.shards,
            block_size: label.block_size,
            zone_bytes: label.zone_bytes,
            zone_count: label.zone_count,
            drive_size: label.drive_size,
            compatible_features: label.features.compat,
            incompatible_features: label.features.incompat,
            journal: label.journal.into(),
            metadata: label.meta.into(),
            zones: label.zones.into(),
            members: label.members.iter().map(Member::from).collect(),
            checkpoint: label.checkpoint.iter().map(Root::from).collect(),
        }
    }
}

impl From<&format::Member> for Member {
    fn from(member: &format::Member) -> Member {
        let state = match member.state {
            MemberState::Active => "active",
            MemberState::Missing => "missing",
            MemberState::Failed => "failed",
            MemberState::Restoring => "restoring",
            MemberState::Vacated => "vacated",
            MemberState::Leaving => "leaving",
        };
        Member { drive: member.drive.to_string(), state, size: member.size }
    }
}

impl From<&format::CheckpointRoot> for Root {
    fn from(root: &format::CheckpointRoot) -> Root {
        Root {
            seq: root.seq,
            journal_start: root.journal_start,
            objects: root.objects,
            fingerprint: root.fingerprint,
        }
    }
}
