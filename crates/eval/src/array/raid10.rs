//! Mirrors, striped, as good as they can be: writes to both at once, reads from the one with
//! fewer operations under way (as md does on drives that don't rotate).

use std::cell::Cell;

use futures_util::future::join;
use io::virt::VirtDrive;
use io::{Buf, Drive, Durability};

use super::{Answer, Array};

/// Bytes of a drive before the next pair's turn.
const CHUNK: u64 = 64 << 10;

pub struct Raid10 {
    pairs: Vec<[Mirror; 2]>,
    rows: u64,
}

struct Mirror {
    drive: VirtDrive,
    outstanding: Cell<u32>,
}

impl Mirror {
    async fn read(&self, offset: u64, len: u64) -> Result<(), String> {
        self.outstanding.set(self.outstanding.get() + 1);
        let done = self.drive.read(offset, len as usize).await;
        self.outstanding.set(self.outstanding.get() - 1);
        done.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn write(&self, offset: u64, data: Buf) -> Result<(), String> {
        self.outstanding.set(self.outstanding.get() + 1);
        let done = self.drive.write(offset, data, Durability::Cached).await;
        self.outstanding.set(self.outstanding.get() - 1);
        done.map_err(|error| error.to_string())
    }
}

impl Raid10 {
    /// Of an odd number of drives the last one is a spare.
    pub fn over(drives: Vec<VirtDrive>) -> Raid10 {
        let rows = drives[0].geometry().size / CHUNK;
        let mirror = |drive: &VirtDrive| Mirror { drive: drive.clone(), outstanding: Cell::new(0) };
        let pair = |pair: &[VirtDrive]| [mirror(&pair[0]), mirror(&pair[1])];
        Raid10 { pairs: drives.chunks_exact(2).map(pair).collect(), rows }
    }

    /// Pair and offset on its drives; requests don't cross chunks.
    fn place(&self, offset: u64) -> (&[Mirror; 2], u64) {
        let (chunk, within) = (offset / CHUNK, offset % CHUNK);
        let pairs = self.pairs.len() as u64;
        (&self.pairs[(chunk % pairs) as usize], chunk / pairs * CHUNK + within)
    }

    async fn read_chunk(&self, offset: u64, len: u64) -> Result<(), String> {
        let ([first, second], at) = self.place(offset);
        // Equally busy: by turns, as the chunks lie.
        let by_turns = (at / CHUNK).is_multiple_of(2);
        let (one, other) = (first.outstanding.get(), second.outstanding.get());
        let take_first = one < other || one == other && by_turns;
        if take_first { first.read(at, len).await } else { second.read(at, len).await }
    }

    async fn write_chunk(&self, offset: u64, data: Buf) -> Result<(), String> {
        let ([first, second], at) = self.place(offset);
        let (one, other) = join(first.write(at, data.clone()), second.write(at, data)).await;
        one.and(other)
    }
}

impl Array for Raid10 {
    fn size(&self) -> u64 {
        self.rows * CHUNK * self.pairs.len() as u64
    }

    fn read(&self, offset: u64, len: u64) -> Answer<'_> {
        let parts = super::raid5::by_chunk(offset, len, CHUNK);
        super::raid5::all(parts.map(|(offset, len)| self.read_chunk(offset, len)))
    }

    fn write(&self, offset: u64, data: Buf) -> Answer<'_> {
        let parts = super::raid5::by_chunk(offset, data.len() as u64, CHUNK);
        super::raid5::all(parts.map(move |(at, len)| {
            let start = (at - offset) as usize;
            self.write_chunk(at, data.slice(start..start + len as usize))
        }))
    }
}
