//! Tells of drives that are slower than their peers for seconds (`policy::slow`), and of spikes
//! together; bounds how much is told of one drive.

use io::{Env, Nanos};
use layout::DriveIndex;
use members::slow;

use crate::api::{DriveOverride, EventKind, Severity};
use crate::events::SpikeSum;
use crate::limits::SPIKES_NAMED_MAX;
use crate::shard::Shard;

impl<E: Env> Shard<E> {
    /// Which drives are slow, once a period.
    pub(super) fn compare(&self) {
        let monitor = &self.array.monitor;
        let automatic = |index| monitor.watch(index).borrow().decided == DriveOverride::Automatic;
        // What is copied from one, or onto it, is none of its peers' work.
        let copies = |index| {
            self.array.awaited(index).is_some() || self.array.member(index).replacing().is_some()
        };
        let counts = |index| self.array.is_active(index) && automatic(index) && !copies(index);
        let (changed, shared) = monitor.compare(counts);
        for index in changed {
            self.tell_slow(index);
        }
        if shared {
            self.tell(None, (Severity::Info, EventKind::Load), slow::SHARED.to_owned());
        }
        self.sum_up();
    }

    fn tell_slow(&self, index: DriveIndex) {
        let slow = self.array.monitor.watch(index).borrow().slow_drive(self.now());
        let Some(slow) = slow else {
            // One that is avoided is told of when it is used again.
            if !self.array.monitor.watch(index).borrow().sits_out() {
                let text = slow::QUICK_AGAIN;
                self.tell_of_drive(index, Severity::Info, EventKind::DriveGood, text);
            }
            return;
        };
        let ladder = self.array.monitor.handling().ladder;
        let bypassed = slow.bypassed || ladder && self.facts_of(index).may_avoid;
        let text = match bypassed {
            true => format!(
                "is slow: {slow}; requests bypass it. Replace it if it stays so ('steadyraid \
                 drive replace')"
            ),
            false => format!(
                "is slow: {slow}; requests use it all the same, as the pool can't do without it \
                 just now. Replace it ('steadyraid drive replace')"
            ),
        };
        self.tell_of_drive(index, Severity::Warning, EventKind::DriveSlow, &text);
    }

    /// An event about a drive's latency, unless there were too many within the hour.
    pub(super) fn tell_of_drive(
        &self,
        index: DriveIndex,
        severity: Severity,
        kind: EventKind,
        text: &str,
    ) {
        let now = self.env.now();
        let mut watch = self.array.monitor.watch(index).borrow_mut();
        let may = watch.told.may_tell(now.0, severity);
        drop(watch);
        if may {
            let text = format!("drive {} {text}", self.drive_name(index));
            self.tell(Some(index), (severity, kind), text);
        }
    }

    /// Tells how much was not told of drives.
    fn sum_up(&self) {
        let now = self.env.now();
        for index in self.array.indexes() {
            let mut watch = self.array.monitor.watch(index).borrow_mut();
            let health = watch.health.to_string();
            let untold = watch.told.sum_up(now.0, &health);
            drop(watch);
            for (severity, text) in untold {
                let kind = match severity {
                    Severity::Info => EventKind::DriveAvoided,
                    Severity::Warning | Severity::Error => EventKind::DriveSlow,
                };
                let text = format!("drive {} {text}", self.drive_name(index));
                self.tell(Some(index), (severity, kind), text);
            }
        }
    }

    /// Spikes of all drives since they were last told of.
    pub(super) fn tell_spikes(&self) {
        let now = self.env.now();
        let Some(SpikeSum { since, drives }) = self.events.take_spikes(now) else { return };
        let one = drives.keys().next().copied().filter(|_| drives.len() == 1);
        let (count, nanos) =
            drives.values().fold((0, 0), |all, own| (all.0 + own.0, all.1 + own.1));
        let mut worst: Vec<(u16, (u64, u64))> = drives.into_iter().collect();
        worst.sort_by_key(|&(drive, (count, _))| (std::cmp::Reverse(count), drive));
        let others = worst.len().saturating_sub(SPIKES_NAMED_MAX);
        worst.truncate(SPIKES_NAMED_MAX);
        let name = |(drive, (count, _)): (u16, (u64, u64))| {
            format!("drive {} {count} times", self.drive_name(DriveIndex(drive)))
        };
        let mut names: Vec<String> = worst.into_iter().map(name).collect();
        if others > 0 {
            names.push(format!("{others} others"));
        }
        let text = format!(
            "{count} spikes in {}, {} in all: {}",
            now.saturating_sub(since),
            Nanos(nanos),
            names.join(", ")
        );
        self.tell(one.map(DriveIndex), (Severity::Info, EventKind::Spike), text);
    }
}
