//! Worlds in which more drives than parity stands for are gone at once, and all there again when
//! the machine starts: a shelf lost its power, a cable came loose.
//!
//! From that moment requests may be refused; what was flushed before must be there again.

use engine::Pool;
use io::rng::{Rng, mix};
use io::virt::{Disk, VirtEnv};
use io::{Env, Nanos};

use super::World;
use super::context::Context;
use super::returns::is_lost;
use crate::failure::Failure;

/// Drives go within this time of a session: most of its clients' requests.
const WITHIN_MICROS: u64 = 60_000;
/// One goes so much later than the one before, at most.
const APART_MICROS: u64 = 3_000;

/// Drives that will be gone, each at its moment.
pub(super) struct Shelf(Vec<(Nanos, usize, Disk)>);

impl Shelf {
    pub(super) async fn happen(self, context: &Context) {
        for (at, drive, disk) in self.0 {
            context.env.sleep_until(at).await;
            context.tell(|| format!("drive {drive} is gone with its shelf"));
            context.is_refused.set(true);
            disk.set_failed(true);
        }
    }
}

impl World {
    pub(super) fn draw_shelf(&self) -> Option<Shelf> {
        // Other worlds draw nothing for it.
        let mut rng = Rng::new(mix(self.plan.seed) ^ mix(self.session ^ 0x5e1f));
        if !self.plan.shelf || rng.chance(1, 4) {
            return None;
        }
        let drives = self.plan.drives;
        let mut gone: Vec<usize> = (0..drives).collect();
        rng.shuffle(&mut gone);
        let least = usize::from(self.plan.parity_least()) + 1;
        gone.truncate(least + rng.index(drives - least + 1));
        let mut at = self.machine.env.now() + Nanos::from_micros(rng.below(WITHIN_MICROS));
        let together = rng.chance(1, 2);
        let one = |drive: usize| {
            let apart = if together { 0 } else { rng.below(APART_MICROS) };
            at = at + Nanos::from_micros(apart);
            (at, drive, self.machine.disks[drive].clone())
        };
        Some(Shelf(gone.into_iter().map(one).collect()))
    }

    /// The machine starts, with all drives.
    pub(super) fn shelf_is_back(&self) {
        if self.context.is_refused.replace(false) {
            self.machine.disks.iter().for_each(|disk| disk.set_failed(false));
        }
    }

    /// Drives that were written off are taken back: `all` of them, or most.
    pub(super) fn take_back(&mut self, pool: &Pool<VirtEnv>, all: bool) -> Result<(), Failure> {
        if !self.plan.shelf {
            return Ok(());
        }
        for drive in 0..self.plan.drives {
            if is_lost(pool, drive) && (all || self.rng.chance(2, 3)) {
                let disk = self.machine.disks[drive].clone();
                self.replace(pool, drive, disk, "comes back")?;
            }
        }
        if all { self.until_whole(pool) } else { Ok(()) }
    }
}
