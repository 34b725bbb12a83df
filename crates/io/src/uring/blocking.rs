//! Threads for system calls that can only be waited for.
//!
//! ```text
//! call ── queue ──> a thread that has nothing to do, else a new one (THREADS_MAX at most)
//! ```
//! A call that hangs, as one about a file whose server is silent does, keeps its thread and nobody
//! else. A thread that has nothing to do for a while ends.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::thread::Builder;
use std::time::Duration;

use crate::signal;

/// More than a large pool has drives that can hang at once, each with a look, an opening and a
/// closing. Calls beyond wait their turn.
const THREADS_MAX: usize = 256;

/// Longer than it takes until the next regular look.
const IDLE: Duration = Duration::from_secs(10);

type Call = Box<dyn FnOnce() + Send>;

/// A handle; clones use the same threads, from any thread.
#[derive(Clone, Default)]
pub(crate) struct Blocking(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    calls: VecDeque<Call>,
    threads: usize,
    /// Of these, how many wait for a call.
    idle: usize,
}

struct Answer<T> {
    result: Option<T>,
    waker: Option<Waker>,
}

impl Blocking {
    /// Runs the call apart. What it has (descriptors) is dropped before this is over. Fails if no
    /// thread can be made, and none is there.
    pub(crate) fn run<T: Send + 'static, C: FnOnce() -> T + Send + 'static>(
        &self,
        call: C,
    ) -> impl Future<Output = io::Result<T>> + use<T, C> {
        let answer = Arc::new(Mutex::new(Answer { result: None, waker: None }));
        let theirs = answer.clone();
        let started = self.start(move || {
            let result = call();
            let mut answer = theirs.lock().expect("nothing panics while it has this");
            answer.result = Some(result);
            let waker = answer.waker.take();
            drop(answer);
            waker.into_iter().for_each(Waker::wake);
        });
        let mut refused = started.err();
        poll_fn(move |context| {
            if let Some(error) = refused.take() {
                return Poll::Ready(Err(error));
            }
            let mut answer = answer.lock().expect("nothing panics while it has this");
            if let Some(result) = answer.result.take() {
                return Poll::Ready(Ok(result));
            }
            answer.waker = Some(context.waker().clone());
            Poll::Pending
        })
    }

    /// The same of a call that nobody waits for. What is refused is dropped here.
    pub(crate) fn start(&self, call: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut state = self.0.lock();
        state.calls.push_back(Box::new(call));
        if state.calls.len() <= state.idle {
            self.0.more.notify_one();
        } else if state.threads < THREADS_MAX {
            state.threads += 1;
            let shared = self.0.clone();
            // Nobody joins it: a call that hangs would keep the program from ending.
            let made = Builder::new().name("blocking-call".to_owned()).spawn(move || shared.work());
            if let Err(error) = made {
                state.threads -= 1;
                if state.threads == 0 {
                    let refused = state.calls.pop_back();
                    drop(state);
                    drop(refused);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it has this")
    }

    fn work(&self) {
        signal::block_all();
        let mut state = self.lock();
        loop {
            if let Some(call) = state.calls.pop_front() {
                drop(state);
                call();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, waited) =
                self.more.wait_timeout(state, IDLE).expect("nothing panics while it has this");
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.calls.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::uring::UringEnv;

    #[test]
    fn a_call_that_hangs_keeps_nobody_else() {
        let env = UringEnv::new().unwrap();
        let blocking = Blocking::default();
        let (go, gone) = channel::<()>();
        let hangs = blocking.run(move || gone.recv().is_ok());
        env.block_on(async {
            for n in 0..100 {
                assert_eq!(blocking.run(move || n + 1).await.unwrap(), n + 1);
            }
            // One after the other, they find a thread that has nothing to do; now and then it is
            // not back yet.
            let threads = blocking.0.lock().threads;
            assert!(threads < 50, "{threads}");
            go.send(()).unwrap();
            assert!(hangs.await.unwrap());
        });
    }

    #[test]
    fn calls_beyond_the_bound_wait_their_turn() {
        let env = UringEnv::new().unwrap();
        let blocking = Blocking::default();
        let turn = Arc::new((Mutex::new(false), Condvar::new()));
        let calls: Vec<_> = (0..THREADS_MAX + 10)
            .map(|n| {
                let turn = turn.clone();
                blocking.run(move || {
                    let mut go = turn.0.lock().unwrap();
                    while !*go {
                        go = turn.1.wait(go).unwrap();
                    }
                    n
                })
            })
            .collect();
        assert_eq!(blocking.0.lock().threads, THREADS_MAX);
        *turn.0.lock().unwrap() = true;
        turn.1.notify_all();
        env.block_on(async {
            for (n, call) in calls.into_iter().enumerate() {
                assert_eq!(call.await.unwrap(), n);
            }
        });
    }
}
