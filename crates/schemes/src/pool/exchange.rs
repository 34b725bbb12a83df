//! Exchange: a drive that works is copied onto another, which then takes its place. Whatever the
//! scheme, the pool is as redundant as before at every moment: this is below all arrays.
//!
//! ```text
//!  copy all but labels ─> again what was written meanwhile ─> ... ─> gate shut: the last, flush
//!    ─> a label that outvotes nobody ─> the others' labels name the new drive ─> its own
//!    ─> the drives change, gate open ─> the old one's labels are wiped
//! ```
//! The new drive has an identity of its own, so that the two are never taken for each other: who is
//! the member is who the newest label names. Until the others name the new one, a crash leaves the
//! old one the member and a spare a spare; from then on the old one is a stranger. Both hold the
//! same then, and nobody writes. What can't be read is given to a scrub to heal, and copied then;
//! if that is not enough, or the old drive dies, the new one is filled from the others.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use classical::label;
use format::{LABEL_AREA, Uuid, end_area};
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
pub(super) struct Exchange {
    place: usize,
    old: Part,
    new: Part,
    /// The new drive is one of the pool's spares.
    is_spare: bool,
    /// Who the new drive is, and the old one.
    identity: Uuid,
    was: Uuid,
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
    /// Not all of the others can be told.
    Others(StoreError),
    /// The gate can't be shut for longer.
    TooSlow,
    /// Too much was written while others changed the labels.
    Again,
}

impl Exchange {
    pub fn replacing(&self) -> Replacing {
        let (left, all) = self.twin.left();
        let progress = Restoring { place: self.place, left, all };
        Replacing { by: self.new.name(), progress }
    }

    async fn put(&self, at: u64, data: io::Buf) -> Result<(), Ended> {
        self.new.write(at, data, Durability::Cached).await.map_err(Ended::New)
    }

    async fn copy_chunk(&self, at: u64) -> Result<(), Ended> {
        let end = (at + u64::from(twin::CHUNK)).min(end_area(self.size));
        // The labels of the old drive would make the new one pass for it; a checksum log may lie
        // behind them.
        let own = if at < LABEL_AREA { label::LOG_IN_LABELS.range() } else { at..end };
        let (at, end) = (own.start, own.end);
        if at >= end {
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

    /// All that is left, and nobody writes.
    async fn copy_last(&self) -> Result<(), Ended> {
        while let Some(at) = self.twin.take() {
            self.copy_chunk(at).await?;
        }
        if !self.unread.borrow().is_empty() {
            return Err(Ended::Unread);
        }
        self.new.flush().await.map_err(Ended::New)
    }

    /// The new drive says who it is, which nobody has to believe: if others name it, it is there.
    async fn introduce(&self) -> Result<(), Ended> {
        // Nobody else is let in.
        let old = self.old.beside().ok_or(Ended::OldLost)?;
        let mut label = label::read(&old).await.ok_or(Ended::OldLost)?;
        let index = usize::from(label.index);
        label.drive = self.identity;
        label.members[index].drive = self.identity;
        label.generation = 0;
        label::write_one(&label, &self.new).await.map_err(Ended::New)
    }
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
        new: Part,
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
        let is_spare = spare.is_some();
        if !is_spare {
            let failed = |_| StoreError::NotWritten { name: new.name() };
            label::wipe_all(&new).await.map_err(failed)?;
        }
        let identity = spare.unwrap_or_else(|| Uuid::from_random(self.env.unique_id()));
        let from = label::LOG_IN_LABELS.offset;
        let twin = Rc::new(Twin::new(size, std::iter::once(from..end_area(size))));
        old.set_twin(Some(twin.clone()));
        let text = format!(
            "drive {place} ({name}) is copied onto {}, which replaces it: {} MiB",
            new.name(),
            twin.left().1 >> 20
        );
        self.tell(Severity::Info, "drive-replacing", Some(place), text);
        let (unread, stopped) = (RefCell::default(), Cell::new(false));
        let was = label.drive;
        let exchange =
            Exchange { place, old, new, is_spare, identity, was, size, twin, unread, stopped };
        let exchange = Rc::new(exchange);
        self.exchange.replace(Some(exchange.clone()));
        self.begin(|inner| inner.run_exchange(exchange));
        Ok(())
    }

    async fn run_exchange(self: Rc<Self>, exchange: Rc<Exchange>) {
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
            Err(Ended::Stopped | Ended::Again) => {
                let text = format!("drive {place} ({old}) stays: it is not replaced by {by}");
                self.tell(Severity::Info, "replace-stopped", Some(place), text);
                self.give_back(&exchange);
            }
            Err(Ended::New(error)) => match exchange.is_spare {
                true => failed(format!("{error}; it is a spare no more")),
                false => failed(error.to_string()),
            },
            Err(Ended::Others(error)) => {
                failed(format!("not all drives can be told: {error}"));
                self.give_back(&exchange);
            }
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
    fn give_back(&self, exchange: &Exchange) {
        if exchange.is_spare {
            let (identity, part) = (exchange.identity, exchange.new.clone());
            self.spares.borrow_mut().push(Spare { identity, part });
        }
    }

    async fn copy_until_same(&self, exchange: &Exchange) -> Result<(), Ended> {
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
                Err(Ended::Again) => {}
                done => return done,
            }
        }
    }

    /// Nothing notes which chunks those writes change that began before.
    async fn settle(&self, exchange: &Exchange) -> Result<(), Ended> {
        let mut settled = pin!(exchange.old.settle());
        loop {
            self.check_exchange(exchange)?;
            let tick = pin!(self.env.sleep_until(self.env.now() + LOOK));
            if let Either::Left(_) = select(settled.as_mut(), tick).await {
                return Ok(());
            }
        }
    }

    fn check_exchange(&self, exchange: &Exchange) -> Result<(), Ended> {
        if exchange.stopped.get() || self.stopping.get() {
            return Err(Ended::Stopped);
        }
        let place = exchange.place;
        let current = self.drives.borrow()[place].clone();
        let same = current.is_some_and(|part| part.is_same(&exchange.old));
        if same && self.works(place) { Ok(()) } else { Err(Ended::OldLost) }
    }

    /// Copies some chunks at the pace of background work: bytes.
    async fn copy_some(&self, exchange: &Exchange) -> Result<u64, Ended> {
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
    async fn take_over(&self, exchange: &Exchange) -> Result<(), Ended> {
        let Exchange { place, old, new, twin, size, .. } = exchange;
        let _turn = self.drive_turn.lock().await;
        // Before the gate is shut: who has it may be waiting there to write to the old drive.
        let (left, turn) = (twin.left().0, self.volumes.store().label_turn(*place).lock().await);
        self.check_exchange(exchange)?;
        if twin.left().0 > left + twin::LAST_CHUNKS * u64::from(twin::CHUNK) {
            return Err(Ended::Again);
        }
        let until = self.env.now() + GATE_MAX;
        let shut = self.in_time(until, twin.gate.shut()).await?;
        let shut = self.while_shut(until, (turn, shut), exchange.copy_last()).await?;
        let asked = self.in_time(until, old.shut()).await?;
        self.check_exchange(exchange)?;
        let introduced = self.while_shut(until, (shut, asked), exchange.introduce()).await;
        let shut = match introduced {
            Ok(shut) => shut,
            Err(ended) => return Err(self.take_back(exchange, ended).await),
        };
        let told = self.tell_who(exchange, shut).await;
        let (name, by, pulled) = (old.name(), new.name(), old.beside());
        match told {
            // Only now: the gates are shut until here.
            Ok(shut) => {
                old.exchange(new);
                drop(shut);
            }
            Err(ended) => return Err(self.take_back(exchange, ended).await),
        }
        self.uuids.borrow_mut()[*place] = exchange.identity;
        self.leave_undecided(*place);
        // Nobody believes these any more; this is so that nobody wonders at them.
        let _ = label::wipe_others(new, *size).await;
        if let Some(pulled) = pulled {
            let _ = label::wipe_sized(&pulled, *size).await;
        }
        let text = format!("drive {by} has taken the place of {name}, which may be pulled");
        self.tell(Severity::Info, "drive-replaced", Some(*place), text);
        Ok(())
    }

    /// The others name the new drive, and then it says so itself. If it does not, it is as if
    /// nobody had.
    async fn tell_who<G>(&self, exchange: &Exchange, shut: G) -> Result<G, Ended> {
        let Exchange { place, new, identity, was, .. } = exchange;
        let store = self.volumes.store();
        let label = match store.relist(*place, *identity).await {
            Ok(label) => label,
            Err(error) => {
                let _ = store.relist(*place, *was).await;
                return Err(Ended::Others(error));
            }
        };
        let mut written = pin!(label::write_one(&label, new));
        let tick = pin!(self.env.sleep_until(self.env.now() + GATE_MAX));
        let ended = match select(written.as_mut(), tick).await {
            Either::Left((Ok(()), _)) => return Ok(shut),
            Either::Left((Err(error), _)) => {
                let _ = store.relist(*place, *was).await;
                Ended::New(error)
            }
            Either::Right(_) => {
                let _ = store.relist(*place, *was).await;
                drop(shut);
                let _ = written.await;
                Ended::TooSlow
            }
        };
        Err(ended)
    }

    /// What the new drive says of itself was not to be. If that can't be wiped: nobody names it.
    async fn take_back(&self, exchange: &Exchange, ended: Ended) -> Ended {
        let Exchange { new, identity, size, .. } = exchange;
        let done = match exchange.is_spare {
            true => label::write_spare(&self.label, *identity, new).await,
            false => label::wipe_sized(new, *size).await,
        };
        match done {
            Err(error) if exchange.is_spare => Ended::New(error),
            _ => ended,
        }
    }

    async fn in_time<T>(&self, until: Nanos, what: impl Future<Output = T>) -> Result<T, Ended> {
        let tick = pin!(self.env.sleep_until(until));
        match select(pin!(what), tick).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(_) => Err(Ended::TooSlow),
        }
    }

    /// Work on the drives while gates are `shut`. They open if it takes too long; it is over all
    /// the same when this returns.
    async fn while_shut<G>(
        &self,
        until: Nanos,
        shut: G,
        work: impl Future<Output = Result<(), Ended>>,
    ) -> Result<G, Ended> {
        let mut work = pin!(work);
        let tick = pin!(self.env.sleep_until(until));
        if let Either::Left((done, _)) = select(work.as_mut(), tick).await {
            return done.map(|()| shut);
        }
        drop(shut);
        let _ = work.await;
        Err(Ended::TooSlow)
    }

    /// Whoever reads all of the pool has what can't be read written again. Then it is tried again.
    async fn heal(&self, exchange: &Exchange) -> Result<(), Ended> {
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
    async fn fill_instead(self: &Rc<Self>, exchange: &Exchange) -> Result<(), StoreError> {
        let _turn = self.drive_turn.lock().await;
        let (place, store) = (exchange.place, self.volumes.store());
        self.give_back(exchange);
        let current = self.drives.borrow()[place].clone();
        let taken = !current.is_some_and(|part| part.is_same(&exchange.old));
        if self.stopping.get() || taken || self.offline.borrow().contains(&place) {
            return Ok(());
        }
        if !store.lost().contains(&place) {
            let name = exchange.old.name();
            if !store.restoring().is_empty() {
                let hint = "it can't be read everywhere, and another drive is being filled: \
                            replace it when that is done";
                return refuse_drive(&name, place, hint);
            }
            if !store.bears(place) {
                let hint = "it can't be read everywhere, and nobody else has what it holds";
                return refuse_drive(&name, place, hint);
            }
            self.let_go(place);
            store.write_off(place).await?;
            self.known.borrow_mut().push(place);
            self.tell_lost(place);
        }
        self.let_go(place);
        if exchange.is_spare {
            return self.use_spare(place).await;
        }
        let part = exchange.new.clone().watched(Watch::new(&self.env));
        self.put(place, part).await
    }
}
