//! A thread for system calls that can only be waited for: one at a time, in order.

use std::future::poll_fn;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread::Builder;

type Call = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Ends when it is dropped and has done what it was given.
pub(super) struct Worker {
    calls: io::Result<Sender<Job>>,
}

struct Job {
    call: Call,
    answer: Arc<Mutex<Answer>>,
}

#[derive(Default)]
struct Answer {
    result: Option<io::Result<()>>,
    waker: Option<Waker>,
}

impl Default for Worker {
    fn default() -> Worker {
        let (sender, calls) = channel::<Job>();
        let work = move || {
            for Job { call, answer } in calls {
                let result = call();
                let waker = {
                    let mut answer = answer.lock().expect("nothing panics while it has this");
                    answer.result = Some(result);
                    answer.waker.take()
                };
                waker.into_iter().for_each(Waker::wake);
            }
        };
        // Nobody joins it: a call that hangs would keep the program from ending.
        let thread = Builder::new().name("blocking-call".to_owned()).spawn(work);
        Worker { calls: thread.map(|_| sender) }
    }
}

impl Worker {
    /// Runs the call there. What it has (descriptors) is dropped before this is over.
    pub(super) async fn run(
        &self,
        call: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let sender = match &self.calls {
            Ok(sender) => sender,
            Err(error) => return Err(io::Error::new(error.kind(), "no thread can be made")),
        };
        let answer = Arc::<Mutex<Answer>>::default();
        let job = Job { call: Box::new(call), answer: answer.clone() };
        sender
            .send(job)
            .map_err(|_| io::Error::other("the thread for blocking calls has ended"))?;
        poll_fn(|context| {
            let mut answer = answer.lock().expect("nothing panics while it has this");
            if let Some(result) = answer.result.take() {
                return Poll::Ready(result);
            }
            answer.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}
