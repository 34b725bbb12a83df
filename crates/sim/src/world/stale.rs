//! Worlds in which a drive has what it held before when the machine starts again: a snapshot of it
//! was put back, or what has its name is a copy of long ago.
//!
//! What it holds then counts as lost until it is restored, so no other drive may be. Its labels
//! tell: between the image and its coming back the pool was opened at least once.

use engine::{DriveState, Pool, ScrubState};
use io::rng::{Rng, mix};
use io::virt::{Disk, VirtEnv};
use io::{Env, Nanos};

use super::World;
use crate::failure::{Check, Failure};

/// So many are kept.
const IMAGES_MAX: usize = 6;
/// Tenths of a second of virtual time in which a drive is restored; there is little in it.
const RESTORED_MAX: u64 = 3_000;

/// What a drive held whenever the machine was off, with how often the pool had been opened by then.
#[derive(Default)]
pub(super) struct Images {
    opened: u64,
    kept: Vec<(u64, Disk)>,
}

impl Images {
    /// The pool was opened, and its labels told so.
    pub(super) fn opened(&mut self) {
        self.opened += 1;
    }
}

impl World {
    /// The machine is off.
    pub(super) fn put_back(&mut self) {
        let Some(drive) = self.plan.stale else { return };
        // Other worlds draw nothing for it.
        let mut rng = Rng::new(mix(self.plan.seed) ^ mix(self.session ^ 0x57a1e));
        let Images { opened, kept } = &mut self.images;
        let older = kept.iter().filter(|(when, _)| when < opened).count();
        kept.push((*opened, self.machine.disks[drive].fork()));
        if older > 0 && rng.chance(1, 2) {
            let (when, image) = &kept[rng.index(older)];
            self.machine.disks[drive] = image.fork();
            let ago = *opened - when;
            self.context.tell(|| format!("drive {drive} is as it was {ago} openings ago"));
            self.context.count(|tally| tally.put_back += 1);
        }
        kept.drain(..kept.len().saturating_sub(IMAGES_MAX));
    }

    /// The drive is whole again, and nothing on it is of before.
    pub(super) fn scrub_restored(&mut self, pool: &Pool<VirtEnv>) -> Result<(), Failure> {
        if self.plan.stale.is_none() {
            return Ok(());
        }
        let wrong = |what: String| Err(Failure::new(Check::Audit, what));
        let states = || pool.status().drives.into_iter().map(|drive| drive.state);
        let env = self.machine.env.clone();
        let restored = async {
            for _ in 0..RESTORED_MAX {
                if states().all(|state| state == DriveState::Active) {
                    return true;
                }
                env.sleep_until(env.now() + Nanos::from_millis(100)).await;
            }
            false
        };
        if !self.complete("restoring", restored)? {
            return wrong(format!("not restored: {:?}", states().collect::<Vec<_>>()));
        }
        let status = self.scrub(pool)?;
        let bad = status.bad_pages + status.repaired_parity + status.lost_pages;
        match status.state == ScrubState::Done && bad == 0 {
            true => Ok(()),
            false => wrong(format!("not as it was written: {status:?}")),
        }
    }
}
