//! The end of a day: no more faults, and then all must be there, whole and at rest.

use engine::{DriveOverride, ScrubState};
use io::Nanos;

use super::books::{Entry, check_flat};
use super::{Day, DayReport};
use crate::failure::{Check, Failure};
use crate::world::exchanges::is_copied;
use crate::world::session::{facts_of, refused};

/// Virtual time in which whatever was begun must be over.
const OVER_WITHIN: Nanos = Nanos::from_secs(600);
/// A look so many hours ago was one at the end.
const MOMENT: f64 = 0.1;
const STEP: Nanos = Nanos::from_millis(500);

impl Day {
    pub(super) fn ends(mut self, each: &mut dyn FnMut(&Entry)) -> Result<DayReport, Failure> {
        if self.entries.last().is_none_or(|last| last.hours + MOMENT < self.hours()) {
            self.look(each)?;
        }
        self.end_shifts(None)?;
        self.faults_end()?;
        let pool = self.pool.clone();
        self.world.becomes_complete(&pool)?;
        self.world.becomes_whole(&pool)?;
        self.world.becomes_balanced(&pool)?;
        self.world.all_comes_home(&pool)?;
        self.scrub_all()?;
        self.flush()?;
        self.read_all()?;
        self.world.comes_to_rest(&pool)?;
        self.world.check_backlog(&pool)?;
        self.world.audit(&pool)?;
        self.world.note_counters(&pool);
        self.world.close_and_open_again(pool)?;
        self.pool = self.world.open()?;
        self.world.leaks_nothing(self.pool.clone())?;
        check_flat(&self.entries, self.hours_up())?;
        Ok(self.report())
    }

    fn faults_end(&mut self) -> Result<(), Failure> {
        self.world.machine.faults.iter().for_each(|faults| faults.release_all());
        self.spells.clear();
        self.rebuild_resume()?;
        self.lift_limits()?;
        for drive in 0..self.world.plan.drives as u16 {
            let decided = self.pool.drive_decide(drive, DriveOverride::Automatic);
            decided.map_err(|error| refused("decide", &error))?;
        }
        self.wait_for("copies end", |day| !is_copied(&day.pool))?;
        // Twice: see there.
        for _ in 0..2 {
            self.sleep(STEP)?;
            self.settle_copies();
        }
        Ok(())
    }

    /// Whatever rotted is put right.
    fn scrub_all(&mut self) -> Result<(), Failure> {
        self.pool.scrub_stop();
        self.wait_for("a scrub stops", |day| {
            !matches!(day.pool.scrub_status().state, ScrubState::Running | ScrubState::Paused)
        })?;
        self.scrub_start()?;
        self.wait_for("a scrub ends", |day| day.pool.scrub_status().state != ScrubState::Running)?;
        let scrub = self.pool.scrub_status();
        if scrub.state != ScrubState::Done || scrub.lost_pages > 0 {
            let what = format!("the last scrub ended so: {scrub:?}");
            return Err(Failure::new(Check::Liveness, what));
        }
        self.rot = None;
        Ok(())
    }

    fn wait_for(&mut self, what: &str, over: impl Fn(&Day) -> bool) -> Result<(), Failure> {
        let until = self.now() + OVER_WITHIN;
        while !over(self) {
            if self.now() > until {
                let what = format!("it does not come about that {what}: {}", facts_of(&self.pool));
                return Err(Failure::new(Check::Liveness, what));
            }
            self.sleep(STEP)?;
        }
        Ok(())
    }
}
