//! Claims that are held: renewed, looked after, given up.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use format::{BEAT_AT, CLAIM_AT, CLAIM_LEN, Claim, ClaimState, Uuid};
use futures_util::future::select;
use io::fence::WeakFenced;
use io::sync::Event;
use io::{Drive, Env, Fence, Fenced, Shortage, join_all};

use super::judge::Claimant;
use super::limits::{BEAT, PATIENCE, UNCLAIMED_LOOKS, VALID};
use super::take::{Refusal, Taker, in_time, look, put};

/// Pages of claims. A new pool would begin by wiping them.
const KEPT: Range<u64> = CLAIM_AT..CLAIM_AT + CLAIM_LEN as u64;

/// A handle on the claims of one opening. They are renewed as long as somebody uses one of the
/// drives.
pub struct Hold<E, D> {
    inner: Rc<Inner<E, D>>,
}

struct Inner<E, D> {
    env: E,
    who: Claimant,
    /// As many as the pool has drives, and those that take places of others.
    slots: RefCell<Vec<Slot<E, D>>>,
    beat: Cell<u64>,
    /// A beat is under way.
    beating: Cell<bool>,
    ending: Cell<bool>,
    /// Drives fail on which no claim of anybody is found any more.
    fails_unclaimed: Cell<bool>,
    /// A beat is over.
    beaten: Event,
    /// Passable while at least one drive is known to have this opening's claim.
    whole: Fence,
    lost: RefCell<Option<Claim>>,
    lost_now: Event,
    shortage: Rc<Shortage>,
}

struct Slot<E, D> {
    drive: WeakFenced<E, D>,
    /// Of its claim; `None`: it took none. The other drives' claims then count for it.
    session: Option<Uuid>,
    /// Something was asked of the drive that it has not answered.
    asked: Rc<Cell<bool>>,
    /// Looks in a row that found no claim of anybody there.
    unclaimed: Rc<Cell<u32>>,
}

impl<E, D> Clone for Hold<E, D> {
    fn clone(&self) -> Self {
        Hold { inner: self.inner.clone() }
    }
}

impl<E, D> Clone for Slot<E, D> {
    fn clone(&self) -> Self {
        let Slot { drive, session, asked, unclaimed } = self;
        let (drive, asked, unclaimed) = (drive.clone(), asked.clone(), unclaimed.clone());
        Slot { drive, session: *session, asked, unclaimed }
    }
}

impl<E: Env, D: Drive> Hold<E, D> {
    /// Claims drives to open a pool on them. `take_over`: also those that another host holds, if
    /// it shows no sign of life.
    pub async fn take(
        env: &E,
        drives: Vec<D>,
        who: Claimant,
        take_over: bool,
    ) -> Result<(Hold<E, D>, Vec<Fenced<E, D>>), Refusal> {
        let inner = Inner {
            env: env.clone(),
            who,
            slots: RefCell::default(),
            beat: Cell::new(0),
            beating: Cell::new(false),
            ending: Cell::new(false),
            fails_unclaimed: Cell::new(false),
            beaten: Event::new(),
            whole: Fence::default(),
            lost: RefCell::new(None),
            lost_now: Event::new(),
            shortage: Rc::default(),
        };
        let hold = Hold { inner: Rc::new(inner) };
        let fenced = hold.admit(drives, take_over).await?;
        env.spawn(hold.clone().beat());
        Ok((hold, fenced))
    }

    /// Claims more drives, of those that join the pool.
    pub async fn admit(
        &self,
        drives: Vec<D>,
        take_over: bool,
    ) -> Result<Vec<Fenced<E, D>>, Refusal> {
        let Inner { env, who, beat, slots, whole, shortage, .. } = &*self.inner;
        if let Some(claim) = self.lost() {
            return Err(Refusal::Outrun(claim.into()));
        }
        let session = Cell::default();
        let taker = Taker { env, drives: &drives, who, session, beat, take_over };
        let (looked, has) = taker.take().await?;
        whole.vouch(looked + VALID);
        let session = taker.session.get();
        let fence = |drive: D| Fenced::sharing(env, drive, KEPT, shortage);
        let fenced: Vec<_> = drives.into_iter().map(fence).collect();
        for (drive, has) in fenced.iter().zip(has) {
            drive.fence().vouch(looked + VALID);
            let (drive, session) = (drive.downgrade(), has.then_some(session));
            let (asked, unclaimed) = Default::default();
            slots.borrow_mut().push(Slot { drive, session, asked, unclaimed });
        }
        Ok(fenced)
    }

    /// Waits until it is known that nobody else has the drives: for answers that need no drive.
    /// False: there is none left that could tell.
    pub async fn pass(&self) -> bool {
        self.inner.whole.pass(&self.inner.env).await
    }

    /// From now on a drive fails on which [`UNCLAIMED_LOOKS`] in a row find no claim of anybody;
    /// until then what is asked of it waits.
    pub fn fail_unclaimed(&self) {
        self.inner.fails_unclaimed.set(true);
    }

    /// What the drives need of this machine and it does not have.
    pub fn shortage(&self) -> &Shortage {
        &self.inner.shortage
    }

    /// Who has the drives now, if it is somebody else.
    pub fn lost(&self) -> Option<Claim> {
        self.inner.lost.borrow().clone()
    }

    /// Completes when somebody else has the drives: who.
    pub async fn until_lost(&self) -> Claim {
        loop {
            let change = self.inner.lost_now.wait();
            if let Some(claim) = self.lost() {
                return claim;
            }
            change.await;
        }
    }

    /// Gives the claims up after the last of what is done with the drives, so that whoever comes
    /// need not ask.
    pub async fn release_after<T>(&self, last: impl Future<Output = T>) -> T {
        let drives = self.claimed();
        let done = last.await;
        self.release(&drives).await;
        done
    }

    /// The same if `work` fails: nobody has them then.
    pub async fn release_unless<T, F>(
        &self,
        work: impl Future<Output = Result<T, F>>,
    ) -> Result<T, F> {
        let drives = self.claimed();
        let done = work.await;
        if done.is_err() {
            self.release(&drives).await;
        }
        done
    }

    /// Drives with claims, which stay open until what is returned is dropped.
    fn claimed(&self) -> Vec<(Fenced<E, D>, Uuid)> {
        let slots = self.inner.slots.borrow();
        let drive = |slot: &Slot<E, D>| Some((slot.drive.upgrade()?, slot.session?));
        slots.iter().filter_map(drive).collect()
    }

    async fn release(&self, drives: &[(Fenced<E, D>, Uuid)]) {
        let Inner { env, ending, beating, beaten, .. } = &*self.inner;
        if ending.replace(true) || self.lost().is_some() {
            return;
        }
        let until = env.now() + PATIENCE + PATIENCE;
        while beating.get() && env.now() < until {
            select(pin!(beaten.wait()), pin!(env.sleep_until(until))).await;
        }
        drives.iter().for_each(|(drive, _)| drive.fence().close());
        if !drives.iter().all(|(drive, _)| drive.is_idle()) {
            // Something may still reach a drive: whoever comes is to wait.
            return;
        }
        let put_all = drives.iter().map(|(drive, session)| {
            let claim = self.claim(ClaimState::Released, *session);
            async move { in_time(env, PATIENCE, put(drive.bare(), BEAT_AT, &claim)).await }
        });
        // Best effort: a claim that stays is one of a process that is gone.
        let _released = join_all(put_all).await;
    }

    fn claim(&self, state: ClaimState, session: Uuid) -> Claim {
        self.inner.who.claim(state, session, self.inner.beat.get())
    }

    async fn beat(self) {
        let Inner { env, slots, ending, beating, beaten, .. } = &*self.inner;
        loop {
            env.sleep_until(env.now() + BEAT).await;
            slots.borrow_mut().retain(|slot| slot.drive.upgrade().is_some());
            if ending.get() || self.lost().is_some() || slots.borrow().is_empty() {
                return;
            }
            beating.set(true);
            self.renew().await;
            beating.set(false);
            beaten.notify_all();
        }
    }

    /// Looks at the claims and vouches for the drives; shows others that it is alive.
    async fn renew(&self) {
        let Inner { env, beat, slots, .. } = &*self.inner;
        let (begun, slots) = (env.now(), slots.borrow().clone());
        let claimed: Vec<_> = slots.iter().filter(|slot| slot.session.is_some()).collect();
        let looks = self.gather(&claimed, |slot, drive| self.clone().look(slot, drive));
        let own = looks.await.contains(&true);
        if self.lost().is_some() || !own {
            return;
        }
        for slot in slots.iter().filter(|slot| slot.session.is_none()) {
            slot.drive.upgrade().inspect(|drive| drive.fence().vouch(begun + VALID));
        }
        beat.set(beat.get() + 1);
        // Without it others may come, whose claims then tell.
        let _shown = self.gather(&claimed, |slot, drive| self.clone().show(slot, drive)).await;
    }

    /// Vouches for a drive that has this opening's claim. However late that is seen: another
    /// host's claim there tells that it has the drives. Whoever comes has claimed all that it saw.
    async fn look(self, slot: Slot<E, D>, drive: Fenced<E, D>) -> bool {
        let looked = self.inner.env.now();
        match look(drive.bare()).await {
            Ok(Some(seen)) if Some(seen.claim.session) == slot.session => {
                slot.unclaimed.set(0);
                drive.fence().vouch(looked + VALID);
                self.inner.whole.vouch(looked + VALID);
                true
            }
            Ok(Some(seen)) => {
                self.lose(seen.claim);
                false
            }
            Ok(None) => {
                self.miss(&slot, &drive);
                false
            }
            // It may answer the next time.
            Err(_) => false,
        }
    }

    /// Without a claim nothing passes, and nobody has the drive who would ever say so. What waits
    /// for it fails in the end: clients of a pool that can do without it never notice, and those of
    /// one that can't are not left without an answer.
    fn miss(&self, slot: &Slot<E, D>, drive: &Fenced<E, D>) {
        slot.unclaimed.set(slot.unclaimed.get().saturating_add(1));
        let is_gone = |slot: &Slot<E, D>| slot.unclaimed.get() >= UNCLAIMED_LOOKS;
        if !self.inner.fails_unclaimed.get() || !is_gone(slot) {
            return;
        }
        drive.fence().close();
        let slots = self.inner.slots.borrow();
        let used = || slots.iter().filter_map(|slot| Some((slot, slot.drive.upgrade()?)));
        if used().all(|(slot, _)| slot.session.is_none() || is_gone(slot)) {
            used().for_each(|(_, drive)| drive.fence().close());
            self.inner.whole.close();
        }
    }

    fn lose(&self, claim: Claim) {
        let Inner { slots, whole, lost, lost_now, .. } = &*self.inner;
        whole.shut();
        let slots = slots.borrow();
        let drives = slots.iter().filter_map(|slot| slot.drive.upgrade());
        drives.for_each(|drive| drive.fence().shut());
        lost.borrow_mut().get_or_insert(claim);
        lost_now.notify_all();
    }

    async fn show(self, slot: Slot<E, D>, drive: Fenced<E, D>) -> bool {
        let Some(session) = slot.session else { return false };
        put(drive.bare(), BEAT_AT, &self.claim(ClaimState::Held, session)).await.is_ok()
    }

    /// What the drives answer that do so in time. Of one that does not, nothing more is asked until
    /// it has.
    async fn gather<F: Future<Output = bool> + 'static>(
        &self,
        slots: &[&Slot<E, D>],
        ask: impl Fn(Slot<E, D>, Fenced<E, D>) -> F,
    ) -> Vec<bool> {
        let env = &self.inner.env;
        let answers = Rc::new(RefCell::new(Vec::new()));
        let (arrived, mut asked) = (Event::new(), 0);
        for slot in slots {
            let Some(drive) = slot.drive.upgrade() else { continue };
            if slot.asked.replace(true) {
                continue;
            }
            asked += 1;
            let (answers, arrived) = (answers.clone(), arrived.clone());
            let (answer, is_asked) = (ask((*slot).clone(), drive), slot.asked.clone());
            env.spawn(async move {
                let answer = answer.await;
                is_asked.set(false);
                answers.borrow_mut().push(answer);
                arrived.notify_all();
            });
        }
        let until = env.now() + PATIENCE;
        while answers.borrow().len() < asked && env.now() < until {
            select(pin!(arrived.wait()), pin!(env.sleep_until(until))).await;
        }
        answers.take()
    }
}
