//! The executor's promises: order, merged wakes, foreign threads, crashes.

use super::*;
use std::cell::Cell;
use std::future::poll_fn;

/// The order in which eight tasks that yield twice run.
fn run_order(executor: &Executor) -> Vec<u32> {
    let order = Rc::new(RefCell::new(Vec::new()));
    for name in 0..8 {
        let order = order.clone();
        executor.spawn(async move {
            for _ in 0..3 {
                order.borrow_mut().push(name);
                yield_now().await;
            }
        });
    }
    while executor.run_ready(5) > 0 {}
    assert_eq!(executor.tasks(), 0);
    order.take()
}

#[test]
fn fifo_is_round_robin_and_a_shuffle_is_named_by_its_seed() {
    let rounds: Vec<u32> = (0..8).chain(0..8).chain(0..8).collect();
    assert_eq!(run_order(&Executor::new()), rounds);
    let shuffled = run_order(&Executor::with_shuffle(1));
    assert_ne!(shuffled, rounds);
    assert_eq!(shuffled, run_order(&Executor::with_shuffle(1)));
    assert_ne!(shuffled, run_order(&Executor::with_shuffle(2)));
}

/// One that has many tasks ready keeps another waiting for one of them; what a task spawns shares
/// its turn, and lanes of those that are over are used again.
#[test]
fn lanes_take_turns() {
    let executor = Executor::new();
    for _ in 0..3 {
        let order = Rc::new(RefCell::new(String::new()));
        let task = |name: char, times: usize| {
            let order = order.clone();
            async move {
                for _ in 0..times {
                    order.borrow_mut().push(name);
                    yield_now().await;
                }
            }
        };
        let (own, many) = (executor.clone(), [task('a', 1), task('b', 2), task('c', 1)]);
        executor.spawn_apart(async move { many.into_iter().for_each(|task| own.spawn(task)) });
        assert_eq!(executor.run_ready(1), 1);
        executor.spawn_apart(task('x', 4));
        executor.spawn(task('m', 1));
        while executor.run_ready(100) > 0 {}
        assert_eq!(order.take(), "axmbxcxxb".to_owned());
        assert_eq!((executor.tasks(), executor.inner.slab.borrow().lanes.len()), (0, 3));
    }
}

#[test]
fn a_drawn_order_knows_no_lanes() {
    let executor = Executor::with_shuffle(3);
    let over = Rc::new(Cell::new(0));
    for _ in 0..20 {
        let over = over.clone();
        executor.spawn_apart(async move {
            yield_now().await;
            over.set(over.get() + 1);
        });
    }
    while executor.run_ready(7) > 0 {}
    assert_eq!((over.get(), executor.inner.slab.borrow().lanes.len()), (20, 1));
}

#[test]
fn wakes_merge_and_a_wake_during_the_poll_counts() {
    let executor = Executor::new();
    let polls = Rc::new(Cell::new(0));
    let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
    let (seen, slot) = (polls.clone(), kept.clone());
    executor.spawn(poll_fn(move |context| {
        seen.set(seen.get() + 1);
        *slot.borrow_mut() = Some(context.waker().clone());
        if seen.get() == 1 {
            context.waker().wake_by_ref();
        }
        if seen.get() == 4 { Poll::Ready(()) } else { Poll::Pending }
    }));
    assert_eq!(executor.run_ready(100), 2);
    let waker = kept.borrow().clone().unwrap();
    waker.wake_by_ref();
    waker.wake_by_ref();
    assert_eq!(executor.run_ready(100), 1);
    waker.wake_by_ref();
    assert_eq!(executor.run_ready(100), 1);
    assert_eq!(executor.tasks(), 0);
    // The slot now belongs to another task, which a stale waker must not poll.
    executor.spawn(std::future::pending());
    assert_eq!(executor.run_ready(100), 1);
    waker.wake_by_ref();
    assert_eq!(executor.run_ready(100), 0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "another thread is what is tested")]
fn a_wake_from_another_thread_unparks() {
    let executor = Executor::new();
    let (sender, parked) = std::sync::mpsc::channel();
    executor.set_unpark(Arc::new(move || sender.send(()).unwrap()));
    let root = executor.root();
    let kept = Rc::new(RefCell::new(None));
    let slot = kept.clone();
    executor.spawn(poll_fn(move |context| match slot.replace(Some(context.waker().clone())) {
        None => Poll::Pending,
        Some(_) => Poll::Ready(()),
    }));
    executor.run_ready(1);
    assert!(parked.try_recv().is_err(), "our own thread needs no unpark");
    let waker = kept.borrow().clone().unwrap();
    std::thread::spawn(move || waker.wake());
    parked.recv().unwrap();
    assert_eq!(executor.run_ready(1), 1);
    assert_eq!(executor.tasks(), 0);
    let mut first = true;
    let mut future = std::pin::pin!(poll_fn(|context| {
        if std::mem::replace(&mut first, false) {
            let waker = context.waker().clone();
            std::thread::spawn(move || waker.wake());
            return Poll::Pending;
        }
        Poll::Ready(7)
    }));
    assert_eq!(root.poll(future.as_mut()), Poll::Pending);
    parked.recv().unwrap();
    assert_eq!(root.poll(future.as_mut()), Poll::Ready(7));
}

/// Spawns and wakes while it dies.
struct Nuisance(Executor, Rc<Cell<u32>>, Option<Waker>);

impl Drop for Nuisance {
    fn drop(&mut self) {
        self.1.set(self.1.get() + 1);
        self.0.spawn(std::future::pending());
        if let Some(waker) = self.2.take() {
            waker.wake();
        }
    }
}

#[test]
fn a_crash_drops_every_task_even_those_that_fight_back() {
    for inside in [false, true] {
        let executor = Executor::with_shuffle(9);
        let deaths = Rc::new(Cell::new(0));
        for _ in 0..10 {
            let mut nuisance = Nuisance(executor.clone(), deaths.clone(), None);
            executor.spawn(poll_fn(move |context| {
                nuisance.2 = Some(context.waker().clone());
                if inside {
                    nuisance.0.drop_tasks();
                }
                Poll::Pending
            }));
        }
        executor.run_ready(10);
        executor.drop_tasks();
        assert_eq!((deaths.get(), executor.tasks()), (10, 0));
        assert_eq!(run_order(&executor).len(), 24);
    }
}
