//! The schemes, one file each. Every file begins with the same header: the idea, a drawing of one
//! write, what is durable at acknowledgement, what survives one and two failures, device writes
//! per user write, and the source. `header` makes documentation of them.

pub mod hybrid;
pub mod n_raid5;
pub mod raid0;
pub mod raid1;
pub mod raid10;
pub mod raid5;
pub mod raid50;
pub mod raid6;
pub mod raid60;

use classical::array;
use classical::{CreateSpec, Redundancy, WriteHole};
use format::{
    INCOMPAT_GROUPS, INCOMPAT_SET, SCHEME_MIRRORS, SCHEME_N_RAID5, SCHEME_PARITY1, SCHEME_PARITY2,
    SCHEME_STRIPES, Superblock,
};
use io::Env;

use crate::any::AnyStore;
use crate::store::StoreError;

/// A scheme that real drives can run, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Raid0,
    Raid1,
    Raid10,
    Raid5,
    Raid6,
    Raid50,
    Raid60,
    NRaid5,
}

impl Scheme {
    pub const ALL: [Scheme; 8] = [
        Scheme::Raid0,
        Scheme::Raid1,
        Scheme::Raid10,
        Scheme::Raid5,
        Scheme::Raid6,
        Scheme::Raid50,
        Scheme::Raid60,
        Scheme::NRaid5,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scheme::Raid0 => "raid0",
            Scheme::Raid1 => "raid1",
            Scheme::Raid10 => "raid10",
            Scheme::Raid5 => "raid5",
            Scheme::Raid6 => "raid6",
            Scheme::Raid50 => "raid50",
            Scheme::Raid60 => "raid60",
            Scheme::NRaid5 => "n-raid5",
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
            (SCHEME_PARITY1, INCOMPAT_GROUPS) if grouped => Some(Scheme::Raid50),
            (SCHEME_PARITY1, INCOMPAT_GROUPS) => Some(Scheme::Raid5),
            (SCHEME_PARITY2, INCOMPAT_GROUPS) if grouped => Some(Scheme::Raid60),
            (SCHEME_PARITY2, INCOMPAT_GROUPS) => Some(Scheme::Raid6),
            (SCHEME_N_RAID5, INCOMPAT_SET) => Some(Scheme::NRaid5),
            _ => None,
        }
    }

    /// The shape of an array of so many drives; `None` for a scheme of several arrays.
    fn shape(self, drives: usize, width: Option<usize>) -> Option<(Redundancy, usize)> {
        Some(match self {
            Scheme::Raid0 => raid0::shape(drives, width),
            Scheme::Raid1 => raid1::shape(drives, width),
            Scheme::Raid10 => raid10::shape(drives, width),
            Scheme::Raid5 => raid5::shape(drives, width),
            Scheme::Raid6 => raid6::shape(drives, width),
            Scheme::Raid50 => raid50::shape(drives, width),
            Scheme::Raid60 => raid60::shape(drives, width),
            Scheme::NRaid5 => return None,
        })
    }

    /// Whether drives can be told to form groups of a width.
    pub fn has_groups(self) -> bool {
        matches!(self, Scheme::Raid10 | Scheme::Raid50 | Scheme::Raid60 | Scheme::NRaid5)
    }
}

/// What a pool is to be like.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    pub scheme: Scheme,
    /// Drives of a group, where the scheme has groups.
    pub width: Option<usize>,
    /// Bytes of a chunk.
    pub chunk: u64,
}

/// What will be made of so many drives, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub scheme: &'static str,
    /// `RAID5 3+1, 2 groups`.
    pub shape: String,
    pub drives: usize,
    pub raw: u64,
    /// Bytes that volumes can hold.
    pub usable: u64,
}

impl Spec {
    /// The array of a scheme that is one.
    fn array(&self, drives: usize) -> Option<CreateSpec> {
        let (redundancy, width) = self.scheme.shape(drives, self.width)?;
        Some(CreateSpec { name: self.name.clone(), redundancy, width, chunk: self.chunk })
    }

    /// Refuses what makes no sense, before anything is written.
    pub fn plan(&self, sizes: &[u64]) -> Result<Plan, StoreError> {
        if self.width.is_some() && !self.scheme.has_groups() {
            let what = format!("{} has no groups of drives", self.scheme.name());
            return Err(StoreError::Shape { what, hint: "leave --width out" });
        }
        let (shape, size, unit) = match self.array(sizes.len()) {
            Some(spec) => {
                let grid = array::plan(sizes, &spec)?;
                (grid.to_string(), grid.size(), grid.stripe_bytes())
            }
            None => n_raid5::plan(sizes, self)?,
        };
        let usable = crate::volumes::usable(size, unit)?;
        Ok(Plan {
            scheme: self.scheme.name(),
            shape,
            drives: sizes.len(),
            raw: sizes.iter().sum(),
            usable,
        })
    }

    /// Makes the pool, without volumes. What is on the drives is gone.
    pub async fn create<E: Env>(&self, env: &E, drives: &[E::Drive]) -> Result<(), StoreError> {
        match self.array(drives.len()) {
            Some(spec) => drop(array::create(env, drives, &spec).await?),
            None => n_raid5::create(env, drives, self).await?,
        }
        let options = OpenOptions::default();
        let store = AnyStore::open(env, drives.to_vec(), options).await?;
        crate::volumes::format(env, &store).await?;
        crate::store::Store::close(&store).await
    }
}

/// How a pool is to be served.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    pub write_hole: WriteHole,
    /// Only to be looked at: nothing is written to the drives, and nothing works in the background.
    pub rehearsal: bool,
}
