//! Every kind of drive the real environment knows, under one type.

use super::UringEnv;
use super::drive::UringDrive;
use crate::any::{AnyDrive, drive_of_kinds};
use crate::buf::Buf;
use crate::drive::{Drive, DriveError, Durability, Geometry};
use crate::fence::Fenced;
use crate::mem::MemDrive;

/// A drive of the real environment. A new kind is a variant here and in the last line.
#[derive(Clone)]
pub enum RealDrive {
    /// A block device or a regular file.
    File(UringDrive),
    /// The same as long as this host has it.
    Fenced(Fenced<UringEnv, UringDrive>),
    /// Memory of this process.
    Mem(MemDrive),
    /// What wraps one of these: a model's timing, faults.
    Any(AnyDrive),
}

impl From<UringDrive> for RealDrive {
    fn from(drive: UringDrive) -> RealDrive {
        RealDrive::File(drive)
    }
}

impl From<Fenced<UringEnv, UringDrive>> for RealDrive {
    fn from(drive: Fenced<UringEnv, UringDrive>) -> RealDrive {
        RealDrive::Fenced(drive)
    }
}

impl From<MemDrive> for RealDrive {
    fn from(drive: MemDrive) -> RealDrive {
        RealDrive::Mem(drive)
    }
}

impl From<AnyDrive> for RealDrive {
    fn from(drive: AnyDrive) -> RealDrive {
        RealDrive::Any(drive)
    }
}

impl RealDrive {
    /// The block device or regular file that it is, unless something else wraps it.
    pub fn file(&self) -> Option<&UringDrive> {
        match self {
            RealDrive::File(file) => Some(file),
            RealDrive::Fenced(fenced) => Some(fenced.bare()),
            RealDrive::Mem(_) | RealDrive::Any(_) => None,
        }
    }
}

drive_of_kinds!(RealDrive: File, Fenced, Mem, Any);
