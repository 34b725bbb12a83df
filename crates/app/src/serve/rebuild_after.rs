//! When the others take over what a lost drive held.

use std::str::FromStr;

use engine::OpenOptions;
use io::Nanos;
use jiff::SignedDuration;
use serde::Deserialize;

/// Whoever waits longer for somebody to come wants `never`.
const LONGEST: Nanos = Nanos::from_secs(7 * 24 * 3600);

/// `never`, or a duration like `30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct RebuildAfter(Option<Nanos>);

impl RebuildAfter {
    pub fn time(self) -> Option<Nanos> {
        self.0
    }
}

impl Default for RebuildAfter {
    fn default() -> RebuildAfter {
        RebuildAfter(Some(OpenOptions::REBUILD_AFTER))
    }
}

impl FromStr for RebuildAfter {
    type Err = String;

    fn from_str(text: &str) -> Result<RebuildAfter, String> {
        if text == "never" {
            return Ok(RebuildAfter(None));
        }
        let time = time(text, "neither 'never' nor a time like 30s or 10m")?;
        Ok(RebuildAfter(Some(time)))
    }
}

/// A length of time, of a week at most. `otherwise`: what a text is that says none.
pub(super) fn time(text: &str, otherwise: &str) -> Result<Nanos, String> {
    let span: SignedDuration = text.parse().map_err(|_| format!("'{text}' is {otherwise}"))?;
    let nanos = u64::try_from(span.as_nanos()).ok().filter(|&nanos| nanos <= LONGEST.0);
    nanos.map(Nanos).ok_or_else(|| format!("'{text}' is not between 0s and 7 days"))
}

impl TryFrom<String> for RebuildAfter {
    type Error = String;

    fn try_from(text: String) -> Result<RebuildAfter, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_or_never() {
        let read = |text: &str| text.parse::<RebuildAfter>().map(RebuildAfter::time);
        assert_eq!(read("never"), Ok(None));
        assert_eq!(read("0s"), Ok(Some(Nanos::ZERO)));
        assert_eq!(read("10m"), Ok(Some(Nanos::from_secs(600))));
        for wrong in ["", "soon", "-1s", "8d", "200h"] {
            let error = read(wrong).expect_err("it is no such time");
            assert!(error.starts_with(&format!("'{wrong}' is")), "{error}");
        }
        let error = read("soon").expect_err("it is no such time");
        assert_eq!(error, "'soon' is neither 'never' nor a time like 30s or 10m");
    }
}
