//! One drive by itself, without any redundancy: what arrays are measured against.

use io::virt::VirtDrive;
use io::{Buf, BufMut, Drive, Durability};

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

impl Single {
    /// Writes all that is used, as arrays are filled.
    pub async fn fill(&self) -> Result<(), String> {
        const STEP: u64 = 1 << 20;
        let zeroes = Buf::zeroed(STEP as usize);
        for at in (0..self.size).step_by(STEP as usize) {
            self.write(at, zeroes.slice(0..STEP.min(self.size - at) as usize)).await?;
        }
        self.flush().await
    }
}

impl Array for Single {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, len: u64) -> Answer<'_, Vec<Buf>> {
        Box::pin(async move { Ok(vec![self.bytes(offset, len).await?]) })
    }

    /// What a drive can't take exactly is filled up with what is there, as a kernel does.
    fn write(&self, offset: u64, data: Buf) -> Answer<'_> {
        Box::pin(async move {
            let (from, to) = self.around(offset, data.len() as u64);
            let whole = match to - from == data.len() as u64 {
                true => data,
                false => {
                    let old = self.bytes(from, to - from).await?;
                    let mut whole = BufMut::with_len(old.len());
                    whole.copy_from_slice(&old);
                    whole[(offset - from) as usize..][..data.len()].copy_from_slice(&data);
                    whole.freeze()
                }
            };
            let written = self.drive.write(from, whole, Durability::Cached).await;
            written.map_err(|error| error.to_string())
        })
    }

    fn flush(&self) -> Answer<'_> {
        Box::pin(async move { self.drive.flush().await.map_err(|error| error.to_string()) })
    }
}

impl Single {
    /// Whole units of the drive.
    fn around(&self, offset: u64, len: u64) -> (u64, u64) {
        let unit = u64::from(self.drive.geometry().align);
        (offset / unit * unit, (offset + len).next_multiple_of(unit))
    }

    async fn bytes(&self, offset: u64, len: u64) -> Result<Buf, String> {
        let (from, to) = self.around(offset, len);
        let read = self.drive.read(from, (to - from) as usize).await;
        let read = read.map_err(|error| error.to_string())?;
        Ok(read.slice((offset - from) as usize..(offset + len - from) as usize))
    }
}
