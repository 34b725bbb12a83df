//! The plain values of flat latency: how spikes are handled, what is known of each drive's
//! answers, and what happened.

use std::fmt;

use format::FormatError;
use io::{DriveError, Nanos};

pub use io::latency::{Latencies, OperationLatencies};
pub use io::tally::RequestCounters;
pub use members::events::Severity;
pub use members::slow::{SlowDrive, SlowKind};
pub use policy::hedge::Cost;

use super::{OpenError, RequestError};

/// The straggler threshold t of FusionRAID §4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    Fixed(Nanos),
    /// Learned for each drive from its own recent latencies and its peers' (`policy::learn`).
    Learned,
}

/// How latency spikes are detected and gone round (FusionRAID §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpikeHandling {
    /// Count stragglers, keep histograms, tell who is unresponsive.
    pub detect: bool,
    /// Writes and reads go round unresponsive drives. Needs `detect`.
    pub redirect: bool,
    /// Requests that are late are sent again another way. Needs `detect`.
    pub hedge: bool,
    /// Drives that stay slow or hang are avoided, then suspected, then failed. Needs `detect`.
    pub ladder: bool,
    /// t, in y slots.
    pub threshold: Threshold,
    pub slots: u8,
    /// x̂: this many stragglers make a drive unresponsive.
    pub enter: u32,
    /// x̌: at this many or fewer it is back.
    pub leave: u32,
}

impl SpikeHandling {
    pub const OFF: SpikeHandling = SpikeHandling {
        detect: false,
        redirect: false,
        hedge: false,
        ladder: false,
        threshold: Threshold::Learned,
        slots: 10,
        enter: 2,
        leave: 0,
    };
    /// Detection counts, nothing acts on it: the paper's Fusion-ND.
    pub const WATCH: SpikeHandling = SpikeHandling { detect: true, ..SpikeHandling::OFF };
    /// Detection and redirection, nothing more: FusionRAID as published.
    pub const PAPER: SpikeHandling = SpikeHandling {
        redirect: true,
        threshold: Threshold::Fixed(Nanos::from_millis(2)),
        ..SpikeHandling::WATCH
    };
}

impl Default for SpikeHandling {
    fn default() -> SpikeHandling {
        SpikeHandling { redirect: true, hedge: true, ladder: true, ..SpikeHandling::WATCH }
    }
}

/// What second ways of late requests may cost at this moment, and what those have cost that were
/// not first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HedgeBudget {
    pub left: Cost,
    pub lost: Cost,
}

/// Where a drive stands on the ladder of `policy::health`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriveHealth {
    /// Used like any other.
    #[default]
    Good,
    /// Slower than its peers for longer than a spike: gone round, and probed by the engine.
    Avoided,
    /// Gone round, and close to being failed.
    Suspect,
}

impl fmt::Display for DriveHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriveHealth::Good => "good",
            DriveHealth::Avoided => "avoided",
            DriveHealth::Suspect => "suspect",
        })
    }
}

/// What an operator has decided about a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriveOverride {
    /// The ladder decides.
    #[default]
    Automatic,
    /// Gone round until told otherwise.
    SitOut,
    /// Never gone round for slowness, never failed for it.
    Trusted,
}

impl fmt::Display for DriveOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriveOverride::Automatic => "automatic",
            DriveOverride::SitOut => "sit-out",
            DriveOverride::Trusted => "trusted",
        })
    }
}

/// What the spike detector of one drive has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpikeStatus {
    /// Stragglers now, and since the pool was opened.
    pub stragglers: u64,
    pub stragglers_total: u64,
    /// In a spike now.
    pub unresponsive: bool,
    /// Spikes so far and their time together, a running one included.
    pub spikes: u64,
    pub spike_nanos: u64,
    /// t at the moment.
    pub threshold_nanos: u64,
}

/// Limits of one volume; zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeLimits {
    pub iops: u64,
    pub bytes_per_sec: u64,
}

/// What background work has before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacklogStatus {
    /// Tuples of stripes not converted yet, and how many of them have to be.
    pub tuples: u64,
    pub tuples_due: u64,
    /// Dead stripes that are not free yet.
    pub limbo_stripes: u64,
    /// Need for space, 0 (none) to 1000 (writers wait).
    pub pressure_permille: u16,
    /// Bytes read and written by background work.
    pub background_bytes: u64,
    /// Times background work waited for requests.
    pub pauses: u64,
    /// Free space that drives have not been told of, and that they have.
    pub discard_pending_bytes: u64,
    pub discarded_bytes: u64,
}

/// Where a scrub stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubState {
    /// There was none since the pool was opened.
    #[default]
    Never,
    Running,
    Paused,
    Done,
    /// By somebody, or because the pool was closed.
    Stopped,
}

impl fmt::Display for ScrubState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScrubState::Never => "never begun",
            ScrubState::Running => "running",
            ScrubState::Paused => "paused",
            ScrubState::Done => "done",
            ScrubState::Stopped => "stopped",
        })
    }
}

/// The last scrub since the pool was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    pub state: ScrubState,
    /// Bytes of drives read, and in use when it began.
    pub checked_bytes: u64,
    pub total_bytes: u64,
    /// Pages that were not what was written, or that a drive refused.
    pub bad_pages: u64,
    pub repaired_pages: u64,
    /// Pages of parity that did not fit their data.
    pub repaired_parity: u64,
    /// Bad pages that can't be had any more.
    pub lost_pages: u64,
    /// Copies of metadata that were damaged.
    pub metadata_repaired: u64,
    /// On the environment's clock.
    pub started_nanos: u64,
    /// Or now, if it has not.
    pub ended_nanos: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Spikes of drives are over.
    Spike,
    /// Many drives were behind at a time, which is no spike.
    Load,
    DriveAvoided,
    /// It is slower than its peers for seconds.
    DriveSlow,
    DriveSuspect,
    DriveFailed,
    /// The file that is the drive is in no directory any more: it is lost when it is closed.
    DriveDeleted,
    /// It has become smaller while it was used.
    DriveShrunk,
    /// Somebody else wrote to a drive in use; its name leads to another one.
    DriveOverwritten,
    DriveElsewhere,
    /// Requests to it kept the whole server.
    DriveBlocks,
    /// A drive is not there, or out of date, as the pool is opened.
    DriveMissing,
    /// A drive has taken a lost one's place.
    DriveRestoring,
    DriveRestored,
    /// A drive that works is copied onto another one.
    DriveReplacing,
    /// Which has taken its place.
    DriveReplaced,
    /// Which came to nothing.
    ReplaceFailed,
    /// What a drive held begins to be taken over by others, or is; nothing is missed without it.
    RebuildBegun,
    DriveVacated,
    /// There is no room for what lost drives held.
    RebuildWaits,
    /// Blocks can't be computed: more drives than the parity bears could not be read there.
    BlocksLost,
    /// Pages that were wrong or refused have been written again.
    PagesHealed,
    /// A page can't be had any more.
    PageLost,
    ScrubStarted,
    ScrubEnded,
    /// Drives have joined while the pool was used.
    DrivesAdded,
    /// Which came to nothing.
    AddFailed,
    /// A drive is used again like any other.
    DriveGood,
    /// An operator has decided about a drive.
    DriveOverride,
    /// Need for space rose past, or fell below, a mark.
    SpacePressure,
    /// Most of the space is used; there is more again; writes were refused.
    SpaceLow,
    SpaceEnough,
    SpaceRefused,
    /// This machine lacks what drives need that are its files: writes wait. And it is over.
    NoRoom,
    RoomAgain,
    /// All zones lie on all drives that have them.
    Rebalanced,
    PoolFailed,
}

impl EventKind {
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Spike => "spike",
            EventKind::Load => "load",
            EventKind::DriveAvoided => "drive-avoided",
            EventKind::DriveSlow => "drive-slow",
            EventKind::DriveSuspect => "drive-suspect",
            EventKind::DriveFailed => "drive-failed",
            EventKind::DriveDeleted => "drive-deleted",
            EventKind::DriveShrunk => "drive-shrunk",
            EventKind::DriveOverwritten => "drive-overwritten",
            EventKind::DriveElsewhere => "drive-elsewhere",
            EventKind::DriveBlocks => "drive-blocks",
            EventKind::DriveMissing => "drive-missing",
            EventKind::DriveRestoring => "drive-restoring",
            EventKind::DriveRestored => "drive-restored",
            EventKind::DriveReplacing => "drive-replacing",
            EventKind::DriveReplaced => "drive-replaced",
            EventKind::ReplaceFailed => "replace-failed",
            EventKind::RebuildBegun => "rebuild-begun",
            EventKind::DriveVacated => "drive-vacated",
            EventKind::RebuildWaits => "rebuild-waits",
            EventKind::BlocksLost => "blocks-lost",
            EventKind::PagesHealed => "pages-healed",
            EventKind::PageLost => "page-lost",
            EventKind::ScrubStarted => "scrub-started",
            EventKind::ScrubEnded => "scrub-ended",
            EventKind::DrivesAdded => "drives-added",
            EventKind::AddFailed => "add-failed",
            EventKind::DriveGood => "drive-good",
            EventKind::DriveOverride => "drive-override",
            EventKind::SpacePressure => "space-pressure",
            EventKind::SpaceLow => "space-low",
            EventKind::SpaceEnough => "space-enough",
            EventKind::SpaceRefused => "space-refused",
            EventKind::NoRoom => "no-room",
            EventKind::RoomAgain => "room-again",
            EventKind::Rebalanced => "rebalanced",
            EventKind::PoolFailed => "pool-failed",
        }
    }
}

/// Something worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEvent {
    /// Ascending without gaps from 1, since the pool was opened.
    pub sequence: u64,
    /// On the environment's clock.
    pub at: Nanos,
    pub severity: Severity,
    pub kind: EventKind,
    /// The drive it is about.
    pub drive: Option<u16>,
    /// Its name then; empty if it was not there.
    pub drive_name: Option<String>,
    /// One sentence with the reason.
    pub text: String,
}

/// What a pool becomes with further drives. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddPlan {
    pub drives: usize,
    pub zones: u32,
    /// Sum of the drives' sizes.
    pub raw_bytes: u64,
    /// What volumes of the pool's own shape can hold once it is rebalanced.
    pub usable_bytes: u64,
    /// Capacity of larger drives that the pool can't use.
    pub unused_bytes: u64,
}

/// What adding drives to a pool that is used came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    pub plan: AddPlan,
    /// For so long requests were held back.
    pub pause: Nanos,
}

/// Why drives were not added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error("{0}")]
    Format(#[from] FormatError),
    #[error("pool {pool} was not closed in order: open it once, and close it")]
    NotClean { pool: String },
    #[error("pool {pool}: drive {index} is lost or not restored yet: replace it first")]
    Missing { pool: String, index: usize },
    #[error("{added} drives to add, {drives} then: add at least one, up to {most} together")]
    Count { added: usize, drives: usize, most: usize },
    #[error("drive {name}: {size} bytes is too small; this pool needs at least {least} bytes")]
    TooSmall { name: String, size: u64, least: u64 },
    #[error("drive {name} is not empty: {what}; wipe it if nobody needs that")]
    NotEmpty { name: String, what: String },
    #[error("drive {name}: {error}")]
    Drive { name: String, error: DriveError },
    #[error(
        "pool {pool}: the metadata area of its first drives has room for the map and the sums of \
         {mapped} bytes, and with these drives it could hold {usable}: add fewer or smaller ones"
    )]
    Metadata { pool: String, mapped: u64, usable: u64 },
    #[error("the pool can't be read: {0}")]
    Damaged(String),
    #[error("pool {pool}: {what}; try again when that is over")]
    Busy { pool: String, what: String },
    #[error("{0}")]
    Request(#[from] RequestError),
}

/// How far rebalancing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebalanceState {
    /// Nobody asked for it, or it is done.
    Idle,
    Running,
    /// There is no room to empty a zone: it is tried again every few seconds.
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebalanceStatus {
    /// Zones that could lie on more drives than they do.
    pub zones_left: u32,
    pub zones_total: u32,
    pub state: RebalanceState,
}
