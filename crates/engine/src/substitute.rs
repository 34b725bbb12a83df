//! Giving blocks substitutes: which drive, which record (`space::substitutes` is the table).
//!
//! A block that holds something is written to its substitute first, durably, and then recorded
//! (`rebuild`). One that nobody has written to yet is given its substitute with its stripe.

use std::ops::Range;
use std::rc::Rc;

use format::{ClassId, Flbn, Record, StripeId};
use io::Env;
use layout::DriveIndex;
use policy::background::{Facts, slow_from};
use smallvec::SmallVec;

use crate::geometry::Class;
use crate::limits::RESERVE_STRIPES;
use crate::shard::{Claim, Shard, State};
use crate::space::Space;
use crate::space::substitutes::Wanted;

/// For whom a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A stripe that is about to be written: it has its block, or is exposed.
    Fresh,
    /// The same, and without this block it would lack more than it may: part of the room that
    /// making space works in is for it.
    Needed,
    /// What a lost drive held: it can wait until there is space.
    Rebuild,
}

impl<E: Env> Shard<E> {
    /// Gives blocks of a stripe that hold nothing yet, and lie on drives that are lost or leaving,
    /// substitutes. `others`: drives that may not have them either, or else the second of them.
    pub fn cover(
        &self,
        state: &mut State,
        class: &Rc<Class>,
        stripe: StripeId,
        positions: Range<usize>,
        others: [&[DriveIndex]; 2],
        claim: Claim,
    ) {
        if !state.space.substitutes.enabled {
            return;
        }
        for position in positions {
            let drive = state.space.address(class, stripe, position).drive;
            if !state.space.is_avoided(drive) {
                continue;
            }
            let bears = match claim {
                // Making space must not wait, nor lend out redundancy for that.
                Claim::Background if self.array.lost() == 0 => 0,
                _ => class.parity(),
            };
            let bears = self.unsafe_in(&state.space, class, stripe) <= bears;
            let mut block = |urgency| {
                let home = (stripe, position);
                self.spare_block(state, class, home, others[0], urgency)
                    .or_else(|| self.spare_block(state, class, home, others[1], urgency))
            };
            let found = block(Urgency::Fresh);
            let found = found.or_else(|| if bears { None } else { block(Urgency::Needed) });
            if let Some(block) = found {
                self.substitute(state, stripe, &[(position as u8, Some(block))]);
            }
        }
    }

    /// Whether something may be written to a place that lacks blocks. With nothing missed yet
    /// that would lend out redundancy: clients wait for space instead, and only making space may.
    pub fn may_expose(&self, state: &State, claim: Claim) -> bool {
        !state.space.substitutes.enabled || claim == Claim::Background || self.array.lost() > 0
    }

    /// How many blocks a place may lack. Where more drives are missed than parity bears no place
    /// helps: the request fails, rather than to wait for one.
    pub fn bears(&self, class: &Class) -> usize {
        if self.array.unserved() > class.parity() { usize::MAX } else { class.parity() }
    }

    /// What a stripe holds counts from now on. On lost or leaving drives it is exposed; before
    /// there are substitutes nobody needs to be told, since the first pass looks at everything.
    pub fn expose_stripe(&self, space: &Space, class: &Class, stripe: StripeId) {
        if space.substitutes.enabled
            && blocks_on(space, class, stripe, |at| space.is_avoided(at)) > 0
        {
            self.expose();
        }
    }

    /// Something is about to be written to a place with blocks on lost or leaving drives.
    pub fn expose(&self) {
        self.array.expose();
        self.rebuild.stir();
    }

    /// Whether a free stripe may be given out. Before there are substitutes no more of its drives
    /// are missed than of the pool's, which has been looked at.
    pub fn may_give(&self, state: &State, class: &Class, stripe: StripeId, claim: Claim) -> bool {
        if !state.space.substitutes.enabled {
            return true;
        }
        match self.unsafe_in(&state.space, class, stripe) {
            0 => true,
            lost => lost <= self.bears(class) && self.may_expose(state, claim),
        }
    }

    /// Blocks of a stripe that a crash could find missing: on lost drives, and on those that are
    /// being restored, of which nobody knows then what they hold already (world 870288).
    fn unsafe_in(&self, space: &Space, class: &Class, stripe: StripeId) -> usize {
        blocks_on(space, class, stripe, |drive| !self.array.is_whole(drive))
    }

    /// A block for one of a stripe's, on a drive that has none of its others, nor is to get one
    /// back.
    pub fn spare_block(
        &self,
        state: &mut State,
        class: &Rc<Class>,
        (stripe, position): (StripeId, usize),
        others: &[DriveIndex],
        urgency: Urgency,
    ) -> Option<Flbn> {
        let rest = (0..class.width()).filter(|&at| at != position);
        let mut taken: SmallVec<[DriveIndex; 16]> =
            rest.map(|at| state.space.address(class, stripe, at).drive).collect();
        taken.extend((0..class.width()).map(|at| class.drive(stripe, at)));
        self.spare_block_off(state, class, stripe, &[&taken, others], urgency)
    }

    /// A block on a drive that is not one of these.
    pub fn spare_block_off(
        &self,
        state: &mut State,
        class: &Rc<Class>,
        stripe: StripeId,
        taken: &[&[DriveIndex]],
        urgency: Urgency,
    ) -> Option<Flbn> {
        let may = |drive: DriveIndex| {
            self.array.is_whole(drive) && !taken.iter().any(|some| some.contains(&drive))
        };
        // As with data: the room that making space works in is not for this (world 850065).
        let (live, _) = state.space.live_footprint();
        let held = live + state.space.promised + state.space.spare_sectors();
        let sectors = u64::from(self.geometry.block_sectors());
        let is_full = |class: &Rc<Class>| {
            let more = class.width() as u64 * sectors;
            (held + more > self.footprint_max(state, class)).then_some(class.id)
        };
        let full: SmallVec<[ClassId; 4]> = state.space.classes().filter_map(is_full).collect();
        let floor = |class: &Class| match urgency {
            // It makes more than it takes: parity for copies, full stripes for ones with holes.
            Urgency::Needed => 1,
            _ if full.contains(&class.id) => u64::MAX / 2,
            Urgency::Fresh => RESERVE_STRIPES,
            // Making space begins above this, and writes are slowed below.
            Urgency::Rebuild => slow_from(&Facts {
                free: 0,
                total: class.stripes(),
                limbo: 0,
                replicated: 0,
                replicated_percent: 0,
                eager: false,
                reserve: RESERVE_STRIPES,
                starved: false,
            }),
        };
        let wanted = Wanted { may: &may, preferred: class.spare(stripe), floor: &floor };
        let take = |state: &mut State| {
            let mut draw = |below: usize| (self.env.random() % below as u64) as usize;
            state.space.spare_take(&wanted, &mut draw)
        };
        let block = take(state).or_else(|| {
            // What zones of this class have free may all be on the wrong drives.
            let rich = state.space.free_stripes(class.id) > floor(class);
            let added = rich && self.add_zone(state, class);
            added.then(|| take(state)).flatten()
        })?;
        let at = state.space.spare_address(block);
        // Whatever will be read there is written first.
        self.array.arrived(at.drive, at.offset);
        Some(block)
    }

    /// Records where blocks of a stripe are from now on.
    pub fn substitute(&self, state: &mut State, stripe: StripeId, changes: &[(u8, Option<Flbn>)]) {
        let mut places: Vec<(u8, Flbn)> = state.space.substitutes_of(stripe).to_vec();
        for &(position, block) in changes {
            places.retain(|place| place.0 != position);
            places.extend(block.map(|block| (position, block)));
        }
        places.sort();
        let sequence = self.journal.append(&Record::Substitutes { stripe, places });
        for &(position, block) in changes {
            let generation = self.reads.close();
            state.space.substitute_set((stripe, position), block, sequence, generation);
        }
    }
}

/// How many blocks of a stripe lie on such drives.
fn blocks_on(
    space: &Space,
    class: &Class,
    stripe: StripeId,
    is_such: impl Fn(DriveIndex) -> bool,
) -> usize {
    let drives = (0..class.width()).map(|at| space.address(class, stripe, at).drive);
    drives.filter(|&drive| is_such(drive)).count()
}
