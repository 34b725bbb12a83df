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

use std::path::Path;

use engine::{Label, read_label};
use format::{SCHEME_FUSION, SCHEME_FUSION_ND, Superblock, end_area};
use io::Drive;
use io::uring::{Access, OpenError, RealDrive, UringDrive, UringEnv};
use rustix::io::Errno;

use super::in_time::{ANSWER_MAX, in_time};
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

/// What is on a drive, without claiming it.
pub(super) async fn look(env: &UringEnv, path: &Path) -> Found {
    let (own, of) = (env.clone(), path.to_owned());
    let asked = async move { look_without_end(&own, &of).await };
    in_time(env, path, asked).await.unwrap_or_else(|| silent(path))
}

fn silent(path: &Path) -> Found {
    let what = format!("has not answered for {ANSWER_MAX}, and is left out");
    let failure = Failure::new(path.display(), what)
        .hint("see what is wrong with it or the way to it; once it answers it is a drive again");
    Found::Unusable { flaw: Flaw::Lost, failure, label: None }
}

async fn look_without_end(env: &UringEnv, path: &Path) -> Found {
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
