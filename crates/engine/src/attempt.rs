//! Storing a write: an attempt at one place, and another elsewhere when it is late or fails.
//!
//! ```text
//!  attempt 1   record s1 ─ copies to A ───────────────────────────────────> over: A is given back
//!                                      │ late
//!  attempt 2                           └ record s2 ─ copies to B ─> map, answer
//!                                                    s1 counts as settled once s2 is durable
//! ```
//!
//! A full stripe for which there is no place without slow drives goes to replicated slots instead,
//! which need fewer drives (FusionRAID §4.3: the least bad, never fail).
//!
//! The record of the place that the map gets is always the newest of the request: if an earlier
//! attempt wins after all, its record is appended once more. So replaying the journal ends where
//! the map does, whichever copies a crash leaves.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use format::{Place, Record, StripeId};
use io::{Env, Wait};
use layout::DriveIndex;
use policy::hedge::Cost;
use smallvec::SmallVec;

use crate::api::RequestError;
use crate::geometry::BlockAddress;
use crate::hedge::{Outcome, Patience, Way, Ways};
use crate::limits::WRITE_HEDGES_MAX;
use crate::shard::Shard;
use crate::tuple::TupleKey;

/// Attempts to place a write before the pool gives up on it: each failure costs a drive, and
/// after that many there are none left that matter.
const ATTEMPTS_MAX: usize = 8;

/// Drives that a new attempt had better not use.
pub type Avoid = SmallVec<[DriveIndex; 8]>;

/// A place for the copies of one block, or of a part of it.
#[derive(Clone, Debug)]
pub struct Slot {
    pub key: TupleKey,
    pub place: Place,
    pub targets: SmallVec<[BlockAddress; 3]>,
}

/// Slots of a request: one for each block.
pub type Slots = SmallVec<[Slot; 1]>;

/// The place of an attempt.
#[derive(Clone, Debug)]
pub enum Taken {
    Slots(Slots),
    Stripe(StripeId),
}

/// From the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sent {
    All,
    /// Readable, but less redundant than it should be.
    Some,
    Nothing,
}

/// A write on its way to one place.
pub struct Attempt {
    /// Which of its request's attempts it is, from 1; the record of a later one comes later.
    pub number: usize,
    pub taken: Taken,
    pub drives: Avoid,
    pub cost: Cost,
    pub records: SmallVec<[Record; 1]>,
    /// Journal block of the records.
    pub sequence: u64,
    pub writes: Way<Sent>,
    /// With FUA: the journal block's way to its drives.
    pub commit: Option<Way<bool>>,
    pub sent: Option<Sent>,
}

impl Future for Attempt {
    type Output = Sent;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Sent> {
        let attempt = &mut *self;
        if attempt.sent.is_none()
            && let Poll::Ready(sent) = attempt.writes.as_mut().poll(context)
        {
            attempt.sent = Some(sent);
        }
        if let Some(commit) = &mut attempt.commit {
            match commit.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(true) => attempt.commit = None,
                Poll::Ready(false) => return Poll::Ready(Sent::Nothing),
            }
        }
        attempt.sent.map_or(Poll::Pending, Poll::Ready)
    }
}

/// The attempts of one request.
#[derive(Default)]
struct Attempts {
    running: Ways<Attempt>,
    /// Journal blocks of the records of those that failed.
    failed: Vec<u64>,
    failures: usize,
    begun: usize,
}

impl Attempts {
    fn begin(&mut self, attempt: Attempt) {
        self.begun += 1;
        self.running.push(Attempt { number: self.begun, ..attempt });
    }
}

/// The attempt that holds the data, and those that don't matter any more.
pub struct Won {
    pub taken: Taken,
    sequence: u64,
    late: Ways<Attempt>,
    /// Journal blocks of attempts that failed.
    failed: Vec<u64>,
}

impl<E: Env> Shard<E> {
    /// Stores a write somewhere, on all the drives it needs. `take` finds a place, preferably
    /// without the drives it is given; `send` appends the record and starts the writes.
    pub async fn store(
        &self,
        fua: bool,
        mut take: impl FnMut(&Avoid) -> Option<Taken>,
        send: impl Fn(Taken) -> Attempt,
    ) -> Result<Won, RequestError> {
        let mut attempts = Attempts::default();
        let won = self.attempt(&mut attempts, &mut take, &send).await;
        let at = won.inspect_err(|_| {
            attempts.running.drain(..).for_each(|attempt| self.leave_attempt(attempt));
        })?;
        self.win(attempts, at, fua).await
    }

    /// Until one of the attempts has stored the data: its index among those that run.
    async fn attempt(
        &self,
        attempts: &mut Attempts,
        take: &mut impl FnMut(&Avoid) -> Option<Taken>,
        send: &impl Fn(Taken) -> Attempt,
    ) -> Result<usize, RequestError> {
        let monitor = &self.array.monitor;
        let mut patience = Patience::of_write(&self.env, monitor);
        let taken = self.told(Wait::Space, self.wait_for_space(|| take(&Avoid::new()))).await?;
        let first = send(taken);
        patience.sent(first.cost);
        attempts.begin(first);
        loop {
            let running = &mut attempts.running;
            match self.told(Wait::Drives, patience.first(running)).await {
                Outcome::Over(at, Sent::All) => {
                    if at > 0 {
                        patience.won();
                    }
                    return Ok(at);
                }
                Outcome::Over(at, sent) => {
                    self.record_failures().await?;
                    attempts.failures += 1;
                    if attempts.failures >= ATTEMPTS_MAX {
                        return Err(self.fail("a write could not be stored on enough drives"));
                    }
                    let is_last = running.len() == 1;
                    let elsewhere = if is_last { take(&Avoid::new()) } else { None };
                    // Waiting for space now could be waiting for ourselves: what died since the
                    // record of this attempt can't be freed before the attempt is settled. Data
                    // with a copy less, in a place known to lack a drive, is as safe as what lay
                    // there before the drive was lost (world 10653).
                    if is_last && elsewhere.is_none() && sent == Sent::Some {
                        return Ok(at);
                    }
                    let attempt = running.remove(at);
                    self.give_up(&attempt.taken);
                    attempts.failed.push(attempt.sequence);
                    if let Some(taken) = elsewhere {
                        attempts.begin(send(taken));
                    } else if is_last {
                        let failed = attempts.failed.drain(..);
                        failed.for_each(|sequence| self.journal.data_done(sequence));
                        let taken = self
                            .told(Wait::Space, self.wait_for_space(|| take(&Avoid::new())))
                            .await?;
                        attempts.begin(send(taken));
                    }
                }
                Outcome::Late => {
                    if let Some(avoid) = self.try_elsewhere(running, &mut patience)
                        // Nobody waits for space to be quicker.
                        && let Some(taken) = take(&avoid)
                    {
                        // One more with a drive that hangs would be lost with the others when
                        // that drive is (world 30874).
                        if running.len() > WRITE_HEDGES_MAX && self.has_hanging(&taken) {
                            self.give_up(&taken);
                            continue;
                        }
                        self.count(|counters| counters.hedged_writes += 1);
                        let second = send(taken);
                        patience.costs_more(second.cost.beyond(running[0].cost));
                        attempts.begin(second);
                    }
                }
            }
        }
    }

    /// A late write may be sent elsewhere, and had better not use these drives there.
    fn try_elsewhere(&self, running: &[Attempt], patience: &mut Patience<'_, E>) -> Option<Avoid> {
        // The data is there: another place would not make the journal quicker.
        if running.iter().any(|attempt| attempt.sent.is_some()) {
            return None;
        }
        if running.len() > WRITE_HEDGES_MAX + 1 {
            patience.give_up();
            return None;
        }
        // Slow and hanging drives look alike at first; the longer it lasts, the less.
        let many = running.len() > WRITE_HEDGES_MAX;
        if many && !self.all_hang(running) {
            return None;
        }
        if !patience.may_hedge(running[0].cost) {
            self.count(|counters| counters.hedges_refused += 1);
            return None;
        }
        let bad = |&drive: &DriveIndex| match many {
            true => self.array.monitor.hangs(drive),
            false => patience.is_silent(drive),
        };
        let drives = running.iter().flat_map(|attempt| attempt.drives.iter().copied());
        Some(drives.filter(bad).collect())
    }

    /// Each of the attempts waits for a drive that hangs.
    fn all_hang(&self, running: &[Attempt]) -> bool {
        let hangs = |&drive: &DriveIndex| self.array.monitor.hangs(drive);
        running.iter().all(|attempt| attempt.drives.iter().any(hangs))
    }

    /// Of stripes only those are taken for a second attempt that avoid such drives.
    fn has_hanging(&self, taken: &Taken) -> bool {
        let Taken::Slots(slots) = taken else { return false };
        let mut targets = slots.iter().flat_map(|slot| &slot.targets);
        targets.any(|at| self.array.monitor.hangs(at.drive))
    }

    async fn win(&self, attempts: Attempts, at: usize, fua: bool) -> Result<Won, RequestError> {
        let Attempts { mut running, failed, begun, .. } = attempts;
        let attempt = running.remove(at);
        self.count(|counters| counters.hedge_wins += u64::from(at > 0));
        let mut won =
            Won { taken: attempt.taken, sequence: attempt.sequence, late: running, failed };
        // A later one may still run, or have failed (world 10860): its record is in the journal.
        if attempt.number < begun {
            let again = self.journal.append_with_data(&attempt.records);
            won.failed.push(std::mem::replace(&mut won.sequence, again));
            let commit = self.journal.commit(won.sequence);
            if fua && !self.told(Wait::Journal, commit).await {
                won.late.into_iter().for_each(|attempt| self.leave_attempt(attempt));
                return Err(self.fail("the journal can't be written to any drive"));
            }
        }
        Ok(won)
    }

    /// The map has what was stored: the journal need not be asked for it any more.
    pub fn settle(&self, won: Won) {
        self.journal.data_done(won.sequence);
        let late = won.late.iter().map(|attempt| attempt.sequence);
        for sequence in won.failed.iter().copied().chain(late) {
            self.journal.data_superseded(sequence, won.sequence);
        }
        for attempt in won.late {
            self.leave_attempt(attempt);
        }
    }

    /// Its place is taken until its writes are over.
    fn leave_attempt(&self, attempt: Attempt) {
        let shard = self.own();
        self.array.leftovers.leave(&self.env, async move {
            if attempt.sent.is_none() {
                attempt.writes.await;
            }
            shard.give_up(&attempt.taken);
        });
    }

    /// Nothing that was written there counts.
    pub fn give_up(&self, taken: &Taken) {
        let (latest, generation) = (self.journal.latest(), self.reads.close());
        let mut state = self.state.borrow_mut();
        match taken {
            Taken::Slots(slots) => {
                for slot in slots {
                    state.space.tuple_write_done(slot.key, latest, generation);
                }
            }
            Taken::Stripe(stripe) => state.space.abandon_stripe(*stripe, latest, generation),
        }
        if state.space.limbo_len() > 0 {
            self.work.notify_all();
        }
    }
}
