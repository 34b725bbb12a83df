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
use io::{Drive, Env, Fence, Fenced, join_all};

use super::judge::Claimant;
use super::limits::{BEAT, PATIENCE, VALID};
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
    fence: Fence,
    /// As many as the pool has drives, and those that take places of others.
    slots: RefCell<Vec<Slot<E, D>>>,
    beat: Cell<u64>,
    /// A beat is under way.
    beating: Cell<bool>,
    ending: Cell<bool>,
    /// A beat is over.
    beaten: Event,
    lost: RefCell<Option<Claim>>,
    lost_now: Event,
}

struct Slot<E, D> {
    drive: WeakFenced<E, D>,
    /// Of its claim.
    session: Uuid,
    /// Something was asked of the drive that it has not answered.
    asked: Rc<Cell<bool>>,
}

impl<E, D> Clone for Hold<E, D> {
    fn clone(&self) -> Self {
        Hold { inner: self.inner.clone() }
    }
}

impl<E, D> Clone for Slot<E, D> {
    fn clone(&self) -> Self {
        Slot { drive: self.drive.clone(), session: self.session, asked: self.asked.clone() }
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
            fence: Fence::default(),
            slots: RefCell::default(),
            beat: Cell::new(0),
            beating: Cell::new(false),
            ending: Cell::new(false),
            beaten: Event::new(),
            lost: RefCell::new(None),
            lost_now: Event::new(),
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
        let Inner { env, who, fence, beat, slots, .. } = &*self.inner;
        let session = Cell::default();
        let taker = Taker { env, drives: &drives, who, session, beat, take_over };
        let looked = taker.take().await?;
        let session = taker.session.get();
        if slots.borrow().is_empty() {
            fence.vouch(looked + VALID);
        }
        let fenced: Vec<_> =
            drives.into_iter().map(|drive| Fenced::new(env, drive, fence, KEPT)).collect();
        let slot =
            |drive: &Fenced<E, D>| Slot { drive: drive.downgrade(), session, asked: Rc::default() };
        slots.borrow_mut().extend(fenced.iter().map(slot));
        Ok(fenced)
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
        let slots = self.inner.slots.borrow().clone();
        // They stay open until that is said.
        let drive = |slot: Slot<E, D>| Some((slot.drive.upgrade()?, slot.session));
        let drives: Vec<_> = slots.into_iter().filter_map(drive).collect();
        let done = last.await;
        self.release(&drives).await;
        done
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
        let put_all = drives.iter().map(|(drive, session)| {
            let claim = Claim { state: ClaimState::Released, ..self.claim(*session) };
            async move { in_time(env, put(drive.bare(), BEAT_AT, &claim)).await }
        });
        // Best effort: a claim that stays is one of a process that is gone.
        let _released = join_all(put_all).await;
    }

    fn claim(&self, session: Uuid) -> Claim {
        let Inner { who, beat, .. } = &*self.inner;
        Claim {
            state: ClaimState::Held,
            session,
            holder: who.holder.clone(),
            beat: beat.get(),
            seen_secs: (who.wall_secs)(),
        }
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
        let Inner { env, fence, beat, lost, lost_now, slots, .. } = &*self.inner;
        let (begun, slots) = (env.now(), slots.borrow().clone());
        let looks = self.gather(&slots, |drive, _| async move { look(drive.bare()).await }).await;
        let seen = || looks.iter().filter_map(|(own, seen)| Some((own, seen.as_ref().ok()?)));
        // Whoever came has claimed all drives that it saw.
        let claims = seen().filter_map(|(own, claim)| Some((own, claim.as_ref()?)));
        if let Some((_, other)) = { claims }.find(|(own, claim)| claim.session != **own) {
            fence.shut();
            lost.replace(Some(other.clone()));
            return lost_now.notify_all();
        }
        if seen().next().is_none() {
            return;
        }
        fence.vouch(begun + VALID);
        beat.set(beat.get() + 1);
        let beats = self.gather(&slots, |drive, session| {
            let claim = self.claim(session);
            async move { put(drive.bare(), BEAT_AT, &claim).await }
        });
        // Without it others may come, whose claims then tell.
        beats.await;
    }

    /// What the drives answer that do so in time, with the session of each. Of one that does not,
    /// nothing more is asked until it has.
    async fn gather<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        slots: &[Slot<E, D>],
        ask: impl Fn(Fenced<E, D>, Uuid) -> F,
    ) -> Vec<(Uuid, T)> {
        let env = &self.inner.env;
        let answers = Rc::new(RefCell::new(Vec::new()));
        let (arrived, mut asked) = (Event::new(), 0);
        for slot in slots {
            let Some(drive) = slot.drive.upgrade() else { continue };
            if slot.asked.replace(true) {
                continue;
            }
            asked += 1;
            let (slot, answers, arrived) = (slot.clone(), answers.clone(), arrived.clone());
            let answer = ask(drive, slot.session);
            env.spawn(async move {
                let answer = answer.await;
                slot.asked.set(false);
                answers.borrow_mut().push((slot.session, answer));
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
