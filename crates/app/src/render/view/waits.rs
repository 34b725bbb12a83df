//! What requests of a pool's clients wait for, by cause.

use io::wait::{Wait as Cause, WaitSummary, Waited as Counted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Latencies;

/// Waits for one cause during some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Waited {
    pub count: u64,
    pub nanos: u64,
    pub max_nanos: u64,
    /// Of the time of all causes' waits.
    pub share_permille: u16,
}

impl Waited {
    fn of(counted: Counted, all_nanos: u64) -> Waited {
        let Counted { count, nanos, max_nanos } = counted;
        let share = (u128::from(nanos) * 1000).checked_div(u128::from(all_nanos)).unwrap_or(0);
        Waited { count, nanos, max_nanos, share_permille: share as u16 }
    }
}

/// Waits for one cause.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Wait {
    /// `limits`, `admission`, `lock`, `space`, `journal` or `drives`.
    pub cause: String,
    pub last_minute: Waited,
    pub since_opening: Waited,
    /// Since the pool was opened.
    pub latency: Latencies,
}

impl Wait {
    /// Of all causes, also of those that nothing waited for.
    pub fn all(summaries: &[(Cause, WaitSummary)]) -> Vec<Wait> {
        let sum = |of: fn(&WaitSummary) -> Counted| -> u64 {
            let nanos = summaries.iter().map(|(_, summary)| of(summary).nanos);
            nanos.fold(0, u64::saturating_add)
        };
        let (recent, all) = (sum(|summary| summary.recent), sum(|summary| summary.all));
        let wait = |(cause, summary): &(Cause, WaitSummary)| Wait {
            cause: cause.name().to_owned(),
            last_minute: Waited::of(summary.recent, recent),
            since_opening: Waited::of(summary.all, all),
            latency: (&summary.latencies).into(),
        };
        summaries.iter().map(wait).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_of_all_causes() {
        let counted = |count, nanos| Counted { count, nanos, max_nanos: nanos };
        let of = |recent, all| WaitSummary { recent, all, ..WaitSummary::default() };
        let waits = Wait::all(&[
            (Cause::Lock, of(counted(1, 100), counted(5, 900))),
            (Cause::Space, of(counted(0, 0), counted(0, 0))),
            (Cause::Drives, of(counted(2, 300), counted(2, 100))),
        ]);
        let shares =
            waits.iter().map(|w| (w.last_minute.share_permille, w.since_opening.share_permille));
        assert_eq!(shares.collect::<Vec<_>>(), [(250, 900), (0, 0), (750, 100)]);
        assert_eq!(Wait::all(&[(Cause::Lock, WaitSummary::default())])[0].cause, "lock");
    }
}
