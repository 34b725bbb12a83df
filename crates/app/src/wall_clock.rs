//! The time of day, for what people read. Nothing is decided by it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; zero if the clock is before that.
#[expect(clippy::disallowed_methods, reason = "this is where the app takes the time of day")]
pub fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs())
}
