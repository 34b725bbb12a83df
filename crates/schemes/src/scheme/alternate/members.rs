//! Which replicas there are, which of them can be trusted, and which one leads.
//!
//! ```text
//!   lost ──► being filled ──► whole        pages of all whole replicas, of the next generation,
//!     ▲            │            │          say who is whole before anything is answered that
//!     └────────────┴────────────┘          another one lacks
//! ```
//! The *lead*, where one log is enough, is the replica that has everything that was flushed, in its
//! log or in place; after a crash it is right. Another one takes the lead, and says so, when it is
//! the one that writes and something is flushed: not before it has all that was flushed before.

use std::rc::Rc;

use io::Env;

use super::kept::Gone;
use super::page::Page;
use super::replica::Replica;
use super::roles::{Each, REPLICAS_MAX};
use super::{FlushLog, Inner};
use crate::store::StoreError;

/// No page says so: there is always one that is whole.
pub const NOT_RECORDED: Each<bool> = [false; REPLICAS_MAX];

impl<E: Env> Inner<E> {
    /// Those that are written to: whole, or being filled.
    pub fn there(&self) -> Each<bool> {
        let mut there = self.alive.get();
        if let Some(filling) = self.filling.get() {
            there[filling.side] = true;
        }
        there
    }

    pub fn living(&self) -> Vec<(usize, Rc<Replica<E>>)> {
        let there = self.there();
        let sides = (0..REPLICAS_MAX).filter(|side| there[*side]);
        sides.map(|side| (side, self.replica(side))).collect()
    }

    /// Those that can be read.
    pub fn whole(&self) -> Vec<(usize, Rc<Replica<E>>)> {
        let alive = self.alive.get();
        self.living().into_iter().filter(|(side, _)| alive[*side]).collect()
    }

    pub fn replica(&self, side: usize) -> Rc<Replica<E>> {
        let replica = self.replicas.borrow()[side].clone();
        replica.expect("one that was never there is not alive")
    }

    /// A replica could not do what it was told. An error if it was the last.
    pub fn lose(&self, side: usize, error: StoreError) -> Result<(), StoreError> {
        let mut alive = self.alive.get();
        let filling = self.filling.get().filter(|filling| filling.side == side);
        if filling.is_some() {
            self.filling.set(None);
        } else if alive[side] {
            alive[side] = false;
            if alive == NOT_RECORDED {
                return Err(error);
            }
            self.alive.set(alive);
        } else {
            return Ok(());
        }
        self.note_lost(side, filling.is_none_or(|filling| !filling.all));
        self.see(|seen| seen.losses += 1);
        Ok(())
    }

    /// What the cache has is not on it, or only in part, or on nobody else; everything else it has
    /// as others do, if it had `all`.
    fn note_lost(&self, side: usize, all: bool) {
        let (page, cache) = (self.replica(side).page(), self.cache.borrow());
        if self.keeps {
            let mut kept = self.kept.borrow_mut();
            kept.lose(side, all.then(|| Gone::of(&page, false)), self.env.random());
            kept.mark(
                cache.entries(0, cache.newest()).map(|own| (own.offset, own.data.len() as u64)),
            );
        }
    }

    /// It misses nothing any more.
    pub fn note_whole(&self, side: usize) {
        let mut kept = self.kept.borrow_mut();
        kept.forget(side);
        let sides = 0..self.replicas.borrow().len();
        if { sides }.all(|side| self.alive.get()[side]) {
            kept.end();
        }
    }

    /// What lost replicas miss is in a record, on all that are whole.
    pub async fn keep(&self) -> Result<(), StoreError> {
        let _turn = self.keep_turn.lock().await;
        if self.kept.borrow().is_saved() {
            return Ok(());
        }
        let record = self.kept.borrow_mut().save();
        for (side, replica) in self.whole() {
            if let Err(error) = replica.keep(&record).await {
                self.lose(side, error)?;
            }
        }
        Ok(())
    }

    /// Nothing that a lost replica lacks is answered before all others say, durably, that it must
    /// not be trusted any more.
    pub async fn record_losses(&self) -> Result<(), StoreError> {
        while self.recorded.get() != self.alive.get() {
            if self.flush_log == FlushLog::Writer {
                let kept = self.lead_up_to(0).await?;
                // As for ranges: charges of the cache see to it (`log_bytes`).
                assert!(kept, "there is room in a log for all that is in the cache");
            }
            self.keep().await?;
            let _turn = self.page_turn.lock().await;
            let alive = self.alive.get();
            if self.recorded.get() == alive {
                break;
            }
            self.generation.set(self.generation.get() + 1);
            // In both places: a page that rots must not leave the word to one from before.
            for (side, _) in [self.whole(), self.whole()].into_iter().flatten() {
                if let Err(error) = self.write_page(side, |page| page.current = alive).await {
                    self.lose(side, error)?;
                }
            }
            if self.alive.get() == alive {
                self.recorded.set(alive);
            }
        }
        Ok(())
    }

    /// All that are whole have pages of this generation, durably. `None`: that is being seen to.
    pub async fn recorded_generation(&self) -> Option<u64> {
        let _turn = self.page_turn.lock().await;
        (self.recorded.get() == self.alive.get()).then(|| self.generation.get())
    }

    /// The turn for pages is held.
    pub async fn write_page(
        &self,
        side: usize,
        how: impl FnOnce(&mut Page),
    ) -> Result<(), StoreError> {
        let replica = self.replica(side);
        let filling = self.filling.get().filter(|filling| filling.side == side);
        let mut page = Page { filling: filling.is_some(), ..self.next_page(replica.page()) };
        if filling.is_some_and(|filling| filling.all) {
            page.kept = 0;
        }
        how(&mut page);
        replica.write_page(page).await
    }

    /// A page like this one, with what all replicas have in common by now.
    pub fn next_page(&self, like: Page) -> Page {
        let (sequence, there) = (self.sequence.get() + 1, self.there());
        self.sequence.set(sequence);
        let (current, generation) = (self.recorded.get(), self.generation.get());
        let kept = self.kept.borrow().number();
        let seen = |side: usize| match there[side] {
            true => self.replica(side).page().sequence,
            false => 0,
        };
        let seen = std::array::from_fn(seen);
        let (keeps, session) = (self.keeps, self.session);
        Page { sequence, current, generation, kept, seen, keeps, session, ..like }
    }

    /// Everything up to here, and all that was flushed before, is durable on the replica that
    /// leads. False: its log is full.
    pub async fn lead_up_to(&self, to: u64) -> Result<bool, StoreError> {
        loop {
            let (to, lead) = (to.max(self.flushed.get()), self.lead.get());
            let leads =
                || self.alive.get()[lead] && self.lead.get() == lead && !self.electing.get();
            if leads() && self.replica(lead).has(to).await && leads() {
                self.flushed.set(to.max(self.flushed.get()));
                return Ok(true);
            }
            let side = self.next_lead();
            match self.log_side(side, to).await {
                Ok(true) => self.elect(side, to).await?,
                Ok(false) => return Ok(false),
                Err(error) => self.lose(side, error)?,
            }
        }
    }

    /// The one that writes, unless it is being filled.
    fn next_lead(&self) -> usize {
        let (alive, writer) = (self.alive.get(), self.roles.borrow().writer());
        let wanted = [writer, self.lead.get()].into_iter().chain(0..REPLICAS_MAX);
        { wanted }.find(|side| alive[*side]).expect("one is always alive")
    }

    /// This replica, which has everything up to here, takes the lead, if nothing more was flushed.
    /// Meanwhile no flush is answered: it might be one that only the lead before has.
    async fn elect(&self, side: usize, to: u64) -> Result<(), StoreError> {
        let _turn = self.page_turn.lock().await;
        let behind = self.flushed.get() > to;
        let same = self.lead.get() == side;
        if same || behind || !self.alive.get()[side] {
            return Ok(());
        }
        self.electing.set(true);
        let number = self.leads.get() + 1;
        let done = self.write_page(side, |page| page.lead = number).await;
        self.electing.set(false);
        match done {
            Ok(()) => {
                self.leads.set(number);
                self.lead.set(side);
                self.see(|seen| seen.leads += 1);
                Ok(())
            }
            Err(error) => self.lose(side, error),
        }
    }
}
