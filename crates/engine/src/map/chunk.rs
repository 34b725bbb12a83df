//! A chunk of the map as an object of a checkpoint.

use std::ops::Range;

use format::{BmtEntry, CHUNK_ENTRIES, ChunkParts, VolumeId};

use super::{BlockMap, Chunk, ENTRY, PatchedBlock};

impl BlockMap {
    /// Adds these entries of a chunk to its image. Says how many patches they have; `None` if the
    /// chunk isn't there.
    pub fn export_entries(
        &self,
        volume: VolumeId,
        chunk: u32,
        slots: Range<usize>,
        to: &mut ChunkParts,
    ) -> Option<usize> {
        let found = self.volumes.get(&volume)?.get(chunk as usize)?.as_ref()?;
        let mut patches = 0;
        for raw in found.entries[slots.start * ENTRY..slots.end * ENTRY].chunks_exact(ENTRY) {
            let entry = BmtEntry::from_bytes(raw.try_into().expect("five bytes"));
            if entry.is_unmapped() || !entry.is_patched() {
                to.plain(entry);
                continue;
            }
            let block = self.patched_block(entry);
            let base =
                block.base.map_or(BmtEntry::UNMAPPED, |p| BmtEntry::base(p.flbn, p.replicated));
            to.patched(base, &block.patches);
            patches += block.patches.len();
        }
        Some(patches)
    }

    /// Loads a chunk as [`BlockMap::export_entries`] gave it, in place of whatever was there.
    pub fn import_chunk(
        &mut self,
        volume: VolumeId,
        chunk: u32,
        entries: Vec<u8>,
        patched: Vec<format::PatchedBlock>,
    ) {
        assert_eq!(entries.len(), CHUNK_ENTRIES * ENTRY, "a chunk has a fixed size");
        let chunks = self.volumes.entry(volume).or_default();
        let index = chunk as usize;
        if chunks.len() <= index {
            chunks.resize_with(index + 1, || None);
        }
        assert!(chunks[index].is_none(), "chunks are loaded once");
        let mapped = entries.chunks_exact(ENTRY).filter(|raw| **raw != [0xff; ENTRY]).count();
        chunks[index] = Some(Chunk { entries: entries.into(), mapped: mapped as u32 });
        self.chunks += 1;
        for image in patched {
            let block = u64::from(chunk) * CHUNK_ENTRIES as u64 + u64::from(image.entry_in_chunk);
            let patched = PatchedBlock {
                volume,
                block,
                base: BlockMap::base_place(image.base),
                patches: image.patches.iter().map(|patch| patch.pack()).collect(),
            };
            self.put_patched(None, patched, 0);
        }
    }
}
