//! Pieces of data that are moved, and where in new blocks they go.

use std::collections::BTreeMap;

use format::{Flbn, Place, SectorRange, VolumeId};
use io::slice::spend;

use crate::limits::LOOK_STEP;
use crate::map::advance;

/// A piece to be moved. `at`: sector it must have in its block (merging), if any.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub volume: VolumeId,
    pub block: u64,
    pub range: SectorRange,
    pub from: Place,
}

impl Move {
    fn cut(self, sectors: u16) -> (Move, Move) {
        let Move { range, from, .. } = self;
        let head = SectorRange { len: sectors, ..range };
        let rest = SectorRange { start: range.start + sectors, len: range.len - sectors };
        (Move { range: head, ..self }, Move { range: rest, from: advance(from, sectors), ..self })
    }
}

/// A piece with its new place in a block of the destination.
pub struct Planned {
    pub piece: Move,
    pub sector: u16,
}

/// Fills destination blocks with pieces.
pub struct Packer {
    block_sectors: u16,
    pub blocks: Vec<Vec<Planned>>,
    /// (block, next sector) still open for page-aligned and for other pieces.
    aligned: Option<(usize, u16)>,
    tight: Option<(usize, u16)>,
}

impl Packer {
    pub fn new(block_sectors: u16) -> Packer {
        Packer { block_sectors, blocks: Vec::new(), aligned: None, tight: None }
    }

    /// All pieces, whole blocks in blocks of their own. `split`: where a piece does not fit what
    /// is left of a block it is cut in two, which costs a patch and wastes nothing.
    pub async fn pack(block_sectors: u16, pieces: &[Move], split: bool) -> Packer {
        let mut packer = Packer::new(block_sectors);
        for some in pieces.chunks(LOOK_STEP) {
            spend(some.len()).await;
            some.iter().for_each(|&piece| packer.push(piece, split));
        }
        packer
    }

    fn push(&mut self, piece: Move, split: bool) {
        let whole_pages = piece.range.start.is_multiple_of(8) && piece.range.len.is_multiple_of(8);
        let full = self.block_sectors;
        if piece.range.len == full {
            self.blocks.push(vec![Planned { piece, sector: 0 }]);
            return;
        }
        let lane = if whole_pages { &mut self.aligned } else { &mut self.tight };
        let room = lane.map_or(0, |(_, next)| full - next);
        if split && (1..piece.range.len).contains(&room) {
            let (head, rest) = piece.cut(room);
            self.push(head, split);
            return self.push(rest, split);
        }
        let (block, sector) = match *lane {
            Some((block, next)) if piece.range.len <= room => (block, next),
            _ => {
                self.blocks.push(Vec::new());
                (self.blocks.len() - 1, 0)
            }
        };
        *lane = Some((block, sector + piece.range.len));
        self.blocks[block].push(Planned { piece, sector });
    }

    /// A logical block put together again: every piece at its natural place.
    pub fn push_merged(&mut self, pieces: &[Move]) {
        let natural = |&piece: &Move| Planned { piece, sector: piece.range.start };
        self.blocks.push(pieces.iter().map(natural).collect());
    }
}

/// Stripe after stripe, block after block.
pub async fn in_order_of_places(pieces: Vec<Move>) -> Vec<Move> {
    let mut blocks: BTreeMap<Flbn, Vec<Move>> = BTreeMap::new();
    for some in pieces.chunks(LOOK_STEP) {
        spend(2 * some.len()).await;
        some.iter().for_each(|&piece| blocks.entry(piece.from.flbn).or_default().push(piece));
    }
    let mut sorted = Vec::with_capacity(pieces.len());
    for mut block in blocks.into_values() {
        spend(block.len()).await;
        block.sort_unstable_by_key(|piece| piece.from.sector);
        sorted.extend(block);
    }
    sorted
}
