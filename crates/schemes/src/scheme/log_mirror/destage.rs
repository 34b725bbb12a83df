//! Destaging: the paper's Data Migrator.
//!
//! ```text
//!  [fill: lock (in place) ─ read the gaps ─ append them, durable]      if that moves less
//!  lock (move) ─ live pieces are durable in the log ─ read them ─ write each run of neighbours,
//!    durable ─ settle
//!  the log's tail up to what is live, durable ─ forget what is settled before
//! ```
//! A crash anywhere leaves the log's records, and destaging again writes the same bytes. New writes
//! of the stripe go on meanwhile: only what was read is settled. The gaps go through the log, too,
//! since a whole stripe has no partial parity to save what was not being written, if a drive is
//! lost with the power. For the same reason pieces that nobody has flushed yet are made durable
//! first: their pages move as a whole, with flushed bytes of before.

use std::ops::Range;

use futures_util::future::try_join_all;
use io::{BufMut, Env};

use super::plan::{PIECE_MAX, fills, gaps, runs};
use super::policy::{First, Why};
use super::{DATA, FREE_PARTS, Inner};
use crate::extents::Piece;
use crate::locks::Hold;
use crate::log::{Entry, Space};
use crate::store::StoreError;

impl<E: Env> Inner<E> {
    fn stripe(&self, number: u64) -> Range<u64> {
        let bytes = self.grid.stripe_bytes();
        number * bytes..(number + 1) * bytes
    }

    fn live_runs(&self, stripe: u64) -> Vec<Range<u64>> {
        let pieces = self.extents.borrow().find(self.stripe(stripe));
        let live = pieces.into_iter().filter(|piece| piece.place.is_some());
        runs(&live.map(|piece| piece.range).collect::<Vec<_>>())
    }

    fn oldest_stripe(&self) -> Option<u64> {
        let oldest = self.extents.borrow().oldest();
        oldest.map(|(address, _)| address / self.grid.stripe_bytes())
    }

    /// One stripe, if there is a reason to.
    pub async fn work(&self) -> Result<bool, StoreError> {
        let facts = self.facts();
        self.emptying.set(self.policy.is_full(&facts));
        let Some(why) = self.policy.why(&facts) else { return self.free_rest().await };
        let hottest = self.reads.borrow().hottest().filter(|_| why.first() == First::Hottest);
        let stripe = match why.first() {
            First::Fullest => self.extents.borrow().fullest(),
            First::Hottest | First::Oldest => hottest.or_else(|| self.oldest_stripe()),
        };
        let Some(stripe) = stripe else { return Ok(false) };
        self.destage(stripe, true).await?;
        self.see(|seen| {
            seen.for_reads += u64::from(hottest.is_some());
            seen.migrated_stripes += u64::from(why == Why::LogDriveLost);
        });
        self.free(self.log.capacity() / FREE_PARTS).await?;
        Ok(true)
    }

    /// Everything is in the array; the log may still have to be told.
    async fn free_rest(&self) -> Result<bool, StoreError> {
        let before = self.log.tail();
        if self.extents.borrow().oldest().is_none() && self.log.used() > 0 {
            self.free(0).await?;
        }
        Ok(self.log.tail() > before)
    }

    /// Up to here the log is not needed.
    fn needless(&self) -> u64 {
        let oldest = self.extents.borrow().oldest();
        oldest.map_or(self.log.end(), |(_, place)| place.record)
    }

    /// Frees what nobody needs, if it is so many bytes, or all there is.
    async fn free(&self, least: u64) -> Result<(), StoreError> {
        let (to, tail) = (self.needless(), self.log.tail());
        let all = to == self.log.end();
        if to > tail && (all || to - tail >= least) {
            let tail = self.log.free(|| self.needless()).await?;
            self.extents.borrow_mut().forget_before(tail);
        }
        Ok(())
    }

    /// Brings a stripe's live pieces to their places.
    pub async fn destage(&self, stripe: u64, may_fill: bool) -> Result<(), StoreError> {
        let range = self.stripe(stripe);
        if may_fill && fills(&self.grid, range.clone(), &self.live_runs(stripe)) {
            self.fill(stripe).await?;
        }
        let _lock = self.locks.lock(range.clone(), Hold::Move).await;
        let pieces = self.extents.borrow().find(range.clone());
        let live: Vec<Piece> = pieces.into_iter().filter(|piece| piece.place.is_some()).collect();
        let pins: Vec<_> =
            live.iter().filter_map(|piece| piece.place).map(|place| self.log.pin(place)).collect();
        self.keep(&live).await?;
        let runs = runs(&live.iter().map(|piece| piece.range.clone()).collect::<Vec<_>>());
        for run in &runs {
            self.destage_run(run, &live).await?;
        }
        drop(pins);
        self.reads.borrow_mut().forget(stripe);
        self.see(|seen| {
            seen.destaged_stripes += u64::from(!runs.is_empty());
            seen.destaged_whole += u64::from(runs == [range]);
        });
        Ok(())
    }

    /// What the log has of these pieces survives a crash.
    pub async fn keep(&self, pieces: &[Piece]) -> Result<(), StoreError> {
        let newest = pieces.iter().filter_map(|piece| piece.place).max_by_key(|it| it.record);
        match newest {
            Some(place) => self.log.keep(place).await,
            None => Ok(()),
        }
    }

    async fn destage_run(&self, run: &Range<u64>, live: &[Piece]) -> Result<(), StoreError> {
        let inside = |piece: &&Piece| run.start <= piece.range.start && piece.range.end <= run.end;
        let pieces: Vec<&Piece> = live.iter().filter(inside).collect();
        let places = pieces.iter().map(|piece| (piece, piece.place.expect("it is live")));
        let reads = places
            .clone()
            .map(|(piece, place)| self.log.read(place.at, piece.range.end - piece.range.start));
        let mut whole = BufMut::with_len((run.end - run.start) as usize);
        for (piece, bytes) in pieces.iter().zip(try_join_all(reads).await?) {
            let at = (piece.range.start - run.start) as usize;
            whole[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        self.array.write(run.start, whole.freeze(), true).await?;
        let mut extents = self.extents.borrow_mut();
        places.for_each(|(piece, place)| extents.settle(piece.range.clone(), place));
        drop(extents);
        self.see(|seen| seen.destaged_bytes += run.end - run.start);
        Ok(())
    }

    /// Logs what the stripe lacks to be written whole. Nobody writes it meanwhile: what is read
    /// here would be taken for newer.
    async fn fill(&self, stripe: u64) -> Result<(), StoreError> {
        let range = self.stripe(stripe);
        let _lock = self.locks.lock(range.clone(), Hold::InPlace).await;
        let gaps = gaps(range, &self.live_runs(stripe));
        let parts = gaps.into_iter().flat_map(|gap| {
            let starts = gap.clone().step_by(PIECE_MAX as usize);
            starts.map(move |start| start..gap.end.min(start + PIECE_MAX))
        });
        let parts: Vec<Range<u64>> = parts.collect();
        let fills = parts.into_iter().map(async |part| {
            let len = part.end - part.start;
            let data = self.array.read(part.start, len).await?;
            let entry = Entry { kind: DATA, address: part.start, len, data };
            // It could do without: a quarter stays for writes.
            let space = Space::Leave(self.kept_free() + self.log.capacity() / 4);
            if let Some(appended) = self.log.append(entry, true, space).await? {
                self.extents.borrow_mut().put(part, appended.place);
                self.see(|seen| seen.filled_bytes += len);
            }
            Ok::<(), StoreError>(())
        });
        futures_util::future::join_all(fills).await.into_iter().collect()
    }

    /// Makes room: the oldest stripes, until the tail has moved or somebody else has given back
    /// what they had.
    pub async fn reclaim(&self) -> Result<(), StoreError> {
        let _turn = self.reclaim_turn.lock().await;
        let before = self.log.tail();
        loop {
            let released = self.log.released();
            if self.log.tail() > before || self.log.reserve().is_some() {
                return Ok(());
            }
            let oldest = self.oldest_stripe();
            if let Some(stripe) = oldest {
                self.destage(stripe, false).await?;
            }
            self.free(0).await?;
            if oldest.is_none() && self.log.tail() == before {
                released.await;
            }
        }
    }
}
