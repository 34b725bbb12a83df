//! Reading: from the drive that has the bytes, or from all others of the stripe.

use io::wait::{Wait, told};
use io::{Buf, BufMut, Env, join_all};

use crate::array::{Array, ArrayError, Inner};
use crate::grid::{Piece, Redundancy};
use crate::mend::Unread;

impl<E: Env> Array<E> {
    pub async fn read(&self, offset: u64, len: u64) -> Result<Buf, ArrayError> {
        self.inner.check_range(offset, len)?;
        let shares = self.inner.grid.split(offset, len);
        let pieces = shares
            .iter()
            .flat_map(|share| share.pieces.iter().map(|&(piece, at)| (share.stripe, piece, at)));
        let pieces: Vec<_> = pieces.collect();
        let reads = pieces.iter().map(|&(stripe, piece, _)| self.inner.read_piece(stripe, piece));
        let read = told(&self.inner.env, Wait::Drives, join_all(reads)).await;
        let mut whole = BufMut::with_len(len as usize);
        for (&(_, piece, at), bytes) in pieces.iter().zip(read) {
            whole[at as usize..(at + piece.len()) as usize].copy_from_slice(&bytes?);
        }
        Ok(whole.freeze())
    }

    /// What each drive of a mirror has there, whatever its checksum says: for who can tell by the
    /// bytes themselves what is whole.
    pub async fn copies(&self, offset: u64, len: u64) -> Result<Vec<Buf>, ArrayError> {
        self.inner.check_range(offset, len)?;
        let mut copies = Vec::new();
        for share in self.inner.grid.split(offset, len) {
            let _lock = self.inner.lock(share.stripe).await;
            for (piece, _) in share.pieces {
                let of = |copy| self.inner.read_raw(share.stripe, copy, (piece.start, piece.end));
                let read = join_all((0..self.inner.grid.width).map(of)).await;
                copies.extend(read.into_iter().flatten());
            }
        }
        Ok(copies)
    }
}

impl<E: Env> Inner<E> {
    async fn read_piece(
        self: &std::rc::Rc<Self>,
        stripe: u64,
        piece: Piece,
    ) -> Result<Buf, ArrayError> {
        if self.is_owed(stripe) {
            let _lock = told(&self.env, Wait::Lock, self.lock(stripe)).await;
            self.settle(stripe).await?;
        }
        if self.grid.redundancy == Redundancy::Mirror {
            return self.read_copy(stripe, piece).await;
        }
        let range = (piece.start, piece.end);
        let asked = !self.sits_out(stripe, piece.position);
        if asked && let Ok(bytes) = self.read_member(stripe, piece.position, range).await {
            return Ok(bytes);
        }
        // The rest of the stripe must not change between one read and the other.
        let _lock = told(&self.env, Wait::Lock, self.lock(stripe)).await;
        self.fetch(stripe, piece.position, range).await
    }

    /// Whichever drive of a mirror has least to do, the others if it fails.
    async fn read_copy(
        self: &std::rc::Rc<Self>,
        stripe: u64,
        piece: Piece,
    ) -> Result<Buf, ArrayError> {
        let turn = self.next_copy.replace(self.next_copy.get() + 1);
        let mut copies: Vec<usize> = (0..self.grid.width).collect();
        copies.sort_by_key(|copy| {
            let (drive, _) = self.address(stripe, *copy, 0);
            (drive.is_avoided(), drive.in_flight(), (copy + turn) % self.grid.width)
        });
        let range = (piece.start, piece.end);
        for copy in copies {
            match self.read_member(stripe, copy, range).await {
                Ok(bytes) => return Ok(bytes),
                Err(Unread::Absent) => {}
                Err(_) => {
                    let _lock = told(&self.env, Wait::Lock, self.lock(stripe)).await;
                    return self.fetch(stripe, copy, range).await;
                }
            }
        }
        Err(self.unreadable(stripe))
    }

    pub fn unreadable(&self, stripe: u64) -> ArrayError {
        self.too_many_lost().unwrap_or_else(|| ArrayError::TooManyLost {
            lost: self.lost_members(stripe).len() + 1,
            width: self.grid.width,
            tolerance: self.grid.tolerance(),
            what: format!("stripe {stripe} can't be read"),
        })
    }
}
