//! Many futures as one.

use futures_util::future::{self, FutureExt, JoinAll, LocalBoxFuture};

/// Runs all at once; their answers in order. Each lies behind a pointer, so that what runs them is
/// compiled once for a kind of answer, not once for each of hundreds of futures: it was a fifth of
/// the program.
pub fn join_all<'a, F: Future + 'a>(
    all: impl IntoIterator<Item = F>,
) -> JoinAll<LocalBoxFuture<'a, F::Output>> {
    future::join_all(all.into_iter().map(FutureExt::boxed_local))
}
