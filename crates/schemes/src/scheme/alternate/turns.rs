//! Carrying out what `roles` decides: batches from the cache to the replica that writes, changes of
//! roles, and the loss of a replica.
//!
//! ```text
//!   ranges of the batch in the log, durable ─► in place ─► flush ─► page: where replay begins
//!                                                                      └─► it counts as applied
//! ```

use futures_util::future::join;
use io::{Env, Nanos};

use super::page::Page;
use super::replica::{BATCH_MAX, Replica};
use super::roles::{Facts, Step};
use super::{Inner, SIDES};
use crate::log::record::PAGE;
use crate::store::StoreError;

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
    pub fn living(&self) -> impl Iterator<Item = (usize, &Replica<E>)> {
        let there = SIDES.into_iter().filter(|side| self.alive.get()[*side]);
        there.map(|side| (side, self.replica(side)))
    }

    pub fn replica(&self, side: usize) -> &Replica<E> {
        self.replicas[side].as_ref().expect("one that was never there is not alive")
    }

    /// A replica could not do what it was told. An error if it was the last.
    pub fn lose(&self, side: usize, error: StoreError) -> Result<(), StoreError> {
        let mut alive = self.alive.get();
        if !alive[1 - side] {
            return Err(error);
        }
        if alive[side] {
            alive[side] = false;
            self.alive.set(alive);
            self.see(|seen| seen.losses += 1);
        }
        Ok(())
    }

    /// Nothing that a lost replica lacks is answered before the other says, durably, that it must
    /// not be trusted any more.
    pub async fn record_losses(&self) -> Result<(), StoreError> {
        while self.recorded.get() != self.alive.get() {
            let _turn = self.page_turn.lock().await;
            let alive = self.alive.get();
            if self.recorded.get() == alive {
                break;
            }
            let side = usize::from(!alive[0]);
            self.write_page(side, |_| ()).await?;
        }
        Ok(())
    }

    /// The turn for pages is held.
    async fn write_page(&self, side: usize, how: impl FnOnce(&mut Page)) -> Result<(), StoreError> {
        let sequence = self.sequence.get() + 1;
        self.sequence.set(sequence);
        let alive = self.alive.get();
        let mut page = Page { sequence, current: alive, ..self.replica(side).page() };
        how(&mut page);
        self.replica(side).write_page(page).await?;
        let told = alive[side] && alive != [true; 2];
        self.recorded.set(if told { alive } else { self.recorded.get() });
        Ok(())
    }

    fn facts(&self, closing: bool) -> Facts {
        Facts {
            now: self.env.now(),
            newest: self.cache.borrow().newest(),
            applied: self.applied.get(),
            alive: self.alive.get(),
            closing,
        }
    }

    /// Nobody has anything to write.
    pub fn is_idle(&self) -> bool {
        let (applied, newest) = (self.applied.get(), self.cache.borrow().newest());
        applied == [newest; 2]
    }

    /// One step of what is to be written.
    pub async fn turn(&self, closing: bool) -> Result<Turned, StoreError> {
        let _turn = self.turn.lock().await;
        self.record_losses().await?;
        let step = self.roles.borrow().decide(&self.facts(closing));
        let done = match step {
            Step::CatchUp { side, to } | Step::Write { side, to } => {
                if let Err(error) = self.apply(side, to).await {
                    self.lose(side, error)?;
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

    /// The other replica writes from now on; it says so before it does, because after a crash the
    /// one that read is right where they differ.
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
        let batch = self.cache.borrow().batch(self.applied.get()[side], to, BATCH_MAX);
        // Parity that is half written may leave neither old nor new bytes if a drive is lost with
        // the power: then only the log knows them, should the other replica be lost, too. Drives
        // take whole pages, so that is true of what lies beside the data as well.
        if self.by_parity {
            self.log_side(side, batch.to).await?;
            replica.log_edges(self.base, &batch).await?;
        }
        replica.log_ranges(batch.to, &whole_pages(&batch.pieces)).await?;
        replica.put(self.base, &batch.pieces).await?;
        let (no_flush, replay) = replica.in_place(batch.to).await;
        if let Some(replay) = replay {
            let _turn = self.page_turn.lock().await;
            self.write_page(side, |page| page.replay = replay).await?;
        }
        drop(no_flush);
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

    /// What all living replicas have leaves the cache, and the logs.
    pub async fn trim(&self, all: bool) -> Result<(), StoreError> {
        let to = self.living().map(|(side, _)| self.applied.get()[side]).min();
        let to = to.expect("one is always alive");
        self.cache.borrow_mut().drop_to(to);
        for (side, replica) in self.living() {
            match replica.free(to, all).await {
                Ok(freed) => self.see(|seen| seen.log_frees += u64::from(freed)),
                Err(error) => self.lose(side, error)?,
            }
        }
        self.record_losses().await
    }

    /// True: every entry up to here that is not in place is in the log of this replica.
    async fn log_side(&self, side: usize, to: u64) -> Result<bool, StoreError> {
        let entries = |after: u64| {
            let cache = self.cache.borrow();
            cache.entries(after, to).cloned().collect::<Vec<_>>()
        };
        let logged = self.replica(side).log_up_to(to, entries).await?;
        self.see(|seen| seen.log_bytes += logged.unwrap_or(0));
        Ok(logged.is_some())
    }

    /// On this replica everything up to here survives a crash, in the log or in place.
    async fn make_durable_on(&self, side: usize, to: u64) -> Result<(), StoreError> {
        while self.alive.get()[side] {
            match self.log_side(side, to).await {
                Ok(true) => return Ok(()),
                // What is brought to its place needs no room in the log.
                Ok(false) => {
                    self.see(|seen| seen.log_full += 1);
                    self.turn_or_wait().await?;
                }
                Err(error) => self.lose(side, error)?,
            }
        }
        Ok(())
    }

    /// On all living replicas.
    pub async fn make_durable(&self, to: u64) -> Result<(), StoreError> {
        let (one, other) = join(self.make_durable_on(0, to), self.make_durable_on(1, to)).await;
        one.and(other)?;
        self.record_losses().await
    }

    pub async fn turn_or_wait(&self) -> Result<(), StoreError> {
        if let Turned::Wait(until) = self.turn(false).await? {
            self.env.sleep_until(until).await;
        }
        Ok(())
    }
}
