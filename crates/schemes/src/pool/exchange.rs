//! Exchange: a drive that works is copied onto another, which then takes its place. Whatever the
//! scheme, the pool is as redundant as before at every moment: this is below all arrays.
//!
//! ```text
//!  copy all but labels ─> again what was written meanwhile ─> ... ─> gate shut: the last, flush
//!      ─> label: copied ─> the old drive's labels wiped ─> label ─> the drives change, gate open
//!         └───── a crash: both are there and the same; the copied one is the member ─────┘
//! ```
//! The new drive is who the old one was. Until it has a label, a crash leaves the old one the
//! member and a spare a spare. What can't be read is given to a scrub to heal, and copied then; if
//! that is not enough, or the old drive dies, the new one is filled from the others.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use classical::label;
use format::{COMPAT_COPIED, LABEL_AREA, Superblock, Uuid, end_area};
use futures_util::future::{Either, select};
use io::twin::{self, Rounds, Twin};
use io::{Drive, DriveError, Durability, Env, Nanos, PAGE, join_all};

use super::spares::Spare;
use super::{Inner, LOOK, Pool, Severity, rest};
use crate::part::Part;
use crate::store::{Replace, Restoring, Store, StoreError, refuse_drive};
use crate::watch::Watch;

/// Longest time that writes to a drive are held back while it is exchanged: as long as with
/// `fusion`.
const GATE_MAX: Nanos = Nanos::from_secs(1);

/// Who has stopped an exchange looks so often whether it is over.
const STOP_LOOK: Nanos = Nanos::from_millis(10);

/// A drive that is copied onto another.
#[derive(Clone, Debug)]
pub struct Replacing {
    /// The other's name.
    pub by: String,
    /// Of the old one's place.
    pub progress: Restoring,
}

/// An exchange that is under way.
pub(super) struct Exchange<D> {
    place: usize,
    old: Part<D>,
    new: Part<D>,
    /// The new drive is one of the pool's spares.
    spare: Option<Uuid>,
    /// Bytes of the old one, as the labels have it.
    size: u64,
    twin: Rc<Twin>,
    /// Chunks that the old drive did not give, or not all of.
    unread: RefCell<Vec<u64>>,
    stopped: Cell<bool>,
}

/// Why an exchange came to nothing.
enum Ended {
    /// The pool is being closed, or somebody has said so.
    Stopped,
    OldLost,
    /// The old drive does not give everything.
    Unread,
    New(DriveError),
    /// The gate can't be shut for longer.
    TooSlow,
}

impl<D: Drive> Exchange<D> {
    pub fn replacing(&self) -> Replacing {
        let (left, all) = self.twin.left();
        let progress = Restoring { place: self.place, left, all };
        Replacing { by: self.new.name(), progress }
    }

    async fn put(&self, at: u64, data: io::Buf) -> Result<(), Ended> {
        self.new.write(at, data, Durability::Cached).await.map_err(Ended::New)
    }

    async fn copy_chunk(&self, at: u64) -> Result<(), Ended> {
        // The labels of the old drive would make the new one pass for it.
        let end = (at + u64::from(twin::CHUNK)).min(end_area(self.size));
        if at < LABEL_AREA || at >= end {
            return Ok(());
        }
        if let Ok(data) = self.old.read(at, (end - at) as usize).await {
            return self.put(at, data).await;
        }
        // Something in it can't be read: page by page, the rest of it can.
        for page in (at..end).step_by(PAGE) {
            match self.old.read(page, PAGE).await {
                Ok(data) => self.put(page, data).await?,
                Err(_) => {
                    self.unread.borrow_mut().push(at);
                    break;
                }
            }
        }
        Ok(())
    }

    /// The labels, while nobody writes: who is the member is clear at every moment.
    async fn hand_over(&self) -> Result<(), Ended> {
        // Nobody else is let in.
        let old = self.old.beside().ok_or(Ended::OldLost)?;
        let label = label::read(&old).await.ok_or(Ended::OldLost)?;
        // Copies that differ in who the drive is are believed by nobody.
        label::wipe_all(&self.new).await.map_err(Ended::New)?;
        let written = label::write_one(&marked(&label), &self.new).await;
        let wiped = match written {
            Ok(()) => label::wipe_sized(&old, self.size).await.map_err(|_| Ended::OldLost),
            Err(error) => Err(Ended::New(error)),
        };
        if wiped.is_err() {
            // It must not be taken for the member; if it can't be wiped, it can't be read either.
            let _ = label::wipe_sized(&self.new, self.size).await;
            return wiped;
        }
        // The mark has done its work. If it stays, it says what is true.
        let _ = label::write_one(&label, &self.new).await;
        Ok(())
    }
}

fn marked(label: &Superblock) -> Superblock {
    let mut marked = label.clone();
    marked.features.compat |= COMPAT_COPIED;
    marked
}

/// A crash may have left a drive that was copied beside its copy, which takes its place. The
/// original is left out, and wiped. What is not understood is left as it is.
pub(super) async fn leave_out_originals<D: Drive>(
    parts: Vec<Part<D>>,
    labels: Vec<Option<Superblock>>,
) -> (Vec<Part<D>>, Vec<Option<Superblock>>) {
    let mut left: Vec<_> = parts.into_iter().zip(labels).collect();
    let copies: Vec<(Part<D>, Superblock)> = left
        .iter()
        .filter_map(|(part, label)| Some((part.clone(), label.clone()?)))
        .filter(|(_, label)| label.is_copied())
        .collect();
    for (copy, label) in copies {
        let is_original = |(_, own): &(Part<D>, Option<Superblock>)| {
            let own = own.as_ref().filter(|own| !own.is_copied() && !own.is_spare());
            own.is_some_and(|own| marked(own) == label)
        };
        let Some(at) = left.iter().position(is_original) else { continue };
        if label::wipe_sized(&left[at].0, label.drive_size).await.is_ok() {
            left.remove(at).0.let_go();
            let mut plain = label;
            plain.features.compat &= !COMPAT_COPIED;
            let _ = label::write_one(&plain, &copy).await;
        }
    }
    left.into_iter().unzip()
}

impl<E: Env> Pool<E> {
    /// What is copied onto another drive is not any more when this returns; the old one stays.
    pub async fn exchange_stop(&self, place: usize) -> Result<(), StoreError> {
        let (inner, old) = (&*self.inner, self.inner.name_of(place));
        let own = inner.exchange.borrow().clone().filter(|own| own.place == place);
        let Some(exchange) = own else {
            return refuse_drive(&old, place, "it is not being replaced");
        };
        exchange.stopped.set(true);
        while inner.exchange.borrow().as_ref().is_some_and(|own| Rc::ptr_eq(own, &exchange)) {
            inner.env.sleep_until(inner.env.now() + STOP_LOOK).await;
        }
        match inner.name_of(place) == old {
            true => Ok(()),
            false => refuse_drive(&old, place, "another has its place already"),
        }
    }
}

impl<E: Env> Inner<E> {
    /// Whether a drive in this place would be copied, as it works.
    pub(super) fn works(&self, place: usize) -> bool {
        let part = self.drives.borrow()[place].clone();
        let works = part.is_some_and(|part| !part.is_let_go() && !part.hangs());
        works && !self.volumes.store().lost().contains(&place)
    }

    /// Begins to copy a drive that works. The turn of drives is held.
    pub(super) async fn begin_exchange(
        self: &Rc<Self>,
        place: usize,
        new: Part<E::Drive>,
        spare: Option<Uuid>,
    ) -> Result<(), StoreError> {
        let name = self.name_of(place);
        if self.exchange.borrow().is_some() {
            return refuse_drive(
                &name,
                place,
                "another is being replaced: wait until that is done",
            );
        }
        let part = self.drives.borrow()[place].clone();
        let Some(old) = part.filter(|_| self.works(place)) else {
            return refuse_drive(&name, place, "it is lost");
        };
        let Some(label) = label::read(&old).await else {
            return refuse_drive(&name, place, "its label can't be read: fail it first");
        };
        let (geometry, size) = (new.geometry(), label.drive_size);
        if geometry.size < size || geometry.align > old.geometry().align {
            let hint = "the new drive is smaller, or its unit larger: fail this one first, or take \
                        another";
            return refuse_drive(&name, place, hint);
        }
        if label::read(&new).await.is_some_and(|own| own.drive == label.drive) {
            return refuse_drive(&name, place, "it can't replace itself");
        }
        if spare.is_none() {
            let failed = |_| StoreError::NotWritten { name: new.name() };
            label::wipe_all(&new).await.map_err(failed)?;
        }
        let twin = Rc::new(Twin::new(size, std::iter::once(LABEL_AREA..end_area(size))));
        old.set_twin(Some(twin.clone()));
        let text = format!(
            "drive {place} ({name}) is copied onto {}, which replaces it: {} MiB",
            new.name(),
            twin.left().1 >> 20
        );
        self.tell(Severity::Info, "drive-replacing", Some(place), text);
        let (unread, stopped) = (RefCell::default(), Cell::new(false));
        let exchange = Exchange { place, old, new, spare, size, twin, unread, stopped };
        let exchange = Rc::new(exchange);
        self.exchange.replace(Some(exchange.clone()));
        self.begin(|inner| inner.run_exchange(exchange));
        Ok(())
    }

    async fn run_exchange(self: Rc<Self>, exchange: Rc<Exchange<E::Drive>>) {
        let ended = self.copy_until_same(&exchange).await;
        exchange.old.set_twin(None);
        let (place, by) = (exchange.place, exchange.new.name());
        let old = exchange.old.name();
        let failed = |why: String| {
            let text = format!("drive {by} can't replace {old}, which stays: {why}");
            self.tell(Severity::Error, "replace-failed", Some(place), text);
        };
        match ended {
            Ok(()) => {}
            Err(Ended::Stopped) => {
                let text = format!("drive {place} ({old}) stays: it is not replaced by {by}");
                self.tell(Severity::Info, "replace-stopped", Some(place), text);
                self.give_back(&exchange);
            }
            Err(Ended::New(error)) => failed(error.to_string()),
            Err(Ended::TooSlow) => {
                failed(format!("writes would be held back for more than {GATE_MAX}"));
                self.give_back(&exchange);
            }
            Err(Ended::OldLost | Ended::Unread) => {
                if let Err(error) = self.fill_instead(&exchange).await {
                    failed(error.to_string());
                }
            }
        }
        self.exchange.take();
    }

    /// A spare is one again.
    fn give_back(&self, exchange: &Exchange<E::Drive>) {
        if let Some(identity) = exchange.spare {
            let part = exchange.new.clone();
            self.spares.borrow_mut().push(Spare { identity, part });
        }
    }

    async fn copy_until_same(&self, exchange: &Exchange<E::Drive>) -> Result<(), Ended> {
        self.settle(exchange).await?;
        let mut healed = false;
        loop {
            let (mut rounds, mut copied) = (Rounds::new(&exchange.twin), 0);
            while rounds.go_on(&exchange.twin, copied) {
                copied = self.copy_some(exchange).await?;
            }
            // Most of what was copied may still be in its cache.
            exchange.new.flush().await.map_err(Ended::New)?;
            match self.take_over(exchange).await {
                Err(Ended::Unread) if !healed => {
                    healed = true;
                    self.heal(exchange).await?;
                }
                done => return done,
            }
        }
    }

    /// Nothing notes which chunks those writes change that began before.
    async fn settle(&self, exchange: &Exchange<E::Drive>) -> Result<(), Ended> {
        let mut settled = pin!(exchange.old.settle());
        loop {
            self.check_exchange(exchange)?;
            let tick = pin!(self.env.sleep_until(self.env.now() + LOOK));
            if let Either::Left(_) = select(settled.as_mut(), tick).await {
                return Ok(());
            }
        }
    }

    fn check_exchange(&self, exchange: &Exchange<E::Drive>) -> Result<(), Ended> {
        if exchange.stopped.get() || self.stopping.get() {
            return Err(Ended::Stopped);
        }
        let place = exchange.place;
        let current = self.drives.borrow()[place].clone();
        let same = current.is_some_and(|part| part.is_same(&exchange.old));
        if same && self.works(place) { Ok(()) } else { Err(Ended::OldLost) }
    }

    /// Copies some chunks at the pace of background work: bytes.
    async fn copy_some(&self, exchange: &Exchange<E::Drive>) -> Result<u64, Ended> {
        self.check_exchange(exchange)?;
        if self.paused.get() {
            self.env.sleep_until(self.env.now() + LOOK).await;
            return Ok(0);
        }
        let began = self.env.now();
        let due = || exchange.twin.take();
        let chunks: Vec<u64> = std::iter::from_fn(due).take(twin::AT_ONCE).collect();
        let copied = join_all(chunks.iter().map(|at| exchange.copy_chunk(*at))).await;
        copied.into_iter().collect::<Result<(), Ended>>()?;
        let took = self.env.now().saturating_sub(began);
        match rest(&Ok(true), took, self.is_busy()) {
            Nanos::ZERO => self.env.yield_now().await,
            rest => self.env.sleep_until(self.env.now() + rest).await,
        }
        Ok(chunks.len() as u64 * u64::from(twin::CHUNK))
    }

    /// With writes held back: the last chunks, a flush, the labels, and the drives change.
    async fn take_over(&self, exchange: &Exchange<E::Drive>) -> Result<(), Ended> {
        let Exchange { place, old, new, twin, .. } = exchange;
        let _turn = self.drive_turn.lock().await;
        self.check_exchange(exchange)?;
        let last = async {
            let shut = twin.gate.shut().await;
            while let Some(at) = twin.take() {
                exchange.copy_chunk(at).await?;
            }
            if !exchange.unread.borrow().is_empty() {
                return Err(Ended::Unread);
            }
            new.flush().await.map_err(Ended::New)?;
            Ok((shut, old.shut().await))
        };
        let tick = pin!(self.env.sleep_until(self.env.now() + GATE_MAX));
        let _shut = match select(pin!(last), tick).await {
            Either::Left((done, _)) => done?,
            Either::Right(_) => return Err(Ended::TooSlow),
        };
        self.check_exchange(exchange)?;
        // To the end, from here on: a label that was written has to be followed by the rest.
        exchange.hand_over().await?;
        let (name, by) = (old.name(), new.name());
        old.exchange(new);
        self.end_sitting(*place);
        let text = format!("drive {by} has taken the place of {name}, which may be pulled");
        self.tell(Severity::Info, "drive-replaced", Some(*place), text);
        Ok(())
    }

    /// Whoever reads all of the pool has what can't be read written again. Then it is tried again.
    async fn heal(&self, exchange: &Exchange<E::Drive>) -> Result<(), Ended> {
        if label::read(&exchange.old).await.is_none() {
            return Err(Ended::OldLost);
        }
        let text = format!(
            "drive {} ({}) can't be read everywhere: a scrub heals what it finds, then the rest is \
             copied",
            exchange.place,
            exchange.old.name()
        );
        self.tell(Severity::Warning, "drive-replacing", Some(exchange.place), text);
        for begin in [false, true] {
            if begin {
                self.begin_scrub();
            }
            while self.scrubs() {
                self.check_exchange(exchange)?;
                self.env.sleep_until(self.env.now() + LOOK).await;
            }
        }
        for at in exchange.unread.take() {
            exchange.twin.again(at..at + 1);
        }
        Ok(())
    }

    /// The old drive is lost, or has to be: the new one is filled from the others.
    async fn fill_instead(
        self: &Rc<Self>,
        exchange: &Exchange<E::Drive>,
    ) -> Result<(), StoreError> {
        let _turn = self.drive_turn.lock().await;
        let (place, store) = (exchange.place, self.volumes.store());
        self.give_back(exchange);
        if self.stopping.get() {
            return Ok(());
        }
        if !store.lost().contains(&place) {
            if !store.bears(place) {
                let hint = "it can't be read everywhere, and nobody else has what it holds";
                return refuse_drive(&exchange.old.name(), place, hint);
            }
            self.let_go(place);
            store.write_off(place).await?;
            self.known.borrow_mut().push(place);
            self.tell_lost(place);
        }
        self.let_go(place);
        match exchange.spare {
            Some(_) => self.use_spare(place).await,
            None => {
                let part = exchange.new.clone().watched(Watch::new(&self.env));
                self.put(place, part).await
            }
        }
    }
}
