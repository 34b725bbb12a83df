//! What goes wrong with drives in a world, beside power and plugs.

use std::fmt;

use io::faulty::fault::MILLION;
use io::faulty::schedule::{Entry, When};
use io::faulty::{Delay, Effect, Fault, Kind, Limits, Schedule};
use io::rng::Rng;
use io::{Nanos, Operation};

use super::{MIB, Plan, Run};

/// One thing that goes wrong with one drive in one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Its name, for the reduction of worlds.
    pub number: usize,
    pub session: u64,
    pub drive: usize,
    /// Already while the pool is opened, not only once clients run.
    pub from_opening: bool,
    pub entry: Entry,
}

/// The number of the session after all others.
pub const LAST_SESSION: u64 = 0;
/// Faults begin within the time that clients take for some hundred requests,
const SPAN: Nanos = Nanos::from_millis(60);
/// or within the operations of a drive for these.
const OPERATIONS: u64 = 400;
/// Hangs and disappearances are over after this.
const SPELL_MAX: Nanos = Nanos::from_secs(1);
/// Each operation may take this much longer for as long as a spell; a request is a chain of a
/// dozen operations.
const DELAY_MAX: Nanos = Nanos::from_millis(50);
/// One world in so many has drives with long tails.
const TAILS_ONE_IN: u64 = 6;

impl Trouble {
    /// True if data may be lost with it: only as many drives as the parity bears may have such
    /// trouble. Slowness may hit any.
    pub fn costs_redundancy(&self) -> bool {
        !matches!(self.entry.fault.effect.kind(), Kind::Delay | Kind::Slow | Kind::Hang)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trouble { number, drive, from_opening, entry, .. } = self;
        let since = if *from_opening { "the opening" } else { "here" };
        write!(f, "trouble {number} of drive {drive}, counted from {since}: {entry}")
    }
}

/// Faults that redundancy is there for: errors that are told, and drives that go.
const LOSSES: [Kind; 4] = [Kind::Error, Kind::Error, Kind::Torn, Kind::Gone];
const DELAYS: [Kind; 3] = [Kind::Delay, Kind::Slow, Kind::Hang];

fn draw_entry(plan: &Plan, rng: &mut Rng, kinds: &[Kind]) -> Entry {
    let kind = kinds[rng.index(kinds.len())];
    let limits = Limits {
        span: SPAN,
        operations: OPERATIONS,
        longest: if kind == Kind::Delay { DELAY_MAX } else { SPELL_MAX },
        // Errors by range mostly lie where data is: the beginning of the drive's zones.
        bytes: if rng.chance(1, 2) { plan.drive_bytes } else { 8 * MIB },
        faults: 1,
        kinds: vec![kind],
    };
    let schedule = Schedule::draw(rng.next_u64(), &limits);
    let mut entry = schedule.entries.into_iter().next().expect("one was asked for");
    // What is torn and reported as done is a canary, not a fault that anybody could bear.
    if let Effect::Torn { lying, .. } = &mut entry.fault.effect {
        *lying = false;
    }
    entry
}

/// Trouble for all sessions of a world.
pub(super) fn draw(plan: &mut Plan, rng: &mut Rng) {
    let delays = rng.chance(1, 3);
    for session in all_sessions(plan) {
        draw_losses(plan, rng, session);
        if delays {
            draw_delays(plan, rng, session);
        }
    }
    if rng.chance(1, TAILS_ONE_IN) {
        draw_tails(plan, rng);
    }
}

pub(super) fn all_sessions(plan: &Plan) -> Vec<u64> {
    let last = (plan.run == Run::Liveness).then_some(LAST_SESSION);
    plan.sessions.iter().copied().chain(last).collect()
}

/// What victims suffer in one session.
pub(super) fn draw_losses(plan: &mut Plan, rng: &mut Rng, session: u64) {
    for victim in plan.victims.clone() {
        for _ in 0..rng.below(3) {
            add(plan, rng, session, victim, &LOSSES);
        }
    }
}

/// Hesitation of any drives in one session.
pub(super) fn draw_delays(plan: &mut Plan, rng: &mut Rng, session: u64) {
    for _ in 0..rng.below(4) {
        let drive = rng.index(plan.drives);
        add(plan, rng, session, drive, &DELAYS);
    }
}

/// All drives are as some real ones: of reads, or of writes, a part takes long, all the time.
/// Common is then what is rare elsewhere: reads that outlive what they read, journal blocks that
/// arrive in another order.
fn draw_tails(plan: &mut Plan, rng: &mut Rng) {
    let operation = if rng.chance(1, 2) { Operation::Read } else { Operation::Write };
    let delay = Delay::Exponential { mean: Nanos::from_millis(1 << rng.below(4)) };
    let fault = Fault::new(Effect::Delay(delay)).on(operation).with_chance(MILLION >> rng.below(5));
    for session in plan.sessions.clone() {
        for drive in 0..plan.drives {
            let entry = Entry { when: When::At(Nanos::ZERO), fault: fault.clone() };
            let number = plan.troubles.len() + 1;
            plan.troubles.push(Trouble { number, session, drive, from_opening: false, entry });
        }
    }
}

fn add(plan: &mut Plan, rng: &mut Rng, session: u64, drive: usize, kinds: &[Kind]) {
    let number = plan.troubles.len() + 1;
    let from_opening = rng.chance(1, 3);
    let entry = draw_entry(plan, rng, kinds);
    plan.troubles.push(Trouble { number, session, drive, from_opening, entry });
}
