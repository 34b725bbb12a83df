//! What fate does to drives, and how much of it a pool must bear at once.

use std::collections::BTreeSet;
use std::ops::Range;

use engine::ScrubState;
use io::faulty::{Delay, Effect, Fault, Ramp};
use io::rng::{Rng, mix};
use io::{DriveErrorKind, Nanos, Operation};

use super::Day;
use crate::failure::{Check, Failure};
use crate::world::rot;
use crate::world::session::{facts_of, refused};

/// A drive that had a spell counts as if it had one for so long after it: what was under way has
/// ended then, and the engine has flushed by itself.
const GRACE: Nanos = Nanos::from_secs(60);
/// Drives that are lost, let go of, or on their way out at once: for what more held, beside what
/// volumes of several widths may store, a pool of ten has no room.
pub(super) const OUT_MOST: usize = 3;
/// Hangs last up to twice the time after which a drive is failed.
const HANG_MIN: Nanos = Nanos::from_millis(100);
const HANG_DOUBLINGS: u64 = 10;
const HANG_MAX: Nanos = Nanos::from_secs(60);
const ERRORS_MAX: Nanos = Nanos::from_secs(30);
const GONE_MAX: Nanos = Nanos::from_secs(20);
/// Reads that fail while some do.
const READ_ERRORS_PER_MILLION: u32 = 200_000;
/// A slow drive takes ten times as long, for up to ten minutes; one that spikes, for as long
/// again as such a spike lasts, up to a tenth of a second more each time.
const SLOW: Ramp = Ramp { percent_per_second: u32::MAX, percent_max: 1000 };
const SLOW_MAX: Nanos = Nanos::from_secs(600);
const SPIKE_MAX: Nanos = Nanos::from_secs(5);
/// Virtual time in which redundancy comes back with nothing in its way: tens of times what that
/// takes, at the pace of work that yields to clients.
const REBUILT_WITHIN: Nanos = Nanos::from_secs(1200);
/// Input/output error.
const EIO: i32 = 5;

/// A drive that misbehaves for a while, so that what it holds counts as lost.
pub(super) struct Spell {
    pub drive: usize,
    pub until: Nanos,
}

/// A drive pages of which have changed since some moment, until a scrub has seen to it.
pub(super) struct Rot {
    pub drive: usize,
    pub since: Nanos,
}

impl Day {
    /// Drives that count as lost.
    pub(super) fn burden(&self) -> BTreeSet<usize> {
        let mut burden = BTreeSet::from_iter(self.missed());
        burden.extend(self.spells.iter().map(|spell| spell.drive));
        burden.extend(self.rot.iter().map(|rot| rot.drive));
        burden.extend(self.dead());
        burden
    }

    /// Disks that answer nothing, in places where the pool looks for something.
    fn dead(&self) -> Vec<usize> {
        let drives = self.pool.status().drives;
        let vacated = |at: usize| drives[at].state == engine::DriveState::Vacated;
        let disks = self.world.machine.disks.iter().enumerate();
        disks.filter(|(at, disk)| disk.is_failed() && !vacated(*at)).map(|(at, _)| at).collect()
    }

    /// An active drive that the pool can do without, beside all it does without already.
    pub(super) fn draw_victim(&mut self) -> Option<usize> {
        let parity = usize::from(self.world.plan.parity_least());
        let burden = self.burden();
        let mut active = self.world.active(&self.pool);
        // Beside those that may be lost another may be on its way out.
        let out: BTreeSet<usize> = self.draining().into_iter().chain(burden.clone()).collect();
        let stay = active.iter().filter(|drive| !out.contains(drive)).count();
        let copied = |at: &usize| self.world.machine.beside.iter().any(|one| one.at == *at);
        let many = self.world.plan.drives - stay >= OUT_MOST;
        // One that suffers already may suffer more.
        active.retain(|drive| !copied(drive));
        if burden.len() >= parity || many || stay <= self.world.widest() + 1 {
            active.retain(|drive| burden.contains(drive));
        }
        if active.is_empty() {
            return None;
        }
        let victim = active[self.world.rng.index(active.len())];
        self.guilty.insert(victim);
        self.troubled_at = self.now();
        Some(victim)
    }

    fn begin_spell(&mut self, drive: usize, effect: Effect, span: Nanos, narrow: Narrow) {
        let mut fault = Fault::new(effect).lasting(span).with_chance(narrow.per_million);
        if let Some(operation) = narrow.operation {
            fault = fault.on(operation);
        }
        let until = self.now() + span;
        self.tell(|| format!("drive {drive}: {fault}"));
        let armed = self.world.machine.faults[drive].arm(self.now(), fault);
        armed.expect("the fault makes sense");
        if narrow.costs {
            self.spells.push(Spell { drive, until });
            self.degraded_since = None;
        }
        self.world.context.count(|tally| tally.troubles += 1);
    }

    pub(super) fn hang(&mut self) -> Result<bool, Failure> {
        let Some(drive) = self.draw_victim() else { return Ok(false) };
        let most = HANG_MIN.0 << self.world.rng.below(HANG_DOUBLINGS);
        let span = Nanos((most + self.world.rng.below(most)).min(HANG_MAX.0));
        self.begin_spell(drive, Effect::Hang(None), span, Narrow::ALL);
        Ok(true)
    }

    pub(super) fn errors(&mut self) -> Result<bool, Failure> {
        let Some(drive) = self.draw_victim() else { return Ok(false) };
        let span = self.draw_span(ERRORS_MAX);
        let narrow = match self.world.rng.below(3) {
            0 => Narrow { operation: Some(Operation::Write), ..Narrow::ALL },
            1 => Narrow { operation: Some(Operation::Flush), ..Narrow::ALL },
            _ => Narrow {
                operation: Some(Operation::Read),
                per_million: READ_ERRORS_PER_MILLION,
                ..Narrow::ALL
            },
        };
        self.begin_spell(drive, Effect::Error(DriveErrorKind::Os(EIO)), span, narrow);
        Ok(true)
    }

    pub(super) fn vanish(&mut self) -> Result<bool, Failure> {
        let Some(drive) = self.draw_victim() else { return Ok(false) };
        let span = self.draw_span(GONE_MAX);
        self.begin_spell(drive, Effect::Gone, span, Narrow::ALL);
        Ok(true)
    }

    /// For good, or until somebody plugs it in again.
    pub(super) fn dies(&mut self) -> Result<bool, Failure> {
        let Some(drive) = self.draw_victim() else { return Ok(false) };
        self.tell(|| format!("drive {drive} dies"));
        self.world.machine.disks[drive].set_failed(true);
        self.world.pulled_out.insert(drive);
        self.world.context.count(|tally| tally.drives_lost += 1);
        self.degraded_since = None;
        Ok(true)
    }

    pub(super) fn slow(&mut self) -> Result<bool, Failure> {
        let drive = self.world.rng.index(self.world.plan.drives);
        let span = self.draw_span(SLOW_MAX);
        self.begin_spell(drive, Effect::Slow(SLOW), span, Narrow::FREE);
        Ok(true)
    }

    pub(super) fn spike(&mut self) -> Result<bool, Failure> {
        let drive = self.world.rng.index(self.world.plan.drives);
        let span = self.draw_span(SPIKE_MAX);
        let delay = Delay::Constant(Nanos::from_millis(1 + self.world.rng.below(100)));
        self.begin_spell(drive, Effect::Delay(delay), span, Narrow::FREE);
        Ok(true)
    }

    fn draw_span(&mut self, most: Nanos) -> Nanos {
        Nanos(1 + self.world.rng.below(most.0))
    }

    /// Pages change while nobody looks: of one drive, until a scrub has put them right.
    pub(super) fn rots(&mut self) -> Result<bool, Failure> {
        let drive = match &self.rot {
            Some(rot) => rot.drive,
            None => match self.draw_victim() {
                Some(drive) => drive,
                None => return Ok(false),
            },
        };
        let range: Range<u64> = self.rotting.clone();
        let mut rng = Rng::new(mix(self.world.rng.next_u64()));
        rot::rot(&self.world.machine.disks[drive], &range, &mut rng);
        self.tell(|| format!("drive {drive} rots"));
        self.rot = Some(Rot { drive, since: self.now() });
        Ok(true)
    }

    /// Before each deed and look: what is over, what must not be, what must be soon.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        let now = self.now();
        self.tell_events();
        self.spells.retain(|spell| now < spell.until + GRACE);
        let rots = self.rot.as_ref().map(|rot| rot.drive);
        if self.burden().into_iter().any(|drive| Some(drive) != rots) {
            self.troubled_at = now;
        }
        self.settle_copies();
        self.settle_rot()?;
        let counters = self.pool.counters();
        if counters.lost_pages > 0 {
            // Which copies and blocks of parity are wrong helps to understand it.
            let audited = self.world.complete("audit", self.pool.audit())?;
            self.tell(|| format!("audited: {audited:?}"));
            let rot = self.rot.as_ref().map(|rot| rot.drive);
            let what = format!(
                "pages are lost; drives {:?} count as lost, of them {rot:?} rots: {}",
                self.burden(),
                facts_of(&self.pool)
            );
            return Err(Failure::new(Check::Read, what));
        }
        if let Some(why) = self.pool.status().failed {
            return Err(Failure::new(Check::Request, format!("the pool has failed: {why}")));
        }
        if let Some(&drive) = self.missed().iter().find(|drive| !self.guilty.contains(drive)) {
            let what = format!("drive {drive} never failed: {}", facts_of(&self.pool));
            return Err(Failure::new(Check::Liveness, what));
        }
        // What one that works did before is over.
        let (burden, active) = (self.burden(), self.world.active(&self.pool));
        self.guilty.retain(|drive| burden.contains(drive) || !active.contains(drive));
        self.check_redundancy()
    }

    /// What is wrong on a drive comes back with it: only a scrub after that sees it.
    pub(super) fn rot_is_back(&mut self, drive: usize) {
        let now = self.now();
        if let Some(rot) = self.rot.as_mut().filter(|rot| rot.drive == drive) {
            rot.since = now;
        }
    }

    /// A scrub that began after the last change, with the drive and all others in use: where a
    /// block of data is missing, nobody can say whether parity is right.
    fn settle_rot(&mut self) -> Result<(), Failure> {
        let scrub = self.pool.scrub_status();
        if scrub.lost_pages > 0 {
            let what = format!("a scrub could not put all right: {scrub:?}");
            return Err(Failure::new(Check::Read, what));
        }
        let Some(rot) = &self.rot else { return Ok(()) };
        let used = self.world.active(&self.pool).contains(&rot.drive);
        let since = rot.since.max(self.troubled_at);
        if scrub.state != ScrubState::Done || scrub.started_nanos < since.0 || !used {
            return Ok(());
        }
        // Blocks of the journal are not scrubbed: none that matters is older than this.
        self.checkpoint()?;
        self.rot = None;
        let repairs = scrub.bad_pages + scrub.repaired_parity + scrub.metadata_repaired;
        self.world.context.count(|tally| tally.mended += repairs);
        Ok(())
    }

    /// With room and nothing in its way, redundancy comes back.
    fn check_redundancy(&mut self) -> Result<(), Failure> {
        let whole = self.world.is_complete(&self.pool);
        if whole || !self.spells.is_empty() || self.rebuild_paused_at.is_some() {
            self.degraded_since = None;
            return Ok(());
        }
        let since = *self.degraded_since.get_or_insert(self.now());
        if self.now().saturating_sub(since) > REBUILT_WITHIN {
            let rebuild = self.pool.status().rebuild;
            let what = format!(
                "redundancy does not come back within {REBUILT_WITHIN}: {rebuild:?}, {}",
                facts_of(&self.pool)
            );
            return Err(Failure::new(Check::Liveness, what));
        }
        Ok(())
    }

    pub(super) fn checkpoint(&mut self) -> Result<bool, Failure> {
        let done = self.world.complete("checkpoint", self.pool.checkpoint())?;
        done.map_err(|error| refused("checkpoint", &error))?;
        Ok(true)
    }
}

/// Which operations a spell befalls, and whether the drive counts as lost meanwhile.
#[derive(Clone, Copy)]
struct Narrow {
    operation: Option<Operation>,
    per_million: u32,
    costs: bool,
}

impl Narrow {
    const ALL: Narrow =
        Narrow { operation: None, per_million: io::faulty::fault::MILLION, costs: true };
    const FREE: Narrow = Narrow { costs: false, ..Narrow::ALL };
}
