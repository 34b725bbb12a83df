//! Pages that a replica can't give are had from another one, and written again.
//!
//! ```text
//!   replica A  [ . . x . ]  a read, a scrub or a batch misses x ── nobody else has the turn ──┐
//!   replica B  [ . . x . ]     written, durable: B's x, over it what A has had of the cache ◄──┘
//!              no replica has it: lost
//! ```
//! A replica's own pages, of its log and of what says what it is, no other has: they are written
//! anew, with all in place, when no record of the log is needed.
//!
//! What is not in the cache is the same on all that are whole. What B has had of it and A has not
//! lies in ranges that B's log tells of, so a crash leaves both the same.

use std::rc::Rc;

use classical::{Health, Missed, Note};
use futures_util::future::LocalBoxFuture;
use io::{Buf, BufMut, Env};

use super::Inner;
use super::cache::Entry;
use super::replica::{Replica, kept_place, page_place};
use super::turns::Turned;
use crate::care::{Kept, Step};
use crate::log::record::PAGE;
use crate::store::StoreError;

/// Pages seen to while nobody else has the turn: a change of roles waits no longer than that.
const AT_ONCE: usize = 16;

impl<E: Env> Inner<E> {
    /// Looks after the pages that replicas have missed.
    pub async fn heal(&self) {
        let sides = self.replicas.borrow().len();
        for side in 0..sides {
            // Held no longer than that: who takes a lost one's place waits until nobody has it.
            if self.alive.get()[side] {
                self.heal_on(side, &self.replica(side)).await;
            }
        }
    }

    /// The pages of one replica.
    async fn heal_on(&self, side: usize, replica: &Replica<E>) {
        let _turn = self.heal_turn.lock().await;
        let all = replica.array.take_missed();
        if all.iter().any(|missed| self.offset_of(missed).is_none()) {
            // What fails here fails for requests, too.
            let _ = self.settle().await;
        }
        for some in all.chunks(AT_ONCE) {
            let _turn = self.turn.lock().await;
            if !self.alive.get()[side] {
                break;
            }
            self.heal_pages(side, replica, some).await;
        }
    }

    /// The same for who has the turn.
    pub async fn heal_with_turn(&self, side: usize) -> u64 {
        let replica = self.replica(side);
        let all = replica.array.take_missed();
        self.heal_pages(side, &replica, &all).await
    }

    async fn heal_pages(&self, side: usize, replica: &Replica<E>, all: &[Missed]) -> u64 {
        let mut healed = 0;
        for missed in all {
            healed += u64::from(self.heal_page(side, replica, missed).await);
        }
        self.see(|seen| seen.healed_pages += healed);
        healed
    }

    async fn heal_page(&self, side: usize, replica: &Replica<E>, missed: &Missed) -> bool {
        let repaired = match self.offset_of(missed) {
            Some(offset) => match self.on_others(side, missed.at).await {
                Some(page) => {
                    let page = self.with_applied(side, offset, &page);
                    replica.array.write(missed.at, page, true).await.is_ok()
                }
                None => false,
            },
            None => self.renew(side, replica, missed.at).await.unwrap_or(false),
        };
        replica.array.tell_missed(missed.clone(), repaired);
        repaired
    }

    /// Where it lies in the data, if it is of that.
    fn offset_of(&self, missed: &Missed) -> Option<u64> {
        missed.at.checked_sub(self.base).filter(|at| at + PAGE <= self.size)
    }

    /// All that is in the cache now is in place, and the logs are as empty as they get.
    async fn settle(&self) -> Result<(), StoreError> {
        let newest = self.cache.borrow().newest();
        let lacks = |(side, _): &(usize, _)| self.applied.get()[*side] < newest;
        while self.living().iter().any(lacks) && self.turn(true).await? == Turned::Worked {}
        let _turn = self.turn.lock().await;
        self.trim(true).await
    }

    /// A page of the replica's own can't be read any more. True: it can again.
    async fn renew(&self, side: usize, replica: &Replica<E>, at: u64) -> Result<bool, StoreError> {
        let size = replica.array.size();
        if [0, 1].map(|place| page_place(size, place)).contains(&at) {
            let _turn = self.page_turn.lock().await;
            // Each goes to the other place.
            self.write_page(side, |_| ()).await?;
            self.write_page(side, |_| ()).await?;
            return Ok(true);
        }
        if self.keeps && (kept_place(self.base, 1)..self.base).contains(&at) {
            self.kept.borrow_mut().renew();
            self.keep().await?;
            return Ok(true);
        }
        replica.renew(at).await
    }

    /// A page of another replica with what this one has had of the cache.
    fn with_applied(&self, side: usize, offset: u64, page: &[u8]) -> Buf {
        let (cache, mut whole) = (self.cache.borrow(), BufMut::from_slice(page));
        for Entry { offset: start, data, .. } in cache.entries(0, self.applied.get()[side]) {
            let end = start + data.len() as u64;
            let (from, to) = (offset.max(*start), (offset + PAGE).min(end));
            if from < to {
                let bytes = &data[(from - start) as usize..(to - start) as usize];
                whole[(from - offset) as usize..(to - offset) as usize].copy_from_slice(bytes);
            }
        }
        whole.freeze()
    }

    async fn on_others(&self, side: usize, at: u64) -> Option<Buf> {
        for (other, replica) in self.whole() {
            if other != side
                && let Ok(page) = replica.array.read(at, PAGE).await
            {
                return Some(page);
            }
        }
        None
    }
}

/// A replica under scrub: what its own drives can't give the others do.
struct Healed<E: Env> {
    inner: Rc<Inner<E>>,
    replica: Rc<Replica<E>>,
}

pub fn kept<E: Env>(inner: Rc<Inner<E>>, replica: Rc<Replica<E>>) -> Box<dyn Kept> {
    Box::new(Healed { inner, replica })
}

impl<E: Env> Healed<E> {
    /// Its number, if it is whole and still the one that is used.
    fn side(&self) -> Option<usize> {
        let whole = self.inner.whole().into_iter();
        whole.filter(|(_, own)| Rc::ptr_eq(own, &self.replica)).map(|(side, _)| side).next()
    }
}

impl<E: Env> Kept for Healed<E> {
    fn has_sums(&self) -> bool {
        self.replica.array.has_sums()
    }

    fn health(&self) -> Health {
        self.replica.array.health()
    }

    fn take_notes(&self) -> Vec<Note> {
        self.replica.array.take_notes()
    }

    fn scrub_bytes(&self) -> u64 {
        self.replica.array.scrub_bytes()
    }

    fn scrub_some(&self, step: u64) -> LocalBoxFuture<'_, Step> {
        Box::pin(async move {
            let before = self.replica.array.health().repaired;
            let (mut found, next) = self.replica.array.scrub_some(step).await?;
            if found.lost > 0
                && let Some(side) = self.side()
            {
                self.inner.heal_on(side, &self.replica).await;
                // Whoever looks after replicas beside may have seen to some of them.
                drop(self.inner.turn.lock().await);
                let repaired = self.replica.array.health().repaired - before;
                let healed = repaired.saturating_sub(found.repaired).min(found.lost);
                found.lost -= healed;
                found.repaired += healed;
            }
            Ok((found, next))
        })
    }
}
