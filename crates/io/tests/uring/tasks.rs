//! Timers, wakes from other threads, fairness, signals.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use futures_util::future::{join_all, select};
use io::signal::{Signal, Signals};
use io::sync::oneshot;
use io::uring::UringEnv;
use io::wait::{Waits, told};
use io::{Drive, Env, Nanos, Wait};

use crate::support::{TempDir, argument, in_child};

fn env() -> UringEnv {
    UringEnv::new().unwrap()
}

#[test]
fn timers_fire_in_order_and_never_early() {
    let env = env();
    let order = Rc::new(RefCell::new(Vec::new()));
    let start = env.now();
    let sleeps = [30u64, 10, 20, 10, 0].into_iter().enumerate().map(|(index, millis)| {
        let (env, order) = (env.clone(), order.clone());
        async move {
            let deadline = start + Nanos::from_millis(millis);
            env.sleep_until(deadline).await;
            assert!(env.now() >= deadline);
            order.borrow_mut().push(index);
        }
    });
    env.block_on(join_all(sleeps));
    assert_eq!(*order.borrow(), [4, 1, 3, 2, 0]);
    let late = env.now().saturating_sub(start + Nanos::from_millis(30));
    assert!(late < Nanos::from_millis(500), "{late:?}");
}

#[test]
fn a_dropped_timer_wakes_nobody() {
    let env = env();
    let long = env.sleep_until(Nanos::from_secs(3600));
    let short = env.sleep_until(env.now() + Nanos::from_millis(5));
    env.block_on(select(long, short));
    env.block_on(env.sleep_until(env.now() + Nanos::from_millis(5)));
}

/// Completes when another thread says so.
fn told_by_thread(after: Duration) -> impl Future<Output = ()> {
    let shared = Arc::new(Mutex::new((false, None::<Waker>)));
    let theirs = shared.clone();
    #[expect(clippy::disallowed_methods, reason = "the test is about another thread")]
    thread::spawn(move || {
        // Nobody sends: a sleep that outlives nothing.
        let (_sender, receiver) = mpsc::channel::<()>();
        let _ = receiver.recv_timeout(after);
        let mut shared = theirs.lock().unwrap();
        shared.0 = true;
        if let Some(waker) = shared.1.take() {
            waker.wake();
        }
    });
    poll_fn(move |context| {
        let mut shared = shared.lock().unwrap();
        if shared.0 {
            return Poll::Ready(());
        }
        shared.1 = Some(context.waker().clone());
        Poll::Pending
    })
}

#[test]
fn another_thread_wakes_the_sleeping_one() {
    let env = env();
    for round in 0..20 {
        let after = Duration::from_micros(round * 500);
        env.block_on(told_by_thread(after));
        let told = Rc::new(Cell::new(0));
        for _ in 0..4 {
            let told = told.clone();
            env.spawn(async move {
                told_by_thread(after).await;
                told.set(told.get() + 1);
            });
        }
        env.block_on(async {
            while told.get() < 4 {
                env.sleep_until(env.now() + Nanos::from_millis(1)).await;
            }
        });
    }
}

#[test]
fn another_thread_wakes_a_spinning_one() {
    let env = env();
    env.set_spin(5_000);
    env.block_on(told_by_thread(Duration::from_millis(1)));
    env.block_on(told_by_thread(Duration::from_millis(20)));
}

#[test]
fn busy_tasks_starve_neither_drives_nor_timers() {
    let (env, dir) = (env(), TempDir::new());
    let drive = dir.drive(&env, 1 << 20);
    for _ in 0..200 {
        let env = env.clone();
        env.clone().spawn(async move {
            loop {
                env.yield_now().await;
            }
        });
    }
    let start = env.now();
    env.block_on(async {
        for page in 0..50 {
            drive.read(page * 4096, 4096).await.unwrap();
            env.sleep_until(env.now() + Nanos::from_micros(100)).await;
        }
        drive.flush().await.unwrap();
    });
    assert!(env.now().saturating_sub(start) < Nanos::from_secs(5));
    env.drop_tasks();
}

#[test]
fn random_numbers_and_identities_differ() {
    let (one, other) = (env(), env());
    assert_ne!(one.random(), other.random());
    assert_ne!(one.unique_id(), one.unique_id());
}

#[test]
fn a_signal_becomes_an_event() {
    // The child inherits what we block. It must be blocked there before `main`, because the
    // test harness has a thread of its own.
    let _blocked = Signals::new(&env()).unwrap();
    let mut child = in_child("tasks::child_waits_for_signals", Path::new(""));
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut wait_for = |text: &str| {
        let found = told.by_ref().map(Result::unwrap).any(|line| line.contains(text));
        assert!(found, "the child never said {text:?}");
    };
    wait_for("ready");
    for (name, text) in [("-INT", "Interrupt"), ("-HUP", "Hangup"), ("-TERM", "Terminate")] {
        let id = child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
        wait_for(text);
    }
    assert!(child.wait().unwrap().success());
}

/// The other process of the test above; on its own it does nothing.
#[test]
fn child_waits_for_signals() {
    if argument().is_none() {
        return;
    }
    let env = env();
    let signals = Signals::new(&env).unwrap();
    println!("\nready");
    loop {
        let signal = env.block_on(signals.next());
        println!("\n{signal:?}");
        if signal == Signal::Terminate {
            return;
        }
    }
}

/// How many waits for a lock were counted.
fn locks(env: &UringEnv, waits: &Waits) -> u64 {
    waits.summary(env.now())[Wait::Lock as usize].1.all.count
}

/// A task that waits once, in a task that it spawns.
async fn wait_once(env: UringEnv) {
    let (told_to, over) = oneshot();
    let own = env.clone();
    env.spawn(async move {
        told(&own, Wait::Lock, std::future::ready(())).await;
        told(&own, Wait::Lock, own.yield_now()).await;
        told_to.send(());
    });
    over.await;
}

#[test]
fn waits_are_counted_for_the_client_whose_they_are() {
    let env = env();
    let (first, second) = (Waits::default(), Waits::default());
    // As a background task of a pool: no client's, also while one is connected.
    let (sender, over) = oneshot();
    let own = env.clone();
    env.spawn(async move {
        own.count_waits(&Waits::default());
        wait_once(own).await;
        sender.send(());
    });
    env.block_on(over);
    for (waits, times) in [(Some(&first), 2), (Some(&second), 1), (None, 3)] {
        let (sender, over) = oneshot();
        let (own, waits) = (env.clone(), waits.cloned());
        env.spawn_apart(async move {
            // The third has the lane of those before, and has chosen no pool.
            waits.iter().for_each(|waits| own.count_waits(waits));
            for _ in 0..times {
                wait_once(own.clone()).await;
            }
            sender.send(());
        });
        env.block_on(over);
    }
    assert_eq!((locks(&env, &first), locks(&env, &second)), (2, 1));
}
