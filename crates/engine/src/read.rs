//! Reads: look up, read each piece, answer. No locks (`reads` keeps places from being reused).

use std::rc::Rc;

use format::{Flbn, Place, SectorRange, StripeId};
use futures_util::future::join_all;
use io::{Buf, BufMut, Env, PAGE};
use layout::DriveIndex;
use smallvec::SmallVec;

use crate::api::RequestError;
use crate::geometry::{BlockAddress, Class};
use crate::map::{Piece, Pieces};
use crate::shard::{Shard, VolumeRecord};
use crate::write::check_request;

const SECTOR: u64 = 512;

/// Where the bytes of a piece can be had: the same bytes on every address, or only by
/// computing them from the rest of the stripe.
pub struct Source {
    pub class: Rc<Class>,
    pub stripe: StripeId,
    pub position: usize,
    /// Whole block addresses of all copies, the best first.
    pub copies: SmallVec<[BlockAddress; 3]>,
}

impl<E: Env> Shard<E> {
    /// The bytes as a list of pieces in order; together `len` bytes.
    pub async fn read(
        &self,
        volume: &VolumeRecord,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Buf>, RequestError> {
        check_request(volume, offset, len)?;
        self.count(|counters| {
            counters.reads += 1;
            counters.read_bytes += len;
        });
        let _guard = self.reads.enter();
        let pieces = self.pieces(volume, offset / SECTOR, len / SECTOR);
        if let [piece] = pieces[..] {
            return Ok(vec![self.read_piece(piece).await?]);
        }
        join_all(pieces.into_iter().map(|piece| self.read_piece(piece))).await.into_iter().collect()
    }

    fn pieces(&self, volume: &VolumeRecord, sector: u64, sectors: u64) -> Pieces {
        let state = self.state.borrow();
        let block_sectors = u64::from(self.geometry.block_sectors());
        let (mut at, end) = (sector, sector + sectors);
        let mut pieces = Pieces::new();
        while at < end {
            let start = at % block_sectors;
            let len = (block_sectors - start).min(end - at);
            let range = SectorRange { start: start as u16, len: len as u16 };
            state.map.lookup(volume.id, at / block_sectors, range, &mut pieces);
            at += len;
        }
        pieces
    }

    async fn read_piece(&self, piece: Piece) -> Result<Buf, RequestError> {
        let bytes = usize::from(piece.range.len) * SECTOR as usize;
        match piece.place {
            None => Ok(Buf::zeroed(bytes)),
            Some(place) => self.read_place(place, bytes).await,
        }
    }

    /// `bytes` bytes from `place` on.
    pub async fn read_place(&self, place: Place, bytes: usize) -> Result<Buf, RequestError> {
        let source = self.source(place.flbn, place.replicated);
        let from = u64::from(place.sector) * SECTOR;
        // Drives are read in pages, whatever their sector size.
        let first = from / PAGE as u64 * PAGE as u64;
        let len = (from + bytes as u64 - first).next_multiple_of(PAGE as u64) as usize;
        let lead = (from - first) as usize;
        let pages = self.read_source(&source, first, len).await?;
        Ok(pages.slice(lead..lead + bytes))
    }

    /// Where a physical block can be read. `replicated` is the map's hint; a tuple that is
    /// gone means the block was converted since.
    pub fn source(&self, flbn: Flbn, replicated: bool) -> Source {
        let mut state = self.state.borrow_mut();
        let zone = self.geometry.zone_of(flbn);
        let class = state.space.class_of_zone(zone).expect("mapped blocks lie in zones").clone();
        let (stripe, position) = self.geometry.stripe_of(&class, flbn);
        let mut copies = SmallVec::new();
        copies.push(self.geometry.address(&class, stripe, position));
        if replicated && let Some(tuple) = state.space.tuple(stripe) {
            for copy in 1..tuple.stripes.len() {
                let other = tuple.position(position, copy);
                copies.push(self.geometry.address(&class, tuple.stripes[copy], other));
            }
            state.space.touch(stripe);
            let rank = |at: &BlockAddress| {
                (!self.array.is_active(at.drive), self.array.member(at.drive).outstanding())
            };
            copies.sort_by_key(rank);
        }
        Source { class, stripe, position, copies }
    }

    /// Pages `first..first+len` (bytes) of a block, from the first source that gives them.
    pub async fn read_source(
        &self,
        source: &Source,
        first: u64,
        len: usize,
    ) -> Result<Buf, RequestError> {
        let mut error = None;
        for at in &source.copies {
            match self.array.read(at.drive, at.offset + first, len).await {
                Ok(pages) => return Ok(pages),
                Err(failed) => error = Some((at.drive, failed)),
            }
        }
        let (drive, failed) = error.expect("every block has at least one address");
        if source.copies.len() == 1 {
            self.count(|counters| counters.reconstructed_reads += 1);
            return self.reconstruct(source, first, len).await;
        }
        Err(RequestError::Io(format!("drive {}: {failed}", self.drive_name(drive))))
    }

    /// Computes pages of a block from the rest of its stripe.
    async fn reconstruct(
        &self,
        source: &Source,
        first: u64,
        len: usize,
    ) -> Result<Buf, RequestError> {
        let Source { class, stripe, position, .. } = source;
        let read = |at: usize| async move {
            if at == *position {
                return None;
            }
            let address = self.geometry.address(class, *stripe, at);
            self.array.read(address.drive, address.offset + first, len).await.ok()
        };
        let members = join_all((0..class.width()).map(read)).await;
        let views: Vec<Option<&[u8]>> = members.iter().map(|m| m.as_deref()).collect();
        let mut out = BufMut::with_len(len);
        let missing = class.drive(*stripe, *position);
        layout::parity::reconstruct(class.shape, &views, &mut [(*position, &mut out[..])])
            .map_err(|_| self.unreadable(missing, class, *stripe))?;
        Ok(out.freeze())
    }

    fn unreadable(&self, drive: DriveIndex, class: &Class, stripe: StripeId) -> RequestError {
        RequestError::Io(format!(
            "drive {drive} can't be read, and stripe {stripe} has lost more than its {} parity",
            class.parity()
        ))
    }
}
