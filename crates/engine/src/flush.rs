//! Flushing: what was acknowledged is made durable, and what is dead becomes free by it.
//!
//! ```text
//!  FLUSH ─┬─> journal commits ────────────────────────────────────────────────┬─> answered
//!         ├─> drive 0 flushes ────────────────────────────────────────────────┤
//!         ├─> drive 1 flushes ────────────────────────────────────────────────┤
//!         └─> drive 2 hangs ─ ─ ─ ─ (counts as lost until it answers) ─ ─ ─ ─ ┘─ ─ ...
//! ```
//! A client does not wait for drives that hang, as long as these are no more than the parity can
//! lose: what they have not made durable is durable on the others, as if they had been lost. They
//! are not written off for that. The journal's durable point stays where it is, so that recovery
//! looks at all they may have lost in a crash, and heals it.
//! The pool itself waits for every drive before it relies on what was flushed: parity, checkpoints,
//! space that is used again.

use format::Record;
use io::slice::did;
use io::{Env, Wait};
use layout::DriveIndex;
use smallvec::SmallVec;

use futures_util::future::{join, select};

use crate::api::RequestError;
use crate::limits::{FLUSH_LOOK, FLUSH_PATIENCE, RELEASE_MAX};
use crate::planted::{self, Bug};
use crate::shard::Shard;

/// Drives with the cached writes that a flush of theirs has to cover.
type Dirty = SmallVec<[(DriveIndex, u64); 16]>;

impl<E: Env> Shard<E> {
    /// Everything acknowledged before this call is durable after it: the journal is committed
    /// and the drives are flushed, side by side.
    pub async fn flush(&self) -> Result<(), RequestError> {
        self.check_usable()?;
        let settled = self.journal.settled();
        let skip = planted::is(Bug::SkipJournalFlush);
        let sealed = if skip { settled } else { self.journal.seal() };
        let settled = settled.max(self.journal.settled().min(sealed));
        let (committed, ()) =
            futures_util::future::join(self.journal.commit(sealed), self.array.flush_dirty()).await;
        if !committed {
            return Err(self.fail("the journal can't be written to any drive"));
        }
        self.record_failures().await?;
        let late = planted::is(Bug::SettleLate);
        self.journal.note_durable(if late { self.journal.settled() } else { settled });
        self.release_limbo();
        Ok(())
    }

    /// Flushes so that what is dead becomes free. Returns how many stripes that made.
    pub async fn flush_limbo(&self) -> Result<usize, RequestError> {
        // As long as a read may have seen the oldest of it no flush helps, and each would fill the
        // journal with blocks that say nothing.
        if self.state.borrow().space.limbo_is_seen(self.reads.oldest()) {
            return Ok(0);
        }
        self.journal.reserve().await;
        self.flush().await?;
        if !self.journal.publish().await {
            return Err(self.fail("the journal can't be written to any drive"));
        }
        Ok(self.release_limbo())
    }

    /// Everything acknowledged before this call survives power loss after it, and with it the loss
    /// of as many drives as the parity bears, counting those that hang.
    pub async fn flush_for_client(&self) -> Result<(), RequestError> {
        let spared = self.may_hang();
        let broken = planted::is(Bug::SkipJournalFlush) || planted::is(Bug::SettleLate);
        if spared == 0 || broken {
            return self.flush().await;
        }
        self.check_usable()?;
        let sealed = self.journal.seal();
        let settled = self.journal.settled().min(sealed);
        let commit = self.told(Wait::Journal, self.journal.commit(sealed));
        let (committed, hung) = join(commit, self.flush_but(spared)).await;
        if !committed {
            return Err(self.fail("the journal can't be written to any drive"));
        }
        self.record_failures().await?;
        if hung {
            self.count(|counters| counters.spared_flushes += 1);
        } else {
            self.journal.note_durable(settled);
            self.release_limbo();
        }
        Ok(())
    }

    /// Drives that may still be lost by all volumes.
    fn may_hang(&self) -> usize {
        if !self.array.monitor.handling().hedge {
            return 0;
        }
        let parity = self.state.borrow().space.least_parity();
        parity.unwrap_or(0).saturating_sub(self.array.lost())
    }

    /// Flushes all drives, but waits for at most all but `spared` of those that hang. True if it
    /// did not wait for all.
    async fn flush_but(&self, spared: usize) -> bool {
        let mut dirty: Dirty = self.array.dirty().collect();
        loop {
            dirty.retain(|&mut (drive, written)| !self.array.is_flushed(drive, written));
            if dirty.is_empty() {
                return false;
            }
            for &(drive, _) in &dirty {
                self.start_flush(drive);
            }
            let hangs = |&(drive, _): &(DriveIndex, u64)| self.is_silent_for(drive, FLUSH_PATIENCE);
            let hung = dirty.iter().all(hangs);
            // A drive may have been lost meanwhile.
            if hung && dirty.len() <= spared.min(self.may_hang()) {
                return true;
            }
            let look = self.env.sleep_until(self.env.now() + FLUSH_LOOK);
            select(self.array.flush_over.wait(), Box::pin(look)).await;
        }
    }

    /// A flush that nobody has to wait for, unless one is running.
    fn start_flush(&self, drive: DriveIndex) {
        let Some(covered) = self.array.claim_flush(drive) else { return };
        let array = self.array.clone();
        let run = async move { array.run_flush(drive, covered).await };
        self.array.leftovers.leave(&self.env, run);
    }

    /// Frees dead stripes whose death is durable and unobserved.
    pub fn release_limbo(&self) -> usize {
        let mut state = self.state.borrow_mut();
        // Not merely durable: recovery must know it, or it would miss the data of records whose
        // places hold something else by then, and drop them (and what was moved from there).
        let early = planted::is(Bug::FreeBeforeDurable);
        let published = if early { self.journal.latest() } else { self.journal.published() };
        let freed = state.space.release_limbo(published, self.reads.oldest());
        // Before anybody is given such a stripe: its next life's records come after this.
        for stripe in state.space.substitutes_dropped() {
            self.journal.append(&Record::Substitutes { stripe, places: Vec::new() });
        }
        drop(state);
        did(freed.len());
        if freed.len() == RELEASE_MAX {
            // The rest has its turn when others had theirs.
            self.work.notify_all();
        }
        self.discards.note(&freed);
        if !freed.is_empty() {
            self.space_freed.notify_all();
        }
        freed.len()
    }
}
