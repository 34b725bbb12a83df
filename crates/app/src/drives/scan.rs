//! Finding pools on drives and in directories, by the labels alone. Nothing is claimed or
//! written, so this also works on drives that are being served.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use engine::{Label, read_label};
use format::{Member, Superblock, Uuid};
use io::uring::{Access, OpenError, RealDrive, UringDrive, UringEnv};
use schemes::scheme::Scheme;

use super::name::DriveName;
use super::{Identity, apart, refused};
use crate::error::{Failure, Outcome};
use crate::explain;
use crate::render::view::{Health, Listed};

/// Most drives a pool can lose and still be opened, whatever its parity.
const MISSING_MAX: usize = 2;

/// The drives found of one pool.
pub struct Group {
    pub pool: Uuid,
    pub name: String,
    /// Of each of its arrays the label written last, the first array's first.
    arrays: BTreeMap<(u16, Uuid), Superblock>,
    pub drives: Vec<DriveName>,
    found: BTreeMap<Uuid, DriveName>,
}

impl Group {
    fn new(label: &Superblock) -> Group {
        Group {
            pool: label.home(),
            name: label.pool_name.clone(),
            arrays: BTreeMap::new(),
            drives: Vec::new(),
            found: BTreeMap::new(),
        }
    }

    fn add(&mut self, drive: DriveName, label: Superblock) {
        self.drives.push(drive.clone());
        self.found.insert(label.drive, drive);
        let key = (label.array(), label.pool);
        let newest = self.arrays.entry(key).or_insert_with(|| label.clone());
        if label.generation > newest.generation {
            *newest = label;
        }
        self.name = self.first().pool_name.clone();
    }

    pub fn first(&self) -> &Superblock {
        self.arrays.values().next().expect("a group begins with a drive")
    }

    /// Drives of the pool that are here and were well when it was last open.
    fn present(&self) -> usize {
        let here = self
            .members()
            .filter(|member| member.state.is_whole() && self.found.contains_key(&member.drive));
        here.count()
    }

    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.arrays.values().flat_map(|label| &label.members)
    }

    /// A drive of the pool, if it is here.
    pub fn found(&self, drive: Uuid) -> Option<&DriveName> {
        self.found.get(&drive)
    }

    /// The scheme, if it is one of in-place arrays.
    pub fn scheme(&self) -> Option<Scheme> {
        Scheme::of(self.first())
    }

    /// Whether the pool wants spikes handled unless told otherwise.
    pub fn wants_detection(&self) -> bool {
        self.first().scheme != format::SCHEME_FUSION_ND
    }

    /// True for the name or UUID an operator may have written.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.pool.to_string() == name
    }
}

impl From<&Group> for Listed {
    fn from(group: &Group) -> Listed {
        let (drives, present) = (group.members().count(), group.present());
        let state = match drives - present {
            0 => Health::Online,
            missing if missing <= MISSING_MAX => Health::Degraded,
            _ => Health::Failed,
        };
        Listed {
            name: group.name.clone(),
            uuid: group.pool.to_string(),
            state,
            served: false,
            drives: drives as u32,
            drives_present: present as u32,
            volumes: None,
            reason: None,
        }
    }
}

/// Pools on `sources`, which are drives or directories of drives, by name. Of drives that were
/// named but can't be used `warn` is told: a pool may do without them.
pub(crate) async fn groups(
    env: &UringEnv,
    sources: &[DriveName],
    warn: impl Fn(&Failure),
) -> Outcome<Vec<Group>> {
    let mut groups: BTreeMap<Uuid, Group> = BTreeMap::new();
    let sources = sources.to_vec();
    for Source { drive, named } in apart(env, move || expand(&sources)).await?? {
        let label = match look(env, drive.path()).await {
            Ok(Found::Ours(label)) => *label,
            // A drive that we may not read is not lost. Leaving it out would make it out of date.
            Err(failure) if named => return Err(failure),
            Ok(Found::Unusable(failure)) if named => {
                warn(&failure);
                continue;
            }
            _ => continue,
        };
        groups.entry(label.home()).or_insert_with(|| Group::new(&label)).add(drive, label);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by(|a, b| (&a.name, a.pool).cmp(&(&b.name, b.pool)));
    Ok(groups)
}

fn inspect_hint(path: &Path) -> String {
    format!("'steadyraid inspect {}' shows what is on it", path.display())
}

struct Source {
    drive: DriveName,
    /// Given by the operator, not found in a directory.
    named: bool,
}

/// Every drive once. A drive named twice is a mistake; one that is also found in a directory,
/// or there under several links, is not.
fn expand(sources: &[DriveName]) -> Outcome<Vec<Source>> {
    let (mut drives, mut seen) = (Vec::new(), BTreeSet::new());
    let (directories, named): (Vec<_>, Vec<_>) =
        sources.iter().partition(|source| source.path().is_dir());
    for drive in named {
        let path = drive.path();
        // What can't be looked at can't be compared; opening it says what is wrong.
        if let Ok(metadata) = fs::metadata(path)
            && !seen.insert(Identity::of(&metadata))
        {
            return Err(Failure::new(path.display(), "is given twice, maybe by another name")
                .hint("give every drive once"));
        }
        drives.push(Source { drive: drive.clone(), named: true });
    }
    for directory in directories {
        for path in entries(directory.path())? {
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if !metadata.is_dir() && seen.insert(Identity::of(&metadata)) {
                drives.push(Source { drive: path.into(), named: false });
            }
        }
    }
    Ok(drives)
}

/// What a directory holds, by name, so that results don't depend on the filesystem.
fn entries(directory: &Path) -> Outcome<Vec<PathBuf>> {
    let refuse = |error| Failure::new(directory.display(), format!("can't list it: {error}"));
    let entries = fs::read_dir(directory).map_err(refuse)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

enum Found {
    Ours(Box<Superblock>),
    /// The pool has to do without it, and why.
    Unusable(Failure),
}

/// What is on a drive; an error if we may not look.
async fn look(env: &UringEnv, path: &Path) -> Outcome<Found> {
    let unusable =
        |what: &str| Found::Unusable(Failure::new(path.display(), what).hint(inspect_hint(path)));
    let drive: RealDrive = match UringDrive::open_apart(env, path, Access::ReadOnly).await {
        Ok(drive) => drive.into(),
        Err(error @ (OpenError::Denied { .. } | OpenError::NotADrive { .. })) => {
            return Err(refused(path, &error));
        }
        Err(error) => return Ok(Found::Unusable(refused(path, &error))),
    };
    Ok(match read_label(&drive).await {
        Ok(Label::Ours(label)) => Found::Ours(label),
        Ok(Label::Empty | Label::Foreign(_)) => {
            unusable("is not a SteadyRAID drive, and is left out")
        }
        // Without it the pool would open, and write it off as missing.
        Ok(Label::TooNew(what)) => {
            let failure =
                Failure::new(path.display(), format!("is a SteadyRAID drive, but {what}"));
            return Err(failure.hint("use the version of steadyraid that wrote it"));
        }
        Ok(Label::Unreadable(what)) => unusable(&format!("is a SteadyRAID drive, but {what}")),
        Err(error) => Found::Unusable(explain::drive(path.display(), &error)),
    })
}
