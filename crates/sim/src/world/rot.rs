//! Worlds in which one drive does not keep what it was given: pages change at rest, writes are lost
//! or go elsewhere and are reported as done. It never says so; the checksums have to.
//!
//! What that drive holds counts as lost, so no other may be. What is asked: every read right,
//! always; and once the drive is sound again, a scrub that leaves nothing wrong.

use engine::{Pool, ScrubState, ScrubStatus, plan_create};
use io::faulty::{Effect, Fault};
use io::rng::{Rng, mix};
use io::virt::VirtEnv;
use io::{Env, Nanos, Operation};

use super::World;
use super::plan::{MIB, alike};
use crate::failure::{Check, Failure};

const PAGE: u64 = 4096;
/// Chance of a write to be lost, and to go elsewhere.
const LOST_PER_MILLION: u32 = 20_000;
const MISDIRECTED_PER_MILLION: u32 = 5_000;
/// Pages that change at once, at most.
const PAGES_MAX: u64 = 200;
/// Virtual time in which a pool is scrubbed; there is little in it.
const SCRUB_MAX: u64 = 600;

impl World {
    /// Everything on the drive but its labels: a drive without any is not ours.
    pub(super) fn rotting_range(&self) -> std::ops::Range<u64> {
        let drives = alike(self.plan.drives, self.plan.drive_bytes);
        let plan = plan_create(&drives, &self.plan.spec).expect("the pool was made so");
        let zones = (MIB + plan.journal_bytes + plan.metadata_bytes).next_multiple_of(MIB);
        MIB..zones + u64::from(plan.zones) * plan.zone_bytes
    }

    /// Pages of the drive change while nobody looks.
    pub(super) fn rot_at_rest(&mut self) {
        let Some(drive) = self.plan.rots else { return };
        let range = self.rotting_range();
        let mut rng = Rng::new(mix(self.rng.next_u64()));
        rot(&self.machine.disks[drive], &range, &mut rng);
        self.context.tell(|| format!("drive {drive} rots"));
    }

    /// It goes on doing so while clients run, and writes badly.
    pub(super) fn rot_beside(&mut self) -> impl Future<Output = ()> + use<> {
        let drive = self.plan.rots;
        // Other worlds draw nothing for it.
        let mut rng = Rng::new(drive.map_or(0, |_| mix(self.rng.next_u64())));
        let env = self.machine.env.clone();
        let range = drive.map_or(0..0, |_| self.rotting_range());
        let disk = drive.map(|drive| self.machine.disks[drive].clone());
        if let Some(drive) = drive {
            let to = range.start + rng.below((range.end - range.start) / PAGE - 64) * PAGE;
            let chances = [
                (Effect::Lost, LOST_PER_MILLION),
                (Effect::Misdirected { to: Some(to) }, MISDIRECTED_PER_MILLION),
            ];
            for (effect, chance) in chances {
                let fault = Fault::new(effect).on(Operation::Write).within(range.clone());
                let faults = &self.machine.faults[drive];
                faults.arm(env.now(), fault.with_chance(chance)).expect("it makes sense");
            }
        }
        async move {
            let Some(disk) = disk else { return };
            for _ in 0..rng.below(6) {
                env.sleep_until(env.now() + Nanos::from_micros(rng.below(20_000))).await;
                rot(&disk, &range, &mut rng);
            }
        }
    }

    /// The drive is sound from now on: a scrub puts everything right.
    pub(super) fn scrub_rot(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        let Some(drive) = self.plan.rots else { return Ok(()) };
        self.machine.faults[drive].release_all();
        for pass in 0..2 {
            let status = self.scrub(pool)?;
            let repairs = status.bad_pages + status.repaired_parity + status.metadata_repaired;
            self.context.count(|tally| tally.mended += repairs);
            let lost = status.lost_pages + pool.counters().lost_pages;
            let again = pass == 1 && status.bad_pages + status.repaired_parity > 0;
            if status.state != ScrubState::Done || lost > 0 || again {
                let what = format!("scrub {pass} ended so: {status:?}, {lost} pages lost");
                return Err(Failure::new(Check::Liveness, what));
            }
        }
        Ok(())
    }

    /// One pass over all that is stored.
    pub(super) fn scrub(&mut self, pool: &Pool<VirtEnv>) -> Result<ScrubStatus, Failure> {
        let begun = pool.scrub_start();
        begun.map_err(|error| {
            Failure::new(Check::Liveness, format!("a scrub does not begin: {error}"))
        })?;
        let env = self.machine.env.clone();
        let done = async {
            for _ in 0..SCRUB_MAX {
                if pool.scrub_status().state != ScrubState::Running {
                    break;
                }
                env.sleep_until(env.now() + Nanos::from_millis(100)).await;
            }
        };
        self.complete("scrub", done)?;
        let status = pool.scrub_status();
        self.context.tell(|| format!("scrubbed: {status:?}"));
        Ok(status)
    }
}

pub(super) fn rot(disk: &io::virt::Disk, range: &std::ops::Range<u64>, rng: &mut Rng) {
    for _ in 0..1 + rng.below(PAGES_MAX) {
        let page = range.start + rng.below((range.end - range.start) / PAGE) * PAGE;
        let len = 1 + rng.below(16);
        disk.corrupt(page + rng.below(PAGE - len), len, rng.next_u64());
    }
}
