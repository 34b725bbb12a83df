//! Reading: from the drive that has the bytes, or from all others of the stripe.

use futures_util::future::join_all;
use io::{Buf, BufMut, Env};

use crate::array::{Array, ArrayError, Inner};
use crate::grid::{Piece, Redundancy};
use crate::partial::{after_crash, solve};

impl<E: Env> Array<E> {
    pub async fn read(&self, offset: u64, len: u64) -> Result<Buf, ArrayError> {
        self.inner.check_range(offset, len)?;
        let shares = self.inner.grid.split(offset, len);
        let pieces = shares
            .iter()
            .flat_map(|share| share.pieces.iter().map(|&(piece, at)| (share.stripe, piece, at)));
        let pieces: Vec<_> = pieces.collect();
        let reads = pieces.iter().map(|&(stripe, piece, _)| self.inner.read_piece(stripe, piece));
        let mut whole = BufMut::with_len(len as usize);
        for (&(_, piece, at), bytes) in pieces.iter().zip(join_all(reads).await) {
            whole[at as usize..(at + piece.len()) as usize].copy_from_slice(&bytes?);
        }
        Ok(whole.freeze())
    }
}

impl<E: Env> Inner<E> {
    /// Any bytes of a member: what the drive can't be asked for exactly is cut out.
    pub async fn read_member(
        &self,
        stripe: u64,
        member: usize,
        (start, end): (u64, u64),
    ) -> Result<Buf, io::DriveError> {
        if self.is_lost(stripe, member) {
            let (operation, kind) = (io::Operation::Read, io::DriveErrorKind::Removed);
            return Err(io::DriveError { operation, offset: start, len: end - start, kind });
        }
        let (from, to) = (start / self.align * self.align, end.next_multiple_of(self.align));
        let (drive, offset) = self.address(stripe, member, from);
        let bytes = drive.read(offset, to - from).await?;
        Ok(bytes.slice((start - from) as usize..(end - from) as usize))
    }

    async fn read_piece(
        self: &std::rc::Rc<Self>,
        stripe: u64,
        piece: Piece,
    ) -> Result<Buf, ArrayError> {
        if self.is_owed(stripe) {
            let _lock = self.lock(stripe).await;
            self.settle(stripe).await?;
        }
        if self.grid.redundancy == Redundancy::Mirror {
            return self.read_copy(stripe, piece).await;
        }
        if let Ok(bytes) = self.read_member(stripe, piece.position, (piece.start, piece.end)).await
        {
            return Ok(bytes);
        }
        // The rest of the stripe must not change between one read and the other.
        let _lock = self.lock(stripe).await;
        self.read_round(stripe, piece).await
    }

    /// Whichever drive of a mirror has least to do, the others if it fails.
    async fn read_copy(&self, stripe: u64, piece: Piece) -> Result<Buf, ArrayError> {
        let turn = self.next_copy.replace(self.next_copy.get() + 1);
        let mut copies: Vec<usize> = (0..self.grid.width).collect();
        copies.sort_by_key(|copy| {
            let (drive, _) = self.address(stripe, *copy, 0);
            (drive.is_avoided(), drive.in_flight(), (copy + turn) % self.grid.width)
        });
        for copy in copies {
            if let Ok(bytes) = self.read_member(stripe, copy, (piece.start, piece.end)).await {
                return Ok(bytes);
            }
        }
        Err(self.unreadable(stripe))
    }

    /// Solves for a piece whose drive is lost or can't read it. The stripe is locked.
    pub async fn read_round(&self, stripe: u64, piece: Piece) -> Result<Buf, ArrayError> {
        let Some(shape) = self.shape() else { return Err(self.unreadable(stripe)) };
        let range = (piece.start, piece.end);
        let others = (0..self.grid.width).map(async |member| match member == piece.position {
            true => None,
            false => self.read_member(stripe, member, range).await.ok(),
        });
        let members = join_all(others).await;
        if members.iter().filter(|member| member.is_none()).count() > shape.parity() {
            return Err(self.unreadable(stripe));
        }
        let views: Vec<Option<&[u8]>> = members.iter().map(Option::as_deref).collect();
        Ok(Buf::from_slice(&solve(shape, &views)[piece.position]))
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

impl<E: Env> Array<E> {
    /// Stripes of a range whose drives disagree: parity that is not that of the data, copies that
    /// differ. For tests and checks; nothing may be written meanwhile.
    pub async fn disagreeing(&self, offset: u64, len: u64) -> Vec<u64> {
        let mut wrong = Vec::new();
        for share in self.inner.grid.split(offset, len) {
            // Nobody has looked at what is owed: whatever it says, nobody has seen it.
            let owed = self.inner.is_owed(share.stripe);
            if !owed && !self.inner.agrees(share.stripe).await {
                wrong.push(share.stripe);
            }
        }
        wrong
    }
}

impl<E: Env> Inner<E> {
    async fn agrees(&self, stripe: u64) -> bool {
        let whole = (0, self.grid.chunk);
        let members = (0..self.grid.width).map(|member| self.read_member(stripe, member, whole));
        let members: Vec<Option<Buf>> =
            join_all(members).await.into_iter().map(Result::ok).collect();
        let views: Vec<Option<&[u8]>> = members.iter().map(Option::as_deref).collect();
        let Some(shape) = self.shape() else {
            let mut there = views.iter().flatten();
            let first = there.next();
            let is_mirror = self.grid.redundancy == Redundancy::Mirror;
            return !is_mirror || there.all(|copy| Some(copy) == first);
        };
        // What is lost is what P says; Q must say the same.
        let data = solve(shape, &views);
        let columns = data.iter().map(|column| Some(&column[..]));
        let all: Vec<Option<&[u8]>> =
            columns.chain(views[shape.data()..].iter().copied()).collect();
        let logged = vec![None; shape.parity()];
        let right = after_crash(shape, &(0..self.grid.chunk), &[], &all, &logged);
        let parity = views[shape.data()..].iter().zip(&right);
        parity.into_iter().all(|(held, right)| held.is_none() || *held == right.as_deref())
    }
}
