//! A volume in memory: allocated on write, freed by trim. For tests and measurements.

use std::cell::RefCell;
use std::rc::Rc;

use io::{Buf, BufMut};

use crate::volume::{Exports, Extent, Listing, Volume, VolumeError};

/// Unit of allocation; also the longest piece of a read.
const CHUNK: u64 = 64 << 10;

/// `None` is a hole.
type Chunk = Option<Box<[u8]>>;

#[derive(Clone)]
pub struct RamVolume {
    size: u64,
    read_only: bool,
    chunks: Rc<RefCell<Vec<Chunk>>>,
}

impl RamVolume {
    pub fn new(size: u64) -> RamVolume {
        let chunks = vec![None; size.div_ceil(CHUNK) as usize];
        RamVolume { size, read_only: false, chunks: Rc::new(RefCell::new(chunks)) }
    }

    /// The same bytes, not to be written.
    pub fn frozen(&self) -> RamVolume {
        RamVolume { read_only: true, ..self.clone() }
    }
}

/// Splits a range where chunks meet: (chunk, range inside it, offset from the range's start).
fn parts(offset: u64, len: u64) -> impl Iterator<Item = (usize, std::ops::Range<usize>, usize)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        let inside = at % CHUNK;
        let part = (CHUNK - inside).min(end - at);
        let item = (
            (at / CHUNK) as usize,
            inside as usize..(inside + part) as usize,
            (at - offset) as usize,
        );
        at += part;
        (part > 0).then_some(item)
    })
}

fn empty_chunk() -> Box<[u8]> {
    vec![0; CHUNK as usize].into_boxed_slice()
}

impl Volume for RamVolume {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    async fn read(&self, offset: u64, len: u32) -> Result<Vec<Buf>, VolumeError> {
        let chunks = self.chunks.borrow();
        let piece = |(chunk, range, _): (usize, std::ops::Range<usize>, usize)| {
            let mut buf = BufMut::with_len(range.len());
            match &chunks[chunk] {
                Some(bytes) => buf.copy_from_slice(&bytes[range]),
                None => buf.fill(0),
            }
            buf.freeze()
        };
        Ok(parts(offset, len.into()).map(piece).collect())
    }

    async fn write(&self, offset: u64, data: Buf, _fua: bool) -> Result<(), VolumeError> {
        let mut chunks = self.chunks.borrow_mut();
        for (chunk, range, at) in parts(offset, data.len() as u64) {
            let from = &data[at..at + range.len()];
            chunks[chunk].get_or_insert_with(empty_chunk)[range].copy_from_slice(from);
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        Ok(())
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        self.write_zeroes(offset, len, fua, true).await
    }

    async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        _fua: bool,
        may_trim: bool,
    ) -> Result<(), VolumeError> {
        let mut chunks = self.chunks.borrow_mut();
        for (chunk, range, _) in parts(offset, len) {
            if may_trim && range.len() as u64 == CHUNK {
                chunks[chunk] = None;
            } else if !may_trim {
                chunks[chunk].get_or_insert_with(empty_chunk)[range].fill(0);
            } else if let Some(bytes) = &mut chunks[chunk] {
                bytes[range].fill(0);
            }
        }
        Ok(())
    }

    fn extents(&self, offset: u64, len: u64) -> Vec<Extent> {
        let chunks = self.chunks.borrow();
        let mut extents: Vec<Extent> = Vec::new();
        for (chunk, range, _) in parts(offset, len) {
            let (len, allocated) = (range.len() as u64, chunks[chunk].is_some());
            match extents.last_mut() {
                Some(last) if last.allocated == allocated => last.len += len,
                _ => extents.push(Extent { len, allocated }),
            }
        }
        extents
    }
}

/// Named volumes in memory.
#[derive(Clone)]
pub struct RamExports(Rc<Vec<(Listing, RamVolume)>>);

impl RamExports {
    pub fn new(volumes: impl IntoIterator<Item = (&'static str, RamVolume)>) -> RamExports {
        let listed = |(name, volume): (&str, RamVolume)| {
            let description = format!("{} bytes of memory", volume.size);
            (Listing { name: name.to_owned(), description }, volume)
        };
        RamExports(Rc::new(volumes.into_iter().map(listed).collect()))
    }
}

impl Exports for RamExports {
    type Volume = RamVolume;

    fn list(&self) -> Vec<Listing> {
        self.0.iter().map(|(listing, _)| listing.clone()).collect()
    }

    fn open(&self, name: &str) -> Option<RamVolume> {
        self.0.iter().find(|(listing, _)| listing.name == name).map(|(_, volume)| volume.clone())
    }
}
