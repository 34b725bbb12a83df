//! A stretch of a drive as a drive, so that arrays can lie side by side on the same drives.

use format::Extent;
use io::drive::check_range;
use io::{Buf, Drive, DriveError, Durability, Env, Geometry, Nanos, Operation};

#[derive(Clone, Debug)]
pub struct Part<D> {
    drive: D,
    extent: Extent,
}

impl<D: Drive> Part<D> {
    pub fn new(drive: D, extent: Extent) -> Part<D> {
        let end = extent.offset.checked_add(extent.len);
        assert!(end.is_some_and(|end| end <= drive.geometry().size), "a part lies on its drive");
        Part { drive, extent }
    }

    fn place(&self, operation: Operation, offset: u64, len: u64) -> Result<u64, DriveError> {
        check_range(self.geometry(), operation, offset, len)?;
        Ok(self.extent.offset + offset)
    }
}

impl<D: Drive> Drive for Part<D> {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.extent.len, ..self.drive.geometry() }
    }

    fn name(&self) -> String {
        self.drive.name()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        self.drive.read(self.place(Operation::Read, offset, len as u64)?, len).await
    }

    async fn write(&self, offset: u64, data: Buf, how: Durability) -> Result<(), DriveError> {
        let place = self.place(Operation::Write, offset, data.len() as u64)?;
        self.drive.write(place, data, how).await
    }

    async fn flush(&self) -> Result<(), DriveError> {
        self.drive.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        self.drive.discard(self.place(Operation::Discard, offset, len)?, len).await
    }
}

/// The same world, whose drives are parts of drives.
#[derive(Clone)]
pub struct PartEnv<E>(pub E);

impl<E: Env> Env for PartEnv<E> {
    type Drive = Part<E::Drive>;

    fn now(&self) -> Nanos {
        self.0.now()
    }

    fn recent(&self) -> Nanos {
        self.0.recent()
    }

    fn sleep_until(&self, deadline: Nanos) -> impl Future<Output = ()> + 'static {
        self.0.sleep_until(deadline)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.spawn(task);
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}
