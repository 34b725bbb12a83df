//! The time of day, for what people read. Nothing is decided by it.

use std::time::{SystemTime, UNIX_EPOCH};

use io::Nanos;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Seconds since 1970; zero if the clock is before that.
pub fn now_secs() -> u64 {
    now_micros() / 1_000_000
}

#[expect(clippy::disallowed_methods, reason = "this is where the app takes the time of day")]
fn now_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_micros() as u64)
}

/// Microseconds since 1970 of a moment on an environment's clock, which shows `now`.
pub fn micros_at(at: Nanos, now: Nanos) -> u64 {
    now_micros().saturating_sub(now.saturating_sub(at).0 / 1000)
}

/// A point in time as `YYYY-MM-DD hh:mm:ss UTC`.
pub fn date(secs: u64) -> String {
    timestamp(secs.saturating_mul(1_000_000)).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A point in time for programs: RFC 3339, in UTC.
pub fn rfc3339(micros: u64) -> String {
    timestamp(micros).strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// A point in time for people: `YYYY-MM-DD hh:mm:ss.mmm` where this machine is.
pub fn local(micros: u64) -> String {
    let here = timestamp(micros).to_zoned(TimeZone::system());
    here.strftime("%Y-%m-%d %H:%M:%S.%3f").to_string()
}

/// Times that no calendar has are shown as the last one.
fn timestamp(micros: u64) -> Timestamp {
    let micros = i64::try_from(micros).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_never_overflow() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_217_876), "2026-11-20 23:37:56 UTC");
        assert!(date(u64::MAX).starts_with("9999-12-30"));
        assert_eq!(rfc3339(951_782_400_000_007), "2000-02-29T00:00:00.000007Z");
    }

    #[test]
    fn moments_of_a_monotonic_clock_are_moments_of_the_day() {
        let earlier = micros_at(Nanos::from_secs(90), Nanos::from_secs(100));
        let later = micros_at(Nanos::from_secs(100), Nanos::from_secs(100));
        // The second look at the clock is later by what the first took.
        assert!(later - earlier >= 10_000_000, "{earlier} {later}");
    }
}
