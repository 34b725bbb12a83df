//! A block device or regular file as a drive.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::{Rc, Weak};

use super::UringEnv;
use super::geometry;
use super::open::{self, Access, OpenError};
use super::ring::Ring;
use crate::buf::{Buf, BufMut};
use crate::drive::{
    Drive, DriveError, DriveErrorKind, Durability, Geometry, Operation, check_range,
};

struct Inner {
    ring: Ring,
    file: Rc<OwnedFd>,
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
        let (file, opened) = open::open(path.as_ref(), access)?;
        let file = Rc::new(OwnedFd::from(file));
        let inner = Inner { ring: env.ring().clone(), file, opened };
        Ok(UringDrive { inner: Rc::new(inner) })
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

    /// `None` if it is a device, or a file without a name from the beginning.
    pub fn watch(&self) -> Option<FileWatch> {
        let inner = &self.inner;
        let named = inner.opened.is_file && !geometry::is_deleted(&*inner.file);
        named.then(|| FileWatch { inner: Rc::downgrade(inner) })
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
            done += self.progress(inner.ring.write(&inner.file, &data, rest, at, flags).await)?;
        }
        Ok(())
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

/// Whether a file that is a drive is still in a directory. It can be read and written until it is
/// closed, and is lost then. Keeps nobody from closing it.
pub struct FileWatch {
    inner: Weak<Inner>,
}

impl FileWatch {
    /// `None` once it is closed.
    pub fn is_deleted(&self) -> Option<bool> {
        self.inner.upgrade().map(|inner| geometry::is_deleted(&*inner.file))
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
        let Inner { ring, file, opened } = &*self.inner;
        let result = opened.discarder.discard(ring, file, (offset, len)).await;
        result.map_err(|error| DriveError { operation, offset, len, kind: kind(&error) })
    }

    fn discard_granularity(&self) -> Option<u32> {
        self.inner.opened.discarder.granularity()
    }
}
