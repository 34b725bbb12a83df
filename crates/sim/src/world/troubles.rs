//! Lets happen to drives what the plan says.

use io::{DriveErrorKind, Env, Nanos, Operation};

use super::World;
use super::plan::{Trouble, What};

/// Input/output error.
const EIO: i32 = 5;

impl World {
    /// Arms this session's troubles: those that begin with the opening, or the others.
    pub(super) fn arm_troubles(&mut self, from_opening: bool) {
        let session = self.session;
        let here =
            |trouble: &&Trouble| trouble.session == session && trouble.from_opening == from_opening;
        let troubles: Vec<Trouble> = self.plan.troubles.iter().filter(here).copied().collect();
        for trouble in troubles {
            if self.machine.unplugged.contains(&trouble.drive) {
                continue;
            }
            self.context.tell(|| trouble.to_string());
            self.context.count(|tally| tally.troubles += 1);
            self.arm(trouble);
        }
    }

    fn arm(&mut self, trouble: Trouble) {
        let disk = &self.machine.disks[trouble.drive];
        match trouble.what {
            What::WriteError { nth } => disk.fail_nth_write(nth),
            What::ReadError { nth } => disk.fail_nth_read(nth),
            What::FlushError { nth } => {
                disk.fail_nth(Operation::Flush, nth, DriveErrorKind::Os(EIO));
            }
            What::Dies { after } => self.dies(trouble.drive, after),
            What::Slow { .. } => {}
        }
    }

    fn dies(&self, drive: usize, after: Nanos) {
        let disk = self.machine.disks[drive].clone();
        let env = self.machine.env.clone();
        let (moment, clock, context) = (env.now() + after, env.clone(), self.context.clone());
        env.spawn(async move {
            clock.sleep_until(moment).await;
            context.tell(|| format!("drive {drive} dies"));
            disk.set_failed(true);
        });
    }

    /// As worlds of the first generations draw their troubles: while they run.
    pub(super) fn start_first_troubles(&mut self) {
        for victim in self.plan.victims.clone() {
            if self.machine.unplugged.contains(&victim) {
                continue;
            }
            let number = self.rng.below(6);
            let what = match number {
                0 => What::WriteError { nth: 1 + self.rng.below(200) },
                1 => What::ReadError { nth: 1 + self.rng.below(100) },
                2 => What::FlushError { nth: 1 + self.rng.below(10) },
                3 => What::Dies { after: Nanos::from_micros(self.rng.below(100_000)) },
                _ => continue,
            };
            let session = self.session;
            let number = number as usize;
            let trouble = Trouble { number, session, drive: victim, from_opening: false, what };
            self.context.tell(|| trouble.to_string());
            self.arm(trouble);
        }
    }
}
