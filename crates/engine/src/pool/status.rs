//! What a pool says about itself.

use format::{StripeId, Uuid};
use io::Env;

use crate::api::{
    BacklogStatus, Counters, DriveOverride, DriveState, DriveStatus, DriveVerbError, EventKind,
    MemoryStatus, PoolStatus, Severity, SpaceStatus, StripePlaces,
};
use crate::monitor::Hedged;
use crate::pool::Pool;

impl<E: Env> Pool<E> {
    pub fn status(&self) -> PoolStatus {
        let shard = self.shard();
        let label = shard.labels.get();
        let state = shard.state.borrow();
        let class = state.space.class(self.inner.default_class);
        let drives: Vec<DriveStatus> =
            shard.array.indexes().map(|i| self.drive_status(i)).collect();
        let gone = shard.array.lost();
        let most = state.space.least_parity().unwrap_or(1);
        let monitor = &shard.array.monitor;
        PoolStatus {
            name: label.pool_name.clone(),
            uuid: label.pool,
            scheme: if label.scheme == format::SCHEME_FUSION { "fusion" } else { "fusion-nd" },
            block_size: label.block_size,
            parity: class.shape.parity,
            width: class.shape.width,
            layout: class.newest_layout().balance().to_string(),
            read_only: shard.read_only,
            failed: shard.failure.borrow().clone(),
            drives,
            volumes: self.volumes(),
            space: self.space_status(),
            counters: self.counters(),
            memory: self.memory(),
            recovery: self.inner.recovery,
            replicated_percent: state.settings.replicated_percent,
            conversion: state.settings.conversion,
            checksums: state.sums.is_enabled(),
            scrub: self.scrub_status(),
            lost_pages: shard.lost_pages(),
            rebalance: self.rebalance_status(),
            journal_fill_percent: shard.journal.stats().fill_percent,
            spike_handling: self.inner.options.spikes,
            backlog: self.backlog(),
            redundancy_margin: most.saturating_sub(gone) as u8,
            surviving_copies: (most + 1).saturating_sub(gone) as u8,
            read_hedges: monitor.hedge_budget(Hedged::Reads),
            write_hedges: monitor.hedge_budget(Hedged::Writes),
            loaded: monitor.is_loaded(),
            rebuild: shard.rebuild_status(),
        }
    }

    /// Drives that the pool is without, in no time.
    pub fn lost_drives(&self) -> Vec<(u16, Uuid)> {
        let array = &self.shard().array;
        let is_lost = |state| !matches!(state, DriveState::Active | DriveState::Restoring);
        let lost = array.indexes().filter(|&index| is_lost(array.member(index).state()));
        lost.map(|index| (index.0, array.member(index).uuid())).collect()
    }

    /// A stripe of the pool's own class, counted over all zones; `None` beyond the last.
    pub fn stripe(&self, number: u64) -> Option<StripePlaces> {
        let shard = self.shard();
        let state = shard.state.borrow();
        let class = state.space.class(self.inner.default_class);
        let mut left = number;
        let zone = (0..state.space.geometry.zone_count).find(|&zone| {
            let here = u64::from(class.stripes_in(zone));
            let found = left < here;
            left -= if found { 0 } else { here };
            found
        })?;
        let stripe = StripeId { zone, index: left as u32 };
        let mut drives = class.drives(stripe).into_iter().map(|drive| drive.0);
        let data = drives.by_ref().take(class.data()).collect();
        let spare = class.spare(stripe).map(|drive| drive.0);
        Some(StripePlaces { number, data, parity: drives.collect(), spare })
    }

    fn drive_status(&self, index: layout::DriveIndex) -> DriveStatus {
        let shard = self.shard();
        let member = shard.array.member(index);
        let monitor = &shard.array.monitor;
        let (health, decided, slow) = {
            let watch = monitor.watch(index).borrow();
            (watch.health, watch.decided, watch.slow_drive(monitor.now()))
        };
        let awaited = shard.array.awaited(index);
        // It is whole when the labels say so: until then a crash makes it restored again.
        let state = match (member.state(), awaited) {
            (DriveState::Active, Some(_)) => DriveState::Restoring,
            (state, _) => state,
        };
        DriveStatus {
            index: index.0,
            uuid: member.uuid(),
            name: member.name(),
            state,
            size: member.size(),
            counters: member.counters(),
            takes_discards: member.takes_discards(),
            health,
            decided,
            slow,
            spikes: monitor.spikes(index),
            latency: monitor.latencies(index),
            under_way: member.outstanding().into(),
            awaited,
            replacing: member.replacing(),
        }
    }

    pub fn space_status(&self) -> SpaceStatus {
        let shard = self.shard();
        let state = shard.state.borrow();
        let class = state.space.class(self.inner.default_class);
        let block = u64::from(shard.geometry.block_size);
        let (replicated, raid, limbo, total) = state.space.blocks();
        let (_, used) = state.space.live_footprint();
        let (used, available) = (used * 512, shard.available(&state, class));
        SpaceStatus {
            total: total * block,
            replicated: replicated * block,
            raid: raid * block,
            limbo: limbo * block,
            free: (total - replicated - raid - limbo) * block,
            used,
            available,
            usable: used + available,
        }
    }

    /// Need for space, to [`crate::PRESSURE_FULL`], at which writes are slowed.
    pub fn space_pressure(&self) -> u16 {
        self.shard().space_pressure()
    }

    pub fn backlog(&self) -> BacklogStatus {
        let shard = self.shard();
        let facts = shard.facts(self.inner.default_class);
        let (pauses, background_bytes) = shard.pacer.totals();
        let pending = shard.discard_pending();
        let state = shard.state.borrow();
        let copies = state.space.class(self.inner.default_class).copies() as u64;
        let tuples = state.space.tuple_count() as u64;
        BacklogStatus {
            tuples,
            tuples_due: policy::pace::tuples_due(&facts, copies, tuples),
            limbo_stripes: state.space.limbo_len() as u64,
            pressure_permille: shard.space_pressure(),
            background_bytes,
            pauses,
            discard_pending_bytes: pending,
            discarded_bytes: shard.discards.bytes(),
        }
    }

    pub fn counters(&self) -> Counters {
        let journal = self.shard().journal.stats();
        let counters = self.shard().counters.get();
        let (loads, load_nanos) = self.shard().array.monitor.loads();
        Counters {
            loads,
            load_nanos,
            journal_blocks: counters.journal_blocks + journal.blocks,
            journal_bytes: counters.journal_bytes + journal.bytes,
            hedged_journal_blocks: counters.hedged_journal_blocks + journal.hedged,
            ..counters
        }
    }

    /// An operator's word on a drive: gone round, trusted, or judged by its answers.
    pub fn drive_decide(&self, index: u16, decided: DriveOverride) -> Result<(), DriveVerbError> {
        self.shard().decide(self.drive_index(index)?, decided);
        Ok(())
    }

    /// The drive is not used any more, whatever it holds. Refused if a volume would lose data,
    /// unless forced.
    pub async fn drive_fail(
        &self,
        index: u16,
        reason: &str,
        force: bool,
    ) -> Result<(), DriveVerbError> {
        let _inside = self.enter().await;
        let shard = self.shard();
        let drive = self.drive_index(index)?;
        let gone = |&other: &layout::DriveIndex| other == drive || shard.array.is_missed(other);
        let gone = shard.array.indexes().filter(gone).count();
        let parity = shard.least_parity();
        if gone > parity && !force {
            return Err(DriveVerbError::Needed { index, gone, parity });
        }
        Ok(shard.fail_drive(drive, reason, force).await?)
    }

    /// An event of what whoever opened the drives found out about them, or one of them.
    pub fn tell(&self, drive: Option<u16>, what: (Severity, EventKind), text: String) {
        self.shard().tell(drive.map(layout::DriveIndex), what, text);
    }

    /// Puts a drive in another one's place; what is on it is lost. In a lost one's place, which
    /// it may be itself, it is restored; one that works is copied onto it first.
    pub async fn drive_replace(&self, index: u16, drive: E::Drive) -> Result<(), DriveVerbError> {
        let _inside = self.enter().await;
        let (shard, at) = (self.shard(), self.drive_index(index)?);
        match shard.array.member(at).state() {
            DriveState::Active => shard.exchange(at, drive).await,
            _ => shard.replace(at, drive).await,
        }
    }

    /// Begins to move what an active drive holds to the others. When that is over the drive is
    /// vacated, and nobody uses it.
    pub async fn drive_remove(&self, index: u16) -> Result<(), DriveVerbError> {
        let at = self.drive_index(index)?;
        self.steady()?.remove(at).await
    }

    /// The drive stays, and gets back what was moved.
    pub async fn drive_remove_stop(&self, index: u16) -> Result<(), DriveVerbError> {
        let at = self.drive_index(index)?;
        self.steady()?.remove_stop(at).await
    }

    /// What lost or leaving drives held stays where it is until it is told to go on, or the pool
    /// is opened again.
    pub fn rebuild_pause(&self) {
        self.shard().rebuild_hold(true);
    }

    pub fn rebuild_resume(&self) {
        self.shard().rebuild_hold(false);
    }

    fn drive_index(&self, index: u16) -> Result<layout::DriveIndex, DriveVerbError> {
        let drives = self.shard().array.len();
        let known = usize::from(index) < drives;
        known.then_some(layout::DriveIndex(index)).ok_or(DriveVerbError::NotFound { index, drives })
    }

    /// Events after number `after`, oldest first; 0 for all that are remembered.
    pub fn events(&self, after: u64) -> Vec<crate::api::PoolEvent> {
        self.shard().events.after(after)
    }

    /// Single spikes, which have numbers of their own: no event tells of each.
    pub fn spikes(&self, after: u64) -> Vec<crate::api::PoolEvent> {
        self.shard().events.spikes_after(after)
    }

    /// Completes at the next event, or spike.
    pub fn next_event(&self) -> io::sync::EventWait {
        self.shard().events.wait()
    }

    pub fn memory(&self) -> MemoryStatus {
        let shard = self.shard();
        let state = shard.state.borrow();
        let (map_bytes, patch_bytes) = state.map.memory();
        let (space_bytes, tuple_bytes) = state.space.memory();
        MemoryStatus {
            map_bytes,
            space_bytes,
            tuple_bytes,
            patch_bytes,
            patches: state.map.patches(),
            patch_budget_bytes: state.settings.patch_budget,
            sum_bytes: state.sums.memory(),
            checkpoint_bytes: state.meta.used_bytes(),
        }
    }
}
