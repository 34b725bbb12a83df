//! A drive in memory that completes at once: what remains of a measurement is our own cost.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use memmap2::{MmapMut, MmapOptions, UncheckedAdvice};

use crate::buf::Buf;
use crate::drive::{
    Drive, DriveError, DriveErrorKind, Durability, Geometry, Operation, check_range,
};
use crate::slice;

/// Unit in which we know what was written, and in which discard gives memory back.
const CHUNK: usize = 256 << 10;

/// A drive in memory. Never written means not allocated, and reads as zeroes.
#[derive(Clone)]
pub struct MemDrive {
    inner: Rc<Inner>,
}

struct Inner {
    name: String,
    geometry: Geometry,
    /// Mapped as a whole, without reserving: the kernel gives pages as they are touched. From
    /// the allocator chunks would come cleared or from recycled memory, as it likes.
    bytes: RefCell<MmapMut>,
    /// Chunks that were written: one byte for 256 KiB.
    written: RefCell<Vec<bool>>,
}

fn chunks_of(offset: u64, len: usize) -> Range<usize> {
    let end = offset as usize + len;
    offset as usize / CHUNK..end.div_ceil(CHUNK)
}

impl MemDrive {
    /// Panics if the address space has no room for `size` bytes.
    pub fn new(name: impl Into<String>, size: u64, align: u32) -> MemDrive {
        MemDrive::try_new(name, size, align).expect("address space for the drive")
    }

    /// An error if the address space has no room for `size` bytes.
    pub fn try_new(
        name: impl Into<String>,
        size: u64,
        align: u32,
    ) -> Result<MemDrive, std::io::Error> {
        assert!(align.is_power_of_two() && size.is_multiple_of(u64::from(align)));
        let len = usize::try_from(size).map_err(std::io::Error::other)?;
        let inner = Inner {
            name: name.into(),
            geometry: Geometry { size, align, atomic: align, rotational: false },
            bytes: RefCell::new(MmapOptions::new().len(len).no_reserve_swap().map_anon()?),
            written: RefCell::new(vec![false; len.div_ceil(CHUNK)]),
        };
        Ok(MemDrive { inner: Rc::new(inner) })
    }

    /// Bytes of memory taken by what was written, in whole chunks.
    pub fn allocated(&self) -> u64 {
        let written = self.inner.written.borrow();
        written.iter().filter(|&&written| written).count() as u64 * CHUNK as u64
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DriveError> {
        check_range(self.inner.geometry, operation, offset, len)
    }
}

impl Drive for MemDrive {
    fn geometry(&self) -> Geometry {
        self.inner.geometry
    }

    fn name(&self) -> String {
        self.inner.name.clone()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        self.check(Operation::Read, offset, len as u64)?;
        slice::breathe(len).await;
        Ok(Buf::from_slice(&self.inner.bytes.borrow()[offset as usize..][..len]))
    }

    async fn write(&self, offset: u64, data: Buf, _: Durability) -> Result<(), DriveError> {
        self.check(Operation::Write, offset, data.len() as u64)?;
        slice::breathe(data.len()).await;
        self.inner.bytes.borrow_mut()[offset as usize..][..data.len()].copy_from_slice(&data);
        self.inner.written.borrow_mut()[chunks_of(offset, data.len())].fill(true);
        Ok(())
    }

    async fn flush(&self) -> Result<(), DriveError> {
        Ok(())
    }

    /// Frees the chunks that lie wholly inside the range; the rest keeps its content.
    async fn discard(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        self.check(Operation::Discard, offset, len)?;
        let first = offset.div_ceil(CHUNK as u64) as usize;
        let end = ((offset + len) / CHUNK as u64) as usize;
        if first >= end {
            return Ok(());
        }
        self.inner.written.borrow_mut()[first..end].fill(false);
        let bytes = self.inner.bytes.borrow();
        // SAFETY: nothing but this drive refers to the mapping, which is private and anonymous:
        // its pages read as zeroes afterwards.
        let freed = unsafe {
            bytes.unchecked_advise_range(
                UncheckedAdvice::DontNeed,
                first * CHUNK,
                (end - first) * CHUNK,
            )
        };
        freed.map_err(|error| DriveError {
            operation: Operation::Discard,
            offset,
            len,
            kind: DriveErrorKind::Os(error.raw_os_error().unwrap_or_default()),
        })
    }

    async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        self.check(Operation::Discard, offset, len)?;
        let (start, end, chunk) = (offset as usize, (offset + len) as usize, CHUNK);
        let (first, last) = (start.next_multiple_of(chunk).min(end), end / chunk * chunk);
        for edge in [start..first, last.max(first)..end] {
            self.inner.bytes.borrow_mut()[edge].fill(0);
        }
        self.discard(offset, len).await
    }

    fn takes_write_zeroes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use futures_util::FutureExt;

    /// A future that doesn't complete at once breaks a promise of this module.
    fn now<T>(future: impl Future<Output = T>) -> T {
        future.now_or_never().expect("completes without waiting")
    }

    fn write(drive: &MemDrive, offset: u64, data: &[u8]) -> Result<(), DriveError> {
        now(drive.write(offset, Buf::from_slice(data), Durability::Cached))
    }

    #[test]
    fn holds_what_was_written_across_chunks() {
        let size = 3 * CHUNK as u64 + 4096;
        let drive = MemDrive::new("mem:0", size, 512);
        let (mut model, mut rng) = (vec![0; size as usize], Rng::new(1));
        for _ in 0..300 {
            let len = 512 * (1 + rng.below(600));
            let offset = 512 * rng.below((size - len) / 512 + 1);
            let range = offset as usize..(offset + len) as usize;
            if rng.chance(1, 2) {
                rng.fill(&mut model[range.clone()]);
                write(&drive, offset, &model[range]).unwrap();
            } else {
                assert_eq!(&*now(drive.read(offset, len as usize)).unwrap(), &model[range]);
            }
        }
        now(drive.flush()).unwrap();
        assert_eq!(&*now(drive.read(0, size as usize)).unwrap(), &model);
        assert_eq!(drive.allocated(), 4 * CHUNK as u64);
    }

    #[test]
    fn a_huge_drive_costs_what_is_written_and_discard_gives_it_back() {
        let drive = MemDrive::new("mem:1", 1 << 40, 4096);
        let last = (1 << 40) - 4096;
        write(&drive, last, &[7; 4096]).unwrap();
        write(&drive, 0, &[8; 4096]).unwrap();
        assert_eq!(drive.allocated(), 2 * CHUNK as u64);
        assert_eq!(&*now(drive.read(last, 4096)).unwrap(), &[7; 4096]);
        now(drive.discard(0, CHUNK as u64 - 4096)).unwrap();
        assert_eq!(drive.allocated(), 2 * CHUNK as u64);
        now(drive.discard(0, 1 << 40)).unwrap();
        assert_eq!(drive.allocated(), 0);
        assert_eq!(&*now(drive.read(last, 4096)).unwrap(), &[0; 4096]);
        now(drive.discard(8192, 4096)).unwrap();
    }

    #[test]
    fn ranges_are_checked() {
        let drive = MemDrive::new("mem:2", 1 << 20, 4096);
        for (offset, len) in [(512, 4096), (0, 512), (1 << 20, 4096), (!4095, 8192)] {
            let error = now(drive.read(offset, len)).unwrap_err();
            assert_eq!(error.kind, DriveErrorKind::OutOfRange);
            let error = write(&drive, offset, &vec![0; len]).unwrap_err();
            assert_eq!(error.kind, DriveErrorKind::OutOfRange);
            let error = now(drive.discard(offset, len as u64)).unwrap_err();
            assert_eq!(error.kind, DriveErrorKind::OutOfRange);
        }
        assert!(now(drive.read(1 << 20, 0)).unwrap().is_empty());
    }
}
