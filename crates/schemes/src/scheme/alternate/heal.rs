//! Pages that a replica can't give are had from another one, and written again.
//!
//! ```text
//!   replica A  [ . . x . ]  a read, a scrub or a batch misses x ── nobody else has the turn ──┐
//!   replica B  [ . . x . ]     written, durable: B's x, over it what A has had of the cache ◄──┘
//!              no replica has it: lost
//! ```
//! What is not in the cache is the same on all that are whole. What B has had of it and A has not
//! lies in ranges that B's log tells of, so a crash leaves both the same.

use std::rc::Rc;

use classical::{Health, Missed, Note};
use futures_util::future::LocalBoxFuture;
use io::{Buf, BufMut, Env};

use super::Inner;
use super::cache::Entry;
use super::replica::Replica;
use crate::care::{Kept, Step};
use crate::log::record::PAGE;

/// Pages seen to while nobody else has the turn: a change of roles waits no longer than that.
const AT_ONCE: usize = 16;

impl<E: Env> Inner<E> {
    /// Looks after the pages that replicas have missed.
    pub async fn heal(&self) {
        for (side, replica) in self.whole() {
            self.heal_on(side, &replica).await;
        }
    }

    /// The pages of one replica; how many of them it has again.
    async fn heal_on(&self, side: usize, replica: &Replica<E>) -> u64 {
        let mut healed = 0;
        let all = replica.array.take_missed();
        for some in all.chunks(AT_ONCE) {
            let _turn = self.turn.lock().await;
            healed += self.heal_pages(side, replica, some).await;
        }
        healed
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
        let own = missed.at.checked_sub(self.base).filter(|at| at + PAGE <= self.size);
        let Some(offset) = own else {
            // Of the log, or of the page that says what it is: those are each replica's own.
            replica.array.tell_missed(missed.clone(), false);
            return false;
        };
        let repaired = match self.on_others(side, missed.at).await {
            Some(page) => {
                let page = self.with_applied(side, offset, &page);
                replica.array.write(missed.at, page, true).await.is_ok()
            }
            None => false,
        };
        replica.array.tell_missed(missed.clone(), repaired);
        repaired
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
            let (mut found, next) = self.replica.array.scrub_some(step).await?;
            if found.lost > 0
                && let Some(side) = self.side()
            {
                let healed = self.inner.heal_on(side, &self.replica).await.min(found.lost);
                found.lost -= healed;
                found.repaired += healed;
            }
            Ok((found, next))
        })
    }
}
