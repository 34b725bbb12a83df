//! A drive in memory that completes at once: what remains of a measurement is our own cost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::buf::{Buf, BufMut};
use crate::drive::{Drive, DriveError, Durability, Geometry, Operation, check_range};

/// Unit of allocation. From this size on the allocator maps zero pages instead of clearing
/// memory, so a first write costs page faults, not a memset.
const CHUNK: usize = 256 << 10;

type Chunk = Box<[u8; CHUNK]>;

/// A drive in memory. Never written means not allocated, and reads as zeroes.
#[derive(Clone)]
pub struct MemDrive {
    inner: Rc<Inner>,
}

struct Inner {
    name: String,
    geometry: Geometry,
    /// One pointer per chunk: 8 bytes for 256 KiB, of which the kernel gives us only touched
    /// pages.
    chunks: RefCell<Vec<Option<Chunk>>>,
    allocated: Cell<usize>,
}

/// One part of a range that lies within a single chunk.
struct Piece {
    chunk: usize,
    /// Where it starts in the chunk.
    start: usize,
    /// Where it starts in the request.
    done: usize,
    len: usize,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let position = offset + done as u64;
        let start = (position % CHUNK as u64) as usize;
        let piece_len = (CHUNK - start).min(len - done);
        let piece =
            Piece { chunk: (position / CHUNK as u64) as usize, start, done, len: piece_len };
        done += piece_len;
        (piece_len > 0).then_some(piece)
    })
}

fn new_chunk() -> Chunk {
    vec![0; CHUNK].into_boxed_slice().try_into().expect("exactly one chunk")
}

impl MemDrive {
    pub fn new(name: impl Into<String>, size: u64, align: u32) -> MemDrive {
        assert!(align.is_power_of_two() && size.is_multiple_of(u64::from(align)));
        let count = usize::try_from(size.div_ceil(CHUNK as u64)).expect("fits the address space");
        let inner = Inner {
            name: name.into(),
            geometry: Geometry { size, align, rotational: false },
            chunks: RefCell::new(vec![None; count]),
            allocated: Cell::new(0),
        };
        MemDrive { inner: Rc::new(inner) }
    }

    /// Bytes of memory taken by what was written.
    pub fn allocated(&self) -> u64 {
        self.inner.allocated.get() as u64 * CHUNK as u64
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
        let mut bytes = BufMut::with_len(len);
        let chunks = self.inner.chunks.borrow();
        for piece in pieces(offset, len) {
            let target = &mut bytes[piece.done..piece.done + piece.len];
            match &chunks[piece.chunk] {
                Some(chunk) => {
                    target.copy_from_slice(&chunk[piece.start..piece.start + piece.len]);
                }
                None => target.fill(0),
            }
        }
        Ok(bytes.freeze())
    }

    async fn write(&self, offset: u64, data: Buf, _: Durability) -> Result<(), DriveError> {
        self.check(Operation::Write, offset, data.len() as u64)?;
        let mut chunks = self.inner.chunks.borrow_mut();
        for piece in pieces(offset, data.len()) {
            let chunk = chunks[piece.chunk].get_or_insert_with(|| {
                self.inner.allocated.set(self.inner.allocated.get() + 1);
                new_chunk()
            });
            let source = &data[piece.done..piece.done + piece.len];
            chunk[piece.start..piece.start + piece.len].copy_from_slice(source);
        }
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
        let mut chunks = self.inner.chunks.borrow_mut();
        for chunk in chunks.get_mut(first..end).unwrap_or_default() {
            if chunk.take().is_some() {
                self.inner.allocated.set(self.inner.allocated.get() - 1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveErrorKind;
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
