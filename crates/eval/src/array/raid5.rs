//! Parity groups as good as they can be: full stripes without reading, small writes as
//! read-modify-write or reconstruct-write, whichever reads less, data and parity in parallel, one
//! writer a stripe. Several groups are striped (RAID50).
//!
//! Only the traffic is modelled: all bytes are zeroes, and so is their parity. There is no
//! journal against the write hole, which would cost more.

use std::cell::RefCell;
use std::collections::BTreeMap;

use futures_util::future::join_all;
use io::sync::Turn;
use io::virt::VirtDrive;
use io::{Buf, Drive, Durability};

use super::{Answer, Array};

/// Bytes of a drive before the next one's turn.
const CHUNK: u64 = 64 << 10;
/// Drives of a group when there are several.
const GROUP: usize = 7;

pub struct Raid5 {
    groups: Vec<Vec<VirtDrive>>,
    rows: u64,
    locks: Locks,
}

/// A part of one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// Which of the stripe's data chunks.
    position: u64,
    /// First byte within the chunk.
    start: u64,
    len: u64,
}

/// What a write of a part of a stripe reads first, and which bytes of the parity change.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    reads: Vec<Piece>,
    reads_parity: bool,
    /// Of the parity chunk; its position is of no meaning.
    parity: Piece,
}

impl Raid5 {
    /// All drives in one group, or groups of seven with the rest as spares.
    pub fn over(drives: Vec<VirtDrive>) -> Raid5 {
        let rows = drives[0].geometry().size / CHUNK;
        let width = if drives.len() < 2 * GROUP { drives.len() } else { GROUP };
        let groups = drives.chunks_exact(width).map(<[VirtDrive]>::to_vec).collect();
        Raid5 { groups, rows, locks: Locks::default() }
    }

    fn data(&self) -> u64 {
        self.groups[0].len() as u64 - 1
    }

    /// The drive and byte of a piece of a stripe; position `data` is the parity
    /// (left-symmetric).
    fn place(&self, stripe: u64, piece: Piece) -> (&VirtDrive, u64) {
        let groups = self.groups.len() as u64;
        let (group, row) = (&self.groups[(stripe % groups) as usize], stripe / groups);
        let width = group.len() as u64;
        let parity = width - 1 - row % width;
        let drive = (parity + 1 + piece.position) % width;
        (&group[drive as usize], row * CHUNK + piece.start)
    }

    async fn read_piece(&self, stripe: u64, piece: Piece) -> Result<(), String> {
        let (drive, offset) = self.place(stripe, piece);
        let done = drive.read(offset, piece.len as usize).await;
        done.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn write_piece(&self, stripe: u64, piece: Piece, data: &Buf) -> Result<(), String> {
        let (drive, offset) = self.place(stripe, piece);
        let data = data.slice(0..piece.len as usize);
        drive.write(offset, data, Durability::Cached).await.map_err(|error| error.to_string())
    }

    /// `zeroes` is at least a chunk.
    async fn write_stripe(
        &self,
        stripe: u64,
        pieces: Vec<Piece>,
        zeroes: &Buf,
    ) -> Result<(), String> {
        let _turn = self.locks.lock(stripe).await;
        let plan = plan(&pieces, self.data());
        let parity = Piece { position: self.data(), ..plan.parity };
        let mut reads = plan.reads;
        reads.extend(plan.reads_parity.then_some(parity));
        let old = join_all(reads.iter().map(|&piece| self.read_piece(stripe, piece))).await;
        old.into_iter().collect::<Result<(), _>>()?;
        let all = pieces.iter().chain([&parity]);
        let done = join_all(all.map(|&piece| self.write_piece(stripe, piece, zeroes))).await;
        done.into_iter().collect()
    }

    /// The parts of a request, by stripe.
    fn stripes(&self, offset: u64, len: u64) -> BTreeMap<u64, Vec<Piece>> {
        let mut stripes: BTreeMap<u64, Vec<Piece>> = BTreeMap::new();
        for (at, len) in by_chunk(offset, len, CHUNK) {
            let chunk = at / CHUNK;
            let piece = Piece { position: chunk % self.data(), start: at % CHUNK, len };
            stripes.entry(chunk / self.data()).or_default().push(piece);
        }
        stripes
    }
}

/// Read-modify-write or reconstruct-write, whichever has fewer reads.
fn plan(pieces: &[Piece], data: u64) -> Plan {
    let start = pieces.iter().map(|piece| piece.start).min().expect("a request has bytes");
    let end = pieces.iter().map(|piece| piece.start + piece.len).max().expect("as above");
    let parity = Piece { position: data, start, len: end - start };
    let covers = |piece: &&Piece| piece.len == parity.len;
    let covered: Vec<u64> = pieces.iter().filter(covers).map(|piece| piece.position).collect();
    let others = (0..data).filter(|position| !covered.contains(position));
    let reconstruct: Vec<Piece> = others.map(|position| Piece { position, ..parity }).collect();
    if reconstruct.len() <= pieces.len() {
        return Plan { reads: reconstruct, reads_parity: false, parity };
    }
    Plan { reads: pieces.to_vec(), reads_parity: true, parity }
}

impl Array for Raid5 {
    fn size(&self) -> u64 {
        self.rows * self.groups.len() as u64 * self.data() * CHUNK
    }

    fn read(&self, offset: u64, len: u64) -> Answer<'_> {
        let stripes = self.stripes(offset, len).into_iter();
        let pieces = stripes
            .flat_map(|(stripe, pieces)| pieces.into_iter().map(move |piece| (stripe, piece)));
        all(pieces.map(|(stripe, piece)| self.read_piece(stripe, piece)))
    }

    fn write(&self, offset: u64, data: Buf) -> Answer<'_> {
        let stripes = self.stripes(offset, data.len() as u64);
        Box::pin(async move {
            let zeroes = Buf::zeroed(CHUNK as usize);
            let write = |(stripe, pieces)| self.write_stripe(stripe, pieces, &zeroes);
            join_all(stripes.into_iter().map(write)).await.into_iter().collect()
        })
    }
}

/// A range cut at chunk boundaries: offsets and lengths.
pub(super) fn by_chunk(offset: u64, len: u64, chunk: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        let part = (at, (chunk - at % chunk).min(end - at));
        at += part.1;
        (part.1 > 0).then_some(part)
    })
}

/// Waits for all parts of a request.
pub(super) fn all<'a>(
    parts: impl Iterator<Item = impl Future<Output = Result<(), String>> + 'a>,
) -> Answer<'a> {
    let mut parts: Vec<_> = parts.collect();
    if parts.len() == 1 {
        return Box::pin(parts.remove(0));
    }
    Box::pin(async move { join_all(parts).await.into_iter().collect() })
}

/// One writer a stripe.
#[derive(Default)]
struct Locks {
    held: RefCell<BTreeMap<u64, (Turn, usize)>>,
}

struct Held<'a> {
    locks: &'a Locks,
    stripe: u64,
    _permit: io::sync::Permit,
}

impl Locks {
    async fn lock(&self, stripe: u64) -> Held<'_> {
        let turn = {
            let mut held = self.held.borrow_mut();
            let (turn, users) = held.entry(stripe).or_default();
            *users += 1;
            turn.clone()
        };
        Held { locks: self, stripe, _permit: turn.lock().await }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.locks.held.borrow_mut();
        let entry = held.get_mut(&self.stripe).expect("held until now");
        entry.1 -= 1;
        if entry.1 == 0 {
            held.remove(&self.stripe);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(position: u64, start: u64, len: u64) -> Piece {
        Piece { position, start, len }
    }

    #[test]
    fn small_writes_read_the_old_data_and_parity() {
        let pieces = [piece(2, 8192, 4096)];
        let parity = piece(7, 8192, 4096);
        let reads = pieces.to_vec();
        assert_eq!(plan(&pieces, 7), Plan { reads, reads_parity: true, parity });
    }

    #[test]
    fn writes_of_most_of_a_stripe_read_the_rest_and_full_stripes_nothing() {
        let most: Vec<Piece> = (0..4).map(|at| piece(at, 0, CHUNK)).collect();
        let rest = vec![piece(4, 0, CHUNK), piece(5, 0, CHUNK)];
        let parity = piece(6, 0, CHUNK);
        assert_eq!(plan(&most, 6), Plan { reads: rest, reads_parity: false, parity });
        let full: Vec<Piece> = (0..6).map(|at| piece(at, 0, CHUNK)).collect();
        assert_eq!(plan(&full, 6), Plan { reads: Vec::new(), reads_parity: false, parity });
    }

    #[test]
    fn a_piece_that_covers_only_a_part_must_be_read_to_reconstruct() {
        let pieces = [piece(0, 4096, CHUNK - 4096), piece(1, 0, CHUNK), piece(2, 0, CHUNK)];
        let Plan { reads, reads_parity, parity } = plan(&pieces, 4);
        assert_eq!(reads, [piece(0, 0, CHUNK), piece(3, 0, CHUNK)]);
        assert!(!reads_parity);
        assert_eq!((parity.start, parity.len), (0, CHUNK));
    }

    #[test]
    fn a_range_is_cut_at_chunks() {
        let cut: Vec<_> = by_chunk(CHUNK - 512, CHUNK + 1024, CHUNK).collect();
        assert_eq!(cut, [(CHUNK - 512, 512), (CHUNK, CHUNK), (2 * CHUNK, 512)]);
    }
}
