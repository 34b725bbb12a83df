//! A bounded queue to a thread that takes its time: whoever puts something in never waits, and
//! what finds no room is counted.
//!
//! ```text
//! put ──> waiting (bounded) ──> thread ──> write: may block, may fail
//!   └─ full ──> dropped            └─ failed ──> dropped
//! ```
//! * `waiting.len()` is at most `waiting_max`.
//! * The lock is held for the queue only, never while something is written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What was not written, for metrics: it outlives the outlet.
#[derive(Debug, Default)]
pub struct Dropped {
    /// There was no room for it.
    pub full: AtomicU64,
    /// It could not be written.
    pub failed: AtomicU64,
}

/// A handle on one thread. When it is dropped the thread writes what waits, and ends.
pub struct Outlet<T> {
    queue: Arc<Queue<T>>,
    dropped: Arc<Dropped>,
    waiting_max: usize,
}

struct Queue<T> {
    state: Mutex<State<T>>,
    /// There is something to write, or nobody is left who could put something in.
    more: Condvar,
    /// Nothing waits, and nothing is being written.
    idle: Condvar,
}

struct State<T> {
    waiting: VecDeque<T>,
    is_writing: bool,
    is_closed: bool,
    /// What found no room since the last that did.
    missed: u64,
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be written next; `None` when there will be nothing more.
    fn next(&self) -> Option<T> {
        let mut state = self.lock();
        state.is_writing = false;
        loop {
            if let Some(item) = state.waiting.pop_front() {
                state.is_writing = true;
                return Some(item);
            }
            self.idle.notify_all();
            if state.is_closed {
                return None;
            }
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T: Send + 'static> Outlet<T> {
    /// `write` is called by the thread, and says whether it was done.
    pub fn start(
        waiting_max: usize,
        dropped: &Arc<Dropped>,
        mut write: impl FnMut(T) -> bool + Send + 'static,
    ) -> Outlet<T> {
        let state =
            State { waiting: VecDeque::new(), is_writing: false, is_closed: false, missed: 0 };
        let (more, idle) = (Condvar::new(), Condvar::new());
        let queue = Arc::new(Queue { state: Mutex::new(state), more, idle });
        let (own, failed) = (queue.clone(), dropped.clone());
        #[expect(
            clippy::disallowed_methods,
            reason = "it owns nothing of any shard, and may block"
        )]
        std::thread::spawn(move || {
            while let Some(item) = own.next() {
                if !write(item) {
                    failed.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Outlet { queue, dropped: dropped.clone(), waiting_max }
    }

    /// Never waits. `item` is given how many found no room since the last that did.
    pub fn put(&self, item: impl FnOnce(u64) -> T) {
        let mut state = self.queue.lock();
        if state.waiting.len() >= self.waiting_max {
            state.missed += 1;
            self.dropped.full.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let missed = std::mem::take(&mut state.missed);
        state.waiting.push_back(item(missed));
        drop(state);
        self.queue.more.notify_one();
    }

    /// Waits until all of it is written, but not longer than that. False if something still waits.
    pub fn drain(&self, patience: Duration) -> bool {
        let busy = |state: &mut State<T>| !state.waiting.is_empty() || state.is_writing;
        let state = self.queue.lock();
        let waited = self.queue.idle.wait_timeout_while(state, patience, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl<T> Drop for Outlet<T> {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.more.notify_one();
    }
}

/// A time by which several are waited for, one after the other.
pub struct Deadline(Duration);

impl Deadline {
    pub fn after(patience: Duration) -> Deadline {
        Deadline(uptime() + patience)
    }

    pub fn left(&self) -> Duration {
        self.0.saturating_sub(uptime())
    }
}

/// Of this machine, for threads that have no environment to ask.
pub fn uptime() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel, sync_channel};

    use super::*;

    const SHORT: Duration = Duration::from_millis(10);
    const LONG: Duration = Duration::from_secs(60);

    fn counted(dropped: &Dropped) -> (u64, u64) {
        (dropped.full.load(Ordering::Relaxed), dropped.failed.load(Ordering::Relaxed))
    }

    /// An outlet whose thread writes one item for each time that it is let go.
    fn held(waiting_max: usize) -> (Outlet<u64>, Arc<Dropped>, impl Fn(), Receiver<u64>) {
        let (go, gone) = sync_channel::<()>(1000);
        let (wrote, written) = channel();
        let dropped = Arc::<Dropped>::default();
        let outlet = Outlet::start(waiting_max, &dropped, move |item| {
            let _ = gone.recv();
            wrote.send(item).is_ok()
        });
        (outlet, dropped, move || go.send(()).expect("room"), written)
    }

    #[test]
    fn a_target_that_is_stuck_keeps_nobody_and_what_is_lost_is_counted() {
        let (outlet, dropped, go, written) = held(3);
        // The first may be with the thread already, or still wait.
        (0..100).for_each(|number| outlet.put(|missed| number * 1000 + missed));
        let lost = counted(&dropped).0;
        assert!(lost == 96 || lost == 97, "{lost}");
        assert!(!outlet.drain(SHORT), "it is stuck");
        (0..100 - lost).for_each(|_| go());
        assert!(outlet.drain(LONG));
        // The next one tells how many were lost before it.
        outlet.put(|missed| missed);
        go();
        assert!(outlet.drain(LONG));
        drop(outlet);
        let written: Vec<u64> = written.iter().collect();
        assert_eq!((written.len() as u64, written.last()), (101 - lost, Some(&lost)));
        assert_eq!(counted(&dropped), (lost, 0));
    }

    #[test]
    fn what_can_not_be_written_is_counted_and_the_next_one_tried() {
        let dropped = Arc::<Dropped>::default();
        let outlet = Outlet::start(10, &dropped, |item: u64| item.is_multiple_of(2));
        (0..10).for_each(|number| outlet.put(|_| number));
        assert!(outlet.drain(LONG));
        assert_eq!(counted(&dropped), (0, 5));
    }

    #[test]
    fn what_waits_is_written_when_nobody_has_the_outlet_any_more() {
        let (outlet, _, go, written) = held(10);
        (0..5).for_each(|number| outlet.put(|_| number));
        drop(outlet);
        (0..5).for_each(|_| go());
        assert_eq!(written.iter().count(), 5);
    }
}
