//! Lets happen to drives what the plan says.

use io::faulty::{Effect, Fault, Kind, Schedule, Tear};
use io::{DriveErrorKind, Env, Nanos, Operation};

use super::plan::Trouble;
use super::{Canary, Generation, World};

/// Input/output error.
const EIO: i32 = 5;
/// How many of a drive's writes canaries spoil.
const CANARY_PER_MILLION: u32 = 100_000;
const CANARY_HANGS_AT: u64 = 30;
/// Kinds of faults after which a drive may be written off.
const LOSSES: [Kind; 3] = [Kind::Error, Kind::Torn, Kind::Gone];

impl World {
    /// Arms this session's troubles: those that begin with the opening, or the others.
    pub(super) fn arm_troubles(&mut self, from_opening: bool) {
        let session = self.session;
        let here =
            |trouble: &&Trouble| trouble.session == session && trouble.from_opening == from_opening;
        let now = self.machine.env.now();
        for trouble in self.plan.troubles.iter().filter(here) {
            self.context.tell(|| trouble.to_string());
            self.context.count(|tally| tally.troubles += 1);
            let schedule = Schedule { entries: vec![trouble.entry.clone()] };
            let faults = &self.machine.faults[trouble.drive];
            faults.follow(now, &schedule).expect("schedules make sense");
        }
    }

    /// The troubles of a session end with it.
    pub(super) fn end_troubles(&self) {
        if self.plan.generation >= Generation::Swarm {
            self.machine.faults.iter().for_each(|faults| faults.release_all());
        }
    }

    /// True if troubles may come while the pool is opened: what one opening sees the next may
    /// not.
    pub(super) fn is_troubled(&self) -> bool {
        self.plan.troubles.iter().any(|trouble| trouble.session == self.session)
    }

    /// True if the drive never failed anybody.
    pub(super) fn is_innocent(&self, drive: usize) -> bool {
        let faults = &self.machine.faults[drive];
        let fine = LOSSES.iter().all(|&kind| faults.count(kind) == 0);
        // Whoever hangs for long climbs the ladder to its end.
        let ladder = self.plan.generation >= Generation::Tails && self.plan.tails.spikes.ladder;
        let fine = fine && !(ladder && faults.count(Kind::Hang) > 0);
        fine && !self.pulled_out.contains(&drive)
    }

    /// What was done to whom, since the story was last told of it.
    pub(super) fn tell_injections(&mut self) {
        if !self.context.story.borrow().is_recording() {
            return;
        }
        for (drive, faults) in self.machine.faults.iter().enumerate() {
            let since = self.told_injections;
            let new = faults.log().into_iter().filter(|injection| injection.at >= since);
            for injection in new {
                let what = format!("drive {drive}: {injection}");
                self.context.story.borrow_mut().tell(self.machine.env.now(), what, None);
            }
        }
        self.told_injections = self.machine.env.now();
    }

    /// Breaks the contract of drive 0, or of all.
    pub(super) fn release_canary(&mut self) {
        let torn = Effect::Torn { tear: Tear::Sectors, lying: true };
        let sometimes = |effect| Fault::new(effect).with_chance(CANARY_PER_MILLION);
        let fault = match self.canary {
            None => return,
            Some(Canary::AllLie) => {
                return (0..self.plan.drives).for_each(|drive| self.machine.starts_lying(drive));
            }
            Some(Canary::OneLies) => return self.machine.starts_lying(0),
            Some(Canary::Rot) => return self.machine.rot(0),
            Some(Canary::Lost) => sometimes(Effect::Lost),
            Some(Canary::Torn) => sometimes(torn),
            Some(Canary::Misdirected) => sometimes(Effect::Misdirected { to: None }),
            Some(Canary::Hangs) => Fault::new(Effect::Hang(None)).nth(CANARY_HANGS_AT),
        };
        let now = self.machine.env.now();
        self.machine.faults[0].arm(now, fault).expect("the fault makes sense");
    }

    /// As worlds of the first generations draw their troubles: while they run.
    pub(super) fn start_first_troubles(&mut self) {
        for victim in self.plan.victims.clone() {
            if self.machine.unplugged.contains(&victim) {
                continue;
            }
            let disk = self.machine.disks[victim].clone();
            let what = match self.rng.below(6) {
                0 => {
                    disk.fail_nth_write(1 + self.rng.below(200));
                    "a write"
                }
                1 => {
                    disk.fail_nth_read(1 + self.rng.below(100));
                    "a read"
                }
                2 => {
                    let nth = 1 + self.rng.below(10);
                    disk.fail_nth(Operation::Flush, nth, DriveErrorKind::Os(EIO));
                    "a flush"
                }
                3 => {
                    let after = Nanos::from_micros(self.rng.below(100_000));
                    self.dies(victim, after);
                    "everything"
                }
                _ => continue,
            };
            self.context.tell(|| format!("drive {victim} will fail {what}"));
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
}
