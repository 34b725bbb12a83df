//! Reads: look up, read each piece, answer. No locks (`reads` keeps places from being reused).

use format::{Flbn, Place, SectorRange};
use io::{Buf, Env, PAGE, Wait, join_all};
use smallvec::SmallVec;

use crate::api::RequestError;
use crate::geometry::BlockAddress;
use crate::map::{Piece, Pieces};
use crate::shard::{Shard, VolumeRecord};
use crate::source::Source;
use crate::write::check_request;

const SECTOR: u64 = 512;

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
        let pages = self.told(Wait::Drives, self.read_source(&source, first, len)).await?;
        Ok(pages.slice(lead..lead + bytes))
    }

    /// Where a physical block can be read. `replicated` is the map's hint; a tuple that is
    /// gone means the block was converted since.
    pub fn source(&self, flbn: Flbn, replicated: bool) -> Source {
        let mut state = self.state.borrow_mut();
        let zone = self.geometry.zone_of(flbn);
        let class = state.space.class_of_zone(zone).expect("mapped blocks lie in zones").clone();
        let (stripe, position) = self.geometry.stripe_of(&class, flbn);
        state.sums.expect_block(&class, stripe, position);
        let mut copies = SmallVec::new();
        copies.push(state.space.address(&class, stripe, position));
        if replicated && let Some(tuple) = state.space.tuple(stripe) {
            for copy in 1..tuple.stripes.len() {
                let other = tuple.position(position, copy);
                copies.push(state.space.address(&class, tuple.stripes[copy], other));
            }
            state.space.touch(stripe);
            self.order_copies(&mut copies);
        }
        Source { class, stripe, position, copies }
    }

    /// The copy whose drive has fewer stragglers first (FusionRAID §4.3), then fewer operations.
    fn order_copies(&self, copies: &mut SmallVec<[BlockAddress; 3]>) {
        let before = copies[0].drive;
        copies.sort_by_key(|at| self.array.rank(at.drive));
        if copies[0].drive != before && self.array.monitor.is_shunned(before) {
            self.count(|counters| counters.redirected_reads += 1);
        }
    }
}
