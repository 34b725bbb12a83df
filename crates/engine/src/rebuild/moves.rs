//! One block after another: read or computed, written where it is to be, recorded when that is
//! durable.

use std::rc::Rc;

use format::{Flbn, StripeId};
use io::{Buf, Durability, Env, PAGE};
use layout::DriveIndex;
use policy::background::area_max;
use policy::rebuild::{Remedy, Wounded, remedy};
use smallvec::SmallVec;

use super::Pass;
use crate::geometry::{BlockAddress, Class};
use crate::planted::{self, Bug};
use crate::shard::{Shard, State};
use crate::space::Kind;
use crate::substitute::Urgency;
use crate::tuple::TupleKey;

pub(super) type Positions = SmallVec<[usize; 2]>;

/// A block that is written where it is to be.
pub(super) struct Move {
    stripe: StripeId,
    position: usize,
    /// Its substitute; `None`: it is home.
    to: Option<Flbn>,
    drive: DriveIndex,
    /// Of the drive when the block was written there.
    era: u32,
}

/// Where a block is to be written.
type Target = (Option<Flbn>, BlockAddress);

impl<E: Env> Shard<E> {
    /// Home if its drive is there, or another drive's block.
    fn target(
        &self,
        state: &mut State,
        class: &Rc<Class>,
        (stripe, position): (StripeId, usize),
        others: &[DriveIndex],
    ) -> Option<Target> {
        let home = class.drive(stripe, position);
        if self.is_home(home) {
            let rest = (0..class.width()).filter(|&at| at != position);
            let mut drives = rest.map(|at| state.space.address(class, stripe, at).drive);
            if drives.any(|drive| drive == home) {
                return None;
            }
            return Some((None, self.geometry.address(class, stripe, position)));
        }
        let urgency = Urgency::Rebuild;
        let block = self.spare_block(state, class, (stripe, position), others, urgency)?;
        Some((Some(block), state.space.spare_address(block)))
    }

    async fn write_target(
        &self,
        (stripe, position): (StripeId, usize),
        (to, at): Target,
        data: Buf,
    ) -> Result<Move, Option<Flbn>> {
        let era = self.array.era(at.drive);
        match self.array.write(at.drive, at.offset, data, Durability::Cached).await {
            Ok(()) => Ok(Move { stripe, position, to, drive: at.drive, era }),
            Err(_) => Err(to),
        }
    }

    /// What a move would have used is anybody's.
    fn forgo(&self, to: Option<Flbn>) {
        if let Some(block) = to {
            self.state.borrow_mut().space.spare_give_back(block);
        }
    }

    // ---- RAID stripes

    pub(super) fn is_raid_now(&self, state: &State, class: &Class, stripe: StripeId) -> bool {
        let now = state.space.class_of_zone(stripe.zone);
        now.is_some_and(|now| now.id == class.id) && state.space.kind(stripe) == Kind::Raid
    }

    /// Blocks of a stripe, written where they are to be. The caller holds a read guard.
    pub(super) async fn rebuild_stripe(
        &self,
        class: &Rc<Class>,
        stripe: StripeId,
    ) -> (Vec<Move>, Pass) {
        let (mut done, mut pass) = (Vec::new(), Pass::default());
        let positions = {
            let state = self.state.borrow();
            match self.is_raid_now(&state, class, stripe) {
                true => self.moves_of(&state.space, class, stripe),
                false => Positions::new(),
            }
        };
        let mut given: SmallVec<[DriveIndex; 2]> = SmallVec::new();
        for position in positions {
            let home = (stripe, position);
            let target = self.target(&mut self.state.borrow_mut(), class, home, &given);
            let Some((to, at)) = target else {
                pass.full += 1;
                continue;
            };
            given.push(at.drive);
            let Some(data) = self.whole_block(class, stripe, position).await else {
                self.forgo(to);
                pass.lost += 1;
                continue;
            };
            match self.write_target(home, (to, at), data).await {
                Ok(one) => done.push(one),
                Err(to) => {
                    self.forgo(to);
                    pass.later += 1;
                }
            }
        }
        (done, pass)
    }

    /// From where it is, or computed.
    async fn whole_block(
        &self,
        class: &Rc<Class>,
        stripe: StripeId,
        position: usize,
    ) -> Option<Buf> {
        let at = self.address(class, stripe, position);
        let len = self.geometry.block_size as usize;
        if self.array.is_active(at.drive)
            && let Ok(data) = self.array.read(at.drive, at.offset, len).await
            && self.is_sound(class, (stripe, position), &data)
        {
            return Some(data);
        }
        match self.rebuilt_block(class, stripe, position).await {
            Some(block) => Some(block),
            None => self.block_as_it_is(class, stripe, position).await,
        }
    }

    /// What was read is what was written; of parity nobody knows.
    fn is_sound(&self, class: &Class, (stripe, at): (StripeId, usize), data: &[u8]) -> bool {
        let sums = &self.state.borrow().sums;
        at >= class.data() || sums.wrong_page(class, (stripe, at), 0, data).is_none()
    }

    /// Makes what was written durable, then records it. What has become of a stripe meanwhile, or
    /// of the drive that its block was written to, may forbid it.
    pub(super) async fn settle_moves(&self, class: &Rc<Class>, moves: Vec<Move>, pass: &mut Pass) {
        if moves.is_empty() {
            return;
        }
        let skip = planted::is(Bug::SubstituteBeforeDurable);
        let durable = skip || self.flush().await.is_ok();
        self.journal.reserve().await;
        let mut state = self.state.borrow_mut();
        for one in moves {
            let may = durable && self.is_raid_now(&state, class, one.stripe);
            self.settle_move(&mut state, class, one, may, pass);
        }
    }

    /// Records a move that may be, if it is still wanted. A drive that came back meanwhile awaits
    /// the block at home: recorded elsewhere it would not be restored, and would go home only to a
    /// drive that is whole, which that one would never be.
    fn settle_move(
        &self,
        state: &mut State,
        class: &Class,
        Move { stripe, position, to, drive, era }: Move,
        may: bool,
        pass: &mut Pass,
    ) {
        let there = self.array.is_whole(drive) && self.array.era(drive) == era;
        let wanted = || self.moves_of(&state.space, class, stripe).contains(&position);
        if may && there && wanted() {
            self.substitute(state, stripe, &[(position as u8, to)]);
            self.count_moved(pass);
        } else {
            to.into_iter().for_each(|block| state.space.spare_give_back(block));
            pass.later += 1;
        }
    }

    fn count_moved(&self, pass: &mut Pass) {
        pass.moved += 1;
        self.count(|counters| counters.rebuilt_blocks += 1);
        self.rebuild.progress.borrow_mut().moved();
    }

    // ---- tuples

    /// Copies that are to be elsewhere, by copy of the tuple: slot and position.
    fn tuple_moves(&self, state: &State, key: TupleKey) -> Vec<(usize, usize, Option<usize>)> {
        let Some(tuple) = state.space.tuple(key) else { return Vec::new() };
        let class = state.space.class_of_zone(key.zone).expect("tuples lie in assigned zones");
        let mut found = Vec::new();
        for (copy, &stripe) in tuple.stripes.iter().enumerate() {
            for position in self.moves_of(&state.space, class, stripe) {
                let slot = (0..class.data()).find(|&slot| tuple.position(slot, copy) == position);
                let slot = slot.filter(|&slot| tuple.filled[slot] > 0);
                // Where nothing was written nothing is missed; a substitute may be given back.
                if slot.is_some() || state.space.substitute(stripe, position).is_some() {
                    found.push((copy, position, slot));
                }
            }
        }
        found
    }

    pub(super) async fn rebuild_tuples(&self, keys: &[TupleKey], pass: &mut Pass) {
        let mut done: Vec<(TupleKey, Vec<Move>)> = Vec::new();
        let mut convert = Vec::new();
        for &key in keys {
            let moves = self.tuple_moves(&self.state.borrow(), key);
            if moves.is_empty() || !self.rebuilds() {
                continue;
            }
            if !self.make_busy(key) {
                pass.later += 1;
                continue;
            }
            let class = self.class_of(key);
            if self.remedy_of(key, &moves) == Remedy::Convert {
                convert.push((key, class));
                continue;
            }
            let turn = self.pace(|| self.queue_of(class.drives(key).into_iter())).await;
            let full = pass.full;
            let written = self.copy_slots(key, &class, pass).await;
            turn.moved(written.len() * self.geometry.block_size as usize);
            drop(turn);
            if pass.full > full {
                // With few drives left there may be none for a copy, but for a RAID stripe's block.
                pass.full = full;
                written.into_iter().for_each(|one| self.forgo(one.to));
                convert.push((key, class));
                continue;
            }
            done.push((key, written));
        }
        self.settle_tuples(done, pass).await;
        if !convert.is_empty() {
            pass.later += convert.len() as u64;
            // What it can't convert it lets go of.
            let _ = self.convert_tuples(&convert).await;
        }
    }

    fn class_of(&self, key: TupleKey) -> Rc<Class> {
        let state = self.state.borrow();
        state.space.class_of_zone(key.zone).expect("tuples lie in assigned zones").clone()
    }

    fn remedy_of(&self, key: TupleKey, moves: &[(usize, usize, Option<usize>)]) -> Remedy {
        let class = self.class_of(key);
        let facts = self.facts(class.id);
        let area = area_max(&facts);
        let lost = |head: bool| {
            moves.iter().filter(|(copy, _, slot)| slot.is_some() && (*copy == 0) == head).count()
        };
        remedy(&Wounded {
            data: class.data() as u64,
            parity: class.parity() as u64,
            heads: lost(true) as u64,
            copies: lost(false) as u64,
            due: facts.eager || facts.replicated > area,
        })
    }

    /// Drives that may not have a block of a tuple: those that have, or are to get back, the other
    /// copies of its slot, and, if it can be, anything of the tuple.
    pub(crate) fn tuple_drives(
        &self,
        state: &State,
        class: &Class,
        key: TupleKey,
        slot: Option<usize>,
    ) -> [SmallVec<[DriveIndex; 16]>; 2] {
        let tuple = state.space.tuple(key).expect("a busy tuple stays");
        let drive = |stripe, at| state.space.address(class, stripe, at).drive;
        let all =
            tuple.stripes.iter().flat_map(|&stripe| (0..class.data()).map(move |at| (stripe, at)));
        let of_slot = slot.into_iter().flat_map(|slot| {
            let copies = tuple.stripes.iter().enumerate();
            copies.map(move |(copy, &stripe)| (stripe, tuple.position(slot, copy)))
        });
        let drives = |blocks: &mut dyn Iterator<Item = (StripeId, usize)>| {
            blocks.flat_map(|(stripe, at)| [drive(stripe, at), class.drive(stripe, at)]).collect()
        };
        [drives(&mut all.clone()), drives(&mut of_slot.clone())]
    }

    /// `given`: what the tuple's other blocks are about to have.
    fn tuple_target(
        &self,
        class: &Rc<Class>,
        key: TupleKey,
        (stripe, position, slot): (StripeId, usize, usize),
        given: &[(StripeId, usize, DriveIndex)],
    ) -> Option<Target> {
        let mut state = self.state.borrow_mut();
        let [mut all, mut of_slot] = self.tuple_drives(&state, class, key, Some(slot));
        all.extend(given.iter().map(|&(.., drive)| drive));
        let near = given.iter().filter(|&&(other, at, _)| other == stripe || at == slot);
        of_slot.extend(near.map(|&(.., drive)| drive));
        let home = (stripe, position);
        let best = self.target(&mut state, class, home, &all);
        best.or_else(|| self.target(&mut state, class, home, &of_slot))
    }

    async fn copy_slots(&self, key: TupleKey, class: &Rc<Class>, pass: &mut Pass) -> Vec<Move> {
        let (mut done, mut given) = (Vec::new(), Vec::new());
        let moves = self.tuple_moves(&self.state.borrow(), key);
        for (copy, position, slot) in moves {
            let stripe = {
                let state = self.state.borrow();
                state.space.tuple(key).expect("a busy tuple stays").stripes[copy]
            };
            let Some(slot) = slot else {
                self.return_unwritten(class, stripe, position);
                continue;
            };
            let home = (stripe, position, slot);
            let Some(target) = self.tuple_target(class, key, home, &given) else {
                pass.full += 1;
                continue;
            };
            given.push((stripe, slot, target.1.drive));
            let Some(data) = self.slot_bytes(class, key, slot).await else {
                self.forgo(target.0);
                pass.lost += 1;
                continue;
            };
            match self.write_target((stripe, position), target, data).await {
                Ok(one) => done.push(one),
                Err(to) => {
                    self.forgo(to);
                    pass.later += 1;
                }
            }
        }
        done
    }

    /// A substitute of a block that nothing was written to, whose drive is there again.
    fn return_unwritten(&self, class: &Class, stripe: StripeId, position: usize) {
        if self.is_home(class.drive(stripe, position)) {
            self.substitute(&mut self.state.borrow_mut(), stripe, &[(position as u8, None)]);
        }
    }

    /// What was written to a slot.
    async fn slot_bytes(&self, class: &Class, key: TupleKey, slot: usize) -> Option<Buf> {
        let (flbn, len) = {
            let state = self.state.borrow();
            let tuple = state.space.tuple(key).expect("a busy tuple stays");
            (self.geometry.flbn(class, key, slot), usize::from(tuple.filled[slot]) * PAGE)
        };
        let source = self.source(flbn, true);
        for copy in &source.copies {
            if let Ok(data) = self.array.read(copy.drive, copy.offset, len).await
                && self.is_sound(class, (key, slot), &data)
            {
                return Some(data);
            }
        }
        self.copy_as_it_is(&source, len).await
    }

    async fn settle_tuples(&self, done: Vec<(TupleKey, Vec<Move>)>, pass: &mut Pass) {
        let any = done.iter().any(|(_, moves)| !moves.is_empty());
        let durable = any && self.flush().await.is_ok();
        self.journal.reserve().await;
        let mut state = self.state.borrow_mut();
        for (key, moves) in done {
            let class = state.space.class_of_zone(key.zone).expect("tuples lie in assigned zones");
            let class = class.clone();
            for one in moves {
                self.settle_move(&mut state, &class, one, durable, pass);
            }
            state.space.tuple_release_busy(key, self.journal.latest(), self.reads.close());
        }
    }
}
