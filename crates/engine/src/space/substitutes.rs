//! Substitutes: blocks of stripes whose drives are lost, or are to be let go of, lie in blocks of
//! *spare stripes* instead (FusionRAID §4.1, RAID+ spare squares).
//!
//! ```text
//! stripe 7     [ d0 ][ d1 ][ d2 ][ P ]          drive of d1 is lost
//!                      └───────────┐            (7, 1) -> spare stripe 42, position 2
//! spare 42     [ .  ][ e3 ][ d1 ][ .  ]         each block serves another stripe, or nobody
//! ```
//! A block of a spare stripe is *open*, *given* (written, or about to be, and perhaps in the
//! table), or *left*: the table does not name it any more, but a reader may, or what a crash
//! leaves. A stripe's substitutes are left when it is free itself. Empty in a pool that lost no
//! drive: then every address is the layout's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use format::{ClassId, Flbn, StripeId, SubstituteImage};
use layout::DriveIndex;
use smallvec::SmallVec;

use super::{Draw, Kind, Space};
use crate::geometry::{BlockAddress, Class};
use crate::limits::{SPARE_BLOCKS_OPEN, SPARE_DRAWS, SPARE_SKEW};
use crate::planted::{self, Bug};

/// A block as the layout has it: stripe and position.
pub type Home = (StripeId, u8);

/// Which blocks of a spare stripe are given or left: a bit a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken([u64; 4]);

impl Taken {
    fn set(&mut self, position: usize, taken: bool) {
        let (word, bit) = (position / 64, 1 << (position % 64));
        assert_eq!(self.0[word] & bit != 0, !taken, "a block is given once, and taken back once");
        self.0[word] ^= bit;
    }

    pub fn has(&self, position: usize) -> bool {
        self.0[position / 64] & 1 << (position % 64) != 0
    }

    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// A block that the table does not name any more.
#[derive(Clone, Copy, Debug)]
struct Left {
    block: Flbn,
    /// Journal block that must be durable, and read generation that must be over.
    sequence: u64,
    generation: u64,
}

#[derive(Default)]
pub struct Substitutes {
    places: BTreeMap<Home, Flbn>,
    spares: BTreeMap<StripeId, Taken>,
    /// Blocks of all of these stripes.
    spare_blocks: u64,
    /// Blocks of spare stripes that nobody has, by drive.
    open: Vec<Vec<Flbn>>,
    /// Blocks given, by drive.
    load: Vec<u64>,
    left: VecDeque<Left>,
    /// Stripes that have none since they are free, which is to be recorded.
    dropped: Vec<StripeId>,
    /// What recovery found that can't be.
    fault: Option<String>,
    /// The labels know of substitutes: stripes may be given some from the start.
    pub enabled: bool,
}

impl Substitutes {
    pub fn new(drives: usize) -> Substitutes {
        let (open, load) = (vec![Vec::new(); drives], vec![0; drives]);
        Substitutes { open, load, ..Substitutes::default() }
    }
}

/// Who may have a block: drives, and the one to be preferred.
pub struct Wanted<'a> {
    pub may: &'a dyn Fn(DriveIndex) -> bool,
    pub preferred: Option<DriveIndex>,
    /// Classes with more free stripes than this can spare one.
    pub floor: &'a dyn Fn(&Class) -> u64,
}

impl Space {
    pub fn has_substitutes(&self) -> bool {
        !self.substitutes.places.is_empty()
    }

    /// No block is elsewhere, nor waits for those who may still look there.
    pub fn is_at_home(&self) -> bool {
        self.substitutes.spares.is_empty() && !self.has_substitutes()
    }

    /// Where a block of a stripe is.
    pub fn address(&self, class: &Class, stripe: StripeId, position: usize) -> BlockAddress {
        match self.substitute(stripe, position) {
            None => self.geometry.address(class, stripe, position),
            Some(block) => self.spare_address(block),
        }
    }

    pub fn substitute(&self, stripe: StripeId, position: usize) -> Option<Flbn> {
        if self.substitutes.places.is_empty() {
            return None;
        }
        self.substitutes.places.get(&(stripe, position as u8)).copied()
    }

    /// Where a block of a spare stripe is.
    pub fn spare_address(&self, block: Flbn) -> BlockAddress {
        let zone = self.geometry.zone_of(block);
        let class = self.class_of_zone(zone).expect("spare stripes keep their zone");
        let (stripe, position) = self.geometry.stripe_of(class, block);
        self.geometry.address(class, stripe, position)
    }

    pub fn substitutes_of(&self, stripe: StripeId) -> SmallVec<[(u8, Flbn); 2]> {
        let all = self.substitutes.places.range((stripe, 0)..=(stripe, u8::MAX));
        all.map(|(&(_, position), &block)| (position, block)).collect()
    }

    /// All of them, in order.
    pub fn substitutes(&self) -> impl Iterator<Item = (Home, Flbn)> + '_ {
        self.substitutes.places.iter().map(|(&home, &block)| (home, block))
    }

    /// The positions of a spare stripe that somebody has.
    pub fn spare_taken(&self, stripe: StripeId) -> Taken {
        self.substitutes.spares.get(&stripe).copied().unwrap_or_default()
    }

    /// Sectors of all spare stripes.
    pub fn spare_sectors(&self) -> u64 {
        self.substitutes.spare_blocks * u64::from(self.geometry.block_sectors())
    }

    pub fn substitute_count(&self) -> u64 {
        self.substitutes.places.len() as u64
    }

    // ---- giving

    /// A block for somebody, on the drive that has given least unless another is preferred and
    /// not far ahead. `None`: no class can spare a stripe, or none that would help.
    pub fn spare_take(&mut self, wanted: &Wanted<'_>, draw: Draw) -> Option<Flbn> {
        let may: Vec<DriveIndex> = (0..self.geometry.drives as u16)
            .map(DriveIndex)
            .filter(|&drive| !self.is_avoided(drive) && (wanted.may)(drive))
            .collect();
        let load = |drive: DriveIndex| self.substitutes.load[usize::from(drive.0)];
        let least = may.iter().copied().min_by_key(|&drive| load(drive))?;
        let near =
            |drive: &DriveIndex| may.contains(drive) && load(*drive) <= load(least) + SPARE_SKEW;
        let best = wanted.preferred.filter(near).unwrap_or(least);
        let open: usize = self.substitutes.open.iter().map(Vec::len).sum();
        if open < SPARE_BLOCKS_OPEN * self.geometry.drives {
            self.spare_open_on(best, wanted, draw);
        }
        let pop = |space: &mut Space, drive: DriveIndex| {
            space.substitutes.open[usize::from(drive.0)].pop()
        };
        let mut found = pop(self, best);
        if found.is_none() {
            let mut others = may.clone();
            others.sort_by_key(|drive| self.substitutes.load[usize::from(drive.0)]);
            found = others.iter().find_map(|&drive| pop(self, drive));
        }
        if found.is_none() && may.iter().any(|&drive| self.spare_open_on(drive, wanted, draw)) {
            found = may.iter().find_map(|&drive| pop(self, drive));
        }
        let block = found?;
        self.spare_note(block, true);
        Some(block)
    }

    /// Makes sure that a drive has an open block. False if that can't be.
    fn spare_open_on(&mut self, drive: DriveIndex, wanted: &Wanted<'_>, draw: Draw) -> bool {
        if !self.substitutes.open[usize::from(drive.0)].is_empty() {
            return true;
        }
        let classes: Vec<ClassId> = self.classes().map(|class| class.id).collect();
        let spares = |id: &ClassId| {
            let free = self.free_stripes(*id).min(self.has_free_in_zones(*id));
            let room = self.free_stripes(*id).checked_sub((wanted.floor)(self.class(*id)) + 1);
            room.filter(|_| free > 0)
        };
        let mut rich: Vec<(u64, ClassId)> =
            classes.iter().filter_map(|id| Some((spares(id)?, *id))).collect();
        rich.sort();
        rich.into_iter().rev().any(|(_, id)| self.spare_open_of(id, drive, draw))
    }

    /// Takes a free stripe of a class that has a block on a drive: of those drawn the one whose
    /// other blocks are wanted most.
    fn spare_open_of(&mut self, id: ClassId, drive: DriveIndex, draw: Draw) -> bool {
        let class = self.class(id).clone();
        let mut drawn: SmallVec<[(usize, StripeId); 16]> = SmallVec::new();
        while drawn.len() < SPARE_DRAWS {
            let Some(stripe) = self.take_free(id, drawn.len() % 2 == 1, draw) else { break };
            let drives = class.drives(stripe);
            let waste = |drive: &DriveIndex| match self.is_avoided(*drive) {
                true => 4,
                false => self.substitutes.open[usize::from(drive.0)].len(),
            };
            let fits = drives.contains(&drive) && !self.is_avoided(drive);
            let cost = if fits { drives.iter().map(waste).sum() } else { usize::MAX };
            drawn.push((cost, stripe));
        }
        let best = drawn.iter().copied().filter(|&(cost, _)| cost < usize::MAX).min();
        for &(_, stripe) in drawn.iter().filter(|(_, stripe)| best.is_none_or(|b| b.1 != *stripe)) {
            self.give_back(stripe);
        }
        let Some((_, stripe)) = best else { return false };
        self.set_kind(stripe, Kind::Spare);
        self.substitutes.spares.insert(stripe, Taken::default());
        self.substitutes.spare_blocks += class.width() as u64;
        self.open_blocks(&class, stripe);
        true
    }

    /// Blocks of a spare stripe that nobody has, on drives that are there.
    fn open_blocks(&mut self, class: &Class, stripe: StripeId) {
        let taken = self.spare_taken(stripe);
        for position in (0..class.width()).filter(|&position| !taken.has(position)) {
            self.open_block(class, stripe, position);
        }
    }

    fn open_block(&mut self, class: &Class, stripe: StripeId, position: usize) {
        let drive = class.drive(stripe, position);
        // What is emptied is not filled at the same time.
        if !self.is_avoided(drive) && !self.zone(stripe.zone).draining {
            let block = self.geometry.flbn(class, stripe, position);
            self.substitutes.open[usize::from(drive.0)].push(block);
        }
    }

    /// After drives were lost, or came, or a zone is to be emptied: which blocks are open is found
    /// anew.
    pub fn spare_reopen(&mut self) {
        self.substitutes.open.iter_mut().for_each(Vec::clear);
        let spares: Vec<StripeId> = self.substitutes.spares.keys().copied().collect();
        for stripe in spares {
            let class = self.class_of_zone(stripe.zone).expect("spare stripes keep it").clone();
            self.open_blocks(&class, stripe);
        }
    }

    fn spare_note(&mut self, block: Flbn, taken: bool) {
        let drive = self.spare_address(block).drive;
        let zone = self.geometry.zone_of(block);
        let class = self.class_of_zone(zone).expect("spare stripes keep their zone");
        let (stripe, position) = self.geometry.stripe_of(class, block);
        let spare = self.substitutes.spares.get_mut(&stripe).expect("it is a spare stripe");
        spare.set(position, taken);
        let load = &mut self.substitutes.load[usize::from(drive.0)];
        *load = if taken { *load + 1 } else { *load - 1 };
    }

    /// Nobody has this block of a spare stripe any more, and nobody can come to look there. The
    /// stripe is free with its last one.
    pub fn spare_give_back(&mut self, block: Flbn) {
        self.spare_note(block, false);
        let zone = self.geometry.zone_of(block);
        let class = self.class_of_zone(zone).expect("spare stripes keep their zone").clone();
        let (stripe, position) = self.geometry.stripe_of(&class, block);
        if self.spare_taken(stripe).count() > 0 {
            self.open_block(&class, stripe, position);
            return;
        }
        self.substitutes.spares.remove(&stripe);
        self.substitutes.spare_blocks -= class.width() as u64;
        let of_stripe = |block: &Flbn| {
            let zone = self.geometry.zone_of(*block);
            zone == stripe.zone && self.geometry.stripe_of(&class, *block).0 == stripe
        };
        self.substitutes.open.iter_mut().for_each(|open| open.retain(|block| !of_stripe(block)));
        self.set_kind(stripe, Kind::Free);
        self.give_back(stripe);
    }

    // ---- the table

    /// A block of a stripe lies elsewhere from now on, or where the layout has it again. Where
    /// it was may be looked at until `sequence` is durable and `generation` over.
    pub fn substitute_set(
        &mut self,
        (stripe, position): Home,
        block: Option<Flbn>,
        sequence: u64,
        generation: u64,
    ) {
        self.dirty_zones.insert(stripe.zone);
        let places = &mut self.substitutes.places;
        let old = match block {
            Some(block) => places.insert((stripe, position), block),
            None => places.remove(&(stripe, position)),
        };
        if let Some(block) = old {
            self.substitutes.left.push_back(Left { block, sequence, generation });
        }
    }

    /// A stripe is free: its substitutes are too.
    pub(super) fn substitutes_drop(&mut self, stripe: StripeId) {
        if self.substitutes.places.is_empty() || planted::is(Bug::KeepSubstitutes) {
            return;
        }
        let all = self.substitutes_of(stripe);
        for &(position, block) in &all {
            self.substitutes.places.remove(&(stripe, position));
            self.spare_give_back(block);
        }
        if !all.is_empty() {
            self.dirty_zones.insert(stripe.zone);
            self.substitutes.dropped.push(stripe);
        }
    }

    /// Stripes whose substitutes were dropped since this was asked.
    pub fn substitutes_dropped(&mut self) -> Vec<StripeId> {
        std::mem::take(&mut self.substitutes.dropped)
    }

    /// Blocks left that nobody can come to look at any more are open again.
    pub(super) fn release_left(&mut self, durable: u64, oldest_read: u64) {
        while let Some(&Left { block, sequence, generation }) = self.substitutes.left.front() {
            if sequence > durable || generation >= oldest_read {
                break;
            }
            self.substitutes.left.pop_front();
            self.spare_give_back(block);
        }
    }

    /// Stripes with blocks in a zone's spare stripes: they have to go before it is empty.
    pub fn guests_of(&self, zone: u32) -> BTreeSet<StripeId> {
        let there = |block: Flbn| self.geometry.zone_of(block) == zone;
        self.substitutes()
            .filter(|&(_, block)| there(block))
            .map(|((stripe, _), _)| stripe)
            .collect()
    }

    /// Blocks of a zone's spare stripes that somebody has.
    pub(super) fn guest_blocks(&self, zone: u32) -> u64 {
        let (first, last) = (StripeId { zone, index: 0 }, StripeId { zone, index: u32::MAX });
        let spares = self.substitutes.spares.range(first..=last);
        spares.map(|(_, taken)| u64::from(taken.count())).sum()
    }

    pub fn left_blocks(&self) -> impl Iterator<Item = Flbn> + '_ {
        self.substitutes.left.iter().map(|left| left.block)
    }

    pub fn spares(&self) -> impl Iterator<Item = (StripeId, Taken)> + '_ {
        self.substitutes.spares.iter().map(|(&stripe, &taken)| (stripe, taken))
    }

    /// Open blocks, by drive.
    pub fn open_spares(&self) -> &[Vec<Flbn>] {
        &self.substitutes.open
    }

    // ---- after a restart

    /// As a checkpoint has them.
    pub fn load_substitutes(&mut self, zone: u32, images: &[SubstituteImage]) {
        for &SubstituteImage { index, position, place } in images {
            self.load_substitute((StripeId { zone, index }, position), place);
        }
    }

    fn load_substitute(&mut self, home: Home, block: Flbn) {
        self.substitutes.places.insert(home, block);
    }

    pub fn replay_substitutes(&mut self, stripe: StripeId, places: &[(u8, Flbn)]) {
        for (position, _) in self.substitutes_of(stripe) {
            self.substitutes.places.remove(&(stripe, position));
        }
        let homes = places.iter().map(|&(position, block)| ((stripe, position), block));
        self.substitutes.places.extend(homes);
        self.dirty_zones.insert(stripe.zone);
    }

    /// A zone means something else from now on: what the table says of it is of long ago.
    pub(super) fn replay_forget_zone(&mut self, zone: u32) {
        self.substitutes.places.retain(|(stripe, _), _| stripe.zone != zone);
    }

    /// When it is known which stripes hold something: the others need no substitutes, and blocks
    /// that are some belong to spare stripes.
    pub(super) fn rebuild_substitutes(&mut self) {
        self.substitutes.fault = self.settle_substitutes().err();
    }

    /// What recovery found that can't be, if anything.
    pub fn substitutes_fault(&self) -> Option<&str> {
        self.substitutes.fault.as_deref()
    }

    fn settle_substitutes(&mut self) -> Result<(), String> {
        let all: Vec<(Home, Flbn)> = self.substitutes().collect();
        for (home, block) in all {
            let (stripe, position) = home;
            if !self.is_held(stripe) {
                self.substitutes.places.remove(&home);
                self.dirty_zones.insert(stripe.zone);
                continue;
            }
            let wrong = || format!("block {position} of stripe {stripe} is said to be at {block}");
            let width = self.zone(stripe.zone).class.width();
            let class = self.class_of_zone(self.geometry.zone_of(block)).cloned();
            let class = class.filter(|_| usize::from(position) < width).ok_or_else(wrong)?;
            let (spare, at) = self.geometry.stripe_of(&class, block);
            let kinds =
                &mut self.zones[spare.zone as usize].as_mut().expect("it has a class").kinds;
            let kind = kinds.get_mut(spare.index as usize).ok_or_else(wrong)?;
            let taken = self.substitutes.spares.get(&spare).is_some_and(|taken| taken.has(at));
            if !matches!(*kind, Kind::Free | Kind::Spare) || taken {
                return Err(wrong());
            }
            if *kind == Kind::Free {
                *kind = Kind::Spare;
                self.substitutes.spares.insert(spare, Taken::default());
                self.substitutes.spare_blocks += class.width() as u64;
            }
            self.spare_note(block, true);
        }
        Ok(())
    }

    fn is_held(&self, stripe: StripeId) -> bool {
        let zone = self.zones.get(stripe.zone as usize).and_then(Option::as_ref);
        let kind = zone.and_then(|zone| zone.kinds.get(stripe.index as usize));
        matches!(kind, Some(Kind::Raid | Kind::Tuple))
    }

    pub(super) fn export_substitutes(&self, zone: u32) -> Vec<SubstituteImage> {
        let first = StripeId { zone, index: 0 };
        let last = StripeId { zone, index: u32::MAX };
        let all = self.substitutes.places.range((first, 0)..=(last, u8::MAX));
        let image = |(&(stripe, position), &place): (&Home, &Flbn)| SubstituteImage {
            index: stripe.index,
            position,
            place,
        };
        all.map(image).collect()
    }
}

#[cfg(test)]
mod tests;
