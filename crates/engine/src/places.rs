//! Places for what is written: slots of tuples, full stripes, round drives that are slow if it can
//! be helped (FusionRAID §4.3).

use std::rc::Rc;

use format::{ClassId, Record, StripeId};
use io::{Env, Nanos};
use layout::DriveIndex;
use smallvec::SmallVec;

use crate::attempt::Avoid;
use crate::geometry::{BlockAddress, Class};
use crate::limits::{
    HANG_AFTER, LANE_QUEUE, LANES_MAX, LANES_MIN, RESERVE_STRIPES, SPARE_BUILDS_MAX, SPARE_IDLE,
    SPARE_LOOKS_MAX, SPARE_MAX, SPARE_TUPLES_AT_REST, TUPLE_CANDIDATES,
};
use crate::planted::{self, Bug};
use crate::shard::{Claim, PackedSlot, Shard, Spot, State};
use crate::tuple::TupleKey;

impl<E: Env> Shard<E> {
    /// A place for `pages` pages of replicated data, if possible without slow drives and those to
    /// `avoid`. Whole blocks get a slot of their own, smaller writes share one; `hash` keeps
    /// neighbouring writes together.
    pub fn take_spot(
        &self,
        class: &Rc<Class>,
        pages: u16,
        hash: u64,
        claim: Claim,
        avoid: &Avoid,
    ) -> Option<Spot> {
        let mut state = self.state.borrow_mut();
        if pages == self.geometry.block_pages() {
            let (key, slot) = self.take_slot(&mut state, class, claim, avoid)?;
            let tuple = state.space.tuple_mut(key).expect("spare slots belong to open tuples");
            tuple.inflight += 1;
            tuple.filled[slot] = pages;
            return Some(self.spot(&state, class, key, slot, 0));
        }
        let (lane, quick) = self.choose_lane(&mut state, class, hash, pages, avoid);
        if !quick {
            self.replace_lane(&mut state, class, lane, claim, avoid);
        }
        let packed = self.packed_slot(&mut state, class, lane, pages, claim, avoid)?;
        let tuple = state.space.tuple_mut(packed.key).expect("packed slots belong to tuples");
        if !planted::is(Bug::ForgetPatch) {
            tuple.filled[packed.slot] = packed.next_page + pages;
        }
        Some(self.spot(&state, class, packed.key, packed.slot, packed.next_page))
    }

    /// Drives that a write had better go round (FusionRAID §4.3). Lost ones hold nobody up.
    pub fn is_shunned(&self, drive: DriveIndex, avoid: &Avoid) -> bool {
        let slow = |drive| {
            self.array.is_slow(drive)
                && (self.has_quick_drives() || self.is_silent_for(drive, HANG_AFTER))
        };
        self.array.is_active(drive) && (avoid.contains(&drive) || slow(drive))
    }

    /// Drives of a place that hang, and all that are avoided: the fewer, the better.
    fn slowness(&self, spot: &Spot, avoid: &Avoid) -> (usize, usize) {
        let hang = spot.targets.iter().filter(|at| self.array.monitor.hangs(at.drive));
        let shunned = spot.targets.iter().filter(|at| self.is_shunned(at.drive, avoid));
        (hang.count(), shunned.count())
    }

    /// How many drives there are to go round.
    pub fn slow_drives(&self, avoid: &Avoid) -> usize {
        self.array.indexes().filter(|&drive| self.is_shunned(drive, avoid)).count()
    }

    /// Enough drives are quick for the copies of a block. If not, slow ones are better than those
    /// that hang.
    fn has_quick_drives(&self) -> bool {
        let active = self.array.active();
        let quick = active.into_iter().filter(|&drive| !self.array.is_slow(drive)).count();
        quick >= self.journal.copies()
    }

    /// The drive has not answered something for so long.
    pub fn is_silent_for(&self, drive: DriveIndex, span: Nanos) -> bool {
        let oldest = self.array.monitor.watch(drive).borrow().oldest();
        oldest.is_some_and(|oldest| self.env.now().0.saturating_sub(oldest) >= span.0)
    }

    /// As many lanes as drives hold one of their blocks each.
    fn lanes(&self, class: &Class) -> usize {
        (self.geometry.drives / (class.parity() + 1)).clamp(LANES_MIN, LANES_MAX)
    }

    /// The lane of the hash, or the next one if its drives have less to do, unless its slot has a
    /// slow drive: then the next one with a slot that has none, or one whose slot is to be replaced
    /// anyway. Says whether there is one; if not, it is the least slow.
    fn choose_lane(
        &self,
        state: &mut State,
        class: &Rc<Class>,
        hash: u64,
        pages: u16,
        avoid: &Avoid,
    ) -> (usize, bool) {
        let wanted = self.lanes(class);
        let open = state.open.entry(class.id).or_default();
        // A pool that has lost drives keeps what it has open.
        let lanes = wanted.max(open.packed.len());
        open.packed.resize(lanes, None);
        let room = self.geometry.block_pages();
        let first = (hash % lanes as u64) as usize;
        let spot = |lane: usize| {
            let packed = state.open[&class.id].packed[lane];
            let packed = packed.filter(|packed| packed.next_page + pages <= room)?;
            Some(self.spot(state, class, packed.key, packed.slot, 0))
        };
        let is_quick =
            |spot: &Spot| !spot.targets.iter().any(|at| self.is_shunned(at.drive, avoid));
        match spot(first) {
            Some(own) if is_quick(&own) => {
                let (other, queue) = ((first + 1) % lanes, self.queue_at(&own));
                let shorter = |other: &Spot| is_quick(other) && self.queue_at(other) < queue;
                let change = queue > LANE_QUEUE && spot(other).as_ref().is_some_and(shorter);
                return (if change { other } else { first }, true);
            }
            // A new one is taken, which will be chosen with care.
            None => return (first, true),
            Some(_) => {}
        }
        let good = |lane: usize| spot(lane).as_ref().is_none_or(is_quick);
        self.count(|counters| counters.redirected_writes += 1);
        let all = || (0..lanes).map(|step| (first + step) % lanes);
        let found = all().find(|&lane| good(lane));
        let slowness = |lane: &usize| spot(*lane).map(|spot| self.slowness(&spot, avoid));
        let lane = found.or_else(|| all().min_by_key(slowness));
        (lane.unwrap_or(first), found.is_some())
    }

    /// Operations outstanding at the busiest drive of a slot.
    fn queue_at(&self, spot: &Spot) -> u32 {
        let queues = spot.targets.iter().map(|at| self.array.member(at.drive).outstanding());
        queues.max().unwrap_or(0)
    }

    /// Gives a lane a new slot if there is one that is less slow than its own.
    fn replace_lane(
        &self,
        state: &mut State,
        class: &Rc<Class>,
        lane: usize,
        claim: Claim,
        avoid: &Avoid,
    ) {
        let Some((key, slot)) = self.take_slot(state, class, claim, avoid) else { return };
        let slowness = |key, slot| self.slowness(&self.spot(state, class, key, slot, 0), avoid);
        let own = state.open[&class.id].packed[lane].map(|own| slowness(own.key, own.slot));
        let better = own.is_none_or(|own| slowness(key, slot) < own);
        let tuple = state.space.tuple_mut(key).expect("just taken");
        if !better {
            tuple.unhanded += 1;
            state.open.entry(class.id).or_default().spare.push_back((key, slot));
            return;
        }
        tuple.packing += 1;
        self.close_packed(state, class.id, lane);
        let open = state.open.entry(class.id).or_default();
        open.packed[lane] = Some(PackedSlot { key, slot, next_page: 0 });
    }

    fn packed_slot(
        &self,
        state: &mut State,
        class: &Rc<Class>,
        lane: usize,
        pages: u16,
        claim: Claim,
        avoid: &Avoid,
    ) -> Option<PackedSlot> {
        let room = self.geometry.block_pages();
        let open = state.open.entry(class.id).or_default();
        if let Some(packed) = open.packed[lane]
            && packed.next_page + pages <= room
        {
            let next_page = packed.next_page + pages;
            open.packed[lane] = Some(PackedSlot { next_page, ..packed });
            // Before the slot is closed: a tuple nobody writes to and with nothing live is dead.
            state.space.tuple_mut(packed.key).expect("packed slots belong to tuples").inflight += 1;
            if next_page == room {
                self.close_packed(state, class.id, lane);
            }
            return Some(packed);
        }
        let (key, slot) = self.take_slot(state, class, claim, avoid)?;
        let tuple = state.space.tuple_mut(key).expect("just taken");
        tuple.packing += 1;
        tuple.inflight += 1;
        self.close_packed(state, class.id, lane);
        let open = state.open.entry(class.id).or_default();
        open.packed[lane] = Some(PackedSlot { key, slot, next_page: pages });
        Some(PackedSlot { key, slot, next_page: 0 })
    }

    /// The packed slot of a lane takes no more pages.
    fn close_packed(&self, state: &mut State, class: ClassId, lane: usize) {
        let open = state.open.entry(class).or_default();
        let Some(packed) = open.packed[lane].take() else { return };
        let tuple = state.space.tuple_mut(packed.key).expect("packed slots belong to tuples");
        tuple.packing -= 1;
        state.space.tuple_check_dead(packed.key, self.journal.latest(), self.reads.close());
    }

    /// The next spare slot; builds a tuple when there is none. Slots on lost drives are passed
    /// over for good; those on slow drives go to the tail of the list (FusionRAID §4.3).
    fn take_slot(
        &self,
        state: &mut State,
        class: &Rc<Class>,
        claim: Claim,
        avoid: &Avoid,
    ) -> Option<(TupleKey, usize)> {
        let mut lost: SmallVec<[(TupleKey, usize); 16]> = SmallVec::new();
        let mut slow: SmallVec<[(TupleKey, usize); 16]> = SmallVec::new();
        let (mut looks, mut builds) = (0, 0);
        // With no room for more that are passed over, those would have to be used.
        if state.open.entry(class.id).or_default().spare.len() >= SPARE_MAX {
            self.take_back(state, class.id, SPARE_MAX / 2);
        }
        let chosen = loop {
            let open = state.open.entry(class.id).or_default();
            let crowded = open.spare.len() + slow.len() >= SPARE_MAX;
            // New tuples are at the end of the list; those passed over long ago are not.
            let next = if builds == 0 { open.spare.pop_front() } else { open.spare.pop_back() };
            let Some((key, slot)) = next.filter(|_| looks < SPARE_LOOKS_MAX) else {
                open.spare.extend(next);
                let searching = match slow.is_empty() {
                    true => lost.len() < SPARE_LOOKS_MAX,
                    false => builds < SPARE_BUILDS_MAX && !crowded,
                };
                if searching && self.build_tuple(state, class, claim, avoid).is_some() {
                    builds += usize::from(!slow.is_empty());
                    looks = SPARE_LOOKS_MAX.saturating_sub(class.data());
                    continue;
                }
                // A slow slot is better than none; so is one with a copy less, and better than
                // burying what was free.
                break self
                    .least_slow(state, class, &mut slow, avoid)
                    .or_else(|| self.least_lost(state, class, &mut lost, claim));
            };
            looks += 1;
            let spot = self.spot(state, class, key, slot, 0);
            let gone = self.gone_of(state, &spot);
            // A slot on a lost drive is passed over, as long as others may be better.
            let passes = lost.len() < 2 * self.geometry.drives;
            if gone > 0 && (passes || !self.may_use(state, class, &spot, claim)) {
                lost.push((key, slot));
            } else if spot.targets.iter().any(|at| self.is_shunned(at.drive, avoid)) {
                slow.push((key, slot));
            } else {
                break Some((key, slot));
            }
        };
        if !slow.is_empty() {
            self.count(|counters| counters.redirected_writes += 1);
        }
        state.open.entry(class.id).or_default().spare.extend(slow);
        if let Some((key, slot)) = chosen.filter(|_| state.space.substitutes.enabled)
            && self.gone_of(state, &self.spot(state, class, key, slot, 0)) > 0
        {
            self.expose();
        }
        for &(key, _) in lost.iter().chain(&chosen) {
            state.space.tuple_mut(key).expect("spare slots belong to tuples").unhanded -= 1;
        }
        for (key, _) in lost {
            // Not the tuple of the slot that is handed out: that one is about to be written.
            if chosen.is_none_or(|(other, _)| other != key) {
                state.space.tuple_check_dead(key, self.journal.latest(), self.reads.close());
            }
        }
        chosen
    }

    /// Takes the least slow slot, the longest passed over of equals.
    fn least_slow(
        &self,
        state: &State,
        class: &Rc<Class>,
        slow: &mut SmallVec<[(TupleKey, usize); 16]>,
        avoid: &Avoid,
    ) -> Option<(TupleKey, usize)> {
        let slowness = |&(key, slot): &(TupleKey, usize)| {
            self.slowness(&self.spot(state, class, key, slot, 0), avoid)
        };
        let best = (0..slow.len()).min_by_key(|&at| slowness(&slow[at]))?;
        Some(slow.remove(best))
    }

    fn gone_of(&self, state: &State, spot: &Spot) -> usize {
        spot.targets.iter().filter(|at| state.space.is_avoided(at.drive)).count()
    }

    /// Whether data may come to a slot that lacks copies.
    fn may_use(&self, state: &State, class: &Class, spot: &Spot, claim: Claim) -> bool {
        let gone = |at: &&BlockAddress| !self.array.is_whole(at.drive);
        match spot.targets.iter().filter(gone).count() {
            0 => true,
            gone => gone <= self.bears(class) && self.may_expose(state, claim),
        }
    }

    /// Takes the slot with the fewest lost drives, if it may be used.
    fn least_lost(
        &self,
        state: &State,
        class: &Rc<Class>,
        lost: &mut SmallVec<[(TupleKey, usize); 16]>,
        claim: Claim,
    ) -> Option<(TupleKey, usize)> {
        let spot = |at: usize| self.spot(state, class, lost[at].0, lost[at].1, 0);
        let usable = |&at: &usize| self.may_use(state, class, &spot(at), claim);
        let gone = |&at: &usize| (self.gone_of(state, &spot(at)), lost.len() - at);
        let best = (0..lost.len()).filter(usable).min_by_key(gone)?;
        Some(lost.remove(best))
    }

    /// Takes back every slot that was not written yet, so that the tuples of a class come to
    /// rest.
    pub fn seal_open(&self, class: ClassId) {
        self.seal_spare(class, 0);
        let mut state = self.state.borrow_mut();
        let lanes = state.open.get(&class).map_or(0, |open| open.packed.len());
        for lane in 0..lanes {
            self.close_packed(&mut state, class, lane);
        }
    }

    /// Takes back spare slots, the longest passed over first, until those of `keep` tuples are
    /// left.
    fn seal_spare(&self, class: ClassId, keep: usize) {
        let mut state = self.state.borrow_mut();
        let spare = &mut state.open.entry(class).or_default().spare;
        let mut tuples: SmallVec<[TupleKey; 8]> = SmallVec::new();
        let kept = spare.iter().rev().take_while(|(key, _)| {
            let known = tuples.contains(key);
            known
                || tuples.len() < keep && {
                    tuples.push(*key);
                    true
                }
        });
        let excess = spare.len() - kept.count();
        self.take_back(&mut state, class, excess);
    }

    /// Takes back the `count` spare slots that were passed over longest ago.
    fn take_back(&self, state: &mut State, class: ClassId, count: usize) {
        let spare = &mut state.open.entry(class).or_default().spare;
        let taken: Vec<(TupleKey, usize)> = spare.drain(..count).collect();
        for (key, _) in taken {
            let tuple = state.space.tuple_mut(key).expect("spare slots belong to tuples");
            tuple.unhanded -= 1;
            state.space.tuple_check_dead(key, self.journal.latest(), self.reads.close());
        }
    }

    /// Slots passed over because of slow drives are kept for when these recover. With nobody
    /// writing, or somebody waiting for space, they are kept no longer.
    pub fn trim_spare(&self) {
        let idle = self.pacer.foreground.idle_nanos(self.env.now()) >= SPARE_IDLE.0;
        if !idle && self.waiting.get() == 0 {
            return;
        }
        let classes: Vec<Rc<Class>> = self.state.borrow().space.classes().cloned().collect();
        for class in classes {
            self.seal_spare(class.id, SPARE_TUPLES_AT_REST);
        }
    }

    fn build_tuple(
        &self,
        state: &mut State,
        class: &Rc<Class>,
        claim: Claim,
        avoid: &Avoid,
    ) -> Option<()> {
        self.ensure_free(state, class, claim)?;
        let slow = |drive| self.is_shunned(drive, avoid);
        let passed = self.slow_drives(avoid);
        let quick = passed > 0 && self.array.active().len() - passed >= class.copies();
        let build = |state: &mut State, quick| {
            let mut draw = |below: usize| (self.env.random() % below as u64) as usize;
            state.space.build_tuple(class.id, &mut draw, &slow, quick)
        };
        let built = build(state, quick).or_else(|| {
            // The few free stripes of the class's own zones may not match, however often drawn, or
            // all be on the slow drive.
            let again = self.add_zone(state, class).then(|| build(state, quick)).flatten();
            again.or_else(|| if quick { build(state, false) } else { None })
        });
        let key = built?;
        self.cover_tuple(state, class, key, claim);
        let tuple = state.space.tuple(key).expect("just built");
        tuple.stripes.iter().for_each(|&stripe| self.is_there(&state.space, class, stripe));
        tuple.stripes.iter().for_each(|&stripe| state.sums.forget(class, stripe));
        let record = Record::Tuple { stripes: tuple.stripes.to_vec(), slots: tuple.slots.to_vec() };
        let slots = tuple.slots.len();
        self.journal.append(&record);
        let open = state.open.entry(class.id).or_default();
        open.spare.extend((0..slots).map(|slot| (key, slot)));
        Some(())
    }

    /// Copies that would lie on lost drives get substitutes, on drives that have no other of their
    /// slot, nor anything of the tuple if that can be.
    fn cover_tuple(&self, state: &mut State, class: &Rc<Class>, key: TupleKey, claim: Claim) {
        if !state.space.substitutes.enabled {
            return;
        }
        let stripes = state.space.tuple(key).expect("just built").stripes.clone();
        for (copy, &stripe) in stripes.iter().enumerate() {
            for position in 0..class.data() {
                let tuple = state.space.tuple(key).expect("just built");
                let slot = (0..class.data()).find(|&slot| tuple.position(slot, copy) == position);
                let [all, of_slot] = self.tuple_drives(state, class, key, slot);
                let others: [&[DriveIndex]; 2] = [&all, &of_slot];
                self.cover(state, class, stripe, position..position + 1, others, claim);
            }
        }
    }

    /// Makes sure that free stripes may be taken, giving the class a new zone when its own
    /// run low. `None`: the caller has to wait.
    fn ensure_free(&self, state: &mut State, class: &Rc<Class>, claim: Claim) -> Option<()> {
        let wanted = TUPLE_CANDIDATES[class.parity() - 1] as u64;
        if state.space.has_free_in_zones(class.id) < wanted {
            self.add_zone(state, class);
        }
        let reserve = if claim == Claim::Background { 0 } else { RESERVE_STRIPES };
        (state.space.free_stripes(class.id) > reserve).then_some(())
    }

    /// True if there was one.
    pub fn add_zone(&self, state: &mut State, class: &Rc<Class>) -> bool {
        let Some(zone) = state.space.zone_next(class.id) else { return false };
        let round = self.geometry.lists.newest_round();
        self.journal.append(&Record::Zone { zone, class: Some(class.id), round });
        state.space.zone_assign(zone, class.id, round);
        true
    }

    fn spot(
        &self,
        state: &State,
        class: &Rc<Class>,
        key: TupleKey,
        slot: usize,
        page: u16,
    ) -> Spot {
        let tuple = state.space.tuple(key).expect("spots lie in tuples");
        let target = |(copy, &stripe): (usize, &StripeId)| {
            let mut at = state.space.address(class, stripe, tuple.position(slot, copy));
            at.offset += u64::from(page) * io::PAGE as u64;
            at
        };
        Spot {
            key,
            sector: page * 8,
            flbn: self.geometry.flbn(class, key, slot),
            targets: tuple.stripes.iter().enumerate().map(target).collect(),
        }
    }

    /// A free stripe for a full-stripe write, if possible without slow drives and those to
    /// `avoid`; with `quick` not otherwise.
    pub fn take_stripe(
        &self,
        class: &Rc<Class>,
        claim: Claim,
        avoid: &Avoid,
        quick: bool,
    ) -> Option<StripeId> {
        let mut state = self.state.borrow_mut();
        self.ensure_free(&mut state, class, claim)?;
        let shunned = |drive| self.is_shunned(drive, avoid);
        let slow = self.slow_drives(avoid);
        // Whether there are stripes without them, free or not.
        let wide = self.array.len() - slow >= class.width();
        if quick && !wide {
            return None;
        }
        let look = |state: &mut State, slow_max: usize| {
            let mut draw = |below: usize| (self.env.random() % below as u64) as usize;
            state.space.take_stripe(class.id, &mut draw, &shunned, slow_max)
        };
        let found = look(&mut state, 0).or_else(|| {
            // What the class's own zones still have free may all be on the slow drive.
            let added = wide && slow > 0 && self.add_zone(&mut state, class);
            added.then(|| look(&mut state, 0)).flatten()
        });
        let any = found.or_else(|| if quick { None } else { look(&mut state, usize::MAX) });
        let (stripe, passed) = any?;
        self.cover(&mut state, class, stripe, 0..class.width(), [&[]; 2], claim);
        if !self.may_give(&state, class, stripe, claim) {
            // It waits until space is freed.
            let (latest, generation) = (self.journal.latest(), self.reads.close());
            state.space.abandon_stripe(stripe, latest, generation);
            return None;
        }
        self.expose_stripe(&state.space, class, stripe);
        self.is_there(&state.space, class, stripe);
        state.sums.forget(class, stripe);
        self.count(|counters| counters.redirected_writes += u64::from(passed));
        Some(stripe)
    }
}
