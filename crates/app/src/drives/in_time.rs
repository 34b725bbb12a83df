//! Asking about paths of which one may never answer.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::pin;

use futures_util::future::{Either, select};
use io::sync::oneshot;
use io::uring::UringEnv;
use io::{Env, Nanos};

/// Whoever is silent for so long does not answer at all: of commands to disks the kernel gives up
/// waiting after 30 s.
pub(super) const ANSWER_MAX: Nanos = Nanos::from_secs(35);

/// Paths that are asked about together: a shelf of drives. Each takes a handle, and a thread if it
/// is silent.
pub(super) const ASKED_AT_ONCE: usize = 32;

thread_local! {
    /// Paths that have not answered yet, for longer than that. Each keeps a thread, so nobody asks
    /// about one again.
    static SILENT: RefCell<BTreeSet<PathBuf>> = const { RefCell::new(BTreeSet::new()) };
}

/// What comes of a question about a path; `None` if it is silent.
pub(super) async fn in_time<T: 'static>(
    env: &UringEnv,
    path: &Path,
    question: impl Future<Output = T> + 'static,
) -> Option<T> {
    if SILENT.with(|silent| silent.borrow().contains(path)) {
        return None;
    }
    let (told, answer) = oneshot();
    let of = path.to_owned();
    env.spawn(async move {
        told.send(question.await);
        SILENT.with(|silent| silent.borrow_mut().remove(&of));
    });
    match select(pin!(answer), pin!(env.sleep_until(env.now() + ANSWER_MAX))).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => {
            SILENT.with(|silent| silent.borrow_mut().insert(path.to_owned()));
            None
        }
    }
}
