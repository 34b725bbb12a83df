//! The plain values that cross the engine's edge: what is asked, what is answered.

use std::fmt;

use format::{FormatError, Uuid};
use io::{DriveError, Nanos};
use layout::LayoutError;

mod tail;
pub use tail::*;

/// When replicated data becomes RAID data (FusionRAID §4.2, "policies").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConversionPolicy {
    /// When the replicated area is over its size or free space is short. Hot blocks die as
    /// replicas and are never converted.
    #[default]
    Lazy,
    /// As soon as a tuple is full.
    Eager,
}

/// What `create` is asked for. Defaults are what an operator never has to touch.
#[derive(Clone, Debug)]
pub struct CreateSpec {
    pub name: String,
    /// Drives that may die: 1 (RAID5) or 2 (RAID6).
    pub parity: u8,
    /// Stripe width; by default six data blocks plus parity, or all drives if fewer.
    pub width: Option<u16>,
    /// Stripe unit in bytes: a power of two, 4 KiB to 1 MiB.
    pub block_size: u32,
    /// Share of the pool's stripes that may hold replicated data, in percent.
    pub replicated_percent: u8,
    pub conversion: ConversionPolicy,
    /// Without it the pool says of itself that it is to be served without handling spikes
    /// (FusionRAID's Fusion-ND); who opens it decides.
    pub detection: bool,
    /// Keep a sum of every page of data, and look at it whenever the page is read.
    pub checksums: bool,
    /// Seconds since the epoch, recorded for people.
    pub created_secs: u64,
}

impl CreateSpec {
    pub const BLOCK_SIZE_DEFAULT: u32 = 64 << 10;
    pub const REPLICATED_PERCENT_DEFAULT: u8 = 10;

    pub fn new(name: &str) -> CreateSpec {
        CreateSpec {
            name: name.to_owned(),
            parity: 1,
            width: None,
            block_size: CreateSpec::BLOCK_SIZE_DEFAULT,
            replicated_percent: CreateSpec::REPLICATED_PERCENT_DEFAULT,
            conversion: ConversionPolicy::Lazy,
            detection: true,
            checksums: true,
            created_secs: 0,
        }
    }
}

/// What `create` would do, for `--dry-run` and for the report afterwards. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct CreatePlan {
    pub width: u16,
    pub parity: u8,
    pub block_size: u32,
    pub drives: usize,
    pub zone_bytes: u64,
    pub zones: u32,
    /// Sum of the drives' sizes.
    pub raw_bytes: u64,
    /// What volumes can hold at this shape.
    pub usable_bytes: u64,
    /// Capacity of larger drives that this pool can't use.
    pub unused_bytes: u64,
    /// Journal on each drive.
    pub journal_bytes: u64,
    /// Checkpoint area on each drive.
    pub metadata_bytes: u64,
    /// Memory that sums of pages take when the pool is full; 0 without them.
    pub checksum_bytes: u64,
    /// One sentence: which layout, how balanced.
    pub layout: String,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("pool name '{0}': use 1 to 63 letters, digits, '.', '_' or '-', not '.' or '..'")]
    Name(String),
    #[error("{0}")]
    Layout(#[from] LayoutError),
    #[error("parity {0}: use 1 (RAID5) or 2 (RAID6)")]
    Parity(u8),
    #[error("block size {0}: use a power of two from 4 KiB to 1 MiB")]
    BlockSize(u64),
    #[error("replicated area of {0} %: use 2 to 50")]
    ReplicatedPercent(u8),
    #[error(
        "drive {name}: {size} bytes is too small; this pool needs at least {least} bytes a drive"
    )]
    DriveTooSmall { name: String, size: u64, least: u64 },
    #[error("drive {name}: {error}")]
    Drive { name: String, error: DriveError },
    #[error(
        "stripes of {width} blocks of {block_size} bytes don't fit a zone of {zone_bytes} \
         bytes: use a smaller width"
    )]
    WidthForZone { width: u16, block_size: u32, zone_bytes: u64 },
    #[error("pool too large: block numbers have 38 bits; use larger blocks")]
    TooLarge,
    #[error("the new pool does not open: {0}")]
    Open(Box<OpenError>),
}

#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Look, don't touch: nothing is written, not even recovery.
    pub read_only: bool,
    pub spikes: SpikeHandling,
    /// Tell drives in the background which stripes hold nothing any more (TRIM).
    pub discard: bool,
    /// How long after a drive was lost the others begin to take over what it held; `None`: they
    /// never do.
    pub rebuild_after: Option<Nanos>,
}

impl OpenOptions {
    /// Long enough for a drive that was pulled by mistake, or for one that stands ready.
    pub const REBUILD_AFTER: Nanos = Nanos::from_secs(30);
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            read_only: false,
            spikes: SpikeHandling::default(),
            discard: true,
            rebuild_after: Some(OpenOptions::REBUILD_AFTER),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("no drives given")]
    NoDrives,
    #[error("drive {name}: {error}")]
    Drive { name: String, error: DriveError },
    #[error("drive {name}: not a SteadyRAID drive ({what})")]
    NotOurs { name: String, what: String },
    #[error(
        "drive {name} belongs to pool {found} ({found_uuid}), not to {expected} ({expected_uuid})"
    )]
    OtherPool {
        name: String,
        found: String,
        found_uuid: Uuid,
        expected: String,
        expected_uuid: Uuid,
    },
    #[error("drives {first} and {second} are copies of one another (drive {uuid}): remove one")]
    Duplicate { first: String, second: String, uuid: Uuid },
    #[error(
        "pool {pool}: {missing} of {drives} drives are missing, at most {tolerated} may be; \
         missing: {list}"
    )]
    TooManyMissing { pool: String, missing: usize, drives: usize, tolerated: usize, list: String },
    #[error("pool {pool}: {what}; restore the missing drives or a backup")]
    Damaged { pool: String, what: String },
    #[error("{0}")]
    Format(#[from] FormatError),
    #[error("{0}")]
    Layout(#[from] LayoutError),
}

/// Why a verb on volumes was refused.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error("volume name '{0}': use 1 to 63 letters, digits, '.', '_' or '-', not '.' or '..'")]
    Name(String),
    #[error("volume {0} exists already")]
    Exists(String),
    #[error("no volume {0}")]
    NotFound(String),
    #[error("volume size {0} bytes: must be a positive multiple of 512")]
    Size(u64),
    #[error(
        "volume {name} holds data beyond {size} bytes (up to {used}): discard that first, or \
         delete the volume"
    )]
    ShrinkBelowData { name: String, size: u64, used: u64 },
    #[error("volume {0} is in use: disconnect its clients first")]
    InUse(String),
    #[error("{0}")]
    Shape(#[from] CreateError),
    #[error("{0}")]
    Request(#[from] RequestError),
    #[error(
        "with it volumes would have stripes of {shapes} shapes, and this pool is too small for \
         so many: those of {}+{parity} would be left without room", width - u16::from(*parity)
    )]
    Crowded { shapes: usize, width: u16, parity: u8 },
    #[error("a pool holds at most {0} volumes and classes")]
    TooMany(usize),
}

/// Why a verb on a drive was refused.
#[derive(Debug, thiserror::Error)]
pub enum DriveVerbError {
    #[error("no drive {index}: the pool has drives 0 to {}", drives - 1)]
    NotFound { index: u16, drives: usize },
    #[error(
        "drive {index} is needed: with it {gone} drives would be gone, and the pool's volumes \
         survive the loss of {parity}"
    )]
    Needed { index: u16, gone: usize, parity: usize },
    #[error("drive {index} is {state}, or being replaced: it can't be replaced now")]
    NotLost { index: u16, state: DriveState },
    #[error("drive {index} is {state}: only an active drive can be removed")]
    NotActive { index: u16, state: DriveState },
    #[error("drive {index} is being removed: stop that first, or wait until it is over")]
    Removing { index: u16 },
    #[error("drive {index} is not being removed")]
    NotRemoving { index: u16 },
    #[error("without drive {index} {left} drives would be left, and stripes are {width} wide")]
    TooNarrow { index: u16, left: usize, width: usize },
    #[error(
        "drive {index} holds {needed} bytes, and the others have room for {room} more: delete \
         something first"
    )]
    NoRoom { index: u16, needed: u64, room: u64 },
    #[error("drive {name} has {size} bytes, and the place of drive {index} needs {least}")]
    TooSmall { index: u16, name: String, size: u64, least: u64 },
    #[error("drive {name} failed as soon as it was in place {index}: use another")]
    FailedAtOnce { index: u16, name: String },
    #[error("drive {name}: {error}")]
    Drive { name: String, error: DriveError },
    #[error("{0}")]
    Request(#[from] RequestError),
}

/// Why a read, write, flush or discard failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("no space: the pool is over-committed and full")]
    NoSpace,
    #[error("input/output error: {0}")]
    Io(String),
    #[error("outside the volume, or not a multiple of 512 bytes")]
    OutOfRange,
    #[error("the pool is open read-only")]
    ReadOnly,
    #[error("the pool is closed")]
    Closed,
}

#[derive(Clone, Debug)]
pub struct VolumeInfo {
    pub id: u32,
    pub name: String,
    pub size: u64,
    pub width: u16,
    pub parity: u8,
    /// Bytes of the volume that hold data.
    pub mapped_bytes: u64,
    /// Of its requests, as the engine's caller sees them.
    pub latency: OperationLatencies,
    pub counters: RequestCounters,
    /// Requests that have come and are not answered.
    pub under_way: u64,
    pub limits: VolumeLimits,
    /// Requests that waited because of the limits.
    pub throttled: u64,
}

/// What a volume is, without what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeShape {
    pub name: String,
    pub size: u64,
    pub width: u16,
    pub parity: u8,
}

/// A run of a volume's bytes that hold data, or read as zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeExtent {
    pub len: u64,
    pub allocated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveState {
    Active,
    Missing,
    Failed,
    /// It has taken a lost drive's place, and is being filled.
    Restoring,
    /// It is not used, and nothing is missing without it: other drives have what it held.
    Vacated,
}

impl fmt::Display for DriveState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriveState::Active => "active",
            DriveState::Missing => "missing",
            DriveState::Failed => "failed",
            DriveState::Restoring => "restoring",
            DriveState::Vacated => "vacated",
        })
    }
}

#[derive(Clone, Debug)]
pub struct DriveStatus {
    pub index: u16,
    pub uuid: Uuid,
    /// Path or `mem:N`; empty when missing.
    pub name: String,
    pub state: DriveState,
    pub size: u64,
    pub counters: DriveCounters,
    /// What is freed is told to it; `None` of one that is not here.
    pub takes_discards: Option<bool>,
    pub health: DriveHealth,
    pub decided: DriveOverride,
    /// It is slower than its peers for seconds.
    pub slow: Option<SlowDrive>,
    pub spikes: SpikeStatus,
    pub latency: OperationLatencies,
    /// Operations that it has been given and has not answered.
    pub under_way: u64,
    /// Blocks that it is still waiting for, and how many there were, while it is restored.
    pub awaited: Option<(u64, u64)>,
    /// While it is copied onto another: what that is called, and the bytes left and in all.
    pub replacing: Option<(String, u64, u64)>,
}

/// Operations on one drive since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveCounters {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Ranges that it was told to hold nothing, and took.
    pub discards: u64,
    pub discard_bytes: u64,
    pub read_errors: u64,
    pub write_errors: u64,
    /// Pages that were not what was written, or refused; those that were written again.
    pub bad_pages: u64,
    pub healed_pages: u64,
}

/// Where the blocks of a stripe lie by the layout (FusionRAID §4.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StripePlaces {
    /// Counted over all zones that could be of the pool's own class.
    pub number: u64,
    /// Indexes of drives.
    pub data: Vec<u16>,
    pub parity: Vec<u16>,
    /// Has the stripe's place for a block whose own drive is lost.
    pub spare: Option<u16>,
}

/// Space of the pool by what it is used for, in bytes of drive space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStatus {
    pub total: u64,
    pub replicated: u64,
    pub raid: u64,
    /// Dead but not yet reusable.
    pub limbo: u64,
    pub free: u64,
    /// User bytes that are mapped, how many more can be, and both together: less where drives are
    /// lost or spared, or where volumes have shapes with more parity.
    pub used: u64,
    pub available: u64,
    pub usable: u64,
}

/// What the engine did since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub flushes: u64,
    /// Those that did not wait for a drive that hung.
    pub spared_flushes: u64,
    pub trims: u64,
    pub replicated_writes: u64,
    pub patch_writes: u64,
    pub stripe_writes: u64,
    /// Reads computed from the rest of a stripe, whatever for: what they went round had failed, was
    /// late or slow.
    pub reconstructed_reads: u64,
    pub conversions: u64,
    pub compacted_stripes: u64,
    pub relocated_bytes: u64,
    /// Blocks written to drives that took a lost one's place.
    pub restored_blocks: u64,
    /// Blocks given substitutes because their drives were lost or left, or brought home again.
    pub rebuilt_blocks: u64,
    pub merged_blocks: u64,
    pub journal_blocks: u64,
    pub journal_bytes: u64,
    pub checkpoints: u64,
    pub checkpoint_bytes: u64,
    pub space_waits: u64,
    /// Those that were refused for want of it.
    pub space_refusals: u64,
    /// Slots, lanes and stripes passed over because of an unresponsive drive.
    pub redirected_writes: u64,
    /// Reads of another copy, or rebuilt, because of an unresponsive drive.
    pub redirected_reads: u64,
    /// Requests sent a second way because the first was late; how often that way was first;
    /// how often the budget forbade it.
    pub hedged_reads: u64,
    pub hedged_writes: u64,
    pub hedged_journal_blocks: u64,
    pub hedge_wins: u64,
    pub hedges_refused: u64,
    /// How often so many drives were behind at once that nothing went round them, and for how long
    /// (ns).
    pub loads: u64,
    pub load_nanos: u64,
    /// Pages that were read and are not what was written.
    pub checksum_errors: u64,
    /// Those, and pages that drives refused, that were written again.
    pub healed_pages: u64,
    /// Pages that can't be had any more.
    pub lost_pages: u64,
    /// Pages of parity that did not fit their data, written again.
    pub mended_parity: u64,
    /// Reads that had to be put together page by page.
    pub salvaged_reads: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatus {
    pub map_bytes: u64,
    pub space_bytes: u64,
    pub tuple_bytes: u64,
    pub patch_bytes: u64,
    pub patches: u64,
    pub patch_budget_bytes: u64,
    /// Sums of pages.
    pub sum_bytes: u64,
    /// The last checkpoint on the drives, one copy of it.
    pub checkpoint_bytes: u64,
}

/// What opening had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    pub clean: bool,
    pub objects_loaded: u64,
    pub blocks_replayed: u64,
    pub records_replayed: u64,
    pub records_verified: u64,
    pub records_dropped: u64,
    pub copies_healed: u64,
    pub load_nanos: u64,
    pub replay_nanos: u64,
}

#[derive(Clone, Debug)]
pub struct PoolStatus {
    pub name: String,
    pub uuid: Uuid,
    pub scheme: &'static str,
    pub block_size: u32,
    pub parity: u8,
    pub width: u16,
    pub layout: String,
    pub read_only: bool,
    /// Why the pool refuses writes, if it does.
    pub failed: Option<String>,
    pub drives: Vec<DriveStatus>,
    pub volumes: Vec<VolumeInfo>,
    pub space: SpaceStatus,
    pub counters: Counters,
    pub memory: MemoryStatus,
    pub recovery: RecoveryReport,
    pub replicated_percent: u8,
    pub conversion: ConversionPolicy,
    /// Pages of data have sums.
    pub checksums: bool,
    pub scrub: ScrubStatus,
    /// Pages that nothing gives, as far as is known: found since the pool was opened, without
    /// those that the last whole scrub did not find any more.
    pub lost_pages: u64,
    pub rebalance: RebalanceStatus,
    pub journal_fill_percent: u8,
    /// What the pool was opened with.
    pub spike_handling: SpikeHandling,
    pub backlog: BacklogStatus,
    /// Drives that may still die before data is lost: parity less the drives gone.
    pub redundancy_margin: u8,
    /// In how many ways the least protected data can be had: as a copy, or from parity.
    pub surviving_copies: u8,
    /// Of second ways of late reads, and of late writes.
    pub read_hedges: HedgeBudget,
    pub write_hedges: HedgeBudget,
    /// Drives are behind because of what is asked of them, now (`policy::load`).
    pub loaded: bool,
    pub rebuild: RebuildStatus,
}

/// How far what lost or leaving drives held has come elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RebuildStatus {
    /// It stands still because an operator said so.
    pub paused: bool,
    /// It stands still because there is no room for more.
    pub waits_for_space: bool,
    /// Blocks of stripes that lie elsewhere than the layout has them.
    pub substitutes: u64,
    pub drives: Vec<RebuildProgress>,
}

/// Of one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildProgress {
    pub drive: u16,
    pub work: RebuildWork,
    /// Blocks that are still to be written, and how many there were.
    pub left: u64,
    pub total: u64,
    /// At the rate of the last seconds.
    pub eta: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebuildWork {
    /// Lost: the others take over what it held.
    Rebuild,
    /// To be let go of: the others take over what it holds.
    Drain,
    /// In a lost one's place: it gets what it should hold.
    Restore,
    /// Back: it gets what others have taken over.
    Return,
    /// It works, and is copied onto another, which takes its place.
    Copy,
}
