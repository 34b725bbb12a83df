//! Every kind of drive the real environment knows, under one type.

use super::drive::UringDrive;
use crate::buf::Buf;
use crate::drive::{Drive, DriveError, Durability, Geometry};
use crate::mem::MemDrive;

/// A drive of the real environment. A new kind is a variant here and a line in `each!`.
#[derive(Clone)]
pub enum RealDrive {
    /// A block device or a regular file.
    File(UringDrive),
    /// Memory of this process.
    Mem(MemDrive),
}

impl From<UringDrive> for RealDrive {
    fn from(drive: UringDrive) -> RealDrive {
        RealDrive::File(drive)
    }
}

impl From<MemDrive> for RealDrive {
    fn from(drive: MemDrive) -> RealDrive {
        RealDrive::Mem(drive)
    }
}

/// The same expression for whichever kind it is.
macro_rules! each {
    ($self:expr, $drive:ident => $call:expr) => {
        match $self {
            RealDrive::File($drive) => $call,
            RealDrive::Mem($drive) => $call,
        }
    };
}

impl Drive for RealDrive {
    fn geometry(&self) -> Geometry {
        each!(self, drive => drive.geometry())
    }

    fn name(&self) -> String {
        each!(self, drive => drive.name())
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        each!(self, drive => drive.read(offset, len).await)
    }

    async fn write(
        &self,
        offset: u64,
        data: Buf,
        durability: Durability,
    ) -> Result<(), DriveError> {
        each!(self, drive => drive.write(offset, data, durability).await)
    }

    async fn flush(&self) -> Result<(), DriveError> {
        each!(self, drive => drive.flush().await)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        each!(self, drive => drive.discard(offset, len).await)
    }
}
