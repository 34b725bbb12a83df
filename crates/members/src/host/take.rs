//! Getting the claims on drives, or being refused.

use std::cell::Cell;
use std::fmt;
use std::pin::pin;

use format::{BEAT_AT, CLAIM_AT, CLAIM_LEN, Claim, ClaimState, Uuid};
use futures_util::future::{Either, select};
use io::{Buf, Drive, DriveError, Durability, Env, Nanos, join_all};

use super::judge::{Claimant, Verdict, judge};
use super::limits::{BEAT, LAPSE, PATIENCE, READS, SETTLE, SETTLE_BOUND, SILENT, TRIES};

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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = |claim: &Claim| {
            format!("host {} (process {})", claim.holder.name, claim.holder.process)
        };
        match self {
            Refusal::Held { claim, here: true } => {
                write!(f, "process {} of this host has it open", claim.holder.process)
            }
            Refusal::Held { claim, .. } => write!(f, "{} has it open", who(claim)),
            Refusal::Alive(claim) => write!(f, "{} has it open, and is alive", who(claim)),
            Refusal::Outrun(claim) => write!(f, "{} opened it at the same time", who(claim)),
            Refusal::NoDrive(Some(error)) => write!(f, "no drive takes a claim: {error}"),
            Refusal::NoDrive(None) => f.write_str("no drive takes a claim: none answers"),
        }
    }
}

/// The claim on a drive, and its last beat. `None` if nobody's is there; what is damaged was
/// somebody's who did not get to write it.
pub async fn look<D: Drive>(drive: &D) -> Result<Option<Claim>, DriveError> {
    for _ in 0..READS {
        let pages = drive.read(CLAIM_AT, CLAIM_LEN).await?;
        if let Ok(claim) = Claim::of_pages(&pages) {
            return Ok(claim);
        }
    }
    Ok(None)
}

pub(super) async fn put<D: Drive>(drive: &D, at: u64, claim: &Claim) -> Result<(), DriveError> {
    // Others who see the drive see what is in its cache. A claim that power takes from it is
    // missed only if the host still has power, and nobody else may come then either.
    drive.write(at, Buf::from_slice(&claim.encode()), Durability::Cached).await
}

/// What was asked of a drive that answers in time.
pub(super) async fn in_time<E: Env, T>(env: &E, asked: impl Future<Output = T>) -> Option<T> {
    match select(pin!(asked), pin!(env.sleep_until(env.now() + PATIENCE))).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(_) => None,
    }
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
    /// The drives have this opening's claims. Returns when that was last looked at.
    pub async fn take(&self) -> Result<Nanos, Refusal> {
        for _ in 0..TRIES {
            let (begun, settle) = self.find_free().await?;
            if let Some(looked) = self.settle(begun, settle).await? {
                self.show(ClaimState::Held).await;
                return Ok(looked);
            }
        }
        Err(Refusal::NoDrive(None))
    }

    /// Nobody has the drives. Returns when that was last looked at, and how long claims are to
    /// stay there before they count.
    async fn find_free(&self) -> Result<(Nanos, Nanos), Refusal> {
        let begun = self.env.now();
        let found = self.claims().await;
        match judge(found.iter().flatten(), self.who, self.take_over) {
            Verdict::Free => Ok((begun, SETTLE)),
            Verdict::Lapse => Ok((begun, LAPSE)),
            Verdict::Held(claim) => Err(self.held(claim)),
            Verdict::Watch(claim) => Ok((self.watch(&claim).await?, LAPSE)),
        }
    }

    /// Writes claims, and looks whether they stay. `None`: somebody came between, and is gone.
    async fn settle(&self, begun: Nanos, mut settle: Nanos) -> Result<Option<Nanos>, Refusal> {
        loop {
            self.session.set(Uuid::from_random(self.env.unique_id()));
            self.put_all().await?;
            if self.env.now() > begun + SETTLE_BOUND {
                settle = LAPSE;
            }
            self.stay(settle).await;
            let looked = self.env.now();
            let claims: Vec<Claim> = self.claims().await.into_iter().flatten().collect();
            let others = claims.iter().filter(|claim| !self.is_own(claim) && is_held(claim));
            match others.max_by_key(|claim| claim.session) {
                None => {
                    let own = claims.iter().any(|claim| self.is_own(claim));
                    return Ok(own.then_some(looked));
                }
                // Each has some: the same one goes on for both. The other never writes again.
                Some(other) if self.goes_on(&claims, other) => settle = LAPSE,
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
        let claim = Claim { state, ..self.claim() };
        let beats = self.drives.iter().map(|drive| put(drive, BEAT_AT, &claim));
        let _shown = in_time(self.env, join_all(beats)).await;
    }

    fn goes_on(&self, claims: &[Claim], other: &Claim) -> bool {
        self.session.get() > other.session && claims.iter().any(|claim| self.is_own(claim))
    }

    fn is_own(&self, claim: &Claim) -> bool {
        claim.session == self.session.get()
    }

    fn held(&self, claim: Box<Claim>) -> Refusal {
        let here = claim.holder.host == self.who.holder.host;
        Refusal::Held { claim, here }
    }

    /// Of each drive. `None`: it has none, or can't be read.
    async fn claims(&self) -> Vec<Option<Claim>> {
        let looks = self.drives.iter().map(|drive| in_time(self.env, look(drive)));
        let found = join_all(looks).await.into_iter();
        found.map(|found| found?.ok().flatten()).collect()
    }

    /// Refuses if a claim changes. Returns when that was last looked at.
    async fn watch(&self, claim: &Claim) -> Result<Nanos, Refusal> {
        let before = self.claims().await;
        self.env.sleep_until(self.env.now() + SILENT).await;
        let begun = self.env.now();
        let after = self.claims().await;
        // What could not be read before is no sign of life.
        let moved = before.iter().zip(after).filter_map(|(before, after)| {
            let (before, after) = (before.as_ref()?, after?);
            (is_held(&after) && *before != after).then_some(after)
        });
        match moved.max_by_key(|claim| claim.seen_secs) {
            None => Ok(begun),
            Some(other) if other.session == claim.session => Err(Refusal::Alive(other.into())),
            Some(other) => Err(Refusal::Outrun(other.into())),
        }
    }

    /// However long it takes: a claim that arrived later would lie over those of others.
    async fn put_all(&self) -> Result<(), Refusal> {
        let claim = self.claim();
        let puts = self.drives.iter().map(|drive| put(drive, CLAIM_AT, &claim));
        let done = join_all(puts).await;
        match done.iter().any(Result::is_ok) {
            true => Ok(()),
            false => Err(Refusal::NoDrive(done.into_iter().find_map(Result::err))),
        }
    }

    fn claim(&self) -> Claim {
        Claim {
            state: ClaimState::Taking,
            session: self.session.get(),
            holder: self.who.holder.clone(),
            beat: self.beat.get(),
            seen_secs: (self.who.wall_secs)(),
        }
    }
}

fn is_held(claim: &Claim) -> bool {
    claim.state != ClaimState::Released
}
