//! Fairness, and futures dropped at every point of their life.

use super::*;
use crate::exec::Executor;
use crate::rng::Rng;
use std::cell::Cell;
use std::future::poll_fn;

/// Polls with a waker that does nothing.
fn poll_now<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_notify_reaches_those_who_wait_and_is_not_stored() {
    let event = Event::new();
    event.notify_all();
    event.notify_one();
    let (mut first, mut second) = (event.wait(), event.wait());
    assert!(poll_now(&mut first).is_pending());
    event.notify_one();
    assert!(poll_now(&mut second).is_pending());
    assert!(poll_now(&mut first).is_ready());
    event.notify_all();
    let mut third = event.wait();
    assert!(poll_now(&mut second).is_ready());
    assert!(poll_now(&mut third).is_pending());
    assert!(event.has_waiters());
    drop(third);
    assert!(!event.has_waiters());
}

#[test]
fn a_dropped_waiter_passes_notify_one_on_but_not_notify_all() {
    let event = Event::new();
    let (first, mut second, mut third) = (event.wait(), event.wait(), event.wait());
    event.notify_one();
    drop(first);
    assert!(poll_now(&mut second).is_ready());
    assert!(poll_now(&mut third).is_pending());
    let fourth = event.wait();
    event.notify_all();
    let mut fifth = event.wait();
    drop((third, fourth));
    assert!(poll_now(&mut fifth).is_pending());
    assert!(event.state.borrow().chosen.is_empty());
}

#[test]
fn notify_all_wakes_tasks_that_wait_again() {
    let (executor, event, rounds) = (Executor::new(), Event::new(), Rc::new(Cell::new(0)));
    for _ in 0..5 {
        let (event, rounds) = (event.clone(), rounds.clone());
        executor.spawn(async move {
            loop {
                event.wait().await;
                rounds.set(rounds.get() + 1);
            }
        });
    }
    executor.run_ready(100);
    for round in 1..4 {
        event.notify_all();
        executor.run_ready(100);
        assert_eq!(rounds.get(), 5 * round);
    }
    executor.drop_tasks();
    assert!(!event.has_waiters());
}

#[test]
fn a_semaphore_serves_in_order_and_small_requests_do_not_overtake() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire(2).unwrap();
    let (mut large, mut small) = (semaphore.acquire(3), semaphore.acquire(1));
    assert!(poll_now(&mut large).is_pending());
    assert!(poll_now(&mut small).is_pending());
    assert!(semaphore.try_acquire(1).is_none(), "one is free, but others wait");
    drop(held);
    assert!(poll_now(&mut small).is_pending());
    let Poll::Ready(permit) = poll_now(&mut large) else { panic!("three are free") };
    assert_eq!((permit.count(), semaphore.available()), (3, 0));
    semaphore.add_permits(1);
    assert!(poll_now(&mut small).is_ready());
    drop(permit);
    assert_eq!(semaphore.available(), 4);
}

#[test]
fn a_dropped_acquire_gives_back_and_lets_others_pass() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire(1).unwrap();
    let (mut large, mut small) = (semaphore.acquire(2), semaphore.acquire(1));
    assert!(poll_now(&mut large).is_pending() && poll_now(&mut small).is_pending());
    drop(large);
    // Served by that, but dropped before it noticed.
    drop(small);
    assert_eq!(semaphore.available(), 1);
    drop(held);
    assert_eq!(semaphore.available(), 2);
    drop(semaphore.acquire(2));
    assert_eq!(semaphore.available(), 2);
}

/// Whatever happens to waiting futures, permits are conserved and nobody starves.
#[test]
fn permits_are_conserved() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let semaphore = Semaphore::new(5);
        let (mut waiting, mut held): (Vec<Acquire>, Vec<Permit>) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            match rng.below(4) {
                0 => waiting.push(semaphore.acquire(1 + rng.index(5))),
                1 if !waiting.is_empty() => drop(waiting.swap_remove(rng.index(waiting.len()))),
                2 if !held.is_empty() => drop(held.swap_remove(rng.index(held.len()))),
                _ if !waiting.is_empty() => {
                    let place = rng.index(waiting.len());
                    if let Poll::Ready(permit) = poll_now(&mut waiting[place]) {
                        held.push(permit);
                        drop(waiting.swap_remove(place));
                    }
                }
                _ => {}
            }
            let count: usize = held.iter().map(Permit::count).sum();
            assert!(count + semaphore.available() <= 5, "seed {seed}");
        }
        held.clear();
        while !waiting.is_empty() {
            let before = waiting.len();
            waiting.retain_mut(|acquire| poll_now(acquire).is_pending());
            assert!(waiting.len() < before, "seed {seed}: nobody is served");
        }
        assert_eq!(semaphore.available(), 5, "seed {seed}");
    }
}

#[test]
fn turns_do_not_interleave_under_any_order() {
    for seed in 0..50 {
        let executor = Executor::with_shuffle(seed);
        let (turn, inside, done) = (Turn::new(), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        for _ in 0..10 {
            let (turn, inside, done) = (turn.clone(), inside.clone(), done.clone());
            executor.spawn(async move {
                let _guard = turn.lock().await;
                assert_eq!(inside.replace(1), 0, "two at a time");
                let mut polls = 0;
                poll_fn(|context| {
                    polls += 1;
                    context.waker().wake_by_ref();
                    if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                inside.set(0);
                done.set(done.get() + 1);
            });
        }
        while executor.run_ready(100) > 0 {}
        assert_eq!(done.get(), 10);
        assert!(turn.try_lock().is_some());
    }
}

#[test]
fn a_oneshot_carries_one_value_or_the_news_that_there_is_none() {
    let (sender, mut receiver) = oneshot();
    assert!(poll_now(&mut receiver).is_pending());
    sender.send(7);
    assert_eq!(poll_now(&mut receiver), Poll::Ready(Some(7)));
    let (sender, mut receiver) = oneshot::<u32>();
    drop(sender);
    assert_eq!(poll_now(&mut receiver), Poll::Ready(None));
    let (sender, receiver) = oneshot();
    let value = Rc::new(());
    drop(receiver);
    sender.send(value.clone());
    assert_eq!(Rc::strong_count(&value), 1);
}

#[test]
fn a_oneshot_wakes_its_task() {
    for send in [false, true] {
        let (executor, seen) = (Executor::new(), Rc::new(Cell::new(None)));
        let (sender, receiver) = oneshot();
        let result = seen.clone();
        executor.spawn(async move { result.set(Some(receiver.await)) });
        executor.run_ready(10);
        assert_eq!(seen.get(), None);
        if send {
            sender.send(3)
        } else {
            drop(sender)
        }
        executor.run_ready(10);
        assert_eq!(seen.get(), Some(send.then_some(3)));
    }
}
