//! A drive with a model's timing, on any clock: `model:` drives of the product.
//!
//! The operation on the wrapped drive starts at once; the answer is given when that and the
//! model are both done. Whatever the host does late makes answers late, and nothing else: the
//! model goes on as if it had been in time.
//!
//! One task and one timer a drive: it sleeps until the model's next event.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::rc::{Rc, Weak};

use futures_util::future::{join, select};

use crate::buf::Buf;
use crate::drive::{Drive, DriveError, Durability, Geometry, Operation, check_range};
use crate::env::{Env, Nanos};
use crate::model::timeline::Timeline;
use crate::model::{Command, Model, ModelCounters, Tag};
use crate::sync::{Event, Receiver, Sender, oneshot};

/// Wraps `D`; clones name the same drive.
pub struct Modelled<E: Env, D: Drive> {
    drive: D,
    pace: Rc<Pace<E>>,
}

impl<E: Env, D: Drive> Clone for Modelled<E, D> {
    fn clone(&self) -> Self {
        Modelled { drive: self.drive.clone(), pace: self.pace.clone() }
    }
}

/// How much later than the model said operations were answered: because the host was busy, or
/// the wrapped drive slower than the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    pub operations: u64,
    pub max: Nanos,
    pub sum: Nanos,
}

impl Lateness {
    pub fn mean(&self) -> Nanos {
        Nanos(self.sum.0.checked_div(self.operations).unwrap_or(0))
    }

    fn add(&mut self, late: Nanos) {
        self.operations += 1;
        self.max = self.max.max(late);
        self.sum = self.sum + late;
    }
}

/// The wrapped drive is not what the model models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a drive of {actual} bytes can't have the timing of one of {modelled}")]
pub struct SizeMismatch {
    pub actual: u64,
    pub modelled: u64,
}

impl<E: Env, D: Drive> Modelled<E, D> {
    /// The drive is called `name`. Its model lives until the last handle is gone, or the
    /// environment's tasks are dropped.
    pub fn new(
        env: &E,
        name: impl Into<String>,
        drive: D,
        model: Box<dyn Model>,
    ) -> Result<Modelled<E, D>, SizeMismatch> {
        let (inner, modelled) = (drive.geometry(), model.geometry());
        if inner.size != modelled.size {
            return Err(SizeMismatch { actual: inner.size, modelled: modelled.size });
        }
        let pace = Pace {
            env: env.clone(),
            name: name.into(),
            geometry: Geometry {
                align: inner.align.max(modelled.align),
                atomic: inner.atomic,
                ..modelled
            },
            timeline: Timeline::new(model),
            waiting: RefCell::default(),
            last_tag: Cell::new(0),
            alarm: Cell::new(None),
            earlier: Event::new(),
            lateness: Cell::default(),
        };
        let pace = Rc::new(pace);
        env.spawn(keep_time(env.clone(), Rc::downgrade(&pace)));
        Ok(Modelled { drive, pace })
    }

    pub fn lateness(&self) -> Lateness {
        self.pace.lateness.get()
    }

    pub fn counters(&self) -> ModelCounters {
        self.pace.collect();
        self.pace.timeline.model().counters()
    }

    async fn timed<T>(
        &self,
        (operation, offset, len, durability): (Operation, u64, u64, Durability),
        inner: impl Future<Output = Result<T, DriveError>>,
    ) -> Result<T, DriveError> {
        check_range(self.pace.geometry, operation, offset, len)?;
        let Some(command) = Command::new(operation, offset, len, durability) else {
            return inner.await;
        };
        let completed = self.pace.submit(command);
        let (result, at) = join(inner, completed).await;
        let Some(at) = at else {
            // The tasks were dropped; whoever still asks is not part of this world.
            return std::future::pending().await;
        };
        self.pace.answered(at);
        result
    }
}

impl<E: Env, D: Drive> fmt::Debug for Modelled<E, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Modelled({})", self.pace.name)
    }
}

/// The model and those who wait for it.
struct Pace<E: Env> {
    env: E,
    name: String,
    geometry: Geometry,
    timeline: Timeline,
    /// Bounded by the operations in flight, which the engine bounds.
    waiting: RefCell<BTreeMap<Tag, Sender<Nanos>>>,
    last_tag: Cell<u64>,
    /// When the task that keeps time will look again.
    alarm: Cell<Option<Nanos>>,
    /// It must look earlier.
    earlier: Event,
    lateness: Cell<Lateness>,
}

impl<E: Env> Pace<E> {
    fn submit(&self, command: Command) -> Receiver<Nanos> {
        self.collect();
        let tag = Tag(self.last_tag.get() + 1);
        self.last_tag.set(tag.0);
        let (sender, receiver) = oneshot();
        self.waiting.borrow_mut().insert(tag, sender);
        self.timeline.submit(tag, command);
        let next = self.timeline.next_event();
        if next.is_some_and(|next| self.alarm.get().is_none_or(|alarm| next < alarm)) {
            self.earlier.notify_all();
        }
        receiver
    }

    /// Tells everybody whose operation has completed by now.
    fn collect(&self) {
        let done = self.timeline.advance(self.env.now());
        for completion in &done {
            let sender = self.waiting.borrow_mut().remove(&completion.tag);
            sender.expect("a model completes each operation once").send(completion.at);
        }
        self.timeline.reuse(done);
    }

    fn answered(&self, at: Nanos) {
        let mut lateness = self.lateness.get();
        lateness.add(self.env.now().saturating_sub(at));
        self.lateness.set(lateness);
    }
}

impl<E: Env> Drop for Pace<E> {
    fn drop(&mut self) {
        // Lets the task that keeps time see that it is over.
        self.earlier.notify_all();
    }
}

async fn keep_time<E: Env>(env: E, pace: Weak<Pace<E>>) {
    loop {
        let Some(pace) = pace.upgrade() else { return };
        pace.collect();
        let next = pace.timeline.next_event();
        pace.alarm.set(next);
        let earlier = pace.earlier.wait();
        drop(pace);
        match next {
            Some(at) => drop(select(pin!(env.sleep_until(at)), earlier).await),
            None => earlier.await,
        }
    }
}

impl<E: Env, D: Drive> Drive for Modelled<E, D> {
    fn geometry(&self) -> Geometry {
        self.pace.geometry
    }

    fn name(&self) -> String {
        self.pace.name.clone()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        let request = (Operation::Read, offset, len as u64, Durability::Cached);
        self.timed(request, self.drive.read(offset, len)).await
    }

    async fn write(
        &self,
        offset: u64,
        data: Buf,
        durability: Durability,
    ) -> Result<(), DriveError> {
        let request = (Operation::Write, offset, data.len() as u64, durability);
        self.timed(request, self.drive.write(offset, data, durability)).await
    }

    async fn flush(&self) -> Result<(), DriveError> {
        self.timed((Operation::Flush, 0, 0, Durability::Durable), self.drive.flush()).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        let request = (Operation::Discard, offset, len, Durability::Cached);
        self.timed(request, self.drive.discard(offset, len)).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        let request = (Operation::Discard, offset, len, Durability::Cached);
        self.timed(request, self.drive.write_zeroes(offset, len)).await
    }

    fn takes_write_zeroes(&self) -> bool {
        self.drive.takes_write_zeroes()
    }

    fn discard_granularity(&self) -> Option<u32> {
        self.drive.discard_granularity()
    }

    fn is_short(&self) -> bool {
        self.drive.is_short()
    }
}
