//! Drives that this host has a claim on ([`members::host`]), and pools that are open on them.

use std::pin::pin;

use format::Seen;
use futures_util::future::{Either, select};
use io::uring::{RealDrive, UringDrive, UringEnv};
use io::wait::Waits;
use io::{Env, join_all};
use members::host::{Refusal, Verdict, judge, look};

use super::Pool;
use super::trouble::no_room;
use crate::error::{Failure, Outcome};
use crate::render::view::{self, Health};
use crate::serve::room::Room;
use crate::wall_clock;
use crate::{explain, host};

pub(crate) type Hold = members::host::Hold<UringEnv, UringDrive>;

/// What is done about claims of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    Respect,
    /// They are taken over if that host shows no sign of life.
    TakeOver,
}

/// Drives in use, and the claims on them.
pub(crate) struct Claimed {
    pub drives: Vec<RealDrive>,
    pub hold: Hold,
}

/// Claims drives of `object`, a pool.
pub(crate) async fn take(
    env: &UringEnv,
    object: &str,
    drives: &[UringDrive],
    others: Others,
) -> Outcome<Claimed> {
    let take_over = others == Others::TakeOver;
    let taken = Hold::take(env, drives.to_vec(), host::claimant(), take_over).await;
    let (hold, fenced) = taken.map_err(|refusal| refused(object, &refusal))?;
    Ok(Claimed { drives: fenced.into_iter().map(RealDrive::from).collect(), hold })
}

/// Claims drives that join a pool. What is on them is of no interest any more, so neither is who
/// had it, unless he is alive.
pub(crate) async fn admit(
    hold: Option<&Hold>,
    object: &str,
    drives: &[UringDrive],
) -> Outcome<Vec<RealDrive>> {
    let Some(hold) = hold else {
        return Ok(drives.iter().cloned().map(RealDrive::from).collect());
    };
    let fenced = hold.admit(drives.to_vec(), true).await;
    let fenced = fenced.map_err(|refusal| refused(object, &refusal))?;
    Ok(fenced.into_iter().map(RealDrive::from).collect())
}

/// Refuses drives that somebody else has, and claims nothing: to look at them.
pub(crate) async fn check(object: &str, drives: &[UringDrive]) -> Outcome<()> {
    let looks = join_all(drives.iter().map(look)).await;
    // What can't be read is told of when the pool is opened.
    let seen: Vec<Seen> = looks.into_iter().filter_map(|look| look.ok().flatten()).collect();
    let own = host::claimant();
    match judge(&seen, &own, false) {
        Verdict::Held(claim) => Err(refused(object, &Refusal::held(claim, &own))),
        Verdict::Free | Verdict::Lapse | Verdict::Watch(_) => Ok(()),
    }
}

fn refused(object: &str, refusal: &Refusal) -> Failure {
    explain::refusal(object, refusal, wall_clock::now_secs())
}

/// What comes of `work`, unless somebody else has the drives before it is over: it would wait for
/// ever then.
pub(crate) async fn while_held<T>(
    hold: Option<&Hold>,
    object: &str,
    work: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    let Some(hold) = hold else { return work.await };
    match select(pin!(work), pin!(hold.until_lost())).await {
        Either::Left((done, _)) => done,
        Either::Right((claim, _)) => Err(explain::taken_over(object, &claim)),
    }
}

/// An open pool, and what keeps others from opening it. A pool in memory needs nothing.
#[derive(Clone)]
pub(crate) struct Held {
    pub pool: Pool,
    pub hold: Option<Hold>,
    /// Of one that is served.
    pub room: Option<Room>,
    pub waits: ClientWaits,
}

/// How long requests of a pool's clients wait, and for what.
#[derive(Clone)]
pub(crate) struct ClientWaits {
    env: UringEnv,
    waits: Waits,
}

impl ClientWaits {
    pub fn new(env: &UringEnv) -> ClientWaits {
        ClientWaits { env: env.clone(), waits: Waits::default() }
    }

    /// The client whose task calls this has opened a volume of the pool: its requests count.
    pub fn count(&self) {
        self.env.count_waits(&self.waits);
    }

    fn view(&self) -> Vec<view::Wait> {
        view::Wait::all(&self.waits.summary(self.env.now()))
    }
}

impl Held {
    /// The pool, what its clients wait for, and whether its drives lack room.
    pub fn view(&self) -> view::Pool {
        let view = view::Pool { waits: self.waits.view(), ..self.pool.view() };
        match self.room.as_ref().and_then(Room::lacking) {
            Some(short) if view.state != Health::Failed => view::Pool {
                state: Health::Degraded,
                reason: Some(no_room(&short)),
                action: Some("make room: it goes on by itself then".to_owned()),
                ..view
            },
            _ => view,
        }
    }

    pub async fn close(&self) -> Outcome<()> {
        let object = format!("pool {}", self.pool.name());
        let close = while_held(self.hold.as_ref(), &object, self.pool.close());
        match &self.hold {
            Some(hold) => hold.release_after(close).await,
            None => close.await,
        }
    }
}
