//! Drives that are slower than their peers for seconds (`members::slow`): judged once a period,
//! told of, and suspect when that lasts. Nothing bypasses them here; an operator may keep reads off
//! one, or trust it.
//!
//! ```text
//!            slow in most of the last periods       slow for a minute
//!     good ─────────────────────────────────> slow ─────────────────> suspect
//!       ^                                      │                        │
//!       └──────── as quick as its peers again ─┴────────────────────────┘
//! ```

use std::fmt;
use std::rc::Rc;

use io::{Drive, Env};
use members::slow::{self, SlowDrive};
use policy::health::SUSPECT_LASTING;
use policy::learn;
use policy::slow::{PERIOD, Seen};

use super::{Inner, LOOK, Severity};
use crate::store::Store;
use crate::watch::Watch;

/// What an operator has decided about a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decided {
    #[default]
    Automatic,
    /// It is read only where nobody else can answer.
    SitOut,
    /// It may be as slow as it is.
    Trusted,
}

impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Decided::Automatic => "automatic",
            Decided::SitOut => "sit-out",
            Decided::Trusted => "trusted",
        })
    }
}

impl<E: Env> Inner<E> {
    /// Until the pool is closed.
    pub(super) async fn compare(self: Rc<Self>) {
        while !self.stopping.get() {
            let due = self.env.now() + LOOK;
            self.env.sleep_until(due).await;
            let now = self.env.now();
            if self.peers.borrow_mut().is_due(now.0) {
                // When the process itself was stopped all drives answered late.
                self.compare_drives(now.0, now.saturating_sub(due).0 < PERIOD);
            }
        }
    }

    fn compare_drives(&self, now: u64, is_heard: bool) {
        let count = self.drives.borrow().len();
        let seen: Vec<Seen> = (0..count).map(|place| self.end_period(place)).collect();
        if !is_heard {
            return;
        }
        let tolerated = self.volumes.store().margin();
        let (findings, shared) = self.peers.borrow_mut().judge(now, &seen, tolerated);
        if shared {
            self.tell(Severity::Info, "load", None, slow::SHARED.to_owned());
        }
        for (place, finding) in findings.into_iter().enumerate() {
            let Some(watch) = self.watch_of(place) else { continue };
            if watch.note_period(finding) {
                self.tell_slow(place, &watch);
            }
            self.suspect(place, &watch);
            let health = self.health(&watch);
            let untold = watch.periods().borrow_mut().told.sum_up(now, health);
            for (severity, text) in untold {
                let kind = if severity == Severity::Info { "drive-good" } else { "drive-slow" };
                self.tell_drive(severity, kind, place, &text);
            }
        }
    }

    fn end_period(&self, place: usize) -> Seen {
        let part = self.drives.borrow()[place].clone();
        let Some((part, watch)) = part.and_then(|part| Some((part.clone(), part.watch()?.clone())))
        else {
            return Seen::default();
        };
        let learning = if part.geometry().rotational { learn::HDD } else { learn::SSD };
        let seen = watch.end_period(learning);
        if self.counts(place) { seen } else { slow::uncounted(seen) }
    }

    /// A drive is compared with its peers unless its work is not theirs, or an operator decided.
    fn counts(&self, place: usize) -> bool {
        let exchange = self.exchange.borrow();
        let is_copied =
            exchange.as_ref().is_some_and(|own| own.replacing().progress.place == place);
        let is_rebuilt = self.filling.borrow().contains(&place);
        let is_lost = self.volumes.store().lost().contains(&place);
        !is_copied && !is_rebuilt && !is_lost && self.decided(place) == Decided::Automatic
    }

    fn watch_of(&self, place: usize) -> Option<Watch> {
        self.drives.borrow().get(place)?.as_ref()?.watch().cloned()
    }

    fn tell_slow(&self, place: usize, watch: &Watch) {
        let Some(slow) = watch.slow_drive(false) else {
            watch.periods().borrow_mut().suspect = false;
            return self.tell_in_time(Severity::Info, "drive-good", place, slow::QUICK_AGAIN);
        };
        let text = format!(
            "is slow: {slow}; requests use it all the same. Replace it if it stays so \
             ('steadyraid drive replace'), or keep reads off it ('steadyraid drive sit-out')"
        );
        self.tell_in_time(Severity::Warning, "drive-slow", place, &text);
    }

    /// A drive that has been slow for a minute is suspect.
    fn suspect(&self, place: usize, watch: &Watch) {
        let lasting = watch.slow_drive(false).map_or(0, |slow| slow.lasting.0);
        if lasting < SUSPECT_LASTING || watch.periods().borrow().suspect {
            return;
        }
        watch.periods().borrow_mut().suspect = true;
        let lasting = io::Nanos(lasting);
        let text = format!(
            "is suspect: it has been slow for {lasting}, and is not quick again. Replace it \
             ('steadyraid drive replace')"
        );
        self.tell_in_time(Severity::Warning, "drive-suspect", place, &text);
    }

    fn health(&self, watch: &Watch) -> &'static str {
        let periods = watch.periods().borrow();
        match (periods.suspect, periods.verdict.is_slow()) {
            (true, _) => "suspect",
            (false, true) => "slow",
            (false, false) => "good",
        }
    }

    /// An event about a drive's latency, unless there were too many within the hour.
    fn tell_in_time(&self, severity: Severity, kind: &'static str, place: usize, text: &str) {
        let now = self.env.now().0;
        let may = |watch: Watch| watch.periods().borrow_mut().told.may_tell(now, severity);
        if self.watch_of(place).is_some_and(may) {
            self.tell_drive(severity, kind, place, text);
        }
    }

    fn tell_drive(&self, severity: Severity, kind: &'static str, place: usize, text: &str) {
        let text = format!("drive {place} ({}) {text}", self.name_of(place));
        self.tell(severity, kind, Some(place), text);
    }

    pub(super) fn decided(&self, place: usize) -> Decided {
        self.decided.borrow().get(&place).copied().unwrap_or_default()
    }

    /// How the drive is slower than its peers, if it is.
    pub(super) fn slow_drive(&self, place: usize) -> Option<SlowDrive> {
        self.watch_of(place)?.slow_drive(false)
    }

    pub(super) fn is_suspect(&self, place: usize) -> bool {
        self.watch_of(place).is_some_and(|watch| watch.periods().borrow().suspect)
    }

    /// What was known of the latency of the drive in this place is over.
    pub(super) fn forget_slow(&self, place: usize) {
        self.watch_of(place).iter().for_each(Watch::forget_periods);
    }
}
