//! Reclaimer: redirected writes go back to where they belong.
//!
//! ```text
//!  D_Table   [a][b][c]   [d]        neighbours merged: one write for a, b, c
//!     │ written in place, entry `home`: reads may have it from either
//!     └ all home ─ everything held ─ drive flushed ─ epoch raised in heads ─ D_Table empty
//! ```
//! Parity is current already, so nothing is read but the copies. The records are void in one
//! stroke: until then they are what a crash would bring back, and writes of their ranges join them.

use io::{Buf, BufMut, DriveError, Durability, Env, Operation};

use crate::locks::Hold;

use super::drive::{Steered, gone};
use super::stage::{Ask, count};

impl<E: Env> Steered<E> {
    pub fn is_staged(&self) -> bool {
        let own = &self.stage.targets[self.index];
        own.steered.get() || !own.staged.borrow().segments.is_empty()
    }

    /// A bounded piece of it, once the drive is not busy. False: there is nothing to do.
    pub async fn reclaim_some(&self) -> bool {
        let (stage, own) = (&self.stage, &self.stage.targets[self.index]);
        let busy = stage.is_target_busy(self.index) || stage.is_outsourced(self.index);
        if busy || stage.is_dead(self.index) || !self.is_staged() {
            return false;
        }
        let (away, run) = {
            let table = &own.staged.borrow().table;
            (table.away(), table.run(self.stage.reclaim_bytes))
        };
        let Some(run) = run.filter(|_| away > self.stage.reclaim_bytes) else {
            // Whoever waits for the drive learns from itself that it failed.
            let _ = self.clear().await;
            return true;
        };
        let _held = own.lock.lock(run.clone(), Hold::InPlace).await;
        let pieces = own.staged.borrow().table.look(run.clone());
        if pieces.iter().all(|(_, entry)| entry.as_ref().is_some_and(|entry| entry.redirected)) {
            let _ = self.reclaim(run).await;
        }
        true
    }

    /// Newest bytes of redirected writes that are all there. The range is held.
    async fn gather(&self, run: std::ops::Range<u64>) -> Option<Buf> {
        let pieces = self.stage.targets[self.index].staged.borrow().table.look(run.clone());
        let mut whole = BufMut::with_len((run.end - run.start) as usize);
        for (piece, entry) in pieces {
            let entry = entry?;
            let len = piece.end - piece.start;
            let bytes =
                self.stage.read_copies(&entry.place, entry.skip, len, Ask::One).await?.bytes;
            let at = (piece.start - run.start) as usize;
            whole[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Some(whole.freeze())
    }

    async fn reclaim(&self, run: std::ops::Range<u64>) -> Result<(), DriveError> {
        let own = &self.stage.targets[self.index];
        let Some(bytes) = self.gather(run.clone()).await else {
            own.dead.set(true);
            return Err(gone(Operation::Read, run.start, run.end - run.start));
        };
        let len = bytes.len() as u64;
        self.write_home(run.start, bytes, Durability::Cached).await?;
        own.staged.borrow_mut().table.set_home(run);
        let counts = &self.stage.counts;
        count(&counts.reclaims);
        counts.reclaimed_bytes.set(counts.reclaimed_bytes.get() + len);
        Ok(())
    }

    /// Writes back all that is staged and makes its records void, busy or not. Nothing may be held
    /// by the caller.
    pub async fn clear(&self) -> Result<(), DriveError> {
        let (stage, own) = (&self.stage, &self.stage.targets[self.index]);
        let _all = own.lock.lock(0..u64::MAX, Hold::InPlace).await;
        if !self.is_staged() {
            return Ok(());
        }
        loop {
            if stage.is_dead(self.index) {
                return Err(gone(Operation::Write, 0, 0));
            }
            let Some(run) = own.staged.borrow().table.run(self.stage.reclaim_bytes) else { break };
            self.reclaim(run).await?;
        }
        self.flush_home().await?;
        stage.raise(self.index);
        if !stage.seal(self.index).await {
            own.dead.set(true);
            return Err(gone(Operation::Write, 0, 0));
        }
        let mut staged = own.staged.borrow_mut();
        staged.table.forget_redirected();
        staged.segments.clear();
        staged.open.clear();
        own.steered.set(false);
        count(&stage.counts.deactivated);
        Ok(())
    }
}
