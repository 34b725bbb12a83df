//! Watches the drives for longer than a spike: what is usual, who is avoided, suspected, failed
//! (`policy::health`), and tells of it.
//!
//! A drive that is gone round is asked nothing by requests, so the engine asks it itself: a page
//! now and then, whose answers decide when it is used again.

mod slow;

use std::rc::Rc;

use futures_util::future::{Either, select};
use io::slice::{self, Work};
use io::{Env, Nanos, PAGE};
use layout::DriveIndex;
use members::slow::Verdict;
use policy::health::{self, Facts, Reason, Rung, Tally};

use crate::api::{DriveHealth, DriveOverride, EventKind, RequestError, Severity};
use crate::geometry::Class;
use crate::limits::{
    LADDER_TICK, LOAD_LASTING, LOAD_TOLD_EVERY, PROBE_INTERVAL, PROBE_LOOKS_MAX, STOPPED,
    TALLY_SPAN,
};
use crate::monitor::Watch;
use crate::planted::{self, Bug};
use crate::shard::Shard;

impl<E: Env> Shard<E> {
    pub fn start_ladder(self: &Rc<Self>) {
        if !self.array.monitor.handling().detect {
            return;
        }
        // Weak: the pool may be dropped while a drive hangs.
        let (shard, env) = (Rc::downgrade(self), self.env.clone());
        let judge = async move {
            let mut ticks: u64 = 0;
            let mut graced_until = Nanos::ZERO;
            loop {
                let due = env.now() + LADDER_TICK;
                env.sleep_until(due).await;
                let woken = env.now();
                if woken > due + STOPPED {
                    // The process itself was: drives may have answered long ago, which is to be
                    // heard before any is judged.
                    graced_until = env.now() + STOPPED;
                }
                if env.now() < graced_until {
                    continue;
                }
                let Some(shard) = shard.upgrade().filter(|shard| !shard.released.get()) else {
                    return;
                };
                ticks += 1;
                shard.array.monitor.stalls.borrow_mut().look(due.0, woken.0);
                shard.tick(ticks);
                shard.rest().await;
            }
        };
        self.env.spawn(slice::of(Work::Watch, judge));
    }

    /// With nothing asked of any drive there is nothing to learn.
    async fn rest(&self) {
        let monitor = &self.array.monitor;
        let stirring = monitor.stirring.wait();
        let out = self.array.indexes().any(|index| monitor.watch(index).borrow().sits_out());
        if out || monitor.is_stirred() || self.released.get() {
            return;
        }
        // Looks up from time to time, so that a pool that is dropped is noticed.
        let while_idle = self.env.sleep_until(self.env.now() + Nanos::from_secs(1));
        match select(Box::pin(stirring), Box::pin(while_idle)).await {
            Either::Left(_) | Either::Right(_) => {}
        }
    }

    fn tick(&self, ticks: u64) {
        let monitor = &self.array.monitor;
        monitor.learn();
        monitor.set_bears(self.least_parity());
        self.tell_load();
        for index in self.array.indexes() {
            monitor.watch(index).borrow_mut().end_tick();
            self.note_spikes(index);
        }
        self.tell_spikes();
        self.compare();
        if monitor.handling().ladder {
            let active = self.array.indexes().filter(|&index| self.array.is_active(index));
            let mut active: Vec<DriveIndex> = active.collect();
            // Of several that wait the one that waits for longest: not all can be avoided.
            active.sort_by_key(|&index| monitor.watch(index).borrow().oldest().unwrap_or(u64::MAX));
            for index in active {
                self.climb(index);
                self.probe(index);
            }
        }
        if ticks.is_multiple_of(TALLY_SPAN) {
            for index in self.array.indexes() {
                forget_half(&mut monitor.watch(index).borrow_mut().tally);
            }
        }
        // Whatever failed since: the labels say so before long, also if nobody writes. Not waited
        // for: another drive may hang while they are written, and its time must run out.
        let usable = !self.read_only && self.failure.borrow().is_none();
        let idle = self.failure_turn.try_lock().is_some();
        if usable && idle && self.array.has_unrecorded() {
            let shard = self.own();
            self.array.leftovers.leave(&self.env, async move {
                let _ = shard.record_failures().await;
            });
        }
    }

    fn note_spikes(&self, index: DriveIndex) {
        for (begin, end) in self.array.monitor.watch(index).borrow_mut().take_untold() {
            let (name, took) = (self.drive_name(index), Nanos(end - begin));
            let text = format!("drive {name} was unresponsive for {took}");
            self.events.push_spike((index.0, name), (begin, end), text);
        }
    }

    /// That it was load, but not each burst for itself.
    fn tell_load(&self) {
        let (monitor, now) = (&self.array.monitor, self.env.now());
        let ((loads, nanos), (told_at, told)) = (monitor.loads(), self.load_told.get());
        let due = told.0 == 0 || now >= told_at + LOAD_TOLD_EVERY;
        let short = monitor.is_loaded() && nanos - told.1 < LOAD_LASTING.0;
        if nanos == told.1 || short || !due {
            return;
        }
        self.load_told.set((now, (loads, nanos)));
        let text = format!(
            "many drives were behind at once, {} times, {} in all: that is the host's or the \
             load's, and nothing bypassed them",
            (loads - told.0).max(1),
            Nanos(nanos - told.1)
        );
        self.tell(None, (Severity::Info, EventKind::Load), text);
    }

    // ---- the ladder

    fn climb(&self, index: DriveIndex) {
        let facts = self.facts_of(index);
        let watch = self.array.monitor.watch(index);
        if watch.borrow().decided != DriveOverride::Automatic {
            return;
        }
        let rung = match watch.borrow().health {
            DriveHealth::Good => Rung::Good,
            DriveHealth::Avoided => Rung::Avoided,
            DriveHealth::Suspect => Rung::Suspect,
        };
        let Some((next, reason)) = health::step(rung, &facts) else { return };
        if next == Rung::Good && planted::is(Bug::AvoidForEver) {
            return;
        }
        let text = self.sentence(index, next, reason, &facts);
        if next == Rung::Failed {
            // `record_failures` tells of it.
            return self.array.fail(index, &text);
        }
        watch.borrow_mut().put_on(next, self.now());
        let (severity, kind) = match next {
            Rung::Good => (Severity::Info, EventKind::DriveGood),
            // For a stall of a tenth of a second, maybe: a drive that is slow is told of as such.
            Rung::Avoided => (Severity::Info, EventKind::DriveAvoided),
            Rung::Suspect | Rung::Failed => (Severity::Warning, EventKind::DriveSuspect),
        };
        self.tell_of_drive(index, severity, kind, &text);
    }

    fn now(&self) -> u64 {
        self.env.now().0
    }

    fn facts_of(&self, index: DriveIndex) -> Facts {
        let monitor = &self.array.monitor;
        let now = self.now();
        let others: Vec<DriveIndex> =
            self.array.indexes().filter(|&other| other != index).collect();
        let active = |other: &&DriveIndex| self.array.is_active(**other);
        let share = |&other: &DriveIndex| monitor.watch(other).borrow().tally.share();
        let mut peers: Vec<u64> = others.iter().filter(active).map(share).collect();
        let gone = others.len() - peers.len();
        let sits_out = |&&other: &&DriveIndex| monitor.watch(other).borrow().sits_out();
        let out = others.iter().filter(active).filter(sits_out).count();
        let parity = self.least_parity();
        let overdue = |index: DriveIndex| {
            let oldest = monitor.watch(index).borrow().oldest();
            oldest.map_or(0, |oldest| monitor.heard(oldest))
        };
        let others_overdue = others.iter().filter(active).map(|&other| overdue(other));
        let most = policy::slow::most(self.array.len(), parity);
        let overdue = overdue(index);
        let shared = health::is_stall_of_many(overdue, others_overdue, most);
        let loaded = monitor.is_loaded();
        let watch = monitor.watch(index).borrow();
        let ladder = watch.ladder;
        Facts {
            // Under load there is always one that waits for long, at whatever drive.
            oldest: match (shared, loaded) {
                (true, _) => 0,
                (false, true) => watch.silent_for(now).min(overdue),
                (false, false) => overdue,
            },
            outlier: !loaded && health::is_outlier(&watch.tally, &mut peers),
            slow: watch.verdict.is_slow(),
            since: now.saturating_sub(ladder.since),
            avoided_for: now.saturating_sub(ladder.left_good),
            sit_out: ladder.sit_out,
            good_probes: ladder.good_probes,
            failed_probes: ladder.failed_probes,
            relapses: ladder.relapses,
            may_avoid: gone + out < parity,
            may_fail: gone < parity && !self.array.is_short(index),
        }
    }

    /// Drives that every volume can do without.
    pub fn least_parity(&self) -> usize {
        self.state.borrow().space.least_parity().unwrap_or(1)
    }

    fn sentence(&self, index: DriveIndex, next: Rung, reason: Reason, facts: &Facts) -> String {
        let tally = self.array.monitor.watch(index).borrow().tally;
        let why = match reason {
            Reason::Overdue => {
                format!("an operation has had no answer for {}", Nanos(facts.oldest))
            }
            Reason::Outlier => format!(
                "{} of its last {} answers were slow, more than its peers'",
                tally.slow, tally.operations
            ),
            Reason::Slow => {
                let slow = self.array.monitor.watch(index).borrow().slow_drive(self.now());
                slow.map_or_else(String::new, |slow| slow.to_string())
            }
            Reason::Lasting => format!(
                "it has been avoided for {}, and is not quick again",
                Nanos(facts.avoided_for)
            ),
            Reason::Relapses => format!("it was slow again {} times", facts.relapses),
            Reason::Answered => "what was overdue has been answered".to_owned(),
            Reason::Recovered => {
                format!("{} probes in a row were quick", facts.good_probes)
            }
            Reason::Errors => {
                format!("{} probes in a row were answered with an error", facts.failed_probes)
            }
        };
        match next {
            Rung::Good => format!("is used again: {why}"),
            Rung::Avoided => format!("is avoided: {why}"),
            Rung::Suspect => format!(
                "is suspect: {why}; it will be failed if it stays silent for {}",
                Nanos(health::FAIL_AFTER)
            ),
            Rung::Failed => why,
        }
    }

    // ---- probes

    /// Asks a drive that nobody else asks.
    fn probe(&self, index: DriveIndex) {
        let now = self.now();
        {
            let mut watch = self.array.monitor.watch(index).borrow_mut();
            let due = watch.sits_out() && now >= watch.ladder.next_probe && !watch.ladder.probing;
            if !due {
                return;
            }
            watch.ladder.probing = true;
            watch.ladder.next_probe = now + PROBE_INTERVAL.0;
        }
        let offset = self.probe_offset(index);
        let shard = self.own();
        self.array.leftovers.leave(&self.env, async move {
            let begin = shard.now();
            let answered = shard.array.read(index, offset, PAGE).await.is_ok();
            let took = shard.now() - begin;
            let mut watch = shard.array.monitor.watch(index).borrow_mut();
            watch.ladder.probing = false;
            let quick = answered && took <= watch.quick_upto();
            let ladder = &mut watch.ladder;
            ladder.good_probes = if quick { ladder.good_probes + 1 } else { 0 };
            ladder.failed_probes = if answered { 0 } else { ladder.failed_probes + 1 };
        });
    }

    /// A page of the drive that holds something if there is any: what was never written, or was
    /// discarded, is answered without a look at the flash.
    fn probe_offset(&self, index: DriveIndex) -> u64 {
        let state = self.state.borrow();
        let written = |class: &Rc<Class>| {
            let stripe = state.space.any_raid_stripe(class.id, self.env.random())?;
            let at = |position| state.space.address(class, stripe, position);
            (0..class.width()).map(at).find(|at| at.drive == index)
        };
        let looks = (0..PROBE_LOOKS_MAX).flat_map(|_| state.space.classes());
        if let Some(at) = looks.into_iter().find_map(written) {
            let pages = u64::from(self.geometry.block_pages());
            return at.offset + self.env.random() % pages * PAGE as u64;
        }
        let zones = self.geometry.zones_on(index);
        zones.offset + self.env.random() % (zones.len / PAGE as u64) * PAGE as u64
    }

    // ---- what an operator decides

    pub fn decide(&self, index: DriveIndex, decided: DriveOverride) {
        let mut watch = self.array.monitor.watch(index).borrow_mut();
        let before = std::mem::replace(&mut watch.decided, decided);
        watch.verdict = Verdict::default();
        if decided == DriveOverride::Automatic {
            watch.put_on(Rung::Good, self.now());
        }
        drop(watch);
        let text = format!(
            "drive {}: an operator decided {decided} (was {before})",
            self.drive_name(index)
        );
        self.tell(Some(index), (Severity::Info, EventKind::DriveOverride), text);
    }

    /// Another drive has taken a place: what its predecessor did is forgotten.
    pub fn forgive(&self, index: DriveIndex) {
        let mut watch = self.array.monitor.watch(index).borrow_mut();
        watch.decided = DriveOverride::Automatic;
        watch.put_on(Rung::Good, self.now());
        watch.ladder.relapses = 0;
    }

    /// Fails a drive because somebody says so, `forced` also where the pool needs it. Not of a pool
    /// that has failed: labels that speak of all its drives are what brings it back.
    pub async fn fail_drive(
        &self,
        index: DriveIndex,
        reason: &str,
        forced: bool,
    ) -> Result<(), RequestError> {
        self.check_usable()?;
        if self.array.is_active(index) {
            self.array.fail(index, reason);
        }
        if forced {
            self.given_up.set(self.given_up.get().max(self.array.lost()));
        }
        self.record_failures().await
    }
}

fn forget_half(tally: &mut Tally) {
    tally.operations /= 2;
    tally.slow /= 2;
    tally.slow_ticks /= 2;
}

impl Watch {
    /// Puts the drive on a rung of the ladder. Coming back down soon is a relapse, and each costs
    /// twice the time of sitting out of the one before.
    fn put_on(&mut self, rung: Rung, now: u64) {
        let ladder = &mut self.ladder;
        let rested = now.saturating_sub(ladder.since);
        match rung {
            Rung::Good => {
                self.health = DriveHealth::Good;
                self.tally = Tally::default();
                self.verdict = Verdict::default();
            }
            Rung::Avoided if self.health == DriveHealth::Good => {
                let relapse = ladder.sit_out > 0 && rested < ladder.sit_out.saturating_mul(8);
                if relapse {
                    ladder.relapses += 1;
                    ladder.sit_out = (ladder.sit_out * 2).min(health::SIT_OUT_MAX);
                } else {
                    ladder.relapses = 0;
                    ladder.sit_out = health::SIT_OUT;
                }
                self.health = DriveHealth::Avoided;
                self.ladder.left_good = now;
            }
            Rung::Avoided => self.health = DriveHealth::Avoided,
            Rung::Suspect | Rung::Failed => self.health = DriveHealth::Suspect,
        }
        self.ladder.good_probes = 0;
        self.ladder.failed_probes = 0;
        self.ladder.since = now;
    }
}
