//! Getting the claims on drives, or being refused.

use std::cell::Cell;
use std::pin::pin;

use format::{BEAT_AT, CLAIM_AT, CLAIM_LEN, Claim, ClaimState, Seen, Uuid};
use futures_util::future::{Either, select};
use io::{Buf, Drive, DriveError, Durability, Env, Nanos, join_all};

use super::judge::{Claimant, Verdict, judge};
use super::limits::{
    BEAT, LAPSE, LOOK_PATIENCE, PATIENCE, READS, SETTLE, SETTLE_BOUND, SILENT, TRIES,
};

/// Why drives are not to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody has them: the claim, and whether it is on this machine.
    Held { claim: Box<Claim>, here: bool },
    /// It was to be taken over, and shows that it is alive.
    Alive(Box<Claim>),
    /// Two wanted them at the same time, and this one got them.
    Outrun(Box<Claim>),
    /// No drive took the claim.
    NoDrive(Option<DriveError>),
}

impl Refusal {
    /// Somebody has what `who` wants.
    pub fn held(claim: Box<Claim>, who: &Claimant) -> Refusal {
        let here = claim.holder.host == who.holder.host;
        Refusal::Held { claim, here }
    }
}

/// The claim on a drive, and its last beat. `None` if nobody's is there; what is damaged was
/// somebody's who did not get to write it.
pub async fn look<D: Drive>(drive: &D) -> Result<Option<Seen>, DriveError> {
    for _ in 0..READS {
        let pages = drive.read(CLAIM_AT, CLAIM_LEN).await?;
        if let Ok(seen) = Seen::of_pages(&pages) {
            return Ok(seen);
        }
    }
    Ok(None)
}

pub(super) async fn put<D: Drive>(drive: &D, at: u64, claim: &Claim) -> Result<(), DriveError> {
    // Others who see the drive see what is in its cache.
    drive.write(at, Buf::from_slice(&claim.encode()), Durability::Cached).await
}

/// What was asked of a drive that answers in time.
pub(super) async fn in_time<E: Env, T>(
    env: &E,
    time: Nanos,
    asked: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(asked), pin!(env.sleep_until(env.now() + time))).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(_) => None,
    }
}

/// When it was looked, and what was there, of each drive.
type Looked = (Nanos, Vec<Option<Claim>>);

/// `None`: a drive has not answered.
type Look = Option<Result<Option<Seen>, DriveError>>;

/// Drives that nobody has.
struct Found {
    /// When that was last looked at.
    begun: Nanos,
    /// How long claims are to stay there before they count.
    settle: Nanos,
    /// What was there, of each drive.
    before: Vec<Option<Claim>>,
}

/// Claims of one opening.
pub(super) struct Taker<'a, E, D> {
    pub env: &'a E,
    pub drives: &'a [D],
    pub who: &'a Claimant,
    /// Of the claims that are on the drives: another one with each writing, or who took them over
    /// could not tell new ones from old ones.
    pub session: Cell<Uuid>,
    /// Never less than it was.
    pub beat: &'a Cell<u64>,
    pub take_over: bool,
}

impl<E: Env, D: Drive> Taker<'_, E, D> {
    /// The drives have this opening's claims. Returns when that was last looked at, and which
    /// drives have one.
    pub async fn take(&self) -> Result<(Nanos, Vec<bool>), Refusal> {
        for _ in 0..TRIES {
            let Some(found) = self.find_free().await? else { continue };
            let Found { begun, settle, before } = found;
            if let Some(taken) = self.settle(begun, settle, &before).await? {
                self.show(ClaimState::Held).await;
                return Ok(taken);
            }
        }
        Err(Refusal::NoDrive(None))
    }

    /// Nobody has the drives. `None`: somebody else's claims are there than were a moment ago.
    async fn find_free(&self) -> Result<Option<Found>, Refusal> {
        let begun = self.env.now();
        let looks = self.looks(LOOK_PATIENCE).await;
        if !looks.iter().any(|look| matches!(look, Some(Ok(_)))) {
            let error = looks.into_iter().find_map(|look| look?.err());
            return Err(Refusal::NoDrive(error));
        }
        let seen = looks.iter().filter_map(|look| look.as_ref()?.as_ref().ok()?.as_ref());
        let verdict = judge(seen, self.who, self.take_over);
        let before = claims(looks);
        let found = |begun, settle, before| Ok(Some(Found { begun, settle, before }));
        match verdict {
            Verdict::Free => found(begun, SETTLE, before),
            Verdict::Lapse => found(begun, LAPSE, before),
            Verdict::Held(claim) => Err(Refusal::held(claim, self.who)),
            Verdict::Watch(claim) => {
                let watched = self.watch(&claim).await?;
                watched.map_or(Ok(None), |(begun, before)| found(begun, LAPSE, before))
            }
        }
    }

    /// Writes claims, and looks whether they stay. `None`: somebody came between, and is gone.
    async fn settle(
        &self,
        begun: Nanos,
        mut settle: Nanos,
        before: &[Option<Claim>],
    ) -> Result<Option<(Nanos, Vec<bool>)>, Refusal> {
        loop {
            self.session.set(Uuid::from_random(self.env.unique_id()));
            self.put_all().await?;
            if self.env.now() > begun + SETTLE_BOUND {
                settle = LAPSE;
            }
            self.stay(settle).await;
            let looked = self.env.now();
            let claims = claims(self.looks(LOOK_PATIENCE).await);
            let own = |claim: &Option<Claim>| claim.as_ref().is_some_and(|own| self.is_own(own));
            let has: Vec<bool> = claims.iter().map(own).collect();
            // What was free before, and is still there, is on a drive that takes no writes.
            let stays = |(claim, before): (&Option<Claim>, &Option<Claim>)| {
                let session = |claim: &Option<Claim>| claim.as_ref().map(|own| own.session);
                session(claim) == session(before)
            };
            let others = claims.iter().zip(before).filter(|pair| !stays(*pair));
            let others = others.filter_map(|(claim, _)| claim.as_ref());
            let others = others.filter(|claim| !self.is_own(claim) && is_held(claim));
            match others.max_by_key(|claim| claim.session) {
                None => return Ok(has.contains(&true).then_some((looked, has))),
                // Each has some: the same one goes on for both. The other never writes again.
                Some(other) if self.session.get() > other.session && has.contains(&true) => {
                    settle = LAPSE;
                }
                Some(other) => return Err(Refusal::Outrun(other.clone().into())),
            }
        }
    }

    /// Waits, and shows that it is there.
    async fn stay(&self, settle: Nanos) {
        let end = self.env.now() + settle;
        while self.env.now() + BEAT < end {
            self.env.sleep_until(self.env.now() + BEAT).await;
            self.show(ClaimState::Taking).await;
        }
        self.env.sleep_until(end).await;
    }

    /// A beat. Nothing depends on it but that nobody waits longer than need be, or not long enough
    /// to see that it lives.
    async fn show(&self, state: ClaimState) {
        self.beat.set(self.beat.get() + 1);
        let claim = self.claim(state);
        let beats = self.drives.iter().map(|drive| put(drive, BEAT_AT, &claim));
        let _shown = in_time(self.env, PATIENCE, join_all(beats)).await;
    }

    fn is_own(&self, claim: &Claim) -> bool {
        claim.session == self.session.get()
    }

    /// At each drive. `None`: it has not answered.
    async fn looks(&self, time: Nanos) -> Vec<Look> {
        join_all(self.drives.iter().map(|drive| in_time(self.env, time, look(drive)))).await
    }

    /// Refuses if a claim changes. Returns when that was last looked at, and what was seen; `None`
    /// if it could not be looked at both before and after.
    async fn watch(&self, claim: &Claim) -> Result<Option<Looked>, Refusal> {
        let before = claims(self.looks(LOOK_PATIENCE).await);
        self.env.sleep_until(self.env.now() + SILENT).await;
        let begun = self.env.now();
        let after = claims(self.looks(LOOK_PATIENCE).await);
        // What could not be read before is no sign of life, nor is it one of death.
        let pairs = before.iter().zip(&after);
        let both = pairs.filter_map(|(before, after)| Some((before.as_ref()?, after.as_ref()?)));
        let moved = both.clone().filter(|(before, after)| is_held(after) && before != after);
        if let Some((before, other)) = moved.max_by_key(|(_, after)| after.seen_secs) {
            let other = Box::new(other.clone());
            let same = before.session == other.session;
            return Err(if same { Refusal::Alive(other) } else { Refusal::Outrun(other) });
        }
        let is_silent = { both }.any(|(_, after)| after.session == claim.session);
        Ok(is_silent.then_some((begun, after)))
    }

    /// However long it takes: a claim that arrived later would lie over those of others.
    async fn put_all(&self) -> Result<(), Refusal> {
        let claim = self.claim(ClaimState::Taking);
        let puts = self.drives.iter().map(|drive| put(drive, CLAIM_AT, &claim));
        let done = join_all(puts).await;
        match done.iter().any(Result::is_ok) {
            true => Ok(()),
            false => Err(Refusal::NoDrive(done.into_iter().find_map(Result::err))),
        }
    }

    fn claim(&self, state: ClaimState) -> Claim {
        self.who.claim(state, self.session.get(), self.beat.get())
    }
}

fn claims(looks: Vec<Look>) -> Vec<Option<Claim>> {
    looks.into_iter().map(|look| Some(look?.ok().flatten()?.claim)).collect()
}

fn is_held(claim: &Claim) -> bool {
    claim.state != ClaimState::Released
}
