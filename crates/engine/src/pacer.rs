//! The one place where background work asks before each group of operations on the drives.
//!
//! ```text
//! convert ─┐                       ┌ need: space, journal room, patch memory; who waits
//! compact ─┤   pace() ── share ────┤ requests: how many, how long ago, hurt or not
//! merge   ─┼─> .. pause ..   of    └ queues of the drives that the group would use
//! check-  ─┤   group ──> drives    the time
//! point   ─┘   end: how long it took is what the next pause is measured by
//! ```
//! `policy::pace` decides; here the facts are collected and the time is waited for. A pause ends
//! at once when somebody begins to wait for what background work makes, and when the pool closes.

use std::cell::Cell;

use format::ClassId;
use futures_util::future::select;
use io::sync::{Event, EventWait};
use io::{Env, Nanos};
use layout::DriveIndex;
use policy::pace::{FULL, Load, marks_passed, pause, ramp, share};

use crate::api::{EventKind, Severity};
use crate::foreground::Foreground;
use crate::limits::{
    CHECKPOINT_AT_PERCENT, JOURNAL_HURRY_PERCENT, PACE_STEP, PATCH_MERGE_PERCENT, PRESSURE_CALM,
};
use crate::shard::Shard;

#[derive(Default)]
pub struct Pacer {
    pub foreground: Foreground,
    /// Who waits for a result of background work other than space.
    awaited: Cell<u32>,
    hurry: Event,
    /// The last group: how long it took, when it was over.
    took: Cell<u64>,
    over: Cell<Nanos>,
    pauses: Cell<u64>,
    bytes: Cell<u64>,
    /// Marks that space pressure is told to be above, and since when it is below the last of them.
    marks: Cell<usize>,
    below_since: Cell<Option<Nanos>>,
}

/// As long as it lives, background work is not held back.
pub struct Hurry<'a>(&'a Pacer);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.awaited.set(self.0.awaited.get() - 1);
    }
}

impl Pacer {
    /// Somebody waits for what background work makes.
    pub fn hurry(&self) -> Hurry<'_> {
        self.awaited.set(self.awaited.get() + 1);
        self.wake();
        Hurry(self)
    }

    /// Something has changed that a pause should not outlast.
    pub fn wake(&self) {
        self.hurry.notify_all();
    }

    /// Completes when [`Pacer::wake`] is called next.
    pub fn woken(&self) -> EventWait {
        self.hurry.wait()
    }

    /// Times that work was held back, and bytes that it moved.
    pub fn totals(&self) -> (u64, u64) {
        (self.pauses.get(), self.bytes.get())
    }
}

/// A group of background operations on its way.
pub struct Group<'a, E: Env> {
    shard: &'a Shard<E>,
    started: Nanos,
}

impl<E: Env> Group<'_, E> {
    /// Counts bytes read or written by background work.
    pub fn moved(&self, bytes: usize) {
        let pacer = &self.shard.pacer;
        pacer.bytes.set(pacer.bytes.get() + bytes as u64);
    }
}

impl<E: Env> Drop for Group<'_, E> {
    fn drop(&mut self) {
        let pacer = &self.shard.pacer;
        let now = self.shard.env.now();
        pacer.took.set(now.saturating_sub(self.started).0);
        pacer.over.set(now);
        pacer.foreground.group_over();
    }
}

impl<E: Env> Shard<E> {
    /// Carries out a client's read or write, which background work keeps out of the way of.
    pub async fn in_foreground<T>(&self, request: impl Future<Output = T>) -> T {
        let on_its_way = self.pacer.foreground.begin(self.env.recent());
        let result = request.await;
        on_its_way.done(self.env.recent());
        result
    }

    /// Waits until a group of background operations may begin. `queue` looks at the drives that
    /// it would use (see [`Shard::queue_of`]); it may choose others every time it is asked.
    pub async fn pace(&self, queue: impl Fn() -> u32) -> Group<'_, E> {
        let mut held = false;
        while let Some(until) = self.pace_until(queue()) {
            if !held {
                held = true;
                self.pacer.pauses.set(self.pacer.pauses.get() + 1);
            }
            let step = self.env.now() + PACE_STEP;
            let tick = self.env.sleep_until(until.min(step));
            select(Box::pin(self.pacer.woken()), Box::pin(tick)).await;
        }
        self.pacer.foreground.group_begun();
        Group { shard: self, started: self.env.now() }
    }

    /// When the next group may begin as things are now; `None`: at once.
    fn pace_until(&self, queue: u32) -> Option<Nanos> {
        if self.closing.get() || self.failure.borrow().is_some() {
            return None;
        }
        let share = share(&self.load(queue));
        let until = self.pacer.over.get() + Nanos(pause(self.pacer.took.get(), share));
        (until > self.env.now()).then_some(until)
    }

    fn load(&self, queue: u32) -> Load {
        let foreground = &self.pacer.foreground;
        let (beside, alone) = foreground.latencies();
        Load {
            pressure: self.pressure(),
            in_flight: foreground.in_flight(),
            idle_nanos: foreground.idle_nanos(self.env.now()),
            queue,
            beside,
            alone,
        }
    }

    /// Operations outstanding on these drives, in thousandths of one a drive.
    pub fn queue_of(&self, drives: impl Iterator<Item = DriveIndex>) -> u32 {
        let add = |(sum, count), drive| (sum + self.array.member(drive).outstanding(), count + 1);
        let (sum, count) = drives.fold((0, 0), add);
        sum.saturating_mul(1000).checked_div(count).unwrap_or(0)
    }

    /// Need for what background work makes, 0 to 1000: space, journal room, patch memory.
    fn pressure(&self) -> u16 {
        if self.pacer.awaited.get() > 0 {
            return FULL;
        }
        let fill = self.journal.fill_percent();
        let journal = ramp(fill, CHECKPOINT_AT_PERCENT, JOURNAL_HURRY_PERCENT);
        let patches = {
            let state = self.state.borrow();
            let used = state.map.patches() * 10;
            used.saturating_mul(100).checked_div(state.settings.patch_budget).unwrap_or(0)
        };
        // Merging begins at the first; at the second, writes begin to be slowed.
        let patches = ramp(patches, PATCH_MERGE_PERCENT, 100);
        self.space_pressure().max(journal).max(patches)
    }

    /// Tells of space pressure that has passed a mark.
    pub fn tell_pressure(&self) {
        let (pacer, pressure, now) = (&self.pacer, self.space_pressure(), self.env.now());
        let told = pacer.marks.get();
        let passed = marks_passed(told, pressure);
        if passed >= told {
            pacer.below_since.set(None);
        } else {
            let since = pacer.below_since.get().unwrap_or(now);
            pacer.below_since.set(Some(since));
            if now.saturating_sub(since) < PRESSURE_CALM {
                return;
            }
        }
        if passed == told {
            return;
        }
        pacer.marks.set(passed);
        pacer.below_since.set(None);
        let (severity, what) = match passed {
            0 => (Severity::Info, "there is enough free space again"),
            1 if told == 0 => (Severity::Info, "free space runs short: making more comes first"),
            1 => (Severity::Info, "free space is less short"),
            _ => (Severity::Warning, "free space is very short: writes may be slowed"),
        };
        let text = format!("{what} (need {pressure} of 1000)");
        self.tell(None, (severity, EventKind::SpacePressure), text);
    }

    /// Need for space of the class that needs it most, 0 to 1000.
    pub fn space_pressure(&self) -> u16 {
        let classes = self.state.borrow().space.classes().count() as u8;
        let pressure = |id| policy::pace::space_pressure(&self.facts(ClassId(id)));
        (0..classes).map(pressure).max().unwrap_or(0)
    }
}
