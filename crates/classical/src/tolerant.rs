//! Reads that do not wait for one slow drive.
//!
//! ```text
//!   the drive that has it ────────────────────────────────► slow
//!        │ not answered in time
//!        └─ stripe lock ─ all others of the stripe ─ solve ─► first, and the answer
//! ```
//! What is not needed any more is left to end by itself: operations are counted until they do.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::select;
use io::sync::Event;
use io::{Buf, BufMut, Env, Nanos, join_all};

use crate::array::{Array, ArrayError, Inner};
use crate::grid::Piece;

/// Two ways to the same bytes, and which was first.
#[derive(Default)]
struct Race {
    answer: RefCell<Option<(Buf, bool)>>,
    failed: Cell<u32>,
    error: RefCell<Option<ArrayError>>,
    told: Event,
}

impl Race {
    fn answered(&self, bytes: Buf, round: bool) {
        self.answer.borrow_mut().get_or_insert((bytes, round));
        self.told.notify_all();
    }

    fn failed(&self, error: Option<ArrayError>) {
        self.failed.set(self.failed.get() + 1);
        if let Some(error) = error {
            self.error.replace(Some(error));
        }
        self.told.notify_all();
    }

    /// Until there is an answer, or so many ways have failed.
    async fn over(&self, ways: u32) {
        while self.answer.borrow().is_none() && self.failed.get() < ways {
            self.told.wait().await;
        }
    }
}

impl<E: Env> Array<E> {
    /// Reads like [`Array::read`]. Of a piece whose drive has not answered after `patience` the
    /// rest of the stripe is read as well, and whichever is first counts. Also how many were read
    /// that way. Without parity there is no other way.
    pub async fn read_within(
        &self,
        offset: u64,
        len: u64,
        patience: Nanos,
    ) -> Result<(Buf, u64), ArrayError> {
        let inner = &self.inner;
        if inner.grid.parity() == 0 {
            return Ok((self.read(offset, len).await?, 0));
        }
        inner.check_range(offset, len)?;
        let shares = inner.grid.split(offset, len);
        let pieces: Vec<(u64, Piece, u64)> = shares
            .iter()
            .flat_map(|share| share.pieces.iter().map(|&(piece, at)| (share.stripe, piece, at)))
            .collect();
        let reads = pieces.iter().map(|&(stripe, piece, _)| race(inner, stripe, piece, patience));
        let (mut whole, mut rounds) = (BufMut::with_len(len as usize), 0);
        for (&(_, piece, at), read) in pieces.iter().zip(join_all(reads).await) {
            let (bytes, round) = read?;
            whole[at as usize..(at + piece.len()) as usize].copy_from_slice(&bytes);
            rounds += u64::from(round);
        }
        Ok((whole.freeze(), rounds))
    }
}

async fn race<E: Env>(
    inner: &Rc<Inner<E>>,
    stripe: u64,
    piece: Piece,
    patience: Nanos,
) -> Result<(Buf, bool), ArrayError> {
    if inner.is_owed(stripe) {
        let _lock = inner.lock(stripe).await;
        inner.settle(stripe).await?;
    }
    if inner.sits_out(stripe, piece.position) {
        let _lock = inner.lock(stripe).await;
        return Ok((inner.read_round(stripe, piece).await?, true));
    }
    let race = Rc::new(Race::default());
    let (own, told) = (inner.clone(), race.clone());
    inner.env.spawn(async move {
        let range = (piece.start, piece.end);
        match own.read_member(stripe, piece.position, range).await {
            Ok(bytes) => told.answered(bytes, false),
            Err(_) => told.failed(None),
        }
    });
    if (0..inner.grid.width).any(|member| inner.sits_out(stripe, member)) {
        // The other way is over all others of the stripe, and one of them is to be left alone.
        race.over(1).await;
    } else {
        let deadline = inner.env.now() + patience;
        select(pin!(race.over(1)), pin!(inner.env.sleep_until(deadline))).await;
    }
    if race.answer.borrow().is_none() {
        let (own, told) = (inner.clone(), race.clone());
        inner.env.spawn(async move {
            // The rest of the stripe must not change between one read and the other.
            let _lock = own.lock(stripe).await;
            match own.read_round(stripe, piece).await {
                Ok(bytes) => told.answered(bytes, true),
                Err(error) => told.failed(Some(error)),
            }
        });
        race.over(2).await;
    }
    let answer = race.answer.take();
    answer.ok_or_else(|| race.error.take().unwrap_or_else(|| inner.unreadable(stripe)))
}
