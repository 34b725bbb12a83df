//! Background tasks of a shard: making space, and keeping the journal short.
//!
//! Tasks of their own, because the first needs room in the journal that only the second can make,
//! and neither may wait for a drive that is slow to forget:
//! * space: converts, compacts, merges, flushes dead stripes free (`policy::background` says
//!   what and when);
//! * sync: flushes what has been unflushed for a while, checkpoints when the journal fills;
//! * discard: tells drives what is free (`discard`).
//!
//! All of them ask `pacer` before they use the drives.

use std::rc::Rc;

use format::{ClassId, Record, StripeId};
use futures_util::future::{Either, select};
use io::Env;
use io::slice::{self, Work};
use policy::background::{Facts, Work as Step, next_work};

use crate::api::{ConversionPolicy, RequestError};
use crate::geometry::Class;
use crate::limits::{
    BACKGROUND_INTERVAL, CHECKPOINT_AT_PERCENT, COMPACT_BATCH, CONVERT_BATCH, PATCH_MERGE_PERCENT,
    RESERVE_STRIPES, SYNC_INTERVAL,
};
use crate::shard::Shard;

impl<E: Env> Shard<E> {
    /// Facts about a class for the policy.
    pub fn facts(&self, id: ClassId) -> Facts {
        let state = self.state.borrow();
        let class = state.space.class(id);
        let width = class.width() as u64;
        let (replicated, _, limbo, _) = state.space.blocks();
        Facts {
            free: state.space.free_stripes(id),
            total: class.stripes(),
            limbo: limbo / width,
            replicated: replicated / width,
            replicated_percent: state.settings.replicated_percent,
            eager: state.settings.conversion == ConversionPolicy::Eager,
            reserve: RESERVE_STRIPES,
            starved: self.waiting.get() > 0,
        }
    }

    pub fn start_background(self: &Rc<Self>) {
        let space = self.clone();
        self.spawn_task(Work::Compaction, async move { space.space_task().await });
        let sync = self.clone();
        self.spawn_task(Work::Checkpoint, async move { sync.sync_task().await });
        if self.discards.is_enabled() {
            let discards = self.clone();
            self.spawn_task(Work::Discard, async move { discards.discard_task().await });
        }
    }

    pub fn spawn_task(self: &Rc<Self>, work: Work, task: impl Future<Output = ()> + 'static) {
        self.tasks.set(self.tasks.get() + 1);
        let shard = self.clone();
        self.env.spawn(async move {
            slice::of(work, task).await;
            shard.tasks.set(shard.tasks.get() - 1);
            shard.closed.notify_all();
        });
    }

    /// Stops the background tasks and waits for them.
    pub async fn stop_background(&self) {
        self.closing.set(true);
        self.pacer.wake();
        while self.tasks.get() > 0 {
            self.work.notify_all();
            self.space_freed.notify_all();
            self.closed.wait().await;
        }
    }

    pub fn stopping(&self) -> bool {
        self.closing.get() || self.failure.borrow().is_some()
    }

    /// Until there may be work, or a tick has passed.
    pub async fn pause(&self) {
        let tick = self.env.sleep_until(self.env.now() + BACKGROUND_INTERVAL);
        let event = self.work.wait();
        match select(Box::pin(event), Box::pin(tick)).await {
            Either::Left(_) | Either::Right(_) => {}
        }
    }

    async fn space_task(&self) {
        while !self.stopping() {
            self.pause().await;
            if self.stopping() {
                break;
            }
            self.tell_pressure();
            self.tell_mended(false);
            self.trim_spare();
            // A failed step has set `failure`, or will be tried again at the next tick.
            let _ = self.make_space().await;
        }
        self.space_over.set(true);
    }

    async fn make_space(&self) -> Result<(), RequestError> {
        self.release_limbo();
        let classes: Vec<Rc<Class>> = self.state.borrow().space.classes().cloned().collect();
        for class in classes {
            while self.step(&class).await? && !self.stopping() {
                if self.journal.fill_percent() >= CHECKPOINT_AT_PERCENT {
                    self.work.notify_all();
                }
                self.tell_pressure();
                self.env.yield_now().await;
            }
            self.drain_for(&class).await?;
        }
        self.rebalance_step().await?;
        self.merge_crowded().await
    }

    /// Gives a class that has run out of stripes a zone of a class that can spare one, by
    /// moving everything out of it. Returns true if a zone came free.
    async fn drain_for(&self, class: &Rc<Class>) -> Result<bool, RequestError> {
        let Some((zone, owner)) = self.choose_drain(class.id) else { return Ok(false) };
        self.drain(zone, owner).await
    }

    /// Moves what is in a zone elsewhere, a batch of it if nobody waits for that, and gives it back
    /// when it is empty. Returns true if it came free.
    pub async fn drain(&self, zone: u32, owner: Rc<Class>) -> Result<bool, RequestError> {
        self.state.borrow_mut().space.zone_drain(zone);
        self.seal_open(owner.id);
        let (mut stripes, tuples) = self.state.borrow_mut().space.zone_contents(zone);
        if self.state.borrow().settings.rebalance && self.waiting.get() == 0 {
            stripes.truncate(COMPACT_BATCH);
        }
        let held = self.state.borrow().space.zone_held(zone);
        for (class, victims) in self.by_class(tuples.iter().chain(&stripes)) {
            self.vacate_stripes(&class, &victims).await?;
        }
        {
            let mut state = self.state.borrow_mut();
            for key in tuples {
                state.space.tuple_release_busy(key, self.journal.latest(), self.reads.close());
            }
        }
        self.flush_limbo().await?;
        let emptied = || self.state.borrow_mut().space.zone_emptied(zone, self.journal.latest());
        let Some(spoken_of) = emptied() else {
            // With nowhere to move the rest to, its class needs what is free in it (world 30415).
            let mut state = self.state.borrow_mut();
            if state.space.zone_held(zone) >= held {
                state.space.zone_keep(zone);
                drop(state);
                self.space_freed.notify_all();
            }
            return Ok(false);
        };
        // What a record says of a place depends on the zone's class. As long as replay may begin
        // with records of what the zone held, it keeps the class that they mean (world 10365).
        if !self.journal.is_forgotten(spoken_of) && self.journal.settled() >= spoken_of {
            self.write_checkpoint(false).await?;
        }
        if !self.journal.is_forgotten(spoken_of) || emptied().is_none() {
            return Ok(false);
        }
        self.journal.append(&Record::Zone { zone, class: None, round: 0 });
        let mut state = self.state.borrow_mut();
        state.space.zone_release(zone);
        state.sums.forget_zone(zone);
        drop(state);
        self.space_freed.notify_all();
        Ok(true)
    }

    fn by_class<'a>(
        &self,
        stripes: impl Iterator<Item = &'a StripeId>,
    ) -> Vec<(Rc<Class>, Vec<StripeId>)> {
        let state = self.state.borrow();
        let mut found: Vec<(Rc<Class>, Vec<StripeId>)> = Vec::new();
        for &stripe in stripes {
            let class = state.space.class_of_zone(stripe.zone).expect("stripes lie in zones");
            match found.iter_mut().find(|(known, _)| known.id == class.id) {
                Some((_, some)) => some.push(stripe),
                None => found.push((class.clone(), vec![stripe])),
            }
        }
        found
    }

    fn choose_drain(&self, starved: ClassId) -> Option<(u32, Rc<Class>)> {
        let state = self.state.borrow();
        let short = state.space.free_stripes(starved) <= RESERVE_STRIPES;
        let needed = state.volumes.values().any(|volume| volume.class == starved);
        let begun = state.space.zone_draining();
        let wanted = || state.space.zone_to_drain(starved).filter(|_| short && needed);
        let zone = begun.or_else(wanted)?;
        Some((zone, state.space.class_of_zone(zone)?.clone()))
    }

    /// One piece of work for a class; false when there is none, or none that gains anything.
    async fn step(&self, class: &Rc<Class>) -> Result<bool, RequestError> {
        let convertible = self.state.borrow().space.tuple_count() > 0;
        let mut facts = self.facts(class.id);
        // What gains nothing (no tuple at rest, nothing dead that can be freed yet) must not keep
        // us from the next best.
        if next_work(&facts, convertible, true) == Step::Flush {
            if self.flush_limbo().await? > 0 {
                return Ok(true);
            }
            facts = Facts { limbo: 0, ..self.facts(class.id) };
        }
        let mut work = next_work(&facts, convertible, true);
        if work == Step::Convert {
            if self.convert_batch().await? > 0 {
                return Ok(true);
            }
            work = next_work(&facts, false, true);
        }
        match work {
            Step::Rest | Step::Convert | Step::Flush => Ok(false),
            Step::Compact => {
                if self.compact_class(class).await? > 0 {
                    return Ok(true);
                }
                // Nothing with enough holes: the replicas are what can still shrink.
                let gained = convertible && self.convert_batch().await? > 0;
                if !gained && self.state.borrow().space.limbo_len() > 0 {
                    return Ok(self.flush_limbo().await? > 0);
                }
                if !gained && facts.starved && facts.free > facts.reserve {
                    self.exchange_stripe(class).await?;
                }
                Ok(gained)
            }
        }
    }

    /// Somebody waits although stripes are free: those may all have their data on one drive, and
    /// make no tuple. Moves a full stripe there, so that its place is free instead (world 31403).
    async fn exchange_stripe(&self, class: &Rc<Class>) -> Result<(), RequestError> {
        let draw = self.env.random();
        let stripe = self.state.borrow().space.any_raid_stripe(class.id, draw);
        let Some(stripe) = stripe else { return Ok(()) };
        self.vacate_stripes(class, &[stripe]).await?;
        self.flush_limbo().await.map(|_| ())
    }

    /// Merges blocks in too many pieces, and under memory pressure any patched blocks.
    async fn merge_crowded(&self) -> Result<(), RequestError> {
        loop {
            let mut blocks = {
                let mut state = self.state.borrow_mut();
                if state.map.crowded() > 0 { state.map.take_crowded() } else { Vec::new() }
            };
            if blocks.is_empty() {
                blocks = self.over_budget();
            }
            if blocks.is_empty() || self.stopping() {
                return Ok(());
            }
            for batch in blocks.chunks(CONVERT_BATCH) {
                // Merging kills pieces, not whole stripes: it must not eat the reserve that
                // compaction lives on.
                if !self.has_room_to_merge() {
                    return Ok(());
                }
                self.merge_blocks(batch).await?;
            }
        }
    }

    fn has_room_to_merge(&self) -> bool {
        let classes: Vec<ClassId> =
            self.state.borrow().space.classes().map(|class| class.id).collect();
        let room = |id| self.facts(id).free > RESERVE_STRIPES + CONVERT_BATCH as u64;
        classes.into_iter().all(room)
    }

    /// Patched blocks to merge because patches take more memory than they may: of a sample,
    /// those with the most pieces, which give back most for one block written.
    fn over_budget(&self) -> Vec<(format::VolumeId, u64)> {
        let mut state = self.state.borrow_mut();
        let merge_from = state.settings.patch_budget / 100 * PATCH_MERGE_PERCENT;
        if state.map.patches() * 10 <= merge_from {
            return Vec::new();
        }
        let mut hand = state.merge_hand;
        let mut sample = state.map.patched_sample(&mut hand, CONVERT_BATCH * 4);
        state.merge_hand = hand;
        sample.sort_by_key(|&(.., pieces)| std::cmp::Reverse(pieces));
        sample.truncate(CONVERT_BATCH);
        sample.into_iter().map(|(volume, block, _)| (volume, block)).collect()
    }

    /// Ends last: the other task may be waiting for room in the journal.
    async fn sync_task(&self) {
        let mut synced = self.env.now();
        while !self.space_over.get() {
            self.pause().await;
            if self.failure.borrow().is_some() {
                continue;
            }
            if self.journal.fill_percent() >= CHECKPOINT_AT_PERCENT {
                let _ = self.write_checkpoint(false).await;
                synced = self.env.now();
            }
            let due = self.env.now().saturating_sub(synced) >= SYNC_INTERVAL;
            if due && (self.journal.is_dirty() || self.array.is_any_dirty()) {
                let _ = self.flush().await;
                synced = self.env.now();
            }
        }
    }
}
