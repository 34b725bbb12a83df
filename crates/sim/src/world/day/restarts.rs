//! Machines die and are started again, pools are closed and opened.

use io::Nanos;

use super::Day;
use crate::failure::Failure;
use crate::machine::Death;

/// When the machine stays up, in percent of the day: what an engine loses by and by is gone when
/// it is opened again, and is to be seen.
const STAYS_UP_FROM: u64 = 50;
const STAYS_UP_TO: u64 = 90;
/// Every other machine dies within so long of the beginning of a burst.
const BURST_MAX: Nanos = Nanos::from_secs(4);
/// For how long a machine is off.
const OFF_MAX: Nanos = Nanos::from_secs(300);

impl Day {
    fn stays_up(&self) -> bool {
        (STAYS_UP_FROM..STAYS_UP_TO).contains(&self.percent())
    }

    /// The same, in hours of the day.
    pub(super) fn hours_up(&self) -> std::ops::Range<f64> {
        let hours = self.span.0 as f64 / super::HOUR as f64;
        hours * STAYS_UP_FROM as f64 / 100.0..hours * STAYS_UP_TO as f64 / 100.0
    }

    /// In the midst of whatever clients and the background do.
    pub(super) fn crash(&mut self) -> Result<bool, Failure> {
        if self.stays_up() {
            return Ok(false);
        }
        if self.world.rng.chance(1, 2) {
            // While much is on its way.
            self.tide.burst(self.now() + BURST_MAX);
            let span = Nanos(self.world.rng.below(BURST_MAX.0));
            self.sleep(span)?;
        }
        self.world.note_counters(&self.pool);
        self.world.tell_injections();
        let death = Death::draw(&mut self.world.rng);
        self.world.context.count(|tally| tally.deaths += 1);
        self.world.die(death);
        self.start_again()?;
        Ok(true)
    }

    pub(super) fn close_and_open(&mut self) -> Result<bool, Failure> {
        if self.stays_up() {
            return Ok(false);
        }
        self.end_shifts(None)?;
        let pool = self.pool.clone();
        self.world.close(pool)?;
        self.start_again()?;
        Ok(true)
    }

    /// Clients, faults and what operators said for the time being ended with the machine.
    fn start_again(&mut self) -> Result<(), Failure> {
        self.shifts.clear();
        self.world.end_troubles();
        let now = self.now();
        self.spells.iter_mut().for_each(|spell| spell.until = spell.until.min(now));
        (self.rebuild_paused_at, self.degraded_since) = (None, None);
        let off = Nanos(self.world.rng.below(OFF_MAX.0));
        self.sleep(off)?;
        self.plug_drives();
        self.world.look_sometimes()?;
        self.pool = self.world.open_dying()?;
        (self.copied, self.told) = (true, 0);
        self.begin_shifts();
        Ok(())
    }

    /// A drive that is dead can't be opened, and of the others one may not be plugged in, if it
    /// can be done without.
    fn plug_drives(&mut self) {
        let machine = &mut self.world.machine;
        machine.unplugged =
            (0..machine.disks.len()).filter(|&at| machine.disks[at].is_failed()).collect();
        if !self.world.rng.chance(1, 4) {
            return;
        }
        let Some(drive) = self.draw_victim() else { return };
        self.tell(|| format!("drive {drive} is not plugged in"));
        self.world.machine.unplugged.insert(drive);
        self.world.pulled_out.insert(drive);
        self.world.context.count(|tally| tally.drives_lost += 1);
    }
}
