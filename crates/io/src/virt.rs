//! The virtual world: time jumps from timer to timer, everything else follows from one seed.
//!
//! A [`VirtEnv`] is the machine that runs the engine; a [`Disk`] is a platter with a volatile
//! cache that outlives it. A power cut is: stop ([`VirtEnv::run_until`]), forget the machine
//! ([`VirtEnv::crash`]), decide what the platters kept ([`Disk::power_cut`]), and attach them
//! to a machine again ([`VirtDrive::attach`]).

mod attached;
mod cache;
mod disk;
mod drive;
mod origin;
mod platter;
mod port;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::env::{Env, Nanos};
use crate::exec::Executor;
use crate::model::Phases;
use crate::origin::Origins;
use crate::rng::{Rng, mix};
use crate::slice::Work;
use crate::wait::Wait;

pub use attached::{Attached, Latency, Timing};
pub use cache::CutMode;
pub use disk::{Counters, Disk};
pub use drive::VirtDrive;
use origin::Doing;
pub use origin::Listener;
pub use port::ModelPort;

/// So many polls without time moving on means that tasks wake each other for ever.
const POLLS_PER_INSTANT_MAX: u64 = 50_000_000;

/// The machine: tasks, timers, randomness, and a clock that only moves when all tasks wait.
///
/// Tasks and events hold the world they live in, so a world that is no longer wanted must be
/// emptied by [`VirtEnv::crash`] to be freed.
#[derive(Clone)]
pub struct VirtEnv {
    world: Rc<World>,
}

struct World {
    executor: Executor,
    now: Cell<Nanos>,
    /// By deadline, then by the order of setting. Bounded by the tasks' sleeps and the
    /// operations in flight, which the engine bounds.
    timers: RefCell<BTreeMap<TimerKey, Timer>>,
    next_timer: Cell<u64>,
    /// What happens when a model says so. Bounded as the timers are.
    parked: RefCell<BTreeMap<u64, Event>>,
    /// How many of the timers are ticks.
    ticks: Cell<usize>,
    rng: RefCell<Rng>,
    trace: Cell<u64>,
    writes_issued: Cell<u64>,
    write_limit: Cell<Option<u64>>,
    doing: Doing,
}

/// Deadline, and the order of setting.
type TimerKey = (Nanos, u64);

/// Happens whether anybody waits for it or not: the completion of a drive's operation.
type Event = Box<dyn FnOnce()>;

enum Timer {
    Wake(Waker),
    Run(Event),
    /// A model's next event. By itself it makes nothing ready.
    Tick(Event),
}

impl VirtEnv {
    /// A world whose tasks run in an order drawn from the seed, so that seeds explore
    /// interleavings.
    pub fn new(seed: u64) -> VirtEnv {
        VirtEnv::build(seed, Executor::with_shuffle(mix(seed)))
    }

    /// A world whose tasks run in the order they became ready, as on the real machine.
    pub fn fifo(seed: u64) -> VirtEnv {
        VirtEnv::build(seed, Executor::new())
    }

    fn build(seed: u64, executor: Executor) -> VirtEnv {
        let world = World {
            executor,
            now: Cell::new(Nanos::ZERO),
            timers: RefCell::default(),
            next_timer: Cell::new(0),
            parked: RefCell::default(),
            ticks: Cell::new(0),
            rng: RefCell::new(Rng::new(seed)),
            trace: Cell::new(0),
            writes_issued: Cell::new(0),
            write_limit: Cell::new(None),
            doing: Doing::default(),
        };
        VirtEnv { world: Rc::new(world) }
    }

    /// Runs the world until `future` completes. Panics if it never will.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.run_until(future, || false).expect("nobody stopped the world")
    }

    /// As [`VirtEnv::block_on`], but gives up as soon as `stop` says so. It is asked after
    /// every poll and every event, so the world stands still at the exact moment.
    pub fn run_until<T>(
        &self,
        future: impl Future<Output = T>,
        stop: impl Fn() -> bool,
    ) -> Option<T> {
        let mut future = pin!(future);
        let root = self.world.executor.root();
        let mut polls = 0;
        loop {
            if root.is_ready() {
                if let Poll::Ready(value) = root.poll(future.as_mut()) {
                    return Some(value);
                }
            } else if self.world.executor.run_ready(1) == 0 {
                self.jump();
                polls = 0;
            }
            if stop() {
                return None;
            }
            polls += 1;
            assert!(polls < POLLS_PER_INSTANT_MAX, "livelock at {:?}", self.now());
        }
    }

    /// Moves time to the next timer and lets it happen.
    fn jump(&self) {
        let alive = !self.world.parked.borrow().is_empty()
            || self.world.timers.borrow().len() > self.world.ticks.get();
        assert!(
            alive,
            "deadlock at {:?}: nothing is ready, no timer is set, {} tasks wait",
            self.now(),
            self.world.executor.tasks()
        );
        let next = self.world.timers.borrow_mut().pop_first();
        let ((deadline, _), timer) = next.expect("a model that is busy has an event");
        assert!(deadline >= self.now(), "time never goes back");
        self.world.now.set(deadline);
        match timer {
            Timer::Wake(waker) => waker.wake(),
            Timer::Run(event) => event(),
            Timer::Tick(event) => {
                self.world.ticks.set(self.world.ticks.get() - 1);
                event();
            }
        }
    }

    /// The end of this machine's run: all tasks and timers are dropped, operations in flight
    /// stay undecided on their disks. Time stays, and the environment can be used again.
    pub fn crash(&self) {
        self.world.executor.drop_tasks();
        let timers = self.world.timers.take();
        self.world.ticks.set(0);
        let parked = self.world.parked.take();
        // Events that never happen may call back when dropped: not under the borrow.
        drop((timers, parked));
        self.world.write_limit.set(None);
        self.world.doing.forget();
    }

    /// A running hash of every operation submitted to and completed by a drive: two runs with
    /// the same hash did the same things at the same times.
    pub fn trace_hash(&self) -> u64 {
        self.world.trace.get()
    }

    /// How many writes all drives of this environment have been given so far.
    pub fn writes_issued(&self) -> u64 {
        self.world.writes_issued.get()
    }

    /// Once `limit` writes have been issued, drives accept nothing more: later operations
    /// wait for ever. With it a cut falls exactly between two writes, even if one poll issues
    /// both. Lifted by [`VirtEnv::crash`].
    pub fn set_write_limit(&self, limit: u64) {
        self.world.write_limit.set(Some(limit));
    }

    pub fn write_limit_reached(&self) -> bool {
        self.world.write_limit.get().is_some_and(|limit| self.writes_issued() >= limit)
    }

    /// See [`Executor::most_work`].
    pub fn most_work(&self) -> [(Work, u32); Work::ALL.len()] {
        self.world.executor.most_work()
    }

    pub fn tasks(&self) -> usize {
        self.world.executor.tasks()
    }

    /// Who wants to know where the time of an operation goes that is submitted now.
    fn meter(&self) -> Option<Rc<Cell<Phases>>> {
        self.world.doing.meter()
    }

    fn count_write(&self) {
        self.world.writes_issued.set(self.writes_issued() + 1);
    }

    fn trace(&self, event: [u64; 4]) {
        let words = std::iter::once(self.now().0).chain(event);
        let hash = words.fold(self.trace_hash(), |hash, word| mix(hash.rotate_left(5) ^ word));
        self.world.trace.set(hash);
    }

    fn with_rng<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.world.rng.borrow_mut())
    }

    fn set_timer(&self, deadline: Nanos, timer: Timer) -> TimerKey {
        let key = (deadline.max(self.now()), self.world.next_timer.get());
        self.world.next_timer.set(key.1 + 1);
        if matches!(timer, Timer::Tick(_)) {
            self.world.ticks.set(self.world.ticks.get() + 1);
        }
        self.world.timers.borrow_mut().insert(key, timer);
        key
    }

    fn has_timer(&self, key: TimerKey) -> bool {
        self.world.timers.borrow().contains_key(&key)
    }

    fn unset_timer(&self, key: TimerKey) {
        let timer = self.world.timers.borrow_mut().remove(&key);
        if matches!(timer, Some(Timer::Tick(_))) {
            self.world.ticks.set(self.world.ticks.get() - 1);
        }
        drop(timer);
    }

    /// Keeps an event until somebody knows its time; gone after a crash.
    fn park(&self, event: Event) -> u64 {
        let id = self.world.next_timer.get();
        self.world.next_timer.set(id + 1);
        self.world.parked.borrow_mut().insert(id, event);
        id
    }

    fn unpark(&self, id: u64) -> Option<Event> {
        self.world.parked.borrow_mut().remove(&id)
    }

    /// Lets `event` happen after `delay`, unless the world ends before.
    fn after(&self, delay: Nanos, event: impl FnOnce() + 'static) {
        self.set_timer(self.now() + delay, Timer::Run(Box::new(event)));
    }
}

impl Env for VirtEnv {
    type Drive = VirtDrive;
    type Root = Self;

    fn root(&self) -> Self {
        self.clone()
    }

    fn now(&self) -> Nanos {
        self.world.now.get()
    }

    fn recent(&self) -> Nanos {
        self.world.now.get()
    }

    fn sleep_until(&self, deadline: Nanos) -> impl Future<Output = ()> + 'static {
        Sleep { env: self.clone(), deadline, timer: None }
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let origins = self.origins();
        match origins.is_none() {
            true => self.world.executor.spawn(task),
            false => self.world.executor.spawn(self.doing_for(origins, task)),
        }
    }

    fn spawn_shared(&self, task: impl Future<Output = ()> + 'static) {
        self.world.executor.spawn(task);
    }

    fn origins(&self) -> Origins {
        self.world.doing.origins()
    }

    fn on_behalf<F: Future>(&self, origins: Origins, future: F) -> impl Future<Output = F::Output> {
        self.doing_for(origins, future)
    }

    fn waited(&self, wait: Wait, since: Nanos) {
        self.world.doing.waited(wait, since);
    }

    fn random(&self) -> u64 {
        self.with_rng(Rng::next_u64)
    }
}

struct Sleep {
    env: VirtEnv,
    deadline: Nanos,
    timer: Option<TimerKey>,
}

impl Sleep {
    fn unset(&mut self) {
        if let Some(key) = self.timer.take() {
            self.env.unset_timer(key);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.unset();
        if self.env.now() >= self.deadline {
            return Poll::Ready(());
        }
        let timer = Timer::Wake(context.waker().clone());
        self.timer = Some(self.env.set_timer(self.deadline, timer));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.unset();
    }
}
