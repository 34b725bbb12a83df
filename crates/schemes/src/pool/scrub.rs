//! Scrub of a pool that is served, and what its arrays found bad by themselves.
//!
//! ```text
//!   start ── running ──┬── done           a step of the store's arrays, then a rest as after
//!              │ ▲     └── stopped        any other work in the background
//!         pause ▼ │
//!            paused
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use classical::{Health, Note, Scrubbed};
use io::{Drive, Env, Nanos};
use policy::rot::{Found, LostPages, Sum, Untold};

use super::{Inner, LOOK, Pool, Severity, rest};
use crate::store::Store;

/// Notes are asked for so often, so that lost pages are told soon.
const NOTES: Nanos = LOOK;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubState {
    /// Not since the pool was opened.
    #[default]
    Never,
    Running,
    Paused,
    Done,
    Stopped,
}

impl ScrubState {
    pub fn name(self) -> &'static str {
        match self {
            ScrubState::Never => "never",
            ScrubState::Running => "running",
            ScrubState::Paused => "paused",
            ScrubState::Done => "done",
            ScrubState::Stopped => "stopped",
        }
    }

    pub fn goes_on(self) -> bool {
        matches!(self, ScrubState::Running | ScrubState::Paused)
    }
}

/// The last scrub since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    pub state: ScrubState,
    pub found: Scrubbed,
    /// Bytes of drives that it reads.
    pub total_bytes: u64,
    pub started: Nanos,
    /// Or now, if it has not.
    pub ended: Nanos,
}

#[derive(Default)]
pub(super) struct Scrubbing {
    status: Cell<ScrubStatus>,
    /// Which of what the store lies on is next, and its next step.
    next: Cell<(usize, u64)>,
    /// By the drive's name.
    untold: RefCell<Untold<String>>,
    lost_pages: Cell<LostPages>,
}

impl Scrubbing {
    fn change(&self, how: impl FnOnce(&mut ScrubStatus)) {
        let mut status = self.status.get();
        how(&mut status);
        self.status.set(status);
    }
}

impl<E: Env> Pool<E> {
    /// Begins from the start; one that is paused goes on instead.
    pub fn scrub_start(&self) {
        match self.inner.scrubs() {
            true => self.inner.scrubbing.change(|status| status.state = ScrubState::Running),
            false => self.inner.begin_scrub(),
        }
    }

    pub fn scrub_pause(&self) {
        if self.scrub_status().state == ScrubState::Running {
            self.inner.scrubbing.change(|status| status.state = ScrubState::Paused);
        }
    }

    pub fn scrub_stop(&self) {
        self.inner.end_scrub(ScrubState::Stopped);
    }

    pub fn scrub_status(&self) -> ScrubStatus {
        let status = self.inner.scrubbing.status.get();
        match status.state.goes_on() {
            true => ScrubStatus { ended: self.inner.env.now(), ..status },
            false => status,
        }
    }

    /// Whether pages have sums, and what was found bad since the pool was opened.
    pub fn health(&self) -> (bool, Health) {
        let kept = self.inner.volumes.store().kept();
        let checksums = !kept.is_empty() && kept.iter().all(|kept| kept.has_sums());
        (checksums, self.inner.bad_pages())
    }

    /// Pages that nothing gives, as far as is known: not those that were written again since, if a
    /// scrub went over them.
    pub(super) fn lost_pages(&self, health: &Health) -> u64 {
        self.inner.scrubbing.lost_pages.get().known(health.lost)
    }
}

impl<E: Env> Inner<E> {
    fn bad_pages(&self) -> Health {
        let mut health = Health::default();
        self.volumes.store().kept().iter().for_each(|kept| health += kept.health());
        health
    }

    fn note_lost_pages(&self, what: impl FnOnce(&mut LostPages, u64)) {
        let mut pages = self.scrubbing.lost_pages.get();
        what(&mut pages, self.bad_pages().lost);
        self.scrubbing.lost_pages.set(pages);
    }

    /// One is under way, or paused.
    pub(super) fn scrubs(&self) -> bool {
        self.scrubbing.status.get().state.goes_on()
    }

    pub(super) fn begin_scrub(&self) {
        let kept = self.volumes.store().kept();
        let total_bytes = kept.iter().map(|kept| kept.scrub_bytes()).sum();
        self.scrubbing.next.set((0, 0));
        self.scrubbing.status.set(ScrubStatus {
            state: ScrubState::Running,
            total_bytes,
            started: self.env.now(),
            ..ScrubStatus::default()
        });
        self.note_lost_pages(LostPages::scrub_begins);
        self.tell(Severity::Info, "scrub-started", None, "a scrub has begun".to_owned());
    }

    /// Scrubs when told to, and tells what was found bad.
    pub(super) async fn scrub(self: Rc<Self>) {
        while !self.stopping.get() {
            self.tell_bad(false);
            if self.scrubbing.status.get().state != ScrubState::Running {
                self.env.sleep_until(self.env.now() + NOTES).await;
                continue;
            }
            let began = self.env.now();
            let worked = self.scrub_step().await;
            let took = self.env.now().saturating_sub(began);
            let rest = rest(&worked, took, self.is_busy());
            if let Err(error) = worked {
                self.note_trouble(Some(error));
            }
            match rest {
                Nanos::ZERO => self.env.yield_now().await,
                rest => self.env.sleep_until(self.env.now() + rest).await,
            }
        }
        self.end_scrub(ScrubState::Stopped);
        self.tell_bad(true);
    }

    async fn scrub_step(&self) -> Result<bool, crate::StoreError> {
        let (number, step) = self.scrubbing.next.get();
        let all = self.volumes.store().kept();
        let Some(kept) = all.get(number) else {
            self.end_scrub(ScrubState::Done);
            return Ok(true);
        };
        let (found, next) = kept.scrub_some(step).await?;
        // Stopped meanwhile, or begun anew.
        if self.scrubbing.next.get() != (number, step) {
            return Ok(true);
        }
        self.scrubbing.change(|status| {
            if status.state.goes_on() {
                status.found += found;
            }
        });
        self.scrubbing.next.set(next.map_or((number + 1, 0), |next| (number, next)));
        Ok(true)
    }

    fn end_scrub(&self, state: ScrubState) {
        if !self.scrubbing.status.get().state.goes_on() {
            return;
        }
        let now = self.env.now();
        self.scrubbing.change(|status| {
            status.state = state;
            status.ended = now;
        });
        self.tell_bad(true);
        let Scrubbed { bytes, bad, repaired, parity, lost, metadata } =
            self.scrubbing.status.get().found;
        if state == ScrubState::Done {
            self.note_lost_pages(|pages, total| pages.scrub_ends(total, lost, 0));
        }
        let severity = match (lost, bad + parity + metadata) {
            (1.., _) => Severity::Error,
            (0, 1..) => Severity::Warning,
            (0, 0) => Severity::Info,
        };
        let text = format!(
            "the scrub is {}: {} MiB read, {bad} pages bad, {repaired} of them repaired, {lost} \
             lost; parity of {parity} pages and {metadata} copies of metadata repaired",
            state.name(),
            bytes >> 20,
        );
        self.tell(severity, "scrub-ended", None, text);
    }

    /// The first lost pages at once, the others and repairs of each drive now and then, or with
    /// `all` at once.
    fn tell_bad(&self, all: bool) {
        let notes = self.volumes.store().kept();
        let notes: Vec<Note> = notes.iter().flat_map(|kept| kept.take_notes()).collect();
        for Note { drive, byte, repaired } in notes {
            let found = if repaired { Found::Repaired } else { Found::Lost };
            let now = self.env.now().0;
            let alone = self.scrubbing.untold.borrow_mut().note(drive.clone(), byte, found, now);
            if let Some(sum) = alone {
                self.tell_sum(&drive, &sum);
            }
        }
        self.note_lost_pages(LostPages::seen);
        let due = self.scrubbing.untold.borrow_mut().due(self.env.now().0, all);
        due.iter().for_each(|(drive, sum)| self.tell_sum(drive, sum));
    }

    fn tell_sum(&self, drive: &str, sum: &Sum) {
        let (severity, kind) = match sum.found {
            Found::Repaired => (Severity::Warning, "pages-healed"),
            Found::Lost => (Severity::Error, "page-lost"),
        };
        self.tell(severity, kind, self.place_named(drive), sum.text(drive));
    }

    fn place_named(&self, name: &str) -> Option<usize> {
        let drives = self.drives.borrow();
        drives.iter().position(|drive| drive.as_ref().is_some_and(|drive| drive.name() == name))
    }
}
