//! The schemes, one file each. Every file begins with the same header: the idea, a drawing of one
//! write, what is durable at acknowledgement, what survives one and two failures, device writes
//! per user write, and the source. `header` makes documentation of them.

pub mod alternate;
pub mod cached_raid5;
pub mod hpda;
pub mod hybrid;
pub mod log_mirror;
pub mod log_raid;
pub mod mirror_log;
pub mod n_raid5;
pub mod raid0;
pub mod raid1;
pub mod raid10;
pub mod raid4;
pub mod raid5;
pub mod raid50;
pub mod raid6;
pub mod raid60;
pub mod steering;
pub mod tole_raid;

use classical::array;
use classical::{ArrayError, CreateSpec, Redundancy, WriteHole, check_chunk};
use format::{
    INCOMPAT_GROUPS, INCOMPAT_SET, SCHEME_ALTERNATE, SCHEME_CACHED_RAID5, SCHEME_HPDA,
    SCHEME_HYBRID, SCHEME_LOG_MIRROR, SCHEME_LOG_RAID, SCHEME_MIRROR_LOG, SCHEME_MIRRORS,
    SCHEME_N_RAID5, SCHEME_PARITY_DRIVE, SCHEME_PARITY1, SCHEME_PARITY2, SCHEME_STEERING,
    SCHEME_STRIPES, SCHEME_TOLE_RAID, Superblock,
};
use io::{Drive, Env, Nanos};

use self::alternate::FlushLog;
use self::steering::Staging;
use crate::any::AnyStore;
use crate::part::{Part, on_parts};
use crate::store::StoreError;

/// A scheme that real drives can run, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Raid0,
    Raid1,
    Raid10,
    Raid4,
    Raid5,
    Raid6,
    Raid50,
    Raid60,
    NRaid5,
    Hybrid,
    LogMirror,
    Hpda,
    CachedRaid5,
    Steering,
    Alternate,
    ToleRaid,
    MirrorLog,
    LogRaid,
}

impl Scheme {
    pub const ALL: [Scheme; 18] = [
        Scheme::Raid0,
        Scheme::Raid1,
        Scheme::Raid10,
        Scheme::Raid4,
        Scheme::Raid5,
        Scheme::Raid6,
        Scheme::Raid50,
        Scheme::Raid60,
        Scheme::NRaid5,
        Scheme::Hybrid,
        Scheme::LogMirror,
        Scheme::Hpda,
        Scheme::CachedRaid5,
        Scheme::Steering,
        Scheme::Alternate,
        Scheme::ToleRaid,
        Scheme::MirrorLog,
        Scheme::LogRaid,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scheme::Raid0 => "raid0",
            Scheme::Raid1 => "raid1",
            Scheme::Raid10 => "raid10",
            Scheme::Raid4 => "raid4",
            Scheme::Raid5 => "raid5",
            Scheme::Raid6 => "raid6",
            Scheme::Raid50 => "raid50",
            Scheme::Raid60 => "raid60",
            Scheme::NRaid5 => "n-raid5",
            Scheme::Hybrid => "hybrid",
            Scheme::LogMirror => "log-mirror",
            Scheme::Hpda => "hpda",
            Scheme::CachedRaid5 => "cached-raid5",
            Scheme::Steering => "steering",
            Scheme::Alternate => "alternate",
            Scheme::ToleRaid => "tole-raid",
            Scheme::MirrorLog => "mirror-log",
            Scheme::LogRaid => "log-raid",
        }
    }

    pub fn named(name: &str) -> Option<Scheme> {
        Scheme::ALL.into_iter().find(|scheme| scheme.name() == name)
    }

    /// The scheme of a pool, by its label; `None` for one that is not made of in-place arrays.
    pub fn of(label: &Superblock) -> Option<Scheme> {
        let grouped = usize::from(label.group) < label.members.len();
        match (label.scheme, label.features.incompat & (INCOMPAT_GROUPS | INCOMPAT_SET)) {
            (SCHEME_STRIPES, INCOMPAT_GROUPS) => Some(Scheme::Raid0),
            (SCHEME_MIRRORS, INCOMPAT_GROUPS) if grouped => Some(Scheme::Raid10),
            (SCHEME_MIRRORS, INCOMPAT_GROUPS) => Some(Scheme::Raid1),
            (SCHEME_PARITY_DRIVE, INCOMPAT_GROUPS) => Some(Scheme::Raid4),
            (SCHEME_PARITY1, INCOMPAT_GROUPS) if grouped => Some(Scheme::Raid50),
            (SCHEME_PARITY1, INCOMPAT_GROUPS) => Some(Scheme::Raid5),
            (SCHEME_PARITY2, INCOMPAT_GROUPS) if grouped => Some(Scheme::Raid60),
            (SCHEME_PARITY2, INCOMPAT_GROUPS) => Some(Scheme::Raid6),
            (SCHEME_N_RAID5, INCOMPAT_SET) => Some(Scheme::NRaid5),
            (SCHEME_HYBRID, INCOMPAT_SET) => Some(Scheme::Hybrid),
            (SCHEME_LOG_MIRROR, INCOMPAT_SET) => Some(Scheme::LogMirror),
            (SCHEME_HPDA, INCOMPAT_SET) => Some(Scheme::Hpda),
            (SCHEME_CACHED_RAID5, INCOMPAT_SET) => Some(Scheme::CachedRaid5),
            (SCHEME_STEERING, INCOMPAT_SET) => Some(Scheme::Steering),
            (SCHEME_ALTERNATE, INCOMPAT_SET) => Some(Scheme::Alternate),
            (SCHEME_TOLE_RAID, INCOMPAT_SET) => Some(Scheme::ToleRaid),
            (SCHEME_MIRROR_LOG, INCOMPAT_SET) => Some(Scheme::MirrorLog),
            (SCHEME_LOG_RAID, INCOMPAT_SET) => Some(Scheme::LogRaid),
            _ => None,
        }
    }

    /// The shape of an array of so many drives; `None` for a scheme of several arrays.
    fn shape(self, drives: usize, width: Option<usize>) -> Option<(Redundancy, usize)> {
        Some(match self {
            Scheme::Raid0 => raid0::shape(drives, width),
            Scheme::Raid1 => raid1::shape(drives, width),
            Scheme::Raid10 => raid10::shape(drives, width),
            Scheme::Raid4 => raid4::shape(drives, width),
            Scheme::Raid5 => raid5::shape(drives, width),
            Scheme::Raid6 => raid6::shape(drives, width),
            Scheme::Raid50 => raid50::shape(drives, width),
            Scheme::Raid60 => raid60::shape(drives, width),
            Scheme::NRaid5
            | Scheme::Hybrid
            | Scheme::LogMirror
            | Scheme::Hpda
            | Scheme::CachedRaid5
            | Scheme::Steering
            | Scheme::Alternate
            | Scheme::ToleRaid
            | Scheme::MirrorLog
            | Scheme::LogRaid => {
                return None;
            }
        })
    }

    /// Whether drives can be told to form groups of a width.
    pub fn has_groups(self) -> bool {
        use Scheme::{CachedRaid5, Hybrid, LogRaid, MirrorLog, NRaid5};
        use Scheme::{Raid10, Raid50, Raid60, Steering, ToleRaid};
        matches!(self, Raid10 | Raid50 | Raid60 | NRaid5 | Hybrid | CachedRaid5 | Steering)
            || matches!(self, MirrorLog | LogRaid | ToleRaid)
    }
}

/// What `fusion` has for a block, so that schemes compare.
pub const CHUNK_DEFAULT: u64 = 64 << 10;

/// A fiftieth of every drive is for staging unless said otherwise: some seconds of writes to one
/// drive that collects garbage.
const STAGING_PART: u64 = 50;
/// A replica has a log of four times the cache: a sixteenth of it at most.
const CACHE_PART: u64 = 64;
/// Less has no room for a few long requests and their headers.
const STAGING_MIN: u64 = 8 << 20;

/// What a pool is to be like.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    pub scheme: Scheme,
    /// Drives of a group, where the scheme has groups.
    pub width: Option<usize>,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// Of `hybrid`: drives of the mirrors. Of `alternate`: replicas. Of `steering`: copies, in
    /// place of parity.
    pub split: Option<usize>,
    /// Of `log-mirror` and `steering`: 1 (RAID5) or 2 (RAID6). Of `alternate`, of each replica;
    /// without it none.
    pub parity: Option<usize>,
    /// Of `steering`.
    pub staging: Option<Staging>,
    /// Of `alternate`.
    pub flush_log: Option<FlushLog>,
    /// Every page has a checksum on other drives.
    pub checksums: bool,
}

impl Spec {
    pub fn new(name: &str, scheme: Scheme) -> Spec {
        let name = name.to_owned();
        let (chunk, staging, flush_log) = (CHUNK_DEFAULT, None, None);
        let checksums = true;
        let (width, split, parity) = (None, None, None);
        Spec { name, scheme, width, chunk, split, parity, staging, flush_log, checksums }
    }

    /// The array of a scheme that is one.
    fn array(&self, drives: usize) -> Option<CreateSpec> {
        let (redundancy, width) = self.scheme.shape(drives, self.width)?;
        let (name, chunk, checksums) = (self.name.clone(), self.chunk, self.checksums);
        Some(CreateSpec { name, redundancy, width, chunk, checksums })
    }

    /// Refuses options that the scheme has not, and chunks that none has.
    fn check_options(&self) -> Result<(), StoreError> {
        // Schemes compute with it before any array does.
        check_chunk(self.chunk).map_err(ArrayError::from)?;
        let refuse = |what: &str, hint| {
            let what = format!("{} has no {what}", self.scheme.name());
            Err(StoreError::Shape { what, hint })
        };
        if self.width.is_some() && !self.scheme.has_groups() {
            return refuse("groups of drives", "leave --width out");
        }
        if self.staging.is_some() && self.scheme != Scheme::Steering {
            return refuse("staging space", "leave --staging out");
        }
        use Scheme::{Alternate, LogMirror, Steering};
        let parities = matches!(self.scheme, LogMirror | Steering | Alternate);
        if self.parity.is_some() && !parities {
            return refuse("choice of parity", "leave --parity out");
        }
        if self.split.is_some() && !matches!(self.scheme, Scheme::Hybrid | Alternate | Steering) {
            return refuse("tier of mirrors", "leave --mirrors out");
        }
        if self.flush_log.is_some() && self.scheme != Alternate {
            return refuse("log of what is flushed", "leave --flush-log out");
        }
        Ok(())
    }

    /// Makes the pool, without volumes. What is on the drives is gone.
    pub async fn create<E: Env>(&self, env: &E, drives: &[E::Drive]) -> Result<(), StoreError> {
        let parts: Vec<Part> = drives.iter().cloned().map(Part::whole).collect();
        self.create_on(&on_parts(env), &parts).await
    }

    async fn create_on<E: Env>(&self, env: &E, drives: &[E::Drive]) -> Result<(), StoreError> {
        self.check_options()?;
        match self.scheme {
            Scheme::NRaid5 => n_raid5::create(env, drives, self).await?,
            Scheme::ToleRaid => tole_raid::create(env, drives, self).await?,
            Scheme::LogRaid => {
                log_raid::create(env, drives, &self.log_raid(drives.len())).await?;
            }
            Scheme::MirrorLog => {
                mirror_log::create(env, drives, &self.mirror_log(drives.len())).await?;
            }
            Scheme::Hybrid => hybrid::create(env, drives, &self.hybrid(drives.len())?).await?,
            Scheme::Steering => {
                steering::create(env, drives, &self.steering(drives)?).await?;
            }
            Scheme::Alternate => {
                alternate::create(env, drives, &self.alternate(drives)).await?;
            }
            Scheme::CachedRaid5 => {
                cached_raid5::create(env, drives, &self.cached_raid5(drives.len())).await?;
            }
            Scheme::Hpda => {
                let (name, chunk) = (&self.name, self.chunk);
                let checksums = self.checksums;
                let spec = hpda::Spec { chunk, checksums, ..hpda::Spec::new(name) };
                hpda::create(env, drives, &spec).await?;
            }
            Scheme::LogMirror => {
                log_mirror::create(env, drives, &self.log_mirror(drives.len())).await?;
            }
            _ => {
                let array = self.array(drives.len()).expect("all other schemes are one array");
                array::create(env, drives, &array).await?;
            }
        }
        let store = AnyStore::open(env, drives.to_vec(), OpenOptions::default()).await?;
        crate::volumes::format(env, &store).await?;
        crate::store::Store::close(&store).await
    }

    fn steering<D: Drive>(&self, drives: &[D]) -> Result<steering::Spec, StoreError> {
        let smallest = drives.iter().map(|drive| drive.geometry().size).min().unwrap_or(0);
        let reserved = (smallest / STAGING_PART).max(STAGING_MIN);
        let staging = self.staging.unwrap_or(Staging::Reserved { bytes: reserved });
        let array = drives.len().saturating_sub(usize::from(staging == Staging::Dedicated));
        let (redundancy, width) = match (self.split, self.parity, self.width) {
            (Some(copies), None, None) => (Redundancy::Mirror, copies),
            (Some(_), ..) => {
                let what = "mirrors with parity, or of another width than their copies".to_owned();
                return Err(StoreError::Shape { what, hint: "leave one of the options out" });
            }
            (None, parity, width) => {
                (Redundancy::Parity(parity.unwrap_or(1)), width.unwrap_or(array))
            }
        };
        let (name, chunk) = (self.name.clone(), self.chunk);
        let checksums = self.checksums;
        Ok(steering::Spec { name, redundancy, width, chunk, staging, checksums })
    }

    fn alternate<D: Drive>(&self, drives: &[D]) -> alternate::Spec {
        let replicas = self.split.unwrap_or(2);
        let width = drives.len() / replicas.max(1);
        let replica: u64 = drives[..width].iter().map(|drive| drive.geometry().size).sum();
        let cache = (replica / CACHE_PART).clamp(alternate::CACHE_MIN, alternate::CACHE);
        let (chunk, parity) = (self.chunk, self.parity.unwrap_or(0));
        let flush_log = self.flush_log.unwrap_or_default();
        let own = alternate::Spec::new(&self.name, width);
        let checksums = self.checksums;
        alternate::Spec { replicas, chunk, parity, cache, flush_log, checksums, ..own }
    }

    fn cached_raid5(&self, drives: usize) -> cached_raid5::Spec {
        let mut spec = cached_raid5::Spec::proposed(&self.name, drives, self.chunk);
        spec.checksums = self.checksums;
        if let Some(width) = self.width {
            spec.parity_width = width;
        }
        spec
    }

    fn log_raid(&self, drives: usize) -> log_raid::Spec {
        let (name, width) = (self.name.clone(), self.width.unwrap_or(drives / 2));
        let (chunk, checksums) = (self.chunk, self.checksums);
        log_raid::Spec { name, width, chunk, segment: None, checksums }
    }

    fn mirror_log(&self, drives: usize) -> mirror_log::Spec {
        let (name, width) = (self.name.clone(), self.width.unwrap_or(drives / 2));
        let (chunk, checksums) = (self.chunk, self.checksums);
        mirror_log::Spec { name, width, chunk, segment: None, checksums }
    }

    fn log_mirror(&self, drives: usize) -> log_mirror::Spec {
        let data_drives = drives.saturating_sub(log_mirror::LOG_DRIVES);
        let (chunk, parity) = (self.chunk, self.parity.unwrap_or(1));
        let (own, checksums) = (log_mirror::Spec::new(&self.name, data_drives), self.checksums);
        log_mirror::Spec { chunk, parity, checksums, ..own }
    }

    fn hybrid(&self, drives: usize) -> Result<hybrid::Spec, StoreError> {
        let mut spec = hybrid::Spec::proposed(&self.name, drives, self.chunk);
        if let Some(split) = self.split {
            // Whoever says how many drives are mirrors may do so where nothing can be proposed.
            let parity_width = self.width.unwrap_or(drives.saturating_sub(split));
            let (name, chunk) = (self.name.clone(), self.chunk);
            let tuning = hybrid::Tuning::default();
            let checksums = self.checksums;
            return Ok(hybrid::Spec { name, split, parity_width, chunk, tuning, checksums });
        }
        if let Ok(spec) = &mut spec {
            spec.checksums = self.checksums;
        }
        if let (Ok(spec), Some(width)) = (&mut spec, self.width) {
            spec.parity_width = width;
        }
        spec
    }
}

/// How a pool is to be served.
impl From<OpenOptions> for classical::OpenOptions {
    fn from(options: OpenOptions) -> classical::OpenOptions {
        classical::OpenOptions { write_hole: options.write_hole, ..Default::default() }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    pub write_hole: WriteHole,
    /// How long after the loss of a drive a spare takes its place; `None`: only when told to.
    pub rebuild_after: Option<Nanos>,
    /// Only to be looked at: nothing is written to the drives, and nothing works in the background.
    pub rehearsal: bool,
    /// Of `steering` ([`steering::Options::table_in_nvram`]).
    pub table_in_nvram: bool,
}
