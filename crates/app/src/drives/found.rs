//! What a drive is that is found at start, and what follows if it can't be used.
//!
//! ```text
//!                                    its pool lacks a drive   no pool lacks one
//! lost: missing, unreadable, cut     left out, told           left out, told if named
//! unseen: may be well, but we may    the pool is refused      left out, told if named
//!   not look, or don't understand
//! other: of nobody or of another     left out, told if named  left out, told if named
//! ```
//! A drive without a label that we can read belongs to no pool for certain. It matters to those
//! that lack one. What is found in a directory may be anything; who names a drive means it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::pin;

use engine::{Label, read_label};
use format::{SCHEME_FUSION, SCHEME_FUSION_ND, Superblock, end_area};
use futures_util::future::{Either, select};
use io::sync::oneshot;
use io::uring::{Access, OpenError, RealDrive, UringDrive, UringEnv};
use io::{Drive, Env, Nanos};
use rustix::io::Errno;

use super::refused;
use crate::error::Failure;
use crate::explain;
use crate::size::Size;

pub(super) enum Found {
    Ours(Box<Superblock>),
    Unusable {
        flaw: Flaw,
        failure: Failure,
        /// What its label says, if that much of it is there.
        label: Option<Box<Superblock>>,
    },
}

/// Why a drive can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// A pool has to do without it.
    Lost,
    /// Without it a pool would be opened, and it would be out of date from then on.
    Unseen,
    /// It is no drive of ours.
    Other,
}

/// Whoever is silent for so long does not answer at all: of commands to disks the kernel gives up
/// waiting after 30 s.
const LOOK_MAX: Nanos = Nanos::from_secs(35);

thread_local! {
    /// Drives that have not answered yet, for longer than that. Each keeps a thread, so nobody
    /// looks at one again.
    static SILENT: RefCell<BTreeSet<PathBuf>> = const { RefCell::new(BTreeSet::new()) };
}

/// The same for a drive that may never answer.
pub(super) async fn look_in_time(env: &UringEnv, path: &Path) -> Found {
    let looks = |paths: &RefCell<BTreeSet<PathBuf>>| paths.borrow().contains(path);
    if SILENT.with(looks) {
        return silent(path);
    }
    let (told, answer) = oneshot();
    let (own, of) = (env.clone(), path.to_owned());
    env.spawn(async move {
        told.send(look(&own, &of).await);
        SILENT.with(|paths| paths.borrow_mut().remove(&of));
    });
    match select(pin!(answer), pin!(env.sleep_until(env.now() + LOOK_MAX))).await {
        Either::Left((Some(found), _)) => found,
        Either::Left((None, _)) | Either::Right(_) => {
            SILENT.with(|paths| paths.borrow_mut().insert(path.to_owned()));
            silent(path)
        }
    }
}

fn silent(path: &Path) -> Found {
    let what = format!("has not answered for {LOOK_MAX}, and is left out");
    let failure = Failure::new(path.display(), what)
        .hint("see what is wrong with it or the way to it; once it answers it is a drive again");
    Found::Unusable { flaw: Flaw::Lost, failure, label: None }
}

/// What is on a drive, without claiming it.
async fn look(env: &UringEnv, path: &Path) -> Found {
    match UringDrive::open_apart(env, path, Access::ReadOnly).await {
        Ok(drive) => look_at(&drive.into(), path).await,
        Err(error) => {
            let failure = refused(path, &error);
            Found::Unusable { flaw: flaw(&error), failure, label: None }
        }
    }
}

async fn look_at(drive: &RealDrive, path: &Path) -> Found {
    let failure = |what: &str| Failure::new(path.display(), what);
    let inspect = format!("'steadyraid inspect {}' shows what is on it", path.display());
    let (flaw, failure) = match read_label(drive).await {
        Ok(Label::Ours(label)) => match cut(&label, drive.geometry().size) {
            None => return Found::Ours(label),
            Some(what) => {
                let hint = "what was cut off is lost; 'drive replace' takes another in its place";
                let (flaw, failure) = (Flaw::Lost, failure(&what).hint(hint));
                return Found::Unusable { flaw, failure, label: Some(label) };
            }
        },
        Ok(Label::Empty | Label::Foreign(_)) => {
            (Flaw::Other, failure("is not a SteadyRAID drive, and is left out").hint(inspect))
        }
        Ok(Label::TooNew(what)) => {
            let failure = failure(&format!("is a SteadyRAID drive, but {what}"));
            (Flaw::Unseen, failure.hint("use the version of steadyraid that wrote it"))
        }
        Ok(Label::Unreadable(what)) => {
            (Flaw::Lost, failure(&format!("is a SteadyRAID drive, but {what}")).hint(inspect))
        }
        Err(error) => (Flaw::Lost, explain::drive(path.display(), &error)),
    };
    Found::Unusable { flaw, failure, label: None }
}

/// Nothing of a `fusion` pool lies behind the last label area: less than that is missed by nobody.
/// Arrays use no drive that has less than they know it has.
fn cut(label: &Superblock, size: u64) -> Option<String> {
    let is_cut = match label.scheme {
        SCHEME_FUSION | SCHEME_FUSION_ND => end_area(size) < end_area(label.drive_size),
        _ => size < label.drive_size,
    };
    let (was, is) = (Size(label.drive_size), Size(size));
    is_cut.then(|| format!("has {is}, and had {was} when it was last used"))
}

fn flaw(error: &OpenError) -> Flaw {
    match error {
        OpenError::Missing { .. } => Flaw::Lost,
        OpenError::NotADrive { .. } => Flaw::Other,
        // Else the reason may be the machine, or who runs this: no drive says that.
        OpenError::Os { source, .. } if source.raw_os_error().is_some_and(is_of_the_drive) => {
            Flaw::Lost
        }
        OpenError::Denied { .. }
        | OpenError::ReadOnly { .. }
        | OpenError::InUse { .. }
        | OpenError::Locked { .. }
        | OpenError::Alignment { .. }
        | OpenError::Exists { .. }
        | OpenError::NoSpace { .. }
        | OpenError::Os { .. } => Flaw::Unseen,
    }
}

fn is_of_the_drive(errno: i32) -> bool {
    let of_drives = [
        Errno::IO,
        Errno::NOLINK,
        Errno::REMOTEIO,
        Errno::TIMEDOUT,
        Errno::NOTCONN,
        Errno::STALE,
        Errno::UCLEAN,
    ];
    of_drives.contains(&Errno::from_raw_os_error(errno))
}
