//! Which grain of the store holds what of which volume. Pure: nothing here does I/O.
//!
//! ```text
//!            take                 map                    unmap              recorded, unheld
//!   free ──────────► reserved ──────────► mapped (dirty) ──────► limbo ────────────────────► free
//!     ▲                 │ give_back          │ commit
//!     └─────────────────┘                    └► mapped (durable)
//! ```
//! Of a grain that became free the drives are told when there is time for it: so long nobody is
//! given it. If it is taken before, they need not know.
//!
//! A grain in limbo is still in the map on the drives, or requests that looked it up before are
//! still under way: it can't be given to anybody else yet.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A grain of a volume: the volume's number, and which of its grains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub volume: u32,
    pub at: u32,
}

/// How far the drives know that a grain in limbo is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limbo {
    Unrecorded,
    BeingRecorded,
    Recorded,
}

/// Grains whose owners share a page of the map on the drives.
pub const PER_PAGE: u32 = 507;

pub struct Grains {
    /// Some numbers mean no grain: these have no owner, and are never free.
    owners: Vec<Option<Owner>>,
    count: usize,
    map: BTreeMap<Owner, u32>,
    free: BTreeSet<u32>,
    limbo: BTreeMap<u32, Limbo>,
    /// Free ones of which the drives think that they hold something.
    untold: BTreeSet<u32>,
    /// The one of which they are being told.
    being_told: Option<u32>,
    /// Requests under way on a grain.
    holds: BTreeMap<u32, u32>,
    /// Pages that differ from what is on the drives.
    dirty: BTreeSet<u32>,
    /// Pages being written.
    committing: BTreeSet<u32>,
}

impl Grains {
    /// `owners` as read from the drives. Where a crash left two grains of one owner, the first is
    /// as good as any, because neither was flushed; the other is free. `there`: numbers of grains.
    pub fn new(owners: Vec<Option<Owner>>, there: impl Iterator<Item = Range<u32>>) -> Grains {
        let mut grains = Grains {
            count: 0,
            map: BTreeMap::new(),
            free: BTreeSet::new(),
            limbo: BTreeMap::new(),
            untold: BTreeSet::new(),
            being_told: None,
            holds: BTreeMap::new(),
            dirty: BTreeSet::new(),
            committing: BTreeSet::new(),
            owners,
        };
        for grain in there.flatten() {
            grains.count += 1;
            let owner = grains.owners[grain as usize];
            match owner {
                Some(owner) if !grains.map.contains_key(&owner) => {
                    grains.map.insert(owner, grain);
                }
                Some(_) => {
                    grains.owners[grain as usize] = None;
                    grains.dirty.insert(grain / PER_PAGE);
                    grains.limbo.insert(grain, Limbo::Unrecorded);
                }
                None => {
                    grains.free.insert(grain);
                }
            }
        }
        grains
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// There are more, which nobody has, behind all others.
    pub fn grow(&mut self, more: Range<u32>) {
        assert!(more.start as usize >= self.owners.len(), "these are new");
        self.owners.resize(more.end as usize, None);
        self.count += more.len();
        self.free.extend(more);
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    pub fn in_limbo(&self) -> usize {
        self.limbo.len() + usize::from(self.being_told.is_some())
    }

    fn set_free(&mut self, grain: u32) {
        self.limbo.remove(&grain);
        self.free.insert(grain);
        self.untold.insert(grain);
    }

    /// One that the drives are to be told of; nobody is given it before [`Grains::told`].
    pub fn tell(&mut self) -> Option<u32> {
        assert!(self.being_told.is_none(), "one at a time");
        let grain = self.untold.pop_first()?;
        assert!(self.free.remove(&grain), "nobody has it");
        self.being_told = Some(grain);
        Some(grain)
    }

    pub fn told(&mut self) {
        let grain = self.being_told.take().expect("they were being told of one");
        self.free.insert(grain);
    }

    pub fn find(&self, owner: Owner) -> Option<u32> {
        self.map.get(&owner).copied()
    }

    /// Mapped grains of a volume.
    pub fn of_volume(&self, volume: u32) -> impl DoubleEndedIterator<Item = (Owner, u32)> + '_ {
        let all = Owner { volume, at: 0 }..=Owner { volume, at: u32::MAX };
        self.map.range(all).map(|(owner, grain)| (*owner, *grain))
    }

    /// A free grain, for whoever maps it or gives it back.
    /// One in this range if there is any.
    pub fn take(&mut self, near: Range<u32>) -> Option<u32> {
        let grain = self.free.range(near).next().or_else(|| self.free.first()).copied()?;
        self.free.remove(&grain);
        self.untold.remove(&grain);
        Some(grain)
    }

    pub fn give_back(&mut self, grain: u32) {
        assert!(self.owners[grain as usize].is_none(), "grain {grain} is mapped");
        self.free.insert(grain);
        self.untold.insert(grain);
    }

    pub fn map(&mut self, owner: Owner, grain: u32) {
        assert!(self.owners[grain as usize].replace(owner).is_none(), "grain {grain} is mapped");
        assert!(self.map.insert(owner, grain).is_none(), "{owner:?} has a grain already");
        self.dirty.insert(grain / PER_PAGE);
    }

    pub fn unmap(&mut self, owner: Owner) {
        let Some(grain) = self.map.remove(&owner) else { return };
        self.owners[grain as usize] = None;
        self.dirty.insert(grain / PER_PAGE);
        self.limbo.insert(grain, Limbo::Unrecorded);
    }

    /// A request on this grain begins: it stays what it is until [`Grains::release`].
    pub fn hold(&mut self, grain: u32) {
        *self.holds.entry(grain).or_default() += 1;
    }

    /// True: a grain became free.
    pub fn release(&mut self, grain: u32) -> bool {
        let holds = self.holds.get_mut(&grain).expect("it is held");
        *holds -= 1;
        if *holds > 0 {
            return false;
        }
        self.holds.remove(&grain);
        let recorded = self.limbo.get(&grain) == Some(&Limbo::Recorded);
        if recorded {
            self.set_free(grain);
        }
        recorded
    }

    /// The drives know who owns this grain.
    pub fn is_durable(&self, grain: u32) -> bool {
        let page = grain / PER_PAGE;
        !self.dirty.contains(&page) && !self.committing.contains(&page)
    }

    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Pages to be written, with the owners in them. One commit at a time.
    pub fn begin_commit(&mut self) -> Vec<(u32, Vec<Option<Owner>>)> {
        assert!(self.committing.is_empty(), "one commit at a time");
        self.committing = std::mem::take(&mut self.dirty);
        let unrecorded = self.limbo.values_mut().filter(|limbo| **limbo == Limbo::Unrecorded);
        unrecorded.for_each(|limbo| *limbo = Limbo::BeingRecorded);
        self.committing.iter().map(|&page| (page, self.page(page))).collect()
    }

    fn page(&self, page: u32) -> Vec<Option<Owner>> {
        let first = (page * PER_PAGE) as usize;
        self.owners[first..self.owners.len().min(first + PER_PAGE as usize)].to_vec()
    }

    /// The pages are durable, or (`false`) some may not be and all have to be written again.
    pub fn end_commit(&mut self, durable: bool) {
        let pages = std::mem::take(&mut self.committing);
        if !durable {
            self.dirty.extend(pages);
        }
        let (from, to) = (Limbo::BeingRecorded, [Limbo::Unrecorded, Limbo::Recorded]);
        let told = self.limbo.values_mut().filter(|limbo| **limbo == from);
        told.for_each(|limbo| *limbo = to[usize::from(durable)]);
        let unheld = self
            .limbo
            .iter()
            .filter(|(grain, limbo)| **limbo == Limbo::Recorded && !self.holds.contains_key(grain));
        let freed: Vec<u32> = unheld.map(|(grain, _)| *grain).collect();
        freed.into_iter().for_each(|grain| self.set_free(grain));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VOLUMES: u32 = 2;

    #[derive(Clone, Debug)]
    enum Step {
        Map(u32, u32),
        Unmap(u32, u32),
        Hold(u32, u32),
        Release,
        Begin,
        End(bool),
        Tell,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let owner = || (0..VOLUMES, 0u32..4);
        let step = prop_oneof![
            4 => owner().prop_map(|(v, at)| Step::Map(v, at)),
            3 => owner().prop_map(|(v, at)| Step::Unmap(v, at)),
            2 => owner().prop_map(|(v, at)| Step::Hold(v, at)),
            2 => Just(Step::Release),
            2 => Just(Step::Begin),
            2 => any::<bool>().prop_map(Step::End),
            2 => Just(Step::Tell),
        ];
        proptest::collection::vec(step, 0..80)
    }

    proptest! {
        /// No grain is given out that somebody may still look at, or that a crash could bring back
        /// for somebody else; and none is lost.
        #[test]
        fn a_grain_is_free_only_when_nobody_can_see_it(steps in steps()) {
            let mut grains = Grains::new(vec![None; 4], std::iter::once(0..4));
            grains.grow(4..6);
            // What the drives say, and the snapshot on its way to them.
            let mut drives: Vec<Option<Owner>> = vec![None; 6];
            let mut on_its_way: Option<Vec<Option<Owner>>> = None;
            let mut held: Vec<u32> = Vec::new();
            let mut being_told = None;
            for step in steps {
                match step {
                    Step::Map(volume, at) => {
                        let owner = Owner { volume, at };
                        if grains.find(owner).is_some() { continue }
                        let Some(grain) = grains.take(2..4) else { continue };
                        prop_assert!(!held.contains(&grain));
                        prop_assert!(being_told != Some(grain));
                        prop_assert_eq!(drives[grain as usize], None);
                        grains.map(owner, grain);
                    }
                    Step::Unmap(volume, at) => grains.unmap(Owner { volume, at }),
                    Step::Hold(volume, at) => {
                        let Some(grain) = grains.find(Owner { volume, at }) else { continue };
                        grains.hold(grain);
                        held.push(grain);
                    }
                    Step::Release => {
                        if let Some(grain) = held.pop() { grains.release(grain); }
                    }
                    Step::Begin if on_its_way.is_none() => {
                        let pages = grains.begin_commit();
                        let owners = pages.into_iter().next().map(|(_, owners)| owners);
                        on_its_way = Some(owners.unwrap_or_else(|| drives.clone()));
                    }
                    Step::End(durable) => {
                        let Some(owners) = on_its_way.take() else { continue };
                        if durable { drives = owners; }
                        grains.end_commit(durable);
                    }
                    Step::Begin => {}
                    Step::Tell if being_told.is_none() => {
                        being_told = grains.tell();
                        if let Some(grain) = being_told {
                            prop_assert!(!held.contains(&grain));
                            prop_assert_eq!(drives[grain as usize], None);
                        }
                    }
                    Step::Tell => {
                        grains.told();
                        being_told = None;
                    }
                }
                let mapped = (0..VOLUMES).map(|volume| grains.of_volume(volume).count());
                let mapped: usize = mapped.sum();
                prop_assert_eq!(mapped + grains.free() + grains.in_limbo(), 6);
                for volume in 0..VOLUMES {
                    for (owner, grain) in grains.of_volume(volume) {
                        let durable = grains.is_durable(grain);
                        prop_assert!(!durable || drives[grain as usize] == Some(owner));
                    }
                }
            }
        }
    }

    #[test]
    fn two_grains_of_one_owner_are_a_crash_between_pages() {
        let owner = Owner { volume: 1, at: 7 };
        let owners = vec![None, Some(owner), Some(owner)];
        let mut grains = Grains::new(owners, std::iter::once(0..3));
        assert_eq!((grains.find(owner), grains.free(), grains.in_limbo()), (Some(1), 1, 1));
        assert_eq!(grains.begin_commit(), [(0, vec![None, Some(owner), None])]);
        grains.end_commit(true);
        assert_eq!((grains.free(), grains.in_limbo()), (2, 0));
    }
}
