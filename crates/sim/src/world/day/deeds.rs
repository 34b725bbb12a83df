//! What happens next, drawn from all that may.

use engine::ScrubState;
use io::Nanos;

use super::Day;
use crate::failure::Failure;
use crate::world::session::refused;

/// Between two deeds: two minutes and three quarters on average.
const PAUSE_MIN: Nanos = Nanos::from_secs(30);
const PAUSE_MAX: Nanos = Nanos::from_secs(300);
/// Deeds that are drawn until one is possible.
const DRAWS_MAX: usize = 8;
const BURST_MIN: Nanos = Nanos::from_secs(5);
const BURST_MAX: Nanos = Nanos::from_secs(40);
/// An operator who has said that rebuilding is to wait has it go on before long.
const REBUILD_PAUSE_MAX: Nanos = Nanos::from_secs(1200);
/// A drive that rots is scrubbed before long.
const ROT_MAX: Nanos = Nanos::from_secs(1800);

type Act = fn(&mut Day) -> Result<bool, Failure>;

/// Name, how often in parts of the sum, and the deed; false if there is no occasion for it.
const DEEDS: &[(&str, u64, Act)] = &[
    ("volume created", 8, Day::create_volume),
    ("volume deleted", 6, Day::delete_volume),
    ("volume grown", 5, Day::grow_volume),
    ("volume shrunk", 5, Day::shrink_volume),
    ("volumes limited", 3, Day::limit_volumes),
    ("drive failed by an operator", 4, Day::fail_drive),
    ("drive replaced", 30, Day::replace_drive),
    ("drive exchanged", 8, Day::exchange_drive),
    ("drive removed", 4, Day::remove_drive),
    ("drive to stay", 2, Day::stay_drive),
    ("drive sits out, or not", 8, Day::decide_drive),
    ("drives added", 8, Day::add_drives),
    ("scrub begun", 8, Day::scrub_start),
    ("scrub paused", 3, Day::scrub_pause),
    ("scrub resumed", 3, Day::scrub_resume),
    ("scrub stopped", 2, Day::scrub_stop),
    ("rebalance begun", 6, Day::rebalance),
    ("rebalance stopped", 2, Day::rebalance_stop),
    ("rebuild paused", 3, Day::rebuild_pause),
    ("rebuild resumed", 4, Day::rebuild_resume),
    ("checkpoint", 3, Day::checkpoint),
    ("burst of requests", 3, Day::burst),
    ("drive dies", 5, Day::dies),
    ("drive hangs", 6, Day::hang),
    ("drive answers with errors", 4, Day::errors),
    ("drive vanishes for a while", 3, Day::vanish),
    ("drive is slow", 4, Day::slow),
    ("drive spikes", 6, Day::spike),
    ("drive rots", 4, Day::rots),
    ("power cut or crash", 4, Day::crash),
    ("pool closed and opened", 3, Day::close_and_open),
];

impl Day {
    pub(super) fn draw_pause(&mut self) -> Nanos {
        Nanos(PAUSE_MIN.0 + self.world.rng.below(PAUSE_MAX.0 - PAUSE_MIN.0))
    }

    fn draw(&mut self) -> (&'static str, Act) {
        let sum = DEEDS.iter().map(|(_, parts, _)| parts).sum();
        let mut at = self.world.rng.below(sum);
        for &(name, parts, act) in DEEDS {
            if at < parts {
                return (name, act);
            }
            at -= parts;
        }
        unreachable!("the parts add up")
    }

    pub(super) fn deed(&mut self) -> Result<(), Failure> {
        self.duties()?;
        for _ in 0..DRAWS_MAX {
            let (name, act) = self.draw();
            let before = self.now();
            if self.with_name(name, act)? {
                *self.done.entry(name).or_default() += 1;
                self.tell(|| format!("{name}, since {before}"));
                return Ok(());
            }
        }
        Ok(())
    }

    /// A failure says in which deed it was.
    fn with_name(&mut self, name: &str, act: Act) -> Result<bool, Failure> {
        act(self).map_err(|failure| Failure {
            what: format!("{} (after {:.2} h, {name})", failure.what, self.hours()),
            ..failure
        })
    }

    /// What no operator leaves undone for long.
    fn duties(&mut self) -> Result<(), Failure> {
        let now = self.now();
        let late = |since: Nanos, most: Nanos| now.saturating_sub(since) > most;
        if self.rebuild_paused_at.is_some_and(|since| late(since, REBUILD_PAUSE_MAX)) {
            self.rebuild_resume()?;
        }
        let rots = self.rot.as_ref().is_some_and(|rot| late(rot.since, ROT_MAX));
        if rots {
            let scrub = self.pool.scrub_status();
            match scrub.state {
                ScrubState::Paused => self.scrub_resume()?,
                ScrubState::Running => true,
                _ => self.scrub_start()?,
            };
        }
        Ok(())
    }

    pub(super) fn scrub_start(&mut self) -> Result<bool, Failure> {
        let before = self.pool.scrub_status().state;
        self.pool.scrub_start().map_err(|error| refused("scrub", &error))?;
        Ok(before != ScrubState::Running)
    }

    fn scrub_pause(&mut self) -> Result<bool, Failure> {
        let running = self.pool.scrub_status().state == ScrubState::Running;
        self.pool.scrub_pause();
        Ok(running)
    }

    pub(super) fn scrub_resume(&mut self) -> Result<bool, Failure> {
        let paused = self.pool.scrub_status().state == ScrubState::Paused;
        self.pool.scrub_resume();
        Ok(paused)
    }

    fn scrub_stop(&mut self) -> Result<bool, Failure> {
        let state = self.pool.scrub_status().state;
        self.pool.scrub_stop();
        Ok(matches!(state, ScrubState::Running | ScrubState::Paused))
    }

    fn rebalance(&mut self) -> Result<bool, Failure> {
        let done = self.world.complete("rebalancing", self.pool.rebalance())?;
        done.map_err(|error| refused("rebalance", &error))?;
        Ok(true)
    }

    fn rebalance_stop(&mut self) -> Result<bool, Failure> {
        let done = self.world.complete("rebalancing", self.pool.rebalance_stop())?;
        done.map_err(|error| refused("stop rebalancing", &error))?;
        Ok(true)
    }

    fn rebuild_pause(&mut self) -> Result<bool, Failure> {
        if self.rebuild_paused_at.is_some() {
            return Ok(false);
        }
        self.pool.rebuild_pause();
        self.rebuild_paused_at = Some(self.now());
        Ok(true)
    }

    pub(super) fn rebuild_resume(&mut self) -> Result<bool, Failure> {
        self.pool.rebuild_resume();
        Ok(self.rebuild_paused_at.take().is_some())
    }

    fn burst(&mut self) -> Result<bool, Failure> {
        let span = BURST_MIN.0 + self.world.rng.below(BURST_MAX.0 - BURST_MIN.0);
        self.tide.burst(self.now() + Nanos(span));
        Ok(true)
    }
}
