//! Drives before they belong to a pool: what a path is, whether we may have it, what is on it.
//!
//! [`target`] drives to make a pool of, [`gate`] what may be overwritten, [`blank`] telling them
//! that they hold nothing, [`scan`] finding pools on drives that have them, [`found`] what one is
//! that is found, [`name`] how drives are named, [`modelled`] those with a model's timing.

pub mod blank;
mod found;
pub mod gate;
mod in_time;
pub mod modelled;
pub mod name;
pub mod scan;
pub mod target;

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use io::uring::{Access, OpenError, UringDrive, UringEnv};
use io::{Env, Nanos};

use crate::error::{Failure, Outcome};
use crate::explain;

/// What makes two paths the same drive, whatever links lead there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    Device(u64),
    File { filesystem: u64, inode: u64 },
}

impl Identity {
    pub fn of(metadata: &Metadata) -> Identity {
        if metadata.file_type().is_block_device() {
            Identity::Device(metadata.rdev())
        } else {
            Identity::File { filesystem: metadata.dev(), inode: metadata.ino() }
        }
    }
}

/// Nobody else waits for it: the path may be of a filesystem whose server is silent.
pub(crate) async fn open(env: &UringEnv, path: &Path, access: Access) -> Outcome<UringDrive> {
    UringDrive::open_apart(env, path, access).await.map_err(|error| refused(path, &error))
}

/// What a call says that may wait for a filesystem, from a thread of its own.
pub(crate) async fn apart<T: Send + 'static>(
    env: &UringEnv,
    call: impl FnOnce() -> T + Send + 'static,
) -> Outcome<T> {
    env.apart(call).await.map_err(|error| Failure::new("threads", error))
}

/// The kernel winds up the io_uring of a process that was killed after the process is gone, and
/// keeps its sockets and claims on drives until then: a few milliseconds, more on a busy
/// machine. Whoever starts a server again at once should not be refused for that.
pub const PATIENCE: Nanos = Nanos::from_secs(2);
/// Between two tries.
pub const RETRY: Nanos = Nanos::from_millis(20);

/// Opens a drive to use it; waits for the last breath of a server that has it.
pub(crate) async fn lock(env: &UringEnv, path: &Path) -> Result<UringDrive, OpenError> {
    lock_within(env, path, PATIENCE).await
}

async fn lock_within(
    env: &UringEnv,
    path: &Path,
    patience: Nanos,
) -> Result<UringDrive, OpenError> {
    let deadline = env.now() + patience;
    loop {
        match UringDrive::open_apart(env, path, Access::ReadWrite).await {
            Err(OpenError::Locked { .. } | OpenError::InUse { .. }) if env.now() < deadline => {
                env.sleep_until(env.now() + RETRY).await;
            }
            opened => return opened,
        }
    }
}

/// Waits until nobody has a drive any more that a pool may have given up, under the name `lost`.
/// What was asked of that one before is over when the drive answers, or the kernel gives it up.
pub(crate) async fn until_let_go(env: &UringEnv, path: &Path, lost: &str) -> Outcome<()> {
    let (own, lost) = (path.to_owned(), PathBuf::from(lost));
    let is_lost = move || {
        let (own, lost) = (own.canonicalize(), lost.canonicalize());
        own.is_ok() && own.ok() == lost.ok()
    };
    let is_lost = apart(env, is_lost).await?;
    let patience = if is_lost { in_time::ANSWER_MAX } else { PATIENCE };
    match lock_within(env, path, patience).await {
        Ok(_drive) => Ok(()),
        Err(OpenError::Locked { .. } | OpenError::InUse { .. }) if is_lost => {
            let what = "is in use; what was asked of it before it was lost may not be over";
            Err(Failure::new(path.display(), what)
                .hint("try again when it answers, or give another drive"))
        }
        Err(error) => Err(refused(path, &error)),
    }
}

/// The same for every verb: a drive that can't be opened, or made.
pub fn refused(path: &Path, error: &OpenError) -> Failure {
    let failure = |what: &str| Failure::new(path.display(), what);
    match error {
        OpenError::Missing { .. } => {
            failure("no such file or device").hint("check the name, and that the drive is attached")
        }
        OpenError::Denied { .. } => {
            failure("permission denied").hint("run as root, or give this user access to it")
        }
        OpenError::ReadOnly { .. } => failure("is read-only").hint("make it writable"),
        OpenError::NotADrive { kind, .. } => {
            failure(&format!("is a {kind}; a drive is a block device or a regular file"))
        }
        OpenError::InUse { .. } => failure(
            "is in use (mounted, swap, a member of md or LVM, or \
                                            served)",
        )
        .hint("unmount or stop what uses it; --force does not help against this"),
        OpenError::Locked { .. } => failure(explain::IN_USE)
            .hint("if a server has it, ask that one (without --drives), or stop it first"),
        OpenError::Exists { .. } => failure("exists already").hint("choose another name"),
        OpenError::NoSpace { size, .. } => {
            failure(&format!("no space for {} on its filesystem", crate::size::Size(*size)))
                .hint("free some space, or ask for less")
        }
        OpenError::Alignment { align, .. } => {
            failure(&format!("takes transfers of {align} bytes only; at most 4096 is supported"))
        }
        OpenError::Os { action, source, .. } => failure(&format!("can't {action}: {source}")),
    }
}
