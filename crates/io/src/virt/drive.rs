//! Every kind of drive the virtual environment knows, under one type.

use super::{Attached, Disk, Timing, VirtEnv};
use crate::any::{AnyDrive, drive_of_kinds};
use crate::buf::Buf;
use crate::drive::{Drive, DriveError, Durability, Geometry};

/// A drive of the virtual environment.
#[derive(Clone)]
pub enum VirtDrive {
    /// A disk attached to the machine.
    Disk(Attached),
    /// Whatever wraps one, or something else.
    Any(AnyDrive),
}

impl VirtDrive {
    /// Connects a disk with a machine; see [`Attached::new`].
    pub fn attach(env: &VirtEnv, disk: &Disk, timing: impl Into<Timing>) -> VirtDrive {
        VirtDrive::Disk(Attached::new(env, disk, timing))
    }
}

impl From<Attached> for VirtDrive {
    fn from(drive: Attached) -> VirtDrive {
        VirtDrive::Disk(drive)
    }
}

impl From<AnyDrive> for VirtDrive {
    fn from(drive: AnyDrive) -> VirtDrive {
        VirtDrive::Any(drive)
    }
}

drive_of_kinds!(VirtDrive: Disk, Any);
