//! Scrub: everything in use is read, compared with what it should be, and put right.
//!
//! ```text
//!  for each zone:  RAID stripes: data against sums, parity against data
//!                  tuples: every copy of every page against its sum
//!  then metadata:  every copy of every object, every label
//! ```
//! At the pace of background work, and in the order of zones. What is written meanwhile is written
//! as it should be; what moves from a zone to come to one that was looked at is newly written.
//!
//! Without sums, copies and parity are compared: that they differ is counted, also where nobody
//! reads any more (a crash in the middle of a write), and only what a drive refuses is written.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use format::{FormatError, LABEL_LEN, ObjectKey, SLOT_LEN, StripeId, Superblock, decode_slot};
use io::slice::Work;
use io::sync::Event;
use io::{Buf, Durability, Env, join_all};
use layout::DriveIndex;
use policy::rot::LostPages;

use crate::api::{EventKind, RequestError, ScrubState, ScrubStatus, Severity};
use crate::geometry::Class;
use crate::label::for_drive;
use crate::limits::{SCRUB_LOST_MAX, SCRUB_OBJECTS_AT_ONCE, STRIPES_AT_ONCE};
use crate::mend::{LostPage, Mended, Unit, Whose};
use crate::shard::Shard;
use crate::space::Kind;

/// How a scrub stands, and what it is told.
#[derive(Default)]
pub struct Scrub {
    status: RefCell<ScrubStatus>,
    /// Which scrub it is: one that was stopped notices that it is not the one any more.
    number: Cell<u64>,
    told: Event,
    /// The first lost pages that it found.
    lost: RefCell<BTreeSet<LostPage>>,
}

impl Scrub {
    pub fn status(&self) -> ScrubStatus {
        self.status.borrow().clone()
    }

    /// How the one before of a pool that goes on stands.
    pub fn inherit(&self, before: &Scrub) {
        *self.status.borrow_mut() = before.status();
        self.number.set(before.number.get());
    }

    fn change(&self, change: impl FnOnce(&mut ScrubStatus)) {
        change(&mut self.status.borrow_mut());
    }

    pub fn wake(&self) {
        self.told.notify_all();
    }
}

impl<E: Env> Shard<E> {
    /// Begins from the start; one that is running or paused goes on instead.
    pub fn scrub_start(&self) -> Result<(), RequestError> {
        self.check_usable()?;
        let state = self.scrub.status.borrow().state;
        if matches!(state, ScrubState::Running | ScrubState::Paused) {
            self.scrub_resume();
            return Ok(());
        }
        let number = self.scrub.number.get() + 1;
        self.scrub.number.set(number);
        *self.scrub.status.borrow_mut() = ScrubStatus {
            state: ScrubState::Running,
            total_bytes: self.bytes_in_use(),
            started_nanos: self.env.now().0,
            ..ScrubStatus::default()
        };
        self.scrub.lost.borrow_mut().clear();
        self.note_lost_pages(LostPages::scrub_begins);
        let text = "a scrub has begun".to_owned();
        self.tell(None, (Severity::Info, EventKind::ScrubStarted), text);
        let shard = self.own();
        self.own().spawn_task(Work::Scrub, async move { shard.scrub_task(number).await });
        Ok(())
    }

    pub fn scrub_pause(&self) {
        self.scrub.change(|status| {
            if status.state == ScrubState::Running {
                status.state = ScrubState::Paused;
            }
        });
    }

    pub fn scrub_resume(&self) {
        self.scrub.change(|status| {
            if status.state == ScrubState::Paused {
                status.state = ScrubState::Running;
            }
        });
        self.scrub.wake();
    }

    pub fn scrub_stop(&self) {
        self.end_scrub(self.scrub.number.get(), ScrubState::Stopped);
        self.scrub.wake();
    }

    fn bytes_in_use(&self) -> u64 {
        let state = self.state.borrow();
        let (replicated, raid, _, _) = state.space.blocks();
        (replicated + raid) * u64::from(self.geometry.block_size)
    }

    fn end_scrub(&self, number: u64, state: ScrubState) {
        self.end_scrub_with(number, state, Whose::default());
    }

    fn end_scrub_with(&self, number: u64, state: ScrubState, whose: Whose) {
        let now = self.env.now();
        let running =
            |status: &ScrubStatus| matches!(status.state, ScrubState::Running | ScrubState::Paused);
        if self.scrub.number.get() != number || !running(&self.scrub.status.borrow()) {
            return;
        }
        self.scrub.change(|status| {
            status.state = state;
            status.ended_nanos = now.0;
            status.lost_pages = status.lost_pages.saturating_sub(whose.superseded);
        });
        self.tell_mended(true);
        let status = self.scrub.status();
        if state == ScrubState::Done {
            let (lost, superseded) = (status.lost_pages, whose.superseded);
            self.note_lost_pages(|pages, total| pages.scrub_ends(total, lost, superseded));
        }
        let severity = match status {
            _ if status.lost_pages > 0 => Severity::Error,
            _ if status.bad_pages + status.repaired_parity + status.metadata_repaired > 0 => {
                Severity::Warning
            }
            _ => Severity::Info,
        };
        let text = format!(
            "the scrub is {state}: {} MiB read, {} pages bad, {} of them repaired, {} lost; parity \
             of {} pages and {} copies of metadata repaired{}{}",
            status.checked_bytes >> 20,
            status.bad_pages,
            status.repaired_pages,
            status.lost_pages,
            status.repaired_parity,
            status.metadata_repaired,
            if whose.told.is_empty() { "" } else { "; lost: " },
            whose.told,
        );
        self.tell(None, (severity, EventKind::ScrubEnded), text);
    }

    /// Waits while the scrub is paused; false when it is over.
    async fn scrub_goes_on(&self, number: u64) -> bool {
        loop {
            if self.stopping() || self.scrub.number.get() != number {
                return false;
            }
            let state = self.scrub.status.borrow().state;
            match state {
                ScrubState::Running => return true,
                ScrubState::Paused => {
                    // Closing the pool wakes whoever paces itself.
                    let told = self.scrub.told.wait();
                    futures_util::future::select(told, Box::pin(self.pacer.woken())).await;
                }
                _ => return false,
            }
        }
    }

    async fn scrub_task(&self, number: u64) {
        for zone in 0..self.geometry.zone_count {
            if !self.scrub_zone(number, zone).await {
                return self.end_scrub(number, ScrubState::Stopped);
            }
        }
        if !self.scrub_metadata(number).await {
            return self.end_scrub(number, ScrubState::Stopped);
        }
        let lost = self.scrub.lost.take();
        let whose = self.whose(&lost).await;
        self.end_scrub_with(number, ScrubState::Done, whose);
    }

    // ---- data

    async fn scrub_zone(&self, number: u64, zone: u32) -> bool {
        let Some((class, stripes)) = self.stripes_to_scrub(zone) else {
            return self.scrub_goes_on(number).await;
        };
        for some in stripes.chunks(STRIPES_AT_ONCE) {
            if !self.scrub_goes_on(number).await {
                return false;
            }
            let drives = || some.iter().flat_map(|&stripe| class.drives(stripe));
            let turn = self.pace(|| self.queue_of(drives())).await;
            // What is somebody's now is given away only after this.
            let guard = self.reads.enter();
            let scrub = |&stripe: &StripeId| self.scrub_stripe(&class, stripe);
            let read: u64 = join_all(some.iter().map(scrub)).await.into_iter().sum();
            drop(guard);
            turn.moved(read as usize);
            drop(turn);
            self.scrub.change(|status| status.checked_bytes += read);
            self.env.yield_now().await;
        }
        true
    }

    /// RAID stripes of a zone, and tuples that are named after a stripe of it.
    fn stripes_to_scrub(&self, zone: u32) -> Option<(Rc<Class>, Vec<StripeId>)> {
        let state = self.state.borrow();
        let (class, stripes) = state.space.held_in(zone)?;
        let wanted = |&(stripe, kind): &(StripeId, Kind)| match kind {
            Kind::Raid => true,
            Kind::Tuple => state.space.tuple(stripe).is_some(),
            _ => false,
        };
        let stripes = stripes.filter(wanted).map(|(stripe, _)| stripe).collect();
        Some((class.clone(), stripes))
    }

    /// Returns the bytes read.
    async fn scrub_stripe(&self, class: &Rc<Class>, stripe: StripeId) -> u64 {
        let mut read = 0;
        for unit in self.units(class, stripe) {
            let pages = self.pages_of(class, stripe, &unit);
            if pages == 0 {
                continue;
            }
            let rows = self.look(class, stripe, &unit, (0, pages)).await;
            read += (unit.members().len() * pages * io::PAGE) as u64;
            for (page, _) in rows.iter().enumerate().filter(|(_, row)| !row.is_sound()) {
                let Mended { bad, repaired, parity, lost } =
                    self.mend(class, stripe, &unit, (page, 1)).await;
                self.scrub.change(|status| {
                    status.bad_pages += bad;
                    status.repaired_pages += repaired;
                    status.repaired_parity += parity;
                    status.lost_pages += lost.len() as u64;
                });
                let mut known = self.scrub.lost.borrow_mut();
                let room = SCRUB_LOST_MAX.saturating_sub(known.len());
                known.extend(lost.into_iter().take(room));
            }
        }
        read
    }

    /// Of a slot as many as were written.
    fn pages_of(&self, class: &Class, stripe: StripeId, unit: &Unit) -> usize {
        match unit {
            Unit::Stripe { .. } => usize::from(self.geometry.block_pages()),
            Unit::Copies { slot, .. } => {
                let state = self.state.borrow();
                if self.state.borrow().sums.is_enabled() {
                    let known = |&page: &usize| state.sums.get(class, stripe, *slot, page) != 0;
                    let pages = 0..usize::from(self.geometry.block_pages());
                    return pages.rev().find(known).map_or(0, |last| last + 1);
                }
                // Without sums, what is being written can't be told from what differs.
                let quiet = state.space.tuple(stripe).filter(|tuple| tuple.is_quiet());
                quiet.map_or(0, |tuple| usize::from(tuple.filled[*slot]))
            }
        }
    }

    // ---- metadata

    async fn scrub_metadata(&self, number: u64) -> bool {
        let keys: Vec<ObjectKey> = self.state.borrow().meta.objects.keys().copied().collect();
        for some in keys.chunks(SCRUB_OBJECTS_AT_ONCE) {
            if !self.scrub_goes_on(number).await {
                return false;
            }
            // As long as no checkpoint is written, the slots of objects keep what they hold.
            let still = self.checkpoint_turn.lock().await;
            let turn = self.pace(|| self.queue_of(self.array.indexes())).await;
            join_all(some.iter().map(|&key| self.scrub_object(key))).await;
            drop(still);
            turn.moved(some.len() * SLOT_LEN);
        }
        self.scrub_labels().await;
        let _ = self.record_failures().await;
        true
    }

    async fn scrub_object(&self, key: ObjectKey) {
        let stored = self.state.borrow().meta.objects.get(&key).cloned();
        let Some(stored) = stored else { return };
        for part in 0..stored.parts() {
            let places = self.state.borrow().meta.places_of(&stored, part);
            self.scrub_part((key, stored.seq, usize::from(part)), &places).await;
        }
    }

    /// Copies of one part.
    async fn scrub_part(&self, own: (ObjectKey, u64, usize), places: &[(DriveIndex, u64)]) {
        let (pool, area) = (self.labels.pool(), self.labels.meta().offset);
        let read = |&(drive, at): &(DriveIndex, u64)| async move {
            match self.array.read(drive, area + at, SLOT_LEN).await {
                Ok(bytes) => {
                    let decoded: Result<_, FormatError> = decode_slot(&bytes, &pool);
                    let good = decoded.is_ok_and(|(header, _)| {
                        (header.key, header.seq, usize::from(header.part)) == own
                    });
                    (true, good.then_some(bytes))
                }
                Err(error) => (error.is_refusal(), None),
            }
        };
        let copies: Vec<(bool, Option<Buf>)> = join_all(places.iter().map(read)).await;
        let Some(good) = copies.iter().find_map(|(_, copy)| copy.clone()) else { return };
        for (&(drive, at), (there, copy)) in places.iter().zip(&copies) {
            if copy.is_none() && *there {
                let write = self.array.write(drive, area + at, good.clone(), Durability::Cached);
                let done = write.await.is_ok();
                self.scrub.change(|status| status.metadata_repaired += u64::from(done));
            }
        }
    }

    /// Labels are written anew, all of them, if one is not as it should be.
    async fn scrub_labels(&self) {
        let mut bad = 0;
        {
            let _still = self.labels.hold().await;
            let current = self.labels.get();
            for index in self.array.active() {
                let own = for_drive(&current, usize::from(index.0));
                let offsets = format::label_offsets(own.drive_size);
                for offset in offsets {
                    bad += match self.array.read(index, offset, LABEL_LEN).await {
                        Ok(bytes) => {
                            let label = Superblock::decode(&bytes);
                            u64::from(label.is_ok_and(|(label, _)| label == own)) ^ 1
                        }
                        Err(error) => u64::from(error.is_refusal()),
                    };
                }
            }
        }
        if bad > 0 {
            let written = self.write_labels(|_| {}).await.is_ok();
            let repaired = if written { bad } else { 0 };
            self.scrub.change(|status| status.metadata_repaired += repaired);
        }
    }
}
