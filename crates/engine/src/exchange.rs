//! Exchange: a drive that still works is copied onto another one, which then takes its place. The
//! pool is as redundant as before at every moment.
//!
//! ```text
//!  its name, in a label that nobody believes yet ─> copy what is in use
//!    ─> again what was written meanwhile ─> ... ─> gate shut: the last, flush
//!      ─> the other drive is the member, gate open ─> labels say so <- nothing promised before
//! ```
//! Until the labels say so the old drive is the member, and a crash leaves it one: what was written
//! only to the new one by then was promised to nobody. The new one's own label says whom it
//! replaces, by which copying begins anew when the pool is opened again. What can't be read from
//! the old drive is restored from the others afterwards. If the old drive dies, the new one is
//! restored as in any lost one's place; if the new one fails, all is as it was.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

use format::{Extent, LABEL_AREA, Uuid, end_area};
use futures_util::future::{Either, select};
use io::awaited::Awaited;
use io::slice::Work;
use io::twin::{self, Rounds, Twin};
use io::{Buf, Drive, DriveError, Durability, Env, join_all};
use layout::DriveIndex;

use crate::api::{DriveState, DriveVerbError, EventKind, Severity};
use crate::limits::{EXCHANGE_GATE_MAX, EXCHANGE_LOOK, RESTORE_RETRY};
use crate::planted::{self, Bug};
use crate::restore::awaited;
use crate::shard::Shard;

/// A drive onto which another was being copied when the pool was last open.
pub struct Replacement<D> {
    pub index: DriveIndex,
    pub uuid: Uuid,
    /// Whom it replaces.
    pub old: Uuid,
    pub drive: D,
}

/// An exchange that is under way.
struct Exchange<D> {
    index: DriveIndex,
    drive: D,
    uuid: Uuid,
    /// Of the drive that is copied.
    era: u32,
    twin: Rc<Twin>,
    /// Blocks of zones that the old drive did not read, and whether it was metadata, too.
    unread: RefCell<Vec<u64>>,
}

/// Why an exchange came to nothing.
enum Ended {
    /// The pool is being closed, or can't go on.
    Stopped,
    OldLost,
    New(DriveError),
    /// The gate can't be shut for longer.
    TooSlow,
}

impl<E: Env> Shard<E> {
    /// Begins to copy a working drive onto another, which takes its place in the end.
    pub async fn exchange(&self, index: DriveIndex, drive: E::Drive) -> Result<(), DriveVerbError> {
        self.begin_exchange(index, drive, None).await
    }

    /// A stranger may say anything of itself. One whose copying begins anew keeps its name: labels
    /// written by halves would disagree on it.
    async fn begin_exchange(
        &self,
        index: DriveIndex,
        drive: E::Drive,
        uuid: Option<Uuid>,
    ) -> Result<(), DriveVerbError> {
        self.check_usable()?;
        self.check_room(index, &drive)?;
        let member = self.array.member(index);
        let stays = || member.state() == DriveState::Active && !self.array.is_draining(index);
        let not_now = || DriveVerbError::NotLost { index: index.0, state: member.state() };
        if !stays() || member.twin().is_some() {
            return Err(not_now());
        }
        let strange = uuid.is_none();
        let name = drive.name();
        let failed = |error| DriveVerbError::Drive { name: name.clone(), error };
        self.wipe(&drive, strange).await.map_err(failed)?;
        let size = member.size().min(drive.geometry().size);
        let twin = Rc::new(Twin::new(size, self.extents_in_use(index).iter().map(Extent::range)));
        if !stays() || !member.set_twin(&name, &twin) {
            return Err(not_now());
        }
        let uuid = uuid.unwrap_or_else(|| Uuid::from_random(self.env.unique_id()));
        if let Err(error) = self.labels.name_replacement(index, uuid, &drive).await {
            member.end_twin();
            let _ = self.wipe(&drive, true).await;
            return Err(failed(error));
        }
        let (mib, old) = (twin.left().1 >> 20, self.drive_name(index));
        let text = format!("drive {old} is copied onto {name}, which replaces it: {mib} MiB");
        self.tell(Some(index), (Severity::Info, EventKind::DriveReplacing), text);
        let (era, unread) = (member.era(), RefCell::default());
        let exchange = Exchange { index, drive, uuid, era, twin, unread };
        let shard = self.own();
        self.own().spawn_task(Work::Rebuild, async move { shard.run_exchange(exchange).await });
        Ok(())
    }

    /// Journal, metadata, and zones of the drive that belong to a class. Labels are each drive's
    /// own.
    fn extents_in_use(&self, index: DriveIndex) -> Vec<Extent> {
        let label = self.labels.get();
        let state = self.state.borrow();
        let len = self.geometry.zone_bytes;
        let zone =
            |zone: u32| Extent { offset: self.geometry.zones.offset + u64::from(zone) * len, len };
        let used = |zone: &u32| state.space.class_of_zone(*zone).is_some();
        let has = self.geometry.lists.zones_of(index);
        let zones = (0..has).filter(used).map(zone);
        [label.journal, label.meta].into_iter().chain(zones).collect()
    }

    async fn run_exchange(&self, exchange: Exchange<E::Drive>) {
        let index = exchange.index;
        let ended = self.copy_until_same(&exchange).await;
        self.array.member(index).end_twin();
        let (old, name) = (self.drive_name(index), exchange.drive.name());
        let text = match ended {
            Ok(()) | Err(Ended::Stopped) => return,
            Err(Ended::OldLost) => {
                let drive = exchange.drive.clone();
                let taken = self.record_failures().await.is_ok()
                    && self.replace(index, drive).await.is_ok();
                if taken || self.stopping() {
                    return;
                }
                format!("drive {old} was lost while it was copied onto {name}")
            }
            Err(Ended::New(error)) => {
                format!("drive {name} can't replace {old}, which stays: {error}")
            }
            Err(Ended::TooSlow) => format!(
                "drive {name} can't replace {old}, which stays: the two could not be made the \
                 same within {EXCHANGE_GATE_MAX}, for which writes may be held back"
            ),
        };
        // Nor is it tried again when the pool is opened, if that can be written there.
        let _ = self.wipe(&exchange.drive, true).await;
        self.tell(Some(index), (Severity::Error, EventKind::ReplaceFailed), text);
    }

    /// Goes on where the pool was closed, or died: onto drives whose labels say whom they replace,
    /// while that is still so. One that was lost meanwhile is replaced by them; one that is merely
    /// not here may come back, and nothing is done to either until then.
    pub async fn resume_replacing(&self, replacements: Vec<Replacement<E::Drive>>) {
        for Replacement { index, uuid, old, drive } in replacements {
            let (name, member) = (drive.name(), self.array.member(index));
            let begun = match (member.uuid() == old, member.state()) {
                (true, DriveState::Active) => self.begin_exchange(index, drive, Some(uuid)).await,
                (true, DriveState::Failed) => self.replace(index, drive).await,
                _ => {
                    let text = format!(
                        "drive {name} was to replace drive {} ({old}), which is not here: it is \
                         not used",
                        index.0
                    );
                    self.tell(Some(index), (Severity::Warning, EventKind::ReplaceFailed), text);
                    continue;
                }
            };
            if let Err(error) = begun {
                let old = self.drive_name(index);
                let text = format!("drive {name} does not go on to replace {old}: {error}");
                self.tell(Some(index), (Severity::Error, EventKind::ReplaceFailed), text);
            }
        }
    }

    async fn copy_until_same(&self, exchange: &Exchange<E::Drive>) -> Result<(), Ended> {
        self.settle_writes(exchange).await?;
        let (mut rounds, mut copied) = (Rounds::new(&exchange.twin), 0);
        while rounds.go_on(&exchange.twin, copied) {
            copied = self.copy_some(exchange).await?;
        }
        // Most of what was copied may still be in its cache.
        exchange.drive.flush().await.map_err(Ended::New)?;
        let Exchange { index, drive, uuid, .. } = exchange;
        // Again, of the pool as it is now.
        self.labels.name_replacement(*index, *uuid, drive).await.map_err(Ended::New)?;
        let tick = pin!(self.env.sleep_until(self.env.now() + EXCHANGE_GATE_MAX));
        match select(pin!(self.take_over(exchange)), tick).await {
            Either::Left((done, _)) => done?,
            Either::Right(_) => return Err(Ended::TooSlow),
        }
        self.end_exchange(exchange).await
    }

    fn check_exchange(&self, exchange: &Exchange<E::Drive>) -> Result<(), Ended> {
        if self.stopping() {
            return Err(Ended::Stopped);
        }
        let member = self.array.member(exchange.index);
        let same = member.state() == DriveState::Active && member.era() == exchange.era;
        if same { Ok(()) } else { Err(Ended::OldLost) }
    }

    /// Nothing notes which chunks those writes change that began before.
    async fn settle_writes(&self, exchange: &Exchange<E::Drive>) -> Result<(), Ended> {
        let mut settled = pin!(self.array.member(exchange.index).settle_writes());
        loop {
            self.check_exchange(exchange)?;
            let tick = pin!(self.env.sleep_until(self.env.now() + EXCHANGE_LOOK));
            if let Either::Left(_) = select(settled.as_mut(), tick).await {
                return Ok(());
            }
        }
    }

    /// Copies some chunks at the pace of background work: bytes.
    async fn copy_some(&self, exchange: &Exchange<E::Drive>) -> Result<u64, Ended> {
        let turn = self.pace(|| self.queue_of(std::iter::once(exchange.index))).await;
        self.check_exchange(exchange)?;
        let chunks: Vec<u64> =
            std::iter::from_fn(|| exchange.twin.take()).take(twin::AT_ONCE).collect();
        let bytes = chunks.len() as u64 * u64::from(twin::CHUNK);
        let copied = join_all(chunks.into_iter().map(|at| self.copy_chunk(exchange, at))).await;
        turn.moved(bytes as usize);
        drop(turn);
        self.note_rates();
        copied.into_iter().collect::<Result<(), Ended>>()?;
        self.env.yield_now().await;
        Ok(bytes)
    }

    async fn copy_chunk(&self, exchange: &Exchange<E::Drive>, at: u64) -> Result<(), Ended> {
        // The labels of the old drive would make the new one pass for it (world 600038).
        let sizes = [self.array.member(exchange.index).size(), exchange.drive.geometry().size];
        let end = sizes.into_iter().map(end_area).min().expect("of two");
        let end = end.min(at + u64::from(twin::CHUNK));
        let at = at.max(LABEL_AREA);
        if at >= end {
            return Ok(());
        }
        let len = end - at;
        if let Ok(data) = self.array.read(exchange.index, at, len as usize).await {
            return exchange.put(at, data).await;
        }
        // Something in it can't be read: block by block, the rest of it can.
        let block = u64::from(self.geometry.block_size).min(len);
        for at in (at..at + len).step_by(block as usize) {
            self.check_exchange(exchange)?;
            match self.array.read(exchange.index, at, block as usize).await {
                Ok(data) => exchange.put(at, data).await?,
                Err(_) => exchange.unread.borrow_mut().push(at),
            }
        }
        Ok(())
    }

    /// With writes held back: the last chunks, a flush, and the new drive is the member.
    async fn take_over(&self, exchange: &Exchange<E::Drive>) -> Result<(), Ended> {
        let Exchange { index, drive, uuid, twin, .. } = exchange;
        // A label of the old drive, on its way while the drives change, would end on the new one.
        let _labels = self.labels.hold().await;
        let _shut = twin.gate.shut().await;
        while let Some(at) = twin.take() {
            self.check_exchange(exchange)?;
            self.copy_chunk(exchange, at).await?;
        }
        if !planted::is(Bug::TakeOverUnflushed) {
            drive.flush().await.map_err(Ended::New)?;
        }
        self.check_exchange(exchange)?;
        let left = self.unread_in_use(exchange);
        let (size, name) = (drive.geometry().size, self.drive_name(*index));
        self.tell_mended(true);
        self.array.exchange(*index, (*uuid, size, drive.clone()), left);
        self.forgive(*index);
        let text = format!("drive {} has taken the place of {name}", drive.name());
        self.tell(Some(*index), (Severity::Info, EventKind::DriveReplaced), text);
        Ok(())
    }

    /// Blocks that were not read, and should be there: the new drive awaits them.
    fn unread_in_use(&self, exchange: &Exchange<E::Drive>) -> Option<Awaited> {
        let unread = exchange.unread.borrow();
        if unread.is_empty() {
            return None;
        }
        let used = awaited(&self.state.borrow().space, exchange.index, |_| true);
        let zones = self.geometry.zones;
        let mut left = Awaited::nothing(zones.range(), self.geometry.block_size);
        let inside = |at: &&u64| (zones.offset..zones.offset + zones.len).contains(*at);
        let block = u64::from(self.geometry.block_size);
        for at in unread.iter().filter(inside) {
            // Chunks begin anywhere, blocks where their zone has them.
            for at in [*at, at + block - 1] {
                let at = (at - zones.offset) / block * block + zones.offset;
                if used.overlaps(at, 1) {
                    left.add(at);
                }
            }
        }
        Some(left)
    }

    /// The labels name the new drive: from then on it is what the pool relies on.
    async fn end_exchange(&self, exchange: &Exchange<E::Drive>) -> Result<(), Ended> {
        while self.record_failures().await.is_err() {
            if self.stopping() {
                return Err(Ended::Stopped);
            }
            self.env.sleep_until(self.env.now() + RESTORE_RETRY).await;
        }
        if self.array.member(exchange.index).state() == DriveState::Restoring {
            self.own().start_restoring(exchange.index);
        }
        Ok(())
    }
}

impl<D: Drive> Exchange<D> {
    async fn put(&self, at: u64, data: Buf) -> Result<(), Ended> {
        self.drive.write(at, data, Durability::Cached).await.map_err(Ended::New)
    }
}
