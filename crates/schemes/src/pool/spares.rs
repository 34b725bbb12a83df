//! Drives that wait for the place of one that is lost.
//!
//! ```text
//!   add ── wiped ── label: spare, no place ──┬── a drive is lost for `rebuild_after` ──┐
//!                                            │                                         │
//!   remove ◄── wiped ────────────────────────┘        label: member, restoring ◄───────┘
//! ```
//! The label of a spare carries the identity that its drive keeps as a member, and is written over.
//! So a crash while a spare takes a place leaves a spare that nobody names, and is one still; a
//! spare that labels of members name as restoring, and is given the place again; or a member.

use std::collections::BTreeMap;
use std::rc::Rc;

use classical::label;
use format::{INCOMPAT_SET, Superblock, Uuid, end_area};
use io::{Drive, Env, Nanos};

use super::{Decided, DriveInfo, DriveState, Inner, LOOK, Pool, Severity};
use crate::part::Part;
use crate::part::hang::Patience;
use crate::scheme::Scheme;
use crate::store::{Replace, Store, StoreError, refuse_drive};
use crate::watch::Watch;

/// Spares of a pool. More than a few wait for losses that would take all the data with them first.
pub const SPARES_MAX: usize = 16;
/// A spare that could not take a place is tried again after this: it may have been refused only
/// because another drive was being filled.
pub const SPARE_RETRY: Nanos = Nanos::from_secs(10);

pub(super) struct Spare {
    pub identity: Uuid,
    pub part: Part,
}

impl Spare {
    fn info(&self, index: usize) -> DriveInfo {
        DriveInfo {
            index: index as u16,
            uuid: self.identity,
            name: self.part.name(),
            state: DriveState::Spare,
            size: self.part.geometry().size,
            counters: self.part.counters(),
            takes_discards: Some(self.part.takes_write_zeroes()),
            seen: self.part.seen(),
            decided: Decided::Automatic,
            slow: None,
            suspect: false,
            restoring: None,
            replacing: None,
            eta: None,
        }
    }
}

fn refuse<T>(name: &str, hint: &'static str) -> Result<T, StoreError> {
    Err(StoreError::Shape { what: format!("drive {name} as a spare"), hint })
}

/// Whether a drive of this size has room for what the one in this place holds.
fn has_room(array: &Superblock, place: usize, size: u64) -> bool {
    match array.features.incompat & INCOMPAT_SET {
        0 => end_area(size) >= array.zones.offset + array.zones.len,
        _ => size >= array.members[place].size,
    }
}

impl<E: Env> Pool<E> {
    /// Makes a spare of a drive, whatever is on it but another pool's label.
    pub async fn spare_add(&self, new: E::Drive) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let _turn = inner.drive_turn.lock().await;
        let (name, size) = (new.name(), new.geometry().size);
        let part = Part::whole(new).with_patience(Patience::new(&inner.env));
        if inner.scheme == Scheme::Raid0 {
            return refuse(&name, "this scheme has no redundancy to fill it from");
        }
        if inner.spares.borrow().len() >= SPARES_MAX {
            return refuse(&name, "the pool has 16 spares, and takes no more");
        }
        let places = 0..inner.drives.borrow().len();
        if !places.clone().any(|place| inner.has_room(place, size)) {
            return refuse(&name, "it is smaller than any drive of the pool: take a larger one");
        }
        if !places.clone().any(|place| inner.fits(place, &part)) {
            return refuse(&name, "its unit is larger than that of the pool's drives");
        }
        if let Some(own) = label::read(&part).await {
            if own.home() != inner.label.pool {
                return refuse(&name, "it has the label of another pool: give one that is blank");
            }
            let members = inner.uuids.borrow();
            let member = members.iter().position(|uuid| *uuid == own.drive);
            let used = member.is_some_and(|at| !inner.volumes.store().lost().contains(&at));
            if used || inner.spares.borrow().iter().any(|spare| spare.identity == own.drive) {
                return refuse(&name, "it is in use in this pool already");
            }
        }
        let identity = Uuid::from_random(inner.env.unique_id());
        let written = label::write_spare(&inner.label, identity, &part).await;
        written.map_err(|_| StoreError::NotWritten { name: name.clone() })?;
        inner.spares.borrow_mut().push(Spare { identity, part });
        let text = format!("drive {name} is a spare, and takes the place of one that is lost");
        inner.tell(Severity::Info, "spare-added", None, text);
        Ok(())
    }

    /// Lets go of a spare. Its label is wiped.
    pub async fn spare_remove(&self, identity: Uuid) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let _turn = inner.drive_turn.lock().await;
        let taken = inner.take_out(identity);
        let Some(Spare { part, .. }) = taken else {
            return refuse(&identity.to_string(), "it is none of this pool");
        };
        let wiped = label::wipe_all(&part).await;
        part.let_go();
        let name = part.name();
        inner.tell(Severity::Info, "spare-removed", None, format!("spare {name} was removed"));
        wiped.map_err(|_| StoreError::NotWritten { name })
    }

    /// Whether there is a spare for this place.
    pub fn has_spare_for(&self, place: usize) -> bool {
        self.inner.spare_for(place).is_some()
    }

    /// A spare takes the place of this drive. One that works is copied onto it and has its place
    /// until that is done, if a spare is as large; otherwise it is let go of at once, and counts as
    /// lost until the spare has everything.
    pub async fn drive_remove(&self, place: usize) -> Result<(), StoreError> {
        let inner = &self.inner;
        let _turn = inner.drive_turn.lock().await;
        let (store, name) = (inner.volumes.store(), inner.name_of(place));
        if inner.spare_for(place).is_none() {
            let hint = "no spare fits its place: add one first ('steadyraid drive add'), or \
                        replace it ('steadyraid drive replace')";
            return refuse_drive(&name, place, hint);
        }
        if !store.restoring().is_empty() {
            let hint = "a drive is being filled: wait until that is done";
            return refuse_drive(&name, place, hint);
        }
        if let Some(spare) = inner.spare_to_copy_onto(place).await {
            let Some(Spare { identity, part }) = inner.take_out(spare) else { unreachable!() };
            let begun = inner.begin_exchange(place, part.clone(), Some(identity)).await;
            if begun.is_err() {
                inner.spares.borrow_mut().push(Spare { identity, part });
            }
            return begun;
        }
        let old = inner.drives.borrow()[place].clone();
        if !store.lost().contains(&place) {
            if !store.bears(place) {
                let hint = "without it data would be lost: no redundancy is left there";
                return refuse_drive(&name, place, hint);
            }
            store.write_off(place).await?;
            inner.known.borrow_mut().push(place);
            let text = format!("drive {place} ({name}) is removed: a spare takes its place");
            inner.tell(Severity::Info, "drive-removed", Some(place), text);
        }
        inner.use_spare(place).await?;
        if let Some(old) = old {
            // Nobody believes its label any more; this is so that nobody wonders at it.
            let _ = label::wipe_all(&old).await;
            old.let_go();
        }
        Ok(())
    }

    /// Spares take no places, and those that are being filled wait.
    pub fn rebuild_pause(&self, paused: bool) {
        self.inner.paused.set(paused);
        self.inner.volumes.store().hold(paused);
    }

    pub(super) fn spares(&self, first: usize) -> Vec<DriveInfo> {
        let spares = self.inner.spares.borrow();
        spares.iter().enumerate().map(|(at, spare)| spare.info(first + at)).collect()
    }
}

impl<E: Env> Inner<E> {
    fn has_room(&self, place: usize, size: u64) -> bool {
        self.with_listed(place, |label, at| has_room(label, at, size))
    }

    fn take_out(&self, identity: Uuid) -> Option<Spare> {
        let mut spares = self.spares.borrow_mut();
        let at = spares.iter().position(|spare| spare.identity == identity)?;
        Some(spares.remove(at))
    }

    fn fits(&self, place: usize, part: &Part) -> bool {
        let aligns = |part: &Part| part.geometry().align;
        let drives = self.drives.borrow();
        let most = drives.iter().flatten().map(aligns).max().unwrap_or(512);
        let geometry = part.geometry();
        !part.hangs() && geometry.align <= most && self.has_room(place, geometry.size)
    }

    /// The smallest that fits: larger ones may be needed elsewhere.
    fn spare_for(&self, place: usize) -> Option<Uuid> {
        let spares = self.spares.borrow();
        let fitting = spares.iter().filter(|spare| self.fits(place, &spare.part));
        fitting.min_by_key(|spare| spare.part.geometry().size).map(|spare| spare.identity)
    }

    /// The smallest that is as large as the drive in this place, if that works.
    async fn spare_to_copy_onto(&self, place: usize) -> Option<Uuid> {
        let part = self.drives.borrow()[place].clone().filter(|_| self.works(place))?;
        let size = label::read(&part).await?.drive_size;
        let spares = self.spares.borrow();
        let large = |spare: &&Spare| spare.part.geometry().size >= size;
        let fitting = spares.iter().filter(large).filter(|spare| self.fits(place, &spare.part));
        fitting.min_by_key(|spare| spare.part.geometry().size).map(|spare| spare.identity)
    }

    /// The turn of drives is held, and the drive in this place is lost.
    pub(super) async fn use_spare(self: &Rc<Self>, place: usize) -> Result<(), StoreError> {
        let taken = self.spare_for(place).and_then(|identity| self.take_out(identity));
        let Some(spare) = taken else {
            return refuse_drive("", place, "no spare fits its place");
        };
        let Spare { identity, part } = &spare;
        let member = part.clone().watched(Watch::new(&self.env));
        let taken = self.put(place, member.with_identity(*identity)).await;
        if taken.is_err() {
            self.spares.borrow_mut().push(spare);
            return taken;
        }
        let text = format!("spare {} takes the place of drive {place}", part.name());
        self.tell(Severity::Info, "spare-used", Some(place), text);
        Ok(())
    }

    /// Lost drives that nobody has the place of, those first that can't come back by themselves. If
    /// there are such, others are lost only with them (as the rest of a replica), and come back.
    fn vacant(&self) -> Vec<usize> {
        let (store, drives) = (self.volumes.store(), self.drives.borrow());
        let restoring = store.restoring();
        let is_gone = |place: &usize| {
            let part = drives[*place].as_ref();
            let works = part.is_some_and(|part| !part.is_let_go() && !part.hangs());
            !works || self.missing.borrow().contains(place) || self.has_failed(*place)
        };
        let lost = store.lost().into_iter();
        let lost: Vec<usize> =
            lost.filter(|place| !restoring.iter().any(|own| own.place == *place)).collect();
        let (mut gone, others): (Vec<usize>, Vec<usize>) = lost.into_iter().partition(is_gone);
        gone.sort_by_key(|place| drives[*place].is_some());
        if gone.is_empty() { others } else { gone }
    }

    fn note_progress(&self, now: Nanos) {
        let mut under_way = self.volumes.store().restoring();
        under_way.extend(self.exchange.borrow().as_ref().map(|own| own.replacing().progress));
        self.progress.borrow_mut().note(now, &under_way);
    }

    /// Gives lost drives' places to spares.
    pub(super) async fn use_spares(self: Rc<Self>) {
        let (mut since, mut retry) = (BTreeMap::new(), Nanos::ZERO);
        while !self.stopping.get() {
            self.env.sleep_until(self.env.now() + LOOK).await;
            let (now, vacant) = (self.env.now(), self.vacant());
            self.note_progress(now);
            since.retain(|place, _| vacant.contains(place));
            for place in &vacant {
                since.entry(*place).or_insert(now);
            }
            let Some(after) = self.options.rebuild_after else { continue };
            if now < retry || self.paused.get() || self.spares.borrow().is_empty() {
                continue;
            }
            let due = |place: &&usize| {
                since[*place] + after <= now
                    && !self.offline.borrow().contains(place)
                    && self.spare_for(**place).is_some()
            };
            let Some(&place) = vacant.iter().find(due) else { continue };
            let _turn = self.drive_turn.lock().await;
            if !self.vacant().contains(&place) || self.stopping.get() {
                continue;
            }
            if let Err(error) = self.use_spare(place).await {
                retry = self.env.now() + SPARE_RETRY;
                let text = format!("no spare took the place of drive {place}: {error}");
                self.tell(Severity::Warning, "spare-refused", Some(place), text);
            }
        }
    }
}
