//! The executor: one thread, many tasks, no locks in the tasks.
//!
//! Real and simulated worlds share it. The real one parks in io_uring when nothing is ready,
//! the simulated one jumps to the next timer; both only ever call [`Executor::run_ready`].
//!
//! Tasks run in lanes, which take turns; a task that is spawned has the lane of its spawner:
//! ```text
//!  lane 0  (pools, timers)        a b c          polled: a d g b e c f
//!  lane 1  (a client: its tasks)  d e f
//!  lane 2  (another)              g
//! ```

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use crate::rng::Rng;
use crate::slice::{self, Work};

/// Names a task. The slot is reused after the task's end, the pair is not: a wake that comes
/// late finds another generation and does nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TaskId {
    slot: u32,
    generation: u32,
    lane: u32,
}

/// Tasks that are ready. Who has a thousand of them keeps another waiting for one.
#[derive(Default)]
struct Ready {
    lanes: Vec<VecDeque<TaskId>>,
    /// Lanes with tasks, in the order in which it is their turn.
    turns: VecDeque<u32>,
}

impl Ready {
    fn push(&mut self, id: TaskId) {
        let at = id.lane as usize;
        if at >= self.lanes.len() {
            self.lanes.resize_with(at + 1, VecDeque::new);
        }
        if self.lanes[at].is_empty() {
            self.turns.push_back(id.lane);
        }
        self.lanes[at].push_back(id);
    }

    fn pop(&mut self) -> Option<TaskId> {
        let lane = self.turns.pop_front()?;
        let tasks = &mut self.lanes[lane as usize];
        let id = tasks.pop_front();
        if !tasks.is_empty() {
            self.turns.push_back(lane);
        }
        id
    }

    /// Any of them: where order is drawn there is one lane.
    fn draw(&mut self, rng: &mut Rng) -> Option<TaskId> {
        let tasks = self.lanes.first_mut().filter(|tasks| tasks.len() > 1);
        let Some(tasks) = tasks else { return self.pop() };
        tasks.swap_remove_front(rng.index(tasks.len()))
    }
}

/// Called when a task is woken from another thread than the executor's.
pub type Unpark = Arc<dyn Fn() + Send + Sync>;

/// The part of the executor that wakers reach, from any thread.
struct Shared {
    /// Bounded by the number of tasks: [`Signal::pending`] lets a task in only once.
    ready: Mutex<Ready>,
    unpark: Mutex<Option<Unpark>>,
    home: usize,
}

/// What a waker points to: one task, or the root future (which has no slot).
struct Signal {
    shared: Arc<Shared>,
    id: Option<TaskId>,
    /// Woken and not yet polled since. Cleared *before* the poll, so that a task woken while
    /// it is polled is polled again.
    pending: AtomicBool,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    signal: Arc<Signal>,
    waker: Waker,
}

/// `task` is `None` while the slot is free and while its task is being polled.
struct Slot {
    generation: u32,
    task: Option<Task>,
}

#[derive(Default)]
struct Slab {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// For each lane, its tasks that are alive; the first is there for ever.
    lanes: Vec<u32>,
    free_lanes: Vec<u32>,
    alive: usize,
    /// The world is ending: whatever is spawned now is dropped at once.
    dropping: bool,
}

struct Inner {
    slab: RefCell<Slab>,
    shared: Arc<Shared>,
    shuffle: Option<RefCell<Rng>>,
    /// Of the task that is being polled.
    lane: Cell<u32>,
    /// Most work done in one poll, of each kind ([`slice::spend`]).
    most_work: Cell<[u32; Work::ALL.len()]>,
}

/// Waits for the task's next turn: all others that are ready have theirs before.
pub fn yield_now() -> impl Future<Output = ()> + 'static {
    let mut yielded = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// A handle on one executor. Tasks usually hold one too, so an executor that is no longer
/// wanted must be emptied by [`Executor::drop_tasks`] to be freed.
#[derive(Clone)]
pub struct Executor {
    inner: Rc<Inner>,
}

/// The address of a thread-local names the thread as long as it lives; cheaper than `ThreadId`.
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.try_with(|mark| std::ptr::from_ref(mark) as usize).unwrap_or(0)
}

impl Shared {
    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().expect("nothing panics while the ready queue is locked")
    }

    fn unpark_if_elsewhere(&self) {
        if this_thread() == self.home {
            return;
        }
        let unpark = self.unpark.lock().expect("nothing panics while the hook is locked").clone();
        if let Some(unpark) = unpark {
            unpark();
        }
    }
}

impl Signal {
    fn new(shared: &Arc<Shared>, id: Option<TaskId>) -> Arc<Signal> {
        Arc::new(Signal { shared: shared.clone(), id, pending: AtomicBool::new(true) })
    }

    /// Acquires what the waking thread wrote before it woke us, also if its wake was merged
    /// into an earlier one.
    fn take(&self) -> bool {
        self.pending.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Signal>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Signal>) {
        if self.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(id) = self.id {
            self.shared.ready().push(id);
        }
        self.shared.unpark_if_elsewhere();
    }
}

impl Slab {
    fn claim(&mut self, lane: u32) -> TaskId {
        self.alive += 1;
        self.lanes[lane as usize] += 1;
        if let Some(slot) = self.free.pop() {
            return TaskId { slot, generation: self.slots[slot as usize].generation, lane };
        }
        let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 tasks");
        self.slots.push(Slot { generation: 0, task: None });
        TaskId { slot, generation: 0, lane }
    }

    /// A lane without tasks, for one that is claimed next.
    fn claim_lane(&mut self) -> u32 {
        self.free_lanes.pop().unwrap_or_else(|| {
            self.lanes.push(0);
            self.lanes.len() as u32 - 1
        })
    }

    fn get(&mut self, id: TaskId) -> Option<&mut Slot> {
        self.slots.get_mut(id.slot as usize).filter(|slot| slot.generation == id.generation)
    }

    /// Gives the slot back; every waker of its task is stale from here.
    fn release(&mut self, id: TaskId) {
        if let Some(slot) = self.get(id) {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(id.slot);
            self.alive -= 1;
            let tasks = &mut self.lanes[id.lane as usize];
            *tasks -= 1;
            if *tasks == 0 && id.lane != 0 {
                self.free_lanes.push(id.lane);
            }
        }
    }

    /// Empties every slot and makes every waker stale, also that of a task being polled.
    fn take_all(&mut self) -> Vec<Task> {
        self.dropping = true;
        self.alive = 0;
        self.free = (0..self.slots.len() as u32).rev().collect();
        self.lanes.fill(0);
        self.free_lanes = (1..self.lanes.len() as u32).rev().collect();
        let empty = |slot: &mut Slot| {
            slot.generation = slot.generation.wrapping_add(1);
            slot.task.take()
        };
        self.slots.iter_mut().filter_map(empty).collect()
    }
}

impl Executor {
    /// Runs ready tasks in the order they became ready.
    #[expect(clippy::new_without_default, reason = "an executor is a choice, not a default")]
    pub fn new() -> Executor {
        Executor::build(None)
    }

    /// Runs ready tasks in an order drawn from `seed`: explores interleavings.
    pub fn with_shuffle(seed: u64) -> Executor {
        Executor::build(Some(RefCell::new(Rng::new(seed))))
    }

    fn build(shuffle: Option<RefCell<Rng>>) -> Executor {
        let shared =
            Shared { ready: Mutex::default(), unpark: Mutex::new(None), home: this_thread() };
        let slab = Slab { lanes: vec![0], ..Slab::default() };
        let (slab, shared, lane) = (RefCell::new(slab), Arc::new(shared), Cell::new(0));
        let inner = Inner { slab, shared, shuffle, lane, most_work: Cell::default() };
        Executor { inner: Rc::new(inner) }
    }

    /// `unpark` must make the executor's thread look at its ready tasks, also if it is called
    /// just before that thread goes to sleep (an eventfd does).
    pub fn set_unpark(&self, unpark: Unpark) {
        *self.inner.shared.unpark.lock().expect("nothing panics while the hook is locked") =
            Some(unpark);
    }

    /// In the lane of the task that is being polled.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.spawn_in(Some(self.inner.lane.get()), task);
    }

    /// In the first lane, whoever spawns it.
    pub fn spawn_shared(&self, task: impl Future<Output = ()> + 'static) {
        self.spawn_in(Some(0), task);
    }

    /// In a lane of its own, which it shares with those that it spawns. Where order is drawn there
    /// is one lane for all. Returns the lane, whose number one that has ended may have had.
    pub fn spawn_apart(&self, task: impl Future<Output = ()> + 'static) -> u32 {
        self.spawn_in(self.inner.shuffle.as_ref().map(|_| 0), task)
    }

    /// The lane of the task that is being polled; 0 if none is.
    pub fn lane(&self) -> u32 {
        self.inner.lane.get()
    }

    fn spawn_in(&self, lane: Option<u32>, task: impl Future<Output = ()> + 'static) -> u32 {
        let mut slab = self.inner.slab.borrow_mut();
        if slab.dropping {
            // Dropping the task may call back into us: not under the borrow.
            drop(slab);
            return 0;
        }
        let lane = lane.unwrap_or_else(|| slab.claim_lane());
        let id = slab.claim(lane);
        let signal = Signal::new(&self.inner.shared, Some(id));
        let waker = Waker::from(signal.clone());
        let slot = slab.get(id).expect("just claimed");
        slot.task = Some(Task { future: Box::pin(task), signal, waker });
        self.inner.shared.ready().push(id);
        lane
    }

    /// Polls ready tasks until none is ready or `budget` polls were made; says how many.
    pub fn run_ready(&self, budget: usize) -> usize {
        let mut polls = 0;
        while polls < budget {
            let Some(id) = self.next_ready() else { break };
            polls += usize::from(self.poll_task(id));
        }
        polls
    }

    fn next_ready(&self) -> Option<TaskId> {
        let mut ready = self.inner.shared.ready();
        match &self.inner.shuffle {
            Some(rng) => ready.draw(&mut rng.borrow_mut()),
            None => ready.pop(),
        }
    }

    /// False if the task is gone.
    fn poll_task(&self, id: TaskId) -> bool {
        // The task leaves its slot for the poll, so it may spawn others meanwhile.
        let taken = self.inner.slab.borrow_mut().get(id).and_then(|slot| slot.task.take());
        let Some(mut task) = taken else { return false };
        task.signal.take();
        let mut context = Context::from_waker(&task.waker);
        self.inner.lane.set(id.lane);
        slice::begin_work();
        let polled = task.future.as_mut().poll(&mut context);
        self.count_work();
        self.inner.lane.set(0);
        if polled.is_ready() {
            self.inner.slab.borrow_mut().release(id);
            return true;
        }
        // The slot is another's if the task itself called `drop_tasks`; then `task` dies here.
        if let Some(slot) = self.inner.slab.borrow_mut().get(id) {
            slot.task = Some(task);
        }
        true
    }

    fn count_work(&self) {
        let (work, done) = slice::work();
        if done > 0 {
            let mut most = self.inner.most_work.get();
            most[work as usize] = most[work as usize].max(done);
            self.inner.most_work.set(most);
        }
    }

    /// Most units of work that one poll of a task has done, for each kind.
    pub fn most_work(&self) -> [(Work, u32); Work::ALL.len()] {
        let most = self.inner.most_work.get();
        Work::ALL.map(|work| (work, most[work as usize]))
    }

    pub fn has_ready(&self) -> bool {
        !self.inner.shared.ready().turns.is_empty()
    }

    /// How many tasks are alive.
    pub fn tasks(&self) -> usize {
        self.inner.slab.borrow().alive
    }

    /// The crash: drops every task. What they wake or spawn while they die is void.
    pub fn drop_tasks(&self) {
        let tasks = self.inner.slab.borrow_mut().take_all();
        // Their destructors may call back into us: not under the borrow.
        drop(tasks);
        *self.inner.shared.ready() = Ready::default();
        self.inner.slab.borrow_mut().dropping = false;
    }

    /// A place to poll the future that a thread blocks on, which is not a task (it may borrow).
    pub fn root(&self) -> Root {
        let signal = Signal::new(&self.inner.shared, None);
        Root { waker: Waker::from(signal.clone()), signal }
    }
}

/// The waker of a future that is polled beside the tasks.
pub struct Root {
    signal: Arc<Signal>,
    waker: Waker,
}

impl Root {
    /// Woken (or new) and not polled since.
    pub fn is_ready(&self) -> bool {
        self.signal.pending.load(Ordering::Acquire)
    }

    /// Polls `future` if it was woken.
    pub fn poll<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        if !self.signal.take() {
            return Poll::Pending;
        }
        slice::begin_work();
        future.poll(&mut Context::from_waker(&self.waker))
    }
}

#[cfg(test)]
mod tests;
