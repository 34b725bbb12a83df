//! Drives named for `create`: checked, opened and, for `PATH:SIZE`, made.
//!
//! Each step undoes nothing because it has done nothing, until [`Opened::make_files`]; files
//! made there are removed again unless the pool is made.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use io::uring::{Access, OpenError, UringDrive, UringEnv, create_file};
use io::{Drive, Geometry};

use super::modelled::ModelSpec;
use super::{Identity, apart, open, refused};
use crate::error::{Failure, Outcome};
use crate::size::Size;

/// A drive as it was named.
enum Target {
    Existing(PathBuf),
    NewFile { path: PathBuf, size: Size },
}

impl Target {
    fn path(&self) -> &Path {
        match self {
            Target::Existing(path) | Target::NewFile { path, .. } => path,
        }
    }
}

/// Looks at every name; opens nothing yet.
fn resolve(names: &[String]) -> Outcome<Vec<Target>> {
    let targets = names.iter().map(|name| parse(name)).collect::<Outcome<Vec<_>>>()?;
    refuse_duplicates(&targets)?;
    refuse_overfull(&targets)?;
    Ok(targets)
}

fn parse(name: &str) -> Outcome<Target> {
    if fs::symlink_metadata(name).is_ok() {
        return Ok(Target::Existing(name.into()));
    }
    if let Some(spec) = name.strip_prefix(ModelSpec::PREFIX) {
        return modelled(name, spec);
    }
    let Some((path, size)) = name.rsplit_once(':') else {
        return Err(Failure::new(name, "no such file or device")
            .hint(format!("write '{name}:SIZE' to make a file of that size")));
    };
    let size: Size = size.parse().map_err(|what| Failure::usage(name, what))?;
    if path == "mem" {
        return Err(Failure::usage(name, "memory lives only as long as the process that has it")
            .hint("'steadyraid serve --mem-pool NAME:DRIVES:SIZE' makes and serves such a pool"));
    }
    if fs::symlink_metadata(path).is_ok() {
        return Err(Failure::new(path, "exists already")
            .hint("leave ':SIZE' off to use it at the size it has, or remove it first"));
    }
    Ok(Target::NewFile { path: path.into(), size })
}

/// The model's file. Making a pool on it takes no more time than on any other.
fn modelled(name: &str, spec: &str) -> Outcome<Target> {
    let bad = |what| Failure::usage(name, what);
    let spec: ModelSpec = spec.parse().map_err(bad)?;
    spec.check().map_err(bad)?;
    let (size, hint) = (spec.size, "'steadyraid serve --mem-pool NAME:DRIVES:model:...' does that");
    let Some(path) = spec.file else {
        let what = "has no file=PATH, and memory lives only as long as the process that has it";
        return Err(bad(what.to_owned()).hint(hint));
    };
    match fs::metadata(&path) {
        Err(_) => Ok(Target::NewFile { path, size }),
        Ok(metadata) if metadata.is_file() && metadata.len() != size.0 => Err(Failure::new(
            path.display(),
            format!("has {}, not the {size} of its model", Size(metadata.len())),
        )
        .hint("give the size it has, or remove it first")),
        Ok(_) => Ok(Target::Existing(path)),
    }
}

/// The directory a file will be made in.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn refuse_duplicates(targets: &[Target]) -> Outcome<()> {
    let mut seen: BTreeMap<(Identity, Option<PathBuf>), &Path> = BTreeMap::new();
    for target in targets {
        let path = target.path();
        if let Some(first) = seen.insert(identity(target)?, path) {
            let what = match first == path {
                true => "is given twice".to_owned(),
                false => format!("is the same drive as {}", first.display()),
            };
            return Err(Failure::new(path.display(), what).hint("give every drive once"));
        }
    }
    Ok(())
}

/// A file to be made is known by its directory and name.
fn identity(target: &Target) -> Outcome<(Identity, Option<PathBuf>)> {
    let path = target.path();
    match target {
        Target::Existing(_) => {
            let metadata = fs::metadata(path).map_err(|error| unseen(path, "the drive", &error))?;
            Ok((Identity::of(&metadata), None))
        }
        Target::NewFile { .. } => {
            let name = path.file_name().map(PathBuf::from);
            let name = name.ok_or_else(|| Failure::usage(path.display(), "names no file"))?;
            let directory = fs::metadata(parent(path))
                .map_err(|error| unseen(path, "its directory", &error))?;
            Ok((Identity::of(&directory), Some(name)))
        }
    }
}

fn unseen(path: &Path, what: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => Failure::new(path.display(), format!("{what} does not exist")),
        _ => Failure::new(path.display(), format!("can't look at {what}: {error}")),
    }
}

/// Files are filled when they are made. Finding out half-way that there is no room would first
/// fill the filesystem for everyone else.
fn refuse_overfull(targets: &[Target]) -> Outcome<()> {
    let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
    for target in targets {
        let Target::NewFile { path, size } = target else { continue };
        let os = |error: std::io::Error| Failure::new(path.display(), error);
        let filesystem = fs::metadata(parent(path)).map_err(os)?.dev();
        let sum = wanted.entry(filesystem).or_default();
        *sum = sum.saturating_add(size.0);
        let room = rustix::fs::statvfs(parent(path)).map_err(|error| os(error.into()))?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        if *sum > free {
            let what = format!("no space: its filesystem has {} free", Size(free));
            let hint = "free some space, or ask for less";
            return Err(Failure::new(path.display(), what).hint(hint));
        }
    }
    Ok(())
}

/// Targets with those that exist opened (and claimed).
pub struct Opened {
    slots: Vec<(PathBuf, Slot)>,
}

enum Slot {
    Existing(UringDrive),
    New(Size),
}

/// Looks at every name, then opens those that exist.
pub(crate) async fn open_named(env: &UringEnv, names: &[String]) -> Outcome<Opened> {
    let names = names.to_vec();
    let targets = apart(env, move || resolve(&names)).await??;
    let mut slots = Vec::new();
    for target in &targets {
        let slot = match target {
            Target::Existing(path) => Slot::Existing(open_to_write(env, path).await?),
            Target::NewFile { size, .. } => Slot::New(*size),
        };
        slots.push((target.path().to_owned(), slot));
    }
    Ok(Opened { slots })
}

async fn open_to_write(env: &UringEnv, path: &Path) -> Outcome<UringDrive> {
    let opened = UringDrive::open_apart(env, path, Access::ReadWrite).await;
    opened.map_err(|error| match error {
        OpenError::NotADrive { kind: "directory", .. } => {
            let hint = format!("'{}/NAME:SIZE' makes a file in it", path.display());
            refused(path, &error).hint(hint)
        }
        _ => refused(path, &error),
    })
}

impl Opened {
    /// What the plan is made from. New files will have the alignment their filesystem gives
    /// them; sizes decide the plan.
    pub fn geometries(&self) -> Vec<(String, Geometry)> {
        let geometry = |slot: &Slot| match slot {
            Slot::Existing(drive) => drive.geometry(),
            Slot::New(size) => {
                Geometry { size: size.0, align: 4096, atomic: 512, rotational: false }
            }
        };
        self.slots.iter().map(|(path, slot)| (path.display().to_string(), geometry(slot))).collect()
    }

    /// The drives that have contents to lose.
    pub fn existing(&self) -> impl Iterator<Item = (&Path, &UringDrive)> {
        self.slots.iter().filter_map(|(path, slot)| match slot {
            Slot::Existing(drive) => Some((path.as_path(), drive)),
            Slot::New(_) => None,
        })
    }

    /// Makes the missing files and opens them: every drive of the new pool, in order.
    pub(crate) async fn make_files(self, env: &UringEnv) -> Outcome<Made> {
        let mut made = Made { drives: Vec::new(), found: Vec::new(), files: Vec::new() };
        for (path, slot) in self.slots {
            made.found.push(matches!(slot, Slot::Existing(_)));
            let drive = match slot {
                Slot::Existing(drive) => drive,
                Slot::New(size) => {
                    let new = path.clone();
                    let created = apart(env, move || create_file(&new, size.0)).await?;
                    created.map_err(|error| refused(&path, &error))?;
                    made.files.push(path.clone());
                    open(env, &path, Access::ReadWrite).await?
                }
            };
            made.drives.push(drive);
        }
        Ok(made)
    }
}

/// All drives, open; files made here go again with this value unless it is told to keep them.
pub struct Made {
    drives: Vec<UringDrive>,
    /// Which of them were there before.
    found: Vec<bool>,
    files: Vec<PathBuf>,
}

impl Made {
    pub fn drives(&self) -> &[UringDrive] {
        &self.drives
    }

    /// Of these handles on the same drives those of drives that were there before.
    pub fn found<D: Clone>(&self, handles: &[D]) -> Vec<D> {
        let found = handles.iter().zip(&self.found).filter(|(_, found)| **found);
        found.map(|(handle, _)| handle.clone()).collect()
    }

    pub fn keep(mut self) {
        self.files.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in &self.files {
            // Best effort: the error that led here is the one to report.
            let _ = fs::remove_file(path);
        }
    }
}
