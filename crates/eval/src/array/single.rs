//! One drive by itself, without any redundancy: what arrays are measured against.

use io::virt::VirtDrive;
use io::{Buf, Drive, Durability};

use super::{Answer, Array};

pub struct Single {
    drive: VirtDrive,
    size: u64,
}

impl Single {
    /// The first so many percent of it are used.
    pub fn new(drive: VirtDrive, percent: u64) -> Single {
        /// A stripe unit, so that no request of an experiment lies across the end.
        const STEP: u64 = 1 << 20;
        let size = drive.geometry().size * percent / 100 / STEP * STEP;
        Single { drive, size }
    }
}

impl Array for Single {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, len: u64) -> Answer<'_, Vec<Buf>> {
        Box::pin(async move {
            let read = self.drive.read(offset, len as usize).await;
            read.map(|bytes| vec![bytes]).map_err(|error| error.to_string())
        })
    }

    fn write(&self, offset: u64, data: Buf) -> Answer<'_> {
        Box::pin(async move {
            let written = self.drive.write(offset, data, Durability::Cached).await;
            written.map_err(|error| error.to_string())
        })
    }
}
