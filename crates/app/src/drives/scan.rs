//! Finding pools on drives and in directories, by the labels alone. Nothing is claimed or
//! written, so this also works on drives that are being served.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use format::{Member, MemberState, Superblock, Uuid};
use futures_util::stream::{self, StreamExt};
use io::uring::UringEnv;
use schemes::scheme::Scheme;

use super::found::{Flaw, Found, look};
use super::in_time::{ASKED_AT_ONCE, in_time};
use super::name::DriveName;
use super::{Identity, apart};
use crate::error::{Failure, Outcome};
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
    /// It lacks a drive, and this may be that one.
    unseen: Option<Failure>,
    /// Which array each drive is of, and how new its label is; also of drives that were cut.
    generations: BTreeMap<Uuid, ((u16, Uuid), u64)>,
    /// Drives that are here more than once.
    copied: BTreeSet<Uuid>,
}

impl Group {
    fn new(label: &Superblock) -> Group {
        Group {
            pool: label.home(),
            name: label.pool_name.clone(),
            arrays: BTreeMap::new(),
            drives: Vec::new(),
            found: BTreeMap::new(),
            unseen: None,
            generations: BTreeMap::new(),
            copied: BTreeSet::new(),
        }
    }

    fn add(&mut self, drive: DriveName, label: Superblock) {
        self.drives.push(drive.clone());
        if self.found.insert(label.drive, drive).is_some() {
            self.copied.insert(label.drive);
        }
        self.learn(label);
    }

    /// What a label says, of a drive that can be used or not.
    fn learn(&mut self, label: Superblock) {
        let key = (label.array(), label.pool);
        self.generations.insert(label.drive, (key, label.generation));
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

    /// A drive that it used when it was last open is not here.
    pub fn lacks_one(&self) -> bool {
        self.members().any(|member| {
            let was_used = member.state.is_whole() || member.state == MemberState::Restoring;
            was_used && !self.found.contains_key(&member.drive)
        })
    }

    /// Drives that are not here, as they are told: their numbers and UUIDs.
    pub fn lacking(&self) -> Vec<String> {
        let numbered = self.arrays.values().flat_map(|label| label.members.iter().enumerate());
        let lacking = numbered.filter(|(_, member)| !self.found.contains_key(&member.drive));
        lacking.map(|(number, member)| format!("{number} ({})", member.drive)).collect()
    }

    /// Drives whose labels know less than those of drives that can't be used may be out of date,
    /// and don't know it.
    pub fn is_known_without(&self, left_out: &[DriveName]) -> bool {
        let used = |drive: &Uuid| self.found.get(drive).is_some_and(|at| !left_out.contains(at));
        self.arrays.iter().all(|(array, newest)| {
            let mut of = self.generations.iter().filter(|(_, (own, _))| own == array);
            of.any(|(drive, (_, known))| *known >= newest.generation && used(drive))
        })
    }

    /// It is here more than once, and which one is it can't be told.
    pub fn is_copied(&self, drive: Uuid) -> bool {
        self.copied.contains(&drive)
    }

    /// Opened without a drive that is only not to be seen, the pool would make it out of date.
    pub fn may_be_opened(&self) -> Outcome<()> {
        match &self.unseen {
            None => Ok(()),
            Some(Failure { object, what, hint, .. }) => {
                let what = format!("a drive of it is missing, and {object} may be that: {what}");
                let failure = Failure::new(format!("pool {}", self.name), what);
                Err(Failure { hint: hint.clone(), ..failure })
            }
        }
    }

    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.arrays.values().flat_map(|label| &label.members)
    }

    /// Who they are.
    pub fn identities(&self) -> impl Iterator<Item = Uuid> {
        self.found.keys().copied()
    }

    /// It was not there when the pool was open the last time, which other schemes than `fusion`
    /// don't tell from one that was failed.
    pub fn was_away(&self, drive: Uuid) -> bool {
        let is_it = |member: &Member| member.drive == drive && member.state == MemberState::Missing;
        self.scheme().is_none() && self.members().any(is_it)
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

/// Pools on `sources`, which are drives or directories of drives, by name. `warn` is told of drives
/// that can't be used, as [`super::found`] has it.
pub(crate) async fn groups(
    env: &UringEnv,
    sources: &[DriveName],
    warn: impl Fn(&Failure),
) -> Outcome<Vec<Group>> {
    let mut groups: BTreeMap<Uuid, Group> = BTreeMap::new();
    let (mut unusable, mut cut) = (Vec::new(), Vec::new());
    let sources = expand(env, sources).await?;
    for (Source { drive, named }, found) in looks(env, sources).await {
        match found {
            Found::Ours(label) => {
                let group = groups.entry(label.home()).or_insert_with(|| Group::new(&label));
                group.add(drive, *label);
            }
            Found::Unusable { flaw, failure, label } => {
                unusable.push(Unusable { flaw, failure, named });
                cut.extend(label);
            }
        }
    }
    for label in cut {
        if let Some(group) = groups.get_mut(&label.home()) {
            group.learn(*label);
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by(|a, b| (&a.name, a.pool).cmp(&(&b.name, b.pool)));
    judge(&mut groups, unusable, warn)?;
    Ok(groups)
}

/// What is on each of them. One that is silent keeps the others waiting no longer than it may.
async fn looks(env: &UringEnv, sources: Vec<Source>) -> Vec<(Source, Found)> {
    let look = async |source: Source| {
        let found = look(env, source.drive.path()).await;
        (source, found)
    };
    stream::iter(sources).map(look).buffered(ASKED_AT_ONCE).collect().await
}

struct Unusable {
    flaw: Flaw,
    failure: Failure,
    /// Given by the operator, not found in a directory.
    named: bool,
}

/// What follows from drives that can't be used: refused pools, warnings, or nothing. An error if
/// nothing at all is to be seen.
fn judge(groups: &mut [Group], unusable: Vec<Unusable>, warn: impl Fn(&Failure)) -> Outcome<()> {
    let lacking = groups.iter().any(Group::lacks_one);
    for Unusable { flaw, failure, named } in unusable {
        match flaw {
            Flaw::Unseen if groups.is_empty() && named => return Err(failure),
            Flaw::Unseen if lacking => {
                for group in groups.iter_mut().filter(|group| group.lacks_one()) {
                    group.unseen.get_or_insert_with(|| failure.clone());
                }
            }
            _ if named || flaw == Flaw::Lost && lacking => warn(&failure),
            _ => {}
        }
    }
    Ok(())
}

struct Source {
    drive: DriveName,
    /// Given by the operator, not found in a directory.
    named: bool,
}

/// Every drive once. A drive named twice is a mistake; one that is also found in a directory,
/// or there under several links, is not.
async fn expand(env: &UringEnv, sources: &[DriveName]) -> Outcome<Vec<Source>> {
    let (mut drives, mut directories, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    let named = sources.iter().map(|source| source.path().to_owned()).collect();
    for (drive, metadata) in sources.iter().zip(metadata(env, named).await) {
        match metadata {
            Some(Ok(metadata)) if metadata.is_dir() => directories.push(drive.path().to_owned()),
            Some(Ok(metadata)) if !seen.insert(Identity::of(&metadata)) => {
                let what = "is given twice, maybe by another name";
                return Err(
                    Failure::new(drive.path().display(), what).hint("give every drive once")
                );
            }
            // What can't be looked at can't be compared; opening it says what is wrong.
            Some(_) | None => drives.push(Source { drive: drive.clone(), named: true }),
        }
    }
    for directory in directories {
        let paths = apart(env, move || entries(&directory)).await??;
        for (path, metadata) in paths.clone().into_iter().zip(metadata(env, paths).await) {
            // Of what is silent looking at it says so.
            let is_new = match metadata {
                Some(Ok(metadata)) => !metadata.is_dir() && seen.insert(Identity::of(&metadata)),
                Some(Err(_)) => false,
                None => true,
            };
            if is_new {
                drives.push(Source { drive: path.into(), named: false });
            }
        }
    }
    Ok(drives)
}

/// What each of these paths is; `None` of one that is silent.
async fn metadata(env: &UringEnv, paths: Vec<PathBuf>) -> Vec<Option<Outcome<Metadata>>> {
    let ask = async |path: PathBuf| {
        let (own, of) = (env.clone(), path.clone());
        let ask = move || fs::metadata(&of).map_err(|error| Failure::new(of.display(), error));
        in_time(env, &path, async move { apart(&own, ask).await? }).await
    };
    stream::iter(paths).map(ask).buffered(ASKED_AT_ONCE).collect().await
}

/// What a directory holds, by name, so that results don't depend on the filesystem.
fn entries(directory: &Path) -> Outcome<Vec<PathBuf>> {
    let refuse = |error| Failure::new(directory.display(), format!("can't list it: {error}"));
    let entries = fs::read_dir(directory).map_err(refuse)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}
