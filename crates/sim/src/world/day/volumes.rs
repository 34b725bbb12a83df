//! What operators do to volumes.

use engine::VolumeLimits;

use super::Day;
use crate::failure::Failure;
use crate::world::client::Client;
use crate::world::session::refused;

const VOLUMES_MAX: usize = 6;
const VOLUMES_MIN: usize = 3;
/// Volumes get so much smaller at most, and never smaller than this.
const SHRINK_MOST: u64 = 1 << 20;
const BYTES_LEAST: u64 = 2 << 20;

impl Day {
    fn bytes_of_all(&self) -> u64 {
        let oracle = self.world.context.oracle.borrow();
        oracle.names().iter().map(|name| oracle.volume(name).bytes()).sum()
    }

    fn draw_volume(&mut self) -> String {
        let volumes = &self.world.plan.volumes;
        volumes[self.world.rng.index(volumes.len())].name.clone()
    }

    /// Those of the plan that are missing, each written from end to end, and then used.
    pub(super) fn make_volumes(&mut self) -> Result<(), Failure> {
        let pool = self.pool.clone();
        self.world.make_volumes(&pool)?;
        for plan in self.world.plan.volumes.clone() {
            if self.shifts.iter().any(|shift| *shift.volume == *plan.name) {
                continue;
            }
            let client = self.world.client(&pool, &plan, 0xf111);
            self.world.complete("filling", Client::fill(client))?;
        }
        self.begin_shifts();
        Ok(())
    }

    pub(super) fn create_volume(&mut self) -> Result<bool, Failure> {
        let plan = &self.world.plan;
        let full = self.bytes_of_all() > plan.day_bytes() * 11 / 10;
        if full || plan.volumes.len() >= VOLUMES_MAX {
            return Ok(false);
        }
        let mut rng = io::rng::Rng::new(self.world.rng.next_u64());
        let plan = self.world.plan.draw_day_volume(self.volumes_made, &mut rng);
        self.volumes_made += 1;
        self.world.plan.volumes.push(plan);
        self.make_volumes()?;
        Ok(true)
    }

    pub(super) fn delete_volume(&mut self) -> Result<bool, Failure> {
        let few = self.world.plan.volumes.len() <= VOLUMES_MIN;
        if few || self.bytes_of_all() < self.world.plan.day_bytes() * 9 / 10 {
            return Ok(false);
        }
        let name = self.draw_volume();
        self.end_shifts(Some(&name))?;
        self.world.plan.volumes.retain(|volume| volume.name != name);
        let pool = self.pool.clone();
        self.world.delete_volume(&pool, &name)?;
        Ok(true)
    }

    /// While its clients use it.
    pub(super) fn grow_volume(&mut self) -> Result<bool, Failure> {
        if self.bytes_of_all() > self.world.plan.day_bytes() * 12 / 10 {
            return Ok(false);
        }
        let Some(growth) = self.world.draw_growth() else { return Ok(false) };
        let grown = growth.happen(self.world.context(), self.pool.clone());
        self.world.complete("growing", grown)?;
        Ok(true)
    }

    /// What is behind its new end is discarded first.
    pub(super) fn shrink_volume(&mut self) -> Result<bool, Failure> {
        let name = self.draw_volume();
        let bytes = self.world.context.oracle.borrow().volume(&name).bytes();
        let by = (1 + self.world.rng.below(SHRINK_MOST / 4096)) * 4096;
        if bytes < BYTES_LEAST + by || self.bytes_of_all() < self.world.plan.day_bytes() {
            return Ok(false);
        }
        // A multiple of pages, whatever it was.
        let less = (bytes - by) / 4096 * 4096;
        self.end_shifts(Some(&name))?;
        self.flush()?;
        self.tell(|| format!("volume {name} is to have only {less} bytes"));
        let oracle = self.world.context();
        let write = oracle.oracle.borrow_mut().write_begins(&name, less, bytes - less, true);
        let pool = self.pool.clone();
        let volume = pool.volume(&name).expect("it is in the plan");
        let trimmed = self.world.complete("trim", volume.trim(less, bytes - less, true))?;
        trimmed.map_err(|error| refused(&format!("trim {name}"), &error))?;
        oracle.oracle.borrow_mut().write_ends(&name, write, true, true);
        drop(volume);
        let done = self.world.complete("shrinking", pool.volume_resize(&name, less))?;
        done.map_err(|error| refused(&format!("shrink {name}"), &error))?;
        oracle.oracle.borrow_mut().shrunk(&name, less);
        self.begin_shifts();
        Ok(true)
    }

    pub(super) fn limit_volumes(&mut self) -> Result<bool, Failure> {
        self.world.limit_volumes(&self.pool.clone())?;
        Ok(true)
    }

    pub(super) fn lift_limits(&mut self) -> Result<(), Failure> {
        let names = self.world.context.oracle.borrow().names();
        for name in names {
            if self.world.limits.remove(&name).is_none_or(|old| old == VolumeLimits::default()) {
                continue;
            }
            let lift = self.pool.volume_limit(&name, VolumeLimits::default());
            let lifted = self.world.complete("lifting limits", lift)?;
            lifted.map_err(|error| refused(&format!("limit {name}"), &error))?;
        }
        Ok(())
    }
}
