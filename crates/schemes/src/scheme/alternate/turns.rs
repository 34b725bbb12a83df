//! Carrying out what `roles` decides: batches from the cache to the replica that writes, changes of
//! roles; and the log of what is flushed.
//!
//! ```text
//!   ranges of the batch in the log, durable ─► in place ─► flush ─► the log says so, if it has
//!                                                               │   data that is in place now
//!                                                               └─► it counts as applied
//! ```

use classical::ArrayError;
use io::{Env, Nanos, join_all};

use super::replica::BATCH_MAX;
use super::roles::{Facts, Step};
use super::{FlushLog, Inner};
use crate::log::record::PAGE;
use crate::store::StoreError;

/// A batch that meets pages which are not right is tried again, with those that others gave back,
/// so often: each try finds those that the one before did not come to. A replica whose pages are
/// not right still does not keep what it is given.
const TRIES_MAX: u32 = 40;

/// What came of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    Worked,
    /// Nothing to do before this moment.
    Wait(Nanos),
    Rest,
}

/// Whole pages: beside what is written a drive writes the rest of its unit, too.
fn whole_pages(pieces: &[(u64, io::Buf)]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (start, data) in pieces {
        let (from, to) = (start / PAGE * PAGE, (start + data.len() as u64).next_multiple_of(PAGE));
        match ranges.last_mut().filter(|(last, len)| last + len >= from) {
            Some((last, len)) => *len = (*len).max(to - *last),
            None => ranges.push((from, to - from)),
        }
    }
    ranges
}

impl<E: Env> Inner<E> {
    fn facts(&self, closing: bool) -> Facts {
        Facts {
            now: self.env.now(),
            newest: self.cache.borrow().newest(),
            applied: self.applied.get(),
            there: self.there(),
            closing,
        }
    }

    /// Nobody has anything to write.
    pub fn is_idle(&self) -> bool {
        let newest = self.cache.borrow().newest();
        let applied = self.applied.get();
        self.living().iter().all(|(side, _)| applied[*side] == newest)
    }

    /// One step of what is to be written.
    pub async fn turn(&self, closing: bool) -> Result<Turned, StoreError> {
        let _turn = self.turn.lock().await;
        self.record_losses().await?;
        let step = self.roles.borrow().decide(&self.facts(closing));
        let done = match step {
            Step::CatchUp { side, to } | Step::Write { side, to } => {
                match self.apply(side, to).await {
                    Ok(()) => {}
                    // Beside what was to be written: the next step does it.
                    Err(StoreError::Array(ArrayError::PageLost { .. }))
                        if self.replica(side).note_failed() < TRIES_MAX
                            && self.heal_with_turn(side).await > 0 => {}
                    Err(error) => self.lose(side, error)?,
                }
                Turned::Worked
            }
            Step::Switch { side } => {
                if let Err(error) = self.switch(side).await {
                    self.lose(side, error)?;
                }
                Turned::Worked
            }
            Step::Wait { until } => Turned::Wait(until),
            Step::Rest => Turned::Rest,
        };
        self.record_losses().await?;
        self.trim(false).await?;
        Ok(done)
    }

    /// Another replica writes from now on; it says so before it does, because after a crash one
    /// that read is right where they differ.
    pub async fn switch(&self, side: usize) -> Result<(), StoreError> {
        let last = self.window.get() + 1;
        self.window.set(last);
        {
            let _turn = self.page_turn.lock().await;
            self.write_page(side, |page| page.window = last).await?;
        }
        self.roles.borrow_mut().switch(side, self.env.now());
        self.see(|seen| seen.switches += 1);
        Ok(())
    }

    async fn apply(&self, side: usize, to: u64) -> Result<(), StoreError> {
        let replica = self.replica(side);
        let before = self.applied.get()[side];
        let to = replica.begun().unwrap_or(to);
        let batch = self.cache.borrow().batch(before, to, BATCH_MAX);
        if self.by_parity {
            // Parity that is half written may leave neither old nor new bytes if a drive is lost
            // with the power: then only the log knows them, should the other replica be lost, too.
            // Drives take whole pages, so that is true of what lies beside the data as well.
            self.log_side(side, batch.to).await?;
        }
        let pages = self.cache.borrow().edges(before, &batch, replica.array.tears());
        let ranges = whole_pages(&batch.pieces);
        let told = (self.on_all(), before);
        replica.tell_batch(self.base, (&pages, &batch), told, &ranges).await?;
        self.kept.borrow_mut().mark(ranges);
        // Until all have it: if the log rots that tells of it, the checksums of what is marked do.
        replica.array.hold_marks(true);
        replica.put(self.base, &batch.pieces).await?;
        replica.in_place(batch.to).await?;
        let mut applied = self.applied.get();
        applied[side] = batch.to;
        self.applied.set(applied);
        self.see(|seen| {
            seen.batches += 1;
            seen.applied_entries += batch.entries;
            seen.skipped_bytes += batch.skipped;
        });
        Ok(())
    }

    /// Up to which entry everything is in place on all that are written to.
    pub fn on_all(&self) -> u64 {
        let (applied, there) = (self.applied.get(), self.there());
        let own = applied.into_iter().zip(there).filter(|(_, there)| *there);
        own.map(|(applied, _)| applied).min().expect("one is always alive")
    }

    /// What all replicas have leaves the cache, and the logs.
    pub async fn trim(&self, all: bool) -> Result<(), StoreError> {
        let (living, to) = (self.living(), self.on_all());
        self.cache.borrow_mut().drop_to(to);
        let differ = living.iter().any(|(side, _)| self.applied.get()[*side] > to);
        living.iter().for_each(|(_, replica)| replica.array.hold_marks(differ));
        if living.iter().any(|(_, replica)| replica.is_due(all)) {
            self.keep().await?;
        }
        // One that could not keep it must not be left with its older records and no log.
        let there = |(side, _): &(usize, _)| self.there()[*side];
        for (side, replica) in living.into_iter().filter(there) {
            match replica.free(to, all).await {
                Ok(freed) => self.see(|seen| seen.log_frees += u64::from(freed)),
                Err(error) => self.lose(side, error)?,
            }
        }
        self.record_losses().await
    }

    /// True: every entry up to here that is not in place is in the log of this replica.
    pub async fn log_side(&self, side: usize, to: u64) -> Result<bool, StoreError> {
        let entries = |after: u64| {
            let cache = self.cache.borrow();
            cache.entries(after, to).cloned().collect::<Vec<_>>()
        };
        let says = self.flush_log == FlushLog::All;
        let logged = self.replica(side).log_up_to(to, says, entries).await?;
        self.see(|seen| seen.log_bytes += logged.unwrap_or(0));
        Ok(logged.is_some())
    }

    /// On this replica everything up to here survives a crash, in the log or in place.
    async fn make_durable_on(&self, side: usize, to: u64) -> Result<(), StoreError> {
        while self.there()[side] {
            match self.log_side(side, to).await {
                Ok(true) => return Ok(()),
                // What is brought to its place needs no room in the log.
                Ok(false) => self.make_room().await?,
                Err(error) => self.lose(side, error)?,
            }
        }
        Ok(())
    }

    async fn make_room(&self) -> Result<(), StoreError> {
        self.see(|seen| seen.log_full += 1);
        self.turn_or_wait().await
    }

    /// On all replicas, or on the one that leads.
    pub async fn make_durable(&self, to: u64) -> Result<(), StoreError> {
        match self.flush_log {
            FlushLog::All => {
                let living = self.living();
                let logs = living.iter().map(|(side, _)| self.make_durable_on(*side, to));
                join_all(logs).await.into_iter().collect::<Result<(), _>>()?;
            }
            FlushLog::Writer => {
                while !self.lead_up_to(to).await? {
                    self.make_room().await?;
                }
            }
        }
        self.record_losses().await
    }

    pub async fn turn_or_wait(&self) -> Result<(), StoreError> {
        if let Turned::Wait(until) = self.turn(false).await? {
            self.env.sleep_until(until).await;
        }
        Ok(())
    }
}
