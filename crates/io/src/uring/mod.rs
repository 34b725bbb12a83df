//! The real world: one thread that waits in io_uring for drives, sockets, timers and signals.
//!
//! * `ring` operations in flight, `ops` the operations, `setup` making the ring;
//! * `timers`, `bell` (wake-ups from other threads);
//! * `drive` files and block devices, `open` finding out what a path is, `discard` how it is told
//!   what is free, `real` every kind of drive under one type;
//! * `handle` descriptors, `handover` operations that keep who hands them to the kernel;
//! * `blocking` threads for what can only be waited for, `pulse` whether this one goes round.

mod bell;
mod blocking;
mod discard;
mod drive;
mod geometry;
mod handle;
mod handover;
mod message;
mod open;
mod ops;
mod pulse;
mod real;
mod ring;
mod setup;
mod timers;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::env::{Env, Nanos};
use crate::exec::{Executor, Root};
use crate::latency::Latencies;
use crate::rng::Rng;
use crate::slice::{self, Slices, Work};
use crate::wait::{Wait, Waits};

pub use drive::{DriveWatch, Found, UringDrive};
pub use handle::Blocked;
pub use open::{Access, OpenError, create_file};
pub use pulse::Pulse;
pub use real::RealDrive;

pub(crate) use blocking::Blocking;
pub(crate) use handle::Handle;
pub(crate) use message::Message;
pub(crate) use ring::Ring;

use bell::Bell;
use timers::{Clock, Timers};

/// Polls of tasks between two looks at completions and timers: enough to make the look cheap,
/// few enough (some tens of microseconds) that a completed write is not kept waiting.
const READY_BATCH: usize = 64;
/// And this is the time for them: some polls take far longer than others, as that of a client with
/// many requests at hand, or of a long write, whose parity is computed. The clock is read after
/// each poll, which costs next to nothing.
const ROUND: Nanos = Nanos::from_micros(20);

struct Inner {
    executor: Executor,
    ring: Ring,
    timers: Timers,
    bell: Bell,
    clock: Clock,
    pulse: Pulse,
    /// When the completions were last looked at.
    recent: Cell<Nanos>,
    rng: RefCell<Rng>,
    spin: Cell<Nanos>,
    /// Wakers of one look at the completions; kept to reuse its memory.
    woken: RefCell<Vec<Waker>>,
    slices: RefCell<Slices>,
    /// For each lane, where the waits of its requests are counted. Empty of the first, which is no
    /// client's.
    waits: RefCell<Vec<Option<Waits>>>,
    running: Cell<bool>,
    blocking: Blocking,
}

/// The real environment of this thread; clones name the same one.
#[derive(Clone)]
pub struct UringEnv {
    inner: Rc<Inner>,
}

impl UringEnv {
    /// Fails with an explanation if the kernel has no io_uring, or forbids it, or lacks an
    /// operation we need.
    pub fn new() -> io::Result<UringEnv> {
        let ring = Ring::new()?;
        let bell = Bell::new(&ring)?;
        let executor = Executor::new();
        executor.set_unpark(bell.ringer()?);
        let clock = Clock::start();
        let inner = Inner {
            executor,
            timers: Timers::new(clock),
            bell,
            pulse: Pulse::new(),
            recent: Cell::new(clock.now()),
            clock,
            rng: RefCell::new(Rng::new(u64::from_le_bytes(entropy()?))),
            spin: Cell::new(Nanos::ZERO),
            woken: RefCell::default(),
            slices: RefCell::default(),
            waits: RefCell::default(),
            running: Cell::new(false),
            blocking: Blocking::default(),
            ring,
        };
        Ok(UringEnv { inner: Rc::new(inner) })
    }

    /// Busy-polls for this long before going to sleep, which trades a processor for latency.
    /// Zero, the default, sleeps at once.
    pub fn set_spin(&self, micros: u64) {
        self.inner.spin.set(Nanos::from_micros(micros));
    }

    /// Runs `future` and every spawned task until `future` is done. Tasks that are not done
    /// then stay, and go on with the next call.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let inner = &*self.inner;
        assert!(!inner.running.replace(true), "block_on inside block_on would never return");
        let mut future = pin!(future);
        let root = inner.executor.root();
        let output = loop {
            if let Poll::Ready(output) = root.poll(future.as_mut()) {
                break output;
            }
            inner.run_round();
            inner.turn(&root);
        };
        inner.ring.submit();
        inner.running.set(false);
        output
    }

    /// Drops every task that is not done, and with them what they hold open. For the end of
    /// the program: tasks hold their environment, so it would not end by itself.
    pub fn drop_tasks(&self) {
        self.inner.executor.drop_tasks();
    }

    /// How long tasks had the thread at a time, by what for, since they began to be counted.
    pub fn slices(&self) -> [(Work, Latencies); Work::ALL.len()] {
        self.inner.slices.borrow().summary()
    }

    /// Counts them anew from here on.
    pub fn forget_slices(&self) {
        self.inner.slices.take();
    }

    /// See [`Executor::most_work`].
    pub fn most_work(&self) -> [(Work, u32); Work::ALL.len()] {
        self.inner.executor.most_work()
    }

    /// From now on what the client waits for whose task calls this is counted there, whichever of
    /// the tasks waits that it spawns. Nothing is, where the task is no client's: only clients
    /// have lanes of their own ([`Env::spawn_apart`]).
    pub fn count_waits(&self, waits: &Waits) {
        let lane = self.inner.executor.lane() as usize;
        if lane > 0 {
            let mut all = self.inner.waits.borrow_mut();
            if all.len() <= lane {
                all.resize(lane + 1, None);
            }
            all[lane] = Some(waits.clone());
        }
    }

    /// Whether this thread goes round.
    pub fn pulse(&self) -> Pulse {
        self.inner.pulse.clone()
    }

    /// Runs a call that may wait for long, as for a file whose server is silent, on a thread of its
    /// own. Fails if no thread can be made.
    pub fn apart<T: Send + 'static, C: FnOnce() -> T + Send + 'static>(
        &self,
        call: C,
    ) -> impl Future<Output = io::Result<T>> + use<T, C> {
        self.inner.blocking.run(call)
    }

    pub(crate) fn blocking(&self) -> &Blocking {
        &self.inner.blocking
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.inner.ring
    }
}

impl Inner {
    fn run_round(&self) {
        let end = self.recent.get() + ROUND;
        let mut begun = self.clock.now();
        for _ in 0..READY_BATCH {
            slice::begin(Some(self.clock.instant(begun)));
            if self.executor.run_ready(1) == 0 {
                break;
            }
            let now = self.clock.now();
            self.slices.borrow_mut().record(slice::work().0, now.saturating_sub(begun));
            begun = now;
            if now >= end {
                break;
            }
        }
        slice::begin(None);
    }

    /// Hands over what the tasks started and looks for what is done; sleeps if there is
    /// nothing to run.
    fn turn(&self, root: &Root) {
        self.pulse.count_round();
        let ready = || root.is_ready() || self.executor.has_ready();
        self.collect();
        if ready() {
            self.ring.submit();
            self.collect();
        } else if !self.spin(ready) {
            // From here on a wake from another thread completes the bell's read, so the look
            // at `ready` after it can't miss one that the sleep would miss as well.
            self.bell.listen();
            if !ready() {
                self.ring.hand_over_drives();
                self.pulse.asleep(|| self.ring.wait(self.time_to_next_timer()));
            }
            self.collect();
        }
    }

    /// Wakes whoever waits for a completion that is there or a deadline that has passed.
    fn collect(&self) {
        let mut woken = self.woken.take();
        self.ring.reap(&mut woken);
        self.recent.set(self.clock.now());
        self.timers.fire(self.recent.get(), &mut woken);
        for waker in woken.drain(..) {
            waker.wake();
        }
        self.woken.replace(woken);
    }

    /// True as soon as something is ready, false when the time for spinning is over.
    fn spin(&self, ready: impl Fn() -> bool) -> bool {
        let span = self.spin.get();
        if span == Nanos::ZERO {
            return false;
        }
        let end = self.clock.now() + span;
        while self.clock.now() < end {
            self.ring.submit();
            self.collect();
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    fn time_to_next_timer(&self) -> Option<Duration> {
        let deadline = self.timers.next()?;
        Some(Duration::from_nanos(deadline.saturating_sub(self.clock.now()).0))
    }
}

impl Env for UringEnv {
    type Drive = RealDrive;
    type Root = Self;

    fn root(&self) -> Self {
        self.clone()
    }

    fn now(&self) -> Nanos {
        self.inner.clock.now()
    }

    fn recent(&self) -> Nanos {
        self.inner.recent.get()
    }

    fn sleep_until(&self, deadline: Nanos) -> impl Future<Output = ()> + 'static {
        self.inner.timers.sleep_until(deadline)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.inner.executor.spawn(task);
    }

    fn spawn_apart(&self, task: impl Future<Output = ()> + 'static) {
        let lane = self.inner.executor.spawn_apart(task);
        // Those of the client that had it before are not this one's.
        if let Some(waits) = self.inner.waits.borrow_mut().get_mut(lane as usize) {
            *waits = None;
        }
    }

    fn spawn_shared(&self, task: impl Future<Output = ()> + 'static) {
        self.inner.executor.spawn_shared(task);
    }

    fn waited(&self, wait: Wait, since: Nanos) {
        let lane = self.inner.executor.lane() as usize;
        if let Some(Some(waits)) = self.inner.waits.borrow().get(lane) {
            waits.record(wait, self.recent().saturating_sub(since), self.recent());
        }
    }

    fn random(&self) -> u64 {
        self.inner.rng.borrow_mut().next_u64()
    }

    /// From the kernel, because a 64-bit seed is not enough for 128 bits.
    fn unique_id(&self) -> [u8; 16] {
        entropy().expect("getrandom worked when the environment was made")
    }
}

/// Random bytes from the kernel.
fn entropy<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: the kernel writes at most `N` bytes into the array.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    // Up to 256 bytes come all at once or not at all.
    if count == N as isize { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}
