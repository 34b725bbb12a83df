//! A new drive in the place of a lost one (LDM §3.5).
//!
//! ```text
//!   log drive       the other one ── destaged ──► array, which takes all writes meanwhile
//!                                 └─ copied ────► new drive         a piece of each at a time
//!   data drive      others ── solved ──► new drive;   the log takes all writes meanwhile
//!   parity drive    (shared) first its half of the log, which is short, then the parity:
//!                   so that writes are the log's soon, and leave the parity's rebuild alone
//! ```
//! The arrays count it as lost until all of it is durable. A crash in between means to begin again,
//! and is to what was being written as a crash in which a drive is lost.

use classical::{Array, Grid, label};
use format::{MemberState, Superblock, Uuid};
use io::sync::Turn;
use io::{Drive, Env};

use super::LogMirror;
use super::store::Inner;
use crate::ages;
use crate::part::{Part, PartEnv};
use crate::set::{self, Set};
use crate::store::{Replace, Restoring, Store, StoreError};

/// An array, and the place in it of a drive of the set.
struct Share<'a, E: Env> {
    array: &'a Array<PartEnv<E>>,
    at: usize,
    part: Option<Part>,
}

impl<E: Env> LogMirror<E> {
    /// Gives the place of a lost drive to a new one. [`Store::work`] fills it.
    pub async fn replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let _turn = inner.replace_turn.lock().await;
        let refuse = |hint| {
            let what = format!("drive {} in place {place}", new.name());
            Err(StoreError::Shape { what, hint })
        };
        let lost = self.lost();
        if !lost.contains(&place) {
            return refuse("nothing is lost there");
        }
        if inner.rebuilding.get().is_some() {
            return refuse("another drive is being rebuilt: wait until that is done");
        }
        let mut next = inner.set.borrow().with(&inner.env, place, new.clone())?;
        lost.into_iter().filter(|at| *at != place).for_each(|at| next.forget(at));
        let shares = inner.shares(&next, place);
        let needed = |share: &Share<E>| !share.is_lost() && Store::margin(share.array) == 0;
        if shares.iter().any(needed) {
            return refuse("others are lost, and the old one still serves: replace them first");
        }
        let name = new.name();
        let named = set::is_named(&inner.set, place, &new).await;
        label::wipe(&new).await.map_err(|_| StoreError::NotWritten { name })?;
        let mut lacks = Vec::with_capacity(shares.len());
        for Share { array, at, part } in &shares {
            // A shared drive may have failed for one of its arrays only.
            if !array.lost().contains(at) {
                array.write_off(*at).await?;
            }
            let part = part.as_ref().expect("the new drive is there");
            array.check_replacement(*at, part)?;
            lacks.push(set::lacks(named, (array, *at), part).await);
            array.blank(*at, part).await?;
        }
        next.write_labels().await?;
        for (Share { array, at, part }, lacks) in shares.into_iter().zip(lacks) {
            array.replace_lacking(at, part.expect("the new drive is there"), lacks)?;
        }
        *inner.set.borrow_mut() = next;
        inner.rebuilding.set(Some(place));
        Ok(())
    }

    /// The labels of the set say how new each array is.
    pub(super) async fn tell_ages(&self) {
        let inner = &*self.inner;
        let _turn = inner.replace_turn.lock().await;
        let ages = ages::of_all([&inner.array, &inner.mirror]).await;
        ages::tell(&inner.set, &ages, &self.lost()).await;
    }

    /// The same after a loss.
    pub(super) async fn tell_losses(&self) {
        if !self.lost().is_empty() {
            self.tell_ages().await;
        }
    }

    async fn tell_state(&self, place: usize, state: MemberState) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let _turn = inner.replace_turn.lock().await;
        let Some(mut next) = inner.set.borrow().with_state(place, state) else { return Ok(()) };
        self.lost().into_iter().for_each(|at| next.forget(at));
        next.write_labels().await?;
        *inner.set.borrow_mut() = next;
        Ok(())
    }
}

impl<E: Env> Replace for LogMirror<E> {
    type Drive = E::Drive;

    fn bears(&self, place: usize) -> bool {
        let shares = self.inner.shares(&self.inner.set.borrow(), place);
        shares.iter().all(|share| share.array.bears(share.at))
    }

    async fn write_off(&self, place: usize) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let shares = inner.shares(&inner.set.borrow(), place);
        for Share { array, at, .. } in shares {
            array.write_off(at).await?;
        }
        let restoring = inner.set.borrow().is_restoring(place);
        if restoring { self.tell_state(place, MemberState::Failed).await } else { Ok(()) }
    }

    async fn replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
        LogMirror::replace(self, place, new).await
    }

    fn restoring(&self) -> Vec<Restoring> {
        let Some(place) = self.inner.rebuilding.get() else { return Vec::new() };
        let shares = self.inner.shares(&self.inner.set.borrow(), place);
        let (mut left, mut all) = (0, 0);
        for Share { array, at, .. } in shares.iter().filter(|share| share.is_lost()) {
            let Grid { rows, chunk, .. } = array.grid();
            let (rows_left, of) = array.rows_left(*at).unwrap_or((rows, rows));
            left += rows_left * chunk;
            all += of * chunk;
        }
        vec![Restoring { place, left, all }]
    }

    fn hold(&self, held: bool) {
        self.inner.held.set(held);
    }

    fn label_turn(&self, _place: usize) -> Turn {
        self.inner.replace_turn.clone()
    }

    async fn relist(&self, place: usize, drive: Uuid) -> Result<Superblock, StoreError> {
        set::relist(&self.inner.set, place, drive, &self.lost()).await
    }

    async fn tell_whole(&self, place: usize) -> Result<(), StoreError> {
        let restoring = self.inner.set.borrow().is_restoring(place);
        if restoring { self.tell_state(place, MemberState::Active).await } else { Ok(()) }
    }
}

impl<E: Env> Share<'_, E> {
    fn is_lost(&self) -> bool {
        self.array.lost().contains(&self.at)
    }
}

impl<E: Env> Inner<E> {
    /// What a drive of this set has a share in, what is rebuilt first before the other.
    fn shares(&self, set: &Set<E::Drive>, place: usize) -> Vec<Share<'_, E>> {
        let (log, array) = (self.shape.log(set.len()), self.shape.array(set.len()));
        let in_log = log.contains(&place).then(|| Share {
            array: &self.mirror,
            at: place - log.start,
            part: self.shape.log_part(set, place),
        });
        let in_array = array.contains(&place).then(|| Share {
            array: &self.array,
            at: place,
            part: self.shape.array_part(set, place),
        });
        in_log.into_iter().chain(in_array).collect()
    }

    /// Some rows of the new drive. False: there is none to fill.
    pub async fn rebuild_some(&self) -> bool {
        let Some(place) = self.rebuilding.get().filter(|_| !self.held.get()) else {
            return false;
        };
        let shares = self.shares(&self.set.borrow(), place);
        let more = |share: &&Share<E>| share.array.rebuilt(share.at).is_some();
        let Some(Share { array, at, .. }) = shares.iter().find(more) else {
            self.rebuilding.set(None);
            return false;
        };
        // If it fails the new drive is lost again, or too many others are; requests tell.
        let done = array.rebuild_some(*at).await;
        if done.is_err() || !shares.iter().any(|share| more(&share)) {
            self.rebuilding.set(None);
            let whole = !shares.iter().any(Share::is_lost);
            self.see(|seen| seen.rebuilt_drives += u64::from(whole));
        }
        true
    }
}
