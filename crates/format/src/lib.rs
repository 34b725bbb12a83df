//! Bytes on disk: labels (superblocks), journal blocks and records, map entries, checkpoint
//! objects, and the signatures of other people's formats.
//!
//! Pure: bytes in, values out, and back. No I/O, no clock, no knowledge of drives. Every structure
//! carries magic, version, length, CRC32C, pool and a sequence; every file begins with its drawing;
//! `docs/on-disk-format.md` says what the fields mean and why recovery is right.
//!
//! Decoding is for hostile bytes: it never panics and never allocates by a length it has not
//! checked. Encoding is for our own values: one that could not be read back stops the program
//! (`assert!`) before it reaches a drive.

pub mod checkpoint;
pub mod claim;
mod cursor;
pub mod drive;
pub mod entry;
pub mod error;
pub mod features;
pub mod ids;
pub mod journal;
pub mod object;
pub mod record;
mod record_text;
pub mod signature;

pub use checkpoint::{
    CHUNK_ENTRIES, ObjectKey, SLOT_HEADER_LEN, SLOT_LEN, SLOT_PAYLOAD, SlotHeader, decode_slot,
    encode_object, encode_slot, fingerprint, object_crc, object_crc_append,
};
pub use claim::{BEAT_AT, CLAIM_AT, CLAIM_LEN, Claim, ClaimState, Holder, Seen};
pub use drive::{
    ARRAYS_MAX, CheckpointRoot, Extent, Further, LABEL_AREA, LABEL_LEN, Member, MemberState,
    SCHEME_ALTERNATE, SCHEME_CACHED_RAID5, SCHEME_FUSION, SCHEME_FUSION_ND, SCHEME_HPDA,
    SCHEME_HYBRID, SCHEME_LOG_MIRROR, SCHEME_LOG_RAID, SCHEME_MIRROR_LOG, SCHEME_MIRRORS,
    SCHEME_N_RAID5, SCHEME_PARITY_DRIVE, SCHEME_PARITY1, SCHEME_PARITY2, SCHEME_STEERING,
    SCHEME_STRIPES, SCHEME_TOLE_RAID, SPARE_INDEX, Superblock, end_area, label_at, label_offsets,
    newest,
};
pub use entry::{BmtEntry, ENTRY_LEN, PATCH_LEN, Patch};
pub use error::FormatError;
pub use features::{
    COMPAT_BLANK_SLOTS, Features, INCOMPAT_ARRAY_SUMS, INCOMPAT_CHECKSUM_LOG, INCOMPAT_FURTHER,
    INCOMPAT_GROUP_LOGS, INCOMPAT_GROUPS, INCOMPAT_LEAVING, INCOMPAT_LIMITS, INCOMPAT_LISTS,
    INCOMPAT_LOG_SUMS, INCOMPAT_REPLACES, INCOMPAT_RESTORING, INCOMPAT_SET, INCOMPAT_SPARE,
    INCOMPAT_SUBSTITUTES, INCOMPAT_SUMS, KNOWN_INCOMPAT,
};
pub use ids::{
    ClassId, Flbn, MAX_BLOCK_PAGES, MAX_BLOCK_SECTORS, NAME_MAX, PAGE, Place, SECTOR, SectorRange,
    StripeId, Uuid, VolumeId, valid_name, valid_new_name,
};
pub use journal::{
    BlockBuilder, JOURNAL_ALIGN, JOURNAL_BLOCK_MAX, JOURNAL_HEADER_LEN, JournalHeader,
    decode_block, peek_header,
};
pub use object::{
    ChunkObject, ChunkParts, ClassImage, ConfigObject, LimitsImage, PatchedBlock, SUMS_ENTRIES,
    SubstituteImage, SumsObject, TupleImage, VolumeImage, ZoneObject,
};
pub use record::Record;
pub use signature::{Foreign, Own, own_label, probe, probe_all};

/// Version of every structure this crate writes. It reads no other: a change that old software
/// would misread raises it, or takes an incompatible feature bit in the label.
pub const VERSION: u16 = 1;
