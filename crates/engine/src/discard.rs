//! Proactive TRIM: drives are told which stripes hold nothing any more, so that their garbage
//! collection has less to move (an untold drive keeps copying what we know is dead).
//!
//! ```text
//!  limbo ──> free ──> queue ──> discarding ──> discards on its drives ──> free
//!             │└─ taken meanwhile: passed over  │ (nobody is given it)
//!             └───────── walk ──────────────────┘
//! ```
//! A free stripe is one whose death the journal has published: nothing on the drives refers to
//! it, whatever a crash leaves, so what its blocks hold does not matter to anybody. What drives
//! were told is not remembered: once the queue is empty a walk tells them of everything that is
//! free in zones, after the pool was opened and after the queue was too short. Zones of no class
//! are left out: `create` tells of all, and what a zone held was told when it died.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use format::StripeId;
use futures_util::future::select;
use io::{Env, Nanos, join_all};
use layout::DriveIndex;

use crate::limits::{
    DISCARD_BYTES_PER_SEC, DISCARD_LOOK_MAX, DISCARD_QUEUE_MAX, DISCARD_STRIPES_AT_ONCE,
    DISCARD_WALK_BYTES_PER_SEC,
};
use crate::shard::Shard;
use crate::space::discards::Walk;

pub struct Discards {
    enabled: bool,
    /// Stripes that became free, oldest first. Some are in use again, or free for another class.
    queue: RefCell<VecDeque<StripeId>>,
    /// How far the walk is; `None` when it is over.
    walk: Cell<Option<Walk>>,
    bytes: Cell<u64>,
}

impl Discards {
    pub fn new(enabled: bool) -> Discards {
        let walk = Cell::new(enabled.then(Walk::default));
        Discards { enabled, queue: RefCell::default(), walk, bytes: Cell::new(0) }
    }

    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// These became free. When the queue is full the oldest are forgotten, and a walk finds those
    /// that are not in use again.
    pub fn note(&self, freed: &[StripeId]) {
        if !self.enabled {
            return;
        }
        let mut queue = self.queue.borrow_mut();
        queue.extend(freed);
        let excess = queue.len().saturating_sub(DISCARD_QUEUE_MAX);
        if excess > 0 {
            queue.drain(..excess);
            self.walk.set(Some(Walk::default()));
        }
    }

    fn is_done(&self) -> bool {
        self.queue.borrow().is_empty() && self.walk.get().is_none()
    }

    /// Bytes that drives were told of.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }
}

/// What each drive is told, ascending: (offset, length).
type Ranges = BTreeMap<DriveIndex, Vec<(u64, u64)>>;

impl<E: Env> Shard<E> {
    pub async fn discard_task(&self) {
        while !self.stopping() {
            self.pause().await;
            while !self.stopping() && self.discard_batch().await {}
        }
    }

    /// Tells drives of some stripes; false when there is nothing to tell just now.
    async fn discard_batch(&self) -> bool {
        if self.discards.is_done() || self.is_free_space_low() {
            return false;
        }
        let started = self.env.now();
        let group = self.pace(|| self.queue_of(self.array.indexes())).await;
        let most = match self.discards.queue.borrow().is_empty() {
            true => DISCARD_WALK_BYTES_PER_SEC,
            false => DISCARD_BYTES_PER_SEC,
        };
        let held = self.hold_free();
        let ranges = self.ranges_of(&held);
        join_all(ranges.iter().map(|(&drive, ranges)| self.discard_ranges(drive, ranges))).await;
        drop(group);
        {
            let mut state = self.state.borrow_mut();
            held.iter().for_each(|&stripe| state.space.discard_end(stripe));
        }
        self.space_freed.notify_all();
        let bytes = |ranges: &Vec<(u64, u64)>| ranges.iter().map(|range| range.1).sum::<u64>();
        self.discards.bytes.set(self.discards.bytes() + ranges.values().map(bytes).sum::<u64>());
        let told = ranges.values().map(bytes).max().unwrap_or(0);
        let until = started + Nanos(told * 1_000_000_000 / most);
        while !self.stopping() && self.env.now() < until {
            let tick = Box::pin(self.env.sleep_until(until));
            select(Box::pin(self.pacer.woken()), tick).await;
        }
        self.env.yield_now().await;
        true
    }

    /// Where making space has begun, or is about to, free stripes are taken again soon: telling
    /// the drives is not worth keeping one from a writer.
    fn is_free_space_low(&self) -> bool {
        let classes = self.state.borrow().space.classes().map(|class| class.id).collect::<Vec<_>>();
        classes.into_iter().any(|id| {
            let facts = self.facts(id);
            facts.starved
                || facts.free < policy::background::low(&facts) + DISCARD_STRIPES_AT_ONCE as u64
        })
    }

    /// The next stripes of the queue that are free, which nobody is given until they are told.
    fn hold_free(&self) -> Vec<StripeId> {
        let mut held = Vec::new();
        for _ in 0..DISCARD_LOOK_MAX {
            if held.len() == DISCARD_STRIPES_AT_ONCE || self.is_free_space_low() {
                break;
            }
            let queued = self.discards.queue.borrow_mut().pop_front();
            match queued {
                Some(stripe) if self.state.borrow_mut().space.discard_begin(stripe) => {
                    held.push(stripe);
                }
                Some(_) => {}
                None => match self.walk_on() {
                    Some(stripe) => held.push(stripe),
                    None => break,
                },
            }
        }
        held
    }

    /// The next free stripe of the walk, if one is under way.
    fn walk_on(&self) -> Option<StripeId> {
        let mut walk = self.discards.walk.take()?;
        let next = self.state.borrow_mut().space.discard_next(&mut walk);
        self.discards.walk.set(next.map(|_| walk));
        next
    }

    fn ranges_of(&self, stripes: &[StripeId]) -> Ranges {
        let state = self.state.borrow();
        let block = u64::from(self.geometry.block_size);
        let mut found = Ranges::new();
        for &stripe in stripes {
            let class = state.space.class_of_zone(stripe.zone).expect("held stripes keep a zone");
            for position in 0..class.width() {
                let at = self.geometry.address(class, stripe, position);
                found.entry(at.drive).or_default().push((at.offset, block));
            }
        }
        found.values_mut().for_each(join_neighbours);
        found
    }

    /// One after another: a drive has at most one discard at a time.
    async fn discard_ranges(&self, drive: DriveIndex, ranges: &[(u64, u64)]) {
        for &(offset, len) in ranges {
            // A drive that fails this holds what it held, which nobody reads.
            let _ = self.array.discard(drive, offset, len).await;
        }
    }

    /// Bytes that died and drives have not been told of, at most.
    pub fn discard_pending(&self) -> u64 {
        let state = self.state.borrow();
        let bytes = |stripe: &StripeId| {
            let width = state.space.class_of_zone(stripe.zone).map_or(0, |class| class.width());
            width as u64 * u64::from(self.geometry.block_size)
        };
        self.discards.queue.borrow().iter().map(bytes).sum()
    }
}

fn join_neighbours(ranges: &mut Vec<(u64, u64)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let touches = before.0 + before.1 == next.0;
        before.1 += if touches { next.1 } else { 0 };
        touches
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_told_as_one() {
        let mut ranges = vec![(64, 32), (0, 32), (128, 32), (32, 32), (192, 32), (160, 32)];
        join_neighbours(&mut ranges);
        assert_eq!(ranges, [(0, 96), (128, 96)]);
    }

    #[test]
    fn the_queue_forgets_the_oldest_and_a_walk_finds_them() {
        let discards = Discards::new(true);
        discards.walk.set(None);
        let stripe = |index| StripeId { zone: 0, index };
        let all: Vec<StripeId> = (0..DISCARD_QUEUE_MAX as u32 + 3).map(stripe).collect();
        all.chunks(1000).for_each(|some| discards.note(some));
        let queue = discards.queue.borrow();
        assert_eq!((queue.len(), queue.front()), (DISCARD_QUEUE_MAX, Some(&stripe(3))));
        assert!(discards.walk.get().is_some());
        let off = Discards::new(false);
        off.note(&all);
        assert!(off.is_done());
    }
}
