//! Drives that were away and are back join by themselves.
//!
//! ```text
//! a pool lacks drives ── the drives given to the server are looked at every LOOK_EVERY, apart
//!                                   │
//!      not found at the look before, and found now: it has arrived
//!                                   │
//!            ┌──────────────────────┴───────────────┐
//! its pool is served: it joins with        its pool could not be opened:
//! what it missed                           that is tried again
//! ```
//! A path that is lost is no drive that is dead: it is found again, maybe by another name, and its
//! label says who it is. One that was failed and is here all the time has not been away, and one
//! that an operator took out of use comes back when he says so.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use format::Uuid;
use io::uring::UringEnv;
use io::{Env, Nanos};

use super::exports::Catalogue;
use crate::drives::name::DriveName;
use crate::drives::scan::{self, Group};

/// A look reads the labels of all drives given, as the start does.
const LOOK_EVERY: Nanos = Nanos::from_secs(5);

/// A drive that joined and was lost again within this time has a bad path. It would be filled for
/// ever, so it waits for an operator.
const JOINS_AGAIN_AFTER: Nanos = Nanos::from_secs(600);

pub(crate) struct Absent {
    env: UringEnv,
    catalogue: Catalogue,
    looks: RefCell<Looks>,
}

struct Looks {
    /// Who was here at the last look; `None` if nobody looked because no pool lacked a drive.
    here: Option<BTreeSet<Uuid>>,
    /// When drives joined by themselves.
    joined: BTreeMap<Uuid, Nanos>,
    /// Why drives that are here could not join, the last time.
    refused: BTreeMap<Uuid, String>,
}

/// Drives that are here now and were not before.
pub(crate) struct Arrived {
    groups: Vec<Group>,
    drives: BTreeMap<Uuid, Join>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Join {
    /// At once.
    Yes,
    /// It has done so a short while ago.
    TooOften,
}

impl Absent {
    /// `here`: the drives that the start has found, but those that came back before it.
    pub fn new(env: &UringEnv, catalogue: &Catalogue, here: BTreeSet<Uuid>) -> Absent {
        let (joined, refused) = (BTreeMap::new(), BTreeMap::new());
        let looks = RefCell::new(Looks { here: Some(here), joined, refused });
        Absent { env: env.clone(), catalogue: catalogue.clone(), looks }
    }

    /// Completes when drives on `sources` have arrived while pools lack some.
    pub async fn until_some_arrive(&self, sources: &[DriveName]) -> Arrived {
        loop {
            self.env.sleep_until(self.env.now() + LOOK_EVERY).await;
            if !self.catalogue.lacks_drives() {
                self.looks.borrow_mut().here = None;
                continue;
            }
            // What can't be used was told of when it was given.
            let Ok(groups) = scan::groups(&self.env, sources, |_| {}).await else { continue };
            let drives = self.arrived(&groups);
            if !drives.is_empty() {
                return Arrived { groups, drives };
            }
        }
    }

    fn arrived(&self, groups: &[Group]) -> BTreeMap<Uuid, Join> {
        let (mut looks, now) = (self.looks.borrow_mut(), self.env.now());
        let here: BTreeSet<Uuid> = groups.iter().flat_map(Group::identities).collect();
        let before = looks.here.replace(here.clone());
        let news = before.map_or_else(BTreeSet::new, |before| &here - &before);
        let joined = &mut looks.joined;
        joined.retain(|_, at| now < *at + JOINS_AGAIN_AFTER);
        let judge = |drive| match joined.contains_key(&drive) {
            false => (drive, Join::Yes),
            true => (drive, Join::TooOften),
        };
        let is_wanted = |drive: &Uuid| {
            let is_copied = groups.iter().any(|group| group.is_copied(*drive));
            !is_copied && !self.catalogue.is_kept_out(*drive)
        };
        news.into_iter().filter(is_wanted).map(judge).collect()
    }

    pub fn record_join(&self, drive: Uuid) {
        let mut looks = self.looks.borrow_mut();
        looks.joined.insert(drive, self.env.now());
        looks.refused.remove(&drive);
    }

    /// What kept it from joining may be over at the next look. True if the reason is news.
    pub fn record_refusal(&self, drive: Uuid, why: &str) -> bool {
        let mut looks = self.looks.borrow_mut();
        if let Some(here) = &mut looks.here {
            here.remove(&drive);
        }
        looks.refused.insert(drive, why.to_owned()).is_none_or(|before| before != why)
    }
}

impl Arrived {
    /// Pools that some of them are of, with all drives that are here.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups
            .iter()
            .filter(|group| group.identities().any(|drive| self.join(drive).is_some()))
    }

    /// `None`: it is not one of them.
    pub fn join(&self, drive: Uuid) -> Option<Join> {
        self.drives.get(&drive).copied()
    }
}
