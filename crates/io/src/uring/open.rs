//! What a path is, whether we may have it, and how it wants to be read and written.

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::discard::Discarder;
use super::geometry;
use crate::drive::Geometry;

/// What a drive is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To be used: claimed exclusively.
    ReadWrite,
    /// To be looked at: nothing is claimed, nothing can be written.
    ReadOnly,
}

/// Why a path can't be opened (or made) as a drive.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path}: no such file or device; check the name and that the drive is attached")]
    Missing { path: PathBuf },
    #[error("{path}: permission denied; run as root or give this user access to it")]
    Denied { path: PathBuf },
    #[error("{path} is read-only; make it writable, or open it only for inspection")]
    ReadOnly { path: PathBuf },
    #[error("{path} is a {kind}; a drive must be a block device or a regular file")]
    NotADrive { path: PathBuf, kind: &'static str },
    #[error("{path} is in use (mounted, or member of md/LVM); release it there first")]
    InUse { path: PathBuf },
    #[error("{path} is in use by another process; stop that first")]
    Locked { path: PathBuf },
    #[error("{path} takes transfers aligned to {align} bytes only; at most 4096 is supported")]
    Alignment { path: PathBuf, align: u64 },
    #[error("{path} exists already; remove it or choose another name")]
    Exists { path: PathBuf },
    #[error("{path}: no space for {size} bytes on its filesystem; free some or ask for less")]
    NoSpace { path: PathBuf, size: u64 },
    #[error("{path}: can't {action}: {source}")]
    Os { path: PathBuf, action: &'static str, source: io::Error },
}

/// What is known of an open drive.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) geometry: Geometry,
    /// Where in memory the bytes of a transfer may start.
    pub(super) memory_align: usize,
    pub(super) direct: bool,
    /// A file that is in a directory.
    pub(super) is_named: bool,
    /// Calls about it may wait for somebody else than this machine.
    pub(super) may_hang: bool,
    pub(super) discarder: Discarder,
}

pub(super) fn open(path: &Path, access: Access) -> Result<(File, Opened), OpenError> {
    let os = |action| move |error| explain(path, action, error);
    // Asked before opening, because opening a tape or a FIFO already does something.
    let metadata = fs::metadata(path).map_err(os("look at it"))?;
    let block = is_block_device(path, metadata.file_type())?;
    let (mut file, direct) = open_direct(path, access, block).map_err(os("open it"))?;
    let metadata = file.metadata().map_err(os("look at it"))?;
    if is_block_device(path, metadata.file_type())? != block {
        let source = io::Error::other("it was replaced while being opened");
        return Err(OpenError::Os { path: path.into(), action: "open it", source });
    }
    if access == Access::ReadWrite {
        claim(path, &file, block)?;
    }
    let size = file.seek(SeekFrom::End(0)).map_err(os("find its size"))?;
    let opened = describe(path, &file, &metadata, size, direct)?;
    Ok((file, opened))
}

fn is_block_device(path: &Path, kind: FileType) -> Result<bool, OpenError> {
    let kind = match kind {
        kind if kind.is_block_device() => return Ok(true),
        kind if kind.is_file() => return Ok(false),
        kind if kind.is_dir() => "directory",
        kind if kind.is_char_device() => "character device",
        kind if kind.is_socket() => "socket",
        kind if kind.is_fifo() => "pipe",
        _ => "file of an unknown kind",
    };
    Err(OpenError::NotADrive { path: path.into(), kind })
}

/// Opens past the page cache, or through it on a filesystem that can't do otherwise.
fn open_direct(path: &Path, access: Access, block: bool) -> io::Result<(File, bool)> {
    let writing = access == Access::ReadWrite;
    // On a block device O_EXCL without O_CREAT claims it against mounts, md, LVM and us.
    let exclusive = if block && writing { libc::O_EXCL } else { 0 };
    let open = |flags| {
        let mut options = OpenOptions::new();
        options.read(true).write(writing).custom_flags(exclusive | flags).open(path)
    };
    match open(libc::O_DIRECT) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok((open(0)?, false)),
        file => Ok((file?, true)),
    }
}

/// A file is claimed by a lock that goes with its descriptor. A block device is claimed by
/// now, but the kernel lets a write-protected one be opened for writing.
fn claim(path: &Path, file: &File, block: bool) -> Result<(), OpenError> {
    if block {
        return match geometry::is_write_protected(file) {
            true => Err(OpenError::ReadOnly { path: path.into() }),
            false => Ok(()),
        };
    }
    file.try_lock().map_err(|error| match error {
        fs::TryLockError::WouldBlock => OpenError::Locked { path: path.into() },
        fs::TryLockError::Error(error) => explain(path, "lock it", error),
    })
}

fn describe(
    path: &Path,
    file: &File,
    metadata: &Metadata,
    size: u64,
    direct: bool,
) -> Result<Opened, OpenError> {
    let block = metadata.file_type().is_block_device();
    let alignment = geometry::alignment(file, block, direct);
    let align = geometry::checked(alignment.offset)
        .and_then(|align| geometry::checked(alignment.memory).map(|_| align))
        .ok_or(OpenError::Alignment {
            path: path.into(),
            align: alignment.offset.max(alignment.memory),
        })?;
    let device = if block { metadata.rdev() } else { metadata.dev() };
    let file_block = (!block).then_some(metadata.blksize());
    let geometry = Geometry {
        size: size - size % u64::from(align),
        align,
        atomic: geometry::atomic(device, file_block),
        rotational: geometry::is_rotational(device),
    };
    let discarder = match block {
        true => Discarder::of_device(device, align),
        false => {
            let has_all = metadata.blocks().saturating_mul(512) >= size;
            Discarder::of_file(u32::try_from(metadata.blksize()).unwrap_or(align), has_all)
        }
    };
    Ok(Opened {
        path: path.into(),
        geometry,
        memory_align: alignment.memory as usize,
        direct,
        is_named: !block && metadata.nlink() > 0,
        may_hang: !block && geometry::may_hang(file),
        discarder,
    })
}

/// Makes a regular file of `size` bytes that are really there, to be used as a drive.
pub fn create_file(path: impl AsRef<Path>, size: u64) -> Result<(), OpenError> {
    let path = path.as_ref();
    let os = |action| move |error| explain(path, action, error);
    let mut options = OpenOptions::new();
    let file =
        options.write(true).create_new(true).mode(0o600).open(path).map_err(os("make it"))?;
    let filled = allocate(&file, size).and_then(|()| file.sync_all()).and_then(|()| {
        // The name must survive a power cut as well.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    });
    filled.map_err(|error| {
        // Only ever removes what was made here: `create_new` refuses a file that exists.
        let _ = fs::remove_file(path);
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => OpenError::NoSpace { path: path.into(), size },
            _ => explain(path, "allocate its space", error),
        }
    })
}

fn allocate(file: &File, size: u64) -> io::Result<()> {
    let len =
        libc::off_t::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    if len == 0 {
        return Ok(());
    }
    // SAFETY: a call without pointers on an open descriptor.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn explain(path: &Path, action: &'static str, source: io::Error) -> OpenError {
    let path = path.into();
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM) => {
            OpenError::Missing { path }
        }
        Some(libc::EACCES | libc::EPERM) => OpenError::Denied { path },
        Some(libc::EROFS) => OpenError::ReadOnly { path },
        Some(libc::EBUSY) => OpenError::InUse { path },
        Some(libc::EEXIST) => OpenError::Exists { path },
        _ => OpenError::Os { path, action, source },
    }
}
