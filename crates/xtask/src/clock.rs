//! Time as a client sees it: what has elapsed, pauses, and deadlines.

use std::time::{Duration, Instant};

pub struct Elapsed(Instant);

impl Elapsed {
    #[expect(clippy::disallowed_methods, reason = "a client, outside the engine's world")]
    pub fn start() -> Elapsed {
        Elapsed(Instant::now())
    }

    pub fn get(&self) -> Duration {
        self.0.elapsed()
    }
}

#[expect(clippy::disallowed_methods, reason = "a client, outside the engine's world")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

const POLL: Duration = Duration::from_millis(2);

/// Asks until there is an answer, at most for `patience`: then `None`.
pub fn poll<T>(patience: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let since = Elapsed::start();
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if since.get() >= patience {
            return None;
        }
        pause(POLL);
    }
}
