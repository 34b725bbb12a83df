//! A block device or regular file as a drive.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::{Rc, Weak};

use super::UringEnv;
use super::blocking::Blocking;
use super::geometry;
use super::handle::{Blocked, Handle};
use super::open::{self, Access, OpenError};
use super::ring::Ring;
use crate::buf::{Buf, BufMut};
use crate::drive::{
    Drive, DriveError, DriveErrorKind, Durability, Geometry, Operation, check_range,
};

struct Inner {
    ring: Ring,
    blocking: Blocking,
    file: Rc<Handle>,
    opened: open::Opened,
}

/// A handle on an open block device or file; the last one to go closes it and gives up the
/// claim on it.
#[derive(Clone)]
pub struct UringDrive {
    inner: Rc<Inner>,
}

impl UringDrive {
    /// Opens and, for writing, claims the drive: nobody else can mount it or open it as a
    /// drive. [`Access::ReadOnly`] claims nothing and therefore also works on a drive in use.
    pub fn open(
        env: &UringEnv,
        path: impl AsRef<Path>,
        access: Access,
    ) -> Result<UringDrive, OpenError> {
        open::open(path.as_ref(), access).map(|opened| UringDrive::of(env, opened))
    }

    /// The same where others must not wait for it.
    pub async fn open_apart(
        env: &UringEnv,
        path: impl AsRef<Path>,
        access: Access,
    ) -> Result<UringDrive, OpenError> {
        let path = path.as_ref().to_owned();
        let opening = path.clone();
        let opened = env.apart(move || open::open(&opening, access)).await;
        let opened = opened.map_err(|source| OpenError::Os { path, action: "open it", source })?;
        opened.map(|opened| UringDrive::of(env, opened))
    }

    fn of(env: &UringEnv, (file, opened): (File, open::Opened)) -> UringDrive {
        let blocking = env.blocking().clone();
        let closes = opened.may_hang.then(|| blocking.clone());
        let file = Rc::new(Handle::of_drive(OwnedFd::from(file), closes));
        let inner = Inner { ring: env.ring().clone(), blocking, file, opened };
        UringDrive { inner: Rc::new(inner) }
    }

    /// Discards as with a kernel before 6.12, whose ring has no command for it: for tests.
    pub fn without_discard_command(self) -> UringDrive {
        self.inner.opened.discarder.forget_command();
        self
    }

    pub fn path(&self) -> &Path {
        &self.inner.opened.path
    }

    /// False if the filesystem has no direct I/O: transfers then go through the page cache,
    /// which costs memory and time but no safety, since a flush still reaches the drive.
    pub fn is_direct(&self) -> bool {
        self.inner.opened.direct
    }

    pub fn watch(&self) -> DriveWatch {
        DriveWatch { inner: Rc::downgrade(&self.inner) }
    }

    /// The data itself if the drive can take it from where it lies, else a copy it can take.
    fn aligned(&self, data: Buf) -> Buf {
        if data.is_aligned(self.inner.opened.memory_align) { data } else { Buf::from_slice(&data) }
    }

    async fn read_all(&self, offset: u64, len: usize) -> Result<Buf, DriveErrorKind> {
        let inner = &*self.inner;
        let mut buf = BufMut::with_len(len);
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (back, count) = inner.ring.read(&inner.file, buf, done..len, at).await;
            buf = back;
            done += self.progress(count)?;
        }
        Ok(buf.freeze())
    }

    async fn write_all(&self, offset: u64, data: Buf, flags: i32) -> Result<(), DriveErrorKind> {
        let inner = &*self.inner;
        let data = self.aligned(data);
        let mut done = 0;
        while done < data.len() {
            let (at, rest) = (offset + done as u64, done..data.len());
            let written = inner.ring.write(&inner.file, &data, rest, at, flags).await;
            done += self.progress(written).map_err(|kind| self.of_write(kind))?;
        }
        Ok(())
    }

    /// A lack of room is one of the write itself only where nothing was promised to be written
    /// later: of a page cache, or of another machine, it may be the last that is heard of earlier
    /// writes, which are lost then.
    fn of_write(&self, kind: DriveErrorKind) -> DriveErrorKind {
        let open::Opened { direct, may_hang, .. } = self.inner.opened;
        match kind {
            DriveErrorKind::Os(errno @ (libc::ENOSPC | libc::EDQUOT | libc::ENOMEM))
                if direct && !may_hang =>
            {
                DriveErrorKind::NoRoom(errno)
            }
            kind => kind,
        }
    }

    /// How far one transfer came. One that ends inside a sector can't be continued with
    /// direct I/O; only a file that was cut behind our back does that.
    fn progress(&self, count: io::Result<usize>) -> Result<usize, DriveErrorKind> {
        match count {
            Ok(0) => Err(DriveErrorKind::Short),
            Ok(count) if count.is_multiple_of(self.inner.opened.geometry.align as usize) => {
                Ok(count)
            }
            Ok(_) => Err(DriveErrorKind::Short),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(kind(&error)),
        }
    }
}

/// What happens to a drive that is open, beside what it is asked. Keeps nobody from closing it.
pub struct DriveWatch {
    inner: Weak<Inner>,
}

/// What was found of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// A file that no directory has any more: it can be read and written until it is closed, and
    /// is lost then. Not of one that had no name from the beginning.
    pub is_deleted: bool,
    /// What has its name now is another file or device.
    pub is_elsewhere: bool,
    /// It has so many bytes, less than when it was opened.
    pub shrunk_to: Option<u64>,
    pub blocked: Blocked,
}

impl DriveWatch {
    /// The drive itself, as long as it is open; it stays so until this is dropped.
    pub fn drive(&self) -> Option<UringDrive> {
        self.inner.upgrade().map(|inner| UringDrive { inner })
    }

    /// `None` once it is closed. A drive that is silent is waited for; one of these is enough.
    pub async fn look(&self) -> Option<Found> {
        let inner = self.inner.upgrade()?;
        let (blocked, opened) = (inner.file.blocked(), &inner.opened);
        let (size, is_named, path) = (opened.geometry.size, opened.is_named, opened.path.clone());
        let looked = match inner.file.as_fd().try_clone_to_owned() {
            Ok(file) => inner.blocking.run(move || geometry::state(&file.into(), &path)),
            // Without a descriptor nothing is known: later.
            Err(_) => return Some(Found { blocked, ..Found::default() }),
        };
        drop(inner);
        let state = looked.await.ok();
        Some(Found {
            is_deleted: is_named && state.as_ref().is_some_and(|state| state.is_deleted),
            is_elsewhere: state.as_ref().is_some_and(|state| state.is_elsewhere),
            shrunk_to: state.and_then(|state| state.size).filter(|now| *now < size),
            blocked,
        })
    }
}

fn kind(error: &io::Error) -> DriveErrorKind {
    match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM) => DriveErrorKind::Removed,
        Some(errno) => DriveErrorKind::Os(errno),
        None => DriveErrorKind::Short,
    }
}

impl Drive for UringDrive {
    fn geometry(&self) -> Geometry {
        self.inner.opened.geometry
    }

    fn name(&self) -> String {
        self.path().display().to_string()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        let operation = Operation::Read;
        check_range(self.geometry(), operation, offset, len as u64)?;
        let result = self.read_all(offset, len).await;
        result.map_err(|kind| DriveError { operation, offset, len: len as u64, kind })
    }

    async fn write(
        &self,
        offset: u64,
        data: Buf,
        durability: Durability,
    ) -> Result<(), DriveError> {
        let (operation, len) = (Operation::Write, data.len() as u64);
        check_range(self.geometry(), operation, offset, len)?;
        let flags = match durability {
            Durability::Cached => 0,
            Durability::Durable => libc::RWF_DSYNC,
        };
        let result = self.write_all(offset, data, flags).await;
        result.map_err(|kind| DriveError { operation, offset, len, kind })
    }

    async fn flush(&self) -> Result<(), DriveError> {
        let result = self.inner.ring.fdatasync(&self.inner.file).await;
        let (operation, offset, len) = (Operation::Flush, 0, 0);
        result.map_err(|error| DriveError { operation, offset, len, kind: kind(&error) })
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        let operation = Operation::Discard;
        check_range(self.geometry(), operation, offset, len)?;
        let Inner { ring, blocking, file, opened } = &*self.inner;
        let result = opened.discarder.discard((ring, blocking), file, (offset, len)).await;
        result.map_err(|error| DriveError { operation, offset, len, kind: kind(&error) })
    }

    async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        let operation = Operation::Discard;
        check_range(self.geometry(), operation, offset, len)?;
        let Inner { ring, file, opened, .. } = &*self.inner;
        match opened.discarder.write_zeroes(ring, file, (offset, len)).await {
            Ok(true) => Ok(()),
            Ok(false) => self.write(offset, Buf::zeroed(len as usize), Durability::Cached).await,
            Err(error) => Err(DriveError { operation, offset, len, kind: kind(&error) }),
        }
    }

    fn takes_write_zeroes(&self) -> bool {
        self.inner.opened.discarder.takes_write_zeroes()
    }

    fn discard_granularity(&self) -> Option<u32> {
        self.inner.opened.discarder.granularity()
    }
}
