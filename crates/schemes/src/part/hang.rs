//! A drive that does not answer is a failed drive.
//!
//! ```text
//!   caller ── operation ── drive                       answered: nothing else happens
//!      │          │ no answer for HANG_AFTER, and the pool can do without the drive
//!      ◄─ error ──┘─ ─ ─ goes on in a task of its own, with its buffers, until it is over
//! ```
//! From then on every operation of the drive fails at once, until another drive, or another handle
//! on this one, has its place. Reads too, or each would wait as long.
//!
//! An operation that was left to itself may still be done, at any later time. That harms nobody:
//! * its caller was told that it failed, so the drive is lost to the array before anything that
//!   rests on the operation is answered, and the others' labels say so first (`record_losses`). So
//!   whoever opens the pool does not believe this drive, whatever comes to lie on it: also a label
//!   that was under way is older than theirs;
//! * nobody reads the drive any more while the pool is open;
//! * the task holds the drive's handle. Who takes the drive back opens it anew, which waits until
//!   the last handle is gone (`drives::lock` in the server): so nothing old can follow what is
//!   written then.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use io::sync::Event;
use io::{DriveError, Env, Nanos};

/// As long as `fusion` lets a drive hang: the kernel's own time-out for a command, after which it
/// resets the device.
pub const HANG_AFTER: Nanos = Nanos(policy::health::FAIL_AFTER);
/// A drive that hangs and is needed is looked at again after this.
pub const LOOK_AGAIN: Nanos = Nanos::from_secs(1);
/// So much longer than that, a drive hangs for good: nobody has let it fail.
pub const NEEDED_AFTER: Nanos = Nanos(HANG_AFTER.0 + 5 * LOOK_AGAIN.0);

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// What is needed of an [`Env`], whichever it is.
trait World {
    fn now(&self) -> Nanos;
    fn recent(&self) -> Nanos;
    fn sleep_until(&self, deadline: Nanos) -> Task;
    fn spawn(&self, task: Task);
}

struct On<E>(E);

impl<E: Env> World for On<E> {
    fn now(&self) -> Nanos {
        self.0.now()
    }

    fn recent(&self) -> Nanos {
        self.0.recent()
    }

    fn sleep_until(&self, deadline: Nanos) -> Task {
        Box::pin(self.0.sleep_until(deadline))
    }

    fn spawn(&self, task: Task) {
        self.0.spawn(task);
    }
}

/// Whether the pool can do without a drive.
type MayFail = Rc<dyn Fn() -> bool>;

struct Inner {
    world: Box<dyn World>,
    /// When operations began that are not over, by their number.
    pending: RefCell<BTreeMap<u64, Nanos>>,
    next: Cell<u64>,
    /// Somebody looks at them from time to time.
    is_watched: Cell<bool>,
    hangs: Cell<bool>,
    told: Event,
    may_fail: RefCell<MayFail>,
}

/// Waits no longer than [`HANG_AFTER`] for one drive; clones name the same.
#[derive(Clone)]
pub struct Patience {
    inner: Rc<Inner>,
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.hangs() { "hangs" } else { "answers" })
    }
}

/// An operation that is not over.
struct Pending {
    number: u64,
    inner: Rc<Inner>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.inner.pending.borrow_mut().remove(&self.number);
    }
}

impl Inner {
    fn begin(self: &Rc<Self>) -> Pending {
        let number = self.next.replace(self.next.get() + 1);
        self.pending.borrow_mut().insert(number, self.world.recent());
        if !self.is_watched.replace(true) {
            self.world.spawn(Box::pin(self.clone().watch()));
        }
        Pending { number, inner: self.clone() }
    }

    /// When the operation began that has waited longest.
    fn oldest(&self) -> Option<Nanos> {
        self.pending.borrow().first_key_value().map(|(_, began)| *began)
    }

    /// As long as there is anything to wait for. A drive in use costs one timer each
    /// [`HANG_AFTER`], an idle one none.
    async fn watch(self: Rc<Self>) {
        let mut graced = None;
        while let Some(oldest) = self.oldest() {
            let (now, due) = (self.world.now(), oldest + HANG_AFTER);
            if now < due {
                self.world.sleep_until(due).await;
                continue;
            }
            // The process itself was stopped: the drive may have answered long ago, which is to be
            // heard first.
            if now > due + LOOK_AGAIN && graced.replace(oldest) != Some(oldest) {
                self.world.sleep_until(now + LOOK_AGAIN).await;
                continue;
            }
            let may_fail = self.may_fail.borrow().clone();
            if may_fail() {
                self.hangs.set(true);
                self.told.notify_all();
                return;
            }
            self.world.sleep_until(now + LOOK_AGAIN).await;
        }
        self.is_watched.set(false);
    }
}

impl Patience {
    /// With a drive that may fail.
    pub fn new<E: Env>(env: &E) -> Patience {
        let inner = Inner {
            world: Box::new(On(env.clone())),
            pending: RefCell::default(),
            next: Cell::new(0),
            is_watched: Cell::new(false),
            hangs: Cell::new(false),
            told: Event::new(),
            may_fail: RefCell::new(Rc::new(|| true)),
        };
        Patience { inner: Rc::new(inner) }
    }

    /// Asked before the drive is given up; as long as the answer is no its operations wait.
    pub fn ask(&self, may_fail: impl Fn() -> bool + 'static) {
        self.inner.may_fail.replace(Rc::new(may_fail));
    }

    /// It was given up.
    pub fn hangs(&self) -> bool {
        self.inner.hangs.get()
    }

    /// It hangs, and the pool can't do without it.
    pub fn is_needed(&self) -> bool {
        let now = self.inner.world.now();
        let overdue = |oldest: Nanos| oldest + NEEDED_AFTER <= now;
        !self.hangs() && self.inner.oldest().is_some_and(overdue)
    }

    /// `late`, if there is no answer.
    pub(super) async fn wait_for<T: 'static>(
        &self,
        operation: impl Future<Output = Result<T, DriveError>> + 'static,
        late: DriveError,
    ) -> Result<T, DriveError> {
        let inner = &self.inner;
        if inner.hangs.get() {
            return Err(late);
        }
        let pending = inner.begin();
        let operation = Box::pin(async move {
            let done = operation.await;
            drop(pending);
            done
        });
        match select(operation, inner.told.wait()).await {
            Either::Left((done, _)) => done,
            Either::Right(((), operation)) => {
                inner.world.spawn(Box::pin(async move { drop(operation.await) }));
                Err(late)
            }
        }
    }
}
