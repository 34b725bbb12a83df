//! The block map copied as it is, entry by entry and list by list, for `audit`. It decodes by
//! itself: what it says must not depend on the look-ups that are checked against it.

use format::{BmtEntry, CHUNK_ENTRIES, Patch, Place, VolumeId};

use super::{BlockMap, ENTRY};

/// One mapped block.
pub struct BlockImage {
    pub volume: VolumeId,
    pub block: u64,
    pub base: Option<Place>,
    /// `None`: a plain entry.
    pub patches: Option<Vec<Patch>>,
}

pub struct ChunkImage {
    pub volume: VolumeId,
    pub chunk: u32,
    /// Mapped blocks, as counted along the way.
    pub mapped: u32,
    pub dirty: bool,
}

pub struct MapImage {
    pub block_sectors: u16,
    /// In order of volume and block.
    pub blocks: Vec<BlockImage>,
    pub chunks: Vec<ChunkImage>,
    /// Entries whose number names no list, or another block's.
    pub astray: Vec<(VolumeId, u64)>,
    /// Patch lists that exist, and numbers free for new ones.
    pub lists: usize,
    pub lists_free: Vec<u32>,
    pub lists_len: usize,
    /// As counted along the way.
    pub patches: u64,
    pub chunk_count: u64,
    /// Bytes of the table and of the patch lists, as accounted.
    pub memory: (u64, u64),
}

impl BlockMap {
    pub fn image(&self) -> MapImage {
        let mut image = MapImage {
            block_sectors: self.block_sectors,
            blocks: Vec::new(),
            chunks: Vec::new(),
            astray: Vec::new(),
            lists: self.patched.iter().flatten().count(),
            lists_free: self.patched_free.clone(),
            lists_len: self.patched.len(),
            patches: self.patches,
            chunk_count: self.chunks,
            memory: self.memory(),
        };
        for (&volume, chunks) in &self.volumes {
            for (number, chunk) in chunks.iter().enumerate() {
                let Some(chunk) = chunk else { continue };
                let (mapped, number) = (chunk.mapped, number as u32);
                let dirty = self.dirty.contains(&(volume, number));
                image.chunks.push(ChunkImage { volume, chunk: number, mapped, dirty });
                let first = u64::from(number) * CHUNK_ENTRIES as u64;
                for (slot, raw) in chunk.entries.chunks_exact(ENTRY).enumerate() {
                    let entry = BmtEntry::from_bytes(raw.try_into().expect("five bytes"));
                    self.block_image(&mut image, volume, first + slot as u64, entry);
                }
            }
        }
        image
    }

    fn block_image(&self, image: &mut MapImage, volume: VolumeId, block: u64, entry: BmtEntry) {
        if entry.is_unmapped() {
            return;
        }
        let Some(list) = entry.as_patched() else {
            let base =
                Some(Place { flbn: entry.flbn(), replicated: entry.replicated(), sector: 0 });
            return image.blocks.push(BlockImage { volume, block, base, patches: None });
        };
        let found = self.patched.get(list as usize).and_then(Option::as_ref);
        match found.filter(|list| (list.volume, list.block) == (volume, block)) {
            Some(list) => image.blocks.push(BlockImage {
                volume,
                block,
                base: list.base,
                patches: Some(list.patches.iter().map(Patch::unpack).collect()),
            }),
            None => image.astray.push((volume, block)),
        }
    }
}
