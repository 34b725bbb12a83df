//! Rebalancing: zones that lie on fewer drives than they could are emptied, one at a time and at
//! the pace of background work, and given out anew on all of them.
//!
//! What is written meanwhile goes rather to zones that lie on all drives already. Whether a pool is
//! being rebalanced is one of its settings, so that it goes on when the pool is opened again; how
//! far it is follows from the zones.

use std::rc::Rc;

use format::Record;
use io::Env;

use crate::api::{EventKind, RebalanceState, RebalanceStatus, RequestError, Severity};
use crate::checkpoint::SETTING_REBALANCE;
use crate::geometry::Class;
use crate::limits::REBALANCE_RETRY;
use crate::pool::Pool;
use crate::shard::Shard;

impl<E: Env> Pool<E> {
    /// Begins to move what lies on fewer drives than it could, in the background.
    pub async fn rebalance(&self) -> Result<(), RequestError> {
        self.change_rebalance(true).await
    }

    /// Ends it, after the zone that is being emptied now.
    pub async fn rebalance_stop(&self) -> Result<(), RequestError> {
        self.change_rebalance(false).await
    }

    async fn change_rebalance(&self, wanted: bool) -> Result<(), RequestError> {
        let _inside = self.enter().await;
        let shard = self.shard();
        shard.check_usable()?;
        shard.set_rebalance(wanted);
        shard.flush_for_client().await
    }

    pub fn rebalance_status(&self) -> RebalanceStatus {
        let shard = self.shard();
        let state = shard.state.borrow();
        let waits = shard.rebalance_after.get() > shard.env.now();
        RebalanceStatus {
            zones_left: state.space.outdated().count() as u32,
            zones_total: shard.geometry.zone_count,
            state: match state.settings.rebalance {
                false => RebalanceState::Idle,
                true if waits => RebalanceState::Waiting,
                true => RebalanceState::Running,
            },
        }
    }
}

impl<E: Env> Shard<E> {
    fn set_rebalance(&self, wanted: bool) {
        let mut state = self.state.borrow_mut();
        state.settings.rebalance = wanted;
        state.space.prefer_newest = wanted;
        state.config_dirty = true;
        self.journal.append(&Record::Setting { key: SETTING_REBALANCE, value: wanted.into() });
        self.rebalance_after.set(self.env.now());
        drop(state);
        self.work.notify_all();
    }

    /// One part of it. True if a zone came free.
    pub async fn rebalance_step(&self) -> Result<bool, RequestError> {
        if !self.state.borrow().settings.rebalance || self.rebalance_after.get() > self.env.now() {
            return Ok(false);
        }
        let left = self.state.borrow().space.outdated().count();
        if left == 0 {
            self.end_rebalance();
            return Ok(false);
        }
        // One that is being emptied already is seen to by `drain_for`, whomever it is for.
        let zone = {
            let state = self.state.borrow();
            let begun = state.space.zone_draining().is_some();
            if begun { None } else { Some(state.space.zone_to_relist()) }
        };
        let Some(chosen) = zone else { return Ok(false) };
        let Some(zone) = chosen else {
            // Compaction and conversion may make room; looking at all zones costs too much to do
            // it ten times a second.
            self.rebalance_after.set(self.env.now() + REBALANCE_RETRY);
            return Ok(false);
        };
        let owner = self.state.borrow().space.class_of_zone(zone).cloned();
        let Some(owner) = owner else { return Ok(false) };
        self.add_newest(&owner);
        let freed = self.drain(zone, owner).await?;
        if self.state.borrow().space.zone_draining().is_none() && !freed {
            self.rebalance_after.set(self.env.now() + REBALANCE_RETRY);
        }
        Ok(freed)
    }

    /// What moves should not come to lie where it has to move from again.
    fn add_newest(&self, class: &Rc<Class>) {
        let mut state = self.state.borrow_mut();
        if !state.space.has_newest_with_free(class.id) {
            self.add_zone(&mut state, class);
        }
    }

    fn end_rebalance(&self) {
        self.set_rebalance(false);
        let text = "all zones lie on all drives that have them".to_owned();
        self.tell(None, (Severity::Info, EventKind::Rebalanced), text);
    }
}
