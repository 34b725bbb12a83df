//! Where sockets live by default, by one rule:
//!
//! 1. `$STEADYRAID_RUNTIME_DIR`, if set;
//! 2. `/run/steadyraid` for root;
//! 3. `$XDG_RUNTIME_DIR/steadyraid`, if set;
//! 4. `/tmp/steadyraid-UID`.
//!
//! The directory is made with mode 0700 and must belong to us: whoever can write to it can
//! answer in our place.

use std::fs::{DirBuilder, symlink_metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::{Failure, Outcome};

/// The directory of this user; not created.
pub fn path() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let user = rustix::process::geteuid();
    if let Some(path) = variable("STEADYRAID_RUNTIME_DIR") {
        return path;
    }
    if user.is_root() {
        return PathBuf::from("/run/steadyraid");
    }
    match variable("XDG_RUNTIME_DIR") {
        Some(path) => path.join("steadyraid"),
        None => PathBuf::from(format!("/tmp/steadyraid-{}", user.as_raw())),
    }
}

/// The control socket, unless `--control` says otherwise.
pub fn control_socket() -> PathBuf {
    path().join("control.sock")
}

/// The NBD socket, unless `--nbd` says otherwise.
pub fn nbd_socket() -> PathBuf {
    path().join("nbd.sock")
}

/// Makes the directory if it doesn't exist, and refuses one that others could have planted.
pub fn ensure() -> Outcome<()> {
    let path = path();
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => check(&path),
        Err(error) => Err(Failure::new(path.display(), format!("can't make it: {error}"))
            .hint("set STEADYRAID_RUNTIME_DIR, or give --control and --nbd")),
        Ok(()) => Ok(()),
    }
}

fn check(path: &Path) -> Outcome<()> {
    let refuse = |what: String| {
        Err(Failure::new(path.display(), what)
            .hint("set STEADYRAID_RUNTIME_DIR to a directory of your own, mode 0700"))
    };
    let found = match symlink_metadata(path) {
        Ok(found) => found,
        Err(error) => return refuse(format!("can't look at it: {error}")),
    };
    let user = rustix::process::geteuid();
    if !found.is_dir() {
        return refuse("is not a directory".to_owned());
    }
    if found.uid() != user.as_raw() {
        return refuse(format!("belongs to user {}, not to you", found.uid()));
    }
    if found.mode() & 0o022 != 0 {
        return refuse("others may write to it".to_owned());
    }
    Ok(())
}
