//! TRIM and WRITE_ZEROES: map changes that free space, and the report of what is mapped.

use format::{CHUNK_ENTRIES, Record, SectorRange, VolumeId};
use io::{Buf, Env};

use crate::api::{RequestError, VolumeExtent};
use crate::map::{Deltas, Pieces};
use crate::shard::{Shard, VolumeRecord};
use crate::write::check_request;

const SECTOR: u64 = 512;
/// Bytes of zeroes written at once where a client insists on allocated zeroes.
const ZEROES_AT_ONCE: u64 = 1 << 20;

impl<E: Env> Shard<E> {
    /// The range reads as zeroes afterwards, and its space is free for others.
    pub async fn trim(
        &self,
        volume: &VolumeRecord,
        offset: u64,
        len: u64,
        fua: bool,
    ) -> Result<(), RequestError> {
        self.check_usable()?;
        check_request(volume, offset, len)?;
        self.count(|counters| counters.trims += 1);
        let block_sectors = u64::from(self.geometry.block_sectors());
        let (mut at, end) = (offset / SECTOR, (offset + len) / SECTOR);
        while at < end {
            let (block, start) = (at / block_sectors, at % block_sectors);
            let whole = (end - at) / block_sectors;
            if start == 0 && whole > 0 {
                at += self.trim_blocks(volume.id, block, whole).await * block_sectors;
            } else {
                let len = (block_sectors - start).min(end - at) as u16;
                let range = SectorRange { start: start as u16, len };
                self.trim_part(volume.id, block, range).await;
                at += u64::from(len);
            }
        }
        self.work.notify_all();
        if fua { self.flush_for_client().await } else { Ok(()) }
    }

    async fn trim_part(&self, volume: VolumeId, block: u64, range: SectorRange) {
        self.journal.reserve().await;
        let _lock = self.locks.lock(volume, block, range).await;
        let mut state = self.state.borrow_mut();
        if !state.map.is_mapped(volume, block) {
            return;
        }
        self.journal.append(&Record::Unmap { volume, block, range });
        let mut deltas = Deltas::default();
        state.map.set(volume, block, range, None, &mut deltas);
        self.apply_deltas(&mut state, &deltas);
    }

    /// Unmaps whole blocks up to the end of their chunk; returns how many blocks were passed.
    async fn trim_blocks(&self, volume: VolumeId, first: u64, count: u64) -> u64 {
        let present = self.state.borrow().map.next_present(volume, first);
        let Some(start) = present.filter(|&start| start < first + count) else {
            return count;
        };
        if start > first {
            return start - first;
        }
        let chunk = CHUNK_ENTRIES as u64;
        let run = count.min(chunk - first % chunk);
        self.journal.reserve().await;
        let whole = SectorRange { start: 0, len: self.geometry.block_sectors() };
        let mut locks = Vec::with_capacity(run as usize);
        for block in first..first + run {
            locks.push(self.locks.lock(volume, block, whole).await);
        }
        let mut state = self.state.borrow_mut();
        self.journal.append(&Record::UnmapBlocks { volume, first, count: run });
        for block in first..first + run {
            if state.map.is_mapped(volume, block) {
                let mut deltas = Deltas::default();
                state.map.set(volume, block, whole, None, &mut deltas);
                self.apply_deltas(&mut state, &deltas);
            }
        }
        run
    }

    pub async fn write_zeroes(
        &self,
        volume: &VolumeRecord,
        offset: u64,
        len: u64,
        fua: bool,
        may_trim: bool,
    ) -> Result<(), RequestError> {
        if may_trim {
            return self.trim(volume, offset, len, fua).await;
        }
        check_request(volume, offset, len)?;
        let mut at = offset;
        while at < offset + len {
            // Ends on a multiple, so that all but the first piece are whole blocks.
            let stop = (at / ZEROES_AT_ONCE + 1) * ZEROES_AT_ONCE;
            let bytes = stop.min(offset + len) - at;
            self.write(volume, at, Buf::zeroed(bytes as usize), false).await?;
            at += bytes;
        }
        if fua { self.flush_for_client().await } else { Ok(()) }
    }

    /// Which parts of the range hold data, neighbours joined. Covers the range from its start,
    /// up to its end or until `blocks_max` blocks with data were looked at.
    pub fn extents(
        &self,
        volume: &VolumeRecord,
        offset: u64,
        len: u64,
        blocks_max: usize,
    ) -> Vec<VolumeExtent> {
        let mut looked_at = 0;
        let state = self.state.borrow();
        let block_sectors = u64::from(self.geometry.block_sectors());
        let (mut at, end) = (offset / SECTOR, (offset + len) / SECTOR);
        let mut found: Vec<VolumeExtent> = Vec::new();
        let mut add = |sectors: u64, allocated: bool| match found.last_mut() {
            Some(last) if last.allocated == allocated => last.len += sectors * SECTOR,
            _ => found.push(VolumeExtent { len: sectors * SECTOR, allocated }),
        };
        while at < end && looked_at < blocks_max {
            let block = at / block_sectors;
            let next = state.map.next_present(volume.id, block).unwrap_or(u64::MAX / block_sectors);
            if next > block {
                let sectors = (next * block_sectors).min(end) - at;
                add(sectors, false);
                at += sectors;
                continue;
            }
            looked_at += 1;
            let start = at % block_sectors;
            let sectors = (block_sectors - start).min(end - at);
            let range = SectorRange { start: start as u16, len: sectors as u16 };
            let mut pieces = Pieces::new();
            state.map.lookup(volume.id, block, range, &mut pieces);
            for piece in pieces {
                add(u64::from(piece.range.len), piece.place.is_some());
            }
            at += sectors;
        }
        found
    }
}
